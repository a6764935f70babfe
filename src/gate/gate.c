/*
 * gate.c - lookups and writes through a gate, which puts a filter in front of a backing store.
 * gate_life.c creates gates, and gate_about.c computes their statistics.
 *
 * A lookup passes through these stages. Each stage either answers or passes the key on.
 *
 *     key
 *      |  filter            "no": absent, counted, done.    (audit: query the store anyway)
 *      |  negative cache    the store answered "absent" recently: absent
 *      |  single flight     another lookup is querying this key: its answer. Not in doubt
 *      |  breaker           the store is not called for now: unknown
 *      |  backing store     absent: remembered; present; error: unknown
 *      v
 *     outcome               counted, traced
 *
 * bg_gate_begin performs the first two stages and the breaker check, and bg_gate_finish performs
 * the steps that follow the store's answer. bg_gate_lookup performs the same steps, with single
 * flight and the query in between. These functions pass the state in a struct gate_call, which is
 * also the content of a ticket.
 *
 * Writes: (W1) the key is written to the backing store; (W2) the key is added to the filter; (W3)
 * the negative cache forgets the key, and its flights are closed; (W4) the write returns. So for a
 * lookup that starts after (W4), the filter answers "maybe" (W2) or is not trusted (see below); the
 * cache has no "absent" entry for the key (recent.c); no earlier flight can be joined (flight.c,
 * F1); and the store contains the key (W1). If (W1) fails, the store may still have written the
 * key, so (W3) is done anyway.
 *
 * Writes that bypass the gate. Cache entries and flights belong to an era (recent.c), which ends
 * when the slot's base is replaced or bg_gate_forget_absent is called. So a lookup that starts in
 * a later era gets no answer from an earlier era.
 *
 * Doubt. If (W2) fails, the store contains a key for which the filter answers "no". `missed` is set
 * before the write returns. From then on, the filter's "no" is not trusted until the slot gets a
 * base that is built from all keys (gate_doubt.c). bg_gate_doubt has the same effect.
 *
 * Audits. A configured share of the "no" answers is checked. To select these answers, each CPU
 * numbers its "no" answers and mixes the numbers with a secret, so that no pattern of lookups can
 * evade the audits. If the store contains a key and the filter answers "no", this answer is a false
 * negative only if the key is not being written. Between (W1) and (W2), a "no" is expected. So
 * writes are counted in `writing`, in a cell chosen by the key's hash, from before (W1) until after
 * (W2). An audit that finds a key in the store reads that counter and then queries the filter
 * again. If no write was in progress, any earlier writer of the key has already added it to the
 * filter, so a second "no" is wrong. bg_gate_add is called after the caller's own (W1), which is
 * not counted. So the audit waits a few milliseconds for the key to arrive in the filter before it
 * raises the alarm (in bg_gate_lookup, not in bg_gate_finish). If the slot has a new base by then,
 * no alarm is raised, because the store's answer may be older than that base and the key may have
 * been deleted since. The negative cache forgets a key that an audit found, because its cache entry
 * may date from before the filter lost the key.
 *
 * Cost. In addition to the slot's lookup, a plain "no" costs one counter update in a per-CPU cache
 * line. Other outcomes also need the clock, the keyed hash and the locks.
 */
#define _POSIX_C_SOURCE 200809L /* nanosleep */

#include "gate/gate_body.h"

#include "base/bits.h"

#include <string.h>
#include <time.h>

enum {
    GATE_CHUNK = 1024, /* maximum number of keys per filter query */
    GATE_PATIENCE = 5  /* milliseconds that an audit waits before it raises the alarm */
};

/* The maximum duration of one query in nanoseconds: one hour. A longer duration means that the
 * clock jumped, and adding it could make the total-time counter wrap around. */
#define GATE_LONGEST UINT64_C(3600000000000)

/* The result of a query. The first three values are the values of bg_store_answer. */
enum gate_answer {
    GATE_ABSENT = BG_STORE_ABSENT,
    GATE_PRESENT = BG_STORE_PRESENT,
    GATE_ERROR = BG_STORE_ERROR,
    GATE_NOT_QUERIED /* there is no query callback, or the breaker does not allow the call */
};

/* The filter's answer. */
struct gate_reply {
    uint64_t bases; /* the sequence number of the base that answered */
    bool maybe;
    bool doubt; /* a "no" is not trusted */
};

