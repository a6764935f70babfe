/*
 * web_filters.c - filters over HTTP: listed, made, described, changed. What changes one is done by
 * the command of the same name (BG.CREATE, BG.CLEAR, ...), so rights, limits and durability are
 * the same everywhere.
 */
#include "args.h"
#include "observer.h"
#include "pattern.h"
#include "server.h"
#include "web.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Health ------------------------------------------------------------------------------------ */

enum health { HEALTH_FINE, HEALTH_WATCH, HEALTH_ACT, HEALTH_UNKNOWN };

static const char *const health_names[] = { "fine", "watch", "act", "unknown" };

/* One reason: worse ones win. */
struct reason {
    enum health status;
    const char *code;
    char text[200];
};

/* What is to be said of a filter that was examined; returns how many reasons there are. */
static size_t health_reasons(const struct figures *figures, struct reason reasons[8])
{
    const bg_slot_health *h = &figures->health;
    size_t n = 0;
    if (h->overflowed) {
        reasons[n] = (struct reason){ HEALTH_ACT, "overflowed", "" };
        (void)snprintf(
            reasons[n++].text, 200,
            "it was full, so it answers \"maybe\" to everything: build a larger one");
    }
    if (h->degraded) {
        reasons[n] = (struct reason){ HEALTH_ACT, "degraded", "" };
        (void)snprintf(
            reasons[n++].text, 200,
            "parts of its file were damaged and answer \"maybe\": build it anew");
    }
    if (h->polluted) {
        reasons[n] = (struct reason){ HEALTH_ACT, "polluted", "" };
        (void)snprintf(
            reasons[n++].text, 200,
            "adds set %.2f bits each where %.2f are honest: somebody chooses its keys",
            h->bits_per_insert, h->honest_per_insert);
    }
    if (h->target > 0 && h->rate > 1.25 * h->target) {
        reasons[n] =
            (struct reason){ h->rate > 2 * h->target ? HEALTH_ACT : HEALTH_WATCH,
                             "predicted", "" };
        (void)snprintf(
            reasons[n++].text, 200,
            "its rate of false positives is %.3g, it was made for %.3g: build a larger "
            "one",
            h->rate, h->target);
    }
    if (h->capacity > 0 && h->items.value > 0.9 * (double)h->capacity) {
        reasons[n] = (struct reason){
            h->items.value > (double)h->capacity ? HEALTH_ACT : HEALTH_WATCH, "fill", ""
        };
        (void)snprintf(
            reasons[n++].text, 200, "%.0f of %llu keys are in: build a larger one %s",
            h->items.value, (unsigned long long)h->capacity,
            h->items.value > (double)h->capacity ? "now" : "before it is full");
    }
    return n;
}

static enum health health_of(const struct object *object, const struct figures *figures)
{
    struct reason reasons[8];
    if (!object_is_whole(object)) {
        return HEALTH_ACT;
    }
    if (!figures->examined) {
        return HEALTH_UNKNOWN;
    }
    enum health worst = HEALTH_FINE;
    const size_t n = health_reasons(figures, reasons);
    for (size_t i = 0; i < n; i++) {
        worst = reasons[i].status > worst ? reasons[i].status : worst;
    }
    return worst;
}

static void health_write(struct json *json, const struct object *object,
                         const struct figures *figures)
{
    struct reason reasons[8];
    size_t n = 0;
    json_object(json, "health");
    json_text(json, "status", health_names[health_of(object, figures)]);
    json_list(json, "reasons");
    if (!object_is_whole(object)) {
        json_object(json, NULL);
        json_text(json, "code", "degraded");
        json_text(
            json, "text",
            "its content is not to be had, so it answers \"maybe\" and takes no keys: load it "
            "again");
        json_close(json, '}');
    } else if (figures->examined) {
        n = health_reasons(figures, reasons);
    }
    for (size_t i = 0; i < n; i++) {
        json_object(json, NULL);
        json_text(json, "code", reasons[i].code);
        json_text(json, "text", reasons[i].text);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}');
}

