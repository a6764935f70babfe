/*
 * observer.h - a thread that looks at the filters, so that those who ask need not.
 *
 * How full a filter is, how many items are in it and what its rate has become takes reading every
 * byte of it. The observer does that for all of them and for those of gates, one after the other,
 * not more often than every OBSERVER_INTERVAL seconds and only for those that changed, and never
 * for more than a tenth of a processor's time; metrics, API and dashboard tell what it found, and
 * when.
 *
 * Every HISTORY_STEP seconds it also notes counters, as rates per second, for the charts: of the
 * service, and of the first OBSERVER_KEPT filters that anybody asked about.
 *
 * Thread safety: MT-Safe.
 */
#ifndef SERVER_OBSERVER_H
#define SERVER_OBSERVER_H

#include "catalog.h"
#include "history.h"

struct server;
struct observer;

enum { OBSERVER_INTERVAL = 15, OBSERVER_KEPT = 64 };

/* X(NAME, name): what is kept of a filter, in this order. */
#define OBSERVER_FILTER(X)                                                             \
    X(QUERIES, queries_per_second)                                                     \
    X(MAYBES, maybes_per_second)                                                       \
    X(ADDS, adds_per_second)                                                           \
    X(REFUSED, refused_per_second)                                                     \
    X(ITEMS, items)                                                                    \
    X(FILL, fill)                                                                      \
    X(PREDICTED, predicted)                                                            \
    X(MEASURED, measured)                                                              \
    X(OBSERVED, observed)                                                              \
    X(OBSERVED_LOW, observed_low)                                                      \
    X(OBSERVED_HIGH, observed_high)                                                    \
    X(AVOIDED, avoided_per_second)                                                     \
    X(WASTED, wasted_per_second)                                                       \
    X(BYTES, bytes)

/* ... and of the service. */
#define OBSERVER_SERVICE(X)                                                            \
    X(QUERIES, queries_per_second)                                                     \
    X(MAYBES, maybes_per_second)                                                       \
    X(ADDS, adds_per_second)                                                           \
    X(REFUSED, refused_per_second)                                                     \
    X(COMMANDS, commands_per_second)                                                   \
    X(CONNECTIONS, connections)                                                        \
    X(FILTER_BYTES, filter_bytes)                                                      \
    X(RSS, rss_bytes)                                                                  \
    X(RECEIVED, received_bytes_per_second)                                             \
    X(SENT, sent_bytes_per_second)

/* The names of both lists; NULL beyond the last. */
const char *observer_filter_metric(size_t i);
const char *observer_service_metric(size_t i);

/* What was found when a filter was last examined. */
struct figures {
    uint64_t examined;     /* milliseconds since 1970; 0: never */
    double seconds;        /* that it took */
    bg_slot_health health; /* its capacity is 0 if the filter grows by itself */
    bool has_base;
    bg_info base; /* of the base alone */
};

struct observer *observer_create(struct server *server); /* NULL: no memory */
bool observer_start(struct observer *observer);
void observer_free(struct observer *observer);

/* The figures of an entry that the caller holds or has found in this batch. */
struct figures observer_figures(struct observer *observer, const struct entry *entry);

/* Examines it now: slow. */
struct figures observer_examine(struct observer *observer, struct entry *entry);

/* The same if it has changed since and is small, so that this takes some milliseconds at most. */
enum { OBSERVER_SMALL = 16 << 20 };
void observer_refresh(struct observer *observer, struct entry *entry);

/* The figures of the filter of a gate. */
struct figures observer_gate_figures(struct observer *observer, const char *gate);

/* How often an entry was asked and added to, per second, in the last step. */
struct observer_rates {
    double queries, adds;
};
struct observer_rates observer_rates(struct observer *observer,
                                     const struct entry *entry);

/* Counters of all filters there have been, as of the last step: they only grow. */
struct observer_totals {
    uint64_t queries, maybes, adds, news, refused;
};
struct observer_totals observer_totals(struct observer *observer);

/* Memory of the process, in bytes. */
uint64_t observer_rss(void);

/*
 * The history of an entry, or of the service if it is NULL: the last `seconds` of the metrics
 * whose numbers are given, n of them, each as `range->points` values behind each other in
 * *values, which the caller frees. False: it was not kept so far, and is from now on, if there is
 * room. *range then is empty, and *values NULL.
 */
bool observer_history(struct observer *observer, const struct entry *entry,
                      uint64_t seconds, const size_t *metrics, size_t n,
                      struct history_range *range, double **values);

#endif
