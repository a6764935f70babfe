/*
 * fuzz_server_journal.c - an input is either raw bytes or a program. Raw bytes are the records of a
 * frame, or a compressed part of a pack. A program creates segments and frames, with valid
 * checksums and with valid or invalid content, and then damages them.
 *
 * Re-encoding an accepted record produces the same bytes. Frames in segments are reported in order
 * and unchanged, and every gap is reported. A reader that skips damage first reports the same
 * frames as a reader that stops at the damage.
 */
#include "fuzz.h"
#include "fuzz_input.h"
#include "support/journal_memory.h"
#include "util/squeeze.h"

enum { FUZZ_RECORDS = 1 << 16, FUZZ_STEPS = 200 };

static struct memory_journal journal;

/* ---- Records ------------------------------------------------------------------------- */

static void check_records(const uint8_t *data, size_t size)
{
    static unsigned char again[FUZZ_RECORDS];
    struct journal_cursor cursor = { .at = data, .left = size };
    struct journal_record record;
    bg_errinfo why;
    while (cursor.left > 0 && size <= sizeof again) {
        const unsigned char *at = cursor.at;
        bg_err err = journal_record_read(&cursor, &record, &why);
        if (err) {
            FUZZ_MUST(err == BG_EFORMAT || err == BG_EVERSION);
            FUZZ_MUST(why.message[0] && cursor.at == at);
            break;
        }
        size_t n = 0;
        FUZZ_MUST(journal_record_bytes(&record, &n, NULL) == BG_OK);
        FUZZ_MUST(at + n == cursor.at);
        FUZZ_MUST(journal_record_write(&record, again) == again + n);
        FUZZ_MUST(memcmp(again, at, n) == 0);
        FUZZ_MUST(record.change.n <= JOURNAL_ITEMS);
        FUZZ_MUST(cursor.memory_bytes <= 4 * size);
    }
    free(cursor.memory);
}

/* ---- Parts of packs --------------------------------------------------------------------- */

/* Accepted input expands to exactly the announced size. Compressing and decompressing the result
 * restores the same bytes. */
static void check_squeezed(const uint8_t *data, size_t size)
{
    static unsigned char back[FUZZ_RECORDS], again[FUZZ_RECORDS + SQUEEZE_MORE];
    static unsigned char back_again[FUZZ_RECORDS];
    const size_t n = squeeze_size(data, size);
    if (n <= sizeof back && squeeze_undo(data, size, back)) {
        const size_t length = squeeze(back, n, again);
        FUZZ_MUST(length <= n + SQUEEZE_MORE);
        FUZZ_MUST(squeeze_size(again, length) == n);
        FUZZ_MUST(squeeze_undo(again, length, back_again));
        FUZZ_MUST(memcmp(back, back_again, n) == 0);
    }
}

/* ---- Segments ------------------------------------------------------------------------ */

/* Writes a record whose ID is the frame's sequence number. */
static size_t right_record(uint64_t sequence, struct fuzz_input *in,
                           unsigned char payload[256])
{
    uint64_t hashes[8];
    struct journal_record record = { .type = JOURNAL_CHANGE,
                                     .id = sequence,
                                     .change = { .op = CHANGE_ADD, .hashes = hashes } };
    record.change.n = 1 + fuzz_byte(in) % 8u;
    for (size_t i = 0; i < record.change.n; i++) {
        hashes[i] = sequence * 8 + i;
    }
    return (size_t)(journal_record_write(&record, payload) - payload);
}

static void put_right_frame(struct fuzz_input *in, uint64_t sequence)
{
    unsigned char payload[256];
    struct memory_segment *s = &journal.segments[journal.count - 1];
    size_t n = right_record(sequence, in, payload);
    uint64_t back = fuzz_byte(in) % 8u;
    (void)memory_put(s, sequence, sequence > back ? sequence - back : 0, payload, n);
}

/* Writes a frame that contains a KEEP record, a MARK record or arbitrary bytes, with valid
 * checksums. */
static void put_other_frame(struct fuzz_input *in)
{
    unsigned char payload[64];
    struct journal_record record = { .type = JOURNAL_KEEP, .from = fuzz_any(in) };
    uint8_t how = fuzz_byte(in);
    if (how % 3 == 2) {
        size_t n = 8 + fuzz_byte(in) % 56u;
        fuzz_take(in, payload, n);
        const uint64_t number = journal.next++;
        (void)memory_put(&journal.segments[journal.count - 1], number,
                         number > 1 ? number - 1 : 0, payload, n);
        return;
    }
    record.type = how % 3 ? JOURNAL_KEEP : JOURNAL_MARK;
    (void)memory_append(&journal, journal.next - 1, &record);
}

static void put_header(struct fuzz_input *in)
{
    struct memory_segment *s = &journal.segments[fuzz_byte(in) % journal.count];
    struct journal_header header = s->header;
    uint8_t how = fuzz_byte(in);
    header.flags = how & 1 ? fuzz_byte(in) % 3u : header.flags;
    header.number = how & 2 ? fuzz_any(in) : header.number;
    header.first = how & 4 ? fuzz_any(in) : header.first;
    header.run = how & 8 ? fuzz_byte(in) : header.run;
    header.id[0] = how & 16 ? fuzz_byte(in) : header.id[0];
    journal_header_write(&header, s->bytes);
}

