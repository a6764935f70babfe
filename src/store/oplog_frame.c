/*
 * oplog_frame.c - encodes records as frames, and decodes untrusted frames.
 *
 * A crash can leave more than an incomplete frame at the end of a log. The kernel writes pages in
 * any order, so the last frames may have holes of zeros, followed by complete frames. None of these
 * frames has been acknowledged, because a sync covers everything written before it. So reading
 * stops at the first frame that is not intact, and no acknowledged record is lost. The rules for
 * reading:
 *
 *   (F1) A frame is passed to the caller only after its checksum has been verified, and never in
 *        part.
 *   (F2) Frames are passed to the caller without gaps, because each frame must start with the next
 *        sequence number.
 *   (F3) Nothing after a frame that is not intact is read.
 *
 * Damage in the middle of a log cannot be distinguished from the effects of a crash, so all frames
 * after the damage are lost. A reader that searched for the next magic number instead might skip an
 * add and replay the matching remove, which could remove a different key. It is safer to stop and
 * report the position of the damage.
 *
 * An intact frame with an unknown operation was written by a newer version. Such a frame is an
 * error, not the end of the log, so the file must not be truncated there.
 *
 * The reader allocates a buffer, which has the size of the largest frame, and an aligned array of
 * hashes. A length that is read from the file is compared with the number of remaining bytes before
 * it is used.
 */
#include "store/oplog_frame.h"

#include "base/bits.h"
#include "base/crc32c.h"
#include "base/errinfo.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    FRAME_VERSION_AT = 8,
    FRAME_KIND_AT = 12,
    FRAME_FIRST_AT = 16,
    FRAME_CHECK_AT = 24,
    FRAME_GENERATION_AT = 32,
    FRAME_RESERVED_AT = 40
};

static const unsigned char frame_magic[8] = { 0x89, 'B',  'G',  'L',
                                              '\r', '\n', 0x1a, '\n' };

/* ---- The header ------------------------------------------------------------------------ */

void oplog_write_header(const struct oplog_header *header,
                        unsigned char bytes[OPLOG_HEADER])
{
    memset(bytes, 0, OPLOG_HEADER);
    memcpy(bytes, frame_magic, sizeof frame_magic);
    bgi_store_le32(bytes + FRAME_VERSION_AT, OPLOG_VERSION);
    bgi_store_le32(bytes + FRAME_KIND_AT, header->kind);
    bgi_store_le64(bytes + FRAME_FIRST_AT, header->first);
    bgi_store_le64(bytes + FRAME_CHECK_AT, header->check);
    bgi_store_le64(bytes + FRAME_GENERATION_AT, header->generation);
    bgi_store_le32(bytes + OPLOG_CRC_AT, bgi_crc32c(0, bytes, OPLOG_CRC_AT));
}

static bool frame_is_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i]) {
            return false;
        }
    }
    return true;
}

bg_err oplog_read_header(const unsigned char bytes[OPLOG_HEADER],
                         struct oplog_header *header, bg_errinfo *info)
{
    if (memcmp(bytes, frame_magic, sizeof frame_magic) != 0) {
        return container_refuse(info, BG_EFORMAT, 0, "magic",
                                "a Bloomgate operation log", "a different file");
    }
    uint32_t crc = bgi_load_le32(bytes + OPLOG_CRC_AT);
    if (crc != bgi_crc32c(0, bytes, OPLOG_CRC_AT)) {
        return container_refuse(info, BG_ECHECKSUM, OPLOG_CRC_AT, "header checksum",
                                "the checksum of the bytes in the header", "0x%08x",
                                crc);
    }
    uint32_t version = bgi_load_le32(bytes + FRAME_VERSION_AT);
    if (version != OPLOG_VERSION) {
        return container_refuse(info, BG_EVERSION, FRAME_VERSION_AT, "version", "1",
                                "%u", version);
    }
    if (!frame_is_zero(bytes + FRAME_RESERVED_AT, OPLOG_CRC_AT - FRAME_RESERVED_AT)) {
        return container_refuse(info, BG_EFORMAT, FRAME_RESERVED_AT, "reserved bytes",
                                "0", "nonzero bytes");
    }
    *header =
        (struct oplog_header){ .kind = bgi_load_le32(bytes + FRAME_KIND_AT),
                               .check = bgi_load_le64(bytes + FRAME_CHECK_AT),
                               .generation = bgi_load_le64(bytes + FRAME_GENERATION_AT),
                               .first = bgi_load_le64(bytes + FRAME_FIRST_AT) };
    return BG_OK;
}

struct oplog_header oplog_header_of(const bg_filter *filter)
{
    return (struct oplog_header){ .kind = (uint32_t)bg_filter_kind(filter),
                                  .check = bg_hasher_check(bg_filter_hasher(filter)) };
}

