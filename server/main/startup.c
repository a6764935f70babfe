/*
 * startup.c - see startup.h.
 *
 * The systemd notification protocol (sd_notify) consists of a datagram and a few environment
 * variables. The protocol is implemented here to avoid a dependency on a much larger library.
 */
#include "main/startup.h"
#include "clock.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { STARTUP_OTHER_FILES = 256 /* for journals, filters, databases and logs */ };

/* With AddressSanitizer, the leak checker must be able to trace the process. */
#if defined(__SANITIZE_ADDRESS__)
#define STARTUP_LOOKED_AT 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STARTUP_LOOKED_AT 1
#endif
#endif
#ifndef STARTUP_LOOKED_AT
#define STARTUP_LOOKED_AT 0
#endif

static bool startup_wrong(char why[SETTINGS_WHY], const char *what, const char *path)
{
    (void)snprintf(why, SETTINGS_WHY, "%s: %.200s: %s", what, path, text_errno(errno));
    return false;
}

/* ---- The process --------------------------------------------------------------------------- */

void startup_process(const struct settings *settings)
{
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    const struct rlimit none = { 0, 0 };
    (void)sigaction(SIGPIPE, &ignore, NULL);
    /* If SIGXFSZ is ignored, exceeding the file size limit is an ordinary write error. */
    (void)sigaction(SIGXFSZ, &ignore, NULL);
    (void)umask(077);
    if (!settings->core_dumps) {
        (void)setrlimit(RLIMIT_CORE, &none);
        if (!STARTUP_LOOKED_AT) {
            /* The kernel ignores the limit if core_pattern starts with |. */
            (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        }
    }
}

uint64_t startup_descriptors(uint64_t maxclients)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return maxclients;
    }
    const rlim_t wanted = (rlim_t)maxclients + STARTUP_OTHER_FILES;
    if (limit.rlim_cur < wanted) {
        struct rlimit more = { wanted,
                               limit.rlim_max < wanted ? wanted : limit.rlim_max };
        /* Only root may exceed the hard limit. */
        if (setrlimit(RLIMIT_NOFILE, &more) != 0) {
            more = (struct rlimit){ limit.rlim_max, limit.rlim_max };
            (void)setrlimit(RLIMIT_NOFILE, &more);
        }
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= wanted) {
        return maxclients;
    }
    return limit.rlim_cur > STARTUP_OTHER_FILES ? limit.rlim_cur - STARTUP_OTHER_FILES
                                                : 1;
}

/* ---- Directories and files --------------------------------------------------------------- */

/* Creates a directory and its parents with mode 0700. */
static bool startup_make_folder(const char *path, char why[SETTINGS_WHY])
{
    char part[PATH_MAX];
    const int n = snprintf(part, sizeof part, "%s", path);
    if (n < 0 || (size_t)n >= sizeof part) {
        errno = ENAMETOOLONG;
        return startup_wrong(why, "dir", path);
    }
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, 0755) != 0 && errno != EEXIST && errno != EROFS
            && errno != EACCES) {
            return startup_wrong(why, "cannot create the directory", part);
        }
        *slash = '/';
    }
    if (mkdir(part, 0700) != 0 && errno != EEXIST) {
        return startup_wrong(why, "cannot create the directory", part);
    }
    return true;
}

bool startup_folder(const char *dir, int *lock, char why[SETTINGS_WHY])
{
    char path[PATH_MAX];
    struct stat info;
    *lock = -1;
    if (!startup_make_folder(dir, why)) {
        return false;
    }
    if (stat(dir, &info) != 0) {
        return startup_wrong(why, "dir: cannot read the directory", dir);
    }
    if (!settings_check_folder(dir, &info, why)) {
        return false;
    }
    const int n = snprintf(path, sizeof path, "%s/.lock", dir);
    const int fd = n > 0 && (size_t)n < sizeof path
                       ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)
                       : -1;
    if (fd < 0) {
        return startup_wrong(why, "dir: cannot open the lock file", dir);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) {
            (void)snprintf(why, SETTINGS_WHY,
                           "dir: %.200s is in use by another service", dir);
        } else {
            (void)startup_wrong(why, "dir: cannot lock", path);
        }
        (void)close(fd);
        return false;
    }
    *lock = fd;
    return true;
}

static bool startup_keyring_wrong(char why[SETTINGS_WHY], const char *what,
                                  const char *path, const bg_errinfo *info)
{
    /* The library's message about a system call contains the path. */
    (void)snprintf(why, SETTINGS_WHY, "keyring: cannot %s %.400s: %s%s", what, path,
                   info->os_errno ? text_errno(info->os_errno) : info->message,
                   info->os_errno == EACCES
                       ? "; change the owner to the service's user with chown"
                       : "");
    return false;
}

/* Names a secret by the date and five random letters, such as "2026-11-19-kzrwq". The letters
 * distinguish the secrets of services that were set up on the same day, so that one keyring can
 * contain both. */
