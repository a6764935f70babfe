/* dump_stream.c - see dump_stream.h. */
#include "dump_stream.h"

#include "bytes.h"
#include "letters.h"

#include <stdio.h>
#include <string.h>

#define DUMP_BEGIN "bloomgate dump 1 "

/* No RedisBloom dump starts with these bytes, because they would represent an item count above
 * 2^56. */
static const uint8_t dump_magic[8] = { 'B', 'G', 'd', 'u', 'm', 'p', '1', '\n' };

uint64_t dump_checksum(const void *bytes, size_t n)
{
    const bg_hash_spec how = { .profile = BG_HASH_XXH64 };
    bg_hasher hasher;
    /* bg_hasher_init cannot fail, because it needs no memory and no secret. */
    return bg_hasher_init(&hasher, &how, NULL) ? 0 : bg_hash_bytes(&hasher, bytes, n);
}

/* ---- Description line ---------------------------------------------------------------------- */

size_t dump_line_write(const struct dump_line *line, char text[DUMP_LINE_MAX])
{
    char shape[OBJECT_SHAPE_TEXT];
    (void)object_shape_write(&line->shape, shape);
    const int n =
        snprintf(text, DUMP_LINE_MAX, "%s%s;%llu %llu %llu\n", DUMP_BEGIN, shape,
                 (unsigned long long)line->items, (unsigned long long)line->deleted,
                 (unsigned long long)line->expansions);
    return (size_t)n; /* below 700 */
}

static bool dump_read_counts(const char *text, struct dump_line *line)
{
    uint64_t *const to[] = { &line->items, &line->deleted, &line->expansions };
    const char *end = text + strlen(text);
    for (size_t i = 0; i < 3; i++) {
        if (!digits_read(&text, end, to[i]) || *text++ != (i < 2 ? ' ' : 0)) {
            return false;
        }
    }
    return true;
}

bg_err dump_line_read(const uint8_t *bytes, size_t n, struct dump_line *line,
                      size_t *used, bg_errinfo *info)
{
    const size_t begin = strlen(DUMP_BEGIN);
    const uint8_t *end = memchr(bytes, '\n', n < DUMP_LINE_MAX ? n : DUMP_LINE_MAX);
    char text[DUMP_LINE_MAX];
    if (!end || (size_t)(end - bytes) < begin
        || memcmp(bytes, DUMP_BEGIN, begin) != 0) {
        return error_fail(info, BG_EFORMAT,
                          "the dump does not start with a description line");
    }
    const size_t length = (size_t)(end - bytes) - begin;
    memcpy(text, bytes + begin, length);
    text[length] = 0;
    char *counts = memchr(text, ';', length);
    *line = (struct dump_line){ .items = 0 };
    if (!counts || strlen(text) != length) {
        return error_fail(info, BG_EFORMAT,
                          "the dump's description line has no item counts");
    }
    *used = begin + length + 1;
    const bg_err err =
        object_shape_read(text, (size_t)(counts - text), &line->shape, info);
    line->shape.limit = 0; /* the loading server decides how far the object may grow */
    if (!err && !dump_read_counts(counts + 1, line)) {
        return error_fail(info, BG_EFORMAT,
                          "the dump's description line has invalid item counts");
    }
    return err;
}

/* ---- Chunks -------------------------------------------------------------------------------- */

bool dump_chunk_is(bg_bytes data)
{
    return data.len >= sizeof dump_magic
           && memcmp(data.data, dump_magic, sizeof dump_magic) == 0;
}

bg_err dump_chunk_read(bg_bytes data, struct dump_chunk *chunk, bg_errinfo *info)
{
    const uint8_t *p = data.data;
    if (!dump_chunk_is(data) || data.len <= DUMP_HEADER) {
        return error_fail(info, BG_EFORMAT, "the data is not a chunk of a dump");
    }
    if (bytes_load64(p + 8) != dump_checksum(p + 16, data.len - 16)) {
        return error_fail(info, BG_ECHECKSUM,
                          "the chunk is damaged: its checksum does not match");
    }
    *chunk = (struct dump_chunk){ .stream = bytes_load64(p + 16),
                                  .offset = bytes_load64(p + 24),
                                  .total = bytes_load64(p + 32),
                                  .bytes = p + DUMP_HEADER,
                                  .n = data.len - DUMP_HEADER };
    if (chunk->offset > chunk->total || chunk->n > chunk->total - chunk->offset) {
        return error_fail(info, BG_EFORMAT,
                          "the chunk extends beyond the end of its dump");
    }
    return BG_OK;
}

void dump_chunk_write(const struct dump_chunk *chunk, uint8_t *to)
{
    memcpy(to, dump_magic, sizeof dump_magic);
    bytes_store64(to + 16, chunk->stream);
    bytes_store64(to + 24, chunk->offset);
    bytes_store64(to + 32, chunk->total);
    memcpy(to + DUMP_HEADER, chunk->bytes, chunk->n);
    bytes_store64(to + 8, dump_checksum(to + 16, DUMP_HEADER - 16 + chunk->n));
}
