/*
 * container.h - the layout of our files. docs/format.md says it byte by byte.
 *
 *     0            header, 4096 bytes, its own CRC-32C at the end
 *     4096         numbers, 8 bytes each; zeros up to a multiple of 4096
 *     words_at     the words of every part, zeros after each up to a multiple of 64
 *     table_at     a CRC-32C for every 64 KiB of words, 4 bytes each
 *     file_bytes
 *
 * All numbers are little-endian. The header has the recipe (kind.h), the hash function, and
 * how many numbers and bytes of words follow; where they are follows from that. Its digest,
 * XXH3 of 128 bits over header, numbers and table, stands for all there is: every byte of
 * the file is under it, directly or by the CRC of its block.
 *
 * Whether bytes can be believed is decided here and in decode.c, and nowhere else.
 */
#ifndef BGI_CONTAINER_H
#define BGI_CONTAINER_H

#include "base/bits.h"
#include "bloomgate/file.h"
#include "filter/content.h"

enum {
    CONTAINER_HEADER = 4096,
    CONTAINER_PAGE = 4096,
    CONTAINER_LINE = 64,
    CONTAINER_BLOCK = 64 << 10,
    CONTAINER_MAJOR = 1,
    CONTAINER_MINOR = 1, /* 0: without the time of a window */
    CONTAINER_KEY_ID_AT = 216,
    CONTAINER_NAME_AT = 232, /* of a custom hash */
    CONTAINER_NAME = 32,
    CONTAINER_DIGEST_AT = 264,
    CONTAINER_RESERVED_AT = 280,
    CONTAINER_METADATA_AT = 1020,
    CONTAINER_CRC_AT = 4092
};

/* absent_maybes: unknown. The filter changed while it was saved, or BG_FILE_NO_CANARIES. */
#define CONTAINER_UNASKED UINT32_MAX

#define CONTAINER_MAGIC                                                                \
    "\x89"                                                                             \
    "BGF\r\n\x1a\n"

/* X(offset, bytes, name): every number of a header but digest and CRC. */
#define CONTAINER_FIELDS(X)                                                            \
    X(8, 2, major)                                                                     \
    X(10, 2, minor)                                                                    \
    X(12, 4, header_bytes)                                                             \
    X(16, 8, file_bytes)                                                               \
    X(24, 4, kind)                                                                     \
    X(28, 4, flags)                                                                    \
    X(32, 4, width)                                                                    \
    X(36, 4, k)                                                                        \
    X(40, 8, units)                                                                    \
    X(48, 4, shards)                                                                   \
    X(52, 4, window_mode)                                                              \
    X(56, 4, window_kind)                                                              \
    X(60, 4, generations)                                                              \
    X(64, 8, items)                                                                    \
    X(72, 8, rate)                                                                     \
    X(80, 8, max_bytes)                                                                \
    X(88, 8, period_items)                                                             \
    X(96, 8, length)                                                                   \
    X(104, 8, count)                                                                   \
    X(112, 8, numbers)                                                                 \
    X(120, 8, word_bytes)                                                              \
    X(128, 4, profile)                                                                 \
    X(132, 4, numbers_crc)                                                             \
    X(136, 8, seed)                                                                    \
    X(144, 8, check)                                                                   \
    X(152, 8, generation)                                                              \
    X(160, 8, created)                                                                 \
    X(168, 4, present_canaries)                                                        \
    X(172, 4, absent_maybes)                                                           \
    X(176, 8, absent_answers)                                                          \
    X(184, 8, held)                                                                    \
    X(192, 4, metadata_bytes)                                                          \
    X(196, 4, reserved_1)                                                              \
    X(200, 8, elapsed)                                                                 \
    X(208, 8, moved)

struct container_header {
#define CONTAINER_MEMBER(offset, bytes, name) uint64_t name;
    CONTAINER_FIELDS(CONTAINER_MEMBER)
#undef CONTAINER_MEMBER
    uint8_t key_id[BG_KEY_ID_BYTES];
    char custom_name[CONTAINER_NAME];
    uint8_t digest[BG_DIGEST_BYTES];
    char metadata[BG_METADATA_MAX];
};

/* Where things are, from a header. */
struct container_layout {
    uint64_t words_at, table_at, blocks, file_bytes;
};

/* False when the sizes of a header cannot be. */
bool container_layout(const struct container_header *header,
                      struct container_layout *layout);

/* Writes a header as bytes, with the digest that it names and its CRC. */
void container_write_header(const struct container_header *header,
                            unsigned char bytes[CONTAINER_HEADER]);

/* Reads one. Everything that can be checked without the rest of the file is. */
bg_err container_read_header(const unsigned char bytes[CONTAINER_HEADER],
                             struct container_header *header, bg_errinfo *info);

/* The digest of a file: of its header but for digest and CRC, of all between header and
 * words, and of its table. */
void container_digest(const unsigned char header[CONTAINER_HEADER],
                      const struct container_layout *layout, const void *numbers,
                      const void *table, uint8_t digest[BG_DIGEST_BYTES]);

void container_digest_text(const uint8_t digest[BG_DIGEST_BYTES],
                           char text[BG_DIGEST_TEXT_BYTES]);

void container_put_recipe(struct container_header *header,
                          const struct bgi_recipe *recipe);
