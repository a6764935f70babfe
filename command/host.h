/*
 * host.h - the environment in which commands run: the service (server/) or the Redis module
 * (adapters/redis).
 *
 * A handler receives a request, finds or creates objects (object.h) through its host, and sends one
 * reply. It does not use sockets or threads, and it accesses files only under paths that the host
 * provides (`path`). All host functions must be thread-safe if handlers run concurrently.
 *
 * Durability. A handler passes every change to an object to the host (`record`). The host writes
 * the change to its journal, or replicates it, and sends the reply only when the change is as safe
 * as the settings require. For bit arrays, a change is recorded before it is applied. For objects
 * whose changes do not commute, the object's lock is held during both steps, and adds are applied
 * first. Adds that a full filter rejects therefore do not fill the journal (object_keys.c). Changes
 * to a whole object (merges, loads, replacements) are followed by a call to `checkpoint`, which
 * saves the whole object. After a crash before the checkpoint, the object has either its previous
 * content or unknown content (object.h), but is never mistaken for an empty object.
 */
#ifndef COMMAND_HOST_H
#define COMMAND_HOST_H

#include "bloomgate/all.h"
#include "reply.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct object;
struct command;

/* Recorded operations on an object. The numbers are part of the journal format and never change. */
enum change_op {
    CHANGE_ADD = 1,    /* hashes or keys */
    CHANGE_REMOVE = 2, /* likewise */
    CHANGE_ROTATE = 4  /* moves a window to the time `value`, in milliseconds */
};

struct change {
    enum change_op op;
    size_t n;
    const uint64_t *hashes; /* of the keys, computed by the filter's hasher; or NULL */
    /* The keys themselves; set instead of `hashes` for foreign filters, and while filters with
     * different hashes share the slot. */
    const bg_bytes *keys;
    uint64_t value;
};

/* Provides the secrets if the host has no keyring. */
struct secret_source {
    /* Returns the secret for new filters and its ID, like bg_keyring_current. */
    bg_err (*current)(void *context, bg_hash_spec *hash,
                      uint8_t key_id[BG_KEY_ID_BYTES], bg_errinfo *info);
    /* Returns the secret with this ID, like bg_keyring_find. The result stays valid until the
     * handler returns. */
    bg_err (*find)(void *context, const uint8_t key_id[BG_KEY_ID_BYTES],
                   bg_hash_spec *hash, bg_errinfo *info);
    void *context;
};

/* Defaults and limits for new objects. CONFIG can change them at any time, so read each value once
 * per request. */
struct command_settings {
    double bf_error_rate;
    uint64_t bf_initial_size;
    uint32_t bf_expansion_factor;
    uint32_t cf_bucket_size;
    uint64_t cf_initial_size;
    uint32_t cf_max_iterations;
    uint32_t cf_expansion_factor;
    uint32_t cf_max_expansions;
    uint64_t max_filter_bytes; /* maximum size of one filter; 0 if unlimited */
    uint32_t hash;             /* the bg_hash_profile of new filters */
    const bg_keyring *keyring; /* secrets for keyed hashes, or NULL */
    const struct secret_source *secrets; /* if not NULL, used instead of the keyring */
    /* The allocator for filters and their objects. It must outlive them. NULL selects malloc. With
     * an allocator, an object's statistics counters are not distributed across cores, so generally
     * only one thread at a time should use an object. */
    const bg_allocator *allocator;
};

struct host;
struct store_row;

struct host_ops {
    /* Returns the object with this name, or NULL. The result stays valid until the handler
     * returns. */
    struct object *(*find)(struct host *host, bg_bytes name);

    /* Binds a name to an object and takes ownership of the object. The caller must not use the
     * object afterwards, because another thread may already have deleted it. If the object already
     * has content (object->born_full), the whole object is saved first. Errors: BG_EBUSY if the
     * name is in use, even if it was free when it was looked up; BG_EQUOTA if a quota is exceeded.
     * On error, the caller still owns the object. */
    bg_err (*create)(struct host *host, bg_bytes name, struct object *object,
                     bg_errinfo *info);

