/*
 * Tenants are evicted from memory and reloaded with all of their keys. The tests also cover
 * directories, damaged files, disk failures and clock changes.
 */
#define _GNU_SOURCE /* O_DIRECTORY */

#include "support/adds.h"
#include "support/registry_world.h"

#include "gate/tenant.h"

#include <sys/wait.h>

/* ---- Eviction and reload ------------------------------------------------------------------ */

TEST(evict__idle_ones_go_and_come_back)
{
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme"),
              *busy = get_tenant(registry, "busy");
    add_all(acme, 0, 500);
    uint64_t items = tenant_stats(acme).items, bytes = tenant_stats(acme).bytes;
    CHECK_EQ(pass(registry, IDLE - 1), 0);
    CHECK_OK(add(busy, 1));
    CHECK_EQ(pass(registry, 1), 1);
    bg_tenant_info stats = tenant_stats(acme);
    CHECK_EQ(stats.in_memory, 0);
    CHECK_EQ(stats.bytes, 0);
    CHECK_EQ(stats.items, items);
    CHECK_EQ(stats.evictions, 1);
    CHECK_EQ(stats.returns, 0);
    CHECK(file_exists("acme.bg") && !file_exists("busy.bg"));
    CHECK_EQ(registry_stats(registry).in_memory, 1);
    CHECK_EQ(registry_stats(registry).bytes, bytes);
    CHECK_EQ(registry_stats(registry).tenants, 2);
    CHECK(has(acme, 0)); /* reads it */
    check_keys(acme, 0, 500);
    stats = tenant_stats(acme);
    CHECK_EQ(stats.in_memory, 1);
    CHECK_EQ(stats.bytes, bytes);
    CHECK_EQ(stats.items, items);
    CHECK_EQ(stats.returns, 1);
    add_all(acme, 500, 600);
    CHECK_EQ(pass(registry, IDLE), 2);
    check_keys(acme, 0, 600);
    CHECK(has(busy, 1));
    CHECK_EQ(registry_stats(registry).evictions, 3);
    CHECK_EQ(registry_stats(registry).returns, 3);
    CHECK_EQ(registry_stats(registry).return_failures, 0);
    bg_tenant_release(acme);
    bg_tenant_release(busy);
    bg_registry_free(registry);
    files_clean();
}

/* Tests every kind that accepts adds. */
TEST(evict__kinds)
{
    unsigned tried = 0;
    for (unsigned i = 0; i < FILES_CASES_COUNT; i++) {
        bg_registry_options options = on_disk();
        options.spec = files_spec(i);
        if (bg_kind_traits((bg_kind)options.spec.kind) & BG_TRAIT_STATIC) {
            continue;
        }
        tried++;
        bg_registry *registry = open_registry(&options);
        bg_tenant *acme = get_tenant(registry, "acme");
        for (uint64_t turn = 0; turn < 3; turn++) {
            add_all(acme, 50 * turn, 50 * turn + 50);
            CHECK_EQ(pass(registry, IDLE), 1);
            CHECK_EQ(count_found(acme, 0, 50 * turn + 50), 50 * turn + 50);
        }
        bg_tenant_release(acme);
        bg_registry_free(registry);
    }
    CHECK(tried >= 12);
    files_clean();
}

TEST(evict__secrets)
{
    uint8_t secret[BG_SECRET_BYTES] = "fifteen bytes..";
    char name[] = "acme";
    bg_registry_options options = on_disk();
    options.spec.hash.profile = BG_HASH_KEYED;
    options.spec.hash.secret = secret;
    bg_registry *registry = open_registry(&options);
    memset(secret, 0, sizeof secret); /* it was copied */
    bg_tenant *acme = get_tenant(registry, name);
    add_all(acme, 0, 100);
    CHECK_EQ(pass(registry, IDLE), 1);
    check_keys(acme, 0, 100);
    CHECK_EQ(pass(registry, IDLE), 1);
    bg_tenant_release(acme);
    bg_registry_free(registry);
    registry = open_registry(&options); /* opens the registry with the wrong secret */
    acme = get_tenant(registry, name);
    CHECK(has(acme, 1 << 30));
    CHECK_EQ(add(acme, 1), BG_EINCOMPAT);
    bg_tenant_release(acme);
    bg_registry_free(registry);
    files_clean();
}

