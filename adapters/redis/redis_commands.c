/*
 * redis_commands.c - registers every row of bf_commands, cf_commands and bg_commands with the
 * server, including its description, keys and categories. Commands that need files or gates are not
 * registered.
 *
 * The server calls a command's function without identifying the command. Each command therefore
 * gets its own function from a fixed list, which passes the command to redis_host_run. (argv[0]
 * does not identify a command, since commands can be renamed.)
 */
#include "redis_commands.h"

#include "letters.h"
#include "redis_host.h"
#include "redis_syntax.h"

#include <stdio.h>
#include <string.h>

/* ---- One function per command ---------------------------------------------------------------- */

enum { COMMANDS_MAX = 64 };

static const struct command *commands_of[COMMANDS_MAX];

#define COMMANDS_8(X, d) X(d##0) X(d##1) X(d##2) X(d##3) X(d##4) X(d##5) X(d##6) X(d##7)
#define COMMANDS_64(X)                                                                 \
    COMMANDS_8(X, 00)                                                                  \
    COMMANDS_8(X, 01)                                                                  \
    COMMANDS_8(X, 02)                                                                  \
    COMMANDS_8(X, 03)                                                                  \
    COMMANDS_8(X, 04)                                                                  \
    COMMANDS_8(X, 05)                                                                  \
    COMMANDS_8(X, 06)                                                                  \
    COMMANDS_8(X, 07) /* octal numbers, 000 to 077 */

#define COMMANDS_FUNCTION(number)                                                      \
    static int commands_run_##number(RedisModuleCtx *ctx, RedisModuleString **argv,    \
                                     int argc)                                         \
    {                                                                                  \
        return redis_host_run(ctx, argv, argc, commands_of[number]);                   \
    }
COMMANDS_64(COMMANDS_FUNCTION)

static const redis_command_function commands_run[COMMANDS_MAX] = {
#define COMMANDS_NAME(number) commands_run_##number,
    COMMANDS_64(COMMANDS_NAME)
};

/* ---- Descriptions ---------------------------------------------------------------------------- */

static void commands_add_word(char *text, size_t room, bool said, const char *word)
{
    const size_t used = strlen(text);
    if (said && used + 1 < room) {
        (void)snprintf(text + used, room - used, "%s%s", used ? " " : "", word);
    }
}

static void commands_flags(const struct command *c, char *text, size_t room)
{
    text[0] = 0;
    commands_add_word(text, room, c->flags & COMMAND_WRITE, "write");
    commands_add_word(text, room, c->flags & COMMAND_READONLY, "readonly");
    commands_add_word(text, room, c->flags & COMMAND_DENYOOM, "deny-oom");
    commands_add_word(text, room, c->flags & COMMAND_FAST, "fast");
    commands_add_word(text, room, c->flags & COMMAND_ADMIN, "admin");
    commands_add_word(text, room, c->flags & COMMAND_NOSCRIPT, "deny-script");
    commands_add_word(text, room, c->flags & COMMAND_LOADING, "allow-loading");
    commands_add_word(text, room, c->flags & COMMAND_STALE, "allow-stale");
}

static void commands_categories(const struct command *c, bool own, char *text,
                                size_t room)
{
    text[0] = 0;
    commands_add_word(text, room, c->flags & COMMAND_ADMIN, "admin dangerous");
    commands_add_word(text, room, c->flags & COMMAND_WRITE, "write");
    commands_add_word(text, room, c->flags & COMMAND_READONLY, "read");
    commands_add_word(text, room, c->flags & COMMAND_FAST, "fast");
    commands_add_word(text, room, !(c->flags & COMMAND_FAST), "slow");
    commands_add_word(text, room, own && c->categories & CATEGORY_BLOOM, "bloom");
    commands_add_word(text, room, own && c->categories & CATEGORY_CUCKOO, "cuckoo");
    commands_add_word(text, room, own && c->categories & CATEGORY_GATE, "gate");
}

/* Returns the key flags, which describe how the command accesses its key. */
static uint64_t commands_key_flags(const struct command *c)
{
    if (!(c->flags & COMMAND_WRITE)) {
        return REDIS_KEY_RO | REDIS_KEY_ACCESS;
    }
    switch (c->behavior.effect) {
    case EFFECT_DROPS: return REDIS_KEY_RM | REDIS_KEY_DELETE;
    case EFFECT_DELETES: return REDIS_KEY_RW | REDIS_KEY_ACCESS | REDIS_KEY_DELETE;
    default: return REDIS_KEY_RW | REDIS_KEY_ACCESS | REDIS_KEY_UPDATE;
    }
}

