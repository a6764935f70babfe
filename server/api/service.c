/*
 * api/service.c - reports the readiness and state of the service over HTTP, and defines the routes
 * that do not belong to a single filter or gate.
 */
#include "api/handlers.h"

#include "clock.h"
#include "core/server.h"
#include "gates/gates.h"
#include "persist/persist.h"
#include "request/totals.h"
#include "request/worker.h"

#include <string.h>

const char *service_state(const struct server *server)
{
    const bool displaced = server->persist && persist_is_displaced(server->persist);
    switch (atomic_load(&server->phase)) {
    case SERVER_SERVING: return displaced ? "displaced" : "ready";
    case SERVER_ABANDONING:
    case SERVER_STOPPING: return "stopping";
    default: return "loading";
    }
}

/* ---- Readiness --------------------------------------------------------------------------------- */

static void ready_check(struct json *json, const char *name, bool ok,
                        const char *message)
{
    json_object(json, NULL);
    json_text(json, "name", name);
    json_bool(json, "ok", ok);
    json_text(json, "message", message);
    json_close(json, '}');
}

static void ready_loading(struct json *json, const struct server *server)
{
    char text[100];
    const uint64_t all = atomic_load(&server->load_all);
    if (atomic_load(&server->phase) > SERVER_LOADING) {
        ready_check(json, "data", true, "loaded");
    } else {
        (void)snprintf(text, sizeof text, "%llu of %llu filters are loaded",
                       (unsigned long long)atomic_load(&server->load_done),
                       (unsigned long long)all);
        ready_check(json, "data", false, all ? text : "the journal is being replayed");
    }
}

struct ready_gates {
    size_t count, complete;
};

static void ready_gate(void *context, const struct gate_about *about)
{
    struct ready_gates *gates = context;
    gates->count++;
    gates->complete += about->trusted;
}

/* Writes the state of the gates. The response requires no authentication, so the names of gates are
 * not shown. */
static void ready_say_gates(struct json *json, struct gates *gates)
{
    struct ready_gates is = { .count = 0 };
    char text[100];
    gates_each(gates, ready_gate, &is);
    (void)snprintf(text, sizeof text, "%zu of %zu filters are complete", is.complete,
                   is.count);
    ready_check(json, "gates", is.complete == is.count, text);
}

static void ready_say_fronts(struct json *json, struct fronts *fronts)
{
    char text[100];
    const size_t all = fronts_count(fronts), reached = fronts_reached(fronts);
    (void)snprintf(text, sizeof text, "%zu of %zu clusters are answering", reached,
                   all);
    ready_check(json, "fronts", reached == all, text);
}

/* Readiness depends only on the state of the service, although the response also includes the state
 * of its components. With ?fronts=1, readiness also depends on whether the clusters can be reached,
 * because lookups in an unreachable cluster return "maybe". */
static void service_ready(struct web_request *request)
{
    const struct server *server = request->session->server;
    struct json json;
    char why[BG_ERR_MESSAGE_MAX] = "";
    bool verbose = false, with_fronts = false;
    if (!web_flag(request, "verbose", &verbose)
        || !web_flag(request, "fronts", &with_fronts)) {
        return;
    }
    const char *state = service_state(server);
    bool ready = strcmp(state, "ready") == 0;
    if (ready && with_fronts
        && fronts_reached(server->fronts) < fronts_count(server->fronts)) {
        state = "unreachable";
        ready = false;
    }
    request->answer.status = ready ? 200 : 503;
    if (!ready) {
        web_header(request, "Retry-After", "1");
    }
    if (!verbose) {
        request->answer.type = "text/plain; charset=utf-8";
        buffer_text(&request->answer.body, state);
        buffer_text(&request->answer.body, "\n");
        return;
    }
    if (!web_json_begin(request, &json)) {
        return;
    }
    json_text(&json, "state", state);
    json_list(&json, "checks");
    ready_loading(&json, server);
    if (server->persist) {
        const bool works = persist_works(server->persist, why);
        ready_check(&json, "journal", works,
                    works ? "writable" : "not writable: see the log");
    }
    if (server->gates && atomic_load(&server->phase) == SERVER_SERVING) {
        ready_say_gates(&json, server->gates);
    }
    if (server->fronts) {
        ready_say_fronts(&json, server->fronts);
    }
    json_close(&json, ']');
    web_json_end(request, &json);
}

