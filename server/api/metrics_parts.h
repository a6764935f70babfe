/*
 * api/metrics_parts.h - writes metric families. Used by the files that write the service's own
 * metrics (api/metrics_own.c, api/metrics_fronts.c).
 *
 * A family is a name, a type and a help text, followed by its samples. In OpenMetrics, a counter's
 * samples have the suffix _total, but the family's name does not. In the older format, both have
 * the suffix.
 */
#ifndef SERVER_API_METRICS_PARTS_H
#define SERVER_API_METRICS_PARTS_H

#include "core/server.h"
#include "util/buffer.h"

enum own_type { OWN_GAUGE, OWN_COUNTER, OWN_HISTOGRAM };

struct own {
    struct buffer *out;
    bool open; /* OpenMetrics */
    const char *name;
    enum own_type type;
};

void own_family(struct own *own, const char *name, enum own_type type,
                const char *help);

/* Writes a sample. `labels` is "" or contains the labels in braces. For histograms, `labels` starts
 * with _bucket, _sum or _count. */
void own_sample(const struct own *own, const char *labels, double value);

/* Writes the metrics of the cluster filters that a user may read (api/metrics_fronts.c). */
void own_fronts(struct own *own, struct server *server, const struct user *user);

#endif
