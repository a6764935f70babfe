/*
 * Files on a failing OS. Every system call and every allocation fails once or permanently. Reads
 * and writes process fewer bytes than requested, and the disk is full. The process is killed before
 * and after every call. Whatever happens, the path holds either the old file or the new one, and
 * that file is complete.
 *
 * The linker's --wrap option redirects the library's calls to the functions below, which count
 * them.
 */
#define _GNU_SOURCE
#include "support/files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* ---- Interposed system calls --------------------------------------------------------- */

enum fault { NONE, FAIL, FAIL_FROM_NOW_ON, KILL_BEFORE, KILL_AFTER, MEANWHILE };

static struct {
    enum fault fault;
    unsigned at;    /* which call, from 1 */
    unsigned calls; /* so far */
    bool fired;
    bool shortens; /* reads and writes process half of the requested bytes */
    int error;
    void (*meanwhile)(void); /* simulates a change by another process before the call */
} faults;

static void faults_set(enum fault fault, unsigned at, int error)
{
    faults.fault = fault;
    faults.at = at;
    faults.calls = 0;
    faults.fired = false;
    faults.error = error;
}

/* Returns whether this call is to fail. Does not return if the process is to be killed before
 * this call. */
static bool call_fails(void)
{
    unsigned call = ++faults.calls;
    if (faults.fault == NONE || call < faults.at
        || (call > faults.at && faults.fault != FAIL_FROM_NOW_ON)) {
        return false;
    }
    if (faults.fault == KILL_BEFORE) {
        (void)raise(SIGKILL);
    }
    faults.fired = true;
    if (faults.fault == MEANWHILE) {
        faults.meanwhile();
    }
    errno = faults.error;
    return faults.fault != KILL_AFTER && faults.fault != MEANWHILE;
}

static void call_done(void)
{
    if (faults.fault == KILL_AFTER && faults.calls == faults.at) {
        (void)raise(SIGKILL);
    }
}

#define INTERPOSE(type, failure, name, parameters, arguments)                          \
    type __real_##name parameters;                                                     \
    type __wrap_##name parameters;                                                     \
    type __wrap_##name parameters                                                      \
    {                                                                                  \
        if (call_fails()) {                                                            \
            return failure;                                                            \
        }                                                                              \
        type result = __real_##name arguments;                                         \
        call_done();                                                                   \
        return result;                                                                 \
    }

INTERPOSE(int, -1, fsync, (int fd), (fd))
INTERPOSE(int, -1, rename, (const char *from, const char *to), (from, to))
INTERPOSE(int, -1, close, (int fd), (fd))
INTERPOSE(int, -1, fchmod, (int fd, mode_t mode), (fd, mode))
INTERPOSE(int, -1, fstat, (int fd, struct stat *about), (fd, about))
INTERPOSE(void *, MAP_FAILED, mmap,
          (void *at, size_t n, int protection, int flags, int fd, off_t offset),
          (at, n, protection, flags, fd, offset))
INTERPOSE(int, ENOMEM, posix_memalign, (void **to, size_t alignment, size_t n),
          (to, alignment, n))
INTERPOSE(ssize_t, -1, pread, (int fd, void *to, size_t n, off_t at),
          (fd, to, faults.shortens &&n > 1 ? n / 2 : n, at))
INTERPOSE(ssize_t, -1, pwrite, (int fd, const void *from, size_t n, off_t at),
          (fd, from, faults.shortens &&n > 1 ? n / 2 : n, at))

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (call_fails()) {
        return -1;
    }
    int fd = __real_open(path, flags, mode);
    call_done();
    return fd;
}

/* ---- Operations, and the conditions that must hold afterwards ------------------------- */

static bg_filter *old_filter, *new_filter;

static bg_err save_new(bg_errinfo *info)
{
    return bg_save(new_filter, files_path("filter"), NULL, info);
}

static bg_err publish_new(bg_errinfo *info)
{
    return bg_publish(new_filter, files_folder(), "filter", NULL, NULL, info);
}

static unsigned temporaries(void)
{
    unsigned count = 0;
    DIR *folder = opendir(files_folder());
    CHECK(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        count += strstr(entry->d_name, ".tmp.") != NULL;
    }
    (void)closedir(folder);
    return count;
}

/* Checks that the file is complete and is either the old or the new file. Returns true for the new
 * file. */
static bool check_old_or_new(void)
{
    bg_filter *found = NULL;
    bg_errinfo why;
    if (bg_verify(files_path("filter"), NULL, NULL, &why) != BG_OK
        || bg_open(files_path("filter"), NULL, &found, &why) != BG_OK) {
        check_fail(__FILE__, __LINE__,
                   "the file is neither the old nor the new one: %s", why.message);
    }
    bool is_new = bg_filter_equal(found, new_filter);
    CHECK(is_new || bg_filter_equal(found, old_filter));
    bg_filter_free(found);
    return is_new;
}

