/*
 * cpu.h - which instruction set the filters use.
 *
 * Bloomgate detects the CPU once and uses the widest instruction set that both the CPU and
 * the OS support. All instruction sets compute the same bits, so a filter written on one
 * machine gives the same answers on any other.
 *
 * To use a different instruction set (for tests, for comparison, or on machines where wide
 * vectors lower the clock rate), set the environment variable BLOOMGATE_CPU, which is read
 * when the library is first used:
 *
 *     BLOOMGATE_CPU=scalar|avx2|avx512|neon
 *
 * You can also call bg_cpu_select. An instruction set that the machine does not support is
 * never used. If BLOOMGATE_CPU specifies an unsupported set, the best supported set below
 * it is used. A filter keeps the set that was selected when it was created.
 */
#ifndef BLOOMGATE_CPU_H
#define BLOOMGATE_CPU_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, number, "name"): the list of instruction sets, narrowest first within each family. */
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
 * Returns the instruction set that new filters use.
 * Thread safety: MT-Safe. Cost: one atomic load; the first call detects the CPU.
 */
BG_API bg_cpu bg_cpu_current(void);

/*
 * Returns whether this machine supports `cpu`.
 * Thread safety: MT-Safe. Cost: one atomic load.
 */
BG_API bool bg_cpu_available(bg_cpu cpu);

/*
 * Selects the instruction set that new filters in this process use. Existing filters keep
 * their instruction set.
 * Errors: BG_ENOTSUP if this machine does not support `cpu`; BG_EINVAL for an unknown
 * number. On error the selection is unchanged.
 * Thread safety: MT-Safe. Cost: one atomic store.
 */
BG_API BG_MUST_CHECK bg_err bg_cpu_select(bg_cpu cpu);

/*
 * Returns the name of an instruction set, such as "avx2"; "unknown" for an unknown number.
 * Thread safety: MT-Safe. Cost: a table lookup.
 */
BG_API const char *bg_cpu_name(bg_cpu cpu);

/*
 * Returns the size in bytes of the data cache of level 1, 2 or 3; 0 if the size is
 * unknown, and for any other level. The environment variable BLOOMGATE_MACHINE replaces
 * the detected sizes (machine.h).
 * Thread safety: MT-Safe. Cost: reads one small kernel file (up to 25 on the first call).
 */
BG_API size_t bg_cpu_cache_bytes(int level);

#ifdef __cplusplus
}
#endif

#endif
