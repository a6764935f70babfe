/*
 * encode.c - a filter becomes a file: words block by block, then the table, and the header
 * at last, so that what was not finished has none.
 *
 * Sinks that take bytes in order only get the same ones from the first to the last. The header
 * has the digest of the table, so words are gone through twice: for their checksums, and to be
 * written, when the checksums must come out the same.
 *
 * A filter that others add to meanwhile: in kinds whose bits are only ever set, each word
 * may be read whenever (bgi_content_is_steady), and the answers to canaries are asked for
 * before and after: if they are the same then those of all moments between, and so those of
 * the file, are too. Filters of other kinds are copied first, unless nobody will change them
 * (BG_FILE_FROZEN).
 *
 * Memory: a piece of 1 MiB, numbers and table.
 */
#include "store/container.h"

#include "base/crc32c.h"
#include "base/errinfo.h"
#include "hash/hasher.h"

#include <string.h>
#include <time.h>

/* Words on their way to blocks. */
struct encoder {
    const struct container_sink *sink;
    const bg_save_options *options;
    struct container_header header;
    struct container_layout layout;
    struct bgi_memory memory;
    unsigned char *numbers; /* as they stand in the file */
    unsigned char *table;
    unsigned char *piece; /* blocks that are being filled */
    uint64_t done;        /* bytes of words that were put in */
    bool sums;            /* checksums are made of the words ... */
    bool writes;          /* ... and the words written, or both */
    bool still;           /* the filter does not change in the meantime */
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
                       "BG_FILE_NO_SYNC, BG_FILE_NO_READ_BACK, BG_FILE_FROZEN, "
                       "BG_FILE_NO_CANARIES",
                       "0x%x", to->flags);
    }
    if (to->metadata && strlen(to->metadata) >= BG_METADATA_MAX) {
        return bgi_err(info, BG_EINVAL, "metadata", "text below 3072 bytes",
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
    header->minor = header->moved || header->elapsed ? CONTAINER_MINOR : 0;
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

/* Blocks are written some at a time. */
enum { ENCODE_PIECE = 16 * CONTAINER_BLOCK };

/* The checksums of the blocks that were filled: made, or else compared. */
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
            e->err = bgi_err(e->info, BG_EBUSY, "filter",
                             "one that nobody changes meanwhile", "another block %llu",
                             block);
        }
    }
}

/* Writes the blocks that were filled, n bytes of them. */
static void encode_piece(struct encoder *e, size_t n)
{
    encode_sums(e, n);
    if (!e->writes) {
        return;
    }
    (void)encode_write(e, e->layout.words_at + e->done - n, e->piece, n);
    if (!e->err && e->options->progress
        && !e->options->progress(e->options->context, e->done, e->header.word_bytes)) {
        e->err = bgi_err(e->info, BG_ECANCELED, "progress", "true to go on", "false");
    }
}

/* Copies n words of a leaf, which others may be setting bits in. */
static void encode_copy(const bg_filter *leaf, unsigned char *to, const uint64_t *words,
                        size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t word = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
        bgi_store_le64(to + 8 * i, container_word(leaf, word));
    }
}

/* Puts in n bytes of a leaf's words, or n zeros for NULL. */
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

/* ---- All of it ------------------------------------------------------------------------- */

static bg_err encode_prepare(struct encoder *e, const bg_filter *filter)
{
    size_t numbers, table, piece;
    if (!container_layout(&e->header, &e->layout)) {
        return bgi_err(e->info, BG_EINVAL, "filter", "one of a size that can be saved",
                       "%llu bytes", (unsigned long long)e->header.word_bytes);
    }
    numbers = (size_t)(e->layout.words_at - CONTAINER_HEADER);
    table = (size_t)e->layout.blocks * 4;
    piece = e->header.word_bytes < ENCODE_PIECE ? (size_t)e->header.word_bytes
                                                : ENCODE_PIECE;
    e->header.file_bytes = e->layout.file_bytes;
    if (!bgi_memory_take(&e->memory, piece + numbers + table, NULL, true)) {
        return bgi_err(e->info, BG_ENOMEM, "memory", "that much free memory",
                       "%zu bytes", piece + numbers + table);
    }
    e->piece = e->memory.base;
    e->numbers = e->piece + piece; /* words end at a line */
    e->table = e->numbers + numbers;
    (void)bgi_content_numbers(filter, (uint64_t *)(void *)e->numbers);
    container_turn((uint64_t *)(void *)e->numbers, e->header.numbers);
    e->header.numbers_crc = bgi_crc32c(0, e->numbers, numbers);
    return BG_OK;
}

/* What canaries say stands for the whole time only if it did not change. */
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

/* The header, when all checksums are known. */
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
        container_ask_canaries(filter, &e->header);
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
