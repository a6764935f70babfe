/*
 * bits.h - word arithmetic for which C has no operators: high products, rotations, and loads and
 * stores in a fixed byte order.
 */
#ifndef BGI_BITS_H
#define BGI_BITS_H

#include "base/compiler.h"

#include <stdint.h>
#include <string.h>

/*
 * Returns the high 64 bits of a 128-bit product. `bgi_mulhi(hash, n)` maps a well-mixed hash
 * evenly to 0 .. n-1 using its high bits, without a division and for any n (Lemire, "Fast
 * random integer generation in an interval", 2019). Halving n halves the result: floor(floor(h
 * n / 2^64) / 2) = floor(h (n/2) / 2^64) for even n. This property makes filters foldable.
 */
BGI_INLINE uint64_t bgi_mulhi(uint64_t a, uint64_t b)
{
#if defined(__SIZEOF_INT128__)
    return (uint64_t)(((unsigned __int128)a * b) >> 64);
#else
    uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    uint64_t low = al * bl;
    uint64_t mid1 = ah * bl + (low >> 32);
    uint64_t mid2 = al * bh + (uint32_t)mid1;
    return ah * bh + (mid1 >> 32) + (mid2 >> 32);
#endif
}

/* Returns the XOR of both halves of a 128-bit product. Compilers do not merge bgi_mulhi and a
 * multiplication into one instruction. */
BGI_INLINE uint64_t bgi_fold(uint64_t a, uint64_t b)
{
#if defined(__SIZEOF_INT128__)
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)(product >> 64) ^ (uint64_t)product;
#else
    return bgi_mulhi(a, b) ^ a * b;
#endif
}

/*
 * Like bgi_mulhi, but uses only the high 52 bits of the hash, so CPUs with AVX-512 IFMA can
 * multiply eight hashes at once. The 2^52 possible values are enough to spread keys evenly over
 * the units of any addressable filter.
 */
BGI_INLINE uint64_t bgi_range52(uint64_t hash, uint64_t n)
{
    return bgi_mulhi(hash & ~(uint64_t)0xfff, n);
}

BGI_INLINE uint64_t bgi_rotl64(uint64_t x, unsigned by)
{
    return x << (by & 63) | x >> (-by & 63);
}

/* Returns the number of set bits. The code is inline and does not need the POPCNT instruction,
 * which some callers must not use. */
BGI_INLINE unsigned bgi_popcount64(uint64_t x)
{
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (unsigned)((x * 0x0101010101010101u) >> 56);
}

BGI_INLINE uint64_t bgi_le64(uint64_t x)
{
    return BGI_BIG_ENDIAN ? __builtin_bswap64(x) : x;
}

BGI_INLINE uint32_t bgi_le32(uint32_t x)
{
    return BGI_BIG_ENDIAN ? __builtin_bswap32(x) : x;
}

/* Little-endian loads and stores at any address. */
BGI_INLINE uint64_t bgi_load_le64(const void *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return bgi_le64(x);
}

BGI_INLINE uint32_t bgi_load_le32(const void *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return bgi_le32(x);
}

BGI_INLINE void bgi_store_le64(void *p, uint64_t x)
{
    x = bgi_le64(x);
    memcpy(p, &x, sizeof x);
}

BGI_INLINE void bgi_store_le32(void *p, uint32_t x)
{
    x = bgi_le32(x);
    memcpy(p, &x, sizeof x);
}

#endif
