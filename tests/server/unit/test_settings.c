/*
 * test_settings.c - tests the table of options and everything that uses it: values, files, the
 * command line, the environment, CONFIG, reloading, and printed output.
 */
#define _GNU_SOURCE

#include "support/check.h"
#include "support/scratch.h"
#include "support/streams.h"

#include "config/gate_settings.h"
#include "config/settings.h"
#include "util/quiet.h"
#include "util/words.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>

/* ---- Helpers ------------------------------------------------------------------------------- */

/* The errors and warnings, one message per line. */
enum { TOLD = 1 << 17 };

struct told {
    char mistakes[TOLD], doubts[TOLD];
};

static void hear(void *context, bool mistake, const char *text)
{
    struct told *told = context;
    char *to = mistake ? told->mistakes : told->doubts;
    const size_t used = strlen(to);
    (void)snprintf(to + used, TOLD - used, "%s\n", text);
}

static struct told told;
static struct settings_draft draft;

static void begin(void)
{
    told = (struct told){ "", "" };
    CHECK(settings_draft_init(&draft, hear, &told));
}

static void read_text(const char *text)
{
    settings_read_text(&draft, "conf", text, strlen(text));
}

/* Reads a configuration text that must be valid, and returns its settings. */
static const struct settings *good(const char *text)
{
    settings_draft_free(&draft);
    begin();
    read_text(text);
    CHECK_STR(told.mistakes, "");
    return &draft.settings;
}

/* Checks that an invalid configuration produces exactly the errors in `said`. */
static void bad(const char *text, const char *said)
{
    settings_draft_free(&draft);
    begin();
    read_text(text);
    CHECK_STR(told.mistakes, said);
    CHECK(draft.mistakes > 0);
}

/* Returns the errors that settings_check finds in otherwise valid settings. */
static const char *whole(const char *text)
{
    (void)good(text);
    const bool fine = settings_check(&draft, NULL, 0);
    CHECK_EQ(fine, *told.mistakes == 0);
    return told.mistakes;
}

static struct words split;

static const char *word(const char *text, size_t i)
{
    words_free(&split);
    CHECK(!words_split(&split, text, strlen(text)));
    return i < split.count ? split.items[i] : NULL;
}

#define GATE " source=sqlite:/srv/shop.db keys=product(id) follow=changes lookup=x "

/* ---- Splitting into words ------------------------------------------------------------------ */

TEST(words__are_split)
{
    CHECK_STR(word("port 6420", 0), "port");
    CHECK_STR(word("port 6420", 1), "6420");
    CHECK_STR(word("port 6420", 2), NULL);
    CHECK_STR(word("  \t a \r\n", 0), "a");
    CHECK_STR(word("", 0), NULL);
    CHECK_STR(word(" # all of it", 0), NULL);
    CHECK_STR(word("a # b", 1), NULL);
    CHECK_STR(word("a b#c", 1), "b#c");
    CHECK_STR(word("a \"#b\"", 1), "#b");
    CHECK_STR(word("a \"\" b", 1), "");
    CHECK_STR(word("a \"\" b", 2), "b");
    CHECK_STR(word("q=\"SELECT a, 'b'\" x", 0), "q=SELECT a, 'b'");
    CHECK_STR(word("q=\"SELECT a, 'b'\" x", 1), "x");
    CHECK_STR(word("'a b'c\"d e\"", 0), "a bcd e");
    CHECK_STR(word("\"\\\"\\\\\\n\\r\\t\\x41\"", 0), "\"\\\n\r\tA");
    CHECK_STR(word("'\\' \\n'", 0), "' \\n");
    CHECK_STR(word("C:\\dir", 0), "C:\\dir");
    words_free(&split);
}

