/*
 * conc_slot.c - tests changes to a slot while threads add and query keys.
 *
 * Each adder has its own keys, numbered 0, 1, 2 and so on. The adder first writes a key to the
 * backing store (by advancing `true_to`), then adds it to the slot, and finally announces it (by
 * advancing `added_to`). A lookup of an announced key must return "maybe" no matter how the slot
 * changes in the meantime; each such lookup is one check. The changes are new layers, compactions,
 * migrations and rebuilds from the store, in random order.
 */
#include "bloomgate/all.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/files.h"
#include "support/filters.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

enum { ADDERS = 3, ASKERS = 2, BATCH = 100, KEYS_MOST = 100000 };

struct adder {
    _Atomic uint64_t true_to, added_to;
};

struct world {
    bg_slot *slot;
    struct adder adders[ADDERS];
    atomic_bool over;
    _Atomic uint64_t checks, missed;
};

static uint64_t key_of(unsigned adder, uint64_t i)
{
    return (uint64_t)adder << 40 | i;
}

/* ---- Threads --------------------------------------------------------------------------- */

struct worker {
    struct world *world;
    unsigned number;
    uint64_t random;
    pthread_t thread;
};

/* Adds a batch by its hashes, or by its keys if the hashes cannot be used, for example because
 * the slot has just changed. */
static bg_err add_hashes(struct world *world, const uint64_t keys[BATCH])
{
    uint64_t hashes[BATCH], check = 0;
    bg_bytes bytes[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        bytes[i] = (bg_bytes){ &keys[i], 8 };
    }
    bg_err err =
        bg_slot_hash_many(world->slot, bg_keys_bytes(bytes, BATCH), hashes, &check);
    err = err ? err
              : bg_slot_add_many(world->slot, bg_keys_hashes_of(hashes, BATCH, check),
                                 NULL, NULL, NULL);
    return err == BG_EINCOMPAT ? bg_slot_add_many(
               world->slot, bg_keys_bytes(bytes, BATCH), NULL, NULL, NULL)
                               : err;
}

/* Adds one key or a batch of keys. */
static uint64_t add_some(struct world *world, unsigned number, uint64_t at, bool many)
{
    struct adder *adder = &world->adders[number];
    uint64_t keys[BATCH], n = many ? BATCH : 1;
    for (uint64_t i = 0; i < n; i++) {
        keys[i] = key_of(number, at + i);
    }
    atomic_store(&adder->true_to, at + n);
    bg_err err = !many    ? bg_slot_add_u64(world->slot, keys[0], NULL)
                 : at & 1 ? bg_slot_add_many(world->slot, bg_keys_u64(keys, BATCH),
                                             NULL, NULL, NULL)
                          : add_hashes(world, keys);
    CHECK_OK(err);
    atomic_store(&adder->added_to, at + n);
    return n;
}

static void *add_keys(void *argument)
{
    struct worker *me = argument;
    uint64_t at = 0;
    while (!atomic_load(&me->world->over)) {
        if (at + BATCH < KEYS_MOST) {
            at += add_some(me->world, me->number, at,
                           check_random_next(&me->random) % 64 == 0);
        }
        if (at % 256 == 0) {
            sched_yield();
        }
    }
    return NULL;
}

static void ask_one(struct worker *me, unsigned adder, uint64_t i)
{
    if (!bg_slot_may_contain_u64(me->world->slot, key_of(adder, i))) {
        atomic_fetch_add(&me->world->missed, 1);
    }
}

/* Looks up keys by hash. The slot may have changed since it computed the hashes. */
static void ask_hashes(struct worker *me, const uint64_t keys[BATCH])
{
    uint64_t hashes[BATCH], check = 0;
    bg_bytes bytes[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        bytes[i] = (bg_bytes){ &keys[i], 8 };
    }
    if (!bg_slot_hash_many(me->world->slot, bg_keys_bytes(bytes, BATCH), hashes,
                           &check)) {
        size_t found = bg_slot_may_contain_many(
            me->world->slot, bg_keys_hashes_of(hashes, BATCH, check), NULL);
        atomic_fetch_add(&me->world->missed, BATCH - found);
    }
}

static void ask_many(struct worker *me, unsigned adder, uint64_t to)
{
    uint64_t keys[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        keys[i] = key_of(adder, check_random_next(&me->random) % to);
    }
    size_t found =
        bg_slot_may_contain_many(me->world->slot, bg_keys_u64(keys, BATCH), NULL);
    atomic_fetch_add(&me->world->missed, BATCH - found);
    ask_hashes(me, keys);
}

