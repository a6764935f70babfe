/*
 * The operation log. A replay returns only records that were appended, even if the log has been
 * truncated or bits in it have been flipped. The log is synced as its sync policy requires, and one
 * sync can serve several threads. No record is replayed twice after a snapshot. Some tests kill the
 * process, make the disk fail or cut the power at each system call in turn.
 */
#define _GNU_SOURCE /* flock, usleep */

#include "support/adds.h"
#include "support/disk_lives.h"
#include "support/files.h"

#include "base/bits.h"
#include "base/crc32c.h"
#include "store/oplog_frame.h"

#include <pthread.h>
#include <sys/wait.h>

/* ---- Logs -------------------------------------------------------------------------- */

enum { RECORDS_MAX = 4096 };

struct record {
    uint8_t op;
    uint64_t hash;
};

/* The result of a replay. */
struct heard {
    struct record records[RECORDS_MAX];
    uint64_t first;
    size_t n;
};

static bool hear(void *context, uint64_t first, const uint8_t *ops,
                 const uint64_t *hashes, size_t n)
{
    struct heard *heard = context;
    CHECK(heard->n == 0 || first == heard->first + heard->n);
    heard->first = heard->n ? heard->first : first;
    for (size_t i = 0; i < n && heard->n < RECORDS_MAX; i++) {
        heard->records[heard->n++] = (struct record){ ops[i], hashes[i] };
    }
    return true;
}

static bg_err hear_frame(void *context, uint64_t first, const uint8_t *ops,
                         const uint64_t *hashes, size_t n, bg_errinfo *info)
{
    (void)info;
    (void)hear(context, first, ops, hashes, n);
    return BG_OK;
}

static bg_filter *make(bg_kind kind)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = (uint32_t)kind;
    spec.items = 500;
    spec.rate = 0.01;
    return must_create(&spec);
}

static uint64_t hash_of(uint64_t i)
{
    uint64_t state = i + 1;
    return check_random_next(&state);
}

static bg_oplog *open_log(const char *path, const bg_filter *filter, uint32_t policy,
                          uint64_t position)
{
    bg_oplog_options how = BG_OPLOG_OPTIONS_INIT;
    bg_oplog *log = NULL;
    bg_errinfo why;
    how.policy = policy;
    how.position = position;
    if (bg_oplog_open(path, filter, &how, &log, NULL, &why)) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    return log;
}

static void append(bg_oplog *log, uint8_t op, uint64_t hash)
{
    CHECK_OK(bg_oplog_append(log, &op, &hash, 1, NULL, NULL));
}

static bg_oplog_info state_of(bg_oplog *log)
{
    bg_oplog_info state = { .struct_size = sizeof state };
    CHECK_OK(bg_oplog_get_info(log, &state));
    return state;
}

static bg_oplog_report replay(const char *path, struct heard *heard)
{
    bg_oplog_report report = { .struct_size = sizeof report };
    *heard = (struct heard){ .n = 0 };
    CHECK_OK(bg_oplog_replay(path, hear, heard, &report, NULL));
    CHECK_EQ(report.records, heard->n);
    CHECK_EQ(report.next - report.first, heard->n);
    return report;
}

/* ---- Round trips ------------------------------------------------------------------- */

TEST(oplog__what_is_appended_comes_back)
{
    static struct heard heard;
    static uint64_t hashes[RECORDS_MAX];
    static uint8_t ops[RECORDS_MAX];
    const char *path = files_path("log");
    for (uint32_t policy = BG_OPLOG_SYNC_ALWAYS; policy <= BG_OPLOG_SYNC_NO; policy++) {
        bg_filter *filter = make(BG_KIND_BLOCKED);
        bg_oplog *log = open_log(path, filter, policy, 0);
        size_t all = 0;
        for (size_t n = 1; all + n <= RECORDS_MAX; n = n * 3 + 1) {
            uint64_t first = 99;
            for (size_t i = all; i < all + n; i++) {
                hashes[i] = check_random();
                ops[i] = (uint8_t)(1 + check_random_below(5));
            }
            CHECK_OK(bg_oplog_append(log, ops + all, hashes + all, n, &first, NULL));
            CHECK_EQ(first, all);
            all += n;
        }
        CHECK_EQ(state_of(log).next, all);
        CHECK_OK(bg_oplog_close(log, NULL));
        bg_oplog_report report = replay(path, &heard);
        CHECK_EQ(heard.n, all);
        CHECK_EQ(report.first, 0);
        CHECK_EQ(report.dropped, 0);
        CHECK_EQ(report.code, BG_OK);
        CHECK_EQ(report.kind, BG_KIND_BLOCKED);
        CHECK_EQ(report.check, bg_hasher_check(bg_filter_hasher(filter)));
        for (size_t i = 0; i < all; i++) {
            CHECK_EQ(heard.records[i].op, ops[i]);
            CHECK_EQ(heard.records[i].hash, hashes[i]);
        }
        bg_filter_free(filter);
        CHECK(unlink(path) == 0);
    }
    files_clean();
}

static bool count_largest(void *context, uint64_t first, const uint8_t *ops,
                          const uint64_t *hashes, size_t n)
{
    uint64_t *sum = context;
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(ops[i], BG_OPLOG_ADD);
        CHECK_EQ(hashes[i], hash_of(first + i));
    }
    *sum += n;
    return true;
}

TEST(oplog__the_largest_frames_and_no_larger_ones)
{
    bg_filter *filter = make(BG_KIND_BLOCKED);
    const char *path = files_path("log");
    bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_NO, 0);
    uint64_t *hashes = calloc(BG_OPLOG_BATCH_MAX + 1, sizeof *hashes), sum = 0;
    CHECK(hashes);
    for (uint64_t turn = 0; turn < 3; turn++) {
        for (uint64_t i = 0; i < BG_OPLOG_BATCH_MAX; i++) {
            hashes[i] = hash_of(turn * BG_OPLOG_BATCH_MAX + i);
        }
        CHECK_OK(bg_oplog_append(log, NULL, hashes, BG_OPLOG_BATCH_MAX, NULL, NULL));
    }
    CHECK_EQ(bg_oplog_append(log, NULL, hashes, BG_OPLOG_BATCH_MAX + 1, NULL, NULL),
             BG_EINVAL);
    CHECK_EQ(bg_oplog_append(log, NULL, hashes, 0, NULL, NULL), BG_EINVAL);
    CHECK_EQ(bg_oplog_append(log, NULL, NULL, 1, NULL, NULL), BG_EINVAL);
    CHECK_EQ(bg_oplog_append(NULL, NULL, hashes, 1, NULL, NULL), BG_EINVAL);
    uint8_t op = 6;
    CHECK_EQ(bg_oplog_append(log, &op, hashes, 1, NULL, NULL), BG_EINVAL);
    CHECK_OK(bg_oplog_close(log, NULL));
    CHECK_OK(bg_oplog_replay(path, count_largest, &sum, NULL, NULL));
    CHECK_EQ(sum, 3 * BG_OPLOG_BATCH_MAX);
    free(hashes);
    bg_filter_free(filter);
    files_clean();
}

/* Checks the byte format in docs/oplog.md, which must never change. */
TEST(oplog__the_bytes_of_a_frame)
{
    static const unsigned char promised[] = {
        'B',  'G',  'o',  'p',  2,    0,    0,    0,
        7,    0,    0,    0,    0,    0,    0,    0, /* head */
        8,    7,    6,    5,    4,    3,    2,    1,
        0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, /* */
        1,    2                                         /* add, remove */
    };
    const uint64_t hashes[] = { UINT64_C(0x0102030405060708),
                                UINT64_C(0x1112131415161718) };
    const uint8_t ops[] = { BG_OPLOG_ADD, BG_OPLOG_REMOVE };
    unsigned char frame[64];
    CHECK_EQ(oplog_write_frame(frame, 7, ops, hashes, 2), sizeof promised + 4);
    CHECK(memcmp(frame, promised, sizeof promised) == 0);
    CHECK_EQ(bgi_load_le32(frame + sizeof promised),
             bgi_crc32c(0, promised, sizeof promised));
    CHECK_EQ(bgi_load_le32(frame + sizeof promised), UINT32_C(0x1a9b6d81));
}

static bool stop_at_once(void *context, uint64_t first, const uint8_t *ops,
                         const uint64_t *hashes, size_t n)
{
    (void)first, (void)ops, (void)hashes, (void)n;
    ++*(int *)context;
    return false;
}

