/*
 * user_rules.h - the internals of a user, which is created from a line of rules.
 */
#ifndef SERVER_CONFIG_USER_RULES_H
#define SERVER_CONFIG_USER_RULES_H

#include "config/password.h"
#include "config/users.h"

#include <stdatomic.h>

enum {
    /* Number of bitmap words, each of which covers 64 commands. */
    USER_COMMAND_WORDS = 16,
    USER_PASSWORDS_MAX = 8,
    USER_PATTERN_MAX = 1024,
    USER_MARK = 32 /* size of the keyed hash of a password, in bytes */
};

/* The commands that rules can refer to. Each array ends with a command whose name is NULL. */
struct user_commands {
    const struct command *const *families;
    size_t families_count;
    /* Number of commands. The first command of family f has the index first[f]. */
    size_t count;
    size_t first[16];
    size_t sizes[16];
};

/* Limits for users without their own rate. CONFIG SET changes them. */
struct user_rates {
    _Atomic uint64_t rate, burst;
};

struct user_password {
    /* Whether the password was specified in plaintext. For such a password, only the mark is
     * stored, not a hash. A hashed password gets a mark when it is first accepted. */
    bool clear;
    bool known; /* whether `mark` is set; protected by the lock in struct users */
    uint8_t mark[USER_MARK];
    struct password hash;
};

struct user_pattern {
    const char *text;
    size_t len;
    unsigned ways; /* USER_READ, USER_WRITE or both */
};

/* The mutable part of a user. It is separate so that the rest of the user can be const. */
struct user_state {
    _Atomic bool retired;
    _Atomic uint64_t holds; /* number of clients that hold the user (user_hold) */
    /* Whether the user was held after users_reclaim last cleared this flag. */
    _Atomic bool was_held;
    struct user *next;              /* next user in a list of users */
    _Atomic uint64_t debt_until;    /* see user_take */
    _Atomic uint64_t queries, adds; /* see user_count */
    /* `queries` and `adds` at the last user_step, and their rates in thousandths per second */
    uint64_t last_queries, last_adds;
    _Atomic uint64_t queries_rate, adds_rate;
    _Atomic uint64_t refused_rate, refused_rights, refused_quota;
    /* The filters that the user may write to. The catalog's lock protects changes. */
    _Atomic int64_t quota_filters, quota_bytes;
    _Atomic uint64_t
        quota_pending; /* bytes reserved by requests and dumps of the user */
    _Atomic uint64_t quota_dumped; /* those of dumps */
    _Atomic bool quota_counted;    /* the filters have been counted */
    struct user_password passwords[USER_PASSWORDS_MAX];
};

struct user {
    const struct user_commands *commands;
    const struct user_rates *rates;
    struct settings_pool *pool; /* memory for the user and its data */
    const char *const *words;   /* words of the user's line */
    size_t word_count;
    bool on, nopass;
    unsigned all_names; /* permissions for every name: USER_READ, USER_WRITE */
    uint64_t may_run[USER_COMMAND_WORDS];
    struct user_pattern *patterns;
    size_t pattern_count, pattern_room;
    size_t password_count;
    bool has_rate;
    uint64_t rate, burst;
    uint64_t max_bytes, max_filters; /* quotas; 0: none */
    struct user_state *state;
};

/* Assigns indexes to the commands. Returns false if there are more commands than a user's bitmap
 * has bits. */
bool user_commands_init(struct user_commands *commands,
                        const struct command *const *families, size_t n);

/* Computes the mark of a password: a hash keyed with a per-process secret. */
typedef void user_marker(void *context, const char *name, bg_bytes password,
                         uint8_t mark[USER_MARK]);

/* Creates a user from the words of a line, the first of which is the user's name. On failure, returns NULL and
 * sets `why`. */
struct user *user_create(const struct user_commands *commands,
                         const struct user_rates *rates, const char *const *words,
                         size_t count, user_marker *marker, void *context,
                         char why[SETTINGS_WHY]);
void user_free(struct user *user);

#endif
