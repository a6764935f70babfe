/*
 * machine_facts.h - properties of the machine that only the library uses; see bloomgate/machine.h.
 */
#ifndef BGI_MACHINE_FACTS_H
#define BGI_MACHINE_FACTS_H

#include <stdint.h>

/* Returns an upper bound for CPU numbers: the number of configured CPUs, including those that the
 * process may not use, or the number of CPUs in BLOOMGATE_MACHINE. Thread safety: MT-Safe. Cost:
 * may read a kernel file. */
uint32_t bgi_machine_cpu_numbers(void);

#endif
