/*
 * bloomgate_leveldb.h - filters of Bloomgate in LevelDB.
 *
 * In the place of leveldb_filterpolicy_create_bloom(10), with the same meaning:
 *
 *     leveldb_filterpolicy_t *policy = bg_leveldb_policy(10);
 *     leveldb_options_set_filter_policy(options, policy);
 *     leveldb_t *db = leveldb_open(options, "path", &error);
 *     ...
 *     leveldb_close(db);
 *     leveldb_filterpolicy_destroy(policy);
 *
 * LevelDB asks its filter policy before it reads a block, so that a get of a key that is not
 * there mostly reads nothing. At 10 bits per key its own filter is wrong about 1 absent key in
 * 100; this one is wrong about 1 in 1000, in the same memory. Or give it 7 bits per key: 1 in
 * 128, in 70 % of the memory. It is made by solving equations over all keys of a block
 * (BG_KIND_RIBBON); a Bloom filter (BG_KIND_CLASSIC) is to be had as well, which is cheaper to
 * make and somewhat better than LevelDB's. Both are read by every policy of this library,
 * whatever it makes itself.
 *
 * Databases that exist. Tables carry the name of the policy that made their filters, and
 * LevelDB ignores filters of another name: a database can be opened with this policy, with
 * LevelDB's own or with none, in any order. Nothing is misread and nothing is lost; a table
 * gets filters of the present policy when compaction writes it anew.
 *
 * In C++ use bloomgate_leveldb.hpp, a leveldb::FilterPolicy.
 *
 * Caveats
 *   - A policy must outlive every database that was opened with it.
 *   - Filters of another hash are those of another name: a database whose policy changed its
 *     seed or its secret has no filters until it is compacted.
 *   - A comparator that takes different bytes for the same key needs a filter policy that does
 *     so too. As LevelDB's own, this one works on the bytes.
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

/* The name that tables carry. With other hashing than the default, ".<check>" follows, the
 * 16 hexadecimal digits of bg_hasher_check. */
#define BG_LEVELDB_NAME "bloomgate.small.v1"

/* How filters are to be made; zero means the default. */
typedef struct bg_leveldb_options {
    uint32_t struct_size;  /* sizeof(bg_leveldb_options) */
    uint32_t kind;         /* BG_KIND_RIBBON (also BG_KIND_AUTO) or BG_KIND_CLASSIC */
    uint32_t bits_per_key; /* 1 .. 24; 0 means 10 */
    uint32_t reserved;     /* 0 */
    bg_hash_spec hash; /* all zero: `fast`, seed 0; a keyed profile if strangers choose
                          the keys */
} bg_leveldb_options;

/* For initialisation: bg_leveldb_options options = BG_LEVELDB_OPTIONS_INIT; */
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

/* ---- For LevelDB's C interface ------------------------------------------------------- */

/*
 * A policy with that many bits per key; below 1 is taken for 1, above 24 for 24. Give it back by
 * leveldb_filterpolicy_destroy. NULL if there is no memory: LevelDB then goes without filters.
 * Thread safety: MT-Safe. Cost: some allocations.
 */
BG_API leveldb_filterpolicy_t *bg_leveldb_policy(int bits_per_key);

/*
 * A policy of any options; NULL for the defaults.
 * Errors: BG_EINVAL for a size, a kind or a number of bits that is not possible, and those of
 * bg_hasher_init; BG_ENOMEM. On error *policy is NULL.
 * Thread safety: MT-Safe; so is the policy, LevelDB asks it from any thread.
 */
BG_API BG_MUST_CHECK bg_err bg_leveldb_policy_create(const bg_leveldb_options *options,
                                                     leveldb_filterpolicy_t **policy,
                                                     bg_errinfo *info);

/* ---- Without it: for wrappers --------------------------------------------------------- */

/* What makes filters and reads them. Opaque. */
typedef struct bg_leveldb_codec bg_leveldb_codec;

/* Creates one. Errors: as bg_leveldb_policy_create. Thread safety: MT-Safe. */
BG_API BG_MUST_CHECK bg_err bg_leveldb_codec_create(const bg_leveldb_options *options,
                                                    bg_leveldb_codec **codec,
                                                    bg_errinfo *info);

/* Frees it, and wipes its secret; NULL is allowed. Thread safety: MT-Excl. */
BG_API void bg_leveldb_codec_free(bg_leveldb_codec *codec);

/* The name of its filters, valid as long as the codec. Thread safety: MT-Safe. */
BG_API const char *bg_leveldb_codec_name(const bg_leveldb_codec *codec);

/*
 * The filter of n keys, in memory of malloc that the caller frees, and its length. Keys may come
 * in any order and more than once. Without keys or without memory the filter has no bytes, which
 * any key may be in; then the result may be NULL.
 * Thread safety: MT-Safe. Cost: about 100 ns per key at 37 keys, 400 at most; for a Bloom
 * filter 30.
 */
BG_API char *bg_leveldb_codec_make(const bg_leveldb_codec *codec,
                                   const char *const *keys, const size_t *lengths,
                                   size_t n, size_t *bytes);

/*
 * False: the key is certainly not among those that the filter was made of. True: it may be, or
 * the bytes are not a filter of a layout that is known, or they are damaged: one damaged byte is
 * always noticed, more of them 255 times in 256 (in filters up to 4 KiB).
 * Thread safety: MT-Safe. Cost: below 20 ns for filters of 37 keys.
 */
BG_API bool bg_leveldb_codec_may_match(const bg_leveldb_codec *codec, const char *key,
                                       size_t len, const char *filter, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
