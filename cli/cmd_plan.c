/*
 * cmd_plan.c - bloomgate plan: recommends the kind and size of a filter, and predicts its
 * behavior.
 *
 * The library creates a plan for each kind (plan_rows.h). Kinds that do not support the request are
 * listed with the reason. With --calibrate, each filter is created as planned or, if that would
 * take too long, with the same parameters but fewer keys, and measured (timing.h).
 */
#include "chart.h"
#include "columns.h"
#include "command.h"
#include "filter_file.h"
#include "json.h"
#include "number.h"
#include "plan_rows.h"
#include "spec_options.h"
#include "stop.h"
#include "timing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct plan_options {
    struct common common;
    struct spec_options spec;
    double queries, call_cost, memory_cost, call_time, latency, growth;
    const char *absent_share, *plot, *machine;
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
    OPT_TEXT("machine", 0, machine, "DESCRIPTION",
             "plan for another machine, e.g. l2=1Mi,l3=32Mi,memory=16Gi,cpus=8"),
    OPT_FLAG("calibrate", 0, calibrate,
             "measure each kind on this machine (a few seconds)"),
    OPT_FLAG("json", 0, json, "print JSON"),
    OPT_TEXT("plot", 0, plot, "FILE.svg", "write charts to FILE.svg"),
    OPT_FLAG("force", 'f', force, "overwrite FILE.svg"),
    OPT_END,
};

/* ---- Request --------------------------------------------------------------------------------- */

