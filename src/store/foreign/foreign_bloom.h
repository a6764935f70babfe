/*
 * foreign_bloom.h - functions for formats that consist of a single Bloom filter: a header followed
 * by bits.
 *
 * A decoder works in three steps: it reads the header (foreign_header), checks its fields
 * (foreign_check_k and format-specific checks), and gets the bits (foreign_last). The rest of the
 * input must be exactly as large as the header specifies. Memory is allocated only after these
 * steps (foreign_make_bloom), so a forged size cannot cause a large allocation.
 */
#ifndef BGI_FOREIGN_BLOOM_H
#define BGI_FOREIGN_BLOOM_H

#include "store/foreign/foreign.h"

/* Returns the next `bytes` bytes, which are the header. If the input is too short, reports an error
 * and returns NULL. */
const unsigned char *foreign_header(struct foreign_input *input, uint64_t bytes,
                                    bg_errinfo *info);

/* Checks that k, the number of positions per key, is from 1 to FOREIGN_K_MAX. */
bg_err foreign_check_k(uint64_t k, uint64_t offset, bg_errinfo *info);

/* Checks that the version found equals the version in the options. If the version in the options is
 * 0, accepts any version. */
bg_err foreign_check_version(const bg_foreign_options *options, uint32_t found,
                             bg_errinfo *info);

/* Gets the last `bytes` bytes of the input. Reports an error unless exactly this number of bytes is
 * left. */
bg_err foreign_last(struct foreign_input *input, uint64_t bytes,
                    const unsigned char **bits, bg_errinfo *info);

/* Checks that the padding after the first part->bits bits of a filter is zero. If any bit of the
 * padding is set, frees the filter and reports an error. */
bg_err foreign_check_padding(bg_foreign **foreign, uint64_t offset, bg_errinfo *info);

/* Creates a filter with this single part and `more` bytes after its bits; `input` has
 * the same meaning as in foreign_make. */
bg_err foreign_make_bloom(const struct foreign_format *format,
                          const bg_foreign_options *options,
                          const struct foreign_part *part, uint64_t more,
                          uint64_t input, bg_foreign **foreign, bg_errinfo *info);

/* Returns the number of bits that a Bloom filter needs for n items and a rate of p, before
 * rounding: -n ln p / ln(2)^2. */
double foreign_ideal_bits(uint64_t items, double rate);

/*
 * Returns the capacity of the next part in a chain, which is `growth` times the capacity of the
 * last part. The next part must not have more than FOREIGN_GROWTH_MAX times the bytes of the last
 * part, so the result is at most the number of keys that fit into this number of bytes at the given
 * bits per key. This limit is needed because the capacity and the growth in a file can be forged,
 * while the bytes of the last part are known to exist.
 */
enum {
    FOREIGN_GROWTH_MAX = 65536
}; /* allows a growth factor of 32768 even if the bits per key double */
uint64_t foreign_next_items(const struct foreign_part *last, uint64_t growth,
                            double bits_per_key);

/* Computes the size of a filter as Guava and Spark do. Both store the number of 64-bit words in an
 * int. */
struct foreign_size {
    uint32_t words, k;
};
bg_err foreign_java_size(uint64_t items, double rate, uint32_t k_most,
                         struct foreign_size *size, bg_errinfo *info);

/* Checks that the number of 64-bit words is from 1 to 2^31 - 1, the maximum in Guava and Spark. */
bg_err foreign_check_java_words(uint32_t words, uint64_t offset, bg_errinfo *info);

/* Creates a filter of Guava or Spark; `input` has the same meaning as in foreign_make. */
bg_err foreign_make_java(const struct foreign_format *format, uint32_t version,
                         struct foreign_size size, uint64_t input,
                         const bg_foreign_options *options, bg_foreign **foreign,
                         bg_errinfo *info);

/* Reports BG_EINVAL for a filter that is too large for the format. */
bg_err foreign_too_large(double bits, bg_errinfo *info);

/* Returns the number of 64-bit words that hold `bits` bits. */
uint64_t foreign_words(uint64_t bits);

#endif
