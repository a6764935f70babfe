/*
 * metrics.h - what slots, gates and registries know of themselves, as text for others.
 *
 *     bg_metrics_item items[] = { { "users", slot, gate } };
 *     bg_metrics_write(items, 1, BG_METRICS_PROMETHEUS, 0, print, stdout, NULL);
 *
 *     # HELP bloomgate_filter_items Estimated number of different keys in the filter.
 *     # TYPE bloomgate_filter_items gauge
 *     bloomgate_filter_items{filter="users"} 9987231
 *
 * Names follow the rules of Prometheus: base units, `_total` for counters, `_ratio` for
 * shares of one. docs/metrics.md lists all of them; ops/ has alerts and a dashboard.
 */
#ifndef BLOOMGATE_METRICS_H
#define BLOOMGATE_METRICS_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/gate.h"
#include "bloomgate/registry.h"
#include "bloomgate/slot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bg_metrics_format {
    BG_METRICS_PROMETHEUS = 0,  /* text format 0.0.4 */
    BG_METRICS_OPENMETRICS = 1, /* OpenMetrics 1.0.0, with # EOF */
    BG_METRICS_JSON = 2
} bg_metrics_format;

/* The Content-Type of a format. Never NULL. */
BG_API const char *bg_metrics_content_type(bg_metrics_format format);

/* One thing to report. The name becomes the label `filter`; any bytes, escaped. */
typedef struct bg_metrics_item {
    const char *name;
    const bg_slot *slot; /* or NULL: that of the gate */
    const bg_gate *gate; /* or NULL */
} bg_metrics_item;

enum {
    /* Leave out what takes reading every byte of a filter: items, fill, rates. */
    BG_METRICS_CHEAP = 1u << 0
};

/* Takes a piece of text; false: stop. */
typedef bool (*bg_metrics_sink_fn)(void *context, const char *text, size_t len);

/*
 * Writes the metrics of n items, in one document.
 * Errors: BG_EINVAL; BG_ECANCELED when the sink said stop; BG_ENOMEM.
 * Thread safety: MT-Safe. Cost: reads every byte of all filters, unless BG_METRICS_CHEAP.
 */
BG_API BG_MUST_CHECK bg_err bg_metrics_write(const bg_metrics_item *items, size_t n,
                                             bg_metrics_format format, uint32_t flags,
                                             bg_metrics_sink_fn sink, void *context,
                                             bg_errinfo *info);

/*
 * The same with figures that bg_slot_get_health found a while ago, so that no filter is read again:
 * healths[i] is that of item i, or NULL: then they are left out.
 */
BG_API BG_MUST_CHECK bg_err bg_metrics_write_known(const bg_metrics_item *items,
                                                   const bg_slot_health *const *healths,
                                                   size_t n, bg_metrics_format format,
                                                   bg_metrics_sink_fn sink,
                                                   void *context, bg_errinfo *info);

/* The same for a registry: its own figures, and those of its tenants in memory, at most
 * `most` of them (0: none), with the label `filter` being their name. */
BG_API BG_MUST_CHECK bg_err bg_metrics_write_registry(
    bg_registry *registry, size_t most, bg_metrics_format format, uint32_t flags,
    bg_metrics_sink_fn sink, void *context, bg_errinfo *info);

#ifdef __cplusplus
}
#endif

#endif
