/* error_text.h - the text of library errors, and a function that returns such errors. */
#ifndef COMMON_ERROR_TEXT_H
#define COMMON_ERROR_TEXT_H

#include "bloomgate/err.h"

#include <stdarg.h>
#include <stdio.h>

/* Returns the message, or the name of the error if there is no message. `info` may be NULL. */
static inline const char *error_text(const bg_errinfo *info, bg_err err)
{
    return info && info->message[0] ? info->message : bg_strerror(err);
}

/* Fills in `info`, unless it is NULL, and returns `code`. */
__attribute__((format(printf, 3, 4))) static inline bg_err
error_fail(bg_errinfo *info, bg_err code, const char *format, ...)
{
    if (info) {
        *info = (bg_errinfo){ .code = code };
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(info->message, sizeof info->message, format, arguments);
        va_end(arguments);
    }
    return code;
}

#endif
