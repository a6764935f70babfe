/*
 * fuzz_tables.c - decodes untrusted bytes as Parquet, RedisBloom, BIP158, RocksDB and LevelDB
 * filters. No input may cause a crash, a hang, or allocations of more than a small multiple of its
 * size. If input is refused, the error must state a reason. An accepted filter answers queries, and
 * accepts keys if its format allows it. A filter that is written and read back has the same answers
 * and the same bytes.
 *
 * The first byte chooses the format and the operation. A mutated table block almost never has a
 * valid checksum, so the checksums are corrected first if the input requests it.
 */
#include "bloomgate/all.h"
#include "fuzz.h"
#include "fuzz_input.h"

#include "base/bits.h"
#include "store/foreign/table.h"

#include <string.h>

enum { KEYS = 12, TAKEN_MAX = 1 << 17 };

static const uint8_t secret[16] = {
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
};

/* ---- A counting allocator ------------------------------------------------------- */

static size_t taken, live;

static void *watched_allocate(void *context, size_t bytes, size_t alignment,
                              bool zeroed)
{
    (void)context;
    taken += bytes;
    if (bytes > TAKEN_MAX) {
        return NULL; /* forged input can specify any growth factor */
    }
    void *p = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    FUZZ_MUST(p);
    memset(p, zeroed ? 0 : 0xa5, bytes);
    live++;
    return p;
}

static void watched_release(void *context, void *memory, size_t bytes)
{
    (void)context;
    (void)bytes;
    live--;
    free(memory);
}

static const bg_allocator watched = { watched_allocate, watched_release, NULL };

/* ---- Checksums ---------------------------------------------------------------------- */

static void correct(const struct table *table, uint8_t *bytes, struct table_handle h)
{
    if (h.offset < table->end && table->end - h.offset >= TABLE_TRAILER
        && h.size <= table->end - h.offset - TABLE_TRAILER) {
        uint8_t *p = bytes + h.offset;
        uint32_t sum = bgi_le32(table_sum(table, p, (size_t)h.size + 1, h.offset));
        memcpy(p + h.size + 1, &sum, 4);
    }
}

struct correction {
    const struct table *table;
    uint8_t *bytes;
};

static void correct_named(void *context, const char *name, struct table_handle handle)
{
    const struct correction *c = context;
    if (strstr(name, "filter")) {
        correct(c->table, c->bytes, handle);
    }
}

/* Corrects the checksums of the blocks that the metaindex and the footer refer to. The metaindex is
 * corrected again after the filter blocks, because blocks can overlap. */
static void correct_table(uint8_t *bytes, size_t n, bool rocks)
{
    const size_t footer = rocks ? 53 : 48;
    if (n < footer) {
        return;
    }
    uint8_t *p = bytes + (n - footer);
    struct table table = { .bytes = bytes,
                           .end = n - footer,
                           .checksum = TABLE_CRC32C };
    struct table_handle metaindex = { 0 }, index = { 0 };
    struct foreign_input handles = { p + rocks, 40, 0 };
    if (rocks) {
        table.checksum = (enum table_checksum)(p[0] % 5);
    }
    (void)(table_handle(&handles, &metaindex) && table_handle(&handles, &index));
    if (rocks && bgi_load_le32(p + 41) >= 6) {
        metaindex.size = bgi_load_le32(p + 13);
        metaindex.offset = table.end - TABLE_TRAILER - metaindex.size;
        table.context = bgi_load_le32(p + 9);
        memset(p + 5, 0, 4);
        uint32_t sum = bgi_le32(table_sum(&table, p, footer, table.end));
        memcpy(p + 5, &sum, 4);
    }
    struct table_block block;
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    struct correction c = { &table, bytes };
    how.max_bytes = TAKEN_MAX / 2;
    correct(&table, bytes, metaindex);
    if (table_open(&table, metaindex, "metaindex", &how, &block, NULL) == BG_OK) {
        (void)table_names(&block, 0, correct_named, &c, NULL);
        table_release(&block);
    }
    correct(&table, bytes, metaindex);
    if (!rocks) {
        correct(&table, bytes, index);
    }
}

