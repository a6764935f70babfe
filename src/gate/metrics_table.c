/*
 * metrics_table.c - the one table of metrics.
 *
 * It feeds the three formats, docs/metrics.md, and the checks of ops/ (tools/check_ops.py).
 * Names are a promise: alerts and dashboards of others depend on them. Rules for new ones:
 *
 *   - base units, and the unit at the end: _seconds, _bytes, _items, _ratio (0 .. 1);
 *     a counter ends with _total behind that, an info with _info;
 *   - `filter` is the only label with values from outside; all others are few and fixed;
 *   - the sum over all labels of a family means something;
 *   - what does not hold for a thing is left out, not 0.
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

/* One line after another, as a table: */
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
         "The library that is running: its version, and the instructions that new filters use.",
         IS("version", version), IS("cpu", cpu)),

    /* ---- Slots -------------------------------------------------------------------- */

    INFO(METRICS_SLOT, "filter",
         "The base of the slot: kind of filter (none: there is no base), hash profile, digest of its file.",
         IS("kind", kind), IS("hash", hash), IS("digest", digest)),
    INFO(METRICS_FAILED, "filter_last_failure",
         "The error of the last reload or rebuild that failed.",
         IS("error", failure)),
    GAUGE(METRICS_SLOT, "filter_layers", "", NULL,
          "Filters in the slot: base, deltas, and those of a migration or rebuild.",
          ONE(layers)),
    GAUGE(METRICS_SLOT, "filter_size_bytes", "bytes", NULL,
          "Memory of all filters in the slot.",
          ONE(size)),
    GAUGE(METRICS_SLOT, "filter_degraded", "", NULL,
          "1: parts of a file were damaged, and answer maybe to everything.",
          ONE(degraded)),
    COUNTER(METRICS_SLOT, "filter_queries", "", "result",
            "Keys asked for, by the answer.",
            IS("maybe", maybes), IS("no", noes)),
    COUNTER(METRICS_SLOT, "filter_inserts", "", "result",
            "Keys that came to be added: certainly new ones, those that may have been there, and those refused.",
            IS("new", news), IS("maybe_present", seen), IS("rejected", refused)),
    COUNTER(METRICS_SLOT, "filter_swaps", "", NULL,
            "How often the slot got another base, for whatever reason.",
            ONE(swaps)),
    COUNTER(METRICS_SLOT, "filter_reloads", "", "result",
            "Reloads from a file; unchanged: the file was the present one.",
            IS("ok", reloads), IS("unchanged", reload_unchanged), IS("failed", reload_failures)),
    COUNTER(METRICS_SLOT, "filter_rebuilds", "", "result",
            "Rebuilds from the keys.",
            IS("ok", rebuilds), IS("failed", rebuild_failures)),
    COUNTER(METRICS_SLOT, "filter_compactions", "", NULL,
            "Merges of base and delta.",
            ONE(compactions)),
    GAUGE(METRICS_SLOT, "filter_retired_lists", "", NULL,
          "Lists of filters that were replaced and wait for their last reader.",
          ONE(retired)),
    GAUGE(METRICS_SLOT, "filter_complete_sequence", "", NULL,
          "Up to which number of the truth's log the slot knows everything.",
          ONE(complete)),
    GAUGE(METRICS_SLOT, "filter_generation", "", NULL,
          "Generation of the last file that was loaded.",
          ONE(generation)),
    GAUGE(METRICS_BASE, "filter_base_age_seconds", "seconds", NULL,
          "How long the slot has had its base.",
          ONE(base_age)),
    GAUGE(METRICS_SLOT, "filter_rebuilding", "", NULL,
          "1: a rebuild is running.",
          ONE(rebuilding)),
    GAUGE(METRICS_SLOT, "filter_migrating", "", NULL,
          "1: the base before is asked as well.",
          ONE(migrating)),

    GAUGE(METRICS_HEALTH, "filter_capacity_items", "items", NULL,
          "Different keys that base and delta were made for.",
          ONE(capacity)),
    GAUGE(METRICS_HEALTH, "filter_items", "items", NULL,
          "Estimated number of different keys in the filter.",
          ONE(items)),
    GAUGE(METRICS_HEALTH, "filter_low_items", "items", NULL,
          "Lower end of the 95 % interval of that estimate.",
          ONE(items_low)),
    GAUGE(METRICS_HEALTH, "filter_high_items", "items", NULL,
          "Upper end of the 95 % interval of that estimate.",
          ONE(items_high)),
    GAUGE(METRICS_HEALTH, "filter_fill_ratio", "ratio", NULL,
          "Share of bits set, or slots in use, of the fullest filter in the slot.",
          ONE(fill)),
    GAUGE(METRICS_HEALTH, "filter_target_fpr_ratio", "ratio", NULL,
          "Rate of false positives that the base was made for; 0: unknown.",
          ONE(target)),
    GAUGE(METRICS_HEALTH, "filter_predicted_fpr_ratio", "ratio", NULL,
          "Rate of false positives that follows from the present fill, of all filters asked.",
          ONE(predicted)),
    GAUGE(METRICS_HEALTH, "filter_measured_fpr_ratio", "ratio", NULL,
          "Rate of false positives among keys that nobody has, tried out for this document.",
          ONE(measured)),
    GAUGE(METRICS_HEALTH, "filter_measured_low_fpr_ratio", "ratio", NULL,
          "Lower end of the 95 % interval of that rate.",
          ONE(measured_low)),
    GAUGE(METRICS_HEALTH, "filter_measured_high_fpr_ratio", "ratio", NULL,
          "Upper end of the 95 % interval of that rate.",
          ONE(measured_high)),
    GAUGE(METRICS_HEALTH, "filter_overflowed", "", NULL,
          "1: a filter was full, and answers maybe to everything.",
          ONE(overflowed)),
    GAUGE(METRICS_HEALTH, "filter_ones_per_insert", "", NULL,
          "Bits set per key that was new; 0: no adds yet.",
          ONE(bits_per_insert)),
    GAUGE(METRICS_HEALTH, "filter_honest_ones_per_insert", "", NULL,
          "What that would be for keys that nobody chose.",
          ONE(honest_per_insert)),
    GAUGE(METRICS_HEALTH, "filter_polluted", "", NULL,
          "1: keys set more bits than chance explains: somebody chooses them.",
          ONE(polluted)),

    /* ---- Gates -------------------------------------------------------------------- */

    COUNTER(METRICS_GATE, "gate_lookups", "", "outcome",
            "Look-ups, by what they came to.",
            IS("absent_by_filter", outcomes[BG_OUTCOME_ABSENT_BY_FILTER]),
            IS("absent_by_cache", outcomes[BG_OUTCOME_ABSENT_BY_CACHE]),
            IS("absent_by_truth", outcomes[BG_OUTCOME_ABSENT_BY_STORE]),
            IS("present", outcomes[BG_OUTCOME_PRESENT]),
            IS("unknown", outcomes[BG_OUTCOME_UNKNOWN]),
            IS("failed", outcomes[BG_OUTCOME_FAILED])),
    COUNTER(METRICS_GATE, "gate_truth_calls", "", NULL,
            "Questions to the truth, audits included.",
            ONE(store_calls)),
    COUNTER(METRICS_GATE, "gate_truth_errors", "", NULL,
            "Questions that the truth did not answer.",
            ONE(store_errors)),
    COUNTER(METRICS_GATE, "gate_truth_seconds", "seconds", NULL,
            "Time spent asking the truth, of all threads together.",
            ONE(truth_seconds)),
    COUNTER(METRICS_GATE, "gate_avoided_calls", "", NULL,
            "Questions that the truth was spared by the filter.",
            ONE(avoided)),
    COUNTER(METRICS_GATE, "gate_wasted_calls", "", NULL,
            "False positives: questions for keys that were absent after all, and those reported.",
            ONE(wasted)),
    COUNTER(METRICS_GATE, "gate_shared_lookups", "", NULL,
            "Look-ups answered by the question of another one for the same key.",
            ONE(shared)),
    COUNTER(METRICS_GATE, "gate_reports", "", NULL,
            "Answers of the filter that others reported as right or wrong.",
            ONE(reported)),
    GAUGE(METRICS_GATE, "gate_observed_fpr_ratio", "ratio", NULL,
          "Observed rate of false positives: of the absent keys, those that the filter let through, since the base came.",
          ONE(observed)),
    GAUGE(METRICS_GATE, "gate_observed_low_fpr_ratio", "ratio", NULL,
          "Lower end of the 95 % interval of that rate.",
          ONE(observed_low)),
    GAUGE(METRICS_GATE, "gate_observed_high_fpr_ratio", "ratio", NULL,
          "Upper end of the 95 % interval of that rate.",
          ONE(observed_high)),
    GAUGE(METRICS_DRIFT, "gate_drifting", "", NULL,
          "1: more false positives are observed than the predicted rate explains.",
          ONE(drifting)),
    COUNTER(METRICS_GATE, "gate_audits", "", NULL,
            "Answers no of the filter that were checked with the truth.",
            ONE(audits)),
    COUNTER(METRICS_GATE, "gate_false_negatives", "", NULL,
            "Keys that the filter denied and the truth has, found by audits. Must be 0.",
            ONE(false_negatives)),
    GAUGE(METRICS_GATE, "gate_doubtful", "", NULL,
          "1: a key was written but could not be added: everything is answered maybe.",
          ONE(doubtful)),
    COUNTER(METRICS_GATE, "gate_writes", "", NULL,
            "Keys written through the gate.",
            ONE(writes)),
    COUNTER(METRICS_GATE, "gate_write_errors", "", NULL,
            "Writes that failed.",
            ONE(write_errors)),
    GAUGE(METRICS_GATE, "gate_breaker_state", "", NULL,
          "0: closed, the truth is asked; 1: open, it is left alone; 2: one look-up tries it.",
          ONE(breaker)),
    COUNTER(METRICS_GATE, "gate_breaker_opened", "", NULL,
            "How often the breaker opened.",
            ONE(breaker_opened)),
    COUNTER(METRICS_GATE, "gate_breaker_spared_calls", "", NULL,
            "Questions that were not asked because the breaker was open.",
            ONE(breaker_spared)),
    GAUGE(METRICS_GATE, "gate_negative_cache_entries", "", NULL,
          "Absent keys that the negative cache remembers.",
          ONE(negative_entries)),
    COUNTER(METRICS_GATE, "gate_negative_cache_hits", "", NULL,
            "Look-ups that the negative cache answered.",
            ONE(negative_hits)),

    /* ---- Tenants ------------------------------------------------------------------ */

    GAUGE(METRICS_TENANT, "tenant_items", "items", NULL,
          "Keys of the tenant that were certainly new when they were added.",
          ONE(tenant_items)),
    COUNTER(METRICS_TENANT, "tenant_limited", "", "reason",
            "Adds of the tenant that were refused, by the quota that was exceeded.",
            IS("items", limited_items), IS("bytes", limited_bytes), IS("rate", limited_rate)),
    COUNTER(METRICS_TENANT, "tenant_evictions", "", NULL,
            "How often the tenant was written to the directory and left memory.",
            ONE(evictions)),
    COUNTER(METRICS_TENANT, "tenant_returns", "", "result",
            "Attempts to read the tenant back into memory.",
            IS("ok", returns), IS("failed", return_failures)),

    /* ---- Registries --------------------------------------------------------------- */

    GAUGE(METRICS_REGISTRY, "registry_tenants", "", "state",
          "Tenants, in memory and in the directory only.",
          IS("memory", in_memory), IS("folder", in_directory)),
    GAUGE(METRICS_REGISTRY, "registry_reported_tenants", "", NULL,
          "Tenants in memory whose own figures are in this document.",
          ONE(told)),
    GAUGE(METRICS_REGISTRY, "registry_size_bytes", "bytes", NULL,
          "Memory of the filters of all tenants in memory.",
          ONE(registry_bytes)),
    COUNTER(METRICS_REGISTRY, "registry_created_tenants", "", NULL,
            "Tenants created.",
            ONE(created)),
    COUNTER(METRICS_REGISTRY, "registry_removed_tenants", "", NULL,
            "Tenants removed.",
            ONE(removed)),
    COUNTER(METRICS_REGISTRY, "registry_evictions", "", NULL,
            "Idle tenants that were written to the directory and left memory.",
            ONE(evictions)),
    COUNTER(METRICS_REGISTRY, "registry_returns", "", "result",
            "Attempts to read a tenant back into memory.",
            IS("ok", returns), IS("failed", return_failures)),
    COUNTER(METRICS_REGISTRY, "registry_limited", "", NULL,
            "Adds and creations of tenants that were refused, of all tenants.",
            ONE(limited)),
};
/* clang-format on */

const struct metrics_family *metrics_families(size_t *n)
{
    *n = sizeof families / sizeof families[0];
    return families;
}
