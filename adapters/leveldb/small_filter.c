/*
 * small_filter.c - the layout of small filters.
 *
 * LevelDB makes a filter for every data block: some 37 keys of 16 bytes with values of 100. Its
 * own is a Bloom filter of about 47 bytes, whose k positions come from one 32-bit hash by double
 * hashing; in so few bits the positions of a key often meet, and it answers "maybe" to 1 in 100
 * absent keys at 10 bits per key. A Bloom filter with well mixed positions would do so to 1 in
 * 125. But all keys are known when a filter is made, and there are few of them; so the usual
 * objections to solving equations (time, memory, columns to spare) have little weight, and
 * what is possible comes within reach: 1 in 2^10.
 *
 *   byte 0   layout    0 .. 191    ribbon: 8 * (rows - 1) + seed, for rows 1 .. 24
 *                      192 .. 215  Bloom filter: 191 + k, for k 1 .. 24
 *                      216 .. 255  not given yet
 *   byte 1   check     of all other bytes, see small_filter_check
 *   then     bits      bit i is bit i % 8 of byte i / 8
 *
 * Ribbon. The bits are `rows` rows of m columns each, m = bits / rows; what is left at the end
 * is zero. A hash has m coefficients and one value per row (small_equation_of). It may be in
 * the set if in every row the parity of the columns that it has coefficients for is its value.
 * The maker solves these equations for all keys (small_solve.c). A stranger's values are right
 * by chance alone: once in 2^rows, whatever the number of keys.
 *   Up to 128 columns an equation spans all of them, so as many columns as keys suffice: a
 * random square matrix over bits can be solved with probability 0.29, hence after 3.5 seeds on
 * average. If none of the eight seeds will do, in 6 % of cases, there is a byte more. With more
 * keys the coefficients of a key are 128 columns from a place that its hash chooses, and some
 * columns more than keys are needed; there the ribbon has one row less than there are bits per
 * key, and takes fewer bits than it may.
 *
 * Bloom filter. Over m = bits; position i of a hash is one half of a mix of the hash and i / 2.
 * It is cheaper to make; and it is what more than a million keys get.
 *
 * Doubt. Everything that is not a whole filter of this layout is answered "maybe": too short,
 * an unknown layout, a check that does not agree. LevelDB has a checksum for all filters of a
 * table, but looks at it only when told to be paranoid; and a ribbon of wrong bits would deny
 * half of its keys.
 *
 * Invariants
 *   (S1) What make() wrote is answered "maybe" for each of its hashes.
 *   (S2) may_match() reads filter[0 .. len) and nothing else, for any bytes.
 *   (S3) Damage inside of one byte never makes a "no" of a "maybe" (up to SMALL_CHECKED bytes).
 *
 * Source of the idea: P. Dillinger, S. Walzer, Ribbon filter, 2021.
 */
#include "small_filter.h"

#include "small_bits.h"
#include "small_solve.h"

#include <string.h>

enum {
    SMALL_BLOOM =
        SMALL_MAX_ROWS * SMALL_SEEDS, /* the layout of a Bloom filter with k = 1 */
    SMALL_UNKNOWN = SMALL_BLOOM + SMALL_MAX_ROWS,
    SMALL_LEAST = 8,     /* bytes of bits: what LevelDB's own filters have at least */
    SMALL_CHECKED = 4096 /* bytes; in a larger filter the check would take too long */
};

/* ---- The check ----------------------------------------------------------------------- */