TEST(words__mistakes)
{
    static const struct {
        const char *text, *wrong;
    } cases[] = {
        { "a \"b", "missing closing \"" },
        { "a 'b", "missing closing '" },
        { "\"\\q\"",
          "invalid escape in double quotes; use \\\" \\\\ \\n \\r \\t or \\xHH" },
        { "\"\\x4\"",
          "invalid escape in double quotes; use \\\" \\\\ \\n \\r \\t or \\xHH" },
        { "\"\\", "missing closing \"" },
        { "\"\\x00\"", "\\x00 is not allowed: text cannot contain NUL bytes" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_STR(words_split(&split, cases[i].text, strlen(cases[i].text)),
                  cases[i].wrong);
    }
    CHECK_STR(words_split(&split, "a\0b", 3), "the line contains a NUL byte");
    static char many[2 * WORDS_MAX + 2];
    for (size_t i = 0; i < sizeof many; i++) {
        many[i] = i % 2 ? ' ' : 'x';
    }
    CHECK_STR(words_split(&split, many, sizeof many), "too many words (maximum: 1024)");
    CHECK(!words_split(&split, many, sizeof many - 2));
    CHECK_EQ(split.count, WORDS_MAX);
    words_free(&split);
}

/* ---- The table ------------------------------------------------------------------------------ */

static bool is_name(const char *name)
{
    for (const char *c = name; *c; c++) {
        if (!(*c >= 'a' && *c <= 'z') && *c != '-') {
            return false;
        }
    }
    return *name && *name != '-' && strlen(name) < 40;
}

TEST(table__every_row_makes_sense)
{
    size_t rows, options = 0;
    const struct setting *table = settings_table(&rows);
    CHECK(!table[0].name && table[0].section);
    for (size_t i = 0; i < rows; i++) {
        if (!table[i].name) {
            CHECK(table[i].section && i + 1 < rows && table[i + 1].name);
            continue;
        }
        options++;
        CHECK(is_name(table[i].name));
        CHECK(settings_find(table[i].name) == &table[i]); /* no duplicate names */
        CHECK(strcmp(table[i].name, "include") != 0
              && strcmp(table[i].name, "config") != 0);
        CHECK(isupper((unsigned char)*table[i].help)
              || isdigit((unsigned char)*table[i].help));
        CHECK(table[i].help[strlen(table[i].help) - 1] == '.');
        CHECK(table[i].value && *table[i].value);
        CHECK((table[i].type == SETTING_CHOICE) == (table[i].choices != NULL));
        CHECK(table[i].least <= table[i].most);
        /* settings that can change at run time must not own memory */
        if (table[i].change == SETTING_LIVE) {
            CHECK(table[i].type != SETTING_TEXT && table[i].type != SETTING_SECRET);
            CHECK(table[i].type != SETTING_LIST && table[i].type != SETTING_USER);
            CHECK(table[i].type != SETTING_GATE);
        }
    }
    CHECK(options > 50);
    CHECK(rows <= SETTINGS_ROWS_MAX);
}

TEST(table__defaults)
{
    const struct settings *s = good("");
    CHECK_EQ(s->bind.count, 2);
    CHECK_STR(s->bind.items[0], "127.0.0.1");
    CHECK_STR(s->bind.items[1], "-::1");
    CHECK_EQ(s->port, 6420);
    CHECK_EQ(s->http_port, 8420);
    CHECK_EQ(s->tls_port, 0);
    CHECK_EQ(s->unixsocketperm, 0700);
    CHECK(s->protected_mode && s->appendonly && s->http_auth && s->metrics_auth);
    CHECK(!s->core_dumps);
    CHECK_EQ(s->appendfsync, FSYNC_EVERYSEC);
    CHECK_EQ(settings_hash(s), BG_HASH_KEYED);
    CHECK_EQ(s->loading, LOADING_MAYBE);
    CHECK_EQ(s->maxclients, 10000);
    CHECK_NEAR(s->bf_error_rate, 0.01, 1e-9);
    CHECK_NEAR(s->snapshot_interval, 900, 1e-9);
    CHECK(s->maxmemory > s->max_filter_memory && s->max_filter_memory > 1 << 20);
    CHECK_STR(s->requirepass, "");
    CHECK_EQ(s->users.count + s->gates.count, 0);
    CHECK(*s->dir && *s->keyring);
    CHECK_STR(whole(""), "");
}

/* ---- Values -------------------------------------------------------------------------------- */

TEST(values__of_every_type)
{
    CHECK_EQ(good("port 0")->port, 0);
    CHECK_EQ(good("port 65535")->port, 65535);
    CHECK_EQ(good("maxclients 20k")->maxclients, 20000);
    CHECK_EQ(good("proto-max-bulk-len 2Mi")->proto_max_bulk_len, 2 << 20);
    CHECK_EQ(good("maxmemory 1G")->maxmemory, 1000000000);
    CHECK_EQ(good("maxmemory 0")->maxmemory, 0);
    const uint64_t half = good("maxmemory 50%")->maxmemory;
    CHECK_NEAR(good("maxmemory 25%")->maxmemory, (double)half / 2, 1e-6);
    CHECK_EQ(good("unixsocketperm 770")->unixsocketperm, 0770);
    CHECK_NEAR(good("bf-error-rate 0.1%")->bf_error_rate, 0.001, 1e-9);
    CHECK_NEAR(good("timeout 1.5m")->timeout, 90, 1e-9);
    CHECK(!good("appendonly no")->appendonly);
    CHECK_EQ(good("appendfsync always")->appendfsync, FSYNC_ALWAYS);
    CHECK_STR(good("requirepass \"a b\"")->requirepass, "a b");
    CHECK_STR(good("unixsocket /run/x\nunixsocket \"\"")->unixsocket, "");
    CHECK_EQ(good("bind ::1")->bind.count, 1);
    CHECK_EQ(good("port 1\nport 2")->port, 2);
}

TEST(values__mistakes)
{
    bad("port 65536",
        "conf:1: port: found '65536', expected a whole number from 0 to 65535\n");
    bad("port -1",
        "conf:1: port: found '-1', expected a whole number from 0 to 65535\n");
    bad("port x", "conf:1: port: found 'x', expected a whole number from 0 to 65535\n");
    bad("port \"\"",
        "conf:1: port: found '', expected a whole number from 0 to 65535\n");
    bad("port", "conf:1: port: found 0 values, expected one: PORT\n");
    bad("port 1 2", "conf:1: port: found 2 values, expected one: PORT\n");
    bad("\n\nprto 1", "conf:3: unknown option 'prto'; did you mean port?\n");
    bad("wholly-other 1", "conf:1: unknown option 'wholly-other'\n");
    bad("inclde x", "conf:1: unknown option 'inclde'; did you mean include?\n");
    bad("proto-max-bulk-len 10",
        "conf:1: proto-max-bulk-len: found '10', expected a size such "
        "as 64k, 512M or 2Gi, from 1.0 KiB to 1.0 TiB\n");
    bad("maxmemory 200%",
        "conf:1: maxmemory: found '200%', expected a size such as 64k, 512M or "
        "2Gi, or a percentage such as 75%, from 0 B to 1.0 PiB\n");
    bad("unixsocketperm 888",
        "conf:1: unixsocketperm: found '888', expected an octal number from 0 to 777\n");
    bad("unixsocketperm 7777",
        "conf:1: unixsocketperm: found '7777', expected an octal number from 0 to 777\n");
    bad("bf-error-rate 1",
        "conf:1: bf-error-rate: found '1', expected a rate above 0 and below 1, such as 0.01 or "
        "0.1%\n");
    bad("timeout soon",
        "conf:1: timeout: found 'soon', expected a time such as 30s, 5m or 1.5h, "
        "from 0 to 31536000 seconds\n");
    bad("appendonly ja", "conf:1: appendonly: found 'ja', expected yes or no\n");
    bad("appendfsync evrysec",
        "conf:1: appendfsync: found 'evrysec', expected one of always, everysec, no; did you mean "
        "everysec?\n");
    bad("bind \"\"", "conf:1: bind: found '', expected ADDRESS...\n");
    bad("bind 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17",
        "conf:1: bind: found 17 values, expected at most 16\n");
    bad("a \"b", "conf:1: missing closing \"\n");
    /* all errors are reported, and valid options are still set */
    bad("port x\nhttp-port 1\ntimeout y",
        "conf:1: port: found 'x', expected a whole number from 0 to 65535\n"
        "conf:3: timeout: found 'y', expected a time such as 30s, 5m or 1.5h, from 0 to 31536000 "
        "seconds\n");
    CHECK_EQ(draft.settings.port, 6420);
    CHECK_EQ(draft.settings.http_port, 1);
    /* messages contain no control characters */
    bad("port \"\\x1b[2J\"",
        "conf:1: port: found '?[2J', expected a whole number from 0 to 65535\n");
}

TEST(values__as_text)
{
    static const struct {
        const char *line, *name, *shown;
    } cases[] = {
        { "port 6421", "port", "6421" },
        { "maxclients 10k", "maxclients", "10000" },
        { "maxmemory 2Gi", "maxmemory", "2147483648" },
        { "timeout 1.5m", "timeout", "90" },
        { "bf-error-rate 0.1%", "bf-error-rate", "0.001" },
        { "unixsocketperm 0770", "unixsocketperm", "0770" },
        { "appendonly no", "appendonly", "no" },
        { "appendfsync no", "appendfsync", "no" },
        { "hash keyed-int", "hash", "keyed-int" },
        { "hash fast-int", "hash", "fast-int" },
        { "requirepass pear", "requirepass", "(hidden)" },
        { "port 1", "requirepass", "" },
        { "bind ::1 127.0.0.1", "bind", "::1 127.0.0.1" },
        { "user b on\nuser a off", "user", "b a" },
        { "gate g" GATE "\ngate h" GATE, "gate", "g h" },
    };
    char text[256], tiny[6];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct settings *s = good(cases[i].line);
        CHECK_STR(settings_show(settings_find(cases[i].name), s, text, sizeof text),
                  cases[i].shown);
    }
    const struct settings *s = good("bind ::1 127.0.0.1");
    CHECK_STR(settings_show(settings_find("bind"), s, tiny, sizeof tiny), "::1 1");
}

/* Setting an option to its displayed value does not change the option. */
TEST(values__shown_ones_are_read_back)
{
    size_t rows;
    const struct setting *table = settings_table(&rows);
    const struct settings *s = good(
        "timeout 1.234567\nbf-error-rate 1/3\nmaxmemory 33%\nbind * ::1\nappendonly no");
    const struct settings before = *s;
    struct settings_pool *pool = draft.pool;
    draft.pool = NULL;
    for (size_t i = 0; i < rows; i++) {
        char text[512], line[600];
        if (!table[i].name || table[i].type == SETTING_USER
            || table[i].type == SETTING_GATE || table[i].type == SETTING_SHARDED) {
            continue;
        }
        settings_show(&table[i], &before, text, sizeof text);
        (void)snprintf(line, sizeof line, "%s %s", table[i].name,
                       *text ? text : "\"\"");
        if (!settings_same(&table[i], &before, good(line))) {
            check_fail(__FILE__, __LINE__, "%s", line);
        }
    }
    settings_pool_free(pool);
}

/* ---- Users and gates ------------------------------------------------------------------------ */

