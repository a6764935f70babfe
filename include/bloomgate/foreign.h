/*
 * foreign.h - read, query, extend and write filters in the formats of other software.
 *
 *     bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
 *     how.keys = BG_FOREIGN_KEYS_INT64;                  // Guava: Funnels.longFunnel()
 *     bg_foreign *f;
 *     if (bg_foreign_decode(BG_FOREIGN_GUAVA, bytes, n, &how, &f, &why))
 *         return 1;
 *     if (!bg_foreign_may_contain(f, &key, sizeof key))
 *         puts("certainly absent");
 *     bg_foreign_free(f);
 *
 * A foreign filter keeps the geometry and the hash function of the software that created
 * it, bit for bit. For the formats listed in docs/foreign.md, the output is byte-for-byte
 * identical to what the other software would have written for the same keys.
 *
 * Most formats have no checksum, so damage to the bits cannot be detected. Sizes, versions
 * and ranges are checked before memory is allocated. After reading a filter, store it in a
 * file with a checksum.
 *
 * None of these formats records how keys were converted to bytes. If the hash depends on
 * this conversion, set `keys` in the options; otherwise pass the bytes that the other
 * software hashed.
 */
#ifndef BLOOMGATE_FOREIGN_H
#define BLOOMGATE_FOREIGN_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/filter.h"
#include "bloomgate/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, number, name): the list of all formats. The numbers are permanent. */
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

/* A format. */
typedef enum bg_foreign_format {
#define BG_FOREIGN_ENUM(NAME, number, name) BG_FOREIGN_##NAME = (number),
    BG_FOREIGN_FORMATS(BG_FOREIGN_ENUM)
#undef BG_FOREIGN_ENUM
} bg_foreign_format;

/* How keys are converted to bytes before they are hashed. */
typedef enum bg_foreign_keys {
    BG_FOREIGN_KEYS_UNSPECIFIED = 0,
    BG_FOREIGN_KEYS_BYTES = 1, /* the bytes of the key; strings are in UTF-8 */
    BG_FOREIGN_KEYS_UTF16 = 2, /* UTF-16 code units, little-endian */
    BG_FOREIGN_KEYS_INT32 = 3, /* 4 bytes, little-endian */
    BG_FOREIGN_KEYS_INT64 = 4  /* 8 bytes, little-endian */
} bg_foreign_keys;

/* Traits of a format; see bg_foreign_traits. */
enum {
    BG_FOREIGN_CAN_WRITE = 1 << 0,
    BG_FOREIGN_CAN_CREATE = 1 << 1, /* can create an empty filter, and add keys */
    BG_FOREIGN_NEEDS_KEYS = 1 << 2, /* bg_foreign_options.keys is required */
    BG_FOREIGN_CAN_REMOVE = 1 << 3  /* counts adds, and can remove keys */
};

/* A foreign filter. Opaque. */
typedef struct bg_foreign bg_foreign;

/* Options for reading or creating a filter. NULL selects the defaults. */
typedef struct bg_foreign_options {
    uint32_t struct_size; /* sizeof(bg_foreign_options) */
    uint32_t keys;        /* a bg_foreign_keys */
    uint32_t version; /* format version; 0 selects the default (see docs/foreign.md) */
    uint32_t part;    /* zero-based index of a filter in a multi-filter file */
    uint64_t seed;    /* seed or tweak of a new filter, if the format has one */
    const uint8_t *secret; /* BIP158: the filter's 16-byte key */
    uint64_t max_bytes;    /* memory limit, in addition to twice the input size; 0 means
                              no limit */
    const bg_allocator *allocator; /* or NULL */
} bg_foreign_options;

#define BG_FOREIGN_OPTIONS_INIT                                                        \
    {                                                                                  \
        sizeof(bg_foreign_options), 0, 0, 0, 0, 0, 0, 0                                \
    }

/* See bg_foreign_get_info. */
typedef struct bg_foreign_info {
    uint32_t struct_size; /* sizeof(bg_foreign_info), set by the caller */
    uint32_t format;      /* a bg_foreign_format */
    uint32_t version;     /* version of the format */
    uint32_t keys;        /* a bg_foreign_keys, from the options */
    uint32_t parts;       /* number of filters in the file or links in a chain */
    uint32_t k;           /* number of bits per key in the first part */
    uint64_t bits;        /* size of all parts in bits */
    uint64_t ones;        /* number of set bits */
    uint64_t items;       /* number of keys added; 0 if the format does not record it */
    uint64_t design;      /* planned number of keys; 0 if it is not recorded */
    double rate;          /* predicted false-positive rate at this fill */
    uint64_t removed;     /* number of keys removed; 0 if it is not recorded */
} bg_foreign_info;

/*
 * Returns the name of a format, such as "guava". Never returns NULL: for an unknown
 * number, returns "unknown".
 * Thread safety: MT-Safe.
 */
BG_API const char *bg_foreign_name(bg_foreign_format format);

/*
 * Finds a format by name and stores it in *format. If there is no such format, returns
 * false and leaves *format unchanged. Thread safety: MT-Safe.
 */
BG_API bool bg_foreign_parse(const char *name, bg_foreign_format *format);

/*
 * Returns the traits of a format: BG_FOREIGN_CAN_WRITE and so on, ORed together; 0 for an
 * unknown number. Thread safety: MT-Safe.
 */
BG_API uint32_t bg_foreign_traits(bg_foreign_format format);

/*
 * Reads a filter from n bytes, which are copied.
 * Errors: BG_EFORMAT, with the offset of the error; BG_EVERSION; BG_EINVAL if options->keys
 * is required but not set; BG_ENOMEM. On error *foreign is NULL.
 * Thread safety: MT-Safe. Cost: reads the bytes once.
 */