static int plan_read_share(const char *text, double *share)
{
    if (!text) {
        return CLI_OK;
    }
    const bool all = strcmp(text, "100%") == 0
                     || (number_real(text, share) && *share >= 1 && *share <= 1);
    if (!all && !number_rate(text, share)) {
        return say_usage("--absent-share: found '%s', expected a share above 0 and at "
                         "most 1, such as 0.9 or 90%%",
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
        return say_usage("specify --rate, --bits-per-key or --bytes; or "
                         "--queries-per-second, --call-cost and --memory-cost to find "
                         "the cheapest rate");
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

/* Reads the machine to plan for: --machine, or this machine. */
static int plan_read_machine(const char *text, bg_machine *machine)
{
    bg_errinfo why;
    char message[PLAN_TEXT];
    if (bg_machine_read(text, machine, &why) == BG_OK) {
        return CLI_OK;
    }
    plan_explain(spec_words, &why, message);
    return say_usage("%s", message);
}

/* ---- Measurements ---------------------------------------------------------------------------- */

/* The measured speeds of the rows of struct plan_rows, in the same order. */
struct plan_speeds {
    bool calibrated;
    double keyed_hash_ns;
    struct {
        bool measured;
        struct measured speed;
    } rows[PLAN_KINDS];
};

enum {
    CALIBRATE_KEYS = 8000000,
    CALIBRATE_STATIC = 4000000,
    CALIBRATE_ASKED = 1 << 19
};
static const double calibrate_bytes = 64 << 20;

static uint64_t calibrate_keys(const bg_plan *plan)
{
    const bool solved = (bg_kind_traits(plan->kind) & BG_TRAIT_STATIC) != 0;
    double keys = fmin((double)plan->items, solved ? CALIBRATE_STATIC : CALIBRATE_KEYS);
    if (plan->bits_per_key > 0) {
        keys = fmin(keys, 8 * calibrate_bytes / plan->bits_per_key);
    }
    return keys < 1 ? 1 : (uint64_t)keys;
}

static uint64_t calibrate_size(const struct plan_row *row)
{
    return row->err ? 0
                    : (uint64_t)((double)calibrate_keys(&row->plan)
                                 * row->plan.bits_per_key / 8);
}

static int calibrate_row(const struct plan_rows *plans, const struct plan_row *row,
                         struct measured *speed, bool *measured)
{
    bg_errinfo why;
    const uint64_t keys = calibrate_keys(&row->plan);
    struct measure_task task = { .spec = plans->ask.spec,
                                 .present = { NULL, 0, (size_t)keys },
                                 .absent = { NULL, UINT64_C(1) << 62, CALIBRATE_ASKED },
                                 .build_passes = 1,
                                 .lookup_passes = 5 };
    task.spec.kind = (uint32_t)row->kind;
    task.spec.items = keys;
    task.spec.rate = row->plan.target;
    task.spec.bytes = 0;
    task.spec.bits_per_key = row->plan.target > 0 ? 0 : row->plan.bits_per_key;
    const bg_err err = measure_kind(&task, speed, &why);
    *measured = !err;
    if (err == BG_ECANCELED) {
        return CLI_INTERRUPTED;
    }
    if (err) {
        char words[PLAN_TEXT];
        plan_explain(spec_words, &why, words);
        say_warning("%s could not be measured: %s", bg_kind_name(row->kind), words);
    }
    return *measured && speed->lost
               ? say_data("%s: %llu keys were lost; please report this bug",
                          bg_kind_name(row->kind), (unsigned long long)speed->lost)
               : CLI_OK;
}

/* Measures the speed of each planned filter. */
static int plan_calibrate(const struct plan_rows *plans, struct plan_speeds *speeds)
{
    int code = CLI_OK;
    uint64_t all = 0, done = 0; /* total size of all filters, and of finished ones */
    struct progress progress;
    bg_plan hashing = { .kind = BG_KIND_AUTO };
    for (size_t i = 0; i < plans->count; i++) {
        all += calibrate_size(&plans->rows[i]);
    }
    progress_begin(&progress, "measuring");
    for (size_t i = 0; i < plans->count && !code; i++) {
        if (!plans->rows[i].err) {
            code = stop_wanted()
                       ? (int)CLI_INTERRUPTED
                       : calibrate_row(plans, &plans->rows[i], &speeds->rows[i].speed,
                                       &speeds->rows[i].measured);
        }
        done += calibrate_size(&plans->rows[i]);
        progress_tick(&progress, done, all);
    }
    progress_end(&progress);
    bg_plan_calibrate(&hashing);
    speeds->keyed_hash_ns = hashing.keyed_hash_ns;
    speeds->calibrated = true;
    return code;
}

/* ---- Table, at most 100 columns wide --------------------------------------------------------- */

/* Prints a rate. A rate below 1% of the requested rate is shown as "<" and that limit. */
static void report_rate(const struct plan_rows *plans, struct columns *table,
                        double rate)
{
    const double low = plans->ask.spec.rate / 100;
    char text[NUMBER_TEXT];
    (void)snprintf(text, sizeof text, "%s%s", rate < low ? "<" : "",
                   RATE_TEXT(rate < low ? low : rate));
    columns_set(table, text);
}

static void report_rate_then(const struct plan_rows *plans, struct columns *table,
                             const struct plan_row *row, double rate)
{
    const uint32_t traits = bg_kind_traits(row->kind);
    if (traits & BG_TRAIT_STATIC) {
        columns_set(table, "-");
    } else if (!plan_takes_more(row, rate)) {
        columns_set(table, "full");
    } else {
        report_rate(plans, table, rate);
    }
}

static void report_heads(const struct plan_rows *plans, struct columns *table)
{
    columns_add(table, "", "kind", true);
    columns_add(table, "", "size", false);
    columns_add(table, "bits", "/key", false);
    columns_add(table, "", "k", false);
    columns_add(table, "false", "positives", false);
    columns_add(table, "at 2x", "the keys", false);
    columns_add(table, "at", "10x", false);
    columns_add(table, "fits", "into", true);
    columns_add(table, "lines", "read", false);
    if (plan_has_queries(plans)) {
        columns_add(table, "calls/s", "avoided", false);
        columns_add(table, "calls/s", "wasted", false);
    }
    if (plan_has_costs(plans)) {
        columns_add(table, "cost", "/s", false);
    }
}

static void report_row(const struct plan_rows *plans, const struct plan_row *row,
                       struct columns *table)
{
    const bg_plan *plan = &row->plan;
    char text[NUMBER_TEXT];
    columns_row(table);
    columns_set(table, bg_kind_name(row->kind));
    columns_set(table, BYTES_TEXT(plan->bytes));
    columns_real(table, plan->bits_per_key < 99.95 ? 1 : 0, plan->bits_per_key);
    columns_real(table, 0, plan->k);
    report_rate(plans, table, plan->rate);
    report_rate_then(plans, table, row, plan->rate_2x);
    report_rate_then(plans, table, row, plan->rate_10x);
    columns_set(table, plan_fits_into(&plans->ask, plan));
    columns_real(table, 0, plan->lines_per_lookup);
    if (plan_has_queries(plans)) {
        columns_short(table, plan->calls_avoided);
        columns_short(table, plan->calls_wasted);
    }
    if (plan_has_costs(plans)) {
        (void)snprintf(text, sizeof text, "%.3g", plan->cost);
        columns_set(table, text);
    }
}

static void report_table(const struct plan_rows *plans)
{
    static struct columns table;
    report_heads(plans, &table);
    for (size_t i = 0; i < plans->count; i++) {
        const struct plan_row *row = &plans->rows[i];
        if (row->err) {
            columns_refuse(&table, bg_kind_name(row->kind), row->why);
        } else {
            report_row(plans, row, &table);
        }
    }
    columns_print(&table);
}

/* Formats a time that may be very short, such as 12.5 us. */
static const char *report_time(double seconds, char text[NUMBER_TEXT])
{
    static const char *const units[] = { "ns", "us", "ms", "s" };
    double value = 1e9 * seconds;
    size_t unit = 0;
    for (; value >= 1000 && unit < 3; unit++) {
        value /= 1000;
    }
    (void)snprintf(text, NUMBER_TEXT, "%.3g %s", value, units[unit]);
    return text;
}

static void report_heading(const struct plan_rows *plans)
{
    const bg_plan_request *ask = &plans->ask;
    char text[NUMBER_TEXT];
    printf("%s key%s", COUNT_TEXT(ask->spec.items), ask->spec.items == 1 ? "" : "s");
    if (ask->growth > 1) {
        const double grown = (double)ask->spec.items * ask->growth;
        printf(", growing to %s", COUNT_TEXT((uint64_t)grown));
    }
    if (ask->spec.rate > 0) {
        printf(", false-positive rate at most %s", RATE_TEXT(ask->spec.rate));
    } else if (ask->spec.bits_per_key > 0) {
        printf(", %g bits per key", ask->spec.bits_per_key);
    } else if (ask->spec.bytes) {
        printf(", %s", BYTES_TEXT(ask->spec.bytes));
    } else if (plan_has_costs(plans)) {
        printf(", at the cheapest rate");
    }
    if (ask->latency_objective > 0) {
        printf(", mean delay at most %s per absent key",
               report_time(ask->latency_objective, text));
    }
    printf("\n\n");
}

/* Prints the command that creates the filter. */
static void report_command(const struct plan_rows *plans)
{
    const bg_spec *spec = &plans->ask.spec;
    const bg_plan *plan = &plans->best.plan;
    printf("  bloomgate build --kind %s --items %llu", bg_kind_name(plan->kind),
           (unsigned long long)(plan->kind == BG_KIND_SCALABLE ? spec->items
                                                               : plan->items));
    if (plan->target > 0) {
        printf(" --rate %.6g", plan->target);
    } else if (spec->bytes) {
        printf(" --bytes %llu", (unsigned long long)spec->bytes);
    } else {
        printf(" --bits-per-key %g", spec->bits_per_key);
    }
    if (spec->k) {
        printf(" --bits %u", spec->k);
    }
    if (spec->folds) {
        printf(" --folds %u", spec->folds);
    }
    printf(" OUT KEYS\n");
}

/* Returns whether a ribbon filter for the same request would fit in memory. */
static bool report_ribbon_fits(const struct plan_rows *plans)
{
    bg_plan_request request = plans->ask;
    bg_plan ribbon;
    request.spec.kind = BG_KIND_RIBBON;
    return bg_plan_compute(&request, &ribbon, NULL) == BG_OK
           && !plan_exceeds(&plans->ask, &ribbon);
}

static void report_memory(const struct plan_rows *plans)
{
    const bg_plan *plan = &plans->best.plan;
    const bool sized = plans->ask.spec.bytes || plans->ask.spec.bits_per_key > 0;
    char text[PLAN_TEXT];
    if (plan_exceeds(&plans->ask, plan)) {
        (void)snprintf(text, sizeof text,
                       "The filter does not fit in the machine's memory (%s); %s%s "
                       "or split the filter.",
                       BYTES_TEXT(plans->ask.machine->memory_bytes),
                       sized ? "reduce the size" : "raise the rate",
                       report_ribbon_fits(plans) ? ", use ribbon," : "");
        columns_paragraph("", 2, COLUMNS_WIDTH, text);
    }
}

static void report_latency(const struct plan_rows *plans)
{
    char text[NUMBER_TEXT];
    if (plans->ask.call_seconds > 0) {
        printf("  Unnecessary calls delay lookups of absent keys by %s on average.\n",
               report_time(plans->ask.call_seconds * plans->best.plan.rate, text));
    }
}

/* The size of a window of 8 generations (the default) if all keys arrive in one period, divided by
 * its size if keys arrive evenly. The filter of that period has overflow layers. Measured from
 * 1,000 to 1,000,000 keys and from 10% to 1e-6: 2.0 to 2.2. */
static const double report_burst = 2.2;

static void report_window(const bg_plan *plan)
{
    char text[PLAN_TEXT];
    if (plan->kind == BG_KIND_WINDOW) {
        (void)snprintf(
            text, sizeof text,
            "this plan assumes that keys arrive evenly over the window. If "
            "all keys arrive in one period, the window grows to about %s, and "
            "with twice as many keys, its rate may be too high.",
            BYTES_TEXT((uint64_t)(report_burst * (double)plan->bytes)));
        columns_paragraph("Note:", 2, COLUMNS_WIDTH, text);
    }
}

/* Prints the kind that would be selected without --kind, if it is a different kind. */
static void report_automatic(const struct plan_rows *plans)
{
    const bg_plan *plan = &plans->automatic.plan;
    if (!plans->automatic.err && plan->kind != plans->best.plan.kind) {
        printf("Without --kind, plan would choose %s: %s, %s false positives.\n",
               bg_kind_name(plan->kind), BYTES_TEXT(plan->bytes),
               RATE_TEXT(plan->rate));
    }
}

static void report_best(const struct plan_rows *plans)
{
    const bg_plan *plan = &plans->best.plan;
    char text[PLAN_TEXT];
    printf("\n");
    if (plans->best.err) {
        columns_paragraph("No recommendation:", 0, COLUMNS_WIDTH, plans->best.why);
        return;
    }
    const bool asked = plans->ask.spec.kind != BG_KIND_AUTO;
    (void)snprintf(text, sizeof text, "%s; %s, %s false positives.", plan->reason,
                   BYTES_TEXT(plan->bytes), RATE_TEXT(plan->rate));
    columns_paragraph(asked ? "Planned" : "Use", 2, COLUMNS_WIDTH, text);
    report_command(plans);
    report_window(plan);
    report_memory(plans);
    report_latency(plans);
    report_automatic(plans);
}

static void report_hints(const struct plan_rows *plans)
{
    char text[PLAN_TEXT];
    for (size_t i = 0; plan_hint(plans, i, text); i++) {
        printf("%s", i ? "" : "\nAlternatives if:\n");
        columns_paragraph("  -", 4, COLUMNS_WIDTH, text);
    }
}

static void report_speed(bg_kind kind, const struct measured *speed,
                         struct columns *table)
{
    columns_row(table);
    columns_set(table, bg_kind_name(kind));
    columns_short(table, (double)speed->keys);
    columns_set(table, BYTES_TEXT(speed->bytes));
    columns_real(table, 1, speed->build_ns);
    columns_short(table, 1e9 / speed->present_ns);
    columns_short(table, 1e9 / speed->absent_ns);
    columns_short(table, 1e9 / speed->single_ns);
}

static void report_speeds(const struct plan_rows *plans,
                          const struct plan_speeds *speeds)
{
    static struct columns table;
    printf("\nMeasured on this machine with one thread and integer keys: lookups per "
           "second of CPU time, median\n"
           "of 5 passes. Filters are built as planned, but with at most 64 MiB and 8M "
           "keys (static kinds: 4M).\n\n");
    columns_add(&table, "", "kind", true);
    columns_add(&table, "", "keys", false);
    columns_add(&table, "", "size", false);
    columns_add(&table, "build", "ns/key", false);
    columns_add(&table, "batches,", "present", false);
    columns_add(&table, "batches,", "absent", false);
    columns_add(&table, "one", "by one", false);
    for (size_t i = 0; i < plans->count; i++) {
        if (speeds->rows[i].measured) {
            report_speed(plans->rows[i].kind, &speeds->rows[i].speed, &table);
        }
    }
    columns_print(&table);
    printf(
        "\nHashing with a secret (--hash keyed) takes %.1f ns more per 16-byte key.\n",
        speeds->keyed_hash_ns);
}

static void plan_print(const struct plan_rows *plans, const struct plan_speeds *speeds)
{
    report_heading(plans);
    report_table(plans);
    report_best(plans);
    report_hints(plans);
    if (speeds->calibrated) {
        report_speeds(plans, speeds);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Prints a value, or nothing if the value is not set. */
static void plan_json_given(struct json *json, const char *name, double value)
{
    if (value > 0) {
        json_real(json, name, value);
    }
}

static void plan_json_given_count(struct json *json, const char *name, uint64_t value)
{
    if (value) {
        json_count(json, name, value);
    }
}

static void plan_json_request(struct json *json, const bg_plan_request *ask)
{
    json_object(json, "request");
    json_text(json, "kind", bg_kind_name((bg_kind)ask->spec.kind));
    json_count(json, "items", ask->spec.items);
    plan_json_given(json, "rate", ask->spec.rate);
    plan_json_given(json, "bits_per_key", ask->spec.bits_per_key);
    plan_json_given_count(json, "bytes", ask->spec.bytes);
    plan_json_given_count(json, "k", ask->spec.k);
    plan_json_given_count(json, "folds", ask->spec.folds);
    plan_json_given(json, "growth", ask->growth);
    plan_json_given(json, "queries_per_second", ask->queries_per_second);
    plan_json_given(json, "absent_share", ask->absent_share);
    plan_json_given(json, "call_cost", ask->call_cost);
    plan_json_given(json, "memory_cost", ask->memory_cost);
    plan_json_given(json, "call_seconds", ask->call_seconds);
    plan_json_given(json, "latency_seconds", ask->latency_objective);
    json_close(json, '}');
}

static void plan_json_machine(struct json *json, const bg_machine *machine)
{
    json_object(json, "machine");
    json_count(json, "l1_bytes", machine->cache_bytes[0]);
    json_count(json, "l2_bytes", machine->cache_bytes[1]);
    json_count(json, "l3_bytes", machine->cache_bytes[2]);
    json_count(json, "memory_bytes", machine->memory_bytes);
    json_count(json, "cpus", machine->cpus);
    json_close(json, '}');
}

static void plan_json_speed(struct json *json, const struct measured *speed)
{
    json_object(json, "measured");
    json_count(json, "keys", speed->keys);
    json_count(json, "bytes", speed->bytes);
    json_real(json, "build_ns_per_key", speed->build_ns);
    json_real(json, "batch_present_per_second", 1e9 / speed->present_ns);
    json_real(json, "batch_absent_per_second", 1e9 / speed->absent_ns);
    json_real(json, "single_per_second", 1e9 / speed->single_ns);
    json_real(json, "rate", speed->rate.value);
    json_close(json, '}');
}

/* Prints the rate with more keys than planned, or null if the filter has no space for them. */
static void plan_json_then(struct json *json, const char *name,
                           const struct plan_row *row, double rate)
{
    json_real(json, name, plan_takes_more(row, rate) ? rate : 1.0 / 0.0);
}

static void plan_json_plan(struct json *json, const struct plan_rows *plans,
                           const struct plan_row *row, const struct measured *speed)
{
    const bg_plan *plan = &row->plan;
    json_count(json, "items", plan->items);
    json_count(json, "bytes", plan->bytes);
    json_real(json, "bits_per_key", plan->bits_per_key);
    json_count(json, "k", plan->k);
    json_count(json, "units", plan->units);
    json_count(json, "layers", plan->layers);
    json_real(json, "rate", plan->rate);
    plan_json_then(json, "rate_2x", row, plan->rate_2x);
    plan_json_then(json, "rate_10x", row, plan->rate_10x);
    json_real(json, "fill", plan->fill);
    plan_json_given(json, "target", plan->target);
    json_count(json, "cache_level", plan->cache_level);
    json_text(json, "fits_into", plan_fits_into(&plans->ask, plan));
    json_count(json, "lines_per_lookup", plan->lines_per_lookup);
    if (plan_has_queries(plans)) {
        json_real(json, "calls_avoided_per_second", plan->calls_avoided);
        json_real(json, "calls_wasted_per_second", plan->calls_wasted);
    }
    if (plan_has_costs(plans)) {
        json_real(json, "cost_per_second", plan->cost);
    }
    if (speed) {
        plan_json_speed(json, speed);
    }
}

static void plan_json_row(struct json *json, const struct plan_rows *plans,
                          const struct plan_speeds *speeds, size_t i)
{
    const struct plan_row *row = &plans->rows[i];
    json_object(json, NULL);
    json_text(json, "kind", bg_kind_name(row->kind));
    json_bool(json, "possible", !row->err);
    if (row->err) {
        json_text(json, "why", row->why);
    } else {
        plan_json_plan(json, plans, row,
                       speeds->rows[i].measured ? &speeds->rows[i].speed : NULL);
    }
    json_close(json, '}');
}

static void plan_print_json(const struct plan_rows *plans,
                            const struct plan_speeds *speeds)
{
    struct json json;
    char text[PLAN_TEXT];
    json_begin(&json, "bloomgate.plan.1");
    plan_json_request(&json, &plans->ask);
    plan_json_machine(&json, plans->ask.machine);
    json_list(&json, "kinds");
    for (size_t i = 0; i < plans->count; i++) {
        plan_json_row(&json, plans, speeds, i);
    }
    json_close(&json, ']');
    if (!plans->best.err) {
        json_object(&json, "recommended");
        json_text(&json, "kind", bg_kind_name(plans->best.plan.kind));
        json_text(&json, "reason", plans->best.plan.reason);
        json_close(&json, '}');
    }
    json_list(&json, "hints");
    for (size_t i = 0; plan_hint(plans, i, text); i++) {
        json_text(&json, NULL, text);
    }
    json_close(&json, ']');
    if (speeds->calibrated) {
        json_real(&json, "keyed_hash_ns", speeds->keyed_hash_ns);
    }
    json_end(&json);
}

/* ---- Charts ---------------------------------------------------------------------------------- */

enum { PLOT_FILLS = 61, PLOT_RATES = 26 };

struct plot {
    const struct plan_rows *plans;
    struct chart_series series[PLAN_KINDS];
    size_t count;
    double x[PLOT_FILLS], y[PLAN_KINDS][PLOT_FILLS];
};

static void plot_fill(struct plot *plot, struct chart_page *page)
{
    double lowest = 1;
    plot->count = 0;
    for (size_t i = 0; i < PLOT_FILLS; i++) {
        plot->x[i] = 3.0 * (double)i / (PLOT_FILLS - 1);
    }
    for (size_t r = 0; r < plot->plans->count; r++) {
        const struct plan_row *row = &plot->plans->rows[r];
        const bool is_static = (bg_kind_traits(row->kind) & BG_TRAIT_STATIC) != 0;
        if (row->err) {
            continue;
        }
        const size_t design = (PLOT_FILLS - 1) / 3;
        for (size_t i = 0; i < PLOT_FILLS; i++) {
            plot->y[r][i] = plan_rate_at(plot->plans, row, plot->x[i]);
        }
        plot->series[plot->count++] = (struct chart_series){
            bg_kind_name(row->kind), plot->x + (is_static ? design : 0),
            plot->y[r] + (is_static ? design : 0), is_static ? 1 : PLOT_FILLS,
            (unsigned)row->kind - 1
        };
        lowest = fmin(lowest, row->plan.rate);
    }
    const struct chart_lines lines = {
        .title = "False-positive rate by number of keys",
        .x = { "keys, as a multiple of the capacity", false, 0, 3, CHART_PLAIN },
        .y = { "false-positive rate", true,
               pow(10, floor(log10(fmax(lowest, 1e-12))) - 2), 1, CHART_PERCENT },
        .series = plot->series,
        .count = plot->count,
        .mark = 1,
        .mark_name = "as planned",
    };
    chart_add_lines(page, &lines);
}

static void plot_sizes(struct plot *plot, struct chart_page *page)
{
    double least = HUGE_VAL, most = 1;
    plot->count = 0;
    for (size_t i = 0; i < PLOT_RATES; i++) {
        plot->x[i] = pow(10, -1 - 5.0 * (double)i / (PLOT_RATES - 1));
    }
    for (size_t r = 0; r < plot->plans->count; r++) {
        const bg_kind kind = plot->plans->rows[r].kind;
        bool any = false;
        for (size_t i = 0; i < PLOT_RATES; i++) {
            bg_plan plan;
            plot->y[r][i] = plan_for_rate(plot->plans, kind, plot->x[i], &plan)
                                ? plan.bits_per_key
                                : (double)NAN;
            if (isfinite(plot->y[r][i])) {
                any = true;
                least = fmin(least, plot->y[r][i]);
                most = fmax(most, plot->y[r][i]);
            }
        }
        if (any) {
            plot->series[plot->count++] =
                (struct chart_series){ bg_kind_name(kind), plot->x, plot->y[r],
                                       PLOT_RATES, (unsigned)kind - 1 };
        }
    }
    const struct chart_lines lines = {
        .title = "Bits per key by false-positive rate",
        .x = { "false-positive rate", true, 0.1, 1e-6, CHART_PERCENT },
        .y = { "bits per key", true, fmin(least, most) * 0.9, most * 1.1, CHART_PLAIN },
        .series = plot->series,
        .count = plot->count,
        .mark = plot->plans->best.plan.target,
        .mark_name = plot->plans->best.plan.target > 0 ? "requested" : NULL,
    };
    chart_add_lines(page, &lines);
}

static int plan_plot(const struct plan_rows *plans, const char *path)
{
    static struct plot plot;
    struct chart_page page;
    char below[128];
    const double growth = plans->ask.growth > 1 ? plans->ask.growth : 1;
    (void)snprintf(below, sizeof below, "%s keys; predicted by bloomgate %s",
                   COUNT_TEXT((uint64_t)((double)plans->ask.spec.items * growth)),
                   bg_version());
    plot.plans = plans;
    chart_begin(&page, "Planned filters", below);
    plot_fill(&plot, &page);
    plot_sizes(&plot, &page);
    return chart_save(&page, path);
}

/* ---- Command --------------------------------------------------------------------------------- */

static int plan_run(const struct plan_options *o, struct plan_rows *plans,
                    struct plan_speeds *speeds)
{
    static bg_machine machine;
    plans->words = spec_words;
    int code = plan_ask(o, &plans->ask);
    code = code ? code : plan_read_machine(o->machine, &machine);
    plans->ask.machine = &machine;
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
        "cost.\n\n--machine describes the machine to plan for: the sizes of its data "
        "caches (l1, l2 and l3), its memory, and its number of CPUs (cpus). "
        "Omitted parts default to this machine's values.\n\n--calibrate builds "
        "the planned filters, up to 64 MiB and 8 million keys each (static kinds: 4 "
        "million), and measures them on this machine with one thread and integer "
        "keys.\n\n--plot draws two charts: the rate against the number of keys, and "
        "bits per key against the rate.",
    .size = sizeof(struct plan_options),
    .uses = { { &spec_options_group, offsetof(struct plan_options, spec) },
              OPT_GROUP("Planning", plan_table) },
    .examples = { { "bloomgate plan -n 100M -p 0.1%",
                    "compare all kinds and get a recommendation" },
                  { "bloomgate plan -n 1G --bytes 2Gi --plot plan.svg",
                    "see what fits into 2 GiB, with charts" } },
    .run = plan_command,
};
