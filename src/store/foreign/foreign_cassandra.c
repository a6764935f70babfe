/*
 * foreign_cassandra.c - the Filter.db file of a Cassandra or Scylla SSTable.
 *
 *     i32 k | i32 words | words x 8 bytes        big-endian
 *
 * m is 64 * words. The SSTable version is not stored in the file, but is part of its name
 * (nb-1-big-Filter.db). The version determines two things:
 *
 *     `version`   SSTables                       words                positions
 *     0           na and later (Cassandra 4)     little-endian        from h2 in steps of h1
 *     1           ma .. me; and Scylla           big-endian           from h2 in steps of h1
 *     2           ka, la (Cassandra 2)           big-endian           from h1 in steps of h2
 *
 * Keys are the bytes of partition keys, as in Index.db. The hash is MurmurHash3 x64 128, but with
 * the bytes of the tail treated as signed. Each step gives a value x, and the position is |x % m|,
 * computed as a Java long.
 *
 * Cassandra chooses the bits per key and k from a table of rates with at most 20 bits per key. This
 * code computes the entries of that table. For p = 0.01, the table gives 10 bits and k = 5, as in
 * Cassandra's files. (For p = 0.393 and above, Cassandra uses 1 bit and k = 2, and misses the
 * target rate. This code uses 2 bits and k = 1 instead.)
 */
#include "store/foreign/foreign_bloom.h"
#include "store/foreign/foreign_hashes.h"

#include <math.h>
#include <string.h>

enum { CASSANDRA_HEADER = 8, CASSANDRA_SPARE_BITS = 20, CASSANDRA_BITS_MAX = 20 };
enum { CASSANDRA_NA = 0, CASSANDRA_MA = 1, CASSANDRA_KA = 2 };

static void cassandra_positions(const bg_foreign *foreign,
                                const struct foreign_part *part, const void *key,
                                size_t len, uint64_t *to)
{
    const struct foreign_pair h = foreign_murmur3_x64_128_signed(key, len);
    const bool old = foreign->version == CASSANDRA_KA;
    const uint64_t step = old ? h.h2 : h.h1;
    uint64_t x = old ? h.h1 : h.h2;
    for (uint32_t i = 0; i < part->k; i++, x += step) {
        to[i] = (x >> 63 ? 0 - x : x) % part->bits;
    }
}

/* Copies words, converting between the byte orders of the file and of memory. */
static void cassandra_copy(const bg_foreign *foreign, unsigned char *to,
                           const unsigned char *from)
{
    const struct foreign_part *part = &foreign->parts[0];
    if (foreign->version == CASSANDRA_NA) {
        memcpy(to, from, (size_t)part->bytes);
    } else {
        foreign_copy_swapped(to, from, part->bytes / 8);
    }
}

static bg_err cassandra_check(const bg_foreign_options *options, bg_errinfo *info)
{
    if (options->version <= CASSANDRA_KA) {
        return BG_OK;
    }
    return bgi_err(info, BG_EINVAL, "version",
                   "0 (na and later), 1 (ma .. me, Scylla) or 2 (ka, la)", "%u",
                   options->version);
}

static bg_err cassandra_make(uint64_t words, uint32_t k, uint64_t input,
                             const bg_foreign_options *options, bg_foreign **foreign,
                             bg_errinfo *info)
{
    const struct foreign_part part = { .bits = words * 64, .bytes = words * 8, .k = k };
    return foreign_make_bloom(&foreign_cassandra, options, &part, 0, input, foreign,
                              info);
}

static bg_err cassandra_read(struct foreign_input input,
                             const bg_foreign_options *options, bg_foreign **foreign,
                             bg_errinfo *info)
{
    const unsigned char *bits, *header = foreign_header(&input, CASSANDRA_HEADER, info);
    bg_err err = header ? cassandra_check(options, info) : BG_EFORMAT;
    if (err) {
        return err;
    }
    const uint32_t k = foreign_be32(header), words = foreign_be32(header + 4);
    if (words == 0 || words > INT32_MAX) {
        return foreign_refuse(info, 4, "words", "1 to 2^31 - 1", "%u", words);
    }
    err = foreign_check_k(k, 0, info);
    err = err ? err : foreign_last(&input, (uint64_t)words * 8, &bits, info);
    err = err ? err : cassandra_make(words, k, input.n, options, foreign, info);
    if (!err) {
        cassandra_copy(*foreign, (*foreign)->bytes, bits);
    }
    return err;
}

/* Returns the rate, rounded to three significant digits as in Cassandra's table. 0.001 is an entry
 * in that table, so the choice for a target rate of 0.001 depends on this rounding. */
static double cassandra_rate(uint32_t bits_per_key, uint32_t k)
{
    const double rate = pow(1 - exp(-(double)k / bits_per_key), k);
    const double scale = pow(10, 2 - floor(log10(rate)));
    return round(rate * scale) / scale;
}

/* Returns the k that has the lowest rate at this number of bits per key. */
static uint32_t cassandra_best_k(uint32_t bits_per_key)
{
    uint32_t best = 1;
    for (uint32_t k = 2; k <= bits_per_key; k++) {
        best = cassandra_rate(bits_per_key, k) < cassandra_rate(bits_per_key, best)
                   ? k
                   : best;
    }
    return best;
}

/* Returns the minimum number of bits per key that achieves the rate, and sets *k to the minimum k
 * that achieves the rate with this number of bits. Returns 0 if the rate cannot be achieved. */
static uint32_t cassandra_choose(double rate, uint32_t *k)
{
    for (uint32_t bits = 2; bits <= CASSANDRA_BITS_MAX; bits++) {
        *k = cassandra_best_k(bits);
        if (cassandra_rate(bits, *k) > rate) {
            continue;
        }
        while (*k > 1 && cassandra_rate(bits, *k - 1) <= rate) {
            --*k;
        }
        return bits;
    }
    return 0;
}

static bg_err cassandra_create(uint64_t items, double rate,
                               const bg_foreign_options *options, bg_foreign **foreign,
                               bg_errinfo *info)
{
    uint32_t k;
    const uint32_t bits_per_key = cassandra_choose(rate, &k);
    bg_err err = cassandra_check(options, info);
    if (err) {
        return err;
    }
    if (bits_per_key == 0) {
        return bgi_err(info, BG_EINVAL, "rate", "a rate that 20 bits per key can reach",
                       "%g", rate);
    }
    const uint64_t words = foreign_words(items * bits_per_key + CASSANDRA_SPARE_BITS);
    if (words > INT32_MAX) {
        return foreign_too_large(64.0 * (double)words, info);
    }
    return cassandra_make(words, k, 0, options, foreign, info);
}

static uint64_t cassandra_written(const bg_foreign *foreign)
{
    return CASSANDRA_HEADER + foreign->parts[0].bytes;
}

static void cassandra_write(const bg_foreign *foreign, unsigned char *to)
{
    const struct foreign_part *part = &foreign->parts[0];
    foreign_put_be32(to, part->k);
    foreign_put_be32(to + 4, (uint32_t)(part->bits / 64));
    cassandra_copy(foreign, to + CASSANDRA_HEADER, foreign->bytes);
}

const struct foreign_format foreign_cassandra = {
    .id = BG_FOREIGN_CASSANDRA,
    .name = "cassandra",
    .traits = BG_FOREIGN_CAN_WRITE | BG_FOREIGN_CAN_CREATE,
    .read = cassandra_read,
    .create = cassandra_create,
    .positions = cassandra_positions,
    .written = cassandra_written,
    .write = cassandra_write,
};
