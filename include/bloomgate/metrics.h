/*
 * metrics.h - metrics for slots, gates and registries, in Prometheus, OpenMetrics or JSON
 * format.
 *
 *     bg_metrics_item items[] = { { "users", slot, gate } };
 *     if (bg_metrics_write(items, 1, BG_METRICS_PROMETHEUS, 0, print, stdout, &why))
 *         return 1;
 *
 * `print` is a callback that you provide. It receives text such as:
 *
 *     # HELP bloomgate_filter_items Estimated number of distinct keys in the filter.
 *     # TYPE bloomgate_filter_items gauge
 *     bloomgate_filter_items{filter="users"} 9987231
 *
 * Names follow the Prometheus conventions: base units, `_total` for counters and `_ratio`
 * for shares between 0 and 1. docs/metrics.md lists all metrics; ops/ contains alerts and
 * a dashboard.
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

/* The format of a metrics document. */
typedef enum bg_metrics_format {
    BG_METRICS_PROMETHEUS = 0,  /* text format 0.0.4 */
    BG_METRICS_OPENMETRICS = 1, /* OpenMetrics 1.0.0, ending with # EOF */
    BG_METRICS_JSON = 2
} bg_metrics_format;

/* Returns the Content-Type of a format. Never returns NULL. Thread safety: MT-Safe. */
BG_API const char *bg_metrics_content_type(bg_metrics_format format);

/*
 * A slot, a gate or both, reported under one name. The name may contain any bytes. They
 * are escaped as the format requires, and bytes that are not valid UTF-8 are written in
 * hex, such as \xff.
 */
typedef struct bg_metrics_item {
    const char *name;    /* value of the label `filter` */
    const bg_slot *slot; /* NULL selects the gate's slot */
    const bg_gate *gate; /* or NULL */
} bg_metrics_item;

/* Flags of bg_metrics_write. */
enum {
    /* Omit metrics that require reading every byte of a filter: items, fill, rates. */
    BG_METRICS_CHEAP = 1u << 0
};

/*
 * A callback that receives part of the document. Return false to cancel (BG_ECANCELED).
 * All values are collected before the first call, and no lock or pin is held during the
 * calls, so the callback may be slow and may use the slots.
 */
typedef bool (*bg_metrics_sink_fn)(void *context, const char *text, size_t len);

/*
 * Writes the metrics of n items as one document.
 * Errors: BG_EINVAL; BG_ECANCELED if the sink returned false; BG_ENOMEM.
 * Thread safety: MT-Safe. Cost: reads every byte of all filters, unless BG_METRICS_CHEAP is
 * set. Memory: about 1 KB per item.
 */
BG_API BG_MUST_CHECK bg_err bg_metrics_write(const bg_metrics_item *items, size_t n,
                                             bg_metrics_format format, uint32_t flags,
                                             bg_metrics_sink_fn sink, void *context,
                                             bg_errinfo *info);

/*
 * Writes the metrics of n items like bg_metrics_write, but uses earlier results of
 * bg_slot_get_health instead of reading the filters. healths[i] belongs to item i; if it
 * is NULL, the metrics that depend on it are omitted.
 * Errors: those of bg_metrics_write. Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_metrics_write_known(const bg_metrics_item *items,
                                                   const bg_slot_health *const *healths,
                                                   size_t n, bg_metrics_format format,
                                                   bg_metrics_sink_fn sink,
                                                   void *context, bg_errinfo *info);

/*
 * Writes the metrics of a registry, and of up to `max_tenants` of its tenants that are in
 * memory (0: none). The label `filter` is the name of the tenant. Reporting a tenant does
 * not count as using it: idle tenants are still evicted, and evicted tenants are not loaded.
 * Errors: those of bg_metrics_write. Thread safety: MT-Safe. Cost: same as bg_metrics_write
 * for these tenants.
 */
BG_API BG_MUST_CHECK bg_err bg_metrics_write_registry(
    bg_registry *registry, size_t max_tenants, bg_metrics_format format, uint32_t flags,
    bg_metrics_sink_fn sink, void *context, bg_errinfo *info);

#ifdef __cplusplus
}
#endif

#endif
