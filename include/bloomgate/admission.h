/*
 * admission.h - who may enter a cache: what is seen for the second time.
 *
 * Most objects that pass a cache are asked for once. Storing them only drives out others
 * that would have been asked for again. The bouncer lets a key in when it was seen before,
 * not too long ago:
 *
 *     if (!cache_get(key)) {
 *         fetch(key);
 *         if (bg_admission_admit(door, key, len))
 *             cache_put(key);
 *     }
 *
 * It remembers keys in a window filter (window.h), 2.8 bytes per key of the window at 1 %
 * and 1.6 at 10 %. A false positive only admits a key at first sight.
 *
 * It pays where popularity lasts longer than the window: docs/admission.md has figures, and
 * the case in which it does not.
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

typedef struct bg_admission bg_admission;

typedef struct bg_admission_options {
    uint32_t struct_size; /* sizeof(bg_admission_options) */
    uint32_t generations; /* 2 .. 64; 0: 4 */
    uint64_t items;  /* how many keys it remembers: two to four times as many as the
                        cache has room for */
    double rate;     /* of keys admitted at first sight; 0: 0.01 */
    uint64_t length; /* forget keys after so many ticks of the clock; 0: by count,
                        after `items` calls, or up to a period more */
    uint64_t (*clock)(
        void *context); /* as in bg_window_options; with `length` only, and
                           needed there */
    void *context;
    bg_hash_spec hash; /* all zero: `fast` */
    const bg_allocator *allocator;
} bg_admission_options;

#define BG_ADMISSION_OPTIONS_INIT                                                      \
    {                                                                                  \
        sizeof(bg_admission_options), 0, 0, 0, 0, 0, 0, { 0, 0, 0, 0, 0, 0, 0 }, 0     \
    }

/* Errors: BG_EINVAL, BG_ENOMEM. */
BG_API BG_MUST_CHECK bg_err bg_admission_create(const bg_admission_options *options,
                                                bg_admission **admission,
                                                bg_errinfo *info);
BG_API void bg_admission_free(bg_admission *admission); /* NULL is allowed */

/*
 * Whether a key may enter: it was seen before. Remembers it.
 * Thread safety: MT-Safe; two threads that bring a key for the first time at the same
 * instant are both told no. NULL admits everything: a cache without a bouncer.
 */
BG_API bool bg_admission_admit(bg_admission *admission, const void *key, size_t len);

/* The same for many: returns how many may enter, and which in `admitted` unless NULL. */
BG_API size_t bg_admission_admit_many(bg_admission *admission, const bg_bytes *keys,
                                      size_t n, uint64_t *admitted);

/* Whether it would be admitted; remembers nothing. */
BG_API bool bg_admission_would_admit(const bg_admission *admission, const void *key,
                                     size_t len);

typedef struct bg_admission_info {
    uint32_t struct_size; /* sizeof(bg_admission_info) */
    uint32_t reserved;
    uint64_t asked;
    uint64_t admitted;
    uint64_t bytes;   /* of the filter */
    uint64_t periods; /* that have begun */
    double rate;      /* predicted: of keys admitted at first sight, now */
} bg_admission_info;

/* Errors: BG_EINVAL. Cost: reads every byte of the filter. */
BG_API BG_MUST_CHECK bg_err bg_admission_get_info(const bg_admission *admission,
                                                  bg_admission_info *stats);

#ifdef __cplusplus
}
#endif

#endif
