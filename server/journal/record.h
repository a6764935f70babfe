/*
 * journal/record.h - the encoding of a journal: a segment's header, its frame heads and its records.
 * Tests check the format byte by byte.
 *
 *     0    header, 64 bytes
 *     64   frames, back to back: a head of 32 bytes, and records
 *
 *     header   0   8    89 42 47 4a 0d 0a 1a 0a
 *              8   4    version: 2 (1, written by release 0.1, has no packs and is also read)
 *              12  4    flags: 1 if no earlier segment is needed
 *              16  8    number of the segment, as in its file name
 *              24  8    number of its first frame
 *              32  16   ID of the directory: random, the same in all segments
 *              48  8    run
 *              56  8    checksum of bytes 0 to 55
 *
 *     head     0   4    bytes of the records, 8 to 16777216
 *              4   4    lower half of the checksum of the head, with 0 in this field
 *              8   8    number of the frame: one more than the previous frame's
 *              16  8    all frames up to this number were synced
 *              24  8    checksum of the records
 *
 * journal.lock contains a copy of the newest segment's header, synced after the segment is renamed.
 * After a clean shutdown, a second copy follows, with the number of the MARK's frame instead of the
 * first frame's.
 *
 * All integers are little-endian. Checksums are XXH3-64. Frame checksums are seeded with the
 * directory's ID and the run (the number of the first segment that the process wrote). As a result,
 * bytes from another journal, or from this journal before its tail was truncated, are never
 * accepted as frames. Such bytes may appear in blocks that the file system reuses, or in keys sent
 * by a client. A head has its own checksum, so its length can be trusted before the records are
 * read, and a search for the next frame examines only heads.
 *
 * A record consists of an 8-byte header followed by the fields of its type, in this order and
 * without gaps. A string is a 4-byte length followed by its bytes:
 *
 *     0   4   bytes of the whole record
 *     4   1   type
 *     5   1   CHANGE: the operation, an enum change_op; otherwise 0
 *     6   1   CHANGE: its content, a sum of JOURNAL_HAS_*; otherwise 0
 *     7   1   0
 *     8   ..  id 8, name, shape, expiry 8, file, digest, from 8, items 8, deleted 8,
 *             expansions 8, count 8; each only if the type has it
 *     ..      CHANGE: n 4; n hashes, 8 bytes each, or n keys as strings; value 8
 *
 *     CREATE          id name shape expiry      an empty object was created
 *     DROP            id                        the object was dropped
 *     RENAME          id name
 *     EXPIRE          id expiry
 *     CHANGE          id and a struct change
 *     BASE            id shape file digest from items deleted expansions
 *                                               its content is this file, plus its records
 *                                               in frames numbered `from` and above
 *     MANIFEST_BEGIN  count                     `count` entries follow
 *     MANIFEST_ENTRY  CREATE and BASE in one; no file: it has no base, and is entirely recorded
 *     MANIFEST_END    count                     the entries are all objects that exist
 *     KEEP            from                      frames below `from` are no longer needed
 *     MARK                                      the journal was closed in an orderly way
 *     DOUBT                                     in a manifest: objects may exist that it does not
 *                                               list, because frames were lost earlier
 *
 * Type numbers never change; new types are appended. An unknown type, operation or content flag is
 * reported as BG_EVERSION; any other format violation is reported as BG_EFORMAT.
 *
 * The functions are pure. journal_record_read is the only function that validates untrusted bytes.
 */
#ifndef SERVER_JOURNAL_RECORD_H
#define SERVER_JOURNAL_RECORD_H

#include "bloomgate/err.h"
#include "host.h"

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

enum journal_type {
    /* Never stored in a file. When a reader continues past damage, this record reports that frames
     * `from` through `count` - 1 are missing at this point. */
    JOURNAL_GAP = 0,
    JOURNAL_CREATE = 1,
    JOURNAL_DROP = 2,
    JOURNAL_RENAME = 3,
    JOURNAL_EXPIRE = 4,
    JOURNAL_CHANGE = 5,
    JOURNAL_BASE = 6,
    JOURNAL_MANIFEST_BEGIN = 7,
    JOURNAL_MANIFEST_ENTRY = 8,
    JOURNAL_MANIFEST_END = 9,
    JOURNAL_KEEP = 10,
    JOURNAL_MARK = 11,
    JOURNAL_DOUBT = 12,
    JOURNAL_TYPES
};

/* The content of a CHANGE. Each CHANGE has exactly one encoding, so a value of 0 is encoded by
 * omitting the field. */
enum { JOURNAL_HAS_HASHES = 1, JOURNAL_HAS_KEYS = 2, JOURNAL_HAS_VALUE = 4 };

enum {
    JOURNAL_RECORD_HEAD = 8,
    JOURNAL_NAME_MAX = 65536, /* maximum length of a name */
    /* Maximum length of a shape, a file name or a digest. */
    JOURNAL_TEXT_MAX = 4096,
    JOURNAL_ITEMS = 65536,         /* maximum number of hashes or keys in one CHANGE */
    JOURNAL_PAYLOAD_MAX = 16 << 20 /* maximum size of a frame's records */
};

/* Fields that a record type does not have are ignored when writing and are zero after reading. */
struct journal_record {
    enum journal_type type;
    uint64_t id;
    bg_bytes name;   /* any bytes */
    bg_bytes shape;  /* text written by object_shape_write; opaque to the journal */
    uint64_t expiry; /* milliseconds since 1970, or 0 for never */
    bg_bytes file, digest;
    uint64_t from;
    /* The object's counters when its base was created. */
    uint64_t items, deleted, expansions;
    uint64_t count;
    struct change change;
};

/* Computes the size of a record. Errors: BG_EINVAL for an unknown type or operation, or a change
 * without keys; BG_EQUOTA if a field or the record is too long. */
bg_err journal_record_bytes(const struct journal_record *record, size_t *bytes,
                            bg_errinfo *info);

/* Writes a record that journal_record_bytes has measured. Returns a pointer to the byte after the
 * record. */
unsigned char *journal_record_write(const struct journal_record *record,
                                    unsigned char *to);

/* A read cursor: the remaining bytes, and memory for the hashes or keys in a change. `memory`
 * must be NULL before the first read. The caller frees it after the last read. */
struct journal_cursor {
    const unsigned char *at;
    size_t left;
    void *memory;
    size_t memory_bytes;
};

/* Reads the next record. Call this function while left > 0. The record's pointers are valid until
 * the next call, and only while the input bytes are valid. On error the cursor does not move.
 * Errors: BG_EVERSION, BG_EFORMAT, BG_ENOMEM. Memory: at most 16 bytes per key in a change. */
bg_err journal_record_read(struct journal_cursor *cursor, struct journal_record *record,
                           bg_errinfo *info);

#endif
