/*
 * Tests quotient filters: comparison with an exact multiset for every width, mode and instruction
 * set, with uniform and clustered hashes; full filters, and many adds of the same key; rates, sizes
 * and estimates; listing, merging and resizing; and threads.
 */
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include "filter/handle.h"

#include <math.h>
#include <pthread.h>

enum { POOL = 700, SMALLEST = 256 /* quotients */ };

/* Returns the number of slots in a block for remainders of k bits. A block has 512 bits, of which 8
 * hold the offset. Each slot needs two bits in addition to the remainder. */
static uint64_t slots_of_a_block(uint32_t k)
{
    return k < 6 ? 63 : 504 / (k + 2);
}

static uint64_t units_for(unsigned bits, uint32_t k)
{
    uint64_t quotients = (uint64_t)1 << bits, spare = quotients < 512 ? quotients : 512;
    return (quotients + spare + slots_of_a_block(k) - 1) / slots_of_a_block(k);
}

/* Returns a spec with 2^bits quotients. */
static bg_spec quotient_spec(unsigned bits, uint32_t k, uint32_t flags)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_QUOTIENT;
    spec.k = k;
    spec.bytes = 64 * units_for(bits, k);
    spec.flags = flags;
    return spec;
}

static bg_filter *quotient_filter(unsigned bits, uint32_t k, uint32_t flags)
{
    bg_spec spec = quotient_spec(bits, k, flags);
    bg_filter *filter = must_create(&spec);
    CHECK_EQ(info_of(filter).units, units_for(bits, k));
    return filter;
}

static unsigned quotient_bits_of(const bg_filter *filter)
{
    bg_filter_info info = info_of(filter);
    unsigned bits = 8;
    while (units_for(bits, info.k) < info.units) {
        bits++;
    }
    return bits;
}

/* ---- An exact multiset ----------------------------------------------------------- */

/* `pool` contains hashes in ascending order. No two of them have the same bits in the part that the
 * filter stores. `counts` contains the number of times that each hash is in the filter. */
static uint64_t pool[POOL], counts[POOL];
static size_t pool_size;

static int compare_hashes(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

enum spread { EVENLY, CROWDED, AT_THE_END };

/* With CROWDED, half of the hashes share a few quotients; with AT_THE_END, they share the last
 * quotients. */
static void make_pool(unsigned kept, enum spread spread)
{
    uint64_t mask = UINT64_MAX << (64 - kept), all[POOL];
    for (size_t i = 0; i < POOL; i++) {
        all[i] = check_random() & mask;
        if (spread == CROWDED && i % 2) {
            all[i] = all[i] >> 7 | (uint64_t)0x52 << 56;
        } else if (spread == AT_THE_END && i % 2) {
            all[i] |= (uint64_t)0x3f << 58;
        }
        all[i] &= mask;
    }
    qsort(all, POOL, sizeof *all, compare_hashes);
    pool_size = 0;
    for (size_t i = 0; i < POOL; i++) {
        if (pool_size == 0 || pool[pool_size - 1] != all[i]) {
            pool[pool_size++] = all[i];
        }
    }
    memset(counts, 0, sizeof counts);
}

/* Returns a hash whose first `kept` bits are the same as those of hash i in the pool. */
static uint64_t some_hash(size_t i, unsigned kept)
{
    return pool[i] | (kept < 64 ? check_random() >> kept : 0);
}

struct listing {
    size_t at;
    uint64_t told;
};

static bool check_next(void *context, uint64_t prefix, uint64_t count)
{
    struct listing *listing = context;
    while (listing->at < pool_size && counts[listing->at] == 0) {
        listing->at++;
    }
    CHECK(listing->at < pool_size);
    CHECK_EQ(prefix, pool[listing->at]);
    CHECK_EQ(count, counts[listing->at]);
    listing->at++;
    listing->told++;
    return true;
}

/* Checks the answers, the counts and the listing of a filter. Also checks that its words equal
 * those of a filter to which the same keys were added in a different order. */
static void check_content(const bg_filter *filter, unsigned kept)
{
    struct listing listing = { 0, 0 };
    bg_filter_info info = info_of(filter);
    bg_filter *other =
        quotient_filter(quotient_bits_of(filter), info.k, BG_SPEC_EXCLUSIVE);
    uint64_t there = 0;
    for (size_t i = 0; i < pool_size; i++) {
        uint64_t hash = some_hash(i, kept);
        CHECK_EQ(bg_filter_may_contain_hash(filter, hash), counts[i] > 0);
        CHECK_EQ(bg_filter_count_hash(filter, hash), counts[i]);
        there += counts[i] > 0;
    }
    for (size_t i = pool_size; i-- > 0;) {
        for (uint64_t n = 0; n < counts[i]; n++) {
            CHECK_OK(bg_filter_add_hash(other, pool[i], NULL));
        }
    }
    CHECK(bg_filter_equal(filter, other));
    CHECK_EQ(info_of(other).ones, info.ones);
    CHECK_OK(bg_filter_for_each(filter, check_next, &listing));
    CHECK_EQ(listing.told, there);
    CHECK_NEAR(info.rate, ldexp((double)there, -(int)kept), 1e-9);
    bg_filter_free(other);
}

static void random_change(bg_filter *filter, unsigned kept, unsigned adds_of_8)
{
    size_t i = (size_t)check_random_below(pool_size);
    uint64_t hash = some_hash(i, kept);
    bool is_new = false, adds = check_random_below(8) < adds_of_8;
    uint64_t times = check_random_below(64) ? 1 : 1 + check_random_below(200);
    for (; adds && times > 0; times--) {
        bg_err err = bg_filter_add_hash(filter, hash, &is_new);
        CHECK(err == BG_OK || err == BG_EFULL);
        if (err == BG_OK) {
            CHECK_EQ(is_new, counts[i] == 0);
            counts[i]++;
        }
    }
    for (; !adds && times > 0; times--) {
        bg_err err = bg_filter_remove_hash(filter, hash);
        CHECK_EQ(err, counts[i] ? BG_OK : BG_ENOTFOUND);
        counts[i] -= counts[i] > 0;
    }
}

static void model_run(uint32_t k, unsigned bits, enum spread spread, uint32_t flags)
{
    bg_filter *filter = quotient_filter(bits, k, flags);
    unsigned kept = bits + k;
    make_pool(kept, spread);
    for (unsigned phase = 0; phase < 6; phase++) {
        for (unsigned step = 0; step < 500 * check_scale(); step++) {
            random_change(filter, kept, phase % 2 ? 2 : 6);
        }
        check_content(filter, kept);
    }
    for (size_t i = 0; i < pool_size; i++) {
        for (; counts[i] > 0; counts[i]--) {
            CHECK_OK(bg_filter_remove_hash(filter, pool[i]));
        }
    }
    bg_filter *empty = quotient_filter(bits, k, flags);
    CHECK(bg_filter_equal(filter, empty));
    CHECK_EQ(info_of(filter).ones, 0);
    bg_filter_free(empty);
    bg_filter_free(filter);
}

TEST(quotient__agrees_with_a_multiset)
{
    static const uint32_t widths[] = { 2, 3, 5, 8, 11, 16, 21, 31, 32 };
    for (bg_cpu cpu = BG_CPU_SCALAR; cpu <= BG_CPU_NEON; cpu++) {
        if (bg_cpu_select(cpu) != BG_OK) {
            continue;
        }
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            model_run(widths[w], 8, EVENLY, 0);
            model_run(widths[w], 8, CROWDED, BG_SPEC_EXCLUSIVE);
            model_run(widths[w], 8, AT_THE_END, 0);
            model_run(widths[w], 10, CROWDED, 0);
        }
    }
}

