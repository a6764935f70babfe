/*
 * shard_witness.h - whether a shard has lost keys because its server was started again.
 *
 * A primary that is started again before its replica is promoted comes back with the data of its last
 * save, stays primary, and makes its replica forget the rest as well. WAIT does not help: it counts
 * replicas, and this one had the write. The shard then denies keys that were acknowledged, and nothing in
 * its answers shows it.
 *
 * So each shard has a witness, a string beside it in the same slot: the process that had the shard when it
 * was written, and all processes of the cluster that were running then, primaries and replicas, each with
 * the history of its data (struct link_process).
 *
 *     {43}seen/3of16/witness      1 9f0c1d5a77b3e2c4 9f0c1d5a77b3e2c4:51b0... 04ab77e1c09d2f36:51b0... ...
 *
 * (W1) No process is on a list in data that it loaded from disk: these are older than the process.
 * (W2) A process that is on the list of its own data, with a history that it still has, or that its own
 *      continues, got these data while it was running: as the primary, as a replica that was promoted, or by
 *      a migration of slots. A replica that has copied the data of a primary that was started again has
 *      another history by then: Redis gives a process a new one when it starts.
 * (W3) The process that had the shard when the witness was written may begin a history that continues none:
 *      a primary does so when it has had no replica for an hour. A history that continues one that is not
 *      on the list is that of another primary, whose data the process has copied meanwhile.
 * (W4) The witness is written only to a shard that is not in doubt, or by order of the operator. To a shard
 *      in doubt an empty list is written, so that the doubt goes with the data, wherever these go. So a
 *      doubt stays, for all clients and beyond their own restarts, until the operator says that the shard
 *      is complete.
 * (W5) The processes are found before the witnesses are read, and a witness is read before it is
 *      written. A process that is started in between is not on the list.
 *
 * A replica that was started since the witness was last written is not on the list; fronts write it
 * within a second or so, `bloomgate cluster add` as long as it runs.
 *
 * Not found: a replica that was cut off for long, and is promoted all the same (CLUSTER FAILOVER TAKEOVER);
 * a restart from a save that is older than the first witness, if this client has seen none; a slot that
 * is moved from a server after its restart, before any client has noticed that. Servers without strings
 * (bloomgated, which has a journal) have no witnesses, and are believed.
 */
#ifndef CLUSTER_SHARD_WITNESS_H
#define CLUSTER_SHARD_WITNESS_H

#include "cluster_client.h"

enum { WITNESS_NAME_MORE = 16 }; /* bytes that its name has more than its shard's */

struct witness_entry {
    uint64_t run, history;
};

/* The processes whose answers are believed. */
struct witness {
    uint64_t holder; /* the run of the process that had the shard */
    struct witness_entry *entries;
    size_t count;
    bool any; /* all: the server has no witnesses */
};

void witness_free(struct witness *witness);
bool witness_believes(const struct witness *witness, const struct link_process *who);

/* Whether it has a process as it is now: if not, it should be written again. */
bool witness_has(const struct witness *witness, const struct link_process *process);

enum witness_verdict {
    WITNESS_GOOD,
    WITNESS_NONE,  /* there is none: the process is believed for now */
    WITNESS_DOUBT, /* keys may be lost, */
    WITNESS_RESTART, /* ... because of a restart that nobody has noted in the witness yet */
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

/* The text of a new witness: the process that has the shard, those that run, and some of those before.
 * NULL: no memory. Free it. */
char *witness_write(const struct witness *before, uint64_t holder,
                    const struct cluster_view *view);

/* The text that notes a doubt. */
extern const char witness_of_doubt[];

#endif
