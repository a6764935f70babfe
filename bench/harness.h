/*
 * harness.h - compares the speed of several subjects (filters, libraries or limits) fairly.
 *
 * Machines are shared, clock speeds change, and other programs start and stop. Therefore, the
 * subjects in a table do not run one after another. The harness visits them in turn, many times,
 * for a few short passes each, until the time budget is used up. Anything that temporarily slows
 * the machine down slows all subjects down alike, and the ratios within a table hold even if the
 * absolute times do not. The reported time of a subject is the 5th percentile of its passes; the
 * best and the median pass are reported as well.
 *
 * A visit consists of a rewind (for subjects that have one), one untimed pass that brings the data
 * back into the cache, and the timed passes. Every pass uses the next `chunk` keys of the subject's
 * pool and returns the number of positive answers. The harness checks this number against the
 * subject's bounds: for keys that were added, all answers must be positive. A subject that fails
 * this check is marked BROKEN, its speed is not reported, and the program exits with code 1.
 */
#ifndef BGB_HARNESS_H
#define BGB_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BGB_NAME_BYTES = 64, BGB_TIMED_PASSES = 3 };

struct bgb_subject {
    /* Description, set by the code that defines the table. */
    char name[BGB_NAME_BYTES];
    uint64_t (*pass)(void *state, size_t first,
                     size_t n);  /* returns the number of positives */
    void (*rewind)(void *state); /* runs before every visit, untimed; may be NULL */
    void *state;
    size_t pool;        /* number of keys, which the passes use in turn */
    size_t chunk;       /* keys per pass, at most `pool` */
    double least, most; /* allowed range for the fraction of positives */
    const uint64_t
        *own_ns; /* set if the pass measures its own time and stores the result here */
    bool cold;   /* no warm-up pass and only one timed pass, for whole builds */
    bool broken; /* an answer was wrong; set by bgb_run, or by its caller in advance */

    /* Results, set by bgb_run: nanoseconds per key. */
    double best, p5, median;
    double share; /* fraction of positives over all timed passes */
    uint64_t passes;

    /* Private to the harness. */
    double *samples;
    size_t sample_room;
    size_t at;
    uint64_t positives, keys;
};

/* Runs `count` subjects in turn, for `seconds` each on average, with at least seven
 * visits each (three in a table of builds). Then fills in their results. */
void bgb_run(struct bgb_subject *subjects, size_t count, double seconds);

/* Returns the number of BROKEN subjects in the whole program so far. */
unsigned bgb_broken_count(void);

/* Reports a BROKEN subject and counts it. */
void bgb_broken_add(const char *name, const char *why);

/* Returns the time of a monotonic clock in nanoseconds. */
uint64_t bgb_now_ns(void);

/* Keeps the compiler from optimizing a value away. */
static inline void bgb_sink(uint64_t value)
{
    __asm__ volatile("" : : "r"(value) : "memory");
}

/* Prints an error and exits with code 3, for errors such as running out of memory that
 * make further measurements pointless. */
_Noreturn void bgb_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Allocates zeroed memory, aligned to 128 bytes; calls bgb_die on failure. The caller frees it
 * with free(). */
void *bgb_alloc(size_t count, size_t size);

#endif
