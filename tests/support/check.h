/*
 * check.h - the test harness, small enough to be linked statically and run under qemu.
 *
 *     #include "support/check.h"
 *
 *     TEST(filter__remembers)
 *     {
 *         CHECK_OK(bg_filter_create(&spec, &f, NULL));
 *         CHECK(bg_filter_may_contain(f, "apple", 5));
 *         CHECK_EQ(bg_builder_count(builder), n);
 *     }
 *
 * Tests register themselves and run in source order; main() is in check.c.
 * A failed CHECK prints its location and values and ends the test, and the next test runs.
 * In a thread started by the test, a failed CHECK is only counted as a failure, and the thread
 * continues.
 *
 *     program             runs all tests
 *     program --list      lists the tests
 *     program part        runs the tests whose names contain `part`
 *
 *     BG_TEST_SEED=n      seed of the random numbers. The default is fixed; `random` uses
 *                         the clock. The seed is printed, so that a run can be repeated.
 *     BG_TEST_SCALE=n     work factor (default: 1), used by `make soak`
 *
 * The last line is "N passed, N failed"; the exit status is 1 if any test failed or no test ran.
 */
#ifndef CHECK_H
#define CHECK_H

#include "bloomgate/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct check_case {
    const char *name;
    void (*run)(void);
    struct check_case *next;
};

#define TEST(name)                                                                     \
    static void test_##name(void);                                                     \
    static struct check_case case_##name = { #name, test_##name, NULL };               \
    __attribute__((constructor)) static void register_##name(void)                     \
    {                                                                                  \
        check_register(&case_##name);                                                  \
    }                                                                                  \
    static void test_##name(void)

/* Checks that a condition holds. */
#define CHECK(condition)                                                               \
    ((condition) ? (void)0 : check_fail(__FILE__, __LINE__, "%s", #condition))

/* Checks that two integers of any type are equal. Use CHECK_NEAR for floating point. */
#define CHECK_EQ(a, b)                                                                 \
    do {                                                                               \
        _Static_assert(CHECK_IS_INTEGER(a) && CHECK_IS_INTEGER(b), "integers only");   \
        check_eq(__FILE__, __LINE__, #a " == " #b, (uint64_t)(a), (uint64_t)(b));      \
    } while (0)

/* Checks that two strings are equal. NULL equals only NULL. */
#define CHECK_STR(a, b) check_str(__FILE__, __LINE__, #a " == " #b, (a), (b))

/* Checks that a differs from b by at most `rel` times b. For example, a `rel` of 0.05 allows 5%. */
#define CHECK_NEAR(a, b, rel)                                                          \
    check_near(__FILE__, __LINE__, #a " ~ " #b, (double)(a), (double)(b), (double)(rel))

/* Checks that a call returned BG_OK. */
#define CHECK_OK(err) check_ok(__FILE__, __LINE__, #err, (err))

#define CHECK_IS_INTEGER(x) _Generic((x), float : 0, double : 0, default : 1)

/*
 * Random numbers (splitmix64). Every test starts its own sequence from the seed and its
 * name, so a test gets the same numbers when it runs alone. A thread started by the test
 * has its own sequence, which depends on the order of the threads' first calls. Where that
 * matters, keep a state per thread and use check_random_next.
 */
uint64_t check_random(void);
uint64_t check_random_below(uint64_t n); /* 0 <= x < n, for n > 0 */
uint64_t check_random_next(uint64_t *state);
uint64_t check_seed(void);

/* Returns the work factor, which is at least 1. Example:
 * `for (i = 0; i < 1000 * check_scale(); i++)`. */
size_t check_scale(void);

/* Used only by the macros. */
void check_register(struct check_case *test);
void check_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void check_eq(const char *file, int line, const char *text, uint64_t a, uint64_t b);
void check_str(const char *file, int line, const char *text, const char *a,
               const char *b);
void check_near(const char *file, int line, const char *text, double a, double b,
                double rel);
void check_ok(const char *file, int line, const char *text, bg_err err);

#endif
