/*
 * journal/read.c - reads segments: delivers complete frames, discards a torn tail and reports
 * damage.
 *
 * The effects of a crash. The kernel writes pages in any order, so the bytes after the last sync
 * may contain partial frames and runs of zeros, followed by complete frames. None of these frames
 * was ever reported as synced. The bytes form a torn tail, where reading stops. A crash cannot tear
 * synced bytes. Each frame stores the number of the last frame that had been synced when the frame
 * was written. Reading therefore follows these rules:
 *
 *   (R1) A frame is delivered only after its checksums have been verified, so a delivered frame is
 *        never partial or altered.
 *   (R2) Frames are delivered in numerical order, and every gap is reported.
 *   (R3) Each segment was completely synced before its successor got its final name. Therefore,
 *        every bad or missing frame in a segment with a successor is damage. Bytes after the last
 *        frame of such a segment are a torn tail, not damage, if the successor starts with the next
 *        frame number.
 *   (R4) In the last segment, a bad frame is damage if any complete frame after it states that the
 *        bad frame was synced. Otherwise, the bad frame and everything after it form a torn tail.
 *   (R5) Reading starts at the last fresh segment; earlier segments are ignored.
 *   (R6) If the number of the newest segment is known, and the last segment is older or belongs to
 *        another journal, then the end of the journal is missing, which is damage. A crash does not
 *        remove a segment that already had its final name.
 *   (R7) If the header of the last segment is bad, something other than a crash changed the file.
 *        Unless the segment consists only of complete frames, the end of the journal is missing.
 *   (R8) After an orderly stop, the number of the MARK is known. A bad or missing frame before the
 *        MARK is damage.
 *   (R9) A fresh segment replaces older segments of its own journal. If older segments belong to
 *        another journal, and it is unknown which of the two journals belongs in this directory,
 *        the directory is damaged.
 *
 * One kind of damage is indistinguishable from a torn tail: damage to the last synced frames after
 * a crash.
 *
 * The search for complete frames after a bad frame checks for a valid head at every byte. An
 * attacker who does not know the directory's ID cannot forge the checksum of a head. The search
 * scans the rest of a segment at most twice, regardless of the number of bad frames.
 *
 * Memory: one window into the file. The window is as large as the largest frame read so far, and at
 * least 1 MiB. The length of a frame is used only if the checksum of its head is correct.
 */
#include "journal/read.h"

#include "journal/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WALK_WINDOW = 1 << 20 };

/* More frames than any missing segment can contain. */
#define WALK_LOST (UINT64_C(1) << 40)

/* The header of a segment, or the reason why it is invalid. */
struct walk_header {
    struct journal_header header;
    bg_errinfo why; /* the header is valid if the code is BG_OK */
};

struct walk {
    const struct journal_shelf *shelf;
    bool beyond;
    journal_visit *visit;
    void *context;
    struct journal_report *report;
    struct walk_header *headers;
    size_t start; /* index of the first segment to read */
    uint8_t id[JOURNAL_ID];
    bool broken; /* the current gap has already been reported */
    bool open;   /* the last segment may have contained more frames (R7) */
    bool mixed;  /* earlier segments belong to another journal (R9) */
    /* The segment being read. */
    struct journal_source source;
    bool last;
    uint64_t seed;
    uint64_t limit; /* number of the successor's first frame */
    uint64_t at;    /* offset after the last complete frame */
    uint64_t proof; /* largest `synced` value in the remaining complete frames */
    bool proved;    /* `proof` is known */
    /* a frame that is not yet known to be synced, and its end */
    uint64_t candidate, candidate_end;
    /* The part of the segment in memory, starting at window_at. */
    unsigned char *window;
    size_t window_room, window_bytes;
    uint64_t window_at;
    struct journal_cursor cursor;
};

