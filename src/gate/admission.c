/*
 * admission.c - admission control for a cache: admits a key only if it was seen recently.
 *
 * Idea. An add to a window filter reports whether the key was already in the window. This result is
 * the admission decision, so a single call both records the key and makes the decision. Keys that
 * are requested only once never enter the cache, so they evict nothing.
 *
 * What counts. A count-based window ends a period after a fixed number of adds. Every call here is
 * an add, which inserts a new key or renews a known key. Three variants were measured on traces of
 * 10 million requests, in which 70 to 76% of the distinct keys occur once (Zipf, s = 0.9 and 1.0,
 * over a million keys; LRU caches of 20,000 and 100,000 objects; windows of 1/8 to 32 times the
 * cache). This table shows the change in hit ratio compared with the first variant, in percentage
 * points:
 *
 *     every call adds and counts           (`bgbench admission` has its figures)
 *     only new keys add and count          +0.1 in short windows, -0.5 in long ones: frequent
 *                                          keys are forgotten as soon as rare ones
 *     every call adds, and counts if       -0.0 to -0.7
 *     the key is new in its period
 *
 * (When the popularity of all keys was reshuffled after every 1% of the trace, the second variant
 * was better by up to 0.3 points.) The variants hardly differ, because keys in the cache do not
 * reach this code, so most calls are for new keys. The first variant is used because it is the
 * simplest: it needs one call and no data other than the window. A generation never gets more keys
 * than it was created for, so `rate` is an upper bound. The window is `items` calls long and
 * holds at most `items` distinct keys.
 *
 * The best length of the window. With stable popularity, windows of 1/4 to 1 times the cache size
 * were best, and windows of 2, 4 and 8 times the cache size reduced the hit ratio by 0.8, 1.5 and
 * 2.5 points. When popularity changed after every 1% of the trace, the longest window (8 times the
 * cache size) was best, and a window of the same size as the cache was worse than no admission
 * control. A window of 2 to 4 times the cache size loses little in either case.
 *
 * Cost. An add to a count-based window updates one counter that all threads share, and one cache
 * line of a generation. This cost is paid only on a cache miss, in addition to the miss itself.
 * Answers are counted in one cache line per CPU.
 */
#include "bloomgate/admission.h"

#include "base/errinfo.h"
#include "base/memory.h"
#include "base/stripe.h"

#include <string.h>

enum { ADMISSION_GENERATIONS = 4, ADMISSION_GENERATIONS_MAX = 64 };

static const double admission_rate = 0.01;

struct admission_line {
    _Alignas(64) uint64_t admitted;
    uint64_t refused;
};

struct bg_admission {
    bg_filter *window;
    uint64_t first_period;
    uint32_t lines_count; /* a power of two */
    struct bgi_memory memory;
    struct admission_line lines[];
};

/* ---- Lifecycle -------------------------------------------------------------------------- */

static bg_err admission_check(const bg_admission_options *o, bg_errinfo *info)
{
    if (!o || o->struct_size != sizeof *o) {
        return bgi_err(info, BG_EINVAL, "options.struct_size",
                       "sizeof(bg_admission_options): use BG_ADMISSION_OPTIONS_INIT",
                       "%u", o ? o->struct_size : 0);
    }
    if (o->generations == 1 || o->generations > ADMISSION_GENERATIONS_MAX) {
        return bgi_err(info, BG_EINVAL, "generations", "2 .. 64, or 0", "%u",
                       o->generations);
    }
    if (o->items == 0) {
        return bgi_err(info, BG_EINVAL, "items", "the number of keys to remember", "0");
    }
    if (!o->length != !o->clock) {
        return bgi_err(info, BG_EINVAL, "length, clock", "both or none", "%s",
                       o->length ? "no clock" : "no length");
    }
    return BG_OK;
}

static bg_err admission_window(const bg_admission_options *o, bg_filter **window,
                               bg_errinfo *info)
{
    bg_window_options moving = BG_WINDOW_OPTIONS_INIT;
    bg_spec spec = BG_SPEC_INIT;
    moving.mode = BG_WINDOW_GENERATIONS;
    moving.generations = o->generations ? o->generations : ADMISSION_GENERATIONS;
    moving.length = o->length;
    moving.clock = o->clock;
    moving.context = o->context;
    moving.count = o->length ? 0 : o->items;
    spec.kind = BG_KIND_WINDOW;
    spec.items = o->items;
    spec.rate = o->rate != 0 ? o->rate : admission_rate;
    spec.hash = o->hash;
    spec.allocator = o->allocator;
    spec.window = &moving;
    return bg_filter_create(&spec, window, info);
}

