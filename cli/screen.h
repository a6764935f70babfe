/*
 * screen.h - a terminal as a screen: pictures of some lines, drawn one over the other, and keys
 * that are pressed. What was there before comes back at the end.
 */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

enum { SCREEN_TEXT = 16384 };

/* A picture: lines of text, each with its newline. */
struct picture {
    char text[SCREEN_TEXT];
    size_t used;
};

/* Adds text; what does not fit is left out. */
void picture_add(struct picture *picture, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same for text of strangers: control characters become '?'. */
void picture_add_text(struct picture *picture, const char *text);

/* Takes stdout over as a screen, and keys from stdin if it is a terminal too. */
void screen_begin(void);
void screen_end(void);

/* How many characters fit in a line: 80 when it is no terminal. */
int screen_columns(void);

/* Draws a picture, as much of it as fits. False: out_code says why not. */
bool screen_draw(const struct picture *picture);

/* Waits for a key, at most so long: its character; 0: none came, somebody asked to stop
 * (stop.h), or the screen has another size now; -1: nobody reads stdout any more. */
int screen_wait(double seconds);

#endif
