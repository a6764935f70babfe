/*
 * bench.h - the subcommands of bgbench. Each answers one question and is in its own file,
 * bench_<name>.c.
 */
#ifndef BGB_BENCH_H
#define BGB_BENCH_H

#include "options.h"

void bgb_bench_limit(const struct bgb_options *options);
void bgb_bench_hash(const struct bgb_options *options);
void bgb_bench_kinds(const struct bgb_options *options);
void bgb_bench_others(const struct bgb_options *options);
void bgb_bench_oplog(const struct bgb_options *options);
void bgb_bench_gate(const struct bgb_options *options);
void bgb_bench_admission(const struct bgb_options *options);
void bgb_bench_batch(const struct bgb_options *options);
void bgb_bench_single(const struct bgb_options *options);
void bgb_bench_concurrency(const struct bgb_options *options);
void bgb_bench_peers(const struct bgb_options *options);
void bgb_bench_files(const struct bgb_options *options);
void bgb_bench_registry(const struct bgb_options *options);
void bgb_bench_slot(const struct bgb_options *options);
void bgb_bench_scale(const struct bgb_options *options);

#endif
