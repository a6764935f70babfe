/*
 * registry.h - one filter per tenant, with quotas and eviction of idle tenants.
 *
 *     bg_registry_options options = BG_REGISTRY_OPTIONS_INIT;
 *     options.spec.items = 100000;                        // the filter of a new tenant
 *     options.spec.rate = 0.01;
 *     options.max_items = 1000000;                        // quotas per tenant
 *     options.inserts_per_second = 5000;
 *     options.directory = "/var/lib/app/filters";         // for idle tenants
 *     if (bg_registry_create(&options, &registry, &why))
 *         return 1;
 *
 *     bg_tenant *t;
 *     if (bg_registry_get(registry, "acme", BG_REGISTRY_CREATE, &t, &why))
 *         return 1;
 *     bg_err err = bg_tenant_add(t, key, len, NULL, &why);    // BG_EQUOTA: over quota
 *     bool maybe = bg_tenant_may_contain(t, key, len);
 *     bg_tenant_release(t);
 *
 * A tenant has a slot (slot.h), and a gate if the options define one. A tenant is created
 * when it is first used. Finding a tenant by name is wait-free while no tenants are added
 * or removed, and lock-free otherwise.
 *
 * Each tenant has quotas for the number of distinct keys, the bytes of its filters, and
 * the inserts per second (with a burst). Operations over quota fail with BG_EQUOTA and are
 * counted. They do not affect other tenants.
 *
 * bg_registry_tick evicts tenants that have not been used for `idle` nanoseconds: it
 * writes them to `directory` and frees their memory. The next use of an evicted tenant waits until
 * the tenant has been loaded from its file. If its file cannot be read, the tenant answers "maybe"
 * and refuses adds, and the read is retried later with backoff; there is never a false "no". A new
 * registry contains the tenants whose files are in its directory.
 *
 * Caveats
 *   - Keys that are only in memory are lost when the process dies; the tenant is then
 *     restored from its file. bg_registry_save writes all modified tenants.
 *   - When an evicted tenant is loaded, the counters of its slot and gate restart at 0, but the
 *     counters of the tenant itself (bg_tenant_info) do not.
 *   - Only one registry at a time may use a directory.
 */
#ifndef BLOOMGATE_REGISTRY_H
#define BLOOMGATE_REGISTRY_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/gate.h"
#include "bloomgate/slot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A registry. Opaque. */
typedef struct bg_registry bg_registry;

/* A tenant of a registry. Opaque. */
typedef struct bg_tenant bg_tenant;

/* Maximum length of a name in bytes, without NUL; the minimum is 1. */
#define BG_TENANT_NAME_MAX 127

/* Options for creating a registry and its tenants. */
typedef struct bg_registry_options {
    uint32_t struct_size;           /* sizeof(bg_registry_options) */
    uint32_t max_tenants;           /* maximum number of tenants; 0 selects 65536 */
    bg_spec spec;                   /* spec for the filter of a new tenant */
    const bg_gate_options *gate;    /* for new tenants (copied); NULL for no gate */
    const bg_open_options *opening; /* options for opening files, not copied; or NULL */
    uint64_t max_items;        /* quota for distinct keys per tenant; 0 means none */
    uint64_t max_bytes;        /* memory quota per tenant; 0 means none */
    double inserts_per_second; /* insert quota per tenant; 0 means none */
    double burst; /* inserts allowed at once; 0 selects one second's worth */
    uint64_t max_total_bytes; /* memory limit for all tenants; 0 means none */
    const char *directory;    /* for files of evicted tenants (copied); NULL disables
                                 eviction */
    uint64_t idle; /* idle time in nanoseconds until eviction; 0 disables eviction */
    uint64_t (*clock)(void *context); /* monotonic time in ns; NULL uses the OS clock */
    void *context;                    /* argument of `clock` */
    const bg_allocator *allocator;    /* or NULL */
} bg_registry_options;

#define BG_REGISTRY_OPTIONS_INIT                                                       \
    {                                                                                  \
        sizeof(bg_registry_options), 0, BG_SPEC_INIT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
            0                                                                          \
    }

/*
 * Creates a registry. The directory must exist.
 * Errors: BG_EINVAL; BG_ENOMEM; BG_EIO if the directory cannot be read; BG_EBUSY if
 * another registry uses the directory. On error *registry is NULL.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_registry_create(const bg_registry_options *options,
                                               bg_registry **registry,
                                               bg_errinfo *info);

/*
 * Frees a registry and all its tenants, which must have been released; NULL is allowed.
 * Unsaved changes are lost, so call bg_registry_save first.
 * Thread safety: MT-Excl.
 */
BG_API void bg_registry_free(bg_registry *registry);

/* Flags for bg_registry_get. */
enum {
    BG_REGISTRY_CREATE = 1u << 0 /* create the tenant if it does not exist */
};

/*
 * Finds a tenant by name, and holds it until bg_tenant_release. With BG_REGISTRY_CREATE, a
 * missing tenant is created with the options of the registry.
 * Errors: BG_ENOTFOUND; BG_EQUOTA if max_tenants or max_total_bytes would be exceeded;
 * BG_EINVAL; BG_ENOMEM. On error *tenant is NULL.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_registry_get(bg_registry *registry, const char *name,
                                            uint32_t flags, bg_tenant **tenant,
                                            bg_errinfo *info);

/* Releases a tenant; NULL is allowed. Thread safety: MT-Safe. */
BG_API void bg_tenant_release(bg_tenant *tenant);

