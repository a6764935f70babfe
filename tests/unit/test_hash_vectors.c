/*
 * Known answers: published test vectors, and values computed by other programs, for every hash
 * function on every instruction set that this machine supports.
 *
 * SipHash is tested with the 64 messages 00, 00 01, ... from the reference code and the key 00 ..
 * 0f. The expected SipHash-1-3 values were computed by a Python program whose results match
 * CPython's own hash of bytes (PYTHONHASHSEED=0). AES-128 is tested with the vectors from FIPS-197.
 * The expected keyed-int values were computed with `openssl enc -aes-128-ecb`. XXH3 and XXH64 are
 * tested with xxHash's own sanity checks. The expected fast-int values were computed by a Python
 * function:
 *
 *     def fold(a, b):
 *         return a * b >> 64 ^ a * b % 2**64
 *
 *     def fast_int(key, seed):
 *         swapped = int.from_bytes((seed % 2**32).to_bytes(4, "little"), "big")
 *         mask = (0x1cad21f72c81017c ^ 0xdb979083e96dd4de) - (seed ^ swapped << 32)
 *         return fold(fold(key ^ mask % 2**64, 0x9fb21c651e98df25), 0x9e6c63d0876a9a47)
 */
#include "support/check.h"

#include "bloomgate/cpu.h"
#include "bloomgate/hasher.h"

#include "base/features.h"
#include "hash/aes.h"
#include "hash/siphash.h"

#include <string.h>

static const uint8_t key_bytes[16] = { 0, 1, 2,  3,  4,  5,  6,  7,
                                       8, 9, 10, 11, 12, 13, 14, 15 };

static const uint64_t siphash13[64] = {
    UINT64_C(0xabac0158050fc4dc), UINT64_C(0xc9f49bf37d57ca93),
    UINT64_C(0x82cb9b024dc7d44d), UINT64_C(0x8bf80ab8e7ddf7fb),
    UINT64_C(0xcf75576088d38328), UINT64_C(0xdef9d52f49533b67),
    UINT64_C(0xc50d2b50c59f22a7), UINT64_C(0xd3927d989bb11140),
    UINT64_C(0x369095118d299a8e), UINT64_C(0x25a48eb36c063de4),
    UINT64_C(0x79de85ee92ff097f), UINT64_C(0x70c118c1f94dc352),
    UINT64_C(0x78a384b157b4d9a2), UINT64_C(0x306f760c1229ffa7),
    UINT64_C(0x605aa111c0f95d34), UINT64_C(0xd320d86d2a519956),
    UINT64_C(0xcc4fdd1a7d908b66), UINT64_C(0x9cf2689063dbd80c),
    UINT64_C(0x8ffc389cb473e63e), UINT64_C(0xf21f9de58d297d1c),
    UINT64_C(0xc0dc2f46a6cce040), UINT64_C(0xb992abfe2b45f844),
    UINT64_C(0x7ffe7b9ba320872e), UINT64_C(0x525a0e7fdae6c123),
    UINT64_C(0xf464aeb267349c8c), UINT64_C(0x45cd5928705b0979),
    UINT64_C(0x3a3e35e3ca9913a5), UINT64_C(0xa91dc74e4ade3b35),
    UINT64_C(0xfb0bed02ef6cd00d), UINT64_C(0x88d93cb44ab1e1f4),
    UINT64_C(0x540f11d643c5e663), UINT64_C(0x2370dd1f8c21d1bc),
    UINT64_C(0x81157b6c16a7b60d), UINT64_C(0x4d54b9e57a8ff9bf),
    UINT64_C(0x759f12781f2a753e), UINT64_C(0xcea1a3bebf186b91),
    UINT64_C(0x2cf508d3ada26206), UINT64_C(0xb6101c2da3c33057),
    UINT64_C(0xb3f47496ae3a36a1), UINT64_C(0x626b57547b108392),
    UINT64_C(0xc1d2363299e41531), UINT64_C(0x667cc1923f1ad944),
    UINT64_C(0x65704ffec8138825), UINT64_C(0x24f280d1c28949a6),
    UINT64_C(0xc2ca1cedfaf8876b), UINT64_C(0xc2164bfc9f042196),
    UINT64_C(0xa16e9c9368b1d623), UINT64_C(0x49fb169c8b5114fd),
    UINT64_C(0x9f3143f8df074c46), UINT64_C(0xc6fdaf2412cc86b3),
    UINT64_C(0x7eaf49d10a52098f), UINT64_C(0x1cf313559d292f9a),
    UINT64_C(0xc44a30dda2f41f12), UINT64_C(0x36fae98943a71ed0),
    UINT64_C(0x318fb34c73f0bce6), UINT64_C(0xa27abf3670a7e980),
    UINT64_C(0xb4bcc0db243c6d75), UINT64_C(0x23f8d852fdb71513),
    UINT64_C(0x8f035f4da67d8a08), UINT64_C(0xd89cd0e5b7e8f148),
    UINT64_C(0xf6f4e6bcf7a644ee), UINT64_C(0xaec59ad80f1837f2),
    UINT64_C(0xc3b2f6154b6694e0), UINT64_C(0x9d199062b7bbb3a8),
};

