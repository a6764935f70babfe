/*
 * cmd_dedup.c - bloomgate dedup: each line once, in bounded memory.
 *
 * Threads find and hash the keys of their chunks beside each other; the hashes are added to the
 * filter in the order of the input (deliver), so that the first of equal lines wins; and while
 * the next chunk is added, the new lines of this one are moved together and written (write).
 * With --unordered all that is done by every thread for itself, and only writing takes turns.
 *
 * How many lines are dropped wrongly. A line whose key is new is dropped if the filter takes it
 * for seen, which happens at the rate r of the filter at that moment. So for each line that is
 * told new r / (1 - r) others were not, and their expected number is the sum of that over all
 * lines that are told new. The rate is looked up from time to time, so often that it costs 16
 * bytes read per line, and in between a straight line is assumed; rates curve upwards, so the
 * sum is rather too high.
 */
#include "command.h"
#include "flow.h"
#include "json.h"
#include "number.h"
#include "out.h"
#include "seen.h"
#include "stop.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct dedup_options {
    struct common common;
    struct seen_options seen;
    struct hash_options hash;
    struct key_options keys;
    bool duplicates, count;
    uint64_t threads;
    const char *stats;
};

#define AT(field) offsetof(struct dedup_options, field)
static const struct option dedup_table[] = {
    { "duplicates", 'd', OPTION_FLAG, AT(duplicates), NULL,
      "print the lines that may have been there before", NULL },
    { "count", 'c', OPTION_FLAG, AT(count), NULL,
      "print only the number of these lines", NULL },
    { "stats", 0, OPTION_TEXT, AT(stats), "FILE",
      "write what is said at the end to FILE, as JSON", NULL },
    { "threads", 't', OPTION_COUNT, AT(threads), "N",
      "as many as processors, at most 8, if not said", NULL },
    { NULL, 0, OPTION_FLAG, 0, NULL, NULL, NULL },
};
#undef AT
static const struct option_group dedup_group = { "Lines", dedup_table };

enum { DEDUP_THREADS = 8, DEDUP_LOOK = 1024, DEDUP_LOOK_BYTES = 16 };

struct dedup {
    const struct dedup_options *options;
    struct key_format format;
    struct input input;
    struct seen seen;
    const bg_hasher *hasher;
    FILE *stats;
    pthread_mutex_t turn; /* of what follows, and of stdout, with --unordered */
    uint64_t lines, unique, selected;
    uint64_t looked,
        next_look; /* unique lines at the last look at the rate, at the next */
    bg_info info;  /* of the filter, then */
    double wrong;  /* lines that are expected to be dropped until then */
};

/* ---- A chunk -------------------------------------------------------------------------------- */

static double dedup_odds(double rate)
{
    return rate / (rate < 0.999999 ? 1 - rate : 1e-6);
}

static void dedup_plan_look(struct dedup *d)
{
    d->next_look =
        d->lines + DEDUP_LOOK + bg_filter_size_bytes(d->seen.filter) / DEDUP_LOOK_BYTES;
}

/* The rate at the moment: reads the whole filter. */
static void dedup_look(struct dedup *d)
{
    bg_info info = { .struct_size = sizeof info };
    if (bg_filter_info(d->seen.filter, &info)) {
        return;
    }
    d->wrong += (dedup_odds(d->info.rate) + dedup_odds(info.rate)) / 2
                * (double)(d->unique - d->looked);
    d->info = info;
    d->looked = d->unique;
    dedup_plan_look(d);
}

static void dedup_account(struct dedup *d, const struct chunk *chunk, size_t news)
{
    d->lines += chunk->count;
    d->unique += news;
    d->selected += d->options->duplicates ? chunk->count - news : news;
    if (d->lines >= d->next_look) {
        dedup_look(d);
    }
}

static bool dedup_hash(struct flow *flow, struct chunk *chunk)
{
    const struct dedup *d = flow->context;
    if (!chunk_reserve_hashes(chunk, chunk->count)
        || !chunk_reserve_answers(chunk, chunk->count)) {
        return flow_fail(flow, CLI_FULL);
    }
    bg_hash_many(d->hasher, chunk->keys, chunk->count, chunk->hashes);
    return true;
}

static size_t dedup_add(const struct dedup *d, struct chunk *chunk)
{
    return bg_filter_add_many_hash(d->seen.filter, chunk->hashes, chunk->count,
                                   chunk->answers);
}

static bool dedup_deliver(struct flow *flow, struct chunk *chunk)
{
    struct dedup *d = flow->context;
    dedup_account(d, chunk, dedup_add(d, chunk));
    return true;
}

/* The records that are wanted move together at the front of the chunk; its keys are gone
 * then. */
static void dedup_select(const struct dedup *d, struct chunk *chunk)
{
    chunk->out_used =
        chunk_select(&d->format, chunk, d->options->duplicates, chunk->bytes);
}

