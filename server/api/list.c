/*
 * api/list.c - GET /api/v1/filters: search, sort and paginate.
 *
 * The cursor of a list sorted by name is '=' followed by the last name in base64url. The next page
 * starts after that name, even if filters have been added or dropped in the meantime. For other
 * sort orders, and after very long names, the cursor is the number of filters returned so far.
 */
#include "api/handlers.h"
#include "args.h"
#include "core/server.h"
#include "pattern.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A filter in a list, with its sort key. */
struct row {
    struct entry *entry;
    bg_bytes name;
    double key; /* NaN if unknown; NaN sorts last */
    const char *word;
};

/* X(NAME, name): the orders in which filters can be sorted. */
#define LIST_SORTS(X)                                                                  \
    X(NAME, name)                                                                      \
    X(KIND, kind)                                                                      \
    X(ITEMS, items)                                                                    \
    X(CAPACITY, capacity)                                                              \
    X(FILL, fill)                                                                      \
    X(PREDICTED, predicted)                                                            \
    X(OBSERVED, observed)                                                              \
    X(BYTES, bytes)                                                                    \
    X(QUERIES, queries)                                                                \
    X(AVOIDED, avoided)                                                                \
    X(AGE, age)                                                                        \
    X(HEALTH, health)

#define LIST_ENUM(NAME, name) SORT_##NAME,
enum list_sort { LIST_SORTS(LIST_ENUM) };
#undef LIST_ENUM

enum { LIST_CURSOR = 6000, LIST_NAME = 4096 };

struct listing {
    struct web_request *request;
    bool failed;
    char pattern[1025], search[1025];
    bool has_pattern, has_search, has_after;
    int sort, down, health; /* `health` is -1 for any */
    bg_kind kind;           /* BG_KIND_AUTO for any */
    char cursor[LIST_CURSOR], after_room[LIST_CURSOR];
    bg_bytes after; /* last name of the previous page */
    uint64_t count, offset;
    struct row *rows;
    size_t n, room, total;
};

