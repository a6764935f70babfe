/*
 * save_options.h - a filter of ours back into a file: what its file said of it is kept
 * (generation, notes, key id), unless options say otherwise.
 *
 * Canaries follow from the generation. When that changes, a file that had canaries gets
 * those of the new one, if its kind can take keys.
 */
#ifndef CLI_SAVE_OPTIONS_H
#define CLI_SAVE_OPTIONS_H

#include "filter_file.h"
#include "option.h"
#include "progress.h"

struct save_options {
    bool force;
    const char *generation; /* a number; NULL: as it was */
};
extern const struct option_group save_options_group;
extern const struct option_group force_options_group; /* --force alone */

struct saving {
    bg_save_options how;
    struct progress progress;
    enum say_when when;
    uint64_t was;      /* the generation */
    bool has_canaries; /* of that one */
    char metadata[BG_METADATA_BYTES];
};

/* What the options say, and for the rest what `like` had. Exit code. */
int saving_begin(const struct save_options *options, const bg_file_info *like,
                 enum say_when progress, struct saving *saving);

/* Adds canaries if they are due, and saves. Exit code. */
int saving_write(struct saving *saving, bg_filter *filter, const char *path);

/* A bg_file_progress whose context is a struct progress; it ends when asked to stop. */
bool saving_progress(void *context, uint64_t done, uint64_t all);

/* A line for people: what the file has now. */
void saving_tell(const bg_filter *filter, const char *path);

#endif
