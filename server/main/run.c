/* run.c - see run.h. */
#include "main/run.h"

#include "api/web.h"
#include "clock.h"
#include "config/gate_settings.h"
#include "dump.h"
#include "error_text.h"
#include "fronts/fronts.h"
#include "gates/gates.h"
#include "ledger.h"
#include "main/startup.h"
#include "observe/observer.h"
#include "persist/persist.h"
#include "request/cmd.h"
#include "request/jobs.h"
#include "request/listen.h"
#include "request/multi.h"
#include "request/quota.h"
#include "request/slowlog.h"
#include "request/worker.h"
#include "util/log.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    SERVER_TICK = 100, /* milliseconds */
    /* Workers update `beat` every second. A worker counts as stuck after SERVER_BEAT milliseconds
     * plus the watchdog interval. */
    SERVER_BEAT = 2000,
    SERVER_FAILED = 1,
    /* Free memory is returned only if the memory of the process exceeds the ledger's count by
     * SERVER_SLACK bytes plus 1/SERVER_SHARE of that count. */
    SERVER_SLACK = 16 << 20,
    SERVER_SHARE = 32,
    SERVER_TRIM = 2 << 20,
    SERVER_MAP = 1 << 20,
    INTERRUPT_GRACE = 1000, /* milliseconds */
    INTERRUPT_TICK = 10     /* milliseconds */
};

extern const struct command connection_commands[], keyspace_commands[],
    admin_commands[];

const struct command *const server_families[] = {
    bf_commands,     cf_commands,      bg_commands,   connection_commands,
    client_commands, multi_commands,   scan_commands, keyspace_commands,
    admin_commands,  config_commands,  info_commands, command_commands,
    acl_commands,    slowlog_commands,
};
/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
const size_t server_families_count = sizeof server_families / sizeof *server_families;

/* ---- Startup ----------------------------------------------------------------------------- */

static bool server_say(const char *what, const char *why)
{
    log_error("cannot start",
              LOG_FIELDS(log_text("what", what), log_text("error", why)));
    return false;
}

static void server_make_run_id(struct server *server)
{
    uint8_t random[20];
    (void)!getrandom(random, sizeof random, 0);
    for (size_t i = 0; i < sizeof random; i++) {
        (void)snprintf(server->run_id + 2 * i, 3, "%02x", random[i]);
    }
}

/* Called before new settings take effect. Updates the components that do not read the settings
 * themselves. */
static bool server_apply(void *context, const struct settings *settings, char why[])
{
    struct server *server = context;
    if (!users_load(server->users, settings, why)) {
        return false;
    }
    quota_count(server);
    log_set_level((enum log_level)settings->log_level);
    log_set_format((enum log_format)settings->log_format);
    ledger_limit(settings->maxmemory);
    if (server->persist) {
        persist_apply(server->persist, settings);
    }
    return true;
}

static bool server_make_users(struct server *server, const struct settings *settings)
{
    char why[SETTINGS_WHY];
    server->users = users_create(server_families, server_families_count);
    if (!server->users || !users_load(server->users, settings, why)) {
        return server_say("users", server->users ? why : "out of memory");
    }
    quota_watch(server);
    quota_count(server);
    settings_listen(server->store, server_apply, server);
    if (settings->tls_port || settings->https_port) {
        server->tls = tls_create(settings, why);
        if (!server->tls) {
            return server_say("tls", why);
        }
    }
    return true;
}

static bool server_make_data(struct server *server, const struct settings *settings)
{
    bg_errinfo info = { 0 };
    if (catalog_create(&server->quiet, &server->catalog, &info)) {
        return server_say("catalog", info.message);
    }
    char why[SETTINGS_WHY];
    bg_keyring *ring = NULL;
    bool made = false;
    if (!startup_keyring(settings->keyring, &ring, &made, why)) {
        return server_say("keyring", why);
    }
    if (made) {
        log_warning("created a keyring with a new secret",
                    LOG_FIELDS(log_text("file", settings->keyring),
                               log_text("note", "if the service had another keyring, "
                                                "append its lines, marked as retired, "
                                                "to this file and restart")));
    }
    server->keyrings = keyrings_create(ring);
    if (!server->keyrings) {
        return server_say("keyring", "out of memory");
    }
    if (settings->appendonly && persist_create(server, &server->persist, &info)) {
        return server_say("data directory", info.message);
    }
    if (server->persist) { /* this process has locked the data directory */
        web_sweep(settings->dir);
    }
    return true;
}

