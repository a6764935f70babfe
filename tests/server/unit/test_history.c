/*
 * Tests the statistics history. Each point is returned with the time at which it was added, and
 * points that were never added are unknown (NaN). The value for a minute is the mean of its points.
 * The tests also cover ring buffers that wrap around, and clocks that stop, jump or move back.
 */
#include "observe/history.h"

#include "support/check.h"

#include <math.h>
#include <stdlib.h>

enum { BEGIN = 1700000040 }; /* the start of a minute */

static struct history_range read_last(const struct history *h, uint64_t seconds,
                                      size_t metric, double *values)
{
    const struct history_range range = history_range(h, seconds);
    history_read(h, &range, metric, values);
    return range;
}

TEST(history__is_empty_at_first)
{
    struct history *h = history_create(3);
    struct history_range range = history_range(h, 60);
    CHECK_EQ(range.points, 0);
    range = history_range(h, 86400);
    CHECK_EQ(range.points, 0);
    CHECK_EQ(range.step, HISTORY_MINUTE);
    history_free(h);
    history_free(NULL);
}

TEST(history__points_come_back)
{
    struct history *h = history_create(2);
    double values[HISTORY_FINE];
    for (uint64_t i = 0; i < 10; i++) {
        history_add(h, BEGIN + i * HISTORY_STEP,
                    (double[]){ (double)i, 100 + (double)i });
    }
    struct history_range range = read_last(h, 60, 0, values);
    CHECK_EQ(range.points, 10);
    CHECK_EQ(range.from, BEGIN);
    CHECK_EQ(range.step, HISTORY_STEP);
    CHECK(values[0] == 0 && values[9] == 9);
    range = read_last(h, 3 * HISTORY_STEP, 1, values);
    CHECK_EQ(range.points, 3);
    CHECK_EQ(range.from, BEGIN + 7 * HISTORY_STEP);
    CHECK(values[0] == 107 && values[2] == 109);
    range = read_last(h, 1, 1, values);
    CHECK_EQ(range.points, 1);
    CHECK(values[0] == 109);
    history_free(h);
}

TEST(history__gaps_are_unknown)
{
    struct history *h = history_create(1);
    double values[HISTORY_FINE];
    history_add(h, BEGIN, &(double){ 1 });
    history_add(h, BEGIN + 4 * HISTORY_STEP, &(double){ 5 });
    const struct history_range range = read_last(h, 60, 0, values);
    CHECK_EQ(range.points, 5);
    CHECK(values[0] == 1 && values[4] == 5);
    CHECK(isnan(values[1]) && isnan(values[2]) && isnan(values[3]));
    history_free(h);
}

TEST(history__a_ring_goes_round)
{
    struct history *h = history_create(1);
    double values[HISTORY_FINE];
    for (uint64_t i = 0; i < 3 * HISTORY_FINE; i++) {
        history_add(h, BEGIN + i * HISTORY_STEP, &(double){ (double)i });
    }
    const struct history_range range =
        read_last(h, (uint64_t)HISTORY_FINE * HISTORY_STEP, 0, values);
    CHECK_EQ(range.points, HISTORY_FINE);
    for (size_t i = 0; i < HISTORY_FINE; i++) {
        CHECK(values[i] == (double)(2 * HISTORY_FINE + i));
    }
    history_free(h);
}

TEST(history__minutes_are_means)
{
    struct history *h = history_create(1);
    double values[HISTORY_COARSE];
    /* three minutes, the last of which is incomplete */
    for (uint64_t i = 0; i < 90; i++) {
        const uint64_t whole = i / 30 * 10 + i % 2;
        const double value = i % 30 == 29 ? (double)NAN : (double)whole;
        history_add(h, BEGIN + i * HISTORY_STEP, &value);
    }
    struct history_range range = read_last(h, 86400, 0, values);
    CHECK_EQ(range.step, HISTORY_MINUTE);
    CHECK_EQ(range.points, 2);
    CHECK_EQ(range.from, BEGIN);
    /* unknown points are not included in the mean */
    CHECK_NEAR(values[0], 14.0 / 29, 1e-6);
    CHECK_NEAR(values[1], 10 + 14.0 / 29, 1e-6);
    history_add(h, BEGIN + 180, &(double){ 1 });
    range = read_last(h, 86400, 0, values);
    CHECK_EQ(range.points, 3);
    CHECK_NEAR(values[2], 20 + 14.0 / 29, 1e-6);
    history_free(h);
}

