/*
 * user_rules.h - what a line of rules comes to; inside of users.
 */
#ifndef SERVER_USER_RULES_H
#define SERVER_USER_RULES_H

#include "password.h"
#include "users.h"

#include <stdatomic.h>

enum {
    USER_COMMAND_WORDS = 16, /* of 64 commands each */
    USER_PASSWORDS_MOST = 8,
    USER_NAME_MOST = 255,
    USER_PATTERN_MOST = 1024,
    USER_MARK = 32 /* bytes of a keyed hash of a password */
};

/* The commands that rules may name: arrays that end with one without a name. */
struct user_commands {
    const struct command *const *families;
    size_t families_count;
    size_t count; /* of all commands; the first of family f has number first[f] */
    size_t first[16];
    size_t sizes[16];
};

/* Adds without a rate of a user's own; CONFIG changes it. */
struct user_rates {
    _Atomic uint64_t rate, burst;
};

struct user_password {
    bool clear; /* `mark` is all there is; else a hash, and a mark once it was right */
    bool known; /* there is a mark; under the lock of users */
    uint8_t mark[USER_MARK];
    struct password hash;
};

struct user_pattern {
    const char *text;
    size_t len;
    unsigned ways; /* USER_READ, USER_WRITE */
};

/* What changes of a user, apart, so that all else can be const. */
struct user_state {
    _Atomic bool retired;
    _Atomic uint64_t holds;      /* by clients: user_hold */
    _Atomic bool was_held;       /* since users_reclaim last cleared it */
    struct user *next;           /* in a list of users */
    _Atomic uint64_t debt_until; /* see user_take */
    _Atomic uint64_t refused_rate, refused_rights;
    struct user_password passwords[USER_PASSWORDS_MOST];
};

struct user {
    const struct user_commands *commands;
    const struct user_rates *rates;
    struct settings_pool *pool; /* memory of all that it points to */
    const char *const *words;   /* its line */
    size_t word_count;
    bool on, nopass;
    unsigned all_names; /* ways in which it may use every name */
    uint64_t may_run[USER_COMMAND_WORDS];
    struct user_pattern *patterns;
    size_t pattern_count, pattern_room;
    size_t password_count;
    bool has_rate;
    uint64_t rate, burst;
    struct user_state *state;
};

/* False: there are more commands than a user can have rules for. */
bool user_commands_init(struct user_commands *commands,
                        const struct command *const *families, size_t n);

/* A mark of a password: a keyed hash, of this process. */
typedef void user_marker(void *context, const char *name, bg_bytes password,
                         uint8_t mark[USER_MARK]);

/* A user from the words of a line, of which the first is the name. NULL: `why`. */
struct user *user_create(const struct user_commands *commands,
                         const struct user_rates *rates, const char *const *words,
                         size_t count, user_marker *marker, void *context,
                         char why[SETTINGS_WHY]);
void user_free(struct user *user);

#endif
