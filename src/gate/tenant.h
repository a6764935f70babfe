/*
 * tenant.h - what a registry and its tenants are inside, for the files that work on them:
 * registry.c (names), tenant.c (keys and quotas), evict.c (leaving memory and coming back).
 *
 * Locks, in the order in which they are taken:
 *
 *     registry->chores   one tick or save at a time
 *     registry->files    whoever writes or removes files of tenants
 *     registry->lock     the table and the list of tenants: who there is
 *     tenant->lock       its state
 *
 * Who only uses tenants that are in memory takes none of them.
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

/* Where a tenant's filter is: see evict.c. */
enum tenant_state {
    TENANT_MEMORY,
    TENANT_WRITING, /* about to leave memory */
    TENANT_DISK,
    TENANT_READING /* somebody reads it back */
};

/* Why an add was refused. */
enum tenant_quota { TENANT_ITEMS, TENANT_BYTES, TENANT_RATE, TENANT_QUOTAS };

/* bg_tenant.uses: references, the registry's included, and in the lowest bit whether the slot
 * or the gate was handed out to one who holds it. */
#define TENANT_EXPOSED UINT64_C(1)
#define TENANT_ONE     UINT64_C(2)

/* In lines by who writes them. */
struct bg_tenant { /* NOLINT(clang-analyzer-optin.performance.Padding) */
    /* Written by everyone who gets and releases it; beside the next, so that both come
     * together from memory. */
    _Alignas(64) _Atomic uint64_t uses;

    /* Read by everybody, seldom written; names are mostly short, and compared by every
     * look-up. */
    _Alignas(64) _Atomic(bg_slot *) slot; /* NULL: take the lock and see */
    bg_gate *gate;                        /* of the slot; or NULL */
    bg_registry *registry;
    _Atomic uint64_t last_use; /* a coarse time */
    atomic_bool changed;       /* since it was written */
    bool grows;                /* its filter takes more memory by and by */
    char name[BG_TENANT_NAME_MAX + 1];

    /* Written by adds. */
    _Alignas(64) _Atomic uint64_t items;
    _Atomic uint64_t bytes; /* of its filters in memory, as counted in the registry's */
    struct bucket bucket;
    _Atomic uint64_t limited[TENANT_QUOTAS];

    /* Of tenant->lock. */
    _Alignas(64) pthread_mutex_t lock;
    pthread_cond_t turn; /* somebody has finished reading */
    enum tenant_state state;
    bool removed;       /* from the registry: there is no file */
    bool known;         /* `items` is true, not to be learned from the file */
    bool filed;         /* `digest` is that of its file */
    bg_slot *kept;      /* the slot in state WRITING */
    bg_err failure;     /* of the last time it was read; BG_OK: none */
    int failure_errno;  /* of the same */
    uint64_t failed_at; /* when that was */
    uint64_t pause;     /* until the next try, nanoseconds */
    uint64_t evictions, returns, return_failures;
    uint8_t digest[BG_DIGEST_BYTES];

    /* Of registry->lock. */
    bg_tenant *before, *behind; /* in the list, by `number` */
    uint64_t number;            /* that no other tenant ever has */
    bool listed;

    uint64_t hash; /* of the name */
    struct bgi_retired retired;
    struct bgi_memory memory;
};

struct bg_registry { /* NOLINT(clang-analyzer-optin.performance.Padding) */
    /* Read by everybody, seldom written. */
    _Atomic(struct name_table *) table;
    bgi_siphash_key secret; /* of the hash of names */
    bg_registry_options options;
    bg_gate_options gate; /* what the options point to: copies */
    bg_window_options window;
    bg_allocator allocator, filter_allocator;
    uint8_t filter_secret[BG_SECRET_BYTES];
    char filter_hash_name[32];
    bg_open_options opening;
    struct bucket_rate rate;
    uint64_t planned_bytes; /* of a new tenant's filter */
    uint64_t grown_items;   /* that a growing filter has room for within max_bytes */
    struct bgi_memory memory, directory_memory;
    char *directory;    /* or NULL */
    int directory_file; /* it, open and locked; -1: none */
    struct bgi_grace grace;

    /* Counted by those who are refused, come or go. */
    _Alignas(64) _Atomic uint64_t limited;
    _Atomic uint64_t bytes, in_memory;
    _Atomic uint64_t created, removed, evictions, returns, return_failures;

    _Alignas(64) pthread_mutex_t chores;
    pthread_mutex_t files;
    pthread_mutex_t lock;
    bg_tenant *first, *last; /* all tenants */
    uint64_t tenants;        /* how many */
    uint64_t numbers;        /* given out */
};

/* Memory of the registry's own: where it comes from. */
const bg_allocator *registry_allocator(const bg_registry *registry);

/* The time; and the time of uses, which may lag by some milliseconds and costs less. */
uint64_t registry_now(const bg_registry *registry);
uint64_t registry_coarse_now(const bg_registry *registry);

/* Goes through all tenants, some at a time. Zero it first; each piece is held until the next
 * one, or registry_walk_end. False at the end, when nothing is held. */
enum { REGISTRY_WALK = 64 };
struct registry_walk {
    bg_tenant *tenants[REGISTRY_WALK];
    size_t n;
};
bool registry_walk(bg_registry *registry, struct registry_walk *walk);
void registry_walk_end(struct registry_walk *walk);

/* Counts bytes of a filter in, unless that would be over max_total_bytes. */
bool registry_reserve(bg_registry *registry, uint64_t bytes);

/* A tenant of a name, in no table or list, with one reference and nothing in memory; NULL:
 * no memory. */
bg_tenant *tenant_make(bg_registry *registry, const char *name, uint64_t hash);

/* One reference more, by who has one or is in the grace period; and `release` for less. */
void tenant_hold(bg_tenant *tenant);

/* Puts a filter into a new slot for a tenant, with a gate if there shall be one. On error the
 * filter is freed. */
bg_err tenant_fill(bg_tenant *tenant, bg_filter *filter, uint64_t complete,
                   bg_slot **slot, bg_gate **gate, bg_errinfo *info);

/* Makes a slot the tenant's and lets users in. With its lock, or before anybody knows it. */
void tenant_open(bg_tenant *tenant, bg_slot *slot, bg_gate *gate);

/* Counts the bytes of its filters anew; `slot` is that of the tenant. */
void tenant_measure(bg_tenant *tenant, bg_slot *slot);

/* Says that it was used just now. */
void tenant_stamp(bg_tenant *tenant);

/* Where its file is. */
void tenant_path(const bg_tenant *tenant, char path[], size_t room);

/* Returns when its slot is in memory, at least for a moment, or cannot be. */
bg_err tenant_return(bg_tenant *tenant, bg_errinfo *info);

/* What its file says, for one who is on disk and was never read; with its lock. */
void tenant_learn(bg_tenant *tenant);

#endif
