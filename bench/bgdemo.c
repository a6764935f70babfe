/*
 * bgdemo - compares the five Bloom kinds: false-positive rate, memory and speed.
 *
 * Creates two filters of every kind, adds the same keys to the first one by one and to the second
 * in batches, and then looks up the same number of keys that were never added. Prints the predicted
 * and the measured rate, nanoseconds per key, and megabytes. Also checks two guarantees: every
 * lookup of an added key is positive, and both ways of adding set exactly the same bits. Uses only
 * the public headers, so this program is also an example of the API.
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include "bench_adds.h"
#include "bloomgate/all.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK = 1 << 14 };

/* Times in seconds, summed over blocks of keys. */
struct bgdemo_times {
    double add_single, add_batch, look_single, look_batch;
};

static double bgdemo_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the i-th added key (set 0) or the i-th key that is never added (set 1). The mapping
 * is one-to-one, so no key occurs twice. */
static uint64_t bgdemo_key(uint64_t set, uint64_t i)
{
    uint64_t x = (i << 1 | set) + UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Writes the block of keys that starts at index `at`, and returns its number of keys. */
static size_t bgdemo_block(uint64_t set, uint64_t at, uint64_t items, uint64_t *block)
{
    size_t count = items - at < BLOCK ? (size_t)(items - at) : BLOCK;
    for (size_t i = 0; i < count; i++) {
        block[i] = bgdemo_key(set, at + i);
    }
    return count;
}

/* Adds all keys to both filters: to `single` one by one, to `batch` in batches. */
static void bgdemo_add(bg_filter *single, bg_filter *batch, uint64_t items,
                       struct bgdemo_times *times)
{
    uint64_t block[BLOCK];
    for (uint64_t at = 0; at < items; at += BLOCK) {
        size_t count = bgdemo_block(0, at, items, block);
        double begin = bgdemo_now();
        for (size_t i = 0; i < count; i++) {
            (void)added_u64(single, block[i]);
        }
        double middle = bgdemo_now();
        (void)added_many(batch, bg_keys_u64(block, count), NULL);
        times->add_batch += bgdemo_now() - middle;
        times->add_single += middle - begin;
    }
}

/* Looks up `items` keys that were never added, and returns the number of false
 * positives. */
static uint64_t bgdemo_look(const bg_filter *filter, uint64_t items,
                            struct bgdemo_times *times)
{
    uint64_t block[BLOCK], hits = 0, again = 0;
    for (uint64_t at = 0; at < items; at += BLOCK) {
        size_t count = bgdemo_block(1, at, items, block);
        double begin = bgdemo_now();
        for (size_t i = 0; i < count; i++) {
            hits += bg_filter_may_contain_u64(filter, block[i]);
        }
        double middle = bgdemo_now();
        again += bg_filter_may_contain_many(filter, bg_keys_u64(block, count), NULL);
        times->look_batch += bgdemo_now() - middle;
        times->look_single += middle - begin;
    }
    return hits == again ? hits : UINT64_MAX;
}

static bool bgdemo_has_all(const bg_filter *filter, uint64_t items)
{
    uint64_t block[BLOCK];
    for (uint64_t at = 0; at < items; at += BLOCK) {
        size_t count = bgdemo_block(0, at, items, block);
        if (bg_filter_may_contain_many(filter, bg_keys_u64(block, count), NULL)
            != count) {
            return false;
        }
    }
    return true;
}

static void bgdemo_print(bg_kind kind, const bg_filter_info *info, bg_estimate seen,
                         uint64_t items, const struct bgdemo_times *times)
{
    double per_key = 1e9 / (double)items;
    printf("%-12s %8.1f %6.2f   %7.4f  %7.4f   %7.1f %7.1f   %7.1f %7.1f\n",
           bg_kind_name(kind), (double)info->bytes / 1e6,
           (double)info->bits / (double)items, 100 * info->rate, 100 * seen.value,
           per_key * times->add_single, per_key * times->add_batch,
           per_key * times->look_single, per_key * times->look_batch);
    (void)fflush(stdout);
}

/* Prints one row. Returns false if the filter cannot be created or breaks a
 * guarantee. */
static bool bgdemo_kind(bg_kind kind, uint64_t items, double rate)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = (uint32_t)kind;
    spec.items = items;
    spec.rate = rate;
    bg_errinfo why;
    bg_filter *single = NULL, *batch = NULL;
    bool kept = false;
    if (bg_filter_create(&spec, &single, &why) != BG_OK
        || bg_filter_create(&spec, &batch, &why) != BG_OK) {
        (void)fprintf(stderr, "bgdemo: %s\n", why.message);
        goto out;
    }
    struct bgdemo_times times = { 0 };
    bgdemo_add(single, batch, items, &times);
    uint64_t hits = bgdemo_look(batch, items, &times);
    bg_filter_info info = { .struct_size = sizeof info };
    kept = bg_filter_equal(single, batch) && hits != UINT64_MAX
           && bgdemo_has_all(batch, items) && bg_filter_get_info(batch, &info) == BG_OK;
    if (!kept) {
        (void)fprintf(stderr, "bgdemo: %s: BROKEN\n", bg_kind_name(kind));
        goto out;
    }
    bgdemo_print(kind, &info, bg_observed_rate(hits, items), items, &times);
out:
    bg_filter_free(single);
    bg_filter_free(batch);
    return kept;
}

static uint64_t bgdemo_items(int argc, char **argv)
{
    if (argc == 1) {
        return 10000000;
    }
    char *end = NULL;
    double items =
        argc == 3 && strcmp(argv[1], "--items") == 0 ? strtod(argv[2], &end) : 0;
    if (end && *end == '\0' && items >= 1000 && items <= 1e10) {
        return (uint64_t)items;
    }
    bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
    (void)fprintf(
        help ? stdout : stderr,
        "usage: bgdemo [--items N]\n"
        "Fills a filter of every Bloom kind with N keys, 1000 to 1e10 (default: 1e7),\n"
        "at a rate of 1%%, and prints its memory, speed and measured rate.\n");
    exit(help ? 0 : 2); /* NOLINT(concurrency-mt-unsafe): only one thread is running */
}

int main(int argc, char **argv)
{
    static const bg_kind kinds[] = {
#define BGDEMO_KIND(NAME, number, name) BG_KIND_##NAME,
        BG_BLOOM_KINDS(BGDEMO_KIND)
#undef BGDEMO_KIND
    };
    uint64_t items = bgdemo_items(argc, argv);
    printf("Bloomgate %s, instruction set %s: %" PRIu64 " keys, planned for 1%%\n\n",
           bg_version(), bg_cpu_name(bg_cpu_current()), items);
    printf("%-12s %8s %6s   %7s  %7s   %7s %7s   %7s %7s\n", "", "memory", "bits",
           "rate %", "rate %", "add ns", "add ns", "look ns", "look ns");
    printf("%-12s %8s %6s   %7s  %7s   %7s %7s   %7s %7s\n", "kind", "MB", "/key",
           "planned", "actual", "single", "batch", "single", "batch");
    bool kept = true;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        kept = bgdemo_kind(kinds[i], items, 0.01) && kept;
    }
    if (!kept) {
        return 1;
    }
    printf(
        "\nEvery added key was found, and adding one by one or in batches set the same\n"
        "bits. Next, try bgdemo --items 1e8, where memory limits the speed, and\n"
        "bgbench limit, which measures the memory limit of this machine.\n");
    return 0;
}
