/*
 * object.c - creates, queries, merges, folds and compacts objects. object_keys.c adds and removes
 * keys, and records these changes. See object.h.
 */
#include "object.h"

#include "dump.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- Creation ---------------------------------------------------------------------------- */

static bool object_commutes(bg_kind kind)
{
    return !(bg_kind_traits(kind)
             & (BG_TRAIT_REMOVE | BG_TRAIT_FILLS_UP | BG_TRAIT_STATIC))
           && kind != BG_KIND_WINDOW;
}

/* Allocates an object from its filter's allocator. */
static struct object *object_allocate(const bg_allocator *from)
{
    struct object *made =
        from ? from->allocate(from->context, sizeof *made, _Alignof(struct object), 1)
             : calloc(1, sizeof *made);
    if (made && from) {
        made->allocator = *from;
    }
    return made;
}

static void object_give(struct object *object)
{
    const bg_allocator to = object->allocator;
    if (to.release) {
        to.release(to.context, object, sizeof *object);
    } else {
        free(object);
    }
}

static const bg_allocator *object_allocator(const struct object *object)
{
    return object->allocator.allocate ? &object->allocator : NULL;
}

static void object_init_locks(struct object *object)
{
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_rwlock_init(&object->foreign_lock, NULL);
    pthread_mutex_init(&object->writing, &recursive);
    pthread_mutexattr_destroy(&recursive);
    pthread_mutex_init(&object->dumping, NULL);
}

static void object_destroy_locks(struct object *object)
{
    pthread_rwlock_destroy(&object->foreign_lock);
    pthread_mutex_destroy(&object->writing);
    pthread_mutex_destroy(&object->dumping);
}

void object_describe(const struct object *object, struct object_shape *shape)
{
    *shape = object->shape;
    shape->generation = bg_slot_generation(object->slot);
}

/* Creates a slot with this filter, or an empty slot if `filter` is NULL. On error, the caller still
 * owns the filter. Setting a generation may allocate memory and fail, so it is done before the slot
 * takes ownership of the filter. */
static bg_err object_make_slot(struct object *made, bg_filter *filter, bg_errinfo *info)
{
    const uint64_t generation = made->shape.generation;
    bg_slot_options how = BG_SLOT_OPTIONS_INIT;
    how.allocator = object_allocator(made);
    how.flags =
        (made->shape.sealed ? BG_SLOT_SEALED : 0) | (how.allocator ? BG_SLOT_SMALL : 0);
    made->shape.generation = 0;
    bg_err err = bg_slot_create(generation ? NULL : filter, &how, &made->slot, info);
    if (err || !generation) {
        return err;
    }
    err = bg_slot_require_generation(made->slot, generation, info);
    if (!err && filter) {
        err = bg_slot_swap(made->slot, filter, 0, 0, info);
    }
    if (err) {
        bg_slot_free(made->slot);
    }
    return err;
}

bg_err object_adopt(const struct object_shape *shape, bg_filter *filter,
                    bg_foreign *foreign, struct object **object, bg_errinfo *info)
{
    *object = NULL;
    if (bg_filter_window_time(filter) > OBJECT_TIME_MAX) {
        return error_fail(info, BG_EFORMAT,
                          "window time: found %llu ms, expected at most %llu ms",
                          (unsigned long long)bg_filter_window_time(filter),
                          (unsigned long long)OBJECT_TIME_MAX);
    }
    struct object *made = object_allocate(foreign ? bg_foreign_allocator(foreign)
                                                  : bg_filter_allocator(filter));
    if (!made) {
        return error_fail(info, BG_ENOMEM, "out of memory");
    }
    made->shape = *shape;
    const bg_err err = foreign ? BG_OK : object_make_slot(made, filter, info);
    if (err) {
        object_give(made);
        return err;
    }
    if (filter) {
        made->shape.kind = bg_filter_kind(filter); /* the shape's kind may be `auto` */
        made->commutes = object_commutes(bg_filter_kind(filter));
        if (object_shape_is_keyed(shape)) {
            made->shape.check = bg_hasher_check(bg_filter_hasher(filter));
        }
    }
    made->foreign = foreign;
    made->born_full = filter || foreign;
    object_init_locks(made);
    if (bg_filter_window_time(filter)) {
        object_resume(made, bg_filter_window_time(filter));
    }
    *object = made;
    return BG_OK;
}

