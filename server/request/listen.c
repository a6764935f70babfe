/*
 * listen.c - see listen.h.
 *
 * Each worker has its own TCP sockets, with SO_REUSEPORT, so the kernel distributes new connections
 * among the workers. All workers share one Unix socket. Port 0 disables a listener instead of
 * letting the kernel choose a port, because clients would not know that port.
 */
#include "request/listen.h"

#include "request/conn.h"
#include "request/worker.h"
#include "text.h"
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* A port and the protocol used on it. */
struct offer {
    const char *option;
    uint64_t port;
    const struct protocol *protocol;
    bool tls;
};

static void listen_failed(const char *address, uint64_t port, const char *why)
{
    log_error("cannot listen",
              LOG_FIELDS(log_text("address", address), log_count("port", port),
                         log_text("error", why)));
}

static int listen_socket(const struct addrinfo *at, const struct settings *settings)
{
    const int one = 1;
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one)
        || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one)
        || (at->ai_family == AF_INET6
            && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one))
        || bind(fd, at->ai_addr, at->ai_addrlen)
        || listen(fd, (int)settings->tcp_backlog)) {
        const int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

/* Returns true if no other process is using the port. SO_REUSEPORT would allow sharing the port
 * with another process, so a socket without that option is bound first as a test. */
static bool listen_is_free(const struct addrinfo *at)
{
    const int one = 1, fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return true; /* listen_everybody reports the error */
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (at->ai_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    }
    const bool taken =
        bind(fd, at->ai_addr, at->ai_addrlen) != 0 && errno == EADDRINUSE;
    close(fd);
    return !taken;
}

static bool listen_everybody(struct server *server, const struct addrinfo *at,
                             const char *address, const struct offer *offer)
{
    const struct settings *settings = settings_now(server->store);
    if (!listen_is_free(at)) {
        listen_failed(address, offer->port, text_errno(EADDRINUSE));
        return false;
    }
    for (size_t i = 0; i < server->workers_count; i++) {
        const int fd = listen_socket(at, settings);
        if (fd < 0) {
            listen_failed(address, offer->port, text_errno(errno));
            return false;
        }
        if (!worker_listen(server->workers[i], fd, offer->protocol, offer->tls)) {
            listen_failed(address, offer->port, "out of memory");
            return false;
        }
    }
    log_info("listening",
             LOG_FIELDS(log_text("address", address), log_count("port", offer->port),
                        log_text("protocol", offer->protocol->name),
                        log_bool("tls", offer->tls)));
    return true;
}

/* Returns whether the given address does not belong to this machine. */
static bool listen_lacks(const struct addrinfo *at)
{
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return true;
    }
    const bool lacks =
        bind(fd, at->ai_addr, at->ai_addrlen) != 0 && errno == EADDRNOTAVAIL;
    close(fd);
    return lacks;
}

/* Listens on an address. An address that starts with '-', such as "-::1", may be unavailable
 * without causing an error. */
static bool listen_address(struct server *server, const char *address,
                           const struct offer *offer)
{
    const bool may_lack = *address == '-';
    const char *name = address + may_lack;
    const bool all = strcmp(name, "*") == 0;
    char port[8];
    struct addrinfo *found = NULL;
    const struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                                    .ai_socktype = SOCK_STREAM };
    (void)snprintf(port, sizeof port, "%u", (unsigned)offer->port);
    const int err = getaddrinfo(all ? NULL : name, port, &hints, &found);
    if (err) {
        listen_failed(name, offer->port, gai_strerror(err));
        return may_lack;
    }
    bool good = true;
    for (const struct addrinfo *at = found; good && at; at = at->ai_next) {
        good = ((may_lack || all) && listen_lacks(at))
               || listen_everybody(server, at, name, offer);
    }
    freeaddrinfo(found);
    return good;
}

/* Removes a socket file that a crashed process left behind, if no process is listening on it. Keeps
 * a file that is not a socket, because the path in the settings may be wrong. */
static void listen_remove_stale(const struct sockaddr_un *at)
{
    struct stat about;
    if (lstat(at->sun_path, &about) || !S_ISSOCK(about.st_mode)) {
        return;
    }
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        if (connect(fd, (const struct sockaddr *)at, sizeof *at)
            && errno == ECONNREFUSED) {
            (void)unlink(at->sun_path);
        }
        close(fd);
    }
}

static bool listen_unix(struct server *server, const struct settings *settings)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    const char *path = settings->unixsocket;
    if (!path || !*path) {
        return true;
    }
    if (strlen(path) >= sizeof at.sun_path) {
        listen_failed(path, 0, "unixsocket: the path is too long (maximum: 107 bytes)");
        return false;
    }
    memcpy(at.sun_path, path, strlen(path) + 1);
    listen_remove_stale(&at);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof at)
        || chmod(path, (mode_t)settings->unixsocketperm)
        || listen(fd, (int)settings->tcp_backlog)) {
        listen_failed(path, 0, text_errno(errno));
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    memcpy(server->unix_path, at.sun_path, sizeof server->unix_path);
    bool good = true;
    for (size_t i = 0; good && i < server->workers_count; i++) {
        const int own = i == 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 0);
        good =
            own >= 0 && worker_listen(server->workers[i], own, &resp_protocol, false);
    }
    log_info("listening",
             LOG_FIELDS(log_text("address", path), log_text("protocol", "resp")));
    return good;
}

void listen_end(struct server *server)
{
    if (server->unix_path[0]) {
        (void)unlink(server->unix_path);
        server->unix_path[0] = 0;
    }
}

bool listen_all(struct server *server)
{
    const struct settings *s = settings_now(server->store);
    const struct offer offers[] = {
        { "port", s->port, &resp_protocol, false },
        { "tls-port", s->tls_port, &resp_protocol, true },
        { "http-port", s->http_port, &http_protocol, false },
        { "https-port", s->https_port, &http_protocol, true }
    };
    for (size_t o = 0; o < sizeof offers / sizeof *offers; o++) {
        for (size_t i = 0; offers[o].port && i < s->bind.count; i++) {
            if (!listen_address(server, s->bind.items[i], &offers[o])) {
                return false;
            }
        }
    }
    return listen_unix(server, s);
}
