/*
 * several.c - creates files from other files: merges, folds, splits into shards and joins.
 *
 * A key is looked up in only one shard, so the shards of a filter are useful only if all of them
 * are present and in order. The metadata of a shard file starts with two lines:
 *
 *     bloomgate-shard: 3 of 32                      the index of the shard
 *     bloomgate-split: 90b6...                      the digest of the file that was split
 *
 * Joining rejects a file whose first line does not match the index in its file name, or whose
 * second line differs from the second line of the other shards, because an interrupted split can
 * leave shards of two different filters. Shards without a second line were written by version 0.1.
 * Such shards must all have the same generation and the same metadata.
 */
#include "base/errinfo.h"
#include "live/sharded.h"
#include "store/disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bg_err several_check(const void *first, const void *second, const char *what,
                            bg_errinfo *info)
{
    bgi_err_clear(info);
    return first && second
               ? BG_OK
               : bgi_err(info, BG_EINVAL, what, "two non-NULL arguments", "NULL");
}

/* ---- Merging and folding ----------------------------------------------------------------- */

/* Rejects a file whose key ID differs from the first file's key ID. */
static bg_err several_same_key(const bg_file_info *first, const char *path,
                               bg_errinfo *info)
{
    bg_file_info about = { .struct_size = sizeof about };
    bg_err err = bg_file_get_info(path, &about, info);
    if (!err && memcmp(first->key_id, about.key_id, sizeof about.key_id) != 0) {
        err = bgi_err_state(info, BG_EINCOMPAT, "key id",
                            "%s and the first file have different key ids", path);
    }
    return err;
}

bg_err bg_file_merge(const char *const *paths, size_t n, const char *to,
                     const bg_open_options *opening, const bg_save_options *saving,
                     bg_errinfo *info)
{
    bg_filter *all = NULL, *one = NULL;
    bg_file_info first = { .struct_size = sizeof first };
    bg_err err = several_check(paths, to, "paths, to", info);
    if (!err && n == 0) {
        err = bgi_err(info, BG_EINVAL, "n", "at least 1 file", "0");
    }
    err = err ? err : bg_file_get_info(paths[0], &first, info);
    err = err ? err : bg_open(paths[0], opening, &all, info);
    for (size_t i = 1; i < n && !err; i++) {
        err = several_same_key(&first, paths[i], info);
        err = err ? err : bg_open(paths[i], opening, &one, info);
        err = err ? err : bg_filter_merge(all, one, info);
        bg_filter_free(one);
        one = NULL;
    }
    err = err ? err : bg_save(all, to, saving, info);
    bg_filter_free(all);
    return err;
}

bg_err bg_file_fold(const char *path, uint32_t folds, const char *to,
                    const bg_open_options *opening, const bg_save_options *saving,
                    bg_errinfo *info)
{
    bg_filter *filter = NULL, *folded = NULL;
    bg_err err = several_check(path, to, "path, to", info);
    err = err ? err : bg_open(path, opening, &filter, info);
    err = err ? err : bg_filter_fold(filter, folds, &folded, info);
    err = err ? err : bg_save(folded, to, saving, info);
    bg_filter_free(folded);
    bg_filter_free(filter);
    return err;
}

/* ---- Shards ------------------------------------------------------------------------------ */

static const char several_mark[] = "bloomgate-shard: ";
static const char several_split[] = "bloomgate-split: ";

static bg_err several_name(const char *path, uint32_t i, char name[DISK_PATH],
                           bg_errinfo *info)
{
    int n = snprintf(name, DISK_PATH, "%s.%u", path, i);
    return n > 0 && n < DISK_PATH
               ? BG_OK
               : bgi_err(info, BG_EINVAL, "path",
                         "at most 4095 bytes, including the shard suffix", "%d bytes",
                         n);
}

/* Saves shard i of a file. The shard's metadata consists of the two lines described above, followed
 * by the caller's metadata. */
static bg_err several_save_shard(const bg_filter *shard, const bg_file_info *whole,
                                 uint32_t i, const char *to,
                                 const bg_save_options *saving, bg_errinfo *info)
{
    char name[DISK_PATH], text[BG_METADATA_MAX];
    bg_save_options how;
    bg_err err = container_save_options(saving, &how, info);
    err = err ? err : several_name(to, i, name, info);
    if (err) {
        return err;
    }
    int n = snprintf(text, sizeof text, "%s%u of %u\n%s%s\n%s", several_mark, i,
                     whole->shards, several_split, whole->digest_text,
                     how.metadata ? how.metadata : "");
    if (n < 0 || (size_t)n >= sizeof text) {
        return bgi_err(info, BG_EINVAL, "metadata",
                       "at most 3071 bytes, including two lines for the shard",
                       "%d bytes", n);
    }
    how.metadata = text;
    return bg_save(shard, name, &how, info);
}

