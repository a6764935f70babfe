/*
 * shard_witness.h - detects that a shard may have lost keys because its server restarted.
 *
 * A primary that restarts before its replica is promoted loads its last save, stays the primary,
 * and makes its replica copy that data. WAIT does not prevent this loss: it counts the replica,
 * which has received the write at that time but later copies the older data. The shard then reports
 * acknowledged keys as absent, and nothing in its replies reveals the loss.
 *
 * Therefore each shard has a witness, which is a Redis hash in the same slot. The witness lists the
 * process that served the shard when the witness was written, and all processes that were running
 * in the cluster at that time, primaries and replicas, each with the history of its data (struct
 * link_process).
 *
 *     {43}seen/3of16/witness
 *         processes               1 9f0c1d5a77b3e2c4 9f0c1d5a77b3e2c4:51b0... 04ab77e1c09d2f36:51b0... ...
 *         doubt:77e1c09d2f3604ab  1
 *
 * (W1) A witness that a process loaded from disk never lists that process, since the file is older
 *   than the process.
 * (W2) If a process holds a witness that lists this process itself, with its current history or
 *   with a history that the current one continues, then the process received the data while it was
 *   running: as the primary, as a promoted replica, or by slot migration. This does not apply to a
 *   replica that has copied the data of a restarted primary: every Redis process starts with a new
 *   history, and the replica adopts that history along with the data.
 * (W3) The process that served the shard when the witness was written is still trusted if it has
 *   since started an entirely new history, as a primary does after an hour without a replica. It is
 *   not trusted if its history continues one that the witness does not list: that history belongs
 *   to another primary, from which the process has since copied its data.
 * (W4) The witness of a shard in doubt gets a field with the run ID of the process that served the
 *   shard, so that the doubt moves together with the data. The doubt persists, for all clients and
 *   across their restarts, until the operator marks the shard as complete.
 * (W5) The running processes are determined before the witnesses are read, and a witness is read
 *   before it is written. A process that starts in between is not on the list, and the operator's
 *   command does not mark the shards of such a process as complete.
 * (W6) A delayed write from a client reaches whichever server owns the slot at that time. Writing
 *   the list therefore never overwrites a doubt, and the operator's command deletes only the doubts
 *   that it has read.
 * (W7) A "no" is trusted if the process that sent it is listed both before and after the query, and
 *   had the same history throughout. To check this, the client reads the witness again after the
 *   query, and sends INFO after both commands (cluster_client.h). Without these checks, a client
 *   would not notice that the process had copied different data, or that another client had
 *   recorded a doubt before the slot moved to a listed process.
 * (W8) If some shards of a filter have a witness, the filter is in use, and a shard without a
 *   witness has lost the witness along with its keys. Such a shard is in doubt, even if it was
 *   re-created by a client that does not support witnesses. `bloomgate --cluster NODES create`
 *   records doubts before it re-creates missing shards of a filter in use.
 *
 * A replica that was started after the witness was last written is not on the list. Services that
 * run as a front for the cluster (docs/cluster.md) update the list about once a second, and so does
 * `bloomgate --cluster NODES add` while it runs.
 *
 * The following are not detected: the promotion of a replica that was disconnected for a long time
 * (CLUSTER FAILOVER TAKEOVER); a restart from a save that is older than the first witness, if this
 * client has never seen a witness; and the migration of a slot from a restarted server before any
 * client has noticed the restart. Servers that do not support Redis hashes have no witnesses and
 * are trusted. bloomgated is such a server; it has a journal instead.
 */
#ifndef CLUSTER_SHARD_WITNESS_H
#define CLUSTER_SHARD_WITNESS_H

#include "cluster_client.h"

/* The maximum number of bytes that a witness name adds to a shard name. */
enum { WITNESS_NAME_MORE = 16 };

struct witness_entry {
    uint64_t run, history;
};

enum {
    /* Maximum number of doubts read; a client adds a doubt only if there is none yet. */
    WITNESS_DOUBTS = 8,
    WITNESS_FIELD = 24 /* maximum length of a field name in bytes */
};

/* The processes whose answers are trusted, unless there are doubts. */
struct witness {
    uint64_t holder; /* run ID of the process that served the shard */
    struct witness_entry *entries;
    size_t count;
    uint64_t doubts[WITNESS_DOUBTS]; /* run IDs in the doubts; see (W4) */
    size_t doubt_count;
    bool any; /* trust all processes, because the server does not support witnesses */
};

void witness_free(struct witness *witness);

/* Removes all processes from the list, but keeps the doubts. */
void witness_distrust(struct witness *witness);
bool witness_believes(const struct witness *witness, const struct link_process *who);

/* Returns whether the witness lists a process with its current history. If not, the witness should
 * be rewritten. */
bool witness_has(const struct witness *witness, const struct link_process *process);

enum witness_verdict {
    WITNESS_GOOD,
    WITNESS_NONE,    /* no witness exists yet, and the process is trusted */
    WITNESS_DOUBT,   /* keys may have been lost */
    WITNESS_RESTART, /* like WITNESS_DOUBT, but not yet recorded in the witness */
    WITNESS_NO_MEMORY
};

/* Interprets the reply to HGETALL for a witness. `known` means that the shard had a witness before.
 * Fills in `why` if the shard is in doubt. */
enum { WITNESS_WHY = 200 };
enum witness_verdict witness_read(const struct cluster_ask *ask, bg_bytes reply,
                                  bool known, struct witness *witness,
                                  char why[WITNESS_WHY]);

/* Parses a list of processes. Malformed text counts as an empty list. Returns false if out of
 * memory. */
bool witness_parse(bg_bytes text, struct witness *witness);

/* Returns whether a process was running when `view` was obtained. */
bool witness_runs(const struct cluster_view *view, uint64_t run);

/* Returns the text of a new list: the process that serves the shard, the running processes, and
 * some earlier processes. The caller frees the text. Returns NULL if out of memory. */
char *witness_write(const struct witness *before, uint64_t holder,
                    const struct cluster_view *view);

/* The field name of the list, and a function that writes the field name of a doubt. */
extern const char witness_list[];
void witness_doubt_name(uint64_t run, char name[WITNESS_FIELD]);

#endif
