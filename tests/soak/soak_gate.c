/*
 * soak_gate.c - runs all live components at once, for any length of time.
 *
 *     soak_gate SECONDS DIRECTORY
 *
 *   gate       keys are written through a gate, announced, and looked up by other threads:
 *              each announced key must be present, and keys that were never written must not
 *              be. Meanwhile, the gate's slot is layered, compacted, migrated and rebuilt from
 *              the backing store.
 *   files      the file of a sealed slot is continually replaced with valid and damaged files,
 *              and reloaded by a watch and by two threads at once: keys that are in every valid
 *              file must always be found.
 *   tenants    keys are added to and looked up in a registry's tenants, which are written to disk
 *              as soon as they are not in use.
 *   window     a window filter is rotated, and keys added in the current period must be found.
 *
 * The result of every lookup of an announced key is checked. At the end, memory use must not have
 * grown: the maximum in the last quarter of the run is compared with the maximum in the second
 * quarter.
 */
#define _GNU_SOURCE /* usleep */

#include <bloomgate/all.h>

#include "support/adds.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    ADDERS = 2,
    KEYS_MOST = 200000,
    TENANTS = 20,
    TENANT_KEYS = 20000,
    FIXED = 1000
};

struct count {
    _Atomic uint64_t to; /* keys 0 .. to - 1 */
};

static struct {
    atomic_bool over;
    _Atomic uint64_t checks, wrong;
    const char *folder;
    bg_slot *slot;
    bg_gate *gate;
    struct count in_truth[ADDERS], announced[ADDERS];
    bg_slot *published;
    bg_registry *registry;
    struct count tenants[TENANTS];
    bg_filter *window;
    _Atomic uint64_t alarms;
} world;

static void must(bool holds, const char *what)
{
    if (!holds) {
        atomic_fetch_add(&world.wrong, 1);
        fprintf(stderr, "soak_gate: violated: %s\n", what);
    }
}

#define MUST(x) must((x), #x)

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t key_of(uint64_t owner, uint64_t i)
{
    return owner * (UINT64_C(1) << 40) + i;
}

static bg_filter *new_filter(bg_kind kind, uint64_t items)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL;
    spec.kind = (uint32_t)kind;
    spec.items = items;
    spec.rate = 0.01;
    MUST(bg_filter_create(&spec, &filter, NULL) == BG_OK);
    return filter;
}

/* ---- The gate and its backing store -------------------------------------------------------- */

/* A key is 8 bytes: the number of the thread that writes it, and an index. Every thousandth query
 * of the store fails. */
static bg_store_answer ask_truth(void *context, const void *key, size_t len,
                                 void *request)
{
    static _Atomic uint64_t calls;
    uint64_t k;
    (void)context;
    (void)request;
    if (len != sizeof k || atomic_fetch_add(&calls, 1) % 1000 == 999) {
        return BG_STORE_ERROR;
    }
    memcpy(&k, key, sizeof k);
    const uint64_t owner = k >> 40, i = k & ((UINT64_C(1) << 40) - 1);
    return owner < ADDERS && i < atomic_load(&world.in_truth[owner].to)
               ? BG_STORE_PRESENT
               : BG_STORE_ABSENT;
}

static bg_err write_truth(void *context, const void *key, size_t len, void *request)
{
    uint64_t k;
    (void)context;
    (void)request;
    (void)len;
    memcpy(&k, key, sizeof k);
    const uint64_t owner = k >> 40, i = k & ((UINT64_C(1) << 40) - 1);
    if (atomic_load(&world.in_truth[owner].to) <= i) {
        atomic_store(&world.in_truth[owner].to, i + 1);
    }
    return BG_OK;
}

static void hear_alarm(void *context, const bg_alarm *alarm)
{
    (void)context;
    MUST(alarm->kind != BG_ALARM_FALSE_NEGATIVE);
    atomic_fetch_add(&world.alarms, 1);
}

static void *write_keys(void *argument)
{
    const uint64_t me = (uint64_t)(uintptr_t)argument;
    for (uint64_t i = 0; !atomic_load(&world.over); i++) {
        const uint64_t n = i % KEYS_MOST, key = key_of(me, n);
        MUST(bg_gate_write(world.gate, &key, sizeof key, NULL) == BG_OK);
        if (atomic_load(&world.announced[me].to) <= n) {
            atomic_store(&world.announced[me].to, n + 1);
        }
        if (i % 64 == 0) {
            (void)usleep(100);
        }
    }
    return NULL;
}

