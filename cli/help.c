/*
 * help.c - generates --help and the man pages bloomgate(1) and bloomgate-SUBCOMMAND(1) from the
 * option tables (option.h). The pages use man(7) macros; the build runs bloomgate help --man to
 * create them.
 */
#include "columns.h"
#include "command.h"
#include "roff.h"

#include <stdio.h>
#include <string.h>

/* ---- --help ---------------------------------------------------------------------------------- */

enum { HELP_COLUMN = 28, HELP_WIDTH = 80 };

static void help_option(const struct option *option, const char *text)
{
    char left[80];
    const bool takes = option->type != OPTION_FLAG;
    const int n =
        snprintf(left, sizeof left, "  %c%c%c --%s%s%s", option->letter ? '-' : ' ',
                 option->letter ? option->letter : ' ', option->letter ? ',' : ' ',
                 option->name, takes ? " " : "", takes ? option->value : "");
    if (n >= HELP_COLUMN) {
        printf("%s\n", left);
        left[0] = 0;
    }
    columns_paragraph(left, HELP_COLUMN, HELP_WIDTH, text);
}

static void help_group(const struct option_group *group)
{
    printf("\n%s\n", group->title);
    for (const struct option *o = group->options; o->name; o++) {
        help_option(o, o->help);
    }
}

static void help_actions(const struct command *command)
{
    printf("\nActions (see also bloomgate %s ACTION --help)\n", command->name);
    for (const struct command_action *a = command->actions; a->name; a++) {
        char left[80];
        (void)snprintf(left, sizeof left, "  %s %s", a->name, a->usage);
        columns_paragraph(left, HELP_COLUMN, HELP_WIDTH, a->does);
    }
}

/* Returns the help text of an option for an action, without the action's name, or NULL if the option
 * applies only to other actions. */
static const char *help_of_action(const struct command *command, const char *text,
                                  const char *action)
{
    for (const struct command_action *a = command->actions; a->name; a++) {
        const size_t n = strlen(a->name);
        if (strncmp(text, a->name, n) == 0 && strncmp(text + n, ": ", 2) == 0) {
            return strcmp(a->name, action) == 0 ? text + n + 2 : NULL;
        }
    }
    return text;
}

static void help_action_group(const struct command *command,
                              const struct option_group *group, const char *action)
{
    bool titled = false;
    for (const struct option *o = group->options; o->name; o++) {
        const char *text = help_of_action(command, o->help, action);
        if (text && !titled) {
            printf("\n%s\n", group->title);
            titled = true;
        }
        if (text) {
            help_option(o, text);
        }
    }
}

void help_action_write(const struct command *command,
                       const struct command_action *action)
{
    printf("usage: bloomgate %s [options] %s %s\n", command->name, action->name,
           action->usage);
    columns_paragraph("", 7, HELP_WIDTH, action->does);
    for (size_t i = 0; i < action->groups; i++) {
        help_action_group(command, command->uses[i].group, action->name);
    }
    help_group(&common_options);
}

