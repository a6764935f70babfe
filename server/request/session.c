/* session.c - see session.h. */
#include "request/session.h"

#include "args.h"
#include "clock.h"
#include "core/server.h"
#include "fronts/fronts.h"
#include "ledger.h"
#include "persist/persist.h"
#include "request/cmd.h"
#include "request/jobs.h"
#include "request/multi.h"
#include "request/quota.h"
#include "request/slowlog.h"
#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Clients ------------------------------------------------------------------------------- */

void client_set_user(struct client *client, const struct user *user)
{
    if (user != client->user) {
        user_hold(user);
        user_let_go(client->user);
        client->user = user;
    }
}

void client_copy(struct client *to, const struct client *from)
{
    client_set_user(to, from->user);
    *to = *from;
}

/* ---- The host ------------------------------------------------------------------------------ */

static struct session *session_in(struct host *host)
{
    return (struct session *)host;
}

void session_enter(struct session *session)
{
    if (!session->inside) {
        session->inside = true;
        quiet_enter(&session->server->quiet, session->seat);
    }
}

/* Leaves the batch. All changes recorded in the batch must have been applied. */
static void session_leave(struct session *session)
{
    if (session->inside) {
        session->inside = false;
        quiet_leave(&session->server->quiet, session->seat);
    }
}

/* Reserves space to hold one more entry. Returns false if out of memory. */
static bool session_can_hold(struct session *session)
{
    if (session->holds == session->holds_room) {
        const size_t room = session->holds_room ? 2 * session->holds_room : 16;
        struct entry **held = realloc(session->held, room * sizeof(struct entry *));
        if (!held) {
            return false;
        }
        session->held = held;
        session->holds_room = room;
    }
    return true;
}

struct entry *session_find(struct session *session, bg_bytes name)
{
    struct server *server = session->server;
    if (session->inside && !session->is_job) {
        return catalog_find(server->catalog, name, session->now);
    }
    const bool outside = !session->inside;
    session_enter(session);
    struct entry *entry = catalog_find(server->catalog, name, session->now);
    if (entry && !session_can_hold(session)) {
        return entry; /* out of memory, so the session stays in the batch instead */
    }
    if (entry) {
        catalog_hold(entry);
        session->held[session->holds++] = entry;
    }
    if (outside) {
        session_leave(session);
    }
    return entry;
}

static struct object *session_host_find(struct host *host, bg_bytes name)
{
    struct entry *entry = session_find(session_in(host), name);
    return entry ? entry->object : NULL;
}

static bool session_host_is_gate(struct host *host, bg_bytes name)
{
    struct gates *gates = session_in(host)->server->gates;
    return gates && gates_has(gates, name);
}

bg_err session_refuse_gate(struct session *session, bg_bytes name, bg_errinfo *info)
{
    char shown[64];
    if (!session_host_is_gate(&session->host, name) || session_find(session, name)) {
        return BG_OK; /* a filter from before the gate was configured can be replaced */
    }
    *info = (bg_errinfo){ .code = BG_ENOTSUP };
    (void)snprintf(info->message, sizeof info->message, ARGS_IS_GATE,
                   args_show(name, shown));
    return BG_ENOTSUP;
}

static const char session_too_many[] =
    "cannot create another filter: the max-filters limit is reached";

static bg_err session_limit(bg_errinfo *info, bg_err code, const char *message)
{
    *info = (bg_errinfo){ .code = code };
    (void)snprintf(info->message, sizeof info->message, "%s", message);
    return code;
}

/* Checks the maximum number of filters. */
static bg_err session_fits(struct session *session, bg_bytes name, uint32_t flags,
                           bg_errinfo *info)
{
    const struct settings *settings = session->from;
    const struct catalog *catalog = session->server->catalog;
    if (settings->max_filters && catalog_count(catalog) >= settings->max_filters
        && !(flags & CATALOG_REPLACE && session_find(session, name))) {
        return session_limit(info, BG_EQUOTA, session_too_many);
    }
    return BG_OK;
}

/* Adds an object under a name. The object stays valid until the handler has returned, even if
 * another client drops it. */
