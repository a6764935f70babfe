/*
 * foreign_guava.c - Guava's com.google.common.hash.BloomFilter, as written by writeTo.
 *
 *     i8 strategy | u8 k | i32 words | words x i64          big-endian
 *
 * m is 64 * words. A key is hashed once, with MurmurHash3 x64 128, and the positions are computed
 * from the halves of the hash. Strategy 0 (MURMUR128_MITZ_32, in old filters) uses the two halves
 * of the first 64 bits as Java ints a and b. Position i is a + (i + 1) * b, complemented if it is
 * negative, modulo m. Strategy 1 (MURMUR128_MITZ_64) uses the two 64-bit halves h1 and h2. Position
 * i is h1 + i * h2, with the sign bit cleared, modulo m.
 *
 * `version` is 32 or 64. The hashed bytes depend on the funnel, which is not stored in the file. So
 * the caller must specify the key type and pass the bytes that the funnel would produce.
 */
#include "store/foreign/foreign_bloom.h"
#include "store/foreign/foreign_hashes.h"

enum { GUAVA_HEADER = 6, GUAVA_K_MAX = 255, GUAVA_32 = 32, GUAVA_64 = 64 };

static void guava_positions_32(const struct foreign_part *part, struct foreign_pair h,
                               uint64_t *to)
{
    const uint32_t a = (uint32_t)h.h1, b = (uint32_t)(h.h1 >> 32);
    for (uint32_t i = 0; i < part->k; i++) {
        uint32_t sum = a + (i + 1) * b;
        to[i] = (sum >> 31 ? ~sum : sum) % part->bits;
    }
}

static void guava_positions(const bg_foreign *foreign, const struct foreign_part *part,
                            const void *key, size_t len, uint64_t *to)
{
    struct foreign_pair h = foreign_murmur3_x64_128(key, len);
    if (foreign->version == GUAVA_32) {
        guava_positions_32(part, h, to);
        return;
    }
    for (uint32_t i = 0; i < part->k; i++) {
        to[i] = (h.h1 & INT64_MAX) % part->bits;
        h.h1 += h.h2;
    }
}

static bg_err guava_read(struct foreign_input input, const bg_foreign_options *options,
                         bg_foreign **foreign, bg_errinfo *info)
{
    const unsigned char *bits, *header = foreign_header(&input, GUAVA_HEADER, info);
    if (!header) {
        return BG_EFORMAT;
    }
    const uint32_t words = foreign_be32(header + 2);
    if (header[0] > 1) {
        return foreign_refuse(info, 0, "strategy", "0 or 1", "%u", header[0]);
    }
    const uint32_t version = header[0] ? GUAVA_64 : GUAVA_32;
    bg_err err = foreign_check_java_words(words, 2, info);
    err = err ? err : foreign_check_version(options, version, info);
    err = err ? err : foreign_check_k(header[1], 1, info);
    err = err ? err : foreign_last(&input, (uint64_t)words * 8, &bits, info);
    const struct foreign_size size = { .words = words, .k = header[1] };
    err = err ? err
              : foreign_make_java(&foreign_guava, version, size, input.n, options,
                                  foreign, info);
    if (!err) {
        foreign_copy_swapped((*foreign)->bytes, bits, words);
    }
    return err;
}

static bg_err guava_create(uint64_t items, double rate,
                           const bg_foreign_options *options, bg_foreign **foreign,
                           bg_errinfo *info)
{
    const uint32_t version = options->version ? options->version : GUAVA_64;
    struct foreign_size size;
    if (version != GUAVA_32 && version != GUAVA_64) {
        return bgi_err(info, BG_EINVAL, "version", "32 or 64", "%u", version);
    }
    bg_err err = foreign_java_size(items, rate, GUAVA_K_MAX, &size, info);
    return err ? err
               : foreign_make_java(&foreign_guava, version, size, 0, options, foreign,
                                   info);
}

static uint64_t guava_written(const bg_foreign *foreign)
{
    return GUAVA_HEADER + foreign->parts[0].bytes;
}

static void guava_write(const bg_foreign *foreign, unsigned char *to)
{
    const struct foreign_part *part = &foreign->parts[0];
    to[0] = foreign->version == GUAVA_64;
    to[1] = (unsigned char)part->k;
    foreign_put_be32(to + 2, (uint32_t)(part->bits / 64));
    foreign_copy_swapped(to + GUAVA_HEADER, foreign->bytes, part->bits / 64);
}

const struct foreign_format foreign_guava = {
    .id = BG_FOREIGN_GUAVA,
    .name = "guava",
    .traits = BG_FOREIGN_CAN_WRITE | BG_FOREIGN_CAN_CREATE | BG_FOREIGN_NEEDS_KEYS,
    .read = guava_read,
    .create = guava_create,
    .positions = guava_positions,
    .written = guava_written,
    .write = guava_write,
};
