/*
 * settings_files.c - checks the files and directories that a start would open, without creating or
 * changing any of them. --check-config reports all problems at once; a start reports the first one
 * when it opens the file.
 *
 * The checks apply to the user that runs them, so run --check-config as the service's user. Files
 * may change before the service starts, so a start can still fail.
 */
#include "config/front_settings.h"
#include "config/settings.h"
#include "text.h"

#include "bloomgate/keyring.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool files_allow(const char *path, int way)
{
    return faccessat(AT_FDCWD, path, way, AT_EACCESS) == 0;
}

/* Removes the last part of a path: "/a/b" becomes "/a", "/a" becomes "/", and "a" becomes ".". */
static void files_parent(char path[PATH_MAX])
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') {
        n--;
    }
    while (n > 0 && path[n - 1] != '/') {
        n--;
    }
    while (n > 1 && path[n - 1] == '/') {
        n--;
    }
    (void)snprintf(path + n, PATH_MAX - n, "%s", n ? "" : ".");
}

/* Returns 0 if entries can be created in a directory, or an errno. If `above` is set and the
 * directory does not exist, checks whether it and its missing parents can be created. */
static int files_folder_error(char path[PATH_MAX], bool above)
{
    struct stat info;
    while (stat(path, &info) != 0) {
        if (errno != ENOENT || !above) {
            return errno;
        }
        files_parent(path);
    }
    return !S_ISDIR(info.st_mode)            ? ENOTDIR
           : !files_allow(path, W_OK | X_OK) ? errno
                                             : 0;
}

/* Returns 0 if a file can be opened for writing or created, or an errno. */
static int files_write_error(const char *path, bool above)
{
    struct stat info;
    char folder[PATH_MAX];
    if (stat(path, &info) == 0) {
        return S_ISDIR(info.st_mode) ? EISDIR : !files_allow(path, W_OK) ? errno : 0;
    }
    if (errno != ENOENT) {
        return errno;
    }
    if ((size_t)snprintf(folder, sizeof folder, "%s", path) >= sizeof folder) {
        return ENAMETOOLONG;
    }
    files_parent(folder);
    return files_folder_error(folder, above);
}

/* Returns whether the directory of a file is missing, but will be created as `dir` or one of its
 * parents. */
static bool files_is_in_new_dir(const struct settings_draft *draft, const char *path)
{
    const char *dir = draft->settings.dir;
    char folder[PATH_MAX];
    struct stat info;
    if ((size_t)snprintf(folder, sizeof folder, "%s", path) >= sizeof folder) {
        return false;
    }
    files_parent(folder);
    const size_t n = strlen(folder);
    return strncmp(dir, folder, n) == 0 && (!dir[n] || dir[n] == '/')
           && stat(folder, &info) != 0 && errno == ENOENT;
}

static void files_check_log(struct settings_draft *draft)
{
    const char *path = draft->settings.log_file;
    const int code = *path ? files_write_error(path, false) : 0;
    if (code) {
        settings_mistake(draft, "", "log-file: cannot write %.400s: %s", path,
                         text_errno(code));
    }
}

static void files_check_pid(struct settings_draft *draft)
{
    const char *path = draft->settings.pid_file;
    const int code = *path ? files_write_error(path, false) : 0;
    if (code && !files_is_in_new_dir(draft, path)) {
        settings_mistake(draft, "", "pid-file: cannot write %.400s: %s", path,
                         text_errno(code));
    }
}

static void files_check_socket(struct settings_draft *draft)
{
    const char *path = draft->settings.unixsocket;
    char folder[PATH_MAX];
    if (!*path
        || (size_t)snprintf(folder, sizeof folder, "%s", path) >= sizeof folder) {
        return; /* a path that is too long is reported by settings_check */
    }
    files_parent(folder);
    const int code = files_folder_error(folder, false);
    if (code && !files_is_in_new_dir(draft, path)) {
        settings_mistake(draft, settings_where(draft, "unixsocket"),
                         "unixsocket: cannot create %.400s: %s", path,
                         text_errno(code));
    }
}

bool settings_check_folder(const char *dir, const struct stat *info,
                           char why[SETTINGS_WHY])
{
    if (S_ISDIR(info->st_mode) && !(info->st_mode & S_IWOTH)) {
        return true;
    }
    (void)snprintf(why, SETTINGS_WHY,
                   "dir: found %.200s with mode %04o, expected a directory that is not "
                   "world-writable",
                   dir, (unsigned)(info->st_mode & 07777));
    return false;
}

static void files_check_dir(struct settings_draft *draft)
{
    const char *dir = draft->settings.dir;
    char path[PATH_MAX], why[SETTINGS_WHY];
    struct stat info;
    if (!*dir || !settings_is_sound(draft, "dir")) {
        return;
    }
    const bool there = stat(dir, &info) == 0;
    if (there && !settings_check_folder(dir, &info, why)) {
        settings_mistake(draft, "", "%s", why);
        return;
    }
    (void)snprintf(path, sizeof path, "%s", dir);
    const int code = files_folder_error(path, true);
    if (code) {
        settings_mistake(draft, "", "dir: cannot %s %.400s: %s",
                         there ? "write to" : "create", dir, text_errno(code));
    }
}

static void files_check_keyring(struct settings_draft *draft)
{
    const char *path = draft->settings.keyring;
    bg_errinfo info = { .code = BG_OK };
    bg_keyring *ring = NULL;
    struct stat is;
    if (!*path || !settings_is_sound(draft, "keyring")) {
        return;
    }
    if (lstat(path, &is) != 0 && errno == ENOENT) {
        const int code = files_write_error(path, true);
        if (code) {
            settings_mistake(draft, "", "keyring: cannot create %.400s: %s", path,
                             text_errno(code));
        }
    } else if (geteuid() == 0 && lstat(path, &is) == 0 && is.st_uid != 0) {
        settings_doubt(
            draft, "",
            "keyring: %.400s belongs to user %lu, so it was not checked; run "
            "--check-config as this user",
            path, (unsigned long)is.st_uid);
    } else if (bg_keyring_open(path, &ring, &info)) {
        settings_mistake(draft, "", "keyring: cannot open %.400s: %s", path,
                         info.message);
    }
    bg_keyring_free(ring);
}

static void files_check_sharded(struct settings_draft *draft)
{
    const struct settings_lines *lines = &draft->settings.sharded;
    char why[SETTINGS_WHY];
    for (size_t i = 0; i < lines->count; i++) {
        const struct settings_line *line = &lines->items[i];
        struct front_settings front;
        bg_errinfo info = { .code = BG_OK };
        if (!front_settings_read(line, &front, why)) {
            continue; /* already reported */
        }
        const struct cluster_options options = front_settings_options(&front);
        if (cluster_options_check(&options, &info)) {
            settings_mistake(draft, line->where, "sharded %.40s: %s", front.name,
                             info.message);
        }
    }
}

void settings_check_files(struct settings_draft *draft)
{
    files_check_dir(draft);
    files_check_keyring(draft);
    files_check_log(draft);
    files_check_pid(draft);
    files_check_socket(draft);
    files_check_sharded(draft);
}
