/*
 * man.c - man pages: bloomgate(1), and one of each subcommand, from the tables that --help is
 * made from. They are written in the macros of man(7), by the program itself when it is
 * built (bloomgate help --man).
 */
#include "command.h"
#include "roff.h"
#include "say.h"

#include "bloomgate/bloomgate.h"

#include <stdio.h>
#include <string.h>

static void man_title(const char *name, const char *summary)
{
    char source[64];
    (void)snprintf(source, sizeof source, "bloomgate %s", bg_version());
    roff_title(stdout, name, "1", source, "User Commands", summary);
}

/* ---- Shared by all pages ------------------------------------------------------------------- */

static const struct {
    enum cli_exit code;
    const char *means;
} man_exits[] = {
    { CLI_OK, "Done; of check: some line was selected." },
    { CLI_NO,
      "Of check: no line was selected; of verify, diff and canary: damaged, different, "
      "wrong; of remove --strict: a key was not there." },
    { CLI_USAGE, "A mistake on the command line." },
    { CLI_DATA, "A filter or an input is damaged, or is not what it should be." },
    { CLI_IO,
      "OS error: no such file, no permission, disk full, or another command is changing the "
      "file." },
    { CLI_FULL, "Out of memory, or the filter is full." },
    { CLI_INTERRUPTED,
      "Interrupted by SIGINT, SIGTERM, SIGHUP or SIGXCPU; files are unchanged, except for those of "
      "dedup --state and build --checkpoint." },
    { CLI_PIPE, "Nobody reads stdout any more." },
};

static void man_exit_codes(void)
{
    printf(".SH EXIT STATUS\n");
    for (size_t i = 0; i < sizeof man_exits / sizeof *man_exits; i++) {
        char code[16];
        (void)snprintf(code, sizeof code, "%d", (int)man_exits[i].code);
        roff_item(stdout, code, man_exits[i].means);
    }
}

/* ---- A subcommand -------------------------------------------------------------------------- */

static void man_choices(const char *const *choices)
{
    printf("One of ");
    for (size_t i = 0; choices[i]; i++) {
        printf("%s\\fB", i ? ", " : "");
        roff_inside(stdout, choices[i]);
        printf("\\fR");
    }
    printf(".\n");
}

static void man_option(const struct option *option)
{
    printf(".TP\n");
    if (option->letter) {
        printf("\\fB\\-%c\\fR, ", option->letter);
    }
    printf("\\fB\\-\\-");
    roff_inside(stdout, option->name);
    printf("\\fR");
    if (option->type != OPTION_FLAG) {
        printf(" \\fI");
        roff_inside(stdout, option->value);
        printf("\\fR");
    }
    printf("\n");
    roff_text(stdout, option->help);
    printf(".\n");
    if (option->type == OPTION_CHOICE) {
        man_choices(option->choices);
    }
    if (option->type == OPTION_LIST) {
        printf("It may be given up to %d times.\n", OPTION_LIST_MOST);
    }
}

static void man_options(const struct command *command)
{
    struct option_use uses[COMMAND_USES + 2];
    command_options(command, uses);
    printf(".SH OPTIONS\n");
    for (const struct option_use *use = uses; use->group; use++) {
        printf(".SS ");
        roff_inside(stdout, use->group->title);
        printf("\n");
        for (const struct option *o = use->group->options; o->name; o++) {
            man_option(o);
        }
    }
}

static void man_examples(const struct command *command)
{
    printf(".SH EXAMPLES\n");
    for (int i = 0; i < COMMAND_EXAMPLES && command->examples[i].line; i++) {
        printf(".TP\n\\fB");
        roff_inside(stdout, command->examples[i].line);
        printf("\\fR\n");
        roff_text(stdout, command->examples[i].does);
        printf("\n");
    }
}

static void man_command(const struct command *command)
{
    char name[64];
    (void)snprintf(name, sizeof name, "bloomgate-%s", command->name);
    man_title(name, command->summary);
    printf(".SH SYNOPSIS\n\\fBbloomgate %s\\fR ", command->name);
    roff_inside(stdout, command->usage);
    printf("\n.SH DESCRIPTION\n");
    roff_paragraphs(stdout, command->about);
    man_options(command);
    man_examples(command);
    man_exit_codes();
    printf(
        ".SH SEE ALSO\n\\fBbloomgate\\fR(1): how numbers are written, how keys are made, "
        "which files can be read\n");
}

/* ---- The overview -------------------------------------------------------------------------- */

struct man_entry {
    const char *tag, *text;
};

static void man_section(const char *title, const char *text,
                        const struct man_entry *entries, size_t n)
{
    printf(".SH %s\n", title);
    roff_paragraphs(stdout, text);
    for (size_t i = 0; i < n; i++) {
        roff_item(stdout, entries[i].tag, entries[i].text);
    }
}

static const char man_about[] =
    "A filter is a small stand-in for a large set of keys. Asked for a key it answers "
    "\"certainly not\", which is always right, or \"maybe\", which is wrong at a known rate. "
    "bloomgate makes filters of keys, keeps them in files, asks and changes them.\n\n"
    "Data goes to stdout, and nothing else does; messages go to stderr. A file is replaced in "
    "one step or not at all, and none is overwritten unless --force says so. \"-\" is stdin, "
    "and \"--\" ends options. Options and arguments may come in any order.";

