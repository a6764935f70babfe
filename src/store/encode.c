/*
 * encode.c - writes a filter to a file. The words are written block by block, then the table, and
 * the header last, so an incomplete file has no header.
 *
 * A sink that accepts bytes only in order receives the same bytes from first to last. In this case
 * the header comes first, and its digest covers the table, so the words are read twice: once to
 * compute their checksums, and once to write them. The checksums must be the same both times.
 *
 * Other threads may add keys during a save. Filters whose adds only set bits can be saved directly,
 * because each word can be read at any time (bgi_content_is_steady). The canaries are queried
 * before and after the save. If the answers are the same, they did not change in between, so the
 * saved filter also gives these answers. Filters of other kinds are copied first, unless the caller
 * guarantees that they do not change (BG_FILE_FROZEN).
 *
 * Saving allocates a buffer of 1 MiB, the numbers and the table.
 */
#include "store/container.h"

#include "base/crc32c.h"
#include "base/errinfo.h"
#include "hash/hasher.h"

#include <string.h>
#include <time.h>

/* The state of an encoder that writes words block by block. */
struct encoder {
    const struct container_sink *sink;
    const bg_save_options *options;
    struct container_header header;
    struct container_layout layout;
    struct bgi_memory memory;
    unsigned char *numbers; /* in the file's byte order */
    unsigned char *table;
    unsigned char *piece; /* buffer for the current blocks */
    uint64_t done;        /* number of bytes of words encoded so far */
    bool sums;            /* if true, store the checksums; if false, compare them */
    bool writes;          /* write the words */
    bool still;           /* the filter does not change during the save */
    bg_err err;
    bg_errinfo *info;
};

bg_err container_save_options(const bg_save_options *options, bg_save_options *to,
                              bg_errinfo *info)
{
    static const bg_save_options usual = BG_SAVE_OPTIONS_INIT;
    *to = options ? *options : usual;
    if (to->struct_size != sizeof *to) {
        return bgi_err(info, BG_EINVAL, "struct_size",
                       "sizeof(bg_save_options): use BG_SAVE_OPTIONS_INIT", "%u",
                       to->struct_size);
    }
    if (to->flags
        & ~(uint32_t)(BG_FILE_NO_SYNC | BG_FILE_NO_READ_BACK | BG_FILE_FROZEN
                      | BG_FILE_NO_CANARIES)) {
        return bgi_err(info, BG_EINVAL, "flags",
                       "only BG_FILE_NO_SYNC, BG_FILE_NO_READ_BACK, BG_FILE_FROZEN, "
                       "BG_FILE_NO_CANARIES",
                       "0x%x", to->flags);
    }
    if (to->metadata && strlen(to->metadata) >= BG_METADATA_MAX) {
        return bgi_err(info, BG_EINVAL, "metadata", "text of at most 3071 bytes",
                       "%zu bytes", strlen(to->metadata));
    }
    return BG_OK;
}

/* ---- The header ------------------------------------------------------------------------ */

static void encode_header(const bg_filter *filter, const bg_save_options *options,
                          struct container_header *header)
{
    const struct bgi_hasher *hasher = bgi_hasher_in(&filter->hasher);
    struct bgi_recipe recipe;
    struct bgi_measure measure = { .of = 0 };
    bgi_recipe_of(filter, &recipe);
    bgi_filter_measure(filter, &measure);
    memset(header, 0, sizeof *header);
    header->major = CONTAINER_MAJOR;
    header->header_bytes = CONTAINER_HEADER;
    container_put_recipe(header, &recipe);
    header->canaries = bgi_filter_canaries(filter);
    header->minor = header->canaries ? 2 : header->moved || header->elapsed ? 1 : 0;
    header->numbers = bgi_content_numbers(filter, NULL);
    header->word_bytes = container_word_bytes(filter);
    header->profile = hasher->profile;
    header->seed = hasher->seed;
    header->check = bg_hasher_check(&filter->hasher);
    if (hasher->profile == BG_HASH_CUSTOM) {
        memcpy(header->custom_name, hasher->u.custom.name, CONTAINER_NAME);
    }
    header->generation = options->generation;
    header->created = options->created ? options->created : (uint64_t)time(NULL);
    header->held =
        measure.items > 0 && measure.items < 1e18 ? (uint64_t)measure.items : 0;
    memcpy(header->key_id, options->key_id, BG_KEY_ID_BYTES);
    if (options->metadata) {
        header->metadata_bytes = strlen(options->metadata);
        memcpy(header->metadata, options->metadata, (size_t)header->metadata_bytes);
    }
}

