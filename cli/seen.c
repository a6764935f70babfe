/* seen.c - see seen.h. */
#include "seen.h"

#include "clock.h"
#include "flow.h"
#include "number.h"
#include "say.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPT_STRUCT struct seen_options
static const struct option seen_table[] = {
    OPT_COUNT("items", 'n', items, "N",
              "number of distinct keys (default: the filter grows)"),
    OPT_RATE("rate", 'p', rate, "P",
             "tolerated share of dropped new lines (default: 1e-6)"),
    OPT_BYTES("memory", 'm', memory, "SIZE",
              "fixed size instead of --rate, such as 512M or 2Gi"),
    OPT_TEXT("window", 'w', window, "N|TIME",
             "keys to remember: a number, or a period such as 10m"),
    OPT_TEXT("state", 's', state, "FILE",
             "load the filter from FILE, and save it there"),
    OPT_FLAG("unordered", 0, unordered,
             "do not preserve order; faster with many cores"),
    OPT_END,
};
const struct option_group seen_options_group = { "Filter", seen_table };

static const double seen_rate = 1e-6, seen_rate_unordered = 1e-5;
static const double seen_rate_max = 0.01; /* of a filter that --memory sizes */
enum {
    SEEN_FIRST = 1 << 20,     /* minimum capacity of the first layer, in keys */
    SEEN_LAYERS = 8,          /* the first layer can hold at least 1/8 of the lines */
    SEEN_SAMPLE = 256 * 1024, /* bytes read to estimate the number of lines */
    SEEN_PATH = 4096,
    SEEN_BITS = 40 /* bits per key for seen_rate, with a key's bits in one cache line */
};

/* ---- Expected number of lines ---------------------------------------------------------------- */

/* Returns the number of records in the first bytes of a file, or 0 if the number is unknown. */
static uint64_t seen_count(const struct key_format *format, const char *path,
                           uint64_t *bytes)
{
    static char sample[SEEN_SAMPLE];
    uint64_t records = 0;
    *bytes = input_peek(path, sample, sizeof sample);
    for (size_t i = 0; i < *bytes; i++) {
        records += sample[i] == format->separator;
    }
    return records;
}

/* Estimates the number of records by sampling the first file. Returns 0 if it is unknown. */
static uint64_t seen_guess(const struct input *input, const struct key_format *format)
{
    uint64_t bytes = 0;
    if (format->records == KEY_RECORDS_PREFIXED || !input_is_plain(input)) {
        return 0;
    }
    const uint64_t records = seen_count(format, input->paths[0], &bytes);
    return records
               ? (uint64_t)((double)input->size / (double)bytes * (double)records) + 1
               : 0;
}

/* ---- New filters ----------------------------------------------------------------------------- */

static uint64_t seen_clock(void *context)
{
    (void)context;
    return clock_nanoseconds() / 1000000;
}

/* "10000" and "10k" are numbers of keys; "10m" and "90s" are times. */
static bool seen_read_window(const char *text, bg_window_options *window)
{
    double seconds;
    uint64_t count;
    *window = (bg_window_options)BG_WINDOW_OPTIONS_INIT;
    if (number_count(text, &count)) {
        window->count = count;
        return count >= 8 && count <= UINT64_C(1) << 40;
    }
    if (!number_seconds(text, &seconds) || seconds < 0.1 || seconds > 1e9) {
        return false;
    }
    window->length = (uint64_t)(seconds * 1000);
    window->clock = seen_clock;
    return true;
}

static int seen_check_window(const char *text, bg_window_options *window)
{
    return strlen(text) < SEEN_WINDOW && seen_read_window(text, window)
               ? CLI_OK
               : say_usage("--window: found '%s', expected a number of keys, at least "
                           "8 (10k, 5M), or a time period (90s, 10m, 1d)",
                           text);
}

static int seen_plan_window(struct seen *seen, bg_window_options *window, bg_spec *spec)
{
    const int code = seen_check_window(seen->options->window, window);
    if (code) {
        return code;
    }
    if (seen->options->memory) {
        return say_usage("--window and --memory are mutually exclusive: --items and "
                         "--rate determine the size of a window");
    }
    spec->kind = BG_KIND_WINDOW;
    spec->window = window;
    spec->items = window->count && !spec->items ? window->count : spec->items;
    (void)snprintf(seen->window, sizeof seen->window, "%s", seen->options->window);
    return spec->items ? CLI_OK
                       : say_usage("--window %s requires --items, the number of "
                                   "distinct keys in that time",
                                   seen->window);
}

/* Determines the number of keys for a filter of fixed size if --items is not set. The filters for
 * --unordered do not grow, so an estimate is not sufficient, and the lines are counted. Counting is
 * not possible with --state, because the keys of later runs are not known in advance. */