bg_err object_create(const struct object_shape *shape,
                     const struct command_settings *settings, struct object **object,
                     bg_errinfo *info)
{
    bg_window_options window;
    bg_spec spec;
    bg_filter *filter = NULL;
    *object = NULL;
    if (shape->imported) {
        return object_adopt(shape, NULL, NULL, object, info);
    }
    object_shape_spec(shape, &window, &spec);
    spec.max_bytes = shape->limit ? shape->limit : settings->max_filter_bytes;
    spec.allocator = settings->allocator;
    bg_err err = object_hash_spec(shape, settings, &spec.hash, info);
    if (!err) {
        err = bg_filter_create(&spec, &filter, info);
    }
    if (!err && shape->check
        && shape->check != bg_hasher_check(bg_filter_hasher(filter))) {
        bg_filter_free(filter);
        err = error_fail(info, BG_EINVAL,
                         "the keyring has a different secret with this key ID: add "
                         "the secret that the filter was created with");
    }
    if (!err) {
        err = object_adopt(shape, filter, NULL, object, info);
        if (err) {
            bg_filter_free(filter);
        } else if (*object) {
            (*object)->born_full = false;
        }
    }
    return err;
}

void object_free(struct object *object)
{
    if (!object) {
        return;
    }
    bg_rebuild_abort(object->rebuild);
    dump_release(object);
    bg_slot_free(object->slot);
    bg_foreign_free(object->foreign);
    object_destroy_locks(object);
    object_give(object);
}

/* Locks are not moved, but reinitialized at the new address. */
void object_relocate(struct object **object, const bg_mover *mover)
{
    struct object *o = *object;
    if (o->slot && bg_slot_relocate(&o->slot, mover, NULL)) {
        return; /* a rebuild is in progress */
    }
    bg_foreign_relocate(&o->foreign, mover);
    if (object_allocator(o)) {
        object_destroy_locks(o);
        struct object *moved =
            mover->move(mover->context, o, sizeof *o, _Alignof(struct object));
        *object = o = moved ? moved : o;
        object_init_locks(o);
    }
}

bool object_is_whole(const struct object *object)
{
    bg_pin pin;
    if (object->foreign) {
        return true;
    }
    bg_slot_pin(object->slot, &pin);
    const bool whole = bg_pin_filter(&pin, 0, NULL) != NULL;
    bg_slot_unpin(object->slot, &pin);
    return whole;
}

uint32_t object_shape_lock(const struct object_shape *shape,
                           const struct command_settings *settings)
{
    bg_hash_spec spec;
    bg_hasher hasher;
    if (object_hash_spec(shape, settings, &spec, NULL)
        || bg_hasher_init(&hasher, &spec, NULL)) {
        return OBJECT_NO_SECRET;
    }
    const bool fits = !shape->check || shape->check == bg_hasher_check(&hasher);
    bg_hasher_wipe(&hasher);
    return fits ? 0 : OBJECT_OTHER_SECRET;
}

bg_err object_unavailable(const struct object *object, bg_errinfo *info)
{
    char key_id[BG_KEY_ID_BYTES + 1] = "";
    memcpy(key_id, object->shape.key_id, BG_KEY_ID_BYTES);
    switch (atomic_load(&object->locked)) {
    case OBJECT_NO_SECRET:
        return error_fail(info, BG_EBUSY,
                          "the filter is not available: its secret '%s' is not in the "
                          "keyring; add it and restart the service",
                          key_id);
    case OBJECT_OTHER_SECRET:
        return error_fail(info, BG_EBUSY,
                          "the filter is not available: the keyring has a different "
                          "secret with its key ID '%s'; restore the old keyring and "
                          "restart the service",
                          key_id);
    case OBJECT_NEW_SECRET:
        return error_fail(info, BG_EBUSY,
                          "the filter is not available: its secret '%s' is now in the "
                          "keyring; restart the service to load the filter",
                          key_id);
    default:
        return error_fail(info, BG_EBUSY,
                          "the filter is not available: it is being loaded, or its "
                          "content was lost. Load it completely, or drop it");
    }
}

