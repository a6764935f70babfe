/*
 * journal.c - appending, writing, syncing; segments that begin and end; failing and coming back.
 *
 * The way of a frame:
 *
 *     appended   its bytes are in `active`, under the lock; the checksum of its records was
 *                made before, so the lock is held for a copy and some nanoseconds
 *     written    a leader has exchanged the two buffers, and given `spare` to the system, without
 *                the lock; others append to the other buffer meanwhile
 *     synced     a leader has waited for the disk, without the lock
 *
 * Invariants, under the lock:
 *
 *   (J1) synced <= written < next. Frames up to `written` are whole in the segments, those above
 *        are in `spare` and then in `active`, in order.
 *   (J2) `writing` belongs to one thread, which alone touches `spare`, `file`, `end` and writes;
 *        `syncing` belongs to one thread, which alone syncs. Who has both may change segments.
 *        They are taken in this order: syncing, writing.
 *   (J3) Once `failed` nothing is written to that segment any more.
 *   (J4) A segment is synced before its successor has a name.
 *
 * Group commit. Who needs a frame to be synced and finds a sync on its way waits; then one of
 * those that waited writes all that there is by then, and syncs for all of them.
 *
 * A number is given once. A frame that was appended is in the object that it changes, so it cannot
 * be taken back when it cannot be written; it stays in memory (full disk), or the journal fails.
 * What a failed write left is cut off if the system lets us, which matters to nobody: it is a torn
 * tail, and will be written over at the same place.
 */
#include "journal.h"

#include "journal_disk.h"
#include "journal_error.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define JOURNAL_SECOND UINT64_C(1000000000)

enum {
    JOURNAL_BUFFER = 64 << 20,
    JOURNAL_ON_STACK = 8192 /* records up to this are encoded on the stack */
};

struct journal_buffer {
    unsigned char *bytes;
    size_t used;
    uint64_t last; /* number of its last frame */
};

struct journal {
    pthread_mutex_t lock;
    pthread_cond_t turn; /* a leader has finished */
    pthread_cond_t work; /* there is something for the thread */
    struct journal_options options;
    _Atomic int policy;
    struct journal_disk disk;
    int lock_file;
    bool begun;
    bool reported; /* `report` is known */
    struct journal_report report;
    struct journal_header header; /* of the segment that is written */
    uint64_t seed;
    int file;
    char path[JOURNAL_DISK_PATH];
    uint64_t end; /* of the segment */
    struct journal_buffer active, spare;
    size_t room; /* of each */
    _Atomic uint64_t next, written, synced;
    bool writing, syncing, removing;
    bool failed;        /* for good */
    bg_errinfo failure; /* that, or the disk is full; code BG_OK: neither */
    uint64_t sync_time; /* when the last sync began */
    uint64_t appends, writes, written_bytes, syncs, sync_nanoseconds, slowest_sync;
    /* The thread. */
    pthread_t thread;
    bool running, stopping;
    bool sleeping; /* until something is appended */
    journal_tell *tell;
    void *tell_context;
};

static uint64_t journal_monotonic(void *context)
{
    struct timespec now;
    (void)context;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * JOURNAL_SECOND + (uint64_t)now.tv_nsec;
}

static uint64_t journal_now(const struct journal *j)
{
    return j->options.clock(j->options.clock_context);
}

static void journal_enter(struct journal *j)
{
    (void)pthread_mutex_lock(&j->lock);
}

static void journal_leave(struct journal *j)
{
    (void)pthread_mutex_unlock(&j->lock);
}

