/*
 * foreign_digests.h - the parts of MD5 (RFC 1321) and BLAKE2b (RFC 7693) that the formats need.
 * There is no streaming interface, so the whole message must be passed in one call. The code is
 * optimized for size, not for speed.
 *
 * MD5 identifies objects in Squid's digests; it is not used for security. BLAKE2b is unkeyed and
 * has an output of 8 bytes, as in BFv1 filters.
 */
#ifndef BGI_FOREIGN_DIGESTS_H
#define BGI_FOREIGN_DIGESTS_H

#include <stddef.h>
#include <stdint.h>

/* Computes the MD5 digest of the byte `first` followed by `len` bytes. */
void foreign_md5(unsigned char first, const void *bytes, size_t len,
                 unsigned char digest[16]);

/* Computes BLAKE2b with an 8-byte output and a personalization of up to 16 characters. Returns the
 * digest as a little-endian number. */
uint64_t foreign_blake2b_64(const char *person, const void *bytes, size_t len);

#endif
