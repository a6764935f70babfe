#include "bloomgate/err.h"

#include "base/errinfo.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *bg_strerror(bg_err err)
{
    switch (err) {
#define ERR_TEXT(name, number, text)                                                   \
    case BG_##name: return text;
        BG_ERRORS(ERR_TEXT)
#undef ERR_TEXT
    }
    return "unknown error";
}

const char *bg_err_name(bg_err err)
{
    switch (err) {
#define ERR_NAME(name, number, text)                                                   \
    case BG_##name: return "BG_" #name;
        BG_ERRORS(ERR_NAME)
#undef ERR_NAME
    }
    return "BG_OUTCOME_UNKNOWN";
}

void bgi_err_clear(bg_errinfo *info)
{
    if (info) {
        memset(info, 0, sizeof *info);
    }
}

bg_err bgi_err(bg_errinfo *info, bg_err code, const char *what, const char *expected,
               const char *found, ...)
{
    if (!info) {
        return code;
    }
    bgi_err_clear(info);
    info->code = code;
    va_list args;
    va_start(args, found);
    (void)vsnprintf(info->found, sizeof info->found, found, args);
    va_end(args);
    (void)snprintf(info->what, sizeof info->what, "%s", what);
    (void)snprintf(info->expected, sizeof info->expected, "%s", expected);
    if (info->found[0]) {
        (void)snprintf(info->message, sizeof info->message, "%s: found %s, expected %s",
                       info->what, info->found, info->expected);
    } else {
        (void)snprintf(info->message, sizeof info->message, "%s: expected %s",
                       info->what, info->expected);
    }
    return code;
}

bg_err bgi_err_why(bg_errinfo *info, bg_err code, const char *what, const char *why,
                   ...)
{
    if (!info) {
        return code;
    }
    bgi_err_clear(info);
    info->code = code;
    (void)snprintf(info->what, sizeof info->what, "%s", what);
    const size_t n = strlen(info->what);
    (void)snprintf(info->message, sizeof info->message, "%s: ", info->what);
    va_list args;
    va_start(args, why);
    (void)vsnprintf(info->message + n + 2, sizeof info->message - n - 2, why, args);
    va_end(args);
    return code;
}
