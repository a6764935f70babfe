/*
 * spec.h - the description of a filter to create.
 *
 * A spec is a plain struct in which zero selects the default. Set the number of keys and the
 * false-positive rate:
 *
 *     bg_spec spec = BG_SPEC_INIT;
 *     spec.items = 10000000;
 *     spec.rate = 0.01;
 *
 * Instead of the rate you can set the memory (`bytes`) or the bits per key (`bits_per_key`).
 * `kind`, `bytes` and `k` together define a geometry exactly; the rate, if you set it as well,
 * is only the target of bg_filter_health. The library chooses whatever you do not set: the
 * kind, the number of bits per key and their layout. plan.h shows the result without creating
 * a filter.
 */
#ifndef BLOOMGATE_SPEC_H
#define BLOOMGATE_SPEC_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/hash.h"
#include "bloomgate/kind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A memory allocator. `allocate` returns `bytes` bytes aligned to `alignment` (a power of
 * two, at most 4096), or NULL; the bytes must be zero if `zeroed` is true. `release` frees
 * memory that `allocate` returned; `bytes` is the same as in the call to `allocate`.
 */
typedef struct bg_allocator {
    void *(*allocate)(void *context, size_t bytes, size_t alignment, bool zeroed);
    void (*release)(void *context, void *memory, size_t bytes);
    void *context;
} bg_allocator;

/* Flags of a spec. */
enum {
    /*
     * Only one thread at a time uses the filter, so adds use no atomic instructions and
     * are faster. The caller must ensure that no other thread uses the filter during an
     * add.
     */
    BG_SPEC_EXCLUSIVE = 1u << 0,
    /*
     * If two threads add the same key at the same time, exactly one of the adds reports
     * "new". BG_KIND_AUTO then chooses `register`; other kinds are refused.
     */
    BG_SPEC_ONE_WINNER = 1u << 1,
    /* Do not use 2 MiB pages. */
    BG_SPEC_SMALL_PAGES = 1u << 2,
    /*
     * counting: place the counters of a key anywhere in the filter instead of in one
     * line. At a rate of 1%, the filter needs an eighth less memory, but each operation
     * accesses k cache lines. scalable: use classic instead of blocked filters as layers,
     * with the same trade-off.
     */
    BG_SPEC_SCATTERED = 1u << 3
};

typedef struct bg_spec {
    uint32_t struct_size; /* sizeof(bg_spec), set by BG_SPEC_INIT or bg_spec_init */
    uint32_t kind;        /* a bg_kind; BG_KIND_AUTO lets the library choose */
    uint64_t items;       /* number of distinct keys, 1 to 2^56; scalable: capacity of
                             the first layer, beyond which the filter grows */
    double rate;          /* false-positive rate at `items` keys; above 0, below 1 */
    double bits_per_key;  /* 1 to 1024; set it instead of the rate */
    uint64_t bytes; /* size of the bits; set it instead of the rate. Rounded down to
                       whole units of the kind (8, 32 or 64 bytes); for quotient,
                       rounded down to a size whose number of slots is a power of two */
    uint32_t k;     /* bits per key; 0 selects the optimum. classic, partitioned: 1 to
                       64; blocked: 3 to 16; split: 8; register: 1 to 10; counting: 1 to
                       8 counters per key (1 to 32 if scattered); cuckoo: 8, 12, 16 or
                       32 bits per fingerprint; quotient: 2 to 32 bits per remainder;
                       fuse: 8, 16 or 32 bits per fingerprint; ribbon: 1 to 32 bits */
    uint32_t folds; /* number of times the filter can be folded, 0 to 20; for scalable,
                       applies to the first layer after bg_filter_compact */
    uint32_t flags; /* BG_SPEC_EXCLUSIVE and so on */
    uint32_t
        width; /* counting: bits per counter, 4 (default), 8, 16 or 32; fuse: positions
                  per key, 3 (default) or 4; scalable: growth factor of the layers, 2
                  (default), 4 or 8 (fewer layers are faster to query, but the last
                  layer is emptier). 0 selects the default, and is required for other
                  kinds */
    uint32_t shards; /* number of parts, 2 to 65536; 0 or 1 creates an undivided
                        filter. The hash of a key selects its part. Parts share no
                        memory, so writers of kinds with locks or counters rarely
                        collide. Not supported for static kinds and windows */
    uint32_t
        canaries; /* number of canaries (file_tools.h) that will be added. The filter
                     reserves space for them if they are more than 1% of `items`, or
                     if its kind has a fixed capacity, and does not count them as
                     keys. Ignored for windows, which forget them */
    uint64_t max_bytes; /* refuse filters above this size; 0 means no limit */
    bg_hash_spec hash;  /* all zero selects `fast` with seed 0 */
    const bg_allocator *allocator; /* NULL selects memory from the OS, in 2 MiB pages
                                      for large filters. The struct is copied, but its
                                      context must outlive the filter */
    const struct bg_window_options
        *window; /* window: how the window moves, see window.h; the struct is copied. If
                    NULL, bg_filter_rotate ends each period */
} bg_spec;

/* Initializer with all defaults: bg_spec spec = BG_SPEC_INIT; */
#ifdef __cplusplus
#define BG_SPEC_INIT (bg_spec_default())
#else
#define BG_SPEC_INIT                                                                   \
    {                                                                                  \
        .struct_size = sizeof(bg_spec)                                                 \
    }
#endif

/*
 * Fills in a spec with all defaults, for foreign-function interfaces.
 * Thread safety: MT-Safe for different specs.
 */
BG_API void bg_spec_init(bg_spec *spec);

/* Returns a spec with all defaults, for C++. Thread safety: MT-Safe. */
BG_API bg_spec bg_spec_default(void);

#ifdef __cplusplus
}
#endif

#endif