static bool server_make_threads(struct server *server, const struct settings *settings)
{
    bg_machine machine;
    bg_machine_detect(&machine); /* the CPUs that this process may use */
    const size_t wanted = settings->workers ? settings->workers : machine.cpus;
    server->jobs = jobs_create(server, (unsigned)(settings->jobs ? settings->jobs : 4));
    server->workers = calloc(wanted, sizeof(struct worker *));
    if (!server->jobs || !server->workers) {
        return server_say("threads", "out of memory, or cannot start a thread");
    }
    for (; server->workers_count < wanted; server->workers_count++) {
        server->workers[server->workers_count] =
            worker_create(server, server->workers_count);
        if (!server->workers[server->workers_count]) {
            return server_say("workers", "out of memory or out of file descriptors");
        }
    }
    return true;
}

static void server_on_safe(void *context)
{
    const struct server *server = context;
    for (size_t i = 0; i < server->workers_count; i++) {
        worker_post_safe(server->workers[i]);
    }
}

/* Returns whether an event reports that a problem is over, or that there was none. */
static bool server_is_recovery(enum gate_event_kind kind)
{
    return kind == GATE_EVENT_SOURCE_BACK || kind == GATE_EVENT_RESUMED
           || kind == GATE_EVENT_FRESH || kind == GATE_EVENT_BREAKER_CLOSED;
}

static void server_gate_event(void *context, const struct gate_event *event)
{
    const bg_bytes name = { event->gate, strlen(event->gate) };
    const char *what = gate_event_name(event->kind);
    const char *colon = event->text[0] ? ": " : "";
    (void)context;
    if (event->kind == GATE_EVENT_BUILD_ENDED) {
        log_event(LOG_EVENT_REBUILD, name, "%s: %llu keys in %.3f s", what,
                  (unsigned long long)event->keys, event->seconds);
    } else if (event->kind == GATE_EVENT_BUILD_BEGAN) {
        log_event(LOG_EVENT_REBUILD, name, "%s%s%s", what, colon, event->text);
    } else if (event->kind == GATE_EVENT_FALSE_NEGATIVE) {
        log_event(LOG_EVENT_ALARM, name, "%s%s%s", what, colon, event->text);
    } else if (server_is_recovery(event->kind)) {
        log_recovery(LOG_EVENT_SOURCE, name, "%s%s%s", what, colon, event->text);
    } else {
        log_event(LOG_EVENT_SOURCE, name, "%s%s%s", what, colon, event->text);
    }
}

/* Creates the configured gates without waiting for their sources. */
static bool server_make_gates(struct server *server, const struct settings *settings)
{
    struct gates_options options = { .max_filter_bytes = settings->max_filter_memory,
                                     .dir = settings->dir,
                                     .event = server_gate_event };
    uint8_t key_id[BG_KEY_ID_BYTES];
    char why[SETTINGS_WHY];
    bg_errinfo info = { 0 };
    if (settings->gates.count == 0) {
        return true;
    }
    const struct secret_source *secrets = keyrings_source(server->keyrings);
    if (secrets->current(secrets->context, &options.hash, key_id, &info)
        || gates_create(&options, &server->gates, &info)) {
        return server_say("gates", info.message);
    }
    for (size_t i = 0; i < settings->gates.count; i++) {
        struct gate_settings gate;
        if (!settings_gate(&settings->gates.items[i], &gate, why)) {
            return server_say("gate", why);
        }
        const bg_err err = gates_add(server->gates, &gate, &info);
        gate_settings_free(&gate);
        if (err) {
            return server_say("gate", info.message);
        }
    }
    return true;
}

