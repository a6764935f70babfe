/*
 * small_solve.h - solves a ribbon filter's linear equations over GF(2). See small_filter.c for the
 * meaning of the equations.
 */
#ifndef SMALL_SOLVE_H
#define SMALL_SOLVE_H

#include "small_filter.h"

/*
 * Solves the equations that result from n hashes and a seed, for `rows` rows of `columns` bits. ORs
 * the solution into `bits`, where row r starts at bit r * columns. `pivots` is scratch space for
 * `columns` equations. Returns false, leaving `bits` unchanged, if the equations contradict each
 * other.
 */
bool small_solve(uint32_t rows, size_t columns, uint32_t seed, const uint64_t *hashes,
                 size_t n, struct small_equation *pivots, uint8_t *bits);

#endif
