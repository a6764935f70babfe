/* view.c - see view.h. */
#include "gate/view.h"

#include "hash/hash_batch.h"

#include "base/bits.h"

#include <string.h>

/* ---- Lifecycle ----------------------------------------------------------------------- */

/* A reference-counted filter, and the memory block that holds this struct. */
struct view_owned {
    struct view_filter shared; /* must be first */
    struct bgi_memory memory;
};

struct view_filter *view_filter_make(bg_filter *filter, const bg_allocator *allocator)
{
    struct bgi_memory memory;
    if (!bgi_memory_take(&memory, sizeof(struct view_owned), allocator, true)) {
        return NULL;
    }
    struct view_owned *owned = memory.base;
    owned->memory = memory;
    owned->shared.filter = filter;
    owned->shared.check = bg_hasher_check(bg_filter_hasher(filter));
    atomic_init(&owned->shared.owners, 1);
    atomic_init(&owned->shared.failed, false);
    atomic_init(&owned->shared.added, 0);
    return &owned->shared;
}

void view_filter_drop(struct view_filter *filter)
{
    if (filter && atomic_fetch_sub(&filter->owners, 1) == 1) {
        struct view_owned *owned = (struct view_owned *)(void *)filter;
        struct bgi_memory memory = owned->memory;
        bg_filter_free(filter->filter);
        bgi_memory_give(&memory);
    }
}

static bool view_hash_alike(const struct view_member *a, const struct view_member *b)
{
    return bg_hasher_equal(bg_filter_hasher(a->filter), bg_filter_hasher(b->filter));
}

/* Returns the position for a new member, which is after the last member with the same hasher, or at
 * the end if there is none. */
static size_t view_place(const struct view *view, const struct view_member *member)
{
    for (size_t i = view->count; i > 0; i--) {
        if (view_hash_alike(&view->members[i - 1], member)) {
            return i;
        }
    }
    return view->count;
}

static void view_put(struct view *view, const struct view_member *member)
{
    size_t at = view_place(view, member);
    memmove(view->members + at + 1, view->members + at,
            (view->count - at) * sizeof *view->members);
    view->members[at] = *member;
    view->members[at].filter = member->shared->filter;
    view->members[at].check = member->shared->check;
    view->count++;
    view->queried += member->queried;
    view->based = view->based || (member->queried && member->role == BG_ROLE_BASE);
    view->takes = view->takes || (member->queried && member->takes);
    atomic_fetch_add(&member->shared->owners, 1);
}

bool view_memory(struct bgi_memory *memory, size_t count, const bg_allocator *allocator)
{
    return bgi_memory_take(memory,
                           sizeof(struct view) + count * sizeof(struct view_member),
                           allocator, true);
}

struct view *view_make(struct bgi_memory memory, const struct view_member *members,
                       size_t count, const struct guard *guard)
{
    struct view *view = memory.base;
    view->memory = memory;
    view->guard = *guard;
    for (size_t i = 0; i < count; i++) {
        struct view_member member = members[i];
        member.filter = member.shared->filter;
        view_put(view, &member);
    }
    view->same_hash =
        count < 2 || view_hash_alike(&view->members[0], &view->members[count - 1]);
    return view;
}

void view_release(struct bgi_retired *retired)
{
    struct view *view = (struct view *)(void *)retired;
    for (size_t i = 0; i < view->count; i++) {
        view_filter_drop(view->members[i].shared);
    }
    struct bgi_memory memory = view->memory;
    bgi_memory_give(&memory);
}

bool view_is_sole(const struct view *view)
{
    for (size_t i = 0; i < view->count; i++) {
        if (atomic_load(&view->members[i].shared->owners) != 1) {
            return false;
        }
    }
    return true;
}

static struct view_filter *view_filter_relocate(struct view_filter *filter,
                                                const bg_mover *mover)
{
    struct view_owned *owned = (struct view_owned *)(void *)filter;
    bg_filter_relocate(&filter->filter, mover);
    const struct bgi_move move = bgi_memory_move(owned->memory, mover);
    owned = bgi_moved(&move, owned);
    owned->memory.base = bgi_moved(&move, owned->memory.base);
    return &owned->shared;
}

