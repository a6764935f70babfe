/*
 * aes_arm.c - AES-128 with the ARMv8 AES instructions.
 *
 * AESE adds the round key *before* SubBytes and ShiftRows, and AESMC is MixColumns alone. So a
 * round is AESE with the key of the previous round, then AESMC, and the last key is added with
 * an XOR. CPUs fuse an AESE with an AESMC that directly follows it. Eight blocks run interleaved
 * to hide the latency.
 */
#include "base/compiler.h"

#if defined(BGI_AARCH64)

#include "hash/aes.h"

/* Before version 16, Clang declares the intrinsics only if the whole file is compiled for CPUs that
 * have the AES instructions. Otherwise the table is empty, and aes.c uses the portable code. */
#if !defined(__clang__) || __clang_major__ >= 16 || defined(__ARM_FEATURE_AES)         \
    || defined(__ARM_FEATURE_CRYPTO)
#define AES_ARM_WORKS 1
#endif

#if defined(AES_ARM_WORKS)

#include "base/bits.h"

#include <arm_neon.h>

#if defined(__clang__)
#define AES_ARM __attribute__((target("aes")))
#else
#define AES_ARM __attribute__((target("+crypto")))
#endif

enum { AES_ARM_SIDE_BY_SIDE = 8 };

/* Loads a key as a block: 16 bytes, or 8 bytes followed by zeros. */
AES_ARM BGI_INLINE uint8x16_t aes_arm_load(const uint8_t *key, const size_t width)
{
    return width == 8 ? vcombine_u8(vld1_u8(key), vdup_n_u8(0)) : vld1q_u8(key);
}

/* Returns the first half of a block as a little-endian word. */
AES_ARM BGI_INLINE uint64_t aes_arm_first(uint8x16_t block)
{
    uint8_t bytes[8];
    vst1_u8(bytes, vget_low_u8(block));
    return bgi_load_le64(bytes);
}

/* Encrypts `count` blocks round by round; `count` is a compile-time constant. */
AES_ARM BGI_INLINE void aes_arm_rounds(const struct bgi_aes *aes, uint8x16_t *block,
                                       const int count)
{
    uint8x16_t key;
    for (int round = 0; round < BGI_AES_ROUNDS - 1; round++) {
        key = vld1q_u8(aes->round_keys[round]);
        for (int j = 0; j < count; j++) {
            block[j] = vaesmcq_u8(vaeseq_u8(block[j], key));
        }
    }
    key = vld1q_u8(aes->round_keys[BGI_AES_ROUNDS - 1]);
    uint8x16_t last = vld1q_u8(aes->round_keys[BGI_AES_ROUNDS]);
    for (int j = 0; j < count; j++) {
        block[j] = veorq_u8(vaeseq_u8(block[j], key), last);
    }
}

/* AESE with a zero key is SubBytes and ShiftRows. With four equal columns, ShiftRows changes
 * nothing. */
AES_ARM static uint32_t aes_arm_sub_word(uint32_t word)
{
    uint8x16_t four = vreinterpretq_u8_u32(vdupq_n_u32(word));
    return vgetq_lane_u32(vreinterpretq_u32_u8(vaeseq_u8(four, vdupq_n_u8(0))), 0);
}

AES_ARM static void aes_arm_encrypt(const struct bgi_aes *aes, const uint8_t *in,
                                    uint8_t *out)
{
    uint8x16_t block = vld1q_u8(in);
    aes_arm_rounds(aes, &block, 1);
    vst1q_u8(out, block);
}

AES_ARM BGI_INLINE void aes_arm_hash_core(const struct bgi_aes *aes,
                                          const uint8_t *keys, const size_t width,
                                          size_t n, uint64_t *out)
{
    size_t i = 0;
    for (; i + AES_ARM_SIDE_BY_SIDE <= n; i += AES_ARM_SIDE_BY_SIDE) {
        uint8x16_t block[AES_ARM_SIDE_BY_SIDE];
        for (size_t j = 0; j < AES_ARM_SIDE_BY_SIDE; j++) {
            block[j] = aes_arm_load(keys + (i + j) * width, width);
        }
        aes_arm_rounds(aes, block, AES_ARM_SIDE_BY_SIDE);
        for (size_t j = 0; j < AES_ARM_SIDE_BY_SIDE; j++) {
            out[i + j] = aes_arm_first(block[j]);
        }
    }
    for (; i < n; i++) {
        uint8x16_t block = aes_arm_load(keys + i * width, width);
        aes_arm_rounds(aes, &block, 1);
        out[i] = aes_arm_first(block);
    }
}

AES_ARM static void aes_arm_hash(const struct bgi_aes *aes, const uint8_t *keys,
                                 size_t width, size_t n, uint64_t *out)
{
    if (width == 8) {
        aes_arm_hash_core(aes, keys, 8, n, out);
    } else {
        aes_arm_hash_core(aes, keys, 16, n, out);
    }
}

AES_ARM static uint64_t aes_arm_hash_one(const struct bgi_aes *aes, const uint8_t *key,
                                         size_t width)
{
    uint8x16_t block = aes_arm_load(key, width);
    aes_arm_rounds(aes, &block, 1);
    return aes_arm_first(block);
}

const struct bgi_aes_code bgi_aes_arm = {
    aes_arm_sub_word,
    aes_arm_encrypt,
    aes_arm_hash,
    aes_arm_hash_one,
};

#else
const struct bgi_aes_code bgi_aes_arm = { 0 };
#endif

#else
/* ISO C forbids an empty translation unit. */
typedef int aes_arm_unused;
#endif
