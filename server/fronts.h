/*
 * fronts.h - filters that are in shards over a Redis Cluster (docs/cluster.md), under names that this
 * service answers for: clients speak to one server, and know nothing of clusters.
 *
 *     client -- BF.EXISTS seen x --> worker --> job thread --> the node that has x's shard
 *                                    (or HTTP)
 *
 * Adds and questions of BF.* and BG.*, single and several, are forwarded: a request is a batch, and so is
 * a run of single ones in a pipeline (dispatch.c). That is done by job threads, so event loops wait for
 * nobody. Each job takes a client of the cluster out of the front's pool, or opens one (front_call.c).
 *
 * What the cluster does not answer is doubt: questions are answered "maybe", or with an error if the
 * settings say fail=closed; adds with the error FAILED. A shard that is not there is an error to both.
 *
 * Job threads are few, and others need them. So a shard that did not answer is "down": nobody waits for
 * it, its items are answered at once, and those of other shards as ever. A thread per front, the watch
 * (front_watch.c), asks all shards once a second, with or without traffic: it finds shards that went down
 * before a client does, and brings them back.
 *
 *     shard   up --- no answer to a question, or to the watch ---> down
 *             down --- an answer to the watch ---> up
 *
 * A shard whose server restarted may have lost keys (shard_witness.h): it is "incomplete". Lookups are
 * answered as if the shard were down, and adds are sent to it. The watch reads the witnesses of all shards
 * and keeps them up to date. The state ends when the operator marks the shard as complete (bloomgate
 * --cluster NODES complete). Between a restart and the next round of the watch no key is denied either,
 * because
 * clients trust no process that the witness does not list.
 *
 * An add may fail for want of replicas where questions are answered. So a shard that did not answer an add
 * takes no adds until the watch has had replicas acknowledge a write there.
 *
 * Threads: all functions may be called by any, but for making, starting and freeing.
 */
#ifndef SERVER_FRONTS_H
#define SERVER_FRONTS_H

#include "command_table.h"
#include "settings.h"

struct fronts;
struct front;

/* All fronts of the settings; *fronts is NULL if there are none. Connects to nobody, but reads the files
 * that the settings name. False: `why`. */
bool fronts_create(const struct settings *settings, struct fronts **fronts,
                   char why[SETTINGS_WHY]);

/* Begins to watch the clusters. False: no threads. */
bool fronts_start(struct fronts *fronts);

/* Calls that are under way end soon, with failure; the watch ends. */
void fronts_stop(struct fronts *fronts);
void fronts_free(struct fronts *fronts);

/* The front of a name; NULL: none. `fronts` may be NULL. */
struct front *fronts_named(const struct fronts *fronts, bg_bytes name);

/* The front that a request names, as any of its keys; NULL: none. `fronts` may be NULL. */
struct front *fronts_find(const struct fronts *fronts, const struct command *command,
                          const bg_bytes *argv, size_t argc);

/* Whether a command is forwarded; what else names a front is an error. */
bool front_forwards(const struct command *command);
void front_refuse(const struct front *front, struct request *request);

/* Answers a request that is forwarded; or, `many`, as many requests about one item as it has items, with
 * a reply each. Waits for the cluster: on job threads only. */
void front_run(struct front *front, struct request *request, bool many);

/* Items on their way to the cluster. */
struct front_work {
    const bg_bytes *items;
    size_t n;
    bool adds;
    uint64_t *done; /* bits: added, or answered; */
    uint64_t
        *answers;   /* new, or "maybe", which is also the answer of what is not done */
    bool unreached; /* some are not, as a shard could not be reached */
    bg_errinfo info;
};

/* Carries it out; bits are zero before. Waits for the cluster: on job threads only. BG_OK also if questions
 * were not answered, but for fail=closed. Else BG_EIO, BG_ENOTFOUND (a shard), BG_EFULL (a shard),
 * BG_ENOMEM; what is done is done. */
bg_err front_call(struct front *front, struct front_work *work);

/* ---- What is told of them ------------------------------------------------------------------------ */

enum {
    FRONT_UP,
    FRONT_REFUSING,
    FRONT_MISSING,
    FRONT_DOWN,
    FRONT_INCOMPLETE,
    FRONT_STATES
};

/* Items that were asked for, by the answer: no shard could be reached; it was, and answered an error. */
enum { FRONT_MAYBE, FRONT_NO, FRONT_UNREACHED, FRONT_ASK_REFUSED, FRONT_ASKED };

/* Items to be added: certainly new; not certainly; certainly not in by this, being refused, or not sent as
 * the shard was known to be down; sent, but not answered. */
enum { FRONT_NEW, FRONT_OLD, FRONT_ADD_REFUSED, FRONT_UNKNOWN, FRONT_ADDED };

/* How long requests took: limits in seconds, and how many took so long or less, but more than the limit
 * before; the last are those beyond all. */
enum { FRONT_LIMITS = 12 };
extern const double front_limits[FRONT_LIMITS];

struct front_times {
    uint64_t counts[FRONT_LIMITS + 1];
    double seconds; /* the sum */
};

struct front_facts {
    const char *name;
    uint32_t shards;
    uint32_t states[FRONT_STATES]; /* shards */
    uint32_t no_adds;              /* shards that are up, but take no adds */
    const char *state;             /* in a word: starting, up, partly, down */
    uint32_t nodes, reached;
    double map_age; /* seconds; negative: nobody has told it yet */
    uint64_t asked[FRONT_ASKED], added[FRONT_ADDED];
    uint64_t commands, repeated;
    uint64_t moved, ask, tryagain, clusterdown, passing; /* redirections */
    uint64_t unopened, broken;                           /* connections */
    struct front_times times[2];                         /* of questions, of adds */
    char wrong[256]; /* why shards are not up; empty: they are */
};

extern const char *const front_state_names[FRONT_STATES];

/* Facts of front number i; false: there are no more. */
bool fronts_facts(struct fronts *fronts, size_t i, struct front_facts *facts);

/* Those of one. */
void front_about(struct front *front, struct front_facts *facts);

/* How many there are, and how many of them can be asked, in some shard at least. */
size_t fronts_count(const struct fronts *fronts);
size_t fronts_reached(struct fronts *fronts);

#endif
