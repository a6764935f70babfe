/*
 * oplog_replay.c - reads a log, applies it to a filter, and recovers a filter from a snapshot and
 * its log.
 *
 * Where to start. Adding a key twice is harmless in a kind that only sets bits, but not in a kind
 * that counts keys. A remove that is replayed twice may even remove a different key. So replay must
 * start at the right record. The line "oplog: N" in the metadata of a snapshot means that the
 * snapshot contains exactly the records with sequence numbers below N. (If the kind only sets bits,
 * the snapshot may also contain later records.) Records numbered N and above are replayed. (N is
 * not stored as the file's `generation`, because users choose the generation, and canaries are
 * derived from it.)
 *
 *     snapshot   [ records 0 .. N-1 ]
 *     log              [ first .. next-1 ]        replayed: N .. next-1
 *
 * If first > N, the snapshot is too old for the log, which is an error because records are missing.
 * If next < N, the log contains no new records, because its end was lost in a crash or because it
 * is an old log. Records that are appended to the log must not have numbers below N; see
 * bg_oplog_open.
 */
#include "store/disk.h"
#include "store/metadata.h"
#include "store/oplog_frame.h"

#include "base/errinfo.h"

#include <stdio.h>
#include <string.h>

bg_err oplog_report_begin(bg_oplog_report *theirs, bg_oplog_report *ours,
                          bg_oplog_report **use, bg_errinfo *info)
{
    if (theirs && theirs->struct_size != sizeof *theirs) {
        return bgi_err(info, BG_EINVAL, "report",
                       "struct_size of sizeof(bg_oplog_report)", "%u",
                       theirs->struct_size);
    }
    *use = theirs ? theirs : ours;
    **use = (bg_oplog_report){ .struct_size = sizeof **use };
    return BG_OK;
}

/* ---- Visiting and applying records ------------------------------------------------------ */

struct replay_caller {
    bg_oplog_visit_fn visit;
    void *context;
    uint64_t records;
};

static bg_err replay_tell(void *context, uint64_t first, const uint8_t *ops,
                          const uint64_t *hashes, size_t n, bg_errinfo *info)
{
    struct replay_caller *caller = context;
    if (!caller->visit(caller->context, first, ops, hashes, n)) {
        return bgi_err_state(info, BG_ECANCELED, "visit",
                             "the visit callback stopped the replay");
    }
    caller->records += n;
    return BG_OK;
}

static uint8_t replay_op(const uint8_t *ops, size_t i)
{
    return ops ? ops[i] : (uint8_t)BG_OPLOG_ADD;
}

/* Returns whether a kind supports an operation. */
static bool replay_can(bg_kind kind, uint8_t op)
{
    uint32_t traits = bg_kind_traits(kind);
    switch (op) {
    case BG_OPLOG_ADD:
    case BG_OPLOG_CLEAR: return !(traits & BG_TRAIT_STATIC);
    case BG_OPLOG_REMOVE: return traits & BG_TRAIT_REMOVE;
    case BG_OPLOG_ROTATE: return kind == BG_KIND_WINDOW;
    default: return true;
    }
}

bg_err oplog_can_apply(const bg_filter *filter, const uint8_t *ops, size_t n,
                       bg_errinfo *info)
{
    static const char *const names[] = { "add", "remove", "rotate", "clear", "mark" };
    bg_kind kind = bg_filter_kind(filter);
    for (size_t i = 0; i < n; i++) {
        if (!replay_can(kind, replay_op(ops, i))) {
            return bgi_err_state(
                info, BG_ENOTSUP, "operation",
                "a filter of kind %s does not support the operation %s",
                bg_kind_name(kind), names[replay_op(ops, i) - 1]);
        }
        if (!ops) {
            break; /* all records are adds */
        }
    }
    return BG_OK;
}

