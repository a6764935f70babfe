/*
 * prop_adversary.c - tests the effect of keys that an attacker chooses.
 *
 * The attacker knows this library and the filter's geometry. With the hash profile `fast`, the
 * attacker also knows the hash function and the seed. Attacks (Gerbet, Kumar, Lauradoux, "The power
 * of evil choices in Bloom filters", 2015):
 *
 *   pollution   insert only keys that set as many fresh bits as possible, so that the
 *               filter fills up too early; if each key uses one line or word, only keys in the
 *               first half of the filter, so that this half becomes full;
 *   harvest     find keys offline for which the filter answers "maybe";
 *   forgery     find keys with exactly the hash of a member.
 *
 * As hash.h documents, `fast` is vulnerable to all three attacks; these tests show that the attacks
 * work. `keyed` must withstand the same attacker, who has to guess the secret. After the attack,
 * the rate for absent keys must be within 5% of the predicted rate (or 5% plus 4 sigma for weak
 * cells; see measure.h).
 *
 * Pollution is tested on kinds that only set bits; prop_attack.c tests the corresponding
 * attacks on other kinds.
 */
#include "filter/handle.h"
#include "prop/adversary.h"
#include "support/adds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 12 };

/* Creates an empty filter for ITEMS keys at 1%. Each keyed filter has a new secret. */
static bg_filter *adversary_filter(bg_kind kind, bg_hash_profile profile, uint64_t seed)
{
    struct victim_spec v;
    victim_init(&v, sample_of(kind), ITEMS, profile, seed);
    return must_create(&v.spec);
}

static void adversary_add(bg_filter *filter, const uint64_t *keys)
{
    (void)added_many(filter, bg_keys_u64(keys, ITEMS), NULL);
}

/* ---- The attacker's tools ------------------------------------------------------- */

/* Returns how many new bits a key would set in the first `words` words of `filter`. `scratch` is an
 * empty filter with the same geometry and hash; the function leaves it empty. */
static unsigned attack_fresh_bits(const bg_filter *filter, bg_filter *scratch,
                                  size_t words, uint64_t key)
{
    uint64_t *bits = bgi_filter_words(scratch);
    const uint64_t *have = bgi_filter_words(filter);
    unsigned fresh = 0;
    (void)added_u64(scratch, key);
    for (size_t w = 0; w < bg_filter_size_bytes(filter) / 8; w++) {
        if (bits[w]) {
            fresh += w < words ? (unsigned)__builtin_popcountll(bits[w] & ~have[w]) : 0;
            bits[w] = 0;
        }
    }
    return fresh;
}

/* Chooses ITEMS keys that fill `replica`, the attacker's copy of the filter, as fast as possible.
 * Each key is the best of several candidates. */
static void attack_pollute(bg_filter *replica, uint64_t *keys)
{
    bg_filter *scratch;
    CHECK_OK(bg_filter_create_like(replica, &scratch, NULL));
    bg_kind kind = bg_filter_kind(replica);
    bool scattered = kind == BG_KIND_CLASSIC || kind == BG_KIND_PARTITIONED;
    size_t words = (size_t)bg_filter_size_bytes(replica) / (scattered ? 8 : 16);
    for (size_t i = 0; i < ITEMS; i++) {
        unsigned most = 0;
        for (unsigned c = 0; c < CANDIDATES; c++) {
            uint64_t key = check_random();
            unsigned fresh = attack_fresh_bits(replica, scratch, words, key);
            if (c == 0 || fresh > most) {
                most = fresh;
                keys[i] = key;
            }
        }
        (void)added_u64(replica, keys[i]);
    }
    bg_filter_free(scratch);
}

/* ---- Pollution ------------------------------------------------------------------ */

/* Returns the false-positive rate of `fast` filters that were polluted by an attacker who knows the
 * seed. */
static double pollution_of_fast(bg_kind kind, uint64_t *keys)
{
    struct measure fast = { 0 };
    for (unsigned round = 0; round < 2; round++) {
        uint64_t seed = check_random();
        bg_filter *replica = adversary_filter(kind, BG_HASH_FAST, seed);
        bg_filter *victim = adversary_filter(kind, BG_HASH_FAST, seed);
        attack_pollute(replica, keys);
        adversary_add(victim, keys);
        adversary_probe(victim, 50000, &fast);
        bg_filter_free(replica);
        bg_filter_free(victim);
    }
    return fast.hits / fast.probes;
}

