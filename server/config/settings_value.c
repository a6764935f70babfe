/*
 * settings_value.c - parses words into the fields of a draft.
 *
 * A draft is filled in option by option. If a value is invalid, the message contains the location,
 * the value found and the value expected, and the field keeps its previous value.
 */
#include "config/front_settings.h"
#include "config/gate_settings.h"
#include "config/settings.h"
#include "nearest.h"
#include "number.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

/* ---- Memory ------------------------------------------------------------------------------- */

struct settings_piece {
    struct settings_piece *next;
    size_t bytes;
    _Alignas(16) char memory[];
};

struct settings_pool {
    struct settings_piece *first;
};

struct settings_pool *settings_pool_create(void)
{
    return calloc(1, sizeof(struct settings_pool));
}

void settings_pool_free(struct settings_pool *pool)
{
    if (!pool) {
        return;
    }
    for (struct settings_piece *piece = pool->first, *next; piece; piece = next) {
        next = piece->next;
        OPENSSL_cleanse(piece->memory, piece->bytes); /* may contain passwords */
        free(piece);
    }
    free(pool);
}

void *settings_pool_take(struct settings_pool *pool, size_t bytes)
{
    struct settings_piece *piece = calloc(1, sizeof *piece + bytes);
    if (!piece) {
        return NULL;
    }
    piece->bytes = bytes;
    piece->next = pool->first;
    pool->first = piece;
    return piece->memory;
}

static const char *settings_value_keep(struct settings_draft *draft, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *copy = settings_pool_take(draft->pool, n);
    if (copy) {
        memcpy(copy, text, n);
    }
    return copy;
}

/* ---- Mistakes ----------------------------------------------------------------------------- */

/* Ends a text that fills its buffer after a whole word, with "...". */
static void settings_value_cut(char *text, size_t room)
{
    size_t n = room - sizeof " ...";
    while (n > room / 2 && text[n] != ' ') {
        n--;
    }
    memcpy(text + n, " ...", sizeof " ...");
}

void settings_explain(char why[SETTINGS_WHY], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(why, SETTINGS_WHY, format, arguments);
    va_end(arguments);
    if (length >= SETTINGS_WHY) {
        settings_value_cut(why, SETTINGS_WHY);
    }
}

__attribute__((format(printf, 4, 0))) static void
settings_value_tell(struct settings_draft *draft, bool mistake, const char *where,
                    const char *format, va_list arguments)
{
    char text[SETTINGS_WHY];
    draft->mistakes += mistake;
    if (!draft->tell) {
        return;
    }
    const int n = snprintf(text, sizeof text, "%s%s", where, *where ? ": " : "");
    const size_t front = n > 0 && (size_t)n < sizeof text ? (size_t)n : 0;
    const int length = vsnprintf(text + front, sizeof text - front, format, arguments);
    if (length >= 0 && (size_t)length >= sizeof text - front) {
        settings_value_cut(text, sizeof text);
    }
    for (char *c = text; *c;
         c++) { /* keep the message on one line, and free of terminal control codes */
        if ((unsigned char)*c < 0x20 || *c == 0x7F) {
            *c = '?';
        }
    }
    draft->tell(draft->context, mistake, text);
}

bool settings_mistake(struct settings_draft *draft, const char *where,
                      const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    settings_value_tell(draft, true, where, format, arguments);
    va_end(arguments);
    return false;
}

void settings_doubt(struct settings_draft *draft, const char *where, const char *format,
                    ...)
{
    va_list arguments;
    va_start(arguments, format);
    settings_value_tell(draft, false, where, format, arguments);
    va_end(arguments);
}