static void begin(bool publishes)
{
    files_clean();
    old_filter = files_make(2, 1);
    /* Filters of this kind are copied before they are written. */
    new_filter = files_make(8, 1);
    if (publishes) {
        CHECK_OK(bg_publish(old_filter, files_folder(), "filter", NULL, NULL, NULL));
    } else {
        CHECK_OK(bg_save(old_filter, files_path("filter"), NULL, NULL));
    }
}

static void end(void)
{
    bg_filter_free(old_filter);
    bg_filter_free(new_filter);
    files_clean();
}

static void fail_every_call(bool publishes, enum fault fault, int error)
{
    unsigned failures = 0;
    begin(publishes);
    for (unsigned at = 1;; at++) {
        bg_errinfo why;
        faults_set(fault, at, error);
        bg_err err = publishes ? publish_new(&why) : save_new(&why);
        bool fired = faults.fired;
        faults_set(NONE, 0, 0);
        bool is_new = check_old_or_new();
        CHECK_EQ(temporaries(), 0);
        if (!fired) {
            CHECK_OK(err);
            CHECK(is_new);
            break;
        }
        /* A failure of fchmod is ignored; every other failure is reported. */
        if (err) {
            CHECK(err == BG_EIO || err == BG_ENOMEM);
            CHECK(err != BG_EIO || why.os_errno == error);
            failures++;
        }
    }
    CHECK(failures >= 10);
    end();
}

TEST(faults__every_call_fails_once)
{
    static const int errors[] = { EIO, ENOSPC, EMFILE };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        fail_every_call(false, FAIL, errors[i]);
        fail_every_call(true, FAIL, errors[i]);
    }
}

TEST(faults__every_call_fails_from_then_on)
{
    begin(false);
    for (unsigned at = 1;; at++) {
        bg_errinfo why;
        faults_set(FAIL_FROM_NOW_ON, at, EIO);
        bg_err err = save_new(&why);
        bool fired = faults.fired;
        faults_set(NONE, 0, 0);
        bool is_new = check_old_or_new();
        if (!fired) {
            CHECK_OK(err);
            break;
        }
        CHECK(err == BG_EIO || err == BG_ENOMEM || (err == BG_OK && is_new));
    }
    end();
}

TEST(faults__interrupted_calls_are_repeated)
{
    begin(false);
    for (unsigned at = 1; at < 12; at++) {
        bg_errinfo why;
        faults_set(FAIL, at, EINTR);
        bg_err err = save_new(&why);
        faults_set(NONE, 0, 0);
        CHECK(err == BG_OK || err == BG_EIO || err == BG_ENOMEM);
        (void)check_old_or_new();
    }
    end();
}

TEST(faults__short_reads_and_writes)
{
    begin(false);
    faults.shortens = true;
    bg_errinfo why;
    CHECK_OK(save_new(&why));
    CHECK(check_old_or_new());
    faults.shortens = false;
    CHECK(check_old_or_new());
    end();
}

/* Opens, maps and verifies files, and makes each system call fail in turn. */
TEST(faults__opening_fails)
{
    begin(false);
    for (int how = 0; how < 3; how++) {
        for (unsigned at = 1;; at++) {
            bg_filter *filter = NULL;
            bg_errinfo why;
            const char *path = files_path("filter");
            faults_set(FAIL, at, EIO);
            bg_err err = how == 0   ? bg_open(path, NULL, &filter, &why)
                         : how == 1 ? bg_map(path, NULL, &filter, &why)
                                    : bg_verify(path, NULL, NULL, &why);
            bool fired = faults.fired;
            faults_set(NONE, 0, 0);
            CHECK(!err || filter == NULL);
            bg_filter_free(filter);
            if (!fired) {
                CHECK_OK(err);
                break;
            }
        }
    }
    end();
}

/* ---- Killed processes ----------------------------------------------------------------- */

