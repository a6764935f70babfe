/*
 * test_users.c - tests rules, permissions, passwords, protection against password guessing, and
 * rate limits, including tricks that an attacker might try.
 */
#define _GNU_SOURCE

#include "support/check.h"
#include "support/streams.h"

#include "config/guesses.h"
#include "config/password.h"
#include "config/users.h"
#include "util/quiet.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* ---- Helpers ------------------------------------------------------------------------------- */

#define ROW(name, flags, categories)                                                   \
    {                                                                                  \
        name, -1, flags, categories, 0, 0, 0, NULL, NULL, "", "", "", "",              \
            BEHAVIOR_SERVICE                                                           \
    }

static const struct command some_commands[] = {
    ROW("BF.ADD", COMMAND_WRITE | COMMAND_FAST, CATEGORY_BLOOM),
    ROW("BF.EXISTS", COMMAND_READONLY | COMMAND_FAST, CATEGORY_BLOOM),
    ROW("BF.INFO", COMMAND_READONLY, CATEGORY_BLOOM),
    ROW("CF.ADD", COMMAND_WRITE | COMMAND_FAST, CATEGORY_CUCKOO),
    { .name = NULL },
};
static const struct command host_commands[] = {
    ROW("PING", COMMAND_FAST, CATEGORY_CONNECTION),
    ROW("AUTH", COMMAND_NOAUTH | COMMAND_FAST, CATEGORY_CONNECTION),
    ROW("CONFIG", COMMAND_ADMIN | COMMAND_SLOW, 0),
    ROW("DEL", COMMAND_WRITE, CATEGORY_KEYSPACE),
    ROW("FLUSHALL", COMMAND_WRITE | COMMAND_SLOW,
        CATEGORY_KEYSPACE | CATEGORY_DANGEROUS),
    { .name = NULL },
};
static const struct command other_commands[] = { ROW("STRANGE", 0, 0),
                                                 { .name = NULL } };
static const struct command *const families[] = { some_commands, host_commands };

static struct settings_draft draft;
static struct users *users;
static char why[SETTINGS_WHY];

static const struct command *command(const char *name)
{
    for (size_t f = 0; f < 2; f++) {
        for (const struct command *c = families[f]; c->name; c++) {
            if (strcmp(c->name, name) == 0) {
                return c;
            }
        }
    }
    return NULL;
}

/* Loads a configuration text, and reports problems with its users in `why`. */
static bool load(const char *text)
{
    settings_draft_free(&draft);
    CHECK(settings_draft_init(&draft, NULL, NULL));
    settings_read_text(&draft, "conf", text, strlen(text));
    CHECK_EQ(draft.mistakes, 0);
    if (!users) {
        users = users_create(families, 2);
        CHECK(users);
    }
    return users_load(users, &draft.settings, why);
}

static void begin(const char *text)
{
    users_free(users);
    users = NULL;
    if (!load(text)) {
        check_fail(__FILE__, __LINE__, "%s", why);
    }
}

static bg_bytes bytes(const char *text)
{
    return (bg_bytes){ text, strlen(text) };
}

static const struct user *check(const char *name, const char *password)
{
    return users_check(users, bytes(name), bytes(password));
}

static const struct user *recall(const char *name, const char *password)
{
    return users_recall(users, bytes(name), bytes(password));
}

/* Returns the user "u" with these rules. */
static const struct user *user(const char *rules)
{
    char text[4096];
    (void)snprintf(text, sizeof text, "user u on >p %s", rules);
    begin(text);
    const struct user *found = check("u", "p");
    CHECK(found);
    return found;
}

static bool may(const struct user *u, const char *name)
{
    return user_may_run(u, command(name));
}

static bool touches(const struct user *u, const char *name)
{
    return user_may_touch(u, bytes(name), USER_READ | USER_WRITE);
}

/* ---- Commands ------------------------------------------------------------------------------- */

TEST(rules__commands)
{
    const struct user *u = user("+bf.add");
    CHECK(may(u, "BF.ADD") && !may(u, "BF.EXISTS") && !may(u, "PING"));
    /* AUTH is always allowed; otherwise, clients could not switch users */
    CHECK(may(u, "AUTH"));
    u = user("");
    for (size_t f = 0; f < 2; f++) {
        for (const struct command *c = families[f]; c->name; c++) {
            CHECK_EQ(user_may_run(u, c), strcmp(c->name, "AUTH") == 0);
        }
    }
    u = user("allcommands");
    for (size_t f = 0; f < 2; f++) {
        for (const struct command *c = families[f]; c->name; c++) {
            CHECK(user_may_run(u, c));
        }
    }
    CHECK(!user_may_run(u, &other_commands[0])); /* this command is not in the table */
    u = user("+@all -BF.Add");
    CHECK(!may(u, "BF.ADD") && may(u, "BF.EXISTS"));
    u = user("-bf.add +@all"); /* rules apply from left to right */
    CHECK(may(u, "BF.ADD"));
    u = user("+@all nocommands +ping");
    CHECK(may(u, "PING") && !may(u, "DEL"));
}

