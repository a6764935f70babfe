/*
 * cmd_fold.c - bloomgate fold: shrinks a filter file to 1/2, 1/4, and so on, of its size.
 */
#include "command.h"
#include "save_options.h"

#include <inttypes.h>

struct fold_options {
    struct common common;
    struct open_options open;
    struct save_options save;
    uint64_t times;
};

#define OPT_STRUCT struct fold_options
static const struct option fold_table[] = {
    OPT_COUNT("times", 0, times, "N",
              "number of times to halve the filter (default: 1)"),
    OPT_END,
};

static int fold_command(void *options, const struct arguments *arguments)
{
    const struct fold_options *o = options;
    static struct filter_file file;
    static struct saving saving;
    const char *to = arguments->items[0], *from = arguments->items[1];
    const uint32_t times = o->times ? (uint32_t)o->times : 1;
    bg_filter *folded = NULL;
    bg_errinfo why;
    if (o->times > 63) {
        return say_usage("--times: found %" PRIu64 ", expected 1 to 63", o->times);
    }
    int code = filter_claim_output(to, o->save.force);
    code = code ? code : filter_open(from, &o->open, FILTER_OURS, KEY_TEXT, &file);
    code = code ? code : saving_begin(&o->save, &file.about, &saving);
    if (!code && bg_filter_fold(file.filter, times, &folded, &why)) {
        code = say_error(file.path, &why);
    }
    code = code ? code : saving_write(&saving, folded, to);
    if (!code) {
        saving_tell(folded, to, "fold it fewer times, or build a larger filter");
    }
    bg_filter_free(folded);
    filter_close(&file);
    return code;
}

const struct command command_fold = {
    .name = "fold",
    .summary = "halve the size of a filter file",
    .usage = "[options] OUT FILTER",
    .about =
        "Writes a filter of half the size to OUT, or of 1/2^N of the size with "
        "--times N. The new filter still answers \"maybe\" for every added key, but "
        "has a higher false-positive rate. It equals the filter that would result "
        "from adding the same keys to a filter of the smaller size.\n\nFolding works "
        "for Bloom kinds whose size can be halved. bloomgate build --folds N creates "
        "such filters, and bloomgate info prints how many times a filter can be "
        "folded.",
    .size = sizeof(struct fold_options),
    .arguments = { 2, 2, "expected OUT and one FILTER" },
    .uses = { OPT_GROUP("Folding", fold_table),
              { &save_options_group, offsetof(struct fold_options, save) },
              { &open_ours_group, offsetof(struct fold_options, open) } },
    .examples = { { "bloomgate fold small.bg large.bg", "halve the size" },
                  { "bloomgate fold --times 3 tiny.bg large.bg",
                    "shrink to an eighth of the size" } },
    .run = fold_command,
};
