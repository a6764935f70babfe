/*
 * api/fronts.c - describes cluster filters (fronts.h) over HTTP. Lookups and adds work in the same
 * way as for other filters (api/keys.c).
 */
#include "fronts/fronts.h"
#include "api/web.h"
#include "args.h"
#include "core/server.h"

#include <string.h>

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

static void fronts_json_keys(struct json *json, const struct front_facts *f)
{
    json_object(json, "checked");
    json_count(json, "maybe", f->asked[FRONT_MAYBE]);
    json_count(json, "no", f->asked[FRONT_NO]);
    json_count(json, "unreachable", f->asked[FRONT_UNREACHED]);
    json_count(json, "refused", f->asked[FRONT_ASK_REFUSED]);
    json_close(json, '}');
    json_object(json, "added");
    json_count(json, "new", f->added[FRONT_NEW]);
    json_count(json, "maybe_present", f->added[FRONT_OLD]);
    json_count(json, "rejected", f->added[FRONT_ADD_REFUSED]);
    json_count(json, "unknown", f->added[FRONT_UNKNOWN]);
    json_close(json, '}');
}

/* Writes the number of requests and their durations. */
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

static void fronts_json_traffic(struct json *json, const struct front_facts *f)
{
    json_object(json, "requests");
    fronts_json_times(json, "check", &f->times[false]);
    fronts_json_times(json, "add", &f->times[true]);
    json_close(json, '}');
    json_count(json, "commands", f->commands);
    json_count(json, "repeated", f->repeated);
    json_object(json, "redirections");
    json_count(json, "moved", f->moved);
    json_count(json, "ask", f->ask);
    json_count(json, "tryagain", f->tryagain);
    json_count(json, "clusterdown", f->clusterdown);
    json_count(json, "other", f->passing);
    json_close(json, '}');
    json_object(json, "failed_connections");
    json_count(json, "unopened", f->unopened);
    json_count(json, "broken", f->broken);
    json_close(json, '}');
}

static void fronts_json(struct json *json, const struct front_facts *f)
{
    json_text(json, "name", f->name);
    json_text(json, "state", f->state);
    fronts_json_cluster(json, f);
    fronts_json_keys(json, f);
    fronts_json_traffic(json, f);
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
