/*
 * Cuckoo filters: the positions of fingerprints, agreement with an exact multiset, the
 * predicted rate, full filters, and lookups that find every key while writers relocate
 * fingerprints.
 */
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include "base/bits.h"
#include "filter/handle.h"

#include <pthread.h>

static const uint32_t widths[] = { 8, 12, 16, 32 };
enum { WIDTHS = 4 };

static const uint32_t modes[] = { 0, BG_SPEC_EXCLUSIVE };

/* ---- A slow reference implementation of the layout ------------------------------- */

static uint32_t unit_bytes(uint32_t k)
{
    return k == 12 ? 24 : k == 32 ? 16 : 8;
}

static uint64_t buckets_of(uint64_t units, uint32_t k)
{
    return k == 8 ? 2 * units : k == 12 ? 4 * units - 1 : units;
}

/* Where a hash belongs. */
struct home {
    uint64_t fingerprint, first, second;
};

static struct home home_of(uint64_t hash, uint32_t k, uint64_t buckets)
{
    struct home home = { .fingerprint = hash & (UINT64_MAX >> (64 - k)) };
    home.fingerprint = home.fingerprint ? home.fingerprint : 1;
    home.first = bgi_mulhi(hash, buckets);
    uint64_t mixed = home.fingerprint * (home.fingerprint + 1) * 0xbf58476d1ce4e5b9u;
    uint64_t sum = bgi_mulhi(mixed, buckets);
    home.second = (sum + (buckets - home.first)) % buckets;
    return home;
}

/* Reads the content of a slot, bit by bit. */
static uint64_t slot_of(const bg_filter *filter, uint64_t bucket, unsigned slot)
{
    uint64_t value = 0, k = filter->core.k;
    const uint64_t *words = bgi_filter_words(filter);
    for (uint64_t i = 0; i < k; i++) {
        uint64_t bit = (4 * bucket + slot) * k + i;
        value |= (words[bit / 64] >> bit % 64 & 1) << i;
    }
    return value;
}

static uint64_t slots_in_use(const bg_filter *filter)
{
    uint64_t used = 0;
    for (uint64_t b = 0; b < buckets_of(filter->core.units, filter->core.k); b++) {
        for (unsigned s = 0; s < 4; s++) {
            used += slot_of(filter, b, s) != 0;
        }
    }
    return used;
}

/* ---- Creating filters ------------------------------------------------------------- */

static bg_filter *cuckoo_of(uint64_t units, uint32_t k, uint32_t flags)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_CUCKOO;
    spec.k = k;
    spec.bytes = units * unit_bytes(k);
    spec.flags = flags;
    return must_create(&spec);
}

static bg_filter *cuckoo_for(uint64_t items, double rate, uint32_t flags)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_CUCKOO;
    spec.items = items;
    spec.rate = rate;
    spec.flags = flags;
    return must_create(&spec);
}

/* Returns the number of units needed for at least `slots` slots. */
static uint64_t units_for(uint64_t slots, uint32_t k)
{
    uint64_t units = 1;
    while (4 * buckets_of(units, k) < slots) {
        units++;
    }
    return units;
}

/* Returns a copy of the filter's content, for a later comparison. The caller frees the copy. */
static uint64_t *words_of(const bg_filter *filter)
{
    uint64_t *words = malloc((size_t)bg_filter_size_bytes(filter));
    CHECK(words != NULL);
    memcpy(words, bgi_filter_words(filter), (size_t)bg_filter_size_bytes(filter));
    return words;
}

static bool same_words(const bg_filter *filter, const uint64_t *words)
{
    return memcmp(bgi_filter_words(filter), words, (size_t)bg_filter_size_bytes(filter))
           == 0;
}

/* ---- Layout ----------------------------------------------------------------------- */

TEST(cuckoo__traits_and_description)
{
    bg_kind parsed = BG_KIND_AUTO;
    CHECK(bg_kind_parse("cuckoo", &parsed));
    CHECK_EQ(parsed, 7);
    CHECK_STR(bg_kind_name(BG_KIND_CUCKOO), "cuckoo");
    CHECK_EQ(bg_kind_traits(BG_KIND_CUCKOO),
             BG_TRAIT_REMOVE | BG_TRAIT_COUNT | BG_TRAIT_FILLS_UP);
    const struct bgi_kind *kind = bgi_kind_of(BG_KIND_CUCKOO);
    for (uint32_t k = 0; k < 40; k++) {
        bool there = k == 8 || k == 12 || k == 16 || k == 32;
        CHECK_EQ(kind->unit_bytes(k), there ? unit_bytes(k) : 0);
        CHECK_EQ(kind->lines(k), 2);
    }
}

/* For any number of buckets, copies of a key fill exactly the slots of its two buckets: eight
 * slots, or four if both buckets are the same. */
static void check_home(uint32_t k, uint64_t units, uint32_t flags, uint64_t hash)
{
    bg_filter *filter = cuckoo_of(units, k, flags);
    uint64_t buckets = buckets_of(units, k);
    struct home home = home_of(hash, k, buckets);
    uint64_t room = home.first == home.second ? 4 : 8;
    CHECK_OK(bg_filter_add_hash(filter, hash, NULL));
    CHECK_EQ(slot_of(filter, home.first, 0), home.fingerprint);
    for (uint64_t i = 1; i < room; i++) {
        CHECK_OK(bg_filter_add_hash(filter, hash, NULL));
    }
    for (unsigned s = 0; s < 4; s++) {
        CHECK_EQ(slot_of(filter, home.first, s), home.fingerprint);
        CHECK_EQ(slot_of(filter, home.second, s), home.fingerprint);
    }
    CHECK_EQ(slots_in_use(filter), room);
    CHECK_EQ(bg_filter_count_hash(filter, hash), room);
    bg_filter_free(filter);
}

