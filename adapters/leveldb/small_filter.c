/*
 * small_filter.c - the layout of small filters.
 *
 * LevelDB builds a filter for every data block. With keys of 16 bytes and values of 100 bytes, a
 * block holds about 37 keys. LevelDB's built-in filter is a Bloom filter of about 47 bytes, which
 * derives the k bit positions of a key from one 32-bit hash by double hashing. With so few bits,
 * the positions of a key often coincide, so the false-positive rate is 1 in 100 at 10 bits per key.
 * With well-mixed positions, a Bloom filter would have a rate of 1 in 125. But all keys are known
 * when a filter is built, and there are few of them. The usual costs of solving a system of
 * equations instead (time, memory, spare columns) are therefore low, and the optimal rate of 1 in
 * 2^10 is within reach.
 *
 *   byte 0   layout    0 .. 191    ribbon: 8 * (rows - 1) + seed, for rows 1 .. 24
 *                      192 .. 215  Bloom filter: 191 + k, for k 1 .. 24
 *                      216 .. 255  unassigned
 *   byte 1   check     of all other bytes, see small_filter_check
 *   then     bits      bit i is bit i % 8 of byte i / 8
 *
 * Ribbon. The bits are `rows` rows of m columns each, where m = bits / rows; unused bits at the end
 * are zero. A hash has m coefficients and one value per row (small_equation_of). A query answers
 * "maybe" if, in every row, the parity of the columns selected by the hash's coefficients equals
 * its value for that row. The builder solves these equations for all keys (small_solve.c). The
 * values of an absent key match only by chance, with probability 2^-rows, regardless of the number
 * of keys.
 *   With up to 128 columns, an equation spans all of them, so the number of columns can equal the
 *   number of keys. A random square system over GF(2) can be solved with probability 0.29, so 3.5
 *   seeds are needed on average. If none of the eight seeds works, which happens in 6% of cases,
 *   the filter is enlarged by one byte, and all seeds are tried again. With more keys, the
 *   coefficients of a key span 128 columns, starting at a position that its hash selects, and there
 *   must be more columns than keys. Such a ribbon has one row fewer than the requested number of
 *   bits per key, and is smaller than requested.
 *
 * Bloom filter. The filter has m = `bits` positions, and a hash selects k of them. Positions 2j and
 * 2j + 1 are the two halves of a 64-bit mix of the hash and j, each scaled to m. A Bloom filter is
 * cheaper to build than a ribbon, and is used for more than a million keys.
 *
 * Invalid bytes. Queries return "maybe" for bytes that are not a valid filter: bytes that are too
 * short, have an unknown layout, or have a wrong check byte. LevelDB stores one checksum for all
 * filters of a table, but verifies the checksum only if paranoid checks are enabled. Without the
 * check byte, a damaged ribbon would answer "no" for half of its keys.
 *
 * Invariants
 *   (S1) A filter written by make() answers "maybe" for each of its hashes.
 *   (S2) may_match() reads only filter[0 .. len), even if the bytes are invalid.
 *   (S3) In filters of up to SMALL_CHECKED bytes, damage within one byte never turns a "maybe" into
 *        a "no".
 *
 * Based on: P. Dillinger, S. Walzer, Ribbon filter, 2021.
 */
#include "small_filter.h"

#include "small_bits.h"

#include <string.h>

enum {
    SMALL_BLOOM = SMALL_MAX_ROWS * SMALL_SEEDS, /* layout of a Bloom filter, k = 1 */
    SMALL_UNKNOWN = SMALL_BLOOM + SMALL_MAX_ROWS,
    SMALL_MIN = 8,       /* minimum number of bytes for the bits, as in LevelDB */
    SMALL_CHECKED = 4096 /* in bytes; checking larger filters would take too long */
};

/* ---- The check ----------------------------------------------------------------------- */

