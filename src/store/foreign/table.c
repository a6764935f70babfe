/*
 * table.c - blocks of LevelDB and RocksDB table files.
 *
 * This file checks that a block and its trailer are before the footer. It verifies that the
 * checksum, whose type the file specifies, matches the contents and the compression type. It also
 * checks that no entry extends beyond the end of the entries, and that an entry does not share more
 * bytes with the previous key than that key contains.
 *
 * CRC-32C is stored masked (rotated by 15 bits, plus a constant), because the CRC of data that
 * contains CRCs is weak. XXH3 is computed over the contents only, and the compression byte after
 * the contents is mixed in by multiplication. In RocksDB format version 6 and later, a per-file
 * number and the offset of the block are mixed into every checksum, so that no block can be
 * mistaken for a different block.
 */
#include "store/foreign/table.h"

#include "base/crc32c.h"

#include "base/checked.h"
#include "store/foreign/snappy.h"
#include "store/foreign/table_hashes.h"

#include <string.h>

enum { TABLE_PLAIN = 0, TABLE_SNAPPY = 1 };

bool table_varint(struct foreign_input *input, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const unsigned char *p = foreign_take(input, 1);
        if (!p || (shift == 63 && *p > 1)) {
            return false;
        }
        *value |= (uint64_t)(*p & 127) << shift;
        if (*p < 128) {
            return true;
        }
    }
    return false;
}

bool table_handle(struct foreign_input *input, struct table_handle *handle)
{
    return table_varint(input, &handle->offset) && table_varint(input, &handle->size);
}

/* ---- Blocks ------------------------------------------------------------------------ */

uint32_t table_sum(const struct table *table, const unsigned char *p, size_t size,
                   uint64_t offset)
{
    uint32_t sum = 0;
    switch (table->checksum) {
    case TABLE_NO_CHECKSUM: break;
    case TABLE_CRC32C:
        sum = bgi_crc32c(0, p, size);
        sum = (sum >> 15 | sum << 17) + 0xa282ead8;
        break;
    case TABLE_XXH32: sum = foreign_xxh32(p, size); break;
    case TABLE_XXH64: sum = (uint32_t)foreign_xxh64(p, size); break;
    case TABLE_XXH3:
        sum = (uint32_t)foreign_xxh3(p, size - 1) ^ p[size - 1] * UINT32_C(0x6b9083d9);
        break;
    }
    if (table->context) {
        sum += table->context ^ ((uint32_t)offset + (uint32_t)(offset >> 32));
    }
    return sum;
}

static bg_err table_unpack(const unsigned char *packed, uint64_t n, uint64_t at,
                           const char *what, const bg_foreign_options *options,
                           struct table_block *block, bg_errinfo *info)
{
    uint64_t size;
    size_t room;
    if (!snappy_size(packed, n, &size)) {
        return foreign_refuse(info, at, what, "a block in Snappy format",
                              "%llu bytes in a different format",
                              (unsigned long long)n);
    }
    if (options->max_bytes && size > options->max_bytes) {
        return bgi_err(info, BG_ENOMEM, "size in bytes", "at most max_bytes", "%llu",
                       (unsigned long long)size);
    }
    if (!bgi_fits_size(size + 1, &room)
        || !bgi_memory_take(&block->memory, room, options->allocator, false)) {
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate %llu bytes to decompress a block",
                             (unsigned long long)size);
    }
    if (!snappy_unpack(packed, n, block->memory.base, size)) {
        table_release(block);
        return foreign_refuse(info, at, what, "a block in Snappy format",
                              "%llu bytes in a different format",
                              (unsigned long long)n);
    }
    block->bytes = block->memory.base;
    block->size = size;
    return BG_OK;
}

bg_err table_open(const struct table *table, struct table_handle handle,
                  const char *what, const bg_foreign_options *options,
                  struct table_block *block, bg_errinfo *info)
{
    *block = (struct table_block){ 0 };
    if (handle.offset > table->end || table->end - handle.offset < TABLE_TRAILER
        || handle.size > table->end - handle.offset - TABLE_TRAILER) {
        return foreign_refuse(info, handle.offset, what,
                              "a block that ends before the footer", "%llu bytes",
                              (unsigned long long)handle.size);
    }
    const unsigned char *p = table->bytes + handle.offset;
    const size_t summed = (size_t)handle.size + 1;
    if (table->checksum != TABLE_NO_CHECKSUM
        && table_sum(table, p, summed, handle.offset) != bgi_load_le32(p + summed)) {
        bg_err err =
            bgi_err(info, BG_ECHECKSUM, what, "the checksum stored after the block",
                    "a different checksum");
        if (info) {
            info->offset = handle.offset;
        }
        return err;
    }
    if (p[handle.size] == TABLE_SNAPPY) {
        return table_unpack(p, handle.size, handle.offset, what, options, block, info);
    }
    if (p[handle.size] != TABLE_PLAIN) {
        return foreign_refuse(info, handle.offset + handle.size, what,
                              "an uncompressed or Snappy-compressed block",
                              "compression type %u", p[handle.size]);
    }
    block->bytes = p;
    block->size = handle.size;
    return BG_OK;
}

void table_release(struct table_block *block)
{
    bgi_memory_give(&block->memory);
    *block = (struct table_block){ 0 };
}

/* ---- Entries ----------------------------------------------------------------------- */

uint64_t table_entries_end(const struct table_block *block)
{
    if (block->size < 4) {
        return 0;
    }
    const uint64_t restarts = bgi_load_le32(block->bytes + block->size - 4);
    return restarts > (block->size - 4) / 4 ? 0 : block->size - 4 - 4 * restarts;
}

bool table_next(const struct table_block *block, struct table_entry *entry)
{
    struct foreign_input input = { block->bytes, (size_t)table_entries_end(block),
                                   (size_t)entry->at };
    const uint64_t before = entry->shared + entry->rest;
    struct table_entry next;
    if (input.at >= input.n || !table_varint(&input, &next.shared)
        || !table_varint(&input, &next.rest) || !table_varint(&input, &next.value_size)
        || next.shared > before) {
        return false;
    }
    next.key_rest = foreign_take(&input, next.rest);
    next.value = next.key_rest ? foreign_take(&input, next.value_size) : NULL;
    next.at = input.at;
    if (!next.value) {
        return false;
    }
    *entry = next;
    return true;
}

bg_err table_names(const struct table_block *metaindex, uint64_t at, table_visit *visit,
                   void *context, bg_errinfo *info)
{
    struct table_entry entry = { 0 };
    char name[TABLE_NAME_MAX] = { 0 };
    while (table_next(metaindex, &entry)) {
        struct foreign_input value = { entry.value, (size_t)entry.value_size, 0 };
        struct table_handle handle;
        for (uint64_t i = entry.shared; i < TABLE_NAME_MAX - 1; i++) {
            name[i] =
                (char)(i - entry.shared < entry.rest ? entry.key_rest[i - entry.shared]
                                                     : 0);
        }
        if (table_handle(&value, &handle) && value.at == value.n) {
            visit(context, name, handle);
        }
    }
    if (entry.at != table_entries_end(metaindex)) {
        return foreign_refuse(info, at, "metaindex", "complete entries", "%llu bytes",
                              (unsigned long long)metaindex->size);
    }
    return BG_OK;
}