TEST(oplog__a_replay_can_be_cancelled)
{
    bg_filter *filter = make(BG_KIND_BLOCKED);
    const char *path = files_path("log");
    bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_NO, 0);
    int calls = 0;
    append(log, BG_OPLOG_ADD, 1);
    append(log, BG_OPLOG_ADD, 2);
    CHECK_OK(bg_oplog_close(log, NULL));
    CHECK_EQ(bg_oplog_replay(path, stop_at_once, &calls, NULL, NULL), BG_ECANCELED);
    CHECK_EQ(calls, 1);
    bg_filter_free(filter);
    files_clean();
}

/* ---- Damage ------------------------------------------------------------------------ */

/* The bytes of a small log that consists of frames of 1, 2, 3 and 1 records. */
struct small {
    unsigned char bytes[OPLOG_HEADER + 256];
    size_t n;
    size_t ends[5]; /* offsets at which the header and each frame end */
    struct heard heard;
};

static void make_small(struct small *small)
{
    static const uint8_t ops[] = { 1, 1, 2, 5, 1, 4, 3 };
    static const size_t counts[] = { 1, 2, 3, 1 };
    struct oplog_header header = {
        .kind = 3, .check = 77, .generation = 5, .first = 40
    };
    uint64_t hashes[7];
    size_t done = 0;
    oplog_write_header(&header, small->bytes);
    small->n = small->ends[0] = OPLOG_HEADER;
    small->heard = (struct heard){ .first = 40, .n = 7 };
    for (size_t i = 0; i < 7; i++) {
        hashes[i] = hash_of(i);
        small->heard.records[i] = (struct record){ ops[i], hashes[i] };
    }
    for (size_t i = 0; i < 4; i++) {
        small->n += oplog_write_frame(small->bytes + small->n, 40 + done, ops + done,
                                      hashes + done, counts[i]);
        small->ends[i + 1] = small->n;
        done += counts[i];
    }
}

struct bytes {
    const unsigned char *at;
    size_t n;
};

static bg_err read_bytes(void *context, uint64_t offset, void *to, size_t n,
                         bg_errinfo *info)
{
    const struct bytes *bytes = context;
    (void)info;
    CHECK(offset <= bytes->n && n <= bytes->n - offset);
    memcpy(to, bytes->at + offset, n);
    return BG_OK;
}

static bg_err walk(const unsigned char *at, size_t n, struct heard *heard,
                   bg_oplog_report *report)
{
    struct bytes bytes = { at, n };
    struct container_source source = { read_bytes, &bytes, n, NULL };
    heard->n = 0;
    *report = (bg_oplog_report){ .struct_size = sizeof *report };
    return oplog_walk(&source, hear_frame, heard, report, NULL);
}

static void check_prefix(const struct heard *heard, const struct heard *all)
{
    CHECK(heard->n <= all->n);
    CHECK(heard->n == 0 || heard->first == all->first);
    for (size_t i = 0; i < heard->n; i++) {
        CHECK_EQ(heard->records[i].op, all->records[i].op);
        CHECK_EQ(heard->records[i].hash, all->records[i].hash);
    }
}

TEST(oplog__every_truncation_replays_whole_frames_only)
{
    static struct small small;
    static struct heard heard;
    static const size_t records[] = { 0, 1, 3, 6, 7 };
    bg_oplog_report report;
    make_small(&small);
    for (size_t n = 0; n <= small.n; n++) {
        bg_err err = walk(small.bytes, n, &heard, &report);
        if (n < OPLOG_HEADER) {
            CHECK_EQ(err, BG_EFORMAT);
            continue;
        }
        size_t frames = 0;
        while (frames < 4 && small.ends[frames + 1] <= n) {
            frames++;
        }
        CHECK_OK(err);
        check_prefix(&heard, &small.heard);
        CHECK_EQ(heard.n, records[frames]);
        CHECK_EQ(report.frames, frames);
        CHECK_EQ(report.end, small.ends[frames]);
        CHECK_EQ(report.dropped, n - small.ends[frames]);
        CHECK_EQ(report.code, n == small.ends[frames] ? BG_OK : BG_EFORMAT);
        CHECK_STR(report.what, n == small.ends[frames] ? "" : "frame");
    }
}

TEST(oplog__no_flipped_bit_is_replayed)
{
    static struct small small;
    static struct heard heard;
    bg_oplog_report report;
    const size_t step = CHECK_EMULATED ? 13 : CHECK_SANITIZED ? 3 : 1;
    make_small(&small);
    for (size_t bit = 0; bit < 8 * small.n; bit += bit < 8 * OPLOG_HEADER ? step : 1) {
        small.bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        bg_err err = walk(small.bytes, small.n, &heard, &report);
        small.bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        check_prefix(&heard, &small.heard);
        if (bit < 8 * OPLOG_HEADER) {
            CHECK(err == BG_EFORMAT || err == BG_ECHECKSUM);
            CHECK_EQ(heard.n, 0);
            continue;
        }
        size_t frame = 1;
        while (bit / 8 >= small.ends[frame]) {
            frame++;
        }
        CHECK_OK(err);
        /* Neither the damaged frame nor any later frame is counted. */
        CHECK_EQ(report.frames, frame - 1);
        CHECK(report.code != BG_OK);
        CHECK(report.what[0]);
        CHECK_EQ(report.end + report.dropped, small.n);
    }
}

TEST(oplog__holes_and_frames_out_of_order_are_not_replayed)
{
    static struct small small;
    static struct heard heard;
    bg_oplog_report report;
    make_small(&small);
    size_t second = small.ends[1], third = small.ends[2];
    /* Simulates a page that was never written. */
    memset(small.bytes + second, 0, third - second);
    CHECK_OK(walk(small.bytes, small.n, &heard, &report));
    CHECK_EQ(heard.n, 1);
    CHECK_STR(report.what, "frame magic");
    make_small(&small);
    /* Removes the second frame without leaving a hole. */
    memmove(small.bytes + second, small.bytes + third, small.n - third);
    CHECK_OK(walk(small.bytes, small.n - (third - second), &heard, &report));
    CHECK_EQ(heard.n, 1);
    CHECK_STR(report.what, "sequence number");
}

TEST(oplog__an_unknown_operation_is_an_error_and_not_an_end)
{
    static struct small small;
    static struct heard heard;
    bg_oplog_report report;
    const char *path = files_path("log");
    make_small(&small);
    uint8_t op = 6;
    uint64_t hash = 1;
    size_t n = small.n + oplog_write_frame(small.bytes + small.n, 47, &op, &hash, 1);
    CHECK_EQ(walk(small.bytes, n, &heard, &report), BG_EVERSION);
    CHECK_EQ(heard.n, 7);
    /* Opening a log that contains an unknown operation fails and does not truncate the log. */
    bg_filter *filter = make(BG_KIND_BLOCKED);
    struct oplog_header header = oplog_header_of(filter);
    oplog_write_header(&header, small.bytes);
    n = OPLOG_HEADER + oplog_write_frame(small.bytes + OPLOG_HEADER, 0, &op, &hash, 1);
    FILE *file = fopen(path, "w");
    CHECK(file && fwrite(small.bytes, 1, n, file) == n && fclose(file) == 0);
    bg_oplog *log = NULL;
    CHECK_EQ(bg_oplog_open(path, filter, NULL, &log, NULL, NULL), BG_EVERSION);
    CHECK(log == NULL);
    struct stat about;
    CHECK(stat(path, &about) == 0 && (size_t)about.st_size == n);
    bg_filter_free(filter);
    files_clean();
}

/* Sets the checksum of a header, and writes the header to a file. */
static void put_header(const char *path, unsigned char bytes[OPLOG_HEADER])
{
    uint32_t crc = bgi_le32(bgi_crc32c(0, bytes, OPLOG_CRC_AT));
    memcpy(bytes + OPLOG_CRC_AT, &crc, sizeof crc);
    FILE *file = fopen(path, "w");
    CHECK(file && fwrite(bytes, 1, OPLOG_HEADER, file) == OPLOG_HEADER
          && fclose(file) == 0);
}

