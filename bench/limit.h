/*
 * limit.h - how many random cache lines can this machine touch, at best?
 *
 * A filter that keeps a key in one line cannot answer faster than a line arrives. The
 * limit is a loop that does nothing but that: it reads the same kind of stream of
 * 64-bit random numbers that the filters get their hashes from, takes line mulhi(h,
 * lines) and reads 8 bytes of it (or ors a bit into them), in the way of prefetching that
 * turns out best. It runs as a subject among the others, so that a ratio to it compares
 * what was measured in the same moments.
 *
 * Two things make a way: the distance, and whether lines are asked for into the first or
 * only into the second-level cache. The latter can have more of them on their way, and
 * beyond the caches that can be worth a factor of 2.
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
    size_t distance; /* lines asked for ahead; 0: none */
    bool second;     /* into the second-level cache only */
};

struct bgb_limit {
    unsigned char *memory;
    uint64_t lines;
    const uint64_t *stream; /* BGB_KEYS_SLACK readable words follow its end */
    enum bgb_limit_mode mode;
    struct bgb_limit_way way;
    struct bgb_team *team; /* NULL: this thread alone */
    uint64_t team_ns;
    size_t first, n; /* what the team is at */
};

/* Ways of prefetching to be tried. */
enum { BGB_LIMIT_WAYS = 13 };
extern const struct bgb_limit_way bgb_limit_ways[BGB_LIMIT_WAYS];

/* One pass over `n` numbers of the stream from `first` on: a subject's pass. */
uint64_t bgb_limit_pass(void *state, size_t first, size_t n);

/* The best of some ways, each set by `set`, in a few interleaved trials of `pass`, the first
 * of them not counted. */
int bgb_limit_best(void *state, int ways, void (*set)(void *state, int way),
                   uint64_t (*pass)(void *state, size_t first, size_t n), size_t pool,
                   size_t chunk);

/*
 * Prepares a limit on `region` and the subject that runs it. The way is chosen by a
 * few trial passes.
 */
void bgb_limit_prepare(struct bgb_limit *limit, struct bgb_subject *subject,
                       const struct bgb_region *region, const uint64_t *stream,
                       size_t pool, size_t chunk, enum bgb_limit_mode mode);

#endif
