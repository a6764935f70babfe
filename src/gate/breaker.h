/*
 * breaker.h - the circuit breaker: stops calls to a failing backing store, and retries later.
 *
 *                       `failures` in a row
 *          CLOSED  ----------------------------->  OPEN
 *        calls allowed                         no calls allowed
 *             ^                                    |    ^
 *             | it succeeds                        |    | it fails
 *             |           `rest` is over           v    |
 *             +--------------------------------  TRYING
 *                                              one call allowed
 *
 * In the TRYING state, the one call that is allowed gets a trial number, which the caller passes
 * back with the result. If no result arrives, another call is allowed after another `rest` period.
 *
 * The breaker is lock-free, because one word holds its whole state (see breaker.c). While the
 * backing store is working, a check costs one load from a cache line that no thread writes to.
 */
#ifndef BGI_BREAKER_H
#define BGI_BREAKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The values of bg_gate_info.breaker. */
enum bgi_breaker_state {
    BGI_BREAKER_CLOSED = 0,
    BGI_BREAKER_OPEN = 1,
    BGI_BREAKER_TRYING = 2
};

struct bgi_breaker {
    /* The number of consecutive failures that opens the breaker. If 0, the breaker never opens. */
    uint32_t failures;
    uint64_t rest; /* nanoseconds */
    _Atomic uint64_t word;
    _Atomic uint64_t since;  /* when the breaker opened or the last trial started */
    _Atomic uint64_t opened; /* number of times the breaker has opened */
};

/* The state change that a call caused, for alarms. */
enum bgi_breaker_turn {
    BGI_BREAKER_STAYS = 0,
    BGI_BREAKER_OPENS = 1,
    BGI_BREAKER_CLOSES = 2
};

void bgi_breaker_init(struct bgi_breaker *breaker, uint32_t failures, uint64_t rest);

enum bgi_breaker_state bgi_breaker_state(const struct bgi_breaker *breaker);

/* Returns, without reading the clock, whether calls are allowed. */
bool bgi_breaker_is_closed(const struct bgi_breaker *breaker);

/* Returns whether the backing store may be called at the time `now`. Sets *trial to the trial
 * number, or to 0 if the call is not a trial. Pass *trial back with the result. */
bool bgi_breaker_allows(struct bgi_breaker *breaker, uint64_t now, uint64_t *trial);

/* These functions record the result of a call to the backing store. */
enum bgi_breaker_turn bgi_breaker_worked(struct bgi_breaker *breaker, uint64_t trial);
enum bgi_breaker_turn bgi_breaker_failed(struct bgi_breaker *breaker, uint64_t trial,
                                         uint64_t now);

#endif
