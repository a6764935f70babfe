/*
 * api/metrics_own.c - metrics of the service itself, its gates and its cluster filters, which follow
 * the library's metrics of filters and gates. A test checks that docs/metrics.md lists them all.
 *
 * A family is a name, a type and a help text, followed by its samples. In OpenMetrics, a counter's
 * samples have the suffix _total, but the family's name does not. In the older format, both have
 * the suffix.
 */
#include "api/handlers.h"
#include "clock.h"
#include "core/server.h"
#include "gates/gates.h"
#include "ledger.h"
#include "persist/persist.h"
#include "request/jobs.h"
#include "request/totals.h"
#include "util/log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Space for the labels of a sample: those of a user with the longest name, fully escaped. */
enum { OWN_LABELS = 2 * USER_NAME_MAX + 100 };

enum own_type { OWN_GAUGE, OWN_COUNTER, OWN_HISTOGRAM };

struct own {
    struct buffer *out;
    bool open; /* OpenMetrics */
    const char *name;
    enum own_type type;
};

static void own_family(struct own *own, const char *name, enum own_type type,
                       const char *help)
{
    static const char *const types[] = { "gauge", "counter", "histogram" };
    char line[512];
    const char *ending = type == OWN_COUNTER && !own->open ? "_total" : "";
    own->name = name;
    own->type = type;
    (void)snprintf(line, sizeof line, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, ending,
                   help, name, ending, types[type]);
    buffer_text(own->out, line);
}

/* Writes a sample. `labels` is "" or contains the labels in braces. For histograms, `labels` starts
 * with _bucket, _sum or _count. */
static void own_sample(const struct own *own, const char *labels, double value)
{
    char line[OWN_LABELS + 200];
    (void)snprintf(line, sizeof line, "%s%s%s %.17g\n", own->name,
                   own->type == OWN_COUNTER ? "_total" : "", labels, value);
    buffer_text(own->out, line);
}

/* Writes a sample for a gate or a cluster filter. `more` contains the labels that follow the filter's
 * name, each preceded by a comma. */
static void own_of(const struct own *own, const char *form, const char *filter,
                   const char *more, double value)
{
    char labels[240];
    (void)snprintf(labels, sizeof labels, "%s{filter=\"%s\"%s}", form, filter, more);
    own_sample(own, labels, value);
}

static void own_of_by(const struct own *own, const char *filter, const char *label,
                      const char *value, uint64_t count)
{
    char more[80];
    (void)snprintf(more, sizeof more, ",%s=\"%s\"", label, value);
    own_of(own, "", filter, more, (double)count);
}

static void own_gauge(struct own *own, const char *name, const char *help, double value)
{
    own_family(own, name, OWN_GAUGE, help);
    own_sample(own, "", value);
}

static void own_counter(struct own *own, const char *name, const char *help,
                        uint64_t value)
{
    own_family(own, name, OWN_COUNTER, help);
    own_sample(own, "", (double)value);
}

/* ---- The service ------------------------------------------------------------------------------- */

static void own_service(struct own *own, struct server *server, uint64_t told)
{
    const struct settings *settings = settings_now(server->store);
    own_gauge(own, "bloomgate_service_up",
              "1 if the service is serving requests, 0 if it is loading or stopping.",
              atomic_load(&server->phase) == SERVER_SERVING);
    own_gauge(own, "bloomgate_service_start_time_seconds",
              "Start time of the service, in seconds since the Unix epoch.",
              (double)server->started / 1000);
    own_gauge(own, "bloomgate_service_filters", "Number of filters.",
              (double)catalog_count(server->catalog));
    own_gauge(own, "bloomgate_service_max_filters",
              "Maximum number of filters (max-filters).",
              (double)settings->max_filters);
    own_gauge(own, "bloomgate_service_reported_filters",
              "Filters that this document reports by name.", (double)told);
    own_gauge(own, "bloomgate_service_filter_bytes", "Memory used by all filters.",
              (double)catalog_bytes(server->catalog));
    own_gauge(own, "bloomgate_service_used_bytes",
              "Memory that counts toward maxmemory: filters, objects, buffers and "
              "transfers.",
              (double)ledger_used());
    own_gauge(own, "bloomgate_service_max_bytes",
              "Memory limit (maxmemory); 0 means no limit.",
              (double)settings->maxmemory);
    own_gauge(own, "bloomgate_service_resident_bytes",
              "Resident memory of the process.", (double)observer_rss());
    own_gauge(own, "bloomgate_service_waiting_jobs",
              "Requests waiting for a job thread.", (double)jobs_waiting(server->jobs));
    own_counter(own, "bloomgate_service_log_dropped_lines",
                "Log lines that could not be written.", log_dropped());
}

