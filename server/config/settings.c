/*
 * settings.c - loads options at startup and on reload, and publishes them; see settings.h.
 *
 * The strings of settings are stored in a pool. Settings read from a file share their pool with
 * settings derived from them by CONFIG SET, because CONFIG SET changes only options without
 * strings. A pool is freed together with the last settings that use it. Options that require a
 * restart always point to the first pool, which is never freed.
 *
 *     now -> settings        retired -> ... -> ...        waiting -> ...
 *               \__ pool __/ (uses)                        (mark: readers that may use them)
 */
#include "config/settings.h"

#include "config/users.h"
#include "letters.h"
#include "pattern.h"
#include "util/quiet.h"
#include "util/words.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct settings_shared {
    struct settings_pool *pool;
    size_t uses;
};

struct settings_kept {
    /* must be the first field, because its address is published */
    struct settings settings;
    struct settings_shared *shared;
    struct settings_kept *next;
};

/* Actions that the command line can request instead of starting the service. */
enum settings_action {
    ACTION_RUN,
    ACTION_HELP,
    ACTION_VERSION,
    ACTION_CHECK,
    ACTION_PRINT_CONFIG,
    ACTION_PRINT_MAN,
    ACTION_HASH
};

/* ---- The command line ---------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum settings_action action;
} settings_actions[] = {
    { "--help", ACTION_HELP },           { "-h", ACTION_HELP },
    { "--version", ACTION_VERSION },     { "-V", ACTION_VERSION },
    { "--check-config", ACTION_CHECK },  { "--print-config", ACTION_PRINT_CONFIG },
    { "--print-man", ACTION_PRINT_MAN }, { "--hash-password", ACTION_HASH },
};

static const enum settings_action *settings_action_of(const char *argument)
{
    for (size_t i = 0; i < sizeof settings_actions / sizeof *settings_actions; i++) {
        if (strcmp(settings_actions[i].name, argument) == 0) {
            return &settings_actions[i].action;
        }
    }
    return NULL;
}

/* Sets an option from one string: the value of an environment variable, or the text after "=". */
static void settings_set_text(struct settings_draft *draft, const char *where,
                              const struct setting *setting, char *text)
{
    struct words words;
    if (!setting_is_list(setting)) {
        (void)settings_draft_set(draft, where, setting->name, &text, 1);
        return;
    }
    const char *wrong = words_split(&words, text, strlen(text));
    if (wrong) {
        settings_mistake(draft, where, "%s: %s", setting->name, wrong);
        return;
    }
    (void)settings_draft_set(draft, where, setting->name, words.items, words.count);
    words_free(&words);
}

/* Returns whether an argument starts a new option. (-::1 is an address.) */
static bool settings_line_begins(const char *argument)
{
    return strncmp(argument, "--", 2) == 0 || strcmp(argument, "-c") == 0
           || settings_action_of(argument) != NULL;
}

/* Parses "--name=value", or "--name" and the words up to the next option. Returns the number
 * of arguments used. */
static int settings_line_option(struct settings_draft *draft, char **arguments,
                                int count)
{
    static const char where[] = "command line";
    char name[64];
    char *equals = strchr(arguments[0], '=');
    const size_t length =
        equals ? (size_t)(equals - arguments[0]) - 2 : strlen(arguments[0]) - 2;
    int used = 1;
    (void)snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63),
                   arguments[0] + 2);
    const struct setting *setting = settings_find(name);
    if (setting && setting->type == SETTING_SECRET) {
        settings_doubt(
            draft, where,
            "%s: other users can see this value in the process list; set it in the "
            "file instead",
            name);
    }
    if (setting && equals) {
        settings_set_text(draft, where, setting, equals + 1);
        return used;
    }
    while (used < count && !settings_line_begins(arguments[used])) {
        used++;
    }
    if (setting && used == 2) {
        settings_set_text(draft, where, setting, arguments[1]);
    } else {
        (void)settings_draft_set(draft, where, name, arguments + 1, (size_t)used - 1);
    }
    return used;
}

