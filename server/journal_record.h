/*
 * journal_record.h - what happened, as bytes: the records of the journal.
 *
 * A record is 8 bytes and the fields of its type, in this order, without gaps. Numbers are
 * little-endian, texts are 4 bytes of length and their bytes:
 *
 *     0   4   bytes of the record, all of it
 *     4   1   type
 *     5   1   CHANGE: the operation, an enum change_op; else 0
 *     6   1   CHANGE: what it has, a sum of JOURNAL_HAS_*; else 0
 *     7   1   0
 *     8   ..  id 8, name, shape, expiry 8, file, digest, from 8, items 8, deleted 8,
 *             expansions 8, count 8; each only if the type has it
 *     ..      CHANGE: n 4; n hashes, 8 bytes each, or n keys, texts; value 8
 *
 *     CREATE          id name shape expiry      an object begins, empty
 *     DROP            id                        it ends
 *     RENAME          id name
 *     EXPIRE          id expiry
 *     CHANGE          id and a struct change
 *     BASE            id shape file digest from items deleted expansions
 *                                               its content is this file, and what is recorded
 *                                               for it in frames numbered `from` and above
 *     MANIFEST_BEGIN  count                     `count` entries follow
 *     MANIFEST_ENTRY  CREATE and BASE in one; no file: there is no base, all is recorded
 *     MANIFEST_END    count                     those are all the objects there are
 *     KEEP            from                      frames below are not needed any more
 *     MARK                                      nothing: the journal was closed in order
 *     DOUBT                                     in a manifest: objects may exist that it does not list,
 *                                               because frames were lost earlier
 *
 * Numbers of types are frozen, new ones are appended; a type, operation or content that this
 * version does not know is BG_EVERSION, anything else that is not exactly so BG_EFORMAT.
 *
 * The functions are pure. Whether bytes can be believed is decided by journal_record_read alone.
 */
#ifndef SERVER_JOURNAL_RECORD_H
#define SERVER_JOURNAL_RECORD_H

#include "bloomgate/err.h"
#include "host.h"

#include <stddef.h>
#include <stdint.h>

enum journal_type {
    JOURNAL_GAP =
        0, /* never in a file: readers that go beyond damage are told that frames
              `from` to `count` - 1 are missing here */
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

/* What a CHANGE has. Never 0 and unneeded: a value of 0 is left out. */
enum { JOURNAL_HAS_HASHES = 1, JOURNAL_HAS_KEYS = 2, JOURNAL_HAS_VALUE = 4 };

enum {
    JOURNAL_RECORD_HEAD = 8,
    JOURNAL_NAME_MOST = 65536,      /* bytes of a name */
    JOURNAL_TEXT_MOST = 4096,       /* bytes of a shape, a file's name, a digest */
    JOURNAL_ITEMS = 65536,          /* hashes or keys of one CHANGE */
    JOURNAL_PAYLOAD_MOST = 16 << 20 /* bytes of a frame's records */
};

/* Fields that a type has not are ignored by writing, and zero after reading. */
struct journal_record {
    enum journal_type type;
    uint64_t id;
    bg_bytes name;   /* any bytes */
    bg_bytes shape;  /* text of object_shape_write; the journal does not look at it */
    uint64_t expiry; /* milliseconds since 1970; 0: never */
    bg_bytes file, digest;
    uint64_t from;
    uint64_t items, deleted, expansions; /* of the object when its base was made */
    uint64_t count;
    struct change change;
};

/* Bytes of a record. BG_EINVAL for what cannot be written: an unknown type or operation, a
 * change without keys; BG_ELIMIT for what is too long. */
bg_err journal_record_bytes(const struct journal_record *record, size_t *bytes,
                            bg_errinfo *info);

/* Writes a record that journal_record_bytes has measured. Returns what is behind it. */
unsigned char *journal_record_write(const struct journal_record *record,
                                    unsigned char *to);

/* Reading: the bytes that are left, and room for the numbers of a change. Begin with memory
 * NULL; free it at the end. */
struct journal_cursor {
    const unsigned char *at;
    size_t left;
    void *memory;
    size_t memory_bytes;
};

/* Reads the next record; there is one while left > 0. What it points to is valid until the next
 * call, and as long as the bytes are. On error the cursor stays.
 * Errors: BG_EVERSION, BG_EFORMAT, BG_ENOMEM. Memory: at most 16 bytes per key of a change. */
bg_err journal_record_read(struct journal_cursor *cursor, struct journal_record *record,
                           bg_errinfo *info);

/* "create", "drop" ... for messages and tools; never NULL. */
const char *journal_type_name(enum journal_type type);

#endif
