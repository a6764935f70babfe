/*
 * test_cli_option.c - tests the option parser with a table that contains every option type. Also
 * checks that help, man pages and completions can be generated from all subcommands' option tables.
 */
#define _POSIX_C_SOURCE 200809L /* open_memstream */

#include "support/check.h"
#include "support/streams.h"

#include "command.h"
#include "nearest.h"

#include <ctype.h>
#include <string.h>

struct inner {
    uint64_t count;
    double rate;
};

struct outer {
    bool flag, other;
    const char *text;
    struct option_list list;
    uint64_t bytes;
    double real, seconds;
    int choice;
    struct inner inner;
};

static const char *const colors[] = { "red", "green", "blue", NULL };

#define AT(field) offsetof(struct outer, field)
static const struct option outer_table[] = {
    { "flag", 'f', OPTION_FLAG, AT(flag), NULL, "help", NULL },
    { "other", 'o', OPTION_FLAG, AT(other), NULL, "help", NULL },
    { "text", 't', OPTION_TEXT, AT(text), "TEXT", "help", NULL },
    { "list", 'l', OPTION_LIST, AT(list), "ITEM", "help", NULL },
    { "bytes", 0, OPTION_BYTES, AT(bytes), "SIZE", "help", NULL },
    { "real", 0, OPTION_REAL, AT(real), "X", "help", NULL },
    { "seconds", 0, OPTION_SECONDS, AT(seconds), "TIME", "help", NULL },
    { "choice", 'c', OPTION_CHOICE, AT(choice), "COLOR", "help", colors },
    { NULL, 0, OPTION_FLAG, 0, NULL, NULL, NULL },
};
#undef AT
#define AT(field) offsetof(struct inner, field)
static const struct option inner_table[] = {
    { "count", 'n', OPTION_COUNT, AT(count), "N", "help", NULL },
    { "rate", 'p', OPTION_RATE, AT(rate), "P", "help", NULL },
    { NULL, 0, OPTION_FLAG, 0, NULL, NULL, NULL },
};
#undef AT
static const struct option_group outer_group = { "Outer", outer_table };
static const struct option_group inner_group = { "Inner", inner_table };
static const struct option_use uses[] = {
    { &outer_group, 0 },
    { &inner_group, offsetof(struct outer, inner) },
    { NULL, 0 },
};

enum { WORDS = 80 };

/* A command line and the result of parsing it. In `text`, words are separated by spaces, and "~" is
 * an empty word. */
struct line {
    char text[2048];
    char *words[WORDS];
    size_t count;
    struct outer options;
    struct arguments left;
    char *said;
};

static bool read_line(struct line *line, const char *text)
{
    struct stream_capture said;
    char *rest = NULL;
    line->count = 0;
    line->options = (struct outer){ 0 };
    CHECK(strlen(text) < sizeof line->text);
    (void)snprintf(line->text, sizeof line->text, "%s", text);
    for (char *word = strtok_r(line->text, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        CHECK(line->count < WORDS);
        if (strcmp(word, "~") == 0) {
            *word = 0;
        }
        line->words[line->count++] = word;
    }
    stream_begin(&said, &stderr);
    const bool good =
        option_read(uses, &line->options, line->words, line->count, &line->left);
    (void)stream_end(&said);
    line->said = said.text;
    return good;
}

static void check_good(struct line *line, const char *text, size_t left)
{
    CHECK(read_line(line, text));
    CHECK_STR(line->said, "");
    CHECK_EQ(line->left.count, left);
    free(line->said);
}

static void check_bad(const char *text, const char *message)
{
    struct line line;
    char expected[512];
    CHECK(!read_line(&line, text));
    (void)snprintf(expected, sizeof expected,
                   "bloomgate: %s\nTry 'bloomgate --help'.\n", message);
    CHECK_STR(line.said, expected);
    free(line.said);
}

TEST(option__every_type)
{
    struct line l;
    check_good(&l,
               "--flag --text some --list a --list=b --bytes 2Ki --real 2.5 "
               "--seconds 5m --choice blue --count 10k --rate 1%",
               0);
    CHECK(l.options.flag && !l.options.other);
    CHECK_STR(l.options.text, "some");
    CHECK_EQ(l.options.list.count, 2);
    CHECK_STR(l.options.list.items[0], "a");
    CHECK_STR(l.options.list.items[1], "b");
    CHECK_EQ(l.options.bytes, 2048);
    CHECK(l.options.real == 2.5 && l.options.seconds == 300);
    CHECK_EQ(l.options.choice, 2);
    CHECK_EQ(l.options.inner.count, 10000);
    CHECK_NEAR(l.options.inner.rate, 0.01, 1e-12);
}

TEST(option__ways_to_write_one)
{
    static const char *const same[] = { "-f -n 5 x y",   "-fn5 x y",
                                        "-fn 5 x y",     "x -f y --count=5",
                                        "x y -n5 -f",    "--count 5 -f -- x y",
                                        "-n 4 -fn5 x y", "x -fn5 -- y" };
    struct line l;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        check_good(&l, same[i], 2);
        CHECK(l.options.flag && !l.options.other && l.options.inner.count == 5);
        CHECK_STR(l.left.items[0], "x");
        CHECK_STR(l.left.items[1], "y");
    }
    check_good(&l, "-ofofo", 0);
    CHECK(l.options.flag && l.options.other);
    check_good(&l, "--text=a=b --text --flag", 0);
    CHECK_STR(l.options.text, "--flag");
    CHECK(!l.options.flag);
    check_good(&l, "--text=", 0);
    CHECK_STR(l.options.text, "");
    check_good(&l, "-t=x", 0);
    CHECK_STR(l.options.text, "=x");
}