static bool server_make(struct server *server)
{
    const struct settings *settings = settings_now(server->store);
    char why[SETTINGS_WHY];
    quiet_init(&server->quiet);
    quiet_init(&server->readers);
    pthread_mutex_init(&server->reset_lock, NULL);
    server->slowlog = slowlog_create();
    server->started = clock_now();
    server_make_run_id(server);
    if (!command_table_check(server_families, server_families_count, why)) {
        return server_say("commands", why);
    }
    server->commands = command_table_create(server_families, server_families_count);
    if (!server->commands || !server->slowlog) {
        return server_say("commands", "out of memory");
    }
    if (!fronts_create(settings, &server->fronts, why)) {
        return server_say("sharded", why);
    }
    if (!server_make_data(server, settings) || !server_make_users(server, settings)
        || !server_make_threads(server, settings) || !listen_all(server)) {
        return false;
    }
    if (server->persist) {
        persist_on_safe(server->persist, server_on_safe, server);
    }
    if (!server_make_gates(server, settings)) {
        return false;
    }
    if (!fronts_start(server->fronts)) {
        return server_say("sharded", "cannot start a thread");
    }
    server->observer = observer_create(server);
    return server->observer || server_say("observer", "out of memory");
}

static void server_loading(void *context, uint64_t done, uint64_t all)
{
    struct server *server = context;
    atomic_store(&server->load_all, all);
    atomic_store(&server->load_done, done);
}

/* Logs the error and instructions for handling damage. */
static bool server_say_data(bg_err err, const char *why)
{
    if (err != BG_EFORMAT && err != BG_ECHECKSUM) {
        return server_say("data", why);
    }
    log_error(
        "cannot start",
        LOG_FIELDS(log_text("what", "data"), log_text("error", why),
                   log_text("hint",
                            "restore the data directory from a backup, or start with "
                            "--damaged-journal doubt; see docs/journal.md")));
    return false;
}

/* Warns if a filter, created before the gate was configured, has the name of a gate. The lookup
 * needs no batch, because no filter is removed during startup. */
static void server_warn_of_name(void *context, const struct gate_about *about)
{
    const struct server *server = context;
    const bg_bytes name = { about->name, strlen(about->name) };
    if (catalog_find(server->catalog, name, clock_now())) {
        log_warning(
            "a filter has the name of a gate",
            LOG_FIELDS(log_text("gate", about->name),
                       log_text("hint",
                                "filter commands use the filter, which does "
                                "not contain the gate's keys; RENAME the filter")));
    }
}

static bool server_load(struct server *server)
{
    bg_errinfo info = { 0 };
    const bg_err err =
        server->persist ? persist_load(server->persist, server_loading, server, &info)
                        : BG_OK;
    if (err == BG_ECANCELED && server_is_stopping()) {
        return false;
    }
    if (err) {
        return server_say_data(err, error_text(&info, err));
    }
    (void)catalog_measure(server->catalog);
    if (server->gates) {
        gates_each(server->gates, server_warn_of_name, server);
    }
    return true;
}

/* ---- Serving ------------------------------------------------------------------------------- */

/* Advances windows that receive no adds and drops dumps that are no longer being read. */
static void server_move_windows(struct server *server, struct session *session)
{
    struct entry *some[64];
    uint64_t after = 0;
    size_t n = 0;
    while ((n = catalog_scan(server->catalog, after, some, 64)) > 0) {
        after = some[n - 1]->number;
        for (size_t i = 0; i < n; i++) {
            struct object *object = some[i]->object;
            (void)object_tick(object, &session->host, NULL);
            dump_expire(object, session->ticks);
            catalog_release(some[i]);
        }
    }
}

/*
 * Freed memory. The C library keeps freed memory for the thread that allocated it, so memory freed
 * by requests would not be available to filters. The thresholds below make the C library return
 * free memory at the end of a heap to the OS. Fast bins are disabled, because their chunks are not
 * merged with free neighbors. Free memory inside a heap is returned with malloc_trim when the
 * process uses considerably more memory than the ledger counts. Any excess that remains is
 * fragmentation, so the next attempt is made only after usage has grown.
 */
static void server_return_early(void)
{
#ifdef __GLIBC__
    /* NOLINTBEGIN(concurrency-mt-unsafe): there are no other threads yet */
    (void)mallopt(M_MXFAST, 0);
    (void)mallopt(M_TRIM_THRESHOLD, SERVER_TRIM);
    (void)mallopt(M_MMAP_THRESHOLD, SERVER_MAP);
    /* NOLINTEND(concurrency-mt-unsafe) */
#endif
}

