/*
 * bench_gate_sqlite.h - the tables of `bgbench gate` that require SQLite.
 */
#ifndef BGB_BENCH_GATE_SQLITE_H
#define BGB_BENCH_GATE_SQLITE_H

#include "options.h"

void bgb_bench_gate_sqlite(const struct bgb_options *options, uint64_t rows,
                           double rate);

#endif
