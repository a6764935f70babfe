/*
 * words.h - a line of text as words: divided by blanks, with quotes as shells have them.
 *
 *     gate catalog source=sqlite:/srv/shop.db lookup="SELECT 1"
 *
 * is four words. In double quotes \" \\ \n \r \t and \xHH are what they are in C, in single quotes
 * nothing but \' is special; a quoted part may begin and end within a word. Outside of quotes a
 * word that begins with # ends the line: the rest is a comment.
 */
#ifndef SERVER_WORDS_H
#define SERVER_WORDS_H

#include <stddef.h>

enum { WORDS_MOST = 1024 };

struct words {
    char *items[WORDS_MOST]; /* each ends with a NUL and has none before it */
    size_t count;
    char *memory;
    size_t room;
};

/* Splits n bytes. NULL: done, words_free is needed; else what is wrong, as a text. */
const char *words_split(struct words *words, const char *text, size_t n);

/* Wipes and frees them: there may be a password among them. */
void words_free(struct words *words);

#endif
