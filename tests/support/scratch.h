/*
 * scratch.h - a private directory for the test program, deleted with its contents when the program
 * exits.
 */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include "support/check.h"
#include "support/temporary.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static inline int scratch_remove(const char *path, const struct stat *info, int type,
                                 struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

static inline char *scratch_name(void)
{
    static char folder[256];
    if (!*folder) {
        (void)snprintf(folder, sizeof folder, "%s/bloomgate-scratch-XXXXXX",
                       temporary_root());
    }
    return folder;
}

static inline void scratch_clean(void)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): at exit */
    (void)nftw(scratch_name(), scratch_remove, 16, FTW_DEPTH | FTW_PHYS);
}

static inline const char *scratch_folder(void)
{
    static bool made;
    if (!made) {
        made = true;
        if (!mkdtemp(scratch_name())) {
            abort();
        }
        (void)atexit(scratch_clean);
    }
    return scratch_name();
}

/* Returns the path of the file `name` in the directory. The path is valid for the next 15 calls. */
static inline char *scratch_path(const char *name)
{
    static char paths[16][512];
    static unsigned next;
    char *path = paths[next++ % 16];
    (void)snprintf(path, sizeof paths[0], "%s/%s", scratch_folder(), name);
    return path;
}

/* Creates a subdirectory and returns its path, which is valid for the next 15 calls. */
static inline char *scratch_fresh(void)
{
    static unsigned made;
    char name[16];
    (void)snprintf(name, sizeof name, "%u", made++);
    char *path = scratch_path(name);
    CHECK(mkdir(path, 0700) == 0);
    return path;
}

/* Creates a file with the given text and returns its path. */
static inline const char *scratch_write(const char *name, const char *text)
{
    const char *path = scratch_path(name);
    FILE *file = fopen(path, "we");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0) {
        abort();
    }
    return path;
}

#endif
