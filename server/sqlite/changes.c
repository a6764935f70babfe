/*
 * sqlite/changes.c - follow=changes for SQLite: triggers write changed keys to a change table in
 * the writer's transaction (sqlite/schema.h), and the follower reads them in order
 * (sqlite/history.h).
 *
 * Polling. PRAGMA data_version changes on a connection if and only if another connection has committed. The follower
 * stores the value for the last snapshot that it read to the end. If the value has not changed, and the path still
 * refers to the same file and write-ahead log, the database has not changed since that snapshot, and the snapshot's
 * proof still holds. If the file's change time differs, a program other than SQLite may have overwritten the file,
 * for example by restoring a backup. The follower then reopens the file, because the connection's cache may be
 * outdated. If the value has changed or the file was reopened, the follower reads the new rows, in one transaction
 * per batch of keys. It verifies the file, the schema version, the SQL of all objects, and the last row that it read,
 * including the row's token. Then it reads the following rows, whose numbers must be contiguous and reach
 * the value in sqlite_sequence. Keys are reported after the transaction has ended, so writers never wait
 * for the filter. A poll ends when it has read every row that existed when it started. It then proves that all changes
 * up to its start have been reported, so the proof advances even if writers are always faster than the follower.
 *
 * The epoch ends (doubt) if any of these steps fails. The follower then creates missing objects and uses the last row
 * as its place before it calls restart. If the filter is distrusted because of an audit, the follower first replaces
 * all rows. Then no mark of that filter remains valid, even if the filter's file could not be deleted. DDL changes
 * the schema version, so the follower detects DDL by other programs, even if the change is undone between two polls
 * (for example, if a trigger is dropped and created again).
 *
 * A mark is a place in text form. It includes the inode number and birth time of the file, but not its device
 * number, which may change when the machine restarts.
 *
 * Reading. In its snapshot, the reader verifies the place that the follower had reached when reading started. The place
 * is advanced before keys are reported, so the snapshot includes everything that has been reported. At the end, the
 * reader verifies that the epoch has not changed.
 *
 * Pruning. Rows before the last saved mark are deleted. If there is no saved mark, rows before the start of the
 * epoch are deleted. The row at the mark is kept.
 *
 * Limits. A connection can write without running triggers, or skip the gate's triggers, and SQLite offers no way to
 * detect this. The connection can use SQLITE_DBCONFIG_ENABLE_TRIGGER, a TEMP trigger with RAISE(IGNORE) or RAISE(FAIL),
 * or RAISE(FAIL) in a trigger fired by a foreign key action (actions precede AFTER triggers). Other ways are
 * sqlite3_blob_write (which only an index on the column prevents), the RBU extension, PRAGMA writable_schema with
 * changes that are undone later, and programs that replace the built-in functions random, typeof or CAST. Audits detect
 * keys written in these ways.
 */
#include "sqlite/history.h"
#include "sqlite/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Minimum number of rows to prune, unless PRUNE_INTERVAL has passed. */
    PRUNE_AT_MIN = 1024,
    KEEP_AT_MAX = 1000000 /* maximum number of rows kept for resuming */
};
#define PRUNE_INTERVAL (60 * SOURCE_SECOND)
#define PRUNE_PAUSE    SOURCE_SECOND

/* The state that the follower and readers share, stored in source->mode_own. */
struct sqlite_changes {
    struct sqlite_objects objects; /* the first field; see sqlite_objects */
    pthread_mutex_t lock;          /* protects the fields below */
    uint64_t epoch;                /* incremented whenever the place is lost or found */
    bool is_placed;
    struct sqlite_place place; /* covers everything reported so far */
};

struct sqlite_follower {
    struct source *source;
    struct sqlite_changes *changes;
    struct sqlite_link link;
    bool is_open;
    bool is_placed;
    struct sqlite_place place, start;
    /* PRAGMA data_version of the last snapshot that was read to the end, or -1 if there is none. */
    int64_t version;
    char why[BG_ERR_MESSAGE_MAX]; /* reason for the next epoch */
    bool is_distrusted;           /* marks from earlier epochs must be invalidated */
    char resume[SOURCE_MARK];
    struct key_batch batch;
    int64_t pruned;     /* all rows before this row have been deleted */
    uint64_t pruned_at; /* when pruning last finished or failed */
};

/* ---- Life ------------------------------------------------------------------------------ */

static bg_err changes_create(struct source *source, bg_errinfo *info)
{
    struct sqlite_changes *changes = calloc(1, sizeof *changes);
    source->mode_own = changes;
    if (!changes) {
        return source_no_memory(info);
    }
    (void)pthread_mutex_init(&changes->lock, NULL);
    return sqlite_objects_make(source, &changes->objects, info);
}

