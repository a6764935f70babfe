/*
 * object_keys.c - applies and records adds, removes and window moves, and replays recorded changes.
 *
 * Objects that are bit arrays need no lock. Their adds are recorded first and then applied, since
 * adds can be replayed repeatedly and in any order. For all other objects, `writing` is held during
 * both steps, and adds are applied first and then recorded. These filters can be full, and adds
 * that they reject must neither be replayed nor fill the journal. Other adds cannot observe this
 * order, because an add of the same key waits for the lock. If recording fails, the add is undone
 * where the kind of filter supports it; otherwise the filter may contain a key that was not
 * recorded.
 *
 * Removes and window moves are recorded first. Conditions that would cause a remove to be rejected,
 * such as a rebuild in progress, are checked beforehand.
 */
#include "object.h"

#include "ledger.h"

#include <math.h>
#include <string.h>

/* Fails if the object never accepts adds. Does not check whether the content is known. */
static bg_err object_takes(const struct object *object, bg_errinfo *info)
{
    if (object->shape.sealed
        || bg_kind_traits((bg_kind)object->shape.kind) & BG_TRAIT_STATIC) {
        return error_fail(info, BG_ENOTSUP,
                          "the filter does not accept adds: its content is loaded "
                          "from files");
    }
    return BG_OK;
}

/* ---- Adds --------------------------------------------------------------------------------- */

/* A batch of keys to be added to an object. */
struct adding {
    struct object *object;
    struct host *host;
    const bg_bytes *keys;
    size_t n;
    uint64_t *is_new;
    size_t *done;
    uint64_t check;
    uint64_t
        hashes[OBJECT_BATCH];     /* of all keys; later, only of the keys to be added */
    uint16_t which[OBJECT_BATCH]; /* positions in the batch of the keys to be added */
    uint64_t seen[BG_BITMAP_WORDS(OBJECT_BATCH)]; /* keys that are already present */
    size_t fresh;                                 /* number of keys to be added */
    uint64_t capacity; /* of the filters that are queried, when the keys were probed */
};

/* Does not clear the arrays: they are written before they are read, and clearing them costs more
 * than adding a key. */
static void adding_init(struct adding *a, struct object *object, struct host *host,
                        uint64_t *is_new, size_t *done)
{
    a->object = object;
    a->host = host;
    a->keys = NULL;
    a->n = 0;
    a->is_new = is_new;
    a->done = done;
    a->check = 0;
    a->fresh = 0;
    *done = 0;
}

static bool adding_bit(const uint64_t *bits, size_t i)
{
    return bits[i / 64] >> i % 64 & 1;
}

/* Returns the base of a pinned slot, and sets the capacity. */
static const bg_filter *adding_base(struct adding *a, const bg_pin *pin)
{
    const bg_filter *base = NULL, *filter = NULL;
    bg_role role = BG_ROLE_BASE;
    a->capacity = 0;
    for (size_t i = 0; (filter = bg_pin_filter(pin, i, &role)) != NULL; i++) {
        base = role == BG_ROLE_BASE ? filter : base;
        a->capacity += role == BG_ROLE_NEXT ? 0 : bg_filter_capacity(filter);
    }
    return base;
}

/*
 * Finds the keys that the filter does not contain yet. Only these keys need to be recorded and
 * added, except in the cases described in object.h. If there are several filters in the slot, a key
 * that is in one filter may be missing from another filter that accepts adds, so all keys are
 * recorded and added. The probe bypasses the slot's counters, since it is not a user's query.
 */
static void adding_probe(struct adding *a)
{
    bg_pin pin;
    memset(a->seen, 0, sizeof a->seen);
    bg_slot_pin(a->object->slot, &pin);
    const bg_filter *base = adding_base(a, &pin);
    if (base && bg_hasher_check(bg_filter_hasher(base)) == a->check) {
        if (a->n == 1) {
            a->seen[0] = bg_filter_may_contain_hash(base, a->hashes[0]);
        } else {
            (void)bg_filter_may_contain_many(base, bg_keys_hashes(a->hashes, a->n),
                                             a->seen);
        }
    }
    const bool alone = !bg_pin_filter(&pin, 1, NULL);
    bg_slot_unpin(a->object->slot, &pin);
    atomic_thread_fence(memory_order_seq_cst); /* see object_changing */
    const bool lasting =
        alone && (a->object->shape.kind != BG_KIND_SCALABLE || a->host->ordered)
        && object_is_kept(a->object);
    a->fresh = 0;
    for (size_t i = 0; i < a->n; i++) {
        if (!lasting || !adding_bit(a->seen, i)) {
            a->hashes[a->fresh] = a->hashes[i];
            a->which[a->fresh++] = (uint16_t)i;
        }
    }
}

