/*
 * conc_registry.c - tests a registry that many threads use at once: exactly one thread creates each
 * tenant, lookups work while the table is replaced, quotas are enforced, and, most importantly,
 * tenants are evicted and reloaded while keys are being added to them.
 *
 * The check of reloaded tenants is exact: every writer has its own keys and announces its progress
 * after each add, and a lookup of an announced key must return "maybe". The clock advances with
 * every call, so every tenant is always due for eviction, and evictions interleave with adds and
 * lookups at every point.
 */
#define _GNU_SOURCE /* usleep */

#include "support/files.h"
#include "support/tenants.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { THREADS = 4, FEWER = CHECK_SANITIZED || CHECK_EMULATED };

static _Atomic uint64_t ticks;

/* Every call returns a later time. */
static uint64_t rushing_clock(void *context)
{
    (void)context;
    return atomic_fetch_add_explicit(&ticks, 1000, memory_order_relaxed);
}

static bg_registry_options usual(void)
{
    bg_registry_options options = BG_REGISTRY_OPTIONS_INIT;
    options.spec.items = 2000;
    options.spec.rate = 0.001;
    options.clock = rushing_clock;
    return options;
}

static bg_registry_options on_disk(void)
{
    bg_registry_options options = usual();
    options.directory = files_folder();
    options.idle = 1;
    return options;
}

static bg_tenant *get_number(bg_registry *registry, unsigned i)
{
    char name[16];
    (void)snprintf(name, sizeof name, "t%u", i);
    return get_tenant(registry, name);
}

/* Runs n threads and waits for them. Each thread gets its own element of `arguments`; if `size` is
 * 0, all threads get the same argument. */
static void run(void *(*work)(void *), void *arguments, size_t size, unsigned n)
{
    pthread_t threads[16];
    for (unsigned i = 0; i < n; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, work, (char *)arguments + i * size),
                 0);
    }
    for (unsigned i = 0; i < n; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
}

/* ---- Creation ------------------------------------------------------------------------- */

enum { NAMES = 200 };

struct creator {
    bg_registry *registry;
    atomic_uint *waiting;
    uint64_t key; /* its own key */
    bg_tenant *found[NAMES];
};

static void *create_all(void *arg)
{
    struct creator *c = arg;
    atomic_fetch_sub(c->waiting, 1);
    while (atomic_load(c->waiting)) { /* all at once */
    }
    for (unsigned i = 0; i < NAMES; i++) {
        c->found[i] = get_number(c->registry, i);
        CHECK_OK(bg_tenant_add(c->found[i], &c->key, sizeof c->key, NULL, NULL));
    }
    return NULL;
}

TEST(registry__one_creator_per_name)
{
    bg_registry_options options = usual();
    bg_registry *registry = open_registry(&options);
    atomic_uint waiting = THREADS;
    static struct creator creators[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        creators[i] =
            (struct creator){ .registry = registry, .waiting = &waiting, .key = i };
    }
    run(create_all, creators, sizeof *creators, THREADS);
    for (unsigned i = 0; i < NAMES; i++) {
        for (unsigned j = 0; j < THREADS; j++) {
            const struct creator *c = &creators[j];
            CHECK(c->found[i] == creators[0].found[i]);
            CHECK(bg_tenant_may_contain(creators[0].found[i], &c->key, sizeof c->key));
            bg_tenant_release(c->found[i]);
        }
    }
    CHECK_EQ(registry_stats(registry).created, NAMES);
    CHECK_EQ(registry_stats(registry).tenants, NAMES);
    bg_registry_free(registry);
}

/* ---- The table ------------------------------------------------------------------------- */

struct table_crowd {
    bg_registry *registry;
    _Atomic unsigned made;   /* tenants with lower numbers always exist */
    _Atomic unsigned rounds; /* number of rounds completed by the removing thread */
    unsigned most;
    _Atomic unsigned roles;
};

static void make_names(struct table_crowd *crowd)
{
    for (unsigned i = 0; i < crowd->most; i++) {
        bg_tenant_release(get_number(crowd->registry, i));
        atomic_store(&crowd->made, i + 1);
    }
}

/* Keeps creating and removing tenants. The removed tenants' cells fill the table, so that it is
 * replaced more often. Tenants are removed while this thread holds them, or after it has released
 * them. */