/* Applies the same operation to n hashes. Adds and removes are applied as batches. */
static bg_err replay_run(bg_filter *filter, uint8_t op, const uint64_t *hashes,
                         size_t n, bg_errinfo *info)
{
    bg_err err = BG_OK;
    switch (op) {
    case BG_OPLOG_ADD:
        err = bg_filter_add_forced(filter, bg_keys_hashes(hashes, n), NULL, NULL);
        break;
    case BG_OPLOG_REMOVE:
        (void)bg_filter_remove_many(filter, bg_keys_hashes(hashes, n), NULL);
        break;
    case BG_OPLOG_CLEAR: bg_filter_clear(filter); break;
    case BG_OPLOG_ROTATE:
        for (size_t i = 0; i < n && !err; i++) {
            err = bg_filter_rotate(filter, hashes[i], info);
        }
        break;
    default: break;
    }
    return err;
}

bg_err oplog_apply_records(bg_filter *filter, const uint8_t *ops,
                           const uint64_t *hashes, size_t n, bg_errinfo *info)
{
    bg_err err = BG_OK;
    for (size_t i = 0, end; i < n && !err; i = end) {
        uint8_t op = replay_op(ops, i);
        for (end = i + 1; end < n && replay_op(ops, end) == op; end++) {
        }
        err = replay_run(filter, op, hashes + i, end - i, info);
    }
    return err;
}

/* A filter, and the sequence number of the first record that it does not contain. */
struct replay_filter {
    bg_filter *filter;
    uint64_t from;
    uint64_t records;
};

static bg_err replay_apply(void *context, uint64_t first, const uint8_t *ops,
                           const uint64_t *hashes, size_t n, bg_errinfo *info)
{
    struct replay_filter *to = context;
    uint64_t known = to->from > first ? to->from - first : 0;
    if (known >= n) {
        return BG_OK;
    }
    size_t skip = (size_t)known;
    bg_err err = oplog_can_apply(to->filter, ops + skip, n - skip, info);
    err = err ? err
              : oplog_apply_records(to->filter, ops + skip, hashes + skip, n - skip,
                                    info);
    to->records += err ? 0 : n - skip;
    return err;
}

/* ---- Files ----------------------------------------------------------------------------- */

bg_err bg_oplog_replay(const char *path, bg_oplog_visit_fn visit, void *context,
                       bg_oplog_report *report, bg_errinfo *info)
{
    struct disk_file file = { .descriptor = -1 };
    struct container_source source;
    struct replay_caller caller = { visit, context, 0 };
    bg_oplog_report own = { .struct_size = sizeof own }, *use = &own;
    bgi_err_clear(info);
    bg_err err = oplog_report_begin(report, &own, &use, info);
    err = err ? err : disk_open_only(path, &file, &source, info);
    if (!err) {
        err = oplog_walk(&source, visit ? replay_tell : NULL, &caller, use, info);
        use->records = caller.records;
        disk_close(&file);
    }
    return err;
}

/* Called before any record is applied. Checks that the log belongs to the filter and that no record
 * is missing between the filter and the start of the log. */
static bg_err replay_check_header(const struct container_source *source, uint64_t from,
                                  const bg_filter *filter, bg_errinfo *info)
{
    unsigned char bytes[OPLOG_HEADER];
    struct oplog_header header;
    if (source->bytes < sizeof bytes) {
        return BG_OK; /* oplog_walk reports the error */
    }
    bg_err err = source->read(source->context, 0, bytes, sizeof bytes, info);
    err = err ? err : oplog_read_header(bytes, &header, info);
    err = err ? err : oplog_check_identity(&header, filter, info);
    if (!err && header.first > from) {
        err = bgi_err_state(
            info, BG_EINCOMPAT, "first record of the log",
            "the log starts at record %llu, but the filter has only "
            "the records before %llu; use a newer snapshot or an older log",
            (unsigned long long)header.first, (unsigned long long)from);
    }
    return err;
}

/* Sets a window's time to the latest time that it had reached before it was saved, because the
 * rotations in the log continue from that time. */
