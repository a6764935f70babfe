/*
 * bloomgate_leveldb.h - a LevelDB filter policy that uses Bloomgate filters.
 *
 * bg_leveldb_policy(10) replaces leveldb_filterpolicy_create_bloom(10). In both functions, the
 * argument is the number of bits per key:
 *
 *     leveldb_filterpolicy_t *policy = bg_leveldb_policy(10);
 *     leveldb_options_set_filter_policy(options, policy);
 *     leveldb_t *db = leveldb_open(options, "path", &error);
 *     ...
 *     leveldb_close(db);
 *     leveldb_filterpolicy_destroy(policy);
 *
 * LevelDB queries its filter policy before it reads a block, so a get for an absent key usually
 * reads nothing. At 10 bits per key, the false-positive rate of LevelDB's own filter is about 1 in
 * 100. Bloomgate's filter has a rate of 1 in 1000 in the same memory, or 1 in 128 in 70% of the
 * memory (7 bits per key). By default, filters are built by solving equations over all keys of a
 * block (BG_KIND_RIBBON). A Bloom filter (BG_KIND_CLASSIC) is also available. It is cheaper to
 * build, and its false-positive rate is somewhat lower than LevelDB's. Every Bloomgate policy reads
 * both kinds, regardless of the kind it builds.
 *
 * Existing databases. Tables store the name of the policy that built their filters, and LevelDB
 * ignores filters stored under a different name. A database can therefore be opened with this
 * policy, with LevelDB's own policy, or without a policy, in any order. Nothing is misread and
 * nothing is lost. When compaction rewrites a table, the current policy builds new filters for it.
 *
 * In C++, use bloomgate_leveldb.hpp, which defines a leveldb::FilterPolicy.
 *
 * Caveats
 *   - A policy must outlive every database that was opened with it.
 *   - The policy name depends on the hash. If you change the seed or the secret, existing filters
 *     are not used until compaction rebuilds them.
 *   - If a comparator treats keys with different bytes as equal, the filter policy must do so as
 *     well. This policy compares bytes, as LevelDB's own policy does.
 */
#ifndef BLOOMGATE_LEVELDB_H
#define BLOOMGATE_LEVELDB_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/hash.h"
#include "bloomgate/kind.h"

#include <leveldb/c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The policy name stored in tables. If the hash is not the default, the name is followed by
 * ".<check>", the 16 hexadecimal digits of bg_hasher_check.
 */
#define BG_LEVELDB_NAME "bloomgate.small.v1"

/* Options for building filters. Zero selects the default. */
typedef struct bg_leveldb_options {
    uint32_t struct_size;  /* sizeof(bg_leveldb_options) */
    uint32_t kind;         /* BG_KIND_RIBBON (also BG_KIND_AUTO) or BG_KIND_CLASSIC */
    uint32_t bits_per_key; /* 1 to 24; 0 selects 10 */
    uint32_t reserved;     /* 0 */
    bg_hash_spec hash;     /* all zero selects `fast` with seed 0; for untrusted keys,
                              use a keyed profile */
} bg_leveldb_options;

/* Initializer: bg_leveldb_options options = BG_LEVELDB_OPTIONS_INIT; */
#ifdef __cplusplus
#define BG_LEVELDB_OPTIONS_INIT                                                        \
    {                                                                                  \
        sizeof(bg_leveldb_options), 0, 0, 0,                                           \
        {                                                                              \
        }                                                                              \
    }
#else
#define BG_LEVELDB_OPTIONS_INIT                                                        \
    {                                                                                  \
        .struct_size = sizeof(bg_leveldb_options)                                      \
    }
#endif

/* ---- LevelDB's C interface ----------------------------------------------------------- */

/*
 * Creates a policy with the given number of bits per key, clamped to the range 1 to 24. Free it
 * with leveldb_filterpolicy_destroy. Returns NULL if memory runs out; LevelDB then works without
 * filters.
 * Thread safety: MT-Safe. Cost: a few allocations.
 */
BG_API leveldb_filterpolicy_t *bg_leveldb_policy(int bits_per_key);

/*
 * Creates a policy with options. NULL selects the defaults. Errors: BG_EINVAL for an invalid
 * size, kind or number of bits; BG_ENOMEM; those of bg_hasher_init. On error, *policy is NULL.
 * Thread safety: MT-Safe. LevelDB may call the policy from any thread.
 */
BG_API BG_MUST_CHECK bg_err bg_leveldb_policy_create(const bg_leveldb_options *options,
                                                     leveldb_filterpolicy_t **policy,
                                                     bg_errinfo *info);

/* ---- For wrappers, without LevelDB ---------------------------------------------------- */

/* A codec builds and queries filters. Opaque. */
typedef struct bg_leveldb_codec bg_leveldb_codec;

/* Creates a codec. Errors: those of bg_leveldb_policy_create. Thread safety: MT-Safe. */
BG_API BG_MUST_CHECK bg_err bg_leveldb_codec_create(const bg_leveldb_options *options,
                                                    bg_leveldb_codec **codec,
                                                    bg_errinfo *info);

/* Frees a codec and wipes its secret. Accepts NULL. Thread safety: MT-Excl. */
BG_API void bg_leveldb_codec_free(bg_leveldb_codec *codec);

/*
 * Returns the policy name under which the codec's filters are stored. The string is valid as long
 * as the codec. Thread safety: MT-Safe.
 */
BG_API const char *bg_leveldb_codec_name(const bg_leveldb_codec *codec);

/*
 * Builds a filter from n keys. Returns it in memory allocated with malloc, which the caller must
 * free, and sets *bytes to its length. Keys may be in any order and may be repeated. If n is 0 or
 * memory runs out, the filter is zero bytes long and matches every key; the result may then be
 * NULL.
 * Thread safety: MT-Safe. Cost: about 100 ns per key for a filter with 37 keys, and at most 400 ns
 * per key; 30 ns per key for a Bloom filter.
 */
BG_API char *bg_leveldb_codec_make(const bg_leveldb_codec *codec,
                                   const char *const *keys, const size_t *lengths,
                                   size_t n, size_t *bytes);

/*
 * Returns false if the filter was certainly not built with this key. Returns true if it may have
 * been, if the filter has an unknown layout, or if damage to the filter is detected. One
 * damaged byte is always detected. Several damaged bytes are detected with a probability of
 * 255/256 (in filters up to 4 KiB). Thread safety: MT-Safe. Cost: less than 20 ns for a filter
 * with 37 keys.
 */
BG_API bool bg_leveldb_codec_may_match(const bg_leveldb_codec *codec, const char *key,
                                       size_t len, const char *filter, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