static int seen_count_items(const struct seen *seen, const struct input *input,
                            const struct key_format *format, uint64_t *items)
{
    const struct seen_options *o = seen->options;
    const struct flow like = { .format = format, .threads = seen->threads };
    if (o->memory) {
        *items = o->memory / (SEEN_BITS / 8);
        return *items
                   ? CLI_OK
                   : say_usage("--memory: too small for a filter; use a larger value");
    }
    if (!input_is_plain(input) || o->state) {
        return say_usage("--unordered requires --items or --memory %s",
                         o->state
                             ? "for a new --state; --items is the number of distinct "
                               "keys in all runs"
                             : "if the input is not an uncompressed regular file");
    }
    const int code = flow_count(&like, input, items);
    *items = *items ? *items : 1;
    return code;
}

/* Sets `spec` to a filter of fixed size with space for the expected number of keys (and,
 * if the state is saved, for the canaries). */
static int seen_plan_fixed(const struct seen *seen, const struct input *input,
                           const struct key_format *format, bg_spec *spec)
{
    const struct seen_options *o = seen->options;
    spec->kind = o->unordered ? BG_KIND_REGISTER : BG_KIND_AUTO;
    const int code =
        spec->items ? CLI_OK : seen_count_items(seen, input, format, &spec->items);
    return code;
}

static void seen_plan_growing(uint64_t guess, bg_spec *spec)
{
    spec->kind = BG_KIND_SCALABLE;
    spec->items = guess / SEEN_LAYERS > SEEN_FIRST ? guess / SEEN_LAYERS : SEEN_FIRST;
}

static int seen_plan(struct seen *seen, const struct input *input,
                     const struct key_format *format, bg_window_options *window,
                     bg_spec *spec)
{
    const struct seen_options *o = seen->options;
    *spec = (bg_spec)BG_SPEC_INIT;
    spec->items = o->items;
    spec->bytes = o->memory;
    spec->canaries = o->state && !o->window ? BG_CANARY_COUNT : 0;
    spec->flags = o->unordered ? BG_SPEC_ONE_WINNER : BG_SPEC_EXCLUSIVE;
    spec->hash = seen->secret.hash;
    if (!o->memory) {
        spec->rate = o->rate > 0    ? o->rate
                     : o->unordered ? seen_rate_unordered
                                    : seen_rate;
    }
    if (o->window) {
        return seen_plan_window(seen, window, spec);
    }
    if (o->items || o->memory || o->unordered) {
        return seen_plan_fixed(seen, input, format, spec);
    }
    seen_plan_growing(seen_guess(input, format), spec);
    return CLI_OK;
}

/* Returns the parameters and statistics of a filter. */
static bg_filter_info seen_about(const bg_filter *filter)
{
    bg_filter_info info = { .struct_size = sizeof info };
    (void)!bg_filter_get_info(filter, &info);
    return info;
}

static int seen_make(struct seen *seen, const struct input *input,
                     const struct key_format *format)
{
    bg_window_options window = BG_WINDOW_OPTIONS_INIT;
    bg_spec spec;
    bg_errinfo why;
    int code = secret_current(seen->hash, &seen->secret);
    code = code ? code : seen_plan(seen, input, format, &window, &spec);
    if (code) {
        return code;
    }
    if (bg_filter_create(&spec, &seen->filter, &why)) {
        return spec_refuse(&why);
    }
    seen->rate = spec.rate > 0 ? spec.rate : seen_about(seen->filter).design_rate;
    if (seen->options->memory && seen->rate > seen_rate_max) {
        return say_usage("--memory is too small for %s keys: up to %s of new lines "
                         "would be dropped; use a larger --memory, or replace it by a "
                         "higher --rate",
                         COUNT_TEXT(spec.items), RATE_TEXT(seen->rate));
    }
    memcpy(seen->key_id, seen->secret.key_id, sizeof seen->key_id);
    for (uint32_t i = 0; i < BG_CANARY_COUNT && seen->options->state && !*seen->window;
         i++) {
        uint8_t key[BG_CANARY_BYTES];
        bg_canary(seen->generation, i, key);
        if (bg_filter_add(seen->filter, key, sizeof key, NULL)) {
            return say_full("the filter has no space for its canaries; increase "
                            "--items or --memory");
        }
    }
    return CLI_OK;
}

/* ---- State ----------------------------------------------------------------------------------- */

static const char seen_window_name[] = "window: ";
static const char seen_past_name[] =
    "dedup: "; /* number of new lines; expected wrong drops times 1e6 */

