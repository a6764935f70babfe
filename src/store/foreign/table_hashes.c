/*
 * table_hashes.c - the hash functions of Parquet, RocksDB and LevelDB.
 *
 *   XXH64, XXH32, XXH3   inlined from xxhash.h
 *   XXPH3                Y. Collet's XXH3 as of xxHash 0.7.2, a preview that is used in
 *                        existing files. It has the same secret but different mixing, so its
 *                        results differ from the released XXH3 for every key length
 *   LevelDB's Hash       similar to a 32-bit Murmur hash, with different constants
 *
 * Invariants
 *   (I1) The functions must never change, because the bits in existing files depend on them.
 *        tests/unit/test_table_hashes.c contains values computed by the original software.
 *   (I2) Nothing outside data[0 .. len) is read; `data` may be NULL if len is 0.
 */
#include "store/foreign/table_hashes.h"

#include "base/bits.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t foreign_xxh64(const void *data, size_t len)
{
    return XXH64(data ? data : "", len, 0);
}

uint32_t foreign_xxh32(const void *data, size_t len)
{
    return XXH32(data ? data : "", len, 0);
}

uint64_t foreign_xxh3(const void *data, size_t len)
{
    return XXH3_64bits(data ? data : "", len);
}

/* ---- XXPH3 ------------------------------------------------------------------------- */

#define PRIME32_1 UINT64_C(0x9e3779b1)
#define PRIME32_2 UINT64_C(0x85ebca77)
#define PRIME32_3 UINT64_C(0xc2b2ae3d)
#define PRIME64_1 UINT64_C(0x9e3779b185ebca87)
#define PRIME64_2 UINT64_C(0xc2b2ae3d27d4eb4f)
#define PRIME64_3 UINT64_C(0x165667b19e3779f9)
#define PRIME64_4 UINT64_C(0x85ebca77c2b2ae63)
#define PRIME64_5 UINT64_C(0x27d4eb2f165667c5)

/* The size of a stripe, the size of the secret, and the number of stripes per secret. */
enum { XXPH3_STRIPE = 64, XXPH3_SECRET = 192, XXPH3_ROUNDS = 16 };

_Static_assert(XXPH3_ROUNDS == (XXPH3_SECRET - XXPH3_STRIPE) / 8, "8 bytes a stripe");
_Static_assert(sizeof XXH3_kSecret == XXPH3_SECRET, "the secret of 0.7.2");

static uint64_t xxph3_secret(size_t at)
{
    return bgi_load_le64(XXH3_kSecret + at);
}

static uint64_t xxph3_fold(uint64_t a, uint64_t b)
{
    return a * b ^ bgi_mulhi(a, b);
}

static uint64_t xxph3_avalanche(uint64_t h)
{
    h = (h ^ h >> 37) * PRIME64_3;
    return h ^ h >> 32;
}

static uint64_t xxph3_mix16(const unsigned char *p, size_t secret)
{
    return xxph3_fold(bgi_load_le64(p) ^ xxph3_secret(secret),
                      bgi_load_le64(p + 8) ^ xxph3_secret(secret + 8));
}

static uint64_t xxph3_up_to_16(const unsigned char *p, size_t len)
{
    if (len > 8) {
        uint64_t low = bgi_load_le64(p) ^ xxph3_secret(0);
        uint64_t high = bgi_load_le64(p + len - 8) ^ xxph3_secret(8);
        return xxph3_avalanche(len + low + high + xxph3_fold(low, high));
    }
    if (len >= 4) {
        uint64_t both = bgi_load_le32(p) | (uint64_t)bgi_load_le32(p + len - 4) << 32;
        uint64_t keyed = both ^ xxph3_secret(0);
        uint64_t mixed = len + (keyed ^ keyed >> 51) * PRIME32_1;
        return xxph3_avalanche((mixed ^ mixed >> 47) * PRIME64_2);
    }
    if (len > 0) {
        uint32_t all = p[0] | (uint32_t)p[len / 2] << 8 | (uint32_t)p[len - 1] << 16
                       | (uint32_t)len << 24;
        return xxph3_avalanche((all ^ (uint32_t)xxph3_secret(0)) * PRIME64_1);
    }
    return xxph3_fold(xxph3_secret(0), PRIME64_2);
}

