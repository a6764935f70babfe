/*
 * fake_host.h - a host that runs commands without a server. It keeps names in a list, returns
 * replies as text, and keeps a journal that can be replayed.
 *
 *     struct fake h;
 *     fake_begin(&h);
 *     CHECK_STR(fake(&h, "BF.ADD k apple"), ":1");
 *     h.protocol = 3;
 *     CHECK_STR(fake(&h, "BF.EXISTS k apple"), "#t");
 *     fake_end(&h);                      // replays the journal and compares the results
 *
 * Replies are written as "+status", "-error", ":1", "#t", ",0.5", "$bulk", and "_" (null). Lists
 * are written as "[a b]", and maps as "{a b}". With RESP2, values of RESP3-only types are written
 * in their RESP2 form.
 *
 * The journal holds the data that a real host would have: the shape that an object was created
 * with, its content at the last checkpoint, and the records since then. fake_replay re-creates each
 * object from this data. It then looks up all keys that commands have used, and an equal number of
 * other keys, in both objects; the results must be the same. fake_end calls fake_replay, and tests
 * may call it at any time.
 */
#ifndef FAKE_HOST_H
#define FAKE_HOST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* required for locks and strsep, so this header must be included first */
#endif

#include "args.h"
#include "command_table.h"
#include "dump.h"
#include "object.h"
#include "store_row.h"
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FAKE_NAMES = 64,
    FAKE_ARGUMENTS = 4096,
    FAKE_ITEMS = 100000,
    FAKE_TEXT = 1 << 20
};

/* A recorded change. */
struct fake_record {
    struct change change;
    uint64_t *hashes;
    bg_bytes *keys;
};

/* A name, its object, and the journal of the object. */
struct fake_entry {
    char name[64];
    struct object *object;
    char shape[OBJECT_SHAPE_TEXT]; /* shape when the object was created or last saved */
    void *content;                 /* content at the last checkpoint, or NULL */
    size_t content_bytes;
    uint64_t items, deleted, expansions;
    struct fake_record *records;
    size_t records_count;
};

/* A single reply, or the header of a list or map. */
struct fake_item {
    char type;
    int64_t integer;
    double real;
    char *bytes;
    size_t n;
};

struct fake {
    struct host host;
    struct command_settings settings;
    int protocol;
    uint64_t now;     /* wall-clock time */
    uint64_t stepped; /* how far the clock was set ahead, excluding elapsed time */
    struct fake_entry entries[FAKE_NAMES];
    size_t entries_count;
    /* dropped objects, which are freed only at the end, because a batch may still be using them */
    struct object **gone;
    size_t gone_count;
    struct command_table *table;
    struct fake_item *items; /* items of the last reply */
    size_t items_count;
    char *text;
    size_t text_used;
    bg_bytes *keys; /* keys that commands have used */
    size_t keys_count;
    size_t recorded, checkpoints, disclosed;
    bg_err record_fails, checkpoint_fails, create_fails;
    const char *folder; /* directory for files, or NULL */
    bg_outcome outcome; /* the outcome that all gate lookups return */
    size_t row_bytes;   /* see fake_lookup */
    bool no_keys;       /* do not remember the keys that commands use */
    bool forget;        /* do not replay, because the test discards adds on purpose */
};

/* ---- Journal --------------------------------------------------------------------------------- */

static inline void fake_records_free(struct fake_entry *entry)
{
    for (size_t i = 0; i < entry->records_count; i++) {
        struct fake_record *r = &entry->records[i];
        for (size_t k = 0; r->keys && k < r->change.n; k++) {
            free((void *)(uintptr_t)r->keys[k].data);
        }
        free(r->keys);
        free(r->hashes);
    }
    free(entry->records);
    entry->records = NULL;
    entry->records_count = 0;
}

static inline void *fake_copy(const void *bytes, size_t n)
{
    void *copy = malloc(n + 1);
    CHECK(copy != NULL);
    if (n) {
        memcpy(copy, bytes, n);
    }
    ((char *)copy)[n] = 0;
    return copy;
}

static inline struct fake *fake_of(struct host *host)
{
    return (struct fake *)(void *)host;
}

static inline struct fake_entry *fake_entry_of(struct fake *h,
                                               const struct object *object)
{
    for (size_t i = 0; i < h->entries_count; i++) {
        if (h->entries[i].object == object) {
            return &h->entries[i];
        }
    }
    return NULL;
}

