/*
 * small_solve.h - the equations of a ribbon, solved over bits. See small_filter.c for what they
 * mean.
 */
#ifndef SMALL_SOLVE_H
#define SMALL_SOLVE_H

#include "small_filter.h"

/*
 * Solves the equations that n hashes have under a seed, for `rows` rows of `columns` bits, and
 * ORs the solution into `bits`: row r begins at bit r * columns. `pivots` is scratch for
 * `columns` equations. False: they contradict each other; `bits` is unchanged.
 */
bool small_solve(uint32_t rows, size_t columns, uint32_t seed, const uint64_t *hashes,
                 size_t n, struct small_equation *pivots, uint8_t *bits);

#endif
