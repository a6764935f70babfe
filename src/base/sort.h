/* sort.h - sorts 64-bit numbers that are evenly distributed, as hashes are. */
#ifndef BGI_SORT_H
#define BGI_SORT_H

#include <stddef.h>
#include <stdint.h>

/*
 * Sorts numbers[0..n), whose highest `known` bits (0 .. 63) are all the same. `spare` must have
 * space for n numbers. The sort is fast if the remaining bits are evenly distributed, and O(n log
 * n) otherwise.
 */
void bgi_sort(uint64_t *numbers, uint64_t *spare, size_t n, unsigned known);

/* Removes duplicates from a sorted array. Returns the number of elements left. */
size_t bgi_sort_unique(uint64_t *numbers, size_t n);

#endif
