/*
 * aes_x86.c - AES-128 with the AES instructions of x86-64.
 *
 * One instruction computes one round with a latency of 4 cycles, and one or two instructions can
 * start in every cycle. So eight blocks run interleaved, round by round, and hide each other's
 * latency. VAES processes four blocks in each 512-bit register.
 */
#include "base/compiler.h"

#if defined(BGI_X86_64)

#include "hash/aes.h"

#include <immintrin.h>

#define AES_X86_NI __attribute__((target("aes,sse4.1")))
#define AES_X86_VAES                                                                   \
    __attribute__((target("vaes,aes,avx512f,avx512bw,avx512dq,avx512vl")))

enum { AES_X86_SIDE_BY_SIDE = 8 };

AES_X86_NI BGI_INLINE __m128i aes_x86_key(const struct bgi_aes *aes, int round)
{
    return _mm_loadu_si128((const __m128i *)(const void *)aes->round_keys[round]);
}

/* Loads a key as a block: 16 bytes, or 8 bytes followed by zeros. */
AES_X86_NI BGI_INLINE __m128i aes_x86_load(const uint8_t *key, const size_t width)
{
    return width == 8 ? _mm_loadl_epi64((const __m128i *)(const void *)key)
                      : _mm_loadu_si128((const __m128i *)(const void *)key);
}

/* Encrypts `count` blocks round by round; `count` is a compile-time constant. */
AES_X86_NI BGI_INLINE void aes_x86_rounds(const struct bgi_aes *aes, __m128i *block,
                                          const int count)
{
    __m128i key = aes_x86_key(aes, 0);
    for (int j = 0; j < count; j++) {
        block[j] = _mm_xor_si128(block[j], key);
    }
    for (int round = 1; round < BGI_AES_ROUNDS; round++) {
        key = aes_x86_key(aes, round);
        for (int j = 0; j < count; j++) {
            block[j] = _mm_aesenc_si128(block[j], key);
        }
    }
    key = aes_x86_key(aes, BGI_AES_ROUNDS);
    for (int j = 0; j < count; j++) {
        block[j] = _mm_aesenclast_si128(block[j], key);
    }
}

/* Without its round key, the last round is ShiftRows and SubBytes. With four equal columns,
 * ShiftRows changes nothing. */
AES_X86_NI static uint32_t aes_x86_sub_word(uint32_t word)
{
    __m128i four = _mm_set1_epi32((int)word);
    return (uint32_t)_mm_cvtsi128_si32(_mm_aesenclast_si128(four, _mm_setzero_si128()));
}

AES_X86_NI static void aes_x86_encrypt(const struct bgi_aes *aes, const uint8_t *in,
                                       uint8_t *out)
{
    __m128i block = aes_x86_load(in, 16);
    aes_x86_rounds(aes, &block, 1);
    _mm_storeu_si128((__m128i *)(void *)out, block);
}

AES_X86_NI BGI_INLINE void aes_x86_hash_core(const struct bgi_aes *aes,
                                             const uint8_t *keys, const size_t width,
                                             size_t n, uint64_t *out)
{
    size_t i = 0;
    for (; i + AES_X86_SIDE_BY_SIDE <= n; i += AES_X86_SIDE_BY_SIDE) {
        __m128i block[AES_X86_SIDE_BY_SIDE];
        for (size_t j = 0; j < AES_X86_SIDE_BY_SIDE; j++) {
            block[j] = aes_x86_load(keys + (i + j) * width, width);
        }
        aes_x86_rounds(aes, block, AES_X86_SIDE_BY_SIDE);
        for (size_t j = 0; j < AES_X86_SIDE_BY_SIDE; j++) {
            out[i + j] = (uint64_t)_mm_cvtsi128_si64(block[j]);
        }
    }
    for (; i < n; i++) {
        __m128i block = aes_x86_load(keys + i * width, width);
        aes_x86_rounds(aes, &block, 1);
        out[i] = (uint64_t)_mm_cvtsi128_si64(block);
    }
}

AES_X86_NI static void aes_x86_hash(const struct bgi_aes *aes, const uint8_t *keys,
                                    size_t width, size_t n, uint64_t *out)
{
    if (width == 8) {
        aes_x86_hash_core(aes, keys, 8, n, out);
    } else {
        aes_x86_hash_core(aes, keys, 16, n, out);
    }
}