/* ---- A filter as JSON ---------------------------------------------------------------------------- */

static const char *const family_names[] = { "bg", "bf", "cf", "bg" };

static void filter_counters(struct json *json, const bg_slot_stats *stats)
{
    json_object(json, "counters");
    json_count(json, "queries", stats->queries);
    json_count(json, "maybes", stats->maybes);
    json_count(json, "adds", stats->adds);
    json_count(json, "news", stats->news);
    json_count(json, "refused", stats->refused);
    json_close(json, '}');
}

/* The rate that callers have told of: BG.OBSERVE. */
static bool filter_observed(const struct object *object, const bg_slot_stats *stats,
                            bg_estimate *observed)
{
    const uint64_t absent = atomic_load(&object->said_absent);
    const uint64_t told = absent + atomic_load(&object->said_present);
    const uint64_t denied = stats->queries - stats->maybes;
    if (told == 0) {
        return false;
    }
    *observed = bg_observed_rate(absent, absent + denied);
    return true;
}

static void filter_summary(struct json *json, struct web_request *request,
                           struct entry *entry)
{
    const struct server *server = request->session->server;
    struct object *object = entry->object;
    const struct figures figures = observer_figures(server->observer, entry);
    const bg_slot_health *h = &figures.health;
    const bool known = figures.examined != 0;
    bg_slot_stats stats = { .struct_size = sizeof stats };
    bg_estimate observed = { 0, 0, 0 };
    if (!object->slot || bg_slot_about(object->slot, &stats)) {
        memset(&stats, 0, sizeof stats);
    }
    const uint64_t capacity = object_capacity(object), now = request->session->now;
    const uint64_t expires = atomic_load(&entry->expires);
    web_json_name(json, "name", catalog_name(entry));
    json_text(json, "family", family_names[object->shape.family]);
    json_text(json, "kind", bg_kind_name((bg_kind)object->shape.kind));
    json_count(json, "bytes", object_bytes(object));
    json_count(json, "layers", object_layers(object));
    if (capacity) {
        json_count(json, "capacity", capacity);
    } else {
        json_null(json, "capacity");
    }
    web_json_known(json, "target", object->shape.rate > 0 || (known && h->target > 0),
                   known && h->target > 0 ? h->target : object->shape.rate);
    web_json_estimate(json, "items", known, &h->items);
    web_json_known(json, "fill", known, h->fill);
    web_json_known(json, "predicted", known, h->rate);
    web_json_estimate(json, "measured", known, &h->measured);
    const bool told = filter_observed(object, &stats, &observed);
    web_json_estimate(json, "observed", told, &observed);
    web_json_known(json, "examined", known, (double)figures.examined / 1000);
    filter_counters(json, &stats);
    json_count(json, "avoided", stats.queries - stats.maybes);
    if (told) {
        json_count(json, "wasted", atomic_load(&object->said_absent));
    } else {
        json_null(json, "wasted");
    }
    json_exact(json, "age_seconds",
               now > entry->created ? (double)(now - entry->created) / 1000 : 0);
    web_json_known(json, "expires_in_seconds", expires != 0,
                   expires > now ? (double)(expires - now) / 1000 : 0);
    json_bool(json, "degraded", !object_is_whole(object) || (known && h->degraded));
    json_bool(json, "overflowed", known && h->overflowed);
    json_bool(json, "polluted", known && h->polluted);
    json_bool(json, "rebuilding", stats.rebuilding);
    json_null(json, "gate");
    health_write(json, object, &figures);
}

