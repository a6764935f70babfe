/*
 * hash.h - from key bytes to the one 64-bit hash that every filter works on.
 *
 * A key is hashed once, at the edge; filters see only the hash. Which function does it
 * is the filter's *hash profile*:
 *
 *   profile    function                        use it for
 *   fast       XXH3-64 with a seed             keys that nobody chooses against you;
 *                                              the default of the library
 *   keyed      SipHash-1-3, 128-bit secret     keys chosen by strangers
 *   keyed24    SipHash-2-4, 128-bit secret     the same, with a wider safety margin
 *   keyed-int  AES-128 on 8 and 16-byte keys,  integer, address and UUID keys chosen by
 *              SipHash-1-3 on other lengths    strangers, at the price of `fast`
 *   xxh64      XXH64 with a seed               filters shared with Parquet (seed 0)
 *   custom     your function                   anything else
 *
 *     bg_hash_spec how = { .profile = BG_HASH_KEYED, .secret = my_16_secret_bytes };
 *     bg_hasher hasher;
 *     bg_err err = bg_hasher_init(&hasher, &how, NULL);
 *     uint64_t h = bg_hash_bytes(&hasher, "key", 3);
 *
 * Caveats
 *   - A seed is not a secret. Pairs of keys that collide under XXH3 for very many seeds
 *     are public, so whoever can choose keys can forge members of a `fast` filter, and
 *     can fill it faster than honest keys would, the kinds that keep a key in one block by
 *     far the fastest. Use a keyed profile for such keys.
 *   - Two filters can be merged or compared only when their hashing is identical:
 *     profile, and seed or secret.
 *   - A 64-bit hash of n keys gives a floor to any filter's error rate of about
 *     n / 2^64: 5e-11 at a billion keys.
 *   - Hashes that you compute yourself must be well mixed in all 64 bits: filters take
 *     the high bits to choose the place and the low bits to choose the pattern. Never
 *     pass counters, pointers or 32-bit hashes widened to 64.
 */
#ifndef BLOOMGATE_HASH_H
#define BLOOMGATE_HASH_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, number, "name", secret): the one list of hash profiles. Numbers are frozen,
 * they are also written in files. `secret` is 1 where a 128-bit secret is required. */
#define BG_HASHES(X)                                                                   \
    X(FAST, 0, "fast", 0)                                                              \
    X(KEYED, 1, "keyed", 1)                                                            \
    X(KEYED24, 2, "keyed24", 1)                                                        \
    X(KEYED_INT, 3, "keyed-int", 1)                                                    \
    X(XXH64, 4, "xxh64", 0)                                                            \
    X(CUSTOM, 5, "custom", 0)

typedef enum bg_hash_profile {
#define BG_HASH_ENUM(NAME, number, text, secret) BG_HASH_##NAME = (number),
    BG_HASHES(BG_HASH_ENUM)
#undef BG_HASH_ENUM
} bg_hash_profile;

/* Bytes of the secret of the keyed profiles. */
#define BG_SECRET_BYTES 16

/*
 * A hash function of your own. It must depend on nothing but its arguments, and be
 * well mixed in all 64 bits; it is called from every thread that uses the filter.
 */
typedef uint64_t (*bg_hash_fn)(void *context, const void *key, size_t len);

/*
 * What hashing is wanted. All zero means `fast` with seed 0. The secret is copied; the
 * pointer is not kept.
 */
typedef struct bg_hash_spec {
    uint32_t profile;      /* a bg_hash_profile */
    uint32_t reserved;     /* 0 */
    uint64_t seed;         /* fast and xxh64: part of the function, not a protection */
    const uint8_t *secret; /* keyed profiles: BG_SECRET_BYTES random bytes */
    bg_hash_fn custom;     /* custom: the function, ... */
    void *custom_context;  /* ... its first argument, ... */
    const char *custom_name; /* ... and its name (1 to 31 bytes), by which filters are
                                recognised as having the same hash */
} bg_hash_spec;

/*
 * A prepared hash function. The size is public so that it can live anywhere, the
 * content is not. It holds the secret: wipe it with `bg_hasher_wipe`.
 */
typedef struct bg_hasher {
    uint64_t opaque[56];
} bg_hasher;

/* One key as bytes: what the batch functions take arrays of. */
typedef struct bg_bytes {
    const void *data; /* may be NULL when len is 0 */
    size_t len;       /* any length; NUL bytes are bytes like others */
} bg_bytes;

/*
 * Prepares a hasher. `spec` may be NULL for the default.
 * Errors: BG_EINVAL for an unknown profile, a keyed profile without a secret, a custom
 * one without function or name (or with a name over 31 bytes).
 * Thread safety: MT-Safe on different hashers. Cost: below 1 us; keyed-int on a
 * processor without AES instructions about 4 us.
 */
BG_API BG_MUST_CHECK bg_err bg_hasher_init(bg_hasher *hasher, const bg_hash_spec *spec,
                                           bg_errinfo *info);

/*
 * Overwrites the hasher, secret included, in a way the compiler does not remove.
 * NULL is allowed. Thread safety: MT-Excl on the hasher.
 */
BG_API void bg_hasher_wipe(bg_hasher *hasher);

/*
 * Whether two hashers compute the same function. Secrets are compared in constant time.
 * Thread safety: MT-Safe.
 */
BG_API int bg_hasher_equal(const bg_hasher *a, const bg_hasher *b);

/*
 * A 64-bit value that tells hashers apart without revealing the secret: the hash of a
 * fixed string. Equal hashers have equal values; different ones differ but for a chance
 * of 2^-64.
 * Thread safety: MT-Safe.
 */
BG_API uint64_t bg_hasher_check(const bg_hasher *hasher);

/* The profile of a hasher. Thread safety: MT-Safe. */
BG_API bg_hash_profile bg_hasher_profile(const bg_hasher *hasher);

/*
 * The hash of `len` bytes at `key`; NULL is allowed when `len` is 0.
 * Thread safety: MT-Safe. Cost: see `bgbench hash`.
 */
BG_API uint64_t bg_hash_bytes(const bg_hasher *hasher, const void *key, size_t len);

/*
 * The hash of a NUL-terminated string, without its NUL.
 * Thread safety: MT-Safe.
 */
BG_API uint64_t bg_hash_str(const bg_hasher *hasher, const char *key);

/*
 * The hash of a 64-bit integer: that of its 8 bytes in little-endian order, on every
 * machine, so it equals `bg_hash_bytes` of those bytes.
 * Thread safety: MT-Safe.
 */
BG_API uint64_t bg_hash_u64(const bg_hasher *hasher, uint64_t key);

/*
 * Many at once, into `out[0..n)`: keys as (pointer, length) pairs; keys of one width
 * (1 or more bytes) that lie one after another; 64-bit integers. Each equals the single
 * call; in batches the keyed profiles run several keys side by side.
 * Thread safety: MT-Safe.
 */
BG_API void bg_hash_many(const bg_hasher *hasher, const bg_bytes *keys, size_t n,
                         uint64_t *out);
BG_API void bg_hash_many_fixed(const bg_hasher *hasher, const void *keys, size_t width,
                               size_t n, uint64_t *out);
BG_API void bg_hash_many_u64(const bg_hasher *hasher, const uint64_t *keys, size_t n,
                             uint64_t *out);

/* The name of a profile: "keyed-int". Never NULL; "unknown" for an unknown number. */
BG_API const char *bg_hash_name(bg_hash_profile profile);

#ifdef __cplusplus
}
#endif

#endif
