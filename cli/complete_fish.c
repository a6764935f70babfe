/* complete_fish.c - the script for fish: one `complete` for each option of each subcommand. */
#include "complete.h"

#include <stdio.h>

static const char fish_begin[] =
    "# Completes bloomgate in fish; made by: bloomgate completion fish\n"
    "\n"
    "function __bloomgate_is --description 'whether this is the subcommand'\n"
    "    set -l words (commandline -opc)\n"
    "    test (count $words) -ge 2; and test \"$words[2]\" = \"$argv[1]\"\n"
    "end\n"
    "\n"
    "function __bloomgate_first --description 'whether the subcommand is still to come'\n"
    "    test (count (commandline -opc)) -eq 1\n"
    "end\n"
    "\n"
    "complete -c bloomgate -e\n"
    "complete -c bloomgate -n __bloomgate_first -f\n"
    "complete -c bloomgate -n __bloomgate_first -s h -l help -d 'say what there is'\n"
    "complete -c bloomgate -n __bloomgate_first -l version -d 'print the version'\n";

static void fish_quoted(const char *text)
{
    (void)putchar('\'');
    complete_escaped(text, "\\'", '\\');
    (void)putchar('\'');
}

static void fish_name(const char *name, const char *summary)
{
    printf("complete -c bloomgate -n __bloomgate_first -a %s -d ", name);
    fish_quoted(summary);
    printf("\n");
}

static void fish_option(const struct command *command, const struct option *option)
{
    printf("complete -c bloomgate -n '__bloomgate_is %s'", command->name);
    if (option->letter) {
        printf(" -s %c", option->letter);
    }
    printf(" -l %s", option->name);
    switch (complete_value(option)) {
    case COMPLETE_NOTHING: break;
    case COMPLETE_CHOICES:
        printf(" -x -a '");
        complete_words(option->choices, " ");
        printf("'");
        break;
    case COMPLETE_NUMBER: printf(" -x"); break;
    case COMPLETE_FILES: printf(" -r -F"); break;
    }
    printf(" -d ");
    fish_quoted(option->help);
    printf("\n");
}

static void fish_command(const struct command *command)
{
    struct option_use uses[COMMAND_USES + 2];
    command_options(command, uses);
    printf("\n");
    fish_name(command->name, command->summary);
    for (const struct option_use *use = uses; use->group; use++) {
        for (const struct option *o = use->group->options; o->name; o++) {
            fish_option(command, o);
        }
    }
    if (command->words) {
        printf("complete -c bloomgate -n '__bloomgate_is %s' -f -a '", command->name);
        complete_words(command->words, " ");
        printf("'\n");
    }
}

void complete_fish(void)
{
    size_t n;
    const struct command *const *all = command_all(&n);
    printf("%s", fish_begin);
    for (size_t i = 0; i < n; i++) {
        fish_command(all[i]);
    }
    printf("\n");
    fish_name("help", complete_help_summary);
    fish_name("version", complete_version_summary);
    printf("complete -c bloomgate -n '__bloomgate_is help' -f -a '");
    complete_names(" ");
    printf("'\n");
}