/* A lookup in progress. Stored in a ticket between bg_gate_begin and bg_gate_finish. */
struct gate_call {
    uint32_t open;   /* the store has not answered yet */
    uint16_t audit;  /* the call audits a "no" that was or will be returned */
    uint16_t denied; /* the filter answered "no" */
    uint64_t bases;  /* the sequence number of the base that answered */
    uint64_t place;  /* the key's hash for the cache, the flights and `writing` */
    uint64_t token;  /* issued by the negative cache */
    uint64_t since;  /* a time before the store was queried */
    uint64_t trial;  /* from the breaker */
    /* Not in a ticket: */
    /* Duration of the query in nanoseconds; 0 if there was no query. */
    uint64_t elapsed;
};

enum { GATE_TICKET = offsetof(struct gate_call, elapsed) };

_Static_assert(GATE_TICKET <= sizeof((bg_ticket){ 0 }.opaque), "a ticket holds a call");

/* ---- Callbacks ----------------------------------------------------------------------- */

/* Returns the key's hash under the filter's hasher, for callbacks. */
static uint64_t gate_key_hash(const bg_gate *gate, bg_bytes key)
{
    bg_pin pin;
    bg_role role = BG_ROLE_NEXT;
    const bg_filter *base = NULL;
    bg_slot_pin(gate->slot, &pin);
    for (size_t i = 0; role != BG_ROLE_BASE; i++) {
        base = bg_pin_filter(&pin, i, &role);
        if (!base) {
            break;
        }
    }
    uint64_t hash = base ? bg_hash_bytes(bg_filter_hasher(base), key.data, key.len) : 0;
    bg_slot_unpin(gate->slot, &pin);
    return hash;
}

static void gate_alarm(const bg_gate *gate, bg_alarm_kind kind, uint64_t hash,
                       uint64_t count)
{
    if (gate->how.alarm) {
        const bg_alarm alarm = { .struct_size = sizeof alarm,
                                 .kind = (uint32_t)kind,
                                 .key_hash = hash,
                                 .count = count };
        gate->how.alarm(gate->how.context, &alarm);
    }
}

static void gate_alarm_breaker(bg_gate *gate, enum bgi_breaker_turn turn)
{
    if (turn == BGI_BREAKER_OPENS) {
        gate_alarm(gate, BG_ALARM_BREAKER_OPEN, 0, atomic_load(&gate->breaker->opened));
    } else if (turn == BGI_BREAKER_CLOSES) {
        gate_alarm(gate, BG_ALARM_BREAKER_CLOSED, 0,
                   gate_count_rare(&gate->rare.closings));
    }
}

static void gate_trace(const bg_gate *gate, bg_bytes key, const struct gate_call *call,
                       bg_outcome outcome, bool shared)
{
    if (gate->how.trace) {
        const bg_trace trace = { .struct_size = sizeof trace,
                                 .outcome = (uint32_t)outcome,
                                 .key_hash = gate_key_hash(gate, key),
                                 .store_nanoseconds = call->elapsed,
                                 .audited = call->audit,
                                 .shared = shared };
        gate->how.trace(gate->how.context, &trace);
    }
}

/* ---- Stages -------------------------------------------------------------------------- */

static bg_outcome gate_failure(const bg_gate *gate)
{
    return gate->how.flags & BG_GATE_FAIL_CLOSED ? BG_OUTCOME_FAILED
                                                 : BG_OUTCOME_UNKNOWN;
}

static uint64_t gate_place(const bg_gate *gate, bg_bytes key)
{
    return bgi_siphash(BGI_SIPHASH_13, gate->secret, key.data, key.len);
}

/* Reserves n sequence numbers for "no" answers and returns the first one. gate_is_drawn decides
 * whether the answer with a given number is audited. */
static uint64_t gate_draw(const bg_gate *gate, uint64_t n)
{
    struct gate_line *line = gate_line(gate);
    const uint64_t x =
        atomic_fetch_add_explicit(&line->count[GATE_DRAWN], n, memory_order_relaxed);
    return x ^ (uint64_t)(line - gate->lines) << 58;
}

static bool gate_is_drawn(const bg_gate *gate, uint64_t number)
{
    uint64_t x = number * UINT64_C(0x9e3779b97f4a7c15) ^ gate->secret[0];
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (x ^ x >> 31) <= gate->audit_most;
}

