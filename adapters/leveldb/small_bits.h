/*
 * small_bits.h - reads bits from byte arrays, and derives the ribbon equation for a hash, for both
 * building and querying small filters. Declares the solver (small_solve.c), which needs both. See
 * small_filter.c for the meaning of the equations.
 */
#ifndef SMALL_BITS_H
#define SMALL_BITS_H

#include "bytes.h"
#include "small_filter.h"

/* Reads up to 8 bytes starting at offset `byte`, padded with zeros. */
static inline uint64_t small_last_word(const uint8_t *bytes, size_t n, size_t byte)
{
    uint64_t word = 0;
    if (n >= 8 && byte < n) {
        return bytes_load64(bytes + n - 8) >> (8 * (byte - (n - 8)));
    }
    for (size_t i = byte; i < n; i++) {
        word |= (uint64_t)bytes[i] << (8 * (i - byte));
    }
    return word;
}

/* Reads 64 bits starting at bit `at`. Accesses 9 bytes. */
static inline uint64_t small_bits_inside(const uint8_t *bytes, size_t at)
{
    unsigned shift = at % 8;
    return bytes_load64(bytes + at / 8) >> shift
           | (uint64_t)bytes[at / 8 + 8] << 1 << (63 - shift);
}

/* Reads 64 bits starting at bit `at` of an array of n bytes. Bits beyond the end are returned as
 * zeros, and are not accessed. */
static inline uint64_t small_bits(const uint8_t *bytes, size_t n, size_t at)
{
    if (at / 8 + 9 <= n) {
        return small_bits_inside(bytes, at);
    }
    return small_last_word(bytes, n, at / 8) >> at % 8;
}

/* Mixes all bits of x into all bits of the result. */
static inline uint64_t small_mix(uint64_t x)
{
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static inline uint32_t small_parity(uint64_t x)
{
    return (uint32_t)__builtin_parityll(x);
}

/* Returns a 64-bit mask with the lowest `n` bits set. */
static inline uint64_t small_ones(size_t n)
{
    return n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
}

/*
 * Returns the equation for a hash in a ribbon with this many columns (1 to 2^32 - 1). If there are
 * at most SMALL_DENSE columns, the equation spans all of them. Otherwise, it spans SMALL_DENSE
 * columns, starting at a position that depends on the hash. Hashes are well mixed, so the bits of
 * the hash itself serve as the values and the start position.
 */
static inline struct small_equation small_equation_of(uint64_t hash, uint32_t seed,
                                                      size_t columns)
{
    uint64_t x = hash + seed * UINT64_C(0x9e3779b97f4a7c15);
    struct small_equation e = { .values = (uint32_t)x };
    e.low = small_mix(x) & small_ones(columns);
    if (columns > 64) {
        e.high = small_mix(x ^ UINT64_C(0xe7037ed1a0b428db)) & small_ones(columns - 64);
    }
    if (columns > SMALL_DENSE) {
        e.start = (uint32_t)((x >> 32) * (columns - SMALL_DENSE + 1) >> 32);
    }
    return e;
}

/*
 * Solves the equations that result from n hashes and a seed, for `rows` rows of `columns` bits. ORs
 * the solution into `bits`, where row r starts at bit r * columns. `pivots` is scratch space for
 * `columns` equations. Returns false, leaving `bits` unchanged, if the equations contradict each
 * other.
 */
bool small_solve(uint32_t rows, size_t columns, uint32_t seed, const uint64_t *hashes,
                 size_t n, struct small_equation *pivots, uint8_t *bits);

#endif