/* Describes the accepted values: "a whole number from 0 to 65535". */
static void settings_value_expected(const struct setting *setting, char *text,
                                    size_t room)
{
    char least[NUMBER_TEXT], most[NUMBER_TEXT];
    switch (setting->type) {
    case SETTING_COUNT:
        (void)snprintf(text, room, "a whole number from %.0f to %.0f", setting->least,
                       setting->most);
        break;
    case SETTING_BYTES:
    case SETTING_MEMORY:
        (void)snprintf(text, room, "a size such as 64k, 512M or 2Gi%s, from %s to %s",
                       setting->type == SETTING_MEMORY ? ", or a percentage such as 75%"
                                                       : "",
                       number_show_bytes((uint64_t)setting->least, least),
                       number_show_bytes((uint64_t)setting->most, most));
        break;
    case SETTING_OCTAL:
        (void)snprintf(text, room, "an octal number from 0 to %o",
                       (unsigned)setting->most);
        break;
    case SETTING_RATE:
        (void)snprintf(text, room, "a rate above 0 and below 1, such as 0.01 or 0.1%%");
        break;
    case SETTING_SECONDS:
        (void)snprintf(text, room,
                       "a time such as 30s, 5m or 1.5h, from %g to %.0f seconds",
                       setting->least, setting->most);
        break;
    case SETTING_SWITCH: (void)snprintf(text, room, "yes or no"); break;
    case SETTING_TEXT:
    case SETTING_SECRET:
    case SETTING_LIST:
    case SETTING_CHOICE:
    case SETTING_USER:
    case SETTING_GATE:
    case SETTING_SHARDED: (void)snprintf(text, room, "%s", setting->value); break;
    }
}

static bool settings_value_wrong(struct settings_draft *draft, const char *where,
                                 const struct setting *setting, const char *found)
{
    char expected[160];
    settings_value_expected(setting, expected, sizeof expected);
    return settings_mistake(draft, where, "%s: found '%.80s', expected %s",
                            setting->name, found, expected);
}

/* ---- Numbers ------------------------------------------------------------------------------ */

/* Returns the memory size of the machine, or the container's memory limit if that is smaller. */
static double settings_value_machine(void)
{
    bg_machine machine;
    bg_machine_detect(&machine); /* not what BLOOMGATE_MACHINE describes */
    return (double)machine.memory_bytes;
}

static bool settings_value_memory(const char *text, uint64_t *value)
{
    double share;
    if (strchr(text, '%') && number_rate(text, &share)) {
        *value = (uint64_t)(share * settings_value_machine());
        return true;
    }
    return number_count(text, value);
}

static bool settings_value_octal(const char *text, uint64_t *value)
{
    char *end;
    if (!*text || strspn(text, "01234567") != strlen(text) || strlen(text) > 8) {
        return false;
    }
    *value = strtoul(text, &end, 8);
    return true;
}

static bool settings_value_whole(const struct setting *setting, const char *text,
                                 uint64_t *field)
{
    uint64_t value = 0;
    const bool good =
        setting->type == SETTING_OCTAL    ? settings_value_octal(text, &value)
        : setting->type == SETTING_MEMORY ? settings_value_memory(text, &value)
                                          : number_count(text, &value);
    if (!good || (double)value < setting->least || (double)value > setting->most) {
        return false;
    }
    *field = value;
    return true;
}

static bool settings_value_real(const struct setting *setting, const char *text,
                                double *field)
{
    double value = 0;
    const bool good = setting->type == SETTING_RATE ? number_rate(text, &value)
                                                    : number_seconds(text, &value);
    if (!good || value < setting->least || value > setting->most) {
        return false;
    }
    *field = value;
    return true;
}

/* ---- Words ------------------------------------------------------------------------------- */

static bool settings_value_choice(struct settings_draft *draft, const char *where,
                                  const struct setting *setting, const char *text,
                                  int *field)
{
    char all[160];
    size_t n = 0;
    for (; setting->choices[n]; n++) {
        if (strcmp(setting->choices[n], text) == 0) {
            *field = (int)n;
            return true;
        }
    }
    settings_choices(setting, all, sizeof all);
    const char *near = nearest_name(text, setting->choices, n);
    return settings_mistake(draft, where, "%s: found '%.80s', expected one of %s%s%s%s",
                            setting->name, text, all, near ? "; did you mean " : "",
                            near ? near : "", near ? "?" : "");
}

