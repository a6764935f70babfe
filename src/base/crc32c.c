/*
 * crc32c.c - computes CRC-32C by wide carry-less multiplication or with the CPU's CRC instruction
 * where available, otherwise with tables.
 *
 * The CRC instruction processes 8 bytes. Its latency is 3 cycles, but a new instruction can start
 * every cycle. So three stretches of CRC32C_LANE bytes are processed in parallel, and their results
 * are combined: the CRC of A followed by n bytes is the CRC of A times x^(8n) modulo the
 * polynomial. Combining two results takes one carry-less multiplication by x^(8n - 33) and one CRC
 * instruction, which reduces the product. The exponent is 8n - 33 because the instruction
 * multiplies by x^32, and the product of two reflected numbers is missing one factor of x.
 */
#include "base/crc32c.h"

#include "base/bits.h"
#include "base/features.h"

#include <stdbool.h>

#include "base/crc32c_table.inc.h"

static uint32_t crc32c_by_table(uint32_t crc, const unsigned char *p, size_t n)
{
    for (; n >= 4; p += 4, n -= 4) {
        crc ^= bgi_load_le32(p);
        crc = crc32c_table[3][crc & 255] ^ crc32c_table[2][crc >> 8 & 255]
              ^ crc32c_table[1][crc >> 16 & 255] ^ crc32c_table[0][crc >> 24];
    }
    for (; n > 0; p++, n--) {
        crc = crc >> 8 ^ crc32c_table[0][(crc ^ *p) & 255];
    }
    return crc;
}

#if defined(BGI_X86_64)
#include <immintrin.h>

#define CRC32C_TARGET __attribute__((target("sse4.2,pclmul")))

enum { CRC32C_LANE = 1024, CRC32C_AHEAD = 12 * CRC32C_LANE };

/* x^(8 x 1024 - 33) and x^(8 x 2048 - 33), reflected. */
#define CRC32C_OVER_ONE 0x170076fau
#define CRC32C_OVER_TWO 0xa51b6135u

CRC32C_TARGET static uint64_t crc32c_shift(uint64_t crc, uint32_t by)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc),
                                           _mm_cvtsi64_si128((long long)by), 0);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

/* Prefetches a line from each stretch into the second-level cache. Hardware prefetchers do not
 * recognize three parallel streams. */
static void crc32c_prefetch(const unsigned char *p)
{
    __builtin_prefetch(p, 0, 2);
    __builtin_prefetch(p + CRC32C_LANE, 0, 2);
    __builtin_prefetch(p + (size_t)2 * CRC32C_LANE, 0, 2);
}

CRC32C_TARGET static uint32_t crc32c_by_instruction(uint32_t crc,
                                                    const unsigned char *p, size_t n)
{
    uint64_t a = crc;
    for (; n >= 3 * CRC32C_LANE; p += 3 * CRC32C_LANE, n -= 3 * CRC32C_LANE) {
        uint64_t b = 0, c = 0;
        for (size_t i = 0; i < CRC32C_LANE; i += 64) {
            crc32c_prefetch(p + i + CRC32C_AHEAD);
            for (size_t j = i; j < i + 64; j += 8) {
                a = _mm_crc32_u64(a, bgi_load_le64(p + j));
                b = _mm_crc32_u64(b, bgi_load_le64(p + CRC32C_LANE + j));
                c = _mm_crc32_u64(c, bgi_load_le64(p + (size_t)2 * CRC32C_LANE + j));
            }
        }
        a = crc32c_shift(a, CRC32C_OVER_TWO) ^ crc32c_shift(b, CRC32C_OVER_ONE) ^ c;
    }
    for (; n >= 8; p += 8, n -= 8) {
        a = _mm_crc32_u64(a, bgi_load_le64(p));
    }
    for (; n > 0; p++, n--) {
        a = _mm_crc32_u8((uint32_t)a, *p);
    }
    return (uint32_t)a;
}