static const bg_filter *object_with_role(const bg_pin *pin, bg_role wanted)
{
    bg_role role = BG_ROLE_BASE;
    const bg_filter *filter = NULL;
    for (size_t i = 0; (filter = bg_pin_filter(pin, i, &role)) != NULL; i++) {
        if (role == wanted) {
            return filter;
        }
    }
    return NULL;
}

const bg_filter *object_base(const bg_pin *pin)
{
    return object_with_role(pin, BG_ROLE_BASE);
}

/* Only object_fold starts migrations, and it holds `writing` during the whole migration. */
bool object_pin_try(const struct object *object, bg_pin *pin, const bg_filter **filter)
{
    bg_slot_pin(object->slot, pin);
    if (object_with_role(pin, BG_ROLE_OLD)) {
        bg_slot_unpin(object->slot, pin);
        return false;
    }
    *filter = object_base(pin);
    return true;
}

/* Locks and counters are not part of an object's state, so those of a const object may change. */
static struct object *object_unlocked(const struct object *object)
{
    return (struct object *)(uintptr_t)object;
}

void object_settled(const struct object *object)
{
    pthread_mutex_lock(&object_unlocked(object)->writing);
    pthread_mutex_unlock(&object_unlocked(object)->writing);
}

const bg_filter *object_pin(const struct object *object, bg_pin *pin)
{
    const bg_filter *filter = NULL;
    while (!object_pin_try(object, pin, &filter)) {
        object_settled(object);
    }
    return filter;
}

/* ---- Long operations ----------------------------------------------------------------------- */

enum { OBJECT_PATIENCE = 1000000 }; /* nanoseconds; longer than a short change takes */

void object_occupy(const struct object *object)
{
    struct object *o = object_unlocked(object);
    atomic_fetch_add(&o->occupied, 1);
    pthread_mutex_lock(&o->writing);
}

void object_vacate(const struct object *object)
{
    struct object *o = object_unlocked(object);
    pthread_mutex_unlock(&o->writing);
    atomic_fetch_sub(&o->occupied, 1);
}

bool object_claim(struct object *object)
{
    struct timespec until;
    if (atomic_load(&object->occupied)) {
        return false;
    }
    if (pthread_mutex_trylock(&object->writing) == 0) {
        return true;
    }
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += OBJECT_PATIENCE;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_mutex_timedlock(&object->writing, &until) == 0;
}

void object_unclaim(struct object *object)
{
    pthread_mutex_unlock(&object->writing);
}

/* Returns whether an object's content may be rearranged while it is being read. */
static bool object_is_restless(const struct object *object)
{
    return !object->commutes
           && !(bg_kind_traits((bg_kind)object->shape.kind) & BG_TRAIT_STATIC);
}

bg_err object_read_begin(const struct object *object, bool still,
                         struct object_reading *reading, bg_errinfo *info)
{
    bg_err err = BG_OK;
    *reading = (struct object_reading){ .copy = NULL };
    if (still || !object_is_restless(object)) {
        reading->filter = object_pin(object, &reading->pin);
        if (!reading->filter) {
            bg_slot_unpin(object->slot, &reading->pin);
        }
    } else {
        object_occupy(object); /* waits until no migration is in progress */
        bg_slot_pin(object->slot, &reading->pin);
        const bg_filter *base = object_base(&reading->pin);
        err = base ? bg_filter_copy(base, &reading->copy, info) : BG_OK;
        bg_slot_unpin(object->slot, &reading->pin);
        object_vacate(object);
        reading->filter = reading->copy;
    }
    return err || reading->filter ? err : object_unavailable(object, info);
}

