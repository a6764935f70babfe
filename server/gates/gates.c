/*
 * gates.c - the list of gates, and lookups; see gates.h. A gate's threads are in gates/life.c.
 *
 * Each gate contains two bg_gates: one over the slot with the filter, and one over a slot that
 * never has a filter. The second bg_gate always queries the source and has its own circuit breaker
 * and statistics. When a lookup starts, the trust rules (gates.h) select one of the two.
 *
 * Audits. A key that was just committed is in the source, but not yet in the filter. The key is not a false negative
 * if the follower has yet to report it. Therefore, when an audit finds such a key, it makes the follower poll and
 * waits for the result before reporting a false negative.
 *
 * The list is an array, protected by a reader-writer lock. Each gate counts its users, and dropping a gate waits
 * until the count is zero. There are few gates, so a linear search by name is enough.
 */
#include "gates/gate.h"

#include "gates/files.h"
#include "util/timed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct gates {
    struct gates_options how;
    char *dir; /* copy of the `dir` option, or NULL */
    char instance[GATE_INSTANCE];
    pthread_rwlock_t lock; /* protects the list */
    struct gate **list;
    size_t count;
};

const char *gate_event_name(enum gate_event_kind kind)
{
#define GATES_EVENT_NAME(NAME, name) name,
    static const char *const names[] = { GATE_EVENTS(GATES_EVENT_NAME) };
#undef GATES_EVENT_NAME
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

void gate_tell(const struct gate *gate, enum gate_event_kind kind, const char *text,
               uint64_t keys, double seconds)
{
    const struct gate_event event = { .kind = kind,
                                      .gate = gate->settings.name,
                                      .text = text,
                                      .keys = keys,
                                      .seconds = seconds };
    if (gate->how.event) {
        gate->how.event(gate->how.context, &event);
    }
}

bool gate_is_trusted(const struct gate *gate)
{
    const uint64_t built = atomic_load(&gate->built);
    if (built == 0 || built != atomic_load(&gate->needed)) {
        return false; /* T1 */
    }
    if (atomic_load(&gate->doubted)) {
        return false; /* T3 */
    }
    if (!gate->followed) {
        return true;
    }
    const uint64_t seen = atomic_load(&gate->caught_up), now = source_now();
    return seen != 0 && (now < seen || now - seen <= gate->max_lag); /* T2 */
}

/* ---- Callbacks for the library ------------------------------------------------------------- */

void gate_note_answer(struct gate *gate, const bg_errinfo *why, bool failed)
{
    if (!failed && !atomic_load_explicit(&gate->ask_failed, memory_order_relaxed)) {
        return;
    }
    (void)pthread_mutex_lock(&gate->lock);
    atomic_store(&gate->ask_failed, failed);
    (void)snprintf(gate->ask_text, sizeof gate->ask_text, "%s",
                   failed ? why->message : "");
    (void)pthread_mutex_unlock(&gate->lock);
}

static bg_store_answer gates_ask_blindly(void *context, const void *key, size_t len,
                                         void *request)
{
    struct gate *gate = context;
    bg_errinfo why = { .code = BG_OK };
    const bg_store_answer answer = source_ask(gate->source, key, len, request, &why);
    gate_note_answer(gate, &why, answer == BG_STORE_ERROR);
    return answer;
}

static bg_store_answer gates_ask(void *context, const void *key, size_t len,
                                 void *request)
{
    struct gate *gate = context;
    const bg_store_answer answer = gates_ask_blindly(context, key, len, request);
    if (answer == BG_STORE_PRESENT && gate->settings.audit > 0 && gate->followed
        && !bg_slot_may_contain(gate->slot, key, len)) {
        gate_life_await(gate);
    }
    return answer;
}

/* Copies the row for a concurrent lookup of the same key (single flight). */
static void gates_share(void *context, const void *from_request, void *to_request)
{
    (void)context;
    store_row_copy(to_request, from_request);
}

static void gates_alarm(void *context, const bg_alarm *alarm)
{
    static const struct {
        enum gate_event_kind kind;
        const char *text;
    } told[] = {
        [BG_ALARM_FALSE_NEGATIVE] = { GATE_EVENT_FALSE_NEGATIVE,
                                      "the filter answered \"no\" for a key that the "
                                      "source contains" },
        [BG_ALARM_BREAKER_OPEN] = { GATE_EVENT_BREAKER_OPEN,
                                    "the source failed too often; it will be queried "
                                    "again after the breaker-rest interval" },
        [BG_ALARM_BREAKER_CLOSED] = { GATE_EVENT_BREAKER_CLOSED,
                                      "the source is answering again" },
    };
    struct gate *gate = context;
    if (alarm->kind >= sizeof told / sizeof *told) {
        return;
    }
    gate_tell(gate, told[alarm->kind].kind, told[alarm->kind].text, alarm->count, 0);
    if (alarm->kind == BG_ALARM_FALSE_NEGATIVE) {
        gate_life_doubt(gate, "an audit found a false negative");
    }
}

/* ---- Creating ---------------------------------------------------------------------------- */

static uint64_t gates_nanoseconds(double seconds)
{
    return (uint64_t)(seconds * 1e9);
}

/*
 * Creates the slot with a tiny filter, which is never trusted. The tiny filter makes the slot accept the follower's
 * adds, so the first real filter receives these adds as soon as its build starts. (A slot without a filter rejects
 * adds, even while its first filter is being built.)
 */
static bg_err gates_make_slot(struct gate *gate, bg_errinfo *info)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *tiny;
    spec.kind = BG_KIND_BLOCKED;
    spec.items = 64;
    spec.rate = 0.5;
    spec.hash = gate->how.hash;
    bg_err err = bg_filter_create(&spec, &tiny, info);
    if (!err) {
        err = bg_slot_create(tiny, NULL, &gate->slot, info);
        if (err) {
            bg_filter_free(tiny);
        }
    }
    return err;
}

