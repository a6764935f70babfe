/*
 * Tests objects used by many threads. While some threads merge, fold, rebuild, dump and resize
 * objects, others add and query items. An item whose add has returned is never reported as absent,
 * and no thread waits forever.
 */
#define _GNU_SOURCE

#include "dump.h"
#include "object.h"
#include "support/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ADDERS = 3, KEYS = 2000, OBJECTS = 2, OTHERS = 4 };

static bg_err quiet_record(struct host *host, struct object *object,
                           const struct change *change, bg_errinfo *info)
{
    static _Atomic unsigned records;
    (void)host;
    (void)object;
    (void)change;
    (void)info;
    if (atomic_fetch_add(&records, 1) % 64 == 0) {
        (void)sched_yield();
    }
    return BG_OK;
}

/* Reads the whole object, as a real checkpoint does. */
static bg_err quiet_checkpoint(struct host *host, struct object *object,
                               bg_errinfo *info)
{
    void *bytes = NULL;
    size_t n = 0;
    (void)host;
    const bg_err err = dump_encode(object, false, &bytes, &n, info);
    free(bytes);
    return err;
}

static uint64_t quiet_now(struct host *host)
{
    (void)host;
    return 1;
}

static const struct host_ops quiet_ops = { .record = quiet_record,
                                           .checkpoint = quiet_checkpoint,
                                           .now = quiet_now };
static const struct command_settings quiet_settings = { .bf_error_rate = 0.01 };

struct crowd {
    struct host host;
    struct object *objects[OBJECTS];
    _Atomic int adding; /* number of threads that are still adding */
    _Atomic int next;   /* index of the next adder */
    bool deletes;       /* whether half of the items are deleted after being added */
};

static size_t crowd_key(char text[32], size_t adder, size_t i)
{
    return (size_t)snprintf(text, 32, "%zu-%zu", adder, i);
}

static bool crowd_has(const struct object *object, bg_bytes key)
{
    uint64_t maybe = 0;
    return object_may_contain_many(object, &key, 1, &maybe) == 1;
}

static void crowd_add_one(struct crowd *crowd, size_t adder, size_t i)
{
    struct object *object = crowd->objects[i % OBJECTS];
    char text[32];
    const bg_bytes key = { text, crowd_key(text, adder, i) };
    bg_errinfo info = { 0 };
    uint64_t is_new = 0;
    size_t done = 0;
    bg_err err;
    do { /* retries, because a CF filter cannot grow during a rebuild */
        err = object_add_many(object, &crowd->host, &key, 1, &is_new, &done, &info);
    } while (err == BG_EBUSY);
    CHECK_OK(err);
    CHECK(crowd_has(object, key));
    if (crowd->deletes && i % 4 < 2) {
        do {
            err = object_remove(object, &crowd->host, key, 0, &info);
        } while (err == BG_EBUSY);
        CHECK_OK(err);
    }
}

static void *crowd_add(void *context)
{
    struct crowd *crowd = context;
    const size_t adder = (size_t)atomic_fetch_add(&crowd->next, 1);
    for (size_t i = 0; i < KEYS; i++) {
        crowd_add_one(crowd, adder, i);
    }
    atomic_fetch_sub(&crowd->adding, 1);
    return NULL;
}

/* Runs adders and other threads at the same time, and then checks that all items except the deleted
 * ones are present. */
static void crowd_run(struct crowd *crowd, void *(*const *others)(void *), size_t n)
{
    pthread_t threads[ADDERS + OTHERS];
    crowd->host = (struct host){ .ops = &quiet_ops, .settings = &quiet_settings };
    atomic_store(&crowd->adding, ADDERS);
    for (size_t i = 0; i < ADDERS + n; i++) {
        CHECK(!pthread_create(&threads[i], NULL,
                              i < ADDERS ? crowd_add : others[i - ADDERS], crowd));
    }
    for (size_t i = 0; i < ADDERS + n; i++) {
        CHECK(!pthread_join(threads[i], NULL));
    }
    for (size_t adder = 0; adder < ADDERS; adder++) {
        for (size_t i = 0; i < KEYS; i++) {
            char text[32];
            const bg_bytes key = { text, crowd_key(text, adder, i) };
            const bool gone = crowd->deletes && i % 4 < 2;
            CHECK(gone || crowd_has(crowd->objects[i % OBJECTS], key));
        }
    }
    for (size_t i = 0; i < OBJECTS; i++) {
        object_free(crowd->objects[i]);
    }
}

