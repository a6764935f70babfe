/*
 * cf.c - CF.*: RedisBloom's cuckoo filter commands, implemented with quotient filters.
 *
 * A quotient filter deletes and counts like a cuckoo filter, and has three advantages here:
 * duplicates of an item use a counter instead of additional slots; the filter doubles in place, so
 * there is no chain of filters to query; and the length of its fingerprints depends on the rate,
 * instead of being fixed at 8 bits. BUCKETSIZE, MAXITERATIONS and EXPANSION are accepted and
 * reported by CF.INFO, but have no effect, except that EXPANSION 0 prevents growth. ERROR, an
 * extension, sets the false-positive rate.
 *
 * Intentional differences:
 *   - options are parsed strictly, and every error has a code;
 *   - querying a key of a different type returns WRONGTYPE, since "0" would be a false "no";
 *   - without ERROR, the false-positive rate stays below 3% no matter how far the filter grows, and
 *     is typically below 0.01%. A filter that can no longer keep this rate is considered full;
 *   - CF.COMPACT is a write command, so it does not run on replicas.
 */
#include "args.h"
#include "dump.h"

#include <stdio.h>
#include <stdlib.h>

static const uint64_t cf_capacity_most = UINT64_C(1) << 39;

/* ---- Creation ------------------------------------------------------------------------------ */

/* The options of RESERVE and INSERT. */
struct cf_wish {
    uint64_t capacity, bucket_size, iterations, expansion, expansions;
    double error; /* 0 if not set */
    bool nocreate;
};

static struct cf_wish cf_usual(const struct command_settings *settings)
{
    return (struct cf_wish){ .capacity = settings->cf_initial_size,
                             .bucket_size = settings->cf_bucket_size,
                             .iterations = settings->cf_max_iterations,
                             .expansion = settings->cf_expansion_factor,
                             .expansions = settings->cf_max_expansions };
}

static const struct args_number cf_numbers[] = {
#define CF_AT(field) offsetof(struct cf_wish, field)
    { "CAPACITY", ARGS_COUNT, CF_AT(capacity), false, true, 0, UINT64_MAX,
      "ERR Bad capacity", NULL }, /* cf_capacity_fits checks the range */
    { "BUCKETSIZE", ARGS_COUNT, CF_AT(bucket_size), true, false, 1, 255,
      "ERR Couldn't parse BUCKETSIZE",
      "ERR BUCKETSIZE: value must be in the range [1, 255]" },
    { "MAXITERATIONS", ARGS_COUNT, CF_AT(iterations), true, false, 1, 65535,
      "ERR Couldn't parse MAXITERATIONS",
      "ERR MAXITERATIONS: value must be in the range [1, 65535]" },
    { "EXPANSION", ARGS_COUNT, CF_AT(expansion), true, false, 0, 32768,
      "ERR Couldn't parse EXPANSION",
      "ERR EXPANSION: value must be in the range [0, 32768]" },
    { "ERROR", ARGS_SHARE, CF_AT(error), true, true, 0, 0, "ERR bad error rate",
      "ERR error rate must be in the range (0.000000, 1.000000)" },
#undef CF_AT
};

enum { CF_CAPACITY, CF_NUMBERS = 5 };

/* Parses the option at argv[*i] and its value. Leaves *i at the last argument that it parsed. */
static const char *cf_read_option(const struct request *request, size_t *i,
                                  bool inserting, struct cf_wish *wish)
{
    if (inserting && args_is(request->argv[*i], "NOCREATE")) {
        wish->nocreate = true;
        return NULL;
    }
    return args_option(request, i, inserting, cf_numbers, CF_NUMBERS, NULL, wish);
}

static bool cf_capacity_fits(const struct cf_wish *wish)
{
    return wish->capacity >= 2 * wish->bucket_size
           && wish->capacity <= cf_capacity_most;
}

static bg_err cf_make(struct request *request, const void *options,
                      struct object **object, bg_errinfo *info)
{
    const struct command_settings *settings = request->host->settings;
    const struct cf_wish usual = cf_usual(settings), *wish = options ? options : &usual;
    struct object_shape shape = { .family = OBJECT_CF,
                                  .items = wish->capacity,
                                  .rate = wish->error,
                                  .expansion = (uint32_t)wish->expansion,
                                  .bucket_size = (uint32_t)wish->bucket_size,
                                  .max_iterations = (uint32_t)wish->iterations,
                                  .max_expansions = (uint32_t)wish->expansions };
    object_shape_quotient(&shape);
    const bg_err err = object_shape_hash(&shape, settings->hash, settings, info);
    return err ? err : object_create(&shape, settings, object, info);
}

