/*
 * leveldb_codec.c - builds small filters from keys and queries them; handles options, hashing and
 * memory.
 *
 * The codec contains the data that all filters of a policy share: the hasher, the name, and the
 * kind and bits per key of new filters. Each filter stores its own layout, so the kind and the bits
 * per key can change each time a database is opened. The hash cannot change, because existing
 * filters depend on it, so it is part of the policy name.
 *
 * Thread safety: a codec is immutable after creation.
 */
#include "bloomgate_leveldb.h"

#include "bloomgate/hasher.h"
#include "small_filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CODEC_DEFAULT_BITS = 10, CODEC_ON_STACK = 128 };

struct bg_leveldb_codec {
    bg_hasher hasher;
    uint32_t bits_per_key;
    bool bloom;
    bool popcnt; /* see small_filter.h */
    char name[sizeof BG_LEVELDB_NAME + 17];
};

/* ---- Creation ------------------------------------------------------------------------ */

static bg_err codec_error(bg_errinfo *info, bg_err code, const char *what,
                          uint32_t found, const char *expected)
{
    if (info) {
        *info = (bg_errinfo){ .code = code };
        (void)snprintf(info->what, sizeof info->what, "%s", what);
        (void)snprintf(info->found, sizeof info->found, "%u", (unsigned)found);
        (void)snprintf(info->expected, sizeof info->expected, "%s", expected);
        (void)snprintf(info->message, sizeof info->message, "%s: found %u, expected %s",
                       what, (unsigned)found, expected);
    }
    return code;
}

static bg_err codec_check(const bg_leveldb_options *options, bg_errinfo *info)
{
    if (options->struct_size != sizeof *options) {
        return codec_error(info, BG_EINVAL, "struct_size", options->struct_size,
                           "sizeof(bg_leveldb_options)");
    }
    if (options->kind != BG_KIND_AUTO && options->kind != BG_KIND_RIBBON
        && options->kind != BG_KIND_CLASSIC) {
        return codec_error(info, BG_EINVAL, "kind", options->kind,
                           "BG_KIND_RIBBON or BG_KIND_CLASSIC");
    }
    if (options->bits_per_key > SMALL_MAX_ROWS) {
        return codec_error(info, BG_EINVAL, "bits_per_key", options->bits_per_key,
                           "1 to 24");
    }
    if (options->reserved != 0) {
        return codec_error(info, BG_EINVAL, "reserved", options->reserved, "0");
    }
    return BG_OK;
}

/* Sets the policy name. The name includes the hash, so filters built with a different hash are
 * never read. */
static void codec_take_name(bg_leveldb_codec *codec, const bg_hash_spec *hash)
{
    (void)strcpy(codec->name, BG_LEVELDB_NAME);
    if (hash->profile != BG_HASH_FAST || hash->seed != 0) {
        (void)snprintf(codec->name, sizeof codec->name, "%s.%016llx", BG_LEVELDB_NAME,
                       (unsigned long long)bg_hasher_check(&codec->hasher));
    }
}

bg_err bg_leveldb_codec_create(const bg_leveldb_options *options,
                               bg_leveldb_codec **codec, bg_errinfo *info)
{
    bg_leveldb_options defaults = BG_LEVELDB_OPTIONS_INIT;
    options = options ? options : &defaults;
    *codec = NULL;
    bg_err err = codec_check(options, info);
    if (err) {
        return err;
    }
    bg_leveldb_codec *made = calloc(1, sizeof *made);
    if (!made) {
        if (info) {
            *info = (bg_errinfo){ .code = BG_ENOMEM };
            (void)snprintf(info->message, sizeof info->message,
                           "out of memory: cannot create the filter policy");
        }
        return BG_ENOMEM;
    }
    err = bg_hasher_init(&made->hasher, &options->hash, info);
    if (err) {
        free(made);
        return err;
    }
    made->bits_per_key =
        options->bits_per_key ? options->bits_per_key : CODEC_DEFAULT_BITS;
    made->bloom = options->kind == BG_KIND_CLASSIC;
    made->popcnt = small_filter_can_popcnt();
    codec_take_name(made, &options->hash);
    *codec = made;
    return BG_OK;
}

void bg_leveldb_codec_free(bg_leveldb_codec *codec)
{
    if (codec) {
        bg_hasher_wipe(&codec->hasher);
        free(codec);
    }
}

const char *bg_leveldb_codec_name(const bg_leveldb_codec *codec)
{
    return codec->name;
}

/* ---- Building ------------------------------------------------------------------------ */

/* Hashes all keys, and drops adjacent duplicates. LevelDB passes keys in sorted order, so equal
 * keys are adjacent. */
static size_t codec_hash(const bg_leveldb_codec *codec, const char *const *keys,
                         const size_t *lengths, size_t n, uint64_t *hashes)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = bg_hash_bytes(&codec->hasher, keys[i], lengths[i]);
        if (kept == 0 || hash != hashes[kept - 1]) {
            hashes[kept++] = hash;
        }
    }
    return kept;
}

/* Builds a filter of this shape in newly allocated memory. Returns NULL on failure. */
static char *codec_make_shape(const struct small_shape *shape, const uint64_t *hashes,
                              size_t n, size_t *bytes)
{
    struct small_equation few[2 * CODEC_ON_STACK], *scratch = few;
    if (shape->limit > sizeof few / sizeof *few) {
        scratch = malloc(shape->limit * sizeof *scratch);
    }
    char *out = scratch ? malloc(shape->max_bytes) : NULL;
    *bytes = out ? small_filter_make(shape, hashes, n, scratch, (uint8_t *)out) : 0;
    if (scratch != few) {
        free(scratch);
    }
    if (!*bytes) {
        free(out);
        out = NULL;
    }
    return out;
}

char *bg_leveldb_codec_make(const bg_leveldb_codec *codec, const char *const *keys,
                            const size_t *lengths, size_t n, size_t *bytes)
{
    uint64_t few[CODEC_ON_STACK], *hashes = few;
    char *out = NULL;
    *bytes = 0;
    if (n > CODEC_ON_STACK) {
        hashes = n <= SIZE_MAX / sizeof *hashes ? malloc(n * sizeof *hashes) : NULL;
    }
    if (hashes && n > 0) {
        size_t kept = codec_hash(codec, keys, lengths, n, hashes);
        struct small_shape shape =
            small_shape_for(kept, codec->bits_per_key, codec->bloom);
        out = codec_make_shape(&shape, hashes, kept, bytes);
        if (!out && shape.rows) { /* no solution was found, or memory ran out */
            shape = small_shape_for(kept, codec->bits_per_key, true);
            out = codec_make_shape(&shape, hashes, kept, bytes);
        }
    }
    if (hashes != few) {
        free(hashes);
    }
    return out;
}

/* ---- Queries ------------------------------------------------------------------------- */

bool bg_leveldb_codec_may_match(const bg_leveldb_codec *codec, const char *key,
                                size_t len, const char *filter, size_t bytes)
{
    if (bytes <= SMALL_HEADER) {
        return true;
    }
    return small_filter_may_match((const uint8_t *)filter, bytes,
                                  bg_hash_bytes(&codec->hasher, key, len),
                                  codec->popcnt);
}
