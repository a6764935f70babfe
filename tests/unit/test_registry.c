/* Tests registries: tenant names and file names, listing, gates, and failed allocations. */
#define _GNU_SOURCE /* O_DIRECTORY */

#include "support/registry_world.h"
#include "support/slots.h"

#include "gate/tenant.h"

/* ---- Names --------------------------------------------------------------------------- */

static void check_form(const char *name, const char *form)
{
    char made[NAME_FILE_BYTES], back[BG_TENANT_NAME_MAX + 1];
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
    char name[BG_TENANT_NAME_MAX + 1];
    for (int c = 1; c < 256; c++) {
        memset(name, c, BG_TENANT_NAME_MAX);
        name[BG_TENANT_NAME_MAX] = 0;
        check_form(name, NULL);
    }
    /* Tests random names of all lengths. Their file names use both encodings. */
    for (int i = 0; i < 2000; i++) {
        size_t len = 1 + (size_t)check_random_below(BG_TENANT_NAME_MAX);
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
    char name[BG_TENANT_NAME_MAX + 1];
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
    form[BG_TENANT_NAME_MAX] = 0;
    CHECK(decodes(form));
    form[BG_TENANT_NAME_MAX] = 'a';
    form[BG_TENANT_NAME_MAX + 1] = 0;
    CHECK(!decodes(form));
    memset(form, 'v', sizeof form);
    form[0] = '+';
    form[sizeof form - 1] = 0;
    CHECK(!decodes(form));
    /* Decoding a valid file name and encoding the result again must produce the same file name. */
    for (int i = 0; i < 20000; i++) {
        char text[16] = "", name[BG_TENANT_NAME_MAX + 1], again[NAME_FILE_BYTES];
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
    /* All three names have the same hash, which selects the last position in the table. */
    for (int i = 0; i < 3; i++) {
        name_table_put(table, UINT64_MAX, &things[i]);
    }
    CHECK(name_table_find(table, UINT64_MAX, is_named, "c") == &things[2]);
    CHECK(name_table_find(table, UINT64_MAX, is_named, "d") == NULL);
    CHECK(name_table_find(table, UINT64_MAX - 1, is_named, "a") == NULL);
    name_table_take(table, UINT64_MAX, &things[1]);
    /* The name is no longer present, so removing it again has no effect. */
    name_table_take(table, UINT64_MAX, &things[1]);
    CHECK(name_table_find(table, UINT64_MAX, is_named, "b") == NULL);
    CHECK(name_table_find(table, UINT64_MAX, is_named, "c") == &things[2]);
    unsigned more = 0;
    while (name_table_has_room(table)) {
        name_table_put(table, more++, &things[0]);
    }
    CHECK(more > 0 && table->used < table->cells);
    name_table_release(&table->retired);
}

/* ---- Listing tenants ------------------------------------------------------------------ */

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
    bg_registry_info stats = registry_stats(registry);
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
    char name[BG_TENANT_NAME_MAX + 2];
    bg_tenant *tenant = NULL;
    bg_errinfo why;
    bg_registry_options options = usual();
    bg_registry *registry = open_registry(&options);
    memset(name, 'n', sizeof name);
    name[BG_TENANT_NAME_MAX + 1] = 0;
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
    name[BG_TENANT_NAME_MAX] = 0;
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
    bg_tenant_info stats = { .struct_size = sizeof stats };
    bg_registry_info all = { .struct_size = sizeof all };
    CHECK(bg_tenant_may_contain(NULL, "a", 1));
    CHECK_EQ(bg_tenant_may_contain_many(NULL, keys, 70, maybe), 70);
    CHECK_EQ(maybe[1], 63);
    CHECK_EQ(bg_tenant_add(NULL, "a", 1, NULL, &why), BG_EINVAL);
    CHECK_EQ(bg_tenant_add_many(NULL, keys, 1, NULL, NULL, &why), BG_EINVAL);
    CHECK(bg_tenant_slot(NULL) == NULL);
    CHECK(bg_tenant_gate(NULL) == NULL);
    CHECK_STR(bg_tenant_name(NULL), "");
    CHECK_EQ(bg_tenant_get_info(NULL, &stats), BG_EINVAL);
    CHECK_EQ(bg_registry_get_info(NULL, &all), BG_EINVAL);
    CHECK_EQ(bg_registry_tick(NULL, NULL, &why), BG_EINVAL);
    CHECK_EQ(bg_registry_save(NULL, &why), BG_EINVAL);
    bg_tenant_release(NULL);
    bg_registry_free(NULL);
    bg_registry_for_each(NULL, NULL, NULL);
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
        case 4: options.spec.flags = BG_SPEC_EXCLUSIVE; break;
        case 5: options.inserts_per_second = -1; break;
        case 6: options.burst = -1; break;
        case 7: options.directory = ""; break;
        case 8: options.directory = "/nonexistent/folder", expected = BG_EIO; break;
        case 9: options.spec.hash.profile = 99; break;
        case 10:
            gate.struct_size = 1;
            options.gate = &gate;
            break;
        default: options.directory = "/dev/null", expected = BG_EIO; break;
        }
        CHECK_EQ(bg_registry_create(&options, &registry, &why), expected);
        CHECK(registry == NULL);
        CHECK(why.code == expected && *why.message);
    }
    CHECK_EQ(bg_registry_create(NULL, &registry, &why), BG_EINVAL);
    bg_registry_options options = usual();
    CHECK_EQ(bg_registry_create(&options, NULL, &why), BG_EINVAL);
}

