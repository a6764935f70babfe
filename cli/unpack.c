/*
 * unpack.c - see unpack.h. In all formats, several members may follow one another (`cat a.gz
 * b.gz`), so the end of a member is not necessarily the end of the data.
 *
 *   (U1) The data is whole only at the end of a member. If the input ends anywhere else, the caller
 *        reports truncated data.
 *   (U2) Bytes after a member must be another member. Trailing bytes of any other kind are an
 *        error, because they may be the rest of a damaged member.
 *   (U3) Decoders allocate the window that a stream declares, so a few bytes of input could make
 *        them allocate gigabytes. Windows are limited to 128 MiB, the limit of the zstd command;
 *        bzip2 and lz4 need less than 16 MiB.
 */
#include "unpack.h"

#include <bzlib.h>
#include <limits.h>
#include <lz4frame.h>
#include <lzma.h>
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
    lzma_stream xz;
    bz_stream bzip2;
    LZ4F_dctx *lz4;
};

/* ---- Detection ------------------------------------------------------------------------------- */

/* A magic number. If bit i of `any` is set, the low four bits of byte i are ignored: they are the
 * block size of bzip2, or the number of a skippable frame, with which the output of pzstd
 * starts. */
struct unpack_magic {
    enum unpack_format format;
    size_t n;
    char bytes[UNPACK_MAGIC + 1];
    unsigned any;
};

static const struct unpack_magic unpack_magics[] = {
    { UNPACK_GZIP, 3, "\x1f\x8b\x08", 0 },
    { UNPACK_ZSTD, 4, "\x28\xb5\x2f\xfd", 0 },
    { UNPACK_ZSTD, 4, "\x50\x2a\x4d\x18", 1 },
    { UNPACK_XZ, 6,
      "\xfd"
      "7zXZ\0",
      0 },
    { UNPACK_BZIP2, 10, "BZh11AY&SY", 1 << 3 },
    { UNPACK_BZIP2, 10, "BZh1\x17\x72\x45\x38\x50\x90", 1 << 3 }, /* no data */
    { UNPACK_LZ4, 4, "\x04\x22\x4d\x18", 0 },
};

/* Files that would be read as text, although they are compressed, archives, filters, or not in
 * UTF-8. */
static const struct {
    size_t n;
    char bytes[7];
    const char *why;
} unpack_others[] = {
    { 4, "PK\x03\x04", "it is a zip archive; extract it with 'unzip -p'" },
    { 2, "\x1f\x9d", "it is a compress (.Z) file; pipe it through 'gzip -dc'" },
    { 5, "LZIP\x01", "it is an lzip file; pipe it through 'lzip -dc'" },
    { 6, "7z\xbc\xaf\x27\x1c", "it is a 7-Zip archive; extract it first" },
    { 4, "\x02\x21\x4c\x18",
      "it is in the legacy lz4 format; pipe it through 'lz4 -dc'" },
    { 6, "Rar!\x1a\x07", "it is a RAR archive; extract it with 'unrar p -inul'" },
    { 5, "PAR1\x15", "it is a Parquet file; export its keys as text" },
    { 6,
      "\x89"
      "BGF\r\n",
      "it is a filter, not a list of keys; to combine filters, use 'bloomgate merge'" },
    { 2, "\xff\xfe", "it is UTF-16 text; pipe it through 'iconv -f UTF-16 -t UTF-8'" },
    { 2, "\xfe\xff", "it is UTF-16 text; pipe it through 'iconv -f UTF-16 -t UTF-8'" },
};

enum { UNPACK_MAGICS = sizeof unpack_magics / sizeof *unpack_magics };

/* Returns whether the first n bytes of a magic number match. */
static bool unpack_matches(const struct unpack_magic *magic, const char *bytes,
                           size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned differ = (unsigned char)(bytes[i] ^ magic->bytes[i]);
        if (magic->any >> i & 1 ? differ >> 4 : differ) {
            return false;
        }
    }
    return true;
}

