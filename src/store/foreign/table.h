/*
 * table.h - the files that LevelDB's tables and RocksDB's have in common: blocks, each with
 * a trailer, and maps from names to places.
 *
 *     block     contents | u8 compression | u32 checksum      a handle tells its place and
 *                                                             the size of the contents
 *     contents  entries | u32 restart ... | u32 how many restarts
 *     entry     varint shared | varint unshared | varint bytes of value | the key's bytes
 *               behind those that it shares with the key before | value
 *
 * Bytes come from strangers; see table.c for what is checked.
 */
#ifndef BGI_TABLE_H
#define BGI_TABLE_H

#include "store/foreign/foreign.h"

enum { TABLE_TRAILER = 5, TABLE_NAME_MAX = 256 };

/* Where a block is. */
struct table_handle {
    uint64_t offset, size;
};

/* Which checksum blocks have; the numbers are RocksDB's. */
enum table_checksum {
    TABLE_NO_CHECKSUM = 0,
    TABLE_CRC32C = 1,
    TABLE_XXH32 = 2,
    TABLE_XXH64 = 3,
    TABLE_XXH3 = 4
};

/* A file that is being read: its blocks are before `end`. */
struct table {
    const unsigned char *bytes;
    uint64_t end;
    enum table_checksum checksum;
    uint32_t context; /* RocksDB, from format version 6 on; else 0 */
};

/* The contents of a block, and what holds them if they had to be unpacked. */
struct table_block {
    const unsigned char *bytes;
    uint64_t size;
    struct bgi_memory memory;
};

/* An entry that was reached in a block; all zero before the first. */
struct table_entry {
    uint64_t at;           /* where the next one begins */
    uint64_t shared, rest; /* the key: bytes of the key before, and these ... */
    const unsigned char *key_rest;
    const unsigned char *value;
    uint64_t value_size;
};

/* A varint of up to 64 bits, a handle; false when there is none. */
bool table_varint(struct foreign_input *input, uint64_t *value);
bool table_handle(struct foreign_input *input, struct table_handle *handle);

/* The checksum of `size` bytes, at least one, the last of which is the compression; of a
 * block at that offset. */
uint32_t table_sum(const struct table *table, const unsigned char *p, size_t size,
                   uint64_t offset);

/* Finds a block, checks its trailer and unpacks it if that is needed (snappy only); `what`
 * names it in errors. table_release gives back what it took. */
bg_err table_open(const struct table *table, struct table_handle handle,
                  const char *what, const bg_foreign_options *options,
                  struct table_block *block, bg_errinfo *info);
void table_release(struct table_block *block);

/* Goes to the next entry; false at the end, or if there is something impossible: then
 * `at` is not the end of the entries. */
bool table_next(const struct table_block *block, struct table_entry *entry);
uint64_t table_entries_end(const struct table_block *block);

/* Calls `visit` with every name of a metaindex (cut to TABLE_NAME_MAX - 1 bytes) and the
 * handle beside it; those with other values are left out. */
typedef void table_visit(void *context, const char *name, struct table_handle handle);
bg_err table_names(const struct table_block *metaindex, uint64_t at, table_visit *visit,
                   void *context, bg_errinfo *info);

#endif
