/*
 * web_metrics_inside.h - writes metric families. Used by the files that write the service's own
 * metrics (web_metrics_own.c, web_metrics_fronts.c).
 *
 * A family is a name, a type and a help text, followed by its samples. In OpenMetrics, a counter's
 * samples have the suffix _total, but the family's name does not. In the older format, both have
 * the suffix.
 */
#ifndef SERVER_WEB_METRICS_INSIDE_H
#define SERVER_WEB_METRICS_INSIDE_H

#include "buffer.h"
#include "server.h"

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

/* Writes the metrics of the cluster filters that a user may read (web_metrics_fronts.c). */
void own_fronts(struct own *own, struct server *server, const struct user *user);

#endif
