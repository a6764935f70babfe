/*
 * complete_bash.c - the script for bash. What it leaves without an answer readline completes as
 * the name of a file (complete -o default); after a number it is told not to.
 */
#include "complete.h"

#include <stdio.h>

static const char bash_begin[] =
    "# Completes bloomgate in bash; made by: bloomgate completion bash\n"
    "\n"
    "_bloomgate_words()\n"
    "{\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$2\")\n"
    "}\n"
    "\n"
    "_bloomgate_number()\n"
    "{\n"
    "    compopt +o default +o bashdefault 2>/dev/null\n"
    "}\n"
    "\n"
    "_bloomgate()\n"
    "{\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} i\n"
    "    local options=\n"
    "    COMPREPLY=()\n"
    "    # --name=value comes as three words.\n"
    "    if [[ $word == = ]]; then\n"
    "        word=\n"
    "    elif [[ $before == = ]] && ((COMP_CWORD > 1)); then\n"
    "        before=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    fi\n"
    "    if ((COMP_CWORD == 1)); then\n"
    "        _bloomgate_words '";

static const char bash_middle[] = " --help --version' \"$word\"\n"
                                  "        return\n"
                                  "    fi\n"
                                  "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
                                  "        [[ ${COMP_WORDS[i]} == -- ]] && return\n"
                                  "    done\n"
                                  "    case ${COMP_WORDS[1]} in\n"
                                  "    help) _bloomgate_words '";

static const char bash_end[] =
    "    esac\n"
    "    if [[ $word == -* ]]; then\n"
    "        _bloomgate_words \"$options\" \"$word\"\n"
    "    fi\n"
    "}\n"
    "\n"
    "complete -o bashdefault -o default -F _bloomgate bloomgate\n";

/* The pattern that the word before is compared with: --threads | -t) */
static void bash_pattern(const struct option *option)
{
    printf("        --%s", option->name);
    if (option->letter) {
        printf(" | -%c", option->letter);
    }
    printf(") ");
}

static void bash_value(const struct option *option)
{
    switch (complete_value(option)) {
    case COMPLETE_NOTHING: return;
    case COMPLETE_CHOICES:
        bash_pattern(option);
        printf("_bloomgate_words '");
        complete_words(option->choices, " ");
        printf("' \"$word\"; return ;;\n");
        return;
    case COMPLETE_NUMBER:
        bash_pattern(option);
        printf("_bloomgate_number; return ;;\n");
        return;
    case COMPLETE_FILES:
        bash_pattern(option);
        printf("return ;;\n");
        return;
    }
}

static void bash_command(const struct command *command)
{
    struct option_use uses[COMMAND_USES + 2];
    command_options(command, uses);
    printf("    %s)\n        options='", command->name);
    for (const struct option_use *use = uses; use->group; use++) {
        for (const struct option *o = use->group->options; o->name; o++) {
            printf("%s--%s", use == uses && o == use->group->options ? "" : " ",
                   o->name);
        }
    }
    printf("'\n        case $before in\n");
    for (const struct option_use *use = uses; use->group; use++) {
        for (const struct option *o = use->group->options; o->name; o++) {
            bash_value(o);
        }
    }
    printf("        esac\n");
    if (command->words) {
        printf("        [[ $word == -* ]] || _bloomgate_words '");
        complete_words(command->words, " ");
        printf("' \"$word\"\n");
    }
    printf("        ;;\n");
}

void complete_bash(void)
{
    size_t n;
    const struct command *const *all = command_all(&n);
    printf("%s", bash_begin);
    complete_names(" ");
    printf("%s", bash_middle);
    complete_names(" ");
    printf("' \"$word\" ;;\n");
    for (size_t i = 0; i < n; i++) {
        bash_command(all[i]);
    }
    printf("%s", bash_end);
}
