/*
 * server.h - the service's components, startup and shutdown.
 *
 *     bloomgated.c   settings, signals
 *        |
 *     server.c       creates the parts in order, loads the data, serves, stops in reverse order
 *        |
 *        +-- catalog   names -> objects                  +-- workers   an event loop each
 *        +-- persist   journal, snapshots, recovery      |     +-- conn      sockets, TLS, buffers
 *        +-- users, tls, settings                        |     +-- dispatch  RESP, pipelines
 *        +-- gates     filters in front of databases     |     +-- web       HTTP, JSON, dashboard
 *        +-- fronts    filters over clusters             |
 *        +-- observer  measurements, history             +-- jobs      threads for long operations
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "catalog.h"
#include "command_table.h"
#include "quiet.h"
#include "settings.h"
#include "tls.h"
#include "users.h"

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
    bg_keyring *keyring;
    struct persist *persist; /* NULL if nothing is stored on disk */
    struct gates *gates;     /* NULL: none */
    struct fronts *fronts;   /* NULL: none */
    struct observer *observer;
    struct slowlog *slowlog;
    struct jobs *jobs;
    struct worker **workers;
    size_t workers_count;
    _Atomic int phase; /* enum server_phase */
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

/* The service's command arrays, and the number of arrays. */
extern const struct command *const server_families[];
extern const size_t server_families_count;

/* server_now returns milliseconds since 1970; server_ticks returns milliseconds on the monotonic
 * clock. */
uint64_t server_now(void);
uint64_t server_ticks(void);

/*
 * Creates all components, opens the listening sockets, loads the data, and serves requests. Blocks
 * until server_stop has been called and all threads have exited. Returns 0, or a nonzero exit code
 * after logging the reason.
 */
int server_run(struct settings_store *store);

/* Stops the service, gracefully or immediately. Called by a signal handler or by SHUTDOWN.
 * Async-signal-safe. */
void server_stop(bool at_once);

/* Returns whether a stop has been requested. */
bool server_is_stopping(void);

/* server_count_totals returns the totals since startup; server_sum_totals returns the totals since
 * the last reset (for INFO). Thread-safe. */
void server_count_totals(const struct server *server, struct server_totals *totals);
void server_sum_totals(struct server *server, struct server_totals *totals);
void server_reset_totals(struct server *server);

/* Requests a reload of settings, users and certificates (SIGHUP). Async-signal-safe. */
void server_ask_reload(void);

#endif
