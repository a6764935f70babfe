/*
 * user_rules.c - creates a user from its rules: a bitmap of commands, a list of patterns, and password hashes.
 *
 * Permissions are computed once, when the line is read. Each command has a bit, so a permission check costs little more
 * than finding the command's index. Error messages never contain a password, or a word that may be one.
 */
#include "config/user_rules.h"

#include "letters.h"
#include "nearest.h"
#include "number.h"
#include "pattern.h"

#include <string.h>
#include <strings.h>

/* ---- Commands ---------------------------------------------------------------------------- */

bool user_commands_init(struct user_commands *commands,
                        const struct command *const *families, size_t n)
{
    const size_t most = sizeof commands->first / sizeof *commands->first;
    *commands = (struct user_commands){ families, n, 0, { 0 }, { 0 } };
    for (size_t f = 0; f < n && f < most; f++) {
        size_t size = 0;
        while (families[f][size].name) {
            size++;
        }
        commands->first[f] = commands->count;
        commands->sizes[f] = size;
        commands->count += size;
    }
    return n <= most && commands->count <= 64 * USER_COMMAND_WORDS;
}

static const struct command *user_command(const struct user_commands *commands,
                                          size_t number)
{
    size_t f = 0;
    while (number - commands->first[f] >= commands->sizes[f]) {
        f++;
    }
    return &commands->families[f][number - commands->first[f]];
}

/* Returns the index of a command, or SIZE_MAX if no family contains it. */
static size_t user_command_number(const struct user_commands *commands,
                                  const struct command *command)
{
    for (size_t f = 0; f < commands->families_count; f++) {
        const uintptr_t offset = (uintptr_t)command - (uintptr_t)commands->families[f];
        if (offset / sizeof *command < commands->sizes[f]) {
            return commands->first[f] + offset / sizeof *command;
        }
    }
    return SIZE_MAX;
}

/* ---- Rules -------------------------------------------------------------------------------- */

/* The user that user_create is creating. */
struct user_draft {
    struct user *user;
    user_marker *marker;
    void *context;
    char *why;
};

static const char *user_draft_name(const struct user_draft *draft)
{
    return draft->user->words[0];
}

/* Reports an invalid rule: "found '+bf.ad', expected ...". Returns false. */
static bool user_wrong(const struct user_draft *draft, const char *rule,
                       const char *expected, const char *near)
{
    (void)snprintf(draft->why, SETTINGS_WHY, "found '%.80s', expected %s%s%s%s", rule,
                   expected, near ? "; did you mean " : "", near ? near : "",
                   near ? "?" : "");
    return false;
}

/* Reports an error without the rule, which may contain a password. Returns false. */
static bool user_wrong_hidden(const struct user_draft *draft, const char *wrong)
{
    (void)snprintf(draft->why, SETTINGS_WHY, "%s", wrong);
    return false;
}

static void user_allow(struct user *user, size_t number, bool allowed)
{
    const uint64_t bit = (uint64_t)1 << number % 64;
    if (allowed) {
        user->may_run[number / 64] |= bit;
    } else {
        user->may_run[number / 64] &= ~bit;
    }
}

static void user_allow_category(struct user *user, size_t category, bool allowed)
{
    for (size_t i = 0; i < user->commands->count; i++) {
        const struct command *command = user_command(user->commands, i);
        if (command_in_category(command, category)) {
            user_allow(user, i, allowed);
        }
    }
}

enum { USER_CATEGORIES = 32 }; /* maximum number of category names in a suggestion */

/* +@category */
static bool user_rule_category(const struct user_draft *draft, const char *rule)
{
    const char *names[USER_CATEGORIES];
    size_t n = 0;
    for (; n < USER_CATEGORIES && command_category_name(n); n++) {
        names[n] = command_category_name(n);
        if (strcasecmp(rule + 2, names[n]) == 0) {
            user_allow_category(draft->user, n, *rule == '+');
            return true;
        }
    }
    return user_wrong(draft, rule, "a category such as @read",
                      nearest_name(rule + 2, names, n));
}

