/*
 * Known defects in other filter loaders, tested against Bloomgate's loader. Each test is named
 * after the defect's ID. All files here have valid checksums, as an attacker who knows the format
 * would write them. (Defects in RedisBloom's own format are tested in test_foreign_redisbloom.c.)
 */
#include "support/adds.h"
#include "support/files.h"
#include "support/forge.h"

enum { CASE_BLOCKED = 2, CASE_CUCKOO = 7, CASE_QUOTIENT = 8, CASE_SCALABLE = 11 };

enum {
    AT_FLAGS = 28,
    AT_WIDTH = 32,
    AT_K = 36,
    AT_UNITS = 40,
    AT_SHARDS = 48,
    AT_RATE = 72,
    AT_NUMBERS = 112,
    AT_WORD_BYTES = 120,
    NUMBERS = 4096
};

/* Changes one field of a file and checks that every function that reads the file rejects it with
 * the same error. */
static void check_refused(unsigned file, size_t offset, size_t size, uint64_t value)
{
    size_t n;
    bg_filter *filter = files_make(file, 1), *back = NULL;
    unsigned char *bytes = files_encode(filter, 1, &n);
    forge(bytes, offset, size, value);
    bg_err decoded = bg_decode(bytes, n, NULL, &back, NULL);
    CHECK(decoded != BG_OK && back == NULL);
    CHECK_EQ(bg_encoded_verify(bytes, n, NULL, NULL, NULL), decoded);
    const char *path = files_path("forged");
    FILE *out = fopen(path, "wb");
    CHECK(out && fwrite(bytes, 1, n, out) == n && fclose(out) == 0);
    CHECK_EQ(bg_open(path, NULL, &back, NULL), decoded);
    CHECK(back == NULL);
    CHECK_EQ(bg_map(path, NULL, &back, NULL), decoded);
    CHECK(back == NULL);
    CHECK_EQ(bg_verify(path, NULL, NULL, NULL), decoded);
    free(bytes);
    bg_filter_free(filter);
    files_clean();
}

/* Lengths that are not compared with the actual size could cause a write beyond the heap buffer. */
TEST(cve_2024_25115__lengths_beyond_the_bytes)
{
    static const uint64_t lengths[] = { 1 << 20,        INT32_MAX, UINT32_MAX,
                                        1ull << 40,     INT64_MAX, UINT64_MAX,
                                        UINT64_MAX - 63 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        check_refused(CASE_BLOCKED, AT_WORD_BYTES, 8, lengths[i]);
        check_refused(CASE_BLOCKED, AT_NUMBERS, 8, lengths[i]);
        check_refused(CASE_BLOCKED, AT_UNITS, 8, lengths[i]);
    }
}

/* Input could trigger an assertion. This test runs with assertions enabled. */
TEST(cve_2024_25116__no_assertion_is_reached)
{
    for (uint64_t value = 0; value < 70; value++) {
        for (unsigned file = 0; file < FILES_CASES_COUNT; file++) {
            size_t n;
            bg_filter *filter = files_make(file, 1), *back = NULL;
            unsigned char *bytes = files_encode(filter, 1, &n);
            forge(bytes, AT_K, 4, value);
            if (bg_decode(bytes, n, NULL, &back, NULL) == BG_OK) {
                (void)added(back, "x", 1);
                (void)bg_filter_may_contain(back, "x", 1);
            }
            bg_filter_free(back);
            free(bytes);
            bg_filter_free(filter);
        }
    }
}

/* The product of the number of units and the bytes per unit could overflow. */
TEST(cve_2024_55656__products_that_wrap)
{
    check_refused(CASE_BLOCKED, AT_UNITS, 8, (1ull << 58) + 1); /* x 64 = 64 */
    check_refused(CASE_CUCKOO, AT_UNITS, 8, 0x8000000000000001u);
    check_refused(CASE_QUOTIENT, AT_UNITS, 8, UINT64_MAX / 56 + 2);
    check_refused(CASE_SCALABLE, AT_UNITS, 8, (1ull << 58) + 1);
    check_refused(CASE_BLOCKED, AT_SHARDS, 4, UINT32_MAX);
}

/* The defect was described as "Invalid Bloom filters: arbitrary memory read and write". The number
 * of bits did not match the size of the buffer. */