static inline struct fake_entry *fake_find_entry(struct fake *h, bg_bytes name)
{
    for (size_t i = 0; i < h->entries_count; i++) {
        if (strlen(h->entries[i].name) == name.len
            && memcmp(h->entries[i].name, name.data, name.len) == 0) {
            return &h->entries[i];
        }
    }
    return NULL;
}

static inline bg_err fake_record(struct host *host, struct object *object,
                                 const struct change *change, bg_errinfo *info)
{
    struct fake *h = fake_of(host);
    struct fake_entry *entry = fake_entry_of(h, object);
    if (h->record_fails) {
        return error_fail(info, h->record_fails, "record: simulated failure");
    }
    CHECK(entry != NULL);
    h->recorded++;
    if ((entry->records_count & (entry->records_count + 1))
        == 0) { /* grow to the next power of two */
        entry->records = realloc(entry->records, 2 * (entry->records_count + 1)
                                                     * sizeof *entry->records);
        CHECK(entry->records != NULL);
    }
    struct fake_record *r = &entry->records[entry->records_count++];
    *r = (struct fake_record){ .change = *change };
    if (change->hashes) {
        r->hashes = fake_copy(change->hashes, change->n * sizeof *change->hashes);
        r->change.hashes = r->hashes;
    }
    if (change->keys) {
        r->keys = fake_copy(change->keys, change->n * sizeof *change->keys);
        for (size_t i = 0; i < change->n; i++) {
            r->keys[i].data = fake_copy(change->keys[i].data, change->keys[i].len);
        }
        r->change.keys = r->keys;
    }
    return BG_OK;
}

static inline bg_err fake_keep(struct fake *h, struct fake_entry *entry,
                               struct object *object, bg_errinfo *info)
{
    if (h->checkpoint_fails) {
        return error_fail(info, h->checkpoint_fails, "checkpoint: simulated failure");
    }
    h->checkpoints++;
    fake_records_free(entry);
    free(entry->content);
    entry->content = NULL;
    (void)object_shape_write(&object->shape, entry->shape);
    void *bytes = NULL;
    CHECK_OK(dump_encode(object, false, &bytes, &entry->content_bytes, info));
    entry->content = malloc(entry->content_bytes);
    CHECK(entry->content != NULL);
    memcpy(entry->content, bytes, entry->content_bytes);
    dump_give(object, bytes, entry->content_bytes);
    entry->items = object->items;
    entry->deleted = object->deleted;
    entry->expansions = object->expansions;
    return BG_OK;
}

static inline bg_err fake_checkpoint(struct host *host, struct object *object,
                                     bg_errinfo *info)
{
    struct fake *h = fake_of(host);
    struct fake_entry *entry = fake_entry_of(h, object);
    CHECK(entry != NULL);
    return fake_keep(h, entry, object, info);
}

/* Returns the object in the state that it would have after a restart. */
static inline struct object *fake_recover(struct fake *h,
                                          const struct fake_entry *entry)
{
    struct object_shape shape;
    struct object *made = NULL;
    bg_errinfo info = { 0 };
    CHECK_OK(object_shape_read(entry->shape, strlen(entry->shape), &shape, &info));
    if (entry->content && shape.foreign) {
        bg_foreign *foreign = NULL;
        CHECK_OK(bg_foreign_decode((bg_foreign_format)shape.foreign, entry->content,
                                   entry->content_bytes, NULL, &foreign, &info));
        CHECK_OK(object_adopt(&shape, NULL, foreign, &made, &info));
    } else if (entry->content) {
        bg_open_options how = BG_OPEN_OPTIONS_INIT;
        bg_hash_spec hash;
        bg_filter *filter = NULL;
        CHECK_OK(object_hash_spec(&shape, &h->settings, &hash, &info));
        how.hash = &hash;
        CHECK_OK(bg_decode(entry->content, entry->content_bytes, &how, &filter, &info));
        CHECK_OK(object_adopt(&shape, filter, NULL, &made, &info));
    } else {
        CHECK_OK(object_create(&shape, &h->settings, &made, &info));
    }
    made->items = entry->items;
    made->deleted = entry->deleted;
    made->expansions = entry->expansions;
    for (size_t i = 0; i < entry->records_count; i++) {
        CHECK_OK(object_apply(made, &entry->records[i].change, &info));
    }
    return made;
}