TEST(rules__categories)
{
    const struct user *u = user("+@read");
    CHECK(may(u, "BF.EXISTS") && may(u, "BF.INFO") && !may(u, "BF.ADD")
          && !may(u, "PING"));
    u = user("+@write -@keyspace");
    CHECK(may(u, "BF.ADD") && may(u, "CF.ADD") && !may(u, "DEL")
          && !may(u, "FLUSHALL"));
    u = user("+@BLOOM");
    CHECK(may(u, "BF.ADD") && may(u, "BF.INFO") && !may(u, "CF.ADD"));
    u = user("+@all -@dangerous");
    CHECK(may(u, "DEL") && !may(u, "FLUSHALL") && !may(u, "CONFIG"));
    u = user("+@all -@slow"); /* "slow" includes every command that is not "fast" */
    CHECK(may(u, "BF.ADD") && !may(u, "DEL") && !may(u, "FLUSHALL")
          && !may(u, "CONFIG"));
    u = user("+@fast -@connection +@admin +@cuckoo +@gate");
    CHECK(may(u, "BF.ADD") && !may(u, "PING") && may(u, "CONFIG") && may(u, "CF.ADD"));
}

/* ---- Names ---------------------------------------------------------------------------------- */

TEST(rules__names)
{
    const struct user *u = user("~acme:* ~shared");
    CHECK(touches(u, "acme:x") && touches(u, "acme:") && touches(u, "shared"));
    CHECK(!touches(u, "acme") && !touches(u, "shared2") && !touches(u, "")
          && !touches(u, "xacme:y"));
    CHECK(!user_may_touch(u, (bg_bytes){ "shared\0", 7 }, USER_READ));
    CHECK(!user_may_touch(u, (bg_bytes){ "acme", 4 }, USER_READ));
    CHECK(user_may_touch(u, (bg_bytes){ "acme:\0\xFF", 7 }, USER_WRITE));
    CHECK(!touches(user(""), "x"));
    CHECK(user_may_touch(user(""), bytes("x"), 0)); /* needs nothing */
    CHECK(touches(user("allkeys"), "x") && touches(user("~*"), ""));
    CHECK(!touches(user("allkeys resetkeys"), "x"));
    CHECK(touches(user("~h\xC3\xA9*"), "h\xC3\xA9llo"));
}

TEST(rules__ways)
{
    const struct user *u = user("%R~public:* %W~drop:* ~own:* %RW~both");
    CHECK(user_may_touch(u, bytes("public:a"), USER_READ));
    CHECK(!user_may_touch(u, bytes("public:a"), USER_WRITE));
    CHECK(!touches(u, "public:a"));
    CHECK(user_may_touch(u, bytes("drop:a"), USER_WRITE));
    CHECK(!user_may_touch(u, bytes("drop:a"), USER_READ));
    CHECK(touches(u, "own:a") && touches(u, "both"));
    u = user("%R~* %W~own:*"); /* one rule allows reading, another allows writing */
    CHECK(touches(u, "own:a") && !touches(u, "other"));
    CHECK(user_may_touch(u, bytes("other"), USER_READ));
    u = user("%R~a* %W~*b");
    CHECK(touches(u, "ab") && !touches(u, "aa") && !touches(u, "bb"));
}

TEST(rules__names_that_are_meant_to_hurt)
{
    static char name[1 << 20], pattern[1100] = "~";
    memset(name, 'a', sizeof name);
    memset(pattern + 1, 0, sizeof pattern - 1);
    for (size_t i = 0; i < 500; i++) {
        pattern[1 + 2 * i] = '*';
        pattern[2 + 2 * i] = 'a';
    }
    pattern[1001] = 'b';
    const struct user *u = user(pattern);
    CHECK(!user_may_touch(u, (bg_bytes){ name, USER_TOUCH_MAX }, USER_READ));
    u = user("~***a***a***b ~x*");
    CHECK(!user_may_touch(u, (bg_bytes){ name, USER_TOUCH_MAX }, USER_READ));
    CHECK(!user_may_touch(u, (bg_bytes){ name, sizeof name }, USER_READ));
    name[0] = 'x';
    CHECK(user_may_touch(u, (bg_bytes){ name, USER_TOUCH_MAX }, USER_READ));
    CHECK(!user_may_touch(u, (bg_bytes){ name, USER_TOUCH_MAX + 1 }, USER_READ));
    CHECK(user_may_touch(user("allkeys"), (bg_bytes){ name, sizeof name }, USER_WRITE));
}

