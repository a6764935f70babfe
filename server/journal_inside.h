/*
 * journal_inside.h - the journal's insides, for its own files.
 *
 *     journal.c          frames are appended, written and synced
 *     journal_open.c     it is opened, read, begun and closed
 *     journal_rotate.c   segments begin and go; a failed journal comes back
 *     journal_thread.c   the thread that syncs, and tells
 *     journal_disk.c     files;   journal_read.c   reading, and what may be believed
 *
 * Invariants, under the lock:
 *
 *   (J1) synced <= written < next. Frames up to `written` are whole in the segments, those above
 *        are in `spare` and then in `active`, in order.
 *   (J2) `writing` belongs to one thread, which alone touches `spare`, `file`, `end` and writes;
 *        `syncing` belongs to one thread, which alone syncs. Who has both may change segments.
 *        They are taken in this order: syncing, writing.
 *   (J3) Once `failed` nothing more is written to that segment, and no frame in it becomes
 *        `written`, even if its write was under way.
 *   (J4) A segment is synced before its successor has a name.
 *   (J5) `failed` implies a code in `failure`. Only journal_reopen ends it, with a fresh segment;
 *        a successful write ends the state "disk full", but never a failure.
 *   (J6) A frame becomes durable only after its segment was found at its path, in the locked directory: a
 *        file that was unlinked can be written and synced without an error.
 */
#ifndef SERVER_JOURNAL_INSIDE_H
#define SERVER_JOURNAL_INSIDE_H

#include "journal.h"
#include "journal_disk.h"
#include "journal_error.h"

#include <pthread.h>
#include <stdatomic.h>

#define JOURNAL_SECOND UINT64_C(1000000000)

enum { JOURNAL_ON_STACK = 8192 /* records up to this are encoded on the stack */ };

struct journal_buffer {
    unsigned char *bytes;
    size_t used;
    uint64_t last; /* number of its last frame */
};

/* The state that was told last. */
struct journal_news {
    uint64_t durable;
    bool failed;
    bg_err code;
};

struct journal {
    pthread_mutex_t lock;
    pthread_cond_t turn; /* a leader has finished */
    pthread_cond_t work; /* there is something for the thread */
    struct journal_options options;
    _Atomic int policy;
    struct journal_disk disk;
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
    struct journal_news told; /* from journal_start on, the thread's */
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

/* Under the lock nobody else changes them. */
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

/* ---- All of these under the lock ----------------------------------------------------------- */

/* Why the journal is full or has failed; BG_OK: neither. */
bg_err journal_failed(const struct journal *j, bg_errinfo *info);

/* It has failed for good, or is full. */
void journal_fail(struct journal *j, const bg_errinfo *why, bool for_good);

/* Writes what was appended by now, or what could not be written before; there is something. The
 * caller has `writing`. The lock is let go meanwhile, here and below. */
bg_err journal_write_batch(struct journal *j, bg_errinfo *info);

/* Syncs what is written. The caller has `syncing`. */
bg_err journal_sync_batch(struct journal *j, bg_errinfo *info);

/* Returns when frames up to `target` are synced, or cannot be. */
bg_err journal_sync_to(struct journal *j, uint64_t target, bg_errinfo *info);

bg_err journal_tick_inside(struct journal *j, bg_errinfo *info);

/* A segment has its name: from now on it is the one that is written, behind `end`. The caller has
 * both, and room in the list of segments. */
void journal_switch(struct journal *j, const struct journal_header *header,
                    const struct journal_draft_file *draft, uint64_t end);

/* ---- Frames ------------------------------------------------------------------------------ */

/* Bytes of records that make one frame. Errors: as journal_append. */
bg_err journal_measure(const struct journal_record *records, size_t n, size_t *bytes,
                       bg_errinfo *info);

/* Records as bytes: in `small`, JOURNAL_ON_STACK bytes, if they fit, else in memory to be freed;
 * NULL: BG_ENOMEM. */
unsigned char *journal_encode(const struct journal_record *records, size_t n,
                              size_t bytes, unsigned char *small, bg_errinfo *info);

/* Puts a frame behind those in a buffer. */
void journal_put_frame(struct journal_buffer *buffer, const struct journal_head *head,
                       uint64_t seed, const unsigned char *payload);

bg_err journal_not_begun(bg_errinfo *info);

#endif
