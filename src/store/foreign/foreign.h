/*
 * foreign.h - the description of a foreign format, and the functions that all formats share.
 *
 * Most formats store Bloom filters with k positions in m bits. They differ in their headers, in
 * the mapping from keys to positions, and in the order of bytes and words. So each format is
 * described by one struct foreign_format in a separate file. In memory, all formats use the same
 * bit order (bit i is bit i % 8 of byte i / 8), and bits are converted when they are read or
 * written. foreign.c contains the loop over positions, the memory management and the argument
 * checks.
 *
 * Rules for decoders. The input is untrusted. No byte at or beyond offset `n`, the size of the
 * input, is read. Every size is compared with the size of the input before memory is allocated.
 * Every count that a query loops over is bounded (FOREIGN_K_MAX, FOREIGN_PARTS_MAX). Redundant
 * header fields must agree. Every error includes the field, the value found, the value expected,
 * and the offset.
 */
#ifndef BGI_FOREIGN_H
#define BGI_FOREIGN_H

#include "base/bits.h"
#include "base/errinfo.h"
#include "base/memory.h"
#include "bloomgate/foreign.h"

enum { FOREIGN_K_MAX = 256, FOREIGN_PARTS_MAX = 65536 };

/* One array of bits. */
struct foreign_part {
    uint64_t bits;   /* m, the number of bits; all positions are below m */
    uint64_t bytes;  /* size in memory, at least bits / 8 */
    uint64_t offset; /* offset of the first byte in bg_foreign.bytes */
    uint64_t items;  /* number of items added, if the format stores this number */
    uint64_t design; /* design capacity in items, if the format stores it */
    double rate;     /* design rate, if the format stores it */
    double own;      /* private to the format */
    uint32_t k;
    uint32_t own_small; /* private to the format */
};

struct foreign_format;

struct bg_foreign {
    const struct foreign_format *format;
    uint32_t version;
    uint32_t keys;
    uint64_t seed;
    uint8_t secret[16];
    uint64_t extra[4]; /* private to the format */
    uint32_t count;    /* number of parts */
    struct foreign_part *parts;
    unsigned char *bytes;     /* the bits of all parts, or other format-specific data */
    uint64_t size;            /* of `bytes` */
    uint64_t most;            /* maximum value of `size`; 0 means no limit */
    struct bgi_memory memory; /* the handle, followed by `parts` and `bytes` */
    struct bgi_memory grown;  /* `parts` and `bytes` after a call to foreign_grow */
};

/* The input of a decoder; `at` is the position of the next byte. See foreign_take. */
struct foreign_input {
    const unsigned char *bytes;
    size_t n, at;
};

struct foreign_format {
    bg_foreign_format id;
    const char *name;
    uint32_t traits;
    /* Reads a filter, and calls foreign_make as soon as the sizes are known. */
    bg_err (*read)(struct foreign_input input, const bg_foreign_options *options,
                   bg_foreign **foreign, bg_errinfo *info);
    /* Creates an empty filter. The arguments have been checked. May be NULL. */
    bg_err (*create)(uint64_t items, double rate, const bg_foreign_options *options,
                     bg_foreign **foreign, bg_errinfo *info);
    /* Computes the k positions of a key in a part. NULL if the format is not a Bloom filter, in
     * which case `has` is required. */
    void (*positions)(const bg_foreign *foreign, const struct foreign_part *part,
                      const void *key, size_t len, uint64_t *to);
    /* Used instead of `positions` by formats whose lookups and adds do more than test or set k
     * bits, for example because the format counts adds. May be NULL. */
    bool (*has)(const bg_foreign *foreign, const void *key, size_t len);
    bg_err (*add)(bg_foreign *foreign, const void *key, size_t len, bg_errinfo *info);
    /* For formats that count keys: `times` returns the count of a key, and `remove` removes one
     * copy of it, or returns BG_ENOTFOUND if there is none. May be NULL. */
    uint64_t (*times)(const bg_foreign *foreign, const void *key, size_t len);
    bg_err (*remove)(bg_foreign *foreign, const void *key, size_t len);
    void (*compact)(bg_foreign *foreign); /* not NULL if `remove` is not NULL */
    /* `written` returns the size of the encoded filter, and `write` encodes it. May be NULL. */
    uint64_t (*written)(const bg_foreign *foreign);
    void (*write)(const bg_foreign *foreign, unsigned char *to);
    /* Fills in the information that cannot be computed from the parts. May be NULL. */
    void (*about)(const bg_foreign *foreign, bg_foreign_info *about);
};

/* Declares the descriptions of all formats, such as foreign_guava. */
#define FOREIGN_DECLARE(NAME, number, name)                                            \
    extern const struct foreign_format foreign_##name;
BG_FOREIGN_FORMATS(FOREIGN_DECLARE)
#undef FOREIGN_DECLARE

/* ---- For formats ------------------------------------------------------------------- */

/* Creates a handle with `count` parts and `bytes` zeroed bytes. `bytes` must exceed neither
 * options->max_bytes nor twice `input`, the size of the input. For a new filter, `input` is 0, and
 * only max_bytes applies. */
bg_err foreign_make(const struct foreign_format *format,
                    const bg_foreign_options *options, uint32_t count, uint64_t bytes,
                    uint64_t input, bg_foreign **foreign, bg_errinfo *info);

/* Enlarges a filter to `count` parts and `bytes` bytes. Existing parts and bytes keep their
 * positions, and new ones are zeroed. On error nothing is changed. */
bg_err foreign_grow(bg_foreign *foreign, uint32_t count, uint64_t bytes,
                    bg_errinfo *info);

/* Returns the next `bytes` bytes of the input, or NULL if fewer are left. */
const unsigned char *foreign_take(struct foreign_input *input, uint64_t bytes);

/* Sets a key's bits in a part. Returns whether any of these bits was not set before. */
bool foreign_part_add(const bg_foreign *foreign, const struct foreign_part *part,
                      const void *key, size_t len);

/* Reports BG_EFORMAT at an offset in the input. */
bg_err foreign_refuse(bg_errinfo *info, uint64_t offset, const char *what,
                      const char *expected, const char *found, ...)
    __attribute__((format(printf, 5, 6)));

/* Read or write numbers in little-endian (le) or big-endian (be) byte order. */
uint32_t foreign_be32(const unsigned char *p);
uint64_t foreign_be64(const unsigned char *p);
double foreign_le_double(const unsigned char *p);
void foreign_put_be32(unsigned char *p, uint32_t value);
void foreign_put_be64(unsigned char *p, uint64_t value);
void foreign_put_le_double(unsigned char *p, double value);

/* Copies 8-byte words and reverses the bytes of each word. */
void foreign_copy_swapped(unsigned char *to, const unsigned char *from, uint64_t words);

#endif
