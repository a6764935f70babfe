/*
 * verify.c - verifies everything in a file that can be checked without its keys.
 *
 * All blocks are checked, not only those up to the first damaged block, so that the report shows
 * how much is lost. The file is decoded in one pass, in the same way as when it is opened. Bytes
 * that are already in memory are used in place if the kind allows this.
 */
#include "store/container.h"

#include "base/crc32c.h"
#include "base/errinfo.h"

#include <string.h>

/* Counts an error, and records the first error in the report. */
static void verify_note(bg_verify_report *report, const bg_errinfo *why)
{
    if (report->bad++ == 0) {
        report->code = why->code;
        report->first_offset = why->offset;
        memcpy(report->what, why->what, sizeof report->what);
        memcpy(report->found, why->found, sizeof report->found);
        memcpy(report->expected, why->expected, sizeof report->expected);
    }
}

/* The number of bytes that are checked at a time: a multiple of the block size that fits into the
 * level-2 cache. */
enum { VERIFY_PIECE = 4 * CONTAINER_BLOCK };

/* Checks the blocks in the n bytes at `p`. `block` is the index of the first block. */
static void verify_piece(const struct container_front *front, const unsigned char *p,
                         uint64_t block, size_t n, struct container_damage *damage)
{
    for (size_t at = 0; at < n; at += CONTAINER_BLOCK, block++) {
        size_t size = n - at < CONTAINER_BLOCK ? n - at : CONTAINER_BLOCK;
        uint32_t crc = bgi_crc32c(0, p + at, size);
        if (crc != container_block_crc(front, block) && damage->blocks++ == 0) {
            (void)container_refuse_block(
                &damage->first, front->layout.words_at + block * CONTAINER_BLOCK, block,
                crc, container_block_crc(front, block));
        }
    }
}

/* Checks the blocks of a file that is in memory. */
static bg_err verify_in_memory(const struct container_source *source,
                               const struct container_front *front,
                               const bg_open_options *options,
                               struct container_damage *damage, bg_errinfo *why)
{
    const uint64_t bytes = front->header.word_bytes;
    for (uint64_t at = 0; at < bytes; at += VERIFY_PIECE) {
        size_t n = bytes - at < VERIFY_PIECE ? (size_t)(bytes - at) : VERIFY_PIECE;
        verify_piece(front, source->memory + front->layout.words_at + at,
                     at / CONTAINER_BLOCK, n, damage);
        if (options->progress && !options->progress(options->context, at + n, bytes)) {
            return bgi_err_state(why, BG_ECANCELED, "progress",
                                 "the progress callback canceled the operation");
        }
    }
    return BG_OK;
}

/* Returns whether the words can be used in place. */
static bool verify_can_stay(const struct container_source *source,
                            const struct container_front *front)
{
    uintptr_t words = (uintptr_t)source->memory + (uintptr_t)front->layout.words_at;
    return source->memory && words % CONTAINER_LINE == 0
           && container_can_map(&front->header);
}

/* Returns whether the hash function is available. If it is not, neither keys nor canaries can be
 * looked up. */
static bool verify_has_hash(const struct container_front *front,
                            const bg_open_options *options)
{
    return container_tells_hash(&front->header) || options->hash;
}

/* Checks all blocks, and checks that the words form a valid filter. */
static bg_err verify_content(const struct container_source *source,
                             const struct container_front *front,
                             const bg_open_options *options,
                             struct container_damage *damage, bg_errinfo *why)
{
    bg_open_options all = *options;
    bg_hasher any;
    bg_filter *filter = NULL;
    struct bgi_mapping here = { .base = (void *)(uintptr_t)source->memory,
                                .bytes = (size_t)source->bytes };
    bool stays = verify_can_stay(source, front);
    all.flags = BG_FILE_TOLERATE_DAMAGE;
    all.progress = source->memory ? NULL : options->progress; /* reported only once */
    bg_err err = bg_hasher_init(&any, NULL, why);
    if (!err && source->memory) {
        err = verify_in_memory(source, front, options, damage, why);
    }
    if (err || damage->blocks) {
        return err;
    }
    err = container_decode(source, &all, verify_has_hash(front, options) ? NULL : &any,
                           stays ? &here : NULL, damage, &filter, why);
    if (filter && stays) {
        filter->mapping.base = NULL; /* the caller owns the memory */
        if (verify_has_hash(front, options)
            && !container_canaries_agree(filter, &front->header)) {
            err = container_refuse(why, BG_EFORMAT, 168, "canaries",
                                   "the answers that the filter gave when it was saved",
                                   "different answers");
        }
    }
    bg_filter_free(filter);
    return err;
}

bg_err container_verify_blocks(const struct container_source *source, bg_errinfo *info)
{
    struct container_front front;
    struct bgi_memory memory;
    bg_err err = container_read_front(source, &front, info);
    if (err) {
        return err;
    }
    if (!bgi_memory_take(&memory, VERIFY_PIECE, NULL, true)) {
        bgi_memory_give(&front.memory);
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate %d bytes to verify the file",
                             (int)VERIFY_PIECE);
    }
    const uint64_t bytes = front.header.word_bytes;
    struct container_damage damage = { .blocks = 0 };
    for (uint64_t at = 0; at < bytes && !err && !damage.blocks; at += VERIFY_PIECE) {
        size_t n = bytes - at < VERIFY_PIECE ? (size_t)(bytes - at) : VERIFY_PIECE;
        err = source->read(source->context, front.layout.words_at + at, memory.base, n,
                           info);
        if (!err) {
            verify_piece(&front, memory.base, at / CONTAINER_BLOCK, n, &damage);
        }
    }
    if (!err && damage.blocks) {
        err = damage.first.code;
        if (info) {
            *info = damage.first;
        }
    }
    bgi_memory_give(&memory);
    bgi_memory_give(&front.memory);
    return err;
}

bg_err container_verify(const struct container_source *source,
                        const bg_open_options *options, bg_verify_report *report,
                        bg_errinfo *info)
{
    struct container_front front;
    struct container_damage damage = { .blocks = 0 };
    bg_verify_report own;
    bg_errinfo why = { .code = BG_OK };
    report = report ? report : &own;
    memset(report, 0, sizeof *report);
    report->struct_size = sizeof *report;
    bg_err err = container_read_front(source, &front, &why);
    if (!err) {
        report->blocks = front.layout.blocks;
        err = verify_content(source, &front, options, &damage, &why);
        bgi_memory_give(&front.memory);
    }
    for (uint64_t i = 0; i < damage.blocks; i++) {
        verify_note(report, &damage.first);
    }
    report->bad_blocks = damage.blocks;
    if (err) {
        verify_note(report, &why);
    }
    if (report->bad == 0) {
        return BG_OK;
    }
    if (info) {
        *info = damage.blocks ? damage.first : why;
    }
    return report->code;
}
