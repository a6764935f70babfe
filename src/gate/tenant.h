/*
 * tenant.h - the internals of registries and tenants, for the files that implement them: registry.c
 * (names), tenant.c (keys and quotas) and evict.c (eviction and reloading).
 *
 * Locks, in the order in which they are taken:
 *
 *     registry->chores   allows one tick or save at a time
 *     registry->files    protects the writing and removal of tenant files
 *     registry->lock     protects the table and the list of tenants
 *     tenant->lock       protects the tenant's state
 *
 * Operations on tenants in memory take none of these locks.
 */
#ifndef BGI_TENANT_H
#define BGI_TENANT_H

#include "bloomgate/registry.h"
#include "bloomgate/window.h"

#include "base/errinfo.h"
#include "base/grace.h"
#include "gate/bucket.h"
#include "gate/name_file.h"
#include "gate/name_table.h"
#include "hash/siphash.h"

#include <pthread.h>

/* The location of a tenant's filter; see evict.c. */
enum tenant_state {
    TENANT_MEMORY,
    TENANT_WRITING, /* being evicted */
    TENANT_DISK,
    TENANT_READING /* being read back */
};

/* The quotas that can cause an add to be refused. */
enum tenant_quota { TENANT_ITEMS, TENANT_BYTES, TENANT_RATE, TENANT_QUOTAS };

/* The parts of bg_tenant.uses: the lowest bit is set if the slot or the gate was handed out to a
 * holder, and the other bits count references, including the registry's. */
#define TENANT_EXPOSED UINT64_C(1)
#define TENANT_ONE     UINT64_C(2)

/* The members are grouped into cache lines according to which threads write them. */
struct bg_tenant { /* NOLINT(clang-analyzer-optin.performance.Padding) */
    /* Written by every get and release. This cache line is adjacent to the next one, so that both
     * are fetched from memory together. */
    _Alignas(64) _Atomic uint64_t uses;

    /* Read by all operations, rarely written. The name is stored here because every lookup compares
     * it, and most names are short. */
    _Alignas(64) _Atomic(bg_slot *) slot; /* if NULL, take the lock and check `state` */
    bg_gate *gate;                        /* the slot's gate, or NULL */
    bg_registry *registry;
    _Atomic uint64_t last_use; /* a coarse time */
    atomic_bool changed;       /* the slot has changed since the file was written */
    bool grows;                /* the tenant's filter can grow */
    char name[BG_TENANT_NAME_MAX + 1];

    /* Written by adds. */
    _Alignas(64) _Atomic uint64_t items;
    /* The size in bytes of the tenant's filters in memory. Included in the registry's total. */
    _Atomic uint64_t bytes;
    struct bucket bucket;
    _Atomic uint64_t limited[TENANT_QUOTAS];

    /* Protected by tenant->lock. */
    _Alignas(64) pthread_mutex_t lock;
    pthread_cond_t turn; /* a read has finished */
    enum tenant_state state;
    /* The tenant has been removed from the registry, so it has no file. */
    bool removed;
    bool known;         /* `items` is valid, so it need not be read from the file */
    bool filed;         /* `digest` contains the digest of the file */
    bg_slot *kept;      /* the slot while the state is WRITING */
    bg_err failure;     /* error from the last read, or BG_OK */
    int failure_errno;  /* errno from the last read */
    uint64_t failed_at; /* time of the failed read */
    uint64_t pause;     /* nanoseconds between the failed read and the next attempt */
    uint64_t evictions, returns, return_failures;
    uint8_t digest[BG_DIGEST_BYTES];

    /* Protected by registry->lock. */
    bg_tenant *before, *behind; /* neighbors in the list, ordered by `number` */
    uint64_t number;            /* unique to this tenant, and never reused */
    bool listed;

    uint64_t hash; /* of the name */
    struct bgi_retired retired;
    struct bgi_memory memory;
};

