/*
 * api/past.c - GET /api/v1/events (log.h) and /api/v1/history (history.h).
 */
#include "api/handlers.h"
#include "args.h"
#include "core/server.h"
#include "gates/gates.h"
#include "util/log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Events ------------------------------------------------------------------------------------ */

/* Parameters of a request for events. */
struct events_wanted {
    uint64_t since, count;
    enum log_level least;
    bool has_filter;
    bg_bytes filter;
    char room[HTTP_LINE_BYTES], text[HTTP_LINE_BYTES];
};

/* Returns whether the user may see an event. Events without a filter concern clients, settings and
 * files, so only administrators may see them. Events whose filter name may have been truncated are
 * also restricted to administrators, because permissions cannot be checked for truncated names. */
static bool events_may_see(const struct web_request *request,
                           const struct log_event *event)
{
    if (event->filter_len == 0 || event->filter_len >= LOG_EVENT_NAME) {
        return web_is_admin(request);
    }
    return user_may_touch(request->client->user,
                          (bg_bytes){ event->filter, event->filter_len }, USER_READ);
}

static bool events_wants(const struct web_request *request,
                         const struct events_wanted *wanted,
                         const struct log_event *event)
{
    const size_t len =
        wanted->filter.len < LOG_EVENT_NAME ? wanted->filter.len : LOG_EVENT_NAME;
    return event->number > wanted->since && event->level >= wanted->least
           && (!wanted->has_filter
               || (event->filter_len == len && len > 0
                   && memcmp(event->filter, wanted->filter.data, len) == 0))
           && events_may_see(request, event);
}

/* Returns whether an event belongs to a gate. Gates have their own namespace. */
static bool events_is_gate(const struct server *server, const struct log_event *event)
{
    return event->kind == LOG_EVENT_SOURCE
           || ((event->kind == LOG_EVENT_REBUILD || event->kind == LOG_EVENT_ALARM)
               && server->gates
               && gates_has(server->gates,
                            (bg_bytes){ event->filter, event->filter_len }));
}

static void events_write(struct json *json, const struct server *server,
                         const struct log_event *event)
{
    static const char *const levels[] = { "debug", "info", "warning", "error" };
    json_object(json, NULL);
    json_count(json, "id", event->number);
    json_exact(json, "time", (double)event->time / 1000);
    json_text(json, "level", levels[event->level]);
    json_text(json, "type", log_event_name(event->kind));
    if (event->filter_len) {
        web_json_name(json, events_is_gate(server, event) ? "gate" : "filter",
                      (bg_bytes){ event->filter, event->filter_len });
    }
    json_text(json, "message", event->text);
    json_close(json, '}');
}

static bool events_read(struct web_request *request, struct events_wanted *wanted)
{
    static const char *const levels[] = { "info", "warning", "error" };
    int level = 0;
    if (!web_count(request, "since", 0, UINT64_MAX, 0, &wanted->since)
        || !web_count(request, "count", 1, 1000, 200, &wanted->count)
        || !web_choice(request, "level", levels, 3, &level)
        || !web_parameter_name(request, "filter", wanted->text, wanted->room,
                               &wanted->filter, &wanted->has_filter)) {
        return false;
    }
    wanted->least = LOG_LEVEL_INFO + (enum log_level)level;
    return true;
}

void events_get(struct web_request *request)
{
    struct events_wanted wanted;
    struct json json;
    if (!events_read(request, &wanted)) {
        return;
    }
    struct log_event *events = calloc(LOG_EVENTS, sizeof *events);
    if (!events || !web_json_begin(request, &json)) {
        web_error(request, 507, "out_of_memory", "out of memory");
        free(events);
        return;
    }
    const size_t n = log_events(0, events, LOG_EVENTS);
    const uint64_t last = n ? events[n - 1].number : 0;
    /* Event numbers start from the beginning when the service restarts. */
    const bool other_run = wanted.since > last;
    wanted.since = other_run ? 0 : wanted.since;
    size_t first = n;
    for (uint64_t found = 0; first > 0 && found < wanted.count; first--) {
        found += events_wants(request, &wanted, &events[first - 1]);
    }
    json_list(&json, "events");
    for (size_t i = first; i < n; i++) {
        if (events_wants(request, &wanted, &events[i])) {
            events_write(&json, request->session->server, &events[i]);
        }
    }
    json_close(&json, ']');
    json_count(&json, "last", last);
    json_bool(&json, "missed",
              other_run || (n > 0 && events[0].number > wanted.since + 1));
    web_json_end(request, &json);
    free(events);
}

/* ---- History ----------------------------------------------------------------------------------- */

enum { HISTORY_METRICS = 32 };

/* Reads a comma-separated list of metrics, or selects all metrics if there is no list. Returns
 * false after sending a 400 response. */
