/*
 * harness.h - how fast are several subjects, measured fairly against each other?
 *
 * Machines are shared, clocks change, neighbours come and go. So the subjects of a
 * table are not run one after another: the harness visits them in turn, many times, for
 * a few short passes each, until the time budget is used up. Whatever slows the machine
 * for a while then slows all of them alike, and the ratios within a table hold even
 * where the figures do not. Of all passes of a subject the 5th percentile is the figure
 * quoted; the best and the median stand beside it.
 *
 * A visit is: rewind (where a subject has one), one untimed pass that brings the memory
 * back into the cache, then the timed passes. Every pass takes the next `chunk` keys of
 * the subject's pool and returns how many of them came out positive. The harness checks
 * that number against what the subject allows: for keys that were added it must be all
 * of them. A subject that fails is BROKEN, its speed is of no interest, and the program
 * ends with exit code 1.
 */
#ifndef BGB_HARNESS_H
#define BGB_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BGB_NAME_BYTES = 64, BGB_TIMED_PASSES = 3 };

struct bgb_subject {
    /* What it is, set by the table's author. */
    char name[BGB_NAME_BYTES];
    uint64_t (*pass)(void *state, size_t first, size_t n); /* returns the positives */
    void (*rewind)(void *state); /* untimed, before every visit; NULL: none */
    void *state;
    size_t pool;            /* keys there are: passes take them in turn */
    size_t chunk;           /* keys per pass, at most `pool` */
    double least, most;     /* the share of positives that is not BROKEN */
    const uint64_t *own_ns; /* the pass times itself and leaves the result here */
    bool cold;              /* no warming pass, one timed pass: for whole builds */
    bool broken;            /* an answer was wrong: set by bgb_run, or before it */

    /* What came out, set by bgb_run: nanoseconds per key. */
    double best, p5, median;
    double share; /* of positives, over all timed passes */
    uint64_t passes;

    /* The harness's own. */
    double *samples;
    size_t sample_room;
    size_t at;
    uint64_t positives, keys;
};

/* Runs `count` subjects in turn, for `seconds` each on average, and at least for seven
 * visits each (three in a table of builds); then fills in their results. */
void bgb_run(struct bgb_subject *subjects, size_t count, double seconds);

/* How many subjects were BROKEN so far, in the whole program; and marks one more. */
unsigned bgb_broken_count(void);
void bgb_broken_add(const char *name, const char *why);

/* Nanoseconds of a clock that only goes forward. */
uint64_t bgb_now_ns(void);

/* Keeps a value from being optimised away. */
static inline void bgb_sink(uint64_t value)
{
    __asm__ volatile("" : : "r"(value) : "memory");
}

/* Says what went wrong and ends the program with exit code 3: there is no point in
 * measuring on a machine that has no memory left. */
_Noreturn void bgb_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Memory or bgb_die. Zeroed, aligned to 128 bytes, freed by free(). */
void *bgb_alloc(size_t count, size_t size);

#endif