static void come_and_go(struct table_crowd *crowd)
{
    char name[24];
    for (unsigned i = 0; atomic_load(&crowd->made) < crowd->most; i++) {
        (void)snprintf(name, sizeof name, "x%u", i % 3);
        bg_tenant *tenant = get_tenant(crowd->registry, name);
        CHECK_OK(bg_tenant_add(tenant, &i, sizeof i, NULL, NULL));
        if (i % 2) {
            bg_tenant_release(tenant);
            CHECK_OK(bg_registry_remove(crowd->registry, name, NULL));
        } else {
            CHECK_OK(bg_registry_remove(crowd->registry, name, NULL));
            CHECK(bg_tenant_may_contain(tenant, &i, sizeof i));
            bg_tenant_release(tenant);
        }
        atomic_fetch_add(&crowd->rounds, 1);
    }
}

/* Looks up a tenant that another thread keeps creating and removing. If the tenant is found, it
 * must be usable. */
static void look_up_fleeting(struct table_crowd *crowd, unsigned i)
{
    char name[16];
    bg_tenant *tenant = NULL;
    (void)snprintf(name, sizeof name, "x%u", i % 3);
    bg_err err = bg_registry_get(crowd->registry, name, 0, &tenant, NULL);
    CHECK(err == BG_OK || err == BG_ENOTFOUND);
    if (tenant) {
        CHECK_STR(bg_tenant_name(tenant), name);
        CHECK_OK(bg_tenant_add(tenant, "k", 1, NULL, NULL));
        CHECK(bg_tenant_may_contain(tenant, "k", 1));
    }
    bg_tenant_release(tenant);
}

static void look_up_lasting(struct table_crowd *crowd, unsigned i)
{
    char name[16];
    bg_tenant *tenant = NULL;
    (void)snprintf(name, sizeof name, "t%u", i);
    CHECK_OK(bg_registry_get(crowd->registry, name, 0, &tenant, NULL));
    CHECK(tenant && strcmp(bg_tenant_name(tenant), name) == 0);
    bg_tenant_release(tenant);
}

static void look_up(struct table_crowd *crowd)
{
    unsigned made = 0;
    uint64_t state = 1;
    while (made < crowd->most) {
        made = atomic_load(&crowd->made);
        for (unsigned j = 0; made && j < 50; j++) {
            unsigned i = (unsigned)(check_random_next(&state) >> 32);
            look_up_lasting(crowd, i % made);
            look_up_fleeting(crowd, i);
        }
    }
}

static bool see_name(void *context, bg_tenant *tenant)
{
    unsigned *n = context;
    *n += bg_tenant_name(tenant)[0] == 't';
    return true;
}

static void *crowd_the_table(void *arg)
{
    struct table_crowd *crowd = arg;
    unsigned role = atomic_fetch_add(&crowd->roles, 1);
    if (role == 0) {
        make_names(crowd);
    } else if (role == 1) {
        come_and_go(crowd);
    } else {
        look_up(crowd);
        unsigned n = 0;
        bg_registry_for_each(crowd->registry, see_name, &n);
        CHECK_EQ(n, crowd->most);
    }
    return NULL;
}

TEST(registry__look_ups_while_the_table_grows)
{
    bg_registry_options options = usual();
    options.spec.items = 1;
    struct table_crowd crowd = { .registry = open_registry(&options),
                                 .most = FEWER ? 400 : 3000 };
    run(crowd_the_table, &crowd, 0, THREADS);
    CHECK_EQ(registry_stats(crowd.registry).tenants, crowd.most);
    CHECK_EQ(registry_stats(crowd.registry).removed, atomic_load(&crowd.rounds));
    CHECK_EQ(registry_stats(crowd.registry).in_memory, crowd.most);
    bg_registry_free(crowd.registry);
}

/* ---- Quotas ------------------------------------------------------------------------------ */

struct greedy {
    bg_tenant *tenant;
    uint64_t first, n, taken, fresh;
};

static void *take_places(void *arg)
{
    struct greedy *g = arg;
    for (uint64_t i = 0; i < g->n; i++) {
        uint64_t key = g->first + i;
        bool is_new;
        bg_err err = bg_tenant_add(g->tenant, &key, sizeof key, &is_new, NULL);
        CHECK(err == BG_OK || err == BG_EQUOTA);
        g->taken += err == BG_OK;
        g->fresh += is_new;
        if (i % 64 == 0) {
            CHECK(tenant_stats(g->tenant).items <= 1000);
        }
    }
    return NULL;
}

