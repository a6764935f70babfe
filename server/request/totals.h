/*
 * totals.h - sums of the counters of all workers.
 */
#ifndef SERVER_REQUEST_TOTALS_H
#define SERVER_REQUEST_TOTALS_H

#include "core/server.h"

/* server_count_totals returns the totals since startup; server_sum_totals returns the totals since
 * the last reset (for INFO). Thread-safe. */
void server_count_totals(const struct server *server, struct server_totals *totals);
void server_sum_totals(struct server *server, struct server_totals *totals);
void server_reset_totals(struct server *server);

#endif
