/*
 * faulty_disk.h - a disk that fails, dies or loses data at a chosen call.
 *
 * The program is linked with --wrap for the calls below (tests/CMakeLists.txt), so the library's
 * calls go through these functions. Calls are counted, and `disk.fault` is injected at call number
 * `disk.at`.
 *
 * A power loss can be simulated. If `disk.folder` is set, the directory `disk.platter` holds
 * only the content of the platter: the bytes of each file at its last sync, and the names in
 * the directory at its last sync. disk_power_off() creates a directory from this content. This
 * is the worst case that a file system allows: nothing reaches the disk without a sync.
 *
 * Thread-safe only if no fault is set and no power loss is simulated.
 */
#ifndef TESTS_FAULTY_DISK_H
#define TESTS_FAULTY_DISK_H

#include "support/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum disk_fault {
    DISK_STOP_BEFORE, /* the process dies */
    DISK_STOP_AFTER,
    DISK_EIO,
    DISK_ENOSPC,
    DISK_SHORT,     /* writes half the bytes, without an error */
    DISK_HALF_FULL, /* writes half the bytes, and the next call fails with ENOSPC */
    DISK_FAULTS
};

static struct {
    const char *folder, *platter; /* NULL disables power-loss simulation */
    unsigned long calls, at;      /* 0: never */
    enum disk_fault fault;
    void (*on_create)(void); /* called once, before the next file is created */
    void (*on_open)(const char *path); /* called before a file is opened for reading */
    void (*on_rename)(const char *to); /* called after every rename */
    void (*on_sync)(void);             /* called before every fdatasync */
    void (*on_write)(int file, off_t at, size_t n); /* called before every write */
    unsigned long data_syncs; /* number of fdatasync calls; updated atomically */
    bool interrupts;          /* every write and sync first fails with EINTR */
    bool interrupted;         /* the current call has already failed with EINTR */
    bool patient;             /* syncs succeed at once, without syncing the real disk */
} disk;

/* On 32-bit machines, the calls with 64-bit file offsets have different names. */
#if __SIZEOF_POINTER__ == 4
#define __real_open      __real_open64
#define __wrap_open      __wrap_open64
#define __real_pwrite    __real_pwrite64
#define __wrap_pwrite    __wrap_pwrite64
#define __real_ftruncate __real_ftruncate64
#define __wrap_ftruncate __wrap_ftruncate64
#endif

int __real_open(const char *path, int flags, ...);
ssize_t __real_pwrite(int file, const void *from, size_t n, off_t at);
int __real_fsync(int file);
int __real_fdatasync(int file);
int __real_ftruncate(int file, off_t length);
int __real_rename(const char *from, const char *to);
int __real_link(const char *from, const char *to);
int __real_unlink(const char *path);

/* ---- The platter ------------------------------------------------------------------- */

static void disk_copy(const char *from, const char *to)
{
    char bytes[4096], beside[324];
    (void)snprintf(beside, sizeof beside, "%s+", to);
    int in = __real_open(from, O_RDONLY);
    int out = __real_open(beside, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t n;
    while (in >= 0 && (n = read(in, bytes, sizeof bytes)) > 0) {
        if (write(out, bytes, (size_t)n) != n) {
            abort();
        }
    }
    if (in >= 0) {
        (void)close(in);
    }
    (void)close(out);
    (void)__real_rename(beside, to);
}

static void disk_inode_path(char path[320], const char *folder, unsigned long inode)
{
    (void)snprintf(path, 320, "%s/%lu", folder, inode);
}

/* While a platter is simulated, the real disk need not be synced. */
static int disk_sync(int file, int (*sync)(int file))
{
    return disk.folder || disk.patient ? 0 : sync(file);
}

/* After a successful sync, copies the synced file, or the names in the synced directory, to the
 * platter. */
static void disk_note_sync(int file)
{
    char from[320], to[320];
    struct stat about;
    if (!disk.folder || fstat(file, &about) != 0) {
        return;
    }
    if (S_ISREG(about.st_mode)) {
        (void)snprintf(from, sizeof from, "/proc/self/fd/%d", file);
        disk_inode_path(to, disk.platter, (unsigned long)about.st_ino);
        disk_copy(from, to);
        return;
    }
    (void)snprintf(from, sizeof from, "%s/names.new", disk.platter);
    (void)snprintf(to, sizeof to, "%s/names", disk.platter);
    FILE *names = fopen(from, "w");
    DIR *folder = opendir(disk.folder);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a private directory */
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        (void)fprintf(names, "%lu %s\n", (unsigned long)entry->d_ino, entry->d_name);
    }
    (void)closedir(folder);
    (void)fclose(names);
    (void)__real_rename(from, to);
}

/* Called for a new file. Deletes any platter file with the same inode number, which belonged to a
 * different file. */
static void disk_note_new(int file)
{
    char path[320];
    struct stat about;
    if (disk.folder && file >= 0 && fstat(file, &about) == 0) {
        disk_inode_path(path, disk.platter, (unsigned long)about.st_ino);
        (void)__real_unlink(path);
    }
}

