/* drops.c - see drops.h. */
#include "drops.h"

#include <math.h>

enum {
    DROPS_WORD = 64,
    DROPS_STEPS = 16,
    DROPS_SAMPLE = 4 << 20 /* number of bytes sampled from each part of the filter */
};

static const double drops_slack = 0.5; /* lines */

static double drops_odds(double rate)
{
    return rate / (rate < 0.999999 ? 1 - rate : 1e-6);
}

/* Returns how many new keys the budget allows if the rate is twice the measured rate. */
static double drops_affordable(const struct drops *d)
{
    const double allowed =
        d->rate * ((double)d->past.unique + (double)atomic_load(&d->unique));
    const double least = d->info.kind == BG_KIND_WINDOW ? drops_slack : 0;
    const double budget = fmax(allowed, least) - d->past.wrong - d->wrong;
    const double excess = 2 * drops_odds(d->info.rate) - d->rate;
    return excess > 0 ? budget / excess : HUGE_VAL;
}

/* Returns how many new keys may be added before the next measurement; less than 1 means none. */
static double drops_step(const struct drops *d)
{
    const double capacity = (double)bg_filter_capacity(d->filter);
    const double inside =
        capacity - (double)d->before - (double)atomic_load(&d->unique);
    const double some = fmax(capacity / DROPS_STEPS, 1);
    switch (d->info.kind) {
    case BG_KIND_SCALABLE:
        return d->info.saturated ? fmin(some, drops_affordable(d))
                                 : fmax(some, inside / 4);
    case BG_KIND_WINDOW:
        return d->info.rate <= d->rate ? some : fmin(some, drops_affordable(d));
    default:
        return inside >= 1 && d->info.rate <= d->rate ? fmax(inside / 4, 1)
                                                      : fmin(some, drops_affordable(d));
    }
}

static void drops_look_at(struct drops *d, uint64_t sample)
{
    bg_filter_info info = { .struct_size = sizeof info };
    const uint64_t unique = atomic_load(&d->unique);
    if (bg_filter_sample_info(d->filter, sample, &info)) {
        return;
    }
    d->wrong += (drops_odds(d->info.rate) + drops_odds(info.rate)) / 2
                * (double)(unique - d->looked);
    d->info = info;
    d->looked = unique;
}

void drops_look(struct drops *d)
{
    drops_look_at(d, 0);
}

struct drops_sum drops_total(const struct drops *d)
{
    return (struct drops_sum){ .unique = d->past.unique + atomic_load(&d->unique),
                               .wrong = d->past.wrong + d->wrong };
}

/* Returns whether a full filter can still be used to drop lines whose keys were seen before. The
 * first line that is reported new ends the run. The expected number of new lines dropped before
 * that line is r / (1 - r), which grows without bound as r approaches 1, so a filter with a high
 * rate cannot be used. A full window cannot be used either, because a key that is seen again has to
 * be added again to stay in the window, and a full filter accepts no keys. */
static bool drops_may_skip(const struct drops *d)
{
    return d->info.kind != BG_KIND_WINDOW && drops_odds(d->info.rate) <= drops_slack;
}

/* Measures the rate and grants more keys, unless another thread has just done so. Returns false
 * if the filter is full. */
static bool drops_grant(struct drops *d)
{
    (void)pthread_rwlock_wrlock(&d->looking);
    if (atomic_load(&d->granted) == 0 && !d->closed) {
        drops_look_at(d, DROPS_SAMPLE);
        const double step = drops_step(d);
        d->closed = !(step >= 1) && d->info.kind != BG_KIND_WINDOW;
        d->wrong += d->closed && drops_may_skip(d) ? drops_odds(d->info.rate) : 0;
        atomic_store(&d->granted, step >= 1 ? (uint64_t)step : 0);
    }
    const bool granted = atomic_load(&d->granted) > 0;
    (void)pthread_rwlock_unlock(&d->looking);
    return granted;
}

