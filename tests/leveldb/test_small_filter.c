/*
 * test_small_filter.c - tests the layout of small filters: all sizes, all bits-per-key settings,
 * both kinds, the effects of damage, and the exact bytes, which must not change.
 */
#include "small_filter.h"
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A filter in a buffer of exactly its size, so that a sanitizer detects reads beyond the end. */
struct made {
    uint8_t *bytes;
    size_t len;
    struct small_shape shape;
};

/* Queries the filter with and without POPCNT and checks that the answers agree. */
static bool asked(const uint8_t *bytes, size_t len, uint64_t hash)
{
    bool plain = small_filter_may_match(bytes, len, hash, false);
    if (small_filter_can_popcnt()) {
        CHECK(small_filter_may_match(bytes, len, hash, true) == plain);
    }
    return plain;
}

static struct made make(const uint64_t *hashes, size_t n, uint32_t bits, bool bloom)
{
    struct made made = { .shape = small_shape_for(n, bits, bloom) };
    struct small_equation *scratch = malloc((made.shape.limit + 1) * sizeof *scratch);
    uint8_t *room = malloc(made.shape.max_bytes);
    CHECK(scratch && room);
    made.len = small_filter_make(&made.shape, hashes, n, scratch, room);
    CHECK(made.len > SMALL_HEADER && made.len <= made.shape.max_bytes);
    made.bytes = malloc(made.len);
    CHECK(made.bytes != NULL);
    memcpy(made.bytes, room, made.len);
    free(room);
    free(scratch);
    return made;
}

static uint64_t *random_hashes(size_t n)
{
    uint64_t *hashes = malloc((n + 1) * sizeof *hashes);
    CHECK(hashes != NULL);
    for (size_t i = 0; i < n; i++) {
        hashes[i] = check_random();
    }
    return hashes;
}

static size_t lost(const struct made *made, const uint64_t *hashes, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        count += !asked(made->bytes, made->len, hashes[i]);
    }
    return count;
}

TEST(small_filter__every_small_size_keeps_its_keys)
{
    uint64_t *hashes = random_hashes(300);
    for (size_t n = 1; n <= 300; n += n < 140 ? 1 : 13) {
        for (uint32_t bits = 1; bits <= SMALL_MAX_ROWS; bits++) {
            for (int bloom = 0; bloom <= 1; bloom++) {
                struct made made = make(hashes, n, bits, bloom);
                CHECK_EQ(lost(&made, hashes, n), 0);
                free(made.bytes);
            }
        }
    }
    free(hashes);
}

TEST(small_filter__takes_the_bits_that_it_may)
{
    for (size_t n = 1; n <= 400; n += 1 + n / 20) {
        uint64_t *hashes = random_hashes(n);
        size_t sum = 0, times = 40;
        for (size_t i = 0; i < times; i++) {
            for (size_t j = 0; j < n; j++) {
                hashes[j] = check_random();
            }
            struct made made = make(hashes, n, 10, false);
            sum += made.len;
            free(made.bytes);
        }
        /* A filter takes 2 bytes more than its bits do; about 1 filter in 16 takes 3 bytes more. */
        size_t bits = (n * 10 + 7) / 8;
        double most = (double)(bits < 8 ? 8 : bits) + SMALL_HEADER + 1;
        CHECK((double)sum / (double)times <= most);
        free(hashes);
    }
}

/* Returns the measured false-positive rate of filters with n keys. */
static double rate_of(size_t n, uint32_t bits, bool bloom, size_t trials)
{
    size_t filters = 1 + 2000 / n, hits = 0, each = trials / filters;
    for (size_t f = 0; f < filters; f++) {
        uint64_t *hashes = random_hashes(n);
        struct made made = make(hashes, n, bits, bloom);
        for (size_t i = 0; i < each; i++) {
            hits += asked(made.bytes, made.len, check_random());
        }
        free(made.bytes);
        free(hashes);
    }
    return (double)hits / (double)(filters * each);
}

