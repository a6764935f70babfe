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

#include "base/bits.h"
#include "filter/batch.h"
#include "filter/handle.h"
#include "hash/hash_batch.h"

#include <string.h>

enum { BATCH_GROUP = 64, BATCH_FAR = 4 };

/* One batch: what it works on, what it does, what came out. */
struct batch {
    struct bgi_core *core;
    bool adding;
    const bg_hasher *hasher; /* NULL: the keys are hashes */
    struct bgi_keys keys;
    size_t n;
    uint64_t *bitmap; /* NULL: only count */
    size_t count;
};

/* A word and the room for its hashes. */
struct batch_group {
    struct bgi_group group;
    uint64_t hashed[BATCH_GROUP];
};

/*
 * Reading the input in bursts of a word, as we do, outruns the processor's own detection
 * of streams: what will be read some words later is asked for by hand. (Inlined by force:
 * gcc takes a function that only prefetches for one without effect and drops its calls.)
 */
BGI_INLINE void batch_read_ahead(const struct batch *b, size_t first)
{
    size_t far = first + BATCH_FAR * BATCH_GROUP, near = first + BATCH_GROUP;
    if (far + BATCH_GROUP <= b->n) {
        bgi_keys_ask(&b->keys, far, BATCH_GROUP, 1);
    }
    if (near + BATCH_GROUP <= b->n) {
        bgi_keys_ask(&b->keys, near, BATCH_GROUP, 0);
    }
}

/* Prepares the keys from `first` on; none when that is the end. */
static void batch_prepare(const struct batch *b, size_t first, struct batch_group *to)
{
    to->word.n = 0;
    if (first >= b->n) {
        return; /* data + first may lie outside of the array, or data be NULL */
    }
    to->word.n = b->n - first < BATCH_GROUP ? (unsigned)(b->n - first) : BATCH_GROUP;
    batch_read_ahead(b, first);
    if (b->hasher) {
        bgi_hash_range(b->hasher, &b->keys, first, to->word.n, to->hashed);
        to->word.hashes = to->hashed;
    } else {
        to->word.hashes = (const uint64_t *)b->keys.data + first;
    }
    b->core->ops->locate(b->core, &to->word);
}

static bool batch_prefetches(const struct batch *b)
{
    return b->adding ? b->core->adds_prefetch : b->core->lookups_prefetch;
}

/* For kinds that have no operations on words. */
static uint64_t batch_one_by_one(const struct batch *b, const struct bgi_group *group,
                                 const struct bgi_group *next)
{
    uint64_t answer = 0;
    if (next && b->core->ops->prefetch) {
        b->core->ops->prefetch(b->core, next);
    }
    for (unsigned i = 0; i < group->n; i++) {
        bool yes = b->adding ? b->core->add(b->core, group->hashes[i])
                             : b->core->has(b->core, group->hashes[i]);
        answer |= (uint64_t)yes << i;
    }
    return answer;
}

static uint64_t batch_answer(const struct batch *b, const struct bgi_group *group,
                             const struct bgi_group *next)
{
    const struct bgi_ops *ops = b->core->ops;
    next = batch_prefetches(b) && next->n ? next : NULL;
    if (!ops->has_group) {
        return batch_one_by_one(b, group, next);
    }
    return b->adding ? ops->add_group(b->core, group, next)
                     : ops->has_group(b->core, group, next);
}

static size_t batch_run(struct batch *b)
{
    struct batch_group two[2];
    unsigned now = 0;
    two[1].group.n = 0;
    two[1].group.hashes = NULL;
    batch_prepare(b, 0, &two[now]);
    if (batch_prefetches(b)) {
        (void)batch_answer(b, &two[1].group, &two[now].group); /* only asks */
    }
    for (size_t first = 0; first < b->n; first += BATCH_GROUP) {
        batch_prepare(b, first + BATCH_GROUP, &two[now ^ 1]);
        uint64_t answers = batch_answer(b, &two[now].group, &two[now ^ 1].group);
        if (b->bitmap) {
            b->bitmap[first / BATCH_GROUP] = answers;
        }
        b->count += bgi_popcount64(answers);
        now ^= 1;
    }
    return b->count;
}

/* ---- Adds -------------------------------------------------------------------------- */

/* Without a filter nothing is added, so nothing is new; nor removed. */
static size_t batch_no_adds(uint64_t *is_new, size_t n)
{
    if (is_new) {
        memset(is_new, 0, BG_BITMAP_WORDS(n) * sizeof *is_new);
    }
    return 0;
}

