/*
 * Tests loading RedisBloom and valkey-bloom filters with BF.LOAD, with CF.LOADCHUNK, or from the
 * fields that the original modules save. Incomplete or inconsistent data is refused, and never
 * produces a filter that reports its own items as absent.
 */
#include "server/support/fake_host.h"

#include "bytes.h"
#include "dump_stream.h"
#include "import_value.h"

static const struct command_settings no_limits;

/* ---- Files ------------------------------------------------------------------------------------- */

struct file {
    uint8_t *bytes;
    size_t n;
};

static size_t item_key(char key[32], size_t i)
{
    return (size_t)snprintf(key, 32, "item-%zu", i);
}

/* Creates a filter file in the given format, with the given number of items. */
static struct file foreign_file(bg_foreign_format format, size_t capacity, double rate,
                                size_t items)
{
    bg_foreign *foreign = NULL;
    struct file file = { 0 };
    char key[32];
    CHECK_OK(bg_foreign_create(format, capacity, rate, NULL, &foreign, NULL));
    for (size_t i = 0; i < items; i++) {
        CHECK_OK(bg_foreign_add(foreign, key, item_key(key, i), NULL));
    }
    CHECK_OK(bg_foreign_encode(foreign, NULL, 0, &file.n, NULL));
    file.bytes = malloc(file.n);
    CHECK(file.bytes != NULL);
    CHECK_OK(bg_foreign_encode(foreign, file.bytes, file.n, &file.n, NULL));
    bg_foreign_free(foreign);
    return file;
}

static const char *bf_load(struct fake *h, const char *name, const void *bytes,
                           size_t n)
{
    const bg_bytes argv[] = { { "BF.LOAD", 7 }, { name, strlen(name) }, { bytes, n } };
    return fake_argv(h, argv, 3);
}

static const char *load_chunk(struct fake *h, const char *name, uint64_t iterator,
                              const void *bytes, size_t n)
{
    char text[32];
    const bg_bytes argv[] = {
        { "CF.LOADCHUNK", 12 },
        { name, strlen(name) },
        { text,
          (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)iterator) },
        { bytes, n },
    };
    return fake_argv(h, argv, 4);
}

/* Loads the records of a file, and stops at the first refused record. Returns the last reply. */
static const char *load_records(struct fake *h, const char *name,
                                const struct file *file)
{
    const char *got = "+OK";
    for (size_t at = 0; at < file->n && strcmp(got, "+OK") == 0;) {
        const uint64_t n = bytes_load64(file->bytes + at + 8);
        got = load_chunk(h, name, bytes_load64(file->bytes + at), file->bytes + at + 16,
                         (size_t)n);
        at += 16 + (size_t)n;
    }
    return got;
}

static void check_items(struct fake *h, const char *command, const char *name,
                        size_t items)
{
    char line[64];
    for (size_t i = 0; i < items; i++) {
        (void)snprintf(line, sizeof line, "%s %s item-%zu", command, name, i);
        CHECK_STR(fake(h, line), ":1");
    }
}

/* Checks that a copy of the object returns the same answers as the object. */
static void check_copy(const struct object *object, size_t items)
{
    struct object *copy = NULL;
    char key[32];
    CHECK_OK(object_copy(object, &copy, NULL));
    for (size_t i = 0; i < 3 * items; i++) {
        const bg_bytes item = { key, item_key(key, i) };
        CHECK_EQ(object_count(copy, item), object_count(object, item));
    }
    CHECK_EQ(atomic_load(&copy->items), atomic_load(&object->items));
    object_free(copy);
}

/* ---- BF.LOAD ------------------------------------------------------------------------------------- */

