/*
 * commands/admin.c - commands for operators, such as saving and stopping, and queries that Redis clients
 * send to any server. INFO, CONFIG, ACL and COMMAND have separate files.
 */
#include "core/server.h"
#include "persist/persist.h"
#include "request/cmd.h"
#include "request/jobs.h"
#include "util/log.h"

#include <stdlib.h>
#include <sys/time.h>

static const char admin_keeps_nothing[] =
    "ERR persistence is disabled (appendonly is set to no)";

/* ---- Saving -------------------------------------------------------------------------------- */

static void admin_save(struct request *request)
{
    struct persist *persist = session_of(request)->server->persist;
    bg_errinfo info = { 0 };
    if (!persist) {
        reply_error(&request->reply, admin_keeps_nothing);
        return;
    }
    const bg_err err = persist_snapshot(persist, &info);
    if (err) {
        args_failed(request, err, &info, "");
    } else {
        reply_ok(&request->reply);
    }
}

/* A job that takes a snapshot in the background; no client waits for it. */
struct saving {
    struct job job; /* must be first */
    struct server *server;
};

static void saving_run(struct job *job, struct session *session)
{
    (void)job;
    /* persist_snapshot logs the result itself. */
    (void)persist_snapshot(session->server->persist, NULL);
}

static void saving_done(struct job *job)
{
    struct saving *saving = (struct saving *)job;
    atomic_store(&saving->server->saving, false);
    free(saving);
}

/* Starts a snapshot, unless one is in progress. */
static void admin_start_saving(struct request *request, const char *started,
                               const char *running)
{
    struct server *server = session_of(request)->server;
    struct saving *saving = NULL;
    bool idle = false;
    if (!server->persist) {
        reply_error(&request->reply, admin_keeps_nothing);
        return;
    }
    if (!atomic_compare_exchange_strong(&server->saving, &idle, true)) {
        reply_error(&request->reply, running);
        return;
    }
    saving = malloc(sizeof *saving);
    if (!saving) {
        atomic_store(&server->saving, false);
        reply_error(&request->reply, "ERR out of memory: cannot start a snapshot");
        return;
    }
    *saving = (struct saving){ .job = { .run = saving_run, .done = saving_done },
                               .server = server };
    jobs_submit(server->jobs, &saving->job);
    reply_status(&request->reply, started);
}

static void admin_bgsave(struct request *request)
{
    if (request->argc > 2
        || (request->argc == 2 && !args_is(request->argv[1], "SCHEDULE"))) {
        cmd_syntax(request);
        return;
    }
    admin_start_saving(request, "Background saving started",
                       "ERR Background save already in progress");
}

static void admin_bgrewriteaof(struct request *request)
{
    admin_start_saving(request, "Background append only file rewriting started",
                       "ERR Background append only file rewriting already in progress");
}

static void admin_lastsave(struct request *request)
{
    const struct server *server = session_of(request)->server;
    struct persist_stats stats = { .last_snapshot = 0 };
    if (server->persist) {
        persist_about(server->persist, &stats);
    }
    const uint64_t last = stats.last_snapshot ? stats.last_snapshot : server->started;
    reply_integer(&request->reply, (int64_t)(last / 1000));
}

/* ---- Stopping ---------------------------------------------------------------------------- */

struct shutdown {
    bool save, nosave, now, force, abort;
};

static bool shutdown_read(struct request *request, struct shutdown *how)
{
    for (size_t i = 1; i < request->argc; i++) {
        const bg_bytes word = request->argv[i];
        how->save = how->save || args_is(word, "SAVE");
        how->nosave = how->nosave || args_is(word, "NOSAVE");
        how->now = how->now || args_is(word, "NOW");
        how->force = how->force || args_is(word, "FORCE");
        how->abort = how->abort || args_is(word, "ABORT");
        if (!args_is(word, "SAVE") && !args_is(word, "NOSAVE") && !args_is(word, "NOW")
            && !args_is(word, "FORCE") && !args_is(word, "ABORT")) {
            return false;
        }
    }
    return !(how->save && how->nosave) && !(how->abort && request->argc > 2);
}

/* Stops the service. The client gets no reply; its connection is closed. All changes are in the
 * journal, so a snapshot is not necessary, but it makes the next start faster. */
static void admin_shutdown(struct request *request)
{
    struct session *session = session_of(request);
    struct persist *persist = session->server->persist;
    struct shutdown how = { .save = false };
    bg_errinfo info = { 0 };
    if (!shutdown_read(request, &how)) {
        cmd_syntax(request);
        return;
    }
    if (how.abort) {
        reply_error(&request->reply, "ERR No shutdown in progress.");
        return;
    }
    if (how.save && persist && persist_snapshot(persist, &info) && !how.force) {
        reply_error(&request->reply, "ERR Errors trying to SHUTDOWN. Check logs.");
        return;
    }
    log_info("stopping", LOG_FIELDS(log_text("why", "SHUTDOWN"),
                                    log_text("client", session->client->address)));
    session->client->close = true;
    server_stop(how.now);
}

