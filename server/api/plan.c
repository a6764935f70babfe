/*
 * api/plan.c - GET /api/v1/plan: returns plans for all kinds of filters (plan_rows.h) and their
 * curves as JSON.
 */
#include "api/handlers.h"

#include "args.h"
#include "plan_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PLAN_POINTS = 200 };

static const struct plan_word plan_parameters[] = {
    { "rate, bits_per_key, bytes", "error, bits_per_key, memory" },
    { "bits_per_key, bytes", "bits_per_key, memory" },
    { "rate", "error" },
    { "bytes", "memory" },
    { "k", "bits" },
    { "folds, width", "folds" },
    { NULL, NULL },
};

/* ---- Request ----------------------------------------------------------------------------- */

/* Reads an optional number from 0 to `most`. */
static bool plan_read_real(struct web_request *request, const char *name,
                           bool (*parse)(bg_bytes text, double *value), double most,
                           double *value)
{
    if (!web_real(request, name, parse, 0, value)) {
        return false;
    }
    if (!(*value >= 0) || *value > most) {
        return web_error(request, 400, "bad_request",
                         "%s: found %g, expected a number from 0 to %g", name, *value,
                         most);
    }
    return true;
}

static bool plan_read(struct web_request *request, bg_plan_request *ask,
                      uint64_t *points)
{
    uint64_t folds = 0;
    double share = 1;
    bg_kind kind = (bg_kind)ask->spec.kind;
    if (!web_count(request, "items", 1, UINT64_C(1) << 62, 0, &ask->spec.items)
        || !web_kind(request, &kind)
        || !plan_read_real(request, "error", args_share, 1, &ask->spec.rate)
        || !plan_read_real(request, "bits_per_key", args_scaled, 1024,
                           &ask->spec.bits_per_key)
        || !web_count(request, "memory", 8, UINT64_C(1) << 62, 0, &ask->spec.bytes)
        || !web_count(request, "folds", 0, 20, 0, &folds)
        || !plan_read_real(request, "growth", args_scaled, 1e6, &ask->growth)
        || !plan_read_real(request, "queries_per_second", args_scaled, 1e18,
                           &ask->queries_per_second)
        || !web_real(request, "absent_share", args_share, 1, &share)
        || !plan_read_real(request, "call_cost", args_scaled, 1e18, &ask->call_cost)
        || !plan_read_real(request, "memory_cost", args_scaled, 1e18, &ask->memory_cost)
        || !plan_read_real(request, "call_seconds", args_seconds, 1e9,
                           &ask->call_seconds)
        || !plan_read_real(request, "latency_objective", args_seconds, 1e9,
                           &ask->latency_objective)
        || !web_count(request, "points", 0, PLAN_POINTS, 0, points)) {
        return false;
    }
    if (!(share >= 0) || share > 1) {
        return web_error(request, 400, "bad_request",
                         "absent_share: found %g, expected a number from 0 to 1",
                         share);
    }
    /* To the library, 0 means "unknown", so a share of 0 is replaced with a negligible share. */
    ask->absent_share = share > 0 ? share : 1e-300;
    ask->spec.folds = (uint32_t)folds;
    ask->spec.kind = kind;
    return true;
}

static bool plan_check(struct web_request *request, const bg_plan_request *ask)
{
    if (ask->spec.items == 0) {
        return web_error(request, 400, "bad_request",
                         "items is missing; expected an integer of at least 1");
    }
    if (!plan_is_sized(ask)) {
        return web_error(
            request, 400, "bad_request",
            "no size: set error, bits_per_key or memory; or queries_per_second, "
            "call_cost and memory_cost for the cheapest filter; or call_seconds and "
            "latency_objective");
    }
    return true;
}

/* ---- Response ---------------------------------------------------------------------------- */

static void plan_given(struct json *json, const char *name, double value)
{
    if (value > 0) {
        json_exact(json, name, value);
    }
}

static void plan_request(struct json *json, const bg_plan_request *ask)
{
    json_object(json, "request");
    json_count(json, "items", ask->spec.items);
    json_text(json, "kind", bg_kind_name((bg_kind)ask->spec.kind));
    plan_given(json, "error", ask->spec.rate);
    plan_given(json, "bits_per_key", ask->spec.bits_per_key);
    plan_given(json, "memory", (double)ask->spec.bytes);
    json_exact(json, "growth", ask->growth > 0 ? ask->growth : 1);
    json_count(json, "folds", ask->spec.folds);
    plan_given(json, "queries_per_second", ask->queries_per_second);
    json_exact(json, "absent_share",
               ask->absent_share < 1e-200 ? 0 : ask->absent_share);
    plan_given(json, "call_cost", ask->call_cost);
    plan_given(json, "memory_cost", ask->memory_cost);
    plan_given(json, "call_seconds", ask->call_seconds);
    plan_given(json, "latency_objective", ask->latency_objective);
    json_close(json, '}');
}

