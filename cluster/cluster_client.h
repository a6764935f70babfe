/*
 * cluster_client.h - sends requests to a Redis Cluster, or to a single server, until they are
 * answered.
 *
 * A call handles any number of requests, each for one slot. It works in rounds: each round sends
 * every unanswered request to the node that owns its slot, contacting all nodes in parallel, and
 * then handles the replies:
 *
 *     MOVED                  the map is updated, and the request goes to the other node
 *     ASK                    the request goes to the other node once, after ASKING
 *     TRYAGAIN, CLUSTERDOWN, LOADING, MASTERDOWN, READONLY, NOREPLICAS, UNBLOCKED, and broken
 *     connections            the map is refreshed, and the request is retried after a pause
 *     anything else          is the answer, including errors
 *
 * A call fails when no request has been answered for `patience` milliseconds. A request whose
 * answer was lost is retried, so it may be executed twice. Requests must tolerate repetition:
 * setting the same bits twice has no further effect, and a counting filter that counts a key twice
 * loses no keys.
 *
 * WAIT. Redis acknowledges a write before its replicas have received it, so an acknowledged write
 * can be lost if the primary fails. If `replicas` is set, a write counts as answered only when that
 * many replicas have received it; until then, it is retried. WAIT covers only the writes on its own
 * connection, and an add that changes nothing does not count as a write. The bits of such an add
 * may have been set by another client or by an earlier attempt, and may not have reached a replica
 * yet. Therefore a small write precedes WAIT: SET {n}bloomgate/wait with an expiry, where {n}
 * selects a slot that the node owns. A replica that has received this write has also received all
 * earlier writes, unless the primary replaces its data in between. If `replicas` is set, the client
 * therefore handles all writes as `steady` requests (see below).
 *
 * Processes. A node that restarts loads its last save. Writes made since that save may be lost, and
 * clients would not notice. Therefore INFO is the first request on every connection, and each
 * answer is returned together with the identity of the process that sent it (shard_witness.h). A
 * restart always breaks the connection, so all answers on a connection come from one process.
 * However, a process can replace its data without closing its connections. The new data then has a
 * different history ID (struct link_process). Therefore a round with `steady` requests ends with
 * INFO on their connections. If the process or its history has changed since the start of the
 * round, the requests are repeated. History IDs are random and never reused, so a history that is
 * the same before and after the round was the same throughout.
 *
 * Passwords and certificates may be stored in files, which are read when a client is opened. After
 * a failure, close the client and open a new client, so that changed files take effect.
 *
 * Thread safety: one thread per client; several clients may share the counters in a struct
 * cluster_tally.
 */
#ifndef CLUSTER_CLUSTER_CLIENT_H
#define CLUSTER_CLUSTER_CLIENT_H

#include "error_text.h"
#include "slot_map.h"

/* Counters for requests, errors and connections. */
struct cluster_tally {
    _Atomic uint64_t requests;                       /* requests sent to nodes */
    _Atomic uint64_t repeated;                       /* requests that were retried */
    _Atomic uint64_t moved, asked;                   /* MOVED and ASK replies */
    _Atomic uint64_t tryagain, clusterdown, passing; /* other transient errors */
    _Atomic uint64_t unopened, broken; /* connections that failed to open, or broke */
    _Atomic uint64_t refreshed;        /* requests for the slot map */
    _Atomic int64_t told; /* when the slot map was last received (cluster_now), or 0 */
};

struct cluster_options {
    const char *nodes;           /* "host:port,host:port": some nodes of the cluster */
    const char *user, *password; /* NULL if not set */
    const char *password_file;   /* file whose first line is the password, or NULL */
    const char *password_option; /* for messages; NULL: password-file */
    struct node_tls_options tls;
    /* Milliseconds; 0 selects the default. */
    uint32_t connect;  /* to open a connection, including TLS; default: `timeout` */
    uint32_t timeout;  /* to wait for a reply; default: 5000 */
    uint32_t patience; /* how long a call retries without an answer before it fails;
                          default: 30,000 */
    uint32_t wait;     /* timeout of each WAIT; default: 1000 */
    uint32_t replicas; /* replicas that must receive a write; 0 disables WAIT */
    size_t reply_max;  /* maximum size of the replies of a round; default: LINK_MAX */
    bool single; /* a single server, so NOPERM for CLUSTER SLOTS is not an error */
    int stop_fd; /* descriptor that cancels a call when readable, or -1 */
    struct cluster_tally *tally; /* NULL selects the client's own counters */
};

