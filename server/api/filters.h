/*
 * api/filters.h - internal to the files that handle filters over HTTP.
 */
#ifndef SERVER_API_FILTERS_H
#define SERVER_API_FILTERS_H

#include "api/web.h"
#include "observe/observer.h"

/* Returns the number of keys that a filter is sized for, or 0 if the filter grows or was created
 * for a size in bytes. */
uint64_t filter_capacity(const struct object *object, const struct figures *figures);

/* Computes the false-positive rate that clients reported with BG.OBSERVE. Returns false if there
 * are no reports. */
bool filter_observed(const struct object *object, const bg_slot_info *stats,
                     bg_estimate *observed);

/* GET and POST /api/v1/filters, PATCH /api/v1/filters/NAME. */
void filters_list(struct web_request *request);
void filters_create(struct web_request *request);
void filters_change(struct web_request *request);

#endif
