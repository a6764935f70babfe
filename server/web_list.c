/*
 * web_list.c - GET /api/v1/filters: searched, sorted, page by page.
 */
#include "args.h"
#include "observer.h"
#include "pattern.h"
#include "server.h"
#include "web_filters.h"
#include "web_health.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A filter in a list, with what it is sorted by. */
struct row {
    struct entry *entry;
    bg_bytes name;
    double key; /* NaN: unknown, which comes last */
    const char *word;
};

struct listing {
    char pattern[1025], search[1025], sort[32], order[8], health[16], kind[32];
    bool has_pattern, has_search, has_health, has_kind;
    uint64_t count, offset;
    struct row *rows;
    size_t n, room, total;
};

static const char *const list_sorts[] = { "name",     "kind",  "items",
                                          "capacity", "fill",  "predicted",
                                          "observed", "bytes", "queries",
                                          "avoided",  "age",   "health" };

static double row_key(struct web_request *request, const char *sort,
                      struct entry *entry)
{
    struct object *object = entry->object;
    const struct figures f =
        observer_figures(request->session->server->observer, entry);
    bg_slot_stats stats = { .struct_size = sizeof stats };
    bg_estimate observed;
    if (!object->slot || bg_slot_about(object->slot, &stats)) {
        memset(&stats, 0, sizeof stats);
    }
    const double unknown = (double)NAN;
    if (strcmp(sort, "items") == 0) {
        return f.examined ? f.health.items.value : unknown;
    }
    if (strcmp(sort, "fill") == 0) {
        return f.examined ? f.health.fill : unknown;
    }
    if (strcmp(sort, "predicted") == 0) {
        return f.examined ? f.health.rate : unknown;
    }
    if (strcmp(sort, "observed") == 0) {
        return filter_observed(object, &stats, &observed) ? observed.value : unknown;
    }
    if (strcmp(sort, "capacity") == 0) {
        return (double)object_capacity(object);
    }
    if (strcmp(sort, "bytes") == 0) {
        return (double)object_bytes(object);
    }
    if (strcmp(sort, "queries") == 0) {
        return (double)stats.queries;
    }
    if (strcmp(sort, "avoided") == 0) {
        return (double)(stats.queries - stats.maybes);
    }
    if (strcmp(sort, "age") == 0) {
        return -(double)entry->created;
    }
    if (strcmp(sort, "health") == 0) {
        const enum health health = health_of(object, &f);
        return health == HEALTH_UNKNOWN ? unknown : (double)health;
    }
    return 0;
}

static int row_by_name(const struct row *a, const struct row *b)
{
    const size_t least = a->name.len < b->name.len ? a->name.len : b->name.len;
    const int order = least ? memcmp(a->name.data, b->name.data, least) : 0;
    return order ? order : (a->name.len > b->name.len) - (a->name.len < b->name.len);
}

static int row_compare(const struct row *a, const struct row *b, int sign)
{
    const bool a_unknown = isnan(a->key), b_unknown = isnan(b->key);
    int order = 0;
    if (a_unknown || b_unknown) {
        order = a_unknown - b_unknown; /* last, either way */
    } else if (a->word) {
        order = sign * strcmp(a->word, b->word);
    } else {
        order = sign * ((a->key > b->key) - (a->key < b->key));
    }
    return order ? order : row_by_name(a, b);
}

static int row_up(const void *a, const void *b)
{
    return row_compare(a, b, 1);
}

static int row_down(const void *a, const void *b)
{
    return row_compare(a, b, -1);
}

static int row_name_down(const void *a, const void *b)
{
    return -row_by_name(a, b);
}

