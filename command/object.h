/*
 * object.h - the object that a name refers to: a filter, and the parameters with which it was
 * created.
 *
 *     BF   created by BF.RESERVE: scalable, or with NONSCALING a blocked filter that can be full
 *     CF   created by CF.RESERVE: a quotient filter, which counts and deletes like a cuckoo
 *          filter, and doubles when it is full instead of being chained
 *     BG   any kind, created by BG.CREATE or from a file
 *     BF and CF objects can also be imported from RedisBloom or valkey-bloom ("foreign"), with
 *          the bits and the hash of that module
 *
 * A shape contains everything needed to create an empty object, and is stored as text in journals
 * and files. It never changes: an object whose filter was replaced by a filter of a different size
 * (rebuilt, folded, reloaded) keeps the shape it was created with, and is marked `reshaped`.
 *
 * Unknown content. An object whose content came from elsewhere (dump, file, merge) is `imported`.
 * If such an object is re-created from its shape alone, because a crash occurred before its content
 * was saved, its slot has no filter. The object then answers "maybe" for every key, and accepts no
 * adds until it is loaded again. The same applies to an object whose dump is arriving in chunks
 * (dump.h).
 *
 * Threads. Queries need no lock, and neither do adds to objects marked `commutes` (bit arrays in
 * which bits are only ever set). All other changes, including changes to foreign filters, are
 * recorded and applied while holding `writing`, so that the journal records them in the order in
 * which they happened. There is no clear operation: an object is cleared by replacing it with an
 * empty object under the same name.
 *
 * Long operations (doubling, folding, merging, copying) hold `writing` from object_occupy to
 * object_vacate. A thread that must not wait for long operations, such as an event loop, calls
 * object_claim before it changes an object's keys. object_claim either locks `writing` or returns
 * false after a short time. `writing` is recursive, so the thread can lock it again to apply the
 * change.
 *
 * What is recorded. Adding a key that a bit array may already contain changes nothing, so it is
 * not recorded. But another thread may have added the key a moment ago. A host that promises
 * durability must therefore hold back its reply until all changes recorded so far, by any thread,
 * are safe. Records are written before bits are set, so when a thread finds a bit set, the record
 * for that bit has already been written. In two cases, adds are always recorded, because a key that
 * is found may be a false positive that is no longer found after a crash:
 *   - in a scalable filter, where a key's layer depends on the order of adds, unless the host
 *     guarantees this order (`ordered`);
 *   - in a filter that was changed as a whole (merged, folded, rebuilt, reloaded) and whose
 *     checkpoint is not complete (object_changing and object_keep count these changes). Until the
 *     checkpoint is complete, no key is removed from the filter, because if the removal were
 *     replayed on the previous content, it might remove a different key.
 */
#ifndef COMMAND_OBJECT_H
#define COMMAND_OBJECT_H

#include "error_text.h"
#include "host.h"

#include <pthread.h>
#include <stdatomic.h>

enum object_family { OBJECT_BF = 1, OBJECT_CF = 2, OBJECT_BG = 3 };

/* All parameters of an object. Parameters that are 0 are not set. */
struct object_shape {
    uint32_t family;
    uint32_t kind;
    uint64_t items; /* capacity */
    double rate;
    double bits_per_key;
    uint64_t bytes;
    uint32_t k, folds, flags, width, shards;
    uint32_t hash; /* a bg_hash_profile */
    uint64_t seed;
    uint8_t key_id[BG_KEY_ID_BYTES];
    uint64_t check; /* of the hash and its secret, since key IDs may not be unique */
    /* BF and CF: parameters for growth, and for INFO replies */
    uint32_t expansion;
    uint32_t nonscaling;
    uint32_t bucket_size;
    uint32_t max_iterations;
    uint32_t max_expansions;
    /* windows */
    uint32_t window_mode;
    uint32_t window_generations;
    uint64_t window_length; /* milliseconds */
    uint64_t window_count;
    /* origin */
    uint32_t sealed;   /* 1 if the content comes from files, and adds are refused */
    uint32_t imported; /* 1 if the shape does not describe the content (see above) */
    uint32_t foreign;  /* the bg_foreign_format of an imported filter, or 0 */
    uint64_t limit;    /* maximum size in bytes; 0 selects the configured limit */
    /* Minimum generation for BG.RELOAD; 0 in object->shape, because the slot stores the value. */
    uint64_t generation;
};

