#include "store/container.h"

#include "base/checked.h"
#include "base/crc32c.h"
#include "base/errinfo.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- Numbers as bytes ----------------------------------------------------------------- */

static uint64_t container_get(const unsigned char *p, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) {
        value |= (uint64_t)p[i] << 8 * i;
    }
    return value;
}

static void container_put(unsigned char *p, unsigned bytes, uint64_t value)
{
    for (unsigned i = 0; i < bytes; i++) {
        p[i] = (unsigned char)(value >> 8 * i);
    }
}

static uint64_t container_bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double container_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void container_turn(uint64_t *words, uint64_t count)
{
    for (uint64_t i = 0; BGI_BIG_ENDIAN && i < count; i++) {
        words[i] = bgi_le64(words[i]);
    }
}

bg_err container_state(bg_errinfo *info, bg_err code, uint64_t offset, const char *what,
                       const char *message, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, message);
    (void)vsnprintf(text, sizeof text, message, arguments);
    va_end(arguments);
    (void)bgi_err_state(info, code, what, "%s", text);
    if (info) {
        info->offset = offset;
    }
    return code;
}

bg_err container_refuse(bg_errinfo *info, bg_err code, uint64_t offset,
                        const char *what, const char *expected, const char *found, ...)
{
    char text[64];
    va_list arguments;
    va_start(arguments, found);
    (void)vsnprintf(text, sizeof text, found, arguments);
    va_end(arguments);
    (void)bgi_err(info, code, what, expected, "%s", text);
    if (info) {
        info->offset = offset;
    }
    return code;
}

bg_err container_refuse_block(bg_errinfo *info, uint64_t offset, uint64_t block,
                              uint32_t found, uint32_t expected)
{
    char text[32];
    (void)snprintf(text, sizeof text, "checksum %08x", expected);
    return container_refuse(info, BG_ECHECKSUM, offset, "block", text,
                            "checksum %08x in block %llu", found,
                            (unsigned long long)block);
}

/* ---- Layout --------------------------------------------------------------------------- */

bool container_layout(const struct container_header *header,
                      struct container_layout *layout)
{
    uint64_t numbers, words = header->word_bytes;
    *layout = (struct container_layout){ .blocks = words / CONTAINER_BLOCK
                                                   + (words % CONTAINER_BLOCK != 0) };
    return words % CONTAINER_LINE == 0 && words > 0
           && bgi_mul_u64(header->numbers, 8, &numbers)
           && bgi_round_up_u64(numbers, CONTAINER_PAGE, &numbers)
           && bgi_add_u64(CONTAINER_HEADER, numbers, &layout->words_at)
           && bgi_add_u64(layout->words_at, words, &layout->table_at)
           && bgi_add_u64(layout->table_at, 4 * layout->blocks, &layout->file_bytes);
}

static bool container_sum(void *context, bg_filter *leaf)
{
    uint64_t *sum = context;
    *sum += leaf->bytes + -(uint64_t)leaf->bytes % CONTAINER_LINE;
    return true;
}

uint64_t container_word_bytes(const bg_filter *filter)
{
    uint64_t sum = 0;
    (void)bgi_content_each(filter, container_sum, &sum);
    return sum;
}

/* ---- Headers -------------------------------------------------------------------------- */

/* Writes all fields of a header except the digest and the CRC. */
static void container_fill(const struct container_header *header, unsigned char *bytes)
{
    memset(bytes, 0, CONTAINER_HEADER);
    memcpy(bytes, CONTAINER_MAGIC, 8); /* NOLINT(bugprone-not-null-terminated-result) */
#define CONTAINER_PUT(offset, size, name)                                              \
    container_put(bytes + (offset), (size), header->name);
    CONTAINER_FIELDS(CONTAINER_PUT)
#undef CONTAINER_PUT
    memcpy(bytes + CONTAINER_KEY_ID_AT, header->key_id, BG_KEY_ID_BYTES);
    memcpy(bytes + CONTAINER_NAME_AT, header->custom_name, CONTAINER_NAME);
    memcpy(bytes + CONTAINER_METADATA_AT, header->metadata,
           (size_t)header->metadata_bytes);
}

