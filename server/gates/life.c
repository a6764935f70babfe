/*
 * gates/life.c - a gate's two threads: the follower, which belongs to the source and calls the listener defined
 * here, and the maker, which builds and saves filters.
 *
 *     follower                        maker
 *     restart: needed + 1  ------->   reads all keys into a new filter (bg_slot_rebuild)
 *     changed: added to the slot, to the new filter as well
 *     caught_up: T2, mark             when the filter is in place: built = needed as of the start (T1)
 *                                     saves the filter with the last mark; then source_saved
 *
 * No key is missed. If a key was committed before `restart`, the maker reads it, because the read starts after
 * `restart`. If the key was committed later, the follower reports it. If the follower reports the key before the new
 * filter accepts adds, the read includes the key (source.h, S5), because bg_slot_rebuild starts reading only after the
 * filter accepts adds.
 *
 * Saving. The mark is copied before the filter is saved, so the file contains everything up to the mark. If an audit
 * found a false negative in a filter, the filter is not saved, and its file is deleted. An audit may run during a
 * save, so before the maker renames the new file, it checks again that no audit has found a false
 * negative. It holds the lock during the check and the rename.
 *
 * A failed build is retried with backoff, from one second to one minute. If only the policy requires a rebuild, the
 * pause before the rebuild is at least ten times the duration of the last build. Clients can raise the observed rate by
 * looking up deleted keys, so it causes at most one rebuild per hour.
 */
#include "gates/gate.h"

#include "clock.h"
#include "gates/files.h"
#include "text.h"
#include "util/timed.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LIFE_SECOND UINT64_C(1000000000)
#define LIFE_MINUTE (60 * LIFE_SECOND)
#define LIFE_HOUR   (60 * LIFE_MINUTE)

enum { LIFE_REPORTS = 4 }; /* maximum number of reasons reported per minute */

/* ---- The listener -------------------------------------------------------------------------- */

/* Starts epoch needed + 1. The filter is not trusted until it is rebuilt (T1). */
static void gate_life_new_epoch(struct gate *gate, const char *why)
{
    (void)atomic_fetch_add(&gate->needed, 1);
    bg_gate_forget_absent(gate->gate);
    (void)pthread_mutex_lock(&gate->lock);
    atomic_store(&gate->caught_up, 0);
    atomic_store(&gate->doubted, false);
    gate->mark[0] = 0;
    gate->saved[0] = 0; /* the file is from an earlier epoch, or has been deleted */
    if (!gate->is_unusable) {
        /* If is_unusable is set, `why` already contains the actual reason; the source would report
         * only that the mark is missing. */
        (void)snprintf(gate->why, sizeof gate->why, "%s", why);
    }
    gate->is_unusable = false;
    (void)pthread_cond_signal(&gate->wake);
    (void)pthread_mutex_unlock(&gate->lock);
}

static void gate_life_restart(void *context, const char *why)
{
    struct gate *gate = context;
    gate_life_new_epoch(gate, why);
    if (atomic_fetch_add(&gate->restarts, 1) > 0) {
        gate_tell(gate, GATE_EVENT_RESTARTED, why, 0, 0);
    }
}

/* Stops trusting the filter until a new epoch starts (T3). */
static void gate_life_lost_proof(void *context, const char *why)
{
    struct gate *gate = context;
    if (!atomic_exchange(&gate->doubted, true)) {
        gate_tell(gate, GATE_EVENT_DOUBTED, why, 0, 0);
    }
}

static void gate_life_resumed(void *context)
{
    struct gate *gate = context;
    atomic_store(&gate->needed, 1);
    atomic_store(&gate->built, 1);
    atomic_store(&gate->phase, GATE_SERVING);
    gate_tell(gate, GATE_EVENT_RESUMED, "the saved filter is answering lookups", 0, 0);
}

