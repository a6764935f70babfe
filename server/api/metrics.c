/*
 * api/metrics.c - /metrics: the library's metrics for all filters and gates (metrics.h), followed
 * by the service's own metrics (api/metrics_own.c).
 *
 * Metrics that require reading a filter come from the observer's latest examination. Labels are
 * filter names, or "gate:NAME" for a gate's filter. A filter is omitted if its name is longer than
 * 200 bytes, contains a NUL or equals the label of a gate. At most metrics-max-filters filters are
 * reported. A client that chooses names can therefore neither inflate the document nor create two
 * lines with the same label.
 */
#include "api/handlers.h"
#include "core/server.h"
#include "gates/gates.h"

#include <stdlib.h>
#include <string.h>

enum { METRICS_NAME = 200 };

/* ---- Filters ----------------------------------------------------------------------------------- */

struct gathered {
    bg_metrics_item *items;
    const bg_slot_health **healths;
    struct figures *figures;
    struct entry **entries;
    char (*names)[METRICS_NAME + 1];
    size_t n, room;
};

static bool gathered_init(struct gathered *g, size_t room)
{
    g->room = room;
    g->items = calloc(room + 1, sizeof *g->items);
    g->healths = calloc(room + 1, sizeof(const bg_slot_health *));
    g->figures = calloc(room + 1, sizeof *g->figures);
    g->entries = calloc(room + 1, sizeof(struct entry *));
    g->names = calloc(room + 1, sizeof *g->names);
    return g->items && g->healths && g->figures && g->entries && g->names;
}

static void gathered_free(struct gathered *g)
{
    for (size_t i = 0; g->entries && i < g->n; i++) {
        if (g->entries[i]) {
            catalog_release(g->entries[i]);
        }
    }
    free(g->items);
    free(g->healths);
    free(g->figures);
    free(g->entries);
    free(g->names);
}

/* Returns whether a filter's name could be the label of a gate's filter. */
static bool gathered_is_gate(const struct server *server, bg_bytes name)
{
    static const char prefix[] = "gate:";
    return server->gates && name.len >= sizeof prefix - 1
           && memcmp(name.data, prefix, sizeof prefix - 1) == 0;
}

struct gathering {
    struct gathered *to;
    struct server *server;
    const struct user *user;
    bool cheap;
};

static void gathered_add(struct gathered *g, const struct gathering *gathering,
                         struct figures figures, bg_metrics_item item)
{
    item.name = g->names[g->n];
    g->items[g->n] = item;
    g->figures[g->n] = figures;
    g->healths[g->n] =
        !gathering->cheap && figures.examined ? &g->figures[g->n].health : NULL;
    g->n++;
}

/* Adds and holds an entry if it can be reported. */
static void gathered_take(void *context, struct entry *entry)
{
    const struct gathering *gathering = context;
    struct gathered *g = gathering->to;
    const bg_bytes name = catalog_name(entry);
    if (!entry->object->slot || !user_may_touch(gathering->user, name, USER_READ)
        || name.len > METRICS_NAME || memchr(name.data, 0, name.len) || g->n >= g->room
        || gathered_is_gate(gathering->server, name)) {
        return;
    }
    memcpy(g->names[g->n], name.data, name.len);
    catalog_hold(entry);
    g->entries[g->n] = entry;
    gathered_add(g, gathering, observer_figures(gathering->server->observer, entry),
                 (bg_metrics_item){ .slot = entry->object->slot });
}

/* Adds a gate. Gates exist until the service exits, so pointers to them stay valid. */
static void gathered_gate(void *context, const struct gate_about *about)
{
    const struct gathering *gathering = context;
    struct gathered *g = gathering->to;
    const bg_bytes gate = { about->name, strlen(about->name) };
    if (g->n < g->room && user_may_touch(gathering->user, gate, USER_READ)) {
        (void)snprintf(g->names[g->n], METRICS_NAME + 1, "gate:%s", about->name);
        gathered_add(g, gathering,
                     observer_gate_figures(gathering->server->observer, about->name),
                     (bg_metrics_item){ .slot = about->slot, .gate = about->gate });
    }
}

static bool metrics_sink(void *context, const char *text, size_t len)
{
    struct buffer *out = context;
    buffer_put(out, text, len);
    return !out->overflow;
}

static bool metrics_write(struct session *session, const struct user *user,
                          bg_metrics_format format, bool cheap, struct buffer *out)
{
    static const char eof[] = "# EOF\n";
    struct server *server = session->server;
    struct gathered g = { .n = 0 };
    struct gathering gathering = { &g, server, user, cheap };
    if (!gathered_init(&g, settings_now(server->store)->metrics_max_filters
                               + (server->gates ? gates_count(server->gates) : 0))) {
        gathered_free(&g);
        return false;
    }
    /* Gates come first, because there are few of them and the operator defines them. */
    if (server->gates) {
        gates_each(server->gates, gathered_gate, &gathering);
    }
    session_each(session, gathered_take, &gathering);
    /* The response does not wait for the observer, so filters that have not been examined yet have
     * fewer metrics. */
    bg_err err = bg_metrics_write_known(g.items, g.healths, g.n, format, metrics_sink,
                                        out, NULL);
    const size_t told = g.n;
    gathered_free(&g);
    const bool open = format == BG_METRICS_OPENMETRICS;
    if (!err && open && buffer_waiting(out) >= sizeof eof - 1) {
        out->used -= sizeof eof - 1;
    }
    if (!err && format != BG_METRICS_JSON) {
        metrics_write_own(server, user, told, open, out);
        buffer_text(out, open ? eof : "");
    }
    return !err && !out->overflow;
}

void metrics_get(struct web_request *request)
{
    static const char *const types[] = { "text/plain", "application/openmetrics-text" };
    bool cheap = false;
    if (!web_flag(request, "cheap", &cheap) || !web_may(request, "INFO")) {
        return;
    }
    const int choice = http_choose(request->head, types, 2);
    const bg_metrics_format format =
        choice == 1 ? BG_METRICS_OPENMETRICS : BG_METRICS_PROMETHEUS;
    request->answer.type = bg_metrics_content_type(format);
    if (!metrics_write(request->session, request->client->user, format, cheap,
                       &request->answer.body)) {
        web_error(request, 507, "out_of_memory",
                  "out of memory: cannot generate the metrics");
    }
}
