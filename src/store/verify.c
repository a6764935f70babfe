/*
 * verify.c - everything that can be said of a file without its keys.
 *
 * All blocks are looked at, not only up to the first bad one, so that the report says how
 * much is lost. The content is decoded only if no checksum is wrong: it is then the words
 * of somebody, and the question is whether they make a filter.
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

static bg_err verify_blocks(const struct container_source *source,
                            const struct container_front *front,
                            const bg_open_options *options, bg_report *report,
                            bg_errinfo *why)
{
    struct bgi_memory memory;
    const uint64_t bytes = front->header.word_bytes;
    if (!bgi_memory_take(&memory, CONTAINER_BLOCK, NULL, true)) {
        return bgi_err(why, BG_ENOMEM, "memory", "that much free memory", "%d bytes",
                       (int)CONTAINER_BLOCK);
    }
    bg_err err = BG_OK;
    report->blocks = front->layout.blocks;
    for (uint64_t at = 0, block = 0; at < bytes && !err; block++) {
        size_t n =
            bytes - at < CONTAINER_BLOCK ? (size_t)(bytes - at) : CONTAINER_BLOCK;
        uint64_t offset = front->layout.words_at + at;
        err = source->read(source->context, offset, memory.base, n, why);
        uint32_t crc = err ? 0 : bgi_crc32c(0, memory.base, n);
        if (!err && crc != container_block_crc(front, block)) {
            (void)container_refuse(
                why, BG_ECHECKSUM, offset, "block", "the checksum in the table",
                "block %llu: %08x instead of %08x", (unsigned long long)block, crc,
                container_block_crc(front, block));
            verify_note(report, why);
            report->bad_blocks++;
        }
        at += n;
        if (!err && options->progress
            && !options->progress(options->context, at, bytes)) {
            err = bgi_err(why, BG_ECANCELED, "progress", "true to go on", "false");
        }
    }
    bgi_memory_give(&memory);
    return err;
}

/* Whether the words make a filter. Without secret or function, keys and so canaries are left
 * out. */
static bg_err verify_content(const struct container_source *source,
                             const struct container_front *front,
                             const bg_open_options *options, bg_errinfo *why)
{
    bool plain = container_tells_hash(&front->header);
    bg_open_options strict = *options;
    bg_hasher any;
    bg_filter *filter = NULL;
    strict.flags = 0;
    strict.progress = NULL;
    bg_err err = bg_hasher_init(&any, NULL, why);
    err = err ? err
              : container_decode(source, &strict, plain || options->hash ? NULL : &any,
                                 NULL, &filter, why);
    bg_filter_free(filter);
    return err;
}

bg_err container_verify(const struct container_source *source,
                        const bg_open_options *options, bg_report *report,
                        bg_errinfo *info)
{
    struct container_front front;
    bg_report own;
    bg_errinfo why = { .code = BG_OK };
    report = report ? report : &own;
    memset(report, 0, sizeof *report);
    report->struct_size = sizeof *report;
    bg_err err = container_read_front(source, &front, &why);
    if (err) {
        verify_note(report, &why);
    } else {
        err = verify_blocks(source, &front, options, report, &why);
        if (!err && report->bad == 0) {
            err = verify_content(source, &front, options, &why);
        }
        if (err) {
            verify_note(report, &why);
        }
        bgi_memory_give(&front.memory);
    }
    if (report->bad == 0) {
        return BG_OK;
    }
    return container_refuse(info, report->code, report->first_offset, report->what,
                            report->expected, "%s", report->found);
}
