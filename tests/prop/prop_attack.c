/*
 * prop_attack.c - tests attacks on behavior that only some kinds have: refusing, removing,
 * counting, growing, forgetting and building.
 *
 * As in prop_adversary.c, the attacker knows this library. With the hash profile `fast`, the
 * attacker also knows the hash function and the seed; with `keyed`, the attacker guesses a secret
 * and uses it for the attack. Attacks (Filic and others, "Deletions and dishonesty", 2024; Gerbet
 * and others, 2015):
 *
 *   crowding    only keys whose hashes are in one half of the hash range
 *   eviction    cuckoo: keys that share a few buckets; quotient: keys in the last slots
 *   flood       one key added repeatedly; counters and counts that only increase
 *   deletion    removing keys that were never added: chosen false positives, and twins, which have
 *               the same hash as a member
 *   growth      scalable: more keys than fit in the memory limit
 *   oblivion    window: adds that push all other keys out
 *   building    static kinds: one key added many times, and key sets for which building is hard
 *
 * The following must hold even for `fast`: other users' keys are lost only if keys that were never
 * added are removed; a refused call changes nothing, and the filter keeps working; memory is
 * bounded; and every call terminates. For `keyed`, the attacks must have no more effect than random
 * keys.
 */
#include "filter/handle.h"
#include "prop/adversary.h"
#include "support/adds.h"

#include <math.h>
#include <stdio.h>

static const bg_hash_profile both_profiles[] = { BG_HASH_FAST, BG_HASH_KEYED };

/* ---- Tools --------------------------------------------------------------------------- */

static bg_hasher attacker_hasher(bg_hash_profile profile)
{
    struct victim_spec guess;
    bg_hasher hasher;
    victim_init(&guess, 0, 1, profile, 7);
    CHECK_OK(bg_hasher_init(&hasher, &guess.spec.hash, NULL));
    return hasher;
}

/* Finds n keys whose hashes, as computed by the attacker, are at least `least` if `above` is true,
 * and below `least` otherwise. */
static void attack_range(bg_hash_profile profile, uint64_t least, bool above,
                         uint64_t *keys, size_t n)
{
    bg_hasher hasher = attacker_hasher(profile);
    for (size_t found = 0; found < n;) {
        uint64_t key = check_random();
        if ((bg_hash_u64(&hasher, key) >= least) == above) {
            keys[found++] = key;
        }
    }
    bg_hasher_wipe(&hasher);
}

static bg_filter *victim_empty(unsigned sample, bg_hash_profile profile, uint64_t items)
{
    struct victim_spec v;
    victim_init(&v, sample, items, profile, 7);
    return must_create(&v.spec);
}

static size_t inserted(bg_filter *filter, const uint64_t *keys, size_t n)
{
    size_t in = 0;
    for (size_t i = 0; i < n; i++) {
        bg_err err = bg_filter_add_u64(filter, keys[i], NULL);
        CHECK(err == BG_OK || err == BG_EFULL);
        in += err == BG_OK;
    }
    return in;
}

static size_t missing(const bg_filter *filter, const uint64_t *keys, size_t n)
{
    return n - bg_filter_may_contain_many(filter, bg_keys_u64(keys, n), NULL);
}

/* ---- Crowding ------------------------------------------------------------------------- */

/* Returns the false-positive rate of filters whose keys all have hashes in the lower half of the
 * hash range, as computed by the attacker. */
static double crowded(unsigned sample, bg_hash_profile profile, unsigned filters,
                      struct measure *m, double *predicted)
{
    static uint64_t keys[ITEMS];
    for (unsigned f = 0; f < filters; f++) {
        if (f % 16 == 0) {
            attack_range(profile, UINT64_MAX / 2, false, keys, ITEMS);
        }
        bg_filter *victim = victim_full(sample, profile, 7, keys, ITEMS, predicted);
        CHECK_EQ(missing(victim, keys, ITEMS), 0);
        adversary_probe(victim, 50000, m);
        bg_filter_free(victim);
    }
    return m->hits / m->probes;
}

/* In kinds that derive positions from the high bits of a hash, one region gets too many keys.
 * attack__builder_crowding tests static kinds. */