struct bg_registry { /* NOLINT(clang-analyzer-optin.performance.Padding) */
    /* Read by all operations, rarely written. */
    _Atomic(struct name_table *) table;
    bgi_siphash_key secret; /* for hashing names */
    bg_registry_options options;
    bg_gate_options gate; /* copies of the data that the options point to */
    bg_window_options window;
    bg_allocator allocator, filter_allocator;
    uint8_t filter_secret[BG_SECRET_BYTES];
    char filter_hash_name[32];
    bg_open_options opening;
    struct bucket_rate rate;
    uint64_t planned_bytes; /* size of a new tenant's filter */
    /* The number of keys that a growing filter can hold within max_bytes. */
    uint64_t grown_items;
    struct bgi_memory memory, directory_memory;
    char *directory;    /* or NULL */
    int directory_file; /* the open and locked directory, or -1 */
    struct bgi_grace grace;

    /* Counters for refusals, creations, removals and evictions. */
    _Alignas(64) _Atomic uint64_t limited;
    _Atomic uint64_t bytes, in_memory;
    _Atomic uint64_t created, removed, evictions, returns, return_failures;

    _Alignas(64) pthread_mutex_t chores;
    pthread_mutex_t files;
    pthread_mutex_t lock;
    bg_tenant *first, *last; /* all tenants */
    uint64_t tenants;        /* number of tenants */
    uint64_t numbers;        /* last number assigned */
};

/* Returns the allocator for the registry's own memory. */
const bg_allocator *registry_allocator(const bg_registry *registry);

/* Return the time. registry_coarse_now, which is used to record the time of last use, is cheaper
 * but may lag by a few milliseconds. */
uint64_t registry_now(const bg_registry *registry);
uint64_t registry_coarse_now(const bg_registry *registry);

/* Iterates over all tenants, a few at a time. Zero-initialize the walk before the first call. The
 * tenants are held until the next call or until registry_walk_end. Returns false, and holds no
 * tenants, if there are no more tenants. */
enum { REGISTRY_WALK = 64 };
struct registry_walk {
    bg_tenant *tenants[REGISTRY_WALK];
    size_t n;
};
bool registry_walk(bg_registry *registry, struct registry_walk *walk);
void registry_walk_end(struct registry_walk *walk);

/* Reserves bytes for a filter. Returns false if the total would exceed max_total_bytes. */
bool registry_reserve(bg_registry *registry, uint64_t bytes);

/* Creates a tenant that is in no table or list and has one reference and no filter in memory.
 * Returns NULL if out of memory. */
bg_tenant *tenant_make(bg_registry *registry, const char *name, uint64_t hash);

/* Adds a reference. The caller must already have a reference, or be in the grace period.
 * bg_tenant_release drops a reference. */
void tenant_hold(bg_tenant *tenant);

/* Puts a filter into a new slot for a tenant, with a gate if the options include one. On error
 * the filter is freed. */
bg_err tenant_fill(bg_tenant *tenant, bg_filter *filter, uint64_t complete,
                   bg_slot **slot, bg_gate **gate, bg_errinfo *info);

/* Installs a slot as the tenant's slot, so that operations can use it. Called with the tenant's
 * lock held, or before other threads can see the tenant. */
void tenant_open(bg_tenant *tenant, bg_slot *slot, bg_gate *gate);

/* Updates the recorded size of the tenant's filters. `slot` is the tenant's slot. */
void tenant_measure(bg_tenant *tenant, bg_slot *slot);

/* Records the current time as the tenant's time of last use. */
void tenant_stamp(bg_tenant *tenant);

/* Writes the path of the tenant's file to `path`. */
void tenant_path(const bg_tenant *tenant, char path[], size_t room);

/* Brings the tenant's slot back into memory, or waits until another thread has done so. The slot
 * may be evicted again at any time after this call returns. */
bg_err tenant_return(bg_tenant *tenant, bg_errinfo *info);

/* Reads the file header of a tenant that is on disk and was never loaded. Called with the
 * tenant's lock held. */
void tenant_learn(bg_tenant *tenant);

#endif