/* ---- Errors --------------------------------------------------------------------------------- */

TEST(rules__mistakes)
{
    static const struct {
        const char *line, *said;
    } cases[] = {
        { "user a on +bf.ad",
          "conf:1: user a: found '+bf.ad', expected a command such as bf.add; did you mean BF.ADD?" },
        { "user a -nothing-like-it",
          "conf:1: user a: found '-nothing-like-it', expected a command such as bf.add" },
        { "user a +config|get",
          "conf:1: user a: found '+config|get', expected a whole command, because this one has no "
          "subcommands; did you mean CONFIG?" },
        { "user a +confi|get",
          "conf:1: user a: found '+confi|get', expected a command such as bf.add" },
        { "user a +", "conf:1: user a: found '+', expected a command such as bf.add" },
        { "user a +@",
          "conf:1: user a: found '+@', expected a category such as @read" },
        { "user a +@reads",
          "conf:1: user a: found '+@reads', expected a category such as @read; did you mean read?" },
        { "user a allkey",
          "conf:1: user a: found 'allkey', expected a rule; did you mean allkeys?" },
        { "user a rate=fast",
          "conf:1: user a: found 'rate=fast', expected a whole number from 0 to 1e12" },
        { "user a rate=-1",
          "conf:1: user a: found 'rate=-1', expected a whole number from 0 to 1e12" },
        { "user a %X~a",
          "conf:1: user a: found '%X~a', expected ~PATTERN, %R~PATTERN or %W~PATTERN "
          "(at most 1024 bytes)" },
        { "user a %~a",
          "conf:1: user a: found '%~a', expected ~PATTERN, %R~PATTERN or %W~PATTERN "
          "(at most 1024 bytes)" },
        { "user a %R",
          "conf:1: user a: found '%R', expected ~PATTERN, %R~PATTERN or %W~PATTERN "
          "(at most 1024 bytes)" },
        { "user \"\" on", "conf:1: user : a user name must have 1 to 255 bytes" },
        { "user a >", "conf:1: user a: a password must have 1 to 1024 bytes" },
        /* a word that may be a password is not echoed */
        { "user a hunter2-very-secret",
          "conf:1: user a: unknown rule (hidden, because it may be a password); write passwords as "
          ">PASSWORD, or hash them with --hash-password" },
        { "user a quota_memry=1Gi",
          "conf:1: user a: unknown rule (hidden, because it may be a password); did you mean "
          "quota-memory=?; write passwords as >PASSWORD, or hash them with --hash-password" },
        { "user a $scrypt$hunter2",
          "conf:1: user a: invalid password hash: expected ln from 10 to 20, r from 1 to 32, p "
          "from 1 to 16, and at most 256 MiB of memory" },
        { "user c on quota-memory=x hunter2 rate=z %Z~*",
          "conf:1: user c: found 'quota-memory=x', expected a number such as 100, or a size such as "
          "512Mi (0: no quota); unknown rule (hidden, because it may be a password); write passwords "
          "as >PASSWORD, or hash them with --hash-password; found 'rate=z', expected a whole number "
          "from 0 to 1e12; found '%Z~*', expected ~PATTERN, %R~PATTERN or %W~PATTERN (at most 1024 "
          "bytes)" },
        { "user a $2b$hunter2",
          "conf:1: user a: invalid password hash: expected $scrypt$ln=14,r=8,p=1$SALT$HASH" },
        { "requirepass $hunter2",
          "requirepass: user default: invalid password hash: expected "
          "$scrypt$ln=14,r=8,p=1$SALT$HASH" },
        { "user a on\nuser b on\nuser a on",
          "conf:3: user a: defined more than once; keep one line" },
        { "user default on\nrequirepass x",
          "requirepass: the settings also contain a \"user default\" line; set the password there, and "
          "remove requirepass" },
        { "user a >1 >2 >3 >4 >5 >6 >7 >8 >9",
          "conf:1: user a: too many passwords (maximum: 8)" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin("user keeper on >p +ping");
        const struct user *keeper = check("keeper", "p");
        CHECK(!load(cases[i].line));
        CHECK_STR(why, cases[i].said);
        CHECK(check("keeper", "p") == keeper); /* all are unchanged */
        CHECK(user_is_current(keeper));
        CHECK(users_default(users));
    }
    char long_rule[1200] = "user a ~";
    memset(long_rule + 8, 'x', 1025);
    CHECK(!load(long_rule));
}

/* A word is reported once, even if it is repeated, and a long message ends after a whole word. */
TEST(rules__many_mistakes)
{
    char line[1200] = "user a";
    for (size_t i = 0; i < 40; i++) {
        (void)snprintf(line + strlen(line), sizeof line - strlen(line),
                       " hunter2 +nothing-%02zu", i);
    }
    begin("user keeper on >p +ping");
    CHECK(!load(line));
    const size_t n = strlen(why);
    CHECK(n > 900
          && (strcmp(why + n - 7, " bf.add") == 0 || strcmp(why + n - 4, " ...") == 0));
    const char *hidden = strstr(why, "hidden");
    CHECK(hidden && !strstr(hidden + 1, "hidden"));
}

TEST(rules__reset)
{
    begin("user u on >p +@all allkeys rate=1 reset on >q +ping");
    CHECK(!check("u", "p"));
    const struct user *u = check("u", "q");
    CHECK(u && may(u, "PING") && !may(u, "DEL") && !touches(u, "x"));
    CHECK(user_take(u, 1000, 0, NULL));
}

/* ---- Authentication ------------------------------------------------------------------------- */

TEST(users__default)
{
    begin("");
    const struct user *u = users_default(users);
    CHECK(u && users_are_open(users));
    CHECK_STR(user_name(u), "default");
    CHECK(may(u, "CONFIG") && touches(u, "anything"));
    CHECK(users_default_unasked(users) == u);
    begin("requirepass pear");
    CHECK(!users_default(users) && !users_are_open(users));
    CHECK(users_default_unasked(users) == check("default", "pear"));
    CHECK(check("default", "pear") && !check("default", "")
          && !check("default", "pea"));
    begin("user default on nopass +ping");
    u = users_default(users);
    CHECK(u && may(u, "PING") && !may(u, "DEL") && users_are_open(users));
    begin("user default on >x");
    CHECK(!users_default(users) && !users_are_open(users));
    begin("user default off nopass");
    CHECK(!users_default(users) && !users_are_open(users));
    CHECK(!users_default_unasked(users));
    begin("requirepass x\nuser guest on nopass");
    CHECK(!users_default(users) && users_are_open(users));
    CHECK(check("guest", "whatever") && recall("guest", ""));
}

TEST(users__passwords)
{
    begin(
        "user a on >one >two\nuser b off >one\nuser \xC3\xA9 on >\xE2\x82\xAC\nuser ab on >c\n"
        "user n on");
    CHECK(check("a", "one") && check("a", "two"));
    CHECK(!check("a", "") && !check("a", "On") && !check("a", "onetwo")
          && !check("a", ">one"));
    CHECK(!check("b", "one")); /* off */
    CHECK(!check("c", "one") && !check("", "one") && !check("A", "one"));
    CHECK(check("\xC3\xA9", "\xE2\x82\xAC"));
    CHECK(!check("a", "bc")); /* must not be confused with name "ab" and password "c" */
    CHECK(!check("n", "") && !check("n", "x")); /* enabled, but without a password */
    CHECK(!users_check(users, (bg_bytes){ "a\0", 2 }, bytes("one")));
    CHECK(!users_check(users, bytes("a"), (bg_bytes){ "one\0", 4 }));
    CHECK(!users_check(users, (bg_bytes){ NULL, 0 }, (bg_bytes){ NULL, 0 }));
    static char large[1 << 20];
    memset(large, 'x', sizeof large);
    CHECK(!users_check(users, bytes("a"), (bg_bytes){ large, sizeof large }));
    CHECK(!users_check(users, (bg_bytes){ large, sizeof large }, bytes("one")));
    CHECK(!users_recall(users, bytes("a"), (bg_bytes){ large, sizeof large }));
}

/* A hash of "pear" with low cost parameters, computed in Python with hashlib.scrypt(b"pear",
 * salt=b"0123456789abcdef", n=1024, r=8, p=1, dklen=32) */
#define PEAR                                                                           \
    "$scrypt$ln=10,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$GlW5xdmtq6D3EfbFn39CrXL5CyKpMya3ZyrDTwDbRok"

TEST(users__hashed_passwords_are_recalled)
{
    begin("user a on " PEAR " >clear\nuser b on " PEAR);
    CHECK(!recall("a", "pear"));
    CHECK(recall("a", "clear"));
    CHECK(!check("a", "peer"));
    CHECK(!recall("a", "peer"));
    const struct user *a = check("a", "pear");
    CHECK(a);
    CHECK(recall("a", "pear") == a);
    /* A verified password is remembered for one user only. */
    CHECK(!recall("b", "pear"));
    CHECK(!recall("a", "peer") && !recall("a", ""));
    CHECK(check("b", "pear") && recall("b", "pear"));
    CHECK(check("nobody", "pear") == NULL);
}

TEST(users__reading_lines_again)
{
    begin("user a on >1 +ping\nuser b on >1 +ping\nuser c on >1");
    const struct user *a = check("a", "1"), *b = check("b", "1"), *c = check("c", "1");
    const struct user *nobody = users_default(users);
    CHECK(a && b && c && nobody);
    CHECK(load("user c on >1\nuser a on >1 +ping\nuser b on >1 +@all\nrequirepass x"));
    CHECK(check("a", "1") == a && user_is_current(a)); /* as before */
    CHECK(check("c", "1") == c && user_is_current(c));
    CHECK(check("b", "1") != b && !user_is_current(b));
    /* clients that hold the old version of user b keep the old rules */
    CHECK(may(b, "PING") && !may(b, "DEL"));
    CHECK(may(check("b", "1"), "DEL"));
    CHECK(!user_is_current(nobody) && !users_default(users));
    CHECK(load("user b on >1 +@all"));
    CHECK(!user_is_current(a) && !user_is_current(c) && !check("a", "1"));
    CHECK(users_default(users) && users_default(users) != nobody);
    CHECK_STR(user_name(a), "a");
}

TEST(users__retired_ones_are_freed)
{
    static struct quiet readers;
    quiet_init(&readers);
    const int seat = quiet_sit(&readers);
    begin("user a on >1\nuser b on >1");
    const struct user *a = check("a", "1"), *b = check("b", "1");
    user_hold(a);
    CHECK(load("user a on >1 +ping\nuser b on >1"));
    for (int i = 0; i < 3; i++) { /* a client holds a reference to the user */
        CHECK(users_reclaim(users, &readers));
    }
    user_let_go(a);
    quiet_enter(&readers, seat);
    /* a batch may still use the user that the client held */
    for (int i = 0; i < 3; i++) {
        CHECK(users_reclaim(users, &readers));
    }
    quiet_leave(&readers, seat);
    CHECK(!users_reclaim(users, &readers));

    quiet_enter(&readers, seat); /* this batch has found user b */
    CHECK(load("user a on >1 +ping"));
    CHECK(users_reclaim(users, &readers));
    user_hold(b);
    /* The next batch still uses user b while the client releases the user. */
    quiet_pass(&readers, seat);
    user_let_go(b);
    for (int i = 0; i < 3; i++) {
        CHECK(users_reclaim(users, &readers));
    }
    CHECK_STR(user_name(b), "b");
    quiet_leave(&readers, seat);
    CHECK(!users_reclaim(users, &readers));
    CHECK(check("a", "1"));
}

TEST(users__many)
{
    enum { MANY = 5000 };
    char *text = malloc(MANY * 40);
    size_t used = 0;
    CHECK(text);
    for (unsigned i = 0; i < MANY; i++) {
        used += (size_t)snprintf(text + used, 40, "user t%u on >p%u ~t%u:*\n",
                                 i * 7919 % MANY, i, i);
    }
    begin(text);
    free(text);
    for (unsigned i = 0; i < MANY; i += 37) {
        char name[16], password[16];
        (void)snprintf(name, sizeof name, "t%u", i * 7919 % MANY);
        (void)snprintf(password, sizeof password, "p%u", i);
        const struct user *u = check(name, password);
        CHECK(u);
        CHECK_STR(user_name(u), name);
        CHECK(!check(name, "p"));
    }
}

static _Atomic bool loading_ends;

static void *log_in(void *unused)
{
    size_t fails = 0;
    (void)unused;
    while (!atomic_load(&loading_ends)) {
        const struct user *u = check("a", "1");
        const struct user *v = recall("b", "1");
        fails += !u || !user_may_touch(u, bytes("x:1"), USER_READ);
        fails += v && !user_may_run(v, command("PING"));
        (void)user_take(u, 1, 1, NULL);
        (void)users_default(users);
    }
    return fails ? (void *)1 : NULL;
}

TEST(users__log_in_while_lines_change)
{
    pthread_t threads[3];
    begin("user a on >1 ~x:*\nuser b on >1 +ping");
    atomic_store(&loading_ends, false);
    for (size_t i = 0; i < 3; i++) {
        CHECK(pthread_create(&threads[i], NULL, log_in, NULL) == 0);
    }
    for (unsigned i = 0; i < 200; i++) {
        char text[128];
        (void)snprintf(text, sizeof text, "user a on >1 ~x:* rate=%u\n%s", i % 3,
                       i % 2 ? "" : "user b on >1 +ping");
        CHECK(load(text));
    }
    atomic_store(&loading_ends, true);
    for (size_t i = 0; i < 3; i++) {
        void *wrong;
        CHECK(pthread_join(threads[i], &wrong) == 0);
        CHECK(!wrong);
    }
}

/* ---- Hashes --------------------------------------------------------------------------------- */

TEST(password__made_and_read)
{
    char text[PASSWORD_TEXT], other[PASSWORD_TEXT];
    struct password password;
    CHECK(password_make(bytes("pear"), text) && password_make(bytes("pear"), other));
    CHECK(strncmp(text, "$scrypt$ln=14,r=8,p=1$", 22) == 0);
    CHECK(strcmp(text, other) != 0); /* a different salt */
    CHECK(!password_read(text, &password));
    CHECK_EQ(password.salt_len, 16);
    CHECK_EQ(password.hash_len, 32);
    CHECK(password_fits(&password, bytes("pear")));
    CHECK(!password_fits(&password, bytes("Pear")));
    CHECK(!password_fits(&password, (bg_bytes){ NULL, 0 }));
    CHECK(!password_fits(&password, (bg_bytes){ "pear\0", 5 }));
}

TEST(password__made_by_others)
{
    struct password password;
    CHECK(!password_read(PEAR, &password));
    CHECK(password_fits(&password, bytes("pear")));
    CHECK(!password_fits(&password, bytes("plum")));
    CHECK(memcmp(password.salt, "0123456789abcdef", 16) == 0);
}

TEST(password__texts_that_are_none)
{
    struct password password;
    static const char *const texts[] = {
        "",
        "$",
        "$scrypt$",
        "$scrypt$ln=14",
        "$scrypt$ln=14,r=8,p=1",
        "$scrypt$ln=14,r=8,p=1$",
        "$scrypt$ln=14,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg",
        "$scrypt$ln=14,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$",
        "$scrypt$ln=14,r=8,p=1$$MDEyMzQ1Njc4OWFiY2RlZg",
        "$scrypt$ln=14,r=8,p=1$MDEy$MDEyMzQ1Njc4OWFiY2RlZg",
        "$scrypt$ln=9,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg",
        "$scrypt$ln=21,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg",
        "$scrypt$ln=20,r=32,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg",
        "$scrypt$ln=14,r=0,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg",
        "$scrypt$ln=14,r=8,p=17$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg",
        "$scrypt$ln=99999999999999999999,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg",
        "$scrypt$r=8,ln=14,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg",
        "$scrypt$ln=14,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg==$MDEyMzQ1Njc4OWFiY2RlZg",
        "$scrypt$ln=14,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZh$MDEyMzQ1Njc4OWFiY2RlZg", /* excess bits */
        "$scrypt$ln=14,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZ$MDEyMzQ1Njc4OWFiY2RlZg",
        "$scrypt$ln=14,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg$",
        "$argon2id$v=19$m=65536,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg",
    };
    CHECK(!password_read(
        "$scrypt$ln=14,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg",
        &password));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!password_read(texts[i], &password)) {
            check_fail(__FILE__, __LINE__, "%s was accepted", texts[i]);
        }
    }
    char large[2 * PASSWORD_TEXT] = "$scrypt$ln=14,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$";
    const size_t n = strlen(large);
    memset(large + n, 'A', PASSWORD_TEXT);
    CHECK(password_read(large, &password));
    large[n + 88] = 0; /* 66 bytes */
    CHECK(password_read(large, &password));
    large[n + 84] = 0; /* 63 */
    CHECK(!password_read(large, &password));
}