enum { OBJECT_SHAPE_TEXT = 1024 }; /* buffer size; twice the maximum length */

/* Convert a shape to text, "family=bf kind=scalable items=100 ...", and back; zero values are
 * omitted. Errors: BG_EFORMAT for unknown fields, and for values that no command accepts. Text
 * from another server must not set `limit`: each server decides how far its objects may grow. */
size_t object_shape_write(const struct object_shape *shape,
                          char text[OBJECT_SHAPE_TEXT]);
bg_err object_shape_read(const char *text, size_t len, struct object_shape *shape,
                         bg_errinfo *info);

/* Returns whether the shape has a foreign format that its family supports. */
bool object_shape_is_foreign(const struct object_shape *shape);

/* Returns whether the shape's hash needs a secret. */
bool object_shape_is_keyed(const struct object_shape *shape);

/* Sets the hash of a new object to this profile. If the profile needs a secret, selects the
 * keyring's current secret. */
bg_err object_shape_hash(struct object_shape *shape, uint32_t profile,
                         const struct command_settings *settings, bg_errinfo *info);

/* For a CF, sets a fingerprint size that suits the capacity, unless a rate is set. A fingerprint
 * has log2(capacity) + k bits, and keeps this size when the filter doubles. The filter can grow to
 * billions of items before its rate reaches 3%. */
void object_shape_quotient(struct object_shape *shape);

/* Fills in `spec` from the shape, except for the hash. For window filters, also fills in `window`,
 * to which `spec` then points. */
void object_shape_spec(const struct object_shape *shape, bg_window_options *window,
                       bg_spec *spec);

struct dump; /* dump.h */
struct load;

/* Why an object's secret cannot be used. */
enum object_lock {
    OBJECT_NO_SECRET = 1, /* it is not in the keyring */
    OBJECT_OTHER_SECRET,  /* the keyring has a different secret with the same key ID */
    OBJECT_NEW_SECRET     /* it was added to the keyring after the object was loaded */
};

struct object {
    struct object_shape shape;
    bool commutes;  /* a bit array: order and repetition of adds do not matter */
    bool born_full; /* the object had content when it was created, e.g. from a file */
    /* The content is unknown because of its secret: a value of enum object_lock, or 0. */
    _Atomic uint32_t locked;
    bg_slot *slot; /* without a filter if the content is unknown; NULL if `foreign` */
    bg_foreign *foreign; /* an imported filter, which has its own lock; or NULL */
    pthread_rwlock_t foreign_lock;
    pthread_mutex_t writing;   /* recursive */
    _Atomic uint32_t occupied; /* long operations that hold or await `writing` */
    _Atomic uint64_t items;    /* new items, or adds if items can be deleted */
    _Atomic uint64_t deleted;  /* number of removals that found an item */
    _Atomic uint64_t expansions;
    _Atomic uint64_t refused; /* adds rejected before they reached the slot */
    _Atomic bool
        stuck; /* since keys were last added, adds were refused because it is full */
    _Atomic bool reshaped;
    _Atomic uint32_t unkept; /* whole-object changes without a complete checkpoint */
    _Atomic uint32_t failed; /* number of these changes whose checkpoint failed */
    bool outgrown; /* whether a CF must not grow further; protected by `writing` */
    _Atomic uint64_t rotated; /* the window's time at its last move */
    _Atomic uint64_t ahead;   /* the window's time minus the host's ticks */
    _Atomic bool timed; /* whether this host moves the window, and `ahead` is valid */
    /* Numbers of false positives, true positives and false negatives that BG.OBSERVE reported. */
    _Atomic uint64_t said_absent, said_present, said_missing;
    struct bg_rebuild *rebuild; /* current rebuild, or NULL; protected by `writing` */
    uint64_t rebuilt;           /* number of keys added to the rebuild */
    pthread_mutex_t
        dumping;       /* for the next fields; not locked while holding `writing` */
    struct dump *dump; /* a copy of the filter that is being dumped, or NULL */
    struct load *load; /* the chunks of a load that were received so far, or NULL */
    bool loading;      /* a load is in progress, or its filter replaces this object */
    /* Memory used by `dump` and by `load`, in bytes. */
    _Atomic uint64_t dumped, loaded;
    uint64_t id;            /* set by the host */
    void *entry;            /* set by the host */
    bg_allocator allocator; /* for the object itself; malloc if `allocate` is NULL */
};

