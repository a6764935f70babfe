/*
 * main.c - bloomgate SUBCOMMAND [options] ...: finds the subcommand, parses its options, and
 * runs it.
 */
#include "claim.h"
#include "command.h"
#include "stop.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Checks the environment variable BLOOMGATE_MACHINE, because the library ignores an invalid
 * description. */
static int main_check_machine(void)
{
    bg_machine machine;
    bg_errinfo why;
    return bg_machine_read(NULL, &machine, &why) == BG_OK
               ? CLI_OK
               : say_usage("%s", why.message);
}

static int main_call(const struct command *command, void *options,
                     const struct arguments *arguments)
{
    const bool fits = arguments->count >= command->arguments.min
                      && arguments->count <= command->arguments.max;
    return fits || !command->arguments.expected
               ? command->run(options, arguments)
               : say_usage("%s", command->arguments.expected);
}

static int main_run(const struct command *command, char **items, size_t count)
{
    struct option_use uses[COMMAND_USES + 2];
    struct arguments arguments;
    command_options(command, uses);
    struct common *options = calloc(1, command->size);
    if (!options) {
        return say_full("out of memory");
    }
    int code = CLI_USAGE;
    if (option_read(uses, options, items, count, &arguments)) {
        say_begin(command->name, options->quiet, (enum say_when)options->color);
        progress_show((enum say_when)options->progress);
        const struct command_action *action =
            arguments.count ? command_find_action(command, arguments.items[0]) : NULL;
        if (options->help && action) {
            help_action_write(command, action);
            code = CLI_OK;
        } else if (options->help) {
            help_write(command);
            code = CLI_OK;
        } else {
            code = main_check_machine();
            code = code ? code : main_call(command, options, &arguments);
        }
    }
    free(options);
    claim_end();
    return out_finish(code);
}

/* If stdin, stdout or stderr was closed, a file opened later could reuse its descriptor and receive
 * data meant for the standard stream. To prevent this, /dev/null is opened in place of each closed
 * stream, in a mode in which reads from stdin and writes to stdout and stderr still fail. */
static void main_keep_standard(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            (void)open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
        }
    }
}

static bool main_is(const char *name, const char *either, const char *other)
{
    return strcmp(name, either) == 0 || strcmp(name, other) == 0;
}

/* Returns whether the first argument selects the short form: bloomgate --cluster NODES ACTION ...
 * is short for bloomgate cluster --cluster NODES ACTION ... */
static bool main_is_cluster(const char *name)
{
    return strcmp(name, "--cluster") == 0 || strncmp(name, "--cluster=", 10) == 0;
}

/* Runs bloomgate help [--man] [SUBCOMMAND]. The build generates the man pages with --man. */
static int main_help(char **items, size_t count)
{
    const bool man = count > 0 && strcmp(items[0], "--man") == 0;
    const size_t first = man ? 1 : 0;
    if (count > first + 1) {
        return say_usage("help accepts only one subcommand");
    }
    const struct command *command = count > first ? command_find(items[first]) : NULL;
    if (count > first && !command && !main_is(items[first], "help", "version")) {
        return command_unknown(items[first]);
    }
    if (man) {
        man_write(command);
    } else {
        help_write(command);
    }
    return out_finish(CLI_OK);
}

int main(int argc, char **argv)
{
    main_keep_standard();
    stop_prepare();
    say_begin(NULL, false, SAY_AUTO);
    if (argc < 2) {
        return say_usage("no subcommand specified");
    }
    const char *name = argv[1];
    char **rest = argv + 2;
    size_t count = (size_t)argc - 2;
    if (main_is(name, "--help", "-h")) {
        return main_help(rest, 0);
    }
    if (strcmp(name, "help") == 0) {
        return main_help(rest, count);
    }
    if (main_is(name, "--version", "version")) {
        printf("bloomgate %s\n", bg_version());
        return out_finish(CLI_OK);
    }
    if (main_is_cluster(name)) { /* keep --cluster: it is an option of `cluster` */
        name = "cluster";
        rest--;
        count++;
    }
    if (name[0] == '-') {
        return say_usage("unknown option '%s'; options must follow the subcommand",
                         name);
    }
    const struct command *command = command_find(name);
    if (!command) {
        return command_unknown(name);
    }
    say_begin(command->name, false, SAY_AUTO);
    return main_run(command, rest, count);
}
