/*
 * fronts/watch.c - the thread that queries all shards of a front once a second.
 *
 * Each round first checks that all nodes with slots respond, and refreshes the cluster map if it is more than a few
 * seconds old. Then it sends a lookup for an empty item to every shard. This lookup takes the same path as client
 * lookups, so it gets the result that clients would get. Finally, the round reads the witness of every shard
 * (shard_witness.h), and updates the witnesses that do not list all running server processes. The watch uses a
 * cluster client that stops retrying after a short time. After a failure, the watch opens a new client, which
 * reads the password and certificate files again.
 */
#include "fronts/front.h"

#include <poll.h>
#include <string.h>

enum {
    WATCH_PATIENCE = 300, /* retry limit, in milliseconds */
    WATCH_MAP = 10000     /* maximum age of the cluster map, in milliseconds */
};

struct watch_round {
    uint8_t states[SHARDS_MAX];
    char why[BG_ERR_MESSAGE_MAX];
};

static void watch_told(void *context, uint32_t shard, bg_bytes reply)
{
    struct watch_round *round = context;
    size_t at = 0;
    const struct reply_item item = reply_next(reply, &at);
    if (item.type != '-') {
        round->states[shard] = FRONT_UP;
        return;
    }
    round->states[shard] =
        reply_begins(item.text, "NOFILTER") ? FRONT_MISSING : FRONT_REFUSING;
    (void)snprintf(round->why, sizeof round->why, "shard %u: %.*s", shard,
                   (int)(item.text.len < 200 ? item.text.len : 200),
                   (const char *)item.text.data);
}

/* Queries all shards. If `write` is set, replicas must acknowledge a write as well. Marks shards as
 * FRONT_DOWN if they do not answer. */
static bg_err watch_ask(struct front_client *client, bool write,
                        struct watch_round *round, bg_errinfo *info)
{
    const bg_bytes words[] = { { "BG.MEXISTS", 10 }, { "", 0 } };
    const struct sharded_order order = {
        .words = words, .count = 2, .write = write, .told = watch_told, .context = round
    };
    memset(round->states, FRONT_DOWN, sizeof round->states);
    round->why[0] = 0;
    const bg_err err = sharded_each(&client->filter, &order, info);
    if (err) {
        (void)snprintf(round->why, sizeof round->why, "%s", info->message);
    }
    return err;
}

/* Checks whether shards that answer lookups but have refused adds accept adds again. */
static void watch_adds(struct front *front, struct front_client *client,
                       const struct watch_round *round)
{
    struct watch_round again;
    bg_errinfo info = { 0 };
    bool some = false;
    for (uint32_t i = 0; i < front->shards; i++) {
        some = some
               || (round->states[i] != FRONT_DOWN
                   && atomic_load(&front->shard[i].no_adds));
    }
    if (!some || watch_ask(client, true, &again, &info) == BG_ECANCELED) {
        return;
    }
    for (uint32_t i = 0; i < front->shards; i++) {
        if (again.states[i] != FRONT_DOWN) {
            atomic_store(&front->shard[i].no_adds, false);
        }
    }
}

/* Marks shards that answer but may have lost keys as incomplete. */
static bg_err watch_witnesses(struct front *front, struct front_client *client,
                              const struct cluster_view *view,
                              struct watch_round *round, bg_errinfo *info)
{
    char why[WITNESS_WHY];
    const bg_err err = sharded_vouch(&client->filter, view, false, why, info);
    for (uint32_t i = 0; i < front->shards; i++) {
        if (round->states[i] == FRONT_UP && client->filter.lost[i]) {
            round->states[i] = FRONT_DOWN;
        } else if (round->states[i] == FRONT_UP && client->filter.doubted[i]) {
            round->states[i] = FRONT_INCOMPLETE;
        }
    }
    if (!*round->why && (err || *why)) {
        (void)snprintf(round->why, sizeof round->why, "%s",
                       *why   ? why
                       : info ? info->message
                              : "");
    }
    return err;
}

static bg_err watch_look(struct front *front, struct front_client *client,
                         struct watch_round *round, bg_errinfo *info)
{
    struct cluster_view view;
    bg_err err = cluster_survey(client->cluster, WATCH_MAP, &view, info);
    atomic_store(&front->nodes, (uint32_t)view.nodes);
    atomic_store(&front->reached, (uint32_t)view.reached);
    err = err ? err : watch_ask(client, false, round, info);
    if (err == BG_OK || err == BG_EIO) { /* check the shards that have answered */
        const bg_err found =
            watch_witnesses(front, client, &view, round, err ? NULL : info);
        err = err && found != BG_ECANCELED ? err : found;
    }
    if (err != BG_ECANCELED) {
        watch_adds(front, client, round);
    }
    return err;
}

/* Runs one round. Returns the client for the next round, or NULL. */
static struct front_client *watch_round(struct front *front,
                                        struct front_client *client)
{
    struct watch_round round = { .why = "" };
    bg_errinfo info = { 0 };
    if (!client) {
        client = front_open(front, WATCH_PATIENCE, &info);
    }
    bg_err err = client ? watch_look(front, client, &round, &info) : info.code;
    if (err
        == BG_ECANCELED) { /* the service is stopping, so the result is meaningless */
        front_client_free(client);
        return NULL;
    }
    if (!client) {
        memset(round.states, FRONT_DOWN, sizeof round.states);
        (void)snprintf(round.why, sizeof round.why, "%s", info.message);
        atomic_store(&front->reached, 0);
    }
    front_mark(front, round.states, round.why);
    atomic_store(&front->watched, true);
    if (err) {
        front_client_free(client);
        client = NULL;
    }
    return client;
}

static void *watch_run(void *context)
{
    struct front *front = context;
    struct front_client *client = NULL;
    struct pollfd stop = { .fd = front->options.stop_fd, .events = POLLIN };
    do {
        client = watch_round(front, client);
    } while (poll(&stop, 1, FRONT_REST) <= 0);
    front_client_free(client);
    return NULL;
}

bool front_watch_start(struct front *front)
{
    front->watching = pthread_create(&front->watch, NULL, watch_run, front) == 0;
    return front->watching;
}

void front_watch_join(struct front *front)
{
    if (front->watching) {
        (void)pthread_join(front->watch, NULL);
        front->watching = false;
    }
}