TEST(evict__unchanged_ones_are_not_written)
{
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    add_all(acme, 0, 100);
    CHECK_EQ(pass(registry, IDLE), 1);
    unsigned long number = file_number("acme.bg");
    check_keys(acme, 0, 100);
    CHECK_EQ(pass(registry, IDLE), 1);
    CHECK_EQ(file_number("acme.bg"), number);
    CHECK_OK(add(acme, 100));
    CHECK_EQ(pass(registry, IDLE), 1);
    CHECK(file_number("acme.bg") != number);
    check_keys(acme, 0, 101);
    /* An unchanged tenant is still written if its file is missing. */
    CHECK(unlink(files_path("acme.bg")) == 0);
    CHECK_EQ(pass(registry, IDLE), 1);
    check_keys(acme, 0, 101);
    bg_tenant_release(acme);
    bg_registry_free(registry);
    files_clean();
}

TEST(evict__whoever_has_the_slot_keeps_it)
{
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme"),
              *again = get_tenant(registry, "acme");
    bg_slot *slot = bg_tenant_slot(acme);
    CHECK_EQ(pass(registry, IDLE), 0);
    CHECK_OK(bg_slot_add(slot, "k", 1, NULL));
    bg_tenant_release(acme); /* another caller still holds the tenant */
    CHECK_EQ(pass(registry, IDLE), 0);
    CHECK_OK(bg_slot_add(slot, "l", 1, NULL));
    bg_tenant_release(again);
    CHECK_EQ(pass(registry, IDLE), 1);
    acme = get_tenant(registry, "acme");
    CHECK_EQ(tenant_stats(acme).in_memory, 0);
    CHECK(bg_slot_may_contain(bg_tenant_slot(acme), "k", 1)); /* this reads it */
    CHECK(bg_tenant_may_contain(acme, "l", 1));
    CHECK_EQ(tenant_stats(acme).in_memory, 1);
    bg_tenant_release(acme);
    bg_registry_free(registry);
    files_clean();
}

static bg_tenant *who_is_used;

static void use_meanwhile(void)
{
    add_all(who_is_used, 100, 200);
}

/* A tenant that is used while it is being written stays in memory, and no key is lost. */
TEST(evict__used_while_it_is_written)
{
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    add_all(acme, 0, 100);
    who_is_used = acme;
    for (int round = 0; round < 2; round++) {
        disk.on_create = use_meanwhile;
        CHECK_EQ(pass(registry, IDLE), 0);
        CHECK(disk.on_create == NULL && file_exists("acme.bg"));
        CHECK_EQ(tenant_stats(acme).in_memory, 1);
        CHECK_EQ(tenant_stats(acme).evictions, 0);
        check_keys(acme, 0, 200);
    }
    CHECK_EQ(pass(registry, IDLE), 1);
    check_keys(acme, 0, 200);
    bg_tenant_release(acme);
    bg_registry_free(registry);
    files_clean();
}

/* An eviction preserves the slot's completeness number (bg_slot_complete_to). */
TEST(evict__completeness_stays)
{
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    bg_slot_advance(bg_tenant_slot(acme), 12345);
    bg_tenant_release(acme);
    CHECK_EQ(pass(registry, IDLE), 1);
    acme = get_tenant(registry, "acme");
    CHECK_EQ(bg_slot_complete_to(bg_tenant_slot(acme)), 12345);
    bg_tenant_release(acme);
    bg_registry_free(registry);
    files_clean();
}

TEST(evict__nowhere_to_go)
{
    bg_registry_options options = usual();
    options.idle = IDLE;
    bg_registry *registry = open_registry(&options);
    fill_names(registry, 3);
    CHECK_EQ(pass(registry, 10 * IDLE), 0);
    CHECK_EQ(bg_registry_save(registry, NULL), BG_EINVAL);
    bg_registry_free(registry);
    options = on_disk();
    options.idle = 0; /* never */
    registry = open_registry(&options);
    fill_names(registry, 3);
    CHECK_EQ(pass(registry, 1000 * IDLE), 0);
    CHECK_EQ(registry_stats(registry).in_memory, 3);
    bg_registry_free(registry);
    files_clean();
}

