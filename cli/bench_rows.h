/*
 * bench_rows.h - the data of bloomgate bench: one result per filter kind, which bench_report.c
 * prints as a table, JSON and charts.
 */
#ifndef CLI_BENCH_ROWS_H
#define CLI_BENCH_ROWS_H

#include "plan_output.h"
#include "timing.h"

#include "bloomgate/all.h"

#include <stdbool.h>
#include <stddef.h>

#define BENCH_ONE(NAME, number, name) +1
enum { BENCH_KINDS = 0 BG_KINDS(BENCH_ONE), BENCH_PASSES = 5 };
#undef BENCH_ONE

struct bench_row {
    bg_kind kind;
    bg_err err;          /* BG_OK, or the error that prevented the measurement */
    char why[PLAN_TEXT]; /* the error message, which refers to options by name */
    struct measured result;
};

struct bench_rows {
    double rate;
    uint64_t records;    /* records read */
    size_t keys, absent; /* number of distinct keys; number of absent keys */
    double key_bytes;    /* mean length */
    bool cut;            /* reading stopped at --most keys; there is more input */
    const char *hash;    /* name of the hash profile */
    struct bench_row rows[BENCH_KINDS];
    size_t count;
};

void bench_print(const struct bench_rows *bench);
void bench_print_json(const struct bench_rows *bench);
int bench_plot(const struct bench_rows *bench, const char *path);

#endif
