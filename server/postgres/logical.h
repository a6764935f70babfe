/*
 * postgres/logical.h - declarations shared by the follower and the readers of the `logical` mode; see
 * postgres/logical.c.
 */
#ifndef SERVER_POSTGRES_LOGICAL_H
#define SERVER_POSTGRES_LOGICAL_H

#include "postgres/marker.h"
#include "postgres/reader.h"

enum { LOGICAL_SEEN = 16 }; /* number of reader markers that are remembered */

/* source->mode_own */
struct logical {
    /* Name of the slot and the publication; also used in markers. */
    char *object;
    pthread_mutex_t lock; /* protects the fields below */
    pthread_cond_t changed;
    /* The current epoch is known, and its stream has been verified. */
    bool is_following;
    uint64_t round;             /* incremented whenever an epoch starts or ends */
    struct postgres_mark epoch; /* identity and fingerprint of the epoch */
    /* Nonces of the reader markers that arrived most recently in the stream. */
    char seen[LOGICAL_SEEN][PG_NONCE];
    unsigned next_seen;
    uint64_t heard; /* time (source_now) of the last stream message */
};

/* Returns the deadline for a statement that the follower or a reader runs. Such a statement may take longer
 * than a lookup. */
uint64_t logical_deadline(void);

/* Verifies the server, the role and the tables, and creates the publication if `install` allows it. Errors:
 * BG_EINVAL. */
bg_err logical_prepare(struct postgres_link *link, const struct logical *logical,
                       bg_errinfo *info);

/* Reads the identity and fingerprint in the current transaction. Errors: BG_EINVAL if the tables cannot be followed;
 * BG_EINCOMPAT if the server cannot be followed. */
bg_err logical_inspect(struct postgres_link *link, const struct logical *logical,
                       struct postgres_mark *found, bg_errinfo *info);

/* Compares the identities and fingerprints of two marks. Returns a description of the difference, or NULL if
 * they are equal. */
const char *logical_difference(const struct postgres_mark *a,
                               const struct postgres_mark *b);

/* Emits a marker and sets its LSN. */
bg_err logical_emit(struct postgres_link *link, const struct logical *logical,
                    struct postgres_marker *marker, bg_errinfo *info);

/* postgres/logical_reader.c: reads all keys (struct source_mode). */
struct logical_reader {
    struct postgres_reader reader;
    uint64_t round; /* the follower's round when the read started */
    struct postgres_mark epoch;
};

bg_err logical_keys_begin(void *reader, bg_errinfo *info);
bg_err logical_keys_prove(void *reader, bg_errinfo *info);

/* postgres/logical_follower.c */
void logical_follow(struct source *source);

#endif
