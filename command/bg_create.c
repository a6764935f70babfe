/*
 * bg_create.c - BG.CREATE: creates a filter of any kind. All options have defaults.
 *
 * If none of CAPACITY, BITS and BYTES is specified, the filter is scalable, and its initial
 * capacity is bf-initial-size. If neither a rate nor a size is specified, the rate is
 * bf-error-rate. Unless OVERFILL is set, a Bloom-type filter created with CAPACITY rejects new
 * items once it has reached that capacity, so that its rate is not exceeded.
 */
#include "bg_handlers.h"
#include "letters.h"

#include <stdio.h>
#include <string.h>

/* ---- Option names ---------------------------------------------------------------------------- */

/* Option names for fields of bg_spec and bg_plan_request. */
static const struct plan_word bgc_words[] = {
    { "items", "CAPACITY" },
    { "rate", "ERROR" },
    { "bits_per_key", "BITS" },
    { "bytes", "BYTES" },
    { "rate, bits_per_key, bytes", "ERROR, BITS, BYTES" },
    { "bits_per_key, bytes", "BITS, BYTES" },
    { "k", "K" },
    { "folds", "FOLDS" },
    { "width", "WIDTH" },
    { "folds, width", "FOLDS, WIDTH" },
    { "shards", "SHARDS" },
    { "kind", "KIND" },
    { "generations", "GENERATIONS" },
    { "growth", "GROWTH" },
    { "queries_per_second", "QPS" },
    { "absent_share", "ABSENT" },
    { "call_cost", "CALLCOST" },
    { "memory_cost", "MEMORYCOST" },
    { "call_seconds", "CALLTIME" },
    { "latency_objective", "LATENCY" },
    { NULL, NULL },
};

const char *bgc_explain(const bg_errinfo *info, char text[PLAN_TEXT])
{
    char expected[2 * sizeof info->expected];
    if (!info->what[0] || !info->expected[0]) {
        return info->message;
    }
    plan_translate(bgc_words, info->expected, expected, sizeof expected);
    (void)snprintf(text, PLAN_TEXT, "%s: found %s, expected %s",
                   plan_word(bgc_words, info->what), info->found, expected);
    return text;
}

void bgc_reply_spec_error(struct request *request, bg_err err, const bg_errinfo *info)
{
    if (err == BG_ENOMEM || err == BG_EQUOTA || err == BG_EIO || !info->what[0]
        || !info->expected[0]) {
        args_failed(request, err, info, "ERR cannot create the filter");
    } else {
        char text[PLAN_TEXT];
        reply_errorf(&request->reply, "ERR %s", bgc_explain(info, text));
    }
}

/* ---- Options --------------------------------------------------------------------------------- */

struct bgc_wish {
    struct object_shape shape;
    bool overfill, hashed, seeded, manual;
};

static bool bgc_read_u32(bg_bytes argument, uint32_t *value)
{
    uint64_t number = 0;
    const bool good = args_amount(argument, &number) && number <= UINT32_MAX;
    *value = good ? (uint32_t)number : *value;
    return good;
}

static bool bgc_copy_word(bg_bytes argument, char word[32])
{
    if (argument.len == 0 || argument.len > 31) {
        return false;
    }
    letters_lower(word, 32, argument.data, argument.len);
    return strlen(word) == argument.len;
}

bool bgc_read_kind(bg_bytes argument, uint32_t *kind)
{
    char word[32];
    bg_kind found = BG_KIND_AUTO;
    const bool known = bgc_copy_word(argument, word) && bg_kind_parse(word, &found);
    *kind = found;
    return known;
}

static bool bgc_read_hash(bg_bytes argument, uint32_t *hash)
{
    char word[32];
    if (!bgc_copy_word(argument, word)) {
        return false;
    }
    bg_hash_profile profile;
    if (!bg_hash_parse(word, &profile) || profile == BG_HASH_CUSTOM) {
        return false;
    }
    *hash = profile;
    return true;
}

enum bgc_option_type {
    OPTION_U32,
    OPTION_U64,
    OPTION_TIME,
    OPTION_REAL,
    OPTION_RATE,
    OPTION_KIND,
    OPTION_HASH
};