/* If the filter must not grow, truncates the batch before the first new item that exceeds the
 * capacity, and returns BG_EFULL. Replays are exempt, because concurrent adds may have exceeded the
 * capacity and succeeded. */
static bg_err adding_limit(struct adding *a)
{
    if (!a->object->shape.nonscaling || !a->host->settings) {
        return BG_OK;
    }
    const uint64_t items = atomic_load(&a->object->items);
    const uint64_t capacity = object_capacity(a->object);
    uint64_t room = items < capacity ? capacity - items : 0;
    for (size_t i = 0; capacity && i < a->fresh; i++) {
        if (adding_bit(a->seen, a->which[i])) {
            continue;
        }
        if (room == 0) {
            *a->done = a->which[i];
            a->fresh = i;
            atomic_fetch_add(&a->object->refused, 1);
            return BG_EFULL;
        }
        room--;
    }
    return BG_OK;
}

static bool adding_any_is_new(const struct adding *a)
{
    size_t i = 0;
    while (i < a->fresh && adding_bit(a->seen, a->which[i])) {
        i++;
    }
    return i < a->fresh;
}

enum { OBJECT_LARGE_PAGE = 2 << 20 }; /* large layers occupy whole pages of this size */

/* Returns whether there is enough memory for a layer. If the host has no `room` function, this is
 * checked only for a layer that is `needed` now, because the library retries later if it cannot
 * allocate any other layer. */
static bool adding_fits(const struct adding *a, uint64_t bytes, bool needed)
{
    bool (*room)(struct host * host, uint64_t bytes) = a->host->ops->room;
    if (room) {
        return room(a->host, bytes);
    }
    if (needed && !ledger_reserve(LEDGER_FILTERS, bytes)) {
        return false;
    }
    ledger_release(LEDGER_FILTERS, needed ? bytes : 0);
    return true;
}

/* Estimates the size of the next layer in bytes. Each layer is `width` times as large as the
 * previous layer. */
static uint64_t adding_next_layer(const struct object *object, uint64_t width)
{
    const double bytes = (double)object_bytes(object), layers = object_layers(object);
    const double power = pow((double)width, layers);
    const double share = width > 1    ? power * (double)(width - 1) / (power - 1)
                         : layers > 0 ? 1 / layers
                                      : 1;
    const double next = 1.25 * bytes * share;
    return next < 0x1p62 ? (uint64_t)next : UINT64_C(1) << 62;
}

/*
 * In the library, adds to a scalable filter do not fail: a filter that cannot grow accepts more
 * keys than it was created for, and its rate rises without bound. Here, adds fail when the filter
 * is a sixteenth over its capacity (by then, the library has tried twice to grow) and the next
 * layer would not fit. If the layer would fit, adds continue, and the library soon tries again. If
 * the host provides `room`, that function is called before the library first tries to grow. If the
 * filter came from another server, the library does not enforce this server's limit, so a layer
 * that definitely exceeds the limit is also refused in advance. Small layers are not refused
 * individually, and a sharded filter has many of them, so adds also fail as soon as all memory is
 * used up.
 */
