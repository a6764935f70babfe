/*
 * foreign_hashes.h - the hash functions of other software, including variants that process the tail
 * of a key in a nonstandard way.
 *
 * Murmur is a family of hash functions. Most programs that use Murmur process the tail, which is
 * the last few bytes of a key, in their own way, either by accident (bytes are signed in Java) or
 * on purpose. These deviations are now part of file formats. The variants:
 *
 *     murmur3_x64_128           Guava, bits-and-blooms   as published
 *     murmur3_x64_128_signed    Cassandra, Scylla        tail bytes are signed
 *     murmur3_x86_32            BIP37                    as published
 *     murmur3_spark             Spark                    a full round per tail byte, signed
 *     murmur2_hadoop            Hadoop                   tail reversed, signed
 *     murmur64a                 RedisBloom               as published
 *     siphash13_rust            valkey-bloom             starts with the length in 8 bytes
 *     jenkins                   Hadoop                   lookup3, as published
 *     fnv1_64                   DCSO                     FNV-1, not FNV-1a
 *
 * Except for SipHash, none of these functions is keyed, so an attacker who chooses the keys can
 * create collisions. The functions accept unaligned keys and give the same results on every
 * machine. An empty key may be NULL.
 */
#ifndef BGI_FOREIGN_HASHES_H
#define BGI_FOREIGN_HASHES_H

#include <stddef.h>
#include <stdint.h>

struct foreign_pair {
    uint64_t h1, h2;
};

/* Compute MurmurHash3 x64 128 with seed 0. The second function appends the byte 1 to the key, and
 * the third treats the bytes of the tail as signed. */
struct foreign_pair foreign_murmur3_x64_128(const void *key, size_t len);
struct foreign_pair foreign_murmur3_x64_128_then_1(const void *key, size_t len);
struct foreign_pair foreign_murmur3_x64_128_signed(const void *key, size_t len);

uint32_t foreign_murmur3_x86_32(const void *key, size_t len, uint32_t seed);
uint32_t foreign_murmur3_spark(const void *key, size_t len, uint32_t seed);
uint32_t foreign_murmur2_hadoop(const void *key, size_t len, uint32_t seed);
uint64_t foreign_murmur64a(const void *key, size_t len, uint64_t seed);
uint64_t foreign_siphash13_rust(const void *key, size_t len, const uint64_t secret[2]);
uint32_t foreign_jenkins(const void *key, size_t len, uint32_t seed);
uint64_t foreign_fnv1_64(const void *key, size_t len);

#endif