static void *ask_keys(void *argument)
{
    struct worker *me = argument;
    while (!atomic_load(&me->world->over)) {
        unsigned adder = (unsigned)(check_random_next(&me->random) % ADDERS);
        uint64_t to = atomic_load(&me->world->adders[adder].added_to);
        if (to == 0) {
            continue;
        }
        ask_one(me, adder, to - 1); /* the newest key */
        ask_one(me, adder, check_random_next(&me->random) % to);
        ask_many(me, adder, to);
        atomic_fetch_add(&me->world->checks, 2 + BATCH);
    }
    return NULL;
}

/* ---- Changes --------------------------------------------------------------------------- */

/* Reads the keys from the backing store, as a source for rebuilds. */
struct truth {
    const struct world *world;
    unsigned adder;
    uint64_t at;
    uint64_t keys[BATCH];
};

static bg_err truth_next(void *context, bg_bytes *keys, size_t room, size_t *n,
                         bg_errinfo *info)
{
    struct truth *truth = context;
    (void)info;
    for (*n = 0; *n < room && *n < BATCH;) {
        if (truth->at == atomic_load(&truth->world->adders[truth->adder].true_to)) {
            if (++truth->adder == ADDERS) {
                truth->adder--;
                break;
            }
            truth->at = 0;
            continue;
        }
        truth->keys[*n] = key_of(truth->adder, truth->at++);
        keys[*n] = (bg_bytes){ &truth->keys[*n], 8 };
        ++*n;
    }
    return BG_OK;
}

static bg_err truth_rewind(void *context, bg_errinfo *info)
{
    struct truth *truth = context;
    (void)info;
    truth->adder = 0;
    truth->at = 0;
    return BG_OK;
}

static bool give_up(void *context, const bg_rebuild_progress *progress)
{
    (void)progress;
    return --*(unsigned *)context > 0;
}

static bg_filter *some_filter(uint64_t random)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = random & 3 ? BG_KIND_BLOCKED : BG_KIND_CLASSIC;
    spec.items = ADDERS * KEYS_MOST;
    spec.rate = 0.01;
    spec.hash.seed = 1 + ((random & 12) == 12);
    return must_create(&spec);
}

/* Rebuilds the slot by pushing the store's keys; aborts after `left` batches. */
static bg_err push(struct world *world, const bg_rebuild_options *how, unsigned left)
{
    struct truth truth = { .world = world };
    bg_rebuild *rebuild = NULL;
    bg_bytes keys[BATCH];
    size_t n = 0;
    bg_err err = bg_slot_begin_rebuild(world->slot, how, &rebuild, NULL);
    if (err) {
        return err;
    }
    do {
        CHECK_OK(truth_next(&truth, keys, BATCH, &n, NULL));
        CHECK_OK(bg_rebuild_add_many(rebuild, bg_keys_bytes(keys, n), NULL));
    } while (n && --left);
    if (n) {
        bg_rebuild_abort(rebuild);
        return BG_ECANCELED;
    }
    return bg_rebuild_commit(rebuild, NULL, NULL);
}

static void rebuild(struct world *world, uint64_t random)
{
    struct truth truth = { .world = world };
    bg_source source = { truth_next, truth_rewind, &truth, 0 };
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    unsigned left = 1 + (unsigned)(random >> 8 & 15);
    bool is_static = (random >> 16 & 3) == 0;
    how.spec.items = random & 16 ? ADDERS * KEYS_MOST : 0;
    how.spec.rate = 0.01;
    how.spec.kind = is_static ? BG_KIND_FUSE : BG_KIND_BLOCKED;
    how.delta = is_static ? some_filter(random) : NULL;
    how.headroom = 3;
    /* A seed of 0 would select the current seed. */
    how.spec.hash.seed = 1 + ((random >> 40 & 7) == 0);
    if (random & 32) {
        how.progress = give_up;
        how.context = &left;
    }
    bg_err err = how.spec.items && random & 64
                     ? push(world, &how, random & 32 ? 100 * left : UINT_MAX)
                     : bg_slot_rebuild(world->slot, &source, &how, NULL, NULL);
    CHECK(err == BG_OK || err == BG_ECANCELED || err == BG_EBUSY);
}

/* Makes one change. A change that is not possible in the current state is refused and has no
 * effect. */
