/*
 * cmd_dedup.c - bloomgate dedup: prints each line once, in bounded memory.
 *
 * Threads extract and hash the keys of their chunks in parallel. The hashes are added to the
 * filter in input order (deliver), so that the first of several equal lines is kept.
 * While the hashes of the next chunk are being added, the new lines of the current chunk are
 * compacted and written (write). With --unordered, each thread performs all steps independently,
 * and only writing is serialized.
 *
 * The essay below describes how many lines are wrongly dropped, and when the filter is full. When
 * the filter is full, the run ends with an error. All lines before the first refused line are
 * processed, and the state is saved, as after an interrupt.
 */
#include "claim.h"
#include "command.h"
#include "flow.h"
#include "json.h"
#include "number.h"
#include "seen.h"
#include "stop.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct dedup_options {
    struct common common;
    struct seen_options seen;
    struct hash_options hash;
    struct key_options keys;
    bool duplicates, count;
    uint64_t threads;
    const char *stats;
};

#define OPT_STRUCT struct dedup_options
static const struct option dedup_table[] = {
    OPT_FLAG("duplicates", 'd', duplicates,
             "print the lines that may have occurred before"),
    OPT_FLAG("count", 'c', count, "print only the number of selected lines"),
    OPT_TEXT("stats", 0, stats, "FILE", "write the final statistics to FILE, as JSON"),
    OPT_COUNT("threads", 't', threads, "N",
              "number of threads (default: all cores, at most 8)"),
    OPT_END,
};

enum { DEDUP_THREADS = 8 };

/* ---- Limit on wrongly dropped lines ---------------------------------------------------------- */

/*
 * The number of new lines that dedup drops by mistake is limited, and therefore the number of keys
 * that its filter accepts.
 *
 * A line with a new key is dropped if the filter reports the key as seen, which happens with
 * probability r, the current false-positive rate of the filter. For each line that is reported new,
 * r / (1 - r) new lines are therefore dropped on average. The sum of this value over all lines that
 * are reported new is the expected number of new lines dropped. The rate is measured from time to
 * time (each measurement reads up to 4 MiB of each part of the filter) and interpolated linearly
 * between measurements. Since the rate grows faster than linearly, the sum is slightly too high.
 *
 * Guarantee: the expected share of new lines that are dropped stays at or below the stated rate
 * (--rate or its default). Each measurement grants a number of new keys that preserves the
 * guarantee, and no key is added without a grant:
 *
 *   - A fixed-size filter accepts as many keys as it was created for. Beyond that number, its
 *     current rate exceeds the stated rate, but the share of lines dropped so far is still lower,
 *     because the rate was lower while the filter was emptier. The difference is a budget, which
 *     further grants consume. Each grant assumes twice the measured rate, because the rate rises
 *     while keys are added.
 *   - A scalable filter accepts any number of keys, until it cannot allocate another layer.
 *   - A window accepts keys while its rate is at or below the stated rate; above that rate, it has
 *     a budget like that of a fixed-size filter. The fill of a small window fluctuates randomly, so
 *     its budget is at least half a line. Several runs with the same state share one budget; `past`
 *     contains the totals of the earlier runs.
 *
 * If no more keys are granted, the filter is full. Lines whose keys are in the filter are still
 * dropped correctly, but the first line with a new key ends the run. A filter that received far
 * more keys than it was created for (from `build`, `add` or version 0.1) reports nearly all new
 * keys as seen. Such a filter cannot be used, so the run ends at the first line.
 */
struct drops {
    bg_filter *filter;
    uint64_t before;             /* number of keys in the filter at the start */
    double rate;                 /* the stated rate */
    struct drops_sum past;       /* totals over the earlier runs */
    atomic_uint_fast64_t unique; /* number of new keys in this run */
    atomic_bool full;            /* a new key was refused */

    /* Private. */
    pthread_rwlock_t looking; /* read-locked by adds, write-locked by measurements */
    atomic_uint_fast64_t granted;
    bool closed;         /* the filter accepts no more keys */
    uint64_t looked;     /* value of `unique` at the last measurement */
    bg_filter_info info; /* filter info at the last measurement */
    double
        wrong; /* expected number of wrongly dropped lines up to the last measurement */
};

