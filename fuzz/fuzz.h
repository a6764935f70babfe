/*
 * fuzz.h - the function that a fuzz target defines, and the macro that reports a violation.
 *
 * Each target is a file fuzz_<surface>.c. Inputs worth keeping are stored in
 * corpus/fuzz_<surface>/.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Feeds one input to the code under test; returns 0. Called by libFuzzer or replay.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aborts the program if a condition does not hold. Unlike assert, it is active in every build. */
#define FUZZ_MUST(condition)                                                           \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: must hold: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                   \
        }                                                                              \
    } while (0)

#endif
