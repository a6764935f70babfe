/*
 * The registry: names and their files, quotas, who leaves memory and comes back with every
 * key, and what happens when the disk, the clock or the memory does not play along.
 */
#define _GNU_SOURCE /* O_DIRECTORY */

#include "support/faulty_disk.h"
#include "support/files.h"
#include "support/tenants.h"

#include "gate/tenant.h"

#include <sys/wait.h>

#define SECOND UINT64_C(1000000000)
#define IDLE   (60 * SECOND)

/* ---- Registries ---------------------------------------------------------------------- */

static uint64_t the_time = 1000 * SECOND;

static uint64_t tell_time(void *context)
{
    (void)context;
    return the_time;
}

static bg_registry_options usual(void)
{
    bg_registry_options options = BG_REGISTRY_OPTIONS_INIT;
    options.spec.items = 1000;
    options.spec.rate = 0.01;
    options.clock = tell_time;
    the_time = 1000 * SECOND;
    return options;
}

/* An empty folder, and tenants that go there. */
static bg_registry_options on_disk(void)
{
    bg_registry_options options = usual();
    disk_empty_folder(files_folder());
    options.folder = files_folder();
    options.idle = IDLE;
    return options;
}

static bg_err find(bg_registry *registry, const char *name)
{
    bg_tenant *tenant = NULL;
    bg_err err = bg_registry_get(registry, name, 0, &tenant, NULL);
    CHECK((err == BG_OK) == (tenant != NULL));
    bg_tenant_release(tenant);
    return err;
}

static bool has(bg_tenant *tenant, uint64_t key)
{
    return bg_tenant_may_contain(tenant, &key, sizeof key);
}

static bg_err add(bg_tenant *tenant, uint64_t key)
{
    return bg_tenant_add(tenant, &key, sizeof key, NULL, NULL);
}

static void add_all(bg_tenant *tenant, uint64_t from, uint64_t to)
{
    for (uint64_t key = from; key < to; key++) {
        CHECK_OK(add(tenant, key));
    }
}

static uint64_t count_found(bg_tenant *tenant, uint64_t from, uint64_t to)
{
    uint64_t found = 0;
    for (uint64_t key = from; key < to; key++) {
        found += has(tenant, key);
    }
    return found;
}

/* That it has all these keys, and few others. */
static void check_keys(bg_tenant *tenant, uint64_t from, uint64_t to)
{
    CHECK_EQ(count_found(tenant, from, to), to - from);
    CHECK(count_found(tenant, 1 << 30, (1 << 30) + 1000) < 100);
}

/* Time passes, and a tick. Returns how many went. */
static size_t pass(bg_registry *registry, uint64_t nanoseconds)
{
    size_t evicted = 99;
    bg_errinfo why;
    the_time += nanoseconds;
    if (bg_registry_tick(registry, &evicted, &why)) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    return evicted;
}

static bool file_exists(const char *name)
{
    struct stat about;
    return stat(files_path(name), &about) == 0;
}

static unsigned long file_number(const char *name)
{
    struct stat about;
    CHECK(stat(files_path(name), &about) == 0);
    return (unsigned long)about.st_ino;
}

static unsigned count_files(void)
{
    unsigned n = 0;
    DIR *folder = opendir(files_folder());
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        n += entry->d_name[0] != '.';
    }
    (void)closedir(folder);
    return n;
}

/* Flips a bit of a file. */
static void damage(const char *name, off_t at)
{
    char byte;
    int file = __real_open(files_path(name), O_RDWR);
    CHECK(file >= 0);
    CHECK_EQ(pread(file, &byte, 1, at), 1);
    byte ^= 4;
    CHECK_EQ(__real_pwrite(file, &byte, 1, at), 1);
    (void)close(file);
}

/* ---- Names --------------------------------------------------------------------------- */

static void check_form(const char *name, const char *form)
{
    char made[NAME_FILE_BYTES], back[BG_NAME_MOST + 1];
    name_file_encode(name, made);
    if (form) {
        CHECK_STR(made, form);
    }
    CHECK(strlen(made) < NAME_FILE_BYTES - 4);
    CHECK(name_file_decode(made, strlen(made), back));
    CHECK_STR(back, name);
    CHECK(!strchr(made, '/') && made[0] != '.');
    for (const char *p = made; *p; p++) {
        CHECK(*p > ' ' && *p < 127 && !(*p >= 'A' && *p <= 'Z'));
    }
}

TEST(names__forms)
{
    check_form("acme", "acme");
    check_form("a-b_c.d9", "a-b_c.d9");
    check_form("Acme", "%41cme");
    check_form("..", "%2e.");
    check_form(".", "%2e");
    check_form("../../etc/passwd", "%2e.%2f..%2fetc%2fpasswd");
    check_form("/", "%2f");
    check_form("a/b", "a%2fb");
    check_form("50%", "50%25");
    check_form("+x", "%2bx");
    check_form("a b\n", "a%20b%0a");
    check_form("caf\xc3\xa9", "caf%c3%a9");
    check_form("\x01\x7f\xff", "%01%7f%ff");
    check_form("x.bg", "x.bg");
}