void container_write_header(const struct container_header *header,
                            unsigned char bytes[CONTAINER_HEADER])
{
    container_fill(header, bytes);
    memcpy(bytes + CONTAINER_DIGEST_AT, header->digest, BG_DIGEST_BYTES);
    container_put(bytes + CONTAINER_CRC_AT, 4, bgi_crc32c(0, bytes, CONTAINER_CRC_AT));
}

void container_digest(const unsigned char header[CONTAINER_HEADER],
                      const struct container_layout *layout, const void *numbers,
                      const void *table, uint8_t digest[BG_DIGEST_BYTES])
{
    unsigned char bytes[CONTAINER_HEADER];
    XXH3_state_t state;
    memcpy(bytes, header, sizeof bytes);
    memset(bytes + CONTAINER_DIGEST_AT, 0, BG_DIGEST_BYTES);
    memset(bytes + CONTAINER_CRC_AT, 0, 4);
    (void)XXH3_128bits_reset(&state);
    (void)XXH3_128bits_update(&state, bytes, sizeof bytes);
    (void)XXH3_128bits_update(&state, numbers,
                              (size_t)(layout->words_at - CONTAINER_HEADER));
    (void)XXH3_128bits_update(&state, table, (size_t)layout->blocks * 4);
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
    memcpy(digest, canonical.digest, BG_DIGEST_BYTES);
}

