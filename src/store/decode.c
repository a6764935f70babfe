/*
 * decode.c - decodes a filter from untrusted bytes, or rejects the bytes. This is the only decoder
 * for filter files, regardless of where the bytes come from.
 *
 * The steps are ordered so that no value is used before it is checked, and no memory is allocated
 * before its size is compared with the size of the source:
 *
 *     header     magic, CRC, version; sizes compared with each other and with the source
 *     numbers    CRC, then the digest of the header, the numbers and the table
 *     recipe     a valid geometry, with no more words than the source contains
 *     parts      layers and other parts, as described by the numbers, within these words
 *     blocks     read into the filter, and their CRCs compared
 *     state      the invariants of kinds that have a state (bgi_kind.restore)
 *     canaries   the filter gives the same answers as when it was saved
 *
 * Apart from the filter, decoding allocates only the numbers and the table. Both are parts of the
 * file, so they cannot be larger than the file, even if the file was crafted by an attacker. In a
 * file that the library wrote, they take less than 1/8 of the file's size, plus a page.
 */
#include "store/container.h"

#include "base/crc32c.h"
#include "base/errinfo.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bg_err container_open_options(const bg_open_options *options, bg_open_options *to,
                              bg_errinfo *info)
{
    static const bg_open_options usual = BG_OPEN_OPTIONS_INIT;
    *to = options ? *options : usual;
    if (to->struct_size != sizeof *to) {
        return bgi_err(info, BG_EINVAL, "struct_size",
                       "sizeof(bg_open_options): use BG_OPEN_OPTIONS_INIT", "%u",
                       to->struct_size);
    }
    if (to->flags & ~(uint32_t)BG_FILE_TOLERATE_DAMAGE || to->reserved
        || to->filter_flags & ~(uint32_t)(BG_SPEC_EXCLUSIVE | BG_SPEC_SMALL_PAGES)) {
        return bgi_err(
            info, BG_EINVAL, "flags, filter_flags, reserved",
            "only BG_FILE_TOLERATE_DAMAGE; BG_SPEC_EXCLUSIVE, BG_SPEC_SMALL_PAGES; 0",
            "0x%x, 0x%x, %u", to->flags, to->filter_flags, to->reserved);
    }
    return BG_OK;
}

/* ---- The front ------------------------------------------------------------------------- */

static bg_err decode_read(const struct container_source *source, uint64_t offset,
                          void *to, size_t n, bg_errinfo *info)
{
    if (offset > source->bytes || n > source->bytes - offset) {
        char expected[48];
        (void)snprintf(expected, sizeof expected, "at least %" PRIu64 " bytes",
                       offset + n);
        return container_refuse(info, BG_EFORMAT, source->bytes, "file size", expected,
                                "%llu bytes", (unsigned long long)source->bytes);
    }
    return source->read(source->context, offset, to, n, info);
}

static bool decode_is_zero(const unsigned char *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (p[i]) {
            return false;
        }
    }
    return true;
}

/* Checks the numbers and the table against the checksums in the header. */
static bg_err decode_check_front(const unsigned char *header_bytes,
                                 struct container_front *f, bg_errinfo *info)
{
    uint8_t digest[BG_DIGEST_BYTES];
    const unsigned char *numbers = (const unsigned char *)f->numbers;
    size_t bytes = (size_t)(f->layout.words_at - CONTAINER_HEADER);
    uint64_t used = f->header.numbers * 8;
    uint32_t crc = bgi_crc32c(0, numbers, bytes);
    if (crc != f->header.numbers_crc) {
        char expected[32];
        (void)snprintf(expected, sizeof expected, "checksum %08x",
                       (unsigned)f->header.numbers_crc);
        return container_refuse(info, BG_ECHECKSUM, CONTAINER_HEADER, "numbers",
                                expected, "checksum %08x", crc);
    }
    if (!decode_is_zero(numbers + used, bytes - used)) {
        return container_refuse(info, BG_ECHECKSUM, CONTAINER_HEADER, "numbers",
                                "zeros after the last number", "nonzero bytes");
    }
    container_digest(header_bytes, &f->layout, numbers, f->table, digest);
    if (memcmp(digest, f->header.digest, sizeof digest) != 0) {
        char text[BG_DIGEST_TEXT_BYTES], expected[BG_DIGEST_TEXT_BYTES];
        container_digest_text(digest, text);
        container_digest_text(f->header.digest, expected);
        return container_refuse(info, BG_ECHECKSUM, f->layout.table_at, "digest",
                                expected, "%s", text);
    }
    container_turn(f->numbers, f->header.numbers);
    return BG_OK;
}

