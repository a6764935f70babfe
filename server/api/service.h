/*
 * api/service.h - internal to the files that describe the service over HTTP.
 */
#ifndef SERVER_API_SERVICE_H
#define SERVER_API_SERVICE_H

#include "api/web.h"

/* Returns "loading", "ready" or "stopping". */
const char *service_state(const struct server *server);

/* The handlers of GET /api/v1/plan, tenants, events and history. */
void plan_get(struct web_request *request);
void tenants_get(struct web_request *request);
void events_get(struct web_request *request);
void history_get(struct web_request *request);

#endif