void object_read_end(const struct object *object, struct object_reading *reading)
{
    if (reading->copy) {
        bg_filter_free(reading->copy);
    } else if (reading->filter) {
        bg_slot_unpin(object->slot, &reading->pin);
    }
}

/* ---- Queries ------------------------------------------------------------------------------ */

static pthread_rwlock_t *object_foreign_lock(const struct object *object)
{
    return &object_unlocked(object)->foreign_lock;
}

size_t object_may_contain_many(const struct object *object, const bg_bytes *keys,
                               size_t n, uint64_t *maybe)
{
    if (object->slot && n == 1) { /* avoids preparing a batch */
        maybe[0] = bg_slot_may_contain(object->slot, keys->data, keys->len);
        return (size_t)maybe[0];
    }
    if (object->slot) {
        return bg_slot_may_contain_many(object->slot, bg_keys_bytes(keys, n), maybe);
    }
    size_t found = 0;
    memset(maybe, 0, BG_BITMAP_WORDS(n) * sizeof *maybe);
    pthread_rwlock_rdlock(object_foreign_lock(object));
    for (size_t i = 0; i < n; i++) {
        if (bg_foreign_may_contain(object->foreign, keys[i].data, keys[i].len)) {
            maybe[i / 64] |= UINT64_C(1) << i % 64;
            found++;
        }
    }
    pthread_rwlock_unlock(object_foreign_lock(object));
    return found;
}

uint64_t object_count(const struct object *object, bg_bytes key)
{
    if (object->slot) {
        return bg_slot_count(object->slot, key.data, key.len);
    }
    pthread_rwlock_rdlock(object_foreign_lock(object));
    const uint64_t count = bg_foreign_count(object->foreign, key.data, key.len);
    pthread_rwlock_unlock(object_foreign_lock(object));
    return count;
}

uint64_t object_probe(const struct object *object, bg_bytes key)
{
    uint64_t count = 0;
    bg_role role = BG_ROLE_BASE;
    const bg_filter *filter = NULL;
    bg_pin pin;
    if (object->foreign) {
        return object_count(object, key);
    }
    bg_slot_pin(object->slot, &pin);
    if (!bg_pin_filter(&pin, 0, NULL)) {
        count = 1; /* maybe */
    }
    for (size_t i = 0; (filter = bg_pin_filter(&pin, i, &role)) != NULL; i++) {
        count += role == BG_ROLE_NEXT ? 0 : bg_filter_count(filter, key.data, key.len);
    }
    bg_slot_unpin(object->slot, &pin);
    return count;
}

/* ---- Figures -------------------------------------------------------------------------------- */

/* Sums a value over the filters in the slot. Unless `all` is set, filters that are not queried yet
 * are left out. */
static uint64_t object_sum(const struct object *object, bool all,
                           uint64_t (*figure)(const bg_filter *filter))
{
    uint64_t sum = 0;
    bg_pin pin;
    const bg_filter *filter = NULL;
    bg_role role = BG_ROLE_BASE;
    bg_slot_pin(object->slot, &pin);
    for (size_t i = 0; (filter = bg_pin_filter(&pin, i, &role)) != NULL; i++) {
        sum += role == BG_ROLE_NEXT && !all ? 0 : figure(filter);
    }
    bg_slot_unpin(object->slot, &pin);
    return sum;
}

static bg_foreign_info object_foreign_about(const struct object *object)
{
    bg_foreign_info about = { .struct_size = sizeof about };
    pthread_rwlock_rdlock(object_foreign_lock(object));
    if (bg_foreign_get_info(object->foreign, &about)) {
        about.bits = 0; /* cannot happen */
    }
    pthread_rwlock_unlock(object_foreign_lock(object));
    return about;
}

uint64_t object_bytes(const struct object *object)
{
    const uint64_t loaded = atomic_load(&object->loaded);
    if (object->slot) {
        return loaded + object_sum(object, true, bg_filter_size_bytes);
    }
    pthread_rwlock_rdlock(object_foreign_lock(object));
    const uint64_t bytes = bg_foreign_size_bytes(object->foreign);
    pthread_rwlock_unlock(object_foreign_lock(object));
    return loaded + bytes;
}

