/*
 * batch.c - performs operations on many keys at once.
 *
 * A random cache line of a large filter takes 100 ns to arrive, but about twenty lines can be in
 * flight at the same time, so one arrives every 5 to 8 ns. A single lookup waits for its line. A
 * batch prefetches the lines of upcoming keys while it works on the current keys.
 *
 * Keys are processed in groups of 64, with two buffers. First the next group is prepared: its
 * keys are hashed (unless they are already hashes), and their lines are located. Then the current
 * group, whose lines have arrived in the meantime, is answered. Each time a key is answered, one
 * line of the next group is prefetched. Each line thus has time to arrive while 64 keys are
 * processed, including hashing.
 */
#include "bloomgate/filter.h"

#include "base/bits.h"
#include "filter/batch.h"
#include "filter/handle.h"
#include "hash/hash_batch.h"

#include <string.h>

enum { BATCH_GROUP = 64, BATCH_FAR = 4 };

/* The input, operation and results of a batch. */
struct batch {
    struct bgi_core *core;
    bool adding;
    const bg_hasher *hasher; /* unused if the keys are hashes */
    bg_keys keys;
    uint64_t *bitmap; /* if NULL, answers are only counted */
    size_t count;
};

/* A group and space for its hashes. */
struct batch_group {
    struct bgi_group group;
    uint64_t hashed[BATCH_GROUP];
};

/*
 * Prefetches the input of later groups, because reading the input in bursts defeats the CPU's own
 * stream detection. (The function is force-inlined, because gcc assumes that a function that only
 * prefetches has no effect, and drops calls to it.)
 */
BGI_INLINE void batch_read_ahead(const struct batch *b, size_t first)
{
    size_t far = first + BATCH_FAR * BATCH_GROUP, near = first + BATCH_GROUP;
    if (far + BATCH_GROUP <= b->keys.count) {
        bgi_keys_prefetch(&b->keys, far, BATCH_GROUP, 1);
    }
    if (near + BATCH_GROUP <= b->keys.count) {
        bgi_keys_prefetch(&b->keys, near, BATCH_GROUP, 0);
    }
}

/* Prepares the group that starts with key `first`. The group is empty if no keys are left. */
static void batch_prepare(const struct batch *b, size_t first, struct batch_group *to)
{
    to->group.n = 0;
    if (first >= b->keys.count) {
        return; /* data + first may be outside the array, or data may be NULL */
    }
    to->group.n = b->keys.count - first < BATCH_GROUP
                      ? (unsigned)(b->keys.count - first)
                      : BATCH_GROUP;
    batch_read_ahead(b, first);
    if (b->keys.form != BG_KEYS_HASHES) {
        bgi_hash_range(b->hasher, &b->keys, first, to->group.n, to->hashed);
        to->group.hashes = to->hashed;
    } else {
        to->group.hashes = (const uint64_t *)b->keys.data + first;
    }
    b->core->ops->locate(b->core, &to->group);
}

static bool batch_prefetches(const struct batch *b)
{
    return b->adding ? b->core->adds_prefetch : b->core->lookups_prefetch;
}