enum {
    DROPS_WORD = 64,
    DROPS_STEPS = 16,
    DROPS_SAMPLE = 4 << 20 /* number of bytes sampled from each part of the filter */
};

static const double drops_slack = 0.5; /* lines */

static double drops_odds(double rate)
{
    return rate / (rate < 0.999999 ? 1 - rate : 1e-6);
}

/* Returns how many new keys the budget allows if the rate is twice the measured rate. */
static double drops_affordable(const struct drops *d)
{
    const double allowed =
        d->rate * ((double)d->past.unique + (double)atomic_load(&d->unique));
    const double least = d->info.kind == BG_KIND_WINDOW ? drops_slack : 0;
    const double budget = fmax(allowed, least) - d->past.wrong - d->wrong;
    const double excess = 2 * drops_odds(d->info.rate) - d->rate;
    return excess > 0 ? budget / excess : HUGE_VAL;
}

/* Returns how many new keys may be added before the next measurement; less than 1 means none. */
static double drops_step(const struct drops *d)
{
    const double capacity = (double)bg_filter_capacity(d->filter);
    const double inside =
        capacity - (double)d->before - (double)atomic_load(&d->unique);
    const double some = fmax(capacity / DROPS_STEPS, 1);
    switch (d->info.kind) {
    case BG_KIND_SCALABLE:
        return d->info.saturated ? fmin(some, drops_affordable(d))
                                 : fmax(some, inside / 4);
    case BG_KIND_WINDOW:
        return d->info.rate <= d->rate ? some : fmin(some, drops_affordable(d));
    default:
        return inside >= 1 && d->info.rate <= d->rate ? fmax(inside / 4, 1)
                                                      : fmin(some, drops_affordable(d));
    }
}

static void drops_look_at(struct drops *d, uint64_t sample)
{
    bg_filter_info info = { .struct_size = sizeof info };
    const uint64_t unique = atomic_load(&d->unique);
    if (bg_filter_sample_info(d->filter, sample, &info)) {
        return;
    }
    d->wrong += (drops_odds(d->info.rate) + drops_odds(info.rate)) / 2
                * (double)(unique - d->looked);
    d->info = info;
    d->looked = unique;
}

/* Measures the rate of the whole filter. Must not run concurrently with drops_add. */
static void drops_look(struct drops *d)
{
    drops_look_at(d, 0);
}

/* Returns the totals over the earlier runs and this run, up to the last measurement. */
static struct drops_sum drops_total(const struct drops *d)
{
    return (struct drops_sum){ .unique = d->past.unique + atomic_load(&d->unique),
                               .wrong = d->past.wrong + d->wrong };
}

/* Returns whether a full filter can still be used to drop lines whose keys were seen before. The
 * first line that is reported new ends the run. The expected number of new lines dropped before
 * that line is r / (1 - r), which grows without bound as r approaches 1, so a filter with a high
 * rate cannot be used. A full window cannot be used either, because a key that is seen again has to
 * be added again to stay in the window, and a full filter accepts no keys. */
static bool drops_may_skip(const struct drops *d)
{
    return d->info.kind != BG_KIND_WINDOW && drops_odds(d->info.rate) <= drops_slack;
}

/* Grants more keys, unless another thread has just done so. Returns false if the filter is full. */
static bool drops_grant(struct drops *d)
{
    (void)pthread_rwlock_wrlock(&d->looking);
    if (atomic_load(&d->granted) == 0 && !d->closed) {
        drops_look_at(d, DROPS_SAMPLE);
        const double step = drops_step(d);
        d->closed = !(step >= 1) && d->info.kind != BG_KIND_WINDOW;
        d->wrong += d->closed && drops_may_skip(d) ? drops_odds(d->info.rate) : 0;
        atomic_store(&d->granted, step >= 1 ? (uint64_t)step : 0);
    }
    const bool granted = atomic_load(&d->granted) > 0;
    (void)pthread_rwlock_unlock(&d->looking);
    return granted;
}

