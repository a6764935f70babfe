/*
 * shard_witness.h - whether a shard has lost keys because its server was started again.
 *
 * A primary that is started again before its replica is promoted comes back with the data of its last
 * save, stays primary, and makes its replica forget the rest as well. WAIT does not help: it counts
 * replicas, and this one had the write. The shard then denies keys that were acknowledged, and nothing in
 * its answers shows it.
 *
 * So each shard has a witness, a string beside it in the same slot, that lists the processes which were
 * running when it was written, primaries and replicas:
 *
 *     {43}seen/3of16/witness      1 9f0c1d5a77b3e2c4 04ab... (a version, and the first 16 digits of run_ids)
 *
 * (W1) A process lists itself in no data that it loaded from disk: these are older than the process.
 * (W2) So if process p answers a shard, and the witness in its data lists p, then the data came to p by
 *      replication, by a migration of slots, or by clients, while p was running.
 * (W3) The witness is written only to a shard whose witness lists the process that has it, or that has
 *      none yet, or by order of the operator (sharded_complete). So a doubt stays, for all clients and
 *      beyond their own restarts, until the operator says that the shard is complete.
 * (W4) The processes are found before the witnesses are read, and a witness is read before it is
 *      written. A process that is started in between is not on the list.
 *
 * A failover keeps (W2): the replica was on the list. A replica that was started since the witness was
 * last written is not; fronts write it within a second or so, `bloomgate cluster add` when it starts.
 *
 * Not found: a replica that was cut off for long, and is promoted all the same (CLUSTER FAILOVER TAKEOVER);
 * a restart from a save that is older than the first witness, if this client has seen none. Servers
 * without strings (bloomgated, which has a journal) have no witnesses, and are believed.
 */
#ifndef CLUSTER_SHARD_WITNESS_H
#define CLUSTER_SHARD_WITNESS_H

#include "cluster_client.h"

enum { WITNESS_NAME_MORE = 16 }; /* bytes that its name has more than its shard's */

/* The processes whose answers are believed. */
struct witness {
    uint64_t *runs;
    size_t count;
    bool any; /* all: the server has no witnesses */
};

void witness_free(struct witness *witness);
bool witness_lists(const struct witness *witness, uint64_t run);

enum witness_verdict {
    WITNESS_GOOD,
    WITNESS_NONE,  /* there is none: the process is believed for now */
    WITNESS_DOUBT, /* keys may be lost */
    WITNESS_NO_MEMORY
};

/* What a reply to GET of a witness means. `known`: there was one before. `why` is filled in for a
 * doubt. */
enum { WITNESS_WHY = 200 };
enum witness_verdict witness_read(const struct cluster_ask *ask, bg_bytes reply,
                                  bool known, struct witness *witness,
                                  char why[WITNESS_WHY]);

/* Reads the text of a witness; what cannot be understood lists nobody. False: no memory. */
bool witness_parse(bg_bytes text, struct witness *witness);

/* The text of a new witness: the processes that run, and some of those before. NULL: no memory. Free it. */
char *witness_write(const struct witness *before, const uint64_t *runs, size_t count);

#endif
