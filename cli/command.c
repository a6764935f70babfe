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

const struct command_action *command_find_action(const struct command *command,
                                                 const char *name)
{
    const struct command_action *a = command->actions;
    while (a && a->name && strcmp(a->name, name) != 0) {
        a++;
    }
    return a && a->name ? a : NULL;
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

/* Names that other programs use for operations, and the corresponding subcommands. */
static const struct nearest_synonym command_synonyms[] = {
    { "create", "build" },       { "make", "build" },     { "new", "build" },
    { "reserve", "build" },      { "insert", "add" },     { "put", "add" },
    { "append", "add" },         { "madd", "add" },       { "show", "info" },
    { "stat", "info" },          { "stats", "info" },     { "describe", "info" },
    { "inspect", "info" },       { "print", "info" },     { "query", "check" },
    { "test", "check" },         { "exists", "check" },   { "mexists", "check" },
    { "contains", "check" },     { "has", "check" },      { "lookup", "check" },
    { "mightcontain", "check" }, { "filter", "check" },   { "grep", "check" },
    { "delete", "remove" },      { "del", "remove" },     { "rm", "remove" },
    { "union", "merge" },        { "join", "merge" },     { "putall", "merge" },
    { "compare", "diff" },       { "cmp", "diff" },       { "uniq", "dedup" },
    { "unique", "dedup" },       { "sort", "dedup" },     { "size", "plan" },
    { "estimate", "plan" },      { "import", "convert" }, { "export", "convert" },
    { "load", "convert" },       { "dump", "convert" },   { "shrink", "fold" },
    { "validate", "verify" },    { "fsck", "verify" },    { "top", "watch" },
    { "monitor", "watch" },      { "keygen", "keyring" }, { "shard", "split" },
    { "benchmark", "bench" },    { NULL, NULL },
};

int command_unknown(const char *name)
{
    const char *names[COMMAND_COUNT];
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i]->name;
    }
    return say_usage(
        "unknown subcommand '%s'%s", name,
        SAY_HINT(nearest_meaning(name, command_synonyms, names, COMMAND_COUNT)));
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
