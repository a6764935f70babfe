/*
 * 04_own_hashes.c - three ways to compute the hash.
 *
 * The filter computes the hash with a secret that protects against adversarial keys; the caller
 * computes it once for several filters; or the filter computes it with the caller's own hash
 * function. The example also shows the effect of a poorly mixed hash.
 */
#include <bloomgate/bloomgate.h>
#include <bloomgate/combine.h>
#include <bloomgate/hasher.h>

#include <stdio.h>
#include <string.h>

enum { KEYS = 100000, ABSENT = 200000 };

static bool make(const bg_hash_spec *hash, bg_filter **filter)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.items = KEYS;
    spec.rate = 0.01;
    spec.hash = *hash;
    bg_errinfo why;
    if (bg_filter_create(&spec, filter, &why) != BG_OK) {
        fprintf(stderr, "%s\n", why.message);
        return false;
    }
    return true;
}

/* A keyed profile: without the secret, an attacker cannot compute which bits a key sets. In
 * production, load the secret (16 bytes from getrandom(2)) from your secret store. The secret is
 * fixed here so that the example always prints the same output. */
static bool with_a_secret(void)
{
    const uint8_t secret[BG_SECRET_BYTES] = { 0x5e, 0xc4, 0xe7 };
    const uint8_t other_secret[BG_SECRET_BYTES] = { 0x0d, 0x0d };
    bg_hash_spec keyed = { .profile = BG_HASH_KEYED, .secret = secret };
    bg_hash_spec other = { .profile = BG_HASH_KEYED, .secret = other_secret };
    bg_filter *a = NULL, *b = NULL;
    bg_errinfo why;
    bool good = make(&keyed, &a) && make(&other, &b);
    good = good && bg_filter_merge(a, b, &why) == BG_EINCOMPAT;
    if (good) {
        printf("Filters with different secrets cannot be merged: %s\n", why.message);
    }
    bg_filter_free(a);
    bg_filter_free(b);
    return good;
}

/* Looks up one hash in three filters. The filters must use the same hash. */
static bool once_for_several(void)
{
    bg_hash_spec fast = { .profile = BG_HASH_FAST };
    bg_filter *days[3] = { NULL, NULL, NULL };
    bool good = make(&fast, &days[0]) && make(&fast, &days[1]) && make(&fast, &days[2]);
    if (good) {
        const char *key = "203.0.113.7";
        good = bg_filter_add(days[1], key, strlen(key), NULL) == BG_OK;
        uint64_t hash = bg_hash_str(bg_filter_hasher(days[0]), key);
        bool maybe[3];
        for (int i = 0; i < 3; i++) {
            maybe[i] = bg_filter_may_contain_hash(days[i], hash);
        }
        printf("Hashed once, looked up in three filters: %s, %s, %s.\n",
               maybe[0] ? "maybe" : "no", maybe[1] ? "maybe" : "no",
               maybe[2] ? "maybe" : "no");
        good = good && !maybe[0] && maybe[1] && !maybe[2];
    }
    for (int i = 0; i < 3; i++) {
        bg_filter_free(days[i]);
    }
    return good;
}

/* A hash function that the application already has. It mixes all 64 bits well, but does
 * not protect against adversarial keys. */
static uint64_t my_hash(void *context, const void *key, size_t len)
{
    const unsigned char *p = key;
    uint64_t h = *(const uint64_t *)context + len;
    for (size_t i = 0; i < len; i++) {
        h = (h ^ p[i]) * 0x100000001b3u;
    }
    /* Up to here, this is FNV-1a, whose high bits depend little on the last bytes. */
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    return h ^ h >> 31;
}

/* Adds the numbers below KEYS, hashed by `hash_of`. Then looks up higher numbers, and returns the
 * measured false-positive rate. */
static double measured(bg_filter *filter, uint64_t (*hash_of)(uint64_t number))
{
    uint64_t maybe = 0;
    for (uint64_t i = 0; i < KEYS; i++) {
        if (bg_filter_add_hash(filter, hash_of(i), NULL) != BG_OK) {
            return 1;
        }
    }
    for (uint64_t i = KEYS; i < KEYS + ABSENT; i++) {
        maybe += bg_filter_may_contain_hash(filter, hash_of(i));
    }
    return (double)maybe / ABSENT;
}

static uint64_t my_basis = 0xcbf29ce484222325u;

static uint64_t hash_well(uint64_t number)
{
    return my_hash(&my_basis, &number, sizeof number);
}

static uint64_t hash_not_at_all(uint64_t number)
{
    return number; /* a counter is not a hash */
}

static bool with_a_function(void)
{
    bg_hash_spec custom = { .profile = BG_HASH_CUSTOM,
                            .custom = my_hash,
                            .custom_context = &my_basis,
                            .custom_name = "fnv1a-mixed" };
    bg_filter *mixed = NULL, *counter = NULL;
    bool good = make(&custom, &mixed) && make(&custom, &counter);
    if (good) {
        good = bg_filter_add(mixed, "apple", 5, NULL) == BG_OK
               && bg_filter_may_contain(mixed, "apple", 5)
               && bg_filter_may_contain_hash(mixed, my_hash(&my_basis, "apple", 5));
        double well = measured(mixed, hash_well);
        double badly = measured(counter, hash_not_at_all);
        printf("Planned rate 1%%: a mixed hash gives %.2f%%, counters passed as hashes "
               "give %.0f%%.\n",
               100 * well, 100 * badly);
        good = good && well > 0.009 && well < 0.011 && badly > 0.5;
    }
    bg_filter_free(mixed);
    bg_filter_free(counter);
    return good;
}

int main(void)
{
    bool good = with_a_secret();
    good = once_for_several() && good;
    good = with_a_function() && good;
    printf("%s\n", good ? "All checks passed." : "A CHECK FAILED");
    return good ? 0 : 1;
}