static bg_err session_name(struct session *session, bg_bytes name,
                           struct object *object, const struct entry_base *base,
                           const struct catalog_terms *terms, bg_errinfo *info)
{
    struct server *server = session->server;
    const bool outside = !session->inside;
    if (session->is_job && !session_can_hold(session)) {
        *info = (bg_errinfo){ .code = BG_ENOMEM };
        return BG_ENOMEM;
    }
    struct catalog_terms limited = *terms;
    limited.most = session->from->max_filters;
    quota_terms(session, &limited);
    session_enter(session);
    bg_err err = catalog_put_on(server->catalog, name, object, base, &limited,
                                session->now, info);
    if (err == BG_EQUOTA && !info->message[0]) {
        err = session_limit(info, BG_EQUOTA, session_too_many);
    }
    if (!err) {
        catalog_grew(server->catalog, object_bytes(object));
        if (session->is_job) {
            catalog_hold(object->entry);
            session->held[session->holds++] = object->entry;
        }
    }
    if (outside && session->is_job) {
        session_leave(session);
    }
    return err;
}

bg_err session_is_free(struct session *session, bg_bytes name, bg_errinfo *info)
{
    char shown[64];
    if (!persist_doubts(session->server->persist, name)
        || session_find(session, name)) {
        return BG_OK;
    }
    *info = (bg_errinfo){ .code = BG_EIO };
    (void)snprintf(
        info->message, sizeof info->message,
        "the journal was damaged, and filter '%s' may have been lost: DEL it to accept "
        "the loss, or upload it (HTTP PUT)",
        args_show(name, shown));
    return BG_EIO;
}

bg_err session_put(struct session *session, bg_bytes name, struct object *object,
                   const struct catalog_terms *terms, bg_errinfo *info)
{
    struct persist *persist = session->server->persist;
    bg_errinfo own = { 0 };
    info = info ? info : &own;
    session->wrote = true;
    if (fronts_named(session->server->fronts, name)) {
        *info = (bg_errinfo){ .code = BG_EINVAL };
        (void)snprintf(
            info->message, sizeof info->message,
            "the name belongs to a sharded filter in the settings; use another name");
        return BG_EINVAL;
    }
    const bool creates = !(terms->flags & CATALOG_REPLACE)
                         || (terms->flags & CATALOG_INSTEAD_OF && !terms->instead_of);
    bg_err err = session_refuse_gate(session, name, info);
    err = err || !creates ? err : session_is_free(session, name, info);
    err = err ? err : session_fits(session, name, terms->flags, info);
    if (err) {
        return err;
    }
    /* The object's memory was reserved when it was created. The catalog counts the entry without
     * checking the limit, so the limit is checked here, and no other thread gets the bytes. */
    const uint64_t cost = catalog_cost(name);
    if (!ledger_reserve(LEDGER_OBJECTS, cost)) {
        return session_limit(info, BG_ENOMEM,
                             "cannot create the filter: it would exceed maxmemory");
    }
    struct entry_base base = { .from = 0 };
    if (object->born_full && persist) {
        /* The content is saved before the object is named (P4). */
        session_leave(session);
        /* Buffers for writing the file do not count toward the user's quota. */
        struct ledger_budget *budget = ledger_set_budget(NULL);
        err = persist_save(persist, object, &base, info);
        (void)ledger_set_budget(budget);
    }
    if (!err) {
        err = session_name(session, name, object, base.file[0] ? &base : NULL, terms,
                           info);
        if (err && persist) {
            persist_discard(persist, &base);
        }
    }
    ledger_release(LEDGER_OBJECTS, cost);
    return err;
}

static bg_err session_host_create(struct host *host, bg_bytes name,
                                  struct object *object, bg_errinfo *info)
{
    const struct catalog_terms terms = { .flags = 0 };
    return session_put(session_in(host), name, object, &terms, info);
}

static bg_err session_host_replace(struct host *host, bg_bytes name,
                                   const struct object *instead_of,
                                   struct object *object, bg_errinfo *info)
{
    const struct catalog_terms terms = { .flags = CATALOG_REPLACE | CATALOG_INSTEAD_OF
                                                  | CATALOG_KEEP_EXPIRY,
                                         .instead_of = instead_of->entry };
    return session_put(session_in(host), name, object, &terms, info);
}

