/*
 * rdb_value.c - see rdb_value.h.
 *
 * LZF. A control byte below 32 is followed by that many literal bytes, plus one. In any other control
 * byte, the three high bits are the length of a match minus 2, where 7 means that another length byte
 * follows, and the five low bits together with the next byte are the distance minus 1:
 *
 *     000LLLLL  <L+1 bytes>
 *     LLLooooo  oooooooo
 *     111ooooo  LLLLLLLL  oooooooo
 *
 * Three bytes expand to at most 264 bytes, so a string that announces a higher ratio is rejected
 * before memory is allocated.
 */
#include "rdb_value.h"

#include "bytes.h"
#include "import_value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    RDB_MODULE = 7, /* type byte of a module's value */
    RDB_FOOTER = 10,
    RDB_END = 0,
    RDB_NUMBER = 2,
    RDB_REAL = 4,
    RDB_STRING = 5,
    RDB_LZF_MAX = 88 /* maximum ratio of sizes: 264 bytes from 3 */
};

/* ---- Bytes ----------------------------------------------------------------------------------- */

struct rdb_reader {
    struct import_source source; /* the first field */
    const uint8_t *p, *end;
    bool failed;
};

static struct rdb_reader *rdb_of(struct import_source *source)
{
    return (struct rdb_reader *)(void *)source;
}

/* Returns the next n bytes, or NULL if fewer are left. */
static const uint8_t *rdb_take(struct rdb_reader *r, uint64_t n)
{
    const uint8_t *p = r->p;
    if (r->failed || n > (uint64_t)(r->end - r->p)) {
        r->failed = true;
        return NULL;
    }
    r->p += n;
    return p;
}

static uint64_t rdb_big_endian(struct rdb_reader *r, size_t n)
{
    const uint8_t *p = rdb_take(r, n);
    uint64_t value = 0;
    for (size_t i = 0; p && i < n; i++) {
        value = value << 8 | p[i];
    }
    return value;
}

/* Reads an integer or a length. If `form` is not NULL, also accepts the special forms of strings, and
 * sets *form to the form, or to -1 for a plain length. */
static uint64_t rdb_length(struct rdb_reader *r, int *form)
{
    const uint8_t *p = rdb_take(r, 1);
    const unsigned first = p ? *p : 0;
    if (form) {
        *form = -1;
    }
    switch (first >> 6) {
    case 0: return first;
    case 1: return (first & 63) << 8 | rdb_big_endian(r, 1);
    case 2:
        if (first == 0x80 || first == 0x81) {
            return rdb_big_endian(r, first == 0x80 ? 4 : 8);
        }
        break;
    default:
        if (form) {
            *form = (int)(first & 63);
            return 0;
        }
    }
    r->failed = true;
    return 0;
}

/* ---- Strings --------------------------------------------------------------------------------- */

/* Copies a match byte by byte, because the source and the destination may overlap. */
static bool lzf_match(uint8_t *to, size_t *at, size_t room, size_t distance, size_t n)
{
    if (distance > *at || n > room - *at) {
        return false;
    }
    for (size_t i = 0; i < n; i++, (*at)++) {
        to[*at] = to[*at - distance];
    }
    return true;
}

bool rdb_lzf_expand(const uint8_t *from, size_t n, uint8_t *to, size_t room)
{
    size_t at = 0, i = 0;
    while (i < n) {
        const size_t control = from[i++];
        if (control < 32) {
            const size_t literals = control + 1;
            if (literals > n - i || literals > room - at) {
                return false;
            }
            memcpy(to + at, from + i, literals);
            at += literals;
            i += literals;
            continue;
        }
        size_t match = control >> 5;
        if (match == 7 && i < n) {
            match += from[i++];
        }
        if (i == n
            || !lzf_match(to, &at, room, ((control & 31) << 8 | from[i++]) + 1,
                          match + 2)) {
            return false;
        }
    }
    return at == room;
}

static uint8_t *rdb_allocate(struct rdb_reader *r, uint64_t n)
{
    uint8_t *bytes = r->failed || n >= SIZE_MAX ? NULL : calloc((size_t)n + 1, 1);
    r->failed = r->failed || !bytes;
    return bytes;
}

static uint8_t *rdb_compressed(struct rdb_reader *r, size_t *n)
{
    const uint64_t packed = rdb_length(r, NULL), size = rdb_length(r, NULL);
    const uint8_t *from = rdb_take(r, packed);
    r->failed = r->failed || size / RDB_LZF_MAX > packed;
    uint8_t *bytes = rdb_allocate(r, size);
    *n = (size_t)size;
    r->failed = r->failed || !rdb_lzf_expand(from, (size_t)packed, bytes, (size_t)size);
    return bytes;
}