TEST(names__longest)
{
    char name[BG_NAME_MOST + 1];
    for (int c = 1; c < 256; c++) {
        memset(name, c, BG_NAME_MOST);
        name[BG_NAME_MOST] = 0;
        check_form(name, NULL);
    }
    for (int i = 0; i < 2000; i++) { /* on either side of where forms change */
        size_t len = 1 + (size_t)check_random_below(BG_NAME_MOST);
        uint64_t odd = check_random_below(101);
        for (size_t j = 0; j < len; j++) {
            bool plain = check_random_below(100) >= odd;
            name[j] = (char)(plain ? 'x' : (int)(1 + check_random_below(255)));
        }
        name[len] = 0;
        check_form(name, NULL);
    }
}

static bool decodes(const char *form)
{
    char name[BG_NAME_MOST + 1];
    return name_file_decode(form, strlen(form), name);
}

TEST(names__one_form_each)
{
    static const char *const wrong[] = {
        "",    ".",           "..",  ".x",   "Acme", "%61", "%2E", "%",
        "%2",  "a%4",         "%00", "a%00", "a b",  "a/b", "+",   "+c5h66",
        "+vv", "caf\xc3\xa9", "%g1", "a+b",  "%-1",  "+V",  "+00",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(!decodes(wrong[i]));
    }
    char form[NAME_FILE_BYTES + 300];
    memset(form, 'a', sizeof form);
    form[BG_NAME_MOST] = 0;
    CHECK(decodes(form));
    form[BG_NAME_MOST] = 'a';
    form[BG_NAME_MOST + 1] = 0;
    CHECK(!decodes(form));
    memset(form, 'v', sizeof form);
    form[0] = '+';
    form[sizeof form - 1] = 0;
    CHECK(!decodes(form));
    /* Whatever is a form is that of the name that it stands for. */
    for (int i = 0; i < 20000; i++) {
        char text[16] = "", name[BG_NAME_MOST + 1], again[NAME_FILE_BYTES];
        size_t len = 1 + (size_t)check_random_below(12);
        for (size_t j = 0; j < len; j++) {
            text[j] = "ab%+.2efv/A"[check_random_below(11)];
        }
        if (name_file_decode(text, len, name)) {
            name_file_encode(name, again);
            CHECK_STR(again, text);
        }
    }
}

/* ---- The table ------------------------------------------------------------------------ */

struct thing {
    const char *name;
};

static bool is_named(const void *thing, const char *name)
{
    return strcmp(((const struct thing *)thing)->name, name) == 0;
}

TEST(table__all_in_one_place)
{
    struct thing things[3] = { { "a" }, { "b" }, { "c" } };
    struct name_table *table = name_table_make(3, NULL);
    for (int i = 0; i < 3; i++) { /* one hash, at the end of the table */
        name_table_put(table, UINT64_MAX, &things[i]);
    }
    CHECK(name_table_find(table, UINT64_MAX, is_named, "c") == &things[2]);
    CHECK(name_table_find(table, UINT64_MAX, is_named, "d") == NULL);
    CHECK(name_table_find(table, UINT64_MAX - 1, is_named, "a") == NULL);
    name_table_take(table, UINT64_MAX, &things[1]);
    name_table_take(table, UINT64_MAX, &things[1]); /* is not there: nothing happens */
    CHECK(name_table_find(table, UINT64_MAX, is_named, "b") == NULL);
    CHECK(name_table_find(table, UINT64_MAX, is_named, "c") == &things[2]);
    unsigned more = 0;
    while (name_table_has_room(table)) {
        name_table_put(table, more++, &things[0]);
    }
    CHECK(more > 0 && table->used < table->cells);
    name_table_release(&table->retired);
}

/* ---- Who there is --------------------------------------------------------------------- */

TEST(registry__created_at_first_use)
{
    bg_registry_options options = usual();
    bg_registry *registry = open_registry(&options);
    CHECK_EQ(find(registry, "acme"), BG_ENOTFOUND);
    bg_tenant *acme = get_tenant(registry, "acme");
    CHECK_STR(bg_tenant_name(acme), "acme");
    CHECK_OK(find(registry, "acme"));
    CHECK_EQ(find(registry, "acm"), BG_ENOTFOUND);
    CHECK(get_tenant(registry, "acme") == acme);
    bg_tenant_release(acme);
    bg_tenant *other = get_tenant(registry, "other");
    CHECK(other != acme);
    bool is_new = false;
    CHECK_OK(bg_tenant_add(acme, "k", 1, &is_new, NULL));
    CHECK(is_new);
    CHECK_OK(bg_tenant_add(acme, "k", 1, &is_new, NULL));
    CHECK(!is_new);
    CHECK(bg_tenant_may_contain(acme, "k", 1));
    CHECK(!bg_tenant_may_contain(other, "k", 1));
    CHECK_EQ(tenant_stats(acme).items, 1);
    CHECK_EQ(tenant_stats(acme).in_memory, 1);
    CHECK(tenant_stats(acme).bytes >= 1000);
    CHECK(bg_tenant_gate(acme) == NULL);
    CHECK(bg_slot_may_contain(bg_tenant_slot(acme), "k", 1));
    bg_registry_stats stats = registry_stats(registry);
    CHECK_EQ(stats.tenants, 2);
    CHECK_EQ(stats.created, 2);
    CHECK_EQ(stats.in_memory, 2);
    CHECK_EQ(stats.bytes, tenant_stats(acme).bytes + tenant_stats(other).bytes);
    bg_tenant_release(acme);
    bg_tenant_release(other);
    bg_registry_free(registry);
}

