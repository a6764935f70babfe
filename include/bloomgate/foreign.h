/*
 * foreign.h - filters of other software: read, asked, added to, written.
 *
 *     bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
 *     how.keys = BG_FOREIGN_KEYS_INT64;                  // Guava: a funnel of longs
 *     bg_foreign *f;
 *     bg_foreign_decode(BG_FOREIGN_GUAVA, bytes, n, &how, &f, &why);
 *     if (!bg_foreign_may_contain(f, &key, sizeof key)) ...
 *
 * A foreign filter keeps the geometry and the hash function of whoever made it, bit for
 * bit: what is written is what that software would have written for the same keys, where
 * docs/foreign.md says so. Most formats have no checksum, so a damaged one cannot be told
 * from a whole one; what can be checked (sizes, versions, ranges) is, before anything is
 * allocated. Once read, keep it in a file of our own, which can.
 *
 * None of these formats records how keys were turned into bytes. Where it matters for the
 * hash you have to say it (`keys`); everywhere else you pass the bytes that the other
 * software hashed.
 */
#ifndef BLOOMGATE_FOREIGN_H
#define BLOOMGATE_FOREIGN_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/filter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, number, name): the one list of formats. The numbers are frozen. */
#define BG_FOREIGN_FORMATS(X)                                                          \
    X(PARQUET, 1, parquet)                                                             \
    X(GUAVA, 2, guava)                                                                 \
    X(GO, 3, go)                                                                       \
    X(DCSO, 4, dcso)                                                                   \
    X(REDISBLOOM, 5, redisbloom)                                                       \
    X(BIP37, 6, bip37)                                                                 \
    X(BIP158, 7, bip158)                                                               \
    X(SPARK, 8, spark)                                                                 \
    X(HADOOP, 9, hadoop)                                                               \
    X(CASSANDRA, 10, cassandra)                                                        \
    X(SQUID, 11, squid)                                                                \
    X(BFV1, 12, bfv1)                                                                  \
    X(ROCKSDB, 13, rocksdb)                                                            \
    X(LEVELDB, 14, leveldb)                                                            \
    X(VALKEYBLOOM, 15, valkeybloom)                                                    \
    X(REDISCUCKOO, 16, rediscuckoo)

typedef enum bg_foreign_format {
#define BG_FOREIGN_ENUM(NAME, number, name) BG_FOREIGN_##NAME = (number),
    BG_FOREIGN_FORMATS(BG_FOREIGN_ENUM)
#undef BG_FOREIGN_ENUM
} bg_foreign_format;

/* How keys are turned into bytes before they are hashed. */
typedef enum bg_foreign_keys {
    BG_FOREIGN_KEYS_UNSPECIFIED = 0,
    BG_FOREIGN_KEYS_BYTES = 1, /* as they are; strings in UTF-8 */
    BG_FOREIGN_KEYS_UTF16 = 2, /* UTF-16 code units, low byte first */
    BG_FOREIGN_KEYS_INT32 = 3, /* 4 bytes, low byte first */
    BG_FOREIGN_KEYS_INT64 = 4  /* 8 bytes, low byte first */
} bg_foreign_keys;

/* What a format can do here. */
enum {
    BG_FOREIGN_CAN_WRITE = 1 << 0,
    BG_FOREIGN_CAN_CREATE = 1 << 1, /* an empty one, and adds */
    BG_FOREIGN_NEEDS_KEYS = 1 << 2, /* bg_foreign_options.keys must be said */
    BG_FOREIGN_CAN_REMOVE = 1 << 3  /* it counts adds, and takes them back */
};

typedef struct bg_foreign bg_foreign;

/* How to read or create one; all zero is allowed. */
typedef struct bg_foreign_options {
    uint32_t struct_size;  /* sizeof(bg_foreign_options) */
    uint32_t keys;         /* a bg_foreign_keys */
    uint32_t version;      /* of the format, where there are several: docs/foreign.md */
    uint32_t part;         /* which of several filters in a file, from 0 */
    uint64_t seed;         /* or tweak, where the format has one and one is created */
    const uint8_t *secret; /* BIP158: the 16 bytes of its key */
    uint64_t max_bytes;    /* of memory; 0: no bound but twice the size of the input */
    const bg_allocator *allocator;
} bg_foreign_options;

#define BG_FOREIGN_OPTIONS_INIT                                                        \
    {                                                                                  \
        sizeof(bg_foreign_options), 0, 0, 0, 0, 0, 0, 0                                \
    }

typedef struct bg_foreign_info {
    uint32_t struct_size; /* sizeof(bg_foreign_info) */
    uint32_t format;      /* a bg_foreign_format */
    uint32_t version;
    uint32_t keys;    /* a bg_foreign_keys, as it was said */
    uint32_t parts;   /* filters in the file, or links of a chain */
    uint32_t k;       /* bits per key, of the first part */
    uint64_t bits;    /* of all parts */
    uint64_t ones;    /* bits that are set */
    uint64_t items;   /* that were added, as far as the format tells; else 0 */
    uint64_t design;  /* what it was made for, as far as the format tells; else 0 */
    double rate;      /* at this fill */
    uint64_t removed; /* from items, as far as the format tells; else 0 */
} bg_foreign_info;

