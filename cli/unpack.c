/*
 * unpack.c - see unpack.h. In both formats, several members may follow one another (`cat a.gz
 * b.gz`), so the end of a member is not necessarily the end of the data.
 */
#include "unpack.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

struct unpacker {
    enum unpack_format format;
    bool inside; /* within a member, where the data must not end */
    z_stream gzip;
    ZSTD_DStream *zstd;
};

static const char unpack_gzip_magic[3] = { '\x1f', '\x8b', '\x08' };
static const char unpack_zstd_magic[4] = { '\x28', '\xb5', '\x2f', '\xfd' };
/* The magic number of a skippable frame; pzstd output starts with such a frame. The first byte may
 * be any value from 0x50 to 0x5f. */
static const char unpack_skip_magic[4] = { '\x50', '\x2a', '\x4d', '\x18' };

/* Returns whether n bytes (at most four) match the start of a skippable frame's magic number. */
static bool unpack_is_skipped(const char *bytes, size_t n)
{
    return ((unsigned char)bytes[0] & 0xF0) == 0x50
           && memcmp(bytes + 1, unpack_skip_magic + 1, n - 1) == 0;
}

enum unpack_format unpack_recognise(const char *bytes, size_t n)
{
    if (n >= sizeof unpack_gzip_magic
        && memcmp(bytes, unpack_gzip_magic, sizeof unpack_gzip_magic) == 0) {
        return UNPACK_GZIP;
    }
    return n >= sizeof unpack_zstd_magic
                   && (memcmp(bytes, unpack_zstd_magic, sizeof unpack_zstd_magic) == 0
                       || unpack_is_skipped(bytes, sizeof unpack_skip_magic))
               ? UNPACK_ZSTD
               : UNPACK_PLAIN;
}

bool unpack_may_become(const char *bytes, size_t n)
{
    return n > 0
           && ((n < sizeof unpack_gzip_magic
                && memcmp(bytes, unpack_gzip_magic, n) == 0)
               || (n < sizeof unpack_zstd_magic
                   && (memcmp(bytes, unpack_zstd_magic, n) == 0
                       || unpack_is_skipped(bytes, n))));
}

enum {
    UNPACK_GZIP_ONLY = 15 + 16, /* zlib: largest window, gzip header required */
    /* zstd: 128 MiB, the limit of the zstd command. The decoder allocates the window that a frame
     * declares, so a few bytes of input could otherwise make it allocate gigabytes. */
    UNPACK_WINDOW_LOG = 27
};

static ZSTD_DStream *unpack_zstd_new(void)
{
    ZSTD_DStream *stream = ZSTD_createDStream();
    if (stream
        && ZSTD_isError(
            ZSTD_DCtx_setParameter(stream, ZSTD_d_windowLogMax, UNPACK_WINDOW_LOG))) {
        (void)ZSTD_freeDStream(stream);
        return NULL;
    }
    return stream;
}

struct unpacker *unpacker_new(enum unpack_format format)
{
    struct unpacker *u = calloc(1, sizeof *u);
    if (!u) {
        return NULL;
    }
    u->format = format;
    if (format == UNPACK_GZIP ? inflateInit2(&u->gzip, UNPACK_GZIP_ONLY) != Z_OK
                              : !(u->zstd = unpack_zstd_new())) {
        free(u);
        return NULL;
    }
    return u;
}

void unpacker_free(struct unpacker *u)
{
    if (u) {
        if (u->format == UNPACK_GZIP) {
            (void)inflateEnd(&u->gzip);
        }
        (void)ZSTD_freeDStream(u->zstd);
        free(u);
    }
}

static bool unpack_gzip(struct unpacker *u, struct unpack_step *step)
{
    const uInt most = step->n < UINT_MAX ? (uInt)step->n : UINT_MAX;
    const uInt space = step->room < UINT_MAX ? (uInt)step->room : UINT_MAX;
    u->gzip.next_in = (z_const Bytef *)(uintptr_t)step->from;
    u->gzip.avail_in = most;
    u->gzip.next_out = (Bytef *)step->to;
    u->gzip.avail_out = space;
    u->inside = u->inside || most > 0;
    const int said = inflate(&u->gzip, Z_NO_FLUSH);
    step->used = most - u->gzip.avail_in;
    step->made = space - u->gzip.avail_out;
    if (said == Z_STREAM_END) {
        u->inside = false;
        return inflateReset(&u->gzip) == Z_OK;
    }
    step->why = u->gzip.msg ? u->gzip.msg : "damaged";
    return said == Z_OK || said == Z_BUF_ERROR;
}

static bool unpack_zstd(struct unpacker *u, struct unpack_step *step)
{
    ZSTD_inBuffer in = { step->from, step->n, 0 };
    ZSTD_outBuffer out = { step->to, step->room, 0 };
    const size_t said = ZSTD_decompressStream(u->zstd, &out, &in);
    step->used = in.pos;
    step->made = out.pos;
    if (ZSTD_isError(said)) {
        step->why = ZSTD_getErrorCode(said) == ZSTD_error_frameParameter_windowTooLarge
                        ? "its zstd window exceeds 128 MiB; pipe it through 'zstd -dc "
                          "--long=31'"
                        : ZSTD_getErrorName(said);
        return false;
    }
    u->inside = said != 0;
    return true;
}

bool unpacker_run(struct unpacker *u, struct unpack_step *step)
{
    return u->format == UNPACK_GZIP ? unpack_gzip(u, step) : unpack_zstd(u, step);
}

bool unpacker_is_whole(const struct unpacker *u)
{
    return !u->inside;
}
