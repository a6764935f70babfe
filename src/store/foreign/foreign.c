#include "store/foreign/foreign.h"

#include "base/bits.h"
#include "base/checked.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct foreign_format *const foreign_formats[] = {
#define FOREIGN_LIST(NAME, number, name) &foreign_##name,
    BG_FOREIGN_FORMATS(FOREIGN_LIST)
#undef FOREIGN_LIST
};

enum { FOREIGN_FORMATS = sizeof foreign_formats / sizeof foreign_formats[0] };

static const struct foreign_format *foreign_of(bg_foreign_format id)
{
    for (size_t i = 0; i < FOREIGN_FORMATS; i++) {
        if (foreign_formats[i]->id == id) {
            return foreign_formats[i];
        }
    }
    return NULL;
}

const char *bg_foreign_name(bg_foreign_format format)
{
    const struct foreign_format *f = foreign_of(format);
    return f ? f->name : "unknown";
}

bool bg_foreign_parse(const char *name, bg_foreign_format *format)
{
    for (size_t i = 0; name && i < FOREIGN_FORMATS; i++) {
        if (strcmp(foreign_formats[i]->name, name) == 0) {
            *format = foreign_formats[i]->id;
            return true;
        }
    }
    return false;
}

uint32_t bg_foreign_traits(bg_foreign_format format)
{
    const struct foreign_format *f = foreign_of(format);
    return f ? f->traits : 0;
}

/* ---- For formats ------------------------------------------------------------------- */

const unsigned char *foreign_take(struct foreign_input *input, uint64_t bytes)
{
    if (bytes > input->n - input->at) {
        return NULL;
    }
    const unsigned char *p = input->bytes + input->at;
    input->at += (size_t)bytes;
    return p;
}

bg_err foreign_refuse(bg_errinfo *info, uint64_t offset, const char *what,
                      const char *expected, const char *found, ...)
{
    char text[64];
    va_list arguments;
    va_start(arguments, found);
    (void)vsnprintf(text, sizeof text, found, arguments);
    va_end(arguments);
    bg_err err = bgi_err(info, BG_EFORMAT, what, expected, "%s", text);
    if (info) {
        info->offset = offset;
    }
    return err;
}

uint32_t foreign_be32(const unsigned char *p)
{
    return __builtin_bswap32(bgi_load_le32(p));
}

uint64_t foreign_be64(const unsigned char *p)
{
    return __builtin_bswap64(bgi_load_le64(p));
}

double foreign_le_double(const unsigned char *p)
{
    uint64_t bits = bgi_load_le64(p);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void foreign_put_be32(unsigned char *p, uint32_t value)
{
    bgi_store_le32(p, __builtin_bswap32(value));
}

void foreign_put_be64(unsigned char *p, uint64_t value)
{
    bgi_store_le64(p, __builtin_bswap64(value));
}

void foreign_put_le_double(unsigned char *p, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bgi_store_le64(p, bits);
}

void foreign_copy_swapped(unsigned char *to, const unsigned char *from, uint64_t words)
{
    for (uint64_t i = 0; i < words; i++) {
        foreign_put_be64(to + 8 * i, bgi_load_le64(from + 8 * i));
    }
}

/* ---- Life -------------------------------------------------------------------------- */

bg_err foreign_make(const struct foreign_format *format,
                    const bg_foreign_options *options, uint32_t count, uint64_t bytes,
                    uint64_t input, bg_foreign **foreign, bg_errinfo *info)
{
    const uint64_t handle = sizeof **foreign + count * sizeof(struct foreign_part);
    uint64_t most = input > UINT64_MAX / 2 ? UINT64_MAX : 2 * input;
    struct bgi_memory memory;
    uint64_t all;
    size_t size;
    if (options->max_bytes && (input == 0 || options->max_bytes < most)) {
        most = options->max_bytes;
    }
    if ((most && bytes > most) || count > FOREIGN_PARTS_MAX
        || !bgi_add_u64(bytes, handle, &all) || !bgi_fits_size(all, &size)) {
        return bgi_err(info, BG_ENOMEM, "size in bytes",
                       "at most max_bytes, and at most twice the size of the input",
                       "%llu", (unsigned long long)bytes);
    }
    if (!bgi_memory_take(&memory, size, options->allocator, false)) {
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate %zu bytes for a filter in %s format",
                             size, format->name);
    }
    bg_foreign *f = memory.base;
    f->format = format;
    f->version = options->version;
    f->keys = options->keys;
    f->seed = options->seed;
    if (options->secret) {
        memcpy(f->secret, options->secret, sizeof f->secret);
    }
    f->count = count;
    f->parts = (struct foreign_part *)(void *)(f + 1);
    f->bytes = (unsigned char *)memory.base + handle;
    f->size = bytes;
    f->most = options->max_bytes;
    f->memory = memory;
    *foreign = f;
    return BG_OK;
}

