/*
 * complete.h - generates completion scripts for bash, zsh and fish. The scripts are generated from
 * the tables of subcommands and options, and require nothing but the shell.
 */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#include "command.h"

/* Each of these functions prints the script for one shell to stdout. */
void complete_bash(void);
void complete_zsh(void);
void complete_fish(void);

/* The kind of value that follows an option: none, one of `choices`, a number, or text, which may be
 * a file name. */
enum complete_value {
    COMPLETE_NOTHING,
    COMPLETE_CHOICES,
    COMPLETE_NUMBER,
    COMPLETE_FILES
};
enum complete_value complete_value(const struct option *option);

/* Prints text, with the character `before` in front of each character that occurs in `special`. */
void complete_escaped(const char *text, const char *special, char before);

/* Prints a NULL-terminated list of words, separated by `between`. */
void complete_words(const char *const *words, const char *between);

/* Prints the names of all subcommands, as well as help and version, which are not in the table. */
void complete_names(const char *between);

/* The summaries of help and version. */
extern const char complete_help_summary[], complete_version_summary[];

#endif
