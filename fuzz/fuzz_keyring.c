/*
 * fuzz_keyring.c - an input is the text of a keyring. If the text is accepted, its secrets can
 * be written in canonical form and read back unchanged, and each is found by its key ID. If the
 * text is refused, the error is one of a few sentences that contain numbers but no part of the
 * text.
 */
#include "fuzz.h"

#include "bloomgate/file.h"
#include "gate/keyring_text.h"

#include <stdbool.h>
#include <string.h>

/* Parses the text into a table of exactly the size that keyring_table_bytes returns, so that an
 * overrun is detected. */
static struct keyring_table *read_table(const char *text, size_t n, bg_errinfo *why,
                                        bg_err *err)
{
    struct keyring_table *table = calloc(1, keyring_table_bytes(text, n));
    FUZZ_MUST(table);
    *err = keyring_read(text, n, table, why);
    return table;
}

/* Returns whether a text matches the sentence, with a number in place of each '#'. */
static bool says(const char *text, const char *sentence)
{
    for (; *sentence; sentence++) {
        size_t digits = strspn(text, "0123456789");
        if (*sentence == '#' && digits > 0) {
            text += digits;
        } else if (*sentence == *text) {
            text++;
        } else {
            return false;
        }
    }
    return !*text;
}

static bool says_one_of(const char *text, const char *const *sentences, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (says(text, sentences[i])) {
            return true;
        }
    }
    return false;
}

static void check_refusal(const bg_errinfo *why, bg_err err, size_t n)
{
    static const char *const what[] = { "line #, name", "line #, secret",
                                        "line #, state", "line #, end", "size" };
    static const char *const found[] = { "nothing", "# bytes", "one more",
                                         "the same first 16 bytes as on line #" };
    FUZZ_MUST(err == BG_EFORMAT && why->code == err && why->offset <= n);
    FUZZ_MUST(says_one_of(why->what, what, sizeof what / sizeof *what));
    FUZZ_MUST(says_one_of(why->found, found, sizeof found / sizeof *found));
}

/* Writes the secrets in canonical form, without any other text. */
static size_t write_plainly(const struct keyring_table *table, char *text)
{
    size_t n = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        const struct keyring_secret *s = &table->of[i];
        n += (size_t)sprintf(text + n, "%s ", s->name);
        keyring_write_hex(s->secret, text + n);
        n += 2 * BG_SECRET_BYTES;
        n += (size_t)sprintf(text + n, "%s\n", s->retired ? " retired" : "");
    }
    return n;
}

static void check_secrets(const struct keyring_table *table)
{
    static char text[KEYRING_SECRETS * (KEYRING_NAME + 2 * BG_SECRET_BYTES + 16)];
    bg_errinfo why;
    bg_err err;
    FUZZ_MUST(table->count <= KEYRING_SECRETS);
    size_t n = write_plainly(table, text);
    struct keyring_table *again = read_table(text, n, &why, &err);
    FUZZ_MUST(err == BG_OK && again->count == table->count);
    for (uint32_t i = 0; i < table->count; i++) {
        const struct keyring_secret *a = &table->of[i], *b = &again->of[i];
        FUZZ_MUST(keyring_check_name(a->name, NULL) == BG_OK);
        FUZZ_MUST(keyring_find(table, a->name) == a);
        FUZZ_MUST(memcmp(a->name, b->name, sizeof a->name) == 0);
        FUZZ_MUST(memcmp(a->secret, b->secret, sizeof a->secret) == 0);
        FUZZ_MUST(a->retired == b->retired && b->line == i + 1 && a->line >= b->line);
    }
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bg_errinfo why;
    bg_err err;
    struct keyring_table *table = read_table((const char *)data, size, &why, &err);
    if (err) {
        check_refusal(&why, err, size);
        FUZZ_MUST(keyring_read((const char *)data, 0, table, NULL) == BG_OK);
    } else {
        check_secrets(table);
    }
    free(table);
    return 0;
}
