/*
 * foreign_bip158.c - Bitcoin's compact block filters: a Golomb-coded set, not an array of bits.
 *
 * Idea. Items are hashed to values from 0 to N M - 1, with M = 784931, and the values are sorted.
 * The differences between consecutive values are Golomb-Rice coded with P = 19: the quotient is
 * written in unary (ones followed by a zero), and the remainder follows as 19 bits, most
 * significant bit first. This encoding takes about 21 bits per item for a false-positive rate of 1
 * in M, compared with 28 bits for a plain Bloom filter. The disadvantage is that a lookup must
 * decode items. In this implementation, a lookup decodes at most BIP158_STEP items, starting at one
 * of the positions that were recorded when the filter was read.
 *
 *     compactsize N | code, padded with zero bits to whole bytes
 *
 * The hash is SipHash-2-4. Its 16-byte key, which is the first 16 bytes of the block hash, must
 * be passed in bg_foreign_options.secret.
 *
 * Reading. N is first checked against the size of the input, because every item takes at least 20
 * bits. The whole code is then decoded once. Values of N M or above, nonzero bits after the last
 * item, and incomplete codes are rejected. The filter keeps the encoded bytes and, for every 64
 * items, a recorded position.
 *
 * Writing. N is known only after all items have been added, so hashes are collected in a table. The
 * home position of a hash, at or after which the hash is stored, is proportional to its value. A
 * new hash shifts the larger hashes after it up by one position. So the table is always sorted, and
 * duplicates are found on insertion. After the home positions, there is space for as many items as
 * the table can hold, so insertions never wrap around.
 *
 * Source: BIP 158, "basic" filters.
 */
#include "base/bits.h"
#include "base/checked.h"
#include "hash/siphash.h"
#include "store/foreign/foreign.h"

#include <string.h>

#define BIP158_M UINT64_C(784931)

enum {
    BIP158_P = 19,
    BIP158_STEP = 64, /* number of items between two recorded positions */
    /* The size of a recorded position, which consists of the value of the previous item and the
     * offset of the next item's first bit. */
    BIP158_NOTE = 16,
    BIP158_TABLE_MIN = 64
};

/* extra[] holds the offset of the code in `bytes`, its length in bytes, and N; for a table, it
 * also holds the number of home positions (without the space after them). */
enum { BIP158_CODE = 0, BIP158_LENGTH = 1, BIP158_ITEMS = 2, BIP158_PLACES = 3 };

static uint64_t bip158_hash(const bg_foreign *f, const void *key, size_t len)
{
    const bgi_siphash_key secret = { bgi_load_le64(f->secret),
                                     bgi_load_le64(f->secret + 8) };
    return bgi_siphash(BGI_SIPHASH_24, secret, key, len);
}

static bool bip158_is_table(const bg_foreign *f)
{
    return f->extra[BIP158_PLACES] != 0;
}

/* ---- Code -------------------------------------------------------------------------- */

struct bip158_code {
    const unsigned char *bytes;
    uint64_t bits, at;
};

static unsigned bip158_bit(struct bip158_code *code)
{
    unsigned bit = code->bytes[code->at / 8] >> (7 - code->at % 8) & 1;
    code->at++;
    return bit;
}

/* Decodes the next difference and adds it to a value. Returns false if the code ends before the
 * difference is complete. */
static bool bip158_next(struct bip158_code *code, uint64_t *value)
{
    uint64_t quotient = 0, rest = 0;
    while (code->at < code->bits && bip158_bit(code)) {
        quotient++;
    }
    if (code->bits - code->at < BIP158_P) {
        return false;
    }
    for (unsigned i = 0; i < BIP158_P; i++) {
        rest = rest << 1 | bip158_bit(code);
    }
    *value += (quotient << BIP158_P) + rest;
    return true;
}

/* ---- Reading ----------------------------------------------------------------------- */

/* Reads N, which must have the shortest possible encoding. */
static bool bip158_count(struct foreign_input *input, uint64_t *items)
{
    const unsigned char *p = foreign_take(input, 1);
    if (!p || *p < 0xfd) {
        *items = p ? *p : 0;
        return p != NULL;
    }
    const unsigned bytes = 2u << (*p - 0xfd);
    p = foreign_take(input, bytes);
    if (!p) {
        return false;
    }
    *items = 0;
    for (unsigned i = bytes; i-- > 0;) {
        *items = *items << 8 | p[i];
    }
    return bytes == 2 ? *items >= 0xfd : *items >> (4 * bytes) != 0;
}

