/*
 * The hash functions of other software: known answers for six keys, and one combined value for 200
 * keys of different lengths. Some keys contain bytes above 0x7f, for which signed and unsigned
 * variants of a hash function differ.
 *
 * The values were computed by Python programs that reproduced the real software's files byte for
 * byte, and by Python's hashlib (MD5, BLAKE2b). The values for Jenkins's hash are from the source
 * of lookup3.
 */
#include "support/check.h"

#include "base/bits.h"
#include "store/foreign/foreign_digests.h"
#include "store/foreign/foreign_hashes.h"

#include <string.h>

enum { KEYS = 6, LONG = 300 };

struct known_key {
    const void *bytes;
    size_t len;
};

static unsigned char many_x[LONG];

static const struct known_key keys[KEYS] = {
    { NULL, 0 },
    { "a", 1 },
    { "user30", 6 },
    { "key000000002", 12 },
    { "\xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff\xff\x80\x7f",
      19 },
    { many_x, LONG },
};

static void make_keys(void)
{
    memset(many_x, 'x', sizeof many_x);
}

/* ---- 128 bits ------------------------------------------------------------------------- */

typedef struct foreign_pair hash_pair(const void *key, size_t len);

static void check_pairs(hash_pair *hash, const uint64_t expected[KEYS][2])
{
    make_keys();
    for (size_t i = 0; i < KEYS; i++) {
        struct foreign_pair h = hash(keys[i].bytes, keys[i].len);
        CHECK_EQ(h.h1, expected[i][0]);
        CHECK_EQ(h.h2, expected[i][1]);
    }
}

static const uint64_t murmur3_x64_128[KEYS][2] = {
    { 0, 0 },
    { 0x85555565f6597889u, 0xe6b53a48510e895au },
    { 0xc65a982299c5394cu, 0xd00b8273a4657f7bu },
    { 0xdae7f03cd061a492u, 0xded4c4f95c702472u },
    { 0xebbf39fc799fb73bu, 0xcbba7b69e3cdd135u },
    { 0x5934efe32fb7671du, 0xa0a50b1d771cd844u },
};

TEST(foreign_hashes__murmur3_x64_128)
{
    check_pairs(foreign_murmur3_x64_128, murmur3_x64_128);
}

TEST(foreign_hashes__murmur3_x64_128_signed)
{
    uint64_t expected[KEYS][2];
    memcpy(expected, murmur3_x64_128, sizeof expected);
    /* The signed variant gives a different hash only for the key that ends with ff 80 7f. */
    expected[4][0] = 0xada3b7d22f817c6fu;
    expected[4][1] = 0x9543826c7123438du;
    check_pairs(foreign_murmur3_x64_128_signed, (const uint64_t(*)[2])expected);
}

TEST(foreign_hashes__murmur3_x64_128_then_1)
{
    unsigned char longer[101];
    for (size_t len = 0; len < sizeof longer; len++) {
        memset(longer, 0xe7, sizeof longer);
        longer[len] = 1;
        struct foreign_pair a = foreign_murmur3_x64_128_then_1(longer, len);
        struct foreign_pair b = foreign_murmur3_x64_128(longer, len + 1);
        CHECK(a.h1 == b.h1 && a.h2 == b.h2);
    }
}

/* ---- 32 and 64 bits ------------------------------------------------------------------- */

typedef uint32_t hash_32(const void *key, size_t len, uint32_t seed);

static void check_32(hash_32 *hash, uint32_t seed, const uint32_t expected[KEYS])
{
    make_keys();
    for (size_t i = 0; i < KEYS; i++) {
        CHECK_EQ(hash(keys[i].bytes, keys[i].len, seed), expected[i]);
    }
}

TEST(foreign_hashes__murmur3_x86_32)
{
    const uint32_t seed_0[KEYS] = { 0,          0x3c2569b2, 0xc10e487c,
                                    0x24d666ab, 0x009c8393, 0xbbd3159d };
    const uint32_t seed_1[KEYS] = { 0x6a396f08, 0x4864efa5, 0x3f91db88,
                                    0x9f126010, 0x6e000890, 0xf955f9db };
    check_32(foreign_murmur3_x86_32, 0, seed_0);
    check_32(foreign_murmur3_x86_32, 0xfba4c795, seed_1);
}

TEST(foreign_hashes__murmur3_spark)
{
    const uint32_t expected[KEYS] = { 0,          0x2b038801, 0x1d0ac022,
                                      0x24d666ab, 0x96a42ca2, 0xbbd3159d };
    check_32(foreign_murmur3_spark, 0, expected);
}

TEST(foreign_hashes__murmur2)
{
    const uint32_t hadoop[KEYS] = { 0,          0x92685f5e, 0x96c255b3,
                                    0xada5f7ab, 0x4f86b2bd, 0x0c388961 };
    check_32(foreign_murmur2_hadoop, 0, hadoop);
}

TEST(foreign_hashes__murmur64a)
{
    const uint64_t expected[KEYS] = { 0x1ab11ea5a7b2c56eu, 0x4292cee227b9150au,
                                      0x3b8a9102675a2546u, 0xfe7daac1a5941128u,
                                      0x951dc6ecb1d9e503u, 0x3e6d88375f4bf77cu };
    make_keys();
    for (size_t i = 0; i < KEYS; i++) {
        CHECK_EQ(foreign_murmur64a(keys[i].bytes, keys[i].len, 0xc6a4a7935bd1e995u),
                 expected[i]);
    }
}

