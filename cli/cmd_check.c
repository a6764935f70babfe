/*
 * cmd_check.c - bloomgate check: prints the lines whose keys may be in a filter, like grep.
 *
 * Each thread looks up the keys of its chunk in the filters and copies the selected records to
 * the chunk's output. Chunks are written in order.
 */
#include "command.h"
#include "filter_file.h"
#include "flow.h"
#include "number.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct check_options {
    struct common common;
    struct open_options open;
    struct key_options keys;
    bool invert, count, annotate, all;
    struct option_list also;
    uint64_t threads;
};

#define OPT_STRUCT struct check_options
static const struct option check_table[] = {
    OPT_FLAG("invert", 'v', invert,
             "print lines that are definitely not in the filter"),
    OPT_FLAG("count", 'c', count, "print only the number of selected lines"),
    OPT_FLAG("annotate", 'a', annotate,
             "prefix every line with \"maybe\" or \"no\" and a tab"),
    OPT_LIST("also", 0, also, "FILTER", "query an additional filter; may be repeated"),
    OPT_FLAG("all", 0, all, "require a \"maybe\" from all filters, not just one"),
    OPT_COUNT("threads", 't', threads, "N", "number of threads (default: all cores)"),
    OPT_END,
};

struct check {
    const struct check_options *options;
    struct key_format format;
    struct filter_file files[OPTION_LIST_MAX + 1];
    size_t count;
    uint64_t selected; /* number of selected lines; written only by deliver */
    _Atomic bool text; /* a key was not a number, or it does not matter */
};

/* Checks whether all keys are numbers. Some foreign files do not record whether numbers were added as
 * text or as integers. If the form is wrong, lookups return "no" for keys that are in the set. */
static void check_form(struct check *c, const struct chunk *chunk)
{
    if (!atomic_load(&c->text) && !chunk_has_only_numbers(chunk)) {
        atomic_store(&c->text, true);
    }
}

/* Returns the first filter for which the form of keys is unknown, or NULL. */
static const struct filter_file *check_unsure(const struct check *c)
{
    for (size_t i = 0; c->format.form == KEY_TEXT && i < c->count; i++) {
        const bg_foreign *foreign = c->files[i].foreign;
        if (foreign
            && bg_foreign_traits(foreign_format(foreign)) & BG_FOREIGN_NEEDS_KEYS) {
            return &c->files[i];
        }
    }
    return NULL;
}

/* Looks up the keys of a chunk in all filters, and sets the answer bit of each key that may be in
 * any of the filters (with --all, in all of them). Sets `selected` to the number of set bits. */
static bool check_ask(const struct check *c, struct chunk *chunk)
{
    const size_t words = BG_BITMAP_WORDS(chunk->count);
    if (!chunk_reserve_answers(chunk, 2 * 64 * words)) {
        return false;
    }
    uint64_t *all = chunk->answers, *one = chunk->answers + words;
    chunk->selected = filter_ask(&c->files[0], chunk->keys, chunk->count, all);
    for (size_t f = 1; f < c->count; f++) {
        (void)filter_ask(&c->files[f], chunk->keys, chunk->count, one);
        chunk->selected = 0;
        for (size_t i = 0; i < words; i++) {
            all[i] = c->options->all ? all[i] & one[i] : all[i] | one[i];
            chunk->selected += (size_t)__builtin_popcountll(all[i]);
        }
    }
    return true;
}

/* Writes every record after its answer, "maybe" or "no". Returns the number of bytes. */
static size_t check_annotate(const struct check *c, const struct chunk *chunk, char *to)
{
    char *const begin = to;
    for (size_t i = 0; i < chunk->count; i++) {
        const bool maybe = chunk->answers[i / 64] >> i % 64 & 1;
        const size_t from = i ? chunk->ends[i - 1] : 0, n = chunk->ends[i] - from;
        memcpy(to, maybe ? "maybe\t" : "no\t", maybe ? 6 : 3);
        to += maybe ? 6 : 3;
        memcpy(to, chunk->bytes + from, n);
        to += n;
    }
    if (c->format.records != KEY_RECORDS_PREFIXED && to > begin
        && to[-1] != c->format.separator) {
        *to++ = c->format.separator;
    }
    return (size_t)(to - begin);
}

