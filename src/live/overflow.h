/*
 * overflow.h - additional layers for a generation that has more keys than its share.
 *
 * A window of g generations is sized for n keys, and each generation's filter for n / (g - 1)
 * keys. Keys need not arrive evenly: all of them may arrive within one period, or each of them
 * once in every period. So a single generation can have up to n keys. Such a generation gets
 * additional layers, as a scalable filter does, each for twice as many keys as the previous one:
 *
 *     keys of the period     c             3 c                           7 c
 *     ----------------------|-------------|-----------------------------|
 *     its filter, c keys     layer 1, 2 c  layer 2, 4 c                         c = n / (g - 1)
 *
 * The maximum number of layers is the number needed for n keys, which depends on g. Keys beyond
 * n are added to the last layer.
 *
 * Rate. A generation may have a rate of up to p / g. Its filter gets 7/8 of that, and layer i
 * gets 1/8, divided by 2^i. So the window keeps its rate with n keys in every period, however
 * the keys arrive. If keys arrive evenly, there are no layers, and the reserved 1/8 of the rate
 * costs about 0.3 bits per key.
 *
 * Place. Layer i of period p is at [i][p mod places], like the filters of generations. A layer is
 * created when its first key is added. When its period is forgotten, the layer is cleared but
 * stays allocated, and is reused together with its position. Copies and files include empty
 * layers, so that identical windows stay identical.
 *
 * Memory. If a layer cannot be created, its keys are added to the layer below, and the rate
 * rises; no key is lost. The next attempt is made in the next period.
 *
 * Concurrency. Layers are created under the window's lock and freed only with the window.
 * `grown` is incremented (release) after the pointer and its table are set. The words of a layer
 * belong to its period, so (I1) to (I4) in window.c hold for these words, too.
 */
#ifndef BGI_OVERFLOW_H
#define BGI_OVERFLOW_H

#include "live/window_body.h"

/* A generation's own filter gets OVERFLOW_OWN of OVERFLOW_PARTS parts of the generation's
 * rate. */
enum { OVERFLOW_OWN = 7, OVERFLOW_PARTS = 8 };

/* Returns the maximum number of layers that a generation can need. */
uint32_t overflow_layers(uint32_t generations);

/* Returns the rate of one generation with n keys. */
double overflow_rate(const struct window_shape *shape, double n);

/* Returns the layer that receives the last of the next `keys` keys; 0 means the generation's
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

/* Counts keys that were added to the current period. */
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

/* Returns whether there are any layers, which is rare. */
BGI_INLINE bool overflow_any(const struct window *w)
{
    return __atomic_load_n(&w->grown, __ATOMIC_ACQUIRE) != 0;
}

/* Returns layer `level` (counted from 1) of a period, or NULL if there is none. */
bg_filter *overflow_layer(const struct window *w, uint64_t period, uint32_t level);

/* Like overflow_layer, but creates the layer if possible. If that fails, returns the highest
 * existing layer below it, or NULL. */
bg_filter *overflow_take(struct window *w, uint64_t period, uint32_t level);

/* Return whether a layer of the periods `oldest` to `youngest` may contain a hash, and which hashes
 * of a group the layers of a window in `period` may contain. */
bool overflow_has(const struct window *w, uint64_t oldest, uint64_t youngest,
                  uint64_t hash);
uint64_t overflow_has_group(const struct window *w, uint64_t period,
                            const struct bgi_group *group);

/* These functions are like their counterparts in struct window_body, but apply only to the
 * layers. overflow_words returns the number of words in the layers of a period. */
uint64_t overflow_words(const struct window *w, uint64_t period);
void overflow_wipe(struct window *w, uint64_t period, uint64_t first, uint64_t words);
void overflow_give(struct window *w);
bg_err overflow_copy(struct window *to, const struct window *from);
bg_err overflow_merge(struct window *to, const struct window *from);
bool overflow_equal(const struct window *a, const struct window *b);

/* Returns the number of keys by which the current period exceeds the capacity of its layers. */
uint64_t overflow_saturated(const struct window *w);

/* Return the layers in the order of their positions, and the numbers for a file: the number of
 * keys in the period, then three numbers for each layer. */
bg_filter **overflow_part(const struct window *w, uint32_t i);
uint64_t overflow_numbers(const struct window *w, uint64_t *to);
bg_err overflow_restore(struct window *w, const uint64_t *numbers, uint64_t n,
                        uint64_t room);

#endif