static const uint64_t siphash24[64] = {
    UINT64_C(0x726fdb47dd0e0e31), UINT64_C(0x74f839c593dc67fd),
    UINT64_C(0x0d6c8009d9a94f5a), UINT64_C(0x85676696d7fb7e2d),
    UINT64_C(0xcf2794e0277187b7), UINT64_C(0x18765564cd99a68d),
    UINT64_C(0xcbc9466e58fee3ce), UINT64_C(0xab0200f58b01d137),
    UINT64_C(0x93f5f5799a932462), UINT64_C(0x9e0082df0ba9e4b0),
    UINT64_C(0x7a5dbbc594ddb9f3), UINT64_C(0xf4b32f46226bada7),
    UINT64_C(0x751e8fbc860ee5fb), UINT64_C(0x14ea5627c0843d90),
    UINT64_C(0xf723ca908e7af2ee), UINT64_C(0xa129ca6149be45e5),
    UINT64_C(0x3f2acc7f57c29bdb), UINT64_C(0x699ae9f52cbe4794),
    UINT64_C(0x4bc1b3f0968dd39c), UINT64_C(0xbb6dc91da77961bd),
    UINT64_C(0xbed65cf21aa2ee98), UINT64_C(0xd0f2cbb02e3b67c7),
    UINT64_C(0x93536795e3a33e88), UINT64_C(0xa80c038ccd5ccec8),
    UINT64_C(0xb8ad50c6f649af94), UINT64_C(0xbce192de8a85b8ea),
    UINT64_C(0x17d835b85bbb15f3), UINT64_C(0x2f2e6163076bcfad),
    UINT64_C(0xde4daaaca71dc9a5), UINT64_C(0xa6a2506687956571),
    UINT64_C(0xad87a3535c49ef28), UINT64_C(0x32d892fad841c342),
    UINT64_C(0x7127512f72f27cce), UINT64_C(0xa7f32346f95978e3),
    UINT64_C(0x12e0b01abb051238), UINT64_C(0x15e034d40fa197ae),
    UINT64_C(0x314dffbe0815a3b4), UINT64_C(0x027990f029623981),
    UINT64_C(0xcadcd4e59ef40c4d), UINT64_C(0x9abfd8766a33735c),
    UINT64_C(0x0e3ea96b5304a7d0), UINT64_C(0xad0c42d6fc585992),
    UINT64_C(0x187306c89bc215a9), UINT64_C(0xd4a60abcf3792b95),
    UINT64_C(0xf935451de4f21df2), UINT64_C(0xa9538f0419755787),
    UINT64_C(0xdb9acddff56ca510), UINT64_C(0xd06c98cd5c0975eb),
    UINT64_C(0xe612a3cb9ecba951), UINT64_C(0xc766e62cfcadaf96),
    UINT64_C(0xee64435a9752fe72), UINT64_C(0xa192d576b245165a),
    UINT64_C(0x0a8787bf8ecb74b2), UINT64_C(0x81b3e73d20b49b6f),
    UINT64_C(0x7fa8220ba3b2ecea), UINT64_C(0x245731c13ca42499),
    UINT64_C(0xb78dbfaf3a8d83bd), UINT64_C(0xea1ad565322a1a0b),
    UINT64_C(0x60e61c23a3795013), UINT64_C(0x6606d7e446282b93),
    UINT64_C(0x6ca4ecb15c5f91e1), UINT64_C(0x9f626da15c9625f3),
    UINT64_C(0xe51b38608ef25f57), UINT64_C(0x958a324ceb064572),
};