/* Returns the number of canaries to record for shard i. The actual numbers are unknown, but their
 * sum is correct, so bg_file_join restores it. */
static uint32_t several_share(uint32_t canaries, uint32_t i, uint32_t shards)
{
    return canaries / shards + (i < canaries % shards);
}

bg_err bg_file_split(const char *path, const char *to, const bg_open_options *opening,
                     const bg_save_options *saving, bg_errinfo *info)
{
    bg_filter *filter = NULL;
    bg_file_info whole = { .struct_size = sizeof whole };
    bg_err err = several_check(path, to, "path, to", info);
    err = err ? err
              : bgi_file_open_other(path, opening, false, "", &whole, &filter, info);
    if (!err && !filter->shards) {
        err = bgi_err(info, BG_ENOTSUP, "path", "a filter with shards", "%s",
                      "a filter without shards");
    }
    for (uint32_t i = 0; !err && i < filter->shards; i++) {
        bg_filter *shard = *filter->kind->composed->part(filter, i);
        shard->canaries = several_share(filter->canaries, i, filter->shards);
        err = several_save_shard(shard, &whole, i, to, saving, info);
    }
    bg_filter_free(filter);
    return err;
}

/* Checks that a file is marked as shard i of `count`. */
static bg_err several_is_shard(const bg_file_info *about, uint32_t i, uint32_t count,
                               bg_errinfo *info)
{
    char line[64];
    int n = snprintf(line, sizeof line, "%s%u of %u\n", several_mark, i, count);
    if (strncmp(about->metadata, line, (size_t)n) != 0) {
        line[n - 1] = 0; /* without the newline */
        return bgi_err(info, BG_EINCOMPAT, "shard", line, "%.40s",
                       strncmp(about->metadata, several_mark, sizeof several_mark - 1)
                               == 0
                           ? "a different shard"
                           : "a file that is not a shard");
    }
    return BG_OK;
}

/* Returns at most the last 30 characters of a file name, without its directory, for use in error
 * messages. */
static const char *several_end(const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *last = slash ? slash + 1 : name;
    const size_t n = strlen(last), most = 30;
    return n > most ? last + n - most : last;
}

/* Checks that two shards are from the same split. */
static bg_err several_is_same(const bg_file_info *first, const bg_file_info *about,
                              const char *prefix, uint32_t i, bg_errinfo *info)
{
    const char *here = strchr(about->metadata, '\n');
    const char *there = strchr(first->metadata, '\n');
    const bool known = strncmp(here + 1, several_split, sizeof several_split - 1) == 0;
    const bool same =
        strcmp(here, there) == 0 && (known || about->generation == first->generation);
    return same ? BG_OK
                : bgi_err_state(info, BG_EINCOMPAT, "shard",
                                "%s.%u and %s.0 are not from the same split",
                                several_end(prefix), i, several_end(prefix));
}

static bg_err several_open_shards(const char *from, uint32_t count, bg_filter **shards,
                                  const bg_open_options *opening, bg_errinfo *info)
{
    char name[DISK_PATH];
    bg_file_info first = { .struct_size = sizeof first }, about = first;
    bg_err err = BG_OK;
    for (uint32_t i = 0; i < count && !err; i++) {
        bg_file_info *its = i ? &about : &first;
        err = several_name(from, i, name, info);
        err =
            err ? err
                : bgi_file_open_other(name, opening, false, "", its, &shards[i], info);
        err = err ? err : several_is_shard(its, i, count, info);
        err = err || i == 0 ? err : several_is_same(&first, its, from, i, info);
        err = err || i == 0 ? err : bgi_filter_match(shards[0], shards[i], info);
    }
    return err;
}

bg_err bg_file_join(const char *from, uint32_t shards, const char *to,
                    const bg_open_options *opening, const bg_save_options *saving,
                    bg_errinfo *info)
{
    struct bgi_memory memory;
    bg_filter *filter = NULL;
    bg_err err = several_check(from, to, "from, to", info);
    if (!err
        && (shards < 2
            || shards > 65536)) { /* a filter with one shard is not sharded */
        err = bgi_err(info, BG_EINVAL, "shards", "2 to 65536", "%u", shards);
    }
    if (err) {
        return err;
    }
    if (!bgi_memory_take(&memory, shards * sizeof(bg_filter *), NULL, true)) {
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate %zu bytes for the list of shards",
                             shards * sizeof(bg_filter *));
    }
    bg_filter **parts = memory.base;
    err = several_open_shards(from, shards, parts, opening, info);
    err = err ? err : bgi_sharded_join(parts, shards, &filter, info);
    for (uint32_t i = 0; !filter && i < shards; i++) {
        bg_filter_free(parts[i]);
    }
    err = err ? err : bg_save(filter, to, saving, info);
    bg_filter_free(filter);
    bgi_memory_give(&memory);
    return err;
}