/* Parses the command line. Stores options in the draft, and returns the file and the action. */
static void settings_line_read(struct settings_draft *draft, char **arguments,
                               int count, const char **file,
                               enum settings_action *action)
{
    int i = 0;
    while (i < count) {
        char *argument = arguments[i];
        const enum settings_action *said = settings_action_of(argument);
        if (said) {
            *action =
                *action == ACTION_RUN || *action == ACTION_CHECK ? *said : *action;
            i++;
        } else if (strcmp(argument, "-c") == 0 || strcmp(argument, "--config") == 0) {
            if (i + 1 == count) {
                settings_mistake(draft, "command line",
                                 "%s: found no value, expected FILE", argument);
            } else {
                *file = arguments[i + 1];
            }
            i += 2;
        } else if (strncmp(argument, "--config=", 9) == 0) {
            *file = argument + 9;
            i++;
        } else if (i == 0 && *argument != '-') {
            *file = argument;
            i++;
        } else if (strncmp(argument, "--", 2) == 0) {
            i += settings_line_option(draft, arguments + i, count - i);
        } else {
            settings_mistake(
                draft, "command line", "found '%.80s', expected --OPTION VALUE%s",
                argument,
                *argument == '-' ? "" : "; use --config FILE, or put FILE first");
            i++;
        }
    }
}

/* ---- The environment ------------------------------------------------------------------------ */

extern char **environ;

static void settings_read_environment(struct settings_draft *draft)
{
    static const char front[] = "BLOOMGATED_";
    for (char **variable = environ; variable && *variable; variable++) {
        char name[64], where[80];
        char *equals = strchr(*variable, '=');
        if (strncmp(*variable, front, sizeof front - 1) != 0 || !equals
            || equals - *variable > 60) {
            continue;
        }
        const char *from = *variable + sizeof front - 1;
        size_t n = 0;
        for (; from + n < equals; n++) {
            name[n] = (char)(from[n] == '_' ? '-' : letter_lower(from[n]));
        }
        name[n] = 0;
        (void)snprintf(where, sizeof where, "%.*s", (int)(equals - *variable),
                       *variable);
        const struct setting *setting = settings_find(name);
        if (!setting) {
            settings_doubt(draft, where, "unknown option %s", name);
        } else if (strncmp(equals + 1, "tcp://", 6) == 0) {
            /* Kubernetes sets this variable to a service address if a service is named
             * "bloomgated". */
            settings_doubt(draft, where,
                           "ignored '%.40s', which looks like a service "
                           "address set by Kubernetes",
                           equals + 1);
        } else {
            settings_set_text(draft, where, setting, equals + 1);
        }
    }
}

/* ---- Reading all ----------------------------------------------------------------------------- */

/* Warns about each option in the file that has a different value now. `file` is the draft as it was
 * after the file was read. Lines of repeatable options add up. */
static void settings_note_overridden(struct settings_draft *draft,
                                     const struct settings_draft *file)
{
    char room[2][400];
    size_t rows;
    const struct setting *table = settings_table(&rows);
    for (size_t i = 0; i < rows; i++) {
        const struct setting *setting = &table[i];
        if (file->where[i] && setting->type < SETTING_USER
            && !settings_same(setting, &file->settings, &draft->settings)) {
            settings_doubt(
                draft, file->where[i], "%s: '%s' is overridden by '%s' (%s)",
                setting->name,
                settings_show(setting, &file->settings, room[0], sizeof room[0]),
                settings_show(setting, &draft->settings, room[1], sizeof room[1]),
                draft->where[i]);
        }
    }
}

/* Returns an exit code, or SETTINGS_RUN if there were no errors. */
static int settings_read_all(const struct settings_store *store,
                             struct settings_draft *draft)
{
    enum settings_action action = ACTION_RUN;
    const char *file = NULL;
    if (store->file) {
        settings_read_file(draft, store->file);
    }
    const struct settings_draft read = *draft;
    settings_read_environment(draft);
    const size_t before = draft->mistakes;
    settings_line_read(draft, store->arguments, store->count, &file, &action);
    const bool usage = draft->mistakes != before;
    settings_note_overridden(draft, &read);
    (void)settings_check(draft, store->families, store->family_count);
    return usage ? SETTINGS_USAGE : draft->mistakes ? SETTINGS_BAD : SETTINGS_RUN;
}