bg_err bg_admission_create(const bg_admission_options *options,
                           bg_admission **admission, bg_errinfo *info)
{
    bg_filter *window = NULL;
    struct bgi_memory memory;
    if (!admission) {
        return bgi_err(info, BG_EINVAL, "admission", "a pointer to receive the handle",
                       "NULL");
    }
    *admission = NULL;
    bgi_err_clear(info);
    bg_err err = admission_check(options, info);
    err = err ? err : admission_window(options, &window, info);
    if (err) {
        return err;
    }
    uint32_t lines = bgi_stripes();
    size_t bytes = sizeof **admission + lines * sizeof(struct admission_line);
    if (!bgi_memory_take(&memory, bytes, options->allocator, true)) {
        bg_filter_free(window);
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate %zu bytes for the admission handle",
                             bytes);
    }
    bg_admission *a = memory.base;
    a->window = window;
    a->first_period = bg_filter_window_period(window);
    a->lines_count = lines;
    a->memory = memory;
    *admission = a;
    return BG_OK;
}

void bg_admission_free(bg_admission *admission)
{
    if (admission) {
        struct bgi_memory memory = admission->memory;
        bg_filter_free(admission->window);
        bgi_memory_give(&memory);
    }
}

/* ---- Deciding --------------------------------------------------------------------------- */

static void admission_count(bg_admission *a, uint64_t admitted, uint64_t refused)
{
    struct admission_line *line = &a->lines[bgi_stripe(a->lines_count)];
    if (admitted) {
        __atomic_fetch_add(&line->admitted, admitted, __ATOMIC_RELAXED);
    }
    if (refused) {
        __atomic_fetch_add(&line->refused, refused, __ATOMIC_RELAXED);
    }
}

bool bg_admission_admit(bg_admission *admission, const void *key, size_t len)
{
    if (!admission) {
        return true;
    }
    /* If the add failed, the key would be admitted, but adds to a window never fail. */
    bool is_new = false;
    const bg_err err = bg_filter_add(admission->window, key, len, &is_new);
    const bool seen = err || !is_new;
    admission_count(admission, seen, !seen);
    return seen;
}

/* Inverts a bitmap of n answers. */
static void admission_invert(uint64_t *bits, size_t n)
{
    for (size_t i = 0; i < BG_BITMAP_WORDS(n); i++) {
        bits[i] = ~bits[i];
    }
    if (n % 64) {
        bits[n / 64] &= ((uint64_t)1 << n % 64) - 1;
    }
}

size_t bg_admission_admit_many(bg_admission *admission, bg_keys keys,
                               uint64_t *admitted)
{
    const size_t n = keys.count;
    size_t refused = 0;
    if (admission
        && bg_filter_add_many(admission->window, keys, admitted, NULL, &refused)
               == BG_OK) {
        admission_count(admission, n - refused, refused);
    } else if (admitted) {
        memset(admitted, 0, BG_BITMAP_WORDS(n) * sizeof *admitted);
    }
    if (admitted) {
        admission_invert(admitted, n);
    }
    return n - refused;
}

bool bg_admission_would_admit(const bg_admission *admission, const void *key,
                              size_t len)
{
    return !admission || bg_filter_may_contain(admission->window, key, len);
}

/* ---- Figures ---------------------------------------------------------------------------- */

bg_err bg_admission_get_info(const bg_admission *admission, bg_admission_info *out)
{
    bg_filter_info info = { .struct_size = sizeof info };
    if (!admission || !out || out->struct_size != sizeof *out) {
        return BG_EINVAL;
    }
    bg_err err = bg_filter_get_info(admission->window, &info);
    if (err) {
        return err;
    }
    *out = (bg_admission_info){ .struct_size = sizeof *out };
    for (uint32_t i = 0; i < admission->lines_count; i++) {
        const struct admission_line *line = &admission->lines[i];
        uint64_t admitted = __atomic_load_n(&line->admitted, __ATOMIC_RELAXED);
        out->admitted += admitted;
        out->requests += admitted + __atomic_load_n(&line->refused, __ATOMIC_RELAXED);
    }
    out->bytes = bg_filter_size_bytes(admission->window);
    out->periods =
        bg_filter_window_period(admission->window) - admission->first_period + 1;
    out->rate = info.rate;
    return BG_OK;
}
