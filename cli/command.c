/*
 * command.c - see command.h: the table of subcommands and the common options.
 */
#include "command.h"

#include "nearest.h"

#include <string.h>

static const struct command *const commands[] = {
#define COMMAND_ADDRESS(name) &command_##name,
    COMMANDS(COMMAND_ADDRESS)
#undef COMMAND_ADDRESS
};

#define COMMAND_ONE(name) +1
enum { COMMAND_COUNT = 0 COMMANDS(COMMAND_ONE) };

const struct command *const *command_all(size_t *n)
{
    *n = COMMAND_COUNT;
    return commands;
}

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

static const char *const whens[] = { "auto", "always", "never", NULL };

#define OPT_STRUCT struct common
static const struct option common_table[] = {
    OPT_FLAG("quiet", 'q', quiet, "print only errors and warnings"),
    OPT_CHOICE("progress", 0, progress, "WHEN",
               "progress bar: auto, always or never (default: auto)", whens),
    OPT_CHOICE("color", 0, color, "WHEN",
               "colors: auto, always or never (default: auto)", whens),
    OPT_FLAG("help", 'h', help, "print this help"),
    OPT_END,
};
const struct option_group common_options = { "General", common_table };

/* Returns the subcommand for an operation that other programs call `name`, or NULL. */
static const char *command_elsewhere(const char *name)
{
    static const char *const names[][2] = {
        { "create", "build" }, { "make", "build" },    { "insert", "add" },
        { "show", "info" },    { "stats", "info" },    { "query", "check" },
        { "test", "check" },   { "delete", "remove" }, { "union", "merge" },
        { "uniq", "dedup" },   { "size", "plan" },
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i][0], name) == 0) {
            return names[i][1];
        }
    }
    return NULL;
}

int command_unknown(const char *name)
{
    const char *names[COMMAND_COUNT];
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i]->name;
    }
    const char *near = command_elsewhere(name);
    near = near ? near : nearest_name(name, names, COMMAND_COUNT);
    return say_usage("unknown subcommand '%s'%s", name, SAY_HINT(near));
}

void command_options(const struct command *command,
                     struct option_use uses[COMMAND_USES + 2])
{
    size_t n = 0;
    for (; command->uses[n].group; n++) {
        uses[n] = command->uses[n];
    }
    uses[n] = (struct option_use){ &common_options, 0 };
    uses[n + 1] = (struct option_use){ NULL, 0 };
}
