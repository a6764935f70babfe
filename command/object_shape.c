/*
 * object_shape.c - converts shapes to text, from text, and to library specs.
 *
 *     family=bf kind=scalable items=100 rate=0.01 width=2 hash=keyed key_id=323032... expansion=2
 *
 * Fields can be in any order, and fields that are 0 are omitted. Numbers are written with enough
 * digits to be read back exactly. Journals and filter files contain this text, so fields may be
 * added but never renamed.
 */
#include "object.h"

#include "letters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum shape_type {
    SHAPE_U32,
    SHAPE_U64,
    SHAPE_REAL,
    SHAPE_FAMILY,
    SHAPE_KIND,
    SHAPE_HASH,
    SHAPE_ID
};

struct shape_field {
    const char *name;
    enum shape_type type;
    size_t at;
    uint32_t most; /* maximum SHAPE_U32 value that a command accepts */
};

#define SHAPE(field, type)                                                             \
    {                                                                                  \
#field, type, offsetof(struct object_shape, field), UINT32_MAX                 \
    }
#define SHAPE_UPTO(field, most)                                                        \
    {                                                                                  \
#field, SHAPE_U32, offsetof(struct object_shape, field), most                  \
    }

static const struct shape_field shape_fields[] = {
    SHAPE(family, SHAPE_FAMILY),
    SHAPE(kind, SHAPE_KIND),
    SHAPE(items, SHAPE_U64),
    SHAPE(rate, SHAPE_REAL),
    SHAPE(bits_per_key, SHAPE_REAL),
    SHAPE(bytes, SHAPE_U64),
    SHAPE(k, SHAPE_U32),
    SHAPE(folds, SHAPE_U32),
    SHAPE(flags, SHAPE_U32),
    SHAPE(width, SHAPE_U32),
    SHAPE(shards, SHAPE_U32),
    SHAPE(hash, SHAPE_HASH),
    SHAPE(seed, SHAPE_U64),
    SHAPE(key_id, SHAPE_ID),
    SHAPE(check, SHAPE_U64),
    SHAPE(expansion, SHAPE_U32),
    SHAPE_UPTO(nonscaling, 1),
    SHAPE_UPTO(bucket_size, 65535),
    SHAPE_UPTO(max_iterations, 65535),
    SHAPE_UPTO(max_expansions, 65536),
    SHAPE(window_mode, SHAPE_U32),
    SHAPE_UPTO(window_generations, 64),
    SHAPE(window_length, SHAPE_U64),
    SHAPE(window_count, SHAPE_U64),
    SHAPE_UPTO(sealed, 1),
    SHAPE_UPTO(imported, 1),
    SHAPE(foreign, SHAPE_U32),
    SHAPE(limit, SHAPE_U64),
    SHAPE(generation, SHAPE_U64),
};

enum { SHAPE_FIELDS = sizeof shape_fields / sizeof *shape_fields };

static const char *const shape_families[] = { "", "bf", "cf", "bg" };

static bg_err shape_fail(bg_errinfo *info, bg_err code, const char *what,
                         const char *found, const char *expected)
{
    if (info) {
        *info = (bg_errinfo){ .code = code };
        (void)snprintf(info->what, sizeof info->what, "%s", what);
        (void)snprintf(info->found, sizeof info->found, "%s", found);
        for (char *c = info->found; *c; c++) { /* may contain arbitrary bytes */
            *c = (char)(*c >= ' ' && *c <= '~' ? *c : '?');
        }
        found = info->found;
        (void)snprintf(info->expected, sizeof info->expected, "%s", expected);
        (void)snprintf(info->message, sizeof info->message, "%s: found %s, expected %s",
                       what, found, expected);
    }
    return code;
}

/* ---- Text output ------------------------------------------------------------------------- */

/* These functions write text to `to` without a terminating NUL, and return a pointer to its end.
 * They are faster than snprintf, which matters because a manifest contains the shapes of all
 * objects. */

static char *shape_put(char *to, const char *text)
{
    while (*text) {
        *to++ = *text++;
    }
    return to;
}