void container_digest_text(const uint8_t digest[BG_DIGEST_BYTES],
                           char text[BG_DIGEST_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < BG_DIGEST_BYTES; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[BG_DIGEST_TEXT_BYTES - 1] = 0;
}

static bool container_is_zero(const unsigned char *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

bool container_tells_hash(const struct container_header *h)
{
    return h->profile == BG_HASH_FAST || h->profile == BG_HASH_XXH64
           || h->profile == BG_HASH_FAST_INT;
}

/* Checks the conditions that every header of this version meets. */
static bg_err container_check_header(const unsigned char *bytes,
                                     const struct container_header *h, bg_errinfo *info)
{
    struct container_layout layout;
    bool terminated = memchr(h->custom_name, 0, CONTAINER_NAME) != NULL;
    if (h->header_bytes != CONTAINER_HEADER) {
        return container_refuse(info, BG_EFORMAT, 12, "header size", "4096", "%llu",
                                (unsigned long long)h->header_bytes);
    }
    if (!container_layout(h, &layout) || layout.file_bytes != h->file_bytes) {
        return container_refuse(info, BG_EFORMAT, 16, "file size",
                                "the total size of the file's sections", "%llu bytes",
                                (unsigned long long)h->file_bytes);
    }
    if (h->metadata_bytes >= BG_METADATA_MAX
        || memchr(h->metadata, 0, (size_t)h->metadata_bytes)) {
        return container_refuse(info, BG_EFORMAT, 192, "metadata",
                                "text of at most 3071 bytes without NUL bytes",
                                "%llu bytes", (unsigned long long)h->metadata_bytes);
    }
    if (strcmp(bg_hash_name((bg_hash_profile)h->profile), "unknown") == 0) {
        return container_refuse(info, BG_EFORMAT, 128, "profile", "a bg_hash_profile",
                                "%llu", (unsigned long long)h->profile);
    }
    if ((!container_tells_hash(h) && h->seed)
        || (h->profile != BG_HASH_CUSTOM
            && !container_is_zero(bytes + CONTAINER_NAME_AT, CONTAINER_NAME))) {
        return container_refuse(info, BG_EFORMAT, 136, "seed, name",
                                "0 for a hash profile without a seed or name",
                                "nonzero values");
    }
    if (!terminated) {
        return container_refuse(info, BG_EFORMAT, 168, "hash name",
                                "a name that ends with a zero byte", "no zero byte");
    }
    if (h->present_canaries > BG_CANARY_COUNT) {
        return container_refuse(info, BG_EFORMAT, 168, "canaries", "at most 16", "%llu",
                                (unsigned long long)h->present_canaries);
    }
    if (h->minor >= 2 && h->canaries > BGI_CANARIES_MAX) {
        return container_refuse(info, BG_EFORMAT, 196, "canaries", "at most 65536",
                                "%llu", (unsigned long long)h->canaries);
    }
    size_t text_end = CONTAINER_METADATA_AT + (size_t)h->metadata_bytes;
    if (h->minor <= CONTAINER_MINOR
        && ((h->minor < 2 && (h->canaries || h->canary_age))
            || (h->minor == 0 && (h->elapsed || h->moved))
            || !container_is_zero(bytes + CONTAINER_RESERVED_AT,
                                  CONTAINER_METADATA_AT - CONTAINER_RESERVED_AT)
            || !container_is_zero(bytes + text_end, CONTAINER_CRC_AT - text_end))) {
        return container_refuse(info, BG_EFORMAT, CONTAINER_RESERVED_AT,
                                "reserved bytes", "0", "nonzero bytes");
    }
    return BG_OK;
}

bg_err container_read_header(const unsigned char bytes[CONTAINER_HEADER],
                             struct container_header *h, bg_errinfo *info)
{
    memset(h, 0, sizeof *h);
    if (memcmp(bytes, CONTAINER_MAGIC, 8) != 0) {
        return container_refuse(
            info, BG_EFORMAT, 0, "magic", "89 42 47 46 0d 0a 1a 0a: a filter file",
            "%02x %02x %02x %02x", bytes[0], bytes[1], bytes[2], bytes[3]);
    }
#define CONTAINER_GET(offset, size, name)                                              \
    h->name = container_get(bytes + (offset), size);
    CONTAINER_FIELDS(CONTAINER_GET)
#undef CONTAINER_GET
    uint32_t crc = bgi_crc32c(0, bytes, CONTAINER_CRC_AT);
    uint32_t stored = (uint32_t)container_get(bytes + CONTAINER_CRC_AT, 4);
    if (crc != stored) {
        char expected[32];
        (void)snprintf(expected, sizeof expected, "checksum %08x", stored);
        return container_refuse(info, BG_ECHECKSUM, 0, "header", expected,
                                "checksum %08x", crc);
    }
    if (h->major != CONTAINER_MAJOR) {
        return container_refuse(info, BG_EVERSION, 8, "format version", "1.x",
                                "%llu.%llu", (unsigned long long)h->major,
                                (unsigned long long)h->minor);
    }
    memcpy(h->key_id, bytes + CONTAINER_KEY_ID_AT, BG_KEY_ID_BYTES);
    memcpy(h->custom_name, bytes + CONTAINER_NAME_AT, CONTAINER_NAME);
    memcpy(h->digest, bytes + CONTAINER_DIGEST_AT, BG_DIGEST_BYTES);
    if (h->metadata_bytes < BG_METADATA_MAX) {
        memcpy(h->metadata, bytes + CONTAINER_METADATA_AT, (size_t)h->metadata_bytes);
    }
    return container_check_header(bytes, h, info);
}

void container_put_recipe(struct container_header *h, const struct bgi_recipe *r)
{
    h->kind = r->kind;
    h->flags = r->flags;
    h->width = r->width;
    h->k = r->k;
    h->units = r->units;
    h->shards = r->shards;
    h->items = r->items;
    h->rate = container_bits_of(r->rate);
    h->max_bytes = r->max_bytes;
    h->window_mode = r->window_mode;
    h->window_kind = r->window_kind;
    h->generations = r->generations;
    h->period_items = r->period_items;
    h->length = r->length;
    h->count = r->count;
    h->moved = r->moved;
    h->elapsed = r->elapsed;
}

struct bgi_recipe container_recipe(const struct container_header *h)
{
    return (struct bgi_recipe){ .kind = (uint32_t)h->kind,
                                .flags = (uint32_t)h->flags,
                                .width = (uint32_t)h->width,
                                .k = (uint32_t)h->k,
                                .units = h->units,
                                .shards = (uint32_t)h->shards,
                                .items = h->items,
                                .rate = container_double(h->rate),
                                .max_bytes = h->max_bytes,
                                .window_mode = (uint32_t)h->window_mode,
                                .window_kind = (uint32_t)h->window_kind,
                                .generations = (uint32_t)h->generations,
                                .period_items = h->period_items,
                                .length = h->length,
                                .count = h->count,
                                .moved = h->moved,
                                .elapsed = h->elapsed };
}

bool container_recipe_is_of(const struct container_header *h, const bg_filter *filter)
{
    struct container_header told = *h;
    struct bgi_recipe recipe;
    bgi_recipe_of(filter, &recipe);
    /* If the filter is a window, the clock of the process that opened the file may have advanced
     * these two fields. */
    if (recipe.length) {
        recipe.moved = h->moved;
        recipe.elapsed = h->elapsed;
    }
    container_put_recipe(&told, &recipe);
    return memcmp(&told, h, sizeof told) == 0;
}

/* ---- Canaries ------------------------------------------------------------------------- */

enum { CONTAINER_ABSENT = 4096, CONTAINER_BATCH = 256 };

void bg_canary(uint64_t generation, uint32_t i, uint8_t key[BG_CANARY_BYTES])
{
    memcpy(key, "bloomgate:p:", 12); /* NOLINT(bugprone-not-null-terminated-result) */
    container_put(key + 12, 8, generation);
    container_put(key + 20, 4, i);
}

void container_absent_canary(uint64_t generation, uint32_t i,
                             uint8_t key[BG_CANARY_BYTES])
{
    bg_canary(generation, i, key);
    key[10] = 'a';
}

uint64_t container_canary_generation(const struct container_header *header)
{
    return header->generation - header->canary_age;
}

/* Returns whether all 16 canaries of a generation are present. */
static bool container_present(const bg_filter *filter, uint64_t generation)
{
    uint8_t key[BG_CANARY_BYTES];
    uint32_t found = 0;
    for (uint32_t i = 0; i < BG_CANARY_COUNT; i++) {
        bg_canary(generation, i, key);
        found += bg_filter_may_contain(filter, key, sizeof key);
    }
    return found == BG_CANARY_COUNT;
}

/* Looks for the canaries of the header's generation, and then for those that the filter had when it
 * was loaded. present_canaries does not count the latter, because version 0.1 would look for them
 * in the header's generation. */
static void container_query_present(const bg_filter *filter,
                                    struct container_header *header)
{
    const uint64_t older = filter->canary_generation;
    const bool present = container_present(filter, header->generation);
    header->present_canaries = present ? BG_CANARY_COUNT : 0;
    header->canary_age =
        !present && container_present(filter, older) ? header->generation - older : 0;
}

void container_query_canaries(const bg_filter *filter, struct container_header *header)
{
    uint8_t keys[CONTAINER_BATCH][BG_CANARY_BYTES];
    bg_bytes batch[CONTAINER_BATCH];
    uint64_t answers[CONTAINER_ABSENT / 64] = { 0 };
    size_t maybes = 0;
    for (uint32_t at = 0; at < CONTAINER_ABSENT; at += CONTAINER_BATCH) {
        for (uint32_t i = 0; i < CONTAINER_BATCH; i++) {
            container_absent_canary(header->generation, at + i, keys[i]);
            batch[i] = (bg_bytes){ keys[i], BG_CANARY_BYTES };
        }
        maybes += bg_filter_may_contain_many(
            filter, bg_keys_bytes(batch, CONTAINER_BATCH), answers + at / 64);
    }
    container_turn(answers, CONTAINER_ABSENT / 64);
    header->absent_maybes = maybes;
    header->absent_answers = XXH64(answers, sizeof answers, 0);
    container_query_present(filter, header);
}

bool container_present_agree(const bg_filter *filter,
                             const struct container_header *header)
{
    return (!header->present_canaries && !header->canary_age)
           || container_present(filter, container_canary_generation(header));
}

bool container_canaries_agree(const bg_filter *filter,
                              const struct container_header *header)
{
    if (header->absent_maybes == CONTAINER_UNASKED) {
        return container_present_agree(filter, header);
    }
    struct container_header now = { .generation = header->generation };
    container_query_canaries(filter, &now);
    return now.absent_answers == header->absent_answers
           && now.absent_maybes == header->absent_maybes
           && container_present_agree(filter, header);
}