TEST(history__a_minute_of_nothing_is_unknown)
{
    struct history *h = history_create(1);
    double values[HISTORY_COARSE];
    for (uint64_t i = 0; i < 40; i++) {
        history_add(h, BEGIN + i * HISTORY_STEP, &(double){ (double)NAN });
    }
    const struct history_range range = read_last(h, 86400, 0, values);
    CHECK_EQ(range.points, 1);
    CHECK(isnan(values[0]));
    history_free(h);
}

TEST(history__leaps_leave_unknown_points)
{
    struct history *h = history_create(1);
    double values[HISTORY_FINE];
    history_add(h, BEGIN, &(double){ 1 });
    history_add(h, BEGIN + 3600 * 1000, &(double){ 2 });
    struct history_range range = read_last(h, 20, 0, values);
    CHECK_EQ(range.points, 10);
    CHECK(values[9] == 2);
    for (int i = 0; i < 9; i++) {
        CHECK(isnan(values[i]));
    }
    history_free(h);
}

TEST(history__a_clock_that_stands_still_keeps_the_first)
{
    struct history *h = history_create(1);
    double values[HISTORY_FINE];
    history_add(h, BEGIN, &(double){ 1 });
    history_add(h, BEGIN + 1, &(double){ 2 }); /* within the step */
    const struct history_range range = read_last(h, 60, 0, values);
    CHECK_EQ(range.points, 1);
    CHECK(values[0] == 1);
    history_free(h);
}

/* When the clock moves back, points with a time in the future are dropped, and earlier points are
 * kept. */
TEST(history__a_clock_that_goes_back_goes_on)
{
    struct history *h = history_create(1);
    double values[HISTORY_FINE], minutes[HISTORY_COARSE];
    for (uint64_t i = 0; i < 100; i++) {
        history_add(h, BEGIN + i * HISTORY_STEP, &(double){ (double)i });
    }
    history_add(h, BEGIN + 90 * HISTORY_STEP, &(double){ 1000 });
    history_add(h, BEGIN + 91 * HISTORY_STEP, &(double){ 1001 });
    struct history_range range = read_last(h, 8, 0, values);
    CHECK_EQ(range.points, 4);
    CHECK_EQ(range.from, BEGIN + 88 * HISTORY_STEP);
    CHECK(values[0] == 88 && values[1] == 89 && values[2] == 1000 && values[3] == 1001);
    /* adds points that are older than all stored points */
    for (uint64_t i = 0; i < 100; i++) {
        history_add(h, BEGIN - 86400 + i * HISTORY_STEP, &(double){ 7 });
    }
    range = read_last(h, 60, 0, values);
    CHECK_EQ(range.points, 30);
    CHECK_EQ(range.from, BEGIN - 86400 + 70 * HISTORY_STEP);
    CHECK(values[0] == 7 && values[29] == 7);
    range = read_last(h, 86400, 0, minutes);
    CHECK_EQ(range.points, 3);
    CHECK_EQ(range.from, BEGIN - 86400);
    CHECK(minutes[0] == 7 && minutes[2] == 7);
    history_free(h);
}

/* For random sequences of times, each value that is read is either unknown or the value that was
 * added at that time, and no range has too many points or starts in the future. */
TEST(history__any_times)
{
    for (size_t round = 0; round < 50 * check_scale(); round++) {
        struct history *h = history_create(2);
        uint64_t now = BEGIN;
        for (int i = 0; i < 2000; i++) {
            const uint64_t what = check_random_below(20);
            now += what == 0   ? check_random_below(100000)
                   : what == 1 ? (uint64_t)0 - check_random_below(100000)
                               : HISTORY_STEP;
            history_add(h, now, (double[]){ (double)(now % 1000), 1 });
        }
        double *values = calloc(HISTORY_COARSE, sizeof *values);
        for (uint64_t seconds = 1; seconds < 200000; seconds = seconds * 3 + 1) {
            const struct history_range range = read_last(h, seconds, 0, values);
            CHECK(range.points <= HISTORY_COARSE);
            CHECK(range.from <= now);
            for (size_t i = 0; i < range.points && range.step == HISTORY_STEP; i++) {
                const uint64_t at = (range.from + i * range.step) % 1000;
                CHECK(isnan(values[i]) || values[i] == (double)at
                      || values[i] == (double)(at + 1)); /* within its step */
            }
        }
        free(values);
        history_free(h);
    }
}
