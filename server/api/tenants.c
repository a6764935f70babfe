/*
 * api/tenants.c - GET /api/v1/tenants: users, their permissions and their activity.
 *
 * A user's filters are the filters whose names match the user's patterns, regardless of which user
 * created or uses them. Their number, memory and keys are summed for all users in one pass over all
 * filters. Queries and adds count only the user's own requests (user_count).
 */
#include "api/handlers.h"
#include "core/server.h"
#include "request/rollcall.h"

#include <stdlib.h>
#include <string.h>

struct tenant {
    const struct user *user;
    const char *const *
        words; /* words of the user's configuration line, valid for the user's lifetime */
    size_t word_count;
    struct filter_sums sums;
    uint64_t connections;
};

struct tenants {
    struct observer *observer;
    const struct user *only; /* NULL: all users */
    struct tenant *items;
    size_t n, room;
    bool failed;
};

/* ---- Collecting -------------------------------------------------------------------------- */

static void tenants_take(void *context, const struct user *user,
                         const char *const *words, size_t n)
{
    struct tenants *all = context;
    if (all->only && all->only != user) {
        return;
    }
    if (all->n == all->room) {
        const size_t room = all->room ? 2 * all->room : 16;
        struct tenant *items = realloc(all->items, room * sizeof *items);
        if (!items) {
            all->failed = true;
            return;
        }
        all->items = items;
        all->room = room;
    }
    all->items[all->n++] =
        (struct tenant){ .user = user, .words = words, .word_count = n };
}

static void tenants_add(void *context, struct entry *entry)
{
    struct tenants *all = context;
    const struct figures figures = observer_figures(all->observer, entry);
    bg_slot_info stats;
    object_about(entry->object, &stats);
    for (size_t i = 0; i < all->n; i++) {
        struct tenant *tenant = &all->items[i];
        const bg_bytes name = catalog_name(entry);
        if (user_may_touch(tenant->user, name, USER_READ)
            || user_may_touch(tenant->user, name, USER_WRITE)) {
            filter_sum(&tenant->sums, entry->object, &figures, &stats);
        }
    }
}

/* Runs on the connection's worker thread. */
static void tenants_count(void *context, struct conn *conn)
{
    struct tenants *all = context;
    for (size_t i = 0; i < all->n; i++) {
        all->items[i].connections += conn->client.user == all->items[i].user;
    }
}

/* ---- Response ---------------------------------------------------------------------------- */

static bool tenant_is_pattern(const char *word)
{
    return *word == '~' || *word == '%' || strcmp(word, "allkeys") == 0;
}

/* Returns whether a word is shown as a rule. Passwords are never shown; on, off and rates have
 * their own JSON members. */
static bool tenant_is_rule(const char *word)
{
    return *word == '+' || *word == '-' || strcmp(word, "allcommands") == 0
           || strcmp(word, "nocommands") == 0 || strcmp(word, "reset") == 0;
}

static void tenant_words(struct json *json, const struct tenant *tenant)
{
    json_list(json, "rules");
    for (size_t i = 1; i < tenant->word_count; i++) {
        if (tenant_is_rule(tenant->words[i])) {
            json_text(json, NULL, tenant->words[i]);
        }
    }
    json_close(json, ']');
    json_list(json, "patterns");
    for (size_t i = 1; i < tenant->word_count; i++) {
        const char *word = tenant->words[i];
        if (tenant_is_pattern(word)) {
            json_text(json, NULL, *word == 'a' ? "*" : *word == '~' ? word + 1 : word);
        }
    }
    json_close(json, ']');
}

static void tenant_activity(struct json *json, const struct tenant *tenant)
{
    struct user_figures figures;
    user_about(tenant->user, &figures);
    json_object(json, "counters");
    json_count(json, "queries", figures.queries);
    json_count(json, "adds", figures.adds);
    json_close(json, '}');
    json_object(json, "per_second");
    json_exact(json, "queries", figures.queries_per_second);
    json_exact(json, "adds", figures.adds_per_second);
    json_close(json, '}');
    json_object(json, "limits");
    web_json_nonzero(json, "inserts_per_second", figures.rate);
    web_json_count(json, "burst", figures.rate != 0, figures.burst);
    web_json_nonzero(json, "bytes", figures.max_bytes);
    web_json_nonzero(json, "filters", figures.max_filters);
    json_close(json, '}');
    json_object(json, "charged");
    const bool counted = user_has_quota(tenant->user);
    web_json_count(json, "bytes", counted, figures.bytes);
    web_json_count(json, "filters", counted, figures.filters);
    json_close(json, '}');
    json_object(json, "refused");
    json_count(json, "rate", figures.refused_rate);
    json_count(json, "rights", figures.refused_rights);
    json_count(json, "quota", figures.refused_quota);
    json_close(json, '}');
}

static void tenant_write(struct json *json, const struct server *server,
                         const struct tenant *tenant)
{
    json_object(json, NULL);
    json_text(json, "name", user_name(tenant->user));
    json_bool(json, "enabled", user_is_on(tenant->user));
    json_bool(json, "admin", web_user_is_admin(server, tenant->user));
    tenant_words(json, tenant);
    json_count(json, "filters", tenant->sums.count);
    json_count(json, "bytes", tenant->sums.bytes);
    filter_sum_items(json, &tenant->sums);
    json_count(json, "connections", tenant->connections);
    tenant_activity(json, tenant);
    json_close(json, '}');
}

void tenants_get(struct web_request *request)
{
    struct server *server = request->session->server;
    struct json json;
    struct tenants all = {
        .observer = server->observer,
        .only = web_is_admin(request) ? NULL : request->client->user,
    };
    users_each(server->users, tenants_take, &all);
    if (all.failed) {
        web_error(request, 507, "out_of_memory", "out of memory");
    } else if (web_json_begin(request, &json)) {
        session_each(request->session, tenants_add, &all);
        (void)rollcall(server, tenants_count, &all);
        json_list(&json, "tenants");
        for (size_t i = 0; i < all.n; i++) {
            tenant_write(&json, server, &all.items[i]);
        }
        json_close(&json, ']');
        web_json_end(request, &json);
    }
    free(all.items);
}
