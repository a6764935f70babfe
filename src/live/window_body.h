/*
 * window_body.h - the interface between a window and its two possible bodies.
 *
 * The window (window.c) keeps track of the current period, the start of the next period, and how
 * much has been cleared for the next period. A body determines where the keys of a period are
 * stored: in a separate filter (generations.c) or in age slices (aged.c).
 *
 * Contract. Period numbers increase, starting at WINDOW_FIRST or above. During period q, the keys
 * of the periods q - generations + 1 .. q are live. `put` is called only with a period for which
 * `wipe` is complete. The only exception is a thread that calls `put` for a period that has ended
 * in the meantime. Keys added by such a call do not count as added, and can affect only the
 * false-positive rate.
 */
#ifndef BGI_WINDOW_BODY_H
#define BGI_WINDOW_BODY_H

#include "bloomgate/window.h"
#include "filter/handle.h"

enum { WINDOW_FIRST = 128, WINDOW_GENERATIONS_MAX = 64, AGED_K_MAX = 10 };

/* The sizes of a window with either body, computed before anything is allocated. */
struct window_shape {
    const struct window_body *body;
    /* For generations, the geometry of each filter. For aged windows, the units are the blocks of
     * the whole window. */
    struct bgi_geometry part;
    uint32_t generations;
    uint32_t layers; /* maximum number of overflow layers; 0 for aged windows */
    uint64_t period_items;
    double
        rate; /* design rate; during planning, the predicted rate with full periods */
    uint64_t bytes;
    uint32_t places; /* a place is reused after this number of periods */
    uint32_t slices; /* number of slices in the ring, a multiple of k (aged only) */
    uint32_t row_bits;
};

/* Fields that change are in separate cache lines. */
struct window {       /* NOLINT(clang-analyzer-optin.performance.Padding) */
    bg_filter filter; /* must be first */
    struct window_shape shape;
    bg_window_options options;
    uint64_t ticks; /* length of a period in ticks, or 0 */
    uint64_t adds;  /* number of adds per period, or 0 */
    bool based;     /* whether `start` and `moved` are times of the current clock */
    uint64_t moved; /* latest clock time reached; protected by the lock */
    _Alignas(64) uint64_t period;
    uint64_t start;   /* start of the period, as a clock time */
    uint64_t cleared; /* words cleared in the next place; protected by the lock */
    uint64_t added;   /* number of adds in this period, if `adds` is not 0 */
    uint64_t filled;  /* number of keys in this period, if shape.layers is not 0 */
    uint64_t stuck;   /* the last period in which a layer could not be created */
    unsigned char turning;
    uint32_t grown;       /* number of layers */
    uint64_t grown_bytes; /* total size of the layers; protected by the lock */
    uint64_t max_bytes;   /* maximum size with all layers; 0 means no limit */
    /* Private to the bodies. */
    bg_filter *parts[WINDOW_GENERATIONS_MAX + 1];
    struct bgi_memory memory; /* words (aged) or table of layers (generations) */
    uint64_t masks[AGED_K_MAX];
};

struct window_body {
    /* Computes the sizes for a spec; shape->generations is already set. */
    bg_err (*solve)(const bg_spec *spec, struct window_shape *shape, bg_errinfo *info);
    /* Computes the sizes for a recipe; shape->generations is already set. Returns false if the
     * recipe is invalid. */
    bool (*reshape)(const struct bgi_recipe *recipe, struct window_shape *shape);
    /* Allocates memory. On error, all memory is freed. */
    bg_err (*make)(struct window *w, bg_errinfo *info);
    void (*give)(struct window *w);
    /* Returns the window's rate with n keys in each period. */
    double (*rate)(const struct window_shape *shape, double n);
    void (*locate)(const struct window *w, struct bgi_group *group);
    bool (*has)(const struct window *w, uint64_t period, uint64_t hash);
    uint64_t (*has_group)(const struct window *w, uint64_t period,
                          const struct bgi_group *group, const struct bgi_group *next);
    /* Adds a key to a period. Returns whether the key was new in the whole window. */
    bool (*put)(struct window *w, uint64_t period, uint64_t hash);
    uint64_t (*put_word)(struct window *w, uint64_t period,
                         const struct bgi_group *group, const struct bgi_group *next);
    /* wipe_words returns the number of words that must be cleared before the next period can
     * start. wipe clears up to `words` words for each of the periods from + 1 .. to. */
    uint64_t (*wipe_words)(const struct window *w);
    void (*wipe)(struct window *w, uint64_t from, uint64_t to, uint64_t first,
                 uint64_t words);
    /* These functions operate on two windows with the same spec and period, both of which are
     * locked. */
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
