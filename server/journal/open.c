/*
 * journal/open.c - opens, reads and closes the journal, and prepares it for appends.
 *
 * journal_begin first ensures that the existing frames are on disk (journal/disk.c), and then
 * always creates a new segment. Therefore, a truncated tail is never followed by other frames with
 * the same numbers in the same file. Each run (the segments written by one process) has its own
 * checksum seed (journal/record.h).
 */
#include "journal/state.h"
#include "util/timed.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { JOURNAL_BUFFER = 64 << 20 };

static bg_err journal_take_options(struct journal *j, const struct journal_options *o,
                                   bg_errinfo *info)
{
    j->options = o ? *o : (struct journal_options){ .policy = JOURNAL_ALWAYS };
    size_t buffer = j->options.buffer ? j->options.buffer : JOURNAL_BUFFER;
    if ((unsigned)j->options.policy > JOURNAL_NO || buffer < 256) {
        return journal_error(info, BG_EINVAL, "options",
                             "policy 0 to 2, and a buffer of at least 256 bytes",
                             "policy %d, %zu bytes", (int)j->options.policy, buffer);
    }
    j->options.clock = j->options.clock ? j->options.clock : journal_monotonic;
    atomic_init(&j->policy, (int)j->options.policy);
    j->room = buffer / 2;
    j->active.bytes = malloc(j->room);
    j->spare.bytes = malloc(j->room);
    if (!j->active.bytes || !j->spare.bytes) {
        return journal_error_why(info, BG_ENOMEM, "memory",
                                 "cannot allocate %zu bytes for the journal", buffer);
    }
    return BG_OK;
}

static void journal_free(struct journal *j)
{
    if (j->file >= 0) {
        (void)close(j->file);
    }
    journal_disk_free(&j->disk);
    free(j->active.bytes);
    free(j->spare.bytes);
    (void)pthread_cond_destroy(&j->work);
    (void)pthread_cond_destroy(&j->turn);
    (void)pthread_mutex_destroy(&j->lock);
    free(j);
}

bg_err journal_open(const char *folder, const struct journal_options *options,
                    struct journal **journal, bg_errinfo *info)
{
    journal_error_clear(info);
    *journal = NULL;
    struct journal *j = calloc(1, sizeof *j);
    if (!j) {
        return journal_error_why(info, BG_ENOMEM, "memory",
                                 "cannot allocate %zu bytes for the journal",
                                 sizeof *j);
    }
    j->file = -1;
    j->disk = (struct journal_disk)JOURNAL_DISK_INIT;
    atomic_init(&j->next, 1);
    atomic_init(&j->written, 0);
    atomic_init(&j->synced, 0);
    (void)pthread_mutex_init(&j->lock, NULL);
    (void)pthread_cond_init(&j->turn, NULL);
    timed_init(&j->work);
    bg_err err = journal_take_options(j, options, info);
    err = err ? err : journal_disk_list(&j->disk, folder, info);
    err = err ? err : journal_disk_lock(&j->disk, info);
    /* List the segments again, because the previous owner of the lock may have started a new
     * segment. */
    err = err ? err : journal_disk_list(&j->disk, folder, info);
    if (!err && j->options.existed && !j->disk.newest.number) {
        j->disk.newest = (struct journal_header){ .number = 1, .first = 1 };
    }
    if (err) {
        journal_free(j);
    } else {
        *journal = j;
    }
    return err;
}

bg_err journal_replay(struct journal *j, journal_visit *visit, void *context,
                      struct journal_report *report, bg_errinfo *info)
{
    struct journal_shelf shelf = journal_disk_shelf(&j->disk);
    journal_error_clear(info);
    if (j->begun) {
        return journal_error_why(info, BG_EINVAL, "journal_replay",
                                 "cannot be called after journal_begin");
    }
    bg_err err = journal_walk(&shelf, j->options.beyond_damage, visit, context,
                              &j->report, info);
    j->reported = !err;
    if (report) {
        *report = j->report;
    }
    return err;
}

/* Chooses the number and the header of the first segment that this process writes. If a journal
 * already existed, the segment is never marked as fresh, so missing segments are detected again at
 * the next start. */
