/*
 * observer.h - a thread that examines the filters so that requests do not have to.
 *
 * Determining a filter's fill, its number of items and its actual false-positive rate requires
 * reading every byte of the filter. The observer reads the filters, including those of gates, one
 * at a time. It reads a filter at most every OBSERVER_INTERVAL seconds and only if the filter has
 * changed, and uses at most a tenth of one core. The metrics, the API and the dashboard show the
 * results together with the time of the examination.
 *
 * Every HISTORY_STEP seconds the observer also records metrics for the charts, with counters
 * converted to rates per second. It records metrics for the service, for gates, and for the first
 * OBSERVER_KEPT filters whose history was requested.
 *
 * Thread safety: MT-Safe.
 */
#ifndef SERVER_OBSERVE_OBSERVER_H
#define SERVER_OBSERVE_OBSERVER_H

#include "catalog/catalog.h"
#include "observe/history.h"

struct server;
struct observer;

enum { OBSERVER_INTERVAL = 15, OBSERVER_KEPT = 64 };

/* X(NAME, name): the metrics recorded for a filter, in this order. */
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

/* The metrics recorded for the service. */
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

/* The metrics recorded for a gate. Calls are queries to the source. */
#define OBSERVER_GATE(X)                                                               \
    X(LOOKUPS, lookups_per_second)                                                     \
    X(AVOIDED, avoided_per_second)                                                     \
    X(WASTED, wasted_per_second)                                                       \
    X(CALLS, calls_per_second)                                                         \
    X(ERRORS, errors_per_second)                                                       \
    X(CALL_SECONDS, call_seconds)                                                      \
    X(ITEMS, items)                                                                    \
    X(PREDICTED, predicted)                                                            \
    X(OBSERVED, observed)                                                              \
    X(OBSERVED_LOW, observed_low)                                                      \
    X(OBSERVED_HIGH, observed_high)                                                    \
    X(LAG, lag_seconds)

/* Return the i-th name in the corresponding list above, or NULL if i is past the end. */
const char *observer_filter_metric(size_t i);
const char *observer_gate_metric(size_t i);
const char *observer_service_metric(size_t i);

/* The results of the last examination of a filter. */
struct figures {
    uint64_t examined;     /* milliseconds since 1970, or 0 for never */
    double seconds;        /* duration of the examination */
    bg_slot_health health; /* the capacity is 0 if the filter grows automatically */
    bool has_base;
    bg_filter_info base; /* information about the base only */
};

struct observer *observer_create(struct server *server); /* NULL: out of memory */
bool observer_start(struct observer *observer);
void observer_free(struct observer *observer);

/* Returns an entry's statistics. The caller must hold the entry or have found it in the current
 * batch. */
struct figures observer_figures(struct observer *observer, const struct entry *entry);

/* Examines the filter now. Slow. */
struct figures observer_examine(struct observer *observer, struct entry *entry);

/* Examines the filter if it has changed and is small enough to be examined within a few
 * milliseconds. */
enum { OBSERVER_SMALL = 16 << 20 };
void observer_refresh(struct observer *observer, struct entry *entry);

/* Returns the statistics of a gate's filter. */
struct figures observer_gate_figures(struct observer *observer, const char *gate);

/* Total counts for all filters that have ever existed, as of the last step. They never decrease. */
struct observer_totals {
    uint64_t queries, maybes, adds, news, refused;
};
struct observer_totals observer_totals(struct observer *observer);

/* Returns the resident memory of the process, in bytes. */
uint64_t observer_rss(void);

/*
 * Returns the last `seconds` seconds of the history of n metrics, which are specified by index. If
 * `entry` is NULL, returns the service's history. *values contains `range->points` consecutive
 * values for each metric; the caller frees *values. If this is the first request for the filter,
 * recording starts now, *range is empty, and *values is NULL. Returns false if the history is not
 * recorded, because OBSERVER_KEPT other filters have one.
 */
bool observer_history(struct observer *observer, const struct entry *entry,
                      uint64_t seconds, const size_t *metrics, size_t n,
                      struct history_range *range, double **values);

/* Returns the history of a gate in the same way. Recording starts with the service. Returns false
 * if the gate has no history. */
bool observer_gate_history(struct observer *observer, const char *gate,
                           uint64_t seconds, const size_t *metrics, size_t n,
                           struct history_range *range, double **values);

#endif
