/*
 * object.h - what a name stands for: a filter with what its users asked for.
 *
 *     BF   what BF.RESERVE makes: grows (scalable) or, NONSCALING, one that can be full
 *          (blocked)
 *     CF   what CF.RESERVE makes: a quotient filter, which counts and deletes as a cuckoo filter
 *          does, and is doubled when it is full instead of being chained
 *     BG   any kind, by BG.CREATE or from a file
 *     and of BF and CF: one that was imported from RedisBloom or valkey-bloom, with its own bits
 *          and hash (foreign)
 *
 * A shape is what is needed to make an empty one, as text in journals and files. It does not
 * change: an object whose filter was replaced by one of another size (rebuilt, folded, loaded
 * again) keeps the shape it was made with, and says `reshaped`.
 *
 * Unknown content. An object whose content came from elsewhere (dump, file, merge) is `imported`:
 * made again from its shape alone, after a crash before the content was safe, its slot has no
 * filter. It then may contain everything, and takes nothing, until it is loaded again. So is one
 * whose dump is arriving in pieces (dump.h).
 *
 * Threads. Queries and adds of objects that `commute` (sets of bits that only fill up) need no
 * lock. All other changes, and those of foreign ones, hold `writing` over recording and doing,
 * so that the journal has the order in which they happened. There is no clearing: another, empty
 * object takes the name instead.
 *
 * Long operations (doubling, folding, merging, copying) hold `writing` from object_occupy to
 * object_vacate. A thread that must not wait for long operations, such as an event loop, claims the object
 * before it changes keys: object_claim either locks `writing`, which is recursive, or soon returns false.
 *
 * What is recorded. An add of a key that a set of bits has already changes nothing, so it is not
 * recorded; a host that promises durability must therefore hold back its reply until everything
 * that was recorded up to then is safe, by whomever: records are written before bits are set, so
 * whoever finds a bit set comes after its record. Two exceptions, where a key that is found need
 * not be found after a crash, since it is one by chance:
 *   - a scalable filter, where it depends on the order of adds which layer a key went to, unless
 *     the host says that it keeps their order (`ordered`);
 *   - a filter that was changed wholesale (merged, folded, rebuilt, loaded again) and whose
 *     checkpoint is not done yet: object_changing and object_keep count these. Nothing is removed
 *     from it until then: done again on what was there before, it might hit another key.
 */
#ifndef COMMAND_OBJECT_H
#define COMMAND_OBJECT_H

#include "host.h"

#include <pthread.h>
#include <stdatomic.h>

enum object_family { OBJECT_BF = 1, OBJECT_CF = 2, OBJECT_BG = 3 };

/* All that was asked for; zero means: not said. */
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
    uint64_t check; /* of the hash with its secret: another one may get the same id */
    /* BF and CF: what INFO says, and how they grow */
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
    /* where it came from */
    uint32_t sealed;   /* 1: takes no items, new content comes in files */
    uint32_t imported; /* 1: content that the shape cannot tell, see above */
    uint32_t foreign;  /* a bg_foreign_format, of whose bits it is */
    uint64_t limit;    /* bytes that it may grow to; 0: what the settings say */
    uint64_t
        generation; /* lowest that BG.RELOAD accepts; 0 in objects, as the slot has it */
};

enum { OBJECT_SHAPE_TEXT = 1024 }; /* with room for the longest of all, twice over */

/* Convert a shape to text, "family=bf kind=scalable items=100 ...", and back; zero values are omitted.
 * Errors: BG_EFORMAT for unknown words, and for values that no command accepts. Text from another server
 * must not set `limit`: each server decides how far its objects may grow. */
size_t object_shape_write(const struct object_shape *shape,
                          char text[OBJECT_SHAPE_TEXT]);
bg_err object_shape_read(const char *text, size_t len, struct object_shape *shape,
                         bg_errinfo *info);

