/*
 * listen.h - the sockets that workers accept connections from, by the settings.
 */
#ifndef SERVER_LISTEN_H
#define SERVER_LISTEN_H

#include "server.h"

/* Opens them all, one per address, port and worker. False: one could not be, which was logged;
 * the others stay open until their workers are freed. */
bool listen_all(struct server *server);

/* The workers have closed them: removes what is left of them. */
void listen_end(struct server *server);

#endif