static void plan_figures(struct json *json, const struct plan_rows *plans,
                         const struct plan_row *row)
{
    const bg_plan *plan = &row->plan;
    const bool queries = plan_has_queries(plans);
    json_count(json, "items", plan->items);
    json_count(json, "bytes", plan->bytes);
    json_exact(json, "bits_per_key", plan->bits_per_key);
    json_count(json, "k", plan->k);
    json_count(json, "units", plan->units);
    json_count(json, "layers", plan->layers);
    json_exact(json, "rate", plan->rate);
    web_json_known(json, "rate_2x", plan_takes_more(row, plan->rate_2x), plan->rate_2x);
    web_json_known(json, "rate_10x", plan_takes_more(row, plan->rate_10x),
                   plan->rate_10x);
    json_exact(json, "fill", plan->fill);
    web_json_known(json, "target", plan->target > 0, plan->target);
    json_count(json, "cache_level", plan->cache_level);
    json_text(json, "fits_into", plan_fits_into(&plans->ask, plan));
    json_count(json, "lines_per_lookup", plan->lines_per_lookup);
    web_json_known(json, "calls_avoided", queries, plan->calls_avoided);
    web_json_known(json, "calls_wasted", queries, plan->calls_wasted);
    web_json_known(json, "cost", plan_has_costs(plans), plan->cost);
    json_text(json, "reason", plan->reason);
}

static void plan_row(struct json *json, const struct plan_rows *plans,
                     const struct plan_row *row)
{
    json_object(json, NULL);
    json_text(json, "kind", bg_kind_name(row->kind));
    json_bool(json, "possible", !row->err);
    json_text(json, "problem", row->err ? row->why : NULL);
    if (!row->err) {
        plan_figures(json, plans, row);
    }
    web_json_can(json, row->kind);
    json_close(json, '}');
}

/* Writes a list of n elements; `write` writes element i. */
#define PLAN_LIST(name, n, write)                                                      \
    json_list(json, name);                                                             \
    for (size_t i = 0; i < (n); i++) {                                                 \
        write;                                                                         \
    }                                                                                  \
    json_close(json, ']')

/* Writes the sizes for rates from 0.5 down to 1e-7, except rates that the kind does not support. */
static void plan_sizes(struct json *json, const struct plan_rows *plans, bg_kind kind,
                       size_t points)
{
    bg_plan sizes[PLAN_POINTS];
    size_t n = 0;
    for (size_t i = 0; i < points; i++) {
        const double part = points > 1 ? (double)i / (double)(points - 1) : 0;
        n += plan_for_rate(plans, kind, 0.5 * pow(2e-7, part), &sizes[n]);
    }
    PLAN_LIST("bits_per_key", n, json_exact(json, NULL, sizes[i].bits_per_key));
    PLAN_LIST("bytes", n, json_count(json, NULL, sizes[i].bytes));
    PLAN_LIST("rate", n, json_exact(json, NULL, sizes[i].rate));
}

/* Returns factor i of `points` factors, spaced logarithmically from 0.1 to 10. The middle factor is
 * exactly 1. */
static double plan_multiple(size_t i, size_t points)
{
    const size_t half = points / 2;
    const double middle = (double)half;
    return points < 2 ? 1 : pow(10, ((double)i - middle) / middle);
}

static void plan_curve(struct json *json, const struct plan_rows *plans,
                       const struct plan_row *row, size_t points)
{
    json_object(json, NULL);
    json_text(json, "kind", bg_kind_name(row->kind));
    plan_sizes(json, plans, row->kind, points);
    PLAN_LIST("multiple", points, json_exact(json, NULL, plan_multiple(i, points)));
    PLAN_LIST(
        "rate_at", points,
        json_exact(json, NULL, plan_rate_at(plans, row, plan_multiple(i, points))));
    json_close(json, '}');
}

static void plan_write(struct json *json, const struct plan_rows *plans, size_t points)
{
    char text[PLAN_TEXT];
    plan_request(json, &plans->ask);
    json_list(json, "kinds");
    for (size_t i = 0; i < plans->count; i++) {
        plan_row(json, plans, &plans->rows[i]);
    }
    json_close(json, ']');
    if (plans->best.err) {
        json_null(json, "recommended");
    } else {
        json_object(json, "recommended");
        json_text(json, "kind", bg_kind_name(plans->best.plan.kind));
        json_text(json, "reason", plans->best.plan.reason);
        json_close(json, '}');
    }
    json_list(json, "hints");
    for (size_t i = 0; plan_hint(plans, i, text); i++) {
        json_text(json, NULL, text);
    }
    json_close(json, ']');
    json_list(json, "curves");
    for (size_t i = 0; points > 0 && i < plans->count; i++) {
        if (!plans->rows[i].err) {
            plan_curve(json, plans, &plans->rows[i], points);
        }
    }
    json_close(json, ']');
}

void plan_get(struct web_request *request)
{
    struct json json;
    bg_machine machine;
    uint64_t points = 0;
    struct plan_rows *plans = calloc(1, sizeof *plans);
    if (!plans) {
        web_error(request, 507, "out_of_memory", "out of memory");
        return;
    }
    (void)bg_machine_read(NULL, &machine, NULL); /* ignores an invalid variable */
    plans->ask = (bg_plan_request)BG_PLAN_REQUEST_INIT;
    plans->ask.machine = &machine;
    plans->words = plan_parameters;
    if (plan_read(request, &plans->ask, &points) && plan_check(request, &plans->ask)) {
        if (!plan_make_all(plans)) {
            web_error(request, 400, "bad_request", "%s", plans->best.why);
        } else if (web_json_begin(request, &json)) {
            plan_write(&json, plans, points);
            web_json_end(request, &json);
        }
    }
    free(plans);
}
