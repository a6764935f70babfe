/*
 * session.h - the environment in which the service runs a request: the host (command/host.h) and
 * the state of the thread and the client.
 *
 * Each worker thread and each job thread has one session. Before a request runs, the session is
 * bound to the request's client. The time and the settings are read once per batch.
 *
 * Entries that a worker finds are valid until the end of its batch (quiet.h). A job may run for a
 * long time, so it holds every entry it finds until it finishes.
 */
#ifndef SERVER_REQUEST_SESSION_H
#define SERVER_REQUEST_SESSION_H

#include "catalog/catalog.h"
#include "command_table.h"
#include "config/users.h"
#include "gates/gates.h"

struct server;
struct multi;
struct quota;

/* The CLIENT REPLY mode, which controls whether replies are sent. */
enum client_mute {
    CLIENT_SPEAKS,
    CLIENT_MUTE,      /* OFF: nothing is sent */
    CLIENT_SKIP_NEXT, /* SKIP is running and affects the next request */
    CLIENT_SKIPS      /* the reply to the next request is skipped */
};

/* A client: the state of a connection apart from its buffers. */
struct client {
    uint64_t id;
    int protocol; /* protocol version of replies: 2 or 3 */
    /* Set by client_set_user. NULL means that the client must log in first. */
    const struct user *user;
    bool close;              /* close once all replies are sent */
    uint8_t mute;            /* enum client_mute */
    struct multi *multi;     /* commands waiting for EXEC; NULL outside of MULTI */
    bool no_touch, no_evict; /* CLIENT options that are stored but have no effect */
    uint64_t since;          /* milliseconds since 1970 */
    uint64_t active;         /* time of the last request, in milliseconds since 1970 */
    uint64_t requests;
    const struct command *last;
    char name[128];
    char library[64];
    char library_version[32];
    char address[64]; /* "127.0.0.1:52114", "[::1]:52114", or "unix" */
    char host[48];    /* the address without the port */
};

/* Changes the user of a client. The client holds its user (users.h). NULL leaves the client without
 * a user. */
void client_set_user(struct client *client, const struct user *user);

/* Copies a client. `to` must be a valid client or all zeros. */
void client_copy(struct client *to, const struct client *from);

enum {
    /* Maximum number of arguments in a request that runs on a worker. Larger requests run as
     * jobs. */
    SESSION_QUICK = 4096,
    SESSION_TEXT = BG_ERR_MESSAGE_MAX + 64 /* maximum size of an error reply */
};

struct session {
    struct host host; /* must be the first field, because handlers get its address */
    struct server *server;
    struct client *client;
    int seat;    /* seat of this thread in server->quiet */
    bool is_job; /* the session belongs to a job */
    /* Whether the session is in a batch. A job may run for a long time, so it is in a batch only
     * while it records and applies a change. */
    bool inside;
    /* Set by a handler that has not replied, so that the request runs again as a job. */
    bool deferred;
    /* Whether the reply depends on journal records written by this or another request; see
     * object.h. */
    bool wrote;
    uint64_t now;   /* milliseconds since 1970 */
    uint64_t ticks; /* milliseconds, monotonic */
    struct command_settings settings;
    const struct settings *from; /* settings from which `settings` is derived */
    uint64_t version;            /* version of `from` */
    struct entry **held;         /* entries that a job has found and holds */
    size_t holds, holds_room;
    /* The object that a worker has claimed for the running request, or NULL. */
    struct object *claimed;
    /* Keys that `counted` has looked up and added since the last call to user_count. */
    const struct user *counted;
    uint64_t queries, adds;
    struct quota *quota;        /* quota of the running request, or NULL */
    struct gates_ticket ticket; /* ticket of a lookup that a job completes */
    bool has_ticket;
};

/* Returns the session of a request. */
static inline struct session *session_of(const struct request *request)
{
    return (struct session *)request->host;
}

/* Initializes a session and reserves a seat (quiet.h). Returns false if no seat is free. */
bool session_init(struct session *session, struct server *server, bool is_job);
void session_fini(struct session *session);

/* Reads the current settings. A job calls this function when it starts. A worker calls it in every
 * iteration of its event loop, because workers also use settings outside of batches. */
void session_take_settings(struct session *session);

/* Reads the clock and the settings, and enters a batch unless the session belongs to a job. */
void session_begin(struct session *session);
void session_end(struct session *session);

/* Drops a name if the terms are met (catalog_drop_on). The name is free afterwards, even if it was
 * in doubt before. Errors: BG_ENOTFOUND if there is no such name. */
bg_err session_drop(struct session *session, bg_bytes name,
                    const struct catalog_terms *terms, bg_errinfo *info);

/* Checks that a new filter may use a name: the name is in the catalog, or no lost filter can have
 * had it. Otherwise the new filter would answer "no" for keys that were added to the lost filter.
 * Errors: BG_EIO if the name is in doubt. */
