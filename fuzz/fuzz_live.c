/*
 * fuzz_live.c - an input is a program that operates on two scalable filters or two window filters
 * with the same spec. Its steps add and query keys, and merge, copy, move, clear, compact and
 * rotate the filters. Each filter is compared with a model, which records the period in which each
 * key was last added. A filter must never answer "no" for a key that was added and has not expired.
 * A refused operation must change nothing.
 */
#include "bloomgate/all.h"
#include "fuzz.h"
#include "fuzz_input.h"
#include "fuzz_move.h"
#include "support/adds.h"

enum { LIVE_KEYS = 2048, LIVE_STEPS = 80, LIVE_BYTES_MAX = 1 << 20 };

struct live {
    bg_filter *filter;
    uint64_t when[LIVE_KEYS]; /* period of the last add, plus 1; 0 if never added */
};

static struct live live[2];
static uint64_t live_generations;

static bool live_in(const struct live *f, uint64_t key)
{
    return f->when[key]
           && f->when[key] - 1 + live_generations > bg_filter_window_period(f->filter);
}

static void live_check(const struct live *f)
{
    for (uint64_t key = 0; key < LIVE_KEYS; key++) {
        FUZZ_MUST(!live_in(f, key) || bg_filter_may_contain_u64(f->filter, key));
    }
}

static void live_note(struct live *f, uint64_t first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        f->when[first + i] = bg_filter_window_period(f->filter) + 1;
    }
}

/* Reads any spec; max_bytes keeps the filter small. */
static bg_spec live_spec(struct fuzz_input *in, bg_window_options *options)
{
    bg_spec spec = BG_SPEC_INIT;
    uint8_t how = fuzz_byte(in);
    spec.kind = how & 1 ? (uint32_t)BG_KIND_SCALABLE : (uint32_t)BG_KIND_WINDOW;
    spec.items = how & 2 ? fuzz_any(in) : 1u + fuzz_byte(in);
    spec.rate = how & 4 ? fuzz_double(in) : 0.02;
    spec.flags = how & 8 ? fuzz_byte(in) : 0;
    spec.k = how & 16 ? fuzz_byte(in) : 0;
    spec.width = how & 32 ? fuzz_byte(in) : 0;
    spec.max_bytes = LIVE_BYTES_MAX;
    spec.allocator = &fuzz_memory;
    if (how & 64) {
        options->mode = fuzz_byte(in) % 3;
        options->generations = fuzz_byte(in) % 70;
        options->kind = how & 128 ? fuzz_byte(in) : 0;
        options->length = how & 128 ? fuzz_any(in) : 0;
        options->count = fuzz_byte(in);
        spec.window = options;
    }
    live_generations = spec.kind == BG_KIND_SCALABLE         ? UINT64_MAX / 2
                       : spec.window && options->generations ? options->generations
                                                             : 8;
    return spec;
}

static bool live_make(const bg_spec *spec)
{
    bg_errinfo why;
    for (int i = 0; i < 2; i++) {
        memset(live[i].when, 0, sizeof live[i].when);
        live[i].filter = NULL;
        if (bg_filter_create(spec, &live[i].filter, &why) != BG_OK) {
            FUZZ_MUST(live[i].filter == NULL && why.message[0]);
            FUZZ_MUST(i == 0);
            return false;
        }
    }
    return true;
}

static void live_merge(struct live *to, const struct live *from)
{
    if (bg_filter_merge(to->filter, from->filter, NULL) != BG_OK) {
        return;
    }
    for (size_t i = 0; i < LIVE_KEYS; i++) {
        to->when[i] = from->when[i] > to->when[i] ? from->when[i] : to->when[i];
    }
}

static void live_compact(const struct live *f)
{
    bg_filter *one = NULL;
    if (bg_filter_compact(f->filter, &one, NULL) == BG_OK) {
        for (uint64_t key = 0; key < LIVE_KEYS; key++) {
            FUZZ_MUST(!live_in(f, key) || bg_filter_may_contain_u64(one, key));
        }
        bg_filter_free(one);
    }
}

