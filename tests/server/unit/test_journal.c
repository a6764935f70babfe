/*
 * Tests the journal on disk. Appended records can be read again, each sync policy keeps its
 * guarantee, threads share writes and syncs, and segments are started and removed. The tests also
 * kill the process, make the disk fail or fill up, and simulate a power loss at every system call.
 */
#define _GNU_SOURCE /* kill, usleep */

#include "journal/journal.h"

#include "journal/record.h"
#include "server/support/journal_inside.h"
#include "support/crossing.h"
#include "support/disk_lives.h"
#include "support/files.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

static uint64_t hash_of(uint64_t i)
{
    uint64_t state = i + 1;
    return check_random_next(&state);
}

/* ---- Journals ------------------------------------------------------------------------ */

static struct journal *must_open(const char *folder, const struct journal_options *how,
                                 struct journal_report *report)
{
    struct journal *journal = NULL;
    bg_errinfo why;
    if (journal_open(folder, how, &journal, &why)
        || journal_begin(journal, report, &why)) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    return journal;
}

static struct journal *open_policy(enum journal_policy policy)
{
    struct journal_options how = { .policy = policy };
    return must_open(files_folder(), &how, NULL);
}

static void must_close(struct journal *journal)
{
    bg_errinfo why;
    if (journal_close(journal, &why)) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
}

static struct journal_state state_of(struct journal *journal)
{
    struct journal_state state;
    journal_about(journal, &state);
    return state;
}

/* The size of a frame that contains one add: 60 bytes. */
enum { FRAME = JOURNAL_HEAD + 8 + 8 + 4 + 8 };

static bg_err append_add(struct journal *journal, uint64_t k, uint64_t *sequence,
                         bg_errinfo *why)
{
    uint64_t hash = hash_of(k);
    struct journal_record record = {
        .type = JOURNAL_CHANGE,
        .id = k,
        .change = { .op = CHANGE_ADD, .n = 1, .hashes = &hash },
    };
    return journal_append(journal, &record, 1, sequence, why);
}

static uint64_t add(struct journal *journal, uint64_t k)
{
    uint64_t sequence = 0;
    CHECK_OK(append_add(journal, k, &sequence, NULL));
    return sequence;
}

/* The result of reading the journal: the IDs of the adds, in order, and the number of gaps. */
enum { HEARD_MAX = 1 << 16 };

struct heard {
    uint64_t numbers[HEARD_MAX];
    size_t n;
    uint64_t gaps;
};

static bg_err hear(void *context, uint64_t sequence,
                   const struct journal_record *record, bg_errinfo *info)
{
    struct heard *heard = context;
    (void)sequence, (void)info;
    heard->gaps += record->type == JOURNAL_GAP;
    if (record->type == JOURNAL_CHANGE) {
        CHECK(heard->n < HEARD_MAX);
        CHECK_EQ(record->change.n, 1);
        CHECK_EQ(record->change.hashes[0], hash_of(record->id));
        heard->numbers[heard->n++] = record->id;
    }
    return BG_OK;
}

static struct heard heard;

static struct journal_report read_all(const char *folder)
{
    struct journal_report report;
    bg_errinfo why;
    heard.n = 0;
    heard.gaps = 0;
    if (journal_read(folder, false, hear, &heard, &report, &why)) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    return report;
}

/* Checks that adds 0 to n - 1 were read, in order. */
static void check_heard(uint64_t n)
{
    CHECK_EQ(heard.n, n);
    for (size_t i = 0; i < heard.n; i++) {
        CHECK_EQ(heard.numbers[i], i);
    }
}

static char *segment_path(uint64_t number)
{
    char name[64];
    (void)snprintf(name, sizeof name, "journal-%020llu.log",
                   (unsigned long long)number);
    return files_path(name);
}

static uint64_t size_of(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 ? (uint64_t)about.st_size : UINT64_MAX;
}

/* Makes one system call fail after `after` successful calls. */
static void fail_call(enum disk_fault fault, unsigned long after)
{
    disk.calls = 0;
    disk.at = 1 + after;
    disk.fault = fault;
}

/* ---- Round trips --------------------------------------------------------------------- */

TEST(journal__what_is_appended_comes_back)
{
    for (int policy = JOURNAL_ALWAYS; policy <= JOURNAL_NO; policy++) {
        uint64_t k = 0;
        for (int life = 0; life < 3; life++) {
            struct journal *journal = open_policy((enum journal_policy)policy);
            for (int i = 0; i < 50; i++, k++) {
                CHECK_EQ(add(journal, k), k + 1 + (uint64_t)life); /* plus marks */
            }
            must_close(journal);
            struct journal_report report = read_all(files_folder());
            CHECK(report.clean);
            CHECK_EQ(report.dropped, 0);
            CHECK_EQ(report.segments, (unsigned)life + 1);
            CHECK_EQ(report.next, k + (uint64_t)life + 2);
            check_heard(k);
        }
        files_clean();
    }
}

static bg_err count_records(void *context, uint64_t sequence,
                            const struct journal_record *record, bg_errinfo *info)
{
    unsigned *counts = context;
    (void)info;
    if (record->type != JOURNAL_MARK) {
        CHECK_EQ(sequence, 1); /* all records belong to one frame */
        CHECK_EQ(record->type, counts[0] % 2 ? JOURNAL_CREATE : JOURNAL_DROP);
        counts[0]++;
    }
    return BG_OK;
}

TEST(journal__records_of_one_append_are_one_frame)
{
    struct journal *journal = open_policy(JOURNAL_NO);
    struct journal_record records[8];
    unsigned count = 0;
    for (unsigned i = 0; i < 8; i++) {
        records[i] =
            (struct journal_record){ .type = i % 2 ? JOURNAL_CREATE : JOURNAL_DROP,
                                     .id = i };
    }
    CHECK_OK(journal_append(journal, records, 8, NULL, NULL));
    CHECK_EQ(journal_next(journal), 2);
    must_close(journal);
    CHECK_OK(journal_read(files_folder(), false, count_records, &count, NULL, NULL));
    CHECK_EQ(count, 8);
    files_clean();
}

TEST(journal__the_longest_frames_and_no_longer_ones)
{
    struct journal *journal = open_policy(JOURNAL_NO);
    const size_t most = JOURNAL_PAYLOAD_MAX - 24;
    char *key = calloc(1, most + 1);
    CHECK(key);
    bg_bytes keys = { key, most + 1 };
    struct journal_record record = {
        .type = JOURNAL_CHANGE, .change = { .op = CHANGE_ADD, .n = 1, .keys = &keys }
    };
    bg_errinfo why;
    CHECK_EQ(journal_append(journal, &record, 1, NULL, &why), BG_EQUOTA);
    keys.len = most;
    for (int i = 0; i < 5; i++) { /* appends more bytes than the buffer can hold */
        CHECK_OK(journal_append(journal, &record, 1, NULL, &why));
    }
    struct journal_record two[2] = { record, { .type = JOURNAL_MARK } };
    CHECK_EQ(journal_append(journal, two, 2, NULL, &why), BG_EQUOTA);
    CHECK_EQ(journal_append(journal, two, 0, NULL, &why), BG_EINVAL);
    must_close(journal);
    struct journal_report report;
    CHECK_OK(journal_read(files_folder(), false, NULL, NULL, &report, NULL));
    CHECK_EQ(report.frames, 6);
    free(key);
    files_clean();
}

TEST(journal__a_small_buffer_is_written_when_it_is_full)
{
    struct journal_options how = { .policy = JOURNAL_NO, .buffer = 512 };
    struct journal *journal = must_open(files_folder(), &how, NULL);
    bg_errinfo why;
    for (uint64_t k = 0; k < 1000; k++) {
        (void)add(journal, k);
        CHECK(state_of(journal).waiting <= 512);
    }
    CHECK(state_of(journal).writes >= 1000 * FRAME / 512);
    char name[300] = "";
    struct journal_record record = { .type = JOURNAL_RENAME, .name = { name, 300 } };
    CHECK_EQ(journal_append(journal, &record, 1, NULL, &why), BG_EQUOTA);
    must_close(journal);
    (void)read_all(files_folder());
    check_heard(1000);
    files_clean();
}