TEST(small_filter__ribbons_have_the_rate_of_their_rows)
{
    static const size_t sizes[] = { 7,  8,   20,  37,  57,  58,  64,
                                    65, 100, 128, 129, 200, 1000 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (uint32_t bits = 4; bits <= 10; bits += 3) {
            struct small_shape shape = small_shape_for(sizes[i], bits, false);
            size_t trials = (sizes[i] == 37 ? 400 : 40) * (UINT64_C(1) << shape.rows);
            CHECK(shape.rows >= bits - (sizes[i] > SMALL_DENSE));
            CHECK_NEAR(rate_of(sizes[i], bits, false, trials),
                       exp2(-(double)shape.rows), sizes[i] == 37 ? 0.25 : 0.65);
        }
    }
}

TEST(small_filter__bloom_filters_have_about_the_textbook_rate)
{
    CHECK_NEAR(rate_of(37, 10, true, 400000), 0.0081, 0.1);
    CHECK_NEAR(rate_of(37, 6, true, 200000), 0.055, 0.15);
    CHECK_NEAR(rate_of(500, 10, true, 400000), 0.0082, 0.1);
}

TEST(small_filter__many_keys)
{
    static const size_t sizes[] = { 5000, 40000, SMALL_MAX_RIBBON + 1 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t *hashes = random_hashes(sizes[i]);
        struct made made = make(hashes, sizes[i], 10, false);
        CHECK_EQ(lost(&made, hashes, sizes[i]), 0);
        CHECK_EQ(made.shape.rows, sizes[i] <= SMALL_MAX_RIBBON ? 9 : 0);
        CHECK(made.len <= sizes[i] * 10 / 8 + 16);
        size_t hits = 0;
        for (size_t j = 0; j < 100000; j++) {
            hits += asked(made.bytes, made.len, check_random());
        }
        CHECK(hits < (made.shape.rows ? 300u : 1000u)); /* expected: 195, 820 */
        free(made.bytes);
        free(hashes);
    }
}

TEST(small_filter__hashes_that_come_again)
{
    uint64_t *hashes = random_hashes(200);
    for (size_t n = 2; n <= 200; n += 11) {
        for (size_t different = 1; different < n; different = different * 2 + 1) {
            for (size_t i = different; i < n; i++) {
                hashes[i] = hashes[i % different];
            }
            struct made made = make(hashes, n, 8, false);
            CHECK_EQ(lost(&made, hashes, n), 0);
            free(made.bytes);
        }
    }
    free(hashes);
}

TEST(small_filter__special_hashes)
{
    static const uint64_t hashes[] = { 0, UINT64_MAX, 1, UINT64_C(1) << 63, 2, 3, 4 };
    for (size_t n = 1; n <= 7; n++) {
        for (uint32_t bits = 1; bits <= 24; bits++) {
            struct made made = make(hashes, n, bits, bits % 2);
            CHECK_EQ(lost(&made, hashes, n), 0);
            free(made.bytes);
        }
    }
}

/* (S3) */
TEST(small_filter__one_damaged_byte_denies_nobody)
{
    static const size_t sizes[] = { 1, 3, 9, 37, 64, 70, 130 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t *hashes = random_hashes(sizes[i]);
        for (int bloom = 0; bloom <= 1; bloom++) {
            struct made made = make(hashes, sizes[i], 10, bloom);
            for (size_t at = 0; at < made.len; at++) {
                for (int flip = 1; flip < 256; flip += sizes[i] < 40 ? 1 : 7) {
                    made.bytes[at] ^= (uint8_t)flip;
                    CHECK_EQ(lost(&made, hashes, sizes[i]), 0);
                    made.bytes[at] ^= (uint8_t)flip;
                }
            }
            free(made.bytes);
        }
        free(hashes);
    }
}

TEST(small_filter__more_damage_is_mostly_noticed)
{
    uint64_t *hashes = random_hashes(37);
    struct made made = make(hashes, 37, 10, false);
    uint8_t whole[64];
    size_t unnoticed = 0, times = 20000;
    CHECK(made.len <= sizeof whole);
    memcpy(whole, made.bytes, made.len);
    for (size_t i = 0; i < times; i++) {
        for (size_t j = check_random_below(made.len); j < made.len; j++) {
            made.bytes[j] = (uint8_t)check_random();
        }
        unnoticed += lost(&made, hashes, 37) > 0;
        memcpy(made.bytes, whole, made.len);
    }
    CHECK(unnoticed * 256 < times * 2);
    free(made.bytes);
    free(hashes);
}

