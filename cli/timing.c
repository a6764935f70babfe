/*
 * timing.c - see timing.h. Keys are processed in blocks, as in a typical program. Integer keys are
 * generated block by block, so that millions of them never have to be in memory at once. If there
 * are few keys, a pass is repeated until the total time is long enough to measure.
 */
#include "timing.h"

#include "stop.h"

#include <stdlib.h>
#include <time.h>

enum { MEASURE_BLOCK = 1024, MEASURE_LOOKUPS = 1 << 17, MEASURE_MAX = 1 << 20 };

/* Returns the CPU time of this thread, which excludes time used by other threads and processes. */
static double measure_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int measure_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double measure_median(double *times, unsigned n)
{
    qsort(times, n, sizeof *times, measure_compare);
    return n % 2 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
}

static bg_err measure_stopped(bg_errinfo *why)
{
    why->code = BG_ECANCELED;
    return BG_ECANCELED;
}

static size_t measure_block(const struct measure_keys *keys, size_t from)
{
    const size_t left = keys->count - from;
    return left < MEASURE_BLOCK ? left : MEASURE_BLOCK;
}

/* Returns a block of keys; integer keys are written to `numbers`. */
static bg_keys measure_some_keys(const struct measure_keys *keys, size_t from, size_t n,
                                 uint64_t numbers[MEASURE_BLOCK])
{
    if (keys->bytes) {
        return bg_keys_bytes(keys->bytes + from, n);
    }
    for (size_t i = 0; i < n; i++) {
        numbers[i] = keys->first + from + i;
    }
    return bg_keys_u64(numbers, n);
}

/* Queries the first `most` keys, and returns the number of "maybe" answers. */
static size_t measure_ask(const bg_filter *filter, const struct measure_keys *keys,
                          size_t most)
{
    const struct measure_keys some = { keys->bytes, keys->first,
                                       keys->count < most ? keys->count : most };
    uint64_t numbers[MEASURE_BLOCK];
    size_t maybe = 0;
    for (size_t from = 0, n; from < some.count; from += n) {
        n = measure_block(&some, from);
        maybe += bg_filter_may_contain_many(
            filter, measure_some_keys(&some, from, n, numbers), NULL);
    }
    return maybe;
}

static bool measure_ask_one(const bg_filter *filter, const struct measure_keys *keys,
                            size_t i)
{
    return keys->bytes
               ? bg_filter_may_contain(filter, keys->bytes[i].data, keys->bytes[i].len)
               : bg_filter_may_contain_u64(filter, keys->first + i);
}

static bool measure_going_on(void *context, double share)
{
    (void)context;
    (void)share;
    return !stop_wanted();
}

static bg_err measure_solve(const struct measure_task *task, bg_filter **filter,
                            bg_errinfo *why)
{
    bg_builder *builder;
    uint64_t numbers[MEASURE_BLOCK];
    bg_err err = bg_builder_create(&task->spec, &builder, why);
    if (err) {
        return err;
    }
    bg_builder_on_progress(builder, measure_going_on, NULL);
    for (size_t from = 0, n; from < task->present.count && !err; from += n) {
        n = measure_block(&task->present, from);
        err = bg_builder_add_many(builder,
                                  measure_some_keys(&task->present, from, n, numbers));
        why->code = err;
    }
    err = err ? err : bg_builder_finish(builder, filter, why);
    bg_builder_free(builder);
    return err;
}

static bg_err measure_fill(const struct measure_task *task, bg_filter **filter,
                           bg_errinfo *why)
{
    uint64_t numbers[MEASURE_BLOCK];
    bg_err err = bg_filter_create(&task->spec, filter, why);
    for (size_t from = 0, n, done; !err && from < task->present.count; from += n) {
        n = measure_block(&task->present, from);
        err = bg_filter_add_many(*filter,
                                 measure_some_keys(&task->present, from, n, numbers),
                                 NULL, &done, NULL);
        why->code = err;
        if (!err && stop_wanted()) {
            err = measure_stopped(why);
        }
    }
    return err;
}