static void server_return_free(uint64_t *least)
{
    const uint64_t used = ledger_used(), now = observer_rss();
    *least = now < *least ? now : *least;
    if (now > used + used / SERVER_SHARE + SERVER_SLACK
        && now > *least + SERVER_SLACK / 2) {
#ifdef __GLIBC__
        (void)malloc_trim(0);
#endif
        *least = observer_rss();
    }
}

/* Runs the periodic tasks. Some run ten times a second, the others once a second. */
static void server_tick(struct server *server, struct session *session, unsigned tick)
{
    session_begin(session);
    (void)catalog_sweep(server->catalog, session->now);
    catalog_reap(server->catalog);
    if (tick % 10 == 0) {
        server_move_windows(server, session);
        (void)catalog_measure(server->catalog);
        log_tick();
    }
    if (server->persist) {
        if (session->wrote) {
            (void)persist_flush(server->persist, NULL);
        }
        persist_tick(server->persist);
    }
    session_end(session);
}

static void server_told(void *context, bool mistake, const char *text)
{
    (void)context;
    if (mistake) {
        log_error("settings", LOG_FIELDS(log_text("mistake", text)));
    } else {
        log_warning("settings", LOG_FIELDS(log_text("note", text)));
    }
}

static void server_secret_removed(void *context, const char *name)
{
    (void)context;
    log_warning("a secret was removed from the keyring",
                LOG_FIELDS(log_text("secret", name),
                           log_text("note", "existing filters can use it until the "
                                            "service restarts")));
}

/* Updates the reason why a filter could not be loaded. Called by catalog_each. */
static bg_err server_recheck_secret(void *context, struct entry *entry,
                                    bg_errinfo *info)
{
    const struct server *server = context;
    const struct command_settings settings = { .secrets =
                                                   keyrings_source(server->keyrings) };
    (void)info;
    if (entry && atomic_load(&entry->object->locked)) {
        const uint32_t lock = object_shape_lock(&entry->object->shape, &settings);
        atomic_store(&entry->object->locked, lock ? lock : OBJECT_NEW_SECRET);
    }
    return BG_OK;
}

/* Returns false if the keyring cannot be used. */
static bool server_reload_secrets(struct server *server,
                                  const struct settings *settings)
{
    bg_errinfo info = { .code = BG_OK };
    if (keyrings_reload(server->keyrings, settings->keyring, server_secret_removed,
                        NULL, &info)) {
        log_error("the keyring was not reloaded",
                  LOG_FIELDS(log_text("error", info.message),
                             log_text("note", "correct the file before the next "
                                              "restart, which would fail")));
        return false;
    }
    (void)catalog_each(server->catalog, server_recheck_secret, server, NULL);
    return true;
}

static void server_reload(struct server *server)
{
    char why[SETTINGS_WHY];
    startup_reloading();
    if (!settings_reload(server->store, server_told, NULL)) {
        startup_ready("settings were not reloaded: see the log");
        return;
    }
    const struct settings *settings = settings_now(server->store);
    const bool certificates = !server->tls || tls_reload(server->tls, settings, why);
    if (!certificates) {
        log_error("certificates were not reloaded", LOG_FIELDS(log_text("error", why)));
    }
    const bool secrets = server_reload_secrets(server, settings);
    (void)log_reopen();
    log_event(LOG_EVENT_CONFIG, (bg_bytes){ NULL, 0 }, "settings reloaded%s%s",
              certificates ? "" : ", except the certificates",
              secrets ? "" : ", except the keyring");
    startup_ready("serving");
}

/* Sends keep-alive notifications to the service manager at its watchdog interval. Sends no
 * notifications while a worker is stuck, so the manager kills and restarts the service. */
static void server_keep_alive(const struct server *server, uint64_t *told)
{
    const uint64_t interval = startup_watchdog_interval(), now = clock_ticks();
    if (interval == 0 || now - *told < interval) {
        return;
    }
    for (size_t i = 0; i < server->workers_count; i++) {
        const uint64_t beat =
            atomic_load_explicit(&server->workers[i]->beat, memory_order_relaxed);
        if (beat && beat + SERVER_BEAT + interval < now) {
            return;
        }
    }
    *told = now;
    (void)startup_watchdog();
}

