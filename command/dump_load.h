/*
 * dump_load.h - chunks on their way into an object: what dump.c and dump_load.c share.
 */
#ifndef COMMAND_DUMP_LOAD_H
#define COMMAND_DUMP_LOAD_H

#include "dump.h"

/* Forgets what has come of a dump; `dumping` is held, or nobody else has the object. */
void load_forget(struct object *object);

/* Returns whether a dump is being loaded into an object: chunks are still missing, or the filter is being created
 * from them. Locks `dumping`. */
bool load_is_under_way(struct object *object);

/* How much of how many bytes has come; false: nothing is being loaded. Takes `dumping`. */
bool load_progress(struct object *object, uint64_t *done, uint64_t *total);

#endif
