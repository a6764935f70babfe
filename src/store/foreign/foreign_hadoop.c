/*
 * foreign_hadoop.c - org.apache.hadoop.util.bloom.BloomFilter, as written by its write method.
 *
 *     i32 -1 | i32 k | i8 hash | i32 m | ceil(m / 8) bytes       big-endian
 *     i32 k | i32 m | ceil(m / 8) bytes                          old layout, without a version
 *
 * Hash 0 is Jenkins's lookup3, and hash 1 is MurmurHash2 with Hadoop's variant of tail handling.
 * The old layout always uses Jenkins. `version` is 1 for Murmur, 2 for Jenkins, and 3 for Jenkins
 * in the old layout. A key is hashed k times. Each hash h is seeded with the previous hash, and
 * gives the position |h % m|, computed as a Java int. Hadoop does not support empty keys, so they
 * cannot be added here either.
 *
 * In Hadoop, the user chooses the size. Here, filters are created with k = 5, a common value,
 * and with the number of bits that the rate then requires: m = ceil(-5 n / ln(1 - p^(1/5))).
 */
#include "store/foreign/foreign_bloom.h"
#include "store/foreign/foreign_hashes.h"

#include <math.h>
#include <string.h>

enum { HADOOP_MURMUR = 1, HADOOP_JENKINS = 2, HADOOP_OLD = 3, HADOOP_K = 5 };

static void hadoop_positions(const bg_foreign *foreign, const struct foreign_part *part,
                             const void *key, size_t len, uint64_t *to)
{
    uint32_t h = 0;
    for (uint32_t i = 0; i < part->k; i++) {
        h = foreign->version == HADOOP_MURMUR ? foreign_murmur2_hadoop(key, len, h)
                                              : foreign_jenkins(key, len, h);
        to[i] = (h >> 31 ? 0 - h : h) % part->bits;
    }
}

static bg_err hadoop_add(bg_foreign *foreign, const void *key, size_t len,
                         bg_errinfo *info)
{
    if (len == 0) {
        return bgi_err(info, BG_EINVAL, "key", "at least 1 byte", "an empty key");
    }
    (void)foreign_part_add(foreign, &foreign->parts[0], key, len);
    return BG_OK;
}

static bg_err hadoop_make(uint32_t version, uint32_t m, uint32_t k, uint64_t input,
                          const bg_foreign_options *options, bg_foreign **foreign,
                          bg_errinfo *info)
{
    const struct foreign_part part = { .bits = m,
                                       .bytes = ((uint64_t)m + 7) / 8,
                                       .k = k };
    bg_err err =
        foreign_make_bloom(&foreign_hadoop, options, &part, 0, input, foreign, info);
    if (!err) {
        (*foreign)->version = version;
    }
    return err;
}

/* Returns the size of the header. k is the first int of an old header and the second int of a new
 * header; m is always the last int. */
static uint64_t hadoop_header(uint32_t version)
{
    return version == HADOOP_OLD ? 8 : 13;
}

/* Returns the version (1, 2 or 3) of a header, or 0 if the header is invalid. */
static uint32_t hadoop_version(const unsigned char *header)
{
    const uint32_t first = foreign_be32(header);
    if (first <= INT32_MAX) {
        return HADOOP_OLD;
    }
    return first == UINT32_MAX && header[8] <= 1
               ? (header[8] ? HADOOP_MURMUR : HADOOP_JENKINS)
               : 0;
}

static bg_err hadoop_read(struct foreign_input input, const bg_foreign_options *options,
                          bg_foreign **foreign, bg_errinfo *info)
{
    /* The first nine bytes determine the version. In the old layout, the ninth byte is part of the
     * bit array. */
    const unsigned char *bits, *header = foreign_header(&input, 9, info);
    const uint32_t version = header ? hadoop_version(header) : 0;
    if (!header) {
        return BG_EFORMAT;
    }
    if (version == 0) {
        return bgi_err(info, BG_EVERSION, "version, hash", "-1, and 0 or 1", "%d, %u",
                       (int)foreign_be32(header), header[8]);
    }
    const uint64_t size = hadoop_header(version);
    input.at = 0;
    if (!foreign_header(&input, size, info)) {
        return BG_EFORMAT;
    }
    const uint32_t k = foreign_be32(header + (version == HADOOP_OLD ? 0 : 4));
    const uint32_t m = foreign_be32(header + size - 4);
    if (m == 0 || m > INT32_MAX) {
        return foreign_refuse(info, size - 4, "m", "1 to 2^31 - 1", "%u", m);
    }
    bg_err err = foreign_check_version(options, version, info);
    err = err ? err : foreign_check_k(k, version == HADOOP_OLD ? 0 : 4, info);
    err = err ? err : foreign_last(&input, ((uint64_t)m + 7) / 8, &bits, info);
    err = err ? err : hadoop_make(version, m, k, input.n, options, foreign, info);
    if (err) {
        return err;
    }
    memcpy((*foreign)->bytes, bits, (size_t)(*foreign)->parts[0].bytes);
    return foreign_check_padding(foreign, size, info);
}

static bg_err hadoop_create(uint64_t items, double rate,
                            const bg_foreign_options *options, bg_foreign **foreign,
                            bg_errinfo *info)
{
    const uint32_t version = options->version ? options->version : HADOOP_MURMUR;
    const double m =
        ceil(-(double)HADOOP_K * (double)items / log(1 - pow(rate, 1.0 / HADOOP_K)));
    if (version > HADOOP_OLD) {
        return bgi_err(info, BG_EINVAL, "version", "1, 2 or 3", "%u", version);
    }
    if (!(m >= 1 && m <= INT32_MAX)) {
        return foreign_too_large(m, info);
    }
    return hadoop_make(version, (uint32_t)m, HADOOP_K, 0, options, foreign, info);
}

static uint64_t hadoop_written(const bg_foreign *foreign)
{
    return hadoop_header(foreign->version) + foreign->parts[0].bytes;
}

static void hadoop_write(const bg_foreign *foreign, unsigned char *to)
{
    const struct foreign_part *part = &foreign->parts[0];
    const uint64_t header = hadoop_header(foreign->version);
    foreign_put_be32(to, foreign->version == HADOOP_OLD ? part->k : UINT32_MAX);
    if (foreign->version != HADOOP_OLD) {
        foreign_put_be32(to + 4, part->k);
        to[8] = foreign->version == HADOOP_MURMUR;
    }
    foreign_put_be32(to + header - 4, (uint32_t)part->bits);
    memcpy(to + header, foreign->bytes, (size_t)part->bytes);
}

const struct foreign_format foreign_hadoop = {
    .id = BG_FOREIGN_HADOOP,
    .name = "hadoop",
    .traits = BG_FOREIGN_CAN_WRITE | BG_FOREIGN_CAN_CREATE,
    .read = hadoop_read,
    .create = hadoop_create,
    .positions = hadoop_positions,
    .add = hadoop_add,
    .written = hadoop_written,
    .write = hadoop_write,
};