TEST(attack__crowding)
{
    for (unsigned s = KIND_COUNT; s < SAMPLES; s++) {
        if (sample_is_static(s)) {
            continue;
        }
        struct measure fast = { 0 }, keyed = { 0 };
        struct measure_summary summary = { 0 };
        double predicted = 0;
        unsigned filters = adversary_filters() / 2;
        double broken = crowded(s, BG_HASH_FAST, 2, &fast, NULL);
        double rate = crowded(s, BG_HASH_KEYED, filters, &keyed, &predicted);
        printf("= crowding of %s: predicted %.3f%%, fast x %.1f, keyed %.3f%%\n",
               samples[s].name, 100 * predicted, broken / predicted, 100 * rate);
        measure_enter(&summary, "keyed, crowded", &keyed, predicted);
        CHECK_EQ(summary.bad, 0);
        bool scattered = samples[s].flags & BG_SPEC_SCATTERED;
        CHECK(sample_can(s, BG_TRAIT_FILLS_UP) || scattered
              || broken > 1.5 * predicted);
    }
}

/* ---- Eviction -------------------------------------------------------------------------- */

enum { EVICTED = 1000, FEW_WORDS = 16 };

/* Returns true if all possible positions of a key are in the first FEW_WORDS words of a filter. To
 * find the positions, fills the empty filter `scratch` with copies of the key until no more fit,
 * and then clears the filter. */
static bool attack_fits(bg_filter *scratch, uint64_t key)
{
    const uint64_t *words = bgi_filter_words(scratch);
    bool fits = true;
    while (bg_filter_add_u64(scratch, key, NULL) == BG_OK) {
    }
    for (size_t w = FEW_WORDS; w < bg_filter_size_bytes(scratch) / 8; w++) {
        fits &= words[w] == 0;
    }
    bg_filter_clear(scratch);
    return fits;
}

/* Adds keys that share a few buckets, which soon fill up. Further keys for these buckets must be
 * refused without changing the filter, and most other keys must still fit. */
TEST(attack__cuckoo_evictions)
{
    static uint64_t keys[EVICTED], others[EVICTED / 2];
    for (unsigned p = 0; p < 2; p++) {
        bg_filter *replica =
            victim_empty(sample_of(BG_KIND_CUCKOO), both_profiles[p], EVICTED);
        bg_filter *victim =
            victim_empty(sample_of(BG_KIND_CUCKOO), both_profiles[p], EVICTED);
        bg_filter *before = NULL;
        for (size_t found = 0; found < EVICTED / 2;) {
            uint64_t key = check_random();
            if (attack_fits(replica, key)) {
                keys[found++] = key;
            }
        }
        size_t in = 0;
        for (size_t i = 0; i < EVICTED / 2; i++) {
            bool full = in < i;
            if (full) {
                CHECK_OK(bg_filter_copy(victim, &before, NULL));
            }
            bool is_in = inserted(victim, &keys[i], 1);
            CHECK(!full || is_in || bg_filter_equal(victim, before));
            CHECK(!is_in || bg_filter_may_contain_u64(victim, keys[i]));
            in += is_in;
            bg_filter_free(before);
            before = NULL;
        }
        random_hashes(others, EVICTED / 2);
        size_t more = inserted(victim, others, EVICTED / 2);
        printf("= evictions from cuckoo, %s: %zu of %d chosen keys fit, then %zu of %d "
               "other keys\n",
               bg_hash_name(both_profiles[p]), in, EVICTED / 2, more, EVICTED / 2);
        bool fast = both_profiles[p] == BG_HASH_FAST;
        CHECK(fast ? in <= 12 * FEW_WORDS && more > EVICTED / 4 : in == EVICTED / 2);
        CHECK(fast || more == EVICTED / 2);
        CHECK(!info_of(victim).overflowed);
        bg_filter_free(victim);
        bg_filter_free(replica);
    }
}

/* Adds keys that belong in the last slots, so the space after these slots is soon full. Each insert
 * moves existing entries, and must be refused if there is no space. */
