/*
 * batch.c - many keys at once.
 *
 * A random cache line of a large filter takes 100 ns to arrive, but some twenty can be on
 * their way at the same time, so one every 5 to 8 ns. A single look-up waits; a batch asks
 * for the lines of the keys to come while it works on the present ones.
 *
 * Keys go in words of 64, with two buffers. The next 64 are prepared, that is hashed
 * (unless hashes are given) and located. Then the present 64, whose lines have arrived
 * meanwhile, are answered, and one by one the lines of the next 64 are asked for. So each
 * line has the time of about 64 keys to arrive, in which hashing is done as well.
 */
#include "bloomgate/filter.h"

#include "filter/handle.h"
#include "hash/hash_batch.h"

#include <string.h>

enum { BATCH_WORD = 64 };

/* One batch: what it works on, what it does, what came out. */
struct batch {
    struct bgi_core *core;
    bool adding;
    const bg_hasher *hasher;     /* with keys                                          */
    const struct bgi_keys *keys; /* NULL: hashes are given                             */
    const uint64_t *hashes;      /* ... here                                           */
    size_t n;
    uint64_t *bitmap; /* NULL: only count                                              */
    size_t count;
};

/* A word and the room for its hashes. */
struct batch_word {
    struct bgi_word word;
    uint64_t hashed[BATCH_WORD];
};

/* Prepares the keys from `first` on; none when that is the end. */
static void batch_prepare(const struct batch *b, size_t first, struct batch_word *to)
{
    size_t rest = first < b->n ? b->n - first : 0;
    to->word.n = rest < BATCH_WORD ? (unsigned)rest : BATCH_WORD;
    if (b->keys) {
        bgi_hash_range(b->hasher, b->keys, first, to->word.n, to->hashed);
        to->word.hashes = to->hashed;
    } else {
        to->word.hashes = b->hashes + first;
    }
    b->core->ops->locate(b->core, &to->word);
}

static uint64_t batch_answer(const struct batch *b, const struct bgi_word *word,
                             const struct bgi_word *next)
{
    const struct bgi_ops *ops = b->core->ops;
    next = b->core->large && next->n ? next : NULL;
    return b->adding ? ops->add_word(b->core, word, next)
                     : ops->has_word(b->core, word, next);
}

static size_t batch_run(struct batch *b)
{
    struct batch_word two[2];
    unsigned now = 0;
    two[1].word.n = 0;
    batch_prepare(b, 0, &two[now]);
    if (b->core->large) {
        (void)batch_answer(b, &two[1].word, &two[now].word); /* only asks */
    }
    for (size_t first = 0; first < b->n; first += BATCH_WORD) {
        batch_prepare(b, first + BATCH_WORD, &two[now ^ 1]);
        uint64_t answers = batch_answer(b, &two[now].word, &two[now ^ 1].word);
        if (b->bitmap) {
            b->bitmap[first / BATCH_WORD] = answers;
        }
        b->count += (size_t)__builtin_popcountll(answers);
        now ^= 1;
    }
    return b->count;
}

/* ---- Adds -------------------------------------------------------------------------- */

static struct batch batch_of_adds(bg_filter *filter, size_t n, uint64_t *is_new)
{
    return (struct batch){ .core = &filter->core,
                           .adding = true,
                           .hasher = &filter->hasher,
                           .n = n,
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
    struct batch b = batch_of_adds(filter, n, is_new);
    b.keys = keys;
    return batch_run(&b);
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
    struct batch b = batch_of_adds(filter, n, is_new);
    b.hashes = hashes;
    return batch_run(&b);
}

/* ---- Look-ups ------------------------------------------------------------------------ */

static struct batch batch_of_queries(const bg_filter *filter, size_t n, uint64_t *maybe)
{
    /* The kind's has_word leaves the core alone; `struct batch` serves adds as well. */
    return (struct batch){ .core = (struct bgi_core *)(uintptr_t)&filter->core,
                           .hasher = &filter->hasher,
                           .n = n,
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
    struct batch b = batch_of_queries(filter, n, maybe);
    b.keys = keys;
    return batch_run(&b);
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
    struct batch b = batch_of_queries(filter, n, maybe);
    b.hashes = hashes;
    return batch_run(&b);
}