TEST(cuckoo__fingerprints_are_where_the_essay_says)
{
    for (int w = 0; w < WIDTHS; w++) {
        for (uint64_t units = 1; units < 40; units++) {
            for (int m = 0; m < 2; m++) {
                check_home(widths[w], units, modes[m], check_random());
            }
        }
        check_home(widths[w], 7, 0, 0);
        check_home(widths[w], 7, 0, UINT64_MAX);
        check_home(widths[w], 8, 0, UINT64_MAX << 32); /* the fingerprint 0 becomes 1 */
    }
}

/* Returns a hash whose first bucket is `bucket`, and whose low 32 bits equal those of `like`. */
static uint64_t hash_in(uint64_t bucket, uint64_t buckets, uint64_t like)
{
    uint64_t high = ((bucket << 32) + buckets - 1) / buckets;
    return (high + (high < UINT32_MAX)) << 32 | (uint32_t)like;
}

/* The alternate of a bucket's alternate is the bucket itself. So if two keys have the same
 * fingerprint, and the first bucket of one is the alternate bucket of the other, both keys have the
 * same two buckets. */
TEST(cuckoo__other_bucket_is_its_own_inverse)
{
    for (int w = 0; w < WIDTHS; w++) {
        uint32_t k = widths[w];
        for (int i = 0; i < 300; i++) {
            uint64_t units = 1 + check_random_below(1000), hash = check_random();
            uint64_t buckets = buckets_of(units, k);
            bg_filter *filter = cuckoo_of(units, k, 0);
            struct home home = home_of(hash, k, buckets);
            uint64_t back = hash_in(home.second, buckets, hash);
            struct home there = home_of(back, k, buckets);
            CHECK_EQ(there.first, home.second);
            CHECK_EQ(there.second, home.first);
            for (int copies = 0; copies < 4; copies++) {
                CHECK_OK(bg_filter_add_hash(filter, hash, NULL));
            }
            CHECK(bg_filter_may_contain_hash(filter, back));
            CHECK_EQ(bg_filter_count_hash(filter, back), 4);
            CHECK_OK(bg_filter_remove_hash(filter, back));
            CHECK_EQ(bg_filter_count_hash(filter, hash), 3);
            bg_filter_free(filter);
        }
    }
}

/* ---- Comparison with an exact multiset ----------------------------------------------------- */

enum { MODEL_KEYS = 700, MODEL_COPIES = 3 };

struct model {
    bg_filter *filter;
    unsigned count[MODEL_KEYS];
    uint64_t stored;
};

static void model_insert(struct model *m, uint64_t key)
{
    bool is_new = false, seen = bg_filter_may_contain_u64(m->filter, key);
    if (m->count[key] == MODEL_COPIES) {
        return;
    }
    uint64_t *before = words_of(m->filter);
    bg_err err = bg_filter_add_u64(m->filter, key, &is_new);
    CHECK_EQ(is_new, !seen && !err);
    CHECK(!is_new || m->count[key] == 0);
    if (err) {
        CHECK_EQ(err, BG_EFULL);
        CHECK(same_words(m->filter, before));
        /* All copies of a key must fit into the same two buckets, so an add can fail long before
         * the table is full. */
        CHECK(m->stored * 2 >= 600);
    } else {
        m->count[key]++;
        m->stored++;
    }
    free(before);
}

static void model_remove(struct model *m, uint64_t key)
{
    uint64_t count = bg_filter_count_u64(m->filter, key);
    if (m->count[key]) {
        CHECK_OK(bg_filter_remove_u64(m->filter, key));
        m->count[key]--;
        m->stored--;
        CHECK_EQ(bg_filter_count_u64(m->filter, key), count - 1);
    } else if (!bg_filter_may_contain_u64(m->filter, key)) {
        CHECK_EQ(count, 0);
        CHECK_EQ(bg_filter_remove_u64(m->filter, key), BG_ENOTFOUND);
    }
}

static void model_check(const struct model *m)
{
    for (uint64_t key = 0; key < MODEL_KEYS; key++) {
        CHECK(!m->count[key] || bg_filter_may_contain_u64(m->filter, key));
        CHECK(bg_filter_count_u64(m->filter, key) >= m->count[key]);
    }
    bg_filter_info info = info_of(m->filter);
    CHECK_EQ(info.ones, m->stored);
    CHECK_EQ(slots_in_use(m->filter), m->stored);
    CHECK(info.items.value == (double)m->stored);
    CHECK(!info.overflowed && info.saturated == 0);
}

static void check_model(uint32_t k, uint32_t flags)
{
    struct model m = { .filter = cuckoo_of(units_for(600, k), k, flags) };
    size_t steps = (CHECK_SANITIZED ? 10000 : 40000) * check_scale();
    for (size_t i = 0; i < steps; i++) {
        uint64_t key = check_random_below(MODEL_KEYS);
        /* The filter alternates between nearly full and nearly empty. */
        bool fills = check_random_below(10) < (i / 4000 % 2 ? 3 : 8);
        fills ? model_insert(&m, key) : model_remove(&m, key);
        if (i % 500 == 0) {
            model_check(&m);
        }
    }
    for (uint64_t key = 0; key < MODEL_KEYS; key++) {
        while (m.count[key]) {
            model_remove(&m, key);
        }
    }
    model_check(&m);
    CHECK_EQ(slots_in_use(m.filter), 0);
    bg_filter_free(m.filter);
}

TEST(cuckoo__is_an_exact_multiset_or_more)
{
    for (int w = 0; w < WIDTHS; w++) {
        check_model(widths[w], 0);
        check_model(widths[w], BG_SPEC_EXCLUSIVE);
    }
}

/* ---- Rates ------------------------------------------------------------------------ */

static double measured_rate(const bg_filter *filter, size_t probes)
{
    enum { STEP = 4096 };
    static uint64_t hashes[STEP];
    size_t maybe = 0, asked = 0;
    for (; asked < probes; asked += STEP) {
        random_hashes(hashes, STEP);
        maybe += bg_filter_may_contain_many(filter, bg_keys_hashes(hashes, STEP), NULL);
    }
    return (double)maybe / (double)asked;
}

