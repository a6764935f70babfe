/*
 * fronts.h - filters that are in shards over a Redis Cluster (docs/cluster.md), under names that this
 * service answers for: clients speak to one server, and know nothing of clusters.
 *
 *     client -- BF.EXISTS seen x --> worker --> job thread --> the node that has x's shard
 *
 * Adds and questions of BF.* and BG.*, single and several, are forwarded: a request is a batch, and so is
 * a run of single ones in a pipeline (dispatch.c). That is done by job threads, so event loops wait for nobody. Each job takes a client of the cluster
 * out of the front's pool, or opens one.
 *
 * What the cluster does not answer is doubt: questions are answered "maybe", adds with the error FAILED.
 * A shard that is not there is an error to both. After a failure the cluster is left alone for a
 * second, and everything fails at once: job threads are few, and others need them.
 *
 * Threads: all functions may be called by any, but for making and freeing.
 */
#ifndef SERVER_FRONTS_H
#define SERVER_FRONTS_H

#include "command_table.h"
#include "settings.h"

struct fronts;
struct front;

/* All fronts of the settings; *fronts is NULL if there are none. Connects to nobody. False: `why`. */
bool fronts_create(const struct settings *settings, struct fronts **fronts,
                   char why[SETTINGS_WHY]);

/* Calls that are under way end soon, with failure. */
void fronts_stop(struct fronts *fronts);
void fronts_free(struct fronts *fronts);

/* The front that a request names, as any of its keys; NULL: none. `fronts` may be NULL. */
struct front *fronts_find(const struct fronts *fronts, const struct command *command,
                          const bg_bytes *argv, size_t argc);

/* Whether a command is forwarded; what else names a front is an error. */
bool front_forwards(const struct command *command);
void front_refuse(const struct front *front, struct request *request);

/* Answers a request that is forwarded; or, `many`, as many requests about one item as it has items, with
 * a reply each. Waits for the cluster: on job threads only. */
void front_run(struct front *front, struct request *request, bool many);

struct front_facts {
    const char *name;
    uint32_t shards;
    uint64_t adds, questions;    /* items */
    uint64_t failed, unanswered; /* of these */
    bool down;
};

/* Facts of front number i; false: there are no more. */
bool fronts_facts(struct fronts *fronts, size_t i, struct front_facts *facts);

#endif
