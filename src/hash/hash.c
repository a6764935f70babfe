/*
 * hash.c - computes the hashes of keys. The hash function is chosen once per call or batch.
 *
 *    fast        XXH3-64 (Y. Collet, xxHash 0.8). Only this file includes its header, so that
 *                its short-key paths are inlined into the loops below
 *    fast-int    a shorter function (fast.h) on 8 bytes; `fast` on other lengths
 *    xxh64       XXH64, from the same header
 *    keyed       SipHash-1-3 and
 *    keyed24     SipHash-2-4: siphash.c, several keys in parallel
 *    keyed-int   AES-128 on 8 and 16 bytes: aes.c; SipHash-1-3 on other lengths
 *    custom      the caller's function
 *
 * With keyed-int, the hash of a key k is
 *
 *     16 bytes   the first 8 bytes, little-endian, of AES_K16(k)
 *      8 bytes   the first 8 bytes, little-endian, of AES_K8(k, 8 zero bytes)
 *     others     SipHash-1-3_Ksip(k)
 *
 * where K8 is the secret, and K16 and Ksip are derived from it (hasher.c). Half of the output of
 * a permutation on 16 bytes is as good as a random function for up to about 2^64 keys (Hall,
 * Wagner, Kelsey and Schneier, "Building PRFs from PRPs", 1998), which is the number of possible
 * hashes.
 *
 * Invariants
 *   (I1) Batches and single calls compute the same hash, on every path and with every byte order.
 *   (I2) Hashes must never change, because filters in files depend on them.
 *   (I3) Batches read the hasher's words into registers before the loop. Callers must not let
 *        `out` overlap the hasher, but the compiler cannot rely on this.
 *
 * Not guaranteed: `fast`, `fast-int` and `xxh64` give no protection against chosen keys. A seed is
 * not a secret, even if it is never disclosed.
 *
 * Cost on Zen 4 with AVX-512 and gcc 12, in ns per key, in batches of 64 and for single keys:
 *
 *                        fast   xxh64   keyed   keyed24   keyed-int
 *     8 bytes             0.3     1.8     1.6       2.6         0.7
 *     16 bytes            0.6     2.5     2.2       3.6         0.7
 *     16 bytes, pairs     0.9     3.8     2.6       4.0         1.6
 *     8 bytes, single     2.5     4.2     8.9      11.7         4.6
 */
#include "hash/fast.h"
#include "hash/hash_batch.h"
#include "hash/hasher.h"

#include "base/bits.h"
#include "base/features.h"

#include <assert.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(XXH_SECRET_DEFAULT_SIZE == BGI_FAST_SECRET,
               "files contain a secret of this size");

/* HASH_FLAT inlines all calls, including calls to XXH3. HASH_APART keeps a function out of line. */
#define HASH_FLAT  __attribute__((flatten))
#define HASH_APART static __attribute__((noinline))

/* HASH_CHUNK is the number of (pointer, length) pairs that are sorted by length at a time.
 * HASH_OTHERS is the number of pairs that are hashed one by one when the next eight pairs cannot be
 * hashed in parallel. */
enum { HASH_CHUNK = 64, HASH_OTHERS = 32 };

void bgi_hasher_prepare_fast(struct bgi_hasher *h)
{
    XXH3_generateSecret_fromSeed(h->u.fast_secret, h->seed);
}

/*
 * Computes XXH3 of longer keys with a seed. For keys longer than 240 bytes, XXH3 uses a 192-byte
 * secret. XXH3 would derive this secret from the seed on each call, so the hasher stores it
 * instead.
 */
HASH_APART uint64_t hash_fast_long(const void *key, size_t len, uint64_t seed,
                                   const uint8_t *secret)
{
    return XXH3_64bits_withSecretandSeed(key, len, secret, BGI_FAST_SECRET, seed);
}

/* Computes XXH3 with a seed. Once this is inlined, the compiler sees that the first branch
 * needs only XXH3's code for up to 16 bytes. */
