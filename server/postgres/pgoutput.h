/*
 * pgoutput.h - parses messages in PostgreSQL's logical replication stream (pgoutput plugin, protocol 1).
 *
 * The bytes come from a server and are not trusted, so every length is checked against the end of the
 * message. Nothing is copied or allocated. Pointers in a message refer to the caller's buffer.
 *
 * Two layers:
 *
 *     stream message    'w' with one message of pgoutput, or 'k', a keepalive
 *     pgoutput message  Begin, Commit, Relation, Insert, Update, Message; the others are PGOUTPUT_IGNORED
 *
 * All functions return false for malformed input.
 */
#ifndef SERVER_POSTGRES_PGOUTPUT_H
#define SERVER_POSTGRES_PGOUTPUT_H

#include "bloomgate/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pgoutput_frame {
    bool is_keepalive;
    bool wants_reply; /* in a keepalive, whether the server requests a reply */
    uint64_t sent;    /* position up to which the server has sent all changes */
    bg_bytes payload; /* a pgoutput message; empty for a keepalive */
};

bool pgoutput_frame_parse(bg_bytes bytes, struct pgoutput_frame *frame);

enum pgoutput_kind {
    PGOUTPUT_IGNORED, /* Delete, Truncate, Origin, Type */
    PGOUTPUT_BEGIN,
    PGOUTPUT_COMMIT,
    PGOUTPUT_RELATION, /* columns */
    PGOUTPUT_ROW,      /* Insert or Update: values of the new row */
    PGOUTPUT_MESSAGE   /* pg_logical_emit_message */
};

struct pgoutput_message {
    enum pgoutput_kind kind;
    uint32_t relation;     /* OID: RELATION, ROW */
    uint16_t columns;      /* number of columns (RELATION) or values (ROW) */
    bg_bytes list;         /* the encoded columns or values; see below */
    bool is_transactional; /* MESSAGE */
    uint64_t lsn;          /* MESSAGE: end of the message's WAL record */
    bg_bytes prefix;       /* MESSAGE */
    bg_bytes content;      /* MESSAGE */
};

bool pgoutput_parse(bg_bytes bytes, struct pgoutput_message *message);

/* Finds the index of the column with the given name in a RELATION. Returns false if there is no
 * such column. */
bool pgoutput_column(const struct pgoutput_message *relation, const char *name,
                     uint16_t *number);

enum pgoutput_state { PGOUTPUT_NULL, PGOUTPUT_UNCHANGED, PGOUTPUT_TEXT };

struct pgoutput_value {
    /* UNCHANGED means a TOAST value that was not sent because the update did not change it. */
    enum pgoutput_state state;
    bg_bytes text;
};

/* Reads the next value of a ROW and removes it from message->list. Returns false if there are no
 * more values. */
bool pgoutput_value_next(struct pgoutput_message *row, struct pgoutput_value *value);

#endif