TEST(attack__quotient_last_slots)
{
    static uint64_t keys[ITEMS], others[ITEMS / 4];
    for (unsigned p = 0; p < 2; p++) {
        bg_filter *victim =
            victim_empty(sample_of(BG_KIND_QUOTIENT), both_profiles[p], ITEMS);
        bg_filter *before = NULL;
        attack_range(both_profiles[p], UINT64_MAX - UINT64_MAX / 64, true, keys,
                     ITEMS / 2);
        size_t in = 0, refused = 0;
        for (size_t i = 0; i < ITEMS / 2; i++) {
            bool look = in < i && refused < 100;
            if (look) {
                CHECK_OK(bg_filter_copy(victim, &before, NULL));
            }
            if (inserted(victim, &keys[i], 1)) {
                keys[in++] = keys[i]; /* for later lookups */
            } else {
                refused++;
                CHECK(!look || bg_filter_equal(victim, before));
            }
            bg_filter_free(before);
            before = NULL;
        }
        CHECK_EQ(missing(victim, keys, in), 0);
        attack_range(both_profiles[p], UINT64_MAX / 2, false, others, ITEMS / 4);
        size_t more = inserted(victim, others, ITEMS / 4);
        CHECK_EQ(missing(victim, others, ITEMS / 4), 0);
        printf("= last slots of quotient, %s: %zu of %d chosen keys fit, then %zu of "
               "%d other keys\n",
               bg_hash_name(both_profiles[p]), in, ITEMS / 2, more, ITEMS / 4);
        CHECK_EQ(in < ITEMS / 2, both_profiles[p] == BG_HASH_FAST);
        CHECK_EQ(more, ITEMS / 4);
        CHECK(!info_of(victim).overflowed);
        CHECK_EQ(missing(victim, keys, in), 0);
        bg_filter_free(victim);
    }
}

/* Keys that belong in the same slot form a single run. All of them must be found, even while others
 * are being removed. */
TEST(attack__quotient_one_run)
{
    enum { RUN = 300, SMALL = 1000 };
    uint64_t keys[RUN];
    bg_filter *victim = victim_empty(sample_of(BG_KIND_QUOTIENT), BG_HASH_FAST, SMALL);
    attack_range(BG_HASH_FAST, UINT64_MAX >> 11, false, keys, RUN);
    CHECK_EQ(inserted(victim, keys, RUN), RUN);
    CHECK_EQ(missing(victim, keys, RUN), 0);
    for (size_t i = 0; i < RUN; i++) {
        CHECK_OK(bg_filter_remove_u64(victim, keys[i]));
        CHECK_EQ(missing(victim, keys + i + 1, RUN - i - 1), 0);
    }
    CHECK_EQ(info_of(victim).ones, 0);
    bg_filter_free(victim);
}

/* ---- Floods ------------------------------------------------------------------------------ */

enum { MEMBERS = 2000, FLOOD = 100000 };

/* For every kind that is not static, one key is added many times. Other keys must not be affected,
 * and the repeated key must use almost no space. */
TEST(attack__flood_of_one_key)
{
    static uint64_t members[MEMBERS];
    random_hashes(members, MEMBERS);
    for (unsigned s = 0; s < SAMPLES; s++) {
        if (sample_is_static(s)) {
            continue;
        }
        for (unsigned p = 0; p < 2; p++) {
            bg_filter *victim = victim_empty(s, both_profiles[p], 2 * MEMBERS);
            CHECK_EQ(inserted(victim, members, MEMBERS), MEMBERS);
            bg_filter_info before = info_of(victim);
            size_t flooded = 0;
            for (int i = 0; i < FLOOD; i++) {
                flooded += bg_filter_add_u64(victim, 42, NULL) == BG_OK;
            }
            bg_filter_info after = info_of(victim);
            CHECK_EQ(missing(victim, members, MEMBERS), 0);
            CHECK(bg_filter_may_contain_u64(victim, 42));
            CHECK(after.ones - before.ones <= 72); /* allows for a 64-bit count */
            CHECK_EQ(after.bytes, before.bytes);
            CHECK(!after.overflowed && after.rate < 2 * before.rate + 1e-3);
            if (sample_can(s, BG_TRAIT_REMOVE)) {
                for (size_t i = 0; i < flooded; i++) {
                    CHECK_OK(bg_filter_remove_u64(victim, 42));
                }
                CHECK_EQ(missing(victim, members, MEMBERS), 0);
                CHECK_EQ(info_of(victim).saturated, after.saturated);
            }
            bg_filter_free(victim);
        }
    }
}

