/*
 * The guarantees of hash.h: batches give the same results as single calls on every
 * instruction set, errors name the argument, hashers are compared and wiped as documented,
 * and hashes are well mixed. Known answers are in test_hash_vectors.c.
 */
#include "support/check.h"

#include "bloomgate/cpu.h"
#include "bloomgate/hasher.h"

#include "hash/hash_batch.h"

#include <stdlib.h>
#include <string.h>

enum { PROFILES = BG_HASH_FAST_INT + 1, MOST = 200 };

static const uint8_t secret_bytes[BG_SECRET_BYTES] = {
    0xa5, 1, 2, 3, 4, 5, 6, 7, 8, 90, 10, 11, 12, 13, 14, 15
};

/* A custom hash: FNV-1a with a context, followed by a finalizer that mixes all bits. */
static uint64_t custom_hash(void *context, const void *key, size_t len)
{
    const uint8_t *bytes = key;
    uint64_t h = *(const uint64_t *)context;
    for (size_t i = 0; i < len; i++) {
        h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

static uint64_t other_hash(void *context, const void *key, size_t len)
{
    return custom_hash(context, key, len) + 1;
}

static uint64_t custom_start = UINT64_C(0xcbf29ce484222325);

static bg_hash_spec spec_of(int profile)
{
    return (bg_hash_spec){ .profile = (uint32_t)profile,
                           .seed = UINT64_C(0x123456789abcdef1),
                           .secret = secret_bytes,
                           .custom = custom_hash,
                           .custom_context = &custom_start,
                           .custom_name = "fnv1a-mixed" };
}

static void make(bg_hasher *hasher, int profile)
{
    bg_hash_spec spec = spec_of(profile);
    CHECK_OK(bg_hasher_init(hasher, &spec, NULL));
}

typedef void hasher_body(const bg_hasher *hasher, const bg_hasher *scalar);

static void on_cpu(bg_cpu cpu, int profile, const bg_hasher *scalar, hasher_body *body)
{
    bg_hasher hasher;
    CHECK_OK(bg_cpu_select(cpu));
    make(&hasher, profile);
    CHECK(bg_hasher_equal(&hasher, scalar));
    CHECK_EQ(bg_hasher_check(&hasher), bg_hasher_check(scalar));
    body(&hasher, scalar);
}

/* Calls `body` for each profile and each instruction set, with a hasher that uses that instruction
 * set and a scalar hasher for comparison. */
static void for_each(hasher_body *body)
{
    bg_cpu before = bg_cpu_current();
    for (int profile = 0; profile < PROFILES; profile++) {
        bg_hasher scalar;
        CHECK_OK(bg_cpu_select(BG_CPU_SCALAR));
        make(&scalar, profile);
        for (int cpu = BG_CPU_SCALAR; cpu <= BG_CPU_NEON; cpu++) {
            if (bg_cpu_available((bg_cpu)cpu)) {
                on_cpu((bg_cpu)cpu, profile, &scalar, body);
            }
        }
    }
    CHECK_OK(bg_cpu_select(before));
}

static void fill_random(uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)check_random();
    }
}

/* ---- Batches ---- */

/* Checks batches of many sizes, including partial batches, and checks that nothing is written past
 * the end of `out`. */
static void check_batches(const bg_hasher *hasher, const bg_keys *keys,
                          const uint64_t *expected, size_t most, size_t step)
{
    const uint64_t untouched = UINT64_C(0x5ca1ab1edeadbeef);
    uint64_t out[MOST + 1];
    for (size_t n = 0; n <= most; n += n < 40 ? 1 : step) {
        for (size_t i = 0; i <= MOST; i++) {
            out[i] = untouched;
        }
        bg_keys first_n = *keys;
        first_n.count = n;
        bg_hash_many(hasher, first_n, out);
        CHECK(memcmp(out, expected, n * sizeof *out) == 0);
        CHECK_EQ(out[n], untouched);
        size_t first = n / 3;
        bgi_hash_range(hasher, keys, first, n - first, out);
        CHECK(memcmp(out, expected + first, (n - first) * sizeof *out) == 0);
    }
}

