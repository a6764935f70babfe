/*
 * postgres_logical.h - what the follower and the readers of mode logical share; see postgres_logical.c.
 */
#ifndef SERVER_POSTGRES_LOGICAL_H
#define SERVER_POSTGRES_LOGICAL_H

#include "postgres_marker.h"

enum { LOGICAL_SEEN = 16 }; /* markers of readers that are remembered */

/* source->mode_own */
struct logical {
    char *object;         /* the name of slot and publication, and in markers */
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool
        is_following; /* the present round's epoch is known and its stream was verified */
    uint64_t round;   /* changes with every epoch */
    struct postgres_mark epoch; /* its identity and fingerprint */
    char seen[LOGICAL_SEEN]
             [PG_NONCE]; /* nonces of readers that arrived in the stream */
    unsigned next_seen;
    uint64_t heard; /* source_now of the last message of the stream */
};

/* Statements of the follower and of readers may take longer than a lookup. */
uint64_t logical_deadline(void);

/* Verifies that server, role and tables can be followed, and creates the publication if it may. Errors: BG_EINVAL. */
bg_err logical_prepare(struct postgres_link *link, const struct logical *logical,
                       bg_errinfo *info);

/* Reads identity and fingerprint in the current transaction. Errors: BG_EINVAL, BG_EINCOMPAT: the tables or
 * the server cannot be followed. */
bg_err logical_inspect(struct postgres_link *link, const struct logical *logical,
                       struct postgres_mark *found, bg_errinfo *info);

/* Compares identity and fingerprint. Returns what differs; NULL if nothing does. */
const char *logical_difference(const struct postgres_mark *a,
                               const struct postgres_mark *b);

/* Emits a marker, and sets its LSN. */
bg_err logical_emit(struct postgres_link *link, const struct logical *logical,
                    struct postgres_marker *marker, bg_errinfo *info);

/* postgres_logical_reader.c: see struct source_mode. */
bg_err logical_keys_open(struct source *source, void **reader, bg_errinfo *info);
bg_err logical_keys_next(void *reader, struct key_batch *batch, size_t room,
                         bg_errinfo *info);
bg_err logical_keys_rewind(void *reader, bg_errinfo *info);
bg_err logical_keys_prove(void *reader, bg_errinfo *info);
void logical_keys_close(void *reader);

/* postgres_logical_follower.c */
void logical_follow(struct source *source);

#endif
