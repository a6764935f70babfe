/*
 * watched_gates.c - see watched_gates.h.
 *
 * A point of the history contains current values, and rates per second, which are computed from the
 * counters of the last step. Unknown values are NaN: rates in the first step, the mean query time in
 * a step without queries, the predicted rate while there is no filter, and the observed rate before
 * the first lookup of an absent key.
 */
#include "observe/watched_gates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WATCHED_NAME(NAME, name) #name,
static const char *const watched_names[] = { OBSERVER_GATE(WATCHED_NAME) NULL };
#undef WATCHED_NAME

#define WATCHED_ENUM(NAME, name) GATE_METRIC_##NAME,
enum { OBSERVER_GATE(WATCHED_ENUM) GATE_METRICS };
#undef WATCHED_ENUM

const char *observer_gate_metric(size_t i)
{
    return i < GATE_METRICS ? watched_names[i] : NULL;
}

struct watched_gate *watched_gate_find(const struct watched_gates *gates,
                                       const char *name)
{
    for (size_t i = 0; i < gates->count; i++) {
        if (strcmp(gates->list[i].name, name) == 0) {
            return &gates->list[i];
        }
    }
    return NULL;
}

struct watched_gate *watched_gate_get(struct watched_gates *gates, const char *name)
{
    struct watched_gate *found = watched_gate_find(gates, name);
    if (found) {
        return found;
    }
    struct watched_gate *more =
        realloc(gates->list, (gates->count + 1) * sizeof *gates->list);
    gates->list = more ? more : gates->list;
    char *copy = more ? strdup(name) : NULL;
    if (!copy) {
        return NULL;
    }
    found = &gates->list[gates->count++];
    *found = (struct watched_gate){ .name = copy };
    if (gates->count <= WATCHED_GATES) {
        found->history = history_create(GATE_METRICS); /* NULL: no charts */
    }
    return found;
}

static double watched_rate(uint64_t now, uint64_t before)
{
    return now >= before ? (double)(now - before) / HISTORY_STEP : (double)NAN;
}

static void watched_rates(const struct watched_gate_counts *now,
                          const struct watched_gate_counts *before, double values[])
{
    values[GATE_METRIC_LOOKUPS] = watched_rate(now->lookups, before->lookups);
    values[GATE_METRIC_AVOIDED] = watched_rate(now->avoided, before->avoided);
    values[GATE_METRIC_WASTED] = watched_rate(now->wasted, before->wasted);
    values[GATE_METRIC_CALLS] = watched_rate(now->calls, before->calls);
    values[GATE_METRIC_ERRORS] = watched_rate(now->errors, before->errors);
    if (now->calls > before->calls && now->nanoseconds >= before->nanoseconds) {
        values[GATE_METRIC_CALL_SECONDS] =
            (double)(now->nanoseconds - before->nanoseconds) / 1e9
            / (double)(now->calls - before->calls);
    }
}

static void watched_values(const struct figures *figures, const bg_gate_info *stats,
                           double values[])
{
    if (figures->examined) {
        values[GATE_METRIC_ITEMS] = figures->health.items.value;
    }
    if (stats->predicted > 0) {
        values[GATE_METRIC_PREDICTED] = stats->predicted;
    }
    if (stats->outcomes[BG_OUTCOME_ABSENT_BY_FILTER] + stats->wasted > 0) {
        values[GATE_METRIC_OBSERVED] = stats->observed.value;
        values[GATE_METRIC_OBSERVED_LOW] = stats->observed.low;
        values[GATE_METRIC_OBSERVED_HIGH] = stats->observed.high;
    }
}

void watched_gate_step(struct watched_gates *gates, const struct gate_about *about,
                       uint64_t seconds)
{
    struct watched_gate *gate = watched_gate_get(gates, about->name);
    bg_gate_info stats;
    double values[GATE_METRICS];
    if (!gate || !gate->history) {
        return;
    }
    gates_total(about, gate->figures.examined ? &gate->figures.health : NULL, &stats);
    const struct watched_gate_counts now = {
        stats.lookups,     stats.avoided,      stats.wasted,
        stats.store_calls, stats.store_errors, stats.store_nanoseconds
    };
    for (size_t i = 0; i < GATE_METRICS; i++) {
        values[i] = (double)NAN;
    }
    if (gate->has_last) {
        watched_rates(&now, &gate->last, values);
    }
    watched_values(&gate->figures, &stats, values);
    if (about->lag >= 0) {
        values[GATE_METRIC_LAG] = about->lag;
    }
    history_add(gate->history, seconds, values);
    gate->last = now;
    gate->has_last = true;
}

void watched_gates_free(struct watched_gates *gates)
{
    for (size_t i = 0; i < gates->count; i++) {
        history_free(gates->list[i].history);
        free(gates->list[i].name);
    }
    free(gates->list);
}
