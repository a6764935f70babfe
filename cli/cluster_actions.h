/*
 * cluster_actions.h - the actions that bloomgate cluster performs on a sharded filter
 * (sharded_filter.h): adding and checking keys (cmd_cluster.c), operations on the shards
 * (cluster_shards.c), and exporting their secrets (cluster_secrets.c).
 */
#ifndef CLI_CLUSTER_ACTIONS_H
#define CLI_CLUSTER_ACTIONS_H

#include "command.h"
#include "records.h"
#include "service_link.h"
#include "sharded_filter.h"

#include <string.h>

struct cluster_settings {
    struct common common;
    struct key_options keys;
    struct login_options login;
    const char *nodes;
    uint64_t shards, batch, replicas;
    double wait, timeout, patience; /* seconds */
    const char *kind, *hash;
    uint64_t items, seed;
    double rate;
    bool missing;                                /* create */
    bool acknowledged;                           /* add */
    bool invert, count, annotate, open_on_error; /* check */
    bool force;                                  /* dump */
};

struct cluster_work {
    const struct cluster_settings *settings;
    const char *name;
    struct cluster *cluster;
    struct sharded filter;
    const struct arguments *arguments; /* the action, the name, and other arguments */
};

/* Expands X(name, arguments, description, number of option groups) for each action. cluster_NAME
 * performs an action and returns an exit code. */
#define CLUSTER_ACTIONS(X)                                                             \
    X(create, "NAME", "create the shards, each for its share of --items", 3)           \
    X(add, "NAME [KEYS...]", "add keys from files or stdin", 4)                        \
    X(check, "NAME [KEYS...]", "print the lines that the filter may contain", 4)       \
    X(info, "NAME", "print sizes, rates, and the node of each shard", 3)               \
    X(merge, "NAME OTHER...", "add all keys from other filters", 3)                    \
    X(dump, "NAME PREFIX", "write the shards to PREFIX.0, PREFIX.1 and so on", 3)      \
    X(secrets, "NAME FILE", "add the secrets of the shards to the keyring FILE", 3)    \
    X(drop, "NAME", "delete the shards", 3)                                            \
    X(complete, "NAME", "mark all shards as complete after keys were added again", 3)
#define CLUSTER_DECLARE(name, usage, does, groups)                                     \
    int cluster_##name(struct cluster_work *work);
CLUSTER_ACTIONS(CLUSTER_DECLARE)
#undef CLUSTER_DECLARE

static inline bg_bytes cluster_word(const char *word)
{
    return (bg_bytes){ word, strlen(word) };
}

/* Reads the witnesses of a filter's shards and, depending on the mode, writes the witnesses that
 * are out of date, or all of them (sharded_vouch). Sets *doubted to the number of shards that may
 * have lost keys, and `why` to the reason for the first of these shards. Returns an exit code. */
enum cluster_vouching { VOUCH_READ, VOUCH_RENEW, VOUCH_COMPLETE };
int cluster_vouch(struct cluster_work *work, struct sharded *filter,
                  enum cluster_vouching how, uint32_t *doubted, char why[WITNESS_WHY]);

/* Updates the witnesses before keys are added, and warns about shards that may have lost keys.
 * Returns an exit code. */
int cluster_renew(struct cluster_work *work);

/* Fails if any shard of a filter may have lost keys, because these keys would also be missing from
 * a copy of the filter. Returns an exit code. */
int cluster_expect_complete(struct cluster_work *work, struct sharded *filter,
                            const char *name);

/* Reports why a call failed. Returns an exit code. */
int cluster_say(const struct cluster_work *work, const bg_errinfo *why);

#endif
