/*
 * foreign_spark.c - org.apache.spark.util.sketch.BloomFilter, as written by writeTo and by the SQL
 * function bloom_filter_agg.
 *
 *     V1:  i32 1 | i32 k | i32 words | words x i64
 *     V2:  i32 2 | i32 k | i32 seed | i32 words | words x i64     big-endian
 *
 * Spark 4.1 and later write V2, which older versions cannot read. So a new filter has the format V1
 * unless `version` is 2. m is 64 * words. The positions are computed from two hashes, h1 and h2,
 * where h1 is the seed of h2. V1 adds h2 to h1 repeatedly, in 32-bit arithmetic. V2 starts at h1 *
 * (2^31 - 1) instead and uses 64-bit arithmetic, which large filters need. Each sum, complemented
 * if it is negative, gives a position modulo m.
 *
 * Spark hashes a long as its low word followed by its high word, which gives the same result as
 * hashing the 8 little-endian bytes. An int is widened to a long first. bloom_filter_agg hashes
 * columns with xxhash64 and adds the resulting long.
 */
#include "store/foreign/foreign_bloom.h"
#include "store/foreign/foreign_hashes.h"

enum { SPARK_V1 = 1, SPARK_V2 = 2 };

static void spark_walk_1(const struct foreign_part *part, uint32_t h1, uint32_t h2,
                         uint64_t *to)
{
    for (uint32_t i = 0; i < part->k; i++) {
        uint32_t sum = h1 + (i + 1) * h2;
        to[i] = (sum >> 31 ? ~sum : sum) % part->bits;
    }
}

static void spark_walk_2(const struct foreign_part *part, uint32_t h1, uint32_t h2,
                         uint64_t *to)
{
    /* The sum is at most 2^62, so it cannot overflow. */
    int64_t sum = (int64_t)(int32_t)h1 * INT32_MAX;
    for (uint32_t i = 0; i < part->k; i++) {
        sum += (int32_t)h2;
        to[i] = (uint64_t)(sum < 0 ? ~sum : sum) % part->bits;
    }
}

static void spark_positions(const bg_foreign *foreign, const struct foreign_part *part,
                            const void *key, size_t len, uint64_t *to)
{
    unsigned char widened[8];
    if (foreign->keys == BG_FOREIGN_KEYS_INT32) {
        int64_t value = (int32_t)bgi_load_le32(key);
        bgi_store_le64(widened, (uint64_t)value);
        key = widened;
        len = sizeof widened;
    }
    const uint32_t h1 = foreign_murmur3_spark(key, len, (uint32_t)foreign->seed);
    const uint32_t h2 = foreign_murmur3_spark(key, len, h1);
    if (foreign->version == SPARK_V1) {
        spark_walk_1(part, h1, h2, to);
    } else {
        spark_walk_2(part, h1, h2, to);
    }
}

static bg_err spark_check_keys(const bg_foreign_options *options, bg_errinfo *info)
{
    if (options->keys != BG_FOREIGN_KEYS_UTF16) {
        return BG_OK;
    }
    return bgi_err(info, BG_EINVAL, "keys", "bytes (strings in UTF-8), int32 or int64",
                   "utf16");
}

static uint64_t spark_header(uint32_t version)
{
    return version == SPARK_V1 ? 12 : 16;
}

static bg_err spark_read(struct foreign_input input, const bg_foreign_options *options,
                         bg_foreign **foreign, bg_errinfo *info)
{
    const unsigned char *bits, *header = foreign_header(&input, 12, info);
    bg_err err = header ? spark_check_keys(options, info) : BG_EFORMAT;
    if (err) {
        return err;
    }
    const uint32_t version = foreign_be32(header);
    if (version != SPARK_V1 && version != SPARK_V2) {
        return bgi_err(info, BG_EVERSION, "version", "1 or 2", "%u", version);
    }
    if (version == SPARK_V2 && !foreign_header(&input, 4, info)) {
        return BG_EFORMAT;
    }
    const uint64_t at = spark_header(version) - 4;
    const uint32_t words = foreign_be32(header + at);
    const struct foreign_size size = { .words = words, .k = foreign_be32(header + 4) };
    err = foreign_check_java_words(words, at, info);
    err = err ? err : foreign_check_version(options, version, info);
    err = err ? err : foreign_check_k(size.k, 4, info);
    err = err ? err : foreign_last(&input, (uint64_t)words * 8, &bits, info);
    err = err ? err
              : foreign_make_java(&foreign_spark, version, size, input.n, options,
                                  foreign, info);
    if (!err) {
        (*foreign)->seed = version == SPARK_V2 ? foreign_be32(header + 8) : 0;
        foreign_copy_swapped((*foreign)->bytes, bits, words);
    }
    return err;
}

static bg_err spark_create(uint64_t items, double rate,
                           const bg_foreign_options *options, bg_foreign **foreign,
                           bg_errinfo *info)
{
    const uint32_t version = options->version ? options->version : SPARK_V1;
    struct foreign_size size;
    bg_err err = spark_check_keys(options, info);
    if (err) {
        return err;
    }
    if (version > SPARK_V2) {
        return bgi_err(info, BG_EINVAL, "version", "1 or 2", "%u", version);
    }
    if (options->seed > (version == SPARK_V1 ? 0 : UINT32_MAX)) {
        return bgi_err(info, BG_EINVAL, "seed",
                       "a 32-bit number in version 2, and 0 in version 1", "%llu",
                       (unsigned long long)options->seed);
    }
    err = foreign_java_size(items, rate, FOREIGN_K_MAX, &size, info);
    return err ? err
               : foreign_make_java(&foreign_spark, version, size, 0, options, foreign,
                                   info);
}

static uint64_t spark_written(const bg_foreign *foreign)
{
    return spark_header(foreign->version) + foreign->parts[0].bytes;
}

static void spark_write(const bg_foreign *foreign, unsigned char *to)
{
    const struct foreign_part *part = &foreign->parts[0];
    const uint64_t header = spark_header(foreign->version);
    foreign_put_be32(to, foreign->version);
    foreign_put_be32(to + 4, part->k);
    foreign_put_be32(to + 8, (uint32_t)foreign->seed); /* overwritten below in V1 */
    foreign_put_be32(to + header - 4, (uint32_t)(part->bits / 64));
    foreign_copy_swapped(to + header, foreign->bytes, part->bits / 64);
}

const struct foreign_format foreign_spark = {
    .id = BG_FOREIGN_SPARK,
    .name = "spark",
    .traits = BG_FOREIGN_CAN_WRITE | BG_FOREIGN_CAN_CREATE | BG_FOREIGN_NEEDS_KEYS,
    .read = spark_read,
    .create = spark_create,
    .positions = spark_positions,
    .written = spark_written,
    .write = spark_write,
};
