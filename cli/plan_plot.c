/*
 * plan_plot.c - draws plans as charts (plan_output.h): the effect of adding more keys than
 * planned, and the cost of a lower false-positive rate.
 */
#include "plan_output.h"

#include "chart.h"
#include "number.h"
#include "say.h"

#include <math.h>
#include <stdio.h>

enum { PLOT_FILLS = 61, PLOT_RATES = 26 };

struct plot {
    const struct plan_rows *plans;
    struct chart_series series[PLAN_KINDS];
    size_t count;
    double x[PLOT_FILLS], y[PLAN_KINDS][PLOT_FILLS];
};

static void plot_fill(struct plot *plot, struct chart_page *page)
{
    double lowest = 1;
    plot->count = 0;
    for (size_t i = 0; i < PLOT_FILLS; i++) {
        plot->x[i] = 3.0 * (double)i / (PLOT_FILLS - 1);
    }
    for (size_t r = 0; r < plot->plans->count; r++) {
        const struct plan_row *row = &plot->plans->rows[r];
        const bool is_static = (bg_kind_traits(row->kind) & BG_TRAIT_STATIC) != 0;
        if (row->err) {
            continue;
        }
        const size_t design = (PLOT_FILLS - 1) / 3;
        for (size_t i = 0; i < PLOT_FILLS; i++) {
            plot->y[r][i] = plan_rate_at(plot->plans, row, plot->x[i]);
        }
        plot->series[plot->count++] = (struct chart_series){
            bg_kind_name(row->kind), plot->x + (is_static ? design : 0),
            plot->y[r] + (is_static ? design : 0), is_static ? 1 : PLOT_FILLS,
            (unsigned)row->kind - 1
        };
        lowest = fmin(lowest, row->plan.rate);
    }
    const struct chart_lines lines = {
        .title = "False-positive rate by number of keys",
        .x = { "keys, as a multiple of the capacity", false, 0, 3, CHART_PLAIN },
        .y = { "false-positive rate", true,
               pow(10, floor(log10(fmax(lowest, 1e-12))) - 2), 1, CHART_PERCENT },
        .series = plot->series,
        .count = plot->count,
        .mark = 1,
        .mark_name = "as planned",
    };
    chart_add_lines(page, &lines);
}

static void plot_sizes(struct plot *plot, struct chart_page *page)
{
    double least = HUGE_VAL, most = 1;
    plot->count = 0;
    for (size_t i = 0; i < PLOT_RATES; i++) {
        plot->x[i] = pow(10, -1 - 5.0 * (double)i / (PLOT_RATES - 1));
    }
    for (size_t r = 0; r < plot->plans->count; r++) {
        const bg_kind kind = plot->plans->rows[r].kind;
        bool any = false;
        for (size_t i = 0; i < PLOT_RATES; i++) {
            bg_plan plan;
            plot->y[r][i] = plan_for_rate(plot->plans, kind, plot->x[i], &plan)
                                ? plan.bits_per_key
                                : (double)NAN;
            if (isfinite(plot->y[r][i])) {
                any = true;
                least = fmin(least, plot->y[r][i]);
                most = fmax(most, plot->y[r][i]);
            }
        }
        if (any) {
            plot->series[plot->count++] =
                (struct chart_series){ bg_kind_name(kind), plot->x, plot->y[r],
                                       PLOT_RATES, (unsigned)kind - 1 };
        }
    }
    const struct chart_lines lines = {
        .title = "Bits per key by false-positive rate",
        .x = { "false-positive rate", true, 0.1, 1e-6, CHART_PERCENT },
        .y = { "bits per key", true, fmin(least, most) * 0.9, most * 1.1, CHART_PLAIN },
        .series = plot->series,
        .count = plot->count,
        .mark = plot->plans->best.plan.target,
        .mark_name = plot->plans->best.plan.target > 0 ? "requested" : NULL,
    };
    chart_add_lines(page, &lines);
}

int plan_plot(const struct plan_rows *plans, const char *path)
{
    static struct plot plot;
    struct chart_page page;
    char below[128], items[NUMBER_TEXT];
    const double growth = plans->ask.growth > 1 ? plans->ask.growth : 1;
    (void)snprintf(
        below, sizeof below, "%s keys; predicted by bloomgate %s",
        number_show((uint64_t)((double)plans->ask.spec.items * growth), items),
        bg_version());
    plot.plans = plans;
    chart_begin(&page, "Planned filters", below);
    plot_fill(&plot, &page);
    plot_sizes(&plot, &page);
    return chart_save(&page, path);
}
