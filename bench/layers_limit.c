/*
 * layers_limit.c - reads one line per key from each of several tables, and does nothing else.
 */
#include "layers_limit.h"

#include "keys.h"
#include "limit.h"

#include <stdio.h>

enum { LINE_BYTES = 64, WORD = 64, LARGE_FROM = 1 << 20 };

static const struct bgb_layers_way layers_ways[] = {
    { false, 0 },  { false, 8 }, { false, 16 }, { false, 32 },
    { false, 64 }, { true, 0 },  { true, 1 },   { true, 2 },
};

enum { WAYS = sizeof layers_ways / sizeof *layers_ways };

#define LAYERS_INLINE static inline __attribute__((always_inline))

LAYERS_INLINE uint64_t layers_line(const struct bgb_layers_limit *l, uint64_t random)
{
    return bgb_mulhi(random, l->lines);
}

LAYERS_INLINE void layers_ask(const struct bgb_layers_limit *l, size_t table,
                              uint64_t line)
{
    __builtin_prefetch(l->table[table] + line * LINE_BYTES, 0, 2);
}

LAYERS_INLINE uint64_t layers_read(const struct bgb_layers_limit *l, size_t table,
                                   uint64_t line)
{
    const void *at = l->table[table] + line * LINE_BYTES;
    return *(const volatile uint64_t *)at;
}

/* Processes one key at a time; `ahead` is a compile-time constant at every call site. */
LAYERS_INLINE uint64_t layers_by_key(const struct bgb_layers_limit *l, size_t first,
                                     size_t n, const size_t ahead)
{
    const uint64_t *stream = l->stream + first;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t here = layers_line(l, stream[i]);
        uint64_t later = ahead ? layers_line(l, stream[i + ahead]) : 0;
        for (size_t t = 0; t < l->count; t++, here >>= l->step, later >>= l->step) {
            if (ahead) {
                layers_ask(l, t, later);
            }
            sum += layers_read(l, t, here);
        }
    }
    return sum;
}

/* Computes the line in the first table for each of 64 keys. */
static void layers_locate(const struct bgb_layers_limit *l, const uint64_t *stream,
                          uint64_t *line)
{
    for (size_t i = 0; i < WORD; i++) {
        line[i] = layers_line(l, stream[i]);
    }
}

/* Reads the lines for a group of 64 keys in one table, while prefetching the lines for the same or
 * the next group in another table. */
LAYERS_INLINE uint64_t layers_word(const struct bgb_layers_limit *l, size_t table,
                                   const uint64_t *word, size_t later,
                                   const uint64_t *after, const bool asks)
{
    unsigned shift = (unsigned)table * l->step, shift_later = (unsigned)later * l->step;
    uint64_t sum = 0;
    for (size_t i = 0; i < WORD; i++) {
        if (asks) {
            layers_ask(l, later, after[i] >> shift_later);
        }
        sum += layers_read(l, table, word[i] >> shift);
    }
    return sum;
}

/* Processes one table after another for each group of 64 keys. `n` is a multiple of 64. The stream
 * is followed by BGB_KEYS_SLACK readable words, enough for one more group. */
static uint64_t layers_by_table(const struct bgb_layers_limit *l, size_t first,
                                size_t n, size_t ahead)
{
    uint64_t line[2][WORD], sum = 0;
    unsigned now = 0;
    layers_locate(l, l->stream + first, line[now]);
    for (size_t i = 0; i < n; i += WORD, now ^= 1) {
        layers_locate(l, l->stream + first + i + WORD, line[now ^ 1]);
        for (size_t t = 0; t < l->count; t++) {
            size_t later = t + ahead;
            const uint64_t *after = line[later < l->count ? now : now ^ 1];
            later = later < l->count ? later : later - l->count;
            sum += ahead ? layers_word(l, t, line[now], later, after, true)
                         : layers_word(l, t, line[now], 0, NULL, false);
        }
    }
    return sum;
}

static uint64_t layers_pass(void *state, size_t first, size_t n)
{
    const struct bgb_layers_limit *l = state;
    uint64_t sum;
    if (l->way.by_table) {
        sum = layers_by_table(l, first, n, l->way.ahead);
    } else {
        switch (l->way.ahead) {
        case 8: sum = layers_by_key(l, first, n, 8); break;
        case 16: sum = layers_by_key(l, first, n, 16); break;
        case 32: sum = layers_by_key(l, first, n, 32); break;
        case 64: sum = layers_by_key(l, first, n, 64); break;
        default: sum = layers_by_key(l, first, n, 0); break;
        }
    }
    bgb_sink(sum);
    return 0; /* the limit looks up no keys, so it has no positives */
}

static void layers_set_way(void *state, int way)
{
    struct bgb_layers_limit *l = state;
    l->way = layers_ways[way];
}

/* Allocates a table in the same way as the library allocates filters. Large tables start at a 2 MiB
 * boundary; small tables start at different page offsets, so that they do not compete for the same
 * cache sets. */
static void layers_make_table(struct bgb_layers_limit *l, size_t t, size_t bytes)
{
    size_t skew = bytes < LARGE_FROM ? t * 65 * LINE_BYTES : 0;
    bgb_region_make(&l->region[t], bytes + skew, false);
    l->table[t] = l->region[t].base + skew;
}

void bgb_layers_limit_prepare(struct bgb_layers_limit *state,
                              struct bgb_subject *subject, size_t pool, size_t chunk)
{
    if (state->count > BGB_LAYERS_MAX) {
        bgb_die("%zu layers", state->count);
    }
    for (size_t t = 0; t < state->count; t++) {
        size_t lines = (size_t)(state->lines >> (t * state->step));
        layers_make_table(state, t, lines * LINE_BYTES);
    }
    chunk = (chunk < pool ? chunk : pool) / WORD * WORD;
    state->way = layers_ways[bgb_limit_best(state, WAYS, layers_set_way, layers_pass,
                                            pool, chunk)];
    *subject = (struct bgb_subject){
        .pass = layers_pass, .state = state, .pool = pool, .chunk = chunk
    };
    (void)snprintf(subject->name, sizeof subject->name,
                   "limit: one line from each of %zu, %zu %s ahead", state->count,
                   state->way.ahead, state->way.by_table ? "tables" : "keys");
}

void bgb_layers_limit_free(struct bgb_layers_limit *state)
{
    for (size_t t = 0; t < state->count; t++) {
        bgb_region_free(&state->region[t]);
    }
}
