/* plan_report.c - prints plans as a table (plan_output.h), at most 100 columns wide. */
#include "plan_output.h"

#include "columns.h"
#include "number.h"

#include <stdio.h>

/* ---- Cells ------------------------------------------------------------------------------ */

static void report_rate(struct columns *table, double rate)
{
    char text[NUMBER_TEXT];
    columns_set(table, number_show_rate(rate, text));
}

static void report_rate_then(struct columns *table, const struct plan_row *row,
                             double rate)
{
    const uint32_t traits = bg_kind_traits(row->kind);
    if (traits & BG_TRAIT_STATIC) {
        columns_set(table, "-");
    } else if (!plan_takes_more(row, rate)) {
        columns_set(table, "full");
    } else {
        report_rate(table, rate);
    }
}

static const char *report_cache(uint32_t level)
{
    static const char *const names[] = { "L1", "L2", "L3", "memory" };
    return names[level >= 1 && level <= 4 ? level - 1 : 3];
}

/* ---- The table ---------------------------------------------------------------------------- */

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
    columns_set(table, number_show_bytes(plan->bytes, text));
    columns_real(table, plan->bits_per_key < 99.95 ? 1 : 0, plan->bits_per_key);
    columns_real(table, 0, plan->k);
    report_rate(table, plan->rate);
    report_rate_then(table, row, plan->rate_2x);
    report_rate_then(table, row, plan->rate_10x);
    columns_set(table, report_cache(plan->cache_level));
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
    bool refused = false;
    report_heads(plans, &table);
    for (size_t i = 0; i < plans->count; i++) {
        if (!plans->rows[i].err) {
            report_row(plans, &plans->rows[i], &table);
        }
    }
    columns_print(&table);
    for (size_t i = 0; i < plans->count; i++) {
        const struct plan_row *row = &plans->rows[i];
        if (row->err) {
            char name[COLUMNS_CELL];
            (void)snprintf(name, sizeof name, "  %s", bg_kind_name(row->kind));
            printf("%s", refused ? ""
                                 : "\n"
                                   "Not possible:\n");
            columns_paragraph(name, 15, row->why);
            refused = true;
        }
    }
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

/* ---- Text around the table ------------------------------------------------------------------ */

static void report_heading(const struct plan_rows *plans)
{
    const bg_plan_request *ask = &plans->ask;
    char items[NUMBER_TEXT], text[NUMBER_TEXT];
    printf("%s keys", number_show(ask->spec.items, items));
    if (ask->growth > 1) {
        const double grown = (double)ask->spec.items * ask->growth;
        printf(", growing to %s", number_show((uint64_t)grown, items));
    }
    if (ask->spec.rate > 0) {
        printf(", false-positive rate at most %s",
               number_show_rate(ask->spec.rate, text));
    } else if (ask->spec.bits_per_key > 0) {
        printf(", %g bits per key", ask->spec.bits_per_key);
    } else if (ask->spec.bytes) {
        printf(", %s", number_show_bytes(ask->spec.bytes, text));
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

static void report_latency(const struct plan_rows *plans)
{
    char text[NUMBER_TEXT];
    if (plans->ask.call_seconds > 0) {
        printf("  Unnecessary calls delay lookups of absent keys by %s on average.\n",
               report_time(plans->ask.call_seconds * plans->best.plan.rate, text));
    }
}

/* Prints the kind that would be selected without --kind, if it is a different kind. */
static void report_automatic(const struct plan_rows *plans)
{
    const bg_plan *plan = &plans->automatic.plan;
    char bytes[NUMBER_TEXT], rate[NUMBER_TEXT];
    if (!plans->automatic.err && plan->kind != plans->best.plan.kind) {
        printf("Without --kind, plan would choose %s: %s, %s false positives.\n",
               bg_kind_name(plan->kind), number_show_bytes(plan->bytes, bytes),
               number_show_rate(plan->rate, rate));
    }
}

static void report_best(const struct plan_rows *plans)
{
    const bg_plan *plan = &plans->best.plan;
    char text[PLAN_TEXT], bytes[NUMBER_TEXT], rate[NUMBER_TEXT];
    printf("\n");
    if (plans->best.err) {
        columns_paragraph("No recommendation:", 0, plans->best.why);
        return;
    }
    const bool asked = plans->ask.spec.kind != BG_KIND_AUTO;
    (void)snprintf(text, sizeof text, "%s; %s, %s false positives.", plan->reason,
                   number_show_bytes(plan->bytes, bytes),
                   number_show_rate(plan->rate, rate));
    columns_paragraph(asked ? "Planned" : "Use", 2, text);
    report_command(plans);
    report_latency(plans);
    report_automatic(plans);
}

static void report_hints(const struct plan_rows *plans)
{
    char text[PLAN_TEXT];
    for (size_t i = 0; plan_hint(plans, i, text); i++) {
        printf("%s", i ? ""
                       : "\n"
                         "Alternatives if:\n");
        columns_paragraph("  -", 4, text);
    }
}

/* ---- Measurements ----------------------------------------------------------------------------- */

static void report_speed(bg_kind kind, const struct measured *speed,
                         struct columns *table)
{
    char text[NUMBER_TEXT];
    columns_row(table);
    columns_set(table, bg_kind_name(kind));
    columns_short(table, (double)speed->keys);
    columns_set(table, number_show_bytes(speed->bytes, text));
    columns_real(table, 1, speed->build_ns);
    columns_short(table, 1e9 / speed->present_ns);
    columns_short(table, 1e9 / speed->absent_ns);
    columns_short(table, 1e9 / speed->single_ns);
}

static void report_speeds(const struct plan_rows *plans,
                          const struct plan_speeds *speeds)
{
    static struct columns table;
    printf("\n"
           "Measured on this machine with one thread and integer keys: lookups per "
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
    printf("\n"
           "Hashing with a secret (--hash keyed) takes %.1f ns more per 16-byte key.\n",
           speeds->keyed_hash_ns);
}

void plan_print(const struct plan_rows *plans, const struct plan_speeds *speeds)
{
    report_heading(plans);
    report_table(plans);
    report_best(plans);
    report_hints(plans);
    if (speeds->calibrated) {
        report_speeds(plans, speeds);
    }
}
