/* Tests tenants' quotas for items, bytes and insert rates. One tenant cannot use up another
 * tenant's quota. */
#define _GNU_SOURCE /* O_DIRECTORY */

#include "support/registry_world.h"

#include "gate/tenant.h"

TEST(quotas__items)
{
    bg_errinfo why;
    bg_registry_options options = usual();
    options.max_items = 50;
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme"),
              *other = get_tenant(registry, "other");
    uint64_t key = 0, refused;
    while (tenant_stats(acme).items < 50) {
        CHECK_OK(add(acme, key++));
    }
    refused = key + 1000;
    while (has(acme, refused)) {
        refused++;
    }
    CHECK_EQ(bg_tenant_add(acme, &refused, sizeof refused, NULL, &why), BG_EQUOTA);
    CHECK_STR(why.what, "max_items");
    CHECK(strstr(why.message, "50 items") != NULL);
    CHECK(!has(acme, refused));
    /* The key already exists, so the number of items stays the same. */
    CHECK_OK(add(acme, 3));
    CHECK_EQ(tenant_stats(acme).items, 50);
    CHECK_EQ(tenant_stats(acme).limited_items, 1);
    CHECK_EQ(registry_stats(registry).limited, 1);
    add_all(other, 0, 20);
    CHECK_EQ(tenant_stats(other).limited_items, 0);
    bg_tenant_release(acme);
    bg_tenant_release(other);
    bg_registry_free(registry);
}

TEST(quotas__items_of_a_batch)
{
    enum { N = 100, MOST = 60 };
    uint64_t numbers[N];
    bg_bytes keys[N];
    size_t done = 0, added = 0;
    bg_registry_options options = usual();
    options.max_items = MOST;
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    for (size_t i = 0; i < N; i++) {
        numbers[i] = i % 2 ? 0 : i; /* every second key is a duplicate */
        keys[i] = (bg_bytes){ &numbers[i], sizeof numbers[i] };
    }
    CHECK_OK(bg_tenant_add_many(acme, keys, N, &done, &added, NULL));
    CHECK_EQ(done, N);
    CHECK_EQ(tenant_stats(acme).items, added);
    CHECK(added <= N / 2);
    for (size_t i = 0; i < N; i++) {
        numbers[i] += 1000;
    }
    CHECK_EQ(bg_tenant_add_many(acme, keys, N, &done, &added, NULL), BG_EQUOTA);
    CHECK_EQ(tenant_stats(acme).items, MOST);
    CHECK(done < N && added <= done);
    CHECK_EQ(tenant_stats(acme).limited_items, N - done);
    for (size_t i = 0; i < done; i++) { /* keys reported as added are present */
        CHECK(bg_tenant_may_contain(acme, &numbers[i], sizeof numbers[i]));
    }
    CHECK(!bg_tenant_may_contain(acme, &numbers[done], sizeof numbers[done]));
    bg_tenant_release(acme);
    bg_registry_free(registry);
}

TEST(quotas__bytes_of_a_new_one)
{
    bg_tenant *tenant = NULL;
    bg_errinfo why;
    bg_registry_options options = usual();
    options.max_bytes = 1000; /* 1000 items need more */
    bg_registry *registry = open_registry(&options);
    CHECK_EQ(bg_registry_get(registry, "acme", BG_REGISTRY_CREATE, &tenant, &why),
             BG_EQUOTA);
    CHECK_STR(why.what, "max_bytes");
    CHECK(tenant == NULL);
    CHECK_EQ(registry_stats(registry).limited, 1);
    CHECK_EQ(registry_stats(registry).tenants, 0);
    CHECK_EQ(registry_stats(registry).bytes, 0);
    bg_registry_free(registry);
}

TEST(quotas__bytes_of_one_that_grows)
{
    bg_errinfo why = { .code = BG_OK };
    bg_registry_options options = usual();
    options.spec.kind = BG_KIND_SCALABLE;
    options.spec.items = 100;
    options.max_bytes = 32768;
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    uint64_t first = tenant_stats(acme).bytes, in = 0;
    CHECK(first < 4096);
    for (uint64_t key = 0; key < 100000 && why.code == BG_OK; key++) {
        in += bg_tenant_add(acme, &key, sizeof key, NULL, &why) == BG_OK;
        CHECK(tenant_stats(acme).bytes <= options.max_bytes);
    }
    CHECK_EQ(why.code, BG_EQUOTA);
    CHECK_STR(why.what, "max_bytes");
    CHECK(in > 1000 && tenant_stats(acme).bytes > 2 * first); /* it has grown */
    CHECK_EQ(tenant_stats(acme).limited_bytes, 1);
    CHECK_EQ(registry_stats(registry).bytes, tenant_stats(acme).bytes);
    /* No key was added beyond the capacity, so the false-positive rate is as designed. */
    check_keys(acme, 0, in);
    CHECK(count_found(acme, 1 << 20, (1 << 20) + 10000) < 150);
    bg_tenant_release(acme);
    bg_registry_free(registry);
}

