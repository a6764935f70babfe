/*
 * exhaustive_files.c - tests every kind of small damage to a file with more than one block of
 * words, for every filter kind. Each bit is flipped, the file is truncated to each length, and each
 * block is zeroed, replaced with every other block, and swapped with every other block. All damage
 * must be detected.
 *
 * Prints a table with the number of damaged files; `make exhaustive` copies the table into
 * TESTING.md.
 */
#include "support/adds.h"
#include "support/files.h"

#include "base/bits.h"
#include "store/container.h"

enum { EXHAUSTIVE_ITEMS = 60000 };

struct counts {
    uint64_t bytes, flips, cuts, blocks;
};

static void must_be_bad(const unsigned char *bytes, size_t n, const char *name,
                        const char *what, uint64_t at)
{
    if (bg_encoded_verify(bytes, n, NULL, NULL, NULL) == BG_OK) {
        check_fail(__FILE__, __LINE__, "%s: damage was not detected: %s %llu", name,
                   what, (unsigned long long)at);
    }
}

static unsigned char *make_file(unsigned i, size_t *n)
{
    bg_spec spec = files_spec(i);
    spec.items = spec.kind == BG_KIND_SCALABLE ? 20000 : EXHAUSTIVE_ITEMS;
    bg_filter *filter = NULL;
    if (bg_kind_traits((bg_kind)spec.kind) & BG_TRAIT_STATIC) {
        bg_builder *builder = NULL;
        CHECK_OK(bg_builder_create(&spec, &builder, NULL));
        for (uint64_t key = 0; key < EXHAUSTIVE_ITEMS; key++) {
            CHECK_OK(bg_builder_add_u64(builder, key));
        }
        CHECK_OK(bg_builder_finish(builder, &filter, NULL));
        bg_builder_free(builder);
    } else {
        filter = must_create(&spec);
        for (uint64_t key = 0; key < EXHAUSTIVE_ITEMS; key++) {
            (void)added_u64(filter, key);
        }
    }
    unsigned char *bytes = files_encode(filter, 1, n);
    bg_filter_free(filter);
    return bytes;
}

static void flip_all(unsigned char *bytes, size_t n, const char *name, struct counts *c)
{
    for (size_t bit = 0; bit < 8 * n; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        must_be_bad(bytes, n, name, "bit", bit);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        c->flips++;
    }
}

static void cut_all(const unsigned char *bytes, size_t n, const char *name,
                    struct counts *c)
{
    for (size_t length = 0; length < n; length++) {
        must_be_bad(bytes, length, name, "length", length);
        c->cuts++;
    }
}

static size_t block_size(size_t words, size_t block)
{
    size_t left = words - block * CONTAINER_BLOCK;
    return left < CONTAINER_BLOCK ? left : CONTAINER_BLOCK;
}

/* Zeroes every block, replaces it with every other block, and swaps it with every other block. */
static void move_all(const unsigned char *bytes, size_t n, const char *name,
                     struct counts *c)
{
    struct container_header header;
    struct container_layout layout;
    unsigned char *copy = line_memory(n);
    CHECK_OK(container_read_header(bytes, &header, NULL));
    CHECK(container_layout(&header, &layout));
    const size_t words = (size_t)header.word_bytes, first = (size_t)layout.words_at;
    for (size_t a = 0; a < layout.blocks; a++) {
        size_t at = first + a * CONTAINER_BLOCK;
        memcpy(copy, bytes, n);
        memset(copy + at, 0, block_size(words, a));
        if (memcmp(copy, bytes, n) != 0) { /* otherwise the block was already zero */
            must_be_bad(copy, n, name, "zeroed block", a);
            c->blocks++;
        }
        for (size_t b = 0; b < layout.blocks; b++) {
            size_t other = first + b * CONTAINER_BLOCK, size = block_size(words, a);
            size = size < block_size(words, b) ? size : block_size(words, b);
            if (a == b || memcmp(bytes + at, bytes + other, size) == 0) {
                continue;
            }
            memcpy(copy, bytes, n);
            memcpy(copy + at, bytes + other, size);
            must_be_bad(copy, n, name, "duplicated block", b);
            memcpy(copy + other, bytes + at, size);
            must_be_bad(copy, n, name, "swapped block", a);
            c->blocks += 2;
        }
    }
    free(copy);
}

TEST(exhaustive__files)
{
    struct counts all = { 0 };
    printf(
        "| file | bytes | bits flipped | truncated lengths | blocks zeroed, duplicated, "
        "swapped |\n|---|---:|---:|---:|---:|\n");
    for (unsigned i = 0; i < FILES_CASES_COUNT; i++) {
        size_t n;
        struct counts c = { 0 };
        unsigned char *bytes = make_file(i, &n);
        CHECK_OK(bg_encoded_verify(bytes, n, NULL, NULL, NULL));
        flip_all(bytes, n, files_name(i), &c);
        cut_all(bytes, n, files_name(i), &c);
        move_all(bytes, n, files_name(i), &c);
        printf("| %s | %zu | %llu | %llu | %llu |\n", files_name(i), n,
               (unsigned long long)c.flips, (unsigned long long)c.cuts,
               (unsigned long long)c.blocks);
        fflush(stdout);
        all.bytes += n;
        all.flips += c.flips;
        all.cuts += c.cuts;
        all.blocks += c.blocks;
        free(bytes);
    }
    printf("| all | %llu | %llu | %llu | %llu |\n", (unsigned long long)all.bytes,
           (unsigned long long)all.flips, (unsigned long long)all.cuts,
           (unsigned long long)all.blocks);
}
