/*
 * bgload.c - a client with minimal overhead, for benchmarking a service that supports RESP.
 *
 *     bgload --port 6420 --command "BF.MADD seen" --count 1e8 --per 1000        adds keys
 *     bgload --port 6420 --command "BF.MEXISTS seen" --per 100 --seconds 5      looks up keys
 *
 * A request consists of the command's words and `per` keys. Keys are 12-digit decimal numbers:
 * consecutive numbers (--count), or random numbers below --range (--seconds). Each connection sends
 * `pipeline` requests at a time. With --seconds, requests are formatted in advance and sent
 * repeatedly. Replies are not parsed, only counted by their line endings. Prints one line of JSON:
 * requests and keys per second, and percentiles of the time from sending a pipeline to its last
 * reply.
 */
#define _GNU_SOURCE

/* NOLINTBEGIN(concurrency-mt-unsafe): only one thread is running. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    LOAD_KEY = 12,
    LOAD_VARIANTS = 64,
    LOAD_READ = 1 << 20,
    LOAD_LATENCIES = 1 << 22
};

struct load {
    int port;
    const char *words[8];
    size_t word_lens[8];
    size_t words_count;
    uint64_t count, range;
    size_t per, pipeline, connections;
    double seconds;
    size_t lines; /* reply lines per pipeline */
};

struct link {
    int fd;
    char *data; /* the pipeline to send; with --count, formatted before each use */
    size_t bytes, sent;
    size_t lines; /* lines still expected */
    uint64_t began;
    bool busy;
};

static uint64_t load_random_state = 0x9E3779B97F4A7C15U;

static uint64_t load_random(void)
{
    uint64_t x = load_random_state += 0x9E3779B97F4A7C15U;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9U;
    x = (x ^ x >> 27) * 0x94D049BB133111EBU;
    return x ^ x >> 31;
}

static uint64_t load_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static void load_key(char *to, uint64_t key)
{
    for (int i = LOAD_KEY - 1; i >= 0; i--) {
        to[i] = (char)('0' + key % 10);
        key /= 10;
    }
}

/* Formats one pipeline of requests, with consecutive keys starting at `next` or random
 * keys. Returns its size. */
static size_t load_write(const struct load *l, char *to, uint64_t *next, uint64_t end)
{
    char *at = to;
    for (size_t r = 0; r < l->pipeline; r++) {
        at += sprintf(at, "*%zu\r\n", l->words_count + l->per);
        for (size_t w = 0; w < l->words_count; w++) {
            at += sprintf(at, "$%zu\r\n%s\r\n", l->word_lens[w], l->words[w]);
        }
        for (size_t k = 0; k < l->per; k++) {
            at += sprintf(at, "$%d\r\n", LOAD_KEY);
            load_key(at, next ? *next < end ? (*next)++ : end - 1
                              : load_random() % l->range);
            at += LOAD_KEY;
            *at++ = '\r';
            *at++ = '\n';
        }
    }
    return (size_t)(at - to);
}

static int load_connect(int port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port) };
    const int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (fd < 0
        || (connect(fd, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS)) {
        perror("bgload: connect");
        exit(1);
    }
    struct pollfd ready = { .fd = fd, .events = POLLOUT };
    (void)poll(&ready, 1, 5000);
    return fd;
}

/* Sends as much as the socket accepts. */
static void link_send(struct link *link)
{
    while (link->sent < link->bytes) {
        const ssize_t n = send(link->fd, link->data + link->sent,
                               link->bytes - link->sent, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EAGAIN) {
                return;
            }
            perror("bgload: send");
            exit(1);
        }
        link->sent += (size_t)n;
    }
}

/* Receives data and counts its lines. */
static void link_receive(struct link *link, char *room)
{
    const ssize_t n = recv(link->fd, room, LOAD_READ, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        fprintf(stderr, "bgload: the server closed the connection\n");
        exit(1);
    }
    for (const char *at = room;
         n > 0 && (at = memchr(at, '\n', (size_t)(room + n - at))); at++) {
        if (link->lines-- == 0) {
            fprintf(stderr, "bgload: more replies than expected\n");
            exit(1);
        }
        if (room[0] == '-') {
            fprintf(stderr, "bgload: %.*s\n", (int)(n < 200 ? n : 200), room);
            exit(1);
        }
    }
}

