/*
 * test_startup.c - tests directories, keyrings, limits, pid files, and messages to the service
 * manager.
 */
#define _GNU_SOURCE

#include "support/check.h"
#include "support/scratch.h"

#include "main/startup.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

static char why[SETTINGS_WHY];

static unsigned mode_of(const char *path)
{
    struct stat info;
    CHECK(stat(path, &info) == 0);
    return info.st_mode & 07777;
}

/* ---- Directories --------------------------------------------------------------------------- */

TEST(folder__is_made_and_locked)
{
    int lock, second;
    const char *dir = scratch_path("a/b/data");
    CHECK(startup_folder(dir, &lock, why));
    CHECK(lock >= 0);
    CHECK_EQ(mode_of(dir), 0700);
    CHECK(!startup_folder(dir, &second, why));
    CHECK_EQ(second, -1);
    CHECK(strstr(why, "is in use by another service"));
    (void)close(lock);
    /* closing the lock file has released the lock */
    CHECK(startup_folder(dir, &lock, why));
    (void)close(lock);
    CHECK(fcntl(lock, F_GETFD) == -1);
}

TEST(folder__that_will_not_do)
{
    int lock;
    scratch_write("file", "x");
    CHECK(!startup_folder(scratch_path("file"), &lock, why));
    CHECK(strstr(why, "expected a directory"));
    CHECK(!startup_folder(scratch_path("file/data"), &lock, why));
    CHECK(strstr(why, "Not a directory"));
    CHECK(mkdir(scratch_path("open"), 0700) == 0
          && chmod(scratch_path("open"), 0777) == 0);
    CHECK(!startup_folder(scratch_path("open"), &lock, why));
    CHECK(strstr(why, "mode 0777"));
    CHECK(mkdir(scratch_path("linked"), 0700) == 0);
    CHECK(symlink("/etc/passwd", scratch_path("linked/.lock")) == 0);
    CHECK(!startup_folder(scratch_path("linked"), &lock,
                          why)); /* symbolic links are not followed */
    CHECK_EQ(lock, -1);
}

/* ---- Keyrings ------------------------------------------------------------------------------ */

TEST(keyring__is_made_once)
{
    bg_keyring *ring;
    bool made, retired;
    const char *path = scratch_path("secrets/keyring");
    CHECK(startup_keyring(path, &ring, &made, why));
    CHECK(made);
    CHECK_EQ(bg_keyring_count(ring), 1);
    char name[64];
    (void)snprintf(name, sizeof name, "%s", bg_keyring_name(ring, 0, &retired));
    CHECK_EQ(strlen(name), BG_KEY_ID_BYTES); /* the day, and letters */
    CHECK(!retired);
    bg_keyring *other;
    CHECK(startup_keyring(scratch_path("others/keyring"), &other, &made, why));
    CHECK(strcmp(bg_keyring_name(other, 0, NULL), name) != 0); /* on the same day */
    bg_keyring_free(other);
    bg_keyring_free(ring);
    CHECK_EQ(mode_of(path), 0600);
    CHECK_EQ(mode_of(scratch_path("secrets")), 0700);
    CHECK(startup_keyring(path, &ring, &made, why));
    CHECK(!made);
    CHECK_EQ(bg_keyring_count(ring), 1);
    CHECK_STR(bg_keyring_name(ring, 0, &retired), name);
    bg_keyring_free(ring);
}

TEST(keyring__that_will_not_do)
{
    bg_keyring *ring;
    bool made;
    const char *path = scratch_write("keyring", "nonsense\n");
    CHECK(chmod(path, 0600) == 0);
    CHECK(!startup_keyring(path, &ring, &made, why));
    CHECK(!ring && !made);
    CHECK(strstr(why, "keyring: "));
    CHECK(chmod(path, 0644) == 0);
    CHECK(!startup_keyring(path, &ring, &made, why));
    CHECK(symlink("/nowhere/at/all", scratch_path("dangling")) == 0);
    CHECK(!startup_keyring(scratch_path("dangling"), &ring, &made, why));
    CHECK(!startup_keyring(scratch_path("keyring/x"), &ring, &made, why));
    CHECK(!ring);
}

