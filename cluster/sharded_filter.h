/*
 * sharded_filter.h - one filter in shards over a cluster: adding, asking, and work on each shard.
 *
 * Items are sorted by their shards (shard_names.h), and go in commands of up to `batch` items,
 * BG.MADD and BG.MEXISTS, to all nodes at once. A shard that is not there is an error, never a "no".
 * When a call fails, nothing is said about items that were not answered: ask again, or take them for
 * "maybe"; adds can be repeated.
 *
 * A "no" is trusted only from a process that the shard's witness lists (shard_witness.h). The witness is
 * read before the first query to a shard, and again after the queries of each call, in the same pipeline.
 * Answers that are not trusted are not returned.
 *
 * Threads: belongs to one, as its cluster does.
 */
#ifndef CLUSTER_SHARDED_FILTER_H
#define CLUSTER_SHARDED_FILTER_H

#include "shard_witness.h"

enum { SHARDED_BATCH = 500 };

struct sharded {
    struct cluster *cluster;
    struct shard_tags tags;
    char *texts;                 /* the names of its shards, */
    bg_bytes *names;             /* in order */
    size_t batch;                /* items in one command */
    bool lost[SHARDS_MOST];      /* shards that did not answer all of the last call */
    bool doubted[SHARDS_MOST];   /* shards that may have lost keys, */
    bool restarted[SHARDS_MOST]; /* ... and their witness does not record it yet */
    bool recreated[SHARDS_MOST]; /* shards that are missing, or were re-created empty */
    bool bare[SHARDS_MOST];      /* shards that had no witness at the last read */
    uint64_t holders[SHARDS_MOST]; /* runs of the processes that serve the witnesses */
    struct link_process
        served[SHARDS_MOST]; /* the process that answered the last command, per shard */
    struct witness *witnesses; /* of all shards whose witness was read */
    bg_bytes *witness_names;
    atomic_bool *
        witnessed; /* shards that ever had a witness; may be shared by several filters */
    atomic_bool *own;
};

/* Errors: BG_EINVAL for an invalid number of shards. `witnessed` may be replaced afterwards, by an
 * array of as many. */
bg_err sharded_open(struct cluster *cluster, const char *name, uint64_t shards,
                    struct sharded *filter, bg_errinfo *info);
void sharded_close(struct sharded *filter);

/* Adds n items. Bits in `added` say which are in for good, bits in `is_new` which were certainly new:
 * both valid after an error as well, which is BG_EFULL, BG_ENOTFOUND or that of cluster_call. */
bg_err sharded_add(struct sharded *filter, const bg_bytes *items, size_t n,
                   uint64_t *added, uint64_t *is_new, bg_errinfo *info);

/* Which of n items it may contain; all of them, as far as is known, after an error. Bits in `answered`,
 * unless NULL, say of which that was answered. */
bg_err sharded_ask(struct sharded *filter, const bg_bytes *items, size_t n,
                   uint64_t *answered, uint64_t *maybe, bg_errinfo *info);

/*
 * The same command for every shard: words[0], the shard, and the other words. `others`, unless NULL,
 * are more filters of as many shards, whose shards follow behind the shard (BG.MERGE). `told` gets the
 * number of the shard and its reply, errors as well, in any order.
 */
struct sharded_order {
    const bg_bytes *words;
    size_t count;
    const struct sharded *others;
    size_t others_count;
    bool write;
    bool steady; /* as in struct cluster_ask */
    void (*told)(void *context, uint32_t shard, bg_bytes reply);
    void *context;
};
bg_err sharded_each(struct sharded *filter, const struct sharded_order *order,
                    bg_errinfo *info);

/*
 * Reads all witnesses and records in `doubted` which shards may have lost keys. Then writes the witnesses
 * that are out of date, with the processes in `view`, which must have been determined before; an empty view
 * writes none. A shard in doubt gets a witness that marks it as doubted. If any shard has a witness, shards
 * that are in `recreated` or have no witness are in doubt as well. With `complete`, all witnesses are rewritten,
 * because the operator states that the shards have all keys. `why` gives the reason for the first doubted shard.
 * Errors: as cluster_call; results up to the error are kept.
 */
bg_err sharded_vouch(struct sharded *filter, const struct cluster_view *view,
                     bool complete, char why[WITNESS_WHY], bg_errinfo *info);

/* Removes all witnesses of a filter that was dropped. */
bg_err sharded_forget(struct sharded *filter, bg_errinfo *info);

/* One command for one shard, likewise. */
bg_err sharded_one(struct sharded *filter, uint32_t shard,
                   const struct sharded_order *order, bg_errinfo *info);

#endif
