/*
 * overflow.h - additional layers for a generation that has more keys than its share.
 *
 * A window of g generations is sized for n keys, and each generation's filter for n / (g - 1)
 * keys. The load per period varies: all keys may arrive within one period, or every key may arrive
 * again in each period. So a single generation can have up to n keys. Such a generation gets
 * additional layers, as in a scalable filter. Each layer holds twice as many keys as the previous
 * one:
 *
 *     keys of the period     c             3 c                           7 c
 *     ----------------------|-------------|-----------------------------|
 *     its filter, c keys     layer 1, 2 c  layer 2, 4 c                         c = n / (g - 1)
 *
 * The maximum number of layers is the number needed for n keys, which depends on g. Keys beyond
 * n are added to the last layer.
 *
 * Rate. A generation may have a rate of up to p / g. Its filter gets 7/8 of this rate, and layer i
 * gets 1/8 of it, divided by 2^i. So the window keeps its rate even if every period has n keys,
 * regardless of how the keys arrive. If keys arrive evenly, there are no layers, and the reserved
 * 1/8 of the rate costs about 0.3 bits per key.
 *
 * Location. Layer i of period p is at [i][p mod places], just as the filter of period p is at [p
 * mod places]. A layer is created when its first key is added. When its period is forgotten, the
 * layer is cleared but stays allocated, and the next period that uses its position reuses it.
 * Copies and files include empty layers, so that a copy or a saved window is identical to the
 * original.
 *
 * Memory. If a layer cannot be created, its keys are added to the highest existing layer below it.
 * No key is lost, but the rate rises. The next attempt to create a layer is made in the next
 * period.
 *
 * Concurrency. Layers are created under the window's lock and freed only with the window.
 * `grown` is incremented (release) after the table has been allocated and the layer's pointer has
 * been stored in it. The words of a layer belong to its period, so (I1) to (I4) in window.c hold
 * for these words, too.
 */
#ifndef BGI_OVERFLOW_H
#define BGI_OVERFLOW_H

#include "live/window_body.h"

/* A generation's own filter gets OVERFLOW_OWN / OVERFLOW_PARTS of the generation's rate. */
enum { OVERFLOW_OWN = 7, OVERFLOW_PARTS = 8 };

/* Returns the maximum number of layers that a generation can need. */
uint32_t overflow_layers(uint32_t generations);

/* Returns the rate of a generation that contains n keys. */
double overflow_rate(const struct window_shape *shape, double n);

/* Returns the layer that receives the last of the next `keys` keys, or 0 for the generation's own
 * filter. */
BGI_INLINE uint32_t overflow_level(const struct window *w, uint64_t keys)
{
    uint64_t filled = __atomic_load_n(&w->filled, __ATOMIC_RELAXED) + keys - 1;
    uint64_t room = w->shape.period_items;
    uint32_t level = 0;
    for (; level < w->shape.layers && filled >= room; level++) {
        filled -= room;
        room *= 2;
    }
    return level;
}

/* Adds `keys` to the number of keys in the current period. */
BGI_INLINE void overflow_note(struct window *w, uint64_t keys)
{
    if (!w->shape.layers || !keys) {
        return;
    }
    if (window_exclusive(w)) {
        w->filled += keys;
    } else {
        (void)__atomic_fetch_add(&w->filled, keys, __ATOMIC_RELAXED);
    }
}

/* Returns whether the window has any layers. Most windows have none. */
BGI_INLINE bool overflow_any(const struct window *w)
{
    return __atomic_load_n(&w->grown, __ATOMIC_ACQUIRE) != 0;
}

/* Returns layer `level` (counted from 1) of a period, or NULL if there is none. */
bg_filter *overflow_layer(const struct window *w, uint64_t period, uint32_t level);

/* Returns layer `level` of a period, and creates it if it does not exist. If it cannot be created,
 * returns the highest existing layer below it, or NULL if there is none. */
bg_filter *overflow_take(struct window *w, uint64_t period, uint32_t level);

/* overflow_has returns whether any layer of the periods `oldest` to `youngest` may contain a hash.
 * overflow_has_group returns a mask of the hashes in a group that at least one layer may contain.
 * It queries only the layers that are live during `period`. */
bool overflow_has(const struct window *w, uint64_t oldest, uint64_t youngest,
                  uint64_t hash);
uint64_t overflow_has_group(const struct window *w, uint64_t period,
                            const struct bgi_group *group);

/* These functions correspond to the operations in struct window_body, but apply only to the layers.
 * overflow_words returns the number of words in the layers of a period. */
uint64_t overflow_words(const struct window *w, uint64_t period);
void overflow_wipe(struct window *w, uint64_t period, uint64_t first, uint64_t words);
void overflow_give(struct window *w);
bg_err overflow_copy(struct window *to, const struct window *from);
bg_err overflow_merge(struct window *to, const struct window *from);
bool overflow_equal(const struct window *a, const struct window *b);

/* Returns the number of keys by which the current period exceeds the capacity of its filter and
 * layers. */
uint64_t overflow_saturated(const struct window *w);

/* overflow_part returns the table entry of the i-th existing layer, in the order of the table.
 * overflow_numbers writes the numbers to store in a file: the number of keys in the period,
 * followed by three numbers for each layer. overflow_restore re-creates the layers from these
 * numbers. */
bg_filter **overflow_part(const struct window *w, uint32_t i);
uint64_t overflow_numbers(const struct window *w, uint64_t *to);
bg_err overflow_restore(struct window *w, const uint64_t *numbers, uint64_t n,
                        uint64_t room);

#endif
