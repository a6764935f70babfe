/*
 * slot.h - a place for a filter that changes while it is being used.
 *
 * A filter in production is loaded, replaced, rebuilt and migrated under load. A slot is
 * what the readers hold on to meanwhile:
 *
 *     bg_slot *users;
 *     bg_slot_create(filter, NULL, &users, NULL);        // the slot now owns the filter
 *     bg_slot_add(users, "alice", 5, NULL);
 *     if (!bg_slot_may_contain(users, "bob", 3))
 *         return NOT_FOUND;                              // certain
 *     bg_slot_rebuild(users, &all_users, &how, NULL, NULL);  // elsewhere, meanwhile
 *
 * Inside there is a short list of filters, and which of them are asked and which take adds:
 *
 *                          asked                 takes adds
 *     plain                base                  base
 *     sealed               base                  nobody: adds are refused
 *     layered              base, delta           delta
 *     during a migration   base, old             base, old
 *     during a rebuild     as before             as before, and the next base
 *
 * "No" is said only if every filter that is asked says no. Every change replaces the list
 * by another one in a single atomic step; the steps are such that a key which was added
 * before a query began is found by it, whichever lists the two of them saw.
 *
 * Readers never wait. To use the list a thread counts itself in, in a cache line of its
 * processor, and out when it is done. What was replaced is freed when its last reader has
 * left, by whoever leaves last. Changes wait for each other, and some wait for readers.
 *
 * Caveats
 *   - Plain slots cannot be reloaded from a file as they are: what was added since the file
 *     was made would be lost, so that is refused; that of a base with a merged delta also,
 *     unless the file says that it is as complete. Say BG_SLOT_DISCARD if the new filter has
 *     it all, or keep adds in a delta (bg_slot_set_delta).
 *   - Without any filter every query answers "maybe", and adds are refused. So it is without a
 *     base, but that a delta takes adds, while the first one is being made.
 *   - Do not change a slot while you have it pinned: it would wait for yourself.
 */
#ifndef BLOOMGATE_SLOT_H
#define BLOOMGATE_SLOT_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/file.h"
#include "bloomgate/filter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A slot. Opaque. */
typedef struct bg_slot bg_slot;

enum {
    /* The filter takes no adds: they go to a delta, or are refused. */
    BG_SLOT_SEALED = 1u << 0,
    /* What was added to the filter that is replaced is in the new one, or may be lost. */
    BG_SLOT_DISCARD = 1u << 1,
    /* Reloads: the kind of filter, or its hash, may be another one than before. */
    BG_SLOT_ANY_KIND = 1u << 2,
    BG_SLOT_ANY_HASH = 1u << 3,
    /* Reloads: map the file instead of reading it. Only for files that are always replaced by
     * rename and never written in place: docs/slots.md, "Mapping". */
    BG_SLOT_MAP = 1u << 4,
    /* Reloads: a file of a lower generation than the present one is good enough. */
    BG_SLOT_ANY_GENERATION = 1u << 5,
    /* Slots: what is counted is counted in one place, not in one for each processor: for many
     * slots that are used by one thread at a time. */
    BG_SLOT_SMALL = 1u << 6
};

/* How a slot is made; NULL or all zero but struct_size: plain. */
typedef struct bg_slot_options {
    uint32_t struct_size;             /* sizeof(bg_slot_options) */
    uint32_t flags;                   /* BG_SLOT_SEALED, BG_SLOT_SMALL */
    uint64_t complete;                /* see bg_slot_complete_to */
    uint64_t (*clock)(void *context); /* nanoseconds, monotonic; NULL: the system's */
    void *context;
    const bg_allocator *allocator; /* of the slot, not of its filters; or NULL */
} bg_slot_options;

#define BG_SLOT_OPTIONS_INIT                                                           \
    {                                                                                  \
        sizeof(bg_slot_options), 0, 0, 0, 0, 0                                         \
    }

/* ---- Life ---------------------------------------------------------------------- */