static bool history_metrics(struct web_request *request,
                            const char *(*name_of)(size_t i), char *list, bool there,
                            size_t metrics[HISTORY_METRICS], size_t *n)
{
    char *rest = NULL;
    *n = 0;
    for (size_t i = 0; !there && name_of(i) && i < HISTORY_METRICS; i++) {
        metrics[(*n)++] = i;
    }
    for (char *name = there ? strtok_r(list, ",", &rest) : NULL; name;
         name = strtok_r(NULL, ",", &rest)) {
        size_t i = 0;
        while (name_of(i) && strcmp(name_of(i), name) != 0) {
            i++;
        }
        if (!name_of(i)) {
            return web_error(
                request, 400, "bad_request",
                "metric: unknown name \"%.64s\"; omit metric to get all metrics", name);
        }
        if (*n == HISTORY_METRICS) {
            return web_error(request, 400, "bad_request",
                             "metric: too many metrics (maximum: %d)", HISTORY_METRICS);
        }
        metrics[(*n)++] = i;
    }
    return true;
}

static void history_write(struct json *json, const char *(*name_of)(size_t i),
                          const size_t *metrics, size_t n,
                          const struct history_range *range, const double *values)
{
    json_exact(json, "from", (double)range->from);
    json_count(json, "step", range->step);
    json_count(json, "points", range->points);
    json_object(json, "series");
    for (size_t m = 0; m < n; m++) {
        json_list(json, name_of(metrics[m]));
        for (size_t i = 0; i < range->points; i++) {
            json_exact(json, NULL, values[m * range->points + i]);
        }
        json_close(json, ']');
    }
    json_close(json, '}');
}

/* The subject of a request for the history: the service, a filter or a gate. */
struct history_wanted {
    bool has_filter, has_gate;
    bg_bytes filter;
    char gate[64]; /* longer than the name of any gate */
    const char *(*name_of)(size_t i);
    struct entry *entry;
};

static bool history_subject(struct web_request *request, struct history_wanted *wanted)
{
    if (wanted->has_filter && wanted->has_gate) {
        return web_error(request, 400, "bad_request", "filter and gate: set only one");
    }
    wanted->name_of = wanted->has_filter ? observer_filter_metric
                      : wanted->has_gate ? observer_gate_metric
                                         : observer_service_metric;
    if (wanted->has_gate) {
        return gates_find(request, (bg_bytes){ wanted->gate, strlen(wanted->gate) },
                          "BG.LOOKUP");
    }
    if (wanted->has_filter) {
        wanted->entry = web_find(request, wanted->filter, USER_READ);
        return wanted->entry != NULL;
    }
    return true;
}

/* Rounds the period up to whole seconds. */
static bool history_seconds(struct web_request *request, double period,
                            uint64_t *seconds)
{
    if (!(period >= 1 && period <= 86400)) {
        return web_error(request, 400, "bad_request",
                         "seconds: found %g, expected a period from 1s to 24h", period);
    }
    *seconds = (uint64_t)ceil(period);
    return true;
}

void history_get(struct web_request *request)
{
    char text[HTTP_LINE_BYTES], room[HTTP_LINE_BYTES], list[1025];
    struct history_wanted wanted = { .entry = NULL };
    struct history_range range;
    struct json json;
    double *values = NULL;
    double period = 0;
    uint64_t seconds = 0;
    bool has_list = false;
    size_t metrics[HISTORY_METRICS], n = 0;
    if (!web_parameter_name(request, "filter", text, room, &wanted.filter,
                            &wanted.has_filter)
        || !web_text(request, "gate", wanted.gate, sizeof wanted.gate, &wanted.has_gate)
        || !web_text(request, "metric", list, sizeof list, &has_list)
        || !web_real(request, "seconds", args_seconds, 600, &period)
        || !history_seconds(request, period, &seconds)
        || !history_subject(request, &wanted)
        || !history_metrics(request, wanted.name_of, list, has_list, metrics, &n)) {
        return;
    }
    struct observer *observer = request->session->server->observer;
    const bool kept = wanted.has_gate
                          ? observer_gate_history(observer, wanted.gate, seconds,
                                                  metrics, n, &range, &values)
                          : observer_history(observer, wanted.entry, seconds, metrics,
                                             n, &range, &values);
    if (web_json_begin(request, &json)) {
        if (wanted.has_filter) {
            web_json_name(&json, "filter", wanted.filter);
        }
        if (wanted.has_gate) {
            json_text(&json, "gate", wanted.gate);
        }
        json_bool(&json, "kept", kept);
        range.points = values ? range.points : 0;
        history_write(&json, wanted.name_of, metrics, n, &range, values);
        web_json_end(request, &json);
    }
    free(values);
}
