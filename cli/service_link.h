/*
 * service_link.h - connects to a running service: the options for passwords and TLS, and single
 * requests.
 *
 * A link is a cluster client (cluster_client.h) that is connected to one server. It retries a
 * request whose answer was lost, for example because the service was restarted, so a request may
 * be executed twice.
 */
#ifndef CLI_SERVICE_LINK_H
#define CLI_SERVICE_LINK_H

#include "cluster_client.h"
#include "option.h"

struct login_options {
    const char *user, *password_file;
    const char *tls_ca, *tls_cert, *tls_key, *tls_name;
    bool tls;
    double connect; /* seconds */
};
extern const struct option_group login_options_group;

/* Copies the options to `how`. The password is in BLOOMGATE_PASSWORD, or in a file. Also sets
 * stop_fd, so that a signal cancels a call. Returns an exit code. */
int login_read(const struct login_options *options, struct cluster_options *how);

/* Converts seconds to milliseconds, and limits the result to about 11 days. */
uint32_t login_milliseconds(double seconds);

struct service_options {
    const char *service; /* HOST:PORT */
    struct login_options login;
    double timeout, patience; /* seconds */
};
extern const struct option_group service_options_group;

/* A connection and the last reply. */
struct service_link {
    struct cluster *cluster;
    struct cluster_options how;
    char *bytes; /* the last reply */
    size_t used, room;
    bool full; /* out of memory while receiving the reply */
};

/* Opens a connection. Fails if the server is not bloomgated. Returns an exit code. */
int service_open(const struct service_options *options, struct service_link *link);
void service_close(struct service_link *link);

/* Replaces the connection with one that signals do not cancel, for cleaning up after a signal. Its
 * requests fail after a few seconds. Returns an exit code. */
int service_reopen(struct service_link *link);

/* Sends a request and waits for its reply. The request must have at least two words, because the
 * cluster client reads a key from argv[1]. The reply is valid until the next call. Reports
 * failures, but not error replies. Returns an exit code. */
int service_request(struct service_link *link, const bg_bytes *argv, size_t argc,
                    bg_bytes *reply);

/* Finds a field "name:value" in the reply to INFO. Returns its value, or "" if it is missing; the
 * value extends to the end of the line. */
bg_bytes service_field(bg_bytes info, const char *name);

/* Reports an error reply. `about` is the filter or server that it concerns. Adds a hint if a
 * permission is missing. Returns an exit code. */
int service_refused(const char *about, bg_bytes text);

#endif