TEST(registry__batches)
{
    enum { N = 200 };
    uint64_t numbers[N], maybe[BG_BITMAP_WORDS(N)];
    bg_bytes keys[N];
    size_t done = 9, added = 9;
    for (size_t i = 0; i < N; i++) {
        numbers[i] = i / 2; /* each twice */
        keys[i] = (bg_bytes){ &numbers[i], sizeof numbers[i] };
    }
    bg_registry_options options = usual();
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    CHECK(bg_tenant_may_contain_many(acme, keys, N, maybe) < 20);
    CHECK_OK(bg_tenant_add_many(acme, keys, N, &done, &added, NULL));
    CHECK_EQ(done, N);
    CHECK(added > N / 2 - 10 && added <= N / 2);
    CHECK_EQ(tenant_stats(acme).items, added);
    CHECK_EQ(bg_tenant_may_contain_many(acme, keys, N, maybe), N);
    CHECK_EQ(maybe[0], UINT64_MAX);
    CHECK_OK(bg_tenant_add_many(acme, NULL, 0, &done, &added, NULL));
    CHECK_EQ(done, 0);
    bg_tenant_release(acme);
    bg_registry_free(registry);
}

TEST(registry__names)
{
    char name[BG_NAME_MOST + 2];
    bg_tenant *tenant = NULL;
    bg_errinfo why;
    bg_registry_options options = usual();
    bg_registry *registry = open_registry(&options);
    memset(name, 'n', sizeof name);
    name[BG_NAME_MOST + 1] = 0;
    CHECK_EQ(bg_registry_get(registry, name, BG_REGISTRY_CREATE, &tenant, &why),
             BG_EINVAL);
    CHECK_EQ(bg_registry_get(registry, "", BG_REGISTRY_CREATE, &tenant, &why),
             BG_EINVAL);
    CHECK_EQ(bg_registry_get(registry, NULL, BG_REGISTRY_CREATE, &tenant, &why),
             BG_EINVAL);
    CHECK_EQ(bg_registry_get(registry, "a", 2, &tenant, &why), BG_EINVAL);
    CHECK_EQ(bg_registry_get(NULL, "a", 0, &tenant, &why), BG_EINVAL);
    CHECK_EQ(bg_registry_get(registry, "a", 0, NULL, &why), BG_EINVAL);
    CHECK_EQ(bg_registry_remove(registry, "", &why), BG_EINVAL);
    CHECK_EQ(bg_registry_remove(NULL, "a", &why), BG_EINVAL);
    name[BG_NAME_MOST] = 0;
    tenant = get_tenant(registry, name);
    CHECK_STR(bg_tenant_name(tenant), name);
    bg_tenant_release(tenant);
    CHECK_OK(find(registry, name));
    CHECK_EQ(registry_stats(registry).tenants, 1);
    bg_registry_free(registry);
}

TEST(registry__nothing_is_maybe)
{
    uint64_t maybe[2] = { 0, 0 };
    bg_bytes keys[70] = { { "a", 1 } };
    bg_errinfo why;
    bg_tenant_stats stats = { .struct_size = sizeof stats };
    bg_registry_stats all = { .struct_size = sizeof all };
    CHECK(bg_tenant_may_contain(NULL, "a", 1));
    CHECK_EQ(bg_tenant_may_contain_many(NULL, keys, 70, maybe), 70);
    CHECK_EQ(maybe[1], 63);
    CHECK_EQ(bg_tenant_add(NULL, "a", 1, NULL, &why), BG_EINVAL);
    CHECK_EQ(bg_tenant_add_many(NULL, keys, 1, NULL, NULL, &why), BG_EINVAL);
    CHECK(bg_tenant_slot(NULL) == NULL);
    CHECK(bg_tenant_gate(NULL) == NULL);
    CHECK_STR(bg_tenant_name(NULL), "");
    CHECK_EQ(bg_tenant_about(NULL, &stats), BG_EINVAL);
    CHECK_EQ(bg_registry_about(NULL, &all), BG_EINVAL);
    CHECK_EQ(bg_registry_tick(NULL, NULL, &why), BG_EINVAL);
    CHECK_EQ(bg_registry_save(NULL, &why), BG_EINVAL);
    bg_tenant_release(NULL);
    bg_registry_free(NULL);
    bg_registry_each(NULL, NULL, NULL);
}

