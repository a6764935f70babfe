/* slowlog.c - implements slowlog.h with a ring of fixed size, protected by a lock. */
#include "request/slowlog.h"

#include "clock.h"
#include "core/server.h"
#include "request/cmd.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct slow {
    uint64_t id;
    uint64_t time; /* seconds since 1970 */
    uint64_t microseconds;
    size_t requests; /* number of requests that were answered together */
    size_t argc;     /* total number of arguments; `count` of them are stored */
    size_t count;
    size_t lengths[SLOWLOG_WORDS];
    char words[SLOWLOG_WORDS][SLOWLOG_WORD];
    char address[64], name[128];
};

struct slowlog {
    pthread_mutex_t lock;
    uint64_t next;                 /* next id */
    uint64_t count;                /* number of valid entries in the ring */
    struct slow ring[SLOWLOG_MAX]; /* indexed by id modulo the ring's size */
};

struct slowlog *slowlog_create(void)
{
    struct slowlog *slowlog = calloc(1, sizeof *slowlog);
    if (slowlog) {
        pthread_mutex_init(&slowlog->lock, NULL);
    }
    return slowlog;
}

void slowlog_free(struct slowlog *slowlog)
{
    if (slowlog) {
        pthread_mutex_destroy(&slowlog->lock);
        free(slowlog);
    }
}

/* Returns whether an argument is part of the command's name or is the name of a filter. */
static bool slowlog_shows(const struct command *command, size_t argc, size_t i)
{
    const size_t words = command->flags & COMMAND_SUB ? 2 : 1;
    const size_t first = (size_t)command->first_key;
    const size_t last = command->last_key < 0 ? argc - (size_t)-command->last_key
                                              : (size_t)command->last_key;
    return i < words
           || (first > 0 && i >= first && i <= last
               && (i - first) % (size_t)command->key_step == 0);
}

void slowlog_note(struct slowlog *slowlog, const struct session *session,
                  const struct request *request, size_t n, uint64_t microseconds)
{
    const struct command *command = request->command;
    if (command->flags & COMMAND_NOAUTH) {
        return;
    }
    pthread_mutex_lock(&slowlog->lock);
    struct slow *slow = &slowlog->ring[slowlog->next % SLOWLOG_MAX];
    *slow = (struct slow){ .id = slowlog->next++,
                           .time = clock_now() / 1000,
                           .microseconds = microseconds,
                           .requests = n,
                           .argc = request->argc };
    slowlog->count += slowlog->count < SLOWLOG_MAX;
    for (size_t i = 0; i < request->argc && slow->count < SLOWLOG_WORDS
                       && slowlog_shows(command, request->argc, i);
         i++) {
        const bg_bytes word = request->argv[i];
        const size_t bytes = word.len < SLOWLOG_WORD ? word.len : SLOWLOG_WORD;
        memcpy(slow->words[slow->count], word.len ? word.data : "", bytes);
        slow->lengths[slow->count++] = bytes;
    }
    if (session->client) {
        (void)snprintf(slow->address, sizeof slow->address, "%s",
                       session->client->address);
        (void)snprintf(slow->name, sizeof slow->name, "%s", session->client->name);
    }
    pthread_mutex_unlock(&slowlog->lock);
}

/* ---- Commands ------------------------------------------------------------------------------- */

static void slowlog_tell(const struct reply *reply, const struct slow *slow)
{
    const size_t more = slow->argc - slow->count;
    char text[64];
    reply_array(reply, 6);
    reply_integer(reply, (int64_t)slow->id);
    reply_integer(reply, (int64_t)slow->time);
    reply_integer(reply, (int64_t)slow->microseconds);
    reply_array(reply, slow->count + (more > 0));
    for (size_t i = 0; i < slow->count; i++) {
        reply_bulk(reply, slow->words[i], slow->lengths[i]);
    }
    if (slow->requests > 1) {
        (void)snprintf(text, sizeof text, "... (%zu pipelined requests)",
                       slow->requests);
        reply_text(reply, text);
    } else if (more > 0) {
        (void)snprintf(text, sizeof text, "... (%zu more arguments)", more);
        reply_text(reply, text);
    }
    reply_text(reply, slow->address);
    reply_text(reply, slow->name);
}

static void slowlog_get(struct request *request)
{
    struct slowlog *slowlog = session_of(request)->server->slowlog;
    int64_t wanted = 10;
    if (request->argc > 3) {
        cmd_arity(request);
        return;
    }
    if (request->argc == 3
        && (!cmd_integer(request->argv[2], &wanted) || wanted < -1)) {
        reply_error(&request->reply, "ERR count should be greater than or equal to -1");
        return;
    }
    pthread_mutex_lock(&slowlog->lock);
    uint64_t n = slowlog->count;
    n = wanted >= 0 && (uint64_t)wanted < n ? (uint64_t)wanted : n;
    reply_array(&request->reply, n);
    for (uint64_t i = 1; i <= n; i++) { /* newest first */
        slowlog_tell(&request->reply,
                     &slowlog->ring[(slowlog->next - i) % SLOWLOG_MAX]);
    }
    pthread_mutex_unlock(&slowlog->lock);
}

static void slowlog_len(struct request *request)
{
    struct slowlog *slowlog = session_of(request)->server->slowlog;
    pthread_mutex_lock(&slowlog->lock);
    const uint64_t n = slowlog->count;
    pthread_mutex_unlock(&slowlog->lock);
    reply_integer(&request->reply, (int64_t)n);
}

static void slowlog_reset(struct request *request)
{
    struct slowlog *slowlog = session_of(request)->server->slowlog;
    pthread_mutex_lock(&slowlog->lock);
    slowlog->count = 0;
    pthread_mutex_unlock(&slowlog->lock);
    reply_ok(&request->reply);
}

#define SLOWLOG_FLAGS (COMMAND_ADMIN | COMMAND_LOADING | COMMAND_STALE | COMMAND_SUB)

const struct command slowlog_commands[] = {
    { "SLOWLOG", -2, COMMAND_CONTAINER | COMMAND_LOADING | COMMAND_STALE, 0, 0, 0, 0,
      cmd_container, NULL, "", "Container for slow log commands",
      "Depends on subcommand", "0.1.0", BEHAVIOR_SERVICE },
    { "SLOWLOG|GET", -2, SLOWLOG_FLAGS, CATEGORY_DANGEROUS, 0, 0, 0, slowlog_get, NULL,
      "[count]",
      "Returns the latest requests that took at least slowlog-log-slower-than",
      "O(N) where N is the number of requests", "0.1.0", BEHAVIOR_SERVICE },
    { "SLOWLOG|LEN", 2, SLOWLOG_FLAGS, CATEGORY_DANGEROUS, 0, 0, 0, slowlog_len, NULL,
      "", "Returns the number of entries in the slow log", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "SLOWLOG|RESET", 2, SLOWLOG_FLAGS, CATEGORY_DANGEROUS, 0, 0, 0, slowlog_reset,
      NULL, "", "Clears the slow log", "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    CMD_HELP("SLOWLOG"),
    CMD_END,
};
