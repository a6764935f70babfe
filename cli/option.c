/*
 * option.c - see option.h. Accepts the syntax of getopt_long: --name=value, --name value, -n
 * value, -nvalue, -abc for flags, options and arguments in any order, and "--". Long names
 * cannot be abbreviated, because an abbreviation in a script becomes ambiguous when a later
 * version adds an option.
 */
#include "option.h"

#include "nearest.h"
#include "number.h"
#include "say.h"

#include <stdio.h>
#include <string.h>

enum { OPTION_NAME_MAX = 32 };

/* Names that other programs use for options, and the corresponding options. */
static const struct nearest_synonym option_synonyms[] = {
    { "fpr", "rate" },
    { "fpp", "rate" },
    { "fp", "rate" },
    { "error", "rate" },
    { "error-rate", "rate" },
    { "errorrate", "rate" },
    { "probability", "rate" },
    { "false-positive-rate", "rate" },
    { "capacity", "items" },
    { "expected", "items" },
    { "expected-insertions", "items" },
    { "elements", "items" },
    { "entries", "items" },
    { "num-items", "items" },
    { "num-keys", "items" },
    { "count", "items" },
    { "n", "items" },
    { "size", "bytes" },
    { "size", "memory" },
    { "memory", "bytes" },
    { "bytes", "memory" },
    { "mem", "memory" },
    { "mem", "bytes" },
    { "max-memory", "memory" },
    { "hashes", "bits" },
    { "hash-functions", "bits" },
    { "num-hashes", "bits" },
    { "k", "bits" },
    { "type", "kind" },
    { "algorithm", "kind" },
    { "jobs", "threads" },
    { "parallel", "threads" },
    { "workers", "threads" },
    { "separator", "delimiter" },
    { "field-separator", "delimiter" },
    { "sep", "delimiter" },
    { "column", "field" },
    { "columns", "field" },
    { "key", "field" },
    { "zero", "null" },
    { "zero-terminated", "null" },
    { "print0", "null" },
    { "overwrite", "force" },
    { "yes", "force" },
    { "lowercase", "lower" },
    { "ignore-case", "lower" },
    { "strip", "trim" },
    { "secret", "keyring" },
    { "silent", "quiet" },
    { "period", "window" },
    { NULL, NULL },
};

static void option_unknown(const struct option_use *uses, const char *name)
{
    const char *names[256];
    size_t n = 0;
    for (; uses->group; uses++) {
        for (const struct option *o = uses->group->options; o->name && n < 256; o++) {
            names[n++] = o->name;
        }
    }
    char hint[SAY_HINT_TEXT];
    (void)say_usage(
        "unknown option --%s%s", name,
        say_hint("--", nearest_meaning(name, option_synonyms, names, n), hint));
}

/* Finds an option by its long name or, if `name` is NULL, by its letter. */
static const struct option *option_seek(const struct option_use *uses, const char *name,
                                        char letter, size_t *at)
{
    for (; uses->group; uses++) {
        for (const struct option *o = uses->group->options; o->name; o++) {
            if (name ? strcmp(o->name, name) == 0 : o->letter == letter) {
                *at = uses->at + o->at;
                return o;
            }
        }
    }
    return NULL;
}

const struct option *option_find(const struct option_use *uses, const char *name,
                                 size_t *at)
{
    return option_seek(uses, name, 0, at);
}

static const char *option_expected(const struct option *option)
{
    switch (option->type) {
    case OPTION_COUNT: return "a whole number such as 1000, 10k, 5M or 1e6";
    case OPTION_BYTES: return "a number of bytes such as 64k, 512M or 2Gi";
    case OPTION_REAL: return "a number such as 2.5";
    case OPTION_RATE: return "a number above 0 and below 1, such as 0.01, 1e-3 or 0.1%";
    case OPTION_SECONDS: return "a time such as 30s, 5m or 1.5ms";
    case OPTION_FLAG:
    case OPTION_TEXT:
    case OPTION_LIST:
    case OPTION_CHOICE: break;
    }
    return "a valid value";
}

