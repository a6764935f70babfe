/*
 * plan.h - compute the geometry of a filter and predict its properties.
 *
 * From the known requirements (the number of keys, the rate or the memory, the cost of a
 * wasted call), the planner computes a geometry and predicts its properties, without
 * creating a filter:
 *
 *     bg_plan_request request = BG_PLAN_REQUEST_INIT;
 *     request.spec.items = 100000000;
 *     request.spec.rate = 0.001;
 *     bg_plan plan;
 *     if (bg_plan_compute(&request, &plan, NULL) == BG_OK)
 *         printf("%s, %.1f bits/key\n", bg_kind_name(plan.kind), plan.bits_per_key);
 *
 * Rates are predicted for the actual layout of the kind. In filters that keep a key in one
 * line, the number of keys per line varies, so the rate is higher than the textbook
 * formula for scattered bits predicts. At 10 bits/key it is 0.82% in a classic filter,
 * 0.97% in a blocked filter and 1.27% in a Parquet filter. Measured rates agree with the
 * prediction within 5% (tests/prop, `make soak`).
 */
#ifndef BLOOMGATE_PLAN_H
#define BLOOMGATE_PLAN_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/kind.h"
#include "bloomgate/machine.h"
#include "bloomgate/spec.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The requirements for a filter. Only `spec` is required. The other fields add predictions
 * to the plan, or let the planner find the cheapest size. If items, call_cost,
 * queries_per_second and memory_cost are set, and neither the rate nor the size is set,
 * the planner minimizes
 *
 *     memory_cost x GiB  +  call_cost x (wasted calls per second)
 */
typedef struct bg_plan_request {
    uint32_t struct_size; /* sizeof(bg_plan_request) */
    uint32_t reserved;    /* 0 */
    bg_spec spec;         /* kind, items, rate, bits_per_key, bytes, ... */
    double growth;        /* factor by which the number of keys grows before the filter
                             is rebuilt; the filter is sized for items x growth; 0
                             selects 1 */
    double queries_per_second; /* number of lookups per second */
    double absent_share;       /* share of lookups for absent keys, 0 to 1; 0 (unknown)
                                  is treated as 1 */
    double call_cost;          /* cost of one call to the backing store, in any unit */
    double memory_cost; /* cost of one GiB of memory for one second, in the same unit */
    double call_seconds;       /* duration of one call to the backing store */
    double latency_objective;  /* maximum mean time per absent key in seconds, including
                                  calls wasted on false positives. Limits the rate to
                                  latency_objective / call_seconds: a higher or unset
                                  rate is changed to that limit, and a size whose rate
                                  exceeds it is refused. Must be less than call_seconds; 0 means no
                                  objective */
    const bg_machine *machine; /* the machine to plan for; NULL selects this machine */
} bg_plan_request;

#ifdef __cplusplus
#define BG_PLAN_REQUEST_INIT (bg_plan_request_default())
#else
#define BG_PLAN_REQUEST_INIT                                                           \
    {                                                                                  \
        .struct_size = sizeof(bg_plan_request), .spec = BG_SPEC_INIT                   \
    }
#endif

/* The predicted properties of a filter. */
typedef struct bg_plan {
    bg_kind kind;
    uint32_t k;     /* bits per key */
    uint64_t items; /* number of keys the filter is sized for: items x growth */
    uint64_t units; /* lines, blocks, words or bits, depending on the kind */
    uint64_t bytes; /* size of the filter's bits */
    double bits_per_key;
    double rate;     /* false-positive rate at `items` */
    double rate_2x;  /* false-positive rate with twice as many keys */
    double rate_10x; /* false-positive rate with ten times as many keys */
    double fill;     /* share of set bits at `items` */
    uint32_t
        cache_level; /* smallest cache level that holds the filter (1 to 3), or 4 if
                        none does */
    uint32_t
        lines_per_lookup; /* cache lines read for a key that may be in the filter */
    double keyed_hash_ns; /* additional nanoseconds per 16-byte key for `keyed` instead
                             of `fast` hashing, measured by bg_plan_calibrate; 0 if not
                             measured */
    double calls_avoided; /* calls avoided per second by "no" answers */
    double calls_wasted;  /* calls wasted per second because of false positives */
    double cost;          /* memory_cost x GiB + call_cost x calls_wasted */
    char reason[160];     /* reason for this kind and this k, in one sentence */
    double target;        /* requested rate, or the rate with the lowest cost; 0 if a
                             size was requested */
    uint32_t layers;      /* scalable: number of layers at `items`; window: number of
                             generations or slices; otherwise 1 */
} bg_plan;

/*
 * Computes a plan. Nothing is allocated.
 * Errors: BG_EINVAL, naming the argument that is missing or out of range; BG_ENOMEM if the
 * size exceeds spec.max_bytes or the address space; BG_ENOTSUP if the kind cannot reach
 * the rate or does not support the flags, or if the latency objective cannot be met.
 * Thread safety: MT-Safe. Cost: less than a millisecond; tens of milliseconds to find the
 * cheapest size.
 */
BG_API BG_MUST_CHECK bg_err bg_plan_compute(const bg_plan_request *request,
                                            bg_plan *plan, bg_errinfo *info);

/*
 * Fills in `spec` with exactly the planned geometry and the requested rate, and with the
 * hash, flags, allocator and limits of `request`. Pass the result to bg_filter_create.
 * Thread safety: MT-Safe. Cost: a copy.
 */
BG_API void bg_plan_to_spec(const bg_plan *plan, const bg_plan_request *request,
                            bg_spec *spec);

/*
 * Fills in a request with all defaults, for foreign-function interfaces.
 * Thread safety: MT-Safe for different requests.
 */
BG_API void bg_plan_request_init(bg_plan_request *request);

/* Returns a request with all defaults, for C++. Thread safety: MT-Safe. */
BG_API bg_plan_request bg_plan_request_default(void);

#ifdef __cplusplus
}
#endif

#endif
