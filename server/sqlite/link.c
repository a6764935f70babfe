/* sqlite/link.c - see sqlite/link.h. */
#include "sqlite/link.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Number of instructions between two calls to the progress handler. */
enum { LINK_INSTRUCTIONS = 2000 };

/* Returns nonzero to interrupt the statement. */
static int link_progress(void *context)
{
    const struct sqlite_link *link = context;
    return source_is_stopping(link->source)
           || (link->deadline && source_now() >= link->deadline);
}

/* Waits for a lock held by another connection. Returns 0 to stop waiting. */
static int link_busy(void *context, int times)
{
    static const struct timespec moment = { 0, 1000000 };
    struct sqlite_link *link = context;
    if (times == 0) {
        link->busy_until =
            link->deadline
                ? link->deadline
                : source_now() + link->source->how.timeout_ms * SOURCE_MILLISECOND;
    }
    if (source_is_stopping(link->source) || source_now() >= link->busy_until) {
        return 0;
    }
    (void)nanosleep(&moment, NULL);
    return 1;
}

bg_err sqlite_link_error(const struct sqlite_link *link, const char *what,
                         bg_errinfo *info)
{
    if (source_is_stopping(link->source)) {
        return source_stopped(info);
    }
    if (sqlite3_errcode(link->db) == SQLITE_INTERRUPT) {
        return source_error(info, BG_EIO, what, NULL,
                            "the statement exceeded the timeout of %u ms",
                            link->source->how.timeout_ms);
    }
    const int code = sqlite3_errcode(link->db) & 0xff;
    return source_error(
        info, code == SQLITE_BUSY || code == SQLITE_LOCKED ? BG_EBUSY : BG_EIO, what,
        NULL, "%s", sqlite3_errmsg(link->db));
}

static int64_t link_time(const struct statx_timestamp *time)
{
    return (int64_t)(time->tv_sec * (int64_t)SOURCE_SECOND + time->tv_nsec);
}

/* Reads the identity and the change time of a file. Returns false if the path does not refer to a regular file. */
static bool link_identify(const char *path, struct sqlite_file *file, int64_t *changed)
{
    struct statx now;
    *file = (struct sqlite_file){ .inode = 0 };
    *changed = 0;
    if (statx(AT_FDCWD, path, AT_STATX_SYNC_AS_STAT,
              STATX_TYPE | STATX_INO | STATX_NLINK | STATX_BTIME | STATX_CTIME, &now)
            != 0
        || !S_ISREG(now.stx_mode)) {
        return false;
    }
    *changed = link_time(&now.stx_ctime);
    *file = (struct sqlite_file){ .device = (uint64_t)now.stx_dev_major << 32
                                            | now.stx_dev_minor,
                                  .inode = now.stx_ino,
                                  .names = now.stx_nlink };
    if (now.stx_mask & STATX_BTIME) {
        file->birth = link_time(&now.stx_btime);
    }
    return true;
}

static bool link_is_same(const struct sqlite_file *a, const struct sqlite_file *b)
{
    return a->device == b->device && a->inode == b->inode && a->birth == b->birth;
}

/* Identifies the write-ahead log. SQLite appends the suffix to the path of the file itself, not to the path of a
 * symbolic link. */
static void link_find_logs(const struct sqlite_link *link, struct sqlite_file logs[2])
{
    static const char *const endings[] = { "-wal", "-shm" };
    const char *name = sqlite3_db_filename(link->db, "main");
    char path[PATH_MAX];
    int64_t changed;
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s%s", name ? name : "", endings[i]);
        (void)link_identify(path, &logs[i], &changed);
    }
}

/* Opens the write-ahead log, if the database has one, and identifies it. The connection then holds a lock, so other
 * connections do not delete the log when they are closed. Without this lock, SQLite would delete the log when the
 * application closes its last connection.
 *
 * If the database file has several names (hard links), SQLite derives the name of the log from only one of them.
 * Commits made through another hard link would be invisible, and writing under two names corrupts the database, so the
 * function refuses files with more than one name. Creating a hard link updates the file's change time, which causes the
 * file to be reopened and checked. */
static bg_err link_open_log(struct sqlite_link *link, bg_errinfo *info)
{
    const bg_err err = sqlite_link_execute(link, "source", info, "PRAGMA data_version");
    link_find_logs(link, link->logs);
    if (!err && link->logs[0].inode && link->file.names > 1) {
        return source_error(
            info, BG_EIO, "source", NULL,
            "%s has %u hard links, each with its own write-ahead log; delete the other "
            "links",
            link->source->place, link->file.names);
    }
    return err;
}