/* Returns whether `name` is the command that the rule refers to, or one of its subcommands. */
static bool user_rule_covers(const char *rule, const char *name)
{
    const size_t n = strlen(rule);
    return strncasecmp(rule, name, n) == 0 && (!name[n] || name[n] == '|');
}

/* Returns whether a rule refers to a subcommand of a command that has none. */
static bool user_rule_is_too_fine(const struct user_commands *commands,
                                  const char *rule)
{
    const size_t n = strcspn(rule, "|");
    bool plain = false;
    for (size_t i = 0; i < commands->count && rule[n]; i++) {
        const struct command *command = user_command(commands, i);
        plain = plain
                || (strncasecmp(rule, command->name, n) == 0 && !command->name[n]
                    && !(command->flags & COMMAND_CONTAINER));
    }
    return plain;
}

/* +command, +command|subcommand */
static bool user_rule_command(const struct user_draft *draft, const char *rule)
{
    const struct user_commands *commands = draft->user->commands;
    const char *names[64 * USER_COMMAND_WORDS];
    char upper[64];
    bool found = false;
    for (size_t i = 0; i < commands->count; i++) {
        names[i] = user_command(commands, i)->name;
        if (user_rule_covers(rule + 1, names[i])) {
            user_allow(draft->user, i, *rule == '+');
            found = true;
        }
    }
    if (found) {
        return true;
    }
    letters_upper(upper, sizeof upper, rule + 1, strlen(rule + 1));
    return commands->count == 0 /* if no commands are known, any name is accepted */
           || user_wrong(draft, rule,
                         user_rule_is_too_fine(commands, rule + 1)
                             ? "a whole command, because this one has no subcommands"
                             : "a command such as bf.add",
                         nearest_name(upper, names, commands->count));
}

/* ~pattern, %R~pattern */
static bool user_rule_pattern(const struct user_draft *draft, const char *rule)
{
    struct user *user = draft->user;
    unsigned ways = 0;
    const char *at = rule;
    if (*at == '%') {
        for (at++; *at && *at != '~'; at++) {
            const unsigned way = *at == 'R' || *at == 'r'   ? USER_READ
                                 : *at == 'W' || *at == 'w' ? USER_WRITE
                                                            : 0;
            if (!way) {
                break;
            }
            ways |= way;
        }
    } else {
        ways = USER_READ | USER_WRITE;
    }
    if (*at != '~' || !ways || strlen(at + 1) > USER_PATTERN_MAX) {
        return user_wrong(draft, rule,
                          "~PATTERN, %R~PATTERN or %W~PATTERN (at most 1024 bytes)",
                          NULL);
    }
    if (strcmp(at + 1, "*") == 0) {
        user->all_names |= ways;
        return true;
    }
    if (user->pattern_count == user->pattern_room) {
        const size_t room = user->pattern_room ? 2 * user->pattern_room : 4;
        struct user_pattern *more = settings_pool_take(user->pool, room * sizeof *more);
        if (!more) {
            return user_wrong_hidden(draft, "out of memory");
        }
        if (user->pattern_count) {
            memcpy(more, user->patterns, user->pattern_count * sizeof *more);
        }
        user->patterns = more;
        user->pattern_room = room;
    }
    user->patterns[user->pattern_count++] =
        (struct user_pattern){ at + 1, strlen(at + 1), ways };
    return true;
}

/* $scrypt$..., >password */
static bool user_rule_password(const struct user_draft *draft, const char *rule)
{
    struct user *user = draft->user;
    struct user_password *password = &user->state->passwords[user->password_count];
    if (user->password_count == USER_PASSWORDS_MAX) {
        return user_wrong_hidden(draft, "too many passwords (maximum: 8)");
    }
    if (*rule == '$') {
        const char *wrong = password_read(rule, &password->hash);
        if (wrong) {
            (void)snprintf(draft->why, SETTINGS_WHY, "invalid password hash: %s",
                           wrong);
            return false;
        }
    } else {
        const size_t n = strlen(rule + 1);
        if (n == 0 || n > PASSWORD_MAX) {
            return user_wrong_hidden(draft, "a password must have 1 to 1024 bytes");
        }
        password->clear = password->known = true;
        draft->marker(draft->context, user_draft_name(draft), (bg_bytes){ rule + 1, n },
                      password->mark);
    }
    user->password_count++;
    user->nopass = false;
    return true;
}

