/*
 * cmd_convert.c - bloomgate convert: converts filters between formats, and builds filters in other
 * formats from keys.
 *
 * The keys of a filter cannot be listed, so a filter can be converted only to a format with exactly
 * the same bits. Parquet filters have the same bits as bloomgate filters of kind `split` with hash
 * xxh64 and seed 0. All other filters have to be rebuilt from their keys (--from-keys).
 */
#include "command.h"
#include "filter_file.h"
#include "flow.h"
#include "number.h"
#include "save_options.h"
#include "spool.h"

#include <string.h>

struct convert_options {
    struct common common;
    struct open_options open;
    struct key_options keys;
    struct save_options save;
    int to; /* index into filter_formats; 0 if not set */
    struct option_list from_keys;
    uint64_t items, seed;
    double rate;
};

#define OPT_STRUCT struct convert_options
static const struct option convert_table[] = {
    OPT_CHOICE("to", 0, to, "FORMAT",
               "target format, such as bloomgate, parquet or guava", filter_formats),
    OPT_LIST("from-keys", 0, from_keys, "FILE",
             "build from keys in FILE (-: stdin); may be repeated"),
    OPT_COUNT("items", 'n', items, "N", "with --from-keys: number of keys"),
    OPT_RATE("rate", 'p', rate, "P",
             "with --from-keys: false-positive rate (default: 1%)"),
    OPT_COUNT("seed", 0, seed, "N",
              "with --from-keys: seed or tweak, for some formats"),
    OPT_END,
};

static const char convert_possible[] =
    "a filter does not store its keys, so conversion is possible only between "
    "formats with identical bits: parquet, and bloomgate filters of kind split with "
    "hash xxh64 and seed 0; use --from-keys for other formats";

static bool convert_to_ours(const struct convert_options *o)
{
    return strcmp(filter_formats[o->to], "bloomgate") == 0;
}

/* ---- Filters to filters ---------------------------------------------------------------------- */

/* Writes the bits of a foreign filter, and how its keys are converted, to a bloomgate file. */
static int convert_foreign_to_ours(const struct convert_options *o,
                                   const struct filter_file *file, const char *to)
{
    static struct saving saving;
    static bg_file_info like;
    struct key_format format;
    bg_filter *filter = NULL;
    bg_errinfo why;
    int code = keys_format(&o->keys, &format);
    if (code) {
        return code;
    }
    if (bg_foreign_to_filter(file->foreign, &filter, &why)) {
        return why.code == BG_ENOTSUP ? say_refused(
                   "%s: cannot convert a filter in %s format to bloomgate: %s",
                   file->path, bg_foreign_name(foreign_format(file->foreign)),
                   convert_possible)
                                      : say_error(file->path, &why);
    }
    filter_metadata(&format, NULL, like.metadata);
    code = saving_begin(&o->save, &like, &saving);
    code = code ? code : saving_write(&saving, filter, to);
    if (!code) {
        saving_tell(filter, to, "build a larger filter");
    }
    bg_filter_free(filter);
    return code;
}

/* Returns the format with this name, which must be one of the option's choices. */
static bg_foreign_format foreign_named(const char *name)
{
    bg_foreign_format format = BG_FOREIGN_PARQUET;
    (void)bg_foreign_parse(name, &format);
    return format;
}

static int convert_ours_to_foreign(const struct convert_options *o,
                                   const struct filter_file *file, const char *to)
{
    bg_foreign *foreign = NULL;
    bg_errinfo why;
    const bg_foreign_format format = foreign_named(filter_formats[o->to]);
    if (bg_foreign_from_filter(file->filter, &foreign, &why)
        && why.code != BG_ENOTSUP) {
        return say_error(file->path, &why);
    }
    if (!foreign || foreign_format(foreign) != format) {
        bg_foreign_free(foreign);
        return say_refused(
            "%s: cannot convert a filter of kind %s with hash %s to %s: %s", file->path,
            bg_kind_name(bg_filter_kind(file->filter)),
            bg_hash_name(bg_hasher_profile(bg_filter_hasher(file->filter))),
            filter_formats[o->to], convert_possible);
    }
    const int code = foreign_save(foreign, to);
    bg_foreign_free(foreign);
    return code;
}

/* Extracts the filter from a file that may also contain other data. */
static int convert_foreign_to_foreign(const struct convert_options *o,
                                      const struct filter_file *file, const char *to)
{
    const bg_foreign_format from = foreign_format(file->foreign);
    if (from != foreign_named(filter_formats[o->to])) {
        return say_refused("%s: cannot convert a filter in %s format to %s: %s",
                           file->path, bg_foreign_name(from), filter_formats[o->to],
                           convert_possible);
    }
    if (!(bg_foreign_traits(from) & BG_FOREIGN_CAN_WRITE)) {
        return say_refused("%s: filters in %s format are read-only", file->path,
                           bg_foreign_name(from));
    }
    return foreign_save(file->foreign, to);
}

