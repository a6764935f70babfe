/* change_file.c - see change_file.h. */
#define _POSIX_C_SOURCE 200809L

#include "change_file.h"

#include "foreign_file.h"
#include "say.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *change_kinds(uint32_t trait, char text[CHANGE_KINDS])
{
    size_t used = 0;
    text[0] = 0;
    for (int kind = 1; strcmp(bg_kind_name((bg_kind)kind), "unknown") != 0; kind++) {
        if (bg_kind_traits((bg_kind)kind) & trait && used < CHANGE_KINDS) {
            const int n = snprintf(text + used, CHANGE_KINDS - used, "%s%s",
                                   used ? ", " : "", bg_kind_name((bg_kind)kind));
            used += n > 0 ? (size_t)n : 0;
        }
    }
    return text;
}

/* Refuses to change a pointer file, because the published file it points to must not change. */
static int change_expect_no_pointer(const struct change *c)
{
    return filter_is_ours(c->to, &c->options->open) && filter_is_pointer(c->to)
               ? say_failed(
                   CLI_USAGE,
                   "%s: points to a published file, which must not change; use -o to "
                   "write to another file",
                   c->name)
               : CLI_OK;
}

/* Claims the file to write. If a file is changed in place, follows links, so that the target is
 * replaced rather than the link itself. */
static int change_place(struct change *c, const char *path)
{
    const struct change_options *o = c->options;
    c->name = o->output ? o->output : path;
    if (!o->output) {
        const int code =
            access(path, F_OK) == 0 ? claim_target(path, c->to) : say_errno(path);
        return code ? code : change_expect_no_pointer(c);
    }
    const int n = snprintf(c->to, sizeof c->to, "%s", o->output);
    return n < (int)sizeof c->to
               ? filter_claim(o->output, o->save.force)
               : say_failed(CLI_USAGE, "%s: path is too long", o->output);
}

static int change_check_foreign(struct change *c)
{
    bool alone = true;
    int code = CLI_OK;
    const bg_foreign_format format = foreign_format(c->file.foreign);
    if (!(bg_foreign_traits(format) & BG_FOREIGN_CAN_CREATE)) {
        return say_failed(CLI_USAGE, "%s: filters in %s format are read-only",
                          c->file.path, bg_foreign_name(format));
    }
    if (c->options->save.generation) {
        return say_usage("--generation requires a bloomgate file");
    }
    if (!c->options->output) {
        code = foreign_is_alone(c->file.foreign, c->file.path, &alone);
    }
    return code || alone
               ? code
               : say_failed(
                   CLI_USAGE,
                   "%s: contains data other than the filter, which would be lost; "
                   "use -o to write only the filter",
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
        return say_failed(
            CLI_DATA,
            "%s: the file's keys were converted with different options ('%s', not "
            "'%s'); use the same --trim, --lower and --as",
            c->file.path, c->file.recipe, now);
    }
    /* If the file has no recipe, other software may have converted the existing keys. */
    if (*now && !*c->file.recipe) {
        say_warning("%s: the file does not record how keys are converted; use the same "
                    "conversion ('%s') for lookups",
                    c->file.path, now);
    }
    return saving_begin(&c->options->save, &c->file.about,
                        (enum say_when)c->options->common.progress, &c->saving);
}

int change_begin(struct change *c, const struct change_options *options,
                 const char *path)
{
    c->options = options;
    int code = keys_format(&options->keys, &c->format);
    code = code ? code : change_place(c, path);
    code = code
               ? code
               : filter_open(options->output ? path : c->to, &options->open,
                             flow_threads(options->threads) == 1 ? FILTER_EXCLUSIVE : 0,
                             c->format.form, &c->file);
    if (!code) {
        code = c->file.filter ? change_check_ours(c) : change_check_foreign(c);
    }
    return code;
}

void change_end(struct change *c)
{
    filter_close(&c->file);
}

int change_run(struct change *c, const struct arguments *arguments,
               bool (*work)(struct flow *flow, struct chunk *chunk),
               bool (*deliver)(struct flow *flow, struct chunk *chunk))
{
    const struct change_options *o = c->options;
    struct flow flow = { .format = &c->format,
                         .threads = flow_threads(o->threads),
                         .work = work,
                         .deliver = deliver,
                         .context = c };
    return flow_files(&flow, arguments->items + 1, arguments->count - 1, o->keys.raw,
                      "reading", o->common.progress);
}

int change_save(struct change *c)
{
    return c->file.filter ? saving_write(&c->saving, c->file.filter, c->to)
                          : foreign_save(c->file.foreign, c->to);
}