static void crowd_make(struct crowd *crowd, const struct object_shape *shape)
{
    *crowd = (struct crowd){ .deletes = false };
    for (size_t i = 0; i < OBJECTS; i++) {
        CHECK_OK(object_create(shape, &quiet_settings, &crowd->objects[i], NULL));
    }
}

/* ---- The other threads ------------------------------------------------------------------------ */

static void *crowd_dump(void *context)
{
    struct crowd *crowd = context;
    while (atomic_load(&crowd->adding)) {
        for (size_t i = 0; i < OBJECTS; i++) {
            CHECK_OK(quiet_checkpoint(&crowd->host, crowd->objects[i], NULL));
        }
    }
    return NULL;
}

static void *crowd_fold(void *context)
{
    struct crowd *crowd = context;
    for (int times = 0; times < 4; times++) {
        for (size_t i = 0; i < OBJECTS; i++) {
            object_changing(crowd->objects[i]);
            CHECK_OK(object_fold(crowd->objects[i], 1, NULL));
            CHECK_OK(object_keep(crowd->objects[i], &crowd->host, NULL));
        }
    }
    return NULL;
}

static void *crowd_copy(void *context)
{
    struct crowd *crowd = context;
    while (atomic_load(&crowd->adding)) {
        struct object *copy = NULL;
        CHECK_OK(object_copy(crowd->objects[0], &copy, NULL));
        object_recount(copy);
        object_free(copy);
    }
    return NULL;
}

static void crowd_merge(struct crowd *crowd, size_t to)
{
    while (atomic_load(&crowd->adding)) {
        struct object *object = crowd->objects[to];
        object_changing(object);
        CHECK_OK(object_merge(object, &crowd->host, crowd->objects[1 - to], NULL));
        CHECK_OK(object_keep(object, &crowd->host, NULL));
    }
}

static void *crowd_merge_there(void *context)
{
    crowd_merge(context, 0);
    return NULL;
}

static void *crowd_merge_back(void *context)
{
    crowd_merge(context, 1);
    return NULL;
}

static void *crowd_compact(void *context)
{
    struct crowd *crowd = context;
    for (int rounds = 0; rounds < 50 && atomic_load(&crowd->adding); rounds++) {
        uint32_t steps = 0;
        const bg_err err = object_compact(crowd->objects[0], &steps, NULL);
        CHECK(err == BG_OK || err == BG_EBUSY);
    }
    return NULL;
}

/* ---- Concurrency -------------------------------------------------------------------------------- */

TEST(threads__fold_dump_copy)
{
    static void *(*const others[])(void *) = { crowd_fold, crowd_dump, crowd_copy };
    struct crowd crowd;
    crowd_make(&crowd, &(struct object_shape){ .family = OBJECT_BG,
                                               .kind = BG_KIND_BLOCKED,
                                               .items = 50000,
                                               .rate = 0.01,
                                               .folds = 4 });
    crowd_run(&crowd, others, 3);
}

TEST(threads__merge_both_ways)
{
    static void *(*const others[])(void *) = { crowd_merge_there, crowd_merge_back,
                                               crowd_dump };
    const bg_kind kinds[] = { BG_KIND_BLOCKED, BG_KIND_SCALABLE, BG_KIND_REGISTER };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct crowd crowd;
        crowd_make(&crowd, &(struct object_shape){ .family = OBJECT_BG,
                                                   .kind = kinds[k],
                                                   .items = 20000,
                                                   .rate = 0.01 });
        crowd_run(&crowd, others, 3);
    }
}

TEST(threads__grow_delete_compact)
{
    static void *(*const others[])(void *) = { crowd_compact, crowd_dump, crowd_copy };
    struct crowd crowd;
    struct object_shape shape = {
        .family = OBJECT_CF, .items = 16, .expansion = 1, .max_expansions = 32
    };
    object_shape_quotient(&shape);
    crowd_make(&crowd, &shape);
    crowd.deletes = true;
    crowd_run(&crowd, others, 3);
}
