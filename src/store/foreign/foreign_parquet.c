/*
 * foreign_parquet.c - the split-block filters of Apache Parquet.
 *
 * The input is a complete Parquet file or a single filter. In a file, the footer at the end
 * contains the offset of each column chunk's filter. Filters are numbered by row group and then by
 * column, skipping chunks that have no filter. bg_foreign_options.part selects a filter by its
 * number. A single filter has the same layout as a filter in a file:
 *
 *     15 <zigzag varint numBytes> 1c 1c 00 00 1c 1c 00 00 1c 1c 00 00 00 | numBytes bytes
 *     BloomFilterHeader: 1 numBytes, 2 {1 BLOCK}, 3 {1 XXHASH}, 4 {1 UNCOMPRESSED}
 *
 * Idea. A block has eight 32-bit words, with one bit per key in each word (see kind/split.c). The
 * hash is XXH64 with seed 0 over the plain-encoded value: numbers are 4 or 8 little-endian bytes,
 * and strings have no length prefix.
 *
 * Writers choose m = -8 n / ln(1 - p^(1/8)) bits, rounded up to a power of two, from 32 bytes to
 * 128 MiB; bg_foreign_create does the same. The decoder accepts any number of blocks.
 *
 * Source: parquet-format, BloomFilter.md and parquet.thrift.
 */
#include "filter/handle.h"
#include "store/foreign/foreign.h"
#include "store/foreign/table_hashes.h"
#include "store/foreign/thrift.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    PARQUET_BLOCK = 32, /* bytes */
    PARQUET_WORDS = 8,
    PARQUET_TAIL = 8, /* size of the last two fields, the footer length and "PAR1" */
    PARQUET_MIN = 32,
    PARQUET_MAX = 128 << 20
};

/* The bytes that precede and follow numBytes in a header. */
static const unsigned char parquet_head[] = { 0x15 };
static const unsigned char parquet_kinds[] = { 0x1c, 0x1c, 0,    0, 0x1c, 0x1c, 0,
                                               0,    0x1c, 0x1c, 0, 0,    0 };

/* extra[] holds the number of filters in the file. */
enum { PARQUET_FILTERS = 0 };

/* ---- A filter ---------------------------------------------------------------------- */

/* Returns whether a union contains only its first member, an empty struct. */
static bool parquet_union(struct thrift *in, uint32_t type)
{
    struct thrift_struct s = { 0 };
    uint32_t members = 0;
    bool first = true;
    if (type != THRIFT_STRUCT) {
        return false;
    }
    while (thrift_field(in, &s)) {
        first = first && s.id == 1 && s.type == THRIFT_STRUCT;
        members++;
        thrift_skip(in, s.type);
    }
    return first && members == 1;
}

/* Reads a header, and sets *bytes to its numBytes. Afterwards, the input is positioned at the
 * bits. */
static bg_err parquet_header(struct thrift *in, uint64_t *bytes, bg_errinfo *info)
{
    static const char *const names[] = { "algorithm", "hash", "compression" };
    const size_t start = in->input.at;
    struct thrift_struct s = { 0 };
    int64_t size = 0;
    uint32_t known = 0;
    while (thrift_field(in, &s)) {
        if (s.id == 1) {
            size = thrift_integer(in, s.type);
        } else if (s.id >= 2 && s.id <= 4) {
            size_t at = in->input.at;
            if (!parquet_union(in, s.type) && !in->bad) {
                return foreign_refuse(info, at, names[s.id - 2],
                                      "block, xxhash, uncompressed",
                                      "an unknown value");
            }
            known |= 1u << s.id;
        } else {
            thrift_skip(in, s.type);
        }
    }
    if (in->bad || known != (1 << 2 | 1 << 3 | 1 << 4)) {
        return foreign_refuse(info, start, "BloomFilterHeader", "a complete header",
                              "an invalid header");
    }
    if (size <= 0 || size > INT32_MAX || size % PARQUET_BLOCK) {
        return foreign_refuse(info, start, "numBytes", "a multiple of 32 above 0",
                              "%lld", (long long)size);
    }
    *bytes = (uint64_t)size;
    return BG_OK;
}

static void parquet_describe(bg_foreign *f, uint64_t bytes, uint32_t filters)
{
    *f->parts =
        (struct foreign_part){ .bits = 8 * bytes, .bytes = bytes, .k = PARQUET_WORDS };
    f->extra[PARQUET_FILTERS] = filters;
}

