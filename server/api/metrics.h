/*
 * api/metrics.h - the metrics document of the service.
 */
#ifndef SERVER_API_METRICS_H
#define SERVER_API_METRICS_H

#include "api/web.h"
#include "request/session.h"
#include "util/buffer.h"

/* Writes the service's own metrics that the user may see. `told` is the number of filters whose
 * metrics have already been written. */
void metrics_write_own(struct server *server, const struct user *user, uint64_t told,
                       bool open, struct buffer *out);

/* GET /metrics: requires permission for INFO, and covers the filters that the user may read.
 * Runs in a job. */
void metrics_get(struct web_request *request);

#endif