struct entry *session_see(struct session *session, bg_bytes name,
                          struct catalog_terms *terms)
{
    struct entry *entry = session_find(session, name);
    terms->flags |= CATALOG_REPLACE | CATALOG_INSTEAD_OF | CATALOG_UNCHANGED;
    terms->instead_of = entry;
    terms->changes = entry ? atomic_load(&entry->changes) : 0;
    session_leave(session); /* safe because a job holds the entry */
    quiet_wait(&session->server->quiet);
    return entry;
}

bg_err session_drop(struct session *session, bg_bytes name,
                    const struct catalog_terms *terms, bg_errinfo *info)
{
    session->wrote = true;
    const bg_err err =
        catalog_drop_on(session->server->catalog, name, terms, session->now, info);
    if (!err || err == BG_ENOTFOUND) {
        persist_name_is_free(session->server->persist, name);
    }
    return err;
}

static bool session_host_drop(struct host *host, bg_bytes name)
{
    const struct catalog_terms terms = { .flags = 0 };
    return session_drop(session_in(host), name, &terms, NULL) == BG_OK;
}

/* Describes the limit rather than the n adds that exceed it, because pipelined requests are charged
 * together. `wait` is the result of user_take. */
static void session_describe_rate(const struct user *user, uint64_t wait,
                                  bg_errinfo *info)
{
    char limit[300] = "insert-rate";
    uint64_t rate, burst;
    if (user_rate(user, &rate, &burst)) {
        (void)snprintf(limit, sizeof limit, "rate of user %s", user_name(user));
    }
    *info = (bg_errinfo){ .code = BG_EQUOTA };
    if (wait == UINT64_MAX) {
        (void)snprintf(info->message, sizeof info->message,
                       "%s: more than %llu adds at once; send fewer items together",
                       limit, (unsigned long long)burst);
    } else {
        (void)snprintf(info->message, sizeof info->message,
                       "%s: over the limit of %llu adds/s; try again in %llu ms", limit,
                       (unsigned long long)rate, (unsigned long long)wait);
    }
}

/* Checks the insert rate of the client's user. Returns false if the client has to wait. */
bool session_may_add(struct session *session, size_t n, bg_errinfo *info)
{
    uint64_t wait = 0;
    if (!session->client || !session->client->user
        || user_take(session->client->user, n, session->ticks, &wait)) {
        return true;
    }
    session_describe_rate(session->client->user, wait, info);
    return false;
}

static bg_err session_host_record(struct host *host, struct object *object,
                                  const struct change *change, bg_errinfo *info)
{
    struct session *session = session_in(host);
    session->wrote = true;
    if (change->op == CHANGE_ADD && !session_may_add(session, change->n, info)) {
        return BG_EQUOTA;
    }
    session_enter(session);
    const bg_err err = catalog_changing(object->entry, info);
    if (err || !session->server->persist) {
        return err;
    }
    return persist_record(session->server->persist, object->entry, change, info);
}

static bg_err session_host_checkpoint(struct host *host, struct object *object,
                                      bg_errinfo *info)
{
    struct session *session = session_in(host);
    session->wrote = true;
    session_leave(session);
    const bg_err err = catalog_changing(object->entry, info);
    if (err || !session->server->persist) {
        return err;
    }
    /* The change has already been applied, so saving it is exempt from the memory limit. */
    const bool before = ledger_exempt(true);
    const bg_err kept =
        persist_checkpoint(session->server->persist, object->entry, info);
    (void)ledger_exempt(before);
    return kept;
}

static uint64_t session_host_now(struct host *host)
{
    return session_in(host)->now;
}

static uint64_t session_host_ticks(struct host *host)
{
    return session_in(host)->ticks;
}

/*
 * Lookups. A worker queries only the filter and replies immediately if the answer is "no".
 * Otherwise, a job completes the lookup by running the request again with the ticket that the
 * worker obtained.
 */
static bg_err session_host_lookup(struct host *host, bg_bytes name, bg_bytes key,
                                  struct store_row *row, bg_outcome *outcome,
                                  bg_errinfo *info)
{
    struct session *session = session_in(host);
    struct gates *gates = session->server->gates;
    if (!gates) {
        return BG_ENOTFOUND;
    }
    if (session->has_ticket) {
        session->has_ticket = false;
        /* The key is unchanged, but its bytes are now in the job's copy of the request. */
        session->ticket.ticket.key = key.data;
        *outcome = gates_finish(&session->ticket, row);
        return BG_OK;
    }
    bg_err err = row ? gates_check_rows(gates, name, info) : BG_OK;
    if (err || session->is_job) {
        return err ? err : gates_lookup(gates, name, key, row, outcome, info);
    }
    session->ticket = (struct gates_ticket){ .gate = NULL };
    err = gates_begin(gates, name, key, &session->ticket, outcome, info);
    if (err || !session->ticket.gate) {
        return err;
    }
    session->has_ticket = true;
    session->deferred = true;
    return BG_EBUSY;
}

