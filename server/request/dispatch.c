/*
 * dispatch.c - runs RESP requests, one at a time or many pipelined requests together.
 *
 * Pipelined requests that run the same command on the same filter (BF.EXISTS users alice,
 * BF.EXISTS users bob, ...) are collected into a run and answered together. The name is looked up
 * and the permission is checked only once per run. The keys are passed to the filter's batch
 * functions, which prefetch memory for later keys while earlier ones are being tested. The replies
 * and their order are the same as if the requests had been run one by one. A run ends when the
 * available input has been used up, when a different request arrives, or when the run reaches its
 * maximum length.
 *
 * A slow request is passed to a job with a copy of its arguments. The connection resumes reading
 * when the job is done, so replies stay in order. A run for a filter in a cluster (fronts.h) is
 * also passed to a job. The request that ended the run has already been read, so it becomes the
 * next job.
 */
#include "core/server.h"
#include "fronts/fronts.h"
#include "ledger.h"
#include "persist/persist.h"
#include "request/conn.h"
#include "request/worker.h"
#include "resp/resp.h"
#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Jobs ----------------------------------------------------------------------------------- */

struct resp_job {
    struct job job; /* must be first */
    /* The job does not access the connection, because the worker may be using it. */
    struct conn *conn;
    /* copy of the connection's client; merged back when the job ends */
    struct client client;
    struct buffer out;
    bool wrote;
    bool has_ticket; /* gates_begin has started a BG.LOOKUP, and the job finishes it */
    struct gates_ticket ticket;
    /* Destination of a forwarded run, or NULL if the job is a single request. */
    struct front *front;
    const struct command *command; /* command of the forwarded run */
    struct resp_job *then; /* the request that ended the run; runs after this job */
    /* If not empty, the error to send after the run and before closing the connection. */
    char farewell[SESSION_TEXT];
    size_t bytes; /* size of the whole request */
    size_t argc;
    bg_bytes *argv; /* followed in memory by the argument bytes */
};

static void resp_job_run(struct job *job, struct session *session)
{
    struct resp_job *mine = (struct resp_job *)job;
    const struct reply reply = resp_reply_to(&mine->out, mine->client.protocol);
    session->has_ticket = mine->has_ticket;
    session->ticket = mine->ticket;
    session_run(session, &mine->client, mine->argv, mine->argc, &reply);
    session->client = NULL;
    mine->wrote = session->wrote;
}

/* Forwards a run to a cluster. */
static void resp_job_forward(struct job *job, struct session *session)
{
    struct resp_job *mine = (struct resp_job *)job;
    struct request request = { .host = &session->host,
                               .command = mine->command,
                               .argv = mine->argv,
                               .argc = mine->argc,
                               .reply =
                                   resp_reply_to(&mine->out, mine->client.protocol) };
    session->client = &mine->client;
    session_forward(session, mine->front, &request, true);
    session->client = NULL;
}

/* Merges the changes that the job made to its copy of the client with the changes that the
 * connection made in the meantime. */
static void resp_job_merge(struct client *client, const struct client *changed)
{
    const bool close = client->close || changed->close;
    const uint64_t active = client->active, requests = client->requests;
    client_copy(client, changed);
    client->close = close;
    client->active = active;
    client->requests = requests;
}

/* If the reply that follows the first `waiting` bytes is an error, adds n to the error count. */
static void resp_count_errors(const struct conn *conn, size_t waiting, size_t n)
{
    if (buffer_waiting(&conn->out) > waiting
        && conn->out.data[conn->out.begin + waiting] == '-') {
        atomic_fetch_add_explicit(&conn->worker->counts.errors, n,
                                  memory_order_relaxed);
    }
}

/* Discards the output after the first `waiting` bytes, as CLIENT REPLY OFF or SKIP requires. */
static void resp_hush(struct conn *conn, size_t waiting)
{
    conn->out.used = conn->out.begin + waiting;
    if (conn->client.mute == CLIENT_SKIP_NEXT) {
        conn->client.mute = CLIENT_SKIPS;
    } else if (conn->client.mute == CLIENT_SKIPS) {
        conn->client.mute = CLIENT_SPEAKS;
    }
}

static void resp_job_free(struct resp_job *job)
{
    if (job) {
        buffer_free(&job->out);
        client_set_user(&job->client, NULL);
        ledger_release(LEDGER_BUFFERS, job->bytes);
        free(job);
    }
}

