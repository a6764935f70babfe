/*
 * change_file.h - changes the keys in a filter file; shared by bloomgate add and remove.
 *
 * The filter is read, changed in memory by several threads, and saved atomically, in place or to
 * another file. If anything fails, the file remains unchanged. The file is claimed first (claim.h),
 * so other commands that change it have to wait.
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
    const char *name; /* the name of the target, for messages */
    char to[CLAIM_PATH];
    bool refuses; /* whether filters of this kind can become full */
    atomic_uint_fast64_t keys, changed;
};

/* Opens FILTER. Returns an exit code. */
int change_begin(struct change *change, const struct change_options *options,
                 const char *path);
void change_end(struct change *change);

/* Passes the keys in the files listed after FILTER to `work`, in any order, and to `deliver`, in
 * order and one chunk at a time. Either may be NULL. Returns an exit code. */
int change_run(struct change *change, const struct arguments *arguments,
               bool (*work)(struct flow *flow, struct chunk *chunk),
               bool (*deliver)(struct flow *flow, struct chunk *chunk));

/* Saves the filter. Returns an exit code. */
int change_save(struct change *change);

/* Lists the kinds that have a trait, for messages: "counting, cuckoo, quotient". */
enum { CHANGE_KINDS = 160 };
const char *change_kinds(uint32_t trait, char text[CHANGE_KINDS]);

#endif