TEST(journal__calls_in_the_wrong_order_are_refused)
{
    struct journal *journal = NULL, *second = NULL;
    struct journal_options how = { .policy = (enum journal_policy)3 };
    bg_errinfo why;
    CHECK_EQ(journal_open(files_path("none"), NULL, &journal, &why), BG_EIO);
    CHECK_EQ(why.os_errno, ENOENT);
    CHECK(journal == NULL);
    CHECK_EQ(journal_open("", NULL, &journal, &why), BG_EINVAL);
    CHECK_EQ(journal_open(files_folder(), &how, &journal, &why), BG_EINVAL);
    CHECK_OK(journal_open(files_folder(), NULL, &journal, &why));
    CHECK_EQ(append_add(journal, 1, NULL, &why), BG_EINVAL);
    CHECK_EQ(journal_rotate(journal, NULL, &why), BG_EINVAL);
    CHECK_EQ(journal_start(journal, NULL, NULL, &why), BG_EINVAL);
    CHECK_OK(journal_flush(journal, &why)); /* there is nothing to write */
    CHECK_OK(journal_begin(journal, NULL, &why));
    CHECK_EQ(journal_begin(journal, NULL, &why), BG_EINVAL);
    CHECK_EQ(journal_replay(journal, NULL, NULL, NULL, &why), BG_EINVAL);
    CHECK_EQ(journal_reopen(journal, NULL, NULL, &why), BG_EINVAL);
    CHECK_OK(journal_start(journal, NULL, NULL, &why));
    CHECK_EQ(journal_start(journal, NULL, NULL, &why), BG_EINVAL);
    journal_stop(journal);
    journal_stop(journal);
    CHECK_OK(journal_start(journal, NULL, NULL, &why));
    CHECK_EQ(journal_open(files_folder(), NULL, &second, &why), BG_EBUSY);
    CHECK(second == NULL);
    must_close(journal);
    CHECK_OK(journal_open(files_folder(), NULL, &second, &why));
    /* closing the journal without calling journal_begin changes no file */
    must_close(second);
    CHECK_OK(journal_close(NULL, NULL));
    CHECK_EQ(read_all(files_folder()).segments, 1);
    files_clean();
}

TEST(journal__it_can_be_replayed_as_often_as_one_likes)
{
    struct journal *journal = open_policy(JOURNAL_NO);
    struct journal_report report;
    for (uint64_t k = 0; k < 10; k++) {
        (void)add(journal, k);
    }
    must_close(journal);
    CHECK_OK(journal_open(files_folder(), NULL, &journal, NULL));
    for (int turn = 0; turn < 3; turn++) {
        heard.n = 0;
        CHECK_OK(journal_replay(journal, hear, &heard, &report, NULL));
        check_heard(10);
    }
    CHECK_OK(journal_begin(journal, &report, NULL));
    CHECK_EQ(report.frames, 11);
    CHECK_EQ(add(journal, 10), 12);
    must_close(journal);
    (void)read_all(files_folder());
    check_heard(11);
    files_clean();
}

/* ---- Policies ------------------------------------------------------------------------ */

static uint64_t fake_time;

static uint64_t fake_clock(void *context)
{
    (void)context;
    return fake_time;
}

TEST(journal__each_policy_syncs_when_it_says)
{
    const uint64_t second = UINT64_C(1000000000);
    for (int policy = JOURNAL_ALWAYS; policy <= JOURNAL_NO; policy++) {
        struct journal_options how = { .policy = (enum journal_policy)policy,
                                       .clock = fake_clock };
        bool always = policy == JOURNAL_ALWAYS, everysec = policy == JOURNAL_EVERYSEC;
        fake_time = 5 * second;
        struct journal *journal = must_open(files_folder(), &how, NULL);
        unsigned long before = disk.data_syncs;
        (void)add(journal, 0);
        CHECK_EQ(journal_durable(journal), 0);
        /* no frame has been written yet */
        CHECK_EQ(size_of(segment_path(1)), JOURNAL_HEADER);
        CHECK_OK(journal_flush(journal, NULL));
        CHECK_EQ(size_of(segment_path(1)), JOURNAL_HEADER + FRAME);
        CHECK_EQ(journal_durable(journal), always ? 0 : 1);
        fake_time += second - 1;
        (void)add(journal, 1);
        CHECK_OK(journal_tick(journal, NULL));
        CHECK_EQ(size_of(segment_path(1)), JOURNAL_HEADER + 2 * FRAME);
        CHECK_EQ(disk.data_syncs, before);
        fake_time += 1;
        CHECK_OK(journal_tick(journal, NULL)); /* a second has passed */
        CHECK_EQ(disk.data_syncs - before, everysec);
        CHECK_EQ(state_of(journal).synced, everysec ? 2 : 0);
        fake_time += second;
        CHECK_OK(journal_tick(journal, NULL)); /* there is nothing to sync */
        CHECK_EQ(disk.data_syncs - before, everysec);
        (void)add(journal, 2);
        CHECK_OK(journal_sync(journal, NULL));
        CHECK_EQ(state_of(journal).synced, 3);
        CHECK_EQ(journal_durable(journal), 3);
        CHECK_OK(journal_sync(journal, NULL)); /* nor here */
        CHECK_EQ(disk.data_syncs - before, everysec + 1);
        must_close(journal);
        files_clean();
    }
}

TEST(journal__the_policy_can_change)
{
    struct journal *journal = open_policy(JOURNAL_NO);
    (void)add(journal, 0);
    CHECK_OK(journal_flush(journal, NULL));
    CHECK_EQ(journal_durable(journal), 1);
    journal_set_policy(journal, JOURNAL_ALWAYS);
    CHECK_EQ(journal_durable(journal), 0);
    CHECK_OK(journal_sync(journal, NULL));
    CHECK_EQ(journal_durable(journal), 1);
    CHECK_EQ(state_of(journal).policy, JOURNAL_ALWAYS);
    must_close(journal);
    files_clean();
}

/* ---- Segments ------------------------------------------------------------------------ */

TEST(journal__segments_begin_and_go)
{
    struct journal *journal = open_policy(JOURNAL_NO);
    uint64_t first = 0, removed = 9, k = 0;
    for (unsigned s = 0; s < 5; s++) {
        for (unsigned i = 0; i < 10; i++) {
            (void)add(journal, k++);
        }
        CHECK_OK(journal_rotate(journal, &first, NULL));
        CHECK_EQ(first, k + 1);
        CHECK_EQ(state_of(journal).synced, k);
    }
    CHECK_EQ(state_of(journal).segments, 6);
    CHECK_EQ(state_of(journal).segment, 6);
    CHECK_EQ(state_of(journal).bytes, 6 * JOURNAL_HEADER + 50 * FRAME);
    CHECK_OK(journal_remove_before(journal, 1, &removed, NULL));
    CHECK_EQ(removed, 0);
    CHECK_EQ(journal_next(journal), 51); /* nothing was recorded */
    CHECK_OK(journal_remove_before(journal, 10, &removed, NULL));
    CHECK_EQ(removed, 0); /* frame 10 is in the first segment */
    CHECK_OK(journal_remove_before(journal, 30, &removed, NULL));
    CHECK_EQ(removed, 2);
    CHECK_EQ(size_of(segment_path(2)), UINT64_MAX);
    CHECK_EQ(size_of(segment_path(3)), JOURNAL_HEADER + 10 * FRAME);
    struct journal_report report = read_all(files_folder());
    CHECK_EQ(report.first, 21);
    CHECK_EQ(report.keep, 30);
    CHECK_EQ(heard.numbers[0], 20);
    CHECK_OK(journal_remove_before(journal, UINT64_MAX, &removed, NULL));
    CHECK_EQ(removed, 3); /* all segments except the last */
    must_close(journal);
    CHECK_EQ(read_all(files_folder()).segments, 1);
    /* The loss of a segment that the journal did not remove itself is detected. */
    journal = open_policy(JOURNAL_NO);
    (void)add(journal, 99);
    must_close(journal);
    CHECK(unlink(segment_path(6)) == 0);
    bg_errinfo why;
    CHECK_EQ(journal_read(files_folder(), false, NULL, NULL, NULL, &why), BG_EFORMAT);
    files_clean();
}