/* Reads the filter at input.at, starting with its header. `length` is the size of the header and
 * the bits, or 0 if it is unknown; `filters` is the number of filters in the file. */
static bg_err parquet_filter(struct foreign_input input, uint64_t length,
                             uint32_t filters, const bg_foreign_options *options,
                             bg_foreign **foreign, bg_errinfo *info)
{
    const size_t start = input.at;
    struct thrift in = { .input = input };
    uint64_t bytes = 0;
    bg_err err = parquet_header(&in, &bytes, info);
    if (err) {
        return err;
    }
    const uint64_t whole = in.input.at - start + bytes;
    const unsigned char *bits = foreign_take(&in.input, bytes);
    if (!bits || (length && length != whole)) {
        return foreign_refuse(info, start, "numBytes",
                              "the size of the filter in bytes", "%llu",
                              (unsigned long long)bytes);
    }
    err = foreign_make(&foreign_parquet, options, 1, bytes, input.n, foreign, info);
    if (!err) {
        parquet_describe(*foreign, bytes, filters);
        memcpy((*foreign)->bytes, bits, (size_t)bytes);
    }
    return err;
}

/* ---- A file ------------------------------------------------------------------------ */

/* The state of a search through the footer, which counts the filters and records the location of
 * the requested filter. */
struct parquet_search {
    uint32_t wanted, filters;
    int64_t offset, length;
};

static void parquet_column_metadata(struct thrift *in, struct parquet_search *search)
{
    struct thrift_struct s = { 0 };
    int64_t offset = -1, length = 0;
    while (thrift_field(in, &s)) {
        if (s.id == 14) {
            offset = thrift_integer(in, s.type);
        } else if (s.id == 15) {
            length = thrift_integer(in, s.type);
        } else {
            thrift_skip(in, s.type);
        }
    }
    if (offset >= 0 && search->filters++ == search->wanted) {
        search->offset = offset;
        search->length = length;
    }
}

static void parquet_column(struct thrift *in, struct parquet_search *search)
{
    struct thrift_struct s = { 0 };
    while (thrift_field(in, &s)) {
        if (s.id == 3 && s.type == THRIFT_STRUCT) {
            parquet_column_metadata(in, search);
        } else {
            thrift_skip(in, s.type);
        }
    }
}

/* Searches the columns of a row group, which are a list of structs. */
static void parquet_row_group(struct thrift *in, struct parquet_search *search)
{
    struct thrift_struct s = { 0 };
    while (thrift_field(in, &s)) {
        uint64_t columns = s.id == 1 ? thrift_list(in, s.type, THRIFT_STRUCT) : 0;
        for (uint64_t i = 0; i < columns && !in->bad; i++) {
            parquet_column(in, search);
        }
        if (s.id != 1) {
            thrift_skip(in, s.type);
        }
    }
}

static void parquet_footer(struct thrift *in, struct parquet_search *search)
{
    struct thrift_struct s = { 0 };
    while (thrift_field(in, &s)) {
        uint64_t groups = s.id == 4 ? thrift_list(in, s.type, THRIFT_STRUCT) : 0;
        for (uint64_t i = 0; i < groups && !in->bad; i++) {
            parquet_row_group(in, search);
        }
        if (s.id != 4) {
            thrift_skip(in, s.type);
        }
    }
}

static bg_err parquet_file(struct foreign_input input,
                           const bg_foreign_options *options, bg_foreign **foreign,
                           bg_errinfo *info)
{
    const uint64_t end = input.n - PARQUET_TAIL;
    const uint64_t length = bgi_load_le32(input.bytes + end);
    struct parquet_search search = { .wanted = options->part };
    if (length > end - 4) {
        return foreign_refuse(info, end, "length of the footer",
                              "at most the number of bytes before the footer", "%llu",
                              (unsigned long long)length);
    }
    struct thrift in = { .input = { input.bytes, (size_t)end,
                                    (size_t)(end - length) } };
    parquet_footer(&in, &search);
    if (in.bad || in.input.at != end) {
        return foreign_refuse(info, in.input.at, "footer",
                              "a valid FileMetaData structure",
                              "%llu bytes of invalid data", (unsigned long long)length);
    }
    if (search.filters == 0) {
        return foreign_refuse(info, end - length, "filters", "at least 1 in the file",
                              "0");
    }
    if (search.wanted >= search.filters) {
        char expected[64];
        (void)snprintf(expected, sizeof expected,
                       "0 to %u, the index of a filter in the file",
                       search.filters - 1);
        return bgi_err(info, BG_EINVAL, "part", expected, "%u", search.wanted);
    }
    if ((uint64_t)search.offset >= end - length || search.length < 0) {
        return foreign_refuse(info, end - length, "bloom_filter_offset",
                              "an offset before the footer", "%lld",
                              (long long)search.offset);
    }
    input.at = (size_t)search.offset;
    input.n = (size_t)(end - length);
    return parquet_filter(input, (uint64_t)search.length, search.filters, options,
                          foreign, info);
}

