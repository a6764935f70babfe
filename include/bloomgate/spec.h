/*
 * spec.h - what filter is wanted.
 *
 * A spec is a plain struct in which zero means "the default". Say how many keys and how
 * often a key that was never added may be answered "maybe":
 *
 *     bg_spec spec = BG_SPEC_INIT;
 *     spec.items = 10000000;
 *     spec.rate = 0.01;
 *
 * or how much memory there is (`bytes`), or how many bits per key (`bits_per_key`).
 * Sufficient are: items and one of rate, bits_per_key, bytes; or kind, bytes and k, which
 * name a geometry exactly. From there the library chooses what is left:
 * the kind, the number of bits per key and their layout (plan.h shows all of it without
 * creating anything).
 */
#ifndef BLOOMGATE_SPEC_H
#define BLOOMGATE_SPEC_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/hash.h"
#include "bloomgate/kind.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Where memory comes from. `allocate` returns `bytes` bytes, aligned to `alignment` (a
 * power of two, at most 4096), or NULL; `zeroed` tells whether they must be zero.
 * `release` takes back what `allocate` gave, with the same number of bytes.
 */
typedef struct bg_allocator {
    void *(*allocate)(void *context, size_t bytes, size_t alignment, int zeroed);
    void (*release)(void *context, void *memory, size_t bytes);
    void *context;
} bg_allocator;

/*
 * Counts the memory that the library allocates from the OS for all filters of the process, and can
 * refuse it. The library calls `take` before an allocation; if it returns 0, the operation fails
 * with BG_ENOMEM. It calls `give` after freeing memory, with the same number of bytes. Both may be
 * called by any thread. Memory of a bg_allocator and mapped files are not counted.
 */
typedef struct bg_memory_guard {
    int (*take)(void *context, size_t bytes);
    void (*give)(void *context, size_t bytes);
    void *context;
} bg_memory_guard;

/* Flags of a spec. */
enum {
    /*
     * Used by one thread at a time: no atomic instructions, so adds are faster. The
     * caller sees to it that no other thread touches the filter during an add.
     */
    BG_SPEC_EXCLUSIVE = 1u << 0,
    /*
     * Of two threads that add one key at the same instant exactly one must be told
     * "new". `auto` then picks `register`; another kind is refused.
     */
    BG_SPEC_ONE_WINNER = 1u << 1,
    /* Do not ask for 2 MiB pages. */
    BG_SPEC_SMALL_PAGES = 1u << 2,
    /*
     * counting: counters anywhere in the filter instead of in one line: an eighth less
     * memory at 1 %, but k cache lines per operation. scalable: layers of classic instead
     * of blocked filters, likewise.
     */
    BG_SPEC_SCATTERED = 1u << 3
};

/*
 * Who moves pieces of memory, see bg_filter_relocate. `move` gets a piece that an allocator gave, and
 * either leaves it where it is and returns NULL; or puts its bytes elsewhere, at a multiple of
 * `alignment` (as of allocate), frees the old place, and returns the new one, which `release` of
 * the same allocator must be able to free.
 */
typedef struct bg_mover {
    void *(*move)(void *context, void *memory, size_t bytes, size_t alignment);
    void *context;
} bg_mover;

typedef struct bg_spec {
    uint32_t struct_size; /* sizeof(bg_spec), set by BG_SPEC_INIT or bg_spec_init */
    uint32_t kind;        /* a bg_kind; BG_KIND_AUTO picks one */
    uint64_t items;       /* how many different keys, 1 .. 2^56; scalable: in the first
                             layer, it takes any number */
    double rate;          /* false-positive rate once they are in, above 0, below 1 */
    double bits_per_key;  /* instead of rate: 1 .. 1024 */
    uint64_t bytes;       /* instead of rate: size of the filter's bits; rounded down to
                             whole units of the kind (8, 32 or 64 bytes), for quotient
                             to a size with a power of two of slots */
    uint32_t k;     /* bits per key; 0 picks the best. classic, partitioned: 1..64,
                       blocked: 3..16, split: 8, register: 1..10; counting: 1..8
                       counters per key, scattered 1..32; cuckoo: 8, 12, 16 or 32 bits of
                       a fingerprint; quotient: 2..32 bits of a remainder; fuse: 8, 16
                       or 32 bits of a fingerprint; ribbon: 1..32 bits */
    uint32_t folds; /* how often it must be possible to halve it, 0 .. 20; scalable: the
                       first layer, when compacted */
    uint32_t flags; /* BG_SPEC_EXCLUSIVE and so on */
    uint32_t width; /* counting: bits of a counter, 4 (also 0), 8, 16 or 32; fuse: slots
                       of a key, 3 (also 0) or 4; scalable: how many times larger each
                       layer is than the one before, 2 (also 0), 4 or 8: fewer layers are
                       faster to ask, but the last one is emptier; else 0 */
    uint32_t shards;   /* split it by hash into so many filters that share no memory, so
                          that writers of kinds with locks or counters seldom meet: 2 ..
                          65536; 0 or 1: one piece. Not for static kinds and windows */
    uint32_t reserved; /* 0 */
    uint64_t max_bytes;            /* refuse a filter over this size; 0 = no limit */
    bg_hash_spec hash;             /* all zero: `fast`, seed 0 */
    const bg_allocator *allocator; /* NULL: the system's memory, on 2 MiB pages where it
                                      pays; it is copied, but its context must outlive
                                      the filter */
    const struct bg_window_options *window; /* window: how it moves, see window.h; it is
                                               copied. NULL: by hand */
} bg_spec;

/* For initialisation: bg_spec spec = BG_SPEC_INIT; */
#ifdef __cplusplus
#define BG_SPEC_INIT (bg_spec_default())
#else
#define BG_SPEC_INIT                                                                   \
    {                                                                                  \
        .struct_size = sizeof(bg_spec)                                                 \
    }
#endif

/*
 * The same as functions, for foreign-function interfaces and C++: fills in, or returns,
 * a spec with all defaults. Thread safety: MT-Safe on different specs.
 */
BG_API void bg_spec_init(bg_spec *spec);
BG_API bg_spec bg_spec_default(void);

/*
 * Sets the memory guard of the process; `guard` is not copied. Call it once, before any other
 * function of the library: memory allocated earlier would be freed without having been counted.
 * Thread safety: MT-Unsafe.
 */
BG_API void bg_memory_set_guard(const bg_memory_guard *guard);

#ifdef __cplusplus
}
#endif

#endif
