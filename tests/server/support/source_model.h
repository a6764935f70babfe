/*
 * source_model.h - a model of a gate that uses an exact set of keys instead of a filter. The model
 * behaves as source.h requires of listeners, and verifies that no committed key is missing from the
 * set.
 */
#ifndef TESTS_SOURCE_MODEL_H
#define TESTS_SOURCE_MODEL_H

#include "server/support/source_world.h"

#include <pthread.h>
#include <time.h>

struct model {
    pthread_mutex_t lock;
    pthread_cond_t told;
    bg_bytes *set; /* a hash table with linear probing */
    size_t n, room;
    uint64_t changes; /* reported keys */
    uint64_t restarts, doubts, resumed, proofs;
    uint64_t built;           /* the value of `restarts` when all keys were last read */
    struct source_proof last; /* the last proof received in this epoch */
    char mark[SOURCE_MARK];
    int up; /* -1: not reported yet */
    char why[256], trouble[256];
};

/* ---- The set ----------------------------------------------------------------------------- */

static inline size_t model_find(const struct model *m, bg_bytes key)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < key.len; i++) {
        hash = (hash ^ ((const unsigned char *)key.data)[i]) * UINT64_C(1099511628211);
    }
    size_t at = (size_t)(hash ^ (hash >> 32)) & (m->room - 1);
    while (m->set[at].data
           && (m->set[at].len != key.len
               || (key.len && memcmp(m->set[at].data, key.data, key.len) != 0))) {
        at = (at + 1) & (m->room - 1);
    }
    return at;
}

static inline void model_grow(struct model *m)
{
    bg_bytes *old = m->set;
    const size_t room = m->room;
    m->room = room ? 2 * room : 1024;
    m->set = calloc(m->room, sizeof *m->set);
    CHECK(m->set);
    for (size_t i = 0; i < room; i++) {
        if (old[i].data) {
            m->set[model_find(m, old[i])] = old[i];
        }
    }
    free(old);
}

static inline void model_put(struct model *m, bg_bytes key)
{
    if (2 * m->n >= m->room) {
        model_grow(m);
    }
    const size_t at = model_find(m, key);
    if (m->set[at].data) {
        return;
    }
    char *copy = malloc(key.len + 1);
    CHECK(copy);
    if (key.len) {
        memcpy(copy, key.data, key.len);
    }
    m->set[at] = (bg_bytes){ copy, key.len };
    m->n++;
}

static inline void model_clear(struct model *m)
{
    for (size_t i = 0; i < m->room; i++) {
        free((void *)(uintptr_t)m->set[i].data);
    }
    free(m->set);
    m->set = NULL;
    m->n = m->room = 0;
}

/* Returns whether the set contains the key. */
static inline bool model_has(struct model *m, const char *key)
{
    (void)pthread_mutex_lock(&m->lock);
    const bool has =
        m->room && m->set[model_find(m, (bg_bytes){ key, strlen(key) })].data;
    (void)pthread_mutex_unlock(&m->lock);
    return has;
}

/* ---- The listener ------------------------------------------------------------------------ */

static inline void model_restart(void *context, const char *why)
{
    struct model *m = context;
    (void)pthread_mutex_lock(&m->lock);
    m->restarts++;
    m->last = (struct source_proof){ .since = 0 };
    m->mark[0] = 0;
    model_clear(m);
    (void)snprintf(m->why, sizeof m->why, "%s", why);
    (void)pthread_cond_broadcast(&m->told);
    (void)pthread_mutex_unlock(&m->lock);
}

static inline void model_doubt(void *context, const char *why)
{
    struct model *m = context;
    (void)pthread_mutex_lock(&m->lock);
    m->doubts++;
    m->last = (struct source_proof){ .since = 0 };
    m->mark[0] = 0;
    (void)snprintf(m->why, sizeof m->why, "%s", why);
    (void)pthread_cond_broadcast(&m->told);
    (void)pthread_mutex_unlock(&m->lock);
}

static inline void model_resumed(void *context)
{
    struct model *m = context;
    (void)pthread_mutex_lock(&m->lock);
    m->resumed++;
    (void)pthread_cond_broadcast(&m->told);
    (void)pthread_mutex_unlock(&m->lock);
}

static inline void model_changed(void *context, const bg_bytes *keys, size_t n)
{
    struct model *m = context;
    (void)pthread_mutex_lock(&m->lock);
    m->changes += n;
    for (size_t i = 0; i < n; i++) {
        model_put(m, keys[i]);
    }
    (void)pthread_cond_broadcast(&m->told);
    (void)pthread_mutex_unlock(&m->lock);
}

static inline void model_caught_up(void *context, const struct source_proof *proof)
{
    struct model *m = context;
    (void)pthread_mutex_lock(&m->lock);
    m->proofs++;
    m->last = *proof;
    (void)snprintf(m->mark, sizeof m->mark, "%s", proof->mark);
    (void)pthread_cond_broadcast(&m->told);
    (void)pthread_mutex_unlock(&m->lock);
}

static inline void model_state(void *context, bool up, const char *why)
{
    struct model *m = context;
    (void)pthread_mutex_lock(&m->lock);
    m->up = up;
    (void)snprintf(m->trouble, sizeof m->trouble, "%s", why);
    (void)pthread_cond_broadcast(&m->told);
    (void)pthread_mutex_unlock(&m->lock);
}

/* ---- Life -------------------------------------------------------------------------------- */

static inline struct model *model_create(void)
{
    struct model *m = calloc(1, sizeof *m);
    CHECK(m);
    (void)pthread_mutex_init(&m->lock, NULL);
    (void)pthread_cond_init(&m->told, NULL);
    m->up = -1;
    return m;
}

