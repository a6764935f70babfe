/*
 * guesses.h - rate limiting for failed logins, with a delay that grows with every failure.
 *
 * Failures are counted for each combination of address and user name, so that a client with an outdated password does
 * not lock out other clients at the same address. They are also counted per address, with a higher limit, so that
 * trying many names does not help an attacker. The first few failures cause no delay, because people mistype
 * passwords. Each further failure is followed by a delay: 0.1 s, 0.2 s, 0.4 s, ... up to 30 s. One failure is
 * forgiven per minute. A correct password forgives no failures; otherwise, an attacker who has an account could
 * use it to reset the count. All IPv6 addresses in a /64 count as one address, because they usually belong to one
 * customer.
 *
 * The table has a fixed size. An attacker with very many addresses can evict other entries and gain a few free guesses
 * per address, but scrypt makes each guess slow.
 */
#ifndef SERVER_CONFIG_GUESSES_H
#define SERVER_CONFIG_GUESSES_H

#include "bloomgate/all.h"

#include <pthread.h>
#include <stdint.h>

enum {
    GUESSES_SETS = 256,
    GUESSES_WAYS = 4,
    /* number of failures without a delay, per address and name */
    GUESSES_FREE = 5,
    GUESSES_FREE_ADDRESS = 50 /* number of failures without a delay, per address */
};

struct guesses {
    pthread_mutex_t lock;
    /* Prevents attackers from choosing addresses that share a set. */
    uint64_t secret[2];
    struct guesses_entry {
        /* `who` is a hash of the address and name, and `last` is the time of the last failure, in
         * ms. */
        uint64_t who, last;
        uint32_t failures; /* 0 if the entry is unused */
    } entries[GUESSES_SETS][GUESSES_WAYS];
};

void guesses_init(struct guesses *guesses, const uint64_t secret[2]);
void guesses_fini(struct guesses *guesses);

/* Returns the number of milliseconds after `now` (monotonic) during which logins are refused, or 0 if a login is
 * accepted now. */
uint64_t guesses_wait(struct guesses *guesses, const char *address, bg_bytes name,
                      uint64_t now);
void guesses_failed(struct guesses *guesses, const char *address, bg_bytes name,
                    uint64_t now);

#endif