TEST(import__bf_load)
{
    struct fake h;
    struct file file = foreign_file(BG_FOREIGN_VALKEYBLOOM, 100, 0.01, 500);
    fake_begin(&h);
    CHECK_STR(bf_load(&h, "k", file.bytes, file.n), "+OK");
    CHECK_STR(bf_load(&h, "k", file.bytes, file.n),
              "-BUSYKEY Target key name already exists.");
    check_items(&h, "BF.EXISTS", "k", 500);
    CHECK_STR(fake(&h, "BF.INFO k CAPACITY"), "[:700]");
    CHECK_STR(fake(&h, "BF.INFO k FILTERS"), "[:3]");
    CHECK_STR(fake(&h, "BF.INFO k EXPANSION"), "[:2]");
    CHECK_STR(fake(&h, "BF.ADD k new"), ":1");
    CHECK_STR(fake(&h, "BF.ADD k new"), ":0");
    fake_replay(&h);
    check_copy(h.entries[0].object, 500);
    CHECK_EQ(fake(&h, "BG.INFO k")[0], '[');
    CHECK_EQ(fake(&h, "BG.VERIFY k")[0], '[');
    CHECK_EQ(fake(&h, "BG.DIGEST k")[0], '$');
    /* the cleared filter is in Bloomgate's own format */
    CHECK_STR(fake(&h, "BG.CLEAR k"), "+OK");
    CHECK_STR(fake(&h, "BF.EXISTS k item-1"), ":0");
    free(file.bytes);
    fake_end(&h);
}

/* A valkey-bloom filter can be dumped in Bloomgate's own format. */
TEST(import__valkey_bloom_is_dumped)
{
    struct fake h;
    struct file file = foreign_file(BG_FOREIGN_VALKEYBLOOM, 100, 0.01, 300);
    fake_begin(&h);
    CHECK_STR(bf_load(&h, "k", file.bytes, file.n), "+OK");
    (void)fake(&h, "BF.SCANDUMP k 0");
    CHECK_EQ(h.items_count, 3);
    char text[32];
    const size_t n = h.items[2].n;
    void *chunk = fake_copy(h.items[2].bytes, n);
    const bg_bytes argv[] = {
        { "BF.LOADCHUNK", 12 },
        { "copy", 4 },
        { text,
          (size_t)snprintf(text, sizeof text, "%lld", (long long)h.items[1].integer) },
        { chunk, n },
    };
    CHECK_STR(fake_argv(&h, argv, 4), "+OK");
    check_items(&h, "BF.EXISTS", "copy", 300);
    free(chunk);
    free(file.bytes);
    fake_end(&h);
}

TEST(import__bf_load_refuses)
{
    struct fake h;
    struct file file = foreign_file(BG_FOREIGN_VALKEYBLOOM, 20, 0.01, 50);
    fake_begin(&h);
    for (size_t n = 0; n < file.n; n++) {
        CHECK(strncmp(bf_load(&h, "k", file.bytes, n), "-ERR bloom object decoding", 26)
              == 0);
    }
    CHECK_EQ(h.entries_count, 0);
    file.bytes[0] = 2;
    CHECK_STR(bf_load(&h, "k", file.bytes, file.n),
              "-ERR bloom object decoding failed: version: found 2, expected 1");
    file.bytes[0] = 1;
    h.settings.max_filter_bytes = 16;
    CHECK(strncmp(bf_load(&h, "k", file.bytes, file.n), "-ERR Insufficient memory", 24)
          == 0);
    CHECK_STR(fake(&h, "BF.LOAD k"),
              "-ERR wrong number of arguments for 'bf.load' command");
    free(file.bytes);
    fake_end(&h);
}

/* ---- RedisBloom cuckoo filters ------------------------------------------------------------------ */