/* The allocation has exactly the needed size, so that the address sanitizer detects reads
 * beyond it. */
static void fixed_body(const bg_hasher *hasher, const bg_hasher *scalar)
{
    for (size_t width = 1; width <= 64; width++) {
        const bool all = width == 8 || width == 16 || width == 13;
        const size_t most = all ? MOST : 70;
        const size_t misaligned = (size_t)check_random_below(16);
        uint8_t *room = malloc(misaligned + most * width);
        uint64_t expected[MOST] = { 0 };
        CHECK(room);
        uint8_t *bytes = room + misaligned;
        fill_random(bytes, most * width);
        for (size_t i = 0; i < most; i++) {
            expected[i] = bg_hash_bytes(scalar, bytes + i * width, width);
            CHECK_EQ(bg_hash_bytes(hasher, bytes + i * width, width), expected[i]);
        }
        bg_keys keys = bg_keys_fixed(bytes, width, most);
        check_batches(hasher, &keys, expected, most, all ? 1 : 7);
        free(room);
    }
}

TEST(hash_many_fixed__equals_single)
{
    for_each(fixed_body);
}

static void u64_body(const bg_hasher *hasher, const bg_hasher *scalar)
{
    uint64_t numbers[MOST], expected[MOST];
    for (size_t i = 0; i < MOST; i++) {
        uint8_t bytes[8];
        numbers[i] = i < 4 ? i : check_random();
        for (int b = 0; b < 8; b++) {
            bytes[b] = (uint8_t)(numbers[i] >> 8 * b);
        }
        expected[i] = bg_hash_bytes(scalar, bytes, 8);
        CHECK_EQ(bg_hash_u64(hasher, numbers[i]), expected[i]);
    }
    bg_keys keys = bg_keys_u64(numbers, MOST);
    check_batches(hasher, &keys, expected, MOST, 1);
}

TEST(hash_many_u64__equals_bytes_in_little_endian_order)
{
    for_each(u64_body);
}

/* Every key has its own allocation, sometimes at an odd address. */
static void check_pairs(const bg_hasher *hasher, const bg_hasher *scalar,
                        const size_t *lengths, size_t most, size_t step)
{
    uint8_t *rooms[MOST];
    bg_bytes pairs[MOST];
    uint64_t expected[MOST] = { 0 };
    for (size_t i = 0; i < most; i++) {
        size_t misaligned = (size_t)check_random_below(9);
        rooms[i] = malloc(misaligned + lengths[i] + (lengths[i] == 0));
        CHECK(rooms[i]);
        fill_random(rooms[i] + misaligned, lengths[i]);
        pairs[i] = (bg_bytes){ lengths[i] ? rooms[i] + misaligned : NULL, lengths[i] };
        expected[i] = bg_hash_bytes(scalar, pairs[i].data, lengths[i]);
        CHECK_EQ(bg_hash_bytes(hasher, pairs[i].data, lengths[i]), expected[i]);
    }
    bg_keys keys = bg_keys_bytes(pairs, MOST);
    check_batches(hasher, &keys, expected, most, step);
    for (size_t i = 0; i < most; i++) {
        free(rooms[i]);
    }
}

static void lengths_body(const bg_hasher *hasher, const bg_hasher *scalar)
{
    size_t lengths[MOST];
    for (size_t start = 0; start <= 300 - 43; start += 43) { /* each of 0 .. 300 */
        for (size_t i = 0; i < 44; i++) {
            lengths[i] = start + i;
        }
        check_pairs(hasher, scalar, lengths, 44, 1);
    }
    for (size_t len = 0; len <= 70; len++) { /* many keys of the same length */
        for (size_t i = 0; i < 20; i++) {
            lengths[i] = len;
        }
        check_pairs(hasher, scalar, lengths, 20, 1);
    }
    static const size_t largest[] = { 64, 9, 63, 300, 20, 40 };
    for (size_t round = 0; round < 6 * check_scale(); round++) {
        for (size_t i = 0; i < MOST; i++) {
            lengths[i] = (size_t)check_random_below(largest[round % 6] + 1);
        }
        check_pairs(hasher, scalar, lengths, MOST, 9);
    }
}

