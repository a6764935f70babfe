/*
 * sort.c - sorts 64-bit numbers that are evenly distributed.
 *
 * The highest log2(n) + 2 bits of n such numbers almost determine their order. Two counting
 * passes, first over the lower half of these bits and then over the upper half, sort the numbers
 * by all of these bits. The first pass writes to the spare array, and the second pass writes
 * back. Insertion sort then orders numbers that agree in these bits. Numbers that are not evenly
 * distributed, such as hashes from a bad function or from an attacker, form long runs that agree in
 * these bits. Heapsort sorts these runs.
 */
#include "base/sort.h"

#include "base/compiler.h"

#include <stdbool.h>
#include <string.h>

enum {
    SORT_DIGIT_MAX = 11, /* bits per pass */
    SORT_FEW = 32        /* maximum array size and move distance for insertion sort */
};

/* ---- Runs ---------------------------------------------------------------------- */

static void sort_sift(uint64_t *heap, size_t n, size_t i)
{
    uint64_t x = heap[i];
    for (size_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        child += child + 1 < n && heap[child + 1] > heap[child];
        if (heap[child] <= x) {
            break;
        }
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = x;
}

static void sort_heap(uint64_t *numbers, size_t n)
{
    for (size_t i = n / 2; i-- > 0;) {
        sort_sift(numbers, n, i);
    }
    for (size_t end = n; end-- > 1;) {
        uint64_t largest = numbers[0];
        numbers[0] = numbers[end];
        numbers[end] = largest;
        sort_sift(numbers, end, 0);
    }
}

/* Sorts the run of numbers around index i whose bits from `shift` up are equal. Returns the end
 * of the run. */
static size_t sort_run(uint64_t *numbers, size_t n, size_t i, unsigned shift)
{
    size_t from = i, to = i + 1;
    while (from > 0 && numbers[from - 1] >> shift == numbers[i] >> shift) {
        from--;
    }
    while (to < n && numbers[to] >> shift == numbers[i] >> shift) {
        to++;
    }
    sort_heap(numbers + from, to - from);
    return to;
}

/* Sorts numbers that are already sorted by their bits from `shift` up. */
static void sort_finish(uint64_t *numbers, size_t n, unsigned shift)
{
    for (size_t i = 1; i < n; i++) {
        uint64_t x = numbers[i];
        size_t at = i;
        while (at > 0 && numbers[at - 1] > x && i - at < SORT_FEW) {
            numbers[at] = numbers[at - 1];
            at--;
        }
        numbers[at] = x;
        if (at > 0 && numbers[at - 1] > x) {
            i = sort_run(numbers, n, at, shift) - 1;
        }
    }
}

/* ---- Passes ---------------------------------------------------------------------- */

/* Converts counts to start positions. */
static void sort_starts(uint32_t *counts, size_t n)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t count = counts[i];
        counts[i] = sum;
        sum += count;
    }
}

BGI_INLINE void sort_pass(const uint64_t *from, uint64_t *to, size_t n, unsigned shift,
                          uint64_t mask, uint32_t *starts)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t x = from[i];
        to[starts[x >> shift & mask]++] = x;
    }
}

static unsigned sort_bits_of(size_t n)
{
    return 64 - (unsigned)__builtin_clzll((uint64_t)n | 1);
}

void bgi_sort(uint64_t *numbers, uint64_t *spare, size_t n, unsigned known)
{
    uint32_t low[1 << SORT_DIGIT_MAX], high[1 << SORT_DIGIT_MAX];
    unsigned bits = (sort_bits_of(n) + 2) / 2; /* bits per pass */
    bits = bits < SORT_DIGIT_MAX ? bits : SORT_DIGIT_MAX;
    if (n <= SORT_FEW) {
        sort_finish(numbers, n, 0);
        return;
    }
    if (known + 2 * bits > 64 || n > UINT32_MAX) {
        sort_heap(numbers, n); /* does not occur with real hashes */
        return;
    }
    unsigned low_shift = 64 - known - 2 * bits, high_shift = low_shift + bits;
    size_t digits = (size_t)1 << bits;
    uint64_t mask = digits - 1;
    memset(low, 0, digits * sizeof *low);
    memset(high, 0, digits * sizeof *high);
    for (size_t i = 0; i < n; i++) {
        low[numbers[i] >> low_shift & mask]++;
        high[numbers[i] >> high_shift & mask]++;
    }
    sort_starts(low, digits);
    sort_starts(high, digits);
    sort_pass(numbers, spare, n, low_shift, mask, low);
    sort_pass(spare, numbers, n, high_shift, mask, high);
    sort_finish(numbers, n, low_shift);
}

size_t bgi_sort_unique(uint64_t *numbers, size_t n)
{
    size_t kept = n > 0;
    for (size_t i = 1; i < n; i++) {
        uint64_t x = numbers[i];
        bool same = x == numbers[kept - 1];
        numbers[kept - same] = x;
        kept += !same;
    }
    return kept;
}
