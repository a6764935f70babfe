/*
 * err.h - error codes and error details.
 *
 * Every function that can fail returns a `bg_err`: BG_OK is 0, and all other codes are
 * small positive numbers, so `if (err)` reads well. Output parameters come last. On error
 * they are unchanged, except that handles are set to NULL.
 *
 * The code identifies the class of the error. The details are in a `bg_errinfo` that the
 * caller owns; pass NULL if you do not need them:
 *
 *     bg_errinfo why;
 *     bg_filter *f;
 *     if (bg_filter_create(&spec, &f, &why)) {
 *         fprintf(stderr, "%s\n", why.message);
 *         // rate: found 1.5, expected a number above 0 and below 1
 *     }
 *
 * There is no global error state, and nothing is printed. Queries such as
 * `bg_filter_may_contain` cannot fail and return a bool.
 *
 * The numbers are permanent: a code keeps its value, and new codes are appended.
 */
#ifndef BLOOMGATE_ERR_H
#define BLOOMGATE_ERR_H

#include "bloomgate/export.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, text): the list of all errors. */
#define BG_ERRORS(X)                                                                   \
    X(OK, 0, "success")                                                                \
    X(EINVAL, 1, "invalid argument")                                                   \
    X(ENOMEM, 2, "out of memory, or above the memory limit")                           \
    X(EFULL, 3, "the filter is full")                                                  \
    X(ENOTSUP, 4, "this kind of filter does not support the operation")                \
    X(EINCOMPAT, 5, "the filters differ in kind, size or hash")                        \
    X(EFORMAT, 6, "not a filter file, or a damaged one")                               \
    X(EVERSION, 7, "the format is newer than this library")                            \
    X(ECHECKSUM, 8, "checksum mismatch")                                               \
    X(EIO, 9, "input/output error")                                                    \
    X(EBUILD, 10, "construction did not converge")                                     \
    X(ENOTFOUND, 11, "not found")                                                      \
    X(ECANCELED, 12, "canceled by the caller")                                         \
    X(EBUSY, 13, "resource is in use")                                                 \
    X(EQUOTA, 14, "quota exceeded")

typedef enum bg_err {
#define BG_ERR_ENUM(name, number, text) BG_##name = (number),
    BG_ERRORS(BG_ERR_ENUM)
#undef BG_ERR_ENUM
} bg_err;

/* Sizes of the strings in a bg_errinfo, including the terminating NUL. */
#define BG_ERR_WHAT_MAX     48
#define BG_ERR_FOUND_MAX    128
#define BG_ERR_EXPECTED_MAX 192
#define BG_ERR_MESSAGE_MAX  512

/*
 * The details of an error, filled in by the function that failed and owned by the caller.
 * On success it is cleared (`code` is BG_OK, the strings are empty). There are two kinds
 * of error. If a value failed a check, `what`, `found` and `expected` describe the check.
 * If an operation failed or is not possible in the current state, `found` and `expected`
 * are empty, and `message` is a sentence. Long values, such as paths, are shortened in the
 * middle, so `message` is never truncated.
 */
typedef struct bg_errinfo {
    bg_err code;
    int32_t os_errno;                   /* errno of the system call that failed, or 0 */
    uint64_t offset;                    /* byte offset in the file or buffer, or 0 */
    char what[BG_ERR_WHAT_MAX];         /* the argument, field or object: "rate" */
    char found[BG_ERR_FOUND_MAX];       /* its value: "1.5" */
    char expected[BG_ERR_EXPECTED_MAX]; /* "a number above 0 and below 1" */
    char message[BG_ERR_MESSAGE_MAX];   /* the complete message on one line */
} bg_errinfo;

/*
 * Returns the description of a code, such as "invalid argument". Never returns NULL: for
 * an unknown number, returns "unknown error".
 * Thread safety: MT-Safe. Cost: a table lookup.
 */
BG_API const char *bg_strerror(bg_err err);

/*
 * Returns the name of a code, such as "BG_EINVAL". Never returns NULL: for an unknown
 * number, returns "BG_UNKNOWN".
 * Thread safety: MT-Safe. Cost: a table lookup.
 */
BG_API const char *bg_err_name(bg_err err);

#ifdef __cplusplus
}
#endif

#endif
