/* journal/error.c - fills in the details of journal errors. */
#include "journal/error.h"

#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

bg_err journal_error_why(bg_errinfo *info, bg_err code, const char *what,
                         const char *why, ...)
{
    if (!info) {
        return code;
    }
    va_list arguments;
    journal_error_clear(info);
    info->code = code;
    (void)snprintf(info->what, sizeof info->what, "%s", what);
    const int n = snprintf(info->message, sizeof info->message, "%s: ", info->what);
    va_start(arguments, why);
    (void)vsnprintf(info->message + n, sizeof info->message - (size_t)n, why,
                    arguments);
    va_end(arguments);
    return code;
}

void journal_error_place(bg_errinfo *info, const char *file, uint64_t offset)
{
    if (!info) {
        return;
    }
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    const bg_errinfo before = *info;
    info->offset = offset;
    if (!before.expected[0]) { /* journal_error_why */
        (void)snprintf(info->message, sizeof info->message,
                       "%.36s at byte %llu: %.400s", name, (unsigned long long)offset,
                       before.message);
        return;
    }
    (void)snprintf(info->message, sizeof info->message,
                   "%.36s at byte %llu: %s: found %.52s, expected %.80s", name,
                   (unsigned long long)offset, before.what, before.found,
                   before.expected);
}

bg_err journal_error_system(bg_errinfo *info, const char *call, const char *path)
{
    int code = errno;
    (void)journal_error(info, BG_EIO, call, "success", "%s", text_errno(code));
    if (info) {
        info->os_errno = code;
        (void)snprintf(info->message, sizeof info->message, "%s failed for %.300s: %s",
                       call, path, info->found);
    }
    return BG_EIO;
}
