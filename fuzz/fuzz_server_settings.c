/*
 * fuzz_server_settings.c - parses arbitrary text as a configuration file, including users and
 * gates, and checks the users' permissions for a filter name.
 *
 * Input: text, as in bloomgate.conf. A byte from 0x80 to 0xFE at the start of a line stands for the
 * name of an option (0x80 is the first option in the table), so that the fuzzer need not find the
 * names letter by letter. The last line is also used as a filter name and as a value for CONFIG
 * SET.
 */
#define _GNU_SOURCE

#include "fuzz.h"
#include "fuzz_input.h"

#include "config/gate_settings.h"
#include "config/settings.h"
#include "config/users.h"

#include <math.h>

#define ROW(name, flags, categories)                                                   \
    {                                                                                  \
        name, -1, flags, categories, 0, 0, 0, NULL, NULL, "", "", "", "",              \
            BEHAVIOR_SERVICE                                                           \
    }

static const struct command commands[] = {
    ROW("BF.ADD", COMMAND_WRITE, CATEGORY_BLOOM),
    ROW("PING", COMMAND_NOAUTH, CATEGORY_CONNECTION),
    ROW("CONFIG", COMMAND_ADMIN, 0),
    { .name = NULL },
};
static const struct command *const families[] = { commands };

static size_t mistakes;

/* Checks that a message is one line, whatever it contains. */
static void hear(void *context, bool mistake, const char *text)
{
    (void)context;
    mistakes += mistake;
    FUZZ_MUST(*text && strlen(text) < SETTINGS_WHY);
    for (; *text; text++) {
        FUZZ_MUST((unsigned char)*text >= 0x20 && *text != 0x7F);
    }
}

/* Returns the input with option names in place of their indexes. The caller frees the result. */
static char *expand(const uint8_t *data, size_t size, size_t *n)
{
    size_t rows;
    const struct setting *table = settings_table(&rows);
    char *text = malloc(size * 40 + 1);
    FUZZ_MUST(text);
    *n = 0;
    for (size_t i = 0; i < size; i++) {
        const size_t row = data[i] - 0x80u;
        if ((i == 0 || data[i - 1] == '\n') && data[i] >= 0x80 && row < rows
            && table[row].name) {
            *n += (size_t)sprintf(text + *n, "%s ", table[row].name);
        } else {
            text[(*n)++] = (char)data[i];
        }
    }
    text[*n] = 0;
    return text;
}

/* Checks that numbers are within their limits, and that a printed value is read back as the
 * same value. */
static void check_value(const struct setting *setting, const struct settings *settings)
{
    char text[4096];
    char *words[1] = { text };
    const char *field = (const char *)settings + setting->at;
    (void)settings_show(setting, settings, text, sizeof text);
    switch (setting->type) {
    case SETTING_COUNT:
    case SETTING_BYTES:
    case SETTING_MEMORY:
    case SETTING_OCTAL: {
        uint64_t value;
        memcpy(&value, field, sizeof value);
        FUZZ_MUST((double)value >= setting->least && (double)value <= setting->most);
        break;
    }
    case SETTING_RATE:
    case SETTING_SECONDS: {
        double value;
        memcpy(&value, field, sizeof value);
        FUZZ_MUST(value >= setting->least && value <= setting->most);
        break;
    }
    case SETTING_SWITCH:
    case SETTING_CHOICE: break;
    case SETTING_TEXT:
    case SETTING_SECRET:
    case SETTING_LIST:
    case SETTING_USER:
    case SETTING_GATE:
    case SETTING_SHARDED: return;
    }
    struct settings_draft again = { .settings = *settings };
    FUZZ_MUST(settings_draft_set(&again, "", setting->name, words, 1));
    FUZZ_MUST(settings_same(setting, settings, &again.settings));
}

static void check_values(const struct settings *settings)
{
    size_t rows;
    const struct setting *table = settings_table(&rows);
    for (size_t i = 0; i < rows; i++) {
        if (table[i].name) {
            check_value(&table[i], settings);
        }
    }
    for (size_t i = 0; i < settings->gates.count; i++) {
        struct gate_settings gate;
        char why[SETTINGS_WHY];
        FUZZ_MUST(settings_gate(&settings->gates.items[i], &gate, why));
        gate_settings_free(&gate);
    }
    for (size_t i = 0; i < settings->users.count; i++) {
        FUZZ_MUST(settings->users.items[i].count > 0);
    }
}

static void check_user(const struct user *user, bg_bytes name)
{
    uint64_t wait;
    FUZZ_MUST(user_is_current(user));
    FUZZ_MUST(user_may_run(user, &commands[1]));
    const bool reads = user_may_touch(user, name, USER_READ);
    const bool writes = user_may_touch(user, name, USER_WRITE);
    FUZZ_MUST(user_may_touch(user, name, USER_READ | USER_WRITE) == (reads && writes));
    FUZZ_MUST(user_take(user, 1, 1000, &wait) || wait > 0);
}

/* Users are kept for several inputs, so an input may find users from earlier inputs. */
static struct users *some_users(void)
{
    static struct users *users;
    static unsigned uses;
    if (uses++ % 64 == 0) {
        users_free(users);
        users = users_create(families, 1);
        FUZZ_MUST(users);
    }
    return users;
}

static void check_users(const struct settings *settings, bg_bytes last)
{
    char why[SETTINGS_WHY] = "";
    struct users *users = some_users();
    if (users_load(users, settings, why)) {
        const struct user *user = users_default(users);
        FUZZ_MUST(!user || users_are_open(users));
        if (user) {
            check_user(user, last);
        }
        for (size_t i = 0; i < settings->users.count; i++) {
            const struct settings_line *line = &settings->users.items[i];
            for (size_t j = 1; j < line->count; j++) {
                if (*line->words[j]
                    == '>') { /* an enabled user can log in with its own password */
                    const bg_bytes password = { line->words[j] + 1,
                                                strlen(line->words[j]) - 1 };
                    user = users_recall(
                        users, (bg_bytes){ line->words[0], strlen(line->words[0]) },
                        password);
                    if (user) {
                        check_user(user, last);
                    }
                }
            }
        }
    } else {
        FUZZ_MUST(*why);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct settings_draft defaults;
    size_t n;
    char *text = expand(data, size < 8192 ? size : 8192, &n);
    FUZZ_MUST(defaults.pool || settings_draft_init(&defaults, hear, NULL));
    struct settings_draft draft = defaults;
    draft.pool = settings_pool_create();
    draft.alone = true;
    FUZZ_MUST(draft.pool);
    mistakes = 0;
    settings_read_text(&draft, "conf", text, n);
    FUZZ_MUST(mistakes == draft.mistakes);
    check_values(&draft.settings);
    settings_check_limits(&draft);
    const char *last = memrchr(text, '\n', n);
    last = last ? last + 1 : text;
    check_users(&draft.settings, (bg_bytes){ last, (size_t)(text + n - last) });
    settings_draft_free(&draft);
    free(text);
    return 0;
}
