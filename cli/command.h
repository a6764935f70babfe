/*
 * command.h - the table of subcommands, with the name, options and function of each. main.c runs
 * subcommands; help.c and cmd_completion.c generate --help, man pages and completions from the
 * same entries.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "option.h"
#include "say.h"

#include <limits.h>

enum { COMMAND_USES = 7, COMMAND_EXAMPLES = 2, COMMAND_ANY = INT_MAX };

struct command_example {
    const char *line; /* the command as typed: "bloomgate build seen.bg keys.txt" */
    const char *does; /* one line, no period */
};

/* An action of a subcommand: bloomgate cluster ACTION ... */
struct command_action {
    const char *name;
    const char *usage; /* its arguments: "NAME [KEYS...]" */
    const char *does;  /* one line, no period */
    size_t groups; /* the first `groups` option groups in `uses` apply to the action */
};

struct command {
    const char *name;
    const char *summary; /* one line: "create a filter file from keys" */
    const char *usage;   /* "[options] OUT [KEYS...]" */
    const char *about;   /* for the man page: paragraphs separated by empty lines */
    size_t size;         /* size of the options struct, which is initially zeroed */
    struct {
        size_t min, max;      /* COMMAND_ANY: no maximum */
        const char *expected; /* message for other numbers; NULL if `run` checks them */
    } arguments;
    struct option_use uses[COMMAND_USES + 1]; /* option groups, except common_options */
    struct command_example examples[COMMAND_EXAMPLES];
    /* NULL-terminated list of allowed arguments, or NULL if the arguments are file names. */
    const char *const *words;
    /* Array of actions that ends with a NULL name, or NULL. The groups in `uses` before the group
     * "Action" apply to all actions. --help of the subcommand omits the other groups, which appear
     * in the help of the actions. An option whose help text starts with "ACTION: " applies only to
     * that action. */
    const struct command_action *actions;
    int (*run)(void *options,
               const struct arguments *arguments); /* returns an exit code */
};

/* Expands X(name) for all subcommands, in the order in which --help lists them. */
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
    X(backup)                                                                          \
    X(restore)                                                                         \
    X(cluster)                                                                         \
    X(migrate)                                                                         \
    X(bench)                                                                           \
    X(completion)

#define COMMAND_DECLARE(name) extern const struct command command_##name;
COMMANDS(COMMAND_DECLARE)
#undef COMMAND_DECLARE

/* Returns an array of all subcommands, in the same order, and sets *n to its length. */
const struct command *const *command_all(size_t *n);
const struct command *command_find(const char *name);

/* Reports an unknown subcommand and suggests the nearest name. Returns an exit code. */
int command_unknown(const char *name);

/* Collects the option groups of a subcommand, followed by the common options. */
void command_options(const struct command *command,
                     struct option_use uses[COMMAND_USES + 2]);

/* Options that every subcommand accepts: --help, --quiet, --color, --progress. */
struct common {
    bool help, quiet;
    int color, progress; /* enum say_when */
};
extern const struct option_group common_options;

/* Returns the action with this name, or NULL if there is none. */
const struct command_action *command_find_action(const struct command *command,
                                                 const char *name);

/* Prints the --help text of an action to stdout. */
void help_action_write(const struct command *command,
                       const struct command_action *action);

/* Print the --help text or the man page (help.c) of a subcommand to stdout. NULL selects
 * the overview of all subcommands. */
void help_write(const struct command *command);
void man_write(const struct command *command);

#endif