bg_err container_read_front(const struct container_source *source,
                            struct container_front *f, bg_errinfo *info)
{
    unsigned char bytes[CONTAINER_HEADER];
    memset(f, 0, sizeof *f);
    f->source = source;
    bg_err err = decode_read(source, 0, bytes, sizeof bytes, info);
    err = err ? err : container_read_header(bytes, &f->header, info);
    if (err) {
        return err;
    }
    /* The layout was already checked when the header was read. */
    (void)container_layout(&f->header, &f->layout);
    if (f->layout.file_bytes != source->bytes) {
        char expected[48];
        (void)snprintf(expected, sizeof expected, "%llu bytes",
                       (unsigned long long)f->layout.file_bytes);
        return container_refuse(
            info, BG_EFORMAT,
            source->bytes < f->layout.file_bytes ? source->bytes : f->layout.file_bytes,
            "file size", expected, "%llu bytes", (unsigned long long)source->bytes);
    }
    size_t numbers = (size_t)(f->layout.words_at - CONTAINER_HEADER);
    size_t blocks = (size_t)f->layout.blocks;
    if (!bgi_memory_take(&f->memory, numbers + 5 * blocks, NULL, true)) {
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate %zu bytes for the checksums of the file",
                             numbers + 5 * blocks);
    }
    f->numbers = f->memory.base;
    f->table = (unsigned char *)f->memory.base + numbers;
    f->bad = f->table + 4 * blocks;
    err = decode_read(source, CONTAINER_HEADER, f->numbers, numbers, info);
    err =
        err ? err : decode_read(source, f->layout.table_at, f->table, 4 * blocks, info);
    err = err ? err : decode_check_front(bytes, f, info);
    if (err) {
        bgi_memory_give(&f->memory);
    }
    return err;
}

uint32_t container_block_crc(const struct container_front *front, uint64_t block)
{
    return bgi_load_le32(front->table + 4 * block);
}

/* ---- Blocks ---------------------------------------------------------------------------- */

/* The state of a decoder that reads words block by block. */
struct decoder {
    const struct container_source *source;
    const bg_open_options *options;
    struct container_front *front;
    uint64_t done; /* number of bytes read from the words so far */
    uint32_t crc;  /* CRC of the bytes read from the current block */
    struct container_damage *damage;
    bg_err err;
    bg_errinfo *info;
};

/* Records a block with a wrong checksum. */
static void decode_bad_block(struct decoder *d, uint64_t block, uint32_t wanted)
{
    bg_errinfo why = { .code = BG_OK };
    uint64_t offset = d->front->layout.words_at + block * CONTAINER_BLOCK;
    bg_err err = container_refuse_block(&why, offset, block, d->crc, wanted);
    d->front->bad[block] = 1;
    if (d->damage->blocks++ == 0) {
        d->damage->first_offset = offset;
        d->damage->first = why;
    }
    if (!(d->options->flags & BG_FILE_TOLERATE_DAMAGE)) {
        d->err = err;
        if (d->info) {
            *d->info = why;
        }
    }
}

