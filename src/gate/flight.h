/*
 * flight.h - single flight: look-ups of one key at the same time ask the truth once.
 *
 *     switch (bgi_flight_board(flights, &flight)) {
 *     case BGI_FLIGHT_LEADS:    ask; bgi_flight_land(flights, &flight, answer);   break;
 *     case BGI_FLIGHT_FOLLOWS:  use flight.answer; copy from flight.leader->request;
 *                               bgi_flight_leave(flights, &flight);               break;
 *     case BGI_FLIGHT_ALONE:    ask;
 *     }
 *
 * Whoever comes first leads and asks; those who come while he asks wait, and get his answer,
 * also if it is an error. He stays until they have left, so that they can copy what he
 * found. bgi_flight_detach, called by writes, closes a flight to those who come later. So does a
 * lookup of a later era (recent.h): it must not get an answer of an earlier one.
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

/* One look-up, on the stack of who does it. */
struct bgi_flight {
    uint64_t hash; /* these four are the caller's */
    uint64_t era;
    bg_bytes key;
    void *request;
    int answer;                /* of a flight that landed */
    struct bgi_flight *leader; /* of a follower */
    struct bgi_flight *next, **link;
    uint32_t followers;
    bool open, landed;
};

/* NULL when there is no memory. */
struct bgi_flights *bgi_flights_create(const bg_allocator *allocator);
void bgi_flights_free(struct bgi_flights *flights);

/* Joins a flight of that key and era, and waits for its answer, or begins one. ALONE: this look-up
 * is made by a callback of another one, of any gate, and must not wait; or there is a flight of a
 * later era. */
enum bgi_flight_role bgi_flight_board(struct bgi_flights *flights,
                                      struct bgi_flight *flight);

/* The leader has an answer. Returns when all his followers have left. */
void bgi_flight_land(struct bgi_flights *flights, struct bgi_flight *flight,
                     int answer);

/* A follower needs his leader no longer. */
void bgi_flight_leave(struct bgi_flights *flights, struct bgi_flight *flight);

/* Who looks that key up from now on does not join those who do already. */
void bgi_flights_detach(struct bgi_flights *flights, uint64_t hash, bg_bytes key);

#endif
