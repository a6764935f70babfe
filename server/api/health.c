/* api/health.c - the health of a filter or a gate: a status and its reasons, used in the API's lists,
 * pages and totals. See api/handlers.h. */
#include "api/handlers.h"

#include <math.h>
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

/* A filter with more keys than this multiple of its capacity needs action. The number of keys is an
 * estimate, which varies by a few percent from one examination to the next. The margin, and the use
 * of the lower end of the interval, keep a filter at its planned size from switching between the two
 * states. */
#define HEALTH_OVER 1.05

/* Returns whether the filter rejects new keys. A filter that has rejected keys accepts them again
 * after enough keys have been removed from it. */
static bool health_is_full(const struct object *object, const bg_slot_health *h)
{
    bg_slot_info stats;
    if (object_grows(object)) {
        return false;
    }
    if (object->shape.nonscaling) {
        const uint64_t capacity = object_capacity(object);
        return capacity > 0 && atomic_load(&object->items) >= capacity;
    }
    object_about(object, &stats);
    return stats.refused > 0 && h->capacity > 0
           && h->items.high > 0.9 * (double)h->capacity;
}

struct health_report health_of(const struct object *object,
                               const struct figures *figures)
{
    struct health_report r = { .n = 0 };
    const bg_slot_health *h = &figures->health;
    const uint64_t missing = atomic_load(&object->said_missing);
    if (!object_is_whole(object)) {
        health_reason(&r, HEALTH_ACT, "degraded",
                      "the filter's data is unavailable, so it answers \"maybe\" and "
                      "accepts no adds: %s",
                      object->locked ? "add its secret to the keyring and restart the "
                                       "service"
                                     : "reload it");
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
    if (h->target > 0 && h->rate > 1.25 * h->target) {
        health_reason(
            &r, h->rate > 2 * h->target ? HEALTH_ACT : HEALTH_WATCH, "predicted",
            "the false-positive rate is %.3g, but the target is %.3g: rebuild "
            "with a larger capacity",
            h->rate, h->target);
    }
    if (health_is_full(object, h)) {
        health_reason(&r, HEALTH_ACT, "full",
                      "the filter is full and rejects new keys: rebuild with a larger "
                      "capacity");
    } else if (h->capacity > 0 && h->items.value > 0.9 * (double)h->capacity) {
        const bool over = h->items.low > HEALTH_OVER * (double)h->capacity;
        health_reason(&r, over ? HEALTH_ACT : HEALTH_WATCH, "fill",
                      "the filter holds %.0f key%s and has a capacity of %llu: rebuild "
                      "with a larger capacity %s",
                      h->items.value, round(h->items.value) == 1 ? "" : "s",
                      (unsigned long long)h->capacity,
                      over ? "now" : "before it holds more keys");
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
