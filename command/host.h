/*
 * host.h - where commands run: the service (server/), or inside of Redis (adapters/redis).
 *
 * A handler gets a request, finds or makes objects (object.h) through its host, and sends one
 * reply. It knows no socket, no file, no thread; whatever it calls may be called by several
 * threads at once.
 *
 * Durability. Before a handler changes an object it tells the host what is going to happen
 * (`record`); the host writes it to its journal, or replicates it, and sends the reply only when
 * that is as safe as its settings ask for. Objects whose changes do not commute hold their lock
 * over both; those that can refuse an add do it first and record what was done, so that a full
 * filter fills no journal (object_keys.c). What is changed wholesale (merged, loaded, replaced) is
 * told by `checkpoint` after the fact: the host then keeps the whole object. Until it has, a crash
 * brings back what was there before, or an object of unknown content (object.h), never an empty
 * one.
 */
#ifndef COMMAND_HOST_H
#define COMMAND_HOST_H

#include "bloomgate/bloomgate.h"
#include "reply.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct object;
struct command;

/* Operations on an object, as they are recorded. The numbers are frozen: journals have them. */
enum change_op {
    CHANGE_ADD = 1,    /* hashes, or keys */
    CHANGE_REMOVE = 2, /* likewise */
    CHANGE_ROTATE = 4  /* a window moves to `value`, in milliseconds of its own time */
};

struct change {
    enum change_op op;
    size_t n;
    const uint64_t *hashes; /* by the hasher of the object's base; or NULL: */
    const bg_bytes
        *keys; /* where hashes would not do: foreign filters, changing hashes */
    uint64_t value;
};

/* Where a host without a keyring has its secrets. */
struct secret_source {
    /* The secret of new filters, and its id: as bg_keyring_current. */
    bg_err (*current)(void *context, bg_hash_spec *hash,
                      uint8_t key_id[BG_KEY_ID_BYTES], bg_errinfo *info);
    /* The one of that id: as bg_keyring_find. It stays valid until the handler returns. */
    bg_err (*find)(void *context, const uint8_t key_id[BG_KEY_ID_BYTES],
                   bg_hash_spec *hash, bg_errinfo *info);
    void *context;
};

/* What new objects get, and what they may not exceed; CONFIG changes it, so read it once per
 * request. */
struct command_settings {
    double bf_error_rate;
    uint64_t bf_initial_size;
    uint32_t bf_expansion_factor;
    uint32_t cf_bucket_size;
    uint64_t cf_initial_size;
    uint32_t cf_max_iterations;
    uint32_t cf_expansion_factor;
    uint32_t cf_max_expansions;
    uint64_t max_filter_bytes;           /* of one filter; 0: none */
    uint32_t hash;                       /* a bg_hash_profile, of new filters */
    const bg_keyring *keyring;           /* secrets of keyed ones; NULL: none, or: */
    const struct secret_source *secrets; /* instead of a keyring, unless NULL */
    /* Of filters and their objects, which it outlives; NULL: the system's. Who has one uses an
     * object by one thread at a time, or nearly so: what is counted is not spread over
     * processors. */
    const bg_allocator *allocator;
};

struct host;

struct host_ops {
    /* The object of that name, or NULL. Valid until the handler returns. */
    struct object *(*find)(struct host *host, bg_bytes name);

    /* Gives a name to an object, which then is the host's, and may be gone as soon as this
     * returns. One that has content already (object->born_full) is kept as a whole before.
     * BG_EBUSY: the name is taken, maybe since a moment ago; BG_ELIMIT: over a quota. On error
     * the object is the caller's. */
    bg_err (*create)(struct host *host, bg_bytes name, struct object *object,
                     bg_errinfo *info);

    /* The same, but replaces `instead_of`, the object that was found by that name. The expiry of the name
     * is kept. BG_ECANCELED: the name refers to another object by now, or to none. */
    bg_err (*replace)(struct host *host, bg_bytes name, const struct object *instead_of,
                      struct object *object, bg_errinfo *info);

    /* Forgets a name; false: there is none. */
    bool (*drop)(struct host *host, bg_bytes name);

    /* An object is about to change, or has just changed and its lock is held. On error it must
     * not, or is changed back. BG_ELIMIT: more adds than the caller may do in this time;
     * BG_EIO: the journal cannot be written. */
    bg_err (*record)(struct host *host, struct object *object,
                     const struct change *change, bg_errinfo *info);

    /* An object that was found has changed wholesale: keeps all of it. May take long. */
    bg_err (*checkpoint)(struct host *host, struct object *object, bg_errinfo *info);

    /* Returns whether an add may allocate about that many bytes. If so, its allocations are not refused, even if it
     * needs more. May be NULL. A host that replicates adds needs it: if a filter cannot grow but its replicas can,
     * it may contain keys by chance that they lack. */
    bool (*room)(struct host *host, uint64_t bytes);

    /* Milliseconds since 1970. */
    uint64_t (*now)(struct host *host);

    /* Milliseconds of a clock that only runs while the host runs, and that cannot be set. Windows age by
     * this clock. 0: the clock is stopped, and another host moves the windows. */
    uint64_t (*ticks)(struct host *host);

    /* Gates: what the truth behind `name` says of a key; NULL: the host has none. BG_ENOTFOUND:
     * there is no such gate. BG_EBUSY: the truth has to be asked, and the host does so elsewhere:
     * nothing must be sent, the request will be run again. */
    bg_err (*lookup)(struct host *host, bg_bytes name, bg_bytes key,
                     bg_outcome *outcome, bg_errinfo *info);

    /* Gates: adds a key that was committed to the source of `name` to its filter. NULL: the host has no
     * gates. Errors: BG_ENOTFOUND if there is no such gate; others if the key cannot be added. */
    bg_err (*wrote)(struct host *host, bg_bytes name, bg_bytes key, bg_errinfo *info);

    /* Where BG.PUBLISH and BG.RELOAD may read and write: makes a path of a file's name, in a
     * folder of the host's; BG_EINVAL for names that would leave it. NULL: no files. */
    bg_err (*path)(struct host *host, bg_bytes file, char *path, size_t room,
                   bg_errinfo *info);
};

struct host {
    const struct host_ops *ops;
    const struct command_settings *settings;
    bool
        ordered; /* one request after the other, and what was done is never half lost: a key
                    that is found was added, whatever the kind of filter */
};

struct request {
    struct host *host;
    const struct command *command;
    const bg_bytes *argv; /* argv[0] is the command's name */
    size_t argc;
    struct reply reply;
};

#endif
