/*
 * cmd_add.c - bloomgate add: adds keys to a filter file.
 */
#include "change_file.h"
#include "insert_keys.h"
#include "number.h"
#include "say.h"

#include <inttypes.h>

#define OPT_STRUCT struct change_options
static const struct option add_table[] = {
    OPT_TEXT("output", 'o', output, "OUT",
             "write the result to OUT and leave FILTER unchanged"),
    OPT_COUNT("threads", 't', threads, "N", "number of threads (default: all cores)"),
    OPT_END,
};
static const struct option_group add_group = { "Adding", add_table };

static bool add_keys(struct flow *flow, struct chunk *chunk)
{
    struct change *c = flow->context;
    size_t done = chunk->count, news = 0;
    bg_err err = BG_OK;
    if (c->refuses) {
        err = insert_keys(c->file.filter, chunk->keys, chunk->count, &done, &news);
    } else {
        err =
            bg_filter_add_many(c->file.filter, bg_keys_bytes(chunk->keys, chunk->count),
                               NULL, &done, &news);
    }
    atomic_fetch_add(&c->keys, done);
    atomic_fetch_add(&c->changed, news);
    return !err
           || flow_fail(flow, say_failed(CLI_FULL,
                                         "%s: the filter is full after %" PRIuFAST64
                                         " more keys, and the file is unchanged; "
                                         "build a larger filter",
                                         c->file.path, atomic_load(&c->keys)));
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

static bool add_nothing(struct flow *flow, struct chunk *chunk)
{
    (void)flow;
    (void)chunk;
    return true;
}

static int add_check(const struct change *c)
{
    if (c->file.filter
        && bg_kind_traits(bg_filter_kind(c->file.filter)) & BG_TRAIT_STATIC) {
        return say_failed(
            CLI_USAGE,
            "%s: a filter of kind %s is built from all keys at once and cannot be "
            "extended; build a new filter",
            c->file.path, bg_kind_name(bg_filter_kind(c->file.filter)));
    }
    return CLI_OK;
}

static void add_tell(struct change *c)
{
    char keys[NUMBER_TEXT], news[NUMBER_TEXT];
    say_note("%s: keys added: %s, definitely new: %s", c->name,
             number_show(atomic_load(&c->keys), keys),
             number_show(atomic_load(&c->changed), news));
    if (c->file.filter) {
        saving_tell(c->file.filter, c->name);
    }
}

static int add_command(void *options, const struct arguments *arguments)
{
    static struct change c;
    if (arguments->count == 0) {
        return say_usage("missing argument FILTER");
    }
    int code = change_begin(&c, options, arguments->items[0]);
    code = code ? code : add_check(&c);
    if (!code) {
        code = c.file.filter ? change_run(&c, arguments, add_keys, NULL)
                             : change_run(&c, arguments, add_nothing, add_foreign_keys);
    }
    code = code ? code : change_save(&c);
    if (!code) {
        add_tell(&c);
    }
    change_end(&c);
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
    .uses = { { &add_group, 0 },
              { &save_options_group, offsetof(struct change_options, save) },
              { &key_options_group, offsetof(struct change_options, keys) },
              { &open_options_group, offsetof(struct change_options, open) } },
    .examples = { { "bloomgate add seen.bg today.txt", "add the lines of a file" },
                  { "bloomgate add --format guava -o new.bf old.bf more.txt",
                    "add keys to a Guava filter and write it to another file" } },
    .run = add_command,
};
