/*
 * dump_stream.h - the bytes of a dump: the line at its beginning, and the headers of its chunks.
 * What they mean is in dump.h.
 */
#ifndef COMMAND_DUMP_STREAM_H
#define COMMAND_DUMP_STREAM_H

#include "dump.h"

enum {
    DUMP_LINE_MOST = 1536, /* with its line feed */
    DUMP_HEADER = 40       /* of a chunk */
};

/* The XXH64 of some bytes. */
uint64_t dump_checksum(const void *bytes, size_t n);

uint64_t dump_get64(const uint8_t *p);
uint32_t dump_get32(const uint8_t *p);
void dump_put64(uint8_t *p, uint64_t value);

/* What a dump says of its object. */
struct dump_line {
    struct object_shape shape;
    uint64_t items, deleted, expansions;
};

/* Writes the line; returns its length. */
size_t dump_line_write(const struct dump_line *line, char text[DUMP_LINE_MOST]);

/* Reads it from the beginning of n bytes; *used is its length. BG_EFORMAT. */
bg_err dump_line_read(const uint8_t *bytes, size_t n, struct dump_line *line,
                      size_t *used, bg_errinfo *info);

struct dump_chunk {
    uint64_t stream; /* checksum of all of it: which one */
    uint64_t offset, total;
    const uint8_t *bytes;
    size_t n;
};

/* Whether some bytes begin as a chunk does. */
bool dump_chunk_is(bg_bytes data);

/* Takes a chunk apart. BG_EFORMAT, BG_ECHECKSUM. */
bg_err dump_chunk_read(bg_bytes data, struct dump_chunk *chunk, bg_errinfo *info);

/* Writes header and bytes, DUMP_HEADER + chunk->n of them. */
void dump_chunk_write(const struct dump_chunk *chunk, uint8_t *to);

#endif
