/*
 * gate_about.c - computes a gate's statistics and observed rate, and decides when to rebuild.
 *
 * The observed false-positive rate counts only absent keys. These are the keys that the backing
 * store, or the cache of its answers, reported as absent, and the keys for which the filter
 * answered "no". The rate is the share of absent keys for which the filter answered "maybe".
 * Present keys and failed queries do not count. There are two complications:
 *
 *   - Reports (bg_gate_report) cover only "maybe" answers, usually from bg_gate_may_contain, and
 *     possibly not all of them. So if only a share of the "maybe" answers from that function was
 *     reported, the same share of its "no" answers is counted.
 *   - A new base has its own rate, so observations from before it was published are excluded.
 *
 * The interval is the Wilson interval, which assumes that lookups are independent. Repeated
 * lookups of one key are not independent and make the interval too narrow. For the decision to
 * rebuild, repeated lookups of a false positive therefore count once: a client that looks up one
 * deleted key a million times must not cause a full scan of the backing store. The different keys
 * are counted by linear counting: with n of m bits zero, about m ln(m / n) keys were seen (Whang et
 * al., 1990). In addition, a rebuild requires GATE_OBSERVED_MIN lookups of absent keys, because one
 * lookup proves nothing.
 */
#include "gate/gate_body.h"

#include "base/bits.h"

#include <math.h>
#include <string.h>

/* Minimum number of observed absent keys for a rebuild because of the observed rate. */
enum { GATE_OBSERVED_MIN = 1000 };

/* ---- Sums ---------------------------------------------------------------------------- */

static void gate_sum(const bg_gate *gate, uint64_t sums[GATE_COUNTERS])
{
    for (unsigned c = 0; c < GATE_COUNTERS; c++) {
        sums[c] = 0;
        for (uint32_t i = 0; i < gate->lines_count; i++) {
            sums[c] +=
                atomic_load_explicit(&gate->lines[i].count[c], memory_order_relaxed);
        }
    }
}