/* Returns the number of lookups for which 5000 hits are expected. With 5000 hits, a tolerance of 5%
 * is 3.5 standard deviations. */
static size_t probes_for(double rate)
{
    return (size_t)(5000 / rate);
}

TEST(cuckoo__measured_rate_is_the_predicted_one)
{
    if (CHECK_EMULATED || CHECK_SANITIZED) {
        /* Too slow under emulators and sanitizers; the arithmetic is the same on every machine. */
        return;
    }
    const double loads[] = { 0.1, 0.5, 0.8, 0.95 };
    const uint64_t slots[] = { 2000, 300000 };
    for (int w = 0; w < 3; w++) {
        for (int l = 0; l < 4; l++) {
            for (int s = 0; s < 2; s++) {
                uint32_t k = widths[w];
                if (k == 16 && loads[l] < 0.8) {
                    continue; /* hits are too rare to measure quickly */
                }
                bg_filter *filter = cuckoo_of(units_for(slots[s], k), k, 0);
                uint64_t n = (uint64_t)(loads[l] * (double)slots[s]);
                for (uint64_t i = 0; i < n; i++) {
                    CHECK_OK(bg_filter_add_u64(filter, i, NULL));
                }
                bg_filter_info info = info_of(filter);
                double rate = bgi_kind_rate(filter->kind, info.units, k, (double)n);
                CHECK_NEAR(info.rate, rate, 1e-9);
                CHECK_NEAR(info.fill, loads[l], 0.02);
                CHECK_NEAR(measured_rate(filter, probes_for(rate)), rate, 0.05);
                bg_filter_free(filter);
            }
        }
    }
}

/* Tests many tiny filters, in which a key's two buckets are often the same. */
TEST(cuckoo__rate_of_tiny_filters)
{
    if (CHECK_EMULATED || CHECK_SANITIZED) {
        /* Too slow under emulators and sanitizers; the arithmetic is the same on every machine. */
        return;
    }
    const uint64_t buckets[] = { 1, 2, 3, 5 };
    for (int b = 0; b < 4; b++) {
        uint32_t k = buckets[b] == 3 ? 12 : buckets[b] % 2 ? 16 : 8;
        uint64_t units = buckets[b] == 3 ? 1 : k == 8 ? buckets[b] / 2 : buckets[b];
        bg_filter *filter = cuckoo_of(units, k, 0);
        CHECK_EQ(info_of(filter).units, units);
        double predicted = bgi_kind_rate(filter->kind, units, k, 4), measured = 0;
        size_t rounds = k == 16 ? 30000 : k == 12 ? 10000 : 1000;
        for (size_t r = 0; r < rounds; r++) {
            bg_filter_clear(filter);
            for (int i = 0; i < 4; i++) {
                CHECK_OK(bg_filter_add_hash(filter, check_random(), NULL));
            }
            measured += measured_rate(filter, 1);
        }
        CHECK_NEAR(measured / (double)rounds, predicted, 0.05);
        bg_filter_free(filter);
    }
}

TEST(cuckoo__width_follows_from_the_rate)
{
    const struct {
        double rate, bits;
        uint32_t k;
    } wanted[] = {
        { 0.03, 8.43, 8 },     { 0.002, 12.64, 12 }, { 0.001, 16.85, 16 },
        { 1.2e-4, 16.85, 16 }, { 1e-6, 33.7, 32 },   { 1e-9, 59.6, 32 },
    };
    for (int i = 0; i < 6; i++) {
        bg_filter *filter = cuckoo_for(1000000, wanted[i].rate, 0);
        bg_filter_info info = info_of(filter);
        CHECK_EQ(info.k, wanted[i].k);
        CHECK(info.design_rate <= wanted[i].rate);
        CHECK_NEAR((double)info.bits / 1e6, wanted[i].bits, 0.01);
        bg_filter_free(filter);
    }
}

/* ---- Capacity --------------------------------------------------------------------- */

/* A filter of any size accepts as many keys as it was created for. */
TEST(cuckoo__takes_what_it_was_made_for)
{
    unsigned refused = 0, filters = 0;
    for (uint64_t items = 1; items < 3000; items += 1 + items / 8) {
        for (int w = 0; w < WIDTHS; w++) {
            bg_spec spec = BG_SPEC_INIT;
            spec.kind = BG_KIND_CUCKOO;
            spec.k = widths[w];
            spec.items = items;
            spec.rate = 0.05;
            bg_filter *filter = must_create(&spec);
            bool full = false;
            for (uint64_t i = 0; i < items; i++) {
                full |= bg_filter_add_hash(filter, check_random(), NULL) != BG_OK;
            }
            refused += full;
            filters++;
            bg_filter_free(filter);
        }
    }
    CHECK(refused <= filters / 100);
}

TEST(cuckoo__ninety_five_percent_of_any_number_of_buckets)
{
    const uint64_t slots[] = { 5000, 65536, 65540, 99999 };
    for (int w = 0; w < WIDTHS; w++) {
        for (int s = 0; s < 4; s++) {
            uint32_t k = widths[w];
            bg_filter *filter = cuckoo_of(units_for(slots[s], k), k, 0);
            bg_filter_info info = info_of(filter);
            uint64_t n = (uint64_t)(0.95 * 4 * (double)buckets_of(info.units, k));
            for (uint64_t i = 0; i < n; i++) {
                CHECK_OK(bg_filter_add_u64(filter, i, NULL));
            }
            for (uint64_t i = 0; i < n; i++) {
                CHECK(bg_filter_may_contain_u64(filter, i));
            }
            CHECK_EQ(info_of(filter).ones, n);
            bg_filter_free(filter);
        }
    }
}