bool object_grows(const struct object *object)
{
    const struct object_shape *shape = &object->shape;
    return (shape->kind == BG_KIND_SCALABLE && !shape->nonscaling)
           || (shape->family == OBJECT_CF && shape->expansion > 0);
}

void object_about(const struct object *object, bg_slot_info *stats)
{
    *stats = (bg_slot_info){ .struct_size = sizeof *stats };
    if (object->slot && bg_slot_get_info(object->slot, stats)) {
        *stats = (bg_slot_info){ .struct_size = sizeof *stats };
    }
    stats->refused += atomic_load(&object->refused);
}

bool object_will_stall(const struct object *object, size_t n, struct host *host)
{
    /* Moving a window or doubling a filter of this size takes a millisecond or two. */
    const uint64_t large = UINT64_C(1) << 20;
    if (object->shape.kind == BG_KIND_WINDOW) {
        return object_will_move(object, host) && object_bytes(object) >= large;
    }
    if (object->shape.family != OBJECT_CF || object->shape.expansion == 0
        || !object->slot || object_bytes(object) < large) {
        return false;
    }
    const uint64_t added = atomic_load_explicit(&object->items, memory_order_relaxed);
    const uint64_t gone = atomic_load_explicit(&object->deleted, memory_order_relaxed);
    const uint64_t items = added > gone ? added - gone : 0;
    return items + n > object_capacity(object);
}

uint64_t object_capacity(const struct object *object)
{
    return object->slot ? object_sum(object, false, bg_filter_capacity)
                        : object_foreign_about(object).design;
}

static uint64_t object_design_of(const bg_filter *filter)
{
    bg_filter_info about = { .struct_size = sizeof about };
    return bg_filter_sample_info(filter, 1, &about) ? 0 : about.design_items;
}

uint64_t object_design(const struct object *object)
{
    const uint64_t design = object->slot && !object_grows(object)
                                ? object_sum(object, false, object_design_of)
                                : 0;
    return design ? design : object_capacity(object);
}

static uint64_t object_layers_of(const bg_filter *filter)
{
    return bg_filter_layers(filter);
}

/* The memory of a slot, of its counters for each CPU, and of a handle. A filter of several parts
 * has its own handle and one for each part. */
enum { OBJECT_SLOT = 1152, OBJECT_COUNTERS = 128, OBJECT_HANDLE = 1536 };

/* Returns the number of a slot's counters: that of the CPUs, which the library rounds up to a power
 * of two. */
static uint64_t object_counters(void)
{
    static _Atomic uint64_t known; /* sysconf reads files */
    uint64_t counted = atomic_load_explicit(&known, memory_order_relaxed);
    if (!counted) {
        const long cpus = sysconf(_SC_NPROCESSORS_CONF);
        for (counted = 1; counted < 64 && (long)counted < cpus;) {
            counted *= 2;
        }
        atomic_store_explicit(&known, counted, memory_order_relaxed);
    }
    return counted;
}

static uint64_t object_slot_overhead(const struct object *object)
{
    const uint64_t counters = object_allocator(object) ? 1 : object_counters();
    return OBJECT_SLOT + counters * OBJECT_COUNTERS;
}

uint64_t object_overhead(const struct object *object)
{
    if (!object->slot) {
        return OBJECT_HANDLE;
    }
    const uint64_t shards = object->shape.shards ? object->shape.shards : 1;
    const uint64_t parts = shards * object_sum(object, true, object_layers_of);
    const bool composed = parts > 1 || object->shape.kind == BG_KIND_SCALABLE;
    return object_slot_overhead(object) + (parts + composed) * OBJECT_HANDLE;
}

uint32_t object_layers(const struct object *object)
{
    return object->slot ? (uint32_t)object_sum(object, false, object_layers_of)
                        : object_foreign_about(object).parts;
}

