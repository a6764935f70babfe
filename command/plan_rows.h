/*
 * plan_rows.h - planning: one plan per kind, which to take, and when another one is better. For all
 * who tell of it, in their words: bloomgate plan as a table, JSON and charts, HTTP as JSON.
 *
 * Thread safety: as any data.
 */
#ifndef COMMAND_PLAN_ROWS_H
#define COMMAND_PLAN_ROWS_H

#include "bloomgate/bloomgate.h"

#include <stdbool.h>
#include <stddef.h>

#define PLAN_ONE(NAME, number, name) +1
enum { PLAN_KINDS = 0 BG_KINDS(PLAN_ONE), PLAN_TEXT = 400 };
#undef PLAN_ONE

/* What the caller's users call a field of bg_spec or bg_plan_request: --items, not items. A list
 * of them ends with one without a field. */
struct plan_word {
    const char *field, *word;
};

struct plan_row {
    bg_kind kind;
    bg_err err; /* why there is no plan; `why` in the caller's words */
    char why[PLAN_TEXT];
    bg_plan plan;
};

struct plan_rows {
    bg_plan_request ask;
    const struct plan_word *words;
    struct plan_row rows[PLAN_KINDS];
    size_t count;
    struct plan_row best;      /* the kind that was asked for, or what auto picks, */
    struct plan_row automatic; /* which is this one */
};

/* A plan for each kind, or for the one that was asked for. `ask` and `words` are set before.
 * False: none is possible, and best.why says why. */
bool plan_make_all(struct plan_rows *plans);

/* The caller's word for a field; the field itself if there is none. */
const char *plan_word(const struct plan_word *words, const char *field);

/* An error of the library in the caller's words. */
void plan_explain(const struct plan_word *words, const bg_errinfo *why,
                  char text[PLAN_TEXT]);

/* Whether look-ups, or costs, were given; whether it is said how good, or how large, the filter is
 * to be. */
bool plan_has_queries(const struct plan_rows *plans);
bool plan_has_costs(const struct plan_rows *plans);
bool plan_is_sized(const bg_plan_request *ask);

/* Whether a kind takes more keys than it was made for, and whether it has room for so many
 * times as many: where it has not, there is no rate. */
bool plan_takes_more(const struct plan_row *row, double rate_then);

/* The row of a kind if there is a plan, else NULL. */
const struct plan_row *plan_find(const struct plan_rows *plans, bg_kind kind);

/* The rate with `times` as many keys as were planned for; NaN: it does not take so many. */
double plan_rate_at(const struct plan_rows *plans, const struct plan_row *row,
                    double times);

/* The plan of a kind for another rate; false: there is none. */
bool plan_for_rate(const struct plan_rows *plans, bg_kind kind, double rate,
                   bg_plan *plan);

/* A sentence on when another kind is better than the best one; they are numbered from 0.
 * False: there are no more (plan_hints.c). */
bool plan_hint(const struct plan_rows *plans, size_t number, char text[PLAN_TEXT]);

#endif
