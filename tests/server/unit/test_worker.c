/* test_worker.c - tests which worker gets a connection. */
#define _GNU_SOURCE

#include "support/scratch.h"
#include "support/service_world.h"

#include "request/worker.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    CLIENTS = 4,
    PATIENCE = 300000 /* milliseconds; reached only if a test fails */
};

static int listening(struct sockaddr_un *at)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    *at = (struct sockaddr_un){ .sun_family = AF_UNIX };
    (void)snprintf(at->sun_path, sizeof at->sun_path, "%s", scratch_path("socket"));
    CHECK(fd >= 0 && bind(fd, (const struct sockaddr *)at, sizeof *at) == 0
          && listen(fd, CLIENTS) == 0);
    return fd;
}

static bool is_answered(int client)
{
    char reply[8] = "";
    struct pollfd waits = { .fd = client, .events = POLLIN };
    return write(client, "PING\r\n", 6) == 6 && poll(&waits, 1, PATIENCE) == 1
           && read(client, reply, sizeof reply - 1) == 7
           && strcmp(reply, "+PONG\r\n") == 0;
}

/* If a worker's thread cannot be created, the other workers must not hand connections to that
 * worker. Otherwise, those connections would be neither served nor closed, and the service would
 * wait for them when it stops. */
TEST(worker__without_a_thread_gets_no_connections)
{
    static struct world w;
    struct sockaddr_un at;
    struct worker *workers[2];
    int clients[CLIENTS];
    CHECK(world_open(&w, scratch_path("world"), ""));
    for (size_t i = 0; i < 2; i++) {
        workers[i] = worker_create(&w.server, i);
        CHECK(workers[i]);
    }
    w.server.workers = workers;
    w.server.workers_count = 2;
    CHECK(worker_listen(workers[0], listening(&at), &resp_protocol, false));
    CHECK(worker_start(workers[0]));
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(connect(clients[i], (const struct sockaddr *)&at, sizeof at) == 0);
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        CHECK(is_answered(clients[i]));
    }
    worker_post_stop(workers[0], false);
    worker_join(workers[0]);
    CHECK_EQ(atomic_load(&w.server.clients), 0);
    for (size_t i = 0; i < CLIENTS; i++) {
        (void)close(clients[i]);
    }
    worker_free(workers[0]);
    worker_free(workers[1]);
    world_close(&w);
}