BGI_INLINE uint64_t hash_fast(const void *key, size_t len, uint64_t seed,
                              const uint8_t *secret)
{
    if (BGI_LIKELY(len <= 16)) {
        return XXH3_64bits_withSeed(key, len, seed);
    }
    return hash_fast_long(key, len, seed, secret);
}

BGI_INLINE uint64_t hash_fast_int(const void *key, size_t len, uint64_t seed,
                                  const uint8_t *secret)
{
    if (BGI_LIKELY(len == 8)) {
        return bgi_fast_int_one(seed, bgi_load_le64(key));
    }
    return hash_fast(key, len, seed, secret);
}

/* If `key` were NULL, XXH64 would add an offset to it, which is undefined in C even if the offset
 * is 0. */
BGI_INLINE uint64_t hash_xxh64(const void *key, size_t len, uint64_t seed)
{
    return XXH64(len ? key : "", len, seed);
}

BGI_INLINE uint64_t hash_integer(const struct bgi_hasher *h, const void *key,
                                 size_t len)
{
    switch (len) {
    case 8: return bgi_aes_hash_one(&h->u.integer.aes8, h->features, key, 8);
    case 16: return bgi_aes_hash_one(&h->u.integer.aes16, h->features, key, 16);
    default: return bgi_siphash(BGI_SIPHASH_13, h->sip, key, len);
    }
}

HASH_APART uint64_t hash_one_other(const struct bgi_hasher *h, const void *key,
                                   size_t len)
{
    switch ((bg_hash_profile)h->profile) {
    case BG_HASH_FAST: return hash_fast_long(key, len, h->seed, h->u.fast_secret);
    case BG_HASH_KEYED: return bgi_siphash(BGI_SIPHASH_13, h->sip, key, len);
    case BG_HASH_KEYED24: return bgi_siphash(BGI_SIPHASH_24, h->sip, key, len);
    case BG_HASH_KEYED_INT: return hash_integer(h, key, len);
    case BG_HASH_XXH64: return hash_xxh64(key, len, h->seed);
    case BG_HASH_FAST_INT: return hash_fast_int(key, len, h->seed, h->u.fast_secret);
    case BG_HASH_CUSTOM: return h->u.custom.function(h->u.custom.context, key, len);
    }
    return 0; /* the hasher is not initialized, so the result is unspecified */
}

/* The common case is inlined into the caller, which therefore need not save registers for the other
 * cases. */
BGI_INLINE uint64_t hash_one(const struct bgi_hasher *h, const void *key, size_t len)
{
    if (BGI_LIKELY(h->profile == BG_HASH_FAST && len <= 16)) {
        return XXH3_64bits_withSeed(key, len, h->seed);
    }
    return hash_one_other(h, key, len);
}

HASH_FLAT uint64_t bg_hash_bytes(const bg_hasher *hasher, const void *key, size_t len)
{
    assert(hasher && (key || len == 0));
    return hash_one(bgi_hasher_in(hasher), key, len);
}

HASH_FLAT uint64_t bg_hash_str(const bg_hasher *hasher, const char *key)
{
    assert(hasher && key);
    return hash_one(bgi_hasher_in(hasher), key, strlen(key));
}

HASH_FLAT uint64_t bg_hash_u64(const bg_hasher *hasher, uint64_t key)
{
    assert(hasher);
    const struct bgi_hasher *h = bgi_hasher_in(hasher);
    if (BGI_LIKELY(h->profile == BG_HASH_FAST)) {
        return bgi_fast8_one(h->seed, key);
    }
    if (h->profile == BG_HASH_FAST_INT) {
        return bgi_fast_int_one(h->seed, key);
    }
    key = bgi_le64(key);
    return hash_one_other(h, &key, sizeof key);
}

/* Hashes keys that all have the same width. */

BGI_INLINE void hash_fast_width(const struct bgi_hasher *h, const uint8_t *keys,
                                size_t width, size_t n, uint64_t *out)
{
    const uint64_t seed = h->seed;
    for (size_t i = 0; i < n; i++) {
        out[i] = hash_fast(keys + i * width, width, seed, h->u.fast_secret);
    }
}