static bg_err session_host_wrote(struct host *host, bg_bytes name, bg_bytes key,
                                 bg_errinfo *info)
{
    struct gates *gates = session_in(host)->server->gates;
    return gates ? gates_wrote(gates, name, key, info) : BG_ENOTFOUND;
}

void session_abandon(struct session *session)
{
    if (session->has_ticket) {
        session->has_ticket = false;
        gates_abandon(&session->ticket);
    }
}

/* Builds the path of a file. All files are in one directory, which is created when needed. File
 * names must be printable ASCII without slashes or a leading dot. */
static bg_err session_host_path(struct host *host, bg_bytes file, char *path,
                                size_t room, bg_errinfo *info)
{
    const char *bytes = file.data;
    bool plain = file.len > 0 && file.len < 200 && bytes[0] != '.';
    for (size_t i = 0; plain && i < file.len; i++) {
        plain = bytes[i] > ' ' && bytes[i] < 127 && bytes[i] != '/' && bytes[i] != '\\';
    }
    const char *dir = session_in(host)->from->dir;
    int n = plain ? snprintf(path, room, "%s/files", dir) : -1;
    if (n > 0 && (size_t)n < room) {
        /* If creating the directory fails, the next operation reports the error. */
        (void)mkdir(path, 0700);
        n = snprintf(path, room, "%s/files/%.*s", dir, (int)file.len, bytes);
    }
    if (n < 0 || (size_t)n >= room) {
        if (info) {
            *info = (bg_errinfo){ .code = BG_EINVAL };
            (void)snprintf(
                info->message, sizeof info->message,
                "invalid file name: use 1 to 199 printable ASCII characters without blanks, '/' "
                "or '\\', and not starting with '.'");
        }
        return BG_EINVAL;
    }
    return BG_OK;
}

static uint64_t session_host_number(struct host *host, const struct object *object)
{
    (void)host;
    return object->id;
}

static void session_host_disclose(struct host *host, bg_bytes name)
{
    const struct client *client = session_in(host)->client;
    log_event(LOG_EVENT_SECRET, name, "user %.64s at %s read the filter's secret",
              user_name(client->user), client->address);
}

static const struct host_ops session_ops = {
    .find = session_host_find,
    .create = session_host_create,
    .replace = session_host_replace,
    .drop = session_host_drop,
    .record = session_host_record,
    .checkpoint = session_host_checkpoint,
    .now = session_host_now,
    .ticks = session_host_ticks,
    .lookup = session_host_lookup,
    .wrote = session_host_wrote,
    .is_gate = session_host_is_gate,
    .path = session_host_path,
    .number = session_host_number,
    .disclose = session_host_disclose,
    .commands = scan_commands,
};

/* ---- Creating and freeing ---------------------------------------------------------------- */

bool session_init(struct session *session, struct server *server, bool is_job)
{
    memset(session, 0, sizeof *session);
    session->host.ops = &session_ops;
    session->host.settings = &session->settings;
    session->server = server;
    session->is_job = is_job;
    session->seat = quiet_sit(&server->quiet);
    return session->seat >= 0;
}

void session_fini(struct session *session)
{
    quiet_rise(&session->server->quiet, session->seat);
    free(session->held);
}

void session_take_settings(struct session *session)
{
    const struct settings *s = settings_now(session->server->store);
    session->from = s;
    if (s->version == session->version) {
        return;
    }
    session->version = s->version;
    session->settings = (struct command_settings){
        .bf_error_rate = s->bf_error_rate,
        .bf_initial_size = s->bf_initial_size,
        .bf_expansion_factor = (uint32_t)s->bf_expansion_factor,
        .cf_bucket_size = (uint32_t)s->cf_bucket_size,
        .cf_initial_size = s->cf_initial_size,
        .cf_max_iterations = (uint32_t)s->cf_max_iterations,
        .cf_expansion_factor = (uint32_t)s->cf_expansion_factor,
        .cf_max_expansions = (uint32_t)s->cf_max_expansions,
        .max_filter_bytes = s->max_filter_memory,
        .hash = settings_hash(s),
        .secrets = keyrings_source(session->server->keyrings),
    };
}

