/* spool.c - see spool.h. The copies are never freed: a command reads only a few filters, and needs
 * their copies until it exits. */
#include "spool.h"

#include "input.h"
#include "option.h"
#include "say.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SPOOL_MAX = OPTION_LIST_MAX + 2, SPOOL_PATH = 32, SPOOL_PIECE = 1 << 18 };

static struct {
    const char *path;
    char copy[SPOOL_PATH];
} spools[SPOOL_MAX];
static size_t spool_count;

bool spool_is_standard(const char *path)
{
    return strcmp(path, "-") == 0;
}

const char *spool_name(const char *path)
{
    return spool_is_standard(path) ? "stdin" : path;
}

const char *spool_target_name(const char *path)
{
    return spool_is_standard(path) ? "stdout" : path;
}

const char *spool_path(const char *path)
{
    for (size_t i = 0; i < spool_count; i++) {
        if (strcmp(spools[i].path, path) == 0) {
            return spools[i].copy;
        }
    }
    return path;
}

/* Returns whether stdin was already read for a different argument "-". */
static bool spool_is_other(const char *path)
{
    for (size_t i = 0; i < spool_count; i++) {
        if (spool_is_standard(spools[i].path)) {
            return spools[i].path != path;
        }
    }
    return false;
}

/* Returns whether a path is stdin or a pipe that the shell has opened, as in <(command). A named
 * pipe is not copied, because opening it could block forever if there is no writer. */
static bool spool_is_pipe(const char *path)
{
    static const char opened[] = "/dev/fd/";
    struct stat about;
    return spool_is_standard(path)
           || (strncmp(path, opened, sizeof opened - 1) == 0 && stat(path, &about) == 0
               && S_ISFIFO(about.st_mode));
}

static bool spool_write(int to, const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t done = write(to, bytes, n);
        if (done < 0 && errno != EINTR) {
            return false;
        }
        bytes += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return true;
}

/* Copies everything that can be read from an input without decompressing it. */
static int spool_copy(char *path, int to)
{
    struct input input;
    char *piece = malloc(SPOOL_PIECE);
    int code = input_begin(&input, &path, 1, true, (struct input_part){ 0, 1 });
    code = code || piece ? code : say_full("out of memory");
    for (enum input_state state = INPUT_BYTES; !code && state == INPUT_BYTES;) {
        size_t n;
        state = input_read(&input, piece, SPOOL_PIECE, &n, &code);
        if (!code && !spool_write(to, piece, n)) {
            code = say_errno(spool_name(path));
        }
    }
    free(piece);
    input_end(&input);
    return code;
}

/* Returns whether stdin is a regular file that has not been read yet. */
static bool spool_is_whole_file(const char *path)
{
    struct stat about;
    return spool_is_standard(path) && fstat(STDIN_FILENO, &about) == 0
           && S_ISREG(about.st_mode) && lseek(STDIN_FILENO, 0, SEEK_CUR) == 0;
}

static int spool_place(const char *path, int fd)
{
    char *copy = spools[spool_count].copy;
    (void)snprintf(copy, SPOOL_PATH, "/proc/self/fd/%d", fd);
    if (access(copy, R_OK) != 0) {
        return say_failed(CLI_IO, "%s: cannot read a filter from a pipe: %s: %s",
                          spool_name(path), copy, text_errno(errno));
    }
    spools[spool_count++].path = path;
    return CLI_OK;
}

int spool_read(const char *path)
{
    if (spool_is_standard(path) && spool_is_other(path)) {
        return input_take_stdin(); /* fails */
    }
    if (spool_path(path) != path || !spool_is_pipe(path)) {
        return CLI_OK;
    }
    if (spool_count == SPOOL_MAX) {
        return say_refused("%s: too many filters from pipes", path);
    }
    if (spool_is_standard(path) && isatty(STDIN_FILENO)) {
        return say_usage(
            "a filter cannot be read from the terminal; specify a file, or "
            "redirect stdin");
    }
    if (spool_is_whole_file(path)) {
        const int code = input_take_stdin();
        return code ? code : spool_place(path, STDIN_FILENO);
    }
    const int fd = memfd_create("bloomgate", MFD_CLOEXEC);
    if (fd < 0) {
        return say_errno(spool_name(path));
    }
    const int code = spool_copy((char *)(uintptr_t)path, fd);
    return code ? code : spool_place(path, fd);
}