/* Enlarges the window to at least n bytes and discards its content. */
static bg_err walk_widen(struct walk *w, size_t n, bg_errinfo *info)
{
    free(w->window);
    w->window_bytes = 0;
    w->window = malloc(n);
    w->window_room = w->window ? n : 0;
    return w->window ? BG_OK
                     : journal_error_why(info, BG_ENOMEM, "memory",
                                         "cannot allocate %zu bytes for a frame", n);
}

/* Sets *bytes to the n bytes at an offset. The caller has checked that the segment contains these
 * bytes. */
static bg_err walk_look(struct walk *w, uint64_t at, size_t n,
                        const unsigned char **bytes, bg_errinfo *info)
{
    if (at < w->window_at || at + n > w->window_at + w->window_bytes) {
        uint64_t left = w->source.bytes - at;
        size_t some = left < WALK_WINDOW ? (size_t)left : WALK_WINDOW;
        some = n > some ? n : some;
        bg_err err = some > w->window_room ? walk_widen(w, some, info) : BG_OK;
        if (err) {
            return err;
        }
        w->window_bytes = 0;
        err = w->source.read(w->source.context, at, w->window, some, info);
        if (err) {
            return err;
        }
        w->window_at = at;
        w->window_bytes = some;
    }
    *bytes = w->window + (at - w->window_at);
    return BG_OK;
}

/* ---- Frames ------------------------------------------------------------------------------ */

/* The frame at an offset, if it is complete. Otherwise, `why` contains an error code and the
 * location. */
struct walk_frame {
    struct journal_head head;
    const unsigned char *payload;
    bg_errinfo why;
};

static void walk_refuse(const struct walk *w, uint64_t at, struct walk_frame *frame,
                        bg_err code, const char *what, const char *found)
{
    (void)journal_error_why(&frame->why, code, what, "expected frame %llu, but %s",
                            (unsigned long long)w->report->next, found);
    journal_error_place(&frame->why, w->source.name, at);
}

static bg_err walk_get_frame(struct walk *w, uint64_t at, struct walk_frame *frame,
                             bg_errinfo *info)
{
    uint64_t left = w->source.bytes - at;
    const unsigned char *bytes = NULL;
    char found[64];
    frame->why.code = BG_OK;
    if (left < JOURNAL_HEAD) {
        (void)snprintf(found, sizeof found, "only %u bytes are left", (unsigned)left);
        walk_refuse(w, at, frame, BG_EFORMAT, "frame", found);
        return BG_OK;
    }
    bg_err err = walk_look(w, at, JOURNAL_HEAD, &bytes, info);
    if (err) {
        return err;
    }
    if (!journal_head_read(bytes, w->seed, &frame->head)) {
        walk_refuse(w, at, frame, BG_ECHECKSUM, "frame head", "its head is damaged");
        return BG_OK;
    }
    if (frame->head.length > left - JOURNAL_HEAD) {
        (void)snprintf(found, sizeof found, "found only %llu of its %u bytes",
                       (unsigned long long)(left - JOURNAL_HEAD), frame->head.length);
        walk_refuse(w, at, frame, BG_EFORMAT, "frame", found);
        return BG_OK;
    }
    err = walk_look(w, at, JOURNAL_HEAD + (size_t)frame->head.length, &bytes, info);
    if (err) {
        return err;
    }
    frame->payload = bytes + JOURNAL_HEAD;
    uint64_t check = journal_payload_check(frame->payload, frame->head.length, w->seed);
    if (check != frame->head.check) {
        (void)snprintf(found, sizeof found, "its checksum does not match (0x%016llx)",
                       (unsigned long long)check);
        walk_refuse(w, at, frame, BG_ECHECKSUM, "frame checksum", found);
    }
    return BG_OK;
}