void session_begin(struct session *session)
{
    session->now = clock_now();
    session->ticks = clock_ticks();
    session->wrote = false;
    if (session->is_job) {
        quiet_enter(&session->server->readers, session->seat);
    }
    session_take_settings(session);
    session->inside = !session->is_job;
    if (session->inside) {
        quiet_enter(&session->server->quiet, session->seat);
    }
}

void session_let_go(struct session *session)
{
    if (session->is_job) {
        session_leave(session);
    }
    while (session->holds > 0) {
        catalog_release(session->held[--session->holds]);
    }
}

void session_each(struct session *session,
                  void (*visit)(void *context, struct entry *entry), void *context)
{
    struct entry *some[64];
    uint64_t after = 0;
    size_t n = 0;
    while ((n = catalog_scan(session->server->catalog, after, some, 64)) > 0) {
        const bool outside = !session->inside;
        after = some[n - 1]->number;
        session_enter(session);
        for (size_t i = 0; i < n; i++) {
            visit(context, some[i]);
            catalog_release(some[i]);
        }
        if (outside) {
            session_leave(session);
        }
    }
}

static void session_pass_counts(struct session *session)
{
    if (session->counted) {
        user_count(session->counted, session->queries, session->adds);
        session->counted = NULL;
    }
    session->queries = session->adds = 0;
}

void session_count(struct session *session, uint64_t queries, uint64_t adds)
{
    const struct user *user = session->client ? session->client->user : NULL;
    if (user != session->counted) {
        session_pass_counts(session);
        session->counted = user;
    }
    session->queries += queries;
    session->adds += adds + session->host.added;
    session->host.added = 0;
}

void session_end(struct session *session)
{
    session_pass_counts(session);
    session_leave(session);
    session_let_go(session);
    if (session->is_job) {
        quiet_leave(&session->server->readers, session->seat);
    }
}

/* ---- Requests ------------------------------------------------------------------------------ */

/* The patterns for filter names also apply to file names, because all users share the file
 * directory. */
static bool session_may_file(const struct client *client, const struct command *command,
                             const bg_bytes *argv, size_t argc)
{
    const unsigned need = (command->flags & COMMAND_READS_FILE ? USER_READ : 0)
                          | (command->flags & COMMAND_WRITES_FILE ? USER_WRITE : 0);
    return need == 0 || argc < 3 || user_may_touch(client->user, argv[2], need);
}

static const char *session_no_right(const struct client *client,
                                    const struct command *command, const bg_bytes *argv,
                                    size_t argc, char text[SESSION_TEXT])
{
    char name[CMD_NAME];
    if (!client->user) {
        return "NOAUTH Authentication required.";
    }
    if (!user_may_run(client->user, command)) {
        (void)snprintf(text, SESSION_TEXT,
                       "NOPERM User %.64s has no permissions to run the '%s' command",
                       user_name(client->user), cmd_lower(command->name, name));
        return text;
    }
    const unsigned need =
        command->flags & COMMAND_WRITE ? USER_READ | USER_WRITE : USER_READ;
    if (command->first_key > 0) {
        const size_t last = command->last_key < 0 ? argc - (size_t)-command->last_key
                                                  : (size_t)command->last_key;
        for (size_t i = (size_t)command->first_key; i <= last && i < argc;
             i += (size_t)command->key_step) {
            if (!user_may_touch(client->user, argv[i], need)) {
                return "NOPERM No permissions to access a key";
            }
        }
    }
    if (!session_may_file(client, command, argv, argc)) {
        return "NOPERM No permissions to access a file with that name";
    }
    return NULL;
}

/* Returns the reason why the service cannot run a command in its current state, or NULL if it
 * can. */
