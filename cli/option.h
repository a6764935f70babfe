/*
 * option.h - option tables. Each table describes a group of options. The parser, --help, the man
 * pages and the completions are all based on these tables, so they are always consistent.
 *
 * An option writes to a field of a struct: `type` selects how the value is parsed, and `at` is
 * the offset of the field. Groups that several subcommands share (records.h, spec_options.h)
 * have their own structs, which are members of the subcommand's struct.
 */
#ifndef CLI_OPTION_H
#define CLI_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The type of the field, which determines how its value is parsed. */
enum option_type {
    OPTION_FLAG,    /* bool: set to true; the option has no value */
    OPTION_TEXT,    /* const char *: any text */
    OPTION_LIST,    /* struct option_list: may be repeated */
    OPTION_COUNT,   /* uint64_t: number_count */
    OPTION_BYTES,   /* uint64_t: parsed by number_count; in bytes */
    OPTION_REAL,    /* double: number_real */
    OPTION_RATE,    /* double: number_rate */
    OPTION_SECONDS, /* double: number_seconds */
    OPTION_CHOICE   /* int: index into `choices` */
};

enum { OPTION_LIST_MAX = 64 };

struct option_list {
    const char *items[OPTION_LIST_MAX];
    size_t count;
};

struct option {
    const char *name; /* long name without dashes; NULL ends a table */
    char letter;      /* short name, or 0 */
    enum option_type type;
    size_t at;
    const char *value;          /* value name in help, such as "N"; NULL for flags */
    const char *help;           /* one line, no period */
    const char *const *choices; /* for OPTION_CHOICE, NULL-terminated */
};

/* Rows of a table, such as OPT_COUNT("items", 'n', items, "N", "number of keys"). OPT_STRUCT is the
 * struct that contains the fields; define it before the table. */
#define OPT_ROW(type, name, letter, field, value, help)                                \
    {                                                                                  \
        name, letter, OPTION_##type, offsetof(OPT_STRUCT, field), value, help, NULL    \
    }
#define OPT_FLAG(name, letter, field, help)                                            \
    OPT_ROW(FLAG, name, letter, field, NULL, help)
#define OPT_TEXT(...)    OPT_ROW(TEXT, __VA_ARGS__)
#define OPT_LIST(...)    OPT_ROW(LIST, __VA_ARGS__)
#define OPT_COUNT(...)   OPT_ROW(COUNT, __VA_ARGS__)
#define OPT_BYTES(...)   OPT_ROW(BYTES, __VA_ARGS__)
#define OPT_REAL(...)    OPT_ROW(REAL, __VA_ARGS__)
#define OPT_RATE(...)    OPT_ROW(RATE, __VA_ARGS__)
#define OPT_SECONDS(...) OPT_ROW(SECONDS, __VA_ARGS__)
#define OPT_CHOICE(name, letter, field, value, help, choices)                          \
    {                                                                                  \
        name, letter, OPTION_CHOICE, offsetof(OPT_STRUCT, field), value, help, choices \
    }
#define OPT_END                                                                        \
    {                                                                                  \
        NULL, 0, OPTION_FLAG, 0, NULL, NULL, NULL                                      \
    }

struct option_group {
    const char *title; /* heading in help, such as "Keys" */
    const struct option *options;
};

/* A group, and the offset of its struct in the subcommand's struct. */
struct option_use {
    const struct option_group *group; /* NULL ends the list */
    size_t at;
};

/* Uses a table whose fields are in the subcommand's own struct. */
#define OPT_GROUP(title, table)                                                        \
    {                                                                                  \
        &(const struct option_group){ title, table }, 0                                \
    }

/* The command-line arguments that are not options. */
struct arguments {
    char **items;
    size_t count;
};

/*
 * Parses the arguments of a subcommand into `options`. Arguments that are not options are stored
 * in `left`, in order. "--" marks the end of the options; "-" is not an option. Returns false after
 * reporting an invalid argument.
 */
bool option_read(const struct option_use *uses, void *options, char **arguments,
                 size_t count, struct arguments *left);

/* Returns the option with this long name, or NULL. Sets *at to the offset of its field. */
const struct option *option_find(const struct option_use *uses, const char *name,
                                 size_t *at);

#endif
