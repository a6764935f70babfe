/*
 * machine.h - describes the machine, compiler and library that the measurements apply to.
 */
#ifndef BGB_MACHINE_H
#define BGB_MACHINE_H

/* Prints a description of the machine, at the start of every run. */
void bgb_machine_print(void);

/* Prints a warning at the end of a run if other programs were running on the machine. */
void bgb_machine_warn(void);

/* Returns the number of cores that this process may use. */
unsigned bgb_machine_cores(void);

/* Returns the ID of the i-th core that this process may use. */
unsigned bgb_machine_core(unsigned i);

/* Pins the calling thread to a core. If pinning fails, prints a message the first time and
 * continues. */
void bgb_machine_pin(unsigned core);

/* Lets the calling thread, and threads that it starts, use all cores again. */
void bgb_machine_unpin(void);

#endif
