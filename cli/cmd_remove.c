/*
 * cmd_remove.c - bloomgate remove: keys out of a filter file, of kinds that can.
 */
#include "change_file.h"
#include "number.h"
#include "say.h"

#define AT(field) offsetof(struct change_options, field)
static const struct option remove_table[] = {
    { "output", 'o', OPTION_TEXT, AT(output), "OUT",
      "write the filter there, and leave FILTER as it is", NULL },
    { "strict", 0, OPTION_FLAG, AT(strict), NULL,
      "if a key is not there change nothing, and exit 1", NULL },
    { "threads", 't', OPTION_COUNT, AT(threads), "N",
      "as many as processors, if not said", NULL },
    { NULL, 0, OPTION_FLAG, 0, NULL, NULL, NULL },
};
#undef AT
static const struct option_group remove_group = { "Removing", remove_table };

static bool remove_keys(struct flow *flow, struct chunk *chunk)
{
    struct change *c = flow->context;
    const size_t removed =
        bg_filter_remove_many(c->file.filter, chunk->keys, chunk->count, NULL);
    atomic_fetch_add(&c->keys, chunk->count);
    atomic_fetch_add(&c->changed, removed);
    return true;
}

static int remove_check(const struct change *c)
{
    char kinds[CHANGE_KINDS];
    if (c->file.foreign) {
        return say_failed(CLI_USAGE, "%s: filters of other software cannot forget keys",
                          c->file.path);
    }
    const bg_kind kind = bg_filter_kind(c->file.filter);
    return bg_kind_traits(kind) & BG_CAN_REMOVE
               ? CLI_OK
               : say_failed(CLI_USAGE,
                            "%s: a filter of kind %s cannot forget keys; kinds that "
                            "can: %s",
                            c->file.path, bg_kind_name(kind),
                            change_kinds(BG_CAN_REMOVE, kinds));
}

/* Says how many there were; 1 if that is not enough. */
static int remove_judge(struct change *c)
{
    char some[NUMBER_TEXT];
    const uint64_t missing = atomic_load(&c->keys) - atomic_load(&c->changed);
    if (c->options->strict && missing) {
        return say_failed(CLI_NO,
                          "%s: keys that certainly are not in it: %s; nothing was "
                          "changed",
                          c->file.path, number_show(missing, some));
    }
    return CLI_OK;
}

static void remove_tell(struct change *c)
{
    char gone[NUMBER_TEXT], some[NUMBER_TEXT];
    const uint64_t removed = atomic_load(&c->changed);
    say_note("%s: keys removed: %s, certainly not in it: %s", c->name,
             number_show(removed, gone),
             number_show(atomic_load(&c->keys) - removed, some));
    saving_tell(c->file.filter, c->name);
}

static int remove_command(void *options, const struct arguments *arguments)
{
    static struct change c;
    if (arguments->count == 0) {
        return say_usage("which filter? FILTER is missing");
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
    .summary = "remove keys from a filter file that can forget",
    .usage = "[options] FILTER [KEYS...]",
    .about =
        "Reads keys from files, or from stdin, and takes back one add of each. Only what was "
        "added may be removed, and not more often than it was: a filter cannot tell a key that "
        "was never added from one that it takes for a member by chance, and others would go "
        "missing. Keys that certainly are not in it are counted and left.\n\n"
        "For filters of kinds that can: counting, cuckoo and quotient. The file is replaced in "
        "one step at the end, or not at all.",
    .size = sizeof(struct change_options),
    .uses = { { &remove_group, 0 },
              { &save_options_group, offsetof(struct change_options, save) },
              { &key_options_group, offsetof(struct change_options, keys) },
              { &open_options_group, offsetof(struct change_options, open) } },
    .examples = { { "bloomgate remove sessions.bg ended.txt",
                    "sessions that have ended" },
                  { "bloomgate remove --strict -o after.bg before.bg keys.txt",
                    "only if all are there, to another file" } },
    .run = remove_command,
};