/* Builds the filter several times, and keeps the last filter. */
static bg_err measure_build(const struct measure_task *task, bg_filter **filter,
                            double *ns, bg_errinfo *why)
{
    double times[MEASURE_PASSES];
    const bool solved =
        (bg_kind_traits((bg_kind)task->spec.kind) & BG_TRAIT_STATIC) != 0;
    bg_err err = BG_OK;
    for (unsigned pass = 0; pass < task->build_passes && !err; pass++) {
        bg_filter_free(*filter);
        *filter = NULL;
        const double from = measure_now();
        err =
            solved ? measure_solve(task, filter, why) : measure_fill(task, filter, why);
        times[pass] = 1e9 * (measure_now() - from) / (double)task->present.count;
    }
    if (!err) {
        *ns = measure_median(times, task->build_passes);
    }
    return err;
}

static size_t measure_some(const struct measure_keys *keys)
{
    return keys->count < MEASURE_MAX ? keys->count : MEASURE_MAX;
}

static double measure_batches(const bg_filter *filter, const struct measure_keys *keys,
                              unsigned passes)
{
    double times[MEASURE_PASSES];
    const size_t n = measure_some(keys);
    if (!n) {
        return 0;
    }
    const size_t again = (MEASURE_LOOKUPS + n - 1) / n;
    for (unsigned pass = 0; pass < passes; pass++) {
        const double from = measure_now();
        for (size_t i = 0; i < again; i++) {
            (void)measure_ask(filter, keys, n);
        }
        times[pass] = 1e9 * (measure_now() - from) / (double)(n * again);
    }
    return measure_median(times, passes);
}

static double measure_singles(const bg_filter *filter, const struct measure_task *task)
{
    double times[MEASURE_PASSES];
    const size_t present = measure_some(&task->present),
                 absent = measure_some(&task->absent);
    const size_t n = present < absent ? present : absent;
    if (!n) {
        return 0;
    }
    const size_t again = (MEASURE_LOOKUPS + 2 * n - 1) / (2 * n);
    for (unsigned pass = 0; pass < task->lookup_passes; pass++) {
        const double from = measure_now();
        for (size_t i = 0; i < n * again; i++) {
            (void)measure_ask_one(filter, &task->present, i % n);
            (void)measure_ask_one(filter, &task->absent, i % n);
        }
        times[pass] = 1e9 * (measure_now() - from) / (double)(2 * n * again);
    }
    return measure_median(times, task->lookup_passes);
}

bg_err measure_kind(const struct measure_task *task, struct measured *result,
                    bg_errinfo *why)
{
    bg_filter *filter = NULL;
    bg_filter_info info = { .struct_size = sizeof info };
    bg_window_options window = BG_WINDOW_OPTIONS_INIT;
    struct measure_task sized = *task;
    if (task->spec.kind == BG_KIND_WINDOW) { /* large enough for all keys */
        window.count = task->present.count;
        sized.spec.window = &window;
    }
    *result = (struct measured){ .keys = task->present.count };
    *why = (bg_errinfo){ .code = BG_OK };
    bg_err err = measure_build(&sized, &filter, &result->build_ns, why);
    if (!err) {
        err = bg_filter_get_info(filter, &info);
        why->code = err;
    }
    if (!err && stop_wanted()) {
        err = measure_stopped(why);
    }
    if (!err) {
        result->bytes = bg_filter_size_bytes(filter);
        result->predicted = info.rate;
        result->lost =
            task->present.count - measure_ask(filter, &task->present, SIZE_MAX);
        result->rate = bg_observed_rate(measure_ask(filter, &task->absent, SIZE_MAX),
                                        task->absent.count);
        result->present_ns =
            measure_batches(filter, &task->present, task->lookup_passes);
        result->absent_ns = measure_batches(filter, &task->absent, task->lookup_passes);
        result->single_ns = measure_singles(filter, task);
    }
    bg_filter_free(filter);
    return err;
}