static inline void model_free(struct model *m)
{
    model_clear(m);
    (void)pthread_cond_destroy(&m->told);
    (void)pthread_mutex_destroy(&m->lock);
    free(m);
}

/* Starts tracking the source's changes from a mark, or from the beginning if `mark` is NULL. */
static inline void model_follow(struct model *m, struct source *source,
                                const char *mark)
{
    const struct source_listener listener = {
        .context = m,
        .restart = model_restart,
        .doubt = model_doubt,
        .resumed = model_resumed,
        .changed = model_changed,
        .caught_up = model_caught_up,
        .state = model_state,
    };
    bg_errinfo why;
    m->up = -1;
    m->last = (struct source_proof){ .since = 0 };
    CHECK_OK(source_follow(source, &listener, mark, &why));
}

/* A snapshot of the model's state, copied while holding the lock. */
struct model_view {
    uint64_t restarts, resumed, doubts, changes;
    struct source_proof last;
    char mark[SOURCE_MARK];
    int up;
    char why[256], trouble[256];
};

/* Returns a snapshot that is valid until the next call. Not thread-safe. */
static inline const struct model_view *model_peek(struct model *m)
{
    static struct model_view view;
    (void)pthread_mutex_lock(&m->lock);
    view.restarts = m->restarts;
    view.resumed = m->resumed;
    view.doubts = m->doubts;
    view.changes = m->changes;
    view.last = m->last;
    view.up = m->up;
    memcpy(view.mark, m->mark, sizeof view.mark);
    memcpy(view.why, m->why, sizeof view.why);
    memcpy(view.trouble, m->trouble, sizeof view.trouble);
    (void)pthread_mutex_unlock(&m->lock);
    return &view;
}

/* Requires the lock. Waits for the next call to the listener; returns false after a minute. */
static inline bool model_wait(struct model *m)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 300;
    return pthread_cond_timedwait(&m->told, &m->lock, &until) == 0;
}

/* Waits until the condition holds. */
#define MODEL_AWAIT(m, condition)                                                      \
    do {                                                                               \
        (void)pthread_mutex_lock(&(m)->lock);                                          \
        bool in_time_ = true;                                                          \
        while (!(condition) && in_time_) {                                             \
            in_time_ = model_wait(m);                                                  \
        }                                                                              \
        const bool holds_ = (condition);                                               \
        (void)pthread_mutex_unlock(&(m)->lock);                                        \
        if (!holds_) {                                                                 \
            check_fail(__FILE__, __LINE__, "still false after five minutes: %s",       \
                       #condition);                                                    \
        }                                                                              \
    } while (0)

/* Reads all keys into the set, if necessary. Returns false if the caller must retry. */
static inline bool model_build(struct model *m, struct source *source)
{
    struct source_keys *keys = NULL;
    bg_bytes batch[1024];
    size_t n = 0;
    (void)pthread_mutex_lock(&m->lock);
    const uint64_t needed = m->restarts;
    const bool done = m->built == needed;
    (void)pthread_mutex_unlock(&m->lock);
    if (done) {
        return true;
    }
    bg_err err = source_keys_open(source, &keys, NULL);
    do {
        err = err ? err : source_keys_next(keys, batch, 1024, &n, NULL);
        (void)pthread_mutex_lock(&m->lock);
        for (size_t i = 0; !err && needed == m->restarts && i < n; i++) {
            model_put(m, batch[i]);
        }
        (void)pthread_mutex_unlock(&m->lock);
    } while (!err && n);
    source_keys_close(keys);
    (void)pthread_mutex_lock(&m->lock);
    const bool built = !err && needed == m->restarts;
    m->built = built ? needed : m->built;
    (void)pthread_mutex_unlock(&m->lock);
    return built;
}

/* Waits for proof that the set includes every key committed so far. */
static inline void model_settle(struct model *m, struct source *source)
{
    const uint64_t now = source_now();
    bool settled = false;
    MODEL_AWAIT(m, m->restarts + m->resumed > 0);
    while (!settled && source_now() < now + UINT64_C(60000000000)) {
        if (!model_build(m, source)) {
            source_look(source);
            (void)usleep(500);
            continue;
        }
        (void)pthread_mutex_lock(&m->lock);
        settled = m->built == m->restarts && m->last.since >= now;
        if (!settled && m->built == m->restarts) {
            source_look(source);
            (void)model_wait(m);
        }
        (void)pthread_mutex_unlock(&m->lock);
    }
    if (!settled) {
        check_fail(__FILE__, __LINE__, "no proof within a minute: %s %s", m->why,
                   m->trouble);
    }
}

/* Waits for proof that the set is complete. Returns the number of keys that the SQL selects but the
 * set does not contain. */
static inline size_t model_missing(struct model *m, struct source *source,
                                   struct world *w, const char *sql)
{
    sqlite3_stmt *rows = NULL;
    size_t missing = 0;
    model_settle(m, source);
    CHECK(sqlite3_prepare_v2(w->db, sql, -1, &rows, NULL) == SQLITE_OK);
    (void)pthread_mutex_lock(&m->lock);
    while (sqlite3_step(rows) == SQLITE_ROW) {
        const int type = sqlite3_column_type(rows, 0);
        const void *data = type == SQLITE_BLOB ? sqlite3_column_blob(rows, 0)
                                               : sqlite3_column_text(rows, 0);
        const bg_bytes key = { data, (size_t)sqlite3_column_bytes(rows, 0) };
        missing +=
            type != SQLITE_NULL && (!m->room || !m->set[model_find(m, key)].data);
    }
    (void)pthread_mutex_unlock(&m->lock);
    (void)sqlite3_finalize(rows);
    return missing;
}

#endif