uint64_t object_deleted(const struct object *object)
{
    return object->foreign ? object_foreign_about(object).removed
                           : atomic_load(&object->deleted);
}

static bool object_add_up(void *context, uint64_t prefix, uint64_t count)
{
    uint64_t *sum = context;
    (void)prefix;
    *sum = count > UINT64_MAX - *sum ? UINT64_MAX : *sum + count;
    return true;
}

void object_recount(struct object *object)
{
    uint64_t items = 0;
    bg_pin pin;
    if (!object->slot) {
        items = object_foreign_about(object).items;
    } else {
        const bg_filter *base = object_pin(object, &pin);
        bg_filter_info about = { .struct_size = sizeof about };
        if (base && bg_filter_for_each(base, object_add_up, &items)
            && bg_filter_get_info(base, &about) == BG_OK
            && isfinite(about.items.value)) {
            items = (uint64_t)(about.items.value + 0.5);
        }
        bg_slot_unpin(object->slot, &pin);
    }
    atomic_store(&object->items, items);
    atomic_store(&object->deleted, 0);
}

/* ---- Saved changes --------------------------------------------------------------------------- */

/* The fence pairs with the fence in adding_probe: a thread that finds a bit set by this change also
 * sees that `unkept` is not 0. */
void object_changing(struct object *object)
{
    atomic_fetch_add(&object->unkept, 1);
    atomic_thread_fence(memory_order_seq_cst);
}

uint32_t object_keeping(struct object *object)
{
    return atomic_exchange(&object->failed, 0);
}

void object_kept(struct object *object, uint32_t changes, bool done)
{
    if (done) {
        atomic_fetch_sub(&object->unkept, changes);
    } else {
        atomic_fetch_add(&object->failed, changes);
    }
}

bg_err object_keep(struct object *object, struct host *host, bg_errinfo *info)
{
    const uint32_t changes = 1 + object_keeping(object);
    const bg_err err = host->ops->checkpoint(host, object, info);
    object_kept(object, changes, err == BG_OK);
    return err;
}

void object_unchanged(struct object *object)
{
    atomic_fetch_sub(&object->unkept, 1);
}

/* ---- Whole objects -------------------------------------------------------------------------- */

static bg_err object_needs_filter(const struct object *object, const char *what,
                                  bg_errinfo *info)
{
    if (object->foreign) {
        return error_fail(info, BG_ENOTSUP, "a filter imported from %s cannot be %s",
                          object->shape.foreign == BG_FOREIGN_VALKEYBLOOM
                              ? "valkey-bloom"
                              : "RedisBloom",
                          what);
    }
    return object_is_whole(object) ? BG_OK : object_unavailable(object, info);
}

/* Merges a pinned filter. The caller holds `writing`. */
static bg_err object_merge_within(struct object *object, struct host *host,
                                  const bg_filter *filter, bg_errinfo *info)
{
    bg_err err;
    do {
        err = bg_slot_merge(object->slot, filter, info);
    } while (err == BG_EFULL && object_grow(object, host, NULL) == BG_OK);
    return err;
}

bg_err object_merge(struct object *object, struct host *host, const struct object *from,
                    bg_errinfo *info)
{
    bg_err err = object_needs_filter(object, "merged", info);
    err = err ? err : object_needs_filter(from, "merged", info);
    if (err || (object == from && object->commutes)) {
        return err;
    }
    if (object == from || object->shape.sealed) {
        return error_fail(
            info, BG_EINCOMPAT, "%s",
            object == from ? "a filter that counts items cannot be merged into itself"
                           : "the filter does not accept adds: its content is loaded "
                             "from files");
    }
    bg_pin pin;
    const bg_filter *filter = NULL;
    object_occupy(object);
    while (!object_pin_try(from, &pin, &filter)) {
        object_vacate(object);
        object_settled(from);
        object_occupy(object);
    }
    err = object_merge_within(object, host, filter, info);
    bg_slot_unpin(from->slot, &pin);
    object_vacate(object);
    if (!err) {
        object_recount(object);
    }
    return err;
}