static void gate_life_changed(void *context, const bg_bytes *keys, size_t n)
{
    struct gate *gate = context;
    bool refused = false;
    for (size_t i = 0; i < n; i++) {
        refused = bg_gate_add(gate->gate, keys[i].data, keys[i].len) || refused;
    }
    /* If the filter refuses an add, the bg_gate does not trust the filter until it is replaced. */
    if (refused) {
        gate_life_rebuild(gate, false, "a key could not be added to the filter");
    }
    (void)atomic_fetch_add(&gate->changes, n);
}

static void gate_life_caught_up(void *context, const struct source_proof *proof)
{
    struct gate *gate = context;
    atomic_store(&gate->position, proof->position);
    (void)pthread_mutex_lock(&gate->lock);
    (void)snprintf(gate->mark, sizeof gate->mark, "%s", proof->mark);
    gate->mark_epoch = proof->epoch;
    atomic_store(&gate->caught_up, proof->since);
    (void)pthread_cond_broadcast(&gate->caught);
    (void)pthread_mutex_unlock(&gate->lock);
}

/* Sets whether the gate can use its source. If it can, forgets an earlier failed lookup, because an
 * idle gate has no later lookup that would. The caller holds the lock. */
static void gate_life_set_source(struct gate *gate, bool up, const char *why)
{
    gate->source_up = up;
    (void)snprintf(gate->source_text, sizeof gate->source_text, "%s", why);
    if (up) {
        atomic_store(&gate->ask_failed, false);
    }
}

/* Reports that the source is lost or back. While it stays lost, repeats the report every minute,
 * and reports up to LIFE_REPORTS different reasons per minute. The first connection is not a
 * recovery, so it is not reported. */
static void gate_life_state(void *context, bool up, const char *why)
{
    struct gate *gate = context;
    (void)pthread_mutex_lock(&gate->lock);
    const uint64_t now = source_now();
    const bool first =
        gate->source_up != up || (!up && now > gate->source_told + LIFE_MINUTE);
    const bool changed = first
                         || (!up && strcmp(gate->source_text, why) != 0
                             && gate->source_reports < LIFE_REPORTS);
    gate->source_told = first ? now : gate->source_told;
    gate->source_reports = first ? 1 : gate->source_reports + changed;
    gate_life_set_source(gate, up, why);
    (void)pthread_mutex_unlock(&gate->lock);
    if (changed) {
        gate_tell(gate, up ? GATE_EVENT_SOURCE_BACK : GATE_EVENT_SOURCE_LOST, why, 0,
                  0);
    }
}

void gate_life_await(struct gate *gate)
{
    const uint64_t now = source_now(), until = now + gate->max_lag;
    (void)pthread_mutex_lock(&gate->lock);
    while (!gate->stopping && atomic_load(&gate->caught_up) < now
           && source_now() < until) {
        source_look(gate->source);
        (void)timed_wait(&gate->caught, &gate->lock, until);
    }
    (void)pthread_mutex_unlock(&gate->lock);
}

void gate_life_doubt(struct gate *gate, const char *why)
{
    atomic_store(&gate->doubted, true);
    if (gate->file) {
        (void)pthread_mutex_lock(&gate->lock);
        (void)unlink(gate->file);
        (void)pthread_mutex_unlock(&gate->lock);
    }
    if (gate->followed) {
        source_distrust(gate->source, why);
    } else {
        gate_life_new_epoch(gate, why);
    }
}

/* ---- Building ------------------------------------------------------------------------------ */

static bool gate_life_progress(void *context, const bg_rebuild_progress *progress)
{
    struct gate *gate = context;
    atomic_store(&gate->progress_keys, progress->keys);
    (void)pthread_mutex_lock(&gate->lock);
    const bool on = !gate->stopping;
    (void)pthread_mutex_unlock(&gate->lock);
    return on;
}

/* Returns the options for building a filter for the given number of keys. */
static bg_rebuild_options gate_life_how(struct gate *gate, uint64_t keys)
{
    const struct gate_settings *s = &gate->settings;
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    const double items = ceil((double)keys * s->headroom);
    how.spec.kind = s->kind;
    how.spec.rate = s->rate;
    how.spec.items = items < 0x1p56 ? (uint64_t)items : UINT64_C(1) << 56;
    if (how.spec.items < s->capacity) {
        how.spec.items = s->capacity;
    }
    how.spec.hash = gate->how.hash;
    how.spec.max_bytes = gate->how.max_filter_bytes;
    how.progress = gate_life_progress;
    how.context = gate;
    return how;
}