TEST(quotas__items_are_exact)
{
    bg_registry_options options = usual();
    options.max_items = 1000;
    bg_registry *registry = open_registry(&options);
    bg_tenant *tenant = get_tenant(registry, "t");
    struct greedy all[THREADS];
    uint64_t taken = 0, fresh = 0, tries = 0;
    for (uint64_t i = 0; i < THREADS; i++) {
        all[i] = (struct greedy){ .tenant = tenant, .first = i << 32, .n = 2000 };
    }
    run(take_places, all, sizeof *all, THREADS);
    for (int i = 0; i < THREADS; i++) {
        taken += all[i].taken;
        fresh += all[i].fresh;
        tries += all[i].n;
    }
    CHECK_EQ(tenant_stats(tenant).items, 1000);
    CHECK_EQ(fresh, 1000);
    CHECK_EQ(tenant_stats(tenant).limited_items, tries - taken);
    bg_tenant_release(tenant);
    bg_registry_free(registry);
}

struct neighbour {
    bg_registry *registry;
    bool floods;
    atomic_int *calm; /* number of threads still using the tenant "calm" */
};

static void *live_next_to_a_flood(void *arg)
{
    struct neighbour *n = arg;
    bg_tenant *tenant = get_tenant(n->registry, n->floods ? "flood" : "calm");
    uint64_t refused = 0, key = (uint64_t)(uintptr_t)n << 20;
    for (int i = 0; n->floods ? atomic_load(n->calm) > 0 : i < 200; i++, key++) {
        refused += bg_tenant_add(tenant, &key, sizeof key, NULL, NULL) != BG_OK;
        CHECK(n->floods || bg_tenant_may_contain(tenant, &key, sizeof key));
    }
    if (!n->floods) {
        CHECK_EQ(refused, 0);
        atomic_fetch_sub(n->calm, 1);
    }
    bg_tenant_release(tenant);
    return NULL;
}

TEST(quotas__a_flood_is_its_own_problem)
{
    bg_registry_options options = usual();
    options.max_items = 1000;
    options.inserts_per_second = 1;
    options.burst = 500;
    bg_registry *registry = open_registry(&options);
    atomic_int calm = 2;
    struct neighbour all[THREADS];
    for (int i = 0; i < THREADS; i++) {
        all[i] = (struct neighbour){ registry, i >= 2, &calm };
    }
    run(live_next_to_a_flood, all, sizeof *all, THREADS);
    bg_tenant *tenant = get_tenant(registry, "calm");
    CHECK_EQ(tenant_stats(tenant).limited_rate + tenant_stats(tenant).limited_items, 0);
    bg_tenant_release(tenant);
    bg_registry_free(registry);
}

/* ---- Adds against evictions ---------------------------------------------------------------- */

enum { TENANTS = 3, WRITERS = 3, READERS = 2, RESTS = 10 };

struct race {
    bg_registry *registry;
    /* Number of keys that each writer adds to each tenant. */
    uint64_t adds;
    _Atomic uint64_t added[WRITERS][TENANTS]; /* number of keys that have been added */
    atomic_int writing;
    atomic_int resting; /* number of writers waiting for an eviction */
    atomic_uint roles;
    bool saves; /* now and then */
};

static uint64_t key_of(unsigned writer, uint64_t i)
{
    return (uint64_t)(writer + 1) << 40 | i;
}

static void add_some(struct race *race, unsigned writer, unsigned t, uint64_t i,
                     size_t n)
{
    uint64_t numbers[16];
    bg_bytes keys[16];
    size_t done = 0;
    bg_tenant *tenant = get_number(race->registry, t);
    for (size_t j = 0; j < n; j++) {
        numbers[j] = key_of(writer, i + j);
        keys[j] = (bg_bytes){ &numbers[j], sizeof numbers[j] };
    }
    if (n == 1) {
        CHECK_OK(bg_tenant_add(tenant, numbers, sizeof *numbers, NULL, NULL));
    } else {
        CHECK_OK(bg_tenant_add_many(tenant, keys, n, &done, NULL, NULL));
        CHECK_EQ(done, n);
    }
    atomic_store(&race->added[writer][t], i + n);
    bg_tenant_release(tenant);
}

