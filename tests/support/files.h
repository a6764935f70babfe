/*
 * files.h - small, filled filters of every kind, and their files, for the file tests.
 */
#ifndef TESTS_FILES_H
#define TESTS_FILES_H

#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"
#include "support/temporary.h"

#include "bloomgate/all.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILES_KEYS = 300 };

/* X(name, kind, statements that change the spec) */
#define FILES_CASES(X)                                                                 \
    X(classic, BG_KIND_CLASSIC, (void)0)                                               \
    X(partitioned, BG_KIND_PARTITIONED, (void)0)                                       \
    X(blocked, BG_KIND_BLOCKED, (void)0)                                               \
    X(split, BG_KIND_SPLIT, (void)0)                                                   \
    X(register, BG_KIND_REGISTER, (void)0)                                             \
    X(counting, BG_KIND_COUNTING, (void)0)                                             \
    X(counting_scattered, BG_KIND_COUNTING, spec.flags = BG_SPEC_SCATTERED)            \
    X(cuckoo, BG_KIND_CUCKOO, spec.k = 12)                                             \
    X(quotient, BG_KIND_QUOTIENT, (void)0)                                             \
    X(fuse, BG_KIND_FUSE, (void)0)                                                     \
    X(ribbon, BG_KIND_RIBBON, (void)0)                                                 \
    X(scalable, BG_KIND_SCALABLE, spec.items = 20)                                     \
    X(generations, BG_KIND_WINDOW, spec.window = files_window(BG_WINDOW_GENERATIONS))  \
    X(aged, BG_KIND_WINDOW, spec.window = files_window(BG_WINDOW_AGED))                \
    X(shards, BG_KIND_BLOCKED, spec.shards = 3)                                        \
    X(cuckoo_shards, BG_KIND_CUCKOO, spec.shards = 2)

static inline const bg_window_options *files_window(uint32_t mode)
{
    static bg_window_options options[2] = { BG_WINDOW_OPTIONS_INIT,
                                            BG_WINDOW_OPTIONS_INIT };
    options[mode].mode = mode;
    options[mode].generations = 3;
    return &options[mode];
}

#define FILES_COUNT(name, kind, change) +1
enum { FILES_CASES_COUNT = 0 FILES_CASES(FILES_COUNT) };
#undef FILES_COUNT

static inline const char *files_name(unsigned i)
{
#define FILES_NAME(name, kind, change) #name,
    static const char *const names[] = { FILES_CASES(FILES_NAME) };
#undef FILES_NAME
    return names[i];
}

static inline bg_spec files_spec(unsigned i)
{
    bg_spec spec = BG_SPEC_INIT;
    unsigned at = 0;
    spec.items = FILES_KEYS;
    spec.rate = 0.01;
#define FILES_SPEC(name, kind_, change)                                                \
    if (i == at++) {                                                                   \
        spec.kind = (kind_);                                                           \
        change;                                                                        \
    }
    FILES_CASES(FILES_SPEC)
#undef FILES_SPEC
    return spec;
}

/* Writes key number j. */
static inline size_t files_key(unsigned j, char key[32])
{
    return (size_t)snprintf(key, 32, "https://example.org/%u", j);
}

/* Creates a filter from a spec, with FILES_KEYS keys and the canaries for a generation. */
static inline bg_filter *files_make_spec(const bg_spec *spec, uint64_t generation)
{
    char key[32];
    uint8_t canary[BG_CANARY_BYTES];
    bg_filter *filter = NULL;
    if (bg_kind_traits((bg_kind)spec->kind) & BG_TRAIT_STATIC) {
        bg_builder *builder = NULL;
        CHECK_OK(bg_builder_create(spec, &builder, NULL));
        for (unsigned j = 0; j < FILES_KEYS; j++) {
            CHECK_OK(bg_builder_add(builder, key, files_key(j, key)));
        }
        for (uint32_t j = 0; j < BG_CANARY_COUNT; j++) {
            bg_canary(generation, j, canary);
            CHECK_OK(bg_builder_add(builder, canary, sizeof canary));
        }
        CHECK_OK(bg_builder_finish(builder, &filter, NULL));
        bg_builder_free(builder);
        return filter;
    }
    filter = must_create(spec);
    for (unsigned j = 0; j < FILES_KEYS; j++) {
        (void)added(filter, key, files_key(j, key));
    }
    for (uint32_t j = 0; j < BG_CANARY_COUNT; j++) {
        bg_canary(generation, j, canary);
        (void)added(filter, canary, sizeof canary);
    }
    return filter;
}

static inline bg_filter *files_make(unsigned i, uint64_t generation)
{
    bg_spec spec = files_spec(i);
    return files_make_spec(&spec, generation);
}

static inline void files_check_keys(const bg_filter *filter)
{
    char key[32];
    for (unsigned j = 0; j < FILES_KEYS; j++) {
        CHECK(bg_filter_may_contain(filter, key, files_key(j, key)));
    }
}

/* Returns an encoded filter, which the caller must free. */
static inline unsigned char *files_encode(const bg_filter *filter, uint64_t generation,
                                          size_t *n)
{
    bg_save_options options = BG_SAVE_OPTIONS_INIT;
    options.generation = generation;
    options.created = 1700000000;
    options.metadata = "keys: URL, lower case\n";
    size_t written = 0;
    CHECK_OK(bg_encode(filter, &options, NULL, 0, n, NULL));
    unsigned char *bytes =
        line_memory(*n); /* aligned so that the file can be queried in place */
    CHECK_OK(bg_encode(filter, &options, bytes, *n, &written, NULL));
    CHECK_EQ(written, *n);
    return bytes;
}

/* Returns a directory for this program's files. files_clean removes the directory and its
 * contents. */
static inline const char *files_folder(void)
{
    static char folder[256]; /* shared with child processes */
    if (!*folder) {
        /* The name includes the time, because a failed process with the same ID may have left
         * its directory behind. */
        (void)snprintf(folder, sizeof folder, "%s/bloomgate-test-%ld-%lld",
                       temporary_root(), (long)getpid(), (long long)time(NULL));
    }
    (void)mkdir(folder, 0700);
    return folder;
}

static inline char *files_path(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", files_folder(), name);
    return path;
}

static inline void files_clean(void)
{
    char path[1024];
    DIR *folder = opendir(files_folder());
    CHECK(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        (void)snprintf(path, sizeof path, "%s/%s", files_folder(), entry->d_name);
        (void)unlink(path);
    }
    (void)closedir(folder);
    CHECK(rmdir(files_folder()) == 0);
}

#endif