BGI_INLINE void hash_fast_8(const struct bgi_hasher *h, const uint8_t *keys, size_t n,
                            uint64_t *out)
{
    size_t done = 0;
#if defined(BGI_X86_64)
    if (h->features & BGI_HAS_AVX512) {
        done = bgi_fast8_avx512(h->seed, keys, n, out);
    } else if (h->features & BGI_HAS_AVX2) {
        done = bgi_fast8_avx2(h->seed, keys, n, out);
    }
#endif
    hash_fast_width(h, keys + 8 * done, 8, n - done, out + done);
}

BGI_INLINE void hash_fast_16(const struct bgi_hasher *h, const uint8_t *keys, size_t n,
                             uint64_t *out)
{
    size_t done = 0;
#if defined(BGI_X86_64)
    if (h->features & BGI_HAS_AVX512) {
        done = bgi_fast16_avx512(h->seed, keys, n, out);
    }
#endif
    hash_fast_width(h, keys + 16 * done, 16, n - done, out + done);
}

HASH_FLAT static void hash_fast_fixed(const struct bgi_hasher *h, const uint8_t *keys,
                                      size_t width, size_t n, uint64_t *out)
{
    switch (width) {
    case 4: hash_fast_width(h, keys, 4, n, out); break;
    case 8: hash_fast_8(h, keys, n, out); break;
    case 16: hash_fast_16(h, keys, n, out); break;
    default: hash_fast_width(h, keys, width, n, out); break;
    }
}

static void hash_fast_int_fixed(const struct bgi_hasher *h, const uint8_t *keys,
                                size_t width, size_t n, uint64_t *out)
{
    if (width != 8) {
        hash_fast_fixed(h, keys, width, n, out);
        return;
    }
    const uint64_t mask = bgi_fast8_mask(h->seed);
    for (size_t i = 0; i < n; i++) {
        out[i] = bgi_fast_int_masked(mask, bgi_load_le64(keys + 8 * i));
    }
}

BGI_INLINE void hash_xxh64_width(const struct bgi_hasher *h, const uint8_t *keys,
                                 size_t width, size_t n, uint64_t *out)
{
    const uint64_t seed = h->seed;
    for (size_t i = 0; i < n; i++) {
        out[i] = hash_xxh64(keys + i * width, width, seed);
    }
}

static void hash_xxh64_fixed(const struct bgi_hasher *h, const uint8_t *keys,
                             size_t width, size_t n, uint64_t *out)
{
    switch (width) {
    case 4: hash_xxh64_width(h, keys, 4, n, out); break;
    case 8: hash_xxh64_width(h, keys, 8, n, out); break;
    case 16: hash_xxh64_width(h, keys, 16, n, out); break;
    default: hash_xxh64_width(h, keys, width, n, out); break;
    }
}

static void hash_integer_fixed(const struct bgi_hasher *h, const uint8_t *keys,
                               size_t width, size_t n, uint64_t *out)
{
    switch (width) {
    case 8: bgi_aes_hash(&h->u.integer.aes8, h->features, keys, 8, n, out); break;
    case 16: bgi_aes_hash(&h->u.integer.aes16, h->features, keys, 16, n, out); break;
    default:
        bgi_siphash_fixed(BGI_SIPHASH_13, h->features, h->sip, keys, width, n, out);
        break;
    }
}

static void hash_custom_fixed(const struct bgi_hasher *h, const uint8_t *keys,
                              size_t width, size_t n, uint64_t *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = h->u.custom.function(h->u.custom.context, keys + i * width, width);
    }
}

