/*
 * unpack.h - gzip and zstd, as streams.
 */
#ifndef CLI_UNPACK_H
#define CLI_UNPACK_H

#include <stdbool.h>
#include <stddef.h>

enum unpack_format { UNPACK_PLAIN, UNPACK_GZIP, UNPACK_ZSTD };

/* By the first bytes. */
enum unpack_format unpack_recognise(const char *bytes, size_t n);

/* Whether fewer bytes than that takes may become one of them, if more follow. */
bool unpack_may_become(const char *bytes, size_t n);

struct unpacker;
struct unpacker *unpacker_new(enum unpack_format format); /* NULL: no memory */
void unpacker_free(struct unpacker *unpacker);            /* NULL is allowed */

/* A piece of work: what there is, and how much of it was done. */
struct unpack_step {
    const char *from;
    size_t n, used;
    char *to;
    size_t room, made;
    const char *why; /* it failed */
};

/* Unpacks some: `used` of the n bytes at `from`, `made` to `to`. False: damaged. */
bool unpacker_run(struct unpacker *unpacker, struct unpack_step *step);

/* Whether the packed bytes may end here. */
bool unpacker_is_whole(const struct unpacker *unpacker);

#endif
