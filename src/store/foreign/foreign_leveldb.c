/*
 * foreign_leveldb.c - the Bloom filters in a LevelDB table file (.ldb).
 *
 * A file contains many small filters. Each filter covers the data blocks that start in one 2 KiB
 * range of the file. A key is looked up as in LevelDB: the index gives the only data block that can
 * contain the key, the offset of this block selects the filter, and the filter is queried. Keys
 * that are greater than the last key in the index are not in the file.
 *
 *     filter ... | u32 offset of each filter | u32 offset of these offsets | u8 11 (2^11 = 2 KiB)
 *     a filter:   bits, then u8 k.   h = Hash(key); k times: bit h mod bits; h += h >>> 17
 *
 * The key of an index entry is greater than or equal to all keys in its block, and less than all
 * keys in the next block. An 8-byte version number follows the key. The value of the entry is the
 * location of the block. Keys are ordered by their bytes (LevelDB's default comparator).
 *
 * The filters are kept unchanged. The index is kept in two parts, so that it can be searched by
 * bisection. The first part has 24 bytes for each entry (the offset and length of its key, and the
 * index of its filter), and the second part contains the keys. The metaindex and the index may be
 * compressed with Snappy; filters never are.
 *
 * Invariants
 *   (I1) filter offsets ascend and stay inside the block
 *   (I2) index keys ascend
 *   (I3) the size of the index, like all memory, is limited to twice the size of the file
 *
 * As in LevelDB, an empty filter answers "no" for every key. The answer is "maybe" if the filter's
 * k is above 30, or if the data block starts after the range of the last filter.
 *
 * Source: LevelDB, doc/table_format.md.
 */
#include "base/bits.h"
#include "base/checked.h"
#include "store/foreign/foreign.h"
#include "store/foreign/table.h"
#include "store/foreign/table_hashes.h"

#include <math.h>
#include <string.h>

enum {
    LEVEL_FOOTER = 48,
    LEVEL_TAG = 8,    /* size of the version number after a key, in bytes */
    LEVEL_TAIL = 5,   /* size of the filter block's last two fields */
    LEVEL_ENTRY = 24, /* size of an index entry in memory, in bytes */
    LEVEL_K_MAX = 30
};

static const unsigned char level_magic[8] = { 0x57, 0xfb, 0x80, 0x8b,
                                              0x24, 0x75, 0x47, 0xdb };

/* extra[] holds the number of filters, the offset of their offset table, the number of index
 * entries, and the offset of these entries. The offsets are relative to `bytes`, which starts with
 * the filters. */
enum { LEVEL_FILTERS = 0, LEVEL_OFFSETS = 1, LEVEL_ENTRIES = 2, LEVEL_INDEX = 3 };

/* ---- Blocks ------------------------------------------------------------------------ */

static bg_err level_footer(const struct foreign_input *input, struct table *table,
                           struct table_handle *metaindex, struct table_handle *index,
                           bg_errinfo *info)
{
    if (input->n < LEVEL_FOOTER
        || memcmp(input->bytes + input->n - 8, level_magic, sizeof level_magic) != 0) {
        return foreign_refuse(info, input->n, "magic number",
                              "the magic number of a LevelDB table",
                              "a different number");
    }
    *table = (struct table){ .bytes = input->bytes,
                             .end = input->n - LEVEL_FOOTER,
                             .checksum = TABLE_CRC32C };
    struct foreign_input handles = { input->bytes + table->end, LEVEL_FOOTER - 8, 0 };
    if (!table_handle(&handles, metaindex) || !table_handle(&handles, index)) {
        return foreign_refuse(info, table->end, "metaindex, index",
                              "valid block handles", "invalid handles");
    }
    return BG_OK;
}

struct level_names {
    bool found, other;
    struct table_handle filter;
};

static void level_visit(void *context, const char *name, struct table_handle handle)
{
    struct level_names *names = context;
    if (strcmp(name, "filter.leveldb.BuiltinBloomFilter2") == 0) {
        names->found = true;
        names->filter = handle;
    } else if (strncmp(name, "filter.", 7) == 0) {
        names->other = true;
    }
}

static bg_err level_find(const struct table *table, struct table_handle metaindex,
                         const bg_foreign_options *options, struct table_handle *filter,
                         bg_errinfo *info)
{
    struct level_names names = { 0 };
    struct table_block block;
    bg_err err = table_open(table, metaindex, "metaindex", options, &block, info);
    if (err) {
        return err;
    }
    err = table_names(&block, metaindex.offset, level_visit, &names, info);
    table_release(&block);
    if (!err && !names.found) {
        err = foreign_refuse(
            info, metaindex.offset, "filter", "leveldb.BuiltinBloomFilter2",
            names.other ? "a filter from a different policy" : "no filter");
    }
    *filter = names.filter;
    return err;
}

/* ---- Filters ----------------------------------------------------------------------- */

struct level_filters {
    uint64_t count, offsets;
};

