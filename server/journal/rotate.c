/*
 * journal/rotate.c - starts and deletes segments; restarts a journal that has failed.
 *
 * A new segment gets its final name after the old segment has been synced (J4). Frames appended in
 * the meantime stay in memory and become the first frames of the new segment. If the new segment
 * cannot be created, the old one stays in use. But if the new segment already has its final name
 * and only the directory could not be synced, the segment may or may not exist after a power
 * failure. In that case nothing may be appended to the old segment, so the journal is marked as
 * failed.
 *
 * Restart. A fresh segment starts with a manifest, and gets its final name once the whole manifest
 * is on disk. So a restart before the rename finds the old segments, and a restart after the rename
 * finds the fresh segment. The numbers of frames that were never written are skipped, because no
 * reader needs them.
 */
#include "journal/state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void journal_switch(struct journal *j, const struct journal_header *header,
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

/* Returns the header of the next segment; the caller sets `first`. */
static struct journal_header journal_next_header(const struct journal *j,
                                                 uint32_t flags)
{
    struct journal_header header = j->header;
    header.flags = flags;
    header.number = j->header.number + 1;
    return header;
}

/* Acquires `syncing` and `writing`. Called with the lock held. */
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

/* Writes and syncs all frames appended so far (J4). The caller owns `syncing` and `writing`. */
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

/* The caller owns the flags `syncing` and `writing` (J2). */
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
    err = err ? err : journal_disk_place(&draft, &j->disk, &header, &why);
    journal_enter(j);
    if (!err) {
        journal_switch(j, &header, &draft, JOURNAL_HEADER);
        return BG_OK;
    }
    /* The new segment may exist after a restart, so nothing more may be appended to the old
     * segment. */
    if (draft.placed) {
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

/* Removes the segments in which all frame numbers are below `sequence`, oldest first, once no other
 * thread is removing segments. The caller holds the lock, which is released during the removal. */
static bg_err journal_remove_inside(struct journal *j, uint64_t sequence,
                                    uint64_t *removed, bg_errinfo *info)
{
    bg_err err = BG_OK;
    while (j->removing) {
        (void)pthread_cond_wait(&j->turn, &j->lock);
    }
    j->removing = true;
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
    j->removing = false;
    (void)pthread_cond_broadcast(&j->turn);
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
    /* Sync the manifest first, so that the KEEP frame proves that the manifest was synced. Damage
     * to the manifest is then not mistaken for a torn tail. */
    bg_err err = journal_sync(j, info);
    err = err || !any ? err : journal_append(j, &keep, 1, NULL, info);
    err = err ? err : journal_sync(j, info);
    if (!err && any) {
        journal_enter(j);
        err = journal_remove_inside(j, sequence, &count, info);
        journal_leave(j);
    }
    if (removed) {
        *removed = count;
    }
    return err;
}

/* ---- Restart ----------------------------------------------------------------------------- */

struct journal_draft {
    struct journal *journal;
    struct journal_draft_file file;
    uint64_t end, next;
};

/* Writes the frames collected in `spare`, which this thread owns. */
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
    err = err ? err : journal_fits(j, JOURNAL_HEAD + bytes, info);
    if (!err && j->room - j->spare.used < JOURNAL_HEAD + bytes) {
        err = journal_draft_write(draft, info);
    }
    if (err) {
        return err;
    }
    unsigned char *payload = journal_encode(records, n, bytes, small, info);
    if (!payload) {
        return BG_ENOMEM;
    }
    /* The whole segment is on disk before any reader can find it, so every frame counts as
     * synced. */
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

/* Creates the fresh segment. The caller owns `syncing` and `writing` and does not hold the lock. */
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
    return journal_disk_place(&draft->file, &j->disk, header, info);
}

/* The caller owns `syncing` and `writing`. */
static bg_err journal_reopen_inside(struct journal *j, journal_fill *fill,
                                    void *context, bg_errinfo *info)
{
    struct journal_draft draft = { .journal = j };
    if (!j->failed) {
        return journal_error_why(info, BG_EINVAL, "journal_reopen",
                                 "the journal has not failed");
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
        /* The next journal_begin removes any segments that cannot be removed now. */
        (void)journal_remove_inside(j, first, &removed, NULL);
    }
    journal_leave(j);
    return err;
}
