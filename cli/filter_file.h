/*
 * filter_file.h - opens filter files written by bloomgate or by other software.
 *
 * The format is detected from the content of the file. Most foreign formats have no magic number,
 * but all of them contain sizes that must be consistent, so each reader is tried. If exactly one
 * reader accepts the file, its format is used; if several readers accept it, --format must be set.
 */
#ifndef CLI_FILTER_FILE_H
#define CLI_FILTER_FILE_H

#include "claim.h"
#include "option.h"
#include "records.h"

struct open_options {
    const char *keyring;
    int format; /* index into filter_formats; 0 selects automatic detection */
    bool tolerate;
    uint64_t part, version; /* for foreign formats (see bg_foreign_options) */
    const char *block_key;  /* likewise: 32 hexadecimal digits */
};
extern const struct option_group open_options_group;
extern const struct option_group open_ours_group; /* for bloomgate files */

/* "auto", "bloomgate", and the names of foreign formats; NULL-terminated. */
extern const char *const filter_formats[];

struct filter_file {
    const char *path;
    bg_filter *filter; /* set for a bloomgate file; otherwise `foreign` is set */
    bg_foreign *foreign;
    uint64_t foreign_bytes;  /* size of a foreign file, which may come from a pipe */
    bg_file_info about;      /* for bloomgate files */
    char recipe[KEY_RECIPE]; /* how the file's keys are converted; see keys_follow */
    struct bg_keyring *ring;
    bg_hash_spec hash; /* hash of a keyed filter, for opening it again */
};

/* Flags for opening. */
enum { FILTER_MAPPED = 1, FILTER_OURS = 2, FILTER_EXCLUSIVE = 4 };

/* Opens a file, a pipe, or stdin ("-"). `form` specifies how the filter's keys are encoded, which
 * is needed for some foreign formats. With FILTER_OURS, refuses foreign files. Returns an exit
 * code. */
int filter_open(const char *path, const struct open_options *options, unsigned flags,
                enum key_form form, struct filter_file *file);
void filter_close(struct filter_file *file);

/* filter_is_ours returns whether a file is a bloomgate filter, according to its first bytes or
 * --format. filter_needs_secret returns whether it is a bloomgate filter whose keys are hashed with
 * a secret. */
bool filter_is_ours(const char *path, const struct open_options *options);
bool filter_needs_secret(const char *path);

/* Refuses a file if filter_looks_ours returns false for it. Returns an exit code. */
int filter_expect_ours(const char *path);

/* Returns whether the file is a text file that points to a bloomgate filter (bg_publish). */
bool filter_is_pointer(const char *path);

/* Returns whether the file starts like a bloomgate filter or a pointer to one. */
bool filter_looks_ours(const char *path);

/* Sets the options for reading or creating a foreign filter, based on the command-line options and
 * the form of its keys. If there is a secret, it is stored in `secret`. `format` is 0 if the format
 * is not known yet. Returns an exit code. */
int filter_foreign_options(const struct open_options *options, bg_foreign_format format,
                           enum key_form form, uint8_t secret[BG_SECRET_BYTES],
                           bg_foreign_options *how);

/* Finds the secret of a bloomgate file, if it needs one, and stores it in `opening`. */
int filter_secret(const char *path, const struct open_options *options,
                  struct filter_file *file, bg_open_options *opening);

/* Saves a filter to a file atomically (bg_save), or writes it to stdout if the path is "-". Reports
 * errors. Returns an exit code. */
int filter_save(const bg_filter *filter, const char *path, const bg_save_options *how);

/* Saves a foreign filter in the same way. */
int foreign_save(const bg_foreign *foreign, const char *path);

/*
 * Sets *alone to true if the file from which the filter was read contains only the filter, and to
 * false otherwise. A database table or a Parquet file also contains other data, which would be lost
 * if the filter were saved to the same file. Returns an exit code.
 */
int foreign_is_alone(const bg_foreign *foreign, const char *path, bool *alone);

/* Returns the format of a foreign filter. */
bg_foreign_format foreign_format(const bg_foreign *foreign);

/* Looks up many keys. Writes one bit per key to `maybe`, and returns the number of keys that the
 * filter may contain. MT-Safe. */
size_t filter_ask(const struct filter_file *file, const bg_bytes *keys, size_t n,
                  uint64_t *maybe);

