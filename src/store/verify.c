/*
 * verify.c - everything that can be said of a file without its keys.
 *
 * All blocks are looked at, not only up to the first bad one, so that the report says how
 * much is lost. The file is decoded as if it were opened, in one pass; where its bytes are
 * in memory already, and the kind allows it, they are looked at where they are.
 */
#include "store/container.h"

#include "base/crc32c.h"
#include "base/errinfo.h"

#include <string.h>

/* Adds something that is wrong. */
static void verify_note(bg_report *report, const bg_errinfo *why)
{
    if (report->bad++ == 0) {
        report->code = why->code;
        report->first_offset = why->offset;
        memcpy(report->what, why->what, sizeof report->what);
        memcpy(report->found, why->found, sizeof report->found);
        memcpy(report->expected, why->expected, sizeof report->expected);
    }
}

/* The blocks of a file in memory. */
static bg_err verify_in_memory(const struct container_source *source,
                               const struct container_front *front,
                               const bg_open_options *options,
                               struct container_damage *damage, bg_errinfo *why)
{
    const uint64_t bytes = front->header.word_bytes;
    for (uint64_t at = 0, block = 0; at < bytes; block++) {
        size_t n =
            bytes - at < CONTAINER_BLOCK ? (size_t)(bytes - at) : CONTAINER_BLOCK;
        uint64_t offset = front->layout.words_at + at;
        uint32_t crc = bgi_crc32c(0, source->memory + offset, n);
        if (crc != container_block_crc(front, block) && damage->blocks++ == 0) {
            (void)container_refuse(
                &damage->first, BG_ECHECKSUM, offset, "block",
                "the checksum in the table", "block %llu: %08x instead of %08x",
                (unsigned long long)block, crc, container_block_crc(front, block));
        }
        at += n;
        if (options->progress && !options->progress(options->context, at, bytes)) {
            return bgi_err(why, BG_ECANCELED, "progress", "true to go on", "false");
        }
    }
    return BG_OK;
}

/* Whether the words can be used where they are. */
static bool verify_can_stay(const struct container_source *source,
                            const struct container_front *front)
{
    uintptr_t words = (uintptr_t)source->memory + (uintptr_t)front->layout.words_at;
    return source->memory && words % CONTAINER_LINE == 0
           && container_can_map(&front->header);
}

/* Without secret or function, keys and so canaries are left out. */
static bool verify_has_hash(const struct container_front *front,
                            const bg_open_options *options)
{
    const uint64_t profile = front->header.profile;
    return profile == BG_HASH_FAST || profile == BG_HASH_XXH64 || options->hash;
}

/* All blocks, and whether the words make a filter. */
static bg_err verify_content(const struct container_source *source,
                             const struct container_front *front,
                             const bg_open_options *options,
                             struct container_damage *damage, bg_errinfo *why)
{
    bg_open_options all = *options;
    bg_hasher any;
    bg_filter *filter = NULL;
    struct bgi_memory here = { .base = (void *)(uintptr_t)source->memory,
                               .bytes = (size_t)source->bytes };
    bool stays = verify_can_stay(source, front);
    all.flags = BG_FILE_TOLERATE;
    bg_err err = bg_hasher_init(&any, NULL, why);
    if (!err && stays) {
        err = verify_in_memory(source, front, options, damage, why);
    }
    if (err || (stays && damage->blocks)) {
        return err;
    }
    err = container_decode(source, &all, verify_has_hash(front, options) ? NULL : &any,
                           stays ? &here : NULL, damage, &filter, why);
    if (filter) {
        filter->mapping.base = NULL; /* it is not ours */
    }
    bg_filter_free(filter);
    return err;
}

bg_err container_verify(const struct container_source *source,
                        const bg_open_options *options, bg_report *report,
                        bg_errinfo *info)
{
    struct container_front front;
    struct container_damage damage = { .blocks = 0 };
    bg_report own;
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
    return container_refuse(info, report->code, report->first_offset, report->what,
                            report->expected, "%s", report->found);
}