/* Runs --hash-password with this text on stdin and returns its output. */
static const char *hash_line(const char *text, size_t n, int code)
{
    static char out[512];
    struct stream_capture error;
    FILE *from = fmemopen((void *)(uintptr_t)text, n, "r"),
         *to = fmemopen(out, sizeof out, "w");
    CHECK(from && to);
    stream_begin(&error, &stderr);
    const int returned = users_hash_line(from, to);
    (void)stream_end(&error);
    CHECK_EQ(*error.text == 0, code == 0);
    free(error.text);
    CHECK_EQ(returned, code);
    CHECK(fclose(from) == 0 && fclose(to) == 0);
    return out;
}

TEST(password__from_stdin)
{
    struct password password;
    char text[256];
    (void)snprintf(text, sizeof text, "%s", hash_line("pe ar\n", 6, 0));
    text[strcspn(text, "\n")] = 0;
    CHECK(!password_read(text, &password) && password_fits(&password, bytes("pe ar")));
    (void)snprintf(text, sizeof text, "%s", hash_line("pear", 4, 0));
    text[strcspn(text, "\n")] = 0;
    CHECK(!password_read(text, &password) && password_fits(&password, bytes("pear")));
    (void)hash_line("\n", 1, SETTINGS_USAGE);
    static char large[PASSWORD_MAX + 2];
    memset(large, 'x', sizeof large);
    (void)hash_line(large, PASSWORD_MAX + 1, SETTINGS_USAGE);
    (void)hash_line(large, PASSWORD_MAX, 0);
}

