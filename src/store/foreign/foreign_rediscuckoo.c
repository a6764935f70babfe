/*
 * foreign_rediscuckoo.c - the cuckoo filters of RedisBloom, as dumped by CF.SCANDUMP.
 *
 * A file contains the replies of CF.SCANDUMP, each in the same form as in foreign_redisbloom.c:
 *
 *     u64 iterator | u64 length | bytes          little-endian; then the next reply
 *
 *     iterator 1   the header: u64 items | u64 buckets | u64 deleted | u64 filters |
 *                  u16 bucket size | u16 iterations | u16 expansion; versions 2.2.7 to 2.2.10
 *                  have 8 more bytes, a memory address without meaning
 *     then         the slots of the filters, one byte each, bucket by bucket, at most 16 MiB at a
 *                  time and of one filter only; the iterator is that of the previous chunk plus
 *                  the length
 *     iterator 0   the end; may be omitted, and is not written
 *
 * A slot is empty (0) or contains a fingerprint. The hash h of a key is MurmurHash64A with seed
 * 0, and its fingerprint is f = h % 255 + 1. In each filter, the fingerprint can be in bucket h or
 * in bucket h ^ f * 0x5bd1e995, each modulo the number of buckets, which is a power of two. Filter
 * n, counted from 0, has buckets * expansion^n buckets.
 *
 * This description is based on the observed output of RedisBloom 2.2 to 8.8 (docs/foreign.md).
 * The decoder requires properties that this output always has:
 *   (I1) the number of fingerprints equals the number of items in the header; deleted items are
 *        counted separately
 *   (I2) the input contains the slots of all filters, which is checked before memory is
 *        allocated; no chunk extends beyond the end of a filter
 *   (I3) buckets and expansion are powers of two; a filter has fewer than 2^32 slots, because
 *        RedisBloom computes positions in 32-bit arithmetic
 *
 * An add stores a fingerprint in the first free slot of its two buckets, starting with the last
 * filter. If there is no free slot, up to `iterations` fingerprints of the last filter move to
 * their other buckets. If this does not free a slot, the fingerprints move back and the chain
 * grows. Growth stops at CUCKOO_FILTERS_MAX filters, because copies of one key fill only two
 * buckets of each filter and would otherwise make the chain grow without limit. Removing a key
 * deletes a fingerprint from the last filter in which it is found. When the number of removed items
 * exceeds a tenth of the items, each fingerprint in the last filter moves to the first filter that
 * has a free slot for it. If this empties the last filter, the filter is dropped, and the new last
 * filter is processed in the same way. Compacting processes all filters except the first in this
 * way.
 *
 * RedisBloom works in the same way, so the same adds and removes give the same bytes, and replicas
 * stay identical.
 *
 * In memory, a part has one byte per slot, and `bits` is 8 times the number of slots. own_small is
 * the bucket size.
 */
#include "base/checked.h"
#include "store/foreign/foreign.h"
#include "store/foreign/foreign_chunks.h"
#include "store/foreign/foreign_hashes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    CUCKOO_HEADER = 38,
    CUCKOO_ADDRESS = 8, /* size of the memory address in some old headers */
    CUCKOO_CHUNK_MAX = 16 << 20,
    CUCKOO_EXPANSION_MAX = 32768,
    CUCKOO_BUCKET_MAX = 255, /* some old versions store 300, but use 300 % 256 slots */
    CUCKOO_FILTERS_MAX = 64
};

/* extra[] of a filter. */
enum { CUCKOO_DELETED = 0, CUCKOO_EXPANSION = 1, CUCKOO_ITERATIONS = 2 };

static bool cuckoo_is_power(uint64_t x)
{
    return x && !(x & (x - 1));
}

/* ---- Reading ------------------------------------------------------------------------- */

/* The fields of a header. */
struct cuckoo_head {
    uint64_t items, buckets, deleted, filters;
    uint32_t bucket_size, iterations, expansion;
    uint64_t slots; /* total number of slots in all filters */
    size_t at;      /* offset of the header */
};