static void server_serve(struct server *server, int wake_fd)
{
    struct session session;
    uint64_t told = 0, least = 0;
    struct pollfd wake = { .fd = wake_fd, .events = POLLIN };
    if (!session_init(&session, server, true)) {
        return;
    }
    for (unsigned tick = 0; !server_is_stopping(); tick++) {
        settings_reclaim(server->store, &server->readers);
        (void)users_reclaim(server->users, &server->readers);
        server_tick(server, &session, tick);
        if (tick % 10 == 0) {
            server_return_free(&least);
        }
        server_keep_alive(server, &told);
        if (server_take_reload()) {
            server_reload(server);
        }
        (void)poll(&wake, 1, SERVER_TICK);
    }
    session_fini(&session);
}

/* ---- Interruption ------------------------------------------------------------------------ */

/*
 * An orderly shutdown joins all threads. A thread may be in the middle of a long operation, such as
 * a job, a snapshot or a gate's build, which cannot be canceled at every point. If an immediate stop
 * (a second signal, or SHUTDOWN NOW) has not finished after INTERRUPT_GRACE milliseconds, a thread
 * ends the process. Clients of interrupted jobs see a closed connection.
 *
 * Ending the process is safe for the data, because the data directory then is as after a crash: all
 * acknowledged changes are in the journal, an unfinished file has no record, and the next start
 * deletes it (persist/persist.c, P1 to P6).
 */
struct interrupt {
    const struct server *server;
    int wake_fd;
    bool started;
    _Atomic bool finished;
    pthread_t thread;
};

/* Ends the process while jobs, builds or snapshots are running. The sync makes changes
 * durable that the policy `everysec` or `no` has only written to the OS. */
static _Noreturn void server_abandon(const struct server *server)
{
    const bool kept = persist_sync(server->persist);
    startup_remove_pid_file(settings_now(server->store)->pid_file);
    log_event(LOG_EVENT_STOP, (bg_bytes){ NULL, 0 },
              "stopped; operations in progress were interrupted");
    _exit(kept ? 0 : SERVER_FAILED);
}

static void *interrupt_run(void *context)
{
    struct interrupt *interrupt = context;
    struct pollfd wake = { .fd = interrupt->wake_fd, .events = POLLIN };
    uint64_t end = UINT64_MAX;
    while (!server_is_stopping()) {
        (void)poll(&wake, 1, -1);
    }
    while (!atomic_load(&interrupt->finished)) {
        if (end == UINT64_MAX && server_stops_at_once()) {
            end = clock_ticks() + INTERRUPT_GRACE;
        }
        if (clock_ticks() >= end) {
            server_abandon(interrupt->server);
        }
        (void)poll(NULL, 0, INTERRUPT_TICK);
    }
    return NULL;
}

/* Starts the thread. `wake_fd` is the result of server_open_wake. */
static bool interrupt_start(struct interrupt *interrupt, int wake_fd)
{
    interrupt->wake_fd = wake_fd;
    interrupt->started =
        pthread_create(&interrupt->thread, NULL, interrupt_run, interrupt) == 0;
    return interrupt->started;
}

/* Stops the thread, if it was started. Does not return if the process is being ended. */
static void interrupt_finish(struct interrupt *interrupt)
{
    if (interrupt->started) {
        atomic_store(&interrupt->finished, true);
        server_stop(false); /* wakes the thread if startup has failed */
        (void)pthread_join(interrupt->thread, NULL);
        interrupt->started = false;
    }
}

/* ---- Shutdown ---------------------------------------------------------------------------- */

/* Waits up to shutdown-grace for connections to finish their requests. */
static void server_drain(struct server *server)
{
    const struct settings *settings = settings_now(server->store);
    const uint64_t end = clock_ticks() + (uint64_t)(settings->shutdown_grace * 1000);
    listen_end(server); /* another service may own the socket path from here on */
    for (size_t i = 0; i < server->workers_count; i++) {
        worker_post_stop(server->workers[i], server_stops_at_once());
    }
    while (atomic_load(&server->clients) > 0 && clock_ticks() < end
           && !server_stops_at_once()) {
        (void)poll(NULL, 0, 10);
    }
    for (size_t i = 0; i < server->workers_count; i++) {
        worker_post_stop(server->workers[i], true);
    }
    for (size_t i = 0; i < server->workers_count; i++) {
        worker_join(server->workers[i]);
    }
}

