/* identity.c - see identity.h. */
#include "identity.h"

#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { IDENTITY_BLOCKS = 64, IDENTITY_BLOCK = 4096 };

static bg_hasher identity_hasher(void)
{
    const bg_hash_spec fast = { .profile = BG_HASH_FAST };
    bg_hasher hasher;
    if (bg_hasher_init(&hasher, &fast, NULL)) {
        abort(); /* cannot happen: all parameters are valid */
    }
    return hasher;
}

static uint64_t identity_hash(const void *bytes, size_t n)
{
    const bg_hasher hasher = identity_hasher();
    return bg_hash_bytes(&hasher, bytes, n);
}

uint64_t identity_mix(uint64_t sum, uint64_t number)
{
    const bg_hasher hasher = identity_hasher();
    return bg_hash_u64(&hasher, bg_hash_u64(&hasher, sum) + number);
}

uint64_t identity_text(const char *text)
{
    return identity_hash(text, strlen(text));
}

/* Opens a file, or stdin for "-". Returns the descriptor, or -1. */
static int identity_open(const char *path, struct stat *about)
{
    const int fd = open(strcmp(path, "-") == 0 ? "/dev/stdin" : path,
                        O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, about) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* Reads a block; the last block of a file may be shorter. Returns false on error. */
static bool identity_read(int fd, uint64_t offset, char block[IDENTITY_BLOCK],
                          size_t *n)
{
    *n = 0;
    while (*n < IDENTITY_BLOCK) {
        const ssize_t got =
            pread(fd, block + *n, IDENTITY_BLOCK - *n, (off_t)(offset + *n));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got == 0;
        }
        *n += (size_t)got;
    }
    return true;
}

static bool identity_sample(int fd, uint64_t size, uint64_t *number)
{
    char block[IDENTITY_BLOCK];
    const uint64_t last = size > IDENTITY_BLOCK ? size - IDENTITY_BLOCK : 0;
    uint64_t offset = 0;
    *number = identity_mix(0, size);
    for (uint64_t i = 0; i < IDENTITY_BLOCKS; i++) {
        const uint64_t next =
            last / (IDENTITY_BLOCKS - 1) * i
            + last % (IDENTITY_BLOCKS - 1) * i / (IDENTITY_BLOCKS - 1);
        size_t n;
        if (i > 0 && next == offset) {
            continue;
        }
        offset = next;
        if (!identity_read(fd, offset, block, &n)) {
            return false;
        }
        *number = identity_mix(*number, identity_hash(block, n));
    }
    return true;
}

int identity_find(const char *path, enum identity_of of, uint64_t *number)
{
    struct stat about;
    *number = 0;
    const int fd = identity_open(path, &about);
    if (fd < 0) {
        return say_errno(path);
    }
    int code = CLI_OK;
    if (S_ISREG(about.st_mode)) {
        code = identity_sample(fd, (uint64_t)about.st_size, number) ? CLI_OK
                                                                    : say_errno(path);
        const uint64_t its[] = { about.st_ino, (uint64_t)about.st_mtim.tv_sec,
                                 (uint64_t)about.st_mtim.tv_nsec,
                                 (uint64_t)about.st_ctim.tv_sec,
                                 (uint64_t)about.st_ctim.tv_nsec };
        for (size_t i = 0; of == IDENTITY_FILE && i < sizeof its / sizeof *its; i++) {
            *number = identity_mix(*number, its[i]);
        }
    }
    (void)close(fd);
    return code;
}

int identity_changed(const char *path, time_t *seconds)
{
    struct stat about;
    const int code = stat(path, &about) == 0 ? CLI_OK : say_errno(path);
    *seconds = code ? 0 : about.st_ctim.tv_sec;
    return code;
}
