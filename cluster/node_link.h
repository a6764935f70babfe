/*
 * node_link.h - a connection to one node: requests go out in a pipeline, replies come back in order.
 *
 * Work is done in rounds. In a round, requests are put to any number of links (link_put), all of them
 * are sent and all replies awaited at once (links_exchange), and then the replies of each link are
 * taken in the order of its requests (link_take). A link that breaks in a round, or does not answer
 * in time, or says what is no reply, is closed and has no replies beyond those that came whole: the
 * caller sends what was not answered again, on a new connection. Sockets never block, so a full
 * pipeline to one node holds up nobody. A link that is not open after a while, TLS included
 * (node_tls.h), is given up sooner than one that does not answer.
 *
 * Memory: what is sent in a round, and what comes back, up to LINK_MOST.
 * Threads: links belong to one thread.
 */
#ifndef CLUSTER_NODE_LINK_H
#define CLUSTER_NODE_LINK_H

#include "node_tls.h"
#include "reply_scan.h"

#include <stdatomic.h>

enum {
    LINK_HOST = 256,
    LINK_MOST = 512 << 20,
    LINK_ADDRESSES = 16 /* of one name that are tried */
};

struct link_bytes {
    char *bytes;
    size_t used, room;
};

/* A server process, identified by the first 16 digits of its run_id, which is unique; of its master_replid,
 * the history of its data, which it shares with its primary or its replicas; and of its master_replid2, the
 * history that its own continues. 0: not known. */
struct link_process {
    uint64_t run, history, before;
    bool refused; /* not known: the user lacks rights */
};

/* How links are opened, and how often that failed: of all links that share it. */
struct link_how {
    const struct node_tls *tls; /* NULL: none */
    uint32_t connect; /* milliseconds until a link is open; 0: as long as a round */
    _Atomic uint64_t *unopened,
        *broken; /* links that were not; links that were, until */
};

struct node_link {
    char host[LINK_HOST];
    uint16_t port;
    const struct link_how *how;   /* NULL: as if it were all zero */
    struct node_secrecy *secrecy; /* NULL: no TLS */
    int fd;                       /* -1: closed */
    bool fresh;                   /* opened in this round */
    bool connecting;              /* not known yet whether it can be */
    bool greeting;                /* TLS is not agreed on yet */
    int64_t open_until;           /* when it has to be open, by links_now */
    unsigned attempt; /* which of its addresses is tried; the next after a failure */
    struct link_bytes out, in;
    size_t sent, taken;     /* of these */
    size_t expected, whole; /* replies of this round */
    struct reply_scan scan; /* of the reply that comes next; it begins at `begin` */
    size_t begin, last;     /* `last`: where the last whole reply begins */
    struct link_process process; /* of the server; set by the caller */
    char wrong[200];             /* why it was closed */
};

/* Names a node; the link is closed at first. False: the host's name is too long. */
bool link_name(struct node_link *link, const char *host, size_t n, uint16_t port);

/* Begins a round; opens the link if it is closed (`fresh` says so). False: `wrong` says why. */
bool link_begin(struct node_link *link);

/* A request, as an array of strings. False: no memory. */
bool link_put(struct node_link *link, const bg_bytes *argv, size_t argc);

/* Sends all and waits for all replies: until nothing came for `timeout` milliseconds. `stop_fd`, unless
 * -1, ends it when it becomes readable. False: no memory, or that it did. */
bool links_exchange(struct node_link *const *links, size_t n, int timeout, int stop_fd);

/* The next reply of the round; false: there is none. */
bool link_take(struct node_link *link, bg_bytes *reply);

/* Returns the last reply of the round, regardless of which replies were taken; false if it did not arrive. */
bool link_last(const struct node_link *link, bg_bytes *reply);

/* Closes it and says why. */
void link_break(struct node_link *link, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Closes it and frees what it holds. */
void link_close(struct node_link *link);

#endif