TEST(cuckoo__a_refused_insert_changes_nothing)
{
    for (int w = 0; w < WIDTHS; w++) {
        for (int m = 0; m < 2; m++) {
            uint64_t n = 0;
            bool is_new = false;
            bg_filter *filter =
                cuckoo_of(units_for(4000, widths[w]), widths[w], modes[m]);
            while (bg_filter_add_u64(filter, n, NULL) == BG_OK) {
                n++;
            }
            uint64_t *words = words_of(filter);
            /* Retrying the failed add fails again and changes nothing. */
            for (uint64_t i = 0; i < 50; i++) {
                CHECK_EQ(bg_filter_add_u64(filter, n, &is_new), BG_EFULL);
                CHECK(same_words(filter, words));
            }
            CHECK_EQ(info_of(filter).ones, n);
            CHECK(!info_of(filter).overflowed);
            for (uint64_t i = 0; i < n; i++) {
                CHECK(bg_filter_may_contain_u64(filter, i));
            }
            size_t done = 99, added = 99;
            CHECK_EQ(
                bg_filter_add_many(filter, bg_keys_u64(&n, 1), NULL, &done, &added),
                BG_EFULL);
            CHECK_EQ(done + added, 0);
            for (uint64_t i = 0; i < n / 20; i++) { /* still answers correctly */
                CHECK_OK(bg_filter_remove_u64(filter, i));
            }
            CHECK_OK(bg_filter_add_u64(filter, n, NULL));
            free(words);
            bg_filter_free(filter);
        }
    }
}

static void check_overflowed(const bg_filter *filter)
{
    static uint64_t hashes[1000], maybe[BG_BITMAP_WORDS(1000)];
    random_hashes(hashes, 1000);
    for (int i = 0; i < 1000; i++) {
        CHECK(bg_filter_may_contain_hash(filter, hashes[i]));
    }
    CHECK_EQ(bg_filter_may_contain_many(filter, bg_keys_hashes(hashes, 1000), maybe),
             1000);
    CHECK_EQ(bg_filter_count_hash(filter, hashes[0]), UINT64_MAX);
    bg_filter_info info = info_of(filter);
    CHECK(info.overflowed);
    CHECK(info.rate == 1);
}

TEST(cuckoo__an_add_without_room_makes_everything_maybe)
{
    for (int w = 0; w < WIDTHS; w++) {
        for (int m = 0; m < 2; m++) {
            bg_filter *filter =
                cuckoo_of(units_for(2000, widths[w]), widths[w], modes[m]);
            bg_filter *copy = NULL;
            uint64_t n = 0;
            while (bg_filter_add_u64(filter, n, NULL) == BG_OK) {
                n++;
            }
            bool seen = bg_filter_may_contain_u64(filter, n);
            CHECK_EQ(added_u64(filter, n), !seen);
            check_overflowed(filter);
            CHECK_OK(bg_filter_copy(filter, &copy, NULL));
            check_overflowed(copy);
            bg_filter_free(copy);
            /* An overflowed filter reports no key as new. */
            CHECK(!added_u64(filter, 123456789));
            CHECK_EQ(bg_filter_remove_u64(filter, 123456789), BG_OK);
            check_overflowed(filter);
            bg_filter_clear(filter);
            CHECK(!bg_filter_may_contain_u64(filter, n));
            CHECK(!info_of(filter).overflowed);
            CHECK(added_u64(filter, n));
            bg_filter_free(filter);
        }
    }
}

/* ---- Copies ----------------------------------------------------------------------- */

/* Returns a hash whose two buckets are the same if `one` is set, and different otherwise. */
static uint64_t hash_with(uint64_t units, uint32_t k, bool one)
{
    for (;;) {
        uint64_t hash = check_random();
        struct home home = home_of(hash, k, buckets_of(units, k));
        if ((home.first == home.second) == one) {
            return hash;
        }
    }
}

static void check_copies(uint32_t k, uint32_t flags, bool one)
{
    uint64_t units = 11, hash = hash_with(units, k, one), most = one ? 4 : 8;
    bg_filter *filter = cuckoo_of(units, k, flags);
    bool is_new = false;
    for (uint64_t i = 0; i < most; i++) {
        CHECK_OK(bg_filter_add_hash(filter, hash, &is_new));
        CHECK_EQ(is_new, i == 0);
        CHECK_EQ(bg_filter_count_hash(filter, hash), i + 1);
    }
    uint64_t *words = words_of(filter);
    CHECK_EQ(bg_filter_add_hash(filter, hash, &is_new), BG_EFULL);
    CHECK(!is_new && same_words(filter, words));
    /* Every successful add stored one copy, and every copy can be removed. */
    for (uint64_t i = most; i > 0; i--) {
        CHECK(bg_filter_may_contain_hash(filter, hash));
        CHECK_OK(bg_filter_remove_hash(filter, hash));
    }
    CHECK(!bg_filter_may_contain_hash(filter, hash));
    CHECK_EQ(bg_filter_remove_hash(filter, hash), BG_ENOTFOUND);
    /* Copies beyond the maximum are counted but not stored, so the key is never lost. */
    for (uint64_t i = 0; i < most + 3; i++) {
        CHECK_EQ(added_hash(filter, hash), i == 0);
    }
    CHECK(same_words(filter, words));
    CHECK_EQ(info_of(filter).saturated, 3);
    CHECK(!info_of(filter).overflowed);
    for (uint64_t i = 0; i < most + 2; i++) {
        CHECK_OK(bg_filter_remove_hash(filter, hash));
        CHECK(bg_filter_may_contain_hash(filter, hash));
    }
    CHECK(same_words(filter, words));
    /* Other keys are removed normally. */
    uint64_t other = hash_with(units, k, false);
    if (bg_filter_count_hash(filter, other) == 0
        && bg_filter_add_hash(filter, other, NULL) == BG_OK) {
        CHECK_OK(bg_filter_remove_hash(filter, other));
        CHECK(!bg_filter_may_contain_hash(filter, other));
    }
    free(words);
    bg_filter_free(filter);
}