static void filter_can(struct json *json, bg_kind kind)
{
    static const struct {
        uint32_t trait;
        const char *name;
    } known[] = { { BG_CAN_REMOVE, "remove" },   { BG_CAN_COUNT, "count" },
                  { BG_CAN_MERGE, "merge" },     { BG_CAN_FOLD, "fold" },
                  { BG_CAN_OVERLAP, "overlap" }, { BG_CAN_ENUMERATE, "enumerate" },
                  { BG_CAN_RESIZE, "resize" } };
    const uint32_t traits = bg_kind_traits(kind);
    json_list(json, "can");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (traits & known[i].trait) {
            json_text(json, NULL, known[i].name);
        }
    }
    if (kind == BG_KIND_WINDOW) {
        json_text(json, NULL, "rotate");
    }
    json_text(json, NULL, "clear");
    if (!(traits & BG_IS_STATIC)) {
        json_text(json, NULL, "add");
    }
    json_close(json, ']');
}

static void filter_geometry(struct json *json, const struct object *object)
{
    bg_info about = { .struct_size = sizeof about };
    bg_pin pin;
    bool known = false;
    if (object->slot) {
        bg_slot_pin(object->slot, &pin);
        const bg_filter *base = object_base(&pin);
        known = base && bg_filter_info(base, &about) == BG_OK;
        bg_slot_unpin(object->slot, &pin);
    }
    json_object(json, "geometry");
    json_count(json, "units", known ? about.units : 0);
    json_count(json, "bits", known ? about.bits : 8 * object_bytes(object));
    json_count(json, "k", known ? about.k : 0);
    json_count(json, "width", known ? about.width : 0);
    json_count(json, "shards", known ? about.shards : 1);
    json_count(json, "foldable", known ? about.foldable : 0);
    json_close(json, '}');
    web_json_known(json, "bits_per_key", known && about.items.value >= 1,
                   (double)about.bits / about.items.value);
    if (known) {
        json_count(json, "ones", about.ones);
        json_count(json, "saturated", about.saturated);
    } else {
        json_null(json, "ones");
        json_null(json, "saturated");
    }
}

static void filter_secret(struct json *json, const struct object_shape *shape)
{
    char key_id[BG_KEY_ID_BYTES + 1] = "";
    memcpy(key_id, shape->key_id, BG_KEY_ID_BYTES);
    json_object(json, "hash");
    json_text(json, "profile", bg_hash_name((bg_hash_profile)shape->hash));
    if (key_id[0]) {
        json_text(json, "key_id", key_id);
    } else {
        json_null(json, "key_id");
    }
    json_close(json, '}');
}

static void filter_past(struct json *json, const bg_slot_stats *stats)
{
    json_object(json, "history");
    json_count(json, "swaps", stats->swaps);
    json_count(json, "reloads", stats->reloads);
    json_count(json, "reloads_unchanged", stats->reload_unchanged);
    json_count(json, "reloads_failed", stats->reload_failures);
    json_count(json, "rebuilds", stats->rebuilds);
    json_count(json, "rebuilds_failed", stats->rebuild_failures);
    json_count(json, "compactions", stats->compactions);
    json_count(json, "retired_lists", stats->retired);
    json_close(json, '}');
    json_bool(json, "migrating", stats->migrating);
    json_null(json, "rebuild");
    if (stats->last_failure.message[0]) {
        json_text(json, "last_failure", stats->last_failure.message);
    } else {
        json_null(json, "last_failure");
    }
}

static void filter_window(struct json *json, const struct object_shape *shape)
{
    if (shape->kind != BG_KIND_WINDOW) {
        json_null(json, "window");
        return;
    }
    json_object(json, "window");
    json_text(json, "mode",
              shape->window_mode == BG_WINDOW_AGED ? "aged" : "generations");
    json_count(json, "generations",
               shape->window_generations ? shape->window_generations : 8);
    web_json_known(json, "seconds", shape->window_length != 0,
                   (double)shape->window_length / 1000);
    if (shape->window_count) {
        json_count(json, "count", shape->window_count);
    } else {
        json_null(json, "count");
    }
    json_close(json, '}');
}

