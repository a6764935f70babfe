/* foreign_file.c - see foreign_file.h. */
#include "foreign_file.h"

#include "replace_file.h"
#include "say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int foreign_bytes(const bg_foreign *foreign, const char *path, char **bytes,
                         size_t *n)
{
    bg_errinfo why;
    *bytes = NULL;
    if (bg_foreign_write(foreign, NULL, 0, n, &why)) {
        return say_error(path, &why);
    }
    *bytes = malloc(*n ? *n : 1);
    if (!*bytes) {
        return say_failed(CLI_FULL, "%s: no memory for %zu bytes", path, *n);
    }
    if (bg_foreign_write(foreign, *bytes, *n, n, &why)) {
        free(*bytes);
        return say_error(path, &why);
    }
    return CLI_OK;
}

int foreign_save(const bg_foreign *foreign, const char *path)
{
    char *bytes;
    size_t n;
    int code = foreign_bytes(foreign, path, &bytes, &n);
    if (!code) {
        code = replace_file(path, bytes, n);
        free(bytes);
    }
    return code;
}

/* Whether a file has these bytes, and no more. */
static bool foreign_file_has(FILE *file, const char *bytes, size_t n)
{
    char piece[1 << 14];
    size_t got;
    while ((got = fread(piece, 1, sizeof piece, file)) > 0) {
        if (got > n || memcmp(piece, bytes, got) != 0) {
            return false;
        }
        bytes += got;
        n -= got;
    }
    return n == 0 && !ferror(file);
}

int foreign_is_alone(const bg_foreign *foreign, const char *path, bool *alone)
{
    char *bytes;
    size_t n;
    const int code = foreign_bytes(foreign, path, &bytes, &n);
    if (code) {
        return code;
    }
    FILE *file = fopen(path, "rbe");
    *alone = file && foreign_file_has(file, bytes, n);
    if (file) {
        (void)fclose(file);
    }
    free(bytes);
    return CLI_OK;
}

bg_foreign_format foreign_format(const bg_foreign *foreign)
{
    bg_foreign_info about = { .struct_size = sizeof about };
    return bg_foreign_about(foreign, &about) ? (bg_foreign_format)0
                                             : (bg_foreign_format)about.format;
}