/* Verifies `lookup`. A failure is reported as the source's state, because the follower may not
 * detect the failure. */
static bg_err gate_life_check(struct gate *gate, bg_errinfo *info)
{
    bg_errinfo why = { .code = BG_OK };
    const bg_err err = source_check_lookup(gate->source, &why);
    gate_note_answer(gate, &why, err != BG_OK);
    if (err) {
        *info = why;
    }
    return err;
}

static bg_err gate_life_read(struct gate *gate, bg_rebuild_report *report,
                             bg_errinfo *info)
{
    struct source_keys *keys = NULL;
    uint64_t count = 0;
    bg_err err = gate_life_check(gate, info);
    err = err ? err : source_count(gate->source, &count, info);
    err = err ? err : source_keys_open(gate->source, &keys, info);
    if (!err) {
        const bg_rebuild_options how = gate_life_how(gate, count);
        const bg_source all = { source_keys_next, source_keys_rewind, keys, count };
        atomic_store(&gate->progress_expected, count);
        err = bg_slot_rebuild(gate->slot, &all, &how, report, info);
    }
    source_keys_close(keys);
    return err;
}

static void gate_life_note_build(struct gate *gate, const bg_rebuild_report *report,
                                 const bg_errinfo *why, bg_err err)
{
    (void)pthread_mutex_lock(&gate->lock);
    if (!err) {
        gate->build_keys = report->keys;
        gate->build_seconds = report->seconds;
        gate->build_time = clock_now();
    }
    (void)snprintf(gate->build_text, sizeof gate->build_text, "%s",
                   err ? why->message : "");
    if (!gate->followed) { /* otherwise, the follower reports the state */
        const bool up = !err || err == BG_ENOMEM || err == BG_EQUOTA;
        gate_life_set_source(gate, up, up ? "" : gate->build_text);
    }
    (void)pthread_mutex_unlock(&gate->lock);
}

/* Builds a filter. Returns false on failure. */
static bool gate_life_build(struct gate *gate, const char *reason)
{
    bg_rebuild_report report = { .struct_size = sizeof report };
    bg_errinfo why = { .code = BG_OK };
    const uint64_t needed = atomic_load(&gate->needed);
    const bool first = atomic_load(&gate->built) == 0;
    atomic_store(&gate->progress_keys, 0);
    atomic_store(&gate->phase, first ? GATE_BUILDING : GATE_REBUILDING);
    gate_tell(gate, GATE_EVENT_BUILD_BEGAN, reason, 0, 0);
    const bg_err err = gate_life_read(gate, &report, &why);
    gate_life_note_build(gate, &report, &why, err);
    if (!err) {
        bg_gate_info stats = { .struct_size = sizeof stats };
        /* Statistics about the old filter must not count against the new one. */
        (void)!bg_gate_get_info(gate->gate, NULL, &stats);
        atomic_store(&gate->built, needed);
        (void)atomic_fetch_add(&gate->builds, 1);
        gate_tell(gate, GATE_EVENT_BUILD_ENDED, reason, report.keys, report.seconds);
    } else if (err != BG_ECANCELED) {
        (void)atomic_fetch_add(&gate->build_failures, 1);
        gate_tell(gate, GATE_EVENT_BUILD_FAILED, why.message, 0, 0);
    }
    atomic_store(&gate->phase, !err || !first ? GATE_SERVING : GATE_WAITING);
    return !err;
}

/* The state of the maker thread. */
struct gate_life {
    struct gate *gate;
    uint32_t failures; /* consecutive failed builds */
    uint64_t retry;    /* earliest time for the next build in this epoch */
    uint64_t epoch;    /* epoch of the last attempt */
    uint64_t calm;     /* earliest time for a rebuild that is not urgent */
    uint64_t maintain; /* time of the next policy evaluation */
    uint64_t observed; /* earliest time for a rebuild because of the observed rate */
    uint64_t save;     /* time of the next save */
    bool stale;        /* the filter was stale at the last check */
};

