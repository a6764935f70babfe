/*
 * bf.c - BF.*: RedisBloom's Bloom filter commands, with the same arguments, replies and error
 * texts.
 *
 * Intentional differences:
 *   - options are parsed strictly: an unknown option is an error;
 *   - every error has a code, usually ERR;
 *   - querying a key of a different type returns WRONGTYPE, since "0" would be a false "no";
 *   - the requested false-positive rate holds for the whole filter, no matter how many times it has
 *     grown;
 *   - capacities go up to 2^56, within the memory limits;
 *   - BF.* commands also work with filters created by BG.CREATE or loaded from files.
 *
 * BF.INSERT supports the extensions of valkey-bloom: ITEMS is optional, VALIDATESCALETO checks
 * whether the filter can grow to a given size, and TIGHTENING and SEED, which valkey-bloom
 * primaries send to their replicas, create a filter identical to theirs.
 */
#include "args.h"
#include "dump.h"
#include "import_value.h"

#include <stdio.h>

enum { BF_EXPANSION_MAX = 32768 };
static const double bf_error_most =
    0.25; /* filters above this rate are of little use */
static const char bf_expansion_wrong[] =
    "ERR expansion must be in the range [0, 32768]";

/* ---- Creation ------------------------------------------------------------------------------ */

/* The options of RESERVE and INSERT. */
struct bf_wish {
    double error, tightening;
    uint64_t capacity;
    uint64_t expansion;
    uint64_t scale_to; /* 0 if not set */
    const void *seed;  /* NULL if not set */
    bool has_expansion, nonscaling, nocreate;
};

static struct bf_wish bf_usual(const struct command_settings *settings)
{
    return (struct bf_wish){ .error = settings->bf_error_rate,
                             .tightening = 0.5,
                             .capacity = settings->bf_initial_size,
                             .expansion = settings->bf_expansion_factor };
}

static const struct args_number bf_numbers[] = {
#define BF_AT(field) offsetof(struct bf_wish, field)
    { "ERROR", ARGS_SHARE, BF_AT(error), false, true, 0, 0, "ERR bad error rate",
      "ERR error rate must be in the range (0.000000, 1.000000)" },
    { "CAPACITY", ARGS_COUNT, BF_AT(capacity), false, true, 1, UINT64_C(1) << 56,
      "ERR bad capacity", "ERR capacity must be in the range [1, 72057594037927936]" },
    { "EXPANSION", ARGS_COUNT, BF_AT(expansion), true, true, 0, UINT32_MAX,
      "ERR bad expansion", bf_expansion_wrong },
    { "TIGHTENING", ARGS_SHARE, BF_AT(tightening), false, true, 0, 0,
      "ERR bad tightening ratio", "ERR (0 < tightening ratio range < 1)" },
    { "VALIDATESCALETO", ARGS_COUNT, BF_AT(scale_to), false, true, 1, UINT64_MAX,
      "ERR bad capacity", "ERR bad capacity" },
#undef BF_AT
};

enum { BF_ERROR, BF_CAPACITY, BF_EXPANSION, BF_NUMBERS = 5 };

/* The caller recognizes this error by its address, and calls args_arity to send the reply instead
 * of this text. */
static const char bf_arity[] = "a value is missing";

/* Parses the option at argv[*i] and its value. Leaves *i at the last argument that it parsed. */
static const char *bf_read_option(const struct request *request, size_t *i,
                                  bool inserting, struct bf_wish *wish)
{
    const bg_bytes word = request->argv[*i];
    if (args_is(word, "NONSCALING")) {
        wish->nonscaling = true;
        return NULL;
    }
    if (inserting && args_is(word, "NOCREATE")) {
        wish->nocreate = true;
        return NULL;
    }
    if (inserting && args_is(word, "SEED")) {
        if (++*i >= request->argc) {
            return bf_arity;
        }
        wish->seed = request->argv[*i].data;
        return request->argv[*i].len == IMPORT_SEED_BYTES ? NULL : "ERR invalid seed";
    }
    wish->has_expansion |= args_is(word, bf_numbers[BF_EXPANSION].word);
    return args_option(request, i, inserting, bf_numbers, BF_NUMBERS,
                       inserting ? bf_arity : "ERR no expansion", wish);
}

/* Returns an error if options conflict or EXPANSION is too large, and NULL otherwise. */
static const char *bf_check(const struct bf_wish *wish)
{
    const bool grows = !wish->nonscaling && wish->expansion != 0;
    if (wish->nonscaling && wish->has_expansion && wish->expansion != 0) {
        return "ERR Nonscaling filters cannot expand";
    }
    if (wish->has_expansion && wish->expansion > BF_EXPANSION_MAX && !wish->seed) {
        return bf_expansion_wrong;
    }
    if (wish->scale_to && !grows) {
        return "ERR cannot use NONSCALING and VALIDATESCALETO options together";
    }
    if (wish->scale_to && wish->seed) {
        return "ERR cannot use SEED and VALIDATESCALETO options together";
    }
    return NULL;
}