static void changes_destroy(struct source *source)
{
    struct sqlite_changes *changes = source->mode_own;
    if (changes) {
        sqlite_objects_free(&changes->objects);
        (void)pthread_mutex_destroy(&changes->lock);
        free(changes);
    }
}

/* ---- Places ---------------------------------------------------------------------------- */

/* Publishes the place to readers; NULL means that the place is lost. */
static void changes_publish(struct sqlite_changes *changes,
                            const struct sqlite_place *place, bool is_new)
{
    (void)pthread_mutex_lock(&changes->lock);
    changes->epoch += is_new;
    changes->is_placed = place != NULL;
    if (place) {
        changes->place = *place;
    }
    (void)pthread_mutex_unlock(&changes->lock);
}

static void changes_mark(const struct sqlite_place *place, char mark[SOURCE_MARK])
{
    (void)snprintf(mark, SOURCE_MARK,
                   "changes 1 %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
                   " %" PRId64,
                   (int64_t)place->file.inode, place->file.birth, place->schema,
                   place->number, place->token, place->sequence);
}

/* Parses a space followed by a number. Returns the text after the number, or NULL if there is no
 * number. */
static const char *changes_parse_number(const char *text, int64_t *number)
{
    char *end = NULL;
    if (!text || text[0] != ' ' || text[1] == ' ') {
        return NULL;
    }
    errno = 0;
    *number = strtoll(text + 1, &end, 10);
    return errno || end == text + 1 ? NULL : end;
}

static bool changes_parse(const char *mark, struct sqlite_place *place)
{
    static const char name[] = "changes 1";
    int64_t inode = 0;
    *place = (struct sqlite_place){ .number = 0 };
    if (strncmp(mark, name, sizeof name - 1) != 0) {
        return false;
    }
    const char *rest = changes_parse_number(mark + sizeof name - 1, &inode);
    rest = changes_parse_number(rest, &place->file.birth);
    rest = changes_parse_number(rest, &place->schema);
    rest = changes_parse_number(rest, &place->number);
    rest = changes_parse_number(rest, &place->token);
    rest = changes_parse_number(rest, &place->sequence);
    place->file.inode = (uint64_t)inode;
    return rest && !*rest;
}

/* ---- Epochs ---------------------------------------------------------------------------- */

/* Ends the epoch. */
static void follower_lose(struct sqlite_follower *f, const char *why)
{
    const bool was_placed = f->is_placed;
    (void)snprintf(f->why, sizeof f->why, "%s", why);
    f->is_placed = false;
    changes_publish(f->changes, NULL, true);
    if (was_placed) {
        source_tell_doubt(f->source, f->why);
    }
}

static void follower_place(struct sqlite_follower *f, const struct sqlite_place *place,
                           enum key_form form)
{
    f->place = f->start = *place;
    f->is_placed = true;
    f->version = -1;
    f->pruned = 0;
    f->resume[0] = 0;
    atomic_store(&f->source->form, (int)form);
    changes_publish(f->changes, place, true);
}

/* Resumes at the mark. Errors: BG_EINCOMPAT if the follower cannot resume there. */
static bg_err follower_resume(struct sqlite_follower *f, bg_errinfo *info)
{
    struct sqlite_place place;
    enum key_form form = KEY_FORM_UNKNOWN;
    if (!changes_parse(f->resume, &place)) {
        return source_error(info, BG_EINCOMPAT, "mark", NULL,
                            "the filter was saved in a different mode");
    }
    bg_err err = sqlite_link_begin(&f->link, info);
    err = err ? err : sqlite_history_verify(&f->link, &place, info);
    err = err ? err : sqlite_schema_columns(&f->link, &form, info);
    err = sqlite_link_end(&f->link, err, info);
    if (!err) {
        place.file = f->link.file;
        follower_place(f, &place, form);
        source_tell_resumed(f->source);
    }
    return err;
}

/* Finds the end of the history. Errors: BG_ENOTFOUND if objects or a row must be created first. */
static bg_err follower_find_end(struct sqlite_follower *f, struct sqlite_place *place,
                                enum key_form *form, bg_errinfo *info)
{
    bg_err err = sqlite_link_begin(&f->link, info);
    err = err ? err : sqlite_schema_columns(&f->link, form, info);
    err = err ? err : sqlite_history_end(&f->link, place, info);
    return sqlite_link_end(&f->link, err, info);
}

/* Invalidates all marks. Errors other than BG_EBUSY are ignored so that services without write access to the
 * database work. This is safe because the gate also deletes the filter's file. */
static bg_err follower_forget(struct sqlite_follower *f, bg_errinfo *info)
{
    const bg_err err = sqlite_history_forget(f->source, info);
    f->is_distrusted = err == BG_EBUSY;
    return f->is_distrusted ? err : BG_OK;
}