static void settings_kept_free(struct settings_kept *kept)
{
    while (kept) {
        struct settings_kept *next = kept->next;
        if (--kept->shared->uses == 0) {
            settings_pool_free(kept->shared->pool);
            free(kept->shared);
        }
        free(kept);
        kept = next;
    }
}

static bool settings_equal(const struct settings *a, const struct settings *b)
{
    size_t rows;
    const struct setting *table = settings_table(&rows);
    for (size_t i = 0; i < rows; i++) {
        if (table[i].name && !settings_same(&table[i], a, b)) {
            return false;
        }
    }
    return true;
}

/* Publishes a draft's settings with the draft's pool, or with the current pool if the draft has
 * none. The caller holds the lock. Returns false after reporting an error. */
static bool settings_publish(struct settings_store *store, struct settings_draft *draft)
{
    char why[SETTINGS_WHY] = "";
    struct settings_kept *before = store->current;
    if (before && settings_equal(&draft->settings, &before->settings)) {
        return true;
    }
    struct settings_kept *kept = calloc(1, sizeof *kept);
    struct settings_shared *own = draft->pool ? calloc(1, sizeof *own) : NULL;
    if (!kept || (draft->pool && !own)) {
        settings_mistake(draft, "", "out of memory");
    } else if (store->apply
               && !store->apply(store->apply_context, &draft->settings, why)) {
        settings_mistake(draft, "", "%s", why);
    } else {
        *kept = (struct settings_kept){ .settings = draft->settings,
                                        .shared = own ? own : before->shared };
        kept->settings.version = ++store->version;
        kept->shared->uses++;
        if (own) {
            own->pool = draft->pool;
            draft->pool = NULL;
        }
        if (before && before != store->first) {
            before->next = store->retired;
            store->retired = before;
        }
        store->first = store->first ? store->first : kept;
        store->current = kept;
        atomic_store(&store->now, &kept->settings);
        return true;
    }
    free(kept);
    free(own);
    return false;
}

void settings_listen(struct settings_store *store, settings_apply *apply, void *context)
{
    (void)pthread_mutex_lock(&store->changing);
    store->apply = apply;
    store->apply_context = context;
    (void)pthread_mutex_unlock(&store->changing);
}

void settings_reclaim(struct settings_store *store, struct quiet *readers)
{
    (void)pthread_mutex_lock(&store->changing);
    if (store->waiting && quiet_passed(readers, &store->mark)) {
        settings_kept_free(store->waiting);
        store->waiting = NULL;
    }
    if (!store->waiting && store->retired) {
        store->waiting = store->retired;
        store->retired = NULL;
        quiet_note(readers, &store->mark);
    }
    (void)pthread_mutex_unlock(&store->changing);
}

/* ---- Starting --------------------------------------------------------------------------------- */

/* Prints errors to stderr, and stores warnings for the log. */
static void settings_tell_start(void *context, bool mistake, const char *text)
{
    struct settings_store *store = context;
    if (mistake) {
        (void)fprintf(stderr, "bloomgated: %s\n", text);
    } else if (store->doubt_count < SETTINGS_DOUBTS) {
        char *copy = strdup(text);
        if (copy) {
            store->doubts[store->doubt_count++] = copy;
        }
    }
}

static int settings_do(enum settings_action action)
{
    switch (action) {
    case ACTION_HELP: settings_print_help(stdout); break;
    case ACTION_VERSION: (void)printf("bloomgated %s\n", bg_version()); break;
    case ACTION_PRINT_CONFIG: settings_print_config(stdout); break;
    case ACTION_PRINT_MAN: settings_print_man(stdout); break;
    case ACTION_HASH: return users_hash_line(stdin, stdout);
    case ACTION_RUN:
    case ACTION_CHECK: return SETTINGS_RUN;
    }
    return fflush(stdout) == 0 ? SETTINGS_DONE : SETTINGS_BAD;
}