/* Continues with the request after a run, or with input that has arrived in the meantime. */
static void resp_job_next(struct conn *conn, struct resp_job *then)
{
    if (then) {
        client_copy(&then->client, &conn->client);
        conn->busy = true;
        jobs_submit(conn->worker->server->jobs, &then->job);
    } else {
        conn_continue(conn);
    }
}

static void resp_job_done(struct job *job)
{
    struct resp_job *mine = (struct resp_job *)job;
    struct conn *conn = mine->conn;
    const size_t waiting = buffer_waiting(&conn->out);
    const size_t replies = mine->front ? mine->argc - 2 : 1;
    resp_job_merge(&conn->client, &mine->client);
    if (conn_job_done(conn)) {
        if (buffer_waiting(&mine->out)) { /* SHUTDOWN, for example, sends no reply */
            buffer_put(&conn->out, mine->out.data + mine->out.begin,
                       buffer_waiting(&mine->out));
        }
        conn->out.overflow = conn->out.overflow || mine->out.overflow;
        resp_count_errors(conn, waiting, replies);
        if (conn->client.mute) {
            resp_hush(conn, waiting);
        }
        if (mine->wrote) {
            conn_wrote(conn);
        }
        if (mine->farewell[0]) {
            const struct reply reply = resp_reply_to(&conn->out, conn->client.protocol);
            reply_error(&reply, mine->farewell);
            conn->client.close = conn->lingers = true;
        }
        resp_job_next(conn, mine->then);
        mine->then = NULL;
    }
    resp_job_free(mine->then);
    resp_job_free(mine);
}

static void resp_no_memory(const struct reply *reply)
{
    char why[LEDGER_WHY];
    if (ledger_refusal(why)) {
        reply_errorf(reply, "OOM %s", why);
    } else {
        reply_error(reply, "ERR out of memory");
    }
}

enum { RESP_WORDS = 4 }; /* number of arguments that count as one request */
/* The memory limit is less strict for requests smaller than this (ledger_reserve_small). */
enum { RESP_SMALL = 16 << 10 };

/* Creates a job with a copy of a request; returns NULL if out of memory. */
static struct resp_job *resp_copy(struct conn *conn, const bg_bytes *argv, size_t argc)
{
    size_t bytes = 0;
    for (size_t i = 0; i < argc; i++) {
        bytes += argv[i].len;
    }
    bytes += sizeof(struct resp_job) + argc * sizeof(bg_bytes);
    if (!(bytes < RESP_SMALL ? ledger_reserve_small(bytes)
                             : ledger_reserve(LEDGER_BUFFERS, bytes))) {
        return NULL;
    }
    struct resp_job *job = malloc(bytes);
    if (!job) {
        ledger_release(LEDGER_BUFFERS, bytes);
        return NULL;
    }
    *job = (struct resp_job){ .job = { .run = resp_job_run,
                                       .done = resp_job_done,
                                       .worker = conn->worker,
                                       .owner = conn->client.user },
                              .conn = conn,
                              .bytes = bytes,
                              .argc = argc,
                              .argv = (bg_bytes *)(job + 1) };
    client_copy(&job->client, &conn->client);
    char *to = (char *)(job->argv + argc);
    for (size_t i = 0; i < argc; i++) {
        job->argv[i] = (bg_bytes){ to, argv[i].len };
        if (argv[i].len) {
            memcpy(to, argv[i].data, argv[i].len);
        }
        to += argv[i].len;
    }
    buffer_init(&job->out, conn->out.limit);
    return job;
}

/* Submits a copy of a request as a job; returns false if out of memory. */
static bool resp_defer(struct conn *conn, const bg_bytes *argv, size_t argc)
{
    struct session *session = &conn->worker->session;
    struct resp_job *job = resp_copy(conn, argv, argc);
    if (!job) {
        session_abandon(session);
        return false;
    }
    job->has_ticket = job->job.must = session->has_ticket;
    job->ticket = session->ticket;
    job->job.lane = session_lane(session, conn->client.last, argv, argc);
    session->has_ticket = false;
    conn->busy = true;
    jobs_submit(conn->worker->server->jobs, &job->job);
    return true;
}

/* ---- Runs of a pipeline -------------------------------------------------------------------- */

