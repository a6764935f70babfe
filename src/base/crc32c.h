/*
 * crc32c.h - the checksum of Bloomgate's files: CRC-32C (Castagnoli), as used by iSCSI, ext4
 * and many file formats. The checksum detects every error of up to 3 bits in up to 2^31 bits, and
 * any other error with a probability of 1 - 2^-32. It does not protect against deliberate
 * forgery.
 */
#ifndef BGI_CRC32C_H
#define BGI_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Returns the checksum of a sequence of bytes. `crc` is the checksum of the preceding bytes, or 0
 * if there are none. */
uint32_t bgi_crc32c(uint32_t crc, const void *bytes, size_t n);

#endif
