/*
 * gate_probe.c - runs a gate that a script controls. Settings are passed as arguments, commands are
 * read from stdin, and most commands print one line.
 *
 *     gate_probe NAME [dir=PATH] key=value ...      dir: where the filter is saved
 *     lookup HEX           prints a key's outcome and value on one line
 *     denied N             reads N more lines, each with a key in hex; prints N, and "=HEX" for each
 *                          key that the gate reports as absent without querying the source
 *     check PREFIX A B     counts the outcomes of the keys PREFIXa .. PREFIXb-1: present=3 ...
 *     wrote KEY            prints ok, or the error
 *     rebuild              prints ok, or the error
 *     wait CONDITION       waits for trusted, distrusted, caught (all changes committed so far have
 *                          been reported), builds N or event NAME; prints ok or timeout
 *     about                prints statistics: phase=serving trusted=1 ...; `since` is the monotonic
 *                          time up to which all changes have been reported, or 0 if there is none
 *     clock SECONDS        shifts this process's wall clock
 *     events               prints the number of events, then one event per line
 *     quit
 */
#define _GNU_SOURCE /* getline, nanosleep */

#include "gates/gates.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PROBE_EVENTS = 256, PROBE_THREADS = 4, PROBE_PATIENCE = 120 };

struct probe {
    struct gates *gates;
    bg_bytes name;
    pthread_mutex_t lock; /* protects the events */
    char *events[PROBE_EVENTS];
    size_t event_count;
};

static void probe_event(void *context, const struct gate_event *event)
{
    struct probe *probe = context;
    char *line = NULL;
    if (asprintf(&line, "%s keys=%llu %s", gate_event_name(event->kind),
                 (unsigned long long)event->keys, event->text)
        < 0) {
        return;
    }
    (void)pthread_mutex_lock(&probe->lock);
    if (probe->event_count < PROBE_EVENTS) {
        probe->events[probe->event_count++] = line;
    } else {
        free(line);
    }
    (void)pthread_mutex_unlock(&probe->lock);
}

static bool probe_has_event(struct probe *probe, const char *name)
{
    bool found = false;
    (void)pthread_mutex_lock(&probe->lock);
    for (size_t i = 0; i < probe->event_count; i++) {
        found = found || strncmp(probe->events[i], name, strlen(name)) == 0;
    }
    (void)pthread_mutex_unlock(&probe->lock);
    return found;
}

/* ---- A wall clock that can jump; the linker redirects clock_gettime and time to it ----------- */

static atomic_long probe_clock;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
time_t __real_time(time_t *now);
time_t __wrap_time(time_t *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    const int result = __real_clock_gettime(clock, now);
    if (result == 0 && clock == CLOCK_REALTIME) {
        now->tv_sec += atomic_load(&probe_clock);
    }
    return result;
}

time_t __wrap_time(time_t *now)
{
    const time_t moved = __real_time(NULL) + atomic_load(&probe_clock);
    if (now) {
        *now = moved;
    }
    return moved;
}

/* ---- Lookups ----------------------------------------------------------------------------- */

/* Decodes hex digits in place. Returns the number of bytes. */
static size_t probe_decode(char *text)
{
    static const char digits[] = "0123456789abcdef";
    size_t n = 0;
    for (const char *at = text; at[0] && at[1]; at += 2) {
        const char *high = strchr(digits, at[0]), *low = strchr(digits, at[1]);
        if (!high || !low) {
            break;
        }
        text[n++] = (char)((high - digits) << 4 | (low - digits));
    }
    return n;
}

/* Looks up a key. Prints the outcome, and the columns of the row in hexadecimal. */
static void probe_lookup(struct probe *probe, char *hex)
{
    const bg_bytes key = { hex, probe_decode(hex) };
    struct store_row row = STORE_ROW_INIT;
    struct store_column column;
    bg_outcome outcome = BG_OUTCOME_UNKNOWN;
    bg_errinfo why;
    const bg_err err =
        gates_lookup(probe->gates, probe->name, key, &row, &outcome, &why);
    printf("%s", err ? why.message : bg_outcome_name(outcome));
    for (size_t at = 0; store_row_next(&row, &at, &column);) {
        printf(" %.*s=", (int)column.name.len, (const char *)column.name.data);
        for (size_t i = 0; i < column.value.len; i++) {
            printf("%02x", ((const unsigned char *)column.value.data)[i]);
        }
        printf("%s", column.is_null ? "NULL" : "");
    }
    printf("\n");
    store_row_free(&row);
}

/* Returns whether the gate reports a key as absent without querying the source. If the gate
 * requests a source query for an audit, the query is abandoned, because its result would hide the
 * filter's answer. */
static bool probe_denies(struct probe *probe, bg_bytes key)
{
    struct gates_ticket ticket = { .gate = NULL };
    bg_outcome outcome = BG_OUTCOME_UNKNOWN;
    const bg_err err =
        gates_begin(probe->gates, probe->name, key, &ticket, &outcome, NULL);
    if (!err && ticket.gate) {
        gates_abandon(&ticket);
    }
    return !err
           && (outcome == BG_OUTCOME_ABSENT_BY_FILTER
               || outcome == BG_OUTCOME_ABSENT_BY_CACHE);
}