/* Decodes all items and records positions. Returns false if the code does not contain N
 * items. */
static bool bip158_note(bg_foreign *f)
{
    struct bip158_code code = { f->bytes + f->extra[BIP158_CODE],
                                8 * f->extra[BIP158_LENGTH], 0 };
    const uint64_t items = f->extra[BIP158_ITEMS], range = items * BIP158_M;
    uint64_t value = 0;
    for (uint64_t i = 0; i < items; i++) {
        if (i % BIP158_STEP == 0) {
            unsigned char *note = f->bytes + i / BIP158_STEP * BIP158_NOTE;
            bgi_store_le64(note, value);
            bgi_store_le64(note + 8, code.at);
        }
        if (!bip158_next(&code, &value) || value >= range) {
            return false;
        }
    }
    if (code.bits - code.at >= 8) {
        return false;
    }
    while (code.at < code.bits) {
        if (bip158_bit(&code)) {
            return false;
        }
    }
    return true;
}

static bg_err bip158_secret(const bg_foreign_options *options, bg_errinfo *info)
{
    return options->secret ? BG_OK
                           : bgi_err(info, BG_EINVAL, "secret",
                                     "the first 16 bytes of the block hash", "NULL");
}

static bg_err bip158_read(struct foreign_input input, const bg_foreign_options *options,
                          bg_foreign **foreign, bg_errinfo *info)
{
    uint64_t items;
    bg_foreign *f;
    bg_err err = bip158_secret(options, info);
    if (err) {
        return err;
    }
    if (!bip158_count(&input, &items)) {
        return foreign_refuse(info, 0, "N", "a compactsize in its shortest encoding",
                              "an invalid compactsize");
    }
    const uint64_t length = input.n - input.at;
    if (items > length * 8 / (BIP158_P + 1)) {
        return foreign_refuse(info, 0, "N",
                              "at most one item per 20 bits of encoded data", "%llu",
                              (unsigned long long)items);
    }
    const uint64_t notes = (items + BIP158_STEP - 1) / BIP158_STEP * BIP158_NOTE;
    err = foreign_make(&foreign_bip158, options, 1, notes + length,
                       input.n + BIP158_NOTE, &f, info);
    if (err) {
        return err;
    }
    f->extra[BIP158_CODE] = notes;
    f->extra[BIP158_LENGTH] = length;
    f->extra[BIP158_ITEMS] = items;
    if (length) {
        memcpy(f->bytes + notes, input.bytes + input.at, (size_t)length);
    }
    if (!bip158_note(f)) {
        bg_foreign_free(f);
        return foreign_refuse(info, input.at, "code", "N sorted values below N * M",
                              "%llu bytes", (unsigned long long)length);
    }
    *foreign = f;
    return BG_OK;
}

/* Returns the last recorded position whose value is below `value`, or the first position if
 * there is none. */