TEST(import__cuckoo_filter)
{
    struct fake h;
    struct file file = foreign_file(BG_FOREIGN_REDISCUCKOO, 256, 0.02, 400);
    fake_begin(&h);
    CHECK_STR(load_records(&h, "k", &file), "+OK");
    CHECK_EQ(h.checkpoints, 1);
    check_items(&h, "CF.EXISTS", "k", 400);
    CHECK_STR(
        fake(&h, "CF.INFO k"),
        "[+Size :512 +Number of buckets :128 +Number of filters :2 +Number of items "
        "inserted :400 +Number of items deleted :0 +Bucket size :2 +Expansion rate :1 "
        "+Max iterations :20]");
    /* adds, counts, deletes */
    CHECK_STR(fake(&h, "CF.ADD k twice"), ":1");
    CHECK_STR(fake(&h, "CF.ADD k twice"), ":1");
    CHECK_STR(fake(&h, "CF.COUNT k twice"), ":2");
    CHECK_STR(fake(&h, "CF.ADDNX k twice"), ":0");
    CHECK_STR(fake(&h, "CF.DEL k twice"), ":1");
    CHECK_STR(fake(&h, "CF.COUNT k twice"), ":1");
    CHECK_STR(fake(&h, "CF.INSERT k ITEMS a b"), "[:1 :1]");
    CHECK_STR(fake(&h, "CF.INSERTNX k ITEMS a c"), "[:0 :1]");
    CHECK_STR(fake(&h, "CF.DEL k nobody-has-added-this"), ":0");
    fake_replay(&h);
    check_items(&h, "CF.EXISTS", "k", 400);
    CHECK_STR(fake(&h, "CF.COMPACT k"), "+OK");
    CHECK_EQ(h.checkpoints, 2);
    check_items(&h, "CF.EXISTS", "k", 400);
    check_copy(h.entries[0].object, 400);
    CHECK_STR(fake(&h, "BG.CLEAR k"), "+OK");
    CHECK_STR(fake(&h, "CF.EXISTS k item-1"), ":0");
    CHECK_STR(fake(&h, "CF.ADD k item-1"), ":1");
    free(file.bytes);
    fake_end(&h);
}

/* CF.SCANDUMP returns the bytes that were loaded. */
TEST(import__cuckoo_filter_is_dumped_as_it_came)
{
    struct fake h;
    struct file file = foreign_file(BG_FOREIGN_REDISCUCKOO, 64, 0.02, 100);
    uint64_t iterator = 0;
    size_t at = 0;
    char line[64];
    fake_begin(&h);
    CHECK_STR(load_records(&h, "k", &file), "+OK");
    do {
        (void)snprintf(line, sizeof line, "CF.SCANDUMP k %llu",
                       (unsigned long long)iterator);
        (void)fake(&h, line);
        CHECK_EQ(h.items_count, 3);
        iterator = (uint64_t)h.items[1].integer;
        if (iterator) {
            CHECK(at + 16 + h.items[2].n <= file.n);
            CHECK_EQ(iterator, bytes_load64(file.bytes + at));
            CHECK(memcmp(h.items[2].bytes, file.bytes + at + 16, h.items[2].n) == 0);
            at += 16 + h.items[2].n;
        }
    } while (iterator);
    CHECK_EQ(at, file.n);
    free(file.bytes);
    fake_end(&h);
}

/* Tests a chain of filters of different sizes, the smallest first. */
TEST(import__cuckoo_filters_of_different_sizes)
{
    struct fake h;
    struct file one = foreign_file(BG_FOREIGN_REDISCUCKOO, 32, 0.02, 10);
    struct object *object = NULL;
    struct file file = { 0 };
    void *bytes = NULL;
    char key[32];
    one.bytes[16 + 36] = 2; /* expansion */
    CHECK_OK(import_object(BG_FOREIGN_REDISCUCKOO, one.bytes, one.n, &no_limits,
                           &object, NULL));
    for (size_t i = 10; i < 200; i++) {
        CHECK_OK(bg_foreign_add(object->foreign, key, item_key(key, i), NULL));
    }
    CHECK(object_layers(object) >= 3);
    CHECK_OK(dump_encode(object, true, &bytes, &file.n, NULL));
    file.bytes = bytes;
    fake_begin(&h);
    CHECK_STR(load_records(&h, "k", &file), "+OK");
    check_items(&h, "CF.EXISTS", "k", 200);
    CHECK_EQ(fake(&h, "BG.INFO k")[0], '[');
    CHECK_STR(fake(&h, "BG.ADD k more"), ":1");
    CHECK_STR(fake(&h, "BG.DEL k more"), ":1");
    /* Loads a 46-byte header, which ends with an unused pointer, and then the chunks. A chunk that
     * crosses the end of a filter is refused. */
    uint8_t header[46] = { 0 };
    const uint8_t *slots = file.bytes + 16 + 38 + 16;
    memcpy(header, file.bytes + 16, 38);
    CHECK_STR(load_chunk(&h, "half", 1, header, 45),
              "-ERR Invalid header: the header has 45 bytes, expected 38 or 46");
    CHECK_STR(load_chunk(&h, "half", 1, header, 46), "+OK");
    CHECK_STR(load_chunk(&h, "half", 1 + 33, slots, 33), "-ERR Couldn't load chunk!");
    CHECK_STR(load_chunk(&h, "half", 1 + 16, slots, 16), "+OK");
    CHECK_STR(load_chunk(&h, "half", 1 + 32, slots + 16, 16), "+OK");
    CHECK_STR(load_chunk(&h, "half", 1 + 96, slots + 32 + 16, 64), "+OK");
    object_free(object);
    free(one.bytes);
    free(file.bytes);
    fake_end(&h);
}