struct bgi_recipe container_recipe(const struct container_header *header);

/* Whether the recipe of a header is that of the filter which was made by it: nothing in it
 * was ignored, no default filled in. */
bool container_recipe_is_of(const struct container_header *header,
                            const bg_filter *filter);

/* The same as bg_canary for canaries that are never in. */
void container_absent_canary(uint64_t generation, uint32_t i,
                             uint8_t key[BG_CANARY_BYTES]);

/* Fills in what a filter says to canaries. */
void container_ask_canaries(const bg_filter *filter, struct container_header *header);

/* Whether a filter answers as its header says; and only for the canaries that were put in,
 * which are few. */
bool container_canaries_agree(const bg_filter *filter,
                              const struct container_header *header);
bool container_present_agree(const bg_filter *filter,
                             const struct container_header *header);

/* BG_EFORMAT and the like, at an offset. */
bg_err container_refuse(bg_errinfo *info, bg_err code, uint64_t offset,
                        const char *what, const char *expected, const char *found, ...)
    __attribute__((format(printf, 6, 7)));

/* Bytes of words in a file, with those between parts. */
uint64_t container_word_bytes(const bg_filter *filter);

/* Turns numbers from the machine's order of bytes to the file's, or back. */
void container_turn(uint64_t *words, uint64_t count);

/* A word of a leaf in memory as the number that the file has for it, or back. Lines are
 * made of 32-bit words, whose pairs are the other way round on big-endian machines. */
BGI_INLINE uint64_t container_word(const bg_filter *leaf, uint64_t word)
{
    const bg_kind kind = leaf->kind->id;
    bool lines = kind == BG_KIND_BLOCKED || kind == BG_KIND_SPLIT;
    return BGI_BIG_ENDIAN && lines ? bgi_rotl64(word, 32) : word;
}

/* ---- Where bytes come from, and where they go --------------------------------------- */

/* Something that can be read at any place. */
struct container_source {
    bg_err (*read)(void *context, uint64_t offset, void *to, size_t n,
                   bg_errinfo *info);
    void *context;
    uint64_t bytes;              /* that there are */
    const unsigned char *memory; /* where they are, if they are in memory; else NULL */
};

/* Something that can be written at any place; or, `in_order`, from its beginning to its end. */
struct container_sink {
    bg_err (*write)(void *context, uint64_t offset, const void *from, size_t n,
                    bg_errinfo *info);
    void *context;
    bool in_order;
};

/* Reads a header and what hangs on it (decode.c): sizes, digest, numbers and table. The
 * caller gives `front` back. */
struct container_front {
    const struct container_source *source; /* that it was read from */
    struct container_header header;
    struct container_layout layout;
    uint64_t *numbers; /* in the machine's order of bytes */
    unsigned char *table;
    unsigned char *bad; /* one for every block, 0 at first */
    struct bgi_memory memory;
};

bg_err container_read_front(const struct container_source *source,
                            struct container_front *front, bg_errinfo *info);

/* Blocks whose checksums are wrong. */
struct container_damage {
    uint64_t blocks;
    uint64_t first_offset;
    bg_errinfo first; /* what is wrong with the first */
};

/* The one decoder. With `mapping`, a map of the whole file, the filter's words are those
 * there, and no block is read; it belongs to the filter from then on. `hasher` NULL: by
 * header and options. `damage` (or NULL) is told of bad blocks, which end it unless they are
 * to be tolerated. */
bg_err container_decode(const struct container_source *source,
                        const bg_open_options *options, const bg_hasher *hasher,
                        struct bgi_mapping *mapping, struct container_damage *damage,
                        bg_filter **filter, bg_errinfo *info);

/* The same with a front that was read before. A file can be written in place at any time: a caller that uses more
 * of the header than the filter must take it from this front. */
bg_err container_decode_front(struct container_front *front,
                              const bg_open_options *options, const bg_hasher *hasher,
                              struct bgi_mapping *mapping,
                              struct container_damage *damage, bg_filter **filter,
                              bg_errinfo *info);

/* The CRC of a block as the table has it. */
uint32_t container_block_crc(const struct container_front *front, uint64_t block);

/* Whether the header tells all about the hash function: no secret, nobody's own. */
bool container_tells_hash(const struct container_header *header);

/* Whether a filter can be used where its file is mapped. */
bool container_can_map(const struct container_header *header);

/* The one encoder. The header is told as well, if `header` is not NULL. */
bg_err container_encode(const bg_filter *filter, const bg_save_options *options,
                        const struct container_sink *sink,
                        struct container_header *header, bg_errinfo *info);

/* BG_OK with the options that count, defaults for NULL. */
bg_err container_open_options(const bg_open_options *options, bg_open_options *to,
                              bg_errinfo *info);
bg_err container_save_options(const bg_save_options *options, bg_save_options *to,
                              bg_errinfo *info);

/* Whether a file that we have just written is what we wrote: front and checksums. */
bg_err container_verify_blocks(const struct container_source *source, bg_errinfo *info);

/* Everything that can be checked (verify.c). */
bg_err container_verify(const struct container_source *source,
                        const bg_open_options *options, bg_verify_report *report,
                        bg_errinfo *info);

#endif
