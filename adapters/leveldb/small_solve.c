/*
 * small_solve.c - solving the equations of a ribbon.
 *
 * One equation per key: the parity of some columns of row r is bit r of the key's values. All
 * rows have the same coefficients, so they are eliminated once, with the values of all rows in
 * one word beside them.
 *
 * Elimination goes key by key. pivots[i] is the equation whose first column is i, if there is
 * one (its lowest bit is then set). A new equation is XORed with the pivot of its first column
 * until that place is free, where it stays; or until nothing is left of it, when its values must
 * be zero (a key that came twice) or it contradicts what is there. Afterwards the columns are
 * settled from the last to the first; those without a pivot are free, and zero.
 *
 * Up to 64 columns, which is what LevelDB usually asks for, coefficients are one word that does
 * not move: bit i is column i. Beyond, they are two words whose bit 0 is the column of the
 * pivot.
 */
#include "small_solve.h"

#include "small_bits.h"

#include <string.h>

/* ---- Up to 64 columns ---------------------------------------------------------------- */

static bool small_solve_word_add(struct small_equation *pivots, struct small_equation e)
{
    while (e.low) {
        struct small_equation *pivot = &pivots[__builtin_ctzll(e.low)];
        if (!pivot->low) {
            *pivot = e;
            return true;
        }
        e.low ^= pivot->low;
        e.values ^= pivot->values;
    }
    return e.values == 0;
}

static void small_solve_put_word(uint8_t *bits, size_t at, size_t n, uint64_t word)
{
    for (size_t i = 0; i < n;) { /* up to the next byte's border at a time */
        size_t shift = (at + i) % 8;
        bits[(at + i) / 8] |= (uint8_t)((word >> i & small_ones(8 - shift)) << shift);
        i += 8 - shift;
    }
}

/* Column by column: the rows of one are independent of each other, and overlap. */
static void small_solve_word_settle(uint32_t rows, size_t columns,
                                    const struct small_equation *pivots, uint8_t *bits)
{
    uint64_t row[SMALL_MAX_ROWS] = { 0 };
    for (size_t i = columns; i-- > 0;) {
        const struct small_equation pivot = pivots[i];
        for (uint32_t r = 0; r < rows; r++) {
            uint64_t bit = small_parity(pivot.low & row[r]) ^ (pivot.values >> r & 1);
            row[r] |= bit << i;
        }
    }
    for (uint32_t r = 0; r < rows; r++) {
        small_solve_put_word(bits, r * columns, columns, row[r]);
    }
}

/* ---- More of them -------------------------------------------------------------------- */

/* Drops the zeros below the lowest coefficient; there is one. */
static void small_solve_shift(struct small_equation *e)
{
    if (!e->low) {
        e->low = e->high;
        e->high = 0;
        e->start += 64;
    }
    unsigned zeros = (unsigned)__builtin_ctzll(e->low);
    e->low = e->low >> zeros | e->high << 1 << (63 - zeros);
    e->high >>= zeros;
    e->start += zeros;
}

static bool small_solve_band_add(struct small_equation *pivots, struct small_equation e)
{
    while (e.low | e.high) {
        small_solve_shift(&e);
        struct small_equation *pivot = &pivots[e.start];
        if (!pivot->low) {
            *pivot = e;
            return true;
        }
        e.low ^= pivot->low;
        e.high ^= pivot->high;
        e.values ^= pivot->values;
    }
    return e.values == 0;
}

static void small_solve_band_settle(uint32_t rows, size_t columns,
                                    const struct small_equation *pivots, uint8_t *bits)
{
    uint64_t low[SMALL_MAX_ROWS] = { 0 },
             high[SMALL_MAX_ROWS] = { 0 }; /* bit 0: column i */
    for (size_t i = columns; i-- > 0;) {
        const struct small_equation pivot = pivots[i];
        for (uint32_t r = 0; r < rows; r++) {
            uint64_t l = low[r] << 1, h = high[r] << 1 | low[r] >> 63;
            l |= small_parity((pivot.low & l) ^ (pivot.high & h))
                 ^ (pivot.values >> r & 1);
            low[r] = l;
            high[r] = h;
            size_t at = r * columns + i;
            bits[at / 8] |= (uint8_t)((l & 1) << at % 8);
        }
    }
}

bool small_solve(uint32_t rows, size_t columns, uint32_t seed, const uint64_t *hashes,
                 size_t n, struct small_equation *pivots, uint8_t *bits)
{
    const uint32_t wanted = (uint32_t)small_ones(rows);
    memset(pivots, 0, columns * sizeof *pivots);
    for (size_t i = 0; i < n; i++) {
        struct small_equation e = small_equation_of(hashes[i], seed, columns);
        e.values &= wanted;
        if (columns <= 64 ? !small_solve_word_add(pivots, e)
                          : !small_solve_band_add(pivots, e)) {
            return false;
        }
    }
    if (columns <= 64) {
        small_solve_word_settle(rows, columns, pivots, bits);
    } else {
        small_solve_band_settle(rows, columns, pivots, bits);
    }
    return true;
}