static void filter_whole(struct json *json, struct web_request *request,
                         struct entry *entry)
{
    struct object *object = entry->object;
    const struct figures figures =
        observer_figures(request->session->server->observer, entry);
    const bool known = figures.examined && figures.health.bits_per_insert > 0;
    bg_slot_stats stats = { .struct_size = sizeof stats };
    if (!object->slot || bg_slot_about(object->slot, &stats)) {
        memset(&stats, 0, sizeof stats);
    }
    filter_geometry(json, object);
    filter_secret(json, &object->shape);
    filter_can(json, (bg_kind)object->shape.kind);
    json_exact(json, "created", (double)entry->created / 1000);
    json_count(json, "generation", stats.generation);
    json_count(json, "complete_sequence", stats.complete);
    if (entry->base.digest[0]) {
        json_text(json, "digest", entry->base.digest);
    } else {
        json_null(json, "digest");
    }
    web_json_known(json, "ones_per_insert", known, figures.health.bits_per_insert);
    web_json_known(json, "honest_ones_per_insert", known,
                   figures.health.honest_per_insert);
    filter_past(json, &stats);
    filter_window(json, &object->shape);
    if (object->shape.family == OBJECT_BG) {
        json_null(json, "growth");
    } else {
        json_object(json, "growth");
        if (object->shape.expansion) {
            json_count(json, "expansion", object->shape.expansion);
        } else {
            json_null(json, "expansion");
        }
        json_count(json, "expansions", atomic_load(&object->expansions));
        json_close(json, '}');
    }
}

void web_json_filter(struct json *json, struct web_request *request,
                     struct entry *entry, bool whole)
{
    filter_summary(json, request, entry);
    if (whole) {
        filter_whole(json, request, entry);
    }
}

/* A name may change only between batches: it is read inside of one. */
void web_answer_filter(struct web_request *request, struct entry *entry, int status)
{
    struct web_json json;
    struct session *session = request->session;
    const bool outside = !session->inside;
    if (!web_json_begin(&json)) {
        web_error(request, 507, "out_of_memory", "out of memory");
        return;
    }
    if (outside) {
        quiet_enter(&session->server->quiet, session->seat);
    }
    web_json_filter(&json.json, request, entry, true);
    if (outside) {
        quiet_leave(&session->server->quiet, session->seat);
    }
    request->answer.status = status;
    web_json_end(request, &json);
}

/* ---- Lists ---------------------------------------------------------------------------------------- */

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
        return strcmp(list->health, health_names[health_of(entry->object, &f)]) == 0;
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
    if (!web_json_begin(&json)) {
        web_error(request, 507, "out_of_memory", "out of memory");
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

static void filters_list(struct web_request *request)
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

/* ---- One filter ------------------------------------------------------------------------------------ */

static void filters_get(struct web_request *request)
{
    bg_bytes name;
    bool examine = false;
    struct entry *entry = NULL;
    if (!web_name(request, 3, &name) || !web_flag(request, "examine", &examine)
        || !web_may(request, "BG.INFO")
        || !(entry = web_find(request, name, USER_READ))) {
        return;
    }
    if (examine) {
        (void)observer_examine(request->session->server->observer, entry);
    }
    web_answer_filter(request, entry, 200);
}

/* Runs COMMAND NAME and answers with the filter as it is then. */
static void filters_do(struct web_request *request, const char *command,
                       const bg_bytes *more, size_t n)
{
    bg_bytes argv[1024], name;
    if (!web_name(request, 3, &name) || !web_find(request, name, USER_READ)) {
        return;
    }
    argv[0] = (bg_bytes){ command, strlen(command) };
    argv[1] = name;
    for (size_t i = 0; i < n; i++) {
        argv[2 + i] = more[i];
    }
    if (!web_command(request, argv, 2 + n)) {
        return;
    }
    struct entry *entry = web_find(request, name, USER_READ);
    if (entry) {
        web_answer_filter(request, entry, 200);
    }
}

static void filters_drop(struct web_request *request)
{
    bg_bytes name;
    if (!web_name(request, 3, &name)
        || !web_find(request, name, USER_READ | USER_WRITE)) {
        return;
    }
    const bg_bytes argv[] = { { "BG.DROP", 7 }, name };
    if (web_command(request, argv, 2)) {
        request->answer.status = 204;
    }
}

static void filters_clear(struct web_request *request)
{
    filters_do(request, "BG.CLEAR", NULL, 0);
}

static void filters_rotate(struct web_request *request)
{
    filters_do(request, "BG.ROTATE", NULL, 0);
}

static void filters_fold(struct web_request *request)
{
    struct json_reader r;
    struct json_span name;
    uint64_t times = 1;
    char text[24];
    if (!web_body(request, &r)) {
        return;
    }
    if (request->body.len && json_read_open(&r, '{')) {
        while (json_read_member(&r, &name)) {
            if (json_read_is(&name, "times")) {
                (void)json_read_count(&r, &times);
            } else {
                (void)json_read_skip(&r);
            }
        }
    }
    if (!web_body_end(request, &r)) {
        return;
    }
    if (times < 1 || times > 20) {
        web_error(request, 400, "bad_request", "times: found %llu, expected 1 to 20",
                  (unsigned long long)times);
        return;
    }
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)times);
    const bg_bytes more = { text, strlen(text) };
    filters_do(request, "BG.FOLD", &more, 1);
}

