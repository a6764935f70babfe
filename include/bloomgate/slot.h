/*
 * slot.h - replace, reload and rebuild a filter while threads use it.
 *
 *     bg_slot *users;
 *     if (bg_slot_create(filter, NULL, &users, &why))    // the slot now owns the filter
 *         return 1;
 *     if (bg_slot_add(users, "alice", 5, NULL))
 *         return 1;
 *     if (!bg_slot_may_contain(users, "bob", 3))
 *         return 0;                                      // certainly not a user
 *
 *     // meanwhile, in another thread:
 *     err = bg_slot_rebuild(users, &all_users, &how, NULL, &why);
 *
 * A slot contains a short list of filters. Some of them are queried, and some accept adds:
 *
 *                          queried               accept adds
 *     plain                base                  base
 *     sealed               base                  none: adds are refused
 *     layered              base, delta           delta
 *     during a migration   base, old             base, old
 *     during a rebuild     as before             as before, and the next base
 *
 * A query answers "no" only if all queried filters answer "no". Each change replaces the
 * list with a new list in a single atomic step. A query finds every key whose add returned
 * before the query started, even if the add and the query saw different lists.
 *
 * Queries never wait. To use the list, a thread registers as a reader with an atomic
 * addition in a cache line of its CPU, and unregisters when it is done. A replaced filter
 * is freed after its last reader has unregistered. The thread that replaced the filter
 * waits up to 100 ms for the readers and then frees the filter. If readers remain after
 * that time, the last reader frees it. Changes are serialized, and some changes wait for
 * all readers.
 *
 * Caveats
 *   - A plain slot cannot be reloaded from a file, because keys added since the file was
 *     written would be lost. The same applies to a slot whose base was merged with a
 *     delta, unless the file is recorded as being at least as complete
 *     (bg_slot_complete_to). If the new filter contains all keys, pass BG_SLOT_DISCARD;
 *     otherwise collect adds in a delta (bg_slot_set_delta).
 *   - A slot without a base answers "maybe" to every query and refuses adds. If a rebuild
 *     with a delta builds the first base, the delta accepts adds from the start of the
 *     rebuild.
 *   - Do not modify a slot while holding a pin on it: the call would deadlock.
 */
#ifndef BLOOMGATE_SLOT_H
#define BLOOMGATE_SLOT_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/file.h"
#include "bloomgate/filter.h"
#include "bloomgate/inspect.h"
#include "bloomgate/keys.h"
#include "bloomgate/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A slot. Opaque. */
typedef struct bg_slot bg_slot;

/* Flags for slots, swaps and reloads. */
enum {
    /* Slots: the base accepts no adds. Adds go to a delta if there is one, and are
     * refused otherwise. */
    BG_SLOT_SEALED = 1u << 0,
    /* Swaps and reloads: the new filter contains all keys that were added to the
     * replaced filter, or losing these keys is acceptable. */
    BG_SLOT_DISCARD = 1u << 1,
    /* Reloads: accept a different kind of filter. */
    BG_SLOT_ANY_KIND = 1u << 2,
    /* Reloads: accept a different hash profile, secret or key id. */
    BG_SLOT_ANY_HASH = 1u << 3,
    /* Reloads: map the file instead of reading it. Use it only for files that are
     * always replaced by a rename and never written in place; see "Mapping" in
     * docs/slots.md. */
    BG_SLOT_MAP = 1u << 4,
    /* Reloads: accept a file with a lower generation than the last file loaded. */
    BG_SLOT_ANY_GENERATION = 1u << 5,
    /* Slots: keep one set of counters instead of one per CPU. Use it if there are many
     * slots, each used by one thread at a time. */
    BG_SLOT_SMALL = 1u << 6
};

/* Options for creating a slot. NULL selects the defaults: a plain slot. */
typedef struct bg_slot_options {
    uint32_t struct_size;             /* sizeof(bg_slot_options) */
    uint32_t flags;                   /* BG_SLOT_SEALED, BG_SLOT_SMALL */
    uint64_t complete;                /* initial value of bg_slot_complete_to */
    uint64_t (*clock)(void *context); /* monotonic time in ns; NULL uses the OS clock */
    void *context;                    /* argument of `clock` */
    const bg_allocator *allocator;    /* for the slot, not for its filters; or NULL */
} bg_slot_options;

#define BG_SLOT_OPTIONS_INIT                                                           \
    {                                                                                  \
        sizeof(bg_slot_options), 0, 0, 0, 0, 0                                         \
    }

/* ---- Creating and freeing ------------------------------------------------------- */

/*
 * Creates a slot with `filter` as its base. The slot owns the filter from then on. If
 * `filter` is NULL, the slot has no base. A static filter is always sealed. A filter
 * created with BG_SPEC_EXCLUSIVE is refused unless the slot is sealed. Seal slots whose
 * filters come from files (see Caveats).
 * Errors: BG_EINVAL; BG_ENOMEM. On error *slot is NULL and the caller still owns the
 * filter.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_create(bg_filter *filter,
                                           const bg_slot_options *options,
                                           bg_slot **slot, bg_errinfo *info);

/* Frees a slot and its filters; NULL is allowed. Thread safety: MT-Excl. */
BG_API void bg_slot_free(bg_slot *slot);

