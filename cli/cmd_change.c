/*
 * cmd_change.c - bloomgate add and bloomgate remove: change the keys in a filter file.
 *
 * The filter is read, changed in memory by several threads, and saved atomically, in place or to
 * another file. If anything fails, the file remains unchanged. The file is claimed first (claim.h),
 * so other commands that change it have to wait.
 */
#include "claim.h"
#include "command.h"
#include "filter_file.h"
#include "flow.h"
#include "number.h"
#include "replace_file.h"
#include "save_options.h"
#include "spool.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct change_options {
    struct common common;
    struct open_options open;
    struct key_options keys;
    struct save_options save;
    const char *output;
    uint64_t threads;
    bool strict; /* remove */
};

struct change {
    const struct change_options *options;
    struct filter_file file;
    struct key_format format;
    struct saving saving;
    const char *output; /* OUT; NULL to change the file in place */
    const char *name;   /* the name of the target, for messages */
    char to[CLAIM_PATH];
    bool refuses; /* whether filters of this kind can become full */
    atomic_uint_fast64_t keys, changed;
    atomic_bool full; /* a key was refused */
};

/* Refuses to change a pointer file, because the published file it points to must not change. */
static int change_expect_no_pointer(const struct change *c)
{
    return filter_is_ours(c->to, &c->options->open) && filter_is_pointer(c->to)
               ? say_refused("%s: points to a published file, which must not change; "
                             "use -o to write to another file",
                             c->name)
               : CLI_OK;
}

/* Claims the file to write. If a file is changed in place, follows links, so that the target is
 * replaced rather than the link itself. */
static int change_place(struct change *c, const char *path)
{
    const struct change_options *o = c->options;
    /* A filter from stdin cannot be changed in place. */
    const bool in_place = !o->output && !spool_is_standard(path);
    c->output = in_place ? NULL : o->output ? o->output : "-";
    c->name = in_place ? path : spool_target_name(c->output);
    if (in_place) {
        int code =
            access(path, F_OK) == 0 ? replace_expect_regular(path) : say_errno(path);
        code = code ? code : claim_target(path, c->to);
        return code ? code : change_expect_no_pointer(c);
    }
    const char *to = c->output;
    const int n = snprintf(c->to, sizeof c->to, "%s", to);
    return n < (int)sizeof c->to ? filter_claim_output(to, o->save.force)
                                 : say_refused("%s: path is too long", to);
}

static int change_check_foreign(struct change *c)
{
    bool alone = true;
    int code = CLI_OK;
    const bg_foreign_format format = foreign_format(c->file.foreign);
    if (!(bg_foreign_traits(format) & BG_FOREIGN_CAN_CREATE)) {
        return say_refused("%s: filters in %s format are read-only", c->file.path,
                           bg_foreign_name(format));
    }
    if (c->options->save.generation) {
        return say_usage("--generation requires a bloomgate file");
    }
    if (!c->output) {
        code = foreign_is_alone(c->file.foreign, c->file.path, &alone);
    }
    return code || alone
               ? code
               : say_refused("%s: contains data other than the filter, which would be "
                             "lost; use -o to write only the filter",
                             c->file.path);
}

static int change_check_ours(struct change *c)
{
    const uint32_t traits = bg_kind_traits(bg_filter_kind(c->file.filter));
    c->refuses = (traits & BG_TRAIT_FILLS_UP) != 0;
    char now[KEY_RECIPE];
    int code = filter_expect_whole(&c->file);
    code = code ? code : filter_follow(&c->file, &c->format);
    if (code) {
        return code;
    }
    keys_recipe(&c->format, now);
    if (strcmp(now, c->file.recipe) != 0 && *c->file.recipe) {
        return say_data("%s: the file's keys were converted with different options "
                        "('%s', not '%s'); use the same --trim, --lower and --as",
                        c->file.path, c->file.recipe, now);
    }
    /* If the file has no recipe, other software may have converted the existing keys. */
    if (*now && !*c->file.recipe) {
        say_warning("%s: the file does not record how keys are converted; use the same "
                    "conversion ('%s') for lookups",
                    c->file.path, now);
    }
    return saving_begin(&c->options->save, &c->file.about, &c->saving);
}

/* Claims and opens FILTER. */
static int change_begin(struct change *c, const struct change_options *options,
                        const char *path)
{
    c->options = options;
    int code = keys_format(&options->keys, &c->format);
    code = code ? code : change_place(c, path);
    code = code
               ? code
               : filter_open(c->output ? path : c->to, &options->open,
                             flow_threads(options->threads) == 1 ? FILTER_EXCLUSIVE : 0,
                             c->format.form, &c->file);
    if (!code) {
        code = c->file.filter ? change_check_ours(c) : change_check_foreign(c);
    }
    return code;
}

/* Passes the keys in the files listed after FILTER to `work`, in any order, and to `deliver`, in
 * order and one chunk at a time. Either may be NULL. */
