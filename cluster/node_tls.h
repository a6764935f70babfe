/*
 * node_tls.h - TLS connections to the nodes of a cluster: certificates and their verification.
 *
 * Connections use TLS 1.2 or 1.3, and ciphers with forward secrecy. A node's certificate must
 * always be issued by a trusted authority: one in the configured file or, if no file is configured,
 * one that the OS trusts. By default, the certificate must also be valid for the host name or
 * address of the connection. Alternatively, the options can require one name that all nodes share,
 * or allow any name ("*"), which is safe only if the authority issues certificates exclusively to
 * nodes. Nodes that request a client certificate receive the configured certificate.
 *
 * Calls behave like send and recv on non-blocking sockets. Processes must ignore SIGPIPE.
 * Thread safety: any thread may use a context; a connection belongs to one thread.
 */
#ifndef CLUSTER_NODE_TLS_H
#define CLUSTER_NODE_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { NODE_TLS_WHY = 200 };

struct node_tls_options {
    bool on;
    const char *ca;         /* file with CA certificates; NULL selects the OS's CAs */
    const char *cert, *key; /* files with the client certificate and its key, or NULL */
    const char *name; /* required in certificates; NULL: the host's, "*": any name */
};

struct node_tls;     /* a context */
struct node_secrecy; /* a connection */

/* Reads the files. On failure, returns NULL and reports the invalid file in `why`. */
struct node_tls *node_tls_create(const struct node_tls_options *options,
                                 char why[NODE_TLS_WHY]);
void node_tls_free(struct node_tls *tls); /* accepts NULL */

/* Creates a connection to a host over a socket that is connected or is still connecting. Returns
 * NULL if out of memory. */
struct node_secrecy *node_tls_connect(const struct node_tls *tls, const char *host,
                                      int fd);
void node_tls_close(struct node_secrecy *s); /* keeps the socket open; accepts NULL */

/* Continues the handshake. Returns 1 when the handshake is complete and the node is verified.
 * Otherwise returns -1 and sets errno. After EPROTO, node_tls_wrong returns the reason. */
int node_tls_greet(struct node_secrecy *s);

/* These functions behave like send and recv, and report errors as node_tls_greet does.
 * node_tls_receive returns 0 if the connection is closed. */
ssize_t node_tls_send(struct node_secrecy *s, const void *bytes, size_t n);
ssize_t node_tls_receive(struct node_secrecy *s, void *bytes, size_t n);

/* Returns the events to poll for after EAGAIN. `sends` means that there is data to send. TLS may
 * have to read in order to write, and vice versa. */
short node_tls_waits(const struct node_secrecy *s, bool sends);
const char *node_tls_wrong(const struct node_secrecy *s);

#endif