/*
 * Moves the memory that a slot and its filters received from an allocator; see
 * bg_filter_relocate. *slot is set to the new address. Before the call, free everything
 * else that refers to the slot, such as gates and watches.
 * Errors: BG_EBUSY while the slot is pinned or being rebuilt; BG_EINVAL for NULL. On error
 * nothing has moved.
 * Thread safety: MT-Excl.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_relocate(bg_slot **slot, const bg_mover *mover,
                                             bg_errinfo *info);

/* ---- Keys ---------------------------------------------------------------------- */

/*
 * Returns false if the key was certainly never added, and true if it may have been.
 * Thread safety: MT-Safe; never waits. Cost: the cost of bg_filter_may_contain, plus three
 * atomic additions.
 */
BG_API bool bg_slot_may_contain(const bg_slot *slot, const void *key, size_t len);
BG_API bool bg_slot_may_contain_u64(const bg_slot *slot, uint64_t key);

/*
 * Queries an array of keys. Returns the number of keys that may have been added, and sets
 * their bits in the bitmap `maybe` unless it is NULL. Hashes must be passed with their
 * check value (see Hashes below). If the check value does not match the hasher of every
 * queried filter, all answers are "maybe".
 * Thread safety: MT-Safe; never waits. Cost: the cost of bg_filter_may_contain_many, plus
 * at most four atomic additions per call.
 */
BG_API size_t bg_slot_may_contain_many(const bg_slot *slot, bg_keys keys,
                                       uint64_t *maybe);

/*
 * Queries a key on behalf of a request that depends on all writes up to `sequence`, such
 * as a position in a database log. Returns false only if the key was certainly never added
 * and the slot is complete up to `sequence` (see bg_slot_complete_to).
 * Thread safety: MT-Safe; never waits.
 */
BG_API bool bg_slot_may_contain_up_to(const bg_slot *slot, const void *key, size_t len,
                                      uint64_t sequence);

/*
 * Adds a key to every filter that accepts adds. *is_new, unless NULL, is set to true if the
 * key was certainly in none of the queried filters.
 * Errors: BG_EFULL if one of the filters is full (treat the key as not added, although
 * another filter may have stored it); BG_ENOTSUP if no filter accepts adds; BG_EINVAL for
 * NULL.
 * Thread safety: MT-Safe; waits only if adds to this kind of filter wait (see filter.h).
 */
BG_API BG_MUST_CHECK bg_err bg_slot_add(bg_slot *slot, const void *key, size_t len,
                                        bool *is_new);
BG_API BG_MUST_CHECK bg_err bg_slot_add_u64(bg_slot *slot, uint64_t key, bool *is_new);

/*
 * Adds an array of keys in order, up to the first key that is refused. Sets *done to the
 * number of keys added, and *added to the number of added keys that were certainly new.
 * Sets the bits of the new keys in the bitmap `is_new`. Each of these three arguments may
 * be NULL. A key that occurs twice in the array is new at most once. The results are set
 * even if keys are refused.
 *
 * Hashes must be passed with their check value (see Hashes below). If a filter that is
 * queried but accepts no adds has a different hasher, no key is reported as new.
 * Errors: those of bg_slot_add; BG_EINCOMPAT for hashes if a filter that accepts adds has
 * a different hasher. In that case no key is added, and none counts as refused in
 * bg_slot_info. Add the keys instead of their hashes.
 * Thread safety: same as bg_slot_add.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_add_many(bg_slot *slot, bg_keys keys,
                                             uint64_t *is_new, size_t *done,
                                             size_t *added);

/*
 * Reverts one add of a key; see bg_filter_remove.
 * Errors: those of bg_filter_remove; BG_ENOTSUP also if the slot has several filters (a
 * delta, a migration or a rebuild), or if its filter is sealed.
 * Thread safety: same as bg_filter_remove.
 */
BG_API bg_err bg_slot_remove(bg_slot *slot, const void *key, size_t len);

/*
 * Returns the number of times a key may have been added: the sum of bg_filter_count over
 * the queried filters. During a migration, keys added to both filters count twice. Without
 * a base the result is at least 1.
 * Thread safety: MT-Safe; never waits.
 */
BG_API uint64_t bg_slot_count(const bg_slot *slot, const void *key, size_t len);

/* ---- Hashes -------------------------------------------------------------------- */