struct view *view_relocate(struct view *view, const bg_mover *mover)
{
    for (size_t i = 0; i < view->count; i++) {
        struct view_member *member = &view->members[i];
        member->shared = view_filter_relocate(member->shared, mover);
        member->filter = member->shared->filter;
    }
    const struct bgi_move move = bgi_memory_move(view->memory, mover);
    view = bgi_moved(&move, view);
    view->memory.base = bgi_moved(&move, view->memory.base);
    return view;
}

const struct view_member *view_find(const struct view *view, bg_role role)
{
    for (size_t i = 0; i < view->count; i++) {
        if (view->members[i].role == role) {
            return &view->members[i];
        }
    }
    return NULL;
}

bool view_has_filter(const struct view *view, const struct view_filter *filter)
{
    for (size_t i = 0; i < view->count; i++) {
        if (view->members[i].shared == filter) {
            return true;
        }
    }
    return false;
}

const struct view_member *view_find_delta(const struct view *view, bool takes)
{
    for (size_t i = 0; i < view->count; i++) {
        if (view->members[i].role == BG_ROLE_DELTA && view->members[i].takes == takes) {
            return &view->members[i];
        }
    }
    return NULL;
}

/* ---- One key ------------------------------------------------------------------------- */

/* A key as bytes, or as a number if `is_number` is true. */
struct view_key {
    const void *bytes;
    size_t len;
    uint64_t number;
    bool is_number;
};

static uint64_t view_hash(const bg_filter *filter, const struct view_key *key)
{
    const bg_hasher *hasher = bg_filter_hasher(filter);
    return key->is_number ? bg_hash_u64(hasher, key->number)
                          : bg_hash_bytes(hasher, key->bytes, key->len);
}

/* Returns the key's hash for member i; `last` is the hash for the previous member. */
static uint64_t view_next_hash(const struct view *view, size_t i,
                               const struct view_key *key, uint64_t last)
{
    return i > 0 && view->same_hash ? last : view_hash(view->members[i].filter, key);
}

static bool view_has_key(const struct view *view, const struct view_key *key)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct view_member *member = &view->members[i];
        hash = view_next_hash(view, i, key, hash);
        if (member->queried && bg_filter_may_contain_hash(member->filter, hash)) {
            return true;
        }
    }
    return !view->based;
}

bool view_has(const struct view *view, const void *key, size_t len)
{
    const struct view_key k = { .bytes = key, .len = len };
    return view_has_key(view, &k);
}

bool view_has_u64(const struct view *view, uint64_t key)
{
    const struct view_key k = { .number = key, .is_number = true };
    return view_has_key(view, &k);
}

uint64_t view_count(const struct view *view, const void *key, size_t len)
{
    const struct view_key k = { .bytes = key, .len = len };
    uint64_t hash = 0, count = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct view_member *member = &view->members[i];
        hash = view_next_hash(view, i, &k, hash);
        if (member->queried) {
            const uint64_t here = bg_filter_count_hash(member->filter, hash);
            count = here > UINT64_MAX - count ? UINT64_MAX : count + here;
        }
    }
    return view->based || count ? count : 1; /* as without a filter */
}

/* Adds a key to one member. If the next base has no space for the key, the base is marked as
 * failed, but the add succeeds. */
static bg_err view_insert(const struct view_member *member, uint64_t hash, bool *is_new)
{
    bg_err err = bg_filter_add_hash(member->filter, hash, is_new);
    if (err && !member->queried) {
        atomic_store(&member->shared->failed, true);
        err = BG_OK;
    }
    return err;
}

static bg_err view_add_key(const struct view *view, const struct view_key *key,
                           struct view_news *news)
{
    uint64_t hash = 0;
    bool seen = !view->based, held = false;
    if (!view->takes) {
        return BG_ENOTSUP;
    }
    for (size_t i = 0; i < view->count; i++) {
        const struct view_member *member = &view->members[i];
        bool here_new = true;
        hash = view_next_hash(view, i, key, hash);
        if (member->takes) {
            bg_err err = view_insert(member, hash, &here_new);
            if (err) {
                return err;
            }
            held = held || (member->queried && !here_new);
        } else {
            here_new = !bg_filter_may_contain_hash(member->filter, hash);
        }
        seen = seen || (member->queried && !here_new);
    }
    *news = (struct view_news){ .all = !seen, .takers = !held };
    return BG_OK;
}

bg_err view_add(const struct view *view, const void *key, size_t len,
                struct view_news *news)
{
    const struct view_key k = { .bytes = key, .len = len };
    return view_add_key(view, &k, news);
}