TEST(evict__clock_jumps)
{
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    add_all(acme, 0, 100);
    the_time -= 900 * SECOND;
    CHECK_EQ(pass(registry, 0), 0); /* idle time now counts from the earlier time */
    CHECK_EQ(pass(registry, IDLE - 1), 0);
    CHECK_EQ(pass(registry, 1), 1);
    check_keys(acme, 0, 100);
    the_time -= 5 * SECOND;
    CHECK(has(acme, 1));
    CHECK_EQ(pass(registry, IDLE), 1);
    check_keys(acme, 0, 100);
    CHECK_EQ(pass(registry, UINT64_MAX / 2), 1); /* far ahead */
    check_keys(acme, 0, 100);
    bg_tenant_release(acme);
    bg_registry_free(registry);
    files_clean();
}

TEST(evict__many)
{
    char name[16];
    bg_registry_options options = on_disk();
    options.spec.items = 50;
    bg_registry *registry = open_registry(&options);
    for (unsigned i = 0; i < 130; i++) {
        (void)snprintf(name, sizeof name, "t%u", i);
        bg_tenant *tenant = get_tenant(registry, name);
        add_all(tenant, i, i + 20);
        bg_tenant_release(tenant);
    }
    CHECK_EQ(pass(registry, IDLE), 130);
    CHECK_EQ(registry_stats(registry).in_memory, 0);
    CHECK_EQ(registry_stats(registry).bytes, 0);
    CHECK_EQ(count_files(), 130);
    for (unsigned i = 0; i < 130; i++) {
        (void)snprintf(name, sizeof name, "t%u", i);
        bg_tenant *tenant = get_tenant(registry, name);
        CHECK_EQ(count_found(tenant, i, i + 20), 20);
        bg_tenant_release(tenant);
    }
    bg_registry_free(registry);
    files_clean();
}

/* If max_total_bytes leaves no space to reload a tenant, the tenant answers "maybe" and refuses
 * adds until enough memory has been freed. */
TEST(evict__no_room_to_come_back)
{
    bg_errinfo why;
    uint64_t key = 1 << 30;
    bg_registry_options options = on_disk();
    options.max_total_bytes = 2000; /* two tenants of 1000 items do not fit */
    bg_registry *registry = open_registry(&options);
    bg_tenant *a = get_tenant(registry, "a");
    add_all(a, 0, 100);
    CHECK_EQ(pass(registry, IDLE), 1);
    bg_tenant *b = get_tenant(registry, "b");
    CHECK(has(a, key) && !has(b, key));
    CHECK_EQ(bg_tenant_add(a, &key, sizeof key, NULL, &why), BG_EQUOTA);
    CHECK_STR(why.what, "max_total_bytes");
    CHECK_EQ(tenant_stats(a).return_failures, 0);
    CHECK_EQ(tenant_stats(a).limited_bytes, 1);
    CHECK_EQ(pass(registry, IDLE), 1);
    check_keys(a, 0, 100); /* at once */
    CHECK(has(b, key));
    bg_tenant_release(a);
    bg_tenant_release(b);
    bg_registry_free(registry);
    files_clean();
}

/* ---- Files that have changed ------------------------------------------------------------- */

/* Checks that a tenant whose file is invalid answers "maybe", refuses adds, and doubles its retry
 * delay after each failed attempt. Finally, moves the clock forward, so that the next call tries to
 * load the file again. */
static void check_away(bg_registry *registry, bg_tenant *tenant, bg_err expected)
{
    bg_errinfo why;
    uint64_t keys[2] = { 1 << 30, 1 << 29 }, maybe = 0, wait = SECOND / 10;
    bg_bytes pairs[2] = { { &keys[0], 8 }, { &keys[1], 8 } };
    for (uint64_t failures = 1; failures < 15; failures++) {
        CHECK(has(tenant, keys[0]));
        CHECK_EQ(tenant_stats(tenant).return_failures, failures);
        CHECK_EQ(bg_tenant_may_contain_many(tenant, pairs, 2, &maybe), 2);
        CHECK_EQ(maybe, 3);
        CHECK_EQ(bg_tenant_add(tenant, keys, 8, NULL, &why), expected);
        CHECK(why.code == expected && *why.message);
        CHECK(bg_tenant_slot(tenant) == NULL);
        the_time += wait - 1;
        CHECK(has(tenant, keys[0]));
        CHECK_EQ(tenant_stats(tenant).return_failures, failures); /* not yet */
        the_time += 1;
        wait = 2 * wait < 60 * SECOND ? 2 * wait : 60 * SECOND;
    }
    CHECK_EQ(registry_stats(registry).in_memory, 0);
    CHECK_EQ(registry_stats(registry).bytes, 0);
    the_time += wait;
}

