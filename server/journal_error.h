/*
 * journal_error.h - how the journal says what is wrong: in the words of bg_errinfo, and with
 * the file and the place where there is one.
 */
#ifndef SERVER_JOURNAL_ERROR_H
#define SERVER_JOURNAL_ERROR_H

#include "bloomgate/err.h"

/* `what` was `found` (printf style), and had to be `expected`. Returns `code`; `info` may be
 * NULL, here and below. */
bg_err journal_error(bg_errinfo *info, bg_err code, const char *what,
                     const char *expected, const char *found, ...)
    __attribute__((format(printf, 5, 6)));

/* Says where the thing is that the last error is about: "file at byte 64: ...". */
void journal_error_place(bg_errinfo *info, const char *file, uint64_t offset);

/* A system call failed, as errno says, on a file or folder. BG_EIO. */
bg_err journal_error_system(bg_errinfo *info, const char *call, const char *path);

void journal_error_clear(bg_errinfo *info);

#endif
