/*
 * web_service.h - between the files that tell of the service over HTTP.
 */
#ifndef SERVER_WEB_SERVICE_H
#define SERVER_WEB_SERVICE_H

#include "web.h"

/* "loading", "ready" or "stopping". */
const char *service_state(const struct server *server);

/* GET /api/v1/plan, tenants, events, history. */
void plan_get(struct web_request *request);
void tenants_get(struct web_request *request);
void events_get(struct web_request *request);
void history_get(struct web_request *request);

#endif
