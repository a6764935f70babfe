/* errinfo.h - how functions of the library fill in the caller's bg_errinfo. */
#ifndef BGI_ERRINFO_H
#define BGI_ERRINFO_H

#include "bloomgate/err.h"

/* Clears the details: success, nothing to tell. `info` may be NULL, here and below. */
void bgi_err_clear(bg_errinfo *info);

/*
 * Records that `what` was `found` (printf style) where `expected` was needed, and
 * returns `code`, so that a check reads `return bgi_err(info, BG_EINVAL, ...)`.
 * An empty found text leaves that part out of the message.
 */
bg_err bgi_err(bg_errinfo *info, bg_err code, const char *what, const char *expected,
               const char *found, ...) __attribute__((format(printf, 5, 6)));

/* The same for a failure of `what` in which no value was compared with another: the message is
 * "what: why", and `found` and `expected` are empty. */
bg_err bgi_err_why(bg_errinfo *info, bg_err code, const char *what, const char *why,
                   ...) __attribute__((format(printf, 4, 5)));

#endif