static void hash_fixed(const struct bgi_hasher *h, const uint8_t *keys, size_t width,
                       size_t n, uint64_t *out)
{
    switch ((bg_hash_profile)h->profile) {
    case BG_HASH_FAST: hash_fast_fixed(h, keys, width, n, out); break;
    case BG_HASH_KEYED:
        bgi_siphash_fixed(BGI_SIPHASH_13, h->features, h->sip, keys, width, n, out);
        break;
    case BG_HASH_KEYED24:
        bgi_siphash_fixed(BGI_SIPHASH_24, h->features, h->sip, keys, width, n, out);
        break;
    case BG_HASH_KEYED_INT: hash_integer_fixed(h, keys, width, n, out); break;
    case BG_HASH_XXH64: hash_xxh64_fixed(h, keys, width, n, out); break;
    case BG_HASH_FAST_INT: hash_fast_int_fixed(h, keys, width, n, out); break;
    case BG_HASH_CUSTOM: hash_custom_fixed(h, keys, width, n, out); break;
    }
}

/* Integers are hashed as 8 little-endian bytes, which is already the byte order of most
 * machines. */
static void hash_u64(const struct bgi_hasher *h, const uint64_t *keys, size_t n,
                     uint64_t *out)
{
    if (!BGI_BIG_ENDIAN) {
        hash_fixed(h, (const uint8_t *)keys, sizeof *keys, n, out);
        return;
    }
    uint64_t chunk[HASH_CHUNK];
    while (n > 0) {
        size_t count = n < HASH_CHUNK ? n : HASH_CHUNK;
        for (size_t i = 0; i < count; i++) {
            chunk[i] = bgi_le64(keys[i]);
        }
        hash_fixed(h, (const uint8_t *)chunk, sizeof *chunk, count, out);
        keys += count;
        out += count;
        n -= count;
    }
}

/* Pairs. */

HASH_FLAT static void hash_fast_pairs(const struct bgi_hasher *h, const bg_bytes *keys,
                                      size_t n, uint64_t *out)
{
    const uint64_t seed = h->seed;
    size_t i = 0;
    while (i < n) {
#if defined(BGI_X86_64)
        if (h->features & BGI_HAS_AVX512) {
            i += bgi_fast_pairs_avx512(seed, keys + i, n - i, out + i);
        }
#endif
        for (size_t end = n - i < HASH_OTHERS ? n : i + HASH_OTHERS; i < end; i++) {
            out[i] = hash_fast(keys[i].data, keys[i].len, seed, h->u.fast_secret);
        }
    }
}

HASH_FLAT static void hash_fast_int_pairs(const struct bgi_hasher *h,
                                          const bg_bytes *keys, size_t n, uint64_t *out)
{
    const uint64_t seed = h->seed;
    for (size_t i = 0; i < n; i++) {
        out[i] = hash_fast_int(keys[i].data, keys[i].len, seed, h->u.fast_secret);
    }
}

static void hash_xxh64_pairs(const struct bgi_hasher *h, const bg_bytes *keys, size_t n,
                             uint64_t *out)
{
    const uint64_t seed = h->seed;
    for (size_t i = 0; i < n; i++) {
        out[i] = hash_xxh64(keys[i].data, keys[i].len, seed);
    }
}

/* Writes each hash to the position of its key in the chunk. */
static void hash_scatter(const uint64_t *hashes, const uint8_t *from, size_t n,
                         uint64_t *out)
{
    for (size_t i = 0; i < n; i++) {
        out[from[i]] = hashes[i];
    }
}

/* Hashes the keys of a chunk that are `width` bytes long (8 or 16). Returns the number of these
 * keys. */
BGI_INLINE size_t hash_integer_width(const struct bgi_hasher *h, const bg_bytes *keys,
                                     size_t n, const size_t width, uint64_t *out)
{
    const struct bgi_aes *aes = width == 8 ? &h->u.integer.aes8 : &h->u.integer.aes16;
    uint8_t bytes[HASH_CHUNK * BGI_AES_BLOCK], from[HASH_CHUNK];
    uint64_t hashes[HASH_CHUNK];
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (keys[i].len == width) {
            memcpy(bytes + count * width, keys[i].data, width);
            from[count++] = (uint8_t)i;
        }
    }
    if (count == 0) {
        return 0;
    }
    bgi_aes_hash(aes, h->features, bytes, width, count, hashes);
    hash_scatter(hashes, from, count, out);
    return count;
}

