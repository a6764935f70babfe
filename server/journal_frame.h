/*
 * journal_frame.h - the bytes around records: a segment's header, and the heads of its frames.
 * docs/journal.md says it byte by byte.
 *
 *     0    header, 64 bytes
 *     64   frames, one behind the other: a head of 32 bytes, and records
 *
 * All numbers are little-endian. Checks are XXH3-64. Those of frames are seeded by the folder's
 * id and the run, which is the number of the segment that the process began with. So bytes of
 * another journal, or of this one before its tail was cut off, never look like frames, wherever
 * they turn up: in blocks that the file system uses again, or in keys that a client sent. A head
 * has a check of its own, so its length is believed before the records are read, and a search
 * for the next frame looks at heads only.
 */
#ifndef SERVER_JOURNAL_FRAME_H
#define SERVER_JOURNAL_FRAME_H

#include "bloomgate/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JOURNAL_VERSION = 2, /* 1: of version 0.1, which would delete packs */
    JOURNAL_HEADER = 64,
    JOURNAL_HEAD = 32,
    JOURNAL_ID = 16,
    JOURNAL_FRESH = 1 /* flag: nothing before this segment is needed */
};

struct journal_header {
    uint32_t flags;
    uint64_t number; /* of the segment */
    uint64_t first;  /* number of its first frame */
    uint64_t run;    /* number of the segment that its process began with */
    uint8_t id[JOURNAL_ID];
};

void journal_header_write(const struct journal_header *header,
                          unsigned char bytes[JOURNAL_HEADER]);

/* Errors: BG_EFORMAT, BG_ECHECKSUM, BG_EVERSION. */
bg_err journal_header_read(const unsigned char bytes[JOURNAL_HEADER],
                           struct journal_header *header, bg_errinfo *info);

/* What the checks of a segment's frames begin with. */
uint64_t journal_seed(const uint8_t id[JOURNAL_ID], uint64_t run);

struct journal_head {
    uint32_t length;   /* bytes of the records */
    uint64_t sequence; /* the frame's number */
    uint64_t
        synced;     /* all frames up to this one were on the disk when it was written */
    uint64_t check; /* of the records */
};

uint64_t journal_payload_check(const void *payload, size_t n, uint64_t seed);

void journal_head_write(const struct journal_head *head, uint64_t seed,
                        unsigned char bytes[JOURNAL_HEAD]);

/* False: those are not the bytes of a head. */
bool journal_head_read(const unsigned char bytes[JOURNAL_HEAD], uint64_t seed,
                       struct journal_head *head);

#endif