static bg_err follower_restart(struct sqlite_follower *f, bg_errinfo *info)
{
    struct sqlite_place place;
    enum key_form form = KEY_FORM_UNKNOWN;
    bg_err err = follower_find_end(f, &place, &form, info);
    if (err == BG_ENOTFOUND) {
        err = sqlite_history_install(f->source, info);
        err = err ? err : follower_find_end(f, &place, &form, info);
    }
    if (!err && f->is_distrusted) {
        err = follower_forget(f, info);
        err = err ? err : follower_find_end(f, &place, &form, info);
    }
    if (!err) {
        follower_place(f, &place, form);
        source_tell_restart(f->source, f->why);
    }
    return err;
}

static bg_err follower_start(struct sqlite_follower *f, bg_errinfo *info)
{
    if (f->resume[0]) {
        bg_errinfo why = { .code = BG_OK };
        const bg_err err = follower_resume(f, &why);
        if (err != BG_EINCOMPAT) {
            if (err && info) {
                *info = why;
            }
            return err;
        }
        (void)snprintf(f->why, sizeof f->why, "%s", why.message);
        f->resume[0] = 0;
    }
    return follower_restart(f, info);
}

/* ---- Polling --------------------------------------------------------------------------- */

static bg_err follower_version(struct sqlite_follower *f, int64_t *version,
                               bg_errinfo *info)
{
    return sqlite_link_number(&f->link, "source", version, info, "PRAGMA data_version");
}

/* Reads and reports one batch of keys. Sets *ended if there are no more keys. If *goal is below 0, sets it to the
 * number of the last row in the batch's snapshot. */
static bg_err follower_read(struct sqlite_follower *f, bool *ended, int64_t *goal,
                            bg_errinfo *info)
{
    struct sqlite_place place = f->place;
    int64_t version = -1;
    bg_err err = sqlite_link_begin(&f->link, info);
    err = err ? err : follower_version(f, &version, info);
    err = err ? err : sqlite_history_verify(&f->link, &place, info);
    if (!err && *goal < 0) {
        err = sqlite_history_last(&f->link, goal, info);
    }
    err = err ? err : sqlite_history_read(&f->link, &place, &f->batch, ended, info);
    err = sqlite_link_end(&f->link, err, info);
    if (err) {
        key_batch_clear(&f->batch);
        return err;
    }
    f->place = place;
    f->version = *ended ? version : -1;
    changes_publish(f->changes, &place, false);
    source_tell_keys(f->source, &f->batch);
    return BG_OK;
}

/* Reads all rows that existed when the function was called. Sets *ended if there are no later rows. */
static bg_err follower_catch_up(struct sqlite_follower *f, bool *ended,
                                bg_errinfo *info)
{
    int64_t version = -1, goal = -1;
    bg_err err = follower_version(f, &version, info);
    *ended = !err && version == f->version;
    while (!err && !*ended && (goal < 0 || f->place.number < goal)) {
        err = source_is_stopping(f->source) ? source_stopped(info)
                                            : follower_read(f, ended, &goal, info);
    }
    return err;
}

static void follower_tell(struct sqlite_follower *f, uint64_t since)
{
    char mark[SOURCE_MARK];
    changes_mark(&f->place, mark);
    const struct source_proof proof = { .since = since,
                                        .position = (uint64_t)f->place.number,
                                        .mark = mark };
    source_tell_caught_up(f->source, &proof);
}

/* Periodically deletes some of the rows that are no longer needed. */
static void follower_prune(struct sqlite_follower *f, uint64_t now)
{
    char mark[SOURCE_MARK];
    struct sqlite_place saved;
    bool more = false;
    source_last_saved(f->source, mark);
    const struct sqlite_place *keep = changes_parse(mark, &saved) ? &saved : &f->start;
    if (f->place.number - keep->number > KEEP_AT_MAX) {
        /* The filter could not be saved, so the service will read all keys the next time it
         * starts. */
        keep = &f->place;
    }
    const int64_t rows = keep->number - f->pruned;
    const uint64_t pause = rows >= PRUNE_AT_MIN ? PRUNE_PAUSE : PRUNE_INTERVAL;
    if (rows <= 0 || keep->number > f->place.number || now < f->pruned_at + pause) {
        return;
    }
    const bg_err err =
        sqlite_history_prune(f->source, keep->number, keep->token, &more, NULL);
    if (err || !more) {
        f->pruned_at = now;
    }
    if (!err && !more) {
        f->pruned = keep->number;
    }
}

static void follower_close(struct sqlite_follower *f)
{
    if (f->is_open) {
        sqlite_link_close(&f->link);
    }
    f->is_open = false;
    f->version = -1;
}