/* Counts the outcome of a lookup. */
static void gate_count_outcome(const bg_gate *gate, const struct gate_call *call,
                               bg_outcome outcome)
{
    unsigned counter = GATE_OUTCOME + outcome;
    if (outcome == BG_OUTCOME_ABSENT_BY_FILTER) {
        counter = call->audit ? GATE_CHECKED : counter;
    } else if (call->denied && outcome == BG_OUTCOME_ABSENT_BY_STORE) {
        counter = GATE_DOUBTED_STORE;
    }
    gate_count(gate_line(gate), counter, 1);
}

/* Queries the filter. Whether the filter is in doubt must be checked first; see slot_in_doubt. */
static struct gate_reply gate_query(bg_gate *gate, const void *key, size_t len)
{
    struct gate_reply reply = { .doubt = gate_in_doubt(gate) };
    reply.maybe = slot_has(gate->slot, key, len, &reply.bases);
    gate_watch_base(gate, reply.bases);
    return reply;
}

/* Queries the filter and the negative cache. The cache is not used while the filter is in doubt;
 * see (D5) in gate_doubt.c. */
static bg_outcome gate_enter(bg_gate *gate, bg_bytes key, struct gate_reply reply,
                             struct gate_call *call)
{
    *call = (struct gate_call){ .denied = !reply.maybe, .bases = reply.bases };
    if (!reply.maybe && !reply.doubt) {
        return BG_OUTCOME_ABSENT_BY_FILTER;
    }
    call->since = gate_now(gate);
    if (gate->recent || gate->flights) {
        call->place = gate_place(gate, key);
    }
    if (gate->recent && !reply.doubt
        && bgi_recent_find(gate->recent, call->place, key, gate_era(gate, reply.bases),
                           call->since, &call->token)) {
        return BG_OUTCOME_ABSENT_BY_CACHE;
    }
    call->open = 1;
    return BG_OUTCOME_PENDING;
}

/* Returns whether the breaker allows the query. */
static bool gate_may_query_store(bg_gate *gate, struct gate_call *call)
{
    if (bgi_breaker_is_closed(gate->breaker)
        || bgi_breaker_allows(gate->breaker, gate_now(gate), &call->trial)) {
        return true;
    }
    if (!call->audit) {
        gate_count(gate_line(gate), GATE_SPARED, 1);
    }
    return false;
}

/* Records that a key is a false positive. */
static void gate_note_wasted(bg_gate *gate, bg_bytes key)
{
    const uint64_t place = gate_place(gate, key);
    _Atomic uint64_t *word = &gate->wasted[(place >> 6) % GATE_WASTED];
    const uint64_t bit = UINT64_C(1) << place % 64;
    if (!(atomic_load_explicit(word, memory_order_relaxed) & bit)) {
        (void)atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
    }
}

/* Updates the statistics, the breaker and the cache with the store's answer. */
static enum bgi_breaker_turn gate_learn(bg_gate *gate, bg_bytes key,
                                        struct gate_call *call, bg_store_answer answer)
{
    const uint64_t now = gate_now(gate);
    const bool answered = answer == BG_STORE_ABSENT || answer == BG_STORE_PRESENT;
    struct gate_line *line = gate_line(gate);
    call->elapsed = now > call->since ? now - call->since : 1;
    call->elapsed = call->elapsed < GATE_LONGEST ? call->elapsed : GATE_LONGEST;
    gate_count(line, GATE_STORE_CALLS, 1);
    gate_count(line, GATE_STORE_NS, call->elapsed);
    if (answer == BG_STORE_ABSENT && !call->audit && !call->denied) {
        gate_note_wasted(gate, key);
    }
    if (call->audit) {
        gate_count(line, GATE_AUDITS, 1);
    } else if (gate->recent && answer == BG_STORE_ABSENT) {
        bgi_recent_put(gate->recent, call->place, key, call->token, call->since, now);
    }
    if (answered) {
        return bgi_breaker_worked(gate->breaker, call->trial);
    }
    gate_count(line, GATE_STORE_ERRORS, 1);
    return bgi_breaker_failed(gate->breaker, call->trial, now);
}