static void damage(struct fuzz_input *in)
{
    size_t which = fuzz_byte(in) % journal.count;
    struct memory_segment *s = &journal.segments[which];
    size_t at = s->n ? fuzz_u32(in) % s->n : 0, n = s->n - at;
    switch (fuzz_byte(in) % 5) {
    case 0: s->bytes[at] ^= (unsigned char)(1 + fuzz_byte(in) % 255u); break;
    case 1: s->n = at; break;
    case 2: memset(s->bytes + at, 0, n < 64 ? n : 64); break;
    case 3: fuzz_take(in, s->bytes + at, n < 16 ? n : 16); break;
    default: /* it is lost */
        if (journal.count > 1) {
            journal.count--;
            memmove(s, s + 1, (journal.count - which) * sizeof *s);
        }
    }
}

static void put_raw(struct fuzz_input *in)
{
    struct memory_segment *s = &journal.segments[journal.count - 1];
    size_t n = fuzz_byte(in), room = MEMORY_BYTES - s->n;
    n = n < room ? n : room;
    fuzz_take(in, s->bytes + s->n, n);
    s->n += n;
}

static void make(struct fuzz_input *in)
{
    memory_clear(&journal);
    journal.next = 1 + fuzz_byte(in) / 128u * fuzz_any(in) % (UINT64_MAX / 32);
    (void)memory_begin(&journal, JOURNAL_FRESH, 1);
    for (int step = 0; step < FUZZ_STEPS && in->left > 0; step++) {
        switch (fuzz_byte(in) % 12) {
        case 0:
            if (journal.count < MEMORY_SEGMENTS) {
                uint8_t how = fuzz_byte(in);
                (void)memory_begin(&journal, how % 16 == 0 ? JOURNAL_FRESH : 0,
                                   1 + (how & 1u) * journal.count);
            }
            break;
        case 1: put_other_frame(in); break;
        case 2: put_raw(in); break;
        case 3: damage(in); break;
        case 4: put_header(in); break;
        case 5: put_right_frame(in, fuzz_any(in)); break;
        case 6: journal.next += fuzz_byte(in); break;
        default: put_right_frame(in, journal.next++);
        }
    }
}

/* The frames and gaps that were reported. */
struct told {
    uint64_t next, records, missing, gaps;
    bool large;      /* one of the gaps spans a large or unknown number of frames */
    uint64_t digest; /* digest of all records, in order */
    uint64_t stop;   /* number of records after which digest_then is set, or 0 */
    uint64_t digest_then;
};

static bg_err tell(void *context, uint64_t sequence,
                   const struct journal_record *record, bg_errinfo *info)
{
    struct told *told = context;
    (void)info;
    if (record->type == JOURNAL_GAP) {
        FUZZ_MUST(record->from == sequence && record->count > sequence);
        const uint64_t frames = record->count - sequence;
        const bool large = frames >> 40 != 0;
        told->missing += large ? 1 : frames;
        told->large = told->large || large;
        told->gaps++;
        told->next = record->count > told->next ? record->count : told->next;
        return BG_OK;
    }
    FUZZ_MUST(told->next == 0 || sequence == told->next || sequence + 1 == told->next);
    told->next = sequence + 1;
    told->digest = (told->digest ^ sequence ^ record->id << 8 ^ record->type)
                   * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < record->change.n && record->change.hashes; i++) {
        told->digest ^= record->change.hashes[i] + i;
    }
    told->records++;
    if (told->records == told->stop) {
        told->digest_then = told->digest;
    }
    return BG_OK;
}

static bg_err walk(bool beyond, struct told *told, struct journal_report *report)
{
    struct journal_shelf shelf = memory_shelf(&journal);
    bg_errinfo why;
    bg_err err = journal_walk(&shelf, beyond, tell, told, report, &why);
    FUZZ_MUST(journal.taken == 0);
    FUZZ_MUST(report->tail_settled <= report->tail_end);
    if (err) {
        FUZZ_MUST(err == BG_EFORMAT || err == BG_ECHECKSUM || err == BG_EVERSION
                  || err == BG_EINCOMPAT);
        FUZZ_MUST(why.message[0] && why.code == err);
        return err;
    }
    FUZZ_MUST(report->records == told->records);
    /* `missing` counts a large gap as one frame. The report counts it as the number of frames stated in a
     * header, or as 1 if that number is unknown. */
    FUZZ_MUST(report->lost == told->missing
              || (told->large && report->lost > told->missing));
    FUZZ_MUST(beyond || (report->damages == 0 && told->gaps == 0));
    FUZZ_MUST(report->damages > 0 || report->next - report->first == report->frames);
    FUZZ_MUST(report->torn.code == BG_OK || report->dropped > 0);
    return BG_OK;
}

static void check_segments(void)
{
    struct journal_report report, beyond_report;
    struct told told = { .next = 0 }, beyond = { .next = 0 };
    bg_err err = walk(false, &told, &report);
    beyond.stop = told.records;
    bg_err beyond_err = walk(true, &beyond, &beyond_report);
    FUZZ_MUST(beyond.records >= told.records);
    FUZZ_MUST(told.records == 0 || beyond.digest_then == told.digest);
    if (!err) {
        FUZZ_MUST(!beyond_err && beyond_report.damages == 0);
        FUZZ_MUST(beyond.records == told.records);
        FUZZ_MUST(beyond_report.next == report.next);
    } else if (!beyond_err) {
        FUZZ_MUST(beyond_report.damages > 0);
        FUZZ_MUST(beyond_report.damage.code == err);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    const unsigned form = fuzz_byte(&in);
    if (form % 4 == 0) {
        check_records(in.data, in.left);
        check_squeezed(in.data, in.left);
    } else {
        make(&in);
        check_segments();
    }
    return 0;
}
