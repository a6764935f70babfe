/*
 * metrics.c - collects metrics from slots and gates.
 *
 * Counters must not decrease (see metrics.h). Slots and gates sum their counters over all CPUs
 * while other threads update them. An event that occurs between two such summations is counted in
 * only one of them, so the difference between the two sums may decrease. To avoid this, slots and
 * gates count the parts separately and add them up: queries are the sum of "no" and "maybe"
 * answers, and adds are the sum of new and old keys. If such a total is read together with one
 * part, their difference is the other part, which is a counter itself and never decreases.
 */
#include "gate/metrics.h"

#include "base/checked.h"
#include "base/errinfo.h"
#include "filter/handle.h"
#include "gate/gate_body.h"

#include "bloomgate/cpu.h"
#include "bloomgate/version.h"

#include <string.h>

#define METRICS_SECOND 1e9 /* nanoseconds */

_Static_assert(METRICS_OUTCOMES
                   == sizeof((bg_gate_info *)0)->outcomes / sizeof(uint64_t),
               "there must be one fact per outcome");

void metrics_gather_process(struct metrics_facts *facts)
{
    facts->version = bg_version();
    facts->cpu = bg_cpu_name(bg_cpu_current());
    facts->has |= METRICS_PROCESS;
}

/* ---- Slots ------------------------------------------------------------------------- */

static uint64_t metrics_less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Collects the facts about filters that are known without reading the filters. */
static void metrics_gather_filters(const bg_slot *slot, struct metrics_facts *facts)
{
    bg_pin pin;
    bg_role role;
    const bg_filter *filter;
    facts->kind = facts->hash = "none";
    bg_slot_pin(slot, &pin);
    for (size_t i = 0; (filter = bg_pin_filter(&pin, i, &role)) != NULL; i++) {
        if (role == BG_ROLE_BASE) {
            facts->kind = bg_kind_name(bg_filter_kind(filter));
            facts->hash = bg_hash_name(bg_hasher_profile(bg_filter_hasher(filter)));
            facts->has |= METRICS_BASE;
        }
        facts->size += bg_filter_size_bytes(filter);
        facts->degraded |= __atomic_load_n(&filter->degraded, __ATOMIC_RELAXED);
    }
    bg_slot_unpin(slot, &pin);
}

static bg_err metrics_gather_slot(const bg_slot *slot, struct metrics_facts *facts)
{
    bg_slot_info stats = { .struct_size = sizeof stats };
    bg_err err = bg_slot_get_info(slot, &stats);
    if (err) {
        return err;
    }
    memcpy(facts->digest, stats.digest, sizeof facts->digest);
    facts->layers = stats.filters;
    facts->maybes = stats.maybes;
    facts->noes = metrics_less(stats.queries, stats.maybes);
    facts->news = stats.news;
    facts->seen = metrics_less(stats.adds, stats.news);
    facts->refused = stats.refused;
    facts->swaps = stats.swaps;
    facts->reloads = stats.reloads;
    facts->reload_unchanged = stats.reload_unchanged;
    facts->reload_failures = stats.reload_failures;
    facts->rebuilds = stats.rebuilds;
    facts->rebuild_failures = stats.rebuild_failures;
    facts->compactions = stats.compactions;
    facts->retired = stats.retired;
    facts->complete = stats.complete;
    facts->generation = stats.generation;
    facts->rebuilding = stats.rebuilding;
    facts->migrating = stats.migrating;
    facts->base_age =
        (double)metrics_less(slot_now(slot), stats.base_since) / METRICS_SECOND;
    facts->has |= METRICS_SLOT;
    if (stats.last_failure.code != BG_OK) {
        facts->failure = bg_err_name(stats.last_failure.code);
        facts->has |= METRICS_FAILED;
    }
    metrics_gather_filters(slot, facts);
    return BG_OK;
}

static void metrics_gather_health(const bg_slot_health *health,
                                  struct metrics_facts *facts)
{
    facts->capacity = health->capacity;
    facts->overflowed = health->overflowed;
    facts->polluted = health->polluted;
    facts->items = health->items.value;
    facts->items_low = health->items.low;
    facts->items_high = health->items.high;
    facts->fill = health->fill;
    facts->target = health->target;
    facts->predicted = health->rate;
    facts->rate_health = health->rate_health;
    facts->measured = health->measured.value;
    facts->measured_low = health->measured.low;
    facts->measured_high = health->measured.high;
    facts->bits_per_insert = health->bits_per_insert;
    facts->honest_per_insert = health->honest_per_insert;
    facts->has |= METRICS_HEALTH;
}

/* ---- Gates ------------------------------------------------------------------------- */