bg_err oplog_check_identity(const struct oplog_header *header, const bg_filter *filter,
                            bg_errinfo *info)
{
    struct oplog_header mine = oplog_header_of(filter);
    if (header->kind != mine.kind) {
        return bgi_err(info, BG_EINCOMPAT, "filter kind in the log",
                       bg_kind_name((bg_kind)mine.kind), "%s",
                       bg_kind_name((bg_kind)header->kind));
    }
    if (header->check != mine.check) {
        return bgi_err_state(
            info, BG_EINCOMPAT, "hash function in the log",
            "the log and the filter use different hash profiles, seeds "
            "or secrets");
    }
    return BG_OK;
}

/* ---- Writing --------------------------------------------------------------------------- */

size_t oplog_frame_bytes(size_t n)
{
    return OPLOG_FRAME_HEAD + OPLOG_RECORD * n + OPLOG_FRAME_CRC;
}

bool oplog_is_operation(uint8_t op)
{
    return op >= BG_OPLOG_ADD && op <= BG_OPLOG_MARK;
}

size_t oplog_write_frame(unsigned char *to, uint64_t first, const uint8_t *ops,
                         const uint64_t *hashes, size_t n)
{
    unsigned char *column = to + OPLOG_FRAME_HEAD;
    bgi_store_le32(to, OPLOG_FRAME_MAGIC);
    bgi_store_le32(to + 4, (uint32_t)n);
    bgi_store_le64(to + 8, first);
    for (size_t i = 0; i < n; i++) {
        bgi_store_le64(column + 8 * i, hashes[i]);
    }
    if (ops) {
        memcpy(column + 8 * n, ops, n);
    } else {
        memset(column + 8 * n, BG_OPLOG_ADD, n);
    }
    size_t covered = OPLOG_FRAME_HEAD + OPLOG_RECORD * n;
    bgi_store_le32(to + covered, bgi_crc32c(0, to, covered));
    return covered + OPLOG_FRAME_CRC;
}

/* ---- Reading --------------------------------------------------------------------------- */

/* The state of a log reader. The bytes from window_at to window_at + window_bytes are in the buffer
 * `window`. */
struct frame_reader {
    const struct container_source *source;
    struct bgi_memory memory;
    uint64_t *hashes;
    unsigned char *window;
    uint64_t window_at, window_bytes;
    bg_oplog_report *report;
};

/* Gets n bytes of the file, starting at report->end. The file must be long enough. */
static bg_err frame_look(struct frame_reader *r, size_t n, const unsigned char **bytes,
                         bg_errinfo *info)
{
    uint64_t at = r->report->end, left = r->source->bytes - at;
    assert(n <= left && n <= OPLOG_FRAME_MAX);
    if (at < r->window_at || at + n > r->window_at + r->window_bytes) {
        r->window_at = at;
        r->window_bytes = left < OPLOG_FRAME_MAX ? left : OPLOG_FRAME_MAX;
        bg_err err = r->source->read(r->source->context, at, r->window,
                                     (size_t)r->window_bytes, info);
        if (err) {
            r->window_bytes = 0;
            return err;
        }
    }
    *bytes = r->window + (at - r->window_at);
    return BG_OK;
}

/* Checks the header of a frame. */
static bg_err frame_check_head(const struct frame_reader *r, const unsigned char *head,
                               bg_errinfo *why)
{
    uint32_t magic = bgi_load_le32(head), n = bgi_load_le32(head + 4);
    uint64_t first = bgi_load_le64(head + 8), next = r->report->next;
    uint64_t left = r->source->bytes - r->report->end;
    if (magic != OPLOG_FRAME_MAGIC) {
        return bgi_err(why, BG_ECHECKSUM, "frame magic", "BGop", "0x%08x", magic);
    }
    if (n == 0 || n > BG_OPLOG_BATCH_MAX || n > UINT64_MAX - next) {
        return bgi_err(why, BG_ECHECKSUM, "frame length", "1 to 65536 records", "%u",
                       n);
    }
    if (first != next) {
        char expected[32];
        (void)snprintf(expected, sizeof expected, "%llu", (unsigned long long)next);
        return bgi_err(why, BG_ECHECKSUM, "sequence number", expected, "%llu",
                       (unsigned long long)first);
    }
    if (oplog_frame_bytes(n) > left) {
        char expected[32];
        (void)snprintf(expected, sizeof expected, "%zu bytes", oplog_frame_bytes(n));
        return bgi_err(why, BG_EFORMAT, "frame", expected, "%llu bytes",
                       (unsigned long long)left);
    }
    return BG_OK;
}

/* Reads and checks the frame at report->end. If the frame is not intact, the log ends here: sets
 * `why` and returns BG_OK. The only errors that this function returns are failures to read the
 * file. */