/* Runs `body` with each instruction set that this machine supports. */
static void on_every_cpu(void (*body)(void))
{
    bg_cpu before = bg_cpu_current();
    for (int cpu = BG_CPU_SCALAR; cpu <= BG_CPU_NEON; cpu++) {
        if (bg_cpu_available((bg_cpu)cpu)) {
            CHECK_OK(bg_cpu_select((bg_cpu)cpu));
            body();
        }
    }
    CHECK_OK(bg_cpu_select(before));
}

static void make(bg_hasher *hasher, bg_hash_profile profile, uint64_t seed)
{
    bg_hash_spec spec = { .profile = profile, .seed = seed, .secret = key_bytes };
    CHECK_OK(bg_hasher_init(hasher, &spec, NULL));
}

static void siphash_body(void)
{
    uint8_t message[64];
    bg_hasher one, two;
    for (int i = 0; i < 64; i++) {
        message[i] = (uint8_t)i;
    }
    CHECK_EQ(siphash24[0], UINT64_C(0x726fdb47dd0e0e31));  /* as published */
    CHECK_EQ(siphash24[15], UINT64_C(0xa129ca6149be45e5)); /* in the paper */
    make(&one, BG_HASH_KEYED, 0);
    make(&two, BG_HASH_KEYED24, 0);
    for (size_t len = 0; len < 64; len++) {
        CHECK_EQ(bg_hash_bytes(&one, message, len), siphash13[len]);
        CHECK_EQ(bg_hash_bytes(&two, message, len), siphash24[len]);
    }
    bg_bytes all[64];
    uint64_t out[64];
    for (size_t len = 0; len < 64; len++) {
        all[len] = (bg_bytes){ message, len };
    }
    bg_hash_many(&one, bg_keys_bytes(all, 64), out);
    CHECK(memcmp(out, siphash13, sizeof out) == 0);
    bg_hash_many(&two, bg_keys_bytes(all, 64), out);
    CHECK(memcmp(out, siphash24, sizeof out) == 0);
}

TEST(siphash__reference_vectors)
{
    on_every_cpu(siphash_body);
}

/* Hashes the same message many times, so that all lanes of the vector code process it. */
static void siphash_lanes_body(void)
{
    uint8_t messages[24 * 63];
    uint64_t out[24];
    bg_hasher one, two;
    make(&one, BG_HASH_KEYED, 0);
    make(&two, BG_HASH_KEYED24, 0);
    for (size_t width = 1; width < 64; width++) {
        for (size_t i = 0; i < 24 * width; i++) {
            messages[i] = (uint8_t)(i % width);
        }
        bg_hash_many(&one, bg_keys_fixed(messages, width, 24), out);
        for (int i = 0; i < 24; i++) {
            CHECK_EQ(out[i], siphash13[width]);
        }
        bg_hash_many(&two, bg_keys_fixed(messages, width, 24), out);
        for (int i = 0; i < 24; i++) {
            CHECK_EQ(out[i], siphash24[width]);
        }
    }
}

TEST(siphash__reference_vectors_in_every_lane)
{
    on_every_cpu(siphash_lanes_body);
}

struct aes_vector {
    uint8_t key[16], plain[16], cipher[16];
};

static const struct aes_vector aes_vectors[] = {
    /* FIPS-197 appendix B */
    { { 0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88, 0x09,
        0xcf, 0x4f, 0x3c },
      { 0x32, 0x43, 0xf6, 0xa8, 0x88, 0x5a, 0x30, 0x8d, 0x31, 0x31, 0x98, 0xa2, 0xe0,
        0x37, 0x07, 0x34 },
      { 0x39, 0x25, 0x84, 0x1d, 0x02, 0xdc, 0x09, 0xfb, 0xdc, 0x11, 0x85, 0x97, 0x19,
        0x6a, 0x0b, 0x32 } },
    /* FIPS-197 appendix C.1 */
    { { 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c,
        0x0d, 0x0e, 0x0f },
      { 0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc,
        0xdd, 0xee, 0xff },
      { 0x69, 0xc4, 0xe0, 0xd8, 0x6a, 0x7b, 0x04, 0x30, 0xd8, 0xcd, 0xb7, 0x80, 0x70,
        0xb4, 0xc5, 0x5a } },
};