static void change(struct world *world, uint64_t random)
{
    bg_slot *slot = world->slot;
    bg_filter *filter = NULL;
    bg_err err = BG_OK;
    switch (random >> 48 & 7) {
    case 0:
    case 1:
        filter = some_filter(random);
        err = bg_slot_set_delta(slot, filter, NULL);
        filter = err == BG_OK ? NULL : filter;
        break;
    case 2:
    case 3:
        filter = some_filter(random);
        (void)!bg_slot_compact(slot, filter, NULL);
        filter = NULL; /* the slot owns the filter, even on failure */
        break;
    case 4: /* migrates and then reverts, because some keys are missing from the new filter */
        filter = some_filter(random);
        err = bg_slot_begin_migration(slot, filter, NULL);
        filter = err == BG_OK ? NULL : filter;
        if (err == BG_OK) {
            CHECK_OK(bg_slot_end_migration(slot, true, NULL));
        }
        break;
    default: rebuild(world, random); break;
    }
    bg_filter_free(filter);
}

/* Compacts a mergeable base and delta, which random changes might never produce. */
static void compact_for_sure(struct world *world)
{
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    how.spec.kind = BG_KIND_BLOCKED;
    how.spec.items = ADDERS * KEYS_MOST;
    how.spec.rate = 0.01;
    how.spec.hash.seed = 1;
    CHECK_OK(push(world, &how, UINT_MAX));
    CHECK_OK(bg_slot_set_delta(world->slot, some_filter(1), NULL));
    CHECK_OK(bg_slot_compact(world->slot, some_filter(1), NULL));
}

/* ---- The test -------------------------------------------------------------------------- */

static void start(struct worker *worker, struct world *world, unsigned number,
                  void *(*run)(void *))
{
    *worker =
        (struct worker){ .world = world, .number = number, .random = check_random() };
    CHECK(pthread_create(&worker->thread, NULL, run, worker) == 0);
}

TEST(slot__no_key_is_lost_by_any_change)
{
    static struct world world;
    struct worker workers[ADDERS + ASKERS];
    const unsigned changes = (CHECK_SANITIZED ? 60 : 200) * (unsigned)check_scale();
    bg_slot_info stats = { .struct_size = sizeof stats };
    CHECK_OK(bg_slot_create(some_filter(1), NULL, &world.slot, NULL));
    for (unsigned i = 0; i < ADDERS + ASKERS; i++) {
        start(&workers[i], &world, i, i < ADDERS ? add_keys : ask_keys);
    }
    for (unsigned i = 0; i < changes; i++) {
        const uint64_t before = atomic_load(&world.checks);
        if (i == changes / 2) {
            compact_for_sure(&world);
        } else {
            change(&world, check_random());
        }
        /* Wait until a reader has seen the change. */
        while (atomic_load(&world.checks) == before) {
            sched_yield();
        }
    }
    atomic_store(&world.over, true);
    for (unsigned i = 0; i < ADDERS + ASKERS; i++) {
        (void)pthread_join(workers[i].thread, NULL);
    }
    for (unsigned adder = 0; adder < ADDERS; adder++) {
        for (uint64_t i = 0; i < atomic_load(&world.adders[adder].added_to); i++) {
            CHECK(bg_slot_may_contain_u64(world.slot, key_of(adder, i)));
        }
    }
    CHECK_OK(bg_slot_get_info(world.slot, &stats));
    CHECK_EQ(atomic_load(&world.missed), 0);
    CHECK_EQ(stats.retired, 0);
    CHECK(stats.rebuilds > 0 && stats.compactions > 0);
    CHECK(atomic_load(&world.checks) > 0);
    printf(
        "  %llu lookups, %llu swaps, %llu rebuilds (%llu failed), %llu compactions\n",
        (unsigned long long)atomic_load(&world.checks), (unsigned long long)stats.swaps,
        (unsigned long long)stats.rebuilds, (unsigned long long)stats.rebuild_failures,
        (unsigned long long)stats.compactions);
    bg_slot_free(world.slot);
}

/* ---- Pins ------------------------------------------------------------------------------ */

