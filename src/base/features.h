/*
 * features.h - the features of this CPU, detected once.
 *
 * A feature counts as available only if the CPU has it (CPUID) and the OS saves the registers that
 * the feature needs (XGETBV). On a kernel that does not support 512-bit registers, threads that use
 * these registers would overwrite each other's values.
 */
#ifndef BGI_FEATURES_H
#define BGI_FEATURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BGI_HAS_AVX2 = 1u << 0,   /* AVX2, BMI1, BMI2, POPCNT */
    BGI_HAS_AVX512 = 1u << 1, /* AVX-512 F, BW, DQ, VL, IFMA, and all of BGI_HAS_AVX2 */
    BGI_HAS_AESNI = 1u << 2,  /* AES round instructions */
    BGI_HAS_VAES512 = 1u << 3, /* AES on 512-bit registers */
    BGI_HAS_NEON = 1u << 4,    /* ARMv8 vectors */
    BGI_HAS_ARM_AES = 1u << 5, /* ARMv8 AES round instructions */
    BGI_HAS_VPOPCNT = 1u << 6, /* AVX-512 VPOPCNTDQ */
    BGI_HAS_CRC32C = 1u << 7,  /* SSE 4.2 and PCLMUL, or ARMv8 CRC */
    BGI_HAS_VPCLMUL = 1u << 8  /* carry-less multiplication of 512-bit registers */
};

/* Returns all features of this machine as BGI_HAS_ bits, except features excluded by BLOOMGATE_CPU
 * or bg_cpu_select. Selecting `scalar` excludes all features. Thread safety: MT-Safe. */
uint32_t bgi_features(void);

/* Returns the size of the second-level cache, detected once, or a small default if the OS does
 * not report it. Thread safety: MT-Safe. */
size_t bgi_second_level_bytes(void);

#endif