TEST(oplog__other_versions_and_other_filters_are_refused)
{
    const char *path = files_path("log");
    bg_filter *filter = make(BG_KIND_BLOCKED), *other = make(BG_KIND_CLASSIC);
    bg_spec spec = BG_SPEC_INIT;
    spec.items = 500;
    spec.rate = 0.01;
    spec.kind = BG_KIND_BLOCKED;
    spec.hash.seed = 5;
    bg_filter *seeded = must_create(&spec);
    unsigned char bytes[OPLOG_HEADER];
    struct oplog_header header = oplog_header_of(filter);
    bg_oplog *log = NULL;
    bg_errinfo why;
    oplog_write_header(&header, bytes);
    put_header(path, bytes);
    CHECK_EQ(bg_oplog_open(path, other, NULL, &log, NULL, &why), BG_EINCOMPAT);
    CHECK_STR(why.what, "filter kind in the log");
    CHECK_EQ(bg_oplog_apply(path, 0, other, NULL, &why), BG_EINCOMPAT);
    CHECK_EQ(bg_oplog_open(path, seeded, NULL, &log, NULL, &why), BG_EINCOMPAT);
    CHECK_STR(why.what, "hash function in the log");
    CHECK_EQ(bg_oplog_apply(path, 0, seeded, NULL, &why), BG_EINCOMPAT);
    bytes[8] = 2;
    put_header(path, bytes);
    CHECK_EQ(bg_oplog_open(path, filter, NULL, &log, NULL, &why), BG_EVERSION);
    CHECK_EQ(bg_oplog_replay(path, NULL, NULL, NULL, &why), BG_EVERSION);
    bytes[8] = 1;
    bytes[50] = 1;
    put_header(path, bytes);
    CHECK_EQ(bg_oplog_open(path, filter, NULL, &log, NULL, &why), BG_EFORMAT);
    CHECK_STR(why.what, "reserved bytes");
    CHECK(truncate(path, 100) == 0);
    CHECK_EQ(bg_oplog_open(path, filter, NULL, &log, NULL, &why), BG_EFORMAT);
    CHECK(log == NULL);
    CHECK_EQ(bg_oplog_replay(files_path("none"), NULL, NULL, NULL, &why), BG_EIO);
    CHECK_EQ(why.os_errno, ENOENT);
    /* Filters can be published through a pointer file, but logs cannot. */
    FILE *pointer = fopen(path, "w");
    CHECK(pointer && fputs("bloomgate-pointer 1\nelsewhere\n", pointer) > 0
          && fclose(pointer) == 0);
    CHECK_EQ(bg_oplog_replay(path, NULL, NULL, NULL, &why), BG_EFORMAT);
    CHECK_EQ(bg_oplog_apply(path, 0, filter, NULL, &why), BG_EFORMAT);
    bg_filter_free(filter);
    bg_filter_free(other);
    bg_filter_free(seeded);
    files_clean();
}

TEST(oplog__a_torn_tail_is_cut_off_and_appended_behind)
{
    static struct heard heard;
    const char *path = files_path("log");
    bg_filter *filter = make(BG_KIND_BLOCKED);
    for (off_t torn = 1; torn <= 29; torn++) {
        bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_ALWAYS, 0);
        for (uint64_t i = 0; i < 3; i++) {
            append(log, BG_OPLOG_ADD, hash_of(i));
        }
        CHECK_OK(bg_oplog_close(log, NULL));
        CHECK(truncate(path, OPLOG_HEADER + 3 * 29 - torn) == 0);
        bg_oplog_report report = { .struct_size = sizeof report };
        unsigned long syncs = disk.data_syncs;
        bg_oplog_options how = BG_OPLOG_OPTIONS_INIT;
        how.position = 2;
        CHECK_OK(bg_oplog_open(path, filter, &how, &log, &report, NULL));
        /* Opening the log syncs the existing records. */
        CHECK_EQ(disk.data_syncs, syncs + 1);
        CHECK_EQ(report.next, 2);
        CHECK_EQ(report.dropped, 29 - torn);
        CHECK_EQ(report.code, torn == 29 ? BG_OK : BG_EFORMAT);
        CHECK_EQ(state_of(log).next, 2);
        append(log, BG_OPLOG_ADD, hash_of(7));
        CHECK_OK(bg_oplog_close(log, NULL));
        report = replay(path, &heard);
        CHECK_EQ(heard.n, 3);
        CHECK_EQ(report.dropped, 0);
        CHECK_EQ(heard.records[1].hash, hash_of(1));
        CHECK_EQ(heard.records[2].hash, hash_of(7));
        CHECK(unlink(path) == 0);
    }
    bg_filter_free(filter);
    files_clean();
}

TEST(oplog__only_one_has_it_open)
{
    const char *path = files_path("log");
    bg_filter *filter = make(BG_KIND_BLOCKED);
    bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_NO, 0), *second = NULL;
    bg_errinfo why;
    /* The second iteration runs after the snapshot has replaced the log file. */
    for (int turn = 0; turn < 2; turn++) {
        CHECK_EQ(bg_oplog_open(path, filter, NULL, &second, NULL, &why), BG_EIO);
        CHECK_EQ(why.os_errno, EWOULDBLOCK);
        CHECK(second == NULL);
        CHECK_OK(bg_oplog_snapshot(log, filter, files_path("snapshot"), NULL, NULL));
    }
    CHECK_OK(bg_oplog_close(log, NULL));
    CHECK_OK(bg_oplog_close(open_log(path, filter, BG_OPLOG_SYNC_NO, 0), NULL));
    bg_filter_free(filter);
    files_clean();
}

/* ---- Syncing ----------------------------------------------------------------------- */

static uint64_t fake_time;

static uint64_t fake_clock(void *context)
{
    (void)context;
    return fake_time;
}

TEST(oplog__each_policy_syncs_when_it_says)
{
    const uint64_t second = UINT64_C(1000000000);
    const char *path = files_path("log");
    bg_filter *filter = make(BG_KIND_BLOCKED);
    for (uint32_t policy = BG_OPLOG_SYNC_ALWAYS; policy <= BG_OPLOG_SYNC_NO; policy++) {
        bg_oplog_options how = BG_OPLOG_OPTIONS_INIT;
        bg_oplog *log;
        how.policy = policy;
        how.clock = fake_clock;
        fake_time = 5 * second;
        CHECK_OK(bg_oplog_open(path, filter, &how, &log, NULL, NULL));
        unsigned long before = disk.data_syncs;
        append(log, BG_OPLOG_ADD, 1);
        CHECK_EQ(disk.data_syncs - before, policy == BG_OPLOG_SYNC_ALWAYS);
        CHECK_EQ(state_of(log).synced, policy == BG_OPLOG_SYNC_ALWAYS);
        before = disk.data_syncs;
        fake_time += second - 1;
        append(log, BG_OPLOG_ADD, 2);
        CHECK_OK(bg_oplog_tick(log, NULL));
        CHECK_EQ(disk.data_syncs - before, policy == BG_OPLOG_SYNC_ALWAYS);
        fake_time += 1;
        before = disk.data_syncs;
        append(log, BG_OPLOG_ADD, 3); /* a second has passed */
        CHECK_EQ(disk.data_syncs - before, policy != BG_OPLOG_SYNC_NO);
        CHECK_EQ(state_of(log).synced, policy == BG_OPLOG_SYNC_NO ? 0 : 3);
        append(log, BG_OPLOG_ADD, 4);
        before = disk.data_syncs;
        fake_time += second;
        CHECK_OK(bg_oplog_tick(log, NULL));
        CHECK_EQ(disk.data_syncs - before, policy == BG_OPLOG_SYNC_EVERYSEC);
        fake_time += second;
        CHECK_OK(bg_oplog_tick(log, NULL)); /* there is nothing to sync */
        CHECK_EQ(disk.data_syncs - before, policy == BG_OPLOG_SYNC_EVERYSEC);
        append(log, BG_OPLOG_ADD, 5);
        CHECK_OK(bg_oplog_sync(log, NULL));
        CHECK_EQ(state_of(log).synced, 5);
        CHECK_OK(bg_oplog_close(log, NULL));
        CHECK(unlink(path) == 0);
    }
    bg_filter_free(filter);
    files_clean();
}

/* The number of threads that append to the same log. */
enum { THREADS = 4 };

struct worker {
    pthread_t thread;
    bg_oplog *log;
    bg_filter *filter; /* NULL: only append */
    uint64_t number, rounds;
    uint64_t last;
};

static void *work(void *argument)
{
    struct worker *me = argument;
    for (uint64_t i = 0; i < me->rounds; i++) {
        uint8_t ops[3] = { BG_OPLOG_ADD, BG_OPLOG_ADD, BG_OPLOG_MARK };
        uint64_t first, hash = me->number << 32 | i;
        uint64_t hashes[3] = { hash, ~hash, i };
        if (me->filter && i % 3 == 2) { /* undoes an earlier add by this thread */
            hash = me->number << 32 | (i - 1);
            hashes[0] = hash;
            ops[0] = BG_OPLOG_REMOVE;
        }
        CHECK_OK(me->filter ? bg_oplog_change(me->log, me->filter, ops, hashes, 3,
                                              &first, NULL)
                            : bg_oplog_append(me->log, ops, hashes, 3, &first, NULL));
        CHECK(i == 0 || first > me->last);
        me->last = first;
    }
    return NULL;
}

static void run_workers(struct worker workers[THREADS], bg_oplog *log,
                        bg_filter *filter, uint64_t rounds)
{
    for (uint64_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){
            .log = log, .filter = filter, .number = i, .rounds = rounds
        };
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
}