static void own_keys(struct own *own, struct server *server)
{
    const struct observer_totals t = observer_totals(server->observer);
    own_family(
        own, "bloomgate_service_queries", OWN_COUNTER,
        "Keys looked up in all filters, including dropped filters, by result. Values "
        "may be a few seconds old.");
    own_sample(own, "{result=\"maybe\"}", (double)t.maybes);
    own_sample(own, "{result=\"no\"}", (double)(t.queries - t.maybes));
    own_family(
        own, "bloomgate_service_inserts", OWN_COUNTER,
        "Keys in add requests to all filters, including dropped filters, by result. "
        "Values may be a few seconds old.");
    own_sample(own, "{result=\"new\"}", (double)t.news);
    own_sample(own, "{result=\"maybe_present\"}", (double)(t.adds - t.news));
    own_sample(own, "{result=\"rejected\"}", (double)t.refused);
}

static void own_traffic(struct own *own, const struct server *server)
{
    const double http = (double)atomic_load(&server->http_clients);
    const double all = (double)atomic_load(&server->clients);
    struct server_totals t;
    server_count_totals(server, &t);
    own_family(own, "bloomgate_service_connections", OWN_GAUGE,
               "Open connections, by protocol.");
    own_sample(own, "{protocol=\"resp\"}", fmax(all - http, 0));
    own_sample(own, "{protocol=\"http\"}", http);
    own_gauge(own, "bloomgate_service_max_connections",
              "Maximum number of connections "
              "(maxclients).",
              (double)settings_now(server->store)->maxclients);
    own_counter(own, "bloomgate_service_accepted_connections", "Connections accepted.",
                t.accepted);
    own_family(
        own, "bloomgate_service_ended_connections", OWN_COUNTER,
        "Connections refused or closed by the service: rejected (too many "
        "connections, or not enough memory), timed_out (idle or too slow), or overflowed "
        "(replies were not read).");
    own_sample(own, "{reason=\"rejected\"}", (double)t.rejected);
    own_sample(own, "{reason=\"timed_out\"}", (double)t.timed_out);
    own_sample(own, "{reason=\"overflowed\"}", (double)t.overflowed);
    own_family(own, "bloomgate_service_requests", OWN_COUNTER, "Requests by protocol.");
    own_sample(own, "{protocol=\"resp\"}", (double)t.requests);
    own_sample(own, "{protocol=\"http\"}", (double)t.http_requests);
    own_counter(own, "bloomgate_service_request_errors",
                "RESP requests that failed with an error.", t.errors);
    own_counter(own, "bloomgate_service_received_bytes", "Bytes received.", t.bytes_in);
    own_counter(own, "bloomgate_service_sent_bytes", "Bytes sent.", t.bytes_out);
}

static void own_add_refusals(void *context, const struct user *user,
                             const char *const *words, size_t n)
{
    struct user_figures *sums = context;
    struct user_figures figures;
    (void)words;
    (void)n;
    user_about(user, &figures);
    sums->refused_rate += figures.refused_rate;
    sums->refused_rights += figures.refused_rights;
    sums->refused_quota += figures.refused_quota;
}

static void own_refusals(struct own *own, struct server *server)
{
    struct user_figures sums = { .refused_rate = 0 };
    users_each(server->users, own_add_refusals, &sums);
    own_family(
        own, "bloomgate_service_refusals", OWN_COUNTER,
        "Requests refused because of user limits: rate (adds over the rate limit), "
        "rights (commands or names that the user may not use) or quota (allocations "
        "and new filters over a quota).");
    own_sample(own, "{reason=\"rate\"}", (double)sums.refused_rate);
    own_sample(own, "{reason=\"rights\"}", (double)sums.refused_rights);
    own_sample(own, "{reason=\"quota\"}", (double)sums.refused_quota);
}

/* ---- Quotas ------------------------------------------------------------------------------------ */

/* Writes the labels of a user's sample. `more` contains the labels that follow the user's name,
 * each preceded by a comma. */