bg_err foreign_grow(bg_foreign *foreign, uint32_t count, uint64_t bytes,
                    bg_errinfo *info)
{
    const uint64_t parts = count * sizeof(struct foreign_part);
    const bg_allocator *allocator = bg_foreign_allocator(foreign);
    struct bgi_memory memory;
    uint64_t all;
    size_t size;
    if (foreign->most && bytes > foreign->most) {
        return bgi_err_state(info, BG_ENOMEM, "size in bytes",
                             "cannot grow the filter to %llu bytes: the limit is "
                             "max_bytes = %llu",
                             (unsigned long long)bytes,
                             (unsigned long long)foreign->most);
    }
    if (count > FOREIGN_PARTS_MAX || !bgi_add_u64(bytes, parts, &all)
        || !bgi_fits_size(all, &size)
        || !bgi_memory_take(&memory, size, allocator, false)) {
        return bgi_err_state(info, BG_ENOMEM, "size in bytes",
                             "cannot grow the filter to %llu bytes: out of memory",
                             (unsigned long long)bytes);
    }
    unsigned char *to = (unsigned char *)memory.base + parts;
    memcpy(memory.base, foreign->parts, foreign->count * sizeof(struct foreign_part));
    memcpy(to, foreign->bytes, (size_t)foreign->size);
    bgi_memory_give(&foreign->grown);
    foreign->grown = memory;
    foreign->parts = memory.base;
    foreign->count = count;
    foreign->bytes = to;
    foreign->size = bytes;
    return BG_OK;
}

/* Checks the options and copies them to `to`. NULL selects the defaults. */
static bg_err foreign_check(const struct foreign_format *format,
                            const bg_foreign_options *options, bg_foreign **foreign,
                            bg_foreign_options *to, bg_errinfo *info)
{
    static const bg_foreign_options usual = BG_FOREIGN_OPTIONS_INIT;
    if (!foreign) {
        return bgi_err(info, BG_EINVAL, "foreign", "a pointer to receive the filter",
                       "NULL");
    }
    *foreign = NULL;
    bgi_err_clear(info);
    *to = options ? *options : usual;
    if (!format) {
        return bgi_err(info, BG_EINVAL, "format", "a bg_foreign_format", "%s",
                       "an unknown number");
    }
    if (to->struct_size != sizeof *to) {
        return bgi_err(info, BG_EINVAL, "struct_size",
                       "sizeof(bg_foreign_options): use BG_FOREIGN_OPTIONS_INIT", "%u",
                       to->struct_size);
    }
    if (to->keys > BG_FOREIGN_KEYS_INT64) {
        return bgi_err(info, BG_EINVAL, "keys", "a bg_foreign_keys", "%u", to->keys);
    }
    if (format->traits & BG_FOREIGN_NEEDS_KEYS
        && to->keys == BG_FOREIGN_KEYS_UNSPECIFIED) {
        return bgi_err(info, BG_EINVAL, "keys",
                       "the encoding of the keys, because the format does not store it",
                       "BG_FOREIGN_KEYS_UNSPECIFIED");
    }
    return BG_OK;
}

bg_err bg_foreign_decode(bg_foreign_format format, const void *bytes, size_t n,
                         const bg_foreign_options *options, bg_foreign **foreign,
                         bg_errinfo *info)
{
    const struct foreign_format *f = foreign_of(format);
    bg_foreign_options how;
    bg_err err = foreign_check(f, options, foreign, &how, info);
    if (err) {
        return err;
    }
    if (!bytes && n) {
        return bgi_err(info, BG_EINVAL, "bytes", "an array of n bytes", "NULL");
    }
    struct foreign_input input = { bytes, n, 0 };
    return f->read(input, &how, foreign, info);
}

bg_err bg_foreign_create(bg_foreign_format format, uint64_t items, double rate,
                         const bg_foreign_options *options, bg_foreign **foreign,
                         bg_errinfo *info)
{
    const struct foreign_format *f = foreign_of(format);
    bg_foreign_options how;
    bg_err err = foreign_check(f, options, foreign, &how, info);
    if (err) {
        return err;
    }
    if (!f->create) {
        return bgi_err(info, BG_ENOTSUP, "format",
                       "a format with BG_FOREIGN_CAN_CREATE", "%s", f->name);
    }
    if (items == 0 || items > (uint64_t)1 << 48) {
        return bgi_err(info, BG_EINVAL, "items", "1 to 2^48", "%llu",
                       (unsigned long long)items);
    }
    if (!(rate > 0 && rate < 1)) {
        return bgi_err(info, BG_EINVAL, "rate", "a number above 0 and below 1", "%g",
                       rate);
    }
    return f->create(items, rate, &how, foreign, info);
}