TEST(away__damaged_file)
{
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    add_all(acme, 0, 500);
    CHECK_EQ(pass(registry, IDLE), 1);
    damage("acme.bg", 4096 + 100);
    check_away(registry, acme, BG_ECHECKSUM);
    CHECK_EQ(pass(registry, IDLE), 0); /* the damaged file is not overwritten */
    damage("acme.bg", 4096 + 100);     /* intact again */
    check_keys(acme, 0, 500);
    CHECK_EQ(tenant_stats(acme).returns, 1);
    CHECK_EQ(pass(registry, IDLE), 1);
    /* Damages the header. The retry delay starts at its minimum again. */
    damage("acme.bg", 20);
    the_time += SECOND;
    CHECK(has(acme, 1 << 30));
    damage("acme.bg", 20);
    CHECK(has(acme, 1 << 30));
    the_time += SECOND / 10;
    check_keys(acme, 0, 500);
    bg_tenant_release(acme);
    bg_registry_free(registry);
    files_clean();
}

TEST(away__missing_file)
{
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    add_all(acme, 0, 500);
    CHECK_EQ(pass(registry, IDLE), 1);
    CHECK(rename(files_path("acme.bg"), files_path("elsewhere")) == 0);
    check_away(registry, acme, BG_EIO);
    CHECK(!file_exists("acme.bg"));
    CHECK(rename(files_path("elsewhere"), files_path("acme.bg")) == 0);
    check_keys(acme, 0, 500);
    bg_tenant_release(acme);
    bg_registry_free(registry);
    files_clean();
}

/* A clock that moves backward does not lengthen the retry delay. */
TEST(away__clock_goes_back)
{
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    add_all(acme, 0, 100);
    CHECK_EQ(pass(registry, IDLE), 1);
    CHECK(rename(files_path("acme.bg"), files_path("elsewhere")) == 0);
    CHECK(has(acme, 1 << 30));
    CHECK(rename(files_path("elsewhere"), files_path("acme.bg")) == 0);
    CHECK(has(acme, 1 << 30));
    the_time -= 500 * SECOND;
    check_keys(acme, 0, 100);
    bg_tenant_release(acme);
    bg_registry_free(registry);
    files_clean();
}

TEST(away__files_of_others)
{
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    bg_tenant *a = get_tenant(registry, "a"), *b = get_tenant(registry, "b");
    add_all(a, 0, 100);
    add_all(b, 100, 200);
    CHECK_EQ(pass(registry, IDLE), 2);
    CHECK(rename(files_path("a.bg"), files_path("c")) == 0);
    CHECK(rename(files_path("b.bg"), files_path("a.bg")) == 0);
    CHECK_EQ(add(a, 1), BG_EINCOMPAT);
    CHECK_EQ(count_found(a, 0, 1000), 1000);
    CHECK(rename(files_path("a.bg"), files_path("b.bg")) == 0);
    CHECK(rename(files_path("c"), files_path("a.bg")) == 0);
    the_time += SECOND;
    check_keys(a, 0, 100);
    check_keys(b, 100, 200);
    bg_tenant_release(a);
    bg_tenant_release(b);
    bg_registry_free(registry);
    files_clean();
}

/* An older file of the same tenant, which is missing recently added keys, must not be loaded. */
TEST(away__older_file)
{
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    add_all(acme, 0, 100);
    CHECK_EQ(pass(registry, IDLE), 1);
    CHECK(link(files_path("acme.bg"), files_path("old")) == 0);
    add_all(acme, 100, 200);
    CHECK_EQ(pass(registry, IDLE), 1);
    CHECK(rename(files_path("acme.bg"), files_path("new")) == 0);
    CHECK(rename(files_path("old"), files_path("acme.bg")) == 0);
    CHECK_EQ(add(acme, 1), BG_EINCOMPAT);
    CHECK_EQ(count_found(acme, 0, 1000), 1000);
    CHECK(rename(files_path("new"), files_path("acme.bg")) == 0);
    the_time += SECOND;
    check_keys(acme, 0, 200);
    bg_tenant_release(acme);
    bg_registry_free(registry);
    files_clean();
}

/* ---- Directories ------------------------------------------------------------------------- */