/*
 * Hashes an array of keys with the hasher of the slot's filters. `hashes` receives one
 * hash per key. *check is set to the value that identifies the hasher (bg_hasher_check).
 * For an empty array, only *check is set.
 *
 * Hashing keys in advance saves time if each key is used several times, for example
 * queried, added and written to a log. A hash is valid for one hasher only, and a slot can
 * receive filters with a different hasher at any time. Slots therefore accept hashes only together
 * with their check value (bg_keys_hashes_of), and each function compares the check value with the
 * hashers of the filters it uses:
 *
 *     err = bg_slot_hash_many(slot, keys, hashes, &check);
 *     if (!err)
 *         err = bg_slot_add_many(slot, bg_keys_hashes_of(hashes, n, check), is_new, &done,
 *                                NULL);
 *     if (err == BG_EINCOMPAT)                           // the hashers differ or have changed
 *         err = bg_slot_add_many(slot, keys, is_new, &done, NULL);
 *
 * Errors: BG_EINCOMPAT if the filters have different hashers, for example during a
 * migration or rebuild with a new secret; BG_ENOTFOUND if the slot has no filter. In both
 * cases *check is 0. BG_EINVAL for NULL, or if `keys` are already hashes.
 * Thread safety: MT-Safe; never waits.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_hash_many(const bg_slot *slot, bg_keys keys,
                                              uint64_t *hashes, uint64_t *check);

/*
 * Reverts one add of a key, given the key's hash and the check value of the hasher.
 * Errors: those of bg_slot_remove; BG_EINCOMPAT if the filter has a different hasher; the
 * filter is then unchanged.
 * Thread safety: same as bg_filter_remove.
 */
BG_API bg_err bg_slot_remove_hash(bg_slot *slot, uint64_t hash, uint64_t check);

/* ---- Pins ---------------------------------------------------------------------- */

/*
 * A pin on the filters of a slot. While a pin is held, no filter in the pinned list is
 * freed, even if the filter is replaced. Therefore, do not hold a pin for long.
 */
typedef struct bg_pin {
    const void *opaque[3];
} bg_pin;

/* The role of a filter in a slot. */
typedef enum bg_role {
    BG_ROLE_BASE = 0,
    BG_ROLE_DELTA = 1, /* keys added since the base was sealed */
    BG_ROLE_OLD = 2,   /* the previous base, still queried during a migration */
    BG_ROLE_NEXT = 3   /* the base being rebuilt: accepts adds, not queried yet */
} bg_role;

/*
 * Pins the current list of filters until bg_slot_unpin.
 *
 * To save a slot yourself, pin it, copy each filter with bg_filter_copy, unpin it and
 * write the copies. A copy contains all keys that were added to its filter before the
 * call, and may contain some keys that are added concurrently. To exclude concurrent adds,
 * block writers with your own lock while you copy.
 * Thread safety: MT-Safe; never waits.
 */
BG_API void bg_slot_pin(const bg_slot *slot, bg_pin *pin);

/*
 * Releases a pin. Any thread may call this function. Thread safety: MT-Safe; never waits.
 */
BG_API void bg_slot_unpin(const bg_slot *slot, bg_pin *pin);

/*
 * Returns filter i of a pinned list, or NULL if i is out of range. *role, unless NULL, is
 * set to the role of the filter. The filter is valid until the pin is released.
 * Thread safety: MT-Safe.
 */
BG_API const bg_filter *bg_pin_filter(const bg_pin *pin, size_t i, bg_role *role);

/* ---- Changes ------------------------------------------------------------------- */