static void join_workers(struct worker workers[THREADS])
{
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(workers[i].thread, NULL) == 0);
    }
}

TEST(oplog__threads_append_whole_frames_in_their_order)
{
    static struct heard heard;
    const uint64_t rounds = CHECK_EMULATED ? 20 : 200;
    const char *path = files_path("log");
    for (uint32_t policy = BG_OPLOG_SYNC_ALWAYS; policy <= BG_OPLOG_SYNC_NO; policy++) {
        struct worker workers[THREADS];
        uint64_t seen[THREADS] = { 0 };
        bg_filter *filter = make(BG_KIND_BLOCKED);
        bg_oplog *log = open_log(path, filter, policy, 0);
        run_workers(workers, log, NULL, rounds);
        join_workers(workers);
        bg_oplog_info state = state_of(log);
        CHECK_EQ(state.next, THREADS * rounds * 3);
        if (policy == BG_OPLOG_SYNC_ALWAYS) {
            CHECK_EQ(state.synced, state.next);
            CHECK(state.syncs <= THREADS * rounds);
        }
        CHECK_OK(bg_oplog_close(log, NULL));
        (void)replay(path, &heard);
        CHECK_EQ(heard.n, THREADS * rounds * 3);
        for (size_t i = 0; i < heard.n; i += 3) {
            uint64_t hash = heard.records[i].hash, thread = hash >> 32;
            CHECK(thread < THREADS);
            CHECK_EQ(hash & 0xffffffff, seen[thread]);
            CHECK_EQ(heard.records[i + 1].hash, ~hash);
            CHECK_EQ(heard.records[i + 2].op, BG_OPLOG_MARK);
            seen[thread]++;
        }
        bg_filter_free(filter);
        CHECK(unlink(path) == 0);
    }
    files_clean();
}

/* The log whose first sync is delayed until all threads have appended their records. */
static bg_oplog *slow_log;

static void slow_first_sync(void)
{
    while (slow_log && __atomic_load_n(&disk.data_syncs, __ATOMIC_RELAXED) == 1
           && state_of(slow_log).next < THREADS * 3) {
        (void)usleep(100);
    }
}

TEST(oplog__threads_share_the_next_sync)
{
    struct worker workers[THREADS];
    bg_filter *filter = make(BG_KIND_BLOCKED);
    slow_log = open_log(files_path("log"), filter, BG_OPLOG_SYNC_ALWAYS, 0);
    disk.data_syncs = 0;
    disk.on_sync = slow_first_sync;
    run_workers(workers, slow_log, NULL, 1);
    join_workers(workers);
    disk.on_sync = NULL;
    CHECK_EQ(state_of(slow_log).synced, THREADS * 3);
    /* There is one sync for the first thread and one for all other threads. */
    CHECK_EQ(state_of(slow_log).syncs, 2);
    CHECK_OK(bg_oplog_close(slow_log, NULL));
    slow_log = NULL;
    bg_filter_free(filter);
    files_clean();
}

/* ---- Filters ----------------------------------------------------------------------- */

TEST(oplog__a_filter_comes_back_from_its_log_alone)
{
    const char *path = files_path("log");
    for (unsigned c = 0; c < FILES_CASES_COUNT; c++) {
        bg_spec spec = files_spec(c);
        uint32_t traits = bg_kind_traits((bg_kind)spec.kind);
        if (traits & BG_TRAIT_STATIC) {
            continue;
        }
        bg_filter *filter = must_create(&spec), *back = must_create(&spec);
        bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_NO, 0);
        for (uint64_t i = 0; i < 200; i++) {
            uint8_t ops[2] = { BG_OPLOG_ADD, BG_OPLOG_MARK };
            uint64_t hashes[2] = { hash_of(i), i };
            if (i % 4 == 3 && traits & BG_TRAIT_REMOVE) {
                ops[0] = BG_OPLOG_REMOVE;
                hashes[0] = hash_of(i - 1);
            } else if (i % 50 == 49) {
                ops[1] = spec.kind == BG_KIND_WINDOW ? BG_OPLOG_ROTATE : BG_OPLOG_MARK;
            } else if (i == 100) {
                ops[0] = BG_OPLOG_CLEAR;
            }
            CHECK_OK(bg_oplog_change(log, filter, ops, hashes, 2, NULL, NULL));
        }
        CHECK_OK(bg_oplog_close(log, NULL));
        bg_oplog_report report = { .struct_size = sizeof report };
        CHECK_OK(bg_oplog_apply(path, 0, back, &report, NULL));
        CHECK_EQ(report.records, 400);
        CHECK_EQ(report.next, 400);
        if (!bg_filter_equal(filter, back)) {
            check_fail(__FILE__, __LINE__, "%s differs", files_name(c));
        }
        bg_filter_free(filter);
        bg_filter_free(back);
        CHECK(unlink(path) == 0);
    }
    files_clean();
}

/* After every rotation, a window recovered from the log must be in the same period as the window in
 * memory. */
TEST(oplog__a_recovered_window_is_in_the_same_period)
{
    const char *path = files_path("log"), *snapshot = files_path("snapshot");
    bg_window_options options = BG_WINDOW_OPTIONS_INIT;
    options.generations = 4;
    options.length = 300; /* periods of 100 */
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_WINDOW;
    spec.items = 500;
    spec.rate = 0.01;
    spec.window = &options;
    bg_filter *filter = must_create(&spec), *back = NULL;
    bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_NO, 0);
    for (uint64_t i = 0; i < 12; i++) {
        const uint8_t ops[2] = { BG_OPLOG_ROTATE, BG_OPLOG_ADD };
        const uint64_t words[2] = { 1000 + 70 * i, hash_of(i) };
        CHECK_OK(bg_oplog_change(log, filter, ops, words, 2, NULL, NULL));
        if (i % 3 == 0) {
            CHECK_OK(bg_oplog_snapshot(log, filter, snapshot, NULL, NULL));
        }
        CHECK_OK(bg_oplog_recover(snapshot, path, NULL, &back, NULL, NULL));
        CHECK_EQ(bg_filter_window_period(back), bg_filter_window_period(filter));
        CHECK(bg_filter_equal(back, filter));
        bg_filter_free(back);
    }
    CHECK_OK(bg_oplog_close(log, NULL));
    bg_filter_free(filter);
    files_clean();
}

static uint64_t window_clock(void *context)
{
    return *(const uint64_t *)context;
}

/* When a window is recovered, the clock may be behind the times recorded in the log, for example
 * after a reboot. */
TEST(oplog__a_clock_that_starts_again_forgets_nothing)
{
    const char *path = files_path("log"), *snapshot = files_path("snapshot");
    const uint8_t rotate = BG_OPLOG_ROTATE;
    uint64_t now = 1000000000, hash = hash_of(1);
    bg_window_options options = BG_WINDOW_OPTIONS_INIT;
    bg_open_options opening = BG_OPEN_OPTIONS_INIT;
    bg_spec spec = BG_SPEC_INIT;
    options.generations = 4;
    options.length = 300; /* periods of 100 */
    options.clock = window_clock;
    options.context = &now;
    opening.window = spec.window = &options;
    spec.kind = BG_KIND_WINDOW;
    spec.items = 500;
    spec.rate = 0.01;
    bg_filter *filter = must_create(&spec), *back = NULL;
    bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_NO, 0);
    CHECK_OK(bg_oplog_change(log, filter, NULL, &hash, 1, NULL, NULL));
    CHECK_OK(bg_oplog_snapshot(log, filter, snapshot, NULL, NULL));
    now += 150;
    CHECK_OK(bg_oplog_change(log, filter, &rotate, &now, 1, NULL, NULL));
    CHECK_OK(bg_oplog_close(log, NULL));
    now = 500;
    CHECK_OK(bg_oplog_recover(snapshot, path, &opening, &back, NULL, NULL));
    CHECK(bg_filter_may_contain_hash(back, hash));
    now += 600; /* it still forgets */
    CHECK_OK(bg_filter_rotate(back, now, NULL));
    CHECK(!bg_filter_may_contain_hash(back, hash));
    bg_filter_free(back);
    bg_filter_free(filter);
    files_clean();
}

