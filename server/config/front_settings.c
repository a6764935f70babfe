/* front_settings.c - see front_settings.h. */
#include "config/front_settings.h"

#include "nearest.h"
#include "number.h"
#include "shard_names.h"

#include <stdlib.h>
#include <string.h>

enum front_type { FRONT_TEXT, FRONT_COUNT, FRONT_SECONDS, FRONT_EITHER };

#define AT(field) offsetof(struct front_settings, field)
static const struct front_word {
    const char *name;
    enum front_type type;
    size_t at;
    double least, most;
    const char *expected;
} front_words[] = {
    { "nodes", FRONT_TEXT, AT(nodes), 0, 0, "HOST:PORT,HOST:PORT..." },
    { "shards", FRONT_COUNT, AT(shards), 1, SHARDS_MAX, "1 to 1024" },
    { "replicas", FRONT_COUNT, AT(replicas), 0, 100, "0 to 100" },
    { "connect", FRONT_SECONDS, AT(connect), 0.001, 60,
      "a time such as 500ms, up to 60s" },
    { "timeout", FRONT_SECONDS, AT(timeout), 0.001, 60,
      "a time such as 1s, up to 60s" },
    { "patience", FRONT_SECONDS, AT(patience), 0.001, 60,
      "a time such as 2s, up to 60s" },
    { "user", FRONT_TEXT, AT(user), 0, 0, "a name" },
    { "password", FRONT_TEXT, AT(password), 0, 0, "a password" },
    { "password-file", FRONT_TEXT, AT(password_file), 0, 0, "a file" },
    { "tls", FRONT_EITHER, AT(tls), 0, 0, "no or yes" },
    { "tls-ca", FRONT_TEXT, AT(tls_ca), 0, 0, "a file" },
    { "tls-cert", FRONT_TEXT, AT(tls_cert), 0, 0, "a file" },
    { "tls-key", FRONT_TEXT, AT(tls_key), 0, 0, "a file" },
    { "tls-name", FRONT_TEXT, AT(tls_name), 0, 0, "a name, or *" },
    { "fail", FRONT_EITHER, AT(closed), 0, 0, "open or closed" },
};
#undef AT

enum { FRONT_WORDS = sizeof front_words / sizeof *front_words };

/* Parses one of the two words in `expected`, which has the form "A or B". A means false, and B
 * means true. */
static bool front_set_either(const char *text, const char *expected, bool *to)
{
    const char *other = strstr(expected, " or ");
    const size_t n = (size_t)(other - expected);
    *to = strcmp(text, other + 4) == 0;
    return *to || (strlen(text) == n && strncmp(text, expected, n) == 0);
}

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
    case FRONT_EITHER:
        return front_set_either(text, word->expected, (bool *)(void *)to);
    }
    return false;
}

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
            if (!good) { /* the value may be a password, so it is not shown */
                (void)snprintf(why, SETTINGS_WHY, "%s: expected %s", word->name,
                               word->expected);
            }
            return good;
        }
    }
    char key[40];
    (void)snprintf(key, sizeof key, "%.*s", n < sizeof key ? (int)n : 0, text);
    const char *near = nearest_name(key, names, FRONT_WORDS);
    (void)snprintf(why, SETTINGS_WHY, "%s '%s'%s%s%s%s",
                   text[n] ? "unknown setting" : "found", key,
                   text[n] ? "" : ", expected NAME=VALUE",
                   near ? "; did you mean " : "", near ? near : "", near ? "=?" : "");
    return false;
}

/* Returns whether a name is valid. Names appear in metrics, INFO and paths, so only characters that
 * need no quoting in any of them are allowed. */
static bool front_is_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-_.:/@+~";
    const size_t n = strlen(name);
    return n >= 1 && n <= 100 && strspn(name, allowed) == n;
}

/* Reports inconsistent settings. If not `whole`, some settings could not be read, and checks that
 * may fail only because of them are skipped. */
static void front_contradictions(const struct front_settings *front, bool whole,
                                 char why[SETTINGS_WHY])
{
    const bool password = front->password || front->password_file;
    const struct {
        bool wrong;
        const char *message;
    } checks[] = {
        { !front_is_name(front->name),
          "name: expected 1 to 100 letters, digits and - _ . : / @ + ~" },
        { !front->nodes, "nodes is missing; set nodes=HOST:PORT,..." },
        { whole && front->password && front->password_file,
          "password and password-file cannot be combined" },
        { whole && front->user && !password,
          "user requires password-file or password" },
        { whole && !front->tls
              && (front->tls_ca || front->tls_cert || front->tls_key
                  || front->tls_name),
          "tls-ca, tls-cert, tls-key and tls-name require tls=yes" },
        { whole && !front->tls_cert != !front->tls_key,
          "tls-cert and tls-key must be set together" },
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        if (checks[i].wrong) {
            settings_join(why, checks[i].message);
        }
    }
}

bool front_settings_read(const struct settings_line *line, struct front_settings *front,
                         char why[SETTINGS_WHY])
{
    char one[SETTINGS_WHY];
    *front = (struct front_settings){
        .name = line->words[0], .shards = 16, .timeout = 1, .patience = 2
    };
    why[0] = 0;
    for (size_t i = 1; i < line->count; i++) {
        if (!front_read_word(line->words[i], front, one)) {
            settings_join(why, one);
        }
    }
    front_contradictions(front, !*why, why);
    return !*why;
}

struct cluster_options front_settings_options(const struct front_settings *front)
{
    return (struct cluster_options){ .nodes = front->nodes,
                                     .user = front->user,
                                     .password = front->password,
                                     .password_file = front->password_file,
                                     .tls = { .on = front->tls,
                                              .ca = front->tls_ca,
                                              .cert = front->tls_cert,
                                              .key = front->tls_key,
                                              .name = front->tls_name },
                                     .connect = (uint32_t)(1000 * front->connect),
                                     .timeout = (uint32_t)(1000 * front->timeout),
                                     .patience = (uint32_t)(1000 * front->patience),
                                     .replicas = (uint32_t)front->replicas };
}

/* ---- Copies ------------------------------------------------------------------------------------- */

static const char **front_text(struct front_settings *front, size_t i)
{
    return (const char **)(void *)((char *)front + front_words[i].at);
}

bool front_settings_copy(const struct front_settings *from, struct front_settings *to)
{
    *to = *from;
    to->name = strdup(from->name);
    bool good = to->name != NULL;
    for (size_t i = 0; i < FRONT_WORDS; i++) {
        if (front_words[i].type == FRONT_TEXT && *front_text(to, i)) {
            *front_text(to, i) = strdup(*front_text(to, i));
            good = good && *front_text(to, i);
        }
    }
    return good;
}

void front_settings_free(struct front_settings *copy)
{
    free((char *)(uintptr_t)copy->name);
    for (size_t i = 0; i < FRONT_WORDS; i++) {
        if (front_words[i].type == FRONT_TEXT) {
            free((char *)(uintptr_t)*front_text(copy, i));
        }
    }
}