/* ---- Properties of a filter ---------------------------------------------------------- */

/* Writes the i-th of twelve keys, which have different lengths; returns its length. */
static size_t key_of(size_t i, uint8_t *key)
{
    const size_t len = i * i * 3;
    for (size_t j = 0; j < len; j++) {
        key[j] = (uint8_t)(17 * i + j);
    }
    return len;
}

static uint32_t answers(const bg_foreign *f)
{
    uint8_t key[3 * KEYS * KEYS];
    uint32_t bits = 0;
    for (size_t i = 0; i < KEYS; i++) {
        size_t len = key_of(i, key);
        bits |= (uint32_t)bg_foreign_may_contain(f, key, len) << i;
    }
    return bits;
}

static void *written(const bg_foreign *f, size_t *n)
{
    size_t again;
    FUZZ_MUST(bg_foreign_encode(f, NULL, 0, n, NULL) == BG_OK && *n <= 2 * TAKEN_MAX);
    uint8_t *bytes = malloc(*n ? *n : 1);
    FUZZ_MUST(bytes && bg_foreign_encode(f, bytes, *n, &again, NULL) == BG_OK);
    FUZZ_MUST(again == *n);
    FUZZ_MUST(*n == 0
              || bg_foreign_encode(f, bytes, *n - 1, &again, NULL) == BG_EINVAL);
    return bytes;
}

/* A filter that is written and read back has the same answers and the same bytes. The exception is
 * a new BIP158 filter: it can answer "no" where the filter that is read back answers "maybe", but
 * never vice versa. */
static void check_written(const bg_foreign *f, const bg_foreign_options *how,
                          bg_foreign_format format)
{
    size_t n, m;
    bg_foreign_options plain = *how;
    plain.part = 0;
    plain.max_bytes = 0;
    uint8_t *bytes = written(f, &n);
    bg_foreign *g = NULL;
    FUZZ_MUST(bg_foreign_decode(format, bytes, n, &plain, &g, NULL) == BG_OK);
    FUZZ_MUST((answers(f) & ~answers(g)) == 0);
    FUZZ_MUST(format == BG_FOREIGN_BIP158 || answers(f) == answers(g));
    uint8_t *again = written(g, &m);
    FUZZ_MUST(n == m && memcmp(bytes, again, n) == 0);
    free(bytes);
    free(again);
    bg_foreign_free(g);
}

static void check_split(const bg_foreign *f)
{
    bg_filter *filter = NULL;
    bg_foreign *back = NULL;
    size_t n, m;
    FUZZ_MUST(bg_foreign_to_filter(f, &filter, NULL) == BG_OK);
    FUZZ_MUST(bg_foreign_from_filter(filter, &back, NULL) == BG_OK);
    uint8_t *a = written(f, &n), *b = written(back, &m);
    FUZZ_MUST(n == m && memcmp(a, b, n) == 0 && answers(f) == answers(back));
    free(a);
    free(b);
    bg_filter_free(filter);
    bg_foreign_free(back);
}

static void check_adds(bg_foreign *f, struct fuzz_input *in)
{
    uint8_t key[3 * KEYS * KEYS];
    uint32_t before = answers(f);
    for (size_t i = 0; i < KEYS; i++) {
        size_t len = key_of(i, key);
        bg_err err = bg_foreign_add(f, key, len, NULL);
        FUZZ_MUST(err == BG_OK || err == BG_EFULL || err == BG_ENOTSUP
                  || err == BG_ENOMEM);
        FUZZ_MUST(err != BG_OK || bg_foreign_may_contain(f, key, len));
    }
    for (unsigned n = fuzz_byte(in) * 4u; n > 0; n--) {
        uint64_t number = fuzz_byte(in) | (uint64_t)n << 8;
        if (bg_foreign_add(f, &number, sizeof number, NULL)) {
            break;
        }
        FUZZ_MUST(bg_foreign_may_contain(f, &number, sizeof number));
    }
    FUZZ_MUST((before & ~answers(f)) == 0);
}