static const char *session_no_state(const struct session *session,
                                    const struct command *command,
                                    char text[SESSION_TEXT])
{
    const struct server *server = session->server;
    const int phase = atomic_load_explicit(&server->phase, memory_order_relaxed);
    if (phase <= SERVER_LOADING && !(command->flags & COMMAND_LOADING)) {
        return "LOADING bloomgated is loading its filters";
    }
    if (!(command->flags & COMMAND_WRITE)) {
        return NULL;
    }
    if (command->flags & COMMAND_DENYOOM && ledger_is_full()) {
        return "OOM command not allowed when used memory > 'maxmemory'.";
    }
    char why[BG_ERR_MESSAGE_MAX];
    if (!(command->flags & COMMAND_UNRECORDED) && server->persist
        && !persist_works(server->persist, why)) {
        (void)snprintf(text, SESSION_TEXT, "MISCONF writes are disabled: %s", why);
        return text;
    }
    return NULL;
}

/* While filters are being loaded, nothing is known about their keys, so "maybe" is a valid
 * answer. */
static bool session_answers_maybe(const struct session *session,
                                  const struct command *command)
{
    const int phase =
        atomic_load_explicit(&session->server->phase, memory_order_relaxed);
    return command->flags & COMMAND_ASKS && phase <= SERVER_LOADING
           && session->from->loading == LOADING_MAYBE;
}

void session_admit(struct session *session, const struct client *client,
                   const struct request *request, struct admission *a)
{
    const struct command *command = request->command;
    a->verdict = SESSION_DENIED;
    a->front = NULL;
    a->error =
        command->flags & COMMAND_NOAUTH
            ? NULL
            : session_no_right(client, command, request->argv, request->argc, a->text);
    if (a->error) {
        return;
    }
    if (session_answers_maybe(session, command) && !client->multi) {
        a->verdict = SESSION_MAYBE;
        return;
    }
    a->error = session_no_state(session, command, a->text);
    if (!a->error && session->server->fronts) {
        a->front =
            fronts_find(session->server->fronts, command, request->argv, request->argc);
    }
    a->verdict = a->error   ? SESSION_REFUSED
                 : a->front ? SESSION_IN_CLUSTER
                            : SESSION_ADMITTED;
}

/* Replies with "ERR unknown command 'x', with args beginning with: 'y' 'z' ", which is the text
 * that Redis clients expect. */
static void session_unknown(struct client *client, const struct reply *reply,
                            const bg_bytes *argv, size_t argc)
{
    char text[SESSION_TEXT], word[64];
    size_t n = 0;
    text[0] = 0;
    /* A web page can make a browser send an HTTP request to this port, with commands as lines of
     * the request body. So a line that looks like HTTP closes the connection before the next line
     * is read. */
    if (args_is(argv[0], "POST") || args_is(argv[0], "HOST:")) {
        client->close = true;
        log_event(LOG_EVENT_REFUSED, (bg_bytes){ NULL, 0 },
                  "client %s sent HTTP to the RESP port; connection closed",
                  client->address);
    }
    if (!client->user) {
        reply_error(reply, "NOAUTH Authentication required.");
        return;
    }
    for (size_t i = 1; i < argc && n < 128; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "'%s' ",
                              args_show(argv[i], word));
    }
    reply_errorf(reply, "ERR unknown command '%s', with args beginning with: %s",
                 args_show(argv[0], word), text);
}

/* Finds the command or subcommand of a request. If there is no such command, sends an error and
 * returns NULL. */
static const struct command *session_command(const struct session *session,
                                             struct client *client,
                                             const bg_bytes *argv, size_t argc,
                                             const struct reply *reply)
{
    const struct command_table *table = session->server->commands;
    const struct command *command = command_find(table, argv[0]), *sub = NULL;
    if (!command || command->flags & COMMAND_SUB) {
        session_unknown(client, reply, argv, argc);
        return NULL;
    }
    if (!(command->flags & COMMAND_CONTAINER) || argc < 2) {
        return command;
    }
    sub = command_find_sub(table, command, argv[1]);
    if (!sub) {
        char word[64];
        reply_errorf(reply, "ERR unknown subcommand '%s'. Try %s HELP.",
                     args_show(argv[1], word), command->name);
    }
    return sub;
}

/* Returns whether a name may have been the name of a lost filter, in which case lookups answer
 * "maybe" (doubt.h). */
static bool session_doubts(struct session *session, const struct command *command,
                           const bg_bytes *argv)
{
    return command->flags & COMMAND_ASKS && atomic_load(&session->server->doubts)
           && persist_doubts(session->server->persist, argv[1])
           && !session_find(session, argv[1]);
}

