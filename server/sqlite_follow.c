/*
 * sqlite_follow.c - the thread that follows a SQLite database.
 *
 * Every `poll` it asks for PRAGMA data_version, which costs a look at the file's header (or the
 * index of its log) and changes if and only if another connection has committed; only then it
 * reads. The time of "caught up" is taken before the version is asked for.
 *
 * It begins anew whenever it cannot be sure to see everything: the file was replaced (another
 * inode behind its name; while the old one is open its number is not used again), the schema was
 * changed (a table made anew counts from 1), changes were pruned, the last row of an appended
 * table is gone, or an error closed the connection. A position is taken before `anew` is told.
 */
#include "sqlite_stream.h"

#define FOLLOW_PRUNE (60 * SOURCE_SECOND)

struct sqlite_follow {
    struct source *source;
    struct sqlite_stream *stream; /* NULL: not open */
    bool placed;                  /* it has a position */
    int64_t data, schema;         /* versions that were read; -1: none */
    const char *why;              /* it begins anew */
    uint64_t pruned;              /* when */
};

static void sqlite_follow_lose(struct sqlite_follow *f, const char *why)
{
    f->placed = false;
    f->why = why;
}

static void sqlite_follow_close(struct sqlite_follow *f, const char *why)
{
    sqlite_stream_close(f->stream);
    f->stream = NULL;
    sqlite_follow_lose(f, why);
}

/* A connection to the file of today. */
static bg_err sqlite_follow_open(struct sqlite_follow *f, bg_errinfo *info)
{
    if (f->stream && !sqlite_link_is_fresh(&f->stream->link)) {
        sqlite_follow_close(f, "the file was replaced");
    }
    if (f->stream) {
        return BG_OK;
    }
    f->data = f->schema = -1;
    return sqlite_stream_open(f->source, &f->stream, info);
}

static bg_err sqlite_follow_place(struct sqlite_follow *f, bg_errinfo *info)
{
    const bg_err err = sqlite_stream_start(f->stream, info);
    if (!err) {
        f->placed = true;
        f->data = -1;
        source_tell_anew(f->source, f->why);
    }
    return err;
}

static void sqlite_follow_prune(struct sqlite_follow *f, uint64_t now)
{
    if (f->stream->changes && now - f->pruned >= FOLLOW_PRUNE) {
        f->pruned = now;
        sqlite_install_prune(f->source, sqlite_stream_position(f->stream));
    }
}

/* One look at the database. */
static bg_err sqlite_follow_look(struct sqlite_follow *f, bg_errinfo *info)
{
    bg_err err = sqlite_follow_open(f, info);
    const uint64_t since = source_now();
    int64_t data = 0, schema = 0;
    err = err ? err : sqlite_stream_versions(f->stream, &data, &schema, info);
    if (!err && f->schema >= 0 && schema != f->schema) {
        sqlite_follow_lose(f, "the schema was changed");
    }
    f->schema = err ? -1 : schema;
    if (!err && !f->placed) {
        err = sqlite_follow_place(f, info);
    }
    if (!err && data != f->data) {
        bool missed = false;
        err = sqlite_stream_read(f->stream, &missed, info);
        if (!err && missed) {
            sqlite_follow_lose(f, "rows that were to be followed are gone");
            source_look(f->source);
            return BG_OK;
        }
        f->data = data;
    }
    if (!err) {
        source_tell_caught_up(f->source, sqlite_stream_position(f->stream), since);
        sqlite_follow_prune(f, since);
    }
    return err;
}

void sqlite_follow_run(struct source *source)
{
    struct sqlite_follow f = { .source = source, .why = "it is the first time" };
    uint32_t failures = 0;
    while (!source_is_stopping(source)) {
        bg_errinfo why = { .code = BG_OK };
        const bg_err err = sqlite_follow_look(&f, &why);
        if (err == BG_EBUSY) { /* no harm done: later */
            (void)source_pause(source, source_rest(failures++), -1);
        } else if (err) {
            sqlite_follow_close(&f, "the database could not be read");
            source_tell_state(source, false, why.message);
            (void)source_pause(source, source_rest(failures++), -1);
        } else {
            failures = 0;
            source_tell_state(source, true, "");
            (void)source_pause(source, source->how.poll_ms * SOURCE_MILLISECOND, -1);
        }
    }
    sqlite_follow_close(&f, "");
}
