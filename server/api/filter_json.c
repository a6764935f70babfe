/*
 * api/filter_json.c - writes a filter as JSON: either all members, or only those shown in lists.
 * See web.h.
 */
#include "api/handlers.h"
#include "core/server.h"

#include <string.h>

static const char *const family_names[] = { "bg", "bf", "cf", "bg" };

bool filter_observed(const struct object *object, const bg_slot_info *stats,
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

uint64_t filter_capacity(const struct object *object, const struct figures *figures)
{
    if (object_grows(object)) {
        return 0;
    }
    return figures->examined && figures->health.capacity ? figures->health.capacity
                                                         : object_design(object);
}

void filter_sum(struct filter_sums *sums, const struct object *object,
                const struct figures *figures, const bg_slot_info *stats)
{
    sums->count++;
    sums->bytes += object_bytes(object);
    if (figures->examined) {
        sums->items += figures->health.items.value;
        sums->has_items = true;
    }
    sums->stats.queries += stats->queries;
    sums->stats.maybes += stats->maybes;
    sums->stats.adds += stats->adds;
    sums->stats.news += stats->news;
    sums->stats.refused += stats->refused;
}

void filter_sum_items(struct json *json, const struct filter_sums *sums)
{
    web_json_known(json, "items", sums->has_items || sums->count == 0, sums->items);
}

static void filter_summary(struct json *json, struct web_request *request,
                           struct entry *entry)
{
    const struct server *server = request->session->server;
    struct object *object = entry->object;
    const struct figures figures = observer_figures(server->observer, entry);
    const bg_slot_health *h = &figures.health;
    const bool known = figures.examined != 0;
    bg_slot_info stats;
    bg_estimate observed = { 0, 0, 0 };
    object_about(object, &stats);
    const uint64_t capacity = filter_capacity(object, &figures);
    const uint64_t now = request->session->now;
    const uint64_t expires = atomic_load(&entry->expires);
    web_json_name(json, "name", catalog_name(entry));
    json_text(json, "family", family_names[object->shape.family]);
    json_text(json, "kind", bg_kind_name((bg_kind)object->shape.kind));
    json_count(json, "bytes", object_bytes(object));
    json_count(json, "layers", object_layers(object));
    web_json_nonzero(json, "capacity", capacity);
    web_json_known(json, "target", object->shape.rate > 0 || (known && h->target > 0),
                   known && h->target > 0 ? h->target : object->shape.rate);
    web_json_known(json, "requested", object->shape.rate > 0, object->shape.rate);
    web_json_estimate(json, "items", known, &h->items);
    web_json_known(json, "fill", known, h->fill);
    web_json_known(json, "predicted", known, h->rate);
    web_json_estimate(json, "measured", known, &h->measured);
    const bool told = filter_observed(object, &stats, &observed);
    web_json_estimate(json, "observed", told, &observed);
    web_json_known(json, "examined", known, (double)figures.examined / 1000);
    web_json_answers(json, &stats);
    json_count(json, "avoided", stats.queries - stats.maybes);
    web_json_count(json, "wasted", told, atomic_load(&object->said_absent));
    json_count(json, "false_negatives", atomic_load(&object->said_missing));
    json_exact(json, "age_seconds",
               now > entry->created ? (double)(now - entry->created) / 1000 : 0);
    web_json_known(json, "expires_in_seconds", expires != 0,
                   expires > now ? (double)(expires - now) / 1000 : 0);
    json_bool(json, "available", object_is_whole(object));
    json_bool(json, "degraded", known && h->degraded);
    json_bool(json, "overflowed", known && h->overflowed);
    json_bool(json, "polluted", known && h->polluted);
    json_bool(json, "rebuilding", stats.rebuilding);
    const struct health_report health = health_of(object, &figures);
    health_write(json, &health);
}

void web_json_can(struct json *json, bg_kind kind)
{
    static const struct {
        uint32_t trait;
        const char *name;
    } known[] = { { BG_TRAIT_REMOVE, "remove" },   { BG_TRAIT_COUNT, "count" },
                  { BG_TRAIT_MERGE, "merge" },     { BG_TRAIT_FOLD, "fold" },
                  { BG_TRAIT_OVERLAP, "overlap" }, { BG_TRAIT_ENUMERATE, "enumerate" },
                  { BG_TRAIT_RESIZE, "resize" } };
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
    if (!(traits & BG_TRAIT_STATIC)) {
        json_text(json, NULL, "add");
    }
    json_close(json, ']');
}

/* Writes the base filter's geometry as of its last examination. */
static void filter_geometry(struct json *json, const struct figures *figures)
{
    const bg_filter_info *base = &figures->base;
    if (!figures->has_base) {
        json_null(json, "geometry");
        json_null(json, "bits_per_key");
        json_null(json, "ones");
        json_null(json, "saturated");
        return;
    }
    json_object(json, "geometry");
    json_count(json, "units", base->units);
    json_count(json, "bits", base->bits);
    json_count(json, "k", base->k);
    json_count(json, "width", base->width);
    json_count(json, "shards", base->shards);
    json_count(json, "foldable", base->foldable);
    json_close(json, '}');
    web_json_known(json, "bits_per_key", base->items.value >= 1,
                   (double)base->bits / base->items.value);
    json_count(json, "ones", base->ones);
    json_count(json, "saturated", base->saturated);
}

static void filter_secret(struct json *json, const struct object_shape *shape)
{
    char key_id[BG_KEY_ID_BYTES + 1] = "";
    memcpy(key_id, shape->key_id, BG_KEY_ID_BYTES);
    json_object(json, "hash");
    json_text(json, "profile", bg_hash_name((bg_hash_profile)shape->hash));
    json_text(json, "key_id", key_id[0] ? key_id : NULL);
    json_close(json, '}');
}

static void filter_past(struct json *json, const bg_slot_info *stats)
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
    json_text(json, "last_failure",
              stats->last_failure.message[0] ? stats->last_failure.message : NULL);
}

