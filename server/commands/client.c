/*
 * commands/client.c - CLIENT: lists, describes and closes connections.
 *
 * LIST, INFO and KILL run as jobs that visit every worker (rollcall.h). A connection's state is
 * copied on its worker's thread and formatted later.
 */
#include "clock.h"
#include "config/users.h"
#include "core/server.h"
#include "request/cmd.h"
#include "request/multi.h"
#include "request/rollcall.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

/* ---- Selecting connections --------------------------------------------------------------- */

enum { PICK_IDS = 64 };

/* The connections that LIST or KILL applies to; unset fields match any connection. */
struct pick {
    uint64_t ids[PICK_IDS];
    size_t ids_count;
    const bg_bytes *address, *local, *user;
    /* no connection matches, because the requested client type (such as replica) does not exist
     * here */
    bool nobody;
    bool skip_me;    /* KILL excludes the calling client */
    int64_t younger; /* KILL MAXAGE excludes connections younger than this */
    uint64_t me;
};

static bool pick_same(const bg_bytes *wanted, const char *text)
{
    return !wanted
           || (wanted->len == strlen(text)
               && memcmp(wanted->data, text, wanted->len) == 0);
}

static void client_local_address(int fd, char text[64])
{
    struct sockaddr_storage at = { .ss_family = AF_UNIX };
    socklen_t len = sizeof at;
    char host[INET6_ADDRSTRLEN] = "";
    (void)getsockname(fd, (struct sockaddr *)&at, &len);
    if (at.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&at;
        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        (void)snprintf(text, 64, "%s:%u", host, ntohs(in->sin_port));
    } else if (at.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&at;
        (void)inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host);
        (void)snprintf(text, 64, "[%s]:%u", host, ntohs(in->sin6_port));
    } else {
        (void)snprintf(text, 64, "unix");
    }
}

/* Called on the connection's thread. */
static bool pick_takes(const struct pick *pick, const struct conn *conn)
{
    const struct client *client = &conn->client;
    bool listed = pick->ids_count == 0;
    if (conn->protocol != &resp_protocol || pick->nobody
        || (pick->skip_me && client->id == pick->me)
        || !pick_same(pick->address, client->address)
        || !pick_same(pick->user, client->user ? user_name(client->user) : "")
        || (pick->younger > 0
            && clock_now() - client->since < (uint64_t)pick->younger * 1000)) {
        return false;
    }
    if (pick->local) {
        char local[64];
        client_local_address(conn->fd, local);
        if (!pick_same(pick->local, local)) {
            return false;
        }
    }
    for (size_t i = 0; !listed && i < pick->ids_count; i++) {
        listed = pick->ids[i] == client->id;
    }
    return listed;
}

static bool pick_read_id(struct request *request, bg_bytes word, const char *wrong,
                         struct pick *pick)
{
    int64_t id = 0;
    if (!cmd_integer(word, &id) || id < 1) {
        return reply_error(&request->reply, wrong);
    }
    if (pick->ids_count == PICK_IDS) {
        return reply_error(&request->reply, "ERR too many client IDs (maximum: 64)");
    }
    pick->ids[pick->ids_count++] = (uint64_t)id;
    return true;
}

static bool pick_read_type(struct request *request, bg_bytes word, struct pick *pick)
{
    char text[64];
    if (args_is(word, "NORMAL")) {
        return true;
    }
    pick->nobody = true;
    if (args_is(word, "MASTER") || args_is(word, "REPLICA") || args_is(word, "SLAVE")
        || args_is(word, "PUBSUB")) {
        return true;
    }
    return reply_errorf(&request->reply, "ERR Unknown client type '%s'",
                        args_show(word, text));
}

/* ---- Connection state -------------------------------------------------------------------- */

/* The state of a connection, copied by the job that visits the workers. */
struct facts {
    struct client client;
    int fd;
    size_t in, in_room, out, out_room;
    bool waits_to_read, waits_to_write;
    int64_t queued; /* -1: no MULTI */
    char local[64];
};

struct gathered {
    const struct pick *pick;
    struct facts *items;
    size_t count, room;
    bool failed;
};