TEST(lines__of_users_add_up)
{
    char text[20000] = "";
    for (int i = 0; i < 500; i++) {
        (void)snprintf(text + strlen(text), sizeof text - strlen(text),
                       "user u%d on ~t%d:* \">a b\"\n", i, i);
    }
    const struct settings *s = good(text);
    CHECK_EQ(s->users.count, 500);
    for (size_t i = 0; i < 500; i++) {
        char name[16], where[16];
        (void)snprintf(name, sizeof name, "u%zu", i);
        (void)snprintf(where, sizeof where, "conf:%zu", i + 1);
        CHECK_STR(s->users.items[i].words[0], name);
        CHECK_STR(s->users.items[i].words[3], ">a b");
        CHECK_STR(s->users.items[i].where, where);
        CHECK_EQ(s->users.items[i].count, 4);
    }
}

TEST(lines__of_gates)
{
    struct gate_settings gate;
    char why[SETTINGS_WHY];
    const struct settings *s = good(
        "gate catalog source=sqlite:/srv/shop.db keys=\"product(id)\" \\\n"
        "    lookup='SELECT * FROM product WHERE id = ?' rate=0.1% audit=1 follow=none\\\n"
        "    promise=read-only\n"
        "gate other" GATE "lookup='a=b'");
    CHECK_EQ(s->gates.count, 2);
    CHECK_STR(s->gates.items[1].where, "conf:4");
    CHECK(settings_gate(&s->gates.items[0], &gate, why));
    CHECK_STR(gate.name, "catalog");
    CHECK_STR(gate.source, "sqlite:/srv/shop.db");
    CHECK_STR(gate.keys, "product(id)");
    CHECK_STR(gate.promise, "read-only");
    CHECK_STR(gate.lookup, "SELECT * FROM product WHERE id = ?");
    CHECK_NEAR(gate.rate, 0.001, 1e-9);
    CHECK_NEAR(gate.audit, 1, 1e-9);
    gate_settings_free(&gate);
    CHECK(settings_gate(&s->gates.items[1], &gate, why));
    CHECK_STR(gate.lookup, "a=b"); /* the last value wins */
    CHECK_NEAR(gate.rate, 0.01, 1e-9);
    gate_settings_free(&gate);
}

TEST(lines__mistakes_of_gates)
{
    bad("gate g" GATE "sorce=secret",
        "conf:1: gate g: unknown setting 'sorce'; did you mean source=?\n");
    bad("gate g" GATE "source",
        "conf:1: gate g: found 'source', expected NAME=VALUE; did you mean source=?\n");
    bad("gate g" GATE "zzzzzzzz=1", "conf:1: gate g: unknown setting 'zzzzzzzz'\n");
    bad("gate g" GATE "audit=2",
        "conf:1: gate g: audit: found 2, expected a number from 0 to 1\n");
    bad("gate g" GATE "audit=2 sorce=x rate=5",
        "conf:1: gate g: audit: found 2, expected a number from 0 to 1; unknown setting "
        "'sorce'; did you mean source=?; rate: found 5, expected a number from 1e-09 to "
        "0.5\n");
    bad("gate g source=mysql:foo",
        "conf:1: gate g: keys: found nothing, expected columns that hold the keys: "
        "table(column), separated by commas; follow: found nothing, expected how changes "
        "are detected: logical, changes or none; source: found mysql:foo, expected "
        "sqlite:PATH, postgres://... or postgresql://...\n");
    bad("gate g source=sqlite:x keys=t follow=nope foo=1",
        "conf:1: gate g: unknown setting 'foo'; follow: found nope, expected logical, "
        "changes or none; keys: found no '(' at: the end, expected table(column), or a "
        "list such as users(email), aliases(alias)\n");
    bad("gate g source=sqlite:x keys=t(k) follow=changes max-lag=x poll=6s",
        "conf:1: gate g: max-lag: found x, expected a time such as 250ms, from 0.002s to "
        "1e+06s\n"); /* the default of max-lag is not a mistake */
    bad("sharded s replicas=x timeout=y tls=on tls-ca=z",
        "conf:1: sharded s: replicas: expected 0 to 100; timeout: expected a time such as "
        "1s, up to 60s; tls: expected no or yes; nodes is missing; set "
        "nodes=HOST:PORT,...\n");
    bad("sharded s user=u tls-key=z",
        "conf:1: sharded s: nodes is missing; set nodes=HOST:PORT,...; user requires "
        "password-file or password; tls-ca, tls-cert, tls-key and tls-name require "
        "tls=yes; tls-cert and tls-key must be set together\n");
    bad("gate g" GATE "fail=maybe",
        "conf:1: gate g: fail: found maybe, expected open, closed\n");
    bad("gate g" GATE "\n\ngate g" GATE,
        "conf:3: gate: 'g' is already defined in conf:1\n");
    bad("gate", "conf:1: gate: found 0 values, expected NAME WORD...\n");
    static const char *const incomplete[] = {
        "gate g",
        "gate source=x",
        "gate g source=sqlite:x",
        "gate g source=mysql:x keys=y(z) follow=none promise=read-only",
        "gate g source=sqlite:x keys=y(z) follow=none",
        "gate g source=sqlite:x keys=y follow=changes",
        "gate g source=sqlite:x keys=y(z) follow=logical",
        "gate g source=sqlite:x keys=y(z) follow=changes promise=read-only",
        "gate g source=sqlite:x keys=y(z) follow=changes max-lag=0",
        "gate g source=sqlite:x keys=y(z) follow=changes poll=6s"
    };
    for (size_t i = 0; i < sizeof incomplete / sizeof *incomplete; i++) {
        settings_draft_free(&draft);
        begin();
        read_text(incomplete[i]);
        CHECK(strncmp(told.mistakes, "conf:1: gate ", 13) == 0);
        CHECK_EQ(draft.settings.gates.count, 0);
    }
    static char text[65536];
    text[0] = 0;
    for (int i = 0; i <= SETTINGS_GATES_MAX; i++) {
        (void)snprintf(text + strlen(text), sizeof text - strlen(text),
                       "gate g%d" GATE "\n", i);
    }
    bad(text, "conf:257: gate: too many lines (maximum: 256)\n");
}

/* ---- Files ---------------------------------------------------------------------------------- */

TEST(file__lines)
{
    /* A backslash does not continue a comment. */
    CHECK_EQ(good("# comment \\\nport 1\n")->port, 1);
    CHECK_EQ(good("port \\\n 2")->port, 2);
    CHECK_EQ(good("port \\\r\n 3\r\nhttp-port 4\r\n")->http_port, 4);
    CHECK_EQ(good("port 5 # not 6")->port, 5);
    CHECK_EQ(good("   port\t7   ")->port, 7);
    bad("port \\",
        "conf:1: port: found '\\', expected a whole number from 0 to 65535\n");
    bad("http-port 1 \\\n2\nport x",
        "conf:1: http-port: found 2 values, expected one: PORT\n"
        "conf:3: port: found 'x', expected a whole number from 0 to "
        "65535\n");
    settings_draft_free(&draft);
    begin();
    settings_read_text(&draft, "conf", "port 1\0", 7);
    CHECK_STR(told.mistakes, "conf:1: the line contains a NUL byte\n");
}

TEST(file__includes)
{
    const char *main =
        scratch_write("main.conf", "port 1\ninclude part.conf\n"
                                   "include more-*.conf\ninclude none-*.conf\n");
    scratch_write("part.conf", "port 2\nhttp-port 3\n");
    scratch_write("more-1.conf", "tls-port 4\nhttp-port 5\n");
    scratch_write("more-2.conf", "http-port 6\n");
    settings_draft_free(&draft);
    begin();
    settings_read_file(&draft, main);
    CHECK_STR(told.mistakes, "");
    CHECK_EQ(draft.settings.port, 2);
    CHECK_EQ(draft.settings.tls_port, 4);
    CHECK_EQ(draft.settings.http_port, 6);
    CHECK_EQ(draft.files, 4);
}