static inline void fake_compare(struct fake *h, const struct fake_entry *entry)
{
    struct object *again = fake_recover(h, entry);
    const bool known = object_is_whole(again) && object_is_whole(entry->object);
    const bool counts =
        known && bg_kind_traits((bg_kind)again->shape.kind) & BG_TRAIT_COUNT;
    for (size_t i = 0; i < 2 * h->keys_count; i++) {
        char stranger[32];
        bg_bytes key = h->keys[i / 2];
        if (i % 2) {
            key.data = stranger;
            key.len = (size_t)snprintf(stranger, sizeof stranger, "stranger %zu", i);
        }
        uint64_t was = 0, is = 0;
        (void)object_may_contain_many(entry->object, &key, 1, &was);
        (void)object_may_contain_many(again, &key, 1, &is);
        CHECK(is || !was);
        if (known) {
            CHECK_EQ(is, was);
        }
        if (counts) {
            CHECK_EQ(object_count(again, key), object_count(entry->object, key));
        }
    }
    if (known && !entry->object->reshaped) {
        CHECK_EQ(atomic_load(&again->items), atomic_load(&entry->object->items));
        CHECK_EQ(atomic_load(&again->deleted), atomic_load(&entry->object->deleted));
        CHECK_EQ(atomic_load(&again->expansions),
                 atomic_load(&entry->object->expansions));
    }
    object_free(again);
}

static inline void fake_replay(struct fake *h)
{
    for (size_t i = 0; i < h->entries_count; i++) {
        fake_compare(h, &h->entries[i]);
    }
}

/* ---- Names ----------------------------------------------------------------------------------- */

static inline struct object *fake_find(struct host *host, bg_bytes name)
{
    struct fake_entry *entry = fake_find_entry(fake_of(host), name);
    return entry ? entry->object : NULL;
}

static inline void fake_bury(struct fake *h, struct fake_entry *entry)
{
    h->gone = realloc(h->gone, (h->gone_count + 1) * sizeof(struct object *));
    CHECK(h->gone != NULL);
    h->gone[h->gone_count++] = entry->object;
    fake_records_free(entry);
    free(entry->content);
    entry->content = NULL;
}

/* Fills in the entry for a new object. If the object already has content, the content is saved. */
static inline bg_err fake_fill_in(struct fake *h, struct fake_entry *entry,
                                  bg_bytes name, struct object *object,
                                  bg_errinfo *info)
{
    *entry = (struct fake_entry){ .object = object };
    memcpy(entry->name, name.data, name.len);
    (void)object_shape_write(&object->shape, entry->shape);
    return object->born_full ? fake_keep(h, entry, object, info) : BG_OK;
}

static inline bg_err fake_create(struct host *host, bg_bytes name,
                                 struct object *object, bg_errinfo *info)
{
    struct fake *h = fake_of(host);
    if (h->create_fails) {
        return error_fail(info, h->create_fails, "create: simulated failure");
    }
    if (fake_find_entry(h, name)) {
        return error_fail(info, BG_EBUSY, "taken");
    }
    if (h->entries_count == FAKE_NAMES || name.len >= sizeof h->entries->name
        || memchr(name.data, 0, name.len)) {
        return error_fail(info, BG_EQUOTA, "too many names, or too long a name");
    }
    const bg_err err =
        fake_fill_in(h, &h->entries[h->entries_count], name, object, info);
    h->entries_count += err == BG_OK;
    return err;
}

static inline bg_err fake_replace(struct host *host, bg_bytes name,
                                  const struct object *instead_of,
                                  struct object *object, bg_errinfo *info)
{
    struct fake *h = fake_of(host);
    struct fake_entry *entry = fake_find_entry(h, name);
    if (!entry || entry->object != instead_of) {
        return error_fail(info, BG_ECANCELED, "the name refers to a different object");
    }
    if (h->create_fails) {
        return fake_create(host, name, object, info);
    }
    struct fake_entry made;
    const bg_err err = fake_fill_in(h, &made, name, object, info);
    if (!err) {
        fake_bury(h, entry);
        *entry = made;
    }
    return err;
}

