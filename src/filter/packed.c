/*
 * packed.c - packs a filter into a block of another file format.
 *
 *     [ words, in the byte order of the machine        ] whole units of the kind
 *     [ numbers, 8 bytes each: keys, lost, seeds ...   ] of static kinds
 *     [ 8-byte trailer                                 ]
 *
 *       byte 0, 1   how many numbers, low byte first
 *            2      kind
 *            3      k
 *            4      width
 *            5      1, the version of this format
 *            6, 7   'b' 'g', on big-endian machines 'B' 'G'
 *
 * The number of units is not stored, because it follows from the number of bytes.
 *
 * Invariants
 *   (I1) An opened filter has a geometry that is valid for its kind, and words for all of its
 *        units. Cores read nothing outside the words, whatever the words contain.
 *   (I2) The caller's bytes are never written to.
 *
 * An opened filter has the same core and operations as any other filter, but uses the caller's
 * words. These words may be unaligned, so vector loads of lines use unaligned instructions, which
 * are just as fast if the address is a multiple of 64.
 */
#include "bloomgate/packed.h"

#include "base/bits.h"
#include "base/errinfo.h"
#include "filter/batch.h"
#include "filter/content.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { PACKED_TAIL = 8, PACKED_VERSION = 1, PACKED_NUMBERS_MAX = UINT16_MAX };

static const char packed_mark[2] = { BGI_BIG_ENDIAN ? 'B' : 'b',
                                     BGI_BIG_ENDIAN ? 'G' : 'g' };

struct bg_packed {
    struct bgi_core core; /* must be first */
    size_t bytes;         /* size of this struct and the kind's state after it */
};

/* ---- Writing ---------------------------------------------------------------------- */

static uint64_t packed_numbers(const bg_filter *filter, uint64_t *to)
{
    return filter->kind->numbers ? filter->kind->numbers(&filter->core, to) : 0;
}

static bg_err packed_check(const bg_filter *filter, uint64_t numbers, bg_errinfo *info)
{
    if (filter->shards || filter->kind->flags) {
        return bgi_err_state(info, BG_ENOTSUP, "kind",
                             "a filter with %s cannot be packed",
                             filter->shards ? "shards" : "BG_SPEC_SCATTERED");
    }
    if (!bgi_content_is_steady(filter)) {
        return bgi_err(info, BG_ENOTSUP, "kind", "a Bloom or static kind", "%s",
                       bg_kind_name(filter->kind->id));
    }
    if (numbers > PACKED_NUMBERS_MAX) {
        return bgi_err_state(
            info, BG_ENOTSUP, "size",
            "the filter is too large to be packed: it has more than 65533 parts");
    }
    return BG_OK;
}

/* `to` is a multiple of 8. */
static void packed_fill(const bg_filter *filter, uint64_t numbers, uint64_t *to)
{
    const uint64_t *words = bgi_filter_words(filter);
    size_t n = filter->bytes / 8;
    for (size_t i = 0; i < n; i++) {
        to[i] = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
    }
    (void)packed_numbers(filter, to + n);
    unsigned char *tail = (unsigned char *)(to + n + numbers);
    tail[0] = (unsigned char)numbers;
    tail[1] = (unsigned char)(numbers >> 8);
    tail[2] = (unsigned char)filter->kind->id;
    tail[3] = (unsigned char)filter->core.k;
    tail[4] = (unsigned char)filter->kind->width;
    tail[5] = PACKED_VERSION;
    memcpy(tail + 6, packed_mark, sizeof packed_mark);
}

bg_err bg_packed_encode(const bg_filter *filter, void *to, size_t room, size_t *bytes,
                        bg_errinfo *info)
{
    if (!filter || !bytes) {
        return bgi_err(info, BG_EINVAL, "filter",
                       "a filter and a pointer to receive the size", "NULL");
    }
    bgi_err_clear(info);
    *bytes = 0;
    uint64_t numbers = filter->kind->composed ? 0 : packed_numbers(filter, NULL);
    bg_err err = packed_check(filter, numbers, info);
    if (err) {
        return err;
    }
    *bytes = filter->bytes + 8 * (size_t)numbers + PACKED_TAIL;
    if (!to) {
        return BG_OK;
    }
    if ((uintptr_t)to % BG_PACKED_ALIGNMENT != 0) {
        return bgi_err(info, BG_EINVAL, "memory", "an address that is a multiple of 8",
                       "%p", to);
    }
    if (room < *bytes) {
        char expected[80];
        (void)snprintf(expected, sizeof expected,
                       "at least %zu, the size of the packed filter", *bytes);
        return bgi_err(info, BG_EINVAL, "room", expected, "%zu", room);
    }
    packed_fill(filter, numbers, to);
    return BG_OK;
}

/* ---- Opening ---------------------------------------------------------------------- */

struct packed_parts {
    struct bgi_geometry geometry;
    uint64_t numbers;
    size_t words; /* bytes */
    size_t state; /* bytes */
};

static bg_err packed_refuse(size_t n, bg_errinfo *info)
{
    return bgi_err_state(
        info, BG_EFORMAT, "bytes",
        "these %zu bytes are not a packed filter in this machine's byte order", n);
}

