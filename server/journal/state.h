/*
 * journal/state.h - the journal's internal declarations.
 *
 *     journal.c          appends, writes and syncs frames
 *     journal/open.c     opens, reads, begins and closes the journal
 *     journal/rotate.c   starts and deletes segments; restarts a failed journal
 *     journal/thread.c   the thread that syncs and reports
 *     journal/disk.c     files;  journal/read.c  reading and validation
 *
 * Invariants that hold under the lock:
 *
 *   (J1) synced <= written < next. Frames up to `written` are complete in the segments; later
 *        frames are in `spare` and then in `active`, in order.
 *   (J2) At most one thread owns `writing`, and only that thread writes and uses `spare`, `file`
 *        and `end`. At most one thread owns `syncing`, and only that thread syncs. Only a thread
 *        that owns both flags may switch to a new segment. The flags are acquired in this order:
 *        syncing, writing.
 *   (J3) Once `failed` is set, nothing more is written to the current segment, and no frame in it
 *        becomes `written`, even if its write was in progress.
 *   (J4) A segment is synced before the next segment is renamed to its final name.
 *   (J5) `failed` implies a code in `failure`. Only journal_reopen clears `failed`, after it has
 *        created a fresh segment. A successful write clears the "disk full" state, but never a
 *        failure.
 *   (J6) A frame becomes durable only after its segment has been found at its path, in the locked
 *        directory, because an unlinked file can be written and synced without an error.
 */
#ifndef SERVER_JOURNAL_STATE_H
#define SERVER_JOURNAL_STATE_H

#include "journal/disk.h"
#include "journal/error.h"
#include "journal/journal.h"

#include <pthread.h>
#include <stdatomic.h>

#define JOURNAL_SECOND UINT64_C(1000000000)

enum {
    JOURNAL_ON_STACK = 8192 /* up to this size, records are encoded on the stack */
};

struct journal_buffer {
    unsigned char *bytes;
    size_t used;
    uint64_t last; /* number of the last frame in the buffer */
};

/* The state that was last reported to the callback. */
struct journal_news {
    uint64_t durable;
    bool failed;
    bg_err code;
};

struct journal {
    pthread_mutex_t lock;
    pthread_cond_t turn; /* signaled when a thread has finished writing or syncing */
    pthread_cond_t work; /* signaled when there is work for the thread */
    struct journal_options options;
    _Atomic int policy;
    struct journal_disk disk;
    bool begun;
    bool reported; /* `report` is valid */
    struct journal_report report;
    struct journal_header header; /* header of the segment being written */
    uint64_t seed;
    int file;
    char path[JOURNAL_DISK_PATH];
    uint64_t end; /* offset of the end of the segment */
    struct journal_buffer active, spare;
    size_t room; /* size of each buffer */
    _Atomic uint64_t next, written, synced;
    bool writing, syncing, removing;
    bool failed; /* the journal has failed permanently */
    /* the failure or the "disk full" error, or BG_OK if there is neither */
    bg_errinfo failure;
    uint64_t sync_time; /* start time of the last sync */
    uint64_t appends, writes, written_bytes, syncs, sync_nanoseconds, slowest_sync;
    /* The state of the thread. */
    pthread_t thread;
    bool running, stopping;
    bool sleeping; /* the thread is sleeping until a frame is appended */
    journal_tell *tell;
    void *tell_context;
    /* Owned by the thread once journal_start has been called. */
    struct journal_news told;
};

uint64_t journal_monotonic(void *context);

static inline uint64_t journal_now(const struct journal *j)
{
    return j->options.clock(j->options.clock_context);
}

static inline void journal_enter(struct journal *j)
{
    (void)pthread_mutex_lock(&j->lock);
}

static inline void journal_leave(struct journal *j)
{
    (void)pthread_mutex_unlock(&j->lock);
}

/* Reads a number that no other thread can change while the caller holds the lock. */
static inline uint64_t journal_get(const _Atomic uint64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

static inline void journal_put(_Atomic uint64_t *number, uint64_t value)
{
    atomic_store_explicit(number, value, memory_order_release);
}

static inline bool journal_is_always(const struct journal *j)
{
    return atomic_load_explicit(&j->policy, memory_order_relaxed) == JOURNAL_ALWAYS;
}

/* ---- Functions that require the lock ----------------------------------------------------- */

/* Returns the error if the journal is full or has failed, and BG_OK otherwise. */
bg_err journal_failed(const struct journal *j, bg_errinfo *info);

/* Records that the journal has failed permanently (if `for_good` is set) or is full. */
void journal_fail(struct journal *j, const bg_errinfo *why, bool for_good);

/* Writes the frames appended so far, or the frames that could not be written earlier. There must be
 * at least one such frame. The caller owns `writing`. Releases the lock while writing.
 * journal_sync_batch, journal_sync_to and journal_tick_inside also release it while they write or
 * sync. */
bg_err journal_write_batch(struct journal *j, bg_errinfo *info);

/* Syncs all written frames. The caller owns `syncing`. */
bg_err journal_sync_batch(struct journal *j, bg_errinfo *info);

/* Returns once all frames up to `target` have been synced, or on error. */
bg_err journal_sync_to(struct journal *j, uint64_t target, bg_errinfo *info);

bg_err journal_tick_inside(struct journal *j, bg_errinfo *info);

/* Makes a segment that has its final name the current segment. Writing continues at `end`. The
 * caller owns `writing` and `syncing`, and has reserved space in the list of segments. */
void journal_switch(struct journal *j, const struct journal_header *header,
                    const struct journal_draft_file *draft, uint64_t end);

/* ---- Frames ------------------------------------------------------------------------------ */

/* Computes the encoded size of records that form one frame. Errors: the same as for
 * journal_append. */
bg_err journal_measure(const struct journal_record *records, size_t n, size_t *bytes,
                       bg_errinfo *info);

/* Returns BG_EQUOTA if a frame of this size does not fit into a buffer. */
bg_err journal_fits(const struct journal *j, size_t bytes, bg_errinfo *info);

/* Encodes records into `small` (JOURNAL_ON_STACK bytes) if they fit, and otherwise into newly
 * allocated memory, which the caller frees. Returns NULL if out of memory (BG_ENOMEM). */
unsigned char *journal_encode(const struct journal_record *records, size_t n,
                              size_t bytes, unsigned char *small, bg_errinfo *info);

/* Appends a frame to a buffer. */
void journal_put_frame(struct journal_buffer *buffer, const struct journal_head *head,
                       uint64_t seed, const unsigned char *payload);

bg_err journal_not_begun(bg_errinfo *info);

#endif
