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
static inline bool foreign_chunk_next(struct foreign_input *input,
                                      struct foreign_chunk *chunk)
{
    chunk->at = input->at;
    const unsigned char *p = foreign_take(input, FOREIGN_CHUNK);
    if (!p) {
        return false;
    }
    chunk->iterator = bgi_load_le64(p);
    chunk->length = bgi_load_le64(p + 8);
    chunk->bytes = foreign_take(input, chunk->length);
    return chunk->bytes != NULL;
}

static inline bg_err foreign_chunk_bad(const struct foreign_chunk *chunk,
                                       const char *expected, bg_errinfo *info)
{
    return foreign_refuse(
        info, chunk->at, "chunk", expected, "iterator %llu, %llu bytes",
        (unsigned long long)chunk->iterator, (unsigned long long)chunk->length);
}

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
