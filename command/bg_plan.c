/*
 * bg_plan.c - BG.PLAN: compares all kinds of filters for a given number of items and false-positive
 * rate.
 *
 * The reply is an array of maps, one for each kind. `chosen` marks the kind that KIND auto selects,
 * and `reason` explains why. A kind that does not support the request has an `error` field instead
 * of values.
 */
#include "bg_handlers.h"

/* ---- Request --------------------------------------------------------------------------------- */

static const struct plan_option {
    const char *word;
    size_t at;
    bool (*read)(bg_bytes argument, double *value);
    double most;
} plan_options[] = {
    { "GROWTH", offsetof(bg_plan_request, growth), args_scaled, 1e6 },
    { "QPS", offsetof(bg_plan_request, queries_per_second), args_scaled, 1e15 },
    { "ABSENT", offsetof(bg_plan_request, absent_share), args_share, 1 },
    { "CALLCOST", offsetof(bg_plan_request, call_cost), args_scaled, 1e15 },
    { "MEMORYCOST", offsetof(bg_plan_request, memory_cost), args_scaled, 1e15 },
    { "CALLTIME", offsetof(bg_plan_request, call_seconds), args_seconds, 1e15 },
    { "LATENCY", offsetof(bg_plan_request, latency_objective), args_seconds, 1e15 },
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
            if (there && plan_options[o].read(request->argv[*i], to) && *to > 0
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
    if (!args_amount(request->argv[1], &ask->spec.items) || ask->spec.items == 0) {
        reply_error(&request->reply, "ERR bad capacity");
        return false;
    }
    if (!args_share(request->argv[2], &ask->spec.rate) || !(ask->spec.rate > 0)
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

static void plan_tell(struct request *request, const bg_plan_request *ask,
                      const bg_plan *plan, const bg_plan *chosen)
{
    const bool is_chosen = chosen && chosen->kind == plan->kind;
    const bool queries = ask->queries_per_second > 0;
    const bool costs = ask->call_cost > 0 || ask->memory_cost > 0;
    reply_map(&request->reply,
              13 + (size_t)(queries ? 2 : 0) + (size_t)costs + (size_t)is_chosen);
    reply_entry_text(&request->reply, "kind", bg_kind_name(plan->kind));
    reply_entry_count(&request->reply, "bytes", plan->bytes);
    reply_entry_real(&request->reply, "bits_per_key", plan->bits_per_key);
    reply_entry_count(&request->reply, "k", plan->k);
    reply_entry_real(&request->reply, "rate", plan->rate);
    reply_entry_real(&request->reply, "rate_2x", plan->rate_2x);
    reply_entry_real(&request->reply, "rate_10x", plan->rate_10x);
    reply_entry_real(&request->reply, "fill", plan->fill);
    reply_entry_count(&request->reply, "layers", plan->layers);
    reply_entry_count(&request->reply, "cache_level", plan->cache_level);
    reply_entry_text(&request->reply, "fits_into", plan_fits_into(ask, plan));
    reply_entry_count(&request->reply, "lines_per_lookup", plan->lines_per_lookup);
    if (queries) {
        reply_entry_real(&request->reply, "calls_avoided", plan->calls_avoided);
        reply_entry_real(&request->reply, "calls_wasted", plan->calls_wasted);
    }
    if (costs) {
        reply_entry_real(&request->reply, "cost", plan->cost);
    }
    reply_entry_boolean(&request->reply, "chosen", is_chosen);
    if (is_chosen) {
        reply_entry_text(&request->reply, "reason", chosen->reason);
    }
}

static void plan_refuse(struct request *request, bg_kind kind, const bg_errinfo *info)
{
    char text[PLAN_TEXT];
    reply_map(&request->reply, 2);
    reply_entry_text(&request->reply, "kind", bg_kind_name(kind));
    reply_entry_text(&request->reply, "error", bgc_explain(info, text));
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
    bg_machine machine;
    bg_errinfo info = { 0 };
    if (!plan_read(request, &ask)) {
        return;
    }
    (void)bg_machine_read(NULL, &machine, NULL); /* ignores an invalid variable */
    ask.machine = &machine;
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
