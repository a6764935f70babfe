/* bytes.h - reads and writes little-endian integers at any address, on any machine. */
#ifndef COMMON_BYTES_H
#define COMMON_BYTES_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define BYTES_SWAP(bits, x) __builtin_bswap##bits(x)
#else
#define BYTES_SWAP(bits, x) (x)
#endif

static inline uint64_t bytes_load64(const unsigned char *from)
{
    uint64_t x;
    memcpy(&x, from, sizeof x);
    return BYTES_SWAP(64, x);
}

static inline uint32_t bytes_load32(const unsigned char *from)
{
    uint32_t x;
    memcpy(&x, from, sizeof x);
    return BYTES_SWAP(32, x);
}

static inline uint16_t bytes_load16(const unsigned char *from)
{
    return (uint16_t)(from[0] | from[1] << 8);
}

static inline void bytes_store64(unsigned char *to, uint64_t x)
{
    x = BYTES_SWAP(64, x);
    memcpy(to, &x, sizeof x);
}

static inline void bytes_store32(unsigned char *to, uint32_t x)
{
    x = BYTES_SWAP(32, x);
    memcpy(to, &x, sizeof x);
}

#endif