static double row_key(struct web_request *request, enum list_sort sort,
                      struct entry *entry)
{
    struct object *object = entry->object;
    bg_slot_info stats;
    bg_estimate observed;
    const double unknown = (double)NAN;
    if (sort == SORT_NAME || sort == SORT_KIND) {
        return 0; /* sorted as text, without a numeric key */
    }
    const struct figures f =
        observer_figures(request->session->server->observer, entry);
    object_about(object, &stats);
    switch (sort) {
    case SORT_ITEMS: return f.examined ? f.health.items.value : unknown;
    case SORT_FILL: return f.examined ? f.health.fill : unknown;
    case SORT_PREDICTED: return f.examined ? f.health.rate : unknown;
    case SORT_OBSERVED:
        return filter_observed(object, &stats, &observed) ? observed.value : unknown;
    case SORT_CAPACITY: {
        const uint64_t capacity = filter_capacity(object, &f);
        return capacity ? (double)capacity : unknown;
    }
    case SORT_BYTES: return (double)object_bytes(object);
    case SORT_QUERIES: return (double)stats.queries;
    case SORT_AVOIDED: return (double)(stats.queries - stats.maybes);
    case SORT_AGE: return -(double)entry->created;
    case SORT_HEALTH: {
        const enum health health = health_of(object, &f).status;
        return health == HEALTH_UNKNOWN ? unknown : (double)health;
    }
    default: return 0;
    }
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
        /* unknown values are sorted last in either order */
        order = a_unknown - b_unknown;
    } else if (a->word) {
        const int words = strcmp(a->word, b->word);
        order = sign * ((words > 0) - (words < 0));
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
    if (list->kind != BG_KIND_AUTO && entry->object->shape.kind != list->kind) {
        return false;
    }
    if (list->health < 0) {
        return true;
    }
    const struct figures f =
        observer_figures(request->session->server->observer, entry);
    return (int)health_of(entry->object, &f).status == list->health;
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

/* Counts a filter and, if it matches, adds it to the list and holds its entry. */
static void list_consider(void *context, struct entry *entry)
{
    struct listing *list = context;
    struct web_request *request = list->request;
    struct row row = { .entry = entry, .name = catalog_name(entry) };
    if (list->failed || !user_may_touch(request->client->user, row.name, USER_READ)) {
        return;
    }
    list->total++;
    if (!list_wants(request, list, entry, row.name)) {
        return;
    }
    row.key = row_key(request, (enum list_sort)list->sort, entry);
    if (list->sort == SORT_KIND) {
        row.word = bg_kind_name((bg_kind)entry->object->shape.kind);
    }
    if (list_push(list, &row)) {
        catalog_hold(entry);
    } else {
        list->failed = true; /* out of memory */
    }
}

/* Reads the cursor, which marks the end of the previous page. Returns false after sending a 400
 * response. */
static bool list_read_cursor(struct web_request *request, struct listing *list)
{
    const bg_bytes text = { list->cursor, strlen(list->cursor) };
    if (list->cursor[0] == '=' && list->sort == SORT_NAME) {
        list->has_after = true;
        if (web_name_read(text, list->after_room, &list->after)) {
            return true;
        }
    } else if (args_count(text, &list->offset)) {
        return true;
    }
    return web_error(
        request, 400, "bad_request",
        "cursor: found \"%.40s\", expected the value of `next` from a previous page",
        list->cursor);
}

static bool list_read(struct web_request *request, struct listing *list)
{
    static const char *const orders[] = { "asc", "desc" };
    static const char *const sorts[] = {
#define LIST_TEXT(NAME, name) #name,
        LIST_SORTS(LIST_TEXT)
#undef LIST_TEXT
    };
    bool has_cursor = false;
    if (!web_text(request, "pattern", list->pattern, sizeof list->pattern,
                  &list->has_pattern)
        || !web_text(request, "search", list->search, sizeof list->search,
                     &list->has_search)
        || !web_choice(request, "health", health_names, HEALTH_UNKNOWN + 1,
                       &list->health)
        || !web_kind(request, &list->kind)
        || !web_choice(request, "sort", sorts, sizeof sorts / sizeof *sorts,
                       &list->sort)
        || !web_choice(request, "order", orders, 2, &list->down)
        || !web_text(request, "cursor", list->cursor, sizeof list->cursor, &has_cursor)
        || !web_count(request, "count", 1, 1000, 100, &list->count)
        || !web_count(request, "offset", 0, UINT32_MAX, 0, &list->offset)) {
        return false;
    }
    if (has_cursor && list->offset > 0) {
        return web_error(request, 400, "bad_request",
                         "offset and cursor cannot be combined");
    }
    return !has_cursor || list_read_cursor(request, list);
}

static size_t list_first(const struct listing *list)
{
    const struct row after = { .name = list->after };
    size_t i = list->has_after ? 0 : list->offset;
    while (list->has_after && i < list->n) {
        const int order = row_by_name(&list->rows[i], &after);
        if (list->down ? order < 0 : order > 0) {
            break;
        }
        i++;
    }
    return i;
}

static void list_write_next(struct json *json, const struct listing *list, size_t i)
{
    char number[32];
    if (i >= list->n) {
        json_null(json, "next");
        return;
    }
    const bg_bytes last = i > 0 ? list->rows[i - 1].name : (bg_bytes){ "", 0 };
    char *name = list->sort == SORT_NAME && i > 0 && last.len <= LIST_NAME
                     ? web_segment(last)
                     : NULL;
    if (name) {
        json_text(json, "next", name);
    } else {
        (void)snprintf(number, sizeof number, "%zu", i);
        json_text(json, "next", number);
    }
    free(name);
}

static void list_answer(struct web_request *request, const struct listing *list)
{
    struct json json;
    if (!web_json_begin(request, &json)) {
        return;
    }
    json_list(&json, "filters");
    const size_t first = list_first(list);
    size_t i = first;
    for (; i < list->n && i < first + list->count; i++) {
        json_object(&json, NULL);
        web_json_filter(&json, request, list->rows[i].entry, false);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    list_write_next(&json, list, i);
    json_count(&json, "total", list->total);
    json_count(&json, "matched", list->n);
    web_json_end(request, &json);
}

void filters_list(struct web_request *request)
{
    static _Thread_local struct listing list; /* too large for the stack */
    struct session *session = request->session;
    list = (struct listing){ .request = request, .health = -1 };
    if (!web_may(request, "SCAN") || !list_read(request, &list)) {
        return;
    }
    session_enter(session); /* protects the names */
    session_each(session, list_consider, &list);
    if (!list.failed) {
        if (list.n) {
            qsort(list.rows, list.n, sizeof *list.rows,
                  !list.down               ? row_up
                  : list.sort == SORT_NAME ? row_name_down
                                           : row_down);
        }
        list_answer(request, &list);
    } else {
        web_error(request, 507, "out_of_memory", "out of memory");
    }
    session_let_go(session);
    for (size_t i = 0; i < list.n; i++) {
        catalog_release(list.rows[i].entry);
    }
    free(list.rows);
}