static bg_err adding_growth(const struct adding *a, bg_errinfo *info)
{
    const struct object_shape *shape = &a->object->shape;
    const struct command_settings *settings = a->host->settings;
    const bool obeys = !settings /* the change comes from a primary or a file */
                       || (a->host->ops->room && !settings->max_filter_bytes);
    if (shape->kind != BG_KIND_SCALABLE || obeys) {
        return BG_OK;
    }
    const uint64_t items = atomic_load(&a->object->items);
    const bool full = ledger_is_full(); /* since the command started */
    if ((!full && items + a->fresh <= a->capacity) || !adding_any_is_new(a)) {
        return BG_OK;
    }
    /* another thread may have added a layer in the meantime */
    const uint64_t capacity = object_capacity(a->object);
    const bool grows = items + a->fresh > capacity;
    if (!full && !grows) {
        return BG_OK;
    }
    const bool over = items > capacity + capacity / 16 + 64;
    const uint64_t width = shape->width ? shape->width : 2;
    const uint64_t bytes = object_bytes(a->object), least = bytes * (width - 1),
                   more = least / 4 * 5;
    const uint64_t page = more >= OBJECT_LARGE_PAGE / 2 ? OBJECT_LARGE_PAGE : 0;
    const uint64_t most = shape->limit ? shape->limit : settings->max_filter_bytes;
    if (grows && most && (over ? more : least) > (most > bytes ? most - bytes : 0)) {
        return error_fail(
            info, BG_ENOMEM,
            "the filter is full and cannot grow: a larger filter would exceed the "
            "limit of %llu bytes",
            (unsigned long long)most);
    }
    const uint64_t next =
        a->host->ops->room ? adding_next_layer(a->object, width) : more;
    if (!adding_fits(a, next + page, over || full)) {
        return error_fail(info, BG_ENOMEM,
                          "the filter is full and cannot grow: out of memory");
    }
    return BG_OK;
}

static bg_err adding_record(struct adding *a, const uint64_t *hashes,
                            const bg_bytes *keys, size_t n, bg_errinfo *info)
{
    const struct change change = {
        .op = CHANGE_ADD, .n = n, .hashes = hashes, .keys = keys
    };
    return n ? a->host->ops->record(a->host, a->object, &change, info) : BG_OK;
}

/* Sets the bits in a->is_new for new keys, at their positions in the whole batch, and adds their
 * number to the object's item count. */
static void adding_tell(struct adding *a, const uint64_t *is_new, size_t n)
{
    uint64_t news = 0;
    for (size_t i = 0; i < n; i++) {
        if (adding_bit(is_new, i)) {
            a->is_new[a->which[i] / 64] |= UINT64_C(1) << a->which[i] % 64;
            news++;
        }
    }
    if (news) {
        atomic_fetch_add_explicit(&a->object->items, news, memory_order_relaxed);
    }
}

/* Adds keys to bit arrays, without a lock. Keys that are already present are not recorded.
 * Errors: BG_EINCOMPAT if the slot's hash has changed in the meantime, in which case the caller
 * retries. */
static bg_err adding_bits(struct adding *a, bg_errinfo *info)
{
    uint64_t is_new[BG_BITMAP_WORDS(OBJECT_BATCH)] = { 0 };
    size_t in = 0;
    adding_probe(a);
    *a->done = a->n;
    const bg_err full = adding_limit(a);
    bg_err err = adding_growth(a, info);
    if (err) {
        atomic_fetch_add(&a->object->refused, 1);
    }
    err = err ? err : adding_record(a, a->hashes, NULL, a->fresh, info);
    if (!err && a->fresh) {
        err = bg_slot_add_many(a->object->slot,
                               bg_keys_hashes_of(a->hashes, a->fresh, a->check), is_new,
                               &in, NULL);
    }
    if (err) {
        *a->done = 0;
        return err;
    }
    adding_tell(a, is_new, a->fresh);
    return full;
}

/* The maximum false-positive rate that a CF may reach by growing, unless a higher rate was
 * requested. */
static const double object_rate_most = 0.03;

/* Returns whether a CF would stay within its maximum rate if it doubled and filled up again. A
 * filter with 2^q slots stores q + r bits of each hash. This sum is constant, so doubling reduces r
 * by one. A full filter has a load of 0.95, and its rate is 0.95 * 2^-r. */
static bool object_may_double(const struct object *object, const bg_filter *filter)
{
    const double most =
        object->shape.rate > object_rate_most ? object->shape.rate : object_rate_most;
    bg_filter_info about = { .struct_size = sizeof about };
    return bg_filter_sample_info(filter, 1, &about) == BG_OK && about.k > 2
           && ldexp(0.95, 1 - (int)about.k) <= most;
}

static bg_err object_double(struct object *object, bg_filter **larger, bg_errinfo *info)
{
    bg_pin pin;
    bg_err err = BG_EFULL;
    bg_slot_pin(object->slot, &pin);
    const bg_filter *base = object_base(&pin);
    if (object_may_double(object, base)) {
        err = bg_filter_resize(base, 1, larger, info);
        err = err == BG_EINVAL ? BG_EFULL : err;
    }
    bg_slot_unpin(object->slot, &pin);
    return err;
}