/* ---- Guessing -------------------------------------------------------------------------------- */

static uint64_t wait_of(const char *address, const char *name, uint64_t now)
{
    return users_guess_wait(users, address, bytes(name), now);
}

static void fail(const char *address, const char *name, uint64_t now, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        users_guess_failed(users, address, bytes(name), now);
    }
}

TEST(guesses__wait_longer_and_longer)
{
    begin("");
    CHECK_EQ(wait_of("10.0.0.1", "a", 0), 0);
    fail("10.0.0.1", "a", 1000, 4);
    CHECK_EQ(wait_of("10.0.0.1", "a", 1000), 0);
    fail("10.0.0.1", "a", 1000, 1);
    CHECK_EQ(wait_of("10.0.0.1", "a", 1000), 100);
    CHECK_EQ(wait_of("10.0.0.1", "a", 1099), 1);
    CHECK_EQ(wait_of("10.0.0.1", "a", 1100), 0);
    fail("10.0.0.1", "a", 2000, 1);
    CHECK_EQ(wait_of("10.0.0.1", "a", 2000), 200);
    fail("10.0.0.1", "a", 2000, 40);
    CHECK_EQ(wait_of("10.0.0.1", "a", 2000), 30000);
    CHECK_EQ(wait_of("10.0.0.2", "a", 2000), 0); /* other addresses are not delayed */
    CHECK_EQ(wait_of("10.0.0.1", "b", 2000), 0); /* other user names are not delayed */
    CHECK_EQ(wait_of("", "a", 2000), 0);
}