TEST(oplog__what_a_kind_cannot_do_is_refused_and_not_logged)
{
    const char *path = files_path("log");
    bg_filter *filter = make(BG_KIND_BLOCKED), *other = make(BG_KIND_CLASSIC);
    bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_NO, 0);
    uint8_t ops[2] = { BG_OPLOG_ADD, BG_OPLOG_REMOVE };
    uint64_t hashes[2] = { 1, 2 };
    bg_errinfo why;
    CHECK_EQ(bg_oplog_change(log, filter, ops, hashes, 2, NULL, &why), BG_ENOTSUP);
    CHECK_STR(why.message,
              "a filter of kind blocked does not support the operation remove");
    ops[1] = BG_OPLOG_ROTATE;
    CHECK_EQ(bg_oplog_change(log, filter, ops, hashes, 2, NULL, &why), BG_ENOTSUP);
    CHECK_EQ(bg_oplog_change(log, other, NULL, hashes, 2, NULL, &why), BG_EINCOMPAT);
    CHECK_EQ(bg_oplog_change(log, NULL, NULL, hashes, 2, NULL, &why), BG_EINVAL);
    CHECK_EQ(state_of(log).next, 0);
    CHECK(!bg_filter_may_contain_hash(filter, 1));
    ops[1] = BG_OPLOG_REMOVE;
    CHECK_OK(bg_oplog_append(log, ops, hashes, 2, NULL, NULL)); /* accepts all */
    CHECK_OK(bg_oplog_close(log, NULL));
    CHECK_EQ(bg_oplog_apply(path, 0, filter, NULL, &why), BG_ENOTSUP);
    bg_filter_free(filter);
    bg_filter_free(other);
    files_clean();
}

/* ---- Snapshots --------------------------------------------------------------------- */

TEST(oplog__a_snapshot_says_up_to_where_it_is_complete)
{
    const char *path = files_path("log"), *snapshot = files_path("snapshot");
    bg_filter *filter = make(BG_KIND_COUNTING), *back = NULL;
    bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_EVERYSEC, 0);
    uint64_t hashes[3] = { hash_of(1), hash_of(2), hash_of(3) }, position = 9;
    bg_save_options saving = BG_SAVE_OPTIONS_INIT;
    saving.generation = 12;
    saving.metadata = "keys: URL";
    CHECK_OK(bg_oplog_change(log, filter, NULL, hashes, 3, NULL, NULL));
    CHECK_OK(bg_oplog_snapshot(log, filter, snapshot, &saving, NULL));
    CHECK_OK(bg_oplog_position(snapshot, &position, NULL));
    CHECK_EQ(position, 3);
    bg_file_info about = { .struct_size = sizeof about };
    CHECK_OK(bg_file_get_info(snapshot, &about, NULL));
    CHECK_STR(about.metadata, "keys: URL\noplog: 3\n");
    CHECK_EQ(about.generation, 12);
    CHECK_OK(bg_oplog_change(log, filter, NULL, hashes, 2, NULL, NULL));
    CHECK_OK(bg_oplog_close(log, NULL));
    bg_oplog_report report = { .struct_size = sizeof report };
    CHECK_OK(bg_oplog_recover(snapshot, path, NULL, &back, &report, NULL));
    CHECK_EQ(report.first, 3);
    CHECK_EQ(report.generation, 12);
    CHECK_EQ(report.records, 2);
    CHECK_EQ(report.next, 5);
    CHECK(bg_filter_equal(filter, back));
    CHECK_EQ(bg_filter_count_hash(back, hashes[0]), 2);
    bg_filter_free(back);
    bg_filter_free(filter);
    files_clean();
}

/* A log that was opened through a link stays the same file, even if the link changes. */
TEST(oplog__a_symbolic_link_is_followed_once)
{
    const char *path = files_path("link"), *snapshot = files_path("snapshot");
    const char *first = files_path("first"), *second = files_path("second");
    bg_filter *filter = make(BG_KIND_COUNTING), *back = NULL;
    uint64_t hash = hash_of(1);
    struct stat about;
    CHECK(symlink("first", path) == 0); /* the target does not exist yet */
    bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_NO, 0);
    CHECK_OK(bg_oplog_change(log, filter, NULL, &hash, 1, NULL, NULL));
    CHECK(unlink(path) == 0 && symlink("second", path) == 0);
    CHECK_OK(bg_oplog_snapshot(log, filter, snapshot, NULL, NULL));
    CHECK(lstat(path, &about) == 0 && S_ISLNK(about.st_mode));
    CHECK(lstat(second, &about) != 0);
    CHECK_OK(bg_oplog_change(log, filter, NULL, &hash, 1, NULL, NULL));
    CHECK_OK(bg_oplog_close(log, NULL));
    CHECK_OK(bg_oplog_recover(snapshot, first, NULL, &back, NULL, NULL));
    CHECK_EQ(bg_filter_count_hash(back, hash), 2);
    bg_filter_free(back);
    bg_filter_free(filter);
    files_clean();
}

/* After a crash between saving the snapshot and replacing the log, the snapshot is new, but the log
 * still contains records that the snapshot already includes. */
TEST(oplog__nothing_in_the_snapshot_is_replayed)
{
    const char *path = files_path("log"), *snapshot = files_path("snapshot");
    char text[BG_METADATA_MAX];
    for (uint64_t at = 0; at <= 9; at++) { /* also within a frame */
        bg_filter *filter = make(BG_KIND_COUNTING), *back = NULL;
        bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_NO, 0);
        bg_save_options saving = BG_SAVE_OPTIONS_INIT;
        uint64_t hashes[9];
        for (uint64_t i = 0; i < 9; i++) {
            hashes[i] = hash_of(i / 2);
        }
        for (size_t i = 0; i < 9; i += 3) {
            CHECK_OK(bg_oplog_append(log, NULL, hashes + i, 3, NULL, NULL));
        }
        CHECK_OK(bg_oplog_close(log, NULL));
        (void)added_many(filter, bg_keys_hashes(hashes, (size_t)at), NULL);
        CHECK_OK(oplog_write_position(NULL, at, text, NULL));
        saving.metadata = text;
        CHECK_OK(bg_save(filter, snapshot, &saving, NULL));
        (void)added_many(filter, bg_keys_hashes(hashes + at, (size_t)(9 - at)), NULL);
        bg_oplog_report report = { .struct_size = sizeof report };
        CHECK_OK(bg_oplog_recover(snapshot, path, NULL, &back, &report, NULL));
        CHECK_EQ(report.records, 9 - at);
        CHECK(bg_filter_equal(filter, back));
        bg_filter_free(back);
        bg_filter_free(filter);
        CHECK(unlink(path) == 0);
    }
    files_clean();
}

TEST(oplog__gaps_are_refused_and_short_logs_replaced)
{
    static struct heard heard;
    const char *path = files_path("log"), *old = files_path("old");
    const char *snapshot = files_path("snapshot");
    bg_filter *filter = make(BG_KIND_COUNTING), *back = NULL;
    bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_ALWAYS, 0);
    uint64_t hash = hash_of(1);
    bg_errinfo why;
    CHECK_OK(bg_oplog_snapshot(log, filter, old, NULL, NULL));
    CHECK_OK(bg_oplog_change(log, filter, NULL, &hash, 1, NULL, NULL));
    CHECK_OK(bg_oplog_change(log, filter, NULL, &hash, 1, NULL, NULL));
    CHECK_OK(bg_oplog_snapshot(log, filter, snapshot, NULL, NULL));
    CHECK_OK(bg_oplog_close(log, NULL));
    /* The old snapshot is missing records that are no longer in the log. */
    CHECK_EQ(bg_oplog_recover(old, path, NULL, &back, NULL, &why), BG_EINCOMPAT);
    CHECK(back == NULL);
    CHECK_EQ(bg_oplog_open(path, filter, NULL, &log, NULL, &why), BG_EINCOMPAT);
    CHECK_STR(why.what, "position");
    /* The log file is deleted and created again. New records must not reuse the numbers of records
     * that the snapshot includes. */
    CHECK(unlink(path) == 0);
    log = open_log(path, filter, BG_OPLOG_SYNC_ALWAYS, 0);
    CHECK_OK(bg_oplog_append(log, NULL, &hash, 1, NULL, NULL));
    CHECK_OK(bg_oplog_close(log, NULL));
    bg_oplog_report report = { .struct_size = sizeof report };
    CHECK_OK(bg_oplog_recover(snapshot, path, NULL, &back, &report, NULL));
    CHECK_EQ(report.next, 2);
    CHECK_EQ(report.records, 0);
    log = open_log(path, back, BG_OPLOG_SYNC_ALWAYS, report.next);
    CHECK_OK(bg_oplog_change(log, back, NULL, &hash, 1, NULL, NULL));
    CHECK_OK(bg_oplog_close(log, NULL));
    CHECK_EQ(replay(path, &heard).first, 2);
    CHECK_EQ(heard.n, 1);
    bg_filter_free(filter);
    CHECK_OK(bg_oplog_recover(snapshot, path, NULL, &filter, NULL, NULL));
    CHECK_EQ(bg_filter_count_hash(filter, hash), 3);
    bg_filter_free(filter);
    bg_filter_free(back);
    files_clean();
}

