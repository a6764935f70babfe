/*
 * fronts.h - filters that are sharded across a Redis Cluster (docs/cluster.md) and served under one name.
 * Clients connect to one server and do not need a cluster client.
 *
 *     client -- BF.EXISTS seen x --> worker --> job thread --> the node with x's shard
 *                                    (or HTTP)
 *
 * The service forwards the BF.* and BG.* commands that add or look up one or several items. Each request forms a
 * batch, and so does a run of pipelined single-item requests (dispatch.c). Job threads forward the batches, so event
 * loops never block. Each job takes a cluster client from the front's pool, or opens a new one (fronts/call.c).
 *
 * If the cluster does not answer, a lookup returns "maybe" (or an error if fail=closed is set), and an add returns
 * the error FAILED. If a shard does not exist, both lookups and adds return an error.
 *
 * There are few job threads, and they have other work to do. Therefore, a shard that does not answer is marked "down",
 * and its items are answered immediately, without waiting for the shard. Items in other shards are not affected. Each
 * front has a thread, the watch (fronts/watch.c), which queries all shards once a second, even without traffic. It
 * detects failed shards before clients do, and marks them as up when they answer again.
 *
 *     shard   up --- no answer to a lookup, or to the watch ---> down
 *             down --- an answer to the watch ---> up
 *
 * A shard whose server restarted may have lost keys (shard_witness.h), and is marked "incomplete". Its lookups are
 * answered as if the shard were down, but adds are sent to it. Each shard has a witness, which lists the
 * server processes that were running in the cluster when the witness was written. The watch reads the
 * witnesses of all shards and keeps them up to date. The shard stays incomplete until the operator marks the
 * shard as complete (bloomgate --cluster NODES complete). Lookups between a restart and the watch's next round
 * do not answer "no" either, because clients do not trust a process that the witness does not list.
 *
 * An add can fail for lack of replicas while lookups still work. Therefore, after a shard has not answered an
 * add, no adds are sent to it until its replicas have acknowledged a write from the watch.
 *
 * Thread safety: all functions are MT-Safe except fronts_create, fronts_start and fronts_free.
 */
#ifndef SERVER_FRONTS_H
#define SERVER_FRONTS_H

#include "command_table.h"
#include "config/settings.h"

struct fronts;
struct front;

/* Creates all configured fronts; *fronts is NULL if there are none. Reads the password and certificate files, but does
 * not connect. On failure, returns false and sets `why`. */
bool fronts_create(const struct settings *settings, struct fronts **fronts,
                   char why[SETTINGS_WHY]);

/* Starts watching the clusters. Returns false if a thread cannot be created. */
bool fronts_start(struct fronts *fronts);

/* Stops the watches. Calls in progress fail soon afterward. */
void fronts_stop(struct fronts *fronts);
void fronts_free(struct fronts *fronts);

/* Returns the front with this name, or NULL if there is none. `fronts` may be NULL. */
struct front *fronts_named(const struct fronts *fronts, bg_bytes name);

/* Returns the front whose name is one of the request's keys, or NULL if there is none. `fronts` may be
 * NULL. */
struct front *fronts_find(const struct fronts *fronts, const struct command *command,
                          const bg_bytes *argv, size_t argc);

/* Replies with an error to a command that is not forwarded (enum command_front). */
void front_refuse(const struct front *front, struct request *request);

/* Forwards a request and replies to it. If `many` is set, the request combines several single-item requests, each
 * of which gets its own reply. Waits for the cluster, so only job threads may call it. */
void front_run(struct front *front, struct request *request, bool many);

/* Items to forward, and their results. */
struct front_work {
    const bg_bytes *items;
    size_t n;
    bool adds;
    uint64_t *done; /* bitmap of items that were added or whose lookups were answered */
    /* Bitmap of added items that are new, or of lookups whose answer is "maybe". Unanswered lookups
     * count as "maybe" as well. */
    uint64_t *answers;
    /* some items are not in `done`, because a shard could not be reached */
    bool unreached;
    bg_errinfo info;
};

/* Forwards the items. The bitmaps must be zero. Waits for the cluster, so only job threads may call it. Unanswered
 * lookups are an error only if fail=closed is set. Errors: BG_EIO; BG_ENOTFOUND if a shard does not exist; BG_EFULL
 * if a shard is full; BG_ENOMEM. `done` is valid even after an error. */
bg_err front_call(struct front *front, struct front_work *work);

/* ---- Statistics ---------------------------------------------------------------------------------- */

enum {
    FRONT_UP,
    FRONT_REFUSING,
    FRONT_MISSING,
    FRONT_DOWN,
    FRONT_INCOMPLETE,
    FRONT_STATES
};

/* Lookups by result. UNREACHED means that the shard could not be reached, and ASK_REFUSED that the shard replied
 * with an error. */
enum { FRONT_MAYBE, FRONT_NO, FRONT_UNREACHED, FRONT_ASK_REFUSED, FRONT_ASKED };

/* Adds by result. NEW means that the item was definitely new, and OLD that it may have been present. ADD_REFUSED means
 * that the item was not added, because the shard refused it or was known to be down. UNKNOWN means that the item was
 * sent but not acknowledged. */
enum { FRONT_NEW, FRONT_OLD, FRONT_ADD_REFUSED, FRONT_UNKNOWN, FRONT_ADDED };

/* A histogram of request durations. Bucket i counts the requests that took at most front_limits[i] seconds but more
 * than the previous limit. The last bucket counts all longer requests. */
enum { FRONT_LIMITS = 12 };
extern const double front_limits[FRONT_LIMITS];

struct front_times {
    uint64_t counts[FRONT_LIMITS + 1];
    double seconds; /* sum of all durations */
};

struct front_facts {
    const char *name;
    uint32_t shards;
    uint32_t states[FRONT_STATES]; /* number of shards in each state */
    /* number of shards that are up, but accept no adds */
    uint32_t no_adds;
    const char *state; /* summary: "starting", "up", "partly" or "down" */
    uint32_t nodes, reached;
    double map_age; /* in seconds; negative if there is no cluster map yet */
    uint64_t asked[FRONT_ASKED], added[FRONT_ADDED];
    uint64_t commands, repeated;
    uint64_t moved, ask, tryagain, clusterdown, passing; /* redirections */
    /* The number of connections that could not be opened, and the number of connections that
     * broke. */
    uint64_t unopened, broken;
    struct front_times times[2];    /* lookups, adds */
    char wrong[BG_ERR_MESSAGE_MAX]; /* why some shards are not up, or "" */
};

extern const char *const front_state_names[FRONT_STATES];

/* Retrieves the statistics for the front with index i. Returns false if there is no such front. */
bool fronts_facts(struct fronts *fronts, size_t i, struct front_facts *facts);

/* Retrieves the statistics for one front. */
void front_about(struct front *front, struct front_facts *facts);

/* Return the number of fronts, and the number of fronts with at least one reachable shard. */
size_t fronts_count(const struct fronts *fronts);
size_t fronts_reached(struct fronts *fronts);

#endif
