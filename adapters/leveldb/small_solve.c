/*
 * small_solve.c - solves the equations of a ribbon.
 *
 * Each key contributes one equation: in every row r, the parity of the columns that the key selects
 * must equal bit r of the key's values. All rows have the same coefficients, so one elimination
 * solves for all rows at once.
 *
 * In LevelDB, the coefficients and values of an equation usually fit into one or two 64-bit words.
 * In that case, the whole matrix is brought to diagonal form: for each column, the first remaining
 * equation that contains the column is XORed into all other equations that contain it. This is more
 * work than necessary, but it has no branches, and compilers vectorize it, so it is twice as fast
 * as the method below.
 *
 * Otherwise, elimination proceeds key by key. pivots[i] is the equation whose first column is i, if
 * such an equation exists. Bit 0 of its coefficients stands for column i and is always set. As long
 * as the first column of a new equation has a pivot, the equation is XORed with that pivot. This
 * step is repeated until the equation has no coefficients left, or until its first column has no
 * pivot. In the latter case, the equation becomes the pivot of that column. Afterwards, the bits
 * are computed column by column, from the last column to the first.
 *
 * In both methods, an equation that has no coefficients left must have only zero values, as the
 * equation of a repeated key does; otherwise, it contradicts the other equations. Columns without a
 * pivot are free, and are set to zero.
 */
#include "small_bits.h"

#include <string.h>

/* ---- Whole matrix ---------------------------------------------------------------------- */

/* Equation i is words[0][i], and words[1][i] if one word is not enough. Bit c is the coefficient
 * of column c, and bit columns + r is the value of row r. */
struct small_matrix {
    uint64_t words[2][SMALL_DENSE];
    uint8_t pivot_columns[SMALL_DENSE]; /* pivot column of each independent equation */
    size_t n, columns;
    uint32_t rows;
    bool wide; /* both words are used */
};

static void small_matrix_fill(struct small_matrix *m, uint32_t seed,
                              const uint64_t *hashes)
{
    for (size_t i = 0; i < m->n; i++) {
        struct small_equation e = small_equation_of(hashes[i], seed, m->columns);
        uint64_t values = e.values & small_ones(m->rows);
        size_t at = m->columns % 64;
        if (m->columns < 64) {
            e.low |= values << at;
            e.high |= values >> 1 >> (63 - at);
        } else {
            e.high |= values << at;
        }
        m->words[0][i] = e.low;
        m->words[1][i] = e.high;
    }
}

/* Finds a remaining equation that contains the column, and swaps it with the equation at index
 * `used`. Returns false if there is none. */
static bool small_matrix_pick(struct small_matrix *m, size_t used, size_t column)
{
    const uint64_t *words = m->words[column / 64];
    for (size_t i = used; i < m->n; i++) {
        if (words[i] >> column % 64 & 1) {
            for (int w = 0; w < 2; w++) {
                uint64_t found = m->words[w][i];
                m->words[w][i] = m->words[w][used];
                m->words[w][used] = found;
            }
            return true;
        }
    }
    return false;
}

/* XORs the pivot, which is equation `used`, into all other equations whose bit `at` is set in
 * `words`. `words` contains one word of each equation, and `others` contains the other word. */
static void small_matrix_clear(uint64_t *restrict words, uint64_t *restrict others,
                               size_t n, size_t used, unsigned at)
{
    const uint64_t pivot = words[used], other = others[used];
    for (size_t i = 0; i < n; i++) {
        uint64_t mask = -(words[i] >> at & 1);
        words[i] ^= pivot & mask;
        others[i] ^= other & mask;
    }
    words[used] = pivot;
    others[used] = other;
}

static void small_matrix_clear_narrow(uint64_t *words, size_t n, size_t used,
                                      unsigned at)
{
    const uint64_t pivot = words[used];
    for (size_t i = 0; i < n; i++) {
        words[i] ^= pivot & -(words[i] >> at & 1);
    }
    words[used] = pivot;
}

/* Brings the matrix to diagonal form. Returns the number of independent equations. */
static size_t small_matrix_eliminate(struct small_matrix *m)
{
    size_t used = 0;
    for (size_t column = 0; column < m->columns; column++) {
        if (!small_matrix_pick(m, used, column)) {
            continue;
        }
        if (m->wide) {
            size_t w = column / 64;
            small_matrix_clear(m->words[w], m->words[1 - w], m->n, used, column % 64);
        } else {
            small_matrix_clear_narrow(m->words[0], m->n, used, (unsigned)column);
        }
        m->pivot_columns[used++] = (uint8_t)column;
    }
    return used;
}

static void small_matrix_write(const struct small_matrix *m, size_t used, uint8_t *bits)
{
    for (uint32_t r = 0; r < m->rows; r++) {
        size_t from = m->columns + r;
        const uint64_t *words = m->words[from / 64];
        for (size_t i = 0; i < used; i++) {
            size_t at = r * m->columns + m->pivot_columns[i];
            bits[at / 8] |= (uint8_t)((words[i] >> from % 64 & 1) << at % 8);
        }
    }
}

/* Solves the equations for n hashes. Requires n and columns + rows to be at most SMALL_DENSE. */
static bool small_solve_whole(uint32_t rows, size_t columns, uint32_t seed,
                              const uint64_t *hashes, size_t n, uint8_t *bits)
{
    struct small_matrix m;
    m.n = n;
    m.columns = columns;
    m.rows = rows;
    m.wide = columns + rows > 64;
    small_matrix_fill(&m, seed, hashes);
    size_t used = small_matrix_eliminate(&m);
    uint64_t rest = 0; /* values left in the dependent equations; must be 0 */
    for (size_t i = used; i < n; i++) {
        rest |= m.words[0][i] | m.words[1][i];
    }
    if (!rest) {
        small_matrix_write(&m, used, bits);
    }
    return !rest;
}

/* ---- Bands ----------------------------------------------------------------------------- */

/* Shifts out the zeros below the lowest coefficient. At least one coefficient must be nonzero. */
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
    if (columns + rows <= SMALL_DENSE && n <= SMALL_DENSE) {
        return small_solve_whole(rows, columns, seed, hashes, n, bits);
    }
    memset(pivots, 0, columns * sizeof *pivots);
    for (size_t i = 0; i < n; i++) {
        struct small_equation e = small_equation_of(hashes[i], seed, columns);
        e.values &= (uint32_t)small_ones(rows);
        if (!small_solve_band_add(pivots, e)) {
            return false;
        }
    }
    small_solve_band_settle(rows, columns, pivots, bits);
    return true;
}
