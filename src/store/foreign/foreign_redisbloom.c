/*
 * foreign_redisbloom.c - the scalable filters of RedisBloom, as dumped by BF.SCANDUMP.
 *
 * A client calls BF.SCANDUMP repeatedly, and each reply is an iterator and a string. A file
 * contains these replies in order:
 *
 *     u64 iterator | u64 length | bytes          little-endian; then the next reply
 *
 *     iterator 1       the header: u64 size | u32 links | u32 options | u32 growth, and
 *                      for each link u64 bytes | u64 bits | u64 size | f64 error |
 *                      f64 bits per entry | u32 hashes | u64 entries | u8 n2
 *     then             the bits of the links, at most 16 MiB at a time; the iterator is that
 *                      of the previous chunk plus the length, so it identifies the offset
 *     iterator 0       the end, with length 0; may be omitted, and is not written
 *
 * BF.LOADCHUNK accepts the same iterators and strings. The positions of a key are (a + i b) mod
 * bits, where a is the MurmurHash64A hash of the key with a fixed seed, and b is the hash with the
 * seed a. Links created by versions before 2.2 have sizes that are powers of two. In these links,
 * `bits` is 0 and positions are taken mod 2^n2.
 *
 * A filter is a chain of links that can grow. The first link has half the requested error rate.
 * Each further link has `growth` times the entries and half the error rate of the previous link. A
 * key is added to the last link if no link may contain it. bg_foreign_add does the same.
 *
 * Invariants, each of which prevents a known defect in other programs that load such dumps (the
 * tests use the same names):
 *   (I1) the total bytes of all links equal the total bytes of all chunks; no chunk extends
 *        beyond the end of a link
 *   (I2) either bits = 8 * bytes and bits > 0, or bits = 0, n2 > 0 and 2^n2 <= 8 * bytes
 *   (I3) the number of links matches the length of the header, and is at least one
 *   (I4) error and bits per entry are finite and in range; hashes is ceil(ln 2 * bits per entry)
 *        and at most FOREIGN_K_MAX
 *   (I5) entries times bits per entry is at most the number of bits. The bits per entry in a file
 *        can also be forged, so a new link has at most FOREIGN_GROWTH_MAX times the bytes of the
 *        last link
 *   (I6) the sizes of the links add up to the size in the header; a scalable chain of several links
 *        has a nonzero growth factor
 *
 * The decoder accepts the output of RedisBloom 2.2.1 to 8.8; see docs/foreign.md.
 */
#include "base/checked.h"
#include "store/foreign/foreign_bloom.h"
#include "store/foreign/foreign_chunks.h"
#include "store/foreign/foreign_hashes.h"

#include <math.h>
#include <string.h>

enum {
    REDIS_HEADER = 20,
    REDIS_LINK = 53,
    REDIS_CHUNK_MAX = 16 << 20,
    REDIS_GROWTH_MAX = 32768
};

/* Options of a chain. */
enum {
    REDIS_NOROUND = 1,    /* bits are not rounded to a power of two */
    REDIS_FORCE64 = 4,    /* 64-bit hashes, set by all versions since 2.0 */
    REDIS_NO_SCALING = 8, /* a single link, which can become full */
    REDIS_OPTIONS = REDIS_NOROUND | REDIS_FORCE64 | REDIS_NO_SCALING
};

/* extra[] of a filter. A part's `own` is its number of bits per entry, and its `own_small` is
 * n2. */
enum { REDIS_EXTRA_OPTIONS = 0, REDIS_EXTRA_GROWTH = 1 };

/* Sets a part's number of bits, which is the modulus for its positions. Bytes beyond these bits are
 * unused. */
static void redis_part_bits(struct foreign_part *part)
{
    part->bits = part->own_small ? (uint64_t)1 << part->own_small : 8 * part->bytes;
}

static double redis_hashes(double bits_per_entry)
{
    return ceil(0.693147180559945 * bits_per_entry);
}

/* ---- Reading ----------------------------------------------------------------------- */

