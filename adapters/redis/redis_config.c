/*
 * redis_config.c - see redis_config.h.
 *
 * Names. The server prefixes each setting's name with the module name: bloomgate.NAME, or bf.NAME
 * if the loadmodule line contains `name bf` (RedisBloom and valkey-bloom use the name bf).
 * RedisBloom's names (bf-error-rate, ...) also work without a prefix on servers that support
 * unprefixed names (Redis 8). valkey-bloom's names (bloom-capacity, ...) are aliases for the same
 * settings. Names in the loadmodule line have no prefix; RedisBloom's old names (ERROR_RATE,
 * INITIAL_SIZE, CF_MAX_EXPANSIONS) also work there.
 *
 * Aliases: when the module is loaded, the server sets every setting that is missing from its
 * configuration file to the default. This must not overwrite a value that was set under an alias,
 * so defaults that the server sets during loading are ignored.
 *
 * max-filter-memory 0 means half of the machine's memory. Without a limit, one command could
 * request more memory than the machine has. A kernel that overcommits memory grants the request
 * and kills the server later.
 *
 * Thread safety: settings are used only on the server's main thread; other threads of the module
 * use copies.
 */
#include "redis_config.h"

#include "args.h"
#include "letters.h"
#include "redis_memory.h"
#include "redis_secret.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CONFIG_USUAL                                                                   \
    {                                                                                  \
        .bf_error_rate = 0.01, .bf_initial_size = 100, .bf_expansion_factor = 2,       \
        .cf_bucket_size = 2, .cf_initial_size = 1024, .cf_max_iterations = 20,         \
        .cf_expansion_factor = 1, .cf_max_expansions = 32, .hash = BG_HASH_KEYED,      \
        .secrets = &redis_secrets, .allocator = &redis_allocator                       \
    }

struct command_settings redis_settings = CONFIG_USUAL;
struct command_settings redis_settings_obeyed = CONFIG_USUAL;

static bool config_is_replica, config_is_loading, config_is_starting;

bool redis_config_obeys(void)
{
    return config_is_replica || config_is_loading;
}

static uint64_t config_term;

uint64_t redis_config_term(void)
{
    return config_term;
}

static uint64_t config_limit; /* max-filter-memory, as configured */

/* Returns half of the machine's memory, the default size limit for a filter. */
static uint64_t config_half(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes / 2 : 0;
}

/* The limit for capacities and sizes: 2^56 exceeds the memory of any machine. */
enum { CONFIG_BITS = 56 };

static void config_changed(void)
{
    const uint64_t most = UINT64_C(1) << CONFIG_BITS;
    redis_settings.max_filter_bytes = config_limit ? config_limit : config_half();
    if (redis_settings.max_filter_bytes > most) {
        redis_settings.max_filter_bytes = most;
    }
    redis_settings_obeyed = redis_settings;
    redis_settings_obeyed.max_filter_bytes = 0;
}

