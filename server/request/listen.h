/*
 * listen.h - the sockets on which workers accept connections, according to the settings.
 */
#ifndef SERVER_REQUEST_LISTEN_H
#define SERVER_REQUEST_LISTEN_H

#include "core/server.h"

/* Opens all sockets, one per address, port and worker. If a socket cannot be opened, logs the error
 * and returns false; the sockets that are already open stay open until their workers are freed. */
bool listen_all(struct server *server);

/* Removes the Unix socket's file. Must be called after the workers have closed the sockets. */
void listen_end(struct server *server);

#endif
