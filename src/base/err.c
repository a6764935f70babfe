#include "bloomgate/err.h"

#include "base/errinfo.h"

#include <stdarg.h>
#include <stdbool.h>
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
    return "BG_UNKNOWN";
}

void bgi_err_clear(bg_errinfo *info)
{
    if (info) {
        memset(info, 0, sizeof *info);
    }
}

/* Size of the buffer in which a message is formatted before it is shortened. The buffer has enough
 * space for a path and a sentence. */
enum { ERR_TEXT_MAX = 4096 + 1024 };

/* Returns whether a byte continues a UTF-8 character. Text must not be truncated before such a
 * byte. */
static bool err_is_inside(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Formats a message. If the message does not fit in `size` bytes, its middle is cut out, so that
 * its end, which contains the file name or the remedy, stays readable. */
static __attribute__((format(printf, 3, 0))) void
err_format(char *to, size_t size, const char *format, va_list args)
{
    static const char gap[] = " ... ";
    char text[ERR_TEXT_MAX];
    const int written = vsnprintf(text, sizeof text, format, args);
    const size_t len = written < 0                     ? 0
                       : (size_t)written < sizeof text ? (size_t)written
                                                       : sizeof text - 1;
    if (len < size) {
        memcpy(to, text, len);
        to[len] = '\0';
        return;
    }
    const size_t kept = size - sizeof gap;
    size_t head = kept / 2, tail = kept - head;
    while (head > 0 && err_is_inside(text[head])) {
        head--;
    }
    while (tail > 0 && err_is_inside(text[len - tail])) {
        tail--;
    }
    memcpy(to, text, head);
    memcpy(to + head, gap, sizeof gap - 1);
    memcpy(to + head + sizeof gap - 1, text + len - tail, tail + 1);
}

static __attribute__((format(printf, 3, 4))) void err_print(char *to, size_t size,
                                                            const char *format, ...)
{
    va_list args;
    va_start(args, format);
    err_format(to, size, format, args);
    va_end(args);
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
    err_format(info->found, sizeof info->found, found, args);
    va_end(args);
    err_print(info->what, sizeof info->what, "%s", what);
    err_print(info->expected, sizeof info->expected, "%s", expected);
    if (info->found[0]) {
        err_print(info->message, sizeof info->message, "%s: found %s, expected %s",
                  info->what, info->found, info->expected);
    } else {
        err_print(info->message, sizeof info->message, "%s: expected %s", info->what,
                  info->expected);
    }
    return code;
}

bg_err bgi_err_state(bg_errinfo *info, bg_err code, const char *what,
                     const char *message, ...)
{
    if (!info) {
        return code;
    }
    bgi_err_clear(info);
    info->code = code;
    err_print(info->what, sizeof info->what, "%s", what);
    va_list args;
    va_start(args, message);
    err_format(info->message, sizeof info->message, message, args);
    va_end(args);
    return code;
}