TEST(foreign_hashes__fnv1)
{
    const uint64_t expected[KEYS] = { 0xcbf29ce484222325u, 0xaf63bd4c8601b7beu,
                                      0x2ee08793c93cf9ddu, 0x7b76d0731730beb4u,
                                      0x8de454003a89835fu, 0xcc87f4bbe77f6775u };
    make_keys();
    for (size_t i = 0; i < KEYS; i++) {
        CHECK_EQ(foreign_fnv1_64(keys[i].bytes, keys[i].len), expected[i]);
    }
}

TEST(foreign_hashes__jenkins)
{
    const char *text = "Four score and seven years ago";
    CHECK_EQ(foreign_jenkins(NULL, 0, 0), 0xdeadbeef);
    CHECK_EQ(foreign_jenkins(NULL, 0, 0xdeadbeef), 0xbd5b7dde);
    CHECK_EQ(foreign_jenkins(text, 30, 0), 0x17770551);
    CHECK_EQ(foreign_jenkins(text, 30, 1), 0xcd628161);
}

/* ---- Digests -------------------------------------------------------------------------- */

TEST(foreign_hashes__md5_after_a_byte_1)
{
    const char *expected[KEYS] = {
        "55a54008ad1ba589aa210d2629c1df41", "76a2c230077fa45e1d2d700678e7e985",
        "1f7118e2dc178ada14cad736f0dc1308", "fa456434ca1b5e646ec5e95b8f882b57",
        "5f6ecb8da9c3f81a40ef606465afbefc", "e164d8807893ecfa4280cbbc8276e603",
    };
    make_keys();
    for (size_t i = 0; i < KEYS; i++) {
        unsigned char digest[16];
        char text[33] = { 0 };
        foreign_md5(1, keys[i].bytes, keys[i].len, digest);
        for (size_t at = 0; at < 32; at++) {
            text[at] = "0123456789abcdef"[digest[at / 2] >> (at % 2 ? 0 : 4) & 15];
        }
        CHECK_STR(text, expected[i]);
    }
}

TEST(foreign_hashes__blake2b_of_8_bytes)
{
    const uint64_t expected[KEYS] = { 0x25ed5e48233bdce8u, 0xf886f69aa47e62a1u,
                                      0x3c5a35d9fa7946ecu, 0x422cec02aa76308du,
                                      0x594eb570b0754a4cu, 0x65ce1c2929f2591eu };
    make_keys();
    for (size_t i = 0; i < KEYS; i++) {
        CHECK_EQ(foreign_blake2b_64("bf1", keys[i].bytes, keys[i].len), expected[i]);
    }
}

/* ---- Every length --------------------------------------------------------------------- */

/* Returns key n, which consists of n bytes, about half of them above 0x7f. */
static const unsigned char *key_of_length(size_t n)
{
    static unsigned char key[LONG];
    for (size_t i = 0; i < n; i++) {
        key[i] = (unsigned char)(i * 37 + 200 + n);
    }
    return key;
}

static uint64_t digest; /* digest of a sequence of hashes */

static void fold(uint64_t hash)
{
    digest = ((digest << 7 | digest >> 57) + hash) * 0x9e3779b97f4a7c15u;
}

static void fold_pair(struct foreign_pair h)
{
    fold(h.h1);
    fold(h.h2);
}

#define CHECK_LENGTHS(count, statement, expected)                                      \
    do {                                                                               \
        digest = 0;                                                                    \
        for (size_t n = 0; n < (count); n++) {                                         \
            const unsigned char *key = key_of_length(n);                               \
            statement;                                                                 \
        }                                                                              \
        CHECK_EQ(digest, expected);                                                    \
    } while (0)

TEST(foreign_hashes__every_length)
{
    const uint32_t seed = 0x9747b28c;
    CHECK_LENGTHS(200, fold_pair(foreign_murmur3_x64_128(key, n)), 0xa364c733ab073c7au);
    CHECK_LENGTHS(200, fold_pair(foreign_murmur3_x64_128_then_1(key, n)),
                  0x003e0fe0f2749a60u);
    CHECK_LENGTHS(200, fold_pair(foreign_murmur3_x64_128_signed(key, n)),
                  0x33006ef5db602a07u);
    CHECK_LENGTHS(200, fold(foreign_murmur3_x86_32(key, n, seed)), 0x9e37860efc4ecda4u);
    CHECK_LENGTHS(200, fold(foreign_murmur3_spark(key, n, seed)), 0x9b179d12669777e5u);
    CHECK_LENGTHS(200, fold(foreign_murmur2_hadoop(key, n, seed)), 0xd9651b7fc2bbdb8fu);
    CHECK_LENGTHS(200, fold(foreign_murmur64a(key, n, seed)), 0xe0a935bf809e1c83u);
    CHECK_LENGTHS(200, fold(foreign_fnv1_64(key, n)), 0xfb83dafb64a99223u);
    CHECK_LENGTHS(LONG, fold(foreign_blake2b_64("bf1", key, n)), 0x500cb103ac737167u);
}

static void fold_md5(const unsigned char *key, size_t len)
{
    unsigned char md5[16];
    foreign_md5(1, key, len, md5);
    fold(bgi_load_le64(md5));
    fold(bgi_load_le64(md5 + 8));
}

TEST(foreign_hashes__md5_of_every_length)
{
    CHECK_LENGTHS(LONG, fold_md5(key, n), 0x969c341134ee2492u);
}
