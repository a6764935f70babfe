/*
 * timing.h - measures how fast a kind of filter is on this machine, and checks its answers.
 *
 * A filter is built from keys, and is queried for these keys and for absent keys, in batches and
 * one at a time. Each timing is the median CPU time of one thread over several passes.
 */
#ifndef CLI_TIMING_H
#define CLI_TIMING_H

#include "bloomgate/all.h"

/* Distinct keys: byte strings or, if `bytes` is NULL, consecutive integers from `first`. */
struct measure_keys {
    const bg_bytes *bytes;
    uint64_t first;
    size_t count;
};

struct measure_task {
    bg_spec spec;                         /* the kind must not be auto */
    struct measure_keys present, absent;  /* `absent` must contain at least one key */
    unsigned build_passes, lookup_passes; /* at most MEASURE_PASSES */
};

enum { MEASURE_PASSES = 15 };

struct measured {
    size_t keys;
    uint64_t bytes;
    double predicted;  /* false-positive rate */
    bg_estimate rate;  /* false-positive rate measured with the absent keys */
    double build_ns;   /* per key */
    double present_ns; /* per key, queried in batches */
    double absent_ns;
    double single_ns; /* one call per key; half of the keys are absent */
    uint64_t lost;    /* number of present keys that were not found; must be 0 */
};

/* Errors: those of bg_filter_create, and BG_ECANCELED if a stop was requested. */
bg_err measure_kind(const struct measure_task *task, struct measured *result,
                    bg_errinfo *why);

#endif