static bool bytes_equal(bg_bytes a, bg_bytes b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* Submits a job that forwards a run. If argc is not 0, `argv` is the request after the run; the
 * request waits until the run is done, because replies are sent in order. If out of memory, sends
 * the errors and returns NULL. */
static struct resp_job *run_forward(struct conn *conn, const bg_bytes *argv,
                                    size_t argc)
{
    struct worker *worker = conn->worker;
    struct run *run = &worker->run;
    bg_bytes words[2 + WORKER_RUN] = { run->command_name, run->name };
    memcpy(words + 2, run->items, run->n * sizeof *words);
    struct resp_job *job = resp_copy(conn, words, 2 + run->n);
    struct resp_job *then = argc ? resp_copy(conn, argv, argc) : NULL;
    atomic_fetch_add_explicit(&worker->counts.runs, 1, memory_order_relaxed);
    if (!job || (argc && !then)) {
        const struct reply reply = resp_reply_to(&conn->out, conn->client.protocol);
        resp_job_free(job);
        resp_job_free(then);
        for (size_t i = 0; i < run->n + (argc ? 1 : 0); i++) {
            resp_no_memory(&reply);
        }
        run->n = 0;
        return NULL;
    }
    job->job.run = resp_job_forward;
    job->front = run->front;
    job->command = run->command;
    job->then = then;
    run->n = 0;
    if (then) {
        const struct command *next = command_find(worker->server->commands, argv[0]);
        then->job.lane = next ? session_lane(&worker->session, next, argv, argc) : 0;
    }
    conn->busy = true;
    jobs_submit(worker->server->jobs, &job->job);
    return job; /* valid until the job's `done` function is called on this thread */
}

/* Answers the collected requests. */
static void run_flush(struct conn *conn)
{
    struct worker *worker = conn->worker;
    struct run *run = &worker->run;
    if (run->n == 0) {
        return;
    }
    if (run->front) {
        (void)run_forward(conn, NULL, 0);
        return;
    }
    const bg_bytes argv[3] = { run->command_name, run->name, run->items[0] };
    struct request request = {
        .host = &worker->session.host,
        .command = run->command,
        .argv = argv,
        .argc = 3,
        .reply = resp_reply_to(&conn->out, conn->client.protocol),
    };
    const size_t waiting = buffer_waiting(&conn->out);
    worker->session.client = &conn->client;
    session_perform(&worker->session, &request, run->items, run->n);
    session_unclaim(&worker->session); /* run_begin claimed the filter */
    resp_count_errors(conn, waiting, run->n);
    atomic_fetch_add_explicit(&worker->counts.runs, 1, memory_order_relaxed);
    run->n = 0;
}

/* Returns whether a request can be added to the run. */
static bool run_takes(const struct run *run, const bg_bytes *argv, size_t argc)
{
    return run->n > 0 && run->n < WORKER_RUN && argc == 3
           && bytes_equal(argv[0], run->command_name)
           && bytes_equal(argv[1], run->name);
}

/* Starts a run with a request if the request is allowed and can be part of a run. Returns false if
 * the request must be run alone. */
static bool run_begin(struct conn *conn, const bg_bytes *argv, size_t argc)
{
    struct worker *worker = conn->worker;
    struct run *run = &worker->run;
    struct admission admission;
    if (argc != 3 || conn->client.multi || conn->client.mute) {
        return false;
    }
    const struct command *command = command_find(worker->server->commands, argv[0]);
    if (!command || !command->run_many) {
        return false;
    }
    const struct request request = {
        .host = &worker->session.host, .command = command, .argv = argv, .argc = argc
    };
    session_admit(&worker->session, &conn->client, &request, &admission);
    if (admission.error || admission.verdict == SESSION_MAYBE
        || (admission.front
                ? command->behavior.front != FRONT_FORWARDS
                : session_stalls(&worker->session, command, argv[1], WORKER_RUN))) {
        return false;
    }
    run->front = admission.front;
    conn->client.last = command;
    run->command = command;
    run->command_name = argv[0];
    run->name = argv[1];
    run->items[0] = argv[2];
    run->n = 1;
    return true;
}

/* ---- Requests ------------------------------------------------------------------------------ */

static void resp_request(struct conn *conn, const bg_bytes *argv, size_t argc)
{
    struct worker *worker = conn->worker;
    struct run *run = &worker->run;
    if (run_takes(run, argv, argc)) {
        run->items[run->n++] = argv[2];
        return;
    }
    if (run->n > 0 && run->front) {
        (void)run_forward(conn, argv, argc);
        return;
    }
    run_flush(conn);
    if (run_begin(conn, argv, argc)) {
        return;
    }
    const size_t waiting = buffer_waiting(&conn->out);
    const struct reply reply = resp_reply_to(&conn->out, conn->client.protocol);
    session_run(&worker->session, &conn->client, argv, argc, &reply);
    if (worker->session.deferred) {
        if (resp_defer(conn, argv, argc)) {
            return;
        }
        resp_no_memory(&reply);
    }
    resp_count_errors(conn, waiting, 1);
    if (conn->client.mute) {
        resp_hush(conn, waiting);
    }
}

static void resp_set_limits(struct conn *conn)
{
    static const struct resp_limits strangers = RESP_LIMITS_STRANGERS;
    const struct settings *settings = conn->worker->session.from;
    if (!conn->client.user) {
        conn->limits = strangers;
        return;
    }
    conn->limits = (struct resp_limits)RESP_LIMITS_DEFAULT;
    conn->limits.bulk = settings->proto_max_bulk_len;
    conn->limits.request = settings->client_query_buffer_limit;
}

/* Writes the error to send before closing a connection. */
static void resp_farewell(const struct conn *conn, char text[SESSION_TEXT])
{
    char why[LEDGER_WHY];
    if (conn->parser.refused && ledger_refusal(why)) {
        (void)snprintf(text, SESSION_TEXT, "OOM %s", why);
        log_event(LOG_EVENT_LIMIT, (bg_bytes){ NULL, 0 },
                  "client %s: request refused: %s", conn->client.address, why);
    } else {
        (void)snprintf(text, SESSION_TEXT, "ERR %s", conn->parser.error);
    }
}

/* Ends a connection whose input is malformed or cannot be stored for lack of memory, because later
 * input cannot be parsed either. Sends an error after all replies, and closes the connection once
 * the client has stopped sending. */
static void resp_end(struct conn *conn)
{
    char text[SESSION_TEXT];
    resp_farewell(conn, text);
    const struct run *run = &conn->worker->run;
    struct resp_job *job = run->n > 0 && run->front ? run_forward(conn, NULL, 0) : NULL;
    if (job) {
        (void)snprintf(job->farewell, sizeof job->farewell, "%s", text);
        return;
    }
    run_flush(conn);
    const struct reply reply = resp_reply_to(&conn->out, conn->client.protocol);
    reply_error(&reply, text);
    conn->client.close = conn->lingers = true;
}

/* Returns how much of the connection's turn a request uses. A request with many arguments counts as
 * several requests. */
static size_t resp_share(const struct conn *conn)
{
    const size_t share = 1 + conn->parser.argc / RESP_WORDS;
    return share < conn->turn ? share : conn->turn;
}

static size_t resp_input(struct conn *conn, char *bytes, size_t n)
{
    size_t at = 0, requests = 0;
    if (conn->client.user && !user_is_current(conn->client.user)) {
        client_set_user(&conn->client, users_default(conn->worker->server->users));
    }
    resp_set_limits(conn);
    while (!conn_turn_over(conn)) {
        const enum resp_result result = resp_parse(&conn->parser, bytes + at, n - at);
        at += conn->parser.consumed;
        if (result == RESP_PARTIAL) {
            break;
        }
        if (result == RESP_ERROR) {
            resp_end(conn);
            at = n;
            break;
        }
        conn->turn -= resp_share(conn);
        requests++;
        resp_request(conn, conn->parser.argv, conn->parser.argc);
        if (!conn->client.user || conn->limits.strangers) {
            resp_set_limits(conn);
        }
    }
    run_flush(conn);
    conn->client.requests += requests;
    atomic_fetch_add_explicit(&conn->worker->counts.requests, requests,
                              memory_order_relaxed);
    return conn->client.close ? n : at;
}

static bool resp_refuse(struct conn *conn, const char *why)
{
    if (conn->busy) {
        return false;
    }
    const struct reply reply = resp_reply_to(&conn->out, conn->client.protocol);
    reply_errorf(&reply, "OOM %s", why);
    conn->client.close = conn->lingers = true;
    return true;
}

static bool resp_begin(struct conn *conn)
{
    (void)conn;
    return true;
}

const struct protocol resp_protocol = {
    .name = "resp",
    .begin = resp_begin,
    .input = resp_input,
    .refuse = resp_refuse,
    .too_many = "-ERR max number of clients reached\r\n",
    .no_memory = "-OOM not enough memory for another connection (maxmemory)\r\n"
};
