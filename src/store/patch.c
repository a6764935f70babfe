/*
 * patch.c - computes the difference between two filter files as a patch, and applies a patch to a
 * file.
 *
 * In files with the same layout, corresponding blocks are at the same offsets. So a patch contains
 * only the front of the new file (header, numbers and table) and the blocks that differ. Most
 * differences are visible in the checksum tables. When a patch is created, blocks with equal
 * checksums are also compared byte by byte, because different blocks occasionally have the same
 * 32-bit checksum.
 *
 *     OFFSET  SIZE
 *     0       8     magic: 89 42 47 50 0d 0a 1a 0a
 *     8       4     version, 1
 *     12      4     CRC-32C of bytes 0 .. 11, 16 .. 63 and the list
 *     16      16    digest of the old file
 *     32      16    digest of the new file
 *     48      8     n, the number of blocks in the patch
 *     56      8     0
 *     64      8 n   the list: the block numbers, ascending
 *             -     header and numbers of the new file, up to its words
 *             -     its table
 *             -     the blocks
 *
 * The digest of the new file covers everything after the list. The new file is verified completely
 * before it gets its final name.
 */
#include "base/bits.h"
#include "base/crc32c.h"
#include "base/errinfo.h"
#include "store/disk.h"

#include <stddef.h>
#include <string.h>

static const unsigned char patch_magic[8] = { 0x89, 'B',  'G',  'P',
                                              '\r', '\n', 0x1a, '\n' };

enum { PATCH_HEADER = 64, PATCH_VERSION = 1 };

/* An open filter file and its front. */
struct patch_file {
    struct disk_file file;
    struct container_source source;
    struct container_front front;
};

static void patch_close(struct patch_file *f)
{
    bgi_memory_give(&f->front.memory);
    disk_close(&f->file);
}

static bg_err patch_open(const char *path, struct patch_file *f, bg_errinfo *info)
{
    memset(f, 0, sizeof *f);
    f->file.descriptor = -1;
    bg_err err = disk_open(path, &f->file, &f->source, info);
    return err ? err : container_read_front(&f->source, &f->front, info);
}

static bool patch_same_layout(const struct patch_file *a, const struct patch_file *b)
{
    const struct container_header *ha = &a->front.header, *hb = &b->front.header;
    /* The recipe's fields are adjacent 8-byte numbers. */
    const size_t recipe = offsetof(struct container_header, numbers)
                          - offsetof(struct container_header, kind);
    return memcmp(&ha->kind, &hb->kind, recipe) == 0
           && ha->word_bytes == hb->word_bytes;
}

static size_t patch_block_bytes(const struct container_front *front, uint64_t block)
{
    uint64_t left = front->header.word_bytes - block * CONTAINER_BLOCK;
    return left < CONTAINER_BLOCK ? (size_t)left : CONTAINER_BLOCK;
}

static uint64_t patch_block_at(const struct container_front *front, uint64_t block)
{
    return front->layout.words_at + block * CONTAINER_BLOCK;
}

/* ---- Differences ------------------------------------------------------------------------- */

bg_err bg_file_diff(const char *from, const char *to, bg_file_difference *difference,
                    bg_errinfo *info)
{
    struct patch_file a = { .file.descriptor = -1 }, b = { .file.descriptor = -1 };
    if (!difference || difference->struct_size != sizeof *difference) {
        return bgi_err(info, BG_EINVAL, "difference",
                       "a bg_file_difference with struct_size set", "%s",
                       difference ? "a different struct_size" : "NULL");
    }
    bgi_err_clear(info);
    *difference = (bg_file_difference){ .struct_size = sizeof *difference };
    bg_err err = patch_open(from, &a, info);
    err = err ? err : patch_open(to, &b, info);
    if (!err) {
        uint64_t blocks = b.front.layout.blocks, bytes = 0;
        difference->same_layout = patch_same_layout(&a, &b);
        difference->blocks = blocks;
        for (uint64_t i = 0; i < blocks; i++) {
            if (!difference->same_layout
                || container_block_crc(&a.front, i)
                       != container_block_crc(&b.front, i)) {
                difference->different++;
                bytes += 8 + patch_block_bytes(&b.front, i);
            }
        }
        difference->patch_bytes =
            PATCH_HEADER + b.front.layout.words_at + 4 * blocks + bytes;
    }
    patch_close(&a);
    patch_close(&b);
    return err;
}