bg_err object_grow(struct object *object, const struct host *host, bg_errinfo *info)
{
    const struct object_shape *shape = &object->shape;
    bg_filter *larger = NULL;
    if (shape->family != OBJECT_CF || shape->expansion == 0) {
        return error_fail(info, BG_EFULL,
                          "the filter has reached its capacity and cannot grow");
    }
    uint64_t most = host->settings ? host->settings->max_filter_bytes : 0;
    most = host->settings && shape->limit ? shape->limit : most;
    if (most && object_bytes(object) > most / 2) {
        return error_fail(info, BG_ENOMEM,
                          "the filter is full and cannot grow: doubling it would "
                          "exceed the limit of %llu bytes",
                          (unsigned long long)most);
    }
    bg_err err = BG_EFULL;
    if (!object->outgrown && atomic_load(&object->expansions) < shape->max_expansions) {
        object_occupy(object);
        err = object_double(object, &larger, info);
        object->outgrown = err == BG_EFULL; /* avoids retrying for every item */
        err = err ? err : bg_slot_swap(object->slot, larger, 0, BG_SLOT_DISCARD, info);
        if (err) {
            bg_filter_free(larger);
        }
        object_vacate(object);
    }
    if (!err) {
        atomic_fetch_add(&object->expansions, 1);
    }
    return err == BG_EFULL
               ? error_fail(info, err,
                            "the filter has reached its capacity and cannot grow "
                            "any further")
               : err;
}

/* Returns whether the object's kind can remove keys. */
static bool object_counts(const struct object *object)
{
    return bg_kind_traits((bg_kind)object->shape.kind) & BG_TRAIT_REMOVE;
}

/* Returns how many of the added keys count as items: all of them if the kind can remove keys, and
 * only the new keys otherwise. */
static uint64_t adding_counts(const struct adding *a)
{
    uint64_t news = 0;
    if (object_counts(a->object)) {
        return *a->done;
    }
    for (size_t i = 0; i < *a->done; i++) {
        news += adding_bit(a->is_new, i);
    }
    return news;
}

/* Adds keys in order, up to the first key that does not fit, and grows the filter if allowed. */
static bg_err adding_do(struct adding *a, bg_errinfo *info)
{
    bg_err err = BG_OK;
    while (!err && *a->done < a->n) {
        uint64_t is_new[BG_BITMAP_WORDS(OBJECT_BATCH)] = { 0 };
        size_t in = 0;
        err = bg_slot_add_many(
            a->object->slot,
            bg_keys_hashes_of(a->hashes + *a->done, a->n - *a->done, a->check), is_new,
            &in, NULL);
        for (size_t i = 0; i < in; i++) {
            if (adding_bit(is_new, i)) {
                a->is_new[(*a->done + i) / 64] |= UINT64_C(1) << (*a->done + i) % 64;
            }
        }
        *a->done += in;
        if (err == BG_EFULL) {
            err = object_grow(a->object, a->host, info);
        }
    }
    return err;
}

/* Removes keys that were added but could not be recorded. */
static void adding_undo(struct adding *a)
{
    for (size_t i = 0; i < *a->done; i++) {
        (void)bg_slot_remove_hash(a->object->slot, a->hashes[i], a->check);
    }
    *a->done = 0;
}

/* Adds keys to objects that are not bit arrays. The caller holds `writing` while the adds are
 * applied and recorded. */
static bg_err adding_in_order(struct adding *a, bg_errinfo *info)
{
    const bg_err err = adding_do(a, info);
    bg_errinfo why = { 0 };
    const bg_err unrecorded = adding_record(a, a->hashes, NULL, *a->done, &why);
    if (unrecorded) {
        adding_undo(a);
        *info = why;
        return unrecorded;
    }
    atomic_fetch_add_explicit(&a->object->items, adding_counts(a),
                              memory_order_relaxed);
    return err;
}

/* Records keys instead of hashes while filters with different hashes share the slot. This function
 * is called only for bit arrays, so it is safe to record the keys first. */