static bg_err gates_make_inside(struct gate *gate, bg_errinfo *info)
{
    const struct gate_settings *s = &gate->settings;
    bg_gate_options options = BG_GATE_OPTIONS_INIT;
    options.context = gate;
    options.alarm = gates_alarm;
    options.flags = s->fail == GATE_FAIL_CLOSED ? BG_GATE_FAIL_CLOSED : 0;
    options.breaker_failures = s->breaker_failures;
    options.breaker_rest = gates_nanoseconds(s->breaker_rest);
    options.query = gates_ask_blindly;
    bg_err err = gates_make_slot(gate, info);
    err = err ? err : bg_slot_create(NULL, NULL, &gate->nothing, info);
    err = err ? err : bg_gate_create(gate->nothing, &options, &gate->blind, info);
    options.query = gates_ask;
    options.share = gates_share;
    options.breaker_of = gate->blind; /* failures count together: it is one source */
    options.flags |= s->single_flight ? BG_GATE_SINGLE_FLIGHT : 0;
    options.audit = s->audit;
    options.negative_entries = s->negative_ttl > 0 ? s->negative_entries : 0;
    options.negative_ttl = gates_nanoseconds(s->negative_ttl);
    return err ? err : bg_gate_create(gate->slot, &options, &gate->gate, info);
}

static void gates_unmake(struct gate *gate)
{
    if (!gate) {
        return;
    }
    bg_gate_free(gate->gate);
    bg_gate_free(gate->blind);
    bg_slot_free(gate->slot);
    bg_slot_free(gate->nothing);
    source_free(gate->source);
    gate_settings_free(&gate->settings);
    free(gate->file);
    (void)pthread_cond_destroy(&gate->wake);
    (void)pthread_cond_destroy(&gate->caught);
    (void)pthread_mutex_destroy(&gate->lock);
    free(gate);
}

static bg_err gates_make(const struct gates *gates,
                         const struct gate_settings *settings, struct gate **made,
                         bg_errinfo *info)
{
    bg_err err = gate_settings_check(settings, info);
    struct gate *gate = err ? NULL : calloc(1, sizeof *gate);
    if (!gate) {
        return err ? err : source_no_memory(info);
    }
    (void)pthread_mutex_init(&gate->lock, NULL);
    timed_init(&gate->wake);
    timed_init(&gate->caught);
    gate->how = gates->how;
    gate->source_up = true;
    err = gate_settings_copy(&gate->settings, settings);
    if (!err) {
        struct source_settings how = gate_settings_source(&gate->settings);
        char *script = NULL;
        if (gates->dir) {
            gate->file = gate_files_path(gates->dir, settings->name, ".bg");
            script = gate_files_path(gates->dir, settings->name, ".sql");
        }
        how.instance = gates->instance;
        how.script = script;
        gate->max_lag = gates_nanoseconds(gate->settings.max_lag);
        err = gates->dir && !(gate->file && script)
                  ? source_no_memory(info)
                  : source_create(&how, &gate->source, info);
        free(script);
    }
    if (!err) {
        gate->followed = source_is_followed(gate->source);
        err = gates_make_inside(gate, info);
    }
    if (err) {
        gates_unmake(gate);
        return err;
    }
    *made = gate;
    return BG_OK;
}

