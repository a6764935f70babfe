/*
 * machine.h - describe a machine: its caches, its memory and its CPUs.
 *
 * The planner reports the smallest cache that a filter fits in. By default, it uses the caches
 * of this machine. To plan for another machine, describe that machine:
 *
 *     bg_machine machine;
 *     bg_plan_request request = BG_PLAN_REQUEST_INIT;
 *     if (bg_machine_read("l2=1Mi,l3=32Mi,memory=16Gi,cpus=8", &machine, NULL) == BG_OK)
 *         request.machine = &machine;
 *
 * A description is a list of parts, separated by commas:
 *
 *     l1=SIZE, l2=SIZE, l3=SIZE   data caches, at most 64Gi; 0 if there is no such cache
 *     memory=SIZE                 main memory, at most 64Pi
 *     cpus=N                      CPUs that the process may use, 1 to 65536
 *
 * A size is a whole number of bytes with an optional unit. The units k, M, G, T and P are
 * powers of 1000, and Ki, Mi, Gi, Ti and Pi are powers of 1024. Omitted parts default
 * to this machine's values.
 *
 * The environment variable BLOOMGATE_MACHINE can contain a description, which replaces the
 * detected values for the whole process. It affects plans, prefetching and the number of
 * striped counters, but never bits, answers or the number of threads. An invalid
 * description is ignored, except by bg_machine_read, which reports it.
 */
#ifndef BLOOMGATE_MACHINE_H
#define BLOOMGATE_MACHINE_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The properties of a machine. 0 means that a value is unknown or that there is no such cache. */
typedef struct bg_machine {
    uint64_t cache_bytes[3]; /* data caches of levels 1, 2 and 3 */
    uint64_t memory_bytes;   /* main memory, or the limit of the control group if that
                                is lower */
    uint32_t cpus;           /* CPUs that the process may use, at least 1 */
    uint32_t reserved[5];    /* 0 */
} bg_machine;

/*
 * Fills in `machine` with the detected properties of this machine. Ignores
 * BLOOMGATE_MACHINE.
 * Thread safety: MT-Safe. Cost: reads one small kernel file (up to 25 on the first call).
 */
BG_API void bg_machine_detect(bg_machine *machine);

/*
 * Fills in `machine`. Detected values are overridden by BLOOMGATE_MACHINE, and those by
 * `text`, which may be NULL.
 * Errors: BG_EINVAL, naming the invalid part of `text` or BLOOMGATE_MACHINE. On error, the
 * invalid description is ignored and `machine` is still filled in.
 * Thread safety: MT-Safe. Cost: reads one small kernel file (up to 25 on the first call).
 */
BG_API bg_err bg_machine_read(const char *text, bg_machine *machine, bg_errinfo *info);

#ifdef __cplusplus
}
#endif

#endif