/*
 * Creates a slot with that filter, which from then on belongs to it; NULL: without one. A
 * static filter is sealed anyway. A filter made with BG_SPEC_EXCLUSIVE is refused unless the
 * slot is sealed. Slots that get their filters from files should be sealed, see above.
 * Errors: BG_EINVAL, BG_ENOMEM; the filter is then still the caller's.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_create(bg_filter *filter,
                                           const bg_slot_options *options,
                                           bg_slot **slot, bg_errinfo *info);

/* Frees a slot and its filters; NULL is allowed. Thread safety: MT-Excl. */
BG_API void bg_slot_free(bg_slot *slot);

/*
 * Has the memory of a slot and of its filters moved, as far as it came from an allocator: see
 * bg_filter_relocate. *slot is where the slot is then. Whatever else knows the slot, such as a gate
 * or a watch, must not outlive that.
 * Errors: BG_EBUSY while something is pinned or a rebuild is under way, BG_EINVAL for NULL; nothing has
 * changed then. Thread safety: MT-Excl.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_relocate(bg_slot **slot, const bg_mover *mover,
                                             bg_errinfo *info);

/* ---- Keys ---------------------------------------------------------------------- */

/*
 * False: certainly never added. As bg_filter_may_contain and bg_filter_may_contain_many.
 * Thread safety: MT-Safe, waits for nobody. Cost: that of the filter, and two atomic
 * additions per call.
 */
BG_API bool bg_slot_may_contain(const bg_slot *slot, const void *key, size_t len);
BG_API bool bg_slot_may_contain_u64(const bg_slot *slot, uint64_t key);
BG_API size_t bg_slot_may_contain_many(const bg_slot *slot, const bg_bytes *keys,
                                       size_t n, uint64_t *maybe);
BG_API size_t bg_slot_may_contain_many_u64(const bg_slot *slot, const uint64_t *keys,
                                           size_t n, uint64_t *maybe);

/*
 * The same for a request that is about everything up to a number, such as the position in
 * the log of a database that the caller has seen: "no" only if the slot is complete up to
 * there, see bg_slot_complete_to.
 */
BG_API bool bg_slot_may_contain_up_to(const bg_slot *slot, const void *key, size_t len,
                                      uint64_t sequence);

/*
 * Adds a key to every filter that takes adds; *is_new, unless NULL, says whether it
 * certainly was in none of those that are asked.
 * Errors: BG_EFULL, if one of them has no room: the key is then found all the same if that
 * filter was not the one that is asked, so take it for not added; BG_ENOTSUP when nobody
 * takes adds; BG_EINVAL for NULL.
 * Thread safety: MT-Safe, waits for nobody (but see the kinds).
 */
BG_API BG_MUST_CHECK bg_err bg_slot_add(bg_slot *slot, const void *key, size_t len,
                                        bool *is_new);
BG_API BG_MUST_CHECK bg_err bg_slot_add_u64(bg_slot *slot, uint64_t key, bool *is_new);

/* Adds n keys in order, up to the first that does not fit; *done, unless NULL, says how
 * many are in, *added how many of them were certainly new: a key that occurs twice, at most
 * once. */
BG_API BG_MUST_CHECK bg_err bg_slot_add_many(bg_slot *slot, const bg_bytes *keys,
                                             size_t n, size_t *done, size_t *added);
BG_API BG_MUST_CHECK bg_err bg_slot_add_many_u64(bg_slot *slot, const uint64_t *keys,
                                                 size_t n, size_t *done, size_t *added);

/* The same, but says which were certainly new, in a bitmap as those of filter.h; NULL leaves
 * it out. It is written whatever comes of it. */
BG_API BG_MUST_CHECK bg_err bg_slot_add_many_which(bg_slot *slot, const bg_bytes *keys,
                                                   size_t n, uint64_t *is_new,
                                                   size_t *done);

/* Takes back one add of a key, from every filter that takes adds: see bg_filter_remove.
 * BG_ENOTSUP unless there is just one, of a kind that can. */
BG_API bg_err bg_slot_remove(bg_slot *slot, const void *key, size_t len);

/*
 * How often a key may have been added, as bg_filter_count, summed over the filters that are
 * asked: during a migration both count what was added to both. Without any filter: 1.
 * Thread safety: MT-Safe, waits for nobody.
 */
BG_API uint64_t bg_slot_count(const bg_slot *slot, const void *key, size_t len);

/* ---- Hashes -------------------------------------------------------------------- */

