/*
 * command_table.h - the single list of commands: names, arguments, properties and handlers.
 *
 * Each family of commands (bf.c, cf.c, bg.c, and the host's own) has an array of `struct command`,
 * which ends with an entry whose `name` is NULL. These arrays are the source for the dispatcher,
 * arity checks, COMMAND INFO and COMMAND DOCS, the ACL categories, the tests, and the list in
 * docs/commands.md.
 *
 * How hosts treat a command is also data in these arrays (struct command_behavior): which host
 * features it needs, whether fronts forward it, its effect on the filter, and how it is replicated.
 * Hosts do not compare the names of commands.
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
    COMMAND_UNRECORDED = 1u << 18, /* changes nothing that a journal records */
    COMMAND_NOSCRIPT = 1u << 19,   /* refused in scripts, where the client is unknown */
    COMMAND_COPIES =
        1u << 20 /* keeps a copy of the filter for later commands (dump.h) */
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

/* The part of a host without which a command cannot run. */
enum command_needs {
    NEEDS_UNDECLARED,
    NEEDS_NOTHING, /* runs in every host */
    NEEDS_FILES,   /* the host's file directory (host_ops.path) */
    NEEDS_GATES,   /* lookups in databases (host_ops.lookup, host_ops.wrote) */
    NEEDS_SERVICE  /* implemented by the service itself, not in command/ */
};

/* What happens to a request whose name is a filter that is sharded across a cluster (fronts.h). */
enum command_front { FRONT_UNDECLARED, FRONT_FORWARDS, FRONT_REFUSES };

/* What a command can change about the filter named by argv[1]. */
enum command_effect {
    EFFECT_UNDECLARED,
    EFFECT_NONE,
    EFFECT_ADDS,    /* adds items, or creates a filter to which items will be added */
    EFFECT_DELETES, /* deletes items */
    EFFECT_TRANSFORMS, /* changes or replaces the filter as a whole */
    EFFECT_LOADS,      /* replaces the content with content that the client sends */
    EFFECT_DROPS       /* deletes the filter */
};

/* What a host that replicates filters sends to its replicas. */
enum command_replication {
    REPLICATES_UNDECLARED,
    REPLICATES_NOTHING,
    REPLICATES_CHANGES, /* the recorded changes, and how to create a new filter */
    REPLICATES_COMMAND, /* the command itself: it has the same result on every server */
    REPLICATES_CONTENT  /* the content of the filter after the command */
};

/* How hosts handle a command. The value 0 of each field means that the row does not declare it,
 * which command_table_check reports. */
struct command_behavior {
    enum command_needs needs;
    enum command_front front;
    enum command_effect effect;
    enum command_replication replication;
};

/* The behavior of most commands. Fronts forward the commands marked SHARDED. */
#define BEHAVIOR_READS                                                                 \
    {                                                                                  \
        NEEDS_NOTHING, FRONT_REFUSES, EFFECT_NONE, REPLICATES_NOTHING                  \
    }
#define BEHAVIOR_READS_SHARDED                                                         \
    {                                                                                  \
        NEEDS_NOTHING, FRONT_FORWARDS, EFFECT_NONE, REPLICATES_NOTHING                 \
    }
#define BEHAVIOR_ADDS                                                                  \
    {                                                                                  \
        NEEDS_NOTHING, FRONT_REFUSES, EFFECT_ADDS, REPLICATES_CHANGES                  \
    }
#define BEHAVIOR_ADDS_SHARDED                                                          \
    {                                                                                  \
        NEEDS_NOTHING, FRONT_FORWARDS, EFFECT_ADDS, REPLICATES_CHANGES                 \
    }
#define BEHAVIOR_DELETES                                                               \
    {                                                                                  \
        NEEDS_NOTHING, FRONT_REFUSES, EFFECT_DELETES, REPLICATES_CHANGES               \
    }
#define BEHAVIOR_TRANSFORMS                                                            \
    {                                                                                  \
        NEEDS_NOTHING, FRONT_REFUSES, EFFECT_TRANSFORMS, REPLICATES_COMMAND            \
    }
#define BEHAVIOR_LOADS                                                                 \
    {                                                                                  \
        NEEDS_NOTHING, FRONT_REFUSES, EFFECT_LOADS, REPLICATES_CONTENT                 \
    }
/* A command of the service itself. The last two fields do not matter, because the service does not
 * replicate filters. */
#define BEHAVIOR_SERVICE                                                               \
    {                                                                                  \
        NEEDS_SERVICE, FRONT_REFUSES, EFFECT_NONE, REPLICATES_NOTHING                  \
    }

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
    struct command_behavior behavior;
};

extern const struct command bf_commands[], cf_commands[], bg_commands[];

enum { COMMAND_WHY = 128 };

/* Returns whether every row of n arrays declares its behavior. Otherwise, names the first row that
 * does not, and what is missing. Hosts call this function when they start, and do not start if it
 * fails. */
bool command_table_check(const struct command *const *families, size_t n,
                         char why[COMMAND_WHY]);

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