bg_err view_add_u64(const struct view *view, uint64_t key, struct view_news *news)
{
    const struct view_key k = { .number = key, .is_number = true };
    return view_add_key(view, &k, news);
}

/* ---- Many keys ----------------------------------------------------------------------- */

enum { VIEW_CHUNK = 512, VIEW_WORDS = VIEW_CHUNK / 64 };

/* Returns n keys of an array, starting at key `at`. */
static bg_keys view_keys_from(bg_keys keys, size_t at, size_t n)
{
    keys.data = (const char *)keys.data + at * bgi_keys_stride(&keys);
    keys.count = n;
    return keys;
}

/* Returns the hashes of a chunk's keys for a member: the caller's hashes, or hashes computed in
 * `space`. If all members use the same hasher, `space` is filled only for the first member. */
static const uint64_t *view_hash_chunk(const struct view *view, size_t member,
                                       bg_keys keys, size_t at, size_t n,
                                       uint64_t space[VIEW_CHUNK])
{
    if (keys.form == BG_KEYS_HASHES) {
        return (const uint64_t *)keys.data + at;
    }
    if (member == 0 || !view->same_hash) {
        bg_hash_many(bg_filter_hasher(view->members[member].filter),
                     view_keys_from(keys, at, n), space);
    }
    return space;
}

/* (V3) */
static bool view_can_use(const struct view_member *member, bg_keys keys)
{
    return keys.form != BG_KEYS_HASHES || member->check == keys.check;
}

static bool view_all_can_query(const struct view *view, bg_keys keys)
{
    bool can = true;
    for (size_t i = 0; i < view->count; i++) {
        can =
            can && (!view->members[i].queried || view_can_use(&view->members[i], keys));
    }
    return can;
}

static bool view_all_can_take(const struct view *view, bg_keys keys)
{
    bool can = true;
    for (size_t i = 0; i < view->count; i++) {
        can = can && (!view->members[i].takes || view_can_use(&view->members[i], keys));
    }
    return can;
}

/* Returns word w of a bitmap whose first n bits are set. */
static uint64_t view_ones_of(size_t n, size_t w)
{
    return n <= 64 * w        ? 0
           : n - 64 * w >= 64 ? UINT64_MAX
                              : (UINT64_C(1) << (n - 64 * w)) - 1;
}

static size_t view_ones(const uint64_t *bitmap, size_t words)
{
    size_t ones = 0;
    for (size_t i = 0; i < words; i++) {
        ones += bgi_popcount64(bitmap[i]);
    }
    return ones;
}

/* Answers "maybe" for all keys. */
static size_t view_all_maybe(size_t n, uint64_t *maybe)
{
    for (size_t i = 0; maybe && i < BG_BITMAP_WORDS(n); i++) {
        maybe[i] = view_ones_of(n, i);
    }
    return n;
}

static size_t view_has_chunk(const struct view *view, bg_keys keys, size_t at, size_t n,
                             uint64_t bitmap[VIEW_WORDS])
{
    uint64_t room[VIEW_CHUNK], one[VIEW_WORDS];
    const size_t words = BG_BITMAP_WORDS(n);
    memset(bitmap, 0, words * sizeof *bitmap);
    for (size_t i = 0; i < view->count; i++) {
        const uint64_t *hashes = view_hash_chunk(view, i, keys, at, n, room);
        if (view->members[i].queried) {
            (void)bg_filter_may_contain_many(view->members[i].filter,
                                             bg_keys_hashes(hashes, n), one);
            for (size_t w = 0; w < words; w++) {
                bitmap[w] |= one[w];
            }
        }
    }
    return view_ones(bitmap, words);
}

size_t view_has_many(const struct view *view, bg_keys keys, uint64_t *maybe)
{
    const size_t n = keys.count;
    size_t found = 0;
    if (!view->based || !view_all_can_query(view, keys)) {
        return view_all_maybe(n, maybe);
    }
    keys.check = 0;         /* compared above */
    if (view->count == 1) { /* the common case: query the filter directly */
        return bg_filter_may_contain_many(view->members[0].filter, keys, maybe);
    }
    for (size_t at = 0; at < n; at += VIEW_CHUNK) {
        uint64_t bitmap[VIEW_WORDS];
        const size_t here = n - at < VIEW_CHUNK ? n - at : VIEW_CHUNK;
        found += view_has_chunk(view, keys, at, here, bitmap);
        if (maybe) {
            memcpy(maybe + at / 64, bitmap, BG_BITMAP_WORDS(here) * sizeof *bitmap);
        }
    }
    return found;
}