/* Describes a command's keys: one key or a range of keys. A command that writes and has several keys
 * (BG.MERGE) has two entries: the destination, and the sources that follow it. */
static void commands_keys(const struct command *c, struct redis_command_keys keys[3])
{
    const bool merges = c->flags & COMMAND_WRITE && c->last_key != c->first_key;
    const int beyond = c->last_key < 0 ? c->last_key : c->last_key - c->first_key;
    memset(keys, 0, 3 * sizeof *keys);
    if (c->first_key == 0) {
        return;
    }
    keys[0].flags = commands_key_flags(c);
    keys[0].begin_search_type = REDIS_KEYS_BY_INDEX;
    keys[0].bs.index.pos = c->first_key;
    keys[0].find_keys_type = REDIS_KEYS_IN_RANGE;
    keys[0].fk.range.lastkey = merges ? 0 : beyond;
    keys[0].fk.range.keystep = c->key_step;
    if (merges) {
        keys[1] = keys[0];
        keys[1].flags = REDIS_KEY_RO | REDIS_KEY_ACCESS;
        keys[1].bs.index.pos = c->first_key + 1;
        keys[1].fk.range.lastkey = -1;
    }
}

static bool commands_describe(RedisModuleCommand *made, const struct command *c)
{
    static const struct redis_command_version version = {
        1, sizeof(struct redis_command_history), sizeof(struct redis_command_keys),
        sizeof(struct redis_command_argument)
    };
    static struct redis_syntax syntax; /* the server copies the text */
    struct redis_command_keys keys[3];
    commands_keys(c, keys);
    if (!redis_syntax_read(c, &syntax)) {
        return false;
    }
    const struct redis_command_info info = { .version = &version,
                                             .summary = c->summary,
                                             .complexity = c->complexity,
                                             .since = c->since,
                                             .arity = c->arity,
                                             .key_specs = keys,
                                             .args = syntax.arguments };
    return redis.SetCommandInfo(made, &info) == REDIS_OK;
}

/* ---- Registration ---------------------------------------------------------------------------- */

static bool commands_own; /* whether the server supports module ACL categories */

bool redis_commands_add(RedisModuleCtx *ctx, const struct command *c,
                        redis_command_function run)
{
    char flags[128], categories[128], name[32];
    letters_lower(name, sizeof name, c->name, strlen(c->name));
    commands_flags(c, flags, sizeof flags);
    if (redis.CreateCommand(ctx, name, run, flags, c->first_key, c->last_key,
                            c->key_step)
        != REDIS_OK) {
        redis.Log(
            ctx, "warning",
            "cannot register the command %s; another module may have registered the "
            "same command",
            c->name);
        return false;
    }
    RedisModuleCommand *made = redis.GetCommand(ctx, name);
    if (!made || !commands_describe(made, c)) {
        redis.Log(ctx, "warning", "cannot set the documentation of command %s",
                  c->name);
        return false;
    }
    if (redis.SetCommandACLCategories) {
        commands_categories(c, commands_own, categories, sizeof categories);
        if (redis.SetCommandACLCategories(made, categories) != REDIS_OK) {
            redis.Log(ctx, "notice", "cannot set the ACL categories of command %s",
                      c->name);
        }
    }
    return true;
}

/* Adds the module's ACL categories, if the server supports them. */
static bool commands_own_categories(RedisModuleCtx *ctx)
{
    static const char *const names[] = { "bloom", "cuckoo", "gate" };
    bool all = redis.AddACLCategory != NULL;
    for (size_t i = 0; all && i < sizeof names / sizeof *names; i++) {
        all = redis.AddACLCategory(ctx, names[i]) == REDIS_OK;
    }
    return all;
}

bool redis_commands_register(RedisModuleCtx *ctx)
{
    enum { FAMILIES = 3 };
    const struct command *const families[FAMILIES] = { bf_commands, cf_commands,
                                                       bg_commands };
    size_t number = 0;
    char why[COMMAND_WHY];
    if (!command_table_check(families, FAMILIES, why)) {
        redis.Log(ctx, "warning", "%s", why);
        return false;
    }
    commands_own = commands_own_categories(ctx);
    for (size_t f = 0; f < FAMILIES; f++) {
        for (const struct command *c = families[f]; c->name; c++) {
            if (c->behavior.needs != NEEDS_NOTHING) { /* files or gates */
                continue;
            }
            if (number == COMMANDS_MAX) {
                redis.Log(ctx, "warning", "the command table has more than %d commands",
                          COMMANDS_MAX);
                return false;
            }
            if (!redis_commands_add(ctx, c, commands_run[number])) {
                return false;
            }
            commands_of[number++] = c;
        }
    }
    return true;
}