/* Many keys are each added enough times to saturate their counters; then all of them are
 * removed. Saturated counters must keep their values, and members must not be lost. */
TEST(attack__counting_saturation)
{
    static uint64_t members[MEMBERS];
    random_hashes(members, MEMBERS);
    for (unsigned p = 0; p < 2; p++) {
        bg_filter *victim =
            victim_empty(sample_of(BG_KIND_COUNTING), both_profiles[p], 2 * MEMBERS);
        CHECK_EQ(inserted(victim, members, MEMBERS), MEMBERS);
        for (uint64_t key = 0; key < 500; key++) {
            for (int i = 0; i < 20; i++) {
                (void)added_u64(victim, key);
            }
        }
        bg_filter_info full = info_of(victim);
        CHECK(full.saturated > 100 && full.saturated <= (uint64_t)500 * full.k);
        for (uint64_t key = 0; key < 500; key++) {
            for (int i = 0; i < 20; i++) {
                CHECK_OK(bg_filter_remove_u64(victim, key));
            }
        }
        CHECK_EQ(info_of(victim).saturated, full.saturated);
        CHECK_EQ(missing(victim, members, MEMBERS), 0);
        for (size_t i = 0; i < MEMBERS; i++) {
            CHECK_OK(bg_filter_remove_u64(victim, members[i]));
            CHECK_EQ(missing(victim, members + i + 1, MEMBERS - i - 1), 0);
        }
        /* Only the saturated counters are still nonzero. */
        CHECK_EQ(info_of(victim).ones, full.saturated);
        printf("= saturation of counting, %s: %llu counters saturated permanently\n",
               bg_hash_name(both_profiles[p]), (unsigned long long)full.saturated);
        bg_filter_free(victim);
    }
}

/* ---- Deletion ------------------------------------------------------------------------------ */

/* Removes keys that were never added: keys that are false positives in a replica, or random keys.
 * Returns the number of accepted removals, and adds the number of lost members to *lost. */
static size_t deletion(unsigned sample, bg_hash_profile profile, bool chosen,
                       size_t *lost)
{
    static uint64_t members[ITEMS], found[HARVEST];
    random_hashes(members, ITEMS);
    bg_filter *victim = victim_full(sample, profile, 7, members, ITEMS, NULL);
    bg_filter *replica = victim_full(sample, profile, 7, members, ITEMS, NULL);
    size_t removed = 0;
    random_hashes(found, HARVEST);
    if (chosen) {
        attack_harvest(replica, found);
    }
    for (size_t i = 0; i < HARVEST; i++) {
        bg_err err = bg_filter_remove_u64(victim, found[i]);
        CHECK(err == BG_OK || err == BG_ENOTFOUND);
        removed += err == BG_OK;
    }
    *lost += missing(victim, members, ITEMS);
    bg_filter_free(victim);
    bg_filter_free(replica);
    return removed;
}

/* As filter.h warns, removing keys that were never added can delete members. With `fast`, keys that
 * the attacker chooses do the most damage; with `keyed`, they do no more than random keys. */
TEST(attack__deletion_of_strangers)
{
    const unsigned rounds = 8;
    for (unsigned s = 0; s < SAMPLES; s++) {
        if (!sample_can(s, BG_TRAIT_REMOVE)) {
            continue;
        }
        size_t fast = 0, keyed = 0, random = 0, lost_fast = 0, lost = 0, by_chance = 0;
        for (unsigned r = 0; r < rounds; r++) {
            fast += deletion(s, BG_HASH_FAST, true, &lost_fast);
            keyed += deletion(s, BG_HASH_KEYED, true, &lost);
            random += deletion(s, BG_HASH_KEYED, false, &by_chance);
        }
        printf(
            "= deletion from %s: of %u absent keys, %zu were removed from fast, %zu from keyed, %zu "
            "by chance; members lost %zu, %zu, %zu\n",
            samples[s].name, rounds * HARVEST, fast, keyed, random, lost_fast, lost,
            by_chance);
        CHECK(fast > rounds * HARVEST / 3 && lost_fast > 20 * lost);
        /* Allow five standard deviations of the difference, assuming Poisson counts. */
        double more = (double)keyed - (double)random;
        CHECK(more <= 5 * sqrt((double)(keyed + random) + 1));
        /* Allow more here, because one removal can affect several members. */
        double worse = (double)lost - (double)by_chance;
        CHECK(worse <= 10 * sqrt((double)(lost + by_chance) + 1));
    }
}