static bg_err follower_connect(struct sqlite_follower *f, bg_errinfo *info)
{
    if (f->is_open && !sqlite_link_is_fresh(&f->link)) {
        follower_close(f);
        follower_lose(f, "the file was replaced");
    }
    if (f->is_open && !sqlite_link_is_unchanged(&f->link)) {
        follower_close(f); /* the next read verifies the history without the cache */
    }
    if (f->is_open) {
        return BG_OK;
    }
    const bg_err err = sqlite_link_open(&f->link, f->source, false, info);
    f->is_open = !err;
    return err;
}

/* Reads the changes that were committed before the call. Sets *is_behind if there are later changes. */
static bg_err follower_poll(struct sqlite_follower *f, bool *is_behind,
                            bg_errinfo *info)
{
    const uint64_t since = source_now();
    char why[128];
    bool ended = false;
    bg_errinfo lost = { .code = BG_OK };
    *is_behind = false;
    if (source_is_distrusted(f->source, why, sizeof why)) {
        f->resume[0] = 0;
        f->is_distrusted = true;
        follower_lose(f, why);
    }
    bg_err err = follower_connect(f, info);
    if (!err && !f->is_placed) {
        err = follower_start(f, info);
    }
    if (err) {
        return err;
    }
    err = follower_catch_up(f, &ended, &lost);
    if (err == BG_EINCOMPAT) {
        follower_lose(f, lost.message);
        return follower_start(f, info);
    }
    if (err) {
        *info = lost;
        return err;
    }
    *is_behind = !ended;
    follower_tell(f, since);
    follower_prune(f, since);
    return BG_OK;
}

static void changes_follow(struct source *source)
{
    struct sqlite_follower *f = calloc(1, sizeof *f);
    uint32_t failures = 0;
    if (!f) {
        source_tell_state(source, false, "cannot allocate memory for the follower");
        return;
    }
    f->source = source;
    f->changes = source->mode_own;
    f->version = -1;
    (void)snprintf(f->why, sizeof f->why, "the follower has started");
    (void)snprintf(f->resume, sizeof f->resume, "%s", source->resume);
    f->pruned_at = source_now();
    while (!source_is_stopping(source)) {
        bg_errinfo info = { .code = BG_OK };
        bool is_behind = false;
        const bg_err err = follower_poll(f, &is_behind, &info);
        if (err && err != BG_EBUSY) {
            follower_close(f);
        }
        source_tell_state(source, !err, err ? info.message : "");
        failures = err ? failures + 1 : 0;
        if (!is_behind) {
            (void)source_pause(source,
                               err ? source_rest(failures - 1)
                                   : source->how.poll_ms * SOURCE_MILLISECOND,
                               -1);
        }
    }
    follower_close(f);
    key_batch_free(&f->batch);
    free(f);
}

/* ---- Reading all keys ------------------------------------------------------------------ */

struct changes_reader {
    struct sqlite_reader reader;
    uint64_t epoch;
};

/* Copies the follower's place. */
static bool changes_place(struct sqlite_changes *changes, struct sqlite_place *place,
                          uint64_t *epoch)
{
    (void)pthread_mutex_lock(&changes->lock);
    const bool is_placed = changes->is_placed;
    *place = changes->place;
    *epoch = changes->epoch;
    (void)pthread_mutex_unlock(&changes->lock);
    return is_placed;
}

/* Starts a snapshot that includes the follower's place. */
static bg_err changes_begin(void *context, bg_errinfo *info)
{
    struct changes_reader *r = context;
    struct sqlite_changes *changes = r->reader.base.source->mode_own;
    struct sqlite_place place;
    if (!changes_place(changes, &place, &r->epoch)) {
        return source_error(info, BG_EINCOMPAT, "keys", NULL,
                            "the follower has not started yet");
    }
    const bg_err err = sqlite_reader_begin(&r->reader, info);
    return err ? err : sqlite_history_verify(&r->reader.link, &place, info);
}

static bg_err changes_prove(void *context, bg_errinfo *info)
{
    struct changes_reader *r = context;
    struct sqlite_place place;
    uint64_t epoch;
    return changes_place(r->reader.base.source->mode_own, &place, &epoch)
                   && epoch == r->epoch && sqlite_link_is_fresh(&r->reader.link)
               ? BG_OK
               : source_error(
                   info, BG_EINCOMPAT, "keys", NULL,
                   "the follower restarted, or the file was replaced, during the read");
}

const struct source_mode sqlite_changes_mode = {
    .create = changes_create,
    .destroy = changes_destroy,
    .reader_size = sizeof(struct changes_reader),
    .keys_begin = changes_begin,
    .keys_next = sqlite_reader_next,
    .keys_prove = changes_prove,
    .keys_end = sqlite_reader_end,
    .follow = changes_follow,
};
