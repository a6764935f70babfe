/*
 * commands/connection.c - commands that concern the connection itself: PING, AUTH, HELLO and others.
 * CLIENT is in commands/client.c.
 */
#include "core/server.h"
#include "request/cmd.h"
#include "request/multi.h"
#include "util/log.h"

/* ---- Logging in ---------------------------------------------------------------------------- */

enum login {
    LOGIN_DONE,
    LOGIN_REFUSED, /* an error has been sent */
    LOGIN_LATER    /* the check is slow, so the request must be run again as a job */
};

/* Checks a password. The check runs in a job if it requires hashing; users.h describes the order of
 * the steps. */
static enum login login_check(struct request *request, bg_bytes name, bg_bytes password)
{
    struct session *session = session_of(request);
    struct client *client = session->client;
    struct users *users = session->server->users;
    const uint64_t wait = users_guess_wait(users, client->host, name, session->ticks);
    if (wait > 0) {
        reply_errorf(&request->reply,
                     "WRONGPASS too many failed logins: try again in %llu ms",
                     (unsigned long long)wait);
        return LOGIN_REFUSED;
    }
    if (!session->is_job) {
        session->deferred = true;
        return LOGIN_LATER;
    }
    const struct user *user = users_check(users, name, password);
    if (!user) {
        users_guess_failed(users, client->host, name, session->ticks);
        log_warning("login failed", LOG_FIELDS(log_text("client", client->address),
                                               log_bytes("user", name)));
        reply_error(&request->reply,
                    "WRONGPASS invalid username-password pair or user is disabled.");
        return LOGIN_REFUSED;
    }
    client_set_user(client, user);
    return LOGIN_DONE;
}

static enum login login_as(struct request *request, bg_bytes name, bg_bytes password)
{
    struct session *session = session_of(request);
    const struct user *user = users_recall(session->server->users, name, password);
    if (user) {
        client_set_user(session->client, user);
        return LOGIN_DONE;
    }
    return login_check(request, name, password);
}

/* Within MULTI, sends an error and returns true, because the user and the protocol cannot be
 * changed there. */
static bool connection_in_multi(struct request *request)
{
    struct client *client = session_of(request)->client;
    if (!client->multi) {
        return false;
    }
    multi_fail(client);
    reply_error(&request->reply, "ERR Command not allowed inside a transaction");
    return true;
}

static void connection_auth(struct request *request)
{
    static const bg_bytes usual = { "default", 7 };
    const struct session *session = session_of(request);
    const bool named = request->argc == 3;
    if (request->argc > 3) {
        cmd_syntax(request);
        return;
    }
    if (connection_in_multi(request)) {
        return;
    }
    if (!named && users_default(session->server->users)) {
        reply_error(
            &request->reply,
            "ERR AUTH <password> called without any password configured for the "
            "default user. Are you sure your configuration is correct?");
        return;
    }
    if (login_as(request, named ? request->argv[1] : usual,
                 request->argv[request->argc - 1])
        == LOGIN_DONE) {
        reply_ok(&request->reply);
    }
}

/* ---- HELLO --------------------------------------------------------------------------------- */

/* The options of HELLO. */
struct hello {
    int protocol; /* 0: not specified */
    const bg_bytes *name, *password, *client_name;
};

static bool hello_read_option(struct request *request, size_t *i, struct hello *hello)
{
    const bg_bytes word = request->argv[*i];
    const size_t left = request->argc - 1 - *i;
    if (args_is(word, "AUTH") && left >= 2) {
        hello->name = &request->argv[*i + 1];
        hello->password = &request->argv[*i + 2];
        *i += 2;
        return true;
    }
    if (args_is(word, "SETNAME") && left >= 1) {
        hello->client_name = &request->argv[++*i];
        return true;
    }
    char text[64];
    return reply_errorf(&request->reply, "ERR Syntax error in HELLO option '%s'",
                        args_show(word, text));
}

static bool hello_read(struct request *request, struct hello *hello)
{
    int64_t protocol = 0;
    if (request->argc < 2) {
        return true;
    }
    if (!cmd_integer(request->argv[1], &protocol)) {
        return reply_error(&request->reply,
                           "ERR Protocol version is not an integer or out of range");
    }
    if (protocol < 2 || protocol > 3) {
        return reply_error(&request->reply, "NOPROTO unsupported protocol version");
    }
    hello->protocol = (int)protocol;
    for (size_t i = 2; i < request->argc; i++) {
        if (!hello_read_option(request, &i, hello)) {
            return false;
        }
    }
    return true;
}

static void hello_tell(const struct reply *reply, const struct client *client)
{
    reply_map(reply, 7);
    cmd_tell_text(reply, "server", "redis");
    cmd_tell_text(reply, "version", CMD_REDIS_VERSION);
    cmd_tell_integer(reply, "proto", client->protocol);
    cmd_tell_integer(reply, "id", (int64_t)client->id);
    cmd_tell_text(reply, "mode", "standalone");
    cmd_tell_text(reply, "role", "master");
    reply_text(reply, "modules");
    cmd_tell_modules(reply);
}

