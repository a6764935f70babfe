/* object.c - making objects, and what can be done to their keys. See object.h. */
#include "object.h"

#include <stdlib.h>
#include <string.h>

/* ---- Life -------------------------------------------------------------------------------- */

static bool object_commutes(bg_kind kind)
{
    return !(bg_kind_traits(kind) & (BG_CAN_REMOVE | BG_CAN_FILL_UP))
           && kind != BG_KIND_WINDOW;
}

static bg_err object_no_memory(bg_errinfo *info)
{
    if (info) {
        *info = (bg_errinfo){ .code = BG_ENOMEM, .message = "out of memory" };
    }
    return BG_ENOMEM;
}

bg_err object_adopt(const struct object_shape *shape, bg_filter *filter,
                    bg_foreign *foreign, struct object **object, bg_errinfo *info)
{
    struct object *made = calloc(1, sizeof *made);
    *object = NULL;
    if (!made) {
        return object_no_memory(info);
    }
    made->shape = *shape;
    if (filter) {
        const bg_err err = bg_slot_create(filter, NULL, &made->slot, info);
        if (err) {
            free(made);
            return err;
        }
        made->commutes = object_commutes(bg_filter_kind(filter));
    }
    made->foreign = foreign;
    made->born_full = true;
    pthread_rwlock_init(&made->foreign_lock, NULL);
    pthread_mutex_init(&made->writing, NULL);
    *object = made;
    return BG_OK;
}

bg_err object_adopt_nothing(const struct object_shape *shape, struct object **object,
                            bg_errinfo *info)
{
    bg_err err = object_adopt(shape, NULL, NULL, object, info);
    if (!err) {
        err = bg_slot_create(NULL, NULL, &(*object)->slot, info);
        if (err) {
            object_free(*object);
            *object = NULL;
        }
    }
    return err;
}

bg_err object_create(const struct object_shape *shape,
                     const struct command_settings *settings, struct object **object,
                     bg_errinfo *info)
{
    bg_window_options window;
    bg_spec spec;
    bg_filter *filter = NULL;
    *object = NULL;
    object_shape_spec(shape, &window, &spec);
    spec.max_bytes = settings->max_filter_bytes;
    bg_err err = object_hash_spec(shape, settings, &spec.hash, info);
    if (!err) {
        err = bg_filter_create(&spec, &filter, info);
    }
    if (err) {
        return err;
    }
    err = object_adopt(shape, filter, NULL, object, info);
    if (err) {
        bg_filter_free(filter);
        return err;
    }
    (*object)->born_full = false;
    (*object)->shape.kind = bg_filter_kind(filter);
    return BG_OK;
}

void object_free(struct object *object)
{
    if (!object) {
        return;
    }
    if (object->rebuild) {
        bg_rebuild_abort(object->rebuild);
    }
    bg_slot_free(object->slot);
    bg_foreign_free(object->foreign);
    pthread_rwlock_destroy(&object->foreign_lock);
    pthread_mutex_destroy(&object->writing);
    free(object);
}

/* ---- Queries ------------------------------------------------------------------------------ */

size_t object_may_contain_many(const struct object *object, const bg_bytes *keys,
                               size_t n, uint64_t *maybe)
{
    if (object->slot) {
        return bg_slot_may_contain_many(object->slot, keys, n, maybe);
    }
    size_t found = 0;
    memset(maybe, 0, BG_BITMAP_WORDS(n) * sizeof *maybe);
    pthread_rwlock_rdlock((pthread_rwlock_t *)&object->foreign_lock);
    for (size_t i = 0; i < n; i++) {
        if (bg_foreign_may_contain(object->foreign, keys[i].data, keys[i].len)) {
            maybe[i / 64] |= UINT64_C(1) << i % 64;
            found++;
        }
    }
    pthread_rwlock_unlock((pthread_rwlock_t *)&object->foreign_lock);
    return found;
}

uint64_t object_count(const struct object *object, bg_bytes key)
{
    if (object->slot) {
        return bg_slot_count(object->slot, key.data, key.len);
    }
    uint64_t maybe = 0;
    return object_may_contain_many(object, &key, 1, &maybe);
}

/* ---- Adds --------------------------------------------------------------------------------- */

/* A batch of keys on its way into an object. */
struct adding {
    struct object *object;
    struct host *host;
    const bg_bytes *keys;
    size_t n;
    uint64_t *is_new;
    size_t *done;
    uint64_t check;
    uint64_t
        hashes[OBJECT_BATCH];     /* of all keys; later of those that are not in yet, */
    uint16_t which[OBJECT_BATCH]; /* whose numbers these are */
    size_t fresh;                 /* so many */
};