static void *look_up_keys(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (!atomic_load(&world.over)) {
        const uint64_t owner = next_random(&random) % ADDERS;
        const uint64_t to = atomic_load(&world.announced[owner].to);
        uint64_t key = key_of(owner, to ? next_random(&random) % to : 0);
        if (to && next_random(&random) % 4 == 0) {
            key = key_of(owner, to - 1); /* the newest */
        }
        if (to) {
            bg_outcome outcome = bg_gate_lookup(world.gate, &key, sizeof key, NULL);
            MUST(outcome == BG_OUTCOME_PRESENT || outcome == BG_OUTCOME_UNKNOWN);
            MUST(bg_gate_may_contain(world.gate, &key, sizeof key));
        }
        key = key_of(ADDERS + 1, next_random(&random) >> 30);
        bg_outcome absent = bg_gate_lookup(world.gate, &key, sizeof key, NULL);
        MUST(absent != BG_OUTCOME_PRESENT);
        atomic_fetch_add(&world.checks, 3);
    }
    return NULL;
}

struct truth_source {
    unsigned owner;
    uint64_t at, keys[512];
};

static bg_err source_next(void *context, bg_bytes *keys, size_t room, size_t *n,
                          bg_errinfo *info)
{
    struct truth_source *s = context;
    (void)info;
    for (*n = 0; *n < room && *n < 512 && s->owner < ADDERS;) {
        if (s->at == atomic_load(&world.in_truth[s->owner].to)) {
            s->owner++;
            s->at = 0;
            continue;
        }
        s->keys[*n] = key_of(s->owner, s->at++);
        keys[*n] = (bg_bytes){ &s->keys[*n], 8 };
        ++*n;
    }
    return BG_OK;
}

static void rebuild_slot(bool is_static)
{
    struct truth_source from = { .owner = 0 };
    bg_source source = { source_next, NULL, &from, 0 };
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    how.spec.kind = is_static ? BG_KIND_FUSE : BG_KIND_BLOCKED;
    how.spec.items = ADDERS * KEYS_MOST;
    how.spec.rate = 0.01;
    how.delta = is_static ? new_filter(BG_KIND_BLOCKED, ADDERS * KEYS_MOST) : NULL;
    MUST(bg_slot_rebuild(world.slot, &source, &how, NULL, NULL) == BG_OK);
}

static void *change_slot(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (!atomic_load(&world.over)) {
        bg_filter *filter = new_filter(BG_KIND_BLOCKED, ADDERS * KEYS_MOST);
        bg_err err = BG_OK;
        switch (next_random(&random) % 5) {
        case 0: err = bg_slot_set_delta(world.slot, filter, NULL); break;
        case 1:
            (void)!bg_slot_compact(world.slot, filter, NULL);
            err = BG_OK; /* the slot owns the filter, even on failure */
            break;
        case 2:
            err = bg_slot_begin_migration(world.slot, filter, NULL);
            if (!err) {
                MUST(bg_slot_end_migration(world.slot, true, NULL) == BG_OK);
            }
            break;
        case 3:
            rebuild_slot(true);
            err = BG_EINVAL;
            break;
        default:
            rebuild_slot(false);
            err = BG_EINVAL;
            break;
        }
        if (err) {
            bg_filter_free(filter);
        }
        (void)usleep(2000);
    }
    return NULL;
}

/* ---- Files ---------------------------------------------------------------------------------- */

static void *publish_files(void *argument)
{
    char path[512];
    uint64_t random = (uint64_t)(uintptr_t)argument;
    (void)snprintf(path, sizeof path, "%s/published.bg", world.folder);
    for (uint64_t generation = 1; !atomic_load(&world.over); generation++) {
        bg_filter *filter = new_filter(BG_KIND_BLOCKED, 4 * FIXED);
        bg_save_options how = BG_SAVE_OPTIONS_INIT;
        how.generation = generation;
        how.flags = BG_FILE_NO_SYNC;
        for (uint64_t i = 0; i < FIXED; i++) {
            (void)added_u64(filter, i);
        }
        (void)added_u64(filter, next_random(&random));
        MUST(bg_save(filter, path, &how, NULL) == BG_OK);
        bg_filter_free(filter);
        if (generation % 5 == 0) { /* simulated damage */
            FILE *file = fopen(path, "r+");
            MUST(file && fseek(file, (long)(next_random(&random) % 5000), SEEK_SET) == 0
                 && fputs("accident", file) >= 0 && fclose(file) == 0);
        }
        (void)usleep(3000);
    }
    return NULL;
}