/* Reads and checks the description of a link in the header. */
static bg_err redis_link(const unsigned char *p, size_t at, struct foreign_part *part,
                         bg_errinfo *info)
{
    const uint64_t bits = bgi_load_le64(p + 8);
    const uint32_t hashes = bgi_load_le32(p + 40);
    *part = (struct foreign_part){ .bytes = bgi_load_le64(p),
                                   .items = bgi_load_le64(p + 16),
                                   .rate = foreign_le_double(p + 24),
                                   .own = foreign_le_double(p + 32),
                                   .k = hashes,
                                   .design = bgi_load_le64(p + 44),
                                   .own_small = p[52] };
    if (part->bytes == 0 || part->bytes > UINT64_MAX / 8
        || bits != (part->own_small ? 0 : 8 * part->bytes)) {
        return foreign_refuse(info, at + 8, "bits of a layer",
                              "8 times the number of bytes, or 0 if n2 is set", "%llu",
                              (unsigned long long)bits);
    }
    if (part->own_small > 63 || (uint64_t)1 << part->own_small > 8 * part->bytes) {
        return foreign_refuse(info, at + 52, "n2 of a layer",
                              "at most log2 of the number of bits", "%u",
                              part->own_small);
    }
    if (!(part->rate > 0 && part->rate < 1)) {
        return foreign_refuse(info, at + 24, "error of a layer", "above 0 and below 1",
                              "%g", part->rate);
    }
    if (!(part->own > 0 && redis_hashes(part->own) <= FOREIGN_K_MAX)) {
        return foreign_refuse(info, at + 32, "bits per entry of a layer",
                              "a number above 0 that needs at most 256 hashes", "%g",
                              part->own);
    }
    if (hashes != (uint32_t)redis_hashes(part->own)) {
        return foreign_refuse(info, at + 40, "hashes of a layer",
                              "ln 2 * bits per entry, rounded up", "%u", hashes);
    }
    if (part->design == 0
        || (double)part->design * part->own > 8 * (double)part->bytes + 1) {
        return foreign_refuse(info, at + 44, "entries of a layer",
                              "at least 1, and at most the number that fits into the "
                              "bits",
                              "%llu", (unsigned long long)part->design);
    }
    redis_part_bits(part);
    return BG_OK;
}

/* Checks the header, except for the descriptions of its links, and sums up the sizes of the links
 * in bytes. */
static bg_err redis_header(const struct foreign_chunk *chunk, uint64_t *bytes,
                           bg_errinfo *info)
{
    const unsigned char *p = chunk->bytes;
    const size_t at = chunk->at + FOREIGN_CHUNK;
    if (chunk->iterator != 1 || chunk->length < REDIS_HEADER) {
        return foreign_chunk_bad(chunk, "a complete header with iterator 1", info);
    }
    const uint64_t links = bgi_load_le32(p + 8);
    const uint32_t options = bgi_load_le32(p + 12), growth = bgi_load_le32(p + 16);
    if (links == 0 || links > FOREIGN_PARTS_MAX) {
        return foreign_refuse(info, at + 8, "layers", "1 to 65536", "%llu",
                              (unsigned long long)links);
    }
    if (chunk->length != REDIS_HEADER + REDIS_LINK * links) {
        return foreign_refuse(
            info, at + 8, "layers", "the number of layers that the header describes",
            "%llu for a header of %llu bytes", (unsigned long long)links,
            (unsigned long long)chunk->length);
    }
    if (options & ~(uint32_t)REDIS_OPTIONS || !(options & REDIS_FORCE64)) {
        return foreign_refuse(info, at + 12, "options",
                              "4 (64-bit hashes), optionally combined with 1 and 8",
                              "%u", options);
    }
    if (growth > REDIS_GROWTH_MAX
        || (growth == 0 && links > 1 && !(options & REDIS_NO_SCALING))) {
        return foreign_refuse(info, at + 16, "growth",
                              "1 to 32768, or 0 for a filter with a single layer", "%u",
                              growth);
    }
    uint64_t size = 0;
    *bytes = 0;
    for (uint64_t i = 0; i < links; i++) {
        const unsigned char *link = p + REDIS_HEADER + REDIS_LINK * i;
        if (!bgi_add_u64(*bytes, bgi_load_le64(link), bytes)
            || !bgi_add_u64(size, bgi_load_le64(link + 16), &size)) {
            size = ~bgi_load_le64(p);
            break;
        }
    }
    if (size != bgi_load_le64(p)) {
        return foreign_refuse(info, at, "size",
                              "the total number of items in the layers", "%llu",
                              (unsigned long long)bgi_load_le64(p));
    }
    return BG_OK;
}

static bg_err redis_links(const struct foreign_chunk *header, bg_foreign *f,
                          bg_errinfo *info)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        const uint64_t from = REDIS_HEADER + REDIS_LINK * (uint64_t)i;
        bg_err err =
            redis_link(header->bytes + from, header->at + FOREIGN_CHUNK + (size_t)from,
                       &f->parts[i], info);
        if (err) {
            return err;
        }
        f->parts[i].offset = offset;
        offset += f->parts[i].bytes;
    }
    return BG_OK;
}

