/* front_settings.c - see front_settings.h. */
#include "front_settings.h"

#include "nearest.h"
#include "number.h"
#include "shard_names.h"

#include <string.h>

enum front_type { FRONT_TEXT, FRONT_COUNT, FRONT_SECONDS };

#define AT(field) offsetof(struct front_settings, field)
static const struct front_word {
    const char *name;
    enum front_type type;
    size_t at;
    double least, most;
    const char *expected;
} front_words[] = {
    { "nodes", FRONT_TEXT, AT(nodes), 0, 0, "HOST:PORT,HOST:PORT..." },
    { "shards", FRONT_COUNT, AT(shards), 1, SHARDS_MOST, "1 to 1024" },
    { "replicas", FRONT_COUNT, AT(replicas), 0, 100, "0 to 100" },
    { "timeout", FRONT_SECONDS, AT(timeout), 0.001, 60,
      "a time such as 1s, up to 60s" },
    { "patience", FRONT_SECONDS, AT(patience), 0.001, 60,
      "a time such as 2s, up to 60s" },
    { "user", FRONT_TEXT, AT(user), 0, 0, "a name" },
    { "password", FRONT_TEXT, AT(password), 0, 0, "a password" },
};
#undef AT

enum { FRONT_WORDS = sizeof front_words / sizeof *front_words };

static bool front_set(const struct front_word *word, const char *text,
                      struct front_settings *front)
{
    char *to = (char *)front + word->at;
    double *real = (double *)(void *)to;
    uint64_t *count = (uint64_t *)(void *)to;
    switch (word->type) {
    case FRONT_TEXT: *(const char **)(void *)to = text; return *text != 0;
    case FRONT_COUNT:
        return number_count(text, count) && (double)*count >= word->least
               && (double)*count <= word->most;
    case FRONT_SECONDS:
        return number_seconds(text, real) && *real >= word->least
               && *real <= word->most;
    }
    return false;
}

/* NAME=VALUE */
static bool front_read_word(const char *text, struct front_settings *front,
                            char why[SETTINGS_WHY])
{
    const size_t n = strcspn(text, "=");
    const char *names[FRONT_WORDS];
    for (size_t i = 0; i < FRONT_WORDS; i++) {
        const struct front_word *word = &front_words[i];
        names[i] = word->name;
        if (strlen(word->name) == n && strncmp(word->name, text, n) == 0 && text[n]) {
            const bool good = front_set(word, text + n + 1, front);
            if (!good) { /* what was found may be a password */
                (void)snprintf(why, SETTINGS_WHY, "%s: expected %s", word->name,
                               word->expected);
            }
            return good;
        }
    }
    char key[40];
    (void)snprintf(key, sizeof key, "%.*s", n < sizeof key ? (int)n : 0, text);
    const char *near = nearest_name(key, names, FRONT_WORDS);
    (void)snprintf(why, SETTINGS_WHY, "found '%s', expected NAME=VALUE%s%s%s", key,
                   near ? "; did you mean " : "", near ? near : "", near ? "=?" : "");
    return false;
}

bool front_settings_read(const struct settings_line *line, struct front_settings *front,
                         char why[SETTINGS_WHY])
{
    *front = (struct front_settings){
        .name = line->words[0], .shards = 16, .timeout = 1, .patience = 2
    };
    for (size_t i = 1; i < line->count; i++) {
        if (!front_read_word(line->words[i], front, why)) {
            return false;
        }
    }
    if (!front->nodes) {
        (void)snprintf(why, SETTINGS_WHY,
                       "nodes: found nothing, expected HOST:PORT,...");
        return false;
    }
    return true;
}
