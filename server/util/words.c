/*
 * words.c - see words.h. Removing quotes and escapes only shortens words, so a single buffer of the line's length can
 * hold all words.
 */
#include "util/words.h"

#include "letters.h"

#include <openssl/crypto.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct words_line {
    const char *at, *end;
    char *to;
};

static bool words_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
}

/* Parses the escape sequence after a \ in double quotes. */
static const char *words_escape(struct words_line *line)
{
    static const char letters[] = "nrt\"\\", values[] = "\n\r\t\"\\";
    if (line->at == line->end) {
        return "missing closing \"";
    }
    const char c = *line->at++;
    const char *known = c ? strchr(letters, c) : NULL;
    if (known) {
        *line->to++ = values[known - letters];
        return NULL;
    }
    if (c == 'x' && line->end - line->at >= 2 && hex_digit(line->at[0]) >= 0
        && hex_digit(line->at[1]) >= 0) {
        const int byte = hex_digit(line->at[0]) * 16 + hex_digit(line->at[1]);
        line->at += 2;
        *line->to++ = (char)byte;
        return byte ? NULL : "\\x00 is not allowed: text cannot contain NUL bytes";
    }
    return "invalid escape in double quotes; use \\\" \\\\ \\n \\r \\t or \\xHH";
}

static const char *words_quoted(struct words_line *line, char quote)
{
    while (line->at < line->end && *line->at != quote) {
        if (quote == '"' && *line->at == '\\') {
            line->at++;
            const char *wrong = words_escape(line);
            if (wrong) {
                return wrong;
            }
        } else {
            line->at += quote == '\'' && line->end - line->at > 1 && line->at[0] == '\\'
                        && line->at[1] == '\'';
            *line->to++ = *line->at++;
        }
    }
    if (line->at == line->end) {
        return quote == '"' ? "missing closing \"" : "missing closing '";
    }
    line->at++;
    return NULL;
}

static const char *words_one(struct words_line *line)
{
    while (line->at < line->end && !words_blank(*line->at)) {
        const char c = *line->at++;
        const char *wrong = NULL;
        if (c == '"' || c == '\'') {
            wrong = words_quoted(line, c);
        } else if (c == 0) {
            wrong = "the line contains a NUL byte";
        } else {
            *line->to++ = c;
        }
        if (wrong) {
            return wrong;
        }
    }
    *line->to++ = 0;
    return NULL;
}

const char *words_split(struct words *words, const char *text, size_t n)
{
    words->count = 0;
    words->room = n + 2;
    words->memory = calloc(1, words->room);
    if (!words->memory) {
        return "out of memory";
    }
    struct words_line line = { text, n ? text + n : text, words->memory };
    for (;;) {
        while (line.at < line.end && words_blank(*line.at)) {
            line.at++;
        }
        if (line.at == line.end || *line.at == '#') {
            return NULL;
        }
        const char *wrong =
            words->count == WORDS_MAX ? "too many words (maximum: 1024)" : NULL;
        if (!wrong) {
            words->items[words->count++] = line.to;
            wrong = words_one(&line);
        }
        if (wrong) {
            words_free(words);
            return wrong;
        }
    }
}

void words_free(struct words *words)
{
    if (words->memory) {
        OPENSSL_cleanse(words->memory, words->room);
    }
    free(words->memory);
    words->memory = NULL;
    words->count = 0;
}
