/*
 * users.c - the set of users, and password checks; see users.h.
 *
 * The current users are stored in an array sorted by name. Each search holds a lock, which is cheap enough because
 * logins are rare compared with requests. A user whose line is unchanged is kept, so reloading the file neither
 * logs out that user's clients nor leaks memory.
 *
 * Users that were replaced or removed move to `retired`. Retired users that no client holds then move to `waiting`.
 * A waiting user is freed once all batches that were running at that time have ended, unless a client has held the
 * user since then. One of these batches may have found such a user before it was retired, and may assign it to a
 * client just before the batch ends. A later batch may then find the user in that client. Therefore, a user that was
 * held in the meantime moves back to `retired`, even if no client holds it now.
 *
 * A mark is the HMAC-SHA256 of the name and password, with a key that is generated at startup and never leaves the
 * process. An attacker who can read the key in the process's memory could also read incoming
 * passwords.
 */
#include "config/users.h"

#include "config/guesses.h"
#include "config/user_rules.h"
#include "util/quiet.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum { USERS_KEY = 32 };

struct users {
    struct user_commands commands;
    struct user_rates rates;
    uint8_t key[USERS_KEY];
    struct guesses guesses;
    /* Held while a password is checked, so that only one password is checked at a time. */
    pthread_mutex_t hashing;
    pthread_mutex_t lock; /* protects the fields below */
    struct user **items;
    size_t count;
    _Atomic bool quotas; /* whether a user has a quota; can be read without the lock */
    struct user *retired, *waiting; /* lists */
    struct quiet_mark mark;         /* batches that may use users in `waiting` */
    _Atomic bool hashed;            /* at least one user has a hashed password */
    _Atomic bool open;
    _Atomic(const struct user *) nobody; /* users_default */
};

/* ---- Marks -------------------------------------------------------------------------------- */

static void users_mark(void *context, const char *name, bg_bytes password,
                       uint8_t mark[USER_MARK])
{
    const struct users *users = context;
    uint8_t text[USER_NAME_MAX + 1 + PASSWORD_MAX];
    const size_t n = strlen(name) + 1;
    unsigned length = 0;
    memset(mark, 0, USER_MARK);
    memcpy(text, name, n);
    if (password.len) {
        memcpy(text + n, password.data, password.len);
    }
    if (!HMAC(EVP_sha256(), users->key, USERS_KEY, text, n + password.len, mark,
              &length)) {
        /* HMAC failed for lack of memory: use a random mark, which matches no other mark. */
        (void)RAND_bytes(mark, USER_MARK);
    }
    OPENSSL_cleanse(text, sizeof text);
}

/* ---- Life --------------------------------------------------------------------------------- */

struct users *users_create(const struct command *const *families, size_t n)
{
    struct users *users = calloc(1, sizeof *users);
    uint64_t secret[2];
    if (!users || !user_commands_init(&users->commands, families, n)
        || RAND_bytes(users->key, USERS_KEY) != 1
        || RAND_bytes((unsigned char *)secret, sizeof secret) != 1) {
        free(users);
        return NULL;
    }
    (void)pthread_mutex_init(&users->hashing, NULL);
    (void)pthread_mutex_init(&users->lock, NULL);
    guesses_init(&users->guesses, secret);
    return users;
}

static void users_push(struct user **list, struct user *user)
{
    user->state->next = *list;
    *list = user;
}

static struct user *users_pop(struct user **list)
{
    struct user *user = *list;
    if (user) {
        *list = user->state->next;
    }
    return user;
}

static void users_free_list(struct user *list)
{
    struct user *user = NULL;
    while ((user = users_pop(&list)) != NULL) {
        user_free(user);
    }
}

void users_free(struct users *users)
{
    if (!users) {
        return;
    }
    for (size_t i = 0; i < users->count; i++) {
        user_free(users->items[i]);
    }
    users_free_list(users->retired);
    users_free_list(users->waiting);
    free(users->items);
    guesses_fini(&users->guesses);
    (void)pthread_mutex_destroy(&users->hashing);
    (void)pthread_mutex_destroy(&users->lock);
    OPENSSL_cleanse(users, sizeof *users);
    free(users);
}

/* ---- Searching ----------------------------------------------------------------------------- */

static int users_compare(const void *a, const void *b)
{
    return strcmp(user_name(*(struct user *const *)a),
                  user_name(*(struct user *const *)b));
}