static void filter_window(struct json *json, const struct object *object)
{
    const struct object_shape *shape = &object->shape;
    const bool known = shape->window_generations || !shape->imported;
    if (shape->kind != BG_KIND_WINDOW) {
        json_null(json, "window");
        return;
    }
    json_object(json, "window");
    /* a file does not always record the mode of its filter */
    json_text(json, "mode",
              !known                                 ? NULL
              : shape->window_mode == BG_WINDOW_AGED ? "aged"
                                                     : "generations");
    json_count(json, "generations",
               shape->window_generations ? shape->window_generations
                                         : object_layers(object));
    web_json_known(json, "seconds", shape->window_length != 0,
                   (double)shape->window_length / 1000);
    web_json_nonzero(json, "count", shape->window_count);
    json_close(json, '}');
}

static void filter_whole(struct json *json, struct web_request *request,
                         struct entry *entry)
{
    struct object *object = entry->object;
    const struct figures figures =
        observer_figures(request->session->server->observer, entry);
    const bool known = figures.examined && figures.health.bits_per_insert > 0;
    char digest[BG_DIGEST_TEXT_BYTES];
    bg_slot_info stats;
    object_about(object, &stats);
    catalog_digest(request->session->server->catalog, entry, digest);
    filter_geometry(json, &figures);
    filter_secret(json, &object->shape);
    web_json_can(json, (bg_kind)object->shape.kind);
    json_exact(json, "created", (double)entry->created / 1000);
    json_count(json, "generation", stats.generation);
    json_count(json, "complete_sequence", stats.complete);
    json_text(json, "digest", digest[0] ? digest : NULL);
    web_json_known(json, "ones_per_insert", known, figures.health.bits_per_insert);
    web_json_known(json, "honest_ones_per_insert", known,
                   figures.health.honest_per_insert);
    filter_past(json, &stats);
    filter_window(json, object);
    if (object->shape.family == OBJECT_BG) {
        json_null(json, "growth");
    } else {
        json_object(json, "growth");
        web_json_nonzero(json, "expansion", object->shape.expansion);
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

bool web_answer_filter(struct web_request *request, bg_bytes name, int status)
{
    struct json json;
    struct session *session = request->session;
    struct entry *entry = web_find(request, name, USER_READ);
    if (!entry || !web_json_begin(request, &json)) {
        return false;
    }
    observer_refresh(session->server->observer, entry);
    session_enter(session); /* names are valid only inside a batch */
    web_json_filter(&json, request, entry, true);
    session_let_go(session);
    request->answer.status = status;
    web_json_end(request, &json);
    return true;
}