/*
 * A key that is used more than once (asked, added, written to a log) need be hashed only
 * once. But a slot may get filters with another hasher at any time, and a hash of one hasher
 * means nothing to the filters of another. So hashes go with `check`, the value that tells
 * the hasher (bg_hasher_check), and each function compares it with the filters concerned,
 * in the very list that it uses:
 *
 *     err = bg_slot_hash_many(slot, keys, n, hashes, &check);
 *     if (!err)
 *         err = bg_slot_add_many_hash(slot, hashes, n, check, is_new, &done);
 *     if (err == BG_EINCOMPAT)                           // two hashers, or another one
 *         err = bg_slot_add_many_which(slot, keys, n, is_new, &done);
 *
 * bg_slot_hash_many puts the hashes of n keys to `hashes`, and the check value of their
 * hasher to *check; with n 0 only that.
 * Errors: BG_EINCOMPAT when the filters of the list have different hashers, as during a
 * migration to, or a rebuild with, another secret; BG_ENOTFOUND when there is no filter;
 * BG_EINVAL for NULL. *check is 0 then.
 * Thread safety: MT-Safe, waits for nobody.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_hash_many(const bg_slot *slot, const bg_bytes *keys,
                                              size_t n, uint64_t *hashes,
                                              uint64_t *check);

/* As bg_slot_may_contain_many. If a filter that is asked has another hasher all answers
 * are "maybe". */
BG_API size_t bg_slot_may_contain_many_hash(const bg_slot *slot, const uint64_t *hashes,
                                            size_t n, uint64_t check, uint64_t *maybe);

/*
 * As bg_slot_add_many_which. A filter that is asked, takes no adds and has another hasher
 * could have any key, so nothing is certainly new then.
 * Errors: as there; BG_EINCOMPAT, with nothing done, when a filter that takes adds has
 * another hasher. That is not counted as refused (bg_slot_info): add the keys instead.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_add_many_hash(bg_slot *slot, const uint64_t *hashes,
                                                  size_t n, uint64_t check,
                                                  uint64_t *is_new, size_t *done);

/* As bg_slot_remove; BG_EINCOMPAT, with nothing done, when the filter has another hasher. */
BG_API bg_err bg_slot_remove_hash(bg_slot *slot, uint64_t hash, uint64_t check);

/* ---- Pins ---------------------------------------------------------------------- */

/* The present list, held. Not for long: what is replaced meanwhile cannot be freed. */
typedef struct bg_pin {
    const void *opaque[3];
} bg_pin;

/* What a filter in a slot is there for. */
typedef enum bg_role {
    BG_ROLE_BASE = 0,
    BG_ROLE_DELTA = 1, /* what was added since the base was sealed */
    BG_ROLE_OLD = 2,   /* the base before, asked as well during a migration */
    BG_ROLE_NEXT = 3   /* the base to come: takes adds, is not asked yet */
} bg_role;

/*
 * Holds the list; bg_slot_unpin lets go of it, in the same thread or another one.
 * An owner who saves a slot himself takes his copy that way: pin, bg_filter_copy of every
 * filter in the list, unpin, and write the copies at leisure. Each has all keys whose adds
 * had returned before, and of those that run at the same time some; so if no others may be
 * in it, writers are to be kept out meanwhile, by a lock of the owner's.
 * Thread safety: MT-Safe, waits for nobody.
 */
BG_API void bg_slot_pin(const bg_slot *slot, bg_pin *pin);
BG_API void bg_slot_unpin(const bg_slot *slot, bg_pin *pin);

/* Filter i of the list and its role, or NULL beyond the last. Valid until the pin is let
 * go. */
BG_API const bg_filter *bg_pin_filter(const bg_pin *pin, size_t i, bg_role *role);

/* ---- Changes ------------------------------------------------------------------- */

