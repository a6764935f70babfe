/*
 * siphash.c - a keyed hash that resists adversarial keys.
 *
 * SipHash (J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF", 2012) maps a
 * message and a 128-bit secret to 64 bits. Without the secret, its output cannot be distinguished
 * from random numbers. So an attacker cannot choose keys that collide with each other or that are
 * false positives in a filter, except by trial and error against the filter itself.
 *
 *     state v0..v3 = constants ^ secret
 *     for each 8-byte word m, the last one padded with zeros and the length:
 *         v3 ^= m;  c rounds;  v0 ^= m
 *     v2 ^= 0xff;  d rounds;  hash = v0 ^ v1 ^ v2 ^ v3
 *
 * A round consists of four additions, six rotations and four XORs, and takes constant time.
 * SipHash-2-4 (c = 2, d = 4) is the designers' first proposal. SipHash-1-3 is their faster
 * variant for hash tables, used by Rust, Ruby and CPython. When either function is used with a
 * secret key, no known attack is better than guessing.
 *
 * The same source serves both variants: c and d are constant parameters of functions that are
 * always inlined. The vector versions in siphash_x86.c use the same definitions of the round, the
 * constants and the last word (siphash.h).
 *
 * Invariants
 *   (I1) The secret's words are read in place; no code in this file copies them elsewhere in
 *        memory.
 *   (I2) No byte outside the message is read, whatever its length or address.
 *   (I3) Every path computes the same hashes as the scalar path.
 *
 * Guaranteed: SipHash is a pseudorandom function as long as the secret is random and undisclosed.
 * Not guaranteed: SipHash is no substitute for an unkeyed cryptographic hash, and 64-bit hashes
 * collide by chance after about 2^32 keys.
 *
 * Cost on Zen 4 for 8-byte keys in batches, in ns per key, for SipHash-1-3 and 2-4: scalar 5.3
 * and 8.9, AVX2 3.0 and 4.8, AVX-512 1.6 and 2.7. Interleaving two keys in the scalar code saved
 * 10% with gcc 12 and nothing with clang 14. The CPU already overlaps adjacent keys, so a separate
 * interleaved version is not worthwhile.
 */
#include "hash/siphash.h"

#include "base/features.h"

BGI_INLINE uint64_t siphash_core(const bgi_siphash_key key, const uint8_t *data,
                                 size_t len, const int c, const int d)
{
    uint64_t v0 = key[0] ^ BGI_SIPHASH_V0, v1 = key[1] ^ BGI_SIPHASH_V1;
    uint64_t v2 = key[0] ^ BGI_SIPHASH_V2, v3 = key[1] ^ BGI_SIPHASH_V3;
    for (size_t at = 0; len - at >= 8; at += 8) {
        uint64_t word = bgi_load_le64(data + at);
        v3 ^= word;
        for (int i = 0; i < c; i++) {
            BGI_SIPHASH_ROUND(v0, v1, v2, v3);
        }
        v0 ^= word;
    }
    uint64_t last = bgi_siphash_last(data, len);
    v3 ^= last;
    for (int i = 0; i < c; i++) {
        BGI_SIPHASH_ROUND(v0, v1, v2, v3);
    }
    v0 ^= last;
    v2 ^= 0xff;
    for (int i = 0; i < d; i++) {
        BGI_SIPHASH_ROUND(v0, v1, v2, v3);
    }
    return v0 ^ v1 ^ v2 ^ v3;
}

uint64_t bgi_siphash(enum bgi_siphash variant, const bgi_siphash_key key,
                     const void *data, size_t len)
{
    return variant == BGI_SIPHASH_13 ? siphash_core(key, data, len, 1, 3)
                                     : siphash_core(key, data, len, 2, 4);
}

BGI_INLINE void siphash_fixed_core(const bgi_siphash_key key, const uint8_t *keys,
                                   size_t width, size_t n, uint64_t *out, const int c,
                                   const int d)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = siphash_core(key, keys + i * width, width, c, d);
    }
}

/* With a constant width, the compiler removes the loop over the words. */
BGI_INLINE void siphash_fixed_widths(const bgi_siphash_key key, const uint8_t *keys,
                                     size_t width, size_t n, uint64_t *out, const int c,
                                     const int d)
{
    switch (width) {
    case 8: siphash_fixed_core(key, keys, 8, n, out, c, d); break;
    case 16: siphash_fixed_core(key, keys, 16, n, out, c, d); break;
    default: siphash_fixed_core(key, keys, width, n, out, c, d); break;
    }
}

void bgi_siphash_fixed(enum bgi_siphash variant, uint32_t features,
                       const bgi_siphash_key key, const uint8_t *keys, size_t width,
                       size_t n, uint64_t *out)
{
    size_t done = 0;
#if defined(BGI_X86_64)
    if (features & BGI_HAS_AVX512) {
        done = bgi_siphash_fixed_avx512(variant, key, keys, width, n, out);
    } else if (features & BGI_HAS_AVX2) {
        done = bgi_siphash_fixed_avx2(variant, key, keys, width, n, out);
    }
#else
    (void)features;
#endif
    keys += done * width;
    if (variant == BGI_SIPHASH_13) {
        siphash_fixed_widths(key, keys, width, n - done, out + done, 1, 3);
    } else {
        siphash_fixed_widths(key, keys, width, n - done, out + done, 2, 4);
    }
}

BGI_INLINE void siphash_pairs_core(const bgi_siphash_key key, const bg_bytes *keys,
                                   size_t n, uint64_t *out, const int c, const int d)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = siphash_core(key, keys[i].data, keys[i].len, c, d);
    }
}

void bgi_siphash_pairs(enum bgi_siphash variant, uint32_t features,
                       const bgi_siphash_key key, const bg_bytes *keys, size_t n,
                       uint64_t *out)
{
    size_t done = 0;
#if defined(BGI_X86_64)
    if (features & BGI_HAS_AVX512) {
        done = bgi_siphash_pairs_avx512(variant, key, keys, n, out);
    } else if (features & BGI_HAS_AVX2) {
        done = bgi_siphash_pairs_avx2(variant, key, keys, n, out);
    }
#else
    (void)features;
#endif
    if (variant == BGI_SIPHASH_13) {
        siphash_pairs_core(key, keys + done, n - done, out + done, 1, 3);
    } else {
        siphash_pairs_core(key, keys + done, n - done, out + done, 2, 4);
    }
}
