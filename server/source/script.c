/* script.c - see script.h. */
#include "source/script.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool script_begin(struct script *script)
{
    *script = (struct script){ .n = 0 };
    script->to = open_memstream(&script->text, &script->n);
    return script->to != NULL;
}

static bool script_is_in(const struct script *script, const char *path)
{
    FILE *file = fopen(path, "re");
    size_t i = 0;
    while (file && i < script->n && getc(file) == (unsigned char)script->text[i]) {
        i++;
    }
    const bool same = file && i == script->n && getc(file) == EOF && !ferror(file);
    if (file) {
        (void)fclose(file);
    }
    return same;
}

static bool script_write(const struct script *script, const char *path)
{
    FILE *file = fopen(path, "we");
    const bool written = file && fwrite(script->text, 1, script->n, file) == script->n;
    return file && fclose(file) == 0 && written;
}

/* Only the gate's own thread writes its script, so the temporary name needs no random part. */
static bool script_replace(const struct script *script, const char *path)
{
    char partial[PATH_MAX];
    const int n = snprintf(partial, sizeof partial, "%s.partial", path);
    if (n < 0 || (size_t)n >= sizeof partial) {
        errno = ENAMETOOLONG;
        return false;
    }
    if (script_write(script, partial) && rename(partial, path) == 0) {
        return true;
    }
    const int why = errno;
    (void)unlink(partial);
    errno = why;
    return false;
}

bool script_end(struct script *script, const char *path)
{
    bool good = !ferror(script->to);
    good = fclose(script->to) == 0 && good;
    good = good && (script_is_in(script, path) || script_replace(script, path));
    free(script->text);
    return good;
}