/*
 * Replaces the base with `filter`, which the slot owns from then on. An existing delta is
 * kept; the old filter of a migration is removed. The new base is sealed if the replaced
 * base was sealed. If the slot had no base, the new base is sealed if the slot was created
 * with BG_SLOT_SEALED or has a delta. `complete` is the number up to which the new filter
 * is complete; see bg_slot_complete_to.
 *
 * Without BG_SLOT_DISCARD in `flags`, no key that was added through the slot is lost. A
 * base contains such keys if it was merged with a delta, was rebuilt, or accepted adds
 * before it was sealed (by bg_slot_set_delta or by a rebuild with a delta, even if the
 * rebuild failed). Such a base can be replaced only by a filter that is at least as
 * complete as the slot was when the base was merged, rebuilt or sealed. The value of
 * bg_slot_complete_to is used for this comparison only if bg_slot_advance was called after the last
 * of these adds. Every later replacement must be at least as complete as that, too.
 * Errors: BG_EINCOMPAT if keys would be lost, the base accepts adds, or the base ended the
 * doubt of a gate (bg_gate_doubt), unless `flags` includes BG_SLOT_DISCARD; BG_EBUSY
 * during a rebuild, or if a rebuild or a replacement with BG_SLOT_DISCARD started after
 * this call and finished before it; BG_EINVAL; BG_ENOMEM. On error the slot is unchanged,
 * and the caller still owns the filter.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_swap(bg_slot *slot, bg_filter *filter,
                                         uint64_t complete, uint32_t flags,
                                         bg_errinfo *info);

/*
 * Starts a migration to `filter`, which may have a different hash, secret or size. The slot
 * owns `filter` from then on and uses it as the base. The previous base is still queried.
 * Both filters accept adds if the previous base did.
 * Errors: BG_EBUSY during a migration or a rebuild; BG_EINCOMPAT if the current base
 * accepts adds and `filter` cannot, because keys added during the migration would be lost
 * with the old filter; BG_EINVAL if the slot has no base; BG_ENOMEM. On error the slot is
 * unchanged, and the caller still owns the filter.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_begin_migration(bg_slot *slot, bg_filter *filter,
                                                    bg_errinfo *info);

/*
 * Ends a migration and removes the old filter, or the new filter if `back` is true. If
 * `back` is false, the new filter must already contain all keys that have not expired.
 * bg_slot_rebuild also ends a migration. The call allocates no memory.
 * Errors: BG_EINVAL if there is no migration; BG_EBUSY during a rebuild; BG_EINCOMPAT if
 * `back` is true after bg_slot_compact, which merges the delta into the new filter only.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_end_migration(bg_slot *slot, bool back,
                                                  bg_errinfo *info);

/*
 * Seals the base. From then on, adds go to `delta`, an empty filter that the slot now
 * owns. An existing delta accepts no more adds, but is still queried until bg_slot_compact
 * merges it. The call returns after the last add to a sealed filter has finished.
 *
 * If you use bg_slot_complete_to, the delta is assumed to contain all keys above that
 * number. Keys with a higher number must therefore not be added before the call; otherwise, when a
 * base is later installed under the delta, the slot reports it as more complete than it is. Pause
 * writers, and call bg_slot_advance with the number of the last key that was added. The same
 * applies to bg_slot_compact and bg_slot_rebuild.
 * Errors: BG_EBUSY during a rebuild, or if the slot already has two deltas; BG_EINVAL if
 * the slot has no base, or `delta` is static or was created with BG_SPEC_EXCLUSIVE;
 * BG_ENOMEM. On error the slot is unchanged, and the caller still owns the delta.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_set_delta(bg_slot *slot, bg_filter *delta,
                                              bg_errinfo *info);

/*
 * Merges the base and the delta into a new base. Further adds go to the argument `delta`,
 * an empty filter. If the slot has two deltas, both are merged. The base is copied first,
 * so queries are not affected. The kinds must support merging (bg_filter_merge, or a
 * resized quotient filter); otherwise use bg_slot_rebuild, which needs the keys. The call
 * transfers ownership of `delta` to the slot, even on error.
 * Errors: BG_EINVAL if the slot has no base or no delta; BG_EINCOMPAT, BG_ENOTSUP and
 * BG_EFULL as in bg_filter_merge; BG_EBUSY during a rebuild; BG_ENOMEM. No key is lost on
 * error: if the merge fails, the slot keeps its old base and both deltas.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_compact(bg_slot *slot, bg_filter *delta,
                                            bg_errinfo *info);

/*
 * Removes all keys: atomically replaces the base with an empty filter of the same
 * geometry, and removes the delta and the old filter. The new base accepts adds if any of
 * the queried filters did. A static base cannot accept adds, so the slot gets a new empty
 * delta with the geometry of the current delta. Keys that are added concurrently may or
 * may not be removed. The value of bg_slot_complete_to becomes 0; call bg_slot_advance
 * once a higher number is known.
 * Errors: BG_ENOTFOUND if there is no base; BG_EBUSY during a rebuild; BG_ENOMEM. On error
 * nothing has changed.
 * Thread safety: MT-Safe. Memory: both filters are in memory until the last reader of the
 * old filter has unregistered.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_clear(bg_slot *slot, bg_errinfo *info);

/*
 * Adds all keys in `other`, which the caller still owns, to every filter that accepts
 * adds; see bg_filter_merge. Concurrent queries may see some of the keys before others.
 * The keys do not count as adds in bg_slot_info.
 * Errors: those of bg_filter_merge; BG_ENOTSUP if no filter accepts adds; BG_EINCOMPAT
 * also if only the next base of a rebuild differs from `other`, for example in size. In
 * that case nothing has changed, and you can retry the merge after the rebuild. After
 * BG_EFULL or BG_ENOMEM during a migration, one of the two filters may have received the
 * keys.
 * Thread safety: MT-Safe; waits for other changes. Cost: reads both filters and writes one.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_merge(bg_slot *slot, const bg_filter *other,
                                          bg_errinfo *info);

/*
 * Rotates every window filter in the slot that accepts adds; see bg_filter_rotate. Sealed
 * windows do not move.
 * Errors: BG_ENOTSUP if the slot has no window that accepts adds; BG_EINVAL for NULL.
 * Thread safety: MT-Safe. Cost: same as bg_filter_rotate.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_rotate(bg_slot *slot, uint64_t now,
                                           bg_errinfo *info);

/* ---- Completeness -------------------------------------------------------------- */

/*
 * Returns the number up to which the slot is complete. A filter includes only keys that
 * were added to it, not keys that other machines have written since. A slot therefore keeps a
 * number that increases with the writes to the backing store, such as a log position or a
 * timestamp. All keys written up to that number are in the slot.
 *
 * Swapping in or reloading a less complete base lowers the number.
 * Thread safety: MT-Safe.
 */
