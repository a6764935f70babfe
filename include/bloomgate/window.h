/*
 * window.h - filters that forget: keys seen in the last T seconds, or among the last N adds.
 *
 *     bg_window_options last_hour = BG_WINDOW_OPTIONS_INIT;
 *     last_hour.length = 3600;
 *     last_hour.clock = seconds_since_start;      // your function, monotonic
 *     last_hour.generations = 24;
 *
 *     bg_spec spec = BG_SPEC_INIT;
 *     spec.kind = BG_KIND_WINDOW;
 *     spec.items = 1000000;                       // distinct keys per hour
 *     spec.rate = 0.01;
 *     spec.window = &last_hour;
 *
 * A window is divided into periods. A period lasts length / (generations - 1) clock ticks
 * or count / (generations - 1) adds; if neither is set, it lasts until the next call to
 * bg_filter_rotate. The window remembers the last `generations` periods, including the
 * current one.
 *   - A key that was added less than one window ago is always found: the key is remembered
 *     until at least `generations - 1` periods have passed since its period ended. Only
 *     time in memory counts: a window does not age between being saved and being opened.
 *   - A key that was added more than generations / (generations - 1) windows ago is
 *     forgotten, apart from false positives. An aged window forgets such keys over up to
 *     10 further periods, half of the remaining keys in each period. With more
 *     generations, the age limit is sharper.
 * Adding a key again renews it. Adds and rotations move the window; queries do not read the
 * clock. If adds may stop, call bg_filter_rotate regularly.
 *
 * There are two implementations that give the same answers:
 *   generations  one filter per generation, of any Bloom kind; a query reads all of them.
 *   aged         slices by age, with all slices of a key in one or two cache lines; a
 *                query costs the same with 2 generations as with 50.
 * Use `generations` for a small number of generations and `aged` for a large number. With
 * 24 generations at 1%, `generations` needs 19.9 bits per key in the window and reads up
 * to 24 cache lines per query; `aged` needs 25.2 bits and reads one line. docs/choosing.md
 * compares the two implementations.
 *
 * Memory. A window is sized for items / (generations - 1) keys per period. A window of
 * generations keeps its rate for up to `items` distinct keys per period. If a period
 * receives more keys than planned, because of a burst or because keys are renewed, the
 * window allocates more memory, up to bg_spec.max_bytes. An aged window does not grow; if
 * a period receives more keys than planned, its rate rises.
 *
 * Old keys are cleared in small steps, during adds and rotations. Queries never wait.
 */
#ifndef BLOOMGATE_WINDOW_H
#define BLOOMGATE_WINDOW_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/filter.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bg_window_mode {
    BG_WINDOW_GENERATIONS = 0,
    BG_WINDOW_AGED = 1
} bg_window_mode;

/*
 * Options for a window. All zero selects 8 generations and a window that only
 * bg_filter_rotate moves. Set at most one of `length` and `count`. The struct is copied;
 * `context` must outlive the filter.
 */
typedef struct bg_window_options {
    uint32_t struct_size; /* sizeof(bg_window_options) */
    uint32_t mode;        /* a bg_window_mode */
    uint32_t
        generations; /* 2 to 64 (aged: 2 to about 52, depending on the rate); 0 selects
                        8 */
    /* Bloom kind of a generation; 0 selects blocked, or classic if blocked filters cannot
     * reach the rate. Must be 0 for aged windows. */
    uint32_t kind;
    uint64_t length; /* length of the window in clock ticks */
    uint64_t count;  /* length of the window in adds */
    uint64_t (*clock)(
        void *context); /* returns the time in ticks of any length; the time must never
                           decrease. Called by adds (in batches, once per 64 keys) and
                           when the window is saved. If NULL, only bg_filter_rotate sets
                           the time */
    void *context;
} bg_window_options;

#define BG_WINDOW_OPTIONS_INIT                                                         \
    {                                                                                  \
        sizeof(bg_window_options), 0, 0, 0, 0, 0, 0, 0                                 \
    }

/*
 * Moves a window. A window with a length moves to the time `now`, which must come from the
 * same clock. An earlier time has no effect, and a window with a clock never moves past
 * its clock's current time. For a window without a length, the call ends the current
 * period and ignores `now`.
 *
 * After a window is created or opened, the first `now` only sets its starting time, so a
 * window without a clock first moves on the second call. Time between saving and opening
 * does not count, regardless of the clock, because the file stores only the elapsed part
 * of the current period. To continue with the time stored in the file, as a replica or a
 * log replay does, first call bg_filter_rotate(filter, bg_filter_window_time(filter),
 * info).
 *
 * A call that does not end the period clears part of the next period's memory, so adds
 * need not clear it.
 * Errors: BG_ENOTSUP unless the kind is window; BG_EINVAL for NULL.
 * Thread safety: MT-Safe (MT-Excl on a BG_SPEC_EXCLUSIVE filter). Cost: clears at most one
 * generation; all generations if a whole window has passed since the last move.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_rotate(bg_filter *filter, uint64_t now,
                                             bg_errinfo *info);

/*
 * For a window with a length, returns the time to which the window was last moved, either
 * by this process or by the process that saved its file. Returns 0 if the window was never
 * moved, and for other kinds.
 * Thread safety: MT-Safe (MT-Excl on a BG_SPEC_EXCLUSIVE filter).
 */
BG_API uint64_t bg_filter_window_time(const bg_filter *filter);

/*
 * Returns the number of the current period, counted from an arbitrary start; 0 unless the
 * kind is window. Thread safety: MT-Safe.
 */
BG_API uint64_t bg_filter_window_period(const bg_filter *filter);

#ifdef __cplusplus
}
#endif

#endif