static void cf_made_not(struct request *request, bg_err err, const bg_errinfo *info)
{
    args_failed(request, err, info, "ERR Couldn't create Cuckoo Filter");
}

const struct args_maker cf_maker = { cf_make, cf_made_not };

static void cf_reserve(struct request *request)
{
    struct cf_wish wish = cf_usual(request->host->settings);
    const char *wrong = args_number(&cf_numbers[CF_CAPACITY], request->argv[2], &wish);
    for (size_t i = 3; !wrong && i < request->argc; i++) {
        wrong = cf_read_option(request, &i, false, &wish);
    }
    if (!wrong && !cf_capacity_fits(&wish)) {
        wrong = "ERR Capacity must be in the range [2 * BUCKETSIZE, 549755813888]";
    }
    args_reserve(request, &cf_maker, wrong, &wish);
}

/* ---- Adds ---------------------------------------------------------------------------------- */

static void cf_addnx(struct request *request)
{
    struct object *object = args_find_or_make(request, false, NULL);
    if (!object) {
        return;
    }
    bool added = false;
    bg_errinfo info = { 0 };
    const bg_err err =
        object_add_absent(object, request->host, request->argv[2], &added, &info);
    if (err) {
        args_failed(request, err, &info, items_full(request, object));
    } else {
        reply_boolean(&request->reply, added);
    }
}

/* Replies with the result for one item of INSERT: added, already present, or filter full.
 * RedisBloom clients that use RESP3 expect booleans, except for INSERTNX, which has three
 * results. */
static void cf_tell(struct request *request, bool absent_only, int how)
{
    if (!absent_only && request->reply.protocol == 3) {
        reply_boolean(&request->reply, how > 0);
    } else {
        reply_integer(&request->reply, how);
    }
}

/* The items of one request, and their results. */
struct cf_list {
    struct request *request;
    struct object *object;
    const bg_bytes *items;
    size_t n, done;
    signed char *answers; /* 1 if added, 0 if already present, -1 if full */
    bool absent_only;
};

/* Adds at most `now` of the next items, and stops at the first failure. */
static bg_err cf_put(struct cf_list *list, size_t now, bg_errinfo *info)
{
    const bg_bytes *items = list->items + list->done;
    struct host *host = list->request->host;
    if (list->absent_only) { /* one at a time, because the list may contain duplicates */
        bool added = false;
        const bg_err err = object_add_absent(list->object, host, *items, &added, info);
        list->answers[list->done] = added ? 1 : 0;
        list->done += err == BG_OK;
        return err;
    }
    uint64_t is_new[BG_BITMAP_WORDS(OBJECT_BATCH)];
    size_t in = 0;
    const bg_err err =
        object_add_many(list->object, host, items, now, is_new, &in, info);
    memset(list->answers + list->done, 1, in);
    list->done += in;
    return err;
}

/* Adds all items. Stops at the first error other than BG_EFULL. */
static bg_err cf_put_all(struct cf_list *list, bg_errinfo *info)
{
    size_t step = OBJECT_BATCH; /* batch size; reduced to 1 after an error */
    bg_err err = BG_OK;
    while (!err && list->done < list->n) {
        const size_t left = list->n - list->done;
        err = cf_put(list, left < step ? left : step, info);
        step = err ? 1 : step < OBJECT_BATCH ? 2 * step : step;
        if (err == BG_EFULL) {
            list->answers[list->done++] = -1;
            err = BG_OK;
        }
    }
    return err;
}

/* Replies with an array. If an error occurs, it is the last element. */
static void cf_insert_list(struct cf_list *list)
{
    struct request *request = list->request;
    bg_errinfo info = { 0 };
    list->answers = malloc(list->n);
    const bg_err err = list->answers ? cf_put_all(list, &info) : BG_ENOMEM;
    if (!err || list->done) {
        reply_array(&request->reply, list->done + (err ? 1 : 0));
        for (size_t i = 0; i < list->done; i++) {
            cf_tell(request, list->absent_only, list->answers[i]);
        }
    }
    if (err) {
        args_failed(request, err, &info, items_full(request, list->object));
    }
    free(list->answers);
}

static void cf_insert_items(struct request *request, bool absent_only)
{
    struct cf_wish wish = cf_usual(request->host->settings);
    const char *wrong = NULL;
    size_t i = 2;
    while (!wrong && i < request->argc && !args_is(request->argv[i], "ITEMS")) {
        wrong = cf_read_option(request, &i, true, &wish);
        i++;
    }
    if (!wrong && !cf_capacity_fits(&wish)) {
        wrong = "ERR Capacity must be in the range [cf-bucket-size * 2, 549755813888]";
    }
    if (wrong) {
        reply_error(&request->reply, wrong);
    } else if (i + 1 >= request->argc) {
        args_arity(request);
    } else {
        struct cf_list list = { .request = request,
                                .object =
                                    args_find_or_make(request, wish.nocreate, &wish),
                                .items = request->argv + i + 1,
                                .n = request->argc - i - 1,
                                .absent_only = absent_only };
        if (list.object) {
            cf_insert_list(&list);
        }
    }
}

