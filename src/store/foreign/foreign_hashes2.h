/*
 * foreign_hashes2.h - hash functions and checksums that other software chose, as it has
 * them: see foreign_hashes2.c. None of them is meant for filters of our own.
 */
#ifndef BGI_FOREIGN_HASHES2_H
#define BGI_FOREIGN_HASHES2_H

#include <stddef.h>
#include <stdint.h>

/* Parquet: XXH64 with seed 0. */
uint64_t foreign_xxh64(const void *data, size_t len);

/* Checksums of RocksDB's blocks: XXH32 with seed 0, and XXH3 as it was released. */
uint32_t foreign_xxh32(const void *data, size_t len);
uint64_t foreign_xxh3(const void *data, size_t len);

/* RocksDB's Hash64: XXH3 as it was before its release, another function. */
uint64_t foreign_xxph3(const void *data, size_t len);

/* RedisBloom: MurmurHash64A. */
uint64_t foreign_murmur64a(const void *data, size_t len, uint64_t seed);

/* LevelDB's Hash, the bytes of the tail without a sign. */
uint32_t foreign_leveldb_hash(const void *data, size_t len, uint32_t seed);

/* CRC-32C of `len` bytes that follow bytes whose sum is `crc` (0: none do). */
uint32_t foreign_crc32c(uint32_t crc, const void *data, size_t len);

#endif
