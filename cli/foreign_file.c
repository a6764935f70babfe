/* foreign_file.c - see foreign_file.h. */
#include "foreign_file.h"

#include "replace_file.h"
#include "say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the serialized filter, which the caller must free. On failure, reports the error, sets
 * *code, and returns NULL. */
static char *foreign_bytes(const bg_foreign *foreign, const char *path, size_t *n,
                           int *code)
{
    bg_errinfo why;
    if (bg_foreign_encode(foreign, NULL, 0, n, &why)) {
        *code = say_error(path, &why);
        return NULL;
    }
    char *bytes = malloc(*n ? *n : 1);
    if (!bytes) {
        *code = say_failed(CLI_FULL, "%s: cannot allocate %zu bytes", path, *n);
    } else if (bg_foreign_encode(foreign, bytes, *n, n, &why)) {
        *code = say_error(path, &why);
        free(bytes);
        bytes = NULL;
    }
    return bytes;
}

int foreign_save(const bg_foreign *foreign, const char *path)
{
    size_t n;
    int code = CLI_OK;
    char *bytes = foreign_bytes(foreign, path, &n, &code);
    if (bytes) {
        code = replace_file(path, bytes, n);
        free(bytes);
    }
    return code;
}

/* Returns whether a file consists of exactly the n bytes in `bytes`. */
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
    size_t n;
    int code = CLI_OK;
    char *bytes = foreign_bytes(foreign, path, &n, &code);
    if (!bytes) {
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
    return bg_foreign_get_info(foreign, &about) ? (bg_foreign_format)0
                                                : (bg_foreign_format)about.format;
}