static uint64_t gate_rare(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Returns a - b, or 0 if b is larger. */
static uint64_t gate_less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* ---- The observed rate --------------------------------------------------------------- */

/* Returns the observations since the gate was created. */
static struct gate_seen gate_see(const bg_gate *gate,
                                 const uint64_t sums[GATE_COUNTERS])
{
    return (struct gate_seen){
        .maybe = sums[GATE_OUTCOME + BG_OUTCOME_ABSENT_BY_STORE]
                 + sums[GATE_OUTCOME + BG_OUTCOME_ABSENT_BY_CACHE],
        .no = sums[GATE_OUTCOME + BG_OUTCOME_ABSENT_BY_FILTER] + sums[GATE_CHECKED],
        .may_maybe = sums[GATE_MAY_MAYBE],
        .may_no = sums[GATE_MAY_NO],
        .reported = gate_rare(&gate->rare.reported),
        .reported_absent = gate_rare(&gate->rare.reported_absent),
    };
}

/* Adds the reported "maybe" answers for absent keys, and the corresponding share of the "no"
 * answers. */
static struct gate_seen gate_see_reported(struct gate_seen seen)
{
    const double heard = seen.reported < seen.may_maybe
                             ? (double)seen.reported / (double)seen.may_maybe
                         : seen.reported ? 1
                                         : 0;
    seen.maybe += seen.reported_absent;
    seen.no += (uint64_t)(heard * (double)seen.may_no);
    return seen;
}

void gate_base_came(bg_gate *gate, uint64_t bases)
{
    uint64_t sums[GATE_COUNTERS];
    if (pthread_mutex_trylock(&gate->lock) != 0) {
        /* Another thread holds the lock, and lookups must not wait. */
        return;
    }
    if (atomic_load(&gate->bases) < bases) {
        gate_sum(gate, sums);
        gate->before = gate_see(gate, sums);
        for (size_t i = 0; i < GATE_WASTED; i++) {
            atomic_store_explicit(&gate->wasted[i], 0, memory_order_relaxed);
        }
        atomic_store(&gate->bases, bases);
    }
    (void)pthread_mutex_unlock(&gate->lock);
}

/* Returns about how many different keys were false positives of the current base. */
static uint64_t gate_distinct(const bg_gate *gate)
{
    const double bits = 64.0 * GATE_WASTED;
    uint64_t ones = 0;
    for (size_t i = 0; i < GATE_WASTED; i++) {
        ones += (uint64_t)bgi_popcount64(
            atomic_load_explicit(&gate->wasted[i], memory_order_relaxed));
    }
    const double zeros = bits - (double)ones;
    return zeros > 0 ? (uint64_t)(bits * log(bits / zeros) + 0.5) : UINT64_MAX;
}

/* Returns the observations of absent keys since the current base was published, with at most
 * `distinct` false positives. */
static struct gate_seen gate_see_base(bg_gate *gate, struct gate_seen all,
                                      uint64_t distinct)
{
    (void)pthread_mutex_lock(&gate->lock);
    const struct gate_seen before = gate->before;
    (void)pthread_mutex_unlock(&gate->lock);
    const uint64_t maybe = gate_less(all.maybe, before.maybe);
    return gate_see_reported((struct gate_seen){
        .maybe = maybe < distinct ? maybe : distinct,
        .no = gate_less(all.no, before.no),
        .may_maybe = gate_less(all.may_maybe, before.may_maybe),
        .may_no = gate_less(all.may_no, before.may_no),
        .reported = gate_less(all.reported, before.reported),
        .reported_absent = gate_less(all.reported_absent, before.reported_absent),
    });
}

/* Returns whether there are more false positives than chance can explain at this rate. The excess
 * must be more than four standard deviations (1 in 30000), because the check runs often, and more
 * than 10%, because lookups are not independent. */
static bool gate_is_above(struct gate_seen seen, double rate)
{
    const double n = (double)seen.maybe + (double)seen.no, expected = n * rate;
    const double over = (double)seen.maybe - expected;
    return n > 0 && over > 0.1 * expected && over * over > 16 * (expected + 1);
}

/* ---- Public functions ----------------------------------------------------------------- */

void bg_gate_report(bg_gate *gate, bool was_present)
{
    if (gate) {
        (void)gate_count_rare(&gate->rare.reported);
        if (!was_present) {
            (void)gate_count_rare(&gate->rare.reported_absent);
        }
    }
}

static void gate_fill_in(const bg_gate *gate, const uint64_t sums[GATE_COUNTERS],
                         bg_gate_info *stats)
{
    memcpy(stats->outcomes, sums + GATE_OUTCOME, sizeof stats->outcomes);
    stats->outcomes[BG_OUTCOME_ABSENT_BY_FILTER] += sums[GATE_CHECKED];
    stats->outcomes[BG_OUTCOME_ABSENT_BY_STORE] += sums[GATE_DOUBTED_STORE];
    for (unsigned i = 0; i < GATE_OUTCOMES; i++) {
        stats->lookups += stats->outcomes[i];
    }
    stats->breaker = (uint32_t)bgi_breaker_state(gate->breaker);
    stats->breaker_opened = gate_rare(&gate->breaker->opened);
    stats->store_calls = sums[GATE_STORE_CALLS];
    stats->store_errors = sums[GATE_STORE_ERRORS];
    stats->store_nanoseconds = sums[GATE_STORE_NS];
    stats->avoided = sums[GATE_OUTCOME + BG_OUTCOME_ABSENT_BY_FILTER];
    stats->wasted = sums[GATE_OUTCOME + BG_OUTCOME_ABSENT_BY_STORE]
                    + gate_rare(&gate->rare.reported_absent);
    stats->shared = gate_rare(&gate->rare.shared);
    stats->spared_by_breaker = sums[GATE_SPARED];
    stats->audits = sums[GATE_AUDITS];
    stats->false_negatives = gate_rare(&gate->rare.false_negatives);
    stats->reported = gate_rare(&gate->rare.reported);
    stats->writes = sums[GATE_WRITES];
    stats->write_errors = gate_rare(&gate->rare.write_errors);
    stats->negative_hits = stats->outcomes[BG_OUTCOME_ABSENT_BY_CACHE];
}

void gate_about(bg_gate *gate, const bg_slot_health *health, bg_gate_info *stats)
{
    uint64_t sums[GATE_COUNTERS];
    *stats = (bg_gate_info){ .struct_size = sizeof *stats };
    const uint64_t bases = slot_bases(gate->slot);
    gate_watch_base(gate, bases);
    gate_sum(gate, sums);
    gate_fill_in(gate, sums, stats);
    struct gate_seen seen = gate_see_base(gate, gate_see(gate, sums), UINT64_MAX);
    stats->observed = bg_observed_rate(seen.maybe, seen.maybe + seen.no);
    stats->doubtful = gate_in_doubt(gate);
    if (gate->recent) {
        stats->negative_entries =
            bgi_recent_count(gate->recent, gate_era(gate, bases), gate_now(gate));
    }
    if (health) {
        stats->predicted = health->rate;
        stats->drifting = health->filters > 0 && gate_is_above(seen, health->rate);
    }
}

bg_err bg_gate_get_info(const bg_gate *gate, const bg_slot_health *health,
                        bg_gate_info *out)
{
    if (!gate || !out || out->struct_size != sizeof *out
        || (health && health->struct_size != sizeof *health)) {
        return BG_EINVAL;
    }
    gate_about((bg_gate *)gate, health, out);
    return BG_OK;
}

/* Sets *observed to the observed rate, in which each false positive counts once. Returns whether it
 * is based on enough lookups for a decision. */
static bool gate_observe(bg_gate *gate, bg_estimate *observed)
{
    uint64_t sums[GATE_COUNTERS];
    gate_sum(gate, sums);
    const struct gate_seen seen =
        gate_see_base(gate, gate_see(gate, sums), gate_distinct(gate));
    *observed = bg_observed_rate(seen.maybe, seen.maybe + seen.no);
    return seen.maybe + seen.no >= GATE_OBSERVED_MIN;
}

bg_err bg_gate_maintain(bg_gate *gate, const bg_policy *policy, const bg_source *source,
                        const bg_rebuild_options *rebuilding, uint32_t *reasons,
                        bg_errinfo *info)
{
    static const bg_policy usual = BG_POLICY_INIT;
    bg_gate_info stats = { .struct_size = sizeof stats };
    bgi_err_clear(info);
    if (bg_gate_get_info(gate, NULL, &stats) != BG_OK) {
        return bgi_err(info, BG_EINVAL, "gate", "a gate", "NULL");
    }
    bg_estimate observed;
    uint32_t why = bg_slot_advise(gate->slot, policy ? policy : &usual,
                                  gate_observe(gate, &observed) ? &observed : NULL);
    /* A filter that had no space for a key needs a rebuild, too. */
    if (stats.doubtful) {
        why |= BG_REASON_DEGRADED;
    }
    if (reasons) {
        *reasons = why;
    }
    if (!why || !source) {
        return BG_OK;
    }
    bg_err err = bg_slot_rebuild(gate->slot, source, rebuilding, NULL, info);
    /* Earlier observations must not count against the new base. */
    return err ? err : bg_gate_get_info(gate, NULL, &stats);
}
