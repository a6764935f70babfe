/*
 * postgres/logical_follower.c - the follower for the `logical` mode; postgres/logical.c describes
 * the design.
 *
 * The follower runs one session after another. A session consists of two connections: `marks` for markers and
 * fingerprints, and `stream`. A session ends when either connection fails, or when there is a reason to restart. Only
 * the `place` outlives a session. It is the last marker that arrived, or the first marker of an epoch that has not
 * started yet.
 */
#include "postgres/logical.h"
#include "postgres/pgoutput.h"
#include "postgres/publication.h"
#include "postgres/replication.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FLIGHT = 1024, /* maximum number of emitted markers that have not yet arrived */
    STEP = 4096    /* number of messages between clock checks */
};
#define REPLY_INTERVAL (1 * SOURCE_SECOND)

/* The event that the follower reports when the `place` marker arrives. */
enum arrival { ARRIVES_RESTARTED, ARRIVES_RESUMED, ARRIVES_CONTINUED };

struct follower {
    struct source *source;
    struct logical *logical;
    struct postgres_link marks, stream;
    struct postgres_relations relations;
    struct key_batch batch;
    uint32_t failures; /* number of consecutive sessions without a proof */
    /* Epoch state. */
    bool has_place;
    bool is_restarting; /* the last session ended the epoch deliberately */
    bool is_live;       /* the epoch has been reported to the listener */
    struct postgres_mark place;
    enum arrival arrival;
    char why[BG_ERR_MESSAGE_MAX]; /* reason for the restart */
    uint64_t confirmed; /* the server may discard the WAL before this position */
    /* Session state. */
    bool has_arrived;
    char nonce[PG_NONCE];
    uint64_t emitted, arrived; /* numbers of the last markers emitted and received */
    uint64_t since[FLIGHT];    /* emission times, by marker number mod FLIGHT */
    /* Last position received, and last position confirmed. */
    uint64_t received, replied;
    uint64_t settling; /* position waiting to be confirmed, or 0 */
    /* A transaction ID; `settling` can be confirmed once this and all earlier transactions have
     * ended. */
    char last[24];
    uint64_t next_poll, next_reply;
};

/* ---- Restarting -------------------------------------------------------------------------- */

static void follower_publish(struct follower *f, bool is_following)
{
    struct logical *logical = f->logical;
    (void)pthread_mutex_lock(&logical->lock);
    logical->is_following = is_following;
    logical->round++;
    logical->epoch = f->place;
    (void)pthread_cond_broadcast(&logical->changed);
    (void)pthread_mutex_unlock(&logical->lock);
}

/* Ends the epoch; the next session starts a new epoch. */
static bg_err follower_restart(struct follower *f, bg_errinfo *info, const char *why)
{
    f->is_restarting = true;
    if (f->has_place) {
        f->has_place = false;
        (void)snprintf(f->why, sizeof f->why, "%s", why);
        follower_publish(f, false);
    }
    if (f->is_live) {
        f->is_live = false;
        source_tell_doubt(f->source, f->why);
    } else {
        postgres_keys_forget(f->source);
    }
    return source_error(info, BG_EINCOMPAT, "follower", NULL, "%s", f->why);
}

static void follower_waits(void *context, const char *why)
{
    const struct follower *f = context;
    source_tell_state(f->source, false, why);
}

/* Reads the fingerprint and the identity in one new snapshot. Unless `keys` is NULL, also reads the key type and the
 * relations. The caller must use `keys` only if the fingerprint and identity match the epoch, because lookups may be
 * using a filter whose keys have the epoch's type. */
static bg_err follower_inspect(struct follower *f, struct postgres_keys *keys,
                               struct postgres_mark *found, bg_errinfo *info)
{
    struct postgres_link *link = &f->marks;
    const uint64_t deadline = logical_deadline();
    bg_err err = postgres_link_do(link, "schema",
                                  "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
                                  deadline, info);
    err = err ? err : logical_inspect(link, f->logical, found, info);
    if (!err && keys) {
        err = postgres_keys_look(link, deadline, keys, info);
        err = err ? err : postgres_relations_load(link, deadline, &f->relations, info);
    }
    if (err != BG_EIO && err != BG_ECANCELED) {
        const bg_err ended =
            postgres_link_do(link, "schema", "COMMIT", deadline, err ? NULL : info);
        err = err ? err : ended;
    }
    return err;
}

