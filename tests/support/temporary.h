/* temporary.h - where files of tests go: where TMPDIR says, or in /tmp. */
#ifndef TESTS_TEMPORARY_H
#define TESTS_TEMPORARY_H

#include <stdlib.h>

static inline const char *temporary_root(void)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes it */
    const char *root = getenv("TMPDIR");
    return root && *root ? root : "/tmp";
}

#endif