/* Waits until a tenant is evicted or no tenant is in memory. Without such pauses, tenants would
 * usually be used again before their eviction is complete. After a pause, evicted tenants are
 * reloaded, and their keys must be present. */
static void rest(struct race *race)
{
    bg_registry_info before = registry_stats(race->registry), now = before;
    atomic_fetch_add(&race->resting, 1);
    while (now.evictions == before.evictions && now.in_memory > 0) {
        (void)usleep(100);
        now = registry_stats(race->registry);
    }
    atomic_fetch_sub(&race->resting, 1);
}

static void write_keys(struct race *race, unsigned writer)
{
    uint64_t state = writer, all = 0;
    uint64_t next[TENANTS] = { 0 };
    for (unsigned left = TENANTS; left;) {
        uint64_t r = check_random_next(&state);
        unsigned t = (unsigned)(r % TENANTS);
        uint64_t room = race->adds - next[t];
        size_t n = r >> 40 & 1 ? 1 + (size_t)(r >> 50) % 16 : 1;
        if (room == 0) {
            continue;
        }
        n = n < room ? n : (size_t)room;
        add_some(race, writer, t, next[t], n);
        next[t] += n;
        left -= next[t] == race->adds;
        if (r >> 32 & 1) {
            (void)usleep((unsigned)(r >> 33) % 300);
        }
        if ((all + n) * RESTS / (race->adds * TENANTS)
            != all * RESTS / (race->adds * TENANTS)) {
            rest(race);
        }
        all += n;
    }
    atomic_fetch_sub(&race->writing, 1);
}

static void evict_keys(struct race *race)
{
    for (unsigned i = 0; atomic_load(&race->writing) > 0; i++) {
        bool saves = race->saves && i % 3 == 2;
        CHECK_OK(saves ? bg_registry_save(race->registry, NULL)
                       : bg_registry_tick(race->registry, NULL, NULL));
    }
}

/* Looks up keys that were announced earlier. */
static void read_keys(struct race *race, uint64_t state)
{
    /* Holding a tenant does not keep it in memory. */
    bg_tenant *held[TENANTS];
    uint64_t missing = 0;
    for (unsigned t = 0; t < TENANTS; t++) {
        held[t] = get_number(race->registry, t);
    }
    while (atomic_load(&race->writing) > 0) {
        uint64_t r = check_random_next(&state);
        unsigned t = (unsigned)(r % TENANTS), w = (unsigned)(r >> 8) % WRITERS;
        while (atomic_load(&race->resting)) {
            (void)usleep(100);
        }
        uint64_t n = atomic_load(&race->added[w][t]);
        uint64_t key = key_of(w, n ? (r >> 20) % n : 0);
        uint64_t last = key_of(w, n ? n - 1 : 0);
        missing += n && !bg_tenant_may_contain(held[t], &key, sizeof key);
        missing += n && !bg_tenant_may_contain(held[t], &last, sizeof last);
        (void)usleep((unsigned)(r >> 33) % 300);
    }
    for (unsigned t = 0; t < TENANTS; t++) {
        bg_tenant_release(held[t]);
    }
    CHECK_EQ(missing, 0);
}

static void *run_race(void *arg)
{
    struct race *race = arg;
    unsigned role = atomic_fetch_add(&race->roles, 1);
    if (role == 0) {
        evict_keys(race);
    } else if (role <= WRITERS) {
        write_keys(race, role - 1);
    } else {
        read_keys(race, role);
    }
    return NULL;
}

/* Checks that every tenant contains all of its keys and answers "maybe" for few other keys. */
static void check_race(const struct race *race)
{
    for (unsigned t = 0; t < TENANTS; t++) {
        bg_tenant *tenant = get_number(race->registry, t);
        uint64_t missing = 0, wrong = 0;
        for (unsigned w = 0; w < WRITERS; w++) {
            for (uint64_t i = 0; i < race->adds; i++) {
                uint64_t key = key_of(w, i), other = key_of(w + 100, i);
                missing += !bg_tenant_may_contain(tenant, &key, sizeof key);
                wrong += bg_tenant_may_contain(tenant, &other, sizeof other);
            }
        }
        CHECK_EQ(missing, 0);
        CHECK(wrong < race->adds / 4);
        bg_tenant_release(tenant);
    }
}