static void live_copy(struct live *f)
{
    bg_filter *copy = NULL;
    FUZZ_MUST(bg_filter_copy(f->filter, &copy, NULL) == BG_OK);
    FUZZ_MUST(bg_filter_equal(f->filter, copy));
    bg_filter_relocate(&copy, &fuzz_mover);
    FUZZ_MUST(bg_filter_equal(f->filter, copy));
    FUZZ_MUST(bg_filter_allocator(copy)->release == fuzz_memory.release);
    bg_filter_free(f->filter);
    f->filter = copy;
}

static void live_clear(struct live *f)
{
    bg_filter *empty = NULL;
    FUZZ_MUST(bg_filter_create_like(f->filter, &empty, NULL) == BG_OK);
    bg_filter_clear(f->filter);
    FUZZ_MUST(bg_filter_equal(f->filter, empty));
    bg_filter_free(empty);
    memset(f->when, 0, sizeof f->when);
}

static void live_rotate(struct fuzz_input *in)
{
    uint64_t now = fuzz_any(in);
    bool both = fuzz_byte(in) & 1;
    bg_err err = bg_filter_rotate(live[0].filter, now, NULL);
    if (both) {
        FUZZ_MUST(bg_filter_rotate(live[1].filter, now, NULL) == err);
    }
    const uint64_t period = bg_filter_window_period(live[0].filter);
    const uint64_t moved = bg_filter_window_time(live[0].filter);
    /* rotating to the current time again has no effect */
    FUZZ_MUST(!moved || bg_filter_rotate(live[0].filter, moved, NULL) == BG_OK);
    FUZZ_MUST(bg_filter_window_period(live[0].filter) == period);
}

static void live_add_many(struct fuzz_input *in, struct live *f)
{
    uint64_t keys[200], first = fuzz_u32(in) % (LIVE_KEYS - 200);
    size_t n = fuzz_byte(in) % 200;
    for (size_t i = 0; i < n; i++) {
        keys[i] = first + i;
    }
    /* If a period ends during the batch, some keys belong to an earlier period, so the model
     * records only the last key. */
    uint64_t period = bg_filter_window_period(f->filter);
    (void)added_many(f->filter, bg_keys_u64(keys, n), NULL);
    if (bg_filter_window_period(f->filter) == period) {
        live_note(f, first, n);
    } else if (n) {
        live_note(f, first + n - 1, 1);
    }
}

static void live_step(struct fuzz_input *in, struct live *f)
{
    uint64_t key = fuzz_u32(in) % LIVE_KEYS;
    bool was = live_in(f, key);
    switch (fuzz_byte(in) % 8) {
    case 0:
        /* If this add started a new period, the earlier add of the key may have expired. */
        FUZZ_MUST(!added_u64(f->filter, key) || !was || !live_in(f, key));
        live_note(f, key, 1);
        FUZZ_MUST(bg_filter_may_contain_u64(f->filter, key));
        break;
    case 1:
    case 2: live_add_many(in, f); break;
    case 3: live_merge(f, f == live ? live + 1 : live); break;
    case 4: live_copy(f); break;
    case 5: live_clear(f); break;
    case 6: live_rotate(in); break;
    default: live_compact(f); break;
    }
}

/* Checks that the capacity is at least the requested number of items, and that the number of layers
 * is from 1 to 64. */
static void live_check_figures(const bg_spec *spec, const bg_filter *filter)
{
    FUZZ_MUST(bg_filter_capacity(filter) >= spec->items);
    FUZZ_MUST(bg_filter_layers(filter) >= 1 && bg_filter_layers(filter) <= 64);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    bg_window_options options = BG_WINDOW_OPTIONS_INIT;
    bg_spec spec = live_spec(&in, &options);
    if (live_make(&spec)) {
        for (int step = 0; step < LIVE_STEPS && in.left; step++) {
            live_step(&in, &live[fuzz_byte(&in) & 1]);
        }
        live_check(&live[0]);
        live_check(&live[1]);
        live_check_figures(&spec, live[0].filter);
    }
    bg_filter_free(live[0].filter);
    bg_filter_free(live[1].filter);
    live[0].filter = live[1].filter = NULL;
    return 0;
}