TEST(registry__bad_options)
{
    bg_registry *registry = (bg_registry *)(void *)&registry;
    bg_errinfo why;
    for (int i = 0; i < 12; i++) {
        bg_registry_options options = usual();
        bg_gate_options gate = BG_GATE_OPTIONS_INIT;
        bg_err expected = BG_EINVAL;
        switch (i) {
        case 0: options.struct_size--; break;
        case 1: options.spec.struct_size = 0; break;
        case 2: options.spec.rate = 2; break;
        case 3: options.spec.kind = BG_KIND_FUSE; break;
        case 4: options.spec.flags = BG_EXCLUSIVE; break;
        case 5: options.inserts_per_second = -1; break;
        case 6: options.burst = -1; break;
        case 7: options.folder = ""; break;
        case 8: options.folder = "/nonexistent/folder", expected = BG_EIO; break;
        case 9: options.spec.hash.profile = 99; break;
        case 10:
            gate.struct_size = 1;
            options.gate = &gate;
            break;
        default: options.folder = "/dev/null", expected = BG_EIO; break;
        }
        CHECK_EQ(bg_registry_create(&options, &registry, &why), expected);
        CHECK(registry == NULL);
        CHECK(why.code == expected && *why.message);
    }
    CHECK_EQ(bg_registry_create(NULL, &registry, &why), BG_EINVAL);
    bg_registry_options options = usual();
    CHECK_EQ(bg_registry_create(&options, NULL, &why), BG_EINVAL);
}

/* Counts, and does something to the registry in the middle. */
struct counted {
    bg_registry *registry;
    unsigned n, stop_at, remove_at;
    bool seen[500];
};

static bool count_tenant(void *context, bg_tenant *tenant)
{
    struct counted *c = context;
    char name[16];
    unsigned long i = strtoul(bg_tenant_name(tenant) + 1, NULL, 10);
    CHECK(i < 500 && !c->seen[i]);
    c->seen[i] = true;
    c->n++;
    if (c->n == c->remove_at) { /* all that is there, this one as well */
        for (unsigned j = 0; j < 300; j++) {
            (void)snprintf(name, sizeof name, "t%u", j);
            (void)!bg_registry_remove(c->registry, name, NULL);
        }
        for (unsigned j = 300; j < 310; j++) {
            (void)snprintf(name, sizeof name, "t%u", j);
            bg_tenant_release(get_tenant(c->registry, name));
        }
    }
    return c->n != c->stop_at;
}

static void fill_names(bg_registry *registry, unsigned n)
{
    char name[16];
    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "t%u", i);
        bg_tenant_release(get_tenant(registry, name));
    }
}

TEST(registry__each)
{
    bg_registry_options options = usual();
    options.spec.items = 10;
    bg_registry *registry = open_registry(&options);
    struct counted all = { .registry = registry };
    bg_registry_each(registry, count_tenant, &all);
    CHECK_EQ(all.n, 0);
    fill_names(registry, 300);
    bg_registry_each(registry, count_tenant, &all);
    CHECK_EQ(all.n, 300);
    struct counted some = { .registry = registry, .stop_at = 100 };
    bg_registry_each(registry, count_tenant, &some);
    CHECK_EQ(some.n, 100);
    /* Those who are gone may be told, those who came are behind them. */
    struct counted less = { .registry = registry, .remove_at = 70 };
    bg_registry_each(registry, count_tenant, &less);
    CHECK(less.n >= 70 + 10 && less.n <= 128 + 10);
    CHECK(less.seen[309]);
    struct counted last = { .registry = registry };
    bg_registry_each(registry, count_tenant, &last);
    CHECK_EQ(last.n, 10);
    CHECK_EQ(registry_stats(registry).tenants, 10);
    CHECK_EQ(registry_stats(registry).removed, 300);
    bg_registry_free(registry);
}

TEST(registry__many_come_and_go)
{
    enum { NAMES = 3000 };
    char name[16];
    bool there[NAMES] = { false };
    unsigned n = 0;
    bg_registry_options options = usual();
    options.spec.items = 1;
    bg_registry *registry = open_registry(&options);
    for (int i = 0; i < (CHECK_EMULATED ? 3000 : 20000); i++) {
        unsigned j = (unsigned)check_random_below(NAMES);
        (void)snprintf(name, sizeof name, "%u", j);
        if (check_random_below(3)) {
            bg_tenant_release(get_tenant(registry, name));
            n += !there[j];
            there[j] = true;
        } else {
            CHECK_EQ(bg_registry_remove(registry, name, NULL),
                     there[j] ? BG_OK : BG_ENOTFOUND);
            n -= there[j];
            there[j] = false;
        }
    }
    for (unsigned j = 0; j < NAMES; j++) {
        (void)snprintf(name, sizeof name, "%u", j);
        CHECK_EQ(find(registry, name), there[j] ? BG_OK : BG_ENOTFOUND);
    }
    CHECK_EQ(registry_stats(registry).tenants, n);
    CHECK_EQ(registry_stats(registry).in_memory, n);
    bg_registry_free(registry);
}