/* ---- Known words ------------------------------------------------------------------ */

/* Checks the words of the first two blocks. Each block has 50 slots of 8 bits: the offset is in
 * bits 0 .. 7, the occupied bits start at bit 8, the run-end bits at bit 58 and the slots at bit
 * 108. */
TEST(quotient__known_words)
{
    bg_filter *filter = quotient_filter(8, 8, 0);
    const uint64_t *first = bgi_filter_words(filter), *second = first + 8;
    const uint64_t one = 1;
    /* Three adds with quotient 48 and two with quotient 49 use slots 48 .. 52. */
    CHECK(added_hash(filter, 0x3033ull << 48));
    CHECK(added_hash(filter, 0x3011ull << 48));
    CHECK(added_hash(filter, 0x3155ull << 48));
    CHECK(!added_hash(filter, 0x3155ull << 48));
    CHECK(added_hash(filter, 0x3022ull << 48));
    CHECK_EQ(first[0], 3ull << (8 + 48));
    CHECK_EQ(first[1], 0);
    CHECK_EQ(first[7], 0x2211ull << 44);
    CHECK_EQ(second[0], 3 | one << 58 | one << 60); /* runs end in slots 50 and 52 */
    /* Slots 50 .. 52 start in this word and end in the next one. */
    CHECK_EQ(second[1], 0x55533ull << 44);
    CHECK_EQ(second[2], 0x5);
    /* The third add of the same hash uses a third slot; the fourth adds a counter digit. */
    CHECK(!added_hash(filter, 0x3155ull << 48));
    CHECK_EQ(second[2], 0x00555);
    CHECK_EQ(second[0], 5 | one << 58 | one << 62);
    CHECK(!added_hash(filter, 0x3155ull << 48));
    CHECK_EQ(second[2], 0x01555);
    CHECK_EQ(second[0], 5 | one << 58 | one << 62);
    bg_filter_free(filter);
}

/* ---- Full filters ----------------------------------------------------------------- */