/* Reads a scratch file and returns its errors, with "@" in place of the directory. */
static const char *wrong_file(const char *name)
{
    static char said[TOLD];
    settings_draft_free(&draft);
    begin();
    settings_read_file(&draft, scratch_path(name));
    char *to = said;
    for (const char *from = told.mistakes; *from;) {
        const size_t n = strlen(scratch_folder());
        if (strncmp(from, scratch_folder(), n) == 0) {
            *to++ = '@';
            from += n;
        } else {
            *to++ = *from++;
        }
    }
    *to = 0;
    return said;
}

TEST(file__mistakes)
{
    CHECK_STR(wrong_file("missing.conf"),
              "@/missing.conf: cannot be read: No such file or directory\n");
    scratch_write("lost.conf", "port 1\ninclude missing.conf\nport x\n");
    CHECK_STR(
        wrong_file("lost.conf"),
        "@/missing.conf: cannot be read: No such file or directory\n"
        "@/lost.conf:3: port: found 'x', expected a whole number from 0 to 65535\n");
    CHECK_STR(wrong_file("."), "@/.: not a regular file\n");
    scratch_write("empty-include.conf", "include\ninclude \"\"\ninclude a b\n");
    CHECK_STR(wrong_file("empty-include.conf"),
              "@/empty-include.conf:1: include: found 0 values, expected one: PATH\n"
              "@/empty-include.conf:2: include: found 1 values, expected one: PATH\n"
              "@/empty-include.conf:3: include: found 2 values, expected one: PATH\n");
    CHECK(truncate(scratch_write("large.conf", ""), (4 << 20) + 1) == 0);
    CHECK_STR(wrong_file("large.conf"),
              "@/large.conf: the file has 4194305 bytes (maximum: 4194304)\n");
    /* a file that includes itself twice: the depth and the number of includes are bounded */
    scratch_write("itself.conf", "include itself.conf\ninclude itself.conf\n");
    const char *said = wrong_file("itself.conf");
    CHECK(strstr(said, "include: nested more than 8 levels deep"));
    CHECK(strstr(said, "too many configuration files (maximum: 256)"));
    CHECK(draft.files <= 512);
    /* include is refused in a text that must not include files */
    settings_draft_free(&draft);
    begin();
    draft.alone = true;
    read_text("include /etc/passwd");
    CHECK_STR(told.mistakes, "conf:1: include: not allowed here\n");
}

/* ---- The command line ------------------------------------------------------------------------ */

enum { ARGUMENTS = 32 };

struct run {
    int code;
    struct settings_store *store;
    char out[65536], error[8192];
};

static struct run run;

/* Runs the program with the given arguments, which are separated by |. */
static struct run *start(const char *line)
{
    static char text[4096];
    static char *arguments[ARGUMENTS + 1];
    struct stream_capture out, error;
    int n = 0;
    settings_store_free(run.store);
    (void)snprintf(text, sizeof text, "%s", line);
    char *rest = NULL;
    for (char *w = strtok_r(text, "|", &rest); w && n < ARGUMENTS;
         w = strtok_r(NULL, "|", &rest)) {
        arguments[n++] = w;
    }
    arguments[n] = NULL;
    stream_begin(&out, &stdout);
    stream_begin(&error, &stderr);
    run.code = settings_from_command_line(n, arguments, NULL, 0, &run.store);
    (void)snprintf(run.error, sizeof run.error, "%s", stream_end(&error));
    (void)snprintf(run.out, sizeof run.out, "%s", stream_end(&out));
    free(out.text);
    free(error.text);
    CHECK((run.code == SETTINGS_RUN) == (run.store != NULL));
    return &run;
}

static const struct settings *started(const char *line)
{
    start(line);
    CHECK_STR(run.error, "");
    CHECK_EQ(run.code, SETTINGS_RUN);
    return settings_now(run.store);
}

static void refused(const char *line, int code, const char *said)
{
    start(line);
    if (strcmp(run.error, said) != 0) {
        check_fail(__FILE__, __LINE__, "%s: said %s", line, run.error);
    }
    CHECK_EQ(run.code, code);
}

#define TRY "Try 'bloomgated --help'.\n"

TEST(line__options)
{
    CHECK_EQ(started("d")->port, 6420);
    CHECK_EQ(started("d|--port|1")->port, 1);
    CHECK_EQ(started("d|--port=2")->port, 2);
    CHECK_EQ(started("d|--port=2|--port|3")->port, 3);
    CHECK_EQ(started("d|--bind|127.0.0.1|-::1|--port|3")->bind.count, 2);
    CHECK_EQ(started("d|--bind|127.0.0.1 -::1")->bind.count, 2);
    CHECK_EQ(started("d|--bind=127.0.0.1 -::1")->bind.count, 2);
    CHECK_STR(started("d|--requirepass|a b")->requirepass, "a b");
    CHECK_STR(started("d|--unixsocket=")->unixsocket, "");
    const struct settings *s =
        started("d|--gate|g|source=sqlite:x|keys=t (a)|lookup=SELECT b|follow=changes|"
                "--gate|h source=sqlite:y keys='t (b)' lookup=z follow=changes");
    CHECK_EQ(s->gates.count, 2);
    CHECK_STR(s->gates.items[0].words[2], "keys=t (a)");
    CHECK_STR(s->gates.items[1].words[2], "keys=t (b)");
    CHECK_EQ(started("d|--user|alice on +@all|--user|bob|off")->users.count, 2);
}

TEST(line__mistakes)
{
    refused(
        "d|--prto|1", SETTINGS_USAGE,
        "bloomgated: command line: unknown option 'prto'; did you mean port?\n" TRY);
    refused("d|--port", SETTINGS_USAGE,
            "bloomgated: command line: port: found 0 values, expected one: PORT\n" TRY);
    refused("d|--port|1|2", SETTINGS_USAGE,
            "bloomgated: command line: port: found 2 values, expected one: PORT\n" TRY);
    refused(
        "d|--port=x", SETTINGS_USAGE,
        "bloomgated: command line: port: found 'x', expected a whole number from 0 to 65535\n" TRY);
    refused(
        "d|--port=1|stray", SETTINGS_USAGE,
        "bloomgated: command line: found 'stray', expected --OPTION VALUE; use --config "
        "FILE, or put FILE first\n" TRY);
    refused("d|-x", SETTINGS_USAGE,
            "bloomgated: command line: found '-x', expected --OPTION VALUE\n" TRY);
    refused("d|-c", SETTINGS_USAGE,
            "bloomgated: command line: -c: found no value, expected FILE\n" TRY);
    refused("d|--", SETTINGS_USAGE,
            "bloomgated: command line: unknown option ''\n" TRY);
    refused("d|--gate|g source=\"x", SETTINGS_USAGE,
            "bloomgated: command line: gate: missing closing \"\n" TRY);
    refused("d|--config=/nowhere/x", SETTINGS_BAD,
            "bloomgated: /nowhere/x: cannot be read: No such file or directory\n");
    refused(
        "d|--port|0|--http-port|0", SETTINGS_BAD,
        "bloomgated: nothing to listen on: set port, tls-port, http-port, https-port or "
        "unixsocket\n");
    refused(
        "d|--a-name-that-is-longer-than-any-name-that-anybody-would-ever-think-of=3",
        SETTINGS_USAGE,
        "bloomgated: command line: unknown option "
        "'a-name-that-is-longer-than-any-name-that-anybody-would-ever-thi'\n" TRY);
}