static uint32_t cuckoo_le16(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

/* Computes the number of slots in filter n. Returns false if there would be too many slots. */
static bool cuckoo_slots(uint64_t buckets, uint32_t expansion, uint32_t bucket_size,
                         uint32_t n, uint64_t *slots)
{
    for (uint32_t i = 0; i < n && expansion != 1; i++) {
        if (!bgi_mul_u64(buckets, expansion, &buckets) || buckets > UINT32_MAX) {
            return false;
        }
    }
    return bgi_mul_u64(buckets, bucket_size, slots) && *slots <= UINT32_MAX;
}

static bg_err cuckoo_count_slots(struct cuckoo_head *head, bg_errinfo *info)
{
    head->slots = 0;
    for (uint32_t i = 0; i < head->filters; i++) {
        uint64_t slots;
        if (!cuckoo_slots(head->buckets, head->expansion, head->bucket_size, i, &slots)
            || !bgi_add_u64(head->slots, slots, &head->slots)) {
            return foreign_refuse(
                info, head->at + 8, "buckets",
                "a number of buckets that results in fewer than 2^32 slots per layer",
                "%llu", (unsigned long long)head->buckets);
        }
    }
    return BG_OK;
}

static bg_err cuckoo_head(const struct foreign_chunk *chunk, struct cuckoo_head *head,
                          bg_errinfo *info)
{
    const unsigned char *p = chunk->bytes;
    const size_t at = chunk->at + FOREIGN_CHUNK;
    if (chunk->iterator != 1
        || (chunk->length != CUCKOO_HEADER
            && chunk->length != CUCKOO_HEADER + CUCKOO_ADDRESS)) {
        return foreign_chunk_bad(chunk, "a header of 38 or 46 bytes, with iterator 1",
                                 info);
    }
    *head = (struct cuckoo_head){ .items = bgi_load_le64(p),
                                  .buckets = bgi_load_le64(p + 8),
                                  .deleted = bgi_load_le64(p + 16),
                                  .filters = bgi_load_le64(p + 24),
                                  .bucket_size = cuckoo_le16(p + 32),
                                  .iterations = cuckoo_le16(p + 34),
                                  .expansion = cuckoo_le16(p + 36),
                                  .at = at };
    if (!cuckoo_is_power(head->buckets)) {
        return foreign_refuse(info, at + 8, "buckets", "a power of two", "%llu",
                              (unsigned long long)head->buckets);
    }
    if (head->bucket_size == 0 || head->bucket_size > CUCKOO_BUCKET_MAX) {
        return foreign_refuse(info, at + 32, "bucket size", "1 to 255", "%u",
                              head->bucket_size);
    }
    if (head->expansion > CUCKOO_EXPANSION_MAX
        || (head->expansion && !cuckoo_is_power(head->expansion))) {
        return foreign_refuse(info, at + 36, "expansion",
                              "0, or a power of two up to 32768", "%u",
                              head->expansion);
    }
    if (head->deleted > INT64_MAX) {
        return foreign_refuse(info, at + 16, "deleted", "below 2^63", "%llu",
                              (unsigned long long)head->deleted);
    }
    if (head->filters == 0 || head->filters > FOREIGN_PARTS_MAX
        || (head->filters > 1 && head->expansion == 0)) {
        return foreign_refuse(info, at + 24, "filters",
                              "1 if the expansion is 0, otherwise 1 to 65536", "%llu",
                              (unsigned long long)head->filters);
    }
    return cuckoo_count_slots(head, info);
}

static void cuckoo_adopt(bg_foreign *f, const struct cuckoo_head *head)
{
    uint64_t offset = 0;
    f->extra[CUCKOO_DELETED] = head->deleted;
    f->extra[CUCKOO_EXPANSION] = head->expansion;
    f->extra[CUCKOO_ITERATIONS] = head->iterations;
    for (uint32_t i = 0; i < f->count; i++) {
        uint64_t slots = 0;
        (void)cuckoo_slots(head->buckets, head->expansion, head->bucket_size, i,
                           &slots);
        f->parts[i] = (struct foreign_part){ .bits = 8 * slots,
                                             .bytes = slots,
                                             .offset = offset,
                                             .design = slots,
                                             .own_small = head->bucket_size,
                                             .k = 2 };
        offset += slots;
    }
}

static uint64_t cuckoo_taken(const bg_foreign *f, const struct foreign_part *part)
{
    const unsigned char *slot = f->bytes + part->offset;
    uint64_t taken = 0;
    for (uint64_t i = 0; i < part->bytes; i++) {
        taken += slot[i] != 0;
    }
    return taken;
}

/* Counts the fingerprints, and compares their number with the header (I1). */
static bg_err cuckoo_weigh(bg_foreign *f, const struct cuckoo_head *head,
                           bg_errinfo *info)
{
    uint64_t taken = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        f->parts[i].items = cuckoo_taken(f, &f->parts[i]);
        taken += f->parts[i].items;
    }
    if (taken == head->items) {
        return BG_OK;
    }
    char expected[64];
    (void)snprintf(expected, sizeof expected, "%llu, the number of fingerprints",
                   (unsigned long long)taken);
    return foreign_refuse(info, head->at, "items", expected, "%llu",
                          (unsigned long long)head->items);
}

