/*
 * foreign_dcso.c - the format of github.com/DCSO/bloom and its `bloom` program.
 *
 *     u64 flags | u64 n | f64 p | u64 k | u64 m | u64 N | ceil(m / 64) x u64 | data
 *     little-endian
 *
 * The low byte of `flags` is the version, 1. n and p are the design capacity and rate, and N is
 * the number of added keys that changed a bit. User data follows the bits. It is preserved when a
 * filter is read and written again. The `bloom` program also reads gzip files. Here, such files
 * must be decompressed before they are read.
 *
 * To compute the positions, the FNV-1 hash of the key, modulo the prime P, is multiplied k times
 * by G (modulo 2^64, then modulo P). Each product modulo m is a position.
 */
#include "store/foreign/foreign_bloom.h"
#include "store/foreign/foreign_hashes.h"

#include "base/checked.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DCSO_HEADER = 48, DCSO_DATA = 0 /* index of the user data's size in extra[] */ };

static void dcso_positions(const bg_foreign *foreign, const struct foreign_part *part,
                           const void *key, size_t len, uint64_t *to)
{
    const uint64_t prime = 18446744073709551557u, factor = 18446744073709550147u;
    uint64_t h = foreign_fnv1_64(key, len) % prime;
    (void)foreign;
    for (uint32_t i = 0; i < part->k; i++) {
        h = h * factor % prime;
        to[i] = h % part->bits;
    }
}

static bg_err dcso_add(bg_foreign *foreign, const void *key, size_t len,
                       bg_errinfo *info)
{
    struct foreign_part *part = &foreign->parts[0];
    (void)info;
    part->items += foreign_part_add(foreign, part, key, len);
    return BG_OK;
}

/* Checks the header fields that can be checked without the size of the file. */
static bg_err dcso_check(const unsigned char *header, bg_errinfo *info)
{
    const uint64_t flags = bgi_load_le64(header);
    const double rate = foreign_le_double(header + 16);
    if (header[0] == 0x1f && header[1] == 0x8b) {
        return foreign_refuse(info, 0, "flags", "an uncompressed filter", "gzip");
    }
    if (flags != 1) {
        (void)foreign_refuse(info, 0, "version", "1", "%llu",
                             (unsigned long long)flags);
        if (info) {
            info->code = BG_EVERSION;
        }
        return BG_EVERSION;
    }
    if (!(rate > 0 && rate < 1)) {
        return foreign_refuse(info, 16, "p", "above 0 and below 1", "%g", rate);
    }
    if (bgi_load_le64(header + 32) == 0) {
        return foreign_refuse(info, 32, "m", "at least 1", "0");
    }
    return foreign_check_k(bgi_load_le64(header + 24), 24, info);
}

static bg_err dcso_read(struct foreign_input input, const bg_foreign_options *options,
                        bg_foreign **foreign, bg_errinfo *info)
{
    const unsigned char *header = foreign_header(&input, DCSO_HEADER, info);
    bg_err err = header ? dcso_check(header, info) : BG_EFORMAT;
    if (err) {
        return err;
    }
    const uint64_t m = bgi_load_le64(header + 32);
    const struct foreign_part part = { .bits = m,
                                       .bytes = foreign_words(m) * 8,
                                       .k = (uint32_t)bgi_load_le64(header + 24),
                                       .design = bgi_load_le64(header + 8),
                                       .rate = foreign_le_double(header + 16),
                                       .items = bgi_load_le64(header + 40) };
    const unsigned char *bits = foreign_take(&input, part.bytes);
    const uint64_t data = input.n - input.at;
    if (!bits) {
        char expected[48];
        (void)snprintf(expected, sizeof expected, "at least %llu bytes",
                       (unsigned long long)part.bytes);
        return foreign_refuse(info, DCSO_HEADER, "bits", expected, "%llu bytes",
                              (unsigned long long)data);
    }
    err =
        foreign_make_bloom(&foreign_dcso, options, &part, data, input.n, foreign, info);
    if (err) {
        return err;
    }
    memcpy((*foreign)->bytes, bits, (size_t)(part.bytes + data));
    (*foreign)->version = 1;
    (*foreign)->extra[DCSO_DATA] = data;
    return foreign_check_padding(foreign, DCSO_HEADER, info);
}

static bg_err dcso_create(uint64_t items, double rate,
                          const bg_foreign_options *options, bg_foreign **foreign,
                          bg_errinfo *info)
{
    const double ideal = floor(foreign_ideal_bits(items, rate));
    const double k = ceil(log(2) * ideal / (double)items);
    uint64_t m;
    if (!bgi_u64_from_double(ideal, &m) || k > FOREIGN_K_MAX) {
        return foreign_too_large(ideal, info);
    }
    m = m ? m : 1; /* for m = 0, DCSO creates a filter with no bits and k = 0 */
    const struct foreign_part part = { .bits = m,
                                       .bytes = foreign_words(m) * 8,
                                       .k = k < 1 ? 1 : (uint32_t)k,
                                       .design = items,
                                       .rate = rate };
    bg_err err = foreign_make_bloom(&foreign_dcso, options, &part, 0, 0, foreign, info);
    if (!err) {
        (*foreign)->version = 1;
    }
    return err;
}

static uint64_t dcso_written(const bg_foreign *foreign)
{
    return DCSO_HEADER + foreign->parts[0].bytes + foreign->extra[DCSO_DATA];
}

static void dcso_write(const bg_foreign *foreign, unsigned char *to)
{
    const struct foreign_part *part = &foreign->parts[0];
    bgi_store_le64(to, 1);
    bgi_store_le64(to + 8, part->design);
    foreign_put_le_double(to + 16, part->rate);
    bgi_store_le64(to + 24, part->k);
    bgi_store_le64(to + 32, part->bits);
    bgi_store_le64(to + 40, part->items);
    memcpy(to + DCSO_HEADER, foreign->bytes,
           (size_t)(part->bytes + foreign->extra[DCSO_DATA]));
}

const struct foreign_format foreign_dcso = {
    .id = BG_FOREIGN_DCSO,
    .name = "dcso",
    .traits = BG_FOREIGN_CAN_WRITE | BG_FOREIGN_CAN_CREATE,
    .read = dcso_read,
    .create = dcso_create,
    .positions = dcso_positions,
    .add = dcso_add,
    .written = dcso_written,
    .write = dcso_write,
};
