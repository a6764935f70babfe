/*
 * plan_hints.c - hints on when to choose a kind other than the recommended kind: a list of
 * situations, each with suitable kinds (plan_rows.h).
 */
#include "plan_rows.h"

#include "number.h"

#include <math.h>
#include <stdio.h>

struct hint {
    const char *when;
    /* The kind that needs the least memory is suggested. AUTO marks unused entries. */
    bg_kind kinds[3];
    /* The kind is suggested only if its memory (or its rate, if the size is fixed) is below this
     * fraction of the recommended kind's. */
    double below;
    const char *but;
};

static const struct hint hints[] = {
    { "all keys are known in advance",
      { BG_KIND_FUSE, BG_KIND_RIBBON, BG_KIND_AUTO },
      0.95,
      "no keys can be added later" },
    { "memory matters more than speed",
      { BG_KIND_CLASSIC, BG_KIND_AUTO, BG_KIND_AUTO },
      0.95,
      "a lookup reads up to k cache lines" },
    { "keys have to be deleted",
      { BG_KIND_CUCKOO, BG_KIND_QUOTIENT, BG_KIND_COUNTING },
      HUGE_VAL,
      NULL },
    { "the number of keys is unknown",
      { BG_KIND_SCALABLE, BG_KIND_AUTO, BG_KIND_AUTO },
      HUGE_VAL,
      "it grows" },
    { "keys have to expire",
      { BG_KIND_WINDOW, BG_KIND_AUTO, BG_KIND_AUTO },
      HUGE_VAL,
      NULL },
};
enum { HINTS = sizeof hints / sizeof *hints };

static const struct plan_row *hint_smallest(const struct plan_rows *plans,
                                            const struct hint *hint)
{
    const struct plan_row *smallest = NULL;
    for (size_t i = 0; i < 3 && hint->kinds[i] != BG_KIND_AUTO; i++) {
        const struct plan_row *row = plan_find(plans, hint->kinds[i]);
        if (row && (!smallest || row->plan.bytes < smallest->plan.bytes)) {
            smallest = row;
        }
    }
    return smallest;
}

/* Compares a kind with the recommended kind. If the size was specified, all kinds need about the
 * same memory, so rates are compared instead. */
static void hint_compare(const bg_plan *plan, const bg_plan *best, char *text,
                         size_t room)
{
    const double share = (double)plan->bytes / (double)best->bytes;
    char bytes[NUMBER_TEXT], rate[NUMBER_TEXT];
    if (best->target > 0 && fabs(share - 1) < 0.005) {
        (void)snprintf(text, room, "%s needs as much, %s", bg_kind_name(plan->kind),
                       number_show_bytes(plan->bytes, bytes));
    } else if (best->target > 0) {
        (void)snprintf(text, room, "%s needs %s, %.0f%% %s", bg_kind_name(plan->kind),
                       number_show_bytes(plan->bytes, bytes), 100 * fabs(share - 1),
                       share < 1 ? "less" : "more");
    } else {
        (void)snprintf(text, room, "%s has a false-positive rate of %s in %s",
                       bg_kind_name(plan->kind), number_show_rate(plan->rate, rate),
                       number_show_bytes(plan->bytes, bytes));
    }
}

static bool hint_is_worth_it(const struct hint *hint, const bg_plan *plan,
                             const bg_plan *best)
{
    const double share = best->target > 0 ? (double)plan->bytes / (double)best->bytes
                                          : plan->rate / best->rate;
    return plan->kind != best->kind && share < hint->below;
}

/* Suggests planning for growth if twice as many keys would considerably increase the rate. */
static bool hint_of_growth(const struct plan_rows *plans, char text[PLAN_TEXT])
{
    const bg_plan *best = &plans->best.plan;
    const double more = best->rate_2x / best->rate;
    char rate[NUMBER_TEXT];
    if (!plan_takes_more(&plans->best, best->rate_2x) || !(more >= 2)) {
        return false;
    }
    (void)snprintf(
        text, PLAN_TEXT,
        "there may be twice as many keys: plan for them (%s 2); otherwise %s has %s "
        "false positives, %s%.0f times as many",
        plan_word(plans->words, "growth"), bg_kind_name(best->kind),
        number_show_rate(best->rate_2x, rate), more > 1000 ? "over " : "",
        fmin(more, 1000));
    return true;
}

bool plan_hint(const struct plan_rows *plans, size_t number, char text[PLAN_TEXT])
{
    const bg_plan *best = &plans->best.plan;
    if (plans->best.err) {
        return false;
    }
    for (size_t i = 0; i < HINTS; i++) {
        const struct plan_row *row = hint_smallest(plans, &hints[i]);
        char compared[PLAN_TEXT / 2];
        if (row && hint_is_worth_it(&hints[i], &row->plan, best) && number-- == 0) {
            hint_compare(&row->plan, best, compared, sizeof compared);
            (void)snprintf(text, PLAN_TEXT, "%s: %s%s%s", hints[i].when, compared,
                           hints[i].but ? "; " : "", hints[i].but ? hints[i].but : "");
            return true;
        }
    }
    return number == 0 && hint_of_growth(plans, text);
}
