/*
 * Tests how windows keep time when they are saved and opened: with a different clock, by a replica,
 * many times, from files of version 0.1, and after merging.
 */
#include "bloomgate/all.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"
#include "support/forge.h"

#include <stdlib.h>

enum { PERIOD = 100, KEY = 77 };

static uint64_t now;

static uint64_t read_now(void *context)
{
    (void)context;
    return now;
}

static bg_window_options timed(uint32_t mode, uint32_t generations, bool clock)
{
    bg_window_options o = BG_WINDOW_OPTIONS_INIT;
    o.mode = mode;
    o.generations = generations;
    o.length = (uint64_t)PERIOD * (generations - 1);
    o.clock = clock ? read_now : NULL;
    return o;
}

static bg_filter *make(const bg_window_options *options)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_WINDOW;
    spec.items = 1000;
    spec.rate = 1e-4;
    spec.window = options;
    return must_create(&spec);
}

struct file {
    unsigned char *bytes;
    size_t n;
};

static struct file save(const bg_filter *filter)
{
    struct file file = { NULL, 0 };
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    how.created = 1;
    CHECK_EQ(bg_encode(filter, &how, NULL, 0, &file.n, NULL), BG_OK);
    file.bytes = malloc(file.n);
    CHECK(file.bytes != NULL);
    CHECK_OK(bg_encode(filter, &how, file.bytes, file.n, &file.n, NULL));
    return file;
}

static bg_filter *load(const struct file *file, const bg_window_options *options)
{
    bg_open_options how = BG_OPEN_OPTIONS_INIT;
    bg_filter *filter = NULL;
    how.window = options;
    CHECK_OK(bg_decode(file->bytes, file->n, &how, &filter, NULL));
    return filter;
}

/* Saves a filter, and reopens it with the clock set to `then`. */
static bg_filter *reload(bg_filter *filter, const bg_window_options *options,
                         uint64_t then)
{
    struct file file = save(filter);
    bg_filter_free(filter);
    now = then;
    filter = load(&file, options);
    free(file.bytes);
    return filter;
}

static void rotate(bg_filter *filter, uint64_t to)
{
    CHECK_OK(bg_filter_rotate(filter, to, NULL));
}

/* Returns the number of ticks after which the key is forgotten, but at most `most`. */
static uint64_t ticks_left(bg_filter *filter, uint64_t most)
{
    uint64_t ticks = 0;
    while (ticks < most && bg_filter_may_contain_u64(filter, KEY)) {
        ticks++;
        now++;
        rotate(filter, now);
    }
    return ticks;
}

static uint64_t longest(uint32_t mode, uint32_t generations)
{
    const uint32_t fading = mode == BG_WINDOW_AGED ? 10 : 0;
    return (uint64_t)PERIOD * (generations + fading);
}

/* ---- Another clock --------------------------------------------------------------------- */

/* The key is added just before a period ends, and the file may be opened with a clock that is close
 * to the end of a period. Neither condition may shorten how long the key is kept. */
TEST(window_time__any_clock_may_go_on_with_a_file)
{
    static const uint64_t clocks[] = { 0, 7, 99, 50099, UINT64_MAX - 5 };
    for (uint32_t mode = 0; mode < 2; mode++) {
        for (uint32_t g = 2; g <= 8; g += 3) {
            for (size_t c = 0; c < sizeof clocks / sizeof *clocks; c++) {
                for (int by_hand = 0; by_hand < 2; by_hand++) {
                    const bg_window_options o = timed(mode, g, !by_hand);
                    now = 10 * PERIOD + 99;
                    bg_filter *filter = make(&o);
                    rotate(filter, now);
                    (void)added_u64(filter, KEY);
                    now += 2;
                    rotate(filter, now);
                    filter = reload(filter, &o, clocks[c]);
                    rotate(filter, now);
                    const uint64_t left = ticks_left(filter, 2 * longest(mode, g));
                    CHECK(left + 2 >= o.length);
                    CHECK(left <= longest(mode, g));
                    bg_filter_free(filter);
                }
            }
        }
    }
}

/* The time that a window spends in memory counts, no matter how many times the window is
 * reopened. */
TEST(window_time__reopened_often_it_still_forgets)
{
    for (uint32_t mode = 0; mode < 2; mode++) {
        for (int by_hand = 0; by_hand < 2; by_hand++) {
            const bg_window_options o = timed(mode, 4, !by_hand);
            now = 5 * PERIOD + 1;
            bg_filter *filter = make(&o);
            rotate(filter, now);
            (void)added_u64(filter, KEY);
            uint64_t ticks = 0;
            while (bg_filter_may_contain_u64(filter, KEY) && ticks < 100 * PERIOD) {
                now += 9;
                ticks += 9;
                rotate(filter, now);
                filter = reload(filter, &o, check_random_below(1000000));
                rotate(filter, now);
            }
            CHECK(ticks >= o.length && ticks <= longest(mode, 4) + 9);
            bg_filter_free(filter);
        }
    }
}

/* ---- Replicas -------------------------------------------------------------------------- */

static void check_same(const bg_filter *a, const bg_filter *b)
{
    struct file one = save(a), other = save(b);
    CHECK_EQ(one.n, other.n);
    CHECK(memcmp(one.bytes, other.bytes, one.n) == 0);
    free(one.bytes);
    free(other.bytes);
}

/* Windows that receive the same adds and rotations stay identical byte for byte, no matter when
 * their files were copied. */
