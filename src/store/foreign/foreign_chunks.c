/* foreign_chunks.c - reads RedisBloom dumps in files. See foreign_chunks.h for the format. */
#include "store/foreign/foreign_chunks.h"

#include <string.h>

bool foreign_chunk_next(struct foreign_input *input, struct foreign_chunk *chunk)
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

bg_err foreign_chunk_bad(const struct foreign_chunk *chunk, const char *expected,
                         bg_errinfo *info)
{
    return foreign_refuse(
        info, chunk->at, "chunk", expected, "iterator %llu, %llu bytes",
        (unsigned long long)chunk->iterator, (unsigned long long)chunk->length);
}

bg_err foreign_chunks_fill(struct foreign_input *input, bg_foreign *f, bg_errinfo *info)
{
    struct foreign_chunk chunk = { 0 };
    uint64_t done = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        const uint64_t end = f->parts[i].offset + f->parts[i].bytes;
        while (done < end) {
            if (!foreign_chunk_next(input, &chunk)) {
                return foreign_chunk_bad(&chunk, "a complete chunk", info);
            }
            if (chunk.length == 0 || chunk.length > end - done
                || chunk.iterator != 1 + done + chunk.length) {
                return foreign_chunk_bad(&chunk, "the next chunk of the current layer",
                                         info);
            }
            memcpy(f->bytes + done, chunk.bytes, (size_t)chunk.length);
            done += chunk.length;
        }
    }
    if (input->at < input->n
        && (!foreign_chunk_next(input, &chunk) || chunk.iterator || chunk.length
            || input->at < input->n)) {
        return foreign_chunk_bad(&chunk, "the end of the dump", info);
    }
    return BG_OK;
}