static bg_err cuckoo_read(struct foreign_input input, const bg_foreign_options *options,
                          bg_foreign **foreign, bg_errinfo *info)
{
    struct foreign_chunk header = { 0 };
    struct cuckoo_head head = { 0 };
    bg_foreign *f;
    if (!foreign_chunk_next(&input, &header)) {
        return foreign_chunk_bad(&header, "a complete chunk", info);
    }
    bg_err err = cuckoo_head(&header, &head, info);
    if (!err && head.slots > input.n - input.at) {
        err = foreign_refuse(info, head.at, "slots of the layers",
                             "at most the number of bytes after the header", "%llu",
                             (unsigned long long)head.slots);
    }
    err = err ? err
              : foreign_make(&foreign_rediscuckoo, options, (uint32_t)head.filters,
                             head.slots, input.n, &f, info);
    if (err) {
        return err;
    }
    cuckoo_adopt(f, &head);
    err = foreign_chunks_fill(&input, f, info);
    err = err ? err : cuckoo_weigh(f, &head, info);
    if (err) {
        bg_foreign_free(f);
        return err;
    }
    *foreign = f;
    return BG_OK;
}

/* ---- Keys ----------------------------------------------------------------------------- */

struct cuckoo_key {
    uint64_t hash, other;
    unsigned char print;
};

static uint64_t cuckoo_alternative(uint64_t at, unsigned char print)
{
    return at ^ (uint64_t)print * 0x5bd1e995u;
}

static struct cuckoo_key cuckoo_hash(const void *key, size_t len)
{
    const uint64_t hash = foreign_murmur64a(key, len, 0);
    const unsigned char print = (unsigned char)(hash % 255 + 1);
    return (struct cuckoo_key){ hash, cuckoo_alternative(hash, print), print };
}

static uint64_t cuckoo_bucket(const struct foreign_part *part, uint64_t hash)
{
    return hash & (part->bytes / part->own_small - 1);
}

static unsigned char *cuckoo_slots_of(const bg_foreign *f,
                                      const struct foreign_part *part, uint64_t bucket)
{
    return f->bytes + part->offset + bucket * part->own_small;
}

/* Returns the first slot that contains `print` in a bucket, or NULL if there is none. */
static unsigned char *cuckoo_find(const bg_foreign *f, const struct foreign_part *part,
                                  uint64_t bucket, unsigned char print)
{
    return memchr(cuckoo_slots_of(f, part, bucket), print, part->own_small);
}

/* Returns a slot that contains `print` in either of a key's buckets, or NULL if there is
 * none. */
static unsigned char *cuckoo_find_either(const bg_foreign *f,
                                         const struct foreign_part *part,
                                         const struct cuckoo_key *k,
                                         unsigned char print)
{
    unsigned char *slot = cuckoo_find(f, part, cuckoo_bucket(part, k->hash), print);
    return slot ? slot : cuckoo_find(f, part, cuckoo_bucket(part, k->other), print);
}

static bool cuckoo_has(const bg_foreign *f, const void *key, size_t len)
{
    const struct cuckoo_key k = cuckoo_hash(key, len);
    for (uint32_t i = 0; i < f->count; i++) {
        if (cuckoo_find_either(f, &f->parts[i], &k, k.print)) {
            return true;
        }
    }
    return false;
}

