/*
 * container.h - the layout of filter files. docs/format.md specifies it byte by byte.
 *
 *     0            header, 4096 bytes, ending with its own CRC-32C
 *     4096         numbers, 8 bytes each; zero-padded to a multiple of 4096
 *     words_at     the words of every part, each zero-padded to a multiple of 64
 *     table_at     a CRC-32C for every 64 KiB of words, 4 bytes each
 *     file_bytes
 *
 * The numbers and the words are the two parts of a filter's content (filter/content.h). All values
 * are little-endian. The header contains the recipe (kind.h), the hash function, and the sizes of
 * the numbers and the words, from which all offsets are computed. The digest in the header is a
 * 128-bit XXH3 hash of the header, the numbers and the table. So the digest covers every byte of
 * the file, either directly or through a block's CRC in the table.
 *
 * Only container.c and decode.c decide whether untrusted bytes are valid.
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
    CONTAINER_MINOR =
        2, /* 1 added the time of windows, 2 the number and age of canaries */
    CONTAINER_KEY_ID_AT = 216,
    CONTAINER_NAME_AT = 232, /* name of a custom hash */
    CONTAINER_NAME = 32,
    CONTAINER_DIGEST_AT = 264,
    CONTAINER_RESERVED_AT = 288,
    CONTAINER_METADATA_AT = 1020,
    CONTAINER_CRC_AT = 4092
};

/* The value of absent_maybes if the answers to the canaries are unknown, because the filter changed
 * during the save or BG_FILE_NO_CANARIES is set. */
#define CONTAINER_UNASKED UINT32_MAX

#define CONTAINER_MAGIC                                                                \
    "\x89"                                                                             \
    "BGF\r\n\x1a\n"

/* X(offset, bytes, name) lists all numeric fields of a header, except the digest and the CRC. */
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
    X(196, 4, canaries)                                                                \
    X(200, 8, elapsed)                                                                 \
    X(208, 8, moved)                                                                   \
    X(280, 8, canary_age)

struct container_header {
#define CONTAINER_MEMBER(offset, bytes, name) uint64_t name;
    CONTAINER_FIELDS(CONTAINER_MEMBER)
#undef CONTAINER_MEMBER
    uint8_t key_id[BG_KEY_ID_BYTES];
    char custom_name[CONTAINER_NAME];
    uint8_t digest[BG_DIGEST_BYTES];
    char metadata[BG_METADATA_MAX];
};

/* The offsets computed from a header. */
struct container_layout {
    uint64_t words_at, table_at, blocks, file_bytes;
};

/* Computes the layout. Returns false if the sizes in the header are impossible. */
bool container_layout(const struct container_header *header,
                      struct container_layout *layout);

/* Writes a header as bytes, including header->digest and the CRC. */
void container_write_header(const struct container_header *header,
                            unsigned char bytes[CONTAINER_HEADER]);

/* Reads a header and checks everything that can be checked without the rest of the file. */
bg_err container_read_header(const unsigned char bytes[CONTAINER_HEADER],
                             struct container_header *header, bg_errinfo *info);

/* Computes the digest of a file, which covers its header (with the digest and the CRC set to
 * zero), all bytes between the header and the words, and the table. */
void container_digest(const unsigned char header[CONTAINER_HEADER],
                      const struct container_layout *layout, const void *numbers,
                      const void *table, uint8_t digest[BG_DIGEST_BYTES]);

void container_digest_text(const uint8_t digest[BG_DIGEST_BYTES],
                           char text[BG_DIGEST_TEXT_BYTES]);

void container_put_recipe(struct container_header *header,
                          const struct bgi_recipe *recipe);
struct bgi_recipe container_recipe(const struct container_header *header);

/* Returns whether a filter that was created from a header has exactly the header's recipe: no
 * field was ignored, and no default was filled in. */
bool container_recipe_is_of(const struct container_header *header,
                            const bg_filter *filter);

/* Computes the i-th absent canary, which is never added to the filter. For the canaries that are
 * added, see bg_canary. */
void container_absent_canary(uint64_t generation, uint32_t i,
                             uint8_t key[BG_CANARY_BYTES]);

/* Returns the generation of the present canaries, which is older than the file's generation if a
 * filter was saved with a new generation. */
uint64_t container_canary_generation(const struct container_header *header);

/* Queries the canaries and stores the answers in the header. */
void container_query_canaries(const bg_filter *filter, struct container_header *header);

/* Return whether a filter still gives the answers recorded in its header. container_canaries_agree
 * checks all canaries, and container_present_agree checks only the few canaries that were added. */
bool container_canaries_agree(const bg_filter *filter,
                              const struct container_header *header);
bool container_present_agree(const bg_filter *filter,
                             const struct container_header *header);

/* Reports an error such as BG_EFORMAT at an offset in the file. */
bg_err container_refuse(bg_errinfo *info, bg_err code, uint64_t offset,
                        const char *what, const char *expected, const char *found, ...)
    __attribute__((format(printf, 6, 7)));

