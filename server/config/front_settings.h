/*
 * front_settings.h - parses a configuration line that defines a filter sharded across a cluster:
 *
 *     sharded seen nodes=10.0.0.1:6379,10.0.0.2:6379 shards=16 replicas=1
 */
#ifndef SERVER_CONFIG_FRONT_SETTINGS_H
#define SERVER_CONFIG_FRONT_SETTINGS_H

#include "cluster_client.h"
#include "config/settings.h"

/* The strings point into the parsed line, or are copies (front_settings_copy). */
struct front_settings {
    const char *name;
    const char *nodes, *user, *password, *password_file;
    const char *tls_ca, *tls_cert, *tls_key, *tls_name;
    uint64_t shards, replicas;
    /* In seconds. If `connect` is 0, `timeout` also limits connecting. */
    double connect, timeout, patience;
    bool tls;
    bool closed; /* unanswered lookups fail with an error instead of "maybe" */
};

/* Parses a line. On failure, returns false and stores the reasons in `why`. */
bool front_settings_read(const struct settings_line *line, struct front_settings *front,
                         char why[SETTINGS_WHY]);

/* Returns the options for a client of the cluster. Its strings belong to `front`. */
struct cluster_options front_settings_options(const struct front_settings *front);

/* Copies settings, including their strings. Returns false if out of memory. The caller must free
 * `to` in either case. */
bool front_settings_copy(const struct front_settings *from, struct front_settings *to);
void front_settings_free(struct front_settings *copy);

#endif