TEST(guesses__a_minute_forgives_one)
{
    begin("");
    fail("10.0.0.1", "a", 1000, 6);
    CHECK_EQ(wait_of("10.0.0.1", "a", 1000), 200);
    /* A minute forgives one of the six failures, and this call adds another. */
    fail("10.0.0.1", "a", 1000 + 60000, 1);
    CHECK_EQ(wait_of("10.0.0.1", "a", 61000), 200);
    CHECK_EQ(wait_of("10.0.0.1", "a", 61000 + 7 * 60000), 0);
    fail("10.0.0.1", "a", 61000 + 8 * 60000, 4); /* from the start */
    CHECK_EQ(wait_of("10.0.0.1", "a", 61000 + 8 * 60000), 0);
    fail("10.0.0.9", "a", 5000, 6);
    CHECK_EQ(wait_of("10.0.0.9", "a", 4000),
             1200); /* a clock that moves backward is harmless */
}

TEST(guesses__many_names_from_one_address)
{
    begin("");
    for (unsigned i = 0; i < GUESSES_FREE_ADDRESS + 2; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "user%u", i);
        fail("10.0.0.1", name, 1000, 1);
    }
    CHECK_EQ(wait_of("10.0.0.1", "somebody-else", 1000), 400);
    CHECK_EQ(wait_of("10.0.0.2", "somebody-else", 1000), 0);
}

