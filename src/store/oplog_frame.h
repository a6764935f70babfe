/*
 * oplog_frame.h - the layout of an operation log. docs/oplog.md specifies it byte by byte.
 *
 *     0       header, 4096 bytes, ending with its CRC-32C
 *     4096    consecutive frames: 16-byte header, 9 bytes per record, CRC-32C
 *
 * All numbers are little-endian. A frame contains the sequence number of its first record. A frame
 * that is out of sequence is rejected even if its checksum is correct. Records are stored in
 * columns (first all hashes, then all operations), so they can be read and written by copying
 * bytes.
 *
 * Only oplog_walk decides whether the bytes of a frame are valid.
 */
#ifndef BGI_OPLOG_FRAME_H
#define BGI_OPLOG_FRAME_H

#include "bloomgate/oplog.h"
#include "store/container.h"

enum {
    OPLOG_HEADER = 4096,
    OPLOG_CRC_AT = 4092,
    OPLOG_VERSION = 1,
    OPLOG_FRAME_HEAD = 16,
    OPLOG_RECORD = 9,
    OPLOG_FRAME_CRC = 4,
    OPLOG_FRAME_MAX =
        OPLOG_FRAME_HEAD + OPLOG_RECORD * BG_OPLOG_BATCH_MAX + OPLOG_FRAME_CRC
};

#define OPLOG_FRAME_MAGIC UINT32_C(0x706f4742) /* "BGop" */

/* The header of a log, which identifies the filter that the log belongs to and contains the
 * sequence number of the log's first record. */
struct oplog_header {
    uint32_t kind;
    uint64_t check;
    uint64_t generation;
    uint64_t first;
};

void oplog_write_header(const struct oplog_header *header,
                        unsigned char bytes[OPLOG_HEADER]);
bg_err oplog_read_header(const unsigned char bytes[OPLOG_HEADER],
                         struct oplog_header *header, bg_errinfo *info);

/* oplog_header_of returns the header for a filter's log. oplog_check_identity checks that a header
 * belongs to a filter. */
struct oplog_header oplog_header_of(const bg_filter *filter);
bg_err oplog_check_identity(const struct oplog_header *header, const bg_filter *filter,
                            bg_errinfo *info);

size_t oplog_frame_bytes(size_t n);

/* Writes a frame and returns its size. If `ops` is NULL, all records are adds. */
size_t oplog_write_frame(unsigned char *to, uint64_t first, const uint8_t *ops,
                         const uint64_t *hashes, size_t n);

bool oplog_is_operation(uint8_t op);

/* Receives the n records of an intact frame, the first of which has the sequence number `first`. */
typedef bg_err oplog_visit(void *context, uint64_t first, const uint8_t *ops,
                           const uint64_t *hashes, size_t n, bg_errinfo *info);

/* Reads a log from its header to the first incomplete or damaged frame. `report` is always filled
 * in, except for `records` and struct_size. `visit` may be NULL. */
bg_err oplog_walk(const struct container_source *source, oplog_visit *visit,
                  void *context, bg_oplog_report *report, bg_errinfo *info);

/* Returns BG_ENOTSUP unless the filter's kind supports all operations in `ops` (oplog_replay.c). */
bg_err oplog_can_apply(const bg_filter *filter, const uint8_t *ops, size_t n,
                       bg_errinfo *info);

/* Applies records to a filter. */
bg_err oplog_apply_records(bg_filter *filter, const uint8_t *ops,
                           const uint64_t *hashes, size_t n, bg_errinfo *info);

/* Initializes the caller's report, or `ours` if the caller passed none. Errors: BG_EINVAL for a
 * wrong struct_size. */
bg_err oplog_report_begin(bg_oplog_report *theirs, bg_oplog_report *ours,
                          bg_oplog_report **use, bg_errinfo *info);

/* oplog_write_position copies `metadata` (may be NULL) to `text` and appends the line "oplog: N".
 * oplog_read_position reads N from such a line. */
bg_err oplog_write_position(const char *metadata, uint64_t position,
                            char text[BG_METADATA_MAX], bg_errinfo *info);
bg_err oplog_read_position(const char *metadata, uint64_t *position, bg_errinfo *info);

#endif
