/*
 * seen.h - the filter in which dedup stores the keys seen so far. The filter is created according
 * to the options or loaded from a state file.
 *
 * Filter selection. The number of distinct lines is unknown, and dedup should drop almost no new
 * lines by mistake. By default, the filter is therefore scalable, with a false-positive rate of 1
 * in 1,000,000, and its memory grows with the number of distinct keys. --items creates a filter
 * with that capacity, at the rate that --rate specifies, and --memory creates a filter of that
 * size. --window creates a filter that forgets old keys. --unordered creates a filter to which many
 * threads can add keys concurrently, sized for the number of lines.
 */
#ifndef CLI_SEEN_H
#define CLI_SEEN_H

#include "claim.h"
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

/* Totals over all runs with the same state. */
struct drops_sum {
    uint64_t unique; /* number of lines reported new */
    double wrong;    /* expected number of wrongly dropped lines */
};

enum { SEEN_WINDOW = 64 }; /* buffer size for the value of --window */

struct seen {
    const struct seen_options *options;
    const struct hash_options *hash;
    unsigned threads; /* for counting lines */
    bg_filter *filter;
    uint64_t keys;           /* number of keys at the start; estimated if loaded */
    struct drops_sum past;   /* totals of earlier runs, if the filter is a window */
    double rate;             /* share of new lines that may be wrongly dropped */
    struct secret secret;    /* secret of a new filter */
    struct filter_file file; /* the state file; its path is NULL if there is none */
    char window[SEEN_WINDOW];
    char to[CLAIM_PATH]; /* path of the state file, with links resolved */
    uint64_t generation;
    uint8_t key_id[BG_KEY_ID_BYTES];
};

/* Creates the filter, or loads the state. Uses `input` to estimate the size of the filter, and sets
 * the key conversion in `format` to the conversion that the state records. Returns an exit code. */
int seen_begin(struct seen *seen, const struct input *input, struct key_format *format);

/* Saves the state, if there is a state file; `total` contains the totals over all runs. Returns an
 * exit code. */
int seen_save(const struct seen *seen, const struct key_format *format,
              struct drops_sum total);

void seen_end(struct seen *seen);

#endif
