/*
 * guesses.h - who tries passwords has to wait, longer with every failure.
 *
 * Failures are counted for an address together with the name that was tried, so that a client
 * with an old password does not keep its neighbours out; and for the address alone, with more
 * patience, so that trying many names does not help. The first failures are free: people mistype.
 * From then on it is 0.1 s, 0.2 s, 0.4 s, ... 30 s after each. A minute forgives one failure; a
 * right password does not, or an attacker with an account of his own could do that. IPv6 addresses
 * of one /64, which belong to one customer, are one.
 *
 * The table has a fixed size. Who comes from very many addresses pushes others out of it, and
 * gains a few free guesses for each; scrypt makes them slow.
 */
#ifndef SERVER_GUESSES_H
#define SERVER_GUESSES_H

#include "bloomgate/bloomgate.h"

#include <pthread.h>
#include <stdint.h>

enum {
    GUESSES_SETS = 256,
    GUESSES_WAYS = 4,
    GUESSES_FREE = 5,         /* of a name from an address */
    GUESSES_FREE_ADDRESS = 50 /* of an address */
};

struct guesses {
    pthread_mutex_t lock;
    uint64_t secret[2]; /* so that nobody can choose addresses that share a set */
    struct guesses_entry {
        uint64_t who, last; /* ms */
        uint32_t failures;  /* 0: free */
    } entries[GUESSES_SETS][GUESSES_WAYS];
};

void guesses_init(struct guesses *guesses, const uint64_t secret[2]);
void guesses_fini(struct guesses *guesses);

/* For how many milliseconds from `now` on (monotonic) no guess is taken; 0: it may come. */
uint64_t guesses_wait(struct guesses *guesses, const char *address, bg_bytes name,
                      uint64_t now);
void guesses_failed(struct guesses *guesses, const char *address, bg_bytes name,
                    uint64_t now);

#endif