/* Queries the store if the breaker allows it. The caller raises the breaker's alarm. */
static enum gate_answer gate_query_store(bg_gate *gate, bg_bytes key, void *request,
                                         struct gate_call *call,
                                         enum bgi_breaker_turn *turn)
{
    *turn = BGI_BREAKER_STAYS;
    if (!gate->how.query || !gate_may_query_store(gate, call)) {
        return GATE_NOT_QUERIED;
    }
    bg_store_answer answer =
        gate->how.query(gate->how.context, key.data, key.len, request);
    *turn = gate_learn(gate, key, call, answer);
    return answer == BG_STORE_ABSENT || answer == BG_STORE_PRESENT
               ? (enum gate_answer)answer
               : GATE_ERROR;
}

/* Converts a store answer to the outcome of a lookup for which the filter answered "maybe". */
static bg_outcome gate_conclude(const bg_gate *gate, enum gate_answer answer)
{
    if (answer == GATE_PRESENT) {
        return BG_OUTCOME_PRESENT;
    }
    return answer == GATE_ABSENT ? BG_OUTCOME_ABSENT_BY_STORE : gate_failure(gate);
}

/* ---- Flights ------------------------------------------------------------------------- */

static bg_outcome gate_look_alone(bg_gate *gate, bg_bytes key, void *request,
                                  struct gate_call *call)
{
    enum bgi_breaker_turn turn;
    enum gate_answer answer = gate_query_store(gate, key, request, call, &turn);
    gate_alarm_breaker(gate, turn);
    return gate_conclude(gate, answer);
}

static bg_outcome gate_lead(bg_gate *gate, struct bgi_flight *flight,
                            struct gate_call *call)
{
    enum bgi_breaker_turn turn;
    enum gate_answer answer =
        gate_query_store(gate, flight->key, flight->request, call, &turn);
    bgi_flight_land(gate->flights, flight, (int)answer);
    gate_alarm_breaker(gate, turn);
    return gate_conclude(gate, answer);
}

/* Uses the answer from another lookup. Returns false if that answer cannot be used. */
static bool gate_follow(bg_gate *gate, struct bgi_flight *flight)
{
    bool helps = flight->answer != GATE_PRESENT || !flight->request
                 || (gate->how.share && flight->leader->request);
    if (helps && flight->answer == GATE_PRESENT && flight->request) {
        gate->how.share(gate->how.context, flight->leader->request, flight->request);
    }
    bgi_flight_leave(gate->flights, flight);
    if (helps) {
        (void)gate_count_rare(&gate->rare.shared);
    }
    return helps;
}

static bg_outcome gate_fly(bg_gate *gate, bg_bytes key, void *request,
                           struct gate_call *call, bool *shared)
{
    struct bgi_flight flight = { .hash = call->place,
                                 .era = gate_era(gate, call->bases),
                                 .key = key,
                                 .request = request };
    switch (bgi_flight_board(gate->flights, &flight)) {
    case BGI_FLIGHT_LEADS: return gate_lead(gate, &flight, call);
    case BGI_FLIGHT_FOLLOWS:
        if (gate_follow(gate, &flight)) {
            *shared = true;
            return gate_conclude(gate, (enum gate_answer)flight.answer);
        }
        /* The time spent waiting does not count as query time. */
        call->since = gate_now(gate);
        break;
    case BGI_FLIGHT_ALONE: break;
    }
    return gate_look_alone(gate, key, request, call);
}

/* ---- Audits -------------------------------------------------------------------------- */

/* Returns whether the base's "no" was wrong, given that the store contains the key. See "Audits"
 * above. */
static bool gate_was_wrong(bg_gate *gate, bg_bytes key, uint64_t bases, bool patient)
{
    const struct timespec pause = { 0, 1000000 };
    uint64_t now;
    const uint64_t cell = gate_place(gate, key) % GATE_WRITING;
    for (int i = 0;; i++) {
        const bool writing = atomic_load(&gate->writing[cell]) != 0;
        if (gate_in_doubt(gate) || slot_has(gate->slot, key.data, key.len, &now)
            || now != bases) {
            return false;
        }
        if (!patient || i == GATE_PATIENCE) {
            return !writing;
        }
        (void)nanosleep(&pause, NULL);
    }
}

/* Returns the outcome of a lookup whose "no" was audited. */
static bg_outcome gate_conclude_audit(bg_gate *gate, bg_bytes key,
                                      const struct gate_call *call,
                                      enum gate_answer answer, bool patient)
{
    if (answer != GATE_PRESENT) {
        return BG_OUTCOME_ABSENT_BY_FILTER;
    }
    gate_added(gate, key);
    if (gate_was_wrong(gate, key, call->bases, patient)) {
        gate_alarm(gate, BG_ALARM_FALSE_NEGATIVE, gate_key_hash(gate, key),
                   gate_count_rare(&gate->rare.false_negatives));
    }
    return BG_OUTCOME_PRESENT;
}