/* Encrypts the same block many times, in batches of every size up to 40. */
static void check_aes_batches(const struct bgi_aes *aes, const uint8_t *plain,
                              uint64_t expected)
{
    uint8_t blocks[40][16];
    for (int i = 0; i < 40; i++) {
        memcpy(blocks[i], plain, 16);
    }
    for (size_t n = 0; n <= 40; n++) {
        uint64_t out[40] = { 0 };
        bgi_aes_hash(aes, bgi_features(), blocks[0], 16, n, out);
        for (size_t i = 0; i < 40; i++) {
            CHECK_EQ(out[i], i < n ? expected : 0);
        }
    }
}

static void aes_body(void)
{
    const uint32_t features = bgi_features();
    for (size_t v = 0; v < sizeof aes_vectors / sizeof aes_vectors[0]; v++) {
        const struct aes_vector *vector = &aes_vectors[v];
        uint64_t expected = bgi_load_le64(vector->cipher);
        uint8_t cipher[16];
        struct bgi_aes aes;
        bgi_aes_init(&aes, vector->key, features);
        bgi_aes_encrypt(&aes, features, vector->plain, cipher);
        CHECK(memcmp(cipher, vector->cipher, sizeof cipher) == 0);
        CHECK_EQ(bgi_aes_hash_one(&aes, features, vector->plain, 16), expected);
        check_aes_batches(&aes, vector->plain, expected);
    }
}

TEST(aes__fips_197)
{
    on_every_cpu(aes_body);
}

/* Runs a chain of encryptions in which each result is both the next key and the next block. The
 * chain is so long that the key schedule uses all 256 inputs of the S-box. */
static void aes_chain_body(void)
{
    const uint32_t features = bgi_features();
    uint8_t block[16] = { 0 };
    struct bgi_aes aes;
    for (int i = 0; i < 1000; i++) {
        bgi_aes_init(&aes, block, features);
        bgi_aes_encrypt(&aes, features, block, block);
    }
    CHECK_EQ(bgi_load_le64(block), UINT64_C(0xf647bc94b61c85f8));
    CHECK_EQ(bgi_load_le64(block + 8), UINT64_C(0xa4565769b5deb91d));
}

TEST(aes__chain_of_1000)
{
    on_every_cpu(aes_chain_body);
}

struct length_vector {
    size_t len;
    uint64_t hash;
};

static const struct length_vector integer_vectors[] = {
    { 0, UINT64_C(0xf4b3ba703d43b9ab) },  { 1, UINT64_C(0x97570b25e8f02d15) },
    { 7, UINT64_C(0xbb312ac5a37809db) },  { 8, UINT64_C(0xee5c1a698c4b9767) },
    { 9, UINT64_C(0x1979d9f2c2c3ba7f) },  { 15, UINT64_C(0x23b52b108514d02d) },
    { 16, UINT64_C(0x1bf6164792ff0cd5) }, { 17, UINT64_C(0xca5b48366125caf8) },
    { 24, UINT64_C(0xfa9b1d2e8e66ac57) }, { 32, UINT64_C(0x88bb463bd1e0ad26) },
    { 63, UINT64_C(0x606fffb427dfb813) }, { 300, UINT64_C(0x3da472a199414699) },
};

static void integer_body(void)
{
    uint8_t message[300];
    bg_hasher hasher;
    for (size_t i = 0; i < sizeof message; i++) {
        message[i] = (uint8_t)(7 * i + 1);
    }
    make(&hasher, BG_HASH_KEYED_INT, 0);
    for (size_t v = 0; v < sizeof integer_vectors / sizeof integer_vectors[0]; v++) {
        const struct length_vector *vector = &integer_vectors[v];
        CHECK_EQ(bg_hash_bytes(&hasher, message, vector->len), vector->hash);
    }
}

TEST(keyed_int__vectors)
{
    on_every_cpu(integer_body);
}

struct number_vector {
    uint64_t key;
    uint64_t without; /* with seed 0 */
    uint64_t with;    /* with the seed below */
};

