/*
 * cmd_plan.c - bloomgate plan: recommends the kind and size of a filter, and predicts its
 * behavior.
 *
 * The library creates a plan for each kind. Kinds that do not support the request are listed with
 * the reason. The library's error messages use field names; this file replaces the field names with
 * option names.
 */
#include "command.h"
#include "filter_file.h"
#include "number.h"
#include "plan_output.h"
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

#define OPT_STRUCT struct plan_options
static const struct option plan_table[] = {
    OPT_REAL("growth", 0, growth, "FACTOR",
             "factor by which the number of keys will grow"),
    OPT_REAL("queries-per-second", 0, queries, "N", "lookups per second"),
    OPT_TEXT("absent-share", 0, absent_share, "SHARE",
             "share of lookups for absent keys (default: 1)"),
    OPT_REAL("call-cost", 0, call_cost, "COST", "cost of a call to the backing store"),
    OPT_REAL("memory-cost", 0, memory_cost, "COST",
             "cost of 1 GiB of memory per second, in the same unit"),
    OPT_SECONDS("call-time", 0, call_time, "TIME",
                "duration of a backing-store call, e.g. 5ms"),
    OPT_SECONDS("latency", 0, latency, "TIME",
                "maximum mean delay for an absent key, e.g. 10us"),
    OPT_FLAG("calibrate", 0, calibrate,
             "measure each kind on this machine (a few seconds)"),
    OPT_FLAG("json", 0, json, "print JSON"),
    OPT_TEXT("plot", 0, plot, "FILE.svg", "write charts to FILE.svg"),
    OPT_FLAG("force", 'f', force, "overwrite FILE.svg"),
    OPT_END,
};
static const struct option_group plan_group = { "Planning", plan_table };

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

static int plan_read_share(const char *text, double *share)
{
    if (!text) {
        return CLI_OK;
    }
    const bool all = strcmp(text, "100%") == 0
                     || (number_real(text, share) && *share >= 1 && *share <= 1);
    if (!all && !number_rate(text, share)) {
        return say_usage(
            "--absent-share: found '%s', expected a share above 0 and at most 1, such "
            "as 0.9 or 90%%",
            text);
    }
    *share = all ? 1 : *share;
    return CLI_OK;
}

static int plan_check(const struct plan_options *o, const bg_plan_request *ask)
{
    if (!ask->spec.items) {
        return say_usage("missing option --items");
    }
    if (!(o->queries > 0) && (o->call_cost > 0 || o->absent_share)) {
        return say_usage("%s requires --queries-per-second",
                         o->absent_share ? "--absent-share" : "--call-cost");
    }
    if (o->latency > 0 && !(o->call_time > 0)) {
        return say_usage("--latency requires --call-time");
    }
    if (!plan_is_sized(ask)) {
        return say_usage(
            "specify --rate, --bits-per-key or --bytes; or --queries-per-second, "
            "--call-cost and --memory-cost to find the cheapest rate");
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
        code = plan_calibrate(plans, speeds);
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
        return say_usage("unexpected argument '%s'; plan accepts only options",
                         arguments->items[0]);
    }
    return out_finish(plan_run(options, &plans, &speeds));
}

const struct command command_plan = {
    .name = "plan",
    .summary = "plan a filter: compare kinds, sizes and rates",
    .usage = "[options] --items N --rate P",
    .about =
        "Plans a filter of each kind for the given number of keys and prints its "
        "properties: its size, its false-positive rate when full and with 2 and 10 "
        "times as many keys, the smallest cache that it fits into, and the number of "
        "cache lines a lookup reads. Nothing is created. Below the table, plan "
        "prints which kind bloomgate build selects by default, why, and when another "
        "kind is better. The rates are computed for the actual layouts, not with the "
        "textbook formula.\n\nInstead of a rate, you can specify a number of bits "
        "per key, a size, or an objective. --call-time and --latency limit the rate "
        "so that unnecessary calls do not delay lookups of absent keys by more than "
        "--latency on average. With --queries-per-second, plan reports how many "
        "calls are avoided and wasted per second. With --call-cost and "
        "--memory-cost, it also reports the cost of the calls and the memory. If no "
        "rate is specified, it then selects the rate with the lowest total "
        "cost.\n\n--calibrate builds the planned filters, up to 64 MiB and 8 million "
        "keys each (static kinds: 4 million), and measures them on this machine with "
        "one thread and integer keys.\n\n--plot draws two charts: the rate against "
        "the number of keys, and bits per key against the rate.",
    .size = sizeof(struct plan_options),
    .uses = { { &spec_options_group, offsetof(struct plan_options, spec) },
              { &plan_group, 0 } },
    .examples = { { "bloomgate plan -n 100M -p 0.1%",
                    "compare all kinds and get a recommendation" },
                  { "bloomgate plan -n 1G --bytes 2Gi --plot plan.svg",
                    "see what fits into 2 GiB, with charts" } },
    .run = plan_command,
};