static bg_err adding_keys(struct adding *a, bg_errinfo *info)
{
    bg_err err = adding_record(a, NULL, a->keys, a->n, info);
    for (size_t i = 0; !err && i < a->n; i++) {
        bool is_new = false;
        err = bg_slot_add(a->object->slot, a->keys[i].data, a->keys[i].len, &is_new);
        if (!err) {
            a->is_new[i / 64] |= (uint64_t)is_new << i % 64;
            *a->done = i + 1;
        }
    }
    atomic_fetch_add_explicit(&a->object->items, adding_counts(a),
                              memory_order_relaxed);
    return err;
}

/* Removes keys that were added but could not be recorded, where the format supports it. */
static void adding_undo_foreign(struct adding *a)
{
    bg_err err = BG_OK;
    pthread_rwlock_wrlock(&a->object->foreign_lock);
    for (size_t i = 0; !err && i < *a->done; i++) {
        err = bg_foreign_remove(a->object->foreign, a->keys[i].data, a->keys[i].len,
                                NULL);
    }
    pthread_rwlock_unlock(&a->object->foreign_lock);
    *a->done = 0;
}

/* Adds keys to a foreign filter, which has its own hash and lock. */
static bg_err adding_foreign(struct adding *a, bg_errinfo *info)
{
    struct object *object = a->object;
    const bool counts = object_counts(object);
    bg_bytes changed[OBJECT_BATCH];
    size_t n = 0;
    bg_err err = BG_OK;
    pthread_rwlock_wrlock(&object->foreign_lock);
    for (size_t i = 0; !err && i < a->n; i++) {
        const bg_bytes key = a->keys[i];
        const bool there = bg_foreign_may_contain(object->foreign, key.data, key.len);
        if (counts || !there) {
            err = bg_foreign_add(object->foreign, key.data, key.len, info);
            a->is_new[i / 64] |= (uint64_t)(!err && !there) << i % 64;
            changed[n] = key;
            n += err == BG_OK;
        }
        *a->done += err == BG_OK;
    }
    pthread_rwlock_unlock(&object->foreign_lock);
    if (err) {
        atomic_fetch_add(&object->refused, 1);
    }
    bg_errinfo why = { 0 };
    const bg_err unrecorded = adding_record(a, NULL, changed, n, &why);
    if (unrecorded && counts) {
        adding_undo_foreign(a);
    }
    atomic_fetch_add_explicit(&object->items, adding_counts(a), memory_order_relaxed);
    if (unrecorded) {
        *a->done = 0;
        *info = why;
    }
    return unrecorded ? unrecorded : err;
}

static bg_err adding_once(struct adding *a, bg_errinfo *info)
{
    *a->done = 0;
    memset(a->is_new, 0, BG_BITMAP_WORDS(a->n) * sizeof *a->is_new);
    if (a->object->foreign) {
        return adding_foreign(a, info);
    }
    const bg_err err = bg_slot_hash_many(a->object->slot, bg_keys_bytes(a->keys, a->n),
                                         a->hashes, &a->check);
    if (err == BG_EINCOMPAT) {
        return adding_keys(a, info);
    }
    if (err) {
        return err == BG_ENOTFOUND ? object_unavailable(a->object, info) : err;
    }
    return a->object->commutes ? adding_bits(a, info) : adding_in_order(a, info);
}

/* Adds the batch, and retries if the slot's hash changes. The caller holds `writing`, unless the
 * object is a bit array. */
static bg_err adding_try(struct adding *a, bg_errinfo *info)
{
    bg_err err = BG_EINCOMPAT;
    for (int tries = 0; err == BG_EINCOMPAT && tries < 100; tries++) {
        err = adding_once(a, info);
    }
    return err;
}

/* Notes whether the filter is full. Adding keys that are already present proves nothing. */
static void adding_note(const struct adding *a, bg_err err)
{
    _Atomic bool *stuck = &a->object->stuck;
    if (err == BG_EFULL || err == BG_ENOMEM) {
        atomic_store(stuck, true);
    } else if (!err && atomic_load_explicit(stuck, memory_order_relaxed)
               && adding_counts(a) > 0) {
        atomic_store(stuck, false);
    }
}

/* Adds the keys, and counts the added keys. */
static bg_err adding_all(struct adding *a, bg_errinfo *info)
{
    const bg_err err = adding_try(a, info);
    adding_note(a, err);
    (void)__atomic_fetch_add(&a->host->added, *a->done, __ATOMIC_RELAXED);
    return err;
}