/* Creates an empty object, or an object with unknown content if the shape is `imported`. Errors:
 * those of bg_filter_create, and BG_EINVAL if the hash needs a secret that is not in the
 * keyring. */
bg_err object_create(const struct object_shape *shape,
                     const struct command_settings *settings, struct object **object,
                     bg_errinfo *info);

/* Creates an object from a filter or a foreign filter. On success, takes ownership of the filter.
 * If both pointers are NULL, the object's content is unknown. */
bg_err object_adopt(const struct object_shape *shape, bg_filter *filter,
                    bg_foreign *foreign, struct object **object, bg_errinfo *info);
void object_free(struct object *object);

/* Returns the shape of an object, including the generation that its slot requires. Hosts save this
 * shape, and re-create objects from it with object_create or object_adopt. Takes no lock. */
void object_describe(const struct object *object, struct object_shape *shape);

/* Moves the object to a different address, unless it was allocated with malloc; see
 * bg_filter_relocate. Updates *object. No other thread may use the object. An object that is being
 * rebuilt is not moved. */
void object_relocate(struct object **object, const bg_mover *mover);

/* Returns whether the content of the object is known. */
bool object_is_whole(const struct object *object);

/* Reports why the content is unknown, and what to do. Returns BG_EBUSY. */
bg_err object_unavailable(const struct object *object, bg_errinfo *info);

/* Returns why an object of this shape cannot be loaded with the secrets of the keyring: a value of
 * enum object_lock, or 0 if the keyring has the secret or none is needed. */
uint32_t object_shape_lock(const struct object_shape *shape,
                           const struct command_settings *settings);

/*
 * Pins an object's filters at a time when one of them contains all keys. Returns that filter, or
 * NULL if the content is unknown. Call bg_slot_unpin on the slot afterwards. Do not call object_pin
 * or object_pin_try for foreign filters.
 *
 * object_pin waits for `writing`, and the thread that holds `writing` may wait for pins. Therefore,
 * never call object_pin while holding a pin or `writing`. object_pin_try does not wait: it returns
 * false, with nothing pinned, if no filter contains all keys at the moment.
 */
const bg_filter *object_pin(const struct object *object, bg_pin *pin);
bool object_pin_try(const struct object *object, bg_pin *pin, const bg_filter **filter);

/* Waits until the current migration has ended, so that object_pin_try can succeed. */
void object_settled(const struct object *object);

/* Returns the pinned base filter, or NULL if the content is unknown. The base filter contains all
 * keys, except during a migration. */
const bg_filter *object_base(const bg_pin *pin);

/* Returns the shape of a filter that comes from elsewhere, such as a file. The shape's family is
 * BG, and the shape is marked `imported`. */
void object_shape_of(const bg_filter *filter, struct object_shape *shape);

/* Returns whether the shape's family supports the filter's kind. */
bool object_shape_fits(const struct object_shape *shape, const bg_filter *filter);

/* Returns the hash that a shape specifies, including the secret for the shape's key ID if the hash
 * needs one. */
