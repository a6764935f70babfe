/* replace_file.c - see replace_file.h. */
#include "replace_file.h"

#include "claim.h"
#include "say.h"
#include "stop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool replace_write(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t done = write(fd, bytes, n);
        if (done < 0 && (errno != EINTR || stop_wanted())) {
            return false;
        }
        bytes += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return true;
}

/* Syncs a file. Retries if interrupted by a signal, unless the signal requests a stop. */
static bool replace_sync(int fd)
{
    while (fsync(fd) != 0) {
        if (errno != EINTR || stop_wanted()) {
            return false;
        }
    }
    return true;
}

/* Syncs the directory, so that the new name survives a crash. */
static bool replace_sync_folder(const char *path)
{
    char folder[CLAIM_PATH];
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) : 0;
    (void)snprintf(folder, sizeof folder, "%.*s", (int)n, path);
    const int fd = open(!slash   ? "."
                        : n == 0 ? "/"
                                 : folder,
                        O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    const bool synced = replace_sync(fd);
    return close(fd) == 0 && synced;
}

static bool replace_fill(int fd, const char *path, const void *bytes, size_t n)
{
    struct stat old;
    return replace_write(fd, bytes, n)
           && (stat(path, &old) != 0 || fchmod(fd, old.st_mode & 07777) == 0)
           && replace_sync(fd);
}

int replace_expect_regular(const char *path)
{
    struct stat about;
    /* The kernel refuses links that another user has left in a shared directory such as /tmp. */
    if (stat(path, &about) != 0) {
        return errno == ENOENT ? CLI_OK : say_errno(path);
    }
    return S_ISREG(about.st_mode)
               ? CLI_OK
               : say_refused("%s: not a regular file, so it cannot be replaced", path);
}

int replace_file(const char *path, const void *bytes, size_t n)
{
    char to[CLAIM_PATH], beside[CLAIM_PATH];
    int code = replace_expect_regular(path);
    code = code ? code : claim_follow(path, to);
    if (code) {
        return code;
    }
    const int length =
        snprintf(beside, sizeof beside, "%s.%ld.tmp", to, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof beside) {
        return say_refused("%s: path is too long", path);
    }
    const int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        return say_errno(path);
    }
    const bool filled = replace_fill(fd, to, bytes, n);
    int why = errno;
    const bool closed = close(fd) == 0;
    why = filled && !closed ? errno : why;
    if (filled && closed && !stop_wanted() && rename(beside, to) == 0) {
        return replace_sync_folder(to) ? CLI_OK : say_errno(path);
    }
    why = filled && closed ? errno : why;
    (void)unlink(beside);
    errno = why;
    return stop_wanted() ? (int)CLI_INTERRUPTED : say_errno(path);
}

int replace_file_with(const char *path, void (*print)(const void *what, FILE *to),
                      const void *what)
{
    char *bytes = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&bytes, &n);
    if (to) {
        print(what, to);
    }
    const bool printed = to && !ferror(to);
    const bool closed = to && fclose(to) == 0;
    const int code = printed && closed ? replace_file(path, bytes, n)
                                       : say_full("%s: out of memory", path);
    free(bytes);
    return code;
}
