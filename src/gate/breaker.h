/*
 * breaker.h - the circuit breaker: leaves alone what fails, and tries it again later.
 *
 *                       `failures` in a row
 *          CLOSED  ----------------------------->  OPEN
 *        all may ask                            nobody may ask
 *             ^                                    |    ^
 *             | it answers                         |    | it fails
 *             |           `rest` is over           v    |
 *             +--------------------------------  TRYING
 *                                              one may ask
 *
 * Who may ask as the only one carries a number, his trial, and hands it in with what came of
 * it. Should he never come back, another one may try after another `rest`.
 *
 * Lock-free: everything is in one word (see breaker.c). A truth that works costs one load of
 * a line that nobody writes.
 */
#ifndef BGI_BREAKER_H
#define BGI_BREAKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* As bg_gate_info.breaker has them. */
enum bgi_breaker_state {
    BGI_BREAKER_CLOSED = 0,
    BGI_BREAKER_OPEN = 1,
    BGI_BREAKER_TRYING = 2
};

struct bgi_breaker {
    uint32_t failures; /* in a row that open it; 0: it never opens */
    uint64_t rest;     /* nanoseconds */
    _Atomic uint64_t word;
    _Atomic uint64_t since;  /* when it was opened, or tried last */
    _Atomic uint64_t opened; /* how often */
};

/* What has changed, so that somebody can be told. */
enum bgi_breaker_turn {
    BGI_BREAKER_STAYS = 0,
    BGI_BREAKER_OPENS = 1,
    BGI_BREAKER_CLOSES = 2
};

void bgi_breaker_init(struct bgi_breaker *breaker, uint32_t failures, uint64_t rest);

enum bgi_breaker_state bgi_breaker_state(const struct bgi_breaker *breaker);

/* Whether the clock need not be read, since all may ask. */
bool bgi_breaker_is_closed(const struct bgi_breaker *breaker);

/* Whether the truth may be asked at the time `now`; *trial is to be handed in afterwards:
 * 0 unless it is a trial. */
bool bgi_breaker_allows(struct bgi_breaker *breaker, uint64_t now, uint64_t *trial);

/* It was asked, and did or did not answer. */
enum bgi_breaker_turn bgi_breaker_worked(struct bgi_breaker *breaker, uint64_t trial);
enum bgi_breaker_turn bgi_breaker_failed(struct bgi_breaker *breaker, uint64_t trial,
                                         uint64_t now);

#endif