static bg_bytes config_bytes(const RedisModuleString *string)
{
    bg_bytes bytes = { NULL, 0 };
    bytes.data = redis.StringPtrLen(string, &bytes.len);
    return bytes;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static struct config_number {
    const char *name;
    const char *old; /* RedisBloom's legacy name in loadmodule lines, or NULL */
    long long usual, least, most;
    void *at;
    size_t bytes;
    unsigned flags;
} config_numbers[] = {
#define NUMBER(name, old, usual, least, most, field, flags)                            \
    {                                                                                  \
        name, old, usual, least, most, &(field), sizeof(field), flags                  \
    }
    NUMBER("bf-initial-size", "INITIAL_SIZE", 100, 1, 1LL << CONFIG_BITS,
           redis_settings.bf_initial_size, REDIS_CONFIG_UNPREFIXED),
    NUMBER("bf-expansion-factor", NULL, 2, 0, UINT32_MAX,
           redis_settings.bf_expansion_factor, REDIS_CONFIG_UNPREFIXED),
    NUMBER("cf-bucket-size", NULL, 2, 1, 255, redis_settings.cf_bucket_size,
           REDIS_CONFIG_UNPREFIXED),
    NUMBER("cf-initial-size", NULL, 1024, 2, 1LL << 30, redis_settings.cf_initial_size,
           REDIS_CONFIG_UNPREFIXED),
    NUMBER("cf-max-iterations", NULL, 20, 1, 65535, redis_settings.cf_max_iterations,
           REDIS_CONFIG_UNPREFIXED),
    NUMBER("cf-expansion-factor", NULL, 1, 0, 32768, redis_settings.cf_expansion_factor,
           REDIS_CONFIG_UNPREFIXED),
    NUMBER("cf-max-expansions", "CF_MAX_EXPANSIONS", 32, 1, 65536,
           redis_settings.cf_max_expansions, REDIS_CONFIG_UNPREFIXED),
    NUMBER("max-filter-memory", NULL, 0, 0, LLONG_MAX, config_limit,
           REDIS_CONFIG_MEMORY),
    /* The following names and ranges are those of valkey-bloom. The corresponding names above have
     * the same ranges, because CONFIG REWRITE writes each value under both names. */
    NUMBER("bloom-capacity", NULL, 100, 1, 1LL << CONFIG_BITS,
           redis_settings.bf_initial_size, 0),
    NUMBER("bloom-expansion", NULL, 2, 0, UINT32_MAX,
           redis_settings.bf_expansion_factor, 0),
    NUMBER("bloom-memory-usage-limit", NULL, 0, 0, LLONG_MAX, config_limit,
           REDIS_CONFIG_MEMORY),
#undef NUMBER
};

enum { CONFIG_NUMBERS = sizeof config_numbers / sizeof *config_numbers };

static long long config_get_number(const char *name, void *context)
{
    const struct config_number *number = context;
    const void *at = number->at;
    uint32_t small = 0;
    uint64_t large = 0;
    (void)name;
    if (number->bytes == sizeof small) {
        memcpy(&small, at, sizeof small);
        return small;
    }
    memcpy(&large, at, sizeof large);
    return (long long)large;
}

static int config_set_number(const char *name, long long value, void *context,
                             RedisModuleString **error)
{
    const struct config_number *number = context;
    void *at = number->at;
    const uint32_t small = (uint32_t)value;
    const uint64_t large = (uint64_t)value;
    (void)name;
    (void)error;
    if (config_is_starting && value == number->usual) {
        return REDIS_OK;
    }
    if (number->bytes == sizeof small) {
        memcpy(at, &small, sizeof small);
    } else {
        memcpy(at, &large, sizeof large);
    }
    config_changed();
    return REDIS_OK;
}

/* ---- Strings --------------------------------------------------------------------------------- */

/* Each function below sets a value from a string. It returns an error message, or NULL. */

static const char *config_set_rate(bg_bytes text)
{
    double rate = 0;
    if (!args_share(text, &rate) || !(rate > 0) || rate >= 1) {
        return "bf-error-rate: expected a rate above 0 and below 1";
    }
    redis_settings.bf_error_rate = rate > 0.25 ? 0.25 : rate;
    return NULL;
}

static const char *config_set_hash(bg_bytes text)
{
    for (uint32_t i = BG_HASH_FAST; i <= BG_HASH_FAST_INT; i++) {
        const char *name = bg_hash_name((bg_hash_profile)i);
        if (i != BG_HASH_CUSTOM && strlen(name) == text.len
            && memcmp(name, text.data, text.len) == 0) {
            redis_settings.hash = i;
            return NULL;
        }
    }
    return "hash: expected fast, fast-int, keyed, keyed24, keyed-int or xxh64";
}

/* Secrets are never shown: CONFIG GET returns the secret's ID, which does not reveal the secret,
 * and CONFIG REWRITE therefore writes only the ID. The setting also accepts an ID if the secret
 * with that ID is known, or if the ID is in the server's configuration file. */
#define CONFIG_ID "id:"

static void config_show_secret(char *value, size_t room)
{
    uint8_t id[BG_KEY_ID_BYTES] = { 0 };
    value[0] = 0;
    if (redis_secret_chosen(id)) {
        (void)snprintf(value, room, CONFIG_ID "%.*s", BG_KEY_ID_BYTES,
                       (const char *)id);
    }
}

static const char *config_set_secret(bg_bytes text)
{
    static const char expected[] =
        "secret: expected 32 hexadecimal digits, an empty value for a random secret, "
        "or the ID of an existing filter's secret (id:...)";
    uint8_t secret[BG_SECRET_BYTES];
    const char *digits = text.data;
    const size_t id = strlen(CONFIG_ID);
    if (text.len == 0) {
        redis_secret_set(NULL);
        return NULL;
    }
    if (text.len == id + BG_KEY_ID_BYTES && memcmp(digits, CONFIG_ID, id) == 0) {
        return redis_secret_choose((const uint8_t *)digits + id, config_is_starting)
                   ? NULL
                   : expected;
    }
    if (text.len != 2 * (size_t)BG_SECRET_BYTES) {
        return expected;
    }
    for (size_t i = 0; i < BG_SECRET_BYTES; i++) {
        const int high = hex_digit(digits[2 * i]), low = hex_digit(digits[2 * i + 1]);
        if (high < 0 || low < 0) {
            return expected;
        }
        secret[i] = (uint8_t)(high * 16 + low);
    }
    redis_secret_set(secret);
    explicit_bzero(secret, sizeof secret);
    return NULL;
}

/* Settings that have no effect are still validated. */

static const char *config_check_ratio(bg_bytes text)
{
    double ratio = 0;
    return args_real(text, &ratio) && ratio > 0 && ratio < 1
               ? NULL
               : "expected a ratio above 0 and below 1";
}

static const char *config_check_switch(bg_bytes text)
{
    return args_is(text, "YES") || args_is(text, "NO") ? NULL : "expected yes or no";
}

static const char *config_set_moves(bg_bytes text)
{
    const char *wrong = config_check_switch(text);
    if (!wrong) {
        redis_memory_let_move(args_is(text, "YES"));
    }
    return wrong;
}

enum { CONFIG_TEXT = 64 };

static struct config_text {
    const char *name;
    const char *old;
    const char *usual;
    unsigned flags;
    const char *(*set)(bg_bytes text);
    struct config_text *same;  /* the alias of this setting, or NULL */
    char value[CONFIG_TEXT];   /* the last value that was set; for the secret, its ID */
    RedisModuleString *answer; /* the value most recently returned to the server */
} config_texts[] = {
    { "bf-error-rate", "ERROR_RATE", "0.01", REDIS_CONFIG_UNPREFIXED, config_set_rate,
      NULL, "0.01", NULL },
    { "bloom-fp-rate", NULL, "0.01", 0, config_set_rate, &config_texts[0], "0.01",
      NULL },
    { "hash", NULL, "keyed", 0, config_set_hash, NULL, "keyed", NULL },
    { "secret", NULL, "", REDIS_CONFIG_SENSITIVE, config_set_secret, NULL, "", NULL },
    { "bloom-defrag-enabled", NULL, "yes", 0, config_set_moves, NULL, "yes", NULL },
    /* These valkey-bloom settings are validated but have no effect. They are not needed: layers
     * always have the requested rate and can be merged, and `hash` and `secret` select the hash. */
    { "bloom-tightening-ratio", NULL, "0.5", 0, config_check_ratio, NULL, "0.5", NULL },
    { "bloom-use-random-seed", NULL, "yes", 0, config_check_switch, NULL, "yes", NULL },
};

enum { CONFIG_TEXTS = sizeof config_texts / sizeof *config_texts };

static RedisModuleString *config_get_text(const char *name, void *context)
{
    struct config_text *row = context;
    const char *value = row->same ? row->same->value : row->value;
    (void)name;
    if (row->set == config_set_secret) {
        config_show_secret(row->value, sizeof row->value);
    }
    if (row->answer) {
        redis.FreeString(NULL, row->answer);
    }
    row->answer = redis.CreateString(NULL, value, strlen(value));
    return row->answer;
}

static const char *config_take_text(struct config_text *row, bg_bytes text)
{
    if (text.len >= CONFIG_TEXT) {
        return "expected at most 63 bytes";
    }
    if (memchr(text.data, 0, text.len)) {
        return "expected text without NUL bytes";
    }
    const char *wrong = row->set(text);
    if (!wrong && row->set != config_set_secret) {
        char *value = row->same ? row->same->value : row->value;
        memcpy(value, text.data, text.len);
        value[text.len] = 0;
        config_changed();
    }
    return wrong;
}

static int config_set_text(const char *name, RedisModuleString *given, void *context,
                           RedisModuleString **error)
{
    struct config_text *row = context;
    const bg_bytes text = config_bytes(given);
    (void)name;
    if (config_is_starting && strlen(row->usual) == text.len
        && memcmp(row->usual, text.data, text.len) == 0) {
        return REDIS_OK;
    }
    const char *wrong = config_take_text(row, text);
    if (wrong) {
        *error = redis.CreateString(NULL, wrong, strlen(wrong));
        return REDIS_ERR;
    }
    return REDIS_OK;
}

/* ---- Registration ---------------------------------------------------------------------------- */

static int config_register_number(RedisModuleCtx *ctx, struct config_number *row,
                                  unsigned flags)
{
    return redis.RegisterNumericConfig(ctx, row->name, row->usual, flags, row->least,
                                       row->most, config_get_number, config_set_number,
                                       NULL, row);
}

static int config_register_text(RedisModuleCtx *ctx, struct config_text *row,
                                unsigned flags)
{
    return redis.RegisterStringConfig(ctx, row->name, row->usual, flags,
                                      config_get_text, config_set_text, NULL, row);
}

/* Registers each name with the prefix and, if the server supports it, also without the prefix. */
static bool config_register_all(RedisModuleCtx *ctx)
{
    const unsigned plain = REDIS_CONFIG_UNPREFIXED;
    const unsigned both = redis_api_is_redis8(ctx) ? plain : 0;
    int failed = REDIS_OK;
    for (size_t i = 0; !failed && i < CONFIG_TEXTS; i++) {
        struct config_text *row = &config_texts[i];
        failed = config_register_text(ctx, row, row->flags & ~plain);
        if (!failed && row->flags & both) {
            failed = config_register_text(ctx, row, row->flags);
        }
    }
    for (size_t i = 0; !failed && i < CONFIG_NUMBERS; i++) {
        struct config_number *row = &config_numbers[i];
        failed = config_register_number(ctx, row, row->flags & ~plain);
        if (!failed && row->flags & both) {
            failed = config_register_number(ctx, row, row->flags);
        }
    }
    return failed == REDIS_OK;
}

/* ---- The loadmodule line --------------------------------------------------------------------- */

static bool config_named(bg_bytes word, const char *name, const char *old)
{
    char upper[CONFIG_TEXT];
    letters_upper(upper, sizeof upper, name, strlen(name));
    return args_is(word, upper) || (old && args_is(word, old));
}

static const char *const config_names[] = { "bloomgate", "bf" };

/* Returns the supported module name that matches `text`, or NULL. */
static const char *config_name_of(bg_bytes text)
{
    for (size_t i = 0; i < sizeof config_names / sizeof *config_names; i++) {
        if (config_named(text, config_names[i], NULL)) {
            return config_names[i];
        }
    }
    return NULL;
}

const char *redis_config_name(RedisModuleString **argv, int argc)
{
    const char *name = config_names[0];
    for (int i = 0; i + 1 < argc; i += 2) {
        const char *given = config_name_of(config_bytes(argv[i + 1]));
        if (args_is(config_bytes(argv[i]), "NAME") && given) {
            name = given;
        }
    }
    return name;
}

static const char *config_argument(bg_bytes word, bg_bytes value)
{
    uint64_t number = 0;
    if (args_is(word, "NAME")) { /* already applied by redis_config_name */
        return config_name_of(value) ? NULL : "expected bloomgate or bf";
    }
    for (size_t i = 0; i < CONFIG_TEXTS; i++) {
        if (config_named(word, config_texts[i].name, config_texts[i].old)) {
            return config_take_text(&config_texts[i], value);
        }
    }
    for (size_t i = 0; i < CONFIG_NUMBERS; i++) {
        struct config_number *row = &config_numbers[i];
        if (!config_named(word, row->name, row->old)) {
            continue;
        }
        if (!args_amount(value, &number) || number < (uint64_t)row->least
            || number > (uint64_t)row->most) {
            static char range[80];
            (void)snprintf(range, sizeof range,
                           "expected a whole number from %lld to %lld", row->least,
                           row->most);
            return range;
        }
        (void)config_set_number(row->name, (long long)number, row, NULL);
        return NULL;
    }
    return "unknown setting";
}

static bool config_arguments(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    for (int i = 0; i < argc; i += 2) {
        const bg_bytes word = config_bytes(argv[i]);
        const char *wrong = i + 1 < argc
                                ? config_argument(word, config_bytes(argv[i + 1]))
                                : "the value is missing";
        char shown[64];
        if (wrong) {
            redis.Log(ctx, "warning", "argument '%s': %s", args_show(word, shown),
                      wrong);
            return false;
        }
    }
    return true;
}

/* ---- The server's role ----------------------------------------------------------------------- */

static void config_role(RedisModuleCtx *ctx, struct redis_event event, uint64_t what,
                        void *data)
{
    (void)ctx;
    (void)event;
    (void)data;
    config_is_replica = what == REDIS_ROLE_NOW_REPLICA;
    config_term++;
}

static void config_loading(RedisModuleCtx *ctx, struct redis_event event, uint64_t what,
                           void *data)
{
    (void)ctx;
    (void)event;
    (void)data;
    config_is_loading = what != REDIS_LOADING_ENDED && what != REDIS_LOADING_FAILED;
}

static bool config_watch(RedisModuleCtx *ctx)
{
    const struct redis_event role = { REDIS_EVENT_ROLE, 1 };
    const struct redis_event loading = { REDIS_EVENT_LOADING, 1 };
    const int flags = redis.GetContextFlags(ctx);
    config_is_replica = flags & REDIS_CTX_REPLICA;
    config_is_loading = flags & REDIS_CTX_LOADING;
    return redis.SubscribeToServerEvent(ctx, role, config_role) == REDIS_OK
           && redis.SubscribeToServerEvent(ctx, loading, config_loading) == REDIS_OK;
}

bool redis_config_register(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
    if (!config_watch(ctx) || !config_register_all(ctx)) {
        redis.Log(ctx, "warning", "cannot register the configuration");
        return false;
    }
    config_is_starting = true;
    const bool loaded = redis.LoadConfigs(ctx) == REDIS_OK;
    config_is_starting = false;
    config_changed();
    return loaded && config_arguments(ctx, argv, argc);
}
