/* plan_rows.c - see plan_rows.h. */
#include "plan_rows.h"

#include "error_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Option names --------------------------------------------------------------------- */

const char *plan_word(const struct plan_word *words, const char *field)
{
    for (; words->field; words++) {
        if (strcmp(words->field, field) == 0) {
            return words->word;
        }
    }
    return field;
}

void plan_translate(const struct plan_word *words, const char *from, char *to,
                    size_t room)
{
    size_t used = 0;
    to[0] = 0;
    while (*from && used + 1 < room) {
        char word[40];
        const size_t n = strcspn(from, " ,:;");
        const size_t kept = n < sizeof word ? n : sizeof word - 1;
        memcpy(word, from, kept);
        word[kept] = 0;
        const char *name = n && strchr(word, '_') ? plan_word(words, word) : NULL;
        const size_t step = n ? n : 1;
        const int more =
            name ? snprintf(to + used, room - used, "%s", name)
                 : snprintf(to + used, room - used, "%.*s", (int)step, from);
        used += more > 0 ? (size_t)more : 0;
        from += step;
    }
}

void plan_explain(const struct plan_word *words, const bg_errinfo *why,
                  char text[PLAN_TEXT])
{
    char expected[2 * sizeof why->expected], found[2 * sizeof why->found];
    if (!why->what[0] || !why->expected[0]) {
        (void)snprintf(text, PLAN_TEXT, "%s", error_text(why, why->code));
        return;
    }
    plan_translate(words, why->expected, expected, sizeof expected);
    plan_translate(words, why->found, found, sizeof found);
    if (why->code == BG_ENOTSUP && strcmp(why->what, "rate") == 0) {
        (void)snprintf(text, PLAN_TEXT,
                       "%s: %s cannot be reached with 1024 bits per key",
                       plan_word(words, "rate"), found);
        return;
    }
    (void)snprintf(text, PLAN_TEXT, "%s: found %s, expected %s",
                   plan_word(words, why->what), found, expected);
}

/* ---- Plans ------------------------------------------------------------------------------ */

bool plan_has_queries(const struct plan_rows *plans)
{
    return plans->ask.queries_per_second > 0;
}

bool plan_has_costs(const struct plan_rows *plans)
{
    return plans->ask.memory_cost > 0 || plans->ask.call_cost > 0;
}

bool plan_is_sized(const bg_plan_request *ask)
{
    const bool cheapest =
        ask->call_cost > 0 && ask->memory_cost > 0 && ask->queries_per_second > 0;
    return ask->spec.rate > 0 || ask->spec.bits_per_key > 0 || ask->spec.bytes
           || cheapest || ask->latency_objective > 0;
}

bool plan_takes_more(const struct plan_row *row, double rate_then)
{
    const uint32_t traits = bg_kind_traits(row->plan.kind);
    return !(traits & BG_TRAIT_STATIC)
           && (!(traits & BG_TRAIT_FILLS_UP) || rate_then < 1);
}

bool plan_exceeds(const bg_plan_request *ask, const bg_plan *plan)
{
    const uint64_t memory = ask->machine->memory_bytes;
    return memory && plan->bytes > memory;
}

const char *plan_fits_into(const bg_plan_request *ask, const bg_plan *plan)
{
    static const char *const names[] = { "L1", "L2", "L3" };
    const uint32_t level = plan->cache_level;
    return plan_exceeds(ask, plan)    ? "none"
           : level >= 1 && level <= 3 ? names[level - 1]
                                      : "memory";
}

const struct plan_row *plan_find(const struct plan_rows *plans, bg_kind kind)
{
    for (size_t i = 0; i < plans->count; i++) {
        if (plans->rows[i].kind == kind && !plans->rows[i].err) {
            return &plans->rows[i];
        }
    }
    return NULL;
}

