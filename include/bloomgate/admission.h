/*
 * admission.h - cache admission: admits only keys that have been seen before.
 *
 * Most objects that pass through a cache are requested only once. Storing them evicts
 * objects that would have been requested again. An admission filter admits a key only if
 * the key was seen recently:
 *
 *     if (!cache_get(key, len)) {
 *         fetch(key, len);
 *         if (bg_admission_admit(admission, key, len))
 *             cache_put(key, len);
 *     }
 *
 * It remembers keys in a window filter (window.h), which needs 2.8 bytes per key in the
 * window at a false-positive rate of 1%, and 1.6 bytes at 10%. A false positive admits a
 * key on its first request, which does no harm.
 *
 * Admission pays off if keys stay popular for longer than the window. docs/admission.md
 * presents measurements, including a case in which admission does not pay off.
 */
#ifndef BLOOMGATE_ADMISSION_H
#define BLOOMGATE_ADMISSION_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/filter.h"
#include "bloomgate/window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An admission filter. Opaque. */
typedef struct bg_admission bg_admission;

/* Options for creating an admission filter. */
typedef struct bg_admission_options {
    uint32_t struct_size; /* sizeof(bg_admission_options) */
    uint32_t generations; /* 2 to 64; 0 selects 4 */
    uint64_t items;  /* number of keys to remember: 2 to 4 times the cache capacity */
    double rate;     /* share of new keys that are wrongly admitted; 0 selects 0.01 */
    uint64_t length; /* clock ticks until a key is forgotten; if 0, a key is forgotten
                        after `items` calls, or up to one period later */
    uint64_t (*clock)(void *context); /* required if, and only if, `length` is set */
    void *context;                    /* argument of `clock` */
    bg_hash_spec hash;                /* all zero selects `fast` */
    const bg_allocator *allocator;    /* or NULL */
} bg_admission_options;

#define BG_ADMISSION_OPTIONS_INIT                                                      \
    {                                                                                  \
        sizeof(bg_admission_options), 0, 0, 0, 0, 0, 0, { 0, 0, 0, 0, 0, 0, 0 }, 0     \
    }

/*
 * Creates an admission filter.
 * Errors: BG_EINVAL; BG_ENOMEM. On error *admission is NULL.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_admission_create(const bg_admission_options *options,
                                                bg_admission **admission,
                                                bg_errinfo *info);

/* Frees an admission filter; NULL is allowed. Thread safety: MT-Excl. */
BG_API void bg_admission_free(bg_admission *admission);

/*
 * Returns whether to admit a key, and remembers the key. A key is admitted if it has been
 * seen before. If `admission` is NULL, every key is admitted.
 * Thread safety: MT-Safe; if two threads pass a new key at the same time, both calls may
 * return false.
 */
BG_API bool bg_admission_admit(bg_admission *admission, const void *key, size_t len);

/*
 * Decides whether to admit each key in an array, as bg_admission_admit does, and remembers the
 * keys. Returns the number of admitted keys, and sets their bits in the bitmap `admitted` unless it
 * is NULL.
 * Thread safety: same as bg_admission_admit.
 */
BG_API size_t bg_admission_admit_many(bg_admission *admission, bg_keys keys,
                                      uint64_t *admitted);

/*
 * Returns whether bg_admission_admit would admit a key, without remembering the key.
 * Thread safety: MT-Safe.
 */
BG_API bool bg_admission_would_admit(const bg_admission *admission, const void *key,
                                     size_t len);

/* See bg_admission_get_info. */
typedef struct bg_admission_info {
    uint32_t struct_size; /* sizeof(bg_admission_info), set by the caller */
    uint32_t reserved;
    uint64_t requests; /* keys passed to the bg_admission_admit functions */
    uint64_t admitted; /* keys admitted */
    uint64_t bytes;    /* size of the filter */
    uint64_t periods;  /* number of periods started */
    double rate;       /* predicted share of new keys that are wrongly admitted now */
} bg_admission_info;

/*
 * Describes an admission filter.
 * Errors: BG_EINVAL for NULL or an unknown struct_size.
 * Thread safety: MT-Safe. Cost: reads every byte of the filter.
 */
BG_API BG_MUST_CHECK bg_err bg_admission_get_info(const bg_admission *admission,
                                                  bg_admission_info *out);

#ifdef __cplusplus
}
#endif

#endif
