/*
 * words.h - splits a line into words separated by blanks, with quoting as in a shell.
 *
 *     gate catalog source=sqlite:/srv/shop.db lookup="SELECT 1"
 *
 * has four words. In double quotes, \" \\ \n \r \t and \xHH mean the same as in C. In single quotes, only \' is
 * special. A quoted part may start and end within a word. Outside quotes, a # at the start of a word starts a comment
 * that extends to the end of the line.
 */
#ifndef SERVER_UTIL_WORDS_H
#define SERVER_UTIL_WORDS_H

#include <stddef.h>

enum { WORDS_MAX = 1024 };

struct words {
    char *items[WORDS_MAX]; /* NUL-terminated */
    size_t count;
    char *memory;
    size_t room;
};

/* Splits n bytes. On success, returns NULL, and the caller must call words_free. Otherwise returns an error
 * message. */
const char *words_split(struct words *words, const char *text, size_t n);

/* Wipes the words, which may contain a password, and frees them. */
void words_free(struct words *words);

#endif