static void own_user_labels(const struct user *user, const char *more,
                            char labels[OWN_LABELS])
{
    char *to = labels + snprintf(labels, OWN_LABELS, "{user=\"");
    for (const char *c = user_name(user); *c; c++) {
        const char plain = *c;
        const char escaped = (char)(plain == '\n' ? 'n' : plain);
        if (plain == '\\' || plain == '"' || plain == '\n') {
            *to++ = '\\';
        }
        *to++ = escaped;
    }
    (void)snprintf(to, (size_t)(labels + OWN_LABELS - to), "\"%s}", more);
}

/* Returns whether a user sees the figures of other users, as in INFO quotas. */
static bool own_may_see_all(const struct user *user)
{
    return user_may_touch_all(user, USER_READ);
}

struct own_quotas {
    const struct own *own;
    const struct user *only; /* NULL: all users */
    bool bytes;              /* sizes instead of numbers of filters */
};

/* Writes the usage and the quota of a user, if it has a quota. */
static void own_quota(void *context, const struct user *user, const char *const *words,
                      size_t n)
{
    const struct own_quotas *all = context;
    struct user_figures f;
    char labels[OWN_LABELS];
    (void)words;
    (void)n;
    user_about(user, &f);
    const uint64_t most = all->bytes ? f.max_bytes : f.max_filters;
    if (!most || (all->only && all->only != user)) {
        return;
    }
    own_user_labels(user, ",value=\"used\"", labels);
    own_sample(all->own, labels, (double)(all->bytes ? f.bytes : f.filters));
    own_user_labels(user, ",value=\"limit\"", labels);
    own_sample(all->own, labels, (double)most);
}

static void own_quotas(struct own *own, struct server *server, const struct user *user)
{
    struct own_quotas all = { .own = own, .only = own_may_see_all(user) ? NULL : user };
    own_family(own, "bloomgate_service_quota_filters", OWN_GAUGE,
               "Number of filters of a user with a quota, and the quota.");
    users_each(server->users, own_quota, &all);
    all.bytes = true;
    own_family(
        own, "bloomgate_service_quota_bytes", OWN_GAUGE,
        "Memory of the filters and dumps of a user with a quota, and the quota.");
    users_each(server->users, own_quota, &all);
}

struct own_users {
    struct own *own;
    const struct user *only; /* NULL: all users */
    bool adds;
};

static void own_user(void *context, const struct user *user, const char *const *words,
                     size_t n)
{
    const struct own_users *users = context;
    struct user_figures figures;
    char labels[OWN_LABELS];
    (void)words;
    (void)n;
    if (users->only && users->only != user) {
        return;
    }
    user_about(user, &figures);
    own_user_labels(user, "", labels);
    own_sample(users->own, labels,
               (double)(users->adds ? figures.adds : figures.queries));
}

/* Only administrators see other users. */
static void own_activity(struct own *own, struct server *server,
                         const struct user *user)
{
    struct own_users users = { .own = own };
    users.only = own_may_see_all(user) ? NULL : user;
    own_family(own, "bloomgate_service_user_queries", OWN_COUNTER,
               "Keys looked up by each user.");
    users_each(server->users, own_user, &users);
    users.adds = true;
    own_family(own, "bloomgate_service_user_adds", OWN_COUNTER,
               "Keys added by each user, including keys that were already present.");
    users_each(server->users, own_user, &users);
}

/* ---- Files ------------------------------------------------------------------------------------- */

static void own_files(struct own *own, const struct server *server)
{
    struct persist_stats p = { 0 };
    if (!server->persist) {
        return;
    }
    persist_about(server->persist, &p);
    own_gauge(own, "bloomgate_journal_size_bytes", "Size of the journal files.",
              (double)p.journal_bytes);
    own_gauge(own, "bloomgate_journal_unsynced_frames",
              "Journal records not yet flushed to disk.", (double)p.unsynced);
    own_counter(own, "bloomgate_journal_syncs", "Journal flushes to disk.", p.syncs);
    own_gauge(own, "bloomgate_journal_failed",
              "1 if the journal cannot be written and changes are refused.", p.failed);
    own_family(own, "bloomgate_snapshots", OWN_COUNTER, "Snapshots.");
    own_sample(own, "{result=\"ok\"}", (double)p.snapshots);
    own_sample(own, "{result=\"failed\"}", (double)p.snapshot_failures);
    own_gauge(
        own, "bloomgate_snapshot_age_seconds",
        "Seconds since the last snapshot, or since startup if there is none.",
        (double)(clock_now() - (p.last_snapshot ? p.last_snapshot : server->started))
            / 1000);
    own_gauge(own, "bloomgate_snapshot_overdue_seconds",
              "Seconds by which a snapshot is overdue according to the settings.",
              p.overdue_seconds);
    own_gauge(own, "bloomgate_snapshot_duration_seconds",
              "Duration of the last snapshot.", p.last_snapshot_seconds);
}

