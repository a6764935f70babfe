/*
 * cmd_split.c - bloomgate split: writes each shard of a filter to its own file.
 */
#define _POSIX_C_SOURCE 200809L

#include "claim.h"
#include "command.h"
#include "number.h"
#include "save_options.h"
#include "say.h"

#include <stdio.h>
#include <unistd.h>

struct split_options {
    struct common common;
    struct open_options open;
    struct save_options save;
};

enum { SPLIT_PATH = 4096 };

static int split_name(const char *prefix, uint32_t i, char name[SPLIT_PATH])
{
    const int n = snprintf(name, SPLIT_PATH, "%s.%u", prefix, i);
    return n > 0 && n < SPLIT_PATH
               ? CLI_OK
               : say_failed(CLI_USAGE, "%s: path is too long", prefix);
}

/* Claims the names of all shard files, so that no other command changes them. Without --force,
 * fails if one of the files exists. */
static int split_may_write(const struct split_options *o, const char *prefix,
                           uint32_t shards)
{
    char name[SPLIT_PATH];
    /* The prefix is claimed first, so that two splits with the same prefix cannot deadlock. */
    int code = claim_file(prefix);
    for (uint32_t i = 0; i < shards && !code; i++) {
        code = split_name(prefix, i, name);
        code = code ? code : filter_claim(name, o->save.force);
    }
    return code;
}

/* Deletes the shard files after a failed split. */
static void split_undo(const char *prefix, uint32_t shards)
{
    char name[SPLIT_PATH];
    for (uint32_t i = 0; i < shards && !split_name(prefix, i, name); i++) {
        (void)unlink(name);
    }
}

/* Claims one file per shard. The filter may be replaced while this command waits for a claim, so
 * the caller has to read the filter again. */
static int split_prepare(const struct split_options *o, const char *path,
                         const char *prefix, uint32_t *shards)
{
    static struct filter_file file;
    bg_open_options opening = BG_OPEN_OPTIONS_INIT;
    int code = filter_secret(path, &o->open, &file, &opening);
    *shards = file.about.shards;
    filter_close(&file);
    if (!code && *shards < 2) {
        code = say_failed(CLI_USAGE, "%s: not a sharded filter", path);
    }
    return code ? code : split_may_write(o, prefix, *shards);
}

static int split_file(const struct split_options *o, const char *path,
                      const char *prefix)
{
    static struct filter_file file;
    static struct saving saving;
    bg_open_options opening = BG_OPEN_OPTIONS_INIT;
    bg_errinfo why;
    uint32_t shards = 0;
    int code = split_prepare(o, path, prefix, &shards);
    code = code ? code : filter_secret(path, &o->open, &file, &opening);
    if (!code && file.about.shards != shards) {
        code = say_failed(CLI_DATA,
                          "%s: the file was replaced during the split and now has %u "
                          "shards, not %u; run split again",
                          path, file.about.shards, shards);
    }
    code = code ? code
                : saving_begin(&o->save, &file.about, (enum say_when)o->common.progress,
                               &saving);
    if (!code) {
        opening.flags = o->open.tolerate ? BG_FILE_TOLERATE_DAMAGE : 0;
        progress_begin(&saving.progress, "splitting", saving.when);
        if (bg_file_split(path, prefix, &opening, &saving.how, &why)) {
            progress_end(&saving.progress);
            code = say_error(why.code == BG_EIO ? prefix : path, &why);
            if (!o->save.force) { /* without --force, all shard files are new */
                split_undo(prefix, file.about.shards);
            }
        }
        progress_end(&saving.progress);
    }
    if (!code) {
        say_note("%s.0 to %s.%u: %u shards", prefix, prefix, file.about.shards - 1,
                 file.about.shards);
    }
    filter_close(&file);
    return code;
}

static int split_command(void *options, const struct arguments *arguments)
{
    if (arguments->count != 2) {
        return say_usage("expected FILTER and PREFIX");
    }
    return split_file(options, arguments->items[0], arguments->items[1]);
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
    .size = sizeof(struct split_options),
    .uses = { { &force_options_group, offsetof(struct split_options, save) },
              { &open_ours_group, offsetof(struct split_options, open) } },
    .examples = { { "bloomgate split seen.bg seen.shard",
                    "write seen.shard.0, seen.shard.1, ..." },
                  { "bloomgate split --keyring ring seen.bg seen.shard",
                    "split a filter that uses a secret" } },
    .run = split_command,
};