static bool list_has(bg_bytes name, const char *text)
{
    const size_t n = strlen(text);
    const char *bytes = name.data;
    for (size_t i = 0; n <= name.len && i <= name.len - n; i++) {
        if (strncasecmp(bytes + i, text, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool list_wants(struct web_request *request, const struct listing *list,
                       struct entry *entry, bg_bytes name)
{
    if (list->has_pattern
        && !pattern_matches(list->pattern, strlen(list->pattern), name.data,
                            name.len)) {
        return false;
    }
    if (list->has_search && !list_has(name, list->search)) {
        return false;
    }
    if (list->has_kind
        && strcmp(list->kind, bg_kind_name((bg_kind)entry->object->shape.kind)) != 0) {
        return false;
    }
    if (list->has_health) {
        const struct figures f =
            observer_figures(request->session->server->observer, entry);
        return strcmp(list->health, health_name(health_of(entry->object, &f))) == 0;
    }
    return true;
}

static bool list_push(struct listing *list, const struct row *row)
{
    if (list->n == list->room) {
        const size_t room = list->room ? 2 * list->room : 256;
        struct row *rows = realloc(list->rows, room * sizeof *rows);
        if (!rows) {
            return false;
        }
        list->rows = rows;
        list->room = room;
    }
    list->rows[list->n++] = *row;
    return true;
}

/* All filters that are wanted, each held. */
static bool list_gather(struct web_request *request, struct listing *list)
{
    struct server *server = request->session->server;
    struct entry *some[64];
    uint64_t after = 0;
    size_t n = 0;
    bool good = true;
    while (good && (n = catalog_scan(server->catalog, after, some, 64)) > 0) {
        after = some[n - 1]->number;
        for (size_t i = 0; i < n; i++) {
            const bg_bytes name = catalog_name(some[i]);
            struct row row = { .entry = some[i], .name = name };
            if (good && user_may_touch(request->client->user, name, USER_READ)) {
                list->total++;
                if (list_wants(request, list, some[i], name)) {
                    row.key = row_key(request, list->sort, some[i]);
                    row.word = strcmp(list->sort, "kind") == 0
                                   ? bg_kind_name((bg_kind)some[i]->object->shape.kind)
                                   : NULL;
                    good = list_push(list, &row);
                    if (good) {
                        continue; /* it stays held */
                    }
                }
            }
            catalog_release(some[i]);
        }
    }
    return good;
}

static bool list_read(struct web_request *request, struct listing *list)
{
    char cursor[32];
    bool has_sort = false, has_order = false, has_cursor = false;
    if (!web_text(request, "pattern", list->pattern, sizeof list->pattern,
                  &list->has_pattern)
        || !web_text(request, "search", list->search, sizeof list->search,
                     &list->has_search)
        || !web_text(request, "health", list->health, sizeof list->health,
                     &list->has_health)
        || !web_text(request, "kind", list->kind, sizeof list->kind, &list->has_kind)
        || !web_text(request, "sort", list->sort, sizeof list->sort, &has_sort)
        || !web_text(request, "order", list->order, sizeof list->order, &has_order)
        || !web_text(request, "cursor", cursor, sizeof cursor, &has_cursor)
        || !web_count(request, "count", 1, 1000, 100, &list->count)
        || !web_count(request, "offset", 0, UINT32_MAX, 0, &list->offset)) {
        return false;
    }
    if (!has_sort) {
        (void)snprintf(list->sort, sizeof list->sort, "name");
    }
    bool known = false;
    for (size_t i = 0; i < sizeof list_sorts / sizeof *list_sorts; i++) {
        known = known || strcmp(list->sort, list_sorts[i]) == 0;
    }
    if (!known
        || (has_order && strcmp(list->order, "asc") && strcmp(list->order, "desc"))) {
        web_error(request, 400, "bad_request",
                  "sort or order: found \"%s\", expected one of those "
                  "that are listed",
                  known ? list->order : list->sort);
        return false;
    }
    if (has_cursor
        && !args_count((bg_bytes){ cursor, strlen(cursor) }, &list->offset)) {
        web_error(request, 400, "bad_request",
                  "cursor: found \"%s\", expected the next of a page", cursor);
        return false;
    }
    return true;
}

static void list_answer(struct web_request *request, const struct listing *list)
{
    struct web_json json;
    if (!web_json_begin(request, &json)) {
        return;
    }
    json_list(&json.json, "filters");
    size_t i = list->offset;
    for (; i < list->n && i < list->offset + list->count; i++) {
        json_object(&json.json, NULL);
        web_json_filter(&json.json, request, list->rows[i].entry, false);
        json_close(&json.json, '}');
    }
    json_close(&json.json, ']');
    if (i < list->n) {
        char next[32];
        (void)snprintf(next, sizeof next, "%zu", i);
        json_text(&json.json, "next", next);
    } else {
        json_null(&json.json, "next");
    }
    json_count(&json.json, "total", list->total);
    json_count(&json.json, "matched", list->n);
    web_json_end(request, &json);
}

void filters_list(struct web_request *request)
{
    struct listing list = { .n = 0 };
    struct session *session = request->session;
    if (!web_may(request, "SCAN") || !list_read(request, &list)) {
        return;
    }
    quiet_enter(&session->server->quiet, session->seat); /* for the names */
    if (list_gather(request, &list)) {
        const bool down = strcmp(list.order, "desc") == 0;
        const bool by_name = strcmp(list.sort, "name") == 0;
        if (list.n) {
            qsort(list.rows, list.n, sizeof *list.rows,
                  !down     ? row_up
                  : by_name ? row_name_down
                            : row_down);
        }
        list_answer(request, &list);
    } else {
        web_error(request, 507, "out_of_memory", "out of memory");
    }
    quiet_leave(&session->server->quiet, session->seat);
    for (size_t i = 0; i < list.n; i++) {
        catalog_release(list.rows[i].entry);
    }
    free(list.rows);
}