struct cluster;

/* Connects to a cluster and reads its slot map. Errors: BG_EINVAL if the node list is invalid;
 * BG_EIO, BG_ECANCELED or BG_ENOMEM. The message includes the node and its error. */
bg_err cluster_open(const struct cluster_options *options, struct cluster **cluster,
                    bg_errinfo *info);
void cluster_close(struct cluster *cluster);

/* Checks the files specified in the options. Reports the same errors as cluster_open, without
 * contacting a node. */
bg_err cluster_options_check(const struct cluster_options *options, bg_errinfo *info);

struct cluster_ask;

/* Called once for each request, in any order. The reply is valid only during the call. */
typedef void cluster_answered(struct cluster_ask *ask, bg_bytes reply);

struct cluster_ask {
    const bg_bytes *argv; /* argv[1] is the key that determines the slot */
    size_t argc;
    bool write;
    /* Repeat the request if the node's data was replaced during the round. */
    bool steady;
    cluster_answered *answered;
    void *context;  /* for `answered` */
    bool oversized; /* set if there is no reply because it exceeds reply_max */

    /* Internal. */
    bool done;
    unsigned slot;
    uint16_t node, next; /* indexes of the node last tried and the node to try next */
    bool asking;         /* send ASKING before the redirected request */
    size_t round;        /* the round in which the request was answered */

    /* The process that answered; valid only during the call to `answered`. */
    const struct link_process *by;
};

/* Sends all requests. In each round, a node receives its requests in the order of `asks`. Errors:
 * same as cluster_open. Requests that were answered before an error remain answered (`done`). If a
 * round ends without an answer because a reply exceeds reply_max, the call fails with BG_EIO
 * instead of retrying, and `oversized` is set in the request. */
bg_err cluster_call(struct cluster *cluster, struct cluster_ask *asks, size_t n,
                    bg_errinfo *info);

struct cluster_view {
    size_t nodes;   /* number of nodes that own slots */
    size_t reached; /* number of these nodes that answered */
    size_t count;   /* number of processes that answered, including replicas */
    struct link_process processes[MAP_NODES];
};

/* Sends INFO once to every node that owns slots and to every replica, and returns the processes
 * that answer. Also refreshes the slot map if it is older than `age` milliseconds. Errors:
 * BG_ECANCELED, BG_ENOMEM. */
bg_err cluster_survey(struct cluster *cluster, uint32_t age, struct cluster_view *view,
                      bg_errinfo *info);

/* Returns the number of nodes that own slots. */
size_t cluster_nodes(const struct cluster *cluster);

/* Lists the nodes that own slots, according to the current map, and returns their number. A node
 * keeps its number as long as the client is open. */
size_t cluster_list_nodes(const struct cluster *cluster, uint16_t nodes[MAP_NODES]);

/* Requests the current map, and copies the owner of each slot. Errors: same as cluster_open. */
bg_err cluster_read_owners(struct cluster *cluster, uint16_t owners[SHARD_SLOTS],
                           bg_errinfo *info);

/* Returns the run ID of the server process that the client last connected to at a node, or 0 if it
 * is unknown. */
uint64_t cluster_run_of(const struct cluster *cluster, uint16_t node);

/* Sends a request without a key, such as SCAN, to one node. Calls `told` once with the reply, which
 * may be an error. Retries if the connection fails or the node reports a transient error. Errors:
 * same as cluster_open. */
bg_err cluster_call_node(struct cluster *cluster, uint16_t node, const bg_bytes *argv,
                         size_t argc, void (*told)(void *context, bg_bytes reply),
                         void *context, bg_errinfo *info);

/* Writes "host:port" of the node that owns a slot, according to the current map. */
void cluster_where(const struct cluster *cluster, unsigned slot, char *text,
                   size_t room);

#endif