BG_API BG_MUST_CHECK bg_err bg_foreign_decode(bg_foreign_format format,
                                              const void *bytes, size_t n,
                                              const bg_foreign_options *options,
                                              bg_foreign **foreign, bg_errinfo *info);

/*
 * Creates an empty filter of the size that the other software would choose for `items`
 * keys and the given false-positive rate.
 * Errors: BG_ENOTSUP unless the format has BG_FOREIGN_CAN_CREATE; BG_EINVAL; BG_ENOMEM. On
 * error *foreign is NULL.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_foreign_create(bg_foreign_format format, uint64_t items,
                                              double rate,
                                              const bg_foreign_options *options,
                                              bg_foreign **foreign, bg_errinfo *info);

/* Frees a filter; NULL is allowed. Thread safety: MT-Excl. */
BG_API void bg_foreign_free(bg_foreign *foreign);

/*
 * Returns the allocator that a filter was created with, or NULL if it has none. It stays
 * valid as long as the filter. Thread safety: MT-Safe.
 */
BG_API const bg_allocator *bg_foreign_allocator(const bg_foreign *foreign);

/* Moves the memory of a filter, as bg_filter_relocate does. Thread safety: MT-Excl. */
BG_API void bg_foreign_relocate(bg_foreign **foreign, const bg_mover *mover);

/*
 * Returns false if the key was certainly never added, provided that the bytes were intact,
 * and true if it may have been.
 * Thread safety: MT-Safe with respect to other queries.
 */
BG_API bool bg_foreign_may_contain(const bg_foreign *foreign, const void *key,
                                   size_t len);

/*
 * Adds a key.
 * Errors: BG_ENOTSUP unless the format has BG_FOREIGN_CAN_CREATE; BG_EFULL if the format
 * limits the number of keys and the filter is full; BG_EINVAL for a key whose length does
 * not match options->keys; BG_ENOMEM.
 * Thread safety: MT-Excl.
 */
BG_API BG_MUST_CHECK bg_err bg_foreign_add(bg_foreign *foreign, const void *key,
                                           size_t len, bg_errinfo *info);

/*
 * Reverts one add of a key. Remove only keys that were added: see bg_filter_remove.
 * Errors: BG_ENOTSUP unless the format has BG_FOREIGN_CAN_REMOVE; BG_ENOTFOUND if the key
 * is certainly not in the filter; BG_EINVAL for NULL.
 * Thread safety: MT-Excl.
 */
BG_API BG_MUST_CHECK bg_err bg_foreign_remove(bg_foreign *foreign, const void *key,
                                              size_t len, bg_errinfo *info);

/*
 * Moves keys from the last parts of a chain to earlier parts with free space, and then
 * frees empty parts at the end of the chain.
 * Errors: BG_ENOTSUP unless the format has BG_FOREIGN_CAN_REMOVE; BG_EINVAL for NULL.
 * Thread safety: MT-Excl.
 */
BG_API BG_MUST_CHECK bg_err bg_foreign_compact(bg_foreign *foreign, bg_errinfo *info);

/*
 * Returns the number of times a key may have been added, minus the number of times it was
 * removed. Formats without BG_FOREIGN_CAN_REMOVE return 0 or 1.
 * Thread safety: MT-Safe with respect to other queries.
 */
BG_API uint64_t bg_foreign_count(const bg_foreign *foreign, const void *key,
                                 size_t len);

/*
 * Writes a filter to memory. *written is set to the size of the result. `room` is the
 * number of bytes available at `bytes`. If `bytes` is NULL, only the size is computed.
 * Errors: BG_ENOTSUP unless the format has BG_FOREIGN_CAN_WRITE; BG_EINVAL if `room` is too
 * small.
 * Thread safety: MT-Safe with respect to other queries.
 */
BG_API BG_MUST_CHECK bg_err bg_foreign_encode(const bg_foreign *foreign, void *bytes,
                                              size_t room, size_t *written,
                                              bg_errinfo *info);

/*
 * Describes a filter.
 * Errors: BG_EINVAL for NULL or an unknown struct_size.
 * Thread safety: MT-Safe with respect to other queries. Cost: reads every byte to count
 * the bits.
 */
BG_API BG_MUST_CHECK bg_err bg_foreign_get_info(const bg_foreign *foreign,
                                                bg_foreign_info *out);

/*
 * Returns the size of a filter's bits in bytes; 0 for NULL. Thread safety: MT-Safe with
 * respect to other queries.
 */
BG_API uint64_t bg_foreign_size_bytes(const bg_foreign *foreign);

/*
 * Converts a Parquet filter to a new `split` filter that uses the hash profile xxh64 with
 * seed 0. The new filter has the same bits.
 * Errors: BG_ENOTSUP for other formats; BG_EINVAL; BG_ENOMEM.
 * Thread safety: MT-Safe with respect to other queries.
 */
BG_API BG_MUST_CHECK bg_err bg_foreign_to_filter(const bg_foreign *foreign,
                                                 bg_filter **filter, bg_errinfo *info);

/*
 * Converts a `split` filter that uses the hash profile xxh64 with seed 0 to a new Parquet
 * filter.
 * Errors: BG_ENOTSUP for other kinds and hashes, and for filters of 2 GiB or more;
 * BG_EINVAL; BG_ENOMEM.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_foreign_from_filter(const bg_filter *filter,
                                                   bg_foreign **foreign,
                                                   bg_errinfo *info);

#ifdef __cplusplus
}
#endif

#endif
