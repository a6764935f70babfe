/*
 * bg_info.c - BG.INFO: all information about a filter. Some values require counting set bits. Since
 * BG.INFO is called often and has to be fast, it samples only 4 MiB of any part that is larger than
 * 4 MiB.
 *
 * There are four rates:
 *
 *     target      the requested rate, at full capacity
 *     predicted   the rate at the current fill, according to the formula for the kind
 *     measured    the rate found by querying keys that were never added
 *     observed    the rate computed from callers' reports on positive answers (BG.OBSERVE)
 *
 * If callers report on a fraction s of the positive answers, and F of the reported answers were
 * false, then F / (s * number of "no" answers) estimates the ratio of false positives to true
 * negatives. The measured and observed rates have 95% confidence intervals.
 */
#include "bg_handlers.h"

#include "dump.h"

#include <math.h>
#include <string.h>

enum { INFO_READ = 4 << 20 };

/* A map reply whose size is not known in advance. All entries are visited twice; the first time,
 * they are only counted. */
struct info_map {
    struct request *request;
    size_t count;
    bool counting;
};

static bool info_entry(struct info_map *map, const char *title)
{
    map->count++;
    if (!map->counting) {
        reply_text(&map->request->reply, title);
    }
    return !map->counting;
}

static void info_text(struct info_map *map, const char *title, const char *value)
{
    if (info_entry(map, title)) {
        reply_text(&map->request->reply, value);
    }
}

static void info_count(struct info_map *map, const char *title, uint64_t value)
{
    if (info_entry(map, title)) {
        reply_count(&map->request->reply, value);
    }
}

static void info_flag(struct info_map *map, const char *title, bool value)
{
    if (info_entry(map, title)) {
        reply_boolean(&map->request->reply, value);
    }
}

static void info_real(struct info_map *map, const char *title, double value)
{
    if (info_entry(map, title)) {
        reply_real(&map->request->reply, isfinite(value) ? value : 0);
    }
}

static void info_estimate(struct info_map *map, const char *title,
                          const bg_estimate *value)
{
    if (info_entry(map, title)) {
        const bg_estimate finite = { isfinite(value->value) ? value->value : 0,
                                     isfinite(value->low) ? value->low : 0,
                                     isfinite(value->high) ? value->high : 0 };
        bgc_reply_estimate(map->request, finite);
    }
}

/* ---- Sections -------------------------------------------------------------------------------- */

/* The data that BG.INFO reports about a filter. */
struct info_facts {
    const struct object *object;
    bg_filter_info about; /* information about the base filter */
    bg_slot_health health;
    bg_slot_info stats;
    uint64_t capacity, bytes, done, total;
    uint32_t layers;
    bool whole, loading, rebuilding;
};

static bg_estimate info_observed(const struct info_facts *facts, uint64_t wrong,
                                 uint64_t right)
{
    const uint64_t noes = facts->stats.queries - facts->stats.maybes;
    const double maybes = (double)facts->stats.maybes, told = (double)(wrong + right);
    const double share = maybes > told ? told / maybes : 1;
    return bg_observed_rate(wrong, wrong + (uint64_t)((double)noes * share + 0.5));
}

static void info_rates(struct info_map *map, const struct info_facts *facts)
{
    const struct object *object = facts->object;
    const uint64_t wrong = atomic_load(&object->said_absent);
    const uint64_t right = atomic_load(&object->said_present);
    info_real(map, "target_rate", facts->health.target);
    info_real(map, "predicted_rate", facts->health.rate);
    info_estimate(map, "measured_rate", &facts->health.measured);
    if (wrong + right) {
        const bg_estimate observed = info_observed(facts, wrong, right);
        info_estimate(map, "observed_rate", &observed);
    } else if (info_entry(map, "observed_rate")) {
        reply_null(&map->request->reply);
    }
    info_count(map, "observed_false_positives", wrong);
    info_count(map, "observed_present", right);
    info_count(map, "observed_missing", atomic_load(&object->said_missing));
}

static void info_key_id(struct info_map *map, const struct object_shape *shape)
{
    char text[BG_KEY_ID_BYTES + 1] = { 0 };
    memcpy(text, shape->key_id, BG_KEY_ID_BYTES);
    info_text(map, "hash", bg_hash_name((bg_hash_profile)shape->hash));
    if (text[0]) {
        info_text(map, "key_id", text);
    } else {
        info_count(map, "seed", shape->seed);
    }
}

