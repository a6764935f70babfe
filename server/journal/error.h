/*
 * journal/error.h - reports journal errors as a bg_errinfo, with the file and offset where
 * applicable.
 */
#ifndef SERVER_JOURNAL_ERROR_H
#define SERVER_JOURNAL_ERROR_H

#include "bloomgate/err.h"

#include <string.h>

/* Records that the value of `what` was `found` (a printf format), but `expected` was required.
 * Returns `code`. `info` may be NULL in all of these functions. */
bg_err journal_error(bg_errinfo *info, bg_err code, const char *what,
                     const char *expected, const char *found, ...)
    __attribute__((format(printf, 5, 6)));

/* Like journal_error, for errors that were not caused by an unexpected value. The message is "what:
 * why", and `found` and `expected` are empty. */
bg_err journal_error_why(bg_errinfo *info, bg_err code, const char *what,
                         const char *why, ...) __attribute__((format(printf, 4, 5)));

/* Adds the location of the last error to its message: "FILE at byte 64: ...". */
void journal_error_place(bg_errinfo *info, const char *file, uint64_t offset);

/* Records errno after a system call on a file or directory has failed. Returns BG_EIO. */
bg_err journal_error_system(bg_errinfo *info, const char *call, const char *path);

static inline void journal_error_clear(bg_errinfo *info)
{
    if (info) {
        memset(info, 0, sizeof *info);
    }
}

#endif
