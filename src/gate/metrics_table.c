/*
 * metrics_table.c - the table of all metrics.
 *
 * The three formats, docs/metrics.md and the checks for ops/ (tools/check_ops.py) use this table.
 * Names are stable, because users' alerts and dashboards depend on them. Rules for new metrics:
 *
 *   - names end with a base unit: _seconds, _bytes, _items, _ratio (0 .. 1); a counter's name then
 *     ends with _total, and the name of an info metric ends with _info;
 *   - `filter` is the only label with external values; all other labels have a few fixed values;
 *   - the sum of a family's samples over all values of a label is meaningful;
 *   - samples that do not apply to an object are omitted, rather than reported as 0.
 */
#include "gate/metrics.h"

#include <stddef.h>

#define TABLE_FORM(member)                                                             \
    _Generic(((struct metrics_facts *)0)->member, uint64_t                             \
             : METRICS_WHOLE, double                                                   \
             : METRICS_REAL, const char *                                              \
             : METRICS_TEXT, char *                                                    \
             : METRICS_CHARS)
#define TABLE_IS(label, member)                                                        \
    {                                                                                  \
        label, offsetof(struct metrics_facts, member), TABLE_FORM(member)              \
    }

/* Each entry is kept on one line, as in a table. */
/* clang-format off */
#define COUNTER(needs, name, unit, by, help, ...)                                      \
    { "bloomgate_" name "_total", unit, by, help, METRICS_COUNTER, needs, { __VA_ARGS__ } }
#define GAUGE(needs, name, unit, by, help, ...)                                        \
    { "bloomgate_" name, unit, by, help, METRICS_GAUGE, needs, { __VA_ARGS__ } }
#define INFO(needs, name, help, ...)                                                   \
    { "bloomgate_" name "_info", "", NULL, help, METRICS_INFO, needs, { __VA_ARGS__ } }
#define ONE(member)       TABLE_IS("", member)
#define IS(label, member) TABLE_IS(label, member)

