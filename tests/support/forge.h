/*
 * forge.h - files with correct checksums and invalid content, as an attacker who knows the
 * format would write them.
 */
#ifndef TESTS_FORGE_H
#define TESTS_FORGE_H

#include "support/check.h"

#include "base/crc32c.h"
#include "store/container.h"

static inline void forge_put(unsigned char *to, size_t size, uint64_t value)
{
    for (size_t i = 0; i < size; i++) {
        to[i] = (unsigned char)(value >> 8 * i);
    }
}

/* Corrects all checksums. `layout` is the file's layout before the file was changed. */
static inline void forge_seal(unsigned char *bytes,
                              const struct container_layout *layout)
{
    forge_put(bytes + 132, 4,
              bgi_crc32c(0, bytes + CONTAINER_HEADER,
                         (size_t)layout->words_at - CONTAINER_HEADER));
    for (uint64_t i = 0; i < layout->blocks; i++) {
        uint64_t at = layout->words_at + i * CONTAINER_BLOCK, n = layout->table_at - at;
        n = n < CONTAINER_BLOCK ? n : CONTAINER_BLOCK;
        forge_put(bytes + layout->table_at + 4 * i, 4,
                  bgi_crc32c(0, bytes + at, (size_t)n));
    }
    container_digest(bytes, layout, bytes + CONTAINER_HEADER, bytes + layout->table_at,
                     bytes + CONTAINER_DIGEST_AT);
    forge_put(bytes + CONTAINER_CRC_AT, 4, bgi_crc32c(0, bytes, CONTAINER_CRC_AT));
}

/* Writes an integer at any offset in a valid file, and corrects the checksums. */
static inline void forge(unsigned char *bytes, size_t offset, size_t size,
                         uint64_t value)
{
    struct container_header header;
    struct container_layout layout;
    CHECK_OK(container_read_header(bytes, &header, NULL));
    CHECK(container_layout(&header, &layout));
    forge_put(bytes + offset, size, value);
    forge_seal(bytes, &layout);
}

#endif