/* Reads a string that is stored as an integer of 1, 2 or 4 bytes. */
static uint8_t *rdb_digits(struct rdb_reader *r, int form, size_t *n)
{
    enum { DIGITS = 12 };
    const size_t bytes = (size_t)1 << form;
    const uint8_t *p = rdb_take(r, bytes);
    uint8_t *text = rdb_allocate(r, DIGITS);
    if (p && text) {
        const uint32_t value = bytes == 1   ? p[0]
                               : bytes == 2 ? bytes_load16(p)
                                            : bytes_load32(p);
        const int32_t number = bytes == 1   ? (int8_t)value
                               : bytes == 2 ? (int16_t)value
                                            : (int32_t)value;
        *n = (size_t)snprintf((char *)text, DIGITS, "%" PRId32, number);
    }
    return text;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

static bool rdb_field(struct rdb_reader *r, uint64_t type)
{
    r->failed = r->failed || rdb_length(r, NULL) != type;
    return !r->failed;
}

static uint64_t rdb_number(struct import_source *source)
{
    struct rdb_reader *r = rdb_of(source);
    return rdb_field(r, RDB_NUMBER) ? rdb_length(r, NULL) : 0;
}

static double rdb_real(struct import_source *source)
{
    struct rdb_reader *r = rdb_of(source);
    const uint8_t *p = rdb_field(r, RDB_REAL) ? rdb_take(r, sizeof(double)) : NULL;
    const uint64_t bits = p ? bytes_load64(p) : 0;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void *rdb_bytes(struct import_source *source, size_t *n)
{
    enum { FORM_LZF = 3 };
    struct rdb_reader *r = rdb_of(source);
    int form = -1;
    const uint64_t length = rdb_field(r, RDB_STRING) ? rdb_length(r, &form) : 0;
    uint8_t *bytes = NULL;
    *n = 0;
    if (form == FORM_LZF) {
        bytes = rdb_compressed(r, n);
    } else if (form >= 0 && form < FORM_LZF) {
        bytes = rdb_digits(r, form, n);
    } else if (form < 0) {
        const uint8_t *from = rdb_take(r, length);
        bytes = rdb_allocate(r, length);
        if (bytes && from) {
            memcpy(bytes, from, (size_t)length);
            *n = (size_t)length;
        }
    }
    r->failed = r->failed || !bytes;
    if (r->failed) {
        free(bytes);
        bytes = NULL;
    }
    return bytes;
}

static void rdb_drop(struct import_source *source, void *bytes)
{
    (void)source;
    free(bytes);
}

static bool rdb_failed(struct import_source *source)
{
    return rdb_of(source)->failed;
}

/* ---- Values ---------------------------------------------------------------------------------- */

uint64_t rdb_value_checksum(const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    const uint64_t polynomial = UINT64_C(0x95ac9329ac4bc9b5);
    uint64_t table[256], sum = 0;
    for (uint64_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++) {
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? polynomial : 0);
        }
    }
    for (size_t i = 0; i < n; i++) {
        sum = table[(sum ^ p[i]) & 255] ^ sum >> 8;
    }
    return sum;
}

/* Returns the format of a type, or 0 if the type is not supported. */
static bg_foreign_format rdb_format(uint64_t id)
{
    static const struct {
        const char *name;
        bg_foreign_format format;
    } types[] = { { "MBbloom--", BG_FOREIGN_REDISBLOOM },
                  { "MBbloomCF", BG_FOREIGN_REDISCUCKOO },
                  { "bloomfltr", BG_FOREIGN_VALKEYBLOOM } };
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char name[10] = "";
    for (int i = 0; i < 9; i++) {
        name[i] = letters[id >> (58 - 6 * i) & 63];
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].name, name) == 0) {
            return types[i].format;
        }
    }
    return (bg_foreign_format)0;
}

/* Reads the value of a module, after its checksum has been verified. */
static bg_err rdb_read(struct rdb_reader *r, const struct command_settings *settings,
                       struct object **object, bg_errinfo *info)
{
    const uint64_t id = rdb_length(r, NULL);
    const bg_foreign_format format = rdb_format(id);
    if (r->failed || !format) {
        return error_fail(info, BG_ENOTSUP,
                          "the value is not a filter of RedisBloom or valkey-bloom");
    }
    bg_err err = import_value(format, (int)(id & 1023), &r->source, settings, true,
                              object, info);
    if (!err && (!rdb_field(r, RDB_END) || r->p != r->end)) {
        object_free(*object);
        *object = NULL;
        err = error_fail(info, BG_EFORMAT, "the value has unexpected fields");
    }
    return err;
}

bg_err rdb_value_object(const void *bytes, size_t n,
                        const struct command_settings *settings, struct object **object,
                        bg_errinfo *info)
{
    const uint8_t *p = bytes;
    *object = NULL;
    if (n <= 1 + RDB_FOOTER || p[0] != RDB_MODULE) {
        return error_fail(info, BG_ENOTSUP, "the value is not a module's value");
    }
    if (bytes_load64(p + n - 8) != rdb_value_checksum(p, n - 8)) {
        return error_fail(info, BG_ECHECKSUM,
                          "the value is damaged: its checksum does not match");
    }
    struct rdb_reader r = { .source = { rdb_number, rdb_real, rdb_bytes, rdb_drop,
                                        rdb_failed },
                            .p = p + 1,
                            .end = p + n - RDB_FOOTER };
    return rdb_read(&r, settings, object, info);
}
