/*
 * dump_stream.h - the encoding of dumps: the description line and the chunk headers. See dump.h for
 * the format.
 */
#ifndef COMMAND_DUMP_STREAM_H
#define COMMAND_DUMP_STREAM_H

#include "dump.h"

enum {
    DUMP_LINE_MAX = 1536, /* including its newline */
    DUMP_HEADER = 40      /* size of a chunk's header */
};

/* Returns the XXH64 hash of n bytes. */
uint64_t dump_checksum(const void *bytes, size_t n);

/* The description of the dumped object. */
struct dump_line {
    struct object_shape shape;
    uint64_t items, deleted, expansions;
};

/* Writes the description line and returns its length. */
size_t dump_line_write(const struct dump_line *line, char text[DUMP_LINE_MAX]);

/* Parses the description line at the start of n bytes. Sets *used to the length of the line.
 * Errors: BG_EFORMAT. */
bg_err dump_line_read(const uint8_t *bytes, size_t n, struct dump_line *line,
                      size_t *used, bg_errinfo *info);

struct dump_chunk {
    uint64_t stream; /* checksum of the whole stream, used to identify the stream */
    uint64_t offset, total;
    const uint8_t *bytes;
    size_t n;
};

/* Returns whether the data starts with a chunk's magic number. */
bool dump_chunk_is(bg_bytes data);

/* Parses a chunk. Errors: BG_EFORMAT, BG_ECHECKSUM. */
bg_err dump_chunk_read(bg_bytes data, struct dump_chunk *chunk, bg_errinfo *info);

/* Writes a chunk's header and bytes, DUMP_HEADER + chunk->n bytes in total. */
void dump_chunk_write(const struct dump_chunk *chunk, uint8_t *to);

#endif
