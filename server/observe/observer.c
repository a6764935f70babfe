/* observer.c - see observer.h. */
#include "observe/observer.h"

#include "clock.h"
#include "core/server.h"
#include "observe/watched_gates.h"
#include "request/totals.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    OBSERVER_SHARE = 9, /* ratio of idle time to working time */
    OBSERVER_REST = 5   /* maximum idle time, in seconds */
};

#define OBSERVER_NAME(NAME, name) #name,
static const char *const observer_filter_names[] = { OBSERVER_FILTER(OBSERVER_NAME)
                                                         NULL };
static const char *const observer_service_names[] = { OBSERVER_SERVICE(OBSERVER_NAME)
                                                          NULL };
#undef OBSERVER_NAME

#define OBSERVER_ENUM(NAME, name) FILTER_##NAME,
enum { OBSERVER_FILTER(OBSERVER_ENUM) FILTER_METRICS };
#undef OBSERVER_ENUM
#define OBSERVER_ENUM(NAME, name) SERVICE_##NAME,
enum { OBSERVER_SERVICE(OBSERVER_ENUM) SERVICE_METRICS };
#undef OBSERVER_ENUM

enum { WATCHED_FIRST = 64 };

/* The statistics for one filter, kept in an array sorted by filter number and freed after the
 * filter is dropped. */
struct watched {
    uint64_t number;
    bool seen; /* visited in the current step */
    struct figures figures;
    uint64_t examined_adds;      /* number of adds when the filter was last examined */
    struct observer_totals last; /* counters at the last step */
    /* number of false positives that clients had reported by the last step */
    uint64_t last_wasted;
    bool has_last;
    struct history *history; /* or NULL */
};

/* The catalog charges this memory at creation. The observer allocates it up to a second later, when
 * exceeding the limit could no longer be refused. The array is up to a quarter larger than needed. */
_Static_assert(sizeof(struct watched) * 5 / 4 <= CATALOG_WATCHED,
               "the catalog counts too little memory for the observer");

/* Total counts for all filters and connections. */
struct observer_sums {
    struct observer_totals slots;
    struct server_totals workers;
};

struct observer {
    struct server *server;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool started, ending;
    struct watched *watched; /* sorted by number */
    size_t count, room;
    size_t kept; /* number of filters with a history */
    struct watched_gates gates;
    struct history *service;
    struct observer_sums now, before; /* `now` is valid during a step */
    bool has_before;
};

const char *observer_filter_metric(size_t i)
{
    return i < FILTER_METRICS ? observer_filter_names[i] : NULL;
}

const char *observer_service_metric(size_t i)
{
    return i < SERVICE_METRICS ? observer_service_names[i] : NULL;
}

/* ---- Filters by number; the caller holds the lock ------------------------------------------- */

