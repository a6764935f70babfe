/*
 * hasher.h - hash keys yourself, for example to use one hash with several filters.
 *
 *     bg_hash_spec how = { .profile = BG_HASH_KEYED, .secret = my_16_secret_bytes };
 *     bg_hasher hasher;
 *     bg_err err = bg_hasher_init(&hasher, &how, NULL);
 *     uint64_t hash = bg_hash_bytes(&hasher, "key", 3);
 *     bg_filter_may_contain_hash(filter, hash);   // a filter with the same bg_hash_spec
 */
#ifndef BLOOMGATE_HASHER_H
#define BLOOMGATE_HASHER_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/filter.h"
#include "bloomgate/hash.h"
#include "bloomgate/keys.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A prepared hash function. Its size is public so that callers can store it anywhere; its
 * content is private. A hasher includes the secret, so wipe it with bg_hasher_wipe after
 * use.
 */
typedef struct bg_hasher {
    uint64_t opaque[56];
} bg_hasher;

/*
 * Prepares a hasher. If `spec` is NULL, the defaults are used.
 * Errors: BG_EINVAL for an unknown profile, a keyed profile without a secret, or a custom
 * profile without a function or without a name of 1 to 31 bytes.
 * Thread safety: MT-Safe for different hashers. Cost: less than 1 us; about 4 us for
 * keyed-int on a CPU without AES instructions.
 */
BG_API BG_MUST_CHECK bg_err bg_hasher_init(bg_hasher *hasher, const bg_hash_spec *spec,
                                           bg_errinfo *info);

/*
 * Overwrites a hasher, including its secret, in a way that the compiler cannot optimize
 * away. NULL is allowed. Thread safety: MT-Excl on the hasher.
 */
BG_API void bg_hasher_wipe(bg_hasher *hasher);

/*
 * Returns whether two hashers compute the same function. Custom hashers must have the same
 * name, function and context. Secrets are compared in constant time. Thread safety:
 * MT-Safe.
 */
BG_API bool bg_hasher_equal(const bg_hasher *a, const bg_hasher *b);

/*
 * Returns a 64-bit number that identifies a hasher without revealing its secret: the hash of
 * a fixed string (for fast-int, the hash of that hash). Equal hashers have equal numbers;
 * different hashers have the same number with a probability of 2^-64. Thread safety: MT-Safe.
 */
BG_API uint64_t bg_hasher_check(const bg_hasher *hasher);

/* Returns the profile of a hasher. Thread safety: MT-Safe. */
BG_API bg_hash_profile bg_hasher_profile(const bg_hasher *hasher);

/* Returns the hasher of a filter. It stays valid as long as the filter. Thread safety:
 * MT-Safe. */
BG_API const bg_hasher *bg_filter_hasher(const bg_filter *filter);

/*
 * Returns the hash of `len` bytes at `key`, which may be NULL if `len` is 0.
 * Thread safety: MT-Safe. Cost: see `bgbench hash`.
 */
BG_API uint64_t bg_hash_bytes(const bg_hasher *hasher, const void *key, size_t len);

/*
 * Returns the hash of a NUL-terminated string, without its NUL. Thread safety: MT-Safe.
 */
BG_API uint64_t bg_hash_str(const bg_hasher *hasher, const char *key);

/*
 * Returns the hash of a 64-bit integer. On every machine, the result equals bg_hash_bytes
 * of the integer's 8 bytes in little-endian order. Thread safety: MT-Safe.
 */
BG_API uint64_t bg_hash_u64(const bg_hasher *hasher, uint64_t key);

/*
 * Writes the hashes of an array of keys to `out`. Each hash equals the result of the corresponding
 * single-key function. Keys that are already hashes are copied. The keyed profiles hash several
 * keys in parallel. `keys` must be a valid view: see keys.h.
 * Thread safety: MT-Safe.
 */
BG_API void bg_hash_many(const bg_hasher *hasher, bg_keys keys, uint64_t *out);

#ifdef __cplusplus
}
#endif

#endif
