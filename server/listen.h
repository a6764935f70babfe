/*
 * listen.h - the sockets on which workers accept connections, according to the settings.
 */
#ifndef SERVER_LISTEN_H
#define SERVER_LISTEN_H

#include "server.h"

/* Opens all sockets, one per address, port and worker. Returns false if one cannot be opened,
 * which was logged; the others stay open until their workers are freed. */
bool listen_all(struct server *server);

/* Call it after the workers have closed the sockets: removes the Unix socket's file. */
void listen_end(struct server *server);

#endif