TEST(guesses__addresses)
{
    begin("");
    fail("2001:db8:1:2::1", "a", 1000, 6);
    CHECK_EQ(wait_of("2001:db8:1:2:ffff:ffff:ffff:ffff", "a", 1000),
             200); /* same /64 */
    CHECK_EQ(wait_of("2001:db8:1:3::1", "a", 1000), 0);
    fail("::ffff:10.0.0.7", "a", 1000, 6);
    CHECK_EQ(wait_of("10.0.0.7", "a", 1000), 200);
    CHECK_EQ(wait_of("10.0.0.8", "a", 1000), 0);
    fail("::1", "a", 1000, 6);
    CHECK_EQ(wait_of("", "a", 1000), 0);
    fail("", "a", 1000, 6);
    CHECK_EQ(wait_of("", "a", 1000), 200);
}

/* Even if there are more addresses than slots, the newest addresses are still delayed. */
TEST(guesses__very_many_addresses)
{
    begin("");
    for (unsigned i = 0; i < 20000; i++) {
        char address[32];
        (void)snprintf(address, sizeof address, "10.%u.%u.1", i / 256, i % 256);
        fail(address, "a", 1000 + i, 6);
        CHECK(wait_of(address, "a", 1000 + i) == 200);
    }
}

/* ---- Rates ----------------------------------------------------------------------------------- */