static inline uint64_t small_filter_turn(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

/*
 * Computes the XOR of the layout, the length and all 8-byte words, with adjacent words rotated by
 * different numbers of bits, and returns the XOR of the result's 8 bytes. Damage within one byte
 * changes at most one bit at each position mod 8, so the check always detects such damage. The
 * check misses any other damage with probability 1/256. The check byte of all-zero data is not
 * zero. Four independent sums allow the CPU to overlap the loads.
 */
static uint8_t small_filter_check(const uint8_t *filter, size_t len)
{
    const uint8_t *bits = filter + SMALL_HEADER;
    size_t n = len - SMALL_HEADER, i = 0;
    uint64_t sum =
        UINT64_C(0x80) ^ filter[0] ^ len * UINT64_C(0x9e3779b97f4a7c15) >> 57;
    uint64_t b = 0, c = 0, d = 0;
    if (n > SMALL_CHECKED) {
        n = 0; /* a large filter: check only the layout and the length */
    }
    for (; i + 32 <= n; i += 32) {
        sum ^= bytes_load64(bits + i);
        b ^= bytes_load64(bits + i + 8);
        c ^= bytes_load64(bits + i + 16);
        d ^= bytes_load64(bits + i + 24);
    }
    sum ^=
        small_filter_turn(b, 19) ^ small_filter_turn(c, 29) ^ small_filter_turn(d, 45);
    for (; i + 8 <= n; i += 8) {
        sum = small_filter_turn(sum, 11) ^ bytes_load64(bits + i);
    }
    if (i < n) {
        sum = small_filter_turn(sum, 11) ^ small_last_word(bits, n, i);
    }
    sum ^= sum >> 32;
    sum ^= sum >> 16;
    return (uint8_t)(sum ^ sum >> 8);
}

/* ---- Bloom filters ------------------------------------------------------------------- */

/* Computes positions 2 * pair and 2 * pair + 1 of a hash among m bits. Requires m < 2^32. */
static inline void small_filter_positions(uint64_t hash, uint32_t pair, uint64_t m,
                                          uint64_t at[2])
{
    uint64_t x = small_mix(hash + pair * UINT64_C(0x9e3779b97f4a7c15));
    at[0] = (x >> 32) * m >> 32;
    at[1] = (x & UINT32_MAX) * m >> 32;
}

static bool small_filter_bloom_has(const uint8_t *bits, uint64_t m, uint32_t k,
                                   uint64_t hash)
{
    uint64_t at[2];
    for (uint32_t i = 0; i < k; i++) {
        if (i % 2 == 0) {
            small_filter_positions(hash, i / 2, m, at);
        }
        if (!(bits[at[i % 2] / 8] >> at[i % 2] % 8 & 1)) {
            return false;
        }
    }
    return true;
}

static void small_filter_bloom_add(uint8_t *bits, uint64_t m, uint32_t k, uint64_t hash)
{
    uint64_t at[2];
    for (uint32_t i = 0; i < k; i++) {
        if (i % 2 == 0) {
            small_filter_positions(hash, i / 2, m, at);
        }
        bits[at[i % 2] / 8] |= (uint8_t)(1u << at[i % 2] % 8);
    }
}

/* ---- Ribbons ------------------------------------------------------------------------- */

/* Marks functions that are compiled twice, with and without the popcount instruction; `popcnt` is a
 * compile-time constant in each copy. */
#define SMALL_INLINE __attribute__((always_inline)) static inline

/* A hash, and the ribbon in which it is looked up. */
struct small_question {
    const uint8_t *bits;
    size_t n, columns;
    struct small_equation e;
};

/* Returns 1 if the parity of row r differs from the hash's value for the row, otherwise 0. `x`
 * contains the columns of row r that the coefficients select. */
SMALL_INLINE uint32_t small_filter_differs(const struct small_question *q, uint32_t r,
                                           uint64_t x, bool popcnt)
{
    uint32_t parity = popcnt ? (uint32_t)__builtin_popcountll(x) : small_parity(x);
    return (parity ^ q->e.values >> r) & 1;
}

SMALL_INLINE uint32_t small_filter_miss(const struct small_question *q, uint32_t r,
                                        bool popcnt)
{
    size_t at = r * q->columns + q->e.start;
    uint64_t x = small_bits(q->bits, q->n, at) & q->e.low;
    if (q->columns > 64) {
        x ^= small_bits(q->bits, q->n, at + 64) & q->e.high;
    }
    return small_filter_differs(q, r, x, popcnt);
}

/* Like small_filter_miss, but without checking for the end of the bits. Requires
 * small_filter_is_near. */
SMALL_INLINE uint32_t small_filter_near_miss(const struct small_question *q, uint32_t r,
                                             bool popcnt)
{
    size_t at = r * q->columns + q->e.start;
    uint64_t x = bytes_load64(q->bits + at / 8) >> at % 8;
    if (q->columns > 57) { /* up to 57 columns always fit into 8 bytes */
        x |= (uint64_t)q->bits[at / 8 + 8] << 1 << (63 - at % 8);
    }
    x &= q->e.low;
    if (q->columns > 64) {
        x ^= small_bits_inside(q->bits, at + 64) & q->e.high;
    }
    return small_filter_differs(q, r, x, popcnt);
}

/* Returns whether row r can be loaded without checking for the end of the bits. */
SMALL_INLINE bool small_filter_is_near(const struct small_question *q, uint32_t r)
{
    size_t bytes = q->columns <= 57 ? 8 : q->columns <= 64 ? 9 : 17;
    return (r * q->columns + q->e.start) / 8 + bytes <= q->n;
}

/*
 * Checks four rows together. For an absent key, a branch after each row would be mispredicted half
 * the time, whereas a branch after four rows goes the same way 15 times in 16.
 */
SMALL_INLINE bool small_filter_miss_in_four(const struct small_question *q, uint32_t r,
                                            bool popcnt)
{
    uint32_t miss = 0;
    if (small_filter_is_near(q, r + 3)) {
        miss = small_filter_near_miss(q, r, popcnt)
               | small_filter_near_miss(q, r + 1, popcnt)
               | small_filter_near_miss(q, r + 2, popcnt)
               | small_filter_near_miss(q, r + 3, popcnt);
    } else {
        for (uint32_t i = r; i < r + 4; i++) {
            miss |= small_filter_miss(q, i, popcnt);
        }
    }
    return miss != 0;
}

SMALL_INLINE bool small_filter_ribbon_has(const uint8_t *bits, uint32_t n,
                                          uint32_t layout, uint64_t hash, bool popcnt)
{
    uint32_t rows = layout / SMALL_SEEDS + 1, columns = n * 8 / rows;
    if (columns == 0) {
        return true;
    }
    const struct small_question q = {
        bits, n, columns, small_equation_of(hash, layout % SMALL_SEEDS, columns)
    };
    for (uint32_t r = 0; rows < 4 && r < rows; r++) {
        if (small_filter_miss(&q, r, popcnt)) {
            return false;
        }
    }
    for (uint32_t r = 0; rows >= 4 && r < rows;
         r += 4) { /* checks some rows twice unless rows is a multiple of 4 */
        if (small_filter_miss_in_four(&q, r + 4 <= rows ? r : rows - 4, popcnt)) {
            return false;
        }
    }
    return true;
}

static bool small_filter_ribbon_plain(const uint8_t *bits, uint32_t n, uint32_t layout,
                                      uint64_t hash)
{
    return small_filter_ribbon_has(bits, n, layout, hash, false);
}

#if defined(__x86_64__)
__attribute__((target("popcnt"))) static bool
small_filter_ribbon_popcnt(const uint8_t *bits, uint32_t n, uint32_t layout,
                           uint64_t hash)
{
    return small_filter_ribbon_has(bits, n, layout, hash, true);
}

bool small_filter_can_popcnt(void)
{
    return __builtin_cpu_supports("popcnt") != 0;
}
#else
#define small_filter_ribbon_popcnt small_filter_ribbon_plain

bool small_filter_can_popcnt(void)
{
    return false;
}
#endif

/* ---- Queries ------------------------------------------------------------------------- */

bool small_filter_may_match(const uint8_t *filter, size_t len, uint64_t hash,
                            bool popcnt)
{
    if (len <= SMALL_HEADER || len > UINT32_MAX / 8) {
        return true;
    }
    uint32_t layout = filter[0];
    if (layout >= SMALL_UNKNOWN || filter[1] != small_filter_check(filter, len)) {
        return true;
    }
    const uint8_t *bits = filter + SMALL_HEADER;
    uint32_t n = (uint32_t)(len - SMALL_HEADER);
    if (layout >= SMALL_BLOOM) {
        return small_filter_bloom_has(bits, n * UINT64_C(8), layout - SMALL_BLOOM + 1,
                                      hash);
    }
    return popcnt ? small_filter_ribbon_popcnt(bits, n, layout, hash)
                  : small_filter_ribbon_plain(bits, n, layout, hash);
}

/* ---- Building ------------------------------------------------------------------------ */

static size_t small_filter_bytes(size_t n, uint32_t bits)
{
    return (n * bits + 7) / 8;
}

/* Returns the minimum number of columns with which n equations can usually be solved. */
static size_t small_filter_columns(size_t n)
{
    if (n <= SMALL_DENSE) {
        return n;
    }
    size_t doublings = (size_t)(63 - __builtin_clzll((uint64_t)n)) - 6;
    return n + n * doublings / 256 + 4; /* measured */
}

struct small_shape small_shape_for(size_t n, uint32_t bits_per_key, bool bloom)
{
    struct small_shape shape = { 0 };
    size_t most = UINT32_MAX / 8 - SMALL_HEADER; /* LevelDB's offsets are 32-bit */
    size_t bytes = n > most / bits_per_key ? most : small_filter_bytes(n, bits_per_key);
    bytes = bytes < SMALL_MIN ? SMALL_MIN : bytes;
    if (!bloom && n <= SMALL_MAX_RIBBON) {
        shape.columns = small_filter_columns(n);
        size_t rows = bytes * 8 / shape.columns;
        shape.rows = rows < SMALL_MAX_ROWS ? (uint32_t)rows : SMALL_MAX_ROWS;
    }
    double best_k = 0.6931 * 8 * (double)bytes / (double)n; /* of a Bloom filter */
    if (shape.rows > best_k || shape.rows == SMALL_MAX_ROWS) {
        shape.limit = shape.columns + shape.columns / 16 + 8 * SMALL_MIN;
        shape.max_bytes =
            SMALL_HEADER + SMALL_MIN + small_filter_bytes(shape.limit, shape.rows);
    } else { /* no ribbon is possible, or a ribbon would not have a lower rate */
        shape.rows = 0;
        shape.k = best_k < 1                ? 1
                  : best_k > SMALL_MAX_ROWS ? SMALL_MAX_ROWS
                                            : (uint32_t)(best_k + 0.5);
        shape.max_bytes = SMALL_HEADER + bytes;
    }
    return shape;
}

static size_t small_filter_seal(uint8_t *out, uint32_t layout, size_t bytes)
{
    out[0] = (uint8_t)layout;
    out[1] = small_filter_check(out, SMALL_HEADER + bytes);
    return SMALL_HEADER + bytes;
}

size_t small_filter_make(const struct small_shape *shape, const uint64_t *hashes,
                         size_t n, struct small_equation *scratch, uint8_t *out)
{
    uint8_t *bits = out + SMALL_HEADER;
    memset(out, 0, shape->max_bytes);
    if (!shape->rows) {
        size_t bytes = shape->max_bytes - SMALL_HEADER;
        for (size_t i = 0; i < n; i++) {
            small_filter_bloom_add(bits, (uint64_t)bytes * 8, shape->k, hashes[i]);
        }
        return small_filter_seal(out, SMALL_BLOOM + shape->k - 1, bytes);
    }
    size_t bytes = small_filter_bytes(shape->columns, shape->rows);
    for (bytes = bytes < SMALL_MIN ? SMALL_MIN : bytes;; bytes += 1 + bytes / 128) {
        size_t columns = bytes * 8 / shape->rows; /* as in queries */
        if (columns > shape->limit) {
            return 0;
        }
        for (uint32_t seed = 0; seed < SMALL_SEEDS; seed++) {
            if (small_solve(shape->rows, columns, seed, hashes, n, scratch, bits)) {
                return small_filter_seal(out, (shape->rows - 1) * SMALL_SEEDS + seed,
                                         bytes);
            }
        }
    }
}
