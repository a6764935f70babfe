/*
 * settings_file.c - reads the configuration file: one "name value" option per line, split into
 * words by words.h.
 *
 *     # comment
 *     port 6420
 *     gate catalog source=sqlite:/srv/shop.db \
 *         keys=product(id) follow=changes
 *     include users-*.conf
 *
 * A line that ends with \ continues on the next line. `include` reads another file, or all
 * files that match a pattern; relative paths are relative to the directory of the including
 * file. A missing file is an error; a pattern without matches is not. Later lines override earlier
 * lines.
 *
 * Limits: 4 MiB per file, 8 levels of includes, 256 files.
 */
#include "config/settings.h"
#include "text.h"
#include "util/words.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>

enum {
    SETTINGS_FILE_MAX = 4 << 20,
    SETTINGS_FILES_MAX = 256,
    SETTINGS_INCLUDES_DEEP = 8
};

/* ---- include ------------------------------------------------------------------------------ */

static void settings_file_include(struct settings_draft *draft, const char *where,
                                  const char *file, char *const *words, size_t n)
{
    char path[PATH_MAX];
    glob_t found = { 0 };
    if (n != 1 || !*words[0]) {
        settings_mistake(draft, where, "include: found %zu values, expected one: PATH",
                         n);
        return;
    }
    if (draft->alone) {
        settings_mistake(draft, where, "include: not allowed here");
        return;
    }
    const char *slash = words[0][0] == '/' ? NULL : strrchr(file, '/');
    const int length = snprintf(path, sizeof path, "%.*s%s",
                                slash ? (int)(slash + 1 - file) : 0, file, words[0]);
    if (length < 0 || (size_t)length >= sizeof path) {
        settings_mistake(draft, where, "include: the path is too long");
        return;
    }
    if (draft->depth == SETTINGS_INCLUDES_DEEP) {
        settings_mistake(draft, where, "include: nested more than %d levels deep",
                         SETTINGS_INCLUDES_DEEP);
        return;
    }
    draft->depth++;
    if (!strpbrk(words[0], "*?[")) {
        settings_read_file(draft, path);
    } else { /* NOLINTNEXTLINE(concurrency-mt-unsafe): thread-safe, except for user names (~name) */
        const bool matched = glob(path, 0, NULL, &found) == 0;
        for (size_t i = 0; matched && i < found.gl_pathc; i++) {
            settings_read_file(draft, found.gl_pathv[i]);
        }
        globfree(&found);
    }
    draft->depth--;
}

/* ---- Lines -------------------------------------------------------------------------------- */

static void settings_file_line(struct settings_draft *draft, const char *file,
                               size_t number, const char *text, size_t n)
{
    char where[PATH_MAX + 32];
    struct words words;
    (void)snprintf(where, sizeof where, "%s:%zu", file, number);
    const char *wrong = words_split(&words, text, n);
    if (wrong) {
        settings_mistake(draft, where, "%s", wrong);
        return;
    }
    if (words.count > 0 && strcmp(words.items[0], "include") == 0) {
        settings_file_include(draft, where, file, words.items + 1, words.count - 1);
    } else if (words.count > 0) {
        (void)settings_draft_set(draft, where, words.items[0], words.items + 1,
                                 words.count - 1);
    }
    words_free(&words);
}

/* Returns whether a line is a comment. A comment does not continue on the next line, even if it
 * ends with \. */
static bool settings_file_is_comment(const char *text, size_t n)
{
    while (n > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        n--;
    }
    return n > 0 && *text == '#';
}

/* Joins each line that ends with \ to the next line; the \ and the newline become spaces. */
void settings_read_text(struct settings_draft *draft, const char *name,
                        const char *text, size_t n)
{
    char *copy = malloc(n + 1);
    size_t number = 1, begin = 0, first = 1;
    if (!copy) {
        settings_mistake(draft, name, "out of memory");
        return;
    }
    if (n) {
        memcpy(copy, text, n);
    }
    copy[n] = '\n';
    for (size_t i = 0; i <= n; i++) {
        if (copy[i] != '\n') {
            continue;
        }
        const size_t end = i > begin && copy[i - 1] == '\r' ? i - 1 : i;
        number++;
        if (end > begin && copy[end - 1] == '\\' && i < n
            && !settings_file_is_comment(copy + begin, end - begin)) {
            memset(copy + end - 1, ' ', i - end + 2);
            continue;
        }
        settings_file_line(draft, name, first, copy + begin, end - begin);
        begin = i + 1;
        first = number;
    }
    OPENSSL_cleanse(copy, n);
    free(copy);
}

/* ---- Files -------------------------------------------------------------------------------- */

/* Reads a whole file; the caller frees the result. Returns NULL after reporting an error. */
static char *settings_file_load(struct settings_draft *draft, const char *path,
                                size_t *n)
{
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *text = NULL;
    *n = 0;
    if (fd < 0 || fstat(fd, &info) != 0) {
        settings_mistake(draft, path, "cannot be read: %s", text_errno(errno));
    } else if (!S_ISREG(info.st_mode)) {
        settings_mistake(draft, path, "not a regular file");
    } else if (info.st_size > SETTINGS_FILE_MAX) {
        settings_mistake(draft, path, "the file has %lld bytes (maximum: %d)",
                         (long long)info.st_size, SETTINGS_FILE_MAX);
    } else {
        text = malloc(SETTINGS_FILE_MAX);
        ssize_t got = text ? 1 : -1;
        while (got > 0 && *n < SETTINGS_FILE_MAX) {
            got = read(fd, text + *n, SETTINGS_FILE_MAX - *n);
            *n += got > 0 ? (size_t)got : 0;
        }
        if (got < 0) {
            settings_mistake(draft, path, "cannot be read: %s", text_errno(errno));
            free(text);
            text = NULL;
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return text;
}

void settings_read_file(struct settings_draft *draft, const char *path)
{
    size_t n;
    if (draft->files++ == SETTINGS_FILES_MAX) {
        settings_mistake(draft, path, "too many configuration files (maximum: %d)",
                         SETTINGS_FILES_MAX);
        return;
    }
    if (draft->files > SETTINGS_FILES_MAX) {
        return;
    }
    char *text = settings_file_load(draft, path, &n);
    if (text) {
        settings_read_text(draft, path, text, n);
        OPENSSL_cleanse(text, n);
        free(text);
    }
}