static size_t watched_at(const struct observer *o, uint64_t number)
{
    size_t low = 0, high = o->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (o->watched[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct watched *watched_find(const struct observer *o, uint64_t number)
{
    const size_t at = watched_at(o, number);
    return at < o->count && o->watched[at].number == number ? &o->watched[at] : NULL;
}

/* Returns a copy of an entry's statistics, or zeros if there are none. Takes the lock itself. */
static struct watched watched_copy(struct observer *o, const struct entry *entry)
{
    pthread_mutex_lock(&o->lock);
    const struct watched *w = watched_find(o, entry->number);
    const struct watched copy = w ? *w : (struct watched){ .number = 0 };
    pthread_mutex_unlock(&o->lock);
    return copy;
}

/* Returns the size of the array for this many filters. */
static size_t watched_room(size_t count)
{
    return count + count / 4 + WATCHED_FIRST;
}

static bool watched_resize(struct observer *o, size_t room)
{
    struct watched *resized = realloc(o->watched, room * sizeof *resized);
    if (!resized) {
        return false;
    }
    o->watched = resized;
    o->room = room;
    return true;
}

static struct watched *watched_get(struct observer *o, uint64_t number)
{
    const size_t at = watched_at(o, number);
    if (at < o->count && o->watched[at].number == number) {
        return &o->watched[at];
    }
    if (o->count == o->room && !watched_resize(o, watched_room(o->count))) {
        return NULL;
    }
    memmove(o->watched + at + 1, o->watched + at, (o->count - at) * sizeof *o->watched);
    o->count++;
    o->watched[at] = (struct watched){ .number = number };
    return &o->watched[at];
}

/* Frees the statistics of filters that the last step did not visit. */
static void watched_forget(struct observer *o)
{
    size_t left = 0;
    for (size_t i = 0; i < o->count; i++) {
        if (o->watched[i].seen) {
            o->watched[i].seen = false;
            o->watched[left++] = o->watched[i];
        } else if (o->watched[i].history) {
            history_free(o->watched[i].history);
            o->kept--;
        }
    }
    o->count = left;
    if (watched_room(left) < o->room / 2) { /* many filters have been dropped */
        (void)watched_resize(o, watched_room(left));
    }
}

/* ---- Counters, every step ---------------------------------------------------------------------- */

static double observer_rate(uint64_t now, uint64_t before)
{
    return now >= before ? (double)(now - before) / HISTORY_STEP : (double)NAN;
}

/* Computes the false-positive rate for the chart from client reports (BG.OBSERVE). */
static void observer_observed(const struct object *object, const bg_slot_info *now,
                              double values[])
{
    const uint64_t absent = atomic_load(&object->said_absent);
    if (absent + atomic_load(&object->said_present) > 0) {
        const bg_estimate rate =
            bg_observed_rate(absent, absent + now->queries - now->maybes);
        values[FILTER_OBSERVED] = rate.value;
        values[FILTER_OBSERVED_LOW] = rate.low;
        values[FILTER_OBSERVED_HIGH] = rate.high;
    }
}

static void observer_filter_point(const struct watched *w, const struct object *object,
                                  const bg_slot_info *now,
                                  double values[FILTER_METRICS])
{
    const struct observer_totals *before = &w->last;
    for (size_t i = 0; i < FILTER_METRICS; i++) {
        values[i] = (double)NAN;
    }
    if (w->has_last) {
        values[FILTER_QUERIES] = observer_rate(now->queries, before->queries);
        values[FILTER_MAYBES] = observer_rate(now->maybes, before->maybes);
        values[FILTER_ADDS] = observer_rate(now->adds, before->adds);
        values[FILTER_REFUSED] = observer_rate(now->refused, before->refused);
        values[FILTER_AVOIDED] =
            observer_rate(now->queries - now->maybes, before->queries - before->maybes);
        values[FILTER_WASTED] =
            observer_rate(atomic_load(&object->said_absent), w->last_wasted);
    }
    if (w->figures.examined) {
        values[FILTER_ITEMS] = w->figures.health.items.value;
        values[FILTER_FILL] = w->figures.health.fill;
        values[FILTER_PREDICTED] = w->figures.health.rate;
        values[FILTER_MEASURED] = w->figures.health.measured.value;
    }
    observer_observed(object, now, values);
    values[FILTER_BYTES] = (double)object_bytes(object);
}

/* Adds the increases in a filter's counters since the last step. */
static void observer_count(struct observer_totals *totals, const struct watched *w,
                           const bg_slot_info *now)
{
    const struct observer_totals *before = &w->last; /* zeros at first */
#define OBSERVER_COUNT(name)                                                           \
    totals->name += now->name > before->name ? now->name - before->name : 0
    OBSERVER_COUNT(queries);
    OBSERVER_COUNT(maybes);
    OBSERVER_COUNT(adds);
    OBSERVER_COUNT(news);
    OBSERVER_COUNT(refused);
#undef OBSERVER_COUNT
}

static void observer_note(struct observer *o, const struct entry *entry,
                          uint64_t seconds)
{
    bg_slot_info stats;
    double values[FILTER_METRICS];
    object_about(entry->object, &stats);
    struct watched *w = watched_get(o, entry->number);
    if (!w) {
        return;
    }
    w->seen = true;
    observer_count(&o->now.slots, w, &stats);
    if (w->history) {
        observer_filter_point(w, entry->object, &stats, values);
        history_add(w->history, seconds, values);
    }
    w->last = (struct observer_totals){ stats.queries, stats.maybes, stats.adds,
                                        stats.news, stats.refused };
    w->last_wasted = atomic_load(&entry->object->said_absent);
    w->has_last = true;
}

uint64_t observer_rss(void)
{
    char text[128] = "", *second = NULL;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file) {
        if (fgets(text, sizeof text, file)) {
            /* the first two fields are the total and resident page counts */
            second = strchr(text, ' ');
        }
        (void)fclose(file);
    }
    return second ? strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void observer_service_point(struct observer *o, uint64_t seconds)
{
    const struct observer_sums *now = &o->now, *before = &o->before;
    double values[SERVICE_METRICS];
    for (size_t i = 0; i < SERVICE_METRICS; i++) {
        values[i] = (double)NAN;
    }
    if (o->has_before) {
#define SERVICE_RATE(NAME, field)                                                      \
    values[SERVICE_##NAME] = observer_rate(now->field, before->field)
        SERVICE_RATE(QUERIES, slots.queries);
        SERVICE_RATE(MAYBES, slots.maybes);
        SERVICE_RATE(ADDS, slots.adds);
        SERVICE_RATE(REFUSED, slots.refused);
        SERVICE_RATE(RECEIVED, workers.bytes_in);
        SERVICE_RATE(SENT, workers.bytes_out);
#undef SERVICE_RATE
        values[SERVICE_COMMANDS] =
            observer_rate(now->workers.requests + now->workers.http_requests,
                          before->workers.requests + before->workers.http_requests);
    }
    values[SERVICE_CONNECTIONS] = (double)atomic_load(&o->server->clients);
    values[SERVICE_FILTER_BYTES] = (double)catalog_bytes(o->server->catalog);
    values[SERVICE_RSS] = (double)observer_rss();
    history_add(o->service, seconds, values);
    o->before = o->now;
    o->has_before = true;
}

static void observer_user(void *context, const struct user *user,
                          const char *const *words, size_t n)
{
    (void)context;
    (void)words;
    (void)n;
    user_step(user, HISTORY_STEP);
}

/* The context of observer_note_gate. */
struct observer_gate_step {
    struct observer *observer;
    uint64_t seconds;
};

static void observer_note_gate(void *context, const struct gate_about *about)
{
    const struct observer_gate_step *step = context;
    pthread_mutex_lock(&step->observer->lock);
    watched_gate_step(&step->observer->gates, about, step->seconds);
    pthread_mutex_unlock(&step->observer->lock);
}

/* Collects all counters. Releases the lock after every 64 entries. */
static void observer_step(struct observer *o)
{
    struct entry *some[64];
    uint64_t after = 0;
    size_t n = 0;
    const uint64_t seconds = clock_now() / 1000;
    while ((n = catalog_scan(o->server->catalog, after, some, 64)) > 0) {
        after = some[n - 1]->number;
        pthread_mutex_lock(&o->lock);
        for (size_t i = 0; i < n; i++) {
            observer_note(o, some[i], seconds);
            catalog_release(some[i]);
        }
        pthread_mutex_unlock(&o->lock);
    }
    users_each(o->server->users, observer_user, NULL);
    if (o->server->gates) {
        gates_each(o->server->gates, observer_note_gate,
                   &(struct observer_gate_step){ o, seconds });
    }
    pthread_mutex_lock(&o->lock);
    watched_forget(o);
    server_count_totals(o->server, &o->now.workers);
    observer_service_point(o, seconds);
    pthread_mutex_unlock(&o->lock);
}

/* ---- Examining --------------------------------------------------------------------------------- */

static double observer_seconds(void)
{
    return (double)clock_nanoseconds() / 1e9;
}

/* Reads a slot. Sets *changes to the slot's change count just before the read. Returns false if the
 * slot cannot be read. */
static bool observer_read(const bg_slot *slot, struct figures *figures,
                          uint64_t *changes)
{
    const double began = observer_seconds();
    bg_slot_info stats = { .struct_size = sizeof stats };
    bg_pin pin;
    *figures = (struct figures){ .health = { .struct_size = sizeof figures->health },
                                 .base = { .struct_size = sizeof figures->base } };
    if (!slot || bg_slot_get_info(slot, &stats)
        || bg_slot_get_health(slot, &figures->health)) {
        return false;
    }
    bg_slot_pin(slot, &pin);
    const bg_filter *base = object_base(&pin);
    figures->has_base = base && bg_filter_get_info(base, &figures->base) == BG_OK;
    bg_slot_unpin(slot, &pin);
    *changes = stats.adds + stats.swaps;
    figures->examined = clock_now();
    figures->seconds = observer_seconds() - began;
    return true;
}

struct figures observer_examine(struct observer *o, struct entry *entry)
{
    struct figures figures;
    uint64_t changes = 0;
    if (!observer_read(entry->object->slot, &figures, &changes)) {
        return figures;
    }
    if (object_grows(entry->object) || entry->object->shape.kind == BG_KIND_WINDOW) {
        figures.health.capacity = 0; /* not a limit: the filter grows or forgets keys */
    }
    if (!figures.has_base) { /* its rate is 1, whatever its target */
        figures.health.rate_health = BG_HEALTH_ACT;
    }
    pthread_mutex_lock(&o->lock);
    struct watched *w = watched_get(o, entry->number);
    if (w) {
        w->seen = true;
        w->figures = figures;
        w->examined_adds = changes;
    }
    pthread_mutex_unlock(&o->lock);
    return figures;
}

/* Returns whether keys have been added or the base has been replaced since the last examination. */
static bool observer_is_stale(struct observer *o, const struct entry *entry)
{
    bg_slot_info stats = { .struct_size = sizeof stats };
    if (!entry->object->slot || bg_slot_get_info(entry->object->slot, &stats)) {
        return false;
    }
    const struct watched w = watched_copy(o, entry);
    return !w.figures.examined || w.examined_adds != stats.adds + stats.swaps;
}

void observer_refresh(struct observer *o, struct entry *entry)
{
    if (object_bytes(entry->object) <= OBSERVER_SMALL && observer_is_stale(o, entry)) {
        (void)observer_examine(o, entry);
    }
}

/* ---- Gates ------------------------------------------------------------------------------------- */

static void observer_examine_gate(void *context, const struct gate_about *about)
{
    struct observer *o = context;
    struct figures figures;
    bg_slot_info stats = { .struct_size = sizeof stats };
    uint64_t changes = 0;
    if (bg_slot_get_info(about->slot, &stats)) {
        return;
    }
    pthread_mutex_lock(&o->lock);
    const struct watched_gate *known = watched_gate_find(&o->gates, about->name);
    const bool stale = !known || known->examined_adds != stats.adds + stats.swaps;
    pthread_mutex_unlock(&o->lock);
    if (!stale || !observer_read(about->slot, &figures, &changes)) {
        return;
    }
    if (figures.has_base && figures.base.kind == BG_KIND_SCALABLE) {
        figures.health.capacity = 0; /* not a limit */
    }
    pthread_mutex_lock(&o->lock);
    struct watched_gate *gate = watched_gate_get(&o->gates, about->name);
    if (gate) {
        gate->figures = figures;
        gate->examined_adds = changes;
    }
    pthread_mutex_unlock(&o->lock);
}

/* ---- The thread -------------------------------------------------------------------------------- */

/* Waits for the given time. Returns false if the observer is stopping. */
static bool observer_rest(struct observer *o, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const uint64_t nanoseconds = (uint64_t)until.tv_nsec + (uint64_t)(seconds * 1e9);
    until.tv_sec += (time_t)(nanoseconds / 1000000000);
    until.tv_nsec = (long)(nanoseconds % 1000000000);
    pthread_mutex_lock(&o->lock);
    while (!o->ending && pthread_cond_timedwait(&o->wake, &o->lock, &until) == 0) {
        /* woken by observer_free or spuriously */
    }
    const bool goes_on = !o->ending;
    pthread_mutex_unlock(&o->lock);
    return goes_on;
}

/* Examines the filter with the lowest number above *after, if the filter has changed. Returns how
 * long to stay idle afterwards, in seconds. A filter that is dropped during the examination is not
 * freed until the examination ends. */
static double observer_look(struct observer *o, uint64_t *after)
{
    struct entry *entry = NULL;
    double rest = 0;
    /* If there are no more filters, the round is complete. */
    if (catalog_scan(o->server->catalog, *after, &entry, 1) == 0) {
        *after = 0;
        if (o->server->gates) {
            gates_each(o->server->gates, observer_examine_gate, o);
        }
        return OBSERVER_INTERVAL;
    }
    *after = entry->number;
    if (observer_is_stale(o, entry)) {
        rest = observer_examine(o, entry).seconds * OBSERVER_SHARE;
    }
    catalog_release(entry);
    return rest < OBSERVER_REST ? rest : OBSERVER_REST;
}

static void *observer_work(void *context)
{
    struct observer *o = context;
    uint64_t after = 0, next_step = 0, next_look = 0;
    bool goes_on = true;
    while (goes_on) {
        const uint64_t now = clock_ticks();
        double rest = 0;
        if (now >= next_step) {
            observer_step(o);
            next_step = now + HISTORY_STEP * 1000;
        }
        if (now >= next_look) {
            rest = observer_look(o, &after);
            next_look = clock_ticks() + (uint64_t)(rest * 1000);
        } else {
            rest = (double)(next_look - now) / 1000;
        }
        /* Wake up in time for the next step, even if the next examination is due later. */
        const double step = next_step > now ? (double)(next_step - now) / 1000 : 0;
        goes_on = observer_rest(o, rest < step ? rest : step);
    }
    return NULL;
}

/* ---- Interface --------------------------------------------------------------------------- */

struct figures observer_figures(struct observer *o, const struct entry *entry)
{
    return watched_copy(o, entry).figures;
}

struct figures observer_gate_figures(struct observer *o, const char *gate)
{
    struct figures figures = { .examined = 0 };
    pthread_mutex_lock(&o->lock);
    const struct watched_gate *found = watched_gate_find(&o->gates, gate);
    if (found) {
        figures = found->figures;
    }
    pthread_mutex_unlock(&o->lock);
    return figures;
}

struct observer_totals observer_totals(struct observer *o)
{
    pthread_mutex_lock(&o->lock);
    /* The totals as of the last complete step. */
    const struct observer_totals totals = o->before.slots;
    pthread_mutex_unlock(&o->lock);
    return totals;
}

static struct history *observer_history_of(struct observer *o,
                                           const struct entry *entry)
{
    if (!entry) {
        return o->service;
    }
    struct watched *w = watched_get(o, entry->number);
    if (w && !w->history && o->kept < OBSERVER_KEPT) {
        w->seen = true;
        w->history = history_create(FILTER_METRICS);
        o->kept += w->history != NULL;
        return NULL; /* starts now */
    }
    return w ? w->history : NULL;
}

/* Copies a range of a history, which may be NULL. The caller holds the lock. */
static bool observer_copy(const struct history *history, uint64_t seconds,
                          const size_t *metrics, size_t n, struct history_range *range,
                          double **values)
{
    *range = (struct history_range){ .from = 0, .step = HISTORY_STEP, .points = 0 };
    *values = NULL;
    if (history) {
        *range = history_range(history, seconds);
        *values = calloc(range->points * n + 1, sizeof **values);
        for (size_t i = 0; *values && i < n; i++) {
            history_read(history, range, metrics[i], *values + i * range->points);
        }
    }
    return history != NULL;
}

bool observer_history(struct observer *o, const struct entry *entry, uint64_t seconds,
                      const size_t *metrics, size_t n, struct history_range *range,
                      double **values)
{
    pthread_mutex_lock(&o->lock);
    const bool room = o->kept < OBSERVER_KEPT;
    const bool kept = observer_copy(observer_history_of(o, entry), seconds, metrics, n,
                                    range, values);
    pthread_mutex_unlock(&o->lock);
    return kept || room; /* if there is room, recording has started now */
}

bool observer_gate_history(struct observer *o, const char *gate, uint64_t seconds,
                           const size_t *metrics, size_t n, struct history_range *range,
                           double **values)
{
    pthread_mutex_lock(&o->lock);
    const struct watched_gate *found = watched_gate_find(&o->gates, gate);
    const bool kept = observer_copy(found ? found->history : NULL, seconds, metrics, n,
                                    range, values);
    pthread_mutex_unlock(&o->lock);
    return kept;
}

/* ---- Life cycle -------------------------------------------------------------------------- */

struct observer *observer_create(struct server *server)
{
    struct observer *o = calloc(1, sizeof *o);
    if (o) {
        o->server = server;
        pthread_mutex_init(&o->lock, NULL);
        /* the monotonic clock is not affected by changes to the system time */
        pthread_condattr_t steady;
        (void)pthread_condattr_init(&steady);
        (void)pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&o->wake, &steady);
        (void)pthread_condattr_destroy(&steady);
        o->service = history_create(SERVICE_METRICS);
    }
    if (o && !o->service) {
        observer_free(o);
        return NULL;
    }
    return o;
}

bool observer_start(struct observer *o)
{
    o->started = pthread_create(&o->thread, NULL, observer_work, o) == 0;
    return o->started;
}

void observer_free(struct observer *o)
{
    if (!o) {
        return;
    }
    if (o->started) {
        pthread_mutex_lock(&o->lock);
        o->ending = true;
        pthread_cond_broadcast(&o->wake);
        pthread_mutex_unlock(&o->lock);
        pthread_join(o->thread, NULL);
    }
    for (size_t i = 0; i < o->count; i++) {
        history_free(o->watched[i].history);
    }
    free(o->watched);
    watched_gates_free(&o->gates);
    history_free(o->service);
    pthread_mutex_destroy(&o->lock);
    pthread_cond_destroy(&o->wake);
    free(o);
}