/* Mixes 16 bytes from each end, moving toward the middle. */
static uint64_t xxph3_up_to_128(const unsigned char *p, size_t len)
{
    uint64_t sum = len * PRIME64_1;
    for (size_t i = (len - 1) / 32 + 1; i-- > 0;) {
        sum += xxph3_mix16(p + 16 * i, 32 * i);
        sum += xxph3_mix16(p + len - 16 * (i + 1), 32 * i + 16);
    }
    return xxph3_avalanche(sum);
}

static uint64_t xxph3_up_to_240(const unsigned char *p, size_t len)
{
    uint64_t sum = len * PRIME64_1;
    for (size_t i = 0; i < 8; i++) {
        sum += xxph3_mix16(p + 16 * i, 16 * i);
    }
    sum = xxph3_avalanche(sum);
    for (size_t i = 8; i < len / 16; i++) {
        sum += xxph3_mix16(p + 16 * i, 16 * (i - 8) + 3);
    }
    return xxph3_avalanche(sum + xxph3_mix16(p + len - 16, 136 - 17));
}

static void xxph3_stripe(uint64_t lanes[8], const unsigned char *p, size_t secret)
{
    for (size_t i = 0; i < 8; i++) {
        uint64_t value = bgi_load_le64(p + 8 * i);
        uint64_t keyed = value ^ xxph3_secret(secret + 8 * i);
        lanes[i] += value + (keyed & UINT32_MAX) * (keyed >> 32);
    }
}

static void xxph3_scramble(uint64_t lanes[8])
{
    for (size_t i = 0; i < 8; i++) {
        uint64_t lane = lanes[i] ^ lanes[i] >> 47;
        lanes[i] =
            (lane ^ xxph3_secret(XXPH3_SECRET - XXPH3_STRIPE + 8 * i)) * PRIME32_1;
    }
}

static uint64_t xxph3_long(const unsigned char *p, size_t len)
{
    uint64_t lanes[8] = { PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3,
                          PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1 };
    for (size_t i = 0; i < len / XXPH3_STRIPE; i++) {
        xxph3_stripe(lanes, p + XXPH3_STRIPE * i, 8 * (i % XXPH3_ROUNDS));
        if (i % XXPH3_ROUNDS == XXPH3_ROUNDS - 1) {
            xxph3_scramble(lanes);
        }
    }
    if (len % XXPH3_STRIPE) {
        xxph3_stripe(lanes, p + len - XXPH3_STRIPE, XXPH3_SECRET - XXPH3_STRIPE - 7);
    }
    uint64_t sum = len * PRIME64_1;
    for (size_t i = 0; i < 4; i++) {
        sum += xxph3_fold(lanes[2 * i] ^ xxph3_secret(11 + 16 * i),
                          lanes[2 * i + 1] ^ xxph3_secret(19 + 16 * i));
    }
    return xxph3_avalanche(sum);
}

uint64_t foreign_xxph3(const void *data, size_t len)
{
    const unsigned char *p = data;
    return len <= 16    ? xxph3_up_to_16(p, len)
           : len <= 128 ? xxph3_up_to_128(p, len)
           : len <= 240 ? xxph3_up_to_240(p, len)
                        : xxph3_long(p, len);
}

/* ---- Others ------------------------------------------------------------------------ */

/* Returns the last 0 to 7 bytes as a little-endian number. */
static uint64_t table_tail(const unsigned char *p, size_t len)
{
    uint64_t tail = 0;
    while (len-- > 0) {
        tail = tail << 8 | p[len];
    }
    return tail;
}

uint32_t foreign_leveldb_hash(const void *data, size_t len, uint32_t seed)
{
    const uint32_t m = 0xc6a4a793;
    const unsigned char *p = data;
    uint32_t h = seed ^ (uint32_t)len * m;
    for (size_t i = 0; i < len / 4; i++) {
        h = (h + bgi_load_le32(p + 4 * i)) * m;
        h ^= h >> 16;
    }
    if (len % 4) {
        h = (h + (uint32_t)table_tail(p + len / 4 * 4, len % 4)) * m;
        h ^= h >> 24;
    }
    return h;
}