/* Reads the value of --window with which the state was created. */
static void seen_find_window(const char *metadata, char window[SEEN_WINDOW])
{
    const size_t skip = sizeof seen_window_name - 1;
    const char *at = filter_find_line(metadata, seen_window_name);
    window[0] = 0;
    if (at && strcspn(at + skip, "\n") < SEEN_WINDOW) {
        (void)snprintf(window, SEEN_WINDOW, "%.*s", (int)strcspn(at + skip, "\n"),
                       at + skip);
    }
}

/* Reads the totals of earlier runs, which are zero if the metadata does not contain them. */
static struct drops_sum seen_find_past(const char *metadata)
{
    struct drops_sum past = { .unique = 0 };
    const char *at = filter_find_line(metadata, seen_past_name);
    if (at) {
        char *end = NULL;
        past.unique = strtoull(at + sizeof seen_past_name - 1, &end, 10);
        past.wrong = (double)strtoull(end, NULL, 10) / 1e6;
    }
    return past;
}

/* Replaces the metadata line that contains the totals of earlier runs. If there is no such line,
 * adds one, provided that the metadata has space for it. */
static void seen_put_past(char metadata[BG_METADATA_MAX], struct drops_sum total)
{
    char line[64];
    char *at = (char *)(uintptr_t)filter_find_line(metadata, seen_past_name);
    if (at) {
        filter_remove_line(at);
    }
    const size_t used = strlen(metadata);
    const int n = snprintf(line, sizeof line, "%s%s%llu %llu\n",
                           used && metadata[used - 1] != '\n' ? "\n" : "",
                           seen_past_name, (unsigned long long)total.unique,
                           (unsigned long long)(total.wrong * 1e6));
    if (n > 0 && used + (size_t)n < BG_METADATA_MAX) {
        memcpy(metadata + used, line, (size_t)n + 1);
    }
}

/* Checks whether a filter from a file can be used as the state. */
static int seen_check_kind(const struct seen *seen, const char *path,
                           const bg_file_info *about)
{
    const struct seen_options *o = seen->options;
    const bg_kind kind = (bg_kind)about->kind;
    if (bg_kind_traits(kind) & (BG_TRAIT_STATIC | BG_TRAIT_FILLS_UP)) {
        return say_data("%s: dedup cannot add keys to a filter of kind %s; start a new "
                        "state",
                        path, bg_kind_name(kind));
    }
    if ((kind == BG_KIND_WINDOW) != (*seen->window != 0)) {
        return say_data("%s: this filter was not created by dedup --window; start a "
                        "new state",
                        path);
    }
    if (o->window && !*seen->window) {
        return say_data("%s: this state has no window; omit --window, or start a new "
                        "state",
                        path);
    }
    if (o->window && strcmp(o->window, seen->window) != 0) {
        return say_data("%s: the window of this state is %s, not %s; use the same "
                        "--window, or start a new state",
                        path, seen->window, o->window);
    }
    if (o->unordered && kind != BG_KIND_REGISTER) {
        return say_data("%s: --unordered requires a filter of kind register, not %s; "
                        "omit --unordered, or start a new state",
                        path, bg_kind_name(kind));
    }
    return CLI_OK;
}

static int seen_check_hash(const struct seen *seen, const bg_file_info *about)
{
    const struct hash_options *h = seen->hash;
    const bg_hash_profile profile = hash_chosen(h);
    if ((profile != BG_HASH_FAST && profile != about->profile)
        || (h->seed && h->seed != about->seed) || (h->keyring && !seen->file.ring)) {
        return say_data("%s: its keys were hashed with different options; use the same "
                        "--hash, --seed and --keyring",
                        seen->options->state);
    }
    return CLI_OK;
}

/* Checks that keys are converted as in earlier runs. */
static int seen_check_keys(const char *path, const char *recipe,
                           struct key_format *format)
{
    char now[KEY_RECIPE];
    const bool known = keys_follow(recipe, format);
    keys_recipe(format, now);
    return known && strcmp(now, recipe) == 0
               ? CLI_OK
               : say_data("%s: the file's keys were converted with different options "
                          "('%s', not '%s'); use the same --trim, --lower and --as",
                          path, recipe, now);
}