static void race_once(bg_kind kind, bool saves)
{
    bg_registry_options options = on_disk();
    options.spec.kind = (uint32_t)kind;
    struct race race = { .registry = open_registry(&options),
                         .adds = (FEWER ? 150 : 500) * check_scale(),
                         .writing = WRITERS,
                         .saves = saves };
    run(run_race, &race, 0, 1 + WRITERS + READERS);
    check_race(&race);
    bg_registry_info stats = registry_stats(race.registry);
    CHECK_EQ(stats.tenants, TENANTS);
    CHECK_EQ(stats.return_failures, 0);
    CHECK(stats.evictions > 0);
    CHECK(stats.returns + TENANTS - stats.in_memory == stats.evictions);
    /* Check the tenants again after reloading them from their files. */
    CHECK_OK(bg_registry_save(race.registry, NULL));
    bg_registry_free(race.registry);
    race.registry = open_registry(&options);
    CHECK_EQ(registry_stats(race.registry).tenants, TENANTS);
    check_race(&race);
    bg_registry_free(race.registry);
    files_clean();
}

TEST(evict__no_add_is_lost)
{
    race_once(BG_KIND_BLOCKED, false);
    race_once(BG_KIND_SCALABLE, false);
}

TEST(evict__no_add_is_lost_beside_saves)
{
    race_once(BG_KIND_BLOCKED, true);
    race_once(BG_KIND_QUOTIENT, true);
}

/* ---- A thread inside a tenant ------------------------------------------------------------- */

/* Makes a thread stop in the middle of a tenant operation: either in the clock function, which is
 * called before the slot is used, or in the hash function, which is called after the change has
 * been recorded. */
static _Thread_local bool stops_at_clock, stops_in_hash;
static atomic_bool has_stopped, may_go_on;

static void stop_here(bool *stops)
{
    if (*stops) {
        *stops = false;
        atomic_store(&has_stopped, true);
        while (!atomic_load(&may_go_on)) {
            (void)usleep(100);
        }
    }
}

static uint64_t stopping_clock(void *context)
{
    stop_here(&stops_at_clock);
    return rushing_clock(context);
}

static uint64_t stopping_hash(void *context, const void *key, size_t len)
{
    uint64_t x = 0;
    (void)context;
    stop_here(&stops_in_hash);
    memcpy(&x, key, len < sizeof x ? len : sizeof x);
    return check_random_next(&x);
}

struct insider {
    bg_tenant *tenant;
    uint64_t key;
    bool exposes; /* instead of adding */
    bool in_hash;
    bg_slot *slot;
};

static void *stop_inside(void *arg)
{
    struct insider *in = arg;
    stops_at_clock = !in->in_hash;
    stops_in_hash = in->in_hash;
    if (in->exposes) {
        in->slot = bg_tenant_slot(in->tenant);
    } else {
        CHECK_OK(bg_tenant_add(in->tenant, &in->key, sizeof in->key, NULL, NULL));
    }
    return NULL;
}

struct chore {
    bg_registry *registry;
    bool saves;
    atomic_bool done;
    size_t evicted;
};

static void *do_chore(void *arg)
{
    struct chore *chore = arg;
    CHECK_OK(chore->saves ? bg_registry_save(chore->registry, NULL)
                          : bg_registry_tick(chore->registry, &chore->evicted, NULL));
    atomic_store(&chore->done, true);
    return NULL;
}

/* Starts a maintenance task while a thread is stopped inside a tenant operation. The thread
 * continues after a while. The test fails if the task finishes before the thread continues. */
static void chore_around(struct chore *chore, struct insider *in)
{
    pthread_t inside, outside;
    atomic_store(&has_stopped, false);
    atomic_store(&may_go_on, false);
    atomic_store(&chore->done, false);
    CHECK_EQ(pthread_create(&inside, NULL, stop_inside, in), 0);
    while (!atomic_load(&has_stopped)) {
        (void)usleep(100);
    }
    CHECK_EQ(pthread_create(&outside, NULL, do_chore, chore), 0);
    for (int i = 0; i < 500 && !atomic_load(&chore->done); i++) {
        (void)usleep(100);
    }
    bool too_early = atomic_load(&chore->done);
    atomic_store(&may_go_on, true);
    CHECK_EQ(pthread_join(inside, NULL), 0);
    CHECK_EQ(pthread_join(outside, NULL), 0);
    CHECK(!too_early);
}

