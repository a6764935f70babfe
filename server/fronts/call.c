/*
 * fronts/call.c - forwards items to the cluster, and returns and counts the results.
 *
 * Nothing is sent to shards that are down, no adds are sent to shards that accept no adds, and no lookups are
 * sent to incomplete shards. A shard that does not answer for all of the items sent to it is marked as down
 * or as not accepting adds.
 */
#include "clock.h"
#include "fronts/front.h"
#include "util/log.h"

#include <stdlib.h>
#include <string.h>

const double front_limits[FRONT_LIMITS] = { 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02,
                                            0.05,   0.1,   0.25,  0.5,   1,    2.5 };
const char *const front_state_names[FRONT_STATES] = { "up", "refusing", "missing",
                                                      "down", "incomplete" };

/* ---- The pool ----------------------------------------------------------------------------------- */

void front_client_free(struct front_client *client)
{
    if (client) {
        sharded_close(&client->filter);
        cluster_close(client->cluster);
        free(client);
    }
}

void front_clients_free(struct front_client *list)
{
    while (list) {
        struct front_client *next = list->next;
        front_client_free(list);
        list = next;
    }
}

struct front_client *front_open(struct front *front, uint32_t patience,
                                bg_errinfo *info)
{
    struct front_client *client = calloc(1, sizeof *client);
    struct cluster_options options = front->options;
    options.patience = patience < options.patience ? patience : options.patience;
    if (!client) {
        (void)error_fail(info, BG_ENOMEM, "out of memory");
        return NULL;
    }
    if (cluster_open(&options, &client->cluster, info)
        || sharded_open(client->cluster, front->settings.name, front->shards,
                        &client->filter, info)) {
        front_client_free(client);
        return NULL;
    }
    client->filter.witnessed = front->witnessed;
    return client;
}

static struct front_client *front_take(struct front *front, bg_errinfo *info)
{
    pthread_mutex_lock(&front->lock);
    struct front_client *client = front->idle;
    if (client) {
        front->idle = client->next;
    }
    pthread_mutex_unlock(&front->lock);
    return client ? client : front_open(front, front->options.patience, info);
}

static void front_give_back(struct front *front, struct front_client *client)
{
    pthread_mutex_lock(&front->lock);
    client->next = front->idle;
    front->idle = client;
    pthread_mutex_unlock(&front->lock);
}

/* ---- Shards ------------------------------------------------------------------------------------- */

/* Logs the start and the end of a condition that affects shards. *said records whether the start
 * has been logged. */
static void front_say(const struct front *front, uint32_t shards, bool *said,
                      const char *what, const char *over, const char *why)
{
    const bg_bytes name = { front->settings.name, front->name_len };
    if (shards && !*said) {
        log_event(LOG_EVENT_SOURCE, name, "%u of %u shards %s: %s", shards,
                  front->shards, what, why);
    } else if (!shards && *said) {
        log_recovery(LOG_EVENT_SOURCE, name, "all shards %s again", over);
    }
    *said = shards > 0;
}

void front_mark(struct front *front, const uint8_t *states, const char *why)
{
    struct front_client *idle = NULL;
    uint32_t down = 0, up = 0, no_adds = 0, incomplete = 0;
    pthread_mutex_lock(&front->lock);
    for (uint32_t i = 0; i < front->shards; i++) {
        if (states[i] != FRONT_STATES) {
            atomic_store(&front->shard[i].state, states[i]);
        }
        const uint8_t state = atomic_load(&front->shard[i].state);
        down += state == FRONT_DOWN;
        up += state == FRONT_UP;
        incomplete += state == FRONT_INCOMPLETE;
        no_adds += atomic_load(&front->shard[i].no_adds);
    }
    const bool fine = up == front->shards && !no_adds;
    if (fine || *why) {
        (void)snprintf(front->wrong, sizeof front->wrong, "%s", fine ? "" : why);
    }
    front_say(front, down, &front->said_down, "are not answering", "are answering",
              why);
    front_say(front, no_adds, &front->said_no_adds, "accept no adds", "accept adds",
              why);
    front_say(front, incomplete, &front->said_incomplete, "may have lost keys",
              "are complete", why);
    if (down) { /* idle clients may have an outdated password or cluster map */
        idle = front->idle;
        front->idle = NULL;
    }
    pthread_mutex_unlock(&front->lock);
    front_clients_free(idle);
}

/* Returns whether a shard's items are answered without being sent to the shard. */
static bool front_rests(const struct front *front, uint16_t shard, bool adds)
{
    const uint8_t state = atomic_load(&front->shard[shard].state);
    return state == FRONT_DOWN
           || (adds ? atomic_load(&front->shard[shard].no_adds)
                    : state == FRONT_INCOMPLETE);
}