TEST(registry__removed_while_held)
{
    bg_registry_options options = usual();
    bg_registry *registry = open_registry(&options);
    bg_tenant *old = get_tenant(registry, "acme");
    add_all(old, 0, 100);
    CHECK_OK(bg_registry_remove(registry, "acme", NULL));
    CHECK_EQ(bg_registry_remove(registry, "acme", NULL), BG_ENOTFOUND);
    CHECK_EQ(find(registry, "acme"), BG_ENOTFOUND);
    CHECK_EQ(registry_stats(registry).tenants, 0);
    check_keys(old, 0, 100); /* whoever has it keeps it */
    add_all(old, 100, 200);
    bg_tenant *young = get_tenant(registry, "acme");
    CHECK(young != old);
    CHECK(count_found(young, 0, 200) < 20);
    check_keys(old, 0, 200);
    bg_tenant_release(old);
    CHECK_EQ(registry_stats(registry).bytes, tenant_stats(young).bytes);
    CHECK_EQ(registry_stats(registry).in_memory, 1);
    bg_tenant_release(young);
    bg_registry_free(registry);
}

/* A look-up that has found a tenant and not yet counted itself: whatever happens meanwhile,
 * the tenant waits for it. */
TEST(registry__removed_while_being_looked_up)
{
    bg_registry_options options = usual();
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    add_all(acme, 0, 10);
    bg_tenant_release(acme);
    bgi_grace_token token = bgi_grace_enter(&registry->grace);
    CHECK_OK(bg_registry_remove(registry, "acme", NULL));
    CHECK_EQ(bgi_grace_pending(&registry->grace), 1);
    CHECK_STR(bg_tenant_name(acme), "acme");
    tenant_hold(acme);
    bgi_grace_leave(&registry->grace, token);
    CHECK_EQ(bgi_grace_pending(&registry->grace), 0);
    check_keys(acme, 0, 10);
    CHECK_EQ(registry_stats(registry).in_memory, 1);
    bg_tenant_release(acme);
    CHECK_EQ(registry_stats(registry).in_memory, 0);
    CHECK_EQ(registry_stats(registry).bytes, 0);
    bg_registry_free(registry);
}

TEST(registry__table_replaced_while_being_searched)
{
    bg_registry_options options = usual();
    options.spec.items = 1;
    bg_registry *registry = open_registry(&options);
    const struct name_table *old = atomic_load(&registry->table);
    uint64_t room = old->cells / 4 * 3, n = 0;
    bgi_grace_token token = bgi_grace_enter(&registry->grace);
    fill_names(registry, (unsigned)room + 1);
    CHECK(atomic_load(&registry->table) != old);
    CHECK_EQ(bgi_grace_pending(&registry->grace), 1);
    for (uint64_t i = 0; i < old->cells; i++) { /* it is as it was */
        n += atomic_load(&old->cell[i].thing) != NULL;
    }
    CHECK_EQ(n, room);
    bgi_grace_leave(&registry->grace, token);
    CHECK_EQ(bgi_grace_pending(&registry->grace), 0);
    bg_registry_free(registry);
}

/* ---- Quotas --------------------------------------------------------------------------- */

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
    CHECK_EQ(bg_tenant_add(acme, &refused, sizeof refused, NULL, &why), BG_ELIMIT);
    CHECK_STR(why.what, "max_items");
    CHECK_STR(why.found, "50");
    CHECK(*why.expected);
    CHECK(!has(acme, refused));
    CHECK_OK(add(acme, 3)); /* is there: no item more */
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
        numbers[i] = i % 2 ? 0 : i; /* every other one is an old one */
        keys[i] = (bg_bytes){ &numbers[i], sizeof numbers[i] };
    }
    CHECK_OK(bg_tenant_add_many(acme, keys, N, &done, &added, NULL));
    CHECK_EQ(done, N);
    CHECK_EQ(tenant_stats(acme).items, added);
    CHECK(added <= N / 2);
    for (size_t i = 0; i < N; i++) {
        numbers[i] += 1000;
    }
    CHECK_EQ(bg_tenant_add_many(acme, keys, N, &done, &added, NULL), BG_ELIMIT);
    CHECK_EQ(tenant_stats(acme).items, MOST);
    CHECK(done < N && added <= done);
    CHECK_EQ(tenant_stats(acme).limited_items, N - done);
    for (size_t i = 0; i < done; i++) { /* what is said to be in is */
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
    options.max_bytes = 1000; /* 1000 items take more */
    bg_registry *registry = open_registry(&options);
    CHECK_EQ(bg_registry_get(registry, "acme", BG_REGISTRY_CREATE, &tenant, &why),
             BG_ELIMIT);
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
    CHECK_EQ(why.code, BG_ELIMIT);
    CHECK_STR(why.what, "max_bytes");
    CHECK(in > 1000 && tenant_stats(acme).bytes > 2 * first); /* it has grown */
    CHECK_EQ(tenant_stats(acme).limited_bytes, 1);
    CHECK_EQ(registry_stats(registry).bytes, tenant_stats(acme).bytes);
    /* The rate that it was made for holds: no key went beyond what it has room for. */
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
             BG_ELIMIT);
    CHECK_STR(why.what, "max_total_bytes");
    CHECK_EQ(registry_stats(registry).bytes, 3 * one);
    CHECK_OK(bg_registry_remove(registry, "t1", NULL));
    fill_names(registry, 2);
    CHECK_EQ(registry_stats(registry).bytes, 3 * one);
    CHECK_EQ(registry_stats(registry).limited, 1);
    bg_registry_free(registry);
}

