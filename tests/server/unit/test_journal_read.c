/*
 * Tests reading the journal. No matter which part of the journal is truncated, corrupted, lost or
 * replaced, every reported frame is a frame that was written, and frames are reported in order. A
 * missing frame either belongs to a torn tail that was never acknowledged, or is reported as
 * missing.
 */
#include "support/check.h"
#include "support/journal_memory.h"

#include <stdlib.h>

static struct memory_journal journal, whole;

enum { HEARD_MAX = 4096 };

/* The result of reading a journal: the sequence numbers of the frames, and the number of gaps. */
struct heard {
    uint64_t sequences[HEARD_MAX];
    size_t n;
    uint64_t next;    /* sequence number of the next frame */
    uint64_t missing; /* number of missing frames */
    size_t gaps;
    uint64_t stop_at; /* the callback returns an error at this frame; 0 means never */
};

static uint64_t hash_of(uint64_t i)
{
    uint64_t state = i + 1;
    return check_random_next(&state);
}

/* Returns the record of frame i: an add of one to three hashes, which depend only on i. */
static struct journal_record record_of(uint64_t i, uint64_t hashes[3])
{
    for (uint64_t k = 0; k < 3; k++) {
        hashes[k] = hash_of(3 * i + k);
    }
    return (struct journal_record){
        .type = JOURNAL_CHANGE,
        .id = i,
        .change = { .op = CHANGE_ADD, .n = 1 + i % 3, .hashes = hashes }
    };
}

static void append(uint64_t synced)
{
    uint64_t hashes[3];
    struct journal_record record = record_of(journal.next, hashes);
    CHECK(memory_append(&journal, synced, &record));
}

static bg_err hear(void *context, uint64_t sequence,
                   const struct journal_record *record, bg_errinfo *info)
{
    struct heard *heard = context;
    (void)info;
    if (record->type == JOURNAL_GAP) {
        CHECK_EQ(record->from, sequence);
        CHECK(record->count > record->from);
        const uint64_t frames = record->count - record->from;
        /* an unknown number of frames is counted as one */
        heard->missing += frames >> 40 ? 1 : frames;
        heard->gaps++;
        heard->next = heard->next > record->count ? heard->next : record->count;
        return BG_OK;
    }
    CHECK(heard->next == 0 || sequence == heard->next);
    heard->next = sequence + 1;
    if (record->type == JOURNAL_CHANGE) { /* must equal the record that was written */
        uint64_t hashes[3];
        struct journal_record as = record_of(sequence, hashes);
        CHECK_EQ(record->id, as.id);
        CHECK_EQ(record->change.n, as.change.n);
        CHECK(memcmp(record->change.hashes, hashes, 8 * as.change.n) == 0);
    }
    CHECK(heard->n < HEARD_MAX);
    heard->sequences[heard->n++] = sequence;
    return heard->stop_at == sequence ? BG_ECANCELED : BG_OK;
}

static bg_err walk(bool beyond, struct heard *heard, struct journal_report *report,
                   bg_errinfo *why)
{
    struct journal_shelf shelf = memory_shelf(&journal);
    uint64_t stop_at = heard->stop_at;
    *heard = (struct heard){ .stop_at = stop_at };
    bg_err err = journal_walk(&shelf, beyond, hear, heard, report, why);
    CHECK_EQ(journal.taken, 0);
    if (err) {
        CHECK(why->message[0]);
        CHECK_EQ(why->code, heard->stop_at ? BG_OK : err);
    } else {
        CHECK_EQ(report->frames, heard->n);
        CHECK_EQ(report->lost, heard->missing);
        CHECK(heard->next == 0 || report->next == heard->next);
        CHECK(beyond || report->damages == 0);
        CHECK((report->damages == 0) == (heard->gaps == 0) || beyond);
        CHECK((report->torn.code == BG_OK) == (report->dropped == 0));
    }
    return err;
}

/* Writes frames 1 to n in one segment. Each frame records that the frame `behind` positions earlier
 * was synced. */