TEST(line__actions)
{
    CHECK_EQ(start("d|--help")->code, 0);
    CHECK(strncmp(run.out, "usage: bloomgated", 17) == 0);
    CHECK(strstr(run.out, "--appendfsync WORD"));
    CHECK_EQ(start("d|-V")->code, 0);
    CHECK_STR(run.out, "bloomgated " BG_VERSION "\n");
    CHECK_EQ(start("d|--port|1|--version")->code, 0);
    CHECK_EQ(start("d|--check-config|--port|1")->code, 0);
    CHECK_STR(run.out, "bloomgated: the command line and the environment are valid; no "
                       "configuration file was checked: specify its path\n");
    CHECK_STR(run.error, "");
    CHECK_EQ(start("d|--check-config|--requirepass|x")->code, 0);
    CHECK_STR(
        run.error,
        "bloomgated: warning: command line: requirepass: other users can see this value "
        "in the process list; set it in the file instead\n");
    CHECK_EQ(start("d|--check-config|--port|x")->code, SETTINGS_USAGE);
    CHECK_EQ(start("d|--check-config|/nowhere")->code, SETTINGS_USAGE);
    CHECK_EQ(start("d|/nowhere|--check-config")->code, SETTINGS_BAD);
    char line[256];
    (void)snprintf(line, sizeof line, "d|%s|--check-config", scratch_write("c", ""));
    CHECK_EQ(start(line)->code, 0);
    CHECK_STR(run.out, "bloomgated: the configuration is valid\n");
    CHECK_EQ(start("d|--print-config")->code, 0);
    CHECK(strstr(run.out, "\n#port 6420\n"));
    CHECK_EQ(start("d|--print-man")->code, 0);
    CHECK(strstr(run.out, ".SH OPTIONS\n"));
}

TEST(line__wins_over_environment_and_file)
{
    char line[256];
    const char *file = scratch_write("wins.conf", "port 1\nhttp-port 1\ntls-port 0\n"
                                                  "https-port 0\nuser a on\n");
    CHECK(setenv("BLOOMGATED_HTTP_PORT", "2", 1) == 0);
    CHECK(setenv("BLOOMGATED_TIMEOUT", "2", 1) == 0);
    CHECK(setenv("BLOOMGATED_USER", "b on", 1) == 0);
    CHECK(setenv("BLOOMGATED_BIND", "127.0.0.2 127.0.0.3", 1) == 0);
    CHECK(setenv("BLOOMGATED_SERVICE_HOST", "10.0.0.1", 1) == 0);
    CHECK(setenv("BLOOMGATED_HTTPS_PORT", "tcp://10.0.0.1:80", 1) == 0);
    (void)snprintf(line, sizeof line, "d|%s|--timeout|3|--user|c on", file);
    const struct settings *s = started(line);
    CHECK_EQ(s->port, 1);
    CHECK_EQ(s->http_port, 2);
    CHECK_EQ(s->https_port, 0);
    CHECK_NEAR(s->timeout, 3, 1e-9);
    CHECK_EQ(s->users.count, 3);
    CHECK_STR(s->users.items[1].where, "BLOOMGATED_USER");
    CHECK_STR(s->bind.items[1], "127.0.0.3");
    static struct told doubts;
    settings_doubts(run.store, hear, &doubts);
    CHECK(strstr(doubts.doubts,
                 "BLOOMGATED_SERVICE_HOST: unknown option service-host\n"));
    CHECK(
        strstr(doubts.doubts,
               "BLOOMGATED_HTTPS_PORT: ignored 'tcp://10.0.0.1:80', which looks like a "
               "service address set by Kubernetes\n"));
    CHECK(setenv("BLOOMGATED_HTTP_PORT", "x", 1) == 0);
    refused(
        line, SETTINGS_BAD,
        "bloomgated: BLOOMGATED_HTTP_PORT: http-port: found 'x', expected a whole number from 0 "
        "to 65535\n");
    static const char *const names[] = { "HTTP_PORT", "TIMEOUT",      "USER",
                                         "BIND",      "SERVICE_HOST", "HTTPS_PORT" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "BLOOMGATED_%s", names[i]);
        CHECK(unsetenv(name) == 0);
    }
}

/* A value in the file that has no effect is reported, because the operator expects it to take
 * effect. */
TEST(line__overridden_values_are_reported)
{
    char line[256], expected[2048];
    const char *dir =
        scratch_path("over"); /* --check-config checks that it can be created */
    const char *file =
        scratch_write("over.conf", "port 1\ntls-port 0\nhttp-port 1\nhttp-port 2\n"
                                   "timeout 3\ndir /srv/big\nuser a on\n");
    CHECK(setenv("BLOOMGATED_DIR", dir, 1) == 0);
    CHECK(setenv("BLOOMGATED_HTTP_PORT", "5", 1) == 0);
    CHECK(setenv("BLOOMGATED_TIMEOUT", "3s", 1) == 0);
    CHECK(setenv("BLOOMGATED_USER", "b on", 1) == 0);
    CHECK(setenv("BLOOMGATED_LOG_LEVEL", "debug", 1) == 0);
    (void)snprintf(line, sizeof line, "d|%s|--check-config|--http-port|6|--port|1",
                   file);
    (void)snprintf(
        expected, sizeof expected,
        "bloomgated: warning: %s:4: http-port: '2' is overridden by '6' (command line)\n"
        "bloomgated: warning: %s:6: dir: '/srv/big' is overridden by '%s' "
        "(BLOOMGATED_DIR)\n"
        "bloomgated: warning: %s:7: users are defined, but an enabled user needs no "
        "password; unless this is intended, add 'user default off'\n",
        file, file, dir, file);
    CHECK_EQ(start(line)->code, SETTINGS_DONE);
    CHECK_STR(run.out, "bloomgated: the configuration is valid\n");
    CHECK_STR(run.error, expected);
    static const char *const names[] = { "DIR", "HTTP_PORT", "TIMEOUT", "USER",
                                         "LOG_LEVEL" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "BLOOMGATED_%s", names[i]);
        CHECK(unsetenv(name) == 0);
    }
}

/* ---- Checks across options --------------------------------------------------------------------- */

TEST(check__loopback)
{
    static const char *const inside[] = {
        "127.0.0.1",        "127.255.0.9",    "::1", "-::1", "localhost", "-127.0.0.1",
        "::ffff:127.0.0.1", "0:0:0:0:0:0:0:1"
    };
    static const char *const outside[] = { "0.0.0.0",
                                           "::",
                                           "*",
                                           "10.0.0.1",
                                           "-::",
                                           "fe80::1",
                                           "::ffff:1.2.3.4",
                                           "128.0.0.1",
                                           "",
                                           "-",
                                           "127.0.0.1.evil.example" };
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        CHECK(settings_is_loopback(inside[i]));
    }
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        CHECK(!settings_is_loopback(outside[i]));
    }
}

#define REACH(address, why)                                                               \
    "conf:1: bind: '" address "' is reachable from other machines, but " why              \
    "; set requirepass or define users with passwords, bind only to loopback addresses, " \
    "or set protected to no\n"
#define NOPASS "at least one enabled user needs no password"

TEST(check__nobody_from_outside_without_a_password)
{
    CHECK_STR(whole("bind *"), REACH("*", NOPASS));
    CHECK_STR(whole("bind 127.0.0.1 10.1.2.3"), REACH("10.1.2.3", NOPASS));
    CHECK_STR(whole("bind *\nport 0\nhttp-port 0\nunixsocket /x"), "");
    CHECK_STR(whole("bind *\nrequirepass pear"), "");
    CHECK_STR(whole("bind *\nuser default off"), "");
    CHECK_STR(whole("bind *\nuser default on +@all"),
              ""); /* enabled, but without a password, so no login is possible */
    CHECK_STR(whole("bind *\nuser default on nopass +@read"), REACH("*", NOPASS));
    CHECK_STR(whole("bind *\nrequirepass pear\nuser guest on nopass"),
              REACH("*", NOPASS));
    CHECK_STR(whole("bind *\nrequirepass pear\nhttp-auth no"),
              REACH("*", "http-auth is no, so HTTP needs no password"));
    CHECK_STR(whole("bind *\nrequirepass pear\nhttp-auth no\nhttp-port 0"), "");
    CHECK_STR(whole("http-auth no"), "");
    CHECK_STR(told.doubts, "");
    CHECK_STR(whole("bind *\nprotected no"), "");
    CHECK_STR(
        told.doubts,
        "conf:2: protected is no: '*' is reachable from other machines, and " NOPASS
        "\n");
}

