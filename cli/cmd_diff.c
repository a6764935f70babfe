/*
 * cmd_diff.c - bloomgate diff: compares two filter files, and creates and applies patches.
 *
 * Blocks are compared by the checksums that the files contain; the blocks themselves are not read.
 * If all blocks are equal, the digests may still differ, because a digest also covers the header.
 * If the headers describe different designs, blocks are not compared. In both cases, if the filters
 * may still be equal, they are opened and compared.
 */
#include "command.h"
#include "filter_file.h"
#include "json.h"
#include "number.h"
#include "spool.h"

#include <stdio.h>
#include <string.h>

struct diff_options {
    struct common common;
    struct open_options open;
    bool json, force;
    const char *patch, *apply;
};

#define OPT_STRUCT struct diff_options
static const struct option diff_table[] = {
    OPT_TEXT("patch", 0, patch, "FILE", "write a patch that turns A into B to FILE"),
    OPT_TEXT("apply", 0, apply, "FILE", "apply the patch FILE to A and write OUT"),
    OPT_FLAG("force", 'f', force, "overwrite existing files"),
    OPT_FLAG("json", 0, json, "print a JSON object (bloomgate.diff.1)"),
    OPT_END,
};

enum { DIFF_HEADER = 128 };

struct diff {
    const char *a, *b;
    bg_file_info about_a, about_b;
    bg_file_difference found;
    bool same;                /* whether the filters are equal */
    char header[DIFF_HEADER]; /* header fields that differ, such as "created, notes" */
};

static void diff_name(struct diff *d, bool differs, const char *name)
{
    if (differs) {
        say_list(d->header, sizeof d->header, name);
    }
}

static void diff_headers(struct diff *d)
{
    const bg_file_info *a = &d->about_a, *b = &d->about_b;
    d->header[0] = 0;
    diff_name(d, a->created != b->created, "created");
    diff_name(d, a->generation != b->generation, "generation");
    diff_name(d, strcmp(a->metadata, b->metadata) != 0, "notes");
    diff_name(d, a->items != b->items, "design items");
    diff_name(d, a->rate < b->rate || a->rate > b->rate, "design rate");
    diff_name(d, memcmp(a->key_id, b->key_id, sizeof a->key_id) != 0, "key id");
}

/* Compares the filters themselves, which may require a secret. */
static int diff_equal(const struct diff_options *o, struct diff *d)
{
    static struct filter_file a, b;
    if (filter_needs_secret(d->a) && !o->open.keyring) {
        d->same = d->found.same_layout && d->about_a.check == d->about_b.check;
        return CLI_OK;
    }
    int code = filter_open(d->a, &o->open, FILTER_OURS, KEY_TEXT, &a);
    code = code ? code : filter_open(d->b, &o->open, FILTER_OURS, KEY_TEXT, &b);
    d->same = !code && bg_filter_equal(a.filter, b.filter);
    filter_close(&a);
    filter_close(&b);
    return code;
}

static int diff_compare(const struct diff_options *o, struct diff *d)
{
    bg_errinfo why;
    d->about_a.struct_size = sizeof d->about_a;
    d->about_b.struct_size = sizeof d->about_b;
    d->found.struct_size = sizeof d->found;
    int code = filter_expect_ours(d->a);
    code = code ? code : filter_expect_ours(d->b);
    if (code) {
        return code;
    }
    const char *a = spool_path(d->a), *b = spool_path(d->b);
    if (bg_file_get_info(a, &d->about_a, &why)) {
        return say_error(spool_name(d->a), &why);
    }
    if (bg_file_get_info(b, &d->about_b, &why) || bg_file_diff(a, b, &d->found, &why)) {
        return say_error(spool_name(d->b), &why);
    }
    diff_headers(d);
    d->same = memcmp(d->about_a.digest, d->about_b.digest, BG_DIGEST_BYTES) == 0;
    const bool may_be = d->found.same_layout
                            ? d->found.different == 0
                            : d->about_a.kind == d->about_b.kind
                                  && d->about_a.word_bytes == d->about_b.word_bytes;
    return !d->same && may_be ? diff_equal(o, d) : CLI_OK;
}