TEST(hash_many__equals_single_for_mixed_lengths)
{
    for_each(lengths_body);
}

/* Tests batches that mix key lengths for which the keyed-int profile uses different functions. */
static void integer_lengths_body(const bg_hasher *hasher, const bg_hasher *scalar)
{
    static const size_t choice[] = { 8, 16, 8, 16, 7, 24 };
    size_t lengths[MOST];
    for (size_t kinds = 1; kinds <= 6; kinds++) {
        for (size_t i = 0; i < MOST; i++) {
            lengths[i] = choice[check_random_below(kinds)];
        }
        check_pairs(hasher, scalar, lengths, MOST, 9);
    }
    for (size_t round = 0; round < 4 * check_scale();
         round++) { /* runs of keys of the same length */
        size_t i = 0;
        while (i < MOST) {
            size_t len = choice[check_random_below(6)];
            for (size_t end = i + 1 + (size_t)check_random_below(40);
                 i < end && i < MOST; i++) {
                lengths[i] = len;
            }
        }
        check_pairs(hasher, scalar, lengths, MOST, 7);
    }
}

TEST(hash_many__equals_single_for_8_and_16_bytes_mixed)
{
    for_each(integer_lengths_body);
}

static void large_body(const bg_hasher *hasher, const bg_hasher *scalar)
{
    size_t lengths[12];
    for (size_t i = 0; i < 12; i++) {
        lengths[i] = i % 3 == 2 ? (64 << 10) + i - 5 : i;
    }
    check_pairs(hasher, scalar, lengths, 12, 1);
    uint8_t *bytes = malloc(9 << 16);
    uint64_t expected[9];
    CHECK(bytes);
    fill_random(bytes, 9 << 16);
    for (size_t i = 0; i < 9; i++) {
        expected[i] = bg_hash_bytes(scalar, bytes + (i << 16), 1 << 16);
    }
    bg_keys keys = bg_keys_fixed(bytes, 1 << 16, 9);
    check_batches(hasher, &keys, expected, 9, 1);
    free(bytes);
}

TEST(hash_many__equals_single_for_64_kib)
{
    for_each(large_body);
}

static void string_body(const bg_hasher *hasher, const bg_hasher *scalar)
{
    CHECK_EQ(bg_hash_str(hasher, "key"), bg_hash_bytes(scalar, "key", 3));
    CHECK_EQ(bg_hash_str(hasher, ""), bg_hash_bytes(scalar, NULL, 0));
    CHECK(bg_hash_bytes(hasher, "\0", 1) != bg_hash_bytes(hasher, "\0\0", 2));
    const char *eight = "12345678", *sixteen = "1234567812345678";
    CHECK_EQ(bg_hash_str(hasher, eight), bg_hash_bytes(scalar, eight, 8));
    CHECK_EQ(bg_hash_str(hasher, sixteen), bg_hash_bytes(scalar, sixteen, 16));
}

TEST(hash_str__equals_bytes)
{
    for_each(string_body);
}

/* Zero bytes at the end of a key change its hash, although keys of 8 and 16 bytes use the same
 * permutation. */
static void apart_body(const bg_hasher *hasher, const bg_hasher *scalar)
{
    (void)scalar;
    for (int i = 0; i < 100; i++) {
        uint8_t key[17] = { 0 };
        fill_random(key, 8);
        uint64_t eight = bg_hash_bytes(hasher, key, 8);
        CHECK(eight != bg_hash_bytes(hasher, key, 16));
        CHECK(eight != bg_hash_bytes(hasher, key, 9));
        CHECK(bg_hash_bytes(hasher, key, 16) != bg_hash_bytes(hasher, key, 17));
    }
}

TEST(hash_bytes__zeros_at_the_end_count)
{
    for_each(apart_body);
}

/* ---- Mixing ---- */

/*
 * Flipping any bit of the key must flip each bit of the hash for about half of the keys. The number
 * of changes among N keys is binomial, with a standard deviation of sqrt(N) / 2. There are about
 * 700,000 counts in all. Each of them deviates by more than 8 standard deviations with probability
 * 1.3e-15, so a sound hash fails here once in 10^9 runs.
 */
