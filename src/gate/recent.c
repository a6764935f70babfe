/*
 * recent.c - see recent.h.
 *
 * Idea. The cache is a table of sets. Each set has space for RECENT_WAYS keys, and each group of
 * sets has a lock. The hash of a key selects its set. Whole keys are stored and compared, so no
 * key is ever mistaken for a different key. Nothing is allocated after creation.
 *
 *     struct bgi_recent
 *       shards[n]      a lock each; shard i guards the sets j with j % n = i
 *       sets[m]        version, era, and for each way: query time, tag, length + 1 (0: none)
 *       keys           m * RECENT_WAYS places of key_room bytes
 *
 * A new entry replaces the existing entry for its key. If there is no such entry, it replaces an
 * empty or expired entry. If all entries are in use, it replaces the oldest entry.
 *
 * Concurrent writes and lookups. A set's `version` increases with every write to a key that belongs
 * to the set, whether or not the set currently contains the key.
 *   (R1) A lookup reads the version under the lock before it queries the backing store, and stores
 *        an "absent" answer under the lock only if the version is still the same.
 *   (R2) A write changes the backing store. Then, under the lock, it raises the version and removes
 *        the key.
 * Consider a write to a key, and a lookup that got "absent" from the store before the store
 * contained the key. If the lookup had read the version after (R2), the store would already have
 * contained the key, and the answer would not have been "absent". So the lookup read the version
 * before (R2). If the lookup stores its answer before (R2), (R2) removes the key again. If it tries
 * to store the answer after (R2), the versions differ, and nothing is stored. So no "absent" entry
 * for the key remains in the cache once the write has returned. A version belongs to a whole set,
 * so a write to another key may prevent an answer from being stored. This is rare and costs only
 * one more query.
 *
 * Eras. The era changes with each event that invalidates earlier answers: when the slot gets a new
 * base, or the owner calls bg_gate_forget_absent. gate.c computes the era as the sum of two
 * counters: the sequence number of the base that answered the lookup, and the number of times that
 * earlier answers were invalidated for other reasons. Each event raises its counter before it
 * returns. The invariant:
 *
 *   (R3) A lookup that starts after an event has raised its counter does not use the answer to a
 *        query that was sent to the backing store before the event. (A new base raises the counter
 *        when it is published, after all its keys have been read.)
 *
 * A set has one era, which applies to all its entries.
 *   (R4) A lookup reads both counters after it starts and before it queries the store.
 *   (R5) A find whose era is later than the set's era empties the set, raises the set's version,
 *        and sets the set's era to the later era. A find whose era is earlier than the set's era
 *        finds nothing and returns the token 0.
 *   (R6) A token is the version of a set that has the era of the lookup. So if the version is
 *        unchanged when the answer is stored, the set still has that era, and so does the new
 *        entry.
 * Proof of (R3): the lookup that sent the query read both counters before the event raised one of
 * them (R4), and the later lookup reads both counters afterwards. Counters never decrease. So the
 * second lookup has a later era. The second lookup empties the set, or another lookup has already
 * emptied it (R5). Entries stored earlier belong to an earlier era (R6), so they are removed with
 * the rest. The order in which a lookup reads the two counters does not matter.
 *
 *     order of steps                     why no invalid answer is left
 *     find, put, event, find             the second find empties the set (R5)
 *     find, event, put, find             the entry has the earlier era; then the same
 *     find, event, other find, put       the other find raised the version (R5): no put
 *     event, early find, put             its lookup read the counters before the event: token 0
 *                                        if the set has the later era; else as in the second row
 *     find, event, forget, put           the version differs (R2): no put
 *
 * An event costs only one addition, because later lookups empty the sets.
 *
 * Time. An entry records the time at which its query was sent. So an answer is never used for
 * longer than the TTL after that time, however long the query took. An entry with a time in the
 * future counts as expired: the clock went backward, so the entry's age is unknown.
 */
#include "gate/recent.h"