/* ---- Gates ------------------------------------------------------------------------------------- */

enum { OWN_GATES = 256 };

struct own_gate {
    char filter[48]; /* gate:NAME */
    bool up, trusted;
    double lag;
    uint64_t changes, builds, failures;
    bg_gate_info blind;
};

struct own_gates {
    struct own_gate items[OWN_GATES];
    size_t n;
};

static void own_take_gate(void *context, const struct gate_about *about)
{
    struct own_gates *all = context;
    if (all->n == OWN_GATES) {
        return;
    }
    struct own_gate *gate = &all->items[all->n++];
    *gate = (struct own_gate){ .up = about->source_up,
                               .trusted = about->trusted,
                               .lag = about->lag,
                               .changes = about->changes,
                               .builds = about->builds,
                               .failures = about->build_failures,
                               .blind = { .struct_size = sizeof gate->blind } };
    (void)snprintf(gate->filter, sizeof gate->filter, "gate:%.40s", about->name);
    if (!about->blind || bg_gate_get_info(about->blind, NULL, &gate->blind)) {
        gate->blind = (bg_gate_info){ .lookups = 0 };
    }
}

#define OWN_EACH_GATE(name, type, help, value)                                         \
    own_family(own, name, type, help);                                                 \
    for (size_t i = 0; i < all.n; i++) {                                               \
        const struct own_gate *gate = &all.items[i];                                   \
        own_of(own, "", gate->filter, "", value);                                      \
    }

static void own_gates(struct own *own, struct server *server)
{
    static _Thread_local struct own_gates all;
    all.n = 0;
    if (!server->gates || gates_count(server->gates) == 0) {
        return;
    }
    gates_each(server->gates, own_take_gate, &all);
    OWN_EACH_GATE("bloomgate_gate_source_up", OWN_GAUGE,
                  "1 if the source is reachable.", gate->up)
    OWN_EACH_GATE(
        "bloomgate_gate_trusted", OWN_GAUGE,
        "1 if the filter contains all keys in the source, so its negative answers are "
        "trusted; 0 if every lookup queries the source.",
        gate->trusted)
    OWN_EACH_GATE(
        "bloomgate_gate_lag_seconds", OWN_GAUGE,
        "Seconds since the gate last had all changes from the source (NaN if never).",
        gate->lag >= 0 ? gate->lag : (double)NAN)
    OWN_EACH_GATE("bloomgate_gate_changed_keys", OWN_COUNTER,
                  "Keys received as changes from the source.", (double)gate->changes)
    OWN_EACH_GATE(
        "bloomgate_gate_untrusted_lookups", OWN_COUNTER,
        "Lookups that queried the source because the filter was not trusted; not "
        "included in other metrics of the gate.",
        (double)gate->blind.lookups)
    own_family(own, "bloomgate_gate_builds", OWN_COUNTER,
               "Filters built from the source, by result.");
    for (size_t i = 0; i < all.n; i++) {
        own_of_by(own, all.items[i].filter, "result", "ok", all.items[i].builds);
        own_of_by(own, all.items[i].filter, "result", "failed", all.items[i].failures);
    }
}

/* ---- Cluster filters ---------------------------------------------------------------------------- */

struct own_fronts {
    struct front_facts *items;
    size_t n;
};

#define OWN_EACH_FRONT(name, type, help)                                               \
    own_family(own, name, type, help);                                                 \
    for (const struct front_facts *f = all->items; f < all->items + all->n; f++)

static void own_fronts_state(struct own *own, const struct own_fronts *all)
{
    OWN_EACH_FRONT(
        "bloomgate_front_shards", OWN_GAUGE,
        "Shards of a cluster filter, by state: up, down (not answering), missing (the "
        "filter does not exist), refusing (replying with errors), or incomplete (may "
        "have lost keys and never answers no).")
    {
        for (size_t i = 0; i < FRONT_STATES; i++) {
            own_of_by(own, f->name, "state", front_state_names[i], f->states[i]);
        }
    }
    OWN_EACH_FRONT("bloomgate_front_unwritable_shards", OWN_GAUGE,
                   "Shards that answer lookups but failed the last add.")
    {
        own_of(own, "", f->name, "", f->no_adds);
    }
    OWN_EACH_FRONT(
        "bloomgate_front_nodes", OWN_GAUGE,
        "Cluster nodes that own slots, by whether they answered the last probe.")
    {
        own_of_by(own, f->name, "state", "reached", f->reached);
        own_of_by(own, f->name, "state", "lost",
                  f->nodes > f->reached ? f->nodes - f->reached : 0);
    }
    OWN_EACH_FRONT("bloomgate_front_map_age_seconds", OWN_GAUGE,
                   "Seconds since a node last reported the slot map (NaN if never).")
    {
        own_of(own, "", f->name, "", f->map_age >= 0 ? f->map_age : (double)NAN);
    }
}

