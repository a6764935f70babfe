/*
 * postgres/replication.h - logical replication slots and their streams.
 *
 * Slots. For each slot, the server keeps the WAL that the slot's owner has not confirmed. The follower owns a
 * persistent slot. Readers create temporary slots because the server exports a snapshot with each temporary slot.
 *
 * Streams. Over a PG_STREAMS connection, the server sends changes starting at a given position, and retains the WAL
 * after the last confirmed position. A reply from the client contains three positions: written, flushed and applied.
 * Only `flushed` allows the server to discard WAL. This has two consequences:
 *
 * - A server that is shutting down waits until the client has flushed all changes. This client confirms a change only
 *   after the change has been saved to disk, which may be much later. So after confirming a position, the client
 *   sends a second reply with a flushed position of zero (none). The server then waits only until all changes have
 *   been *written*, that is, received.
 * - A client without a flushed position is not a candidate for synchronous replication, so even with
 *   synchronous_standby_names='*', transactions do not wait for this client. The client briefly becomes a candidate
 *   when it confirms a position, so the caller confirms a position only if no transaction before that position is
 *   waiting for a standby.
 *
 * Silence. While a server decodes changes to other tables, it has nothing to send. Decoding can take a long time after
 * the service has been down for hours. So each reply requests a response from the server. The server responds between
 * two WAL records or, within a large transaction, after half of wal_sender_timeout.
 */
#ifndef SERVER_POSTGRES_REPLICATION_H
#define SERVER_POSTGRES_REPLICATION_H

#include "postgres/link.h"

/* ---- Slots ------------------------------------------------------------------------------- */

struct postgres_slot {
    bool exists;
    bool fits;    /* the slot is a logical slot with the pgoutput plugin */
    bool is_here; /* the slot belongs to this database */
    bool is_lost; /* the server has removed WAL that the slot needs */
    int user;     /* PID of the process that is using the slot, or 0 */
    uint64_t confirmed;
};

/* Reads the state of a slot. */
bg_err postgres_slot_look(struct postgres_link *link, const char *name,
                          uint64_t deadline, struct postgres_slot *slot,
                          bg_errinfo *info);

/* Drops the slot if it exists. Errors: BG_EBUSY if a process is using the slot; BG_EINVAL if the slot is not a
 * logical slot with the pgoutput plugin. */
bg_err postgres_slot_drop(struct postgres_link *link, const char *name,
                          uint64_t deadline, bg_errinfo *info);

/* Callback that reports the oldest transaction that the server is waiting for, first after one second and
 * then every minute. */
struct postgres_slot_wait {
    struct postgres_link *link; /* another connection */
    void (*waits)(void *context, const char *why);
    void *context;
};

enum { PG_SNAPSHOT = 64 };

/*
 * Creates a slot over a PG_STREAMS connection. The server first waits until all running write transactions have
 * ended. If `snapshot` is NULL, the slot is persistent. Otherwise, the slot is temporary, and the server drops it
 * when the connection is closed. `snapshot` is set to the name of a snapshot that can be imported until the
 * connection is closed. The snapshot contains exactly the transactions whose commit records precede the slot's
 * starting point.
 */
bg_err postgres_slot_create(struct postgres_link *link, const char *name,
                            const struct postgres_slot_wait *wait,
                            char snapshot[PG_SNAPSHOT], bg_errinfo *info);

/* ---- Streams ----------------------------------------------------------------------------- */

/* A server that sends nothing for longer than this is considered dead. The value equals wal_sender_timeout (see
 * postgres_stream_start). */
#define STREAM_SILENCE (120 * SOURCE_SECOND)

/* Starts streaming at position `lsn`. `slot` is also the name of the publication. */
bg_err postgres_stream_start(struct postgres_link *link, const char *slot, uint64_t lsn,
                             bg_errinfo *info);

/* Returns the next message without waiting; *message is NULL if none has arrived. The caller frees the
 * message with PQfreemem. */
bg_err postgres_stream_next(struct postgres_link *link, char **message, size_t *len,
                            bg_errinfo *info);

/* Reports to the server that all messages up to position `received` have arrived. If `confirmed` is not 0, the server
 * may discard the WAL before that position. */
bg_err postgres_stream_reply(struct postgres_link *link, uint64_t received,
                             uint64_t confirmed, bg_errinfo *info);

/* Returns whether the last stream error is permanent, for example because the slot or the publication was dropped.
 * A lost connection or a server shutdown is not a permanent error. */
bool postgres_stream_is_refused(const struct postgres_link *link);

#endif
