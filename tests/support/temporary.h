/* temporary.h - the directory for test files: TMPDIR, or /tmp. */
#ifndef TESTS_TEMPORARY_H
#define TESTS_TEMPORARY_H

#include <stdlib.h>

static inline const char *temporary_root(void)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): never changed */
    const char *root = getenv("TMPDIR");
    return root && *root ? root : "/tmp";
}

#endif