/* Called at the end of a block. Checks the block's CRC, and reports progress. */
static void decode_end_block(struct decoder *d)
{
    uint64_t block = (d->done - 1) / CONTAINER_BLOCK;
    uint32_t wanted = container_block_crc(d->front, block);
    if (d->crc != wanted) {
        decode_bad_block(d, block, wanted);
    }
    d->crc = 0;
    if (!d->err && d->options->progress
        && !d->options->progress(d->options->context, d->done,
                                 d->front->header.word_bytes)) {
        d->err = bgi_err_state(d->info, BG_ECANCELED, "progress",
                               "the progress callback canceled the operation");
    }
}

/* Reads the next n bytes of words. */
static void decode_take(struct decoder *d, unsigned char *to, uint64_t n)
{
    while (n > 0 && !d->err) {
        uint64_t room = CONTAINER_BLOCK - d->done % CONTAINER_BLOCK;
        size_t piece = (size_t)(n < room ? n : room);
        d->err = decode_read(d->source, d->front->layout.words_at + d->done, to, piece,
                             d->info);
        if (d->err) {
            return;
        }
        d->crc = bgi_crc32c(d->crc, to, piece);
        d->done += piece;
        to += piece;
        n -= piece;
        if (d->done % CONTAINER_BLOCK == 0 || d->done == d->front->header.word_bytes) {
            decode_end_block(d);
        }
    }
}

/* Converts words from the file's byte order to the machine's byte order. */
static void decode_turn(bg_filter *leaf)
{
    for (uint64_t i = 0; BGI_BIG_ENDIAN && i < leaf->bytes / 8; i++) {
        uint64_t *word = &bgi_filter_words(leaf)[i];
        *word = container_word(leaf, bgi_le64(*word));
    }
}

static bool decode_leaf(void *context, bg_filter *leaf)
{
    struct decoder *d = context;
    unsigned char zeros[CONTAINER_LINE];
    uint64_t padding = -(uint64_t)leaf->bytes % CONTAINER_LINE, at = d->done;
    decode_take(d, leaf->core.words, leaf->bytes);
    decode_take(d, zeros, padding);
    if (!d->err && !decode_is_zero(zeros, padding)
        && !d->front->bad[(at + leaf->bytes) / CONTAINER_BLOCK]) {
        d->err = container_refuse(d->info, BG_EFORMAT,
                                  d->front->layout.words_at + at + leaf->bytes,
                                  "bytes between parts", "0", "nonzero bytes");
    }
    decode_turn(leaf);
    return !d->err;
}

/* ---- Damage ---------------------------------------------------------------------------- */

/* Sets all bits in those words of a leaf that come from damaged blocks. In most kinds, this makes
 * the affected answers "maybe". In other kinds, all words of the leaf are cleared, and decode_doubt
 * later makes every answer "maybe". */
static bool decode_blot(void *context, bg_filter *leaf)
{
    struct decoder *d = context;
    uint64_t begin = d->done, end = begin + leaf->bytes;
    bool damaged = false;
    for (uint64_t at = begin; at < end;) {
        uint64_t block = at / CONTAINER_BLOCK, stop = (block + 1) * CONTAINER_BLOCK;
        stop = stop < end ? stop : end;
        if (d->front->bad[block]) {
            damaged = true;
            memset(leaf->core.words + (at - begin), 0xff, (size_t)(stop - at));
        }
        at = stop;
    }
    if (damaged && leaf->kind->doubt) {
        memset(leaf->core.words, 0, leaf->bytes);
    }
    leaf->degraded = damaged;
    d->done = end + -(uint64_t)leaf->bytes % CONTAINER_LINE;
    return true;
}

static bool decode_doubt(void *context, bg_filter *leaf)
{
    (void)context;
    if (leaf->degraded && leaf->kind->doubt) {
        leaf->kind->doubt(&leaf->core);
    }
    return true;
}

/* ---- The filter ------------------------------------------------------------------------ */