/* Segments are removed one at a time, and the directory is synced after each removal. Otherwise, a
 * power failure could leave a gap. */
TEST(journal__segments_go_one_after_the_other)
{
    struct journal *journal = open_policy(JOURNAL_NO);
    uint64_t first = 0, removed = 0;
    bg_errinfo why;
    for (uint64_t k = 0; k < 3; k++) {
        (void)add(journal, k);
        CHECK_OK(journal_rotate(journal, &first, NULL));
    }
    /* makes the last of these calls fail: write, sync, unlink, open the directory, sync the
     * directory */
    fail_call(DISK_EIO, 4);
    CHECK_EQ(journal_remove_before(journal, first, &removed, &why), BG_EIO);
    disk.at = 0;
    CHECK_STR(why.what, "fsync");
    CHECK_EQ(removed, 0);
    CHECK_EQ(size_of(segment_path(1)), UINT64_MAX);
    CHECK(size_of(segment_path(2)) != UINT64_MAX);
    CHECK_OK(journal_remove_before(journal, first, &removed, &why)); /* again */
    CHECK_EQ(removed, 3);
    must_close(journal);
    CHECK_EQ(read_all(files_folder()).segments, 1);
    files_clean();
}

TEST(journal__other_files_are_left_alone)
{
    static const char *const names[] = { "journal-1.log",
                                         "journal-.log",
                                         "7.bg",
                                         "journal-00000000000000000000.log",
                                         "journal-00000000000000000002.log.bak",
                                         "journal-0000000000000000000x.log",
                                         "journal-99999999999999999999.log" };
    const size_t n = sizeof names / sizeof names[0];
    for (size_t i = 0; i < n; i++) {
        FILE *file = fopen(files_path(names[i]), "w");
        CHECK(file && fclose(file) == 0);
    }
    FILE *torn = fopen(files_path("journal-00000000000000000009.log.tmp"), "w");
    CHECK(torn && fclose(torn) == 0);
    struct journal *journal = open_policy(JOURNAL_NO);
    (void)add(journal, 0);
    must_close(journal);
    CHECK_EQ(read_all(files_folder()).segments, 1);
    for (size_t i = 0; i < n; i++) {
        CHECK(access(files_path(names[i]), F_OK) == 0);
    }
    CHECK(access(files_path("journal-00000000000000000009.log.tmp"), F_OK) != 0);
    files_clean();
}

/* ---- Tails and damage ---------------------------------------------------------------- */

/* Creates a journal left by a process that died after writing ten adds, of which the first `synced`
 * had been synced. */
