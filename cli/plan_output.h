/*
 * plan_output.h - prints the plans for bloomgate plan (plan_rows.h) as a table, JSON or charts,
 * with measurements if requested.
 */
#ifndef CLI_PLAN_OUTPUT_H
#define CLI_PLAN_OUTPUT_H

#include "plan_rows.h"
#include "say.h"
#include "timing.h"

/* The measured speeds, in the same order as the rows of struct plan_rows; `speed` is valid only if
 * `measured` is set. */
struct plan_speeds {
    bool calibrated;
    double keyed_hash_ns;
    struct {
        bool measured;
        struct measured speed;
    } rows[PLAN_KINDS];
};

/* Describes a library error in terms of option names, such as --items instead of items. */
void plan_words(const bg_errinfo *why, char text[PLAN_TEXT]);

/* Measures the speed of each planned filter (plan_calibrate.c). Returns an exit code. */
int plan_calibrate(const struct plan_rows *plans, struct plan_speeds *speeds);

/* Print the plans to stdout (plan_report.c, plan_json.c). */
void plan_print(const struct plan_rows *plans, const struct plan_speeds *speeds);
void plan_print_json(const struct plan_rows *plans, const struct plan_speeds *speeds);

/* Writes charts to a file (plan_plot.c). Returns an exit code. */
int plan_plot(const struct plan_rows *plans, const char *path);

#endif