TEST(quotas__total_bytes)
{
    bg_tenant *tenant = NULL;
    bg_errinfo why;
    bg_registry_options options = usual();
    bg_registry *registry = open_registry(&options);
    bg_tenant_release(get_tenant(registry, "a"));
    uint64_t one = registry_stats(registry).bytes;
    bg_registry_free(registry);

    options.max_total_bytes = 3 * one + one / 2;
    registry = open_registry(&options);
    fill_names(registry, 3);
    CHECK_EQ(bg_registry_get(registry, "d", BG_REGISTRY_CREATE, &tenant, &why),
             BG_EQUOTA);
    CHECK_STR(why.what, "max_total_bytes");
    CHECK_EQ(registry_stats(registry).bytes, 3 * one);
    CHECK_OK(bg_registry_remove(registry, "t1", NULL));
    fill_names(registry, 2);
    CHECK_EQ(registry_stats(registry).bytes, 3 * one);
    CHECK_EQ(registry_stats(registry).limited, 1);
    bg_registry_free(registry);
}

/* Checks that the total limit (max_total_bytes) rejected keys only for `hog`, then frees
 * everything. */
static void check_only_one_is_limited(bg_registry *registry, bg_tenant *hog,
                                      bg_tenant *small, const bg_errinfo *why)
{
    CHECK_EQ(why->code, BG_EQUOTA);
    CHECK_STR(why->what, "max_total_bytes");
    add_all(small, 0, 90);
    bg_tenant_release(hog);
    bg_tenant_release(small);
    bg_registry_free(registry);
}

/* When the total limit is reached, a tenant that would have to grow refuses keys, but a tenant that
 * stays small still accepts them. */
TEST(quotas__total_bytes_of_those_who_grow)
{
    bg_errinfo why = { .code = BG_OK };
    bg_registry_options options = usual();
    options.spec.kind = BG_KIND_SCALABLE;
    options.spec.items = 100;
    options.max_total_bytes = 8192;
    bg_registry *registry = open_registry(&options);
    bg_tenant *hog = get_tenant(registry, "hog"),
              *small = get_tenant(registry, "small");
    for (uint64_t key = 0; key < 100000 && why.code == BG_OK; key++) {
        (void)!bg_tenant_add(hog, &key, sizeof key, NULL, &why);
    }
    check_only_one_is_limited(registry, hog, small, &why);
}

/* Returns options for windows that grow when all keys are added again in each period. */
static bg_window_options window_of_ten_minutes(void)
{
    bg_window_options window = BG_WINDOW_OPTIONS_INIT;
    window.length = 700 * SECOND; /* periods of 100 seconds */
    window.clock = tell_time;
    return window;
}

/* A window stays within the quota, even after an eviction, and does not forget keys too early. */
TEST(quotas__bytes_of_a_window)
{
    for (int own = 0; own < 2;
         own++) { /* first uses the registry's quota, then the limit in the spec */
        bg_registry_options options = on_disk();
        const bg_window_options window = window_of_ten_minutes();
        options.spec.kind = BG_KIND_WINDOW;
        options.spec.window = &window;
        *(own ? &options.spec.max_bytes : &options.max_bytes) = 6000;
        bg_registry *registry = open_registry(&options);
        bg_tenant *acme = get_tenant(registry, "acme");
        const uint64_t first = tenant_stats(acme).bytes;
        for (int period = 0; period < 10; period++) {
            add_all(acme, 0, 1000);
            const uint64_t counted = registry_stats(registry).bytes;
            CHECK(tenant_stats(acme).bytes <= 6000);
            CHECK_EQ(counted, tenant_stats(acme).bytes);
            CHECK_EQ(count_found(acme, 0, 1000), 1000);
            bg_tenant_release(acme);
            CHECK_EQ(pass(registry, 100 * SECOND), 1);
            acme = get_tenant(registry, "acme");
        }
        add_all(acme, 0, 1);
        CHECK(tenant_stats(acme).bytes > first); /* it has grown */
        bg_tenant_release(acme);
        bg_registry_free(registry);
        files_clean();
    }
}

TEST(quotas__total_bytes_of_windows)
{
    bg_errinfo why = { .code = BG_OK };
    bg_registry_options options = usual();
    const bg_window_options window = window_of_ten_minutes();
    options.spec.kind = BG_KIND_WINDOW;
    options.spec.window = &window;
    options.max_total_bytes = 8000;
    bg_registry *registry = open_registry(&options);
    bg_tenant *hog = get_tenant(registry, "hog"),
              *small = get_tenant(registry, "small");
    for (uint64_t key = 0; key < 10000 && why.code == BG_OK; key++) {
        const uint64_t again = key % 1000;
        the_time += key % 1000 ? 0 : 100 * SECOND;
        (void)!bg_tenant_add(hog, &again, sizeof again, NULL, &why);
    }
    check_only_one_is_limited(registry, hog, small, &why);
}

