/*
 * web_filters.h - between the files that handle filters over HTTP.
 */
#ifndef SERVER_WEB_FILTERS_H
#define SERVER_WEB_FILTERS_H

#include "observer.h"
#include "web.h"

/* Keys that it was made for; 0: it grows, or was made for a size. */
uint64_t filter_capacity(const struct object *object, const struct figures *figures);

/* The rate that callers have told of (BG.OBSERVE); false: nobody has. */
bool filter_observed(const struct object *object, const bg_slot_stats *stats,
                     bg_estimate *observed);

/* GET and POST /api/v1/filters, PATCH /api/v1/filters/NAME. */
void filters_list(struct web_request *request);
void filters_create(struct web_request *request);
void filters_change(struct web_request *request);

#endif
