/*
 * sharded_filter.h - a filter that is sharded across a cluster: adds, queries, and commands for
 * each shard.
 *
 * Items are sorted by shard (shard_names.h) and sent to all nodes in parallel, in BG.MADD and
 * BG.MEXISTS commands of up to `batch` items. A missing shard is an error, never a "no". If a call
 * fails, items without an answer are undecided: query them again, or treat them as "maybe". Adds
 * can be safely repeated.
 *
 * A "no" is trusted only from a process that the shard's witness lists (shard_witness.h). The
 * witness is read before the first query to a shard, and again after the queries of each call, in
 * the same pipeline. A "no" that is not trusted is not returned, so its item has no answer.
 *
 * Thread safety: a sharded filter belongs to one thread, like its cluster client.
 */
#ifndef CLUSTER_SHARDED_FILTER_H
#define CLUSTER_SHARDED_FILTER_H

#include "shard_witness.h"

enum { SHARDED_BATCH = 500 };

/* What the clients of a process know about the witness of a shard. */
enum {
    WITNESS_UNSEEN,
    WITNESS_COMING, /* a client is writing the first witness */
    WITNESS_SEEN    /* the shard has had a witness */
};

struct sharded {
    struct cluster *cluster;
    struct shard_tags tags;
    char *texts;              /* memory for the shard names */
    bg_bytes *names;          /* names of the shards */
    size_t batch;             /* maximum number of items per command */
    bool lost[SHARDS_MAX];    /* shards that did not answer all of the last requests */
    bool doubted[SHARDS_MAX]; /* shards that may have lost keys */
    bool restarted
        [SHARDS_MAX]; /* shards in doubt whose witness does not record it yet */
    bool recreated[SHARDS_MAX]; /* shards that are missing, or were re-created empty */
    bool bare[SHARDS_MAX];      /* shards that had no witness at the last read */
    bool early
        [SHARDS_MAX]; /* shards whose first witness may be newer than the last read */
    uint64_t holders[SHARDS_MAX]; /* run ID of the process that served each witness */
    struct link_process served[SHARDS_MAX]; /* last answered for each shard */
    struct witness *witnesses; /* witness of each shard, if it has been read */
    bg_bytes *witness_names;
    atomic_uchar *witnessed; /* WITNESS_UNSEEN, WITNESS_COMING or WITNESS_SEEN */
    atomic_uchar *own;
};

/* Opens a filter. Errors: BG_EINVAL for an invalid number of shards. Afterwards, the caller may
 * replace `witnessed` with an array of the same length, which several filters can share. */
bg_err sharded_open(struct cluster *cluster, const char *name, uint64_t shards,
                    struct sharded *filter, bg_errinfo *info);
void sharded_close(struct sharded *filter);

/* Adds n items. Bits in `added` mark the items that are stored, and bits in `is_new` mark the items
 * that were definitely new. Both bitmaps are valid even after an error. Errors: BG_EFULL,
 * BG_ENOTFOUND, and those of cluster_call. */
bg_err sharded_add(struct sharded *filter, const bg_bytes *items, size_t n,
                   uint64_t *added, uint64_t *is_new, bg_errinfo *info);

/* Sets bits in `maybe` for the items that the filter may contain. After an error, also sets the
 * bits of items without an answer. If `answered` is not NULL, its bits mark the items that were
 * answered. */
bg_err sharded_ask(struct sharded *filter, const bg_bytes *items, size_t n,
                   uint64_t *answered, uint64_t *maybe, bg_errinfo *info);

/*
 * A command to run on every shard. The command consists of words[0], the name of the shard, and the
 * other words. If `others` is not NULL, it lists filters with the same number of shards, and the
 * names of their corresponding shards follow the shard's name in the command (BG.MERGE). `told` is
 * called once for each shard, in any order, with the index of the shard and its reply, which may be
 * an error.
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
 * Reads all witnesses and records in `doubted` which shards may have lost keys. Then rewrites
 * outdated witnesses with the processes in `view`, which must have been obtained before the
 * witnesses are read. With an empty view, no witness is written. The witness of a shard in doubt
 * records the doubt. If any shard has a witness, shards that are in `recreated` or have no witness
 * are in doubt as well. If `complete` is set, the operator has confirmed that the shards contain
 * all keys, and all witnesses are rewritten. If any shard is in doubt, `why` receives a reason.
 * Errors: those of cluster_call; results up to the error are kept.
 */
bg_err sharded_vouch(struct sharded *filter, const struct cluster_view *view,
                     bool complete, char why[WITNESS_WHY], bg_errinfo *info);

/* Removes all witnesses of a filter that was dropped. */
bg_err sharded_forget(struct sharded *filter, bg_errinfo *info);

/* Sends one command to one shard, in the same way as sharded_each. */
bg_err sharded_one(struct sharded *filter, uint32_t shard,
                   const struct sharded_order *order, bg_errinfo *info);

#endif