bg_err session_is_free(struct session *session, bg_bytes name, bg_errinfo *info);

/* Checks that a filter may be created under a name. The name of a gate is refused, unless a filter
 * with this name already exists: the new filter would answer "no" for keys in the gate's database.
 * Errors: BG_ENOTSUP. */
bg_err session_refuse_gate(struct session *session, bg_bytes name, bg_errinfo *info);

/* Returns the entry with this name (host->ops->find returns its object), or NULL if there is
 * none. */
struct entry *session_find(struct session *session, bg_bytes name);

/* Like session_find, for use before a change that depends on the entry's content. Sets the terms to
 * require the current entry with its current content, and waits until all earlier changes are
 * applied. The terms refer to the content that the caller reads after this call. Only jobs may call
 * this function. */
struct entry *session_see(struct session *session, bg_bytes name,
                          struct catalog_terms *terms);

/* Adds an object under a name if the terms are met (see catalog_put_on). Errors: the same as for
 * host->ops->create. */
bg_err session_put(struct session *session, bg_bytes name, struct object *object,
                   const struct catalog_terms *terms, bg_errinfo *info);

/*
 * Runs one request for a client: looks up the command, checks its arity, the client's permissions
 * and the state of the service, and runs the command. Used for all requests except pipelined runs
 * (dispatch.c).
 */
void session_run(struct session *session, struct client *client, const bg_bytes *argv,
                 size_t argc, const struct reply *reply);

/* Returns whether changing n items of the named filter would block an event loop, in which case a
 * job must make the change. Otherwise, the filter is claimed (object.h) until session_unclaim
 * is called. */
bool session_stalls(struct session *session, const struct command *command,
                    bg_bytes name, size_t n);
void session_unclaim(struct session *session);

/* Returns whether a command may have to wait for a filter, based on what is known before the
 * command runs. */
bool session_may_stall(struct session *session, const struct command *command,
                       const bg_bytes *argv);

/* Runs a command that has been looked up and has the right arity, after performing all other
 * checks. Used by EXEC. */
void session_run_queued(struct session *session, const struct command *command,
                        const bg_bytes *argv, size_t argc, const struct reply *reply);

/* Cleans up after a deferred request that cannot run again because there is no memory for a job. */
void session_abandon(struct session *session);

/* Lets a job use entries and names that it does not hold. The job is in a batch until it calls
 * session_let_go or ends. Keep the batch short, and call nothing in it that waits for batches. */
void session_enter(struct session *session);

/* Visits all entries in batches of a few entries, so their names may be used. `visit` must not keep
 * the entry, unless it holds it (catalog_hold). */
void session_each(struct session *session,
                  void (*visit)(void *context, struct entry *entry), void *context);

/* Releases all entries found so far. Call it between the parts of a long operation. */
void session_let_go(struct session *session);

/* Returns the lane (jobs.h) of a command that changes a filter or checks a password, or 0 for other
 * commands. */
uint64_t session_lane(const struct session *session, const struct command *command,
                      const bg_bytes *argv, size_t argc);

struct front;

/* Checks the insert rate of the client's user. Returns false if the client has to wait. */
bool session_may_add(struct session *session, size_t n, bg_errinfo *info);

/* Counts `queries` keys that the client's user looked up, and `adds` keys that it added elsewhere,
 * in addition to keys added to objects (host.added). Passes the counts to user_count at the end of
 * the batch, so that the requests of a pipeline do not each update shared memory. */
void session_count(struct session *session, uint64_t queries, uint64_t adds);

/* Forwards a request, or a run of requests (front_run), to a cluster. Call this function on a job
 * thread, after all other checks have passed. */
void session_forward(struct session *session, struct front *front,
                     struct request *request, bool many);

/* What happens to a request. */
enum session_verdict {
    SESSION_ADMITTED,
    SESSION_IN_CLUSTER, /* the filter is in a cluster: see `front` */
    SESSION_MAYBE,      /* filters are being loaded, so the answer is "maybe" */
    SESSION_DENIED,     /* the user lacks a permission */
    SESSION_REFUSED     /* the service cannot run the command in its current state */
};

struct admission {
    enum session_verdict verdict;
    const char *error; /* the error reply, or NULL if the request may run */
    struct front *front;
    char text[SESSION_TEXT]; /* may hold the error */
};

/* Decides whether a request may run: checks the client's permissions, then the state and the limits
 * of the service. Every request passes through this function before it runs: single requests,
 * pipelined runs (once per run), and requests in EXEC. */
void session_admit(struct session *session, const struct client *client,
                   const struct request *request, struct admission *admission);

/* Runs a request that has been admitted, and times it for the slow log. If `items` is not NULL, runs
 * n pipelined requests that were admitted together and differ only in their item; `request` is the
 * first of them. If `items` is NULL, n is 1. */
void session_perform(struct session *session, struct request *request,
                     const bg_bytes *items, size_t n);

#endif
