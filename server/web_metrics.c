/*
 * web_metrics.c - /metrics: the library's document of all filters and gates (metrics.h), and the
 * service's own figures behind it.
 *
 * Figures that take reading a filter are the observer's last ones. Labels are names of filters;
 * those that are longer than 200 bytes or have NULs are left out, and at most
 * metrics-max-filters are told, so that a stranger who makes names cannot make the document grow.
 */
#include "web_metrics.h"
#include "gates.h"
#include "observer.h"
#include "persist.h"
#include "server.h"
#include "web.h"
#include "worker.h"

#include <stdlib.h>
#include <string.h>

enum { METRICS_NAME = 200 };

/* ---- The service's own ----------------------------------------------------------------------- */

enum own_type { OWN_GAUGE, OWN_COUNTER };

struct own {
    const char *name; /* without "_total" */
    enum own_type type;
    const char *help;
    double value;
};

static void own_write(struct buffer *out, const struct own *own, bool open)
{
    char line[512];
    const bool counter = own->type == OWN_COUNTER;
    const char *ending = counter ? "_total" : "";
    (void)snprintf(line, sizeof line, "# HELP %s%s %s\n# TYPE %s%s %s\n%s%s %.17g\n",
                   own->name, open ? "" : ending, own->help, own->name,
                   open ? "" : ending, counter ? "counter" : "gauge", own->name, ending,
                   own->value);
    buffer_text(out, line);
}

static void own_all(struct server *server, struct buffer *out, bool open)
{
    const struct observer_totals t = observer_totals(server->observer);
    const struct settings *settings = settings_now(server->store);
    struct persist_stats p = { 0 };
    if (server->persist) {
        persist_about(server->persist, &p);
    }
    const struct own all[] = {
        { "bloomgate_service_up", OWN_GAUGE, "1: serving; 0: loading or stopping.",
          atomic_load(&server->phase) == SERVER_SERVING },
        { "bloomgate_service_start_time_seconds", OWN_GAUGE,
          "When the service was started, in seconds since 1970.",
          (double)server->started / 1000 },
        { "bloomgate_service_filters", OWN_GAUGE, "Filters that have a name.",
          (double)catalog_count(server->catalog) },
        { "bloomgate_service_filter_bytes", OWN_GAUGE, "Memory of all filters.",
          (double)catalog_bytes(server->catalog) },
        { "bloomgate_service_max_bytes", OWN_GAUGE,
          "Memory that all filters may take together; 0: no limit.",
          (double)settings->maxmemory },
        { "bloomgate_service_resident_bytes", OWN_GAUGE, "Memory of the process.",
          (double)t.rss },
        { "bloomgate_service_connections", OWN_GAUGE, "Connections now.",
          (double)atomic_load(&server->clients) },
        { "bloomgate_service_max_connections", OWN_GAUGE, "Connections there can be.",
          (double)settings->maxclients },
        { "bloomgate_service_connections_accepted", OWN_COUNTER, "Connections so far.",
          (double)t.accepted },
        { "bloomgate_service_connections_rejected", OWN_COUNTER,
          "Connections refused because there were too many.", (double)t.rejected },
        { "bloomgate_service_connections_timed_out", OWN_COUNTER,
          "Connections closed because they idled or were too slow.",
          (double)t.timed_out },
        { "bloomgate_service_connections_overflowed", OWN_COUNTER,
          "Connections closed because they did not take their replies.",
          (double)t.overflowed },
        { "bloomgate_service_commands", OWN_COUNTER, "Requests over RESP.",
          (double)t.requests },
        { "bloomgate_service_received_bytes", OWN_COUNTER, "Bytes that came in.",
          (double)t.bytes_in },
        { "bloomgate_service_sent_bytes", OWN_COUNTER, "Bytes that went out.",
          (double)t.bytes_out },
        { "bloomgate_journal_bytes", OWN_GAUGE, "Bytes of the journal's files.",
          (double)p.journal_bytes },
        { "bloomgate_journal_unsynced_frames", OWN_GAUGE,
          "Frames that are not on the disk yet.", (double)p.unsynced },
        { "bloomgate_journal_syncs", OWN_COUNTER, "How often the disk was waited for.",
          (double)p.syncs },
        { "bloomgate_journal_failed", OWN_GAUGE,
          "1: the journal cannot be written, changes are refused.", p.failed },
        { "bloomgate_snapshots", OWN_COUNTER, "Snapshots that were written.",
          (double)p.snapshots },
        { "bloomgate_snapshot_failures", OWN_COUNTER, "Snapshots that failed.",
          (double)p.snapshot_failures },
        { "bloomgate_snapshot_last_timestamp_seconds", OWN_GAUGE,
          "When the last snapshot was finished; 0: none since the start.",
          (double)p.last_snapshot / 1000 },
        { "bloomgate_snapshot_last_duration_seconds", OWN_GAUGE,
          "How long the last snapshot took.", p.last_snapshot_seconds },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        own_write(out, &all[i], open);
    }
}

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

