/*
 * plan_rows.h - what bloomgate plan works with: one plan per kind, and what is told of them
 * as a table, as JSON and as charts.
 */
#ifndef CLI_PLAN_ROWS_H
#define CLI_PLAN_ROWS_H

#include "say.h"
#include "timing.h"

#include "bloomgate/bloomgate.h"

#include <stdbool.h>
#include <stddef.h>

#define PLAN_ONE(NAME, number, name) +1
enum { PLAN_KINDS = 0 BG_KINDS(PLAN_ONE), PLAN_TEXT = 400 };
#undef PLAN_ONE

struct plan_row {
    bg_kind kind;
    bg_err err; /* why there is no plan; `why` in words of the command line */
    char why[PLAN_TEXT];
    bg_plan plan;
    bool measured;
    struct measured speed;
};

struct plan_rows {
    bg_plan_request ask;
    struct plan_row rows[PLAN_KINDS];
    size_t count;
    struct plan_row best;      /* the kind that was asked for, or what auto picks, */
    struct plan_row automatic; /* which is this one */
    bool calibrated;
    double keyed_hash_ns;
};

/* An error of the library with the names that options have: --items, not items. */
void plan_words(const bg_errinfo *why, char text[PLAN_TEXT]);

/* Whether look-ups, or costs, were given. */
bool plan_has_queries(const struct plan_rows *plans);
bool plan_has_costs(const struct plan_rows *plans);

/* Whether a kind takes more keys than it was made for, and whether it has room for so many
 * times as many: where it has not, there is no rate. */
bool plan_takes_more(const struct plan_row *row, double rate_then);

/* The row of a kind if there is a plan, else NULL. */
const struct plan_row *plan_find(const struct plan_rows *plans, bg_kind kind);

/* Measures each kind (plan_calibrate.c). Exit code. */
int plan_calibrate(struct plan_rows *plans, enum say_when when);

/* To stdout (plan_report.c, plan_json.c). */
void plan_print(const struct plan_rows *plans);
void plan_print_json(const struct plan_rows *plans);

/* A sentence on when another kind is better than the best one; they are numbered from 0.
 * False: there are no more (plan_hints.c). */
bool plan_hint(const struct plan_rows *plans, size_t number, char text[PLAN_TEXT]);

/* Charts to a file (plan_plot.c). Exit code. */
int plan_plot(const struct plan_rows *plans, const char *path);

#endif
