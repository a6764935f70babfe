/*
 * gate_settings.c - the table of a gate's settings; see gate_settings.h.
 */
#include "config/gate_settings.h"

#include "number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum setting_type {
    SETTING_TEXT,
    SETTING_COUNT,   /* uint32_t */
    SETTING_ITEMS,   /* uint64_t */
    SETTING_SHARE,   /* a double from 0 to 1 */
    SETTING_REAL,    /* a double */
    SETTING_SECONDS, /* a double */
    SETTING_BOOL,
    SETTING_WORD /* a uint32_t whose values have names */
};

struct setting_word {
    const char *word;
    uint32_t value;
};

static const struct setting_word setting_kinds[] = { { "auto", BG_KIND_AUTO },
#define SETTING_KIND(NAME, number, name) { #name, BG_KIND_##NAME },
                                                     BG_BLOOM_KINDS(SETTING_KIND)
#undef SETTING_KIND
                                                         { "scalable",
                                                           BG_KIND_SCALABLE },
                                                     { NULL, 0 } };

static const struct setting_word setting_keys[] = { { "auto", SOURCE_KEY_AUTO },
                                                    { "text", SOURCE_KEY_TEXT },
                                                    { "blob", SOURCE_KEY_BLOB },
                                                    { "integer", SOURCE_KEY_INTEGER },
                                                    { NULL, 0 } };

static const struct setting_word setting_fails[] = { { "open", GATE_FAIL_OPEN },
                                                     { "closed", GATE_FAIL_CLOSED },
                                                     { NULL, 0 } };

struct setting {
    const char *name;
    enum setting_type type;
    size_t offset;
    double least, most;
    const struct setting_word *words;
    const char *fallback; /* NULL: required */
    const char *summary;
};

#define AT(field) offsetof(struct gate_settings, field)

