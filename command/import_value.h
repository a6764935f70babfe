/*
 * import_value.h - filters of other modules become objects: from a file that bg_foreign_read takes, or
 * field by field, as a server hands out what such a module has saved.
 *
 *     MBbloom--   RedisBloom's Bloom filters, version 4:
 *                 size, links, options, growth, and for each link
 *                 entries, error, hashes, bits per entry, bits, n2, bytes, size
 *     MBbloomCF   RedisBloom's cuckoo filters, version 4:
 *                 filters, buckets, items, deleted, bucket size, iterations, expansion, and for each
 *                 filter buckets, bytes
 *     bloomfltr   valkey-bloom's, version 1:
 *                 filters, expansion, rate, tightening, random seed, and for each filter capacity,
 *                 items (the last one only), bytes
 *
 * error, bits per entry, rate and tightening are doubles, `bytes` strings, the others unsigned numbers.
 *
 * Fields are put together to the file of their format, which is then read by the library's decoder, so
 * that every number is judged in one place. What is kept grows with what has come.
 */
#ifndef COMMAND_IMPORT_VALUE_H
#define COMMAND_IMPORT_VALUE_H

#include "object.h"

/* Where fields come from. After any of these `failed` may hold; what was returned then means nothing. */
struct import_source {
    uint64_t (*number)(struct import_source *source);
    double (*real)(struct import_source *source);
    void *(*bytes)(struct import_source *source, size_t *n); /* NULL: failed */
    void (*drop)(struct import_source *source, void *bytes);
    bool (*failed)(struct import_source *source);
};

/* Where they go. */
struct import_sink {
    void (*number)(struct import_sink *sink, uint64_t value);
    void (*real)(struct import_sink *sink, double value);
    void (*bytes)(struct import_sink *sink, const void *bytes, size_t n);
};

/* An object of a foreign file: of REDISBLOOM, VALKEYBLOOM or REDISCUCKOO. Errors: those of
 * bg_foreign_read; BG_ENOTSUP: another format. */
bg_err import_object(bg_foreign_format format, const void *bytes, size_t n,
                     const struct command_settings *settings, struct object **object,
                     bg_errinfo *info);

/* An object of fields, of REDISBLOOM, REDISCUCKOO or VALKEYBLOOM; `version` is what the module has saved them as.
 * `any_size`: it may be larger than the settings allow, though not grow any more then.
 * Errors: those of import_object; BG_EFORMAT: cut short, or fields of another type; BG_EVERSION. */
bg_err import_value(bg_foreign_format format, int version, struct import_source *source,
                    const struct command_settings *settings, bool any_size,
                    struct object **object, bg_errinfo *info);

/* The same fields of an object, in the newest version. BG_ENOTSUP: it is no such object. */
bg_err export_value(const struct object *object, struct import_sink *sink,
                    bg_errinfo *info);

/* Handler of BF.LOAD, which takes what valkey-bloom writes to append-only files. */
void import_bf_load(struct request *request);

#endif
