/*
 * table_hashes.h - the hash functions of Parquet, RocksDB and LevelDB: see table_hashes.c. These
 * functions are not meant for Bloomgate's own filters.
 */
#ifndef BGI_TABLE_HASHES_H
#define BGI_TABLE_HASHES_H

#include <stddef.h>
#include <stdint.h>

/* Parquet: XXH64 with seed 0. */
uint64_t foreign_xxh64(const void *data, size_t len);

/* Compute RocksDB's block checksums: XXH32 with seed 0, and the released version of XXH3. */
uint32_t foreign_xxh32(const void *data, size_t len);
uint64_t foreign_xxh3(const void *data, size_t len);

/* Computes RocksDB's Hash64, a preview version of XXH3 that differs from the released
 * function. */
uint64_t foreign_xxph3(const void *data, size_t len);

/* Computes LevelDB's Hash. The last few bytes of the key are treated as unsigned. */
uint32_t foreign_leveldb_hash(const void *data, size_t len, uint32_t seed);

#endif
