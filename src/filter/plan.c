/*
 * plan.c - predicts the properties of a filter before it is created.
 *
 * solve.c finds the geometry. This file adds the results that depend on the workload and the costs
 * in the request: the numbers of avoided and wasted calls, their cost, and, if the caller requests
 * the cheapest filter, its rate. The cost of a rate p is
 *
 *     memory_cost x bytes(p) / 2^30  +  call_cost x queries x absent_share x p
 *
 * As p grows, the first term falls slowly (bytes are proportional to -log p), and the second term
 * rises linearly. So there is one minimum, which a golden-section search over log p finds.
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include "bloomgate/plan.h"

#include "base/errinfo.h"
#include "filter/handle.h"
#include "kind/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void bg_plan_request_init(bg_plan_request *request)
{
    *request = bg_plan_request_default();
}

bg_plan_request bg_plan_request_default(void)
{
    bg_plan_request request = BG_PLAN_REQUEST_INIT;
    return request;
}

/* ---- Results of a geometry ---------------------------------------------------- */

static uint32_t plan_cache_level(const bg_machine *machine, uint64_t bytes)
{
    uint32_t level = 1;
    while (level <= 3 && bytes > machine->cache_bytes[level - 1]) {
        level++;
    }
    return level;
}

static double plan_absent_queries(const bg_plan_request *ask)
{
    double share = ask->absent_share > 0 ? ask->absent_share : 1;
    return ask->queries_per_second * share;
}

static double plan_fill(const struct bgi_geometry *g, double items)
{
    if (g->kind->fill) {
        return g->kind->fill(g->units, g->k, items);
    }
    struct bgi_model model = g->kind->model(g->units, g->k);
    return bgi_model_fill(&model, items);
}

/* Computes the results that depend on the size, the rate, and the workload, costs and machine in
 * the request. */
static void plan_add_costs(const bg_plan_request *ask, bg_plan *plan)
{
    double absent = plan_absent_queries(ask);
    plan->cache_level = plan_cache_level(ask->machine, plan->bytes);
    plan->calls_wasted = absent * plan->rate;
    plan->calls_avoided = absent - plan->calls_wasted;
    plan->cost = ask->memory_cost * (double)plan->bytes / 1073741824.0
                 + ask->call_cost * plan->calls_wasted;
}

static void plan_fill_in(const struct bgi_geometry *g, bg_plan *plan)
{
    double items = (double)g->items;
    memset(plan, 0, sizeof *plan);
    plan->kind = g->kind->id;
    plan->k = g->k;
    plan->items = g->items;
    plan->units = g->units;
    (void)bgi_geometry_bytes(g, &plan->bytes);
    plan->bits_per_key = g->items ? 8 * (double)plan->bytes / items : 0;
    plan->rate = g->rate;
    plan->rate_2x = bgi_kind_rate(g->kind, g->units, g->k, 2 * items);
    plan->rate_10x = bgi_kind_rate(g->kind, g->units, g->k, 10 * items);
    plan->fill = plan_fill(g, items);
    plan->lines_per_lookup = g->kind->lines(g->k);
    plan->layers = 1;
    (void)snprintf(plan->reason, sizeof plan->reason, "%s", g->reason);
}

/* Computes the size for a spec, either with the kind's own plan function or by solving for a
 * geometry. */
static bg_err plan_size(const bg_spec *spec, double growth, const bg_plan_request *ask,
                        bg_plan *plan, bg_errinfo *info)
{
    bg_plan sized;
    bg_err err = bgi_spec_check(spec, info);
    if (err) {
        return err;
    }
    const struct bgi_composed *composed = bgi_spec_composed(spec);
    if (composed) {
        memset(&sized, 0, sizeof sized);
        err = composed->plan(spec, growth, &sized, info);
    } else {
        struct bgi_geometry g;
        err = bgi_solve(spec, growth, &g, info);
        if (!err) {
            plan_fill_in(&g, &sized);
        }
    }
    if (!err) {
        sized.target = spec->rate;
        plan_add_costs(ask, &sized);
        *plan = sized;
    }
    return err;
}

/* ---- Checking ------------------------------------------------------------------------ */

