/*
 * options.h - what the command line asked for.
 */
#ifndef BGB_OPTIONS_H
#define BGB_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BGB_SIZES_MAX = 32 };

struct bgb_options {
    const char *command;
    bool json;
    uint64_t n[BGB_SIZES_MAX]; /* --n; none: the subcommand's own */
    size_t n_count;
    uint64_t bytes[BGB_SIZES_MAX]; /* --bytes, for `limit` only */
    size_t bytes_count;
    double seconds;   /* per cell */
    double rate;      /* --rate; 0: the subcommand's own */
    uint32_t kind;    /* a bg_kind; BG_KIND_AUTO: the subcommand's own */
    const char *peer; /* --peer; NULL: all of them */
    int core;         /* -1: the first one allowed */
};

/* Ends the program over a mistake in the options. */
_Noreturn void bgb_options_refuse(const char *what, const char *found,
                                  const char *expected);

/* Reads the command line. Prints help or a complaint and exits when there is no
 * subcommand to be run (0 after --help, 2 after a mistake). */
void bgb_options_read(struct bgb_options *options, int argc, char **argv);

/* The sizes to run: those of --n, or `count` defaults. Returns how many. */
size_t bgb_options_sizes(const struct bgb_options *options, const uint64_t *defaults,
                         size_t count, uint64_t out[BGB_SIZES_MAX]);

/* Whether --kind asks for this kind, or for none in particular. */
bool bgb_options_wants(const struct bgb_options *options, uint32_t kind);

#endif