static void make_dead(enum journal_policy policy, unsigned synced)
{
    /* creates the directory before the fork, so that both processes use it */
    (void)files_folder();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct journal *journal = open_policy(policy);
        for (uint64_t k = 0; k < 10; k++) {
            (void)add(journal, k);
            if (k + 1 == synced && journal_sync(journal, NULL)) {
                _exit(1);
            }
        }
        _exit(journal_flush(journal, NULL) != BG_OK);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(journal__a_torn_tail_is_cut_off)
{
    for (uint64_t cut = 0; cut <= 3 * FRAME; cut += cut < 3 ? 1 : 19) {
        make_dead(JOURNAL_NO, 0);
        struct journal_report report = read_all(files_folder());
        CHECK(!report.clean);
        check_heard(10);
        uint64_t end = JOURNAL_HEADER + 10 * FRAME - cut;
        uint64_t left = (end - JOURNAL_HEADER) / FRAME;
        CHECK(truncate(segment_path(1), (off_t)end) == 0);
        struct journal *journal = must_open(files_folder(), NULL, &report);
        CHECK_EQ(report.next, left + 1);
        CHECK_EQ(report.dropped, end - JOURNAL_HEADER - left * FRAME);
        CHECK_EQ(size_of(segment_path(1)), JOURNAL_HEADER + left * FRAME);
        CHECK_EQ(add(journal, left), left + 1);
        must_close(journal);
        report = read_all(files_folder());
        CHECK_EQ(report.dropped, 0);
        CHECK_EQ(report.segments, 2);
        check_heard(left + 1);
        files_clean();
    }
}

static void flip(const char *path, uint64_t at)
{
    unsigned char byte = 0;
    int file = open(path, O_RDWR);
    CHECK(file >= 0 && pread(file, &byte, 1, (off_t)at) == 1);
    byte ^= 0x10;
    CHECK(pwrite(file, &byte, 1, (off_t)at) == 1);
    (void)close(file);
}

/* Frames that are only in the page cache must not be reported as synced. Otherwise, their loss
 * would be treated as damage. */
TEST(journal__written_is_not_synced)
{
    (void)files_folder();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct journal *journal = open_policy(JOURNAL_EVERYSEC);
        for (uint64_t k = 0; k < 3; k++) {
            (void)add(journal, k);
            if (journal_flush(journal, NULL)) {
                _exit(1);
            }
        }
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_EQ(read_all(files_folder()).synced, 0);
    check_heard(3);
    files_clean();
}

/* Frames removed by truncation are never accepted again, even if they reappear in another segment.
 * */
TEST(journal__frames_of_another_run_are_not_believed)
{
    unsigned char old[FRAME];
    make_dead(JOURNAL_NO, 0);
    int file = open(segment_path(1), O_RDWR);
    CHECK(file >= 0);
    CHECK(pread(file, old, FRAME, JOURNAL_HEADER + 9 * FRAME) == FRAME);
    CHECK(ftruncate(file, JOURNAL_HEADER + 9 * FRAME) == 0); /* frame 10 is cut off */
    (void)close(file);
    /* writes a MARK (a record of the clean close) as the new frame 10 */
    must_close(open_policy(JOURNAL_NO));
    file = open(segment_path(2), O_RDWR);
    CHECK(file >= 0 && pwrite(file, old, FRAME, JOURNAL_HEADER) == FRAME);
    (void)close(file);
    struct journal_report report = read_all(files_folder());
    check_heard(9);
    CHECK_EQ(report.next, 10);
    CHECK_EQ(report.dropped, FRAME);
    files_clean();
}

/* The range of bytes that were rewritten in the first segment, and the segment's inode. */
static uint64_t rewritten_from, rewritten_to, rewritten_inode;

static void note_write(int file, off_t at, size_t n)
{
    struct stat about;
    CHECK(fstat(file, &about) == 0);
    if (about.st_ino == rewritten_inode) {
        CHECK(rewritten_to == 0 || rewritten_to == (uint64_t)at);
        rewritten_from = rewritten_to ? rewritten_from : (uint64_t)at;
        rewritten_to = (uint64_t)at + n;
    }
}

/* A sync may have failed before the process died. In this case, the affected pages are marked clean
 * in the page cache, but are not on disk. They are written again before anything depends on
 * them. */
TEST(journal__what_nobody_knows_to_be_synced_is_written_again)
{
    for (unsigned synced = 0; synced <= 8; synced += 4) {
        struct stat about;
        make_dead(JOURNAL_NO, synced);
        CHECK(stat(segment_path(1), &about) == 0);
        CHECK(truncate(segment_path(1), about.st_size - 5) == 0); /* frame 10 is torn */
        rewritten_inode = about.st_ino;
        rewritten_from = rewritten_to = 0;
        disk.on_write = note_write;
        unsigned long syncs = disk.data_syncs;
        struct journal *journal = open_policy(JOURNAL_NO);
        disk.on_write = NULL;
        /* syncs the old segment, the new segment, and the copy of its header in the lock file */
        CHECK_EQ(disk.data_syncs, syncs + 3);
        CHECK(rewritten_from <= JOURNAL_HEADER + (uint64_t)synced * FRAME);
        CHECK_EQ(rewritten_to, JOURNAL_HEADER + 9 * FRAME);
        must_close(journal);
        (void)read_all(files_folder());
        check_heard(9);
        files_clean();
    }
}

/* An invalid frame followed by valid frames is treated as damage if a later frame records that it
 * was synced, and as a torn tail otherwise. */
TEST(journal__damage_is_an_error_and_changes_nothing)
{
    for (unsigned synced = 0; synced <= 10; synced += 5) {
        const uint64_t bad = 3;
        make_dead(JOURNAL_NO, synced);
        flip(segment_path(1), JOURNAL_HEADER + bad * FRAME + 40);
        struct journal *journal = NULL;
        struct journal_report report;
        bg_errinfo why;
        CHECK_OK(journal_open(files_folder(), NULL, &journal, &why));
        bg_err err = journal_begin(journal, &report, &why);
        /* Only if `synced` is 5 does a later frame record that the invalid frame was synced. */
        CHECK_EQ(err, synced == 5 ? BG_ECHECKSUM : BG_OK);
        if (err) {
            CHECK(strstr(why.message, "journal-00000000000000000001.log at byte 244"));
            CHECK_EQ(size_of(segment_path(1)), JOURNAL_HEADER + 10 * FRAME);
            CHECK_EQ(size_of(segment_path(2)), UINT64_MAX);
            CHECK_EQ(append_add(journal, 1, NULL, &why), BG_EINVAL);
        } else {
            CHECK_EQ(report.behind, 6);
            CHECK_EQ(report.next, bad + 1);
            CHECK_EQ(size_of(segment_path(1)), JOURNAL_HEADER + bad * FRAME);
        }
        CHECK_EQ(journal_close(journal, NULL), BG_OK);
        files_clean();
    }
}

TEST(journal__one_can_go_on_beyond_damage)
{
    struct journal_options how = { .policy = JOURNAL_ALWAYS, .beyond_damage = true };
    struct journal *journal = NULL;
    struct journal_report report;
    bg_errinfo why;
    make_dead(JOURNAL_NO, 5);
    flip(segment_path(1), JOURNAL_HEADER + 3 * FRAME + 40);
    CHECK_OK(journal_open(files_folder(), &how, &journal, &why));
    heard.n = heard.gaps = 0;
    CHECK_OK(journal_replay(journal, hear, &heard, &report, &why));
    CHECK_EQ(heard.n, 9);
    CHECK_EQ(heard.gaps, 1);
    CHECK_EQ(heard.numbers[3], 4);
    CHECK_EQ(report.damages, 1);
    CHECK_OK(journal_begin(journal, NULL, &why));
    CHECK_EQ(add(journal, 10), 11);
    must_close(journal);
    /* The journal stays damaged until the old segments are removed. */
    CHECK_EQ(journal_read(files_folder(), false, NULL, NULL, NULL, &why), BG_ECHECKSUM);
    journal = must_open(files_folder(), &how, &report);
    CHECK_EQ(report.damages, 1);
    uint64_t first;
    CHECK_OK(journal_rotate(journal, &first, &why));
    CHECK_OK(journal_remove_before(journal, first, NULL, &why));
    must_close(journal);
    CHECK_EQ(read_all(files_folder()).damages, 0);
    files_clean();
}

/* After a clean close, each frame except the last is recorded as synced by a later frame. */
TEST(journal__after_an_orderly_end_every_flip_is_noticed)
{
    struct journal *journal = open_policy(JOURNAL_NO);
    for (uint64_t k = 0; k < 5; k++) {
        (void)add(journal, k);
    }
    must_close(journal);
    const uint64_t end = JOURNAL_HEADER + 5 * FRAME;
    for (uint64_t at = 0; at < end + JOURNAL_HEAD + JOURNAL_RECORD_HEAD; at++) {
        struct journal_report report;
        flip(segment_path(1), at);
        bg_err err = journal_read(files_folder(), false, NULL, NULL, &report, NULL);
        flip(segment_path(1), at);
        if (at < end) {
            CHECK(err == BG_ECHECKSUM || err == BG_EFORMAT || err == BG_EVERSION);
        } else {
            CHECK_OK(err);
            CHECK(!report.clean);
            CHECK_EQ(report.next, 6);
        }
    }
    files_clean();
}

/* ---- Threads ------------------------------------------------------------------------- */

enum { THREADS = 8 };

struct worker {
    pthread_t thread;
    struct journal *journal;
    uint64_t number, rounds;
    bool flushes, syncs;
    uint64_t last;
};

/* Appends records. The number of a record encodes the thread and the record's index in that
 * thread. */
static void *work(void *argument)
{
    struct worker *me = argument;
    for (uint64_t i = 0; i < me->rounds; i++) {
        uint64_t sequence = add(me->journal, me->number << 32 | i);
        CHECK(sequence > me->last);
        me->last = sequence;
        if (me->syncs) {
            CHECK_OK(journal_sync(me->journal, NULL));
            CHECK(journal_durable(me->journal) >= sequence);
        } else if (me->flushes && i % 8 == 7) {
            CHECK_OK(journal_flush(me->journal, NULL));
            CHECK(state_of(me->journal).written >= sequence);
        }
    }
    return NULL;
}

static void run_workers(struct worker workers[THREADS], struct journal *journal,
                        uint64_t rounds, bool flushes, bool syncs)
{
    for (uint64_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .journal = journal,
                                      .number = i,
                                      .rounds = rounds,
                                      .flushes = flushes,
                                      .syncs = syncs };
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
}

static void join_workers(struct worker workers[THREADS])
{
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(workers[i].thread, NULL) == 0);
    }
}

/* Checks that every worker's adds are all present, in the order in which they were appended. */
static void check_workers(uint64_t rounds)
{
    uint64_t next[THREADS] = { 0 };
    CHECK_EQ(heard.n, THREADS * rounds);
    for (size_t i = 0; i < heard.n; i++) {
        uint64_t who = heard.numbers[i] >> 32;
        CHECK(who < THREADS);
        CHECK_EQ(heard.numbers[i] & UINT32_MAX, next[who]);
        next[who]++;
    }
}

/* The latest report from the journal's thread, and the number of reports. */
struct listener {
    pthread_mutex_t lock;
    pthread_cond_t news;
    uint64_t durable;
    bg_errinfo failure;
    unsigned calls;
    struct journal *journal;
};

static void listener_init(struct listener *listener, struct journal *journal)
{
    *listener = (struct listener){ .journal = journal };
    CHECK(pthread_mutex_init(&listener->lock, NULL) == 0);
    CHECK(pthread_cond_init(&listener->news, NULL) == 0);
}

static void listen(void *context, uint64_t durable, const bg_errinfo *failure)
{
    struct listener *listener = context;
    (void)pthread_mutex_lock(&listener->lock);
    CHECK(durable >= listener->durable); /* in order */
    CHECK(journal_durable(listener->journal) >= durable);
    listener->durable = durable;
    listener->failure = *failure;
    listener->calls++;
    (void)pthread_cond_broadcast(&listener->news);
    (void)pthread_mutex_unlock(&listener->lock);
}

static void wait_durable(struct listener *listener, uint64_t sequence)
{
    (void)pthread_mutex_lock(&listener->lock);
    while (listener->durable < sequence && !listener->failure.code) {
        (void)pthread_cond_wait(&listener->news, &listener->lock);
    }
    (void)pthread_mutex_unlock(&listener->lock);
}

static void wait_failure(struct listener *listener, bg_err code)
{
    (void)pthread_mutex_lock(&listener->lock);
    while (listener->failure.code != code) {
        (void)pthread_cond_wait(&listener->news, &listener->lock);
    }
    (void)pthread_mutex_unlock(&listener->lock);
}