#define CRC32C_WIDE                                                                    \
    __attribute__((                                                                    \
        target("avx512f,avx512bw,avx512vl,avx512dq,vpclmulqdq,sse4.2,pclmul")))

enum { CRC32C_FOLD = 256 };

/* x^2111 and x^2047, reflected. Multiplying by these constants moves the two halves of a 128-bit
 * value forward by 256 bytes. */
#define CRC32C_LOW_OVER  UINT64_C(0xe9a5d8be00000000)
#define CRC32C_HIGH_OVER UINT64_C(0x1426a81500000000)

/* Moves the bits of `x` forward by 256 bytes and XORs in the message bytes at that position. */
CRC32C_WIDE static inline __m512i crc32c_fold(__m512i x, __m512i over,
                                              const unsigned char *p)
{
    __m512i low = _mm512_clmulepi64_epi128(x, over, 0x00);
    __m512i high = _mm512_clmulepi64_epi128(x, over, 0x11);
    return _mm512_ternarylogic_epi64(low, high, _mm512_loadu_si512(p), 0x96);
}

/* Computes the CRC by carry-less multiplication, 256 bytes at a time. Each step reduces the
 * message to a shorter message with the same remainder, until 256 bytes and an incomplete block
 * are left. */
CRC32C_WIDE static uint32_t crc32c_by_folding(uint32_t crc, const unsigned char *p,
                                              size_t n)
{
    unsigned char rest[CRC32C_FOLD];
    __m512i over = _mm512_broadcast_i32x4(
        _mm_set_epi64x((long long)CRC32C_HIGH_OVER, (long long)CRC32C_LOW_OVER));
    __m512i first = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc));
    __m512i a = _mm512_xor_si512(_mm512_loadu_si512(p), first);
    __m512i b = _mm512_loadu_si512(p + 64);
    __m512i c = _mm512_loadu_si512(p + 128);
    __m512i d = _mm512_loadu_si512(p + 192);
    for (p += CRC32C_FOLD, n -= CRC32C_FOLD; n >= CRC32C_FOLD;
         p += CRC32C_FOLD, n -= CRC32C_FOLD) {
        a = crc32c_fold(a, over, p);
        b = crc32c_fold(b, over, p + 64);
        c = crc32c_fold(c, over, p + 128);
        d = crc32c_fold(d, over, p + 192);
    }
    _mm512_storeu_si512(rest, a);
    _mm512_storeu_si512(rest + 64, b);
    _mm512_storeu_si512(rest + 128, c);
    _mm512_storeu_si512(rest + 192, d);
    crc = crc32c_by_instruction(0, rest, sizeof rest);
    return crc32c_by_instruction(crc, p, n);
}
#elif defined(BGI_AARCH64)
#include <arm_acle.h>

#define CRC32C_TARGET __attribute__((target("+crc")))

CRC32C_TARGET static uint32_t crc32c_by_instruction(uint32_t crc,
                                                    const unsigned char *p, size_t n)
{
    for (; n >= 8; p += 8, n -= 8) {
        crc = __crc32cd(crc, bgi_load_le64(p));
    }
    for (; n > 0; p++, n--) {
        crc = __crc32cb(crc, *p);
    }
    return crc;
}
#else
static uint32_t crc32c_by_instruction(uint32_t crc, const unsigned char *p, size_t n)
{
    return crc32c_by_table(crc, p, n);
}
#endif

uint32_t bgi_crc32c(uint32_t crc, const void *bytes, size_t n)
{
    uint32_t features = bgi_features();
#if defined(BGI_X86_64)
    if (features & BGI_HAS_VPCLMUL && features & BGI_HAS_CRC32C && n >= 1024) {
        return ~crc32c_by_folding(~crc, bytes, n);
    }
#endif
    return features & BGI_HAS_CRC32C ? ~crc32c_by_instruction(~crc, bytes, n)
                                     : ~crc32c_by_table(~crc, bytes, n);
}