/* Takes up to `most` keys from the grant, and returns the number taken. */
static size_t drops_take(struct drops *d, size_t most)
{
    uint_fast64_t granted = atomic_load(&d->granted);
    size_t taken;
    do {
        taken = granted < most ? (size_t)granted : most;
    } while (!atomic_compare_exchange_weak(&d->granted, &granted, granted - taken));
    return taken;
}

static void drops_answer(struct chunk *chunk, size_t i, bool is_new)
{
    uint64_t *word = &chunk->answers[i / DROPS_WORD];
    *word = i % DROPS_WORD ? *word : 0;
    *word |= (uint64_t)is_new << (i % DROPS_WORD);
}

/* Adds up to `taken` keys starting at `from`. Adds whole groups of 64 keys if possible. Adds keys
 * one by one if `from` is inside a group, or if fewer keys than a group were granted. Returns the
 * number of keys added. */
static size_t drops_add_taken(struct drops *d, struct chunk *chunk, size_t from,
                              size_t taken, size_t *news)
{
    const size_t inside = from % DROPS_WORD;
    const bool all = taken == chunk->count - from;
    if (!inside && (all || taken >= DROPS_WORD)) {
        const size_t n = all ? taken : taken / DROPS_WORD * DROPS_WORD;
        const bg_keys keys = bg_keys_hashes(chunk->hashes + from, n);
        (void)!bg_filter_add_forced(d->filter, keys, chunk->answers + from / DROPS_WORD,
                                    news);
        return n;
    }
    const size_t n = taken < DROPS_WORD - inside ? taken : DROPS_WORD - inside;
    *news = 0;
    for (size_t i = from; i < from + n; i++) {
        size_t is_new = 0;
        (void)!bg_filter_add_forced(d->filter, bg_keys_hashes(&chunk->hashes[i], 1),
                                    NULL, &is_new);
        drops_answer(chunk, i, is_new);
        *news += is_new;
    }
    return n;
}

static size_t drops_add_some(struct drops *d, struct chunk *chunk, size_t from,
                             size_t *all_news)
{
    size_t done = 0, news = 0;
    (void)pthread_rwlock_rdlock(&d->looking);
    const size_t taken = drops_take(d, chunk->count - from);
    if (taken) {
        done = drops_add_taken(d, chunk, from, taken, &news);
        (void)atomic_fetch_add(&d->granted, taken - news);
        (void)atomic_fetch_add(&d->unique, news);
        *all_news += news;
    }
    (void)pthread_rwlock_unlock(&d->looking);
    return done;
}

/* Returns how many consecutive keys starting at `from` the filter may contain. */
static size_t drops_skip_seen(const struct drops *d, struct chunk *chunk, size_t from)
{
    size_t i = from;
    while (drops_may_skip(d) && i < chunk->count
           && bg_filter_may_contain_hash(d->filter, chunk->hashes[i])) {
        drops_answer(chunk, i++, false);
    }
    return i - from;
}

/*
 * Adds the keys of a chunk by their hashes, and sets the answer bit of each key that is new.
 * Returns the number of new keys. If the filter is full, the chunk is truncated before the first
 * key that was refused, and `full` is set. Thread safety: thread-safe if adding to the filter is
 * thread-safe.
 */
static size_t drops_add(struct drops *d, struct chunk *chunk)
{
    size_t news = 0;
    for (size_t done = 0; done < chunk->count;) {
        size_t n = drops_add_some(d, chunk, done, &news);
        if (n == 0 && !drops_grant(d)) {
            n = drops_skip_seen(d, chunk, done);
            if (n == 0) {
                atomic_store(&d->full, true);
                chunk->count = done;
            }
        }
        done += n;
    }
    return news;
}

/* `before` is the number of keys already in the filter. */
static void drops_begin(struct drops *d, bg_filter *filter, uint64_t before,
                        double rate, struct drops_sum past)
{
    *d = (struct drops){ .filter = filter,
                         .before = before,
                         .rate = rate,
                         .past = past,
                         .info = { .struct_size = sizeof d->info } };
    (void)pthread_rwlock_init(&d->looking, NULL);
    drops_look_at(d, DROPS_SAMPLE);
}