/* Twins are keys with the same hash. If a twin is added, it can be removed again, and the member
 * remains. Removing a twin that was never added removes the member, unless the hash is keyed. */
TEST(attack__deletion_of_twins)
{
    for (unsigned s = 0; s < SAMPLES; s++) {
        for (unsigned p = 0; p < 2 && sample_can(s, BG_TRAIT_REMOVE); p++) {
            bool fast = both_profiles[p] == BG_HASH_FAST;
            bg_filter *victim = victim_empty(s, both_profiles[p], MEMBERS);
            unsigned char member[32], twin[32];
            forge_key(member, 7, 0);
            CHECK_OK(bg_filter_add(victim, member, 32, NULL));
            for (uint64_t i = 1; i <= 1000; i++) {
                forge_key(twin, 7, i);
                CHECK_OK(bg_filter_add(victim, twin, 32, NULL));
                CHECK_OK(bg_filter_remove(victim, twin, 32));
                CHECK(bg_filter_may_contain(victim, member, 32));
            }
            forge_key(twin, 7, 1 << 20);
            bg_err err = bg_filter_remove(victim, twin, 32);
            CHECK_EQ(err, fast ? BG_OK : BG_ENOTFOUND);
            CHECK_EQ(bg_filter_may_contain(victim, member, 32), !fast);
            bg_filter_free(victim);
        }
    }
}

/* ---- Growth ---------------------------------------------------------------------------------- */

/* During a flood of new keys, memory stays within the limit, no key is lost, and the filter reports
 * that it is over capacity. Adding keys that are already present, or that are false positives, does
 * not make the filter grow. */
TEST(attack__scalable_growth)
{
    static uint64_t keys[20 * ITEMS], found[HARVEST];
    random_hashes(keys, sizeof keys / sizeof *keys);
    for (unsigned s = 0; s < SAMPLES; s++) {
        if (samples[s].kind != BG_KIND_SCALABLE || samples[s].shards) {
            continue;
        }
        struct victim_spec v;
        victim_init(&v, s, ITEMS, BG_HASH_FAST, 7);
        bg_filter *victim = must_create(&v.spec);
        CHECK_EQ(inserted(victim, keys, ITEMS - 1), ITEMS - 1);
        bg_filter_info before = info_of(victim);
        attack_harvest(victim, found);
        for (int turn = 0; turn < 50; turn++) {
            CHECK_EQ(added_many(victim, bg_keys_u64(found, HARVEST), NULL), 0);
            CHECK_EQ(added_many(victim, bg_keys_u64(keys, ITEMS - 1), NULL), 0);
        }
        CHECK_EQ(info_of(victim).bytes, before.bytes);
        CHECK_EQ(info_of(victim).ones, before.ones);
        bg_filter_free(victim);

        v.spec.max_bytes = 4 * before.bytes;
        victim = must_create(&v.spec);
        for (size_t i = 0; i < 20 * ITEMS; i += ITEMS) {
            CHECK_EQ(inserted(victim, keys + i, ITEMS), ITEMS);
            CHECK(bg_filter_size_bytes(victim) <= v.spec.max_bytes);
        }
        CHECK_EQ(missing(victim, keys, 20 * ITEMS), 0);
        bg_filter_info after = info_of(victim);
        CHECK(after.saturated > ITEMS && after.rate > 2 * v.spec.rate);
        printf(
            "= growth of %s: %d keys in %llu of %llu bytes, %llu beyond capacity, rate "
            "%.1f%%\n",
            samples[s].name, 20 * ITEMS, (unsigned long long)after.bytes,
            (unsigned long long)v.spec.max_bytes, (unsigned long long)after.saturated,
            100 * after.rate);
        bg_filter_free(victim);
    }
}

