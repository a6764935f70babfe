/*
 * leveldb_world.h - a real LevelDB database with 112-byte records that can be opened with any
 * filter policy, and access to the filters in its tables.
 */
#ifndef LEVELDB_WORLD_H
#define LEVELDB_WORLD_H

#include "bloomgate_leveldb.h"
#include "support/check.h"
#include "support/scratch.h"

#include <dirent.h>

struct world {
    leveldb_options_t *options;
    leveldb_readoptions_t *read;
    leveldb_writeoptions_t *write;
    leveldb_cache_t *cache;
    leveldb_t *db;
    char path[512];
};

/* Fails the test if LevelDB reports an error. */
static inline void world_must(char *error)
{
    if (error) {
        check_fail(__FILE__, __LINE__, "LevelDB error: %s", error);
    }
}

static inline void world_open(struct world *w, leveldb_filterpolicy_t *policy)
{
    char *error = NULL;
    leveldb_options_set_filter_policy(w->options, policy);
    w->db = leveldb_open(w->options, w->path, &error);
    world_must(error);
}

static inline void world_start(struct world *w, const char *name,
                               leveldb_filterpolicy_t *policy)
{
    (void)snprintf(w->path, sizeof w->path, "%s", scratch_path(name));
    w->options = leveldb_options_create();
    w->read = leveldb_readoptions_create();
    w->write = leveldb_writeoptions_create();
    w->cache = leveldb_cache_create_lru(0); /* no cache, so each read loads its block */
    leveldb_options_set_create_if_missing(w->options, 1);
    leveldb_options_set_compression(w->options, 0);
    leveldb_options_set_cache(w->options, w->cache);
    leveldb_options_set_write_buffer_size(w->options, 256 << 10);
    world_open(w, policy);
}

static inline void world_close(struct world *w)
{
    leveldb_close(w->db);
    w->db = NULL;
}

static inline void world_reopen(struct world *w, leveldb_filterpolicy_t *policy)
{
    world_close(w);
    world_open(w, policy);
}

static inline void world_end(struct world *w)
{
    world_close(w);
    leveldb_options_destroy(w->options);
    leveldb_readoptions_destroy(w->read);
    leveldb_writeoptions_destroy(w->write);
    leveldb_cache_destroy(w->cache);
}

/* Writes key number i to `key` and returns its length, 12 bytes. One of the bytes is zero. */
static inline size_t world_key(char key[32], size_t i)
{
    return (size_t)snprintf(key, 32, "key%09zu", i) + (key[3] = '\0');
}

static inline void world_put(struct world *w, size_t i, size_t version)
{
    char key[32], value[100], *error = NULL;
    size_t len = world_key(key, i);
    memset(value, 'x', sizeof value);
    (void)snprintf(value, sizeof value, "%zu-%zu", i, version);
    leveldb_put(w->db, w->write, key, len, value, sizeof value, &error);
    world_must(error);
}

/* Returns true if key number i exists with the given version. */
static inline bool world_has(struct world *w, size_t i, size_t version)
{
    char key[32], expected[100], *error = NULL;
    size_t len = world_key(key, i), bytes;
    char *value = leveldb_get(w->db, w->read, key, len, &bytes, &error);
    world_must(error);
    (void)snprintf(expected, sizeof expected, "%zu-%zu", i, version);
    bool right = value && bytes == sizeof expected && strcmp(value, expected) == 0;
    leveldb_free(value);
    return right;
}

/* Writes the first n even-numbered keys. */
static inline void world_fill(struct world *w, size_t n, size_t version)
{
    for (size_t i = 0; i < n; i++) {
        world_put(w, 2 * i, version);
    }
}

static inline void world_compact(struct world *w)
{
    leveldb_compact_range(w->db, NULL, 0, NULL, 0);
}

/* Checks that the first n even-numbered keys exist and the first n odd-numbered keys do not. */
static inline void world_check(struct world *w, size_t n, size_t version)
{
    size_t lost = 0, found = 0;
    for (size_t i = 0; i < n; i++) {
        lost += !world_has(w, 2 * i, version);
        found += world_has(w, 2 * i + 1, version);
    }
    CHECK_EQ(lost, 0);
    CHECK_EQ(found, 0);
}

/* ---- Tables ---------------------------------------------------------------------------- */

/* Calls `change` for each table, and rewrites the file if `change` returns true. Returns the number
 * of rewritten files. */
static inline size_t
world_tables(const struct world *w, const char *ending,
             bool (*change)(uint8_t *file, size_t size, void *context), void *context)
{
    size_t changed = 0;
    DIR *folder = opendir(w->path);
    CHECK(folder != NULL);
    for (struct dirent *entry;
         (entry = readdir(folder));) { // NOLINT(concurrency-mt-unsafe)
        char path[1024];
        const char *dot = strrchr(entry->d_name, '.');
        (void)snprintf(path, sizeof path, "%s/%s", w->path, entry->d_name);
        FILE *file = dot && strcmp(dot, ending) == 0 ? fopen(path, "r+e") : NULL;
        if (!file) {
            continue;
        }
        CHECK_EQ(fseek(file, 0, SEEK_END), 0);
        size_t size = (size_t)ftell(file);
        uint8_t *bytes = malloc(size + 1);
        rewind(file);
        CHECK(bytes && fread(bytes, 1, size, file) == size);
        if (change(bytes, size, context)) {
            rewind(file);
            CHECK_EQ(fwrite(bytes, 1, size, file), size);
            changed++;
        }
        free(bytes);
        CHECK_EQ(fclose(file), 0);
    }
    (void)closedir(folder);
    return changed;
}

static inline uint64_t world_varint(const uint8_t **at)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            return value;
        }
    }
}

/* The filters that one policy created in a table. `data` is NULL if the table has none. */
struct world_filters {
    uint8_t *data;    /* the data of all filters */
    uint8_t *offsets; /* each filter's start and the last filter's end, 4 bytes each */
    size_t n;
};

static inline uint32_t world_u32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline struct world_filters world_filters_of(uint8_t *file, size_t size,
                                                    const char *policy)
{
    struct world_filters filters = { 0 };
    char name[128];
    int len = snprintf(name, sizeof name, "filter.%s", policy);
    const uint8_t *at = memmem(file, size, name, (size_t)len);
    if (at) {
        at += len;
        uint8_t *block = file + world_varint(&at);
        size_t bytes = world_varint(&at);
        size_t end = world_u32(block + bytes - 5); /* the end of the filters */
        filters.data = block;
        filters.offsets = block + end;
        filters.n = (bytes - 5 - end) / 4;
    }
    return filters;
}

#endif