/* A filter that is missing records from the log must not be saved as if it included them. */
TEST(oplog__a_filter_that_lacks_records_is_refused)
{
    const char *path = files_path("log"), *snapshot = files_path("snapshot");
    bg_filter *first = make(BG_KIND_BLOCKED), *second = NULL;
    bg_oplog *log = open_log(path, first, BG_OPLOG_SYNC_ALWAYS, 0), *other = NULL;
    bg_oplog_options how = BG_OPLOG_OPTIONS_INIT;
    bg_oplog_report report = { .struct_size = sizeof report };
    bg_errinfo why;
    uint64_t one = hash_of(1), two = hash_of(2);
    CHECK_OK(bg_oplog_change(log, first, NULL, &one, 1, NULL, NULL));
    CHECK_OK(bg_oplog_snapshot(log, first, snapshot, NULL, NULL));
    CHECK_OK(bg_oplog_recover(snapshot, path, NULL, &second, &report, NULL));
    how.position = report.next;
    CHECK_EQ(bg_oplog_open(path, second, &how, &other, NULL, &why), BG_EIO);
    CHECK_OK(bg_oplog_change(log, first, NULL, &two, 1, NULL, NULL));
    CHECK_OK(bg_oplog_close(log, NULL));
    CHECK(truncate(path, OPLOG_HEADER + 29 + 3) == 0); /* and a torn tail */
    CHECK_EQ(bg_oplog_open(path, second, &how, &other, NULL, &why), BG_EINCOMPAT);
    CHECK(other == NULL);
    CHECK_STR(why.what, "position");
    CHECK_STR(why.message,
              "the filter has the records before 1, but the log "
              "continues up to record 1; replay the remaining records first");
    struct stat about;
    CHECK(stat(path, &about) == 0 && about.st_size == OPLOG_HEADER + 29 + 3);
    /* After the log's records are applied, the log can be opened. */
    CHECK_OK(bg_oplog_apply(path, how.position, second, &report, NULL));
    CHECK(bg_filter_equal(first, second));
    other = open_log(path, second, BG_OPLOG_SYNC_ALWAYS, report.next);
    CHECK_OK(bg_oplog_snapshot(other, second, snapshot, NULL, NULL));
    CHECK_OK(bg_oplog_close(other, NULL));
    bg_filter_free(first);
    bg_filter_free(second);
    files_clean();
}

TEST(oplog__positions_are_read_strictly)
{
    char text[BG_METADATA_MAX], filled[BG_METADATA_MAX];
    static const char *const bad[] = { "",
                                       "oplog:\n",
                                       "oplog: \n",
                                       "oplog: 1",
                                       "oplog: x\n",
                                       "oplog: 1x\n",
                                       "oplog:1\n",
                                       "oplog: -1\n",
                                       "xoplog: 1\n",
                                       "oplog: 18446744073709551616\n" };
    uint64_t position = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQ(oplog_read_position(bad[i], &position, NULL), BG_EFORMAT);
    }
    CHECK_OK(
        oplog_read_position("a: b\noplog: 18446744073709551615\n", &position, NULL));
    CHECK_EQ(position, UINT64_MAX);
    CHECK_EQ(oplog_write_position("a\noplog: 3\n", 4, text, NULL), BG_EINVAL);
    memset(filled, 'x', sizeof filled);
    /* Newline, "oplog: 7", newline and the terminating NUL need 11 bytes. */
    filled[sizeof filled - 10] = 0;
    CHECK_EQ(oplog_write_position(filled, 7, text, NULL), BG_EINVAL);
    filled[sizeof filled - 11] = 0;
    CHECK_OK(oplog_write_position(filled, 7, text, NULL));
    CHECK_OK(oplog_read_position(text, &position, NULL));
    CHECK_EQ(position, 7);
    bg_filter *filter = make(BG_KIND_BLOCKED), *back = NULL;
    CHECK_OK(bg_save(filter, files_path("plain"), NULL, NULL));
    CHECK_EQ(bg_oplog_position(files_path("plain"), &position, NULL), BG_EFORMAT);
    bg_oplog *log = open_log(files_path("log"), filter, BG_OPLOG_SYNC_NO, 0);
    CHECK_EQ(bg_oplog_recover(files_path("plain"), files_path("log"), NULL, &back, NULL,
                              NULL),
             BG_EFORMAT);
    bg_save_options saving = BG_SAVE_OPTIONS_INIT;
    saving.flags = BG_FILE_NO_SYNC;
    CHECK_EQ(bg_oplog_snapshot(log, filter, files_path("plain"), &saving, NULL),
             BG_EINVAL);
    CHECK_OK(bg_oplog_close(log, NULL));
    bg_filter_free(filter);
    files_clean();
}

TEST(oplog__snapshots_while_threads_change_the_filter)
{
    static const bg_kind kinds[] = { BG_KIND_COUNTING, BG_KIND_BLOCKED };
    const uint64_t rounds = CHECK_EMULATED ? 20 : 150;
    for (int k = 0; k < 2; k++) {
        const char *path = files_path("log"), *snapshot = files_path("snapshot");
        struct worker workers[THREADS];
        bg_filter *filter = make(kinds[k]), *back = NULL;
        bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_EVERYSEC, 0);
        bool removes = kinds[k] == BG_KIND_COUNTING;
        run_workers(workers, log, filter, removes ? rounds : 2);
        for (int i = 0; i < 5; i++) {
            CHECK_OK(bg_oplog_snapshot(log, filter, snapshot, NULL, NULL));
        }
        join_workers(workers);
        CHECK_OK(bg_oplog_close(log, NULL));
        bg_oplog_report report = { .struct_size = sizeof report };
        CHECK_OK(bg_oplog_recover(snapshot, path, NULL, &back, &report, NULL));
        CHECK_EQ(report.next, THREADS * (removes ? rounds : 2) * 3);
        CHECK(bg_filter_equal(filter, back));
        bg_filter_free(back);
        bg_filter_free(filter);
        files_clean();
    }
}

/* State of the progress callback add_during, which changes the log during a snapshot. */
struct during {
    bg_oplog *log;
    bg_filter *filter;
    uint64_t added;
    pthread_t clearing;
    bool clears, cleared;
};

static void *clear_it(void *argument)
{
    struct during *during = argument;
    uint8_t op = BG_OPLOG_CLEAR;
    uint64_t zero = 0;
    CHECK_OK(bg_oplog_change(during->log, during->filter, &op, &zero, 1, NULL, NULL));
    return NULL;
}

static bool add_during(void *context, uint64_t done, uint64_t all)
{
    struct during *during = context;
    (void)done, (void)all;
    if (during->added == 0) { /* saving syncs the log first, regardless of the policy */
        CHECK_EQ(state_of(during->log).synced, state_of(during->log).next);
    }
    uint64_t hash = hash_of(1000 + during->added++), next;
    CHECK_OK(bg_oplog_change(during->log, during->filter, NULL, &hash, 1, NULL, NULL));
    if (during->clears && !during->cleared) {
        during->cleared = true;
        next = state_of(during->log).next;
        CHECK(pthread_create(&during->clearing, NULL, clear_it, during) == 0);
        /* This pause is long enough to clear the filter, but the thread must wait until the filter
         * has been saved. */
        (void)usleep(20000);
        CHECK_EQ(state_of(during->log).next, next);
        CHECK(bg_filter_may_contain_hash(during->filter, hash));
    }
    return true;
}

static struct during *early;

/* Called when the snapshot's file is created, before any part of the filter has been written. */
static void add_early(void)
{
    (void)add_during(early, 0, 0);
}

TEST(oplog__what_happens_during_a_snapshot_is_in_the_log)
{
    static const bg_kind kinds[] = { BG_KIND_COUNTING, BG_KIND_BLOCKED,
                                     BG_KIND_BLOCKED };
    for (int k = 0; k < 3; k++) {
        const char *path = files_path("log"), *snapshot = files_path("snapshot");
        bg_filter *filter = make(kinds[k]), *back = NULL;
        bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_NO, 0);
        struct during during = { .log = log, .filter = filter, .clears = k == 2 };
        bg_save_options saving = BG_SAVE_OPTIONS_INIT;
        uint64_t hash = hash_of(1), position;
        saving.progress = add_during;
        saving.context = &during;
        CHECK_OK(bg_oplog_change(log, filter, NULL, &hash, 1, NULL, NULL));
        early = &during;
        disk.on_create = add_early;
        CHECK_OK(bg_oplog_snapshot(log, filter, snapshot, &saving, NULL));
        CHECK(during.added > 0);
        if (during.cleared) {
            CHECK(pthread_join(during.clearing, NULL) == 0);
            CHECK(!bg_filter_may_contain_hash(filter, hash));
        }
        CHECK_OK(bg_oplog_close(log, NULL));
        CHECK_OK(bg_oplog_position(snapshot, &position, NULL));
        CHECK_EQ(position, 1);
        bg_oplog_report report = { .struct_size = sizeof report };
        CHECK_OK(bg_oplog_recover(snapshot, path, NULL, &back, &report, NULL));
        CHECK_EQ(report.first, 1);
        CHECK_EQ(report.records, during.added + during.cleared);
        CHECK(bg_filter_equal(filter, back));
        bg_filter_free(back);
        bg_filter_free(filter);
        files_clean();
    }
}