static const struct bgc_option {
    const char *word;
    enum bgc_option_type type;
    size_t at;
    const char *expected;
} bgc_options[] = {
#define OPTION(word, type, field, expected)                                            \
    {                                                                                  \
        word, type, offsetof(struct bgc_wish, shape.field), expected                   \
    }
    OPTION("KIND", OPTION_KIND, kind, "auto or the name of a kind, such as blocked"),
    OPTION("CAPACITY", OPTION_U64, items,
           "a number of items from 1 to 2^56, such as 1000000 or 1M"),
    OPTION("ERROR", OPTION_RATE, rate,
           "a rate above 0 and below 1, such as 0.01 or 1%"),
    OPTION("BITS", OPTION_REAL, bits_per_key, "a number of bits per item above 0"),
    OPTION("BYTES", OPTION_U64, bytes, "a number of bytes, such as 65536 or 64Mi"),
    OPTION("K", OPTION_U32, k, "a whole number of at least 1"),
    OPTION("FOLDS", OPTION_U32, folds,
           "the number of times that the filter can be halved, 1 to 20"),
    OPTION("WIDTH", OPTION_U32, width, "a whole number of at least 1"),
    OPTION("SHARDS", OPTION_U32, shards, "a number of shards from 1 to 65536"),
    OPTION("HASH", OPTION_HASH, hash,
           "fast, fast-int, keyed, keyed24, keyed-int or xxh64"),
    OPTION("SEED", OPTION_U64, seed, "a whole number from 0 to 2^64 - 1"),
    OPTION("WINDOW", OPTION_TIME, window_length,
           "a number of milliseconds above 0, or a duration such as 24h"),
    OPTION("COUNT", OPTION_U64, window_count, "a number of items, at least 1"),
    OPTION("GENERATIONS", OPTION_U32, window_generations,
           "a number of generations from 2 to 64"),
#undef OPTION
};

static bool bgc_read_value(const struct bgc_option *option, bg_bytes argument,
                           struct bgc_wish *wish)
{
    void *to = (char *)wish + option->at;
    switch (option->type) {
    case OPTION_U32: return bgc_read_u32(argument, to) && *(uint32_t *)to > 0;
    case OPTION_U64:
        return args_amount(argument, to)
               && (*(uint64_t *)to > 0 || strcmp(option->word, "SEED") == 0);
    case OPTION_TIME: return args_milliseconds(argument, to) && *(uint64_t *)to > 0;
    case OPTION_REAL: return args_scaled(argument, to) && *(double *)to > 0;
    case OPTION_RATE: return args_share(argument, to) && *(double *)to > 0;
    case OPTION_KIND: return bgc_read_kind(argument, to);
    case OPTION_HASH: return bgc_read_hash(argument, to);
    }
    return false;
}

/* Parses an option without a value. */
static bool bgc_read_flag(bg_bytes word, struct bgc_wish *wish)
{
    if (args_is(word, "OVERFILL")) {
        wish->overfill = true;
    } else if (args_is(word, "MANUAL")) {
        wish->manual = true;
    } else if (args_is(word, "AGED")) {
        wish->shape.window_mode = BG_WINDOW_AGED;
    } else if (args_is(word, "SCATTERED")) {
        wish->shape.flags |= BG_SPEC_SCATTERED;
    } else if (args_is(word, "ONEWINNER")) {
        wish->shape.flags |= BG_SPEC_ONE_WINNER;
    } else {
        return false;
    }
    return true;
}

/* Parses the option at argv[*i]. Returns false after sending an error. */
static bool bgc_read_option(struct request *request, size_t *i, struct bgc_wish *wish)
{
    const bg_bytes word = request->argv[*i];
    char text[64];
    if (bgc_read_flag(word, wish)) {
        return true;
    }
    for (size_t o = 0; o < sizeof bgc_options / sizeof *bgc_options; o++) {
        const struct bgc_option *option = &bgc_options[o];
        if (!args_is(word, option->word)) {
            continue;
        }
        const bool there = ++*i < request->argc;
        if (there && bgc_read_value(option, request->argv[*i], wish)) {
            wish->hashed = wish->hashed || option->type == OPTION_HASH;
            wish->seeded = wish->seeded || strcmp(option->word, "SEED") == 0;
            return true;
        }
        reply_errorf(&request->reply, "ERR %s: found %s, expected %s", option->word,
                     there ? args_show(request->argv[*i], text) : "nothing",
                     option->expected);
        return false;
    }
    reply_errorf(&request->reply, "ERR Unknown argument received: '%s'",
                 args_show(word, text));
    return false;
}

