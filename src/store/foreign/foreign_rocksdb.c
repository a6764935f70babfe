/*
 * foreign_rocksdb.c - the Bloom filter in a RocksDB table file (.sst).
 *
 * "FastLocalBloom" is a single full filter for the whole file. The filter policy bloomfilter:BITS
 * has written such filters since RocksDB 6.6 (format_version 5 and later). The low half of the hash
 * selects a 64-byte cache line. The high half is multiplied repeatedly and selects k bits in that
 * line, using nine bits for each:
 *
 *     lines of 64 bytes | ff | 00 | k | 00 00
 *     line = low32(h) * lines >> 32;  x = high32(h);  k times: bit x >> 23; x *= 9e3779b9
 *
 * h is the XXPH3 hash of the user key (table_hashes.c). The footer contains the location of the
 * metaindex, which contains the location of "fullfilter.rocksdb.BuiltinBloomFilter". The checksums
 * of the metaindex and of the filter are verified, and so is the footer's checksum, if it has one
 * (format_version 6 and later).
 *
 * The decoder rejects Ribbon filters, filters written by versions before 6.6 ("legacy"),
 * partitioned filters, and filters of other policies, each with a specific error. RocksDB itself
 * answers "maybe" for unknown filters.
 *
 * Source: RocksDB's table/format.cc and util/bloom_impl.h.
 */
#include "store/foreign/foreign.h"
#include "store/foreign/table.h"
#include "store/foreign/table_hashes.h"

#include <string.h>

enum {
    ROCKS_FOOTER = 53,
    ROCKS_LINE = 64,
    ROCKS_META = 5, /* number of bytes after the cache lines */
    ROCKS_K_MAX = 30,
    ROCKS_VERSION_MIN = 2,
    ROCKS_VERSION_MAX = 7
};

static const unsigned char rocks_magic[8] = { 0xf7, 0xcf, 0xf4, 0x85,
                                              0xb7, 0x41, 0xe2, 0x88 };
static const unsigned char rocks_magic6[4] = { 0x3e, 0x00, 0x7a, 0x00 };

/* ---- Finding the filter ------------------------------------------------------------ */

/* Reads a footer of format version 6 or later. The metaindex ends where the footer starts. */
static bg_err rocks_footer6(const unsigned char *p, struct table *table,
                            struct table_handle *metaindex, bg_errinfo *info)
{
    unsigned char copy[ROCKS_FOOTER];
    const uint64_t size = bgi_load_le32(p + 13);
    table->context = bgi_load_le32(p + 9);
    memcpy(copy, p, sizeof copy);
    memset(copy + 5, 0, 4);
    if (memcmp(p + 1, rocks_magic6, sizeof rocks_magic6) != 0
        || (table->checksum != TABLE_NO_CHECKSUM
            && table_sum(table, copy, sizeof copy, table->end)
                   != bgi_load_le32(p + 5))) {
        return bgi_err_state(info, BG_ECHECKSUM, "footer",
                             "the footer is damaged: its checksum does not match");
    }
    if (size + TABLE_TRAILER > table->end) {
        return foreign_refuse(info, table->end + 13, "size of the metaindex",
                              "at most the number of bytes before the footer", "%llu",
                              (unsigned long long)size);
    }
    *metaindex = (struct table_handle){ table->end - TABLE_TRAILER - size, size };
    return BG_OK;
}

static bg_err rocks_footer(const struct foreign_input *input, struct table *table,
                           struct table_handle *metaindex, bg_errinfo *info)
{
    if (input->n < ROCKS_FOOTER
        || memcmp(input->bytes + input->n - 8, rocks_magic, sizeof rocks_magic) != 0) {
        return foreign_refuse(info, input->n, "magic number",
                              "the magic number of a RocksDB block-based table",
                              "a different number");
    }
    const unsigned char *p = input->bytes + input->n - ROCKS_FOOTER;
    const uint32_t version = bgi_load_le32(p + 41);
    *table = (struct table){ .bytes = input->bytes,
                             .end = input->n - ROCKS_FOOTER,
                             .checksum = (enum table_checksum)p[0] };
    if (version < ROCKS_VERSION_MIN || version > ROCKS_VERSION_MAX) {
        return bgi_err(info, BG_EVERSION, "format_version", "2 to 7", "%u", version);
    }
    if (p[0] > TABLE_XXH3) {
        return foreign_refuse(info, table->end, "checksum type", "0 to 4", "%u", p[0]);
    }
    if (version >= 6) {
        return rocks_footer6(p, table, metaindex, info);
    }
    struct foreign_input handles = { p + 1, 40, 0 };
    if (!table_handle(&handles, metaindex)) {
        return foreign_refuse(info, table->end + 1, "metaindex", "a valid block handle",
                              "an invalid handle");
    }
    return BG_OK;
}

/* Records which filters a metaindex contains. */
struct rocks_names {
    bool found, partitioned, other;
    struct table_handle filter;
};