TEST(rate__is_kept)
{
    uint64_t wait;
    const struct user *u = user("rate=1000 burst=100");
    CHECK(user_take(u, 100, 5000, &wait));
    CHECK(!user_take(u, 1, 5000, &wait));
    CHECK(wait >= 1 && wait <= 2);
    CHECK(user_take(u, 49, 5050, &wait)); /* 50 ms allow 50 more adds, minus rounding */
    CHECK(!user_take(u, 3, 5050, &wait));
    CHECK(!user_take(u, 101, 50000, &wait));
    CHECK_EQ(wait, UINT64_MAX); /* more adds than the burst are never allowed at once */
    CHECK(user_take(u, 100, 50000, NULL));
    CHECK(!user_take(u, 50, 50000, &wait));
    CHECK(wait >= 50 && wait <= 52);
    CHECK(user_take(u, 50, 50000 + wait, NULL)); /* the reported wait is sufficient */
    CHECK(user_take(u, 0, 50000, NULL));
}

TEST(rate__without_a_limit)
{
    const struct user *u = user("");
    for (unsigned i = 0; i < 1000; i++) {
        CHECK(user_take(u, UINT64_MAX, 0, NULL));
    }
    u = user("rate=0");
    CHECK(user_take(u, UINT64_MAX, 0, NULL));
}

TEST(rate__of_settings)
{
    begin("user u on >p\nuser v on >p rate=7\ninsert-rate 10");
    const struct user *u = check("u", "p"), *v = check("v", "p");
    CHECK(user_take(u, 10, 1000, NULL) && !user_take(u, 1, 1000, NULL));
    CHECK(user_take(v, 7, 1000, NULL) && !user_take(v, 1, 1000, NULL));
    CHECK(
        load("user u on >p\nuser v on >p rate=7\ninsert-rate 1000\ninsert-burst 2000"));
    CHECK(user_is_current(u));
    CHECK(user_take(u, 900, 1000, NULL)); /* at the new rate, the old debt is small */
    CHECK(!user_take(v, 8, 100000, NULL));
}

/* In the long run, the actual rate equals the allowed rate, for any request sizes. */
TEST(rate__in_the_long_run)
{
    static const uint64_t rates[] = { 1, 3, 1000, 1000000, 1000000000, 1000000000000 };
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        char rules[64];
        (void)snprintf(rules, sizeof rules, "rate=%llu", (unsigned long long)rates[i]);
        const struct user *u = user(rules);
        uint64_t taken = 0;
        for (uint64_t now = 1000; now < 1000 + 100000;
             now += 1 + check_random_below(20)) {
            uint64_t n = 1 + check_random_below(rates[i]);
            for (; n > 0 && !user_take(u, n, now, NULL); n /= 2) {
            }
            taken += n;
        }
        /* 100 seconds at the allowed rate, plus a burst worth one second */
        CHECK(taken <= 101 * rates[i]);
        CHECK(taken >= 95 * rates[i]);
    }
}

static _Atomic uint64_t taken_by_all;

static void *take(void *from)
{
    uint64_t taken = 0;
    for (unsigned i = 0; i < 20000; i++) {
        taken += user_take(from, 1, 1000 + i / 100, NULL);
    }
    atomic_fetch_add(&taken_by_all, taken);
    return NULL;
}

TEST(rate__shared_by_threads)
{
    pthread_t threads[4];
    const struct user *u = user("rate=10000 burst=1000");
    atomic_store(&taken_by_all, 0);
    for (size_t i = 0; i < 4; i++) {
        CHECK(pthread_create(&threads[i], NULL, take, (void *)(uintptr_t)u) == 0);
    }
    for (size_t i = 0; i < 4; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    /* 200 ms at the allowed rate plus the burst, minus up to one add per step due to rounding */
    CHECK(taken_by_all <= 3001);
    CHECK(taken_by_all >= 2900);
    users_free(users);
    users = NULL;
    settings_draft_free(&draft);
}
