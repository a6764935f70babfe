/*
 * table_hashes.h - hash functions that other software chose, as it has
 * them: see table_hashes.c. None of them is meant for filters of our own.
 */
#ifndef BGI_TABLE_HASHES_H
#define BGI_TABLE_HASHES_H

#include <stddef.h>
#include <stdint.h>

/* Parquet: XXH64 with seed 0. */
uint64_t foreign_xxh64(const void *data, size_t len);

/* Checksums of RocksDB's blocks: XXH32 with seed 0, and XXH3 as it was released. */
uint32_t foreign_xxh32(const void *data, size_t len);
uint64_t foreign_xxh3(const void *data, size_t len);

/* RocksDB's Hash64: XXH3 as it was before its release, another function. */
uint64_t foreign_xxph3(const void *data, size_t len);

/* LevelDB's Hash, the bytes of the tail without a sign. */
uint32_t foreign_leveldb_hash(const void *data, size_t len, uint32_t seed);

#endif