static void rocks_visit(void *context, const char *name, struct table_handle handle)
{
    struct rocks_names *names = context;
    if (strcmp(name, "fullfilter.rocksdb.BuiltinBloomFilter") == 0) {
        names->found = true;
        names->filter = handle;
    } else if (strncmp(name, "partitionedfilter.", 18) == 0) {
        names->partitioned = true;
    } else if (strncmp(name, "fullfilter.", 11) == 0
               || strncmp(name, "filter.", 7) == 0) {
        names->other = true;
    }
}

static bg_err rocks_find(const struct table *table, struct table_handle metaindex,
                         const bg_foreign_options *options, struct table_handle *filter,
                         bg_errinfo *info)
{
    struct rocks_names names = { 0 };
    struct table_block block;
    bg_err err = table_open(table, metaindex, "metaindex", options, &block, info);
    if (err) {
        return err;
    }
    err = table_names(&block, metaindex.offset, rocks_visit, &names, info);
    table_release(&block);
    if (!err && !names.found) {
        err = foreign_refuse(info, metaindex.offset, "filter",
                             "a full filter, rocksdb.BuiltinBloomFilter",
                             names.partitioned ? "a partitioned filter"
                             : names.other     ? "a filter from a different policy"
                                               : "no filter");
    }
    *filter = names.filter;
    return err;
}

/* ---- The filter -------------------------------------------------------------------- */

/* Checks the five bytes after the cache lines. RocksDB ignores a filter in which these bytes have
 * unexpected values. */
static bg_err rocks_check(const unsigned char *p, uint64_t size, uint64_t at,
                          bg_errinfo *info)
{
    const unsigned char *meta = p + size - ROCKS_META;
    if (size <= ROCKS_META) {
        return foreign_refuse(info, at, "filter", "a multiple of 64 bytes, plus 5",
                              "%llu bytes", (unsigned long long)size);
    }
    at += size - ROCKS_META;
    if (meta[0] != 0xff) {
        return foreign_refuse(info, at, "kind of filter", "Bloom of format_version 5",
                              meta[0] == 0xfe                   ? "Ribbon"
                              : meta[0] >= 1 && meta[0] <= 0x7f ? "legacy Bloom"
                                                                : "an unknown kind");
    }
    if ((size - ROCKS_META) % ROCKS_LINE) {
        return foreign_refuse(info, at, "filter", "a multiple of 64 bytes, plus 5",
                              "%llu bytes", (unsigned long long)size);
    }
    if (meta[1] != 0 || meta[2] == 0 || meta[2] > ROCKS_K_MAX || meta[3] || meta[4]) {
        return foreign_refuse(info, at + 1, "shape of the filter",
                              "00, a k of 01 to 1e, 00 00", "%02x %02x %02x %02x",
                              meta[1], meta[2], meta[3], meta[4]);
    }
    return BG_OK;
}

static bg_err rocks_keep(const struct table_block *block, uint64_t at, uint64_t input,
                         const bg_foreign_options *options, bg_foreign **foreign,
                         bg_errinfo *info)
{
    if (block->size == 0) { /* a filter without keys */
        return foreign_make(&foreign_rocksdb, options, 0, 0, input, foreign, info);
    }
    bg_err err = rocks_check(block->bytes, block->size, at, info);
    const uint64_t bytes = block->size - ROCKS_META;
    if (!err) {
        err = foreign_make(&foreign_rocksdb, options, 1, bytes, input, foreign, info);
    }
    if (!err) {
        *(*foreign)->parts = (struct foreign_part){ .bits = 8 * bytes,
                                                    .bytes = bytes,
                                                    .k = block->bytes[bytes + 2] };
        memcpy((*foreign)->bytes, block->bytes, (size_t)bytes);
    }
    return err;
}

static bg_err rocks_read(struct foreign_input input, const bg_foreign_options *options,
                         bg_foreign **foreign, bg_errinfo *info)
{
    struct table table;
    struct table_handle metaindex = { 0 }, filter = { 0 };
    struct table_block block;
    bg_err err = rocks_footer(&input, &table, &metaindex, info);
    if (!err) {
        err = rocks_find(&table, metaindex, options, &filter, info);
    }
    if (!err) {
        err = table_open(&table, filter, "filter block", options, &block, info);
    }
    if (err) {
        return err;
    }
    err = rocks_keep(&block, filter.offset, input.n, options, foreign, info);
    table_release(&block);
    return err;
}

static void rocks_positions(const bg_foreign *f, const struct foreign_part *part,
                            const void *key, size_t len, uint64_t *to)
{
    const uint64_t hash = foreign_xxph3(key, len);
    const uint64_t line = (uint32_t)hash * (part->bytes / ROCKS_LINE) >> 32;
    uint32_t x = (uint32_t)(hash >> 32);
    (void)f;
    for (uint32_t i = 0; i < part->k; i++, x *= 0x9e3779b9) {
        to[i] = 8 * ROCKS_LINE * line + (x >> 23);
    }
}

const struct foreign_format foreign_rocksdb = {
    .id = BG_FOREIGN_ROCKSDB,
    .name = "rocksdb",
    .read = rocks_read,
    .positions = rocks_positions,
};