/*
 * Inserts keys (BG_KEYS_BYTES or BG_KEYS_HASHES) into a filter of a kind that can become full
 * (BG_TRAIT_FILLS_UP), up to the first key that does not fit, and sets *done and *news as
 * bg_filter_add_many does. A copy of a key that is already in a cuckoo filter always fits: if there
 * is no space, the copy is dropped, and the key can no longer be removed
 * (bg_filter_info.saturated).
 */
BG_MUST_CHECK bg_err filter_insert(bg_filter *filter, bg_keys keys, size_t *done,
                                   size_t *news);

/*
 * filter_health returns the result of bg_filter_health, but BG_HEALTH_ACT for every rate above
 * FILTER_RATE_USELESS, even if no lower rate was requested, as with --bytes.
 * filter_misses_rate returns whether the rate is the problem.
 *
 * filter_rate_is_excessive returns whether a rate is far above the requested rate, so that a new filter
 * must not be written: above its square root, which is 10% if 1% was requested. In a classic
 * filter, this takes about 1.8 times as many keys as planned, whatever rate was requested.
 */
#define FILTER_RATE_USELESS 0.5
bg_health filter_health(const bg_filter_info *info);
const char *filter_health_name(bg_health health); /* "fine", "watch" or "act" */
bool filter_misses_rate(const bg_filter_info *info);
bool filter_rate_is_excessive(double rate, double requested);

/* Reports that a filter for `items` keys was not written, because its rate would be too high with
 * the keys that were read. `more` ends the advice. Returns an exit code. */
struct filter_excess {
    double rate, requested;
    uint64_t items, keys;
};
int filter_refuse_excess(const struct filter_excess *excess, const char *more);

/* Describes a filter that misses its rate: "has a false-positive rate of 12.4% (target 1%)". Adds
 * the reason if the filter holds more keys than it was created for. Returns `text`. */
enum { FILTER_RATE_TEXT = 256 };
const char *filter_show_rate(const bg_filter_info *info, char text[FILTER_RATE_TEXT]);

/* Describes the health of a filter: "fine", or "act: has a false-positive rate of 12.4% (target
 * 1%)". Returns `text`. */
const char *filter_show_health(const bg_filter_info *info, char text[FILTER_RATE_TEXT]);

/* Prints a note if the filter in a file misses its rate, because many of its answers are wrong.
 * Reads only a sample of a large filter. */
void filter_note_rate(const struct filter_file *file);

/* Writes the metadata: the line "keys: RECIPE" if keys are converted, followed by the note, if
 * there is one. */
void filter_metadata(const struct key_format *format, const char *note,
                     char text[BG_METADATA_MAX]);

/* Returns the metadata line that starts with `name`, or NULL. */
const char *filter_find_line(const char *metadata, const char *name);

/* Removes the line that starts at `line`. */
void filter_remove_line(char *line);

/* Reads the recipe from the line "keys: RECIPE". The recipe is "" if there is no such line. */
void filter_read_recipe(const char *metadata, char recipe[KEY_RECIPE]);

/* Sets the key conversion in `format` to the conversion that the file records, unless options
 * specify a conversion. Refuses an --as option that contradicts the file, because no key would be
 * found. Returns an exit code. */
int filter_follow(const struct filter_file *file, struct key_format *format);

/* Refuses to change a shard written by `bloomgate split`, because keys that belong to other shards
 * would not be found after `bloomgate join`. Returns an exit code. */
int filter_expect_whole(const struct filter_file *file);

/* Refuses to overwrite an existing file unless `force` is set, and never overwrites a
 * directory, device or pipe. Links are followed. Returns an exit code. */
int filter_may_write(const char *path, bool force);

/* Writes the name of a shard's file, PREFIX.I, to `name`. Returns an exit code. */
int filter_shard_path(const char *prefix, uint32_t shard, char name[CLAIM_PATH]);

/* Checks that the path is a regular file or does not exist, claims the filter file (claim.h), and
 * then performs the same checks as filter_may_write. Returns an exit code. */
int filter_claim(const char *path, bool force);

/* Like filter_claim, but also accepts "-" for stdout, unless stdout is a terminal. Use it for paths
 * that are passed to filter_save or foreign_save. */
int filter_claim_output(const char *path, bool force);

#endif