void bg_foreign_free(bg_foreign *foreign)
{
    if (foreign) {
        struct bgi_memory memory = foreign->memory;
        bgi_memory_give(&foreign->grown);
        bgi_wipe(foreign, sizeof *foreign);
        bgi_memory_give(&memory);
    }
}

const bg_allocator *bg_foreign_allocator(const bg_foreign *foreign)
{
    return foreign && foreign->memory.allocator.allocate ? &foreign->memory.allocator
                                                         : NULL;
}

/* Updates the pointers into a block of memory that may have been moved. */
static void foreign_point(bg_foreign *foreign, const struct bgi_move *move)
{
    foreign->parts = bgi_moved(move, foreign->parts);
    foreign->bytes = bgi_moved(move, foreign->bytes);
}

void bg_foreign_relocate(bg_foreign **foreign, const bg_mover *mover)
{
    if (!foreign || !*foreign || !mover || !mover->move) {
        return;
    }
    bg_foreign *f = *foreign;
    uint8_t secret[sizeof f->secret]; /* no secret may remain in the old memory */
    struct bgi_move move = bgi_memory_move(f->grown, mover);
    f->grown.base = bgi_moved(&move, f->grown.base);
    foreign_point(f, &move);
    memcpy(secret, f->secret, sizeof secret);
    bgi_wipe(f->secret, sizeof f->secret);
    move = bgi_memory_move(f->memory, mover);
    f = bgi_moved(&move, f);
    f->memory.base = bgi_moved(&move, f->memory.base);
    foreign_point(f, &move);
    memcpy(f->secret, secret, sizeof secret);
    bgi_wipe(secret, sizeof secret);
    *foreign = f;
}

/* ---- Keys -------------------------------------------------------------------------- */

static unsigned char *foreign_byte(const bg_foreign *foreign,
                                   const struct foreign_part *part, uint64_t bit)
{
    return foreign->bytes + part->offset + bit / 8;
}

/* Returns whether a key has a valid size for its type. Keys of other sizes cannot have been added,
 * so the filter does not contain them. */
static bool foreign_key_fits(const bg_foreign *foreign, size_t len)
{
    switch (foreign->keys) {
    case BG_FOREIGN_KEYS_UTF16: return len % 2 == 0;
    case BG_FOREIGN_KEYS_INT32: return len == 4;
    case BG_FOREIGN_KEYS_INT64: return len == 8;
    default: return true;
    }
}

static bool foreign_part_has(const bg_foreign *foreign, const struct foreign_part *part,
                             const void *key, size_t len)
{
    uint64_t positions[FOREIGN_K_MAX];
    foreign->format->positions(foreign, part, key, len, positions);
    for (uint32_t i = 0; i < part->k; i++) {
        if (!(*foreign_byte(foreign, part, positions[i]) >> positions[i] % 8 & 1)) {
            return false;
        }
    }
    return true;
}

bool foreign_part_add(const bg_foreign *foreign, const struct foreign_part *part,
                      const void *key, size_t len)
{
    uint64_t positions[FOREIGN_K_MAX];
    bool is_new = false;
    foreign->format->positions(foreign, part, key, len, positions);
    for (uint32_t i = 0; i < part->k; i++) {
        unsigned char *byte = foreign_byte(foreign, part, positions[i]);
        unsigned char bit = (unsigned char)(1u << positions[i] % 8);
        is_new |= !(*byte & bit);
        *byte |= bit;
    }
    return is_new;
}

bool bg_foreign_may_contain(const bg_foreign *foreign, const void *key, size_t len)
{
    if (!foreign) {
        return true; /* "maybe" is the safe answer */
    }
    if (!foreign_key_fits(foreign, len)) {
        return false;
    }
    if (foreign->format->has) {
        return foreign->format->has(foreign, key, len);
    }
    for (uint32_t i = 0; i < foreign->count; i++) {
        if (foreign_part_has(foreign, &foreign->parts[i], key, len)) {
            return true;
        }
    }
    return false;
}

bg_err bg_foreign_add(bg_foreign *foreign, const void *key, size_t len,
                      bg_errinfo *info)
{
    if (!foreign || (!key && len)) {
        return bgi_err(info, BG_EINVAL, "foreign, key", "a filter and a key", "NULL");
    }
    bgi_err_clear(info);
    if (!(foreign->format->traits & BG_FOREIGN_CAN_CREATE)) {
        return bgi_err(info, BG_ENOTSUP, "format",
                       "a format with BG_FOREIGN_CAN_CREATE", "%s",
                       foreign->format->name);
    }
    if (!foreign_key_fits(foreign, len)) {
        return bgi_err(info, BG_EINVAL, "key",
                       "the size of the type that `keys` specifies", "%zu bytes", len);
    }
    if (foreign->format->add) {
        return foreign->format->add(foreign, key, len, info);
    }
    (void)foreign_part_add(foreign, &foreign->parts[foreign->count - 1], key, len);
    return BG_OK;
}

