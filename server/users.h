/*
 * users.h - who may do what: passwords, commands, names of filters, and how fast.
 *
 *     user alice on $scrypt$ln=14,r=8,p=1$... +@read +@bloom -@dangerous +bf.add ~acme:* rate=5000
 *
 * The rules are in the spirit of Redis's ACL and are applied from left to right to a user who
 * may nothing:
 *
 *     on, off                 may log in, or not
 *     $scrypt$...             a password, hashed (bloomgated --hash-password); there may be several
 *     >password               a password in clear: for trying out
 *     nopass                  any password will do; for `default`: none is needed
 *     +name, -name            may run a command, or not, with all its subcommands
 *     +name|sub, -name|sub    the same for one of them: +client|list
 *     +@category, -@category  the commands of a category; @all is all of them
 *     allcommands, nocommands the same as +@all, -@all
 *     ~pattern                may use filters and files with names that match (pattern.h)
 *     %R~pattern, %W~pattern  may only read, or only write them
 *     allkeys                 the same as ~*
 *     rate=N, burst=N         adds per second, and at once; without it insert-rate, insert-burst
 *     reset                   back to a user who may nothing
 *
 * `default` is who has not logged in. Without a line of his own he may do everything, and needs
 * the password of `requirepass` if there is one.
 *
 * Passwords are checked by scrypt, which takes tens of milliseconds and 16 MiB on purpose: not on
 * the thread of an event loop, and one at a time (users_check waits for other checks), because clients can
 * request checks without logging in. A password that was right before is recognized by a keyed hash in
 * microseconds (users_recall), so clients that connect all the time cost nothing.
 *
 * Lifetime of a `struct user`: it never changes. users_load keeps users whose lines are unchanged, and retires
 * the others. A connection calls user_is_current, which costs one load, before each batch of requests, and
 * logs its user out if the user was retired. A thread may use the users that it finds until the end of its
 * batch (quiet.h), which must be registered with the `readers` of users_reclaim. A client that keeps a user for
 * longer holds it (user_hold). users_reclaim frees retired users that no client holds and no batch can use.
 *
 * Thread safety: MT-Safe, but for users_create and users_free.
 */
#ifndef SERVER_USERS_H
#define SERVER_USERS_H

#include "command_table.h"
#include "settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct users;
struct user;

/* ---- All users ----------------------------------------------------------------------------- */

/* `families`: n arrays of commands, as command_table_create takes them. NULL: no memory. */
struct users *users_create(const struct command *const *families, size_t n);
void users_free(struct users *users); /* NULL is allowed */

/*
 * Takes the users of settings (user lines, requirepass, insert-rate, insert-burst). False: `why`
 * says where and what is wrong, and all users are what they were. The service calls it at startup
 * and before changed settings are published (settings_listen).
 */
bool users_load(struct users *users, const struct settings *settings,
                char why[SETTINGS_WHY]);

/* Frees retired users that are no longer in use. Never waits: users in use are left to a later call. */
struct quiet;
void users_reclaim(struct users *users, struct quiet *readers);

/* Returns the number of retired users that are not freed yet. */
size_t users_retired(struct users *users);

/* Whether somebody who does not know a password can do something: some user who is on needs none. */
bool users_are_open(const struct users *users);

/* The user of connections that have not logged in; NULL: they have to. */
const struct user *users_default(const struct users *users);

/* The user default if he is on, whatever his password: for http-auth no and metrics-auth no. NULL:
 * he is off. */
const struct user *users_default_unasked(struct users *users);

/* The user of that name whom a password belongs to; NULL: none. Slow; takes as long for users
 * that do not exist. Only a user who is on is returned. */
const struct user *users_check(struct users *users, bg_bytes name, bg_bytes password);

/* The same, but only for what users_check has found right before; NULL: ask users_check. Fast. */
const struct user *users_recall(struct users *users, bg_bytes name, bg_bytes password);

/* Calls `visit` with each user and the words of his line, which stay as long as he does, in the
 * order of their names; the first word is the name. It must not call functions of users. */
void users_each(struct users *users,
                void (*visit)(void *context, const struct user *user,
                              const char *const *words, size_t n),
                void *context);

/* ---- Guessing ------------------------------------------------------------------------------ */

/*
 * Who failed often has to wait (guesses.h): 0, or for how many milliseconds from `now` on
 * (milliseconds, monotonic). `address` is what inet_ntop gives, or "" for a unix socket. The way
 * of a log-in: users_recall; if that finds nobody users_guess_wait; if that is 0 users_check, as
 * a job; if that finds nobody users_guess_failed.
 */
uint64_t users_guess_wait(struct users *users, const char *address, bg_bytes name,
                          uint64_t now);
void users_guess_failed(struct users *users, const char *address, bg_bytes name,
                        uint64_t now);

/* ---- One user ------------------------------------------------------------------------------ */

enum { USER_READ = 1, USER_WRITE = 2, USER_TOUCH_MOST = 4096 };

const char *user_name(const struct user *user);

/* Keeps a user valid beyond the end of the batch that found it, until user_let_go. NULL is allowed. */
void user_hold(const struct user *user);
void user_let_go(const struct user *user);

/* False: he was changed or removed since; the connection has to log in again. */
bool user_is_current(const struct user *user);

bool user_is_on(const struct user *user);

/* Whether there are names that he may write to. */
bool user_may_write(const struct user *user);

/* Whether he may run a command, which is one of the families. Cost: a few comparisons. */
bool user_may_run(const struct user *user, const struct command *command);

/* Whether he may use a name in all ways of `need`: USER_READ, USER_WRITE or both. Names longer
 * than USER_TOUCH_MOST match no pattern but "*". */
bool user_may_touch(const struct user *user, bg_bytes name, unsigned need);

/* The same for every possible name. */
bool user_may_touch_all(const struct user *user, unsigned need);

/* Takes n adds from his account: false if there are not so many, and then *wait milliseconds have
 * to pass first (NULL is allowed); UINT64_MAX: n is more than he can ever have at once. `now` is
 * in milliseconds, monotonic. */
bool user_take(const struct user *user, uint64_t n, uint64_t now, uint64_t *wait);

/* Takes note that he was refused something for lack of rights. */
void user_refused(const struct user *user);

struct user_figures {
    uint64_t rate, burst;    /* adds per second, and at once; 0: as many as he likes */
    uint64_t refused_rate;   /* adds that user_take refused */
    uint64_t refused_rights; /* user_refused */
};
void user_about(const struct user *user, struct user_figures *figures);

/* ---- Passwords ----------------------------------------------------------------------------- */

/* Reads a line from a file and prints its hash: --hash-password. Returns an exit code. */
int users_hash_line(FILE *from, FILE *to);

#endif