TEST(option__what_is_none)
{
    struct line l;
    check_good(&l, "", 0);
    check_good(&l, "- ~ -- - -- --flag -x", 6);
    CHECK_STR(l.left.items[0], "-");
    CHECK_STR(l.left.items[1], "");
    CHECK_STR(l.left.items[2], "-");
    CHECK_STR(l.left.items[3], "--");
    CHECK_STR(l.left.items[4], "--flag");
    CHECK_STR(l.left.items[5], "-x");
    CHECK(!l.options.flag);
    check_good(&l, "--text --", 0); /* as in getopt */
    CHECK_STR(l.options.text, "--");
}

TEST(option__mistakes)
{
    check_bad("--flga", "unknown option --flga; did you mean --flag?");
    check_bad("--se", "unknown option --se");
    check_bad("--sec", "unknown option --sec; did you mean --seconds?");
    check_bad("--zzzz=5", "unknown option --zzzz");
    check_bad("-x", "unknown option -x");
    check_bad("-fx", "unknown option -x");
    check_bad("-f-", "unknown option --");
    check_bad("--flag=yes", "--flag takes no value");
    check_bad("--flag=", "--flag takes no value");
    check_bad("--text", "--text requires a value: TEXT");
    check_bad("-ft", "--text requires a value: TEXT");
    check_bad(
        "--choice rd",
        "--choice: found 'rd', expected one of red, green, blue; did you mean red?");
    check_bad("-c7", "--choice: found '7', expected one of red, green, blue");
    check_bad(
        "--count 1.5",
        "--count: found '1.5', expected a whole number such as 1000, 10k, 5M or 1e6");
    check_bad("--bytes= 5",
              "--bytes: found '', expected a number of bytes such as 64k, 512M or 2Gi");
    check_bad("--real x", "--real: found 'x', expected a number such as 2.5");
    check_bad("--seconds 1y",
              "--seconds: found '1y', expected a time such as 30s, 5m or 1.5ms");
    check_bad("-p 1",
              "--rate: found '1', expected a number above 0 and below 1, such as "
              "0.01, 1e-3 or 0.1%");
}

TEST(option__a_list_has_an_end)
{
    char text[5 * OPTION_LIST_MAX + 8];
    size_t n = 0;
    for (int i = 0; i < OPTION_LIST_MAX; i++, n += 4) {
        memcpy(text + n, "-la ", 5);
    }
    struct line l;
    check_good(&l, text, 0);
    CHECK_EQ(l.options.list.count, OPTION_LIST_MAX);
    memcpy(text + n, "-lb", 4);
    check_bad(text, "--list: cannot be repeated more than 64 times");
}

TEST(nearest__names)
{
    static const char *const names[] = { "build", "check", "completion", "diff",
                                         "dedup" };
    CHECK_STR(nearest_name("build", names, 5), "build");
    CHECK_STR(nearest_name("biuld", names, 5), "build");
    CHECK_STR(nearest_name("buil", names, 5), "build");
    CHECK_STR(nearest_name("buildd", names, 5), "build");
    CHECK_STR(nearest_name("bxild", names, 5), "build");
    CHECK_STR(nearest_name("comp", names, 5), "completion");
    CHECK_STR(nearest_name("dif", names, 5), "diff");
    CHECK(!nearest_name("wholly-other", names, 5));
    CHECK(!nearest_name("", names, 5));
    CHECK(!nearest_name("load", names, 5));
    CHECK(!nearest_name("build", names, 0));
    CHECK(
        !nearest_name("an-endlessly-long-name-that-nobody-would-ever-type", names, 5));
}

