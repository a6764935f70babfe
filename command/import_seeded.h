/*
 * import_seeded.h - creates the same empty filter that valkey-bloom would create, with the seed
 * that a valkey-bloom primary sends: BF.INSERT ... TIGHTENING t SEED s. A server can therefore
 * replicate from a primary that runs valkey-bloom, and read its append-only files.
 */
#ifndef COMMAND_IMPORT_SEEDED_H
#define COMMAND_IMPORT_SEEDED_H

#include "object.h"

enum { IMPORT_SEED_BYTES = 32 };

struct import_seeded {
    uint64_t capacity;
    double rate, tightening;
    uint32_t expansion; /* growth factor; 0 if the filter does not grow */
    const void *seed;   /* IMPORT_SEED_BYTES */
};

/* Creates the filter. Errors: those of bg_foreign_create and import_object. */
bg_err import_seeded_make(const struct import_seeded *wish,
                          const struct command_settings *settings,
                          struct object **object, bg_errinfo *info);

#endif