static void *pin_and_unpin(void *argument)
{
    struct worker *me = argument;
    while (!atomic_load(&me->world->over)) {
        bg_pin pin;
        bg_slot_pin(me->world->slot, &pin);
        const bg_filter *filter = bg_pin_filter(&pin, 0, NULL);
        uint64_t any = check_random_next(&me->random);
        /* Key 1 is in all filters. */
        if (!bg_filter_may_contain_u64(filter, 1)) {
            atomic_fetch_add(&me->world->missed, 1);
        }
        if (any % 8 == 0) {
            sched_yield();
        }
        bg_slot_unpin(me->world->slot, &pin);
        atomic_fetch_add(&me->world->checks, 1);
    }
    return NULL;
}

/* A replaced filter stays valid exactly as long as it is pinned. */
TEST(slot__swaps_under_pins)
{
    static struct world world;
    struct worker workers[4];
    bg_slot_options options = BG_SLOT_OPTIONS_INIT;
    bg_slot_info stats = { .struct_size = sizeof stats };
    options.flags = BG_SLOT_SEALED;
    for (unsigned i = 0; i < 2000; i++) {
        bg_filter *filter = make_filter(BG_KIND_CLASSIC, 4096, 0);
        (void)added_u64(filter, 1);
        if (i == 0) {
            CHECK_OK(bg_slot_create(filter, &options, &world.slot, NULL));
            for (unsigned j = 0; j < 4; j++) {
                start(&workers[j], &world, j, pin_and_unpin);
            }
            while (atomic_load(&world.checks) < 100) {
                sched_yield();
            }
        } else {
            CHECK_OK(bg_slot_swap(world.slot, filter, 0, 0, NULL));
        }
    }
    atomic_store(&world.over, true);
    for (unsigned i = 0; i < 4; i++) {
        (void)pthread_join(workers[i].thread, NULL);
    }
    CHECK_OK(bg_slot_get_info(world.slot, &stats));
    CHECK_EQ(atomic_load(&world.missed), 0);
    CHECK_EQ(stats.retired, 0);
    CHECK_EQ(stats.swaps, 1999);
    bg_slot_free(world.slot);
}

/* ---- Saturation ------------------------------------------------------------------------ */

/* Integers below `in_truth` are in the store, and integers below `n` have also been added to the
 * slot. One thread advances both limits while another thread queries the slot. */
struct saturated {
    bg_slot *slot;
    _Atomic uint64_t in_truth, n;
    atomic_bool over;
    _Atomic uint64_t asked, missed;
};

struct saturated_source {
    const struct saturated *from;
    uint64_t at, keys[1024];
};

static bg_err saturated_next(void *context, bg_bytes *keys, size_t room, size_t *n,
                             bg_errinfo *info)
{
    struct saturated_source *s = context;
    (void)info;
    for (*n = 0; *n < room && *n < 1024 && s->at < atomic_load(&s->from->in_truth);
         ++*n) {
        s->keys[*n] = s->at++;
        keys[*n] = (bg_bytes){ &s->keys[*n], 8 };
    }
    return BG_OK;
}

static void *saturated_add(void *argument)
{
    struct saturated *all = argument;
    const uint64_t last = atomic_load(&all->n) + atomic_load(&all->n) / 2;
    while (!atomic_load(&all->over)) {
        uint64_t key = atomic_load(&all->n);
        if (key == last) { /* more keys would saturate the rebuilt filter as well */
            sched_yield();
            continue;
        }
        atomic_store(&all->in_truth, key + 1);
        CHECK_OK(bg_slot_add_u64(all->slot, key, NULL));
        atomic_store(&all->n, key + 1);
        if (key % 64 == 0) {
            sched_yield();
        }
    }
    return NULL;
}

static void *saturated_ask(void *argument)
{
    struct saturated *all = argument;
    uint64_t random = 1, asked = 0;
    while (!atomic_load(&all->over)) {
        uint64_t n = atomic_load(&all->n), key = check_random_next(&random) % n;
        key = asked % 2 ? n - 1 : key;
        if (!bg_slot_may_contain_u64(all->slot, key)) {
            atomic_fetch_add(&all->missed, 1);
        }
        asked++;
    }
    atomic_store(&all->asked, asked);
    return NULL;
}

static double rate_of(const bg_slot *slot)
{
    unsigned maybes = 0;
    for (uint64_t i = 0; i < 100000; i++) {
        maybes += bg_slot_may_contain_u64(slot, UINT64_MAX - i);
    }
    return maybes / 1e5;
}

/* Rebuilds a filter that contains 2.5 times as many keys as its capacity, while other threads add
 * and query keys. The new filter has capacity for twice the actual number of keys. At a scale of
 * 10, the old filter has a capacity of 10 million keys and contains 25 million. */