static void filters_merge(struct web_request *request)
{
    struct json_reader r;
    struct json_span member, text;
    bg_bytes from[1000];
    size_t n = 0;
    if (!web_body(request, &r)) {
        return;
    }
    if (json_read_open(&r, '{')) {
        while (json_read_member(&r, &member)) {
            const bool base64 = json_read_is(&member, "from_base64");
            if (!base64 && !json_read_is(&member, "from")) {
                (void)json_read_skip(&r);
                continue;
            }
            if (!json_read_open(&r, '[')) {
                break;
            }
            while (json_read_element(&r) && json_read_string(&r, &text) && n < 1000) {
                from[n] = (bg_bytes){ text.bytes, text.len };
                if (base64
                    && !web_base64_read(from[n], (char *)text.bytes, &from[n].len)) {
                    r.error = "base64";
                }
                n++;
            }
        }
    }
    if (!web_body_end(request, &r)) {
        return;
    }
    if (n == 0) {
        web_error(request, 400, "bad_request",
                  "from: found none, expected 1 to 1000 names");
        return;
    }
    filters_do(request, "BG.MERGE", from, n);
}

static void filters_occupancy(struct web_request *request)
{
    bg_bytes name;
    uint64_t cells = 0;
    struct entry *entry = NULL;
    struct web_json json;
    if (!web_name(request, 3, &name)
        || !web_count(request, "cells", 1, 16384, 1024, &cells)
        || !web_may(request, "BG.INFO")
        || !(entry = web_find(request, name, USER_READ))) {
        return;
    }
    bg_pin pin;
    bg_err err = BG_ENOTSUP;
    const uint64_t words = object_bytes(entry->object) / 8;
    cells = cells < words ? cells : words ? words : 1;
    double *shares = calloc(cells, sizeof *shares);
    if (entry->object->slot && shares) {
        bg_slot_pin(entry->object->slot, &pin);
        const bg_filter *base = object_base(&pin);
        err = base ? bg_filter_occupancy(base, shares, cells) : BG_ENOTSUP;
        bg_slot_unpin(entry->object->slot, &pin);
    }
    if (err || !web_json_begin(&json)) {
        web_failed(request, err ? err : BG_ENOMEM, NULL);
        free(shares);
        return;
    }
    double least = 1, most = 0, sum = 0;
    for (size_t i = 0; i < cells; i++) {
        least = shares[i] < least ? shares[i] : least;
        most = shares[i] > most ? shares[i] : most;
        sum += shares[i];
    }
    json_count(&json.json, "cells", cells);
    json_exact(&json.json, "cell_bits",
               8 * (double)object_bytes(entry->object) / (double)cells);
    json_exact(&json.json, "least", least);
    json_exact(&json.json, "mean", sum / (double)cells);
    json_exact(&json.json, "most", most);
    json_list(&json.json, "shares");
    for (size_t i = 0; i < cells; i++) {
        json_real(&json.json, NULL, shares[i]);
    }
    json_close(&json.json, ']');
    web_json_end(request, &json);
    free(shares);
}