TEST(quotient__takes_95_percent)
{
    static const uint32_t widths[] = { 2, 8, 13 };
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        for (unsigned bits = 12; bits <= 16; bits++) {
            bg_filter *filter = quotient_filter(bits, widths[w], BG_SPEC_EXCLUSIVE);
            size_t n = (size_t)1 << bits, fit = n * 95 / 100, in = 0;
            uint64_t *hashes = malloc(n * sizeof *hashes);
            random_hashes(hashes, n);
            while (in < n && bg_filter_add_hash(filter, hashes[in], NULL) == BG_OK) {
                in++;
            }
            CHECK(in >= fit && in < n);
            bg_filter *copy = NULL;
            CHECK_OK(bg_filter_copy(filter, &copy, NULL));
            for (size_t i = 0; i < 100; i++) {
                uint64_t more = check_random();
                if (!bg_filter_may_contain_hash(filter, more)) {
                    CHECK_EQ(bg_filter_add_hash(filter, more, NULL), BG_EFULL);
                }
            }
            CHECK(bg_filter_equal(filter, copy));
            CHECK_EQ(
                bg_filter_may_contain_many(filter, bg_keys_hashes(hashes, in), NULL),
                in);
            CHECK(!info_of(filter).overflowed);
            CHECK_EQ(bg_filter_remove_many(filter, bg_keys_hashes(hashes, in), NULL),
                     in);
            CHECK_EQ(info_of(filter).ones, 0);
            free(hashes);
            bg_filter_free(copy);
            bg_filter_free(filter);
        }
    }
}

TEST(quotient__does_not_wrap)
{
    bg_filter *filter = quotient_filter(8, 16, 0);
    uint64_t n = 0, last = UINT64_MAX << 56;
    while (bg_filter_add_hash(filter, last | n << 40, NULL) == BG_OK) {
        n++;
    }
    /* Adds succeed up to the load limit of the whole filter. */
    CHECK_EQ(n, 1 + SMALLEST - SMALLEST / 32 - 1);
    CHECK_EQ(bg_filter_may_contain_hash(filter, 0), false);
    for (uint64_t i = 0; i < n; i++) {
        CHECK(bg_filter_may_contain_hash(filter, last | i << 40));
    }
    bg_filter_free(filter);
    /* With 1024 quotients, the end of the table is reached before the load limit. */
    filter = quotient_filter(10, 16, 0);
    for (n = 0; bg_filter_add_hash(filter, last | n << 40, NULL) == BG_OK;) {
        n++;
    }
    /* Adds succeed until all slots from quotient 1020 to the end of the last block are in use. */
    CHECK_EQ(n, 55 * 28 - 1020);
    CHECK_EQ(bg_filter_add_hash(filter, last, NULL),
             BG_EFULL); /* no slot is left for this hash */
    CHECK_OK(bg_filter_add_hash(filter, 0, NULL));
    bg_filter_free(filter);
}

TEST(quotient__add_without_room_gives_up)
{
    bg_filter *filter = quotient_filter(8, 8, 0), *copy = NULL;
    for (int i = 0; i < 1000; i++) {
        (void)added_hash(filter, check_random());
    }
    CHECK(info_of(filter).overflowed);
    CHECK_NEAR(info_of(filter).rate, 1, 1e-9);
    CHECK_OK(bg_filter_copy(filter, &copy, NULL));
    for (int i = 0; i < 1000; i++) {
        uint64_t hash = check_random();
        CHECK(bg_filter_may_contain_hash(filter, hash));
        CHECK(bg_filter_may_contain_hash(copy, hash));
        CHECK(bg_filter_count_hash(filter, hash) >= 1);
        CHECK(!added_hash(filter, hash));
    }
    bg_filter *empty = quotient_filter(8, 8, 0);
    CHECK_EQ(bg_filter_merge(empty, filter, NULL), BG_OK);
    CHECK(info_of(empty).overflowed);
    bg_filter_clear(filter);
    CHECK(!bg_filter_may_contain_hash(filter, 1));
    CHECK(!info_of(filter).overflowed);
    bg_filter_free(empty);
    bg_filter_free(copy);
    bg_filter_free(filter);
}

TEST(quotient__flood_of_one_key)
{
    const uint64_t times = CHECK_SANITIZED ? 70000 : 300000; /* over 16 bits */
    for (uint32_t k = 2; k <= 32; k += 5) {
        bg_filter *filter = quotient_filter(8, k, BG_SPEC_EXCLUSIVE);
        for (uint64_t i = 1; i <= times; i++) {
            CHECK_OK(bg_filter_add_hash(filter, 5, NULL));
        }
        CHECK_EQ(bg_filter_count_hash(filter, 5), times);
        CHECK(info_of(filter).ones <= 3 + 19 / (k - 1) + 1);
        for (uint64_t i = 1; i <= times; i++) {
            CHECK_OK(bg_filter_remove_hash(filter, 5));
        }
        CHECK_EQ(bg_filter_remove_hash(filter, 5), BG_ENOTFOUND);
        CHECK_EQ(info_of(filter).ones, 0);
        bg_filter_free(filter);
    }
}

TEST(quotient__counts_saturate)
{
    bg_filter *a = quotient_filter(8, 2, 0), *b = quotient_filter(8, 2, 0);
    CHECK_OK(bg_filter_add_hash(a, 5, NULL));
    for (int i = 0; i < 50; i++) {
        CHECK_OK(bg_filter_merge(b, a, NULL));
        CHECK_OK(bg_filter_merge(a, b, NULL));
    }
    CHECK_EQ(bg_filter_count_hash(a, 5), UINT64_MAX);
    CHECK_EQ(info_of(a).saturated, 1);
    CHECK_EQ(info_of(a).ones, 3 + 64);
    CHECK_OK(bg_filter_add_hash(a, 5, NULL));
    CHECK_OK(bg_filter_remove_hash(a, 5));
    CHECK_EQ(bg_filter_count_hash(a, 5), UINT64_MAX);
    bg_filter_free(a);
    bg_filter_free(b);
}

