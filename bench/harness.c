/*
 * harness.c - the round-robin schedule of short passes described in harness.h.
 */
#define _GNU_SOURCE /* for clock_gettime under -std=c17 */

#include "harness.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MIN_ROUNDS = 7, /* with fewer rounds, the 5th percentile would be the best pass */
    MIN_BUILDS = 3, /* for a table that contains only whole builds */
    FIRST_ROOM = 64
};

static unsigned harness_broken;

uint64_t bgb_now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void bgb_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fflush(stdout);
    (void)fputs("bgbench: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
    exit(3); /* NOLINT(concurrency-mt-unsafe): no thread outlives this call */
}

void *bgb_alloc(size_t count, size_t size)
{
    size_t bytes;
    void *p = NULL;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX - 64u
        || posix_memalign(&p, 128, bytes ? bytes : 1) != 0) {
        bgb_die("cannot allocate %zu elements of %zu bytes", count, size);
    }
    memset(p, 0, bytes);
    return p;
}

unsigned bgb_broken_count(void)
{
    return harness_broken;
}

void bgb_broken_add(const char *name, const char *why)
{
    harness_broken++;
    (void)fflush(stdout);
    (void)fprintf(stderr, "BROKEN: %s: %s\n", name, why);
}

static void harness_sample(struct bgb_subject *s, double ns_per_key)
{
    if (s->passes == s->sample_room) {
        size_t room = s->sample_room ? 2 * s->sample_room : FIRST_ROOM;
        double *grown = realloc(s->samples, room * sizeof *grown);
        if (!grown) {
            bgb_die("cannot allocate %zu samples", room);
        }
        s->samples = grown;
        s->sample_room = room;
    }
    s->samples[s->passes++] = ns_per_key;
}

/* Returns the index of the first key of the next pass. A pass that would extend past the end of the
 * pool starts at index 0 instead. */
static size_t harness_next(struct bgb_subject *s)
{
    if (s->at + s->chunk > s->pool) {
        s->at = 0;
    }
    size_t first = s->at;
    s->at += s->chunk;
    return first;
}

static void harness_timed_pass(struct bgb_subject *s)
{
    size_t first = harness_next(s);
    uint64_t begin = bgb_now_ns();
    uint64_t positives = s->pass(s->state, first, s->chunk);
    uint64_t ns = bgb_now_ns() - begin;
    bgb_sink(positives);
    if (s->own_ns) {
        ns = *s->own_ns;
    }
    s->positives += positives;
    s->keys += s->chunk;
    harness_sample(s, (double)ns / (double)s->chunk);
}

static void harness_visit(struct bgb_subject *s)
{
    if (s->rewind) {
        s->rewind(s->state);
        s->at = 0;
    }
    if (!s->cold) {
        bgb_sink(s->pass(s->state, harness_next(s), s->chunk));
    }
    for (int i = 0; i < (s->cold ? 1 : BGB_TIMED_PASSES); i++) {
        harness_timed_pass(s);
    }
}

static int harness_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void harness_conclude(struct bgb_subject *s)
{
    qsort(s->samples, (size_t)s->passes, sizeof *s->samples, harness_compare);
    s->best = s->samples[0];
    s->p5 = s->samples[(s->passes - 1) / 20];
    s->median = s->samples[s->passes / 2];
    s->share = (double)s->positives / (double)s->keys;
    if (s->share < s->least || s->share > s->most) {
        char why[160];
        (void)snprintf(
            why, sizeof why,
            "the fraction of positive answers is %.6f, expected %.6f to %.6f", s->share,
            s->least, s->most);
        s->broken = true;
        bgb_broken_add(s->name, why);
    }
    free(s->samples);
    s->samples = NULL;
    s->sample_room = 0;
}

static void harness_reset(struct bgb_subject *s)
{
    s->samples = NULL;
    s->sample_room = 0;
    s->passes = s->positives = s->keys = 0;
    s->at = 0;
    if (s->chunk == 0 || s->chunk > s->pool) {
        bgb_die("%s: a chunk of %zu keys does not fit a pool of %zu keys", s->name,
                s->chunk, s->pool);
    }
}

void bgb_run(struct bgb_subject *subjects, size_t count, double seconds)
{
    for (size_t i = 0; i < count; i++) {
        harness_reset(&subjects[i]);
    }
    int least = MIN_BUILDS;
    for (size_t i = 0; i < count; i++) {
        least = subjects[i].cold ? least : MIN_ROUNDS;
    }
    uint64_t budget = (uint64_t)(seconds * 1e9 * (double)count);
    uint64_t begin = bgb_now_ns();
    for (int round = 0; round < least || bgb_now_ns() - begin < budget; round++) {
        for (size_t i = 0; i < count; i++) {
            harness_visit(&subjects[i]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        harness_conclude(&subjects[i]);
    }
}
