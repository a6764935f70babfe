/*
 * health.c - reports a slot's health: its counters, the state of its filters, and reasons to
 * rebuild.
 *
 * Pollution. If an attacker chooses keys that fill up a filter, these keys set more bits than
 * random keys do. In a Bloom filter with k bits per key and a share f of its m bits set, a random
 * new key (one for which at least one bit is unset) sets k (1 - f) / (1 - f^k) bits on average.
 * This is the mean number of unset bits among k bits, given that at least one bit is unset. So
 * raising the fill from a to b should take
 *
 *     m * integral from a to b of (1 - f^k) / (k (1 - f)) df
 *
 * new keys. If far fewer new keys were enough, the keys were not random. A keyed hash prevents this
 * attack (hash.h). The alarm is for callers that cannot use a keyed hash, and for cases in which
 * the secret has leaked. In kinds that keep each key in one cache line, lines fill unevenly,
 * which shifts the mean by a few percent. Alarms start at HEALTH_TOLERANCE.
 *
 * Probes. The predicted rate assumes that keys are spread evenly, and a gate's observed rate
 * depends on the queries. Absent canaries are generated keys that are never added to a filter.
 * Querying them measures the actual rate of the filters, without a backing store and without
 * traffic. Canaries are numbered consecutively, so every measurement uses new canaries.
 */
#include "gate/slot_inside.h"
#include "store/container.h"

#include <math.h>
#include <string.h>

#define HEALTH_TOLERANCE 1.15
#define HEALTH_DOUBT     4.0 /* standard deviations */

enum { HEALTH_LEAST_NEWS = 1000, HEALTH_STEPS = 64, HEALTH_BATCH = 256 };

/* ---- Counters ------------------------------------------------------------------------- */

static void health_sum_lines(const bg_slot *slot, bg_slot_info *stats)
{
    for (uint32_t i = 0; i < slot->lines_count; i++) {
        const struct slot_line *line = &slot->lines[i];
        const uint64_t maybes = atomic_load(&line->answers[1]);
        stats->maybes += maybes;
        stats->queries += atomic_load(&line->answers[0]) + maybes;
        const uint64_t news = atomic_load(&line->news);
        stats->news += news;
        stats->adds += atomic_load(&line->olds) + news;
        stats->refused += atomic_load(&line->refused);
    }
}

/* Removes the const qualifier, because the lock is not part of a slot's logical state. */
static bg_slot *health_unlocked(const bg_slot *slot)
{
    return (bg_slot *)(uintptr_t)slot;
}

static struct slot_marks health_marks(const bg_slot *slot)
{
    bg_slot *s = health_unlocked(slot);
    (void)pthread_mutex_lock(&s->info_lock);
    struct slot_marks marks = slot->marks;
    (void)pthread_mutex_unlock(&s->info_lock);
    return marks;
}

static void health_look(const bg_slot *slot, bg_slot_info *stats)
{
    bgi_grace_token token;
    const struct view *view = slot_enter(slot, &token);
    stats->filters = (uint32_t)view->count;
    stats->migrating = view_find(view, BG_ROLE_OLD) != NULL;
    stats->generation = view->guard.generation;
    const struct view_member *base = view_find(view, BG_ROLE_BASE);
    if (base) {
        memcpy(stats->digest, base->shared->digest, sizeof stats->digest);
    }
    slot_leave(slot, token);
}

bg_err bg_slot_get_info(const bg_slot *slot, bg_slot_info *out)
{
    if (!slot || !out || out->struct_size != sizeof *out) {
        return BG_EINVAL;
    }
    bg_slot *s = health_unlocked(slot);
    *out = (bg_slot_info){ .struct_size = sizeof *out };
    health_sum_lines(slot, out);
    health_look(slot, out);
    out->retired = bgi_grace_pending(slot->grace);
    (void)pthread_mutex_lock(&s->info_lock);
    out->swaps = slot->swaps;
    out->reloads = slot->reloads;
    out->reload_failures = slot->reload_failures;
    out->reload_unchanged = slot->reload_unchanged;
    out->rebuilds = slot->rebuilds;
    out->rebuild_failures = slot->rebuild_failures;
    out->compactions = slot->compactions;
    out->complete = atomic_load(&slot->complete);
    out->base_since = slot->marks.base_since;
    out->rebuilding = slot->rebuilding;
    if (slot->failure.base) {
        out->last_failure = *(const bg_errinfo *)slot->failure.base;
    }
    (void)pthread_mutex_unlock(&s->info_lock);
    return BG_OK;
}

