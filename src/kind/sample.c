/* sample.c - see sample.h. */
#include "kind/sample.h"

#include <math.h>

enum { SAMPLE_STRETCHES = 64 };

double bgi_sample_sum(uint64_t units, uint64_t bytes, uint64_t most, double least,
                      bgi_sample_count *count, const void *context, double *error)
{
    const uint64_t distance = units / SAMPLE_STRETCHES;
    *error = 0;
    if (most == 0 || bytes <= most || distance < 2) {
        return (double)count(context, 0, units);
    }
    const double share = (double)most / (double)bytes;
    uint64_t n = (uint64_t)((double)distance * share);
    n = n ? n : 1;
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < SAMPLE_STRETCHES; i++) {
        const double found = (double)count(context, i * distance, n);
        sum += found;
        squares += found * found;
    }
    const double scale = (double)units / ((double)n * SAMPLE_STRETCHES);
    const double spread = fmax(0, squares - sum * sum / SAMPLE_STRETCHES)
                          / (SAMPLE_STRETCHES - 1) * SAMPLE_STRETCHES;
    *error = scale * sqrt(spread + least * least);
    return sum * scale;
}