static bool gathered_grow(struct gathered *gathered)
{
    const size_t room = gathered->room ? 2 * gathered->room : 64;
    struct facts *items = realloc(gathered->items, room * sizeof *items);
    if (!items) {
        gathered->failed = true;
        return false;
    }
    gathered->items = items;
    gathered->room = room;
    return true;
}

/* Called on the connection's thread. While a job is running for the connection, the job owns
 * `multi`. */
static void gathered_visit(void *context, struct conn *conn)
{
    struct gathered *gathered = context;
    if (!pick_takes(gathered->pick, conn)
        || (gathered->count == gathered->room && !gathered_grow(gathered))) {
        return;
    }
    struct facts *facts = &gathered->items[gathered->count++];
    *facts = (struct facts){ .client = conn->client,
                             .fd = conn->fd,
                             .in = buffer_waiting(&conn->in),
                             .in_room = conn->in.room,
                             .out = buffer_waiting(&conn->out),
                             .out_room = conn->out.room,
                             .waits_to_read = conn->waits_for & EV_READ,
                             .waits_to_write = conn->waits_for & EV_WRITE,
                             .queued = conn->busy ? -1 : multi_count(&conn->client) };
    client_local_address(conn->fd, facts->local);
}

static int facts_compare(const void *a, const void *b)
{
    const uint64_t x = ((const struct facts *)a)->client.id;
    const uint64_t y = ((const struct facts *)b)->client.id;
    return (x > y) - (x < y);
}

/* Returns the number of seconds between two times in milliseconds, or 0 if the clock moved backward
 * in between. */
static uint64_t facts_seconds(uint64_t since, uint64_t now)
{
    return now > since ? (now - since) / 1000 : 0;
}

