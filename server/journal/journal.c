/*
 * journal.c - appends, writes and syncs frames.
 *
 * The life of a frame:
 *
 *     appended   its bytes are in `active`, copied under the lock; the checksum of its records was
 *                computed before, so the lock is held only for the copy
 *     written    a leader has swapped the two buffers and written `spare` to the file, without
 *                holding the lock; other threads append to the other buffer meanwhile
 *     synced     a leader has waited for the disk, without holding the lock
 *
 * Group commit. A thread that needs a frame to be synced while a sync is in progress waits for that
 * sync to end. Then one of the waiting threads writes everything appended so far and syncs on
 * behalf of all of them.
 *
 * Each frame number is assigned only once. An appended frame may already have been applied to its
 * object, so it cannot be withdrawn if writing fails. If the disk is full, the frame stays in
 * memory; after any other error, the journal fails. The remains of a failed write are truncated if
 * possible. If they cannot be truncated, they are harmless: they form a torn tail, and the next
 * write overwrites them.
 *
 * journal/state.h lists the invariants.
 */
#include "clock.h"
#include "journal/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t journal_monotonic(void *context)
{
    (void)context;
    return clock_nanoseconds();
}

bg_err journal_failed(const struct journal *j, bg_errinfo *info)
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

void journal_fail(struct journal *j, const bg_errinfo *why, bool for_good)
{
    if (j->failed) { /* the first reason is kept (J5) */
        return;
    }
    j->failed = for_good;
    j->failure = *why;
    (void)pthread_cond_signal(&j->work);
}

/* Clears the "disk full" state, but not a failure (J5). */
static void journal_has_room(struct journal *j)
{
    if (j->failure.code && !j->failed) {
        journal_error_clear(&j->failure);
        (void)pthread_cond_signal(&j->work);
    }
}

bg_err journal_write_batch(struct journal *j, bg_errinfo *info)
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
    if (!err && !journal_is_always(j)) {
        /* The frames are about to count as durable, so the segment must be at its path (J6). */
        err = journal_disk_check_file(&j->disk, j->file, j->path, &why);
    }
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
    if (j->failed) { /* a concurrent sync failed, so these bytes may be lost as well */
        return journal_failed(j, info);
    }
    j->end += n;
    j->written_bytes += n;
    j->spare.used = 0;
    journal_put(&j->written, j->spare.last);
    journal_has_room(j);
    return BG_OK;
}

/* Returns once all frames up to `target` have been written, or on error. */
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

bg_err journal_sync_batch(struct journal *j, bg_errinfo *info)
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
    err = err ? err : journal_disk_check_file(&j->disk, file, j->path, &why); /* (J6) */
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
    return BG_OK;
}

bg_err journal_sync_to(struct journal *j, uint64_t target, bg_errinfo *info)
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

bg_err journal_not_begun(bg_errinfo *info)
{
    return journal_error_why(info, BG_EINVAL, "journal",
                             "journal_begin was not called");
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

/* Returns whether a second has passed since the last sync. If the clock has moved backward, the
 * difference wraps around and counts as more than a second. */
static bool journal_is_due(const struct journal *j)
{
    return journal_now(j) - j->sync_time >= JOURNAL_SECOND;
}

bg_err journal_tick_inside(struct journal *j, bg_errinfo *info)
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

bg_err journal_check(struct journal *j, bg_errinfo *info)
{
    bg_errinfo why;
    journal_error_clear(info);
    journal_enter(j);
    bg_err err = j->begun ? BG_OK : journal_not_begun(&why);
    /* A failed journal gets a fresh segment, so its old segment need not exist. */
    if (!err) {
        err = j->failed ? journal_disk_check(&j->disk, &why)
                        : journal_disk_check_file(&j->disk, j->file, j->path, &why);
        if (err) {
            journal_fail(j, &why, true);
        }
    }
    journal_leave(j);
    if (err && info) {
        *info = why;
    }
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

bool journal_syncs(const struct journal *j)
{
    return journal_is_always(j);
}

/* ---- Appending --------------------------------------------------------------------------- */

bg_err journal_measure(const struct journal_record *records, size_t n, size_t *bytes,
                       bg_errinfo *info)
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
        if (*bytes > JOURNAL_PAYLOAD_MAX) {
            return journal_error_why(
                info, BG_EQUOTA, "frame",
                "the records need at least %zu bytes, but a frame holds at most 16 MiB",
                *bytes);
        }
    }
    return BG_OK;
}

bg_err journal_fits(const struct journal *j, size_t bytes, bg_errinfo *info)
{
    return bytes <= j->room
               ? BG_OK
               : journal_error_why(
                   info, BG_EQUOTA, "frame",
                   "the change needs %zu bytes, but at most %zu (half of the "
                   "buffer) are available",
                   bytes, j->room);
}

/* Reserves space for a frame in `active`, writing pending frames first if necessary. */
static bg_err journal_make_room(struct journal *j, size_t bytes, bg_errinfo *info)
{
    const bg_err err = journal_fits(j, bytes, info);
    if (err) {
        return err;
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

void journal_put_frame(struct journal_buffer *buffer, const struct journal_head *head,
                       uint64_t seed, const unsigned char *payload)
{
    unsigned char *to = buffer->bytes + buffer->used;
    journal_head_write(head, seed, to);
    memcpy(to + JOURNAL_HEAD, payload, head->length);
    buffer->used += JOURNAL_HEAD + (size_t)head->length;
    buffer->last = head->sequence;
}

/* Appends a frame. Called with the lock held. */
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

unsigned char *journal_encode(const struct journal_record *records, size_t n,
                              size_t bytes, unsigned char *small, bg_errinfo *info)
{
    unsigned char *payload = bytes <= JOURNAL_ON_STACK ? small : malloc(bytes);
    if (!payload) {
        (void)journal_error_why(info, BG_ENOMEM, "memory",
                                "cannot allocate %zu bytes for a frame", bytes);
        return NULL;
    }
    for (unsigned char *to = payload; n > 0; n--, records++) {
        to = journal_record_write(records, to);
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
    unsigned char *payload = journal_encode(records, n, bytes, small, info);
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

/* ---- Statistics -------------------------------------------------------------------------- */

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