/* Reads the frame at w->at and checks that it is the next frame. */
static bg_err walk_next_frame(struct walk *w, struct walk_frame *frame,
                              bg_errinfo *info)
{
    bg_err err = walk_get_frame(w, w->at, frame, info);
    if (!err && !frame->why.code && frame->head.sequence != w->report->next) {
        char found[64];
        (void)snprintf(found, sizeof found, "found frame %llu",
                       (unsigned long long)frame->head.sequence);
        walk_refuse(w, w->at, frame, BG_EFORMAT, "frame number", found);
    }
    return err;
}

/* The result of a search for complete frames after a bad frame. */
struct walk_search {
    uint64_t count;
    uint64_t first, first_at; /* the first complete frame, and its offset */
    uint64_t proof;           /* the largest `synced` value in the complete frames */
};

/* Searches the unread part of the segment for complete frames. Stops at the first one unless `all`
 * is set. */
static bg_err walk_search(struct walk *w, bool all, struct walk_search *found,
                          bg_errinfo *info)
{
    *found = (struct walk_search){ .count = 0 };
    uint64_t at = w->at + 1;
    while (at < w->source.bytes && w->source.bytes - at >= JOURNAL_HEAD) {
        struct walk_frame frame;
        struct journal_head head;
        const unsigned char *bytes = NULL;
        bg_err err = walk_look(w, at, JOURNAL_HEAD, &bytes, info);
        if (err) {
            return err;
        }
        if (!journal_head_read(bytes, w->seed, &head) || head.sequence < w->report->next
            || head.sequence >= w->limit) {
            at++;
            continue;
        }
        err = walk_get_frame(w, at, &frame, info);
        if (err) {
            return err;
        }
        if (frame.why.code) {
            at++;
            continue;
        }
        if (found->count++ == 0) {
            found->first = head.sequence;
            found->first_at = at;
        }
        found->proof = head.synced > found->proof ? head.synced : found->proof;
        at += JOURNAL_HEAD + (uint64_t)head.length;
        if (!all) {
            break;
        }
    }
    return BG_OK;
}

/* ---- Delivering -------------------------------------------------------------------------- */

/* Returns damage as an error, or only records it if reading is to continue beyond damage. */
static bg_err walk_damage(struct walk *w, const bg_errinfo *why, bg_errinfo *info)
{
    if (!w->beyond) {
        if (info) {
            *info = *why;
        }
        return why->code;
    }
    if (w->report->damages++ == 0) {
        w->report->damage = *why;
    }
    return BG_OK;
}

/* Reports that the frames `from` to `to` - 1 are missing. */
static bg_err walk_tell_gap(struct walk *w, uint64_t from, uint64_t to,
                            bg_errinfo *info)
{
    const struct journal_record gap = { .type = JOURNAL_GAP,
                                        .from = from,
                                        .count = to };
    return w->visit ? w->visit(w->context, from, &gap, info) : BG_OK;
}

/* Reports that all frames from the next expected frame to `to` - 1 are missing. */
static bg_err walk_gap(struct walk *w, uint64_t to, bg_errinfo *info)
{
    struct journal_report *report = w->report;
    const uint64_t from = report->next;
    if (to <= from) {
        return BG_OK;
    }
    report->lost += to - from;
    report->next = to;
    return walk_tell_gap(w, from, to, info);
}

/* Determines which part of the last segment is known to be on disk. Instead of keeping a list of
 * frames, it tracks one frame at a time until a later frame states that the tracked frame was
 * synced. */
static void walk_settle(struct walk *w, const struct journal_head *head, uint64_t end)
{
    struct journal_report *report = w->report;
    if (head->synced > report->synced) {
        report->synced = head->synced;
    }
    if (w->candidate && head->synced >= w->candidate) {
        report->tail_settled = w->candidate_end;
        w->candidate = 0;
    }
    if (head->synced >= head->sequence) {
        report->tail_settled = end;
        w->candidate = 0;
    } else if (!w->candidate) {
        w->candidate = head->sequence;
        w->candidate_end = end;
    }
}

