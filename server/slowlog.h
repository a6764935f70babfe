/*
 * slowlog.h - requests that took long, the last ones: SLOWLOG.
 *
 * The settings say what is long. What is kept of a request is what it was and about which filters;
 * its items are not, since they are other people's data. Log-ins are not kept at all.
 *
 * Requests of a pipeline that are answered together are not timed: they are as short as a batch.
 *
 * Thread safety: MT-Safe. Cost of timing a request: two reads of the clock.
 */
#ifndef SERVER_SLOWLOG_H
#define SERVER_SLOWLOG_H

#include "session.h"

enum {
    SLOWLOG_MOST = 128, /* requests */
    SLOWLOG_WORDS = 8,  /* of one */
    SLOWLOG_WORD = 128  /* bytes of one word */
};

struct slowlog;

struct slowlog *slowlog_create(void); /* NULL: no memory */
void slowlog_free(struct slowlog *slowlog);

/* Nanoseconds of a clock that only goes forward. */
uint64_t slowlog_clock(void);

void slowlog_note(struct slowlog *slowlog, const struct session *session,
                  const struct request *request, uint64_t microseconds);

extern const struct command slowlog_commands[];

#endif