static bg_err level_check_filters(const struct table_block *block, uint64_t at,
                                  struct level_filters *filters, bg_errinfo *info)
{
    const uint64_t room = block->size - LEVEL_TAIL;
    if (block->size < LEVEL_TAIL || bgi_load_le32(block->bytes + room) > room
        || (room - bgi_load_le32(block->bytes + room)) % 4) {
        return foreign_refuse(info, at, "filter block",
                              "filters, followed by a valid list of their offsets",
                              "%llu bytes", (unsigned long long)block->size);
    }
    filters->offsets = bgi_load_le32(block->bytes + room);
    filters->count = (room - filters->offsets) / 4;
    if (block->bytes[block->size - 1] > 31) {
        return foreign_refuse(info, at + block->size - 1, "base", "2^0 to 2^31", "%u",
                              block->bytes[block->size - 1]);
    }
    uint64_t last = 0;
    for (uint64_t i = 0; i < filters->count; i++) {
        uint64_t offset = bgi_load_le32(block->bytes + filters->offsets + 4 * i);
        if (offset < last || offset > filters->offsets) {
            return foreign_refuse(
                info, at + filters->offsets + 4 * i, "offset of a filter",
                "an offset within the block, not before the previous one", "%llu",
                (unsigned long long)offset);
        }
        last = offset;
    }
    return BG_OK;
}

/* Returns the bytes of a filter, the last of which is its k. The last filter ends where the offset
 * table starts. */
static const unsigned char *level_filter(const bg_foreign *f, uint64_t i,
                                         uint64_t *size)
{
    const unsigned char *offsets = f->bytes + f->extra[LEVEL_OFFSETS] + 4 * i;
    *size = bgi_load_le32(offsets + 4) - bgi_load_le32(offsets);
    return f->bytes + bgi_load_le32(offsets);
}

static bool level_filter_has(const bg_foreign *f, uint64_t i, const void *key,
                             size_t len)
{
    uint64_t size;
    const unsigned char *filter = level_filter(f, i, &size);
    if (size < 2) {
        return false;
    }
    const uint32_t k = filter[size - 1];
    const uint64_t bits = 8 * (size - 1);
    uint32_t h = foreign_leveldb_hash(key, len, 0xbc9f1d34);
    const uint32_t step = h >> 17 | h << 15;
    for (uint32_t j = 0; k <= LEVEL_K_MAX && j < k; j++, h += step) {
        uint64_t bit = h % bits;
        if (!(filter[bit / 8] >> bit % 8 & 1)) {
            return false;
        }
    }
    return true;
}

/* ---- The index --------------------------------------------------------------------- */

/* Counts the entries in an index, and the total number of bytes in their keys. */
static bg_err level_measure(const struct table_block *index, uint64_t at,
                            uint64_t *entries, uint64_t *key_bytes, bg_errinfo *info)
{
    struct table_entry entry = { 0 };
    *entries = *key_bytes = 0;
    while (table_next(index, &entry)) {
        struct foreign_input value = { entry.value, (size_t)entry.value_size, 0 };
        struct table_handle handle;
        if (entry.shared + entry.rest < LEVEL_TAG || !table_handle(&value, &handle)
            || !bgi_add_u64(*key_bytes, entry.shared + entry.rest, key_bytes)) {
            return foreign_refuse(info, at + entry.at, "index entry",
                                  "a key and a block handle", "an invalid entry");
        }
        ++*entries;
    }
    if (entry.at != table_entries_end(index)) {
        return foreign_refuse(info, at + entry.at, "index", "complete entries",
                              "%llu bytes", (unsigned long long)index->size);
    }
    return BG_OK;
}

static unsigned char *level_entry(const bg_foreign *f, uint64_t i)
{
    return f->bytes + f->extra[LEVEL_INDEX] + LEVEL_ENTRY * i;
}

/* Returns whether a key is less than or equal to the key of an index entry. */
static bool level_up_to(const bg_foreign *f, uint64_t i, const void *key, uint64_t len)
{
    const unsigned char *entry = level_entry(f, i);
    const uint64_t theirs = bgi_load_le64(entry + 8);
    const size_t common = (size_t)(len < theirs ? len : theirs);
    int order = common ? memcmp(key, f->bytes + bgi_load_le64(entry), common) : 0;
    return order < 0 || (order == 0 && len <= theirs);
}