static bg_err redis_read(struct foreign_input input, const bg_foreign_options *options,
                         bg_foreign **foreign, bg_errinfo *info)
{
    struct foreign_chunk header = { 0 };
    uint64_t bytes = 0;
    if (!foreign_chunk_next(&input, &header)) {
        return foreign_chunk_bad(&header, "a complete chunk", info);
    }
    bg_err err = redis_header(&header, &bytes, info);
    if (err) {
        return err;
    }
    if (bytes > input.n - input.at) {
        return foreign_refuse(info, header.at + FOREIGN_CHUNK, "bytes of the layers",
                              "at most the number of bytes after the header", "%llu",
                              (unsigned long long)bytes);
    }
    bg_foreign *f;
    err = foreign_make(&foreign_redisbloom, options, bgi_load_le32(header.bytes + 8),
                       bytes, input.n, &f, info);
    if (err) {
        return err;
    }
    f->extra[REDIS_EXTRA_OPTIONS] = bgi_load_le32(header.bytes + 12);
    f->extra[REDIS_EXTRA_GROWTH] = bgi_load_le32(header.bytes + 16);
    err = redis_links(&header, f, info);
    if (!err) {
        err = foreign_chunks_fill(&input, f, info);
    }
    if (err) {
        bg_foreign_free(f);
        return err;
    }
    *foreign = f;
    return BG_OK;
}

/* ---- Keys -------------------------------------------------------------------------- */

static void redis_positions(const bg_foreign *f, const struct foreign_part *part,
                            const void *key, size_t len, uint64_t *to)
{
    const uint64_t a = foreign_murmur64a(key, len, UINT64_C(0xc6a4a7935bd1e995));
    const uint64_t b = foreign_murmur64a(key, len, a);
    (void)f;
    for (uint32_t i = 0; i < part->k; i++) {
        to[i] = (a + i * b) % part->bits;
    }
}

static double redis_bits_per_entry(double error)
{
    return -log(error) / 0.480453013918201;
}

/* Computes the size and the other properties of a link for a number of entries and an error rate.
 * Returns false if no such link is possible. */
static bool redis_solve(uint64_t entries, double error, struct foreign_part *part)
{
    const double bits_per_entry = redis_bits_per_entry(error);
    uint64_t bits;
    if (!(error > 0) || redis_hashes(bits_per_entry) > FOREIGN_K_MAX
        || !bgi_u64_from_double((double)entries * bits_per_entry, &bits)
        || !bgi_round_up_u64(bits ? bits : 1, 64, &bits)) {
        return false;
    }
    *part = (struct foreign_part){ .bytes = bits / 8,
                                   .rate = error,
                                   .own = bits_per_entry,
                                   .k = (uint32_t)redis_hashes(bits_per_entry),
                                   .design = entries };
    redis_part_bits(part);
    return true;
}

static bg_err redis_create(uint64_t items, double rate,
                           const bg_foreign_options *options, bg_foreign **foreign,
                           bg_errinfo *info)
{
    struct foreign_part part;
    if (!redis_solve(items, rate / 2, &part)) {
        return bgi_err_state(
            info, BG_EINVAL, "items, rate",
            "a filter for %llu items with a rate of %g is too large, or "
            "needs more than 256 hashes",
            (unsigned long long)items, rate);
    }
    bg_err err =
        foreign_make(&foreign_redisbloom, options, 1, part.bytes, 0, foreign, info);
    if (!err) {
        *(*foreign)->parts = part;
        (*foreign)->extra[REDIS_EXTRA_OPTIONS] = REDIS_NOROUND | REDIS_FORCE64;
        (*foreign)->extra[REDIS_EXTRA_GROWTH] = 2;
    }
    return err;
}

static bg_err redis_add_link(bg_foreign *f, bg_errinfo *info)
{
    const struct foreign_part *last = &f->parts[f->count - 1];
    struct foreign_part part;
    uint64_t bytes;
    if (f->extra[REDIS_EXTRA_OPTIONS] & REDIS_NO_SCALING
        || f->extra[REDIS_EXTRA_GROWTH] == 0) {
        return bgi_err_state(info, BG_EFULL, "filter",
                             "the filter is full (%llu items) and cannot grow",
                             (unsigned long long)last->items);
    }
    if (!(f->extra[REDIS_EXTRA_OPTIONS] & REDIS_NOROUND)) {
        return bgi_err_state(info, BG_ENOTSUP, "options",
                             "the filter is full and cannot grow, because its options "
                             "(%llu) do not include NOROUND (1)",
                             (unsigned long long)f->extra[REDIS_EXTRA_OPTIONS]);
    }
    const uint64_t entries = foreign_next_items(last, f->extra[REDIS_EXTRA_GROWTH],
                                                redis_bits_per_entry(last->rate / 2));
    if (!redis_solve(entries, last->rate / 2, &part)
        || !bgi_add_u64(f->size, part.bytes, &bytes) || f->count == FOREIGN_PARTS_MAX) {
        return bgi_err_state(info, BG_EFULL, "filter",
                             "the filter is full and cannot grow beyond %u layers",
                             f->count);
    }
    part.offset = f->size;
    bg_err err = foreign_grow(f, f->count + 1, bytes, info);
    if (!err) {
        f->parts[f->count - 1] = part;
    }
    return err;
}