static bg_err walk_tell(struct walk *w, const struct walk_frame *frame,
                        bg_errinfo *info)
{
    struct journal_report *report = w->report;
    struct journal_record record;
    bg_err err = BG_OK;
    w->cursor.at = frame->payload;
    w->cursor.left = frame->head.length;
    report->clean = false;
    while (w->cursor.left > 0 && !err) {
        err = journal_record_read(&w->cursor, &record, info);
        if (err) {
            journal_error_place(info, w->source.name,
                                w->at + JOURNAL_HEAD
                                    + (uint64_t)(w->cursor.at - frame->payload));
            return err;
        }
        report->records++;
        report->clean = record.type == JOURNAL_MARK;
        if (record.type == JOURNAL_KEEP && record.from > report->keep) {
            report->keep = record.from;
        }
        err = w->visit ? w->visit(w->context, frame->head.sequence, &record, info)
                       : BG_OK;
    }
    return err;
}

/* ---- A segment --------------------------------------------------------------------------- */

/* Determines whether a bad frame in the last segment is torn (R4). */
static bg_err walk_is_torn(struct walk *w, bool *torn, bg_errinfo *info)
{
    struct walk_search found = { .count = 0 };
    bool known_damage = w->report->next < w->shelf->end /* (R8) */
                        || (w->proved && w->proof >= w->report->next);
    bg_err err = known_damage ? BG_OK : walk_search(w, true, &found, info);
    if (!err && !known_damage) {
        w->proved = true;
        w->proof = found.proof;
        w->report->behind = found.count;
    }
    *torn = !known_damage && w->proof < w->report->next;
    return err;
}

/* Handles a bad frame at w->at. Sets *ends if there is nothing more to read in this segment. */
static bg_err walk_bad_frame(struct walk *w, const bg_errinfo *why, bool *ends,
                             bg_errinfo *info)
{
    struct walk_search found;
    bool torn = false;
    bg_err err = w->last ? walk_is_torn(w, &torn, info) : BG_OK;
    if (err) {
        return err;
    }
    *ends = true;
    if (torn) {
        w->report->torn = *why;
        return BG_OK;
    }
    w->report->behind = 0;
    err = walk_damage(w, why, info);
    err = err ? err : walk_search(w, false, &found, info);
    if (err) {
        return err;
    }
    w->broken = found.count == 0;
    if (found.count == 0) {
        return BG_OK;
    }
    *ends = false;
    w->at = found.first_at;
    return walk_gap(w, found.first, info);
}

static bg_err walk_frames(struct walk *w, bg_errinfo *info)
{
    bool ends = false;
    bg_err err = BG_OK;
    while (!err && !ends && w->at < w->source.bytes && w->report->next < w->limit) {
        struct walk_frame frame;
        err = walk_next_frame(w, &frame, info);
        if (!err && frame.why.code) {
            err = walk_bad_frame(w, &frame.why, &ends, info);
            continue;
        }
        err = err ? err : walk_tell(w, &frame, info);
        if (!err) {
            uint64_t bytes = JOURNAL_HEAD + (uint64_t)frame.head.length;
            w->at += bytes;
            w->report->bytes += bytes;
            w->report->frames++;
            w->report->next++;
            walk_settle(w, &frame.head, w->at);
        }
    }
    return err;
}

/* Checks the header of the current segment, and whether frames before it are missing. */
static bg_err walk_enter(struct walk *w, struct walk_header *h, bg_errinfo *info)
{
    bg_errinfo why;
    if (h->why.code) {
        w->broken = true;
        journal_error_place(&h->why, w->source.name, 0);
        return walk_damage(w, &h->why, info);
    }
    if (h->header.first == w->report->next) {
        w->broken = false;
        return BG_OK;
    }
    (void)journal_error_why(&why, BG_EFORMAT, "first frame of the segment",
                            "found frame %llu instead of frame %llu",
                            (unsigned long long)h->header.first,
                            (unsigned long long)w->report->next);
    journal_error_place(&why, w->source.name, 0);
    bg_err err = w->broken ? BG_OK : walk_damage(w, &why, info);
    w->broken = false;
    return err ? err : walk_gap(w, h->header.first, info);
}