static const struct man_entry man_numbers[] = {
    { "10k 5M 2G 1T 1P", "Powers of 1000; a B may follow." },
    { "64Ki 512Mi 2Gi", "Powers of 1024." },
    { "1e6 2.5k", "With an exponent or a fraction; a count must be whole in the end." },
    { "0.001 1e-3 0.1% 1/1000", "Rates: above 0, below 1." },
    { "30s 5m 2h 1d 1.5ms", "Times; seconds if no unit is said." },
};

static const struct man_entry man_recipes[] = {
    { "--null, --length-prefixed, --csv",
      "What a record is: it ends with NUL, has its length in front in 4 bytes, the low "
      "one first, or is a line of CSV, whose quotes may hold newlines." },
    { "--field N, --delimiter C",
      "The key is the Nth field of the record; in a record with fewer fields it is empty. Each "
      "delimiter ends a field: a tab, with --csv a comma, if not said." },
    { "--trim, --lower", "Blanks around the key are left out; A to Z become a to z." },
    { "--as int64, --as int32",
      "The text is a decimal number; the key is its 8 or 4 bytes, the low one first." },
    { "--as hex", "The text is the key's bytes, two hexadecimal digits each." },
    { "--as utf16", "The text is UTF-8; the key is its UTF-16, low bytes first." },
};

static const struct man_entry man_environment[] = {
    { "NO_COLOR", "If it is set and not empty: no colours, unless --color says so." },
    { "TERM", "A terminal called dumb gets no colours." },
    { "BLOOMGATE_CPU",
      "The instruction set to use at most: scalar, avx2, avx512 or neon. Answers are "
      "the same with each." },
    { "BLOOMGATE_CACHES",
      "Sizes of the L1, L2 and L3 caches, such as 48K,2M,260M. The default is the sizes of "
      "this machine. Set it to plan filters for another machine." },
    { "BLOOMGATE_LOCK_WAIT",
      "How long a command waits for another command that is changing the same file before it "
      "fails with exit code 4, such as 5m; 0 fails at once. The default is 60s." },
};

static void man_formats(void)
{
    static const char *const names[] = {
#define MAN_FORMAT(NAME, number, name) #name,
        BG_FOREIGN_FORMATS(MAN_FORMAT)
#undef MAN_FORMAT
    };
    const size_t n = sizeof names / sizeof *names;
    printf(".SH FILE FORMATS\n");
    roff_paragraphs(
        stdout,
        "Beside its own files bloomgate reads filters that other software has written. "
        "Most of these files do not say what they are: each reader is tried, and if "
        "several accept a file, --format has to say which it is. Its values are auto, "
        "bloomgate, and");
    for (size_t i = 0; i < n; i++) {
        printf("\\fB");
        roff_inside(stdout, names[i]);
        printf("\\fR%s\n", i + 1 < n ? "," : ".");
    }
    roff_paragraphs(
        stdout, "None of these files says how its keys were made into bytes; for guava "
                "and spark --as has to.");
}

static void man_commands(void)
{
    size_t n;
    const struct command *const *all = command_all(&n);
    printf(".SH SUBCOMMANDS\n");
    for (size_t i = 0; i < n; i++) {
        roff_item(stdout, all[i]->name, all[i]->summary);
    }
    roff_item(stdout, "help [SUBCOMMAND]", "what --help of it says");
    roff_item(stdout, "version", "print the version");
}

static void man_see_also(void)
{
    size_t n;
    const struct command *const *all = command_all(&n);
    printf(".SH SEE ALSO\n");
    for (size_t i = 0; i < n; i++) {
        printf(".BR bloomgate\\-%s (1),\n", all[i]->name);
    }
    printf(".BR libbloomgate (3)\n");
}

#define MAN_COUNT(entries) (entries), sizeof(entries) / sizeof *(entries)

static void man_overview(void)
{
    man_title("bloomgate", "filters that answer \"certainly not\" or \"maybe\"");
    printf(".SH SYNOPSIS\n\\fBbloomgate\\fR \\fISUBCOMMAND\\fR [options] ...\n");
    printf(".SH DESCRIPTION\n");
    roff_paragraphs(stdout, man_about);
    man_commands();
    man_section("NUMBERS",
                "Wherever an option takes a number:", MAN_COUNT(man_numbers));
    man_section(
        "KEYS",
        "A record of the input is a line, and the key is the line without its "
        "newline, unless options say otherwise. What is done to the text of a key "
        "(--trim, --lower, --as) is written into the file of a filter, and done "
        "again to what the filter is asked for.",
        MAN_COUNT(man_recipes));
    man_formats();
    man_section("ENVIRONMENT", "Looked at when it begins:", MAN_COUNT(man_environment));
    man_exit_codes();
    man_see_also();
}

void man_write(const struct command *command)
{
    if (command) {
        man_command(command);
    } else {
        man_overview();
    }
}
