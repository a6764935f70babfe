/*
 * api/health.h - the health of a filter: a status and its reasons, used in the API's lists, pages
 * and totals.
 */
#ifndef SERVER_API_HEALTH_H
#define SERVER_API_HEALTH_H

#include "json.h"
#include "object.h"
#include "observe/observer.h"

enum health {
    HEALTH_FINE,
    HEALTH_WATCH,  /* needs attention soon */
    HEALTH_ACT,    /* needs action now */
    HEALTH_UNKNOWN /* not examined yet */
};

const char *health_name(enum health health);

/* Returns a filter's health as of its last examination. */
enum health health_of(const struct object *object, const struct figures *figures);

/* Writes the member "health", which contains the status and its reasons. */
void health_write(struct json *json, const struct object *object,
                  const struct figures *figures);

#endif