static void help_command(const struct command *command)
{
    printf("usage: bloomgate %s %s\n       %s\n", command->name, command->usage,
           command->summary);
    if (command->actions) { /* the other groups are in the help of the actions */
        help_actions(command);
        for (size_t i = 0; strcmp(command->uses[i].group->title, "Action") != 0; i++) {
            help_group(command->uses[i].group);
        }
    }
    for (const struct option_use *use = command->uses; !command->actions && use->group;
         use++) {
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
    printf("\n  For details, see bloomgate SUBCOMMAND --help or man "
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

/* ---- Man pages ------------------------------------------------------------------------------- */

static void man_title(const char *name, const char *summary)
{
    char source[64];
    (void)snprintf(source, sizeof source, "bloomgate %s", bg_version());
    roff_title(stdout, name, "1", source, "User Commands", summary);
}

/* ---- Shared by all pages --------------------------------------------------------------------- */

static const struct {
    enum cli_exit code;
    const char *means;
} man_exits[] = {
    { CLI_OK, "Success. For check, at least one line was selected." },
    { CLI_NO,
      "For check, no line was selected. For verify, a file is damaged; for diff, the "
      "filters differ; for canary, the test failed. For remove --strict, a key was "
      "not in the filter." },
    { CLI_USAGE, "Invalid command line." },
    { CLI_DATA, "A filter or an input is damaged or invalid." },
    { CLI_IO, "OS error: no such file, no permission, disk full, or another command is "
              "changing the file." },
    { CLI_FULL, "Out of memory, or the filter is full, or too full for its rate." },
    { CLI_INTERRUPTED,
      "Interrupted by SIGINT, SIGTERM, SIGHUP or SIGXCPU; files are unchanged, except "
      "the dedup --state and build --checkpoint files." },
    { CLI_PIPE, "The reader of stdout closed the pipe." },
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

/* ---- Subcommand pages ------------------------------------------------------------------------ */

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
        printf("May be repeated up to %d times.\n", OPTION_LIST_MAX);
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
        /* Without .nf, troff may break the command at a space inside quotes. */
        printf("%s.nf\n\\fB", i > 0 ? ".PP\n" : "");
        roff_inside(stdout, command->examples[i].line);
        printf("\\fR\n.fi\n.RS\n");
        roff_text(stdout, command->examples[i].does);
        printf("\n.RE\n");
    }
}

static void man_actions(const struct command *command)
{
    printf(".SH ACTIONS\n");
    for (const struct command_action *a = command->actions; a->name; a++) {
        char text[200];
        (void)snprintf(text, sizeof text, "%s %s", a->name, a->usage);
        roff_item(stdout, text, a->does);
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
    if (command->actions) {
        man_actions(command);
    }
    man_options(command);
    man_examples(command);
    man_exit_codes();
    printf(".SH SEE ALSO\n"
           "\\fBbloomgate\\fR(1) for number syntax, keys, and file formats\n");
}

/* ---- Overview page --------------------------------------------------------------------------- */

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
    "A filter is a compact representation of a large set of keys. A lookup returns "
    "\"definitely not\", which is always correct, or \"maybe\". For absent keys, it "
    "returns \"maybe\" at a known false-positive rate. bloomgate builds filters from "
    "keys, stores them in files, queries them, and updates them.\n\n"
    "Data goes to stdout; messages go to stderr. Files are replaced atomically, and "
    "existing files are overwritten only with --force. \"--\" ends the options. Options "
    "and arguments may appear in any order.\n\n"
    "\"-\" is stdin for keys, filters and patches, and stdout for a new filter. stdin "
    "can be used only once. If no file is specified, keys are read from stdin. Filters "
    "are never written to a terminal.";

static const struct man_entry man_numbers[] = {
    { "10k 5M 2G 1T 1P",
      "Decimal suffixes (powers of 1000), optionally followed by B." },
    { "64Ki 512Mi 2Gi", "Binary suffixes (powers of 1024)." },
    { "1e6 2.5k", "Numbers with an exponent or a fraction. A count must still be a "
                  "whole number." },
    { "0.001 1e-3 0.1% 1/1000", "Rates between 0 and 1, exclusive." },
    { "30s 5m 2h 1d 1.5ms", "Times. The default unit is seconds." },
};

static const struct man_entry man_recipes[] = {
    { "--null, --length-prefixed, --csv",
      "Records end with NUL, start with a 4-byte little-endian length, or are rows of "
      "CSV, in which quoted fields may contain newlines." },
    { "--field N, --delimiter C",
      "Use the Nth field of the record as the key. The key is empty if the record has "
      "fewer fields. Every delimiter ends a field. The default delimiter is a tab, or "
      "a comma with --csv. With --whitespace, fields are separated by runs of spaces "
      "and tabs." },
    { "--field NAME, --header",
      "Use the column with this name in the header, which is the first record of each "
      "file, as the key. With --field N, --header only skips the header. A FIELD that "
      "consists only of digits is a number, not a name." },
    { "--json PATH",
      "Records are JSON values, one per line. The key is the string, number, true or "
      "false at PATH, such as .user.id, .tags[0] or .[\"a.b\"]. Strings are decoded; "
      "numbers are used as written. If a name occurs twice, the last one counts. The "
      "key is empty if there is no value, or if it is null. Blank lines are ignored." },
    { "--skip-invalid",
      "Skip and count records that are not valid JSON or have no valid key. Without "
      "it, such a record is an error." },
    { "--trim, --lower", "Remove whitespace around the key; convert A-Z to a-z." },
    { "--as int64, --as int32",
      "Parse the text as a decimal integer. The key is the integer as 8 or 4 bytes, "
      "little-endian." },
    { "--as hex",
      "Parse the text as hexadecimal digits, two for each byte of the key." },
    { "--as utf16",
      "Convert the text from UTF-8 to UTF-16. The key is the converted text, "
      "little-endian." },
};

static const struct man_entry man_environment[] = {
    { "NO_COLOR",
      "If set and not empty, disables colors unless --color enables them." },
    { "TERM", "If set to dumb, disables colors." },
    { "BLOOMGATE_CPU",
      "The most capable instruction set to use: scalar, avx2, avx512 or neon. The "
      "choice does not affect results." },
    { "BLOOMGATE_MACHINE",
      "A description that replaces the detected properties of the machine, such as "
      "l1=48Ki,l2=2Mi,l3=260Mi,memory=64Gi,cpus=16: the sizes of the data caches and "
      "the memory, and the number of CPUs. It changes plans and prefetching, but "
      "never filter contents, answers or thread counts. Omitted parts are detected." },
    { "BLOOMGATE_LOCK_WAIT",
      "How long a command waits for another command that is changing the same file, "
      "for example, 5m (default: 60s). After that time, the command fails with exit "
      "code 4. With 0, the command fails immediately." },
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
        "bloomgate also reads filters written by other software. Most of these files "
        "do not identify their format, so bloomgate tries all known formats. If "
        "several formats match a file, set --format. The possible formats are auto, "
        "bloomgate, and");
    for (size_t i = 0; i < n; i++) {
        printf("\\fB");
        roff_inside(stdout, names[i]);
        printf("\\fR%s\n", i + 1 < n ? "," : ".");
    }
    roff_paragraphs(stdout,
                    "These formats do not record how keys were converted to bytes. "
                    "For guava and spark, specify the conversion with --as.");
}

static void man_commands(void)
{
    size_t n;
    const struct command *const *all = command_all(&n);
    printf(".SH SUBCOMMANDS\n");
    for (size_t i = 0; i < n; i++) {
        roff_item(stdout, all[i]->name, all[i]->summary);
    }
    roff_item(stdout, "help [SUBCOMMAND]", "print help for a subcommand");
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
    man_title("bloomgate", "approximate-membership filters that answer \"definitely "
                           "not\" or \"maybe\"");
    printf(".SH SYNOPSIS\n\\fBbloomgate\\fR \\fISUBCOMMAND\\fR [options] ...\n");
    printf(".SH DESCRIPTION\n");
    roff_paragraphs(stdout, man_about);
    man_commands();
    man_section("NUMBERS",
                "Options accept numbers in these forms:", MAN_COUNT(man_numbers));
    man_section(
        "KEYS",
        "By default, a record is a line of the input, and the key is the line without "
        "its newline. Conversions of the key's text (--trim, --lower, --as) are "
        "recorded in the filter file, and lookups apply the same conversions.",
        MAN_COUNT(man_recipes));
    man_formats();
    man_section("ENVIRONMENT", "bloomgate reads these variables at startup:",
                MAN_COUNT(man_environment));
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