BG_API uint64_t bg_slot_complete_to(const bg_slot *slot);

/*
 * Declares that all keys up to the number `sequence` are in the slot. A number below the
 * current value has no effect.
 *
 * After a swap or reload has lowered the number, add the missing keys before advancing
 * again. Do not advance during the swap or reload, because the slot cannot detect which
 * keys are missing. Do not advance to a number while keys with higher numbers are being
 * added, or after such keys have been added. Otherwise, when a file replaces the base
 * (bg_slot_swap), the slot would treat those keys as if their numbers did not exceed `sequence`.
 * Thread safety: MT-Safe.
 */
BG_API void bg_slot_advance(bg_slot *slot, uint64_t sequence);

/* ---- Files --------------------------------------------------------------------- */

/* Options for reloading a file. NULL selects the defaults. */
typedef struct bg_reload_options {
    uint32_t struct_size;            /* sizeof(bg_reload_options) */
    uint32_t flags;                  /* BG_SLOT_DISCARD, BG_SLOT_ANY_KIND and so on */
    const bg_open_options *opening;  /* secret and other options for bg_open, or NULL. A
                                        watch keeps the pointer, so the options and
                                        everything they point to must outlive the
                                        watch */
    uint8_t key_id[BG_KEY_ID_BYTES]; /* required key id; all zero selects the key id of
                                        the last file loaded, if any */
} bg_reload_options;

#define BG_RELOAD_OPTIONS_INIT                                                         \
    {                                                                                  \
        sizeof(bg_reload_options), 0, 0,                                               \
        {                                                                              \
            0                                                                          \
        }                                                                              \
    }

/*
 * Replaces the base with the filter in a file. The whole file is verified, even if it is
 * mapped afterwards, and its canaries are queried. Then its kind, hash profile, secret,
 * key id and generation are compared with those of the current filter. If any check fails,
 * the old filter stays in use, and the error is returned, counted, and reported in
 * bg_slot_info. A file with the same digest as the current file is not loaded again.
 *
 * The generation must not be lower than the generation of the last file loaded, even if
 * other changes have replaced the base since. BG_SLOT_ANY_GENERATION accepts a lower
 * generation, and bg_slot_clear resets the limit. The line "complete: N" in the metadata
 * of a file means that the filter is complete up to the number N.
 * Errors: those of bg_verify, bg_open and bg_slot_swap; BG_EINCOMPAT also if the
 * comparison with the current filter fails.
 * Thread safety: MT-Safe; reloads of the same slot are serialized.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_reload(bg_slot *slot, const char *path,
                                           const bg_reload_options *options,
                                           bg_errinfo *info);

/*
 * Returns the lowest generation that bg_slot_reload accepts: the generation of the last
 * file loaded, or 0. Callers that save the content of a slot themselves and later
 * re-create the slot must save this number as well.
 * Thread safety: MT-Safe; never waits.
 */
BG_API uint64_t bg_slot_generation(const bg_slot *slot);

/*
 * Raises the lowest generation that bg_slot_reload accepts, as if a file of that
 * generation had been loaded. A lower number has no effect.
 * Errors: BG_EINVAL for NULL; BG_EBUSY during a rebuild; BG_ENOMEM.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_require_generation(bg_slot *slot,
                                                       uint64_t generation,
                                                       bg_errinfo *info);

/*
 * Saves the base with bg_save, adding the line "complete: N" to its metadata.
 * Errors: those of bg_save; BG_EINCOMPAT if the slot has no base, if it has a delta or an
 * old filter (first call bg_slot_compact or bg_slot_end_migration), or if a gate of the
 * slot is in doubt, for example because a key could not be added to the base (see
 * bg_gate_write; first rebuild the slot).
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_save(bg_slot *slot, const char *path,
                                         const bg_save_options *options,
                                         bg_errinfo *info);

/* A watch reloads a slot when its file is replaced. Opaque. */
typedef struct bg_watch bg_watch;

/*
 * Creates a watch on a file. A file that is renamed to `path` (as bg_save and bg_publish
 * do), or written and closed, is loaded immediately. All other replacements, such as
 * switching a symbolic link anywhere in the path or swapping a directory, are detected
 * within about a second. The file need not exist yet, but its directory must. If the slot was
 * loaded from a file, the watch first compares that file with the file at `path` and loads the
 * latter if they differ; otherwise, a file that already exists is loaded only once it changes.
 *
 * Either call bg_watch_poll from your own event loop whenever bg_watch_fd is readable, or
 * call bg_watch_thread_start. The slot must outlive the watch.
 * Errors: BG_EIO; BG_EINVAL; BG_ENOMEM.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_watch_create(bg_slot *slot, const char *path,
                                            const bg_reload_options *options,
                                            bg_watch **watch, bg_errinfo *info);

/*
 * Returns a file descriptor for poll or epoll; -1 for NULL. The descriptor becomes
 * readable at least once a second. Thread safety: MT-Safe.
 */