static void facts_write(const struct facts *facts, uint64_t now, struct buffer *out)
{
    const struct client *c = &facts->client;
    char line[1024], last[CMD_NAME];
    const int n = snprintf(
        line, sizeof line,
        "id=%llu addr=%s laddr=%s fd=%d name=%s age=%llu idle=%llu flags=%s db=0 sub=0 "
        "psub=0 ssub=0 multi=%lld qbuf=%zu qbuf-free=%zu argv-mem=0 multi-mem=0 rbs=%zu "
        "rbp=%zu obl=%zu oll=0 omem=0 tot-mem=%zu events=%s%s cmd=%s user=%s redir=-1 "
        "resp=%d lib-name=%s lib-ver=%s\n",
        (unsigned long long)c->id, c->address, facts->local, facts->fd, c->name,
        (unsigned long long)facts_seconds(c->since, now),
        (unsigned long long)facts_seconds(c->active, now),
        facts->queued >= 0 ? "x" : "N", (long long)facts->queued, facts->in,
        facts->in_room - facts->in, facts->out_room, facts->out_room, facts->out,
        sizeof(struct conn) + facts->in_room + facts->out_room,
        facts->waits_to_read ? "r" : "", facts->waits_to_write ? "w" : "",
        c->last ? cmd_lower(c->last->name, last) : "NULL",
        c->user ? user_name(c->user) : "(superuser)", c->protocol, c->library,
        c->library_version);
    if (n > 0) {
        buffer_put(out, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
    }
}

/* Sends the lines of the selected connections. CLIENT INFO selects only the calling client. */
static void client_tell(struct request *request, const struct pick *pick)
{
    struct session *session = session_of(request);
    struct gathered gathered = { .pick = pick };
    struct buffer text;
    const bool all = rollcall(session->server, gathered_visit, &gathered);
    const uint64_t now = clock_now();
    buffer_init(&text, session->from->client_output_buffer_limit);
    if (gathered.count) {
        qsort(gathered.items, gathered.count, sizeof *gathered.items, facts_compare);
    }
    for (size_t i = 0; i < gathered.count; i++) {
        facts_write(&gathered.items[i], now, &text);
    }
    if (!all) {
        reply_error(&request->reply, "ERR the service is shutting down");
    } else if (gathered.failed || text.overflow) {
        reply_error(
            &request->reply,
            "ERR out of memory, or the reply exceeds client-output-buffer-limit");
    } else {
        resp_reply_verbatim(&request->reply, buffer_waiting(&text) ? text.data : "",
                            buffer_waiting(&text));
    }
    buffer_free(&text);
    free(gathered.items);
}

static void client_list(struct request *request)
{
    struct pick pick = { .skip_me = false };
    const bg_bytes *argv = request->argv;
    if (request->argc == 4 && args_is(argv[2], "TYPE")) {
        if (!pick_read_type(request, argv[3], &pick)) {
            return;
        }
    } else if (request->argc > 3 && args_is(argv[2], "ID")) {
        for (size_t i = 3; i < request->argc; i++) {
            if (!pick_read_id(request, argv[i], "ERR Invalid client ID", &pick)) {
                return;
            }
        }
    } else if (request->argc != 2) {
        cmd_syntax(request);
        return;
    }
    client_tell(request, &pick);
}

static void client_info(struct request *request)
{
    const struct pick pick = { .ids = { session_of(request)->client->id },
                               .ids_count = 1 };
    client_tell(request, &pick);
}

/* ---- KILL ---------------------------------------------------------------------------------- */

struct killing {
    const struct pick *pick;
    uint64_t killed;
    bool me;
};

static void killing_visit(void *context, struct conn *conn)
{
    struct killing *killing = context;
    if (!pick_takes(killing->pick, conn)) {
        return;
    }
    killing->killed++;
    if (conn->client.id == killing->pick->me) {
        killing->me = true; /* closed after the reply has been sent */
    } else {
        conn_close(conn);
    }
}

static bool kill_read_option(struct request *request, bg_bytes word,
                             const bg_bytes *value, struct pick *pick)
{
    if (args_is(word, "ID")) {
        return pick_read_id(request, *value, "ERR client-id should be greater than 0",
                            pick);
    }
    if (args_is(word, "TYPE")) {
        return pick_read_type(request, *value, pick);
    }
    if (args_is(word, "ADDR")) {
        pick->address = value;
    } else if (args_is(word, "LADDR")) {
        pick->local = value;
    } else if (args_is(word, "USER")) {
        pick->user = value;
    } else if (args_is(word, "MAXAGE")) {
        if (!cmd_integer(*value, &pick->younger) || pick->younger < 1
            || pick->younger > INT32_MAX) {
            return reply_error(&request->reply,
                               "ERR maxage is not an integer or out of range");
        }
    } else if (args_is(word, "SKIPME")
               && (args_is(*value, "YES") || args_is(*value, "NO"))) {
        pick->skip_me = args_is(*value, "YES");
    } else {
        return cmd_syntax(request);
    }
    return true;
}

static void client_kill(struct request *request)
{
    struct session *session = session_of(request);
    struct pick pick = { .me = session->client->id };
    struct killing killing = { .pick = &pick };
    const bool old = request->argc == 3; /* CLIENT KILL addr:port */
    if (old) {
        pick.address = &request->argv[2];
    } else if (request->argc % 2) {
        cmd_syntax(request);
        return;
    } else {
        pick.skip_me = true;
        for (size_t i = 2; i < request->argc; i += 2) {
            if (!kill_read_option(request, request->argv[i], &request->argv[i + 1],
                                  &pick)) {
                return;
            }
        }
    }
    const bool all = rollcall(session->server, killing_visit, &killing);
    session->client->close = session->client->close || killing.me;
    if (!all) {
        reply_error(&request->reply, "ERR the service is shutting down");
    } else if (!old) {
        reply_integer(&request->reply, (int64_t)killing.killed);
    } else if (killing.killed) {
        reply_ok(&request->reply);
    } else {
        reply_error(&request->reply, "ERR No such client");
    }
}

/* ---- The calling client's connection --------------------------------------------------------- */

bool cmd_set_text(struct request *request, bg_bytes value, const char *what, char *text,
                  size_t room)
{
    const char *bytes = value.data;
    if (value.len >= room) {
        return reply_errorf(&request->reply,
                            "ERR %s: found %zu bytes, expected at most %zu", what,
                            value.len, room - 1);
    }
    for (size_t i = 0; i < value.len; i++) {
        if (bytes[i] < '!' || bytes[i] > '~') {
            return reply_errorf(
                &request->reply,
                "ERR %s cannot contain spaces, newlines or special characters.", what);
        }
    }
    if (value.len) {
        memcpy(text, bytes, value.len);
    }
    text[value.len] = 0;
    return true;
}

static void client_id(struct request *request)
{
    reply_integer(&request->reply, (int64_t)session_of(request)->client->id);
}

static void client_getname(struct request *request)
{
    const struct client *client = session_of(request)->client;
    if (client->name[0]) {
        reply_text(&request->reply, client->name);
    } else {
        reply_null(&request->reply);
    }
}

static void client_setname(struct request *request)
{
    struct client *client = session_of(request)->client;
    if (cmd_set_text(request, request->argv[2], "Client names", client->name,
                     sizeof client->name)) {
        reply_ok(&request->reply);
    }
}

static void client_setinfo(struct request *request)
{
    struct client *client = session_of(request)->client;
    const bg_bytes option = request->argv[2], value = request->argv[3];
    char word[64];
    bool done = false;
    if (args_is(option, "LIB-NAME")) {
        done = cmd_set_text(request, value, "lib-name", client->library,
                            sizeof client->library);
    } else if (args_is(option, "LIB-VER")) {
        done = cmd_set_text(request, value, "lib-ver", client->library_version,
                            sizeof client->library_version);
    } else {
        reply_errorf(&request->reply, "ERR Unrecognized option '%s'",
                     args_show(option, word));
    }
    if (done) {
        reply_ok(&request->reply);
    }
}

/* Parses ON or OFF into *on; sends a syntax error for any other value. */
static void client_switch(struct request *request, bool *on)
{
    if (!args_is(request->argv[2], "ON") && !args_is(request->argv[2], "OFF")) {
        cmd_syntax(request);
        return;
    }
    *on = args_is(request->argv[2], "ON");
    reply_ok(&request->reply);
}

static void client_no_evict(struct request *request)
{
    client_switch(request, &session_of(request)->client->no_evict);
}

static void client_no_touch(struct request *request)
{
    client_switch(request, &session_of(request)->client->no_touch);
}

static void client_reply(struct request *request)
{
    struct client *client = session_of(request)->client;
    if (args_is(request->argv[2], "ON")) {
        client->mute = CLIENT_SPEAKS;
        reply_ok(&request->reply);
    } else if (args_is(request->argv[2], "OFF")) {
        client->mute = CLIENT_MUTE;
    } else if (args_is(request->argv[2], "SKIP")) {
        client->mute = client->mute == CLIENT_MUTE ? CLIENT_MUTE : CLIENT_SKIP_NEXT;
    } else {
        cmd_syntax(request);
    }
}

static void client_getredir(struct request *request)
{
    reply_integer(&request->reply, -1);
}

static void client_trackinginfo(struct request *request)
{
    reply_map(&request->reply, 3);
    reply_text(&request->reply, "flags");
    reply_set(&request->reply, 1);
    reply_text(&request->reply, "off");
    cmd_tell_integer(&request->reply, "redirect", -1);
    reply_text(&request->reply, "prefixes");
    reply_array(&request->reply, 0);
}

static void client_unpause(struct request *request)
{
    reply_ok(&request->reply); /* clients are never paused */
}

static void client_unblock(struct request *request)
{
    int64_t id = 0;
    if (request->argc > 4) {
        cmd_arity(request);
    } else if (request->argc == 4 && !args_is(request->argv[3], "TIMEOUT")
               && !args_is(request->argv[3], "ERROR")) {
        reply_error(&request->reply,
                    "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    } else if (!cmd_integer(request->argv[2], &id)) {
        cmd_not_integer(request);
    } else {
        reply_integer(&request->reply, 0); /* clients are never blocked */
    }
}

#define CLIENT_FLAGS (COMMAND_LOADING | COMMAND_STALE | COMMAND_SUB)
#define CLIENT_ADMIN (CLIENT_FLAGS | COMMAND_ADMIN)

const struct command client_commands[] = {
    { "CLIENT", -2, COMMAND_CONTAINER | COMMAND_LOADING | COMMAND_STALE,
      CATEGORY_CONNECTION, 0, 0, 0, cmd_container, NULL, "",
      "Container for client connection commands", "Depends on subcommand", "0.1.0",
      BEHAVIOR_SERVICE },
    { "CLIENT|ID", 2, CLIENT_FLAGS, CATEGORY_CONNECTION, 0, 0, 0, client_id, NULL, "",
      "Returns the ID of the connection", "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "CLIENT|INFO", 2, CLIENT_FLAGS | COMMAND_SLOW, CATEGORY_CONNECTION, 0, 0, 0,
      client_info, NULL, "", "Returns information about the connection",
      "O(N) where N is the number of connections", "0.1.0", BEHAVIOR_SERVICE },
    { "CLIENT|LIST", -2, CLIENT_ADMIN | COMMAND_SLOW, CATEGORY_CONNECTION, 0, 0, 0,
      client_list, NULL,
      "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
      "Lists all connections", "O(N) where N is the number of connections", "0.1.0",
      BEHAVIOR_SERVICE },
    { "CLIENT|KILL", -3, CLIENT_ADMIN | COMMAND_SLOW, CATEGORY_CONNECTION, 0, 0, 0,
      client_kill, NULL,
      "<ip:port | [ID client-id] [TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] "
      "[USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME <YES | NO>] "
      "[MAXAGE maxage]>",
      "Closes connections", "O(N) where N is the number of connections", "0.1.0",
      BEHAVIOR_SERVICE },
    { "CLIENT|GETNAME", 2, CLIENT_FLAGS, CATEGORY_CONNECTION, 0, 0, 0, client_getname,
      NULL, "", "Returns the name of the connection", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "CLIENT|SETNAME", 3, CLIENT_FLAGS, CATEGORY_CONNECTION, 0, 0, 0, client_setname,
      NULL, "connection-name", "Sets the name of the connection", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "CLIENT|SETINFO", 4, CLIENT_FLAGS, CATEGORY_CONNECTION, 0, 0, 0, client_setinfo,
      NULL, "<LIB-NAME libname | LIB-VER libver>",
      "Sets the client library's name or version", "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "CLIENT|REPLY", 3, CLIENT_FLAGS, CATEGORY_CONNECTION, 0, 0, 0, client_reply, NULL,
      "<ON | OFF | SKIP>", "Enables or disables replies", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "CLIENT|NO-EVICT", 3, CLIENT_ADMIN, CATEGORY_CONNECTION, 0, 0, 0, client_no_evict,
      NULL, "<ON | OFF>", "Accepted for compatibility; clients are never evicted",
      "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "CLIENT|NO-TOUCH", 3, CLIENT_FLAGS, CATEGORY_CONNECTION, 0, 0, 0, client_no_touch,
      NULL, "<ON | OFF>", "Accepted for compatibility; accesses are not recorded",
      "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "CLIENT|GETREDIR", 2, CLIENT_FLAGS, CATEGORY_CONNECTION, 0, 0, 0, client_getredir,
      NULL, "",
      "Returns the ID of the client that receives invalidation messages: always -1",
      "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "CLIENT|TRACKINGINFO", 2, CLIENT_FLAGS, CATEGORY_CONNECTION, 0, 0, 0,
      client_trackinginfo, NULL, "", "Returns the state of key tracking: always off",
      "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "CLIENT|UNPAUSE", 2, CLIENT_ADMIN, CATEGORY_CONNECTION, 0, 0, 0, client_unpause,
      NULL, "", "Accepted for compatibility; clients are never paused", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "CLIENT|UNBLOCK", -3, CLIENT_ADMIN, CATEGORY_CONNECTION, 0, 0, 0, client_unblock,
      NULL, "client-id [TIMEOUT | ERROR]",
      "Accepted for compatibility; clients are never blocked", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    CMD_HELP("CLIENT"),
    CMD_END,
};