static const char *const odd_names[] = {
    "acme",  "Acme",  "..",         ".",           "/",
    "../up", "a/b/c", "x.bg",       "caf\xc3\xa9", "\xff\x01",
    "50%",   "+plus", " ",          "a b",         "con",
    "-rf",   "\n",    "a.bg.tmp.b", ".bg.tmp.",    "x.bg.tmp.1.00ab",
};
enum { ODD_NAMES = sizeof odd_names / sizeof *odd_names };

static void check_listed(bg_registry *registry)
{
    for (unsigned i = 0; i < ODD_NAMES; i++) {
        bg_tenant *tenant = NULL;
        CHECK_OK(bg_registry_get(registry, odd_names[i], 0, &tenant, NULL));
        bg_tenant_info stats = tenant_stats(tenant);
        CHECK_EQ(stats.in_memory, 0);
        /* The number of items is known without reading the file. */
        CHECK(stats.items >= 15 && stats.items <= 20);
        CHECK_EQ(count_found(tenant, 100 * i, 100 * i + 20), 20);
        CHECK(count_found(tenant, 1 << 20, (1 << 20) + 100) < 20);
        bg_tenant_release(tenant);
    }
}

TEST(folder__any_name_and_back)
{
    char longest[BG_TENANT_NAME_MAX + 1];
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    memset(longest, 0xfe, BG_TENANT_NAME_MAX);
    longest[BG_TENANT_NAME_MAX] = 0;
    for (unsigned i = 0; i < ODD_NAMES; i++) {
        bg_tenant *tenant = get_tenant(registry, odd_names[i]);
        add_all(tenant, 100 * i, 100 * i + 20);
        bg_tenant_release(tenant);
    }
    bg_tenant_release(get_tenant(registry, longest));
    CHECK_EQ(pass(registry, IDLE), ODD_NAMES + 1);
    /* No name creates a subdirectory: all files are in the registry's directory. */
    CHECK_EQ(count_files(), ODD_NAMES + 1);
    bg_registry_free(registry);
    registry = open_registry(&options);
    CHECK_EQ(registry_stats(registry).tenants, ODD_NAMES + 1);
    CHECK_EQ(registry_stats(registry).in_memory, 0);
    CHECK_EQ(registry_stats(registry).created, 0);
    check_listed(registry);
    CHECK_OK(find(registry, longest));
    bg_registry_free(registry);
    files_clean();
}

TEST(folder__quotas_survive)
{
    bg_registry_options options = on_disk();
    options.max_items = 100;
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    uint64_t key = 0;
    while (tenant_stats(acme).items < 99) {
        CHECK_OK(add(acme, key++));
    }
    bg_tenant_release(acme);
    CHECK_EQ(pass(registry, IDLE), 1);
    bg_registry_free(registry);
    registry = open_registry(&options);
    acme = get_tenant(registry, "acme");
    unsigned more = 0;
    for (key = 1 << 20; key < (1 << 20) + 50; key++) {
        more += !has(acme, key) && add(acme, key) == BG_OK;
    }
    CHECK_EQ(more, 1);
    CHECK_EQ(tenant_stats(acme).items, 100);
    bg_tenant_release(acme);
    bg_registry_free(registry);
    files_clean();
}

TEST(folder__what_else_is_there)
{
    bg_registry_options options = on_disk();
    static const char *const others[] = { "README", "x.txt", "Acme.bg", ".bg",
                                          "%zz.bg" };
    for (unsigned i = 0; i < 5; i++) {
        (void)close(__real_open(files_path(others[i]), O_CREAT | O_WRONLY, 0600));
    }
    (void)close(
        __real_open(files_path("gone.bg.tmp.12.00ab"), O_CREAT | O_WRONLY, 0600));
    bg_registry *registry = open_registry(&options);
    CHECK_EQ(registry_stats(registry).tenants, 0);
    /* The registry deleted this file, which an unfinished save had left behind. */
    CHECK(!file_exists("gone.bg.tmp.12.00ab"));
    /* The remaining files include .bg, which is not counted as a tenant. */
    CHECK_EQ(count_files(), 4);
    bg_registry_free(registry);
    files_clean();
}