/* Hashes the keys of a chunk that are neither 8 nor 16 bytes long. */
static void hash_integer_rest(const struct bgi_hasher *h, const bg_bytes *keys,
                              size_t n, uint64_t *out)
{
    bg_bytes rest[HASH_CHUNK];
    uint8_t from[HASH_CHUNK];
    uint64_t hashes[HASH_CHUNK];
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (keys[i].len != 8 && keys[i].len != 16) {
            rest[count] = keys[i];
            from[count++] = (uint8_t)i;
        }
    }
    bgi_siphash_pairs(BGI_SIPHASH_13, h->features, h->sip, rest, count, hashes);
    hash_scatter(hashes, from, count, out);
}

/* Sorts the pairs of a chunk by length, because AES is fast only on many consecutive keys of the
 * same length. */
static void hash_integer_chunk(const struct bgi_hasher *h, const bg_bytes *keys,
                               size_t n, uint64_t *out)
{
    size_t done = hash_integer_width(h, keys, n, 16, out);
    if (done < n) {
        done += hash_integer_width(h, keys, n, 8, out);
    }
    if (done < n) {
        hash_integer_rest(h, keys, n, out);
    }
}

static void hash_integer_pairs(const struct bgi_hasher *h, const bg_bytes *keys,
                               size_t n, uint64_t *out)
{
    while (n > 0) {
        size_t count = n < HASH_CHUNK ? n : HASH_CHUNK;
        hash_integer_chunk(h, keys, count, out);
        keys += count;
        out += count;
        n -= count;
    }
}

static void hash_custom_pairs(const struct bgi_hasher *h, const bg_bytes *keys,
                              size_t n, uint64_t *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = h->u.custom.function(h->u.custom.context, keys[i].data, keys[i].len);
    }
}

static void hash_pairs(const struct bgi_hasher *h, const bg_bytes *keys, size_t n,
                       uint64_t *out)
{
    switch ((bg_hash_profile)h->profile) {
    case BG_HASH_FAST: hash_fast_pairs(h, keys, n, out); break;
    case BG_HASH_KEYED:
        bgi_siphash_pairs(BGI_SIPHASH_13, h->features, h->sip, keys, n, out);
        break;
    case BG_HASH_KEYED24:
        bgi_siphash_pairs(BGI_SIPHASH_24, h->features, h->sip, keys, n, out);
        break;
    case BG_HASH_KEYED_INT: hash_integer_pairs(h, keys, n, out); break;
    case BG_HASH_XXH64: hash_xxh64_pairs(h, keys, n, out); break;
    case BG_HASH_FAST_INT: hash_fast_int_pairs(h, keys, n, out); break;
    case BG_HASH_CUSTOM: hash_custom_pairs(h, keys, n, out); break;
    }
}

void bgi_hash_range(const bg_hasher *hasher, const bg_keys *keys, size_t first,
                    size_t n, uint64_t *out)
{
    const struct bgi_hasher *h = bgi_hasher_in(hasher);
    if (n == 0) {
        return; /* `data` may be NULL, and arithmetic on NULL is undefined */
    }
    switch ((bg_keys_form)keys->form) {
    case BG_KEYS_BYTES:
        hash_pairs(h, (const bg_bytes *)keys->data + first, n, out);
        break;
    case BG_KEYS_FIXED:
        hash_fixed(h, (const uint8_t *)keys->data + first * keys->width, keys->width, n,
                   out);
        break;
    case BG_KEYS_U64: hash_u64(h, (const uint64_t *)keys->data + first, n, out); break;
    case BG_KEYS_HASHES:
        memcpy(out, (const uint64_t *)keys->data + first, n * sizeof *out);
        break;
    }
}

void bg_hash_many(const bg_hasher *hasher, bg_keys keys, uint64_t *out)
{
    assert(hasher && bgi_keys_are_valid(&keys) && (out || keys.count == 0));
    bgi_hash_range(hasher, &keys, 0, keys.count, out);
}
