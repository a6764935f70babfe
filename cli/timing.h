/*
 * timing.h - how fast a kind of filter is on this machine, and whether it keeps its word.
 *
 * A filter is made of keys and asked for these and for others: in batches, and one by one.
 * Each time is processor time of one thread, the median of several passes.
 */
#ifndef CLI_TIMING_H
#define CLI_TIMING_H

#include "bloomgate/bloomgate.h"

/* Different keys: of bytes, or, with `bytes` NULL, the numbers from `first` on. */
struct measure_keys {
    const bg_bytes *bytes;
    uint64_t first;
    size_t count;
};

struct measure_task {
    bg_spec spec;                         /* its kind is not auto */
    struct measure_keys present, absent;  /* absent: at least one */
    unsigned build_passes, lookup_passes; /* at most MEASURE_PASSES */
};

enum { MEASURE_PASSES = 15 };

struct measured {
    size_t keys;
    uint64_t bytes;
    double predicted;  /* rate */
    bg_estimate rate;  /* measured, of the absent keys */
    double build_ns;   /* per key */
    double present_ns; /* per key, in batches */
    double absent_ns;
    double single_ns; /* one call per key, every other one absent */
    uint64_t lost;    /* keys that were not found again: must be 0 */
};

/* Errors: those of making the filter; BG_ECANCELED when the command is to stop. */
bg_err measure_kind(const struct measure_task *task, struct measured *result,
                    bg_errinfo *why);

#endif