    /* Like `create`, but replaces `instead_of`, the object found under that name. The name keeps
     * its expiration time. Errors: BG_ECANCELED if the name no longer refers
     * to `instead_of`. */
    bg_err (*replace)(struct host *host, bg_bytes name, const struct object *instead_of,
                      struct object *object, bg_errinfo *info);

    /* Deletes a name. Returns false if the name does not exist. */
    bool (*drop)(struct host *host, bg_bytes name);

    /* Records a change that is about to be applied, or that has just been applied under the
     * object's lock. On error, the caller must not apply the change, or must undo it if it was
     * already applied. Errors: BG_EQUOTA if the caller exceeds its rate limit for adds; BG_EIO if
     * the journal cannot be written. */
    bg_err (*record)(struct host *host, struct object *object,
                     const struct change *change, bg_errinfo *info);

    /* Saves an object that was changed as a whole. This can take a long time. */
    bg_err (*checkpoint)(struct host *host, struct object *object, bg_errinfo *info);

    /* Returns whether an add is allowed to allocate about this many bytes. If so, the add's
     * allocations are not refused, even if the add needs more bytes. This function pointer may be
     * NULL. A host that replicates adds must provide this function. Otherwise, a filter might be
     * unable to grow while its replicas grow, and would then have false positives that its replicas
     * do not have. */
    bool (*room)(struct host *host, uint64_t bytes);

    /* Returns the time in milliseconds since 1970. */
    uint64_t (*now)(struct host *host);

    /* Returns the time, in milliseconds, on a monotonic clock that runs only while the host is
     * running. Windows age according to this clock. Returns 0 if the clock is stopped because
     * another host moves the windows. */
    uint64_t (*ticks)(struct host *host);

    /* Looks up a key in gate `name`: first in its filter and then, if necessary, in its backing
     * store. If the key is present, its row is stored in `row`, unless `row` is NULL. This function
     * pointer is NULL if the host has no gates. Errors: BG_ENOTFOUND if the gate does not exist;
     * BG_ENOTSUP if `row` is not NULL and the gate does not return rows; BG_EBUSY if the backing
     * store has to be queried, which the host does on another thread. On BG_EBUSY, send no reply,
     * because the host will run the request again. */
    bg_err (*lookup)(struct host *host, bg_bytes name, bg_bytes key,
                     struct store_row *row, bg_outcome *outcome, bg_errinfo *info);

    /* Adds a key to the filter of gate `name`, after the key has been committed to the gate's
     * backing store. This function pointer is NULL if the host has no gates. Errors: BG_ENOTFOUND
     * if the gate does not exist; other errors if the key cannot be added. */
    bg_err (*wrote)(struct host *host, bg_bytes name, bg_bytes key, bg_errinfo *info);

    /* Returns whether a name that no object has is the name of a gate. Filter commands refuse such
     * a name, because clients would interpret "no such filter" as "no such key". This function
     * pointer is NULL if the host has no gates. */
    bool (*is_gate)(struct host *host, bg_bytes name);

    /* Converts a file name in BG.PUBLISH or BG.RELOAD to a path in a directory on the host. This
     * function pointer is NULL if the host does not support files. Errors: BG_EINVAL if the path
     * would be outside the directory. */
    bg_err (*path)(struct host *host, bg_bytes file, char *path, size_t room,
                   bg_errinfo *info);

    /* Returns a number that identifies an object on this host. The number is never reused. A
     * renamed object keeps its number, and an object that replaces another gets a new one. This
     * function pointer is NULL if the host does not number its objects. */
    uint64_t (*number)(struct host *host, const struct object *object);

    /* Logs that the client receives the secret of the filter `name`: the client's user and address,
     * and the name, but never the secret. */
    void (*disclose)(struct host *host, bg_bytes name);

    /* The host's own commands, or NULL. BG.HELP lists those whose names start with BG. */
    const struct command *commands;
};

struct host {
    const struct host_ops *ops;
    const struct command_settings *settings;
    /* Requests run one at a time, and each request is atomic: after a crash, it has taken effect
     * either completely or not at all. */
    bool ordered;
    /* Number of keys that requests have added, including keys that were already present. Hosts may
     * reset it. */
    uint64_t added;
};

struct request {
    struct host *host;
    const struct command *command;
    const bg_bytes *argv; /* argv[0] is the command name */
    size_t argc;
    struct reply reply;
};

#endif
