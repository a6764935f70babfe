/*
 * keyring_text.c - parses keyrings; the grammar is in keyring_text.h.
 *
 * Invariants
 *   (I1) Error messages reveal nothing about the text except lengths and line numbers.
 *   (I2) Secrets are copied only into the table, which the caller hides and wipes.
 *   (I3) No byte outside the text is read, whatever the text contains.
 */
#include "gate/keyring_text.h"

#include "base/errinfo.h"
#include "bloomgate/file.h"

#include <stdio.h>
#include <string.h>

/* A part of a keyring's text. */
struct text_piece {
    const char *at;
    size_t n;
};

/* A valid line has at most three words; a fourth word is an error. */
enum { TEXT_WORDS = 4 };

struct text_line {
    uint32_t number; /* from 1 */
    size_t offset;
    struct text_piece word[TEXT_WORDS];
    unsigned words;
};

static const char text_name[] = "1 to 31 letters, digits, '-', '_' and '.'";

static bool text_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool text_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool text_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* ---- Errors -------------------------------------------------------------------------- */

static bg_err text_refuse(bg_errinfo *info, const struct text_line *line,
                          const char *field, const char *expected, const char *found)
{
    char what[32];
    (void)snprintf(what, sizeof what, "line %u, %s", line->number, field);
    bg_err err = bgi_err(info, BG_EFORMAT, what, expected, "%s", found);
    if (info) {
        info->offset = line->offset;
    }
    return err;
}

/* Reports an invalid word without quoting it: the message contains only its length. */
static bg_err text_refuse_word(bg_errinfo *info, const struct text_line *line,
                               const char *field, const char *expected, size_t n)
{
    char found[32] = "nothing";
    if (n > 0) {
        (void)snprintf(found, sizeof found, "%zu bytes", n);
    }
    return text_refuse(info, line, field, expected, found);
}

/* ---- Lines and words ------------------------------------------------------------------- */

/* Removes the next line from `rest` and stores it in `line` without its line ending. Returns false
 * at the end of the text. */
static bool text_next_line(struct text_piece *rest, struct text_piece *line)
{
    if (rest->n == 0) {
        return false;
    }
    const char *end = memchr(rest->at, '\n', rest->n);
    line->at = rest->at;
    line->n = end ? (size_t)(end - rest->at) : rest->n;
    size_t taken = line->n + (end != NULL);
    rest->at += taken;
    rest->n -= taken;
    if (line->n > 0 && line->at[line->n - 1] == '\r') {
        line->n--;
    }
    return true;
}

/* Returns whether a line should contain a secret. */
static bool text_has_secret(const struct text_piece *line)
{
    size_t i = 0;
    while (i < line->n && text_is_blank(line->at[i])) {
        i++;
    }
    return i < line->n && line->at[i] != '#';
}

static void text_split(const struct text_piece *from, struct text_line *line)
{
    size_t i = 0;
    for (line->words = 0; line->words < TEXT_WORDS; line->words++) {
        while (i < from->n && text_is_blank(from->at[i])) {
            i++;
        }
        size_t first = i;
        while (i < from->n && !text_is_blank(from->at[i])) {
            i++;
        }
        if (i == first) {
            return;
        }
        line->word[line->words] = (struct text_piece){ from->at + first, i - first };
    }
}

size_t keyring_table_bytes(const char *text, size_t n)
{
    struct text_piece rest = { text, n }, line;
    size_t count = 0;
    while (text_next_line(&rest, &line)) {
        count += text_has_secret(&line);
    }
    count = count < KEYRING_SECRETS ? count : KEYRING_SECRETS;
    return sizeof(struct keyring_table) + count * sizeof(struct keyring_secret);
}

/* ---- Fields ---------------------------------------------------------------------------- */

static bool text_is_name(const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        if (!text_is_letter(c) && !text_is_digit(c) && c != '-' && c != '_'
            && c != '.') {
            return false;
        }
    }
    return n > 0 && n < KEYRING_NAME;
}

bg_err keyring_check_name(const char *name, bg_errinfo *info)
{
    if (!name || !text_is_name(name, strlen(name))) {
        return bgi_err(info, BG_EINVAL, "name", text_name, "%zu bytes",
                       name ? strlen(name) : 0);
    }
    return BG_OK;
}