static const struct setting settings_table[] = {
    { "source", SETTING_TEXT, AT(source), 0, 0, NULL, NULL,
      "the database: sqlite:PATH or postgres://..." },
    { "keys", SETTING_TEXT, AT(keys), 0, 0, NULL, NULL,
      "columns that hold the keys: table(column), separated by commas" },
    { "lookup", SETTING_TEXT, AT(lookup), 0, 0, NULL, "",
      "SELECT that returns a row if the key exists; ? or $1 is the key (default: derived "
      "from `keys`)" },
    { "rows", SETTING_BOOL, AT(rows), 0, 0, NULL, "no",
      "let BG.ROW return the row that `lookup` selects (default `lookup`: all columns)" },
    { "follow", SETTING_TEXT, AT(follow), 0, 0, NULL, NULL,
      "how changes are detected: logical, changes or none" },
    { "promise", SETTING_TEXT, AT(promise), 0, 0, NULL, "",
      "why the filter stays complete with follow=none: read-only or writers-report" },
    { "install", SETTING_BOOL, AT(install), 0, 0, NULL, "yes",
      "create the objects in the database that the follower needs" },
    { "key", SETTING_WORD, AT(key), 0, 0, setting_keys, "auto",
      "SQLite only: type of the `lookup` parameter" },
    { "poll", SETTING_SECONDS, AT(poll), 0.001, 3600, NULL, "500ms",
      "interval at which the follower verifies that it has missed no changes" },
    { "timeout", SETTING_SECONDS, AT(timeout), 0.001, 3600, NULL, "1s",
      "timeout for a database lookup" },
    { "connections", SETTING_COUNT, AT(connections), 1, 64, NULL, "8",
      "maximum number of connections for lookups" },
    { "max-lag", SETTING_SECONDS, AT(max_lag), 0.002, 1e6, NULL, "10s",
      "query the database for every key if the last verification is older than this (at "
      "least twice `poll`)" },
    { "save", SETTING_SECONDS, AT(save), 0.1, 86400, NULL, "5m",
      "interval at which the filter is saved; it is also saved at shutdown" },
    { "rate", SETTING_SHARE, AT(rate), 1e-9, 0.5, NULL, "1%",
      "false-positive rate of the filter" },
    { "kind", SETTING_WORD, AT(kind), 0, 0, setting_kinds, "auto", "kind of filter" },
    { "headroom", SETTING_REAL, AT(headroom), 1, 1000, NULL, "2",
      "capacity of a new filter, as a multiple of the number of keys" },
    { "capacity", SETTING_ITEMS, AT(capacity), 1, 0x1p56, NULL, "10000",
      "minimum capacity of a new filter, in keys" },
    { "audit", SETTING_SHARE, AT(audit), 0, 1, NULL, "0.1%",
      "share of the filter's \"no\" answers that are verified against the database" },
    { "negative-ttl", SETTING_SECONDS, AT(negative_ttl), 0, 86400, NULL, "0",
      "how long the absence of a key is cached (0: not cached)" },
    { "negative-entries", SETTING_COUNT, AT(negative_entries), 1, 1e8, NULL, "10k",
      "maximum number of keys whose absence is cached" },
    { "breaker-failures", SETTING_COUNT, AT(breaker_failures), 0, 1e6, NULL, "5",
      "number of consecutive failures after which lookups stop querying the database "
      "for a while (0: always query)" },
    { "breaker-rest", SETTING_SECONDS, AT(breaker_rest), 0.001, 3600, NULL, "1s",
      "how long to stop querying the database after these failures" },
    { "fail", SETTING_WORD, AT(fail), 0, 0, setting_fails, "open",
      "result of a lookup when the database fails: \"unknown\" (open) or an error "
      "(closed)" },
    { "single-flight", SETTING_BOOL, AT(single_flight), 0, 0, NULL, "yes",
      "let concurrent lookups of the same key share one database query" },
    { "maintain", SETTING_SECONDS, AT(maintain), 0.01, 86400, NULL, "60s",
      "interval at which the service checks whether a rebuild is needed" },
    { "rebuild-fill", SETTING_REAL, AT(rebuild_fill), 0, 1000, NULL, "0.9",
      "rebuild when the number of keys reaches this multiple of the capacity (0: "
      "never)" },
    { "rebuild-predicted", SETTING_REAL, AT(rebuild_predicted), 0, 1000, NULL, "1.25",
      "rebuild when the predicted false-positive rate exceeds the target by this "
      "factor (0: never)" },
    { "rebuild-observed", SETTING_REAL, AT(rebuild_observed), 0, 1000, NULL, "1.5",
      "rebuild (at most hourly) when the observed false-positive rate exceeds the target "
      "by this factor (0: never)" },
    { "rebuild", SETTING_SECONDS, AT(rebuild), 0, 1e9, NULL, "0",
      "rebuild the filter when it reaches this age (0: never)" },
};

enum { SETTINGS = sizeof settings_table / sizeof *settings_table };

static const struct setting *setting_find(const char *name)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        if (strcmp(settings_table[i].name, name) == 0) {
            return &settings_table[i];
        }
    }
    return NULL;
}

static void *setting_place(const struct gate_settings *settings,
                           const struct setting *s)
{
    return (char *)(uintptr_t)settings + s->offset;
}

/* ---- Values ---------------------------------------------------------------------------- */

static bool setting_read_text(char **place, const char *value)
{
    char *copy = strdup(value);
    if (copy) {
        free(*place);
        *place = copy;
    }
    return copy != NULL;
}

static bool setting_read_word(const struct setting *s, const char *value, uint32_t *to)
{
    for (const struct setting_word *w = s->words; w->word; w++) {
        if (strcmp(w->word, value) == 0) {
            *to = w->value;
            return true;
        }
    }
    return false;
}

static bool setting_read_bool(const char *value, bool *to)
{
    static const char *const words[] = { "no",  "yes", "false", "true",
                                         "off", "on",  "0",     "1" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(value, words[i]) == 0) {
            *to = i % 2 != 0;
            return true;
        }
    }
    return false;
}