/*
 * Makes `filter` the base; the slot owns it from then on. A delta stays. It is sealed if
 * the one before was, or if there was none and the slot was made so.
 * `complete`: up to where it is, see bg_slot_complete_to.
 * Without BG_SLOT_DISCARD in `flags` no key that was added through the slot is lost. A base has
 * such keys if it was merged with a delta, was rebuilt, or took adds before it was sealed (by
 * bg_slot_set_delta or a rebuild with a delta, even a failed one). Such a base is replaced only by a
 * filter that is complete up to where the slot was at that time. That number counts only if
 * bg_slot_advance was called after the last of these adds. Every later replacement must be as
 * complete as well.
 * Errors: BG_EINCOMPAT when keys would be lost, when the base takes adds, or when it ended the
 * doubt of a gate (bg_gate_write), and `flags` has no BG_SLOT_DISCARD; BG_EBUSY during a rebuild,
 * or if a rebuild or a replacement with BG_SLOT_DISCARD started after this call and finished
 * first; BG_EINVAL; BG_ENOMEM. On error the slot is unchanged, and the caller still owns the
 * filter.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_swap(bg_slot *slot, bg_filter *filter,
                                         uint64_t complete, uint32_t flags,
                                         bg_errinfo *info);

/*
 * Begins a migration: `filter`, with another hash, secret or size, becomes the base, and
 * the present one is asked too, and both take adds. bg_slot_end_migration ends it and lets go of
 * the old one (or of the new one, with `back`). Before that the new one must have got all
 * the keys: by bg_slot_rebuild, which ends a migration as well, or because the old ones
 * have expired.
 * Errors: as bg_slot_swap; BG_EBUSY when there is one already; BG_EINCOMPAT when the
 * present one takes adds and `filter` cannot: what is added meanwhile would go with the old
 * one. bg_slot_end_migration needs no memory; with `back` it returns BG_EINCOMPAT after
 * bg_slot_compact, which merges the delta into the new filter only.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_begin_migration(bg_slot *slot, bg_filter *filter,
                                                    bg_errinfo *info);
BG_API BG_MUST_CHECK bg_err bg_slot_end_migration(bg_slot *slot, bool back,
                                                  bg_errinfo *info);

/*
 * Seals the base and lets `delta`, an empty filter that the slot owns from then on, take
 * the adds. If there is a delta already, that one is asked but takes no more adds: the two
 * become one by bg_slot_compact. Returns when the last add to what is now sealed has
 * ended.
 * If you use bg_slot_complete_to: the delta is taken to have everything beyond that number, so
 * nothing beyond it may have been added before, or a base that is put under the delta later
 * is believed to be more complete than it is. Let writers pause, and bg_slot_advance to the
 * last number that was added. The same holds for bg_slot_compact and bg_slot_rebuild.
 * Errors: as bg_slot_swap; BG_EBUSY also when two deltas are there already.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_set_delta(bg_slot *slot, bg_filter *delta,
                                              bg_errinfo *info);

/*
 * Makes a new base of the base and the delta by merging them, if their kinds allow that
 * (bg_filter_merge, or a resized quotient), with `delta`, an empty filter, for the adds to
 * come. The base is copied first, so readers see nothing of it. Where filters cannot be
 * merged the keys are needed: bg_slot_rebuild.
 * Two deltas that are there already are merged both.
 * Errors: as bg_slot_set_delta; BG_EINCOMPAT, BG_ENOTSUP, BG_EFULL as bg_filter_merge. Then
 * nothing is lost: the slot has its old base and both deltas. `delta` belongs to the slot
 * from the call on, whatever comes of it.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_compact(bg_slot *slot, bg_filter *delta,
                                            bg_errinfo *info);

/*
 * Forgets everything: an empty filter like the base takes its place, in one step, and delta
 * and old filter go. It takes adds if anybody did; a base of a static kind cannot, and keeps
 * an empty delta like the present one. Adds that run at the same time may be forgotten or
 * not. bg_slot_complete_to becomes 0: advance when you know better.
 * Errors: BG_ENOTFOUND when there is no base; BG_EBUSY during a rebuild; BG_ENOMEM. On error
 * nothing has changed.
 * Thread safety: MT-Safe. Cost: a filter's memory, until the last reader of the old one has
 * left.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_clear(bg_slot *slot, bg_errinfo *info);

/*
 * Adds everything that is in `other`, which stays the caller's, to every filter that takes
 * adds: see bg_filter_merge. Readers see it come bit by bit. It is not counted as adds.
 * Errors: those of bg_filter_merge; BG_ENOTSUP when nobody takes adds. BG_EINCOMPAT also when
 * only the next base of a rebuild differs from `other`, in size for instance: then merge
 * again when that is over. Nothing has changed then; after BG_EFULL and BG_ENOMEM, during a
 * migration, one of the two may have it.
 * Thread safety: MT-Safe; waits for other changes. Cost: reads both, writes one.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_merge(bg_slot *slot, const bg_filter *other,
                                          bg_errinfo *info);

/*
 * Moves the windows among the filters that take adds: see bg_filter_rotate. One that is
 * sealed stays as it is.
 * Errors: BG_ENOTSUP when there is none; BG_EINVAL for NULL.
 * Thread safety: MT-Safe. Cost: as there.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_rotate(bg_slot *slot, uint64_t now,
                                           bg_errinfo *info);

/* ---- Completeness -------------------------------------------------------------- */