/* Checks the options against the filter, whose size and rate cannot change. */
static int seen_check_size(struct seen *seen, const char *path)
{
    const struct seen_options *o = seen->options;
    const bg_filter_info info = seen_about(seen->filter);
    const bool grows = info.kind == BG_KIND_SCALABLE;
    seen->keys = (uint64_t)info.items.value;
    const bool known = info.design_rate > 0 && info.design_rate < 1;
    seen->rate = o->rate > 0    ? o->rate
                 : known        ? info.design_rate
                 : o->unordered ? seen_rate_unordered
                                : seen_rate;
    if ((o->items && !grows && info.design_items < o->items)
        || (o->rate > 0 && info.design_rate > o->rate * (1 + 1e-9))
        || (o->memory && info.bytes > o->memory)) {
        return say_data("%s: was created for %s keys at a rate of %s, with a size of "
                        "%s, and does not satisfy the specified --items, --rate or "
                        "--memory: omit them, or start a new state",
                        path, grows ? "any number of" : COUNT_TEXT(info.design_items),
                        RATE_TEXT(info.design_rate), BYTES_TEXT(info.bytes));
    }
    if (o->items && (grows || info.design_items > o->items + BG_CANARY_COUNT)) {
        say_note("%s: --items has no effect: the state %s%s%s; omit --items, or start "
                 "a new state",
                 path, grows ? "grows" : "was created for ",
                 grows ? "" : COUNT_TEXT(info.design_items), grows ? "" : " keys");
    }
    return CLI_OK;
}

static int seen_resume(struct seen *seen, struct key_format *format)
{
    const char *path = seen->to;
    const struct open_options how = { .keyring = seen->hash->keyring };
    bg_open_options opening = BG_OPEN_OPTIONS_INIT;
    bg_window_options window = BG_WINDOW_OPTIONS_INIT;
    bg_errinfo why;
    int code = filter_secret(path, &how, &seen->file, &opening);
    if (code) {
        return code;
    }
    const bg_file_info *about = &seen->file.about;
    seen_find_window(about->metadata, seen->window);
    if (*seen->window) {
        seen->past = seen_find_past(about->metadata);
    }
    code = filter_expect_whole(&seen->file);
    code = code ? code : seen_check_kind(seen, path, about);
    code = code ? code : seen_check_hash(seen, about);
    code = code ? code : seen_check_keys(path, seen->file.recipe, format);
    if (!code && *seen->window) {
        code = seen_check_window(seen->window, &window);
        opening.window = window.clock ? &window : NULL;
    }
    opening.filter_flags = seen->options->unordered ? 0 : BG_SPEC_EXCLUSIVE;
    if (!code && bg_open(path, &opening, &seen->filter, &why)) {
        code = say_error(path, &why);
    }
    code = code ? code : seen_check_size(seen, path);
    seen->generation = about->generation;
    memcpy(seen->key_id, about->key_id, sizeof seen->key_id);
    return code;
}

/* ---- Life cycle ------------------------------------------------------------------------------ */

static int seen_check(const struct seen_options *o)
{
    if (o->memory && o->rate > 0) {
        return say_usage("--memory and --rate are mutually exclusive");
    }
    if (o->window && o->unordered) {
        return say_usage("--window and --unordered are mutually exclusive");
    }
    return CLI_OK;
}

/* Checks in advance that the state can be saved at the end, possibly hours later. */
static int seen_check_folder(const char *path)
{
    char folder[SEEN_PATH];
    const char *slash = strrchr(path, '/');
    const int n =
        !slash ? snprintf(folder, sizeof folder, ".")
               : snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + 1, path);
    if (n < 0 || n >= (int)sizeof folder) {
        errno = ENAMETOOLONG;
        return say_errno(path);
    }
    return access(folder, W_OK) == 0 ? CLI_OK : say_errno(path);
}

int seen_begin(struct seen *seen, const struct input *input, struct key_format *format)
{
    struct stat about;
    const char *path = seen->options->state;
    int code = seen_check(seen->options);
    code = code || !path ? code : claim_target(path, seen->to);
    code = code || !path ? code : seen_check_folder(seen->to);
    if (code) {
        return code;
    }
    if (path && stat(seen->to, &about) == 0) {
        return seen_resume(seen, format);
    }
    return path && errno != ENOENT ? say_errno(path) : seen_make(seen, input, format);
}

int seen_save(const struct seen *seen, const struct key_format *format,
              struct drops_sum total)
{
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    char metadata[BG_METADATA_MAX], note[SEEN_WINDOW + sizeof seen_window_name];
    bg_errinfo why;
    if (!seen->options->state) {
        return CLI_OK;
    }
    (void)snprintf(note, sizeof note, "%s%s", seen_window_name, seen->window);
    filter_metadata(format, *seen->window ? note : NULL, metadata);
    if (seen->file.path) { /* a resumed state keeps all of its metadata */
        (void)snprintf(metadata, sizeof metadata, "%s", seen->file.about.metadata);
    }
    if (*seen->window) {
        seen_put_past(metadata, total);
    }
    how.generation = seen->generation;
    how.metadata = metadata;
    memcpy(how.key_id, seen->key_id, sizeof how.key_id);
    return bg_save(seen->filter, seen->to, &how, &why)
               ? say_error(seen->options->state, &why)
               : CLI_OK;
}

void seen_end(struct seen *seen)
{
    bg_filter_free(seen->filter);
    filter_close(&seen->file);
    secret_free(&seen->secret);
}
