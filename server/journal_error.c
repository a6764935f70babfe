/* journal_error.c - what is wrong, where, and what had to be there. */
#include "journal_error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void journal_error_clear(bg_errinfo *info)
{
    if (info) {
        memset(info, 0, sizeof *info);
    }
}

bg_err journal_error(bg_errinfo *info, bg_err code, const char *what,
                     const char *expected, const char *found, ...)
{
    if (!info) {
        return code;
    }
    va_list arguments;
    journal_error_clear(info);
    info->code = code;
    va_start(arguments, found);
    (void)vsnprintf(info->found, sizeof info->found, found, arguments);
    va_end(arguments);
    (void)snprintf(info->what, sizeof info->what, "%s", what);
    (void)snprintf(info->expected, sizeof info->expected, "%s", expected);
    (void)snprintf(info->message, sizeof info->message, "%s: found %s, expected %s",
                   info->what, info->found, info->expected);
    return code;
}

void journal_error_place(bg_errinfo *info, const char *file, uint64_t offset)
{
    if (!info) {
        return;
    }
    const char *name = strrchr(file, '/');
    info->offset = offset;
    (void)snprintf(info->message, sizeof info->message,
                   "%.36s at byte %llu: %s: found %.52s, expected %.80s",
                   name ? name + 1 : file, (unsigned long long)offset, info->what,
                   info->found, info->expected);
}

bg_err journal_error_system(bg_errinfo *info, const char *call, const char *path)
{
    int code = errno;
    char reason[64] = "";
    /* The GNU form, which returns the text. */
    const char *text = strerror_r(code, reason, sizeof reason);
    (void)journal_error(info, BG_EIO, call, "success", "%s", text);
    if (info) {
        info->os_errno = code;
        (void)snprintf(info->message, sizeof info->message, "%s of %.180s: %s", call,
                       path, info->found);
    }
    return BG_EIO;
}