bg_err object_add_many(struct object *object, struct host *host, const bg_bytes *keys,
                       size_t n, uint64_t *is_new, size_t *done, bg_errinfo *info)
{
    struct adding a;
    adding_init(&a, object, host, is_new, done);
    a.keys = keys;
    a.n = n;
    bg_err err = object_takes(object, info);
    err = err ? err : object_tick(object, host, info);
    if (err || object->commutes) {
        return err ? err : adding_all(&a, info);
    }
    pthread_mutex_lock(&object->writing);
    err = adding_all(&a, info);
    pthread_mutex_unlock(&object->writing);
    return err;
}

bg_err object_add_absent(struct object *object, struct host *host, bg_bytes key,
                         bool *added, bg_errinfo *info)
{
    uint64_t is_new = 0;
    size_t done = 0;
    struct adding a;
    adding_init(&a, object, host, &is_new, &done);
    a.keys = &key;
    a.n = 1;
    *added = false;
    bg_err err = object_takes(object, info);
    if (err) {
        return err;
    }
    pthread_mutex_lock(&object->writing);
    if (!object_is_whole(object)) {
        err = object_unavailable(object, info);
    } else {
        const bool there = object_probe(object, key) > 0;
        /* Adding a key twice is safer than losing it. */
        if (!there || !object_is_kept(object)) {
            err = adding_all(&a, info);
        }
        *added = !err && !there;
    }
    pthread_mutex_unlock(&object->writing);
    return err;
}

/* ---- Other changes ------------------------------------------------------------------------- */

/* Returns an error if keys cannot currently be removed from the object, for example during a
 * rebuild. The caller holds `writing`. */
static bg_err object_may_remove(const struct object *object, bg_errinfo *info)
{
    bg_pin pin;
    bool known = object->foreign != NULL, alone = known;
    if (object->slot) {
        bg_slot_pin(object->slot, &pin);
        known = bg_pin_filter(&pin, 0, NULL) != NULL;
        alone = bg_pin_filter(&pin, 1, NULL) == NULL;
        bg_slot_unpin(object->slot, &pin);
        if (!known) {
            return object_unavailable(object, info);
        }
    }
    if (!known || !object_counts(object)) {
        return error_fail(info, BG_ENOTSUP, "this kind of filter cannot delete items");
    }
    const bg_err err = object_takes(object, info);
    if (!err && !alone) {
        return error_fail(
            info, BG_EBUSY,
            "cannot delete items while the filter is being rebuilt: commit or abort "
            "the rebuild first");
    }
    if (!err && !object_is_kept(object)) {
        return error_fail(
            info, BG_EBUSY,
            "cannot delete items while the filter is being saved: try again");
    }
    return err;
}

/* Records the key rather than its hash, because a foreign filter uses its own hash function. */
static bg_err object_remove_foreign(struct object *object, struct host *host,
                                    bg_bytes key, bg_errinfo *info)
{
    const struct change change = { .op = CHANGE_REMOVE, .n = 1, .keys = &key };
    bg_err err = host->ops->record(host, object, &change, info);
    if (!err) {
        pthread_rwlock_wrlock(&object->foreign_lock);
        err = bg_foreign_remove(object->foreign, key.data, key.len, info);
        pthread_rwlock_unlock(&object->foreign_lock);
    }
    return err;
}

static bg_err object_remove_within(struct object *object, struct host *host,
                                   bg_bytes key, uint64_t count, bg_errinfo *info)
{
    uint64_t hash = 0, check = 0;
    bg_err err = object_may_remove(object, info);
    if (!err && object->slot) {
        err = bg_slot_hash_many(object->slot, bg_keys_bytes(&key, 1), &hash, &check);
    }
    if (err) {
        return err;
    }
    const uint64_t there = object_probe(object, key);
    if (there == 0 || (count != 0 && there != count)) {
        return BG_ENOTFOUND;
    }
    if (object->foreign) {
        return object_remove_foreign(object, host, key, info);
    }
    const struct change change = { .op = CHANGE_REMOVE, .n = 1, .hashes = &hash };
    err = host->ops->record(host, object, &change, info);
    return err ? err : bg_slot_remove_hash(object->slot, hash, check);
}