static void make_one(uint64_t n, uint64_t behind)
{
    memory_clear(&journal);
    (void)memory_begin(&journal, JOURNAL_FRESH, 1);
    for (uint64_t i = 1; i <= n; i++) {
        append(i > behind ? i - behind : 0);
    }
}

/* Returns the offset at which a frame ends in a segment created by make_one. */
static size_t end_of(uint64_t frame)
{
    size_t at = JOURNAL_HEADER;
    for (uint64_t i = 1; i <= frame; i++) {
        at += JOURNAL_HEAD + 8 + 8 + 4 + 8 * (size_t)(1 + i % 3);
    }
    return at;
}

/* ---- Intact journals ----------------------------------------------------------------- */

TEST(journal_read__nothing_is_an_empty_journal)
{
    static struct heard heard;
    struct journal_report report;
    bg_errinfo why;
    memory_clear(&journal);
    CHECK_OK(walk(false, &heard, &report, &why));
    CHECK_EQ(report.first, 1);
    CHECK_EQ(report.next, 1);
    CHECK(report.clean);
    CHECK_EQ(report.tail_segment, 0);
}

TEST(journal_read__segments_are_read_one_after_the_other)
{
    static struct heard heard;
    struct journal_report report;
    bg_errinfo why;
    memory_clear(&journal);
    for (unsigned s = 0; s < 4; s++) {
        (void)memory_begin(&journal, s == 0 ? JOURNAL_FRESH : 0, 1 + s / 2);
        for (unsigned i = 0; i < 10 * s; i++) { /* the first segment is empty */
            append(journal.next - 1);
        }
    }
    struct journal_record mark = { .type = JOURNAL_MARK };
    CHECK(memory_append(&journal, journal.next - 1, &mark));
    CHECK_OK(walk(false, &heard, &report, &why));
    CHECK_EQ(report.frames, 61);
    CHECK_EQ(report.records, 61);
    CHECK_EQ(report.segments, 4);
    CHECK_EQ(report.next, 62);
    CHECK_EQ(report.synced, 60);
    CHECK(report.clean);
    CHECK_EQ(report.dropped, 0);
    CHECK_EQ(report.tail_segment, 4);
    CHECK_EQ(report.tail_end, journal.segments[3].n);
    CHECK(report.tail_settled < report.tail_end);
    CHECK_EQ(report.id[0], 0x5a);
}

/* Tests the byte format in journal/record.h, which must never change. */
TEST(journal_read__the_bytes_of_header_and_head)
{
    static const unsigned char header_promised[56] = {
        0x89, 'B', 'G', 'J', '\r', '\n', 0x1a, '\n',
        2,    0,   0,   0,   1,    0,    0,    0, /* */
        9,    0,   0,   0,   0,    0,    0,    0,
        4,    3,   2,   1,   0,    0,    0,    0, /* number, first */
        0,    1,   2,   3,   4,    5,    6,    7,
        8,    9,   10,  11,  12,   13,   14,   15, /* id */
        8,    0,   0,   0,   0,    0,    0,    0,  /* run */
    };
    /* Computed with xxhsum -H3. */
    static const unsigned char header_check[8] = { 0xd5, 0x46, 0x96, 0xf8,
                                                   0x26, 0xd3, 0x2e, 0xbb };
    static const unsigned char first_check[8] = { 0x7f, 0x0a, 0x45, 0xcc,
                                                  0x76, 0xd0, 0x20, 0x53 };
    static const unsigned char head_promised[32] = {
        0x0c, 0,    0,    0,    0x0c, 0xd0, 0xb0, 0x62,
        1,    2,    0,    0,    0,    0,    0,    0, /* */
        2,    1,    0,    0,    0,    0,    0,    0,
        0x4b, 0xee, 0xaa, 0x4c, 0x4a, 0x93, 0x9f, 0x8e,
    };
    struct journal_header header = {
        .flags = JOURNAL_FRESH, .number = 9, .first = 0x01020304, .run = 8
    };
    unsigned char bytes[JOURNAL_HEADER];
    for (unsigned i = 0; i < JOURNAL_ID; i++) {
        header.id[i] = (uint8_t)i;
    }
    journal_header_write(&header, bytes);
    CHECK(memcmp(bytes, header_promised, sizeof header_promised) == 0);
    CHECK(memcmp(bytes + 56, header_check, 8) == 0);
    struct journal_header again = { .flags = 0 };
    bytes[8] = 1; /* version 1 can also be read */
    memcpy(bytes + 56, first_check, 8);
    CHECK_OK(journal_header_read(bytes, &again, NULL));
    CHECK(again.flags == header.flags && again.number == 9 && again.run == 8
          && again.first == header.first
          && memcmp(again.id, header.id, JOURNAL_ID) == 0);
    /* Readers of version 1 would delete packs (files that contain several filters), so they must
     * reject version 2. */
    CHECK(JOURNAL_VERSION > 1);
    uint64_t seed = journal_seed(header.id, header.run);
    /* the seed must never change either */
    CHECK_EQ(seed, UINT64_C(0xa9709dd020604409));
    struct journal_head head = { .length = 12,
                                 .sequence = 0x0201,
                                 .synced = 0x0102,
                                 .check =
                                     journal_payload_check("twelve bytes", 12, seed) };
    journal_head_write(&head, seed, bytes);
    CHECK(memcmp(bytes, head_promised, sizeof head_promised) == 0);
}