/* The last key equals the mask of seed 0. */
static const struct number_vector fast_int_vectors[] = {
    { UINT64_C(0x0000000000000000), UINT64_C(0x8549b4d9f6c26e91),
      UINT64_C(0x24dde42f2215d3ea) },
    { UINT64_C(0x0000000000000001), UINT64_C(0x7d07ad7cbc0f4921),
      UINT64_C(0x0b5184821b441ae7) },
    { UINT64_C(0x0000000000000002), UINT64_C(0xc386b20a69603975),
      UINT64_C(0x41beeaebaffd8781) },
    { UINT64_C(0x00000000000000ff), UINT64_C(0xc27d0b7adee94fd8),
      UINT64_C(0x20067f08cb09d846) },
    { UINT64_C(0x0102030405060708), UINT64_C(0x7a7ce05c03293633),
      UINT64_C(0x82adb2b08007750d) },
    { UINT64_C(0x0000000100000000), UINT64_C(0x935e86f388b83a6d),
      UINT64_C(0xa3ec9e2c1fdaf4fa) },
    { UINT64_C(0x8000000000000000), UINT64_C(0x4d02002fe81a1444),
      UINT64_C(0x3d0e5675a76042b2) },
    { UINT64_C(0x3ff0000000000000), UINT64_C(0x900f3af71d7922a4),
      UINT64_C(0x68bc828217dcf1cc) },
    { UINT64_C(0x00007f5a00001000), UINT64_C(0x4375f87f71c3ea50),
      UINT64_C(0x47b25bfa3243994c) },
    { UINT64_C(0xffffffffffffffff), UINT64_C(0x72b934d68e8f1801),
      UINT64_C(0x92314e5db9d3c258) },
    { UINT64_C(0xc73ab174c5ecd5a2), UINT64_C(0x0000000000000000),
      UINT64_C(0x59ec4a13b7f198a4) },
};

static void check_number(const bg_hasher *hasher, uint64_t key, uint64_t expected)
{
    uint8_t bytes[8];
    uint64_t out[2];
    for (int b = 0; b < 8; b++) {
        bytes[b] = (uint8_t)(key >> 8 * b);
    }
    const bg_bytes pair = { bytes, sizeof bytes };
    CHECK_EQ(bg_hash_u64(hasher, key), expected);
    CHECK_EQ(bg_hash_bytes(hasher, bytes, sizeof bytes), expected);
    bg_hash_many(hasher, bg_keys_u64(&key, 1), out);
    bg_hash_many(hasher, bg_keys_bytes(&pair, 1), out + 1);
    CHECK(out[0] == expected && out[1] == expected);
}

static void fast_int_body(void)
{
    const uint64_t seed = UINT64_C(0xfedcba9876543210);
    uint8_t message[300];
    bg_hasher without, with, fast;
    make(&without, BG_HASH_FAST_INT, 0);
    make(&with, BG_HASH_FAST_INT, seed);
    make(&fast, BG_HASH_FAST, seed);
    for (size_t v = 0; v < sizeof fast_int_vectors / sizeof fast_int_vectors[0]; v++) {
        const struct number_vector *vector = &fast_int_vectors[v];
        check_number(&without, vector->key, vector->without);
        check_number(&with, vector->key, vector->with);
    }
    for (size_t len = 0; len < sizeof message; len++) {
        const bool equal =
            bg_hash_bytes(&with, message, len) == bg_hash_bytes(&fast, message, len);
        CHECK_EQ(equal, len != 8);
        message[len] = (uint8_t)(7 * len + 1);
    }
}

TEST(fast_int__vectors)
{
    on_every_cpu(fast_int_body);
}

/* Files contain these check values, so the values must never change. */
static void check_body(void)
{
    bg_hasher hasher;
    make(&hasher, BG_HASH_KEYED, 0);
    CHECK_EQ(bg_hasher_check(&hasher), UINT64_C(0x0874fab89853aee4));
    make(&hasher, BG_HASH_KEYED24, 0);
    CHECK_EQ(bg_hasher_check(&hasher), UINT64_C(0x815e5c396336925d));
    make(&hasher, BG_HASH_KEYED_INT, 0);
    CHECK_EQ(bg_hasher_check(&hasher), UINT64_C(0x413ca51c6df70b69));
    make(&hasher, BG_HASH_FAST, 0);
    CHECK_EQ(bg_hasher_check(&hasher), UINT64_C(0x89c62087505edfb6));
    make(&hasher, BG_HASH_XXH64, 0);
    CHECK_EQ(bg_hasher_check(&hasher), UINT64_C(0x5d56eb0a5d4debe7));
    make(&hasher, BG_HASH_FAST_INT, 0);
    CHECK_EQ(bg_hasher_check(&hasher), UINT64_C(0x6e2d4da1955fe4d5));
}