static bg_err plan_check_number(const char *name, double value, double most,
                                bg_errinfo *info)
{
    if (!(value >= 0 && value <= most)) {
        return bgi_err(info, BG_EINVAL, name,
                       most <= 1 ? "0 .. 1" : "a finite number, 0 or more", "%g",
                       value);
    }
    return BG_OK;
}

static bg_err plan_check(const bg_plan_request *ask, bg_errinfo *info)
{
    const struct {
        const char *name;
        double value, most;
    } numbers[] = {
        { "queries_per_second", ask->queries_per_second, 1e300 },
        { "absent_share", ask->absent_share, 1 },
        { "call_cost", ask->call_cost, 1e300 },
        { "memory_cost", ask->memory_cost, 1e300 },
        { "call_seconds", ask->call_seconds, 1e300 },
        { "latency_objective", ask->latency_objective, 1e300 },
    };
    if (ask->struct_size != sizeof *ask) {
        return bgi_err(info, BG_EINVAL, "struct_size",
                       "sizeof(bg_plan_request): use BG_PLAN_REQUEST_INIT", "%u",
                       ask->struct_size);
    }
    if (ask->reserved) {
        return bgi_err(info, BG_EINVAL, "reserved", "0", "%u", ask->reserved);
    }
    bg_err err = BG_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !err; i++) {
        err =
            plan_check_number(numbers[i].name, numbers[i].value, numbers[i].most, info);
    }
    if (!err && ask->latency_objective > 0 && !(ask->call_seconds > 0)) {
        err = bgi_err(info, BG_EINVAL, "call_seconds",
                      "a number above 0, because latency_objective is set", "%g",
                      ask->call_seconds);
    } else if (!err && ask->latency_objective > 0
               && ask->latency_objective >= ask->call_seconds) {
        err = bgi_err(info, BG_EINVAL, "latency_objective",
                      "less than call_seconds (otherwise no filter is needed)", "%g",
                      ask->latency_objective);
    }
    return err;
}

/* ---- The rate to plan for ------------------------------------------------------------ */

static bool plan_size_is_given(const bg_spec *spec)
{
    return spec->rate != 0 || spec->bits_per_key != 0 || spec->bytes != 0;
}

static double plan_cost_at(const bg_plan_request *ask, double growth, double log_rate)
{
    bg_plan plan;
    bg_spec spec = ask->spec;
    spec.rate = exp(log_rate);
    if (plan_size(&spec, growth, ask, &plan, NULL) != BG_OK) {
        return HUGE_VAL;
    }
    return plan.cost;
}

static double plan_cheapest_rate(const bg_plan_request *ask, double growth)
{
    const double golden = 0.6180339887498949;
    double low = log(1e-8), high = log(0.5);
    double x1 = high - golden * (high - low), x2 = low + golden * (high - low);
    double c1 = plan_cost_at(ask, growth, x1), c2 = plan_cost_at(ask, growth, x2);
    while (high - low > 0.02) {
        if (c1 < c2) {
            high = x2;
            x2 = x1;
            c2 = c1;
            x1 = high - golden * (high - low);
            c1 = plan_cost_at(ask, growth, x1);
        } else {
            low = x1;
            x1 = x2;
            c1 = c2;
            x2 = low + golden * (high - low);
            c2 = plan_cost_at(ask, growth, x2);
        }
    }
    /* The midpoint of low and high is not used, because the filter for that rate could exceed
     * max_bytes. */
    return exp(c1 < c2 ? x1 : x2);
}

/* Sets spec->rate from the costs, if the caller set neither a rate nor a size, and limits it to
 * what the latency objective allows. */
static void plan_choose_rate(const bg_plan_request *ask, double growth, bg_spec *spec)
{
    bool costs =
        ask->call_cost > 0 && ask->queries_per_second > 0 && ask->memory_cost > 0;
    if (!plan_size_is_given(spec) && costs && spec->items) {
        spec->rate = plan_cheapest_rate(ask, growth);
    }
    if (ask->latency_objective > 0 && spec->bits_per_key == 0 && spec->bytes == 0) {
        double most = ask->latency_objective / ask->call_seconds;
        if (!(spec->rate > 0 && spec->rate <= most)) {
            spec->rate = most;
        }
    }
}