static void adversary_pollution(bg_kind kind)
{
    static uint64_t keys[ITEMS];
    struct measure keyed = { 0 };
    struct measure_summary summary = { 0 };
    double fast = pollution_of_fast(kind, keys);
    unsigned filters = adversary_filters();
    double predicted = 0;
    for (unsigned f = 0; f < filters; f++) {
        bg_hash_profile profile = adversary_keyed(f / (filters / 2));
        if (f % (filters / 2) == 0) { /* the attacker guesses a wrong secret */
            bg_filter *replica = adversary_filter(kind, profile, 0);
            const bg_filter_info info = info_of(replica);
            predicted =
                bg_predict_rate(info.kind, info.bytes, info.k, info.design_items);
            attack_pollute(replica, keys);
            bg_filter_free(replica);
        }
        bg_filter *victim = adversary_filter(kind, profile, 0);
        adversary_add(victim, keys);
        adversary_probe(victim, 50000, &keyed);
        bg_filter_free(victim);
    }
    printf("= pollution of %s: predicted %.3f%%; fast %.2f%%, x %.1f; keyed %.3f%%\n",
           bg_kind_name(kind), 100 * predicted, 100 * fast, fast / predicted,
           100 * keyed.hits / keyed.probes);
    measure_enter(&summary, "keyed, polluted", &keyed, predicted);
    CHECK_EQ(summary.bad, 0);
    CHECK(fast > 2 * predicted);
}