/* ---- Creating a patch -------------------------------------------------------------------- */

/* Sets the `bad` flags in b for the blocks that differ from the corresponding blocks of a. `room`
 * has space for two blocks. */
static bg_err patch_compare(const struct patch_file *a, struct patch_file *b, bool same,
                            unsigned char *room, uint64_t *different, bg_errinfo *info)
{
    bg_err err = BG_OK;
    *different = 0;
    for (uint64_t i = 0; i < b->front.layout.blocks && !err; i++) {
        size_t n = patch_block_bytes(&b->front, i);
        bool differs =
            !same
            || container_block_crc(&a->front, i) != container_block_crc(&b->front, i);
        if (!differs) {
            err = disk_read((void *)(uintptr_t)&a->file, patch_block_at(&a->front, i),
                            room, n, info);
            err = err ? err
                      : disk_read(&b->file, patch_block_at(&b->front, i),
                                  room + CONTAINER_BLOCK, n, info);
            differs = !err && memcmp(room, room + CONTAINER_BLOCK, n) != 0;
        }
        b->front.bad[i] = differs;
        *different += differs;
    }
    return err;
}

/* Copies n bytes from one file to another, and advances *offset. */
static bg_err patch_copy(struct disk_file *from, uint64_t at, struct disk_file *to,
                         uint64_t *offset, uint64_t n, unsigned char *room,
                         bg_errinfo *info)
{
    bg_err err = BG_OK;
    while (n > 0 && !err) {
        size_t piece = n < CONTAINER_BLOCK ? (size_t)n : CONTAINER_BLOCK;
        err = disk_read(from, at, room, piece, info);
        err = err ? err : disk_write(to, *offset, room, piece, info);
        at += piece;
        *offset += piece;
        n -= piece;
    }
    return err;
}

static uint32_t patch_crc(const unsigned char header[PATCH_HEADER],
                          const unsigned char *list, uint64_t n)
{
    uint32_t crc = bgi_crc32c(0, header, 12);
    crc = bgi_crc32c(crc, header + 16, PATCH_HEADER - 16);
    return bgi_crc32c(crc, list, (size_t)n * 8);
}

/* Writes the patch's header and its list of block numbers. `list` must have space for n numbers. */
static bg_err patch_write_list(const struct patch_file *a, const struct patch_file *b,
                               uint64_t n, unsigned char *list, struct disk_file *to,
                               uint64_t *offset, bg_errinfo *info)
{
    unsigned char header[PATCH_HEADER] = { 0 };
    uint64_t at = 0;
    for (uint64_t i = 0; i < b->front.layout.blocks; i++) {
        if (b->front.bad[i]) {
            bgi_store_le64(list + 8 * at++, i);
        }
    }
    memcpy(header, patch_magic, sizeof patch_magic);
    bgi_store_le32(header + 8, PATCH_VERSION);
    memcpy(header + 16, a->front.header.digest, BG_DIGEST_BYTES);
    memcpy(header + 32, b->front.header.digest, BG_DIGEST_BYTES);
    bgi_store_le64(header + 48, n);
    bgi_store_le32(header + 12, patch_crc(header, list, n));
    bg_err err = disk_write(to, 0, header, sizeof header, info);
    err = err ? err : disk_write(to, sizeof header, list, (size_t)n * 8, info);
    *offset = sizeof header + n * 8;
    return err;
}