/* Returns the number of the first frame in the next segment after i that has a valid header. */
static uint64_t walk_limit(const struct walk *w, size_t i)
{
    for (i++; i < w->shelf->count; i++) {
        if (!w->headers[i].why.code) {
            return w->headers[i].header.first;
        }
    }
    return UINT64_MAX;
}

/* Returns whether the first frame of the segment belongs to the given run. */
static bool walk_is_run(struct walk *w, uint64_t run)
{
    const unsigned char *bytes = NULL;
    struct journal_head head;
    return w->source.bytes >= JOURNAL_HEADER + JOURNAL_HEAD
           && !walk_look(w, JOURNAL_HEADER, JOURNAL_HEAD, &bytes, NULL)
           && journal_head_read(bytes, journal_seed(w->id, run), &head);
}

/* Returns the run of segment i. If its header is damaged, the segment either started a run or
 * belongs to the run of the previous segment. If no previous segment has a valid header, the run of
 * the next segment with a valid header is used, or else the run of the newest segment. */
static uint64_t walk_run(struct walk *w, size_t i)
{
    if (!w->headers[i].why.code) {
        return w->headers[i].header.run;
    }
    if (walk_is_run(w, w->source.number)) {
        return w->source.number;
    }
    for (size_t k = i; k-- > w->start;) {
        if (!w->headers[k].why.code) {
            return w->headers[k].header.run;
        }
    }
    while (i < w->shelf->count && w->headers[i].why.code) {
        i++;
    }
    /* If no header is valid, the header of the newest segment is still known (see walk_choose). */
    return i < w->shelf->count ? w->headers[i].header.run : w->shelf->newest->run;
}

static void walk_leave(struct walk *w)
{
    struct journal_report *report = w->report;
    report->segments++;
    report->tail_segment = w->source.number;
    report->tail_end = w->at;
    report->dropped = w->source.bytes - w->at;
    if (report->tail_settled > w->at) {
        report->tail_settled = w->at;
    }
}

static bg_err walk_segment(struct walk *w, size_t i, bg_errinfo *info)
{
    bg_err err = w->shelf->take(w->shelf->context, i, &w->source, info);
    if (err) {
        return err;
    }
    w->last = i + 1 == w->shelf->count;
    w->limit = walk_limit(w, i);
    w->window_bytes = 0;
    w->seed = journal_seed(w->id, walk_run(w, i));
    w->at = w->source.bytes < JOURNAL_HEADER ? w->source.bytes : JOURNAL_HEADER;
    w->proved = false;
    w->candidate = 0;
    w->report->tail_settled = w->at;
    const uint64_t frames = w->report->frames;
    err = walk_enter(w, &w->headers[i], info);
    err = err ? err : walk_frames(w, info);
    w->open = w->last && w->headers[i].why.code
              && (w->report->frames == frames || w->at < w->source.bytes);
    walk_leave(w);
    w->shelf->give_back(w->shelf->context, &w->source);
    return err;
}

/* ---- All segments ------------------------------------------------------------------------ */

static bg_err walk_read_header(struct walk *w, size_t i, bg_errinfo *info)
{
    struct walk_header *h = &w->headers[i];
    struct journal_source source;
    unsigned char bytes[JOURNAL_HEADER];
    bg_err err = w->shelf->take(w->shelf->context, i, &source, info);
    if (err) {
        return err;
    }
    if (source.bytes < sizeof bytes) {
        (void)journal_error(&h->why, BG_EFORMAT, "header", "64 bytes", "%u bytes",
                            (unsigned)source.bytes);
    } else {
        err = source.read(source.context, 0, bytes, sizeof bytes, info);
        if (!err && !journal_header_read(bytes, &h->header, &h->why)
            && h->header.number != source.number) {
            (void)journal_error(&h->why, BG_EFORMAT, "segment number",
                                "the number in its file name", "%llu",
                                (unsigned long long)h->header.number);
        }
    }
    if (h->why.code) {
        journal_error_place(&h->why, source.name, 0);
    }
    w->shelf->give_back(w->shelf->context, &source);
    return err;
}

