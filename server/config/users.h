/*
 * users.h - users and their permissions: passwords, commands, filter names and rate limits.
 *
 *     user alice on $scrypt$ln=14,r=8,p=1$... +@read +@bloom -@dangerous +bf.add ~acme:* rate=5000
 *
 * The rules resemble Redis ACL rules. Rules apply from left to right, starting with no permissions:
 *
 *     on, off                 allow or forbid login
 *     $scrypt$...             add a hashed password (bloomgated --hash-password); several are allowed
 *     >password               add a plaintext password, for experiments
 *     nopass                  accept any password; the user `default` then needs no login
 *     resetpass               remove all passwords and nopass
 *     +name, -name            allow or forbid a command with all its subcommands
 *     +name|sub, -name|sub    allow or forbid one subcommand: +client|list
 *     +@category, -@category  allow or forbid the commands of a category; @all means all commands
 *     allcommands, nocommands short for +@all and -@all
 *     ~pattern                allow filters and files whose names match (pattern.h)
 *     %R~pattern, %W~pattern  allow only reading or only writing them
 *     allkeys, resetkeys      short for ~*; remove all patterns
 *     rate=N, burst=N         adds per second, and maximum burst (default: insert-rate, insert-burst)
 *     quota-memory=SIZE, quota-filters=N
 *                             maximum memory and number of the filters that the user may write to
 *     reset                   remove all permissions and passwords
 *
 * Connections that have not logged in act as the user `default`. If no line defines `default`, it
 * has all permissions, and its password is `requirepass`, if set.
 *
 * Passwords are checked with scrypt, which deliberately takes tens of milliseconds and 16 MiB. Passwords are
 * therefore never checked on an event-loop thread. Only one password is checked at a time (users_check waits for
 * other checks), because clients can trigger checks without logging in. A password that was accepted before is
 * recognized by its keyed hash within microseconds (users_recall), so logins by clients that reconnect frequently
 * cost almost nothing.
 *
 * Lifetime of users: a `struct user` never changes. users_load keeps users whose lines are unchanged, and retires the
 * others. A connection calls user_is_current, which costs one load, before each batch of requests, and logs its user
 * out if that user has been retired. A thread may use the users that it finds until the end of its batch (quiet.h).
 * The batch must be tracked by the `readers` that are passed to users_reclaim. A client that keeps a user
 * for longer holds it (user_hold). users_reclaim frees retired users that no client holds and no batch can use.
 *
 * Thread safety: all functions are MT-Safe except users_create and users_free.
 */
#ifndef SERVER_CONFIG_USERS_H
#define SERVER_CONFIG_USERS_H

#include "command_table.h"
#include "config/settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct users;
struct user;

/* ---- All users ----------------------------------------------------------------------------- */

/* Creates an empty set of users. `families` contains n arrays of commands, in the form that command_table_create
 * accepts. Returns NULL if out of memory, if no random numbers are available, or if there are too many commands. */
struct users *users_create(const struct command *const *families, size_t n);
void users_free(struct users *users); /* NULL is allowed */

/*
 * Replaces all users with the users defined in the settings (user lines, requirepass, insert-rate, insert-burst). On
 * failure, returns false, sets `why` to the location and the error, and leaves the users unchanged. The service calls
 * this function at startup, and before it publishes changed settings (settings_listen).
 */
bool users_load(struct users *users, const struct settings *settings,
                char why[SETTINGS_WHY]);

/* Checks a line that defines a user, without adding the user. On failure, returns false and stores the
 * reason, without the line's location, in `why`. */
bool users_check_line(struct users *users, const struct settings_line *line,
                      char why[SETTINGS_WHY]);

/* Frees retired users that are no longer in use. Never blocks: users that are still in use are freed by a later
 * call. Returns whether such users remain. */
struct quiet;
bool users_reclaim(struct users *users, struct quiet *readers);

/* Returns whether at least one enabled user needs no password. */
bool users_are_open(const struct users *users);

/* Returns the user for connections that have not logged in, or NULL if connections must log in. */
const struct user *users_default(const struct users *users);

/* Returns the user `default` even if it has a password, or NULL if that user is disabled. Used with http-auth
 * no and metrics-auth no. */
const struct user *users_default_unasked(struct users *users);

/* Checks a password. Returns the enabled user with this name and password, or NULL if there is none. The check is
 * slow, and takes just as long for users that do not exist. */
const struct user *users_check(struct users *users, bg_bytes name, bg_bytes password);

/* Like users_check, but recognizes only passwords that need no hashing: passwords that users_check accepted before,
 * plaintext passwords, and any password of a user with nopass. If users_recall returns NULL, call
 * users_check. Fast. */
const struct user *users_recall(struct users *users, bg_bytes name, bg_bytes password);

/* Calls `visit` with each user and the words of its line, ordered by name. The first word is the name. The words are
 * valid for the user's lifetime. `visit` must not call functions in this header that have a `users` parameter. */
void users_each(struct users *users,
                void (*visit)(void *context, const struct user *user,
                              const char *const *words, size_t n),
                void *context);

/* ---- Login rate limit ---------------------------------------------------------------------- */

