/*
 * samples.h - samples of every filter kind and of some variants, for tests that apply to all kinds.
 * A test fills a sample with keys like this:
 *
 *     for (unsigned i = 0; i < SAMPLES; i++) {
 *         bg_spec spec = sample_spec(i, n, 0.01);
 *         struct filling fill;
 *         filling_begin(&fill, i, &spec, n);
 *         filling_add(&fill, keys, n);
 *         bg_filter *filter = filling_end(&fill);
 *
 * The first samples come from the list of kinds, so that a new kind is tested automatically. The
 * variants follow. A static kind is filled with a builder. A window is filled as if it had been in
 * use for a long time: first with other keys, and then with an equal share of the keys in each of
 * its periods, so that it has the planned false-positive rate.
 */
#ifndef SAMPLES_H
#define SAMPLES_H

#include "bloomgate/all.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

struct sample {
    const char *name;
    bg_kind kind;
    uint32_t width;
    uint32_t flags;
    uint32_t shards;
    const bg_window_options *window;
};

enum { SAMPLE_GENERATIONS = 5, SAMPLE_FADING = 10 };

static const bg_window_options sample_generations = {
    .struct_size = sizeof(bg_window_options), .generations = SAMPLE_GENERATIONS
};
static const bg_window_options sample_aged = { .struct_size = sizeof(bg_window_options),
                                               .mode = BG_WINDOW_AGED,
                                               .generations = SAMPLE_GENERATIONS };

#define SAMPLES_KIND(NAME, number, text) { #text, BG_KIND_##NAME, 0, 0, 0, NULL },

static const struct sample samples[] = {
    BG_KINDS(SAMPLES_KIND) /* */
    { "window, aged", BG_KIND_WINDOW, 0, 0, 0, &sample_aged },
    { "counting, scattered", BG_KIND_COUNTING, 8, BG_SPEC_SCATTERED, 0, NULL },
    { "scalable, scattered", BG_KIND_SCALABLE, 4, BG_SPEC_SCATTERED, 0, NULL },
    { "fuse of 4", BG_KIND_FUSE, 4, 0, 0, NULL },
    { "blocked in shards", BG_KIND_BLOCKED, 0, 0, 3, NULL },
    { "counting in shards", BG_KIND_COUNTING, 0, 0, 3, NULL },
    { "cuckoo in shards", BG_KIND_CUCKOO, 0, 0, 3, NULL },
    { "quotient in shards", BG_KIND_QUOTIENT, 0, 0, 3, NULL },
    { "scalable in shards", BG_KIND_SCALABLE, 0, 0, 3, NULL },
};
enum { SAMPLES = sizeof samples / sizeof *samples };

/* Returns the index of a kind's sample with default parameters. */
static inline unsigned sample_of(bg_kind kind)
{
    unsigned i = 0;
    while (samples[i].kind != kind) {
        i++;
    }
    return i;
}

/* Returns whether the sample has one of these traits. Sharded filters have fewer traits than other
 * filters of their kind. */
static inline bool sample_can(unsigned i, uint32_t traits)
{
    const uint32_t of_shards = BG_TRAIT_REMOVE | BG_TRAIT_COUNT | BG_TRAIT_MERGE
                               | BG_TRAIT_OVERLAP | BG_TRAIT_FILLS_UP;
    uint32_t has = bg_kind_traits(samples[i].kind);
    return (samples[i].shards ? has & of_shards : has) & traits;
}

static inline bool sample_is_static(unsigned i)
{
    return sample_can(i, BG_TRAIT_STATIC);
}

/* Returns a spec with the sample's parameters, but without a number of items or a size. */
static inline bg_spec sample_variant(unsigned i)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = (uint32_t)samples[i].kind;
    spec.width = samples[i].width;
    spec.flags = samples[i].flags;
    spec.shards = samples[i].shards;
    if (samples[i].kind == BG_KIND_WINDOW) {
        spec.window = samples[i].window ? samples[i].window : &sample_generations;
    }
    return spec;
}

