#include "store/foreign/foreign_bloom.h"

#include "base/checked.h"

#include <math.h>
#include <stdio.h>

const unsigned char *foreign_header(struct foreign_input *input, uint64_t bytes,
                                    bg_errinfo *info)
{
    const unsigned char *header = foreign_take(input, bytes);
    if (!header) {
        (void)foreign_refuse(info, input->n, "header", "a complete header",
                             "%zu bytes in total", input->n);
    }
    return header;
}

bg_err foreign_check_k(uint64_t k, uint64_t offset, bg_errinfo *info)
{
    if (k >= 1 && k <= FOREIGN_K_MAX) {
        return BG_OK;
    }
    return foreign_refuse(info, offset, "k", "1 to 256", "%llu", (unsigned long long)k);
}

bg_err foreign_check_version(const bg_foreign_options *options, uint32_t found,
                             bg_errinfo *info)
{
    if (options->version == 0 || options->version == found) {
        return BG_OK;
    }
    return bgi_err_state(info, BG_EVERSION, "version",
                         "the input has version %u, but the options specify version %u",
                         found, options->version);
}

bg_err foreign_last(struct foreign_input *input, uint64_t bytes,
                    const unsigned char **bits, bg_errinfo *info)
{
    const uint64_t at = input->at, left = input->n - input->at;
    *bits = left == bytes ? foreign_take(input, bytes) : NULL;
    if (*bits) {
        return BG_OK;
    }
    char expected[48];
    (void)snprintf(expected, sizeof expected, "%llu bytes", (unsigned long long)bytes);
    return foreign_refuse(info, at, "bits", expected, "%llu bytes",
                          (unsigned long long)left);
}

bg_err foreign_check_padding(bg_foreign **foreign, uint64_t offset, bg_errinfo *info)
{
    const struct foreign_part *part = &(*foreign)->parts[0];
    const unsigned char *bytes = (*foreign)->bytes + part->offset;
    const uint64_t whole = part->bits / 8, rest = part->bits % 8;
    bool clean = rest == 0 || bytes[whole] >> rest == 0;
    for (uint64_t i = whole + (rest != 0); i < part->bytes && clean; i++) {
        clean = bytes[i] == 0;
    }
    if (clean) {
        return BG_OK;
    }
    bg_foreign_free(*foreign);
    *foreign = NULL;
    return foreign_refuse(info, offset, "bits",
                          "zeros in the padding after the last bit", "nonzero bits");
}

bg_err foreign_make_bloom(const struct foreign_format *format,
                          const bg_foreign_options *options,
                          const struct foreign_part *part, uint64_t more,
                          uint64_t input, bg_foreign **foreign, bg_errinfo *info)
{
    bg_err err =
        foreign_make(format, options, 1, part->bytes + more, input, foreign, info);
    if (!err) {
        (*foreign)->parts[0] = *part;
    }
    return err;
}

double foreign_ideal_bits(uint64_t items, double rate)
{
    /* The operations are in the same order as in Java and Go, so that the rounding is the same. */
    return -(double)items * log(rate) / (log(2) * log(2));
}

uint64_t foreign_next_items(const struct foreign_part *last, uint64_t growth,
                            double bits_per_key)
{
    const double most = 8.0 * FOREIGN_GROWTH_MAX * (double)last->bytes;
    uint64_t items, room;
    if (!bgi_mul_u64(last->design, growth, &items)) {
        items = UINT64_MAX;
    }
    if (!bgi_u64_from_double(floor(most / bits_per_key), &room)) {
        room = UINT64_MAX;
    }
    items = items < room ? items : room;
    return items ? items : 1;
}

bg_err foreign_too_large(double bits, bg_errinfo *info)
{
    return bgi_err_state(
        info, BG_EINVAL, "items, rate",
        "the filter would need %.4g bits, more than the format supports; use fewer items or a higher rate",
        bits);
}

uint64_t foreign_words(uint64_t bits)
{
    return bits / 64 + (bits % 64 != 0);
}

bg_err foreign_java_size(uint64_t items, double rate, uint32_t k_most,
                         struct foreign_size *size, bg_errinfo *info)
{
    const double ideal = foreign_ideal_bits(items, rate);
    uint64_t bits;
    if (!bgi_u64_from_double(ideal, &bits) || foreign_words(bits) > INT32_MAX) {
        return foreign_too_large(ideal, info);
    }
    const double k = floor((double)bits / (double)items * log(2) + 0.5);
    if (k > k_most) {
        return bgi_err_state(
            info, BG_EINVAL, "rate",
            "a rate of %g needs more than %u hashes per key, the maximum of the format; use a higher rate",
            rate, k_most);
    }
    /* If the computed size is 0 bits, Guava and Spark refuse to create the filter. This function
     * returns the minimum size instead. */
    *size = (struct foreign_size){ .words = bits ? (uint32_t)foreign_words(bits) : 1,
                                   .k = k < 1 ? 1 : (uint32_t)k };
    return BG_OK;
}

bg_err foreign_check_java_words(uint32_t words, uint64_t offset, bg_errinfo *info)
{
    return words && words <= INT32_MAX
               ? BG_OK
               : foreign_refuse(info, offset, "words", "1 to 2^31 - 1", "%u", words);
}

bg_err foreign_make_java(const struct foreign_format *format, uint32_t version,
                         struct foreign_size size, uint64_t input,
                         const bg_foreign_options *options, bg_foreign **foreign,
                         bg_errinfo *info)
{
    const struct foreign_part part = { .bits = (uint64_t)size.words * 64,
                                       .bytes = (uint64_t)size.words * 8,
                                       .k = size.k };
    const bg_err err =
        foreign_make_bloom(format, options, &part, 0, input, foreign, info);
    if (!err) {
        (*foreign)->version = version;
    }
    return err;
}
