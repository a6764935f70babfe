/*
 * run.h - creates the service's components, serves, and stops.
 */
#ifndef SERVER_MAIN_RUN_H
#define SERVER_MAIN_RUN_H

#include "core/server.h"

/* The service's command arrays, and the number of arrays. */
extern const struct command *const server_families[];
extern const size_t server_families_count;

/*
 * Creates all components, opens the listening sockets, loads the data, and serves requests. Blocks
 * until server_stop has been called and all threads have exited. Returns 0, or a nonzero exit code
 * after logging the reason.
 */
int server_run(struct settings_store *store);

#endif