static inline bool fake_drop(struct host *host, bg_bytes name)
{
    struct fake *h = fake_of(host);
    struct fake_entry *entry = fake_find_entry(h, name);
    if (!entry) {
        return false;
    }
    fake_bury(h, entry);
    *entry = h->entries[--h->entries_count];
    return true;
}

static inline uint64_t fake_now(struct host *host)
{
    return fake_of(host)->now;
}

static inline uint64_t fake_ticks(struct host *host)
{
    return fake_of(host)->now - fake_of(host)->stepped;
}

/* The gate "gate" has rows with the columns key, none (NULL) and big (`row_bytes` bytes); the gate
 * "mute" has no rows. */
static inline bg_err fake_lookup(struct host *host, bg_bytes name, bg_bytes key,
                                 struct store_row *row, bg_outcome *outcome,
                                 bg_errinfo *info)
{
    static const char big[STORE_ROW_MAX] = "x";
    const struct fake *h = fake_of(host);
    if (row && name.len == 4 && memcmp(name.data, "mute", 4) == 0) {
        return error_fail(info, BG_ENOTSUP, "this gate does not return rows");
    }
    if (name.len != 4 || memcmp(name.data, "gate", 4) != 0) {
        return error_fail(info, BG_ENOTFOUND, "no such gate");
    }
    *outcome = h->outcome;
    if (*outcome == BG_OUTCOME_PRESENT) {
        store_row_begin(row);
        store_row_add(row, "key", key.data, key.len);
        store_row_add(row, "none", NULL, 0);
        store_row_add(row, "big", big, h->row_bytes);
    }
    return BG_OK;
}

static inline bg_err fake_wrote(struct host *host, bg_bytes name, bg_bytes key,
                                bg_errinfo *info)
{
    bg_outcome outcome;
    return key.len ? fake_lookup(host, name, key, NULL, &outcome, info)
                   : error_fail(info, BG_EINVAL, "another spelling");
}

static inline void fake_disclose(struct host *host, bg_bytes name)
{
    (void)name;
    fake_of(host)->disclosed++;
}

static inline bg_err fake_path(struct host *host, bg_bytes file, char *path,
                               size_t room, bg_errinfo *info)
{
    const struct fake *h = fake_of(host);
    if (!h->folder || memchr(file.data, '/', file.len) || file.len == 0) {
        return error_fail(info, BG_EINVAL, "file: found a path, expected a plain name");
    }
    (void)snprintf(path, room, "%s/%.*s", h->folder, (int)file.len,
                   (const char *)file.data);
    return BG_OK;
}

/* ---- Replies --------------------------------------------------------------------------------- */

static inline struct fake_item *fake_put(void *to, char type)
{
    struct fake *h = to;
    CHECK(h->items_count < FAKE_ITEMS);
    struct fake_item *item = &h->items[h->items_count++];
    *item = (struct fake_item){ .type = type };
    return item;
}

static inline void fake_bytes(struct fake_item *item, const void *bytes, size_t n)
{
    item->bytes = fake_copy(bytes, n);
    item->n = n;
}

static inline void fake_status(void *to, const char *text)
{
    fake_bytes(fake_put(to, '+'), text, strlen(text));
}

static inline void fake_error(void *to, const char *text)
{
    CHECK(text[0] >= 'A' && text[0] <= 'Z' && text[1] >= 'A'
          && text[1] <= 'Z'); /* an error code */
    CHECK(!strchr(text, '\n') && !strchr(text, '\r'));
    fake_bytes(fake_put(to, '-'), text, strlen(text));
}

static inline void fake_integer(void *to, int64_t value)
{
    fake_put(to, ':')->integer = value;
}

static inline void fake_boolean(void *to, bool value)
{
    fake_put(to, ((struct fake *)to)->protocol == 3 ? '#' : ':')->integer = value;
}

static inline void fake_booleans(void *to, const uint64_t *bits, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fake_boolean(to, bits[i / 64] >> i % 64 & 1);
    }
}

static inline void fake_bulk(void *to, const void *bytes, size_t n)
{
    fake_bytes(fake_put(to, '$'), bytes, n);
}

static inline void fake_real(void *to, double value)
{
    char text[40];
    CHECK(!isnan(value));
    struct fake_item *item =
        fake_put(to, ((struct fake *)to)->protocol == 3 ? ',' : '$');
    fake_bytes(item, text, (size_t)snprintf(text, sizeof text, "%g", value));
    item->real = value;
}