static void startup_name_secret(char name[BG_KEY_ID_BYTES + 1])
{
    enum { LETTERS = 5 };
    uint8_t random[LETTERS] = { 0 };
    struct tm utc;
    const time_t now = time(NULL);
    (void)gmtime_r(&now, &utc);
    (void)getrandom(random, sizeof random, 0); /* the name need not be unpredictable */
    size_t n = strftime(name, BG_KEY_ID_BYTES + 1, "%Y-%m-%d-", &utc);
    for (size_t i = 0; i < LETTERS && n < BG_KEY_ID_BYTES; i++) {
        name[n++] = (char)('a' + random[i] % 26);
    }
    name[n] = '\0';
}

bool startup_keyring(const char *path, bg_keyring **ring, bool *made,
                     char why[SETTINGS_WHY])
{
    bg_errinfo info = { .code = BG_OK };
    struct stat is;
    char folder[PATH_MAX], name[BG_KEY_ID_BYTES + 1];
    *ring = NULL;
    *made = lstat(path, &is) != 0 && errno == ENOENT;
    if (*made) {
        const char *slash = strrchr(path, '/');
        (void)snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 0,
                       path);
        if (*folder && !startup_make_folder(folder, why)) {
            return false;
        }
        startup_name_secret(name);
        if (bg_keyring_append(path, name, &info)) {
            return startup_keyring_wrong(why, "create", path, &info);
        }
    }
    if (bg_keyring_open(path, ring, &info)) {
        return startup_keyring_wrong(why, "open", path, &info);
    }
    return true;
}

bool startup_pid_file(const char *path, char why[SETTINGS_WHY])
{
    if (!*path) {
        return true;
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) {
        return startup_wrong(why, "pid-file", path);
    }
    char text[32];
    const int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    /* Truncates the file after writing, so a reader never sees an empty file. */
    const bool good = write(fd, text, (size_t)n) == n && ftruncate(fd, n) == 0
                      && fchmod(fd, 0644) == 0;
    return (close(fd) == 0 && good) || startup_wrong(why, "pid-file", path);
}

void startup_remove_pid_file(const char *path)
{
    char text[32] = "";
    FILE *file = *path ? fopen(path, "re") : NULL;
    if (file) {
        const bool ours =
            fgets(text, sizeof text, file) && strtol(text, NULL, 10) == (long)getpid();
        (void)fclose(file);
        if (ours) {
            (void)unlink(path);
        }
    }
}

/* ---- The service manager ------------------------------------------------------------------- */

static const char *startup_variable(const char *name)
{
    return getenv(name); /* NOLINT(concurrency-mt-unsafe): set before threads start */
}

static void startup_forget(const char *name)
{
    (void)unsetenv(name); /* NOLINT(concurrency-mt-unsafe): before threads start */
}

bool startup_supervised(const struct settings *settings, char why[SETTINGS_WHY])
{
    if (settings->supervised == SUPERVISED_NO) {
        startup_forget("NOTIFY_SOCKET");
        startup_forget("WATCHDOG_USEC");
    }
    if (settings->supervised == SUPERVISED_SYSTEMD
        && !startup_variable("NOTIFY_SOCKET")) {
        (void)snprintf(
            why, SETTINGS_WHY,
            "supervised systemd: NOTIFY_SOCKET is not set in the environment; set "
            "Type=notify in the unit file");
        return false;
    }
    return true;
}

bool startup_notify(const char *state)
{
    const char *path = startup_variable("NOTIFY_SOCKET");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const size_t n = path ? strlen(path) : 0;
    if (n < 2 || n >= sizeof address.sun_path || (*path != '/' && *path != '@')) {
        return false;
    }
    memcpy(address.sun_path, path, n);
    if (*path == '@') {
        address.sun_path[0] = 0;
    }
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    const socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    const bool sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
                             (const struct sockaddr *)&address, length)
                      == (ssize_t)strlen(state);
    (void)close(fd);
    return sent;
}

bool startup_ready(const char *status)
{
    char text[256];
    (void)snprintf(text, sizeof text, "READY=1\nSTATUS=%.200s", status);
    return startup_notify(text);
}

bool startup_reloading(void)
{
    char text[64];
    (void)snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%llu",
                   (unsigned long long)clock_nanoseconds() / 1000);
    return startup_notify(text);
}

bool startup_stopping(const char *status)
{
    char text[256];
    (void)snprintf(text, sizeof text, "STOPPING=1\nSTATUS=%.200s", status);
    return startup_notify(text);
}

bool startup_watchdog(void)
{
    return startup_notify("WATCHDOG=1");
}

static unsigned long startup_number(const char *name)
{
    const char *text = startup_variable(name);
    return text && *text >= '0' && *text <= '9' ? strtoul(text, NULL, 10) : 0;
}

uint64_t startup_watchdog_interval(void)
{
    const unsigned long process = startup_number("WATCHDOG_PID");
    const unsigned long microseconds = startup_number("WATCHDOG_USEC");
    if (microseconds == 0 || (process && process != (unsigned long)getpid())) {
        return 0;
    }
    return microseconds / 2000 ? microseconds / 2000 : 1; /* half the interval */
}