static bool check_work(struct flow *flow, struct chunk *chunk)
{
    struct check *c = flow->context;
    check_form(c, chunk);
    const size_t room = chunk->used + 1 + (c->options->annotate ? 8 * chunk->count : 0);
    if (!check_ask(c, chunk) || !chunk_reserve_out(chunk, room)) {
        return flow_fail(flow, CLI_FULL);
    }
    if (c->options->invert) {
        chunk->selected = chunk->count - chunk->selected;
    }
    chunk->out_used =
        c->options->count ? 0
        : c->options->annotate
            ? check_annotate(c, chunk, chunk->out)
            : chunk_select(&c->format, chunk, c->options->invert, chunk->out);
    return true;
}

static bool check_deliver(struct flow *flow, struct chunk *chunk)
{
    struct check *c = flow->context;
    c->selected += chunk->selected;
    if (c->options->count) {
        return true;
    }
    if (c->options->common.quiet) {
        return !c->selected || flow_fail(flow, CLI_OK);
    }
    return out_write(chunk->out, chunk->out_used) || flow_fail(flow, out_code());
}

static int check_open(struct check *c, const char *first)
{
    const struct check_options *o = c->options;
    int code = keys_format(&o->keys, &c->format);
    for (size_t i = 0; !code && i <= o->also.count; i++) {
        struct filter_file *file = &c->files[i];
        code = filter_open(i ? o->also.items[i - 1] : first, &o->open, 0,
                           c->format.form, file);
        if (code) {
            break;
        }
        c->count++;
        filter_note_rate(file);
        if (i && strcmp(file->recipe, c->files[0].recipe) != 0) {
            code = say_data("%s and %s: keys were converted differently ('%s' and "
                            "'%s'); check them separately",
                            c->files[0].path, file->path, c->files[0].recipe,
                            file->recipe);
        }
    }
    return code ? code : filter_follow(&c->files[0], &c->format);
}

static int check_run(struct check *c, const struct arguments *arguments)
{
    const struct check_options *o = c->options;
    const struct filter_file *unsure = check_unsure(c);
    atomic_store(&c->text, unsure == NULL);
    struct flow flow = { .format = &c->format,
                         .threads = flow_threads(o->threads),
                         .header = o->count || o->common.quiet ? NULL
                                   : o->annotate               ? flow_print_annotated
                                                               : flow_print_header,
                         .work = check_work,
                         .deliver = check_deliver,
                         .context = c };
    const int code = flow_files(&flow, arguments->items + 1, arguments->count - 1,
                                o->keys.raw, "checking");
    const uint64_t maybe = o->invert ? flow.keys - c->selected : c->selected;
    if (!code && !atomic_load(&c->text) && 2 * maybe < flow.keys) {
        say_note(
            "%s: all keys are numbers, and the %s format does not record the form of "
            "keys; if they were added as integers, use --as int64 or int32",
            unsure->path, bg_foreign_name(foreign_format(unsure->foreign)));
    }
    if (!code && o->count) {
        printf("%" PRIu64 "\n", c->selected);
    }
    return code ? code : out_finish(c->selected ? CLI_OK : CLI_NO);
}

static int check_command(void *options, const struct arguments *arguments)
{
    static struct check c; /* static, because it is too large for the stack */
    c.options = options;
    int code = check_open(&c, arguments->items[0]);
    code = code ? code : check_run(&c, arguments);
    for (size_t i = 0; i < c.count; i++) {
        filter_close(&c.files[i]);
    }
    return code;
}

const struct command command_check = {
    .name = "check",
    .summary = "print the lines that may be in a filter",
    .usage = "[options] FILTER [KEYS...]",
    .about =
        "Reads lines from files, or from stdin, and prints those whose key may be in "
        "the filter, or, with -v, those whose key is definitely not in it. Lines are "
        "printed unchanged and in order.\n\nFILTER may be a bloomgate file or a file "
        "written by other software (--format). Exit code: 0 if a line was selected, "
        "1 if none was, higher on errors. With -q, but without -c, nothing is "
        "printed, and the command exits at the first selected line.",
    .size = sizeof(struct check_options),
    .arguments = { 1, COMMAND_ANY, "missing argument FILTER" },
    .uses = { OPT_GROUP("Checking", check_table),
              { &key_options_group, offsetof(struct check_options, keys) },
              { &open_options_group, offsetof(struct check_options, open) } },
    .examples = { { "bloomgate check seen.bg new.txt",
                    "print the lines that may have been seen before" },
                  { "tail -f access.log | bloomgate check -v --field 1 --delimiter ' ' "
                    "k.bg",
                    "print lines whose first field is definitely not in k.bg" } },
    .run = check_command,
};