TEST(check__addresses_and_ports)
{
    CHECK_STR(whole("bind nowhere"),
              "conf:1: bind: found 'nowhere', expected an address such as 127.0.0.1, "
              "::1, 0.0.0.0, :: or *\n" REACH("nowhere", NOPASS));
    CHECK_STR(whole("port 8420"), "http-port: port 8420 is already used by port\n");
    CHECK_STR(whole("port 1\nhttp-port 1"),
              "conf:2: http-port: port 1 is already used by port\n");
    CHECK_STR(whole("port 0\nhttp-port 0"),
              "nothing to listen on: set port, tls-port, http-port, https-port or "
              "unixsocket\n");
    CHECK_STR(whole("port 0\nhttp-port 0\nunixsocket /nowhere/x"), "");
    CHECK_STR(whole("unixsocket /dev/null"),
              "conf:1: unixsocket: /dev/null exists and is not a socket\n");
    char text[300] = "unixsocket /";
    memset(text + 12, 'x', 107);
    CHECK_STR(whole(text),
              "conf:1: unixsocket: the path has 108 bytes (maximum: 107)\n");
}

TEST(check__users)
{
    CHECK_STR(whole("user a on\nuser b on\nuser a off"),
              "conf:3: user a: defined more than once; keep one line\n");
    CHECK_STR(whole("user a on +@reed"),
              "conf:1: user a: found '+@reed', expected a category such "
              "as @read; did you mean read?\n");
    CHECK_STR(
        whole("user default on\nrequirepass x"),
        "conf:2: requirepass: the settings also contain a \"user default\" line; set the password there, and "
        "remove requirepass\n");
    CHECK(strstr(whole("port 1\nrequirepass $scrypt$x"),
                 "conf:2: requirepass: user default: invalid password hash: "));
}

TEST(check__tls_files)
{
    char text[1024];
    const char *file = scratch_write("cert.pem", "x");
    CHECK(chmod(file, 0604) == 0);
    CHECK_STR(whole("tls-port 1"),
              "conf:1: tls-port: port 1 requires tls-cert-file and tls-key-file\n");
    CHECK_STR(whole("https-port 1"),
              "conf:1: https-port: port 1 requires tls-cert-file and tls-key-file\n");
    CHECK_STR(whole("tls-auth-clients yes"),
              "conf:1: tls-auth-clients: yes requires tls-ca-cert-file\n");
    CHECK_STR(
        whole("tls-cert-file /nowhere"),
        "conf:1: tls-cert-file: cannot read /nowhere: No such file or directory\n");
    (void)snprintf(text, sizeof text, "tls-port 1\ntls-cert-file %s\ntls-key-file %s",
                   file, file);
    (void)whole(text); /* both files are reported, because neither is in PEM format */
    CHECK(strstr(told.mistakes, "conf:2: tls-cert-file: "));
    CHECK(strstr(told.mistakes, "expected the certificate's private key"));
    CHECK(!strstr(told.mistakes, "requires"));
    CHECK(strstr(told.doubts, "is accessible to all users (mode 0604)"));
}

/* Errors in values do not hide errors in combinations, and do not cause others. */
TEST(check__everything_is_reported)
{
    static const char text[] = "port x\nhttp-port 6420\nbind nowhere\nunknown 1\n"
                               "user a on +@reed\nuser b on +@reed\n"
                               "cf-bucket-size x\ncf-initial-size 2\n"
                               "tls-cert-file /nowhere\ntls-auth-clients yes\n";
    static const char *const expected[] = {
        "conf:1: port: found 'x'",
        "conf:3: bind: found 'nowhere'",
        "conf:4: unknown option",
        "conf:5: user a: found '+@reed'",
        "conf:6: user b: found '+@reed'",
        "conf:7: cf-bucket-size: found 'x'",
        "conf:9: tls-cert-file: cannot read /nowhere"
    };
    size_t lines = 0;
    settings_draft_free(&draft);
    begin();
    read_text(text);
    CHECK(!settings_check(&draft, NULL, 0));
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        CHECK(strstr(told.mistakes, expected[i]));
    }
    for (const char *c = told.mistakes; *c; c++) {
        lines += *c == '\n';
    }
    CHECK_EQ(lines, sizeof expected / sizeof *expected);
}

TEST(check__long_messages_end_after_a_word)
{
    char value[SETTINGS_WHY * 2] = "";
    for (size_t n = 0; n + 10 < sizeof value; n += 10) {
        memcpy(value + n, "long word ", 11);
    }
    settings_draft_free(&draft);
    begin();
    CHECK(!settings_mistake(&draft, "conf:1", "%s", value));
    const size_t n = strlen(told.mistakes);
    CHECK(n > SETTINGS_WHY - 20 && n <= SETTINGS_WHY);
    CHECK(strstr(told.mistakes, "word ...\n") || strstr(told.mistakes, "long ...\n"));
    value[SETTINGS_WHY - 1 - 8] = 0; /* the longest text that fits */
    settings_draft_free(&draft);
    begin();
    CHECK(!settings_mistake(&draft, "conf:1", "%s", value));
    CHECK(!strstr(told.mistakes, "..."));
    CHECK_EQ(strlen(told.mistakes), SETTINGS_WHY);
    settings_draft_free(&draft);
}