/* Creates the hasher that a header specifies, using the secret or the function from the options. */
static bg_err decode_hasher(const struct container_header *h,
                            const bg_open_options *options, bg_hasher *hasher,
                            bg_errinfo *info)
{
    bg_hash_spec spec = { .profile = (uint32_t)h->profile, .seed = h->seed };
    if (!container_tells_hash(h)) {
        if (!options->hash) {
            return bgi_err_state(
                info, BG_EINVAL, "hash",
                "the filter uses a %s hash; set options.hash to its %s",
                bg_hash_name((bg_hash_profile)h->profile),
                h->profile == BG_HASH_CUSTOM ? "function" : "secret");
        }
        spec.secret = options->hash->secret;
        spec.custom = options->hash->custom;
        spec.custom_context = options->hash->custom_context;
        spec.custom_name = h->custom_name;
    }
    bg_err err = bg_hasher_init(hasher, &spec, info);
    if (!err && bg_hasher_check(hasher) != h->check) {
        bg_hasher_wipe(hasher);
        err =
            container_state(info, BG_EINCOMPAT, 144, "hash",
                            "the %s is not the one that the filter was created with",
                            h->profile == BG_HASH_CUSTOM ? "hash function" : "secret");
    }
    return err;
}

static bg_err decode_refuse_content(const struct container_front *front,
                                    bg_errinfo *info)
{
    return container_state(
        info, BG_EFORMAT, CONTAINER_HEADER, "content",
        "the content does not match the parameters in the header (kind %llu)",
        (unsigned long long)front->header.kind);
}

/* Returns whether a filter of the header's kind can have the header's number of shards. */
static bool decode_shards_can_be(const struct container_header *h)
{
    bool splits = h->kind != BG_KIND_WINDOW
                  && !(bg_kind_traits((bg_kind)h->kind) & BG_TRAIT_STATIC);
    return h->shards == 0 || (h->shards > 1 && splits);
}

/* Creates an empty filter, with all of its parts, as described by the header and the numbers. */
static bg_err decode_make(struct container_front *front, const bg_open_options *options,
                          const bg_hasher *hasher, uint32_t flags, bg_filter **filter,
                          bg_errinfo *info)
{
    struct bgi_recipe recipe = container_recipe(&front->header);
    uint64_t room = front->header.word_bytes;
    bg_spec spec = BG_SPEC_INIT;
    spec.flags = options->filter_flags | flags;
    spec.allocator = options->allocator;
    spec.window = options->window;
    spec.max_bytes = options->max_bytes;
    if (options->max_bytes && room > options->max_bytes) {
        return bgi_err(info, BG_ENOMEM, "size in bytes", "at most max_bytes", "%llu",
                       (unsigned long long)room);
    }
    if (!decode_shards_can_be(&front->header)) {
        return decode_refuse_content(front, info);
    }
    bg_err err = bgi_recipe_make(&recipe, &spec, hasher, room, filter, info);
    if (err) {
        return err == BG_ENOMEM ? err : decode_refuse_content(front, info);
    }
    err =
        bgi_content_restore_parts(*filter, front->numbers, front->header.numbers, room);
    if (!err
        && (container_word_bytes(*filter) != room
            || !container_recipe_is_of(&front->header, *filter))) {
        err = BG_EFORMAT;
    }
    if (err) {
        bg_filter_free(*filter);
        *filter = NULL;
    }
    return err == BG_ENOMEM ? bgi_err_state(info, err, "memory",
                                            "cannot allocate %llu bytes for the filter",
                                            (unsigned long long)room)
           : err            ? decode_refuse_content(front, info)
                            : BG_OK;
}

/* Reads the words of a filter. */
static bg_err decode_fill(struct decoder *d, bg_filter *filter)
{
    const struct container_front *front = d->front;
    (void)bgi_content_each(filter, decode_leaf, d);
    if (d->err) {
        return d->err;
    }
    if (d->damage->blocks) {
        d->done = 0;
        (void)bgi_content_each(filter, decode_blot, d);
    }
    if (!bgi_content_restore_state(filter, front->numbers, front->header.numbers)) {
        return decode_refuse_content(front, d->info);
    }
    if (d->damage->blocks) {
        (void)bgi_content_each(filter, decode_doubt, d);
        filter->degraded = true;
    }
    return BG_OK;
}