static bg_err redis_add(bg_foreign *f, const void *key, size_t len, bg_errinfo *info)
{
    uint64_t positions[FOREIGN_K_MAX], size = 1;
    if (bg_foreign_may_contain(f, key, len)) {
        return BG_OK;
    }
    for (uint32_t i = 0; i < f->count; i++) {
        if (!bgi_add_u64(size, f->parts[i].items, &size)) {
            return bgi_err_state(info, BG_EFULL, "size",
                                 "the filter is full: it has 2^64 - 1 items");
        }
    }
    if (f->parts[f->count - 1].items >= f->parts[f->count - 1].design) {
        bg_err err = redis_add_link(f, info);
        if (err) {
            return err;
        }
    }
    struct foreign_part *part = &f->parts[f->count - 1];
    redis_positions(f, part, key, len, positions);
    for (uint32_t i = 0; i < part->k; i++) {
        f->bytes[part->offset + positions[i] / 8] |=
            (unsigned char)(1u << positions[i] % 8);
    }
    part->items++;
    return BG_OK;
}

/* ---- Writing ----------------------------------------------------------------------- */

static uint64_t redis_header_bytes(const bg_foreign *f)
{
    return REDIS_HEADER + REDIS_LINK * (uint64_t)f->count;
}

static uint64_t redis_written(const bg_foreign *f)
{
    uint64_t bytes = FOREIGN_CHUNK + redis_header_bytes(f);
    for (uint32_t i = 0; i < f->count; i++) {
        const uint64_t link = f->parts[i].bytes;
        const uint64_t chunks = link / REDIS_CHUNK_MAX + (link % REDIS_CHUNK_MAX != 0);
        bytes += link + FOREIGN_CHUNK * chunks;
    }
    return bytes;
}

static void redis_write_link(const struct foreign_part *part, unsigned char *to)
{
    bgi_store_le64(to, part->bytes);
    bgi_store_le64(to + 8, part->own_small ? 0 : 8 * part->bytes);
    bgi_store_le64(to + 16, part->items);
    foreign_put_le_double(to + 24, part->rate);
    foreign_put_le_double(to + 32, part->own);
    bgi_store_le32(to + 40, part->k);
    bgi_store_le64(to + 44, part->design);
    to[52] = (unsigned char)part->own_small;
}

static unsigned char *redis_write_header(const bg_foreign *f, unsigned char *to)
{
    uint64_t size = 0;
    to = foreign_chunk_begin(to, 1, redis_header_bytes(f));
    for (uint32_t i = 0; i < f->count; i++) {
        size += f->parts[i].items;
        redis_write_link(&f->parts[i], to + REDIS_HEADER + REDIS_LINK * (uint64_t)i);
    }
    bgi_store_le64(to, size);
    bgi_store_le32(to + 8, f->count);
    bgi_store_le32(to + 12, (uint32_t)f->extra[REDIS_EXTRA_OPTIONS]);
    bgi_store_le32(to + 16, (uint32_t)f->extra[REDIS_EXTRA_GROWTH]);
    return to + redis_header_bytes(f);
}

static void redis_write(const bg_foreign *f, unsigned char *to)
{
    to = redis_write_header(f, to);
    for (uint32_t i = 0; i < f->count; i++) {
        uint64_t at = f->parts[i].offset;
        const uint64_t end = at + f->parts[i].bytes;
        while (at < end) {
            const uint64_t length =
                end - at < REDIS_CHUNK_MAX ? end - at : REDIS_CHUNK_MAX;
            to = foreign_chunk_begin(to, 1 + at + length, length);
            memcpy(to, f->bytes + at, (size_t)length);
            to += length;
            at += length;
        }
    }
}

const struct foreign_format foreign_redisbloom = {
    .id = BG_FOREIGN_REDISBLOOM,
    .name = "redisbloom",
    .traits = BG_FOREIGN_CAN_WRITE | BG_FOREIGN_CAN_CREATE,
    .read = redis_read,
    .create = redis_create,
    .positions = redis_positions,
    .add = redis_add,
    .written = redis_written,
    .write = redis_write,
};
