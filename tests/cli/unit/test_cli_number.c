/* test_cli_number.c - tests how numbers are parsed and formatted. */
#include "support/check.h"

#include "number.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(entries) (sizeof(entries) / sizeof *(entries))

TEST(number__counts)
{
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = { { "0", 0 },
                 { "00012", 12 },
                 { "9007199254740993", 9007199254740993 }, /* 2^53 + 1 */
                 { "18446744073709551615", UINT64_MAX },
                 { "10k", 10000 },
                 { "10K", 10000 },
                 { "5M", 5000000 },
                 { "2G", 2000000000 },
                 { "3T", 3000000000000 },
                 { "4P", 4000000000000000 },
                 { "1Ki", 1024 },
                 { "512Mi", 512 << 20 },
                 { "2Gi", UINT64_C(2) << 30 },
                 { "1Ti", UINT64_C(1) << 40 },
                 { "1Pi", UINT64_C(1) << 50 },
                 { "7B", 7 },
                 { "7kB", 7000 },
                 { "7KiB", 7168 },
                 { "1e6", 1000000 },
                 { "1E6", 1000000 },
                 { "2.5k", 2500 },
                 { ".5k", 500 },
                 { "1.", 1 },
                 { "0.0", 0 },
                 { "0k", 0 },
                 { "1e18", UINT64_C(1000000000000000000) } };
    static const char *const bad[] = { "",
                                       " ",
                                       " 1",
                                       "1 ",
                                       "-1",
                                       "+1",
                                       "-0",
                                       "0x10",
                                       "0X10",
                                       "nan",
                                       "inf",
                                       "infinity",
                                       "1e400",
                                       "1e-400",
                                       "0e-400x",
                                       "1.5",
                                       "0.0001",
                                       "1e-1",
                                       "1e19",
                                       "1e30",
                                       "18446744073709551616",
                                       "99999999999999999999",
                                       "20000000P",
                                       "1kk",
                                       "1kb",
                                       "1i",
                                       "1Bk",
                                       "1e",
                                       "1e+",
                                       ".",
                                       "..",
                                       "1.2.3",
                                       "1,000",
                                       "k",
                                       "B",
                                       "1/2",
                                       "5%",
                                       "10s",
                                       "1\n" };
    for (size_t i = 0; i < COUNT(good); i++) {
        uint64_t value = 77;
        CHECK(number_count(good[i].text, &value));
        CHECK_EQ(value, good[i].value);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        uint64_t value;
        if (number_count(bad[i], &value)) {
            check_fail(__FILE__, __LINE__, "'%s' was accepted as a count", bad[i]);
        }
    }
}

/* Large integers are not rounded. */
TEST(number__random_counts)
{
    for (size_t i = 0; i < 10000 * check_scale(); i++) {
        const uint64_t wanted = check_random() >> check_random_below(64);
        char text[32];
        uint64_t value;
        (void)snprintf(text, sizeof text, "%" PRIu64, wanted);
        CHECK(number_count(text, &value));
        CHECK_EQ(value, wanted);
        const uint64_t small = check_random_below(1 << 20);
        (void)snprintf(text, sizeof text, "%" PRIu64 "Mi", small);
        CHECK(number_count(text, &value));
        CHECK_EQ(value, small << 20);
    }
}

TEST(number__rates)
{
    static const struct {
        const char *text;
        double value;
    } good[] = { { "0.001", 1e-3 },  { "1e-3", 1e-3 },        { "0.1%", 1e-3 },
                 { "1/1000", 1e-3 }, { ".5", 0.5 },           { "99.9%", 0.999 },
                 { "3/4", 0.75 },    { "0.5/2", 0.25 },       { "1e-300", 1e-300 },
                 { "1e-1%", 1e-3 },  { "0.999999", 0.999999 } };
    static const char *const bad[] = {
        "",     "0",    "0%",   "0/5",  "1",     "1.0",   "100%",    "1/1",
        "2",    "-0.1", "+0.1", "nan",  "inf",   "1e400", "1e-400",  "0x1p-4",
        "1/0",  "0/0",  "1/",   "/5",   "%",     "1%%",   "1/1000%", "1%/2",
        "0.1k", "0,1",  "0.1 ", "1/-5", "1/inf", "5/4",   "1/2/3"
    };
    for (size_t i = 0; i < COUNT(good); i++) {
        double value;
        CHECK(number_rate(good[i].text, &value));
        CHECK_NEAR(value, good[i].value, 1e-12);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        double value;
        if (number_rate(bad[i], &value)) {
            check_fail(__FILE__, __LINE__, "'%s' was accepted as a rate", bad[i]);
        }
    }
}