static bg_outcome gate_audit(bg_gate *gate, bg_bytes key, void *request,
                             struct gate_call *call)
{
    enum bgi_breaker_turn turn;
    call->audit = 1;
    call->since = gate_now(gate);
    enum gate_answer answer = gate_query_store(gate, key, request, call, &turn);
    call->audit = answer != GATE_NOT_QUERIED;
    gate_alarm_breaker(gate, turn);
    return gate_conclude_audit(gate, key, call, answer, true);
}

/* ---- Lookups ------------------------------------------------------------------------- */

/* Finishes a lookup after the filter has answered. */
static bg_outcome gate_look(bg_gate *gate, bg_bytes key, struct gate_reply reply,
                            void *request)
{
    struct gate_call call;
    bool shared = false;
    bg_outcome outcome = gate_enter(gate, key, reply, &call);
    if (outcome == BG_OUTCOME_PENDING) {
        outcome = gate->flights && gate->how.query && !reply.doubt
                      ? gate_fly(gate, key, request, &call, &shared)
                      : gate_look_alone(gate, key, request, &call);
    } else if (outcome == BG_OUTCOME_ABSENT_BY_FILTER && gate->audits && gate->how.query
               && gate_is_drawn(gate, gate_draw(gate, 1))) {
        outcome = gate_audit(gate, key, request, &call);
    }
    gate_count_outcome(gate, &call, outcome);
    gate_trace(gate, key, &call, outcome, shared);
    return outcome;
}

bg_outcome bg_gate_lookup(bg_gate *gate, const void *key, size_t len, void *request)
{
    if (!gate) {
        return BG_OUTCOME_UNKNOWN;
    }
    const struct gate_reply reply = gate_query(gate, key, len);
    if (BGI_LIKELY(!reply.maybe && !reply.doubt && gate->plain)) {
        gate_count(gate_line(gate), GATE_OUTCOME + BG_OUTCOME_ABSENT_BY_FILTER, 1);
        return BG_OUTCOME_ABSENT_BY_FILTER;
    }
    return gate_look(gate, (bg_bytes){ key, len }, reply, request);
}

static bool gate_counts(bg_outcome outcome)
{
    return outcome == BG_OUTCOME_PRESENT || outcome == BG_OUTCOME_UNKNOWN;
}

/* The part of a batch that one call looks up in the filter. */
struct gate_chunk {
    const bg_bytes *keys;
    size_t n;
    void *const *requests; /* or NULL */
    bg_outcome *outcomes;
    /* The reply that applies to all keys, except for reply.maybe, which the bitmap `maybe`
     * replaces. */
    struct gate_reply reply;
    uint64_t maybe[BG_BITMAP_WORDS(GATE_CHUNK)];
};

static bool gate_chunk_maybe(const struct gate_chunk *chunk, size_t i)
{
    return chunk->maybe[i / 64] >> i % 64 & 1;
}

/* Finishes the lookup of one key. Returns whether the key is present, or may be present because the
 * outcome is unknown. */
static bool gate_look_at(bg_gate *gate, const struct gate_chunk *chunk, size_t i)
{
    struct gate_reply reply = chunk->reply;
    reply.maybe = gate_chunk_maybe(chunk, i);
    chunk->outcomes[i] = gate_look(gate, chunk->keys[i], reply,
                                   chunk->requests ? chunk->requests[i] : NULL);
    return gate_counts(chunk->outcomes[i]);
}

/* Looks up the keys of a chunk for which the filter answered "maybe". The other keys are already
 * known to be absent. */
static size_t gate_look_maybes(bg_gate *gate, const struct gate_chunk *chunk)
{
    size_t found = 0;
    for (size_t word = 0; word < BG_BITMAP_WORDS(chunk->n); word++) {
        for (uint64_t left = chunk->maybe[word]; left; left &= left - 1) {
            found +=
                gate_look_at(gate, chunk, word * 64 + (unsigned)__builtin_ctzll(left));
        }
    }
    return found;
}

/* Looks up all keys of a chunk one by one. Used if lookups are traced or the filter is not
 * trusted. */