static bool adding_bit(const uint64_t *bits, size_t i)
{
    return bits[i / 64] >> i % 64 & 1;
}

/*
 * Which keys does the filter not have yet? Only those need to be added. That may be said only if
 * there is one filter in the slot: a key that one of several has may be missing in the one that
 * takes adds. The question is not one of the user's, so it is asked past the slot's counters.
 */
static void adding_probe(struct adding *a)
{
    uint64_t maybe[BG_BITMAP_WORDS(OBJECT_BATCH)] = { 0 };
    bg_pin pin;
    bg_slot_pin(a->object->slot, &pin);
    const bg_filter *only = bg_pin_filter(&pin, 0, NULL);
    if (only && !bg_pin_filter(&pin, 1, NULL)
        && bg_hasher_check(bg_filter_hasher(only)) == a->check) {
        (void)bg_filter_may_contain_many_hash(only, a->hashes, a->n, maybe);
    }
    bg_slot_unpin(a->object->slot, &pin);
    a->fresh = 0;
    for (size_t i = 0; i < a->n; i++) {
        if (!adding_bit(maybe, i)) {
            a->hashes[a->fresh] = a->hashes[i];
            a->which[a->fresh++] = (uint16_t)i;
        }
    }
}

/* A filter that must not grow takes as many as it was made for; the rest of the batch is cut. */
static bg_err adding_limit(struct adding *a)
{
    if (!a->object->shape.nonscaling) {
        return BG_OK;
    }
    const uint64_t items = atomic_load(&a->object->items);
    const uint64_t room =
        items < a->object->shape.items ? a->object->shape.items - items : 0;
    if (a->fresh <= room) {
        return BG_OK;
    }
    a->fresh = (size_t)room;
    *a->done = a->which[room];
    return BG_EFULL;
}

static bg_err adding_record(struct adding *a, const uint64_t *hashes,
                            const bg_bytes *keys, size_t n, bg_errinfo *info)
{
    const struct change change = {
        .op = CHANGE_ADD, .n = n, .hashes = hashes, .keys = keys
    };
    return n ? a->host->ops->record(a->host, a->object, &change, info) : BG_OK;
}

/* Tells which were new, in the numbering of the batch, and counts them. */
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

/* Sets of bits: no lock, and nothing that is there already is recorded. BG_EINCOMPAT: the hash
 * has changed meanwhile, try again. */
static bg_err adding_bits(struct adding *a, bg_errinfo *info)
{
    uint64_t is_new[BG_BITMAP_WORDS(OBJECT_BATCH)] = { 0 };
    size_t in = 0;
    adding_probe(a);
    *a->done = a->n;
    const bg_err full = adding_limit(a);
    bg_err err = adding_record(a, a->hashes, NULL, a->fresh, info);
    if (!err && a->fresh) {
        err = bg_slot_add_many_hash(a->object->slot, a->hashes, a->fresh, a->check,
                                    is_new, &in);
    }
    if (err) {
        *a->done = 0;
        return err;
    }
    adding_tell(a, is_new, a->fresh);
    return full;
}

/* A CF that is full is doubled: `writing` is held. */
static bg_err object_grow(struct object *object, bg_errinfo *info)
{
    const struct object_shape *shape = &object->shape;
    bg_filter *larger = NULL;
    bg_pin pin;
    if (shape->family != OBJECT_CF || shape->expansion == 0
        || atomic_load(&object->expansions) >= shape->max_expansions) {
        return BG_EFULL;
    }
    bg_slot_pin(object->slot, &pin);
    bg_err err = bg_filter_resize(bg_pin_filter(&pin, 0, NULL), 1, &larger, info);
    bg_slot_unpin(object->slot, &pin);
    if (!err) {
        err = bg_slot_swap(object->slot, larger, 0, BG_SLOT_DISCARD, info);
        if (err) {
            bg_filter_free(larger);
        }
    }
    if (err) {
        return err == BG_EINVAL ? BG_EFULL : err;
    }
    atomic_fetch_add(&object->expansions, 1);
    return BG_OK;
}

