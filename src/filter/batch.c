/*
 * batch.c - many keys at once.
 *
 * A random cache line of a large filter takes 100 ns to arrive, but some twenty can be on
 * their way at the same time, so one every 5 to 8 ns. A single look-up waits; a batch asks
 * for the lines of the keys to come while it works on the present one.
 *
 * Hashes given: a rolling window. While key i is tested, the line of key i + ahead is
 * asked for. The words of answers are made by the kind's `has_word` and `add_word`, 64
 * keys a call; this file only sees to it that nothing beyond the end is asked for.
 *
 * Keys given: hashing takes as long as half a line's arrival, so it must run while lines
 * are on their way. Two buffers of 64 hashes: the next 64 keys are hashed in groups of 16,
 * and each group's lines are asked for at once; then the previous 64 are tested, whose
 * lines have arrived meanwhile. Small filters, which stay in the cache, skip the asking.
 */
#include "bloomgate/filter.h"

#include "filter/handle.h"
#include "hash/hash_batch.h"

#include <string.h>

enum { BATCH_WORD = 64, BATCH_GROUP = 16 };

/* What a batch does, in the words of the kind. */
struct batch {
    struct bgi_core *core;
    uint64_t (*word)(const struct batch *batch, const uint64_t *hashes, unsigned n,
                     size_t ahead);
    void (*ask)(const struct bgi_core *core, const uint64_t *hashes, size_t n);
    uint64_t *bitmap; /* NULL: only count                                              */
    size_t count;
};

static uint64_t batch_has_word(const struct batch *b, const uint64_t *hashes, unsigned n,
                               size_t ahead)
{
    return b->core->ops->has_word(b->core, hashes, n, ahead);
}

static uint64_t batch_add_word(const struct batch *b, const uint64_t *hashes, unsigned n,
                               size_t ahead)
{
    return b->core->ops->add_word(b->core, hashes, n, ahead);
}

/* Answers the word that begins at key `first`. */
static void batch_answer(struct batch *b, size_t first, const uint64_t *hashes,
                         unsigned n, size_t ahead)
{
    uint64_t word = b->word(b, hashes, n, ahead);
    if (b->bitmap) {
        b->bitmap[first / BATCH_WORD] = word;
    }
    b->count += (size_t)__builtin_popcountll(word);
}

static size_t batch_hashes(struct batch *b, const uint64_t *hashes, size_t n)
{
    size_t ahead = b->core->ahead;
    size_t asked = ahead < n ? ahead : n; /* memory of hashes[0 .. asked) is asked for  */
    if (ahead) {
        b->ask(b->core, hashes, asked);
    }
    for (size_t i = 0; i < n; i += BATCH_WORD) {
        unsigned here = n - i < BATCH_WORD ? (unsigned)(n - i) : BATCH_WORD;
        if (ahead && asked + here <= n) {
            batch_answer(b, i, hashes + i, here, ahead);
            asked += here;
            continue;
        }
        if (ahead && asked < n) {
            b->ask(b->core, hashes + asked, n - asked);
            asked = n;
        }
        batch_answer(b, i, hashes + i, here, 0);
    }
    return b->count;
}

/* Hashes up to 64 keys from `first` on and asks for their memory, group by group. */
static unsigned batch_hash(const struct batch *b, const bg_hasher *hasher,
                           const struct bgi_keys *keys, size_t first, size_t n,
                           uint64_t *hashes)
{
    unsigned here = n - first < BATCH_WORD ? (unsigned)(n - first) : BATCH_WORD;
    if (!b->core->ahead) {
        bgi_hash_range(hasher, keys, first, here, hashes);
        return here;
    }
    for (unsigned i = 0; i < here; i += BATCH_GROUP) {
        unsigned group = here - i < BATCH_GROUP ? here - i : BATCH_GROUP;
        bgi_hash_range(hasher, keys, first + i, group, hashes + i);
        b->ask(b->core, hashes + i, group);
    }
    return here;
}

static size_t batch_keys(struct batch *b, const bg_hasher *hasher,
                         const struct bgi_keys *keys, size_t n)
{
    uint64_t hashes[2][BATCH_WORD];
    unsigned which = 0;
    if (n == 0) {
        return 0;
    }
    unsigned here = batch_hash(b, hasher, keys, 0, n, hashes[0]);
    for (size_t i = 0; i < n;) {
        size_t next = i + here;
        unsigned coming = 0;
        if (next < n) {
            coming = batch_hash(b, hasher, keys, next, n, hashes[which ^ 1]);
        }
        batch_answer(b, i, hashes[which], here, 0);
        which ^= 1;
        here = coming;
        i = next;
    }
    return b->count;
}