/* Parses a fraction from 0 to 1, inclusive. */
static bool setting_read_share(const char *value, double *to)
{
    const bool none = strcmp(value, "0") == 0 || strcmp(value, "0%") == 0;
    const bool all = strcmp(value, "1") == 0 || strcmp(value, "100%") == 0;
    if (none || all) {
        *to = all ? 1 : 0;
        return true;
    }
    return number_rate(value, to);
}

/* Parses a number of any type. Returns false if the number is invalid or out of range. */
static bool setting_read_number(const struct setting *s, const char *value, void *place)
{
    uint64_t count = 0;
    double real = 0;
    bool good = false;
    switch (s->type) {
    case SETTING_COUNT:
    case SETTING_ITEMS:
        good = number_count(value, &count);
        real = (double)count;
        break;
    case SETTING_SHARE: good = setting_read_share(value, &real); break;
    case SETTING_SECONDS: good = number_seconds(value, &real); break;
    default: good = number_real(value, &real); break;
    }
    if (!good || real < s->least || real > s->most) {
        return false;
    }
    if (s->type == SETTING_COUNT) {
        *(uint32_t *)place = (uint32_t)count;
    } else if (s->type == SETTING_ITEMS) {
        *(uint64_t *)place = count;
    } else {
        *(double *)place = real;
    }
    return true;
}

static void setting_expect(const struct setting *s, char *text, size_t room)
{
    size_t n = 0;
    switch (s->type) {
    case SETTING_TEXT: (void)snprintf(text, room, "text"); break;
    case SETTING_BOOL: (void)snprintf(text, room, "yes or no"); break;
    case SETTING_WORD:
        text[0] = 0;
        for (const struct setting_word *w = s->words; w->word && n < room; w++) {
            n += (size_t)snprintf(text + n, room - n, "%s%s", n ? ", " : "", w->word);
        }
        break;
    case SETTING_SECONDS:
        (void)snprintf(text, room, "a time such as 250ms, from %gs to %gs", s->least,
                       s->most);
        break;
    default:
        (void)snprintf(text, room, "a number from %g to %g", s->least, s->most);
        break;
    }
}

bg_err gate_settings_set(struct gate_settings *settings, const char *key,
                         const char *value, bg_errinfo *info)
{
    const struct setting *s = setting_find(key);
    char expected[96];
    bool good = false;
    if (!s) {
        return source_error(info, BG_ENOTFOUND, "gate",
                            "a setting such as source, keys, follow or rate", "%s",
                            key);
    }
    void *place = setting_place(settings, s);
    switch (s->type) {
    case SETTING_TEXT: good = setting_read_text(place, value); break;
    case SETTING_BOOL: good = setting_read_bool(value, place); break;
    case SETTING_WORD: good = setting_read_word(s, value, place); break;
    default: good = setting_read_number(s, value, place); break;
    }
    setting_expect(s, expected, sizeof expected);
    return good ? BG_OK : source_error(info, BG_EINVAL, s->name, expected, "%s", value);
}

/* ---- Life cycle ------------------------------------------------------------------------ */

static bool gate_settings_is_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-_.";
    const size_t n = strlen(name);
    return n >= 1 && n <= 40 && strspn(name, allowed) == n;
}

bg_err gate_settings_init(struct gate_settings *settings, const char *name,
                          bg_errinfo *info)
{
    memset(settings, 0, sizeof *settings);
    if (!gate_settings_is_name(name)) {
        return source_error(info, BG_EINVAL, "name of a gate",
                            "1 to 40 letters, digits, '-', '_' and '.'", "%s", name);
    }
    settings->name = strdup(name);
    bg_err err = settings->name
                     ? BG_OK
                     : source_error(info, BG_ENOMEM, "memory", NULL, "out of memory");
    for (size_t i = 0; !err && i < SETTINGS; i++) {
        const struct setting *s = &settings_table[i];
        err =
            gate_settings_set(settings, s->name, s->fallback ? s->fallback : "", info);
    }
    if (err) {
        gate_settings_free(settings);
    }
    return err;
}

