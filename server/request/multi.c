/* multi.c - see multi.h. */
#include "request/multi.h"

#include "args.h"
#include "ledger.h"
#include "request/cmd.h"

#include <stdlib.h>
#include <string.h>

/* A queued request, followed by its arguments and their bytes. */
struct queued {
    struct queued *next;
    const struct command *command;
    size_t argc;
    bg_bytes argv[];
};

struct multi {
    struct queued *first, **last;
    size_t count;
    size_t words;
    size_t bytes;
    bool slow; /* at least one request must not run on an event loop */
    bool failed;
};

/* Maximum number of requests in a transaction that runs on an event loop. */
enum { MULTI_QUICK = 1024 };

static void multi_free(struct multi *multi)
{
    while (multi && multi->first) {
        struct queued *queued = multi->first;
        multi->first = queued->next;
        free(queued);
    }
    ledger_release(LEDGER_BUFFERS, multi ? multi->bytes : 0);
    free(multi);
}

void multi_discard(struct client *client)
{
    multi_free(client->multi);
    client->multi = NULL;
}

void multi_fail(struct client *client)
{
    if (client->multi) {
        client->multi->failed = true;
    }
}

int64_t multi_count(const struct client *client)
{
    return client->multi ? (int64_t)client->multi->count : -1;
}

static struct queued *multi_copy(const struct request *request, size_t bytes)
{
    struct queued *queued =
        malloc(sizeof *queued + request->argc * sizeof *queued->argv + bytes);
    if (!queued) {
        return NULL;
    }
    char *to = (char *)(queued->argv + request->argc);
    queued->next = NULL;
    queued->command = request->command;
    queued->argc = request->argc;
    for (size_t i = 0; i < request->argc; i++) {
        const bg_bytes from = request->argv[i];
        queued->argv[i] = (bg_bytes){ to, from.len };
        if (from.len) {
            memcpy(to, from.data, from.len);
        }
        to += from.len;
    }
    return queued;
}

/* Returns the memory used by a queued request, including the allocator's overhead, which matters
 * because most requests are small. */
static size_t multi_cost(size_t argc, size_t bytes)
{
    const size_t unit = 2 * sizeof(void *);
    return (sizeof(struct queued) + argc * sizeof(bg_bytes) + bytes + 2 * unit - 1)
           & ~(unit - 1);
}

void multi_queue(struct client *client, const struct request *request, size_t limit)
{
    struct multi *multi = client->multi;
    size_t bytes = 0;
    for (size_t i = 0; i < request->argc; i++) {
        bytes += request->argv[i].len;
    }
    const size_t cost = multi_cost(request->argc, bytes);
    if (cost > limit || multi->bytes > limit - cost) {
        multi->failed = true;
        reply_error(&request->reply,
                    "ERR the transaction exceeds client-query-buffer-limit");
        return;
    }
    const bool room = !multi->failed && ledger_reserve(LEDGER_BUFFERS, cost);
    struct queued *queued = room ? multi_copy(request, bytes) : NULL;
    if (queued) {
        *multi->last = queued;
        multi->last = &queued->next;
        multi->count++;
        multi->words += request->argc;
        multi->bytes += cost;
        multi->slow = multi->slow || multi->words > SESSION_QUICK
                      || request->command->flags & (COMMAND_SLOW | COMMAND_DEFERS);
    } else if (!multi->failed) {
        multi->failed = true;
        ledger_release(LEDGER_BUFFERS, room ? cost : 0);
        args_no_memory(request, "the transaction");
        return;
    }
    reply_status(&request->reply, "QUEUED");
}

/* ---- Commands ------------------------------------------------------------------------------- */

static void multi_run(struct request *request)
{
    struct client *client = session_of(request)->client;
    struct multi *multi = NULL;
    if (client->multi) { /* requests that are already queued stay queued */
        reply_error(&request->reply, "ERR MULTI calls can not be nested");
        return;
    }
    multi = calloc(1, sizeof *multi);
    if (!multi) {
        reply_error(&request->reply, "ERR out of memory: cannot start a transaction");
        return;
    }
    multi->last = &multi->first;
    client->multi = multi;
    reply_ok(&request->reply);
}

static void multi_discard_run(struct request *request)
{
    struct client *client = session_of(request)->client;
    if (!client->multi) {
        reply_error(&request->reply, "ERR DISCARD without MULTI");
        return;
    }
    multi_discard(client);
    reply_ok(&request->reply);
}

static void multi_exec_all(struct request *request, const struct multi *multi)
{
    struct session *session = session_of(request);
    reply_array(&request->reply, multi->count);
    for (const struct queued *q = multi->first; q; q = q->next) {
        session_run_queued(session, q->command, q->argv, q->argc, &request->reply);
        session_let_go(session);
    }
}

/* Returns whether a queued command may have to wait for a filter. A running transaction cannot be
 * interrupted, so EXEC checks for possible waits before it starts. */
static bool multi_may_stall(struct session *session, const struct multi *multi)
{
    bool may = false;
    for (const struct queued *q = multi->first; q && !may; q = q->next) {
        may = session_may_stall(session, q->command, q->argv);
    }
    return may;
}

static void multi_exec(struct request *request)
{
    struct session *session = session_of(request);
    struct client *client = session->client;
    struct multi *multi = client->multi;
    if (!multi) {
        reply_error(&request->reply, "ERR EXEC without MULTI");
        return;
    }
    if (multi->failed) {
        multi_discard(client);
        reply_error(&request->reply,
                    "EXECABORT Transaction discarded because of previous errors.");
        return;
    }
    if (!session->is_job
        && (multi->slow || multi->count > MULTI_QUICK
            || multi_may_stall(session, multi))) {
        session->deferred = true;
        return;
    }
    client->multi = NULL; /* so that the requests are run, not queued again */
    multi_exec_all(request, multi);
    multi_free(multi);
}

#define MULTI_FLAGS (COMMAND_FAST | COMMAND_LOADING | COMMAND_STALE | COMMAND_AT_ONCE)

const struct command multi_commands[] = {
    { "MULTI", 1, MULTI_FLAGS, CATEGORY_CONNECTION, 0, 0, 0, multi_run, NULL, "",
      "Starts a transaction: queues the following requests until EXEC", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "EXEC", 1, MULTI_FLAGS, CATEGORY_CONNECTION, 0, 0, 0, multi_exec, NULL, "",
      "Runs the queued requests in order; requests from other clients may run in "
      "between",
      "Depends on the requests", "0.1.0", BEHAVIOR_SERVICE },
    { "DISCARD", 1, MULTI_FLAGS, CATEGORY_CONNECTION, 0, 0, 0, multi_discard_run, NULL,
      "", "Discards the queued requests", "O(N) where N is the number of requests",
      "0.1.0", BEHAVIOR_SERVICE },
    CMD_END,
};