/* The header contains the sizes of the filters. Impossible sizes are refused immediately, and
 * inconsistent sizes are refused when the data arrives. */
TEST(import__forged_cuckoo_filters)
{
    static const struct {
        size_t at;
        uint64_t value;
        size_t n;
        const char *expected; /* the reply to the last chunk */
    } forgeries[] = {
        { 0, 99, 8, "-ERR Couldn't load chunk!: items" },
        { 8, 0, 8, "-ERR Invalid header: " },
        { 8, 3, 8, "-ERR Couldn't load chunk!" },
        { 8, UINT64_C(1) << 40, 8, "-ERR Insufficient memory: " },
        { 8, UINT64_MAX, 8, "-ERR Insufficient memory: " },
        { 24, 0, 8, "-ERR Invalid header: " },
        { 24, UINT64_MAX, 8, "-ERR Invalid header: " },
        { 24, 65536, 8, "-ERR Insufficient memory: " },
        { 32, 0, 2, "-ERR Invalid header: " },
        { 32, 1, 2, "-ERR Couldn't load chunk!" },
        { 36, 0, 2, "-ERR Invalid header: " },
        { 36, 4, 2, "+OK" }, /* accepted, because more data could follow */
    };
    for (size_t f = 0; f < sizeof forgeries / sizeof *forgeries; f++) {
        struct fake h;
        struct file file = foreign_file(BG_FOREIGN_REDISCUCKOO, 32, 0.02, 50);
        fake_begin(&h);
        h.settings.max_filter_bytes = 1 << 16;
        for (size_t i = 0; i < forgeries[f].n; i++) {
            file.bytes[16 + forgeries[f].at + i] =
                (uint8_t)(forgeries[f].value >> 8 * i);
        }
        const char *got = load_records(&h, "k", &file);
        if (strncmp(got, forgeries[f].expected, strlen(forgeries[f].expected)) != 0) {
            check_fail(__FILE__, __LINE__, "%zu: %s", f, got);
        }
        if (h.entries_count) { /* the filter is not completely loaded, so it answers "maybe" */
            CHECK_STR(fake(&h, "CF.EXISTS k item-1"), ":1");
            CHECK_STR(fake(&h, "CF.EXISTS k nobody"), ":1");
        }
        free(file.bytes);
        fake_end(&h);
    }
}

/* ---- Fields -------------------------------------------------------------------------------------------- */

enum { FIELDS = 256 };

/* A field and its type, as a server stores them. */
struct field {
    char type; /* 'n' (number), 'r' (real) or 's' (string) */
    uint64_t number;
    double real;
    uint8_t *bytes;
    size_t n;
};

/* Saved fields, which are later loaded again. */
struct fields {
    struct import_source source;
    struct import_sink sink;
    struct field of[FIELDS];
    size_t count, at;
    bool failed;
    size_t held; /* number of strings that have not been released yet */
};

static struct fields *fields_of_source(struct import_source *source)
{
    return (struct fields *)(void *)((char *)source - offsetof(struct fields, source));
}

static struct fields *fields_of_sink(struct import_sink *sink)
{
    return (struct fields *)(void *)((char *)sink - offsetof(struct fields, sink));
}

static struct field *fields_new(struct import_sink *sink, char type)
{
    struct fields *fields = fields_of_sink(sink);
    CHECK(fields->count < FIELDS);
    struct field *field = &fields->of[fields->count++];
    *field = (struct field){ .type = type };
    return field;
}

static void fields_put_number(struct import_sink *sink, uint64_t value)
{
    fields_new(sink, 'n')->number = value;
}

