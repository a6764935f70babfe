/*
 * cmd_bench.c - bloomgate bench: compares all kinds of filters using the user's keys.
 *
 * Up to --most distinct keys are kept in memory, and keys that are definitely absent are derived
 * from them. Then a filter of each kind is built and queried (timing.h). The lookups also verify
 * that no key is lost.
 */
#include "bench_rows.h"
#include "command.h"
#include "filter_file.h"
#include "flow.h"
#include "key_pool.h"
#include "nearest.h"
#include "out.h"
#include "spec_options.h"
#include "stop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct bench_options {
    struct common common;
    struct key_options keys;
    struct hash_options hash;
    struct option_list kinds;
    double rate;
    uint64_t most;
    const char *plot;
    bool json, force;
};

enum { BENCH_MAX = 1000000 };

#define OPT_STRUCT struct bench_options
static const struct option bench_table[] = {
    OPT_LIST("kind", 'k', kinds, "KIND", "measure only this kind; may be repeated"),
    OPT_RATE("rate", 'p', rate, "P", "false-positive rate (default: 1%)"),
    OPT_COUNT("most", 'm', most, "N",
              "maximum number of distinct keys in memory (default: 1M)"),
    OPT_FLAG("json", 0, json, "print JSON"),
    OPT_TEXT("plot", 0, plot, "FILE.svg", "write charts to FILE.svg"),
    OPT_FLAG("force", 'f', force, "overwrite FILE.svg"),
    OPT_END,
};
static const struct option_group bench_group = { "Measuring", bench_table };

struct bench {
    const struct bench_options *options;
    struct key_format format;
    struct secret secret;
    struct key_pool pool;
    uint64_t most;
    bg_bytes *absent;
    char *absent_memory;
    struct progress progress;
    struct bench_rows rows;
};

/* ---- Keys --------------------------------------------------------------------------------- */

static bool bench_keep(struct flow *flow, struct chunk *chunk)
{
    struct bench *b = flow->context;
    for (size_t i = 0; i < chunk->count; i++) {
        if (b->pool.count == b->most && !key_pool_has(&b->pool, chunk->keys[i])) {
            b->rows.cut = true;
            return flow_fail(flow, CLI_OK);
        }
        if (!key_pool_add(&b->pool, chunk->keys[i])) {
            return flow_fail(flow, say_failed(CLI_FULL,
                                              "out of memory after %zu keys; use a "
                                              "smaller --most",
                                              b->pool.count));
        }
        b->rows.records++;
    }
    return true;
}

static int bench_read(struct bench *b, const struct arguments *arguments)
{
    struct flow flow = {
        .format = &b->format, .threads = 1, .work = bench_keep, .context = b
    };
    int code = flow_files(&flow, arguments->items, arguments->count,
                          b->options->keys.raw, "reading", b->options->common.progress);
    if (!code && !b->pool.count) {
        code = say_failed(CLI_DATA, "the input contains no keys");
    }
    return code;
}

static int bench_make_absent(struct bench *b)
{
    if (!key_pool_absent(&b->pool, &b->absent, &b->rows.absent, &b->absent_memory)) {
        return say_failed(CLI_FULL, "out of memory; use a smaller --most");
    }
    b->rows.keys = b->pool.count;
    b->rows.key_bytes = (double)b->pool.bytes / (double)b->pool.count;
    return CLI_OK;
}

/* ---- Measuring ------------------------------------------------------------------------------ */

static bool bench_row(struct bench *b, struct bench_row *row)
{
    bg_window_options window = BG_WINDOW_OPTIONS_INIT;
    bg_errinfo why;
    struct measure_task task = { .spec = BG_SPEC_INIT,
                                 .present = { b->pool.keys, 0, b->pool.count },
                                 .absent = { b->absent, 0, b->rows.absent },
                                 .build_passes = BENCH_PASSES,
                                 .lookup_passes = BENCH_PASSES };
    task.spec.kind = (uint32_t)row->kind;
    task.spec.items = b->pool.count;
    task.spec.rate = b->rows.rate;
    task.spec.hash = b->secret.hash;
    if (row->kind == BG_KIND_WINDOW) { /* make the window large enough for all keys */
        window.count = b->pool.count;
        task.spec.window = &window;
    }
    row->err = measure_kind(&task, &row->result, &why);
    plan_words(&why, row->why);
    return row->err != BG_ECANCELED;
}

static int bench_measure(struct bench *b)
{
    int code = CLI_OK;
    const uint64_t all = b->pool.bytes * b->rows.count;
    progress_begin(&b->progress, "measuring",
                   (enum say_when)b->options->common.progress);
    for (size_t i = 0; i < b->rows.count && !code; i++) {
        if (stop_wanted() || !bench_row(b, &b->rows.rows[i])) {
            code = CLI_INTERRUPTED;
        }
        progress_tick(&b->progress, b->pool.bytes * (i + 1), all);
    }
    progress_end(&b->progress);
    return code;
}

/* ---- Command ---------------------------------------------------------------------------------- */