bg_err object_remove(struct object *object, struct host *host, bg_bytes key,
                     uint64_t count, bg_errinfo *info)
{
    pthread_mutex_lock(&object->writing);
    const bg_err err = object_remove_within(object, host, key, count, info);
    if (!err) {
        atomic_fetch_add_explicit(&object->deleted, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&object->writing);
    return err;
}

/* Returns the length of a window's periods, computed as in the library, or 0 if the window is moved
 * manually or by adds. */
static uint64_t object_period(const struct object_shape *shape)
{
    const uint64_t parts =
        shape->window_generations > 1 ? shape->window_generations - 1 : 7;
    return shape->kind == BG_KIND_WINDOW
               ? shape->window_length / parts + (shape->window_length % parts != 0)
               : 0;
}

/*
 * A window's time starts at the current wall-clock time and then advances with the host's ticks,
 * because setting the wall clock forward must not empty windows, and setting it back must not stop
 * them. The window's time is recorded with every move. After a restart, or after another host has
 * moved the window, the window's time resumes from its last recorded value as soon as this host
 * reads its ticks. Time that passes while no host is measuring it does not count. A move is
 * recorded at least OBJECT_STEPS times per period, so very little measured time is lost.
 * object_time returns 0 if the window's time is stopped because another host moves the window. Keys
 * are then added at the other host's time, and the time that this host has measured is discarded.
 */
enum { OBJECT_STEPS = 8 };

static uint64_t object_time(struct object *object, struct host *host)
{
    const uint64_t ticks = host->ops->ticks ? host->ops->ticks(host) : 0;
    if (!ticks) {
        atomic_store(&object->timed, false);
        return 0;
    }
    if (!atomic_load_explicit(&object->timed, memory_order_acquire)) {
        pthread_mutex_lock(&object->writing);
        if (!atomic_load(&object->timed)) {
            const uint64_t last = atomic_load(&object->rotated);
            atomic_store(&object->ahead, (last ? last : host->ops->now(host)) - ticks);
            atomic_store_explicit(&object->timed, true, memory_order_release);
        }
        pthread_mutex_unlock(&object->writing);
    }
    return ticks + atomic_load(&object->ahead);
}

/* Returns whether the window is due to move: a new period has started, or a significant part of a
 * period has passed. Periods start at multiples of their length. The first move is always due,
 * because it records the position of the window. */
static bool object_would_move(const struct object *object, uint64_t now)
{
    const uint64_t period = object_period(&object->shape),
                   last = atomic_load(&object->rotated);
    return !period || !last
           || (now > last
               && (now / period > last / period || now - last > period / OBJECT_STEPS));
}

bool object_will_move(const struct object *object, struct host *host)
{
    const uint64_t ticks = host->ops->ticks ? host->ops->ticks(host) : 0;
    if (!object_period(&object->shape) || !ticks) {
        return false;
    }
    return !atomic_load_explicit(&object->timed, memory_order_acquire)
           || object_would_move(object, ticks + atomic_load(&object->ahead));
}

static bg_err object_move(struct object *object, struct host *host, uint64_t now,
                          bg_errinfo *info)
{
    const struct change change = { .op = CHANGE_ROTATE, .value = now };
    bg_err err = BG_OK;
    object_occupy(object);
    if (object_would_move(object, now)) {
        err = host->ops->record(host, object, &change, info);
        if (!err) {
            err = bg_slot_rotate(object->slot, now, info);
        }
        if (!err) {
            atomic_store(&object->rotated, now);
        }
    }
    object_vacate(object);
    return err;
}

bg_err object_rotate(struct object *object, struct host *host, bg_errinfo *info)
{
    if (!object->slot || object->shape.kind != BG_KIND_WINDOW) {
        return error_fail(info, BG_ENOTSUP, "the filter is not a window");
    }
    bg_err err = object_takes(object, info);
    if (!err && !object_is_whole(object)) {
        err = object_unavailable(object, info);
    }
    if (err) {
        return err;
    }
    const bool timed = object_period(&object->shape) != 0;
    const uint64_t now = timed ? object_time(object, host) : host->ops->now(host);
    return timed && !now ? BG_OK : object_move(object, host, now, info);
}

bg_err object_tick(struct object *object, struct host *host, bg_errinfo *info)
{
    const uint64_t now = object_period(&object->shape) ? object_time(object, host) : 0;
    return now && object_would_move(object, now) ? object_rotate(object, host, info)
                                                 : BG_OK;
}

void object_position(struct object *object)
{
    const uint64_t moved = atomic_load(&object->rotated);
    if (moved && object->slot && object_period(&object->shape)) {
        /* This call fails for sealed filters, which do not move. */
        (void)!bg_slot_rotate(object->slot, moved, NULL);
    }
}

void object_resume(struct object *object, uint64_t moved)
{
    atomic_store(&object->rotated, moved);
    atomic_store(&object->timed, false);
    object_position(object);
}

/* ---- Replay --------------------------------------------------------------------------------- */

/* The `record` function for replays: the changes have already been recorded. */
static bg_err replay_record(struct host *host, struct object *object,
                            const struct change *change, bg_errinfo *info)
{
    (void)host;
    (void)object;
    (void)change;
    (void)info;
    return BG_OK;
}

static bg_err replay_add(struct object *object, const struct change *change,
                         bg_errinfo *info)
{
    static const struct host_ops ops = { .record = replay_record };
    struct host host = { .ops = &ops };
    uint64_t is_new[BG_BITMAP_WORDS(OBJECT_BATCH)];
    bg_err err = BG_OK;
    for (size_t at = 0; !err && at < change->n;) {
        const size_t n = change->n - at < OBJECT_BATCH ? change->n - at : OBJECT_BATCH;
        size_t done = 0;
        if (change->keys) {
            err = object_add_many(object, &host, change->keys + at, n, is_new, &done,
                                  info);
        } else {
            struct adding a;
            adding_init(&a, object, &host, is_new, &done);
            a.n = n;
            memset(is_new, 0, sizeof is_new);
            memcpy(a.hashes, change->hashes + at, n * sizeof *a.hashes);
            err =
                bg_slot_hash_many(object->slot, bg_keys_bytes(NULL, 0), NULL, &a.check);
            if (!err) {
                err = object->commutes ? adding_bits(&a, info)
                                       : adding_in_order(&a, info);
            }
        }
        at += n;
    }
    return err;
}

static bg_err replay_remove_foreign(struct object *object, const struct change *change)
{
    bg_err err = BG_OK;
    pthread_rwlock_wrlock(&object->foreign_lock);
    for (size_t i = 0; !err && i < change->n; i++) {
        err = bg_foreign_remove(object->foreign, change->keys[i].data,
                                change->keys[i].len, NULL);
        if (!err) {
            atomic_fetch_add(&object->deleted, 1);
        }
        err = err == BG_ENOTFOUND ? BG_OK : err;
    }
    pthread_rwlock_unlock(&object->foreign_lock);
    return err;
}

bg_err object_apply(struct object *object, const struct change *change,
                    bg_errinfo *info)
{
    uint64_t check = 0;
    bg_err err = BG_OK;
    if (!object_is_whole(object)) { /* the object answers "maybe" anyway */
        return BG_OK;
    }
    if (!object->slot && (!change->keys || change->op == CHANGE_ROTATE)) {
        return error_fail(
            info, BG_EFORMAT,
            "a record for an imported filter can only add or remove keys");
    }
    if (!object->slot && change->op == CHANGE_REMOVE) {
        return replay_remove_foreign(object, change);
    }
    if (change->op == CHANGE_REMOVE && !change->hashes) {
        return error_fail(info, BG_EFORMAT, "a remove record has no hash");
    }
    atomic_store(&object->timed, false); /* see object_time */
    switch (change->op) {
    case CHANGE_ADD: return replay_add(object, change, info);
    case CHANGE_ROTATE:
        atomic_store(&object->rotated, change->value);
        return bg_slot_rotate(object->slot, change->value, info);
    case CHANGE_REMOVE:
        err = bg_slot_hash_many(object->slot, bg_keys_bytes(NULL, 0), NULL, &check);
        for (size_t i = 0; !err && i < change->n; i++) {
            err = bg_slot_remove_hash(object->slot, change->hashes[i], check);
            if (err == BG_ENOTFOUND) {
                err = BG_OK;
            } else if (!err) {
                atomic_fetch_add(&object->deleted, 1);
            }
        }
        return err;
    }
    return BG_EFORMAT;
}
