/*
 * Tests a journal with missing segments, and a journal whose directory is removed or replaced while
 * the journal is open. Losing the newest segment must be detected, although the remaining segments
 * look complete.
 */
#define _GNU_SOURCE

#include "journal/journal.h"
#include "journal/record.h"
#include "server/support/journal_inside.h"

#include "support/check.h"
#include "support/scratch.h"

#include <fcntl.h>
#include <sys/wait.h>

static struct journal *begin(const char *folder, const struct journal_options *how,
                             struct journal_report *report)
{
    struct journal *journal = NULL;
    bg_errinfo why;
    (void)mkdir(folder, 0700);
    if (journal_open(folder, how, &journal, &why)
        || journal_begin(journal, report, &why)) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    return journal;
}

static bg_err append(struct journal *journal, uint64_t id, bg_errinfo *why)
{
    const struct journal_record record = { .type = JOURNAL_DROP, .id = id };
    return journal_append(journal, &record, 1, NULL, why);
}

static void append_synced(struct journal *journal, uint64_t id)
{
    CHECK_OK(append(journal, id, NULL));
    CHECK_OK(journal_sync(journal, NULL));
}

static const char *segment(const char *folder, unsigned number)
{
    static char path[700];
    (void)snprintf(path, sizeof path, "%s/journal-%020u.log", folder, number);
    return path;
}

static bool segment_is_there(const char *folder, unsigned number)
{
    return access(segment(folder, number), F_OK) == 0;
}

/* Creates a journal that was opened three times: segments 1 to 3 each contain one frame and a MARK,
 * the record of a clean shutdown. */
static void make_three(const char *folder)
{
    for (uint64_t i = 1; i <= 3; i++) {
        struct journal *journal = begin(folder, NULL, NULL);
        append_synced(journal, i);
        CHECK_OK(journal_close(journal, NULL));
    }
    CHECK(segment_is_there(folder, 3));
}

struct told {
    uint64_t last; /* the dropped id */
    uint64_t gaps;
    uint64_t behind; /* records after a gap */
};

static bg_err tell(void *context, uint64_t sequence,
                   const struct journal_record *record, bg_errinfo *info)
{
    struct told *told = context;
    (void)sequence, (void)info;
    told->gaps += record->type == JOURNAL_GAP;
    told->behind += told->gaps && record->type == JOURNAL_DROP;
    told->last = record->type == JOURNAL_DROP ? record->id : told->last;
    return BG_OK;
}

/* Checks that a damaged journal is refused. If the caller chooses to continue despite the damage,
 * the damage is reported again each time the journal is read. */
static void check_refused(const char *folder, const char *text, bool in_order)
{
    const struct journal_options beyond = { .beyond_damage = true };
    for (uint64_t again = 0; again < 3; again++) {
        struct told told = { .gaps = 0 };
        struct journal *journal = NULL;
        struct journal_report report;
        bg_errinfo why;
        CHECK_EQ(journal_read(folder, false, tell, &told, NULL, &why), BG_EFORMAT);
        CHECK(again || strstr(why.message, text) != NULL);
        CHECK_OK(journal_open(folder, NULL, &journal, &why));
        CHECK_EQ(journal_begin(journal, NULL, &why), BG_EFORMAT);
        CHECK_OK(journal_close(journal, NULL));
        told.gaps = 0;
        CHECK_OK(journal_read(folder, true, tell, &told, &report, &why));
        CHECK_EQ(told.gaps, 1);
        /* `behind` is 0 if the gap is reported after all frames */
        CHECK_EQ(told.behind, in_order ? again : 0);
        CHECK_EQ(report.damages, 1);
        journal = begin(folder, &beyond, NULL);
        CHECK(journal_next(journal) > 6); /* no sequence number is used twice */
        append_synced(journal, 9);
        CHECK_OK(journal_close(journal, NULL));
    }
}

TEST(journal_folder__the_newest_segment_is_missing)
{
    const char *folder = scratch_path("newest");
    make_three(folder);
    CHECK_EQ(unlink(segment(folder, 3)), 0);
    check_refused(folder, "segments up to 3, the newest", true);
    CHECK(segment_is_there(folder, 4) && !segment_is_there(folder, 3));
}

