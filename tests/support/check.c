/* check.c - the implementation of check.h: main(), the list of tests, and the reports. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include "support/check.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEFAULT_SEED = 20260101, REPORTS_PER_TEST = 10 };

static struct check_case *first_case, **last_link = &first_case;
static uint64_t seed = DEFAULT_SEED;
static size_t scale = 1;

/* State of the running test. The test's threads also add to `failures`. */
static atomic_uint failures;
static atomic_uint threads_seen;
static jmp_buf leave_test;
static _Thread_local bool may_leave; /* true only in the thread that runs the tests */
static _Thread_local bool random_started;
static _Thread_local uint64_t random_state;

void check_register(struct check_case *test)
{
    *last_link = test;
    last_link = &test->next;
}

/* ---- Checks ---------------------------------------------------------------------- */

void check_fail(const char *file, int line, const char *format, ...)
{
    if (atomic_fetch_add(&failures, 1) < REPORTS_PER_TEST) {
        char text[512];
        va_list args;
        va_start(args, format);
        (void)vsnprintf(text, sizeof text, format, args);
        va_end(args);
        printf("%s:%d: %s\n", file, line, text);
    }
    if (may_leave) {
        longjmp(leave_test, 1);
    }
}

void check_eq(const char *file, int line, const char *text, uint64_t a, uint64_t b)
{
    if (a != b) {
        check_fail(file, line, "%s: %lld (0x%llx) and %lld (0x%llx)", text,
                   (long long)a, (unsigned long long)a, (long long)b,
                   (unsigned long long)b);
    }
}

void check_str(const char *file, int line, const char *text, const char *a,
               const char *b)
{
    if (a && b ? strcmp(a, b) != 0 : a != b) {
        check_fail(file, line, "%s: \"%s\" and \"%s\"", text, a ? a : "(null)",
                   b ? b : "(null)");
    }
}

void check_near(const char *file, int line, const char *text, double a, double b,
                double rel)
{
    if (!(fabs(a - b) <= rel * fabs(b))) { /* written this way so that NaN fails */
        check_fail(file, line, "%s: %.9g and %.9g differ by %.3g, allowed %.3g", text,
                   a, b, fabs(a - b) / fabs(b), rel);
    }
}

void check_ok(const char *file, int line, const char *text, bg_err err)
{
    if (err != BG_OK) {
        check_fail(file, line, "%s: %s (%s)", text, bg_err_name(err), bg_strerror(err));
    }
}

/* ---- Random numbers -------------------------------------------------------------- */

uint64_t check_random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void random_start(const char *name, uint64_t number)
{
    random_state = seed;
    for (; *name; name++) {
        random_state = check_random_next(&random_state) ^ (unsigned char)*name;
    }
    random_state = check_random_next(&random_state) + number;
    random_started = true;
}

uint64_t check_random(void)
{
    if (!random_started) { /* called in a thread started by the test */
        random_start("thread", atomic_fetch_add(&threads_seen, 1));
    }
    return check_random_next(&random_state);
}

uint64_t check_random_below(uint64_t n)
{
    return check_random() % n;
}

uint64_t check_seed(void)
{
    return seed;
}

size_t check_scale(void)
{
    return scale;
}

/* ---- Running --------------------------------------------------------------------- */

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static bool run_case(const struct check_case *test)
{
    atomic_store(&failures, 0);
    atomic_store(&threads_seen, 0);
    random_start(test->name, 0);
    double start = now_ms();
    may_leave = true;
    if (setjmp(leave_test) == 0) {
        test->run();
    }
    may_leave = false;

    unsigned failed = atomic_load(&failures);
    if (failed == 0) {
        printf("ok %s (%.0f ms)\n", test->name, now_ms() - start);
        return true;
    }
    if (failed > REPORTS_PER_TEST) {
        printf("... and %u failures more\n", failed - REPORTS_PER_TEST);
    }
    printf("FAILED %s\n", test->name);
    return false;
}

/* Returns an environment variable as an integer, or `fallback` if it is unset or empty. */
static uint64_t number_from_environment(const char *name, uint64_t fallback)
{
    const char *text = getenv(name); /* NOLINT(concurrency-mt-unsafe) */
    if (!text || !*text) {
        return fallback;
    }
    char *end;
    errno = 0;
    uint64_t number = strtoull(text, &end, 0);
    if (errno || *end) {
        fprintf(stderr, "%s=%s: expected a whole number\n", name, text);
        exit(2); /* NOLINT(concurrency-mt-unsafe) */
    }
    return number;
}

static void read_environment(void)
{
    const char *text = getenv("BG_TEST_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    if (text && strcmp(text, "random") == 0) {
        struct timespec t;
        (void)clock_gettime(CLOCK_REALTIME, &t);
        seed = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    } else {
        seed = number_from_environment("BG_TEST_SEED", DEFAULT_SEED);
    }
    uint64_t factor = number_from_environment("BG_TEST_SCALE", 1);
    scale = factor ? (size_t)factor : 1;
}

int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";
    if (strcmp(part, "--list") == 0) {
        for (const struct check_case *test = first_case; test; test = test->next) {
            puts(test->name);
        }
        return 0;
    }
    /* Uses line buffering, so that a crash loses no output. */
    (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    read_environment();
    printf("BG_TEST_SEED=%llu BG_TEST_SCALE=%zu\n", (unsigned long long)seed, scale);

    unsigned passed = 0, failed = 0;
    for (const struct check_case *test = first_case; test; test = test->next) {
        if (strstr(test->name, part)) {
            if (run_case(test)) {
                passed++;
            } else {
                failed++;
            }
        }
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed || !passed ? 1 : 0;
}