bg_err bg_plan_compute(const bg_plan_request *request, bg_plan *plan, bg_errinfo *info)
{
    bg_plan made;
    bg_machine machine;
    bgi_err_clear(info);
    if (!request || !plan) {
        return bgi_err(info, BG_EINVAL, "request",
                       "a request and a pointer to receive the plan", "NULL");
    }
    bg_err err = plan_check(request, info);
    if (err) {
        return err;
    }
    double growth = request->growth != 0 ? request->growth : 1;
    bg_plan_request ask = *request;
    bg_spec spec = ask.spec;
    if (!ask.machine) {
        (void)bg_machine_read(NULL, &machine, NULL); /* ignores an invalid variable */
        ask.machine = &machine;
    }
    plan_choose_rate(&ask, growth, &spec);
    err = plan_size(&spec, growth, &ask, &made, info);
    if (!err && request->latency_objective > 0
        && made.rate * request->call_seconds > request->latency_objective) {
        err = bgi_err_state(
            info, BG_ENOTSUP, "latency_objective",
            "the latency objective of %g seconds cannot be met: with the specified "
            "size, an absent key takes %g seconds on average",
            request->latency_objective, made.rate * request->call_seconds);
    }
    if (!err) {
        *plan = made;
    }
    return err;
}

void bg_plan_to_spec(const bg_plan *plan, const bg_plan_request *request, bg_spec *spec)
{
    const struct bgi_kind *kind = bgi_kind_of(plan->kind);
    *spec = request->spec;
    spec->kind = (uint32_t)plan->kind;
    if (kind && kind->composed) {
        spec->rate = plan->target; /* `items` is only the initial size */
        return;
    }
    spec->items = plan->items;
    if (spec->shards > 1) {
        spec->rate = plan->target; /* each shard is solved separately */
        return;
    }
    spec->bytes = plan->bytes;
    spec->k = plan->k;
    spec->rate = plan->target;
    spec->bits_per_key = 0;
}

double bg_predict_rate(bg_kind kind, uint64_t bytes, uint32_t k, uint64_t items)
{
    const struct bgi_kind *description = bgi_kind_of(kind);
    if (!description || description->composed || k < description->k_min
        || k > description->k_max) {
        return (double)NAN;
    }
    uint32_t unit = description->unit_bytes(k);
    uint64_t units = unit ? bytes / unit : 0;
    if (description->round_units) {
        units = description->round_units(units, k);
    }
    if (units == 0 || units > description->units_max) {
        return (double)NAN;
    }
    return bgi_kind_rate(description, units, k, (double)items);
}

/* ---- Calibration ---------------------------------------------------------------------- */

enum { PLAN_KEYS = 1024, PLAN_WIDTH = 16, PLAN_PASSES = 64 };

/* Hashes PLAN_KEYS keys in several passes and returns the best time, in nanoseconds per key. */
static double plan_hash_ns(const bg_hash_spec *how)
{
    unsigned char keys[PLAN_KEYS * PLAN_WIDTH];
    uint64_t hashes[PLAN_KEYS];
    bg_hasher hasher;
    double best = HUGE_VAL;
    memset(keys, 0x5a, sizeof keys);
    if (bg_hasher_init(&hasher, how, NULL) != BG_OK) {
        return 0;
    }
    for (int pass = 0; pass < PLAN_PASSES; pass++) {
        struct timespec from, to;
        (void)clock_gettime(CLOCK_MONOTONIC, &from);
        bg_hash_many(&hasher, bg_keys_fixed(keys, PLAN_WIDTH, PLAN_KEYS), hashes);
        (void)clock_gettime(CLOCK_MONOTONIC, &to);
        double ns = 1e9 * (double)(to.tv_sec - from.tv_sec)
                    + (double)(to.tv_nsec - from.tv_nsec);
        best = fmin(best, ns / PLAN_KEYS);
    }
    bg_hasher_wipe(&hasher);
    return best;
}

void bg_plan_calibrate(bg_plan *plan)
{
    const uint8_t secret[BG_SECRET_BYTES] = { 1 };
    bg_hash_spec fast = { .profile = BG_HASH_FAST };
    bg_hash_spec keyed = { .profile = BG_HASH_KEYED, .secret = secret };
    if (plan) {
        plan->keyed_hash_ns = fmax(0, plan_hash_ns(&keyed) - plan_hash_ns(&fast));
    }
}