bg_err object_hash_spec(const struct object_shape *shape,
                        const struct command_settings *settings, bg_hash_spec *hash,
                        bg_errinfo *info);

/* ---- Keys -------------------------------------------------------------------------------- */

/* The maximum number of keys per call to object_may_contain_many or object_add_many. */
enum { OBJECT_BATCH = 512 };

/* Queries keys like bg_filter_may_contain_many. */
size_t object_may_contain_many(const struct object *object, const bg_bytes *keys,
                               size_t n, uint64_t *maybe);

/*
 * Adds keys in order, up to the first key that does not fit. Sets *done to the number of keys
 * added, and sets bits in is_new for the keys that were definitely not present before. Records
 * the changes. Errors: BG_EFULL or BG_ENOMEM if the filter is full and cannot grow; BG_ENOTSUP if
 * the object never accepts adds; BG_EBUSY if its content is unknown; those of host->ops->record.
 */
bg_err object_add_many(struct object *object, struct host *host, const bg_bytes *keys,
                       size_t n, uint64_t *is_new, size_t *done, bg_errinfo *info);

/* Atomically adds a key unless the filter may already contain it. Use it only for objects that are
 * not marked `commutes`. */
bg_err object_add_absent(struct object *object, struct host *host, bg_bytes key,
                         bool *added, bg_errinfo *info);

/* Removes one occurrence of a key. Errors: BG_ENOTFOUND if the key is definitely not present, or if
 * `count` is not 0 and differs from the number of times that the key may have been added. */
bg_err object_remove(struct object *object, struct host *host, bg_bytes key,
                     uint64_t count, bg_errinfo *info);

/* Returns how many times a key may have been added; 0 or 1 for kinds that do not count. */
uint64_t object_count(const struct object *object, bg_bytes key);

/* Like object_count, but does not count as a user's query in the observed rates. */
uint64_t object_probe(const struct object *object, bg_bytes key);

/* Moves a window to the current time or, if it is not time-based, by one period. Records the move,
 * if any. */
bg_err object_rotate(struct object *object, struct host *host, bg_errinfo *info);

/* Returns whether it is time to move a time-based window. Acquires no lock. */
bool object_will_move(const struct object *object, struct host *host);

/* Moves a time-based window if a move is due. Adds call this function; a host also calls it
 * regularly, so that keys expire even in windows that receive no adds. */
bg_err object_tick(struct object *object, struct host *host, bg_errinfo *info);

/* Sets the window's time to `moved`, the time of its last move before it was loaded. The window's
 * time continues from there. */
void object_resume(struct object *object, uint64_t moved);

/* Moves the filter's window to the object's current window time. Call it after a new filter was
 * swapped into the slot. */
void object_position(struct object *object);

/* The maximum value of a window's time, in milliseconds. The limit leaves a margin, so that a
 * window can move further and its time still fits into the integers of all protocols. */
#define OBJECT_TIME_MAX (UINT64_MAX / 4)

/* Lock and unlock `writing` for a long operation. object_claim fails as soon as object_occupy has
 * been called. */
void object_occupy(const struct object *object);
void object_vacate(const struct object *object);

/* Locks `writing` for a short change, unless a long operation holds or awaits it. In that case,
 * returns false. Retry on a thread that is allowed to wait. */
bool object_claim(struct object *object);
void object_unclaim(struct object *object);

/* Doubles a full CF. The caller holds `writing`. Errors: BG_EFULL if the filter must not grow
 * further; BG_ENOMEM. */
bg_err object_grow(struct object *object, const struct host *host, bg_errinfo *info);

/* Applies a recorded change, for example when the host replays a journal. No other thread may use
 * the object. */
bg_err object_apply(struct object *object, const struct change *change,
                    bg_errinfo *info);

/* ---- Whole objects (may take a long time) ---------------------------------------------------- */

/* Call object_changing before changing a whole object that has a name. Afterwards call object_keep,
 * which makes the host save the object, or object_unchanged if nothing changed. */