static bg_err follower_connect(struct follower *f, bg_errinfo *info)
{
    return postgres_link_open(&f->stream, f->source, PG_STREAMS, logical_deadline(),
                              info);
}

/* Creates a slot, emits the first marker of the epoch, and reads the epoch's identity and fingerprint (L5). */
static bg_err follower_renew(struct follower *f, bg_errinfo *info)
{
    const struct postgres_slot_wait wait = { &f->marks, follower_waits, f };
    const char *name = f->logical->object;
    struct postgres_marker *first = &f->place.marker;
    struct postgres_keys keys;
    f->is_restarting = false;
    bg_err err = logical_prepare(&f->marks, f->logical, info);
    err = err ? err : follower_connect(f, info);
    err = err ? err : postgres_slot_drop(&f->marks, name, logical_deadline(), info);
    err = err ? err : postgres_slot_create(&f->stream, name, &wait, NULL, info);
    *first = (struct postgres_marker){ .kind = MARKER_OF_FOLLOWER };
    err = err ? err : source_nonce(first->nonce, info);
    err = err ? err : logical_emit(&f->marks, f->logical, first, info);
    err = err ? err : follower_inspect(f, &keys, &f->place, info);
    if (!err) {
        postgres_keys_use(f->source, &keys);
    }
    f->has_place = !err;
    f->arrival = ARRIVES_RESTARTED;
    f->confirmed = 0;
    return err;
}

/* ---- Continuing -------------------------------------------------------------------------- */

/* Verifies as much as possible before the stream starts. The arrival of the first marker proves continuity (L3). */
static bg_err follower_verify(struct follower *f, bg_errinfo *info)
{
    struct postgres_mark found;
    struct postgres_slot slot;
    struct postgres_keys keys;
    bg_err err = follower_inspect(f, &keys, &found, info);
    if (err == BG_EINVAL) {
        return follower_restart(f, info, info->message);
    }
    err = err ? err
              : postgres_slot_look(&f->marks, f->logical->object, logical_deadline(),
                                   &slot, info);
    if (err) {
        return err;
    }
    const char *difference = logical_difference(&found, &f->place);
    difference = difference                    ? difference
                 : !slot.exists                ? "the replication slot was dropped"
                 : !slot.fits || !slot.is_here ? "the replication slot was replaced"
                 : slot.is_lost
                     ? "the server removed WAL that the replication slot needs"
                 : slot.confirmed > f->place.marker.lsn
                     ? "the replication slot was advanced or re-created"
                     : NULL;
    if (difference) {
        return follower_restart(f, info, difference);
    }
    postgres_keys_use(f->source, &keys);
    return BG_OK;
}

static void follower_resume(struct follower *f)
{
    const char *mark = f->source->resume;
    f->has_place = postgres_mark_parse(mark, &f->place);
    f->arrival = ARRIVES_RESUMED;
    (void)snprintf(f->why, sizeof f->why, "%s",
                   *mark ? "the filter was saved in a different mode"
                         : "no filter has been saved");
}

/* ---- Markers ----------------------------------------------------------------------------- */

/* Emits a marker, then reads the fingerprint (L1, L2). */
static bg_err follower_poll(struct follower *f, bg_errinfo *info)
{
    struct postgres_marker marker = { .number = f->emitted + 1 };
    struct postgres_mark found;
    f->next_poll = source_now() + f->source->how.poll_ms * SOURCE_MILLISECOND;
    if (f->emitted - f->arrived == FLIGHT) {
        return BG_OK;
    }
    memcpy(marker.nonce, f->nonce, PG_NONCE);
    f->since[marker.number % FLIGHT] = source_now();
    bg_err err = logical_emit(&f->marks, f->logical, &marker, info);
    err = err ? err : follower_inspect(f, NULL, &found, info);
    if (err == BG_EINVAL) {
        return follower_restart(f, info, info->message);
    }
    const char *difference = err ? NULL : logical_difference(&found, &f->place);
    if (!err && !difference && marker.lsn <= f->place.marker.lsn) {
        difference =
            "the server's WAL ends before the position that the follower had reached";
    }
    if (difference) {
        return follower_restart(f, info, difference);
    }
    f->emitted += !err;
    return err;
}

