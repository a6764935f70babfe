/*
 * journal/frame.h - the data that surrounds records: a segment's header and its frame heads.
 * docs/journal.md describes the format byte by byte.
 *
 *     0    header, 64 bytes
 *     64   frames, back to back: a head of 32 bytes, and records
 *
 * All integers are little-endian. Checksums are XXH3-64. Frame checksums are seeded with the
 * directory's ID and the run (the number of the first segment that the process wrote). As a result,
 * bytes from another journal, or from this journal before its tail was truncated, are never
 * accepted as frames. Such bytes may appear in blocks that the file system reuses, or in keys sent
 * by a client. A head has its own checksum, so its length can be trusted before the records are
 * read, and a search for the next frame examines only heads.
 */
#ifndef SERVER_JOURNAL_FRAME_H
#define SERVER_JOURNAL_FRAME_H

#include "bloomgate/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* Release 0.1 wrote version 1. It would delete packs, so it must not be able to open newer
     * journals. */
    JOURNAL_VERSION = 2,
    JOURNAL_HEADER = 64,
    JOURNAL_HEAD = 32,
    JOURNAL_ID = 16,
    JOURNAL_FRESH = 1 /* flag: no earlier segment is needed */
};

struct journal_header {
    uint32_t flags;
    uint64_t number; /* the segment's number */
    uint64_t first;  /* number of the segment's first frame */
    uint64_t run;    /* number of the first segment written by the same process */
    uint8_t id[JOURNAL_ID];
};

void journal_header_write(const struct journal_header *header,
                          unsigned char bytes[JOURNAL_HEADER]);

/* Reads a header. Errors: BG_EFORMAT, BG_ECHECKSUM, BG_EVERSION. */
bg_err journal_header_read(const unsigned char bytes[JOURNAL_HEADER],
                           struct journal_header *header, bg_errinfo *info);

/* Returns the seed for the checksums of a segment's frames. */
uint64_t journal_seed(const uint8_t id[JOURNAL_ID], uint64_t run);

struct journal_head {
    uint32_t length;   /* size of the records in bytes */
    uint64_t sequence; /* the frame's number */
    /* All frames up to this number were on disk when the frame was written. */
    uint64_t synced;
    uint64_t check; /* checksum of the records */
};

uint64_t journal_payload_check(const void *payload, size_t n, uint64_t seed);

void journal_head_write(const struct journal_head *head, uint64_t seed,
                        unsigned char bytes[JOURNAL_HEAD]);

/* Reads a head. Returns false if the head is not valid. */
bool journal_head_read(const unsigned char bytes[JOURNAL_HEAD], uint64_t seed,
                       struct journal_head *head);

#endif
