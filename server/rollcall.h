/*
 * rollcall.h - asking all connections: CLIENT LIST, CLIENT KILL.
 *
 * A connection belongs to its worker, and nobody else may look at it. So the one who asks, a job,
 * puts a note into each worker's mailbox in turn; the worker calls the function for each of its
 * connections on its own thread, and says that it is done. One worker at a time, so what the
 * function gathers needs no lock.
 *
 * A worker that has ended does not look into its mailbox any more. Once the service is stopping
 * the asker therefore does not wait for ever: it takes its note back.
 */
#ifndef SERVER_ROLLCALL_H
#define SERVER_ROLLCALL_H

#include "conn.h"

/*
 * Calls `visit` with each connection, on the thread of its worker, which it must not keep for
 * long; it may close the connection. From a job only: a worker would wait for itself. False: not
 * all were visited, as the service is stopping or there is no memory.
 */
bool rollcall(struct server *server, void (*visit)(void *context, struct conn *conn),
              void *context);

#endif