/* Everything else: `writing` is held over recording and doing. */
static bg_err adding_in_order(struct adding *a, bg_errinfo *info)
{
    uint64_t is_new[BG_BITMAP_WORDS(OBJECT_BATCH)] = { 0 };
    size_t in = 0;
    bg_err err = adding_record(a, a->hashes, NULL, a->n, info);
    while (!err && *a->done < a->n) {
        memset(is_new, 0, sizeof is_new);
        err = bg_slot_add_many_hash(a->object->slot, a->hashes + *a->done,
                                    a->n - *a->done, a->check, is_new, &in);
        for (size_t i = 0; i < in; i++) {
            if (adding_bit(is_new, i)) {
                a->is_new[(*a->done + i) / 64] |= UINT64_C(1) << (*a->done + i) % 64;
            }
        }
        *a->done += in;
        if (err == BG_EFULL) {
            err = object_grow(a->object, info);
        }
    }
    uint64_t news = *a->done;
    if (a->object->shape.family != OBJECT_CF) { /* there, every add counts */
        news = 0;
        for (size_t i = 0; i < *a->done; i++) {
            news += adding_bit(a->is_new, i);
        }
    }
    atomic_fetch_add_explicit(&a->object->items, news, memory_order_relaxed);
    return err;
}

/* While filters with different hashes share the slot, keys are recorded instead. */
static bg_err adding_keys(struct adding *a, bg_errinfo *info)
{
    bg_err err = adding_record(a, NULL, a->keys, a->n, info);
    uint64_t news = 0;
    for (size_t i = 0; !err && i < a->n; i++) {
        bool is_new = false;
        err = bg_slot_add(a->object->slot, a->keys[i].data, a->keys[i].len, &is_new);
        if (!err) {
            a->is_new[i / 64] |= (uint64_t)is_new << i % 64;
            news += is_new;
            *a->done = i + 1;
        }
    }
    atomic_fetch_add_explicit(&a->object->items, news, memory_order_relaxed);
    return err;
}

/* Keys of a foreign filter: its own hash, and a lock. */
static bg_err adding_foreign(struct adding *a, bg_errinfo *info)
{
    struct object *object = a->object;
    bg_err err = adding_record(a, NULL, a->keys, a->n, info);
    uint64_t news = 0;
    pthread_rwlock_wrlock(&object->foreign_lock);
    for (size_t i = 0; !err && i < a->n; i++) {
        const bg_bytes key = a->keys[i];
        if (!bg_foreign_may_contain(object->foreign, key.data, key.len)) {
            err = bg_foreign_add(object->foreign, key.data, key.len, info);
            a->is_new[i / 64] |= (uint64_t)(err == BG_OK) << i % 64;
            news += err == BG_OK;
        }
        *a->done += err == BG_OK;
    }
    pthread_rwlock_unlock(&object->foreign_lock);
    atomic_fetch_add_explicit(&object->items, news, memory_order_relaxed);
    return err;
}

static bg_err adding_once(struct adding *a, bg_errinfo *info)
{
    *a->done = 0;
    memset(a->is_new, 0, BG_BITMAP_WORDS(a->n) * sizeof *a->is_new);
    if (a->object->foreign) {
        return adding_foreign(a, info);
    }
    const bg_err err =
        bg_slot_hash_many(a->object->slot, a->keys, a->n, a->hashes, &a->check);
    if (err == BG_EINCOMPAT) {
        return adding_keys(a, info);
    }
    if (err) {
        return err;
    }
    return a->object->commutes ? adding_bits(a, info) : adding_in_order(a, info);
}

bg_err object_add_many(struct object *object, struct host *host, const bg_bytes *keys,
                       size_t n, uint64_t *is_new, size_t *done, bg_errinfo *info)
{
    struct adding a = { .object = object,
                        .host = host,
                        .keys = keys,
                        .n = n,
                        .is_new = is_new,
                        .done = done };
    const bool ordered = !object->commutes;
    bg_err err = BG_EINCOMPAT;
    if (ordered) {
        pthread_mutex_lock(&object->writing);
    }
    for (int tries = 0; err == BG_EINCOMPAT && tries < 100; tries++) {
        err = adding_once(&a, info);
    }
    if (ordered) {
        pthread_mutex_unlock(&object->writing);
    }
    return err;
}

/* ---- Other changes ------------------------------------------------------------------------- */

