/*
 * nearest.c - see nearest.h. A name is near if its edit distance from the typed text is at most 1
 * plus a third of the text's length, or if it starts with the typed text (at least 3 letters).
 */
#include "nearest.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { NEAREST_LONGEST = 40 };

/* Returns the edit distance: the minimum number of letters to change, delete, insert, or swap with
 * the next letter. */
static size_t nearest_distance(const char *a, const char *b)
{
    size_t rows[3][NEAREST_LONGEST + 1];
    const size_t n = strlen(a), m = strlen(b);
    if (n > NEAREST_LONGEST || m > NEAREST_LONGEST) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= m; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= n; i++) {
        size_t *now = rows[i % 3], *before = rows[(i + 2) % 3];
        const size_t *swapped = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = before[j - 1] + (a[i - 1] != b[j - 1]);
            best = before[j] + 1 < best ? before[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]
                && swapped[j - 2] + 1 < best) {
                best = swapped[j - 2] + 1;
            }
            now[j] = best;
        }
    }
    return rows[n % 3][m];
}

const char *nearest_name(const char *typed, const char *const *names, size_t n)
{
    const char *best = NULL;
    size_t least = 1 + strlen(typed) / 3;
    for (size_t i = 0; i < n; i++) {
        const bool begins =
            strlen(typed) >= 3 && strncmp(typed, names[i], strlen(typed)) == 0;
        const size_t distance = begins ? 0 : nearest_distance(typed, names[i]);
        if (distance <= least && (!best || distance < least)) {
            best = names[i];
            least = distance;
        }
    }
    return best;
}
