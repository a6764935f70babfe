/*
 * metrics_registry.c - collects the metrics of a registry and its tenants.
 *
 * Reading a tenant's metrics must not count as using the tenant. Otherwise, tenants that are
 * monitored every minute would never be idle, and evicted tenants would all be reloaded from
 * disk. So the slot and the gate are not obtained with bg_tenant_slot. Instead, they are read
 * inside a read-side critical section of the registry's grace object, which keeps them alive.
 * Tenants without a slot in memory are skipped before bg_tenant_get_info is called, because that
 * function may read their files.
 */
#include "gate/metrics.h"

#include "base/errinfo.h"
#include "gate/tenant.h"

#include <string.h>

/* The facts about tenants, and copies of the tenants' names, because a tenant may be removed
 * before the document is written. */
struct tenants {
    struct metrics_facts *facts;
    char (*names)[BG_TENANT_NAME_MAX + 1];
    size_t n, most;
    uint32_t flags;
    bg_errinfo *info;
    bg_err err;
};

static void tenants_gather_own(const bg_tenant_info *stats, struct metrics_facts *facts)
{
    facts->tenant_items = stats->items;
    facts->limited_items = stats->limited_items;
    facts->limited_bytes = stats->limited_bytes;
    facts->limited_rate = stats->limited_rate;
    facts->evictions = stats->evictions;
    facts->returns = stats->returns;
    facts->return_failures = stats->return_failures;
    facts->has |= METRICS_TENANT;
}

/* Returns BG_OK even if the tenant has just been evicted. */
static bg_err tenants_gather_slot(const struct tenants *tenants, bg_tenant *tenant,
                                  struct metrics_facts *facts)
{
    struct bgi_grace *grace = &tenant->registry->grace;
    const bgi_grace_token token = bgi_grace_enter(grace);
    const bg_slot *slot = atomic_load(&tenant->slot);
    bg_err err = slot ? metrics_gather(slot, tenant->gate, NULL, tenants->flags, facts,
                                       tenants->info)
                      : BG_OK;
    bgi_grace_leave(grace, token);
    return err;
}

static bool tenants_visit(void *context, bg_tenant *tenant)
{
    struct tenants *tenants = context;
    bg_tenant_info stats = { .struct_size = sizeof stats };
    if (tenants->n == tenants->most || !atomic_load(&tenant->slot)) {
        return tenants->n < tenants->most;
    }
    bg_err err = bg_tenant_get_info(tenant, &stats);
    if (err) {
        tenants->err =
            bgi_err_state(tenants->info, err, "tenant",
                          "cannot read the tenant's metrics: %s", bg_strerror(err));
        return false;
    }
    struct metrics_facts *facts = &tenants->facts[tenants->n];
    char *name = tenants->names[tenants->n];
    strncpy(name, bg_tenant_name(tenant), BG_TENANT_NAME_MAX);
    facts->name = name;
    tenants_gather_own(&stats, facts);
    tenants->err = tenants_gather_slot(tenants, tenant, facts);
    tenants->n++;
    return tenants->err == BG_OK;
}

static bg_err tenants_gather_registry(bg_registry *registry,
                                      struct metrics_facts *facts, bg_errinfo *info)
{
    bg_registry_info stats = { .struct_size = sizeof stats };
    bg_err err = bg_registry_get_info(registry, &stats);
    if (err) {
        return bgi_err_state(info, err, "registry",
                             "cannot read the registry's metrics: %s",
                             bg_strerror(err));
    }
    facts->in_memory = stats.in_memory;
    facts->in_directory =
        stats.tenants > stats.in_memory ? stats.tenants - stats.in_memory : 0;
    facts->registry_bytes = stats.bytes;
    facts->created = stats.created;
    facts->removed = stats.removed;
    facts->evictions = stats.evictions;
    facts->returns = stats.returns;
    facts->return_failures = stats.return_failures;
    facts->limited = stats.limited;
    facts->has |= METRICS_REGISTRY;
    return BG_OK;
}

bg_err bg_metrics_write_registry(bg_registry *registry, size_t max_tenants,
                                 bg_metrics_format format, uint32_t flags,
                                 bg_metrics_sink_fn sink, void *context,
                                 bg_errinfo *info)
{
    struct bgi_memory memory;
    struct metrics_facts own[2] = { { .name = NULL } };
    struct tenants tenants = { .flags = flags, .info = info };
    size_t each = sizeof(struct metrics_facts) + sizeof tenants.names[0];
    bg_err err = metrics_check(format, flags, sink, info);
    if (!err && !registry) {
        err = bgi_err(info, BG_EINVAL, "registry", "a registry", "NULL");
    }
    err = err ? err : tenants_gather_registry(registry, &own[1], info);
    if (err) {
        return err;
    }
    tenants.most =
        max_tenants < own[1].in_memory ? max_tenants : (size_t)own[1].in_memory;
    struct metrics_facts *facts = metrics_take(&memory, tenants.most + 2, each, info);
    if (!facts) {
        return BG_ENOMEM;
    }
    tenants.facts = facts + 2;
    tenants.names = (void *)(tenants.facts + tenants.most);
    bg_registry_for_each(registry, tenants_visit, &tenants);
    metrics_gather_process(&own[0]);
    own[1].included = tenants.n;
    memcpy(facts, own, sizeof own);
    err = tenants.err
              ? tenants.err
              : metrics_document(facts, 2 + tenants.n, format, sink, context, info);
    bgi_memory_give(&memory);
    return err;
}