/*
 * Up to where the slot knows everything: a number that grows with the truth, such as the
 * position in its log or the time. A filter is only as good as what it was told; what other
 * machines wrote since is not in it. bg_slot_advance says that everything up to a number is
 * in by now; lower numbers than the present one change nothing. A swap or reload of a base
 * that is less complete lowers it: add what lies between before you advance again, and do not
 * advance while it happens, since the slot cannot tell what is missing. Do not advance to a
 * number while keys with higher numbers are added, or were: they count as keys up to that number
 * when a file replaces the base (bg_slot_swap). Thread safety: MT-Safe.
 */
BG_API uint64_t bg_slot_complete_to(const bg_slot *slot);
BG_API void bg_slot_advance(bg_slot *slot, uint64_t sequence);

/* ---- Files --------------------------------------------------------------------- */

/* How to reload; NULL or all zero but struct_size: as it is. */
typedef struct bg_reload_options {
    uint32_t struct_size;            /* sizeof(bg_reload_options) */
    uint32_t flags;                  /* BG_SLOT_DISCARD, BG_SLOT_ANY_KIND, ... */
    const bg_open_options *opening;  /* the secret and so on; or NULL. A watch keeps
                                        the pointer: it must outlive that, as must all it
                                        points to */
    uint8_t key_id[BG_KEY_ID_BYTES]; /* that the file must have; all zero: that of the
                                        file before, if there was one */
} bg_reload_options;

#define BG_RELOAD_OPTIONS_INIT                                                         \
    {                                                                                  \
        sizeof(bg_reload_options), 0, 0,                                               \
        {                                                                              \
            0                                                                          \
        }                                                                              \
    }

/*
 * Replaces the base by the filter of a file. The file is verified (all of it, also if it
 * is then mapped), its canaries are asked, and it is compared with the present filter:
 * kind, hash profile and secret, key id, generation. When anything is wrong the old filter
 * goes on serving, the failure is counted and kept (bg_slot_info), and told. A file with
 * the digest of the present one is not read again.
 * The generation must not be below that of the last file that was loaded, even if other changes
 * replaced the base since. BG_SLOT_ANY_GENERATION accepts a lower one, and bg_slot_clear resets
 * the number.
 * Errors: those of bg_verify and bg_open; BG_EINCOMPAT when it is another filter than
 * expected; those of bg_slot_swap.
 * The line "complete: N" in the metadata of a file says up to where it is complete.
 * Thread safety: MT-Safe; of two reloads at once one waits for the other.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_reload(bg_slot *slot, const char *path,
                                           const bg_reload_options *options,
                                           bg_errinfo *info);

/*
 * bg_slot_generation returns the lowest generation that bg_slot_reload accepts: that of the last
 * file, or 0. bg_slot_require_generation raises it, as if a file of that generation had been loaded;
 * a lower number changes nothing. Callers that save the content of a slot themselves and later
 * re-create the slot must save this number as well.
 * Errors: BG_EINVAL for NULL; BG_EBUSY during a rebuild; BG_ENOMEM.
 * Thread safety: MT-Safe; bg_slot_generation takes no lock.
 */
BG_API uint64_t bg_slot_generation(const bg_slot *slot);
BG_API BG_MUST_CHECK bg_err bg_slot_require_generation(bg_slot *slot,
                                                       uint64_t generation,
                                                       bg_errinfo *info);