BG_API int bg_watch_fd(const bg_watch *watch);

/*
 * Checks the file, and reloads the slot if the file was replaced. Waits up to `timeout_ms`
 * milliseconds for a replacement (-1: indefinitely, 0: not at all). *reloaded, unless
 * NULL, is set to true if the slot received a new filter.
 * Errors: those of bg_slot_reload; the slot then keeps using its current filter. After
 * BG_ENOMEM and BG_EIO the reload is retried once a second; after other errors, it is
 * retried when the file changes.
 * Thread safety: MT-Excl on the watch.
 */
BG_API BG_MUST_CHECK bg_err bg_watch_poll(bg_watch *watch, int timeout_ms,
                                          bool *reloaded, bg_errinfo *info);

/*
 * Starts a thread that polls the watch until bg_watch_free is called. Failed reloads are
 * reported in bg_slot_info.
 * Errors: BG_EINVAL for NULL, or if the watch already has a thread; BG_EIO if the OS cannot
 * start a thread.
 * Thread safety: MT-Excl on the watch; do not call bg_watch_poll afterwards.
 */
BG_API BG_MUST_CHECK bg_err bg_watch_thread_start(bg_watch *watch, bg_errinfo *info);

/* Stops the thread of a watch and frees the watch; NULL is allowed. Thread safety: MT-Excl. */
BG_API void bg_watch_free(bg_watch *watch);

/* ---- Rebuilding ---------------------------------------------------------------- */

/*
 * A source that supplies all keys for a rebuild. `next` stores up to `max_keys` keys at
 * `keys`, and the number of stored keys in *n; 0 marks the end. The keys must stay valid
 * until the next call to `next`. If `next` returns an error, the rebuild fails with that
 * error. `rewind` restarts the source at the first key. A rebuild calls it first, and again
 * after counting the keys. It is NULL if the source can be read only once; `next` must then
 * begin at the first key.
 */
typedef struct bg_source {
    bg_err (*next)(void *context, bg_bytes *keys, size_t max_keys, size_t *n,
                   bg_errinfo *info);
    bg_err (*rewind)(void *context, bg_errinfo *info);
    void *context;
    uint64_t count; /* number of keys; 0 if unknown */
} bg_source;

/* The progress of a rebuild. */
typedef struct bg_rebuild_progress {
    uint32_t struct_size; /* sizeof(bg_rebuild_progress) */
    bool counting; /* true while keys are being counted, false while they are added */
    uint64_t keys; /* keys processed so far */
    uint64_t expected;      /* number of keys; 0 if unknown */
    double seconds;         /* elapsed time */
    double keys_per_second; /* average speed */
    double seconds_left;    /* estimated remaining time; negative if unknown */
} bg_rebuild_progress;

/* Options for rebuilding a slot. */
typedef struct bg_rebuild_options {
    uint32_t struct_size; /* sizeof(bg_rebuild_options) */
    uint32_t flags;       /* 0 */
    bg_spec spec;         /* spec for the new filter. If `items` is 0, the filter is
                             sized for the number of keys in the source times
                             `headroom`. If all fields except struct_size are 0, the new
                             filter is like the current base */
    bg_filter *delta;     /* an empty filter that accepts adds from the start of the
                             rebuild, and stays as the delta of the new base. If NULL,
                             the new base accepts the adds */
    double headroom; /* capacity of the new filter as a multiple of the number of keys,
                        up to 1e6; 0 selects 2 */
    uint64_t complete; /* number up to which the source is complete; 0 if unknown */
    /* reports progress, and returns false to cancel the rebuild; may be NULL */
    bool (*progress)(void *context, const bg_rebuild_progress *progress);
    void *context; /* argument of `progress` */
} bg_rebuild_options;

#define BG_REBUILD_OPTIONS_INIT                                                        \
    {                                                                                  \
        sizeof(bg_rebuild_options), 0, BG_SPEC_INIT, 0, 0, 0, 0, 0                     \
    }

/* The result of a rebuild. */
typedef struct bg_rebuild_report {
    uint32_t struct_size; /* sizeof(bg_rebuild_report) */
    bool undersized;      /* true if the source had more keys than planned */
    uint64_t keys;        /* number of keys received */
    uint64_t items;       /* number of keys the new filter is sized for */
    double seconds;       /* elapsed time */
} bg_rebuild_report;