static int change_run(struct change *c, const struct arguments *arguments,
                      bool (*work)(struct flow *flow, struct chunk *chunk),
                      bool (*deliver)(struct flow *flow, struct chunk *chunk))
{
    const struct change_options *o = c->options;
    struct flow flow = { .format = &c->format,
                         .threads = flow_threads(o->threads),
                         .tells_empty = true,
                         .work = work,
                         .deliver = deliver,
                         .context = c };
    return flow_files(&flow, arguments->items + 1, arguments->count - 1, o->keys.raw,
                      "reading");
}

static int change_save(struct change *c)
{
    return c->file.filter ? saving_write(&c->saving, c->file.filter, c->to)
                          : foreign_save(c->file.foreign, c->to);
}

/* ---- add ------------------------------------------------------------------------------------- */

#define OPT_STRUCT struct change_options
static const struct option add_table[] = {
    OPT_TEXT("output", 'o', output, "OUT",
             "write the result to OUT and leave FILTER unchanged"),
    OPT_COUNT("threads", 't', threads, "N", "number of threads (default: all cores)"),
    OPT_END,
};

static bool add_keys(struct flow *flow, struct chunk *chunk)
{
    struct change *c = flow->context;
    size_t done = chunk->count, news = 0;
    const bg_keys keys = bg_keys_bytes(chunk->keys, chunk->count);
    const bg_err err =
        c->refuses ? filter_insert(c->file.filter, keys, &done, &news)
                   : bg_filter_add_many(c->file.filter, keys, NULL, &done, &news);
    atomic_fetch_add(&c->keys, done);
    atomic_fetch_add(&c->changed, news);
    if (!err) {
        return true;
    }
    if (!atomic_exchange(&c->full,
                         true)) { /* several threads may find that it is full */
        (void)say_full("%s: the filter is full after %s more keys, and the file is "
                       "unchanged; build a larger filter",
                       c->file.path, COUNT_TEXT(atomic_load(&c->keys)));
    }
    return flow_fail(flow, CLI_FULL);
}

/* Filters in other formats are not thread-safe, so only one thread adds keys to them. */
static bool add_foreign_keys(struct flow *flow, struct chunk *chunk)
{
    struct change *c = flow->context;
    bg_errinfo why;
    for (size_t i = 0; i < chunk->count; i++) {
        const bg_bytes *key = &chunk->keys[i];
        const bool was = bg_foreign_may_contain(c->file.foreign, key->data, key->len);
        if (bg_foreign_add(c->file.foreign, key->data, key->len, &why)) {
            return flow_fail(flow, say_error(c->file.path, &why));
        }
        atomic_fetch_add(&c->changed, !was);
    }
    atomic_fetch_add(&c->keys, chunk->count);
    return true;
}

static int add_check(const struct change *c)
{
    if (c->file.filter
        && bg_kind_traits(bg_filter_kind(c->file.filter)) & BG_TRAIT_STATIC) {
        return say_refused("%s: a filter of kind %s is built from all keys at once and "
                           "cannot be extended; build a new filter",
                           c->file.path, bg_kind_name(bg_filter_kind(c->file.filter)));
    }
    return CLI_OK;
}

static void add_tell(struct change *c)
{
    say_note("%s: keys added: %s, definitely new: %s", c->name,
             COUNT_TEXT(atomic_load(&c->keys)), COUNT_TEXT(atomic_load(&c->changed)));
    if (c->file.filter) {
        saving_tell(c->file.filter, c->name, "build a larger filter");
    }
}

static int add_command(void *options, const struct arguments *arguments)
{
    static struct change c;
    int code = change_begin(&c, options, arguments->items[0]);
    code = code ? code : add_check(&c);
    if (!code) {
        code = c.file.filter ? change_run(&c, arguments, add_keys, NULL)
                             : change_run(&c, arguments, NULL, add_foreign_keys);
    }
    code = code ? code : change_save(&c);
    if (!code) {
        add_tell(&c);
    }
    filter_close(&c.file);
    return code;
}

const struct command command_add = {
    .name = "add",
    .summary = "add keys to a filter file",
    .usage = "[options] FILTER [KEYS...]",
    .about =
        "Reads keys from files, or from stdin, and adds them to the filter. The key "
        "conversions recorded in the file (--trim, --lower, --as) also apply to the "
        "new keys. The file is replaced atomically at the end. If anything fails, "
        "for example because the filter has no space for all keys (exit code 5), the "
        "file is unchanged. The notes, key ID and generation are kept.\n\nKeys can "
        "also be added to filters in other formats, if the format supports it. "
        "Commands that change the same file wait for each other.",
    .size = sizeof(struct change_options),
    .arguments = { 1, COMMAND_ANY, "missing argument FILTER" },
    .uses = { OPT_GROUP("Adding", add_table),
              { &save_options_group, offsetof(struct change_options, save) },
              { &key_options_group, offsetof(struct change_options, keys) },
              { &open_options_group, offsetof(struct change_options, open) } },
    .examples = { { "bloomgate add seen.bg today.txt", "add the lines of a file" },
                  { "bloomgate add --format guava -o new.bf old.bf more.txt",
                    "add keys to a Guava filter and write it to another file" } },
    .run = add_command,
};