static bool dedup_print(struct flow *flow, const struct chunk *chunk)
{
    return out_write_through(chunk->bytes, chunk->out_used)
           || flow_fail(flow, out_code());
}

static bool dedup_write(struct flow *flow, struct chunk *chunk)
{
    dedup_select(flow->context, chunk);
    return dedup_print(flow, chunk);
}

/* All steps at once, beside other threads. */
static bool dedup_unordered(struct flow *flow, struct chunk *chunk)
{
    struct dedup *d = flow->context;
    if (!dedup_hash(flow, chunk)) {
        return false;
    }
    const size_t news = dedup_add(d, chunk);
    dedup_select(d, chunk);
    (void)pthread_mutex_lock(&d->turn);
    dedup_account(d, chunk, news);
    const bool good = d->options->count || dedup_print(flow, chunk);
    (void)pthread_mutex_unlock(&d->turn);
    return good;
}

/* ---- What is said at the end ------------------------------------------------------------------ */

static double dedup_wrong_share(const struct dedup *d)
{
    return d->unique ? d->wrong / ((double)d->unique + d->wrong) : 0;
}

static bool dedup_is_overfull(const bg_info *info)
{
    return info->kind != BG_KIND_SCALABLE && info->design_items
           && info->items.low > 1.1 * (double)info->design_items;
}

/* "1.6 expected (0.0002 %)" */
static const char *dedup_show_wrong(const struct dedup *d, char text[2 * NUMBER_TEXT])
{
    char share[NUMBER_TEXT];
    if (d->wrong < 0.01) {
        return "fewer than 0.01 expected";
    }
    (void)snprintf(text, 2 * NUMBER_TEXT,
                   d->wrong < 100 ? "%.2g expected (%s)" : "%.0f expected (%s)",
                   d->wrong, number_show_rate(dedup_wrong_share(d), share));
    return text;
}

static void dedup_tell(const struct dedup *d, const bg_info *info)
{
    char lines[NUMBER_TEXT], unique[NUMBER_TEXT], rest[NUMBER_TEXT], share[NUMBER_TEXT],
        bytes[NUMBER_TEXT], wrong[2 * NUMBER_TEXT];
    say_note("%s lines, %s unique, %s %s; dropped wrongly: %s; %s filter of %s",
             number_show(d->lines, lines), number_show(d->unique, unique),
             number_show(d->lines - d->unique, rest),
             d->options->duplicates ? "seen before" : "dropped",
             dedup_show_wrong(d, wrong), bg_kind_name(info->kind),
             number_show_bytes(bg_filter_size_bytes(d->seen.filter), bytes));
    if (dedup_is_overfull(info)) {
        say_warning("the filter is for %s keys and has about %s: new lines are dropped "
                    "at a rate of %s now",
                    number_show(info->design_items, lines),
                    number_show((uint64_t)info->items.value, unique),
                    number_show_rate(info->rate, share));
    }
}

static int dedup_write_stats(const struct dedup *d, const bg_info *info)
{
    struct json json;
    json_begin_to(&json, d->stats, "bloomgate.dedup.1");
    json_count(&json, "lines", d->lines);
    json_count(&json, "unique", d->unique);
    json_count(&json, "duplicates", d->lines - d->unique);
    json_real(&json, "wrongly_dropped_expected", d->wrong);
    json_real(&json, "wrongly_dropped_share", dedup_wrong_share(d));
    json_text(&json, "kind", bg_kind_name(info->kind));
    json_count(&json, "filter_bytes", bg_filter_size_bytes(d->seen.filter));
    json_real(&json, "filter_items", info->items.value);
    json_count(&json, "filter_design_items", info->design_items);
    json_real(&json, "filter_rate", info->rate);
    json_bool(&json, "overfull", dedup_is_overfull(info));
    json_end(&json);
    const bool good = fflush(d->stats) == 0 && !ferror(d->stats);
    return good ? CLI_OK : say_errno(d->options->stats);
}

static int dedup_report(struct dedup *d)
{
    if (say_is_quiet() && !d->options->stats) {
        return CLI_OK;
    }
    dedup_look(d);
    dedup_tell(d, &d->info);
    return d->options->stats ? dedup_write_stats(d, &d->info) : CLI_OK;
}

/* ---- The whole --------------------------------------------------------------------------------- */

static int dedup_flow(struct dedup *d)
{
    const struct dedup_options *o = d->options;
    unsigned threads = flow_threads(o->threads);
    threads = !o->threads && threads > DEDUP_THREADS ? DEDUP_THREADS : threads;
    struct flow flow = { .input = &d->input,
                         .format = &d->format,
                         .threads = threads,
                         .work = dedup_hash,
                         .deliver = dedup_deliver,
                         .write = o->count ? NULL : dedup_write,
                         .context = d };
    if (o->seen.unordered) {
        flow.work = dedup_unordered;
        flow.deliver = flow.write = NULL;
    }
    return flow_once(&flow, "reading", o->common.progress);
}

