/*
 * api/handlers.h - declarations shared by the files that implement handlers.
 */
#ifndef SERVER_API_HANDLERS_H
#define SERVER_API_HANDLERS_H

#include "api/web.h"
#include "fronts/fronts.h"
#include "observe/observer.h"

enum { KEYS_MOST = 1 << 20 }; /* maximum number of keys per request */

/* Returns "loading", "ready", "displaced" or "stopping". */
const char *service_state(const struct server *server);

/* Handlers in files without their own table of routes. */
void filters_list(struct web_request *request);
void filters_create(struct web_request *request);
void filters_change(struct web_request *request);
void metrics_get(struct web_request *request);
void plan_get(struct web_request *request);
void tenants_get(struct web_request *request);
void events_get(struct web_request *request);
void history_get(struct web_request *request);

/* ---- Filters --------------------------------------------------------------------------------- */

/* Returns the number of keys that a filter is sized for, or 0 if the filter grows or was created
 * for a size in bytes. */
uint64_t filter_capacity(const struct object *object, const struct figures *figures);

/* Computes the false-positive rate that clients reported with BG.OBSERVE. Returns false if there
 * are no reports. */
bool filter_observed(const struct object *object, const bg_slot_info *stats,
                     bg_estimate *observed);

/* Sums over several filters. Must be zero-initialized. */
struct filter_sums {
    uint64_t count, bytes;
    double items;
    bool has_items;
    bg_slot_info stats;
};
void filter_sum(struct filter_sums *sums, const struct object *object,
                const struct figures *figures, const bg_slot_info *stats);

/* Writes the member "items", which is unknown if no filter has been examined. */
void filter_sum_items(struct json *json, const struct filter_sums *sums);

/* ---- Health (api/health.c) ------------------------------------------------------------------- */

enum health {
    HEALTH_FINE,
    HEALTH_WATCH,  /* needs attention soon */
    HEALTH_ACT,    /* needs action now */
    HEALTH_UNKNOWN /* not examined yet */
};
extern const char *const health_names[HEALTH_UNKNOWN + 1];

/* The status of a filter or a gate is the status of its worst reason. Must be zero-initialized. */
struct health_report {
    enum health status;
    size_t n;
    struct {
        const char *code;
        char text[200];
    } reasons[8];
};
void health_reason(struct health_report *report, enum health status, const char *code,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Reports a filter's health as of its last examination. */
struct health_report health_of(const struct object *object,
                               const struct figures *figures);

/* Writes the member "health", which contains the status and its reasons. */
void health_write(struct json *json, const struct health_report *report);

/* ---- Metrics --------------------------------------------------------------------------------- */

/* Writes the service's own metrics that the user may see (api/metrics_own.c). `told` is the number
 * of filters whose metrics have already been written. */
void metrics_write_own(struct server *server, const struct user *user, uint64_t told,
                       bool open, struct buffer *out);

/* Counters of a cluster filter that belong together: a JSON object, and a metric with a label. The
 * first FRONT_KEY_GROUPS groups count keys. */
enum { FRONT_KEY_GROUPS = 2, FRONT_GROUPS = 4 };
extern const struct front_group {
    const char *member, *metric, *help, *label;
    struct {
        const char *name; /* NULL after the last counter */
        size_t at;        /* offset of a uint64_t in struct front_facts */
    } counts[6];
} front_groups[FRONT_GROUPS];

static inline uint64_t front_group_count(const struct front_group *group, size_t i,
                                         const struct front_facts *facts)
{
    return *(const uint64_t *)(const void *)((const char *)facts + group->counts[i].at);
}

/* Returns whether the gate exists and the user may see it and run the command. Otherwise, sends a response and returns
 * false. */
bool gates_find(struct web_request *request, bg_bytes name, const char *command);

#endif