/* The name of a format, such as "guava"; NULL for an unknown number. MT-Safe. */
BG_API const char *bg_foreign_name(bg_foreign_format format);

/* The format of that name; 0 when there is none. MT-Safe. */
BG_API bg_foreign_format bg_foreign_parse(const char *name);

/* What a format can do: BG_FOREIGN_CAN_WRITE and so on. MT-Safe. */
BG_API uint32_t bg_foreign_traits(bg_foreign_format format);

/*
 * Reads a filter out of n bytes, which are not kept. Errors: BG_EFORMAT with the offset of
 * what is wrong; BG_EVERSION; BG_EINVAL when keys must be said and are not; BG_ENOMEM.
 * Thread safety: MT-Safe. Cost: one pass over the bytes.
 */
BG_API BG_MUST_CHECK bg_err bg_foreign_decode(bg_foreign_format format,
                                              const void *bytes, size_t n,
                                              const bg_foreign_options *options,
                                              bg_foreign **foreign, bg_errinfo *info);

/*
 * An empty filter with the size that the other software would choose for that many items
 * and that rate. Errors: BG_ENOTSUP unless BG_FOREIGN_CAN_CREATE; BG_EINVAL; BG_ENOMEM.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_foreign_create(bg_foreign_format format, uint64_t items,
                                              double rate,
                                              const bg_foreign_options *options,
                                              bg_foreign **foreign, bg_errinfo *info);

/* NULL is allowed. */
BG_API void bg_foreign_free(bg_foreign *foreign);

/* The allocator that it was made with, valid as long as the filter; NULL: none. */
BG_API const bg_allocator *bg_foreign_allocator(const bg_foreign *foreign);

/* Has its memory moved, as bg_filter_relocate. Thread safety: MT-Excl. */
BG_API void bg_foreign_relocate(bg_foreign **foreign, const bg_mover *mover);

/* Whether it may contain a key; false: certainly not, if the bytes were whole. */
BG_API bool bg_foreign_may_contain(const bg_foreign *foreign, const void *key,
                                   size_t len);

/* Adds a key. Errors: BG_ENOTSUP unless BG_FOREIGN_CAN_CREATE; BG_EFULL where the format
 * has a bound. Thread safety: MT-Excl. */
BG_API BG_MUST_CHECK bg_err bg_foreign_add(bg_foreign *foreign, const void *key,
                                           size_t len, bg_errinfo *info);

/*
 * Takes back one add of a key; only of a key that was added. Errors: BG_ENOTSUP unless
 * BG_FOREIGN_CAN_REMOVE; BG_ENOTFOUND: it is certainly not there. Thread safety: MT-Excl.
 */
BG_API BG_MUST_CHECK bg_err bg_foreign_remove(bg_foreign *foreign, const void *key,
                                              size_t len, bg_errinfo *info);

/*
 * Moves keys of the last parts of a chain into earlier ones that have room, and gives back parts at the
 * end that are empty then. Errors: BG_ENOTSUP unless BG_FOREIGN_CAN_REMOVE. Thread safety: MT-Excl.
 */
BG_API BG_MUST_CHECK bg_err bg_foreign_compact(bg_foreign *foreign, bg_errinfo *info);

/* How often a key may have been added, less what was removed; 0 or 1 unless the format can
 * remove. */
BG_API uint64_t bg_foreign_count(const bg_foreign *foreign, const void *key,
                                 size_t len);

/*
 * Writes it. `bytes` NULL: only says how many it takes. Errors: BG_ENOTSUP unless
 * BG_FOREIGN_CAN_WRITE; BG_EINVAL when there is no room. Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_foreign_encode(const bg_foreign *foreign, void *bytes,
                                              size_t room, size_t *written,
                                              bg_errinfo *info);

/* What is in it. Cost: one pass over its bits, which are counted. */
BG_API BG_MUST_CHECK bg_err bg_foreign_get_info(const bg_foreign *foreign,
                                                bg_foreign_info *about);

/* Bytes of its bits, in no time; 0 for NULL. */
BG_API uint64_t bg_foreign_size_bytes(const bg_foreign *foreign);

/*
 * Parquet's filters and the kind `split` under xxh64 with seed 0 are the same bits: these
 * make one of the other, a copy each. Errors: BG_ENOTSUP for other formats and kinds.
 */
BG_API BG_MUST_CHECK bg_err bg_foreign_to_filter(const bg_foreign *foreign,
                                                 bg_filter **filter, bg_errinfo *info);
BG_API BG_MUST_CHECK bg_err bg_foreign_from_filter(const bg_filter *filter,
                                                   bg_foreign **foreign,
                                                   bg_errinfo *info);

#ifdef __cplusplus
}
#endif

#endif
