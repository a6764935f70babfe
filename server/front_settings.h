/*
 * front_settings.h - a line of the settings that names a filter in shards over a cluster:
 *
 *     sharded seen nodes=10.0.0.1:6379,10.0.0.2:6379 shards=16 replicas=1
 */
#ifndef SERVER_FRONT_SETTINGS_H
#define SERVER_FRONT_SETTINGS_H

#include "settings.h"

/* Texts point into the line. */
struct front_settings {
    const char *name;
    const char *nodes, *user, *password;
    uint64_t shards, replicas;
    double timeout, patience; /* seconds */
};

/* False: `why` says what is wrong. */
bool front_settings_read(const struct settings_line *line, struct front_settings *front,
                         char why[SETTINGS_WHY]);

#endif