/* Returns the growth factor of the layers. The library supports the factors 2, 4 and 8. Other
 * values are rounded up, because a filter with fewer layers is faster; values above 8 become 8. */
static uint32_t bf_width(uint64_t expansion)
{
    return expansion <= 2 ? 2 : expansion <= 4 ? 4 : 8;
}

static struct object_shape bf_shape(const struct bf_wish *wish)
{
    struct object_shape shape = { .family = OBJECT_BF,
                                  .items = wish->capacity,
                                  .rate = wish->error < bf_error_most ? wish->error
                                                                      : bf_error_most,
                                  .expansion = (uint32_t)wish->expansion };
    if (wish->nonscaling || wish->expansion == 0) {
        shape.kind = BG_KIND_BLOCKED;
        shape.nonscaling = 1;
        shape.expansion = 0;
    } else {
        shape.kind = BG_KIND_SCALABLE;
        shape.width = bf_width(wish->expansion);
    }
    return shape;
}

static bg_err bf_make(struct request *request, const void *options,
                      struct object **object, bg_errinfo *info)
{
    const struct command_settings *settings = request->host->settings;
    const struct bf_wish usual = bf_usual(settings), *wish = options ? options : &usual;
    if (wish->seed) {
        const struct import_seeded seeded = {
            .capacity = wish->capacity,
            .rate = wish->error,
            .tightening = wish->tightening,
            .expansion = wish->nonscaling ? 0 : (uint32_t)wish->expansion,
            .seed = wish->seed
        };
        return import_seeded_make(&seeded, settings, object, info);
    }
    struct object_shape shape = bf_shape(wish);
    const bg_err err = object_shape_hash(&shape, settings->hash, settings, info);
    return err ? err : object_create(&shape, settings, object, info);
}

/* Checks whether a filter can grow to wish->scale_to items. The planner accepts growth by a factor
 * of up to a million. If the growth is larger, a larger initial capacity is assumed. */
static const char *bf_check_scale(const struct request *request,
                                  const struct bf_wish *wish)
{
    const double growth_most = 1e6, most = (double)wish->scale_to;
    const struct object_shape shape = bf_shape(wish);
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_window_options window;
    bg_plan plan = { .rate = 1 };
    if (wish->scale_to <= wish->capacity) {
        return NULL; /* bf_make checks the capacity */
    }
    object_shape_spec(&shape, &window, &ask.spec);
    if (most > growth_most * (double)ask.spec.items) {
        ask.spec.items = (uint64_t)(most / growth_most) + 1;
    }
    ask.spec.max_bytes = request->host->settings->max_filter_bytes;
    ask.growth = most / (double)ask.spec.items;
    return !bg_plan_compute(&ask, &plan, NULL) && plan.rate < 1
               ? NULL
               : "ERR provided VALIDATESCALETO causes bloom object to exceed memory "
                 "limit";
}

static void bf_made_not(struct request *request, bg_err err, const bg_errinfo *info)
{
    if (err == BG_ENOMEM) {
        args_no_memory(request, " to create filter");
    } else {
        args_failed(request, err, info, "ERR could not create filter");
    }
}

const struct args_maker bf_maker = { bf_make, bf_made_not };

static void bf_reserve(struct request *request)
{
    struct bf_wish wish = bf_usual(request->host->settings);
    const char *wrong = args_number(&bf_numbers[BF_ERROR], request->argv[2], &wish);
    if (!wrong) {
        wrong = args_number(&bf_numbers[BF_CAPACITY], request->argv[3], &wish);
    }
    for (size_t i = 4; !wrong && i < request->argc; i++) {
        wrong = bf_read_option(request, &i, false, &wish);
    }
    args_reserve(request, &bf_maker, wrong ? wrong : bf_check(&wish), &wish);
}

/* ---- Adding -------------------------------------------------------------------------------- */

static void bf_insert(struct request *request)
{
    struct bf_wish wish = bf_usual(request->host->settings);
    const char *wrong = NULL;
    size_t i = 2;
    while (!wrong && i < request->argc && !args_is(request->argv[i], "ITEMS")) {
        wrong = bf_read_option(request, &i, true, &wish);
        i++;
    }
    const bool items = i < request->argc; /* whether ITEMS is present */
    wrong = !wrong && items && i + 1 == request->argc ? bf_arity : wrong;
    wrong = wrong ? wrong : bf_check(&wish);
    wrong = wrong || !wish.scale_to ? wrong : bf_check_scale(request, &wish);
    if (wrong == bf_arity) {
        args_arity(request);
    } else if (wrong) {
        reply_error(&request->reply, wrong);
    } else {
        struct object *object = args_find_or_make(request, wish.nocreate, &wish);
        i += items;
        if (object) {
            items_add_to(request, object, request->argv + i, request->argc - i);
        }
    }
}

