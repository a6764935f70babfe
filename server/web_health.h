/*
 * web_health.h - how a filter is, in a word, and why: what lists, pages and totals of the API say.
 */
#ifndef SERVER_WEB_HEALTH_H
#define SERVER_WEB_HEALTH_H

#include "json.h"
#include "object.h"
#include "observer.h"

enum health {
    HEALTH_FINE,
    HEALTH_WATCH,  /* have a look */
    HEALTH_ACT,    /* it costs you already */
    HEALTH_UNKNOWN /* not examined yet */
};

const char *health_name(enum health health);

/* By what was found when it was last examined. */
enum health health_of(const struct object *object, const struct figures *figures);

/* The member "health": status and reasons. */
void health_write(struct json *json, const struct object *object,
                  const struct figures *figures);

#endif
