/*
 * bloomgate_leveldb.h - a LevelDB filter policy with Bloomgate's filters.
 *
 * Replaces leveldb_filterpolicy_create_bloom(10), with the same meaning of the number:
 *
 *     leveldb_filterpolicy_t *policy = bg_leveldb_policy(10);
 *     leveldb_options_set_filter_policy(options, policy);
 *     leveldb_t *db = leveldb_open(options, "path", &error);
 *     ...
 *     leveldb_close(db);
 *     leveldb_filterpolicy_destroy(policy);
 *
 * LevelDB queries its filter policy before it reads a block, so that a get of an absent key
 * usually reads nothing. At 10 bits per key, the false-positive rate of LevelDB's own filter is
 * about 1 in 100. Bloomgate's is 1 in 1000 with the same memory or, at 7 bits per key, 1 in 128
 * with 70% of the memory. By default, filters are built by solving equations over all keys of a
 * block (BG_KIND_RIBBON). A Bloom filter (BG_KIND_CLASSIC) is available as well, which is cheaper
 * to build and somewhat better than LevelDB's. Every policy of this library reads both kinds,
 * regardless of the kind that it builds.
 *
 * Existing databases. Tables store the name of the policy that built their filters, and LevelDB
 * ignores filters with another name. A database can therefore be opened with this policy, with
 * LevelDB's own policy, or without one, in any order. Nothing is misread and nothing is lost; a
 * table gets filters of the current policy when compaction rewrites it.
 *
 * In C++, use bloomgate_leveldb.hpp, a leveldb::FilterPolicy.
 *
 * Caveats
 *   - A policy must outlive every database that was opened with it.
 *   - The name depends on the hash: after the seed or the secret of its policy has changed, a
 *     database has no usable filters until it is compacted.
 *   - A comparator that treats different bytes as the same key needs a filter policy that does
 *     so, too. This policy compares bytes, like LevelDB's own.
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

/* The policy name stored in tables. With a hash other than the default, it is followed by
 * ".<check>", the 16 hexadecimal digits of bg_hasher_check. */
#define BG_LEVELDB_NAME "bloomgate.small.v1"

/* How filters are built. Zero selects the default. */
typedef struct bg_leveldb_options {
    uint32_t struct_size;  /* sizeof(bg_leveldb_options) */
    uint32_t kind;         /* BG_KIND_RIBBON (also BG_KIND_AUTO) or BG_KIND_CLASSIC */
    uint32_t bits_per_key; /* 1 .. 24; 0 means 10 */
    uint32_t reserved;     /* 0 */
    bg_hash_spec
        hash; /* all zero: `fast`, seed 0; use a keyed profile for untrusted keys */
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
 * Creates a policy with this many bits per key, clamped to 1 .. 24. Free it with
 * leveldb_filterpolicy_destroy. Returns NULL if memory is short: LevelDB then works without
 * filters.
 * Thread safety: MT-Safe. Cost: a few allocations.
 */
BG_API leveldb_filterpolicy_t *bg_leveldb_policy(int bits_per_key);

/*
 * Creates a policy with options. NULL selects the defaults. Errors: BG_EINVAL for an invalid
 * size, kind or number of bits; BG_ENOMEM; those of bg_hasher_init. On error, *policy is NULL.
 * Thread safety: MT-Safe; so is the policy, which LevelDB calls from any thread.
 */
BG_API BG_MUST_CHECK bg_err bg_leveldb_policy_create(const bg_leveldb_options *options,
                                                     leveldb_filterpolicy_t **policy,
                                                     bg_errinfo *info);

/* ---- For wrappers, without LevelDB ---------------------------------------------------- */

/* Builds and reads filters. Opaque. */
typedef struct bg_leveldb_codec bg_leveldb_codec;

/* Creates a codec. Errors: those of bg_leveldb_policy_create. Thread safety: MT-Safe. */
BG_API BG_MUST_CHECK bg_err bg_leveldb_codec_create(const bg_leveldb_options *options,
                                                    bg_leveldb_codec **codec,
                                                    bg_errinfo *info);

/* Frees a codec and wipes its secret. Accepts NULL. Thread safety: MT-Excl. */
BG_API void bg_leveldb_codec_free(bg_leveldb_codec *codec);

/* Returns the policy name that the codec's filters are stored under, valid as long as the codec.
 * Thread safety: MT-Safe. */
BG_API const char *bg_leveldb_codec_name(const bg_leveldb_codec *codec);

/*
 * Builds the filter of n keys. Returns it in memory from malloc, which the caller frees, and sets
 * *bytes to its length. Keys may be in any order and may repeat. Without keys, or if memory is
 * short, the filter has no bytes and matches every key; the result may then be NULL. Thread
 * safety: MT-Safe. Cost: about 100 ns per key at 37 keys, at most 400 ns; 30 ns for a Bloom
 * filter.
 */
BG_API char *bg_leveldb_codec_make(const bg_leveldb_codec *codec,
                                   const char *const *keys, const size_t *lengths,
                                   size_t n, size_t *bytes);

/*
 * Returns false if the key is definitely not among the keys of the filter. Returns true if it may
 * be, if the layout of the filter is unknown, or if the filter is damaged: one damaged byte is
 * always detected; several are detected 255 times in 256 (in filters up to 4 KiB). Thread safety:
 * MT-Safe. Cost: below 20 ns for filters of 37 keys.
 */
BG_API bool bg_leveldb_codec_may_match(const bg_leveldb_codec *codec, const char *key,
                                       size_t len, const char *filter, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