static bool plan_make(const struct plan_rows *plans, bg_kind kind, struct plan_row *row)
{
    bg_plan_request one = plans->ask;
    bg_errinfo why;
    one.spec.kind = (uint32_t)kind;
    row->kind = kind;
    row->err = bg_plan_compute(&one, &row->plan, &why);
    if (row->err) {
        plan_explain(plans->words, &why, row->why);
    } else if ((bg_kind_traits(row->plan.kind) & BG_TRAIT_STATIC)
               && row->plan.rate >= 1) {
        row->err = BG_EINVAL; /* the model has no solution; a builder would fail */
        (void)snprintf(
            row->why, sizeof row->why, "%s: too small for %llu keys in a %s filter",
            plan_word(plans->words, one.spec.bytes ? "bytes" : "bits_per_key"),
            (unsigned long long)row->plan.items, bg_kind_name(kind));
    }
    return !row->err;
}

bool plan_make_all(struct plan_rows *plans)
{
    static const bg_kind all[] = {
#define PLAN_KIND(NAME, number, name) BG_KIND_##NAME,
        BG_KINDS(PLAN_KIND)
#undef PLAN_KIND
    };
    const bg_kind asked = (bg_kind)plans->ask.spec.kind;
    bool any = plan_make(plans, asked, &plans->best);
    (void)plan_make(plans, BG_KIND_AUTO, &plans->automatic);
    plans->count = 0;
    for (size_t i = 0; i < PLAN_KINDS; i++) {
        if (asked == BG_KIND_AUTO || asked == all[i]) {
            any |= plan_make(plans, all[i], &plans->rows[plans->count++]);
        }
    }
    return any;
}

/* ---- Curves ----------------------------------------------------------------------------- */

/* Returns the rate of a scalable filter. Up to its design size, a scalable filter is a single
 * blocked filter; beyond that size, it grows. */
static double plan_rate_scalable(const bg_plan_request *ask, const bg_plan *plan,
                                 double times)
{
    bg_plan_request more = *ask;
    bg_plan grown;
    more.spec.kind = BG_KIND_SCALABLE;
    more.growth = times * (ask->growth > 1 ? ask->growth : 1);
    if (more.growth < 1) {
        return bg_predict_rate(BG_KIND_BLOCKED, plan->units * 64, plan->k,
                               (uint64_t)(times * (double)plan->items));
    }
    return bg_plan_compute(&more, &grown, NULL) == BG_OK ? grown.rate : (double)NAN;
}

double plan_rate_at(const struct plan_rows *plans, const struct plan_row *row,
                    double times)
{
    const bg_plan *plan = &row->plan;
    const double items = times * (double)plan->items;
    double rate;
    if (bg_kind_traits(row->kind) & BG_TRAIT_STATIC) {
        return fabs(times - 1) < 1e-9 ? plan->rate : (double)NAN;
    }
    if (row->kind == BG_KIND_WINDOW) {
        /* A window consists of `layers` blocked filters, one more than needed to hold the keys. */
        const double each = items / (plan->layers - 1);
        const double one =
            bg_predict_rate(BG_KIND_BLOCKED, plan->units * 64, plan->k, (uint64_t)each);
        rate = 1 - pow(1 - one, plan->layers);
    } else if (row->kind == BG_KIND_SCALABLE) {
        rate = plan_rate_scalable(&plans->ask, plan, times);
    } else {
        rate = bg_predict_rate(row->kind, plan->bytes, plan->k, (uint64_t)items);
    }
    return rate > 0 && plan_takes_more(row, rate) ? rate : (double)NAN;
}

bool plan_for_rate(const struct plan_rows *plans, bg_kind kind, double rate,
                   bg_plan *plan)
{
    bg_plan_request one = plans->ask;
    one.spec.kind = (uint32_t)kind;
    one.spec.rate = rate;
    one.spec.bytes = 0;
    one.spec.bits_per_key = 0;
    one.spec.k = 0;
    one.latency_objective = 0;
    return bg_plan_compute(&one, plan, NULL) == BG_OK;
}