static bg_err patch_write(const struct patch_file *a, struct patch_file *b,
                          struct disk_file *to, bg_errinfo *info)
{
    struct bgi_memory memory;
    size_t bytes = 2 * (size_t)CONTAINER_BLOCK + (size_t)b->front.layout.blocks * 8;
    uint64_t n = 0, offset = 0;
    if (!bgi_memory_take(&memory, bytes, NULL, true)) {
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate %zu bytes to create the patch", bytes);
    }
    unsigned char *room = memory.base, *list = room + 2 * (size_t)CONTAINER_BLOCK;
    const struct container_layout *layout = &b->front.layout;
    bg_err err = patch_compare(a, b, patch_same_layout(a, b), room, &n, info);
    err = err ? err : patch_write_list(a, b, n, list, to, &offset, info);
    err =
        err ? err : patch_copy(&b->file, 0, to, &offset, layout->words_at, room, info);
    err = err ? err
              : patch_copy(&b->file, layout->table_at, to, &offset, 4 * layout->blocks,
                           room, info);
    for (uint64_t i = 0; i < layout->blocks && !err; i++) {
        if (b->front.bad[i]) {
            err = patch_copy(&b->file, patch_block_at(&b->front, i), to, &offset,
                             patch_block_bytes(&b->front, i), room, info);
        }
    }
    bgi_memory_give(&memory);
    return err;
}

bg_err bg_file_patch(const char *from, const char *to, const char *patch,
                     bg_errinfo *info)
{
    struct patch_file a = { .file.descriptor = -1 }, b = { .file.descriptor = -1 };
    struct disk_draft draft;
    struct container_sink sink;
    bgi_err_clear(info);
    bg_err err = patch_open(from, &a, info);
    err = err ? err : patch_open(to, &b, info);
    err = err ? err : disk_begin(&draft, patch, 0, &sink, info);
    if (!err) {
        err = patch_write(&a, &b, &draft.file, info);
        if (err) {
            disk_discard(&draft);
        } else {
            err = disk_finish(&draft, DISK_NOTHING, info);
        }
    }
    patch_close(&a);
    patch_close(&b);
    return err;
}

/* ---- Applying a patch -------------------------------------------------------------------- */

/* A patch whose header and list have been verified. */
struct patch_input {
    struct disk_file file;
    struct container_source source;
    struct container_header header; /* header of the new file */
    struct container_layout layout;
    uint64_t n;
    struct bgi_memory memory; /* the list, and space for one block */
    unsigned char *list, *room;
};

static void patch_input_close(struct patch_input *p)
{
    bgi_memory_give(&p->memory);
    disk_close(&p->file);
}

static bg_err patch_refuse(bg_errinfo *info, uint64_t offset, const char *what)
{
    return container_refuse(info, BG_EFORMAT, offset, what, "a Bloomgate patch file",
                            "an invalid value");
}

/* Checks that the block numbers ascend, that the blocks exist in the new file, and that the patch
 * has the size that these blocks require. */
static bg_err patch_check_list(const struct patch_input *p, bg_errinfo *info)
{
    uint64_t bytes =
        PATCH_HEADER + 8 * p->n + p->layout.words_at + 4 * p->layout.blocks;
    struct container_front front = { .header = p->header, .layout = p->layout };
    for (uint64_t i = 0, last = 0; i < p->n; i++) {
        uint64_t block = bgi_load_le64(p->list + 8 * i);
        if (block >= p->layout.blocks || (i && block <= last)) {
            return patch_refuse(info, PATCH_HEADER + 8 * i, "list of blocks");
        }
        bytes += patch_block_bytes(&front, block);
        last = block;
    }
    return bytes == p->source.bytes ? BG_OK
                                    : patch_refuse(info, p->source.bytes, "patch size");
}

static bg_err patch_read_list(struct patch_input *p, const unsigned char *header,
                              bg_errinfo *info)
{
    unsigned char bytes[CONTAINER_HEADER];
    uint64_t front_at = PATCH_HEADER + 8 * p->n;
    if (!bgi_memory_take(&p->memory, (size_t)p->n * 8 + CONTAINER_BLOCK, NULL, true)) {
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate %zu bytes to apply the patch",
                             (size_t)p->n * 8 + CONTAINER_BLOCK);
    }
    p->room = p->memory.base;
    p->list = p->room + CONTAINER_BLOCK;
    bg_err err = disk_read(&p->file, PATCH_HEADER, p->list, (size_t)p->n * 8, info);
    if (!err && patch_crc(header, p->list, p->n) != bgi_load_le32(header + 12)) {
        return container_state(info, BG_ECHECKSUM, 12, "patch header and list",
                               "the patch is damaged: its checksum does not match");
    }
    err = err ? err : disk_read(&p->file, front_at, bytes, sizeof bytes, info);
    err = err ? err : container_read_header(bytes, &p->header, info);
    if (err) {
        return err;
    }
    (void)container_layout(&p->header, &p->layout);
    return patch_check_list(p, info);
}