static const struct metrics_family families[] = {
    INFO(METRICS_PROCESS, "build",
         "Version of the running library, and the instruction set that new filters use.",
         IS("version", version), IS("cpu", cpu)),

    /* ---- Slots -------------------------------------------------------------------- */

    INFO(METRICS_SLOT, "filter",
         "Base of the slot: its filter kind (none if there is no base), hash profile and file digest.",
         IS("kind", kind), IS("hash", hash), IS("digest", digest)),
    INFO(METRICS_FAILED, "filter_last_failure",
         "Error from the last failed reload or rebuild.",
         IS("error", failure)),
    GAUGE(METRICS_SLOT, "filter_layers", "", NULL,
          "Number of filters in the slot: base, deltas, and filters of a migration or rebuild.",
          ONE(layers)),
    GAUGE(METRICS_SLOT, "filter_size_bytes", "bytes", NULL,
          "Memory used by all filters in the slot.",
          ONE(size)),
    GAUGE(METRICS_SLOT, "filter_degraded", "", NULL,
          "1 if parts of a loaded file were damaged; these parts answer maybe to every query.",
          ONE(degraded)),
    COUNTER(METRICS_SLOT, "filter_queries", "", "result",
            "Keys queried, by answer.",
            IS("maybe", maybes), IS("no", noes)),
    COUNTER(METRICS_SLOT, "filter_inserts", "", "result",
            "Keys added, by result: definitely new, or possibly already present; rejected counts "
            "calls that failed.",
            IS("new", news), IS("maybe_present", seen), IS("rejected", refused)),
    COUNTER(METRICS_SLOT, "filter_swaps", "", NULL,
            "Number of times the slot's base was replaced, for any reason.",
            ONE(swaps)),
    COUNTER(METRICS_SLOT, "filter_reloads", "", "result",
            "Reloads from a file (unchanged: the slot already had this file).",
            IS("ok", reloads), IS("unchanged", reload_unchanged), IS("failed", reload_failures)),
    COUNTER(METRICS_SLOT, "filter_rebuilds", "", "result",
            "Rebuilds from the source keys.",
            IS("ok", rebuilds), IS("failed", rebuild_failures)),
    COUNTER(METRICS_SLOT, "filter_compactions", "", NULL,
            "Merges of deltas into the base.",
            ONE(compactions)),
    GAUGE(METRICS_SLOT, "filter_retired_lists", "", NULL,
          "Replaced filter lists that are waiting for their last reader to finish.",
          ONE(retired)),
    GAUGE(METRICS_SLOT, "filter_complete_sequence", "", NULL,
          "Position in the backing store's log up to which the slot has all keys.",
          ONE(complete)),
    GAUGE(METRICS_SLOT, "filter_generation", "", NULL,
          "Generation of the last loaded file.",
          ONE(generation)),
    GAUGE(METRICS_BASE, "filter_base_age_seconds", "seconds", NULL,
          "Time since the slot's current base was installed.",
          ONE(base_age)),
    GAUGE(METRICS_SLOT, "filter_rebuilding", "", NULL,
          "1 while a rebuild is running.",
          ONE(rebuilding)),
    GAUGE(METRICS_SLOT, "filter_migrating", "", NULL,
          "1 during a migration, when the previous base is queried as well.",
          ONE(migrating)),

    GAUGE(METRICS_HEALTH, "filter_capacity_items", "items", NULL,
          "Number of distinct keys that the base and the deltas are designed for.",
          ONE(capacity)),
    GAUGE(METRICS_HEALTH, "filter_items", "items", NULL,
          "Estimated number of distinct keys in the filter.",
          ONE(items)),
    GAUGE(METRICS_HEALTH, "filter_low_items", "items", NULL,
          "Lower end of the 95% confidence interval of bloomgate_filter_items.",
          ONE(items_low)),
    GAUGE(METRICS_HEALTH, "filter_high_items", "items", NULL,
          "Upper end of the 95% confidence interval of bloomgate_filter_items.",
          ONE(items_high)),
    GAUGE(METRICS_HEALTH, "filter_fill_ratio", "ratio", NULL,
          "Share of bits set, or of table cells in use, in the fullest filter of the slot.",
          ONE(fill)),
    GAUGE(METRICS_HEALTH, "filter_target_fpr_ratio", "ratio", NULL,
          "False-positive rate that the base is designed for (0: unknown).",
          ONE(target)),
    GAUGE(METRICS_HEALTH, "filter_predicted_fpr_ratio", "ratio", NULL,
          "False-positive rate predicted from the current fill of all queried filters.",
          ONE(predicted)),
    GAUGE(METRICS_HEALTH, "filter_fpr_health", "", NULL,
          "Predicted false-positive rate compared with the target: 0 fine, 1 watch, 2 act.",
          ONE(rate_health)),
    GAUGE(METRICS_HEALTH, "filter_measured_fpr_ratio", "ratio", NULL,
          "False-positive rate measured with probe keys that are not in the filter.",
          ONE(measured)),
    GAUGE(METRICS_HEALTH, "filter_measured_low_fpr_ratio", "ratio", NULL,
          "Lower end of the 95% confidence interval of the measured false-positive rate.",
          ONE(measured_low)),
    GAUGE(METRICS_HEALTH, "filter_measured_high_fpr_ratio", "ratio", NULL,
          "Upper end of the 95% confidence interval of the measured false-positive rate.",
          ONE(measured_high)),
    GAUGE(METRICS_HEALTH, "filter_overflowed", "", NULL,
          "1 if a filter overflowed; it answers maybe to every query.",
          ONE(overflowed)),
    GAUGE(METRICS_HEALTH, "filter_ones_per_insert", "", NULL,
          "Bits set per new key (0: no adds yet).",
          ONE(bits_per_insert)),
    GAUGE(METRICS_HEALTH, "filter_honest_ones_per_insert", "", NULL,
          "Expected bits set per new key, for keys that are not chosen by an attacker.",
          ONE(honest_per_insert)),
    GAUGE(METRICS_HEALTH, "filter_polluted", "", NULL,
          "1 if keys set more bits than chance explains, as keys chosen by an attacker do.",
          ONE(polluted)),

    /* ---- Gates -------------------------------------------------------------------- */

    COUNTER(METRICS_GATE, "gate_lookups", "", "outcome",
            "Lookups, by outcome.",
            IS("absent_by_filter", outcomes[BG_OUTCOME_ABSENT_BY_FILTER]),
            IS("absent_by_cache", outcomes[BG_OUTCOME_ABSENT_BY_CACHE]),
            IS("absent_by_truth", outcomes[BG_OUTCOME_ABSENT_BY_STORE]),
            IS("present", outcomes[BG_OUTCOME_PRESENT]),
            IS("unknown", outcomes[BG_OUTCOME_UNKNOWN]),
            IS("failed", outcomes[BG_OUTCOME_FAILED])),
    COUNTER(METRICS_GATE, "gate_truth_calls", "", NULL,
            "Calls to the backing store, including audits.",
            ONE(store_calls)),
    COUNTER(METRICS_GATE, "gate_truth_errors", "", NULL,
            "Calls to the backing store that failed.",
            ONE(store_errors)),
    COUNTER(METRICS_GATE, "gate_truth_seconds", "seconds", NULL,
            "Time spent in calls to the backing store, summed over all threads.",
            ONE(store_seconds)),
    COUNTER(METRICS_GATE, "gate_avoided_calls", "", NULL,
            "Calls to the backing store that the filter avoided.",
            ONE(avoided)),
    COUNTER(METRICS_GATE, "gate_wasted_calls", "", NULL,
            "Calls to the backing store for absent keys, plus false positives reported by callers.",
            ONE(wasted)),
    COUNTER(METRICS_GATE, "gate_shared_lookups", "", NULL,
            "Lookups answered by a concurrent lookup of the same key.",
            ONE(shared)),
    COUNTER(METRICS_GATE, "gate_reports", "", NULL,
            "Filter answers that callers reported as right or wrong.",
            ONE(reported)),
    GAUGE(METRICS_GATE, "gate_observed_fpr_ratio", "ratio", NULL,
          "Observed false-positive rate: the share of absent keys that passed the filter, since the base was installed.",
          ONE(observed)),
    GAUGE(METRICS_GATE, "gate_observed_low_fpr_ratio", "ratio", NULL,
          "Lower end of the 95% confidence interval of the observed false-positive rate.",
          ONE(observed_low)),
    GAUGE(METRICS_GATE, "gate_observed_high_fpr_ratio", "ratio", NULL,
          "Upper end of the 95% confidence interval of the observed false-positive rate.",
          ONE(observed_high)),
    GAUGE(METRICS_DRIFT, "gate_drifting", "", NULL,
          "1 if there are more false positives than the predicted rate explains.",
          ONE(drifting)),
    COUNTER(METRICS_GATE, "gate_audits", "", NULL,
            "Negative filter answers that were verified against the backing store.",
            ONE(audits)),
    COUNTER(METRICS_GATE, "gate_false_negatives", "", NULL,
            "False negatives found by audits: keys in the backing store for which the filter answered no. Must be 0.",
            ONE(false_negatives)),
    GAUGE(METRICS_GATE, "gate_doubtful", "", NULL,
          "1 if a key was written but could not be added to the filter; while it is 1, the filter answers "
          "maybe for every key.",
          ONE(doubtful)),
    COUNTER(METRICS_GATE, "gate_writes", "", NULL,
            "Keys written through the gate.",
            ONE(writes)),
    COUNTER(METRICS_GATE, "gate_write_errors", "", NULL,
            "Failed writes.",
            ONE(write_errors)),
    GAUGE(METRICS_GATE, "gate_breaker_state", "", NULL,
          "State of the breaker: 0 if closed (the backing store is called), 1 if open (it is not called), 2 "
          "while one lookup is testing it.",
          ONE(breaker)),
    COUNTER(METRICS_GATE, "gate_breaker_opened", "", NULL,
            "Number of times the breaker opened.",
            ONE(breaker_opened)),
    COUNTER(METRICS_GATE, "gate_breaker_spared_calls", "", NULL,
            "Calls to the backing store that were skipped because the breaker was open.",
            ONE(breaker_spared)),
    GAUGE(METRICS_GATE, "gate_negative_cache_entries", "", NULL,
          "Absent keys in the negative cache.",
          ONE(negative_entries)),
    COUNTER(METRICS_GATE, "gate_negative_cache_hits", "", NULL,
            "Lookups that the negative cache answered.",
            ONE(negative_hits)),

    /* ---- Tenants ------------------------------------------------------------------ */

    GAUGE(METRICS_TENANT, "tenant_items", "items", NULL,
          "Keys of the tenant that were definitely new when they were added.",
          ONE(tenant_items)),
    COUNTER(METRICS_TENANT, "tenant_limited", "", "reason",
            "The tenant's rejected adds, by the quota that they exceeded.",
            IS("items", limited_items), IS("bytes", limited_bytes), IS("rate", limited_rate)),
    COUNTER(METRICS_TENANT, "tenant_evictions", "", NULL,
            "Number of times the tenant was evicted from memory to the directory.",
            ONE(evictions)),
    COUNTER(METRICS_TENANT, "tenant_returns", "", "result",
            "Attempts to read the tenant back into memory.",
            IS("ok", returns), IS("failed", return_failures)),

    /* ---- Registries --------------------------------------------------------------- */

    GAUGE(METRICS_REGISTRY, "registry_tenants", "", "state",
          "Tenants in memory, and tenants that are only in the directory.",
          IS("memory", in_memory), IS("folder", in_directory)),
    GAUGE(METRICS_REGISTRY, "registry_reported_tenants", "", NULL,
          "Tenants in memory that have their own metrics in this document.",
          ONE(included)),
    GAUGE(METRICS_REGISTRY, "registry_size_bytes", "bytes", NULL,
          "Memory used by the filters of tenants in memory.",
          ONE(registry_bytes)),
    COUNTER(METRICS_REGISTRY, "registry_created_tenants", "", NULL,
            "Tenants created.",
            ONE(created)),
    COUNTER(METRICS_REGISTRY, "registry_removed_tenants", "", NULL,
            "Tenants removed.",
            ONE(removed)),
    COUNTER(METRICS_REGISTRY, "registry_evictions", "", NULL,
            "Evictions of idle tenants from memory to the directory.",
            ONE(evictions)),
    COUNTER(METRICS_REGISTRY, "registry_returns", "", "result",
            "Attempts to read a tenant back into memory.",
            IS("ok", returns), IS("failed", return_failures)),
    COUNTER(METRICS_REGISTRY, "registry_limited", "", NULL,
            "Adds and tenant creations that exceeded a quota, for all tenants.",
            ONE(limited)),
};
/* clang-format on */

const struct metrics_family *metrics_families(size_t *n)
{
    *n = sizeof families / sizeof families[0];
    return families;
}
