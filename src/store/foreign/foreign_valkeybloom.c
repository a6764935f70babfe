/*
 * foreign_valkeybloom.c - the filters of valkey-bloom, in the format of its BF.LOAD command.
 *
 * A file contains the second argument of BF.LOAD, a command that valkey-bloom writes to append-only
 * files. All numbers are little-endian.
 *
 *     u8 version 1 | u32 expansion | f64 rate | f64 tightening | u8 random seed | u64 filters
 *     each filter:   u64 length | bloom | i64 items | i64 capacity
 *     bloom:         u8 version 1 | u64 bytes | u32 k | seed (32 bytes) | bits
 *
 * `length` is the length of `bloom`: 45 plus `bytes`. The seed consists of two SipHash-1-3 secrets
 * and is the same in all filters of an object. The hashed bytes are the length of the key, as 8
 * bytes, followed by the key. The first two positions are the two hashes h0 and h1, and position i,
 * for i >= 2, is (h0 + i h1 modulo 2^64) modulo 2^64 - 59. Each position is then taken modulo the
 * number of bits.
 *
 * An object grows by adding filters, each with `expansion` times the capacity of the previous
 * one. Filter n, counted from 0, has a rate of `rate` times tightening^n. An object with expansion
 * 0 does not grow and can become full. A key is added to the last filter if no filter may contain
 * it. bg_foreign_add does the same, but no filter has more than FOREIGN_GROWTH_MAX times the bytes
 * of the previous one, because expansions can be up to 2^32.
 *
 * In memory, a part's `own` is the tightening, extra[] is the seed, and `seed` is the expansion,
 * with bit 32 set if the seed was random.
 *
 * Invariants (of the input)
 *   (I1) the input contains the bytes of all filters, which is checked before memory is allocated;
 *        nothing follows the last filter
 *   (I2) rate and tightening are above 0 and below 1, and no filter's rate underflows
 *   (I3) k is from 1 to FOREIGN_K_MAX, and every filter has at least one byte
 *   (I4) all filters have the same seed
 *   (I5) a filter has the number of bytes that its capacity requires
 */
#include "base/checked.h"
#include "store/foreign/foreign_bloom.h"
#include "store/foreign/foreign_hashes.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    VALKEY_HEADER = 1 + 4 + 8 + 8 + 1 + 8,
    VALKEY_BLOOM = 1 + 8 + 4 + 32,           /* size of `bloom` without its bits */
    VALKEY_FRAME = 8 + VALKEY_BLOOM + 8 + 8, /* size of a filter without its bits */
    VALKEY_SEED = 13,                        /* offset in `bloom` */
    VALKEY_RANDOM = 1                        /* bit 32 of `seed` */
};

/* ---- Sizes -------------------------------------------------------------------------- */

/* Returns the rate of filter n, multiplying in the same order as Rust's powi. */
static double valkey_rate(double rate, double tightening, uint32_t n)
{
    double power = 1;
    for (;; tightening *= tightening) {
        power *= n & 1 ? tightening : 1;
        n /= 2;
        if (n == 0) {
            return rate * power;
        }
    }
}

static double valkey_bytes(uint64_t capacity, double rate)
{
    const double ln2 = 0.69314718055994530942;
    return ceil((double)capacity * log(rate) / (-8.0 * (ln2 * ln2)));
}

/* Computes the properties of a filter for `capacity` keys. Returns false if no such filter is
 * possible. */
static bool valkey_solve(uint64_t capacity, double rate, double tightening,
                         struct foreign_part *part)
{
    uint64_t bytes;
    if (!(rate > DBL_MIN) || !bgi_u64_from_double(valkey_bytes(capacity, rate), &bytes)
        || bytes == 0 || bytes > UINT64_MAX / 8) {
        return false;
    }
    const double k =
        round((double)(8 * bytes) / (double)capacity * 0.69314718055994530942);
    if (k > FOREIGN_K_MAX) {
        return false;
    }
    *part = (struct foreign_part){ .bits = 8 * bytes,
                                   .bytes = bytes,
                                   .design = capacity,
                                   .rate = rate,
                                   .own = tightening,
                                   .k = k < 1 ? 1 : (uint32_t)k };
    return true;
}

