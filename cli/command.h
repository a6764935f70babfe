/*
 * command.h - the subcommands, as a table: what each is called, takes and does. main.c runs
 * them; help.c, man.c and complete.h write --help, man pages and completions from the same
 * entries.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "option.h"

enum { COMMAND_USES = 7, COMMAND_EXAMPLES = 2 };

struct command_example {
    const char *line; /* as typed: "bloomgate build seen.bg keys.txt" */
    const char *does; /* a line, without a period */
};

struct command {
    const char *name;
    const char *summary; /* a line: "make a filter file of keys" */
    const char *usage;   /* "[options] OUT [KEYS...]" */
    const char *about;   /* for the man page: paragraphs, divided by empty lines */
    size_t size;         /* of the struct of its options, which is zero at first */
    struct option_use uses[COMMAND_USES + 1]; /* beside the common ones */
    struct command_example examples[COMMAND_EXAMPLES];
    const char *const
        *words; /* what its argument may be, NULL at the end; NULL: files */
    int (*run)(void *options, const struct arguments *arguments); /* exit code */
};

/* X(name): the one list, in the order of --help. */
#define COMMANDS(X)                                                                    \
    X(plan)                                                                            \
    X(build)                                                                           \
    X(check)                                                                           \
    X(dedup)                                                                           \
    X(add)                                                                             \
    X(remove)                                                                          \
    X(merge)                                                                           \
    X(fold)                                                                            \
    X(split)                                                                           \
    X(join)                                                                            \
    X(diff)                                                                            \
    X(convert)                                                                         \
    X(verify)                                                                          \
    X(info)                                                                            \
    X(keyring)                                                                         \
    X(canary)                                                                          \
    X(watch)                                                                           \
    X(cluster)                                                                         \
    X(bench)                                                                           \
    X(completion)

#define COMMAND_DECLARE(name) extern const struct command command_##name;
COMMANDS(COMMAND_DECLARE)
#undef COMMAND_DECLARE

/* All of them, in that order. */
const struct command *const *command_all(size_t *n);
const struct command *command_find(const char *name);

/* Says that there is none of that name, and which is near: exit code. */
int command_unknown(const char *name);

/* Its groups of options, with the common ones behind them. */
void command_options(const struct command *command,
                     struct option_use uses[COMMAND_USES + 2]);

/* Options of every subcommand: --help, --quiet, --color, --progress. */
struct common {
    bool help, quiet;
    int color, progress; /* enum say_when */
};
extern const struct option_group common_options;

/* --help of one, or of the whole with NULL, to stdout (help.c); and the man page (man.c). */
void help_write(const struct command *command);
void man_write(const struct command *command);

#endif