TEST(cuckoo__copies_of_a_key_are_bounded)
{
    for (int w = 0; w < WIDTHS; w++) {
        for (int m = 0; m < 2; m++) {
            check_copies(widths[w], modes[m], false);
            check_copies(widths[w], modes[m], true);
        }
    }
}

/* Fills a filter and then adds one of its keys again until there is no space for another copy.
 * Afterwards, no key is lost, no matter what is removed, and the filter still rejects most absent
 * keys. */
TEST(cuckoo__a_dropped_copy_ends_removes)
{
    for (int w = 0; w < WIDTHS; w++) {
        for (int m = 0; m < 2; m++) {
            uint64_t n = 0, key = 0;
            bg_filter *filter =
                cuckoo_of(units_for(2000, widths[w]), widths[w], modes[m]);
            bg_filter *copy = NULL;
            /* Adds keys until many inserts in a row have failed. */
            while (n - key < 10000) {
                if (bg_filter_add_u64(filter, n, NULL) == BG_OK) {
                    key = n;
                }
                n++;
            }
            CHECK_EQ(bg_filter_remove_u64(filter, key), BG_OK);
            CHECK_OK(bg_filter_add_u64(filter, key, NULL));
            uint64_t ones = info_of(filter).ones;
            for (uint64_t i = 0; !info_of(filter).saturated && i < 100; i++) {
                CHECK(!added_u64(filter, key));
            }
            CHECK_EQ(info_of(filter).saturated, 1);
            CHECK(!info_of(filter).overflowed && info_of(filter).ones >= ones);
            CHECK_OK(bg_filter_copy(filter, &copy, NULL));
            for (int i = 0; i < 20; i++) {
                CHECK_OK(bg_filter_remove_u64(filter, key));
                CHECK_OK(bg_filter_remove_u64(copy, key));
                CHECK(bg_filter_may_contain_u64(filter, key));
                CHECK(bg_filter_may_contain_u64(copy, key));
            }
            CHECK(bg_filter_equal(filter, copy));
            CHECK(measured_rate(filter, 10000) < 0.05);
            bg_filter_free(copy);
            bg_filter_free(filter);
        }
    }
}

/* ---- Floods ----------------------------------------------------------------------- */

/* Many different keys share a small set of buckets. The keys that fit are inserted. The others are
 * refused without a search of the whole table, and nothing else changes. */
static void check_flood(uint32_t k, uint64_t from, uint64_t to, uint64_t room)
{
    uint64_t units = units_for(4000, k), buckets = buckets_of(units, k), in = 0;
    bg_filter *filter = cuckoo_of(units, k, 0);
    uint64_t *words = NULL;
    size_t refused = 0, tries = 0;
    while (refused < 300 && tries < 4000000) {
        uint64_t bucket = from + check_random_below(to - from);
        uint64_t hash = hash_in(bucket, buckets, check_random());
        struct home home = home_of(hash, k, buckets);
        tries++;
        if (home.second < from || home.second >= to) {
            continue;
        }
        bg_err err = bg_filter_add_hash(filter, hash, NULL);
        if (err) {
            CHECK_EQ(err, BG_EFULL);
            words = words ? words : words_of(filter);
            refused++;
        } else {
            CHECK(words == NULL || !same_words(filter, words));
            free(words);
            words = NULL;
            in++;
        }
        CHECK(words == NULL || same_words(filter, words));
    }
    CHECK_EQ(refused, 300);
    CHECK(in <= room && in + in / 4 >= room);
    CHECK_EQ(info_of(filter).ones, in);
    free(words);
    bg_filter_free(filter);
}

TEST(cuckoo__eviction_loops_end)
{
    for (int w = 0; w < WIDTHS; w++) {
        check_flood(widths[w], 500, 502, 8);
        check_flood(widths[w], 100, 116, 64);
    }
}

TEST(cuckoo__a_flood_of_one_key_is_refused_at_once)
{
    enum { FLOOD = 200000 };
    for (int w = 0; w < WIDTHS; w++) {
        bg_filter *filter = cuckoo_of(units_for(4000, widths[w]), widths[w], 0);
        uint64_t hash = hash_with(filter->core.units, widths[w], false);
        unsigned accepted = 0;
        for (int i = 0; i < FLOOD; i++) {
            accepted += bg_filter_add_hash(filter, hash, NULL) == BG_OK;
        }
        CHECK_EQ(accepted, 8);
        CHECK_EQ(slots_in_use(filter), 8);
        bg_filter_free(filter);
    }
}

/* ---- Batches, key types, and whole filters ----------------------------------------- */

static void check_batches(uint32_t k, uint32_t flags, bool asks)
{
    enum { KEYS = 1900, ALL = 3000 };
    static uint64_t keys[ALL], bitmap[BG_BITMAP_WORDS(ALL)];
    uint64_t units = units_for(2100, k);
    bg_filter *one = cuckoo_of(units, k, flags), *many = cuckoo_of(units, k, flags);
    many->core.adds_prefetch = many->core.lookups_prefetch = asks;
    random_hashes(keys, ALL);
    keys[70] = keys[69];
    keys[500] = keys[3];
    size_t first = 0;
    for (size_t n = 0; first < KEYS; first += n, n = n * 3 + 1) {
        n = n < KEYS - first ? n : KEYS - first;
        size_t news = 0;
        size_t count = added_many(many, bg_keys_u64(keys + first, n), bitmap);
        for (size_t i = 0; i < n; i++) {
            bool is_new = added_u64(one, keys[first + i]);
            CHECK_EQ(bitmap[i / 64] >> (i % 64) & 1, is_new);
            news += is_new;
        }
        CHECK_EQ(count, news);
    }
    CHECK(bg_filter_equal(one, many));
    CHECK_EQ(info_of(one).ones, KEYS);
    size_t maybe = bg_filter_may_contain_many(many, bg_keys_u64(keys, ALL), bitmap),
           ones = 0;
    for (size_t i = 0; i < ALL; i++) {
        bool has = bg_filter_may_contain_u64(one, keys[i]);
        CHECK(has || i >= KEYS);
        CHECK_EQ(bitmap[i / 64] >> (i % 64) & 1, has);
        ones += has;
    }
    CHECK_EQ(maybe, ones);
    bg_filter_clear(many);
    size_t done = 0, added = 0;
    CHECK_OK(bg_filter_add_many(many, bg_keys_u64(keys, KEYS), NULL, &done, &added));
    CHECK_EQ(done, KEYS);
    CHECK(bg_filter_equal(one, many));
    CHECK_EQ(bg_filter_remove_many(many, bg_keys_u64(keys, KEYS), bitmap), KEYS);
    CHECK_EQ(slots_in_use(many), 0);
    bg_filter_free(one);
    bg_filter_free(many);
}

