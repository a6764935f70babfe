/*
 * fuzz_oplog.c - an input is an operation log. The log is used unchanged, or its header, checksums
 * and (if the input requests it) sequence numbers are corrected so that it passes the reader's
 * checks.
 *
 * The reported frames must be complete, in order and the same for every reader. Opening the log
 * truncates it after the last of these frames, and a record appended there must be found.
 */
#define _GNU_SOURCE /* memfd_create */

#include "base/bits.h"
#include "base/crc32c.h"
#include "bloomgate/all.h"
#include "fuzz.h"
#include "fuzz_input.h"
#include "store/oplog_frame.h"

#include <sys/mman.h>
#include <unistd.h>

enum { OPLOG_FUZZ_BYTES = 1 << 16 };

static unsigned char file_bytes[OPLOG_FUZZ_BYTES];

/* The result of a replay. */
struct told {
    uint64_t records, next;
    uint32_t digest;
};

static bool tell(void *context, uint64_t first, const uint8_t *ops,
                 const uint64_t *hashes, size_t n)
{
    struct told *told = context;
    FUZZ_MUST(n >= 1 && n <= BG_OPLOG_BATCH_MAX);
    FUZZ_MUST(told->records == 0 || first == told->next);
    for (size_t i = 0; i < n; i++) {
        FUZZ_MUST(ops[i] >= BG_OPLOG_ADD && ops[i] <= BG_OPLOG_MARK);
    }
    told->digest = bgi_crc32c(told->digest, ops, n);
    told->digest = bgi_crc32c(told->digest, hashes, 8 * n);
    told->records += n;
    told->next = first + n;
    return true;
}

/* The same filter is cleared and reused for every input. */
static bg_filter *fuzz_filter(void)
{
    static bg_filter *filter;
    bg_spec spec = BG_SPEC_INIT;
    if (filter) {
        bg_filter_clear(filter);
        return filter;
    }
    spec.kind = BG_KIND_COUNTING;
    spec.items = 100;
    spec.rate = 0.01;
    FUZZ_MUST(bg_filter_create(&spec, &filter, NULL) == BG_OK);
    return filter;
}

/* Writes a frame with records from the input. The input also determines which parts of the frame
 * are valid. */
static size_t mend_frame(struct fuzz_input *in, size_t at, uint64_t *next)
{
    unsigned char *frame = file_bytes + at;
    uint8_t how = fuzz_byte(in);
    size_t n = 1 + fuzz_byte(in) % 20u, bytes = oplog_frame_bytes(n);
    uint64_t hashes[20];
    uint8_t ops[20];
    if (at + bytes > sizeof file_bytes) {
        return at;
    }
    for (size_t i = 0; i < n; i++) {
        hashes[i] = fuzz_byte(in);
        ops[i] = how & 1 ? fuzz_byte(in) : (uint8_t)(1 + fuzz_byte(in) % 5);
        ops[i] = !(how & 2) && ops[i] == BG_OPLOG_ROTATE ? BG_OPLOG_MARK : ops[i];
    }
    (void)oplog_write_frame(frame, how & 4 ? fuzz_any(in) : *next, ops, hashes, n);
    if (how & 8) { /* an arbitrary frame header with a matching checksum */
        fuzz_take(in, frame, OPLOG_FRAME_HEAD);
        size_t covered = bytes - OPLOG_FRAME_CRC;
        uint32_t crc = bgi_le32(bgi_crc32c(0, frame, covered));
        memcpy(frame + covered, &crc, sizeof crc);
    }
    *next += n;
    return at + bytes;
}

static size_t mend(struct fuzz_input *in, const bg_filter *filter)
{
    struct oplog_header header = oplog_header_of(filter);
    uint8_t how = fuzz_byte(in);
    header.first = how & 1 ? fuzz_any(in) : 0;
    header.generation = fuzz_byte(in);
    header.kind = how & 2 ? fuzz_byte(in) : header.kind;
    oplog_write_header(&header, file_bytes);
    size_t at = OPLOG_HEADER;
    uint64_t next = header.first;
    while (in->left > 40) {
        size_t end = mend_frame(in, at, &next);
        if (end == at) {
            break;
        }
        at = end;
    }
    size_t rest = in->left < sizeof file_bytes - at ? in->left : sizeof file_bytes - at;
    fuzz_take(in, file_bytes + at, rest);
    return at + rest;
}

/* Opens the log, appends one record, and checks that a replay reports that record after the earlier
 * ones. */
static void append_one(const char *path, const bg_filter *filter, struct told *before)
{
    bg_oplog_options how = BG_OPLOG_OPTIONS_INIT;
    bg_oplog_report report = { .struct_size = sizeof report };
    bg_oplog *log = NULL;
    struct told after = { 0, 0, 0 };
    uint64_t hash = 7;
    how.policy = BG_OPLOG_SYNC_NO;
    FUZZ_MUST(bg_oplog_replay(path, NULL, NULL, &report, NULL) == BG_OK);
    how.position = report.next;
    if (report.next == UINT64_MAX
        || bg_oplog_open(path, filter, &how, &log, NULL, NULL)) {
        return;
    }
    FUZZ_MUST(bg_oplog_append(log, NULL, &hash, 1, NULL, NULL) == BG_OK);
    FUZZ_MUST(bg_oplog_close(log, NULL) == BG_OK);
    (void)tell(before, report.next, (const uint8_t *)"\1", &hash, 1);
    FUZZ_MUST(bg_oplog_replay(path, tell, &after, &report, NULL) == BG_OK);
    FUZZ_MUST(report.dropped == 0 && report.code == BG_OK);
    FUZZ_MUST(after.records == before->records && after.digest == before->digest);
}

static void check_log(const char *path, size_t n, bg_filter *filter)
{
    bg_oplog_report report = { .struct_size = sizeof report }, applied = report;
    struct told told = { 0, 0, 0 };
    bg_errinfo why;
    bg_err err = bg_oplog_replay(path, tell, &told, &report, &why);
    FUZZ_MUST(report.records == told.records);
    if (err) {
        FUZZ_MUST(err == BG_EFORMAT || err == BG_EVERSION || err == BG_ECHECKSUM);
        FUZZ_MUST(why.message[0]);
        return;
    }
    FUZZ_MUST(report.next - report.first == told.records);
    FUZZ_MUST(report.end + report.dropped == n);
    FUZZ_MUST((report.dropped == 0) == (report.code == BG_OK));
    err = bg_oplog_apply(path, report.first, filter, &applied, &why);
    FUZZ_MUST(err == BG_OK || err == BG_EINCOMPAT || err == BG_ENOTSUP);
    FUZZ_MUST(err != BG_OK || applied.records == told.records);
    append_one(path, filter, &told);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    char path[40];
    bg_filter *filter = fuzz_filter();
    size_t n;
    if (fuzz_byte(&in) & 1) {
        n = mend(&in, filter);
    } else {
        n = in.left < sizeof file_bytes ? in.left : sizeof file_bytes;
        fuzz_take(&in, file_bytes, n);
    }
    int file = memfd_create("oplog", MFD_CLOEXEC);
    FUZZ_MUST(file >= 0 && write(file, file_bytes, n) == (ssize_t)n);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    check_log(path, n, filter);
    (void)close(file);
    return 0;
}
