/* import_value.c - see import_value.h. */
#include "import_value.h"

#include "args.h"
#include "bytes.h"
#include "dump.h"

#include <stdlib.h>
#include <string.h>

enum {
    REDIS_NONSCALING = 8,
    REDIS_VERSION = 4,
    VALKEY_HEADER = 30,
    VALKEY_VERSION = 1
};

/* ---- Shapes ---------------------------------------------------------------------------------- */

static uint64_t import_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double import_get_real(const uint8_t *p)
{
    const uint64_t bits = bytes_load64(p);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Returns the shape of the filter in a file that the decoder has accepted. */
static struct object_shape import_shape_redis(const uint8_t *file)
{
    const uint8_t *header = file + IMPORT_RECORD, *link = header + REDIS_HEADER;
    const bool nonscaling = bytes_load32(header + 12) & REDIS_NONSCALING;
    const double rate = import_get_real(link + 24);
    return (struct object_shape){ .family = OBJECT_BF,
                                  .kind = BG_KIND_SCALABLE,
                                  .imported = 1,
                                  .foreign = BG_FOREIGN_REDISBLOOM,
                                  .nonscaling = nonscaling,
                                  .expansion =
                                      nonscaling ? 0 : bytes_load32(header + 16),
                                  .rate = nonscaling || rate > 0.5 ? rate : 2 * rate,
                                  .items = bytes_load64(link + 44) };
}

static struct object_shape import_shape_valkey(const uint8_t *file)
{
    const uint32_t expansion = bytes_load32(file + 1);
    const uint64_t first = bytes_load64(file + VALKEY_HEADER); /* size in bytes */
    const uint8_t *capacity = file + VALKEY_HEADER + 8 + first + 8;
    return (struct object_shape){ .family = OBJECT_BF,
                                  .kind = BG_KIND_SCALABLE,
                                  .imported = 1,
                                  .foreign = BG_FOREIGN_VALKEYBLOOM,
                                  .nonscaling = expansion == 0,
                                  .expansion = expansion,
                                  .rate = import_get_real(file + 5),
                                  .items = bytes_load64(capacity) };
}

static struct object_shape import_shape_cuckoo(const uint8_t *file)
{
    const uint8_t *header = file + IMPORT_RECORD;
    const uint32_t bucket_size = bytes_load16(header + 32);
    return (struct object_shape){
        .family = OBJECT_CF,
        .kind = BG_KIND_CUCKOO,
        .imported = 1,
        .foreign = BG_FOREIGN_REDISCUCKOO,
        .items = bytes_load64(header + 8) * bucket_size,
        .bucket_size = bucket_size,
        .max_iterations = bytes_load16(header + 34),
        .expansion = bytes_load16(header + 36),
    };
}

bg_foreign_options import_options(const struct command_settings *settings)
{
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    how.max_bytes = settings->max_filter_bytes;
    how.allocator = settings->allocator;
    return how;
}

bg_err import_object(bg_foreign_format format, const void *bytes, size_t n,
                     const struct command_settings *settings, struct object **object,
                     bg_errinfo *info)
{
    const bg_foreign_options how = import_options(settings);
    bg_foreign *foreign = NULL;
    struct object_shape shape;
    *object = NULL;
    if (format != BG_FOREIGN_REDISBLOOM && format != BG_FOREIGN_VALKEYBLOOM
        && format != BG_FOREIGN_REDISCUCKOO) {
        return error_fail(info, BG_ENOTSUP,
                          "filters in this format cannot be imported");
    }
    bg_err err = bg_foreign_decode(format, bytes, n, &how, &foreign, info);
    if (err) {
        return err;
    }
    shape = format == BG_FOREIGN_REDISBLOOM    ? import_shape_redis(bytes)
            : format == BG_FOREIGN_REDISCUCKOO ? import_shape_cuckoo(bytes)
                                               : import_shape_valkey(bytes);
    err = object_adopt(&shape, NULL, foreign, object, info);
    if (err || !*object) {
        bg_foreign_free(foreign);
        return err;
    }
    object_recount(*object);
    if (format == BG_FOREIGN_REDISCUCKOO) { /* its item count excludes deleted items */
        const uint64_t deleted =
            bytes_load64((const uint8_t *)bytes + IMPORT_RECORD + 16);
        atomic_fetch_add(&(*object)->items, deleted);
        atomic_store(&(*object)->deleted, deleted);
    }
    return BG_OK;
}

/* ---- Import ---------------------------------------------------------------------------------- */

/* A file that is being assembled. */
struct import_file {
    struct import_source *source;
    uint64_t most; /* maximum number of bytes */
    uint8_t *bytes;
    size_t n, room;
};

uint64_t import_most(const struct command_settings *settings, uint64_t margin)
{
    const uint64_t most = settings->max_filter_bytes;
    return most && most < UINT64_MAX / 4 ? most + most / 64 + margin
                                         : UINT64_C(1) << 56;
}

/* Returns zeroed memory for n more bytes, or NULL if the file would exceed the limit or if out of
 * memory. */
static uint8_t *import_room(struct import_file *file, uint64_t n, bg_errinfo *info)
{
    if (n > file->most || file->n > file->most - n) {
        (void)error_fail(
            info, BG_ENOMEM,
            "the filter is larger than the limit of %llu bytes: raise max-filter-memory",
            (unsigned long long)file->most);
        return NULL;
    }
    const size_t needed = file->n + (size_t)n;
    if (needed > file->room || !file->bytes) {
        const size_t room =
            needed < SIZE_MAX / 2 ? needed + needed / 4 + IMPORT_RECORD : needed;
        uint8_t *bytes = realloc(file->bytes, room);
        if (!bytes) {
            (void)error_fail(info, BG_ENOMEM,
                             "cannot allocate %zu bytes for the filter", needed);
            return NULL;
        }
        file->bytes = bytes;
        file->room = room;
    }
    uint8_t *to = file->bytes + file->n;
    memset(to, 0, (size_t)n);
    file->n = needed;
    return to;
}

static bg_err import_short(bg_errinfo *info)
{
    return error_fail(info, BG_EFORMAT,
                      "the value is truncated, or its fields have the wrong types");
}

static bool import_failed(const struct import_file *file)
{
    return file->source->failed(file->source);
}

static uint64_t import_number(const struct import_file *file)
{
    return import_failed(file) ? 0 : file->source->number(file->source);
}

static uint64_t import_real(const struct import_file *file)
{
    return import_bits(import_failed(file) ? 0 : file->source->real(file->source));
}

/* Reads the next string and appends `before` zero bytes and the string to the file. Sets *at to the
 * offset of the zero bytes, and *n to the length of the string. */
static bg_err import_string(struct import_file *file, size_t before, size_t *at,
                            size_t *n, bg_errinfo *info)
{
    *n = 0;
    void *bytes = import_failed(file) ? NULL : file->source->bytes(file->source, n);
    if (!bytes || import_failed(file)) {
        if (bytes) {
            file->source->drop(file->source, bytes);
        }
        return import_short(info);
    }
    *at = file->n;
    uint8_t *to = import_room(file, (uint64_t)before + *n, info);
    if (to && *n) {
        memcpy(to + before, bytes, *n);
    }
    file->source->drop(file->source, bytes);
    return to ? BG_OK : BG_ENOMEM;
}

static bg_err import_beyond(const char *what, uint64_t value, uint64_t min,
                            uint64_t max, bg_errinfo *info)
{
    return error_fail(info, BG_EFORMAT, "%s: found %llu, expected %llu to %llu", what,
                      (unsigned long long)value, (unsigned long long)min,
                      (unsigned long long)max);
}

/* ---- Fields ---------------------------------------------------------------------------------- */

/* The numbers of a header, in the order in which they are saved. */
struct import_field {
    const char *name;
    size_t place; /* offset in the header */
    enum { U8 = 1, U16 = 2, U32 = 4, U64 = 8, REAL = 9 } type; /* integers: in bytes */
    uint64_t min, max; /* `max` 0 allows any value that fits */
};

static const struct import_field redis_header[] = {
    { "size", 0, U64, 0, 0 },
    { "number of layers", 8, U32, 1, IMPORT_PARTS },
    { "options", 12, U32, 0, 0 },
    { "growth", 16, U32, 0, 0 },
};

static const struct import_field redis_link[] = {
    { "entries", 44, U64, 0, 0 },
    { "error", 24, REAL, 0, 0 },
    { "number of hashes in a layer", 40, U32, 0, 0 },
    { "bits per entry", 32, REAL, 0, 0 },
    { "bits", 8, U64, 0, 0 },
    { "n2 of a layer", 52, U8, 0, 0 },
};
static const struct import_field redis_link_size[] = {
    { "size", 16, U64, 0, 0 }, /* follows the bits of the link */
};

static const struct import_field cuckoo_header[] = {
    { "number of filters", 24, U64, 0, IMPORT_PARTS },
    { "number of buckets", 8, U64, 0, UINT32_MAX },
    { "items", 0, U64, 0, 0 },
    { "deleted", 16, U64, 0, 0 },
    { "bucket size", 32, U16, 0, 0 },
    { "iterations", 34, U16, 0, 0 },
    { "expansion", 36, U16, 0, 0 },
};

static const struct import_field valkey_header[] = {
    { "number of filters", 22, U64, 1, IMPORT_PARTS },
    { "expansion", 1, U32, 0, 0 },
    { "rate", 5, REAL, 0, 0 },
    { "tightening", 13, REAL, 0, 0 },
    { "random-seed flag", 21, U8, 0, 1 },
};

#define IMPORT_FIELDS(fields) fields, sizeof(fields) / sizeof *(fields)

/* Reads fields into a header. */
static bg_err import_fields(const struct import_file *file,
                            const struct import_field *fields, size_t n,
                            uint8_t *header, bg_errinfo *info)
{
    for (const struct import_field *f = fields; f < fields + n; f++) {
        const uint64_t value =
            f->type == REAL ? import_real(file) : import_number(file);
        const size_t bytes = f->type < U64 ? f->type : U64;
        const uint64_t max = f->max ? f->max : UINT64_MAX >> (64 - 8 * bytes);
        if (import_failed(file)) {
            return import_short(info);
        }
        if (value < f->min || value > max) {
            return import_beyond(f->name, value, f->min, max, info);
        }
        for (size_t i = 0; i < bytes; i++) {
            header[f->place + i] = (uint8_t)(value >> 8 * i);
        }
    }
    return BG_OK;
}

static void export_fields(struct import_sink *sink, const struct import_field *fields,
                          size_t n, const uint8_t *header)
{
    for (const struct import_field *f = fields; f < fields + n; f++) {
        const uint8_t *p = header + f->place;
        switch (f->type) {
        case U8: sink->number(sink, *p); break;
        case U16: sink->number(sink, bytes_load16(p)); break;
        case U32: sink->number(sink, bytes_load32(p)); break;
        case U64: sink->number(sink, bytes_load64(p)); break;
        case REAL: sink->real(sink, import_get_real(p)); break;
        }
    }
}

/* ---- RedisBloom ------------------------------------------------------------------------------ */

/* Appends the next string as a record. Sets *n to its length, and adds it to *done. */
static bg_err import_record(struct import_file *file, uint64_t *done, size_t *n,
                            bg_errinfo *info)
{
    size_t at = 0;
    const bg_err err = import_string(file, IMPORT_RECORD, &at, n, info);
    if (!err) {
        *done += *n;
        bytes_store64(file->bytes + at, 1 + *done);
        bytes_store64(file->bytes + at + 8, *n);
    }
    return err;
}

/* Appends the record of a file's header, followed by `more` zeros that belong to it. */
static bg_err import_header(struct import_file *file, const uint8_t *header, size_t n,
                            uint64_t more, bg_errinfo *info)
{
    uint8_t *p = import_room(file, IMPORT_RECORD + n + more, info);
    if (!p) {
        return BG_ENOMEM;
    }
    bytes_store64(p, 1);
    bytes_store64(p + 8, n + more);
    memcpy(p + IMPORT_RECORD, header, n);
    return BG_OK;
}

/* Appends a link's bits, and writes its other fields to the header. */
static bg_err import_redis_link(struct import_file *file, uint64_t number,
                                uint64_t *done, bg_errinfo *info)
{
    uint8_t link[REDIS_LINK] = { 0 };
    size_t n = 0;
    bg_err err = import_fields(file, IMPORT_FIELDS(redis_link), link, info);
    err = err ? err : import_record(file, done, &n, info);
    err = err ? err : import_fields(file, IMPORT_FIELDS(redis_link_size), link, info);
    if (!err) {
        bytes_store64(link, n);
        memcpy(file->bytes + IMPORT_RECORD + REDIS_HEADER + sizeof link * number, link,
               sizeof link);
    }
    return err;
}

static bg_err import_redis(struct import_file *file, bg_errinfo *info)
{
    uint8_t header[REDIS_HEADER] = { 0 };
    uint64_t done = 0;
    bg_err err = import_fields(file, IMPORT_FIELDS(redis_header), header, info);
    const uint64_t links = bytes_load32(header + 8);
    err = err ? err
              : import_header(file, header, sizeof header, REDIS_LINK * links, info);
    for (uint64_t i = 0; !err && i < links; i++) {
        err = import_redis_link(file, i, &done, info);
    }
    return err;
}

/* ---- RedisBloom cuckoo filters ------------------------------------------------------------ */

/* Reads one filter in the chain. Fails unless the filter has `buckets` buckets and the size that
 * follows from this number. */
static bg_err import_cuckoo_filter(struct import_file *file, uint64_t buckets,
                                   uint64_t bucket_size, uint64_t *done,
                                   bg_errinfo *info)
{
    const uint64_t found = import_number(file), slots = buckets * bucket_size;
    size_t n = 0;
    if (!import_failed(file) && found != buckets) {
        return error_fail(info, BG_EFORMAT,
                          "number of buckets in a filter: found %llu, expected %llu",
                          (unsigned long long)found, (unsigned long long)buckets);
    }
    const bg_err err = import_record(file, done, &n, info);
    if (!err && n != slots) {
        return error_fail(info, BG_EFORMAT,
                          "number of bytes in a filter: found %zu, expected %llu", n,
                          (unsigned long long)slots);
    }
    return err;
}

static bg_err import_cuckoo(struct import_file *file, bg_errinfo *info)
{
    uint8_t header[CUCKOO_HEADER] = { 0 };
    uint64_t done = 0;
    bg_err err = import_fields(file, IMPORT_FIELDS(cuckoo_header), header, info);
    err = err ? err : import_header(file, header, sizeof header, 0, info);
    const uint64_t filters = bytes_load64(header + 24);
    uint64_t buckets = bytes_load64(header + 8);
    for (uint64_t i = 0; !err && i < filters; i++) {
        err = buckets > UINT32_MAX
                  ? import_beyond("number of buckets in a filter", buckets, 0,
                                  UINT32_MAX, info)
                  : import_cuckoo_filter(file, buckets, bytes_load16(header + 32),
                                         &done, info);
        buckets *= bytes_load16(header + 36);
    }
    return err;
}

/* ---- valkey-bloom ---------------------------------------------------------------------------- */

static bg_err import_valkey_filter(struct import_file *file, bool last,
                                   bg_errinfo *info)
{
    const uint64_t capacity = import_number(file),
                   items = last ? import_number(file) : capacity;
    size_t at = 0, n = 0;
    const bg_err err = import_string(file, 8, &at, &n, info);
    uint8_t *counts = err ? NULL : import_room(file, 16, info);
    if (!counts) {
        return err ? err : BG_ENOMEM;
    }
    bytes_store64(file->bytes + at, n);
    bytes_store64(counts, items);
    bytes_store64(counts + 8, capacity);
    return BG_OK;
}

static bg_err import_valkey(struct import_file *file, bg_errinfo *info)
{
    uint8_t header[VALKEY_HEADER] = { VALKEY_VERSION };
    bg_err err = import_fields(file, IMPORT_FIELDS(valkey_header), header, info);
    uint8_t *p = err ? NULL : import_room(file, sizeof header, info);
    if (!p) {
        return err ? err : BG_ENOMEM;
    }
    memcpy(p, header, sizeof header);
    const uint64_t filters = bytes_load64(header + 22);
    for (uint64_t i = 0; !err && i < filters; i++) {
        err = import_valkey_filter(file, i + 1 == filters, info);
    }
    return err;
}

/* The formats whose values can be read. Version 3 of RedisBloom's format is not supported, because
 * RedisBloom 2.0.2 changed the hash, and a value in version 3 does not show which hash it uses. */
static const struct import_kind {
    bg_foreign_format format;
    int version;
    const char *expected;
    bg_err (*take)(struct import_file *file, bg_errinfo *info);
} import_kinds[] = {
    { BG_FOREIGN_REDISBLOOM, REDIS_VERSION, "4 (RedisBloom 2.2 and later)",
      import_redis },
    { BG_FOREIGN_REDISCUCKOO, REDIS_VERSION, "4 (RedisBloom 2.2 and later)",
      import_cuckoo },
    { BG_FOREIGN_VALKEYBLOOM, VALKEY_VERSION, "1", import_valkey },
};

static const struct import_kind *import_kind_of(bg_foreign_format format)
{
    for (size_t i = 0; i < sizeof import_kinds / sizeof *import_kinds; i++) {
        if (import_kinds[i].format == format) {
            return &import_kinds[i];
        }
    }
    return NULL;
}

bg_err import_value(bg_foreign_format format, int version, struct import_source *source,
                    const struct command_settings *settings, bool any_size,
                    struct object **object, bg_errinfo *info)
{
    const struct import_kind *kind = import_kind_of(format);
    struct import_file file = { .source = source,
                                .most = any_size ? UINT64_C(1) << 56
                                                 : import_most(settings, 4 << 20) };
    *object = NULL;
    if (!kind) {
        return error_fail(info, BG_ENOTSUP, "values in this format cannot be read");
    }
    if (version != kind->version) {
        return error_fail(info, BG_EVERSION, "the value has version %d, expected %s",
                          version, kind->expected);
    }
    bg_err err = kind->take(&file, info);
    err = err ? err : import_object(format, file.bytes, file.n, settings, object, info);
    if (err == BG_ENOMEM && any_size && file.n) {
        struct command_settings large = *settings;
        large.max_filter_bytes = file.n;
        err = import_object(format, file.bytes, file.n, &large, object, info);
    }
    free(file.bytes);
    return err;
}

/* ---- Export ---------------------------------------------------------------------------------- */

/* A part larger than 16 MiB is stored as several records. Moves the bytes of these records
 * together, so that each part is contiguous. */
static void export_join(uint8_t *file, size_t n, uint64_t parts,
                        uint64_t (*bytes_of)(const uint8_t *header, uint64_t part))
{
    const uint8_t *header = file + IMPORT_RECORD,
                  *from = header + bytes_load64(file + 8);
    uint8_t *to = file + (from - file);
    for (uint64_t i = 0; i < parts; i++) {
        uint64_t left = bytes_of(header, i);
        to += IMPORT_RECORD;
        while (left > 0 && from < file + n) {
            const uint64_t piece = bytes_load64(from + 8);
            memmove(to, from + IMPORT_RECORD, (size_t)piece);
            to += piece;
            from += IMPORT_RECORD + piece;
            left -= piece;
        }
    }
}

static uint64_t export_redis_bytes(const uint8_t *header, uint64_t part)
{
    return bytes_load64(header + REDIS_HEADER + REDIS_LINK * part);
}

static void export_redis(uint8_t *file, size_t size, struct import_sink *sink)
{
    const uint8_t *header = file + IMPORT_RECORD;
    const uint32_t links = bytes_load32(header + 8);
    const uint8_t *record = header + bytes_load64(file + 8);
    export_join(file, size, links, export_redis_bytes);
    export_fields(sink, IMPORT_FIELDS(redis_header), header);
    for (uint32_t i = 0; i < links; i++) {
        const uint8_t *link = header + REDIS_HEADER + REDIS_LINK * (size_t)i;
        export_fields(sink, IMPORT_FIELDS(redis_link), link);
        sink->bytes(sink, record + IMPORT_RECORD, (size_t)bytes_load64(link));
        export_fields(sink, IMPORT_FIELDS(redis_link_size), link);
        record += IMPORT_RECORD + bytes_load64(link);
    }
}

static uint64_t export_cuckoo_buckets(const uint8_t *header, uint64_t part)
{
    uint64_t buckets = bytes_load64(header + 8);
    for (uint64_t i = 0; i < part; i++) {
        buckets *= bytes_load16(header + 36);
    }
    return buckets;
}

static uint64_t export_cuckoo_bytes(const uint8_t *header, uint64_t part)
{
    return export_cuckoo_buckets(header, part) * bytes_load16(header + 32);
}

static void export_cuckoo(uint8_t *file, size_t size, struct import_sink *sink)
{
    const uint8_t *header = file + IMPORT_RECORD;
    const uint64_t filters = bytes_load64(header + 24);
    const uint8_t *record = header + CUCKOO_HEADER;
    export_join(file, size, filters, export_cuckoo_bytes);
    export_fields(sink, IMPORT_FIELDS(cuckoo_header), header);
    for (uint64_t i = 0; i < filters; i++) {
        const uint64_t n = export_cuckoo_bytes(header, i);
        sink->number(sink, export_cuckoo_buckets(header, i));
        sink->bytes(sink, record + IMPORT_RECORD, (size_t)n);
        record += IMPORT_RECORD + n;
    }
}

static void export_valkey(const uint8_t *file, struct import_sink *sink)
{
    const uint64_t filters = bytes_load64(file + 22);
    const uint8_t *p = file + VALKEY_HEADER;
    export_fields(sink, IMPORT_FIELDS(valkey_header), file);
    for (uint64_t i = 0; i < filters; i++) {
        const uint64_t n = bytes_load64(p);
        sink->number(sink, bytes_load64(p + 8 + n + 8));
        if (i + 1 == filters) {
            sink->number(sink, bytes_load64(p + 8 + n));
        }
        sink->bytes(sink, p + 8, (size_t)n);
        p += 8 + n + 16;
    }
}

bg_err export_value(const struct object *object, struct import_sink *sink,
                    bg_errinfo *info)
{
    void *bytes = NULL;
    size_t n = 0;
    if (!object->foreign || !import_kind_of((bg_foreign_format)object->shape.foreign)) {
        return error_fail(info, BG_ENOTSUP,
                          "the filter was not imported from RedisBloom or "
                          "valkey-bloom");
    }
    const bg_err err = dump_encode(object, true, &bytes, &n, info);
    if (err) {
        return err;
    }
    switch (object->shape.foreign) {
    case BG_FOREIGN_REDISBLOOM: export_redis(bytes, n, sink); break;
    case BG_FOREIGN_REDISCUCKOO: export_cuckoo(bytes, n, sink); break;
    default: export_valkey(bytes, sink); break;
    }
    dump_give(object, bytes, n);
    return BG_OK;
}

/* ---- Empty filters --------------------------------------------------------------------------- */

/*
 * Only the library can compute the size of a valkey-bloom filter, so a temporary filter is created
 * to determine the size. Then a file that contains a filter of this size, with all bits zero, is
 * written in the format described in foreign_valkeybloom.c. The file is decoded like an imported
 * file. The zero bits in this file hardly use any memory, because pages from calloc use none until
 * they are written.
 */
enum {
    SEEDED_BLOOM = 45, /* size of a filter's data before its bits */
    SEEDED_FRAME = 8 + SEEDED_BLOOM + 16
};

/* The seed that valkey-bloom uses if bloom-use-random-seed is set to no. */
static const uint8_t seeded_fixed[IMPORT_SEED_BYTES] = {
    0x59, 0x0f, 0xf5, 0x22, 0xea, 0x78, 0x11, 0xda, 0xa7, 0x14, 0xd8,
    0x09, 0x3b, 0x3e, 0x7b, 0xd9, 0x1d, 0x89, 0x8a, 0x73, 0x3e, 0x98,
    0x88, 0x87, 0x30, 0x7f, 0x97, 0xcd, 0x28, 0x07, 0x33, 0x83
};

/* Computes the size of the bit array in bytes, and the number of hash functions k. */
static bg_err seeded_size(const struct import_seeded *wish,
                          const struct command_settings *settings, uint64_t *bytes,
                          uint32_t *k, bg_errinfo *info)
{
    const bg_foreign_options how = import_options(settings);
    bg_foreign_info about = { .struct_size = sizeof about };
    bg_foreign *foreign = NULL;
    bg_err err = bg_foreign_create(BG_FOREIGN_VALKEYBLOOM, wish->capacity, wish->rate,
                                   &how, &foreign, info);
    err = err ? err : bg_foreign_get_info(foreign, &about);
    *bytes = bg_foreign_size_bytes(foreign);
    *k = about.k;
    bg_foreign_free(foreign);
    return err;
}

static void seeded_write(const struct import_seeded *wish, uint64_t bytes, uint32_t k,
                         uint8_t *file)
{
    uint8_t *bloom = file + VALKEY_HEADER + 8;
    file[0] = VALKEY_VERSION;
    bytes_store32(file + 1, wish->expansion);
    bytes_store64(file + 5, import_bits(wish->rate));
    bytes_store64(file + 13, import_bits(wish->tightening));
    file[21] = memcmp(wish->seed, seeded_fixed, sizeof seeded_fixed) != 0;
    bytes_store64(file + 22, 1); /* number of filters */
    bytes_store64(file + VALKEY_HEADER, SEEDED_BLOOM + bytes);
    bloom[0] = 1;
    bytes_store64(bloom + 1, bytes);
    bytes_store32(bloom + 9, k);
    memcpy(bloom + 13, wish->seed, IMPORT_SEED_BYTES);
    bytes_store64(bloom + SEEDED_BLOOM + bytes + 8, wish->capacity);
}

bg_err import_seeded_make(const struct import_seeded *wish,
                          const struct command_settings *settings,
                          struct object **object, bg_errinfo *info)
{
    uint64_t bytes = 0;
    uint32_t k = 0;
    *object = NULL;
    bg_err err = seeded_size(wish, settings, &bytes, &k, info);
    if (err) {
        return err;
    }
    /* This sum does not overflow, because a filter of this size was just created. */
    const size_t n = VALKEY_HEADER + SEEDED_FRAME + (size_t)bytes;
    uint8_t *file = calloc(1, n);
    if (!file) {
        return error_fail(info, BG_ENOMEM, "cannot allocate %zu bytes for the filter",
                          n);
    }
    seeded_write(wish, bytes, k, file);
    err = import_object(BG_FOREIGN_VALKEYBLOOM, file, n, settings, object, info);
    free(file);
    return err;
}

/* ---- BF.LOAD --------------------------------------------------------------------------------- */

void import_bf_load(struct request *request)
{
    static const char busy[] = "BUSYKEY Target key name already exists.";
    struct host *host = request->host;
    struct object *object = NULL;
    bg_errinfo info = { 0 };
    if (host->ops->find(host, request->argv[1])) {
        reply_error(&request->reply, busy);
        return;
    }
    bg_err err = import_object(BG_FOREIGN_VALKEYBLOOM, request->argv[2].data,
                               request->argv[2].len, host->settings, &object, &info);
    err = err ? err : args_create(request, object, &info);
    switch (err) {
    case BG_OK: reply_ok(&request->reply); break;
    case BG_EBUSY: reply_error(&request->reply, busy); break;
    case BG_EFORMAT:
    case BG_EVERSION:
        reply_errorf(&request->reply, "ERR bloom object decoding failed: %s",
                     info.message);
        break;
    default: args_failed(request, err, &info, ""); break;
    }
}