TEST(cuckoo__batches_do_what_single_calls_do)
{
    for (int w = 0; w < WIDTHS; w++) {
        for (int m = 0; m < 2; m++) {
            check_batches(widths[w], modes[m], false);
            check_batches(widths[w], modes[m], true);
        }
    }
}

TEST(cuckoo__three_forms_of_a_key_are_one)
{
    bg_filter *filter = cuckoo_for(1000, 0.001, 0);
    uint64_t key = bgi_le64(0x1122334455667788u);
    uint64_t hash = bg_hash_u64(bg_filter_hasher(filter), 0x1122334455667788u);
    CHECK_OK(bg_filter_add(filter, &key, 8, NULL));
    CHECK(bg_filter_may_contain_u64(filter, 0x1122334455667788u));
    CHECK(bg_filter_may_contain_hash(filter, hash));
    CHECK_EQ(bg_filter_count(filter, &key, 8), 1);
    CHECK_EQ(bg_filter_count_u64(filter, 0x1122334455667788u), 1);
    CHECK_OK(bg_filter_remove_hash(filter, hash));
    CHECK_EQ(bg_filter_remove(filter, &key, 8), BG_ENOTFOUND);
    CHECK(added(filter, &key, 8));
    CHECK_OK(bg_filter_remove_u64(filter, 0x1122334455667788u));
    CHECK(!bg_filter_may_contain(filter, &key, 8));
    bg_filter_free(filter);
}

TEST(cuckoo__a_copy_is_the_same)
{
    for (int w = 0; w < WIDTHS; w++) {
        for (int m = 0; m < 2; m++) {
            bg_filter *filter = cuckoo_of(333, widths[w], modes[m]), *copy = NULL;
            uint64_t hash = hash_with(333, widths[w], false);
            for (uint64_t i = 0; i < 1000; i++) {
                CHECK_OK(bg_filter_add_u64(filter, i, NULL));
            }
            uint64_t *all_in = words_of(filter);
            for (int i = 0; i < 9; i++) {
                added_hash(filter, hash);
            }
            CHECK(!same_words(filter, all_in));
            free(all_in);
            CHECK_OK(bg_filter_copy(filter, &copy, NULL));
            CHECK(bg_filter_equal(filter, copy));
            bg_filter_info a = info_of(filter), b = info_of(copy);
            CHECK_EQ(a.ones, b.ones);
            CHECK_EQ(a.saturated, b.saturated);
            CHECK_EQ(a.overflowed, b.overflowed);
            CHECK_OK(bg_filter_add_u64(copy, 1000, NULL));
            CHECK(!bg_filter_equal(filter, copy));
            CHECK_EQ(info_of(filter).ones + 1, info_of(copy).ones);
            CHECK(bg_filter_may_contain_u64(filter, 5));
            bg_filter_free(filter);
            bg_filter_free(copy);
        }
    }
}

/* ---- Bad arguments ---------------------------------------------------------------- */

static void check_refused(const bg_spec *spec, bg_err code, const char *what,
                          const char *expected)
{
    bg_filter *filter = NULL;
    bg_errinfo why;
    CHECK_EQ(bg_filter_create(spec, &filter, &why), code);
    CHECK(filter == NULL);
    CHECK_STR(why.what, what);
    CHECK(strstr(why.expected, expected) != NULL);
}

TEST(cuckoo__bad_arguments)
{
    bg_spec good = BG_SPEC_INIT, spec;
    good.kind = BG_KIND_CUCKOO;
    good.items = 1000;
    good.rate = 0.01;
    const uint32_t no_k[] = { 1, 7, 9, 13, 31, 33, UINT32_MAX };
    for (int i = 0; i < 7; i++) {
        spec = good;
        spec.k = no_k[i];
        check_refused(&spec, BG_EINVAL, "k", "8, 12, 16, 32 for a cuckoo filter");
    }
    spec = good;
    spec.folds = 1;
    check_refused(&spec, BG_ENOTSUP, "folds", "0");
    spec = good;
    spec.width = 4;
    check_refused(&spec, BG_EINVAL, "width, flags", "width");
    spec = good;
    spec.flags = BG_SPEC_SCATTERED;
    check_refused(&spec, BG_EINVAL, "width, flags", "width");
    spec = good;
    spec.flags = BG_SPEC_ONE_WINNER;
    check_refused(&spec, BG_ENOTSUP, "kind", "register");
    spec = good;
    spec.items = UINT64_C(1) << 40;
    check_refused(&spec, BG_ENOTSUP, "rate", "cuckoo");
    spec = good;
    spec.rate = 0;
    spec.bits_per_key = 8;
    check_refused(&spec, BG_EINVAL, "bits_per_key", "enough space");
    spec.bits_per_key = 0;
    spec.bytes = 1000;
    check_refused(&spec, BG_EINVAL, "bytes", "enough space");
    spec.bytes = 7;
    check_refused(&spec, BG_EINVAL, "bytes", "enough space");
    spec = good;
    spec.k = 12;
    spec.rate = 0;
    spec.bytes = 23;
    spec.items = 0;
    check_refused(&spec, BG_EINVAL, "bytes", "24 to ");
}