static size_t batch_add(bg_filter *filter, struct bgi_keys keys, bool hashed, size_t n,
                        uint64_t *is_new)
{
    if (!filter) {
        return batch_no_adds(is_new, n);
    }
    struct batch b = { .core = &filter->core,
                       .adding = true,
                       .hasher = hashed ? NULL : &filter->hasher,
                       .keys = keys,
                       .n = n,
                       .bitmap = is_new };
    return batch_run(&b);
}

size_t bg_filter_add_many(bg_filter *filter, const bg_bytes *keys, size_t n,
                          uint64_t *is_new)
{
    return batch_add(filter, bgi_keys_pairs(keys), false, n, is_new);
}

size_t bg_filter_add_many_fixed(bg_filter *filter, const void *keys, size_t width,
                                size_t n, uint64_t *is_new)
{
    return batch_add(filter, bgi_keys_fixed(keys, width), false, n, is_new);
}

size_t bg_filter_add_many_u64(bg_filter *filter, const uint64_t *keys, size_t n,
                              uint64_t *is_new)
{
    return batch_add(filter, bgi_keys_u64(keys), false, n, is_new);
}

size_t bg_filter_add_many_hash(bg_filter *filter, const uint64_t *hashes, size_t n,
                               uint64_t *is_new)
{
    return batch_add(filter, bgi_keys_u64(hashes), true, n, is_new);
}

/* ---- Look-ups ------------------------------------------------------------------------ */

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

/* `hasher` NULL: the keys are hashes. */
static size_t batch_look(const struct bgi_core *core, const bg_hasher *hasher,
                         struct bgi_keys keys, size_t n, uint64_t *maybe)
{
    /* The kind's has_group leaves the core alone; `struct batch` serves adds as well. */
    struct batch b = { .core = (struct bgi_core *)(uintptr_t)core,
                       .hasher = hasher,
                       .keys = keys,
                       .n = n,
                       .bitmap = maybe };
    return batch_run(&b);
}

static size_t batch_query(const bg_filter *filter, struct bgi_keys keys, bool hashed,
                          size_t n, uint64_t *maybe)
{
    return filter ? batch_look(&filter->core, hashed ? NULL : &filter->hasher, keys, n,
                               maybe)
                  : batch_all_maybe(maybe, n);
}

size_t bgi_batch_ask(const struct bgi_core *core, const uint64_t *hashes, size_t n,
                     uint64_t *maybe)
{
    return core ? batch_look(core, NULL, bgi_keys_u64(hashes), n, maybe)
                : batch_all_maybe(maybe, n);
}

size_t bg_filter_may_contain_many(const bg_filter *filter,
                                  bg_keys_bytes(const bg_bytes *keys, size_t n),
                                  uint64_t *maybe)
{
    return batch_query(filter, bgi_keys_pairs(keys), false, n, maybe);
}

size_t bg_filter_may_contain_many(const bg_filter *filter,
                                  bg_keys_fixed(const void *keys, size_t width,
                                                size_t n),
                                  uint64_t *maybe)
{
    return batch_query(filter, bgi_keys_fixed(keys, width), false, n, maybe);
}

size_t bg_filter_may_contain_many(const bg_filter *filter,
                                  bg_keys_u64(const uint64_t *keys, size_t n),
                                  uint64_t *maybe)
{
    return batch_query(filter, bgi_keys_u64(keys), false, n, maybe);
}

size_t bg_filter_may_contain_many(const bg_filter *filter,
                                  bg_keys_hashes(const uint64_t *hashes, size_t n),
                                  uint64_t *maybe)
{
    return batch_query(filter, bgi_keys_u64(hashes), true, n, maybe);
}

/* ---- Inserts and removes ----------------------------------------------------------- */

/*
 * Walks over the words of a batch, asking for the memory of the next one, and calls
 * `visit` for each until it says no.
 */
static void batch_walk(const struct batch *b,
                       bool (*visit)(const struct batch *b,
                                     const struct bgi_group *group, size_t first,
                                     void *context),
                       void *context)
{
    const struct bgi_ops *ops = b->core->ops;
    struct batch_group two[2];
    unsigned now = 0;
    batch_prepare(b, 0, &two[now]);
    for (size_t first = 0; first < b->n; first += BATCH_GROUP) {
        batch_prepare(b, first + BATCH_GROUP, &two[now ^ 1]);
        if (ops->prefetch && b->core->adds_prefetch) {
            ops->prefetch(b->core, &two[now ^ 1].group);
        }
        if (!visit(b, &two[now].group, first, context)) {
            return;
        }
        now ^= 1;
    }
}

struct batch_inserted {
    size_t done, added;
    bg_err err;
};