static uint64_t bip158_find(const bg_foreign *f, uint64_t value)
{
    uint64_t low = 0, high = (f->extra[BIP158_ITEMS] - 1) / BIP158_STEP + 1;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (bgi_load_le64(f->bytes + middle * BIP158_NOTE) < value) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool bip158_code_has(const bg_foreign *f, uint64_t hash)
{
    const uint64_t items = f->extra[BIP158_ITEMS];
    if (items == 0) {
        return false;
    }
    const uint64_t wanted = bgi_mulhi(hash, items * BIP158_M);
    const uint64_t place = bip158_find(f, wanted);
    const unsigned char *note = f->bytes + place * BIP158_NOTE;
    uint64_t value = bgi_load_le64(note);
    struct bip158_code code = { f->bytes + f->extra[BIP158_CODE],
                                8 * f->extra[BIP158_LENGTH], bgi_load_le64(note + 8) };
    for (uint64_t i = place * BIP158_STEP; i < items; i++) {
        if (!bip158_next(&code, &value) || value >= wanted) {
            return value == wanted;
        }
    }
    return false;
}

/* ---- The table --------------------------------------------------------------------- */

/* Empty places are 0. A hash of 0 is stored as 1, which maps to the same value. */
static uint64_t bip158_kept(uint64_t hash)
{
    return hash ? hash : 1;
}

static uint64_t bip158_at(const bg_foreign *f, uint64_t place)
{
    return bgi_load_le64(f->bytes + 8 * place);
}

/* Returns the position of a hash, or the position at which to insert it. The last position of the
 * table is always empty. */
static uint64_t bip158_place(const bg_foreign *f, uint64_t hash)
{
    uint64_t place = bgi_mulhi(hash, f->extra[BIP158_PLACES]);
    while (bip158_at(f, place) != 0 && bip158_at(f, place) < hash) {
        place++;
    }
    return place;
}

static bool bip158_has(const bg_foreign *f, const void *key, size_t len)
{
    const uint64_t hash = bip158_hash(f, key, len);
    if (!bip158_is_table(f)) {
        return bip158_code_has(f, hash);
    }
    const uint64_t kept = bip158_kept(hash);
    return bip158_at(f, bip158_place(f, kept)) == kept;
}

static void bip158_insert(bg_foreign *f, uint64_t hash)
{
    uint64_t place = bip158_place(f, hash), here;
    if (bip158_at(f, place) == hash) {
        return;
    }
    f->extra[BIP158_ITEMS]++;
    do { /* larger hashes move up by one position */
        here = bip158_at(f, place);
        bgi_store_le64(f->bytes + 8 * place, hash);
        hash = here;
        place++;
    } while (hash != 0);
}

/* Computes the size of a table: two home positions per item, then space for all items, and
 * one position that stays empty. */
static bool bip158_table_bytes(uint64_t items, uint64_t *places, uint64_t *bytes)
{
    return bgi_mul_u64(items, 2, places) && bgi_mul_u64(items, 24, bytes)
           && bgi_add_u64(*bytes, 8, bytes);
}

static bg_err bip158_create(uint64_t items, double rate,
                            const bg_foreign_options *options, bg_foreign **foreign,
                            bg_errinfo *info)
{
    uint64_t places, bytes;
    bg_err err = bip158_secret(options, info);
    if (err) {
        return err;
    }
    if (rate < 1 / (double)BIP158_M) {
        return bgi_err(info, BG_EINVAL, "rate",
                       "at least 1/784931, the fixed rate of BIP 158 filters", "%g",
                       rate);
    }
    items = items < BIP158_TABLE_MIN ? BIP158_TABLE_MIN : items;
    if (!bip158_table_bytes(items, &places, &bytes)) {
        return bgi_err(info, BG_EINVAL, "items", "a smaller number", "%llu",
                       (unsigned long long)items);
    }
    err = foreign_make(&foreign_bip158, options, 1, bytes, 0, foreign, info);
    if (!err) {
        (*foreign)->extra[BIP158_PLACES] = places;
    }
    return err;
}

/*
 * Doubles the table. The old table is moved to the end of the new table, and its hashes are
 * inserted from there, smallest first. If the old table was sized for N items, the hash at its
 * position p is moved to 3 N + p, and its final position is at most 2 N + p. So an insertion never
 * overwrites a hash that has not been read yet.
 */
static bg_err bip158_grow(bg_foreign *f, bg_errinfo *info)
{
    const uint64_t before = f->size;
    uint64_t places, bytes;
    if (!bip158_table_bytes(f->extra[BIP158_PLACES], &places, &bytes)) {
        return bgi_err_state(info, BG_EFULL, "items",
                             "the filter cannot hold more than %llu items",
                             (unsigned long long)f->extra[BIP158_ITEMS]);
    }
    bg_err err = foreign_grow(f, 1, bytes, info);
    if (err) {
        return err;
    }
    memmove(f->bytes + (bytes - before), f->bytes, (size_t)before);
    memset(f->bytes, 0, (size_t)(bytes - before));
    f->extra[BIP158_PLACES] = places;
    f->extra[BIP158_ITEMS] = 0;
    for (uint64_t place = (bytes - before) / 8; place < bytes / 8; place++) {
        uint64_t hash = bip158_at(f, place);
        if (hash) {
            bgi_store_le64(f->bytes + 8 * place, 0);
            bip158_insert(f, hash);
        }
    }
    return BG_OK;
}

static bg_err bip158_add(bg_foreign *f, const void *key, size_t len, bg_errinfo *info)
{
    if (!bip158_is_table(f)) {
        return bgi_err_state(
            info, BG_ENOTSUP, "filter",
            "cannot add keys to a loaded bip158 filter, because the format does not store "
            "the hashes of the keys; create a new filter");
    }
    if (f->extra[BIP158_ITEMS] == f->extra[BIP158_PLACES] / 2) {
        bg_err err = bip158_grow(f, info);
        if (err) {
            return err;
        }
    }
    bip158_insert(f, bip158_kept(bip158_hash(f, key, len)));
    return BG_OK;
}

/* ---- Writing ----------------------------------------------------------------------- */

/* Returns the number of bytes after the first byte in the encoding of N. */
static unsigned bip158_count_bytes(uint64_t items)
{
    return items < 0xfd ? 0 : items <= 0xffff ? 2 : items <= UINT32_MAX ? 4 : 8;
}

static uint64_t bip158_write_count(uint64_t items, unsigned char *to)
{
    const unsigned bytes = bip158_count_bytes(items);
    to[0] = (unsigned char)(bytes == 0   ? items
                            : bytes == 2 ? 0xfd
                            : bytes == 4 ? 0xfe
                                         : 0xff);
    for (unsigned i = 0; i < bytes; i++) {
        to[1 + i] = (unsigned char)(items >> 8 * i);
    }
    return 1 + bytes;
}

static void bip158_put_bits(unsigned char *to, uint64_t at, uint64_t value,
                            unsigned bits)
{
    for (unsigned i = 0; i < bits; i++) {
        to[(at + i) / 8] |=
            (unsigned char)((value >> (bits - 1 - i) & 1) << (7 - (at + i) % 8));
    }
}

/* Encodes the table into `to`, which must be zeroed, and returns the number of bits. If `to` is
 * NULL, only counts the bits. */
static uint64_t bip158_encode(const bg_foreign *f, unsigned char *to)
{
    const uint64_t range = f->extra[BIP158_ITEMS] * BIP158_M;
    uint64_t at = 0, last = 0;
    for (uint64_t place = 0; place < f->size / 8; place++) {
        uint64_t hash = bip158_at(f, place);
        if (hash == 0) {
            continue;
        }
        uint64_t value = bgi_mulhi(hash, range), quotient = (value - last) >> BIP158_P;
        for (uint64_t i = 0; to && i < quotient; i++) {
            bip158_put_bits(to, at + i, 1, 1);
        }
        at += quotient + 1;
        if (to) {
            bip158_put_bits(to, at, value - last, BIP158_P);
        }
        at += BIP158_P;
        last = value;
    }
    return at;
}

static uint64_t bip158_code_bytes(const bg_foreign *f)
{
    return bip158_is_table(f) ? (bip158_encode(f, NULL) + 7) / 8
                              : f->extra[BIP158_LENGTH];
}

static uint64_t bip158_written(const bg_foreign *f)
{
    return 1 + bip158_count_bytes(f->extra[BIP158_ITEMS]) + bip158_code_bytes(f);
}

static void bip158_write(const bg_foreign *f, unsigned char *to)
{
    const uint64_t length = bip158_code_bytes(f);
    to += bip158_write_count(f->extra[BIP158_ITEMS], to);
    if (bip158_is_table(f)) {
        memset(to, 0, (size_t)length);
        (void)bip158_encode(f, to);
    } else {
        memcpy(to, f->bytes + f->extra[BIP158_CODE], (size_t)length);
    }
}

static void bip158_about(const bg_foreign *f, bg_foreign_info *about)
{
    about->items = f->extra[BIP158_ITEMS];
    about->bits = 8 * bip158_code_bytes(f);
    about->rate = about->items ? 1 / (double)BIP158_M : 0;
}

const struct foreign_format foreign_bip158 = {
    .id = BG_FOREIGN_BIP158,
    .name = "bip158",
    .traits = BG_FOREIGN_CAN_WRITE | BG_FOREIGN_CAN_CREATE,
    .read = bip158_read,
    .create = bip158_create,
    .has = bip158_has,
    .add = bip158_add,
    .written = bip158_written,
    .write = bip158_write,
    .about = bip158_about,
};
