/*
 * crc32c.h - the checksum of our files: CRC-32C (Castagnoli), as iSCSI, ext4 and many
 * file formats use it. It finds every error of up to 3 bits in up to 2^31 bits, and any
 * other with a probability of 1 - 2^-32; it is no protection from somebody who wants to
 * forge a file.
 */
#ifndef BGI_CRC32C_H
#define BGI_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of what came before, `crc` (0: nothing), and these bytes together. */
uint32_t bgi_crc32c(uint32_t crc, const void *bytes, size_t n);

#endif