bg_err bg_foreign_remove(bg_foreign *foreign, const void *key, size_t len,
                         bg_errinfo *info)
{
    if (!foreign || (!key && len)) {
        return bgi_err(info, BG_EINVAL, "foreign, key", "a filter and a key", "NULL");
    }
    bgi_err_clear(info);
    if (!foreign->format->remove) {
        return bgi_err(info, BG_ENOTSUP, "format",
                       "a format with BG_FOREIGN_CAN_REMOVE", "%s",
                       foreign->format->name);
    }
    const bg_err err = foreign->format->remove(foreign, key, len);
    return err ? bgi_err_state(info, err, "key", "the filter does not contain the key")
               : BG_OK;
}

bg_err bg_foreign_compact(bg_foreign *foreign, bg_errinfo *info)
{
    if (!foreign) {
        return bgi_err(info, BG_EINVAL, "foreign", "a filter", "NULL");
    }
    bgi_err_clear(info);
    if (!foreign->format->compact) {
        return bgi_err(info, BG_ENOTSUP, "format",
                       "a format with BG_FOREIGN_CAN_REMOVE", "%s",
                       foreign->format->name);
    }
    foreign->format->compact(foreign);
    return BG_OK;
}

uint64_t bg_foreign_count(const bg_foreign *foreign, const void *key, size_t len)
{
    return foreign && foreign->format->times
               ? foreign->format->times(foreign, key, len)
               : bg_foreign_may_contain(foreign, key, len);
}

/* ---- Writing and measuring ------------------------------------------------------------ */

bg_err bg_foreign_encode(const bg_foreign *foreign, void *bytes, size_t room,
                         size_t *written, bg_errinfo *info)
{
    if (!foreign || !written) {
        return bgi_err(info, BG_EINVAL, "foreign, written",
                       "a filter, and a pointer to receive the size", "NULL");
    }
    bgi_err_clear(info);
    if (!foreign->format->write) {
        return bgi_err(info, BG_ENOTSUP, "format", "a format with BG_FOREIGN_CAN_WRITE",
                       "%s", foreign->format->name);
    }
    uint64_t needed = foreign->format->written(foreign);
    size_t size;
    if (!bgi_fits_size(needed, &size) || (bytes && room < size)) {
        char expected[48];
        (void)snprintf(expected, sizeof expected, "at least %llu bytes",
                       (unsigned long long)needed);
        return bgi_err(info, BG_EINVAL, "room", expected, "%zu bytes", room);
    }
    if (bytes) {
        foreign->format->write(foreign, bytes);
    }
    *written = size;
    return BG_OK;
}

/* Counts the set bits among the first part->bits bits. A part may contain additional bytes after
 * them. */
static uint64_t foreign_ones(const bg_foreign *foreign, const struct foreign_part *part)
{
    const unsigned char *bytes = foreign->bytes + part->offset;
    const uint64_t used = part->bits / 8 + (part->bits % 8 != 0);
    const uint64_t n = used < part->bytes ? used : part->bytes;
    uint64_t ones = 0, i = 0, word;
    for (; n - i >= sizeof word; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        ones += bgi_popcount64(word);
    }
    for (; i < n; i++) {
        ones += bgi_popcount64(bytes[i]);
    }
    return ones < part->bits ? ones : part->bits;
}

uint64_t bg_foreign_size_bytes(const bg_foreign *foreign)
{
    return foreign ? foreign->size : 0;
}

bg_err bg_foreign_get_info(const bg_foreign *foreign, bg_foreign_info *out)
{
    if (!foreign || !out || out->struct_size != sizeof *out) {
        return BG_EINVAL;
    }
    double no = 1;
    *out = (bg_foreign_info){ .struct_size = sizeof *out,
                              .format = foreign->format->id,
                              .version = foreign->version,
                              .keys = foreign->keys,
                              .parts = foreign->count };
    for (uint32_t i = 0; i < foreign->count; i++) {
        const struct foreign_part *part = &foreign->parts[i];
        uint64_t ones = foreign_ones(foreign, part);
        out->k = i ? out->k : part->k;
        out->bits += part->bits;
        out->ones += ones;
        out->items += part->items;
        out->design += part->design;
        if (part->bits) {
            no *= 1 - pow((double)ones / (double)part->bits, part->k);
        } else if (foreign->format->positions) {
            no = 0; /* a part without bits answers "maybe" for every key */
        }
    }
    out->rate = 1 - no;
    if (foreign->format->about) {
        foreign->format->about(foreign, out);
    }
    return BG_OK;
}