/*
 * Saves the base as it is, by bg_save, with "complete: N" in its metadata. A slot with
 * delta or old filter is saved only after bg_slot_compact or bg_slot_end_migration: BG_EINCOMPAT. The
 * same error is returned while the base lacks a key that a gate could not add (bg_gate_write):
 * rebuild the slot first.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_save(bg_slot *slot, const char *path,
                                         const bg_save_options *options,
                                         bg_errinfo *info);

/*
 * Watches a file, and reloads a slot when the file is replaced. A file that is moved to its path
 * (bg_save and bg_publish do that), or written and closed, is loaded at once. All other ways to
 * replace it, such as switching a symbolic link anywhere in the path or swapping a directory, are
 * detected within about a second. Either call bg_watch_poll from your own loop whenever
 * bg_watch_fd is readable, which happens at least once a second; or call
 * bg_watch_thread_start, which polls in a separate thread until bg_watch_free. `path` need not
 * exist yet, but its directory must. If the slot was loaded from a file, the watch starts by
 * comparing that file with the one at the path; otherwise an existing file is loaded when it
 * changes.
 * bg_watch_poll waits at most `timeout_ms` (-1: for ever, 0: not at all); *reloaded, unless
 * NULL, says whether the slot has another filter now. Its error is that of the reload; the
 * slot serves on. After BG_ENOMEM and BG_EIO the reload is retried once a second; after other
 * errors when the file changes.
 * Errors: BG_EIO, BG_EINVAL, BG_ENOMEM; BG_ENOTSUP where the system cannot watch.
 */
typedef struct bg_watch bg_watch;
BG_API BG_MUST_CHECK bg_err bg_watch_create(bg_slot *slot, const char *path,
                                            const bg_reload_options *options,
                                            bg_watch **watch, bg_errinfo *info);
BG_API int bg_watch_fd(const bg_watch *watch);
BG_API BG_MUST_CHECK bg_err bg_watch_poll(bg_watch *watch, int timeout_ms,
                                          bool *reloaded, bg_errinfo *info);
BG_API BG_MUST_CHECK bg_err bg_watch_thread_start(bg_watch *watch, bg_errinfo *info);
BG_API void bg_watch_free(bg_watch *watch);

/* ---- Rebuilding ---------------------------------------------------------------- */

/*
 * Where all the keys are. `next` puts up to `room` keys to `keys` and their number to *n, 0
 * at the end; they stay valid until the next call. An error of it ends the rebuild and is
 * what that returns. `rewind` begins again from the first key; NULL: it can be read once.
 */
typedef struct bg_source {
    bg_err (*next)(void *context, bg_bytes *keys, size_t room, size_t *n,
                   bg_errinfo *info);
    bg_err (*rewind)(void *context, bg_errinfo *info);
    void *context;
    uint64_t count; /* how many keys there are; 0: unknown */
} bg_source;

/* How far a rebuild is. */
typedef struct bg_rebuild_progress {
    uint32_t struct_size; /* sizeof(bg_rebuild_progress) */
    uint32_t counting;    /* 1: keys are being counted, 0: added */
    uint64_t keys;        /* so far */
    uint64_t expected;    /* 0: unknown */
    double seconds;       /* since the beginning */
    double keys_per_second;
    double seconds_left; /* below 0: unknown */
} bg_rebuild_progress;

typedef struct bg_rebuild_options {
    uint32_t struct_size; /* sizeof(bg_rebuild_options) */
    uint32_t flags;       /* 0 */
    bg_spec spec; /* of the new filter; items 0: the source's count, times headroom. All
                     zero but struct_size: like the present base */
    bg_filter *delta;  /* an empty filter that takes the adds from the beginning on, and
                          stays as the delta of the new base; or NULL: the new base takes
                          them itself */
    double headroom;   /* how many times the keys it shall be for; 0: 2 */
    uint64_t complete; /* up to where the source is complete when it is read */
    bool (*progress)(void *context,
                     const bg_rebuild_progress *progress); /* false: stop;
                                                              or NULL */
    void *context;
} bg_rebuild_options;

#define BG_REBUILD_OPTIONS_INIT                                                        \
    {                                                                                  \
        sizeof(bg_rebuild_options), 0, BG_SPEC_INIT, 0, 0, 0, 0, 0                     \
    }

