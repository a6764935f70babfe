/*
 * totals.c - sums the counters of all workers. The counters must never decrease, because metrics
 * are derived from them. CONFIG RESETSTAT therefore only saves their current values, and INFO
 * subtracts the saved values.
 */
#include "request/totals.h"
#include "core/server.h"
#include "request/worker.h"

static void totals_add(struct server_totals *totals, const struct worker *worker)
{
#define TOTALS_ADD(name)                                                               \
    totals->name += atomic_load_explicit(&worker->counts.name, memory_order_relaxed);
    SERVER_TOTALS(TOTALS_ADD)
#undef TOTALS_ADD
}

void server_count_totals(const struct server *server, struct server_totals *totals)
{
    *totals = (struct server_totals){ 0 };
    for (size_t i = 0; i < server->workers_count; i++) {
        totals_add(totals, server->workers[i]);
    }
}

void server_sum_totals(struct server *server, struct server_totals *totals)
{
    server_count_totals(server, totals);
    pthread_mutex_lock(&server->reset_lock);
#define TOTALS_SUBTRACT(name) totals->name -= server->reset.name;
    SERVER_TOTALS(TOTALS_SUBTRACT)
#undef TOTALS_SUBTRACT
    pthread_mutex_unlock(&server->reset_lock);
}

void server_reset_totals(struct server *server)
{
    struct server_totals now;
    server_count_totals(server, &now);
    pthread_mutex_lock(&server->reset_lock);
    server->reset = now;
    pthread_mutex_unlock(&server->reset_lock);
}