TEST(journal__threads_append_whole_frames_in_their_order)
{
    const uint64_t rounds = 300 * check_scale() < 8000 ? 300 * check_scale() : 8000;
    for (int turn = 0; turn < 6; turn++) {
        enum journal_policy policy = (enum journal_policy)(turn % 3);
        struct journal_options how = { .policy = policy, .buffer = 4096 };
        struct worker workers[THREADS];
        struct listener listener;
        struct journal *journal = must_open(files_folder(), &how, NULL);
        listener_init(&listener, journal);
        if (turn < 3) {
            CHECK_OK(journal_start(journal, listen, &listener, NULL));
        }
        run_workers(workers, journal, rounds, true, false);
        for (int i = 0; i < 5; i++) { /* starts new segments while the workers append */
            CHECK_OK(journal_rotate(journal, NULL, NULL));
            CHECK_OK(journal_tick(journal, NULL));
        }
        join_workers(workers);
        if (turn == 0) {
            wait_durable(&listener, THREADS * rounds);
        }
        CHECK_OK(journal_sync(journal, NULL));
        struct journal_state state = state_of(journal);
        CHECK_EQ(state.next, THREADS * rounds + 1);
        CHECK_EQ(state.synced, THREADS * rounds);
        CHECK_EQ(state.waiting, 0);
        CHECK_EQ(state.segments, 6);
        must_close(journal);
        struct journal_report report = read_all(files_folder());
        CHECK_EQ(report.segments, 6);
        check_workers(rounds);
        files_clean();
    }
}

/* Delays the first sync until every thread has appended a record. */
static struct journal *slow_journal;

static void slow_first_sync(void)
{
    while (__atomic_load_n(&disk.data_syncs, __ATOMIC_RELAXED) == 1
           && journal_next(slow_journal) <= THREADS) {
        (void)usleep(100);
    }
}

TEST(journal__threads_share_the_next_sync)
{
    struct worker workers[THREADS];
    slow_journal = open_policy(JOURNAL_ALWAYS);
    disk.data_syncs = 0;
    disk.on_sync = slow_first_sync;
    run_workers(workers, slow_journal, 1, false, true);
    join_workers(workers);
    disk.on_sync = NULL;
    struct journal_state state = state_of(slow_journal);
    CHECK_EQ(state.synced, THREADS);
    CHECK(state.syncs <= 2); /* one sync for the first frame, and one for all others */
    CHECK(state.writes <= 2);
    must_close(slow_journal);
    files_clean();
}

TEST(journal__the_thread_syncs_in_groups)
{
    struct worker workers[THREADS];
    struct listener listener;
    slow_journal = open_policy(JOURNAL_ALWAYS);
    listener_init(&listener, slow_journal);
    disk.data_syncs = 0;
    disk.on_sync = slow_first_sync;
    CHECK_OK(journal_start(slow_journal, listen, &listener, NULL));
    run_workers(workers, slow_journal, 50, false, false);
    join_workers(workers);
    wait_durable(&listener, THREADS * 50);
    disk.on_sync = NULL;
    struct journal_state state = state_of(slow_journal);
    CHECK_EQ(state.synced, THREADS * 50);
    CHECK(state.syncs < THREADS * 50);
    CHECK(listener.calls <= state.syncs);
    must_close(slow_journal);
    files_clean();
}

/* Appends a record during a write or a sync, as another thread would. */
static void add_during_write(int file, off_t at, size_t n)
{
    (void)file, (void)at, (void)n;
    (void)add(slow_journal, journal_next(slow_journal) - 1);
}

static void add_during_sync(void)
{
    add_during_write(0, 0, 0);
}

TEST(journal__what_comes_meanwhile_is_not_promised)
{
    slow_journal = open_policy(JOURNAL_ALWAYS);
    (void)add(slow_journal, 0);
    disk.on_write = add_during_write;
    disk.on_sync = add_during_sync;
    CHECK_OK(journal_sync(slow_journal, NULL));
    CHECK_EQ(journal_next(slow_journal), 4);
    CHECK_EQ(journal_durable(slow_journal), 1);
    CHECK_EQ(state_of(slow_journal).written, 1);
    CHECK_OK(journal_sync(slow_journal, NULL));
    CHECK_EQ(journal_durable(slow_journal), 3);
    /* writing the new segment's header also calls add_during_write */
    CHECK_OK(journal_rotate(slow_journal, NULL, NULL));
    disk.on_write = NULL;
    disk.on_sync = NULL;
    uint64_t next = journal_next(slow_journal);
    must_close(slow_journal);
    (void)read_all(files_folder());
    check_heard(next - 1);
    files_clean();
}

/* The size of the first segment when the last sync started. Bytes beyond this size might not be
 * synced. */
static _Atomic uint64_t promised_bytes;

static void note_size(void)
{
    char path[512];
    struct stat about;
    (void)snprintf(path, sizeof path, "%s/journal-00000000000000000001.log",
                   files_folder());
    if (stat(path, &about) == 0) {
        uint64_t size = (uint64_t)about.st_size, before = atomic_load(&promised_bytes);
        while (before < size
               && !atomic_compare_exchange_weak(&promised_bytes, &before, size)) {
        }
    }
}

TEST(journal__durable_is_never_ahead_of_the_disk)
{
    for (int policy = JOURNAL_ALWAYS; policy <= JOURNAL_NO; policy++) {
        struct journal_options how = { .policy = (enum journal_policy)policy,
                                       .buffer = 2048 };
        struct worker workers[THREADS];
        struct journal *journal = must_open(files_folder(), &how, NULL);
        CHECK_OK(journal_start(journal, NULL, NULL, NULL));
        atomic_store(&promised_bytes, JOURNAL_HEADER);
        disk.on_sync = note_size;
        run_workers(workers, journal, 500, true, false);
        uint64_t durable = 0, looks = 0;
        while (durable < THREADS * 500) {
            durable = journal_durable(journal);
            uint64_t bytes = policy == JOURNAL_ALWAYS ? atomic_load(&promised_bytes)
                                                      : size_of(segment_path(1));
            CHECK(JOURNAL_HEADER + durable * FRAME <= bytes);
            looks++;
            if (policy != JOURNAL_ALWAYS && journal_next(journal) > THREADS * 500) {
                CHECK_OK(journal_flush(journal, NULL));
            }
        }
        join_workers(workers);
        CHECK(looks > 1);
        must_close(journal);
        disk.on_sync = NULL;
        (void)read_all(files_folder());
        check_workers(500);
        files_clean();
    }
}

TEST(journal__the_thread_works_under_every_policy)
{
    struct listener listener;
    struct journal *journal = open_policy(JOURNAL_NO);
    listener_init(&listener, journal);
    CHECK_OK(journal_start(journal, listen, &listener, NULL));
    (void)add(journal, 0);
    wait_durable(&listener, 1); /* the frame is written within a second */
    CHECK_EQ(state_of(journal).synced, 0);
    journal_set_policy(journal, JOURNAL_EVERYSEC);
    (void)add(journal, 1);
    wait_durable(&listener, 2);
    CHECK(state_of(journal).written >= 2);
    journal_set_policy(journal, JOURNAL_ALWAYS);
    (void)add(journal, 2);
    wait_durable(&listener, 3);
    CHECK_EQ(state_of(journal).synced, 3);
    must_close(journal);
    (void)read_all(files_folder());
    check_heard(3);
    files_clean();
}

TEST(journal__the_thread_tells_what_others_synced_before_it_ran)
{
    /* the simulated syncs return immediately, so the journal's thread usually runs after them */
    disk.patient = true;
    for (int i = 0; i < 100; i++) {
        struct listener listener;
        struct journal *journal = open_policy(JOURNAL_ALWAYS);
        listener_init(&listener, journal);
        CHECK_OK(journal_start(journal, listen, &listener, NULL));
        (void)add(journal, 0);
        CHECK_OK(journal_sync(journal, NULL));
        wait_durable(&listener, 1);
        must_close(journal);
        files_clean();
    }
    disk.patient = false;
}

/* ---- A disk that is full or fails ---------------------------------------------------- */

