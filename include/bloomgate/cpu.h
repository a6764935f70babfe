/*
 * cpu.h - which instruction set the filters use, and how to choose another one.
 *
 * Bloomgate detects the processor once and picks the widest set of instructions that
 * both the processor and the operating system support. Every set computes the same
 * bits, so a filter written on one machine answers the same on any other.
 *
 * The choice can be overridden, for tests, for comparison, or on machines where wide
 * vectors lower the clock: by the environment variable BLOOMGATE_CPU, read when the
 * library is first used,
 *
 *     BLOOMGATE_CPU=scalar|avx2|avx512|neon
 *
 * or by `bg_cpu_select`. A set that this machine lacks is never run: asking for it
 * leaves the best one that is there below it. A filter keeps the set that was in force
 * when it was created.
 */
#ifndef BLOOMGATE_CPU_H
#define BLOOMGATE_CPU_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, number, "name"): instruction sets, weakest first within a family. */
#define BG_CPUS(X)                                                                     \
    X(SCALAR, 0, "scalar")                                                             \
    X(AVX2, 1, "avx2")                                                                 \
    X(AVX512, 2, "avx512")                                                             \
    X(NEON, 3, "neon")

typedef enum bg_cpu {
#define BG_CPU_ENUM(NAME, number, text) BG_CPU_##NAME = (number),
    BG_CPUS(BG_CPU_ENUM)
#undef BG_CPU_ENUM
} bg_cpu;

/*
 * The set that filters created from now on will use.
 * Thread safety: MT-Safe. Cost: one atomic load (the first call detects).
 */
BG_API bg_cpu bg_cpu_current(void);

/*
 * Whether this machine can run `cpu`.
 * Thread safety: MT-Safe. Cost: one atomic load.
 */
BG_API int bg_cpu_available(bg_cpu cpu);

/*
 * Use `cpu` for filters created from now on, in the whole process. Existing filters
 * keep theirs.
 * Errors: BG_ENOTSUP when this machine lacks it, BG_EINVAL for an unknown number;
 * the choice is then unchanged.
 * Thread safety: MT-Safe. Cost: one atomic store.
 */
BG_API BG_MUST_CHECK bg_err bg_cpu_select(bg_cpu cpu);

/*
 * The name of a set: "avx2". Never NULL; "unknown" for an unknown number.
 * Thread safety: MT-Safe. Cost: a table look-up.
 */
BG_API const char *bg_cpu_name(bg_cpu cpu);

/*
 * Returns the size in bytes of the data cache of level 1, 2 or 3; 0 if it is unknown, or
 * for another level. The OS reports the sizes of this machine. The environment variable
 * BLOOMGATE_CACHES replaces them, to plan filters for another machine:
 *
 *     BLOOMGATE_CACHES=48K,2M,260M
 *
 * Thread safety: MT-Safe. Cost: reads small files of the kernel.
 */
BG_API size_t bg_cpu_cache_bytes(int level);

#ifdef __cplusplus
}
#endif

#endif