static void session_answer_maybe(const struct command *command, size_t argc,
                                 const struct reply *reply)
{
    const size_t keys = argc > 2 ? argc - 2 : 0;
    if (command->flags & COMMAND_COUNTS) {
        reply_integer(reply, 1);
        return;
    }
    if (command->arity > 0) {
        reply_boolean(reply, true);
        return;
    }
    reply_array(reply, keys);
    for (size_t i = 0; i < keys; i++) {
        reply_boolean(reply, true);
    }
}

/* The reply to a write command depends on earlier changes by any client, because "already added"
 * promises that the key is stored. So the reply waits until those changes are durable; see
 * object.h. */
static void session_changes(struct session *session, const struct command *command)
{
    session->wrote =
        session->wrote
        || (command->flags & (COMMAND_WRITE | COMMAND_UNRECORDED)) == COMMAND_WRITE;
}

/* Adds n requests that were answered together to the slow log if they were slow. */
static void session_note_time(struct session *session, const struct request *request,
                              size_t n, uint64_t began)
{
    const uint64_t took = (clock_nanoseconds() - began) / 1000;
    if (took >= session->from->slowlog_from && session->server->slowlog) {
        slowlog_note(session->server->slowlog, session, request, n, took);
    }
}

/* Counts the keys of a request or, if `many` is set, of n requests with one key each. */
static void session_count_keys(struct session *session, const struct request *request,
                               bool many, size_t n)
{
    const struct command *command = request->command;
    const bool of_gate = command->behavior.needs == NEEDS_GATES;
    const bool asks = command->flags & COMMAND_ASKS
                      || (of_gate && command->behavior.effect == EFFECT_NONE);
    const bool reports = of_gate && command->behavior.effect == EFFECT_ADDS;
    if (!session->deferred) { /* a deferred request runs again */
        const size_t keys = many ? n : request->argc > 2 ? request->argc - 2 : 0;
        session_count(session, asks ? keys : 0, reports ? keys : 0);
    }
}

/* Returns whether a user's quota limits the memory that a command may keep: filters that it creates
 * or enlarges, and copies. */
static bool session_has_quota(const struct session *session,
                              const struct command *command)
{
    const struct user *user = session->client ? session->client->user : NULL;
    return user && command->flags & (COMMAND_WRITE | COMMAND_COPIES)
           && command->first_key > 0 && command->behavior.needs != NEEDS_GATES
           && user_has_quota(user);
}

static void session_handle(struct request *request, const bg_bytes *items, size_t n)
{
    if (items) {
        request->command->run_many(request, items, n);
    } else {
        request->command->run(request);
    }
}

void session_perform(struct session *session, struct request *request,
                     const bg_bytes *items, size_t n)
{
    const uint64_t began = clock_nanoseconds();
    if (!(request->command->flags & COMMAND_ASKS)) { /* lookups reserve no memory */
        ledger_forget();
    }
    if (session_doubts(session, request->command, request->argv)) {
        for (size_t i = 0; i < n; i++) {
            session_answer_maybe(request->command, request->argc, &request->reply);
        }
        session_count_keys(session, request, items != NULL, n);
        return;
    }
    session_changes(session, request->command);
    if (session_has_quota(session, request->command)) {
        struct quota quota;
        quota_begin(&quota, session, request->command->flags & COMMAND_WRITE);
        session_handle(request, items, n);
        quota_end(&quota, session, request->argv[request->command->first_key]);
    } else {
        session_handle(request, items, n);
    }
    session_count_keys(session, request, items != NULL, n);
    session_note_time(session, request, n, began);
}

/* Sends the error for a request that was not admitted. If the request is part of a transaction, the
 * transaction fails. */
static void session_reject(struct client *client, const struct request *request,
                           const struct admission *admission)
{
    if (admission->verdict == SESSION_DENIED && client->user) {
        user_refused(client->user);
    }
    multi_fail(client);
    reply_error(&request->reply, admission->error);
}