/* ---- Reading ------------------------------------------------------------------------- */

/* The fields of a header, and the seed of the first filter. */
struct valkey_head {
    double rate, tightening;
    uint64_t filters;
    uint32_t expansion;
    bool random;
    const unsigned char *seed;
};

static bg_err valkey_head(struct foreign_input *input,
                          const bg_foreign_options *options, struct valkey_head *head,
                          bg_errinfo *info)
{
    const unsigned char *p = foreign_header(input, VALKEY_HEADER, info);
    if (!p) {
        return BG_EFORMAT;
    }
    bg_err err = foreign_check_version(options, p[0], info);
    if (err || p[0] != 1) {
        return err ? err
                   : bgi_err(info, BG_EVERSION, "version", "1", "%u", (unsigned)p[0]);
    }
    *head = (struct valkey_head){ .expansion = bgi_load_le32(p + 1),
                                  .rate = foreign_le_double(p + 5),
                                  .tightening = foreign_le_double(p + 13),
                                  .random = p[21] != 0,
                                  .filters = bgi_load_le64(p + 22) };
    if (!(head->rate > 0 && head->rate < 1)) {
        return foreign_refuse(info, 5, "rate", "above 0 and below 1", "%g", head->rate);
    }
    if (!(head->tightening > 0 && head->tightening < 1)) {
        return foreign_refuse(info, 13, "tightening", "above 0 and below 1", "%g",
                              head->tightening);
    }
    if (p[21] > 1) {
        return foreign_refuse(info, 21, "random seed", "0 or 1", "%u", (unsigned)p[21]);
    }
    if (head->filters == 0 || head->filters > FOREIGN_PARTS_MAX
        || head->filters > (input->n - input->at) / VALKEY_FRAME) {
        return foreign_refuse(
            info, 22, "filters",
            "1 to 65536, and at most the number that fits into the input", "%llu",
            (unsigned long long)head->filters);
    }
    return BG_OK;
}

/* Checks the numeric fields of a filter. */
static bg_err valkey_check_part(const struct foreign_part *part, uint64_t items,
                                size_t at, bg_errinfo *info)
{
    if (!(part->rate > DBL_MIN)) {
        return foreign_refuse(info, at, "rate of a layer", "above 0", "%g", part->rate);
    }
    if (items > INT64_MAX) {
        return foreign_refuse(info, at, "items of a layer", "at most 2^63 - 1", "%llu",
                              (unsigned long long)items);
    }
    if (part->design == 0 || part->design > INT64_MAX
        || valkey_bytes(part->design, part->rate) > (double)part->bytes + 2) {
        return foreign_refuse(info, at, "capacity of a layer",
                              "at least 1, and at most the number that fits into the "
                              "bits",
                              "%llu", (unsigned long long)part->design);
    }
    return BG_OK;
}

/* Reads the next filter, and sets *bits to the address of its bits. */
static bg_err valkey_part(struct foreign_input *input, struct valkey_head *head,
                          uint32_t n, struct foreign_part *part,
                          const unsigned char **bits, bg_errinfo *info)
{
    const size_t at = input->at;
    const unsigned char *p = foreign_take(input, 8 + VALKEY_BLOOM);
    const uint64_t bytes = p ? bgi_load_le64(p + 9) : 0;
    if (!p || bytes == 0 || bytes > input->n - input->at
        || bgi_load_le64(p) != VALKEY_BLOOM + bytes) {
        return foreign_refuse(info, at, "length of a layer",
                              "45 plus the size of the bits that follow", "%llu",
                              (unsigned long long)(p ? bgi_load_le64(p) : 0));
    }
    if (p[8] != 1) {
        return bgi_err(info, BG_EVERSION, "version of a layer", "1", "%u",
                       (unsigned)p[8]);
    }
    const unsigned char *seed = p + 8 + VALKEY_SEED;
    head->seed = head->seed ? head->seed : seed;
    if (memcmp(seed, head->seed, 32) != 0) {
        return foreign_refuse(info, at + 8 + VALKEY_SEED, "seed of a layer",
                              "the same seed as in the first layer",
                              "a different seed");
    }
    const bg_err err = foreign_check_k(bgi_load_le32(p + 17), at + 17, info);
    if (err) {
        return err;
    }
    *bits = foreign_take(input, bytes);
    const size_t counts = input->at;
    const unsigned char *q = foreign_take(input, 16);
    if (!*bits || !q) {
        return foreign_refuse(info, counts, "items and capacity of a layer", "16 bytes",
                              "fewer bytes");
    }
    *part = (struct foreign_part){ .bits = 8 * bytes,
                                   .bytes = bytes,
                                   .items = bgi_load_le64(q),
                                   .design = bgi_load_le64(q + 8),
                                   .rate = valkey_rate(head->rate, head->tightening, n),
                                   .own = head->tightening,
                                   .k = bgi_load_le32(p + 17) };
    return valkey_check_part(part, part->items, counts, info);
}

