/*
 * settings_print.c - prints the table of options: --help, the example file and
 * bloomgate.conf(5).
 */
#include "config/settings.h"

#include "config/gate_settings.h"
#include "roff.h"

#include <string.h>

enum { SETTINGS_WIDTH = 96, SETTINGS_COLUMN = 40 };

/* ---- Words ------------------------------------------------------------------------------- */

static const char *settings_print_change(enum setting_change change)
{
    return change == SETTING_LIVE        ? "at any time, by CONFIG SET or SIGHUP"
           : change == SETTING_AT_RELOAD ? "only by reloading (SIGHUP)"
                                         : "only with a restart";
}

/* Prints text in lines of at most `width` bytes, each preceded by `front`. */
static void settings_print_wrapped(FILE *to, const char *text, const char *front,
                                   size_t width)
{
    while (*text) {
        size_t n = strlen(text);
        if (n > width) {
            n = width;
            while (n > 0 && text[n] != ' ') {
                n--;
            }
            n = n ? n : width;
        }
        (void)fprintf(to, "%s%.*s\n", front, (int)n, text);
        text += n + (text[n] == ' ');
    }
}

/* ---- --help ------------------------------------------------------------------------------ */

static void settings_print_help_item(FILE *to, const char *left, const char *text)
{
    char front[SETTINGS_COLUMN + 1];
    const size_t width = SETTINGS_WIDTH - SETTINGS_COLUMN;
    (void)snprintf(front, sizeof front, "%*s", SETTINGS_COLUMN, "");
    if (strlen(left) + 2 > SETTINGS_COLUMN) {
        (void)fprintf(to, "%s\n", left);
        settings_print_wrapped(to, text, front, width);
        return;
    }
    char begin[SETTINGS_COLUMN + 1];
    (void)snprintf(begin, sizeof begin, "%-*s", SETTINGS_COLUMN, left);
    size_t n = strlen(text);
    if (n > width) {
        for (n = width; n > 0 && text[n] != ' '; n--) {
        }
    }
    (void)fprintf(to, "%s%.*s\n", begin, (int)n, text);
    settings_print_wrapped(to, text + n + (text[n] == ' '), front, width);
}

static void settings_print_help_option(FILE *to, const struct setting *setting)
{
    char left[128], text[512], choices[128];
    settings_choices(setting, choices, sizeof choices);
    const char *end =
        strstr(setting->help, ". "); /* --help prints only the first sentence */
    const int n = (int)(end ? end - setting->help : (long)strlen(setting->help) - 1);
    (void)snprintf(left, sizeof left, "  --%s %s", setting->name, setting->value);
    (void)snprintf(text, sizeof text, "%.*s%s%s%s%s%s", n, setting->help,
                   *choices ? ": " : "", choices,
                   *setting->initial ? " (default: " : "", setting->initial,
                   *setting->initial ? ")" : "");
    settings_print_help_item(to, left, text);
}

void settings_print_help(FILE *to)
{
    size_t rows;
    const struct setting *table = settings_table(&rows);
    (void)fprintf(
        to, "usage: bloomgated [FILE] [--OPTION VALUE]...\n"
            "       serves approximate-membership filters to Redis clients and over "
            "HTTP\n"
            "\n");
    static const struct {
        const char *left, *text;
    } actions[] = {
        { "  -c, --config FILE",
          "read options from FILE (same as FILE without an option)" },
        { "  --check-config", "validate the configuration and exit" },
        { "  --print-config", "print an example file with all options and their "
                              "defaults" },
        { "  --print-man", "print the man page bloomgate.conf(5)" },
        { "  --hash-password", "read a password from stdin and print its hash" },
        { "  -h, --help", "print this help" },
        { "  -V, --version", "print the version" },
    };
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        settings_print_help_item(to, actions[i].left, actions[i].text);
    }
    for (size_t i = 0; i < rows; i++) {
        if (table[i].name) {
            settings_print_help_option(to, &table[i]);
        } else {
            (void)fprintf(to, "\n%s\n", table[i].section);
        }
    }
    (void)fprintf(to,
                  "\n"
                  "Options can be set in a file (port 6420), in the environment "
                  "(BLOOMGATED_PORT=6420)\n"
                  "or on the command line, which takes precedence. See man "
                  "bloomgate.conf.\n"
                  "\n"
                  "Examples\n"
                  "  bloomgated --dir ./data --keyring ./keyring\n"
                  "      listen on this machine only, on the default ports\n"
                  "  bloomgated -c /etc/bloomgate/bloomgate.conf --log-level debug\n"
                  "      use this file, with more detailed logging\n");
}

/* ---- The example file --------------------------------------------------------------------- */

static void settings_print_example(FILE *to, const char *text)
{
    settings_print_wrapped(to, text, "# ", SETTINGS_WIDTH - 2);
}