enum unpack_format unpack_recognise(const char *bytes, size_t n)
{
    for (size_t i = 0; i < UNPACK_MAGICS; i++) {
        const struct unpack_magic *magic = &unpack_magics[i];
        if (n >= magic->n && unpack_matches(magic, bytes, magic->n)) {
            return magic->format;
        }
    }
    return UNPACK_PLAIN;
}

bool unpack_may_become(const char *bytes, size_t n)
{
    bool may = false;
    for (size_t i = 0; i < UNPACK_MAGICS && n > 0; i++) {
        const struct unpack_magic *magic = &unpack_magics[i];
        may = may || (n < magic->n && unpack_matches(magic, bytes, n));
    }
    for (size_t i = 0; i < sizeof unpack_others / sizeof *unpack_others && n > 0; i++) {
        may = may
              || (n < unpack_others[i].n
                  && memcmp(bytes, unpack_others[i].bytes, n) == 0);
    }
    return may;
}

/* Returns whether bytes that match the start of a magic number are unlikely to be text. "BZh9" may
 * be a line of text, but five or more matching bytes, or non-text bytes, indicate a truncated
 * file. */
static bool unpack_is_binary(const char *bytes, size_t n)
{
    bool binary = n >= 5;
    for (size_t i = 0; i < n && n > 1; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        binary = binary || c < 0x20 || c >= 0x7F;
    }
    return binary;
}

const char *unpack_name(enum unpack_format format)
{
    static const char *const names[] = { NULL, "gzip", "zstd", "xz", "bzip2", "lz4" };
    return names[format];
}

/* Returns whether the bytes are the start of a tar archive: a header of 512 bytes. */
static bool unpack_is_tar(const char *bytes, size_t n)
{
    enum { AT = 257, HEADER = 512 };
    return n >= HEADER && memcmp(bytes + AT, "ustar", 5) == 0;
}

