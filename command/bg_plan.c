/*
 * bg_plan.c - BG.PLAN: compares all kinds of filters for a given number of items and false-positive
 * rate.
 *
 * The reply is an array of maps, one for each kind. `chosen` marks the kind that KIND auto selects,
 * and `reason` explains why. A kind that does not support the request has an `error` field instead
 * of values.
 */
#include "bg_handlers.h"

#include <stdio.h>

/* ---- Request --------------------------------------------------------------------------------- */

static const struct plan_option {
    const char *word;
    size_t at;
    double most;
} plan_options[] = {
    { "GROWTH", offsetof(bg_plan_request, growth), 1e6 },
    { "QPS", offsetof(bg_plan_request, queries_per_second), 1e15 },
    { "ABSENT", offsetof(bg_plan_request, absent_share), 1 },
    { "CALLCOST", offsetof(bg_plan_request, call_cost), 1e15 },
    { "MEMORYCOST", offsetof(bg_plan_request, memory_cost), 1e15 },
    { "CALLTIME", offsetof(bg_plan_request, call_seconds), 1e15 },
    { "LATENCY", offsetof(bg_plan_request, latency_objective), 1e15 },
};

enum { PLAN_OPTIONS = sizeof plan_options / sizeof *plan_options };

/* Parses the option at argv[*i]. Returns false after sending an error. */
static bool plan_read_option(struct request *request, size_t *i, bg_plan_request *ask)
{
    const bg_bytes word = request->argv[*i];
    const bool there = ++*i < request->argc;
    char text[64];
    if (args_is(word, "KIND") && there
        && bgc_read_kind(request->argv[*i], &ask->spec.kind)) {
        return true;
    }
    for (size_t o = 0; o < PLAN_OPTIONS; o++) {
        double *to = (double *)(void *)((char *)ask + plan_options[o].at);
        if (args_is(word, plan_options[o].word)) {
            if (there && args_real(request->argv[*i], to) && *to > 0
                && *to <= plan_options[o].most) {
                return true;
            }
            reply_errorf(&request->reply, "ERR %s must be above 0 and at most %g",
                         plan_options[o].word, plan_options[o].most);
            return false;
        }
    }
    reply_errorf(&request->reply, "ERR Unknown argument received: '%s'",
                 args_show(word, text));
    return false;
}

static bool plan_read(struct request *request, bg_plan_request *ask)
{
    if (!args_count(request->argv[1], &ask->spec.items) || ask->spec.items == 0) {
        reply_error(&request->reply, "ERR bad capacity");
        return false;
    }
    if (!args_real(request->argv[2], &ask->spec.rate) || !(ask->spec.rate > 0)
        || ask->spec.rate >= 1) {
        reply_error(&request->reply, "ERR bad error rate");
        return false;
    }
    for (size_t i = 3; i < request->argc; i++) {
        if (!plan_read_option(request, &i, ask)) {
            return false;
        }
    }
    return true;
}

/* ---- Reply ----------------------------------------------------------------------------------- */

static void plan_real(struct request *request, const char *title, double value)
{
    reply_text(&request->reply, title);
    reply_real(&request->reply, value);
}

static void plan_count(struct request *request, const char *title, uint64_t value)
{
    reply_text(&request->reply, title);
    reply_integer(&request->reply, (int64_t)(value < INT64_MAX ? value : INT64_MAX));
}

static void plan_tell(struct request *request, const bg_plan_request *ask,
                      const bg_plan *plan, const bg_plan *chosen)
{
    const bool is_chosen = chosen && chosen->kind == plan->kind;
    const bool queries = ask->queries_per_second > 0;
    const bool costs = ask->call_cost > 0 || ask->memory_cost > 0;
    reply_map(&request->reply,
              12 + (size_t)(queries ? 2 : 0) + (size_t)costs + (size_t)is_chosen);
    reply_text(&request->reply, "kind");
    reply_text(&request->reply, bg_kind_name(plan->kind));
    plan_count(request, "bytes", plan->bytes);
    plan_real(request, "bits_per_key", plan->bits_per_key);
    plan_count(request, "k", plan->k);
    plan_real(request, "rate", plan->rate);
    plan_real(request, "rate_2x", plan->rate_2x);
    plan_real(request, "rate_10x", plan->rate_10x);
    plan_real(request, "fill", plan->fill);
    plan_count(request, "layers", plan->layers);
    plan_count(request, "cache_level", plan->cache_level);
    plan_count(request, "lines_per_lookup", plan->lines_per_lookup);
    if (queries) {
        plan_real(request, "calls_avoided", plan->calls_avoided);
        plan_real(request, "calls_wasted", plan->calls_wasted);
    }
    if (costs) {
        plan_real(request, "cost", plan->cost);
    }
    reply_text(&request->reply, "chosen");
    reply_boolean(&request->reply, is_chosen);
    if (is_chosen) {
        reply_text(&request->reply, "reason");
        reply_text(&request->reply, chosen->reason);
    }
}

static void plan_refuse(struct request *request, bg_kind kind, const bg_errinfo *info)
{
    char text[BG_ERR_MESSAGE_MAX + BG_ERR_EXPECTED_MAX],
        expected[2 * sizeof info->expected];
    bgc_words(info->expected, expected, sizeof expected);
    (void)snprintf(text, sizeof text, "%s: found %s, expected %s", bgc_word(info->what),
                   info->found, expected);
    reply_map(&request->reply, 2);
    reply_text(&request->reply, "kind");
    reply_text(&request->reply, bg_kind_name(kind));
    reply_text(&request->reply, "error");
    reply_text(&request->reply,
               info->what[0] && info->expected[0] ? text : info->message);
}

void bgc_plan(struct request *request)
{
    static const bg_kind kinds[] = {
#define PLAN_KIND(NAME, number, name) BG_KIND_##NAME,
        BG_KINDS(PLAN_KIND)
#undef PLAN_KIND
    };
    enum { KINDS = sizeof kinds / sizeof *kinds };
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan chosen, plan;
    bg_errinfo info = { 0 };
    if (!plan_read(request, &ask)) {
        return;
    }
    const bg_err err = bg_plan_compute(&ask, &chosen, &info);
    if (err) {
        bgc_reply_spec_error(request, err, &info);
        return;
    }
    const uint32_t only = ask.spec.kind;
    reply_array(&request->reply, only ? 1 : KINDS);
    for (size_t i = 0; i < KINDS; i++) {
        ask.spec.kind = kinds[i];
        if (only && only != ask.spec.kind) {
            continue;
        }
        if (bg_plan_compute(&ask, &plan, &info)) {
            plan_refuse(request, kinds[i], &info);
        } else {
            plan_tell(request, &ask, &plan, &chosen);
        }
    }
}
