/*
 * checked.h - size arithmetic that cannot wrap. Every size from external input passes through
 * these functions before it is used for an allocation. If the true result does not fit, each
 * function returns false and leaves the output unchanged.
 */
#ifndef BGI_CHECKED_H
#define BGI_CHECKED_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

BGI_INLINE bool bgi_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r)) {
        return false;
    }
    *out = r;
    return true;
}

BGI_INLINE bool bgi_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r)) {
        return false;
    }
    *out = r;
    return true;
}

/* Rounds x up to a multiple of `unit`, which must not be 0. */
BGI_INLINE bool bgi_round_up_u64(uint64_t x, uint64_t unit, uint64_t *out)
{
    uint64_t rest = x % unit;
    return rest == 0 ? (*out = x, true) : bgi_add_u64(x, unit - rest, out);
}

/* Converts a 64-bit size to size_t if memory of that size can be addressed on this machine. The
 * limit is half of the address space, so that pointer differences stay defined. */
BGI_INLINE bool bgi_fits_size(uint64_t x, size_t *out)
{
    if (x > (uint64_t)PTRDIFF_MAX) {
        return false;
    }
    *out = (size_t)x;
    return true;
}

/* Converts a computed double to a count. Returns false for NaN, negative numbers, and numbers of
 * 2^63 or more. */
BGI_INLINE bool bgi_u64_from_double(double x, uint64_t *out)
{
    if (!(x >= 0 && x < 9223372036854775808.0)) {
        return false;
    }
    *out = (uint64_t)x;
    return true;
}

#endif
