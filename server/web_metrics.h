/*
 * web_metrics.h - the metrics of the service as a document.
 */
#ifndef SERVER_WEB_METRICS_H
#define SERVER_WEB_METRICS_H

#include "buffer.h"
#include "session.h"
#include "web.h"

/* The service's own figures, as far as a user may see them; `told` filters have theirs in front. */
void metrics_write_own(struct server *server, const struct user *user, uint64_t told,
                       bool open, struct buffer *out);

/* GET /metrics: for who may run INFO, of the filters that he may read. From a job. */
void metrics_get(struct web_request *request);

#endif