/* Returns whether the input is a complete file, which starts and ends with the same magic number.
 * Both ends are checked, because a single filter can end with any bytes. */
static bool parquet_is_file(const struct foreign_input *input, const char *magic)
{
    return input->n >= 4 + PARQUET_TAIL && memcmp(input->bytes, magic, 4) == 0
           && memcmp(input->bytes + input->n - 4, magic, 4) == 0;
}

static bg_err parquet_read(struct foreign_input input,
                           const bg_foreign_options *options, bg_foreign **foreign,
                           bg_errinfo *info)
{
    if (parquet_is_file(&input, "PARE")) {
        return foreign_refuse(info, input.n - 4, "footer", "a plaintext footer",
                              "an encrypted footer");
    }
    if (parquet_is_file(&input, "PAR1")) {
        return parquet_file(input, options, foreign, info);
    }
    if (options->part) {
        return bgi_err(info, BG_EINVAL, "part", "0 for a single filter", "%u",
                       options->part);
    }
    return parquet_filter(input, input.n, 1, options, foreign, info);
}

/* ---- Keys -------------------------------------------------------------------------- */

static void parquet_positions(const bg_foreign *f, const struct foreign_part *part,
                              const void *key, size_t len, uint64_t *to)
{
    static const uint32_t salt[PARQUET_WORDS] = { 0x47b6137b, 0x44974d91, 0x8824ad5b,
                                                  0xa2b7289d, 0x705495c7, 0x2df1424b,
                                                  0x9efc4947, 0x5c6bfb31 };
    const uint64_t hash = foreign_xxh64(key, len);
    const uint64_t block = (hash >> 32) * (part->bytes / PARQUET_BLOCK) >> 32;
    (void)f;
    for (uint32_t i = 0; i < PARQUET_WORDS; i++) {
        to[i] = 8 * PARQUET_BLOCK * block + 32 * i + ((uint32_t)hash * salt[i] >> 27);
    }
}

/* ---- Writing ----------------------------------------------------------------------- */

static bg_err parquet_create(uint64_t items, double rate,
                             const bg_foreign_options *options, bg_foreign **foreign,
                             bg_errinfo *info)
{
    const double bits = -8 * (double)items / log1p(-pow(rate, 1.0 / 8));
    uint64_t bytes = PARQUET_MIN;
    while (bytes < PARQUET_MAX && (double)(8 * bytes) < bits) {
        bytes *= 2;
    }
    bg_err err = foreign_make(&foreign_parquet, options, 1, bytes, 0, foreign, info);
    if (!err) {
        parquet_describe(*foreign, bytes, 1);
    }
    return err;
}

/* Writes numBytes as a zigzag varint. Returns its length. */
static size_t parquet_varint(uint64_t bytes, unsigned char *to)
{
    size_t n = 0;
    for (bytes *= 2; bytes >= 128; bytes >>= 7) {
        to[n++] = (unsigned char)(bytes | 128);
    }
    to[n++] = (unsigned char)bytes;
    return n;
}

static uint64_t parquet_written(const bg_foreign *f)
{
    unsigned char varint[10];
    return sizeof parquet_head + parquet_varint(f->parts->bytes, varint)
           + sizeof parquet_kinds + f->parts->bytes;
}

static void parquet_write(const bg_foreign *f, unsigned char *to)
{
    memcpy(to, parquet_head, sizeof parquet_head);
    to += sizeof parquet_head;
    to += parquet_varint(f->parts->bytes, to);
    memcpy(to, parquet_kinds, sizeof parquet_kinds);
    memcpy(to + sizeof parquet_kinds, f->bytes, (size_t)f->parts->bytes);
}

static void parquet_about(const bg_foreign *f, bg_foreign_info *about)
{
    about->parts = (uint32_t)f->extra[PARQUET_FILTERS];
}

