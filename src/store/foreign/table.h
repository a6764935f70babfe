/*
 * table.h - the parts that LevelDB and RocksDB table files have in common: blocks, each with a
 * trailer, and maps from names to block handles.
 *
 *     block     contents | u8 compression | u32 checksum      a handle is the offset of a block
 *                                                             and the size of its contents
 *     contents  entries | u32 restart ... | u32 number of restarts
 *     entry     varint shared | varint unshared | varint size of the value | the bytes of the
 *               key after those that it shares with the previous key | value
 *
 * The input is untrusted; table.c lists the checks.
 */
#ifndef BGI_TABLE_H
#define BGI_TABLE_H

#include "store/foreign/foreign.h"

enum { TABLE_TRAILER = 5, TABLE_NAME_MAX = 256 };

/* The location of a block. */
struct table_handle {
    uint64_t offset, size;
};

/* The type of the block checksums, with the same values as in RocksDB. */
enum table_checksum {
    TABLE_NO_CHECKSUM = 0,
    TABLE_CRC32C = 1,
    TABLE_XXH32 = 2,
    TABLE_XXH64 = 3,
    TABLE_XXH3 = 4
};

/* A file that is being read. All blocks are before the offset `end`. */
struct table {
    const unsigned char *bytes;
    uint64_t end;
    enum table_checksum checksum;
    uint32_t context; /* per-file number in RocksDB format 6 and later; otherwise 0 */
};

/* The contents of a block, and the memory for the contents if they were decompressed. */
struct table_block {
    const unsigned char *bytes;
    uint64_t size;
    struct bgi_memory memory;
};

/* The current entry of a block; all zeros before the first entry. */
struct table_entry {
    uint64_t at; /* offset of the next entry */
    uint64_t shared,
        rest; /* bytes shared with the previous key, and the key's remaining bytes */
    const unsigned char *key_rest;
    const unsigned char *value;
    uint64_t value_size;
};

/* Read a varint of up to 64 bits, or a handle. Return false if the input is invalid. */
bool table_varint(struct foreign_input *input, uint64_t *value);
bool table_handle(struct foreign_input *input, struct table_handle *handle);

/* Computes the checksum of a block at an offset. The last of the `size` bytes is the compression
 * type, so `size` is at least 1. */
uint32_t table_sum(const struct table *table, const unsigned char *p, size_t size,
                   uint64_t offset);

/* Finds a block, checks its trailer, and decompresses the block if needed (Snappy only). Error
 * messages refer to the block as `what`. table_release frees the block's memory. */
bg_err table_open(const struct table *table, struct table_handle handle,
                  const char *what, const bg_foreign_options *options,
                  struct table_block *block, bg_errinfo *info);
void table_release(struct table_block *block);

/* Advances to the next entry. Returns false at the end or at an invalid entry. After an invalid
 * entry, entry->at differs from table_entries_end. */
bool table_next(const struct table_block *block, struct table_entry *entry);
uint64_t table_entries_end(const struct table_block *block);

/* Calls `visit` with every name in a metaindex (truncated to TABLE_NAME_MAX - 1 bytes) and its
 * handle. Entries whose values are not handles are skipped. */
typedef void table_visit(void *context, const char *name, struct table_handle handle);
bg_err table_names(const struct table_block *metaindex, uint64_t at, table_visit *visit,
                   void *context, bg_errinfo *info);

#endif