/* ---- The list ---------------------------------------------------------------------------- */

bg_err gates_create(const struct gates_options *options, struct gates **gates,
                    bg_errinfo *info)
{
    struct gates *all = calloc(1, sizeof *all);
    bg_err err = all ? BG_OK : source_no_memory(info);
    *gates = NULL;
    if (err) {
        return err;
    }
    all->how = options ? *options : (struct gates_options){ .max_filter_bytes = 0 };
    (void)pthread_rwlock_init(&all->lock, NULL);
    (void)snprintf(all->instance, sizeof all->instance, "00000000");
    if (all->how.dir) {
        all->dir = strdup(all->how.dir);
        all->how.dir = all->dir;
        err = all->dir ? gate_files_instance(all->dir, all->instance, info)
                       : source_no_memory(info);
    }
    if (err) {
        gates_free(all);
        return err;
    }
    *gates = all;
    return BG_OK;
}

/* Returns the index of a gate, or `count` if there is none. The caller holds the lock. */
static size_t gates_find(const struct gates *gates, bg_bytes name)
{
    for (size_t i = 0; i < gates->count; i++) {
        const char *mine = gates->list[i]->settings.name;
        if (strlen(mine) == name.len && memcmp(mine, name.data, name.len) == 0) {
            return i;
        }
    }
    return gates->count;
}

static struct gate *gates_take(struct gates *gates, bg_bytes name, bg_errinfo *info)
{
    struct gate *gate = NULL;
    (void)pthread_rwlock_rdlock(&gates->lock);
    const size_t i = gates_find(gates, name);
    if (i < gates->count) {
        gate = gates->list[i];
        (void)atomic_fetch_add(&gate->users, 1);
    }
    (void)pthread_rwlock_unlock(&gates->lock);
    if (!gate) {
        (void)source_error(info, BG_ENOTFOUND, "gate", NULL, "there is no gate '%.*s'",
                           (int)(name.len < 60 ? name.len : 60),
                           name.len ? (const char *)name.data : "");
    }
    return gate;
}

static void gates_leave(struct gate *gate)
{
    (void)atomic_fetch_sub(&gate->users, 1);
}

bg_err gates_add(struct gates *gates, const struct gate_settings *settings,
                 bg_errinfo *info)
{
    struct gate *gate = NULL;
    bg_err err = gates_make(gates, settings, &gate, info);
    if (err) {
        return err;
    }
    const bg_bytes name = { settings->name, strlen(settings->name) };
    (void)pthread_rwlock_wrlock(&gates->lock);
    struct gate **list =
        realloc(gates->list, (gates->count + 1) * sizeof(struct gate *));
    gates->list = list ? list : gates->list;
    if (gates_find(gates, name) < gates->count) {
        err = source_error(info, BG_EBUSY, "gate", NULL,
                           "the name '%s' is already in use", settings->name);
    } else if (!list) {
        err = source_no_memory(info);
    } else {
        err = gate_life_begin(gate, info);
    }
    if (!err) {
        gates->list[gates->count++] = gate;
    }
    (void)pthread_rwlock_unlock(&gates->lock);
    if (err) {
        gates_unmake(gate);
    }
    return err;
}

/* Stops and frees a gate that is no longer in the list. */
static void gates_bury(struct gate *gate)
{
    static const struct timespec moment = { 0, 1000000 };
    gate_life_end(gate);
    while (atomic_load(&gate->users) != 0) {
        (void)nanosleep(&moment, NULL);
    }
    gates_unmake(gate);
}

void gates_free(struct gates *gates)
{
    if (!gates) {
        return;
    }
    for (size_t i = 0; i < gates->count; i++) {
        gates_bury(gates->list[i]);
    }
    (void)pthread_rwlock_destroy(&gates->lock);
    free(gates->dir);
    free(gates->list);
    free(gates);
}

size_t gates_count(struct gates *gates)
{
    (void)pthread_rwlock_rdlock(&gates->lock);
    const size_t n = gates->count;
    (void)pthread_rwlock_unlock(&gates->lock);
    return n;
}

bool gates_has(struct gates *gates, bg_bytes name)
{
    (void)pthread_rwlock_rdlock(&gates->lock);
    const bool has = gates_find(gates, name) < gates->count;
    (void)pthread_rwlock_unlock(&gates->lock);
    return has;
}