static void info_window(struct info_map *map, const struct info_facts *facts)
{
    const struct object_shape *shape = &facts->object->shape;
    info_text(map, "window_mode",
              shape->window_mode == BG_WINDOW_AGED ? "aged" : "generations");
    info_count(map, "window_generations", facts->layers);
    info_count(map, "window_milliseconds", shape->window_length);
    info_count(map, "window_items", shape->window_count);
    info_count(map, "window_moved", atomic_load(&facts->object->rotated));
}

/* Adds the entries that are common to all objects. */
static void info_common(struct info_map *map, const struct info_facts *facts)
{
    static const char *const families[] = { "", "bf", "cf", "bg" };
    const struct object *object = facts->object;
    info_text(map, "kind",
              object->foreign
                  ? bg_foreign_name((bg_foreign_format)object->shape.foreign)
              : facts->whole ? bg_kind_name((bg_kind)object->shape.kind)
                             : "unknown");
    info_text(map, "family", families[object->shape.family]);
    info_count(map, "capacity", facts->capacity);
    info_count(map, "items", atomic_load(&object->items));
    info_count(map, "deleted", atomic_load(&object->deleted));
    info_count(map, "bytes", facts->bytes);
    info_count(map, "layers", facts->layers);
    info_flag(map, "sealed", object->shape.sealed != 0);
    info_flag(map, "loading", facts->loading);
    info_flag(map, "lost", !facts->whole && !facts->loading);
    if (facts->loading) {
        info_count(map, "loaded_bytes", facts->done);
        info_count(map, "loading_bytes", facts->total);
    }
}

static void info_filter(struct info_map *map, const struct info_facts *facts)
{
    const struct object *object = facts->object;
    const bg_slot_info *stats = &facts->stats;
    info_estimate(map, "estimated_items", &facts->health.items);
    info_real(map, "fill", facts->health.fill);
    info_rates(map, facts);
    info_count(map, "k", facts->about.k);
    info_count(map, "units", facts->about.units);
    info_count(map, "shards", facts->about.shards);
    info_count(map, "foldable", facts->about.foldable);
    info_key_id(map, &object->shape);
    info_count(map, "generation", stats->generation);
    info_text(map, "digest", stats->digest);
    info_flag(map, "degraded", facts->health.degraded != 0);
    info_flag(map, "overflowed", facts->health.overflowed != 0);
    info_flag(map, "polluted", facts->health.polluted != 0);
    info_flag(map, "rebuilding", facts->rebuilding);
    info_count(map, "queries", stats->queries);
    info_count(map, "maybes", stats->maybes);
    info_count(map, "adds", stats->adds);
    info_count(map, "refused", stats->refused);
    if (object->shape.kind == BG_KIND_WINDOW) {
        info_window(map, facts);
    }
}

static void info_tell(struct info_map *map, const struct info_facts *facts)
{
    map->count = 0;
    info_common(map, facts);
    if (facts->whole && facts->object->slot) {
        info_filter(map, facts);
    }
}

static bg_err info_collect(struct object *object, struct info_facts *facts)
{
    bg_pin pin;
    facts->object = object;
    facts->loading = load_is_under_way(object);
    facts->whole = object_is_whole(object);
    facts->loading = facts->loading && !facts->whole;
    facts->capacity = object_design(object);
    facts->bytes = object_bytes(object);
    facts->layers = object_layers(object);
    (void)load_progress(object, &facts->done, &facts->total);
    if (!facts->whole || !object->slot) {
        return BG_OK;
    }
    facts->about.struct_size = sizeof facts->about;
    facts->health.struct_size = sizeof facts->health;
    facts->stats.struct_size = sizeof facts->stats;
    /* A sample of 1 byte is enough, because the fields used here do not depend on the sample. */
    bg_err err = bg_filter_sample_info(object_pin(object, &pin), 1, &facts->about);
    bg_slot_unpin(object->slot, &pin);
    err = err ? err : bg_slot_get_info(object->slot, &facts->stats);
    err = err ? err : bg_slot_sample_health(object->slot, INFO_READ, &facts->health);
    facts->rebuilding = facts->stats.rebuilding != 0;
    return err;
}

void bgc_info(struct request *request)
{
    struct object *object = args_find_any(request, request->argv[1]);
    struct info_facts facts = { 0 };
    if (!object) {
        return;
    }
    const bg_err err = info_collect(object, &facts);
    if (err) {
        args_failed(request, err, NULL, BGC_FULL);
        return;
    }
    struct info_map map = { .request = request, .counting = true };
    info_tell(&map, &facts);
    reply_map(&request->reply, map.count);
    map.counting = false;
    info_tell(&map, &facts);
}