static bg_err object_copy_foreign(const struct object *object, bg_foreign **copy,
                                  bg_errinfo *info)
{
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    void *bytes = NULL;
    size_t n = 0;
    bg_err err = dump_encode(object, true, &bytes, &n, info);
    if (!err) {
        how.allocator = object_allocator(object);
        err = bg_foreign_decode((bg_foreign_format)object->shape.foreign, bytes, n,
                                &how, copy, info);
    }
    dump_give(object, bytes, n);
    return err;
}

static bg_err object_copy_filter(const struct object *object, bg_filter **copy,
                                 bg_errinfo *info)
{
    struct object_reading reading;
    bg_err err = object_needs_filter(object, "copied", info);
    err = err ? err : object_read_begin(object, false, &reading, info);
    if (err) {
        return err;
    }
    if (reading.copy) { /* already a copy */
        *copy = reading.copy;
        return BG_OK;
    }
    err = bg_filter_copy(reading.filter, copy, info);
    object_read_end(object, &reading);
    return err;
}

bg_err object_copy(const struct object *object, struct object **copy, bg_errinfo *info)
{
    struct object_shape shape;
    bg_filter *filter = NULL;
    bg_foreign *foreign = NULL;
    *copy = NULL;
    object_describe(object, &shape);
    shape.imported = 1;
    bg_err err = object->foreign ? object_copy_foreign(object, &foreign, info)
                                 : object_copy_filter(object, &filter, info);
    err = err ? err : object_adopt(&shape, filter, foreign, copy, info);
    if (err) {
        bg_filter_free(filter);
        bg_foreign_free(foreign);
        return err;
    }
    atomic_store(&(*copy)->items, atomic_load(&object->items));
    atomic_store(&(*copy)->deleted, atomic_load(&object->deleted));
    atomic_store(&(*copy)->expansions, atomic_load(&object->expansions));
    return BG_OK;
}

/* When a foreign filter is cleared, a native filter replaces it. Changes the shape accordingly. */
static void object_shape_native(const struct object *object,
                                const struct command_settings *settings,
                                struct object_shape *shape)
{
    const bg_foreign_info about = object_foreign_about(object);
    shape->foreign = 0;
    shape->imported = 0;
    shape->items = about.design ? about.design : 1;
    if (shape->family == OBJECT_CF) {
        shape->max_expansions = settings->cf_max_expansions;
        object_shape_quotient(shape);
        return;
    }
    shape->kind = shape->nonscaling ? BG_KIND_BLOCKED : BG_KIND_SCALABLE;
    shape->width = shape->nonscaling ? 0 : 2;
}

/* Creates an empty filter with the parameters of the object's filter. */
static bg_err object_empty_filter(const struct object *object, bg_filter **empty,
                                  bg_errinfo *info)
{
    bg_pin pin;
    bg_err err = object_needs_filter(object, "cleared", info);
    if (err) {
        return err;
    }
    err = bg_filter_create_like(object_pin(object, &pin), empty, info);
    bg_slot_unpin(object->slot, &pin);
    return err;
}

bg_err object_emptied(const struct object *object,
                      const struct command_settings *settings, struct object **empty,
                      bg_errinfo *info)
{
    struct object_shape shape = object->shape;
    *empty = NULL;
    if (object->foreign) {
        object_shape_native(object, settings, &shape);
        bg_err err = object_shape_hash(&shape, settings->hash, settings, info);
        return err ? err : object_create(&shape, settings, empty, info);
    }
    if (!shape.imported && !atomic_load(&object->reshaped)) {
        return object_create(&shape, settings, empty, info);
    }
    bg_filter *filter = NULL;
    shape.imported = 1; /* the shape no longer describes the filter */
    bg_err err = object_empty_filter(object, &filter, info);
    err = err ? err : object_adopt(&shape, filter, NULL, empty, info);
    if (err) {
        bg_filter_free(filter);
        return err;
    }
    atomic_store(&(*empty)->expansions, atomic_load(&object->expansions));
    return BG_OK;
}

