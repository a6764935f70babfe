/*
 * import_value.h - converts other modules' filters to objects: either from a file that
 * bg_foreign_decode accepts, or field by field, when a server loads a value saved by such a module.
 *
 *     MBbloom--   RedisBloom's Bloom filters, version 4:
 *                 size, links, options, growth, and for each link
 *                 entries, error, hashes, bits per entry, bits, n2, bytes, size
 *     MBbloomCF   RedisBloom's cuckoo filters, version 4:
 *                 filters, buckets, items, deleted, bucket size, iterations, expansion, and for
 *                 each filter buckets, bytes
 *     bloomfltr   valkey-bloom's, version 1:
 *                 filters, expansion, rate, tightening, random seed, and for each filter
 *                 capacity, items (the last one only), bytes
 *
 * error, bits per entry, rate and tightening are doubles, `bytes` is a string, and the other fields
 * are unsigned integers.
 *
 * Fields are assembled into a file in the other module's format, and the library then decodes this
 * file. Every number is therefore validated in one place. Memory use grows with the number of bytes
 * received.
 */
#ifndef COMMAND_IMPORT_VALUE_H
#define COMMAND_IMPORT_VALUE_H

#include "object.h"

/* Sizes in RedisBloom's dump format; see docs/foreign.md. A header and the bits of each part (a link
 * of a Bloom filter, or a filter of a cuckoo filter) are records, which start with 16 bytes. */
enum {
    IMPORT_RECORD = 16,
    REDIS_HEADER = 20,
    REDIS_LINK = 53,
    CUCKOO_HEADER = 38,
    IMPORT_PARTS = 65536 /* maximum number of parts */
};

/* Returns the maximum size of a file that contains a filter of the maximum size. */
uint64_t import_most(const struct command_settings *settings, uint64_t margin);

/* Returns the options for decoding a file within the limits of the settings. */
bg_foreign_options import_options(const struct command_settings *settings);

/* A source from which fields are read. If `failed` returns true after a call, the value that the
 * call returned is meaningless. */
struct import_source {
    uint64_t (*number)(struct import_source *source);
    double (*real)(struct import_source *source);
    void *(*bytes)(struct import_source *source, size_t *n); /* NULL on failure */
    void (*drop)(struct import_source *source, void *bytes);
    bool (*failed)(struct import_source *source);
};

/* A destination to which fields are written. */
struct import_sink {
    void (*number)(struct import_sink *sink, uint64_t value);
    void (*real)(struct import_sink *sink, double value);
    void (*bytes)(struct import_sink *sink, const void *bytes, size_t n);
};

/* Creates an object from a file in the format REDISBLOOM, VALKEYBLOOM or REDISCUCKOO. Errors: those
 * of bg_foreign_decode; BG_ENOTSUP for other formats. */
bg_err import_object(bg_foreign_format format, const void *bytes, size_t n,
                     const struct command_settings *settings, struct object **object,
                     bg_errinfo *info);

/* Creates an object from fields in the format REDISBLOOM, REDISCUCKOO or VALKEYBLOOM. `version` is
 * the format version in which the module saved the value. If `any_size` is set, the object may
 * exceed the limits in the settings, but then cannot grow. Errors: those of import_object;
 * BG_EFORMAT if the value is truncated or a field has the wrong type; BG_EVERSION. */
bg_err import_value(bg_foreign_format format, int version, struct import_source *source,
                    const struct command_settings *settings, bool any_size,
                    struct object **object, bg_errinfo *info);

/* Writes an object field by field, in the newest format version that import_value can read. Errors:
 * BG_ENOTSUP if the object was not imported from one of the formats above. */
bg_err export_value(const struct object *object, struct import_sink *sink,
                    bg_errinfo *info);

enum { IMPORT_SEED_BYTES = 32 };

struct import_seeded {
    uint64_t capacity;
    double rate, tightening;
    uint32_t expansion; /* growth factor; 0 if the filter does not grow */
    const void *seed;   /* IMPORT_SEED_BYTES */
};

/* Creates the same empty filter that valkey-bloom would create, with the seed that a valkey-bloom
 * primary sends: BF.INSERT ... TIGHTENING t SEED s. A server can therefore replicate from a primary
 * that runs valkey-bloom, and read its append-only files. Errors: those of bg_foreign_create and import_object. */
bg_err import_seeded_make(const struct import_seeded *wish,
                          const struct command_settings *settings,
                          struct object **object, bg_errinfo *info);

/* Handles BF.LOAD, which accepts values from valkey-bloom's append-only files. */
void import_bf_load(struct request *request);

#endif