/* Determines the segment to start with (R5), and the journal's ID. Sets *none if no valid header is
 * known. */
static bg_err walk_choose(struct walk *w, bool *none, bg_errinfo *info)
{
    size_t good = w->shelf->count, n = w->shelf->count;
    for (size_t i = 0; i < n; i++) {
        const struct walk_header *h = &w->headers[i];
        if (!h->why.code && (h->header.flags & JOURNAL_FRESH)) {
            w->start = good = i;
        } else if (!h->why.code && good == n) {
            good = i;
        }
    }
    const struct journal_header *known =
        good < n ? &w->headers[good].header : w->shelf->newest;
    *none = !known || known->run == 0;
    if (known) {
        memcpy(w->id, known->id, JOURNAL_ID);
        memcpy(w->report->id, w->id, JOURNAL_ID);
    }
    for (size_t i = 0; i < w->start; i++) {
        const struct walk_header *h = &w->headers[i];
        w->mixed =
            w->mixed || (!h->why.code && memcmp(h->header.id, w->id, JOURNAL_ID) != 0);
    }
    for (size_t i = w->start; i < n; i++) {
        struct walk_header *h = &w->headers[i];
        if (h->why.code == BG_EVERSION) { /* the format is unknown */
            if (info) {
                *info = h->why;
            }
            return BG_EVERSION;
        }
        if (!h->why.code && memcmp(h->header.id, w->id, JOURNAL_ID) != 0) {
            (void)journal_error_why(
                &h->why, BG_EINCOMPAT, "journal id",
                "the segment belongs to a different journal than the "
                "other segments");
        }
    }
    return BG_OK;
}

/* Checks that no segments are missing before the first existing one. */
static bg_err walk_check_beginning(struct walk *w, bg_errinfo *info)
{
    struct journal_report *report = w->report;
    bg_errinfo why;
    if (report->first <= report->keep) {
        return BG_OK;
    }
    (void)journal_error_why(
        &why, BG_EFORMAT, "first frame of the journal",
        "found frame %llu, but frame %llu is still needed: older segments are missing",
        (unsigned long long)report->first, (unsigned long long)report->keep);
    bg_err err = walk_damage(w, &why, info);
    if (!err) {
        report->lost += report->first - report->keep;
        err = walk_tell_gap(w, report->keep, report->first, info);
    }
    return err;
}

/* Handles a missing end. The number of missing frames is unknown, so they are counted as one frame.
 * New frames get numbers higher than any missing frame could have, so the next start also
 * detects the gap. */
static bg_err walk_lost_end(struct walk *w, const bg_errinfo *why, bg_errinfo *info)
{
    struct journal_report *report = w->report;
    const struct journal_header *newest = w->shelf->newest;
    const uint64_t from = report->next, most = UINT64_MAX - WALK_LOST;
    const uint64_t last = newest && newest->first > from ? newest->first : from;
    bg_err err = walk_damage(w, why, info);
    if (err) {
        return err;
    }
    report->lost++;
    report->next = (last < most ? last : most) + WALK_LOST;
    return walk_tell_gap(w, from, report->next, info);
}

/* Checks that the last segment still contains all frames that it contained at an orderly stop
 * (R8). */