static bool option_choose(const struct option *option, const char *text, int *choice)
{
    size_t n = 0;
    while (option->choices[n]) {
        if (strcmp(option->choices[n], text) == 0) {
            *choice = (int)n;
            return true;
        }
        n++;
    }
    char all[512] = "";
    for (size_t i = 0; i < n; i++) {
        say_list(all, sizeof all, option->choices[i]);
    }
    (void)say_usage("--%s: found '%s', expected one of %s%s", option->name, text, all,
                    SAY_HINT(nearest_name(text, option->choices, n)));
    return false;
}

static bool option_list_add(const struct option *option, struct option_list *list,
                            const char *text)
{
    if (list->count == OPTION_LIST_MAX) {
        (void)say_usage("--%s: cannot be repeated more than %d times", option->name,
                        OPTION_LIST_MAX);
        return false;
    }
    list->items[list->count++] = text;
    return true;
}

/* Stores a value; `text` is NULL for flags. */
static bool option_set(const struct option *option, void *field, const char *text)
{
    bool good = false;
    switch (option->type) {
    case OPTION_FLAG: *(bool *)field = true; return true;
    case OPTION_TEXT: *(const char **)field = text; return true;
    case OPTION_LIST: return option_list_add(option, field, text);
    case OPTION_CHOICE: return option_choose(option, text, field);
    case OPTION_COUNT:
    case OPTION_BYTES: good = number_count(text, field); break;
    case OPTION_REAL: good = number_real(text, field); break;
    case OPTION_RATE: good = number_rate(text, field); break;
    case OPTION_SECONDS: good = number_seconds(text, field); break;
    }
    if (!good) {
        (void)say_usage("--%s: found '%s', expected %s", option->name, text,
                        option_expected(option));
    }
    return good;
}

struct option_line {
    const struct option_use *uses;
    char *options;
    char **items;
    size_t count, next;
};

/* Returns the value that follows an option, or NULL after reporting that it is missing. */
static const char *option_take(struct option_line *line, const struct option *option)
{
    if (line->next < line->count) {
        return line->items[line->next++];
    }
    (void)say_usage("--%s requires a value: %s", option->name, option->value);
    return NULL;
}

static bool option_long(struct option_line *line, const char *text)
{
    char name[OPTION_NAME_MAX * 2];
    const char *equals = strchr(text, '=');
    const size_t n = equals ? (size_t)(equals - text) : strlen(text);
    size_t at;
    const size_t kept = n < sizeof name ? n : sizeof name - 1;
    memcpy(name, text, kept);
    name[kept] = 0;
    const struct option *option = option_find(line->uses, name, &at);
    if (!option) {
        option_unknown(line->uses, name);
        return false;
    }
    if (option->type == OPTION_FLAG && equals) {
        (void)say_usage("--%s takes no value", name);
        return false;
    }
    const char *value = equals ? equals + 1 : NULL;
    if (option->type != OPTION_FLAG && !value) {
        value = option_take(line, option);
        if (!value) {
            return false;
        }
    }
    return option_set(option, line->options + at, value);
}

static bool option_letters(struct option_line *line, const char *text)
{
    for (; *text; text++) {
        size_t at;
        const struct option *option = option_seek(line->uses, NULL, *text, &at);
        if (!option) {
            (void)say_usage("unknown option -%c", *text);
            return false;
        }
        if (option->type != OPTION_FLAG) {
            const char *value = text[1] ? text + 1 : option_take(line, option);
            return value && option_set(option, line->options + at, value);
        }
        (void)option_set(option, line->options + at, NULL);
    }
    return true;
}

bool option_read(const struct option_use *uses, void *options, char **arguments,
                 size_t count, struct arguments *left)
{
    struct option_line line = { uses, options, arguments, count, 0 };
    *left = (struct arguments){ arguments, 0 };
    while (line.next < count) {
        char *text = arguments[line.next++];
        if (strcmp(text, "--") == 0) {
            break;
        }
        if (text[0] != '-' || text[1] == 0) {
            left->items[left->count++] = text;
        } else if (!(text[1] == '-' ? option_long(&line, text + 2)
                                    : option_letters(&line, text + 1))) {
            return false;
        }
    }
    while (line.next < count) {
        left->items[left->count++] = arguments[line.next++];
    }
    return true;
}
