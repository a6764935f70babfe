/*
 * overflow.h - layers of a generation that has more keys than its share.
 *
 * A window of g generations is made for n keys: each generation's filter for n / (g - 1).
 * Keys need not come evenly. All of them may come within one period, or each of them once
 * in every period. Then a generation gets up to n keys, and takes layers in addition, as a
 * scalable filter does, each for twice as many keys as the one before:
 *
 *     keys of the period     c             3 c                           7 c
 *     ----------------------|-------------|-----------------------------|
 *     its filter, c keys     layer 1, 2 c  layer 2, 4 c                         c = n / (g - 1)
 *
 * How many layers there can be follows from g: as many as n keys need. Whatever comes
 * beyond n goes into the last one.
 *
 * Rate. A generation may have the rate p / g. 7 of 8 parts of that are its filter's; layer
 * i has one of 8 parts, divided by 2^i. So n keys in every period keep the rate, however
 * they come. When keys come evenly there are no layers, and 1/8 of the rate, some 0.3 bits
 * per key, is what the possibility costs.
 *
 * Place. Layer i of period p is at [i][p mod places], as the filters of generations are. It
 * is made when the first key comes to it, stays there, empty, when its period is forgotten,
 * and is taken again when its place is. Copies and files have it, too, so that what is the
 * same stays the same.
 *
 * No memory. If a layer cannot be made, the layer below takes its keys, and the rate
 * rises; nothing is lost. The next try is made in the next period.
 *
 * Concurrency. Layers are made under the window's lock and never freed before the window
 * is; `grown` is raised after the pointer and the table it is in are there (release). Their
 * words are those of their period: (I1) to (I4) of window.c hold for them as they stand.
 */
#ifndef BGI_OVERFLOW_H
#define BGI_OVERFLOW_H

#include "live/window_body.h"

/* The parts of 8 of its rate that a generation's own filter has. */
enum { OVERFLOW_OWN = 7, OVERFLOW_PARTS = 8 };

/* How many layers a generation can need. */
uint32_t overflow_layers(uint32_t generations);

/* The rate of one generation with n keys. */
double overflow_rate(const struct window_shape *shape, double n);

/* Which layer takes the last of so many keys that come next; 0: the generation's filter. */
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

/* Notes keys that were put into the present period. */
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

/* Whether there are any layers, which there seldom are. */
BGI_INLINE bool overflow_any(const struct window *w)
{
    return __atomic_load_n(&w->grown, __ATOMIC_ACQUIRE) != 0;
}

/* Layer `level`, from 1 on, of a period; NULL if there is none. */
bg_filter *overflow_layer(const struct window *w, uint64_t period, uint32_t level);

/* The same, or the highest one below it, having made it if that can be; NULL: none. */
bg_filter *overflow_take(struct window *w, uint64_t period, uint32_t level);

/* Whether a layer of the periods `oldest` to `youngest` may contain a hash; which hashes of a
 * word one of those that are in may contain. */
bool overflow_has(const struct window *w, uint64_t oldest, uint64_t youngest,
                  uint64_t hash);
uint64_t overflow_has_word(const struct window *w, uint64_t period,
                           const struct bgi_word *word);

/* As in struct window_body, for the layers alone; `words` of a period's layers. */
uint64_t overflow_words(const struct window *w, uint64_t period);
void overflow_wipe(struct window *w, uint64_t period, uint64_t first, uint64_t words);
void overflow_give(struct window *w);
bg_err overflow_copy(struct window *to, const struct window *from);
bg_err overflow_merge(struct window *to, const struct window *from);
bool overflow_equal(const struct window *a, const struct window *b);

/* How many keys of the present period are more than its layers are for. */
uint64_t overflow_saturated(const struct window *w);

/* Layers in the order of their places, and what a file has of them: how many keys the period
 * has, then three numbers for each. */
bg_filter **overflow_part(const struct window *w, uint32_t i);
uint64_t overflow_numbers(const struct window *w, uint64_t *to);
bg_err overflow_restore(struct window *w, const uint64_t *numbers, uint64_t n,
                        uint64_t room);

#endif