/* What a rebuild did. */
typedef struct bg_rebuild_report {
    uint32_t struct_size; /* sizeof(bg_rebuild_report) */
    uint32_t undersized;  /* 1: more keys came than it was made for */
    uint64_t keys;        /* that the source gave */
    uint64_t items;       /* what the new filter is made for */
    double seconds;
} bg_rebuild_report;

/*
 * Makes a new base from the source while the slot is in use, and puts it in the place of
 * base, delta and old filter. Every key that is added meanwhile goes to the new one as
 * well (or to `delta`), from before the source is read, so nothing is lost between the two.
 * It is sized by the true number of keys: that of the source, or it is read twice, the
 * first time to count. What `spec` leaves out (kind, rate, hash) is as in the present base.
 * A static kind is built from the hashes of all keys, 8 bytes each, and needs a `delta`.
 * Runs in the caller's thread. When it fails the slot has the filters it had; a `delta`
 * that has begun to take adds by then stays with it as well (of many that failed, the last
 * ones share theirs). `delta` belongs to the slot from the call on, whatever comes of it.
 * Errors: the source's; BG_ECANCELED; BG_EBUSY, one at a time; BG_EFULL when a kind that
 * can be full was too small; BG_ENOTSUP (count unknown, and no rewind); BG_ENOMEM.
 */
BG_API BG_MUST_CHECK bg_err bg_slot_rebuild(bg_slot *slot, const bg_source *source,
                                            const bg_rebuild_options *options,
                                            bg_rebuild_report *report,
                                            bg_errinfo *info);

/*
 * The same for who hands in the keys himself, as they come from a client or from several
 * threads:
 *
 *     how.spec.items = 1000000;                          // with room for what is to come
 *     if (bg_slot_begin_rebuild(slot, &how, &rebuild, NULL))
 *         return 1;
 *     while ((n = read_keys(keys)))                      // all of the truth, from now on
 *         if (bg_rebuild_add_many(rebuild, keys, n, NULL))
 *             break;                                     // then the commit fails as well
 *     err = bg_rebuild_commit(rebuild, NULL, &why);
 *
 * When bg_slot_begin_rebuild returns, every add goes to the new base (or to `delta`) as well,
 * and those that did not are over: so read the truth after that, and nothing is lost between
 * the two. `progress` is not called. Until bg_rebuild_commit or
 * bg_rebuild_abort, each of which ends it and frees the handle whatever comes of it, the slot
 * refuses other changes with BG_EBUSY. The slot must not be freed before that.
 * bg_rebuild_add_many: BG_EFULL, when the filter is of a kind that can be full and has no
 * room; BG_ENOMEM, of a static kind. The new filter lacks keys then, so the commit will
 * return the same and the slot stay as it was.
 * Errors: as bg_slot_rebuild; BG_EINVAL without spec.items. On error of
 * bg_slot_begin_rebuild *rebuild is NULL, and `delta` is the slot's all the same.
 * Thread safety: bg_slot_begin_rebuild and bg_rebuild_add_many MT-Safe; commit and abort are
 * MT-Excl for the handle: after the last add.
 */
typedef struct bg_rebuild bg_rebuild;
BG_API BG_MUST_CHECK bg_err bg_slot_begin_rebuild(bg_slot *slot,
                                                  const bg_rebuild_options *options,
                                                  bg_rebuild **rebuild,
                                                  bg_errinfo *info);
BG_API BG_MUST_CHECK bg_err bg_rebuild_add_many(bg_rebuild *rebuild,
                                                const bg_bytes *keys, size_t n,
                                                bg_errinfo *info);
BG_API BG_MUST_CHECK bg_err bg_rebuild_commit(bg_rebuild *rebuild,
                                              bg_rebuild_report *report,
                                              bg_errinfo *info);
BG_API void bg_rebuild_abort(bg_rebuild *rebuild); /* NULL is allowed */

/* ---- What a slot knows of itself -------------------------------------------------- */

