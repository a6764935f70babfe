/* claim.c - see claim.h. */
#include "claim.h"

#include "number.h"
#include "say.h"
#include "stop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CLAIM_MANY = 64,  /* number of claims at which the open-file limit is raised */
    CLAIM_AGAIN = 10, /* milliseconds between attempts */
    CLAIM_LINKS = 40  /* maximum number of links to follow, as in Linux */
};

struct claim {
    char *name; /* name of the lock file */
    int fd;     /* -1 if this claim shares the first claim's descriptor */
    dev_t device;
    ino_t inode;
};

static struct claim *claims;
static size_t claim_count, claim_room;

enum claim_state { CLAIM_MADE, CLAIM_BUSY, CLAIM_REMOVED, CLAIM_FAILED };

/* Returns whether the lock file is still the file that was locked. */
static bool claim_is_there(const struct claim *claim)
{
    struct stat named;
    return lstat(claim->name, &named) == 0 && claim->device == named.st_dev
           && claim->inode == named.st_ino;
}

/* Returns whether this command already holds the claim, through this path or a different path. */
static bool claim_is_held(const char *name)
{
    struct stat named;
    if (lstat(name, &named) != 0) {
        return false;
    }
    for (size_t i = 0; i < claim_count; i++) {
        if (claims[i].device == named.st_dev && claims[i].inode == named.st_ino) {
            return true;
        }
    }
    return false;
}

/* Claims a name by linking it to the lock file of the first claim (L4). */
static bool claim_share(struct claim *claim)
{
    if (claim_count == 0 || link(claims[0].name, claim->name) != 0) {
        return false;
    }
    claim->fd = -1;
    claim->device = claims[0].device;
    claim->inode = claims[0].inode;
    return claim_is_there(claim);
}

/* Makes space for one more claim. bloomgate split claims a file for each shard. */
static bool claim_reserve(void)
{
    struct rlimit files;
    if (claim_count == CLAIM_MANY && getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files); /* open reports failures */
    }
    if (claim_count == claim_room) {
        const size_t room = claim_room ? 2 * claim_room : 4;
        struct claim *grown = realloc(claims, room * sizeof *claims);
        if (!grown) {
            return false;
        }
        claims = grown;
        claim_room = room;
    }
    return true;
}