static struct settings_store *
settings_store_create(int argc, char **argv, const struct command *const *families,
                      size_t n)
{
    struct settings_store *store = calloc(1, sizeof *store);
    if (store) {
        (void)pthread_mutex_init(&store->changing, NULL);
        store->arguments = argv + (argc > 0);
        store->count = argc > 0 ? argc - 1 : 0;
        store->families = families;
        store->family_count = n;
    }
    return store;
}

static int settings_check_done(const struct settings_store *store)
{
    for (size_t i = 0; i < store->doubt_count; i++) {
        (void)fprintf(stderr, "bloomgated: warning: %s\n", store->doubts[i]);
    }
    (void)printf("bloomgated: %s\n",
                 store->file ? "the configuration is valid"
                             : "the command line and the environment are valid; no "
                               "configuration file was checked: specify its path");
    return SETTINGS_DONE;
}

static int settings_start(struct settings_store *store, enum settings_action action)
{
    struct settings_draft draft;
    int code = SETTINGS_BAD;
    if (settings_draft_init(&draft, settings_tell_start, store)) {
        code = settings_read_all(store, &draft);
        if (action == ACTION_CHECK) {
            settings_check_files(&draft);
            code = code != SETTINGS_RUN ? code
                   : draft.mistakes     ? SETTINGS_BAD
                                        : settings_check_done(store);
        }
        if (code == SETTINGS_RUN && !settings_publish(store, &draft)) {
            code = SETTINGS_BAD;
        }
        settings_draft_free(&draft);
    }
    if (code == SETTINGS_USAGE) {
        (void)fprintf(stderr, "Try 'bloomgated --help'.\n");
    }
    return code;
}

int settings_from_command_line(int argc, char **argv,
                               const struct command *const *families, size_t n,
                               struct settings_store **store)
{
    /* Determine the requested action before reading any file. */
    struct settings_draft scratch;
    enum settings_action action = ACTION_RUN;
    *store = settings_store_create(argc, argv, families, n);
    if (!*store || !settings_draft_init(&scratch, NULL, NULL)) {
        (void)fprintf(stderr, "bloomgated: out of memory\n");
        settings_store_free(*store);
        *store = NULL;
        return SETTINGS_BAD;
    }
    settings_line_read(&scratch, (*store)->arguments, (*store)->count, &(*store)->file,
                       &action);
    settings_draft_free(&scratch);
    int code = settings_do(action);
    code = code == SETTINGS_RUN ? settings_start(*store, action) : code;
    if (code != SETTINGS_RUN) {
        settings_store_free(*store);
        *store = NULL;
    }
    return code;
}

void settings_store_free(struct settings_store *store)
{
    if (!store) {
        return;
    }
    settings_kept_free(store->waiting);
    settings_kept_free(store->retired);
    if (store->current != store->first) {
        settings_kept_free(store->current);
    }
    settings_kept_free(store->first);
    for (size_t i = 0; i < store->doubt_count; i++) {
        free(store->doubts[i]);
    }
    (void)pthread_mutex_destroy(&store->changing);
    free(store);
}

void settings_doubts(const struct settings_store *store, settings_tell *tell,
                     void *context)
{
    for (size_t i = 0; i < store->doubt_count; i++) {
        tell(context, false, store->doubts[i]);
    }
}

/* ---- CONFIG ----------------------------------------------------------------------------------- */

void settings_get(const struct settings *settings, bg_bytes pattern,
                  void (*visit)(void *context, const char *name, const char *value),
                  void *context)
{
    char text[4096];
    size_t rows;
    const struct setting *table = settings_table(&rows);
    for (size_t i = 0; i < rows; i++) {
        if (table[i].name
            && pattern_matches_nocase(pattern.data, pattern.len, table[i].name,
                                      strlen(table[i].name))) {
            visit(context, table[i].name,
                  settings_show(&table[i], settings, text, sizeof text));
        }
    }
}

