/*
 * squeeze.h - compresses data by removing runs of zeros.
 *
 * The file of a small filter consists mostly of zeros, because headers and filters are page-aligned
 * and a new filter is empty. Squeezing reduces the file to about a tenth of its size. All numbers
 * in the format are little-endian:
 *
 *     bytes        4     the original size
 *     zeros, n     4 + 4 length of a run of zeros, and number of bytes that follow it
 *     ...          n     these bytes
 *
 * The last two rows repeat until the original size is reached. There is no checksum, because the
 * content has its own checksum.
 */
#ifndef SERVER_UTIL_SQUEEZE_H
#define SERVER_UTIL_SQUEEZE_H

#include <stdbool.h>
#include <stddef.h>

/* Maximum number of bytes that squeezing can add. */
enum { SQUEEZE_MORE = 12 };

/* Squeezes n bytes (n < 2^32) into `to`, which must have space for n + SQUEEZE_MORE bytes. Returns
 * the new size. */
size_t squeeze(const void *bytes, size_t n, void *to);

/* Returns the original size of squeezed bytes, or SIZE_MAX if they are malformed. The bytes may be
 * untrusted. */
size_t squeeze_size(const void *squeezed, size_t n);

/* Restores the original bytes in `to`, which must have space for squeeze_size bytes. Returns false
 * if the squeezed bytes are malformed. */
bool squeeze_undo(const void *squeezed, size_t n, void *to);

#endif
