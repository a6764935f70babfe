/*
 * seen.h - what dedup remembers: a filter of the keys that came by, made to measure or taken
 * from a file of state.
 *
 * Which filter. Nobody knows how many different lines will come, and hardly any may be dropped
 * wrongly. So without options it is scalable at 1 in 1,000,000: memory follows the number of
 * different keys. --items, with --rate, makes one layer of exactly that; --memory one of that
 * size; --window one that forgets; --unordered one that many threads may add to at once, sized for
 * the number of lines.
 */
#ifndef CLI_SEEN_H
#define CLI_SEEN_H

#include "claim.h"
#include "drops.h"
#include "filter_file.h"
#include "input.h"
#include "option.h"
#include "spec_options.h"

struct seen_options {
    uint64_t items, memory;
    double rate;
    const char *window, *state;
    bool unordered;
};
extern const struct option_group seen_options_group;

enum { SEEN_WINDOW = 64 }; /* bytes of --window, as it is kept in a file */

struct seen {
    const struct seen_options *options;
    const struct hash_options *hash;
    unsigned threads; /* for counting lines */
    int progress;     /* enum say_when */
    bg_filter *filter;
    uint64_t keys;         /* keys at the start; approximate for a state */
    struct drops_sum past; /* of a window: earlier runs, from the state */
    double rate;           /* share of new lines that may be dropped */
    struct secret secret;  /* of a new filter, or */
    struct filter_file
        file; /* what it was taken from: its path is NULL if from nothing */
    char window[SEEN_WINDOW];
    char to[CLAIM_PATH]; /* where the state is saved: a link to it stays one */
    uint64_t generation;
    uint8_t key_id[BG_KEY_ID_BYTES];
};

/* Makes the filter, or opens the file of state. `input` tells how much may come; `format`
 * follows what the state says. Exit code. */
int seen_begin(struct seen *seen, const struct input *input, struct key_format *format);

/* Saves the state, if there is one; `total` is the sum of all runs. Returns an exit code. */
int seen_save(const struct seen *seen, const struct key_format *format,
              struct drops_sum total);

void seen_end(struct seen *seen);

#endif
