/*
 * postgres/slot.h - logical replication slots. For each slot, the server keeps the WAL that the slot's owner has not
 * confirmed.
 *
 * The follower owns a persistent slot. Readers create temporary slots because the server exports a snapshot with each
 * temporary slot.
 */
#ifndef SERVER_POSTGRES_SLOT_H
#define SERVER_POSTGRES_SLOT_H

#include "postgres/link.h"

struct postgres_slot {
    bool exists;
    bool fits;    /* the slot is a logical slot with the pgoutput plugin */
    bool is_here; /* the slot belongs to this database */
    bool is_lost; /* the server has removed WAL that the slot needs */
    int user;     /* PID of the process that is using the slot, or 0 */
    uint64_t confirmed;
};

/* Reads the state of a slot. */
bg_err postgres_slot_look(struct postgres_link *link, const char *name,
                          uint64_t deadline, struct postgres_slot *slot,
                          bg_errinfo *info);

/* Drops the slot if it exists. Errors: BG_EBUSY if a process is using the slot; BG_EINVAL if the slot is not a
 * logical slot with the pgoutput plugin. */
bg_err postgres_slot_drop(struct postgres_link *link, const char *name,
                          uint64_t deadline, bg_errinfo *info);

/* Callback that reports the oldest transaction that the server is waiting for, first after one second and
 * then every minute. */
struct postgres_slot_wait {
    struct postgres_link *link; /* another connection */
    void (*waits)(void *context, const char *why);
    void *context;
};

enum { PG_SNAPSHOT = 64 };

/*
 * Creates a slot over a PG_STREAMS connection. The server first waits until all running write transactions have
 * ended. If `snapshot` is NULL, the slot is persistent. Otherwise, the slot is temporary, and the server drops it
 * when the connection is closed. `snapshot` is set to the name of a snapshot that can be imported until the
 * connection is closed. The snapshot contains exactly the transactions whose commit records precede the slot's
 * starting point.
 */
bg_err postgres_slot_create(struct postgres_link *link, const char *name,
                            const struct postgres_slot_wait *wait,
                            char snapshot[PG_SNAPSHOT], bg_errinfo *info);

#endif
