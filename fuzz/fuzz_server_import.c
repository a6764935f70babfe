/*
 * fuzz_server_import.c - an input is a value saved by RedisBloom or valkey-bloom. The first byte is
 * the format, the second is the version, and the rest are fields in the order in which they are
 * read: integers of any size, doubles of any value, and strings of any length. If the value is
 * accepted, the resulting object must support queries and adds. Exporting the object and importing
 * it again must produce an equal object, even after keys were added.
 *
 * If the first byte is 2, the rest is the argument of BF.LOAD; if it is 3, the rest consists of
 * chunks of a cuckoo filter's dump, each preceded by its length in two bytes. If it is 0, 1 or 4,
 * the rest is a saved value: a Bloom filter from RedisBloom, a Bloom filter from valkey-bloom, or a
 * cuckoo filter.
 */
#define _GNU_SOURCE /* locks */

#include "dump.h"
#include "fuzz.h"
#include "fuzz_input.h"
#include "import_value.h"

#include <stdlib.h>

enum { MEMORY_MAX = 1 << 14, FIELDS_MAX = 4096, KEYS = 8 };

/* Fields read from an input. */
struct fuzz_fields {
    struct import_source source;
    struct fuzz_input in;
};

static struct fuzz_fields *fields_of(struct import_source *source)
{
    return (struct fuzz_fields *)(void *)source;
}

static bool fields_failed(struct import_source *source)
{
    return fields_of(source)->in.left == 0;
}

static uint64_t fields_number(struct import_source *source)
{
    return fuzz_any(&fields_of(source)->in);
}

static double fields_real(struct import_source *source)
{
    return fuzz_double(&fields_of(source)->in);
}

static void *fields_bytes(struct import_source *source, size_t *n)
{
    struct fuzz_input *in = &fields_of(source)->in;
    const size_t wanted = (size_t)fuzz_byte(in) * 8;
    *n = wanted < in->left ? wanted : in->left;
    /* The memory has exactly this size, so that overruns are detected. */
    void *bytes = malloc(*n ? *n : 1);
    FUZZ_MUST(bytes);
    fuzz_take(in, bytes, *n);
    return bytes;
}

static void fields_drop(struct import_source *source, void *bytes)
{
    (void)source;
    free(bytes);
}

/* A field of an exported object, kept so that the object can be imported again. */
struct kept_field {
    char type;
    uint64_t number;
    double real;
    void *bytes;
    size_t n;
};

struct kept {
    struct import_source source;
    struct import_sink sink;
    struct kept_field of[FIELDS_MAX];
    size_t count, at;
    bool failed;
};

static struct kept kept;

static struct kept_field *kept_new(char type)
{
    FUZZ_MUST(kept.count < FIELDS_MAX);
    kept.of[kept.count] = (struct kept_field){ .type = type };
    return &kept.of[kept.count++];
}

static void kept_put_number(struct import_sink *sink, uint64_t value)
{
    (void)sink;
    kept_new('n')->number = value;
}

static void kept_put_real(struct import_sink *sink, double value)
{
    (void)sink;
    kept_new('r')->real = value;
}

static void kept_put_bytes(struct import_sink *sink, const void *bytes, size_t n)
{
    struct kept_field *field = kept_new('s');
    (void)sink;
    field->bytes = malloc(n ? n : 1);
    FUZZ_MUST(field->bytes);
    memcpy(field->bytes, bytes, n);
    field->n = n;
}

static const struct kept_field *kept_next(char type)
{
    FUZZ_MUST(kept.at < kept.count && kept.of[kept.at].type == type);
    return &kept.of[kept.at++];
}

static uint64_t kept_number(struct import_source *source)
{
    (void)source;
    return kept_next('n')->number;
}

static double kept_real(struct import_source *source)
{
    (void)source;
    return kept_next('r')->real;
}

static void *kept_bytes(struct import_source *source, size_t *n)
{
    const struct kept_field *field = kept_next('s');
    (void)source;
    *n = field->n;
    return field->bytes;
}

static void kept_drop(struct import_source *source, void *bytes)
{
    (void)source;
    (void)bytes;
}

static bool kept_failed(struct import_source *source)
{
    (void)source;
    return false;
}

static const struct command_settings limits = { .max_filter_bytes = MEMORY_MAX };

