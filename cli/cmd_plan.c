/*
 * cmd_plan.c - bloomgate plan: which filter, of what size, and what to expect of it.
 *
 * The library makes a plan for each kind; what it cannot do is told beside what it can. Its
 * errors speak of fields of structs, so they are put into words of the command line here.
 */
#include "command.h"
#include "filter_file.h"
#include "number.h"
#include "out.h"
#include "plan_output.h"
#include "say.h"
#include "spec_options.h"

#include <stdio.h>
#include <string.h>

struct plan_options {
    struct common common;
    struct spec_options spec;
    double queries, call_cost, memory_cost, call_time, latency, growth;
    const char *absent_share, *plot;
    bool calibrate, json, force;
};

#define AT(field) offsetof(struct plan_options, field)
static const struct option plan_table[] = {
    { "growth", 0, OPTION_REAL, AT(growth), "FACTOR",
      "the keys become so many times as many", NULL },
    { "queries-per-second", 0, OPTION_REAL, AT(queries), "N", "how many look-ups",
      NULL },
    { "absent-share", 0, OPTION_TEXT, AT(absent_share), "SHARE",
      "of look-ups that ask for absent keys; 1 if not said", NULL },
    { "call-cost", 0, OPTION_REAL, AT(call_cost), "COST",
      "of a call to what is behind the filter", NULL },
    { "memory-cost", 0, OPTION_REAL, AT(memory_cost), "COST",
      "of a GiB for a second, in the same unit", NULL },
    { "call-time", 0, OPTION_SECONDS, AT(call_time), "TIME",
      "how long a call takes: 5ms", NULL },
    { "latency", 0, OPTION_SECONDS, AT(latency), "TIME",
      "an absent key may take so long on average: 10us", NULL },
    { "calibrate", 0, OPTION_FLAG, AT(calibrate), NULL,
      "measure each kind on this machine, some seconds", NULL },
    { "json", 0, OPTION_FLAG, AT(json), NULL, "print JSON", NULL },
    { "plot", 0, OPTION_TEXT, AT(plot), "FILE.svg", "draw charts", NULL },
    { "force", 'f', OPTION_FLAG, AT(force), NULL, "overwrite FILE.svg", NULL },
    { NULL, 0, OPTION_FLAG, 0, NULL, NULL, NULL },
};
#undef AT
static const struct option_group plan_group = { "Planning", plan_table };

/* ---- Words ---------------------------------------------------------------------------- */

static const struct plan_word plan_options[] = {
    { "rate, bits_per_key, bytes", "--rate, --bits-per-key, --bytes" },
    { "bits_per_key, bytes", "--bits-per-key, --bytes" },
    { "items", "--items" },
    { "rate", "--rate" },
    { "bits_per_key", "--bits-per-key" },
    { "bytes", "--bytes" },
    { "k", "--bits" },
    { "folds", "--folds" },
    { "folds, width", "--folds" },
    { "growth", "--growth" },
    { "queries_per_second", "--queries-per-second" },
    { "absent_share", "--absent-share" },
    { "call_cost", "--call-cost" },
    { "memory_cost", "--memory-cost" },
    { "call_seconds", "--call-time" },
    { "latency_objective", "--latency" },
    { NULL, NULL },
};

void plan_words(const bg_errinfo *why, char text[PLAN_TEXT])
{
    plan_explain(plan_options, why, text);
}

/* ---- What is asked ---------------------------------------------------------------------- */

static int plan_read_share(const char *text, double *share)
{
    if (!text) {
        return CLI_OK;
    }
    const bool all = strcmp(text, "100%") == 0
                     || (number_real(text, share) && *share >= 1 && *share <= 1);
    if (!all && !number_rate(text, share)) {
        return say_usage(
            "--absent-share: found '%s', expected a share above 0, up to 1, "
            "such as 0.9 or 90%%",
            text);
    }
    *share = all ? 1 : *share;
    return CLI_OK;
}