/* ---- remove ---------------------------------------------------------------------------------- */

static const struct option remove_table[] = {
    OPT_TEXT("output", 'o', output, "OUT",
             "write the result to OUT and leave FILTER unchanged"),
    OPT_FLAG("strict", 0, strict, "if a key is missing, change nothing and exit 1"),
    OPT_COUNT("threads", 't', threads, "N", "number of threads (default: all cores)"),
    OPT_END,
};

enum { REMOVE_KINDS = 160 };

static bool remove_keys(struct flow *flow, struct chunk *chunk)
{
    struct change *c = flow->context;
    const size_t removed = bg_filter_remove_many(
        c->file.filter, bg_keys_bytes(chunk->keys, chunk->count), NULL);
    atomic_fetch_add(&c->keys, chunk->count);
    atomic_fetch_add(&c->changed, removed);
    return true;
}

/* Lists the kinds that support removal: "counting, cuckoo, quotient". */
static const char *remove_kinds(char text[REMOVE_KINDS])
{
    text[0] = 0;
    for (int kind = 1; strcmp(bg_kind_name((bg_kind)kind), "unknown") != 0; kind++) {
        if (bg_kind_traits((bg_kind)kind) & BG_TRAIT_REMOVE) {
            say_list(text, REMOVE_KINDS, bg_kind_name((bg_kind)kind));
        }
    }
    return text;
}

static int remove_check(const struct change *c)
{
    char kinds[REMOVE_KINDS];
    if (c->file.foreign) {
        return say_refused("%s: keys cannot be removed from filters in other formats",
                           c->file.path);
    }
    const bg_kind kind = bg_filter_kind(c->file.filter);
    return bg_kind_traits(kind) & BG_TRAIT_REMOVE
               ? CLI_OK
               : say_refused("%s: a filter of kind %s does not support removal; kinds "
                             "that do: %s",
                             c->file.path, bg_kind_name(kind), remove_kinds(kinds));
}

/* With --strict, returns CLI_NO if any key was not in the filter. */
static int remove_judge(struct change *c)
{
    const uint64_t missing = atomic_load(&c->keys) - atomic_load(&c->changed);
    if (c->options->strict && missing) {
        return say_failed(CLI_NO,
                          "%s: keys that are definitely not in the filter: %s; the "
                          "file is unchanged",
                          c->file.path, COUNT_TEXT(missing));
    }
    return CLI_OK;
}

static void remove_tell(struct change *c)
{
    const uint64_t removed = atomic_load(&c->changed);
    say_note("%s: keys removed: %s, definitely not in the filter: %s", c->name,
             COUNT_TEXT(removed), COUNT_TEXT(atomic_load(&c->keys) - removed));
    saving_tell(c->file.filter, c->name, "build a larger filter");
}

static int remove_command(void *options, const struct arguments *arguments)
{
    static struct change c;
    int code = change_begin(&c, options, arguments->items[0]);
    code = code ? code : remove_check(&c);
    code = code ? code : change_run(&c, arguments, remove_keys, NULL);
    code = code ? code : remove_judge(&c);
    code = code ? code : change_save(&c);
    if (!code) {
        remove_tell(&c);
    }
    filter_close(&c.file);
    return code;
}

const struct command command_remove = {
    .name = "remove",
    .summary = "remove keys from a filter file",
    .usage = "[options] FILTER [KEYS...]",
    .about =
        "Reads keys from files, or from stdin, and undoes one add for each key. "
        "Remove only keys that were added, and remove each key at most as many times "
        "as it was added. A filter cannot distinguish a false positive from a key "
        "that was added, so removing a key that was never added can remove other "
        "keys. Keys that are definitely not in the filter are counted and "
        "skipped.\n\nSupported kinds: counting, cuckoo and quotient. The file is "
        "replaced atomically at the end, or is unchanged if anything fails.",
    .size = sizeof(struct change_options),
    .arguments = { 1, COMMAND_ANY, "missing argument FILTER" },
    .uses = { OPT_GROUP("Removing", remove_table),
              { &save_options_group, offsetof(struct change_options, save) },
              { &key_options_group, offsetof(struct change_options, keys) },
              { &open_options_group, offsetof(struct change_options, open) } },
    .examples = { { "bloomgate remove sessions.bg ended.txt", "remove ended sessions" },
                  { "bloomgate remove --strict -o after.bg before.bg keys.txt",
                    "write to another file, only if all keys are present" } },
    .run = remove_command,
};