static bool server_unmake(struct server *server, struct interrupt *interrupt)
{
    fronts_stop(server->fronts);
    /* freed first, because jobs use all components below */
    jobs_free(server->jobs);
    /* freed before the gates, because the observer uses them */
    observer_free(server->observer);
    fronts_free(server->fronts);
    gates_free(server->gates);
    for (size_t i = 0; i < server->workers_count; i++) {
        worker_drain(server->workers[i]);
    }
    persist_stop(server->persist);
    interrupt_finish(interrupt); /* uses the journal; no long operations are left */
    /* freed before the workers, because the journal's thread notifies them of its progress */
    const bool kept = persist_free(server->persist);
    server->persist = NULL;
    for (size_t i = 0; i < server->workers_count; i++) {
        worker_free(server->workers[i]);
    }
    free(server->workers);
    listen_end(server);
    catalog_free(server->catalog);
    command_table_free(server->commands);
    slowlog_free(server->slowlog);
    pthread_mutex_destroy(&server->reset_lock);
    users_free(server->users);
    tls_free(server->tls);
    keyrings_free(server->keyrings);
    return kept;
}

static bool server_start_workers(struct server *server)
{
    size_t started = 0;
    while (started < server->workers_count && worker_start(server->workers[started])) {
        started++;
    }
    return started == server->workers_count
           || server_say("workers", "cannot start a thread");
}

/* Allocations below this size are counted, but refused only if a user's quota would be exceeded.
 * They are the library's buffers for reading and writing files, and small filters. For these
 * allocations, it is enough to check before each command whether the ledger is full. */
enum { SERVER_SMALL = 2 << 20 };

static bool server_take(void *context, size_t bytes)
{
    (void)context;
    if (bytes >= SERVER_SMALL) {
        return ledger_reserve(LEDGER_FILTERS, bytes);
    }
    return ledger_add_on_budget(LEDGER_FILTERS, bytes);
}

static void server_give(void *context, size_t bytes)
{
    (void)context;
    ledger_release(LEDGER_FILTERS, bytes);
}

int server_run(struct settings_store *store)
{
    static const bg_memory_guard guard = { server_take, server_give, NULL };
    bg_memory_set_guard(&guard);
    server_return_early();
    struct server *server = calloc(1, sizeof *server);
    struct interrupt interrupt = { .server = server };
    int code = SERVER_FAILED;
    if (!server) {
        return SERVER_FAILED;
    }
    server->store = store;
    /* The limit applies from the start, because gates build their filters while saved filters are
     * being loaded. This thread is exempt from the limit while it loads the saved filters. */
    ledger_limit(settings_now(store)->maxmemory);
    (void)ledger_exempt(true);
    const int wake_fd = server_open_wake();
    if (wake_fd >= 0 && server_make(server)
        && (interrupt_start(&interrupt, wake_fd)
            || server_say("threads", "cannot start a thread"))) {
        atomic_store(&server->phase, SERVER_LOADING);
        if (server_start_workers(server) && server_load(server)
            && (observer_start(server->observer)
                || server_say("observer", "cannot start a thread"))) {
            atomic_store(&server->phase, SERVER_SERVING);
            (void)ledger_exempt(false);
            log_event(LOG_EVENT_START, (bg_bytes){ NULL, 0 }, "ready: %zu filters",
                      catalog_count(server->catalog));
            startup_ready("serving");
            server_serve(server, wake_fd);
            code = 0;
        } else if (server_is_stopping()) {
            code = 0; /* a stop during loading is not an error */
        }
        atomic_store(&server->phase, atomic_load(&server->phase) == SERVER_SERVING
                                         ? SERVER_STOPPING
                                         : SERVER_ABANDONING);
        startup_stopping("draining");
        server_drain(server);
    }
    if (!server_unmake(server, &interrupt)) {
        code = SERVER_FAILED;
    }
    log_event(LOG_EVENT_STOP, (bg_bytes){ NULL, 0 }, "stopped");
    free(server);
    return code;
}