TEST(number__reals_and_seconds)
{
    static const char *const bad[] = {
        "", "-1", "nan", "inf", "1e400", "0x8", "8x", "s"
    };
    double value;
    CHECK(number_real("2.5", &value) && value == 2.5);
    CHECK(number_real("0", &value) && value == 0);
    CHECK(number_real("1.5k", &value) && value == 1500);
    CHECK(number_real("0.5Ki", &value) && value == 512);
    CHECK(!number_real("1e308P", &value));
    CHECK(!number_real("5%", &value));
    CHECK(number_seconds("30", &value) && value == 30);
    CHECK(number_seconds("30s", &value) && value == 30);
    CHECK(number_seconds("5m", &value) && value == 300);
    CHECK(number_seconds("2h", &value) && value == 7200);
    CHECK(number_seconds("1d", &value) && value == 86400);
    CHECK(number_seconds("1.5ms", &value));
    CHECK_NEAR(value, 1.5e-3, 1e-12);
    CHECK(number_seconds("2us", &value));
    CHECK_NEAR(value, 2e-6, 1e-12);
    CHECK(number_seconds("3ns", &value));
    CHECK_NEAR(value, 3e-9, 1e-12);
    CHECK(!number_seconds("5M", &value));
    CHECK(!number_seconds("5 s", &value));
    CHECK(!number_seconds("1e308d", &value));
    for (size_t i = 0; i < COUNT(bad); i++) {
        CHECK(!number_real(bad[i], &value));
        CHECK(!number_seconds(bad[i], &value));
    }
}

TEST(number__shown)
{
    char text[NUMBER_TEXT];
    CHECK_STR(number_show(0, text), "0");
    CHECK_STR(number_show(999, text), "999");
    CHECK_STR(number_show(1000, text), "1,000");
    CHECK_STR(number_show(1234567, text), "1,234,567");
    CHECK_STR(number_show(UINT64_MAX, text), "18,446,744,073,709,551,615");
    CHECK_STR(number_show_bytes(0, text), "0 B");
    CHECK_STR(number_show_bytes(999, text), "999 B");
    CHECK_STR(number_show_bytes(1000, text), "1.0 KiB");
    CHECK_STR(number_show_bytes(12 << 20, text), "12.0 MiB");
    CHECK_STR(number_show_bytes(UINT64_C(500) << 30, text), "500 GiB");
    CHECK_STR(number_show_bytes(UINT64_MAX, text), "16.0 EiB");
    CHECK_STR(number_show_rate(0.001, text), "0.1%");
    CHECK_STR(number_show_rate(0, text), "0%");
    CHECK_STR(number_show_rate(8.7e-7, text), "0.000087%");
    CHECK_STR(number_show_rate(1e-8, text), "0.000001%");
    CHECK_STR(number_show_rate(1e-9, text), "1e-9");
    CHECK_STR(number_show_rate(2.3456e-10, text), "2.35e-10");
    CHECK_STR(number_show_seconds(0.5, text), "0.5 s");
    CHECK_STR(number_show_seconds(12.7, text), "12 s");
    CHECK_STR(number_show_seconds(200, text), "3m 20s");
    CHECK_STR(number_show_seconds(7260, text), "2h 01m");
    CHECK_STR(number_show_seconds(-1, text), "?");
    CHECK_STR(number_show_seconds((double)INFINITY, text), "?");
    CHECK_STR(number_show_seconds((double)NAN, text), "?");
}