/* ---- Defaults -------------------------------------------------------------------------------- */

static const char *bgc_check_window(struct bgc_wish *wish)
{
    struct object_shape *shape = &wish->shape;
    const bool said = shape->window_length || shape->window_count || wish->manual
                      || shape->window_generations || shape->window_mode;
    if (said && shape->kind == BG_KIND_AUTO) {
        shape->kind = BG_KIND_WINDOW;
    }
    if (said && shape->kind != BG_KIND_WINDOW) {
        return "ERR WINDOW, COUNT, MANUAL, GENERATIONS and AGED require KIND window";
    }
    if ((shape->window_length != 0) + (shape->window_count != 0) + wish->manual > 1) {
        return "ERR a window advances by time (WINDOW), by items (COUNT) or manually "
               "(MANUAL): specify only one of them";
    }
    if (shape->window_generations == 1 || shape->window_generations > 64) {
        return "ERR GENERATIONS must be in the range [2, 64]";
    }
    return NULL;
}

static const char *bgc_complete(struct bgc_wish *wish,
                                const struct command_settings *settings)
{
    struct object_shape *shape = &wish->shape;
    const char *wrong = bgc_check_window(wish);
    if (wrong) {
        return wrong;
    }
    const uint32_t traits = bg_kind_traits((bg_kind)shape->kind);
    if (traits & BG_TRAIT_STATIC) {
        return "ERR a static filter must be built from all keys at once: build a "
               "filter file, then load it with BG.RELOAD";
    }
    const bool sized = shape->bits_per_key > 0 || shape->bytes;
    if (!shape->items && !sized && shape->kind == BG_KIND_AUTO && !shape->flags) {
        shape->kind = BG_KIND_SCALABLE;
    }
    if (!shape->items && !shape->bytes) {
        if (shape->kind != BG_KIND_SCALABLE) {
            return "ERR CAPACITY is missing: specify the number of items";
        }
        shape->items = settings->bf_initial_size;
    }
    if (!sized && !(shape->rate > 0)) {
        shape->rate = settings->bf_error_rate;
    }
    if (shape->kind == BG_KIND_SCALABLE && !shape->width) {
        shape->width = 2;
    }
    shape->nonscaling = shape->items && !wish->overfill
                        && shape->kind != BG_KIND_SCALABLE
                        && shape->kind != BG_KIND_WINDOW
                        && !(traits & (BG_TRAIT_REMOVE | BG_TRAIT_FILLS_UP));
    return NULL;
}

static bg_err bgc_make(struct request *request, const void *options,
                       struct object **object, bg_errinfo *info)
{
    const struct command_settings *settings = request->host->settings;
    struct object_shape shape = ((const struct bgc_wish *)options)->shape;
    const bg_err err = object_shape_hash(&shape, shape.hash, settings, info);
    return err ? err : object_create(&shape, settings, object, info);
}

void bgc_create(struct request *request)
{
    static const struct args_maker maker = { bgc_make, bgc_reply_spec_error };
    const struct command_settings *settings = request->host->settings;
    struct bgc_wish wish = { .shape = { .family = OBJECT_BG } };
    for (size_t i = 2; i < request->argc; i++) {
        if (!bgc_read_option(request, &i, &wish)) {
            return;
        }
    }
    const char *wrong = bgc_complete(&wish, settings);
    wish.shape.hash = wish.hashed ? wish.shape.hash : settings->hash;
    if (!wrong && wish.seeded && wish.shape.hash != BG_HASH_FAST
        && wish.shape.hash != BG_HASH_FAST_INT && wish.shape.hash != BG_HASH_XXH64) {
        wrong =
            "ERR SEED cannot be used with a keyed hash, which has a secret: use HASH "
            "fast, HASH fast-int or HASH xxh64";
    }
    args_reserve(request, &maker, wrong, &wish);
}