static void cf_insert(struct request *request)
{
    cf_insert_items(request, false);
}

static void cf_insertnx(struct request *request)
{
    cf_insert_items(request, true);
}

/* ---- Lookups and deletes -------------------------------------------------------------------- */

static void cf_count(struct request *request)
{
    bool sent = false;
    const struct object *object = args_find_own(request, &sent);
    if (!sent) {
        const uint64_t count = object ? object_count(object, request->argv[2]) : 0;
        reply_count(&request->reply, count);
    }
}

static void cf_del(struct request *request)
{
    struct object *object = args_find_cuckoo(request, "ERR Not found", NULL);
    if (!object) {
        return;
    }
    bg_errinfo info = { 0 };
    const bg_err err = object_remove(object, request->host, request->argv[2], 0, &info);
    if (err && err != BG_ENOTFOUND) {
        args_failed(request, err, &info, CF_FULL);
    } else {
        reply_boolean(&request->reply, !err);
    }
}

static void cf_compact(struct request *request)
{
    struct object *object =
        args_find_cuckoo(request, "ERR Cuckoo filter was not found", NULL);
    if (!object) {
        return;
    }
    uint32_t steps = 0;
    bg_errinfo info = { 0 };
    bg_err err = object_compact(object, &steps, &info);
    if (!err && steps) {
        err = request->host->ops->checkpoint(request->host, object, &info);
    }
    args_done(request, err, &info, CF_FULL);
}

/* ---- Information --------------------------------------------------------------------------- */

struct cf_figures {
    uint64_t size, buckets, filters, items, deletes, bucket_size, expansion, iterations;
};

static struct cf_figures cf_measure(const struct object *object)
{
    const uint64_t added = atomic_load(&object->items),
                   gone = atomic_load(&object->deleted);
    const uint32_t bucket = object->shape.bucket_size ? object->shape.bucket_size : 1;
    /* For imported filters, report the number of slots in the first filter, as RedisBloom does. */
    const uint64_t slots =
        object->foreign ? object->shape.items : object_capacity(object);
    return (struct cf_figures){ .size = object_bytes(object),
                                .buckets = slots / bucket,
                                .filters = object_layers(object),
                                .items = added > gone ? added - gone : 0,
                                .deletes = object_deleted(object),
                                .bucket_size = bucket,
                                .expansion = object->shape.expansion,
                                .iterations = object->shape.max_iterations };
}

static void cf_info(struct request *request)
{
    const struct object *object = args_find_cuckoo(request, ARGS_NOT_FOUND, NULL);
    if (!object) {
        return;
    }
    const struct cf_figures f = cf_measure(object);
    const struct {
        const char *title;
        uint64_t value;
    } facts[] = { { "Size", f.size },
                  { "Number of buckets", f.buckets },
                  { "Number of filters", f.filters },
                  { "Number of items inserted", f.items },
                  { "Number of items deleted", f.deletes },
                  { "Bucket size", f.bucket_size },
                  { "Expansion rate", f.expansion },
                  { "Max iterations", f.iterations } };
    reply_map(&request->reply, sizeof facts / sizeof *facts);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        reply_status(&request->reply, facts[i].title);
        reply_integer(&request->reply, (int64_t)facts[i].value);
    }
}

static void cf_debug(struct request *request)
{
    const struct object *object = args_find_cuckoo(request, ARGS_NOT_FOUND, NULL);
    if (!object) {
        return;
    }
    const struct cf_figures f = cf_measure(object);
    char line[300];
    (void)snprintf(line, sizeof line,
                   "bktsize:%llu buckets:%llu items:%llu deletes:%llu filters:%llu "
                   "max_iterations:%llu expansion:%llu",
                   (unsigned long long)f.bucket_size, (unsigned long long)f.buckets,
                   (unsigned long long)f.items, (unsigned long long)f.deletes,
                   (unsigned long long)f.filters, (unsigned long long)f.iterations,
                   (unsigned long long)f.expansion);
    reply_text(&request->reply, line);
}

#define CF_WRITE  (COMMAND_WRITE | COMMAND_DENYOOM | COMMAND_FAST)
#define CF_ADDS   (CF_WRITE | COMMAND_CLAIMS)
#define CF_READ   (COMMAND_READONLY | COMMAND_FAST)
#define CF_AT_KEY CATEGORY_CUCKOO, 1, 1, 1

