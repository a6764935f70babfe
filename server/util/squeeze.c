/* squeeze.c - see squeeze.h. Only whole grains (32 bytes) of zeros are removed, so runs are few and
 * long. */
#include "util/squeeze.h"

#include "bytes.h"

#include <string.h>

enum { SQUEEZE_GRAIN = 32, SQUEEZE_WORD = 4 };

static bool squeeze_is_zero(const unsigned char *grain)
{
    uint64_t words[SQUEEZE_GRAIN / 8];
    memcpy(words, grain, sizeof words);
    return (words[0] | words[1] | words[2] | words[3]) == 0;
}

/* Returns the end of the run of grains that starts at `at`: zero grains if `zero` is true, and
 * nonzero grains otherwise. */
static size_t squeeze_run(const unsigned char *from, size_t at, size_t n, bool zero)
{
    while (n - at >= SQUEEZE_GRAIN && squeeze_is_zero(from + at) == zero) {
        at += SQUEEZE_GRAIN;
    }
    return zero || n - at >= SQUEEZE_GRAIN ? at : n;
}

size_t squeeze(const void *bytes, size_t n, void *to)
{
    const unsigned char *from = bytes;
    unsigned char *out = to;
    size_t at = 0;
    bytes_store32(out, (uint32_t)n);
    out += SQUEEZE_WORD;
    while (at < n) {
        const size_t begin = squeeze_run(from, at, n, true);
        const size_t end = squeeze_run(from, begin, n, false);
        bytes_store32(out, (uint32_t)(begin - at));
        bytes_store32(out + SQUEEZE_WORD, (uint32_t)(end - begin));
        out += 2 * SQUEEZE_WORD;
        memcpy(out, from + begin, end - begin);
        out += end - begin;
        at = end;
    }
    return (size_t)(out - (unsigned char *)to);
}

size_t squeeze_size(const void *squeezed, size_t n)
{
    return n < SQUEEZE_WORD ? SIZE_MAX : bytes_load32(squeezed);
}

bool squeeze_undo(const void *squeezed, size_t n, void *to)
{
    const unsigned char *from = squeezed;
    size_t left = squeeze_size(squeezed, n);
    unsigned char *out = to;
    if (left == SIZE_MAX) {
        return false;
    }
    from += SQUEEZE_WORD;
    n -= SQUEEZE_WORD;
    while (left > 0) {
        if (n < 2 * SQUEEZE_WORD) {
            return false;
        }
        const size_t zeros = bytes_load32(from), bytes = bytes_load32(from + 4);
        from += 2 * SQUEEZE_WORD;
        n -= 2 * SQUEEZE_WORD;
        if (zeros > left || bytes > left - zeros || bytes > n || zeros + bytes == 0) {
            return false;
        }
        memset(out, 0, zeros);
        memcpy(out + zeros, from, bytes);
        out += zeros + bytes;
        left -= zeros + bytes;
        from += bytes;
        n -= bytes;
    }
    return n == 0;
}