TEST(journal_read__a_visitor_can_end_it)
{
    static struct heard heard;
    struct journal_report report;
    bg_errinfo why = { .message = "mine" };
    make_one(9, 1);
    heard.stop_at = 4;
    struct journal_shelf shelf = memory_shelf(&journal);
    CHECK_EQ(journal_walk(&shelf, false, hear, &heard, &report, &why), BG_ECANCELED);
    CHECK_EQ(heard.n, 4);
    CHECK_EQ(journal.taken, 0);
    CHECK_OK(journal_walk(&shelf, false, NULL, NULL, NULL, NULL)); /* no callback */
}

/* ---- Torn tails ---------------------------------------------------------------------- */

TEST(journal_read__every_truncation_tells_a_prefix)
{
    static struct heard heard;
    struct journal_report report;
    bg_errinfo why;
    make_one(12, 2);
    size_t n = journal.segments[0].n;
    CHECK_EQ(n, end_of(12));
    for (size_t cut = 0; cut <= n; cut++) {
        journal.segments[0].n = cut;
        bg_err err = walk(false, &heard, &report, &why);
        if (cut < JOURNAL_HEADER) {
            CHECK_EQ(err, BG_EFORMAT);
            CHECK_STR(why.what, "header");
            CHECK_EQ(heard.n, 0);
            continue;
        }
        uint64_t frames = 0;
        while (frames < 12 && end_of(frames + 1) <= cut) {
            frames++;
        }
        CHECK_OK(err);
        CHECK_EQ(heard.n, frames);
        CHECK_EQ(report.next, frames + 1);
        CHECK_EQ(report.tail_end, end_of(frames));
        CHECK_EQ(report.dropped, cut - end_of(frames));
        CHECK_EQ(report.behind, 0);
        CHECK_EQ(report.torn.code, cut == end_of(frames) ? BG_OK : BG_EFORMAT);
        CHECK(report.tail_settled <= report.tail_end);
    }
}

/* A missing frame is not an error if no later frame records that it was synced, even if valid
 * frames follow. */
TEST(journal_read__holes_in_what_was_not_synced_are_torn)
{
    static struct heard heard;
    struct journal_report report;
    bg_errinfo why;
    for (uint64_t behind = 1; behind <= 12; behind++) {
        for (uint64_t bad = 1; bad <= 12; bad++) {
            make_one(12, behind);
            memset(journal.segments[0].bytes + end_of(bad - 1), 0,
                   end_of(bad) - end_of(bad - 1));
            bg_err err = walk(false, &heard, &report, &why);
            CHECK_EQ(heard.n, bad - 1);
            if (behind < 12 && bad <= 12 - behind) {
                /* frame 12 records that the invalid frame was synced */
                CHECK_EQ(err, BG_ECHECKSUM);
                CHECK_EQ(why.offset, end_of(bad - 1));
                CHECK(strstr(why.message, "segment 1 at byte"));
                continue;
            }
            CHECK_OK(err);
            CHECK_EQ(report.tail_end, end_of(bad - 1));
            CHECK_EQ(report.behind, 12 - bad);
            CHECK_EQ(report.torn.offset, end_of(bad - 1));
            CHECK_EQ(report.next, bad);
        }
    }
}

