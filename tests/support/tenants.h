/* tenants.h - opens registries and tenants and reads statistics. Any failure fails the test. */
#ifndef TENANTS_H
#define TENANTS_H

#include "bloomgate/registry.h"
#include "support/check.h"

static inline bg_registry *open_registry(const bg_registry_options *options)
{
    bg_registry *registry = NULL;
    bg_errinfo why;
    if (bg_registry_create(options, &registry, &why)) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    return registry;
}

/* Returns the tenant with the given name, creating it if needed. */
static inline bg_tenant *get_tenant(bg_registry *registry, const char *name)
{
    bg_tenant *tenant = NULL;
    bg_errinfo why;
    if (bg_registry_get(registry, name, BG_REGISTRY_CREATE, &tenant, &why)) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    return tenant;
}

static inline bg_registry_info registry_stats(bg_registry *registry)
{
    bg_registry_info stats = { .struct_size = sizeof stats };
    CHECK_OK(bg_registry_get_info(registry, &stats));
    return stats;
}

static inline bg_tenant_info tenant_stats(bg_tenant *tenant)
{
    bg_tenant_info stats = { .struct_size = sizeof stats };
    CHECK_OK(bg_tenant_get_info(tenant, &stats));
    return stats;
}

#endif