static void probe_print_denied(struct probe *probe, unsigned long n)
{
    char *line = NULL;
    size_t room = 0;
    printf("%lu", n);
    for (unsigned long i = 0; i < n && getline(&line, &room, stdin) > 0; i++) {
        line[strcspn(line, "\n")] = 0;
        char *hex = strdup(line);
        if (!hex) {
            abort();
        }
        if (probe_denies(probe, (bg_bytes){ hex, probe_decode(hex) })) {
            printf(" =%s", line);
        }
        free(hex);
    }
    printf("\n");
    free(line);
}

struct probe_part {
    struct probe *probe;
    const char *prefix;
    unsigned long first, last;
    unsigned long outcomes[8];
    pthread_t thread;
};

/* Looks up keys with odd numbers by calling gates_lookup, and the other keys by calling gates_begin
 * and gates_finish. */
static void *probe_check_part(void *context)
{
    struct probe_part *part = context;
    for (unsigned long i = part->first; i < part->last; i++) {
        char key[64];
        const size_t len = (size_t)snprintf(key, sizeof key, "%s%lu", part->prefix, i);
        bg_outcome outcome = BG_OUTCOME_UNKNOWN;
        struct gates_ticket ticket;
        const bg_bytes bytes = { key, len };
        bg_err err;
        if (i % 2) {
            err = gates_lookup(part->probe->gates, part->probe->name, bytes, NULL,
                               &outcome, NULL);
        } else {
            err = gates_begin(part->probe->gates, part->probe->name, bytes, &ticket,
                              &outcome, NULL);
            if (!err && ticket.gate) {
                const bg_outcome late = gates_finish(&ticket, NULL);
                outcome = outcome == BG_OUTCOME_PENDING ? late : outcome;
            }
        }
        part->outcomes[err ? 7 : outcome]++;
    }
    return NULL;
}

static void probe_check(struct probe *probe, const char *prefix, unsigned long first,
                        unsigned long last)
{
    struct probe_part parts[PROBE_THREADS];
    unsigned long all[8] = { 0 };
    const unsigned long step = (last - first) / PROBE_THREADS + 1;
    for (unsigned long i = 0; i < PROBE_THREADS; i++) {
        const unsigned long from = first + i * step, to = from + step;
        parts[i] = (struct probe_part){ .probe = probe,
                                        .prefix = prefix,
                                        .first = from,
                                        .last = to < last ? to : last };
        if (pthread_create(&parts[i].thread, NULL, probe_check_part, &parts[i]) != 0) {
            abort();
        }
    }
    for (size_t i = 0; i < PROBE_THREADS; i++) {
        (void)pthread_join(parts[i].thread, NULL);
        for (size_t k = 0; k < 8; k++) {
            all[k] += parts[i].outcomes[k];
        }
    }
    for (size_t k = 0; k < 8; k++) {
        if (all[k]) {
            printf("%s=%lu ", k == 7 ? "error" : bg_outcome_name((bg_outcome)k),
                   all[k]);
        }
    }
    printf("\n");
}

/* ---- Waiting ----------------------------------------------------------------------------- */

static void probe_copy(void *context, const struct gate_about *about)
{
    *(struct gate_about *)context = *about;
}

static struct gate_about probe_about(struct probe *probe)
{
    struct gate_about about = { .name = NULL };
    (void)gates_about(probe->gates, probe->name, probe_copy, &about, NULL);
    return about;
}

static bool probe_holds(struct probe *probe, const char *condition, uint64_t begun)
{
    const struct gate_about about = probe_about(probe);
    if (strcmp(condition, "trusted") == 0) {
        return about.trusted;
    }
    if (strcmp(condition, "distrusted") == 0) {
        return !about.trusted;
    }
    if (strcmp(condition, "caught") == 0) {
        return about.lag >= 0
               && source_now() - (uint64_t)(about.lag * 1e9) > begun + 1000;
    }
    if (strncmp(condition, "builds ", 7) == 0) {
        return about.builds >= strtoull(condition + 7, NULL, 10);
    }
    return strncmp(condition, "event ", 6) == 0
           && probe_has_event(probe, condition + 6);
}

static void probe_wait(struct probe *probe, const char *condition)
{
    static const struct timespec moment = { 0, 1000000 };
    const uint64_t begun = source_now();
    bool holds = probe_holds(probe, condition, begun);
    while (!holds && source_now() - begun < PROBE_PATIENCE * UINT64_C(1000000000)) {
        (void)nanosleep(&moment, NULL);
        holds = probe_holds(probe, condition, begun);
    }
    printf("%s\n", holds ? "ok" : "timeout");
}

/* ---- Commands ---------------------------------------------------------------------------- */

