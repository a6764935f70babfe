/*
 * err.h - error codes, and the details behind them.
 *
 * Every function of Bloomgate that can fail returns a `bg_err`: BG_OK is 0, everything
 * else is a small positive number, so `if (err)` reads well. Results go out through the
 * last parameters; when a function fails they are left untouched, except that handles
 * are set to NULL.
 *
 * The codes say what kind of trouble it is. What exactly was wrong is told in a
 * `bg_errinfo` that the caller owns and may leave out:
 *
 *     bg_errinfo why;
 *     bg_filter *f;
 *     if (bg_filter_create(&spec, &f, &why)) {
 *         fprintf(stderr, "%s\n", why.message);
 *         // rate: found 1.5, expected a number above 0 and below 1
 *     }
 *
 * There is no global error state and nothing is ever printed. Queries such as
 * `bg_filter_may_contain` cannot fail and return a plain bool.
 *
 * The numbers are frozen: a code keeps its value for ever, new ones are appended.
 */
#ifndef BLOOMGATE_ERR_H
#define BLOOMGATE_ERR_H

#include "bloomgate/export.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, text): the one list of errors. */
#define BG_ERRORS(X)                                                                   \
    X(OK, 0, "success")                                                                \
    X(EINVAL, 1, "invalid argument")                                                   \
    X(ENOMEM, 2, "out of memory, or over the given limit")                             \
    X(EFULL, 3, "the filter cannot take more items")                                   \
    X(ENOTSUP, 4, "this kind of filter cannot do that")                                \
    X(EINCOMPAT, 5, "the filters differ in kind, size or hash")                        \
    X(EFORMAT, 6, "not a filter file, or a damaged one")                               \
    X(EVERSION, 7, "the format is newer than this library")                            \
    X(ECHECKSUM, 8, "checksum mismatch")                                               \
    X(EIO, 9, "input/output error")                                                    \
    X(EBUILD, 10, "construction did not converge")                                     \
    X(ENOTFOUND, 11, "the filter does not contain that key")                           \
    X(ECANCELED, 12, "cancelled by the caller")                                        \
    X(EBUSY, 13, "somebody else is at it")                                             \
    X(ELIMIT, 14, "over a quota")

typedef enum bg_err {
#define BG_ERR_ENUM(name, number, text) BG_##name = (number),
    BG_ERRORS(BG_ERR_ENUM)
#undef BG_ERR_ENUM
} bg_err;

/*
 * The details of an error, filled by the function that failed and owned by the caller.
 * After success it is cleared (`code` BG_OK, empty strings). Every string is
 * NUL-terminated, and cut rather than overrun.
 */
typedef struct bg_errinfo {
    bg_err code;
    int32_t os_errno;  /* errno of the failing system call, or 0 */
    uint64_t offset;   /* byte offset in the file or buffer concerned, or 0 */
    char what[32];     /* the argument, field or thing that is wrong: "rate" */
    char found[64];    /* what it was: "1.5" */
    char expected[96]; /* what it had to be: "a number above 0 and below 1" */
    char message[256]; /* all of it in one line, ready to be shown */
} bg_errinfo;

/*
 * The text of a code, such as "invalid argument". Never NULL: an unknown number gives
 * "unknown error".
 * Thread safety: MT-Safe. Cost: a table look-up.
 */
BG_API const char *bg_strerror(bg_err err);

/*
 * The name of a code, such as "BG_EINVAL". Never NULL: an unknown number gives
 * "BG_OUTCOME_UNKNOWN".
 * Thread safety: MT-Safe. Cost: a table look-up.
 */
BG_API const char *bg_err_name(bg_err err);

#ifdef __cplusplus
}
#endif

#endif