/* Returns a spec for n keys. A window filter holds n keys in total across all of its periods. */
static inline bg_spec sample_spec(unsigned i, uint64_t n, double rate)
{
    bg_spec spec = sample_variant(i);
    spec.items = n;
    spec.rate = rate;
    if (spec.window) {
        uint64_t period = (n + SAMPLE_GENERATIONS - 1) / SAMPLE_GENERATIONS;
        spec.items = period * (SAMPLE_GENERATIONS - 1);
    }
    return spec;
}

/* Returns the false-positive rate that the plan predicts for the full filter. */
static inline double sample_predicted(const bg_spec *spec)
{
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan plan;
    ask.spec = *spec;
    CHECK_OK(bg_plan_compute(&ask, &plan, NULL));
    return plan.rate;
}

/* Returns the expected false-positive rate of a full filter. For a sharded filter, the plan
 * describes only the fullest shard, so the overall rate is read from the filter itself. */
static inline double sample_rate(unsigned i, const bg_spec *spec, const bg_filter *full)
{
    double planned = sample_predicted(spec);
    if (!samples[i].shards) {
        return planned;
    }
    double rate = info_of(full).rate;
    CHECK(rate <= 1.02 * planned);
    return rate;
}

/* ---- Filling ----------------------------------------------------------------------- */

struct filling {
    bg_filter *filter;
    bg_builder *builder; /* for a static kind */
    uint64_t period;     /* number of keys in each period of a window */
    uint64_t in_period;
};

static inline void filling_turn(struct filling *fill)
{
    CHECK_OK(bg_filter_rotate(fill->filter, 0, NULL));
    fill->in_period = 0;
}

/* Starts filling a sample. An aged window first receives other keys, because keys that it has
 * forgotten still raise its false-positive rate. */
static inline void filling_begin(struct filling *fill, unsigned sample,
                                 const bg_spec *spec, uint64_t n)
{
    uint64_t stranger = UINT64_MAX;
    memset(fill, 0, sizeof *fill);
    if (sample_is_static(sample)) {
        CHECK_OK(bg_builder_create(spec, &fill->builder, NULL));
        return;
    }
    fill->filter = must_create(spec);
    if (spec->window) {
        fill->period = (n + SAMPLE_GENERATIONS - 1) / SAMPLE_GENERATIONS;
        for (int p = 0; spec->window->mode == BG_WINDOW_AGED && p < SAMPLE_FADING;
             p++) {
            for (uint64_t i = 0; i < fill->period; i++) {
                (void)added_u64(fill->filter, stranger--);
            }
            filling_turn(fill);
        }
    }
}

/* Returns how many of n keys can be added before the next period has to start. */
static inline size_t filling_step(struct filling *fill, size_t n)
{
    if (!fill->period) {
        return n;
    }
    if (fill->in_period == fill->period) {
        filling_turn(fill);
    }
    uint64_t room = fill->period - fill->in_period;
    size_t step = n < room ? n : (size_t)room;
    fill->in_period += step;
    return step;
}

static inline void filling_add(struct filling *fill, const bg_bytes *keys, size_t n)
{
    for (size_t step; n; n -= step, keys += step) {
        step = filling_step(fill, n);
        if (fill->builder) {
            CHECK_OK(bg_builder_add_many(fill->builder, bg_keys_bytes(keys, step)));
        } else {
            (void)added_many(fill->filter, bg_keys_bytes(keys, step), NULL);
        }
    }
}

static inline void filling_add_u64(struct filling *fill, const uint64_t *keys, size_t n)
{
    for (size_t step; n; n -= step, keys += step) {
        step = filling_step(fill, n);
        if (fill->builder) {
            CHECK_OK(bg_builder_add_many(fill->builder, bg_keys_u64(keys, step)));
        } else {
            (void)added_many(fill->filter, bg_keys_u64(keys, step), NULL);
        }
    }
}

static inline bg_filter *filling_end(struct filling *fill)
{
    if (fill->builder) {
        CHECK_OK(bg_builder_finish(fill->builder, &fill->filter, NULL));
        bg_builder_free(fill->builder);
    }
    return fill->filter;
}

#endif
