/*
 * bench_oplog.c - what does an operation log cost, compared with writing the same
 * bytes?
 *
 * Appends frames of 1, 64 and 4096 records to a file in several ways: with plain write() of
 * prepared bytes; with bg_oplog_append under each sync policy; with write() and fdatasync(), the
 * minimum that `always` requires; and with `always` on 8 threads, which share syncs. The ratio
 * compares each row with plain write(): 1 means equally fast. For rows with a sync, the ratio
 * depends more on the disk than on the log; compare `always` with "write() and fdatasync()".
 *
 * Unlike the other benchmarks, this one does not pin threads, because the duration of a sync may
 * depend on the core that waits for it. On a virtual machine, plain write() and fdatasync() took
 * 3.9 ms on one core and 0.1 ms on the other. Comparing a pinned thread with eight threads on all
 * cores would measure this difference between cores. "per sync" is the average number of appends
 * that shared one sync; it is a count, not a time.
 *
 * The file is created in $TMPDIR or the current directory. The directory should be on a disk, not
 * on tmpfs, because tmpfs keeps files in memory.
 */
#define _GNU_SOURCE /* O_CLOEXEC */

#include "bench.h"
#include "harness.h"
#include "machine.h"
#include "output.h"
#include "team.h"

#include "bloomgate/all.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPLOG_THREADS = 8, OPLOG_LARGEST = 4096, OPLOG_FRAME_EXTRA = 20 };

enum oplog_way {
    OPLOG_PLAIN,
    OPLOG_NO,
    OPLOG_EVERYSEC,
    OPLOG_PLAIN_SYNC,
    OPLOG_ALWAYS,
    OPLOG_ALWAYS_TEAM,
    OPLOG_WAYS
};

static const char *const oplog_names[OPLOG_WAYS] = {
    "plain write()",           "policy no",     "policy everysec",
    "write() and fdatasync()", "policy always", "policy always, 8 threads",
};

/* A subject: one way of appending to a file. */
struct oplog_state {
    enum oplog_way way;
    size_t records; /* per frame */
    char path[512];
    bg_filter *filter;
    bg_oplog *log; /* or */
    int file;
    struct bgb_team *team;
    size_t frames;
    /* Totals over all logs of this subject, updated when a log is closed. */
    uint64_t appends, syncs;
    uint64_t hashes[OPLOG_LARGEST];
    unsigned char bytes[9 * OPLOG_LARGEST + OPLOG_FRAME_EXTRA];
    uint64_t ns;
};

static void oplog_write_frames(struct oplog_state *s, size_t frames)
{
    size_t bytes = 9 * s->records + OPLOG_FRAME_EXTRA;
    for (size_t i = 0; i < frames; i++) {
        if (write(s->file, s->bytes, bytes) != (ssize_t)bytes
            || (s->way == OPLOG_PLAIN_SYNC && fdatasync(s->file) != 0)) {
            bgb_die("cannot write %s", s->path);
        }
    }
}

static void oplog_append_frames(struct oplog_state *s, size_t frames)
{
    bg_errinfo why;
    for (size_t i = 0; i < frames; i++) {
        if (bg_oplog_append(s->log, NULL, s->hashes, s->records, NULL, &why)) {
            bgb_die("%s", why.message);
        }
    }
}

static void oplog_work(void *arg, unsigned i)
{
    struct oplog_state *s = arg;
    (void)i;
    bgb_machine_unpin();
    oplog_append_frames(s, s->frames / OPLOG_THREADS);
}

/* Appends n frames and returns n. */
static uint64_t oplog_pass(void *state, size_t first, size_t n)
{
    struct oplog_state *s = state;
    (void)first;
    uint64_t start = bgb_now_ns();
    s->frames = n;
    if (s->team) {
        s->ns = bgb_team_run(s->team, oplog_work, s);
        return n;
    }
    if (s->log) {
        oplog_append_frames(s, n);
    } else {
        oplog_write_frames(s, n);
    }
    s->ns = bgb_now_ns() - start;
    return n;
}