TEST(cuckoo__what_it_cannot_do)
{
    bg_filter *a = cuckoo_of(100, 12, 0), *b = cuckoo_of(100, 12, 0), *half = NULL;
    bg_overlap overlap;
    CHECK_EQ(bg_filter_merge(a, b, NULL), BG_ENOTSUP);
    CHECK_EQ(bg_filter_fold(a, 1, &half, NULL), BG_ENOTSUP);
    CHECK_EQ(bg_filter_overlap(a, b, &overlap, NULL), BG_ENOTSUP);
    CHECK(half == NULL);
    CHECK_EQ(bg_filter_add_u64(NULL, 1, NULL), BG_EINVAL);
    bg_filter_free(a);
    bg_filter_free(b);
}

TEST(cuckoo__plans_say_what_will_be)
{
    bg_plan_request request = BG_PLAN_REQUEST_INIT;
    bg_plan plan;
    request.spec.kind = BG_KIND_CUCKOO;
    request.spec.items = 100000;
    request.spec.rate = 0.002;
    CHECK_OK(bg_plan_compute(&request, &plan, NULL));
    CHECK_EQ(plan.kind, BG_KIND_CUCKOO);
    CHECK_EQ(plan.k, 12);
    CHECK_EQ(plan.lines_per_lookup, 2);
    CHECK_NEAR(plan.bits_per_key, 12.64, 0.005);
    CHECK_NEAR(plan.fill, 0.95, 0.005);
    CHECK(plan.rate_2x == 1 && plan.rate_10x == 1); /* the additional keys do not fit */
}

/* ---- Failed allocations ----------------------------------------------------------- */

TEST(cuckoo__without_memory_nothing_stays)
{
    struct counting c;
    for (size_t fail = 1; fail <= 3; fail++) {
        bg_spec spec = BG_SPEC_INIT;
        bg_filter *filter = NULL, *copy = NULL;
        counting_start(&c);
        c.fail_at = fail;
        spec.kind = BG_KIND_CUCKOO;
        spec.items = 1000;
        spec.rate = 0.01;
        spec.allocator = &c.hooks;
        bg_err err = bg_filter_create(&spec, &filter, NULL);
        CHECK_EQ(err, fail == 1 ? BG_ENOMEM : BG_OK);
        if (!err) {
            CHECK(added_u64(filter, 1));
            CHECK_EQ(bg_filter_copy(filter, &copy, NULL),
                     fail == 2 ? BG_ENOMEM : BG_OK);
            CHECK_EQ(copy != NULL, fail != 2);
            CHECK(bg_filter_may_contain_u64(filter, 1));
        }
        bg_filter_free(filter);
        bg_filter_free(copy);
        CHECK_EQ(c.live + c.mistakes, 0);
    }
}

/* ---- Threads ---------------------------------------------------------------------- */

/*
 * Members stay present throughout the test. Writers cause the fingerprints of members to move: they
 * fill the filter with other keys until every insert relocates a fingerprint, remove those keys
 * again, and add and remove copies of members. Readers look up members with every lookup function.
 */
enum { MEMBERS = 200, STRANGERS = 100, READERS = 2, WRITERS = 2 };

struct crowd {
    bg_filter *filter;
    bool done; /* atomic */
    size_t missed;
};

struct crowd_member {
    struct crowd *crowd;
    pthread_t thread;
    uint64_t id;
    size_t rounds;
};

static void *crowd_write(void *argument)
{
    struct crowd_member *me = argument;
    bg_filter *filter = me->crowd->filter;
    uint64_t random = me->id, first = 1000 * (me->id + 1);
    for (size_t r = 0; r < me->rounds; r++) {
        bool in[STRANGERS];
        for (uint64_t i = 0; i < STRANGERS; i++) {
            in[i] = bg_filter_add_u64(filter, first + i, NULL) == BG_OK;
            uint64_t member = check_random_next(&random) % MEMBERS;
            if (bg_filter_add_u64(filter, member, NULL) == BG_OK) {
                CHECK_OK(bg_filter_remove_u64(filter, member));
            }
        }
        for (uint64_t i = 0; i < STRANGERS; i++) {
            if (in[i]) {
                CHECK_OK(bg_filter_remove_u64(filter, first + i));
            }
        }
    }
    return NULL;
}

static size_t crowd_look_all(const bg_filter *filter, const uint64_t *keys)
{
    uint64_t bitmap[BG_BITMAP_WORDS(MEMBERS)];
    size_t found = 0;
    for (uint64_t i = 0; i < MEMBERS; i++) {
        found += bg_filter_may_contain_u64(filter, i);
        found += bg_filter_count_u64(filter, i) >= 1;
    }
    return found
           + bg_filter_may_contain_many(filter, bg_keys_u64(keys, MEMBERS), bitmap);
}

static void *crowd_read(void *argument)
{
    struct crowd_member *me = argument;
    const bg_filter *filter = me->crowd->filter;
    uint64_t keys[MEMBERS];
    size_t missed = 0, looks = 0;
    for (uint64_t i = 0; i < MEMBERS; i++) {
        keys[i] = i;
    }
    while (!__atomic_load_n(&me->crowd->done, __ATOMIC_ACQUIRE)) {
        missed += 3 * MEMBERS - crowd_look_all(filter, keys);
        if (me->id == 0 && looks++ % 8 == 0) {
            bg_filter *copy = NULL;
            CHECK_OK(bg_filter_copy(filter, &copy, NULL));
            missed += 3 * MEMBERS - crowd_look_all(copy, keys);
            bg_filter_free(copy);
        }
        CHECK(!info_of(filter).overflowed);
    }
    __atomic_fetch_add(&me->crowd->missed, missed, __ATOMIC_RELAXED);
    return NULL;
}

