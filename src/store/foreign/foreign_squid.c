/*
 * foreign_squid.c - the cache digest that Squid offers to its peers
 * (squid-internal-periodic/store_digest), version 5.
 *
 *     i16 current | i16 required | i32 capacity | i32 count | i32 deletions | i32 bytes |
 *     u8 bits per entry | u8 hashes = 4 | 106 zeros | the bits       big-endian
 *
 * `bytes` must be (capacity * bits per entry + 7) / 8. Squid and this decoder reject other values.
 * A key is the MD5 hash of the method (one byte) followed by the URL. The positions are the four
 * big-endian words of the MD5 hash, each modulo the number of bits.
 *
 * The caller passes the URL in the form that Squid uses. `seed` is the number that Squid uses for
 * the request method. A seed of 0 selects the default, which is 1 (GET). Nearly all entries in a
 * digest are for GET.
 */
#include "store/foreign/foreign_bloom.h"
#include "store/foreign/foreign_digests.h"

#include <math.h>
#include <string.h>

enum { SQUID_HEADER = 128, SQUID_K = 4, SQUID_CURRENT = 5, SQUID_REQUIRED = 3 };
enum { SQUID_GET = 1, SQUID_BITS_MAX = 255 };

/* extra[] */
enum { SQUID_VERSIONS = 0, SQUID_DELETIONS = 1, SQUID_PER_ENTRY = 2 };

static void squid_positions(const bg_foreign *foreign, const struct foreign_part *part,
                            const void *key, size_t len, uint64_t *to)
{
    unsigned char digest[16];
    foreign_md5((unsigned char)foreign->seed, key, len, digest);
    for (uint32_t i = 0; i < part->k; i++) {
        to[i] = foreign_be32(digest + 4 * i) % part->bits;
    }
}

static bg_err squid_add(bg_foreign *foreign, const void *key, size_t len,
                        bg_errinfo *info)
{
    struct foreign_part *part = &foreign->parts[0];
    if (part->items >= INT32_MAX) {
        return bgi_err_state(info, BG_EFULL, "count",
                             "the digest is full: it has %llu entries",
                             (unsigned long long)part->items);
    }
    (void)foreign_part_add(foreign, part, key, len);
    part->items++;
    return BG_OK;
}

static bg_err squid_make(uint64_t capacity, uint32_t per_entry, uint64_t input,
                         const bg_foreign_options *options, bg_foreign **foreign,
                         bg_errinfo *info)
{
    const uint64_t bytes = (capacity * per_entry + 7) / 8;
    const struct foreign_part part = {
        .bits = bytes * 8, .bytes = bytes, .k = SQUID_K, .design = capacity
    };
    if (options->seed > 255) {
        return bgi_err(info, BG_EINVAL, "seed", "a method number of at most 255",
                       "%llu", (unsigned long long)options->seed);
    }
    bg_err err =
        foreign_make_bloom(&foreign_squid, options, &part, 0, input, foreign, info);
    if (!err) {
        (*foreign)->seed = options->seed ? options->seed : SQUID_GET;
        (*foreign)->version = SQUID_CURRENT;
        (*foreign)->extra[SQUID_VERSIONS] = SQUID_CURRENT << 16 | SQUID_REQUIRED;
        (*foreign)->extra[SQUID_PER_ENTRY] = per_entry;
    }
    return err;
}