static void diff_json(const struct diff *d)
{
    struct json json;
    json_begin(&json, "bloomgate.diff.1");
    json_text(&json, "a", spool_name(d->a));
    json_text(&json, "b", spool_name(d->b));
    json_bool(&json, "same", d->same);
    json_bool(&json, "same_layout", d->found.same_layout);
    if (d->found.same_layout) {
        json_count(&json, "blocks", d->found.blocks);
        json_count(&json, "different", d->found.different);
        json_count(&json, "patch_bytes", d->found.patch_bytes);
    }
    json_text(&json, "header", d->header);
    json_end(&json);
}

static void diff_print(const struct diff *d)
{
    printf("filters    %s\n", d->same ? "equal" : "different");
    if (d->found.same_layout) {
        printf("layout     equal\n"
               "blocks     %s, of which %s differ\n"
               "patch      %s bytes\n",
               COUNT_TEXT(d->found.blocks), COUNT_TEXT(d->found.different),
               COUNT_TEXT(d->found.patch_bytes));
    } else {
        printf("layout     different, so a patch contains all blocks\n");
    }
    if (*d->header) {
        printf("header     differs in: %s\n", d->header);
    }
}

static int diff_files(const struct diff_options *o, struct diff *d)
{
    bg_errinfo why;
    int code = o->patch ? filter_claim(o->patch, o->force) : CLI_OK;
    code = code ? code : diff_compare(o, d);
    if (!code && o->patch
        && bg_file_patch(spool_path(d->a), spool_path(d->b), o->patch, &why)) {
        code = say_error(o->patch, &why);
    }
    if (code) {
        return code;
    }
    if (o->json) {
        diff_json(d);
    } else if (!o->common.quiet) {
        diff_print(d);
    }
    return d->same ? CLI_OK : CLI_NO;
}

static int diff_apply(const struct diff_options *o, const char *from, const char *to)
{
    bg_errinfo why;
    if (o->patch || o->json) {
        return say_usage("--apply cannot be combined with --patch or --json");
    }
    int code = filter_claim(to, o->force);
    code = code ? code : spool_read(from);
    code = code ? code : spool_read(o->apply);
    if (!code && bg_file_apply(spool_path(from), spool_path(o->apply), to, &why)) {
        if (why.os_errno) { /* messages about I/O errors include the file name */
            return say_error(NULL, &why);
        }
        return say_failed(say_code(why.code), "%s applied to %s: %s",
                          spool_name(o->apply), spool_name(from), why.message);
    }
    return code;
}

static int diff_command(void *options, const struct arguments *arguments)
{
    static struct diff d;
    const struct diff_options *o = options;
    if (arguments->count != 2) {
        return say_usage(o->apply ? "expected A and OUT" : "expected two filters");
    }
    if (o->apply) {
        return diff_apply(o, arguments->items[0], arguments->items[1]);
    }
    d.a = arguments->items[0];
    d.b = arguments->items[1];
    return diff_files(o, &d);
}

const struct command command_diff = {
    .name = "diff",
    .summary = "compare filter files, create and apply patches",
    .usage = "[options] A B | --apply FILE A OUT",
    .about =
        "Reports whether two filters are equal, in how many 64 KiB blocks their "
        "files differ, and the size of a patch from A to B. Blocks are compared by "
        "their checksums, which are stored in the files, so the comparison is fast. "
        "Exit code: 0 if the filters are equal, 1 if not, higher on errors. Filters "
        "can be equal even if their headers differ in creation time, generation or "
        "notes.\n\n"
        "--patch writes a patch from A to B. --apply applies a patch, and verifies "
        "the new file before renaming it to OUT. A patch applies only to the file it "
        "was created for.",
    .size = sizeof(struct diff_options),
    .uses = { OPT_GROUP("Comparing", diff_table),
              { &open_ours_group, offsetof(struct diff_options, open) } },
    .examples = { { "bloomgate diff --patch day.patch monday.bg tuesday.bg",
                    "write a patch from Monday's to Tuesday's filter" },
                  { "bloomgate diff --apply day.patch monday.bg tuesday.bg",
                    "apply the patch to Monday's filter on another machine" } },
    .run = diff_command,
};