/* ---- Filters --------------------------------------------------------------------------- */

static void health_add_estimate(bg_estimate *to, const bg_estimate *from)
{
    to->value += from->value;
    to->low += from->low;
    to->high += from->high;
}

/* Adds the statistics of one filter. *judged is the combined rate for the health rule. During a
 * migration, the new base contains some of the old base's keys, so only the larger of the two key
 * counts is used. */
static void health_add(bg_slot_health *health, const struct view_member *member,
                       const bg_filter_info *info, bg_estimate *bases, double *judged)
{
    health->degraded |= info->degraded;
    health->overflowed |= info->overflowed;
    health->bytes += info->bytes;
    health->bits += info->bits;
    health->ones += info->ones;
    health->fill = info->fill > health->fill ? info->fill : health->fill;
    health->rate = 1 - (1 - health->rate) * (1 - info->rate);
    *judged = 1 - (1 - *judged) * (1 - bgi_judge_rate(info));
    if (member->role == BG_ROLE_DELTA) {
        health_add_estimate(&health->items, &info->items);
        health->capacity += info->design_items;
        return;
    }
    if (info->items.value >= bases->value) {
        *bases = info->items;
    }
    if (member->role == BG_ROLE_BASE) {
        health->capacity += info->design_items;
        health->target = info->design_rate;
    }
}

/* ---- Pollution ------------------------------------------------------------------------- */

static bool health_is_bloom(bg_kind kind)
{
    return kind == BG_KIND_CLASSIC || kind == BG_KIND_PARTITIONED
           || kind == BG_KIND_BLOCKED || kind == BG_KIND_SPLIT
           || kind == BG_KIND_REGISTER;
}

/* Returns how many random new keys raise the fill from `from` to `to`, computed with Simpson's
 * rule. */
static double health_news(double bits, uint32_t k, double from, double to)
{
    const double step = (to - from) / HEALTH_STEPS;
    double sum = 0;
    for (int i = 0; i <= HEALTH_STEPS; i++) {
        const double f = from + step * i;
        const double at = (1 - pow(f, k)) / (k * (1 - f));
        sum += at * (i == 0 || i == HEALTH_STEPS ? 1 : i % 2 ? 4 : 2);
    }
    return bits * sum * step / 3;
}

/* Returns NULL during a migration, because two filters then accept adds, and the number of bits set
 * in each of them is unknown. */
const bg_filter *slot_watched(const struct view *view)
{
    const bg_filter *watched = NULL;
    size_t takes = 0;
    for (size_t i = 0; i < view->count; i++) {
        if (view->members[i].queried && view->members[i].takes) {
            watched = view->members[i].filter;
            takes++;
        }
    }
    return takes == 1 && health_is_bloom(watched->kind->id) && watched->shards <= 1
               ? watched
               : NULL;
}

/* Computes the pollution of the watched filter. Set bits that may be due to sampling error do not
 * count as evidence; `missed` is the standard deviation of this error. */
static void health_pollution(const struct slot_marks *marks, uint64_t wrote_now,
                             const bg_filter_info *info, double missed,
                             bg_slot_health *health)
{
    const double news = (double)(wrote_now - marks->wrote);
    const double bits = (double)info->bits, before = (double)marks->ones;
    const double set = (double)info->ones - before;
    if (news < 1 || set <= 0 || info->ones >= info->bits) {
        return;
    }
    const double honest =
        health_news(bits, info->k, before / bits, (double)info->ones / bits);
    health->bits_per_insert = set / news;
    health->honest_per_insert = honest > 0 ? set / honest : 0;
    const double surely = honest * (1 - fmin(1, HEALTH_DOUBT * missed / set));
    health->polluted = news >= HEALTH_LEAST_NEWS && surely > news * HEALTH_TOLERANCE;
}

/* ---- Probes ---------------------------------------------------------------------------- */