static bool settings_value_text(struct settings_draft *draft, const char *where,
                                const char *text, const char **field)
{
    const char *copy = settings_value_keep(draft, text);
    if (!copy) {
        return settings_mistake(draft, where, "out of memory");
    }
    *field = copy;
    return true;
}

static bool settings_value_list(struct settings_draft *draft, const char *where,
                                const struct setting *setting, char *const *words,
                                size_t n, struct settings_list *field)
{
    struct settings_list list = { .count = 0 };
    if (n > SETTINGS_LIST_MAX) {
        return settings_mistake(draft, where,
                                "%s: found %zu values, expected at most %d",
                                setting->name, n, SETTINGS_LIST_MAX);
    }
    const bool none = n == 1 && !*words[0] && !*setting->initial;
    for (size_t i = 0; i < n && !none; i++) {
        if (!*words[i]) {
            return settings_value_wrong(draft, where, setting, words[i]);
        }
        if (!settings_value_text(draft, where, words[i], &list.items[list.count++])) {
            return false;
        }
    }
    *field = list;
    return true;
}

static bool settings_value_set(struct settings_draft *draft, const char *where,
                               const struct setting *setting, const char *text,
                               void *field)
{
    bool good = false;
    switch (setting->type) {
    case SETTING_TEXT:
    case SETTING_SECRET: return settings_value_text(draft, where, text, field);
    case SETTING_CHOICE:
        return settings_value_choice(draft, where, setting, text, field);
    case SETTING_COUNT:
    case SETTING_BYTES:
    case SETTING_MEMORY:
    case SETTING_OCTAL: good = settings_value_whole(setting, text, field); break;
    case SETTING_RATE:
    case SETTING_SECONDS: good = settings_value_real(setting, text, field); break;
    case SETTING_SWITCH:
        good = strcmp(text, "yes") == 0 || strcmp(text, "no") == 0;
        if (good) {
            *(bool *)field = *text == 'y';
        }
        break;
    case SETTING_LIST:
    case SETTING_USER:
    case SETTING_GATE:
    case SETTING_SHARDED: break;
    }
    return good || settings_value_wrong(draft, where, setting, text);
}

/* ---- Lines -------------------------------------------------------------------------------- */

/* Ensures that there is space for one more item after `count` items, copying them to a larger block
 * if necessary. */
static bool settings_value_room(struct settings_draft *draft, void **items,
                                size_t count, size_t *room, size_t bytes)
{
    if (count < *room) {
        return true;
    }
    const size_t more = *room ? 2 * *room : 8;
    void *larger = settings_pool_take(draft->pool, more * bytes);
    if (!larger) {
        return false;
    }
    if (count) {
        memcpy(larger, *items, count * bytes);
    }
    *items = larger;
    *room = more;
    return true;
}

static bool settings_value_line(struct settings_draft *draft, const char *where,
                                char *const *words, size_t n,
                                struct settings_lines *lines)
{
    void *items = lines->items;
    const char **copies = settings_pool_take(draft->pool, n * sizeof *copies);
    const char *place = settings_value_keep(draft, where);
    bool good = copies && place
                && settings_value_room(draft, &items, lines->count, &lines->room,
                                       sizeof *lines->items);
    for (size_t i = 0; i < n && good; i++) {
        good = (copies[i] = settings_value_keep(draft, words[i])) != NULL;
    }
    if (!good) {
        return settings_mistake(draft, where, "out of memory");
    }
    lines->items = items;
    lines->items[lines->count++] = (struct settings_line){ copies, n, place };
    return true;
}

/* ---- Gates -------------------------------------------------------------------------------- */

