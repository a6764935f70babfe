/*
 * main.c - bloomgate SUBCOMMAND [options] ...: finds the subcommand, reads its options, runs it.
 */
#define _POSIX_C_SOURCE 200809L

#include "command.h"
#include "out.h"
#include "say.h"
#include "stop.h"

#include "bloomgate/bloomgate.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command *const commands[] = {
#define MAIN_COMMAND(name) &command_##name,
    COMMANDS(MAIN_COMMAND)
#undef MAIN_COMMAND
};

#define MAIN_ONE(name) +1
enum { MAIN_COMMANDS = 0 COMMANDS(MAIN_ONE) };

const struct command *const *command_all(size_t *n)
{
    *n = MAIN_COMMANDS;
    return commands;
}

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < MAIN_COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

static const char *const whens[] = { "auto", "always", "never", NULL };

#define AT(field) offsetof(struct common, field)
static const struct option common_table[] = {
    { "quiet", 'q', OPTION_FLAG, AT(quiet), NULL, "say nothing but errors", NULL },
    { "progress", 0, OPTION_CHOICE, AT(progress), "WHEN", "auto, always or never",
      whens },
    { "color", 0, OPTION_CHOICE, AT(color), "WHEN", "auto, always or never", whens },
    { "help", 'h', OPTION_FLAG, AT(help), NULL, "this text", NULL },
    { NULL, 0, OPTION_FLAG, 0, NULL, NULL, NULL },
};
#undef AT
const struct option_group common_options = { "Always", common_table };

static int main_unknown(const char *name)
{
    const char *names[MAIN_COMMANDS];
    for (size_t i = 0; i < MAIN_COMMANDS; i++) {
        names[i] = commands[i]->name;
    }
    const char *near = option_nearest(name, names, MAIN_COMMANDS);
    return near ? say_usage("there is no subcommand '%s'; did you mean %s?", name, near)
                : say_usage("there is no subcommand '%s'", name);
}

static int main_run(const struct command *command, char **items, size_t count)
{
    struct option_use uses[COMMAND_USES + 2] = { { NULL, 0 } };
    struct arguments arguments;
    size_t n = 0;
    for (; command->uses[n].group; n++) {
        uses[n] = command->uses[n];
    }
    uses[n] = (struct option_use){ &common_options, 0 };
    struct common *options = calloc(1, command->size);
    if (!options) {
        return say_failed(CLI_FULL, "out of memory");
    }
    int code = CLI_USAGE;
    if (option_read(uses, options, items, count, &arguments)) {
        say_begin(command->name, options->quiet, (enum say_when)options->color);
        if (options->help) {
            help_write(command);
            code = CLI_OK;
        } else {
            code = command->run(options, &arguments);
        }
    }
    free(options);
    return out_finish(code);
}

/* Whoever closed stdin, stdout or stderr must not find another file in their place, which
 * then gets what was meant for them. Reading from these, or writing to them, still fails. */
static void main_keep_standard(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            (void)open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
        }
    }
}

int main(int argc, char **argv)
{
    main_keep_standard();
    stop_prepare();
    say_begin(NULL, false, SAY_AUTO);
    if (argc < 2) {
        return say_usage("what shall it do? A subcommand is missing");
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0
        || (strcmp(name, "help") == 0 && argc == 2)) {
        help_write(NULL);
        return out_finish(CLI_OK);
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        printf("bloomgate %s\n", bg_version());
        return out_finish(CLI_OK);
    }
    const bool help = strcmp(name, "help") == 0;
    const struct command *command = command_find(help ? argv[2] : name);
    if (!command) {
        return main_unknown(help ? argv[2] : name);
    }
    say_begin(command->name, false, SAY_AUTO);
    if (help) {
        help_write(command);
        return out_finish(CLI_OK);
    }
    return main_run(command, argv + 2, (size_t)argc - 2);
}