/* ---- Information --------------------------------------------------------------------------- */

static void bf_card(struct request *request)
{
    bool sent = false;
    struct object *object = args_find_own(request, &sent);
    if (!sent) {
        reply_integer(&request->reply,
                      object ? (int64_t)atomic_load(&object->items) : 0);
    }
}

static const struct {
    const char *word, *title;
} bf_facts[] = {
    { "CAPACITY", "Capacity" },         { "SIZE", "Size" },
    { "FILTERS", "Number of filters" }, { "ITEMS", "Number of items inserted" },
    { "EXPANSION", "Expansion rate" },  { "ERROR", "Error rate" }
};

/* BF.INFO without a field name returns the first five fields, as in RedisBloom. ERROR, which
 * valkey-bloom clients use, must be requested by name. */
enum {
    BF_FACTS = sizeof bf_facts / sizeof *bf_facts,
    BF_FACT_ERROR = BF_FACTS - 1,
    BF_FACT_EXPANSION = BF_FACT_ERROR - 1,
    BF_FACTS_SHOWN = BF_FACT_ERROR
};

/* Returns the requested capacity until the filter grows, although the first layer can hold a few
 * more items. After the filter has grown, returns the capacity of all layers. */
static uint64_t bf_capacity(const struct object *object)
{
    const uint64_t asked = object->shape.items;
    return object->shape.family == OBJECT_BF && asked && object_layers(object) == 1
                   && !atomic_load(&object->reshaped)
               ? asked
               : object_capacity(object);
}

static void bf_fact(struct request *request, const struct object *object, size_t i)
{
    const uint64_t values[BF_FACTS_SHOWN] = { bf_capacity(object), object_bytes(object),
                                              object_layers(object),
                                              atomic_load(&object->items),
                                              object->shape.expansion };
    const bool unknown = i == BF_FACT_ERROR       ? !(object->shape.rate > 0)
                         : i == BF_FACT_EXPANSION ? object->shape.expansion == 0
                                                  : false;
    if (unknown) {
        reply_null(&request->reply);
    } else if (i == BF_FACT_ERROR) {
        reply_real(&request->reply, object->shape.rate);
    } else {
        reply_integer(&request->reply, (int64_t)values[i]);
    }
}

static void bf_info(struct request *request)
{
    const struct object *object = args_find(request, ARGS_BF, ARGS_NOT_FOUND, NULL);
    if (!object) {
        return;
    }
    if (request->argc == 2) {
        reply_map(&request->reply, BF_FACTS_SHOWN);
        for (size_t i = 0; i < BF_FACTS_SHOWN; i++) {
            reply_status(&request->reply, bf_facts[i].title);
            bf_fact(request, object, i);
        }
        return;
    }
    for (size_t i = 0; request->argc == 3 && i < BF_FACTS; i++) {
        if (args_is(request->argv[2], bf_facts[i].word)) {
            if (request->reply.protocol == 3) {
                reply_map(&request->reply, 1);
                reply_status(&request->reply, bf_facts[i].title);
            } else {
                reply_array(&request->reply, 1);
            }
            bf_fact(request, object, i);
            return;
        }
    }
    reply_error(&request->reply, "ERR Invalid information value");
}

/* Replies with debug lines in RedisBloom's format. A single line describes all layers. */
static void bf_debug(struct request *request)
{
    const struct object *object = args_find(request, ARGS_BF, ARGS_NOT_FOUND, NULL);
    if (!object) {
        return;
    }
    char line[200];
    const unsigned long long bytes = object_bytes(object);
    reply_array(&request->reply, 2);
    (void)snprintf(line, sizeof line, "size:%llu",
                   (unsigned long long)atomic_load(&object->items));
    reply_text(&request->reply, line);
    (void)snprintf(
        line, sizeof line,
        "bytes:%llu bits:%llu kind:%s layers:%u capacity:%llu size:%llu ratio:%g",
        bytes, bytes * 8, bg_kind_name((bg_kind)object->shape.kind),
        object_layers(object), (unsigned long long)bf_capacity(object),
        (unsigned long long)atomic_load(&object->items), object->shape.rate);
    reply_text(&request->reply, line);
}

