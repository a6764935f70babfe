/*
 * cmd_merge.c - bloomgate merge: creates the union of filter files.
 *
 * The files are opened one after another, so that at most two filters are in memory at a time. The
 * filters must have the same kind, size and hash, and their keys must have been converted in the
 * same way.
 */
#include "command.h"
#include "parts.h"
#include "save_options.h"
#include "stop.h"

#include <inttypes.h>
#include <string.h>

struct merge_options {
    struct common common;
    struct open_options open;
    struct save_options save;
};

static struct part_sets merge_parts; /* input parts from which the filters were built */

/* Refuses different numbers of shards, such as a filter and one of its own shards. */
static int merge_compare_shards(const struct filter_file *first,
                                const struct filter_file *other)
{
    const uint32_t one = first->about.shards, two = other->about.shards;
    return one == two ? CLI_OK
                      : say_data("%s and %s: different numbers of shards: %" PRIu32
                                 " and %" PRIu32 "; run bloomgate join to create the "
                                 "whole filter from its shards",
                                 first->path, other->path, one > 1 ? one : 1,
                                 two > 1 ? two : 1);
}

/* Compares properties that the library does not check. */
static int merge_compare(const struct filter_file *first,
                         const struct filter_file *other)
{
    if (strcmp(first->recipe, other->recipe) != 0) {
        return say_data("%s and %s: keys were converted differently ('%s' and '%s'); "
                        "build both filters with the same --trim, --lower and --as",
                        first->path, other->path, first->recipe, other->recipe);
    }
    if (memcmp(first->about.key_id, other->about.key_id, BG_KEY_ID_BYTES) != 0) {
        return say_data("%s and %s: the keys were hashed with different secrets; build "
                        "both filters with the same secret",
                        first->path, other->path);
    }
    return merge_compare_shards(first, other);
}

static int merge_one(const struct merge_options *o, struct filter_file *first,
                     const char *path)
{
    struct filter_file other;
    bg_errinfo why;
    int code = filter_open(path, &o->open, FILTER_OURS, KEY_TEXT, &other);
    if (code) {
        return code;
    }
    code = merge_compare(first, &other);
    if (!code && bg_filter_merge(first->filter, other.filter, &why)) {
        code = say_failed(say_code(why.code), "%s into %s: %s", other.path, first->path,
                          why.message);
    }
    code = code ? code : parts_take(&merge_parts, &other);
    if (!code && strcmp(first->about.metadata, other.about.metadata) != 0) {
        say_warning("%s: its notes differ from those of %s and are discarded",
                    other.path, first->path);
    }
    filter_close(&other);
    return code;
}

static int merge_command(void *options, const struct arguments *arguments)
{
    const struct merge_options *o = options;
    static struct filter_file first;
    static struct saving saving;
    const char *to = arguments->items[0], *from = arguments->items[1];
    int code = filter_claim_output(to, o->save.force);
    code = code ? code : filter_open(from, &o->open, FILTER_OURS, KEY_TEXT, &first);
    code = code ? code : parts_take(&merge_parts, &first);
    code = code ? code : saving_begin(&o->save, &first.about, &saving);
    for (size_t i = 2; i < arguments->count && !code; i++) {
        code = stop_wanted() ? (int)CLI_INTERRUPTED
                             : merge_one(o, &first, arguments->items[i]);
    }
    code = code ? code : parts_finish(&merge_parts, saving.metadata);
    code = code ? code : saving_write(&saving, first.filter, to);
    if (!code) {
        saving_tell(first.filter, to, "build a larger filter");
    }
    filter_close(&first);
    return code;
}

const struct command command_merge = {
    .name = "merge",
    .summary = "create the union of filter files",
    .usage = "[options] OUT FILTER FILTER...",
    .about =
        "Writes the union of the filters to OUT: the filter that would result from "
        "adding all their keys to one filter of the same size. The filters must have "
        "the same kind, size and hash: build them with the same --items and --rate, "
        "for example from parts of the input (--shard). merge rejects the parts if "
        "the input changed between their builds, and prints a warning if parts are "
        "missing.\n\nThe notes, key ID and generation are taken from the first "
        "filter. With -f, OUT may be one of the filters: it is replaced atomically "
        "at the end, or is unchanged if anything fails.",
    .size = sizeof(struct merge_options),
    .arguments = { 3, COMMAND_ANY, "expected OUT and at least two filters" },
    .uses = { { &save_options_group, offsetof(struct merge_options, save) },
              { &open_ours_group, offsetof(struct merge_options, open) } },
    .examples = { { "bloomgate merge all.bg part1.bg part2.bg part3.bg",
                    "merge three filters" },
                  { "bloomgate merge -f total.bg total.bg today.bg",
                    "merge a day's filter into the total" } },
    .run = merge_command,
};