static size_t gate_look_all(bg_gate *gate, const struct gate_chunk *chunk)
{
    size_t found = 0;
    for (size_t i = 0; i < chunk->n; i++) {
        found += gate_look_at(gate, chunk, i);
    }
    return found;
}

/* Audits a chunk. Returns the number of audited keys that the store contains although the filter
 * answered "no". */
static size_t gate_audit_chunk(bg_gate *gate, const struct gate_chunk *chunk,
                               size_t *audited)
{
    const uint64_t first = gate_draw(gate, chunk->n);
    size_t found = 0;
    for (size_t i = 0; i < chunk->n; i++) {
        if (!gate_chunk_maybe(chunk, i) && gate_is_drawn(gate, first + i)) {
            struct gate_call call = { .denied = 1, .bases = chunk->reply.bases };
            bg_outcome outcome =
                gate_audit(gate, chunk->keys[i],
                           chunk->requests ? chunk->requests[i] : NULL, &call);
            chunk->outcomes[i] = outcome;
            gate_count_outcome(gate, &call, outcome);
            found += gate_counts(outcome);
            ++*audited;
        }
    }
    return found;
}

static size_t gate_look_chunk(bg_gate *gate, struct gate_chunk *chunk)
{
    size_t found = 0, audited = 0;
    chunk->reply = (struct gate_reply){ .doubt = gate_in_doubt(gate) };
    const size_t maybes =
        slot_has_many(gate->slot, bg_keys_bytes(chunk->keys, chunk->n), chunk->maybe,
                      &chunk->reply.bases);
    gate_watch_base(gate, chunk->reply.bases);
    if (chunk->reply.doubt || gate->how.trace) {
        return gate_look_all(gate, chunk);
    }
    for (size_t i = 0; i < chunk->n; i++) {
        chunk->outcomes[i] = BG_OUTCOME_ABSENT_BY_FILTER;
    }
    if (gate->audits && gate->how.query) {
        found = gate_audit_chunk(gate, chunk, &audited);
    }
    gate_count(gate_line(gate), GATE_OUTCOME + BG_OUTCOME_ABSENT_BY_FILTER,
               chunk->n - maybes - audited);
    return maybes ? found + gate_look_maybes(gate, chunk) : found;
}

size_t bg_gate_lookup_many(bg_gate *gate, const bg_bytes *keys, size_t n,
                           void *const *requests, bg_outcome *outcomes)
{
    size_t found = 0;
    for (size_t i = 0; !gate && i < n; i++) {
        outcomes[i] = BG_OUTCOME_UNKNOWN;
    }
    for (size_t at = 0; gate && at < n; at += GATE_CHUNK) {
        struct gate_chunk chunk;
        chunk.keys = keys + at;
        chunk.n = n - at < GATE_CHUNK ? n - at : GATE_CHUNK;
        chunk.requests = requests ? requests + at : NULL;
        chunk.outcomes = outcomes + at;
        found += gate_look_chunk(gate, &chunk);
    }
    return gate ? found : n;
}

bool bg_gate_may_contain(bg_gate *gate, const void *key, size_t len)
{
    if (!gate) {
        return true;
    }
    const struct gate_reply reply = gate_query(gate, key, len);
    if (!reply.maybe && !reply.doubt) {
        gate_count(gate_line(gate), GATE_MAY_NO, 1);
        return false;
    }
    bg_bytes bytes = { key, len };
    uint64_t token;
    if (gate->recent && !reply.doubt
        && bgi_recent_find(gate->recent, gate_place(gate, bytes), bytes,
                           gate_era(gate, reply.bases), gate_now(gate), &token)) {
        return false;
    }
    gate_count(gate_line(gate), GATE_MAY_MAYBE, 1);
    return true;
}

/* ---- Tickets ------------------------------------------------------------------------- */

