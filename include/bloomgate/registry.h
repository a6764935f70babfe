/*
 * registry.h - many filters by name, one per tenant, none of which can harm another.
 *
 *     bg_registry_options options = BG_REGISTRY_OPTIONS_INIT;
 *     options.spec.items = 100000;             // what a new tenant gets
 *     options.spec.rate = 0.01;
 *     options.max_items = 1000000;             // quotas of each
 *     options.inserts_per_second = 5000;
 *     options.folder = "/var/lib/app/filters"; // idle ones go there
 *     bg_registry_create(&options, &registry, NULL);
 *
 *     bg_tenant *t;
 *     bg_registry_get(registry, "acme", BG_REGISTRY_CREATE, &t, NULL);
 *     bg_err err = bg_tenant_add(t, key, len, NULL);      // BG_EQUOTA: over the quota
 *     bool maybe = bg_tenant_may_contain(t, key, len);
 *     bg_tenant_release(t);
 *
 * A tenant has a slot (slot.h), and a gate if the template has one. It is created at first
 * use. Finding one by name is wait-free as long as no tenants are added or removed, and
 * lock-free then.
 *
 * Quotas, per tenant: items (different keys that were added), bytes of filters, inserts per
 * second with a burst. Who is over one is refused, and counted; nobody else notices.
 *
 * Tenants that nobody asked for `idle` nanoseconds are written to `folder` by
 * bg_registry_tick and leave memory; the next use reads them back, and waits for that. If
 * the file cannot be read then, the tenant answers "maybe" and refuses adds, and tries
 * again later: never a false "no". A registry that is opened on a folder knows the tenants
 * there.
 *
 * Caveats
 *   - What is in memory only is lost when the process dies: a tenant then is as its file
 *     was. bg_registry_save writes all that changed.
 *   - Counters of a slot and figures of a gate begin anew when a tenant comes back; the
 *     tenant's own figures do not.
 *   - One registry at a time may use a folder.
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

typedef struct bg_registry bg_registry;
typedef struct bg_tenant bg_tenant;

/* Names: 1 to 127 bytes, without NUL. */
#define BG_TENANT_NAME_MAX 127

typedef struct bg_registry_options {
    uint32_t struct_size;        /* sizeof(bg_registry_options) */
    uint32_t max_tenants;        /* 0: 65536 */
    bg_spec spec;                /* of a new tenant's filter */
    const bg_gate_options *gate; /* of a new tenant's gate; it is copied. NULL: none */
    const bg_open_options *opening; /* for files of tenants: secrets; kept. Or NULL */
    uint64_t max_items;             /* quotas of each; 0: none */
    uint64_t max_bytes;
    double inserts_per_second;
    double burst;             /* inserts at once; 0: those of one second */
    uint64_t max_total_bytes; /* of all tenants in memory together; 0: none */
    const char *folder;       /* for those that are idle; copied. NULL: they stay */
    uint64_t idle;            /* nanoseconds; 0: never */
    uint64_t (*clock)(void *context); /* nanoseconds, monotonic; NULL: the system's */
    void *context;
    const bg_allocator *allocator;
} bg_registry_options;

#define BG_REGISTRY_OPTIONS_INIT                                                       \
    {                                                                                  \
        sizeof(bg_registry_options), 0, BG_SPEC_INIT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
            0                                                                          \
    }

/* The folder must exist. Errors: BG_EINVAL; BG_ENOMEM; BG_EIO (folder); BG_EBUSY: another
 * registry uses it. */
BG_API BG_MUST_CHECK bg_err bg_registry_create(const bg_registry_options *options,
                                               bg_registry **registry,
                                               bg_errinfo *info);

/* Frees it with all tenants, which must have been released; what is in memory is not
 * written: see bg_registry_save. NULL is allowed. Thread safety: MT-Excl. */
BG_API void bg_registry_free(bg_registry *registry);

enum { BG_REGISTRY_CREATE = 1u << 0 };

/*
 * The tenant of that name, held until bg_tenant_release. With BG_REGISTRY_CREATE it is
 * created by the template if there is none.
 * Errors: BG_ENOTFOUND; BG_EQUOTA (max_tenants, max_total_bytes); BG_EINVAL; BG_ENOMEM.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_registry_get(bg_registry *registry, const char *name,
                                            uint32_t flags, bg_tenant **tenant,
                                            bg_errinfo *info);
BG_API void bg_tenant_release(bg_tenant *tenant); /* NULL is allowed */