/* Returns the value of a hexadecimal digit, or 16 if the character is not a hexadecimal digit. */
static unsigned text_digit(char c)
{
    if (text_is_digit(c)) {
        return (unsigned)(c - '0');
    }
    char small = (char)(c | 0x20);
    return small >= 'a' && small <= 'f' ? (unsigned)(small - 'a') + 10 : 16;
}

static bool text_read_hex(const struct text_piece *word,
                          uint8_t secret[BG_SECRET_BYTES])
{
    unsigned all = 0; /* bit 4 is set if some character is not a hexadecimal digit */
    if (word->n != 2 * (size_t)BG_SECRET_BYTES) {
        return false;
    }
    for (size_t i = 0; i < BG_SECRET_BYTES; i++) {
        unsigned high = text_digit(word->at[2 * i]);
        unsigned low = text_digit(word->at[2 * i + 1]);
        all |= high | low;
        secret[i] = (uint8_t)(high << 4 | (low & 15));
    }
    return all < 16;
}

static bg_err text_read_secret(const struct text_line *line,
                               struct keyring_secret *secret, bg_errinfo *info)
{
    const struct text_piece *word = line->word, *state = &line->word[2];
    if (!text_is_name(word[0].at, word[0].n)) {
        return text_refuse_word(info, line, "name", text_name, word[0].n);
    }
    memcpy(secret->name, word[0].at, word[0].n);
    if (line->words < 2 || !text_read_hex(&word[1], secret->secret)) {
        return text_refuse_word(info, line, "secret", "32 hexadecimal digits",
                                line->words < 2 ? 0 : word[1].n);
    }
    secret->line = line->number;
    secret->retired = line->words > 2;
    if (line->words > 2 && (state->n != 7 || memcmp(state->at, "retired", 7) != 0)) {
        return text_refuse_word(info, line, "state", "\"retired\" or nothing",
                                state->n);
    }
    if (line->words > 3) {
        return text_refuse_word(info, line, "end", "nothing after \"retired\"",
                                line->word[3].n);
    }
    return BG_OK;
}

/* ---- Whole texts --------------------------------------------------------------------------- */

const struct keyring_secret *keyring_find(const struct keyring_table *table,
                                          const void *key_id)
{
    for (uint32_t i = 0; i < table->count; i++) {
        if (memcmp(table->of[i].name, key_id, BG_KEY_ID_BYTES) == 0) {
            return &table->of[i];
        }
    }
    return NULL;
}

static bg_err text_add(const struct text_line *line, struct keyring_table *table,
                       bg_errinfo *info)
{
    if (table->count == KEYRING_SECRETS) {
        return text_refuse(info, line, "secret", "at most 256 secrets", "one more");
    }
    struct keyring_secret *secret = &table->of[table->count];
    bg_err err = text_read_secret(line, secret, info);
    if (err) {
        return err;
    }
    const struct keyring_secret *other = keyring_find(table, secret->name);
    if (other) {
        char found[64];
        (void)snprintf(found, sizeof found, "the same first 16 bytes as on line %u",
                       other->line);
        return text_refuse(info, line, "name", "a name whose first 16 bytes are unique",
                           found);
    }
    table->count++;
    return BG_OK;
}

bg_err keyring_read(const char *text, size_t n, struct keyring_table *table,
                    bg_errinfo *info)
{
    struct text_piece rest = { text, n }, piece;
    struct text_line line = { .number = 0 };
    if (n > KEYRING_BYTES) {
        return bgi_err(info, BG_EFORMAT, "size", "at most 65536 bytes", "%zu bytes", n);
    }
    while (text_next_line(&rest, &piece)) {
        line.number++;
        line.offset = (size_t)(piece.at - text);
        if (text_has_secret(&piece)) {
            text_split(&piece, &line);
            bg_err err = text_add(&line, table, info);
            if (err) {
                return err;
            }
        }
    }
    return BG_OK;
}

void keyring_write_hex(const uint8_t secret[BG_SECRET_BYTES],
                       char hex[2 * BG_SECRET_BYTES])
{
    for (size_t i = 0; i < BG_SECRET_BYTES; i++) {
        hex[2 * i] = "0123456789abcdef"[secret[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[secret[i] & 15];
    }
}
