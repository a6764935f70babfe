/*
 * foreign_chunks.h - RedisBloom dumps in files. A file contains the replies of SCANDUMP in order.
 * Each reply is stored as a chunk:
 *
 *     u64 iterator | u64 length | bytes          little-endian
 */
#ifndef BGI_FOREIGN_CHUNKS_H
#define BGI_FOREIGN_CHUNKS_H

#include "store/foreign/foreign.h"

/* The size of the iterator and the length, which precede each chunk. */
enum { FOREIGN_CHUNK = 16 };

struct foreign_chunk {
    const unsigned char *bytes;
    uint64_t iterator, length;
    size_t at; /* offset of the chunk, for error messages */
};

/* Reads the next chunk. Returns false if it is incomplete. */
bool foreign_chunk_next(struct foreign_input *input, struct foreign_chunk *chunk);

/* Reports BG_EFORMAT for a chunk. */
bg_err foreign_chunk_bad(const struct foreign_chunk *chunk, const char *expected,
                         bg_errinfo *info);

/* Reads the bytes of all parts, up to the end of the input. Each chunk belongs to one part. */
bg_err foreign_chunks_fill(struct foreign_input *input, bg_foreign *f,
                           bg_errinfo *info);

/* Writes the iterator and the length of a chunk. Returns the address at which the chunk's bytes
 * must be written. */
static inline unsigned char *foreign_chunk_begin(unsigned char *to, uint64_t iterator,
                                                 uint64_t length)
{
    bgi_store_le64(to, iterator);
    bgi_store_le64(to + 8, length);
    return to + FOREIGN_CHUNK;
}

#endif