/* Reads all filters and sums up their bytes. If `f` is not NULL, also copies the filters to `f`. */
static bg_err valkey_parts(struct foreign_input input, struct valkey_head *head,
                           bg_foreign *f, uint64_t *all, bg_errinfo *info)
{
    *all = 0;
    for (uint32_t i = 0; i < head->filters; i++) {
        struct foreign_part part = { 0 };
        const unsigned char *bits = NULL;
        const bg_err err = valkey_part(&input, head, i, &part, &bits, info);
        if (err || !bits) {
            return err;
        }
        part.offset = *all;
        *all += part.bytes; /* at most the size of the input */
        if (f) {
            f->parts[i] = part;
            memcpy(f->bytes + part.offset, bits, (size_t)part.bytes);
        }
    }
    if (input.at < input.n) {
        return foreign_refuse(info, input.at, "end", "no bytes after the last layer",
                              "%zu bytes", input.n - input.at);
    }
    return BG_OK;
}

static void valkey_adopt(bg_foreign *f, const struct valkey_head *head)
{
    f->version = 1;
    f->seed = head->expansion | (uint64_t)head->random << 32;
    for (int i = 0; i < 4; i++) {
        f->extra[i] = bgi_load_le64(head->seed + 8 * (size_t)i);
    }
}

static bg_err valkey_read(struct foreign_input input, const bg_foreign_options *options,
                          bg_foreign **foreign, bg_errinfo *info)
{
    struct valkey_head head = { 0 };
    uint64_t bytes = 0;
    bg_foreign *f = NULL;
    bg_err err = valkey_head(&input, options, &head, info);
    err = err ? err : valkey_parts(input, &head, NULL, &bytes, info);
    err = err ? err
              : foreign_make(&foreign_valkeybloom, options, (uint32_t)head.filters,
                             bytes, input.n, &f, info);
    err = err ? err : valkey_parts(input, &head, f, &bytes, info);
    if (err) {
        bg_foreign_free(f);
        return err;
    }
    valkey_adopt(f, &head);
    *foreign = f;
    return BG_OK;
}

/* ---- Keys ----------------------------------------------------------------------------- */

static void valkey_positions(const bg_foreign *f, const struct foreign_part *part,
                             const void *key, size_t len, uint64_t *to)
{
    const uint64_t h0 = foreign_siphash13_rust(key, len, f->extra),
                   h1 = foreign_siphash13_rust(key, len, f->extra + 2);
    for (uint32_t i = 0; i < part->k; i++) {
        const uint64_t h = i == 0   ? h0
                           : i == 1 ? h1
                                    : (h0 + i * h1) % UINT64_C(0xffffffffffffffc5);
        to[i] = h % part->bits;
    }
}

/* Expands a 64-bit seed into 256 bits. The result is not a secret, but different seeds give
 * different results. */
static void valkey_seed(uint64_t seed, uint64_t to[4])
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        to[i] = z ^ z >> 31;
    }
}

static bg_err valkey_create(uint64_t items, double rate,
                            const bg_foreign_options *options, bg_foreign **foreign,
                            bg_errinfo *info)
{
    struct foreign_part part;
    bg_err err = foreign_check_version(options, 1, info);
    if (err) {
        return err;
    }
    if (!valkey_solve(items, rate, 0.5, &part)) {
        return bgi_err_state(
            info, BG_EINVAL, "items, rate",
            "a filter for %llu items with a rate of %g is too large, or "
            "needs more than 256 hashes",
            (unsigned long long)items, rate);
    }
    err = foreign_make(&foreign_valkeybloom, options, 1, part.bytes, 0, foreign, info);
    if (!err) {
        (*foreign)->parts[0] = part;
        (*foreign)->version = 1;
        valkey_seed(options->seed, (*foreign)->extra);
        (*foreign)->seed = 2 | (uint64_t)VALKEY_RANDOM << 32;
    }
    return err;
}

