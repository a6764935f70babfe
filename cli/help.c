/*
 * help.c - generates --help from the option tables (option.h).
 */
#include "command.h"

#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 28, HELP_WIDTH = 80 };

/* Prints text in the right column and wraps it. */
static void help_wrap(const char *text)
{
    const size_t most = HELP_WIDTH - HELP_COLUMN;
    while (strlen(text) > most) {
        size_t n = most;
        while (n > 0 && text[n] != ' ') {
            n--;
        }
        n = n ? n : most;
        printf("%.*s\n%*s", (int)n, text, HELP_COLUMN, "");
        text += n + (text[n] == ' ');
    }
    printf("%s\n", text);
}

static void help_option(const struct option *option)
{
    char left[80];
    const bool takes = option->type != OPTION_FLAG;
    const int n =
        snprintf(left, sizeof left, "  %c%c%c --%s%s%s", option->letter ? '-' : ' ',
                 option->letter ? option->letter : ' ', option->letter ? ',' : ' ',
                 option->name, takes ? " " : "", takes ? option->value : "");
    if (n < HELP_COLUMN) {
        printf("%-*s", HELP_COLUMN, left);
    } else {
        printf("%s\n%*s", left, HELP_COLUMN, "");
    }
    help_wrap(option->help);
}

static void help_group(const struct option_group *group)
{
    printf("\n%s\n", group->title);
    for (const struct option *o = group->options; o->name; o++) {
        help_option(o);
    }
}

static void help_command(const struct command *command)
{
    printf("usage: bloomgate %s %s\n       %s\n", command->name, command->usage,
           command->summary);
    for (const struct option_use *use = command->uses; use->group; use++) {
        help_group(use->group);
    }
    help_group(&common_options);
    printf("\nExamples\n");
    for (int i = 0; i < COMMAND_EXAMPLES && command->examples[i].line; i++) {
        printf("  %s\n      %s\n", command->examples[i].line,
               command->examples[i].does);
    }
}

static void help_all(void)
{
    size_t n;
    const struct command *const *all = command_all(&n);
    printf("usage: bloomgate SUBCOMMAND [options] ...\n"
           "       approximate-membership filters that answer \"definitely not\" or "
           "\"maybe\"\n\n");
    for (size_t i = 0; i < n; i++) {
        printf("  %-12s%s\n", all[i]->name, all[i]->summary);
    }
    printf("\n"
           "  For details, see bloomgate SUBCOMMAND --help or man "
           "bloomgate-SUBCOMMAND.\n"
           "  bloomgate --version prints the version.\n\n"
           "Examples\n"
           "  bloomgate build --rate 0.1%% seen.bg urls.txt\n"
           "      build a filter from the lines of a file\n"
           "  bloomgate check -v seen.bg new.txt\n"
           "      print the lines that are definitely not in the filter\n");
}

void help_write(const struct command *command)
{
    if (command) {
        help_command(command);
    } else {
        help_all();
    }
}