static uint64_t cuckoo_times(const bg_foreign *f, const void *key, size_t len)
{
    const struct cuckoo_key k = cuckoo_hash(key, len);
    uint64_t times = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        const struct foreign_part *part = &f->parts[i];
        const uint64_t buckets[2] = { cuckoo_bucket(part, k.hash),
                                      cuckoo_bucket(part, k.other) };
        for (int b = 0; b < (buckets[0] == buckets[1] ? 1 : 2); b++) {
            const unsigned char *slot = cuckoo_slots_of(f, part, buckets[b]);
            for (uint32_t j = 0; j < part->own_small; j++) {
                times += slot[j] == k.print;
            }
        }
    }
    return times;
}

/* Moves a fingerprint from filter `which` to the first earlier filter that has a free slot for it.
 * The bucket in a smaller filter can be computed from the bucket in a larger filter, because the
 * numbers of buckets in both filters are powers of two. */
static bool cuckoo_hand_on(bg_foreign *f, uint32_t which, uint64_t bucket,
                           unsigned char print)
{
    const struct cuckoo_key k = { bucket, cuckoo_alternative(bucket, print), print };
    for (uint32_t i = 0; i < which; i++) {
        struct foreign_part *to = &f->parts[i];
        unsigned char *slot =
            to->items < to->bytes ? cuckoo_find_either(f, to, &k, 0) : NULL;
        if (slot) {
            *slot = print;
            to->items++;
            return true;
        }
    }
    return false;
}

/* Moves as many fingerprints as possible from a filter to earlier filters. Returns whether the
 * filter is empty afterwards. */
static bool cuckoo_empty(bg_foreign *f, uint32_t which)
{
    struct foreign_part *part = &f->parts[which];
    unsigned char *from = f->bytes + part->offset;
    uint64_t left = part->items;
    for (uint64_t i = 0; i < part->bytes && left > 0; i++) {
        if (from[i]) {
            left--;
            if (cuckoo_hand_on(f, which, i / part->own_small, from[i])) {
                from[i] = 0;
                part->items--;
            }
        }
    }
    return part->items == 0;
}

/* Empties filters, starting with the last filter. If `all` is set, processes all filters except
 * the first; otherwise stops at the first filter that cannot be emptied. Drops empty filters
 * from the end of the chain. */
static void cuckoo_gather(bg_foreign *f, bool all)
{
    bool empty = true;
    for (uint32_t i = f->count - 1; i > 0 && (all || empty); i--) {
        empty = cuckoo_empty(f, i);
        if (empty && i == f->count - 1) {
            f->count--;
            f->size -= f->parts[i].bytes;
        }
    }
    f->extra[CUCKOO_DELETED] = 0;
}

static void cuckoo_compact(bg_foreign *f)
{
    cuckoo_gather(f, true);
}

/* Empties filters if the number of deleted items exceeds a tenth of the items. */
static void cuckoo_rearrange(bg_foreign *f)
{
    uint64_t items = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        items += f->parts[i].items;
    }
    if (f->count > 1 && f->extra[CUCKOO_DELETED] > items / 10) {
        cuckoo_gather(f, false);
    }
}

static bg_err cuckoo_remove(bg_foreign *f, const void *key, size_t len)
{
    const struct cuckoo_key k = cuckoo_hash(key, len);
    for (uint32_t i = f->count; i-- > 0;) {
        unsigned char *slot = cuckoo_find_either(f, &f->parts[i], &k, k.print);
        if (slot) {
            *slot = 0;
            f->parts[i].items--;
            f->extra[CUCKOO_DELETED]++;
            cuckoo_rearrange(f);
            return BG_OK;
        }
    }
    return BG_ENOTFOUND;
}

/* ---- Adding --------------------------------------------------------------------------- */

/* Stores a key's fingerprint in the first free slot of its buckets, starting with the last filter.
 * Returns false if there is no free slot. */
