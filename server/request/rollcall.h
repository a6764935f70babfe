/*
 * rollcall.h - visits all connections, for CLIENT LIST and CLIENT KILL.
 *
 * A connection belongs to its worker, and no other thread may access it. So the caller, which is a
 * job, puts a note into one worker's mailbox after another. The worker calls the `visit` function
 * for each of its connections on its own thread and then reports that it is done. Only one worker
 * is visited at a time, so data that the function collects needs no lock.
 *
 * A worker that has exited no longer reads its mailbox. Therefore, once the service is stopping,
 * the caller withdraws its note instead of waiting indefinitely.
 */
#ifndef SERVER_REQUEST_ROLLCALL_H
#define SERVER_REQUEST_ROLLCALL_H

#include "request/conn.h"

/*
 * Calls `visit` for each connection, on the thread of the connection's worker. `visit` must not
 * block for long; it may close the connection. Only jobs may call this function, because a call
 * from a worker would deadlock. Returns false if some connections were not visited because the
 * service is stopping or out of memory.
 */
bool rollcall(struct server *server, void (*visit)(void *context, struct conn *conn),
              void *context);

#endif