static void probe_print_about(struct probe *probe)
{
    static const char *const phases[] = { "waiting", "building", "serving",
                                          "rebuilding" };
    /* reads the clock before the lag, so that the printed `since` is never too late */
    const uint64_t now = source_now();
    const struct gate_about a = probe_about(probe);
    bg_gate_info stats = { .struct_size = sizeof stats };
    if (bg_gate_get_info(a.gate, NULL, &stats) != BG_OK) {
        abort();
    }
    printf(
        "phase=%s trusted=%d up=%d position=%llu changes=%llu restarts=%llu builds=%llu "
        "failures=%llu keys=%llu audits=%llu false_negatives=%llu since=%llu text=%s\n",
        phases[a.phase], a.trusted, a.source_up, (unsigned long long)a.position,
        (unsigned long long)a.changes, (unsigned long long)a.restarts,
        (unsigned long long)a.builds, (unsigned long long)a.build_failures,
        (unsigned long long)a.build_keys, (unsigned long long)stats.audits,
        (unsigned long long)stats.false_negatives,
        (unsigned long long)(a.lag < 0 ? 0 : now - (uint64_t)(a.lag * 1e9)),
        a.source_text);
}

static void probe_print_events(struct probe *probe)
{
    (void)pthread_mutex_lock(&probe->lock);
    printf("%zu\n", probe->event_count);
    for (size_t i = 0; i < probe->event_count; i++) {
        printf("%s\n", probe->events[i]);
    }
    (void)pthread_mutex_unlock(&probe->lock);
}

static void probe_tell(bg_err err, const bg_errinfo *why)
{
    printf("%s\n", err ? why->message : "ok");
}

/* Runs a command. Returns false for "quit" and for invalid commands. */
static bool probe_obey(struct probe *probe, char *line)
{
    char *rest = strchr(line, ' ');
    bg_errinfo why = { .code = BG_OK };
    if (rest) {
        *rest++ = 0;
    }
    if (strcmp(line, "lookup") == 0) {
        probe_lookup(probe, rest ? rest : line + strlen(line));
    } else if (strcmp(line, "denied") == 0 && rest) {
        probe_print_denied(probe, strtoul(rest, NULL, 10));
    } else if (strcmp(line, "clock") == 0 && rest) {
        atomic_fetch_add(&probe_clock, strtol(rest, NULL, 10));
        printf("ok\n");
    } else if (strcmp(line, "check") == 0) {
        char *save = NULL;
        const char *prefix = strtok_r(rest, " ", &save);
        const char *first = strtok_r(NULL, " ", &save),
                   *last = strtok_r(NULL, " ", &save);
        if (!prefix || !first || !last) {
            return false;
        }
        probe_check(probe, prefix, strtoul(first, NULL, 10), strtoul(last, NULL, 10));
    } else if (strcmp(line, "wrote") == 0 && rest) {
        probe_tell(gates_wrote(probe->gates, probe->name,
                               (bg_bytes){ rest, strlen(rest) }, &why),
                   &why);
    } else if (strcmp(line, "rebuild") == 0) {
        probe_tell(gates_rebuild(probe->gates, probe->name, &why), &why);
    } else if (strcmp(line, "wait") == 0 && rest) {
        probe_wait(probe, rest);
    } else if (strcmp(line, "about") == 0) {
        probe_print_about(probe);
    } else if (strcmp(line, "events") == 0) {
        probe_print_events(probe);
    } else {
        return false;
    }
    return true;
}

static bg_err probe_begin(struct probe *probe, int argc, char **argv, bg_errinfo *why)
{
    struct gate_settings settings;
    struct gates_options options = { .event = probe_event, .context = probe };
    bg_err err = gate_settings_init(&settings, argc > 1 ? argv[1] : "", why);
    if (err) {
        return err;
    }
    for (int i = 2; !err && i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (value) {
            *value++ = 0;
        }
        if (strcmp(argv[i], "dir") == 0) {
            options.dir = value;
        } else {
            err = gate_settings_set(&settings, argv[i], value ? value : "", why);
        }
    }
    err = err ? err : gates_create(&options, &probe->gates, why);
    err = err ? err : gates_add(probe->gates, &settings, why);
    gate_settings_free(&settings);
    return err;
}

int main(int argc, char **argv)
{
    struct probe probe = { .lock = PTHREAD_MUTEX_INITIALIZER };
    bg_errinfo why = { .code = BG_OK };
    char *line = NULL;
    size_t room = 0;
    if (probe_begin(&probe, argc, argv, &why)) {
        printf("%s\n", why.message);
        gates_free(probe.gates);
        return 1;
    }
    probe.name = (bg_bytes){ argv[1], strlen(argv[1]) };
    printf("ready\n");
    (void)fflush(stdout);
    while (getline(&line, &room, stdin) > 0) {
        line[strcspn(line, "\n")] = 0;
        if (!probe_obey(&probe, line)) {
            break;
        }
        (void)fflush(stdout);
    }
    gates_free(probe.gates);
    for (size_t i = 0; i < probe.event_count; i++) {
        free(probe.events[i]);
    }
    free(line);
    return 0;
}
