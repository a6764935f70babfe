/*
 * siphash_x86.c - SipHash on 4 (AVX2) or 8 (AVX-512) keys in parallel.
 *
 * The lanes are independent, so the code for one key also works for many: each state word becomes
 * a vector. siphash_lanes.inc.h holds that code, and is included once for each vector length.
 * AVX-512 rotates in one instruction; AVX2 needs three.
 */
#include "base/compiler.h"

#if defined(BGI_X86_64)

#include "hash/siphash.h"

#include <string.h>

/* The maximum number of words per message when pairs of mixed lengths are hashed in parallel. Eight
 * words hold a key of up to 63 bytes and its length byte. */
enum { SIPHASH_X86_WORDS = 8 };

#define LANES 4
#define LANES_EACH(f)                                                                  \
    {                                                                                  \
        f(0), f(1), f(2), f(3)                                                         \
    }
#define LANES_TARGET     __attribute__((target("avx2")))
#define LANES_VECTOR     siphash_x86_vector4
#define LANES_NAME(name) siphash_x86_##name##4
#define LANES_STATE      siphash_x86_state4
#define LANES_MESSAGE    siphash_x86_message4
#define LANES_FIXED      bgi_siphash_fixed_avx2
#define LANES_PAIRS      bgi_siphash_pairs_avx2
#include "hash/siphash_lanes.inc.h"

#define LANES 8
#define LANES_EACH(f)                                                                  \
    {                                                                                  \
        f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)                                 \
    }
#define LANES_TARGET     __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw")))
#define LANES_VECTOR     siphash_x86_vector8
#define LANES_NAME(name) siphash_x86_##name##8
#define LANES_STATE      siphash_x86_state8
#define LANES_MESSAGE    siphash_x86_message8
#define LANES_FIXED      bgi_siphash_fixed_avx512
#define LANES_PAIRS      bgi_siphash_pairs_avx512
#include "hash/siphash_lanes.inc.h"

#else
/* ISO C forbids an empty translation unit. */
typedef int siphash_x86_unused;
#endif