void object_changing(struct object *object);
bg_err object_keep(struct object *object, struct host *host, bg_errinfo *info);
void object_unchanged(struct object *object);

/* Call object_keeping before the host saves a whole object, and object_kept afterwards. Saving the
 * object also saves earlier changes whose own checkpoints failed. Pass the result of object_keeping
 * to object_kept. */
uint32_t object_keeping(struct object *object);
void object_kept(struct object *object, uint32_t changes, bool done);

/* Returns whether the host has saved all changes to the object. */
static inline bool object_is_kept(const struct object *object)
{
    return atomic_load(&object->unkept) == 0;
}

/* Merges `from` into an object. Errors: BG_EINCOMPAT if the two objects cannot be merged; the
 * message describes the difference. */
bg_err object_merge(struct object *object, struct host *host, const struct object *from,
                    bg_errinfo *info);

/* Creates a copy of an object for a different name. The copy is marked `imported`. */
bg_err object_copy(const struct object *object, struct object **copy, bg_errinfo *info);

/* Creates an empty object with the same parameters as `object`. */
bg_err object_emptied(const struct object *object,
                      const struct command_settings *settings, struct object **empty,
                      bg_errinfo *info);

/* Halves a filter's size `times` times. Keys can be added concurrently, and none are lost. */
bg_err object_fold(struct object *object, uint32_t times, bg_errinfo *info);

/* Halves a CF as long as at least a tenth of the smaller filter would be free, but never below its
 * original size. Sets *steps to the number of halvings. A filter imported from RedisBloom is
 * compacted in the same way as in RedisBloom, which counts as one step. */
bg_err object_compact(struct object *object, uint32_t *steps, bg_errinfo *info);

/* Recounts the items. Call it after the content was replaced, for example by a load or a merge. */
void object_recount(struct object *object);

/*
 * Provides a filter with all of an object's keys for reads of any duration: the object's own
 * filter, or a copy if that filter could change between two reads. `still` means that nothing
 * changes the object, so that no copy is needed. Making the copy blocks writers; reading it does not.
 * Errors: BG_EBUSY if the content is unknown; BG_ENOMEM. Foreign filters are not supported.
 */
struct object_reading {
    const bg_filter *filter;
    bg_filter *copy; /* NULL: `filter` is pinned */
    bg_pin pin;
};
bg_err object_read_begin(const struct object *object, bool still,
                         struct object_reading *reading, bg_errinfo *info);
void object_read_end(const struct object *object, struct object_reading *reading);

/* ---- Statistics, in constant time -------------------------------------------------------- */

/* Returns whether adding n items may take too long for an event loop, because the filter has to
 * double or the window has to move. */
bool object_will_stall(const struct object *object, size_t n, struct host *host);

/* Returns the size of the object's filters and of a load. The copy of a dump is not included,
 * because a client that may only read the filter can create it. */
uint64_t object_bytes(const struct object *object);

/* Returns an upper estimate of the memory that the object uses in addition to object_bytes: its
 * slot and the handles of its filters. The struct itself is not included. */
uint64_t object_overhead(const struct object *object);

/* Returns the number of keys at which the object is full or, if it grows, grows next. This can be
 * more than it was designed for: tables of fingerprints have more slots. */
uint64_t object_capacity(const struct object *object);

/* Returns the number of keys that the object was designed for, which is what users see as its
 * capacity. For objects that grow, or were designed for a size in bytes, it is object_capacity. */
uint64_t object_design(const struct object *object);

/* Returns whether the object grows when it is full, in which case its capacity is not a limit. */
bool object_grows(const struct object *object);

/* Returns the counters of the object's slot, including adds that were rejected before they
 * reached the slot. The slot's counters are 0 if the object has no slot. */
void object_about(const struct object *object, bg_slot_info *stats);
uint32_t object_layers(const struct object *object);

/* Returns the number of deleted items, as reported by INFO. For filters imported from RedisBloom,
 * only items deleted since the last compaction are counted. */
uint64_t object_deleted(const struct object *object);

#endif