static inline void fake_null(void *to)
{
    (void)fake_put(to, '_');
}

static inline void fake_array(void *to, size_t n)
{
    fake_put(to, '[')->integer = (int64_t)n;
}

static inline void fake_map(void *to, size_t n)
{
    const bool three = ((struct fake *)to)->protocol == 3;
    fake_put(to, three ? '{' : '[')->integer = (int64_t)(three ? n : 2 * n);
}

static inline void fake_say(struct fake *h, const char *bytes, size_t n)
{
    if (h->text_used + n < FAKE_TEXT - 1) {
        memcpy(h->text + h->text_used, bytes, n);
        h->text_used += n;
        h->text[h->text_used] = 0;
    }
}

/* Writes the reply that starts at index `at`. Returns the index of the next reply. */
static inline size_t fake_write(struct fake *h, size_t at)
{
    CHECK(at < h->items_count); /* fails if a list contains too few items */
    const struct fake_item *item = &h->items[at++];
    char text[40];
    if (item->type == '[' || item->type == '{') {
        const size_t n = (size_t)item->integer * (item->type == '{' ? 2 : 1);
        fake_say(h, &item->type, 1);
        for (size_t i = 0; i < n; i++) {
            fake_say(h, " ", i > 0);
            at = fake_write(h, at);
        }
        fake_say(h, item->type == '[' ? "]" : "}", 1);
    } else if (item->type == ':') {
        fake_say(
            h, text,
            (size_t)snprintf(text, sizeof text, ":%lld", (long long)item->integer));
    } else if (item->type == '#') {
        fake_say(h, item->integer ? "#t" : "#f", 2);
    } else {
        fake_say(h, &item->type, 1);
        fake_say(h, item->bytes ? item->bytes : "", item->n);
    }
    return at;
}

static inline void fake_reply_free(struct fake *h)
{
    for (size_t i = 0; i < h->items_count; i++) {
        free(h->items[i].bytes);
    }
    h->items_count = 0;
    h->text_used = 0;
    h->text[0] = 0;
}

/* ---- Commands -------------------------------------------------------------------------------- */

static const struct reply_ops fake_reply_ops = {
    .status = fake_status,
    .error = fake_error,
    .integer = fake_integer,
    .boolean = fake_boolean,
    .booleans = fake_booleans,
    .real = fake_real,
    .bulk = fake_bulk,
    .null = fake_null,
    .array = fake_array,
    .map = fake_map,
    .set = fake_array,
};

static inline void fake_begin(struct fake *h)
{
    static const struct host_ops ops = { .find = fake_find,
                                         .create = fake_create,
                                         .replace = fake_replace,
                                         .drop = fake_drop,
                                         .record = fake_record,
                                         .checkpoint = fake_checkpoint,
                                         .now = fake_now,
                                         .ticks = fake_ticks,
                                         .lookup = fake_lookup,
                                         .wrote = fake_wrote,
                                         .path = fake_path,
                                         .disclose = fake_disclose };
    static const struct command *const families[] = { bf_commands, cf_commands,
                                                      bg_commands };
    *h = (struct fake){ .protocol = 2, .now = 1700000000000 };
    h->settings = (struct command_settings){ .bf_error_rate = 0.01,
                                             .bf_initial_size = 100,
                                             .bf_expansion_factor = 2,
                                             .cf_bucket_size = 2,
                                             .cf_initial_size = 1024,
                                             .cf_max_iterations = 20,
                                             .cf_expansion_factor = 1,
                                             .cf_max_expansions = 32,
                                             .hash = BG_HASH_FAST };
    h->host = (struct host){ .ops = &ops, .settings = &h->settings };
    h->table = command_table_create(families, 3);
    h->items = calloc(FAKE_ITEMS, sizeof *h->items);
    h->text = calloc(1, FAKE_TEXT);
    CHECK(h->table && h->items && h->text);
}

static inline void fake_end(struct fake *h)
{
    if (!h->forget) {
        fake_replay(h);
    }
    fake_reply_free(h);
    for (size_t i = 0; i < h->entries_count; i++) {
        fake_records_free(&h->entries[i]);
        free(h->entries[i].content);
        object_free(h->entries[i].object);
    }
    for (size_t i = 0; i < h->gone_count; i++) {
        object_free(h->gone[i]);
    }
    for (size_t i = 0; i < h->keys_count; i++) {
        free((void *)(uintptr_t)h->keys[i].data);
    }
    free(h->gone);
    free(h->keys);
    free(h->items);
    free(h->text);
    command_table_free(h->table);
}

