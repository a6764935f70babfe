/* error_text.h - the text of an error of the library. */
#ifndef COMMON_ERROR_TEXT_H
#define COMMON_ERROR_TEXT_H

#include "bloomgate/err.h"

/* Returns the message, or the name of the error if there is no message. `info` may be NULL. */
static inline const char *error_text(const bg_errinfo *info, bg_err err)
{
    return info && info->message[0] ? info->message : bg_strerror(err);
}

#endif
