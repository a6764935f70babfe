/*
 * node_tls.h - TLS to the nodes of a cluster: certificates, and whom they have to be for.
 *
 * TLS 1.2 and 1.3, ciphers with forward secrecy. A node's certificate always has to be of an authority
 * that is trusted: those of a file, or those of the system. It also has to be for the host that was
 * dialled, its name or its address; or for one name that all nodes have; or for anybody ("*"), where
 * only nodes have certificates of that authority. Nodes that ask for one get a certificate from here.
 *
 * Calls do as send and recv do, on sockets that do not block. Processes must ignore SIGPIPE.
 * Threads: a context may be used by any, a connection belongs to one.
 */
#ifndef CLUSTER_NODE_TLS_H
#define CLUSTER_NODE_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { NODE_TLS_WHY = 200 };

struct node_tls_options {
    bool on;
    const char *ca;         /* a file of certificates; NULL: the system's */
    const char *cert, *key; /* of this client, files as well; NULL: none */
    const char *name; /* in all nodes' certificates; NULL: each one's host; "*": any */
};

struct node_tls;     /* a context */
struct node_secrecy; /* a connection */

/* Reads the files. NULL: `why` names the one that is wrong. */
struct node_tls *node_tls_create(const struct node_tls_options *options,
                                 char why[NODE_TLS_WHY]);
void node_tls_free(struct node_tls *tls); /* NULL is allowed */

/* A connection to a host over a socket that is connected, or will be; NULL: no memory. */
struct node_secrecy *node_tls_connect(const struct node_tls *tls, const char *host,
                                      int fd);
void node_tls_close(struct node_secrecy *s); /* not the socket; NULL is allowed */

/* 1: the other side is known, and secrets are agreed; -1: errno, with EPROTO node_tls_wrong says why. */
int node_tls_greet(struct node_secrecy *s);

/* As send and recv, with errors as above; 0 from the latter: closed. */
ssize_t node_tls_send(struct node_secrecy *s, const void *bytes, size_t n);
ssize_t node_tls_receive(struct node_secrecy *s, void *bytes, size_t n);

/* What to poll for, after EAGAIN and while there is something to send or not: TLS may have to read in
 * order to write, and the other way round. */
short node_tls_waits(const struct node_secrecy *s, bool sends);
const char *node_tls_wrong(const struct node_secrecy *s);

#endif
