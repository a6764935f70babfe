/*
 * filter_file.h - a filter out of a file: one of ours, or of other software.
 *
 * Which it is, the file says. Most foreign formats have no magic number, but all have sizes
 * that must fit, so each reader is tried: if exactly one accepts the file, it is that one; if
 * several do, --format has to say which.
 */
#ifndef CLI_FILTER_FILE_H
#define CLI_FILTER_FILE_H

#include "option.h"
#include "records.h"

#include "bloomgate/bloomgate.h"

struct open_options {
    const char *keyring;
    int format; /* 0: ask the file; 1: ours; then foreign ones in their order */
    bool tolerate;
    uint64_t part, version; /* of foreign ones: bg_foreign_options */
    const char *block_key;  /* likewise: 32 hexadecimal digits */
};
extern const struct option_group open_options_group;
extern const struct option_group open_ours_group; /* what files of ours need */

/* "auto", "bloomgate", and the names of foreign formats; NULL at the end. */
extern const char *const filter_formats[];

struct filter_file {
    const char *path;
    bg_filter *filter; /* ours, or */
    bg_foreign *foreign;
    bg_file_info about;      /* of ours */
    char recipe[KEY_RECIPE]; /* how its keys are made: keys_follow */
    struct bg_keyring *ring;
    bg_hash_spec hash; /* of a keyed one, for opening it again */
};

/* How it is opened. */
enum { FILTER_MAPPED = 1, FILTER_OURS = 2, FILTER_EXCLUSIVE = 4 };

/* Opens a file. `form` is what its keys are, which some foreign formats have to be told.
 * Exit code; FILTER_OURS: a foreign one is refused. */
int filter_open(const char *path, const struct open_options *options, unsigned flags,
                enum key_form form, struct filter_file *file);
void filter_close(struct filter_file *file);

/* Whether it is a file of ours, by its first bytes or by --format; and whether it is one
 * whose keys are hashed with a secret. */
bool filter_is_ours(const char *path, const struct open_options *options);
bool filter_needs_secret(const char *path);

/* Refuses what is no file of ours by its first bytes. Exit code. */
int filter_expect_ours(const char *path);

/* Whether it is a text file that points to one of ours (bg_publish). */
bool filter_is_pointer(const char *path);

/* By the first bytes: a file of ours, or one that points to one. */
bool filter_looks_ours(const char *path);

/* What is to be said of a foreign filter when it is read or made: the options, and what its
 * keys are; `secret` has room for the key. `format` is 0 if it is not known yet. Exit code. */
int filter_foreign_options(const struct open_options *options, bg_foreign_format format,
                           enum key_form form, uint8_t secret[BG_SECRET_BYTES],
                           bg_foreign_options *how);

/* The secret for a file of ours that needs one, in options for bg_open and its like. */
int filter_secret(const char *path, const struct open_options *options,
                  struct filter_file *file, bg_open_options *opening);

/* Asks for many keys: bits to `maybe`; returns how many may be contained. MT-Safe. */
size_t filter_ask(const struct filter_file *file, const bg_bytes *keys, size_t n,
                  uint64_t *maybe);

/* The line "keys: RECIPE" for the metadata of a file, or "" when there is nothing to say. */
void filter_metadata(const struct key_format *format, const char *note,
                     char text[BG_METADATA_BYTES]);

/* What that line says; "" when there is none. */
void filter_read_recipe(const char *metadata, char recipe[KEY_RECIPE]);

/* Makes keys as the file says, where the options said nothing else: exit code. An --as that is
 * not the file's is refused: no key of it would be found. */
int filter_follow(const struct filter_file *file, struct key_format *format);

/* Refuses to change a shard that bloomgate split wrote: keys that belong to other shards would
 * not be found after join. Returns an exit code. */
int filter_expect_whole(const struct filter_file *file);

/* Refuses to overwrite a file, and what is no file: exit code. */
int filter_may_write(const char *path, bool force);

/* The same for a filter file; also claims it, so that no other command changes it (claim.h). */
int filter_claim(const char *path, bool force);

#endif