/* The file was not written by the registry, so the number of items is estimated. */
TEST(folder__a_file_by_hand)
{
    bg_registry_options options = on_disk();
    bg_filter *filter = must_create(&options.spec);
    for (uint64_t key = 0; key < 500; key++) {
        (void)added(filter, &key, sizeof key);
    }
    CHECK_OK(bg_save(filter, files_path("acme.bg"), NULL, NULL));
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    check_keys(acme, 0, 500);
    CHECK_NEAR(tenant_stats(acme).items, 500, 0.1);
    /* If a tenant's file has appeared since the registry was opened, creating the tenant loads this
     * file instead of an empty filter. */
    CHECK_OK(bg_save(filter, files_path("late.bg"), NULL, NULL));
    bg_tenant *late = get_tenant(registry, "late");
    check_keys(late, 0, 500);
    bg_tenant_release(acme);
    bg_tenant_release(late);
    bg_registry_free(registry);
    bg_filter_free(filter);
    files_clean();
}

TEST(folder__one_registry_at_a_time)
{
    bg_registry *second = NULL;
    bg_errinfo why;
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    CHECK_EQ(bg_registry_create(&options, &second, &why), BG_EBUSY);
    CHECK(second == NULL);
    bg_registry_free(registry);
    registry = open_registry(&options);
    bg_registry_free(registry);
    files_clean();
}

TEST(folder__removal_deletes)
{
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    add_all(acme, 0, 100);
    CHECK_EQ(pass(registry, IDLE), 1);
    CHECK(file_exists("acme.bg"));
    CHECK_OK(bg_registry_remove(registry, "acme", NULL));
    CHECK(!file_exists("acme.bg"));
    /* The tenant was removed while its keys were only on disk, so its keys are unknown. */
    CHECK(has(acme, 1 << 30));
    CHECK_EQ(add(acme, 1), BG_ENOTFOUND);
    bg_tenant *young = get_tenant(registry, "acme");
    CHECK(count_found(young, 0, 100) < 20);
    CHECK_OK(add(young, 1));
    bg_tenant_release(young);
    /* Removing a tenant that is in memory leaves no file. */
    CHECK_OK(bg_registry_remove(registry, "acme", NULL));
    CHECK_EQ(pass(registry, 10 * IDLE), 0);
    CHECK_EQ(count_files(), 0);
    bg_tenant_release(acme);
    bg_registry_free(registry);
    files_clean();
}

TEST(folder__save)
{
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    bg_tenant *a = get_tenant(registry, "a"), *b = get_tenant(registry, "b");
    add_all(a, 0, 100);
    add_all(b, 100, 200);
    CHECK_OK(bg_registry_save(registry, NULL));
    CHECK_EQ(registry_stats(registry).in_memory, 2);
    unsigned long number_a = file_number("a.bg"), number_b = file_number("b.bg");
    add_all(a, 200, 300);
    CHECK_OK(bg_registry_save(registry, NULL));
    CHECK(file_number("a.bg") != number_a);
    CHECK_EQ(file_number("b.bg"), number_b); /* this tenant had not changed */
    bg_slot *slot = bg_tenant_slot(b);
    CHECK_OK(bg_slot_add(slot, "x", 1, NULL));
    CHECK_OK(bg_registry_save(registry, NULL));
    CHECK(file_number("b.bg") != number_b);
    /* This add bypasses the registry. */
    CHECK_OK(bg_slot_add(slot, "y", 1, NULL));
    CHECK_OK(bg_registry_save(registry, NULL));
    bg_tenant_release(a);
    bg_tenant_release(b);
    bg_registry_free(registry);
    registry = open_registry(&options);
    a = get_tenant(registry, "a");
    b = get_tenant(registry, "b");
    check_keys(a, 0, 100);
    check_keys(a, 200, 300);
    check_keys(b, 100, 200);
    CHECK(bg_tenant_may_contain(b, "x", 1) && bg_tenant_may_contain(b, "y", 1));
    bg_tenant_release(a);
    bg_tenant_release(b);
    bg_registry_free(registry);
    files_clean();
}

/* ---- Failing disks ----------------------------------------------------------------------- */

static void fault_at(unsigned long at, enum disk_fault fault)
{
    disk.calls = 0;
    disk.at = at;
    disk.fault = fault;
}

/* Makes each disk call fail in turn. Each tenant either stays in memory with all its keys, or is
 * evicted and can be reloaded with all of them. The next tick must succeed. */