/* State of count_tenant, which counts the listed tenants and modifies the registry in the middle of
 * the listing. */
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
    if (c->n == c->remove_at) { /* removes every tenant, including this one */
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

TEST(registry__each)
{
    bg_registry_options options = usual();
    options.spec.items = 10;
    bg_registry *registry = open_registry(&options);
    struct counted all = { .registry = registry };
    bg_registry_for_each(registry, count_tenant, &all);
    CHECK_EQ(all.n, 0);
    fill_names(registry, 300);
    bg_registry_for_each(registry, count_tenant, &all);
    CHECK_EQ(all.n, 300);
    struct counted some = { .registry = registry, .stop_at = 100 };
    bg_registry_for_each(registry, count_tenant, &some);
    CHECK_EQ(some.n, 100);
    /* Tenants that are removed during the listing may still be listed. New tenants are listed after
     * them. */
    struct counted less = { .registry = registry, .remove_at = 70 };
    bg_registry_for_each(registry, count_tenant, &less);
    CHECK(less.n >= 70 + 10 && less.n <= 128 + 10);
    CHECK(less.seen[309]);
    struct counted last = { .registry = registry };
    bg_registry_for_each(registry, count_tenant, &last);
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
    check_keys(old, 0, 100); /* callers that hold the removed tenant can still use it */
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

/* A lookup has found a tenant but has not yet been counted as one of the tenant's users. Whatever
 * happens in the meantime, the tenant must not be freed before the lookup ends. */
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
    for (uint64_t i = 0; i < old->cells; i++) { /* it is unchanged */
        n += atomic_load(&old->cell[i].thing) != NULL;
    }
    CHECK_EQ(n, room);
    bgi_grace_leave(&registry->grace, token);
    CHECK_EQ(bgi_grace_pending(&registry->grace), 0);
    bg_registry_free(registry);
}

/* ---- Gates --------------------------------------------------------------------------------- */

/* The backing store contains the even numbers. */
static bg_store_answer ask_even(void *context, const void *key, size_t len,
                                void *request)
{
    unsigned *asked = context;
    uint64_t number = 0;
    (void)request;
    memcpy(&number, key, len < sizeof number ? len : sizeof number);
    ++*asked;
    return number % 2 ? BG_STORE_ABSENT : BG_STORE_PRESENT;
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
    gate.query = ask_even;
    gate.context = &asked;
    options.gate = &gate;
    bg_registry *registry = open_registry(&options);
    gate.query = NULL; /* it was copied */
    bg_tenant *acme = get_tenant(registry, "acme"),
              *other = get_tenant(registry, "other");
    for (uint64_t key = 0; key < 100; key += 2) {
        CHECK_OK(add(acme, key));
    }
    for (int turn = 0; turn < 2; turn++) {
        bg_gate *own = bg_tenant_gate(acme);
        CHECK(own && own != bg_tenant_gate(other));
        CHECK(bg_gate_slot(own) == bg_tenant_slot(acme));
        CHECK_EQ(look_up(own, 4), BG_OUTCOME_PRESENT);
        CHECK_EQ(look_up(bg_tenant_gate(other), 4), BG_OUTCOME_ABSENT_BY_FILTER);
        asked = 0;
        for (uint64_t key = 1; key < 2000; key += 2) {
            CHECK(look_up(own, key) != BG_OUTCOME_PRESENT);
        }
        CHECK(asked < 50);
        CHECK_OK(bg_gate_add(own, "new", 3));
        CHECK(bg_tenant_may_contain(acme, "new", 3));
        bg_tenant_release(acme);
        bg_tenant_release(other);
        /* Evicts both tenants. Each gets a new gate when it is reloaded. */
        CHECK_EQ(pass(registry, IDLE), 2);
        acme = get_tenant(registry, "acme");
        other = get_tenant(registry, "other");
    }
    bg_tenant_release(acme);
    bg_tenant_release(other);
    bg_registry_free(registry);
    files_clean();
}

static bg_store_answer ask_flag(void *context, const void *key, size_t len,
                                void *request)
{
    (void)key;
    (void)len;
    (void)request;
    return *(const bool *)context ? BG_STORE_PRESENT : BG_STORE_ABSENT;
}

/* A key that a tenant's gate has cached as absent is added through the tenant, without using the
 * gate. The gate must then find the key. */
TEST(gates__learn_of_what_tenants_add)
{
    bool written = false;
    bg_gate_options gate = BG_GATE_OPTIONS_INIT;
    bg_registry_options options = usual();
    gate.query = ask_flag;
    gate.context = &written;
    gate.negative_entries = 1000;
    options.gate = &gate;
    options.spec.items = 10;
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    bg_gate *own = bg_tenant_gate(acme);
    /* With ten times as many keys as planned, the filter answers "no" for only a few keys. */
    add_all(acme, 1000, 1100);
    uint64_t keys[2] = { 0, 0 };
    for (unsigned n = 0, key = 1; n < 2; key++) {
        if (look_up(own, key) == BG_OUTCOME_ABSENT_BY_STORE) {
            CHECK_EQ(look_up(own, key), BG_OUTCOME_ABSENT_BY_CACHE);
            keys[n++] = key;
        }
    }
    bg_bytes both[2] = { { &keys[0], 8 }, { &keys[1], 8 } };
    written = true;
    CHECK_OK(add(acme, keys[0]));
    CHECK_EQ(look_up(own, keys[0]), BG_OUTCOME_PRESENT);
    CHECK_OK(bg_tenant_add_many(acme, both, 2, NULL, NULL, NULL));
    CHECK_EQ(look_up(own, keys[1]), BG_OUTCOME_PRESENT);
    bg_tenant_release(acme);
    bg_registry_free(registry);
}

/* While a key is missing from a gate's filter, the tenant stays in memory, because its file cannot
 * record this doubt. */
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
        err = bg_gate_add(own, &key, sizeof key);
    }
    CHECK_EQ(err, BG_EFULL);
    bg_tenant_release(acme); /* now only the doubt keeps the tenant in memory */
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