static struct user *users_find(struct user *const *items, size_t count, bg_bytes name)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const char *has = user_name(items[middle]);
        const size_t n = strlen(has), both = n < name.len ? n : name.len;
        int order = both ? memcmp(has, name.data, both) : 0;
        order = order ? order : (n > name.len) - (n < name.len);
        if (order == 0) {
            return items[middle];
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

/* Returns whether a sorted array contains this user, not only one with the same name. */
static bool users_has(struct user *const *items, size_t count, const struct user *user)
{
    const char *name = user_name(user);
    return users_find(items, count, (bg_bytes){ name, strlen(name) }) == user;
}

/* ---- Reading lines ------------------------------------------------------------------------- */

/* The users that users_load is creating. */
struct users_draft {
    struct users *users;
    struct user **items;
    size_t count;
    char *why;
};

static void users_draft_free(struct users_draft *draft)
{
    for (size_t i = 0; i < draft->count; i++) {
        if (!users_has(draft->users->items, draft->users->count, draft->items[i])) {
            user_free(draft->items[i]);
        }
    }
    free(draft->items);
}

static bool users_same_words(const struct user *user, const char *const *words,
                             size_t count)
{
    bool same = user && user->word_count == count;
    for (size_t i = 0; i < count && same; i++) {
        same = strcmp(user->words[i], words[i]) == 0;
    }
    return same;
}

static bool users_draft_add(struct users_draft *draft, const char *const *words,
                            size_t count, const char *where)
{
    struct users *users = draft->users;
    char why[SETTINGS_WHY];
    struct user *user = users_find(users->items, users->count,
                                   (bg_bytes){ words[0], strlen(words[0]) });
    if (!users_same_words(user, words, count)) {
        user = user_create(&users->commands, &users->rates, words, count, users_mark,
                           users, why);
        if (!user) {
            settings_explain(draft->why, "%s%s%s", where, *where ? ": " : "", why);
            return false;
        }
    }
    draft->items[draft->count++] = user;
    return true;
}

/* Adds the user `default` if no line defines it. */
static bool users_draft_default(struct users_draft *draft, const char *password)
{
    const char *words[] = { "default", "on", "nopass", "allcommands", "allkeys" };
    char *clear = NULL;
    if (*password == '$') {
        words[2] = password;
    } else if (*password) {
        const size_t room = strlen(password) + 2;
        clear = malloc(room);
        if (!clear) {
            (void)snprintf(draft->why, SETTINGS_WHY, "out of memory");
            return false;
        }
        (void)snprintf(clear, room, ">%s", password);
        words[2] = clear;
    }
    const bool good = users_draft_add(draft, words, sizeof words / sizeof *words,
                                      *password ? "requirepass" : "");
    if (clear) {
        OPENSSL_cleanse(clear, strlen(clear));
    }
    free(clear);
    return good;
}

/* Returns the location of the last line that defines the user. */
static const char *users_last_line(const struct settings *settings, const char *name)
{
    const char *where = "";
    for (size_t i = 0; i < settings->users.count; i++) {
        const struct settings_line *line = &settings->users.items[i];
        where = strcmp(line->words[0], name) == 0 ? line->where : where;
    }
    return where;
}

static bool users_draft_lines(struct users_draft *draft,
                              const struct settings *settings)
{
    const struct settings_line *lines = settings->users.items;
    bool has_default = false;
    for (size_t i = 0; i < settings->users.count; i++) {
        has_default = has_default || strcmp(lines[i].words[0], "default") == 0;
        if (!users_draft_add(draft, lines[i].words, lines[i].count, lines[i].where)) {
            return false;
        }
    }
    if (has_default && *settings->requirepass) {
        (void)snprintf(
            draft->why, SETTINGS_WHY,
            "requirepass: the settings also contain a \"user default\" line; set the "
            "password there, and remove requirepass");
        return false;
    }
    if (!has_default && !users_draft_default(draft, settings->requirepass)) {
        return false;
    }
    qsort(draft->items, draft->count, sizeof(void *), users_compare);
    for (size_t i = 1; i < draft->count; i++) {
        if (users_compare(&draft->items[i - 1], &draft->items[i]) == 0) {
            const char *name = user_name(draft->items[i]);
            (void)snprintf(draft->why, SETTINGS_WHY,
                           "%.500s: user %.60s: defined more than once; keep one line",
                           users_last_line(settings, name), name);
            return false;
        }
    }
    return true;
}

/* ---- Publishing --------------------------------------------------------------------------- */

static void users_take(struct users *users, const struct users_draft *draft)
{
    const struct user *nobody = NULL;
    bool open = false, hashed = false, quotas = false;
    for (size_t i = 0; i < draft->count; i++) {
        const struct user *user = draft->items[i];
        open = open || (user->on && user->nopass);
        quotas = quotas || user_has_quota(user);
        for (size_t j = 0; j < user->password_count; j++) {
            hashed = hashed || !user->state->passwords[j].clear;
        }
        if (user->on && user->nopass && strcmp(user_name(user), "default") == 0) {
            nobody = user;
        }
    }
    atomic_store(&users->open, open);
    atomic_store(&users->quotas, quotas);
    atomic_store(&users->hashed, hashed);
    atomic_store(&users->nobody, nobody);
    for (size_t i = 0; i < users->count; i++) {
        if (!users_has(draft->items, draft->count, users->items[i])) {
            atomic_store(&users->items[i]->state->retired, true);
            users_push(&users->retired, users->items[i]);
        }
    }
    free(users->items);
    users->items = draft->items;
    users->count = draft->count;
}

bool users_check_line(struct users *users, const struct settings_line *line,
                      char why[SETTINGS_WHY])
{
    (void)pthread_mutex_lock(&users->lock);
    struct user *user = user_create(&users->commands, &users->rates, line->words,
                                    line->count, users_mark, users, why);
    (void)pthread_mutex_unlock(&users->lock);
    if (user) {
        user_free(user);
    }
    return user != NULL;
}

bool users_load(struct users *users, const struct settings *settings,
                char why[SETTINGS_WHY])
{
    struct users_draft draft = { .users = users, .why = why };
    *why = 0;
    (void)pthread_mutex_lock(&users->lock);
    draft.items = malloc((settings->users.count + 1) * sizeof(void *));
    bool good = draft.items != NULL;
    if (!good) {
        (void)snprintf(why, SETTINGS_WHY, "out of memory");
    } else if (users_draft_lines(&draft, settings)) {
        users_take(users, &draft);
        atomic_store(&users->rates.rate, settings->insert_rate);
        atomic_store(&users->rates.burst, settings->insert_burst);
    } else {
        users_draft_free(&draft);
        good = false;
    }
    (void)pthread_mutex_unlock(&users->lock);
    return good;
}

/* Frees the users in `waiting`. Users that were held in the meantime move back to `retired`. */
static void users_free_waiting(struct users *users)
{
    struct user *user = NULL;
    while ((user = users_pop(&users->waiting)) != NULL) {
        if (atomic_load(&user->state->holds) || atomic_load(&user->state->was_held)) {
            users_push(&users->retired, user);
        } else {
            user_free(user);
        }
    }
}

/* Moves retired users to `waiting` if no client holds them. The store to `was_held` and the load of `holds` are
 * in the opposite order from user_hold, so either this function or users_free_waiting sees a concurrent hold. */
static void users_choose(struct users *users)
{
    struct user *all = users->retired, *user = NULL;
    users->retired = NULL;
    while ((user = users_pop(&all)) != NULL) {
        atomic_store(&user->state->was_held, false);
        users_push(atomic_load(&user->state->holds) ? &users->retired : &users->waiting,
                   user);
    }
}

bool users_reclaim(struct users *users, struct quiet *readers)
{
    (void)pthread_mutex_lock(&users->lock);
    if (users->waiting && quiet_passed(readers, &users->mark)) {
        users_free_waiting(users);
    }
    if (!users->waiting && users->retired) {
        users_choose(users);
        quiet_note(readers, &users->mark);
    }
    const bool left = users->waiting || users->retired;
    (void)pthread_mutex_unlock(&users->lock);
    return left;
}

bool users_are_open(const struct users *users)
{
    return atomic_load(&users->open);
}

const struct user *users_default(const struct users *users)
{
    return atomic_load(&users->nobody);
}

const struct user *users_default_unasked(struct users *users)
{
    (void)pthread_mutex_lock(&users->lock);
    const struct user *user =
        users_find(users->items, users->count, (bg_bytes){ "default", 7 });
    (void)pthread_mutex_unlock(&users->lock);
    return user && user->on ? user : NULL;
}

void users_each(struct users *users,
                void (*visit)(void *context, const struct user *user,
                              const char *const *words, size_t n),
                void *context)
{
    (void)pthread_mutex_lock(&users->lock);
    for (size_t i = 0; i < users->count; i++) {
        const struct user *user = users->items[i];
        visit(context, user, user->words, user->word_count);
    }
    (void)pthread_mutex_unlock(&users->lock);
}

void users_charge(struct users *users, bg_bytes name, int64_t filters, int64_t bytes)
{
    if (!atomic_load(&users->quotas)) {
        return;
    }
    (void)pthread_mutex_lock(&users->lock);
    for (size_t i = 0; i < users->count; i++) {
        const struct user *user = users->items[i];
        if (user_has_quota(user) && user_may_touch(user, name, USER_WRITE)) {
            user_charge(user, filters, bytes);
        }
    }
    (void)pthread_mutex_unlock(&users->lock);
}

/* ---- Passwords ----------------------------------------------------------------------------- */

/* Returns whether one of the user's passwords has this mark. Always compares all marks so that the timing
 * reveals nothing. The caller holds the lock. */
static bool users_knows(const struct user *user, const uint8_t mark[USER_MARK])
{
    bool knows = false;
    for (size_t i = 0; i < user->password_count; i++) {
        const struct user_password *password = &user->state->passwords[i];
        knows |= password->known && CRYPTO_memcmp(password->mark, mark, USER_MARK) == 0;
    }
    return knows;
}

/* Returns the enabled user with this name, or NULL if there is none. Computes the mark of the password, and sets
 * *known if the mark is accepted without hashing. */
static const struct user *users_candidate(struct users *users, bg_bytes name,
                                          bg_bytes password, uint8_t mark[USER_MARK],
                                          bool *known)
{
    *known = false;
    if (password.len > PASSWORD_MAX) {
        return NULL;
    }
    (void)pthread_mutex_lock(&users->lock);
    const struct user *user = users_find(users->items, users->count, name);
    user = user && user->on ? user : NULL;
    if (user) {
        users_mark(users, user_name(user), password, mark);
        *known = user->nopass || users_knows(user, mark);
    }
    (void)pthread_mutex_unlock(&users->lock);
    return user;
}

const struct user *users_recall(struct users *users, bg_bytes name, bg_bytes password)
{
    uint8_t mark[USER_MARK];
    bool known;
    const struct user *user = users_candidate(users, name, password, mark, &known);
    return known ? user : NULL;
}

const struct user *users_check(struct users *users, bg_bytes name, bg_bytes password)
{
    uint8_t mark[USER_MARK];
    bool known, slow = false;
    (void)pthread_mutex_lock(&users->hashing);
    const struct user *user = users_candidate(users, name, password, mark, &known);
    for (size_t i = 0; user && !known && i < user->password_count; i++) {
        struct user_password *one = &user->state->passwords[i];
        if (one->clear) {
            continue;
        }
        slow = true;
        known = password_fits(&one->hash, password);
        if (known) {
            (void)pthread_mutex_lock(&users->lock);
            memcpy(one->mark, mark, USER_MARK);
            one->known = true;
            (void)pthread_mutex_unlock(&users->lock);
        }
    }
    if (!known && !slow && atomic_load(&users->hashed)) {
        /* ensures that timing does not reveal which users exist */
        password_waste(password);
    }
    (void)pthread_mutex_unlock(&users->hashing);
    OPENSSL_cleanse(mark, sizeof mark);
    return known ? user : NULL;
}

/* ---- Login rate limit ---------------------------------------------------------------------- */

uint64_t users_guess_wait(struct users *users, const char *address, bg_bytes name,
                          uint64_t now)
{
    return guesses_wait(&users->guesses, address, name, now);
}

void users_guess_failed(struct users *users, const char *address, bg_bytes name,
                        uint64_t now)
{
    guesses_failed(&users->guesses, address, name, now);
}

/* ---- --hash-password ----------------------------------------------------------------------- */

/* Reads a line, without echo if the input is a terminal, and removes the newline. Returns the length, or -1 if there is
 * no line or the line is too long. */
static int users_read_line(FILE *from, char *line, int room)
{
    struct termios before, silent;
    const int fd = fileno(from);
    const bool terminal = fd >= 0 && isatty(fd) && tcgetattr(fd, &before) == 0;
    if (terminal) {
        silent = before;
        silent.c_lflag &= ~(tcflag_t)ECHO;
        (void)fprintf(stderr, "Password: ");
        (void)tcsetattr(fd, TCSAFLUSH, &silent);
    }
    const bool got = fgets(line, room, from) != NULL;
    if (terminal) {
        (void)tcsetattr(fd, TCSAFLUSH, &before);
        (void)fprintf(stderr, "\n");
    }
    const size_t n = got ? strcspn(line, "\r\n") : 0;
    const bool whole = got && (line[n] || feof(from) || (int)n + 1 < room);
    if (!whole) {
        return -1;
    }
    line[n] = 0;
    return (int)n;
}

int users_hash_line(FILE *from, FILE *to)
{
    char line[PASSWORD_MAX + 3], hash[PASSWORD_TEXT];
    const int n = users_read_line(from, line, (int)sizeof line);
    int code = SETTINGS_DONE;
    if (n < 1 || n > PASSWORD_MAX) {
        (void)fprintf(
            stderr,
            "bloomgated: --hash-password: standard input must contain a password of 1 "
            "to %d bytes\n",
            PASSWORD_MAX);
        code = SETTINGS_USAGE;
    } else if (!password_make((bg_bytes){ line, (size_t)n }, hash)) {
        (void)fprintf(
            stderr,
            "bloomgated: --hash-password: out of memory, or cannot get random bytes\n");
        code = SETTINGS_BAD;
    } else if (fprintf(to, "%s\n", hash) < 0 || fflush(to) != 0) {
        code = SETTINGS_BAD;
    }
    OPENSSL_cleanse(line, sizeof line);
    return code;
}
