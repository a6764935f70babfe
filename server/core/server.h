/*
 * server.h - the service's components, and requests to stop or reload.
 *
 *     bloomgated.c   settings, signals
 *        |
 *     run.c          creates the parts in order, loads the data, serves, stops in reverse order
 *        |
 *        +-- catalog   names -> objects                  +-- workers   an event loop each
 *        +-- persist   journal, snapshots, recovery      |     +-- conn      sockets, TLS, buffers
 *        +-- users, tls, settings                        |     +-- dispatch  RESP, pipelines
 *        +-- gates     filters in front of databases     |     +-- web       HTTP, JSON, dashboard
 *        +-- fronts    filters over clusters             |
 *        +-- observer  measurements, history             +-- jobs      threads for long operations
 */
#ifndef SERVER_CORE_SERVER_H
#define SERVER_CORE_SERVER_H

#include "catalog/catalog.h"
#include "command_table.h"
#include "config/settings.h"
#include "config/tls.h"
#include "config/users.h"
#include "core/keyrings.h"
#include "util/quiet.h"

#include <pthread.h>
#include <stdatomic.h>

/* In the phases up to SERVER_LOADING, some or all filters have not been loaded, so a filter that is
 * not found may still exist. */
enum server_phase {
    SERVER_STARTING,
    SERVER_ABANDONING, /* the service is stopping before all filters have been loaded */
    SERVER_LOADING,    /* connections are accepted while data is being loaded */
    SERVER_SERVING,
    /* no new connections are accepted; existing connections finish their requests */
    SERVER_STOPPING
};

/* Counters that are summed over all workers. */
#define SERVER_TOTALS(X)                                                               \
    X(accepted)                                                                        \
    X(rejected)                                                                        \
    X(closed)                                                                          \
    X(timed_out)                                                                       \
    X(overflowed)                                                                      \
    X(requests)                                                                        \
    X(http_requests)                                                                   \
    X(runs)                                                                            \
    X(errors)                                                                          \
    X(bytes_in)                                                                        \
    X(bytes_out)

struct server_totals {
#define SERVER_TOTALS_FIELD(name) uint64_t name;
    SERVER_TOTALS(SERVER_TOTALS_FIELD)
#undef SERVER_TOTALS_FIELD
};

struct worker;
struct jobs;
struct persist;
struct gates;
struct fronts;
struct observer;
struct slowlog;

struct server {
    struct settings_store *store;
    struct quiet quiet;
    /* Tracks the threads that may be using published settings and users; see settings_reclaim and
     * users_reclaim. */
    struct quiet readers;
    struct catalog *catalog;
    struct command_table *commands;
    struct users *users;
    struct tls *tls; /* NULL: none */
    struct keyrings *keyrings;
    struct persist *persist; /* NULL if nothing is stored on disk */
    struct gates *gates;     /* NULL: none */
    struct fronts *fronts;   /* NULL: none */
    struct observer *observer;
    struct slowlog *slowlog;
    struct jobs *jobs;
    struct worker **workers;
    size_t workers_count;
    _Atomic int phase; /* enum server_phase */
    /* Some names may have belonged to lost filters (persist_doubts). Set while filters are loaded. */
    _Atomic bool doubts;
    _Atomic uint64_t next_client;
    _Atomic uint64_t clients;      /* current connections */
    _Atomic uint64_t http_clients; /* number of connections that use HTTP */
    _Atomic uint64_t uploads;      /* number of bytes in current HTTP uploads */
    /* The number of filters loaded so far and the total number. */
    _Atomic uint64_t load_done, load_all;
    _Atomic bool saving; /* BGSAVE is in progress */
    pthread_mutex_t reset_lock;
    struct server_totals reset; /* the counters at CONFIG RESETSTAT */
    uint64_t started;           /* milliseconds since 1970 */
    char run_id[41];
    /* Path of the Unix socket that the service created, or "" if there is none. */
    char unix_path[108];
};

/* Stops the service, gracefully or immediately. Called by a signal handler or by SHUTDOWN.
 * Async-signal-safe. */
void server_stop(bool at_once);

/* Returns whether a stop has been requested. */
bool server_is_stopping(void);

/* Requests a reload of settings, users, certificates and secrets (SIGHUP). Async-signal-safe. */
void server_ask_reload(void);

/* Creates the file descriptor that becomes readable when server_stop is called, and returns it, or
 * -1 on failure. */
int server_open_wake(void);

/* Returns whether an immediate stop has been requested. */
bool server_stops_at_once(void);

/* Returns whether a reload has been requested since the last call. */
bool server_take_reload(void);

#endif