TEST(journal__a_full_disk_can_be_emptied)
{
    static const enum disk_fault faults[] = { DISK_ENOSPC, DISK_HALF_FULL };
    for (int i = 0; i < 2; i++) {
        struct journal *journal = open_policy(JOURNAL_NO);
        bg_errinfo why;
        (void)add(journal, 0);
        CHECK_OK(journal_flush(journal, NULL));
        /* in the service, the filter already contains this key, so the record must not be lost */
        (void)add(journal, 1);
        (void)add(journal, 2);
        fail_call(faults[i], 0);
        CHECK_EQ(journal_flush(journal, &why), BG_EIO);
        disk.at = 0;
        CHECK_EQ(why.os_errno, ENOSPC);
        CHECK_EQ(size_of(segment_path(1)), JOURNAL_HEADER + FRAME);
        CHECK_EQ(journal_durable(journal), 1);
        struct journal_state state = state_of(journal);
        CHECK_EQ(state.failure.os_errno, ENOSPC);
        CHECK(!state.failed);
        CHECK_EQ(append_add(journal, 3, NULL, &why), BG_EIO); /* refused for now */
        CHECK_EQ(why.os_errno, ENOSPC);
        CHECK_EQ(journal_next(journal), 4);
        fail_call(DISK_ENOSPC, 0);
        CHECK_EQ(journal_sync(journal, &why), BG_EIO); /* still full */
        disk.at = 0;
        CHECK_OK(journal_flush(journal, &why)); /* there is space */
        CHECK_EQ(state_of(journal).failure.code, BG_OK);
        CHECK_EQ(journal_durable(journal), 3);
        CHECK_EQ(add(journal, 3), 4);
        must_close(journal);
        (void)read_all(files_folder());
        check_heard(4);
        files_clean();
    }
}

TEST(journal__the_thread_tries_a_full_disk_again)
{
    struct listener listener;
    struct journal *journal = open_policy(JOURNAL_ALWAYS);
    listener_init(&listener, journal);
    fail_call(DISK_ENOSPC, 0);
    CHECK_OK(journal_start(journal, listen, &listener, NULL));
    (void)add(journal, 0);
    wait_failure(&listener, BG_EIO);
    CHECK_EQ(listener.failure.os_errno, ENOSPC);
    wait_failure(&listener, BG_OK);
    wait_durable(&listener, 1);
    disk.at = 0;
    CHECK_EQ(add(journal, 1), 2);
    wait_durable(&listener, 2);
    must_close(journal);
    (void)read_all(files_folder());
    check_heard(2);
    files_clean();
}

TEST(journal__an_append_that_has_to_write_says_that_it_cannot)
{
    struct journal_options how = { .policy = JOURNAL_NO, .buffer = 512 };
    struct journal *journal = must_open(files_folder(), &how, NULL);
    bg_errinfo why;
    uint64_t k = 0;
    fail_call(DISK_ENOSPC, 0);
    while (append_add(journal, k, NULL, &why) == BG_OK) {
        CHECK(++k < 20);
    }
    disk.at = 0;
    CHECK_EQ(why.os_errno, ENOSPC);
    CHECK_EQ(journal_next(journal), k + 1); /* nothing was appended */
    CHECK_OK(journal_flush(journal, &why));
    CHECK_EQ(add(journal, k), k + 1);
    must_close(journal);
    (void)read_all(files_folder());
    check_heard(k + 1);
    files_clean();
}

/* Writes empty manifests. `context` points to the number of manifests. Returns BG_ECANCELED if that
 * number is 0. */
static bg_err fill(void *context, struct journal_draft *draft, bg_errinfo *info)
{
    struct journal_record records[2] = { { .type = JOURNAL_MANIFEST_BEGIN },
                                         { .type = JOURNAL_MANIFEST_END } };
    const uint64_t *number = context;
    for (uint64_t i = 0; i < *number; i++) {
        bg_err err = journal_draft_append(draft, records, 2, info);
        if (err) {
            return err;
        }
    }
    return *number ? BG_OK : BG_ECANCELED;
}

static void check_failed(struct journal *journal, int code)
{
    bg_errinfo why;
    CHECK_EQ(append_add(journal, 99, NULL, &why), BG_EIO);
    CHECK_EQ(why.os_errno, code);
    CHECK_EQ(journal_flush(journal, &why), BG_EIO);
    CHECK_EQ(journal_sync(journal, &why), BG_EIO);
    CHECK_EQ(journal_tick(journal, &why), BG_EIO);
    CHECK_EQ(journal_rotate(journal, NULL, &why), BG_EIO);
    CHECK_EQ(why.os_errno, code);
    CHECK(state_of(journal).failed);
}

TEST(journal__a_failed_sync_is_never_tried_again)
{
    struct journal *journal = open_policy(JOURNAL_ALWAYS);
    uint64_t number = 0;
    bg_errinfo why;
    (void)add(journal, 0);
    CHECK_OK(journal_sync(journal, NULL));
    (void)add(journal, 1);
    fail_call(DISK_EIO, 1); /* the write succeeds, but the sync fails */
    CHECK_EQ(journal_sync(journal, &why), BG_EIO);
    disk.at = 0;
    CHECK_EQ(why.os_errno, EIO);
    CHECK_STR(why.what, "fdatasync");
    unsigned long syncs = disk.data_syncs;
    check_failed(journal, EIO);
    CHECK_EQ(disk.data_syncs, syncs);
    CHECK_EQ(journal_durable(journal), 1);
    /* journal_reopen starts a new segment and records that all content is in base files. */
    CHECK_EQ(journal_next(journal), 3);
    CHECK_EQ(journal_reopen(journal, fill, &number, &why), BG_ECANCELED);
    check_failed(journal, EIO);
    number = 4;
    CHECK_OK(journal_reopen(journal, fill, &number, &why));
    /* earlier records are durable too, because the base files contain their changes */
    CHECK_EQ(journal_durable(journal), 6);
    CHECK_EQ(add(journal, 0), 7);
    CHECK_EQ(state_of(journal).segments, 1);
    must_close(journal);
    struct journal_report report = read_all(files_folder());
    CHECK_EQ(report.first, 3);
    CHECK_EQ(report.segments, 1);
    check_heard(1);
    files_clean();
}

/* If a sync fails, the frames that are still in memory are not written later. Their changes are
 * preserved only in the base files. */
TEST(journal__what_waited_when_a_sync_failed_is_not_written_later)
{
    slow_journal = open_policy(JOURNAL_ALWAYS);
    uint64_t number = 1;
    (void)add(slow_journal, 0);
    fail_call(DISK_EIO, 1);
    disk.on_sync = add_during_sync;
    CHECK_EQ(journal_sync(slow_journal, NULL), BG_EIO);
    disk.on_sync = NULL;
    disk.at = 0;
    CHECK_EQ(journal_next(slow_journal), 3);
    CHECK_OK(journal_reopen(slow_journal, fill, &number, NULL));
    CHECK_EQ(state_of(slow_journal).waiting, 0);
    CHECK_EQ(add(slow_journal, 0), 4);
    must_close(slow_journal);
    CHECK_EQ(read_all(files_folder()).first, 3);
    check_heard(1);
    files_clean();
}

static void check_crossing(enum journal_policy policy)
{
    struct journal *journal = open_policy(policy);
    uint64_t number = 2;
    CHECK_EQ(crossing_fail(journal), BG_EIO);
    CHECK_EQ(journal_durable(journal), policy == JOURNAL_ALWAYS ? 0 : 1);
    check_failed(journal, EIO);
    CHECK_EQ(journal_next(journal), 3); /* no record was accepted after the failure */
    CHECK_OK(journal_reopen(journal, fill, &number, NULL));
    CHECK_EQ(add(journal, 0), 5);
    must_close(journal);
    (void)read_all(files_folder());
    check_heard(1);
    files_clean();
}

