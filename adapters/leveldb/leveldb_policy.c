/*
 * leveldb_policy.c - wraps a codec in a filter policy for LevelDB's C API.
 *
 * LevelDB calls make() on the thread that writes a table, often the compaction thread, and
 * may_match() on any reading thread. LevelDB appends the result of make() to its own buffer and
 * then frees the result. The result must therefore come from malloc, and must not be NULL even if
 * the filter is empty.
 */
#include "bloomgate_leveldb.h"

#include <stdlib.h>

static char *policy_make(void *state, const char *const *keys, const size_t *lengths,
                         int n, size_t *bytes)
{
    char *filter =
        bg_leveldb_codec_make(state, keys, lengths, n > 0 ? (size_t)n : 0, bytes);
    return filter ? filter : malloc(1);
}

static unsigned char policy_may_match(void *state, const char *key, size_t len,
                                      const char *filter, size_t bytes)
{
    return bg_leveldb_codec_may_match(state, key, len, filter, bytes);
}

static const char *policy_name(void *state)
{
    return bg_leveldb_codec_name(state);
}

static void policy_free(void *state)
{
    bg_leveldb_codec_free(state);
}

bg_err bg_leveldb_policy_create(const bg_leveldb_options *options,
                                leveldb_filterpolicy_t **policy, bg_errinfo *info)
{
    bg_leveldb_codec *codec;
    *policy = NULL;
    bg_err err = bg_leveldb_codec_create(options, &codec, info);
    if (!err) {
        *policy = leveldb_filterpolicy_create(codec, policy_free, policy_make,
                                              policy_may_match, policy_name);
    }
    return err;
}

leveldb_filterpolicy_t *bg_leveldb_policy(int bits_per_key)
{
    bg_leveldb_options options = BG_LEVELDB_OPTIONS_INIT;
    leveldb_filterpolicy_t *policy;
    options.bits_per_key = bits_per_key < 1    ? 1
                           : bits_per_key > 24 ? 24
                                               : (uint32_t)bits_per_key;
    return bg_leveldb_policy_create(&options, &policy, NULL) == BG_OK ? policy : NULL;
}