#include "base/bits.h"
#include "base/checked.h"
#include "base/memory.h"

#include <pthread.h>
#include <string.h>

enum { RECENT_WAYS = 4, RECENT_SHARDS = 64 };

struct recent_set {
    uint64_t version;
    uint64_t era; /* of all entries */
    uint64_t queried[RECENT_WAYS];
    uint32_t tag[RECENT_WAYS];
    uint32_t size[RECENT_WAYS]; /* length of the key plus 1; 0 if the entry is empty */
};

struct recent_shard {
    _Alignas(64) pthread_mutex_t lock;
};

struct bgi_recent {
    struct bgi_memory memory;
    uint64_t ttl;
    uint64_t sets_count;
    size_t key_most, key_room;
    struct recent_set *sets;
    unsigned char *keys;
    struct recent_shard shards[RECENT_SHARDS];
};

/* ---- Places -------------------------------------------------------------------------- */

static uint64_t recent_set_of(const struct bgi_recent *recent, uint64_t hash)
{
    return bgi_mulhi(hash, recent->sets_count);
}

/* The tag is the low bits of the hash, because the high bits select the set. */
static uint32_t recent_tag(uint64_t hash)
{
    return (uint32_t)hash;
}

static unsigned char *recent_key(const struct bgi_recent *recent, uint64_t set,
                                 unsigned way)
{
    return recent->keys + (set * RECENT_WAYS + way) * recent->key_room;
}

static void recent_lock(struct bgi_recent *recent, uint64_t set)
{
    (void)pthread_mutex_lock(&recent->shards[set % RECENT_SHARDS].lock);
}

static void recent_unlock(struct bgi_recent *recent, uint64_t set)
{
    (void)pthread_mutex_unlock(&recent->shards[set % RECENT_SHARDS].lock);
}

/* Returns the token to pass to bgi_recent_put. The token is never 0. */
static uint64_t recent_token(const struct recent_set *set)
{
    return set->version + 1;
}

static bool recent_is_alive(const struct bgi_recent *recent,
                            const struct recent_set *set, unsigned way, uint64_t now)
{
    return set->size[way] && now >= set->queried[way]
           && now - set->queried[way] < recent->ttl;
}

/* Returns the way that contains a key, or RECENT_WAYS if the key is not in its set. */
static unsigned recent_way(const struct bgi_recent *recent, uint64_t number,
                           uint64_t hash, bg_bytes key)
{
    const struct recent_set *set = &recent->sets[number];
    unsigned way = 0;
    while (
        way < RECENT_WAYS
        && !(set->size[way] == key.len + 1 && set->tag[way] == recent_tag(hash)
             && (key.len == 0
                 || memcmp(recent_key(recent, number, way), key.data, key.len) == 0))) {
        way++;
    }
    return way;
}

/* Returns the way in which to store a key that is not in the set. */
static unsigned recent_victim(const struct bgi_recent *recent,
                              const struct recent_set *set, uint64_t now)
{
    unsigned victim = 0;
    for (unsigned way = 0; way < RECENT_WAYS; way++) {
        if (!recent_is_alive(recent, set, way, now)) {
            return way;
        }
        victim = set->queried[way] < set->queried[victim] ? way : victim;
    }
    return victim;
}

/* Moves a set to `era` if its era is earlier (R5). Returns whether the set then has this era. */
static bool recent_enter_era(struct recent_set *set, uint64_t era)
{
    if (set->era < era) {
        memset(set->size, 0, sizeof set->size);
        set->version++;
        set->era = era;
    }
    return set->era == era;
}

/* ---- Finding, putting, forgetting ---------------------------------------------------- */

bool bgi_recent_find(struct bgi_recent *recent, uint64_t hash, bg_bytes key,
                     uint64_t era, uint64_t now, uint64_t *token)
{
    *token = 0;
    if (key.len > recent->key_most) {
        return false;
    }
    uint64_t number = recent_set_of(recent, hash);
    struct recent_set *set = &recent->sets[number];
    bool found = false;
    recent_lock(recent, number);
    if (recent_enter_era(set, era)) {
        unsigned way = recent_way(recent, number, hash, key);
        found = way < RECENT_WAYS && recent_is_alive(recent, set, way, now);
        *token = recent_token(set);
    }
    recent_unlock(recent, number);
    return found;
}

