/*
 * cmd_info.c - bloomgate info: describes filter files.
 */
#define _POSIX_C_SOURCE 200809L

#include "command.h"
#include "info_facts.h"
#include "occupancy_map.h"
#include "out.h"
#include "say.h"

#include <stdio.h>
#include <unistd.h>

struct info_options {
    struct common common;
    struct open_options open;
    bool json, bits, force;
    const char *svg;
    size_t told; /* files printed so far */
};

#define OPT_STRUCT struct info_options
static const struct option info_table[] = {
    OPT_FLAG("json", 0, json, "print a JSON object per file (bloomgate.info.1)"),
    OPT_FLAG("bits", 0, bits, "draw the distribution of set bits"),
    OPT_TEXT("svg", 0, svg, "FILE",
             "write the drawing to FILE as SVG (one filter only)"),
    OPT_FLAG("force", 'f', force, "overwrite FILE"),
    OPT_END,
};
static const struct option_group info_group = { "Output", info_table };

/* Computes the distribution of set bits. A Parquet filter is converted to a bloomgate filter of
 * kind `split` first, which has the same bits. */
static int info_map(const struct filter_file *file, struct occupancy_map *map)
{
    bg_filter *same = NULL;
    if (file->filter) {
        return map_find(file->filter, map);
    }
    if (!file->foreign) {
        return say_failed(
            CLI_USAGE,
            "%s: showing the bits requires the filter's secret; use --keyring FILE",
            file->path);
    }
    if (bg_foreign_to_filter(file->foreign, &same, NULL)) {
        return say_failed(CLI_USAGE,
                          "%s: --bits and --svg require a bloomgate or parquet filter",
                          file->path);
    }
    const int code = map_find(same, map);
    bg_filter_free(same);
    return code;
}

static int info_print(struct info_options *o, const struct filter_file *file)
{
    static struct info_facts facts;
    static struct occupancy_map map;
    int code = info_find(file, &facts);
    if (!code && (o->bits || o->svg)) {
        code = info_map(file, &map);
    }
    if (!code && o->svg) {
        code = map_write_svg(&map, file->path, o->svg);
    }
    if (code) {
        return code;
    }
    if (o->json) {
        info_print_json(&facts, map.shares, o->bits ? map.columns * map.rows : 0);
        return CLI_OK;
    }
    if (o->told++) {
        (void)putchar('\n');
    }
    info_print_text(&facts);
    if (o->bits) {
        map_print(&map, say_colors(STDOUT_FILENO));
    }
    return CLI_OK;
}

/* Reads only the header of a keyed filter, which cannot be opened without its secret. */
static int info_header_only(const char *path, struct filter_file *file)
{
    bg_errinfo why;
    *file = (struct filter_file){ .path = path };
    file->about.struct_size = sizeof file->about;
    if (bg_file_get_info(path, &file->about, &why)) {
        return say_error(path, &why);
    }
    filter_read_recipe(file->about.metadata, file->recipe);
    return CLI_OK;
}

static int info_one(struct info_options *o, const char *path)
{
    static struct filter_file file;
    const bool header_only =
        !o->open.keyring && filter_is_ours(path, &o->open) && filter_needs_secret(path);
    int code = header_only ? info_header_only(path, &file)
                           : filter_open(path, &o->open, 0, KEY_TEXT, &file);
    if (!code) {
        code = info_print(o, &file);
        filter_close(&file);
    }
    return code;
}

static int info_command(void *options, const struct arguments *arguments)
{
    struct info_options *o = options;
    int worst = CLI_OK;
    if (arguments->count == 0) {
        return say_usage("missing argument FILTER");
    }
    if (o->svg && arguments->count > 1) {
        return say_usage("--svg requires a single filter");
    }
    if (o->svg) {
        worst = filter_may_write(o->svg, o->force);
        if (worst) {
            return worst;
        }
    }
    for (size_t i = 0; i < arguments->count; i++) {
        const int code = info_one(o, arguments->items[i]);
        worst = code > worst ? code : worst;
    }
    return out_finish(worst);
}

const struct command command_info = {
    .name = "info",
    .summary = "describe filter files",
    .usage = "[options] FILTER...",
    .about =
        "Prints the format, kind, geometry, capacity, key conversion, hash, "
        "generation and digest of each filter. It also prints how full the filter "
        "is: the estimated number of distinct keys with its 95% confidence interval, "
        "the current false-positive rate, and whether the filter is within its "
        "design limits. For files written by other software, info prints the "
        "properties that the format records.\n\nFor a filter with a secret, only the "
        "header is printed, unless --keyring is set.\n\n--bits draws the filter as "
        "a grid of up to 64 by 16 cells, shaded by the share of bits set. In a "
        "filter that fills evenly, all cells look alike.",
    .size = sizeof(struct info_options),
    .uses = { { &info_group, 0 },
              { &open_options_group, offsetof(struct info_options, open) } },
    .examples = { { "bloomgate info seen.bg", "describe a file" },
                  { "bloomgate info --json *.bg | jq -r '[.file, .health] | @tsv'",
                    "print the health of several files" } },
    .run = info_command,
};