static void *reload_files(void *argument)
{
    char path[512];
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    how.flags = BG_SLOT_ANY_GENERATION;
    (void)argument;
    (void)snprintf(path, sizeof path, "%s/published.bg", world.folder);
    while (!atomic_load(&world.over)) {
        (void)!bg_slot_reload(world.published, path, &how, NULL);
        for (uint64_t i = 0; i < FIXED; i++) {
            MUST(bg_slot_may_contain_u64(world.published, i));
        }
        atomic_fetch_add(&world.checks, FIXED);
        (void)usleep(1000);
    }
    return NULL;
}

/* ---- Tenants -------------------------------------------------------------------------------- */

static bg_tenant *get_tenant(uint64_t i)
{
    char name[32];
    bg_tenant *tenant = NULL;
    (void)snprintf(name, sizeof name, "tenant/%llu", (unsigned long long)i);
    MUST(bg_registry_get(world.registry, name, BG_REGISTRY_CREATE, &tenant, NULL)
         == BG_OK);
    return tenant;
}

static void *fill_tenants(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (!atomic_load(&world.over)) {
        const uint64_t i = next_random(&random) % TENANTS;
        bg_tenant *tenant = get_tenant(i);
        uint64_t n = atomic_load(&world.tenants[i].to);
        for (unsigned j = 0; tenant && j < 50 && n < TENANT_KEYS; j++, n++) {
            const uint64_t key = key_of(100 + i, n);
            MUST(bg_tenant_add(tenant, &key, sizeof key, NULL, NULL) == BG_OK);
            atomic_store(&world.tenants[i].to, n + 1);
        }
        bg_tenant_release(tenant);
        (void)usleep(500);
    }
    return NULL;
}

static void *ask_tenants(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (!atomic_load(&world.over)) {
        const uint64_t i = next_random(&random) % TENANTS;
        const uint64_t to = atomic_load(&world.tenants[i].to);
        bg_tenant *tenant = get_tenant(i);
        for (unsigned j = 0; tenant && to && j < 50; j++) {
            const uint64_t key = key_of(100 + i, next_random(&random) % to);
            MUST(bg_tenant_may_contain(tenant, &key, sizeof key));
        }
        bg_tenant_release(tenant);
        atomic_fetch_add(&world.checks, 50);
        (void)usleep(200);
    }
    return NULL;
}

static void *evict_tenants(void *argument)
{
    (void)argument;
    while (!atomic_load(&world.over)) {
        MUST(bg_registry_tick(world.registry, NULL, NULL) == BG_OK);
        (void)usleep(5000);
    }
    return NULL;
}

/* ---- The window ------------------------------------------------------------------------------ */

static void *move_window(void *argument)
{
    uint64_t key = (uint64_t)(uintptr_t)argument << 32;
    while (!atomic_load(&world.over)) {
        const uint64_t first = key;
        for (unsigned i = 0; i < 1000; i++) {
            (void)added_u64(world.window, key++);
        }
        MUST(bg_filter_rotate(world.window, 0, NULL) == BG_OK);
        for (uint64_t k = first; k < key; k++) {
            MUST(bg_filter_may_contain_u64(world.window, k));
        }
        atomic_fetch_add(&world.checks, 1000);
        (void)usleep(1000);
    }
    return NULL;
}

/* ---- Main ------------------------------------------------------------------------------------- */

static uint64_t resident_kib(void)
{
    char line[128];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            kib = strtoull(line + 6, NULL, 10);
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return kib;
}

static void make_world(void)
{
    bg_gate_options gate = BG_GATE_OPTIONS_INIT;
    bg_slot_options sealed = BG_SLOT_OPTIONS_INIT;
    bg_registry_options tenants = BG_REGISTRY_OPTIONS_INIT;
    bg_window_options moves = BG_WINDOW_OPTIONS_INIT;
    bg_spec spec = BG_SPEC_INIT;
    gate.query = ask_truth;
    gate.write = write_truth;
    gate.alarm = hear_alarm;
    gate.flags = BG_GATE_SINGLE_FLIGHT;
    gate.audit = 0.01;
    gate.negative_entries = 1024;
    gate.breaker_failures = 5;
    MUST(bg_slot_create(new_filter(BG_KIND_BLOCKED, ADDERS * KEYS_MOST), NULL,
                        &world.slot, NULL)
         == BG_OK);
    MUST(bg_gate_create(world.slot, &gate, &world.gate, NULL) == BG_OK);
    sealed.flags = BG_SLOT_SEALED;
    MUST(bg_slot_create(NULL, &sealed, &world.published, NULL) == BG_OK);
    tenants.spec.items = TENANT_KEYS;
    tenants.spec.rate = 0.01;
    tenants.directory = world.folder;
    tenants.idle = 1;
    MUST(bg_registry_create(&tenants, &world.registry, NULL) == BG_OK);
    moves.generations = 6;
    spec.kind = BG_KIND_WINDOW;
    spec.items = 20000;
    spec.rate = 0.01;
    spec.window = &moves;
    MUST(bg_filter_create(&spec, &world.window, NULL) == BG_OK);
}