static bg_err walk_check_last_frame(struct walk *w, bg_errinfo *info)
{
    const uint64_t end = w->shelf->end;
    bg_errinfo why;
    if (w->report->next >= end) {
        w->report->ends = w->shelf->newest->run != 0;
        return BG_OK;
    }
    (void)journal_error_why(
        &why, BG_EFORMAT, "journal",
        "the last frame is %llu, but frames up to %llu were written",
        (unsigned long long)(w->report->next - 1), (unsigned long long)end);
    const bg_err err = w->broken ? BG_OK : walk_damage(w, &why, info);
    /* The MARK is also missing, so the gap ends after it. */
    return err ? err : walk_gap(w, end + 1, info);
}

/* Checks that the last segment is the newest segment ever written (R6), and that all segments
 * belong to one journal (R9). */
static bg_err walk_check_end(struct walk *w, bg_errinfo *info)
{
    const struct journal_header *newest = w->shelf->newest;
    const uint64_t last = w->report->tail_segment;
    bg_errinfo why;
    char expected[96];
    const bool known = newest && newest->run != 0;
    if (known ? last && memcmp(newest->id, w->id, JOURNAL_ID) != 0 : w->mixed) {
        (void)journal_error_why(
            &why, BG_EFORMAT, "journal",
            "the segments belong to a different journal than the one "
            "that this directory contained before");
        return walk_lost_end(w, &why, info);
    }
    if (!newest) {
        return BG_OK;
    }
    if (newest->number <= last) {
        return walk_check_last_frame(w, info);
    }
    (void)snprintf(expected, sizeof expected,
                   "segments up to %llu, the newest one written",
                   (unsigned long long)newest->number);
    if (last == 0) {
        (void)journal_error(&why, BG_EFORMAT, "journal", expected, "no segment");
    } else {
        (void)journal_error(&why, BG_EFORMAT, "journal", expected,
                            "segments up to %llu", (unsigned long long)last);
    }
    return walk_lost_end(w, &why, info);
}

static bg_err walk_all(struct walk *w, bg_errinfo *info)
{
    struct journal_report *report = w->report;
    size_t n = w->shelf->count;
    bool none = false;
    bg_err err = BG_OK;
    for (size_t i = 0; i < n && !err; i++) {
        err = walk_read_header(w, i, info);
    }
    err = err ? err : walk_choose(w, &none, info);
    if (err) {
        return err;
    }
    if (n == 0 || none) {
        return n ? walk_lost_end(w, &w->headers[0].why, info) : walk_check_end(w, info);
    }
    const struct walk_header *begin = &w->headers[w->start];
    report->first = begin->why.code ? 1 : begin->header.first;
    report->next = report->first;
    report->keep =
        !begin->why.code && begin->header.flags & JOURNAL_FRESH ? report->first : 1;
    for (size_t i = w->start; i < n && !err; i++) {
        err = walk_segment(w, i, info);
    }
    err = err ? err : walk_check_beginning(w, info);
    if (!err && w->open) {
        return walk_lost_end(w, &w->headers[n - 1].why, info);
    }
    return err ? err : walk_check_end(w, info);
}

bg_err journal_walk(const struct journal_shelf *shelf, bool beyond_damage,
                    journal_visit *visit, void *context, struct journal_report *report,
                    bg_errinfo *info)
{
    struct journal_report own;
    struct walk w = { .shelf = shelf,
                      .beyond = beyond_damage,
                      .visit = visit,
                      .context = context,
                      .report = report ? report : &own };
    bg_errinfo ignored;
    memset(w.report, 0, sizeof *w.report);
    w.report->first = w.report->next = w.report->keep = 1;
    journal_error_clear(info);
    if (shelf->count == 0 && !shelf->newest) {
        w.report->clean = true;
        return BG_OK;
    }
    w.headers = calloc(shelf->count + 1, sizeof *w.headers);
    if (!w.headers) {
        return journal_error_why(info, BG_ENOMEM, "memory",
                                 "cannot allocate %zu segment headers", shelf->count);
    }
    bg_err err = walk_all(&w, info ? info : &ignored);
    free(w.headers);
    free(w.window);
    free(w.cursor.memory);
    return err;
}
