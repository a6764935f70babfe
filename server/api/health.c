/* api/health.c - see api/health.h. */
#include "api/health.h"

#include <stdio.h>

static const char *const health_names[] = { "fine", "watch", "act", "unknown" };

const char *health_name(enum health health)
{
    return health_names[health];
}

/* A reason for a status. A filter's status is the status of its worst reason. */
struct reason {
    enum health status;
    const char *code;
    char text[200];
};

/* Collects the reasons for the status of an examined filter. Returns their number. */
static size_t health_reasons(const struct figures *figures, uint64_t missing,
                             struct reason reasons[8])
{
    const bg_slot_health *h = &figures->health;
    size_t n = 0;
    if (missing) {
        reasons[n] = (struct reason){ HEALTH_ACT, "false_negatives", "" };
        (void)snprintf(
            reasons[n++].text, 200,
            "clients reported %llu false negatives: the keys were never added or were "
            "lost; rebuild the filter",
            (unsigned long long)missing);
    }
    if (h->overflowed) {
        reasons[n] = (struct reason){ HEALTH_ACT, "overflowed", "" };
        (void)snprintf(
            reasons[n++].text, 200,
            "the filter overflowed and answers \"maybe\" for every key: rebuild it "
            "with a larger capacity");
    }
    if (h->degraded) {
        reasons[n] = (struct reason){ HEALTH_ACT, "degraded", "" };
        (void)snprintf(
            reasons[n++].text, 200,
            "parts of the filter's file were damaged and answer \"maybe\": rebuild the "
            "filter");
    }
    if (h->polluted) {
        reasons[n] = (struct reason){ HEALTH_ACT, "polluted", "" };
        (void)snprintf(
            reasons[n++].text, 200,
            "each add sets %.2f bits on average instead of the expected %.2f: the keys may have "
            "been chosen by an attacker",
            h->bits_per_insert, h->honest_per_insert);
    }
    if (h->target > 0 && h->rate > 1.25 * h->target) {
        reasons[n] =
            (struct reason){ h->rate > 2 * h->target ? HEALTH_ACT : HEALTH_WATCH,
                             "predicted", "" };
        (void)snprintf(
            reasons[n++].text, 200,
            "the false-positive rate is %.3g, but the target is %.3g: rebuild with a "
            "larger capacity",
            h->rate, h->target);
    }
    if (h->capacity > 0 && h->items.value > 0.9 * (double)h->capacity) {
        reasons[n] = (struct reason){
            h->items.value > (double)h->capacity ? HEALTH_ACT : HEALTH_WATCH, "fill", ""
        };
        (void)snprintf(
            reasons[n++].text, 200,
            "the filter holds %.0f keys and has a capacity of %llu: rebuild with a "
            "larger capacity %s",
            h->items.value, (unsigned long long)h->capacity,
            h->items.value > (double)h->capacity ? "now" : "before the filter is full");
    }
    return n;
}

enum health health_of(const struct object *object, const struct figures *figures)
{
    struct reason reasons[8];
    if (!object_is_whole(object)) {
        return HEALTH_ACT;
    }
    if (!figures->examined) {
        return HEALTH_UNKNOWN;
    }
    enum health worst = HEALTH_FINE;
    const size_t n =
        health_reasons(figures, atomic_load(&object->said_missing), reasons);
    for (size_t i = 0; i < n; i++) {
        worst = reasons[i].status > worst ? reasons[i].status : worst;
    }
    return worst;
}

void health_write(struct json *json, const struct object *object,
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
            "the filter's data is unavailable, so it answers \"maybe\" and accepts no "
            "adds: reload it");
        json_close(json, '}');
    } else if (figures->examined) {
        n = health_reasons(figures, atomic_load(&object->said_missing), reasons);
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