AES_X86_NI static uint64_t aes_x86_hash_one(const struct bgi_aes *aes,
                                            const uint8_t *key, size_t width)
{
    __m128i block = aes_x86_load(key, width);
    aes_x86_rounds(aes, &block, 1);
    return (uint64_t)_mm_cvtsi128_si64(block);
}

const struct bgi_aes_code bgi_aes_x86 = {
    aes_x86_sub_word,
    aes_x86_encrypt,
    aes_x86_hash,
    aes_x86_hash_one,
};

/* Loads eight keys as blocks into two registers. */
AES_X86_VAES BGI_INLINE void aes_x86_load_wide(const uint8_t *keys, const size_t width,
                                               __m512i block[2])
{
    if (width == 8) {
        const __m512i low = _mm512_setr_epi64(0, 0, 1, 0, 2, 0, 3, 0);
        const __m512i high = _mm512_setr_epi64(4, 0, 5, 0, 6, 0, 7, 0);
        __m512i eight = _mm512_loadu_si512(keys);
        block[0] = _mm512_maskz_permutexvar_epi64(0x55, low, eight);
        block[1] = _mm512_maskz_permutexvar_epi64(0x55, high, eight);
    } else {
        block[0] = _mm512_loadu_si512(keys);
        block[1] = _mm512_loadu_si512(keys + 64);
    }
}

/* Stores the first halves of eight blocks. */
AES_X86_VAES BGI_INLINE void aes_x86_store_wide(uint64_t *out, const __m512i block[2])
{
    const __m512i firsts = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    _mm512_storeu_si512(out, _mm512_permutex2var_epi64(block[0], firsts, block[1]));
}

/* Encrypts `count` registers round by round; `count` is a compile-time constant. */
AES_X86_VAES BGI_INLINE void aes_x86_rounds_wide(const __m512i *key, __m512i *block,
                                                 const int count)
{
    for (int j = 0; j < count; j++) {
        block[j] = _mm512_xor_si512(block[j], key[0]);
    }
    for (int round = 1; round < BGI_AES_ROUNDS; round++) {
        for (int j = 0; j < count; j++) {
            block[j] = _mm512_aesenc_epi128(block[j], key[round]);
        }
    }
    for (int j = 0; j < count; j++) {
        block[j] = _mm512_aesenclast_epi128(block[j], key[BGI_AES_ROUNDS]);
    }
}

/* Keeps the eleven round keys in registers for the whole loop. */
AES_X86_VAES BGI_INLINE size_t aes_x86_wide_core(const struct bgi_aes *aes,
                                                 const uint8_t *keys,
                                                 const size_t width, size_t n,
                                                 uint64_t *out)
{
    __m512i key[BGI_AES_ROUNDS + 1], block[4];
    size_t i = 0;
    for (int round = 0; round <= BGI_AES_ROUNDS; round++) {
        key[round] = _mm512_broadcast_i32x4(aes_x86_key(aes, round));
    }
    for (; i + 16 <= n; i += 16) {
        aes_x86_load_wide(keys + i * width, width, block);
        aes_x86_load_wide(keys + (i + 8) * width, width, block + 2);
        aes_x86_rounds_wide(key, block, 4);
        aes_x86_store_wide(out + i, block);
        aes_x86_store_wide(out + i + 8, block + 2);
    }
    if (i + 8 <= n) {
        aes_x86_load_wide(keys + i * width, width, block);
        aes_x86_rounds_wide(key, block, 2);
        aes_x86_store_wide(out + i, block);
        i += 8;
    }
    return i;
}

AES_X86_VAES static void aes_x86_hash_wide(const struct bgi_aes *aes,
                                           const uint8_t *keys, size_t width, size_t n,
                                           uint64_t *out)
{
    size_t done = 0;
    if (n >= 8) {
        done = width == 8 ? aes_x86_wide_core(aes, keys, 8, n, out)
                          : aes_x86_wide_core(aes, keys, 16, n, out);
    }
    if (done < n) {
        aes_x86_hash(aes, keys + done * width, width, n - done, out + done);
    }
}

const struct bgi_aes_code bgi_aes_vaes = {
    aes_x86_sub_word,
    aes_x86_encrypt,
    aes_x86_hash_wide,
    aes_x86_hash_one,
};

#else
/* ISO C forbids an empty translation unit. */
typedef int aes_x86_unused;
#endif