static void drops_end(struct drops *d)
{
    if (d->filter) {
        (void)pthread_rwlock_destroy(&d->looking);
        d->filter = NULL;
    }
}

struct dedup {
    const struct dedup_options *options;
    struct key_format format;
    struct input input;
    struct seen seen;
    const bg_hasher *hasher;
    FILE *stats;
    struct drops drops;
    pthread_mutex_t turn; /* with --unordered, protects the fields below and stdout */
    uint64_t lines, selected;
    uint64_t keyless; /* lines without the field that contains the key */
};

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* The result of adding a chunk: the numbers of new keys, and of lines without a key. */
struct dedup_sum {
    size_t news, keyless;
};

static void dedup_account(struct dedup *d, const struct chunk *chunk,
                          struct dedup_sum sum)
{
    const size_t firsts = sum.news + sum.keyless;
    d->lines += chunk->count;
    d->keyless += sum.keyless;
    d->selected += d->options->duplicates ? chunk->count - firsts : firsts;
}

/* Moves the hashes of lines with keys to the start of the array. Returns the number of these
 * lines. */
static size_t dedup_pack(struct chunk *chunk)
{
    size_t n = 0;
    for (size_t i = 0; i < chunk->count; i++) {
        if (!keys_are_missing(chunk, i)) {
            chunk->hashes[n++] = chunk->hashes[i];
        }
    }
    return n;
}

/* Moves the answers for the first n lines that have keys to the positions of these lines. Lines
 * without a key count as new. Proceeds from the end, so that no answer is overwritten before it is
 * moved. */
static void dedup_unpack(struct chunk *chunk, size_t n)
{
    uint64_t *bits = chunk->answers;
    for (size_t i = chunk->count; i-- > 0;) {
        const bool keyless = keys_are_missing(chunk, i);
        n -= !keyless;
        const uint64_t bit = keyless ? 1 : bits[n / DROPS_WORD] >> n % DROPS_WORD & 1;
        bits[i / DROPS_WORD] &= ~(UINT64_C(1) << i % DROPS_WORD);
        bits[i / DROPS_WORD] |= bit << i % DROPS_WORD;
    }
}

/* Adds the keys of a chunk. A line without the field has no key: it is not added, and is always
 * treated as new. */
static struct dedup_sum dedup_add(struct dedup *d, struct chunk *chunk)
{
    if (!chunk->odd.missing) {
        return (struct dedup_sum){ drops_add(&d->drops, chunk), 0 };
    }
    const size_t all = chunk->count, keyed = dedup_pack(chunk);
    chunk->count = keyed;
    const size_t news = drops_add(&d->drops, chunk), added = chunk->count;
    chunk->count = all;
    if (added
        < keyed) { /* full: the chunk ends before the first key that was refused */
        size_t end = 0;
        for (size_t n = 0; keys_are_missing(chunk, end) || n < added; end++) {
            n += !keys_are_missing(chunk, end);
        }
        chunk->count = end;
    }
    dedup_unpack(chunk, added);
    return (struct dedup_sum){ news, chunk->count - added };
}

static bool dedup_hash(struct flow *flow, struct chunk *chunk)
{
    const struct dedup *d = flow->context;
    if (!chunk_reserve_hashes(chunk, chunk->count)
        || !chunk_reserve_answers(chunk, chunk->count)) {
        return flow_fail(flow, CLI_FULL);
    }
    bg_hash_many(d->hasher, bg_keys_bytes(chunk->keys, chunk->count), chunk->hashes);
    return true;
}

/* Returns false if the filter is full, which ends the run. */
static bool dedup_goes_on(struct flow *flow)
{
    const struct dedup *d = flow->context;
    return !d->drops.full || flow_fail(flow, CLI_FULL);
}

/* If the filter becomes full, the chunk is truncated but still written, and then the run ends. */
static bool dedup_deliver(struct flow *flow, struct chunk *chunk)
{
    struct dedup *d = flow->context;
    if (!dedup_goes_on(flow)) {
        return false;
    }
    dedup_account(d, chunk, dedup_add(d, chunk));
    return (flow->write && chunk->count > 0) || dedup_goes_on(flow);
}