static int bench_read_kinds(struct bench *b)
{
    static const bg_kind all[] = {
#define BENCH_KIND(NAME, number, name) BG_KIND_##NAME,
        BG_KINDS(BENCH_KIND)
#undef BENCH_KIND
    };
    static const char *const names[] = {
#define BENCH_NAME(NAME, number, name) #name,
        BG_KINDS(BENCH_NAME)
#undef BENCH_NAME
    };
    bool wanted[BENCH_KINDS] = { false };
    const struct option_list *kinds = &b->options->kinds;
    for (size_t i = 0; i < kinds->count; i++) {
        bg_kind kind = BG_KIND_AUTO;
        if (!bg_kind_parse(kinds->items[i], &kind) || kind == BG_KIND_AUTO) {
            const char *near = nearest_name(kinds->items[i], names, BENCH_KINDS);
            return say_usage("--kind: found '%s', expected a kind of filter such as "
                             "blocked%s%s%s",
                             kinds->items[i], near ? "; did you mean " : "",
                             near ? near : "", near ? "?" : "");
        }
        wanted[kind - 1] = true;
    }
    for (size_t i = 0; i < BENCH_KINDS; i++) {
        if (wanted[i] || !kinds->count) {
            b->rows.rows[b->rows.count++].kind = all[i];
        }
    }
    return CLI_OK;
}

static int bench_prepare(struct bench *b)
{
    const struct bench_options *o = b->options;
    b->most = o->most ? o->most : BENCH_MAX;
    b->rows.rate = o->rate > 0 ? o->rate : 0.01;
    if (b->most > KEY_POOL_MAX) {
        return say_usage("--most: found %" PRIu64 ", expected at most %d", b->most,
                         KEY_POOL_MAX);
    }
    int code = bench_read_kinds(b);
    code = code ? code : keys_format(&o->keys, &b->format);
    code = code ? code : secret_current(&o->hash, &b->secret);
    code = code || !o->plot ? code : filter_may_write(o->plot, o->force);
    b->rows.hash = bg_hash_name((bg_hash_profile)b->secret.hash.profile);
    return code || key_pool_begin(&b->pool) ? code
                                            : say_failed(CLI_FULL, "out of memory");
}

/* Fails if keys were lost, which indicates a bug, or if no kind could be measured. */
static int bench_check(const struct bench *b)
{
    int code = CLI_OK;
    size_t refused = 0;
    for (size_t i = 0; i < b->rows.count; i++) {
        const struct bench_row *row = &b->rows.rows[i];
        refused += row->err != BG_OK;
        if (!row->err && row->result.lost) {
            code = say_failed(CLI_DATA,
                              "%s: %" PRIu64 " keys were lost; please report this bug",
                              bg_kind_name(row->kind), row->result.lost);
        }
    }
    const struct bench_row *first = &b->rows.rows[0];
    return refused < b->rows.count ? code
                                   : say_failed(say_code(first->err), "%s: %s",
                                                bg_kind_name(first->kind), first->why);
}

static int bench_run(struct bench *b, const struct arguments *arguments)
{
    int code = bench_prepare(b);
    code = code ? code : bench_read(b, arguments);
    code = code ? code : bench_make_absent(b);
    code = code ? code : bench_measure(b);
    if (code) {
        return code;
    }
    if (b->options->json) {
        bench_print_json(&b->rows);
    } else {
        bench_print(&b->rows);
    }
    code = bench_check(b);
    return code || !b->options->plot ? code : bench_plot(&b->rows, b->options->plot);
}

static int bench_command(void *options, const struct arguments *arguments)
{
    static struct bench b;
    b.options = options;
    const int code = bench_run(&b, arguments);
    key_pool_end(&b.pool);
    free(b.absent);
    free(b.absent_memory);
    secret_free(&b.secret);
    return out_finish(code);
}

const struct command command_bench = {
    .name = "bench",
    .summary = "measure all kinds of filters with your keys",
    .usage = "[options] [KEYS...]",
    .about =
        "Reads keys from files, or from stdin, builds a filter of each kind from "
        "them, and reports the results for this machine: the build time per key; the "
        "lookup time for batches of present keys, for batches of absent keys, and "
        "for single keys (half of them absent); the bits per key; and the measured "
        "and predicted false-positive rates. Times are in nanoseconds of CPU time "
        "per key for one thread, including hashing. Each time is the median of 5 "
        "passes.\n\nAt most --most distinct keys are kept in memory; the rest of the "
        "input is not read. Duplicate keys are ignored. Absent keys are created by "
        "appending two bytes, 01 and 7f, to each key; a result that is also an input "
        "key is skipped.\n\nIf a filter answers \"no\" for a key that was added to "
        "it, which would be a bug, the command reports the error and exits with code "
        "3.",
    .size = sizeof(struct bench_options),
    .uses = { { &bench_group, 0 },
              { &key_options_group, offsetof(struct bench_options, keys) },
              { &hash_options_group, offsetof(struct bench_options, hash) } },
    .examples = { { "bloomgate bench --rate 0.1% urls.txt",
                    "find the fastest kind for these keys" },
                  { "bloomgate bench -k blocked -k fuse --plot bench.svg urls.txt",
                    "compare two kinds, with charts" } },
    .run = bench_command,
};