/* ---- Adds -------------------------------------------------------------------------- */

static struct batch batch_of_adds(bg_filter *filter, uint64_t *is_new)
{
    return (struct batch){ .core = &filter->core,
                           .word = batch_add_word,
                           .ask = filter->core.ops->prefetch_add,
                           .bitmap = is_new };
}

/* Without a filter nothing is added, so nothing is new. */
static size_t batch_no_adds(uint64_t *is_new, size_t n)
{
    if (is_new) {
        memset(is_new, 0, BG_BITMAP_WORDS(n) * sizeof *is_new);
    }
    return 0;
}

static size_t batch_add_keys(bg_filter *filter, const struct bgi_keys *keys, size_t n,
                             uint64_t *is_new)
{
    if (!filter) {
        return batch_no_adds(is_new, n);
    }
    struct batch b = batch_of_adds(filter, is_new);
    return batch_keys(&b, &filter->hasher, keys, n);
}

size_t bg_filter_add_many(bg_filter *filter, const bg_bytes *keys, size_t n,
                          uint64_t *is_new)
{
    struct bgi_keys all = bgi_keys_pairs(keys);
    return batch_add_keys(filter, &all, n, is_new);
}

size_t bg_filter_add_many_fixed(bg_filter *filter, const void *keys, size_t width,
                                size_t n, uint64_t *is_new)
{
    struct bgi_keys all = bgi_keys_fixed(keys, width);
    return batch_add_keys(filter, &all, n, is_new);
}

size_t bg_filter_add_many_u64(bg_filter *filter, const uint64_t *keys, size_t n,
                              uint64_t *is_new)
{
    struct bgi_keys all = bgi_keys_u64(keys);
    return batch_add_keys(filter, &all, n, is_new);
}

size_t bg_filter_add_many_hash(bg_filter *filter, const uint64_t *hashes, size_t n,
                               uint64_t *is_new)
{
    if (!filter) {
        return batch_no_adds(is_new, n);
    }
    struct batch b = batch_of_adds(filter, is_new);
    return batch_hashes(&b, hashes, n);
}

/* ---- Look-ups ------------------------------------------------------------------------ */

static struct batch batch_of_queries(const bg_filter *filter, uint64_t *maybe)
{
    /* The kind's has_word leaves the core alone; `struct batch` serves adds as well. */
    return (struct batch){ .core = (struct bgi_core *)(uintptr_t)&filter->core,
                           .word = batch_has_word,
                           .ask = filter->core.ops->prefetch_has,
                           .bitmap = maybe };
}

/* Without a filter every answer is "maybe". */
static size_t batch_all_maybe(uint64_t *maybe, size_t n)
{
    if (maybe && n) {
        memset(maybe, 0xff, BG_BITMAP_WORDS(n) * sizeof *maybe);
        if (n % 64) {
            maybe[n / 64] = ((uint64_t)1 << (n % 64)) - 1;
        }
    }
    return n;
}

static size_t batch_query_keys(const bg_filter *filter, const struct bgi_keys *keys,
                               size_t n, uint64_t *maybe)
{
    if (!filter) {
        return batch_all_maybe(maybe, n);
    }
    struct batch b = batch_of_queries(filter, maybe);
    return batch_keys(&b, &filter->hasher, keys, n);
}

size_t bg_filter_may_contain_many(const bg_filter *filter, const bg_bytes *keys, size_t n,
                                  uint64_t *maybe)
{
    struct bgi_keys all = bgi_keys_pairs(keys);
    return batch_query_keys(filter, &all, n, maybe);
}

size_t bg_filter_may_contain_many_fixed(const bg_filter *filter, const void *keys,
                                        size_t width, size_t n, uint64_t *maybe)
{
    struct bgi_keys all = bgi_keys_fixed(keys, width);
    return batch_query_keys(filter, &all, n, maybe);
}

size_t bg_filter_may_contain_many_u64(const bg_filter *filter, const uint64_t *keys,
                                      size_t n, uint64_t *maybe)
{
    struct bgi_keys all = bgi_keys_u64(keys);
    return batch_query_keys(filter, &all, n, maybe);
}

size_t bg_filter_may_contain_many_hash(const bg_filter *filter, const uint64_t *hashes,
                                       size_t n, uint64_t *maybe)
{
    if (!filter) {
        return batch_all_maybe(maybe, n);
    }
    struct batch b = batch_of_queries(filter, maybe);
    return batch_hashes(&b, hashes, n);
}