/* Under the lock nobody else changes them. */
static uint64_t journal_get(const _Atomic uint64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

static void journal_put(_Atomic uint64_t *number, uint64_t value)
{
    atomic_store_explicit(number, value, memory_order_release);
}

static bool journal_is_always(const struct journal *j)
{
    return atomic_load_explicit(&j->policy, memory_order_relaxed) == JOURNAL_ALWAYS;
}

static bg_err journal_failed(const struct journal *j, bg_errinfo *info)
{
    if (info && j->failure.code) {
        *info = j->failure;
    }
    return j->failure.code;
}

/* ---- Writing and syncing ----------------------------------------------------------------- */

static bool journal_is_full(int code)
{
    return code == ENOSPC || code == EDQUOT || code == EFBIG;
}

static void journal_fail(struct journal *j, const bg_errinfo *why, bool for_good)
{
    j->failed = j->failed || for_good;
    j->failure = *why;
    (void)pthread_cond_signal(&j->work);
}

/* Writes what was appended by now, or what could not be written before. The caller has
 * `writing`, and the lock, which is let go meanwhile. */
static bg_err journal_write_batch(struct journal *j, bg_errinfo *info)
{
    bg_errinfo why;
    if (j->spare.used == 0) {
        struct journal_buffer full = j->active;
        j->active = j->spare;
        j->spare = full;
    }
    size_t n = j->spare.used;
    uint64_t end = j->end;
    journal_leave(j);
    bg_err err = journal_disk_write(j->file, end, j->spare.bytes, n, j->path, &why);
    bool room = err && journal_is_full(why.os_errno);
    if (room) {
        (void)!ftruncate(j->file, (off_t)end);
    }
    journal_enter(j);
    j->writes++;
    if (err) {
        journal_fail(j, &why, !room);
        if (info) {
            *info = why;
        }
        return err;
    }
    j->end += n;
    j->written_bytes += n;
    j->spare.used = 0;
    journal_put(&j->written, j->spare.last);
    if (j->failure.code) { /* there is room again */
        journal_error_clear(&j->failure);
        (void)pthread_cond_signal(&j->work);
    }
    return BG_OK;
}

/* Returns when frames up to `target` are written, or cannot be. */
static bg_err journal_write_to(struct journal *j, uint64_t target, bg_errinfo *info)
{
    while (journal_get(&j->written) < target) {
        if (j->failed) {
            return journal_failed(j, info);
        }
        if (j->writing) {
            (void)pthread_cond_wait(&j->turn, &j->lock);
            continue;
        }
        j->writing = true;
        bg_err err = journal_write_batch(j, info);
        j->writing = false;
        (void)pthread_cond_broadcast(&j->turn);
        if (err) {
            return err;
        }
    }
    return BG_OK;
}

/* Syncs what is written. The caller has `syncing`, and the lock, which is let go meanwhile. */
static bg_err journal_sync_batch(struct journal *j, bg_errinfo *info)
{
    bg_errinfo why;
    uint64_t written = journal_get(&j->written);
    int file = j->file;
    if (journal_get(&j->synced) >= written) {
        return BG_OK;
    }
    j->sync_time = journal_now(j);
    uint64_t began = journal_monotonic(NULL);
    journal_leave(j);
    bg_err err = journal_disk_sync(file, j->path, &why);
    uint64_t took = journal_monotonic(NULL) - began;
    journal_enter(j);
    j->syncs++;
    j->sync_nanoseconds += took;
    j->slowest_sync = took > j->slowest_sync ? took : j->slowest_sync;
    if (err) {
        journal_fail(j, &why, true);
        if (info) {
            *info = why;
        }
        return err;
    }
    journal_put(&j->synced, written);
    if (journal_is_always(j)) {
        (void)pthread_cond_signal(&j->work); /* somebody has to be told */
    }
    return BG_OK;
}

/* Returns when frames up to `target` are synced, or cannot be. */
static bg_err journal_sync_to(struct journal *j, uint64_t target, bg_errinfo *info)
{
    while (journal_get(&j->synced) < target) {
        if (j->failed) {
            return journal_failed(j, info);
        }
        if (j->syncing) {
            (void)pthread_cond_wait(&j->turn, &j->lock);
            continue;
        }
        j->syncing = true;
        bg_err err = journal_write_to(j, journal_get(&j->next) - 1, info);
        err = err ? err : journal_sync_batch(j, info);
        j->syncing = false;
        (void)pthread_cond_broadcast(&j->turn);
        if (err) {
            return err;
        }
    }
    return BG_OK;
}

static bg_err journal_not_begun(bg_errinfo *info)
{
    return journal_error(info, BG_EINVAL, "journal", "journal_begin before", "not yet");
}

bg_err journal_flush(struct journal *j, bg_errinfo *info)
{
    journal_error_clear(info);
    journal_enter(j);
    bg_err err = j->failed ? journal_failed(j, info)
                           : journal_write_to(j, journal_get(&j->next) - 1, info);
    journal_leave(j);
    return err;
}

bg_err journal_sync(struct journal *j, bg_errinfo *info)
{
    journal_error_clear(info);
    journal_enter(j);
    bg_err err = j->failed ? journal_failed(j, info)
                           : journal_sync_to(j, journal_get(&j->next) - 1, info);
    journal_leave(j);
    return err;
}

/* Whether a second has passed since the last sync. A clock that goes back counts as one that
 * did. */
static bool journal_is_due(const struct journal *j)
{
    return journal_now(j) - j->sync_time >= JOURNAL_SECOND;
}

/* Under the lock. */
static bg_err journal_tick_inside(struct journal *j, bg_errinfo *info)
{
    uint64_t last = journal_get(&j->next) - 1;
    if (j->failed) {
        return journal_failed(j, info);
    }
    bg_err err = journal_write_to(j, last, info);
    if (!err && atomic_load(&j->policy) == JOURNAL_EVERYSEC && journal_is_due(j)) {
        err = journal_sync_to(j, last, info);
    }
    return err;
}

bg_err journal_tick(struct journal *j, bg_errinfo *info)
{
    journal_error_clear(info);
    journal_enter(j);
    bg_err err = journal_tick_inside(j, info);
    journal_leave(j);
    return err;
}

uint64_t journal_next(const struct journal *j)
{
    return atomic_load_explicit(&j->next, memory_order_acquire);
}

uint64_t journal_durable(const struct journal *j)
{
    return atomic_load_explicit(journal_is_always(j) ? &j->synced : &j->written,
                                memory_order_acquire);
}

void journal_set_policy(struct journal *j, enum journal_policy policy)
{
    journal_enter(j);
    atomic_store(&j->policy, (int)policy);
    (void)pthread_cond_signal(&j->work);
    journal_leave(j);
}

/* ---- Appending --------------------------------------------------------------------------- */

static bg_err journal_measure(const struct journal_record *records, size_t n,
                              size_t *bytes, bg_errinfo *info)
{
    *bytes = 0;
    if (n == 0) {
        return journal_error(info, BG_EINVAL, "records", "1 or more", "0");
    }
    for (size_t i = 0; i < n; i++) {
        size_t more;
        bg_err err = journal_record_bytes(&records[i], &more, info);
        if (err) {
            return err;
        }
        *bytes += more;
        if (*bytes > JOURNAL_PAYLOAD_MOST) {
            return journal_error(info, BG_ELIMIT, "records of a frame",
                                 "at most 16 MiB", "%zu bytes and more", *bytes);
        }
    }
    return BG_OK;
}

static void journal_encode(const struct journal_record *records, size_t n,
                           unsigned char *to)
{
    for (size_t i = 0; i < n; i++) {
        to = journal_record_write(&records[i], to);
    }
}

/* Room for a frame in `active`: if there is none, what is there is written first. */
static bg_err journal_make_room(struct journal *j, size_t bytes, bg_errinfo *info)
{
    if (bytes > j->room) {
        return journal_error(info, BG_ELIMIT, "frame", "half of the buffer at most",
                             "%zu of %zu bytes", bytes, j->room);
    }
    while (!j->failure.code && j->room - j->active.used < bytes) {
        if (j->writing) {
            (void)pthread_cond_wait(&j->turn, &j->lock);
        } else {
            (void)journal_write_to(j, j->active.last, NULL);
        }
    }
    return journal_failed(j, info);
}

/* Puts a frame behind those in a buffer. */
static void journal_put_frame(struct journal_buffer *buffer,
                              const struct journal_head *head, uint64_t seed,
                              const unsigned char *payload)
{
    unsigned char *to = buffer->bytes + buffer->used;
    journal_head_write(head, seed, to);
    memcpy(to + JOURNAL_HEAD, payload, head->length);
    buffer->used += JOURNAL_HEAD + (size_t)head->length;
    buffer->last = head->sequence;
}

/* Under the lock. */
static bg_err journal_append_frame(struct journal *j, struct journal_head *head,
                                   const unsigned char *payload, bg_errinfo *info)
{
    if (!j->begun) {
        return journal_not_begun(info);
    }
    bg_err err = journal_make_room(j, JOURNAL_HEAD + (size_t)head->length, info);
    if (err) {
        return err;
    }
    head->sequence = journal_get(&j->next);
    head->synced = journal_get(&j->synced);
    journal_put_frame(&j->active, head, j->seed, payload);
    journal_put(&j->next, head->sequence + 1);
    j->appends++;
    if (j->sleeping) {
        j->sleeping = false;
        (void)pthread_cond_signal(&j->work);
    }
    return BG_OK;
}

/* Records as bytes: in `small` if they fit, else in memory to be freed. */
static unsigned char *journal_encode_new(const struct journal_record *records, size_t n,
                                         size_t bytes, unsigned char *small,
                                         bg_errinfo *info)
{
    unsigned char *payload = bytes <= JOURNAL_ON_STACK ? small : malloc(bytes);
    if (payload) {
        journal_encode(records, n, payload);
    } else {
        (void)journal_error(info, BG_ENOMEM, "memory", "enough for a frame",
                            "none of %zu bytes", bytes);
    }
    return payload;
}

bg_err journal_append(struct journal *j, const struct journal_record *records, size_t n,
                      uint64_t *sequence, bg_errinfo *info)
{
    unsigned char small[JOURNAL_ON_STACK];
    size_t bytes;
    journal_error_clear(info);
    bg_err err = journal_measure(records, n, &bytes, info);
    if (err) {
        return err;
    }
    unsigned char *payload = journal_encode_new(records, n, bytes, small, info);
    if (!payload) {
        return BG_ENOMEM;
    }
    struct journal_head head = {
        .length = (uint32_t)bytes,
        .check = journal_payload_check(payload, bytes, j->seed),
    };
    journal_enter(j);
    err = journal_append_frame(j, &head, payload, info);
    journal_leave(j);
    if (payload != small) {
        free(payload);
    }
    if (!err && sequence) {
        *sequence = head.sequence;
    }
    return err;
}

/* ---- Opening and closing ----------------------------------------------------------------- */

static bg_err journal_take_options(struct journal *j, const struct journal_options *o,
                                   bg_errinfo *info)
{
    j->options = o ? *o : (struct journal_options){ .policy = JOURNAL_ALWAYS };
    size_t buffer = j->options.buffer ? j->options.buffer : JOURNAL_BUFFER;
    if ((unsigned)j->options.policy > JOURNAL_NO || buffer < 256) {
        return journal_error(info, BG_EINVAL, "options",
                             "a policy, and a buffer of 256 bytes or more",
                             "policy %d, %zu bytes", (int)j->options.policy, buffer);
    }
    j->options.clock = j->options.clock ? j->options.clock : journal_monotonic;
    atomic_init(&j->policy, (int)j->options.policy);
    j->room = buffer / 2;
    j->active.bytes = malloc(j->room);
    j->spare.bytes = malloc(j->room);
    if (!j->active.bytes || !j->spare.bytes) {
        return journal_error(info, BG_ENOMEM, "memory", "enough for the journal",
                             "none of %zu bytes", buffer);
    }
    return BG_OK;
}

static void journal_init_locks(struct journal *j)
{
    pthread_condattr_t steady;
    (void)pthread_mutex_init(&j->lock, NULL);
    (void)pthread_cond_init(&j->turn, NULL);
    (void)pthread_condattr_init(&steady);
    (void)pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&j->work, &steady);
    (void)pthread_condattr_destroy(&steady);
}

