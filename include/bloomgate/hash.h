/*
 * hash.h - hash profiles: how key bytes become the 64-bit hash that every filter works on.
 *
 * A key is hashed once, and filters use only the hash. The hash profile of a filter
 * decides which function is used:
 *
 *   profile    function                        use it for
 *   fast       XXH3-64 with a seed             trusted keys; the default of the library
 *   fast-int   a shorter function on 8-byte    trusted integers that are looked up one at a
 *              keys, XXH3 on other lengths     time
 *   keyed      SipHash-1-3, 128-bit secret     untrusted keys
 *   keyed24    SipHash-2-4, 128-bit secret     untrusted keys, with a wider safety margin
 *   keyed-int  AES-128 on 8 and 16-byte keys,  untrusted integers, addresses and UUIDs, at
 *              SipHash-1-3 on other lengths    the speed of `fast`
 *   xxh64      XXH64 with a seed               filters shared with Parquet (seed 0)
 *   custom     your function                   anything else
 *
 *     bg_spec spec = BG_SPEC_INIT;
 *     spec.hash.profile = BG_HASH_KEYED;
 *     spec.hash.secret = my_16_secret_bytes;
 *
 * Caveats
 *   - A seed is not a secret. Key pairs that collide under XXH3 for many seeds are
 *     publicly known, and integers that collide under `fast-int` are easy to compute. So an
 *     attacker who chooses keys can create false positives in a `fast` or `fast-int` filter. Such
 *     keys can also fill the filter faster than ordinary keys would, especially if its kind keeps
 *     each key in one block. Use a keyed profile for untrusted keys.
 *   - `fast-int` hashes an integer in half the instructions of `fast`, so more lookups overlap in
 *     a loop of single lookups. Batches are faster with `fast` on CPUs with AVX-512. Version 0.1
 *     refuses files that use `fast-int`.
 *   - Two filters can be merged or compared only if they hash identically: they must have
 *     the same profile, and the same seed or secret. With `custom`, the name, the function
 *     and its context must be the same.
 *   - With 64-bit hashes, no filter with n keys has a false-positive rate below about n /
 *     2^64: 5e-11 at a billion keys.
 *   - Hashes that you compute yourself must be well mixed in all 64 bits: filters use the
 *     high bits to choose the location and the low bits to choose the bit pattern. Never
 *     pass counters, pointers, or 32-bit hashes that are widened to 64 bits.
 */
#ifndef BLOOMGATE_HASH_H
#define BLOOMGATE_HASH_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/keys.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * X(NAME, number, "name", secret): the list of hash profiles. The numbers are permanent,
 * because files store them. `secret` is 1 if the profile needs a 128-bit secret.
 */
#define BG_HASHES(X)                                                                   \
    X(FAST, 0, "fast", 0)                                                              \
    X(KEYED, 1, "keyed", 1)                                                            \
    X(KEYED24, 2, "keyed24", 1)                                                        \
    X(KEYED_INT, 3, "keyed-int", 1)                                                    \
    X(XXH64, 4, "xxh64", 0)                                                            \
    X(CUSTOM, 5, "custom", 0)                                                          \
    X(FAST_INT, 6, "fast-int", 0)

typedef enum bg_hash_profile {
#define BG_HASH_ENUM(NAME, number, text, secret) BG_HASH_##NAME = (number),
    BG_HASHES(BG_HASH_ENUM)
#undef BG_HASH_ENUM
} bg_hash_profile;

/* Size in bytes of the secret for keyed profiles. */
#define BG_SECRET_BYTES 16

/*
 * A custom hash function. Its result must depend only on its arguments and must be well
 * mixed in all 64 bits. It may be called from every thread that uses the filter.
 */
typedef uint64_t (*bg_hash_fn)(void *context, const void *key, size_t len);

/* Selects a hash function. All zero selects `fast` with seed 0. The secret is copied. */
typedef struct bg_hash_spec {
    uint32_t profile;        /* a bg_hash_profile */
    uint32_t reserved;       /* 0 */
    uint64_t seed;           /* fast, fast-int, xxh64: any number; not a secret */
    const uint8_t *secret;   /* keyed profiles: BG_SECRET_BYTES random bytes */
    bg_hash_fn custom;       /* custom: the function */
    void *custom_context;    /* custom: first argument of the function */
    const char *custom_name; /* custom: name of the function, 1 to 31 bytes; stored in
                                files to identify the function */
} bg_hash_spec;

/*
 * Returns the name of a profile, such as "keyed-int"; "unknown" for an unknown number.
 * Thread safety: MT-Safe.
 */
BG_API const char *bg_hash_name(bg_hash_profile profile);

/*
 * Finds a profile by name. If there is no such profile or the name is NULL, returns false
 * and leaves *profile unchanged. Thread safety: MT-Safe.
 */
BG_API bool bg_hash_parse(const char *name, bg_hash_profile *profile);

#ifdef __cplusplus
}
#endif

#endif