/* ---- A sequence of operations, interrupted at every call ------------------------- */

/* Returns operation number i. Each prefix of the sequence produces a known filter, which the test
 * can compare with the recovered filter. */
enum { LIFE = 45 };

static struct record life_record(uint64_t i)
{
    return i % 5 == 4 ? (struct record){ BG_OPLOG_REMOVE, hash_of((i - 2) % 20) }
                      : (struct record){ BG_OPLOG_ADD, hash_of(i % 20) };
}

/* Appends a frame of 1 to 3 records, starting with record i, and applies them to the filter. */
static bg_err life_step(bg_oplog *log, bg_filter *filter, uint64_t i, uint64_t *next)
{
    uint8_t ops[3];
    uint64_t hashes[3], n = 1 + i % 3;
    for (uint64_t j = 0; j < n; j++) {
        ops[j] = life_record(i + j).op;
        hashes[j] = life_record(i + j).hash;
    }
    *next = i + n;
    return bg_oplog_change(log, filter, ops, hashes, (size_t)n, NULL, NULL);
}

static void life_check(const bg_filter *filter, uint64_t next)
{
    bg_filter *expected = make(BG_KIND_COUNTING);
    for (uint64_t i = 0; i < next; i++) {
        struct record r = life_record(i);
        if (r.op == BG_OPLOG_ADD) {
            (void)added_hash(expected, r.hash);
        } else {
            (void)bg_filter_remove_hash(expected, r.hash);
        }
    }
    CHECK(bg_filter_equal(expected, filter));
    bg_filter_free(expected);
}

static bool there_is(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Recovers the filter in a directory. Sets *next to the number of the first record that the filter
 * does not include. */
static bg_filter *life_recover(const char *folder, uint64_t *next)
{
    char path[600], snapshot[600];
    bg_oplog_report report = { .struct_size = sizeof report };
    bg_filter *filter = NULL;
    bg_errinfo why;
    bg_err err = BG_OK;
    (void)snprintf(path, sizeof path, "%s/log", folder);
    (void)snprintf(snapshot, sizeof snapshot, "%s/snapshot", folder);
    if (there_is(snapshot)) {
        err = bg_oplog_recover(snapshot, path, NULL, &filter, &report, &why);
    } else {
        filter = make(BG_KIND_COUNTING);
        if (there_is(path)) {
            err = bg_oplog_apply(path, 0, filter, &report, &why);
        }
    }
    if (err) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    *next = report.next;
    return filter;
}

/* Checks that no acknowledged record is missing, that the filter's content is correct, and that
 * more records can be appended to the log. */
static void life_check_folder(const char *folder, uint64_t acknowledged)
{
    char path[600];
    uint64_t next, after;
    bg_filter *filter = life_recover(folder, &next);
    CHECK(next >= acknowledged);
    life_check(filter, next);
    (void)snprintf(path, sizeof path, "%s/log", folder);
    bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_ALWAYS, next);
    CHECK_OK(life_step(log, filter, next, &next));
    CHECK_OK(bg_oplog_close(log, NULL));
    bg_filter_free(filter);
    filter = life_recover(folder, &after);
    CHECK_EQ(after, next);
    life_check(filter, after);
    bg_filter_free(filter);
}

/* Runs the whole sequence, takes snapshots, and closes and reopens the log once. After each step,
 * writes the number of acknowledged records to the file descriptor `acknowledged`. */
static void life_live(const char *folder, int acknowledged)
{
    char path[600], snapshot[600];
    (void)snprintf(path, sizeof path, "%s/log", folder);
    (void)snprintf(snapshot, sizeof snapshot, "%s/snapshot", folder);
    bg_filter *filter = make(BG_KIND_COUNTING);
    bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_ALWAYS, 0);
    for (uint64_t i = 0, frame = 0; i < LIFE; frame++) {
        if (life_step(log, filter, i, &i) != BG_OK
            || write(acknowledged, &i, sizeof i) != sizeof i) {
            _exit(1);
        }
        if (frame % 7 == 6 && bg_oplog_snapshot(log, filter, snapshot, NULL, NULL)) {
            _exit(1);
        }
        if (frame == 10) {
            if (bg_oplog_close(log, NULL)) {
                _exit(1);
            }
            log = open_log(path, filter, BG_OPLOG_SYNC_ALWAYS, i);
        }
    }
    _exit(0);
}

TEST(oplog__death_and_loss_of_power_at_every_call)
{
    const struct disk_lives lives = { .live = life_live, .check = life_check_folder };
    const unsigned long step = CHECK_EMULATED ? 17 : CHECK_SANITIZED ? 5 : 1;
    const unsigned long deaths =
        lives_with_every_fault(&lives, DISK_STOP_BEFORE, DISK_STOP_AFTER, step);
    CHECK(deaths * step > 100); /* lower bound for the number of disk calls in a run */
}

TEST(oplog__death_at_any_moment)
{
    const char *folder = lives_folder("live");
    const int rounds = CHECK_EMULATED ? 1 : 8;
    for (int round = 0; round < rounds; round++) {
        int ends[2];
        uint64_t acknowledged = 0;
        disk_empty_folder(folder);
        CHECK(pipe(ends) == 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            life_live(folder, ends[1]);
        }
        (void)close(ends[1]);
        (void)usleep((useconds_t)check_random_below(30000));
        (void)kill(child, SIGKILL);
        (void)lives_wait(child, ends[0], &acknowledged);
        life_check_folder(folder, acknowledged);
    }
    lives_remove_folder(folder);
}

/* ---- A disk that fails ------------------------------------------------------------- */

/* Runs the sequence on a disk that fails once. Retries the failed operation. If the failure has
 * made the log unusable, recovers the filter first. Returns whether the fault occurred. */
static bool life_with_fault(const char *folder, unsigned long at, enum disk_fault fault)
{
    char path[600], snapshot[600];
    uint64_t next = 0, done, acknowledged = 0, frame = 0;
    bg_oplog *log = NULL;
    bg_filter *filter = make(BG_KIND_COUNTING);
    (void)snprintf(path, sizeof path, "%s/log", folder);
    (void)snprintf(snapshot, sizeof snapshot, "%s/snapshot", folder);
    disk.at = at;
    disk.fault = fault;
    disk.calls = 0;
    while (next < LIFE) {
        bg_oplog_options how = BG_OPLOG_OPTIONS_INIT;
        how.position = next;
        if (!log && bg_oplog_open(path, filter, &how, &log, NULL, NULL)) {
            CHECK(log == NULL);
            continue;
        }
        bg_err err = life_step(log, filter, next, &done);
        if (!err) {
            acknowledged = next = done;
        }
        if (++frame % 5 == 0 && !err) {
            err = bg_oplog_snapshot(log, filter, snapshot, NULL, NULL);
            CHECK(err == BG_OK || err == BG_EIO);
        }
        if (state_of(log).failed) { /* permanently */
            uint64_t hash = 1;
            CHECK_EQ(bg_oplog_append(log, NULL, &hash, 1, NULL, NULL), BG_EIO);
            CHECK_EQ(bg_oplog_sync(log, NULL), BG_EIO);
            CHECK_EQ(bg_oplog_tick(log, NULL), BG_EIO);
            CHECK_EQ(bg_oplog_snapshot(log, filter, snapshot, NULL, NULL), BG_EIO);
            CHECK_EQ(bg_oplog_close(log, NULL), BG_EIO);
            log = NULL;
            bg_filter_free(filter);
            filter = life_recover(folder, &next);
            CHECK(next >= acknowledged);
            life_check(filter, next);
        }
    }
    bool came = disk.calls >= disk.at;
    disk.at = 0;
    CHECK_OK(bg_oplog_close(log, NULL));
    bg_filter_free(filter);
    return came;
}