static void journal_free(struct journal *j)
{
    if (j->file >= 0) {
        (void)close(j->file);
    }
    if (j->lock_file >= 0) {
        (void)close(j->lock_file); /* and unlocks it */
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
        return journal_error(info, BG_ENOMEM, "memory", "enough for the journal",
                             "none of %zu bytes", sizeof *j);
    }
    j->file = j->lock_file = -1;
    atomic_init(&j->next, 1);
    atomic_init(&j->written, 0);
    atomic_init(&j->synced, 0);
    journal_init_locks(j);
    bg_err err = journal_take_options(j, options, info);
    err = err ? err : journal_disk_list(&j->disk, folder, info);
    err = err ? err : journal_disk_lock(&j->disk, &j->lock_file, info);
    /* Again: whoever had it before may have begun another segment. */
    err = err ? err : journal_disk_list(&j->disk, folder, info);
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
        return journal_error(info, BG_EINVAL, "journal_replay",
                             "a call before journal_begin", "one after it");
    }
    bg_err err = journal_walk(&shelf, j->options.beyond_damage, visit, context,
                              &j->report, info);
    j->reported = !err;
    if (report) {
        *report = j->report;
    }
    return err;
}

bg_err journal_read(const char *folder, bool beyond_damage, journal_visit *visit,
                    void *context, struct journal_report *report, bg_errinfo *info)
{
    struct journal_disk disk = { .count = 0 };
    journal_error_clear(info);
    bg_err err = journal_disk_list(&disk, folder, info);
    if (!err) {
        struct journal_shelf shelf = journal_disk_shelf(&disk);
        err = journal_walk(&shelf, beyond_damage, visit, context, report, info);
    }
    journal_disk_free(&disk);
    return err;
}