TEST(window_time__replicas_stay_the_same)
{
    for (uint32_t mode = 0; mode < 2; mode++) {
        const bg_window_options o = timed(mode, 5, false);
        bg_filter *primary = make(&o), *replica = make(&o);
        now = 123456;
        for (int step = 0; step < 100; step++) {
            now += check_random_below(40);
            rotate(primary, now);
            rotate(replica, now);
            for (int i = 0; i < 3; i++) {
                const uint64_t key = check_random();
                (void)added_u64(primary, key);
                (void)added_u64(replica, key);
            }
            if (step % 5 == 0) {
                bg_filter_free(replica);
                struct file file = save(primary);
                replica = load(&file, NULL);
                free(file.bytes);
                CHECK_EQ(bg_filter_window_time(replica), now);
                rotate(replica, bg_filter_window_time(replica));
            }
            check_same(primary, replica);
        }
        CHECK_EQ(bg_filter_window_period(primary), bg_filter_window_period(replica));
        bg_filter_free(primary);
        bg_filter_free(replica);
    }
}

/* ---- Files of 0.1 ---------------------------------------------------------------------- */

enum { MINOR_AT = 10, ELAPSED_AT = 200, MOVED_AT = 208 };

/* Files of version 0.1 do not record how much of the current period has passed, so the period
 * starts over. */
TEST(window_time__files_of_0_1_lose_nothing)
{
    for (uint32_t mode = 0; mode < 2; mode++) {
        const bg_window_options o = timed(mode, 3, true);
        now = 10 * PERIOD + 99;
        bg_filter *filter = make(&o);
        (void)added_u64(filter, KEY);
        now += 50;
        rotate(filter, now);
        struct file file = save(filter);
        bg_filter_free(filter);
        forge(file.bytes, ELAPSED_AT, 8, 0);
        forge(file.bytes, MOVED_AT, 8, 0);
        forge(file.bytes, MINOR_AT, 2, 0);
        now = 700 * PERIOD + 98;
        filter = load(&file, &o);
        CHECK_EQ(bg_filter_window_time(filter), now);
        CHECK_EQ(ticks_left(filter, PERIOD + PERIOD), 2 * PERIOD);
        bg_filter_free(filter);
        free(file.bytes);
    }
}

/* Format 1.0 stores no time, and in format 1.1 only windows with a length store a time. */
TEST(window_time__times_that_nobody_writes_are_refused)
{
    const bg_window_options o = timed(0, 3, false);
    bg_window_options by_hand = o;
    by_hand.length = 0;
    bg_filter *filter = make(&o), *manual = make(&by_hand), *back = NULL;
    rotate(filter, 5);
    struct file file = save(filter);
    forge(file.bytes, MINOR_AT, 2, 0);
    CHECK_EQ(bg_decode(file.bytes, file.n, NULL, &back, NULL), BG_EFORMAT);
    free(file.bytes);
    file = save(filter);
    forge(file.bytes, ELAPSED_AT, 8, UINT64_MAX);
    CHECK_EQ(bg_decode(file.bytes, file.n, NULL, &back, NULL), BG_EFORMAT);
    free(file.bytes);
    file = save(manual);
    forge(file.bytes, MINOR_AT, 2, 1);
    forge(file.bytes, MOVED_AT, 8, 5);
    CHECK_EQ(bg_decode(file.bytes, file.n, NULL, &back, NULL), BG_EFORMAT);
    free(file.bytes);
    bg_filter_free(filter);
    bg_filter_free(manual);
    CHECK_EQ(bg_filter_window_time(NULL), 0);
}

/* A window's file can be opened even if the window's time is far ahead. */
TEST(window_time__times_that_are_far_can_be_saved)
{
    const uint64_t far = (uint64_t)1 << 62;
    for (uint32_t mode = 0; mode < 2; mode++) {
        bg_window_options o = timed(mode, 8, false);
        for (uint64_t length = 7; length; length = length < far ? 2 * far : 0) {
            o.length = length;
            bg_filter *filter = make(&o);
            rotate(filter, 1);
            (void)added_u64(filter, KEY + 1);
            for (uint64_t i = 1; i < 5; i++) {
                rotate(filter, i * (far + 100));
                (void)added_u64(filter, KEY);
                struct file file = save(filter);
                bg_filter *back = load(&file, NULL);
                CHECK(bg_filter_may_contain_u64(back, KEY));
                CHECK_EQ(bg_filter_may_contain_u64(back, KEY + 1),
                         bg_filter_may_contain_u64(filter, KEY + 1));
                free(file.bytes);
                bg_filter_free(back);
            }
            bg_filter_free(filter);
        }
    }
}

/* ---- Merging --------------------------------------------------------------------------- */

/* Merges two windows whose current periods started at different times. Merged keys stay as long as
 * they would have stayed in their own window. */
TEST(window_time__a_merged_key_keeps_its_window)
{
    for (uint32_t mode = 0; mode < 2; mode++) {
        const bg_window_options o = timed(mode, 3, false);
        bg_filter *early = make(&o), *late = make(&o);
        rotate(early, 10 * PERIOD);
        rotate(late, 10 * PERIOD);
        (void)added_u64(late, KEY);
        rotate(early, 11 * PERIOD + 90);
        rotate(late, 11 * PERIOD + 1); /* at least 1 tick after the add */
        CHECK_OK(bg_filter_merge(early, late, NULL));
        now = 11 * PERIOD + 90; /* the current time of `early` */
        CHECK(ticks_left(early, 3 * PERIOD) + 1 >= o.length);
        bg_filter_free(early);
        bg_filter_free(late);
    }
}