static bg_registry_options with_stops(void)
{
    bg_registry_options options = on_disk();
    options.clock = stopping_clock;
    options.spec.hash.profile = BG_HASH_CUSTOM;
    options.spec.hash.custom = stopping_hash;
    options.spec.hash.custom_name = "stopping";
    return options;
}

TEST(evict__waits_for_those_who_are_in)
{
    bg_registry_options options = with_stops();
    bg_registry *registry = open_registry(&options);
    struct insider in = { .tenant = get_tenant(registry, "t") };
    struct chore chore = { .registry = registry };
    for (in.key = 1; in.key <= 4; in.key++) {
        in.in_hash = in.key % 2;
        chore_around(&chore, &in);
        CHECK_EQ(chore.evicted, 1);
        CHECK_EQ(tenant_stats(in.tenant).in_memory, 0);
        CHECK(bg_tenant_may_contain(in.tenant, &in.key, sizeof in.key));
    }
    bg_tenant_release(in.tenant);
    bg_registry_free(registry);
    files_clean();
}

/* If a tenant has keys that are not in its file, it must be marked as changed; otherwise, the next
 * tick would evict it without writing them. */
TEST(evict__saves_wait_as_well)
{
    bg_registry_options options = with_stops();
    bg_registry *registry = open_registry(&options);
    struct insider in = { .tenant = get_tenant(registry, "t") };
    for (in.key = 1; in.key <= 4; in.key++) {
        struct chore chore = { .registry = registry, .saves = true };
        in.in_hash = in.key % 2;
        chore_around(&chore, &in);
        CHECK_OK(bg_registry_tick(registry, &chore.evicted, NULL));
        CHECK_EQ(chore.evicted, 1);
        CHECK(bg_tenant_may_contain(in.tenant, &in.key, sizeof in.key));
    }
    bg_tenant_release(in.tenant);
    bg_registry_free(registry);
    files_clean();
}

TEST(evict__slot_that_is_handed_out_meanwhile_stays)
{
    bg_registry_options options = with_stops();
    bg_registry *registry = open_registry(&options);
    struct insider in = { .tenant = get_tenant(registry, "t"), .exposes = true };
    struct chore chore = { .registry = registry };
    chore_around(&chore, &in);
    CHECK_EQ(chore.evicted, 0);
    CHECK(in.slot != NULL);
    CHECK_OK(bg_slot_add_u64(in.slot, 7, NULL));
    CHECK(bg_slot_may_contain_u64(bg_tenant_slot(in.tenant), 7));
    CHECK_EQ(tenant_stats(in.tenant).in_memory, 1);
    bg_tenant_release(in.tenant);
    bg_registry_free(registry);
    files_clean();
}

/* ---- Reloading ------------------------------------------------------------------------------ */

struct comer {
    bg_tenant *tenant;
    atomic_uint *waiting;
};

static void *come_back(void *arg)
{
    struct comer *c = arg;
    uint64_t missing = 0;
    atomic_fetch_sub(c->waiting, 1);
    while (atomic_load(c->waiting)) {
    }
    for (uint64_t key = 0; key < 100; key++) {
        missing += !bg_tenant_may_contain(c->tenant, &key, sizeof key);
    }
    CHECK_EQ(missing, 0);
    return NULL;
}

TEST(evict__one_reads_and_the_others_wait)
{
    bg_registry_options options = on_disk();
    bg_registry *registry = open_registry(&options);
    bg_tenant *tenant = get_tenant(registry, "t");
    for (uint64_t key = 0; key < 100; key++) {
        CHECK_OK(bg_tenant_add(tenant, &key, sizeof key, NULL, NULL));
    }
    for (unsigned round = 1; round <= 10; round++) {
        size_t evicted = 0;
        atomic_uint waiting = THREADS;
        struct comer all[THREADS];
        CHECK_OK(bg_registry_tick(registry, &evicted, NULL));
        CHECK_EQ(evicted, 1);
        for (int i = 0; i < THREADS; i++) {
            all[i] = (struct comer){ tenant, &waiting };
        }
        run(come_back, all, sizeof *all, THREADS);
        CHECK_EQ(tenant_stats(tenant).returns, round);
    }
    bg_tenant_release(tenant);
    bg_registry_free(registry);
    files_clean();
}

/* ---- Everything at once ---------------------------------------------------------------------- */

