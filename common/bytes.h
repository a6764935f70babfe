/* util/bytes.h - reads and writes little-endian integers at any address, on any machine. */
#ifndef SERVER_UTIL_BYTES_H
#define SERVER_UTIL_BYTES_H

#include <stdint.h>
#include <string.h>

static inline uint64_t journal_le64(uint64_t x)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(x);
#else
    return x;
#endif
}

static inline uint32_t journal_le32(uint32_t x)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap32(x);
#else
    return x;
#endif
}

static inline uint64_t journal_load64(const unsigned char *from)
{
    uint64_t x;
    memcpy(&x, from, sizeof x);
    return journal_le64(x);
}

static inline uint32_t journal_load32(const unsigned char *from)
{
    uint32_t x;
    memcpy(&x, from, sizeof x);
    return journal_le32(x);
}

static inline void journal_store64(unsigned char *to, uint64_t x)
{
    x = journal_le64(x);
    memcpy(to, &x, sizeof x);
}

static inline void journal_store32(unsigned char *to, uint32_t x)
{
    x = journal_le32(x);
    memcpy(to, &x, sizeof x);
}

#endif
