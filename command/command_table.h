/*
 * command_table.h - the one list of commands: what they are called, take, need and do.
 *
 * Each family (bf.c, cf.c, bg.c, and those of the host) has an array of `struct command`, ended
 * by one without a name. It feeds the dispatcher, arity checks, COMMAND INFO and DOCS, the ACL
 * categories, the tests and the documentation (docs/commands.md is written from it).
 */
#ifndef COMMAND_COMMAND_TABLE_H
#define COMMAND_COMMAND_TABLE_H

#include "host.h"

enum {
    COMMAND_WRITE = 1u << 0,    /* may change something */
    COMMAND_READONLY = 1u << 1, /* cannot */
    COMMAND_DENYOOM = 1u << 2,  /* refused when memory is over its limit */
    COMMAND_FAST = 1u << 3, /* takes microseconds, whatever the size of the filter */
    COMMAND_SLOW = 1u << 4, /* may take long: not on the thread of an event loop */
    COMMAND_ADMIN = 1u << 5,
    COMMAND_NOAUTH = 1u << 6,  /* before AUTH, too */
    COMMAND_LOADING = 1u << 7, /* while the service is loading, too */
    COMMAND_STALE = 1u << 8,
    COMMAND_ASKS =
        1u << 9, /* about members: while loading, a host may answer "maybe" */
    COMMAND_COUNTS = 1u << 10,    /* such a one that answers with a number */
    COMMAND_CONTAINER = 1u << 11, /* what it does is said by its second word */
    COMMAND_SUB = 1u << 12,       /* of such a one: "CLIENT|ID" */
    COMMAND_AT_ONCE = 1u << 13,   /* within MULTI, too: it is not queued */
    /* Changes keys of argv[1], which event loops claim first (object.h). It is fast, unless the claim fails
     * or object_will_stall is true. */
    COMMAND_CLAIMS = 1u << 14,
    COMMAND_READS_FILE = 1u << 15,  /* argv[2] is a file name of the host */
    COMMAND_WRITES_FILE = 1u << 16, /* likewise */
    COMMAND_DEFERS =
        1u << 17, /* fast, but may run again where it can wait, without a reply */
    COMMAND_UNRECORDED = 1u << 18 /* changes nothing that a journal records */
};

/* ACL categories; those that follow from flags (read, write, fast, slow, admin, and dangerous for
 * admin) are not said again. */
enum {
    CATEGORY_BLOOM = 1u << 0,
    CATEGORY_CUCKOO = 1u << 1,
    CATEGORY_GATE = 1u << 2, /* BG.* */
    CATEGORY_KEYSPACE = 1u << 3,
    CATEGORY_CONNECTION = 1u << 4,
    CATEGORY_DANGEROUS = 1u << 5
};

/* The subcommands of a container are commands of their own, each with its arity (which counts both
 * words), flags and categories, so rules of users apply to them one by one: "CLIENT|KILL". */
struct command {
    const char *name; /* in capitals */
    int arity;        /* arguments, the name included; below 0: at least so many */
    uint32_t flags;
    uint32_t categories;
    int first_key, last_key,
        key_step; /* 0: no keys; last_key below 0: counted from the end */
    void (*run)(struct request *request);
    /* For pipelines: answers n requests of this command about one name at once, with a reply
     * each, that differ in argv[2] only. NULL: they are run one by one. */
    void (*run_many)(struct request *request, const bg_bytes *items, size_t n);
    const char
        *syntax; /* "key error_rate capacity [EXPANSION expansion] [NONSCALING]" */
    const char *summary; /* a sentence without its period */
    const char *complexity;
    const char *since;
};

extern const struct command bf_commands[], cf_commands[], bg_commands[];

/* A list of such arrays, and quick look-ups in them, in any case of letters. */
struct command_table;

/* `families`: n arrays. NULL: no memory. Two commands of one name are a mistake: asserted. */
struct command_table *command_table_create(const struct command *const *families,
                                           size_t n);
void command_table_free(struct command_table *table);
const struct command *command_find(const struct command_table *table, bg_bytes name);

/* A subcommand of a container; NULL: none of that name. */
const struct command *command_find_sub(const struct command_table *table,
                                       const struct command *container, bg_bytes name);

/* The next subcommand behind row `i` of a container, which is left at its row; NULL: none. */
const struct command *command_next_sub(const struct command_table *table,
                                       const struct command *container, size_t *i);

/* All rows: commands and subcommands. */
size_t command_count(const struct command_table *table);
const struct command *command_at(const struct command_table *table, size_t i);

/*
 * Categories as rules of users and ACL CAT have them: "all", "read", "bloom" and so on. `i` counts
 * from 0, which is "all"; NULL: no more. Each command is either "fast" or "slow".
 */
const char *command_category_name(size_t i);
bool command_in_category(const struct command *command, size_t i);

/* Whether so many arguments will do. */
bool command_arity_fits(const struct command *command, size_t argc);

#endif