static bg_err replay_resume(bg_filter *filter, bg_errinfo *info)
{
    const uint64_t moved = bg_filter_window_time(filter);
    return moved ? bg_filter_rotate(filter, moved, info) : BG_OK;
}

bg_err bg_oplog_apply(const char *path, uint64_t from, bg_filter *filter,
                      bg_oplog_report *report, bg_errinfo *info)
{
    struct disk_file file = { .descriptor = -1 };
    struct container_source source;
    struct replay_filter to = { filter, from, 0 };
    bg_oplog_report own = { .struct_size = sizeof own }, *use = &own;
    bgi_err_clear(info);
    if (!filter) {
        return bgi_err(info, BG_EINVAL, "filter", "a filter", "NULL");
    }
    bg_err err = oplog_report_begin(report, &own, &use, info);
    err = err ? err : disk_open_only(path, &file, &source, info);
    if (err) {
        return err;
    }
    err = replay_check_header(&source, from, filter, info);
    err = err ? err : replay_resume(filter, info);
    err = err ? err : oplog_walk(&source, replay_apply, &to, use, info);
    use->records = to.records;
    use->next = use->next < from ? from : use->next;
    disk_close(&file);
    return err;
}

/* ---- Positions ------------------------------------------------------------------------- */

static const char replay_line[] = "oplog:";

bg_err oplog_write_position(const char *metadata, uint64_t position,
                            char text[BG_METADATA_MAX], bg_errinfo *info)
{
    return metadata_put(metadata, replay_line, position, text, info);
}

bg_err oplog_read_position(const char *metadata, uint64_t *position, bg_errinfo *info)
{
    if (!metadata_number(metadata, replay_line, position)) {
        return bgi_err(info, BG_EFORMAT, "snapshot metadata",
                       "a line \"oplog: N\", as bg_oplog_snapshot writes it", "%s",
                       metadata_find(metadata, replay_line) ? "an invalid number"
                                                            : "no such line");
    }
    return BG_OK;
}

bg_err bg_oplog_position(const char *snapshot, uint64_t *position, bg_errinfo *info)
{
    bg_file_info about = { .struct_size = sizeof about };
    if (!position) {
        return bgi_err(info, BG_EINVAL, "position", "a pointer to receive the position",
                       "NULL");
    }
    bg_err err = bg_file_get_info(snapshot, &about, info);
    return err ? err : oplog_read_position(about.metadata, position, info);
}

/* ---- Snapshot and log ------------------------------------------------------------------- */

/* Reads a filter and its log position from the same file, even if another file is renamed to `path`
 * in the meantime. */
static bg_err replay_open_snapshot(const char *path, const bg_open_options *options,
                                   bg_filter **filter, uint64_t *position,
                                   bg_errinfo *info)
{
    struct disk_file file = { .descriptor = -1 };
    struct container_source source;
    struct container_front front;
    bg_open_options how;
    bg_err err = container_open_options(options, &how, info);
    err = err ? err : disk_open(path, &file, &source, info);
    if (err) {
        return err;
    }
    err = container_read_front(&source, &front, info);
    if (!err) {
        err = oplog_read_position(front.header.metadata, position, info);
        err =
            err ? err
                : container_decode_front(&front, &how, NULL, NULL, NULL, filter, info);
        bgi_memory_give(&front.memory);
    }
    disk_close(&file);
    return err;
}

bg_err bg_oplog_recover(const char *snapshot, const char *path,
                        const bg_open_options *options, bg_filter **filter,
                        bg_oplog_report *report, bg_errinfo *info)
{
    uint64_t position = 0;
    if (!filter) {
        return bgi_err(info, BG_EINVAL, "filter", "a pointer to receive the filter",
                       "NULL");
    }
    *filter = NULL;
    bgi_err_clear(info);
    bg_err err = replay_open_snapshot(snapshot, options, filter, &position, info);
    err = err ? err : bg_oplog_apply(path, position, *filter, report, info);
    if (err) {
        bg_filter_free(*filter);
        *filter = NULL;
    }
    return err;
}