/* ---- Rates and sizes -------------------------------------------------------------- */

TEST(quotient__measured_rate_is_the_predicted_one)
{
    if (CHECK_EMULATED || CHECK_SANITIZED) {
        /* This test is too slow under emulators and sanitizers. */
        return;
    }
    static const double loads[] = { 0.3, 0.6, 0.95 };
    static const uint32_t widths[] = { 2, 3, 5, 7 };
    for (size_t l = 0; l < 3; l++) {
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            bg_filter *filter = quotient_filter(15, widths[w], BG_SPEC_EXCLUSIVE);
            size_t n = (size_t)(loads[l] * 32768), hits = 0;
            for (size_t i = 0; i < n; i++) {
                CHECK_OK(bg_filter_add_hash(filter, check_random(), NULL));
            }
            double predicted = bg_predict_rate(
                BG_KIND_QUOTIENT, bg_filter_size_bytes(filter), widths[w], n);
            size_t probes = (size_t)(20000 / predicted);
            for (size_t i = 0; i < probes; i++) {
                hits += bg_filter_may_contain_hash(filter, check_random());
            }
            CHECK_NEAR((double)hits / (double)probes, predicted, 0.05);
            bg_filter_info info = info_of(filter);
            CHECK_NEAR(info.rate, predicted, 0.02);
            CHECK(info.items.low <= (double)n * 1.01);
            CHECK(info.items.high >= (double)n * 0.99);
            CHECK_NEAR(info.fill, loads[l], 0.03);
            bg_filter_free(filter);
        }
    }
}

TEST(quotient__plans_name_sizes_that_there_are)
{
    const uint64_t most = sizeof(size_t) > 4 ? 100000000000 : 100000000;
    for (uint64_t items = 1; items < most; items = items * 3 + 1) {
        for (double rate = 0.2; rate > 1e-7; rate /= 7) {
            bg_plan_request ask = BG_PLAN_REQUEST_INIT;
            bg_plan plan;
            ask.spec.kind = BG_KIND_QUOTIENT;
            ask.spec.items = items;
            ask.spec.rate = rate;
            CHECK_OK(bg_plan_compute(&ask, &plan, NULL));
            CHECK(plan.rate <= rate);
            CHECK(plan.fill <= 0.95);
            CHECK_EQ(bgi_kind_quotient.round_units(plan.units, plan.k), plan.units);
            /* The filter is not larger than needed. */
            CHECK(plan.bytes < 2048 || plan.fill > 0.04);
            CHECK_NEAR(plan.rate_2x, plan.fill > 0.475 ? 1 : 2 * plan.rate, 0.2);
            ask.spec.rate = 0;
            ask.spec.bytes = plan.bytes + 100;
            ask.spec.k = plan.k;
            bg_plan again;
            CHECK_OK(bg_plan_compute(&ask, &again, NULL));
            CHECK_EQ(again.units, plan.units);
        }
    }
}

TEST(quotient__bad_sizes)
{
    bg_errinfo why;
    bg_filter *filter;
    bg_spec spec = quotient_spec(10, 8, 0);
    spec.k = 1;
    CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_EINVAL);
    CHECK_STR(why.what, "k");
    spec.k = 33;
    CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_EINVAL);
    spec = quotient_spec(10, 8, 0);
    spec.items = 1000; /* of 1024 */
    CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_EINVAL);
    CHECK(filter == NULL);
    CHECK_STR(why.what, "bytes");
    spec.items = 972;
    CHECK_OK(bg_filter_create(&spec, &filter, &why));
    bg_filter_free(filter);
    spec = quotient_spec(8, 8, 0);
    spec.bytes--;
    CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_EINVAL);
    spec.bytes = UINT64_MAX;
    CHECK(bg_filter_create(&spec, &filter, &why) != BG_OK);
    spec = quotient_spec(8, 8, 0);
    spec.width = 4;
    CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_EINVAL);
    spec = quotient_spec(8, 8, BG_SPEC_SCATTERED);
    CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_EINVAL);
    spec = quotient_spec(8, 8, 0);
    spec.folds = 1;
    CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_ENOTSUP);
    bg_spec large = BG_SPEC_INIT;
    large.kind = BG_KIND_QUOTIENT;
    large.items = (uint64_t)1 << 44;
    large.rate = 0.01;
    CHECK_EQ(bg_filter_create(&large, &filter, &why), BG_ENOTSUP);
    CHECK_STR(why.what, "rate");
    large.items = 1000;
    large.rate = 1e-18;
    CHECK_EQ(bg_filter_create(&large, &filter, &why), BG_ENOTSUP);
    CHECK(isnan(bg_predict_rate(BG_KIND_QUOTIENT, 100, 8, 1)));
}

/* ---- Resizing, two filters -------------------------------------------------------- */

static bool stop_at_third(void *context, uint64_t prefix, uint64_t count)
{
    unsigned *told = context;
    (void)prefix, (void)count;
    return ++*told < 3;
}