/* Makes a filter use the words in the mapping. */
static bg_err decode_place(const struct container_front *front, bg_filter *filter,
                           struct bgi_mapping *mapping, bg_errinfo *info)
{
    unsigned char *words = (unsigned char *)mapping->base + front->layout.words_at;
    (void)bgi_content_place(filter, words, CONTAINER_LINE);
    if (!bgi_content_restore_state(filter, front->numbers, front->header.numbers)) {
        return decode_refuse_content(front, info);
    }
    return BG_OK;
}

static bg_err decode_content(struct decoder *d, const bg_hasher *hasher,
                             struct bgi_mapping *mapping, bg_filter **filter)
{
    bg_filter *made = NULL;
    bg_err err = decode_make(d->front, d->options, hasher, mapping ? BGI_BARE : 0,
                             &made, d->info);
    if (err) {
        return err;
    }
    assert(made);
    err =
        mapping ? decode_place(d->front, made, mapping, d->info) : decode_fill(d, made);
    if (err) {
        bg_filter_free(made);
        return err;
    }
    if (mapping) {
        made->mapping = *mapping;
        mapping->base = NULL;
    }
    *filter = made;
    return BG_OK;
}

/* Checks the canaries. Absent canaries are skipped for mapped files, because each lookup would load
 * a page, and for damaged files, because damage increases the number of "maybe" answers. */
static bool decode_answers(const bg_filter *filter,
                           const struct container_header *header)
{
    return filter->mapping.base || filter->degraded
               ? container_present_agree(filter, header)
               : container_canaries_agree(filter, header);
}

bg_err container_decode_front(struct container_front *front,
                              const bg_open_options *options, const bg_hasher *hasher,
                              struct bgi_mapping *mapping,
                              struct container_damage *damage, bg_filter **filter,
                              bg_errinfo *info)
{
    struct container_damage unasked = { .blocks = 0 };
    bg_hasher own;
    *filter = NULL;
    bg_err err = hasher ? BG_OK : decode_hasher(&front->header, options, &own, info);
    if (!err) {
        struct decoder d = { .source = front->source,
                             .options = options,
                             .front = front,
                             .damage = damage ? damage : &unasked,
                             .info = info };
        err = decode_content(&d, hasher ? hasher : &own, mapping, filter);
    }
    if (!err && front->header.kind != BG_KIND_WINDOW) {
        (*filter)->canaries = (uint32_t)front->header.canaries;
        (*filter)->canary_generation = container_canary_generation(&front->header);
    }
    if (!err && !hasher && !decode_answers(*filter, &front->header)) {
        err = container_refuse(info, BG_EFORMAT, 168, "canaries",
                               "the answers that the filter gave when it was saved",
                               "different answers");
        bg_filter_free(*filter);
        *filter = NULL;
    }
    if (!hasher) {
        bg_hasher_wipe(&own);
    }
    return err;
}

bg_err container_decode(const struct container_source *source,
                        const bg_open_options *options, const bg_hasher *hasher,
                        struct bgi_mapping *mapping, struct container_damage *damage,
                        bg_filter **filter, bg_errinfo *info)
{
    struct container_front front;
    *filter = NULL;
    bg_err err = container_read_front(source, &front, info);
    if (!err) {
        err = container_decode_front(&front, options, hasher, mapping, damage, filter,
                                     info);
        bgi_memory_give(&front.memory);
    }
    return err;
}

bool container_can_map(const struct container_header *header)
{
    const struct bgi_kind *kind = bgi_kind_of((bg_kind)header->kind);
    if (!kind || BGI_BIG_ENDIAN) {
        return false;
    }
    bool bloom = (kind->traits & BGI_BLOOM_TRAITS) == BGI_BLOOM_TRAITS;
    return bloom || kind->traits & BG_TRAIT_STATIC || kind->id == BG_KIND_SCALABLE;
}
