/*
 * foreign.h - what a foreign format has to describe, and what all of them share.
 *
 * Most are Bloom filters with k positions in m bits, and differ in three things: their
 * header, how a key becomes positions, and in which order bytes and words stand. So a
 * format is one struct foreign_format in a file of its own; bits are kept in one order
 * here (bit i is bit i % 8 of byte i / 8) and turned at the border; and the loop over
 * positions, the memory and the checks of arguments are in foreign.c, once.
 *
 * Rules for decoders. Bytes come from strangers: nothing is read beyond `n`; every size is
 * compared with what is there before anything is allocated; every count that a query loops
 * over is bounded (FOREIGN_K_MAX, FOREIGN_PARTS_MAX); what a header says twice must agree.
 * An error names the field, what was found and expected, and the offset.
 */
#ifndef BGI_FOREIGN_H
#define BGI_FOREIGN_H

#include "base/errinfo.h"
#include "base/memory.h"
#include "bloomgate/foreign.h"

enum { FOREIGN_K_MAX = 256, FOREIGN_PARTS_MAX = 65536 };

/* One array of bits. */
struct foreign_part {
    uint64_t bits;   /* m: positions are below it */
    uint64_t bytes;  /* of memory, at least bits / 8 */
    uint64_t offset; /* of its first byte in bg_foreign.bytes */
    uint64_t items;  /* added, if the format tells */
    uint64_t design; /* items it was made for, if the format tells */
    double rate;     /* and the rate, if the format tells */
    double own;      /* the format's own */
    uint32_t k;
    uint32_t own_small; /* the format's own */
};

struct foreign_format;

struct bg_foreign {
    const struct foreign_format *format;
    uint32_t version;
    uint32_t keys;
    uint64_t seed;
    uint8_t secret[16];
    uint64_t extra[4]; /* the format's own */
    uint32_t count;    /* of parts */
    struct foreign_part *parts;
    unsigned char *bytes;     /* the bits of all parts, or what the format keeps */
    uint64_t size;            /* of `bytes` */
    uint64_t most;            /* that `size` may become; 0: no bound */
    struct bgi_memory memory; /* of all of it, the handle first */
    struct bgi_memory grown;  /* parts and bytes, once foreign_grow was called */
};

/* Bytes that are still to be read, for decoders: see foreign_take. */
struct foreign_input {
    const unsigned char *bytes;
    size_t n, at;
};

struct foreign_format {
    bg_foreign_format id;
    const char *name;
    uint32_t traits;
    /* Reads bytes; makes the filter by foreign_make once it knows the sizes. */
    bg_err (*read)(struct foreign_input input, const bg_foreign_options *options,
                   bg_foreign **foreign, bg_errinfo *info);
    /* An empty one; arguments are checked. Or NULL. */
    bg_err (*create)(uint64_t items, double rate, const bg_foreign_options *options,
                     bg_foreign **foreign, bg_errinfo *info);
    /* Bloom filters: the k positions of a key in a part; or NULL, and then ... */
    void (*positions)(const bg_foreign *foreign, const struct foreign_part *part,
                      const void *key, size_t len, uint64_t *to);
    /* ... or where k positions do not say it all, such as where adds are counted: */
    bool (*has)(const bg_foreign *foreign, const void *key, size_t len);
    bg_err (*add)(bg_foreign *foreign, const void *key, size_t len, bg_errinfo *info);
    /* Formats that count: how often, and one less (BG_ENOTFOUND). Or NULL. */
    uint64_t (*times)(const bg_foreign *foreign, const void *key, size_t len);
    bg_err (*remove)(bg_foreign *foreign, const void *key, size_t len);
    void (*compact)(bg_foreign *foreign); /* not NULL if `remove` is not */
    /* Size of what `write` writes, and that. Or NULL. */
    uint64_t (*written)(const bg_foreign *foreign);
    void (*write)(const bg_foreign *foreign, unsigned char *to);
    /* Corrects what the parts do not say. Or NULL. */
    void (*about)(const bg_foreign *foreign, bg_foreign_info *about);
};

/* Every format's description, foreign_guava and so on. */
#define FOREIGN_DECLARE(NAME, number, name)                                            \
    extern const struct foreign_format foreign_##name;
BG_FOREIGN_FORMATS(FOREIGN_DECLARE)
#undef FOREIGN_DECLARE

/* ---- For formats ------------------------------------------------------------------- */

/* A handle with `count` parts and `bytes` zeroed bytes, compared with options->max_bytes and
 * with twice `input`, the size of what is being read (0: something is being created). */
bg_err foreign_make(const struct foreign_format *format,
                    const bg_foreign_options *options, uint32_t count, uint64_t bytes,
                    uint64_t input, bg_foreign **foreign, bg_errinfo *info);

/* Room for `count` parts and `bytes` bytes in all: what is there keeps its place, what is
 * new is zero. On an error nothing has changed. */
bg_err foreign_grow(bg_foreign *foreign, uint32_t count, uint64_t bytes,
                    bg_errinfo *info);

/* The next `bytes` bytes of the input; NULL when there are not as many. */
const unsigned char *foreign_take(struct foreign_input *input, uint64_t bytes);

/* Sets a key's bits in a part; returns whether one of them was missing. */
bool foreign_part_add(const bg_foreign *foreign, const struct foreign_part *part,
                      const void *key, size_t len);

/* BG_EFORMAT at an offset. */
bg_err foreign_refuse(bg_errinfo *info, uint64_t offset, const char *what,
                      const char *expected, const char *found, ...)
    __attribute__((format(printf, 5, 6)));

/* Numbers in bytes. */
uint32_t foreign_le32(const unsigned char *p);
uint64_t foreign_le64(const unsigned char *p);
uint32_t foreign_be32(const unsigned char *p);
uint64_t foreign_be64(const unsigned char *p);
double foreign_le_double(const unsigned char *p);
void foreign_put_le32(unsigned char *p, uint32_t value);
void foreign_put_le64(unsigned char *p, uint64_t value);
void foreign_put_be32(unsigned char *p, uint32_t value);
void foreign_put_be64(unsigned char *p, uint64_t value);
void foreign_put_le_double(unsigned char *p, double value);

/* Copies words of 8 bytes, the bytes of each in reverse order. */
void foreign_copy_swapped(unsigned char *to, const unsigned char *from, uint64_t words);

#endif