/* One that has grown is held up by the total, one that has not is not. */
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
    CHECK_EQ(why.code, BG_ELIMIT);
    CHECK_STR(why.what, "max_total_bytes");
    add_all(small, 0, 90);
    bg_tenant_release(hog);
    bg_tenant_release(small);
    bg_registry_free(registry);
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
             BG_ELIMIT);
    CHECK_STR(why.what, "max_tenants");
    CHECK_STR(why.found, "3");
    fill_names(registry, 3); /* those there are go on */
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
    CHECK_EQ(bg_tenant_add(acme, &key, sizeof key, NULL, &why), BG_ELIMIT);
    CHECK_STR(why.what, "inserts_per_second");
    CHECK(!has(acme, key));
    add_all(other, 0, 10); /* has a bucket of its own */
    the_time += SECOND / 100;
    CHECK_OK(add(acme, key));
    CHECK_EQ(add(acme, key), BG_ELIMIT);
    the_time += 100 * SECOND;
    add_all(acme, 100, 110);
    CHECK_EQ(add(acme, 110), BG_ELIMIT);
    CHECK_EQ(tenant_stats(acme).limited_rate, 3);
    CHECK_EQ(tenant_stats(other).limited_rate, 0);
    CHECK(has(acme, 0)); /* asking is free */
    /* A batch: as many as there are. */
    uint64_t numbers[20];
    bg_bytes keys[20];
    size_t done = 0;
    for (size_t i = 0; i < 20; i++) {
        numbers[i] = 7000 + i;
        keys[i] = (bg_bytes){ &numbers[i], sizeof numbers[i] };
    }
    the_time += SECOND / 20;
    CHECK_EQ(bg_tenant_add_many(acme, keys, 20, &done, NULL, &why), BG_ELIMIT);
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
    the_time -= 900 * SECOND; /* back: nothing for it, and no standstill */
    CHECK_EQ(add(acme, 10), BG_ELIMIT);
    the_time += SECOND;
    add_all(acme, 10, 20);
    CHECK_EQ(add(acme, 20), BG_ELIMIT);
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
    bg_tenant_stats stats = tenant_stats(calm);
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

/* ---- Leaving and coming back -------------------------------------------------------------- */

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
    bg_tenant_stats stats = tenant_stats(acme);
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