/* Stores the first error for the reply. */
static void settings_tell_why(void *context, bool mistake, const char *text)
{
    char *why = context;
    if (mistake && !*why) {
        (void)snprintf(why, SETTINGS_WHY, "%s", text);
    }
}

static void settings_set_one(struct settings_draft *draft, bg_bytes name,
                             bg_bytes value)
{
    char lower[64], text[512];
    char *words[1] = { text };
    if (value.len >= sizeof text || (value.len && memchr(value.data, 0, value.len))) {
        settings_mistake(draft, "",
                         "the value (%zu bytes) is too long or contains a NUL byte",
                         value.len);
        return;
    }
    letters_lower(lower, sizeof lower, name.data, name.len);
    (void)snprintf(text, sizeof text, "%.*s", (int)value.len,
                   value.len ? (const char *)value.data : "");
    const struct setting *setting = settings_find(lower);
    if (setting && setting->change != SETTING_LIVE) {
        settings_mistake(draft, "", "%s: can be changed only %s", lower,
                         setting->change == SETTING_AT_RELOAD
                             ? "by editing the configuration file and sending SIGHUP"
                             : "with a restart");
        return;
    }
    (void)settings_draft_set(draft, "", lower, words, 1);
}

bool settings_set(struct settings_store *store, const bg_bytes *names_and_values,
                  size_t n, char why[SETTINGS_WHY])
{
    *why = 0;
    (void)pthread_mutex_lock(&store->changing);
    struct settings_draft draft = { .settings = *settings_now(store),
                                    .tell = settings_tell_why,
                                    .context = why };
    for (size_t i = 0; i < n && draft.mistakes == 0; i++) {
        settings_set_one(&draft, names_and_values[2 * i], names_and_values[2 * i + 1]);
    }
    settings_check_limits(&draft);
    if (draft.mistakes == 0) {
        (void)settings_publish(store, &draft);
    }
    (void)pthread_mutex_unlock(&store->changing);
    return draft.mistakes == 0;
}

/* ---- SIGHUP ----------------------------------------------------------------------------------- */

/* Resets options that require a restart to their current values, which are in the first pool, and
 * reports differences. */
static void settings_keep_fixed(struct settings_draft *draft,
                                const struct settings *now)
{
    size_t rows;
    const struct setting *table = settings_table(&rows);
    for (size_t i = 0; i < rows; i++) {
        if (!table[i].name || table[i].change != SETTING_AT_START) {
            continue;
        }
        char room[2][400];
        if (!settings_same(&table[i], now, &draft->settings)) {
            const char *old = settings_show(&table[i], now, room[0], sizeof room[0]);
            const char *new =
                settings_show(&table[i], &draft->settings, room[1], sizeof room[1]);
            if (strcmp(old, new)
                == 0) { /* the lines contain the same names, but different settings */
                settings_doubt(draft, "",
                               "%s: the settings changed; restart to apply them",
                               table[i].name);
            } else {
                settings_doubt(
                    draft, "",
                    "%s: changed from '%s' to '%s'; restart to apply the change",
                    table[i].name, old, new);
            }
        }
        memcpy((char *)&draft->settings + table[i].at, (const char *)now + table[i].at,
               settings_field_bytes(table[i].type));
    }
}

bool settings_reload(struct settings_store *store, settings_tell *tell, void *context)
{
    struct settings_draft draft;
    if (!settings_draft_init(&draft, tell, context)) {
        tell(context, true, "out of memory");
        return false;
    }
    (void)pthread_mutex_lock(&store->changing);
    bool good = settings_read_all(store, &draft) == SETTINGS_RUN;
    if (good) {
        settings_keep_fixed(&draft, settings_now(store));
        good = settings_publish(store, &draft);
    }
    (void)pthread_mutex_unlock(&store->changing);
    settings_draft_free(&draft);
    return good;
}
