/*
 * complete.h - scripts that complete command lines of bloomgate, one writer per shell. All are
 * made from the tables of subcommands and options, and need nothing but the shell.
 */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#include "command.h"

/* To stdout. */
void complete_bash(void);
void complete_zsh(void);
void complete_fish(void);

/* What may follow an option: nothing, one of `choices`, a number, or a text, which may be the
 * name of a file. */
enum complete_value {
    COMPLETE_NOTHING,
    COMPLETE_CHOICES,
    COMPLETE_NUMBER,
    COMPLETE_FILES
};
enum complete_value complete_value(const struct option *option);

/* Text with a character put before each one that is in `special`. */
void complete_escaped(const char *text, const char *special, char before);

/* Words with something between them; NULL at the end. */
void complete_words(const char *const *words, const char *between);

/* Names of all subcommands, and of the two that have no entry: help and version. */
void complete_names(const char *between);

/* What these two do. */
extern const char complete_help_summary[], complete_version_summary[];

#endif
