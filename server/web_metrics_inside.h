/*
 * web_metrics_inside.h - how the service's own figures are written: families of samples, for the files
 * that have some (web_metrics_own.c, web_metrics_fronts.c).
 *
 * A family is a name, a type and a help text, and then its samples. In OpenMetrics the name of a
 * counter is without _total, and its sample with it; in the older format both are with it.
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

/* `labels`: in braces, or "". Of histograms with _bucket, _sum or _count in front of them. */
void own_sample(const struct own *own, const char *labels, double value);

/* Those of filters over clusters that a user may read (web_metrics_fronts.c). */
void own_fronts(struct own *own, struct server *server, const struct user *user);

#endif