/* ---- Info -------------------------------------------------------------------------------------- */

/* Writes the operations that the user's permissions allow, on filters and gates whose names match
 * the user's patterns. */
static void info_user_can(struct json *json, const struct web_request *request)
{
    static const struct {
        const char *operation, *command;
        bool writes;
    } known[] = { { "add", "BG.ADD", true },         { "create", "BG.CREATE", true },
                  { "rename", "RENAMENX", true },    { "drop", "BG.DROP", true },
                  { "clear", "BG.CLEAR", true },     { "rotate", "BG.ROTATE", true },
                  { "download", "BG.DUMP", false },  { "verify", "BG.VERIFY", false },
                  { "rebuild", "BG.REBUILD", false } };
    const struct user *user = request->client->user;
    json_list(json, "can");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const struct command *command =
            command_find(request->session->server->commands,
                         (bg_bytes){ known[i].command, strlen(known[i].command) });
        if (command && user_may_run(user, command)
            && (!known[i].writes || user_may_write(user))) {
            json_text(json, NULL, known[i].operation);
        }
    }
    json_close(json, ']');
}

static void info_user(struct json *json, const struct web_request *request)
{
    const struct user *user = request->client->user;
    const struct server *server = request->session->server;
    const struct command *add =
        command_find(server->commands, (bg_bytes){ "BG.ADD", 6 });
    json_object(json, "user");
    json_text(json, "name",
              users_default(server->users) == user ? NULL : user_name(user));
    json_bool(json, "admin", web_is_admin(request));
    json_bool(json, "write", add && user_may_run(user, add) && user_may_write(user));
    info_user_can(json, request);
    json_close(json, '}');
}

static void info_traffic(struct json *json, struct server *server,
                         const struct settings *settings)
{
    struct server_totals totals;
    server_count_totals(server, &totals);
    const uint64_t all = atomic_load(&server->clients);
    const uint64_t http = atomic_load(&server->http_clients);
    json_object(json, "connections");
    json_count(json, "resp", all > http ? all - http : 0);
    json_count(json, "http", http);
    json_count(json, "accepted", totals.accepted);
    json_count(json, "refused", totals.rejected);
    json_count(json, "limit", settings->maxclients);
    json_close(json, '}');
    json_object(json, "network");
    json_count(json, "received_bytes", totals.bytes_in);
    json_count(json, "sent_bytes", totals.bytes_out);
    json_close(json, '}');
    json_count(json, "commands", totals.requests + totals.http_requests);
}

/* Totals for the filters that the user may see. */
struct info_sums {
    const struct web_request *request;
    uint64_t health[HEALTH_UNKNOWN + 1];
    struct filter_sums filters;
};

static void info_add(void *context, struct entry *entry)
{
    struct info_sums *sums = context;
    const struct web_request *request = sums->request;
    if (user_may_touch(request->client->user, catalog_name(entry), USER_READ)) {
        const struct figures figures =
            observer_figures(request->session->server->observer, entry);
        sums->health[health_of(entry->object, &figures).status]++;
        bg_slot_info stats;
        object_about(entry->object, &stats);
        filter_sum(&sums->filters, entry->object, &figures, &stats);
    }
}

static void info_filters(struct json *json, const struct info_sums *sums,
                         const struct server *server)
{
    json_object(json, "filters");
    json_count(json, "count", sums->filters.count);
    filter_sum_items(json, &sums->filters);
    for (int i = HEALTH_FINE; i <= HEALTH_UNKNOWN; i++) {
        json_count(json, health_names[i], sums->health[i]);
    }
    json_close(json, '}');
    json_count(json, "gates", server->gates ? gates_count(server->gates) : 0);
    json_count(json, "fronts", fronts_count(server->fronts));
    web_json_answers(json, &sums->filters.stats);
    json_count(json, "avoided",
               sums->filters.stats.queries - sums->filters.stats.maybes);
}