bg_err sqlite_link_open(struct sqlite_link *link, struct source *source, bool writes,
                        bg_errinfo *info)
{
    struct sqlite_file after;
    int64_t changed;
    *link = (struct sqlite_link){ .source = source };
    if (!link_identify(source->place, &link->file, &link->changed)) {
        return source_error(info, BG_EIO, "source", NULL,
                            "there is no file %s; create the database first",
                            source->place);
    }
    const int how = (writes ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY)
                    | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    const int code = sqlite3_open_v2(source->place, &link->db, how, NULL);
    bg_err err = BG_OK;
    if (code != SQLITE_OK) {
        err = source_error(info, BG_EIO, "source", NULL, "%s",
                           link->db ? sqlite3_errmsg(link->db) : sqlite3_errstr(code));
    } else if (!link_identify(source->place, &after, &changed)
               || !link_is_same(&link->file, &after)) {
        err = source_error(info, BG_EIO, "source", NULL, "%s is being replaced",
                           source->place);
    }
    if (err) {
        sqlite_link_close(link);
        return err;
    }
    /* Without this setting, SQLite interprets the double-quoted name of a missing column as a string instead of
     * reporting an error. */
    (void)sqlite3_db_config(link->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
    /* Without this setting, SQLite may recompile a lookup for each key (because of LIKE, GLOB or statistics in
     * sqlite_stat4), and lookups treat recompilation as a schema change. */
    (void)sqlite3_db_config(link->db, SQLITE_DBCONFIG_ENABLE_QPSG, 1, NULL);
    sqlite3_progress_handler(link->db, LINK_INSTRUCTIONS, link_progress, link);
    (void)sqlite3_busy_handler(link->db, link_busy, link);
    err = link_open_log(link, info);
    if (err) {
        sqlite_link_close(link);
    }
    return err;
}

void sqlite_link_close(struct sqlite_link *link)
{
    (void)sqlite3_close_v2(link->db);
    link->db = NULL;
}

/* The path may be a symbolic link, and the file may have been replaced while it was being opened. So this function
 * verifies which file the path refers to, and that the file that SQLite opened is still at its
 * path. */
bool sqlite_link_is_fresh(const struct sqlite_link *link)
{
    struct sqlite_file now, logs[2];
    int64_t changed;
    int moved = 0;
    link_find_logs(link, logs);
    return link_identify(link->source->place, &now, &changed)
           && link_is_same(&link->file, &now) && link_is_same(&link->logs[0], &logs[0])
           && link_is_same(&link->logs[1], &logs[1])
           && sqlite3_file_control(link->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved)
                  == SQLITE_OK
           && !moved;
}

bool sqlite_link_is_unchanged(const struct sqlite_link *link)
{
    struct sqlite_file now;
    int64_t changed;
    return link_identify(link->source->place, &now, &changed)
           && changed == link->changed;
}

/* Prepares a statement and frees its text. */
static bg_err link_prepare(struct sqlite_link *link, const char *what, char *sql,
                           sqlite3_stmt **statement, bg_errinfo *info)
{
    const char *rest = "", *wrong = NULL;
    bg_err err = sql ? BG_OK : source_no_memory(info);
    *statement = NULL;
    if (!err
        && sqlite3_prepare_v3(link->db, sql, -1, SQLITE_PREPARE_PERSISTENT, statement,
                              &rest)
               != SQLITE_OK) {
        err = sqlite_link_error(link, what, info);
    } else if (!err && (!*statement || sqlite3_column_count(*statement) == 0)) {
        wrong = "a statement without a result";
    } else if (!err && !sqlite3_stmt_readonly(*statement)) {
        wrong = "a statement that writes";
    } else if (!err && rest[strspn(rest, "; \t\r\n")]) {
        wrong = "several statements";
    }
    free(sql);
    if (wrong) {
        (void)sqlite3_finalize(*statement);
        *statement = NULL;
        err = source_error(info, BG_EINVAL, what, "one SELECT", "%s", wrong);
    }
    return err;
}

bg_err sqlite_link_prepare(struct sqlite_link *link, const char *what,
                           sqlite3_stmt **statement, bg_errinfo *info,
                           const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *sql = source_vformat(format, arguments);
    va_end(arguments);
    return link_prepare(link, what, sql, statement, info);
}

bg_err sqlite_link_number(struct sqlite_link *link, const char *what, int64_t *value,
                          bg_errinfo *info, const char *format, ...)
{
    sqlite3_stmt *statement;
    va_list arguments;
    va_start(arguments, format);
    char *sql = source_vformat(format, arguments);
    va_end(arguments);
    bg_err err = link_prepare(link, what, sql, &statement, info);
    if (err) {
        return err;
    }
    const int code = sqlite3_step(statement);
    if (code == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_NULL) {
        *value = sqlite3_column_int64(statement, 0);
    } else if (code == SQLITE_ROW || code == SQLITE_DONE) {
        err =
            source_error(info, BG_ENOTFOUND, what, NULL, "the query returned no value");
    } else {
        err = sqlite_link_error(link, what, info);
    }
    (void)sqlite3_finalize(statement);
    return err;
}

bg_err sqlite_link_execute(struct sqlite_link *link, const char *what, bg_errinfo *info,
                           const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *sql = source_vformat(format, arguments);
    va_end(arguments);
    const bg_err err = !sql ? source_no_memory(info)
                       : sqlite3_exec(link->db, sql, NULL, NULL, NULL) != SQLITE_OK
                           ? sqlite_link_error(link, what, info)
                           : BG_OK;
    free(sql);
    return err;
}

bg_err sqlite_link_begin(struct sqlite_link *link, bg_errinfo *info)
{
    return sqlite_link_execute(link, "source", info, "BEGIN");
}

bg_err sqlite_link_end(struct sqlite_link *link, bg_err err, bg_errinfo *info)
{
    err = err ? err : sqlite_link_execute(link, "source", info, "COMMIT");
    if (!sqlite3_get_autocommit(link->db)) {
        (void)sqlite3_exec(link->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return err;
}

bool sqlite_link_key(sqlite3_stmt *statement, struct key_batch *batch)
{
    const int type = sqlite3_column_type(statement, 0);
    if (type == SQLITE_NULL) {
        return true;
    }
    const void *data = type == SQLITE_BLOB ? sqlite3_column_blob(statement, 0)
                                           : sqlite3_column_text(statement, 0);
    const size_t len = (size_t)sqlite3_column_bytes(statement, 0);
    return (data || len == 0) && key_batch_put(batch, data, len);
}
