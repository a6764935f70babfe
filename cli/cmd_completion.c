/* cmd_completion.c - bloomgate completion: prints completion scripts. Also contains functions that
 * the generators share. */
#include "complete.h"
#include "say.h"

#include <stdio.h>
#include <string.h>

struct completion_options {
    struct common common;
};

/* ---- Shared by the generators -------------------------------------------------------------- */

const char complete_help_summary[] = "print help for a subcommand";
const char complete_version_summary[] = "print the version";

enum complete_value complete_value(const struct option *option)
{
    switch (option->type) {
    case OPTION_FLAG: return COMPLETE_NOTHING;
    case OPTION_CHOICE: return COMPLETE_CHOICES;
    case OPTION_TEXT:
    case OPTION_LIST: return COMPLETE_FILES;
    case OPTION_COUNT:
    case OPTION_ORDINAL:
    case OPTION_BYTES:
    case OPTION_REAL:
    case OPTION_RATE:
    case OPTION_SECONDS: break;
    }
    return COMPLETE_NUMBER;
}

void complete_escaped(const char *text, const char *special, char before)
{
    for (; *text; text++) {
        if (strchr(special, *text)) {
            (void)putchar(before);
        }
        (void)putchar(*text);
    }
}

void complete_words(const char *const *words, const char *between)
{
    for (size_t i = 0; words[i]; i++) {
        printf("%s%s", i ? between : "", words[i]);
    }
}

void complete_names(const char *between)
{
    size_t n;
    const struct command *const *all = command_all(&n);
    for (size_t i = 0; i < n; i++) {
        printf("%s%s", all[i]->name, between);
    }
    printf("help%sversion", between);
}

/* ---- Command ------------------------------------------------------------------------------- */

static const char *const completion_shells[] = { "bash", "zsh", "fish", NULL };
static void (*const completion_writers[])(void) = { complete_bash, complete_zsh,
                                                    complete_fish };
enum { COMPLETION_SHELLS = sizeof completion_writers / sizeof *completion_writers };

static int completion_command(void *options, const struct arguments *arguments)
{
    (void)options;
    if (arguments->count != 1) {
        return say_usage("expected one shell: bash, zsh or fish");
    }
    for (size_t i = 0; i < COMPLETION_SHELLS; i++) {
        if (strcmp(arguments->items[0], completion_shells[i]) == 0) {
            completion_writers[i]();
            return CLI_OK;
        }
    }
    return say_usage("shell: found '%s', expected bash, zsh or fish",
                     arguments->items[0]);
}

const struct command command_completion = {
    .name = "completion",
    .summary = "print a completion script for a shell",
    .usage = "bash|zsh|fish",
    .about =
        "Prints a script that completes subcommands, options and their values when the "
        "Tab key is pressed. The script has no dependencies other than the "
        "shell.\n\nFor bash, source it, or save it as "
        "~/.local/share/bash-completion/completions/bloomgate. For zsh, source it "
        "after compinit, or save it as _bloomgate in an fpath directory. For fish, "
        "save it as ~/.config/fish/completions/bloomgate.fish. Installing bloomgate "
        "installs all three.",
    .size = sizeof(struct completion_options),
    .examples = { { "source <(bloomgate completion bash)",
                    "enable completion in this shell" },
                  { "bloomgate completion fish > bloomgate.fish",
                    "save the script to a file" } },
    .words = completion_shells,
    .run = completion_command,
};