/*
 * Builds a new base from a source while the slot is in use, and then replaces the base,
 * the delta and the old filter with the new base. Runs in the caller's thread. `report`,
 * unless NULL, describes the result.
 *
 * No key is lost: before the source is read, the new base (or `delta`) starts to receive
 * every key that is added through the slot. The call transfers ownership of `delta` to the
 * slot, even on error.
 *
 * If spec.items is 0, the new filter is sized for the actual number of keys times
 * `headroom`. If source->count is 0 as well, the source is read twice: once to count its
 * keys, and once to add them. Fields that `spec` leaves unset (kind, rate, hash) are
 * copied from the current base. A static filter is built from the hashes of all keys (8
 * bytes each), and requires a `delta`.
 * Errors: those of the source; BG_ECANCELED; BG_EBUSY during another rebuild; BG_EFULL if
 * a kind with BG_TRAIT_FILLS_UP was sized too small; BG_ENOTSUP if spec.items and
 * source->count are 0 and the source cannot be rewound; BG_EINVAL; BG_ENOMEM. On error the
 * slot keeps its filters, and keeps `delta` as well if `delta` has started to accept adds.
 * After several failed rebuilds, the slot keeps its last delta and frees the delta that
 * was passed in.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_rebuild(bg_slot *slot, const bg_source *source,
                                            const bg_rebuild_options *options,
                                            bg_rebuild_report *report,
                                            bg_errinfo *info);

/* A rebuild for which the caller supplies the keys. Opaque. */
typedef struct bg_rebuild bg_rebuild;

/*
 * Starts a rebuild for which the caller supplies the keys, from any number of threads. For
 * example, the keys may come from a client:
 *
 *     how.spec.items = 1000000;                          // including keys added later
 *     if (bg_slot_begin_rebuild(slot, &how, &rebuild, &why))
 *         return 1;
 *     while ((n = read_keys(keys)))                      // reads the backing store from here
 *         if (bg_rebuild_add_many(rebuild, bg_keys_bytes(keys, n), &why))
 *             break;                                     // the commit will fail as well
 *     err = bg_rebuild_commit(rebuild, NULL, &why);
 *
 * When the call returns, the new base (or `delta`) receives every add, and all adds that
 * bypassed it have finished. No key is lost if you read the backing store after the call.
 * `progress` is not called. Until bg_rebuild_commit or bg_rebuild_abort, all other changes to the
 * slot except merges fail with BG_EBUSY, and the slot must not be freed. The call transfers
 * ownership of `delta` to the slot, even on error.
 * Errors: those of bg_slot_rebuild; BG_EINVAL if spec.items is 0. On error *rebuild is
 * NULL.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_begin_rebuild(bg_slot *slot,
                                                  const bg_rebuild_options *options,
                                                  bg_rebuild **rebuild,
                                                  bg_errinfo *info);

/*
 * Adds keys to the new filter.
 * Errors: BG_EFULL if a kind with BG_TRAIT_FILLS_UP is full; BG_EINCOMPAT for hashes from
 * a different hasher; BG_ENOMEM for a static kind. After these errors, keys are missing from the
 * new filter, so bg_rebuild_commit returns the same error. BG_EINVAL for NULL.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_rebuild_add_many(bg_rebuild *rebuild, bg_keys keys,
                                                bg_errinfo *info);

/*
 * Finishes a rebuild by replacing the slot's filters with the new base. Frees the handle,
 * even on error. `report`, unless NULL, describes the result.
 * Errors: the error of the first bg_rebuild_add_many call that failed; those of
 * bg_slot_rebuild. On error the slot keeps its filters, plus `delta` if there is one.
 * Thread safety: MT-Excl on the rebuild, so call it after the last add has returned.
 */
BG_API BG_MUST_CHECK bg_err bg_rebuild_commit(bg_rebuild *rebuild,
                                              bg_rebuild_report *report,
                                              bg_errinfo *info);

/*
 * Abandons a rebuild and frees the handle; NULL is allowed. The slot keeps its filters,
 * plus `delta` if there is one. Thread safety: MT-Excl on the rebuild.
 */
BG_API void bg_rebuild_abort(bg_rebuild *rebuild);

/* ---- Information ---------------------------------------------------------------- */

/* See bg_slot_get_info. Counters start at 0 when the slot is created. */
typedef struct bg_slot_info {
    uint32_t struct_size; /* sizeof(bg_slot_info), set by the caller */
    uint32_t filters;     /* number of filters in the list */
    uint64_t queries;     /* number of keys queried */
    uint64_t maybes;      /* number of queries answered "maybe" */
    uint64_t adds;        /* number of keys added */
    uint64_t news;        /* number of added keys that were certainly new */
    uint64_t refused;     /* number of calls in which an add was refused */
    uint64_t swaps;       /* number of times the base was replaced, for any reason */
    uint64_t reloads;     /* number of successful reloads */
    uint64_t reload_failures;  /* number of failed reloads */
    uint64_t reload_unchanged; /* number of reloads of a file with the current digest */
    uint64_t rebuilds;         /* number of successful rebuilds */
    uint64_t rebuild_failures; /* number of failed rebuilds */
    uint64_t compactions;      /* number of merges of a delta into the base */
    uint64_t retired;          /* number of replaced lists that still have readers */
    uint64_t complete;         /* see bg_slot_complete_to */
    uint64_t generation;       /* see bg_slot_generation */
    uint64_t base_since; /* time on the slot's clock when the base was installed */
    bool rebuilding;     /* true if a rebuild is in progress */
    bool migrating;      /* true if a migration is in progress */
    char digest[BG_DIGEST_TEXT_BYTES]; /* digest of the base's file, or "" */
    bg_errinfo last_failure;           /* error of the last failed reload or rebuild */
} bg_slot_info;