static char *shape_put_u64(char *to, uint64_t value)
{
    char digits[20];
    size_t n = 0;
    for (; value; value /= 10) {
        digits[n++] = (char)('0' + value % 10);
    }
    while (n > 0) {
        *to++ = digits[--n];
    }
    return to;
}

static char *shape_put_real(char *to, double value)
{
    return value != 0 ? to + snprintf(to, 32, "%.17g", value) : to;
}

static char *shape_put_id(char *to, const uint8_t id[BG_KEY_ID_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    size_t used = BG_KEY_ID_BYTES;
    while (used > 0 && id[used - 1] == 0) {
        used--;
    }
    for (size_t i = 0; i < used; i++) {
        *to++ = digits[id[i] >> 4];
        *to++ = digits[id[i] & 15];
    }
    return to;
}

/* Writes the value of a field; writes nothing for 0. */
static char *shape_put_value(char *to, const struct object_shape *shape,
                             const struct shape_field *field)
{
    const char *at = (const char *)shape + field->at;
    uint32_t u32 = 0;
    uint64_t u64 = 0;
    double real = 0;
    switch (field->type) {
    case SHAPE_U64: memcpy(&u64, at, sizeof u64); return shape_put_u64(to, u64);
    case SHAPE_REAL: memcpy(&real, at, sizeof real); return shape_put_real(to, real);
    case SHAPE_ID: return shape_put_id(to, (const uint8_t *)at);
    case SHAPE_U32:
    case SHAPE_FAMILY:
    case SHAPE_KIND:
    case SHAPE_HASH: break;
    }
    memcpy(&u32, at, sizeof u32);
    if (u32 == 0 || field->type == SHAPE_U32) {
        return shape_put_u64(to, u32);
    }
    return shape_put(to, field->type == SHAPE_KIND ? bg_kind_name((bg_kind)u32)
                         : field->type == SHAPE_HASH
                             ? bg_hash_name((bg_hash_profile)u32)
                         : u32 <= (uint32_t)OBJECT_BG ? shape_families[u32]
                                                      : "");
}

size_t object_shape_write(const struct object_shape *shape,
                          char text[OBJECT_SHAPE_TEXT])
{
    char *to = text; /* a test checks that the longest values fit */
    for (size_t i = 0; i < SHAPE_FIELDS; i++) {
        char *const before = to;
        to = shape_put(to, to > text ? " " : "");
        to = shape_put(to, shape_fields[i].name);
        to = shape_put(to, "=");
        char *const value = to;
        to = shape_put_value(to, shape, &shape_fields[i]);
        to = to > value ? to : before;
    }
    *to = 0;
    return (size_t)(to - text);
}

/* ---- Parsing ----------------------------------------------------------------------------- */

static bool shape_read_u64(const char *text, uint64_t most, uint64_t *value)
{
    const size_t n = strlen(text);
    const char *end = text + n;
    return n <= 20 && digits_read(&text, end, value) && text == end && *value <= most;
}

static int shape_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool shape_read_id(const char *text, uint8_t id[BG_KEY_ID_BYTES])
{
    const size_t n = strlen(text);
    if (n == 0 || n % 2 != 0 || n / 2 > BG_KEY_ID_BYTES) {
        return false;
    }
    memset(id, 0, BG_KEY_ID_BYTES);
    for (size_t i = 0; i < n / 2; i++) {
        const int high = shape_digit(text[2 * i]), low = shape_digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        id[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

static bool shape_read_name(const struct shape_field *field, const char *text,
                            uint32_t *value)
{
    if (field->type == SHAPE_KIND) {
        bg_kind kind = BG_KIND_AUTO;
        (void)bg_kind_parse(text, &kind);
        *value = kind;
        return kind != BG_KIND_AUTO;
    }
    if (field->type == SHAPE_FAMILY) {
        for (uint32_t i = OBJECT_BF; i <= OBJECT_BG; i++) {
            if (strcmp(text, shape_families[i]) == 0) {
                *value = i;
                return true;
            }
        }
        return false;
    }
#define SHAPE_HASH_IS(NAME, number, name, secret)                                      \
    if (strcmp(text, name) == 0) {                                                     \
        *value = (number);                                                             \
        return true;                                                                   \
    }
    BG_HASHES(SHAPE_HASH_IS)
#undef SHAPE_HASH_IS
    return false;
}

static bool shape_read_value(struct object_shape *shape,
                             const struct shape_field *field, const char *text)
{
    char *at = (char *)shape + field->at, *end = NULL;
    uint64_t number = 0;
    uint32_t small = 0;
    double real = 0;
    switch (field->type) {
    case SHAPE_U64:
        if (!shape_read_u64(text, UINT64_MAX, &number)) {
            return false;
        }
        memcpy(at, &number, sizeof number);
        return true;
    case SHAPE_REAL:
        real = strtod(text, &end);
        if (*end != 0 || end == text || !isfinite(real) || real < 0) {
            return false;
        }
        memcpy(at, &real, sizeof real);
        return true;
    case SHAPE_ID: return shape_read_id(text, (uint8_t *)at);
    case SHAPE_U32:
        if (!shape_read_u64(text, field->most, &number)) {
            return false;
        }
        small = (uint32_t)number;
        break;
    case SHAPE_FAMILY:
    case SHAPE_KIND:
    case SHAPE_HASH:
        if (!shape_read_name(field, text, &small)) {
            return false;
        }
        break;
    }
    memcpy(at, &small, sizeof small);
    return true;
}

static const struct shape_field *shape_find(const char *name)
{
    for (size_t i = 0; i < SHAPE_FIELDS; i++) {
        if (strcmp(shape_fields[i].name, name) == 0) {
            return &shape_fields[i];
        }
    }
    return NULL;
}

bg_err object_shape_read(const char *text, size_t len, struct object_shape *shape,
                         bg_errinfo *info)
{
    char copy[OBJECT_SHAPE_TEXT], *rest = copy, *word = NULL;
    if (len >= sizeof copy) {
        return shape_fail(info, BG_EFORMAT, "filter description", "a longer text",
                          "at most 1023 bytes");
    }
    if (memchr(text, 0, len)) {
        return shape_fail(info, BG_EFORMAT, "filter description", "a NUL byte",
                          "text without NUL bytes");
    }
    memcpy(copy, text, len);
    copy[len] = 0;
    struct object_shape made = { 0 };
    while ((word = strsep(&rest, " ")) != NULL) {
        char *value = strchr(word, '=');
        if (!value) {
            return shape_fail(info, BG_EFORMAT, "filter description", word,
                              "name=value");
        }
        *value++ = 0;
        const struct shape_field *field = shape_find(word);
        if (!field) {
            return shape_fail(info, BG_EFORMAT, "filter description", word,
                              "a known field");
        }
        if (!shape_read_value(&made, field, value)) {
            return shape_fail(info, BG_EFORMAT, field->name, value, "a valid value");
        }
    }
    if (made.family == 0) {
        return shape_fail(info, BG_EFORMAT, "filter description", "no family",
                          "family=bf, family=cf or family=bg");
    }
    *shape = made;
    return BG_OK;
}

/* ---- Specifications ----------------------------------------------------------------------- */

static bool shape_needs_secret(uint32_t profile)
{
#define SHAPE_SECRET(NAME, number, name, secret)                                       \
    if (profile == (number)) {                                                         \
        return (secret) != 0;                                                          \
    }
    BG_HASHES(SHAPE_SECRET)
#undef SHAPE_SECRET
    return false;
}

bool object_shape_is_foreign(const struct object_shape *shape)
{
    switch (shape->foreign) {
    case BG_FOREIGN_REDISBLOOM:
    case BG_FOREIGN_VALKEYBLOOM: return shape->family == OBJECT_BF;
    case BG_FOREIGN_REDISCUCKOO: return shape->family == OBJECT_CF;
    default: return false;
    }
}

bool object_shape_is_keyed(const struct object_shape *shape)
{
    return shape_needs_secret(shape->hash);
}

bg_err object_hash_spec(const struct object_shape *shape,
                        const struct command_settings *settings, bg_hash_spec *hash,
                        bg_errinfo *info)
{
    *hash = (bg_hash_spec){ .profile = shape->hash, .seed = shape->seed };
    if (!shape_needs_secret(shape->hash)) {
        return BG_OK;
    }
    if (settings->secrets) {
        return settings->secrets->find(settings->secrets->context, shape->key_id, hash,
                                       info);
    }
    if (!settings->keyring) {
        return error_fail(info, BG_EINVAL,
                          "the filter's hash (%s) requires a secret, but no keyring "
                          "is configured: set keyring",
                          bg_hash_name((bg_hash_profile)shape->hash));
    }
    return bg_keyring_find(settings->keyring, shape->key_id, hash, info);
}

bg_err object_shape_hash(struct object_shape *shape, uint32_t profile,
                         const struct command_settings *settings, bg_errinfo *info)
{
    shape->hash = profile;
    if (!shape_needs_secret(profile)) {
        return BG_OK;
    }
    bg_hash_spec hash = { .profile = profile };
    if (settings->secrets) {
        return settings->secrets->current(settings->secrets->context, &hash,
                                          shape->key_id, info);
    }
    if (!settings->keyring) {
        return error_fail(info, BG_EINVAL,
                          "hash %s requires a secret, but no keyring is configured: "
                          "set keyring, or use hash fast",
                          bg_hash_name((bg_hash_profile)profile));
    }
    return bg_keyring_current(settings->keyring, &hash, shape->key_id, info);
}

void object_shape_quotient(struct object_shape *shape)
{
    uint32_t bits = 0;
    shape->kind = BG_KIND_QUOTIENT;
    if (shape->rate > 0 && shape->k == 0) {
        return;
    }
    while (bits < 63 && UINT64_C(1) << bits < shape->items) {
        bits++;
    }
    shape->rate = 0.03;
    shape->k = bits <= 4 ? 32 : bits >= 22 ? 14 : 36 - bits;
}

void object_shape_spec(const struct object_shape *shape, bg_window_options *window,
                       bg_spec *spec)
{
    bg_spec_init(spec);
    spec->kind = shape->kind;
    spec->items = shape->items;
    spec->rate = shape->rate;
    spec->bits_per_key = shape->bits_per_key;
    spec->bytes = shape->bytes;
    spec->k = shape->k;
    spec->folds = shape->folds;
    spec->flags = shape->flags;
    spec->width = shape->width;
    spec->shards = shape->shards;
    if (shape->kind == BG_KIND_WINDOW) {
        *window = (bg_window_options)BG_WINDOW_OPTIONS_INIT;
        window->mode = shape->window_mode;
        window->generations = shape->window_generations;
        window->length = shape->window_length;
        window->count = shape->window_count;
        spec->window = window;
    }
}

void object_shape_of(const bg_filter *filter, struct object_shape *shape)
{
    bg_filter_info about = { .struct_size = sizeof about };
    *shape = (struct object_shape){ .family = OBJECT_BG, .imported = 1 };
    if (bg_filter_sample_info(filter, 1, &about)) { /* avoids counting the set bits */
        return;
    }
    shape->kind = about.kind;
    shape->items = about.design_items;
    shape->rate = about.design_rate;
    shape->k = about.k;
    shape->flags = about.flags & (BG_SPEC_SCATTERED | BG_SPEC_ONE_WINNER);
    shape->width = about.width;
    shape->shards = about.shards > 1 ? about.shards : 0;
    shape->hash = about.hash;
}

bool object_shape_fits(const struct object_shape *shape, const bg_filter *filter)
{
    const uint32_t traits = bg_kind_traits(bg_filter_kind(filter));
    switch (shape->family) {
    case OBJECT_BF:
        return !(traits & (BG_TRAIT_REMOVE | BG_TRAIT_FILLS_UP | BG_TRAIT_STATIC))
               && bg_filter_kind(filter) != BG_KIND_WINDOW;
    case OBJECT_CF: return bg_filter_kind(filter) == BG_KIND_QUOTIENT;
    default: return true;
    }
}