static void fields_put_real(struct import_sink *sink, double value)
{
    fields_new(sink, 'r')->real = value;
}

static void fields_put_bytes(struct import_sink *sink, const void *bytes, size_t n)
{
    struct field *field = fields_new(sink, 's');
    field->bytes = malloc(n ? n : 1);
    CHECK(field->bytes != NULL);
    if (n) {
        memcpy(field->bytes, bytes, n);
    }
    field->n = n;
}

/* Returns the next field. Like a server, fails if there is none or if it has a different type. */
static const struct field *fields_next(struct import_source *source, char type)
{
    struct fields *fields = fields_of_source(source);
    CHECK(!fields->failed); /* nothing is read after an error */
    if (fields->at >= fields->count || fields->of[fields->at].type != type) {
        fields->failed = true;
        return NULL;
    }
    return &fields->of[fields->at++];
}

static uint64_t fields_number(struct import_source *source)
{
    const struct field *field = fields_next(source, 'n');
    return field ? field->number : 0;
}

static double fields_real(struct import_source *source)
{
    const struct field *field = fields_next(source, 'r');
    return field ? field->real : 0;
}

static void *fields_bytes(struct import_source *source, size_t *n)
{
    const struct field *field = fields_next(source, 's');
    if (!field) {
        return NULL;
    }
    fields_of_source(source)->held++;
    *n = field->n;
    return field->bytes;
}

static void fields_drop(struct import_source *source, void *bytes)
{
    CHECK(bytes != NULL);
    fields_of_source(source)->held--;
}

static bool fields_failed(struct import_source *source)
{
    return fields_of_source(source)->failed;
}

static void fields_begin(struct fields *fields)
{
    *fields = (struct fields){ .source = { fields_number, fields_real, fields_bytes,
                                           fields_drop, fields_failed },
                               .sink = { fields_put_number, fields_put_real,
                                         fields_put_bytes } };
}

static void fields_end(struct fields *fields)
{
    for (size_t i = 0; i < fields->count; i++) {
        free(fields->of[i].bytes);
    }
}

/* Loads the fields, and checks that every string is released. */
static bg_err fields_load(struct fields *fields, bg_foreign_format format, int version,
                          struct object **object)
{
    bg_errinfo info = { 0 };
    fields->at = 0;
    fields->failed = false;
    const bg_err err = import_value(format, version, &fields->source, &no_limits, false,
                                    object, &info);
    CHECK_EQ(fields->held, 0);
    CHECK((err == BG_OK) == (*object != NULL));
    CHECK(!err || info.message[0]);
    return err;
}

/* Creates an object in a given format, and saves its fields. */
static struct object *fields_make(struct fields *fields, bg_foreign_format format,
                                  size_t capacity, size_t items)
{
    struct object *object = NULL;
    struct file file = foreign_file(
        format, capacity, format == BG_FOREIGN_REDISCUCKOO ? 0.02 : 0.01, items);
    fields_begin(fields);
    CHECK_OK(import_object(format, file.bytes, file.n, &no_limits, &object, NULL));
    CHECK_OK(export_value(object, &fields->sink, NULL));
    free(file.bytes);
    return object;
}

static void same_file(const struct object *a, const struct object *b)
{
    void *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    CHECK_OK(dump_encode(a, true, &x, &n, NULL));
    CHECK_OK(dump_encode(b, true, &y, &m, NULL));
    CHECK(n == m && memcmp(x, y, n) == 0);
    free(x);
    free(y);
}

static const struct {
    bg_foreign_format format;
    int version;
} saved[] = { { BG_FOREIGN_REDISBLOOM, 4 },
              { BG_FOREIGN_VALKEYBLOOM, 1 },
              { BG_FOREIGN_REDISCUCKOO, 4 } };

enum { SAVED = sizeof saved / sizeof *saved };

TEST(import__fields_there_and_back)
{
    static struct fields fields;
    for (size_t f = 0; f < SAVED; f++) {
        struct object *object = fields_make(&fields, saved[f].format, 50, 400), *again;
        CHECK_OK(fields_load(&fields, saved[f].format, saved[f].version, &again));
        CHECK_EQ(fields.at, fields.count);
        CHECK_EQ(again->shape.expansion, object->shape.expansion);
        CHECK_EQ(again->shape.items, object->shape.items);
        CHECK(atomic_load(&again->items) == atomic_load(&object->items));
        same_file(object, again);
        object_free(object);
        object_free(again);
        fields_end(&fields);
    }
}