/* Exports the object and imports it again, which must produce an equal object. */
static void check_again(const struct object *object)
{
    const bg_foreign_format format = (bg_foreign_format)object->shape.foreign;
    struct object *again = NULL;
    void *a = NULL, *b = NULL;
    size_t n = 0, m = 0;
    kept.source = (struct import_source){ kept_number, kept_real, kept_bytes, kept_drop,
                                          kept_failed };
    kept.sink = (struct import_sink){ kept_put_number, kept_put_real, kept_put_bytes };
    kept.count = kept.at = 0;
    FUZZ_MUST(export_value(object, &kept.sink, NULL) == BG_OK);
    FUZZ_MUST(import_value(format, format == BG_FOREIGN_VALKEYBLOOM ? 1 : 4,
                           &kept.source, &limits, true, &again, NULL)
              == BG_OK);
    FUZZ_MUST(kept.at == kept.count);
    FUZZ_MUST(dump_encode(object, true, &a, &n, NULL) == BG_OK);
    FUZZ_MUST(dump_encode(again, true, &b, &m, NULL) == BG_OK);
    FUZZ_MUST(n == m);
    /* valkey-bloom does not save the item counts of full filters, and untrusted input may contain
     * wrong counts */
    FUZZ_MUST(format == BG_FOREIGN_VALKEYBLOOM || memcmp(a, b, n) == 0);
    for (int i = 0; i < KEYS; i++) {
        const char c = (char)('a' + i);
        const bg_bytes key = { &c, 1 };
        FUZZ_MUST(object_count(again, key) == object_count(object, key));
    }
    for (size_t i = 0; i < kept.count; i++) {
        free(kept.of[i].bytes);
    }
    free(a);
    free(b);
    object_free(again);
}

static bg_err accept(struct host *host, struct object *object,
                     const struct change *change, bg_errinfo *info)
{
    (void)host;
    (void)object;
    (void)change;
    (void)info;
    return BG_OK;
}

static void use(struct object *object)
{
    static const struct host_ops ops = { .record = accept };
    struct host host = { .ops = &ops, .settings = &limits };
    check_again(object);
    for (int i = 0; i < KEYS; i++) {
        const char c = (char)('a' + i);
        const bg_bytes key = { &c, 1 };
        uint64_t is_new = 0;
        size_t done = 0;
        const bg_err err =
            object_add_many(object, &host, &key, 1, &is_new, &done, NULL);
        FUZZ_MUST(err || (done == 1 && object_count(object, key) > 0));
    }
    FUZZ_MUST(object_bytes(object) <= 2 * MEMORY_MAX);
    check_again(object);
    object_free(object);
}

/* Reads a cuckoo filter's dump as records, from chunks preceded by their lengths. */
static bg_err import_chunks(struct fuzz_input *in, struct object **object)
{
    uint8_t file[8192];
    size_t n = 0;
    uint64_t iterator = 1, done = 0;
    while (in->left && n + 16 < sizeof file) {
        const size_t wanted = fuzz_byte(in) | (size_t)(fuzz_byte(in) & 15) << 8;
        size_t length = wanted < in->left ? wanted : in->left;
        length = length < sizeof file - n - 16 ? length : sizeof file - n - 16;
        done += n ? length : 0;
        iterator = n ? 1 + done : 1;
        for (int i = 0; i < 8; i++) {
            file[n + (size_t)i] = (uint8_t)(iterator >> 8 * i);
            file[n + 8 + (size_t)i] = (uint8_t)((uint64_t)length >> 8 * i);
        }
        fuzz_take(in, file + n + 16, length);
        n += 16 + length;
    }
    return import_object(BG_FOREIGN_REDISCUCKOO, file, n, &limits, object, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_fields fields = { .source = { fields_number, fields_real, fields_bytes,
                                              fields_drop, fields_failed },
                                  .in = { data, size } };
    struct object *object = NULL;
    bg_err err = BG_OK;
    const uint8_t what = fuzz_byte(&fields.in) % 5;
    if (what == 2) {
        err = import_object(BG_FOREIGN_VALKEYBLOOM, fields.in.data, fields.in.left,
                            &limits, &object, NULL);
    } else if (what == 3) {
        err = import_chunks(&fields.in, &object);
    } else {
        const int version = fuzz_byte(&fields.in) % 6;
        err = import_value(what == 0   ? BG_FOREIGN_REDISBLOOM
                           : what == 1 ? BG_FOREIGN_VALKEYBLOOM
                                       : BG_FOREIGN_REDISCUCKOO,
                           version, &fields.source, &limits, false, &object, NULL);
    }
    FUZZ_MUST((err == BG_OK) == (object != NULL));
    if (object) {
        use(object);
    }
    return 0;
}
