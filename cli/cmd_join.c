/*
 * cmd_join.c - bloomgate join: recombines shards that bloomgate split wrote.
 */
#include "command.h"
#include "number.h"
#include "save_options.h"
#include "say.h"

#include <stdio.h>
#include <string.h>

struct join_options {
    struct common common;
    struct open_options open;
    struct save_options save;
};

enum { JOIN_PATH = 4096, JOIN_MAX = 65536 };

/* Removes the lines that record which shard of which split the file contains. */
static void join_metadata(struct saving *saving)
{
    static const char *const names[] = { "bloomgate-shard: ", "bloomgate-split: " };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *end = strchr(saving->metadata, '\n');
        if (end && strncmp(saving->metadata, names[i], strlen(names[i])) == 0) {
            memmove(saving->metadata, end + 1, strlen(end + 1) + 1);
        }
    }
}

static int join_files(const struct join_options *o, const char *prefix, uint32_t shards,
                      const char *to)
{
    static struct filter_file file;
    static struct saving saving;
    static char first[JOIN_PATH];
    bg_open_options opening = BG_OPEN_OPTIONS_INIT;
    bg_errinfo why;
    const int n = snprintf(first, sizeof first, "%s.0", prefix);
    if (n < 0 || n >= JOIN_PATH) {
        return say_failed(CLI_USAGE, "%s: path is too long", prefix);
    }
    int code = filter_secret(first, &o->open, &file, &opening);
    code = code ? code
                : saving_begin(&o->save, &file.about, (enum say_when)o->common.progress,
                               &saving);
    if (!code) {
        join_metadata(&saving);
        opening.flags = o->open.tolerate ? BG_FILE_TOLERATE_DAMAGE : 0;
        progress_begin(&saving.progress, "joining", saving.when);
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
    const struct join_options *o = options;
    uint64_t shards = 0;
    if (arguments->count != 3) {
        return say_usage("expected PREFIX, the number of shards, and OUT");
    }
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
    .size = sizeof(struct join_options),
    .uses = { { &force_options_group, offsetof(struct join_options, save) },
              { &open_ours_group, offsetof(struct join_options, open) } },
    .examples = { { "bloomgate join seen.shard 8 seen.bg",
                    "join seen.shard.0 through seen.shard.7" },
                  { "bloomgate join -f seen.shard 8 seen.bg",
                    "overwrite an existing file" } },
    .run = join_command,
};
