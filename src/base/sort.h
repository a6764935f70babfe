/* sort.h - sorting 64-bit numbers that are, as hashes are, evenly spread. */
#ifndef BGI_SORT_H
#define BGI_SORT_H

#include <stddef.h>
#include <stdint.h>

/*
 * Sorts numbers[0..n), whose highest `known` bits (0 .. 63) are all the same, with the help
 * of as many in spare. Fast for numbers whose bits below are evenly spread; for any others
 * still in n log n.
 */
void bgi_sort(uint64_t *numbers, uint64_t *spare, size_t n, unsigned known);

/* Leaves each number of a sorted array once; returns how many there are. */
size_t bgi_sort_unique(uint64_t *numbers, size_t n);

#endif