/* A segment has its name: from now on it is the one that is written. Under the lock, with
 * `writing` and `syncing`; there is room for it in the list. */
static void journal_switch(struct journal *j, const struct journal_header *header,
                           const struct journal_draft_file *draft, uint64_t end)
{
    if (j->file >= 0) {
        j->disk.segments[j->disk.count - 1].bytes = j->end;
        (void)close(j->file);
    }
    j->file = draft->file;
    memcpy(j->path, draft->path, sizeof j->path);
    j->header = *header;
    j->end = end;
    journal_disk_push(&j->disk, (struct journal_segment){ .number = header->number,
                                                          .first = header->first });
}

/* A segment for frames from `first` on. */
static struct journal_header journal_next_header(const struct journal *j,
                                                 uint32_t flags)
{
    struct journal_header header = j->header;
    header.flags = flags;
    header.number = j->header.number + 1;
    return header;
}

/* What the first segment of this process is called, and begins with. */
static bg_err journal_plan(struct journal *j, struct journal_header *header,
                           bg_errinfo *info)
{
    size_t n = j->disk.count;
    uint64_t last = n ? j->disk.segments[n - 1].number : 0;
    if (last == UINT64_MAX || j->report.next == UINT64_MAX) {
        return journal_error(info, BG_ELIMIT, "numbers", "below 2^64", "2^64");
    }
    *header = (struct journal_header){ .flags = n ? 0 : JOURNAL_FRESH,
                                       .number = last + 1,
                                       .first = j->report.next,
                                       .run = last + 1 };
    memcpy(header->id, j->report.id, sizeof header->id);
    if (n == 0 && getrandom(header->id, sizeof header->id, 0) != sizeof header->id) {
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
                                  info);
    }
    if (err) {
        return err;
    }
    journal_disk_sweep(&j->disk);
    err = journal_disk_begin(&draft, &j->disk, &header, info);
    err = err ? err : journal_disk_place(&draft, &j->disk, info);
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
    /* What a fresh segment made superfluous, if somebody died before he could remove it. */
    for (uint64_t i = n - j->report.segments; n && i > 0; i--) {
        if (journal_disk_remove(&j->disk, j->disk.segments[0].number, NULL)) {
            break; /* it does no harm */
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

/* Says that all before was synced. */
static bg_err journal_mark(struct journal *j, bg_errinfo *info)
{
    const struct journal_record mark = { .type = JOURNAL_MARK };
    bg_err err = journal_sync(j, info);
    err = err ? err : journal_append(j, &mark, 1, NULL, info);
    return err ? err : journal_sync(j, info);
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

/* ---- Segments ---------------------------------------------------------------------------- */

/* Takes `syncing` and `writing`; under the lock. */
static void journal_take_both(struct journal *j)
{
    while (j->syncing) {
        (void)pthread_cond_wait(&j->turn, &j->lock);
    }
    j->syncing = true;
    while (j->writing) {
        (void)pthread_cond_wait(&j->turn, &j->lock);
    }
    j->writing = true;
}

static void journal_give_both(struct journal *j)
{
    j->syncing = j->writing = false;
    (void)pthread_cond_broadcast(&j->turn);
}

/* (J4): all that was appended by now is on the disk. With both. */
static bg_err journal_finish_segment(struct journal *j, bg_errinfo *info)
{
    uint64_t last = journal_get(&j->next) - 1;
    bg_err err = j->failed ? journal_failed(j, info) : BG_OK;
    while (!err && journal_get(&j->written) < last) {
        err = journal_write_batch(j, info);
    }
    err = err ? err : journal_sync_batch(j, info);
    return err ? err : journal_disk_reserve(&j->disk, info);
}

/* With both. */
static bg_err journal_rotate_inside(struct journal *j, bg_errinfo *info)
{
    struct journal_draft_file draft;
    bg_errinfo why;
    bg_err err = journal_finish_segment(j, info);
    if (err) {
        return err;
    }
    struct journal_header header = journal_next_header(j, 0);
    header.first = journal_get(&j->written) + 1;
    journal_leave(j);
    err = journal_disk_begin(&draft, &j->disk, &header, &why);
    err = err ? err : journal_disk_place(&draft, &j->disk, &why);
    journal_enter(j);
    if (!err) {
        journal_switch(j, &header, &draft, JOURNAL_HEADER);
        return BG_OK;
    }
    if (draft.placed) { /* it may be found or not: nothing may follow in the old one */
        journal_fail(j, &why, true);
    }
    if (info) {
        *info = why;
    }
    return err;
}

bg_err journal_rotate(struct journal *j, uint64_t *first, bg_errinfo *info)
{
    journal_error_clear(info);
    journal_enter(j);
    bg_err err = BG_OK;
    if (!j->begun) {
        err = journal_not_begun(info);
    } else {
        journal_take_both(j);
        err = journal_rotate_inside(j, info);
        if (!err && first) {
            *first = j->header.first;
        }
        journal_give_both(j);
    }
    journal_leave(j);
    return err;
}

/* Removes segments below a frame, oldest first; with `removing`, under the lock, which is let go
 * meanwhile. */
static bg_err journal_remove_inside(struct journal *j, uint64_t sequence,
                                    uint64_t *removed, bg_errinfo *info)
{
    bg_err err = BG_OK;
    while (!err && j->disk.count > 1 && j->disk.segments[1].first <= sequence) {
        uint64_t number = j->disk.segments[0].number;
        journal_leave(j);
        err = journal_disk_remove(&j->disk, number, info);
        journal_enter(j);
        if (!err) {
            journal_disk_pop(&j->disk);
            *removed += 1;
        }
    }
    return err;
}

bg_err journal_remove_before(struct journal *j, uint64_t sequence, uint64_t *removed,
                             bg_errinfo *info)
{
    const struct journal_record keep = { .type = JOURNAL_KEEP, .from = sequence };
    uint64_t count = 0;
    journal_error_clear(info);
    journal_enter(j);
    bool any = j->disk.count > 1 && j->disk.segments[1].first <= sequence;
    journal_leave(j);
    bg_err err = any ? journal_append(j, &keep, 1, NULL, info) : BG_OK;
    err = err ? err : journal_sync(j, info);
    if (!err && any) {
        journal_enter(j);
        while (j->removing) {
            (void)pthread_cond_wait(&j->turn, &j->lock);
        }
        j->removing = true;
        err = journal_remove_inside(j, sequence, &count, info);
        j->removing = false;
        (void)pthread_cond_broadcast(&j->turn);
        journal_leave(j);
    }
    if (removed) {
        *removed = count;
    }
    return err;
}

/* ---- Coming back ------------------------------------------------------------------------- */

struct journal_draft {
    struct journal *journal;
    struct journal_draft_file file;
    uint64_t end, next;
};

/* Its frames are collected in `spare`, which is ours. */
static bg_err journal_draft_write(struct journal_draft *draft, bg_errinfo *info)
{
    struct journal_buffer *buffer = &draft->journal->spare;
    bg_err err = journal_disk_write(draft->file.file, draft->end, buffer->bytes,
                                    buffer->used, draft->file.made, info);
    draft->end += buffer->used;
    buffer->used = 0;
    return err;
}

bg_err journal_draft_append(struct journal_draft *draft,
                            const struct journal_record *records, size_t n,
                            bg_errinfo *info)
{
    struct journal *j = draft->journal;
    unsigned char small[JOURNAL_ON_STACK];
    size_t bytes;
    bg_err err = journal_measure(records, n, &bytes, info);
    if (!err && JOURNAL_HEAD + bytes > j->room) {
        err = journal_error(info, BG_ELIMIT, "frame", "half of the buffer at most",
                            "%zu of %zu bytes", JOURNAL_HEAD + bytes, j->room);
    }
    if (!err && j->room - j->spare.used < JOURNAL_HEAD + bytes) {
        err = journal_draft_write(draft, info);
    }
    if (err) {
        return err;
    }
    unsigned char *payload = journal_encode_new(records, n, bytes, small, info);
    if (!payload) {
        return BG_ENOMEM;
    }
    /* All of it is on the disk before anybody finds it: so is each frame. */
    struct journal_head head = { .length = (uint32_t)bytes,
                                 .sequence = draft->next,
                                 .synced = draft->next,
                                 .check =
                                     journal_payload_check(payload, bytes, j->seed) };
    journal_put_frame(&j->spare, &head, j->seed, payload);
    draft->next++;
    if (payload != small) {
        free(payload);
    }
    return BG_OK;
}

/* Makes the fresh segment. With both, without the lock. */
static bg_err journal_draft_make(struct journal_draft *draft,
                                 const struct journal_header *header,
                                 journal_fill *fill, void *context, bg_errinfo *info)
{
    struct journal *j = draft->journal;
    bg_err err = journal_disk_begin(&draft->file, &j->disk, header, info);
    if (err) {
        return err;
    }
    draft->end = JOURNAL_HEADER;
    draft->next = header->first;
    j->spare.used = 0;
    err = fill(context, draft, info);
    err = err ? err : journal_draft_write(draft, info);
    if (err) {
        journal_disk_discard(&draft->file);
        return err;
    }
    return journal_disk_place(&draft->file, &j->disk, info);
}

/* With both. */
static bg_err journal_reopen_inside(struct journal *j, journal_fill *fill,
                                    void *context, bg_errinfo *info)
{
    struct journal_draft draft = { .journal = j };
    if (!j->failed) {
        return journal_error(info, BG_EINVAL, "journal_reopen",
                             "a journal that has failed", "one that works");
    }
    bg_err err = journal_disk_reserve(&j->disk, info);
    struct journal_header header = journal_next_header(j, JOURNAL_FRESH);
    header.first = journal_get(&j->next);
    if (!err) {
        journal_leave(j);
        err = journal_draft_make(&draft, &header, fill, context, info);
        journal_enter(j);
    }
    if (err) {
        return err;
    }
    journal_switch(j, &header, &draft.file, draft.end);
    j->active.used = j->spare.used = 0;
    journal_put(&j->next, draft.next);
    journal_put(&j->written, draft.next - 1);
    journal_put(&j->synced, draft.next - 1);
    j->failed = false;
    journal_error_clear(&j->failure);
    (void)pthread_cond_signal(&j->work);
    return BG_OK;
}

bg_err journal_reopen(struct journal *j, journal_fill *fill, void *context,
                      bg_errinfo *info)
{
    uint64_t removed = 0;
    journal_error_clear(info);
    journal_enter(j);
    journal_take_both(j);
    bg_err err = journal_reopen_inside(j, fill, context, info);
    uint64_t first = j->header.first;
    journal_give_both(j);
    if (!err) {
        while (j->removing) {
            (void)pthread_cond_wait(&j->turn, &j->lock);
        }
        j->removing = true;
        /* What cannot be removed now will be by journal_begin. */
        (void)journal_remove_inside(j, first, &removed, NULL);
        j->removing = false;
        (void)pthread_cond_broadcast(&j->turn);
    }
    journal_leave(j);
    return err;
}

/* ---- The thread -------------------------------------------------------------------------- */

/* What was told last. */
struct journal_news {
    uint64_t durable;
    bool failed;
    bg_err code;
};

static struct journal_news journal_look(const struct journal *j)
{
    return (struct journal_news){ journal_durable(j), j->failed, j->failure.code };
}

/* Tells what is new; under the lock, which is let go meanwhile. */
static void journal_tell_news(struct journal *j, struct journal_news *told)
{
    struct journal_news now = journal_look(j);
    while (now.durable > told->durable || now.failed != told->failed
           || now.code != told->code) {
        bg_errinfo failure = j->failure;
        *told = now;
        if (j->tell) {
            journal_leave(j);
            j->tell(j->tell_context, now.durable, &failure);
            journal_enter(j);
        }
        now = journal_look(j);
    }
    told->durable = now.durable; /* it may have gone back: another policy */
}

/* Waits for work, or until a time of the monotonic clock; true: it has come. */
static bool journal_pause(struct journal *j, uint64_t until)
{
    struct timespec time = { .tv_sec = (time_t)(until / JOURNAL_SECOND),
                             .tv_nsec = (long)(until % JOURNAL_SECOND) };
    return pthread_cond_timedwait(&j->work, &j->lock, &time) == ETIMEDOUT;
}

static void journal_work(struct journal *j, uint64_t *tick)
{
    if (j->failed) {
        (void)pthread_cond_wait(&j->work, &j->lock);
    } else if (journal_is_always(j) && !j->failure.code) {
        uint64_t last = journal_get(&j->next) - 1;
        if (journal_get(&j->synced) < last) {
            (void)journal_sync_to(j, last, NULL);
        } else {
            j->sleeping = true;
            (void)pthread_cond_wait(&j->work, &j->lock);
            j->sleeping = false;
        }
        *tick = journal_monotonic(NULL) + JOURNAL_SECOND;
    } else if (journal_pause(j, *tick)) {
        (void)journal_tick_inside(j, NULL);
        *tick = journal_monotonic(NULL) + JOURNAL_SECOND;
    }
}

static void *journal_run(void *argument)
{
    struct journal *j = argument;
    uint64_t tick = journal_monotonic(NULL) + JOURNAL_SECOND;
    journal_enter(j);
    struct journal_news told = journal_look(j);
    while (!j->stopping) {
        journal_work(j, &tick);
        journal_tell_news(j, &told);
    }
    journal_leave(j);
    return NULL;
}

bg_err journal_start(struct journal *j, journal_tell *tell, void *context,
                     bg_errinfo *info)
{
    journal_error_clear(info);
    if (!j->begun || j->running) {
        return journal_error(info, BG_EINVAL, "journal_start",
                             "journal_begin before, and no thread", "%s",
                             j->running ? "a thread" : "no journal_begin");
    }
    j->tell = tell;
    j->tell_context = context;
    j->stopping = false;
    int code = pthread_create(&j->thread, NULL, journal_run, j);
    if (code) {
        errno = code;
        return journal_error_system(info, "thread", j->disk.folder);
    }
    j->running = true;
    return BG_OK;
}

void journal_stop(struct journal *j)
{
    if (!j->running) {
        return;
    }
    journal_enter(j);
    j->stopping = true;
    (void)pthread_cond_signal(&j->work);
    journal_leave(j);
    (void)pthread_join(j->thread, NULL);
    j->running = false;
}

/* ---- Figures ----------------------------------------------------------------------------- */

void journal_about(struct journal *j, struct journal_state *state)
{
    journal_enter(j);
    *state = (struct journal_state){
        .policy = (enum journal_policy)atomic_load(&j->policy),
        .next = journal_get(&j->next),
        .written = journal_get(&j->written),
        .synced = journal_get(&j->synced),
        .appends = j->appends,
        .writes = j->writes,
        .written_bytes = j->written_bytes,
        .syncs = j->syncs,
        .sync_nanoseconds = j->sync_nanoseconds,
        .slowest_sync = j->slowest_sync,
        .waiting = j->active.used + j->spare.used,
        .segments = j->disk.count,
        .segment = j->header.number,
        .segment_bytes = j->end,
        .bytes = j->end,
        .failed = j->failed,
        .failure = j->failure,
    };
    for (size_t i = 0; i + 1 < j->disk.count; i++) {
        state->bytes += j->disk.segments[i].bytes;
    }
    journal_leave(j);
}