/* Splits the bytes of a packed filter into parts, and rejects invalid bytes before anything is
 * allocated. */
static bg_err packed_split(const unsigned char *bytes, size_t n,
                           struct packed_parts *parts, bg_errinfo *info)
{
    if (n < PACKED_TAIL || n % 8 != 0) {
        return packed_refuse(n, info);
    }
    const unsigned char *tail = bytes + n - PACKED_TAIL;
    if (memcmp(tail + 6, packed_mark, sizeof packed_mark) != 0) {
        return packed_refuse(n, info);
    }
    if (tail[5] != PACKED_VERSION) {
        return bgi_err(info, BG_EVERSION, "version", "1", "%u", tail[5]);
    }
    const struct bgi_kind *kind = bgi_kind_variant((bg_kind)tail[2], tail[4], 0);
    size_t rest = n - PACKED_TAIL;
    parts->numbers = tail[0] | (uint64_t)tail[1] << 8;
    if (!kind || kind->composed || kind->width != tail[4] || rest / 8 < parts->numbers
        || !((kind->traits & BGI_BLOOM_TRAITS) == BGI_BLOOM_TRAITS
             || kind->traits & BG_TRAIT_STATIC)) {
        return packed_refuse(n, info);
    }
    parts->words = rest - 8 * (size_t)parts->numbers;
    uint32_t k = tail[3];
    uint32_t unit = k >= kind->k_min && k <= kind->k_max ? kind->unit_bytes(k) : 0;
    if (!unit || parts->words % unit != 0
        || bgi_recipe_plain(kind, parts->words / unit, k, &parts->geometry) != BG_OK) {
        return packed_refuse(n, info);
    }
    parts->state = kind->state_bytes ? kind->state_bytes(parts->geometry.units, k) : 0;
    return BG_OK;
}

/* Sets up the core for these words. The state that follows the core is still zero. */
static void packed_begin(bg_packed *p, const struct packed_parts *parts,
                         const void *words)
{
    const struct bgi_kind *kind = parts->geometry.kind;
    const bg_cpu cpu = bg_cpu_current();
    struct bgi_core *core = &p->core;
    core->ops = bgi_kind_ops(kind, parts->geometry.k, true, cpu);
    core->word_ops = bgi_kind_word_ops(cpu);
    core->has = core->ops->has;
    core->add = core->ops->add;
    core->words = (unsigned char *)(uintptr_t)words;
    core->units = parts->geometry.units;
    core->k = parts->geometry.k;
    core->lookups_prefetch = 1; /* the caller's block is usually not in the CPU cache */
    core->state = parts->state ? p + 1 : NULL;
    if (kind->setup) {
        kind->setup(core);
    }
}

/* Restores the numbers of a static kind. Returns false if the numbers are not valid for the
 * kind. */
static bool packed_restore(bg_packed *p, const struct packed_parts *parts,
                           const void *words)
{
    const struct bgi_kind *kind = parts->geometry.kind;
    const uint64_t *numbers =
        (const uint64_t *)(const void *)((const char *)words + parts->words);
    uint64_t expected = kind->numbers ? kind->numbers(&p->core, NULL) : 0;
    return parts->numbers == expected
           && (!kind->restore || kind->restore(&p->core, numbers));
}

bg_err bg_packed_open(const void *bytes, size_t n, bg_packed **packed, bg_errinfo *info)
{
    struct packed_parts parts = { 0 };
    struct bgi_memory memory;
    if (!packed) {
        return bgi_err(info, BG_EINVAL, "packed", "a pointer to receive the handle",
                       "NULL");
    }
    *packed = NULL;
    if (!bytes || (uintptr_t)bytes % BG_PACKED_ALIGNMENT != 0) {
        return bgi_err(info, BG_EINVAL, "bytes",
                       "a non-NULL address that is a multiple of 8", "%p", bytes);
    }
    bgi_err_clear(info);
    bg_err err = packed_split(bytes, n, &parts, info);
    if (err) {
        return err;
    }
    assert(parts.geometry.kind);
    if (!bgi_memory_take(&memory, sizeof(bg_packed) + parts.state, NULL, true)) {
        return bgi_err_state(
            info, BG_ENOMEM, "memory",
            "cannot allocate %zu bytes for the handle of a packed filter",
            sizeof(bg_packed) + parts.state);
    }
    bg_packed *p = memory.base;
    p->bytes = memory.bytes;
    packed_begin(p, &parts, bytes);
    if (!packed_restore(p, &parts, bytes)) {
        bg_packed_free(p);
        return packed_refuse(n, info);
    }
    *packed = p;
    return BG_OK;
}

void bg_packed_free(bg_packed *packed)
{
    if (packed) {
        struct bgi_memory memory = { .base = packed, .bytes = packed->bytes };
        bgi_memory_give(&memory);
    }
}

/* ---- Queries ---------------------------------------------------------------------- */

extern inline bool bg_packed_may_contain_hash(const bg_packed *packed, uint64_t hash);

size_t bg_packed_may_contain_hashes(const bg_packed *packed, const uint64_t *hashes,
                                    size_t n, uint64_t *maybe)
{
    return bgi_batch_query(packed ? &packed->core : NULL, hashes, n, maybe);
}