/* ---- Lookups ----------------------------------------------------------------------------- */

/* Normalizes the key and returns the bg_gate to use for it; see "Trust" in gates.h. */
static bg_gate *gates_choose(const struct gate *gate, enum key_form form, bg_bytes *key)
{
    return key_form_spelling(form, key) == KEY_CANONICAL /* T4 */
                   && gate_is_trusted(gate)
               ? gate->gate
               : gate->blind;
}

/* Returns whether the type of the key column changed after the key was normalized. If it changed,
 * the answer may be for a different key. */
static bool gates_is_respelled(const struct gate *gate, enum key_form form)
{
    return form != KEY_FORM_UNKNOWN && source_form(gate->source) != form;
}

bg_err gates_lookup(struct gates *gates, bg_bytes name, bg_bytes key,
                    struct store_row *row, bg_outcome *outcome, bg_errinfo *info)
{
    struct gate *gate = gates_take(gates, name, info);
    if (!gate) {
        return BG_ENOTFOUND;
    }
    store_row_clear(row);
    enum key_form form;
    do {
        bg_bytes spelled = key;
        form = source_form(gate->source);
        bg_gate *asked = gates_choose(gate, form, &spelled);
        *outcome = bg_gate_lookup(asked, spelled.data, spelled.len, row);
    } while (gates_is_respelled(gate, form));
    gates_leave(gate);
    return BG_OK;
}

bg_err gates_begin(struct gates *gates, bg_bytes name, bg_bytes key,
                   struct gates_ticket *ticket, bg_outcome *outcome, bg_errinfo *info)
{
    struct gate *gate = gates_take(gates, name, info);
    bool audit = false;
    *ticket = (struct gates_ticket){ .gate = NULL };
    if (!gate) {
        return BG_ENOTFOUND;
    }
    do {
        bg_bytes spelled = key;
        ticket->form = source_form(gate->source);
        ticket->asked = gates_choose(gate, ticket->form, &spelled);
        *outcome = bg_gate_begin(ticket->asked, spelled.data, spelled.len,
                                 &ticket->ticket, &audit);
    } while (*outcome != BG_OUTCOME_PENDING && gates_is_respelled(gate, ticket->form));
    if (*outcome == BG_OUTCOME_PENDING || audit) {
        ticket->gate = gate;
    } else {
        gates_leave(gate);
    }
    return BG_OK;
}

bg_outcome gates_finish(struct gates_ticket *ticket, struct store_row *row)
{
    struct gate *gate = ticket->gate;
    if (!gate) {
        return BG_OUTCOME_UNKNOWN;
    }
    const bool blind = ticket->asked == gate->blind;
    bg_store_answer answer = (blind ? gates_ask_blindly : gates_ask)(
        gate, ticket->ticket.key, ticket->ticket.len, row);
    if (gates_is_respelled(gate, ticket->form)) {
        answer = BG_STORE_ERROR;
    }
    const bg_outcome outcome = bg_gate_finish(ticket->asked, &ticket->ticket, answer);
    ticket->gate = NULL;
    gates_leave(gate);
    return outcome;
}

void gates_abandon(struct gates_ticket *ticket)
{
    struct gate *gate = ticket->gate;
    if (gate) { /* bg_gate_finish would count this as a source failure */
        ticket->gate = NULL;
        gates_leave(gate);
    }
}

bg_err gates_check_rows(struct gates *gates, bg_bytes name, bg_errinfo *info)
{
    struct gate *gate = gates_take(gates, name, info);
    if (!gate) {
        return BG_ENOTFOUND;
    }
    const bool allowed = gate->settings.rows;
    gates_leave(gate);
    return allowed ? BG_OK
                   : source_error(info, BG_ENOTSUP, "gate", NULL,
                                  "this gate does not return rows; set rows=yes in its "
                                  "`gate` line and restart the service");
}

bg_err gates_wrote(struct gates *gates, bg_bytes name, bg_bytes key, bg_errinfo *info)
{
    struct gate *gate = gates_take(gates, name, info);
    if (!gate) {
        return BG_ENOTFOUND;
    }
    const enum key_form form = source_form(gate->source);
    const bool other =
        key_form_spelling(form, &key) == KEY_OTHER && form != KEY_FORM_UNKNOWN;
    const bg_err err = other ? BG_EINVAL : bg_gate_add(gate->gate, key.data, key.len);
    gates_leave(gate);
    if (other) {
        return source_error(
            info, err, "key", NULL,
            "the key is not in the form that the database prints, so it cannot be "
            "recorded; see docs/sources.md");
    }
    return err ? source_error(
               info, err, "filter", NULL,
               "the key does not fit into the filter; all lookups query the database"
               " until the filter is rebuilt")
               : BG_OK;
}

