/*
 * complete_zsh.c - the script for zsh: specifications for _arguments, which does the rest. It
 * can lie in a folder of fpath, or be sourced.
 */
#include "complete.h"

#include <stdio.h>

static const char zsh_begin[] =
    "#compdef bloomgate\n"
    "# Completes bloomgate in zsh; made by: bloomgate completion zsh\n"
    "\n"
    "_bloomgate_commands() {\n"
    "    local -a commands\n"
    "    commands=(\n";

static const char zsh_middle[] =
    "    )\n"
    "    _describe -t commands subcommand commands\n"
    "}\n"
    "\n"
    "_bloomgate() {\n"
    "    local curcontext=$curcontext state line ret=1\n"
    "    typeset -A opt_args\n"
    "    _arguments -C \\\n"
    "        '(- *)'{-h,--help}'[say what there is]' \\\n"
    "        '(- *)--version[print the version]' \\\n"
    "        '1: :_bloomgate_commands' '*:: :->rest' && ret=0\n"
    "    [[ $state == rest ]] || return ret\n"
    "    curcontext=${curcontext%:*}-$words[1]:\n"
    "    case $words[1] in\n"
    "    help) _arguments '1: :_bloomgate_commands' && ret=0 ;;\n";

static const char zsh_end[] = "    esac\n"
                              "    return ret\n"
                              "}\n"
                              "\n"
                              "if [[ $funcstack[1] == _bloomgate ]]; then\n"
                              "    _bloomgate \"$@\"\n"
                              "else\n"
                              "    compdef _bloomgate bloomgate\n"
                              "fi\n";

/* Text within single quotes, with a backslash before each of `special`. */
static void zsh_quoted(const char *text, const char *special)
{
    char one[2] = "";
    for (; *text; text++) {
        if (*text == '\'') {
            printf("'\\''");
            continue;
        }
        one[0] = *text;
        complete_escaped(one, special, '\\');
    }
}

/* A subcommand for _describe: name:what it does. */
static void zsh_summary(const char *name, const char *summary)
{
    printf("        '%s:", name);
    zsh_quoted(summary, ":\\");
    printf("'\n");
}

/* '(-t --threads)'{-t+,--threads=}'[as many as processors]:N: ' */
static void zsh_option(const struct option *option)
{
    const bool takes = option->type != OPTION_FLAG;
    const char *many = option->type == OPTION_LIST ? "*" : "";
    printf(" \\\n        ");
    if (option->letter) {
        if (!*many) {
            printf("'(-%c --%s)'", option->letter, option->name);
        }
        printf("%s{-%c%s,--%s%s}'", *many ? "'*'" : "", option->letter,
               takes ? "+" : "", option->name, takes ? "=" : "");
    } else {
        printf("'%s--%s%s", many, option->name, takes ? "=" : "");
    }
    printf("[");
    zsh_quoted(option->help, "[]\\");
    printf("]");
    if (takes) {
        printf(":%s:", option->value);
    }
    if (complete_value(option) == COMPLETE_CHOICES) {
        printf("(");
        complete_words(option->choices, " ");
        printf(")");
    } else if (takes) {
        printf("%s", complete_value(option) == COMPLETE_FILES ? "_files" : " ");
    }
    printf("'");
}

static void zsh_command(const struct command *command)
{
    struct option_use uses[COMMAND_USES + 2];
    command_options(command, uses);
    printf("    %s)\n        _arguments -s -S", command->name);
    for (const struct option_use *use = uses; use->group; use++) {
        for (const struct option *o = use->group->options; o->name; o++) {
            zsh_option(o);
        }
    }
    if (command->words) {
        printf(" \\\n        '1: :(");
        complete_words(command->words, " ");
        printf(")'");
    } else {
        printf(" \\\n        '*:file:_files'");
    }
    printf(" && ret=0\n        ;;\n");
}

void complete_zsh(void)
{
    size_t n;
    const struct command *const *all = command_all(&n);
    printf("%s", zsh_begin);
    for (size_t i = 0; i < n; i++) {
        zsh_summary(all[i]->name, all[i]->summary);
    }
    zsh_summary("help", complete_help_summary);
    zsh_summary("version", complete_version_summary);
    printf("%s", zsh_middle);
    for (size_t i = 0; i < n; i++) {
        zsh_command(all[i]);
    }
    printf("%s", zsh_end);
}