/* Handles the arrival of the `place` marker. From then on, all rows are reported. */
static void follower_arrive(struct follower *f)
{
    struct source *source = f->source;
    f->has_arrived = f->is_live = true;
    if (f->arrival != ARRIVES_CONTINUED) {
        f->confirmed = f->place.marker.lsn;
        postgres_schema_set_identity(source, f->place.identity);
        follower_publish(f, true);
    }
    if (f->arrival == ARRIVES_RESTARTED) {
        source_tell_restart(source, f->why);
    } else if (f->arrival == ARRIVES_RESUMED) {
        source_tell_resumed(source);
    }
    f->arrival = ARRIVES_CONTINUED;
    source_tell_state(source, true, "");
}

static void follower_caught_up(struct follower *f, const struct postgres_marker *marker,
                               uint64_t position)
{
    char mark[SOURCE_MARK];
    f->arrived = marker->number;
    f->place.marker = *marker;
    f->failures = 0;
    postgres_mark_print(&f->place, mark);
    const struct source_proof proof = { .since = f->since[marker->number % FLIGHT],
                                        .position = position,
                                        .mark = mark };
    source_tell_caught_up(f->source, &proof);
}

static void follower_see_reader(struct follower *f,
                                const struct postgres_marker *marker)
{
    struct logical *logical = f->logical;
    (void)pthread_mutex_lock(&logical->lock);
    memcpy(logical->seen[logical->next_seen++ % LOGICAL_SEEN], marker->nonce, PG_NONCE);
    (void)pthread_cond_broadcast(&logical->changed);
    (void)pthread_mutex_unlock(&logical->lock);
}

static bg_err follower_marker(struct follower *f,
                              const struct pgoutput_message *message, bg_errinfo *info)
{
    static const char prefix[] = POSTGRES_MARKER_PREFIX;
    struct postgres_marker marker;
    if (message->is_transactional || message->prefix.len != sizeof prefix - 1
        || memcmp(message->prefix.data, prefix, sizeof prefix - 1) != 0
        || !postgres_marker_parse(f->logical->object, message->content, &marker)) {
        return BG_OK; /* the message belongs to another gate or application */
    }
    source_tell_keys(f->source, &f->batch);
    if (marker.kind == MARKER_OF_READER) {
        if (f->has_arrived) {
            follower_see_reader(f, &marker);
        }
    } else if (!f->has_arrived) {
        if (!postgres_marker_equal(&marker, &f->place.marker)) {
            return follower_restart(
                f, info,
                "the server's WAL differs from the one that the follower was reading");
        }
        follower_arrive(f);
    } else if (strcmp(marker.nonce, f->nonce) == 0 && marker.number > f->arrived
               && marker.number <= f->emitted) {
        follower_caught_up(f, &marker, message->lsn);
    }
    return BG_OK;
}

/* ---- Rows -------------------------------------------------------------------------------- */

static bg_err follower_describe(struct follower *f,
                                const struct pgoutput_message *message,
                                bg_errinfo *info)
{
    struct postgres_relation *relation =
        postgres_relations_find(&f->relations, message->relation);
    const char *missing =
        relation ? postgres_relation_describe(relation, &f->source->columns, message)
                 : NULL;
    return missing
               ? follower_restart(f, info, "a key column is missing from the stream")
               : BG_OK;
}

static bg_err follower_key(struct follower *f, bg_bytes key, bg_errinfo *info)
{
    if (key_batch_is_full(&f->batch)) {
        source_tell_keys(f->source, &f->batch);
    }
    return postgres_link_put(f->source, key.data, key.len,
                             atomic_load(&f->source->prints_hex), &f->batch)
               ? BG_OK
               : source_no_memory(info);
}

static bg_err follower_row(struct follower *f, struct pgoutput_message *row,
                           bg_errinfo *info)
{
    const struct postgres_relation *relation =
        postgres_relations_find(&f->relations, row->relation);
    struct pgoutput_value value;
    uint16_t next = 0;
    bg_err err = BG_OK;
    if (!relation || !f->has_arrived) {
        return BG_OK;
    }
    if (!relation->is_described || relation->at[relation->n - 1] >= row->columns) {
        return follower_restart(
            f, info, "a row in the stream does not match the description of its table");
    }
    for (uint16_t i = 0; !err && next < relation->n && pgoutput_value_next(row, &value);
         i++) {
        if (i != relation->at[next]) {
            continue;
        }
        next++;
        if (value.state == PGOUTPUT_TEXT) {
            err = follower_key(f, value.text, info);
        }
    }
    return err;
}

