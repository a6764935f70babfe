/*
 * machine.h - which machine, compiler and library do the figures belong to?
 */
#ifndef BGB_MACHINE_H
#define BGB_MACHINE_H

/* Prints the machine: the first thing of every run. */
void bgb_machine_print(void);

/* Says so when others used this machine during the run: the last thing of every run. */
void bgb_machine_warn(void);

/* How many cores this process may use, and the number of the i-th of them. */
unsigned bgb_machine_cores(void);
unsigned bgb_machine_core(unsigned i);

/* Pins the calling thread to a core. A failure is reported once and is no error. */
void bgb_machine_pin(unsigned core);

/* Lets the calling thread, and threads that it starts, use all cores again. */
void bgb_machine_unpin(void);

#endif