bg_err gates_rebuild(struct gates *gates, bg_bytes name, bg_errinfo *info)
{
    struct gate *gate = gates_take(gates, name, info);
    if (!gate) {
        return BG_ENOTFOUND;
    }
    gate_life_rebuild(gate, true, "on request");
    gates_leave(gate);
    return BG_OK;
}

/* ---- Status ------------------------------------------------------------------------------ */

static void gates_describe(struct gate *gate, struct gate_about *about)
{
    const uint64_t seen = atomic_load(&gate->caught_up), now = source_now();
    *about = (struct gate_about){ .name = gate->settings.name,
                                  .settings = &gate->settings,
                                  .slot = gate->slot,
                                  .gate = gate->gate,
                                  .blind = gate->blind,
                                  .phase = (enum gate_phase)atomic_load(&gate->phase),
                                  .trusted = gate_is_trusted(gate),
                                  .lag = seen == 0    ? -1
                                         : now > seen ? (double)(now - seen) / 1e9
                                                      : 0,
                                  .position = atomic_load(&gate->position),
                                  .changes = atomic_load(&gate->changes),
                                  .restarts = atomic_load(&gate->restarts),
                                  .saves = atomic_load(&gate->saves),
                                  .builds = atomic_load(&gate->builds),
                                  .build_failures = atomic_load(&gate->build_failures),
                                  .progress_keys = atomic_load(&gate->progress_keys),
                                  .progress_expected =
                                      atomic_load(&gate->progress_expected) };
    (void)pthread_mutex_lock(&gate->lock);
    const bool asked = atomic_load(&gate->ask_failed);
    about->source_up = gate->source_up && !asked;
    memcpy(about->source_text, asked ? gate->ask_text : gate->source_text,
           sizeof about->source_text);
    memcpy(about->build_text, gate->build_text, sizeof about->build_text);
    about->build_keys = gate->build_keys;
    about->build_seconds = gate->build_seconds;
    about->build_time = gate->build_time;
    (void)pthread_mutex_unlock(&gate->lock);
}

void gates_each(struct gates *gates,
                void (*tell)(void *context, const struct gate_about *about),
                void *context)
{
    struct gate_about about;
    (void)pthread_rwlock_rdlock(&gates->lock);
    const size_t n = gates->count;
    struct gate **list = n ? calloc(n, sizeof(struct gate *)) : NULL;
    for (size_t i = 0; list && i < n; i++) {
        list[i] = gates->list[i];
        (void)atomic_fetch_add(&list[i]->users, 1);
    }
    (void)pthread_rwlock_unlock(&gates->lock);
    for (size_t i = 0; list && i < n; i++) {
        gates_describe(list[i], &about);
        tell(context, &about);
        gates_leave(list[i]);
    }
    free(list);
}

bg_err gates_about(struct gates *gates, bg_bytes name,
                   void (*tell)(void *context, const struct gate_about *about),
                   void *context, bg_errinfo *info)
{
    struct gate_about about;
    struct gate *gate = gates_take(gates, name, info);
    if (!gate) {
        return BG_ENOTFOUND;
    }
    gates_describe(gate, &about);
    tell(context, &about);
    gates_leave(gate);
    return BG_OK;
}

void gates_total(const struct gate_about *about, const bg_slot_health *health,
                 bg_gate_info *sum)
{
    bg_gate_info blind = { .struct_size = sizeof blind };
    *sum = (bg_gate_info){ .struct_size = sizeof *sum };
    if (bg_gate_get_info(about->gate, health, sum)) {
        *sum = (bg_gate_info){ .struct_size = sizeof *sum };
    }
    if (about->blind && bg_gate_get_info(about->blind, NULL, &blind) == BG_OK) {
        sum->lookups += blind.lookups;
        for (size_t i = 0; i < 6; i++) {
            sum->outcomes[i] += blind.outcomes[i];
        }
        sum->store_calls += blind.store_calls;
        sum->store_errors += blind.store_errors;
        sum->store_nanoseconds += blind.store_nanoseconds;
        sum->shared += blind.shared;
        sum->spared_by_breaker += blind.spared_by_breaker; /* the breaker is shared */
    }
}
