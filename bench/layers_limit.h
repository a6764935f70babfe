/*
 * layers_limit.h - how fast can one line of each of several tables be read, at best?
 *
 * What limit.h is to a filter that keeps a key in one line, this is to one of several
 * layers or generations, in each of which an absent key has a line: the same lines of
 * tables of the same sizes, 8 bytes of each read and none tested. Keys are taken one
 * after another, or 64 of them through one table after another, with lines asked for so
 * many keys or tables ahead; the best of these ways, by a few trial passes, is the limit.
 */
#ifndef BGB_LAYERS_LIMIT_H
#define BGB_LAYERS_LIMIT_H

#include "harness.h"
#include "region.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BGB_LAYERS_MOST = 64 };

struct bgb_layers_way {
    bool by_table;
    size_t ahead; /* keys, or tables; 0: lines are not asked for */
};

struct bgb_layers_limit {
    /* What is to be read. */
    uint64_t lines; /* of the first table */
    size_t count;
    unsigned step;          /* each has 2^step times fewer lines than the one before */
    const uint64_t *stream; /* BGB_KEYS_SLACK readable words follow its end */

    /* What was made of it. */
    struct bgb_region region[BGB_LAYERS_MOST];
    const unsigned char *table[BGB_LAYERS_MOST]; /* the largest first */
    struct bgb_layers_way way;
};

/* Makes the tables, and the subject that reads a line of each. `state` must stay where it
 * is while the subject is in use. */
void bgb_layers_limit_prepare(struct bgb_layers_limit *state,
                              struct bgb_subject *subject, size_t pool, size_t chunk);
void bgb_layers_limit_free(struct bgb_layers_limit *state);

#endif