TEST(redisbloom_2025_11__geometry_and_words_that_differ)
{
    for (uint64_t units = 1; units < 12; units++) {
        size_t n;
        bg_filter *filter = files_make(CASE_BLOCKED, 1);
        uint64_t right = info_of(filter).units;
        unsigned char *bytes = files_encode(filter, 1, &n);
        free(bytes);
        bg_filter_free(filter);
        if (units != right) {
            check_refused(CASE_BLOCKED, AT_UNITS, 8, units);
            check_refused(CASE_CUCKOO, AT_UNITS, 8, units);
        }
    }
}

/* Invalid widths, or invalid sizes from which the number of quotient bits is derived, could cause
 * shifts by more than the word size. */
TEST(red_181297__shifts_beyond_a_word)
{
    static const uint64_t ks[] = { 0, 1, 33, 63, 64, 65, 128, UINT32_MAX };
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
        check_refused(CASE_QUOTIENT, AT_K, 4, ks[i]);
        check_refused(CASE_CUCKOO, AT_K, 4, ks[i]);
    }
    check_refused(CASE_SCALABLE, AT_WIDTH, 4, 64);
}

/* The numbers stored for a filter contradicted the size of its buffer. */
TEST(mod_13409__numbers_and_words_that_differ)
{
    check_refused(CASE_SCALABLE, NUMBERS, 8, 0);
    check_refused(CASE_SCALABLE, NUMBERS, 8, 5);
    check_refused(CASE_QUOTIENT, NUMBERS, 8, 0);
    check_refused(CASE_QUOTIENT, NUMBERS, 8, 2);
    check_refused(CASE_BLOCKED, AT_SHARDS, 4, 2);
}

/* The loader allocated memory for nfilters = 2^64 - 1 without checking the value. */
TEST(mod_15943__numbers_of_parts)
{
    static const uint64_t counts[] = { 67, 1 << 20, UINT32_MAX, UINT64_MAX };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        check_refused(CASE_SCALABLE, NUMBERS, 8, counts[i]);
        check_refused(CASE_BLOCKED, AT_SHARDS, 4, counts[i]);
    }
}

/* The loader accepted rates that are not valid numbers. */
TEST(mod_17621__rates_that_are_no_numbers)
{
    static const uint64_t rates[] = { 0x7ff0000000000000, 0xfff0000000000000,
                                      0x7ff8000000000000, 0xbff0000000000000,
                                      0x4000000000000000 /* 2.0 */ };
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        check_refused(CASE_BLOCKED, AT_RATE, 8, rates[i]);
        check_refused(CASE_SCALABLE, AT_RATE, 8, rates[i]);
    }
}

/* A file with INT_MAX hash functions made every query extremely slow. */
TEST(mod_18487__work_per_query_is_bounded)
{
    static const uint64_t ks[] = { 65, 255, 65536, INT32_MAX };
    for (unsigned file = 0; file < 9; file++) {
        for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
            check_refused(file, AT_K, 4, ks[i]);
        }
    }
}

/* One decoder accepted input that another one refused. check_refused runs all of Bloomgate's
 * decoders. */
TEST(valkey_bloom_90__all_ways_in_agree)
{
    check_refused(CASE_SCALABLE, AT_RATE, 8, 0x4000000000000000 /* 2.0 */);
    check_refused(CASE_SCALABLE, AT_WIDTH, 4, 0);
    check_refused(CASE_BLOCKED, AT_FLAGS, 4,
                  1u << 30); /* an internal flag of the library */
}

/* A filter of size zero caused a division by zero. */
TEST(cve_2013_5700__filters_of_no_size)
{
    for (unsigned file = 0; file < FILES_CASES_COUNT; file++) {
        check_refused(file, AT_UNITS, 8, 0);
        check_refused(file, AT_WORD_BYTES, 8, 0);
    }
}

/* A truncated payload must not terminate the process. (file__every_truncation_is_noticed tests
 * every length for every kind.) */
TEST(cve_2026_21864__truncated_payloads)
{
    size_t n;
    bg_filter *filter = files_make(CASE_BLOCKED, 1), *back = NULL;
    unsigned char *bytes = files_encode(filter, 1, &n);
    for (size_t length = 0; length < n; length += 17) {
        CHECK(bg_decode(bytes, length, NULL, &back, NULL) != BG_OK);
        CHECK(back == NULL);
    }
    free(bytes);
    bg_filter_free(filter);
}