/* Moves the selected records to the start of the chunk. This overwrites the chunk's keys. */
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
    return dedup_print(flow, chunk) && dedup_goes_on(flow);
}

/* Performs all steps for a chunk, in parallel with other threads. */
static bool dedup_unordered(struct flow *flow, struct chunk *chunk)
{
    struct dedup *d = flow->context;
    if (!dedup_hash(flow, chunk)) {
        return false;
    }
    const struct dedup_sum sum = dedup_add(d, chunk);
    dedup_select(d, chunk);
    (void)pthread_mutex_lock(&d->turn);
    dedup_account(d, chunk, sum);
    const bool good = d->options->count || dedup_print(flow, chunk);
    (void)pthread_mutex_unlock(&d->turn);
    return good && dedup_goes_on(flow);
}

/* ---- Summary --------------------------------------------------------------------------------- */

static uint64_t dedup_dropped(const struct dedup *d)
{
    return d->lines - d->drops.unique - d->keyless;
}

/* Returns the expected number of wrongly dropped lines, limited to the number of dropped lines. */
static double dedup_wrong(const struct dedup *d)
{
    const double dropped = (double)dedup_dropped(d);
    return d->drops.wrong < dropped ? d->drops.wrong : dropped;
}

/* Returns the expected share of new lines that were dropped. If no line was reported new, the share
 * is the current rate: of the lines whose keys a full filter reports as seen, an expected r / (1 -
 * r) lines are new (drops_grant), which would be 100% of the new lines. */
static double dedup_wrong_share(const struct dedup *d)
{
    const double wrong = dedup_wrong(d), unique = (double)d->drops.unique;
    return !(wrong > 0) ? 0
           : unique > 0 ? wrong / (unique + wrong)
                        : d->drops.info.rate;
}

/* "1.6 expected (0.0002%)" */
static const char *dedup_show_wrong(const struct dedup *d, char text[2 * NUMBER_TEXT])
{
    const double wrong = dedup_wrong(d);
    if (wrong < 0.01) {
        return "fewer than 0.01 expected";
    }
    char few[NUMBER_TEXT];
    (void)snprintf(few, sizeof few, "%.2g", wrong);
    (void)snprintf(text, 2 * NUMBER_TEXT, "%s expected (%s)",
                   wrong < 99.5 ? few : COUNT_TEXT((uint64_t)(wrong + 0.5)),
                   RATE_TEXT(dedup_wrong_share(d)));
    return text;
}

static void dedup_tell(const struct dedup *d, const bg_filter_info *info)
{
    char wrong[2 * NUMBER_TEXT];
    say_note("%s line%s, %s unique, %s %s; wrongly dropped: %s; %s filter, %s",
             COUNT_TEXT(d->lines), d->lines == 1 ? "" : "s",
             COUNT_TEXT(d->drops.unique), COUNT_TEXT(dedup_dropped(d)),
             d->options->duplicates ? "seen before" : "dropped",
             dedup_show_wrong(d, wrong), bg_kind_name(info->kind),
             BYTES_TEXT(bg_filter_size_bytes(d->seen.filter)));
    if (filter_misses_rate(info)) {
        say_warning("the filter %s; new lines are wrongly dropped at that rate",
                    filter_show_rate(info, (char[FILTER_RATE_TEXT]){ "" }));
    }
}

static int dedup_write_stats(const struct dedup *d, const bg_filter_info *info)
{
    struct json json;
    json_begin_to(&json, d->stats, "bloomgate.dedup.1");
    json_count(&json, "lines", d->lines);
    json_count(&json, "unique", d->drops.unique);
    json_count(&json, "duplicates", dedup_dropped(d));
    json_count(&json, "without_key", d->keyless);
    json_real(&json, "wrongly_dropped_expected", dedup_wrong(d));
    json_real(&json, "wrongly_dropped_share", dedup_wrong_share(d));
    json_text(&json, "kind", bg_kind_name(info->kind));
    json_count(&json, "filter_bytes", bg_filter_size_bytes(d->seen.filter));
    json_real(&json, "filter_items", info->items.value);
    json_count(&json, "filter_design_items", info->design_items);
    json_real(&json, "filter_rate", info->rate);
    json_bool(&json, "overfull", filter_misses_rate(info));
    json_end(&json);
    const bool good = fflush(d->stats) == 0 && !ferror(d->stats);
    return good ? CLI_OK : say_errno(d->options->stats);
}

