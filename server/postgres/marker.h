/*
 * postgres/marker.h - markers and marks, which prove continuity in the `logical` mode.
 *
 * A marker is a message that the follower or a reader writes into the WAL with pg_logical_emit_message, under
 * the prefix "bloomgate":
 *
 *     OBJECT follower NONCE NUMBER LSN      OBJECT reader NONCE 0 LSN
 *
 * OBJECT identifies the gate and the instance (source_object). LSN is the server's insert position just before the
 * marker was written, so it is at or before the start of the marker's record. A stream that starts at this LSN
 * includes the marker, because the server skips only records that start before the requested position. (The LSN sent
 * with the message is the end of the marker's record; a stream that starts there would not include the marker.)
 *
 * A mark is a position at which the follower can resume. It consists of a marker and the identity and fingerprint
 * that were verified with the marker.
 *
 *     logical 1 IDENTITY FINGERPRINT NONCE NUMBER LSN
 */
#ifndef SERVER_POSTGRES_MARKER_H
#define SERVER_POSTGRES_MARKER_H

#include "postgres/schema.h"

enum { PG_NONCE = 17, PG_LSN = 18 }; /* bytes, including a NUL */

#define POSTGRES_MARKER_PREFIX "bloomgate"

enum postgres_marker_kind { MARKER_OF_FOLLOWER, MARKER_OF_READER };

struct postgres_marker {
    enum postgres_marker_kind kind;
    char nonce[PG_NONCE]; /* 16 hex digits */
    uint64_t number;
    uint64_t lsn;
};

struct postgres_mark {
    char identity[PG_IDENTITY];
    char fingerprint[PG_FINGERPRINT];
    struct postgres_marker marker;
};

/* Returns the statement that emits the marker and selects its LSN. marker->lsn is not used. Returns NULL if out of
 * memory. */
char *postgres_marker_emit(const char *object, const struct postgres_marker *marker);

/* Parses a message. Returns false if the text is not a marker for this object. */
bool postgres_marker_parse(const char *object, bg_bytes text,
                           struct postgres_marker *marker);

bool postgres_marker_equal(const struct postgres_marker *a,
                           const struct postgres_marker *b);

void postgres_mark_print(const struct postgres_mark *mark, char text[SOURCE_MARK]);
bool postgres_mark_parse(const char *text, struct postgres_mark *mark);

/* Print and parse an LSN in the form X/X, in hex. */
void postgres_lsn_print(uint64_t lsn, char text[PG_LSN]);
bool postgres_lsn_parse(const char *text, uint64_t *lsn);

#endif
