/* node_link.c - see node_link.h. */
#include "node_link.h"

#include "clock.h"
#include "text.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- Bytes ----------------------------------------------------------------------------------- */

static bool bytes_reserve(struct link_bytes *b, size_t more)
{
    if (more <= b->room - b->used) {
        return true;
    }
    size_t room = b->room ? b->room : 16384;
    while (room - b->used < more) {
        room *= 2;
    }
    char *bytes = realloc(b->bytes, room);
    if (!bytes) {
        return false;
    }
    b->bytes = bytes;
    b->room = room;
    return true;
}

/* "$3\r\n" or "*2\r\n" */
static void bytes_put_header(struct link_bytes *b, char type, size_t number)
{
    const int n = snprintf(b->bytes + b->used, 32, "%c%zu\r\n", type, number);
    b->used += (size_t)n;
}

static void bytes_put(struct link_bytes *b, const void *bytes, size_t n)
{
    if (n) {
        memcpy(b->bytes + b->used, bytes, n);
        b->used += n;
    }
}

bool link_put(struct node_link *link, const bg_bytes *argv, size_t argc)
{
    size_t more = 32;
    for (size_t i = 0; i < argc; i++) {
        more += argv[i].len + 34;
    }
    if (!bytes_reserve(&link->out, more)) {
        return false;
    }
    bytes_put_header(&link->out, '*', argc);
    for (size_t i = 0; i < argc; i++) {
        bytes_put_header(&link->out, '$', argv[i].len);
        bytes_put(&link->out, argv[i].data, argv[i].len);
        bytes_put(&link->out, "\r\n", 2);
    }
    link->expected++;
    return true;
}