/* ---- The pid file --------------------------------------------------------------------------- */

TEST(pid_file__is_removed_if_it_is_ours)
{
    const char *path = scratch_path("pid");
    CHECK(startup_pid_file(path, why));
    FILE *file = fopen(path, "re");
    long number = 0;
    CHECK(file && fscanf(file, "%ld", &number) == 1); /* NOLINT(cert-err34-c) */
    (void)fclose(file);
    CHECK_EQ(number, getpid());
    scratch_write("pid",
                  "1234567890\n1234567890\n"); /* left by a process that was killed */
    CHECK(startup_pid_file(path, why));
    char text[64] = "", expected[64];
    (void)snprintf(expected, sizeof expected, "%ld\n", (long)getpid());
    file = fopen(path, "re");
    CHECK(file && fread(text, 1, sizeof text - 1, file) > 0 && fclose(file) == 0);
    CHECK_STR(text, expected);
    startup_remove_pid_file(path);
    CHECK(access(path, F_OK) != 0);
    scratch_write("pid", "1\n");
    startup_remove_pid_file(path);
    CHECK(access(path, F_OK) == 0); /* the file now belongs to another process */
    startup_remove_pid_file(scratch_path("no-pid"));
    CHECK(startup_pid_file("", why));
    startup_remove_pid_file("");
    CHECK(!startup_pid_file("/nowhere/pid", why));
    CHECK(strstr(why, "pid-file: /nowhere/pid: No such file"));
}

/* ---- The process ---------------------------------------------------------------------------- */

/* Runs a function in a child process and returns the child's exit code, or 100 plus the signal that
 * killed the child. */
static int in_child(int (*run)(void))
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        _exit(run());
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static int without_cores(void)
{
    const struct settings settings = { .core_dumps = false };
    struct rlimit limit;
    int fds[2];
    startup_process(&settings);
    if (getrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_cur != 0) {
        return 1;
    }
    if (!CHECK_SANITIZED && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0) {
        return 2;
    }
    if (pipe(fds) != 0 || close(fds[0]) != 0 || write(fds[1], "x", 1) != -1) {
        return 3; /* or ended by SIGPIPE */
    }
    return umask(0) == 077 ? 0 : 4;
}

static int with_cores(void)
{
    const struct settings settings = { .core_dumps = true };
    startup_process(&settings);
    return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1 ? 0 : 1;
}

TEST(process__signals_and_cores)
{
    CHECK_EQ(in_child(without_cores), 0);
    CHECK_EQ(in_child(with_cores), 0);
}

static int few_descriptors(void)
{
    struct rlimit limit = { 300, 600 };
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 1;
    }
    if (startup_descriptors(10) != 10) {
        return 2;
    }
    if (startup_descriptors(300) != 300) { /* below the hard limit */
        return 3;
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < 556) {
        return 4;
    }
    /* An unprivileged user cannot exceed the hard limit. */
    if (geteuid() == 0 && setuid(65534) != 0) {
        return 5;
    }
    return startup_descriptors(10000) == 344 ? 0 : 6;
}

TEST(process__descriptors)
{
    CHECK_EQ(in_child(few_descriptors), 0);
}

/* ---- The service manager ---------------------------------------------------------------------- */

static int manager(const char *path, bool abstract)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const size_t n = strlen(path);
    memcpy(address.sun_path, path, n);
    if (abstract) {
        address.sun_path[0] = 0;
    }
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    CHECK(bind(fd, (struct sockaddr *)&address,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n))
          == 0);
    CHECK(setenv("NOTIFY_SOCKET", path, 1) == 0);
    return fd;
}

