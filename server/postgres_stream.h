/*
 * postgres_stream.h - the replication stream of a slot, over a PG_STREAMS connection.
 *
 * The server sends changes from a position on, and keeps the WAL after the position that was last confirmed.
 * Three positions of the client are part of a reply: written, flushed, applied. Only `flushed` lets the
 * server forget. Two consequences:
 *
 * - A server that shuts down waits until the client has flushed everything. This client confirms only what was saved
 *   to disk, possibly much later. So a confirmed position is followed by a reply whose flushed position is
 *   zero (none): then the server waits until everything was *written*, i.e. received.
 * - A client without a flushed position is not a candidate for synchronous replication, so
 *   synchronous_standby_names='*' does not let transactions wait for a filter. It is one for a moment when it confirms a
 *   position, so the caller confirms only positions before which no transaction waits for a standby.
 */
#ifndef SERVER_POSTGRES_STREAM_H
#define SERVER_POSTGRES_STREAM_H

#include "postgres_link.h"

/* Starts streaming at this position. slot is also the name of the publication. */
bg_err postgres_stream_start(struct postgres_link *link, const char *slot, uint64_t lsn,
                             bg_errinfo *info);

/* Returns the next message without waiting; *message is NULL if none has arrived. PQfreemem frees it. */
bg_err postgres_stream_next(struct postgres_link *link, char **message, size_t *len,
                            bg_errinfo *info);

/* Replies that everything up to `received` has arrived. `confirmed` is not 0: the server may forget
 * what is before. */
bg_err postgres_stream_reply(struct postgres_link *link, uint64_t received,
                             uint64_t confirmed, bg_errinfo *info);

/* Returns whether an error of the stream means that the server can never continue it, e.g. since the slot or the
 * publication was dropped, as opposed to a lost connection or a server that is shutting down. */
bool postgres_stream_is_refused(const struct postgres_link *link);

#endif
