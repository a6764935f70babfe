/*
 * web_metrics.h - the metrics of the service as a document.
 */
#ifndef SERVER_WEB_METRICS_H
#define SERVER_WEB_METRICS_H

#include "buffer.h"
#include "session.h"
#include "web.h"

/* False: it does not fit, or no memory. From a job. */
bool metrics_write(struct server *server, struct session *session,
                   bg_metrics_format format, bool cheap, struct buffer *out);

/* The service's own figures; `told` filters have theirs in front of them. */
void metrics_write_own(struct server *server, uint64_t told, bool open,
                       struct buffer *out);

/* GET /metrics. */
void metrics_get(struct web_request *request);

#endif