static void connection_hello(struct request *request)
{
    struct client *client = session_of(request)->client;
    struct hello hello = { .protocol = 0 };
    if (connection_in_multi(request) || !hello_read(request, &hello)) {
        return;
    }
    if (hello.name && login_as(request, *hello.name, *hello.password) != LOGIN_DONE) {
        return;
    }
    if (!client->user) {
        reply_error(
            &request->reply,
            "NOAUTH HELLO must be called with the client already authenticated, "
            "otherwise the HELLO <proto> AUTH <user> <pass> option can be used to "
            "authenticate the client and select the RESP protocol version at the "
            "same time");
        return;
    }
    if (hello.client_name
        && !cmd_set_text(request, *hello.client_name, "Client names", client->name,
                         sizeof client->name)) {
        return;
    }
    struct reply reply = request->reply;
    if (hello.protocol
        && (reply.ops == &resp2_reply_ops || reply.ops == &resp3_reply_ops)) {
        /* The reply to HELLO already uses the new protocol. */
        client->protocol = hello.protocol;
        reply = resp_reply_to(reply.to, hello.protocol);
    }
    hello_tell(&reply, client);
}

/* ---- Other commands ---------------------------------------------------------------------- */

static void connection_ping(struct request *request)
{
    if (request->argc > 2) {
        cmd_arity(request);
    } else if (request->argc == 2) {
        reply_bulk(&request->reply, request->argv[1].data, request->argv[1].len);
    } else {
        reply_status(&request->reply, "PONG");
    }
}

static void connection_echo(struct request *request)
{
    reply_bulk(&request->reply, request->argv[1].data, request->argv[1].len);
}

static void connection_quit(struct request *request)
{
    session_of(request)->client->close = true;
    reply_ok(&request->reply);
}

static void connection_reset(struct request *request)
{
    struct session *session = session_of(request);
    struct client *client = session->client;
    multi_discard(client);
    client->protocol = 2;
    client_set_user(client, users_default(session->server->users));
    client->mute = CLIENT_SPEAKS;
    client->no_evict = client->no_touch = false;
    client->name[0] = 0;
    reply_status(&request->reply, "RESET");
}

static void connection_select(struct request *request)
{
    int64_t number = 0;
    if (!cmd_integer(request->argv[1], &number)) {
        cmd_not_integer(request);
    } else if (number < INT32_MIN || number > INT32_MAX) {
        reply_error(&request->reply, "ERR value is out of range, value must between "
                                     "-2147483648 and 2147483647");
    } else if (number != 0) { /* there is only one database */
        reply_error(&request->reply, "ERR DB index is out of range");
    } else {
        reply_ok(&request->reply);
    }
}

static void connection_no_cluster(struct request *request)
{
    reply_error(&request->reply, "ERR This instance has cluster support disabled");
}

#define CONNECTION_FLAGS (COMMAND_FAST | COMMAND_LOADING | COMMAND_STALE)
#define CONNECTION_FIRST (CONNECTION_FLAGS | COMMAND_NOAUTH | COMMAND_AT_ONCE)

const struct command connection_commands[] = {
    { "PING", -1, CONNECTION_FLAGS, CATEGORY_CONNECTION, 0, 0, 0, connection_ping, NULL,
      "[message]", "Returns PONG, or the message", "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "ECHO", 2, CONNECTION_FLAGS, CATEGORY_CONNECTION, 0, 0, 0, connection_echo, NULL,
      "message", "Returns the message", "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "AUTH", -2, CONNECTION_FIRST, CATEGORY_CONNECTION, 0, 0, 0, connection_auth, NULL,
      "[username] password", "Authenticates the connection", "O(1), but slow by design",
      "0.1.0", BEHAVIOR_SERVICE },
    { "HELLO", -1, CONNECTION_FIRST, CATEGORY_CONNECTION, 0, 0, 0, connection_hello,
      NULL, "[protover [AUTH username password] [SETNAME clientname]]",
      "Selects protocol 2 or 3, and returns information about the service", "O(1)",
      "0.1.0", BEHAVIOR_SERVICE },
    { "QUIT", -1, CONNECTION_FIRST, CATEGORY_CONNECTION, 0, 0, 0, connection_quit, NULL,
      "", "Closes the connection after all replies have been sent", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "RESET", 1, CONNECTION_FIRST, CATEGORY_CONNECTION, 0, 0, 0, connection_reset,
      NULL, "", "Resets the connection to its initial state", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "SELECT", 2, CONNECTION_FLAGS, CATEGORY_CONNECTION, 0, 0, 0, connection_select,
      NULL, "index", "Selects a database; only 0 exists", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "READONLY", 1, CONNECTION_FLAGS, CATEGORY_CONNECTION, 0, 0, 0,
      connection_no_cluster, NULL, "", "Returns an error: cluster support is disabled",
      "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "READWRITE", 1, CONNECTION_FLAGS, CATEGORY_CONNECTION, 0, 0, 0,
      connection_no_cluster, NULL, "", "Returns an error: cluster support is disabled",
      "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "ASKING", 1, CONNECTION_FLAGS, CATEGORY_CONNECTION, 0, 0, 0,
      connection_no_cluster, NULL, "", "Returns an error: cluster support is disabled",
      "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    CMD_END,
};