static void own_fronts_groups(struct own *own, const struct own_fronts *all,
                              size_t first, size_t end)
{
    for (const struct front_group *g = front_groups + first; g < front_groups + end;
         g++) {
        OWN_EACH_FRONT(g->metric, OWN_COUNTER, g->help)
        {
            for (size_t i = 0; g->counts[i].name; i++) {
                own_of_by(own, f->name, g->label, g->counts[i].name,
                          front_group_count(g, i, f));
            }
        }
    }
}

static void own_fronts_traffic(struct own *own, const struct own_fronts *all)
{
    OWN_EACH_FRONT("bloomgate_front_commands", OWN_COUNTER,
                   "Commands sent to cluster nodes, including health probes.")
    {
        own_of(own, "", f->name, "", (double)f->commands);
    }
    OWN_EACH_FRONT("bloomgate_front_repeated_commands", OWN_COUNTER,
                   "Commands that were retried.")
    {
        own_of(own, "", f->name, "", (double)f->repeated);
    }
    own_fronts_groups(own, all, FRONT_KEY_GROUPS, FRONT_GROUPS);
}

static void own_front_histogram(const struct own *own, const struct front_facts *f,
                                bool adds)
{
    const struct front_times *times = &f->times[adds];
    const char *operation = adds ? "add" : "check";
    char more[80];
    uint64_t sum = 0;
    for (size_t i = 0; i < FRONT_LIMITS; i++) {
        char limit[20]; /* formatted as OpenMetrics requires, for example 1.0 */
        (void)snprintf(limit, sizeof limit, "%g", front_limits[i]);
        sum += times->counts[i];
        (void)snprintf(more, sizeof more, ",operation=\"%s\",le=\"%s%s\"", operation,
                       limit, strchr(limit, '.') ? "" : ".0");
        own_of(own, "_bucket", f->name, more, (double)sum);
    }
    sum += times->counts[FRONT_LIMITS];
    (void)snprintf(more, sizeof more, ",operation=\"%s\",le=\"+Inf\"", operation);
    own_of(own, "_bucket", f->name, more, (double)sum);
    (void)snprintf(more, sizeof more, ",operation=\"%s\"", operation);
    own_of(own, "_count", f->name, more, (double)sum);
    own_of(own, "_sum", f->name, more, times->seconds);
}

static void own_fronts(struct own *own, struct server *server, const struct user *user)
{
    struct own_fronts found, *all = &found;
    const size_t count = fronts_count(server->fronts);
    found.items = calloc(count + 1, sizeof *found.items);
    found.n = 0;
    for (size_t i = 0; found.items && i < count; i++) {
        struct front_facts *f = &found.items[found.n];
        (void)fronts_facts(server->fronts, i, f);
        found.n +=
            user_may_touch(user, (bg_bytes){ f->name, strlen(f->name) }, USER_READ);
    }
    if (found.n > 0) {
        own_fronts_state(own, all);
        own_fronts_groups(own, all, 0, FRONT_KEY_GROUPS);
        own_fronts_traffic(own, all);
        OWN_EACH_FRONT("bloomgate_front_request_seconds", OWN_HISTOGRAM,
                       "Duration of requests to cluster filters.")
        {
            own_front_histogram(own, f, false);
            own_front_histogram(own, f, true);
        }
    }
    free(found.items);
}

void metrics_write_own(struct server *server, const struct user *user, uint64_t told,
                       bool open, struct buffer *out)
{
    struct own own = { .out = out, .open = open };
    own_service(&own, server, told);
    own_keys(&own, server);
    own_traffic(&own, server);
    own_refusals(&own, server);
    own_activity(&own, server, user);
    own_quotas(&own, server, user);
    own_files(&own, server);
    own_gates(&own, server);
    own_fronts(&own, server, user);
}