/* Writes statistics, then saves the state: if the former fails, the old state is kept. */
static int dedup_finish(struct dedup *d)
{
    const bool reports = !say_is_quiet() || d->options->stats;
    if (reports || *d->seen.window) { /* a window's state includes the totals */
        drops_look(&d->drops);
    }
    int code = d->options->stats ? dedup_write_stats(d, &d->drops.info) : CLI_OK;
    code = code ? code : seen_save(&d->seen, &d->format, drops_total(&d->drops));
    if (!code && reports) {
        dedup_tell(d, &d->drops.info);
    }
    return code;
}

/* ---- Command --------------------------------------------------------------------------------- */

static unsigned dedup_threads(const struct dedup_options *o)
{
    const unsigned threads = flow_threads(o->threads);
    return !o->threads && threads > DEDUP_THREADS ? DEDUP_THREADS : threads;
}

static int dedup_flow(struct dedup *d)
{
    const struct dedup_options *o = d->options;
    struct flow flow = { .input = &d->input,
                         .format = &d->format,
                         .threads = dedup_threads(o),
                         .keyless = "they are not compared",
                         .header = o->count ? NULL : flow_print_header,
                         .work = dedup_hash,
                         .deliver = dedup_deliver,
                         .write = o->count ? NULL : dedup_write,
                         .context = d };
    if (o->seen.unordered) {
        flow.work = dedup_unordered;
        flow.deliver = flow.write = NULL;
    }
    return flow_once(&flow, "reading");
}

/* Reports that the filter is full. The advice depends on the cause. */
static int dedup_say_full(const struct dedup *d)
{
    const struct seen_options *o = &d->options->seen;
    const bg_filter_info *info = &d->drops.info;
    const char *advice = info->kind == BG_KIND_SCALABLE ? "out of memory"
                         : d->seen.file.path ? "start a new state with a larger --items"
                         : o->memory         ? "use a larger --memory"
                         : o->unordered || o->window
                             ? "use a larger --items"
                             : "use a larger --items, or omit it so that the filter "
                               "grows";
    return say_full("stopped after %s line%s: the filter is full (about %s keys), and "
                    "more than %s of new lines would be dropped; %s",
                    COUNT_TEXT(d->lines), d->lines == 1 ? "" : "s",
                    COUNT_TEXT((uint64_t)info->items.value), RATE_TEXT(d->drops.rate),
                    advice);
}

/* The filter contains the keys of exactly the lines that were written, so a run that was
 * interrupted or stopped by a full filter saves its state. After any other error, the state is
 * not saved, because it is unknown which lines have been written. */
static int dedup_run(struct dedup *d)
{
    d->hasher = bg_filter_hasher(d->seen.filter);
    drops_begin(&d->drops, d->seen.filter, d->seen.keys, d->seen.rate, d->seen.past);
    const int flowed = dedup_flow(d);
    /* Delivered chunks are still written after the flow has stopped, and writing them can fail. */
    const int ran = out_code() ? out_code() : flowed;
    const bool full = d->drops.full && (!ran || ran == CLI_FULL);
    const int code = full ? dedup_say_full(d) : ran;
    if (code && !full && !(code == CLI_INTERRUPTED && d->options->seen.state)) {
        return code;
    }
    if (d->options->count) {
        printf("%" PRIu64 "\n", d->selected);
        const int printed = out_finish(CLI_OK);
        if (printed) {
            return printed;
        }
    }
    const int finished = dedup_finish(d);
    return finished ? finished : code;
}

/* Opens the statistics file before any input is read, so that errors are reported at the start, not
 * hours later. The file must not be one of the inputs, because opening it would truncate it. */