/* The part of a segment that is known to be synced ends with the last frame that is recorded as
 * synced, or a few frames earlier. */
TEST(journal_read__settled_is_what_frames_say)
{
    static struct heard heard;
    struct journal_report report;
    bg_errinfo why;
    for (uint64_t behind = 1; behind <= 5; behind++) {
        make_one(40, behind);
        CHECK_OK(walk(false, &heard, &report, &why));
        CHECK_EQ(report.synced, 40 - behind);
        CHECK(report.tail_settled <= end_of(40 - behind));
        CHECK(report.tail_settled >= end_of(40 - 2 * behind - 1));
    }
    make_one(40, 40); /* no frame records that another frame was synced */
    CHECK_OK(walk(false, &heard, &report, &why));
    CHECK_EQ(report.tail_settled, JOURNAL_HEADER);
    make_one(40, 0); /* each covers itself */
    CHECK_OK(walk(false, &heard, &report, &why));
    CHECK_EQ(report.tail_settled, end_of(40));
}

/* ---- Flips --------------------------------------------------------------------------- */

/* Flips a bit in a journal with two segments. Checks that no record is reported that was not
 * written, and that no frame that is recorded as synced is silently omitted. */
static void check_flip(size_t segment, size_t bit)
{
    static struct heard heard;
    struct journal_report report;
    bg_errinfo why;
    unsigned char *byte = &journal.segments[segment].bytes[bit / 8];
    *byte ^= (unsigned char)(1u << bit % 8);
    bg_err err = walk(false, &heard, &report, &why);
    if (!err) {
        /* only the last frames, which no later frame records as synced, can be treated as a torn
         * tail */
        CHECK_EQ(segment, 1);
        CHECK(report.torn.code);
        CHECK(report.next > 15 - 2);
        CHECK_EQ(report.next, heard.n + 1);
    } else {
        CHECK(err == BG_ECHECKSUM || err == BG_EFORMAT || err == BG_EVERSION);
    }
    bg_err beyond = walk(true, &heard, &report, &why);
    if (err && err != BG_EVERSION && bit >= JOURNAL_HEADER * 8) {
        CHECK_OK(beyond); /* only the damaged frame is missing */
        CHECK_EQ(report.damages, 1);
        CHECK_EQ(heard.n + heard.missing, 15);
        CHECK_EQ(heard.missing, 1);
        CHECK_EQ(report.damage.code, err);
    }
    *byte ^= (unsigned char)(1u << bit % 8);
}

TEST(journal_read__every_flipped_bit_is_noticed)
{
    memory_clear(&journal);
    for (unsigned s = 0; s < 2; s++) {
        (void)memory_begin(&journal, s == 0 ? JOURNAL_FRESH : 0, 1);
        for (unsigned i = 0; i < 7 + s; i++) {
            append(journal.next > 2 ? journal.next - 2 : 0);
        }
    }
    for (size_t s = 0; s < 2; s++) {
        for (size_t bit = 0; bit < 8 * journal.segments[s].n; bit++) {
            check_flip(s, bit);
        }
    }
}

/* Overwrites parts of the journal with random bytes, zeros, or bytes from other positions. No wrong
 * record may be reported. */
