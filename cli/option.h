/*
 * option.h - options as tables. One table per group of options feeds the parser, --help, the
 * man pages and the completions, so they cannot disagree.
 *
 * An option writes to a field of a struct: its type says how the text is read, `at` where
 * the field is. Groups that several subcommands share (records.h, spec.h) are tables with
 * structs of their own, which a subcommand's struct has as members.
 */
#ifndef CLI_OPTION_H
#define CLI_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* type: field, and what is written */
enum option_type {
    OPTION_FLAG,    /* bool: no value; true */
    OPTION_TEXT,    /* const char *: any text */
    OPTION_LIST,    /* struct option_list: may be given several times */
    OPTION_COUNT,   /* uint64_t: number_count */
    OPTION_ORDINAL, /* uint64_t: the same, from 1 */
    OPTION_BYTES,   /* uint64_t: the same, of bytes */
    OPTION_REAL,    /* double: number_real */
    OPTION_RATE,    /* double: number_rate */
    OPTION_SECONDS, /* double: number_seconds */
    OPTION_CHOICE   /* int: index in `choices` */
};

enum { OPTION_LIST_MOST = 64 };

struct option_list {
    const char *items[OPTION_LIST_MOST];
    size_t count;
};

struct option {
    const char *name; /* long name without dashes; NULL: the end of a table */
    char letter;      /* short name, or 0 */
    enum option_type type;
    size_t at;
    const char *value;          /* what help calls the value: "N"; NULL for flags */
    const char *help;           /* a line, without a period */
    const char *const *choices; /* of OPTION_CHOICE: NULL at the end */
};

struct option_group {
    const char *title; /* in help: "Keys" */
    const struct option *options;
};

/* A group, and where its struct is within that of the subcommand. */
struct option_use {
    const struct option_group *group; /* NULL: the end */
    size_t at;
};

/* What stands on a command line beside options. */
struct arguments {
    char **items;
    size_t count;
};

/*
 * Reads the arguments of a subcommand into `options`; what is no option is left in `left`,
 * in order ("--" ends options, "-" is none). False: a mistake, which was said already.
 */
bool option_read(const struct option_use *uses, void *options, char **arguments,
                 size_t count, struct arguments *left);

/* The option of that long name, or NULL; and how many options there are in all groups. */
const struct option *option_find(const struct option_use *uses, const char *name,
                                 size_t *at);

#endif
