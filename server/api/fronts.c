/*
 * api/fronts.c - describes cluster filters (fronts.h) over HTTP. Lookups and adds work in the same
 * way as for other filters (api/keys.c).
 */
#include "api/handlers.h"
#include "args.h"
#include "core/server.h"

#include <string.h>

#define AT(field) offsetof(struct front_facts, field)
const struct front_group front_groups[FRONT_GROUPS] = {
    { "checked",
      "bloomgate_front_checked_keys",
      "Keys looked up in a cluster filter, by result. unreachable: the shard could not be "
      "reached, and the client received maybe (fail=open) or an error.",
      "result",
      { { "maybe", AT(asked[FRONT_MAYBE]) },
        { "no", AT(asked[FRONT_NO]) },
        { "unreachable", AT(asked[FRONT_UNREACHED]) },
        { "refused", AT(asked[FRONT_ASK_REFUSED]) } } },
    { "added",
      "bloomgate_front_added_keys",
      "Keys in add requests to a cluster filter, by result: new or maybe_present "
      "(acknowledged), rejected (not added by this request), or unknown (no reply). "
      "Clients receive an error for rejected and unknown keys.",
      "result",
      { { "new", AT(added[FRONT_NEW]) },
        { "maybe_present", AT(added[FRONT_OLD]) },
        { "rejected", AT(added[FRONT_ADD_REFUSED]) },
        { "unknown", AT(added[FRONT_UNKNOWN]) } } },
    { "redirections",
      "bloomgate_front_redirections",
      "Replies that redirected a command (moved, ask) or required a later retry.",
      "kind",
      { { "moved", AT(moved) },
        { "ask", AT(ask) },
        { "tryagain", AT(tryagain) },
        { "clusterdown", AT(clusterdown) },
        { "other", AT(passing) } } },
    { "failed_connections",
      "bloomgate_front_failed_connections",
      "Connections to nodes that could not be opened (unopened), or that failed or timed "
      "out (broken).",
      "reason",
      { { "unopened", AT(unopened) }, { "broken", AT(broken) } } },
};
#undef AT

/* ---- A front as JSON ----------------------------------------------------------------------------- */

static void fronts_json_cluster(struct json *json, const struct front_facts *f)
{
    json_object(json, "shards");
    json_count(json, "count", f->shards);
    for (size_t i = 0; i < FRONT_STATES; i++) {
        json_count(json, front_state_names[i], f->states[i]);
    }
    json_count(json, "unwritable", f->no_adds);
    json_close(json, '}');
    json_object(json, "nodes");
    json_count(json, "count", f->nodes);
    json_count(json, "reached", f->reached);
    json_close(json, '}');
    web_json_known(json, "map_age_seconds", f->map_age >= 0, f->map_age);
    json_text(json, "error", f->wrong[0] ? f->wrong : NULL);
}

static void fronts_json_group(struct json *json, const struct front_group *group,
                              const struct front_facts *f)
{
    json_object(json, group->member);
    for (size_t i = 0; group->counts[i].name; i++) {
        json_count(json, group->counts[i].name, front_group_count(group, i, f));
    }
    json_close(json, '}');
}

static void fronts_json_times(struct json *json, const char *name,
                              const struct front_times *times)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= FRONT_LIMITS; i++) {
        count += times->counts[i];
    }
    json_object(json, name);
    json_count(json, "count", count);
    json_exact(json, "seconds", times->seconds);
    json_close(json, '}');
}

static void fronts_json(struct json *json, const struct front_facts *f)
{
    json_text(json, "name", f->name);
    json_text(json, "state", f->state);
    fronts_json_cluster(json, f);
    for (size_t i = 0; i < FRONT_KEY_GROUPS; i++) {
        fronts_json_group(json, &front_groups[i], f);
    }
    json_object(json, "requests");
    fronts_json_times(json, "check", &f->times[false]);
    fronts_json_times(json, "add", &f->times[true]);
    json_close(json, '}');
    json_count(json, "commands", f->commands);
    json_count(json, "repeated", f->repeated);
    for (size_t i = FRONT_KEY_GROUPS; i < FRONT_GROUPS; i++) {
        fronts_json_group(json, &front_groups[i], f);
    }
}

/* ---- Routes ------------------------------------------------------------------------------------------ */

static void fronts_list(struct web_request *request)
{
    struct json json;
    struct front_facts f;
    if (!web_may(request, "BG.MEXISTS") || !web_json_begin(request, &json)) {
        return;
    }
    json_list(&json, "fronts");
    for (size_t i = 0; fronts_facts(request->session->server->fronts, i, &f); i++) {
        if (user_may_touch(request->client->user, (bg_bytes){ f.name, strlen(f.name) },
                           USER_READ)) {
            json_object(&json, NULL);
            fronts_json(&json, &f);
            json_close(&json, '}');
        }
    }
    json_close(&json, ']');
    web_json_end(request, &json);
}

static void fronts_get(struct web_request *request)
{
    struct json json;
    struct front_facts f;
    bg_bytes name;
    char shown[64];
    if (!web_name(request, 3, &name) || !web_may(request, "BG.MEXISTS")) {
        return;
    }
    struct front *front = fronts_named(request->session->server->fronts, name);
    if (!front || !user_may_touch(request->client->user, name, USER_READ)) {
        web_error(request, 404, "not_found", "there is no cluster filter %s",
                  args_show(name, shown));
        return;
    }
    front_about(front, &f);
    if (web_json_begin(request, &json)) {
        fronts_json(&json, &f);
        web_json_end(request, &json);
    }
}

const struct web_route web_front_routes[] = {
    { "GET", "/api/v1/fronts", 0, fronts_list },
    { "GET", "/api/v1/fronts/*", 0, fronts_get },
    { NULL, NULL, 0, NULL },
};