TEST(quotas__tenants)
{
    bg_tenant *tenant = NULL;
    bg_errinfo why;
    bg_registry_options options = usual();
    options.max_tenants = 3;
    bg_registry *registry = open_registry(&options);
    fill_names(registry, 3);
    CHECK_EQ(bg_registry_get(registry, "d", BG_REGISTRY_CREATE, &tenant, &why),
             BG_EQUOTA);
    CHECK_STR(why.what, "max_tenants");
    CHECK(strstr(why.message, "3 tenants") != NULL);
    fill_names(registry, 3); /* existing tenants continue to work */
    CHECK_OK(bg_registry_remove(registry, "t0", NULL));
    bg_tenant_release(get_tenant(registry, "d"));
    CHECK_EQ(registry_stats(registry).limited, 1);
    bg_registry_free(registry);
}

TEST(quotas__rate)
{
    bg_errinfo why;
    bg_registry_options options = usual();
    options.inserts_per_second = 100;
    options.burst = 10;
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme"),
              *other = get_tenant(registry, "other");
    add_all(acme, 0, 10);
    uint64_t key = 5000;
    CHECK_EQ(bg_tenant_add(acme, &key, sizeof key, NULL, &why), BG_EQUOTA);
    CHECK_STR(why.what, "inserts_per_second");
    CHECK(!has(acme, key));
    add_all(other, 0, 10); /* this tenant has its own token bucket */
    the_time += SECOND / 100;
    CHECK_OK(add(acme, key));
    CHECK_EQ(add(acme, key), BG_EQUOTA);
    the_time += 100 * SECOND;
    add_all(acme, 100, 110);
    CHECK_EQ(add(acme, 110), BG_EQUOTA);
    CHECK_EQ(tenant_stats(acme).limited_rate, 3);
    CHECK_EQ(tenant_stats(other).limited_rate, 0);
    CHECK(has(acme, 0)); /* lookups are free */
    /* A batch adds keys until no tokens are left. */
    uint64_t numbers[20];
    bg_bytes keys[20];
    size_t done = 0;
    for (size_t i = 0; i < 20; i++) {
        numbers[i] = 7000 + i;
        keys[i] = (bg_bytes){ &numbers[i], sizeof numbers[i] };
    }
    the_time += SECOND / 20;
    CHECK_EQ(bg_tenant_add_many(acme, keys, 20, &done, NULL, &why), BG_EQUOTA);
    CHECK_EQ(done, 5);
    CHECK_EQ(tenant_stats(acme).limited_rate, 3 + 15);
    CHECK_EQ(registry_stats(registry).limited, 3 + 15);
    bg_tenant_release(acme);
    bg_tenant_release(other);
    bg_registry_free(registry);
}

TEST(quotas__clock_jumps)
{
    bg_registry_options options = usual();
    options.inserts_per_second = 10;
    options.burst = 10;
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    add_all(acme, 0, 10);
    /* Moving the clock back grants no tokens, but tokens accumulate as usual afterwards. */
    the_time -= 900 * SECOND;
    CHECK_EQ(add(acme, 10), BG_EQUOTA);
    the_time += SECOND;
    add_all(acme, 10, 20);
    CHECK_EQ(add(acme, 20), BG_EQUOTA);
    bg_tenant_release(acme);
    bg_registry_free(registry);
}

TEST(quotas__a_flood_is_its_own_problem)
{
    bg_registry_options options = usual();
    options.max_items = 500;
    options.inserts_per_second = 1000;
    options.burst = 600;
    bg_registry *registry = open_registry(&options);
    bg_tenant *flood = get_tenant(registry, "flood"),
              *calm = get_tenant(registry, "calm");
    uint64_t refused = 0, bytes = tenant_stats(flood).bytes;
    for (uint64_t key = 0; key < 20000; key++) {
        refused += add(flood, key) != BG_OK;
        if (key % 100 == 0) {
            CHECK_OK(add(calm, key));
        }
    }
    CHECK(refused > 19000);
    CHECK(tenant_stats(flood).items <= 500);
    CHECK_EQ(tenant_stats(flood).bytes, bytes);
    CHECK_EQ(tenant_stats(flood).limited_items + tenant_stats(flood).limited_rate,
             refused);
    bg_tenant_info stats = tenant_stats(calm);
    CHECK(stats.items > 190);
    CHECK_EQ(stats.limited_items + stats.limited_rate + stats.limited_bytes, 0);
    for (uint64_t key = 0; key < 20000; key += 100) {
        CHECK(has(calm, key));
    }
    CHECK(count_found(calm, 1 << 20, (1 << 20) + 1000) < 30);
    bg_tenant_release(flood);
    bg_tenant_release(calm);
    bg_registry_free(registry);
}