/*
 * Removes a tenant and deletes its file. Callers that hold the tenant can use it until
 * they release it. The call waits while a tick or a save is writing a file.
 * Errors: BG_ENOTFOUND; BG_EIO if the file cannot be deleted; BG_EINVAL.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_registry_remove(bg_registry *registry, const char *name,
                                               bg_errinfo *info);

/*
 * Calls `visit` for every tenant, in no particular order, until `visit` returns false.
 * `visit` may use the registry. Tenants created or removed during the call may or may not
 * be visited.
 * Thread safety: MT-Safe.
 */
BG_API void bg_registry_for_each(bg_registry *registry,
                                 bool (*visit)(void *context, bg_tenant *tenant),
                                 void *context);

/*
 * Writes idle tenants to the directory and frees their memory. Call it regularly. *evicted,
 * unless NULL, is set to the number of evicted tenants. Ticks and saves are serialized.
 * Errors: the error of the first tenant that could not be written; BG_EINVAL for NULL.
 * Tenants that could not be written stay in memory; all other idle tenants are evicted.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_registry_tick(bg_registry *registry, size_t *evicted,
                                             bg_errinfo *info);

/*
 * Writes all modified tenants to the directory. Tenants stay in memory. Saves and ticks
 * are serialized.
 * Errors: the error of the first tenant that could not be written, returned after all
 * other tenants have been tried; BG_EINCOMPAT for a tenant whose gate is in doubt
 * (bg_gate_doubt); BG_EINVAL if the registry has no directory.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_registry_save(bg_registry *registry, bg_errinfo *info);

/* ---- Tenants -------------------------------------------------------------------- */

/*
 * Returns the name of a tenant; "" for NULL. The string is valid while the tenant is held.
 * Thread safety: MT-Safe.
 */
BG_API const char *bg_tenant_name(const bg_tenant *tenant);

/*
 * Adds a key to the slot of a tenant, subject to the tenant's quotas. If the tenant has a
 * gate, the key is removed from the negative cache, as in bg_gate_add. *is_new, unless
 * NULL, is set to true if the key was certainly new.
 * Errors: BG_EQUOTA, with `info` naming the quota; those of bg_slot_add; errors from
 * reading the file of an evicted tenant.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_tenant_add(bg_tenant *tenant, const void *key,
                                          size_t len, bool *is_new, bg_errinfo *info);

/*
 * Adds n keys in order, up to the first key that is refused. *done, unless NULL, is set to
 * the number of keys added. *added, unless NULL, is set to the number of added keys that
 * were certainly new.
 * Errors: those of bg_tenant_add. Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_tenant_add_many(bg_tenant *tenant, const bg_bytes *keys,
                                               size_t n, size_t *done, size_t *added,
                                               bg_errinfo *info);

/*
 * Returns false if the key was certainly never added to the tenant, and true if it may have
 * been, or if the file of the tenant cannot be read.
 * Thread safety: MT-Safe; waits if the tenant was evicted and has to be loaded.
 */
BG_API bool bg_tenant_may_contain(bg_tenant *tenant, const void *key, size_t len);

/*
 * Queries n keys. Returns the number of keys that may have been added, and sets their bits
 * in the bitmap `maybe` unless it is NULL.
 * Thread safety: same as bg_tenant_may_contain.
 */
BG_API size_t bg_tenant_may_contain_many(bg_tenant *tenant, const bg_bytes *keys,
                                         size_t n, uint64_t *maybe);

/*
 * Returns the slot of a tenant; NULL if its file cannot be read. After this call, the
 * tenant stays in memory and the slot stays at the same address until all callers have
 * released the tenant. Keys that are added to the slot directly bypass the quotas.
 * Thread safety: MT-Safe.
 */
BG_API bg_slot *bg_tenant_slot(bg_tenant *tenant);

/*
 * Returns the gate of a tenant; NULL if the tenant has no gate or its file cannot be read.
 * The gate stays valid as long as the slot: see bg_tenant_slot.
 * Thread safety: MT-Safe.
 */
BG_API bg_gate *bg_tenant_gate(bg_tenant *tenant);

/* See bg_tenant_get_info. */
typedef struct bg_tenant_info {
    uint32_t struct_size;     /* sizeof(bg_tenant_info), set by the caller */
    bool in_memory;           /* false if the tenant is evicted */
    uint64_t items;           /* number of added keys that were certainly new */
    uint64_t bytes;           /* size of the tenant's filters in bytes */
    uint64_t limited_items;   /* adds refused because of max_items */
    uint64_t limited_bytes;   /* adds refused because of max_bytes or max_total_bytes */
    uint64_t limited_rate;    /* adds refused because of inserts_per_second */
    uint64_t evictions;       /* number of evictions */
    uint64_t returns;         /* number of times the tenant was loaded from its file */
    uint64_t return_failures; /* number of failed attempts to read the tenant's file */
} bg_tenant_info;

/*
 * Describes a tenant.
 * Errors: BG_EINVAL for NULL or an unknown struct_size. Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_tenant_get_info(bg_tenant *tenant, bg_tenant_info *out);

/* See bg_registry_get_info. */
typedef struct bg_registry_info {
    uint32_t struct_size;     /* sizeof(bg_registry_info), set by the caller */
    uint32_t tenants;         /* number of tenants */
    uint64_t in_memory;       /* number of tenants in memory */
    uint64_t bytes;           /* size of the filters of these tenants in bytes */
    uint64_t created;         /* number of tenants created */
    uint64_t removed;         /* number of tenants removed */
    uint64_t evictions;       /* number of evictions */
    uint64_t returns;         /* number of times an evicted tenant was loaded */
    uint64_t return_failures; /* number of failed attempts to load a tenant */
    uint64_t limited;         /* adds and creations refused because of a quota */
} bg_registry_info;

/*
 * Describes a registry.
 * Errors: BG_EINVAL for NULL or an unknown struct_size. Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_registry_get_info(bg_registry *registry,
                                                 bg_registry_info *out);

#ifdef __cplusplus
}
#endif

#endif