TEST(oplog__a_failing_call_costs_nothing_that_was_acknowledged)
{
    const struct disk_lives lives = { .live_with_fault = life_with_fault,
                                      .check = life_check_folder,
                                      .whole = LIFE };
    const unsigned long step = CHECK_EMULATED ? 23 : CHECK_SANITIZED ? 7 : 1;
    const unsigned long faults =
        lives_with_every_fault(&lives, DISK_EIO, DISK_FAULTS - 1, step);
    CHECK(faults * step > 300);
}

/* Makes a disk call fail after `after` successful disk calls. */
static void fail_next(enum disk_fault fault, unsigned long after)
{
    disk.calls = 0;
    disk.at = 1 + after;
    disk.fault = fault;
}

TEST(oplog__a_full_disk_can_be_emptied)
{
    static struct heard heard;
    static const enum disk_fault faults[] = { DISK_ENOSPC, DISK_HALF_FULL };
    const char *path = files_path("log");
    bg_filter *filter = make(BG_KIND_BLOCKED);
    for (int i = 0; i < 2; i++) {
        bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_ALWAYS, 0);
        uint64_t hashes[3] = { 10, 20, 30 };
        bg_errinfo why;
        append(log, BG_OPLOG_ADD, 1);
        fail_next(faults[i], 0);
        CHECK_EQ(bg_oplog_change(log, filter, NULL, hashes, 3, NULL, &why), BG_EIO);
        disk.at = 0;
        CHECK_EQ(why.os_errno, ENOSPC);
        CHECK(!bg_filter_may_contain_hash(filter, 10));
        struct stat about;
        CHECK(stat(path, &about) == 0 && about.st_size == OPLOG_HEADER + 29);
        CHECK_EQ(state_of(log).failed, BG_OK);
        append(log, BG_OPLOG_ADD, 2);
        CHECK_OK(bg_oplog_close(log, NULL));
        CHECK_EQ(replay(path, &heard).dropped, 0);
        CHECK_EQ(heard.n, 2);
        CHECK_EQ(heard.records[1].hash, 2);
        CHECK(unlink(path) == 0);
    }
    bg_filter_free(filter);
    files_clean();
}

/* Until the directory is synced, a crash may leave either the old or the new log in place. */
TEST(oplog__a_log_whose_new_name_may_get_lost_has_failed)
{
    const char *path = files_path("log"), *snapshot = files_path("snapshot");
    bg_filter *filter = make(BG_KIND_BLOCKED);
    /* Taking a snapshot makes four directory calls: it opens and syncs the directory for the
     * snapshot file, and again for the log. */
    int folders = 0;
    for (unsigned long at = 0; folders < 4; at++) {
        bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_ALWAYS, 0);
        bg_errinfo why;
        append(log, BG_OPLOG_ADD, 1);
        fail_next(DISK_EIO, at);
        CHECK_EQ(bg_oplog_snapshot(log, filter, snapshot, NULL, &why), BG_EIO);
        disk.at = 0;
        folders += strstr(why.what, "directory") != NULL;
        CHECK_EQ(state_of(log).failed, folders > 2 ? BG_EIO : BG_OK);
        if (folders <= 2) { /* it continues */
            append(log, BG_OPLOG_ADD, 2);
        }
        CHECK_EQ(bg_oplog_close(log, NULL), folders > 2 ? BG_EIO : BG_OK);
        CHECK(unlink(path) == 0);
    }
    bg_filter_free(filter);
    files_clean();
}

TEST(oplog__a_failed_sync_is_never_tried_again)
{
    static struct heard heard;
    const char *path = files_path("log");
    bg_filter *filter = make(BG_KIND_BLOCKED);
    bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_NO, 0);
    bg_errinfo why;
    uint64_t hash = 3;
    append(log, BG_OPLOG_ADD, 1);
    CHECK_OK(bg_oplog_sync(log, NULL));
    append(log, BG_OPLOG_ADD, 2);
    fail_next(DISK_EIO, 0);
    CHECK_EQ(bg_oplog_sync(log, &why), BG_EIO);
    disk.at = 0;
    CHECK_EQ(why.os_errno, EIO);
    CHECK_STR(why.what, "fdatasync");
    unsigned long syncs = disk.data_syncs;
    CHECK_EQ(bg_oplog_sync(log, &why), BG_EIO);
    CHECK_EQ(why.os_errno, EIO);
    CHECK_EQ(bg_oplog_append(log, NULL, &hash, 1, NULL, &why), BG_EIO);
    CHECK_STR(why.what, "fdatasync");
    CHECK_EQ(bg_oplog_close(log, &why), BG_EIO);
    CHECK_EQ(disk.data_syncs, syncs);
    CHECK_EQ(replay(path, &heard).next, 2); /* it was acknowledged */
    log = open_log(path, filter, BG_OPLOG_SYNC_ALWAYS, 2);
    fail_next(DISK_EIO, 1); /* the write succeeds, but the sync fails */
    CHECK_EQ(bg_oplog_append(log, NULL, &hash, 1, NULL, &why), BG_EIO);
    disk.at = 0;
    CHECK_STR(why.what, "fdatasync");
    CHECK_EQ(bg_oplog_close(log, &why), BG_EIO);
    CHECK_EQ(replay(path, &heard).next, 2); /* it was not */
    log = open_log(path, filter, BG_OPLOG_SYNC_ALWAYS, 2);
    append(log, BG_OPLOG_ADD, 4);
    CHECK_OK(bg_oplog_close(log, NULL));
    heard.n = 0;
    (void)replay(path, &heard);
    CHECK_EQ(heard.n, 3);
    CHECK_EQ(heard.records[2].hash, 4);
    bg_filter_free(filter);
    files_clean();
}

TEST(oplog__interruptions_are_no_failures)
{
    static struct heard heard;
    const char *path = files_path("log"), *snapshot = files_path("snapshot");
    bg_filter *filter = make(BG_KIND_BLOCKED);
    uint64_t hash = hash_of(1);
    disk.interrupts = true;
    bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_NO, 0);
    append(log, BG_OPLOG_ADD, 2);
    CHECK_OK(bg_oplog_sync(log, NULL));
    CHECK_OK(bg_oplog_snapshot(log, filter, snapshot, NULL, NULL));
    CHECK_OK(bg_oplog_change(log, filter, NULL, &hash, 1, NULL, NULL));
    append(log, BG_OPLOG_ADD, 3);
    CHECK_OK(bg_oplog_close(log, NULL));
    /* Leaves a torn tail, which is truncated when the log is opened. */
    CHECK(truncate(path, OPLOG_HEADER + 29 + 3) == 0);
    CHECK_OK(bg_oplog_close(open_log(path, filter, BG_OPLOG_SYNC_ALWAYS, 2), NULL));
    disk.interrupts = disk.interrupted = false;
    CHECK_EQ(replay(path, &heard).dropped, 0);
    CHECK_EQ(heard.n, 1);
    CHECK_EQ(heard.records[0].hash, hash);
    bg_filter_free(filter);
    files_clean();
}

static uint64_t written_again;

static void count_written(int file, off_t at, size_t n)
{
    (void)file, (void)at;
    written_again += n;
}

/* Opens a log whose creator did not sync it, so that neither the file name nor the content is known
 * to be on disk. Opening the log must sync both. */
TEST(oplog__opening_makes_file_and_name_safe)
{
    const char *folder = lives_folder("live"), *platter = lives_folder("platter");
    const char *after = lives_folder("after");
    char path[600];
    bg_filter *filter = make(BG_KIND_COUNTING), *back = make(BG_KIND_COUNTING);
    uint64_t hash = hash_of(1);
    disk_empty_folder(folder);
    disk_empty_folder(platter);
    disk_empty_folder(after);
    (void)snprintf(path, sizeof path, "%s/log", folder);
    CHECK_OK(bg_oplog_close(open_log(path, filter, BG_OPLOG_SYNC_NO, 0), NULL));
    disk.folder = folder; /* simulates a log that has not been synced at all */
    disk.platter = platter;
    disk.on_write = count_written;
    written_again = 0;
    bg_oplog *log = open_log(path, filter, BG_OPLOG_SYNC_ALWAYS, 0);
    CHECK_EQ(written_again, OPLOG_HEADER);
    CHECK_OK(bg_oplog_change(log, filter, NULL, &hash, 1, NULL, NULL));
    disk.on_write = NULL;
    disk_power_off(platter, after);
    disk.folder = disk.platter = NULL;
    CHECK_OK(bg_oplog_close(log, NULL));
    (void)snprintf(path, sizeof path, "%s/log", after);
    CHECK_OK(bg_oplog_apply(path, 0, back, NULL, NULL));
    CHECK(bg_filter_equal(filter, back));
    lives_remove_folder(folder);
    lives_remove_folder(platter);
    lives_remove_folder(after);
    bg_filter_free(filter);
    bg_filter_free(back);
}
