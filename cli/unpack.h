/*
 * unpack.h - decompresses gzip, zstd, xz, bzip2 and lz4 streams.
 */
#ifndef CLI_UNPACK_H
#define CLI_UNPACK_H

#include <stdbool.h>
#include <stddef.h>

enum unpack_format {
    UNPACK_PLAIN,
    UNPACK_GZIP,
    UNPACK_ZSTD,
    UNPACK_XZ,
    UNPACK_BZIP2,
    UNPACK_LZ4
};

enum { UNPACK_MAGIC = 10 }; /* length of the longest magic number */

/* Detects the format from the first bytes. */
enum unpack_format unpack_recognise(const char *bytes, size_t n);

/* Returns the name of a format, or NULL for UNPACK_PLAIN. */
const char *unpack_name(enum unpack_format format);

/* Returns whether more bytes are needed to decide if the input is compressed. */
bool unpack_may_become(const char *bytes, size_t n);

/* Returns the reason why data with these first bytes is not text in UTF-8 or a similar encoding: it
 * is an archive, UTF-16, or compressed in a format that is not supported. Returns NULL for any
 * other data. Some formats are recognized only from their first 512 bytes; the caller does not have
 * to wait for them, because programs write archives in larger blocks. */
const char *unpack_why_no_text(const char *bytes, size_t n);

/* Does the same for a whole file. In addition, the file may be truncated within a magic number. */
const char *unpack_why_not(const char *bytes, size_t n);

struct unpacker;
struct unpacker *unpacker_new(enum unpack_format format); /* NULL if out of memory */
void unpacker_free(struct unpacker *unpacker);            /* NULL is allowed */

/* One step of decompression: the input and output buffers, and how much of each was used. */
struct unpack_step {
    const char *from;
    size_t n, used; /* n must be 0 only at the end of the input */
    char *to;
    size_t room, made;
    const char *why; /* the reason for a failure */
};

/* Decompresses data. Consumes `used` of the n bytes at `from`, and writes `made` bytes to `to`.
 * Returns false if the data is damaged. */
bool unpacker_run(struct unpacker *unpacker, struct unpack_step *step);

/* Returns whether the compressed data may end at the current position. */
bool unpacker_is_whole(const struct unpacker *unpacker);

#endif