/* Whether it is of a foreign format that objects of its family can have. */
bool object_shape_is_foreign(const struct object_shape *shape);

/* Whether a hash needs a secret. */
bool object_shape_is_keyed(const struct object_shape *shape);

/* The hash of a new object: this profile, with the keyring's current secret if it needs one. */
bg_err object_shape_hash(struct object_shape *shape, uint32_t profile,
                         const struct command_settings *settings, bg_errinfo *info);

/* CF: the size of what is kept of each hash, for its capacity, unless a rate was asked for: with
 * k remainder bits behind log2(capacity) others it can be doubled until it has billions of items
 * before its rate comes to 3 %. */
void object_shape_quotient(struct object_shape *shape);

/* What it asks of the library, but for the hash; `window` is used by windows, and must live as
 * long as the spec. */
void object_shape_spec(const struct object_shape *shape, bg_window_options *window,
                       bg_spec *spec);

struct dump; /* dump.h */
struct load;

struct object {
    struct object_shape shape;
    bool commutes;  /* sets of bits: adds in any order, and again, come to the same */
    bool born_full; /* it was not empty when it was made: from a file, a copy */
    bg_slot *slot;  /* without a filter in it: unknown content; or NULL: */
    bg_foreign *foreign; /* a filter of another module, with a lock of its own */
    pthread_rwlock_t foreign_lock;
    pthread_mutex_t writing;   /* recursive */
    _Atomic uint32_t occupied; /* long operations that hold it, or are about to */
    _Atomic uint64_t
        items; /* added: certainly new ones; all, where adds can be taken back */
    _Atomic uint64_t deleted; /* removes that found something */
    _Atomic uint64_t expansions;
    _Atomic uint64_t refused; /* adds beyond the capacity, which the slot never saw */
    _Atomic bool reshaped;
    _Atomic uint32_t
        unkept; /* wholesale changes whose checkpoint is not done, or failed: */
    _Atomic uint32_t failed;  /* so many */
    bool outgrown;            /* CF: no larger one is allowed; under `writing` */
    _Atomic uint64_t rotated; /* windows: the window's own time at the last move */
    _Atomic uint64_t ahead; /* the difference between that time and the host's ticks, */
    _Atomic bool timed;     /* ... if this host moves the window */
    _Atomic uint64_t said_absent,
        said_present;              /* BG.OBSERVE, of what may be contained */
    _Atomic uint64_t said_missing; /* present, though denied here */
    struct bg_rebuild *rebuild;    /* BG.REBUILD: one in progress, under `writing` */
    uint64_t rebuilt;              /* keys that it was given, likewise */
    pthread_mutex_t dumping; /* for those below; never taken while `writing` is held */
    struct dump *dump;       /* a copy that is being read in pieces, or NULL */
    struct load *load;       /* pieces that are arriving, or NULL */
    bool loading;            /* pieces arrive, or their filter will replace this */
    _Atomic uint64_t held;   /* bytes of dump and load */
    uint64_t id;             /* the host's */
    void *entry;             /* the host's */
    bg_allocator allocator;  /* of its own memory; allocate NULL: the C library's */
};

/* An empty one, or one of unknown content if the shape is `imported`. Errors: those of
 * bg_filter_create; BG_EINVAL when the hash needs a secret that the keyring lacks. */
bg_err object_create(const struct object_shape *shape,
                     const struct command_settings *settings, struct object **object,
                     bg_errinfo *info);

/* One with this filter or foreign filter, which it owns from then on, on success; with neither:
 * of unknown content. */
bg_err object_adopt(const struct object_shape *shape, bg_filter *filter,
                    bg_foreign *foreign, struct object **object, bg_errinfo *info);
void object_free(struct object *object);

/* Returns the shape of an object, including the generation that its slot requires: the description that is
 * saved, and from which object_create and object_adopt re-create the object. Takes no lock. */
void object_describe(const struct object *object, struct object_shape *shape);