static bool unpack_is_sqlite(const char *bytes, size_t n)
{
    static const char magic[] = "SQLite format 3"; /* and a NUL */
    return n >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

/* Returns whether the bytes start like a file of the lzma command. The format has no magic number:
 * its header contains the usual properties, the dictionary size (2^n or 3 * 2^n, at least 64 KiB),
 * and the size of the data, which is usually unknown. */
static bool unpack_is_lzma(const char *bytes, size_t n)
{
    enum { PROPERTIES = 0x5D, HEADER = 13 };
    const unsigned char *b = (const unsigned char *)bytes;
    if (n < HEADER || b[0] != PROPERTIES || b[1] || b[2]) {
        return false;
    }
    const unsigned size = b[3] | (unsigned)b[4] << 8, odd = size & (0U - size);
    const bool power = size == odd || size == 3 * odd;
    const bool unknown = memcmp(b + 5, "\xff\xff\xff\xff\xff\xff\xff\xff", 8) == 0;
    return size && power && (unknown || !(b[10] | b[11] | b[12]));
}

/* Returns whether the bytes are zlib data. Its header consists of only two bytes, so the data must
 * also decompress: completely if the header could be the text "x^". */
static bool unpack_is_zlib(const char *bytes, size_t n)
{
    enum { HEADER = 2, SAMPLE = 4096 };
    static const unsigned char seconds[] = { 0x01, 0x5E, 0x9C, 0xDA };
    char out[SAMPLE];
    z_stream z = { .next_in = (z_const Bytef *)(uintptr_t)bytes,
                   .avail_in = n < SAMPLE ? (uInt)n : SAMPLE,
                   .next_out = (Bytef *)out,
                   .avail_out = SAMPLE };
    if (n <= HEADER || bytes[0] != 0x78 || !memchr(seconds, bytes[1], sizeof seconds)
        || inflateInit(&z) != Z_OK) {
        return false;
    }
    const int said = inflate(&z, Z_SYNC_FLUSH);
    (void)inflateEnd(&z);
    return said == Z_STREAM_END || (said == Z_OK && bytes[1] != '^' && z.total_out > 0);
}

const char *unpack_why_no_text(const char *bytes, size_t n)
{
    for (size_t i = 0; i < sizeof unpack_others / sizeof *unpack_others; i++) {
        if (n >= unpack_others[i].n
            && memcmp(bytes, unpack_others[i].bytes, unpack_others[i].n) == 0) {
            return unpack_others[i].why;
        }
    }
    return unpack_is_tar(bytes, n) ? "it is a tar archive; extract it with 'tar xOf'"
           : unpack_is_sqlite(bytes, n)
               ? "it is an SQLite database; export its keys with 'sqlite3'"
           : unpack_is_lzma(bytes, n) ? "it is an lzma file; pipe it through 'lzma -dc'"
           : unpack_is_zlib(bytes, n) ? "it is zlib data; pipe it through 'pigz -dc'"
                                      : NULL;
}

const char *unpack_why_not(const char *bytes, size_t n)
{
    const char *why = unpack_why_no_text(bytes, n);
    return why ? why
           : unpack_may_become(bytes, n) && unpack_is_binary(bytes, n)
               ? "it is a truncated compressed file"
               : NULL;
}

/* ---- gzip ------------------------------------------------------------------------------------ */

enum {
    UNPACK_GZIP_ONLY = 15 + 16, /* zlib: largest window, gzip header required */
    UNPACK_WINDOW_LOG = 27      /* 128 MiB */
};
/* An xz decoder needs some space in addition to the dictionary. */
static const uint64_t unpack_xz_memory =
    (UINT64_C(1) << UNPACK_WINDOW_LOG) + (UINT64_C(1) << 20);

static unsigned unpack_least(size_t n)
{
    return n < UINT_MAX ? (unsigned)n : UINT_MAX;
}

static bool unpack_gzip(struct unpacker *u, struct unpack_step *step)
{
    const uInt most = unpack_least(step->n), space = unpack_least(step->room);
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

/* ---- zstd ------------------------------------------------------------------------------------ */

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

/* ---- xz -------------------------------------------------------------------------------------- */

static const char *unpack_xz_why(lzma_ret said)
{
    return said == LZMA_MEMLIMIT_ERROR
               ? "its xz dictionary exceeds 128 MiB; pipe it through 'xz -dc'"
           : said == LZMA_FORMAT_ERROR  ? "not in xz format"
           : said == LZMA_OPTIONS_ERROR ? "unsupported xz options; pipe it through "
                                          "'xz -dc'"
           : said == LZMA_MEM_ERROR     ? "out of memory"
                                        : "the xz data is damaged";
}

/* The decoder accepts several streams and the padding between them, and decides whether the data is
 * whole when the input has ended. */
static bool unpack_xz(struct unpacker *u, struct unpack_step *step)
{
    u->xz.next_in = (const uint8_t *)step->from;
    u->xz.avail_in = step->n;
    u->xz.next_out = (uint8_t *)step->to;
    u->xz.avail_out = step->room;
    u->inside = true;
    const lzma_ret said = lzma_code(&u->xz, step->n ? LZMA_RUN : LZMA_FINISH);
    step->used = step->n - u->xz.avail_in;
    step->made = step->room - u->xz.avail_out;
    step->why = unpack_xz_why(said);
    u->inside = said != LZMA_STREAM_END;
    return said == LZMA_OK || said == LZMA_STREAM_END
           || (said == LZMA_BUF_ERROR && step->n == 0); /* truncated */
}

/* ---- bzip2 ----------------------------------------------------------------------------------- */

static bool unpack_bzip2(struct unpacker *u, struct unpack_step *step)
{
    const unsigned most = unpack_least(step->n), space = unpack_least(step->room);
    u->bzip2.next_in = (char *)(uintptr_t)step->from;
    u->bzip2.avail_in = most;
    u->bzip2.next_out = step->to;
    u->bzip2.avail_out = space;
    u->inside = u->inside || most > 0;
    const int said = BZ2_bzDecompress(&u->bzip2);
    step->used = most - u->bzip2.avail_in;
    step->made = space - u->bzip2.avail_out;
    if (said == BZ_STREAM_END) { /* prepare for another member */
        u->inside = false;
        step->why = "out of memory";
        return BZ2_bzDecompressEnd(&u->bzip2) == BZ_OK
               && BZ2_bzDecompressInit(&u->bzip2, 0, 0) == BZ_OK;
    }
    step->why = said == BZ_DATA_ERROR_MAGIC ? "not in bzip2 format"
                : said == BZ_MEM_ERROR      ? "out of memory"
                                            : "the bzip2 data is damaged";
    return said == BZ_OK;
}

/* ---- lz4 ------------------------------------------------------------------------------------- */

static LZ4F_dctx *unpack_lz4_new(void)
{
    LZ4F_dctx *context = NULL;
    return LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION))
               ? NULL
               : context;
}

