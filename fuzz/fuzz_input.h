/* fuzz_input.h - reads numbers from a fuzz input; beyond the end of the input it reads zeros. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct fuzz_input {
    const uint8_t *data;
    size_t left;
};

static inline void fuzz_take(struct fuzz_input *in, void *to, size_t bytes)
{
    size_t have = bytes < in->left ? bytes : in->left;
    memset(to, 0, bytes);
    if (have) {
        memcpy(to, in->data, have);
        in->data += have;
        in->left -= have;
    }
}

static inline uint8_t fuzz_byte(struct fuzz_input *in)
{
    uint8_t x;
    fuzz_take(in, &x, 1);
    return x;
}

static inline uint32_t fuzz_u32(struct fuzz_input *in)
{
    uint32_t x;
    fuzz_take(in, &x, 4);
    return x;
}

static inline uint64_t fuzz_u64(struct fuzz_input *in)
{
    uint64_t x;
    fuzz_take(in, &x, 8);
    return x;
}

/* Returns any double, including NaN, infinities and denormals. */
static inline double fuzz_double(struct fuzz_input *in)
{
    double x;
    fuzz_take(in, &x, 8);
    return x;
}

/* Returns an integer of any size: the first byte determines the number of bits. */
static inline uint64_t fuzz_any(struct fuzz_input *in)
{
    uint8_t bits = fuzz_byte(in) % 65;
    uint64_t x = fuzz_u64(in);
    return bits ? x >> (64 - bits) : 0;
}

#endif