/* If one filter of a chain is larger than 16 MiB, a file stores it as several records, but a server
 * stores it as a single field. */
TEST(import__fields_of_large_links)
{
    static struct fields fields;
    struct object *again = NULL,
                  *object = fields_make(&fields, BG_FOREIGN_REDISBLOOM, 15000000, 10);
    CHECK_EQ(fields.count, 4 + 8);
    CHECK(fields.of[10].n > (size_t)16 << 20);
    CHECK_OK(fields_load(&fields, BG_FOREIGN_REDISBLOOM, 4, &again));
    same_file(object, again);
    object_free(object);
    object_free(again);
    fields_end(&fields);
    object = fields_make(&fields, BG_FOREIGN_REDISCUCKOO, 17000000, 10);
    CHECK_EQ(fields.count, 7 + 2);
    CHECK_EQ(fields.of[8].n, (size_t)32 << 20);
    CHECK_OK(fields_load(&fields, BG_FOREIGN_REDISCUCKOO, 4, &again));
    same_file(object, again);
    object_free(object);
    object_free(again);
    fields_end(&fields);
}

/* Tests values whose last fields are missing, and values in which one field has the wrong type. */
TEST(import__fields_that_are_not_there)
{
    static struct fields fields;
    for (size_t f = 0; f < SAVED; f++) {
        struct object *made = NULL;
        object_free(fields_make(&fields, saved[f].format, 50, 300));
        const size_t count = fields.count;
        for (fields.count = 0; fields.count < count; fields.count++) {
            CHECK_EQ(fields_load(&fields, saved[f].format, saved[f].version, &made),
                     BG_EFORMAT);
        }
        for (size_t i = 0; i < count; i++) {
            const char type = fields.of[i].type;
            fields.of[i].type = type == 'n' ? 's' : 'n';
            CHECK_EQ(fields_load(&fields, saved[f].format, saved[f].version, &made),
                     BG_EFORMAT);
            fields.of[i].type = type;
        }
        CHECK_OK(fields_load(&fields, saved[f].format, saved[f].version, &made));
        object_free(made);
        fields_end(&fields);
    }
}

/* A wrong number or length in any field is either refused or harmless. */
TEST(import__fields_that_lie)
{
    static const uint64_t lies[] = {
        0,         1, 255, 256, 65537, UINT32_MAX, UINT64_C(1) << 32, UINT64_C(1) << 62,
        UINT64_MAX
    };
    static const double reals[] = {
        0, -1, 0.5, 1, 1e308, (double)NAN, (double)INFINITY
    };
    static struct fields fields;
    for (size_t f = 0; f < SAVED; f++) {
        struct object *made = NULL;
        object_free(fields_make(&fields, saved[f].format, 50, 120));
        for (size_t i = 0; i < fields.count; i++) {
            const struct field was = fields.of[i];
            for (size_t l = 0; l < sizeof lies / sizeof *lies; l++) {
                fields.of[i].number = lies[l];
                fields.of[i].real = reals[l % 7];
                fields.of[i].n = was.n && l < was.n ? l : was.n;
                if (!fields_load(&fields, saved[f].format, saved[f].version, &made)) {
                    object_free(made);
                }
            }
            fields.of[i] = was;
        }
        fields_end(&fields);
    }
}

/* Only one encoding version of each format is accepted. RedisBloom versions before 2.2 may have
 * used a different hash, and the saved value does not show which hash was used. */
TEST(import__versions)
{
    static struct fields fields;
    struct object *made = NULL;
    for (size_t f = 0; f < SAVED; f++) {
        object_free(fields_make(&fields, saved[f].format, 50, 40));
        for (int version = -1; version < 7; version++) {
            if (version != saved[f].version) {
                CHECK_EQ(fields_load(&fields, saved[f].format, version, &made),
                         BG_EVERSION);
                CHECK_EQ(fields.at, 0);
            }
        }
        fields_end(&fields);
    }
    fields_begin(&fields);
    CHECK_EQ(fields_load(&fields, BG_FOREIGN_GUAVA, 4, &made), BG_ENOTSUP);
}