TEST(journal_read__no_damage_tells_a_wrong_record)
{
    static struct heard heard;
    struct journal_report report;
    bg_errinfo why;
    size_t errors = 0, torn = 0;
    make_one(60, 3);
    (void)memory_begin(&journal, 0, 2);
    for (unsigned i = 0; i < 60; i++) {
        append(journal.next - 3);
    }
    whole = journal;
    for (size_t turn = 0; turn < 2000 * check_scale(); turn++) {
        struct memory_segment *s = &journal.segments[check_random_below(2)];
        size_t at = (size_t)check_random_below(s->n);
        size_t n = 1 + (size_t)check_random_below(s->n - at < 500 ? s->n - at : 500);
        size_t from = (size_t)check_random_below(s->n - n + 1);
        switch (check_random_below(3)) {
        case 0: memset(s->bytes + at, 0, n); break;
        case 1: memmove(s->bytes + at, s->bytes + from, n); break;
        default:
            for (size_t i = at; i < at + n; i++) {
                s->bytes[i] = (unsigned char)check_random();
            }
        }
        bg_err err = walk(false, &heard, &report, &why);
        errors += err != BG_OK;
        torn += !err && report.torn.code;
        if (!err && s == &journal.segments[0]
            && memcmp(s, &whole.segments[0], sizeof *s) != 0) {
            /* no frame is missing unless an error is reported */
            CHECK_EQ(report.next, 121);
        }
        if (!walk(true, &heard, &report, &why)) {
            CHECK(heard.n + heard.missing <= 120);
        }
        memcpy(s, &whole.segments[s - journal.segments], sizeof *s);
    }
    CHECK(errors > 100);
    CHECK(torn > 10);
}

/* ---- Damage -------------------------------------------------------------------------- */

static void make_three(void)
{
    memory_clear(&journal);
    for (unsigned s = 0; s < 3; s++) {
        (void)memory_begin(&journal, s == 0 ? JOURNAL_FRESH : 0, 1);
        for (unsigned i = 0; i < 5; i++) {
            append(journal.next - 1);
        }
    }
}

static void remove_segment(size_t i)
{
    memmove(&journal.segments[i], &journal.segments[i + 1],
            (journal.count - i - 1) * sizeof journal.segments[0]);
    journal.count--;
}

TEST(journal_read__a_missing_segment_is_damage)
{
    static struct heard heard;
    struct journal_report report;
    bg_errinfo why;
    make_three();
    remove_segment(1);
    CHECK_EQ(walk(false, &heard, &report, &why), BG_EFORMAT);
    CHECK_EQ(heard.n, 5);
    CHECK_STR(why.what, "first frame of the segment");
    CHECK(strstr(why.message, "segment 3"));
    CHECK(strstr(why.message, "found frame 11 instead of frame 6"));
    CHECK_OK(walk(true, &heard, &report, &why));
    CHECK_EQ(heard.n, 10);
    CHECK_EQ(heard.gaps, 1);
    CHECK_EQ(heard.missing, 5);
    CHECK_EQ(report.damages, 1);
    CHECK_EQ(report.next, 16);
}

TEST(journal_read__a_missing_beginning_is_damage)
{
    static struct heard heard;
    struct journal_report report;
    bg_errinfo why;
    make_three();
    remove_segment(0);
    CHECK_EQ(walk(false, &heard, &report, &why), BG_EFORMAT);
    CHECK_STR(why.what, "first frame of the journal");
    CHECK_OK(walk(true, &heard, &report, &why));
    CHECK_EQ(heard.missing, 5);
    CHECK_EQ(report.first, 6);
    /* The missing segment is not treated as damage if the journal records that it is no longer
     * needed. */
    struct journal_record keep = { .type = JOURNAL_KEEP, .from = 6 };
    CHECK(memory_append(&journal, journal.next - 1, &keep));
    CHECK_OK(walk(false, &heard, &report, &why));
    CHECK_EQ(report.keep, 6);
    CHECK_EQ(report.first, 6);
    remove_segment(0);
    /* the removed segment is still needed */
    CHECK_EQ(walk(false, &heard, &report, &why), BG_EFORMAT);
}

TEST(journal_read__a_segment_that_was_cut_is_damage)
{
    static struct heard heard;
    struct journal_report report;
    bg_errinfo why;
    make_three();
    size_t n = journal.segments[1].n;
    for (size_t cut = 0; cut < n; cut++) {
        journal.segments[1].n = cut;
        CHECK_EQ(walk(false, &heard, &report, &why), BG_EFORMAT);
        CHECK(heard.n < 10);
        CHECK_OK(walk(true, &heard, &report, &why));
        CHECK_EQ(heard.n + heard.missing, 15);
        CHECK_EQ(report.damages, 1);
        CHECK(heard.gaps == 1 && heard.n >= 10);
    }
}