/* Fills the directory `to` with the content that remains after a power loss. */
static inline void disk_power_off(const char *platter, const char *to)
{
    char line[512], from[320], path[800];
    (void)snprintf(path, sizeof path, "%s/names", platter);
    FILE *names = fopen(path, "r");
    while (names && fgets(line, sizeof line, names)) {
        char *name, *end = strchr(line, '\n');
        unsigned long inode = strtoul(line, &name, 10);
        if (!end || *name++ != ' ' || *name == '.') {
            continue;
        }
        *end = 0;
        disk_inode_path(from, platter, inode);
        (void)snprintf(path, sizeof path, "%.255s/%s", to, name);
        disk_copy(from, path);
    }
    if (names) {
        (void)fclose(names);
    }
}

/* Empties a directory, or creates it. */
static inline void disk_empty_folder(const char *path)
{
    char name[600];
    (void)mkdir(path, 0700);
    DIR *folder = opendir(path);
    CHECK(folder);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a private directory */
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        (void)snprintf(name, sizeof name, "%.255s/%s", path, entry->d_name);
        (void)__real_unlink(name);
    }
    (void)closedir(folder);
}

/* ---- Faults ------------------------------------------------------------------------ */

/* Counts a call. Returns the errno with which the call must fail, or 0. */
static int disk_before(bool *now)
{
    *now = disk.at && ++disk.calls == disk.at;
    if (disk.at && disk.fault == DISK_HALF_FULL && disk.calls == disk.at + 1) {
        return ENOSPC;
    }
    if (!*now) {
        return 0;
    }
    if (disk.fault == DISK_STOP_BEFORE) {
        (void)kill(getpid(), SIGKILL);
    }
    return disk.fault == DISK_EIO ? EIO : disk.fault == DISK_ENOSPC ? ENOSPC : 0;
}

static void disk_after(bool now)
{
    if (now && disk.fault == DISK_STOP_AFTER) {
        (void)kill(getpid(), SIGKILL);
    }
}

static bool disk_interrupts(void)
{
    if (!disk.interrupts) {
        return false;
    }
    disk.interrupted = !disk.interrupted;
    errno = EINTR;
    return disk.interrupted;
}

#define DISK_CALL(result, call, good)                                                  \
    do {                                                                               \
        bool now;                                                                      \
        int code = disk_before(&now);                                                  \
        if (code) {                                                                    \
            errno = code;                                                              \
            return -1;                                                                 \
        }                                                                              \
        (result) = (call);                                                             \
        if ((result) >= 0) {                                                           \
            good;                                                                      \
        }                                                                              \
        disk_after(now);                                                               \
    } while (0)

int __wrap_open(const char *path, int flags, ...);
ssize_t __wrap_pwrite(int file, const void *from, size_t n, off_t at);
int __wrap_fsync(int file);
int __wrap_fdatasync(int file);
int __wrap_ftruncate(int file, off_t length);
int __wrap_rename(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);
int __wrap_unlink(const char *path);

int __wrap_open(const char *path, int flags, ...)
{
    unsigned mode = 0;
    int file;
    if (flags & O_CREAT) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, unsigned);
        va_end(arguments);
        void (*tell)(void) = disk.on_create;
        if (tell) {
            disk.on_create = NULL;
            tell();
        }
    } else if (disk.on_open) {
        disk.on_open(path);
    }
    DISK_CALL(file, __real_open(path, flags, mode),
              flags & O_CREAT ? disk_note_new(file) : (void)0);
    return file;
}

ssize_t __wrap_pwrite(int file, const void *from, size_t n, off_t at)
{
    ssize_t put;
    if (disk_interrupts()) {
        return -1;
    }
    if (disk.on_write) {
        disk.on_write(file, at, n);
    }
    if (disk.at && disk.calls + 1 == disk.at && n > 1
        && (disk.fault == DISK_SHORT || disk.fault == DISK_HALF_FULL)) {
        n /= 2;
    }
    DISK_CALL(put, __real_pwrite(file, from, n, at), (void)0);
    return put;
}

int __wrap_fsync(int file)
{
    int result;
    if (disk_interrupts()) {
        return -1;
    }
    DISK_CALL(result, disk_sync(file, __real_fsync), disk_note_sync(file));
    return result;
}

int __wrap_fdatasync(int file)
{
    int result;
    if (disk_interrupts()) {
        return -1;
    }
    __atomic_add_fetch(&disk.data_syncs, 1, __ATOMIC_RELAXED);
    if (disk.on_sync) {
        disk.on_sync();
    }
    DISK_CALL(result, disk_sync(file, __real_fdatasync), disk_note_sync(file));
    return result;
}

int __wrap_ftruncate(int file, off_t length)
{
    int result;
    if (disk_interrupts()) {
        return -1;
    }
    DISK_CALL(result, __real_ftruncate(file, length), (void)0);
    return result;
}

int __wrap_rename(const char *from, const char *to)
{
    int result;
    DISK_CALL(result, __real_rename(from, to), (void)0);
    if (disk.on_rename) {
        disk.on_rename(to);
    }
    return result;
}

int __wrap_link(const char *from, const char *to)
{
    int result;
    DISK_CALL(result, __real_link(from, to), (void)0);
    return result;
}

int __wrap_unlink(const char *path)
{
    int result;
    DISK_CALL(result, __real_unlink(path), (void)0);
    return result;
}

#endif