static void oplog_open(struct oplog_state *s)
{
    static const uint32_t policies[OPLOG_WAYS] = {
        [OPLOG_NO] = BG_OPLOG_SYNC_NO, [OPLOG_EVERYSEC] = BG_OPLOG_SYNC_EVERYSEC
    }; /* all other logs use `always` */
    bg_oplog_options how = BG_OPLOG_OPTIONS_INIT;
    bg_errinfo why;
    how.policy = policies[s->way];
    if (s->way == OPLOG_PLAIN || s->way == OPLOG_PLAIN_SYNC) {
        s->file = open(s->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (s->file < 0) {
            bgb_die("cannot create %s", s->path);
        }
    } else if (bg_oplog_open(s->path, s->filter, &how, &s->log, NULL, &why)) {
        bgb_die("%s", why.message);
    }
}

static void oplog_shut(struct oplog_state *s)
{
    bg_oplog_info state = { .struct_size = sizeof state };
    if (s->log && bg_oplog_get_info(s->log, &state) == BG_OK) {
        s->appends += state.next / s->records;
        s->syncs += state.syncs;
        (void)bg_oplog_close(s->log, NULL);
        s->log = NULL;
    } else {
        (void)close(s->file);
    }
    (void)unlink(s->path);
}

/* Starts every visit with a new file, so that the disk does not fill up. */
static void oplog_rewind(void *state)
{
    oplog_shut(state);
    oplog_open(state);
}

static void oplog_prepare(struct oplog_state *s, struct bgb_subject *subject,
                          enum oplog_way way, size_t records, bg_filter *filter)
{
    const char *folder = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe) */
    bool syncs = way >= OPLOG_PLAIN_SYNC;
    s->way = way;
    s->records = records;
    s->filter = filter;
    (void)snprintf(s->path, sizeof s->path, "%s/bgbench-%ld-%d.oplog",
                   folder ? folder : ".", (long)getpid(), (int)way);
    for (size_t i = 0; i < OPLOG_LARGEST; i++) {
        s->hashes[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    }
    memset(s->bytes, 1, sizeof s->bytes);
    s->team = way == OPLOG_ALWAYS_TEAM ? bgb_team_start(OPLOG_THREADS) : NULL;
    oplog_open(s);
    *subject = (struct bgb_subject){ .pass = oplog_pass,
                                     .rewind = oplog_rewind,
                                     .state = s,
                                     .pool = syncs ? 64 : 65536 / records,
                                     .chunk = syncs ? 64 : 65536 / records,
                                     .least = 1,
                                     .most = 1,
                                     .own_ns = &s->ns };
    (void)snprintf(subject->name, sizeof subject->name, "%s", oplog_names[way]);
}

static double oplog_per_sync(const struct oplog_state *s)
{
    return s->syncs && s->way >= OPLOG_ALWAYS ? (double)s->appends / (double)s->syncs
                                              : BGB_NONE;
}

static void oplog_print(const struct bgb_subject *subjects,
                        const struct oplog_state *states, size_t records)
{
    for (int i = 0; i < OPLOG_WAYS; i++) {
        const struct bgb_subject *s = &subjects[i];
        bgb_row_begin();
        bgb_cell_text("subject", "subject", -26, s->name);
        bgb_cell_count("records", "records", 8, records);
        bgb_cell_real("ns_p5", "ns/append p5", 13, 0, s->p5);
        bgb_cell_real("ns_median", "median", 10, 0, s->median);
        bgb_cell_real("appends", "appends/s", 12, 0, 1e9 / s->p5);
        bgb_cell_real("record_rate", "records/s", 12, 0, 1e9 / s->p5 * (double)records);
        bgb_cell_real("ratio", "ratio", 9, 4, subjects[OPLOG_PLAIN].p5 / s->p5);
        bgb_cell_real("per_sync", "per sync", 9, 1, oplog_per_sync(&states[i]));
        bgb_row_end();
    }
}

static void oplog_run(const struct bgb_options *options, size_t records,
                      bg_filter *filter)
{
    struct bgb_subject subjects[OPLOG_WAYS];
    struct oplog_state *states = bgb_alloc(OPLOG_WAYS, sizeof *states);
    for (int i = 0; i < OPLOG_WAYS; i++) {
        oplog_prepare(&states[i], &subjects[i], (enum oplog_way)i, records, filter);
    }
    bgb_table("oplog", "operation log, frames of %zu records", records);
    bgb_run(subjects, OPLOG_WAYS, options->seconds);
    for (int i = 0; i < OPLOG_WAYS; i++) {
        oplog_shut(&states[i]);
        if (states[i].team) {
            bgb_team_stop(states[i].team);
        }
    }
    oplog_print(subjects, states, records);
    free(states);
}

void bgb_bench_oplog(const struct bgb_options *options)
{
    static const size_t records[] = { 1, 64, OPLOG_LARGEST };
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL;
    spec.items = 1000;
    spec.rate = 0.01;
    if (bg_filter_create(&spec, &filter, NULL)) {
        bgb_die("cannot create a filter");
    }
    bgb_machine_unpin();
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        oplog_run(options, records[i], filter);
    }
    bgb_note("ratio: compared with plain write() of the same bytes");
    bgb_machine_pin(options->core < 0 ? bgb_machine_core(0) : (unsigned)options->core);
    bg_filter_free(filter);
}