void gate_settings_free(struct gate_settings *settings)
{
    free(settings->name);
    settings->name = NULL;
    for (size_t i = 0; i < SETTINGS; i++) {
        if (settings_table[i].type == SETTING_TEXT) {
            char **text = setting_place(settings, &settings_table[i]);
            free(*text);
            *text = NULL;
        }
    }
}

bg_err gate_settings_copy(struct gate_settings *to, const struct gate_settings *from)
{
    bool good = true;
    *to = *from;
    to->name = strdup(from->name ? from->name : "");
    for (size_t i = 0; i < SETTINGS; i++) {
        if (settings_table[i].type == SETTING_TEXT) {
            char **text = setting_place(to, &settings_table[i]);
            *text = strdup(*text ? *text : "");
            good = good && *text;
        }
    }
    if (!good || !to->name) {
        gate_settings_free(to);
        return BG_ENOMEM;
    }
    return BG_OK;
}

/* Reports the required settings that are missing. */
static void gate_settings_missing(const struct gate_settings *settings,
                                  source_tell *tell, void *context)
{
    bg_errinfo info;
    for (size_t i = 0; i < SETTINGS; i++) {
        const struct setting *s = &settings_table[i];
        if (!s->fallback && !**(char **)setting_place(settings, s)) {
            (void)source_error(&info, BG_EINVAL, s->name, s->summary, "nothing");
            tell(context, &info);
        }
    }
}

void gate_settings_mistakes(const struct gate_settings *settings, bool whole,
                            source_tell *tell, void *context)
{
    const struct source_settings how = gate_settings_source(settings);
    bg_errinfo info;
    if (!settings->name || !gate_settings_is_name(settings->name)) {
        (void)source_error(&info, BG_EINVAL, "name of a gate",
                           "1 to 40 letters, digits, '-', '_' and '.'", "%s",
                           settings->name ? settings->name : "nothing");
        tell(context, &info);
    }
    gate_settings_missing(settings, tell, context);
    source_check(&how, tell, context);
    if (whole && strcmp(settings->follow, "none") != 0
        && settings->max_lag < 2 * settings->poll) {
        (void)source_error(&info, BG_EINVAL, "max-lag",
                           "at least twice the value of poll", "%gs",
                           settings->max_lag);
        tell(context, &info);
    }
}

/* Keeps the first mistake. */
static void gate_settings_first(void *context, const bg_errinfo *mistake)
{
    bg_errinfo *first = context;
    if (!first->code) {
        *first = *mistake;
    }
}

bg_err gate_settings_check(const struct gate_settings *settings, bg_errinfo *info)
{
    bg_errinfo first = { .code = BG_OK };
    gate_settings_mistakes(settings, true, gate_settings_first, &first);
    if (first.code && info) {
        *info = first;
    }
    return first.code;
}

struct source_settings gate_settings_source(const struct gate_settings *settings)
{
    return (struct source_settings){ .name = settings->name,
                                     .url = settings->source,
                                     .keys = settings->keys,
                                     .lookup = settings->lookup,
                                     .rows = settings->rows,
                                     .follow = settings->follow,
                                     .promise = settings->promise,
                                     .install = settings->install,
                                     .key = settings->key,
                                     .poll_ms = (uint32_t)ceil(settings->poll * 1000),
                                     .timeout_ms =
                                         (uint32_t)ceil(settings->timeout * 1000),
                                     .connections = settings->connections };
}

/* ---- The table ------------------------------------------------------------------------- */

const char *gate_settings_name(size_t i)
{
    return i < SETTINGS ? settings_table[i].name : NULL;
}

const char *gate_settings_summary(size_t i)
{
    return i < SETTINGS ? settings_table[i].summary : "";
}

const char *gate_settings_default(size_t i)
{
    return i < SETTINGS ? settings_table[i].fallback : NULL;
}