static int load_by_value(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void load_report(uint32_t *latencies, size_t n, uint64_t requests,
                        double seconds, const struct load *l)
{
    n = n < LOAD_LATENCIES ? n : LOAD_LATENCIES;
    qsort(latencies, n, sizeof *latencies, load_by_value);
    printf("{\"requests\": %llu, \"seconds\": %.3f, \"requests_per_second\": %.0f, "
           "\"keys_per_second\": %.0f",
           (unsigned long long)requests, seconds, (double)requests / seconds,
           (double)requests * (double)l->per / seconds);
    const double shares[] = { 0.5, 0.99, 0.999, 1 };
    const char *const names[] = { "p50", "p99", "p999", "max" };
    for (size_t i = 0; n > 0 && i < 4; i++) {
        const size_t at = (size_t)(shares[i] * (double)(n - 1));
        printf(", \"%s_us\": %.1f", names[i], (double)latencies[at] / 1000);
    }
    printf("}\n");
}

/* A run: its connections and its measurements. */
struct running {
    const struct load *l;
    struct link *links;
    struct pollfd *polls;
    uint32_t *latencies;
    char *room;
    char **variants; /* prepared pipelines, for --seconds */
    uint64_t next;   /* next key, for --count */
    uint64_t requests, used;
    uint64_t end; /* end time, for --seconds */
};

static void run_prepare(struct running *r)
{
    const struct load *l = r->l;
    const size_t most =
        l->pipeline * (64 + 64 * l->words_count + l->per * (LOAD_KEY + 16));
    r->links = calloc(l->connections, sizeof *r->links);
    r->polls = calloc(l->connections, sizeof *r->polls);
    r->latencies = malloc(LOAD_LATENCIES * sizeof *r->latencies);
    r->room = malloc(LOAD_READ);
    r->variants = calloc(LOAD_VARIANTS, sizeof(char *));
    for (size_t v = 0; l->count == 0 && v < LOAD_VARIANTS; v++) {
        r->variants[v] = malloc(most);
        r->links[0].bytes = load_write(l, r->variants[v], NULL, 0);
    }
    for (size_t i = 0; i < l->connections; i++) {
        r->links[i].fd = load_connect(l->port);
        r->links[i].bytes = r->links[0].bytes;
        r->links[i].data = l->count ? malloc(most) : NULL;
    }
}

/* Sends the next pipeline, if any, on an idle connection. */
static void run_send(struct running *r, size_t i)
{
    const struct load *l = r->l;
    struct link *link = &r->links[i];
    if (link->busy || (l->count ? r->next >= l->count : load_now() >= r->end)) {
        return;
    }
    if (l->count) {
        link->bytes = load_write(l, link->data, &r->next, l->count);
    } else {
        link->data = r->variants[(r->requests + i) % LOAD_VARIANTS];
    }
    link->sent = 0;
    link->lines = l->lines;
    link->busy = true;
    link->began = load_now();
    link_send(link);
}

static void run_receive(struct running *r, size_t i)
{
    struct link *link = &r->links[i];
    if (r->polls[i].revents & POLLOUT) {
        link_send(link);
    }
    if (r->polls[i].revents & (POLLIN | POLLHUP)) {
        link_receive(link, r->room);
        if (link->busy && link->lines == 0) {
            link->busy = false;
            r->requests += r->l->pipeline;
            r->latencies[r->used++ % LOAD_LATENCIES] =
                (uint32_t)(load_now() - link->began);
        }
    }
}

static void load_run(const struct load *l)
{
    struct running r = { .l = l };
    run_prepare(&r);
    const uint64_t began = load_now();
    r.end = began + (uint64_t)(l->seconds * 1e9);
    for (size_t working = 1; working > 0;) {
        working = 0;
        for (size_t i = 0; i < l->connections; i++) {
            const struct link *link = &r.links[i];
            run_send(&r, i);
            r.polls[i] = (struct pollfd){ .fd = link->fd, .events = POLLIN };
            if (link->sent < link->bytes) {
                r.polls[i].events = POLLIN | POLLOUT;
            }
            working += link->busy;
        }
        if (working && poll(r.polls, l->connections, 10000) <= 0) {
            fprintf(stderr, "bgload: no reply for 10 s\n");
            exit(1);
        }
        for (size_t i = 0; i < l->connections; i++) {
            run_receive(&r, i);
        }
    }
    load_report(r.latencies, r.used, r.requests, (double)(load_now() - began) / 1e9, l);
}

static void load_usage(void)
{
    fprintf(
        stderr,
        "usage: bgload --port N --command WORDS (--count N | --seconds S --range N) "
        "[--per N] [--pipeline N] [--connections N] [--lines-per-request N]\n");
    exit(2);
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "port", 1, NULL, 'p' },
                                             { "command", 1, NULL, 'c' },
                                             { "count", 1, NULL, 'n' },
                                             { "seconds", 1, NULL, 's' },
                                             { "range", 1, NULL, 'r' },
                                             { "per", 1, NULL, 'k' },
                                             { "pipeline", 1, NULL, 'P' },
                                             { "connections", 1, NULL, 'C' },
                                             { "lines-per-request", 1, NULL, 'l' },
                                             { NULL, 0, NULL, 0 } };
    struct load l = { .per = 1, .pipeline = 1, .connections = 1, .range = 1000000 };
    size_t lines = 0;
    int option = 0;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'p': l.port = (int)strtol(optarg, NULL, 10); break;
        case 'n': l.count = (uint64_t)strtod(optarg, NULL); break;
        case 's': l.seconds = strtod(optarg, NULL); break;
        case 'r': l.range = (uint64_t)strtod(optarg, NULL); break;
        case 'k': l.per = (size_t)strtod(optarg, NULL); break;
        case 'P': l.pipeline = (size_t)strtod(optarg, NULL); break;
        case 'C': l.connections = (size_t)strtod(optarg, NULL); break;
        case 'l': lines = (size_t)strtod(optarg, NULL); break;
        case 'c':
            for (char *word = strtok(optarg, " "); word && l.words_count < 8;
                 word = strtok(NULL, " ")) {
                l.words[l.words_count] = word;
                l.word_lens[l.words_count++] = strlen(word);
            }
            break;
        default: load_usage();
        }
    }
    if (!l.port || !l.words_count || !l.per || !l.pipeline || !l.connections || !l.range
        || (l.count == 0) == (l.seconds == 0)) {
        load_usage();
    }
    /* By default, the reply to a request with one key has one line. With more keys, it has one line
     * plus one line for each key. */
    l.lines = l.pipeline * (lines ? lines : l.per == 1 ? 1 : l.per + 1);
    load_run(&l);
    return 0;
}
/* NOLINTEND(concurrency-mt-unsafe) */