static bg_err squid_check(const unsigned char *header, bg_errinfo *info)
{
    const uint32_t current = foreign_be32(header) >> 16;
    const uint32_t required = foreign_be32(header) & 0xffff;
    const uint32_t capacity = foreign_be32(header + 4),
                   bytes = foreign_be32(header + 16);
    if (current < SQUID_REQUIRED || current > INT16_MAX) {
        return bgi_err(info, BG_EVERSION, "version", "3 or later", "%u", current);
    }
    if (required > SQUID_CURRENT) {
        return bgi_err_state(info, BG_EVERSION, "version",
                             "the digest can be read only by version %u or later; this "
                             "library supports version 5",
                             required);
    }
    if (capacity == 0 || capacity > INT32_MAX || header[20] == 0) {
        return foreign_refuse(info, 4, "capacity, bits per entry",
                              "at least 1 for each", "%d, %u", (int)capacity,
                              header[20]);
    }
    if (foreign_be32(header + 8) > INT32_MAX) {
        return foreign_refuse(info, 8, "count", "at least 0", "%d",
                              (int)foreign_be32(header + 8));
    }
    if (bytes > INT32_MAX || bytes != ((uint64_t)capacity * header[20] + 7) / 8) {
        return foreign_refuse(
            info, 16, "bytes",
            "capacity times bits per entry, divided by 8 and rounded up", "%d",
            (int)bytes);
    }
    if (header[21] != SQUID_K) {
        return foreign_refuse(info, 21, "hashes", "4", "%u", header[21]);
    }
    return BG_OK;
}

static bg_err squid_read(struct foreign_input input, const bg_foreign_options *options,
                         bg_foreign **foreign, bg_errinfo *info)
{
    const unsigned char *bits, *header = foreign_header(&input, SQUID_HEADER, info);
    bg_err err = header ? squid_check(header, info) : BG_EFORMAT;
    err = err ? err : foreign_last(&input, foreign_be32(header + 16), &bits, info);
    err = err ? err
              : squid_make(foreign_be32(header + 4), header[20], input.n, options,
                           foreign, info);
    if (err) {
        return err;
    }
    (*foreign)->parts[0].items = foreign_be32(header + 8);
    (*foreign)->extra[SQUID_VERSIONS] = foreign_be32(header);
    (*foreign)->extra[SQUID_DELETIONS] = foreign_be32(header + 12);
    (*foreign)->version = foreign_be32(header) >> 16;
    memcpy((*foreign)->bytes, bits, (size_t)(*foreign)->parts[0].bytes);
    return BG_OK;
}

/* Squid's default is 5 bits per entry, which gives a rate of 0.092. */
static bg_err squid_create(uint64_t items, double rate,
                           const bg_foreign_options *options, bg_foreign **foreign,
                           bg_errinfo *info)
{
    uint32_t bits = 1;
    while (pow(1 - exp(-(double)SQUID_K / bits), SQUID_K) > rate) {
        if (++bits > SQUID_BITS_MAX) {
            return bgi_err(info, BG_EINVAL, "rate",
                           "a rate that 255 bits per entry can reach", "%g", rate);
        }
    }
    if (items * bits + 7 >= INT32_MAX) {
        return foreign_too_large((double)items * bits, info);
    }
    return squid_make(items, bits, 0, options, foreign, info);
}

static uint64_t squid_written(const bg_foreign *foreign)
{
    return SQUID_HEADER + foreign->parts[0].bytes;
}

static void squid_write(const bg_foreign *foreign, unsigned char *to)
{
    const struct foreign_part *part = &foreign->parts[0];
    memset(to, 0, SQUID_HEADER);
    foreign_put_be32(to, (uint32_t)foreign->extra[SQUID_VERSIONS]);
    foreign_put_be32(to + 4, (uint32_t)part->design);
    foreign_put_be32(to + 8, (uint32_t)part->items);
    foreign_put_be32(to + 12, (uint32_t)foreign->extra[SQUID_DELETIONS]);
    foreign_put_be32(to + 16, (uint32_t)part->bytes);
    to[20] = (unsigned char)foreign->extra[SQUID_PER_ENTRY];
    to[21] = SQUID_K;
    memcpy(to + SQUID_HEADER, foreign->bytes, (size_t)part->bytes);
}

const struct foreign_format foreign_squid = {
    .id = BG_FOREIGN_SQUID,
    .name = "squid",
    .traits = BG_FOREIGN_CAN_WRITE | BG_FOREIGN_CAN_CREATE,
    .read = squid_read,
    .create = squid_create,
    .positions = squid_positions,
    .add = squid_add,
    .written = squid_written,
    .write = squid_write,
};