/* ---- Making and changing ----------------------------------------------------------------------------- */

/* Words of a command, with the memory of those that are numbers. */
struct words {
    bg_bytes argv[64];
    size_t n;
    char numbers[32][40];
    size_t numbers_used;
    bg_bytes name;
    bool has_name, expires;
    double expires_in;
};

static void words_add(struct words *words, const char *word)
{
    words->argv[words->n++] = (bg_bytes){ word, strlen(word) };
}

static void words_real(struct words *words, const char *option, struct json_reader *r)
{
    double value = 0;
    if (json_read_real(r, &value) && words->numbers_used < 32) {
        char *text = words->numbers[words->numbers_used++];
        (void)snprintf(text, 40,
                       value == floor(value) && fabs(value) < 1e15 ? "%.0f" : "%.17g",
                       value);
        words_add(words, option);
        words_add(words, text);
    }
}

static void words_text(struct words *words, const char *option, struct json_reader *r)
{
    struct json_span text;
    if (json_read_string(r, &text)) {
        words_add(words, option);
        words->argv[words->n++] = (bg_bytes){ text.bytes, text.len };
    }
}

static void words_name(struct words *words, struct json_reader *r, bool base64)
{
    struct json_span text = { NULL, 0 };
    if (!json_read_string(r, &text)) {
        return;
    }
    words->name = (bg_bytes){ text.bytes, text.len };
    words->has_name = true;
    if (base64 && !web_base64_read(words->name, (char *)text.bytes, &words->name.len)) {
        r->error = "base64 as name_base64";
    }
}

static void words_window(struct words *words, struct json_reader *r)
{
    struct json_span member, mode;
    double seconds = 0;
    if (!json_read_open(r, '{')) {
        return;
    }
    while (json_read_member(r, &member)) {
        if (json_read_is(&member, "seconds")) {
            if (json_read_real(r, &seconds) && words->numbers_used < 32) {
                char *text = words->numbers[words->numbers_used++];
                (void)snprintf(text, 40, "%.0f", seconds * 1000);
                words_add(words, "WINDOW");
                words_add(words, text);
            }
        } else if (json_read_is(&member, "count")) {
            words_real(words, "COUNT", r);
        } else if (json_read_is(&member, "generations")) {
            words_real(words, "GENERATIONS", r);
        } else if (json_read_is(&member, "mode")) {
            if (json_read_string(r, &mode) && json_read_is(&mode, "aged")) {
                words_add(words, "AGED");
            }
        } else {
            (void)json_read_skip(r);
        }
    }
}

/* A member of FilterSpec. */
static void words_member(struct words *words, struct json_reader *r,
                         const struct json_span *name)
{
    static const struct {
        const char *member, *option;
        bool number;
    } known[] = { { "kind", "KIND", false },    { "capacity", "CAPACITY", true },
                  { "error", "ERROR", true },   { "bits_per_key", "BITS", true },
                  { "memory", "BYTES", true },  { "bits", "K", true },
                  { "folds", "FOLDS", true },   { "width", "WIDTH", true },
                  { "shards", "SHARDS", true }, { "hash", "HASH", false } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (json_read_is(name, known[i].member)) {
            if (known[i].number) {
                words_real(words, known[i].option, r);
            } else {
                words_text(words, known[i].option, r);
            }
            return;
        }
    }
    if (json_read_is(name, "name") || json_read_is(name, "name_base64")) {
        words_name(words, r, json_read_is(name, "name_base64"));
    } else if (json_read_is(name, "window")) {
        words_window(words, r);
    } else if (json_read_is(name, "expires_in_seconds")) {
        words->expires = true;
        if (!json_read_null(r)) {
            (void)json_read_real(r, &words->expires_in);
        }
    } else {
        r->error = "one of the members that are listed";
    }
}