static void check_crowd(uint32_t k, size_t rounds)
{
    struct crowd crowd = { .filter = cuckoo_of(units_for(360, k), k, 0) };
    struct crowd_member team[READERS + WRITERS];
    for (uint64_t i = 0; i < MEMBERS; i++) {
        CHECK_OK(bg_filter_add_u64(crowd.filter, i, NULL));
    }
    for (unsigned i = 0; i < READERS + WRITERS; i++) {
        team[i] = (struct crowd_member){ .crowd = &crowd, .id = i, .rounds = rounds };
        CHECK_EQ(pthread_create(&team[i].thread, NULL,
                                i < READERS ? crowd_read : crowd_write, &team[i]),
                 0);
    }
    for (unsigned i = READERS; i < READERS + WRITERS; i++) {
        CHECK_EQ(pthread_join(team[i].thread, NULL), 0);
    }
    __atomic_store_n(&crowd.done, true, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < READERS; i++) {
        CHECK_EQ(pthread_join(team[i].thread, NULL), 0);
    }
    CHECK_EQ(crowd.missed, 0);
    CHECK_EQ(info_of(crowd.filter).ones, MEMBERS);
    CHECK_EQ(slots_in_use(crowd.filter), MEMBERS);
    bg_filter_free(crowd.filter);
}

TEST(cuckoo__readers_miss_nothing_beside_writers)
{
    for (int w = 0; w < WIDTHS; w++) {
        check_crowd(widths[w], (CHECK_SANITIZED ? 60 : 600) * check_scale());
    }
}

/*
 * One key is present at least once at all times. A thread repeatedly adds a copy to one of its
 * buckets and then removes the copy in the other bucket, so that the key moves between its two
 * buckets without being relocated. (A removal tries the first bucket of the hash first, and the
 * first bucket of the mirrored hash is the second bucket of the original hash.)
 */
struct dance {
    bg_filter *filter;
    uint64_t hash, mirrored;
    bool done; /* atomic */
    size_t missed;
};

static void *dance_read(void *argument)
{
    struct dance *dance = argument;
    uint64_t both[2] = { dance->hash, dance->mirrored };
    size_t missed = 0;
    while (!__atomic_load_n(&dance->done, __ATOMIC_ACQUIRE)) {
        for (int i = 0; i < 100; i++) {
            missed += !bg_filter_may_contain_hash(dance->filter, both[i % 2]);
            missed += bg_filter_count_hash(dance->filter, both[i % 2]) == 0;
            missed += 2
                      - bg_filter_may_contain_many(dance->filter,
                                                   bg_keys_hashes(both, 2), NULL);
        }
    }
    __atomic_fetch_add(&dance->missed, missed, __ATOMIC_RELAXED);
    return NULL;
}

static void check_dance(uint32_t k)
{
    uint64_t units = 9, buckets = buckets_of(units, k);
    struct dance dance = { .filter = cuckoo_of(units, k, 0),
                           .hash = hash_with(units, k, false) };
    pthread_t readers[READERS];
    dance.mirrored =
        hash_in(home_of(dance.hash, k, buckets).second, buckets, dance.hash);
    CHECK_OK(bg_filter_add_hash(dance.filter, dance.hash, NULL));
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ(pthread_create(&readers[i], NULL, dance_read, &dance), 0);
    }
    for (size_t i = 0; i < (CHECK_SANITIZED ? 20000 : 300000) * check_scale(); i++) {
        CHECK_OK(bg_filter_add_hash(dance.filter, dance.hash, NULL));
        CHECK_OK(
            bg_filter_remove_hash(dance.filter, i % 2 ? dance.mirrored : dance.hash));
    }
    __atomic_store_n(&dance.done, true, __ATOMIC_RELEASE);
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ(pthread_join(readers[i], NULL), 0);
    }
    CHECK_EQ(dance.missed, 0);
    CHECK_EQ(slots_in_use(dance.filter), 1);
    bg_filter_free(dance.filter);
}

TEST(cuckoo__readers_miss_no_key_whose_copies_change)
{
    for (int w = 0; w < WIDTHS; w++) {
        check_dance(widths[w]);
    }
}

/* Several threads fill one filter in batches. Afterwards, every key is present exactly once. */
struct share {
    bg_filter *filter;
    pthread_t thread;
    uint64_t first;
};

enum { SHARE = 5000, SHARES = 3 };

static void *share_add(void *argument)
{
    struct share *share = argument;
    uint64_t keys[SHARE];
    for (uint64_t i = 0; i < SHARE; i++) {
        keys[i] = share->first + i;
    }
    (void)added_many(share->filter, bg_keys_u64(keys, SHARE), NULL);
    CHECK_EQ(bg_filter_may_contain_many(share->filter, bg_keys_u64(keys, SHARE), NULL),
             SHARE);
    return NULL;
}

TEST(cuckoo__threads_fill_one_filter)
{
    for (int w = 0; w < WIDTHS; w++) {
        struct share shares[SHARES];
        uint32_t k = widths[w];
        bg_filter *filter = cuckoo_of(units_for(SHARE * SHARES * 20 / 19, k), k, 0);
        for (uint64_t i = 0; i < SHARES; i++) {
            shares[i] = (struct share){ .filter = filter, .first = i * SHARE };
            CHECK_EQ(pthread_create(&shares[i].thread, NULL, share_add, &shares[i]), 0);
        }
        for (int i = 0; i < SHARES; i++) {
            CHECK_EQ(pthread_join(shares[i].thread, NULL), 0);
        }
        CHECK_EQ(info_of(filter).ones, SHARE * SHARES);
        CHECK(!info_of(filter).overflowed);
        for (uint64_t i = 0; i < SHARE * SHARES; i++) {
            CHECK(bg_filter_may_contain_u64(filter, i));
        }
        bg_filter_free(filter);
    }
}