TEST(check__keyring_is_not_among_the_data)
{
    char text[2048];
    const char *folder = scratch_folder();
    CHECK(mkdir(scratch_path("data"), 0700) == 0);
    CHECK(symlink("data", scratch_path("link")) == 0);
    static const struct {
        const char *dir, *keyring;
        bool inside;
    } cases[] = {
        { "data", "data/keyring", true },
        { "data", "keyring", false },
        { "data", "data2/keyring", false },
        { "link", "data/keyring", true },
        { "data", "link/keyring", true },
        { "data", "data/../keyring", false },
        { "data", "link/new/keyring", true },
        { "new", "new/keyring", true },
        { "new/", "new//keyring", true },
        { "new", "newer/keyring", false },
        { "data", "data", true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(text, sizeof text, "dir %s/%s\nkeyring %s/%s", folder,
                       cases[i].dir, folder, cases[i].keyring);
        if ((strstr(whole(text), "is inside dir") != NULL) != cases[i].inside) {
            check_fail(__FILE__, __LINE__, "%s: %s", text, told.mistakes);
        }
    }
    CHECK_STR(whole("keyring \"\""),
              "conf:1: keyring: a path is required, because hash is keyed\n");
    CHECK_STR(whole("keyring \"\"\nhash fast"), "");
    CHECK_STR(whole("keyring \"\"\nhash fast-int"), "");
    CHECK_STR(whole("dir \"\""), "conf:1: dir: a path is required\n");
    CHECK(strstr(whole("dir /\nkeyring /etc/keyring"), "is inside dir"));
}

TEST(check__limits)
{
    CHECK_STR(
        whole("cf-bucket-size 100\ncf-initial-size 199"),
        "conf:2: cf-initial-size: found 199, expected at least twice cf-bucket-size (100)\n");
    CHECK_STR(
        whole("client-query-buffer-limit 1Mi"),
        "conf:1: client-query-buffer-limit: found 1048576, expected at least proto-max-bulk-len "
        "(67108864)\n");
}

/* ---- CONFIG ------------------------------------------------------------------------------------ */

struct got {
    char text[8192];
    size_t count;
};

static void collect(void *context, const char *name, const char *value)
{
    struct got *got = context;
    const size_t used = strlen(got->text);
    (void)snprintf(got->text + used, sizeof got->text - used, "%s=%s\n", name, value);
    got->count++;
}

static const char *get(const char *pattern)
{
    static struct got got;
    got = (struct got){ "", 0 };
    settings_get(settings_now(run.store), (bg_bytes){ pattern, strlen(pattern) },
                 collect, &got);
    return got.text;
}

/* Sets options, given as "name value name value", and returns the errors, or "". */
static const char *set(const char *text)
{
    static char why[SETTINGS_WHY];
    bg_bytes pairs[16];
    struct words words;
    CHECK(!words_split(&words, text, strlen(text)));
    for (size_t i = 0; i < words.count; i++) {
        pairs[i] = (bg_bytes){ words.items[i], strlen(words.items[i]) };
    }
    const bool done = settings_set(run.store, pairs, words.count / 2, why);
    words_free(&words);
    CHECK_EQ(done, *why == 0);
    return why;
}

TEST(config__get)
{
    started("d|--requirepass|pear");
    CHECK_STR(get("port"), "port=6420\n");
    CHECK_STR(get("PORT"), "port=6420\n");
    CHECK_STR(get("requirepass"), "requirepass=(hidden)\n");
    CHECK_STR(get("save"), "");
    CHECK_STR(get("*-port"), "tls-port=0\nhttp-port=8420\nhttps-port=0\n");
    CHECK_STR(get("append*"), "appendonly=yes\nappendfsync=everysec\n");
    size_t rows, options = 0;
    const struct setting *table = settings_table(&rows);
    for (size_t i = 0; i < rows; i++) {
        options += table[i].name != NULL;
    }
    struct got got = { "", 0 };
    settings_get(settings_now(run.store), (bg_bytes){ "*", 1 }, collect, &got);
    CHECK_EQ(got.count, options);
    CHECK(!strstr(got.text, "pear"));
}

TEST(config__set)
{
    const struct settings *before = started("d");
    CHECK_STR(set("timeout 5 MAXCLIENTS 7"), "");
    CHECK_EQ(settings_now(run.store)->maxclients, 7);
    CHECK_NEAR(settings_now(run.store)->timeout, 5, 1e-9);
    /* readers of the old settings still see the old value */
    CHECK_EQ(before->maxclients, 10000);
    CHECK_STR(set("timeout 0 maxclients 10k"), "");
    CHECK_EQ(settings_now(run.store)->maxclients, 10000);
    before = settings_now(run.store);
    CHECK_STR(set("timeout 0 maxclients 10k"), "");
    CHECK(settings_now(run.store) == before); /* nothing changed */
    /* all or nothing */
    CHECK_STR(set("timeout 9 maxclients x"),
              "maxclients: found 'x', expected a whole number from 1 to 1000000");
    CHECK(settings_now(run.store) == before);
    CHECK_STR(set("port 1"), "port: can be changed only with a restart");
    CHECK_STR(
        set("requirepass x"),
        "requirepass: can be changed only by editing the configuration file and sending SIGHUP");
    CHECK_STR(
        set("user x"),
        "user: can be changed only by editing the configuration file and sending SIGHUP");
    CHECK_STR(set("timout 1"), "unknown option 'timout'; did you mean timeout?");
    CHECK_STR(set("proto-max-bulk-len 1Gi"),
              "client-query-buffer-limit: found 134217728, expected at "
              "least proto-max-bulk-len (1073741824)");
    CHECK_STR(set("proto-max-bulk-len 1Gi client-query-buffer-limit 2Gi"), "");
    CHECK_STR(set(""), "");
}

TEST(config__values_of_any_bytes)
{
    char why[SETTINGS_WHY];
    static char large[2000];
    memset(large, '1', sizeof large);
    started("d");
    const bg_bytes name = { "timeout", 7 };
    CHECK(!settings_set(run.store, (bg_bytes[]){ name, { "1\0", 2 } }, 1, why));
    CHECK(!settings_set(run.store, (bg_bytes[]){ name, { large, sizeof large } }, 1,
                        why));
    CHECK(!settings_set(run.store, (bg_bytes[]){ name, { NULL, 0 } }, 1, why));
    CHECK(!settings_set(run.store, (bg_bytes[]){ { NULL, 0 }, { "1", 1 } }, 1, why));
    CHECK(!settings_set(run.store, (bg_bytes[]){ { large, sizeof large }, { "1", 1 } },
                        1, why));
    CHECK(!settings_set(run.store, (bg_bytes[]){ { "timeout\0", 8 }, { "x\n", 2 } }, 1,
                        why));
    CHECK(!strchr(why, '\n'));
    CHECK(settings_set(run.store, (bg_bytes[]){ name, { "1", 1 } }, 1, why));
}

static struct quiet seats;

/* Settings can change any number of times, and versions that readers can no longer see are freed.
 * Sanitizers detect leaks, and reads of freed settings. */
TEST(config__changes_have_no_limit)
{
    enum { CHANGES = 5000, HELD = 100 };
    quiet_init(&seats);
    const int seat = quiet_sit(&seats);
    const struct settings *first = started("d"), *held = NULL;
    for (uint64_t i = 0; i < CHANGES; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "maxclients %llu", (unsigned long long)i + 1);
        CHECK_STR(set(text), "");
        if (i == HELD) { /* a slow reader */
            quiet_enter(&seats, seat);
            held = settings_now(run.store);
        }
        settings_reclaim(run.store, &seats);
        settings_reclaim(run.store, &seats);
        if (i >= HELD && i < 2 * HELD) {
            CHECK_EQ(held->maxclients, HELD + 1);
        }
        if (i == 2 * HELD) {
            quiet_leave(&seats, seat);
        }
    }
    CHECK_EQ(settings_now(run.store)->maxclients, CHANGES);
    CHECK_EQ(first->maxclients, 10000); /* the settings used at startup stay valid */
}

/* Stands for state that depends on the settings, such as the users. */
static uint64_t applied;
static bool refuses;

static bool apply(void *context, const struct settings *settings, char why[])
{
    *(uint64_t *)context = settings->maxclients;
    (void)snprintf(why, SETTINGS_WHY, "told to fail");
    return !refuses;
}

static void *set_many(void *first)
{
    for (uint64_t i = 0; i < 500; i++) {
        char why[SETTINGS_WHY], value[24];
        (void)snprintf(value, sizeof value, "%llu",
                       (unsigned long long)*(uint64_t *)first + i);
        CHECK(settings_set(
            run.store, (bg_bytes[]){ { "maxclients", 10 }, { value, strlen(value) } },
            1, why));
    }
    return NULL;
}

TEST(config__who_listens_hears_changes_in_their_order)
{
    enum { SETTERS = 4 };
    pthread_t setters[SETTERS];
    uint64_t from[SETTERS];
    started("d");
    refuses = false;
    settings_listen(run.store, apply, &applied);
    for (size_t i = 0; i < SETTERS; i++) {
        from[i] = 1000 * (i + 1);
        CHECK(pthread_create(&setters[i], NULL, set_many, &from[i]) == 0);
    }
    for (size_t i = 0; i < SETTERS; i++) {
        CHECK(pthread_join(setters[i], NULL) == 0);
    }
    CHECK_EQ(applied, settings_now(run.store)->maxclients);
    refuses = true; /* then nothing changes */
    const struct settings *before = settings_now(run.store);
    CHECK_STR(set("maxclients 9999"), "told to fail");
    CHECK(settings_now(run.store) == before);
}