/* ---- Calls -------------------------------------------------------------------------------------- */

/* The items of a request that are sent to the cluster, with their results. */
struct front_sent {
    uint16_t *shards; /* shard of each item of the request */
    size_t *which;    /* indices of the items that are sent */
    bg_bytes *items;
    uint64_t *done, *answers;
    size_t n;
    bool lost[SHARDS_MAX];    /* shards that did not answer for all of their items */
    bool doubted[SHARDS_MAX]; /* shards that may have lost keys */
};

static bool front_choose(struct front *front, const struct front_work *work,
                         struct front_sent *sent)
{
    const size_t n = work->n, words = BG_BITMAP_WORDS(n);
    sent->shards = malloc(n * sizeof *sent->shards);
    sent->which = malloc(n * sizeof *sent->which);
    sent->items = malloc(n * sizeof *sent->items);
    sent->done = calloc(2 * words, sizeof *sent->done);
    if (!sent->shards || !sent->which || !sent->items || !sent->done) {
        return false;
    }
    sent->answers = sent->done + words;
    shard_route(work->items, n, front->shards, sent->shards);
    for (size_t i = 0; i < n; i++) {
        if (!front_rests(front, sent->shards[i], work->adds)) {
            sent->which[sent->n] = i;
            sent->items[sent->n++] = work->items[i];
        }
    }
    return true;
}

/* Sends the items, and records in `sent` which shards did not answer. */
static bg_err front_send(struct front *front, const struct front_work *work,
                         struct front_sent *sent, bg_errinfo *info)
{
    struct front_client *client = front_take(front, info);
    if (!client) {
        for (size_t i = 0; i < sent->n; i++) {
            sent->lost[sent->shards[sent->which[i]]] = true;
        }
        return info->code;
    }
    const bg_err err = work->adds ? sharded_add(&client->filter, sent->items, sent->n,
                                                sent->done, sent->answers, info)
                                  : sharded_ask(&client->filter, sent->items, sent->n,
                                                sent->done, sent->answers, info);
    memcpy(sent->lost, client->filter.lost, sizeof sent->lost);
    if (!work->adds) {
        memcpy(sent->doubted, client->filter.doubted, sizeof sent->doubted);
    }
    if (memchr(sent->lost, true, sizeof sent->lost)
        || memchr(sent->doubted, true, sizeof sent->doubted)) {
        /* The next client reloads the password and the cluster map. */
        front_client_free(client);
    } else {
        front_give_back(front, client);
    }
    return err;
}

/* Marks the shards that did not answer. A shard that did not answer an add is marked only as not accepting adds,
 * because it may be missing replicas but still answer lookups. */
static void front_blame(struct front *front, const struct front_sent *sent, bool adds,
                        const bg_errinfo *info)
{
    uint8_t states[SHARDS_MAX];
    bool some = false;
    memset(states, FRONT_STATES, sizeof states);
    for (uint32_t i = 0; i < front->shards; i++) {
        some = some || sent->lost[i] || sent->doubted[i];
        if (sent->lost[i] && adds) {
            atomic_store(&front->shard[i].no_adds, true);
        } else if (sent->lost[i] || sent->doubted[i]) {
            states[i] = sent->lost[i] ? FRONT_DOWN : FRONT_INCOMPLETE;
        }
    }
    if (some) {
        front_mark(front, states, info->message);
    }
}

/* Copies the results to their items, and counts the results. */
static void front_settle(struct front *front, struct front_work *work,
                         const struct front_sent *sent)
{
    uint64_t asked[FRONT_ASKED] = { 0 }, added[FRONT_ADDED] = { 0 };
    asked[FRONT_UNREACHED] = added[FRONT_ADD_REFUSED] = work->n - sent->n;
    work->unreached = sent->n < work->n;
    for (size_t i = 0; i < sent->n; i++) {
        const size_t to = sent->which[i];
        const bool done = sent->done[i / 64] >> i % 64 & 1;
        const bool yes = sent->answers[i / 64] >> i % 64 & 1;
        const bool lost =
            !done && (sent->lost[sent->shards[to]] || sent->doubted[sent->shards[to]]);
        work->done[to / 64] |= (uint64_t)done << to % 64;
        work->answers[to / 64] |= (uint64_t)(done && yes) << to % 64;
        work->unreached = work->unreached || lost;
        asked[lost    ? FRONT_UNREACHED
              : !done ? FRONT_ASK_REFUSED
              : yes   ? FRONT_MAYBE
                      : FRONT_NO]++;
        added[lost    ? FRONT_UNKNOWN
              : !done ? FRONT_ADD_REFUSED
              : yes   ? FRONT_NEW
                      : FRONT_OLD]++;
    }
    for (size_t i = 0; work->adds && i < FRONT_ADDED; i++) {
        atomic_fetch_add(&front->added[i], added[i]);
    }
    for (size_t i = 0; !work->adds && i < FRONT_ASKED; i++) {
        atomic_fetch_add(&front->asked[i], asked[i]);
    }
}

