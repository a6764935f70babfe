/*
 * window_body.h - what a window does in time, and the two bodies that it can have.
 *
 * The window (window.c) knows which period it is, when the next one begins, and what
 * has been cleared for it. A body knows where the keys of a period are: in a filter of
 * its own (generations.c), or in slices of age (aged.c).
 *
 * Contract. Periods are numbered upwards, from WINDOW_FIRST at least. During period q
 * the keys of q - generations + 1 .. q are in. `put` is only ever called with a period
 * for which `wipe` was complete, but for a thread that was overtaken by rotations: what
 * it puts then counts for nothing, and must do no harm but to the rate.
 */
#ifndef BGI_WINDOW_BODY_H
#define BGI_WINDOW_BODY_H

#include "bloomgate/window.h"
#include "filter/handle.h"

enum { WINDOW_FIRST = 128, WINDOW_GENERATIONS_MAX = 64, AGED_K_MAX = 10 };

/* Sizes of either body; found before anything is allocated. */
struct window_shape {
    const struct window_body *body;
    struct bgi_geometry part; /* generations: of each; aged: units are blocks */
    uint32_t generations;
    uint32_t layers; /* generations: of overflow, at most; aged, or by count: 0 */
    uint64_t period_items;
    double rate; /* predicted with all periods full */
    uint64_t bytes;
    uint32_t places; /* after so many periods a place is used again */
    uint32_t slices; /* aged: in the ring, a multiple of k */
    uint32_t row_bits;
};

/* What changes has a line of its own. */
struct window {       /* NOLINT(clang-analyzer-optin.performance.Padding) */
    bg_filter filter; /* must be first */
    struct window_shape shape;
    bg_window_options options;
    uint64_t ticks; /* of a period, or 0 */
    uint64_t adds;  /* in a period, or 0 */
    bool based;     /* `start` and `moved` are times of the current clock */
    uint64_t moved; /* the latest time to which it was moved; under the lock */
    _Alignas(64) uint64_t period;
    uint64_t start;   /* when the period began */
    uint64_t cleared; /* words of the next period's place; under the lock */
    uint64_t added;   /* in this period, if it is to end by count */
    uint64_t filled;  /* keys of this period, if it can have layers (overflow.h) */
    uint64_t stuck;   /* the period in which a layer could not be created */
    unsigned char turning;
    uint32_t grown;       /* number of layers */
    uint64_t grown_bytes; /* of them; under the lock */
    uint64_t max_bytes;   /* limit for new layers; 0: none */
    /* The bodies' own. */
    bg_filter *parts[WINDOW_GENERATIONS_MAX + 1];
    struct bgi_memory memory; /* aged: the words; generations: the table of layers */
    uint64_t masks[AGED_K_MAX];
};

struct window_body {
    /* Finds the sizes for a spec and shape->generations. */
    bg_err (*solve)(const bg_spec *spec, struct window_shape *shape, bg_errinfo *info);
    /* The sizes of a recipe, generations being filled in; false when there are none. */
    bool (*reshape)(const struct bgi_recipe *recipe, struct window_shape *shape);
    /* Takes memory. On error nothing stays allocated. */
    bg_err (*make)(struct window *w, bg_errinfo *info);
    void (*give)(struct window *w);
    /* The same for n keys in each period. */
    double (*rate)(const struct window_shape *shape, double n);
    void (*locate)(const struct window *w, struct bgi_group *group);
    bool (*has)(const struct window *w, uint64_t period, uint64_t hash);
    uint64_t (*has_group)(const struct window *w, uint64_t period,
                          const struct bgi_group *group, const struct bgi_group *next);
    /* Adds a key to a period; whether it was new in the whole window. */
    bool (*put)(struct window *w, uint64_t period, uint64_t hash);
    uint64_t (*put_word)(struct window *w, uint64_t period,
                         const struct bgi_group *group, const struct bgi_group *next);
    /* Returns how many words must be cleared before the next period can begin; and clears up to
     * `words` words for each of the periods from + 1 .. to. */
    uint64_t (*wipe_words)(const struct window *w);
    void (*wipe)(struct window *w, uint64_t from, uint64_t to, uint64_t first,
                 uint64_t words);
    /* Of windows of the same spec and period, both locked. */
    bg_err (*copy)(struct window *to, const struct window *from, bg_errinfo *info);
    bg_err (*merge)(struct window *to, const struct window *from);
    bool (*equal)(const struct window *a, const struct window *b);
    void (*measure)(const struct window *w, struct bgi_measure *m);
};

extern const struct window_body window_generations;
extern const struct window_body window_aged;

BGI_INLINE bool window_exclusive(const struct window *w)
{
    return w->filter.flags & BG_SPEC_EXCLUSIVE;
}

/* The lock for clearing places, ending periods and creating layers. */
BGI_INLINE bool window_try(struct window *w)
{
    return !__atomic_test_and_set(&w->turning, __ATOMIC_ACQUIRE);
}

BGI_INLINE void window_lock(struct window *w)
{
    while (!window_try(w)) {
        while (__atomic_load_n(&w->turning, __ATOMIC_RELAXED)) {
            bgi_pause();
        }
    }
}

BGI_INLINE void window_unlock(struct window *w)
{
    __atomic_clear(&w->turning, __ATOMIC_RELEASE);
}

#endif