static bool unpack_lz4(struct unpacker *u, struct unpack_step *step)
{
    size_t used = step->n, made = step->room;
    const size_t said =
        LZ4F_decompress(u->lz4, step->to, &made, step->from, &used, NULL);
    step->used = used;
    step->made = made;
    if (LZ4F_isError(said)) {
        step->why = "the lz4 data is damaged";
        return false;
    }
    u->inside = said != 0 && (u->inside || step->n > 0);
    return true;
}

/* ---- All formats ----------------------------------------------------------------------------- */

static bool unpacker_begin(struct unpacker *u)
{
    switch (u->format) {
    case UNPACK_PLAIN: return false;
    case UNPACK_GZIP: return inflateInit2(&u->gzip, UNPACK_GZIP_ONLY) == Z_OK;
    case UNPACK_ZSTD: return (u->zstd = unpack_zstd_new()) != NULL;
    case UNPACK_XZ:
        return lzma_stream_decoder(&u->xz, unpack_xz_memory, LZMA_CONCATENATED)
               == LZMA_OK;
    case UNPACK_BZIP2: return BZ2_bzDecompressInit(&u->bzip2, 0, 0) == BZ_OK;
    case UNPACK_LZ4: return (u->lz4 = unpack_lz4_new()) != NULL;
    }
    return false;
}

struct unpacker *unpacker_new(enum unpack_format format)
{
    struct unpacker *u = calloc(1, sizeof *u);
    if (!u) {
        return NULL;
    }
    u->format = format;
    u->xz = (lzma_stream)LZMA_STREAM_INIT;
    if (!unpacker_begin(u)) {
        free(u);
        return NULL;
    }
    return u;
}

void unpacker_free(struct unpacker *u)
{
    if (!u) {
        return;
    }
    if (u->format == UNPACK_GZIP) {
        (void)inflateEnd(&u->gzip);
    } else if (u->format == UNPACK_BZIP2) {
        (void)BZ2_bzDecompressEnd(&u->bzip2);
    }
    (void)ZSTD_freeDStream(u->zstd);
    lzma_end(&u->xz);
    (void)LZ4F_freeDecompressionContext(u->lz4);
    free(u);
}

bool unpacker_run(struct unpacker *u, struct unpack_step *step)
{
    switch (u->format) {
    case UNPACK_PLAIN: break;
    case UNPACK_GZIP: return unpack_gzip(u, step);
    case UNPACK_ZSTD: return unpack_zstd(u, step);
    case UNPACK_XZ: return unpack_xz(u, step);
    case UNPACK_BZIP2: return unpack_bzip2(u, step);
    case UNPACK_LZ4: return unpack_lz4(u, step);
    }
    return false;
}

bool unpacker_is_whole(const struct unpacker *u)
{
    return !u->inside;
}
