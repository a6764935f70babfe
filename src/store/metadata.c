/* metadata.c - see metadata.h. */
#include "store/metadata.h"

#include "base/errinfo.h"

#include <stdio.h>
#include <string.h>

const char *metadata_find(const char *text, const char *name)
{
    while (text && *text && strncmp(text, name, strlen(name)) != 0) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return text && *text ? text : NULL;
}

bool metadata_number(const char *text, const char *name, uint64_t *value)
{
    const char *line = metadata_find(text, name);
    const char *p = line ? line + strlen(name) : "";
    uint64_t number = 0;
    bool good = *p++ == ' ' && *p >= '0' && *p <= '9';
    for (; good && *p >= '0' && *p <= '9'; p++) {
        good = !__builtin_mul_overflow(number, 10u, &number)
               && !__builtin_add_overflow(number, (uint64_t)(*p - '0'), &number);
    }
    if (good && *p == '\n') {
        *value = number;
        return true;
    }
    return false;
}

bg_err metadata_put(const char *text, const char *name, uint64_t value,
                    char to[BG_METADATA_MAX], bg_errinfo *info)
{
    const char *lines = text ? text : "";
    const size_t length = strlen(lines);
    if (metadata_find(lines, name)) {
        return bgi_err_state(info, BG_EINVAL, "metadata",
                             "the metadata already has a line that starts with \"%s\", "
                             "which the library writes; remove it",
                             name);
    }
    const char *end = length && lines[length - 1] != '\n' ? "\n" : "";
    int n = snprintf(to, BG_METADATA_MAX, "%s%s%s %llu\n", lines, end, name,
                     (unsigned long long)value);
    if (n < 0 || n >= BG_METADATA_MAX) {
        char expected[80];
        (void)snprintf(expected, sizeof expected,
                       "at most %d bytes, including the line \"%s N\"",
                       BG_METADATA_MAX - 1, name);
        return bgi_err(info, BG_EINVAL, "metadata", expected, "%zu bytes", length);
    }
    return BG_OK;
}