int64_t cluster_now(void)
{
    return (int64_t)(clock_nanoseconds() / 1000000);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

bool link_name(struct node_link *link, const char *host, size_t n, uint16_t port)
{
    *link = (struct node_link){ .fd = -1, .port = port };
    if (n == 0 || n >= sizeof link->host) {
        return false;
    }
    memcpy(link->host, host, n);
    return true;
}

static bool link_is_opening(const struct node_link *link)
{
    return link->connecting || link->greeting;
}

void link_break(struct node_link *link, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(link->wrong, sizeof link->wrong, format, arguments);
    va_end(arguments);
    if (link->how) {
        _Atomic uint64_t *count = link_is_opening(link) ? link->how->unopened
                                  : link->fd >= 0       ? link->how->broken
                                                        : NULL;
        if (count) {
            atomic_fetch_add(count, 1);
        }
    }
    node_tls_close(link->secrecy);
    link->secrecy = NULL;
    if (link->fd >= 0) {
        (void)close(link->fd);
        link->fd = -1;
    }
    link->attempt = (link->attempt + link->connecting) % LINK_ADDRESSES;
    link->connecting = link->greeting = false;
}

void link_close(struct node_link *link)
{
    link->how = NULL; /* so that link_break does not count a failure */
    link_break(link, "closed");
    free(link->out.bytes);
    free(link->in.bytes);
    link->out = link->in = (struct link_bytes){ 0 };
}

/* Sets up TLS for a socket, if TLS is configured. */
static void link_conceal(struct node_link *link)
{
    const struct node_tls *tls = link->how ? link->how->tls : NULL;
    if (tls && link->fd >= 0) {
        link->greeting = true;
        link->secrecy = node_tls_connect(tls, link->host, link->fd);
        if (!link->secrecy) {
            link_break(link, "TLS: out of memory");
        }
    }
}

static bool link_open(struct node_link *link)
{
    const struct addrinfo how = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    char port[8];
    (void)snprintf(port, sizeof port, "%u", link->port);
    const int code = getaddrinfo(link->host, port, &how, &found);
    link->connecting = true;
    if (code) {
        link_break(link, "%s", gai_strerror(code));
        return false;
    }
    const struct addrinfo *a = found;
    for (unsigned i = 0; i < link->attempt; i++) {
        a = a->ai_next ? a->ai_next : found;
    }
    const int one = 1;
    link->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (link->fd < 0
        || (connect(link->fd, a->ai_addr, a->ai_addrlen) < 0 && errno != EINPROGRESS)) {
        link_break(link, "%s", text_errno(errno));
    } else {
        (void)setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    freeaddrinfo(found);
    link_conceal(link);
    link->open_until = link->how && link->how->connect
                           ? cluster_now() + link->how->connect
                           : INT64_MAX;
    link->fresh = link->fd >= 0;
    return link->fd >= 0;
}

/* Empties a buffer, which may contain data from the previous round, and frees it if it is large. */
static void link_empty(struct link_bytes *b)
{
    enum { KEPT = 4 << 20 };
    if (b->room > KEPT) {
        free(b->bytes);
        *b = (struct link_bytes){ 0 };
    }
    b->used = 0;
}

bool link_begin(struct node_link *link)
{
    link->fresh = link->oversized = false;
    link_empty(&link->out);
    link_empty(&link->in);
    link->sent = link->taken = link->expected = link->whole = link->begin = 0;
    link->scan = (struct reply_scan){ 0 };
    return link->fd >= 0 || link_open(link);
}

/* ---- A round --------------------------------------------------------------------------------- */

static bool link_is_busy(const struct node_link *link)
{
    return link->fd >= 0 && link->whole < link->expected;
}

/* Handles a failed socket call: closes the link, unless the call should be retried. */
static void link_failed(struct node_link *link)
{
    if (errno == EPROTO && link->secrecy) {
        char wrong[NODE_TLS_WHY];
        (void)snprintf(wrong, sizeof wrong, "%s", node_tls_wrong(link->secrecy));
        link_break(link, "%s", wrong);
    } else if (errno != EAGAIN && errno != EINTR) {
        link_break(link, "%s", text_errno(errno));
    }
}

/* Continues opening a link. Returns true when the link is open. */
static bool link_opens(struct node_link *link)
{
    if (link->connecting) {
        int code = 0;
        socklen_t n = sizeof code;
        (void)getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &code, &n);
        if (code) {
            link_break(link, "%s", text_errno(code));
            return false;
        }
        link->connecting = false;
    }
    if (link->greeting) {
        link->greeting = node_tls_greet(link->secrecy) != 1;
        if (link->greeting) {
            link_failed(link);
        }
    }
    return link->fd >= 0 && !link->greeting;
}

static void link_send(struct node_link *link)
{
    while (link->sent < link->out.used) {
        const char *bytes = link->out.bytes + link->sent;
        const size_t left = link->out.used - link->sent;
        const ssize_t n = link->secrecy ? node_tls_send(link->secrecy, bytes, left)
                                        : send(link->fd, bytes, left, MSG_NOSIGNAL);
        if (n < 0) {
            link_failed(link);
            return;
        }
        link->sent += (size_t)n;
    }
}

/* Counts the complete replies received. */
static void link_scan(struct node_link *link)
{
    while (link->whole < link->expected) {
        const enum reply_state state = reply_scan(
            &link->scan, link->in.bytes + link->begin, link->in.used - link->begin);
        if (state == REPLY_BAD) {
            link_break(link, "the node sent an invalid RESP reply");
        }
        link->oversized = state == REPLY_LARGE; /* larger than any limit */
        if (state != REPLY_WHOLE) {
            return;
        }
        link->last = link->begin;
        link->begin += link->scan.at;
        link->scan = (struct reply_scan){ 0 };
        link->whole++;
    }
}

/* Returns false if out of memory. */
static bool link_receive(struct node_link *link)
{
    /* Larger than a TLS record, so TLS never buffers data that poll cannot see. */
    enum { AT_ONCE = 65536 };
    const size_t most = link->how && link->how->most ? link->how->most : LINK_MAX;
    if (!bytes_reserve(&link->in, AT_ONCE)) {
        return false;
    }
    char *to = link->in.bytes + link->in.used;
    const ssize_t n = link->secrecy ? node_tls_receive(link->secrecy, to, AT_ONCE)
                                    : recv(link->fd, to, AT_ONCE, 0);
    if (n > 0) {
        link->in.used += (size_t)n;
        link_scan(link);
        if (link->oversized || (link_is_busy(link) && link->in.used > most)) {
            link->oversized = true;
            link_break(link, "the node's replies exceed %zu bytes", most);
        }
    } else if (n == 0 || (errno == ECONNRESET && link->fresh)) {
        const bool mute = link->fresh && !link->in.used && !link->secrecy;
        link_break(link, "the node closed the connection%s",
                   mute ? ": is it a TLS port?" : "");
    } else {
        link_failed(link);
    }
    return true;
}

static short link_waits(const struct node_link *link)
{
    const bool sends = !link->greeting && link->sent < link->out.used;
    if (link->connecting) {
        return POLLOUT;
    }
    if (link->secrecy) {
        return node_tls_waits(link->secrecy, sends);
    }
    return (short)(POLLIN | (sends ? POLLOUT : 0));
}

/* Fills in the events to wait for, one entry per busy link, in the order of the links. Returns the
 * number of entries. */
static size_t links_watch(struct node_link *const *links, size_t n, struct pollfd *to)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (link_is_busy(links[i])) {
            to[count++] =
                (struct pollfd){ .fd = links[i]->fd, .events = link_waits(links[i]) };
        }
    }
    return count;
}

