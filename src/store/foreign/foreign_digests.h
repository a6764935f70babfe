/*
 * foreign_digests.h - MD5 (RFC 1321) and BLAKE2b (RFC 7693), as far as formats need them:
 * whole messages, no streaming, small code rather than fast code.
 *
 * MD5 names objects in Squid's digests; it protects nothing there, nor here. BLAKE2b is
 * without a key and with an output of 8 bytes, which is what a BFv1 filter hashes with.
 */
#ifndef BGI_FOREIGN_DIGESTS_H
#define BGI_FOREIGN_DIGESTS_H

#include <stddef.h>
#include <stdint.h>

/* MD5 of one byte followed by `len` bytes. */
void foreign_md5(unsigned char first, const void *bytes, size_t len,
                 unsigned char digest[16]);

/* BLAKE2b with a digest of 8 bytes, read with the low byte first, and a personalisation of
 * up to 16 characters. */
uint64_t foreign_blake2b_64(const char *person, const void *bytes, size_t len);

#endif