bg_err object_remove(struct object *object, struct host *host, bg_bytes key,
                     bg_errinfo *info)
{
    if (!object->slot) {
        return BG_ENOTSUP;
    }
    uint64_t hash = 0, check = 0;
    pthread_mutex_lock(&object->writing);
    bg_err err = bg_slot_hash_many(object->slot, &key, 1, &hash, &check);
    if (!err && bg_slot_count(object->slot, key.data, key.len) == 0) {
        err = BG_ENOTFOUND;
    }
    if (!err) {
        const struct change change = { .op = CHANGE_REMOVE, .n = 1, .hashes = &hash };
        err = host->ops->record(host, object, &change, info);
    }
    if (!err) {
        err = bg_slot_remove_hash(object->slot, hash, check);
    }
    if (!err) {
        atomic_fetch_add_explicit(&object->deleted, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&object->writing);
    return err;
}

bg_err object_rotate(struct object *object, struct host *host, uint64_t now,
                     bg_errinfo *info)
{
    const struct change change = { .op = CHANGE_ROTATE, .value = now };
    if (!object->slot) {
        return BG_ENOTSUP;
    }
    pthread_mutex_lock(&object->writing);
    bg_err err = host->ops->record(host, object, &change, info);
    if (!err) {
        err = bg_slot_rotate(object->slot, now, info);
    }
    pthread_mutex_unlock(&object->writing);
    return err;
}

/* ---- Replaying ------------------------------------------------------------------------------ */

/* A host for replaying: everything is recorded already. */
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
    struct host host = { &ops, NULL };
    uint64_t is_new[BG_BITMAP_WORDS(OBJECT_BATCH)];
    bg_err err = BG_OK;
    for (size_t at = 0; !err && at < change->n;) {
        const size_t n = change->n - at < OBJECT_BATCH ? change->n - at : OBJECT_BATCH;
        size_t done = 0;
        if (change->keys) {
            err = object_add_many(object, &host, change->keys + at, n, is_new, &done,
                                  info);
        } else {
            struct adding a = {
                .object = object, .host = &host, .n = n, .is_new = is_new, .done = &done
            };
            memset(is_new, 0, sizeof is_new);
            memcpy(a.hashes, change->hashes + at, n * sizeof *a.hashes);
            err = bg_slot_hash_many(object->slot, NULL, 0, NULL, &a.check);
            if (!err) {
                err = object->commutes ? adding_bits(&a, info)
                                       : adding_in_order(&a, info);
            }
        }
        at += n;
    }
    /* What did not fit then was refused then as well, and not acknowledged. */
    return err == BG_EFULL ? BG_OK : err;
}

bg_err object_apply(struct object *object, const struct change *change,
                    bg_errinfo *info)
{
    uint64_t check = 0;
    bg_err err = BG_OK;
    switch (change->op) {
    case CHANGE_ADD: return replay_add(object, change, info);
    case CHANGE_ROTATE: return bg_slot_rotate(object->slot, change->value, info);
    case CHANGE_REMOVE:
        err = bg_slot_hash_many(object->slot, NULL, 0, NULL, &check);
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

/* ---- Figures -------------------------------------------------------------------------------- */

/* A figure of each filter that is asked, summed up. */
static uint64_t object_sum(const struct object *object,
                           uint64_t (*figure)(const bg_filter *filter))
{
    uint64_t sum = 0;
    bg_pin pin;
    const bg_filter *filter = NULL;
    bg_role role = BG_ROLE_BASE;
    bg_slot_pin(object->slot, &pin);
    for (size_t i = 0; (filter = bg_pin_filter(&pin, i, &role)) != NULL; i++) {
        sum += role == BG_ROLE_NEXT ? 0 : figure(filter);
    }
    bg_slot_unpin(object->slot, &pin);
    return sum;
}

static bg_foreign_info object_foreign_about(const struct object *object)
{
    bg_foreign_info about = { .struct_size = sizeof about };
    pthread_rwlock_rdlock((pthread_rwlock_t *)&object->foreign_lock);
    if (bg_foreign_about(object->foreign, &about)) {
        about.bits = 0;
    }
    pthread_rwlock_unlock((pthread_rwlock_t *)&object->foreign_lock);
    return about;
}

uint64_t object_bytes(const struct object *object)
{
    return object->slot ? object_sum(object, bg_filter_size_bytes)
                        : object_foreign_about(object).bits / 8;
}

uint64_t object_capacity(const struct object *object)
{
    return object->slot ? object_sum(object, bg_filter_capacity)
                        : object_foreign_about(object).design;
}

static uint64_t object_layers_of(const bg_filter *filter)
{
    return bg_filter_layers(filter);
}

uint32_t object_layers(const struct object *object)
{
    return object->slot ? (uint32_t)object_sum(object, object_layers_of)
                        : object_foreign_about(object).parts;
}