const struct command cf_commands[] = {
    { "CF.RESERVE", -3, CF_WRITE, CF_AT_KEY, cf_reserve, NULL,
      "key capacity [BUCKETSIZE bucketsize] [MAXITERATIONS maxiterations] "
      "[EXPANSION expansion] [ERROR error]",
      "Creates an empty cuckoo filter with the given capacity", "O(1)", "0.1.0",
      BEHAVIOR_ADDS },
    { "CF.ADD", 3, CF_ADDS, CF_AT_KEY, items_add_one, items_add_many, "key item",
      "Adds an item to a cuckoo filter (duplicates allowed), creating the filter if "
      "it does not exist",
      "O(1), except when the filter doubles", "0.1.0", BEHAVIOR_ADDS },
    { "CF.ADDNX", 3, CF_ADDS, CF_AT_KEY, cf_addnx, NULL, "key item",
      "Adds an item to a cuckoo filter unless the filter may contain it, creating "
      "the filter if it does not exist",
      "O(1), except when the filter doubles", "0.1.0", BEHAVIOR_ADDS },
    { "CF.INSERT", -4, CF_ADDS, CF_AT_KEY, cf_insert, NULL,
      "key [CAPACITY capacity] [ERROR error] [NOCREATE] ITEMS item [item ...]",
      "Adds items to a cuckoo filter, creating it with the given options if it does "
      "not exist",
      "O(N) where N is the number of items", "0.1.0", BEHAVIOR_ADDS },
    { "CF.INSERTNX", -4, CF_ADDS, CF_AT_KEY, cf_insertnx, NULL,
      "key [CAPACITY capacity] [ERROR error] [NOCREATE] ITEMS item [item ...]",
      "Adds the items that a cuckoo filter does not contain, creating it with the "
      "given options if it does not exist",
      "O(N) where N is the number of items", "0.1.0", BEHAVIOR_ADDS },
    { "CF.EXISTS", 3, CF_READ | COMMAND_ASKS, CF_AT_KEY, items_exist_one,
      items_exist_many, "key item",
      "Checks whether a cuckoo filter may contain an item; 0 means definitely not",
      "O(1)", "0.1.0", BEHAVIOR_READS },
    { "CF.MEXISTS", -3, CF_READ | COMMAND_ASKS, CF_AT_KEY, items_exist_list, NULL,
      "key item [item ...]",
      "Checks whether a cuckoo filter may contain each item; 0 means definitely not",
      "O(N) where N is the number of items", "0.1.0", BEHAVIOR_READS },
    { "CF.COUNT", 3, CF_READ | COMMAND_ASKS | COMMAND_COUNTS, CF_AT_KEY, cf_count, NULL,
      "key item", "Returns an estimate of how many times a cuckoo filter holds an item",
      "O(1)", "0.1.0", BEHAVIOR_READS },
    { "CF.DEL", 3, COMMAND_WRITE | COMMAND_FAST | COMMAND_CLAIMS, CF_AT_KEY, cf_del,
      NULL, "key item",
      "Deletes one occurrence of an item; delete only items that "
      "were added",
      "O(1)", "0.1.0", BEHAVIOR_DELETES },
    { "CF.COMPACT", 2, COMMAND_WRITE | COMMAND_SLOW, CF_AT_KEY, cf_compact, NULL, "key",
      "Releases memory that a cuckoo filter no longer needs after deletes",
      "O(N) where N is the size in bytes", "0.1.0", BEHAVIOR_TRANSFORMS },
    { "CF.INFO", 2, CF_READ, CF_AT_KEY, cf_info, NULL, "key",
      "Returns information about a cuckoo filter", "O(1)", "0.1.0", BEHAVIOR_READS },
    { "CF.DEBUG", 2, CF_READ, CF_AT_KEY, cf_debug, NULL, "key",
      "Returns debugging information about a cuckoo filter in a single line", "O(1)",
      "0.1.0", BEHAVIOR_READS },
    { "CF.SCANDUMP", 3, COMMAND_READONLY | COMMAND_SLOW | COMMAND_COPIES, CF_AT_KEY,
      dump_cf_scan, NULL, "key iterator",
      "Returns the next chunk of a cuckoo filter; start with iterator 0, then pass the "
      "returned iterator",
      "O(N) where N is the size in bytes", "0.1.0", BEHAVIOR_READS },
    { "CF.LOADCHUNK", 4, COMMAND_WRITE | COMMAND_DENYOOM | COMMAND_SLOW, CF_AT_KEY,
      dump_cf_load, NULL, "key iterator data",
      "Loads a chunk of a dump; the last chunk creates the filter",
      "O(N) where N is the size in bytes", "0.1.0", BEHAVIOR_LOADS },
    { .name = NULL },
};