static void settings_print_config_option(FILE *to, const struct setting *setting)
{
    char choices[128], line[256];
    settings_print_example(to, setting->help);
    settings_choices(setting, choices, sizeof choices);
    (void)snprintf(line, sizeof line, "%s%s%sCan be changed %s.",
                   *choices ? "One of " : "", choices, *choices ? ". " : "",
                   settings_print_change(setting->change));
    settings_print_example(to, line);
    if (setting->type == SETTING_USER) {
        (void)fprintf(
            to, "#\n"
                "# user alice on $scrypt$... +@all -@dangerous ~acme:* rate=5000\n"
                "# user metrics on $scrypt$... +info\n\n");
    } else if (setting->type == SETTING_GATE) {
        (void)fprintf(to,
                      "#\n"
                      "# gate catalog source=sqlite:/srv/shop.db follow=changes \\\n"
                      "#     keys=product(id) \\\n"
                      "#     lookup=\"SELECT * FROM product WHERE id = ?\"\n\n");
    } else if (setting->type == SETTING_SHARDED) {
        (void)fprintf(
            to, "#\n"
                "# sharded seen nodes=10.0.0.1:6379,10.0.0.2:6379 shards=16 \\\n"
                "#     tls=yes tls-ca=/etc/bloomgate/ca.pem \\\n"
                "#     user=front password-file=/etc/bloomgate/front.password\n\n");
    } else {
        (void)fprintf(to, "#%s %s\n\n", setting->name,
                      *setting->initial ? setting->initial : "\"\"");
    }
}

void settings_print_config(FILE *to)
{
    size_t rows;
    const struct setting *table = settings_table(&rows);
    (void)fprintf(
        to,
        "# bloomgate.conf - bloomgated settings: every option with its default.\n#\n# "
        "Each line is a name and a value. Quote values that contain spaces or begin "
        "with #. A line\n# that ends with \\ continues on the next line. include PATH "
        "reads another file, or all files\n# that match a pattern. Later lines "
        "override earlier ones; the environment\n# (BLOOMGATED_PORT=6420) and the "
        "command line (--port 6420) override the file.\n#\n# Numbers: 10k 5M 2Gi 1e6; "
        "times: 90s 5m 2h 1d; rates: 0.01 1%% 1/100.\n# This file was printed by "
        "bloomgated --print-config. See also bloomgate.conf(5).\n\n");
    for (size_t i = 0; i < rows; i++) {
        if (table[i].name) {
            settings_print_config_option(to, &table[i]);
        } else {
            (void)fprintf(to, "# ---- %s\n\n", table[i].section);
        }
    }
}

/* ---- bloomgate.conf(5) --------------------------------------------------------------------- */

struct settings_entry {
    const char *tag, *text;
};

static const struct settings_entry settings_numbers[] = {
    { "10k 5M 2G 1T", "Powers of 1000; may be followed by B." },
    { "64Ki 512Mi 2Gi", "Powers of 1024." },
    { "1e6 2.5k",
      "Exponents and fractions; a count must be a whole number after conversion." },
    { "0.001 1e-3 0.1% 1/1000", "Rates and ratios." },
    { "30s 5m 2h 1d 1.5ms", "Times; the default unit is seconds." },
};

static const struct settings_entry settings_rules[] = {
    { "on, off", "Whether the user may log in." },
    { "$scrypt$...",
      "A password, hashed by bloomgated --hash-password. A user may have several, so "
      "that a password can be replaced while clients still use the old one." },
    { ">password",
      "A password in plain text. For experiments only: do not store it in the file." },
    { "nopass",
      "Accepts any password. If the default user has this rule, clients need not log "
      "in." },
    { "+name, -name", "Allows or forbids a command: +bf.add." },
    { "+@category, -@category",
      "Allows or forbids the commands in a category: @all, @read, @write, @fast, "
      "@slow, @admin, @dangerous, @bloom (BF), @cuckoo (CF), @gate (BG), @keyspace, "
      "@connection." },
    { "allcommands, nocommands", "The same as +@all and -@all." },
    { "~pattern",
      "Allows access to filters whose names match the pattern, and to matching files "
      "used by BG.PUBLISH and BG.RELOAD. In a pattern, * matches any text, ? matches "
      "one byte, and [a-z] matches one byte of a set; \\ escapes the next byte." },
    { "%R~pattern, %W~pattern",
      "The same as ~pattern, but only for commands that read (%R) or only for commands "
      "that write (%W)." },
    { "allkeys", "The same as ~*." },
    { "rate=N, burst=N",
      "Maximum number of adds per second, and maximum number in a burst (default: one "
      "second's worth)." },
    { "quota-memory=SIZE, quota-filters=N",
      "Maximum memory of the filters that the user may write to and of the user's "
      "dumps, and maximum number of these filters (0: no quota). Requests of the user "
      "that would exceed a quota fail." },
    { "reset", "Removes all permissions." },
};

static const struct settings_entry settings_files[] = {
    { "/etc/bloomgate/bloomgate.conf",
      "The configuration file that the systemd unit uses. It overrides the unit's "
      "defaults in /usr/share/bloomgate/systemd.conf." },
    { "/etc/bloomgate/keyring",
      "Secrets for keyed filters; see keyring. With the systemd unit: "
      "/var/lib/bloomgate-secrets/keyring." },
    { "/var/lib/bloomgate", "Snapshots and journals; see dir." },
};