static bool settings_gate_word(struct gate_settings *gate, const char *word,
                               char why[SETTINGS_WHY])
{
    char key[40];
    const char *names[64];
    bg_errinfo info;
    size_t rows = 0;
    const size_t n = strcspn(word, "=");
    (void)snprintf(key, sizeof key, "%.*s", n < sizeof key ? (int)n : 0, word);
    while (rows < 64 && gate_settings_name(rows)) {
        names[rows] = gate_settings_name(rows);
        rows++;
    }
    const bg_err err =
        word[n] ? gate_settings_set(gate, key, word + n + 1, &info) : BG_ENOTFOUND;
    /* the value may contain a password, so it is not shown */
    if (err == BG_ENOTFOUND) {
        const char *near = nearest_name(key, names, rows);
        (void)snprintf(
            why, SETTINGS_WHY, "%s '%s'%s%s%s%s", word[n] ? "unknown setting" : "found",
            key, word[n] ? "" : ", expected NAME=VALUE", near ? "; did you mean " : "",
            near ? near : "", near ? "=?" : "");
    } else if (err) {
        (void)snprintf(why, SETTINGS_WHY, "%s", info.message);
    }
    return !err;
}

void settings_join(char why[SETTINGS_WHY], const char *message)
{
    const size_t used = strlen(why), n = strlen(message);
    if (!strstr(why, message) && used + n + 2 < SETTINGS_WHY) {
        char *to = stpcpy(why + used, used ? "; " : "");
        memcpy(to, message, n + 1);
    }
}

/* Called by gate_settings_mistakes. */
static void settings_gate_mistake(void *context, const bg_errinfo *mistake)
{
    settings_join(context, mistake->message);
}

bool settings_gate(const struct settings_line *line, struct gate_settings *gate,
                   char why[SETTINGS_WHY])
{
    char one[SETTINGS_WHY];
    bg_errinfo info;
    bool whole = true;
    if (gate_settings_init(gate, line->words[0], &info)) {
        (void)snprintf(why, SETTINGS_WHY, "%s", info.message);
        return false;
    }
    why[0] = 0;
    for (size_t i = 1; i < line->count; i++) {
        if (!settings_gate_word(gate, line->words[i], one)) {
            whole = false;
            settings_join(why, one);
        }
    }
    gate_settings_mistakes(gate, whole, settings_gate_mistake, why);
    if (*why) {
        gate_settings_free(gate);
    }
    return !*why;
}

/* Checks that one more line is allowed and that its name is new. */
static bool settings_value_fits(struct settings_draft *draft, const char *where,
                                const char *option, const char *name,
                                const struct settings_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        if (strcmp(lines->items[i].words[0], name) == 0) {
            return settings_mistake(draft, where,
                                    "%s: '%.80s' is already defined in %s", option,
                                    name, lines->items[i].where);
        }
    }
    if (lines->count == SETTINGS_GATES_MAX) {
        return settings_mistake(draft, where, "%s: too many lines (maximum: %d)",
                                option, SETTINGS_GATES_MAX);
    }
    return true;
}

/* Adds a line that defines a gate or a sharded filter, if the line is valid. */
static bool settings_value_filter(struct settings_draft *draft, const char *where,
                                  const struct setting *setting, char *const *words,
                                  size_t n, struct settings_lines *lines)
{
    const struct settings_line line = { (const char *const *)words, n, where };
    struct gate_settings gate;
    struct front_settings front;
    char why[SETTINGS_WHY];
    bool good = false;
    if (!settings_value_fits(draft, where, setting->name, words[0], lines)) {
        return false;
    }
    if (setting->type == SETTING_GATE) {
        good = settings_gate(&line, &gate, why);
        if (good) {
            gate_settings_free(&gate);
        }
    } else {
        good = front_settings_read(&line, &front, why);
    }
    return good ? settings_value_line(draft, where, words, n, lines)
                : settings_mistake(draft, where, "%s %.40s: %s", setting->name,
                                   words[0], why);
}

/* ---- Options ------------------------------------------------------------------------------ */