static bg_err follower_message(struct follower *f, const char *data, size_t len,
                               bg_errinfo *info)
{
    struct pgoutput_frame frame;
    struct pgoutput_message message;
    if (!pgoutput_frame_parse((bg_bytes){ data, len }, &frame)) {
        return follower_restart(f, info, "the stream contains an unknown message");
    }
    f->received = frame.sent > f->received ? frame.sent : f->received;
    if (frame.is_keepalive) {
        f->next_reply = frame.wants_reply ? 0 : f->next_reply;
        return BG_OK;
    }
    if (!pgoutput_parse(frame.payload, &message)) {
        return follower_restart(f, info, "the stream contains an unknown message");
    }
    switch (message.kind) {
    case PGOUTPUT_RELATION: return follower_describe(f, &message, info);
    case PGOUTPUT_ROW: return follower_row(f, &message, info);
    case PGOUTPUT_MESSAGE: return follower_marker(f, &message, info);
    default: return BG_OK;
    }
}

/* ---- The stream -------------------------------------------------------------------------- */

/*
 * Sets *position to the position to confirm, or to 0 if there is none. With synchronous_standby_names='*', confirming a
 * position would make the server release earlier transactions that are waiting for a standby, as if a standby had
 * received them. So when a position is ready to be confirmed, the function first records a new transaction ID.
 * It returns the position only after all earlier transactions have ended. A transaction that is waiting for a
 * standby counts as running.
 */
static bg_err follower_settle(struct follower *f, uint64_t *position, bg_errinfo *info)
{
    static const char begin[] = /* the commit does not wait for a standby */
        "SELECT pg_catalog.pg_current_xact_id(),"
        " pg_catalog.set_config('synchronous_commit', 'local', true)";
    static const char look[] = "SELECT pg_catalog.pg_snapshot_xmin("
                               "pg_catalog.pg_current_snapshot()) > $1::xid8";
    PGresult *rows = NULL;
    bg_err err = BG_OK;
    *position = 0;
    if (!f->has_arrived || f->confirmed == f->replied) {
        return BG_OK;
    }
    if (!f->settling) {
        err = postgres_link_run(&f->marks, "replication slot", begin, NULL,
                                logical_deadline(), &rows, info);
        (void)snprintf(f->last, sizeof f->last, "%s",
                       err ? "" : PQgetvalue(rows, 0, 0));
        f->settling = err ? 0 : f->confirmed;
        PQclear(rows);
        rows = NULL;
    }
    const struct postgres_arguments given = { 1, { { .data = f->last } } };
    err = err ? err
              : postgres_link_run(&f->marks, "replication slot", look, &given,
                                  logical_deadline(), &rows, info);
    if (!err && *PQgetvalue(rows, 0, 0) == 't') {
        *position = f->settling;
        f->settling = 0;
    }
    PQclear(rows);
    return err;
}

/* Sends a status reply to the server and confirms the saved position. */
static bg_err follower_reply(struct follower *f, bg_errinfo *info)
{
    char saved[SOURCE_MARK];
    struct postgres_mark mark;
    source_last_saved(f->source, saved);
    if (f->has_arrived && postgres_mark_parse(saved, &mark)
        && !logical_difference(&mark, &f->place) && mark.marker.lsn > f->confirmed
        && mark.marker.lsn <= f->place.marker.lsn) {
        f->confirmed = mark.marker.lsn;
    }
    uint64_t news;
    const bg_err err = follower_settle(f, &news, info);
    f->next_reply = source_now() + REPLY_INTERVAL;
    f->replied = news ? news : f->replied;
    return err ? err : postgres_stream_reply(&f->stream, f->received, news, info);
}

static void follower_hear(struct follower *f)
{
    (void)pthread_mutex_lock(&f->logical->lock);
    f->logical->heard = source_now();
    (void)pthread_mutex_unlock(&f->logical->lock);
}