static inline uint64_t small_filter_turn(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

/*
 * The XOR of all 8-byte words, neighbours turned by different numbers of bits, and of layout and
 * length; then the XOR of its 8 bytes. Damage inside of one byte changes at most one bit of each
 * place mod 8, so the check differs; with other damage it agrees once in 256 times. The check of
 * zeros is not zero. There are four sums, so that they overlap.
 */
static uint8_t small_filter_check(const uint8_t *filter, size_t len)
{
    const uint8_t *bits = filter + SMALL_HEADER;
    size_t n = len - SMALL_HEADER, i = 0;
    uint64_t sum =
        UINT64_C(0x80) ^ filter[0] ^ len * UINT64_C(0x9e3779b97f4a7c15) >> 57;
    uint64_t b = 0, c = 0, d = 0;
    if (n > SMALL_CHECKED) {
        n = 0; /* layout and length only */
    }
    for (; i + 32 <= n; i += 32) {
        sum ^= small_word(bits + i);
        b ^= small_word(bits + i + 8);
        c ^= small_word(bits + i + 16);
        d ^= small_word(bits + i + 24);
    }
    sum ^=
        small_filter_turn(b, 19) ^ small_filter_turn(c, 29) ^ small_filter_turn(d, 45);
    for (; i + 8 <= n; i += 8) {
        sum = small_filter_turn(sum, 11) ^ small_word(bits + i);
    }
    if (i < n) {
        sum = small_filter_turn(sum, 11) ^ small_last_word(bits, n, i);
    }
    sum ^= sum >> 32;
    sum ^= sum >> 16;
    return (uint8_t)(sum ^ sum >> 8);
}

/* ---- Bloom filters ------------------------------------------------------------------- */

/* Two positions of a hash among m bits, m < 2^32. */
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

/* What is compiled twice, with and without an instruction that counts ones; in it `popcnt` is a
 * constant. */
#define SMALL_INLINE __attribute__((always_inline)) static inline

/* A hash and the ribbon that it is looked for in. */
struct small_question {
    const uint8_t *bits;
    size_t n, columns;
    struct small_equation e;
};

/* Whether row r yields another value than the hash has, in bit 0, if `x` is what the hash has
 * coefficients for. */
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

/* The same where all bytes that it loads are there. */
SMALL_INLINE uint32_t small_filter_near_miss(const struct small_question *q, uint32_t r,
                                             bool popcnt)
{
    size_t at = r * q->columns + q->e.start;
    uint64_t x = small_word(q->bits + at / 8) >> at % 8;
    if (q->columns > 57) { /* else 8 bytes are enough */
        x |= (uint64_t)q->bits[at / 8 + 8] << 1 << (63 - at % 8);
    }
    x &= q->e.low;
    if (q->columns > 64) {
        x ^= small_bits_inside(q->bits, at + 64) & q->e.high;
    }
    return small_filter_differs(q, r, x, popcnt);
}

/* Whether row r may be loaded without looking where the bits end. */
SMALL_INLINE bool small_filter_is_near(const struct small_question *q, uint32_t r)
{
    size_t bytes = q->columns <= 57 ? 8 : q->columns <= 64 ? 9 : 17;
    return (r * q->columns + q->e.start) / 8 + bytes <= q->n;
}

/*
 * Four rows at once: a branch after each would be guessed wrongly every other time, one after
 * four goes one way 15 times in 16.
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
         r += 4) { /* the last of them perhaps twice */
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

/* ---- Asking -------------------------------------------------------------------------- */

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

/* ---- Making -------------------------------------------------------------------------- */

static size_t small_filter_bytes(size_t n, uint32_t bits)
{
    return (n * bits + 7) / 8;
}

/* The fewest columns that n equations are usually solved in. */
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
    size_t most = UINT32_MAX / 8 - SMALL_HEADER; /* LevelDB has offsets of 32 bits */
    size_t bytes = n > most / bits_per_key ? most : small_filter_bytes(n, bits_per_key);
    bytes = bytes < SMALL_LEAST ? SMALL_LEAST : bytes;
    if (!bloom && n <= SMALL_MAX_RIBBON) {
        shape.columns = small_filter_columns(n);
        size_t rows = bytes * 8 / shape.columns;
        shape.rows = rows < SMALL_MAX_ROWS ? (uint32_t)rows : SMALL_MAX_ROWS;
    }
    double best_k = 0.6931 * 8 * (double)bytes / (double)n; /* of a Bloom filter */
    if (shape.rows > best_k || shape.rows == SMALL_MAX_ROWS) {
        shape.limit = shape.columns + shape.columns / 16 + 8 * SMALL_LEAST;
        shape.max_bytes =
            SMALL_HEADER + SMALL_LEAST + small_filter_bytes(shape.limit, shape.rows);
    } else { /* at few bits per key and many keys a row less would cost too much */
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
    for (bytes = bytes < SMALL_LEAST ? SMALL_LEAST : bytes;; bytes += 1 + bytes / 128) {
        size_t columns = bytes * 8 / shape->rows; /* as the asker will find it */
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