/* A swap is nearer than a name that starts with the typed text, and short words may have only one
 * mistake. */
TEST(nearest__prefers_likely_mistakes)
{
    static const char *const names[] = { "protected", "port", "gate", "maxmemory",
                                         "tls-port" };
    CHECK_STR(nearest_name("prot", names, 5), "port");
    CHECK_STR(nearest_name("prto", names, 5), "port");
    CHECK_STR(nearest_name("prote", names, 5), "protected");
    CHECK_STR(nearest_name("protected-mode", names, 5), "protected");
    CHECK_STR(nearest_name("memory", names, 5), "maxmemory");
    CHECK_STR(nearest_name("tlsport", names, 5), "tls-port");
    CHECK(!nearest_name("save", names, 5));
    CHECK(!nearest_name("data", names, 5));
}

TEST(nearest__synonyms)
{
    static const char *const names[] = { "rate", "items" };
    static const struct nearest_synonym synonyms[] = { { "error-rate", "rate" },
                                                       { "size", "bytes" },
                                                       { "capacity", "items" },
                                                       { NULL, NULL } };
    CHECK_STR(nearest_meaning("error_rate", synonyms, names, 2), "rate");
    CHECK_STR(nearest_meaning("itmes", synonyms, names, 2), "items");
    CHECK(!nearest_meaning("size", synonyms, names, 2)); /* bytes is not an option */
    CHECK_STR(nearest_meaning("errorrate", synonyms, names, 2), "rate");
    CHECK_STR(nearest_meaning("capasity", synonyms, names, 2), "items");
    CHECK_STR(nearest_meaning("Items", synonyms, names, 2), "items");
    CHECK_STR(nearest_meaning("RATE", synonyms, names, 2), "rate");
}

/* ---- Tables of the subcommands ----------------------------------------------------------- */

static bool is_name(const char *name)
{
    return strlen(name) <= 24
           && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(name);
}

/* Returns the size of a field of this type, to check that every field is inside the subcommand's
 * struct. */
static size_t type_size(enum option_type type)
{
    switch (type) {
    case OPTION_FLAG: return sizeof(bool);
    case OPTION_TEXT: return sizeof(const char *);
    case OPTION_LIST: return sizeof(struct option_list);
    case OPTION_CHOICE: return sizeof(int);
    case OPTION_COUNT:
    case OPTION_BYTES:
    case OPTION_REAL:
    case OPTION_RATE:
    case OPTION_SECONDS: break;
    }
    return 8;
}

static void check_option(const struct command *command, const struct option_use *all,
                         const struct option_use *use, const struct option *o)
{
    size_t at, letters = 0;
    CHECK(is_name(o->name));
    CHECK(option_find(all, o->name, &at) == o); /* no other option has this name */
    CHECK_EQ(at, use->at + o->at);
    CHECK(at + type_size(o->type) <= command->size);
    CHECK(o->letter == 0 || isalnum((unsigned char)o->letter));
    for (const struct option_use *u = all; o->letter && u->group; u++) {
        for (const struct option *other = u->group->options; other->name; other++) {
            letters += other->letter == o->letter;
        }
    }
    CHECK_EQ(letters, o->letter != 0);
    CHECK(o->help && *o->help && o->help[strlen(o->help) - 1] != '.');
    CHECK((o->type == OPTION_FLAG) == (o->value == NULL));
    CHECK((o->type == OPTION_CHOICE) == (o->choices != NULL));
}

TEST(option__tables_of_all_subcommands)
{
    size_t n;
    const struct command *const *all = command_all(&n);
    CHECK(n >= 3);
    for (size_t i = 0; i < n; i++) {
        struct option_use groups[COMMAND_USES + 2];
        command_options(all[i], groups);
        CHECK(command_find(all[i]->name) == all[i]);
        CHECK(is_name(all[i]->name));
        CHECK(all[i]->size >= sizeof(struct common) && all[i]->run);
        CHECK(strlen(all[i]->summary) <= 66 && strlen(all[i]->about) > 40);
        for (int e = 0; e < COMMAND_EXAMPLES; e++) {
            CHECK(all[i]->examples[e].line && all[i]->examples[e].does);
        }
        for (const struct option_use *use = groups; use->group; use++) {
            for (const struct option *o = use->group->options; o->name; o++) {
                check_option(all[i], groups, use, o);
            }
        }
    }
}