/* ---- Oblivion --------------------------------------------------------------------------------- */

enum { WINDOW = 4000, PERIODS = 5 };

static uint64_t attack_now;

static uint64_t attack_clock(void *context)
{
    return *(const uint64_t *)context;
}

static bg_filter *attacked_window(uint32_t mode, bool by_count, bg_hash_profile profile)
{
    struct victim_spec v;
    bg_window_options options = BG_WINDOW_OPTIONS_INIT;
    victim_init(&v, sample_of(BG_KIND_WINDOW), WINDOW, profile, 7);
    options.mode = mode;
    options.generations = PERIODS;
    options.count = by_count ? WINDOW : 0;
    options.length = by_count ? 0 : 1000;
    options.clock = by_count ? NULL : attack_clock;
    options.context = by_count ? NULL : &attack_now;
    v.spec.items = WINDOW;
    v.spec.window = &options;
    return must_create(&v.spec);
}

/* If a window rotates by count, adding a single key repeatedly is enough to push the other keys
 * out, but not before the documented number of adds. */
static void oblivion_by_count(uint32_t mode, bg_hash_profile profile)
{
    bg_filter *victim = attacked_window(mode, true, profile);
    uint64_t members[100];
    random_hashes(members, 100);
    CHECK_EQ(inserted(victim, members, 100), 100);
    for (int i = 0; i < WINDOW - 100; i++) {
        (void)added_u64(victim, 42);
    }
    CHECK_EQ(missing(victim, members, 100), 0);
    for (int i = 0; i < WINDOW / (PERIODS - 1) * 12; i++) {
        (void)added_u64(victim, 42);
    }
    CHECK(missing(victim, members, 100) > 90);
    CHECK(bg_filter_may_contain_u64(victim, 42));
    bg_filter_free(victim);
}

/* If a window rotates by time, a flood of keys does not rotate it. Until the keys of the flood
 * expire, the false-positive rate is higher, and the filter reports this higher rate. */
static void oblivion_by_time(uint32_t mode, bg_hash_profile profile)
{
    static uint64_t flood[20 * WINDOW];
    attack_now = 5000;
    bg_filter *victim = attacked_window(mode, false, profile);
    struct measure spoilt = { 0 }, passed = { 0 };
    uint64_t members[100];
    random_hashes(members, 100);
    random_hashes(flood, 20 * WINDOW);
    CHECK_EQ(inserted(victim, members, 100), 100);
    uint64_t period = bg_filter_window_period(victim);
    (void)added_many(victim, bg_keys_u64(flood, 20 * WINDOW), NULL);
    CHECK_EQ(bg_filter_window_period(victim), period);
    attack_now += 999;
    CHECK_OK(bg_filter_rotate(victim, attack_now, NULL));
    CHECK_EQ(missing(victim, members, 100), 0);
    CHECK_EQ(missing(victim, flood, 20 * WINDOW), 0);
    adversary_probe(victim, 20000, &spoilt);
    CHECK(spoilt.hits / spoilt.probes > 0.1 && info_of(victim).rate > 0.1);
    attack_now += 5000;
    CHECK_EQ(inserted(victim, members, 100), 100);
    adversary_probe(victim, 20000, &passed);
    CHECK(passed.hits / passed.probes < 0.01);
    CHECK_EQ(missing(victim, members, 100), 0);
    bg_filter_free(victim);
}

TEST(attack__window_oblivion)
{
    for (unsigned p = 0; p < 2; p++) {
        for (uint32_t mode = BG_WINDOW_GENERATIONS; mode <= BG_WINDOW_AGED; mode++) {
            oblivion_by_count(mode, both_profiles[p]);
            oblivion_by_time(mode, both_profiles[p]);
        }
    }
}

/* ---- Building ----------------------------------------------------------------------------------- */