static void avalanche(const bg_hasher *hasher, size_t width)
{
    enum { N = 1024 };
    static uint8_t keys[N * 32];
    static uint64_t before[N], after[N];
    const double limit = 8 * 0.5 * 32; /* sqrt(1024) = 32 */
    fill_random(keys, N * width);
    bg_hash_many(hasher, bg_keys_fixed(keys, width, N), before);
    for (size_t bit = 0; bit < 8 * width; bit++) {
        int changed[64] = { 0 };
        const uint8_t flip = (uint8_t)(1u << bit % 8);
        for (size_t i = 0; i < N; i++) {
            keys[i * width + bit / 8] ^= flip;
        }
        bg_hash_many(hasher, bg_keys_fixed(keys, width, N), after);
        for (size_t i = 0; i < N; i++) {
            for (int b = 0; b < 64; b++) {
                changed[b] += (int)((before[i] ^ after[i]) >> b & 1);
            }
            keys[i * width + bit / 8] ^= flip;
        }
        for (int b = 0; b < 64; b++) {
            CHECK(changed[b] - N / 2.0 < limit && N / 2.0 - changed[b] < limit);
        }
    }
}

static void avalanche_body(const bg_hasher *hasher, const bg_hasher *scalar)
{
    (void)scalar;
    if (bg_hasher_profile(hasher) != BG_HASH_CUSTOM) {
        avalanche(hasher, 3);
        avalanche(hasher, 8);
        avalanche(hasher, 13);
        avalanche(hasher, 16);
        avalanche(hasher, 32);
    }
}

TEST(hash__avalanche)
{
    for_each(avalanche_body);
}

/*
 * The hashes of consecutive integers are spread evenly over 256 classes, whether the classes are
 * chosen by the highest or by the lowest byte. The sum of squares has a chi-squared distribution
 * with 255 degrees of freedom. Its mean is 255, and it exceeds 445 with probability 1e-12. (If the
 * hash is a permutation, the sum is slightly smaller.)
 */
static double chi_squared(const uint64_t *hashes, size_t n, int shift)
{
    size_t count[256] = { 0 };
    double expected = (double)n / 256, sum = 0;
    for (size_t i = 0; i < n; i++) {
        count[hashes[i] >> shift & 255]++;
    }
    for (int c = 0; c < 256; c++) {
        double off = (double)count[c] - expected;
        sum += off * off / expected;
    }
    return sum;
}

static void uniform_body(const bg_hasher *hasher, const bg_hasher *scalar)
{
    enum { N = 1 << 14 };
    static uint64_t numbers[2 * N], hashes[N];
    (void)scalar;
    for (size_t i = 0; i < 2 * N; i++) {
        numbers[i] = i;
    }
    bg_hash_many(hasher, bg_keys_u64(numbers, N), hashes);
    CHECK(chi_squared(hashes, N, 56) < 445);
    CHECK(chi_squared(hashes, N, 0) < 445);
    bg_hash_many(hasher, bg_keys_fixed(numbers, 16, N), hashes);
    CHECK(chi_squared(hashes, N, 56) < 445);
    CHECK(chi_squared(hashes, N, 0) < 445);
}

TEST(hash__counters_are_spread_evenly)
{
    for_each(uniform_body);
}

/* ---- Life cycle ---- */

TEST(hasher_init__default_is_fast_with_seed_0)
{
    bg_hash_spec zero = { 0 };
    bg_hasher a, b;
    bg_errinfo why;
    memset(&why, 1, sizeof why);
    CHECK_OK(bg_hasher_init(&a, NULL, &why));
    CHECK_EQ(why.code, BG_OK);
    CHECK_STR(why.message, "");
    CHECK_OK(bg_hasher_init(&b, &zero, NULL));
    CHECK(bg_hasher_equal(&a, &b));
    CHECK_EQ(bg_hasher_profile(&a), BG_HASH_FAST);
    CHECK(memcmp(&a, &b, sizeof a) == 0);
}