static void settings_print_man_section(FILE *to, const char *title, const char *text,
                                       const struct settings_entry *entries, size_t n)
{
    (void)fprintf(to, ".SH %s\n", title);
    roff_paragraphs(to, text);
    for (size_t i = 0; i < n; i++) {
        roff_item(to, entries[i].tag, entries[i].text);
    }
}

static void settings_print_man_tag(FILE *to, const char *name, const char *between,
                                   const char *value)
{
    (void)fprintf(to, ".TP\n\\fB");
    roff_inside(to, name);
    (void)fprintf(to, "\\fR%s\\fI", between);
    roff_inside(to, value);
    (void)fprintf(to, "\\fR\n");
}

static void settings_print_man_default(FILE *to, const char *text)
{
    if (*text) {
        (void)fprintf(to, "Default: ");
        roff_inside(to, text);
        (void)fprintf(to, ".\n");
    }
}

static void settings_print_man_option(FILE *to, const struct setting *setting)
{
    char choices[128];
    settings_print_man_tag(to, setting->name, " ", setting->value);
    roff_paragraphs(to, setting->help);
    settings_choices(setting, choices, sizeof choices);
    if (*choices) {
        (void)fprintf(to, "One of ");
        roff_inside(to, choices);
        (void)fprintf(to, ".\n");
    }
    settings_print_man_default(to, setting->initial);
    (void)fprintf(to, "Can be changed %s.\n", settings_print_change(setting->change));
}

static void settings_print_man_options(FILE *to)
{
    size_t rows;
    const struct setting *table = settings_table(&rows);
    (void)fprintf(to, ".SH OPTIONS\n");
    for (size_t i = 0; i < rows; i++) {
        if (table[i].name) {
            settings_print_man_option(to, &table[i]);
        } else {
            (void)fprintf(to, ".SS %s\n", table[i].section);
        }
    }
}

static void settings_print_man_gates(FILE *to)
{
    (void)fprintf(to, ".SH GATES\n");
    roff_paragraphs(
        to,
        "A gate answers a lookup from its filter if the filter answers \"no\", and "
        "otherwise queries a database. Each gate is one line: its name, then settings "
        "as NAME=VALUE.");
    for (size_t i = 0; gate_settings_name(i); i++) {
        const char *initial = gate_settings_default(i);
        settings_print_man_tag(to, gate_settings_name(i), "=", "VALUE");
        roff_text(to, gate_settings_summary(i));
        (void)fprintf(to, ".\n");
        if (initial) {
            settings_print_man_default(to, initial);
        } else {
            (void)fprintf(to, "Required.\n");
        }
    }
}

#define SETTINGS_COUNT(entries) (entries), sizeof(entries) / sizeof *(entries)

void settings_print_man(FILE *to)
{
    roff_title(to, "bloomgate.conf", "5", "bloomgate " BG_VERSION, "File Formats",
               "settings of bloomgated");
    (void)fprintf(to, ".SH DESCRIPTION\n");
    roff_paragraphs(
        to,
        "bloomgated(8) reads its settings from the file specified on its command line. "
        "Each line is a name and a value, separated by spaces. A # begins a comment. "
        "Quote values that contain spaces or begin with #: in \"double\" quotes, \\\" "
        "\\\\ \\n \\r \\t and \\xHH have the same meaning as in C; in 'single' quotes, "
        "only \\' is special. A line that ends with \\ continues on the next "
        "line.\n\ninclude PATH reads another file, or all files that match a pattern. "
        "Relative paths are relative to the directory of the including file. Later "
        "lines override earlier ones, except that lines for users, gates and sharded "
        "filters are cumulative.\n\nThe same names are used in the environment "
        "(BLOOMGATED_HTTP_PORT=8420), on the command line (--http-port 8420) and by "
        "the CONFIG command. The command line overrides the environment, which "
        "overrides the file.\n\nOn SIGHUP, the service reloads its settings. Options "
        "that can be changed at runtime take effect, and values set by CONFIG SET are "
        "replaced by those in the file. The log lists changed options that require a "
        "restart. If the file contains errors, no settings change. Otherwise, the "
        "service also reloads its certificates and its keyring.");
    settings_print_man_section(to, "NUMBERS",
                               "Options that take a number accept these "
                               "forms:",
                               SETTINGS_COUNT(settings_numbers));
    settings_print_man_options(to);
    settings_print_man_section(
        to, "USERS",
        "A line of the form \"user NAME RULE...\" defines a user's permissions. Rules "
        "apply from left to right, starting from no permissions. Clients that have not "
        "logged in act as the default user. If no line defines the default user, it "
        "has all permissions; if requirepass is set, it needs that password.",
        SETTINGS_COUNT(settings_rules));
    settings_print_man_gates(to);
    settings_print_man_section(
        to, "FILES", "Paths of an installed service:", SETTINGS_COUNT(settings_files));
    (void)fprintf(to, ".SH SEE ALSO\n.BR bloomgated (8),\n.BR bloomgate (1)\n");
}