TEST(slot__a_saturated_filter_is_rebuilt_under_load)
{
    static struct saturated all;
    const uint64_t unit = CHECK_SANITIZED       ? 20000
                          : check_scale() >= 10 ? 10000000
                                                : 200000;
    bg_spec spec = BG_SPEC_INIT;
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    bg_rebuild_report report = { .struct_size = sizeof report };
    struct saturated_source from = { .from = &all };
    pthread_t adder, asker;
    spec.items = unit;
    spec.rate = 0.01;
    CHECK_OK(bg_slot_create(must_create(&spec), NULL, &all.slot, NULL));
    const uint64_t first = 5 * unit / 2;
    for (uint64_t key = 0; key < first; key++) {
        CHECK_OK(bg_slot_add_u64(all.slot, key, NULL));
    }
    atomic_store(&all.in_truth, first);
    atomic_store(&all.n, first);
    const double before = rate_of(all.slot);
    CHECK(pthread_create(&adder, NULL, saturated_add, &all) == 0);
    CHECK(pthread_create(&asker, NULL, saturated_ask, &all) == 0);
    bg_source source = { saturated_next, NULL, &from, first };
    CHECK_OK(bg_slot_rebuild(all.slot, &source, &how, &report, NULL));
    atomic_store(&all.over, true);
    (void)pthread_join(adder, NULL);
    (void)pthread_join(asker, NULL);
    for (uint64_t key = 0; key < atomic_load(&all.n); key++) {
        CHECK(bg_slot_may_contain_u64(all.slot, key));
    }
    const double after = rate_of(all.slot);
    printf(
        "= %llu keys in a filter for %llu, rebuilt for %llu in %.1f s during %llu adds "
        "and %llu lookups; rate %.4f before, %.4f after\n",
        (unsigned long long)first, (unsigned long long)unit,
        (unsigned long long)report.items, report.seconds,
        (unsigned long long)(atomic_load(&all.n) - first),
        (unsigned long long)atomic_load(&all.asked), before, after);
    CHECK_EQ(atomic_load(&all.missed), 0);
    CHECK(report.keys >= first);
    CHECK_EQ(report.items, 2 * first);
    CHECK(before > 0.1 && after < before / 4);
    bg_slot_free(all.slot);
}

/* ---- Reloads --------------------------------------------------------------------------- */

struct reloader {
    bg_slot *slot;
    const char *path;
    pthread_t thread;
};

static void *reload_often(void *argument)
{
    struct reloader *me = argument;
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    how.flags = BG_SLOT_ANY_GENERATION;
    for (unsigned i = 0; i < 50; i++) {
        CHECK_OK(bg_slot_reload(me->slot, me->path, &how, NULL));
        CHECK(bg_slot_may_contain_u64(me->slot, 1)); /* both files contain this key */
    }
    return NULL;
}

TEST(slot__drill_two_reloads_race)
{
    const char *paths[2] = { files_path("one"), files_path("two") };
    struct reloader reloaders[4];
    bg_slot_options options = BG_SLOT_OPTIONS_INIT;
    bg_slot_info stats = { .struct_size = sizeof stats };
    bg_slot *slot = NULL;
    options.flags = BG_SLOT_SEALED;
    CHECK_OK(bg_slot_create(NULL, &options, &slot, NULL));
    for (uint64_t i = 0; i < 2; i++) {
        bg_filter *filter = make_filter(BG_KIND_BLOCKED, 4096, 0);
        (void)added_u64(filter, 1);
        (void)added_u64(filter, 2 + i);
        CHECK_OK(bg_save(filter, paths[i], NULL, NULL));
        bg_filter_free(filter);
    }
    for (unsigned i = 0; i < 4; i++) {
        reloaders[i] = (struct reloader){ .slot = slot, .path = paths[i % 2] };
        CHECK(pthread_create(&reloaders[i].thread, NULL, reload_often, &reloaders[i])
              == 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        (void)pthread_join(reloaders[i].thread, NULL);
    }
    CHECK_OK(bg_slot_get_info(slot, &stats));
    CHECK_EQ(stats.reloads + stats.reload_unchanged, 200);
    CHECK_EQ(stats.reload_failures, 0);
    CHECK_EQ(stats.retired, 0);
    CHECK(bg_slot_may_contain_u64(slot, 2) != bg_slot_may_contain_u64(slot, 3));
    bg_slot_free(slot);
    files_clean();
}