#define ADVERSARY_POLLUTION(NAME, number, name)                                        \
    TEST(adversary__pollution_##name)                                                  \
    {                                                                                  \
        adversary_pollution(BG_KIND_##NAME);                                           \
    }
BG_BLOOM_KINDS(ADVERSARY_POLLUTION)

/* ---- Harvest -------------------------------------------------------------------- */

/* The attacker knows the members and searches for false positives offline. */
static void adversary_harvest(unsigned sample)
{
    static uint64_t members[ITEMS], found[HARVEST];
    random_hashes(members, ITEMS);
    bg_filter *victim = victim_full(sample, BG_HASH_FAST, 7, members, ITEMS, NULL);
    bg_filter *replica = victim_full(sample, BG_HASH_FAST, 7, members, ITEMS, NULL);
    attack_harvest(replica, found);
    CHECK_EQ(bg_filter_may_contain_many(victim, bg_keys_u64(found, HARVEST), NULL),
             HARVEST);
    bg_filter_free(victim);
    bg_filter_free(replica);

    struct measure keyed = { 0 };
    struct measure_summary summary = { 0 };
    double predicted = 0;
    bool many = sample < KIND_COUNT && !MEASURE_SANITIZED;
    unsigned rounds = adversary_filters() * (many ? 8 : 1);
    for (unsigned f = 0; f < rounds; f++) {
        bg_hash_profile profile = adversary_keyed(f / 16);
        if (f % 16 == 0) {
            replica = victim_full(sample, profile, 0, members, ITEMS, NULL);
            attack_harvest(replica, found);
            bg_filter_free(replica);
        }
        victim = victim_full(sample, profile, 0, members, ITEMS, &predicted);
        measure_add(
            &keyed,
            bg_filter_may_contain_many(victim, bg_keys_u64(found, HARVEST), NULL),
            HARVEST);
        bg_filter_free(victim);
    }
    measure_enter(&summary, "keyed, harvested keys", &keyed, predicted);
    printf("= harvest from %s: fast 100%%, keyed %.3f%% of %.3f%%\n",
           samples[sample].name, 100 * keyed.hits / keyed.probes, 100 * predicted);
    CHECK_EQ(summary.bad, 0);
}

TEST(adversary__harvest)
{
    for (unsigned s = 0; s < SAMPLES; s++) {
        adversary_harvest(s);
    }
}

/* ---- An attacker who sees the filter's answers ------------------------------------- */

/* Creates a filter that is filled by an attacker who does not know the secret but sees the filter's
 * answers. The attacker queries each key and inserts it only if the answer is "no", so that no
 * insertion is wasted on a false positive. Static filters cannot be queried while they are being
 * built, so all of their keys are inserted. */
static bg_filter *adaptive_fill(unsigned sample, bg_hash_profile profile,
                                double *predicted)
{
    struct victim_spec v;
    struct filling fill;
    victim_init(&v, sample, ITEMS, profile, 0);
    filling_begin(&fill, sample, &v.spec, ITEMS);
    for (size_t done = 0; done < ITEMS;) {
        uint64_t key = check_random();
        if (!fill.filter || !bg_filter_may_contain_u64(fill.filter, key)) {
            filling_add_u64(&fill, &key, 1);
            done++;
        }
    }
    bg_filter *filter = filling_end(&fill);
    *predicted = sample_rate(sample, &v.spec, filter);
    return filter;
}

/* Queries random keys to find false positives, and then queries their neighbors: keys with one bit
 * flipped, and the following integers. Adds the number of queried neighbors to *asked, and returns
 * how many of them got the answer "maybe". */
static size_t adaptive_neighbours(const bg_filter *victim, size_t bases, size_t *asked)
{
    size_t hits = 0;
    for (size_t b = 0; b < bases;) {
        uint64_t base = check_random();
        if (!bg_filter_may_contain_u64(victim, base)) {
            continue;
        }
        uint64_t keys[128];
        for (unsigned i = 0; i < 64; i++) {
            keys[i] = base ^ (uint64_t)1 << i;
            /* Skip `base` + 1, which is one of the flipped keys if `base` is even. */
            keys[64 + i] = base + 2 + i;
        }
        /* Replace any other integer that equals a flipped key. */
        for (unsigned i = 0; i < 64; i++) {
            keys[64 + i] += __builtin_popcountll(keys[64 + i] ^ base) == 1 ? 1000 : 0;
        }
        hits += bg_filter_may_contain_many(victim, bg_keys_u64(keys, 128), NULL);
        *asked += 128;
        b++;
    }
    return hits;
}

/* Each filter answers about 100,000 adaptive queries, and all filters together answer millions. */
static void adversary_adaptive(unsigned sample)
{
    struct measure fresh = { 0 }, near = { 0 };
    struct measure_summary summary = { 0 };
    double predicted = 0;
    unsigned filters = adversary_filters() / (sample < KIND_COUNT ? 1 : 2);
    for (unsigned f = 0; f < filters; f++) {
        bg_filter *victim = adaptive_fill(sample, adversary_keyed(f), &predicted);
        adversary_probe(victim, 50000, &fresh);
        size_t asked = 0, hits = adaptive_neighbours(victim, 200, &asked);
        measure_add(&near, hits, asked);
        bg_filter_free(victim);
    }
    printf("= adaptive attack on %s: fresh keys %.3f%%, neighbors of false positives "
           "%.3f%% of %.3f%%\n",
           samples[sample].name, 100 * fresh.hits / fresh.probes,
           100 * near.hits / near.probes, 100 * predicted);
    measure_enter(&summary, "keyed, filled adaptively", &fresh, predicted);
    measure_enter(&summary, "keyed, neighbors", &near, predicted);
    CHECK_EQ(summary.bad, 0);
}

TEST(adversary__adaptive)
{
    for (unsigned s = 0; s < SAMPLES; s++) {
        adversary_adaptive(s);
    }
}

/* ---- Forgery -------------------------------------------------------------------- */

TEST(adversary__forgery)
{
    const uint64_t seed = check_random();
    const bg_hash_profile profiles[] = { BG_HASH_FAST, BG_HASH_KEYED };
    size_t hits[2] = { 0 };
    for (unsigned p = 0; p < 2; p++) {
        bg_filter *victim = adversary_filter(BG_KIND_BLOCKED, profiles[p], seed);
        unsigned char key[32];
        forge_key(key, seed, 0);
        (void)added(victim, key, sizeof key);
        for (unsigned i = 1; i <= 1000; i++) {
            forge_key(key, seed, check_random());
            hits[p] += bg_filter_may_contain(victim, key, sizeof key);
        }
        bg_filter_free(victim);
    }
    printf("= forgery: of 1000 colliding keys, %zu hit fast, %zu hit keyed\n", hits[0],
           hits[1]);
    CHECK_EQ(hits[0], 1000);
    CHECK_EQ(hits[1], 0);
}
