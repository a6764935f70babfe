/* snappy.h - unpacks the Snappy format; see snappy.c. */
#ifndef BGI_SNAPPY_H
#define BGI_SNAPPY_H

#include <stdbool.h>
#include <stdint.h>

/* How many bytes n packed bytes become; false when that is impossible. */
bool snappy_size(const unsigned char *packed, uint64_t n, uint64_t *size);

/* Unpacks into just `size` bytes; false when the packed ones are not such. */
bool snappy_unpack(const unsigned char *packed, uint64_t n, unsigned char *to,
                   uint64_t size);

#endif