static inline void fake_remember(struct fake *h, bg_bytes key)
{
    if (h->no_keys || key.len > 256) {
        return;
    }
    if ((h->keys_count & (h->keys_count + 1))
        == 0) { /* grow to the next power of two */
        h->keys = realloc(h->keys, 2 * (h->keys_count + 1) * sizeof *h->keys);
        CHECK(h->keys != NULL);
    }
    h->keys[h->keys_count++] = (bg_bytes){ fake_copy(key.data, key.len), key.len };
}

/* Runs a command as a server's dispatcher does. Returns the reply as text. */
static inline const char *fake_argv(struct fake *h, const bg_bytes *argv, size_t argc)
{
    const struct command *command = command_find(h->table, argv[0]);
    struct request request = { .host = &h->host,
                               .command = command,
                               .argv = argv,
                               .argc = argc,
                               .reply = { &fake_reply_ops, h, h->protocol } };
    CHECK(command != NULL);
    fake_reply_free(h);
    for (size_t i = 2; i < argc; i++) {
        fake_remember(h, argv[i]);
    }
    if (command_arity_fits(command, argc)) {
        command->run(&request);
    } else {
        args_arity(&request);
    }
    CHECK_EQ(fake_write(h, 0), h->items_count); /* exactly one reply */
    return h->text;
}

/* Runs a command line whose words are separated by spaces. Returns the reply as text. */
static inline const char *fake(struct fake *h, const char *line)
{
    static char words[1 << 16];
    static bg_bytes argv[FAKE_ARGUMENTS];
    size_t argc = 0;
    CHECK(strlen(line) < sizeof words);
    (void)snprintf(words, sizeof words, "%s", line);
    for (char *word = words, *rest = words; (word = strsep(&rest, " ")) != NULL;) {
        CHECK(argc < FAKE_ARGUMENTS);
        argv[argc++] = (bg_bytes){ word, strlen(word) };
    }
    return fake_argv(h, argv, argc);
}

/* Runs a pipeline of n requests by calling the command's run_many function. All requests have the
 * same command and key, and each has one item. Returns the replies, separated by spaces. */
static inline const char *fake_pipeline(struct fake *h, const char *name,
                                        const char *key, const bg_bytes *items,
                                        size_t n)
{
    const bg_bytes argv[3] = { { name, strlen(name) }, { key, strlen(key) }, items[0] };
    const struct command *command = command_find(h->table, argv[0]);
    struct request request = { .host = &h->host,
                               .command = command,
                               .argv = argv,
                               .argc = 3,
                               .reply = { &fake_reply_ops, h, h->protocol } };
    CHECK(command != NULL && command->run_many != NULL);
    fake_reply_free(h);
    for (size_t i = 0; i < n; i++) {
        fake_remember(h, items[i]);
    }
    command->run_many(&request, items, n);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        fake_say(h, " ", i > 0);
        at = fake_write(h, at);
    }
    CHECK_EQ(at, h->items_count); /* one reply for each request */
    return h->text;
}

/* Checks a command's replies in both protocols. The command must not change anything, because it
 * runs twice. */
#define FAKE_BOTH(h, line, two, three)                                                 \
    do {                                                                               \
        (h)->protocol = 2;                                                             \
        CHECK_STR(fake((h), (line)), (two));                                           \
        (h)->protocol = 3;                                                             \
        CHECK_STR(fake((h), (line)), (three));                                         \
        (h)->protocol = 2;                                                             \
    } while (0)

/* A command line and its expected reply. fake_script runs an array of these in order. */
struct fake_line {
    const char *command, *reply;
};

static inline void fake_script(struct fake *h, const struct fake_line *lines, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *got = fake(h, lines[i].command);
        if (strcmp(got, lines[i].reply) != 0) {
            check_fail(__FILE__, __LINE__, "%s\n  got      %s\n  expected %s",
                       lines[i].command, got, lines[i].reply);
        }
    }
}

#define FAKE_SCRIPT(h, lines) fake_script((h), (lines), sizeof(lines) / sizeof *(lines))

#endif