/* ---- Queries ----------------------------------------------------------------------------- */

static void admin_time(struct request *request)
{
    struct timeval now;
    char text[24];
    (void)gettimeofday(&now, NULL);
    reply_array(&request->reply, 2);
    reply_bulk(&request->reply, text, buffer_digits(text, (uint64_t)now.tv_sec));
    reply_bulk(&request->reply, text, buffer_digits(text, (uint64_t)now.tv_usec));
}

static void admin_role(struct request *request)
{
    reply_array(&request->reply, 3);
    reply_text(&request->reply, "master");
    reply_integer(&request->reply, 0);
    reply_array(&request->reply, 0);
}

static void admin_wait(struct request *request)
{
    int64_t replicas = 0, timeout = 0;
    if (!cmd_integer(request->argv[1], &replicas)) {
        cmd_not_integer(request);
    } else if (!cmd_integer(request->argv[2], &timeout)) {
        reply_error(&request->reply, "ERR timeout is not an integer or out of range");
    } else if (timeout < 0) {
        reply_error(&request->reply, "ERR timeout is negative");
    } else {
        reply_integer(&request->reply, 0); /* there are no replicas */
    }
}

static void admin_cluster(struct request *request)
{
    reply_error(&request->reply, "ERR This instance has cluster support disabled");
}

void cmd_tell_modules(const struct reply *reply)
{
    reply_array(reply, 1);
    reply_map(reply, 4);
    cmd_tell_text(reply, "name", "bf");
    cmd_tell_integer(reply, "ver", CMD_MODULE_VERSION);
    cmd_tell_text(reply, "path", "");
    reply_text(reply, "args");
    reply_array(reply, 0);
}

static void admin_modules(struct request *request)
{
    cmd_tell_modules(&request->reply);
}

#define ADMIN_FLAGS (COMMAND_ADMIN | COMMAND_LOADING | COMMAND_STALE)

const struct command admin_commands[] = {
    { "SAVE", 1, COMMAND_ADMIN | COMMAND_SLOW, 0, 0, 0, 0, admin_save, NULL, "",
      "Writes a snapshot and waits until it is complete",
      "O(N) where N is the total size of all filters", "0.1.0", BEHAVIOR_SERVICE },
    { "BGSAVE", -1, COMMAND_ADMIN, 0, 0, 0, 0, admin_bgsave, NULL, "[SCHEDULE]",
      "Starts a snapshot in the background", "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "BGREWRITEAOF", 1, COMMAND_ADMIN, 0, 0, 0, 0, admin_bgrewriteaof, NULL, "",
      "Starts a snapshot in the background to shorten the journal", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "LASTSAVE", 1, COMMAND_ADMIN | COMMAND_FAST | COMMAND_LOADING | COMMAND_STALE, 0,
      0, 0, 0, admin_lastsave, NULL, "", "Returns the time of the last snapshot",
      "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "SHUTDOWN", -1, ADMIN_FLAGS | COMMAND_SLOW | COMMAND_AT_ONCE, 0, 0, 0, 0,
      admin_shutdown, NULL, "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
      "Stops the service after all running requests have been answered, or "
      "immediately with NOW",
      "O(1); with SAVE, that of SAVE", "0.1.0", BEHAVIOR_SERVICE },
    { "TIME", 1, COMMAND_FAST | COMMAND_LOADING | COMMAND_STALE, 0, 0, 0, 0, admin_time,
      NULL, "", "Returns the time in seconds and microseconds since 1970", "O(1)",
      "0.1.0", BEHAVIOR_SERVICE },
    { "ROLE", 1, ADMIN_FLAGS | COMMAND_FAST, 0, 0, 0, 0, admin_role, NULL, "",
      "Returns the replication role: always master, with no replicas", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "WAIT", 3, COMMAND_FAST, CATEGORY_CONNECTION, 0, 0, 0, admin_wait, NULL,
      "numreplicas timeout",
      "Returns the number of replicas that have received the writes: always 0", "O(1)",
      "0.1.0", BEHAVIOR_SERVICE },
    { "CLUSTER", -2, COMMAND_LOADING | COMMAND_STALE, 0, 0, 0, 0, admin_cluster, NULL,
      "subcommand [arg [arg ...]]", "Returns an error: cluster support is disabled",
      "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "MODULE", -2, COMMAND_CONTAINER, 0, 0, 0, 0, cmd_container, NULL, "",
      "Container for module commands", "Depends on subcommand", "0.1.0",
      BEHAVIOR_SERVICE },
    { "MODULE|LIST", 2, COMMAND_ADMIN | COMMAND_SUB, 0, 0, 0, 0, admin_modules, NULL,
      "", "Lists the modules whose commands are built in", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    CMD_HELP("MODULE"),
    CMD_END,
};