#define BF_WRITE (COMMAND_WRITE | COMMAND_DENYOOM | COMMAND_FAST)
#define BF_ADDS  (BF_WRITE | COMMAND_CLAIMS)
#define BF_READ  (COMMAND_READONLY | COMMAND_FAST)

const struct command bf_commands[] = {
    { "BF.RESERVE", -4, BF_WRITE, CATEGORY_BLOOM, 1, 1, 1, bf_reserve, NULL,
      "key error_rate capacity [EXPANSION expansion] [NONSCALING]",
      "Creates an empty Bloom filter with the given capacity and false-positive rate",
      "O(1)", "0.1.0", BEHAVIOR_ADDS },
    { "BF.ADD", 3, BF_ADDS, CATEGORY_BLOOM, 1, 1, 1, items_add_one, items_add_many,
      "key item",
      "Adds an item to a Bloom filter, creating the filter if it does not exist",
      "O(1)", "0.1.0", BEHAVIOR_ADDS_SHARDED },
    { "BF.MADD", -3, BF_ADDS, CATEGORY_BLOOM, 1, 1, 1, items_add_list, NULL,
      "key item [item ...]",
      "Adds items to a Bloom filter, creating the filter if "
      "it does not exist",
      "O(N) where N is the number of items", "0.1.0", BEHAVIOR_ADDS_SHARDED },
    { "BF.INSERT", -2, BF_ADDS, CATEGORY_BLOOM, 1, 1, 1, bf_insert, NULL,
      "key [CAPACITY capacity] [ERROR error] [EXPANSION expansion] [NOCREATE] [NONSCALING] "
      "[VALIDATESCALETO capacity] [TIGHTENING ratio] [SEED seed_bytes] [ITEMS item [item ...]]",
      "Adds items to a Bloom filter, creating it with the given options if it does "
      "not exist",
      "O(N) where N is the number of items", "0.1.0", BEHAVIOR_ADDS },
    { "BF.EXISTS", 3, BF_READ | COMMAND_ASKS, CATEGORY_BLOOM, 1, 1, 1, items_exist_one,
      items_exist_many, "key item",
      "Checks whether a Bloom filter may contain an item; 0 means definitely not",
      "O(1)", "0.1.0", BEHAVIOR_READS_SHARDED },
    { "BF.MEXISTS", -3, BF_READ | COMMAND_ASKS, CATEGORY_BLOOM, 1, 1, 1,
      items_exist_list, NULL, "key item [item ...]",
      "Checks whether a Bloom filter may contain each item; 0 means definitely not",
      "O(N) where N is the number of items", "0.1.0", BEHAVIOR_READS_SHARDED },
    { "BF.CARD", 2, BF_READ, CATEGORY_BLOOM, 1, 1, 1, bf_card, NULL, "key",
      "Returns the number of distinct items added to a Bloom filter", "O(1)", "0.1.0",
      BEHAVIOR_READS },
    { "BF.INFO", -2, BF_READ, CATEGORY_BLOOM, 1, 1, 1, bf_info, NULL,
      "key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION | ERROR]",
      "Returns information about a Bloom filter", "O(1)", "0.1.0", BEHAVIOR_READS },
    { "BF.DEBUG", 2, BF_READ, CATEGORY_BLOOM, 1, 1, 1, bf_debug, NULL, "key",
      "Returns debugging information about a Bloom filter", "O(1)", "0.1.0",
      BEHAVIOR_READS },
    { "BF.SCANDUMP", 3, COMMAND_READONLY | COMMAND_SLOW | COMMAND_COPIES,
      CATEGORY_BLOOM, 1, 1, 1, dump_bf_scan, NULL, "key iterator",
      "Returns the next chunk of a Bloom filter; start with iterator 0, then pass the "
      "returned iterator",
      "O(N) where N is the size in bytes", "0.1.0", BEHAVIOR_READS },
    { "BF.LOADCHUNK", 4, COMMAND_WRITE | COMMAND_DENYOOM | COMMAND_SLOW, CATEGORY_BLOOM,
      1, 1, 1, dump_bf_load, NULL, "key iterator data",
      "Loads a chunk of a dump (RedisBloom dumps are also accepted); the last chunk "
      "creates the filter",
      "O(N) where N is the size in bytes", "0.1.0", BEHAVIOR_LOADS },
    { "BF.LOAD", 3, COMMAND_WRITE | COMMAND_DENYOOM | COMMAND_SLOW, CATEGORY_BLOOM, 1,
      1, 1, import_bf_load, NULL, "key data",
      "Loads a filter from the append-only file format of valkey-bloom",
      "O(N) where N is the size in bytes", "0.1.0", BEHAVIOR_LOADS },
    { .name = NULL },
};