const struct foreign_format foreign_parquet = {
    .id = BG_FOREIGN_PARQUET,
    .name = "parquet",
    .traits = BG_FOREIGN_CAN_WRITE | BG_FOREIGN_CAN_CREATE,
    .read = parquet_read,
    .create = parquet_create,
    .positions = parquet_positions,
    .written = parquet_written,
    .write = parquet_write,
    .about = parquet_about,
};

/* ---- Conversion from and to the kind `split` ---------------------------------------- */

/* Convert 32-bit words between the machine's byte order and Parquet's byte order. */
static void parquet_words_in(void *words, const unsigned char *bytes, uint64_t size)
{
    for (uint64_t i = 0; i < size; i += 4) {
        uint32_t word = bgi_load_le32(bytes + i);
        memcpy((unsigned char *)words + i, &word, sizeof word);
    }
}

static void parquet_words_out(const void *words, unsigned char *bytes, uint64_t size)
{
    for (uint64_t i = 0; i < size; i += 4) {
        uint32_t word;
        memcpy(&word, (const unsigned char *)words + i, sizeof word);
        bgi_store_le32(bytes + i, word);
    }
}

bg_err bg_foreign_to_filter(const bg_foreign *foreign, bg_filter **filter,
                            bg_errinfo *info)
{
    if (filter) {
        *filter = NULL;
    }
    if (!foreign || !filter) {
        return bgi_err(info, BG_EINVAL, "foreign, filter",
                       "a filter, and a pointer to receive the new filter", "NULL");
    }
    bgi_err_clear(info);
    if (foreign->format != &foreign_parquet) {
        return bgi_err(info, BG_ENOTSUP, "format", "parquet", "%s",
                       foreign->format->name);
    }
    const uint64_t bytes = foreign->parts->bytes;
    const struct bgi_recipe recipe = { .kind = BG_KIND_SPLIT,
                                       .k = PARQUET_WORDS,
                                       .units = bytes / PARQUET_BLOCK };
    bg_spec spec = BG_SPEC_INIT;
    spec.hash.profile = BG_HASH_XXH64;
    bg_hasher hasher;
    bg_err err = bg_hasher_init(&hasher, &spec.hash, info);
    if (!err) {
        err = bgi_recipe_make(&recipe, &spec, &hasher, bytes, filter, info);
    }
    if (!err) {
        parquet_words_in(bgi_filter_words(*filter), foreign->bytes, bytes);
    }
    return err;
}

/* Returns whether a filter is a plain `split` filter that uses xxh64 with seed 0. */
static bool parquet_is_split(const bg_filter *filter)
{
    const bg_hash_spec xxh64 = { .profile = BG_HASH_XXH64 };
    bg_hasher hasher;
    return filter->kind->id == BG_KIND_SPLIT && !filter->kind->composed
           && filter->shards == 0 && bg_hasher_init(&hasher, &xxh64, NULL) == BG_OK
           && bg_hasher_equal(&hasher, &filter->hasher);
}

bg_err bg_foreign_from_filter(const bg_filter *filter, bg_foreign **foreign,
                              bg_errinfo *info)
{
    if (foreign) {
        *foreign = NULL;
    }
    if (!filter || !foreign) {
        return bgi_err(info, BG_EINVAL, "filter, foreign",
                       "a filter, and a pointer to receive the new filter", "NULL");
    }
    bgi_err_clear(info);
    const uint64_t bytes = bg_filter_size_bytes(filter);
    if (!parquet_is_split(filter)) {
        return bgi_err_state(
            info, BG_ENOTSUP, "filter",
            "only a filter of kind split with hash xxh64 and seed 0 can "
            "be converted to Parquet; this filter has kind %s",
            bg_kind_name(bg_filter_kind(filter)));
    }
    if (bytes > INT32_MAX) {
        return bgi_err(info, BG_ENOTSUP, "filter", "fewer than 2 GiB", "%llu bytes",
                       (unsigned long long)bytes);
    }
    const bg_foreign_options options = BG_FOREIGN_OPTIONS_INIT;
    bg_err err = foreign_make(&foreign_parquet, &options, 1, bytes, 0, foreign, info);
    if (!err) {
        parquet_describe(*foreign, bytes, 1);
        parquet_words_out(bgi_filter_words(filter), (*foreign)->bytes, bytes);
    }
    return err;
}