static bool cuckoo_put(bg_foreign *f, const struct cuckoo_key *k)
{
    for (uint32_t i = f->count; i-- > 0;) {
        unsigned char *slot = cuckoo_find_either(f, &f->parts[i], k, 0);
        if (slot) {
            *slot = k->print;
            f->parts[i].items++;
            return true;
        }
    }
    return false;
}

/* Swaps a fingerprint with the fingerprint in a slot. */
static void cuckoo_swap(unsigned char *slot, unsigned char *print)
{
    const unsigned char old = *slot;
    *slot = *print;
    *print = old;
}

/* Returns the slot whose fingerprint is displaced by move n. Moves cycle through a bucket's
 * slots. */
static unsigned char *cuckoo_victim(const bg_foreign *f,
                                    const struct foreign_part *part, uint64_t bucket,
                                    uint64_t n)
{
    return cuckoo_slots_of(f, part, bucket) + n % part->own_small;
}

/*
 * Adds a fingerprint to the last filter by displacing other fingerprints. The new fingerprint
 * replaces another one, which moves to its other bucket, and so on. If no move finds a free slot,
 * all moves are undone in reverse order. This is possible because `print` is the fingerprint
 * displaced last, and the bucket from which it was displaced is the other of its two buckets.
 */
static bool cuckoo_push(bg_foreign *f, const struct cuckoo_key *k)
{
    struct foreign_part *part = &f->parts[f->count - 1];
    const uint64_t moves = f->extra[CUCKOO_ITERATIONS];
    uint64_t bucket = cuckoo_bucket(part, k->hash);
    unsigned char print = k->print;
    for (uint64_t n = 0; n < moves; n++) {
        cuckoo_swap(cuckoo_victim(f, part, bucket, n), &print);
        bucket = cuckoo_bucket(part, cuckoo_alternative(bucket, print));
        unsigned char *slot = cuckoo_find(f, part, bucket, 0);
        if (slot) {
            *slot = print;
            part->items++;
            return true;
        }
    }
    for (uint64_t n = moves; n-- > 0;) {
        bucket = cuckoo_bucket(part, cuckoo_alternative(bucket, print));
        cuckoo_swap(cuckoo_victim(f, part, bucket, n), &print);
    }
    return false;
}

static bg_err cuckoo_grow(bg_foreign *f, bg_errinfo *info)
{
    const uint32_t size = f->parts[0].own_small;
    const uint64_t expansion = f->extra[CUCKOO_EXPANSION];
    struct foreign_part part = { .own_small = size, .k = 2, .offset = f->size };
    uint64_t slots, bytes;
    if (expansion == 0 || f->count >= CUCKOO_FILTERS_MAX) {
        return bgi_err_state(info, BG_EFULL, "filter",
                             "the filter is full and cannot grow beyond %u layers",
                             f->count);
    }
    if (!cuckoo_slots(f->parts[0].bytes / size, (uint32_t)expansion, size, f->count,
                      &slots)
        || !bgi_add_u64(f->size, slots, &bytes)) {
        return bgi_err_state(
            info, BG_EFULL, "filter",
            "the filter is full and cannot grow: after its %u layers, the "
            "next would have 2^32 slots or more",
            f->count);
    }
    part.bytes = part.design = slots;
    part.bits = 8 * slots;
    const bg_err err = foreign_grow(f, f->count + 1, bytes, info);
    if (!err) {
        f->parts[f->count - 1] = part;
    }
    return err;
}

static bg_err cuckoo_add(bg_foreign *f, const void *key, size_t len, bg_errinfo *info)
{
    const struct cuckoo_key k = cuckoo_hash(key, len);
    if (cuckoo_put(f, &k) || cuckoo_push(f, &k)) {
        return BG_OK;
    }
    const bg_err err = cuckoo_grow(f, info);
    if (!err) {
        (void)cuckoo_put(f, &k); /* this succeeds, because the new filter is empty */
    }
    return err;
}

