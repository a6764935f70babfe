/*
 * limit.h - how fast can this machine touch random cache lines, at best?
 *
 * A filter that stores each key in one cache line cannot answer before that line arrives from
 * memory. The limit is a loop that only touches lines. It reads a stream of 64-bit random numbers,
 * like the hashes that filters process. For each number h, it reads 8 bytes from line mulhi(h,
 * lines) or ORs a bit into them, using the best prefetching method. The limit runs as a subject
 * alongside the others, so a ratio to the limit compares times measured under the same conditions.
 *
 * A prefetching method consists of a distance and a target: the L1 cache, or only the L2
 * cache. With the L2 cache as the target, more lines can be in flight, which can double the
 * speed for tables larger than the caches.
 */
#ifndef BGB_LIMIT_H
#define BGB_LIMIT_H

#include "harness.h"
#include "region.h"
#include "team.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bgb_limit_mode { BGB_LIMIT_READ, BGB_LIMIT_WRITE };

struct bgb_limit_way {
    size_t distance; /* lines to prefetch ahead; 0 disables prefetching */
    bool second;     /* prefetch into the L2 cache only */
};

struct bgb_limit {
    unsigned char *memory;
    uint64_t lines;
    const uint64_t *stream; /* followed by BGB_KEYS_SLACK readable words */
    enum bgb_limit_mode mode;
    struct bgb_limit_way way;
    struct bgb_team *team; /* NULL uses only the calling thread */
    uint64_t team_ns;
    size_t first, n; /* the part of the stream that the team is processing */
};

/* The prefetching methods to try. */
enum { BGB_LIMIT_WAYS = 13 };
extern const struct bgb_limit_way bgb_limit_ways[BGB_LIMIT_WAYS];

/* Runs one pass over `n` values from the stream, starting at `first`. This is the pass function of
 * a subject. */
uint64_t bgb_limit_pass(void *state, size_t first, size_t n);

/* Returns the index of the fastest of several methods, after a few interleaved trials of `pass`.
 * `set` selects the method for a trial. The first trial of each method does not count. */
int bgb_limit_best(void *state, int ways, void (*set)(void *state, int way),
                   uint64_t (*pass)(void *state, size_t first, size_t n), size_t pool,
                   size_t chunk);

/*
 * Prepares a limit that touches lines in `region`, and the subject that runs it. A few trial passes
 * determine the prefetching method.
 */
void bgb_limit_prepare(struct bgb_limit *limit, struct bgb_subject *subject,
                       const struct bgb_region *region, const uint64_t *stream,
                       size_t pool, size_t chunk, enum bgb_limit_mode mode);

#endif
