/*
 * limit.c - the memory limit: a loop that only touches random lines.
 */
#include "limit.h"

#include "keys.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

enum { LINE_BYTES = 64, TRIALS = 4 };

const struct bgb_limit_way bgb_limit_ways[BGB_LIMIT_WAYS] = {
    { 0, false },  { 4, false },   { 8, false },  { 16, false }, { 32, false },
    { 64, false }, { 128, false }, { 4, true },   { 8, true },   { 16, true },
    { 32, true },  { 64, true },   { 128, true },
};

#define LIMIT_INLINE static inline __attribute__((always_inline))

/* Several threads may run at once, so words are accessed atomically. On the supported
 * architectures, relaxed loads and stores are plain instructions. */
LIMIT_INLINE _Atomic uint64_t *limit_word(const struct bgb_limit *l, uint64_t random)
{
    size_t line = (size_t)bgb_mulhi(random, l->lines);
    return (_Atomic uint64_t *)(void *)(l->memory + line * LINE_BYTES);
}

/* Prefetches a line; `second` is a compile-time constant at every call site. */
LIMIT_INLINE void limit_ask(const struct bgb_limit *l, uint64_t random, bool second)
{
    if (second) {
        __builtin_prefetch(limit_word(l, random), 0, 2);
    } else {
        __builtin_prefetch(limit_word(l, random), 0, 3);
    }
}

LIMIT_INLINE uint64_t limit_read(const struct bgb_limit *l, size_t first, size_t n,
                                 size_t distance, bool second)
{
    const uint64_t *stream = l->stream + first;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (distance) {
            limit_ask(l, stream[i + distance], second);
        }
        sum += atomic_load_explicit(limit_word(l, stream[i]), memory_order_relaxed);
    }
    return sum;
}

LIMIT_INLINE uint64_t limit_write(const struct bgb_limit *l, size_t first, size_t n,
                                  size_t distance, bool second)
{
    const uint64_t *stream = l->stream + first;
    for (size_t i = 0; i < n; i++) {
        if (distance) {
            limit_ask(l, stream[i + distance], second);
        }
        _Atomic uint64_t *word = limit_word(l, stream[i]);
        uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
        atomic_store_explicit(word, old | UINT64_C(1) << (stream[i] & 63),
                              memory_order_relaxed);
    }
    return n;
}

/* The prefetch distances. They are passed as constants, so that the compiler generates a separate
 * loop for each distance. */
#define LIMIT_EACH(X) X(4) X(8) X(16) X(32) X(64) X(128)

LIMIT_INLINE uint64_t limit_loop(const struct bgb_limit *l, size_t first, size_t n,
                                 size_t distance, bool second)
{
    return l->mode == BGB_LIMIT_READ ? limit_read(l, first, n, distance, second)
                                     : limit_write(l, first, n, distance, second);
}

static uint64_t limit_run(const struct bgb_limit *l, size_t first, size_t n)
{
#define LIMIT_CASE(d)                                                                  \
    case d:                                                                            \
        return l->way.second ? limit_loop(l, first, n, d, true)                        \
                             : limit_loop(l, first, n, d, false);
    switch (l->way.distance) {
        LIMIT_EACH(LIMIT_CASE)
    default: return limit_loop(l, first, n, 0, false);
    }
#undef LIMIT_CASE
}

/* Runs one thread's share of a pass. */
static void limit_work(void *arg, unsigned i)
{
    struct bgb_limit *l = arg;
    size_t part = l->n / bgb_team_size(l->team);
    bgb_sink(limit_run(l, l->first + i * part, part));
}

uint64_t bgb_limit_pass(void *state, size_t first, size_t n)
{
    struct bgb_limit *l = state;
    if (l->team) {
        l->first = first;
        l->n = n;
        l->team_ns = bgb_team_run(l->team, limit_work, l);
    } else {
        bgb_sink(limit_run(l, first, n));
    }
    return 0; /* the limit looks up no keys, so it has no positives */
}

int bgb_limit_best(void *state, int ways, void (*set)(void *state, int way),
                   uint64_t (*pass)(void *state, size_t first, size_t n), size_t pool,
                   size_t chunk)
{
    double best = (double)INFINITY;
    int choice = 0;
    size_t at = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        for (int i = 0; i < ways; i++) {
            set(state, i);
            at = at + chunk > pool ? 0 : at;
            uint64_t begin = bgb_now_ns();
            (void)pass(state, at, chunk);
            double ns = (double)(bgb_now_ns() - begin);
            at += chunk;
            if (trial > 0 && ns < best) {
                best = ns;
                choice = i;
            }
        }
    }
    return choice;
}

static void limit_set_way(void *state, int way)
{
    struct bgb_limit *l = state;
    l->way = bgb_limit_ways[way];
}

void bgb_limit_prepare(struct bgb_limit *limit, struct bgb_subject *subject,
                       const struct bgb_region *region, const uint64_t *stream,
                       size_t pool, size_t chunk, enum bgb_limit_mode mode)
{
    *limit = (struct bgb_limit){ .memory = region->base,
                                 .lines = region->bytes / LINE_BYTES,
                                 .stream = stream,
                                 .mode = mode };
    chunk = chunk < pool ? chunk : pool;
    limit->way = bgb_limit_ways[bgb_limit_best(limit, BGB_LIMIT_WAYS, limit_set_way,
                                               bgb_limit_pass, pool, chunk)];
    *subject = (struct bgb_subject){
        .pass = bgb_limit_pass, .state = limit, .pool = pool, .chunk = chunk
    };
    (void)snprintf(subject->name, sizeof subject->name, "limit: %s, %zu ahead%s",
                   mode == BGB_LIMIT_READ ? "lines read" : "lines rewritten",
                   limit->way.distance, limit->way.second ? " to L2" : "");
}
