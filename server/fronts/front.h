/*
 * fronts/front.h - the internals of a front, for fronts.c (creation, and RESP requests), fronts/call.c (cluster calls
 * and statistics) and fronts/watch.c (the thread that watches the cluster).
 */
#ifndef SERVER_FRONTS_FRONT_H
#define SERVER_FRONTS_FRONT_H

#include "config/front_settings.h"
#include "fronts/fronts.h"
#include "sharded_filter.h"

#include <pthread.h>

enum { FRONT_REST = 1000 }; /* interval between the watch's rounds, in milliseconds */

/* A cluster client, which is either idle in the pool or in use by one thread. */
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
    struct front_settings settings; /* owns its strings */
    size_t name_len;
    struct cluster_options options;
    uint32_t shards;
    struct front_shard *shard;
    atomic_uchar *witnessed; /* see struct sharded */
    pthread_mutex_t lock;    /* protects the fields from `idle` to `said_incomplete` */
    struct front_client *idle;
    char wrong[BG_ERR_MESSAGE_MAX]; /* why some shards are not up */
    bool said_down, said_no_adds, said_incomplete;
    struct cluster_tally tally;
    _Atomic uint64_t asked[FRONT_ASKED], added[FRONT_ADDED];
    struct front_timing timing[2];
    _Atomic uint32_t nodes, reached;
    _Atomic bool watched; /* the watch has completed a round */
    pthread_t watch;
    bool watching;
};

struct fronts {
    int stop; /* an eventfd that becomes readable when fronts_stop is called */
    size_t count;
    struct front items[];
};

/* Opens a connected client. `patience` is the time limit for retries, in milliseconds. On failure, returns
 * NULL and fills in `info`. */
struct front_client *front_open(struct front *front, uint32_t patience,
                                bg_errinfo *info);
void front_client_free(struct front_client *client); /* NULL is allowed */
void front_clients_free(struct front_client *list);

/* Sets the state of each shard; the value FRONT_STATES leaves a state unchanged. Stores `why` unless it is "". For
 * each of three conditions (down, not accepting adds, may have lost keys), logs when the first shard enters it and
 * when the last affected shard recovers. While a shard is down, the pool keeps no clients. */
void front_mark(struct front *front, const uint8_t *states, const char *why);

/* Starts the watch thread, which runs until `stop` is readable. Returns false if the thread cannot
 * be created. */
bool front_watch_start(struct front *front);
void front_watch_join(struct front *front);

#endif