static int convert_ours_to_ours(const struct convert_options *o,
                                const struct filter_file *file, const char *to)
{
    static struct saving saving;
    const int code = saving_begin(&o->save, &file->about, &saving);
    return code ? code : saving_write(&saving, file->filter, to);
}

static int convert_filter(const struct convert_options *o, const char *from,
                          const char *to)
{
    static struct filter_file file;
    int code = filter_open(from, &o->open, 0, (enum key_form)o->keys.as, &file);
    if (code) {
        return code;
    }
    const bool ours = convert_to_ours(o);
    filter_note_rate(&file);
    if (!ours && o->save.generation) {
        code = say_usage("--generation requires --to bloomgate");
    } else if (file.filter) {
        code = ours ? convert_ours_to_ours(o, &file, to)
                    : convert_ours_to_foreign(o, &file, to);
    } else {
        code = ours ? convert_foreign_to_ours(o, &file, to)
                    : convert_foreign_to_foreign(o, &file, to);
    }
    filter_close(&file);
    return code;
}

/* ---- Keys to filters ------------------------------------------------------------------------- */

enum { CONVERT_FEW = 100 }; /* keys; the rate of smaller filters varies widely */

struct convert_keys {
    bg_foreign *foreign;
    const char *path;
    uint64_t keys;
    bool text; /* a key was not a number */
};

static bool convert_add(struct flow *flow, struct chunk *chunk)
{
    struct convert_keys *k = flow->context;
    bg_errinfo why;
    k->text = k->text || !chunk_has_only_numbers(chunk);
    for (size_t i = 0; i < chunk->count; i++) {
        if (bg_foreign_add(k->foreign, chunk->keys[i].data, chunk->keys[i].len, &why)) {
            return flow_fail(flow, say_error(k->path, &why));
        }
    }
    k->keys += chunk->count;
    return true;
}

static int convert_read_keys(const struct convert_options *o,
                             const struct key_format *format, struct convert_keys *k)
{
    char *paths[OPTION_LIST_MAX];
    for (size_t i = 0; i < o->from_keys.count; i++) {
        paths[i] = (char *)(uintptr_t)o->from_keys.items[i];
    }
    struct flow flow = { .format = format,
                         .threads = flow_threads(0),
                         .tells_empty = true,
                         .deliver = convert_add,
                         .context = k };
    return flow_files(&flow, paths, o->from_keys.count, o->keys.raw, "reading");
}

static double convert_rate(const struct convert_options *o)
{
    return o->rate > 0 ? o->rate : 0.01;
}

static int convert_create(const struct convert_options *o, struct key_format *format,
                          struct convert_keys *k)
{
    uint8_t secret[BG_SECRET_BYTES];
    bg_foreign_options how;
    bg_errinfo why;
    const bg_foreign_format to = foreign_named(filter_formats[o->to]);
    int code = keys_format(&o->keys, format);
    code =
        code ? code : filter_foreign_options(&o->open, to, format->form, secret, &how);
    if (code) {
        return code;
    }
    if (!(bg_foreign_traits(to) & BG_FOREIGN_CAN_CREATE)) {
        return say_refused("filters in %s format are read-only", filter_formats[o->to]);
    }
    how.seed = o->seed;
    return bg_foreign_create(to, o->items, convert_rate(o), &how, &k->foreign, &why)
               ? say_error(filter_formats[o->to], &why)
               : CLI_OK;
}

/* Refuses a filter with as many keys as planned whose rate is far above the requested rate, because
 * the format limits its size. With few keys, the rate can be high by chance. Returns an exit code.
 */
static int convert_check_size(const struct convert_options *o, uint64_t keys,
                              double rate)
{
    const double requested = convert_rate(o);
    if (rate < 1
        && (keys < CONVERT_FEW || !filter_rate_is_excessive(rate, requested))) {
        return CLI_OK;
    }
    return say_full("the filter would have a false-positive rate of %s, because of the "
                    "sizes that the format %s allows; split the keys, or use another "
                    "format",
                    RATE_OF_TEXT(rate, requested), filter_formats[o->to]);
}

/* Refuses a filter whose rate is far above the requested rate, because there are more keys than
 * --items specifies. Warns about a smaller difference. Returns an exit code. */
