/*
 * save_options.h - saves a changed filter to a file. The generation, notes and key ID of the
 * original file are kept unless options change them. The canaries are always kept.
 */
#ifndef CLI_SAVE_OPTIONS_H
#define CLI_SAVE_OPTIONS_H

#include "filter_file.h"
#include "option.h"
#include "say.h"

struct save_options {
    bool force;
    const char *generation; /* an integer; NULL keeps the file's generation */
};
extern const struct option_group save_options_group;
extern const struct option_group force_options_group; /* only --force */

struct saving {
    bg_save_options how;
    struct progress progress;
    char metadata[BG_METADATA_MAX];
};

/* Applies the options, and copies all other values from `like`. Returns an exit code. */
int saving_begin(const struct save_options *options, const bg_file_info *like,
                 struct saving *saving);

/* Saves the filter. Returns an exit code. */
int saving_write(struct saving *saving, const bg_filter *filter, const char *path);

/* A bg_file_progress_fn whose context is a struct progress; stops when a stop is requested. */
bool saving_progress(void *context, uint64_t done, uint64_t all);

/* Warns if the filter's rate is higher than requested. `fix` is the advice, such as
 * "increase --items". */
void saving_warn(const bg_filter_info *info, const char *fix);

/* Prints a summary of the filter that is now in the file, and warns if it misses its rate. */
void saving_tell(const bg_filter *filter, const char *path, const char *fix);

#endif
