/*
 * rollcall.h - visits all connections, for CLIENT LIST and CLIENT KILL.
 *
 * A connection belongs to its worker, and no other thread may access it. So the caller, a job,
 * puts a note into each worker's mailbox in turn. The worker calls the function for each of its
 * connections on its own thread, and reports that it is done. Only one worker is visited at a
 * time, so data that the function collects needs no lock.
 *
 * A worker that has ended no longer reads its mailbox. Once the service is stopping, the caller
 * therefore withdraws its note instead of waiting indefinitely.
 */
#ifndef SERVER_ROLLCALL_H
#define SERVER_ROLLCALL_H

#include "conn.h"

/*
 * Calls `visit` with each connection, on the thread of its worker. `visit` must not block for long;
 * it may close the connection. Only jobs may call this function, because a worker would deadlock.
 * Returns false if not all connections were visited, because the service is stopping or out of
 * memory.
 */
bool rollcall(struct server *server, void (*visit)(void *context, struct conn *conn),
              void *context);

#endif