/* Like gates__doubtful_ones_stay, but with a gate that the caller creates, and frees before it
 * releases the tenant. */
TEST(gates__doubts_of_own_gates_stay)
{
    bg_errinfo why;
    bg_registry_options options = on_disk();
    options.spec.kind = BG_KIND_CUCKOO;
    options.spec.items = 10;
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    bg_gate *own = NULL;
    bg_err err = bg_gate_create(bg_tenant_slot(acme), NULL, &own, NULL);
    CHECK_OK(err);
    for (uint64_t key = 1; !err; key++) {
        err = bg_gate_add(own, &key, sizeof key);
    }
    CHECK_EQ(err, BG_EFULL);
    CHECK_EQ(bg_slot_save(bg_tenant_slot(acme), files_path("own"), NULL, &why),
             BG_EINCOMPAT);
    CHECK_EQ(count_found(acme, 0, 1000), 1000);
    bg_gate_free(own);
    bg_tenant_release(acme);
    CHECK_EQ(bg_registry_save(registry, &why), BG_EINCOMPAT);
    CHECK_EQ(pass(registry, IDLE), 0);
    acme = get_tenant(registry, "acme");
    CHECK_EQ(tenant_stats(acme).in_memory, 1);
    CHECK_EQ(count_found(acme, 0, 1000), 1000);
    bg_tenant_release(acme);
    bg_registry_free(registry);
    files_clean();
}

/* A base that has ended a gate's doubt must not be replaced by an older file, even after the tenant
 * has been evicted twice. */
TEST(gates__ended_doubts_stay_over_evictions)
{
    const uint64_t key = 100;
    const unsigned char bytes[8] = { 100 }; /* the same key */
    bg_gate_options gate = BG_GATE_OPTIONS_INIT;
    bg_registry_options options = on_disk();
    options.gate = &gate;
    bg_registry *registry = open_registry(&options);
    bg_tenant *acme = get_tenant(registry, "acme");
    bg_slot *slot = bg_tenant_slot(acme);
    const char *older = files_path("older");
    CHECK_OK(bg_slot_swap(slot, make_static(0, key), 0, BG_SLOT_DISCARD, NULL));
    CHECK_OK(bg_slot_save(slot, older, NULL, NULL));
    CHECK_EQ(bg_gate_add(bg_tenant_gate(acme), bytes, sizeof bytes), BG_ENOTSUP);
    CHECK_OK(bg_slot_swap(slot, make_static(0, key + 1), 0, BG_SLOT_DISCARD, NULL));
    for (unsigned i = 0; i < 2; i++) {
        bg_tenant_release(acme);
        CHECK_EQ(pass(registry, IDLE), 1);
        acme = get_tenant(registry, "acme");
        slot = bg_tenant_slot(acme);
        CHECK_EQ(bg_slot_reload(slot, older, NULL, NULL), BG_EINCOMPAT);
        CHECK(bg_gate_may_contain(bg_tenant_gate(acme), bytes, sizeof bytes));
        CHECK(!bg_gate_may_contain(bg_tenant_gate(acme), "absent", 6)); /* no doubt */
    }
    bg_tenant_release(acme);
    bg_registry_free(registry);
    files_clean();
}

/* ---- Failed allocations -------------------------------------------------------------------- */

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
                     100); /* if the file cannot be read, every answer is "maybe" */
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
