/*
 * screen.h - uses a terminal as a screen, on which each picture replaces the previous one, and
 * reads key presses. The original content of the terminal is restored at the end.
 */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

enum { SCREEN_TEXT = 16384 };

/* A picture: lines of text, each ending with a newline. */
struct picture {
    char text[SCREEN_TEXT];
    size_t used;
};

/* Adds text; text that does not fit is dropped. */
void picture_add(struct picture *picture, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds untrusted text, and replaces control characters with '?'. */
void picture_add_text(struct picture *picture, const char *text);

/* Starts using stdout as a screen, and stdin for key presses if stdin is also a terminal. */
void screen_begin(void);
void screen_end(void);

/* Returns the width of the terminal in characters, or 80 if stdout is not a terminal. */
int screen_columns(void);

/* Draws as much of a picture as fits. Returns false on error; see out_code. */
bool screen_draw(const struct picture *picture);

/* Waits up to this long for a key press. Returns the key's character. Returns 0 if no key was
 * pressed, a stop was requested (stop.h), or the size of the screen has changed. Returns -1 if the
 * terminal was closed or the reader of stdout closed the pipe. */
int screen_wait(double seconds);

#endif