/* rate=, burst= */
static bool user_rule_number(const struct user_draft *draft, const char *rule,
                             uint64_t *field)
{
    uint64_t value;
    if (!number_count(strchr(rule, '=') + 1, &value) || value > 1000000000000) {
        return user_wrong(draft, rule, "a whole number from 0 to 1e12", NULL);
    }
    *field = value;
    draft->user->has_rate = true;
    return true;
}

/* quota-memory=, quota-filters= */
static bool user_rule_quota(const struct user_draft *draft, const char *rule,
                            uint64_t *field)
{
    return (number_count(strchr(rule, '=') + 1, field) && *field <= INT64_MAX / 2)
           || user_wrong(draft, rule,
                         "a number such as 100, or a size such as 512Mi (0: no quota)",
                         NULL);
}

static void user_reset(struct user *user)
{
    user->max_bytes = user->max_filters = 0;
    user->on = user->nopass = user->has_rate = false;
    user->all_names = 0;
    user->pattern_count = user->password_count = 0;
    user->rate = user->burst = 0;
    memset(user->may_run, 0, sizeof user->may_run);
}

/* Reports an unknown rule. It is not shown, because it may be a password. */
static bool user_rule_unknown(const struct user_draft *draft, const char *rule)
{
    static const char *const limits[] = { "rate=", "burst=", "quota-memory=",
                                          "quota-filters=" };
    const char *equals = strchr(rule, '=');
    char name[32] = "";
    if (equals && (size_t)(equals - rule) < sizeof name - 1) {
        letters_lower(name, sizeof name, rule, (size_t)(equals - rule) + 1);
    }
    const char *near =
        *name ? nearest_name(name, limits, sizeof limits / sizeof *limits) : NULL;
    (void)snprintf(draft->why, SETTINGS_WHY,
                   "unknown rule (hidden, because it may be a password)%s%s%s; write "
                   "passwords as >PASSWORD, or hash them with --hash-password",
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    return false;
}

static bool user_rule_word(const struct user_draft *draft, const char *rule)
{
    static const char *const words[] = { "on",        "off",         "nopass",
                                         "resetpass", "allcommands", "nocommands",
                                         "allkeys",   "resetkeys",   "reset" };
    enum { WORDS = sizeof words / sizeof *words };
    struct user *user = draft->user;
    size_t i = 0;
    while (i < WORDS && strcasecmp(words[i], rule) != 0) {
        i++;
    }
    switch (i) {
    case 0: user->on = true; return true;
    case 1: user->on = false; return true;
    case 2:
        user->nopass = true;
        user->password_count = 0;
        return true;
    case 3:
        user->nopass = false;
        user->password_count = 0;
        return true;
    case 4: user_allow_category(user, 0, true); return true;
    case 5: user_allow_category(user, 0, false); return true;
    case 6: user->all_names = USER_READ | USER_WRITE; return true;
    case 7:
        user->all_names = 0;
        user->pattern_count = 0;
        return true;
    case 8: user_reset(user); return true;
    default: break;
    }
    const char *near = nearest_name(rule, words, WORDS);
    return near ? user_wrong(draft, rule, "a rule", near)
                : user_rule_unknown(draft, rule);
}

static bool user_rule(const struct user_draft *draft, const char *rule)
{
    switch (*rule) {
    case '+':
    case '-':
        return rule[1] == '@' ? user_rule_category(draft, rule)
                              : user_rule_command(draft, rule);
    case '~':
    case '%': return user_rule_pattern(draft, rule);
    case '$':
    case '>': return user_rule_password(draft, rule);
    default: break;
    }
    if (strncasecmp(rule, "rate=", 5) == 0) {
        return user_rule_number(draft, rule, &draft->user->rate);
    }
    if (strncasecmp(rule, "burst=", 6) == 0) {
        return user_rule_number(draft, rule, &draft->user->burst);
    }
    if (strncasecmp(rule, "quota-memory=", 13) == 0) {
        return user_rule_quota(draft, rule, &draft->user->max_bytes);
    }
    if (strncasecmp(rule, "quota-filters=", 14) == 0) {
        return user_rule_quota(draft, rule, &draft->user->max_filters);
    }
    return user_rule_word(draft, rule);
}

/* ---- Life --------------------------------------------------------------------------------- */

static bool user_keep_words(struct user *user, const char *const *words, size_t count)
{
    const char **copies = settings_pool_take(user->pool, count * sizeof *copies);
    for (size_t i = 0; i < count; i++) {
        const size_t n = strlen(words[i]) + 1;
        char *copy = copies ? settings_pool_take(user->pool, n) : NULL;
        if (!copy) {
            return false;
        }
        memcpy(copy, words[i], n);
        copies[i] = copy;
    }
    user->words = copies;
    user->word_count = count;
    return true;
}

static struct user *user_begin(const struct user_commands *commands,
                               const struct user_rates *rates, const char *const *words,
                               size_t count)
{
    struct settings_pool *pool = settings_pool_create();
    struct user *user = pool ? settings_pool_take(pool, sizeof *user) : NULL;
    struct user_state *state = user ? settings_pool_take(pool, sizeof *state) : NULL;
    if (!state) {
        settings_pool_free(pool);
        return NULL;
    }
    *user = (struct user){
        .commands = commands, .rates = rates, .pool = pool, .state = state
    };
    if (!user_keep_words(user, words, count)) {
        user_free(user);
        return NULL;
    }
    return user;
}

struct user *user_create(const struct user_commands *commands,
                         const struct user_rates *rates, const char *const *words,
                         size_t count, user_marker *marker, void *context,
                         char why[SETTINGS_WHY])
{
    struct user *user = user_begin(commands, rates, words, count);
    char one[SETTINGS_WHY], all[SETTINGS_WHY] = "";
    const struct user_draft draft = { user, marker, context, one };
    if (!user) {
        (void)snprintf(why, SETTINGS_WHY, "out of memory");
        return NULL;
    }
    if (!*words[0] || strlen(words[0]) > USER_NAME_MAX) {
        settings_join(all, "a user name must have 1 to 255 bytes");
    }
    for (size_t i = 1; i < count; i++) {
        if (!user_rule(&draft, user->words[i])) {
            settings_join(all, one);
        }
    }
    if (*all) {
        settings_explain(why, "user %.60s: %s", words[0], all);
        user_free(user);
        return NULL;
    }
    return user;
}

void user_free(struct user *user)
{
    if (user) {
        /* Wipes the user's memory, and then frees it. */
        settings_pool_free(user->pool);
    }
}

/* ---- Permissions -------------------------------------------------------------------------- */

const char *user_name(const struct user *user)
{
    return user->words[0];
}

void user_hold(const struct user *user)
{
    if (user) { /* the order matters; see users_choose */
        atomic_fetch_add(&user->state->holds, 1);
        atomic_store(&user->state->was_held, true);
    }
}

void user_let_go(const struct user *user)
{
    if (user) {
        atomic_fetch_sub(&user->state->holds, 1);
    }
}

bool user_is_current(const struct user *user)
{
    return !atomic_load_explicit(&user->state->retired, memory_order_relaxed);
}

bool user_may_run(const struct user *user, const struct command *command)
{
    const size_t number = user_command_number(user->commands, command);
    return (command->flags & COMMAND_NOAUTH)
           || (number != SIZE_MAX && (user->may_run[number / 64] >> number % 64 & 1));
}

bool user_may_touch(const struct user *user, bg_bytes name, unsigned need)
{
    need &= ~user->all_names;
    if (need && name.len > USER_TOUCH_MAX) {
        return false;
    }
    for (size_t i = 0; i < user->pattern_count && need; i++) {
        const struct user_pattern *pattern = &user->patterns[i];
        if ((need & pattern->ways)
            && pattern_matches(pattern->text, pattern->len, name.data, name.len)) {
            need &= ~pattern->ways;
        }
    }
    return need == 0;
}

bool user_may_touch_all(const struct user *user, unsigned need)
{
    return (need & ~user->all_names) == 0;
}

/*
 * The rate limit is a single number: the time until which the user is in debt. Each add advances that time by 1/rate. n
 * adds are allowed if the resulting time is at most burst/rate in the future. There is no bucket to refill, and
 * charging for adds takes one compare-and-swap. Times are in units of 2^-20 ms (about a nanosecond), so 64 bits
 * are enough for 500 years.
 */
#define USER_TICKS 1048576.0 /* ticks per ms */

bool user_rate(const struct user *user, uint64_t *rate, uint64_t *burst)
{
    *rate = user->has_rate ? user->rate : atomic_load(&user->rates->rate);
    *burst = user->has_rate ? user->burst : atomic_load(&user->rates->burst);
    *burst = *burst ? *burst : *rate;
    return user->has_rate;
}

static bool user_too_fast(const struct user *user, uint64_t n)
{
    atomic_fetch_add_explicit(&user->state->refused_rate, n, memory_order_relaxed);
    return false;
}

bool user_take(const struct user *user, uint64_t n, uint64_t now, uint64_t *wait)
{
    uint64_t none, rate, burst;
    (void)user_rate(user, &rate, &burst);
    wait = wait ? wait : &none;
    *wait = 0;
    if (rate == 0 || n == 0) {
        return true;
    }
    if (n > burst) {
        *wait = UINT64_MAX;
        return user_too_fast(user, n);
    }
    const double add = 1000 * USER_TICKS / (double)rate;
    const uint64_t cost = (uint64_t)((double)n * add) + 1;
    const uint64_t most = (uint64_t)((double)burst * add) + 1;
    const uint64_t ticks = now << 20;
    uint64_t debt =
        atomic_load_explicit(&user->state->debt_until, memory_order_relaxed);
    uint64_t after;
    do {
        after = (debt > ticks ? debt : ticks) + cost;
        if (after > ticks + most) {
            *wait = ((after - ticks - most) >> 20) + 1;
            return user_too_fast(user, n);
        }
    } while (!atomic_compare_exchange_weak(&user->state->debt_until, &debt, after));
    return true;
}

/* ---- Quotas --------------------------------------------------------------------------------- */

bool user_has_quota(const struct user *user)
{
    return user->max_bytes || user->max_filters;
}

bool user_has_usage(const struct user *user)
{
    return atomic_load(&user->state->quota_counted);
}

void user_set_usage(const struct user *user, int64_t filters, int64_t bytes)
{
    atomic_store(&user->state->quota_filters, filters);
    atomic_store(&user->state->quota_bytes, bytes);
    atomic_store(&user->state->quota_counted, true);
}

void user_charge(const struct user *user, int64_t filters, int64_t bytes)
{
    atomic_fetch_add(&user->state->quota_filters, filters);
    atomic_fetch_add(&user->state->quota_bytes, bytes);
}

static bool user_over_quota(const struct user *user)
{
    atomic_fetch_add_explicit(&user->state->refused_quota, 1, memory_order_relaxed);
    return false;
}

/* Adds the bytes before checking the limit, so that if two threads need the last bytes, at most one
 * succeeds. */
bool user_reserve(const struct user *user, uint64_t bytes)
{
    struct user_state *state = user->state;
    if (!user->max_bytes) {
        return true;
    }
    const uint64_t before = atomic_fetch_add(&state->quota_pending, bytes);
    if (bytes <= user->max_bytes && before <= user->max_bytes
        && (int64_t)(before + bytes) + atomic_load(&state->quota_bytes)
               <= (int64_t)user->max_bytes) {
        return true;
    }
    atomic_fetch_sub(&state->quota_pending, bytes);
    return user_over_quota(user);
}

void user_unreserve(const struct user *user, uint64_t bytes)
{
    if (user->max_bytes) {
        atomic_fetch_sub(&user->state->quota_pending, bytes);
    }
}

void user_dump_begins(const struct user *user, uint64_t bytes)
{
    atomic_fetch_add(&user->state->quota_dumped, bytes);
}

void user_dump_ends(const struct user *user, uint64_t bytes)
{
    atomic_fetch_sub(&user->state->quota_dumped, bytes);
}

bool user_admits(const struct user *user, int64_t filters, int64_t bytes,
                 uint64_t reserved)
{
    const struct user_state *state = user->state;
    const int64_t pending = (int64_t)(atomic_load(&state->quota_pending) - reserved);
    if ((user->max_filters && filters > 0
         && atomic_load(&state->quota_filters) + filters > (int64_t)user->max_filters)
        || (user->max_bytes && bytes > 0
            && atomic_load(&state->quota_bytes) + pending + bytes
                   > (int64_t)user->max_bytes)) {
        return user_over_quota(user);
    }
    return true;
}

/* ---- Statistics ---------------------------------------------------------------------------- */

bool user_is_on(const struct user *user)
{
    return user->on;
}

bool user_may_write(const struct user *user)
{
    unsigned ways = user->all_names;
    for (size_t i = 0; i < user->pattern_count; i++) {
        ways |= user->patterns[i].ways;
    }
    return (ways & USER_WRITE) != 0;
}

void user_refused(const struct user *user)
{
    atomic_fetch_add_explicit(&user->state->refused_rights, 1, memory_order_relaxed);
}

void user_count(const struct user *user, uint64_t queries, uint64_t adds)
{
    struct user_state *state = user->state;
    if (queries) {
        atomic_fetch_add_explicit(&state->queries, queries, memory_order_relaxed);
    }
    if (adds) {
        atomic_fetch_add_explicit(&state->adds, adds, memory_order_relaxed);
    }
}

static uint64_t user_rate_of(uint64_t now, uint64_t *last, double seconds)
{
    const uint64_t more = now > *last ? now - *last : 0;
    *last = now;
    return (uint64_t)(1000 * (double)more / seconds);
}

void user_step(const struct user *user, double seconds)
{
    struct user_state *state = user->state;
    const uint64_t queries = atomic_load(&state->queries);
    const uint64_t adds = atomic_load(&state->adds);
    atomic_store(&state->queries_rate,
                 user_rate_of(queries, &state->last_queries, seconds));
    atomic_store(&state->adds_rate, user_rate_of(adds, &state->last_adds, seconds));
}

void user_about(const struct user *user, struct user_figures *figures)
{
    const struct user_state *state = user->state;
    figures->queries = atomic_load(&state->queries);
    figures->adds = atomic_load(&state->adds);
    figures->queries_per_second = (double)atomic_load(&state->queries_rate) / 1000;
    figures->adds_per_second = (double)atomic_load(&state->adds_rate) / 1000;
    user_rate(user, &figures->rate, &figures->burst);
    figures->refused_rate = atomic_load(&user->state->refused_rate);
    figures->refused_rights = atomic_load(&user->state->refused_rights);
    figures->refused_quota = atomic_load(&user->state->refused_quota);
    figures->max_filters = user->max_filters;
    figures->max_bytes = user->max_bytes;
    const int64_t filters = atomic_load(&user->state->quota_filters),
                  bytes = atomic_load(&user->state->quota_bytes)
                          + (int64_t)atomic_load(&user->state->quota_dumped);
    figures->filters = filters > 0 ? (uint64_t)filters : 0;
    figures->bytes = bytes > 0 ? (uint64_t)bytes : 0;
}
