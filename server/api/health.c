/* api/health.c - the health of a filter or a gate: a status and its reasons, used in the API's lists,
 * pages and totals. See api/handlers.h. */
#include "api/handlers.h"
#include "number.h"

#include <stdarg.h>

const char *const health_names[] = { "fine", "watch", "act", "unknown" };

void health_reason(struct health_report *report, enum health status, const char *code,
                   const char *format, ...)
{
    va_list arguments;
    report->status = status > report->status ? status : report->status;
    report->reasons[report->n].code = code;
    va_start(arguments, format);
    (void)vsnprintf(report->reasons[report->n].text, sizeof report->reasons->text,
                    format, arguments);
    va_end(arguments);
    report->n++;
}

static enum health health_from(uint32_t health)
{
    return health == BG_HEALTH_ACT     ? HEALTH_ACT
           : health == BG_HEALTH_WATCH ? HEALTH_WATCH
                                       : HEALTH_FINE;
}

/* Returns whether the filter rejects new keys. A filter that has rejected keys accepts them again
 * after enough keys have been removed from it. */
static bool health_is_full(const struct object *object, const bg_slot_health *h)
{
    bg_slot_info stats;
    if (object_grows(object)) {
        return atomic_load(&object->stuck);
    }
    if (object->shape.nonscaling) {
        const uint64_t capacity = object_capacity(object);
        return capacity > 0 && atomic_load(&object->items) >= capacity;
    }
    object_about(object, &stats);
    return stats.refused > 0 && h->capacity > 0
           && h->items.high > BG_HEALTH_ITEMS_WATCH * (double)h->capacity;
}

struct health_report health_of(const struct object *object,
                               const struct figures *figures)
{
    struct health_report r = { .n = 0 };
    const bg_slot_health *h = &figures->health;
    const bg_health filled = bg_health_of_items(h->items, h->capacity);
    const uint64_t missing = atomic_load(&object->said_missing);
    if (!object_is_whole(object)) {
        bg_errinfo why = { 0 };
        (void)object_unavailable(object, &why);
        health_reason(&r, HEALTH_ACT, "unavailable",
                      "%s; until then, it answers \"maybe\" and accepts no adds",
                      why.message);
        return r;
    }
    if (!figures->examined) {
        r.status = HEALTH_UNKNOWN;
        return r;
    }
    if (missing) {
        health_reason(&r, HEALTH_ACT, "false_negatives",
                      "clients reported %llu false negative%s: keys were never added "
                      "or were lost; rebuild the filter",
                      (unsigned long long)missing, missing == 1 ? "" : "s");
    }
    if (h->overflowed) {
        health_reason(&r, HEALTH_ACT, "overflowed",
                      "the filter overflowed and answers \"maybe\" for every key: "
                      "rebuild it with a larger capacity");
    }
    if (h->degraded) {
        health_reason(&r, HEALTH_ACT, "degraded",
                      "parts of the filter's file were damaged and answer \"maybe\": "
                      "rebuild the filter");
    }
    if (h->polluted) {
        health_reason(
            &r, HEALTH_ACT, "polluted",
            "each add sets %.2f bits on average instead of the expected %.2f: "
            "the keys may have been chosen by an attacker",
            h->bits_per_insert, h->honest_per_insert);
    }
    if (h->rate_health != BG_HEALTH_FINE) {
        health_reason(&r, health_from(h->rate_health), "predicted",
                      "the false-positive rate is %s, but the target is %s: rebuild "
                      "with a larger capacity",
                      RATE_TEXT(h->rate), RATE_TEXT(h->target));
    }
    if (health_is_full(object, h)) {
        health_reason(&r, HEALTH_ACT, "full",
                      object_grows(object)
                          ? "the filter is full, cannot grow and rejects new keys: "
                            "raise the limit that it has reached (max-filter-memory, "
                            "maxmemory or quota-memory), or rebuild with a larger "
                            "capacity"
                          : "the filter is full and rejects new keys: rebuild with a "
                            "larger capacity");
    } else if (filled != BG_HEALTH_FINE) {
        const uint64_t items = (uint64_t)(h->items.value + 0.5);
        health_reason(&r, health_from(filled), "fill",
                      "the filter holds %s key%s and has a capacity of %s: rebuild "
                      "with a larger capacity %s",
                      COUNT_TEXT(items), items == 1 ? "" : "s", COUNT_TEXT(h->capacity),
                      filled == BG_HEALTH_ACT ? "now" : "before it holds more keys");
    }
    return r;
}

void health_write(struct json *json, const struct health_report *report)
{
    json_object(json, "health");
    json_text(json, "status", health_names[report->status]);
    json_list(json, "reasons");
    for (size_t i = 0; i < report->n; i++) {
        json_object(json, NULL);
        json_text(json, "code", report->reasons[i].code);
        json_text(json, "text", report->reasons[i].text);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}');
}