/* Forgets a tenant, its file included; those who hold it keep it until they release it.
 * BG_ENOTFOUND. */
BG_API BG_MUST_CHECK bg_err bg_registry_remove(bg_registry *registry, const char *name,
                                               bg_errinfo *info);

/* Calls `visit` for every tenant, in no order, until it returns false. It may use the
 * registry. Tenants that come or go meanwhile may be told or not. */
BG_API void bg_registry_for_each(bg_registry *registry,
                                 bool (*visit)(void *context, bg_tenant *tenant),
                                 void *context);

/*
 * What has to be done from time to time: writes idle tenants to the folder and frees them.
 * Errors: of the first that could not be written, which stays in memory; the others are
 * done all the same. *evicted, unless NULL, says how many went.
 */
BG_API BG_MUST_CHECK bg_err bg_registry_tick(bg_registry *registry, size_t *evicted,
                                             bg_errinfo *info);

/* Writes every tenant that changed to the folder; they stay in memory. */
BG_API BG_MUST_CHECK bg_err bg_registry_save(bg_registry *registry, bg_errinfo *info);

/* ---- A tenant ---------------------------------------------------------------------- */

/* Returns the name of a tenant, valid while the tenant is held. */
BG_API const char *bg_tenant_name(const bg_tenant *tenant);

/*
 * As for a slot, within the quotas. If the tenant has a gate, that forgets what it remembers
 * of the absence of the keys, as in bg_gate_add.
 * Errors: BG_EQUOTA, with what was exceeded; else those of bg_slot_add, and of reading the
 * tenant's file back.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_tenant_add(bg_tenant *tenant, const void *key,
                                          size_t len, bool *is_new, bg_errinfo *info);
BG_API BG_MUST_CHECK bg_err bg_tenant_add_many(bg_tenant *tenant, const bg_bytes *keys,
                                               size_t n, size_t *done, size_t *added,
                                               bg_errinfo *info);
BG_API bool bg_tenant_may_contain(bg_tenant *tenant, const void *key, size_t len);
BG_API size_t bg_tenant_may_contain_many(bg_tenant *tenant, const bg_bytes *keys,
                                         size_t n, uint64_t *maybe);

/* The slot and the gate (NULL: none) of a tenant. Whoever asked for them finds them in
 * memory, at the same place, until nobody holds the tenant. NULL also when its file cannot be
 * read. Adds past the tenant are past its quotas. */
BG_API bg_slot *bg_tenant_slot(bg_tenant *tenant);
BG_API bg_gate *bg_tenant_gate(bg_tenant *tenant);

typedef struct bg_tenant_info {
    uint32_t struct_size; /* sizeof(bg_tenant_info) */
    uint32_t in_memory;
    uint64_t items; /* added, certainly new */
    uint64_t bytes;
    uint64_t limited_items; /* adds refused, by quota */
    uint64_t limited_bytes;
    uint64_t limited_rate;
    uint64_t evictions;
    uint64_t returns;
    uint64_t return_failures;
} bg_tenant_info;

/* Fills in the statistics of a tenant. Errors: BG_EINVAL for NULL or a wrong struct_size. */
BG_API BG_MUST_CHECK bg_err bg_tenant_get_info(bg_tenant *tenant,
                                               bg_tenant_info *stats);

typedef struct bg_registry_info {
    uint32_t struct_size; /* sizeof(bg_registry_info) */
    uint32_t tenants;
    uint64_t in_memory; /* of them */
    uint64_t bytes;     /* of their filters */
    uint64_t created;
    uint64_t removed;
    uint64_t evictions;
    uint64_t returns;
    uint64_t return_failures;
    uint64_t limited; /* adds and creations refused */
} bg_registry_info;

/* Fills in the statistics of a registry. Errors: BG_EINVAL for NULL or a wrong struct_size. */
BG_API BG_MUST_CHECK bg_err bg_registry_get_info(bg_registry *registry,
                                                 bg_registry_info *stats);

#ifdef __cplusplus
}
#endif

#endif