/* Continues opening a link, or sends and receives on it. Returns false if out of memory. */
static bool link_work(struct node_link *link, short events)
{
    if (link_is_opening(link) && !link_opens(link)) {
        return true;
    }
    if (link->secrecy || events & (POLLOUT | POLLERR | POLLHUP)) {
        link_send(link);
    }
    return link->fd < 0 || !(link->secrecy || events & (POLLIN | POLLHUP))
           || link_receive(link);
}

/* Handles the events reported by poll. Sets *moved if any link made progress. Returns false if out
 * of memory. */
static bool links_work(struct node_link *const *links, size_t n,
                       const struct pollfd *told, bool *moved)
{
    for (size_t i = 0, at = 0; i < n; i++) {
        if (!link_is_busy(links[i])) {
            continue;
        }
        const short events = told[at++].revents;
        *moved = *moved || events;
        if (events && !link_work(links[i], events)) {
            return false;
        }
    }
    return true;
}

static void links_break_busy(struct node_link *const *links, size_t n, const char *why)
{
    for (size_t i = 0; i < n; i++) {
        if (link_is_busy(links[i])) {
            link_break(links[i], "%s", why);
        }
    }
}

/* Closes links that did not open in time. Returns the earliest deadline for opening a link, or
 * `end` if that is earlier. */
static int64_t links_hurry(struct node_link *const *links, size_t n, int64_t end)
{
    const int64_t now = cluster_now();
    for (size_t i = 0; i < n; i++) {
        struct node_link *link = links[i];
        if (!link_is_busy(link) || !link_is_opening(link)) {
            continue;
        }
        if (link->open_until <= now) {
            link_break(link, "cannot establish a connection%s within %u ms",
                       link->connecting ? "" : " with TLS", link->how->connect);
        } else if (link->open_until < end) {
            end = link->open_until;
        }
    }
    return end;
}

bool links_exchange(struct node_link *const *links, size_t n, int timeout, int stop_fd)
{
    struct pollfd *watched = calloc(n + 1, sizeof *watched);
    int64_t end = cluster_now() + timeout;
    bool good = watched != NULL;
    while (good) {
        const int64_t left = links_hurry(links, n, end) - cluster_now();
        const size_t count = links_watch(links, n, watched);
        if (count == 0) {
            break;
        }
        if (cluster_now() >= end) {
            links_break_busy(links, n, "timed out waiting for a reply");
            break;
        }
        watched[count] = (struct pollfd){ .fd = stop_fd, .events = POLLIN };
        const int told = poll(watched, count + 1, left > 0 ? (int)left : 0);
        if (told < 0) {
            good = errno == EINTR;
            continue;
        }
        bool moved = false;
        good = !watched[count].revents && links_work(links, n, watched, &moved);
        end = moved ? cluster_now() + timeout : end;
    }
    if (!good) { /* late replies must not be mistaken for replies to later requests */
        links_break_busy(links, n, "the request was canceled");
    }
    free(watched);
    return good;
}

bool link_take(struct node_link *link, bg_bytes *reply)
{
    struct reply_scan scan = { 0 };
    if (link->taken >= link->begin
        || reply_scan(&scan, link->in.bytes + link->taken, link->begin - link->taken)
               != REPLY_WHOLE) {
        return false;
    }
    *reply = (bg_bytes){ link->in.bytes + link->taken, scan.at };
    link->taken += scan.at;
    return true;
}

bool link_last(const struct node_link *link, bg_bytes *reply)
{
    const bool came = link->expected && link->whole == link->expected;
    if (came) {
        *reply = (bg_bytes){ link->in.bytes + link->last, link->begin - link->last };
    }
    return came;
}