/* The filter has the keys of exactly the lines that were written, so an interrupted run saves
 * its state as well. After an error it does not: what was printed then is not known. */
static int dedup_run(struct dedup *d)
{
    d->hasher = bg_filter_hasher(d->seen.filter);
    dedup_plan_look(d);
    if (d->seen.file.path) { /* a filter with something in it */
        dedup_look(d);
    }
    const int ran = dedup_flow(d);
    int code = ran;
    if (code && !(code == CLI_INTERRUPTED && d->options->seen.state)) {
        return code;
    }
    if (d->options->count && !ran) {
        printf("%" PRIu64 "\n", d->selected);
        code = out_finish(code);
        if (code) {
            return code;
        }
    }
    const int saved = seen_save(&d->seen, &d->format);
    const int reported = saved ? saved : dedup_report(d);
    return reported ? reported : code;
}

static bool dedup_is_same_file(const char *a, const char *b)
{
    struct stat first, second;
    return strcmp(a, b) == 0
           || (stat(a, &first) == 0 && stat(b, &second) == 0 && S_ISREG(first.st_mode)
               && first.st_dev == second.st_dev && first.st_ino == second.st_ino);
}

/* Opened before anything is read, as it is better known then than after hours; but what is
 * read must not be emptied by that. */
static int dedup_open_stats(struct dedup *d)
{
    const struct dedup_options *o = d->options;
    bool same =
        o->stats && o->seen.state && dedup_is_same_file(o->stats, o->seen.state);
    for (size_t i = 0; o->stats && i < d->input.count; i++) {
        same = same || dedup_is_same_file(o->stats, d->input.paths[i]);
    }
    if (same) {
        return say_usage("--stats %s: is read as well, and would be overwritten",
                         o->stats);
    }
    d->stats = o->stats ? fopen(o->stats, "we") : NULL;
    return o->stats && !d->stats ? say_errno(o->stats) : CLI_OK;
}

static int dedup_begin(struct dedup *d, const struct arguments *arguments)
{
    const struct dedup_options *o = d->options;
    if (o->stats && strcmp(o->stats, "-") == 0) {
        return say_usage("--stats -: stdout is for lines; /dev/stderr is there");
    }
    int code = keys_format(&o->keys, &d->format);
    code = code ? code
                : input_begin(&d->input, arguments->items, arguments->count,
                              o->keys.raw, (struct input_part){ 0, 1 });
    code = code ? code : seen_begin(&d->seen, &d->input, &d->format);
    return code ? code : dedup_open_stats(d);
}

static int dedup_command(void *options, const struct arguments *arguments)
{
    static struct dedup d = { .turn = PTHREAD_MUTEX_INITIALIZER };
    d.options = options;
    d.seen.options = &d.options->seen;
    d.seen.hash = &d.options->hash;
    int code = dedup_begin(&d, arguments);
    code = code ? code : dedup_run(&d);
    if (d.stats) {
        (void)fclose(d.stats);
    }
    seen_end(&d.seen);
    input_end(&d.input);
    return code;
}

const struct command command_dedup = {
    .name = "dedup",
    .summary = "print each line once, the first time it comes",
    .usage = "[options] [KEYS...]",
    .about =
        "Reads lines from files, or from stdin, and prints those that were not there before, "
        "in their order: what awk '!seen[$0]++' does, in a fraction of its memory. Lines are "
        "remembered in a filter, which takes a small share of new lines for seen ones: these "
        "are dropped. How many that may be is said at the end; -q leaves it out.\n\n"
        "If nothing else is said the filter grows with the number of different lines, at a "
        "rate of 1 in 1,000,000: about 6 bytes per line, sometimes twice that. With --items "
        "it has a fixed size for that number, with --memory a fixed size; more lines than it "
        "is for raise the rate, and a warning says so.\n\n"
        "--window remembers only the last N keys (up to a seventh more may be remembered), "
        "or those of a time; a key that comes again is renewed. A window of time needs "
        "--items, and time between runs does not count.\n\n"
        "--state begins with what an earlier run remembered and saves it at the end in one "
        "step, also when it is interrupted: then it has the lines that were printed, and no "
        "others. After an error the old state stays. Keys have to be made and hashed in the "
        "same way.\n\n"
        "--unordered lets each thread add and print for itself. Still exactly one of equal "
        "lines is printed, but not always the first. It needs a filter of kind register, at "
        "a rate of 1 in 100,000 if not said.",
    .size = sizeof(struct dedup_options),
    .uses = { { &dedup_group, 0 },
              { &seen_options_group, offsetof(struct dedup_options, seen) },
              { &key_options_group, offsetof(struct dedup_options, keys) },
              { &hash_options_group, offsetof(struct dedup_options, hash) } },
    .examples = { { "bloomgate dedup access.log > unique.log",
                    "each line once, in their order" },
                  { "tail -F app.log | bloomgate dedup -w 10m -n 1M --field 2 --delimiter ' '",
                    "lines whose second field did not come for ten minutes" } },
    .run = dedup_command,
};
