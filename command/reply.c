/* reply.c - formats error replies. */
#include "reply.h"

#include <stdarg.h>
#include <stdio.h>

bool reply_errorf(const struct reply *r, const char *format, ...)
{
    char text[500];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c; c++) {
        if (*c == '\r' || *c == '\n') {
            *c = ' ';
        }
    }
    return reply_error(r, text);
}
