/*
 * cmd_bench.c - bloomgate bench: compares all kinds of filters using the user's keys.
 *
 * Up to --most distinct keys are kept in memory, and keys that are definitely absent are derived
 * from them. Then a filter of each kind is built and queried (timing.h). The lookups also verify
 * that no key is lost.
 */
#include "chart.h"
#include "columns.h"
#include "command.h"
#include "filter_file.h"
#include "flow.h"
#include "json.h"
#include "nearest.h"
#include "number.h"
#include "spec_options.h"
#include "stop.h"
#include "timing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    OPT_FLAG("json-output", 0, json, "print JSON"),
    OPT_TEXT("plot", 0, plot, "FILE.svg", "write charts to FILE.svg"),
    OPT_FLAG("force", 'f', force, "overwrite FILE.svg"),
    OPT_END,
};

enum { BENCH_PASSES = 5 };

struct bench_row {
    bg_kind kind;
    bg_err err;          /* BG_OK, or the error that prevented the measurement */
    char why[PLAN_TEXT]; /* the error message, which refers to options by name */
    struct measured result;
};

/* ---- Pool of keys ---------------------------------------------------------------------------- */

/* A set of distinct keys. Keys are stored in blocks and never move. The table contains key indexes
 * and is at most half full. */

enum { POOL_BLOCK = 1 << 20, POOL_FIRST = 1024 };

struct key_pool_block {
    struct key_pool_block *next;
    size_t used, room;
    char bytes[];
};

struct key_pool {
    bg_bytes *keys;
    size_t count, room;
    uint64_t bytes;  /* total length of all keys */
    uint32_t *slots; /* hash table of 1-based key indexes */
    size_t slot_count;
    struct key_pool_block *blocks;
    bg_hasher hasher;
};

enum { KEY_POOL_MAX = INT32_MAX }; /* keys */

/* Returns false if out of memory. */
static bool key_pool_begin(struct key_pool *pool)
{
    const bg_hash_spec how = { .profile = BG_HASH_FAST };
    *pool = (struct key_pool){ .slot_count = 2 * POOL_FIRST };
    pool->slots = calloc(pool->slot_count, sizeof *pool->slots);
    return pool->slots && bg_hasher_init(&pool->hasher, &how, NULL) == BG_OK;
}

static void key_pool_end(struct key_pool *pool)
{
    while (pool->blocks) {
        struct key_pool_block *next = pool->blocks->next;
        free(pool->blocks);
        pool->blocks = next;
    }
    free(pool->keys);
    free(pool->slots);
    *pool = (struct key_pool){ .keys = NULL };
}