/*
 * Describes a slot.
 * Errors: BG_EINVAL for NULL or an unknown struct_size.
 * Thread safety: MT-Safe. Cost: reads a few cache lines per CPU.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_get_info(const bg_slot *slot, bg_slot_info *out);

/* Number of keys that bg_slot_get_health queries to measure the false-positive rate. */
#define BG_SLOT_PROBES 16384

/* The combined state of all queried filters in a slot. See bg_slot_get_health. */
typedef struct bg_slot_health {
    uint32_t struct_size; /* sizeof(bg_slot_health), set by the caller */
    bool degraded;        /* true if damaged parts of a file answer "maybe" */
    bool overflowed;  /* true if a key did not fit, so a filter answers "maybe" to every
                         query; see bg_filter_info */
    uint32_t filters; /* number of queried filters */
    uint64_t bytes;   /* total size of the queried filters in bytes */
    uint64_t bits, ones;    /* number of bits, and number of set bits */
    double fill;            /* fill of the fullest filter */
    uint64_t capacity;      /* number of keys the base and delta were sized for */
    bg_estimate items;      /* number of distinct keys, estimated from the fill */
    double target;          /* false-positive rate that the base was sized for */
    double rate;            /* predicted false-positive rate of all filters combined */
    bg_estimate measured;   /* false-positive rate measured with BG_SLOT_PROBES absent
                               keys, chosen differently each time */
    double bits_per_insert; /* bits set per new key; 0 if there were no adds or the
                               value was not measured */
    double honest_per_insert; /* bits that a key would set without an attack */
    bool polluted;            /* true if bits_per_insert is significantly higher than
                                 honest_per_insert */
    uint32_t rate_health; /* a bg_health (inspect.h): `rate` compared with `target` */
} bg_slot_health;

/*
 * Describes the state of the filters in a slot, and measures the false-positive rate with
 * probes. The probes do not count as queries in bg_slot_info.
 * Errors: BG_EINVAL for NULL or an unknown struct_size.
 * Thread safety: MT-Safe. Cost: reads every byte.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_get_health(const bg_slot *slot,
                                               bg_slot_health *health);

/*
 * Estimates the same values as bg_slot_get_health, from a sample of about `max_bytes`
 * bytes of each part of the filters (0: all bytes); see bg_filter_sample_info. `polluted`
 * is set only if the sampling error cannot explain the difference.
 * Errors: those of bg_slot_get_health.
 * Thread safety: MT-Safe. Cost: reads the sample and performs BG_SLOT_PROBES queries.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_sample_health(const bg_slot *slot,
                                                  uint64_t max_bytes,
                                                  bg_slot_health *health);

/* Reasons to rebuild a slot. */
enum {
    BG_REASON_FILL = 1u << 0,      /* the key count is near or above the capacity */
    BG_REASON_PREDICTED = 1u << 1, /* the predicted false-positive rate is too high */
    BG_REASON_OBSERVED = 1u << 2,  /* the observed rate (lower bound) is too high */
    BG_REASON_AGE = 1u << 3,       /* the base is too old */
    BG_REASON_DEGRADED = 1u << 4,  /* a filter is damaged or has overflowed */
    BG_REASON_POLLUTED = 1u << 5   /* added keys set a suspicious number of bits */
};

/*
 * The limits above which a slot should be rebuilt. 0 disables a limit. BG_REASON_DEGRADED
 * and BG_REASON_POLLUTED always apply.
 */
typedef struct bg_policy {
    uint32_t struct_size; /* sizeof(bg_policy) */
    uint32_t flags;       /* 0 */
    double fill;          /* maximum ratio of items to capacity, such as 0.9 */
    double predicted;     /* maximum ratio of predicted rate to target, such as 1.25 */
    double observed;      /* maximum ratio of observed rate to target */
    uint64_t age;         /* maximum age of the base in nanoseconds */
} bg_policy;

#define BG_POLICY_INIT                                                                 \
    {                                                                                  \
        sizeof(bg_policy), 0, BG_HEALTH_ITEMS_WATCH, BG_HEALTH_RATE_WATCH, 1.5, 0      \
    }

/*
 * Returns the reasons to rebuild a slot now, ORed together; 0 if there are none. A NULL
 * policy selects BG_POLICY_INIT. `observed` is the false-positive rate that a gate has
 * observed (bg_gate_info.observed), or NULL.
 * Thread safety: MT-Safe. Cost: same as bg_slot_get_health.
 */
BG_API uint32_t bg_slot_advise(const bg_slot *slot, const bg_policy *policy,
                               const bg_estimate *observed);

#ifdef __cplusplus
}
#endif

#endif
