/*
 * cmd_split.c - bloomgate split writes each shard of a filter to its own file, and bloomgate join
 * recombines these files.
 */
#include "claim.h"
#include "command.h"
#include "number.h"
#include "save_options.h"
#include "spool.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct shards_options {
    struct common common;
    struct open_options open;
    struct save_options save;
};

enum { JOIN_MAX = 65536 };

/* Opens the header of a filter: finds its secret, and prepares for saving files like it. */
static int shards_open(const struct shards_options *o, const char *path,
                       struct filter_file *file, bg_open_options *opening,
                       struct saving *saving)
{
    *opening = (bg_open_options)BG_OPEN_OPTIONS_INIT;
    opening->flags = o->open.tolerate ? BG_FILE_TOLERATE_DAMAGE : 0;
    const int code = filter_secret(path, &o->open, file, opening);
    return code ? code : saving_begin(&o->save, &file->about, saving);
}

/* ---- split ----------------------------------------------------------------------------------- */

/* Claims the names of all shard files. Without --force, fails if one of the files exists. */
static int split_may_write(const struct shards_options *o, const char *prefix,
                           uint32_t shards)
{
    char name[CLAIM_PATH];
    /* The prefix is claimed first, so that two splits with the same prefix cannot deadlock. */
    int code = claim_file(prefix);
    for (uint32_t i = 0; i < shards && !code; i++) {
        code = filter_shard_path(prefix, i, name);
        code = code ? code : filter_claim(name, o->save.force);
    }
    return code;
}

/* Deletes the shard files after a failed split. */
static void split_undo(const char *prefix, uint32_t shards)
{
    char name[CLAIM_PATH];
    for (uint32_t i = 0; i < shards && !filter_shard_path(prefix, i, name); i++) {
        (void)unlink(name);
    }
}

/* Claims one file per shard. The filter may be replaced while this command waits for a claim, so
 * the caller has to read the filter again. */
static int split_prepare(const struct shards_options *o, const char *path,
                         const char *prefix, uint32_t *shards)
{
    static struct filter_file file;
    bg_open_options opening = BG_OPEN_OPTIONS_INIT;
    int code = filter_secret(path, &o->open, &file, &opening);
    *shards = file.about.shards;
    filter_close(&file);
    if (!code && *shards < 2) {
        code = say_refused("%s: not a sharded filter", spool_name(path));
    }
    return code ? code : split_may_write(o, prefix, *shards);
}

static int split_command(void *options, const struct arguments *arguments)
{
    static struct filter_file file;
    static struct saving saving;
    const struct shards_options *o = options;
    const char *path = arguments->items[0], *prefix = arguments->items[1];
    bg_open_options opening;
    bg_errinfo why;
    uint32_t shards = 0;
    int code = split_prepare(o, path, prefix, &shards);
    code = code ? code : shards_open(o, path, &file, &opening, &saving);
    if (!code && file.about.shards != shards) {
        code = say_data("%s: the file was replaced during the split and now has %u "
                        "shards, not %u; run split again",
                        path, file.about.shards, shards);
    }
    if (!code) {
        progress_begin(&saving.progress, "splitting");
        const bg_err err =
            bg_file_split(spool_path(path), prefix, &opening, &saving.how, &why);
        progress_end(&saving.progress);
        code = err ? say_error(why.code == BG_EIO ? prefix : file.path, &why) : CLI_OK;
        if (err && !o->save.force) { /* without --force, all shard files are new */
            split_undo(prefix, shards);
        }
    }
    if (!code) {
        say_note("%s.0 to %s.%u: %u shards", prefix, prefix, shards - 1, shards);
    }
    filter_close(&file);
    return code;
}

const struct command command_split = {
    .name = "split",
    .summary = "write each shard of a filter to a file",
    .usage = "[options] FILTER PREFIX",
    .about =
        "Writes each shard of a sharded filter to its own file, PREFIX.0, PREFIX.1 "
        "and so on. A shard contains only the keys whose hash maps to it, so it "
        "cannot answer lookups for other keys. bloomgate join recombines the "
        "shards.\n\nSharded filters are created with the library (set the shards "
        "field of bg_spec; see libbloomgate(3)). bloomgate build --shard is "
        "different: it creates a complete filter from a part of the input, for "
        "bloomgate merge.",
    .size = sizeof(struct shards_options),
    .arguments = { 2, 2, "expected FILTER and PREFIX" },
    .uses = { { &force_options_group, offsetof(struct shards_options, save) },
              { &open_ours_group, offsetof(struct shards_options, open) } },
    .examples = { { "bloomgate split seen.bg seen.shard",
                    "write seen.shard.0, seen.shard.1, ..." },
                  { "bloomgate split --keyring ring seen.bg seen.shard",
                    "split a filter that uses a secret" } },
    .run = split_command,
};

/* ---- join ------------------------------------------------------------------------------------ */

/* Removes the lines that record which shard of which split the file contains. */
static void join_metadata(struct saving *saving)
{
    static const char *const names[] = { "bloomgate-shard: ", "bloomgate-split: " };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strncmp(saving->metadata, names[i], strlen(names[i])) == 0) {
            filter_remove_line(saving->metadata);
        }
    }
}

static int join_files(const struct shards_options *o, const char *prefix,
                      uint32_t shards, const char *to)
{
    static struct filter_file file;
    static struct saving saving;
    static char first[CLAIM_PATH];
    bg_open_options opening;
    bg_errinfo why;
    int code = filter_shard_path(prefix, 0, first);
    code = code ? code : shards_open(o, first, &file, &opening, &saving);
    if (!code) {
        join_metadata(&saving);
        progress_begin(&saving.progress, "joining");
        const bg_err err =
            bg_file_join(prefix, shards, to, &opening, &saving.how, &why);
        progress_end(&saving.progress);
        /* Messages about I/O errors already contain the file name. */
        code = err ? say_error(why.os_errno ? NULL : prefix, &why) : CLI_OK;
    }
    if (!code) {
        say_note("%s: %u shards", to, shards);
    }
    filter_close(&file);
    return code;
}

static int join_command(void *options, const struct arguments *arguments)
{
    const struct shards_options *o = options;
    uint64_t shards = 0;
    if (!number_count(arguments->items[1], &shards) || shards < 2
        || shards > JOIN_MAX) {
        return say_usage("number of shards: found '%s', expected 2 to %d",
                         arguments->items[1], JOIN_MAX);
    }
    const int code = filter_claim(arguments->items[2], o->save.force);
    return code ? code
                : join_files(o, arguments->items[0], (uint32_t)shards,
                             arguments->items[2]);
}

const struct command command_join = {
    .name = "join",
    .summary = "recombine the shards of a filter",
    .usage = "[options] PREFIX N OUT",
    .about =
        "Recombines the N shards PREFIX.0, PREFIX.1 and so on, written by bloomgate "
        "split, into one filter. Every file records its shard number and the split "
        "that created it. join rejects files that have the wrong shard number, are "
        "from a different split, or have a different size or hash. If bloomgate "
        "split was interrupted, run it again.",
    .size = sizeof(struct shards_options),
    .arguments = { 3, 3, "expected PREFIX, the number of shards, and OUT" },
    .uses = { { &force_options_group, offsetof(struct shards_options, save) },
              { &open_ours_group, offsetof(struct shards_options, open) } },
    .examples = { { "bloomgate join seen.shard 8 seen.bg",
                    "join seen.shard.0 through seen.shard.7" },
                  { "bloomgate join -f seen.shard 8 seen.bg",
                    "overwrite an existing file" } },
    .run = join_command,
};