/* Takes up to `most` keys from the grant, and returns the number taken. */
static size_t drops_take(struct drops *d, size_t most)
{
    uint_fast64_t granted = atomic_load(&d->granted);
    size_t taken;
    do {
        taken = granted < most ? (size_t)granted : most;
    } while (!atomic_compare_exchange_weak(&d->granted, &granted, granted - taken));
    return taken;
}

static void drops_answer(struct chunk *chunk, size_t i, bool is_new)
{
    uint64_t *word = &chunk->answers[i / DROPS_WORD];
    *word = i % DROPS_WORD ? *word : 0;
    *word |= (uint64_t)is_new << (i % DROPS_WORD);
}

/* Adds up to `taken` keys starting at `from`. Adds whole groups of 64 keys if possible. Adds keys
 * one by one if `from` is inside a group, or if fewer keys than a group were granted. Returns the
 * number of keys added. */
static size_t drops_add_taken(struct drops *d, struct chunk *chunk, size_t from,
                              size_t taken, size_t *news)
{
    const size_t inside = from % DROPS_WORD;
    const bool all = taken == chunk->count - from;
    if (!inside && (all || taken >= DROPS_WORD)) {
        const size_t n = all ? taken : taken / DROPS_WORD * DROPS_WORD;
        const bg_keys keys = bg_keys_hashes(chunk->hashes + from, n);
        (void)!bg_filter_add_forced(d->filter, keys, chunk->answers + from / DROPS_WORD,
                                    news);
        return n;
    }
    const size_t n = taken < DROPS_WORD - inside ? taken : DROPS_WORD - inside;
    *news = 0;
    for (size_t i = from; i < from + n; i++) {
        size_t is_new = 0;
        (void)!bg_filter_add_forced(d->filter, bg_keys_hashes(&chunk->hashes[i], 1),
                                    NULL, &is_new);
        drops_answer(chunk, i, is_new);
        *news += is_new;
    }
    return n;
}

static size_t drops_add_some(struct drops *d, struct chunk *chunk, size_t from,
                             size_t *all_news)
{
    size_t done = 0, news = 0;
    (void)pthread_rwlock_rdlock(&d->looking);
    const size_t taken = drops_take(d, chunk->count - from);
    if (taken) {
        done = drops_add_taken(d, chunk, from, taken, &news);
        (void)atomic_fetch_add(&d->granted, taken - news);
        (void)atomic_fetch_add(&d->unique, news);
        *all_news += news;
    }
    (void)pthread_rwlock_unlock(&d->looking);
    return done;
}

/* Returns how many consecutive keys starting at `from` the filter may contain. */
static size_t drops_skip_seen(const struct drops *d, struct chunk *chunk, size_t from)
{
    size_t i = from;
    while (drops_may_skip(d) && i < chunk->count
           && bg_filter_may_contain_hash(d->filter, chunk->hashes[i])) {
        drops_answer(chunk, i++, false);
    }
    return i - from;
}

size_t drops_add(struct drops *d, struct chunk *chunk)
{
    size_t news = 0;
    for (size_t done = 0; done < chunk->count;) {
        size_t n = drops_add_some(d, chunk, done, &news);
        if (n == 0 && !drops_grant(d)) {
            n = drops_skip_seen(d, chunk, done);
            if (n == 0) {
                atomic_store(&d->full, true);
                chunk->count = done;
            }
        }
        done += n;
    }
    return news;
}

void drops_begin(struct drops *d, bg_filter *filter, uint64_t before, double rate,
                 struct drops_sum past)
{
    *d = (struct drops){ .filter = filter,
                         .before = before,
                         .rate = rate,
                         .past = past,
                         .info = { .struct_size = sizeof d->info } };
    (void)pthread_rwlock_init(&d->looking, NULL);
    drops_look_at(d, DROPS_SAMPLE);
}

void drops_end(struct drops *d)
{
    if (d->filter) {
        (void)pthread_rwlock_destroy(&d->looking);
        d->filter = NULL;
    }
}
