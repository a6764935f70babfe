/*
 * 09_tenants.c - one filter per customer: created on first use, limited by quotas,
 * saved to a directory when idle, and loaded again on the next use. The example uses a
 * simulated clock, so it does not have to wait for customers to become idle.
 */
#define _DEFAULT_SOURCE /* mkdtemp */

#include <bloomgate/server.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MINUTE UINT64_C(60000000000) /* nanoseconds */
enum { ORDERS = 500 };
static uint64_t now = 1;

static uint64_t played_time(void *context)
{
    (void)context;
    return now;
}

/* Adds a customer's orders. Returns how many orders were accepted. */
static int order(bg_registry *registry, const char *customer, int from, int to)
{
    bg_tenant *tenant = NULL;
    bg_errinfo why = { .code = BG_OK };
    char key[32];
    int taken = 0;
    if (bg_registry_get(registry, customer, BG_REGISTRY_CREATE, &tenant, &why)) {
        to = from; /* nothing to add */
    }
    for (int i = from; i < to; i++) {
        size_t len = (size_t)snprintf(key, sizeof key, "order-%d", i);
        taken += bg_tenant_add(tenant, key, len, NULL, &why) == BG_OK;
    }
    printf("%-8s %5d of %5d accepted%s%s\n", customer, taken, to - from,
           why.code ? ", then: " : "", why.message);
    bg_tenant_release(tenant);
    return taken;
}

/* Returns how many of the orders `from` to `to` - 1 the customer may have placed, or -1 if the
 * customer is unknown. */
static int known(bg_registry *registry, const char *customer, int from, int to)
{
    bg_tenant *tenant = NULL;
    char key[32];
    int maybe = bg_registry_get(registry, customer, 0, &tenant, NULL) == BG_OK ? 0 : -1;
    for (int i = from; tenant && i < to; i++) {
        size_t len = (size_t)snprintf(key, sizeof key, "order-%d", i);
        maybe += bg_tenant_may_contain(tenant, key, len);
    }
    bg_tenant_release(tenant);
    return maybe;
}

static bool run(bg_registry *registry)
{
    size_t gone = 0;
    bool right = order(registry, "acme", 0, ORDERS) == ORDERS;
    right &= order(registry, "flood", 0, 100000)
             == 1000; /* only this customer is over quota */
    right &= order(registry, "../etc", 0, ORDERS)
             == ORDERS; /* names cannot escape the directory */
    now += 10 * MINUTE;
    right &= known(registry, "acme", 0, ORDERS) == ORDERS; /* acme is active */
    right &= bg_registry_tick(registry, &gone, NULL) == BG_OK && gone == 2;
    printf("%zu idle customers were unloaded from memory\n", gone);
    right &= known(registry, "../etc", 0, ORDERS) == ORDERS; /* loaded again */
    right &= known(registry, "../etc", ORDERS, 2 * ORDERS) < ORDERS / 10;
    right &= known(registry, "nobody", 0, 1) == -1;
    return right && bg_registry_save(registry, NULL) == BG_OK;
}

int main(void)
{
    char folder[] = "/tmp/bloomgate-example-XXXXXX";
    bg_registry_options options = BG_REGISTRY_OPTIONS_INIT;
    bg_registry *registry = NULL;
    options.spec.items = 1000;
    options.spec.rate = 0.01;
    options.inserts_per_second = 100;
    options.burst = 1000;
    options.idle = 5 * MINUTE;
    options.clock = played_time;
    options.directory = mkdtemp(folder);
    bool right = options.directory
                 && bg_registry_create(&options, &registry, NULL) == BG_OK
                 && run(registry);
    bg_registry_free(registry);
    /* A later process finds all customers in the directory. */
    right = right && bg_registry_create(&options, &registry, NULL) == BG_OK
            && known(registry, "acme", 0, ORDERS) == ORDERS
            && bg_registry_remove(registry, "acme", NULL) == BG_OK
            && bg_registry_remove(registry, "flood", NULL) == BG_OK
            && bg_registry_remove(registry, "../etc", NULL) == BG_OK;
    bg_registry_free(registry);
    return rmdir(folder) == 0 && right ? 0 : 1;
}