TEST(quotient__each)
{
    unsigned told = 0;
    bg_filter *filter = quotient_filter(9, 8, 0);
    CHECK_OK(bg_filter_for_each(filter, stop_at_third, &told));
    CHECK_EQ(told, 0);
    for (int i = 0; i < 100; i++) {
        CHECK_OK(bg_filter_add_hash(filter, check_random(), NULL));
    }
    CHECK_OK(bg_filter_for_each(filter, stop_at_third, &told));
    CHECK_EQ(told, 3);
    CHECK_EQ(bg_filter_for_each(NULL, stop_at_third, &told), BG_EINVAL);
    CHECK_EQ(bg_filter_for_each(filter, NULL, &told), BG_EINVAL);
    bg_filter *bloom = make_filter(BG_KIND_BLOCKED, 1000, 0);
    CHECK_EQ(bg_filter_for_each(bloom, stop_at_third, &told), BG_ENOTSUP);
    bg_filter_free(bloom);
    bg_filter_free(filter);
}

static void fill_from_pool(bg_filter *filter, unsigned kept, enum spread spread)
{
    make_pool(kept, spread);
    for (size_t i = 0; i < pool_size && i < 200; i++) {
        counts[i] = check_random_below(16) ? 1 : 1 + check_random_below(40);
        for (uint64_t n = 0; n < counts[i]; n++) {
            bg_err err = bg_filter_add_hash(filter, some_hash(i, kept), NULL);
            if (err) {
                counts[i] = n;
            }
        }
    }
}

TEST(quotient__resize)
{
    for (enum spread spread = EVENLY; spread <= AT_THE_END; spread++) {
        bg_filter *filter = quotient_filter(10, 12, 0), *larger = NULL, *back = NULL;
        bg_errinfo why;
        fill_from_pool(filter, 22, spread);
        for (int doublings = 0; doublings <= 10; doublings++) {
            CHECK_OK(bg_filter_resize(filter, doublings, &larger, &why));
            CHECK_EQ(info_of(larger).k, 12 - doublings);
            CHECK_NEAR(info_of(larger).rate, info_of(filter).rate, 1e-9);
            check_content(larger, 22);
            CHECK_OK(bg_filter_resize(larger, -doublings, &back, &why));
            CHECK(bg_filter_equal(back, filter));
            CHECK_EQ(info_of(back).ones, info_of(filter).ones);
            bg_filter_free(larger);
            bg_filter_free(back);
        }
        CHECK_EQ(bg_filter_resize(filter, 11, &larger, &why), BG_EINVAL);
        CHECK(larger == NULL);
        CHECK_STR(why.what, "doublings");
        CHECK_EQ(bg_filter_resize(filter, -3, &larger, &why), BG_EINVAL);
        CHECK_EQ(bg_filter_resize(filter, INT32_MAX, &larger, &why), BG_EINVAL);
        CHECK_EQ(bg_filter_resize(filter, INT32_MIN, &larger, &why), BG_EINVAL);
        bg_filter_free(filter);
    }
}

TEST(quotient__resize_refused)
{
    bg_filter *filter = quotient_filter(10, 8, 0), *resized = filter;
    bg_errinfo why;
    for (uint64_t i = 0; i < 600; i++) {
        CHECK_OK(bg_filter_add_hash(filter, check_random(), NULL));
    }
    CHECK_EQ(bg_filter_resize(filter, -1, &resized, &why), BG_EFULL);
    CHECK(resized == NULL);
    CHECK_EQ(bg_filter_resize(NULL, 1, &resized, &why), BG_EINVAL);
    CHECK_EQ(bg_filter_resize(filter, 1, NULL, &why), BG_EINVAL);
    bg_filter *bloom = make_filter(BG_KIND_CLASSIC, 1000, 0);
    CHECK_EQ(bg_filter_resize(bloom, 1, &resized, &why), BG_ENOTSUP);
    bg_filter_free(bloom);
    bg_filter_free(filter);
}

/* Checks that no key is lost while a filter grows from the smallest size to 200,000 keys. */
TEST(quotient__grows)
{
    bg_filter *filter = quotient_filter(8, 20, BG_SPEC_EXCLUSIVE);
    uint64_t n = 200000, seed = check_random();
    for (uint64_t i = 0, state = seed; i < n; i++) {
        uint64_t hash = check_random_next(&state);
        while (bg_filter_add_hash(filter, hash, NULL) == BG_EFULL) {
            bg_filter *larger = NULL;
            CHECK_OK(bg_filter_resize(filter, 1, &larger, NULL));
            bg_filter_free(filter);
            filter = larger;
        }
    }
    for (uint64_t i = 0, state = seed; i < n; i++) {
        CHECK(bg_filter_may_contain_hash(filter, check_random_next(&state)));
    }
    CHECK_NEAR(info_of(filter).items.value, n, 0.01);
    bg_filter_free(filter);
}