/* Redundant fields of a cuckoo filter must agree with each other and with the filter's bytes. */
TEST(import__fields_of_a_cuckoo_filter_that_disagree)
{
    enum {
        FILTERS,
        BUCKETS,
        ITEMS,
        DELETED,
        BUCKET_SIZE,
        ITERATIONS,
        EXPANSION,
        FIRST
    };
    static const struct {
        size_t at;
        uint64_t number;
        const char *expected;
    } lies[] = {
        { FILTERS, 0, "filters" },
        { FILTERS, 3, "truncated" },
        { FILTERS, 65537, "filters" },
        { BUCKETS, 0, "buckets" },
        { BUCKETS, 128, "buckets" },
        { BUCKETS, UINT64_C(1) << 40, "buckets" },
        { ITEMS, 99, "items" },
        { ITEMS, UINT64_MAX, "items" },
        { BUCKET_SIZE, 0, "bytes" },
        { BUCKET_SIZE, 4, "bytes" },
        { BUCKET_SIZE, 65536 + 2, "bucket size" },
        { ITERATIONS, 65536, "iterations" },
        { EXPANSION, 0, "buckets" },
        { EXPANSION, 2, "buckets" },
        { EXPANSION, 65536 + 1, "expansion" },
        { FIRST, 63, "buckets" },
        { FIRST + 2, 128, "buckets" },
    };
    static struct fields fields;
    struct object *made = NULL;
    object_free(fields_make(&fields, BG_FOREIGN_REDISCUCKOO, 128, 200));
    CHECK_EQ(fields.of[FILTERS].number, 2);
    CHECK_EQ(fields.of[BUCKETS].number, 64);
    CHECK_EQ(fields.of[ITEMS].number, 200);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        const uint64_t was = fields.of[lies[i].at].number;
        bg_errinfo info = { 0 };
        fields.of[lies[i].at].number = lies[i].number;
        fields.at = 0;
        fields.failed = false;
        CHECK_EQ(import_value(BG_FOREIGN_REDISCUCKOO, 4, &fields.source, &no_limits,
                              false, &made, &info),
                 BG_EFORMAT);
        CHECK(strstr(info.message, lies[i].expected) != NULL);
        fields.of[lies[i].at].number = was;
    }
    fields.of[FIRST + 1].n--;
    CHECK_EQ(fields_load(&fields, BG_FOREIGN_REDISCUCKOO, 4, &made), BG_EFORMAT);
    fields.of[FIRST + 1].n++;
    CHECK_OK(fields_load(&fields, BG_FOREIGN_REDISCUCKOO, 4, &made));
    CHECK_EQ(atomic_load(&made->items), 200);
    object_free(made);
    fields_end(&fields);
}

TEST(import__fields_over_the_limit)
{
    static struct fields fields;
    struct command_settings settings = { .max_filter_bytes = 64 };
    struct object *made = NULL;
    bg_errinfo info = { 0 };
    object_free(fields_make(&fields, BG_FOREIGN_REDISBLOOM, 5000, 40));
    CHECK_EQ(import_value(BG_FOREIGN_REDISBLOOM, 4, &fields.source, &settings, false,
                          &made, &info),
             BG_ENOMEM);
    CHECK(made == NULL);
    fields.at = 0;
    CHECK_OK(import_value(BG_FOREIGN_REDISBLOOM, 4, &fields.source, &settings, true,
                          &made, &info));
    CHECK_EQ(atomic_load(&made->items), 40);
    object_free(made);
    fields_end(&fields);
}

TEST(import__ours_have_no_fields)
{
    static struct fields fields;
    struct fake h;
    fake_begin(&h);
    fields_begin(&fields);
    CHECK_STR(fake(&h, "BF.ADD k a"), ":1");
    CHECK_EQ(export_value(h.entries[0].object, &fields.sink, NULL), BG_ENOTSUP);
    CHECK_EQ(fields.count, 0);
    fake_end(&h);
}