/* Creates a filter with two slots per bucket, as CF.RESERVE does by default. */
static bg_err cuckoo_create(uint64_t items, double rate,
                            const bg_foreign_options *options, bg_foreign **foreign,
                            bg_errinfo *info)
{
    struct cuckoo_head head = {
        .buckets = 1, .bucket_size = 2, .iterations = 20, .expansion = 1, .filters = 1
    };
    if (rate < 4.0 / 255) {
        return bgi_err(info, BG_EINVAL, "rate",
                       "at least 0.016, since fingerprints have 8 bits", "%g", rate);
    }
    while (2 * head.buckets < items) {
        head.buckets *= 2;
    }
    bg_err err = cuckoo_count_slots(&head, info);
    if (err) {
        return bgi_err(info, BG_EINVAL, "items", "below 2^32", "%llu",
                       (unsigned long long)items);
    }
    err = foreign_make(&foreign_rediscuckoo, options, 1, head.slots, 0, foreign, info);
    if (!err) {
        cuckoo_adopt(*foreign, &head);
    }
    return err;
}

/* ---- Writing and measuring ---------------------------------------------------------------- */

static uint64_t cuckoo_written(const bg_foreign *f)
{
    const uint64_t most = CUCKOO_CHUNK_MAX;
    uint64_t bytes = FOREIGN_CHUNK + CUCKOO_HEADER + f->size;
    for (uint32_t i = 0; i < f->count; i++) {
        const uint64_t slots = f->parts[i].bytes;
        bytes += FOREIGN_CHUNK * (slots / most + (slots % most != 0));
    }
    return bytes;
}

static void cuckoo_put_le16(unsigned char *p, uint64_t value)
{
    p[0] = (unsigned char)value;
    p[1] = (unsigned char)(value >> 8);
}

static unsigned char *cuckoo_write_header(const bg_foreign *f, unsigned char *to)
{
    uint64_t items = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        items += f->parts[i].items;
    }
    to = foreign_chunk_begin(to, 1, CUCKOO_HEADER);
    bgi_store_le64(to, items);
    bgi_store_le64(to + 8, f->parts[0].bytes / f->parts[0].own_small);
    bgi_store_le64(to + 16, f->extra[CUCKOO_DELETED]);
    bgi_store_le64(to + 24, f->count);
    cuckoo_put_le16(to + 32, f->parts[0].own_small);
    cuckoo_put_le16(to + 34, f->extra[CUCKOO_ITERATIONS]);
    cuckoo_put_le16(to + 36, f->extra[CUCKOO_EXPANSION]);
    return to + CUCKOO_HEADER;
}

static void cuckoo_write(const bg_foreign *f, unsigned char *to)
{
    const uint64_t most = CUCKOO_CHUNK_MAX;
    to = cuckoo_write_header(f, to);
    for (uint32_t i = 0; i < f->count; i++) {
        uint64_t at = f->parts[i].offset;
        const uint64_t end = at + f->parts[i].bytes;
        while (at < end) {
            const uint64_t length = end - at < most ? end - at : most;
            to = foreign_chunk_begin(to, 1 + at + length, length);
            memcpy(to, f->bytes + at, (size_t)length);
            to += length;
            at += length;
        }
    }
}

/* Computes the rate from the number of fingerprints. A lookup of an absent key gives a false
 * positive if a fingerprint in one of its buckets matches. `ones` is the number of fingerprints. */
static void cuckoo_about(const bg_foreign *f, bg_foreign_info *about)
{
    double no = 1;
    about->ones = about->items;
    about->removed = f->extra[CUCKOO_DELETED];
    for (uint32_t i = 0; i < f->count; i++) {
        const struct foreign_part *part = &f->parts[i];
        const double full = (double)part->items / (double)part->bytes;
        no *= pow(1 - 1.0 / 255, 2.0 * part->own_small * full);
    }
    about->rate = 1 - no;
}

const struct foreign_format foreign_rediscuckoo = {
    .id = BG_FOREIGN_REDISCUCKOO,
    .name = "rediscuckoo",
    .traits = BG_FOREIGN_CAN_WRITE | BG_FOREIGN_CAN_CREATE | BG_FOREIGN_CAN_REMOVE,
    .read = cuckoo_read,
    .create = cuckoo_create,
    .has = cuckoo_has,
    .add = cuckoo_add,
    .times = cuckoo_times,
    .remove = cuckoo_remove,
    .compact = cuckoo_compact,
    .written = cuckoo_written,
    .write = cuckoo_write,
    .about = cuckoo_about,
};