TEST(journal__a_write_that_succeeds_does_not_undo_a_failed_sync)
{
    check_crossing(JOURNAL_ALWAYS);
    check_crossing(JOURNAL_EVERYSEC);
    check_crossing(JOURNAL_NO);
}

TEST(journal__a_failed_write_is_an_end)
{
    struct journal *journal = open_policy(JOURNAL_NO);
    bg_errinfo why;
    uint64_t number = 2;
    (void)add(journal, 0);
    CHECK_OK(journal_sync(journal, NULL));
    (void)add(journal, 1);
    fail_call(DISK_EIO, 0);
    CHECK_EQ(journal_flush(journal, &why), BG_EIO);
    disk.at = 0;
    check_failed(journal, EIO);
    CHECK_OK(journal_reopen(journal, fill, &number, &why));
    CHECK_EQ(add(journal, 0), 5);
    must_close(journal);
    (void)read_all(files_folder());
    check_heard(1);
    files_clean();
}

/* The manifest can be longer than the buffer. */
TEST(journal__a_long_manifest_begins_a_fresh_segment)
{
    struct journal_options how = { .policy = JOURNAL_ALWAYS, .buffer = 256 };
    struct journal *journal = must_open(files_folder(), &how, NULL);
    uint64_t number = 500;
    (void)add(journal, 0);
    fail_call(DISK_EIO, 0);
    CHECK_EQ(journal_sync(journal, NULL), BG_EIO);
    disk.at = 0;
    CHECK_OK(journal_reopen(journal, fill, &number, NULL));
    CHECK_EQ(add(journal, 0), 502);
    must_close(journal);
    CHECK_EQ(read_all(files_folder()).records, 1000 + 2);
    check_heard(1);
    files_clean();
}

/* No matter which call fails while a failed journal is reopened, the journal either stays failed or
 * works again, and a reader finds either the old journal or the new journal. */
TEST(journal__coming_back_can_fail_at_every_call)
{
    unsigned long failures = 0;
    for (int fault = DISK_EIO; fault < DISK_FAULTS; fault++) {
        bool came = true;
        for (unsigned long at = 0; came; at++) {
            struct journal *journal = open_policy(JOURNAL_ALWAYS);
            uint64_t number = 3;
            bg_errinfo why;
            (void)add(journal, 0);
            CHECK_OK(journal_sync(journal, NULL));
            CHECK_OK(journal_rotate(journal, NULL, NULL));
            fail_call(DISK_EIO, 0);
            (void)add(journal, 1);
            CHECK_EQ(journal_sync(journal, NULL), BG_EIO);
            fail_call((enum disk_fault)fault, at);
            bg_err err = journal_reopen(journal, fill, &number, &why);
            came = disk.calls >= disk.at;
            disk.at = 0;
            failures += err != BG_OK;
            if (err) {
                CHECK(why.message[0]);
                check_failed(journal, EIO);
                struct journal_report report = read_all(files_folder());
                CHECK(report.first == 1 || report.first == 3);
                CHECK_OK(journal_reopen(journal, fill, &number, &why));
            }
            CHECK_EQ(add(journal, 0), 6);
            must_close(journal);
            CHECK_EQ(read_all(files_folder()).next, 8);
            check_heard(1);
            /* Old segments that could not be removed are removed at the next start. */
            must_close(open_policy(JOURNAL_NO));
            CHECK_EQ(read_all(files_folder()).segments, 2);
            CHECK_EQ(size_of(segment_path(1)), UINT64_MAX);
            files_clean();
        }
    }
    CHECK(failures > 10);
}

TEST(journal__interrupted_calls_are_called_again)
{
    disk.interrupts = true;
    struct journal *journal = open_policy(JOURNAL_ALWAYS);
    for (uint64_t k = 0; k < 3; k++) {
        (void)add(journal, k);
        CHECK_OK(journal_sync(journal, NULL));
    }
    CHECK_OK(journal_rotate(journal, NULL, NULL));
    must_close(journal);
    disk.interrupts = false;
    (void)read_all(files_folder());
    check_heard(3);
    files_clean();
}

TEST(journal__a_segment_whose_name_may_get_lost_is_the_end)
{
    struct journal *journal = open_policy(JOURNAL_ALWAYS);
    bg_errinfo why;
    uint64_t number = 1;
    (void)add(journal, 0);
    CHECK_OK(journal_sync(journal, NULL));
    fail_call(DISK_EIO, 1); /* the write fails, so the old segment stays in use */
    CHECK_EQ(journal_rotate(journal, NULL, &why), BG_EIO);
    disk.at = 0;
    CHECK_EQ(add(journal, 1), 2);
    CHECK_OK(journal_sync(journal, NULL));
    /* makes the last of these calls fail: open, write, sync, rename, open the directory, sync the
     * directory */
    fail_call(DISK_EIO, 5);
    CHECK_EQ(journal_rotate(journal, NULL, &why), BG_EIO);
    disk.at = 0;
    CHECK_STR(why.what, "fsync");
    check_failed(journal, EIO);
    (void)read_all(files_folder());
    check_heard(2);
    /* replaces the segment that the failed rotation created */
    CHECK_OK(journal_reopen(journal, fill, &number, &why));
    must_close(journal);
    CHECK_EQ(read_all(files_folder()).first, 3);
    files_clean();
}

/* ---- A journal whose process dies at any system call --------------------------------- */

/*
 * A catalog with a single object. The object's content is the number of changes and a digest of all
 * changes in order. A checkpoint consists of the same steps as in the service: rotate, save the
 * object (in its manifest entry), write the manifest, sync, and remove old segments.
 */
enum { LIFE = 40 };

struct life {
    uint64_t changes, digest;
    uint64_t from; /* the content includes the changes in all frames before this one */
};

static void life_change(struct life *life, uint64_t hash)
{
    uint64_t state = life->digest ^ hash;
    life->digest = check_random_next(&state);
    life->changes++;
}

/* Returns record i of the manifest, which has 3 records. */
static struct journal_record life_manifest(const struct life *life, unsigned i)
{
    return (struct journal_record){
        .type = (enum journal_type)(JOURNAL_MANIFEST_BEGIN + i),
        .id = 1,
        .name = { "life", 4 },
        .from = life->from,
        .items = life->digest,
        .expansions = life->changes,
        .count = 1,
    };
}

static bg_err life_fill(void *context, struct journal_draft *draft, bg_errinfo *info)
{
    bg_err err = BG_OK;
    for (unsigned i = 0; i < 3 && !err; i++) {
        struct journal_record record = life_manifest(context, i);
        err = journal_draft_append(draft, &record, 1, info);
    }
    return err;
}

static bg_err life_checkpoint(struct journal *journal, struct life *life)
{
    uint64_t from = 0;
    bg_err err = journal_rotate(journal, &from, NULL);
    if (err) {
        return err;
    }
    life->from = from;
    for (unsigned i = 0; i < 3 && !err; i++) {
        struct journal_record record = life_manifest(life, i);
        err = journal_append(journal, &record, 1, NULL, NULL);
    }
    err = err ? err : journal_sync(journal, NULL);
    return err ? err : journal_remove_before(journal, from, NULL, NULL);
}

/* Appends the next change and applies it. The change stays applied, whether or not it can be
 * synced. */
static bg_err life_step(struct journal *journal, struct life *life)
{
    uint64_t hash = hash_of(life->changes);
    struct journal_record record = {
        .type = JOURNAL_CHANGE,
        .id = 1,
        .change = { .op = CHANGE_ADD, .n = 1, .hashes = &hash },
    };
    bg_err err = journal_append(journal, &record, 1, NULL, NULL);
    if (!err) {
        life_change(life, hash);
    }
    return err;
}

/* The state recovered from the journal: the last complete manifest, to which the later changes are
 * applied. */
struct life_back {
    struct life life, entry;
};

static bg_err life_find(void *context, uint64_t sequence,
                        const struct journal_record *record, bg_errinfo *info)
{
    struct life_back *back = context;
    (void)sequence, (void)info;
    if (record->type == JOURNAL_MANIFEST_ENTRY) {
        back->entry = (struct life){ record->expansions, record->items, record->from };
    } else if (record->type == JOURNAL_MANIFEST_END) {
        back->life = back->entry;
    }
    return BG_OK;
}

