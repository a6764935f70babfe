/*
 * window.h - filters that forget: "seen in the last T seconds, or among the last N?"
 *
 *     bg_window_options last_hour = BG_WINDOW_OPTIONS_INIT;
 *     last_hour.length = 3600;
 *     last_hour.clock = seconds_since_start;      // yours, monotonic
 *     last_hour.generations = 24;
 *
 *     bg_spec spec = BG_SPEC_INIT;
 *     spec.kind = BG_KIND_WINDOW;
 *     spec.items = 1000000;                       // different keys in an hour
 *     spec.rate = 0.01;
 *     spec.window = &last_hour;
 *
 * A window is divided into periods: of length / (generations - 1) ticks of a clock, or
 * of count / (generations - 1) adds; or you end each by hand. The last `generations`
 * periods are remembered, the present one included.
 *   - A key that was added less than one window ago is always found: until at least
 *     `generations - 1` periods have passed since its own ended. Only time in memory counts:
 *     a window does not age between saving and opening.
 *   - A key that was added more than generations / (generations - 1) windows ago is not,
 *     but for the usual rate; an aged window lets go of it over up to 10 periods more, in
 *     each of which half of such keys vanish. More generations make that sharper.
 * Adding a key again renews it. Ages are counted at adds and rotations: queries look at
 * no clock, so where adds may cease, call bg_filter_rotate from time to time.
 *
 * Two ways to keep a window, which answer alike:
 *   generations  one filter per generation, of any Bloom kind. A query asks all of them.
 *   aged         slices of age, all slices of a key in one or two cache lines: a query
 *                costs the same for 2 generations as for 50.
 * With few generations take the former, with many the latter: at 24 generations and 1 %
 * they take 19.9 and 25.2 bits per key of the window, and a query reads up to 24 cache
 * lines or one. docs/choosing.md compares.
 *
 * Memory. A window is created for items / (generations - 1) keys in each period. A window
 * of generations keeps its rate for up to `items` different keys in each period: a period
 * that receives more keys than planned, in a burst or because keys are renewed, allocates
 * more memory, up to bg_spec.max_bytes. An aged window does not grow; more keys in a
 * period raise its rate.
 *
 * Forgetting is done in small steps by adds and rotations. Queries never wait.
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
 * How a window moves; all zero: by hand, 8 generations. At most one of length and count
 * is given. The struct is copied; what `context` points to must outlive the filter.
 */
typedef struct bg_window_options {
    uint32_t struct_size; /* sizeof(bg_window_options) */
    uint32_t mode;        /* a bg_window_mode */
    uint32_t generations; /* 2 .. 64; aged: 2 .. 52 or so, by rate; 0: 8 */
    uint32_t kind;        /* of each generation: a Bloom kind; 0: blocked. aged: 0 */
    uint64_t length;      /* of the window, in ticks of the clock */
    uint64_t count;       /* of the window, in adds */
    uint64_t (*clock)(void *context); /* the time now, in ticks of any length, never
                                         going back; called by adds, once per 64 keys in
                                         batches, and when the window is saved. NULL:
                                         only bg_filter_rotate sets the time */
    void *context;
} bg_window_options;

#define BG_WINDOW_OPTIONS_INIT                                                         \
    {                                                                                  \
        sizeof(bg_window_options), 0, 0, 0, 0, 0, 0, 0                                 \
    }

/*
 * Moves a window. With a length: to the time `now`, which must be of the same clock; a
 * time that has passed already changes nothing, and a window with its own clock never moves
 * beyond the time of that clock. Without a length: ends the present period and ignores
 * `now`. Errors: BG_ENOTSUP unless the kind is window; BG_EINVAL for NULL.
 *
 * After a window was created or opened, the first `now` that it receives only starts its clock:
 * a window without a clock moves with the second call. Time between saving and
 * opening does not count, whichever clock is used afterwards, because only the elapsed
 * part of the current period is read from the file. To continue with the clock of the
 * file, as a replica or the replay of a log does, first call bg_filter_rotate(filter,
 * bg_filter_window_time(filter), info).
 *
 * A call that does not end the period clears part of the memory of the next period, so
 * that adds need not do it.
 * Thread safety: MT-Safe (a BG_SPEC_EXCLUSIVE filter: MT-Excl). Cost: up to clearing one
 * generation; all of them when a whole window has passed since the last move.
 */
BG_API BG_MUST_CHECK bg_err bg_filter_rotate(bg_filter *filter, uint64_t now,
                                             bg_errinfo *info);

/* Returns the time to which a window with a length was last moved, by this process or by
 * the one that saved its file; 0 if it was never moved, and for other kinds. Thread
 * safety: MT-Safe (a BG_SPEC_EXCLUSIVE filter: MT-Excl). */
BG_API uint64_t bg_filter_window_time(const bg_filter *filter);

/* The number of the present period, counted from an arbitrary one; 0 unless the kind is
 * window. Thread safety: MT-Safe. */
BG_API uint64_t bg_filter_window_period(const bg_filter *filter);

#ifdef __cplusplus
}
#endif

#endif