/* Reads the messages that have arrived, up to a limit. Sets *is_drained if no unread messages are
 * left. */
static bg_err follower_read(struct follower *f, bool *is_drained, bg_errinfo *info)
{
    bg_err err = BG_OK;
    int n = 0;
    for (*is_drained = false; !err && !*is_drained && n < STEP; n++) {
        char *message;
        size_t len;
        err = postgres_stream_next(&f->stream, &message, &len, info);
        *is_drained = !err && !message;
        if (message) {
            err = follower_message(f, message, len, info);
            PQfreemem(message);
        }
    }
    if (n > 1) {
        follower_hear(f);
    }
    return err;
}

static bg_err follower_step(struct follower *f, bg_errinfo *info)
{
    struct source *source = f->source;
    char why[sizeof source->distrust];
    bool is_drained = false;
    bg_err err = source_is_stopping(source) ? source_stopped(info) : BG_OK;
    if (!err && source_is_distrusted(source, why, sizeof why)
        && f->arrival != ARRIVES_RESTARTED) {
        err = follower_restart(f, info, why);
    }
    const uint64_t now = source_now();
    if (!err && (atomic_exchange(&source->looked_for, false) || now >= f->next_poll)) {
        err = follower_poll(f, info);
    }
    if (!err && now >= f->next_reply) {
        err = follower_reply(f, info);
    }
    err = err ? err : follower_read(f, &is_drained, info);
    if (!err && is_drained && f->next_reply) {
        source_tell_keys(source, &f->batch);
        if (f->emitted != f->arrived && now > f->logical->heard + STREAM_SILENCE) {
            return source_error(
                info, BG_EIO, "replication stream", NULL,
                "the server has sent nothing for 120 seconds, although the service "
                "wrote to the WAL");
        }
        const uint64_t next =
            f->next_poll < f->next_reply ? f->next_poll : f->next_reply;
        const uint64_t then = source_now();
        if (next > then) {
            (void)source_pause(source, next - then, PQsocket(f->stream.db));
        }
    }
    return err;
}

/* ---- Sessions ---------------------------------------------------------------------------- */

static bg_err follower_stream(struct follower *f, bg_errinfo *info)
{
    bg_err err = postgres_stream_start(&f->stream, f->logical->object,
                                       f->place.marker.lsn, info);
    f->has_arrived = false;
    f->emitted = f->arrived = f->received = f->replied = f->settling = 0;
    f->next_reply = f->next_poll = 0;
    postgres_relations_forget(&f->relations);
    key_batch_clear(&f->batch);
    follower_hear(f); /* restarts the server timeout */
    err = err ? err : source_nonce(f->nonce, info);
    while (!err) {
        err = follower_step(f, info);
    }
    if (err == BG_EIO && postgres_stream_is_refused(&f->stream)) {
        err = follower_restart(f, info, info->message);
    }
    return err;
}

static bg_err follower_session(struct follower *f, bg_errinfo *info)
{
    bg_err err =
        postgres_link_open(&f->marks, f->source, PG_WRITES, logical_deadline(), info);
    f->is_restarting = false;
    if (!err && f->has_place) {
        err = follower_verify(f, info);
        err = err == BG_EINCOMPAT && !f->has_place ? BG_OK : err;
    }
    if (!err) {
        err = f->has_place ? follower_connect(f, info) : follower_renew(f, info);
    }
    err = err ? err : follower_stream(f, info);
    postgres_link_close(&f->stream);
    postgres_link_close(&f->marks);
    return err;
}

void logical_follow(struct source *source)
{
    struct follower *f = calloc(1, sizeof *f);
    if (!f) {
        source_tell_state(source, false, "out of memory");
        return;
    }
    f->source = source;
    f->logical = source->mode_own;
    follower_resume(f);
    while (!source_is_stopping(source)) {
        bg_errinfo info = { .code = BG_OK };
        (void)follower_session(f, &info);
        if (!f->is_restarting) {
            source_tell_state(source, false, info.message);
        }
        if (f->failures++ && !source_is_stopping(source)) {
            (void)source_pause(source, source_rest(f->failures - 2), -1);
        }
    }
    postgres_relations_free(&f->relations);
    key_batch_free(&f->batch);
    free(f);
}
