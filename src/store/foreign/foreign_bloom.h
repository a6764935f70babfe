/*
 * foreign_bloom.h - what formats share that are one plain Bloom filter: a header, then bits.
 *
 * A decoder reads in three steps: the header (foreign_header), the checks of what it says
 * (foreign_check_k and its own), the bits (foreign_bits: as many as the header says, and
 * nothing behind them). Only then is memory taken (foreign_make_bloom), so that a lie about
 * a size costs nothing.
 */
#ifndef BGI_FOREIGN_BLOOM_H
#define BGI_FOREIGN_BLOOM_H

#include "store/foreign/foreign.h"

/* The next `bytes` bytes, which are the header; NULL and the error when they are not there. */
const unsigned char *foreign_header(struct foreign_input *input, uint64_t bytes,
                                    bg_errinfo *info);

/* A number of positions per key that can be asked for: 1 .. FOREIGN_K_MAX. */
bg_err foreign_check_k(uint64_t k, uint64_t offset, bg_errinfo *info);

/* A version that was asked for and is not the one found (0: none was asked for). */
bg_err foreign_check_version(const bg_foreign_options *options, uint32_t found,
                             bg_errinfo *info);

/* The last `bytes` bytes of the input. */
bg_err foreign_last(struct foreign_input *input, uint64_t bytes,
                    const unsigned char **bits, bg_errinfo *info);

/* Behind the last of part->bits bits there are only zeros: checked once they are in place.
 * Frees the filter and refuses otherwise. */
bg_err foreign_check_padding(bg_foreign **foreign, uint64_t offset, bg_errinfo *info);

/* A filter of this one part, with `more` bytes behind its bits; `input` as in foreign_make. */
bg_err foreign_make_bloom(const struct foreign_format *format,
                          const bg_foreign_options *options,
                          const struct foreign_part *part, uint64_t more,
                          uint64_t input, bg_foreign **foreign, bg_errinfo *info);

/* Bits that a Bloom filter of any kind needs, before rounding: -n ln p / ln(2)^2. */
double foreign_ideal_bits(uint64_t items, double rate);

/*
 * Returns the capacity of the next part of a chain: `growth` times that of the last part, but no more keys than
 * fit into FOREIGN_GROWTH_MAX times its bytes at the given bits per key. A file can forge all three numbers, but
 * not the bytes that it has.
 */
enum {
    FOREIGN_GROWTH_MAX = 65536
}; /* allows a growth of 32768 at twice the bits per key */
uint64_t foreign_next_items(const struct foreign_part *last, uint64_t growth,
                            double bits_per_key);

/* The size that Guava and Spark give to a filter; both count words of 64 bits in an int. */
struct foreign_size {
    uint32_t words, k;
};
bg_err foreign_java_size(uint64_t items, double rate, uint32_t k_most,
                         struct foreign_size *size, bg_errinfo *info);

/* BG_EINVAL: the format has no room for a filter of that size. */
bg_err foreign_too_large(double bits, bg_errinfo *info);

/* Words of 64 bits that hold so many bits. */
uint64_t foreign_words(uint64_t bits);

#endif