/*
 * Failed logins are rate limited (guesses.h). users_guess_wait returns 0 if a login is accepted now. Otherwise it
 * returns the number of milliseconds, counted from `now` (monotonic), for which logins are still refused. `address`
 * is the output of inet_ntop, or "" for a Unix socket. A login takes these steps: call users_recall; if it returns
 * NULL, call users_guess_wait; if that returns 0, call users_check in a job; if that returns NULL, call
 * users_guess_failed.
 */
uint64_t users_guess_wait(struct users *users, const char *address, bg_bytes name,
                          uint64_t now);
void users_guess_failed(struct users *users, const char *address, bg_bytes name,
                        uint64_t now);

/* ---- One user ------------------------------------------------------------------------------ */

enum { USER_READ = 1, USER_WRITE = 2, USER_TOUCH_MAX = 4096 };

/* Returns the name, which has at most USER_NAME_MAX bytes. */
enum { USER_NAME_MAX = 255 };
const char *user_name(const struct user *user);

/* Keeps a user valid after the end of the batch that found it, until user_let_go is called. NULL is
 * allowed. */
void user_hold(const struct user *user);
void user_let_go(const struct user *user);

/* Returns false if the user was changed or removed, in which case the connection must log in
 * again. */
bool user_is_current(const struct user *user);

bool user_is_on(const struct user *user);

/* Returns whether the user may write to at least one name. */
bool user_may_write(const struct user *user);

/* Returns whether the user may run a command, which must belong to one of the families. Cost: a few comparisons. */
bool user_may_run(const struct user *user, const struct command *command);

/* Returns whether the user has all permissions in `need` (USER_READ, USER_WRITE or both) for a name. A name longer than
 * USER_TOUCH_MAX matches only the pattern "*". */
bool user_may_touch(const struct user *user, bg_bytes name, unsigned need);

/* Returns whether the user has all permissions in `need` for every possible name. */
bool user_may_touch_all(const struct user *user, unsigned need);

/* Charges n adds to the user's rate limit. If they exceed the limit, returns false and sets *wait to the number of
 * milliseconds to wait, or to UINT64_MAX if n exceeds the burst. `wait` may be NULL. `now` is the monotonic time
 * in milliseconds. */
bool user_take(const struct user *user, uint64_t n, uint64_t now, uint64_t *wait);

/* Sets *rate and *burst to the adds per second and the maximum burst, or to 0 if there is no limit.
 * Returns whether the limit is the user's own rather than the service's. */
bool user_rate(const struct user *user, uint64_t *rate, uint64_t *burst);

/* Counts a request that was refused for lack of permission. */
void user_refused(const struct user *user);

/* Counts keys that the user's requests looked up and added. */
void user_count(const struct user *user, uint64_t queries, uint64_t adds);

/* Computes the rates of the last `seconds`. Called regularly, by one thread. */
void user_step(const struct user *user, double seconds);

/*
 * Quotas limit the filters that a user may write to, regardless of which user created them. They
 * are checked when the user creates or enlarges a filter. Requests of other users change the usage,
 * but are not refused. The number and the memory of these filters are counters, which change
 * together with the catalog, under its lock. Memory that a running request has reserved is counted
 * separately (user_reserve), until the catalog counts it. So is the memory of a dump, until the
 * dump ends.
 */
bool user_has_quota(const struct user *user);

/* user_has_usage returns whether user_set_usage has initialized the counters of a user. user_charge
 * adds to the counters. users_charge adds to the counters of all users that have a quota and may
 * write to `name`. */
bool user_has_usage(const struct user *user);
void user_set_usage(const struct user *user, int64_t filters, int64_t bytes);
void user_charge(const struct user *user, int64_t filters, int64_t bytes);
void users_charge(struct users *users, bg_bytes name, int64_t filters, int64_t bytes);

/* Reserves memory for a running request or a dump. Returns false if the quota would be exceeded. */
bool user_reserve(const struct user *user, uint64_t bytes);
void user_unreserve(const struct user *user, uint64_t bytes);

/* Add a reservation for a dump to the usage that user_about returns, or remove it. Reservations of
 * requests are not added, because the catalog may count the same memory already. */
void user_dump_begins(const struct user *user, uint64_t bytes);
void user_dump_ends(const struct user *user, uint64_t bytes);

/* Returns whether the quotas allow this many additional filters and bytes, which can be negative.
 * `reserved` is the number of bytes that the request has already reserved. */
bool user_admits(const struct user *user, int64_t filters, int64_t bytes,
                 uint64_t reserved);

struct user_figures {
    /* Quotas, and the number and memory of the filters that they limit; 0 means no quota. */
    uint64_t max_filters, max_bytes, filters, bytes;
    uint64_t refused_quota;  /* number of requests refused because of a quota */
    uint64_t rate, burst;    /* adds per second and maximum burst; 0 means no limit */
    uint64_t refused_rate;   /* number of adds that user_take refused */
    uint64_t refused_rights; /* number of calls to user_refused */
    uint64_t queries;        /* number of keys that the user looked up */
    uint64_t adds;           /* number of keys that the user added */
    double queries_per_second, adds_per_second;
};
void user_about(const struct user *user, struct user_figures *figures);

/* ---- Passwords ----------------------------------------------------------------------------- */

/* Reads a password from the first line of a file and prints its hash (--hash-password). Returns an exit code. */
int users_hash_line(FILE *from, FILE *to);

#endif