TEST(quotient__merge)
{
    for (int doublings = -1; doublings <= 2; doublings++) {
        bg_filter *a = quotient_filter(10, 8, 0), *b = NULL, *all = NULL;
        bg_filter *first = quotient_filter(10, 8, 0);
        all = quotient_filter(10, 8, 0);
        for (unsigned i = 0; i < 300; i++) {
            uint64_t hash = check_random();
            bg_filter *to = i % 2 ? a : first;
            CHECK_OK(bg_filter_add_hash(to, hash, NULL));
            CHECK_OK(bg_filter_add_hash(all, hash, NULL));
            if (i % 5 == 0) {
                CHECK_OK(bg_filter_add_hash(i % 2 ? first : a, hash, NULL));
                CHECK_OK(bg_filter_add_hash(all, hash, NULL));
            }
        }
        CHECK_OK(bg_filter_resize(first, doublings, &b, NULL));
        CHECK_EQ(bg_filter_compatible(a, b), doublings == 0);
        CHECK_OK(bg_filter_merge(a, b, NULL));
        CHECK(bg_filter_equal(a, all));
        CHECK_EQ(info_of(a).ones, info_of(all).ones);
        bg_filter_free(all);
        bg_filter_free(first);
        bg_filter_free(a);
        bg_filter_free(b);
    }
}

TEST(quotient__merge_refused)
{
    bg_filter *a = quotient_filter(8, 8, 0), *b = quotient_filter(8, 8, 0);
    bg_filter *copy = NULL, *other = quotient_filter(8, 9, 0);
    bg_errinfo why;
    for (int i = 0; i < 150; i++) {
        CHECK_OK(bg_filter_add_hash(a, check_random(), NULL));
        CHECK_OK(bg_filter_add_hash(b, check_random(), NULL));
    }
    CHECK_OK(bg_filter_copy(a, &copy, NULL));
    CHECK_EQ(bg_filter_merge(a, b, &why), BG_EFULL);
    CHECK(bg_filter_equal(a, copy));
    CHECK_EQ(bg_filter_merge(a, a, &why), BG_EINVAL);
    CHECK_EQ(bg_filter_merge(a, other, &why), BG_EINCOMPAT);
    CHECK_STR(why.what, "k");
    CHECK_EQ(info_of(a).ones, info_of(copy).ones);
    bg_filter_free(a);
    bg_filter_free(b);
    bg_filter_free(copy);
    bg_filter_free(other);
}

TEST(quotient__overlap)
{
    bg_filter *a = quotient_filter(15, 10, 0), *b = quotient_filter(15, 10, 0);
    bg_overlap overlap;
    for (unsigned i = 0; i < 24000; i++) {
        uint64_t hash = check_random();
        if (i < 16000) {
            CHECK_OK(bg_filter_add_hash(a, hash, NULL));
        }
        if (i >= 8000) {
            CHECK_OK(bg_filter_add_hash(b, hash, NULL));
        }
    }
    CHECK_OK(bg_filter_overlap(a, b, &overlap, NULL));
    CHECK_NEAR(overlap.a.value, 16000, 0.01);
    CHECK_NEAR(overlap.either.value, 24000, 0.01);
    CHECK_NEAR(overlap.both.value, 8000, 0.02);
    CHECK_NEAR(overlap.jaccard.value, 1 / 3.0, 0.02);
    CHECK(overlap.both.low <= 8000 && overlap.both.high >= 8000);
    bg_filter_free(a);
    bg_filter_free(b);
}

/* ---- Batches ---------------------------------------------------------------------- */

TEST(quotient__batches_do_what_single_calls_do)
{
    enum { N = 3000 };
    static uint64_t keys[2 * N], maybe[BG_BITMAP_WORDS(2 * N)], is_new[2 * N / 64 + 1];
    for (unsigned ask = 0; ask < 2; ask++) {
        for (uint32_t flags = 0; flags <= BG_SPEC_EXCLUSIVE; flags++) {
            bg_filter *one = quotient_filter(12, 6, flags), *many = NULL;
            many = quotient_filter(12, 6, flags);
            many->core.adds_prefetch = many->core.lookups_prefetch = (uint8_t)ask;
            random_hashes(keys, 2 * N);
            for (size_t i = 1; i < N; i += 3) {
                keys[i] = keys[check_random_below(i)];
            }
            size_t count = added_many(many, bg_keys_u64(keys, N), is_new), expected = 0;
            for (size_t i = 0; i < N; i++) {
                bool fresh = added_u64(one, keys[i]);
                CHECK_EQ(is_new[i / 64] >> i % 64 & 1, fresh);
                expected += fresh;
            }
            CHECK_EQ(count, expected);
            CHECK(bg_filter_equal(one, many));
            count = bg_filter_may_contain_many(many, bg_keys_u64(keys, 2 * N), maybe);
            size_t yeses = 0;
            for (size_t i = 0; i < 2 * N; i++) {
                bool yes = bg_filter_may_contain_u64(one, keys[i]);
                CHECK_EQ(maybe[i / 64] >> i % 64 & 1, yes);
                CHECK(yes || i >= N);
                yeses += yes;
            }
            CHECK_EQ(count, yeses);
            CHECK_EQ(bg_filter_remove_many(many, bg_keys_u64(keys, N), NULL), N);
            CHECK_EQ(info_of(many).ones, 0);
            size_t done = 0, added = 0;
            CHECK_OK(
                bg_filter_add_many(many, bg_keys_u64(keys, N), NULL, &done, &added));
            CHECK_EQ(done, N);
            CHECK_EQ(added, expected);
            CHECK_EQ(
                bg_filter_add_many(many, bg_keys_u64(keys + N, N), NULL, &done, &added),
                BG_EFULL);
            CHECK(done > 500 && done < N);
            CHECK_EQ(
                bg_filter_may_contain_many(many, bg_keys_u64(keys, N + done), NULL),
                N + done);
            bg_filter_free(one);
            bg_filter_free(many);
        }
    }
}