/* Has its memory moved, where it is not the C library's: see bg_filter_relocate. *object is where it
 * is then. Nobody else may use it. One that is being rebuilt stays where it is. */
void object_relocate(struct object **object, const bg_mover *mover);

/* Whether its content is known. */
bool object_is_whole(const struct object *object);

/*
 * The filters of an object at a moment when one has everything, which is told; NULL: unknown
 * content. bg_slot_unpin the slot afterwards. Not for foreign ones.
 *
 * It waits for `writing`, and who holds that may wait for pins: so never wait for it while
 * something is pinned, or while it is held. object_pin_try does not wait: false, with nothing
 * pinned, at other moments.
 */
const bg_filter *object_pin(const struct object *object, bg_pin *pin);
bool object_pin_try(const struct object *object, bg_pin *pin, const bg_filter **filter);

/* Waits for such a moment. */
void object_settled(const struct object *object);

/* The one of some filters that has everything, unless they are being migrated; or NULL. */
const bg_filter *object_base(const bg_pin *pin);

/* What went wrong, as the library tells it. */
bg_err object_error(bg_errinfo *info, bg_err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The shape of a filter that was made elsewhere (a file): family BG, imported. */
void object_shape_of(const bg_filter *filter, struct object_shape *shape);

/* Whether a filter is of a kind that the shape's family is made of. */
bool object_shape_fits(const struct object_shape *shape, const bg_filter *filter);

/* How to open files of this service: the secret of the file's key id, if it has one. */
bg_err object_hash_spec(const struct object_shape *shape,
                        const struct command_settings *settings, bg_hash_spec *hash,
                        bg_errinfo *info);

/* ---- Keys -------------------------------------------------------------------------------- */

enum { OBJECT_BATCH = 512 }; /* keys of one call of the three below, at most */

/* As bg_filter_may_contain_many. */
size_t object_may_contain_many(const struct object *object, const bg_bytes *keys,
                               size_t n, uint64_t *maybe);

/*
 * Adds keys in order, up to the first that does not fit; *done says how many are in, and is_new,
 * a bitmap, which of them certainly were not there before. Records what changes.
 * Errors: BG_EFULL; those of host->ops->record; BG_ENOTSUP.
 */
bg_err object_add_many(struct object *object, struct host *host, const bg_bytes *keys,
                       size_t n, uint64_t *is_new, size_t *done, bg_errinfo *info);

/* Adds a key unless it may be there already, in one step; for objects that do not commute. */
bg_err object_add_absent(struct object *object, struct host *host, bg_bytes key,
                         bool *added, bg_errinfo *info);

/* Takes back one add. BG_ENOTFOUND: certainly not there, or, unless `count` is 0, it may have been
 * added another number of times than that. */
bg_err object_remove(struct object *object, struct host *host, bg_bytes key,
                     uint64_t count, bg_errinfo *info);

/* How often a key may have been added; kinds that do not count: 0 or 1. */
uint64_t object_count(const struct object *object, bg_bytes key);

/* The same, but not counted as one of the users' questions, from which rates are observed. */
uint64_t object_probe(const struct object *object, bg_bytes key);

/* Moves a window to the current time, or by a period if it has no length. Records the move, if any. */
bg_err object_rotate(struct object *object, struct host *host, bg_errinfo *info);

/* Whether a window with a length is due to be moved. Takes no lock. */
bool object_will_move(const struct object *object, struct host *host);

/* Moves a window that is due. Adds call this; a host also calls it from time to time, so that windows
 * without adds forget as well. */
bg_err object_tick(struct object *object, struct host *host, bg_errinfo *info);

/* Sets the time to which a window was moved before it was loaded; the window continues from there. */
void object_resume(struct object *object, uint64_t moved);

/* Moves a filter that was put into the slot to the time of the window. */
void object_position(struct object *object);

/* The highest time of a window that is accepted, in milliseconds. It fits into the numbers of all
 * protocols, also after the window has moved on. */
#define OBJECT_TIME_MAX (UINT64_MAX / 4)

/* Holds `writing` over a long operation: object_claim fails from the first call on. */
void object_occupy(const struct object *object);
void object_vacate(const struct object *object);

/* Locks `writing` for a short change, unless a long operation holds it. Returns false in that case: try
 * again later, on a thread that may wait. */
bool object_claim(struct object *object);
void object_unclaim(struct object *object);

/* Doubles a CF that is full; `writing` is held. BG_EFULL: it may not grow. */
bg_err object_grow(struct object *object, const struct host *host, bg_errinfo *info);

/* Does what a record says, when a journal is replayed: by the host, before anybody else has
 * the object. */
bg_err object_apply(struct object *object, const struct change *change,
                    bg_errinfo *info);

/* ---- Whole objects: take long ---------------------------------------------------------------- */

/* Before and after a wholesale change of an object that has a name: tells the host to keep it; or
 * that nothing has changed. */
void object_changing(struct object *object);
bg_err object_keep(struct object *object, struct host *host, bg_errinfo *info);
void object_unchanged(struct object *object);

/* Around every saving of all of an object, by the host: it keeps what earlier changes did, whose own
 * checkpoint had failed. The second gets what the first has returned. */
uint32_t object_keeping(struct object *object);
void object_kept(struct object *object, uint32_t changes, bool done);

/* Whether the host has all that the object has. */
static inline bool object_is_kept(const struct object *object)
{
    return atomic_load(&object->unkept) == 0;
}

/* Adds all that `from` has. BG_EINCOMPAT says what differs. */
bg_err object_merge(struct object *object, struct host *host, const struct object *from,
                    bg_errinfo *info);

/* A copy with a name of its own to come: imported. */
bg_err object_copy(const struct object *object, struct object **copy, bg_errinfo *info);

/* An empty one of the same make. */
bg_err object_emptied(const struct object *object,
                      const struct command_settings *settings, struct object **empty,
                      bg_errinfo *info);

/* Halves it so many times; adds go on meanwhile, and none is lost. */
bg_err object_fold(struct object *object, uint32_t times, bg_errinfo *info);

/* CF: halves it as long as it was doubled before and a tenth stays free; *steps says how often. One of
 * RedisBloom is compacted as there. */
bg_err object_compact(struct object *object, uint32_t *steps, bg_errinfo *info);

/* Counts again what is in, where the counter cannot know. */
void object_recount(struct object *object);

/*
 * Provides the filter of an object for reading of any duration: the base itself, or a copy if a change could
 * happen between two reads. Copying blocks writers; reading the copy does not.
 * Errors: BG_EBUSY if the content is unknown; BG_ENOMEM. Not for foreign filters.
 */
struct object_reading {
    const bg_filter *filter;
    bg_filter *copy; /* NULL: `filter` is pinned */
    bg_pin pin;
};
bg_err object_read_begin(const struct object *object, struct object_reading *reading,
                         bg_errinfo *info);
void object_read_end(const struct object *object, struct object_reading *reading);

/* ---- Figures, in no time ----------------------------------------------------------------- */

/* Returns whether adding n items may double the filter, or move a window that is due, and this takes too
 * long for an event loop. */
bool object_will_stall(const struct object *object, size_t n, struct host *host);

uint64_t object_bytes(const struct object *object);
uint64_t object_capacity(const struct object *object);

/* Whether it becomes larger by itself when it is full, so that its capacity is no bound. */
bool object_grows(const struct object *object);

/* The counters of its slot, with the adds that did not get so far; zeros for who has none. */
void object_about(const struct object *object, bg_slot_stats *stats);
uint32_t object_layers(const struct object *object);

/* Items that were deleted, as INFO tells: of RedisBloom's since it last made room by that. */
uint64_t object_deleted(const struct object *object);

#endif