/* Reports a block with a wrong checksum. */
bg_err container_refuse_block(bg_errinfo *info, uint64_t offset, uint64_t block,
                              uint32_t found, uint32_t expected);

/* Does the same as container_refuse, but the error contains a complete sentence instead of the
 * expected value and the value found. */
bg_err container_state(bg_errinfo *info, bg_err code, uint64_t offset, const char *what,
                       const char *message, ...) __attribute__((format(printf, 5, 6)));

/* Returns the size in bytes of the words in a file, including the padding after each part. */
uint64_t container_word_bytes(const bg_filter *filter);

/* Converts an array of numbers from the machine's byte order to the file's byte order, or back. */
void container_turn(uint64_t *words, uint64_t count);

/* Converts a word of a leaf, which is a filter that has words, from its form in memory to its form
 * in the file, or back. The lines of some kinds consist of 32-bit words. For these kinds, the two
 * 32-bit halves of each 64-bit word are swapped on big-endian machines. */
BGI_INLINE uint64_t container_word(const bg_filter *leaf, uint64_t word)
{
    const bg_kind kind = leaf->kind->id;
    bool lines = kind == BG_KIND_BLOCKED || kind == BG_KIND_SPLIT;
    return BGI_BIG_ENDIAN && lines ? bgi_rotl64(word, 32) : word;
}

/* ---- Sources and sinks --------------------------------------------------------------- */

/* An input that can be read at any offset. */
struct container_source {
    bg_err (*read)(void *context, uint64_t offset, void *to, size_t n,
                   bg_errinfo *info);
    void *context;
    uint64_t bytes; /* size */
    const unsigned char
        *memory; /* address of the bytes if they are in memory; else NULL */
};

/* An output that can be written at any offset or, with `in_order`, only from start to end. */
struct container_sink {
    bg_err (*write)(void *context, uint64_t offset, const void *from, size_t n,
                    bg_errinfo *info);
    void *context;
    bool in_order;
};

/* The front of a file, which is everything except the words: the header, the numbers and the
 * table. */
struct container_front {
    const struct container_source *source; /* the source that the front was read from */
    struct container_header header;
    struct container_layout layout;
    uint64_t *numbers; /* in the machine's byte order */
    unsigned char *table;
    unsigned char *bad; /* one flag for each block: damaged or, in patch.c, different */
    struct bgi_memory memory;
};

/* Reads a front and verifies its digest (decode.c). The caller must free front->memory. */
bg_err container_read_front(const struct container_source *source,
                            struct container_front *front, bg_errinfo *info);

/* Describes the blocks that have wrong checksums. */
struct container_damage {
    uint64_t blocks;
    uint64_t first_offset;
    bg_errinfo first; /* error for the first damaged block */
};

/* Decodes a filter. This is the only decoder. If `mapping` is not NULL, it must map the whole file.
 * The filter then takes ownership of the mapping and uses its words in place, and no block is read.
 * If `hasher` is NULL, a hasher is created from the header and the options. `damage`, unless
 * NULL, receives a description of the damaged blocks. Decoding stops at the first damaged block
 * unless the options tolerate damage. */
bg_err container_decode(const struct container_source *source,
                        const bg_open_options *options, const bg_hasher *hasher,
                        struct bgi_mapping *mapping, struct container_damage *damage,
                        bg_filter **filter, bg_errinfo *info);

/* Does the same as container_decode, but uses a front that has already been read. Another process
 * can modify the file in place at any time, so a caller that also needs header fields must take
 * them from this front. */
bg_err container_decode_front(struct container_front *front,
                              const bg_open_options *options, const bg_hasher *hasher,
                              struct bgi_mapping *mapping,
                              struct container_damage *damage, bg_filter **filter,
                              bg_errinfo *info);

/* Returns a block's CRC from the table. */
uint32_t container_block_crc(const struct container_front *front, uint64_t block);

/* Returns whether the header fully specifies the hash function, which is the case if it is neither
 * keyed nor custom. */
bool container_tells_hash(const struct container_header *header);

/* Returns whether a filter with this header can be used in place in a mapped file. */
bool container_can_map(const struct container_header *header);

/* Encodes a filter. This is the only encoder. Copies the header that was written to `header`,
 * unless `header` is NULL. */
bg_err container_encode(const bg_filter *filter, const bg_save_options *options,
                        const struct container_sink *sink,
                        struct container_header *header, bg_errinfo *info);

/* Check the options and copy them to `to`. NULL selects the defaults. */
bg_err container_open_options(const bg_open_options *options, bg_open_options *to,
                              bg_errinfo *info);
bg_err container_save_options(const bg_save_options *options, bg_save_options *to,
                              bg_errinfo *info);

/* Verifies the front and the block checksums of a file that has just been written. */
bg_err container_verify_blocks(const struct container_source *source, bg_errinfo *info);

/* Verifies everything in a file that can be checked without its keys (verify.c). */
bg_err container_verify(const struct container_source *source,
                        const bg_open_options *options, bg_verify_report *report,
                        bg_errinfo *info);

#endif