static bg_estimate health_probe(const bg_slot *slot, const struct view *view)
{
    uint8_t canaries[HEALTH_BATCH][BG_CANARY_BYTES];
    bg_bytes keys[HEALTH_BATCH];
    uint64_t hits = 0;
    uint64_t at = atomic_fetch_add(&health_unlocked(slot)->probed, BG_SLOT_PROBES);
    for (unsigned done = 0; done < BG_SLOT_PROBES; done += HEALTH_BATCH) {
        for (unsigned i = 0; i < HEALTH_BATCH; i++, at++) {
            container_absent_canary(at, 0, canaries[i]);
            keys[i] = (bg_bytes){ canaries[i], BG_CANARY_BYTES };
        }
        hits += view_has_many(view, bg_keys_bytes(keys, HEALTH_BATCH), NULL);
    }
    return bg_observed_rate(hits, BG_SLOT_PROBES);
}

/* Fills in `health` from a sample of about `max_bytes` bytes of each part. Sets *judged to the rate
 * that the health rule compares with the target. */
static bg_err health_examine(const bg_slot *slot, uint64_t max_bytes,
                             bg_slot_health *health, double *judged)
{
    bg_estimate bases = { 0, 0, 0 };
    bgi_grace_token token;
    *judged = 0;
    *health = (bg_slot_health){ .struct_size = sizeof *health };
    const struct slot_marks marks = health_marks(slot);
    const struct view *view = slot_enter(slot, &token);
    const bg_filter *watched = slot_watched(view);
    for (size_t i = 0; i < view->count; i++) {
        const struct view_member *member = &view->members[i];
        bg_filter_info info = { .struct_size = sizeof info };
        double missed = 0;
        if (!member->queried) {
            continue;
        }
        bgi_filter_info(member->filter, max_bytes, &info, &missed);
        health->filters++;
        health_add(health, member, &info, &bases, judged);
        if (member->filter == watched) {
            health_pollution(&marks, slot_sum_wrote(slot), &info,
                             hypot(missed, marks.missed), health);
        }
    }
    health_add_estimate(&health->items, &bases);
    health->rate = view->based ? health->rate : 1; /* every answer is "maybe" */
    *judged = view->based ? *judged : 1;
    health->rate_health = bg_health_of_rate(*judged, health->target);
    health->measured = health_probe(slot, view);
    slot_leave(slot, token);
    return BG_OK;
}

bg_err bg_slot_get_health(const bg_slot *slot, bg_slot_health *health)
{
    return bg_slot_sample_health(slot, 0, health);
}

bg_err bg_slot_sample_health(const bg_slot *slot, uint64_t max_bytes,
                             bg_slot_health *health)
{
    double judged;
    return !slot || !health || health->struct_size != sizeof *health
               ? BG_EINVAL
               : health_examine(slot, max_bytes, health, &judged);
}

/* ---- Advice ---------------------------------------------------------------------------- */

uint32_t bg_slot_advise(const bg_slot *slot, const bg_policy *policy,
                        const bg_estimate *observed)
{
    static const bg_policy usual = BG_POLICY_INIT;
    const bg_policy *p = policy ? policy : &usual;
    bg_slot_health health = { .struct_size = sizeof health };
    double judged;
    uint32_t reasons = 0;
    if (!slot || p->struct_size != sizeof *p
        || health_examine(slot, 0, &health, &judged) != BG_OK) {
        return 0;
    }
    const uint64_t now = slot_now(slot), since = health_marks(slot).base_since;
    if (p->fill > 0 && health.capacity
        && health.items.value > p->fill * (double)health.capacity) {
        reasons |= BG_REASON_FILL;
    }
    if (p->predicted > 0 && health.target > 0
        && judged > p->predicted * health.target) {
        reasons |= BG_REASON_PREDICTED;
    }
    if (p->observed > 0 && health.target > 0 && observed
        && observed->low > p->observed * health.target) {
        reasons |= BG_REASON_OBSERVED;
    }
    reasons |= p->age && now > since && now - since > p->age ? BG_REASON_AGE : 0;
    reasons |= health.degraded || health.overflowed ? BG_REASON_DEGRADED : 0;
    reasons |= health.polluted ? BG_REASON_POLLUTED : 0;
    return reasons;
}
