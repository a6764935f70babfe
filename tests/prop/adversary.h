/*
 * adversary.h - code shared by the attack tests: the victim filters, the attacker's replicas of
 * these filters, and the attacker's tools.
 */
#ifndef ADVERSARY_H
#define ADVERSARY_H

#include "bloomgate/all.h"
#include "prop/measure.h"
#include "support/samples.h"

enum { ITEMS = 10000, HARVEST = 2000 };

/* Returns the number of filters to attack. Each filter has its own secret. */
static inline unsigned adversary_filters(void)
{
    return MEASURE_SANITIZED ? 8 : measure_soaks() ? 32 * (unsigned)check_scale() : 64;
}

/* Returns the profiles `keyed` and `keyed-int` alternately. For integers, `keyed` uses SipHash and
 * `keyed-int` uses AES. With the scalar instruction set, AES is too slow, so the function always
 * returns `keyed`. */
static inline bg_hash_profile adversary_keyed(unsigned turn)
{
    return turn % 2 || bg_cpu_current() == BG_CPU_SCALAR ? BG_HASH_KEYED
                                                         : BG_HASH_KEYED_INT;
}

/* The spec of a victim filter with a rate of 1%, and the filter's own random secret. */
struct victim_spec {
    bg_spec spec;
    uint8_t secret[BG_SECRET_BYTES];
};

static inline void victim_init(struct victim_spec *v, unsigned sample, uint64_t items,
                               bg_hash_profile profile, uint64_t seed)
{
    for (unsigned i = 0; i < sizeof v->secret; i++) {
        v->secret[i] = (uint8_t)check_random();
    }
    v->spec = sample_spec(sample, items, 0.01);
    v->spec.hash.profile = profile;
    v->spec.hash.seed = seed;
    v->spec.hash.secret = v->secret;
}

/* Creates a filter with the kind and parameters of a sample (samples.h), and fills it with `n`
 * keys. Stores the filter's predicted rate in *predicted unless `predicted` is NULL. */
static inline bg_filter *victim_full(unsigned sample, bg_hash_profile profile,
                                     uint64_t seed, const uint64_t *keys, size_t n,
                                     double *predicted)
{
    struct victim_spec v;
    struct filling fill;
    victim_init(&v, sample, n, profile, seed);
    filling_begin(&fill, sample, &v.spec, n);
    filling_add_u64(&fill, keys, n);
    bg_filter *filter = filling_end(&fill);
    if (predicted) {
        *predicted = sample_rate(sample, &v.spec, filter);
    }
    return filter;
}

/* Looks up at least `probes` new random keys, and adds the numbers of hits and probes to `m`. */
static inline void adversary_probe(const bg_filter *filter, size_t probes,
                                   struct measure *m)
{
    uint64_t keys[1024];
    size_t hits = 0;
    for (size_t done = 0; done < probes; done += 1024) {
        for (size_t i = 0; i < 1024; i++) {
            keys[i] = check_random();
        }
        hits += bg_filter_may_contain_many(filter, bg_keys_u64(keys, 1024), NULL);
    }
    measure_add(m, hits, (probes + 1023) / 1024 * 1024);
}

/* Finds HARVEST keys that are false positives in the replica. */
static inline void attack_harvest(const bg_filter *replica, uint64_t *keys)
{
    for (size_t found = 0; found < HARVEST;) {
        uint64_t key = check_random();
        if (bg_filter_may_contain_u64(replica, key)) {
            keys[found++] = key;
        }
    }
}

/*
 * For a 32-byte key, XXH3 folds the product (w0 ^ (s0 + seed)) * (w1 ^ (s1 - seed)), where w0 and
 * w1 are the first two words of the key, and s0 and s1 are words of a public constant. If w0 equals
 * s0 + seed, the product is 0 for every w1, so 2^64 keys have the same hash.
 */
static inline void forge_key(unsigned char *key, uint64_t seed, uint64_t free_word)
{
    const uint64_t words[4] = { 0xbe4ba423396cfeb8u + seed, free_word, 1, 2 };
    for (unsigned i = 0; i < 32; i++) {
        key[i] = (unsigned char)(words[i / 8] >> (8 * (i % 8)));
    }
}

#endif