/* Names of settings in Redis and other services, and the corresponding settings. */
static const struct nearest_synonym settings_value_synonyms[] = {
    { "save", "snapshot-interval" },
    { "save-interval", "snapshot-interval" },
    { "snapshot", "snapshot-interval" },
    { "dbfilename", "dir" },
    { "appendfilename", "dir" },
    { "appenddirname", "dir" },
    { "data", "dir" },
    { "datadir", "dir" },
    { "data-dir", "dir" },
    { "directory", "dir" },
    { "host", "bind" },
    { "hostname", "bind" },
    { "listen", "bind" },
    { "address", "bind" },
    { "http-addr", "http-port" },
    { "http-listen", "http-port" },
    { "threads", "workers" },
    { "io-threads", "workers" },
    { "password", "requirepass" },
    { "auth", "requirepass" },
    { "aclfile", "user" },
    { "acl", "user" },
    { "users", "user" },
    { "memory", "maxmemory" },
    { "memory-limit", "maxmemory" },
    { "cert", "tls-cert-file" },
    { "tls-certificate", "tls-cert-file" },
    { "key", "tls-key-file" },
    { "verbosity", "log-level" },
    { "verbose", "log-level" },
    { "log", "log-level" },
    { NULL, NULL },
};

static bool settings_value_unknown(struct settings_draft *draft, const char *where,
                                   const char *name)
{
    const char *names[128];
    size_t rows, n = 0;
    const struct setting *table = settings_table(&rows);
    for (size_t i = 0; i < rows && n < 127; i++) {
        if (table[i].name) {
            names[n++] = table[i].name;
        }
    }
    names[n++] = "include";
    const char *near = nearest_meaning(name, settings_value_synonyms, names, n);
    return settings_mistake(draft, where, "unknown option '%.80s'%s%s%s", name,
                            near ? "; did you mean " : "", near ? near : "",
                            near ? "?" : "");
}

/* Returns the number of an option's row in the table. */
static size_t settings_value_row(const struct setting *setting)
{
    size_t rows;
    return (size_t)(setting - settings_table(&rows)) % SETTINGS_ROWS_MAX;
}

bool settings_is_sound(const struct settings_draft *draft, const char *name)
{
    const size_t row = settings_value_row(settings_find(name));
    return !(draft->wrong[row / 64] & (uint64_t)1 << row % 64);
}

const char *settings_where(const struct settings_draft *draft, const char *name)
{
    const char *where = draft->where[settings_value_row(settings_find(name))];
    return where ? where : "";
}

static bool settings_value_read(struct settings_draft *draft, const char *where,
                                const struct setting *setting, char *const *words,
                                size_t n)
{
    void *field = (char *)&draft->settings + setting->at;
    const bool several = setting_is_list(setting);
    if (n == 0 || (n > 1 && !several)) {
        return settings_mistake(draft, where, "%s: found %zu values, expected %s%s",
                                setting->name, n,
                                several ? "" : "one: ", setting->value);
    }
    switch (setting->type) {
    case SETTING_LIST:
        return settings_value_list(draft, where, setting, words, n, field);
    case SETTING_USER: return settings_value_line(draft, where, words, n, field);
    case SETTING_GATE:
    case SETTING_SHARDED:
        return settings_value_filter(draft, where, setting, words, n, field);
    default: return settings_value_set(draft, where, setting, words[0], field);
    }
}

bool settings_draft_set(struct settings_draft *draft, const char *where,
                        const char *name, char *const *words, size_t n)
{
    const struct setting *setting = settings_find(name);
    if (!setting) {
        return settings_value_unknown(draft, where, name);
    }
    const bool good = settings_value_read(draft, where, setting, words, n);
    const size_t row = settings_value_row(setting);
    if (!good) {
        draft->wrong[row / 64] |= (uint64_t)1 << row % 64;
    } else if (draft->pool) {
        draft->where[row] = settings_value_keep(draft, where);
    }
    return good;
}