static void metrics_gather_gate(const bg_gate *gate, const bg_slot_health *health,
                                struct metrics_facts *facts)
{
    bg_gate_info stats = { .struct_size = sizeof stats };
    gate_about((bg_gate *)gate, health, &stats);
    memcpy(facts->outcomes, stats.outcomes, sizeof facts->outcomes);
    facts->store_calls = stats.store_calls;
    facts->store_errors = stats.store_errors;
    facts->store_seconds = (double)stats.store_nanoseconds / METRICS_SECOND;
    facts->avoided = stats.avoided;
    facts->wasted = stats.wasted;
    facts->shared = stats.shared;
    facts->reported = stats.reported;
    facts->breaker = stats.breaker;
    facts->breaker_opened = stats.breaker_opened;
    facts->breaker_spared = stats.spared_by_breaker;
    facts->audits = stats.audits;
    facts->false_negatives = stats.false_negatives;
    facts->writes = stats.writes;
    facts->write_errors = stats.write_errors;
    facts->negative_entries = stats.negative_entries;
    facts->negative_hits = stats.negative_hits;
    facts->doubtful = stats.doubtful;
    facts->drifting = stats.drifting;
    facts->observed = stats.observed.value;
    facts->observed_low = stats.observed.low;
    facts->observed_high = stats.observed.high;
    facts->has |= health ? METRICS_GATE | METRICS_DRIFT : METRICS_GATE;
}

bg_err metrics_gather(const bg_slot *slot, const bg_gate *gate,
                      const bg_slot_health *known, uint32_t flags,
                      struct metrics_facts *facts, bg_errinfo *info)
{
    bg_slot_health found = { .struct_size = sizeof found };
    slot = slot ? slot : bg_gate_slot(gate);
    bg_err err = metrics_gather_slot(slot, facts);
    if (!err && !known && !(flags & BG_METRICS_CHEAP)) {
        err = bg_slot_get_health(slot, &found);
        known = &found;
    }
    if (!err && known) {
        metrics_gather_health(known, facts);
    }
    if (!err && gate) {
        metrics_gather_gate(gate, known, facts);
    }
    return err ? bgi_err_state(info, err, "item", "cannot read the slot's metrics: %s",
                               bg_strerror(err))
               : BG_OK;
}

/* ---- Documents --------------------------------------------------------------------- */

struct metrics_facts *metrics_take(struct bgi_memory *memory, size_t n, size_t each,
                                   bg_errinfo *info)
{
    uint64_t bytes;
    size_t fits;
    if (bgi_mul_u64(n, each, &bytes) && bgi_fits_size(bytes, &fits)
        && bgi_memory_take(memory, fits, NULL, true)) {
        return memory->base;
    }
    (void)bgi_err_state(
        info, BG_ENOMEM, "memory",
        "cannot allocate memory for the metrics of %zu items (%zu bytes each)", n,
        each);
    return NULL;
}

static bg_err metrics_check_items(const bg_metrics_item *items, size_t n,
                                  bg_errinfo *info)
{
    if (n > 0 && !items) {
        return bgi_err(info, BG_EINVAL, "items", "an array", "NULL");
    }
    for (size_t i = 0; i < n; i++) {
        if (!items[i].name) {
            return bgi_err_state(info, BG_EINVAL, "name", "item %zu has no name", i);
        }
        if (!items[i].slot && !items[i].gate) {
            return bgi_err_state(info, BG_EINVAL, "item",
                                 "item %zu has neither a slot nor a gate", i);
        }
    }
    return n < SIZE_MAX ? BG_OK
                        : bgi_err(info, BG_EINVAL, "n", "fewer items", "%zu", n);
}

/* The destination of a document. */
struct metrics_to {
    bg_metrics_format format;
    bg_metrics_sink_fn sink;
    void *context;
};

static bg_err metrics_write_to(const bg_metrics_item *items,
                               const bg_slot_health *const *healths, size_t n,
                               uint32_t flags, const struct metrics_to *to,
                               bg_errinfo *info)
{
    struct bgi_memory memory;
    bg_err err = metrics_check(to->format, flags, to->sink, info);
    err = err ? err : metrics_check_items(items, n, info);
    if (err) {
        return err;
    }
    struct metrics_facts *facts = metrics_take(&memory, n + 1, sizeof *facts, info);
    if (!facts) {
        return BG_ENOMEM;
    }
    metrics_gather_process(&facts[0]);
    for (size_t i = 0; i < n && !err; i++) {
        facts[i + 1].name = items[i].name;
        err = metrics_gather(items[i].slot, items[i].gate, healths ? healths[i] : NULL,
                             flags, &facts[i + 1], info);
    }
    err = err ? err
              : metrics_document(facts, n + 1, to->format, to->sink, to->context, info);
    bgi_memory_give(&memory);
    return err;
}

bg_err bg_metrics_write(const bg_metrics_item *items, size_t n,
                        bg_metrics_format format, uint32_t flags,
                        bg_metrics_sink_fn sink, void *context, bg_errinfo *info)
{
    const struct metrics_to to = { format, sink, context };
    return metrics_write_to(items, NULL, n, flags, &to, info);
}

bg_err bg_metrics_write_known(const bg_metrics_item *items,
                              const bg_slot_health *const *healths, size_t n,
                              bg_metrics_format format, bg_metrics_sink_fn sink,
                              void *context, bg_errinfo *info)
{
    const struct metrics_to to = { format, sink, context };
    return metrics_write_to(items, healths, n, BG_METRICS_CHEAP, &to, info);
}