static int dedup_open_stats(struct dedup *d)
{
    const struct dedup_options *o = d->options;
    const bool is_state =
        o->stats && o->seen.state
        && (input_is_same_file(o->stats, o->seen.state)
            || claim_holds(o->stats)); /* the state file may not exist yet */
    if (is_state || (o->stats && input_reads(&d->input, o->stats))) {
        return say_usage("--stats %s: this file is also an input or the --state file; "
                         "choose another file",
                         o->stats);
    }
    if (o->stats && secret_is_keyring(o->stats)) {
        return say_usage("--stats %s: this file is a keyring and would be overwritten; "
                         "choose another file",
                         o->stats);
    }
    d->stats = o->stats ? fopen(o->stats, "we") : NULL;
    return o->stats && !d->stats ? say_errno(o->stats) : CLI_OK;
}

static int dedup_begin(struct dedup *d, const struct arguments *arguments)
{
    const struct dedup_options *o = d->options;
    if (o->stats && strcmp(o->stats, "-") == 0) {
        return say_usage("--stats -: stdout is reserved for lines; use a file or "
                         "/dev/stderr");
    }
    if (o->seen.state && strcmp(o->seen.state, "-") == 0) {
        return say_usage("--state -: expected a file, not stdin or stdout");
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
    d.seen.threads = dedup_threads(d.options);
    int code = dedup_begin(&d, arguments);
    code = code ? code : dedup_run(&d);
    if (d.stats) {
        (void)fclose(d.stats);
    }
    drops_end(&d.drops);
    seen_end(&d.seen);
    input_end(&d.input);
    return code;
}

const struct command command_dedup = {
    .name = "dedup",
    .summary = "print the first occurrence of each line",
    .usage = "[options] [KEYS...]",
    .about =
        "Reads lines from files, or from stdin, and prints the first occurrence of "
        "each line, in order. This is what awk '!seen[$0]++' does, in a fraction of "
        "the memory. Lines are remembered in a filter, which reports a small share "
        "of new lines as already seen; these lines are dropped. The expected number "
        "of wrongly dropped lines is reported at the end, unless -q is set.\n\nBy "
        "default, the filter grows with the number of distinct lines and has a "
        "false-positive rate of 1 in 1,000,000. It takes about 6 bytes per line, and "
        "temporarily up to twice as much. --items sizes the filter for a fixed "
        "number of lines, and --memory fixes its size in bytes, which must suffice "
        "for --items at a rate of 1%. When a fixed-size filter is so full that more "
        "new lines than --rate allows would be dropped, dedup stops with exit code 5. "
        "All lines up to that point are "
        "printed.\n\n--window remembers only the last N keys (possibly up to N/7 "
        "more), or the keys seen within a time period; each occurrence of a key "
        "renews it. A time period requires --items, and the time between runs does "
        "not count.\n\n--state loads the filter from an earlier run, and saves it "
        "atomically at the end, even if the command is interrupted or the filter is "
        "full: the state then contains exactly the lines that were printed. After "
        "any other error, the old state is kept. Keys must be extracted and hashed "
        "in the same way in all runs. The size and rate of a state cannot change: "
        "dedup rejects --items, --rate and --memory if the state does not satisfy "
        "them.\n\nWith --unordered, each thread adds and prints lines independently. "
        "Exactly one of several equal lines is printed, but not always the first. "
        "This mode uses a filter of kind register, which does not grow, at a rate of "
        "1 in 100,000 by default. Without --items and --memory, uncompressed regular "
        "files are read twice, the first time to count their lines. Piped input and "
        "a new --state file require --items or --memory.",
    .size = sizeof(struct dedup_options),
    .uses = { OPT_GROUP("Output", dedup_table),
              { &seen_options_group, offsetof(struct dedup_options, seen) },
              { &key_options_group, offsetof(struct dedup_options, keys) },
              { &hash_options_group, offsetof(struct dedup_options, hash) } },
    .examples = { { "bloomgate dedup access.log > unique.log",
                    "print each line once, in order" },
                  { "tail -F app.log | bloomgate dedup -w 10m -n 1M --field 2 "
                    "--delimiter ' '",
                    "print lines whose second field has not occurred for ten "
                    "minutes" } },
    .run = dedup_command,
};
