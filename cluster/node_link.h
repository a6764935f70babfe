/*
 * node_link.h - a connection to one node: requests are pipelined, and replies arrive in order.
 *
 * Work is done in rounds. In a round, the caller adds requests to any number of links (link_put),
 * sends all requests and receives all replies together (links_exchange), and then reads the replies
 * of each link in the order of its requests (link_take). A link that breaks or times out during a
 * round, or receives an invalid reply, is closed and keeps only the replies that arrived
 * completely. The caller retries the unanswered requests on a new connection. Sockets never block,
 * so a full pipeline to one node does not delay the other nodes. Opening a link, including TLS
 * (node_tls.h), has its own timeout, which can be shorter than the timeout for a reply.
 *
 * Memory: a link stores the requests and replies of a round, up to a limit. Thread safety: one
 * thread per link.
 */
#ifndef CLUSTER_NODE_LINK_H
#define CLUSTER_NODE_LINK_H

#include "node_tls.h"
#include "reply_scan.h"

#include <stdatomic.h>
#include <string.h>

enum {
    LINK_HOST = 256,
    LINK_MAX = 512 << 20,
    LINK_ADDRESSES = 16 /* maximum number of addresses tried per host name */
};

struct link_bytes {
    char *bytes;
    size_t used, room;
};

/* A server process, identified by the first 16 hexadecimal digits of three IDs in its reply to
 * INFO. `run` (run_id) is unique to the process. `history` (master_replid) identifies the history
 * of its data, which its primary or its replicas share. `before` (master_replid2) identifies the
 * earlier history that the current history continues. 0 means unknown. */
struct link_process {
    uint64_t run, history, before;
    bool refused; /* the IDs are unknown, because the user is not allowed to run INFO */
};

/* Options for opening links, and failure counters. Several links share these values. */
struct link_how {
    const struct node_tls *tls; /* NULL: no TLS */
    uint32_t connect;           /* connect timeout in ms; 0 selects the round timeout */
    size_t most; /* maximum size of a round's replies in bytes; 0 selects LINK_MAX */
    _Atomic uint64_t *unopened; /* counts links that could not be opened */
    _Atomic uint64_t *broken;   /* counts open links that broke */
};

struct node_link {
    char host[LINK_HOST];
    uint16_t port;
    const struct link_how *how;   /* NULL is equivalent to a zeroed struct */
    struct node_secrecy *secrecy; /* NULL: no TLS */
    int fd;                       /* -1 if closed */
    bool fresh;                   /* opened in this round */
    bool connecting;              /* connect is in progress */
    bool greeting;                /* TLS handshake in progress */
    int64_t open_until;           /* deadline for opening (cluster_now) */
    unsigned attempt; /* index of the address to try; incremented if connecting fails */
    struct link_bytes out, in;
    size_t sent, taken;     /* bytes of `out` and `in` */
    size_t expected, whole; /* replies expected and received in this round */
    struct reply_scan scan; /* parser state of the next reply */
    size_t begin, last; /* offsets of the next reply and of the last complete reply */
    struct link_process process; /* the server process; set by the caller */
    bool oversized;              /* closed because the replies exceed how->most */
    char wrong[200];             /* why the link was closed */
};

/* Returns the time of a monotonic clock, in milliseconds. */
int64_t cluster_now(void);

/* Returns a word of a request. */
static inline bg_bytes link_word(const char *word)
{
    return (bg_bytes){ word, strlen(word) };
}

/* Sets the address of a node. The link is initially closed. Returns false if the host name is too
 * long. */
bool link_name(struct node_link *link, const char *host, size_t n, uint16_t port);

/* Starts a round. If the link is closed, opens it and sets `fresh`. Returns false on failure, with
 * the reason in `wrong`. */
bool link_begin(struct node_link *link);

/* Adds a request, encoded as an array of strings. Returns false if out of memory. */
bool link_put(struct node_link *link, const bg_bytes *argv, size_t argc);

/* Sends all requests, and waits until all replies have arrived or nothing has arrived for `timeout`
 * milliseconds. If `stop_fd` is not -1, the wait is canceled when that descriptor becomes readable.
 * Returns false if out of memory, or if the wait was canceled. */
bool links_exchange(struct node_link *const *links, size_t n, int timeout, int stop_fd);

/* Gets the next reply of the round. Returns false if there is none. */
bool link_take(struct node_link *link, bg_bytes *reply);

/* Gets the last reply of the round, regardless of how many replies have been taken. Returns false
 * if that reply did not arrive. */
bool link_last(const struct node_link *link, bg_bytes *reply);

/* Closes a link and stores the reason. */
void link_break(struct node_link *link, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Closes a link and frees its memory. */
void link_close(struct node_link *link);

#endif
