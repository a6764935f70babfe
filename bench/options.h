/*
 * options.h - the parsed command line of bgbench.
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
    uint64_t n[BGB_SIZES_MAX]; /* --n; if empty, the subcommand's defaults apply */
    size_t n_count;
    uint64_t bytes[BGB_SIZES_MAX]; /* --bytes, for `limit` and `files` */
    size_t bytes_count;
    double seconds;    /* per table cell */
    double rate;       /* --rate; 0 selects the subcommand's default */
    uint32_t kind;     /* a bg_kind; BG_KIND_AUTO selects the subcommand's default */
    const char *peer;  /* --peer; NULL selects all peers */
    double bits;       /* --bits, for `peers`; 0 selects its defaults */
    bool lookups_only; /* --lookups-only, for `peers`; does not measure builds */
    int core;          /* -1 selects the first allowed core */
};

/* Reports an invalid option and exits with code 2. */
_Noreturn void bgb_options_refuse(const char *what, const char *found,
                                  const char *expected);

/* Parses the command line. Exits after printing help (code 0) or an error (code 2). */
void bgb_options_read(struct bgb_options *options, int argc, char **argv);

/* Writes the sizes to measure to `out`: the values of --n, or the `count` defaults if --n is not
 * set. Returns the number of sizes. */
size_t bgb_options_sizes(const struct bgb_options *options, const uint64_t *defaults,
                         size_t count, uint64_t out[BGB_SIZES_MAX]);

/* Returns whether --kind selects this kind or is not set. */
bool bgb_options_wants(const struct bgb_options *options, uint32_t kind);

#endif