static bg_err journal_plan(struct journal *j, struct journal_header *header,
                           bg_errinfo *info)
{
    static const uint8_t unknown[JOURNAL_ID];
    size_t n = j->disk.count;
    uint64_t last = n ? j->disk.segments[n - 1].number : 0;
    last = j->disk.newest.number > last ? j->disk.newest.number : last;
    if (last == UINT64_MAX || j->report.next == UINT64_MAX) {
        return journal_error_why(info, BG_EQUOTA, "journal",
                                 "no segment or frame numbers are left");
    }
    *header = (struct journal_header){ .flags = last ? 0 : JOURNAL_FRESH,
                                       .number = last + 1,
                                       .first = j->report.next,
                                       .run = last + 1 };
    memcpy(header->id, j->report.id, sizeof header->id);
    if (memcmp(header->id, unknown, sizeof unknown) == 0
        && getrandom(header->id, sizeof header->id, 0) != sizeof header->id) {
        return journal_error_system(info, "getrandom", j->disk.folder);
    }
    return BG_OK;
}

static bg_err journal_begin_inside(struct journal *j, bg_errinfo *info)
{
    struct journal_header header = { .number = 0 };
    struct journal_draft_file draft;
    size_t n = j->disk.count;
    bg_err err = journal_plan(j, &header, info);
    err = err ? err : journal_disk_reserve(&j->disk, info);
    err = err ? err : journal_disk_learn(&j->disk, info);
    if (!err && n) {
        err = journal_disk_settle(&j->disk, j->report.tail_settled, j->report.tail_end,
                                  j->report.damages == 0, info);
    }
    if (err) {
        return err;
    }
    journal_disk_sweep(&j->disk);
    err = journal_disk_begin(&draft, &j->disk, &header, info);
    err = err ? err : journal_disk_place(&draft, &j->disk, &header, info);
    if (err) {
        return err;
    }
    journal_switch(j, &header, &draft, JOURNAL_HEADER);
    if (n) {
        j->disk.segments[n - 1].bytes = j->report.tail_end;
    }
    j->seed = journal_seed(header.id, header.run);
    journal_put(&j->next, header.first);
    journal_put(&j->written, header.first - 1);
    journal_put(&j->synced, header.first - 1);
    j->sync_time = journal_now(j);
    j->begun = true;
    /* Remove segments that a fresh segment made obsolete but that an earlier process did not remove
     * before it died. The fresh segment is the proof that these segments are obsolete, so it must
     * be undamaged. */
    uint64_t more = n && j->report.damages == 0 ? n - j->report.segments : 0;
    for (; more > 0; more--) {
        if (journal_disk_remove(&j->disk, j->disk.segments[0].number, NULL)) {
            break; /* the remaining segments are harmless */
        }
        journal_disk_pop(&j->disk);
    }
    return BG_OK;
}

bg_err journal_begin(struct journal *j, struct journal_report *report, bg_errinfo *info)
{
    bg_err err =
        j->begun || !j->reported ? journal_replay(j, NULL, NULL, report, info) : BG_OK;
    if (report && !j->begun) {
        *report = j->report;
    }
    journal_enter(j);
    err = err ? err : journal_begin_inside(j, info);
    journal_leave(j);
    return err;
}

/* Appends a MARK, and records that all frames are durable. */
static bg_err journal_mark(struct journal *j, bg_errinfo *info)
{
    const struct journal_record mark = { .type = JOURNAL_MARK };
    uint64_t end = 0;
    bg_err err = journal_sync(j, info);
    err = err ? err : journal_append(j, &mark, 1, &end, info);
    err = err ? err : journal_sync(j, info);
    if (!err) {
        journal_disk_record_end(&j->disk, &j->header, end);
    }
    return err;
}

bg_err journal_close(struct journal *j, bg_errinfo *info)
{
    journal_error_clear(info);
    if (!j) {
        return BG_OK;
    }
    journal_stop(j);
    bg_err err = j->begun ? journal_mark(j, info) : BG_OK;
    journal_free(j);
    return err;
}