/* A torn tail may remain in a segment when the next run starts a new segment, so the bytes after
 * the last valid frame are ignored. */
TEST(journal_read__what_is_behind_the_last_frame_of_a_segment_is_not_looked_at)
{
    static struct heard heard;
    struct journal_report report;
    bg_errinfo why;
    make_one(10, 10);
    size_t end = journal.segments[0].n;
    append(0); /* frame 11 of the first run */
    append(0);
    /* damages frame 11, so there is a hole before frame 12 */
    journal.segments[0].bytes[end + 3]++;
    journal.next = 11;
    (void)memory_begin(&journal, 0, 2);
    append(10);
    append(10);
    CHECK_OK(walk(false, &heard, &report, &why));
    CHECK_EQ(heard.n, 12);
    /* frame 11 is now intact, but is ignored because the next run has replaced it */
    journal.segments[0].bytes[end + 3]--;
    CHECK_OK(walk(false, &heard, &report, &why));
    CHECK_EQ(heard.n, 12);
}

TEST(journal_read__frames_of_others_are_not_believed)
{
    static struct heard heard;
    struct journal_report report;
    bg_errinfo why;
    uint64_t hashes[3];
    unsigned char payload[64];
    size_t n;
    for (unsigned turn = 0; turn < 2; turn++) {
        make_one(5, 1);
        struct memory_segment *s = &journal.segments[0], other = *s;
        /* changes the ID in the first round and the run number in the second */
        other.header.id[3] ^= turn == 0 ? 1 : 0;
        other.header.run += turn;
        struct journal_record record = record_of(6, hashes);
        CHECK_OK(journal_record_bytes(&record, &n, NULL));
        (void)journal_record_write(&record, payload);
        CHECK(memory_put(&other, 6, 5, payload, n));
        CHECK(memory_put(&other, 7, 6, payload, n));
        memcpy(s->bytes, other.bytes, other.n);
        journal_header_write(&s->header, s->bytes);
        s->n = other.n;
        CHECK_OK(walk(false, &heard, &report, &why));
        CHECK_EQ(heard.n, 5);
        CHECK_EQ(report.behind, 0);
        CHECK(report.dropped > 0);
    }
}

TEST(journal_read__frames_out_of_order_are_damage)
{
    static struct heard heard;
    struct journal_report report;
    bg_errinfo why;
    make_one(9, 1);
    struct memory_segment *s = &journal.segments[0];
    /* Removes frame 4 without leaving a hole. */
    memmove(s->bytes + end_of(3), s->bytes + end_of(4), s->n - end_of(4));
    s->n -= end_of(4) - end_of(3);
    CHECK_EQ(walk(false, &heard, &report, &why), BG_EFORMAT);
    CHECK_STR(why.what, "frame number");
    CHECK(strstr(why.message, "expected frame 4, but found frame 5"));
    CHECK_EQ(heard.n, 3);
    /* Frame 9 is present twice. The second copy is dropped, because it is out of order and no frame
     * follows it. */
    make_one(9, 1);
    memcpy(s->bytes + s->n, s->bytes + end_of(8), end_of(9) - end_of(8));
    s->n += end_of(9) - end_of(8);
    CHECK_OK(walk(false, &heard, &report, &why));
    CHECK_EQ(heard.n, 9);
    CHECK_EQ(report.dropped, end_of(9) - end_of(8));
}

TEST(journal_read__a_fresh_segment_is_a_new_beginning)
{
    static struct heard heard;
    struct journal_report report;
    bg_errinfo why;
    make_three();
    journal.next = 20; /* skips frames 16 to 19 */
    (void)memory_begin(&journal, JOURNAL_FRESH, 1);
    append(20);
    append(20);
    CHECK_OK(walk(false, &heard, &report, &why));
    CHECK_EQ(heard.n, 2);
    CHECK_EQ(report.first, 20);
    CHECK_EQ(report.keep, 20);
    CHECK_EQ(report.segments, 1);
    /* damage in the segments before the fresh segment does not matter */
    journal.segments[1].bytes[3]++;
    journal.segments[2].n = 70;
    CHECK_OK(walk(false, &heard, &report, &why));
    CHECK_EQ(heard.n, 2);
    journal.segments[3].bytes[12] ^= 1; /* the fresh segment itself must be intact */
    CHECK(walk(false, &heard, &report, &why) != BG_OK);
}