static void check_filter(bg_foreign *f, const bg_foreign_options *how,
                         struct fuzz_input *in)
{
    bg_foreign_info about = { .struct_size = sizeof about };
    FUZZ_MUST(bg_foreign_get_info(f, &about) == BG_OK);
    FUZZ_MUST(about.rate >= 0 && about.rate <= 1 && about.k <= 256);
    const bg_foreign_format format = (bg_foreign_format)about.format;
    const uint32_t traits = bg_foreign_traits(format);
    bg_foreign_format same;
    FUZZ_MUST(bg_foreign_parse(bg_foreign_name(format), &same) && same == format);
    if (format == BG_FOREIGN_PARQUET) {
        check_split(f);
    }
    if (traits & BG_FOREIGN_CAN_WRITE) {
        check_written(f, how, format);
    }
    check_adds(f, in);
    if (traits & BG_FOREIGN_CAN_WRITE) {
        check_written(f, how, format);
    }
}

/* ---- Reading and creating ------------------------------------------------------------ */

static bg_err read_one(bg_foreign_format format, const struct fuzz_input *in, bool fix,
                       const bg_foreign_options *how, bg_foreign **f)
{
    bg_errinfo why;
    uint8_t *bytes = malloc(in->left ? in->left : 1);
    FUZZ_MUST(bytes);
    if (in->left) {
        memcpy(bytes, in->data, in->left);
    }
    if (fix && (format == BG_FOREIGN_LEVELDB || format == BG_FOREIGN_ROCKSDB)) {
        correct_table(bytes, in->left, format == BG_FOREIGN_ROCKSDB);
    }
    taken = 0;
    bg_err err = bg_foreign_decode(format, bytes, in->left, how, f, &why);
    FUZZ_MUST((err == BG_OK) == (*f != NULL) && why.code == err);
    FUZZ_MUST((err == BG_OK) == (why.message[0] == 0));
    /* Decoding may allocate up to twice the size of the input for bits, up to four times for parts,
     * and up to 22 times for an unpacked index. */
    FUZZ_MUST(taken <= 26 * in->left + 4096);
    free(bytes);
    return err;
}

static bg_err create_one(bg_foreign_format format, struct fuzz_input *in,
                         bg_foreign_options *how, bg_foreign **f)
{
    uint64_t items = fuzz_any(in);
    double rate = fuzz_byte(in) & 1 ? fuzz_double(in) : (1 + fuzz_byte(in)) / 300.0;
    how->max_bytes = TAKEN_MAX / 2;
    bg_err err = bg_foreign_create(format, items, rate, how, f, NULL);
    FUZZ_MUST((err == BG_OK) == (*f != NULL));
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const bg_foreign_format formats[] = { BG_FOREIGN_PARQUET,
                                                 BG_FOREIGN_REDISBLOOM,
                                                 BG_FOREIGN_BIP158, BG_FOREIGN_ROCKSDB,
                                                 BG_FOREIGN_LEVELDB };
    struct fuzz_input in = { data, size };
    const uint8_t how_to = fuzz_byte(&in);
    const bg_foreign_format format = formats[how_to % 5];
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    bg_foreign *f = NULL;
    how.secret = secret;
    how.allocator = &watched;
    how.part = how_to / 5 % 3;
    how.max_bytes = how_to & 64 ? 1000 : 0;
    if (how_to >= 200) {
        (void)create_one(format, &in, &how, &f);
    } else {
        (void)read_one(format, &in, how_to & 128, &how, &f);
    }
    if (f) {
        check_filter(f, &how, &in);
    }
    bg_foreign_free(f);
    FUZZ_MUST(live == 0);
    return 0;
}
