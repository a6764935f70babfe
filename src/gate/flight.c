/*
 * flight.c - see flight.h.
 *
 * Idea. The flights are kept in a table of lists. Each list has a lock and a condition variable. A
 * lookup is on a list while its callback runs: the leader's callback queries the backing store, and
 * a follower's callback copies the leader's answer. The entries are on the stacks of the calling
 * threads, so nothing is allocated.
 *
 * Invariants, while the list's lock is held:
 *   (F1) At most one flight per key is open. An open flight belongs to a leader that has no
 *        answer yet, and no write to its key has ended since the flight started. Only lookups from
 *        the same era join the flight.
 *   (F2) `followers` counts the followers that may still use the leader's entry. The leader
 *        returns only when this count is 0, and the count grows only while the flight is open.
 *   (F3) A lookup that is on a list, where other lookups may wait for it, does not wait for any
 *        other flight in any gate, whatever its callbacks do. Followers wait for leaders,
 *        leaders wait for the backing store and for the followers' callbacks, and these callbacks
 *        do not wait for any flight. So there is no cycle.
 *
 * For (F3), each thread counts its entries across the lists of all gates, because two gates
 * whose backing stores query each other could also form a cycle.
 *
 * An answer can be older than the lookup that gets it, but not older than a write that ended
 * before the lookup started, because that write closed the flight (F1). For the same reason as in
 * recent.c (R3), the answer is also not older than a new base or a bg_gate_forget_absent call that
 * preceded the lookup.
 */
#include "gate/flight.h"

#include "base/memory.h"

#include <string.h>

enum { FLIGHT_SHARDS = 32 };

/* The number of this thread's entries on the lists of all gates; see (F3). */
static _Thread_local unsigned flight_inside;

struct flight_shard {
    _Alignas(64) pthread_mutex_t lock;
    pthread_cond_t turn; /* signals a leader's answer, or that its last follower left */
    struct bgi_flight *first;
};

struct bgi_flights {
    struct bgi_memory memory;
    struct flight_shard shards[FLIGHT_SHARDS];
};

static struct flight_shard *flight_enter(struct bgi_flights *flights, uint64_t hash)
{
    struct flight_shard *shard = &flights->shards[hash % FLIGHT_SHARDS];
    (void)pthread_mutex_lock(&shard->lock);
    return shard;
}

static void flight_exit(struct flight_shard *shard)
{
    (void)pthread_mutex_unlock(&shard->lock);
}

/* ---- Lists --------------------------------------------------------------------------- */

static void flight_list(struct flight_shard *shard, struct bgi_flight *flight)
{
    flight->next = shard->first;
    flight->link = &shard->first;
    if (flight->next) {
        flight->next->link = &flight->next;
    }
    shard->first = flight;
    flight_inside++;
}

static void flight_unlist(struct bgi_flight *flight)
{
    *flight->link = flight->next;
    if (flight->next) {
        flight->next->link = flight->link;
    }
    flight_inside--;
}

static struct bgi_flight *flight_find(const struct flight_shard *shard, uint64_t hash,
                                      bg_bytes key)
{
    struct bgi_flight *f = shard->first;
    while (f
           && !(f->open && f->hash == hash && f->key.len == key.len
                && (key.len == 0 || memcmp(f->key.data, key.data, key.len) == 0))) {
        f = f->next;
    }
    return f;
}

/* ---- Boarding and landing -------------------------------------------------------------- */

static void flight_lead(struct flight_shard *shard, struct bgi_flight *flight)
{
    flight->followers = 0;
    flight->landed = false;
    flight->open = true;
    flight_list(shard, flight);
}

/* Waits for the leader, then joins the list as a follower that copies the answer. */
static void flight_follow(struct flight_shard *shard, struct bgi_flight *flight,
                          struct bgi_flight *leader)
{
    leader->followers++;
    while (!leader->landed) {
        (void)pthread_cond_wait(&shard->turn, &shard->lock);
    }
    flight->leader = leader;
    flight->answer = leader->answer;
    flight->open = false;
    flight_list(shard, flight);
}

enum bgi_flight_role bgi_flight_board(struct bgi_flights *flights,
                                      struct bgi_flight *flight)
{
    enum bgi_flight_role role = BGI_FLIGHT_ALONE;
    struct flight_shard *shard = flight_enter(flights, flight->hash);
    struct bgi_flight *leader = flight_find(shard, flight->hash, flight->key);
    if (leader && leader->era < flight->era) {
        leader->open = false;
        leader = NULL;
    }
    if (!leader) {
        flight_lead(shard, flight);
        role = BGI_FLIGHT_LEADS;
    } else if (flight_inside == 0 && leader->era == flight->era) {
        flight_follow(shard, flight, leader);
        role = BGI_FLIGHT_FOLLOWS;
    }
    flight_exit(shard);
    return role;
}

void bgi_flight_land(struct bgi_flights *flights, struct bgi_flight *flight, int answer)
{
    struct flight_shard *shard = flight_enter(flights, flight->hash);
    flight->answer = answer;
    flight->landed = true;
    flight->open = false;
    flight_unlist(flight);
    if (flight->followers) {
        (void)pthread_cond_broadcast(&shard->turn);
    }
    while (flight->followers) {
        (void)pthread_cond_wait(&shard->turn, &shard->lock);
    }
    flight_exit(shard);
}

void bgi_flight_leave(struct bgi_flights *flights, struct bgi_flight *flight)
{
    struct flight_shard *shard = flight_enter(flights, flight->hash);
    flight_unlist(flight);
    if (--flight->leader->followers == 0) {
        (void)pthread_cond_broadcast(&shard->turn);
    }
    flight_exit(shard);
}

void bgi_flights_detach(struct bgi_flights *flights, uint64_t hash, bg_bytes key)
{
    struct flight_shard *shard = flight_enter(flights, hash);
    struct bgi_flight *flight = flight_find(shard, hash, key);
    if (flight) {
        flight->open = false;
    }
    flight_exit(shard);
}

/* ---- Lifecycle ----------------------------------------------------------------------- */

struct bgi_flights *bgi_flights_create(const bg_allocator *allocator)
{
    struct bgi_memory memory;
    if (!bgi_memory_take(&memory, sizeof(struct bgi_flights), allocator, true)) {
        return NULL;
    }
    struct bgi_flights *flights = memory.base;
    flights->memory = memory;
    for (unsigned i = 0; i < FLIGHT_SHARDS; i++) {
        (void)pthread_mutex_init(&flights->shards[i].lock, NULL);
        (void)pthread_cond_init(&flights->shards[i].turn, NULL);
    }
    return flights;
}

void bgi_flights_free(struct bgi_flights *flights)
{
    if (flights) {
        for (unsigned i = 0; i < FLIGHT_SHARDS; i++) {
            (void)pthread_cond_destroy(&flights->shards[i].turn);
            (void)pthread_mutex_destroy(&flights->shards[i].lock);
        }
        struct bgi_memory memory = flights->memory;
        bgi_memory_give(&memory);
    }
}
