/*
 * plan.h - sizing that predicts what you will measure.
 *
 * A plan turns what you know (items, rate or memory, what a wasted call costs) into a
 * geometry and tells what to expect of it, without creating anything:
 *
 *     bg_plan_request ask = BG_PLAN_REQUEST_INIT;
 *     ask.spec.items = 100000000;
 *     ask.spec.rate = 0.001;
 *     bg_plan plan;
 *     if (bg_plan_compute(&ask, &plan, NULL) == BG_OK)
 *         printf("%s, %.1f bits per key\n", bg_kind_name(plan.kind), plan.bits_per_key);
 *
 * The rates are those of the kind's real layout. For filters that keep a key in one line
 * that is a mixture over how many keys share the line, and it is higher than what the
 * textbook formula for scattered bits says: 10 bits per key give 0.82 % in a classic
 * filter, 0.97 % in a blocked one and 1.27 % in Parquet's. Measured rates agree with
 * the prediction within 5 % (tests/prop, `make soak`).
 */
#ifndef BLOOMGATE_PLAN_H
#define BLOOMGATE_PLAN_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/kind.h"
#include "bloomgate/spec.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What is known. Only `spec` is needed; the rest adds figures to the plan, or lets it
 * find the cheapest size by itself: with items, call_cost, queries_per_second and
 * memory_cost given, and neither rate nor size, the plan is the one with the lowest
 *
 *     memory_cost x GiB  +  call_cost x (wasted calls per second)
 */
typedef struct bg_plan_request {
    uint32_t struct_size;      /* sizeof(bg_plan_request) */
    uint32_t reserved;         /* 0 */
    bg_spec spec;              /* kind, items, rate, bits_per_key, bytes, ... */
    double growth;             /* items grow by this factor before the filter is made
                                  anew: it is sized for items x growth; 0 = 1 */
    double queries_per_second; /* how many look-ups */
    double absent_share;       /* share of them that ask for absent keys, 0 .. 1;
                                  0 means not known, and 1 is assumed */
    double call_cost;          /* of one call to what is behind, in any unit per call */
    double memory_cost;        /* of one GiB, in the same unit per second */
    double call_seconds;       /* how long one call to what is behind takes */
    double latency_objective;  /* mean seconds per absent key that must be kept, calls
                                  wasted on false positives included: bounds the rate
                                  by latency_objective / call_seconds, so it must be
                                  less than call_seconds; 0 = none */
} bg_plan_request;

#ifdef __cplusplus
#define BG_PLAN_REQUEST_INIT (bg_plan_request_default())
#else
#define BG_PLAN_REQUEST_INIT                                                           \
    {                                                                                  \
        .struct_size = sizeof(bg_plan_request), .spec = BG_SPEC_INIT                   \
    }
#endif

/* What to expect. */
typedef struct bg_plan {
    bg_kind kind;
    uint32_t k;     /* bits per key */
    uint64_t items; /* what it is sized for: items x growth */
    uint64_t units; /* lines, blocks, words or bits, by kind */
    uint64_t bytes; /* of the filter's bits */
    double bits_per_key;
    double rate;               /* predicted at `items` */
    double rate_2x;            /* ... when twice as many keys are in */
    double rate_10x;           /* ... when ten times as many are */
    double fill;               /* share of bits set at `items` */
    uint32_t cache_level;      /* smallest cache it fits in: 1, 2, 3, or 4 for memory */
    uint32_t lines_per_lookup; /* cache lines read for a key that may be there */
    double keyed_hash_ns;      /* nanoseconds per 16-byte key that `keyed` hashing takes
                                  more than `fast`, measured on this machine on request
                                  (bg_plan_calibrate), else 0 */
    double calls_avoided;      /* per second: absent keys answered "no" */
    double calls_wasted;       /* per second: absent keys answered "maybe" */
    double cost;               /* memory_cost x GiB + call_cost x calls_wasted */
    char reason[160];          /* why this kind and this k, in a sentence */
    double target;             /* the rate that was asked for, or chosen by cost; 0 when
                                  a size was given */
    uint32_t layers;           /* scalable: how many at `items`; window: generations or
                                  slices; else 1 */
} bg_plan;

/*
 * Makes a plan.
 * Errors: BG_EINVAL names the argument that is missing or out of range; BG_ENOMEM when
 * the size exceeds spec.max_bytes or what this machine can address; BG_ENOTSUP when the
 * kind cannot reach the rate at all, or flags ask for what it cannot do. Nothing is
 * allocated.
 * Thread safety: MT-Safe. Cost: below a millisecond; some ten of them when it looks for
 * the cheapest size.
 */
BG_API BG_MUST_CHECK bg_err bg_plan_compute(const bg_plan_request *request,
                                            bg_plan *plan, bg_errinfo *info);

/*
 * Turns a plan into the spec of exactly that geometry, keeping what `request` says of
 * hash, flags, allocator and limits.
 * Thread safety: MT-Safe. Cost: a copy.
 */
BG_API void bg_plan_to_spec(const bg_plan *plan, const bg_plan_request *request,
                            bg_spec *spec);

/*
 * Measures hashing on this machine for a few milliseconds and fills in
 * `keyed_hash_ns`. Thread safety: MT-Safe on different plans.
 */
BG_API void bg_plan_calibrate(bg_plan *plan);

/*
 * The predicted rate of a geometry that holds `items` keys: of `kind`, with `bytes` of
 * bits and `k` bits per key. NaN when there is no such geometry.
 * Thread safety: MT-Safe. Cost: microseconds.
 */
BG_API double bg_predict_rate(bg_kind kind, uint64_t bytes, uint32_t k, uint64_t items);

/* As BG_PLAN_REQUEST_INIT, for foreign-function interfaces and C++. */
BG_API void bg_plan_request_init(bg_plan_request *request);
BG_API bg_plan_request bg_plan_request_default(void);

#ifdef __cplusplus
}
#endif

#endif