static void front_time(struct front *front, bool adds, uint64_t nanoseconds)
{
    struct front_timing *timing = &front->timing[adds];
    size_t i = 0;
    while (i < FRONT_LIMITS && (double)nanoseconds > 1e9 * front_limits[i]) {
        i++;
    }
    atomic_fetch_add(&timing->counts[i], 1);
    atomic_fetch_add(&timing->nanoseconds, nanoseconds);
}

/* Reports why some items were not sent. */
static bg_err front_kept(struct front *front, bg_errinfo *info)
{
    char wrong[sizeof front->wrong];
    pthread_mutex_lock(&front->lock);
    memcpy(wrong, front->wrong, sizeof wrong);
    pthread_mutex_unlock(&front->lock);
    return error_fail(info, BG_EIO, "%s",
                      *wrong ? wrong
                             : "a shard is down; the service retries it every second");
}

/* Sets the answers of all unanswered items to "maybe". */
static void front_doubt(struct front_work *work)
{
    for (size_t i = 0; i < work->n; i++) {
        work->answers[i / 64] |= (~work->done[i / 64] >> i % 64 & 1) << i % 64;
    }
}

bg_err front_call(struct front *front, struct front_work *work)
{
    const uint64_t began = clock_nanoseconds();
    struct front_sent sent = { .n = 0 };
    bg_err err = BG_OK;
    if (front_choose(front, work, &sent)) {
        err = sent.n ? front_send(front, work, &sent, &work->info) : BG_OK;
        if (err != BG_ECANCELED) {
            front_blame(front, &sent, work->adds, &work->info);
        }
        front_settle(front, work, &sent);
        if (!err && sent.n < work->n) {
            err = front_kept(front, &work->info);
        }
    } else {
        err = error_fail(&work->info, BG_ENOMEM, "out of memory");
    }
    free(sent.shards);
    free(sent.which);
    free(sent.items);
    free(sent.done);
    front_time(front, work->adds, clock_nanoseconds() - began);
    if (!work->adds) {
        front_doubt(work);
        err = err == BG_ENOTFOUND || front->settings.closed ? err : BG_OK;
    }
    return err == BG_ECANCELED || err == BG_EINVAL ? BG_EIO : err;
}

/* ---- Statistics --------------------------------------------------------------------------------- */

static void front_about_shards(struct front *front, struct front_facts *facts)
{
    for (uint32_t i = 0; i < front->shards; i++) {
        const uint8_t state = atomic_load(&front->shard[i].state);
        facts->states[state]++;
        facts->no_adds += state == FRONT_UP && atomic_load(&front->shard[i].no_adds);
    }
    facts->state = facts->states[FRONT_DOWN] == front->shards ? "down"
                   : !atomic_load(&front->watched)            ? "starting"
                   : facts->states[FRONT_UP] == front->shards ? "up"
                                                              : "partly";
}

void front_about(struct front *front, struct front_facts *f)
{
    const struct cluster_tally *tally = &front->tally;
    const int64_t told = atomic_load(&tally->told);
    *f = (struct front_facts){ .name = front->settings.name,
                               .shards = front->shards,
                               .nodes = atomic_load(&front->nodes),
                               .reached = atomic_load(&front->reached),
                               .map_age =
                                   told ? (double)(cluster_now() - told) / 1e3 : -1,
                               .commands = atomic_load(&tally->requests),
                               .repeated = atomic_load(&tally->repeated),
                               .moved = atomic_load(&tally->moved),
                               .ask = atomic_load(&tally->asked),
                               .tryagain = atomic_load(&tally->tryagain),
                               .clusterdown = atomic_load(&tally->clusterdown),
                               .passing = atomic_load(&tally->passing),
                               .unopened = atomic_load(&tally->unopened),
                               .broken = atomic_load(&tally->broken) };
    front_about_shards(front, f);
    for (size_t i = 0; i < FRONT_ASKED; i++) {
        f->asked[i] = atomic_load(&front->asked[i]);
    }
    for (size_t i = 0; i < FRONT_ADDED; i++) {
        f->added[i] = atomic_load(&front->added[i]);
    }
    for (size_t kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i <= FRONT_LIMITS; i++) {
            f->times[kind].counts[i] = atomic_load(&front->timing[kind].counts[i]);
        }
        f->times[kind].seconds =
            (double)atomic_load(&front->timing[kind].nanoseconds) / 1e9;
    }
    pthread_mutex_lock(&front->lock);
    memcpy(f->wrong, front->wrong, sizeof f->wrong);
    pthread_mutex_unlock(&front->lock);
}