static void kill_at_every_call(bool publishes, enum fault fault)
{
    unsigned old = 0, new = 0;
    for (unsigned at = 1;; at++) {
        begin(publishes);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            bg_errinfo why;
            faults_set(fault, at, 0);
            bg_err err = publishes ? publish_new(&why) : save_new(&why);
            _exit(err ? 1 : 0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        bool is_new = check_old_or_new();
        old += !is_new;
        new += is_new;
        end();
        if (WIFEXITED(status)) {
            CHECK_EQ(WEXITSTATUS(status), 0);
            CHECK(is_new);
            break;
        }
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    CHECK(old >= 10 && new >= 1);
}

/* ---- Files that are written in place while they are read --------------------------------- */

enum { FEW = 50, MANY = 100, PLACE_BYTES = 1 << 16 };

/* Two files of the same size: one with FEW keys and one with MANY. Each file states its number
 * of keys in its metadata. */
static struct {
    unsigned char bytes[2][PLACE_BYTES];
    size_t n;
    int next; /* index of the file to be written next */
} place;

static bg_filter *place_filter(uint64_t keys)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_BLOCKED;
    spec.items = MANY;
    spec.rate = 1e-6;
    bg_filter *filter = must_create(&spec);
    (void)add_range(filter, 0, keys);
    return filter;
}

static void place_prepare(void)
{
    for (int many = 0; many < 2; many++) {
        const int keys = many ? MANY : FEW;
        bg_filter *filter = place_filter((uint64_t)keys);
        bg_save_options how = BG_SAVE_OPTIONS_INIT;
        char metadata[64];
        (void)snprintf(metadata, sizeof metadata, "complete: %d\noplog: %d\n", keys,
                       keys);
        how.metadata = metadata;
        CHECK_OK(
            bg_encode(filter, &how, place.bytes[many], PLACE_BYTES, &place.n, NULL));
        bg_filter_free(filter);
    }
}

static void place_write(void)
{
    FILE *stream = fopen(files_path("filter"), faults.fired ? "r+" : "w");
    CHECK(stream && fwrite(place.bytes[place.next], 1, place.n, stream) == place.n);
    CHECK(fclose(stream) == 0);
    place.next = !place.next;
}

/* Writes a log that contains all keys. */
static void place_log(void)
{
    bg_filter *filter = place_filter(0);
    bg_oplog *log = NULL;
    uint64_t hashes[MANY];
    for (uint64_t key = 0; key < MANY; key++) {
        hashes[key] = bg_hash_u64(bg_filter_hasher(filter), key);
    }
    CHECK_OK(bg_oplog_open(files_path("log"), filter, NULL, &log, NULL, NULL));
    CHECK_OK(bg_oplog_append(log, NULL, hashes, MANY, NULL, NULL));
    CHECK_OK(bg_oplog_close(log, NULL));
    bg_filter_free(filter);
}

static void place_open(void)
{
    bg_file_info about = { .struct_size = sizeof about };
    bg_filter *filter = NULL;
    if (bg_open_with_info(files_path("filter"), NULL, &about, &filter, NULL) == BG_OK) {
        const size_t keys = strstr(about.metadata, "complete: 100") ? MANY : FEW;
        CHECK_EQ(ask_range(filter, 0, keys), keys);
        bg_filter_free(filter);
    }
}

static void place_reload(uint32_t flags)
{
    bg_slot_options sealed = BG_SLOT_OPTIONS_INIT;
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    bg_slot *slot = NULL;
    sealed.flags = BG_SLOT_SEALED;
    how.flags = flags;
    CHECK_OK(bg_slot_create(NULL, &sealed, &slot, NULL));
    if (bg_slot_reload(slot, files_path("filter"), &how, NULL) == BG_OK) {
        if (flags & BG_SLOT_MAP) {
            /* The second reload detects a write that came after the first one. */
            faults.fault = NONE;
            (void)!bg_slot_reload(slot, files_path("filter"), &how, NULL);
        }
        for (uint64_t key = 0; key < bg_slot_complete_to(slot); key++) {
            CHECK(bg_slot_may_contain_u64(slot, key));
        }
    }
    bg_slot_free(slot);
}

static void place_recover(void)
{
    bg_filter *filter = NULL;
    if (bg_oplog_recover(files_path("filter"), files_path("log"), NULL, &filter, NULL,
                         NULL)
        == BG_OK) {
        CHECK_EQ(ask_range(filter, 0, MANY), MANY);
        bg_filter_free(filter);
    }
}

/* Overwrites a file in place while it is being read. Either the file is refused, or the filter is
 * exactly one of the two filters. The information reported about the file applies to the filter
 * that was read. */
TEST(faults__written_in_place_at_every_call)
{
    place_prepare();
    place_log();
    for (int way = 0; way < 8; way++) {
        faults.fired = true;
        for (unsigned at = 1; faults.fired; at++) {
            faults.fired = false;
            place.next = way & 1;
            place_write();
            faults.meanwhile = place_write;
            faults_set(MEANWHILE, at, 0);
            switch (way / 2) {
            case 0: place_open(); break;
            case 1: place_recover(); break;
            default: place_reload(way / 2 == 2 ? 0 : BG_SLOT_MAP); break;
            }
            faults.fault = NONE;
        }
    }
    files_clean();
}

TEST(faults__killed_at_every_call)
{
    for (int publishes = 0; publishes < 2; publishes++) {
        kill_at_every_call(publishes, KILL_BEFORE);
        kill_at_every_call(publishes, KILL_AFTER);
    }
}
