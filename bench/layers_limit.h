/*
 * layers_limit.h - how fast can one line from each of several tables be read, at best?
 *
 * This is the equivalent of limit.h for filters with several layers or generations, where a
 * lookup of an absent key reads one line from each layer. The limit is a loop that reads 8 bytes
 * from one line per table, in tables with the sizes of the layers, and does not test any bits. The
 * loop processes either one key at a time in all tables, or 64 keys at a time in one table after
 * another, and prefetches lines a given number of keys or tables ahead. A few trial passes
 * determine the best method.
 */
#ifndef BGB_LAYERS_LIMIT_H
#define BGB_LAYERS_LIMIT_H

#include "harness.h"
#include "region.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BGB_LAYERS_MAX = 64 };

struct bgb_layers_way {
    bool by_table;
    size_t ahead; /* keys or tables to prefetch ahead; 0 disables prefetching */
};

struct bgb_layers_limit {
    /* Parameters. */
    uint64_t lines; /* number of lines in the first table */
    size_t count;
    unsigned step;          /* table i has (`lines` >> i * step) lines */
    const uint64_t *stream; /* followed by BGB_KEYS_SLACK readable words */

    /* Derived state. */
    struct bgb_region region[BGB_LAYERS_MAX];
    const unsigned char *table[BGB_LAYERS_MAX]; /* largest first */
    struct bgb_layers_way way;
};

/* Creates the tables, and the subject that reads a line from each of them. `state` must not move
 * while the subject is in use. */
void bgb_layers_limit_prepare(struct bgb_layers_limit *state,
                              struct bgb_subject *subject, size_t pool, size_t chunk);
void bgb_layers_limit_free(struct bgb_layers_limit *state);

#endif