static bg_err valkey_grow(bg_foreign *f, bg_errinfo *info)
{
    const struct foreign_part *last = &f->parts[f->count - 1];
    const uint32_t expansion = (uint32_t)f->seed;
    struct foreign_part part;
    uint64_t bytes;
    if (expansion == 0) {
        return bgi_err_state(info, BG_EFULL, "filter",
                             "the filter is full (%llu items) and cannot grow",
                             (unsigned long long)last->items);
    }
    const double rate = valkey_rate(f->parts[0].rate, last->own, f->count);
    const uint64_t capacity =
        foreign_next_items(last, expansion, foreign_ideal_bits(1, rate));
    if (capacity > INT64_MAX || !valkey_solve(capacity, rate, last->own, &part)
        || !bgi_add_u64(f->size, part.bytes, &bytes) || f->count == FOREIGN_PARTS_MAX) {
        return bgi_err_state(info, BG_EFULL, "filter",
                             "the filter is full and cannot grow beyond %u layers",
                             f->count);
    }
    part.offset = f->size;
    const bg_err err = foreign_grow(f, f->count + 1, bytes, info);
    if (!err) {
        f->parts[f->count - 1] = part;
    }
    return err;
}

static bg_err valkey_add(bg_foreign *f, const void *key, size_t len, bg_errinfo *info)
{
    if (bg_foreign_may_contain(f, key, len)) {
        return BG_OK;
    }
    if (f->parts[f->count - 1].items >= f->parts[f->count - 1].design) {
        const bg_err err = valkey_grow(f, info);
        if (err) {
            return err;
        }
    }
    struct foreign_part *part = &f->parts[f->count - 1];
    (void)foreign_part_add(f, part, key, len);
    part->items++;
    return BG_OK;
}

/* ---- Writing -------------------------------------------------------------------------- */

static uint64_t valkey_written(const bg_foreign *f)
{
    return VALKEY_HEADER + (uint64_t)VALKEY_FRAME * f->count + f->size;
}

static unsigned char *valkey_write_part(const bg_foreign *f,
                                        const struct foreign_part *part,
                                        unsigned char *to)
{
    bgi_store_le64(to, VALKEY_BLOOM + part->bytes);
    to[8] = 1;
    bgi_store_le64(to + 9, part->bytes);
    bgi_store_le32(to + 17, part->k);
    for (size_t i = 0; i < 4; i++) {
        bgi_store_le64(to + 8 + VALKEY_SEED + 8 * i, f->extra[i]);
    }
    to += 8 + VALKEY_BLOOM;
    memcpy(to, f->bytes + part->offset, (size_t)part->bytes);
    to += part->bytes;
    bgi_store_le64(to, part->items);
    bgi_store_le64(to + 8, part->design);
    return to + 16;
}

static void valkey_write(const bg_foreign *f, unsigned char *to)
{
    to[0] = 1;
    bgi_store_le32(to + 1, (uint32_t)f->seed);
    foreign_put_le_double(to + 5, f->parts[0].rate);
    foreign_put_le_double(to + 13, f->parts[0].own);
    to[21] = (unsigned char)(f->seed >> 32);
    bgi_store_le64(to + 22, f->count);
    to += VALKEY_HEADER;
    for (uint32_t i = 0; i < f->count; i++) {
        to = valkey_write_part(f, &f->parts[i], to);
    }
}

const struct foreign_format foreign_valkeybloom = {
    .id = BG_FOREIGN_VALKEYBLOOM,
    .name = "valkeybloom",
    .traits = BG_FOREIGN_CAN_WRITE | BG_FOREIGN_CAN_CREATE,
    .read = valkey_read,
    .create = valkey_create,
    .positions = valkey_positions,
    .add = valkey_add,
    .written = valkey_written,
    .write = valkey_write,
};