void session_run_queued(struct session *session, const struct command *command,
                        const bg_bytes *argv, size_t argc, const struct reply *reply)
{
    struct admission admission;
    struct request request = { .host = &session->host,
                               .command = command,
                               .argv = argv,
                               .argc = argc,
                               .reply = *reply };
    session_admit(session, session->client, &request, &admission);
    if (admission.error) {
        session_reject(session->client, &request, &admission);
    } else {
        session_perform(session, &request, NULL, 1);
    }
}

bool session_stalls(struct session *session, const struct command *command,
                    bg_bytes name, size_t n)
{
    const struct entry *entry =
        command->flags & COMMAND_CLAIMS ? session_find(session, name) : NULL;
    if (!entry || entry->object->commutes) { /* no lock */
        return false;
    }
    if (object_will_stall(entry->object, n, &session->host)
        || !object_claim(entry->object)) {
        return true;
    }
    session->claimed = entry->object;
    return false;
}

void session_unclaim(struct session *session)
{
    if (session->claimed) {
        object_unclaim(session->claimed);
        session->claimed = NULL;
    }
}

bool session_may_stall(struct session *session, const struct command *command,
                       const bg_bytes *argv)
{
    const struct entry *entry =
        command->flags & COMMAND_CLAIMS ? session_find(session, argv[1]) : NULL;
    return entry && !entry->object->commutes;
}

uint64_t session_lane(const struct session *session, const struct command *command,
                      const bg_bytes *argv, size_t argc)
{
    const size_t at = (size_t)command->first_key;
    if (command->flags & COMMAND_NOAUTH) { /* runs as a job to check a password */
        return JOBS_LANE_PASSWORDS;
    }
    return command->flags & COMMAND_WRITE && at > 0 && at < argc
               ? catalog_hash(session->server->catalog, argv[at])
               : 0;
}

void session_forward(struct session *session, struct front *front,
                     struct request *request, bool many)
{
    const uint64_t began = clock_nanoseconds();
    bg_errinfo info = { 0 };
    const size_t n = request->argc - 2;
    if (!(request->command->flags & COMMAND_WRITE)
        || session_may_add(session, n, &info)) {
        front_run(front, request, many);
        const bool adds = request->command->flags & COMMAND_WRITE;
        session_count(session, adds ? 0 : n, adds ? n : 0);
        session_note_time(session, request, many ? n : 1, began);
        return;
    }
    for (size_t i = 0; i < (many ? n : 1); i++) {
        reply_errorf(&request->reply, "LIMIT %s", info.message);
    }
}

/* Handles a request for a filter in a cluster. A job forwards the request. */
static void session_run_front(struct session *session, struct front *front,
                              struct request *request)
{
    if (session->client->multi || request->command->behavior.front != FRONT_FORWARDS) {
        multi_fail(session->client);
        front_refuse(front, request);
    } else if (!session->is_job) {
        session->deferred = true;
    } else {
        session_forward(session, front, request, false);
    }
}

static void session_run_known(struct session *session, struct client *client,
                              struct request *request)
{
    const struct command *command = request->command;
    struct admission admission;
    session_admit(session, client, request, &admission);
    if (admission.error) {
        session_reject(client, request, &admission);
    } else if (admission.verdict == SESSION_MAYBE) {
        session_answer_maybe(command, request->argc, &request->reply);
    } else if (admission.front) {
        session_run_front(session, admission.front, request);
    } else if (client->multi && !(command->flags & COMMAND_AT_ONCE)) {
        multi_queue(client, request, session->from->client_query_buffer_limit);
    } else if (!session->is_job
               && (command->flags & COMMAND_SLOW || request->argc > SESSION_QUICK
                   || session_stalls(session, command, request->argv[1],
                                     request->argc))) {
        session->deferred = true;
    } else {
        session_perform(session, request, NULL, 1);
        session_unclaim(session);
    }
}

void session_run(struct session *session, struct client *client, const bg_bytes *argv,
                 size_t argc, const struct reply *reply)
{
    session->client = client;
    session->deferred = false;
    const struct command *command = session_command(session, client, argv, argc, reply);
    if (!command) {
        multi_fail(client);
        return;
    }
    struct request request = { .host = &session->host,
                               .command = command,
                               .argv = argv,
                               .argc = argc,
                               .reply = *reply };
    client->last = command;
    if (!command_arity_fits(command, argc)) {
        multi_fail(client);
        args_arity(&request);
        return;
    }
    session_run_known(session, client, &request);
}