/* ---- The policy ---------------------------------------------------------------------------- */

static void gate_life_reasons(uint32_t reasons, char *text, size_t room)
{
    static const struct {
        uint32_t bit;
        const char *text;
    } names[] = {
        { BG_REASON_FILL, "the filter is full" },
        { BG_REASON_PREDICTED, "the predicted false-positive rate is too high" },
        { BG_REASON_OBSERVED, "the observed false-positive rate is too high" },
        { BG_REASON_AGE, "the filter is too old" },
        { BG_REASON_DEGRADED, "keys are missing from the filter" },
        { BG_REASON_POLLUTED, "the filter holds adversarial keys" }
    };
    size_t n = 0;
    text[0] = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && n < room; i++) {
        if (reasons & names[i].bit) {
            n += (size_t)snprintf(text + n, room - n, "%s%s", n ? ", " : "",
                                  names[i].text);
        }
    }
}

/* Returns whether the policy requires a rebuild, and why. */
static bool gate_life_is_due(struct gate_life *life, char *text, size_t room)
{
    const struct gate_settings *s = &life->gate->settings;
    bg_policy policy = BG_POLICY_INIT;
    uint32_t reasons = 0;
    policy.fill = s->rebuild_fill;
    policy.predicted = s->rebuild_predicted;
    policy.observed = s->rebuild_observed;
    policy.age = (uint64_t)(s->rebuild * 1e9);
    if (bg_gate_maintain(life->gate->gate, &policy, NULL, NULL, &reasons, NULL)) {
        return false;
    }
    if (reasons == BG_REASON_OBSERVED) {
        const uint64_t now = source_now();
        if (now < life->observed) {
            return false;
        }
        life->observed = now + LIFE_HOUR;
    }
    gate_life_reasons(reasons, text, room);
    return reasons != 0;
}

/* ---- The maker ----------------------------------------------------------------------------- */

/* Reports when the follower falls behind, and when it has caught up again and the filter is
 * trusted, which takes a rebuild if a new epoch has started in the meantime. */
static void gate_life_watch(struct gate_life *life)
{
    struct gate *gate = life->gate;
    const uint64_t seen = atomic_load(&gate->caught_up), now = source_now();
    const bool late =
        gate->followed && seen && now > seen && now - seen > gate->max_lag;
    const bool stale = life->stale ? !gate_is_trusted(gate) : late;
    if (stale != life->stale) {
        life->stale = stale;
        if (!stale) { /* the source answers, although the last lookup may have failed */
            atomic_store(&gate->ask_failed, false);
        }
        gate_tell(
            gate, stale ? GATE_EVENT_STALE : GATE_EVENT_FRESH,
            stale ? "the follower has not caught up within max-lag; all lookups "
                    "query the source"
                  : "the follower has caught up; the filter is answering lookups again",
            0, stale ? (double)(now - seen) / 1e9 : 0);
    }
}

static void gate_life_make(struct gate_life *life, const char *reason)
{
    struct gate *gate = life->gate;
    const uint64_t begun = source_now();
    if (gate_life_build(gate, reason)) {
        life->failures = 0;
        life->retry = 0;
        life->save = 0; /* save soon, so that the source can discard older changes */
    } else {
        const uint64_t rest = LIFE_SECOND << (life->failures < 6 ? life->failures : 6);
        life->failures++;
        life->retry = source_now() + (rest < LIFE_MINUTE ? rest : LIFE_MINUTE);
    }
    const uint64_t now = source_now(), pause = 10 * (now - begun);
    const uint64_t usual = (uint64_t)(gate->settings.maintain * 1e9);
    life->maintain = now + (pause > usual ? pause : usual);
    life->calm = now + (pause > LIFE_SECOND ? pause : LIFE_SECOND);
}