/* Takes an entry, if it can be told; else lets go of it. */
static void gathered_take(struct gathered *g, struct server *server,
                          struct entry *entry, bool cheap)
{
    const bg_bytes name = catalog_name(entry);
    if (!entry->object->slot || name.len > METRICS_NAME
        || memchr(name.data, 0, name.len) || g->n >= g->room) {
        catalog_release(entry);
        return;
    }
    memcpy(g->names[g->n], name.data, name.len);
    g->figures[g->n] = observer_figures(server->observer, entry);
    g->entries[g->n] = entry;
    g->items[g->n] = (bg_metrics_item){
        .name = g->names[g->n],
        .slot = entry->object->slot,
    };
    g->healths[g->n] =
        !cheap && g->figures[g->n].examined ? &g->figures[g->n].health : NULL;
    g->n++;
}

static void gathered_gate(void *context, const struct gate_about *about)
{
    struct gathered *g = context;
    if (g->n < g->room) {
        (void)snprintf(g->names[g->n], METRICS_NAME + 1, "%s", about->name);
        g->items[g->n] = (bg_metrics_item){ .name = g->names[g->n],
                                            .slot = about->slot,
                                            .gate = about->gate };
        g->n++;
    }
}

static bool metrics_sink(void *context, const char *text, size_t len)
{
    struct buffer *out = context;
    buffer_put(out, text, len);
    return !out->overflow;
}

bool metrics_write(struct server *server, struct session *session,
                   bg_metrics_format format, bool cheap, struct buffer *out)
{
    static const char eof[] = "# EOF\n";
    struct gathered g = { .n = 0 };
    struct entry *some[64];
    uint64_t after = 0;
    size_t n = 0;
    if (!gathered_init(&g, settings_now(server->store)->metrics_max_filters)) {
        gathered_free(&g);
        return false;
    }
    quiet_enter(&server->quiet, session->seat); /* for the names */
    while ((n = catalog_scan(server->catalog, after, some, 64)) > 0) {
        after = some[n - 1]->number;
        for (size_t i = 0; i < n; i++) {
            gathered_take(&g, server, some[i], cheap);
        }
    }
    quiet_leave(&server->quiet, session->seat);
    if (server->gates) {
        gates_each(server->gates, gathered_gate, &g);
    }
    /* What the observer has not seen yet has no figures of that sort: nobody waits for them. */
    bg_err err = bg_metrics_write(g.items, g.n, format, BG_METRICS_CHEAP, metrics_sink,
                                  out, NULL);
    gathered_free(&g);
    const bool open = format == BG_METRICS_OPENMETRICS;
    if (!err && open && buffer_waiting(out) >= sizeof eof - 1) {
        out->used -= sizeof eof - 1;
    }
    if (!err && format != BG_METRICS_JSON) {
        own_all(server, out, open);
        buffer_text(out, open ? eof : "");
    }
    return !err && !out->overflow;
}

void metrics_get(struct web_request *request)
{
    static const char *const types[] = { "text/plain", "application/openmetrics-text" };
    bool cheap = false;
    if (!web_flag(request, "cheap", &cheap)) {
        return;
    }
    const int choice = http_choose(request->head, types, 2);
    const bg_metrics_format format =
        choice == 1 ? BG_METRICS_OPENMETRICS : BG_METRICS_PROMETHEUS;
    request->answer.type = bg_metrics_content_type(format);
    if (!metrics_write(request->session->server, request->session, format, cheap,
                       &request->answer.body)) {
        web_error(request, 507, "out_of_memory", "the metrics do not fit into memory");
    }
}