/* Creates a lock file that all users can open, so that they can wait for the lock. */
static int claim_create(const char *name)
{
    const mode_t mask = umask(0);
    const int fd = open(name, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    const int why = errno;
    (void)umask(mask);
    errno = why;
    return fd;
}

/* Opens the lock file, which other commands may create and remove at any time. */
static int claim_open(const char *name)
{
    int fd;
    do {
        fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        fd = fd < 0 && errno == ENOENT ? claim_create(name) : fd;
    } while (fd < 0 && (errno == EEXIST || errno == EINTR) && !stop_wanted());
    return fd;
}

static enum claim_state claim_try(struct claim *claim)
{
    struct stat locked;
    enum claim_state state = CLAIM_MADE;
    if (claim_share(claim)) {
        return CLAIM_MADE;
    }
    claim->fd = claim_open(claim->name);
    if (claim->fd < 0) {
        return CLAIM_FAILED;
    }
    if (flock(claim->fd, LOCK_EX | LOCK_NB) != 0) {
        state = errno == EWOULDBLOCK || errno == EINTR ? CLAIM_BUSY : CLAIM_FAILED;
    } else if (fstat(claim->fd, &locked) != 0) {
        state = CLAIM_FAILED;
    } else {
        claim->device = locked.st_dev;
        claim->inode = locked.st_ino;
        const bool removed =
            !claim_is_there(claim)                                /* (L1) */
            || (locked.st_nlink > 1 && unlink(claim->name) == 0); /* (L4) */
        state = removed ? CLAIM_REMOVED : CLAIM_MADE;
    }
    if (state != CLAIM_MADE) {
        const int why = errno;
        (void)close(claim->fd);
        errno = why;
    }
    return state;
}

/* Reads the maximum number of seconds to wait. */
static int claim_patience(double *seconds)
{
    const char *text =
        getenv("BLOOMGATE_LOCK_WAIT"); /* NOLINT(concurrency-mt-unsafe) */
    *seconds = 60;
    return !text || !*text || number_seconds(text, seconds)
               ? CLI_OK
               : say_usage("BLOOMGATE_LOCK_WAIT: found '%s', expected a time such as "
                           "60s",
                           text);
}

/* Waits before the next attempt. CLI_OK means that the caller should try again. */
static int claim_pause(const char *path, const struct progress *since, double most)
{
    struct pollfd stop = { .fd = stop_fd(), .events = POLLIN };
    if (progress_seconds(since) >= most) {
        return say_failed(
            CLI_IO,
            "%s: another bloomgate command is changing this file; try again when "
            "that command has finished, or set a longer wait (for example, "
            "BLOOMGATE_LOCK_WAIT=5m)",
            path);
    }
    (void)poll(&stop, 1, CLAIM_AGAIN);
    return stop_wanted() ? (int)CLI_INTERRUPTED : CLI_OK;
}

/* Reports errno for the lock file if it exists, and otherwise for the file itself. */
static int claim_failed(const char *path, const char *name)
{
    const int why = errno;
    struct stat about;
    const bool exists = lstat(name, &about) == 0;
    errno = why;
    return say_errno(exists ? name : path);
}

static int claim_take(const char *path, struct claim *claim, double most)
{
    bool told = most <= 0;
    struct progress since;
    progress_begin(&since, NULL);
    for (;;) {
        const enum claim_state state = claim_try(claim);
        if (state == CLAIM_MADE || state == CLAIM_FAILED) {
            return state == CLAIM_MADE ? CLI_OK
                   : stop_wanted()     ? (int)CLI_INTERRUPTED
                                       : claim_failed(path, claim->name);
        }
        if (!told && state == CLAIM_BUSY) {
            told = true;
            say_note("%s: waiting for another bloomgate command to finish changing "
                     "this file",
                     path);
        }
        const int code =
            state == CLAIM_BUSY ? claim_pause(path, &since, most) : (int)CLI_OK;
        if (code) {
            return code;
        }
    }
}

static bool claim_lock_name(const char *to, char name[CLAIM_PATH])
{
    const int n = snprintf(name, CLAIM_PATH, "%s.bloomgate-lock", to);
    return n > 0 && n < CLAIM_PATH;
}

/* Claims the name `to`; error messages show `path`. */
static int claim_name(const char *path, const char *to)
{
    char name[CLAIM_PATH];
    double most = 0;
    const int code = claim_patience(&most);
    if (code) {
        return code;
    }
    if (!claim_lock_name(to, name)) {
        return say_refused("%s: path is too long", path);
    }
    if (claim_is_held(name)) {
        return CLI_OK;
    }
    struct claim claim = { .name = strdup(name) };
    if (!claim.name || !claim_reserve()) {
        free(claim.name);
        return say_full("out of memory");
    }
    const int taken = claim_take(path, &claim, most);
    if (taken) {
        free(claim.name);
        return taken;
    }
    claims[claim_count++] = claim;
    return CLI_OK;
}

int claim_file(const char *path)
{
    return claim_name(path, path);
}

/* Replaces a path after its first `n` bytes with `text`, unless the result is too long. */
static bool claim_append(char to[CLAIM_PATH], size_t n, const char *text)
{
    const bool fits = n + strlen(text) < CLAIM_PATH;
    if (fits) {
        memcpy(to + n, text, strlen(text) + 1);
    }
    return fits;
}

/* Replaces the path of a link with the path of its target. Returns false if the path is not a link,
 * or if the target's path is too long. */
static bool claim_read_link(char to[CLAIM_PATH])
{
    char text[CLAIM_PATH];
    const char *slash = strrchr(to, '/');
    const ssize_t n = readlink(to, text, sizeof text - 1);
    if (n <= 0) {
        return false;
    }
    text[n] = 0;
    return claim_append(to, *text == '/' || !slash ? 0 : (size_t)(slash + 1 - to),
                        text);
}

/* Returns whether the path, or one of the directories in it, is a link. */
static bool claim_has_links(const char *path)
{
    char part[CLAIM_PATH], text[1];
    for (size_t n = strlen(path); n > 0; n--) {
        if (!path[n] || path[n] == '/') {
            memcpy(part, path, n);
            part[n] = 0;
            if (readlink(part, text, sizeof text) >= 0) {
                return true;
            }
        }
    }
    return false;
}

int claim_follow(const char *path, char to[CLAIM_PATH])
{
    bool fits = claim_append(to, 0, path);
    if (fits && !claim_has_links(path)) {
        return CLI_OK;
    }
    for (int links = 0; fits && links < CLAIM_LINKS; links++) {
        char *real = realpath(to, NULL);
        if (real) {
            fits = claim_append(to, 0, real);
            free(real);
            return fits ? CLI_OK : say_refused("%s: path is too long", path);
        }
        if (errno != ENOENT) {
            return say_errno(path);
        }
        if (!claim_read_link(to)) {
            return CLI_OK;
        }
    }
    return say_refused("%s: path is too long, or contains too many symbolic links",
                       path);
}

/* Releases all but the first `kept` claims. */
static void claim_release(size_t kept)
{
    while (claim_count > kept) {
        const struct claim *claim = &claims[--claim_count];
        if (claim_is_there(claim)) {   /* (L3) */
            (void)unlink(claim->name); /* (L1) remove the file while it is locked */
        }
        if (claim->fd >= 0) {
            (void)close(claim->fd);
        }
        free(claim->name);
    }
}

int claim_target(const char *path, char to[CLAIM_PATH])
{
    char now[CLAIM_PATH];
    const size_t before = claim_count;
    int code = claim_follow(path, to);
    for (;;) {
        code = code ? code : claim_name(path, to);
        code = code ? code : claim_follow(path, now);
        if (code || strcmp(now, to) == 0) {
            return code;
        }
        memcpy(to, now, CLAIM_PATH); /* the link was changed in the meantime */
        claim_release(before);
    }
}

bool claim_holds(const char *path)
{
    char to[CLAIM_PATH], name[CLAIM_PATH];
    return claim_follow(path, to) == CLI_OK && claim_lock_name(to, name)
           && claim_is_held(name);
}

void claim_end(void)
{
    claim_release(0);
    free(claims);
    claims = NULL;
    claim_room = 0;
}
