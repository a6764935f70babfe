/* import_value.c - see import_value.h. */
#include "import_value.h"

#include "args.h"
#include "bytes.h"
#include "dump.h"
#include "dump_stream.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* Size of a record's header. A file's header and the bits of each link are records; see
     * docs/foreign.md. */
    IMPORT_RECORD = 16,
    REDIS_HEADER = 20,
    REDIS_LINK = 53,
    REDIS_NONSCALING = 8,
    REDIS_VERSION = 4, /* version of the Bloom and cuckoo filter formats */
    CUCKOO_HEADER = 38,
    VALKEY_HEADER = 30,
    VALKEY_VERSION = 1,
    IMPORT_PARTS = 65536
};

/* ---- Shapes ---------------------------------------------------------------------------------- */

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
    const uint64_t first =
        bytes_load64(file + VALKEY_HEADER); /* size of the first filter in bytes */
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

bg_err import_object(bg_foreign_format format, const void *bytes, size_t n,
                     const struct command_settings *settings, struct object **object,
                     bg_errinfo *info)
{
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    bg_foreign *foreign = NULL;
    struct object_shape shape;
    *object = NULL;
    if (format != BG_FOREIGN_REDISBLOOM && format != BG_FOREIGN_VALKEYBLOOM
        && format != BG_FOREIGN_REDISCUCKOO) {
        return object_error(info, BG_ENOTSUP,
                            "filters in this format cannot be imported");
    }
    how.max_bytes = settings->max_filter_bytes;
    how.allocator = settings->allocator;
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
    if (format
        == BG_FOREIGN_REDISCUCKOO) { /* the file's item count excludes deleted items */
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

/* Returns the maximum size of a file that contains a filter of the maximum size. */
static uint64_t import_most(const struct command_settings *settings)
{
    const uint64_t most = settings->max_filter_bytes;
    return most && most < UINT64_MAX / 4 ? most + most / 64 + ((uint64_t)4 << 20)
                                         : UINT64_C(1) << 56;
}

/* Returns zeroed memory for n more bytes, or NULL if the file would exceed the limit or if out of
 * memory. */
static uint8_t *import_room(struct import_file *file, uint64_t n, bg_errinfo *info)
{
    if (n > file->most || file->n > file->most - n) {
        (void)object_error(
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
            (void)object_error(info, BG_ENOMEM,
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
    return object_error(info, BG_EFORMAT,
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
    const double value = import_failed(file) ? 0 : file->source->real(file->source);
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
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

static bg_err import_beyond(const char *what, uint64_t value, uint64_t least,
                            uint64_t most, bg_errinfo *info)
{
    return object_error(info, BG_EFORMAT, "%s: found %llu, expected %llu to %llu", what,
                        (unsigned long long)value, (unsigned long long)least,
                        (unsigned long long)most);
}

/* ---- RedisBloom ------------------------------------------------------------------------------ */

/* Writes a link's numeric fields to the header, and appends its bits. */
static bg_err import_redis_link(struct import_file *file, uint64_t number,
                                uint64_t *done, bg_errinfo *info)
{
    const size_t place = IMPORT_RECORD + REDIS_HEADER + REDIS_LINK * (size_t)number;
    const uint64_t entries = import_number(file), error = import_real(file),
                   hashes = import_number(file), per_entry = import_real(file),
                   bits = import_number(file), n2 = import_number(file);
    size_t at = 0, n = 0;
    const bg_err err = import_string(file, IMPORT_RECORD, &at, &n, info);
    if (err) {
        return err;
    }
    const uint64_t size = import_number(file);
    if (import_failed(file)) {
        return import_short(info);
    }
    if (hashes > UINT32_MAX || n2 > UINT8_MAX) {
        return n2 > UINT8_MAX ? import_beyond("n2 of a layer", n2, 0, UINT8_MAX, info)
                              : import_beyond("number of hashes in a layer", hashes, 0,
                                              UINT32_MAX, info);
    }
    *done += n;
    bytes_store64(file->bytes + at, 1 + *done);
    bytes_store64(file->bytes + at + 8, n);
    uint8_t *link = file->bytes + place;
    bytes_store64(link, n);
    bytes_store64(link + 8, bits);
    bytes_store64(link + 16, size);
    bytes_store64(link + 24, error);
    bytes_store64(link + 32, per_entry);
    bytes_store32(link + 40, (uint32_t)hashes);
    bytes_store64(link + 44, entries);
    link[52] = (uint8_t)n2;
    return BG_OK;
}

static bg_err import_redis(struct import_file *file, bg_errinfo *info)
{
    const uint64_t size = import_number(file), links = import_number(file),
                   options = import_number(file), growth = import_number(file);
    uint64_t done = 0;
    bg_err err = BG_OK;
    if (import_failed(file)) {
        return import_short(info);
    }
    if (links == 0 || links > IMPORT_PARTS || options > UINT32_MAX
        || growth > UINT32_MAX) {
        return options > UINT32_MAX
                   ? import_beyond("options", options, 0, UINT32_MAX, info)
               : growth > UINT32_MAX
                   ? import_beyond("growth", growth, 0, UINT32_MAX, info)
                   : import_beyond("number of layers", links, 1, IMPORT_PARTS, info);
    }
    uint8_t *p =
        import_room(file, IMPORT_RECORD + REDIS_HEADER + REDIS_LINK * links, info);
    if (!p) {
        return BG_ENOMEM;
    }
    bytes_store64(p, 1);
    bytes_store64(p + 8, REDIS_HEADER + REDIS_LINK * links);
    bytes_store64(p + IMPORT_RECORD, size);
    bytes_store32(p + IMPORT_RECORD + 8, (uint32_t)links);
    bytes_store32(p + IMPORT_RECORD + 12, (uint32_t)options);
    bytes_store32(p + IMPORT_RECORD + 16, (uint32_t)growth);
    for (uint64_t i = 0; !err && i < links; i++) {
        err = import_redis_link(file, i, &done, info);
    }
    return err;
}

/* ---- RedisBloom cuckoo filters ------------------------------------------------------------ */

static void import_put16(uint8_t *p, uint64_t value)
{
    p[0] = (uint8_t)value;
    p[1] = (uint8_t)(value >> 8);
}

/* Reads one filter in the chain. Fails unless the filter has `buckets` buckets and the size that
 * follows from this number. */
static bg_err import_cuckoo_filter(struct import_file *file, uint64_t buckets,
                                   uint64_t bucket_size, uint64_t *done,
                                   bg_errinfo *info)
{
    const uint64_t found = import_number(file);
    size_t at = 0, n = 0;
    if (!import_failed(file) && found != buckets) {
        return object_error(info, BG_EFORMAT,
                            "number of buckets in a filter: found %llu, expected %llu",
                            (unsigned long long)found, (unsigned long long)buckets);
    }
    const bg_err err = import_string(file, IMPORT_RECORD, &at, &n, info);
    if (err) {
        return err;
    }
    const uint64_t slots = buckets * bucket_size;
    if (n != slots) {
        return object_error(info, BG_EFORMAT,
                            "number of bytes in a filter: found %zu, expected %llu", n,
                            (unsigned long long)slots);
    }
    *done += n;
    bytes_store64(file->bytes + at, 1 + *done);
    bytes_store64(file->bytes + at + 8, n);
    return BG_OK;
}

/* Writes the header of the file. Fails if a number does not fit into its field. */
static bg_err import_cuckoo_header(struct import_file *file, uint64_t number[7],
                                   bg_errinfo *info)
{
    static const struct {
        const char *name;
        size_t place;
        uint64_t most;
    } fields[7] = { { "number of filters", 24, IMPORT_PARTS },
                    { "number of buckets", 8, UINT32_MAX },
                    { "items", 0, UINT64_MAX },
                    { "deleted", 16, UINT64_MAX },
                    { "bucket size", 32, UINT16_MAX },
                    { "iterations", 34, UINT16_MAX },
                    { "expansion", 36, UINT16_MAX } };
    uint8_t *p = import_room(file, IMPORT_RECORD + CUCKOO_HEADER, info);
    if (!p) {
        return BG_ENOMEM;
    }
    bytes_store64(p, 1);
    bytes_store64(p + 8, CUCKOO_HEADER);
    for (size_t i = 0; i < 7; i++) {
        number[i] = import_number(file);
        if (number[i] > fields[i].most) {
            return import_beyond(fields[i].name, number[i], 0, fields[i].most, info);
        }
        uint8_t *to = p + IMPORT_RECORD + fields[i].place;
        if (fields[i].most == UINT16_MAX) {
            import_put16(to, number[i]);
        } else {
            bytes_store64(to, number[i]);
        }
    }
    return import_failed(file) ? import_short(info) : BG_OK;
}

static bg_err import_cuckoo(struct import_file *file, bg_errinfo *info)
{
    uint64_t number[7] = { 0 }, done = 0;
    bg_err err = import_cuckoo_header(file, number, info);
    uint64_t buckets = number[1];
    for (uint64_t i = 0; !err && i < number[0]; i++) {
        err = buckets > UINT32_MAX
                  ? import_beyond("number of buckets in a filter", buckets, 0,
                                  UINT32_MAX, info)
                  : import_cuckoo_filter(file, buckets, number[4], &done, info);
        buckets *= number[6];
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
    const uint64_t filters = import_number(file), expansion = import_number(file),
                   rate = import_real(file), tightening = import_real(file),
                   random = import_number(file);
    bg_err err = BG_OK;
    if (import_failed(file)) {
        return import_short(info);
    }
    if (filters == 0 || filters > IMPORT_PARTS || expansion > UINT32_MAX
        || random > 1) {
        return expansion > UINT32_MAX
                   ? import_beyond("expansion", expansion, 0, UINT32_MAX, info)
               : random > 1
                   ? import_beyond("random-seed flag", random, 0, 1, info)
                   : import_beyond("number of filters", filters, 1, IMPORT_PARTS, info);
    }
    uint8_t *p = import_room(file, VALKEY_HEADER, info);
    if (!p) {
        return BG_ENOMEM;
    }
    p[0] = 1;
    bytes_store32(p + 1, (uint32_t)expansion);
    bytes_store64(p + 5, rate);
    bytes_store64(p + 13, tightening);
    p[21] = (uint8_t)random;
    bytes_store64(p + 22, filters);
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
                                                 : import_most(settings) };
    *object = NULL;
    if (!kind) {
        return object_error(info, BG_ENOTSUP, "values in this format cannot be read");
    }
    if (version != kind->version) {
        return object_error(info, BG_EVERSION, "the value has version %d, expected %s",
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
    sink->number(sink, bytes_load64(header));
    sink->number(sink, links);
    sink->number(sink, bytes_load32(header + 12));
    sink->number(sink, bytes_load32(header + 16));
    for (uint32_t i = 0; i < links; i++) {
        const uint8_t *link = header + REDIS_HEADER + REDIS_LINK * (size_t)i;
        sink->number(sink, bytes_load64(link + 44));
        sink->real(sink, import_get_real(link + 24));
        sink->number(sink, bytes_load32(link + 40));
        sink->real(sink, import_get_real(link + 32));
        sink->number(sink, bytes_load64(link + 8));
        sink->number(sink, link[52]);
        sink->bytes(sink, record + IMPORT_RECORD, (size_t)bytes_load64(link));
        sink->number(sink, bytes_load64(link + 16));
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
    sink->number(sink, filters);
    sink->number(sink, bytes_load64(header + 8));
    sink->number(sink, bytes_load64(header));
    sink->number(sink, bytes_load64(header + 16));
    sink->number(sink, bytes_load16(header + 32));
    sink->number(sink, bytes_load16(header + 34));
    sink->number(sink, bytes_load16(header + 36));
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
    sink->number(sink, filters);
    sink->number(sink, bytes_load32(file + 1));
    sink->real(sink, import_get_real(file + 5));
    sink->real(sink, import_get_real(file + 13));
    sink->number(sink, file[21]);
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
        return object_error(info, BG_ENOTSUP,
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