static void check_refused(const bg_hash_spec *spec, const char *what)
{
    bg_errinfo why;
    bg_hasher hasher, before;
    memset(&hasher, 0x5a, sizeof hasher);
    before = hasher;
    CHECK_EQ(bg_hasher_init(&hasher, spec, &why), BG_EINVAL);
    CHECK_EQ(why.code, BG_EINVAL);
    CHECK_STR(why.what, what);
    CHECK(why.expected[0] && why.found[0] && why.message[0]);
    CHECK(memcmp(&hasher, &before, sizeof hasher) == 0);
    CHECK_EQ(bg_hasher_init(&hasher, spec, NULL), BG_EINVAL);
}

TEST(hasher_init__refuses_bad_arguments)
{
    bg_hash_spec spec = spec_of(PROFILES);
    check_refused(&spec, "hash.profile");
    spec = spec_of(BG_HASH_FAST);
    spec.profile = UINT32_MAX;
    check_refused(&spec, "hash.profile");
    for (int profile = 0; profile < PROFILES; profile++) {
        spec = spec_of(profile);
        spec.reserved = 1;
        check_refused(&spec, "hash.reserved");
    }
    for (int profile = BG_HASH_KEYED; profile <= BG_HASH_KEYED_INT; profile++) {
        spec = spec_of(profile);
        spec.secret = NULL;
        check_refused(&spec, "hash.secret");
    }
    spec = spec_of(BG_HASH_CUSTOM);
    spec.custom = NULL;
    check_refused(&spec, "hash.custom");
    spec = spec_of(BG_HASH_CUSTOM);
    spec.custom_name = NULL;
    check_refused(&spec, "hash.custom_name");
    spec.custom_name = "";
    check_refused(&spec, "hash.custom_name");
    spec.custom_name = "12345678901234567890123456789012";
    check_refused(&spec, "hash.custom_name");
    bg_hasher hasher;
    spec.custom_name = "1234567890123456789012345678901";
    CHECK_OK(bg_hasher_init(&hasher, &spec, NULL));
}

TEST(hasher_init__ignores_what_the_profile_does_not_use)
{
    bg_hash_spec spec = { .profile = BG_HASH_FAST, .seed = 7 };
    bg_hasher a, b;
    CHECK_OK(bg_hasher_init(&a, &spec, NULL));
    spec.secret = secret_bytes;
    spec.custom_name = "";
    CHECK_OK(bg_hasher_init(&b, &spec, NULL));
    CHECK(bg_hasher_equal(&a, &b));
    spec = spec_of(BG_HASH_KEYED);
    CHECK_OK(bg_hasher_init(&a, &spec, NULL));
    spec.seed++;
    CHECK_OK(bg_hasher_init(&b, &spec, NULL));
    CHECK(bg_hasher_equal(&a, &b));
    CHECK_EQ(bg_hasher_check(&a), bg_hasher_check(&b));
}

static void check_different(const bg_hash_spec *x, const bg_hash_spec *y)
{
    bg_hasher a, b;
    CHECK_OK(bg_hasher_init(&a, x, NULL));
    CHECK_OK(bg_hasher_init(&b, y, NULL));
    CHECK(bg_hasher_equal(&a, &a) && bg_hasher_equal(&b, &b));
    CHECK(!bg_hasher_equal(&a, &b) && !bg_hasher_equal(&b, &a));
}

TEST(hasher_equal__profile_seed_and_every_bit_of_the_secret)
{
    for (int p = 0; p < PROFILES; p++) {
        for (int q = 0; q < PROFILES; q++) {
            bg_hasher a, b;
            make(&a, p);
            make(&b, q);
            CHECK_EQ(bg_hasher_profile(&a), p);
            CHECK_EQ(bg_hasher_equal(&a, &b) != 0, p == q);
            CHECK_EQ(bg_hasher_check(&a) == bg_hasher_check(&b), p == q);
        }
    }
    static const int seeded[] = { BG_HASH_FAST, BG_HASH_FAST_INT, BG_HASH_XXH64 };
    for (int i = 0; i < 3; i++) {
        bg_hash_spec x = spec_of(seeded[i]), y = x;
        y.seed ^= UINT64_C(1) << 63;
        check_different(&x, &y);
    }
    for (int profile = BG_HASH_KEYED; profile <= BG_HASH_KEYED_INT; profile++) {
        for (int bit = 0; bit < 128; bit++) {
            bg_hash_spec x = spec_of(profile), y = x;
            uint8_t secret[BG_SECRET_BYTES];
            memcpy(secret, secret_bytes, sizeof secret);
            secret[bit / 8] ^= (uint8_t)(1u << bit % 8);
            y.secret = secret;
            check_different(&x, &y);
        }
    }
}