static bool words_expire(struct web_request *request, const struct words *words,
                         bg_bytes name)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%.0f", words->expires_in * 1000);
    const bg_bytes forever[] = { { "PERSIST", 7 }, name };
    const bg_bytes some_time[] = { { "PEXPIRE", 7 }, name, { text, strlen(text) } };
    return words->expires_in > 0 ? web_command(request, some_time, 3)
                                 : web_command(request, forever, 2);
}

static void filters_create(struct web_request *request)
{
    struct json_reader r;
    struct json_span member;
    struct words words = { .n = 2 };
    if (!web_body(request, &r)) {
        return;
    }
    if (json_read_open(&r, '{')) {
        while (words.n < 60 && json_read_member(&r, &member)) {
            words_member(&words, &r, &member);
        }
    }
    if (!web_body_end(request, &r)) {
        return;
    }
    if (!words.has_name) {
        web_error(request, 400, "bad_request", "name: found none, expected a string");
        return;
    }
    words.argv[0] = (bg_bytes){ "BG.CREATE", 9 };
    words.argv[1] = words.name;
    if (!web_command(request, words.argv, words.n)
        || (words.expires && words.expires_in > 0
            && !words_expire(request, &words, words.name))) {
        return;
    }
    struct entry *entry = web_find(request, words.name, USER_READ);
    if (entry) {
        web_answer_filter(request, entry, 201);
    }
}

static void filters_change(struct web_request *request)
{
    struct json_reader r;
    struct json_span member;
    struct words words = { .n = 2 };
    bg_bytes name;
    if (!web_name(request, 3, &name) || !web_find(request, name, USER_READ | USER_WRITE)
        || !web_body(request, &r)) {
        return;
    }
    if (json_read_open(&r, '{')) {
        while (json_read_member(&r, &member)) {
            if (json_read_is(&member, "name") || json_read_is(&member, "name_base64")
                || json_read_is(&member, "expires_in_seconds")) {
                words_member(&words, &r, &member);
            } else {
                r.error = "name, name_base64 or expires_in_seconds";
            }
        }
    }
    if (!web_body_end(request, &r)) {
        return;
    }
    if (words.has_name) {
        const bg_bytes argv[] = { { "RENAMENX", 8 }, name, words.name };
        if (session_find(request->session, words.name)
            && (words.name.len != name.len
                || memcmp(words.name.data, name.data, name.len))) {
            web_error(request, 409, "exists",
                      "there is a filter of the new name already");
            return;
        }
        if (!web_command(request, argv, 3)) {
            return;
        }
        name = words.name;
    }
    if (words.expires && !words_expire(request, &words, name)) {
        return;
    }
    struct entry *entry = web_find(request, name, USER_READ);
    if (entry) {
        web_answer_filter(request, entry, 200);
    }
}

const struct web_route web_filter_routes[] = {
    { "GET", "/api/v1/filters", 0, filters_list },
    { "POST", "/api/v1/filters", WEB_CHANGES, filters_create },
    { "GET", "/api/v1/filters/*", 0, filters_get },
    { "PATCH", "/api/v1/filters/*", WEB_CHANGES, filters_change },
    { "DELETE", "/api/v1/filters/*", WEB_CHANGES, filters_drop },
    { "GET", "/api/v1/filters/*/occupancy", 0, filters_occupancy },
    { "POST", "/api/v1/filters/*/clear", WEB_CHANGES, filters_clear },
    { "POST", "/api/v1/filters/*/rotate", WEB_CHANGES, filters_rotate },
    { "POST", "/api/v1/filters/*/fold", WEB_CHANGES, filters_fold },
    { "POST", "/api/v1/filters/*/merge", WEB_CHANGES, filters_merge },
    { NULL, NULL, 0, NULL },
};
