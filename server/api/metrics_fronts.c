/*
 * api/metrics_fronts.c - metrics of cluster filters (fronts.h), part of the service's own metrics.
 */
#include "api/metrics_parts.h"
#include "config/users.h"
#include "fronts/fronts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct own_fronts {
    struct front_facts *items;
    size_t n;
};

/* Writes a sample for a cluster filter. `more` contains the labels that follow the filter's name,
 * each preceded by a comma. */
static void own_front(const struct own *own, const char *form,
                      const struct front_facts *front, const char *more, double value)
{
    char labels[240];
    (void)snprintf(labels, sizeof labels, "%s{filter=\"%s\"%s}", form, front->name,
                   more);
    own_sample(own, labels, value);
}

/* Writes a sample with one additional label. */
static void own_front_by(const struct own *own, const struct front_facts *front,
                         const char *label, const char *value, uint64_t count)
{
    char more[80];
    (void)snprintf(more, sizeof more, ",%s=\"%s\"", label, value);
    own_front(own, "", front, more, (double)count);
}

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
            own_front_by(own, f, "state", front_state_names[i], f->states[i]);
        }
    }
    OWN_EACH_FRONT("bloomgate_front_unwritable_shards", OWN_GAUGE,
                   "Shards that answer lookups but failed the last add.")
    {
        own_front(own, "", f, "", f->no_adds);
    }
    OWN_EACH_FRONT(
        "bloomgate_front_nodes", OWN_GAUGE,
        "Cluster nodes that own slots, by whether they answered the last probe.")
    {
        own_front_by(own, f, "state", "reached", f->reached);
        own_front_by(own, f, "state", "lost",
                     f->nodes > f->reached ? f->nodes - f->reached : 0);
    }
    OWN_EACH_FRONT("bloomgate_front_map_age_seconds", OWN_GAUGE,
                   "Seconds since a node last reported the slot map (NaN if never).")
    {
        own_front(own, "", f, "", f->map_age >= 0 ? f->map_age : (double)NAN);
    }
}

static void own_fronts_keys(struct own *own, const struct own_fronts *all)
{
    static const char *const asked[] = { "maybe", "no", "unreachable", "refused" };
    static const char *const added[] = { "new", "maybe_present", "rejected",
                                         "unknown" };
    OWN_EACH_FRONT(
        "bloomgate_front_checked_keys", OWN_COUNTER,
        "Keys looked up in a cluster filter, by result. unreachable: the shard could "
        "not be reached, and the client received maybe (fail=open) or an error.")
    {
        for (size_t i = 0; i < FRONT_ASKED; i++) {
            own_front_by(own, f, "result", asked[i], f->asked[i]);
        }
    }
    OWN_EACH_FRONT(
        "bloomgate_front_added_keys", OWN_COUNTER,
        "Keys in add requests to a cluster filter, by result: new or maybe_present "
        "(acknowledged), rejected (not added by this request), or unknown (no reply). "
        "Clients receive an error for rejected and unknown keys.")
    {
        for (size_t i = 0; i < FRONT_ADDED; i++) {
            own_front_by(own, f, "result", added[i], f->added[i]);
        }
    }
}

static void own_fronts_traffic(struct own *own, const struct own_fronts *all)
{
    OWN_EACH_FRONT("bloomgate_front_commands", OWN_COUNTER,
                   "Commands sent to cluster nodes, including health probes.")
    {
        own_front(own, "", f, "", (double)f->commands);
    }
    OWN_EACH_FRONT("bloomgate_front_repeated_commands", OWN_COUNTER,
                   "Commands that were retried.")
    {
        own_front(own, "", f, "", (double)f->repeated);
    }
    OWN_EACH_FRONT(
        "bloomgate_front_redirections", OWN_COUNTER,
        "Replies that redirected a command (moved, ask) or required a later retry.")
    {
        own_front_by(own, f, "kind", "moved", f->moved);
        own_front_by(own, f, "kind", "ask", f->ask);
        own_front_by(own, f, "kind", "tryagain", f->tryagain);
        own_front_by(own, f, "kind", "clusterdown", f->clusterdown);
        own_front_by(own, f, "kind", "other", f->passing);
    }
    OWN_EACH_FRONT(
        "bloomgate_front_failed_connections", OWN_COUNTER,
        "Connections to nodes that could not be opened (unopened), or that failed or "
        "timed out (broken).")
    {
        own_front_by(own, f, "reason", "unopened", f->unopened);
        own_front_by(own, f, "reason", "broken", f->broken);
    }
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
        own_front(own, "_bucket", f, more, (double)sum);
    }
    sum += times->counts[FRONT_LIMITS];
    (void)snprintf(more, sizeof more, ",operation=\"%s\",le=\"+Inf\"", operation);
    own_front(own, "_bucket", f, more, (double)sum);
    (void)snprintf(more, sizeof more, ",operation=\"%s\"", operation);
    own_front(own, "_count", f, more, (double)sum);
    own_front(own, "_sum", f, more, times->seconds);
}

void own_fronts(struct own *own, struct server *server, const struct user *user)
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
        own_fronts_keys(own, all);
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
