/*
 * change_file.h - keys into and out of a filter file: what bloomgate add and remove share.
 *
 * The filter is read, changed in memory by several threads, and saved in one step, to its
 * own place or elsewhere. When anything fails, the file is as it was. The file is claimed
 * first (claim.h), so another command that changes it waits.
 */
#ifndef CLI_CHANGE_FILE_H
#define CLI_CHANGE_FILE_H

#include "claim.h"
#include "command.h"
#include "flow.h"
#include "save_options.h"

#include <stdatomic.h>

struct change_options {
    struct common common;
    struct open_options open;
    struct key_options keys;
    struct save_options save;
    const char *output;
    uint64_t threads;
    bool strict;
};

struct change {
    const struct change_options *options;
    struct filter_file file;
    struct key_format format;
    struct saving saving;
    const char *name; /* where it goes, for people */
    char to[CLAIM_PATH];
    bool refuses; /* the kind can be full */
    atomic_uint_fast64_t keys, changed;
};

/* Opens FILTER. Exit code. */
int change_begin(struct change *change, const struct change_options *options,
                 const char *path);
void change_end(struct change *change);

/* Keys out of the files behind FILTER: to `work` in any order, or to `deliver` one chunk
 * after the other. Either may be NULL. Exit code. */
int change_run(struct change *change, const struct arguments *arguments,
               bool (*work)(struct flow *flow, struct chunk *chunk),
               bool (*deliver)(struct flow *flow, struct chunk *chunk));

/* Exit code. */
int change_save(struct change *change);

/* The kinds that have a trait, for messages: "counting, cuckoo, quotient". */
enum { CHANGE_KINDS = 160 };
const char *change_kinds(uint32_t trait, char text[CHANGE_KINDS]);

#endif