bg_outcome bg_gate_begin(bg_gate *gate, const void *key, size_t len, bg_ticket *ticket,
                         bool *audit)
{
    struct gate_call call;
    if (audit) {
        *audit = false;
    }
    if (!gate || !ticket) {
        return BG_OUTCOME_UNKNOWN;
    }
    const bg_bytes bytes = { key, len };
    bg_outcome outcome = gate_enter(gate, bytes, gate_query(gate, key, len), &call);
    if (outcome == BG_OUTCOME_PENDING && !gate_may_query_store(gate, &call)) {
        call.open = 0;
        outcome = gate_failure(gate);
    } else if (outcome == BG_OUTCOME_ABSENT_BY_FILTER && audit && gate->audits
               && gate_is_drawn(gate, gate_draw(gate, 1))) {
        call.audit = 1;
        call.since = gate_now(gate);
        call.open = *audit = gate_may_query_store(gate, &call);
    }
    call.audit = call.audit && call.open;
    if (outcome != BG_OUTCOME_PENDING) {
        gate_count_outcome(gate, &call, outcome);
    }
    if (!call.open) {
        gate_trace(gate, bytes, &call, outcome, false);
    }
    ticket->key = key;
    ticket->len = len;
    memcpy(ticket->opaque, &call, GATE_TICKET);
    return outcome;
}

bg_outcome bg_gate_finish(bg_gate *gate, bg_ticket *ticket, bg_store_answer answer)
{
    struct gate_call call = { .open = 0 };
    if (!gate || !ticket) {
        return BG_OUTCOME_UNKNOWN;
    }
    memcpy(&call, ticket->opaque, GATE_TICKET);
    memset(ticket->opaque, 0, sizeof ticket->opaque);
    if (!call.open) { /* the lookup was already finished, or never started */
        return BG_OUTCOME_UNKNOWN;
    }
    const bg_bytes key = { ticket->key, ticket->len };
    const enum gate_answer known =
        answer == BG_STORE_ABSENT || answer == BG_STORE_PRESENT
            ? (enum gate_answer)answer
            : GATE_ERROR;
    enum bgi_breaker_turn turn = gate_learn(gate, key, &call, answer);
    gate_alarm_breaker(gate, turn);
    bg_outcome outcome = call.audit
                             ? gate_conclude_audit(gate, key, &call, known, false)
                             : gate_conclude(gate, known);
    if (!call.audit) { /* an audited lookup was already counted when it started */
        gate_count_outcome(gate, &call, outcome);
    }
    gate_trace(gate, key, &call, outcome, false);
    return outcome;
}

/* ---- Writes -------------------------------------------------------------------------- */

/* Increments or decrements the number of writes in the key's cell of `writing`, if the gate audits
 * answers. */
static void gate_writing(bg_gate *gate, uint64_t place, bool begins)
{
    if (gate->writing) {
        (void)atomic_fetch_add(&gate->writing[place % GATE_WRITING],
                               begins ? 1 : UINT32_MAX);
    }
}

/* (W3) */
static void gate_forget(bg_gate *gate, uint64_t place, bg_bytes key)
{
    if (gate->recent) {
        bgi_recent_forget(gate->recent, place, key);
    }
    if (gate->flights) {
        bgi_flights_detach(gate->flights, place, key);
    }
}

void gate_added(bg_gate *gate, bg_bytes key)
{
    if (gate->recent || gate->flights) {
        gate_forget(gate, gate_place(gate, key), key);
    }
}

/* Performs a write. The callback performs (W1), unless the caller has already done so. */
static bg_err gate_write(bg_gate *gate, bg_bytes key, void *request, bool wrote)
{
    const bool placed = gate->recent || gate->flights || gate->writing;
    const uint64_t place = placed ? gate_place(gate, key) : 0;
    bg_err err = BG_OK;
    gate_count(gate_line(gate), GATE_WRITES, 1);
    gate_writing(gate, place, true);
    if (!wrote) {
        err = gate->how.write(gate->how.context, key.data, key.len, request);
    }
    if (!err) {
        err = bg_slot_add(gate->slot, key.data, key.len, NULL);
        if (err) {
            gate_doubt_begin(gate);
        }
    }
    gate_writing(gate, place, false);
    gate_forget(gate, place, key);
    if (err) {
        (void)gate_count_rare(&gate->rare.write_errors);
    }
    return err;
}

void bg_gate_forget_absent(bg_gate *gate)
{
    if (gate) {
        (void)atomic_fetch_add(&gate->slot->voided, 1);
    }
}

bg_err bg_gate_write(bg_gate *gate, const void *key, size_t len, void *request)
{
    if (!gate) {
        return BG_EINVAL;
    }
    return gate->how.write ? gate_write(gate, (bg_bytes){ key, len }, request, false)
                           : BG_ENOTSUP;
}

bg_err bg_gate_add(bg_gate *gate, const void *key, size_t len)
{
    return gate ? gate_write(gate, (bg_bytes){ key, len }, NULL, true) : BG_EINVAL;
}