static _Atomic bool reading_ends;

static void *read_settings(void *unused)
{
    (void)unused;
    uint64_t seen = 0;
    do {
        const struct settings *s = settings_now(run.store);
        if (s->maxclients != s->max_filters) { /* always changed together */
            return (void *)1;
        }
        seen += s->maxclients;
    } while (!atomic_load(&reading_ends));
    return seen ? NULL : (void *)2;
}

TEST(config__readers_see_all_of_a_change_or_none)
{
    enum { READERS = 3 };
    pthread_t readers[READERS];
    started("d|--maxclients|1|--max-filters|1");
    atomic_store(&reading_ends, false);
    for (size_t i = 0; i < READERS; i++) {
        CHECK(pthread_create(&readers[i], NULL, read_settings, NULL) == 0);
    }
    for (unsigned i = 0; i < 2000; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "maxclients %u max-filters %u", i % 100 + 1,
                       i % 100 + 1);
        CHECK_STR(set(text), "");
    }
    atomic_store(&reading_ends, true);
    for (size_t i = 0; i < READERS; i++) {
        void *wrong;
        CHECK(pthread_join(readers[i], &wrong) == 0);
        CHECK(!wrong);
    }
}

/* ---- Reloading ---------------------------------------------------------------------------------- */

TEST(reload__takes_what_can_change)
{
    char line[256];
    const char *file =
        scratch_write("again.conf", "port 1\ntimeout 1\nrequirepass a\n");
    (void)snprintf(line, sizeof line, "d|%s|--maxclients|50", file);
    const struct settings *first = started(line);
    told = (struct told){ "", "" };
    CHECK(settings_reload(run.store, hear, &told));
    CHECK(settings_now(run.store) == first); /* nothing changed */
    CHECK_STR(told.doubts, "");
    scratch_write("again.conf",
                  "port 2\ntimeout 2\nrequirepass b\nbind 127.0.0.1\nuser x on\n");
    CHECK(settings_reload(run.store, hear, &told));
    const struct settings *now = settings_now(run.store);
    CHECK_STR(told.doubts,
              "bind: changed from '127.0.0.1 -::1' to '127.0.0.1'; restart to "
              "apply the change\n"
              "port: changed from '1' to '2'; restart to apply the change\n");
    CHECK_EQ(now->port, 1);
    CHECK_EQ(now->bind.count, 2);
    CHECK_NEAR(now->timeout, 2, 1e-9);
    CHECK_STR(now->requirepass, "b");
    CHECK_EQ(now->users.count, 1);
    CHECK_EQ(now->maxclients, 50);
    CHECK_STR(first->requirepass, "a"); /* readers can still use the old settings */
    /* CONFIG SET lasts until then */
    CHECK_STR(set("timeout 77"), "");
    CHECK(settings_reload(run.store, hear, &told));
    CHECK_NEAR(settings_now(run.store)->timeout, 2, 1e-9);
    CHECK_EQ(settings_now(run.store)->port, 1);
}

/* The values of options that cannot change without a restart stay valid, no matter how many times
 * the file is reloaded. */
TEST(reload__again_and_again)
{
    char line[256], text[128];
    const char *file = scratch_write("often.conf", "timeout 1\n");
    (void)snprintf(line, sizeof line, "d|%s", file);
    started(line);
    quiet_init(&seats);
    for (unsigned i = 0; i < 2000; i++) {
        (void)snprintf(text, sizeof text, "%sdir /tmp/d%u\nrequirepass p%u\n",
                       i % 2 ? "" : "#", i, i);
        scratch_write("often.conf", text);
        CHECK(settings_reload(run.store, NULL, NULL));
        settings_reclaim(run.store, &seats);
        settings_reclaim(run.store, &seats);
        (void)snprintf(text, sizeof text, "p%u", i);
        CHECK_STR(settings_now(run.store)->requirepass, text);
        CHECK(strlen(settings_now(run.store)->dir) > 0);
    }
}

TEST(reload__mistakes_change_nothing)
{
    char line[256];
    const char *file = scratch_write("wrong.conf", "timeout 1\n");
    (void)snprintf(line, sizeof line, "d|%s", file);
    const struct settings *first = started(line);
    static const char *const texts[] = { "timeout x\n", "bind *\ntimeout 2\n",
                                         "user a on nonsense\n", "include missing\n" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        told = (struct told){ "", "" };
        scratch_write("wrong.conf", texts[i]);
        CHECK(!settings_reload(run.store, hear, &told));
        CHECK(*told.mistakes);
        CHECK(settings_now(run.store) == first);
    }
    CHECK(unlink(file) == 0);
    CHECK(!settings_reload(run.store, hear, &told));
    scratch_write("wrong.conf", "timeout 3\n");
    CHECK(settings_reload(run.store, hear, &told));
    CHECK_NEAR(settings_now(run.store)->timeout, 3, 1e-9);
}

/* ---- Printed output ------------------------------------------------------------------------------ */

/* When its options are uncommented, the example file sets every option to its default. */
TEST(print__example_is_the_default)
{
    char *text = NULL;
    size_t n = 0, rows, options = 0;
    FILE *memory = open_memstream(&text, &n);
    CHECK(memory);
    settings_print_config(memory);
    CHECK(fclose(memory) == 0);
    for (char *at = text; *at; at++) {
        const bool begins = at == text || at[-1] == '\n';
        if (begins && at[0] == '#' && islower((unsigned char)at[1])) {
            *at = ' ';
            options++;
        }
        if (begins) {
            CHECK(strcspn(at, "\n") <= 100);
        }
    }
    const struct setting *table = settings_table(&rows);
    settings_draft_free(&draft);
    begin();
    const struct settings before = draft.settings;
    struct settings_pool *pool = draft.pool;
    begin();
    read_text(text);
    CHECK_STR(told.mistakes, "");
    for (size_t i = 0; i < rows; i++) {
        if (!table[i].name) {
            continue;
        }
        options -= table[i].type != SETTING_USER && table[i].type != SETTING_GATE
                   && table[i].type != SETTING_SHARDED;
        if (strcmp(table[i].name, "dir") != 0
            && strcmp(table[i].name, "keyring") != 0) {
            CHECK(settings_same(&table[i], &before, &draft.settings));
        }
    }
    CHECK_EQ(options, 0);
    settings_pool_free(pool);
    free(text);
}

TEST(print__every_option_is_in_help_and_man_page)
{
    size_t rows, n = 0, m = 0;
    char *help = NULL, *man = NULL;
    const struct setting *table = settings_table(&rows);
    FILE *to_help = open_memstream(&help, &n), *to_man = open_memstream(&man, &m);
    CHECK(to_help && to_man);
    settings_print_help(to_help);
    settings_print_man(to_man);
    CHECK(fclose(to_help) == 0 && fclose(to_man) == 0);
    for (size_t i = 0; i < rows; i++) {
        char in_help[64], in_man[128];
        if (!table[i].name) {
            continue;
        }
        (void)snprintf(in_help, sizeof in_help, "\n  --%s ", table[i].name);
        char *to = in_man + snprintf(in_man, sizeof in_man, "\n\\fB");
        for (const char *c = table[i].name; *c; c++) {
            to += snprintf(to, 4, "%s%c", *c == '-' ? "\\" : "", *c);
        }
        (void)snprintf(to, 8, "\\fR ");
        CHECK(strstr(help, in_help));
        CHECK(strstr(man, in_man));
    }
    for (const char *line = help; *line; line += strcspn(line, "\n") + 1) {
        CHECK(strcspn(line, "\n") <= 100);
    }
    free(help);
    free(man);
    settings_store_free(run.store);
    run.store = NULL;
    settings_draft_free(&draft);
}