/* After a clean shutdown, a missing end is not mistaken for a torn tail. */
TEST(journal_folder__the_end_is_missing)
{
    const char *folder = scratch_path("end");
    struct journal_report report;
    struct stat about;
    make_three(folder);
    CHECK_EQ(stat(segment(folder, 3), &about), 0);
    for (off_t size = about.st_size - 1; size >= JOURNAL_HEADER; size--) {
        CHECK_EQ(truncate(segment(folder, 3), size), 0);
        const bg_err err = journal_read(folder, false, NULL, NULL, &report, NULL);
        CHECK_EQ(err, report.next < 6 ? BG_EFORMAT : BG_OK); /* 6 is the mark */
    }
    CHECK_EQ(report.next, 5);
    check_refused(folder, "the last frame is 4, but frames up to 6 were written", true);
    CHECK(segment_is_there(folder, 4));
}

/* A process that shuts down cleanly records where the journal ends. This record does not apply to a
 * newer segment, so the end of the newest segment is unknown after a crash. */
TEST(journal_folder__the_end_after_a_crash_is_unknown)
{
    const char *folder = scratch_path("crash");
    struct journal_report report;
    make_three(folder);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        append_synced(begin(folder, NULL, NULL), 4);
        _exit(0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK_EQ(truncate(segment(folder, 4), JOURNAL_HEADER + 1), 0);
    CHECK_OK(journal_read(folder, false, NULL, NULL, &report, NULL));
    CHECK_EQ(report.next, 7);
    CHECK_EQ(report.dropped, 1);
}

/* A directory or FIFO that has a segment's name causes an error, but is not treated as damage. */
TEST(journal_folder__a_segment_is_not_a_file)
{
    const char *folder = scratch_path("kinds");
    bg_errinfo why;
    make_three(folder);
    CHECK_EQ(mkdir(segment(folder, 4), 0700), 0);
    CHECK_EQ(journal_read(folder, true, NULL, NULL, NULL, &why), BG_EIO);
    CHECK(strstr(why.message, "not a regular file") != NULL);
    CHECK_EQ(rmdir(segment(folder, 4)), 0);
    CHECK_EQ(mkfifo(segment(folder, 4), 0600), 0);
    CHECK_EQ(journal_read(folder, true, NULL, NULL, NULL, &why), BG_EIO);
    CHECK_EQ(unlink(segment(folder, 4)), 0);
    CHECK_OK(journal_read(folder, false, NULL, NULL, NULL, &why));
}

TEST(journal_folder__all_segments_are_missing)
{
    const char *folder = scratch_path("all");
    make_three(folder);
    for (unsigned i = 1; i <= 3; i++) {
        CHECK_EQ(unlink(segment(folder, i)), 0);
    }
    check_refused(folder, "found no segment", false);
    CHECK(segment_is_there(folder, 4));
}

TEST(journal_folder__no_header_can_be_read)
{
    const char *folder = scratch_path("headers");
    const struct journal_options beyond = { .beyond_damage = true };
    struct journal *journal = begin(folder, NULL, NULL);
    struct journal_report report;
    struct told told = { .gaps = 0 };
    bg_errinfo why;
    append_synced(journal, 7);
    CHECK_OK(journal_close(journal, NULL));
    const int file = open(segment(folder, 1), O_RDWR | O_CLOEXEC);
    uint8_t byte = 0; /* part of a random number */
    CHECK_EQ(pread(file, &byte, 1, 40), 1);
    byte ^= 4;
    CHECK_EQ(pwrite(file, &byte, 1, 40), 1);
    CHECK_EQ(close(file), 0);
    CHECK_EQ(journal_read(folder, false, tell, &told, NULL, &why), BG_ECHECKSUM);
    /* The lock file contains a copy of the header, so the frames are trusted. */
    CHECK_OK(journal_read(folder, true, tell, &told, &report, &why));
    CHECK_EQ(told.last, 7);
    CHECK_EQ(report.damages, 1);
    CHECK_EQ(report.lost, 0);
    /* Without the copy, the frames are not trusted, but they are not deleted either. */
    CHECK_EQ(truncate(strcat(strcpy((char[700]){ 0 }, folder), "/journal.lock"), 0), 0);
    told = (struct told){ .gaps = 0 };
    journal = begin(folder, &beyond, &report);
    CHECK_EQ(report.damages, 1);
    append_synced(journal, 8);
    CHECK_OK(journal_close(journal, NULL));
    CHECK_OK(journal_read(folder, true, tell, &told, &report, &why));
    CHECK_EQ(told.last, 8);
    CHECK(told.gaps > 0);
    struct stat about;
    CHECK(stat(segment(folder, 1), &about) == 0 && about.st_size > 64);
}

/* In directories written by version 0.1, the lock file is empty, so the newest segment is unknown
 * and its loss is not detected. */
TEST(journal_folder__a_lock_without_a_header_claims_nothing)
{
    const char *folder = scratch_path("older");
    char lock[700];
    struct journal_report report;
    make_three(folder);
    (void)snprintf(lock, sizeof lock, "%s/journal.lock", folder);
    for (int bytes = 0; bytes < 64; bytes += 21) {
        CHECK_EQ(truncate(lock, bytes), 0);
        CHECK_OK(journal_read(folder, false, NULL, NULL, &report, NULL));
        CHECK(report.clean);
    }
    CHECK_EQ(unlink(segment(folder, 3)), 0);
    struct journal *journal = begin(folder, NULL, &report);
    CHECK_EQ(report.segments, 2);
    CHECK_OK(journal_close(journal, NULL));
    /* The loss of all segments is detected if the caller specifies that a journal existed. */
    const struct journal_options existed = { .existed = true };
    CHECK_EQ(unlink(segment(folder, 1)), 0);
    CHECK_EQ(unlink(segment(folder, 2)), 0);
    CHECK_EQ(unlink(segment(folder, 3)), 0);
    CHECK_EQ(truncate(lock, 0), 0);
    CHECK_OK(journal_open(folder, &existed, &journal, NULL));
    CHECK_EQ(journal_begin(journal, NULL, NULL), BG_EFORMAT);
    CHECK_OK(journal_close(journal, NULL));
    CHECK(!segment_is_there(folder, 1));
}

/* Segments that have the expected numbers but belong to another journal are refused. */
TEST(journal_folder__segments_of_another_journal)
{
    const char *folder = scratch_path("mine"), *other = scratch_path("other");
    char from[700];
    bg_errinfo why;
    make_three(folder);
    make_three(other);
    for (unsigned i = 1; i <= 3; i++) {
        (void)snprintf(from, sizeof from, "%s", segment(other, i));
        CHECK_EQ(rename(from, segment(folder, i)), 0);
    }
    CHECK_EQ(journal_read(folder, false, NULL, NULL, NULL, &why), BG_EFORMAT);
    CHECK(strstr(why.message, "a different journal") != NULL);
}

/* ---- A directory that is removed ---------------------------------------------------------- */

/* If journal.lock is missing, a fresh segment of another journal must not replace the segments of
 * this journal. */
TEST(journal_folder__a_fresh_segment_of_another_journal)
{
    const char *folder = scratch_path("fresh");
    const struct journal_options beyond = { .beyond_damage = true };
    const struct journal_header other = {
        .flags = JOURNAL_FRESH, .number = 4, .first = 1, .run = 4, .id = { 7 }
    };
    unsigned char bytes[JOURNAL_HEADER];
    char lock[700];
    make_three(folder);
    (void)snprintf(lock, sizeof lock, "%s/journal.lock", folder);
    CHECK_EQ(unlink(lock), 0);
    journal_header_write(&other, bytes);
    const int file = open(segment(folder, 4), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(file >= 0 && write(file, bytes, sizeof bytes) == (ssize_t)sizeof bytes);
    CHECK_EQ(close(file), 0);
    for (unsigned again = 0; again < 2; again++) {
        struct told told = { .gaps = 0 };
        bg_errinfo why;
        CHECK_EQ(journal_read(folder, false, NULL, NULL, NULL, &why), BG_EFORMAT);
        CHECK(again
              || strstr(why.message, "segments belong to a different journal") != NULL);
        CHECK_OK(journal_read(folder, true, tell, &told, NULL, &why));
        CHECK(told.gaps > 0);
        CHECK_OK(journal_close(begin(folder, &beyond, NULL), NULL));
        CHECK(segment_is_there(folder, 1) && segment_is_there(folder, 3));
    }
}

static bg_err fill(void *context, struct journal_draft *draft, bg_errinfo *info)
{
    const struct journal_record records[] = { { .type = JOURNAL_MANIFEST_BEGIN },
                                              { .type = JOURNAL_MANIFEST_END } };
    (void)context;
    return journal_draft_append(draft, records, 2, info);
}

/* Checks that the journal fails after its directory has been removed or replaced: every call
 * returns an error, and no more frames become durable. */
static void check_moved(struct journal *journal)
{
    const uint64_t durable = journal_durable(journal);
    struct journal_state state;
    bg_errinfo why;
    (void)append(journal, 1, NULL);
    CHECK_EQ(journal_sync(journal, &why), BG_EIO);
    CHECK(strstr(why.message, "removed or replaced") != NULL);
    CHECK_EQ(journal_flush(journal, &why), BG_EIO);
    CHECK_EQ(journal_rotate(journal, NULL, &why), BG_EIO);
    CHECK_EQ(journal_reopen(journal, fill, NULL, &why), BG_EIO);
    CHECK_EQ(append(journal, 2, &why), BG_EIO);
    CHECK_EQ(journal_durable(journal), durable);
    journal_about(journal, &state);
    CHECK(state.failed);
}

TEST(journal_folder__a_folder_is_moved_away_and_back)
{
    const enum journal_policy policies[] = { JOURNAL_ALWAYS, JOURNAL_EVERYSEC,
                                             JOURNAL_NO };
    for (unsigned i = 0; i < 3; i++) {
        const char *folder = scratch_path("moved"), *away = scratch_path("away");
        const struct journal_options how = { .policy = policies[i] };
        struct journal *journal = begin(folder, &how, NULL);
        append_synced(journal, 1);
        CHECK_EQ(rename(folder, away), 0);
        check_moved(journal);
        CHECK_EQ(rename(away, folder), 0);
        CHECK_OK(journal_reopen(journal, fill, NULL, NULL));
        append_synced(journal, 5);
        CHECK_OK(journal_close(journal, NULL));
        CHECK_OK(journal_read(folder, false, NULL, NULL, NULL, NULL));
    }
}

TEST(journal_folder__a_folder_is_noticed_while_nothing_is_appended)
{
    const char *folder = scratch_path("idle"), *away = scratch_path("idle_away");
    struct journal *journal = begin(folder, NULL, NULL);
    bg_errinfo why;
    append_synced(journal, 1);
    CHECK_OK(journal_check(journal, &why));
    CHECK_EQ(rename(folder, away), 0);
    CHECK_EQ(journal_check(journal, &why), BG_EIO);
    CHECK(strstr(why.message, "removed or replaced") != NULL);
    CHECK_EQ(append(journal, 2, &why), BG_EIO);
    CHECK_EQ(journal_close(journal, NULL), BG_EIO);
}

/* If another process has created its own journal at the path, that journal is not modified. */
TEST(journal_folder__a_folder_is_replaced)
{
    const char *folder = scratch_path("place"), *away = scratch_path("place_away");
    struct journal *journal = begin(folder, NULL, NULL);
    struct journal_report report;
    append_synced(journal, 1);
    CHECK_EQ(rename(folder, away), 0);
    struct journal *second = begin(folder, NULL, NULL);
    check_moved(journal);
    append_synced(second, 3);
    CHECK_OK(journal_rotate(second, NULL, NULL));
    append_synced(second, 4);
    CHECK_OK(journal_close(second, NULL));
    check_moved(journal);
    CHECK_EQ(journal_close(journal, NULL), BG_EIO);
    CHECK_OK(journal_read(folder, false, NULL, NULL, &report, NULL));
    CHECK_EQ(report.segments, 2);
    CHECK_OK(journal_read(away, false, NULL, NULL, &report, NULL));
    CHECK_EQ(report.segments, 1);
}

/* If only the lock file is removed, another process could lock the directory, so the journal
 * fails. */
TEST(journal_folder__the_lock_is_removed)
{
    const char *folder = scratch_path("unlocked");
    char lock[700];
    struct journal *journal = begin(folder, NULL, NULL);
    append_synced(journal, 1);
    (void)snprintf(lock, sizeof lock, "%s/journal.lock", folder);
    CHECK_EQ(unlink(lock), 0);
    check_moved(journal);
    CHECK_EQ(journal_close(journal, NULL), BG_EIO);
}

/* If only the segment is removed, the directory is still locked, so a fresh segment can be started.
 */
TEST(journal_folder__the_segment_is_removed)
{
    const char *folder = scratch_path("unlinked");
    struct journal *journal = begin(folder, NULL, NULL);
    append_synced(journal, 1);
    CHECK_EQ(unlink(segment(folder, 1)), 0);
    CHECK_OK(append(journal, 2, NULL));
    CHECK_EQ(journal_sync(journal, NULL), BG_EIO);
    CHECK_EQ(append(journal, 3, NULL), BG_EIO);
    CHECK_OK(journal_reopen(journal, fill, NULL, NULL));
    append_synced(journal, 4);
    CHECK_OK(journal_close(journal, NULL));
    CHECK_OK(journal_read(folder, false, NULL, NULL, NULL, NULL));
    CHECK(segment_is_there(folder, 2));
}