void bgi_recent_put(struct bgi_recent *recent, uint64_t hash, bg_bytes key,
                    uint64_t token, uint64_t queried, uint64_t now)
{
    if (key.len > recent->key_most) {
        return;
    }
    uint64_t number = recent_set_of(recent, hash);
    struct recent_set *set = &recent->sets[number];
    recent_lock(recent, number);
    if (recent_token(set) == token) {
        unsigned way = recent_way(recent, number, hash, key);
        if (way == RECENT_WAYS) {
            way = recent_victim(recent, set, now);
            set->size[way] = (uint32_t)key.len + 1;
            set->tag[way] = recent_tag(hash);
            if (key.len) {
                memcpy(recent_key(recent, number, way), key.data, key.len);
            }
        }
        set->queried[way] = queried;
    }
    recent_unlock(recent, number);
}

void bgi_recent_forget(struct bgi_recent *recent, uint64_t hash, bg_bytes key)
{
    if (key.len > recent->key_most) {
        return;
    }
    uint64_t number = recent_set_of(recent, hash);
    recent_lock(recent, number);
    unsigned way = recent_way(recent, number, hash, key);
    recent->sets[number].version++;
    if (way < RECENT_WAYS) {
        recent->sets[number].size[way] = 0;
    }
    recent_unlock(recent, number);
}

uint64_t bgi_recent_count(struct bgi_recent *recent, uint64_t era, uint64_t now)
{
    uint64_t alive = 0;
    for (uint64_t shard = 0; shard < RECENT_SHARDS; shard++) {
        recent_lock(recent, shard);
        for (uint64_t i = shard; i < recent->sets_count; i += RECENT_SHARDS) {
            const struct recent_set *set = &recent->sets[i];
            for (unsigned way = 0; set->era == era && way < RECENT_WAYS; way++) {
                alive += recent_is_alive(recent, set, way, now);
            }
        }
        recent_unlock(recent, shard);
    }
    return alive;
}

/* ---- Lifecycle ----------------------------------------------------------------------- */

struct bgi_recent *bgi_recent_create(uint32_t entries, uint32_t key_most, uint64_t ttl,
                                     const bg_allocator *allocator)
{
    uint64_t sets = ((uint64_t)entries + RECENT_WAYS - 1) / RECENT_WAYS;
    size_t room = ((size_t)key_most + 7) / 8 * 8, bytes;
    struct bgi_memory memory;
    /* There are fewer than 2^30 sets, each smaller than 2^19 bytes, so the product cannot
     * overflow. */
    if (!bgi_fits_size(sizeof(struct bgi_recent)
                           + sets * (sizeof(struct recent_set) + room * RECENT_WAYS),
                       &bytes)
        || !bgi_memory_take(&memory, bytes, allocator, false)) {
        return NULL;
    }
    struct bgi_recent *recent = memory.base;
    recent->memory = memory;
    recent->ttl = ttl;
    recent->sets_count = sets;
    recent->key_most = key_most;
    recent->key_room = room;
    recent->sets = (struct recent_set *)(void *)(recent + 1);
    recent->keys = (unsigned char *)(recent->sets + sets);
    for (unsigned i = 0; i < RECENT_SHARDS; i++) {
        (void)pthread_mutex_init(&recent->shards[i].lock, NULL);
    }
    return recent;
}

void bgi_recent_free(struct bgi_recent *recent)
{
    if (recent) {
        for (unsigned i = 0; i < RECENT_SHARDS; i++) {
            (void)pthread_mutex_destroy(&recent->shards[i].lock);
        }
        struct bgi_memory memory = recent->memory;
        bgi_memory_give(&memory);
    }
}
