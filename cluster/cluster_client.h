/*
 * cluster_client.h - requests to a Redis Cluster, or to a single server, until they are answered.
 *
 * A call takes any number of requests, each for one slot. In rounds it sends every request that is
 * not answered to the node that has its slot, all nodes at once, and deals with what comes back:
 *
 *     MOVED                  the map is mended, the request goes to the other node
 *     ASK                    once to the other node, behind ASKING
 *     TRYAGAIN, CLUSTERDOWN, LOADING, MASTERDOWN, READONLY, NOREPLICAS, UNBLOCKED, and broken
 *     connections            the map is asked for anew, a pause, and again
 *     anything else          is the answer, errors as well
 *
 * It gives up when nothing was answered for as long as its patience lasts. A request whose answer was
 * lost is sent again, so it may be carried out twice: requests must not mind (adds to sets of bits do
 * not; counting filters count twice, which loses nothing).
 *
 * WAIT. Redis acknowledges a write before its replicas have it; a write that was acknowledged can be
 * lost with its primary. With `replicas` set, a write counts as answered only when so many replicas
 * have it, else it is sent again. WAIT waits for the last write of its own connection, and an add
 * that changes nothing is no write: the bits may be there by somebody else, or by an attempt before,
 * and on no replica yet. So a small write goes in between, SET {n}bloomgate/wait with an expiry, where
 * {n} is in a slot of that node. A replica that has this write has all earlier writes, unless the process
 * replaces its data in between. So the client handles these writes as `steady` requests (see below).
 *
 * Processes. A node that restarts has the data of its last save and may have lost later writes, without
 * reporting it to its clients. So INFO is the first request of every connection, and each answer is
 * returned with the process that gave it (shard_witness.h). A new process always breaks the connection, so
 * all answers of a connection come from one process. But a process can replace its data without closing its
 * connections, which gives it a new history. So a round with `steady` requests ends with INFO on their
 * connections. If the process or its history has changed since the start of the round, the requests are
 * repeated. History ids are random and never reused, so a history that is the same before and after the
 * round was the same throughout.
 *
 * Passwords and certificates may be in files, which are read when a client is opened: a client that
 * failed is best closed and opened anew, so that files that were changed meanwhile are heeded.
 *
 * Threads: a client belongs to one; a tally may be shared by several.
 */
#ifndef CLUSTER_CLUSTER_CLIENT_H
#define CLUSTER_CLUSTER_CLIENT_H

#include "slot_map.h"

/* What clients have done and met with, counted as it happens. */
struct cluster_tally {
    _Atomic uint64_t requests;                       /* that were sent to nodes, */
    _Atomic uint64_t repeated;                       /* and had to be sent again */
    _Atomic uint64_t moved, asked;                   /* MOVED and ASK, */
    _Atomic uint64_t tryagain, clusterdown, passing; /* and others that pass */
    _Atomic uint64_t unopened, broken;               /* connections */
    _Atomic uint64_t refreshed;                      /* questions for the map; */
    _Atomic int64_t told; /* when one was answered last, by cluster_now; 0: never */
};

struct cluster_options {
    const char *nodes;           /* "host:port,host:port" : some of the cluster's */
    const char *user, *password; /* NULL: none */
    const char *password_file;   /* NULL: none; its first line is the password */
    struct node_tls_options tls;
    uint32_t connect;  /* milliseconds to a connection, TLS included; 0: as `timeout` */
    uint32_t timeout;  /* milliseconds without an answer; 0: 5000 */
    uint32_t patience; /* milliseconds to go on after the last success; 0: 30,000 */
    uint32_t replicas; /* that must have a write; 0: no WAIT */
    uint32_t wait;     /* milliseconds for these, in one attempt; 0: 1000 */
    int stop_fd;       /* ends a call when it becomes readable; -1: none */
    struct cluster_tally *tally; /* NULL: one of its own */
};

struct cluster;

/* Finds out who has which slot. Errors: BG_EINVAL (nodes), BG_EIO, BG_ECANCELED, BG_ENOMEM; the
 * message says which node said what. */
bg_err cluster_open(const struct cluster_options *options, struct cluster **cluster,
                    bg_errinfo *info);
void cluster_close(struct cluster *cluster);

/* Whether the files that options name can be used: what cluster_open says of them, without a node. */
bg_err cluster_options_check(const struct cluster_options *options, bg_errinfo *info);

struct cluster_ask;

/* Called once for each request, in any order. The reply is valid only during the call. */
typedef void cluster_answered(struct cluster_ask *ask, bg_bytes reply);

struct cluster_ask {
    const bg_bytes *argv; /* argv[1] is the key that says which slot */
    size_t argc;
    bool write;
    bool steady; /* repeated if the process replaces its data in the meantime */
    cluster_answered *answered;
    void *context; /* for `answered` */

    /* Inside. */
    bool done;
    unsigned slot;
    uint16_t node, next; /* where it was sent; where a redirection sends it */
    bool asking;         /* ... behind ASKING */
    size_t round;        /* in which round of the call it was answered */

    const struct link_process
        *by; /* the process that answered; valid within `answered` */
};

/* Sends the requests of a round to each node in the order of `asks`. Errors: as above. Requests that were
 * answered before an error stay answered (`done`). */
bg_err cluster_call(struct cluster *cluster, struct cluster_ask *asks, size_t n,
                    bg_errinfo *info);

struct cluster_view {
    size_t nodes;   /* that have slots */
    size_t reached; /* that answered now */
    size_t count;   /* processes that answered, including replicas */
    struct link_process processes[MAP_NODES];
};

/* Queries the process of every node that has slots, and of every replica, once. Also queries the map, if it
 * is older than `age` milliseconds. Errors: BG_ECANCELED, BG_ENOMEM. */
bg_err cluster_survey(struct cluster *cluster, uint32_t age, struct cluster_view *view,
                      bg_errinfo *info);

/* How many nodes have slots. */
size_t cluster_nodes(const struct cluster *cluster);

/* Milliseconds of a clock that only goes forward. */
int64_t cluster_now(void);

/* "host:port" of the node that has a slot, as far as is known. */
void cluster_where(const struct cluster *cluster, unsigned slot, char *text,
                   size_t room);

/* Fills in an error, and returns its code. */
bg_err cluster_fail(bg_errinfo *info, bg_err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
