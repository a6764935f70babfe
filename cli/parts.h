/*
 * parts.h - keeps track of filters that build --shard creates from parts of an input, so that merge
 * can check whether the parts fit together and whether any part is missing.
 *
 * Part i of n contains the lines that start within its share of the bytes. The parts therefore fit
 * together only if they were built from the same input: if the input grew between two builds, some
 * lines might be in no part. A line in the metadata of each file records the part and identifies
 * the input:
 *
 *     bloomgate-part: 3 of 8 of 90b6f1d1a2c3e4f5
 *
 * The last number identifies the input (identity.h) and how it is split into records. Merging
 * combines the sets of parts ("1-3,7 of 8 of ..."). When a set is complete, the line is removed.
 */
#ifndef CLI_PARTS_H
#define CLI_PARTS_H

#include "filter_file.h"

enum { PARTS_MAX = 65536, PARTS_LINE = 64, PARTS_SETS = 16 };

/* A set of parts of one input. */
struct part_set {
    uint64_t input;
    uint32_t count;
    const char *path; /* path of the first file with one of these parts */
    bool has[PARTS_MAX];
};

/* All parts that are being merged, with one set for each input. */
struct part_sets {
    struct part_set sets[PARTS_SETS];
    size_t count;
};

/* Writes the metadata line for part i of n; i is counted from 0. */
void parts_line(uint32_t i, uint32_t n, uint64_t input, char line[PARTS_LINE]);

/* Returns whether the metadata contains a "bloomgate-part" line. */
bool parts_are_in(const char *metadata);

/* Records the parts from which a file was built, if any, and removes the line from the file's
 * metadata. Returns an exit code. */
int parts_take(struct part_sets *all, struct filter_file *file);

/* Fails if parts of more than one input are missing. If parts of only one input are missing, prints
 * a warning and adds a line that lists the present parts to the metadata. Returns an exit code. */
int parts_finish(const struct part_sets *all, char metadata[BG_METADATA_MAX]);

#endif