static bg_err life_apply(void *context, uint64_t sequence,
                         const struct journal_record *record, bg_errinfo *info)
{
    struct life_back *back = context;
    (void)info;
    if (record->type == JOURNAL_CHANGE && sequence >= back->life.from) {
        CHECK_EQ(record->change.hashes[0], hash_of(back->life.changes));
        life_change(&back->life, record->change.hashes[0]);
    }
    return BG_OK;
}

static struct journal *life_recover(const char *folder, struct life *life)
{
    struct life_back back = { .life = { .changes = 0 } };
    struct journal *journal = NULL;
    struct journal_report report;
    bg_errinfo why;
    if (journal_open(folder, NULL, &journal, &why)
        || journal_replay(journal, life_find, &back, &report, &why)) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    CHECK(back.life.from == 0 || back.life.from >= report.first);
    CHECK_OK(journal_replay(journal, life_apply, &back, NULL, &why));
    *life = back.life;
    struct life expected = { .changes = 0 };
    while (expected.changes < life->changes) {
        life_change(&expected, hash_of(expected.changes));
    }
    CHECK_EQ(expected.digest, life->digest);
    return journal;
}

/* Checks that no acknowledged change is missing, that the content is correct, and that more changes
 * can be appended. */
static void life_check_folder(const char *folder, uint64_t acknowledged)
{
    struct life life, again;
    struct journal *journal = life_recover(folder, &life);
    bg_errinfo why;
    CHECK(life.changes >= acknowledged);
    CHECK_OK(journal_begin(journal, NULL, &why));
    CHECK_OK(life_step(journal, &life));
    must_close(journal);
    journal = life_recover(folder, &again);
    CHECK_EQ(again.changes, life.changes);
    must_close(journal);
}

/* Runs the whole workload, with checkpoints, and closes and reopens the journal twice. Writes the
 * number of acknowledged changes to `acknowledged` after each sync. */
static void life_live(const char *folder, int acknowledged)
{
    struct life life = { .changes = 0 };
    struct journal *journal = must_open(folder, NULL, NULL);
    while (life.changes < LIFE) {
        bool two = life.changes % 5 == 3; /* syncs two changes together */
        if (life_step(journal, &life) || (two && life_step(journal, &life))
            || journal_sync(journal, NULL)
            || write(acknowledged, &life.changes, sizeof life.changes)
                   != sizeof life.changes) {
            _exit(1);
        }
        if (life.changes % 7 == 6 && life_checkpoint(journal, &life)) {
            _exit(1);
        }
        if (life.changes == 16 || life.changes == 29) {
            if (journal_close(journal, NULL)) {
                _exit(1);
            }
            journal = must_open(folder, NULL, NULL);
        }
    }
    _exit(0);
}

TEST(journal__death_and_loss_of_power_at_every_call)
{
    const struct disk_lives lives = { .live = life_live, .check = life_check_folder };
    const unsigned long step = CHECK_EMULATED ? 17 : CHECK_SANITIZED ? 11 : 1;
    const unsigned long deaths =
        lives_with_every_fault(&lives, DISK_STOP_BEFORE, DISK_STOP_AFTER, step);
    CHECK(deaths * step > 200); /* the process died at enough system calls */
}

/* Handles an error as the service does: saves all content and reopens the journal if it has failed,
 * and retries otherwise. */
static void life_mend(struct journal *journal, struct life *life)
{
    if (state_of(journal).failed) {
        life->from = journal_next(journal);
        (void)journal_reopen(journal, life_fill, life, NULL);
    } else {
        (void)journal_flush(journal, NULL);
    }
}

/* Runs the workload on a disk that fails once. Returns whether the fault occurred. */
static bool life_with_fault(const char *folder, unsigned long at, enum disk_fault fault)
{
    struct life life = { .changes = 0 };
    struct journal *journal = NULL;
    uint64_t since = 0; /* the number of changes since the last checkpoint */
    disk.at = at;
    disk.fault = fault;
    disk.calls = 0;
    while (life.changes < LIFE) {
        if (!journal) {
            if (journal_open(folder, NULL, &journal, NULL)) {
                continue;
            }
            if (journal_begin(journal, NULL, NULL)) {
                (void)journal_close(journal, NULL);
                journal = NULL;
                continue;
            }
        }
        uint64_t before = life.changes;
        if (life_step(journal, &life) || journal_sync(journal, NULL)) {
            life_mend(journal, &life);
        }
        since += life.changes - before;
        if (since >= 7) {
            if (life_checkpoint(journal, &life)) {
                life_mend(journal, &life);
            }
            since = 0;
        }
        if (life.changes != before && life.changes == 16) {
            CHECK_OK(journal_sync(journal, NULL));
            (void)journal_close(journal, NULL);
            journal = NULL;
        }
    }
    bool came = disk.calls >= disk.at;
    disk.at = 0;
    while (journal_sync(journal, NULL)) {
        life_mend(journal, &life);
    }
    CHECK_EQ(journal_durable(journal), journal_next(journal) - 1);
    (void)journal_close(journal, NULL);
    return came;
}

TEST(journal__a_failing_call_costs_nothing_that_was_acknowledged)
{
    const struct disk_lives lives = { .live_with_fault = life_with_fault,
                                      .check = life_check_folder,
                                      .whole = LIFE };
    const unsigned long step = CHECK_EMULATED ? 17 : CHECK_SANITIZED ? 11 : 1;
    const unsigned long faults =
        lives_with_every_fault(&lives, DISK_EIO, DISK_FAULTS - 1, step);
    CHECK(faults * step > 400);
}

/* ---- kill -9 ------------------------------------------------------------------------- */

static int oracle;

/* Reports durable sequence numbers to the parent process immediately. */
static void tell_oracle(void *context, uint64_t durable, const bg_errinfo *failure)
{
    (void)context;
    if (failure->code || write(oracle, &durable, sizeof durable) != sizeof durable) {
        _exit(1);
    }
}

/* With the policy `always`, appends records from several threads and occasionally starts a new
 * segment, until the process is killed. */
static void child_live(void)
{
    struct worker workers[THREADS];
    struct journal *journal = must_open(files_folder(), NULL, NULL);
    CHECK_OK(journal_start(journal, tell_oracle, NULL, NULL));
    run_workers(workers, journal, HEARD_MAX / THREADS, false, false);
    for (int i = 0; i < 20; i++) {
        CHECK_OK(journal_rotate(journal, NULL, NULL));
        (void)usleep(500);
    }
    join_workers(workers);
    for (;;) {
        (void)pause();
    }
}

TEST(journal__death_at_any_moment)
{
    const size_t rounds = 8 * check_scale();
    for (size_t round = 0; round < rounds; round++) {
        int ends[2], status;
        uint64_t durable = 0;
        CHECK(pipe(ends) == 0);
        (void)files_folder();
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            oracle = ends[1];
            child_live();
        }
        (void)close(ends[1]);
        (void)usleep((useconds_t)check_random_below(30000));
        (void)kill(child, SIGKILL);
        for (uint64_t next; read(ends[0], &next, sizeof next) == sizeof next;) {
            CHECK(next > durable);
            durable = next;
        }
        (void)close(ends[0]);
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status));
        uint64_t next[THREADS] = { 0 };
        struct journal_report report = read_all(files_folder());
        CHECK(report.next > durable);
        CHECK_EQ(report.damages, 0);
        CHECK_EQ(heard.n, report.next - 1); /* no gap */
        for (size_t i = 0; i < heard.n; i++) {
            uint64_t who = heard.numbers[i] >> 32;
            CHECK_EQ(heard.numbers[i] & UINT32_MAX, next[who]);
            next[who]++;
        }
        must_close(open_policy(JOURNAL_ALWAYS));
        CHECK(read_all(files_folder()).clean);
        files_clean();
    }
}