static void free_world(void)
{
    bg_gate_free(world.gate);
    bg_slot_free(world.slot);
    bg_slot_free(world.published);
    bg_registry_free(world.registry);
    bg_filter_free(world.window);
}

/* Waits until the end of the run, and records the maximum memory use in each quarter, in KiB. */
static void watch_memory(unsigned seconds, uint64_t most[4])
{
    for (unsigned tenth = 0; tenth < 10 * seconds; tenth++) {
        const uint64_t kib = resident_kib();
        uint64_t *quarter = &most[4 * tenth / (10 * seconds)];
        *quarter = kib > *quarter ? kib : *quarter;
        (void)usleep(100000);
    }
}

static void print_figures(const uint64_t most[4])
{
    bg_slot_info slot = { .struct_size = sizeof slot }, files = slot;
    bg_gate_info gate = { .struct_size = sizeof gate };
    bg_registry_info tenants = { .struct_size = sizeof tenants };
    MUST(bg_slot_get_info(world.slot, &slot) == BG_OK);
    MUST(bg_slot_get_info(world.published, &files) == BG_OK);
    MUST(bg_gate_get_info(world.gate, NULL, &gate) == BG_OK);
    MUST(bg_registry_get_info(world.registry, &tenants) == BG_OK);
    MUST(gate.false_negatives == 0 && gate.audits > 0);
    MUST(slot.rebuilds > 0 && files.reloads > 0 && tenants.evictions > 0);
    printf("answers checked %llu; lookups %llu, audits %llu, writes %llu\n",
           (unsigned long long)atomic_load(&world.checks),
           (unsigned long long)gate.lookups, (unsigned long long)gate.audits,
           (unsigned long long)gate.writes);
    printf("swaps %llu, rebuilds %llu, compactions %llu, reloads %llu (%llu refused), "
           "evictions %llu, returns %llu\n",
           (unsigned long long)slot.swaps, (unsigned long long)slot.rebuilds,
           (unsigned long long)slot.compactions, (unsigned long long)files.reloads,
           (unsigned long long)files.reload_failures,
           (unsigned long long)tenants.evictions, (unsigned long long)tenants.returns);
    printf("maximum memory use per quarter of the run, KiB: %llu %llu %llu %llu\n",
           (unsigned long long)most[0], (unsigned long long)most[1],
           (unsigned long long)most[2], (unsigned long long)most[3]);
}

int main(int argc, char **argv)
{
    static void *(*const jobs[])(void *) = { write_keys,   write_keys,    look_up_keys,
                                             look_up_keys, change_slot,   publish_files,
                                             reload_files, reload_files,  fill_tenants,
                                             ask_tenants,  evict_tenants, move_window };
    enum { JOBS = sizeof jobs / sizeof *jobs };
    pthread_t threads[JOBS];
    uint64_t most[4] = { 0 };
    if (argc != 3) {
        fprintf(stderr, "usage: soak_gate SECONDS DIRECTORY\n");
        return 2;
    }
    const unsigned seconds = (unsigned)strtoul(argv[1], NULL, 10);
    world.folder = argv[2];
    make_world();
    for (uintptr_t i = 0; i < JOBS; i++) {
        MUST(pthread_create(&threads[i], NULL, jobs[i], (void *)i) == 0);
    }
    watch_memory(seconds ? seconds : 1, most);
    atomic_store(&world.over, true);
    for (unsigned i = 0; i < JOBS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    print_figures(most);
    /* Allows growth by a fifth plus 8 MiB. The check is skipped in sanitizer builds, where most of
     * the memory is used by the sanitizer's own records, which grow. */
    MUST(SOAK_SANITIZED || most[3] <= most[1] + most[1] / 5 + 8192);
    free_world();
    const uint64_t wrong = atomic_load(&world.wrong);
    printf("%d passed, %llu failed\n", wrong == 0, (unsigned long long)wrong);
    return wrong ? 1 : 0;
}