static int convert_check_rate(const struct convert_options *o,
                              const struct convert_keys *k)
{
    bg_foreign_info info = { .struct_size = sizeof info };
    const double requested = convert_rate(o);
    if (bg_foreign_get_info(k->foreign, &info)
        || bg_health_of_rate(info.rate, requested) == BG_HEALTH_FINE) {
        return CLI_OK;
    }
    if (k->keys <= o->items) {
        return convert_check_size(o, k->keys, info.rate);
    }
    if (filter_rate_is_excessive(info.rate, requested)) {
        const struct filter_excess excess = { info.rate, requested, o->items, k->keys };
        return filter_refuse_excess(&excess, "");
    }
    say_warning("the filter has a false-positive rate of %s; increase --items",
                RATE_OF_TEXT(info.rate, requested));
    return CLI_OK;
}

/* Points out numbers that are stored as text in a format that does not record the form of keys. */
static void convert_note_form(const struct convert_options *o,
                              const struct key_format *format,
                              const struct convert_keys *k)
{
    const bg_foreign_format to = foreign_named(filter_formats[o->to]);
    if (format->form == KEY_TEXT && k->keys && !k->text
        && bg_foreign_traits(to) & BG_FOREIGN_NEEDS_KEYS) {
        say_note(
            "the keys were added as text; if %s looks up integers, use --as int64 or "
            "int32",
            filter_formats[o->to]);
    }
}

static int convert_keys(const struct convert_options *o, const char *to)
{
    struct convert_keys k = { .path = to };
    struct key_format format;
    if (convert_to_ours(o)) {
        return say_usage("to build a bloomgate filter from keys, use bloomgate build");
    }
    if (o->items == 0) {
        return say_usage("--from-keys requires --items, the number of keys");
    }
    int code = convert_create(o, &format, &k);
    code = code ? code : convert_read_keys(o, &format, &k);
    code = code ? code : convert_check_rate(o, &k);
    code = code ? code : foreign_save(k.foreign, to);
    if (!code) {
        say_note("%s: %s, %s key%s", spool_target_name(to), filter_formats[o->to],
                 COUNT_TEXT(k.keys), k.keys == 1 ? "" : "s");
        convert_note_form(o, &format, &k);
    }
    bg_foreign_free(k.foreign);
    return code;
}

static int convert_command(void *options, const struct arguments *arguments)
{
    const struct convert_options *o = options;
    const bool of_keys = o->from_keys.count > 0;
    if (o->to == 0) {
        return say_usage("missing option --to FORMAT");
    }
    if (arguments->count != (of_keys ? 1 : 2)) {
        return say_usage(of_keys ? "expected OUT" : "expected IN and OUT");
    }
    if (!of_keys && (o->items || o->rate > 0 || o->seed)) {
        return say_usage("--items, --rate and --seed require --from-keys");
    }
    const char *to = arguments->items[arguments->count - 1];
    const int code = filter_claim_output(to, o->save.force);
    if (code) {
        return code;
    }
    return of_keys ? convert_keys(o, to) : convert_filter(o, arguments->items[0], to);
}

const struct command command_convert = {
    .name = "convert",
    .summary = "convert filters to and from other formats",
    .usage = "[options] --to FORMAT IN OUT | --from-keys FILE OUT",
    .about =
        "A filter does not store its keys, so conversion is possible only between "
        "formats with identical bits: Parquet, and bloomgate filters of kind split "
        "with hash xxh64 and seed 0 (bloomgate build --kind split --hash xxh64). The "
        "resulting bloomgate file has checksums, can be merged, and records the key "
        "conversion that you specify with --as. Converting a filter to its own "
        "format extracts it from a file that also contains other "
        "data.\n\n--from-keys builds a filter in another format from keys, with the "
        "size that the other software would choose for --items and --rate. --as "
        "specifies the type of the keys, such as int64 for Guava's longFunnel. "
        "--format-version selects the version of a format, and --block-key sets the "
        "BIP 158 key.",
    .size = sizeof(struct convert_options),
    .uses = { OPT_GROUP("Converting", convert_table),
              { &save_options_group, offsetof(struct convert_options, save) },
              { &key_options_group, offsetof(struct convert_options, keys) },
              { &open_options_group, offsetof(struct convert_options, open) } },
    .examples = { { "bloomgate convert --to bloomgate --part 2 t.parquet col3.bg",
                    "extract the third filter from a Parquet file" },
                  { "bloomgate convert --from-keys ids.txt --as int64 --to guava -n 1M "
                    "ids.bf",
                    "build a filter that Guava can read" } },
    .run = convert_command,
};