/* Answers one key at a time, for kinds that have no group operations. */
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
        (void)batch_answer(b, &two[1].group, &two[now].group); /* only prefetches */
    }
    for (size_t first = 0; first < b->keys.count; first += BATCH_GROUP) {
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

/* ---- Queries ------------------------------------------------------------------------- */

/* Answers "maybe" for all n keys. Used if there is no filter, or if the filter does not accept the
 * keys. */
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

static size_t batch_query(const struct bgi_core *core, const bg_hasher *hasher,
                          bg_keys keys, uint64_t *maybe)
{
    /* The core in `struct batch` is not const, because adds use the struct, too. Removing the const
     * qualifier here is safe, because a query does not change the core. */
    struct batch b = { .core = (struct bgi_core *)(uintptr_t)core,
                       .hasher = hasher,
                       .keys = keys,
                       .bitmap = maybe };
    return batch_run(&b);
}

size_t bgi_batch_query(const struct bgi_core *core, const uint64_t *hashes, size_t n,
                       uint64_t *maybe)
{
    return core && (hashes || !n)
               ? batch_query(core, NULL, bg_keys_hashes(hashes, n), maybe)
               : batch_all_maybe(maybe, n);
}

/* Returns whether a filter accepts the keys of a batch. */
static bool batch_can_use(const bg_filter *filter, const bg_keys *keys)
{
    return filter && bgi_keys_are_valid(keys) && bgi_keys_fit(keys, &filter->hasher);
}

size_t bg_filter_may_contain_many(const bg_filter *filter, bg_keys keys,
                                  uint64_t *maybe)
{
    return batch_can_use(filter, &keys)
               ? batch_query(&filter->core, &filter->hasher, keys, maybe)
               : batch_all_maybe(maybe, keys.count);
}

/* ---- Adds ---------------------------------------------------------------------------- */

static size_t batch_none(uint64_t *bitmap, size_t n)
{
    if (bitmap) {
        memset(bitmap, 0, BG_BITMAP_WORDS(n) * sizeof *bitmap);
    }
    return 0;
}

static size_t batch_add(bg_filter *filter, bg_keys keys, uint64_t *is_new)
{
    struct batch b = { .core = &filter->core,
                       .adding = true,
                       .hasher = &filter->hasher,
                       .keys = keys,
                       .bitmap = is_new };
    return batch_run(&b);
}

bg_err bg_filter_add_forced(bg_filter *filter, bg_keys keys, uint64_t *is_new,
                            size_t *added)
{
    const bg_err err = !filter || !bgi_keys_are_valid(&keys)   ? BG_EINVAL
                       : !bgi_keys_fit(&keys, &filter->hasher) ? BG_EINCOMPAT
                                                               : BG_OK;
    const size_t count =
        err ? batch_none(is_new, keys.count) : batch_add(filter, keys, is_new);
    if (added) {
        *added = count;
    }
    return err;
}

/*
 * Calls `visit` for each group of a batch until `visit` returns false, and prefetches memory for
 * the next group at the same time.
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
    for (size_t first = 0; first < b->keys.count; first += BATCH_GROUP) {
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
    uint64_t news = 0;
    for (unsigned i = 0; i < group->n && !in->err; i++) {
        bool is_new = false;
        in->err = b->core->ops->insert(b->core, group->hashes[i], &is_new);
        in->done += !in->err;
        news |= (uint64_t)(is_new && !in->err) << i;
    }
    in->added += bgi_popcount64(news);
    if (b->bitmap) {
        b->bitmap[first / BATCH_GROUP] = news;
    }
    return !in->err;
}

/* Adds keys to a filter that can become full, one by one, up to the first key that does not
 * fit. */
static struct batch_inserted batch_insert(bg_filter *filter, bg_keys keys,
                                          uint64_t *is_new)
{
    struct batch_inserted in = { 0, 0, BG_OK };
    struct batch b = { .core = &filter->core,
                       .adding = true,
                       .hasher = &filter->hasher,
                       .keys = keys,
                       .bitmap = is_new };
    (void)batch_none(is_new, keys.count);
    batch_walk(&b, batch_insert_group, &in);
    return in;
}

/* Returns BG_OK, or the reason why a filter accepts none of the keys. */
static bg_err batch_refuses(const bg_filter *filter, const bg_keys *keys)
{
    return !filter || !bgi_keys_are_valid(keys)     ? BG_EINVAL
           : filter->kind->traits & BG_TRAIT_STATIC ? BG_ENOTSUP
           : !bgi_keys_fit(keys, &filter->hasher)   ? BG_EINCOMPAT
                                                    : BG_OK;
}

bg_err bg_filter_add_many(bg_filter *filter, bg_keys keys, uint64_t *is_new,
                          size_t *done, size_t *added)
{
    struct batch_inserted in = { 0, 0, batch_refuses(filter, &keys) };
    if (in.err) {
        (void)batch_none(is_new, keys.count);
    } else if (filter->core.ops->insert) {
        in = batch_insert(filter, keys, is_new);
    } else {
        in.added = batch_add(filter, keys, is_new);
        in.done = keys.count;
    }
    if (done) {
        *done = in.done;
    }
    if (added) {
        *added = in.added;
    }
    return in.err;
}

/* ---- Removes ------------------------------------------------------------------------- */

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

size_t bg_filter_remove_many(bg_filter *filter, bg_keys keys, uint64_t *removed)
{
    if (!batch_can_use(filter, &keys) || !filter->core.ops->remove) {
        return batch_none(removed, keys.count);
    }
    size_t count = 0;
    struct batch b = { .core = &filter->core,
                       .hasher = &filter->hasher,
                       .keys = keys,
                       .bitmap = removed };
    batch_walk(&b, batch_remove_group, &count);
    return count;
}
