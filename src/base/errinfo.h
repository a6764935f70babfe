/*
 * errinfo.h - how library functions fill in the caller's bg_errinfo.
 *
 * There are two forms, one for each class of error. bgi_err reports a value that was checked:
 * "rate: found 1.5, expected a number above 0 and below 1". bgi_err_state reports an operation
 * that failed, or that the current state does not allow, as a sentence: "a rebuild is already
 * in progress". If a string is too long for its field in bg_errinfo, its middle is cut out, never
 * its end.
 */
#ifndef BGI_ERRINFO_H
#define BGI_ERRINFO_H

#include "bloomgate/err.h"

/* Clears the error details. `info` may be NULL in all functions in this file. */
void bgi_err_clear(bg_errinfo *info);

/*
 * Records that `what` was `found` (printf style) where `expected` was required, and returns
 * `code`, so that a check can end with `return bgi_err(info, BG_EINVAL, ...)`. If `found` is empty,
 * the message states only what was expected.
 */
bg_err bgi_err(bg_errinfo *info, bg_err code, const char *what, const char *expected,
               const char *found, ...) __attribute__((format(printf, 5, 6)));

/*
 * Records a failure without a value to compare, and returns `code`. `what` names the object;
 * `message` (printf style) is the whole message: what failed, why, and what to do. `found` and
 * `expected` are left empty.
 */
bg_err bgi_err_state(bg_errinfo *info, bg_err code, const char *what,
                     const char *message, ...) __attribute__((format(printf, 4, 5)));

#endif