static void fail_everywhere(enum disk_fault fault, bool saving)
{
    bool failed = true;
    for (unsigned long at = 1; failed; at++) {
        bg_registry_options options = on_disk();
        bg_registry *registry = open_registry(&options);
        bg_tenant *acme = get_tenant(registry, "acme"),
                  *other = get_tenant(registry, "other");
        bg_errinfo why = { .code = BG_OK };
        size_t evicted = 0;
        add_all(acme, 0, 100);
        CHECK_OK(bg_registry_save(registry, NULL));
        add_all(acme, 100, 200);
        add_all(other, 0, 50);
        the_time += IDLE;
        fault_at(at, fault);
        bg_err err = saving ? bg_registry_save(registry, &why)
                            : bg_registry_tick(registry, &evicted, &why);
        failed = disk.calls >= at;
        disk.at = 0;
        CHECK_EQ(why.code, err);
        CHECK(!failed || err == BG_OK || err == BG_EIO);
        CHECK(saving || err || evicted == 2);
        /* If one tenant cannot be evicted, the other tenant is still evicted. */
        CHECK(saving || evicted >= 1);
        CHECK_EQ(registry_stats(registry).in_memory, 2 - evicted);
        CHECK_EQ(count_files(), 2 - (!file_exists("other.bg")));
        check_keys(acme, 0, 200);
        check_keys(other, 0, 50);
        CHECK_EQ(pass(registry, IDLE), 2);
        check_keys(acme, 0, 200);
        check_keys(other, 0, 50);
        bg_tenant_release(acme);
        bg_tenant_release(other);
        bg_registry_free(registry);
    }
    files_clean();
}

TEST(disk__fails_at_any_call)
{
    fail_everywhere(DISK_EIO, false);
    fail_everywhere(DISK_EIO, true);
}

TEST(disk__full_at_any_call)
{
    fail_everywhere(DISK_ENOSPC, false);
    fail_everywhere(DISK_HALF_FULL, false);
    fail_everywhere(DISK_ENOSPC, true);
}

/* No matter at which disk call the process dies, the next process finds the tenant in either its
 * old or its new state. */