/* ---- Words ----------------------------------------------------------------------------- */

static bg_err encode_write(struct encoder *e, uint64_t offset, const void *from,
                           size_t n)
{
    e->err =
        e->err ? e->err : e->sink->write(e->sink->context, offset, from, n, e->info);
    return e->err;
}

/* The number of bytes that are written at a time. */
enum { ENCODE_PIECE = 16 * CONTAINER_BLOCK };

/* Computes the checksums of the buffered blocks. Stores them in the table or, on the second pass,
 * compares them with the table. */
static void encode_sums(struct encoder *e, size_t n)
{
    unsigned long long block = (e->done - n) / CONTAINER_BLOCK;
    for (size_t at = 0; at < n; at += CONTAINER_BLOCK, block++) {
        size_t size = n - at < CONTAINER_BLOCK ? n - at : CONTAINER_BLOCK;
        unsigned char *entry = e->table + 4 * block;
        const uint32_t crc = bgi_crc32c(0, e->piece + at, size);
        if (e->sums) {
            bgi_store_le32(entry, crc);
        } else if (bgi_load_le32(entry) != crc) {
            e->err = bgi_err_state(
                e->info, BG_EBUSY, "filter",
                "block %llu changed while the filter was encoded; retry when no thread "
                "is modifying the filter",
                block);
        }
    }
}

/* Processes the buffered blocks, n bytes in total: computes or compares their checksums, and writes
 * them if e->writes is set. */
static void encode_piece(struct encoder *e, size_t n)
{
    encode_sums(e, n);
    if (!e->writes) {
        return;
    }
    (void)encode_write(e, e->layout.words_at + e->done - n, e->piece, n);
    if (!e->err && e->options->progress
        && !e->options->progress(e->options->context, e->done, e->header.word_bytes)) {
        e->err = bgi_err_state(e->info, BG_ECANCELED, "progress",
                               "the progress callback canceled the operation");
    }
}

/* Copies n words of a leaf while other threads may set bits in it. */
static void encode_copy(const bg_filter *leaf, unsigned char *to, const uint64_t *words,
                        size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t word = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
        bgi_store_le64(to + 8 * i, container_word(leaf, word));
    }
}

/* Appends n bytes of a leaf's words, or n zero bytes if `words` is NULL. */
static void encode_put(struct encoder *e, const bg_filter *leaf, const uint64_t *words,
                       uint64_t n)
{
    while (n > 0 && !e->err) {
        size_t at = (size_t)(e->done % ENCODE_PIECE), room = ENCODE_PIECE - at;
        size_t piece = n < room ? (size_t)n : room;
        if (words) {
            encode_copy(leaf, e->piece + at, words, piece / 8);
            words += piece / 8;
        } else {
            memset(e->piece + at, 0, piece);
        }
        e->done += piece;
        n -= piece;
        if (at + piece == ENCODE_PIECE || e->done == e->header.word_bytes) {
            encode_piece(e, at + piece);
        }
    }
}

static bool encode_leaf(void *context, bg_filter *leaf)
{
    struct encoder *e = context;
    encode_put(e, leaf, bgi_filter_words(leaf), leaf->bytes);
    encode_put(e, leaf, NULL, -(uint64_t)leaf->bytes % CONTAINER_LINE);
    return !e->err;
}

/* ---- The file -------------------------------------------------------------------------- */