/* ---- Memory ------------------------------------------------------------------------ */

TEST(quotient__no_memory)
{
    static struct counting c;
    counting_start(&c);
    bg_spec spec = quotient_spec(10, 8, 0);
    spec.allocator = &c.hooks;
    bg_filter *filter = NULL, *other = NULL;
    bg_errinfo why;
    c.fail_at = 1;
    CHECK_EQ(bg_filter_create(&spec, &filter, &why), BG_ENOMEM);
    CHECK(filter == NULL);
    CHECK_OK(bg_filter_create(&spec, &filter, &why));
    CHECK_OK(bg_filter_add_hash(filter, 7, NULL));
    for (int doublings = -1; doublings <= 1; doublings++) {
        c.fail_at = c.calls + 1;
        CHECK_EQ(bg_filter_resize(filter, doublings, &other, &why), BG_ENOMEM);
        CHECK(other == NULL);
        CHECK_STR(why.what, "memory");
        c.fail_at = c.calls + 1;
        CHECK_EQ(bg_filter_copy(filter, &other, &why), BG_ENOMEM);
        CHECK_OK(bg_filter_resize(filter, doublings, &other, &why));
        CHECK(bg_filter_may_contain_hash(other, 7));
        bg_filter_free(other);
    }
    CHECK_EQ(c.live, 1);
    bg_filter_free(filter);
    CHECK_EQ(c.live, 0);
    CHECK_EQ(c.mistakes, 0);
}

/* ---- Threads ----------------------------------------------------------------------- */

enum { STEADY = 2000, CHURN = 1500, WRITERS = 2 };

static bg_filter *shared;
static uint64_t steady[STEADY], churn[WRITERS][CHURN];
static bool stop_reading;

/* Adds and removes the thread's own keys repeatedly. All of these keys are present at the end. */
static void *write_keys(void *context)
{
    const uint64_t *keys = context;
    for (unsigned round = 0; round < 6; round++) {
        for (size_t i = 0; i < CHURN; i++) {
            if (round > 0) {
                CHECK_OK(bg_filter_remove_hash(shared, keys[i]));
            }
            CHECK_OK(bg_filter_add_hash(shared, keys[i], NULL));
            CHECK(bg_filter_may_contain_hash(shared, keys[i]));
        }
    }
    return NULL;
}

static bool count_told(void *context, uint64_t prefix, uint64_t count)
{
    uint64_t *told = context;
    (void)prefix;
    told[0]++;
    told[1] += count;
    return true;
}

/* Checks that keys added before the writers started are always present. */
static void *read_keys(void *context)
{
    (void)context;
    while (!__atomic_load_n(&stop_reading, __ATOMIC_ACQUIRE)) {
        for (size_t i = 0; i < STEADY; i++) {
            CHECK(bg_filter_may_contain_hash(shared, steady[i]));
            if (i % 16 == 0) {
                CHECK(bg_filter_count_hash(shared, steady[i]) >= 1);
            }
        }
        CHECK_EQ(
            bg_filter_may_contain_many(shared, bg_keys_hashes(steady, STEADY), NULL),
            STEADY);
        uint64_t told[2] = { 0, 0 };
        CHECK_OK(bg_filter_for_each(shared, count_told, told));
        /* During the listing, other threads can move an entry from one chunk to another, so that
         * the listing misses it. */
        CHECK(told[1] >= STEADY - 10);
        bg_filter *copy = NULL;
        CHECK_OK(bg_filter_copy(shared, &copy, NULL));
        CHECK_EQ(bg_filter_may_contain_many(copy, bg_keys_hashes(steady, STEADY), NULL),
                 STEADY);
        bg_filter_free(copy);
    }
    return NULL;
}

static void run_threads(uint32_t k, unsigned bits, bool crowded)
{
    pthread_t writers[WRITERS], reader;
    shared = quotient_filter(bits, k, 0);
    bg_filter *alone = quotient_filter(bits, k, BG_SPEC_EXCLUSIVE);
    random_hashes(steady, STEADY);
    random_hashes(churn[0], (size_t)WRITERS * CHURN);
    for (size_t i = 0; crowded && i < STEADY; i++) {
        steady[i] >>= i % 2 ? 3 : 0;
    }
    for (size_t i = 0; crowded && i < CHURN; i++) {
        churn[0][i] = churn[0][i] >> 3;
        churn[1][i] = churn[1][i] >> 3 | (uint64_t)3 << 61;
    }
    for (size_t i = 0; i < STEADY; i++) {
        CHECK_OK(bg_filter_add_hash(shared, steady[i], NULL));
        CHECK_OK(bg_filter_add_hash(alone, steady[i], NULL));
    }
    stop_reading = false;
    CHECK_EQ(pthread_create(&reader, NULL, read_keys, NULL), 0);
    for (size_t w = 0; w < WRITERS; w++) {
        CHECK_EQ(pthread_create(&writers[w], NULL, write_keys, churn[w]), 0);
        for (size_t i = 0; i < CHURN; i++) {
            CHECK_OK(bg_filter_add_hash(alone, churn[w][i], NULL));
        }
    }
    for (size_t w = 0; w < WRITERS; w++) {
        CHECK_EQ(pthread_join(writers[w], NULL), 0);
    }
    __atomic_store_n(&stop_reading, true, __ATOMIC_RELEASE);
    CHECK_EQ(pthread_join(reader, NULL), 0);
    CHECK(bg_filter_equal(shared, alone));
    CHECK_EQ(info_of(shared).ones, info_of(alone).ones);
    bg_filter_free(alone);
    bg_filter_free(shared);
}

