/*
 * command_table.h - the single list of commands: names, arguments, properties and handlers.
 *
 * Each family of commands (bf.c, cf.c, bg.c, and the host's own) has an array of `struct command`,
 * which ends with an entry whose `name` is NULL. These arrays are the source for the dispatcher,
 * arity checks, COMMAND INFO and COMMAND DOCS, the ACL categories, the tests, and the list in
 * docs/commands.md.
 */
#ifndef COMMAND_COMMAND_TABLE_H
#define COMMAND_COMMAND_TABLE_H

#include "host.h"

enum {
    COMMAND_WRITE = 1u << 0,    /* may change data */
    COMMAND_READONLY = 1u << 1, /* never changes data */
    COMMAND_DENYOOM = 1u << 2,  /* refused while memory usage exceeds the limit */
    COMMAND_FAST = 1u << 3, /* takes microseconds, regardless of the filter's size */
    COMMAND_SLOW = 1u << 4, /* slow; does not run on event-loop threads */
    COMMAND_ADMIN = 1u << 5,
    COMMAND_NOAUTH = 1u << 6,  /* allowed before AUTH */
    COMMAND_LOADING = 1u << 7, /* allowed while the service is loading */
    COMMAND_STALE = 1u << 8,
    COMMAND_ASKS =
        1u << 9, /* queries membership; while loading, a host can answer "maybe" */
    COMMAND_COUNTS = 1u << 10,    /* a COMMAND_ASKS that returns a number */
    COMMAND_CONTAINER = 1u << 11, /* has subcommands, selected by the second argument */
    COMMAND_SUB = 1u << 12,       /* a subcommand: "CLIENT|ID" */
    COMMAND_AT_ONCE = 1u << 13,   /* runs inside MULTI instead of being queued */
    /* Changes keys of the object named by argv[1]. Event loops claim the object first (object.h).
     * The command is fast, unless the claim fails or object_will_stall returns true. */
    COMMAND_CLAIMS = 1u << 14,
    COMMAND_READS_FILE = 1u << 15,  /* argv[2] names a file on the host */
    COMMAND_WRITES_FILE = 1u << 16, /* likewise */
    COMMAND_DEFERS =
        1u << 17, /* fast, but may have to run again on a thread that can block */
    COMMAND_UNRECORDED = 1u << 18 /* changes nothing that a journal records */
};

/* ACL categories. Categories that are implied by flags (read, write, fast, slow, admin, and
 * dangerous for admin) are not repeated here. */
enum {
    CATEGORY_BLOOM = 1u << 0,
    CATEGORY_CUCKOO = 1u << 1,
    CATEGORY_GATE = 1u << 2, /* BG.* */
    CATEGORY_KEYSPACE = 1u << 3,
    CATEGORY_CONNECTION = 1u << 4,
    CATEGORY_DANGEROUS = 1u << 5
};

/* A command. Subcommands of a container are separate commands, each with its own arity (which
 * counts both words), flags and categories, so ACL rules apply to them individually:
 * "CLIENT|KILL". */
struct command {
    const char *name; /* in uppercase */
    int arity;        /* number of words, including the name; negative if a minimum */
    uint32_t flags;
    uint32_t categories;
    int first_key, last_key,
        key_step; /* 0 if there are no keys; a negative last_key counts from the end */
    void (*run)(struct request *request);
    /* For pipelines: runs n requests of this command for one object together, and sends one reply
     * per request. The requests differ only in argv[2]. If NULL, requests run one by one. */
    void (*run_many)(struct request *request, const bg_bytes *items, size_t n);
    const char
        *syntax; /* "key error_rate capacity [EXPANSION expansion] [NONSCALING]" */
    const char *summary; /* one sentence, without the final period */
    const char *complexity;
    const char *since;
};

extern const struct command bf_commands[], cf_commands[], bg_commands[];

/* The commands of all families, with fast case-insensitive lookup by name. */
struct command_table;

/* Creates a table from n arrays. Returns NULL if out of memory. Asserts that names are unique. */
struct command_table *command_table_create(const struct command *const *families,
                                           size_t n);
void command_table_free(struct command_table *table);
const struct command *command_find(const struct command_table *table, bg_bytes name);

/* Returns the container's subcommand with this name, or NULL if there is none. */
const struct command *command_find_sub(const struct command_table *table,
                                       const struct command *container, bg_bytes name);

/* Returns the next subcommand of a container at row `*i` or later, and advances `*i` past it.
 * Returns NULL if there are no more subcommands. */
const struct command *command_next_sub(const struct command_table *table,
                                       const struct command *container, size_t *i);

/* Return the number of rows, and the row at an index. Each row is a command or a subcommand. */
size_t command_count(const struct command_table *table);
const struct command *command_at(const struct command_table *table, size_t i);

/*
 * Return the name of category i, as in ACL rules and ACL CAT ("all", "read", "bloom" ...), and
 * whether a command belongs to it. Category 0 is "all". The name is NULL after the last category.
 * Each command is either "fast" or "slow".
 */
const char *command_category_name(size_t i);
bool command_in_category(const struct command *command, size_t i);

/* Returns whether a command accepts this number of arguments. */
bool command_arity_fits(const struct command *command, size_t argc);

#endif
