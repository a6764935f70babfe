/*
 * settings_draft.c - initializes drafts with defaults, prints values as text, and compares
 * settings.
 */
#include "config/settings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/words.h"

/* ---- Defaults ---------------------------------------------------------------------------- */

/* If the variable contains an absolute path, returns that path followed by "/bloomgate" and `end`.
 * Otherwise, if HOME contains one, returns it followed by `fallback`, "/bloomgate" and `end`.
 * Otherwise returns `here`. */
static const char *settings_draft_home(struct settings_draft *draft,
                                       const char *variable, const char *fallback,
                                       const char *end, const char *here)
{
    const char *xdg = getenv(variable); /* NOLINT(concurrency-mt-unsafe): read only */
    const char *home = getenv("HOME");  /* NOLINT(concurrency-mt-unsafe) */
    const bool has_xdg = xdg && *xdg == '/', has_home = home && *home == '/';
    const char *folder = has_xdg ? xdg : has_home ? home : "";
    const size_t room = strlen(folder) + 64;
    char *path = settings_pool_take(draft->pool, room);
    if (path && (has_xdg || has_home)) {
        (void)snprintf(path, room, "%s%s/bloomgate%s", folder, has_xdg ? "" : fallback,
                       end);
    }
    return path && *path ? path : here;
}

bool settings_draft_init(struct settings_draft *draft, settings_tell *tell,
                         void *context)
{
    size_t rows;
    const struct setting *table = settings_table(&rows);
    *draft = (struct settings_draft){ .tell = tell, .context = context };
    draft->pool = settings_pool_create();
    bool good = draft->pool != NULL;
    for (size_t i = 0; i < rows && good; i++) {
        struct words words;
        if (!table[i].name) {
            continue;
        }
        if (!*table[i].initial) {
            if (table[i].type == SETTING_TEXT || table[i].type == SETTING_SECRET) {
                void *field = (char *)&draft->settings + table[i].at;
                *(const char **)field = "";
            }
            continue;
        }
        good = words_split(&words, table[i].initial, strlen(table[i].initial)) == NULL;
        if (good) {
            good = settings_draft_set(draft, "default", table[i].name, words.items,
                                      words.count);
            words_free(&words);
        }
    }
    if (good && geteuid() != 0) {
        draft->settings.dir = settings_draft_home(
            draft, "XDG_DATA_HOME", "/.local/share", "", "./bloomgate-data");
        draft->settings.keyring = settings_draft_home(
            draft, "XDG_CONFIG_HOME", "/.config", "/keyring", "./bloomgate-keyring");
    }
    memset(draft->where, 0, sizeof draft->where);
    if (!good) {
        settings_draft_free(draft);
    }
    return good;
}

void settings_draft_free(struct settings_draft *draft)
{
    settings_pool_free(draft->pool);
    draft->pool = NULL;
}

/* ---- As text ----------------------------------------------------------------------------- */

/* Appends a word, preceded by a separator unless it is the first. */
static void settings_draft_word(char *text, size_t room, const char *separator,
                                const char *word)
{
    const size_t used = strlen(text);
    (void)snprintf(text + used, room - used, "%s%s", used ? separator : "", word);
}

void settings_choices(const struct setting *setting, char *text, size_t room)
{
    *text = 0;
    for (size_t i = 0; setting->choices && setting->choices[i]; i++) {
        settings_draft_word(text, room, ", ", setting->choices[i]);
    }
}

/* Prints the fewest digits that parse to the same number. */
static void settings_draft_real(double value, char *text, size_t room)
{
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, room, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
}

const char *settings_show(const struct setting *setting, const void *of, char *text,
                          size_t room)
{
    const void *field = (const char *)of + setting->at;
    const struct settings_list *list = field;
    const struct settings_lines *lines = field;
    *text = 0;
    switch (setting->type) {
    case SETTING_TEXT:
        (void)snprintf(text, room, "%s", *(const char *const *)field);
        break;
    case SETTING_SECRET:
        (void)snprintf(text, room, "%s",
                       **(const char *const *)field ? "(hidden)" : "");
        break;
    case SETTING_COUNT:
    case SETTING_BYTES:
    case SETTING_MEMORY:
        (void)snprintf(text, room, "%" PRIu64, *(const uint64_t *)field);
        break;
    case SETTING_OCTAL:
        (void)snprintf(text, room, "%04o", (unsigned)*(const uint64_t *)field);
        break;
    case SETTING_RATE:
    case SETTING_SECONDS:
        settings_draft_real(*(const double *)field, text, room);
        break;
    case SETTING_SWITCH:
        (void)snprintf(text, room, "%s", *(const bool *)field ? "yes" : "no");
        break;
    case SETTING_CHOICE:
        (void)snprintf(text, room, "%s", setting->choices[*(const int *)field]);
        break;
    case SETTING_LIST:
        for (size_t i = 0; i < list->count; i++) {
            settings_draft_word(text, room, " ", list->items[i]);
        }
        break;
    case SETTING_USER:
    case SETTING_GATE:
    case SETTING_SHARDED:
        for (size_t i = 0; i < lines->count; i++) {
            settings_draft_word(text, room, " ", lines->items[i].words[0]);
        }
        break;
    }
    return text;
}

/* ---- Comparing --------------------------------------------------------------------------- */

static bool settings_same_list(const struct settings_list *a,
                               const struct settings_list *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; i < a->count && same; i++) {
        same = strcmp(a->items[i], b->items[i]) == 0;
    }
    return same;
}

static bool settings_same_lines(const struct settings_lines *a,
                                const struct settings_lines *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; i < a->count && same; i++) {
        const struct settings_line *x = &a->items[i], *y = &b->items[i];
        same = x->count == y->count;
        for (size_t j = 0; j < x->count && same; j++) {
            same = strcmp(x->words[j], y->words[j]) == 0;
        }
    }
    return same;
}

size_t settings_field_bytes(enum setting_type type)
{
    switch (type) {
    case SETTING_TEXT:
    case SETTING_SECRET: return sizeof(const char *);
    case SETTING_LIST: return sizeof(struct settings_list);
    case SETTING_COUNT:
    case SETTING_BYTES:
    case SETTING_MEMORY:
    case SETTING_OCTAL: return sizeof(uint64_t);
    case SETTING_RATE:
    case SETTING_SECONDS: return sizeof(double);
    case SETTING_SWITCH: return sizeof(bool);
    case SETTING_CHOICE: return sizeof(int);
    case SETTING_USER:
    case SETTING_GATE:
    case SETTING_SHARDED: return sizeof(struct settings_lines);
    }
    return 0;
}

bool settings_same(const struct setting *setting, const struct settings *a,
                   const struct settings *b)
{
    const void *x = (const char *)a + setting->at, *y = (const char *)b + setting->at;
    switch (setting->type) {
    case SETTING_TEXT:
    case SETTING_SECRET:
        return strcmp(*(const char *const *)x, *(const char *const *)y) == 0;
    case SETTING_LIST: return settings_same_list(x, y);
    case SETTING_USER:
    case SETTING_GATE:
    case SETTING_SHARDED: return settings_same_lines(x, y);
    default: return memcmp(x, y, settings_field_bytes(setting->type)) == 0;
    }
}