static bool pool_same(bg_bytes a, bg_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Returns the slot of a key, or the empty slot in which to store it. */
static uint32_t *pool_slot(const struct key_pool *pool, bg_bytes key)
{
    size_t i = (size_t)bg_hash_bytes(&pool->hasher, key.data, key.len);
    for (;; i++) {
        uint32_t *slot = &pool->slots[i & (pool->slot_count - 1)];
        if (!*slot || pool_same(pool->keys[*slot - 1], key)) {
            return slot;
        }
    }
}

static bool pool_grow(struct key_pool *pool)
{
    const size_t room = pool->room ? 2 * pool->room : POOL_FIRST;
    bg_bytes *keys = realloc(pool->keys, room * sizeof *keys);
    if (!keys) {
        return false;
    }
    pool->keys = keys;
    uint32_t *slots = calloc(2 * room, sizeof *slots);
    if (!slots) {
        return false;
    }
    free(pool->slots);
    pool->slots = slots;
    pool->slot_count = 2 * room;
    pool->room = room;
    for (size_t i = 0; i < pool->count; i++) {
        *pool_slot(pool, keys[i]) = (uint32_t)i + 1;
    }
    return true;
}

static char *pool_take(struct key_pool *pool, size_t bytes)
{
    struct key_pool_block *block = pool->blocks;
    if (!block || block->room - block->used < bytes) {
        const size_t room = bytes > POOL_BLOCK ? bytes : POOL_BLOCK;
        block = malloc(sizeof *block + room);
        if (!block) {
            return NULL;
        }
        *block = (struct key_pool_block){ pool->blocks, 0, room };
        pool->blocks = block;
    }
    block->used += bytes;
    return block->bytes + block->used - bytes;
}

static bool key_pool_has(const struct key_pool *pool, bg_bytes key)
{
    return *pool_slot(pool, key) != 0;
}

/* Copies a key into the pool, unless it is already there. Returns false if out of memory. */
static bool key_pool_add(struct key_pool *pool, bg_bytes key)
{
    if (pool->count == pool->room && !pool_grow(pool)) {
        return false;
    }
    uint32_t *slot = pool_slot(pool, key);
    if (*slot) {
        return true;
    }
    char *copy = pool_take(pool, key.len);
    if (!copy) {
        return false;
    }
    if (key.len) {
        memcpy(copy, key.data, key.len);
    }
    pool->keys[pool->count++] = (bg_bytes){ copy, key.len };
    pool->bytes += key.len;
    *slot = (uint32_t)pool->count;
    return true;
}

/*
 * Creates keys that are not in the pool: each key of the pool with two bytes appended, unless the
 * resulting key is also in the pool. The absent keys therefore resemble the present keys in length
 * and content. Sets *absent to an array of keys and *memory to the block that contains their bytes;
 * the caller frees both. Returns false if out of memory.
 */
static bool key_pool_absent(const struct key_pool *pool, bg_bytes **absent,
                            size_t *count, char **memory)
{
    static const char more[2] = { '\x01', '\x7f' }; /* few keys end with these bytes */
    char *to = malloc((size_t)pool->bytes + sizeof more * pool->count + 1);
    bg_bytes *keys = malloc((pool->count + 1) * sizeof *keys);
    *memory = to;
    *absent = keys;
    *count = 0;
    if (!to || !keys) {
        return false;
    }
    for (size_t i = 0; i < pool->count; i++) {
        const bg_bytes key = pool->keys[i];
        if (key.len) {
            memcpy(to, key.data, key.len);
        }
        memcpy(to + key.len, more, sizeof more);
        const bg_bytes made = { to, key.len + sizeof more };
        if (!key_pool_has(pool, made)) {
            keys[(*count)++] = made;
            to += made.len;
        }
    }
    return true;
}

struct bench {
    const struct bench_options *options;
    struct key_format format;
    struct secret secret;
    struct key_pool pool;
    uint64_t most;
    bg_bytes *absent;
    char *absent_memory;
    struct progress progress;

    double rate;
    uint64_t records;          /* records read */
    size_t keys, absent_count; /* number of distinct keys; number of absent keys */
    double key_bytes;          /* mean length */
    bool cut;                  /* reading stopped at --most keys; there is more input */
    const char *hash;          /* name of the hash profile */
    struct bench_row rows[PLAN_KINDS];
    size_t count;
};

/* ---- Keys ------------------------------------------------------------------------------------ */

static bool bench_keep(struct flow *flow, struct chunk *chunk)
{
    struct bench *b = flow->context;
    for (size_t i = 0; i < chunk->count; i++) {
        if (b->pool.count == b->most && !key_pool_has(&b->pool, chunk->keys[i])) {
            b->cut = true;
            return flow_fail(flow, CLI_OK);
        }
        if (!key_pool_add(&b->pool, chunk->keys[i])) {
            return flow_fail(flow, say_full("out of memory after %zu keys; use a "
                                            "smaller --most",
                                            b->pool.count));
        }
        b->records++;
    }
    return true;
}

static int bench_read(struct bench *b, const struct arguments *arguments)
{
    struct flow flow = {
        .format = &b->format, .threads = 1, .work = bench_keep, .context = b
    };
    int code = flow_files(&flow, arguments->items, arguments->count,
                          b->options->keys.raw, "reading");
    if (!code && !b->pool.count) {
        code = say_data("the input contains no keys");
    }
    return code;
}

static int bench_make_absent(struct bench *b)
{
    if (!key_pool_absent(&b->pool, &b->absent, &b->absent_count, &b->absent_memory)) {
        return say_full("out of memory; use a smaller --most");
    }
    b->keys = b->pool.count;
    b->key_bytes = (double)b->pool.bytes / (double)b->pool.count;
    return CLI_OK;
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static bool bench_row(struct bench *b, struct bench_row *row)
{
    bg_errinfo why;
    struct measure_task task = { .spec = BG_SPEC_INIT,
                                 .present = { b->pool.keys, 0, b->pool.count },
                                 .absent = { b->absent, 0, b->absent_count },
                                 .build_passes = BENCH_PASSES,
                                 .lookup_passes = BENCH_PASSES };
    task.spec.kind = (uint32_t)row->kind;
    task.spec.items = b->pool.count;
    task.spec.rate = b->rate;
    task.spec.hash = b->secret.hash;
    row->err = measure_kind(&task, &row->result, &why);
    plan_explain(spec_words, &why, row->why);
    return row->err != BG_ECANCELED;
}

static int bench_measure(struct bench *b)
{
    int code = CLI_OK;
    const uint64_t all = b->pool.bytes * b->count;
    progress_begin(&b->progress, "measuring");
    for (size_t i = 0; i < b->count && !code; i++) {
        if (stop_wanted() || !bench_row(b, &b->rows[i])) {
            code = CLI_INTERRUPTED;
        }
        progress_tick(&b->progress, b->pool.bytes * (i + 1), all);
    }
    progress_end(&b->progress);
    return code;
}

static double bench_bits(const struct bench_row *row)
{
    return 8 * (double)row->result.bytes / (double)row->result.keys;
}

/* ---- Table ----------------------------------------------------------------------------------- */

static void bench_heading(const struct bench *bench)
{
    printf("%s distinct key%s from %s%s record%s, %.1f bytes on average; hash profile "
           "%s; false-positive rate %s\n"
           "times in nanoseconds of CPU time per key, one thread, median of %d "
           "passes\n\n",
           COUNT_TEXT(bench->keys), bench->keys == 1 ? "" : "s",
           bench->cut ? "the first " : "", COUNT_TEXT(bench->records),
           bench->records == 1 ? "" : "s", bench->key_bytes, bench->hash,
           RATE_TEXT(bench->rate), BENCH_PASSES);
}

static void bench_line(const struct bench_row *row, struct columns *table)
{
    const struct measured *m = &row->result;
    columns_row(table);
    columns_set(table, bg_kind_name(row->kind));
    columns_set(table, BYTES_TEXT(m->bytes));
    columns_real(table, 1, bench_bits(row));
    columns_real(table, 1, m->build_ns);
    columns_real(table, 1, m->present_ns);
    columns_real(table, 1, m->absent_ns);
    columns_real(table, 1, m->single_ns);
    columns_set(table, RATE_TEXT(m->predicted));
    columns_set(table, RATE_TEXT(m->rate.value));
}

static void bench_print(const struct bench *bench)
{
    static struct columns table;
    bench_heading(bench);
    columns_add(&table, "", "kind", true);
    columns_add(&table, "", "size", false);
    columns_add(&table, "bits", "/key", false);
    columns_add(&table, "", "build", false);
    columns_add(&table, "batches,", "present", false);
    columns_add(&table, "batches,", "absent", false);
    columns_add(&table, "one", "by one", false);
    columns_add(&table, "rate,", "predicted", false);
    columns_add(&table, "rate,", "measured", false);
    for (size_t i = 0; i < bench->count; i++) {
        const struct bench_row *row = &bench->rows[i];
        if (row->err) {
            columns_refuse(&table, bg_kind_name(row->kind), row->why);
        } else {
            bench_line(row, &table);
        }
    }
    columns_print(&table);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void bench_json_row(struct json *json, const struct bench_row *row)
{
    const struct measured *m = &row->result;
    json_object(json, NULL);
    json_text(json, "kind", bg_kind_name(row->kind));
    json_bool(json, "possible", !row->err);
    if (row->err) {
        json_text(json, "why", row->why);
    } else {
        json_count(json, "bytes", m->bytes);
        json_real(json, "bits_per_key", bench_bits(row));
        json_real(json, "build_ns", m->build_ns);
        json_real(json, "batch_present_ns", m->present_ns);
        json_real(json, "batch_absent_ns", m->absent_ns);
        json_real(json, "single_ns", m->single_ns);
        json_real(json, "predicted_rate", m->predicted);
        json_real(json, "rate", m->rate.value);
        json_real(json, "rate_low", m->rate.low);
        json_real(json, "rate_high", m->rate.high);
        json_count(json, "lost", m->lost);
    }
    json_close(json, '}');
}

static void bench_print_json(const struct bench *bench)
{
    struct json json;
    json_begin(&json, "bloomgate.bench.1");
    json_count(&json, "records", bench->records);
    json_count(&json, "keys", bench->keys);
    json_count(&json, "absent_keys", bench->absent_count);
    json_bool(&json, "cut", bench->cut);
    json_real(&json, "key_bytes", bench->key_bytes);
    json_real(&json, "rate", bench->rate);
    json_text(&json, "hash", bench->hash);
    json_text(&json, "cpu", bg_cpu_name(bg_cpu_current()));
    json_count(&json, "passes", BENCH_PASSES);
    json_list(&json, "kinds");
    for (size_t i = 0; i < bench->count; i++) {
        bench_json_row(&json, &bench->rows[i]);
    }
    json_close(&json, ']');
    json_end(&json);
}

/* ---- Charts ---------------------------------------------------------------------------------- */

static int bench_plot(const struct bench *bench, const char *path)
{
    static const char *const series[] = { "batches, present", "batches, absent",
                                          "one by one" };
    const char *names[PLAN_KINDS];
    double times[3 * PLAN_KINDS], bits[PLAN_KINDS];
    struct chart_page page;
    size_t n = 0;
    char below[160];
    for (size_t i = 0; i < bench->count; i++) {
        const struct bench_row *row = &bench->rows[i];
        if (!row->err) {
            names[n] = bg_kind_name(row->kind);
            times[3 * n] = row->result.present_ns;
            times[3 * n + 1] = row->result.absent_ns;
            times[3 * n + 2] = row->result.single_ns;
            bits[n++] = bench_bits(row);
        }
    }
    (void)snprintf(below, sizeof below,
                   "%s keys of %.1f bytes on average, false-positive rate %s; one "
                   "thread, median of %d passes",
                   COUNT_TEXT(bench->keys), bench->key_bytes, RATE_TEXT(bench->rate),
                   BENCH_PASSES);
    chart_begin(&page, "Measured filters", below);
    chart_add_bars(&page, &(struct chart_bars){ "Lookup time", "nanoseconds", names, n,
                                                series, 3, times });
    chart_add_bars(&page, &(struct chart_bars){ "Memory", "bits per key", names, n,
                                                series, 1, bits });
    return chart_save(&page, path);
}

/* ---- Command --------------------------------------------------------------------------------- */

static int bench_read_kinds(struct bench *b)
{
    static const char *const names[] = {
#define BENCH_NAME(NAME, number, name) #name,
        BG_KINDS(BENCH_NAME)
#undef BENCH_NAME
    };
    bool wanted[PLAN_KINDS] = { false };
    const struct option_list *kinds = &b->options->kinds;
    for (size_t i = 0; i < kinds->count; i++) {
        bg_kind kind = BG_KIND_AUTO;
        if (!bg_kind_parse(kinds->items[i], &kind) || kind == BG_KIND_AUTO) {
            return say_usage(
                "--kind: found '%s', expected a kind of filter such as "
                "blocked%s",
                kinds->items[i],
                SAY_HINT(nearest_name(kinds->items[i], names, PLAN_KINDS)));
        }
        wanted[kind - 1] = true;
    }
    for (size_t i = 0; i < PLAN_KINDS; i++) {
        if (wanted[i] || !kinds->count) {
            b->rows[b->count++].kind = (bg_kind)(i + 1);
        }
    }
    return CLI_OK;
}

static int bench_prepare(struct bench *b)
{
    const struct bench_options *o = b->options;
    b->most = o->most ? o->most : BENCH_MAX;
    b->rate = o->rate > 0 ? o->rate : 0.01;
    if (b->most > KEY_POOL_MAX) {
        return say_usage("--most: found %" PRIu64 ", expected at most %d", b->most,
                         KEY_POOL_MAX);
    }
    int code = bench_read_kinds(b);
    code = code ? code : keys_format(&o->keys, &b->format);
    code = code ? code : secret_current(&o->hash, &b->secret);
    code = code || !o->plot ? code : filter_may_write(o->plot, o->force);
    b->hash = bg_hash_name((bg_hash_profile)b->secret.hash.profile);
    return code || key_pool_begin(&b->pool) ? code : say_full("out of memory");
}

/* Fails if keys were lost, which indicates a bug, or if no kind could be measured. */
static int bench_check(const struct bench *b)
{
    int code = CLI_OK;
    size_t refused = 0;
    for (size_t i = 0; i < b->count; i++) {
        const struct bench_row *row = &b->rows[i];
        refused += row->err != BG_OK;
        if (!row->err && row->result.lost) {
            code = say_data("%s: %" PRIu64 " keys were lost; please report this bug",
                            bg_kind_name(row->kind), row->result.lost);
        }
    }
    const struct bench_row *first = &b->rows[0];
    return refused < b->count ? code
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
        bench_print_json(b);
    } else {
        bench_print(b);
    }
    code = bench_check(b);
    return code || !b->options->plot ? code : bench_plot(b, b->options->plot);
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
    .uses = { OPT_GROUP("Measuring", bench_table),
              { &key_options_group, offsetof(struct bench_options, keys) },
              { &hash_options_group, offsetof(struct bench_options, hash) } },
    .examples = { { "bloomgate bench --rate 0.1% urls.txt",
                    "find the fastest kind for these keys" },
                  { "bloomgate bench -k blocked -k fuse --plot bench.svg urls.txt",
                    "compare two kinds, with charts" } },
    .run = bench_command,
};
