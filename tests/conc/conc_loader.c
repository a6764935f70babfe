/*
 * conc_loader.c - tests loading one filter from many threads. The result must be bit-for-bit
 * identical to the filter that one thread builds from the same keys.
 */
#include "base/bits.h"
#include "bloomgate/all.h"
#include "support/adds.h"
#include "support/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum {
    THREADS = 6,
    KEYS = CHECK_SANITIZED || CHECK_EMULATED ? 60000 : 600000,
    MOST = 9000
};

struct crew {
    bg_loader *loader;
    const bg_filter *filter;
    atomic_uint_fast64_t next; /* key */
    atomic_uint_fast64_t news;
    atomic_uint number;
};

static void *load_keys(void *arg)
{
    struct crew *crew = arg;
    static _Thread_local uint64_t numbers[MOST], hashes[MOST];
    static _Thread_local bg_bytes keys[MOST];
    const unsigned number = atomic_fetch_add(&crew->number, 1);
    for (uint64_t round = number;; round++) {
        /* Add one key, a few keys, or more than a block of keys at a time. */
        const uint64_t wanted = round % 3 == 0 ? 1 : round % 3 == 1 ? 100 : MOST;
        const uint64_t first = atomic_fetch_add(&crew->next, wanted);
        if (first >= KEYS) {
            return NULL;
        }
        const size_t n = (size_t)(wanted < KEYS - first ? wanted : KEYS - first);
        for (size_t i = 0; i < n; i++) {
            numbers[i] = bgi_le64(first + i);
            keys[i] = (bg_bytes){ &numbers[i], sizeof numbers[i] };
        }
        bg_keys all = bg_keys_bytes(keys, n);
        size_t added = 0;
        if (round % 2 == 0) {
            bg_hash_many(bg_filter_hasher(crew->filter), all, hashes);
            all = bg_keys_hashes(hashes, n);
        }
        CHECK_OK(bg_loader_add_many(crew->loader, all, &added));
        atomic_fetch_add(&crew->news, added);
    }
}

static bg_filter *make_filter(bg_kind kind, uint64_t items, uint32_t flags)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL;
    spec.kind = (uint32_t)kind;
    spec.items = items;
    spec.rate = 0.01;
    spec.flags = flags;
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    return filter;
}

static void load_once(bg_kind kind, uint64_t items, uint32_t flags)
{
    pthread_t threads[THREADS];
    bg_filter *filter = make_filter(kind, items, flags);
    bg_filter *alone = make_filter(kind, items, BG_SPEC_EXCLUSIVE);
    struct crew crew = { .filter = filter };
    CHECK_OK(bg_loader_create(filter, &crew.loader, NULL));
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, load_keys, &crew), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    bg_loader_free(crew.loader);
    for (uint64_t key = 0; key < KEYS; key++) {
        (void)added_u64(alone, key);
    }
    CHECK(bg_filter_equal(filter, alone));
    const uint64_t news = atomic_load(&crew.news);
    CHECK(news > 0 && news <= KEYS);
    if (items >= KEYS) {
        CHECK(news > KEYS - KEYS / 50); /* fewer than 2% were false positives */
    }
    bg_filter_free(filter);
    bg_filter_free(alone);
}

/* Tests filters of many sizes, from a single cache line upward, including filters with many times
 * more keys than their capacity. */
TEST(loader__makes_what_one_thread_makes)
{
    static const bg_kind kinds[] = { BG_KIND_BLOCKED, BG_KIND_SPLIT };
    static const uint64_t items[] = { 1, 60, 500, 1111, 70000, KEYS };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
            load_once(kinds[k], items[i], BG_SPEC_EXCLUSIVE);
        }
    }
}

TEST(loader__of_other_kinds_and_shared_filters)
{
    load_once(BG_KIND_REGISTER, KEYS, BG_SPEC_EXCLUSIVE);
    load_once(BG_KIND_CLASSIC, KEYS, BG_SPEC_EXCLUSIVE);
    load_once(BG_KIND_PARTITIONED, KEYS, BG_SPEC_EXCLUSIVE);
    load_once(BG_KIND_BLOCKED, KEYS, 0);
    load_once(BG_KIND_CLASSIC, KEYS, 0);
}

TEST(loader__refuses)
{
    bg_filter *filter = make_filter(BG_KIND_BLOCKED, 100, BG_SPEC_EXCLUSIVE),
              *fixed = NULL;
    bg_loader *loader = NULL;
    bg_builder *builder = NULL;
    bg_errinfo why;
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_FUSE;
    spec.rate = 0.01;
    CHECK_OK(bg_builder_create(&spec, &builder, NULL));
    CHECK_OK(bg_builder_finish(builder, &fixed, NULL));
    CHECK_EQ(bg_loader_create(fixed, &loader, &why), BG_ENOTSUP);
    CHECK(strstr(why.message, "fuse") != NULL);
    CHECK_EQ(bg_loader_create(NULL, &loader, &why), BG_EINVAL);
    CHECK_EQ(bg_loader_create(filter, NULL, &why), BG_EINVAL);
    CHECK_EQ(bg_loader_add_many(NULL, bg_keys_bytes(NULL, 0), NULL), BG_EINVAL);
    bg_loader_free(NULL);
    CHECK_OK(bg_loader_create(filter, &loader, &why));
    size_t added = 1;
    CHECK_OK(bg_loader_add_many(loader, bg_keys_bytes(NULL, 0), &added));
    CHECK_EQ(added, 0);
    CHECK_OK(bg_loader_add_many(loader, bg_keys_hashes(NULL, 0), NULL));
    CHECK_EQ(bg_loader_add_many(loader, bg_keys_u64(NULL, 1), NULL), BG_EINVAL);
    bg_loader_free(loader);
    bg_builder_free(builder);
    bg_filter_free(fixed);
    bg_filter_free(filter);
}
