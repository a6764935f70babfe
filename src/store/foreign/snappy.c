/*
 * snappy.c - decompresses the Snappy format, which LevelDB uses for the indexes of its tables.
 *
 * The data starts with the decompressed size as a varint, which is followed by elements: literals
 * and copies of earlier output. The low two bits of the first byte of each element select its type:
 *
 *     00  literal of 1 + (high six bits) bytes; for 60 .. 63, the length follows in 1 .. 4 bytes
 *     01  copy of 4 .. 11 bytes (three bits), with an offset of 11 bits
 *     10  copy of 1 .. 64 bytes (six bits), with an offset of 16 bits
 *     11  copy of 1 .. 64 bytes (six bits), with an offset of 32 bits
 *
 * Memory is limited. Three bytes expand to at most 64 bytes, so a decompressed size above 22 times
 * the compressed size is rejected before memory is allocated. Nothing outside the input and output
 * buffers is accessed.
 *
 * Source: google/snappy, format_description.txt.
 */
#include "store/foreign/snappy.h"

#include <string.h>

enum { SNAPPY_RATIO_MAX = 22, SNAPPY_VARINT_MAX = 5 };

struct snappy {
    const unsigned char *from;
    uint64_t n, at;
    unsigned char *to;
    uint64_t size, done;
};

/* Reads the varint at the start of the data. Returns the length of the varint, or 0 if it is not a
 * valid 32-bit varint. */
static uint64_t snappy_preamble(const unsigned char *packed, uint64_t n, uint64_t *size)
{
    *size = 0;
    for (uint64_t i = 0; i < n && i < SNAPPY_VARINT_MAX; i++) {
        *size |= (uint64_t)(packed[i] & 127) << 7 * i;
        if (packed[i] < 128) {
            return *size <= UINT32_MAX ? i + 1 : 0;
        }
    }
    return 0;
}

bool snappy_size(const unsigned char *packed, uint64_t n, uint64_t *size)
{
    return snappy_preamble(packed, n, size) && *size / SNAPPY_RATIO_MAX <= n;
}

/* Reads a little-endian number of 0 to 4 bytes. Returns false if the input is too short. */
static bool snappy_number(struct snappy *s, unsigned bytes, uint64_t *number)
{
    if (bytes > s->n - s->at) {
        return false;
    }
    *number = 0;
    for (unsigned i = 0; i < bytes; i++) {
        *number |= (uint64_t)s->from[s->at++] << 8 * i;
    }
    return true;
}

static bool snappy_literal(struct snappy *s, unsigned tag)
{
    uint64_t length = tag >> 2;
    if (length >= 60 && !snappy_number(s, (unsigned)length - 59, &length)) {
        return false;
    }
    length++;
    if (length > s->n - s->at || length > s->size - s->done) {
        return false;
    }
    memcpy(s->to + s->done, s->from + s->at, (size_t)length);
    s->at += length;
    s->done += length;
    return true;
}

static bool snappy_copy(struct snappy *s, unsigned tag)
{
    static const unsigned char offset_bytes[4] = { 0, 1, 2, 4 };
    uint64_t back, length = (tag >> 2) + 1;
    if (!snappy_number(s, offset_bytes[tag & 3], &back)) {
        return false;
    }
    if ((tag & 3) == 1) {
        length = (tag >> 2 & 7) + 4;
        back |= (uint64_t)(tag >> 5) << 8;
    }
    if (back == 0 || back > s->done || length > s->size - s->done) {
        return false;
    }
    /* Copies byte by byte, because the ranges may overlap. */
    for (; length > 0; length--, s->done++) {
        s->to[s->done] = s->to[s->done - back];
    }
    return true;
}

bool snappy_unpack(const unsigned char *packed, uint64_t n, unsigned char *to,
                   uint64_t size)
{
    struct snappy s = { .from = packed, .n = n, .to = to, .size = size };
    uint64_t told;
    s.at = snappy_preamble(packed, n, &told);
    if (s.at == 0 || told != size) {
        return false;
    }
    while (s.at < n) {
        unsigned tag = packed[s.at++];
        if (!(tag & 3 ? snappy_copy(&s, tag) : snappy_literal(&s, tag))) {
            return false;
        }
    }
    return s.done == size;
}