static bg_err frame_next(struct frame_reader *r, const unsigned char **frame, size_t *n,
                         bg_errinfo *why, bg_errinfo *info)
{
    uint64_t left = r->source->bytes - r->report->end;
    if (left < oplog_frame_bytes(1)) {
        (void)bgi_err(why, BG_EFORMAT, "frame", "at least 29 bytes", "%llu",
                      (unsigned long long)left);
        return BG_OK;
    }
    bg_err err = frame_look(r, OPLOG_FRAME_HEAD, frame, info);
    if (err || frame_check_head(r, *frame, why)) {
        return err;
    }
    *n = bgi_load_le32(*frame + 4);
    err = frame_look(r, oplog_frame_bytes(*n), frame, info);
    if (err) {
        return err;
    }
    size_t covered = OPLOG_FRAME_HEAD + OPLOG_RECORD * *n;
    uint32_t crc = bgi_load_le32(*frame + covered);
    if (crc != bgi_crc32c(0, *frame, covered)) {
        (void)bgi_err(why, BG_ECHECKSUM, "checksum",
                      "the checksum of the bytes in the frame", "0x%08x", crc);
    }
    return BG_OK;
}

/* Passes an intact frame to `visit`. */
static bg_err frame_hand_on(struct frame_reader *r, const unsigned char *frame,
                            size_t n, oplog_visit *visit, void *context,
                            bg_errinfo *info)
{
    const unsigned char *column = frame + OPLOG_FRAME_HEAD;
    const uint8_t *ops = column + 8 * n;
    for (size_t i = 0; i < n; i++) {
        if (!oplog_is_operation(ops[i])) {
            return container_refuse(info, BG_EVERSION,
                                    r->report->end + (uint64_t)(ops - frame) + i,
                                    "operation", "1 to 5", "%u", ops[i]);
        }
    }
    if (!visit) {
        return BG_OK;
    }
    for (size_t i = 0; i < n; i++) {
        r->hashes[i] = bgi_load_le64(column + 8 * i);
    }
    return visit(context, r->report->next, ops, r->hashes, n, info);
}

static void frame_note_end(bg_oplog_report *report, const bg_errinfo *why)
{
    report->code = why->code;
    memcpy(report->what, why->what, sizeof report->what);
    memcpy(report->found, why->found, sizeof report->found);
    memcpy(report->expected, why->expected, sizeof report->expected);
}

static bg_err frame_read_all(struct frame_reader *r, oplog_visit *visit, void *context,
                             bg_errinfo *info)
{
    bg_oplog_report *report = r->report;
    bg_errinfo why;
    bgi_err_clear(&why);
    while (report->end < r->source->bytes) {
        const unsigned char *frame = NULL;
        size_t n = 0;
        bg_err err = frame_next(r, &frame, &n, &why, info);
        if (!err && why.code) {
            break;
        }
        err = err ? err : frame_hand_on(r, frame, n, visit, context, info);
        if (err) {
            return err;
        }
        report->next += n;
        report->frames++;
        report->end += oplog_frame_bytes(n);
    }
    report->dropped = r->source->bytes - report->end;
    frame_note_end(report, &why);
    return BG_OK;
}

static bg_err frame_read_header(const struct container_source *source,
                                bg_oplog_report *report, bg_errinfo *info)
{
    unsigned char bytes[OPLOG_HEADER];
    struct oplog_header header = { .kind = 0 };
    *report = (bg_oplog_report){ .struct_size = report->struct_size };
    if (source->bytes < sizeof bytes) {
        return container_refuse(info, BG_EFORMAT, source->bytes, "file size",
                                "at least 4096 bytes", "%llu",
                                (unsigned long long)source->bytes);
    }
    bg_err err = source->read(source->context, 0, bytes, sizeof bytes, info);
    err = err ? err : oplog_read_header(bytes, &header, info);
    if (!err) {
        report->kind = header.kind;
        report->check = header.check;
        report->generation = header.generation;
        report->first = report->next = header.first;
        report->end = OPLOG_HEADER;
    }
    return err;
}

bg_err oplog_walk(const struct container_source *source, oplog_visit *visit,
                  void *context, bg_oplog_report *report, bg_errinfo *info)
{
    struct frame_reader r = { .source = source, .report = report };
    const size_t column = sizeof(uint64_t) * BG_OPLOG_BATCH_MAX;
    bg_err err = frame_read_header(source, report, info);
    if (err) {
        return err;
    }
    if (!bgi_memory_take(&r.memory, column + OPLOG_FRAME_MAX, NULL, true)) {
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate %zu bytes to read the log",
                             column + OPLOG_FRAME_MAX);
    }
    r.hashes = r.memory.base;
    r.window = (unsigned char *)r.memory.base + column;
    err = frame_read_all(&r, visit, context, info);
    bgi_memory_give(&r.memory);
    return err;
}