TEST(disk__process_dies_at_any_call)
{
    bool died = !CHECK_EMULATED;
    for (unsigned long at = 1; died; at++) {
        bg_registry_options options = on_disk();
        bg_registry *registry = open_registry(&options);
        bg_tenant *acme = get_tenant(registry, "acme");
        add_all(acme, 0, 100);
        CHECK_OK(bg_registry_save(registry, NULL));
        pid_t child = fork();
        if (child == 0) {
            add_all(acme, 100, 200);
            the_time += IDLE;
            fault_at(at, at % 2 ? DISK_STOP_BEFORE : DISK_STOP_AFTER);
            _exit((int)bg_registry_tick(registry, NULL, NULL));
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        died = WIFSIGNALED(status);
        CHECK(died || status == 0);
        bg_tenant_release(acme);
        bg_registry_free(registry);
        registry = open_registry(&options);
        CHECK_EQ(registry_stats(registry).tenants, 1);
        acme = get_tenant(registry, "acme");
        check_keys(acme, 0, 100);
        uint64_t more = count_found(acme, 100, 200);
        CHECK(more < 20 || more == 100);
        CHECK(died || more == 100);
        CHECK_EQ(count_files(), 1); /* no temporary files are left */
        bg_tenant_release(acme);
        bg_registry_free(registry);
    }
    files_clean();
}

TEST(disk__file_that_cannot_be_removed)
{
    bg_errinfo why;
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    add_all(acme, 0, 10);
    CHECK_EQ(pass(registry, IDLE), 1);
    fault_at(1, DISK_EIO);
    CHECK_EQ(bg_registry_remove(registry, "acme", &why), BG_EIO);
    disk.at = 0;
    CHECK_OK(find(registry, "acme")); /* nothing has changed */
    check_keys(acme, 0, 10);
    CHECK_OK(bg_registry_remove(registry, "acme", &why));
    bg_tenant_release(acme);
    bg_registry_free(registry);
    files_clean();
}

/* ---- Files that are replaced during eviction or reloading ------------------------------------ */

static unsigned opens_left;

/* Replaces the newer file with the older file. */
static void put_older(void)
{
    disk.on_open = NULL;
    disk.on_rename = NULL;
    CHECK_EQ(__real_rename(files_path("older"), files_path("acme.bg")), 0);
}

static void put_older_before_open(const char *path)
{
    if (strstr(path, "acme.bg") && --opens_left == 0) {
        put_older();
    }
}

static void put_older_after_rename(const char *to)
{
    if (strstr(to, "acme.bg")) {
        put_older();
    }
}

/* Before a tenant's file is loaded, its digest is compared with the last known digest. The file
 * that is compared must also be the file that is loaded, so that an older file is never used,
 * whether it appears before one of the open calls or right after the newer file was written. */
TEST(evict__a_file_that_is_replaced_meanwhile_is_not_used)
{
    for (unsigned moment = 0; moment < 3; moment++) {
        bg_registry_options options = on_disk();
        bg_registry *registry = open_registry(&options);
        bg_tenant *acme = get_tenant(registry, "acme");
        add_all(acme, 0, 100);
        CHECK_OK(bg_registry_save(registry, NULL));
        disk_copy(files_path("acme.bg"), files_path("older"));
        add_all(acme, 100, 200);
        disk.on_rename = moment == 2 ? put_older_after_rename : NULL;
        CHECK_EQ(pass(registry, IDLE), 1);
        opens_left = moment + 1;
        disk.on_open = moment < 2 ? put_older_before_open : NULL;
        CHECK_EQ(count_found(acme, 0, 200), 200); /* "maybe" */
        CHECK(!file_exists("older"));
        disk.on_open = NULL;
        CHECK_EQ(add(acme, 1), BG_EINCOMPAT);
        CHECK_EQ(tenant_stats(acme).in_memory, 0);
        bg_tenant_release(acme);
        bg_registry_free(registry);
        files_clean();
    }
}

/* A tenant keeps the generation of the file loaded into its slot, even after an eviction. */
TEST(evict__keeps_the_generation)
{
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    bg_slot *slot = bg_tenant_slot(acme);
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    bg_save_options saving = BG_SAVE_OPTIONS_INIT;
    how.flags = BG_SLOT_DISCARD;
    CHECK(slot != NULL);
    saving.generation = 7;
    CHECK_OK(bg_slot_save(slot, files_path("seven"), &saving, NULL));
    saving.generation = 5;
    CHECK_OK(bg_slot_save(slot, files_path("five"), &saving, NULL));
    CHECK_OK(bg_slot_reload(slot, files_path("seven"), &how, NULL));
    CHECK_EQ(bg_slot_reload(slot, files_path("five"), &how, NULL), BG_EINCOMPAT);
    bg_tenant_release(acme);
    CHECK_EQ(pass(registry, IDLE), 1);
    acme = get_tenant(registry, "acme");
    CHECK_OK(add(acme, 1));
    slot = bg_tenant_slot(acme);
    CHECK_EQ(bg_slot_reload(slot, files_path("five"), &how, NULL), BG_EINCOMPAT);
    bg_tenant_release(acme);
    bg_registry_free(registry);
    files_clean();
}

/* The completeness number does not cover a key whose add was not followed by an advance, even after
 * the tenant was evicted and reloaded. Therefore, no file can prove that it includes the key, and
 * the base must not be replaced by a file. */
TEST(evict__keeps_adds_without_a_number)
{
    for (int numbered = 0; numbered < 2; numbered++) {
        bg_registry_options options = on_disk();
        bg_registry *registry = open_registry(&options);
        bg_tenant *acme = get_tenant(registry, "acme");
        bg_slot_advance(bg_tenant_slot(acme), 50);
        CHECK_OK(add(acme, 100));
        bg_tenant_release(acme);
        CHECK_EQ(pass(registry, IDLE), 1);
        acme = get_tenant(registry, "acme");
        bg_slot *slot = bg_tenant_slot(acme);
        bg_filter *delta = must_create(&options.spec);
        bg_filter *base = must_create(&options.spec);
        if (numbered) {
            bg_slot_advance(slot, 60);
        }
        CHECK_OK(bg_slot_set_delta(slot, delta, NULL));
        const bg_err err = bg_slot_swap(slot, base, 60, 0, NULL);
        CHECK_EQ(err, numbered ? BG_OK : BG_EINCOMPAT);
        if (err) {
            CHECK(has(acme, 100));
            bg_filter_free(base);
        }
        bg_tenant_release(acme);
        bg_registry_free(registry);
        files_clean();
    }
}