struct brawl {
    bg_registry *registry;
    atomic_int busy;
    atomic_uint roles;
    unsigned rounds;
};

/* Creates and removes tenants whose names no other thread uses. Added keys must be present until
 * the tenant is removed, no matter what earlier tenants with the same name left on disk. */
static void live_and_die(struct brawl *brawl, unsigned role)
{
    char name[24];
    uint64_t state = role;
    for (unsigned i = 0; i < brawl->rounds; i++) {
        uint64_t r = check_random_next(&state);
        uint64_t missing = 0;
        (void)snprintf(name, sizeof name, "own%u-%u", role, (unsigned)(r % 3));
        bg_tenant *tenant = get_tenant(brawl->registry, name);
        for (uint64_t key = 0; key < 10; key++) {
            uint64_t own = (uint64_t)i << 32 | key;
            CHECK_OK(bg_tenant_add(tenant, &own, sizeof own, NULL, NULL));
            (void)usleep((unsigned)(r >> 33) % 50);
        }
        if (r >> 16 & 1) {
            bg_tenant_release(tenant);
            (void)usleep((unsigned)(r >> 33) % 500);
            CHECK_OK(bg_registry_get(brawl->registry, name, 0, &tenant, NULL));
        }
        while (r % 3 && (r >> 20) % 4 == 0 && tenant_stats(tenant).in_memory) {
            (void)usleep(100); /* waits until the unused tenant is evicted */
        }
        for (uint64_t key = 0; key < 10; key++) {
            uint64_t own = (uint64_t)i << 32 | key;
            missing += !bg_tenant_may_contain(tenant, &own, sizeof own);
        }
        if (r % 3 == 0 && r >> 17 & 1) {
            missing += !bg_slot_may_contain(bg_tenant_slot(tenant), &missing, 0)
                       && bg_tenant_may_contain(tenant, &missing, 0);
        }
        CHECK_EQ(missing, 0);
        if (r >> 18 & 1) {
            CHECK_OK(bg_registry_remove(brawl->registry, name, NULL));
            /* Create a new tenant with the same name while the old tenant is still held. */
            if (r >> 19 & 1) {
                bg_tenant *young = get_tenant(brawl->registry, name);
                uint64_t own = (uint64_t)i << 32;
                CHECK(young != tenant);
                CHECK(!bg_tenant_may_contain(young, &own, sizeof own));
                bg_tenant_release(young);
            }
        }
        bg_tenant_release(tenant);
    }
    atomic_fetch_sub(&brawl->busy, 1);
}

static bool glance(void *context, bg_tenant *tenant)
{
    bg_registry *registry = context;
    (void)tenant_stats(tenant);
    (void)registry_stats(registry);
    return true;
}

static void *fight(void *arg)
{
    struct brawl *brawl = arg;
    unsigned role = atomic_fetch_add(&brawl->roles, 1);
    if (role < THREADS) {
        live_and_die(brawl, role);
        return NULL;
    }
    while (atomic_load(&brawl->busy) > 0) {
        if (role == THREADS) {
            CHECK_OK(bg_registry_tick(brawl->registry, NULL, NULL));
        } else {
            CHECK_OK(bg_registry_save(brawl->registry, NULL));
            bg_registry_for_each(brawl->registry, glance, brawl->registry);
            (void)usleep(1000);
        }
    }
    return NULL;
}

TEST(registry__everything_at_once)
{
    bg_registry_options options = on_disk();
    options.spec.items = 100;
    options.spec.rate = 1e-9; /* low, so that no false positive hides a missing key */
    struct brawl brawl = { .registry = open_registry(&options),
                           .busy = THREADS,
                           .rounds = (FEWER ? 40 : 120) * (unsigned)check_scale() };
    run(fight, &brawl, 0, THREADS + 2);
    bg_registry_info stats = registry_stats(brawl.registry);
    CHECK_EQ(stats.created - stats.removed, stats.tenants);
    CHECK_EQ(stats.return_failures, 0);
    CHECK(stats.evictions > 0);
    /* The number of files must equal the number of tenants. */
    CHECK_OK(bg_registry_save(brawl.registry, NULL));
    bg_registry_free(brawl.registry);
    brawl.registry = open_registry(&options);
    CHECK_EQ(registry_stats(brawl.registry).tenants, stats.tenants);
    bg_registry_free(brawl.registry);
    files_clean();
}