/* Adds a chunk of keys to one member, and sets bits in `held` for the keys that the member may
 * already have contained. If a key does not fit, lowers *n to the number of keys before it. */
static bg_err view_insert_chunk(const struct view_member *member,
                                const uint64_t *hashes, size_t *n,
                                uint64_t held[VIEW_WORDS])
{
    const bool fills =
        bg_kind_traits(bg_filter_kind(member->filter)) & BG_TRAIT_FILLS_UP;
    uint64_t is_new[VIEW_WORDS] = { 0 };
    bg_err err = BG_OK;
    size_t i = 0;
    if (!fills && *n == 1) {
        bool one = false;
        err = bg_filter_add_hash(member->filter, hashes[0], &one);
        is_new[0] = one;
    } else if (!fills) {
        err = bg_filter_add_many(member->filter, bg_keys_hashes(hashes, *n), is_new,
                                 NULL, NULL);
    }
    for (; fills && i < *n && !err; i++) {
        bool one = false;
        err = view_insert(member, hashes[i], &one);
        is_new[i / 64] |= (uint64_t)one << i % 64;
    }
    *n = !err ? *n : fills ? i - 1 : 0;
    for (size_t w = 0; member->queried && w < VIEW_WORDS; w++) {
        held[w] |= ~is_new[w];
    }
    return err;
}

/* Queries a member that accepts no adds. Sets bits in `seen` for the keys of a chunk that the
 * member may contain, or for all keys if the member cannot use the caller's hashes. */
static void view_query_chunk(const struct view_member *member, bg_keys keys,
                             const uint64_t *hashes, size_t n,
                             uint64_t seen[VIEW_WORDS])
{
    uint64_t one[VIEW_WORDS];
    if (view_can_use(member, keys)) {
        (void)bg_filter_may_contain_many(member->filter, bg_keys_hashes(hashes, n),
                                         one);
    } else {
        (void)view_all_maybe(n, one);
    }
    for (size_t w = 0; w < BG_BITMAP_WORDS(n); w++) {
        seen[w] |= one[w];
    }
}

static bg_err view_add_chunk(const struct view *view, bg_keys keys, size_t at, size_t n,
                             uint64_t *is_new, size_t *done, struct view_news *news)
{
    uint64_t room[VIEW_CHUNK], seen[VIEW_WORDS] = { 0 }, held[VIEW_WORDS] = { 0 };
    bg_err err = BG_OK;
    for (size_t i = 0; i < view->count; i++) {
        const struct view_member *member = &view->members[i];
        const uint64_t *hashes = view_hash_chunk(view, i, keys, at, n, room);
        if (member->takes) {
            bg_err here = view_insert_chunk(member, hashes, &n, held);
            err = err ? err : here;
        } else {
            view_query_chunk(member, keys, hashes, n, seen);
        }
    }
    if (!view->based) {
        (void)view_all_maybe(n, seen);
    }
    for (size_t w = 0; w < BG_BITMAP_WORDS(n); w++) {
        const uint64_t fresh = ~held[w] & view_ones_of(n, w);
        news->takers += bgi_popcount64(fresh);
        news->all += bgi_popcount64(fresh & ~seen[w]);
        if (is_new) {
            is_new[w] = fresh & ~seen[w];
        }
    }
    *done += n;
    return err;
}

bg_err view_add_many(const struct view *view, bg_keys keys, uint64_t *is_new,
                     size_t *done, struct view_news *news)
{
    const size_t n = keys.count;
    bg_err err = !view->takes                     ? BG_ENOTSUP
                 : !view_all_can_take(view, keys) ? BG_EINCOMPAT
                                                  : BG_OK;
    *done = 0;
    *news = (struct view_news){ 0, 0 };
    if (is_new) {
        memset(is_new, 0, BG_BITMAP_WORDS(n) * sizeof *is_new);
    }
    for (size_t at = 0; at < n && !err; at += VIEW_CHUNK) {
        const size_t here = n - at < VIEW_CHUNK ? n - at : VIEW_CHUNK;
        err = view_add_chunk(view, keys, at, here, is_new ? is_new + at / 64 : NULL,
                             done, news);
    }
    return err;
}
