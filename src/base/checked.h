/*
 * checked.h - size arithmetic that cannot wrap. Every size that comes from outside goes
 * through here before it reaches an allocation. Each returns false, leaving the result
 * alone, where the true value does not fit.
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

/* The next multiple of `unit` (not 0) at or above x. */
BGI_INLINE bool bgi_round_up_u64(uint64_t x, uint64_t unit, uint64_t *out)
{
    uint64_t rest = x % unit;
    return rest == 0 ? (*out = x, true) : bgi_add_u64(x, unit - rest, out);
}

/* Whether a 64-bit size can be addressed here. Half of the address space at most, so
 * that differences of pointers stay defined. */
BGI_INLINE bool bgi_fits_size(uint64_t x, size_t *out)
{
    if (x > (uint64_t)PTRDIFF_MAX) {
        return false;
    }
    *out = (size_t)x;
    return true;
}

/* A double that was computed, as a count: false for NaN, negatives and 2^63 or more. */
BGI_INLINE bool bgi_u64_from_double(double x, uint64_t *out)
{
    if (!(x >= 0 && x < 9223372036854775808.0)) {
        return false;
    }
    *out = (uint64_t)x;
    return true;
}

#endif