TEST(quotient__threads)
{
    run_threads(9, 13, false); /* slightly more than two regions, 61% load */
    run_threads(16, 13, true); /* shifts runs from one region into the next */
    run_threads(12, 14, true);
}

/* Numbers of keys for a small table in which nearly every change moves keys that are being looked
 * up. */
enum { HAMMER_STEADY = 130, HAMMER_CHURN = 90 };

static void *hammer_keys(void *context)
{
    const uint64_t *keys = context;
    const size_t rounds = CHECK_SANITIZED || CHECK_EMULATED ? 200 : 2500;
    for (size_t round = 0; round < rounds * check_scale(); round++) {
        for (size_t i = 0; i < HAMMER_CHURN; i++) {
            CHECK_OK(bg_filter_add_hash(shared, keys[i], NULL));
        }
        for (size_t i = 0; i < HAMMER_CHURN; i++) {
            CHECK_OK(bg_filter_remove_hash(shared, keys[i]));
        }
    }
    __atomic_store_n(&stop_reading, true, __ATOMIC_RELEASE);
    return NULL;
}

static void run_hammer(bool crowded)
{
    pthread_t writer;
    shared = quotient_filter(8, 16, 0);
    random_hashes(steady, HAMMER_STEADY);
    random_hashes(churn[0], HAMMER_CHURN);
    for (size_t i = 0; i < HAMMER_STEADY; i++) {
        steady[i] >>= crowded ? 2 : 0; /* if crowded, 130 keys share 64 quotients */
        CHECK_OK(bg_filter_add_hash(shared, steady[i], NULL));
    }
    for (size_t i = 0; crowded && i < HAMMER_CHURN; i++) {
        churn[0][i] >>= 3;
    }
    stop_reading = false;
    uint64_t missed = 0, miscounted = 0;
    CHECK_EQ(pthread_create(&writer, NULL, hammer_keys, churn[0]), 0);
    for (unsigned loop = 1; !__atomic_load_n(&stop_reading, __ATOMIC_ACQUIRE); loop++) {
        for (size_t i = 0; i < HAMMER_STEADY; i++) {
            missed += !bg_filter_may_contain_hash(shared, steady[i]);
        }
        missed += HAMMER_STEADY
                  - bg_filter_may_contain_many(
                      shared, bg_keys_hashes(steady, HAMMER_STEADY), NULL);
        uint64_t told[2] = { 0, 0 };
        if (loop % 8 == 0) {
            CHECK_OK(bg_filter_for_each(shared, count_told, told));
        }
        for (size_t i = 0; loop % 8 == 0 && i < HAMMER_STEADY; i++) {
            miscounted += bg_filter_count_hash(shared, steady[i]) != 1;
        }
    }
    CHECK_EQ(pthread_join(writer, NULL), 0);
    CHECK_EQ(missed, 0);
    CHECK_EQ(miscounted, 0);
    CHECK_EQ(info_of(shared).ones, HAMMER_STEADY);
    bg_filter_free(shared);
}

TEST(quotient__threads_read_what_is_moved)
{
    run_hammer(false);
    run_hammer(true);
}

static void *merge_away(void *context)
{
    bg_filter *const *two = context;
    for (int i = 0; i < 20; i++) {
        CHECK_OK(bg_filter_merge(two[0], two[1], NULL));
    }
    return NULL;
}

TEST(quotient__threads_merge_both_ways)
{
    bg_filter *a = quotient_filter(14, 8, 0), *b = quotient_filter(14, 8, 0);
    bg_filter *there[2] = { a, b }, *back[2] = { b, a };
    for (uint64_t i = 0; i < 1000; i++) {
        CHECK_OK(bg_filter_add_hash(i % 2 ? a : b, check_random(), NULL));
    }
    pthread_t threads[2];
    CHECK_EQ(pthread_create(&threads[0], NULL, merge_away, there), 0);
    CHECK_EQ(pthread_create(&threads[1], NULL, merge_away, back), 0);
    CHECK_EQ(pthread_join(threads[0], NULL), 0);
    CHECK_EQ(pthread_join(threads[1], NULL), 0);
    CHECK_NEAR(info_of(a).items.value, 1000, 0.02);
    CHECK_NEAR(info_of(b).items.value, 1000, 0.02);
    bg_filter_free(a);
    bg_filter_free(b);
}
