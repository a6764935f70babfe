/*
 * dump_load.h - the state of a load, shared by dump.c and dump_load.c.
 */
#ifndef COMMAND_DUMP_LOAD_H
#define COMMAND_DUMP_LOAD_H

#include "dump.h"

/* Discards the received bytes of a dump. The caller holds `dumping`, or no other thread uses the
 * object. */
void load_forget(struct object *object);

/* Returns whether a dump is being loaded into an object: chunks are still missing, or the filter
 * is being created from them. Locks `dumping`. */
bool load_is_under_way(struct object *object);

/* Sets *done to the number of bytes loaded so far, and *total to the number of bytes expected.
 * Returns false if no load is in progress. Locks `dumping`. */
bool load_progress(struct object *object, uint64_t *done, uint64_t *total);

#endif