/* Folds one of the filters in a slot. */
static bg_err object_folded(const struct object *object, bg_role wanted, uint32_t times,
                            bg_filter **folded, bg_errinfo *info)
{
    bg_pin pin;
    bg_slot_pin(object->slot, &pin);
    const bg_filter *filter = object_with_role(&pin, wanted);
    const bg_err err =
        filter ? bg_filter_fold(filter, times, folded, info) : BG_ENOTFOUND;
    bg_slot_unpin(object->slot, &pin);
    return err;
}

/*
 * During a migration, both the old filter and the folded filter are queried and receive adds. Keys
 * added after the first fold but before the start of the migration are only in the old filter. The
 * old filter is therefore folded again and merged into the folded filter. The pointer to the folded
 * filter stays valid, because only a thread that holds `writing` can replace it.
 */
static bg_err object_fold_within(struct object *object, uint32_t times,
                                 bg_errinfo *info)
{
    bg_filter *folded = NULL, *again = NULL;
    bg_err err = object_folded(object, BG_ROLE_BASE, times, &folded, info);
    if (err) {
        return err;
    }
    err = bg_slot_begin_migration(object->slot, folded, info);
    if (err) {
        bg_filter_free(folded);
        return err;
    }
    err = object_folded(object, BG_ROLE_OLD, times, &again, info);
    err = err ? err : bg_filter_merge(folded, again, info);
    bg_filter_free(again);
    const bg_err settled =
        bg_slot_end_migration(object->slot, err != BG_OK, err ? NULL : info);
    return err ? err : settled;
}

bg_err object_fold(struct object *object, uint32_t times, bg_errinfo *info)
{
    bg_err err = object_needs_filter(object, "folded", info);
    if (err) {
        return err;
    }
    object_occupy(object);
    err = object_fold_within(object, times, info);
    if (!err) {
        atomic_store(&object->reshaped, true);
    }
    object_vacate(object);
    return err;
}

/* Returns a filter of half the size if at least a tenth of that filter would be free, and NULL
 * otherwise. */
static bg_filter *object_halved(const struct object *object)
{
    bg_filter *smaller = NULL;
    bg_filter_info about = { .struct_size = sizeof about };
    bg_pin pin;
    bg_slot_pin(object->slot, &pin);
    const bg_err err = bg_filter_resize(object_base(&pin), -1, &smaller, NULL);
    bg_slot_unpin(object->slot, &pin);
    if (!err && (bg_filter_sample_info(smaller, 1, &about) || about.fill > 0.9)) {
        bg_filter_free(smaller);
        smaller = NULL;
    }
    return smaller;
}

/* Sets *steps to 1 on success, because compaction may have moved items even if the size is
 * unchanged. */
static bg_err object_compact_foreign(struct object *object, uint32_t *steps,
                                     bg_errinfo *info)
{
    object_occupy(object);
    pthread_rwlock_wrlock(&object->foreign_lock);
    const bg_err err = bg_foreign_compact(object->foreign, info);
    pthread_rwlock_unlock(&object->foreign_lock);
    object_vacate(object);
    *steps = !err;
    return err;
}

bg_err object_compact(struct object *object, uint32_t *steps, bg_errinfo *info)
{
    *steps = 0;
    if (object->foreign) {
        return object_compact_foreign(object, steps, info);
    }
    bg_err err = object_needs_filter(object, "compacted", info);
    if (err) {
        return err;
    }
    object_occupy(object);
    while (!err && atomic_load(&object->expansions) > 0) {
        bg_filter *smaller = object_halved(object);
        if (!smaller) {
            break;
        }
        err = bg_slot_swap(object->slot, smaller, 0, BG_SLOT_DISCARD, info);
        if (err) {
            bg_filter_free(smaller);
        } else {
            atomic_fetch_sub(&object->expansions, 1);
            object->outgrown = false;
            ++*steps;
        }
    }
    object_vacate(object);
    return err;
}