static void info_journal(struct json *json, const struct persist_stats *p)
{
    json_object(json, "log");
    json_count(json, "bytes", p->journal_bytes);
    json_count(json, "unsynced", p->unsynced);
    json_count(json, "syncs", p->syncs);
    json_bool(json, "failed", p->failed);
    json_text(json, "error", p->failed ? p->failure : NULL);
    json_close(json, '}');
    json_object(json, "snapshot");
    json_bool(json, "running", p->snapshotting);
    web_json_known(json, "last_success", p->last_snapshot != 0,
                   (double)p->last_snapshot / 1000);
    web_json_known(json, "last_seconds", p->last_snapshot != 0,
                   p->last_snapshot_seconds);
    json_count(json, "failures", p->snapshot_failures);
    json_text(json, "error", p->snapshot_failure[0] ? p->snapshot_failure : NULL);
    json_close(json, '}');
}

static void info_persistence(struct json *json, const struct web_request *request,
                             const struct settings *settings)
{
    static const char *const policies[] = { "always", "everysec", "no" };
    const struct server *server = request->session->server;
    struct persist_stats p = { 0 };
    if (server->persist) {
        persist_about(server->persist, &p);
    }
    json_object(json, "persistence");
    json_bool(json, "enabled", server->persist != NULL);
    json_text(json, "dir", web_is_admin(request) ? settings->dir : NULL);
    json_text(json, "appendfsync",
              server->persist ? policies[settings->appendfsync] : NULL);
    info_journal(json, &p);
    if (atomic_load(&server->phase) <= SERVER_LOADING) {
        json_object(json, "loading");
        json_count(json, "filters", atomic_load(&server->load_done));
        web_json_nonzero(json, "expected", atomic_load(&server->load_all));
        json_close(json, '}');
    } else {
        json_null(json, "loading");
    }
    json_close(json, '}');
}

static void info_limits(struct json *json, const struct settings *settings)
{
    json_object(json, "limits");
    json_count(json, "max_body_bytes", settings->proto_max_bulk_len);
    web_json_nonzero(json, "max_upload_bytes",
                     settings->max_filter_memory ? web_upload_limit(settings) : 0);
    json_count(json, "max_keys", KEYS_MOST);
    json_count(json, "max_key_bytes", settings->proto_max_bulk_len);
    json_count(json, "max_name_bytes", 65536);
    web_json_nonzero(json, "max_filter_bytes", settings->max_filter_memory);
    json_count(json, "max_filters", settings->max_filters);
    web_json_known(json, "idle_seconds", settings->timeout > 0, settings->timeout);
    json_close(json, '}');
}

static void service_info(struct web_request *request)
{
    struct server *server = request->session->server;
    const struct settings *settings = request->session->from;
    const uint64_t now = clock_now();
    struct info_sums sums = { .request = request };
    struct json made, *json = &made;
    if (!web_json_begin(request, json)) {
        return;
    }
    session_each(request->session, info_add, &sums);
    json_text(json, "version", bg_version());
    json_text(json, "cpu", bg_cpu_name(bg_cpu_current()));
    json_text(json, "state", service_state(server));
    json_exact(json, "now", (double)now / 1000);
    json_exact(json, "started", (double)server->started / 1000);
    json_exact(json, "uptime_seconds", (double)(now - server->started) / 1000);
    json_count(json, "workers", server->workers_count);
    json_bool(json, "tls", request->secure);
    json_bool(json, "users", users_default(server->users) == NULL);
    info_user(json, request);
    json_object(json, "memory");
    json_count(json, "filter_bytes", sums.filters.bytes);
    json_count(json, "rss_bytes", observer_rss());
    web_json_nonzero(json, "limit_bytes", settings->maxmemory);
    json_close(json, '}');
    info_traffic(json, server, settings);
    info_filters(json, &sums, server);
    info_persistence(json, request, settings);
    info_limits(json, settings);
    web_json_end(request, json);
}

/* ---- Routes ------------------------------------------------------------------------------------ */

const struct web_route web_service_routes[] = {
    { "GET", "/readyz", WEB_LOADING | WEB_OPEN, service_ready },
    { "GET", "/metrics", WEB_LOADING | WEB_METRICS, metrics_get },
    { "GET", "/api/v1/info", WEB_LOADING, service_info },
    { "GET", "/api/v1/plan", WEB_LOADING, plan_get },
    { "GET", "/api/v1/tenants", 0, tenants_get },
    { "GET", "/api/v1/events", WEB_LOADING, events_get },
    { "GET", "/api/v1/history", 0, history_get },
    { NULL, NULL, 0, NULL },
};