static int plan_check(const struct plan_options *o, const bg_plan_request *ask)
{
    if (!ask->spec.items) {
        return say_usage("for how many keys? --items is missing");
    }
    if (!(o->queries > 0) && (o->call_cost > 0 || o->absent_share)) {
        return say_usage("%s needs --queries-per-second",
                         o->absent_share ? "--absent-share" : "--call-cost");
    }
    if (o->latency > 0 && !(o->call_time > 0)) {
        return say_usage("--latency needs --call-time");
    }
    if (!plan_is_sized(ask)) {
        return say_usage(
            "how good? One of --rate, --bits-per-key, --bytes is missing; or "
            "--queries-per-second, --call-cost and --memory-cost, to find the "
            "cheapest");
    }
    return CLI_OK;
}

static int plan_ask(const struct plan_options *o, bg_plan_request *ask)
{
    *ask = (bg_plan_request)BG_PLAN_REQUEST_INIT;
    ask->growth = o->growth;
    ask->queries_per_second = o->queries;
    ask->call_cost = o->call_cost;
    ask->memory_cost = o->memory_cost;
    ask->call_seconds = o->call_time;
    ask->latency_objective = o->latency;
    int code = spec_fill(&o->spec, &ask->spec);
    code = code ? code : plan_read_share(o->absent_share, &ask->absent_share);
    return code ? code : plan_check(o, ask);
}

/* ---- The command ------------------------------------------------------------------------ */

static int plan_run(const struct plan_options *o, struct plan_rows *plans,
                    struct plan_speeds *speeds)
{
    plans->words = plan_options;
    int code = plan_ask(o, &plans->ask);
    code = code || !o->plot ? code : filter_may_write(o->plot, o->force);
    if (!code && !plan_make_all(plans)) {
        code = say_failed(say_code(plans->best.err), "%s", plans->best.why);
    }
    if (!code && o->calibrate) {
        code = plan_calibrate(plans, speeds, (enum say_when)o->common.progress);
    }
    if (code) {
        return code;
    }
    if (o->json) {
        plan_print_json(plans, speeds);
    } else {
        plan_print(plans, speeds);
    }
    return o->plot ? plan_plot(plans, o->plot) : CLI_OK;
}

static int plan_command(void *options, const struct arguments *arguments)
{
    static struct plan_rows plans;
    static struct plan_speeds speeds;
    if (arguments->count) {
        return say_usage("found '%s', expected options only", arguments->items[0]);
    }
    return out_finish(plan_run(options, &plans, &speeds));
}

const struct command command_plan = {
    .name = "plan",
    .summary = "what filter for what is known, and what to expect of it",
    .usage = "[options] --items N --rate P",
    .about =
        "Plans a filter of each kind for so many keys and says what to expect: its size, the "
        "rate of false positives when it is full, with twice and with ten times as many keys, "
        "the smallest cache it fits into, and how many cache lines a look-up reads. Nothing is "
        "created. Below the table stands what bloomgate build picks by itself, why, and when "
        "another kind is better. The rates are those of the real layouts, not of the textbook's "
        "formula.\n\n"
        "Instead of a rate there may be a number of bits per key, a size, or an objective: with "
        "--call-time and --latency the rate is bounded so that an absent key waits no longer than "
        "that on average for calls that were made in vain. With --queries-per-second it says how "
        "many calls are avoided and wasted per second; with --call-cost and --memory-cost what "
        "that costs, and without a rate it finds the cheapest one.\n\n"
        "--calibrate makes filters of these plans, up to 64 MiB and 8 million keys (static "
        "kinds: 4 million), and measures them on this machine, by one thread, with integers "
        "as keys.\n\n"
        "--plot draws two charts: the rate over the number of keys, and bits per key over the "
        "rate.",
    .size = sizeof(struct plan_options),
    .uses = { { &spec_options_group, offsetof(struct plan_options, spec) },
              { &plan_group, 0 } },
    .examples = { { "bloomgate plan -n 100M -p 0.1%",
                    "all kinds side by side, and which one to take" },
                  { "bloomgate plan -n 1G --bytes 2Gi --plot plan.svg",
                    "what can be had in 2 GiB, with charts" } },
    .run = plan_command,
};
