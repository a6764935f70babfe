/* plan_json.c - prints plans as JSON, schema bloomgate.plan.1 (plan_output.h). */
#include "plan_output.h"

#include "json.h"

/* Prints a value, or nothing if the value is not set. */
static void plan_json_given(struct json *json, const char *name, double value)
{
    if (value > 0) {
        json_real(json, name, value);
    }
}

static void plan_json_request(struct json *json, const bg_plan_request *ask)
{
    json_object(json, "request");
    json_text(json, "kind", bg_kind_name((bg_kind)ask->spec.kind));
    json_count(json, "items", ask->spec.items);
    plan_json_given(json, "rate", ask->spec.rate);
    plan_json_given(json, "bits_per_key", ask->spec.bits_per_key);
    if (ask->spec.bytes) {
        json_count(json, "bytes", ask->spec.bytes);
    }
    if (ask->spec.k) {
        json_count(json, "k", ask->spec.k);
    }
    if (ask->spec.folds) {
        json_count(json, "folds", ask->spec.folds);
    }
    plan_json_given(json, "growth", ask->growth);
    plan_json_given(json, "queries_per_second", ask->queries_per_second);
    plan_json_given(json, "absent_share", ask->absent_share);
    plan_json_given(json, "call_cost", ask->call_cost);
    plan_json_given(json, "memory_cost", ask->memory_cost);
    plan_json_given(json, "call_seconds", ask->call_seconds);
    plan_json_given(json, "latency_seconds", ask->latency_objective);
    json_close(json, '}');
}

static void plan_json_speed(struct json *json, const struct measured *speed)
{
    json_object(json, "measured");
    json_count(json, "keys", speed->keys);
    json_count(json, "bytes", speed->bytes);
    json_real(json, "build_ns_per_key", speed->build_ns);
    json_real(json, "batch_present_per_second", 1e9 / speed->present_ns);
    json_real(json, "batch_absent_per_second", 1e9 / speed->absent_ns);
    json_real(json, "single_per_second", 1e9 / speed->single_ns);
    json_real(json, "rate", speed->rate.value);
    json_close(json, '}');
}

/* Prints the rate with more keys than planned, or null if the filter does not have space for these
 * keys. */
static void plan_json_then(struct json *json, const char *name,
                           const struct plan_row *row, double rate)
{
    json_real(json, name, plan_takes_more(row, rate) ? rate : 1.0 / 0.0);
}

static void plan_json_plan(struct json *json, const struct plan_rows *plans,
                           const struct plan_row *row, const struct measured *speed)
{
    const bg_plan *plan = &row->plan;
    json_count(json, "items", plan->items);
    json_count(json, "bytes", plan->bytes);
    json_real(json, "bits_per_key", plan->bits_per_key);
    json_count(json, "k", plan->k);
    json_count(json, "units", plan->units);
    json_count(json, "layers", plan->layers);
    json_real(json, "rate", plan->rate);
    plan_json_then(json, "rate_2x", row, plan->rate_2x);
    plan_json_then(json, "rate_10x", row, plan->rate_10x);
    json_real(json, "fill", plan->fill);
    plan_json_given(json, "target", plan->target);
    json_count(json, "cache_level", plan->cache_level);
    json_count(json, "lines_per_lookup", plan->lines_per_lookup);
    if (plan_has_queries(plans)) {
        json_real(json, "calls_avoided_per_second", plan->calls_avoided);
        json_real(json, "calls_wasted_per_second", plan->calls_wasted);
    }
    if (plan_has_costs(plans)) {
        json_real(json, "cost_per_second", plan->cost);
    }
    if (speed) {
        plan_json_speed(json, speed);
    }
}

static void plan_json_row(struct json *json, const struct plan_rows *plans,
                          const struct plan_speeds *speeds, size_t i)
{
    const struct plan_row *row = &plans->rows[i];
    json_object(json, NULL);
    json_text(json, "kind", bg_kind_name(row->kind));
    json_bool(json, "possible", !row->err);
    if (row->err) {
        json_text(json, "why", row->why);
    } else {
        plan_json_plan(json, plans, row,
                       speeds->rows[i].measured ? &speeds->rows[i].speed : NULL);
    }
    json_close(json, '}');
}

void plan_print_json(const struct plan_rows *plans, const struct plan_speeds *speeds)
{
    struct json json;
    char text[PLAN_TEXT];
    json_begin(&json, "bloomgate.plan.1");
    plan_json_request(&json, &plans->ask);
    json_list(&json, "kinds");
    for (size_t i = 0; i < plans->count; i++) {
        plan_json_row(&json, plans, speeds, i);
    }
    json_close(&json, ']');
    if (!plans->best.err) {
        json_object(&json, "recommended");
        json_text(&json, "kind", bg_kind_name(plans->best.plan.kind));
        json_text(&json, "reason", plans->best.plan.reason);
        json_close(&json, '}');
    }
    json_list(&json, "hints");
    for (size_t i = 0; plan_hint(plans, i, text); i++) {
        json_text(&json, NULL, text);
    }
    json_close(&json, ']');
    if (speeds->calibrated) {
        json_real(&json, "keyed_hash_ns", speeds->keyed_hash_ns);
    }
    json_end(&json);
}