/* Every kind that takes adds. */
TEST(evict__kinds)
{
    unsigned tried = 0;
    for (unsigned i = 0; i < FILES_CASES_COUNT; i++) {
        bg_registry_options options = on_disk();
        options.spec = files_spec(i);
        if (bg_kind_traits((bg_kind)options.spec.kind) & BG_IS_STATIC) {
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
    registry = open_registry(&options); /* with the wrong one */
    acme = get_tenant(registry, name);
    CHECK(has(acme, 1 << 30));
    CHECK_EQ(add(acme, 1), BG_EINCOMPAT);
    bg_tenant_release(acme);
    bg_registry_free(registry);
    files_clean();
}

/* What was only read is not written again. */
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
    /* Unless the file is gone, or another one. */
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
    bg_tenant_release(acme); /* somebody else still holds it */
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

/* Somebody comes while it is being written: it stays, and nothing is lost by that. */
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

/* A number that grows with the truth is not lost on the way. */
TEST(evict__completeness_stays)
{
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    bg_slot_advance(bg_tenant_slot(acme), 12345);
    bg_tenant_release(acme);
    CHECK_EQ(pass(registry, IDLE), 1);
    acme = get_tenant(registry, "acme");
    CHECK_EQ(bg_slot_complete(bg_tenant_slot(acme)), 12345);
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
    CHECK_EQ(pass(registry, 0), 0); /* it counts from there */
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

/* No room in memory: "maybe", and adds are refused, until there is. */
TEST(evict__no_room_to_come_back)
{
    bg_errinfo why;
    uint64_t key = 1 << 30;
    bg_registry_options options = on_disk();
    options.max_total_bytes = 2000; /* two of 1000 items do not fit */
    bg_registry *registry = open_registry(&options);
    bg_tenant *a = get_tenant(registry, "a");
    add_all(a, 0, 100);
    CHECK_EQ(pass(registry, IDLE), 1);
    bg_tenant *b = get_tenant(registry, "b");
    CHECK(has(a, key) && !has(b, key));
    CHECK_EQ(bg_tenant_add(a, &key, sizeof key, NULL, &why), BG_ELIMIT);
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

/* ---- Gates --------------------------------------------------------------------------------- */

/* The truth has the even numbers. */
static bg_truth ask_even(void *context, const void *key, size_t len, void *request)
{
    unsigned *asked = context;
    uint64_t number = 0;
    (void)request;
    memcpy(&number, key, len < sizeof number ? len : sizeof number);
    ++*asked;
    return number % 2 ? BG_TRUTH_ABSENT : BG_TRUTH_PRESENT;
}

static bg_outcome look_up(bg_gate *gate, uint64_t key)
{
    return bg_gate_lookup(gate, &key, sizeof key, NULL);
}

TEST(gates__one_per_tenant)
{
    unsigned asked = 0;
    bg_gate_options gate = BG_GATE_OPTIONS_INIT;
    bg_registry_options options = on_disk();
    gate.ask = ask_even;
    gate.context = &asked;
    options.gate = &gate;
    bg_registry *registry = open_registry(&options);
    gate.ask = NULL; /* it was copied */
    bg_tenant *acme = get_tenant(registry, "acme"),
              *other = get_tenant(registry, "other");
    for (uint64_t key = 0; key < 100; key += 2) {
        CHECK_OK(add(acme, key));
    }
    for (int turn = 0; turn < 2; turn++) {
        bg_gate *own = bg_tenant_gate(acme);
        CHECK(own && own != bg_tenant_gate(other));
        CHECK(bg_gate_slot(own) == bg_tenant_slot(acme));
        CHECK_EQ(look_up(own, 4), BG_PRESENT);
        CHECK_EQ(look_up(bg_tenant_gate(other), 4), BG_ABSENT_BY_FILTER);
        asked = 0;
        for (uint64_t key = 1; key < 2000; key += 2) {
            CHECK(look_up(own, key) != BG_PRESENT);
        }
        CHECK(asked < 50);
        CHECK_OK(bg_gate_wrote(own, "new", 3));
        CHECK(bg_tenant_may_contain(acme, "new", 3));
        bg_tenant_release(acme);
        bg_tenant_release(other);
        CHECK_EQ(pass(registry, IDLE), 2); /* and again, with another gate */
        acme = get_tenant(registry, "acme");
        other = get_tenant(registry, "other");
    }
    bg_tenant_release(acme);
    bg_tenant_release(other);
    bg_registry_free(registry);
    files_clean();
}

/* A gate that knows of a key that the filter lacks: a file could not say so. */
TEST(gates__doubtful_ones_stay)
{
    bg_errinfo why;
    bg_gate_options gate = BG_GATE_OPTIONS_INIT;
    bg_registry_options options = on_disk();
    options.gate = &gate;
    options.spec.kind = BG_KIND_CUCKOO;
    options.spec.items = 10;
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme"),
              *other = get_tenant(registry, "other");
    bg_gate *own = bg_tenant_gate(acme);
    bg_err err = BG_OK;
    uint64_t key = 0, maybe[BG_BITMAP_WORDS(100)];
    bg_bytes keys[100];
    while (!err) {
        key++;
        err = bg_gate_wrote(own, &key, sizeof key);
    }
    CHECK_EQ(err, BG_EFULL);
    bg_tenant_release(acme); /* so that nothing but the doubt keeps it */
    CHECK_EQ(pass(registry, IDLE), 1);
    acme = get_tenant(registry, "acme");
    CHECK_EQ(tenant_stats(acme).in_memory, 1);
    CHECK_EQ(bg_registry_save(registry, &why), BG_EINCOMPAT);
    CHECK(!file_exists("acme.bg"));
    CHECK_EQ(count_found(acme, 0, 1000), 1000); /* "maybe", for everything */
    for (size_t i = 0; i < 100; i++) {
        keys[i] = (bg_bytes){ &why, i };
    }
    CHECK_EQ(bg_tenant_may_contain_many(acme, keys, 100, maybe), 100);
    CHECK(!has(other, 1));
    bg_tenant_release(acme);
    bg_tenant_release(other);
    bg_registry_free(registry);
    files_clean();
}

/* ---- Files that are not what they were --------------------------------------------------- */

/* It answers "maybe", refuses adds, tries again after pauses that double; and is itself again
 * when the file is. */
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
    CHECK_EQ(pass(registry, IDLE), 0); /* nothing is written in its place */
    damage("acme.bg", 4096 + 100);     /* right again */
    check_keys(acme, 0, 500);
    CHECK_EQ(tenant_stats(acme).returns, 1);
    CHECK_EQ(pass(registry, IDLE), 1);
    damage("acme.bg", 20); /* the header, and from the first pause on */
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

/* A clock that goes back does not make the pause longer. */
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

/* ---- Folders ----------------------------------------------------------------------------- */

static const char *const odd_names[] = {
    "acme",     "Acme", "..",    ".", "/",   "../up", "a/b/c", "x.bg", "caf\xc3\xa9",
    "\xff\x01", "50%",  "+plus", " ", "a b", "con",   "-rf",   "\n",
};
enum { ODD_NAMES = sizeof odd_names / sizeof *odd_names };

static void check_listed(bg_registry *registry)
{
    for (unsigned i = 0; i < ODD_NAMES; i++) {
        bg_tenant *tenant = NULL;
        CHECK_OK(bg_registry_get(registry, odd_names[i], 0, &tenant, NULL));
        bg_tenant_stats stats = tenant_stats(tenant);
        CHECK_EQ(stats.in_memory, 0);
        CHECK(stats.items >= 15 && stats.items <= 20); /* known without reading it */
        CHECK_EQ(count_found(tenant, 100 * i, 100 * i + 20), 20);
        CHECK(count_found(tenant, 1 << 20, (1 << 20) + 100) < 20);
        bg_tenant_release(tenant);
    }
}

TEST(folder__any_name_and_back)
{
    char longest[BG_NAME_MOST + 1];
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    memset(longest, 0xfe, BG_NAME_MOST);
    longest[BG_NAME_MOST] = 0;
    for (unsigned i = 0; i < ODD_NAMES; i++) {
        bg_tenant *tenant = get_tenant(registry, odd_names[i]);
        add_all(tenant, 100 * i, 100 * i + 20);
        bg_tenant_release(tenant);
    }
    bg_tenant_release(get_tenant(registry, longest));
    CHECK_EQ(pass(registry, IDLE), ODD_NAMES + 1);
    CHECK_EQ(count_files(), ODD_NAMES + 1); /* all there, and none elsewhere */
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
    CHECK(!file_exists("gone.bg.tmp.12.00ab")); /* of a save that never ended */
    CHECK_EQ(count_files(), 4);                 /* and .bg, which is not counted */
    bg_registry_free(registry);
    files_clean();
}

/* A filter that was saved by hand: its items are estimated. */
TEST(folder__a_file_by_hand)
{
    bg_registry_options options = on_disk();
    bg_filter *filter = must_create(&options.spec);
    for (uint64_t key = 0; key < 500; key++) {
        (void)bg_filter_add(filter, &key, sizeof key);
    }
    CHECK_OK(bg_save(filter, files_path("acme.bg"), NULL, NULL));
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    check_keys(acme, 0, 500);
    CHECK_NEAR(tenant_stats(acme).items, 500, 0.1);
    /* One that comes later is found at creation: no empty one in its place. */
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
    CHECK(has(acme, 1 << 30)); /* gone from disk while held: nobody knows */
    CHECK_EQ(add(acme, 1), BG_ENOTFOUND);
    bg_tenant *young = get_tenant(registry, "acme");
    CHECK(count_found(young, 0, 100) < 20);
    CHECK_OK(add(young, 1));
    bg_tenant_release(young);
    /* One that is in memory and was removed leaves no file. */
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
    CHECK_EQ(file_number("b.bg"), number_b); /* it had not changed */
    bg_slot *slot = bg_tenant_slot(b);
    CHECK_OK(bg_slot_add(slot, "x", 1, NULL));
    CHECK_OK(bg_registry_save(registry, NULL));
    CHECK(file_number("b.bg") != number_b);
    CHECK_OK(bg_slot_add(slot, "y", 1, NULL)); /* behind the registry's back */
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

/* ---- Disks that fail --------------------------------------------------------------------- */

static void fault_at(unsigned long at, enum disk_fault fault)
{
    disk.calls = 0;
    disk.at = at;
    disk.fault = fault;
}

/* At every single call to the disk: the tenant stays, with all its keys, or has gone and comes
 * back with all of them; and the next tick is as if nothing had been. */
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
        CHECK(saving || evicted >= 1); /* one failure does not stop the other */
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

/* The process dies at any call: the next one finds every tenant as it was or as it is. */
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
        CHECK_EQ(count_files(), 1); /* nothing is left lying about */
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

/* ---- Without memory ------------------------------------------------------------------------ */

TEST(memory__any_allocation_fails)
{
    for (size_t at = 1;; at++) {
        struct counting counting;
        bg_registry *registry = NULL;
        bg_tenant *tenant = NULL;
        bg_errinfo why;
        bg_registry_options options = on_disk();
        counting_start(&counting);
        options.allocator = &counting.hooks;
        options.spec.allocator = &counting.hooks;
        counting.fail_at = at;
        bg_err err = bg_registry_create(&options, &registry, &why);
        err = err ? err
                  : bg_registry_get(registry, "a", BG_REGISTRY_CREATE, &tenant, &why);
        if (!err) {
            add_all(tenant, 0, 100);
            CHECK_EQ(pass(registry, IDLE), 1);
            CHECK_EQ(count_found(tenant, 0, 100),
                     100); /* perhaps it is not read: "maybe" */
            err = add(tenant, 1);
            the_time += SECOND;
            check_keys(tenant, 0, 100);
        }
        CHECK(err == BG_OK || err == BG_ENOMEM);
        bg_tenant_release(tenant);
        bg_registry_free(registry);
        CHECK_EQ(counting.live, 0);
        CHECK_EQ(counting.mistakes, 0);
        if (counting.calls < at) {
            CHECK_OK(err);
            break;
        }
    }
    files_clean();
}