/* Copies the index to the filter. Returns false if the index keys do not ascend (I2). */
static bool level_keep_index(bg_foreign *f, const struct table_block *index,
                             unsigned base)
{
    struct table_entry entry = { 0 };
    uint64_t before = 0,
             at = f->extra[LEVEL_INDEX] + LEVEL_ENTRY * f->extra[LEVEL_ENTRIES];
    for (uint64_t i = 0; i < f->extra[LEVEL_ENTRIES] && table_next(index, &entry);
         i++) {
        struct foreign_input value = { entry.value, (size_t)entry.value_size, 0 };
        struct table_handle handle = { 0 };
        unsigned char *kept = level_entry(f, i);
        memmove(f->bytes + at, f->bytes + before, (size_t)entry.shared);
        memcpy(f->bytes + at + entry.shared, entry.key_rest, (size_t)entry.rest);
        (void)table_handle(&value, &handle);
        bgi_store_le64(kept, at);
        bgi_store_le64(kept + 8, entry.shared + entry.rest - LEVEL_TAG);
        bgi_store_le64(kept + 16, handle.offset >> base);
        if (i > 0
            && !level_up_to(f, i, f->bytes + before,
                            bgi_load_le64(kept - LEVEL_ENTRY + 8))) {
            return false;
        }
        before = at;
        at += entry.shared + entry.rest;
    }
    return true;
}

static bool level_has(const bg_foreign *f, const void *key, size_t len)
{
    uint64_t low = 0, high = f->extra[LEVEL_ENTRIES];
    while (low < high) { /* find the first entry whose key is at least `key` */
        uint64_t middle = low + (high - low) / 2;
        if (level_up_to(f, middle, key, len)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    if (low == f->extra[LEVEL_ENTRIES]) {
        return false;
    }
    const uint64_t filter = bgi_load_le64(level_entry(f, low) + 16);
    return filter >= f->extra[LEVEL_FILTERS] || level_filter_has(f, filter, key, len);
}

/* ---- The file ---------------------------------------------------------------------- */

/* Creates the handle from the checked filters and the index. */
static bg_err level_keep(const struct table_block *block,
                         const struct table_block *index,
                         const struct level_filters *filters, uint64_t input,
                         const bg_foreign_options *options, bg_foreign **foreign,
                         bg_errinfo *info)
{
    uint64_t entries, key_bytes, bytes;
    bg_foreign *f;
    bg_err err = level_measure(index, 0, &entries, &key_bytes, info);
    if (err) {
        return err;
    }
    if (!bgi_add_u64(key_bytes, block->size + LEVEL_ENTRY * entries, &bytes)) {
        return foreign_refuse(info, 0, "index", "a smaller index",
                              "more than 2^64 bytes");
    }
    err = foreign_make(&foreign_leveldb, options, 1, bytes, input, &f, info);
    if (err) {
        return err;
    }
    f->extra[LEVEL_FILTERS] = filters->count;
    f->extra[LEVEL_OFFSETS] = filters->offsets;
    f->extra[LEVEL_ENTRIES] = entries;
    f->extra[LEVEL_INDEX] = block->size;
    memcpy(f->bytes, block->bytes, (size_t)block->size);
    if (!level_keep_index(f, index, block->bytes[block->size - 1])) {
        bg_foreign_free(f);
        return foreign_refuse(info, 0, "index", "ascending keys", "a different order");
    }
    *foreign = f;
    return BG_OK;
}

static bg_err level_read(struct foreign_input input, const bg_foreign_options *options,
                         bg_foreign **foreign, bg_errinfo *info)
{
    struct table table;
    struct table_handle metaindex = { 0 }, index_at = { 0 }, filter = { 0 };
    struct table_block block = { 0 }, index = { 0 };
    struct level_filters filters = { 0 };
    bg_err err = level_footer(&input, &table, &metaindex, &index_at, info);
    if (!err) {
        err = level_find(&table, metaindex, options, &filter, info);
    }
    if (!err) {
        err = table_open(&table, filter, "filter block", options, &block, info);
    }
    if (!err) {
        err = level_check_filters(&block, filter.offset, &filters, info);
    }
    if (!err) {
        err = table_open(&table, index_at, "index", options, &index, info);
    }
    if (!err) {
        err = level_keep(&block, &index, &filters, input.n, options, foreign, info);
    }
    table_release(&block);
    table_release(&index);
    return err;
}

/* Sums up the bits and the set bits of all filters. The rate is the mean of the rates of all
 * non-empty filters, because a key is looked up in only one filter. */
static void level_about(const bg_foreign *f, bg_foreign_info *about)
{
    double rates = 0, used = 0;
    for (uint64_t i = 0; i < f->extra[LEVEL_FILTERS]; i++) {
        uint64_t size, ones = 0;
        const unsigned char *filter = level_filter(f, i, &size);
        for (uint64_t j = 0; j + 1 < size; j++) {
            ones += bgi_popcount64(filter[j]);
        }
        if (size > 1) {
            const double bits = 8 * (double)(size - 1);
            about->k = about->k ? about->k : filter[size - 1];
            about->bits += 8 * (size - 1);
            about->ones += ones;
            rates += pow((double)ones / bits, filter[size - 1]);
            used++;
        }
    }
    about->parts = (uint32_t)f->extra[LEVEL_FILTERS];
    about->rate = used > 0 ? rates / used : 0;
}

const struct foreign_format foreign_leveldb = {
    .id = BG_FOREIGN_LEVELDB,
    .name = "leveldb",
    .read = level_read,
    .has = level_has,
    .about = level_about,
};
