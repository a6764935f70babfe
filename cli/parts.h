/*
 * parts.h - filters of parts of an input, which build --shard makes, and whether a merge has all
 * parts of it.
 *
 * Part i of n has the lines that begin in its share of the bytes. So the parts only fit together
 * if the input was the same for all of them: when it has grown in between, lines are in none. The
 * file of a part says in a line of its metadata which it is, and of what:
 *
 *     bloomgate-part: 3 of 8 of 90b6f1d1a2c3e4f5
 *
 * The last number is made of the input (identity.h) and of how it is cut into records. Merging
 * joins the sets of parts ("1-3,7 of 8 of ..."); a set that has all of them needs no line.
 */
#ifndef CLI_PARTS_H
#define CLI_PARTS_H

#include "filter_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PARTS_MOST = 65536, PARTS_LINE = 64, PARTS_SETS = 16 };

/* Some parts of one input. */
struct part_set {
    uint64_t input;
    uint32_t count;
    const char *path; /* of the first file that has one of them */
    bool has[PARTS_MOST];
};

/* All parts that a merge has, of any number of inputs. */
struct part_sets {
    struct part_set sets[PARTS_SETS];
    size_t count;
};

/* The line of part i, from 0, of n. */
void parts_line(uint32_t i, uint32_t n, uint64_t input, char line[PARTS_LINE]);

/* Whether a text has a line that says of which part it is. */
bool parts_are_in(const char *metadata);

/* Notes the parts that a file is made of, if any, and removes the line from its metadata. Exit
 * code. */
int parts_take(struct part_sets *all, struct filter_file *file);

/* Refuses parts of different inputs. If some of one input are missing: a warning, and a line for
 * the metadata that says so. Exit code. */
int parts_finish(const struct part_sets *all, char metadata[BG_METADATA_BYTES]);

#endif