static const char *message(int fd)
{
    static char text[512];
    const ssize_t n = recv(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    return text;
}

TEST(notify__what_the_manager_hears)
{
    const int fd = manager(scratch_path("notify"), false);
    CHECK(startup_ready("serving"));
    CHECK_STR(message(fd), "READY=1\nSTATUS=serving");
    CHECK(startup_reloading());
    const char *text = message(fd);
    CHECK(strncmp(text, "RELOADING=1\nMONOTONIC_USEC=", 27) == 0);
    CHECK(strtoull(text + 27, NULL, 10) > 0);
    CHECK(startup_stopping("draining"));
    CHECK_STR(message(fd), "STOPPING=1\nSTATUS=draining");
    CHECK(startup_watchdog());
    CHECK_STR(message(fd), "WATCHDOG=1");
    (void)close(fd);
    CHECK(!startup_watchdog()); /* the service manager's socket is closed */
    char name[64];
    (void)snprintf(name, sizeof name, "@bloomgate-test-%ld", (long)getpid());
    const int abstract = manager(name, true);
    CHECK(startup_notify("X=1"));
    CHECK_STR(message(abstract), "X=1");
    (void)close(abstract);
}

TEST(notify__without_a_manager)
{
    static const char *const none[] = { "", "/", "relative", "/nowhere/at/all" };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        CHECK(setenv("NOTIFY_SOCKET", none[i], 1) == 0);
        CHECK(!startup_notify("READY=1"));
    }
    char large[300];
    memset(large, '/', sizeof large - 1);
    large[sizeof large - 1] = 0;
    CHECK(setenv("NOTIFY_SOCKET", large, 1) == 0);
    CHECK(!startup_notify("READY=1"));
    CHECK(unsetenv("NOTIFY_SOCKET") == 0);
    CHECK(!startup_notify("READY=1"));
}

TEST(notify__supervised)
{
    struct settings settings = { .supervised = SUPERVISED_SYSTEMD };
    CHECK(unsetenv("NOTIFY_SOCKET") == 0);
    CHECK(!startup_supervised(&settings, why));
    CHECK(strstr(why, "NOTIFY_SOCKET is not set"));
    CHECK(setenv("NOTIFY_SOCKET", "/x", 1) == 0);
    CHECK(startup_supervised(&settings, why));
    settings.supervised = SUPERVISED_AUTO;
    CHECK(startup_supervised(&settings, why));
    CHECK(getenv("NOTIFY_SOCKET"));
    settings.supervised = SUPERVISED_NO;
    CHECK(startup_supervised(&settings, why));
    CHECK(!getenv("NOTIFY_SOCKET"));
}

TEST(watchdog__interval)
{
    char number[32];
    CHECK(unsetenv("WATCHDOG_USEC") == 0 && unsetenv("WATCHDOG_PID") == 0);
    CHECK_EQ(startup_watchdog_interval(), 0);
    CHECK(setenv("WATCHDOG_USEC", "30000000", 1) == 0);
    CHECK_EQ(startup_watchdog_interval(), 15000);
    CHECK(setenv("WATCHDOG_PID", "1", 1) == 0);
    CHECK_EQ(startup_watchdog_interval(), 0); /* for another process */
    (void)snprintf(number, sizeof number, "%ld", (long)getpid());
    CHECK(setenv("WATCHDOG_PID", number, 1) == 0);
    CHECK_EQ(startup_watchdog_interval(), 15000);
    CHECK(setenv("WATCHDOG_USEC", "10", 1) == 0);
    CHECK_EQ(startup_watchdog_interval(), 1);
    CHECK(setenv("WATCHDOG_USEC", "soon", 1) == 0);
    CHECK_EQ(startup_watchdog_interval(), 0);
    CHECK(unsetenv("WATCHDOG_USEC") == 0 && unsetenv("WATCHDOG_PID") == 0);
}
