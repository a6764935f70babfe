/*
 * flight.h - single flight: concurrent lookups of the same key share one query to the backing
 * store.
 *
 *     switch (bgi_flight_board(flights, &flight)) {
 *     case BGI_FLIGHT_LEADS:    query; bgi_flight_land(flights, &flight, answer); break;
 *     case BGI_FLIGHT_FOLLOWS:  use flight.answer; copy from flight.leader->request;
 *                               bgi_flight_leave(flights, &flight);               break;
 *     case BGI_FLIGHT_ALONE:    query;
 *     }
 *
 * The first lookup leads and queries the backing store. Lookups that arrive in the meantime wait
 * and get the leader's answer, even if it is an error. The leader does not return until these
 * followers have left, so that they can copy its result. bgi_flights_detach, called by writes,
 * closes a flight to later lookups. A lookup from a later era (recent.h) also closes the flight,
 * because that lookup must not get an answer from an earlier era.
 */
#ifndef BGI_FLIGHT_H
#define BGI_FLIGHT_H

#include "bloomgate/hash.h"
#include "bloomgate/spec.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct bgi_flights;

enum bgi_flight_role { BGI_FLIGHT_LEADS, BGI_FLIGHT_FOLLOWS, BGI_FLIGHT_ALONE };

/* One lookup, on the stack of its thread. */
struct bgi_flight {
    uint64_t hash; /* this and the next three members are set by the caller */
    uint64_t era;
    bg_bytes key;
    void *request;
    int answer;                /* valid once `landed` is set */
    struct bgi_flight *leader; /* a follower's leader */
    struct bgi_flight *next, **link;
    uint32_t followers;
    bool open, landed;
};

/* Returns NULL if out of memory. */
struct bgi_flights *bgi_flights_create(const bg_allocator *allocator);
void bgi_flights_free(struct bgi_flights *flights);

/* Joins a flight for the same key and era and waits for its answer, or starts a new flight.
 * Returns ALONE if the key has a flight in a later era, or if the lookup is made from a callback of
 * another lookup (in any gate) and therefore must not wait. */
enum bgi_flight_role bgi_flight_board(struct bgi_flights *flights,
                                      struct bgi_flight *flight);

/* Publishes the leader's answer. Returns when all followers have left. */
void bgi_flight_land(struct bgi_flights *flights, struct bgi_flight *flight,
                     int answer);

/* Ends a follower's use of its leader's entry. */
void bgi_flight_leave(struct bgi_flights *flights, struct bgi_flight *flight);

/* Closes a key's open flight, so that later lookups do not join it. */
void bgi_flights_detach(struct bgi_flights *flights, uint64_t hash, bg_bytes key);

#endif