/* ---- Saving -------------------------------------------------------------------------------- */

/* Returns whether there is something new to save. The caller holds the lock. */
static bool gate_life_can_save(const struct gate *gate)
{
    return gate->file && gate->mark[0] && strcmp(gate->mark, gate->saved) != 0
           && !atomic_load(&gate->doubted)
           && atomic_load(&gate->built) == atomic_load(&gate->needed);
}

/* Moves the saved filter into place. If the epoch has ended, the filter may be missing keys, so this function deletes
 * the file and returns BG_ECANCELED. The caller holds the lock. */
static bg_err gate_life_keep(const struct gate *gate, const char *path, uint64_t needed,
                             bg_errinfo *info)
{
    bg_err err = BG_ECANCELED;
    if (!atomic_load(&gate->doubted) && needed == atomic_load(&gate->needed)) {
        err = rename(path, gate->file) == 0
                  ? BG_OK
                  : source_error(info, BG_EIO, "gates", NULL,
                                 "cannot rename %.300s: %s", path, text_errno(errno));
    }
    if (err) {
        (void)unlink(path);
    }
    return err;
}

/* Saves the filter with the last mark. The caller holds the lock, which is released while saving. */
static bool gate_life_save(struct gate *gate)
{
    bg_errinfo why = { .code = BG_OK };
    char mark[SOURCE_MARK], path[PATH_MAX];
    const uint64_t epoch = gate->mark_epoch, needed = atomic_load(&gate->needed);
    memcpy(mark, gate->mark, sizeof mark);
    (void)snprintf(path, sizeof path, "%s.new", gate->file);
    (void)pthread_mutex_unlock(&gate->lock);
    bg_err err = gate_files_save(gate->slot, path, &gate->settings, mark, &why);
    (void)pthread_mutex_lock(&gate->lock);
    err = err ? err : gate_life_keep(gate, path, needed, &why);
    if (!err) {
        memcpy(gate->saved, mark, sizeof mark);
        (void)atomic_fetch_add(&gate->saves, 1);
        source_saved(gate->source, mark, epoch);
    } else if (err != BG_ECANCELED) {
        (void)pthread_mutex_unlock(&gate->lock);
        gate_tell(gate, GATE_EVENT_SAVE_FAILED, why.message, 0, 0);
        (void)pthread_mutex_lock(&gate->lock);
    }
    return !err;
}

/* Loads the saved filter. Sets `mark` to "" if there is no usable filter. */
static void gate_life_load(struct gate *gate, char mark[SOURCE_MARK])
{
    mark[0] = 0;
    if (!gate->file || !gate->followed || access(gate->file, F_OK) != 0) {
        return;
    }
    bg_errinfo why = { .code = BG_OK };
    if (gate_files_load(gate->slot, gate->file, &gate->settings, &gate->how.hash,
                        gate->how.max_filter_bytes, mark, &why)) {
        (void)snprintf(gate->why, sizeof gate->why,
                       "the saved filter cannot be used: %.400s", source_reason(&why));
        gate->is_unusable = true;
    }
    memcpy(gate->saved, mark, SOURCE_MARK);
}

