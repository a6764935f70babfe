/* fast.h - XXH3 of 8-byte keys side by side; see fast_x86.c. */
#ifndef BGI_FAST_H
#define BGI_FAST_H

#include <stddef.h>
#include <stdint.h>

/* The first n - n % lanes keys are hashed, their number is returned. */
size_t bgi_fast8_avx2(uint64_t seed, const uint8_t *keys, size_t n, uint64_t *out);
size_t bgi_fast8_avx512(uint64_t seed, const uint8_t *keys, size_t n, uint64_t *out);

#endif