static bg_builder *attacked_builder(unsigned sample, bg_hash_profile profile)
{
    struct victim_spec v;
    bg_builder *builder = NULL;
    victim_init(&v, sample, ITEMS, profile, 7);
    CHECK_OK(bg_builder_create(&v.spec, &builder, NULL));
    return builder;
}

/* A builder counts a key only once, no matter how many times it is added. Keys with the same hash
 * also count as one key. */
TEST(attack__builder_duplicates)
{
    static uint64_t keys[MEMBERS], flood[FLOOD];
    random_hashes(keys, MEMBERS);
    for (size_t i = 0; i < FLOOD; i++) {
        flood[i] = keys[i % 3];
    }
    for (unsigned s = 0; s < SAMPLES; s++) {
        if (!sample_is_static(s)) {
            continue;
        }
        bg_builder *builder = attacked_builder(s, BG_HASH_FAST);
        bg_filter *plain = NULL, *flooded = NULL;
        unsigned char twin[32];
        forge_key(twin, 7, 0);
        CHECK_OK(bg_builder_add_many(builder, bg_keys_u64(keys, MEMBERS)));
        CHECK_OK(bg_builder_add(builder, twin, 32));
        CHECK_OK(bg_builder_finish(builder, &plain, NULL));
        CHECK_OK(bg_builder_add_many(builder, bg_keys_u64(flood, FLOOD)));
        CHECK_OK(bg_builder_add_many(builder, bg_keys_u64(keys, MEMBERS)));
        for (uint64_t i = 1; i <= 10000; i++) {
            forge_key(twin, 7, i);
            CHECK_OK(bg_builder_add(builder, twin, 32));
        }
        CHECK_OK(bg_builder_finish(builder, &flooded, NULL));
        CHECK(bg_filter_equal(plain, flooded));
        bg_filter_free(plain);
        bg_filter_free(flooded);
        bg_builder_free(builder);
    }
}

/* Tries to build a filter from the keys, and returns whether the build succeeded. If the build
 * fails, the builder must keep the keys and report the reason. */
static bool attacked_build(unsigned sample, bg_hash_profile profile,
                           const uint64_t *keys)
{
    bg_builder *builder = attacked_builder(sample, profile);
    bg_filter *filter = NULL;
    bg_errinfo why;
    CHECK_OK(bg_builder_add_many(builder, bg_keys_u64(keys, ITEMS)));
    bg_err err = bg_builder_finish(builder, &filter, &why);
    if (err == BG_OK) {
        CHECK_EQ(missing(filter, keys, ITEMS), 0);
    } else {
        CHECK(err == BG_EBUILD || err == BG_EFULL);
        CHECK(!filter && why.message[0]);
        CHECK_EQ(bg_builder_count(builder), ITEMS);
    }
    bg_filter_free(filter);
    bg_builder_free(builder);
    return err == BG_OK;
}

/* Builds filters from keys whose hashes are in an ever smaller part of the hash range. With `fast`,
 * either the filter must be correct, or the build must fail after a bounded number of attempts.
 * With `keyed`, the build must succeed. */
TEST(attack__builder_crowding)
{
    enum { LEAST = 1, MOST = MEASURE_SANITIZED ? 5 : 11, SETS = (MOST + 1) / 2 };
    static uint64_t keys[ITEMS];
    unsigned built[2][SAMPLES] = { { 0 } };
    for (unsigned bits = LEAST; bits <= MOST; bits += 2) {
        for (unsigned p = 0; p < 2; p++) {
            attack_range(both_profiles[p], UINT64_MAX >> bits, false, keys, ITEMS);
            for (unsigned s = 0; s < SAMPLES; s++) {
                if (sample_is_static(s)) {
                    built[p][s] += attacked_build(s, both_profiles[p], keys);
                }
            }
        }
    }
    for (unsigned s = 0; s < SAMPLES; s++) {
        if (sample_is_static(s)) {
            printf(
                "= %s from keys in 1/2 to 1/%u of the hash range: built %u of %u fast, %u "
                "keyed\n",
                samples[s].name, 1u << MOST, built[0][s], SETS, built[1][s]);
            CHECK_EQ(built[1][s], SETS);
        }
    }
}