TEST(small_filter__zeros_and_ones_are_no_filters)
{
    for (size_t len = 0; len <= 600; len++) {
        uint8_t *bytes = calloc(1, len + !len);
        CHECK(bytes != NULL);
        for (int i = 0; i < 20; i++) {
            CHECK(asked(bytes, len, check_random()));
        }
        memset(bytes, 0xff, len);
        for (int i = 0; i < 20; i++) {
            CHECK(asked(bytes, len, check_random()));
        }
        free(bytes);
    }
}

TEST(small_filter__cut_or_moved)
{
    uint64_t *hashes = random_hashes(37);
    size_t denied = 0, asked = 0;
    for (int times = 0; times < 20; times++) {
        struct made made = make(hashes, 37, 10, times % 2);
        for (size_t from = 0; from < made.len; from++) {
            for (size_t len = 0; from + len <= made.len; len++) {
                struct made part = { .bytes = malloc(len + !len), .len = len };
                CHECK(part.bytes != NULL);
                memcpy(part.bytes, made.bytes + from, len);
                denied += len < made.len && lost(&part, hashes, 37) > 0;
                asked += len < made.len;
                free(part.bytes);
            }
        }
        free(made.bytes);
    }
    CHECK(denied * 256 < asked * 2);
    free(hashes);
}

/* Tries all 256 check values, so that one of them matches the bytes. */
TEST(small_filter__layouts_of_later_versions_say_maybe)
{
    for (unsigned layout = 216; layout < 256; layout++) {
        for (unsigned check = 0; check < 256; check++) {
            uint8_t bytes[20] = { (uint8_t)layout, (uint8_t)check, 1, 2, 3 };
            CHECK(asked(bytes, sizeof bytes, check_random()));
        }
    }
    /* Layout 215 is known, so the filter answers "no" if the check value matches. */
    size_t answers = 0;
    for (unsigned check = 0; check < 256; check++) {
        uint8_t bytes[20] = { 215, (uint8_t)check, 1, 2, 3 };
        answers += !asked(bytes, sizeof bytes, check_random());
    }
    CHECK_EQ(answers, 1);
}

/* Checks the bytes of a filter. Existing tables contain such filters, so the bytes must not change
 * unless the policy is renamed. */
static void check_bytes(size_t n, uint32_t bits, bool bloom, const char *expected)
{
    uint64_t hashes[200], state = 1;
    char text[2 * 400 + 1] = "";
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        hashes[i] = check_random_next(&state);
    }
    struct made made = make(hashes, n, bits, bloom);
    CHECK(made.len <= 400);
    for (size_t i = 0; i < made.len; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", made.bytes[i]);
        sum = sum * 31 + made.bytes[i];
    }
    if (made.len > 40) {
        (void)snprintf(text, sizeof text, "%zu bytes, sum %016llx", made.len,
                       (unsigned long long)sum);
    }
    CHECK_STR(text, expected);
    free(made.bytes);
}

TEST(small_filter__bytes_are_frozen)
{
    check_bytes(1, 10, false, "b86d0150501104000000");
    check_bytes(5, 10, false, "59a2dfa5f0b48d1b7408");
    check_bytes(20, 10, false,
                "49aa00df22c7b8c30b634c9d3d6f29f05e7a6f168386d5891ba57a");
    check_bytes(20, 10, true, "c63e8b45aeb878c43a067dcee801154de1379ddb9875d5a0b5536b");
    check_bytes(37, 10, false, "50 bytes, sum 8f208b17d3958b16");
    check_bytes(64, 7, false, "58 bytes, sum 3fb278d42b93c8df");
    check_bytes(100, 9, false, "115 bytes, sum 9b4b6b2c8015b3a2");
    check_bytes(200, 12, false, "283 bytes, sum e11f22d215349807");
}