TEST(hasher_equal__custom_by_function_context_and_name)
{
    bg_hash_spec x = spec_of(BG_HASH_CUSTOM), y = x;
    uint64_t other_start = custom_start;
    char same_name[] = "fnv1a-mixed";
    bg_hasher a, b;
    y.custom_name = same_name;
    CHECK_OK(bg_hasher_init(&a, &x, NULL));
    CHECK_OK(bg_hasher_init(&b, &y, NULL));
    same_name[0] = '!'; /* the hasher copied the name */
    CHECK(bg_hasher_equal(&a, &b));
    y.custom_name = "another";
    check_different(&x, &y);
    y = x;
    y.custom = other_hash;
    check_different(&x, &y);
    y = x;
    y.custom_context = &other_start;
    check_different(&x, &y);
}

TEST(hasher_check__custom_is_the_functions_hash_of_a_string)
{
    bg_hash_spec spec = spec_of(BG_HASH_CUSTOM);
    bg_hasher a, b;
    CHECK_OK(bg_hasher_init(&a, &spec, NULL));
    spec.custom = other_hash;
    CHECK_OK(bg_hasher_init(&b, &spec, NULL));
    CHECK_EQ(bg_hasher_check(&a) + 1, bg_hasher_check(&b));
}

TEST(hasher__secret_is_copied_and_hashers_can_be)
{
    for (int profile = 0; profile < PROFILES; profile++) {
        bg_hash_spec spec = spec_of(profile);
        uint8_t secret[BG_SECRET_BYTES];
        bg_hasher a, b, c;
        memcpy(secret, secret_bytes, sizeof secret);
        spec.secret = secret;
        CHECK_OK(bg_hasher_init(&a, &spec, NULL));
        memset(secret, 0, sizeof secret);
        make(&b, profile);
        CHECK(bg_hasher_equal(&a, &b));
        c = a;
        bg_hasher_wipe(&a);
        CHECK(bg_hasher_equal(&b, &c));
        CHECK_EQ(bg_hash_u64(&b, 5), bg_hash_u64(&c, 5));
    }
}

TEST(hasher_wipe__zeroes_everything)
{
    static const bg_hasher zero;
    for (int profile = 0; profile < PROFILES; profile++) {
        bg_hasher hasher;
        memset(&hasher, 0xff, sizeof hasher);
        make(&hasher, profile);
        CHECK(profile == BG_HASH_FAST || memcmp(&hasher, &zero, sizeof zero) != 0);
        bg_hasher_wipe(&hasher);
        CHECK(memcmp(&hasher, &zero, sizeof zero) == 0);
    }
    bg_hasher_wipe(NULL);
}

TEST(hash_name__names_all_and_survives_others)
{
    CHECK_STR(bg_hash_name(BG_HASH_FAST), "fast");
    CHECK_STR(bg_hash_name(BG_HASH_KEYED), "keyed");
    CHECK_STR(bg_hash_name(BG_HASH_KEYED24), "keyed24");
    CHECK_STR(bg_hash_name(BG_HASH_KEYED_INT), "keyed-int");
    CHECK_STR(bg_hash_name(BG_HASH_XXH64), "xxh64");
    CHECK_STR(bg_hash_name(BG_HASH_CUSTOM), "custom");
    CHECK_STR(bg_hash_name(BG_HASH_FAST_INT), "fast-int");
    CHECK_STR(bg_hash_name((bg_hash_profile)7), "unknown");
    CHECK_STR(bg_hash_name((bg_hash_profile)-1), "unknown");
}