TEST(journal_read__headers_that_lie_are_refused)
{
    static struct heard heard;
    struct journal_report report;
    bg_errinfo why;
    for (int lie = 0; lie < 6; lie++) {
        make_three();
        struct memory_segment *s = &journal.segments[1];
        struct journal_header header = s->header;
        header.number += lie == 0;
        header.id[15] ^= lie == 1;
        header.first = lie == 2 ? 3 : lie == 3 ? 0 : header.first;
        header.run = lie == 4 ? 0 : lie == 5 ? 7 : header.run;
        journal_header_write(&header, s->bytes);
        bg_err err = walk(false, &heard, &report, &why);
        CHECK_EQ(err, lie == 1 ? BG_EINCOMPAT : BG_EFORMAT);
        CHECK(strstr(why.message, "segment 2") || lie == 2);
        CHECK_OK(walk(true, &heard, &report, &why));
        CHECK(heard.n + heard.missing == 15);
    }
}

TEST(journal_read__newer_versions_are_refused)
{
    static struct heard heard;
    struct journal_report report;
    bg_errinfo why;
    unsigned char bytes[16] = { 16, 0, 0, 0, JOURNAL_TYPES };
    make_one(3, 1);
    CHECK(memory_put(&journal.segments[0], 4, 3, bytes, sizeof bytes));
    for (int beyond = 0; beyond < 2; beyond++) {
        CHECK_EQ(walk(beyond, &heard, &report, &why), BG_EVERSION);
        CHECK_EQ(heard.n, 3);
        CHECK_EQ(why.offset, end_of(3) + JOURNAL_HEAD);
        CHECK(strstr(why.message, "segment 1 at byte"));
    }
    make_one(3, 1);
    struct memory_segment *s = &journal.segments[0];
    s->header.flags = 2; /* a future flag */
    journal_header_write(&s->header, s->bytes);
    CHECK_EQ(walk(true, &heard, &report, &why), BG_EVERSION);
}

TEST(journal_read__long_frames_are_read_and_longer_ones_are_not)
{
    struct journal_head head = { .length = JOURNAL_PAYLOAD_MAX, .sequence = 5 }, back;
    unsigned char bytes[JOURNAL_HEAD];
    journal_head_write(&head, 1, bytes);
    CHECK(journal_head_read(bytes, 1, &back));
    CHECK_EQ(back.length, head.length);
    CHECK(!journal_head_read(bytes, 2, &back));
    head.length++;
    journal_head_write(&head, 1, bytes);
    /* refused before any memory is allocated */
    CHECK(!journal_head_read(bytes, 1, &back));
    head.length = JOURNAL_RECORD_HEAD - 1;
    journal_head_write(&head, 1, bytes);
    CHECK(!journal_head_read(bytes, 1, &back));
    head = (struct journal_head){ .length = 100, .sequence = 5, .synced = 6 };
    journal_head_write(&head, 1, bytes);
    CHECK(!journal_head_read(bytes, 1, &back)); /* more than existed */
}

/* If a journal is damaged in many places, each intact frame is still reported, and the search for
 * frames terminates. */
TEST(journal_read__many_damaged_frames_cost_only_themselves)
{
    static struct heard heard;
    struct journal_report report;
    bg_errinfo why;
    make_one(900, 1);
    struct memory_segment *s = &journal.segments[0];
    for (uint64_t bad = 3; bad < 800; bad += 3) {
        s->bytes[end_of(bad - 1) + check_random_below(end_of(bad) - end_of(bad - 1))] ^=
            4;
    }
    CHECK(walk(false, &heard, &report, &why) != BG_OK);
    CHECK_EQ(heard.n, 2);
    CHECK_OK(walk(true, &heard, &report, &why));
    CHECK_EQ(report.damages, 266);
    CHECK_EQ(heard.missing, 266);
    CHECK_EQ(heard.n, 900 - 266);
}