static bg_err patch_input_open(const char *path, struct patch_input *p,
                               const struct container_header *from, bg_errinfo *info)
{
    unsigned char header[PATCH_HEADER];
    memset(p, 0, sizeof *p);
    p->file.descriptor = -1;
    bg_err err = disk_open_only(path, &p->file, &p->source, info);
    if (err) {
        return err;
    }
    if (p->source.bytes < PATCH_HEADER + CONTAINER_HEADER) {
        return patch_refuse(info, p->source.bytes, "patch size");
    }
    err = disk_read(&p->file, 0, header, sizeof header, info);
    if (err) {
        return err;
    }
    p->n = bgi_load_le64(header + 48);
    if (memcmp(header, patch_magic, sizeof patch_magic) != 0) {
        return patch_refuse(info, 0, "magic");
    }
    if (bgi_load_le32(header + 8) != PATCH_VERSION) {
        return container_refuse(info, BG_EVERSION, 8, "patch version", "1", "%u",
                                bgi_load_le32(header + 8));
    }
    if (p->n > (p->source.bytes - PATCH_HEADER - CONTAINER_HEADER) / 8) {
        return patch_refuse(info, 48, "number of blocks");
    }
    err = patch_read_list(p, header, info);
    if (!err && memcmp(header + 16, from->digest, BG_DIGEST_BYTES) != 0) {
        err =
            container_state(info, BG_EINCOMPAT, 16, "file",
                            "the patch was created from a different file: the digests "
                            "differ");
    }
    if (!err && p->n < p->layout.blocks && from->word_bytes != p->header.word_bytes) {
        err = patch_refuse(info, 48, "number of blocks");
    }
    return err;
}

static bg_err patch_make_file(struct patch_file *from, struct patch_input *p,
                              struct disk_file *to, bg_errinfo *info)
{
    struct container_front front = { .header = p->header, .layout = p->layout };
    uint64_t front_at = PATCH_HEADER + 8 * p->n, offset = 0;
    uint64_t table_at = front_at + p->layout.words_at;
    uint64_t next_at = table_at + 4 * p->layout.blocks;
    bg_err err =
        patch_copy(&p->file, front_at, to, &offset, p->layout.words_at, p->room, info);
    for (uint64_t i = 0, listed = 0; i < p->layout.blocks && !err; i++) {
        size_t n = patch_block_bytes(&front, i);
        if (listed < p->n && bgi_load_le64(p->list + 8 * listed) == i) {
            err = patch_copy(&p->file, next_at, to, &offset, n, p->room, info);
            next_at += n;
            listed++;
        } else {
            err = patch_copy(&from->file, patch_block_at(&from->front, i), to, &offset,
                             n, p->room, info);
        }
    }
    return err ? err
               : patch_copy(&p->file, table_at, to, &offset, 4 * p->layout.blocks,
                            p->room, info);
}

bg_err bg_file_apply(const char *from, const char *patch, const char *to,
                     bg_errinfo *info)
{
    struct patch_file old = { .file.descriptor = -1 };
    struct patch_input input = { .file.descriptor = -1 };
    struct disk_draft draft;
    struct container_sink sink;
    bgi_err_clear(info);
    bg_err err = patch_open(from, &old, info);
    err = err ? err : patch_input_open(patch, &input, &old.front.header, info);
    err = err ? err : disk_begin(&draft, to, 0, &sink, info);
    if (!err) {
        err = patch_make_file(&old, &input, &draft.file, info);
        if (err) {
            disk_discard(&draft);
        } else {
            err = disk_finish(&draft, DISK_ALL, info);
        }
    }
    patch_input_close(&input);
    patch_close(&old);
    return err;
}