static bg_err encode_prepare(struct encoder *e, const bg_filter *filter)
{
    size_t numbers, table, piece;
    if (!container_layout(&e->header, &e->layout)) {
        return bgi_err_state(e->info, BG_EINVAL, "filter",
                             "the filter is too large to be saved (%llu bytes)",
                             (unsigned long long)e->header.word_bytes);
    }
    numbers = (size_t)(e->layout.words_at - CONTAINER_HEADER);
    table = (size_t)e->layout.blocks * 4;
    piece = e->header.word_bytes < ENCODE_PIECE ? (size_t)e->header.word_bytes
                                                : ENCODE_PIECE;
    e->header.file_bytes = e->layout.file_bytes;
    if (!bgi_memory_take(&e->memory, piece + numbers + table, NULL, true)) {
        return bgi_err_state(e->info, BG_ENOMEM, "memory",
                             "cannot allocate %zu bytes to encode the filter",
                             piece + numbers + table);
    }
    e->piece = e->memory.base;
    /* This address is aligned, because the size of the buffer is a multiple of a cache line. */
    e->numbers = e->piece + piece;
    e->table = e->numbers + numbers;
    (void)bgi_content_numbers(filter, (uint64_t *)(void *)e->numbers);
    container_turn((uint64_t *)(void *)e->numbers, e->header.numbers);
    e->header.numbers_crc = bgi_crc32c(0, e->numbers, numbers);
    return BG_OK;
}

/* Discards the answers to the canaries if they changed during the save. */
static void encode_canaries(struct encoder *e, const bg_filter *filter)
{
    if (!e->still && !container_canaries_agree(filter, &e->header)) {
        e->header.absent_maybes = CONTAINER_UNASKED;
        e->header.absent_answers = 0;
    }
}

static void encode_words(struct encoder *e, const bg_filter *filter, bool sums,
                         bool writes)
{
    e->done = 0;
    e->sums = sums;
    e->writes = writes;
    (void)bgi_content_each(filter, encode_leaf, e);
}

static void encode_numbers(struct encoder *e)
{
    (void)encode_write(e, CONTAINER_HEADER, e->numbers,
                       (size_t)(e->layout.words_at - CONTAINER_HEADER));
}

static void encode_table(struct encoder *e)
{
    (void)encode_write(e, e->layout.table_at, e->table, (size_t)e->layout.blocks * 4);
}

/* Writes the header. All checksums must have been computed. */
static void encode_front(struct encoder *e, const bg_filter *filter)
{
    unsigned char bytes[CONTAINER_HEADER];
    encode_canaries(e, filter);
    container_write_header(&e->header, bytes);
    container_digest(bytes, &e->layout, e->numbers, e->table, e->header.digest);
    container_write_header(&e->header, bytes);
    (void)encode_write(e, 0, bytes, sizeof bytes);
}

static bg_err encode_filter(struct encoder *e, const bg_filter *filter)
{
    encode_header(filter, e->options, &e->header);
    bg_err err = encode_prepare(e, filter);
    if (err) {
        return err;
    }
    if (e->options->flags & BG_FILE_NO_CANARIES) {
        e->header.absent_maybes = CONTAINER_UNASKED;
    } else {
        container_query_canaries(filter, &e->header);
        e->header.minor = e->header.canary_age ? 2 : e->header.minor;
    }
    if (e->sink->in_order) {
        encode_words(e, filter, true, false);
        encode_front(e, filter);
        encode_numbers(e);
        encode_words(e, filter, false, true);
        encode_table(e);
    } else {
        encode_numbers(e);
        encode_words(e, filter, true, true);
        encode_table(e);
        encode_front(e, filter);
    }
    bgi_memory_give(&e->memory);
    return e->err;
}

bg_err container_encode(const bg_filter *filter, const bg_save_options *options,
                        const struct container_sink *sink,
                        struct container_header *header, bg_errinfo *info)
{
    struct encoder e = { .sink = sink, .options = options, .info = info };
    bg_filter *copy = NULL;
    bg_err err = BG_OK;
    if (!(filter->flags & BG_SPEC_EXCLUSIVE) && !(options->flags & BG_FILE_FROZEN)
        && !bgi_content_is_steady(filter)) {
        err = bg_filter_copy(filter, &copy, info);
    }
    e.still = copy || options->flags & BG_FILE_FROZEN;
    err = err ? err : encode_filter(&e, copy ? copy : filter);
    bg_filter_free(copy);
    err = err ? err : bgi_filter_check_mapping(filter, info);
    if (!err && header) {
        *header = e.header;
    }
    return err;
}