TEST(hasher__check_values_are_frozen)
{
    on_every_cpu(check_body);
}

struct seed_vector {
    size_t len;
    uint64_t without; /* with seed 0 */
    uint64_t with;    /* value for the seed in xxHash's own test */
};

static const struct seed_vector xxh3_vectors[] = {
    { 1, UINT64_C(0xc44bdff4074eecdb), UINT64_C(0x032be332dd766ef8) },
    { 6, UINT64_C(0x27b56a84cd2d7325), UINT64_C(0x84589c116ab59ab9) },
    { 12, UINT64_C(0xa713daf0dfbb77e7), UINT64_C(0xe7303e1b2336de0e) },
    { 24, UINT64_C(0xa3fe70bf9d3510eb), UINT64_C(0x850e80fc35bdd690) },
    { 48, UINT64_C(0x397da259ecba1f11), UINT64_C(0xadc2cbaa44acc616) },
    { 80, UINT64_C(0xbcdefbbb2c47c90a), UINT64_C(0xc6dd0cb699532e73) },
    { 195, UINT64_C(0xcd94217ee362ec3a), UINT64_C(0xba68003d370cb3d9) },
    { 403, UINT64_C(0xcdeb804d65c6dea4), UINT64_C(0x6259f6ecfd6443fd) },
    { 512, UINT64_C(0x617e49599013cb6b), UINT64_C(0x3ce457de14c27708) },
    { 2048, UINT64_C(0xdd59e2c3a5f038e0), UINT64_C(0x66f81670669ababc) },
};

static const struct seed_vector xxh64_vectors[] = {
    { 0, UINT64_C(0xef46db3751d8e999), UINT64_C(0xac75fda2929b17ef) },
    { 1, UINT64_C(0xe934a84adb052768), UINT64_C(0x5014607643a9b4c3) },
    { 14, UINT64_C(0x8282dcc4994e35c8), UINT64_C(0xc3bd6bf63deb6df0) },
    { 222, UINT64_C(0xb641ae8cb691c174), UINT64_C(0x20cb8ab7ae10c14a) },
};

static void check_seeded(bg_hash_profile profile, uint64_t seed,
                         const struct seed_vector *vectors, size_t count)
{
    static uint8_t message[2048];
    bg_hasher without, with;
    uint64_t generator = 2654435761u;
    for (size_t i = 0; i < sizeof message; i++) {
        message[i] = (uint8_t)(generator >> 56);
        generator *= UINT64_C(11400714785074694797);
    }
    make(&without, profile, 0);
    make(&with, profile, seed);
    for (size_t v = 0; v < count; v++) {
        CHECK_EQ(bg_hash_bytes(&without, message, vectors[v].len), vectors[v].without);
        CHECK_EQ(bg_hash_bytes(&with, message, vectors[v].len), vectors[v].with);
    }
}

static void xxh_body(void)
{
    check_seeded(BG_HASH_FAST, UINT64_C(11400714785074694797), xxh3_vectors,
                 sizeof xxh3_vectors / sizeof xxh3_vectors[0]);
    check_seeded(BG_HASH_XXH64, 2654435761u, xxh64_vectors,
                 sizeof xxh64_vectors / sizeof xxh64_vectors[0]);
    bg_hasher fast, xxh64;
    make(&fast, BG_HASH_FAST, 0);
    make(&xxh64, BG_HASH_XXH64, 0);
    CHECK_EQ(bg_hash_str(&fast, ""), UINT64_C(0x2d06800538d394c2));
    CHECK_EQ(bg_hash_str(&fast, "a"), UINT64_C(0xe6c632b61e964e1f));
    CHECK_EQ(bg_hash_str(&fast, "abc"), UINT64_C(0x78af5f94892f3950));
    CHECK_EQ(bg_hash_str(&xxh64, ""), UINT64_C(0xef46db3751d8e999));
    CHECK_EQ(bg_hash_str(&xxh64, "a"), UINT64_C(0xd24ec4f1a98c6e5b));
    CHECK_EQ(bg_hash_str(&xxh64, "abc"), UINT64_C(0x44bc2cf5ad770999));
}

TEST(xxhash__sanity_vectors)
{
    on_every_cpu(xxh_body);
}
