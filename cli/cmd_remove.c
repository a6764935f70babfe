/*
 * cmd_remove.c - bloomgate remove: removes keys from a filter file whose kind supports removal.
 */
#include "change_file.h"
#include "number.h"
#include "say.h"

#define OPT_STRUCT struct change_options
static const struct option remove_table[] = {
    OPT_TEXT("output", 'o', output, "OUT",
             "write the result to OUT and leave FILTER unchanged"),
    OPT_FLAG("strict", 0, strict, "if a key is missing, change nothing and exit 1"),
    OPT_COUNT("threads", 't', threads, "N", "number of threads (default: all cores)"),
    OPT_END,
};
static const struct option_group remove_group = { "Removing", remove_table };

static bool remove_keys(struct flow *flow, struct chunk *chunk)
{
    struct change *c = flow->context;
    const size_t removed = bg_filter_remove_many(
        c->file.filter, bg_keys_bytes(chunk->keys, chunk->count), NULL);
    atomic_fetch_add(&c->keys, chunk->count);
    atomic_fetch_add(&c->changed, removed);
    return true;
}

static int remove_check(const struct change *c)
{
    char kinds[CHANGE_KINDS];
    if (c->file.foreign) {
        return say_failed(CLI_USAGE,
                          "%s: keys cannot be removed from filters in other formats",
                          c->file.path);
    }
    const bg_kind kind = bg_filter_kind(c->file.filter);
    return bg_kind_traits(kind) & BG_TRAIT_REMOVE
               ? CLI_OK
               : say_failed(CLI_USAGE,
                            "%s: a filter of kind %s does not support removal; kinds "
                            "that do: %s",
                            c->file.path, bg_kind_name(kind),
                            change_kinds(BG_TRAIT_REMOVE, kinds));
}

/* With --strict, reports the number of keys that were not in the filter, and returns CLI_NO if
 * there are any. */
static int remove_judge(struct change *c)
{
    char some[NUMBER_TEXT];
    const uint64_t missing = atomic_load(&c->keys) - atomic_load(&c->changed);
    if (c->options->strict && missing) {
        return say_failed(CLI_NO,
                          "%s: keys that are definitely not in the filter: %s; the "
                          "file is unchanged",
                          c->file.path, number_show(missing, some));
    }
    return CLI_OK;
}

static void remove_tell(struct change *c)
{
    char gone[NUMBER_TEXT], some[NUMBER_TEXT];
    const uint64_t removed = atomic_load(&c->changed);
    say_note("%s: keys removed: %s, definitely not in the filter: %s", c->name,
             number_show(removed, gone),
             number_show(atomic_load(&c->keys) - removed, some));
    saving_tell(c->file.filter, c->name);
}

static int remove_command(void *options, const struct arguments *arguments)
{
    static struct change c;
    if (arguments->count == 0) {
        return say_usage("missing argument FILTER");
    }
    int code = change_begin(&c, options, arguments->items[0]);
    code = code ? code : remove_check(&c);
    code = code ? code : change_run(&c, arguments, remove_keys, NULL);
    code = code ? code : remove_judge(&c);
    code = code ? code : change_save(&c);
    if (!code) {
        remove_tell(&c);
    }
    change_end(&c);
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
    .uses = { { &remove_group, 0 },
              { &save_options_group, offsetof(struct change_options, save) },
              { &key_options_group, offsetof(struct change_options, keys) },
              { &open_options_group, offsetof(struct change_options, open) } },
    .examples = { { "bloomgate remove sessions.bg ended.txt", "remove ended sessions" },
                  { "bloomgate remove --strict -o after.bg before.bg keys.txt",
                    "write to another file, only if all keys are present" } },
    .run = remove_command,
};
