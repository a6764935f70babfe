/* snappy.h - decompresses the Snappy format; see snappy.c. */
#ifndef BGI_SNAPPY_H
#define BGI_SNAPPY_H

#include <stdbool.h>
#include <stdint.h>

/* Reads the decompressed size from n bytes of compressed data. Returns false if the size is
 * invalid. */
bool snappy_size(const unsigned char *packed, uint64_t n, uint64_t *size);

/* Decompresses n bytes to exactly `size` bytes. Returns false if the compressed data is invalid. */
bool snappy_unpack(const unsigned char *packed, uint64_t n, unsigned char *to,
                   uint64_t size);

#endif