typedef struct bg_slot_info {
    uint32_t struct_size; /* sizeof(bg_slot_info) */
    uint32_t filters;     /* in the list */
    uint64_t queries;     /* keys asked for */
    uint64_t maybes;      /* of them */
    uint64_t adds;        /* keys added */
    uint64_t news;        /* of them certainly new */
    uint64_t refused;     /* adds that failed */
    uint64_t swaps;       /* of the base, for whatever reason */
    uint64_t reloads;     /* that succeeded */
    uint64_t reload_failures;
    uint64_t reload_unchanged; /* the file had the present digest */
    uint64_t rebuilds;
    uint64_t rebuild_failures;
    uint64_t compactions;
    uint64_t retired;    /* lists that wait for their last reader */
    uint64_t complete;   /* see bg_slot_complete_to */
    uint64_t generation; /* of the last file that was loaded: lower ones are refused */
    uint64_t base_since; /* the clock's nanoseconds when the base came */
    uint32_t rebuilding; /* 1: right now */
    uint32_t migrating;
    char digest[BG_DIGEST_TEXT_BYTES]; /* of the file that the base came from, or "" */
    bg_errinfo last_failure;           /* of a reload or rebuild */
} bg_slot_info;

/* Fills in `stats`. Thread safety: MT-Safe. Cost: some cache lines per processor. */
BG_API BG_MUST_CHECK bg_err bg_slot_get_info(const bg_slot *slot, bg_slot_info *stats);

#define BG_SLOT_PROBES 16384

/* The state of all filters of a slot taken together; each is counted, see bg_filter_get_info. */
typedef struct bg_slot_health {
    uint32_t struct_size; /* sizeof(bg_slot_health) */
    uint32_t degraded;    /* 1: parts of a file were damaged, these answer "maybe" */
    uint32_t overflowed;  /* 1: a filter was full: it answers "maybe" */
    uint32_t filters;
    uint64_t bytes;
    uint64_t bits, ones;
    double fill;              /* of the fullest */
    uint64_t capacity;        /* items that base and delta were made for */
    bg_estimate items;        /* that are in, from the fill */
    double target;            /* rate that the base was made for */
    double rate;              /* predicted now, of all that are asked together */
    bg_estimate measured;     /* the same, tried out: share of BG_SLOT_PROBES keys that
                                 nobody has which the slot lets through, other ones each
                                 time; with its 95 % interval */
    double bits_per_insert;   /* set, per add that was new; 0: no adds */
    double honest_per_insert; /* what keys that nobody chose would have set */
    uint32_t polluted;        /* 1: more than that, and more than chance: see docs */
    uint32_t reserved;
} bg_slot_health;

/* Probes are not counted as queries.
 * Errors: BG_EINVAL. Thread safety: MT-Safe. Cost: reads every byte. */
BG_API BG_MUST_CHECK bg_err bg_slot_get_health(const bg_slot *slot,
                                               bg_slot_health *health);

/* The same from about `most` bytes of each part of its filters (0: all), so that it takes no time:
 * see bg_filter_sample_info. Pollution is told of only if the rest cannot make up for it. */
BG_API BG_MUST_CHECK bg_err bg_slot_sample_health(const bg_slot *slot, uint64_t most,
                                                  bg_slot_health *health);

/* Reasons to rebuild. */
enum {
    BG_REASON_FILL = 1u << 0,      /* more items than the policy's share of capacity */
    BG_REASON_PREDICTED = 1u << 1, /* the predicted rate is too high */
    BG_REASON_OBSERVED = 1u << 2,  /* the observed rate is, even its lower bound */
    BG_REASON_AGE = 1u << 3,
    BG_REASON_DEGRADED = 1u << 4, /* damaged, or overflowed */
    BG_REASON_POLLUTED = 1u << 5
};

/* When to rebuild; 0 leaves a reason out, but for the last two, which always count. */
typedef struct bg_policy {
    uint32_t struct_size; /* sizeof(bg_policy) */
    uint32_t flags;       /* 0 */
    double fill;          /* items / capacity, such as 0.9 */
    double predicted;     /* predicted rate / target, such as 1.25 */
    double observed;      /* observed rate / target */
    uint64_t age;         /* nanoseconds since the base came */
} bg_policy;

#define BG_POLICY_INIT                                                                 \
    {                                                                                  \
        sizeof(bg_policy), 0, 0.9, 1.25, 1.5, 0                                        \
    }

/* The reasons there are to rebuild now, 0: none. `observed`: as seen by a gate, or NULL. */
BG_API uint32_t bg_slot_advise(const bg_slot *slot, const bg_policy *policy,
                               const bg_estimate *observed);

#ifdef __cplusplus
}
#endif

#endif
