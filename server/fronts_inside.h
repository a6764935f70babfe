/*
 * fronts_inside.h - what a front is, for the files that it is made of: fronts.c (life, and requests by
 * RESP), front_call.c (calls and what is counted), front_watch.c (the thread that watches).
 */
#ifndef SERVER_FRONTS_INSIDE_H
#define SERVER_FRONTS_INSIDE_H

#include "front_settings.h"
#include "fronts.h"
#include "sharded_filter.h"

#include <pthread.h>

enum { FRONT_REST = 1000 }; /* milliseconds between two rounds of the watch */

/* A client of the cluster, idle in the pool or in the hands of one thread. */
struct front_client {
    struct cluster *cluster;
    struct sharded filter;
    struct front_client *next;
};

struct front_shard {
    _Atomic uint8_t state;
    _Atomic bool no_adds;
};

struct front_timing {
    _Atomic uint64_t counts[FRONT_LIMITS + 1], nanoseconds;
};

struct front {
    struct front_settings settings; /* texts are its own */
    size_t name_len;
    struct cluster_options options;
    uint32_t shards;
    struct front_shard *shard;
    atomic_bool *witnessed; /* for each shard: whether it ever had a witness */
    pthread_mutex_t lock;   /* protects the pool and the fields up to said_incomplete */
    struct front_client *idle;
    char wrong[256]; /* why shards are not up */
    bool said_down, said_no_adds, said_incomplete;
    struct cluster_tally tally;
    _Atomic uint64_t asked[FRONT_ASKED], added[FRONT_ADDED];
    struct front_timing timing[2];
    _Atomic uint32_t nodes, reached;
    _Atomic bool watched; /* once around, at least */
    pthread_t watch;
    bool watching;
};

struct fronts {
    int stop; /* an eventfd that is readable from fronts_stop on */
    size_t count;
    struct front items[];
};

/* A client, connected, with a patience in milliseconds; NULL: `info`. */
struct front_client *front_open(struct front *front, uint32_t patience,
                                bg_errinfo *info);
void front_client_free(struct front_client *client); /* NULL is allowed */
void front_clients_free(struct front_client *list);

/* Gives a state to shards, of which `states` has one each, FRONT_STATES to leave it; keeps why, if given,
 * and says in the log when the first goes down or takes no adds, and when the last is back. While some are down, no client is
 * kept in the pool. */
void front_mark(struct front *front, const uint8_t *states, const char *why);

/* Watches until `stop` is readable. */
bool front_watch_start(struct front *front);
void front_watch_join(struct front *front);

#endif