static bool batch_insert_group(const struct batch *b, const struct bgi_group *group,
                               size_t first, void *context)
{
    struct batch_inserted *in = context;
    (void)first;
    for (unsigned i = 0; i < group->n; i++) {
        bool is_new = false;
        in->err = b->core->ops->insert(b->core, group->hashes[i], &is_new);
        if (in->err) {
            return false;
        }
        in->done++;
        in->added += is_new;
    }
    return true;
}

static bg_err batch_insert(bg_filter *filter, struct bgi_keys keys, bool hashed,
                           size_t n, size_t *done, size_t *added)
{
    struct batch_inserted in = { 0, 0, BG_OK };
    if (!filter || !done) {
        in.err = BG_EINVAL;
    } else if (filter->kind->traits & BG_TRAIT_STATIC) {
        in.err = BG_ENOTSUP;
    } else if (!filter->core.ops->insert) {
        in.added = batch_add(filter, keys, hashed, n, NULL);
        in.done = n;
    } else {
        struct batch b = { .core = &filter->core,
                           .adding = true,
                           .hasher = hashed ? NULL : &filter->hasher,
                           .keys = keys,
                           .n = n };
        batch_walk(&b, batch_insert_group, &in);
    }
    if (done) {
        *done = in.done;
    }
    if (added) {
        *added = in.added;
    }
    return in.err;
}

bg_err bg_filter_add_many(bg_filter *filter,
                          bg_keys_bytes(const bg_bytes *keys, size_t n), NULL,
                          size_t *done, size_t *added)
{
    return batch_insert(filter, bgi_keys_pairs(keys), false, n, done, added);
}

bg_err bg_filter_add_many(bg_filter *filter,
                          bg_keys_fixed(const void *keys, size_t width, size_t n), NULL,
                          size_t *done, size_t *added)
{
    return batch_insert(filter, bgi_keys_fixed(keys, width), false, n, done, added);
}

bg_err bg_filter_add_many(bg_filter *filter,
                          bg_keys_u64(const uint64_t *keys, size_t n), NULL,
                          size_t *done, size_t *added)
{
    return batch_insert(filter, bgi_keys_u64(keys), false, n, done, added);
}

bg_err bg_filter_add_many(bg_filter *filter,
                          bg_keys_hashes(const uint64_t *hashes, size_t n), NULL,
                          size_t *done, size_t *added)
{
    return batch_insert(filter, bgi_keys_u64(hashes), true, n, done, added);
}

static bool batch_remove_group(const struct batch *b, const struct bgi_group *group,
                               size_t first, void *context)
{
    size_t *count = context;
    uint64_t removed = 0;
    for (unsigned i = 0; i < group->n; i++) {
        bool was_there = b->core->ops->remove(b->core, group->hashes[i]) == BG_OK;
        removed |= (uint64_t)was_there << i;
    }
    if (b->bitmap) {
        b->bitmap[first / BATCH_GROUP] = removed;
    }
    *count += bgi_popcount64(removed);
    return true;
}

static size_t batch_remove(bg_filter *filter, struct bgi_keys keys, bool hashed,
                           size_t n, uint64_t *removed)
{
    if (!filter || !filter->core.ops->remove) {
        return batch_no_adds(removed, n);
    }
    size_t count = 0;
    struct batch b = { .core = &filter->core,
                       .hasher = hashed ? NULL : &filter->hasher,
                       .keys = keys,
                       .n = n,
                       .bitmap = removed };
    batch_walk(&b, batch_remove_group, &count);
    return count;
}

size_t bg_filter_remove_many(bg_filter *filter,
                             bg_keys_bytes(const bg_bytes *keys, size_t n),
                             uint64_t *removed)
{
    return batch_remove(filter, bgi_keys_pairs(keys), false, n, removed);
}

size_t bg_filter_remove_many(bg_filter *filter,
                             bg_keys_fixed(const void *keys, size_t width, size_t n),
                             uint64_t *removed)
{
    return batch_remove(filter, bgi_keys_fixed(keys, width), false, n, removed);
}

size_t bg_filter_remove_many(bg_filter *filter,
                             bg_keys_u64(const uint64_t *keys, size_t n),
                             uint64_t *removed)
{
    return batch_remove(filter, bgi_keys_u64(keys), false, n, removed);
}

size_t bg_filter_remove_many(bg_filter *filter,
                             bg_keys_hashes(const uint64_t *hashes, size_t n),
                             uint64_t *removed)
{
    return batch_remove(filter, bgi_keys_u64(hashes), true, n, removed);
}
