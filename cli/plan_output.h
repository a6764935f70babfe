/*
 * plan_output.h - what bloomgate plan tells of plans (plan_rows.h): as a table, as JSON and as
 * charts, with what was measured if that was asked for.
 */
#ifndef CLI_PLAN_OUTPUT_H
#define CLI_PLAN_OUTPUT_H

#include "plan_rows.h"
#include "say.h"
#include "timing.h"

/* Of each row of a plan, if `measured`. */
struct plan_speeds {
    bool calibrated;
    double keyed_hash_ns;
    struct {
        bool measured;
        struct measured speed;
    } rows[PLAN_KINDS];
};

/* An error of the library with the names that options have: --items, not items. */
void plan_words(const bg_errinfo *why, char text[PLAN_TEXT]);

/* Measures each kind (plan_calibrate.c). Exit code. */
int plan_calibrate(const struct plan_rows *plans, struct plan_speeds *speeds,
                   enum say_when when);

/* To stdout (plan_report.c, plan_json.c). */
void plan_print(const struct plan_rows *plans, const struct plan_speeds *speeds);
void plan_print_json(const struct plan_rows *plans, const struct plan_speeds *speeds);

/* Charts to a file (plan_plot.c). Exit code. */
int plan_plot(const struct plan_rows *plans, const char *path);

#endif