/* Runs the next task, or waits. The caller holds the lock. */
static void gate_life_turn(struct gate_life *life)
{
    struct gate *gate = life->gate;
    const uint64_t now = source_now();
    const bool wanted = atomic_load(&gate->needed) != atomic_load(&gate->built);
    /* Failures in an earlier epoch do not count. */
    if (life->epoch != atomic_load(&gate->needed)) {
        life->epoch = atomic_load(&gate->needed);
        life->retry = life->failures = 0;
    }
    char reason[BG_ERR_MESSAGE_MAX];
    const bool asked =
        gate->rebuild_asked || (gate->rebuild_wanted && now >= life->calm);
    if ((wanted || asked) && now >= life->retry && atomic_load(&gate->needed) != 0) {
        gate->rebuild_asked = gate->rebuild_wanted = false;
        (void)snprintf(reason, sizeof reason, "%s", gate->why);
        (void)pthread_mutex_unlock(&gate->lock);
        gate_life_make(life, reason);
        (void)pthread_mutex_lock(&gate->lock);
        gate->rebuild_asked = gate->rebuild_asked || (!wanted && life->failures);
    } else if (atomic_load(&gate->built) != 0 && now >= life->maintain) {
        (void)pthread_mutex_unlock(&gate->lock);
        if (gate_life_is_due(life, reason, sizeof reason)) {
            gate_life_make(life, reason);
        } else {
            life->maintain = now + (uint64_t)(gate->settings.maintain * 1e9);
        }
        (void)pthread_mutex_lock(&gate->lock);
    } else if (now >= life->save && gate_life_can_save(gate)) {
        const uint64_t interval = (uint64_t)(gate->settings.save * 1e9);
        const uint64_t soon = interval < LIFE_MINUTE ? interval : LIFE_MINUTE;
        life->save = now + (gate_life_save(gate) ? interval : soon);
    } else {
        /* The timeout is short so that a stale filter is detected in time. */
        uint64_t until = now + LIFE_SECOND / 4;
        until = life->retry > now && life->retry < until ? life->retry : until;
        (void)timed_wait(&gate->wake, &gate->lock, until);
    }
}

static void *gate_life_run(void *context)
{
    struct gate *gate = context;
    struct gate_life life = { .gate = gate };
    life.maintain = source_now() + (uint64_t)(gate->settings.maintain * 1e9);
    (void)pthread_mutex_lock(&gate->lock);
    while (!gate->stopping) {
        gate_life_turn(&life);
        (void)pthread_mutex_unlock(&gate->lock);
        gate_life_watch(&life);
        (void)pthread_mutex_lock(&gate->lock);
    }
    if (gate_life_can_save(gate)) {
        (void)gate_life_save(gate);
    }
    (void)pthread_mutex_unlock(&gate->lock);
    return NULL;
}

/* ---- Start and stop ------------------------------------------------------------------------ */

bg_err gate_life_begin(struct gate *gate, bg_errinfo *info)
{
    const struct source_listener listener = { .context = gate,
                                              .restart = gate_life_restart,
                                              .doubt = gate_life_lost_proof,
                                              .resumed = gate_life_resumed,
                                              .changed = gate_life_changed,
                                              .caught_up = gate_life_caught_up,
                                              .state = gate_life_state };
    bg_err err = BG_OK;
    char mark[SOURCE_MARK];
    (void)snprintf(gate->why, sizeof gate->why, "there is no filter yet");
    gate_life_load(gate, mark);
    if (!gate->followed) {
        atomic_store(&gate->needed, 1);
    }
    const int error = pthread_create(&gate->thread, NULL, gate_life_run, gate);
    gate->has_thread = error == 0;
    if (error) {
        err = source_error(info, BG_EIO, "thread", NULL,
                           "cannot start a thread (errno %d)", error);
    } else if (gate->followed) {
        err = source_follow(gate->source, &listener, mark, info);
    }
    if (err) {
        gate_life_end(gate);
    }
    return err;
}

void gate_life_end(struct gate *gate)
{
    (void)pthread_mutex_lock(&gate->lock);
    gate->stopping = true;
    (void)pthread_cond_signal(&gate->wake);
    (void)pthread_cond_broadcast(&gate->caught);
    (void)pthread_mutex_unlock(&gate->lock);
    source_stop(gate->source);
    if (gate->has_thread) {
        (void)pthread_join(gate->thread, NULL);
        gate->has_thread = false;
    }
}

void gate_life_rebuild(struct gate *gate, bool at_once, const char *why)
{
    (void)pthread_mutex_lock(&gate->lock);
    gate->rebuild_asked = gate->rebuild_asked || at_once;
    gate->rebuild_wanted = gate->rebuild_wanted || !at_once;
    (void)snprintf(gate->why, sizeof gate->why, "%s", why);
    (void)pthread_cond_signal(&gate->wake);
    (void)pthread_mutex_unlock(&gate->lock);
}
