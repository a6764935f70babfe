/*
 * journal/record.c - encodes segment headers, frame heads and records, and decodes untrusted bytes
 * into them or into errors.
 *
 * One table lists the fields of each record type. Both encoding and decoding use this table, so
 * they cannot diverge. In a CHANGE record, the hashes or keys follow the fields.
 *
 * Decoding is strict: a record must have exactly the stated number of bytes, every length is
 * compared with the number of remaining bytes before it is used, and each record has exactly one
 * encoding. Decoding a record and encoding it again therefore produces the same bytes.
 */
#include "journal/record.h"

#include "bytes.h"
#include "journal/error.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include "xxhash.h"

/* ---- Headers and heads ----------------------------------------------------------------------- */

enum {
    HEADER_VERSION_AT = 8,
    HEADER_FLAGS_AT = 12,
    HEADER_NUMBER_AT = 16,
    HEADER_FIRST_AT = 24,
    HEADER_ID_AT = 32,
    HEADER_RUN_AT = 48,
    HEADER_CHECK_AT = 56,

    HEAD_LENGTH_AT = 0,
    HEAD_CHECK_AT = 4, /* checksum of the head, computed with 0 in this field */
    HEAD_SEQUENCE_AT = 8,
    HEAD_SYNCED_AT = 16,
    HEAD_RECORDS_AT = 24
};

static const unsigned char header_magic[8] = { 0x89, 'B',  'G',  'J',
                                               '\r', '\n', 0x1a, '\n' };

void journal_header_write(const struct journal_header *header,
                          unsigned char bytes[JOURNAL_HEADER])
{
    memcpy(bytes, header_magic, sizeof header_magic);
    bytes_store32(bytes + HEADER_VERSION_AT, JOURNAL_VERSION);
    bytes_store32(bytes + HEADER_FLAGS_AT, header->flags);
    bytes_store64(bytes + HEADER_NUMBER_AT, header->number);
    bytes_store64(bytes + HEADER_FIRST_AT, header->first);
    memcpy(bytes + HEADER_ID_AT, header->id, JOURNAL_ID);
    bytes_store64(bytes + HEADER_RUN_AT, header->run);
    bytes_store64(bytes + HEADER_CHECK_AT, XXH3_64bits(bytes, HEADER_CHECK_AT));
}

bg_err journal_header_read(const unsigned char bytes[JOURNAL_HEADER],
                           struct journal_header *header, bg_errinfo *info)
{
    if (memcmp(bytes, header_magic, sizeof header_magic) != 0) {
        return journal_error(info, BG_EFORMAT, "file signature", "a Bloomgate journal",
                             "a different kind of file");
    }
    uint64_t check = bytes_load64(bytes + HEADER_CHECK_AT);
    if (check != XXH3_64bits(bytes, HEADER_CHECK_AT)) {
        return journal_error_why(info, BG_ECHECKSUM, "header checksum",
                                 "0x%016llx does not match the bytes of the header",
                                 (unsigned long long)check);
    }
    uint32_t version = bytes_load32(bytes + HEADER_VERSION_AT);
    uint32_t flags = bytes_load32(bytes + HEADER_FLAGS_AT);
    if (version == 0 || version > JOURNAL_VERSION || flags > JOURNAL_FRESH) {
        return journal_error(info, BG_EVERSION, "version and flags",
                             "version 1 or 2, flags 0 or 1", "version %u, flags %u",
                             version, flags);
    }
    *header = (struct journal_header){
        .flags = flags,
        .number = bytes_load64(bytes + HEADER_NUMBER_AT),
        .first = bytes_load64(bytes + HEADER_FIRST_AT),
        .run = bytes_load64(bytes + HEADER_RUN_AT),
    };
    memcpy(header->id, bytes + HEADER_ID_AT, JOURNAL_ID);
    if (header->first == 0 || header->run == 0 || header->run > header->number) {
        return journal_error(
            info, BG_EFORMAT, "segment numbers",
            "a frame number of at least 1, and a run number from 1 to the segment "
            "number",
            "frame %llu, run %llu", (unsigned long long)header->first,
            (unsigned long long)header->run);
    }
    return BG_OK;
}

uint64_t journal_seed(const uint8_t id[JOURNAL_ID], uint64_t run)
{
    unsigned char bytes[JOURNAL_ID + 8];
    memcpy(bytes, id, JOURNAL_ID);
    bytes_store64(bytes + JOURNAL_ID, run);
    return XXH3_64bits(bytes, sizeof bytes);
}

uint64_t journal_payload_check(const void *payload, size_t n, uint64_t seed)
{
    return XXH3_64bits_withSeed(payload, n, seed);
}

/* Computes the checksum of a head whose checksum field is 0. */
static uint32_t head_check(const unsigned char bytes[JOURNAL_HEAD], uint64_t seed)
{
    return (uint32_t)XXH3_64bits_withSeed(bytes, JOURNAL_HEAD, seed);
}

void journal_head_write(const struct journal_head *head, uint64_t seed,
                        unsigned char bytes[JOURNAL_HEAD])
{
    bytes_store32(bytes + HEAD_LENGTH_AT, head->length);
    bytes_store32(bytes + HEAD_CHECK_AT, 0);
    bytes_store64(bytes + HEAD_SEQUENCE_AT, head->sequence);
    bytes_store64(bytes + HEAD_SYNCED_AT, head->synced);
    bytes_store64(bytes + HEAD_RECORDS_AT, head->check);
    bytes_store32(bytes + HEAD_CHECK_AT, head_check(bytes, seed));
}

bool journal_head_read(const unsigned char bytes[JOURNAL_HEAD], uint64_t seed,
                       struct journal_head *head)
{
    unsigned char copy[JOURNAL_HEAD];
    *head = (struct journal_head){
        .length = bytes_load32(bytes + HEAD_LENGTH_AT),
        .sequence = bytes_load64(bytes + HEAD_SEQUENCE_AT),
        .synced = bytes_load64(bytes + HEAD_SYNCED_AT),
        .check = bytes_load64(bytes + HEAD_RECORDS_AT),
    };
    if (head->length < JOURNAL_RECORD_HEAD || head->length > JOURNAL_PAYLOAD_MAX
        || head->synced > head->sequence) {
        return false;
    }
    memcpy(copy, bytes, sizeof copy);
    bytes_store32(copy + HEAD_CHECK_AT, 0);
    return bytes_load32(bytes + HEAD_CHECK_AT) == head_check(copy, seed);
}

/* ---- Records -------------------------------------------------------------------------------- */

enum field_form { FIELD_NUMBER, FIELD_TEXT };

/* X(name, form, maximum bytes): the fields, in the order in which they are written. */
#define FIELDS(X)                                                                      \
    X(id, FIELD_NUMBER, 0)                                                             \
    X(name, FIELD_TEXT, JOURNAL_NAME_MAX)                                              \
    X(shape, FIELD_TEXT, JOURNAL_TEXT_MAX)                                             \
    X(expiry, FIELD_NUMBER, 0)                                                         \
    X(file, FIELD_TEXT, JOURNAL_TEXT_MAX)                                              \
    X(digest, FIELD_TEXT, JOURNAL_TEXT_MAX)                                            \
    X(from, FIELD_NUMBER, 0)                                                           \
    X(items, FIELD_NUMBER, 0)                                                          \
    X(deleted, FIELD_NUMBER, 0)                                                        \
    X(expansions, FIELD_NUMBER, 0)                                                     \
    X(count, FIELD_NUMBER, 0)

struct field {
    const char *name;
    size_t at;
    enum field_form form;
    uint32_t most;
};

static const struct field fields[] = {
#define FIELD_ROW(name, form, most)                                                    \
    { #name, offsetof(struct journal_record, name), form, most },
    FIELDS(FIELD_ROW)
#undef FIELD_ROW
};

enum field_number {
#define FIELD_INDEX(name, form, most) field_##name,
    FIELDS(FIELD_INDEX)
#undef FIELD_INDEX
        FIELD_COUNT
};

#define HAS(name)  (1u << field_##name)
#define HAS_CREATE (HAS(id) | HAS(name) | HAS(shape) | HAS(expiry))
#define HAS_FILE                                                                       \
    (HAS(file) | HAS(digest) | HAS(from) | HAS(items) | HAS(deleted) | HAS(expansions))

static const unsigned record_fields[JOURNAL_TYPES] = {
    [JOURNAL_GAP] = 0,
    [JOURNAL_CREATE] = HAS_CREATE,
    [JOURNAL_DROP] = HAS(id),
    [JOURNAL_RENAME] = HAS(id) | HAS(name),
    [JOURNAL_EXPIRE] = HAS(id) | HAS(expiry),
    [JOURNAL_CHANGE] = HAS(id),
    [JOURNAL_BASE] = HAS(id) | HAS(shape) | HAS_FILE,
    [JOURNAL_MANIFEST_BEGIN] = HAS(count),
    [JOURNAL_MANIFEST_ENTRY] = HAS_CREATE | HAS_FILE,
    [JOURNAL_MANIFEST_END] = HAS(count),
    [JOURNAL_KEEP] = HAS(from),
    [JOURNAL_MARK] = 0,
    [JOURNAL_DOUBT] = 0,
};

static bool record_is_type(unsigned type)
{
    return type > JOURNAL_GAP && type < JOURNAL_TYPES;
}

static bool record_has(enum journal_type type, size_t field)
{
    return record_fields[type] >> field & 1;
}

/* Returns whether an operation contains hashes or keys, as adds and removes do. */
static bool record_has_keys(unsigned op)
{
    return op == CHANGE_ADD || op == CHANGE_REMOVE;
}

static bool record_is_operation(unsigned op)
{
    return record_has_keys(op) || op == CHANGE_ROTATE;
}

static uint64_t *record_number(struct journal_record *record, const struct field *field)
{
    return (uint64_t *)(void *)((char *)record + field->at);
}

static bg_bytes *record_text(struct journal_record *record, const struct field *field)
{
    return (bg_bytes *)(void *)((char *)record + field->at);
}

/* ---- Writing ----------------------------------------------------------------------------- */

/* Returns the JOURNAL_HAS_* flags for a change. Ignores fields that do not apply. */
static unsigned record_change_has(const struct change *change)
{
    unsigned has = change->value ? JOURNAL_HAS_VALUE : 0;
    if (change->n > 0) {
        has |= change->hashes ? JOURNAL_HAS_HASHES : JOURNAL_HAS_KEYS;
    }
    return has;
}

static bg_err record_check_change(const struct change *change, bg_errinfo *info)
{
    bool keyed = record_has_keys((unsigned)change->op);
    if (!record_is_operation((unsigned)change->op)) {
        return journal_error(info, BG_EINVAL, "operation",
                             "an add, a remove or a rotation", "%d", (int)change->op);
    }
    if (keyed ? change->n == 0 || (!change->hashes && !change->keys) : change->n > 0) {
        return journal_error(
            info, BG_EINVAL, "keys of a change",
            "hashes or keys for an add or a remove, and neither for a rotation",
            "operation %d with %zu keys", (int)change->op, change->n);
    }
    if (change->n > JOURNAL_ITEMS) {
        return journal_error(info, BG_EQUOTA, "change", "at most 65536 keys",
                             "%zu keys", change->n);
    }
    return BG_OK;
}

/* Adds to `bytes`. The sum cannot overflow, because it is checked at every step. */
static bg_err record_count(size_t *bytes, size_t more, bg_errinfo *info)
{
    if (more > JOURNAL_PAYLOAD_MAX || *bytes + more > JOURNAL_PAYLOAD_MAX) {
        return journal_error(info, BG_EQUOTA, "record", "at most 16 MiB",
                             "at least %zu bytes", *bytes + more);
    }
    *bytes += more;
    return BG_OK;
}

static bg_err record_count_change(const struct change *change, size_t *bytes,
                                  bg_errinfo *info)
{
    unsigned has = record_change_has(change);
    bg_err err = record_check_change(change, info);
    size_t fixed = 4 + (has & JOURNAL_HAS_VALUE ? 8 : 0);
    err = err ? err : record_count(bytes, fixed, info);
    if (!err && has & JOURNAL_HAS_HASHES) {
        err = record_count(bytes, 8 * change->n, info);
    }
    for (size_t i = 0; !err && has & JOURNAL_HAS_KEYS && i < change->n; i++) {
        err = record_count(bytes, 4, info);
        err = err ? err : record_count(bytes, change->keys[i].len, info);
    }
    return err;
}

bg_err journal_record_bytes(const struct journal_record *record, size_t *bytes,
                            bg_errinfo *info)
{
    size_t sum = JOURNAL_RECORD_HEAD;
    bg_err err = BG_OK;
    if (!record_is_type((unsigned)record->type)) {
        return journal_error(info, BG_EINVAL, "record type", "1 to 12", "%d",
                             (int)record->type);
    }
    for (size_t i = 0; i < FIELD_COUNT && !err; i++) {
        if (!record_has(record->type, i)) {
            continue;
        }
        size_t more = 8;
        if (fields[i].form == FIELD_TEXT) {
            const bg_bytes *text = record_text((void *)(uintptr_t)record, &fields[i]);
            if (text->len > fields[i].most) {
                return journal_error(
                    info, BG_EQUOTA, fields[i].name,
                    "at most 65536 bytes for a name, or 4096 for other fields",
                    "%zu bytes", text->len);
            }
            more = 4 + text->len;
        }
        err = record_count(&sum, more, info);
    }
    if (!err && record->type == JOURNAL_CHANGE) {
        err = record_count_change(&record->change, &sum, info);
    }
    *bytes = err ? 0 : sum;
    return err;
}

static unsigned char *record_put_text(unsigned char *to, bg_bytes text)
{
    bytes_store32(to, (uint32_t)text.len);
    if (text.len) {
        memcpy(to + 4, text.data, text.len);
    }
    return to + 4 + text.len;
}

static unsigned char *record_put_change(unsigned char *to, const struct change *change)
{
    unsigned has = record_change_has(change);
    bytes_store32(to, (uint32_t)change->n);
    to += 4;
    if (has & JOURNAL_HAS_HASHES) {
        for (size_t i = 0; i < change->n; i++) {
            bytes_store64(to + 8 * i, change->hashes[i]);
        }
        to += 8 * change->n;
    }
    for (size_t i = 0; has & JOURNAL_HAS_KEYS && i < change->n; i++) {
        to = record_put_text(to, change->keys[i]);
    }
    if (has & JOURNAL_HAS_VALUE) {
        bytes_store64(to, change->value);
        to += 8;
    }
    return to;
}

unsigned char *journal_record_write(const struct journal_record *record,
                                    unsigned char *to)
{
    bool change = record->type == JOURNAL_CHANGE;
    unsigned char *p = to + JOURNAL_RECORD_HEAD;
    to[4] = (unsigned char)record->type;
    to[5] = change ? (unsigned char)record->change.op : 0;
    to[6] = change ? (unsigned char)record_change_has(&record->change) : 0;
    to[7] = 0;
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (!record_has(record->type, i)) {
            continue;
        }
        if (fields[i].form == FIELD_TEXT) {
            p = record_put_text(p, *record_text((void *)(uintptr_t)record, &fields[i]));
        } else {
            bytes_store64(p, *record_number((void *)(uintptr_t)record, &fields[i]));
            p += 8;
        }
    }
    p = change ? record_put_change(p, &record->change) : p;
    bytes_store32(to, (uint32_t)(p - to));
    return p;
}

/* ---- Reading ----------------------------------------------------------------------------- */

/* The unread bytes of one record. */
struct record_rest {
    const unsigned char *at;
    size_t left;
};

static bg_err record_short(const struct record_rest *rest, const char *what,
                           size_t needed, bg_errinfo *info)
{
    return journal_error(info, BG_EFORMAT, what, "a field that ends within its record",
                         "%zu of %zu bytes", rest->left, needed);
}

static bg_err record_get_number(struct record_rest *rest, const char *what,
                                uint64_t *number, bg_errinfo *info)
{
    if (rest->left < 8) {
        return record_short(rest, what, 8, info);
    }
    *number = bytes_load64(rest->at);
    rest->at += 8;
    rest->left -= 8;
    return BG_OK;
}

static bg_err record_get_text(struct record_rest *rest, const char *what, uint32_t most,
                              bg_bytes *text, bg_errinfo *info)
{
    if (rest->left < 4) {
        return record_short(rest, what, 4, info);
    }
    uint32_t len = bytes_load32(rest->at);
    if (len > rest->left - 4) {
        return record_short(rest, what, len, info);
    }
    if (len > most) {
        return journal_error(info, BG_EFORMAT, what,
                             "at most 65536 bytes for a name, or 4096 for other fields",
                             "%u bytes", len);
    }
    *text = (bg_bytes){ rest->at + 4, len };
    rest->at += 4 + (size_t)len;
    rest->left -= 4 + (size_t)len;
    return BG_OK;
}

static bg_err record_room(struct journal_cursor *cursor, size_t bytes, bg_errinfo *info)
{
    if (bytes > cursor->memory_bytes) {
        void *memory = realloc(cursor->memory, bytes);
        if (!memory) {
            return journal_error_why(info, BG_ENOMEM, "memory",
                                     "cannot allocate %zu bytes for a change", bytes);
        }
        cursor->memory = memory;
        cursor->memory_bytes = bytes;
    }
    return BG_OK;
}

static bg_err record_get_hashes(struct journal_cursor *cursor, struct record_rest *rest,
                                struct change *change, bg_errinfo *info)
{
    if (rest->left / 8 < change->n) {
        return record_short(rest, "hashes", 8 * change->n, info);
    }
    bg_err err = record_room(cursor, 8 * change->n, info);
    if (err) {
        return err;
    }
    uint64_t *hashes = cursor->memory;
    for (size_t i = 0; i < change->n; i++) {
        hashes[i] = bytes_load64(rest->at + 8 * i);
    }
    change->hashes = hashes;
    rest->at += 8 * change->n;
    rest->left -= 8 * change->n;
    return BG_OK;
}

static bg_err record_get_keys(struct journal_cursor *cursor, struct record_rest *rest,
                              struct change *change, bg_errinfo *info)
{
    if (rest->left / 4 < change->n) {
        return record_short(rest, "keys", 4 * change->n, info);
    }
    bg_err err = record_room(cursor, sizeof(bg_bytes) * change->n, info);
    bg_bytes *keys = cursor->memory;
    for (size_t i = 0; i < change->n && !err; i++) {
        err = record_get_text(rest, "key", JOURNAL_PAYLOAD_MAX, &keys[i], info);
    }
    change->keys = err ? NULL : keys;
    return err;
}

/* Checks that this version supports the operation, and that the content flags are valid for it. */
static bg_err record_check_form(unsigned op, unsigned has, bg_errinfo *info)
{
    const unsigned keyed = JOURNAL_HAS_HASHES | JOURNAL_HAS_KEYS;
    if (!record_is_operation(op) || has > (keyed | JOURNAL_HAS_VALUE)) {
        return journal_error(info, BG_EVERSION, "operation",
                             "1, 2 or 4, with content flags up to 0x7",
                             "%u with content flags 0x%x", op, has);
    }
    bool right = record_has_keys(op) ? (has & keyed) != 0 && (has & keyed) != keyed
                                     : (has & keyed) == 0;
    if (!right) {
        return journal_error(
            info, BG_EFORMAT, "content of a change",
            "either hashes or keys for an add or a remove, and neither for a rotation",
            "operation %u with content flags 0x%x", op, has);
    }
    return BG_OK;
}

static bg_err record_get_change(struct journal_cursor *cursor, struct record_rest *rest,
                                struct change *change, bg_errinfo *info)
{
    unsigned op = cursor->at[5], has = cursor->at[6];
    bg_err err = record_check_form(op, has, info);
    if (!err && rest->left < 4) {
        err = record_short(rest, "change", 4, info);
    }
    if (err) {
        return err;
    }
    bool keyed = (has & ~(unsigned)JOURNAL_HAS_VALUE) != 0;
    *change = (struct change){ .op = (enum change_op)op, .n = bytes_load32(rest->at) };
    rest->at += 4;
    rest->left -= 4;
    if (change->n > JOURNAL_ITEMS || keyed != (change->n > 0)) {
        return journal_error(info, BG_EFORMAT, "change",
                             keyed ? "1 to 65536 keys" : "no keys", "%zu keys",
                             change->n);
    }
    if (keyed) {
        err = has & JOURNAL_HAS_HASHES ? record_get_hashes(cursor, rest, change, info)
                                       : record_get_keys(cursor, rest, change, info);
    }
    if (!err && has & JOURNAL_HAS_VALUE) {
        err = record_get_number(rest, "value", &change->value, info);
        if (!err && change->value == 0) {
            err = journal_error(info, BG_EFORMAT, "value",
                                "no value, or a value above 0", "0");
        }
    }
    return err;
}

/* Checks the first 8 bytes: length and type. */
static bg_err record_check_head(const struct journal_cursor *cursor, size_t *bytes,
                                bg_errinfo *info)
{
    if (cursor->left < JOURNAL_RECORD_HEAD) {
        return journal_error(info, BG_EFORMAT, "record", "at least 8 bytes",
                             "%zu bytes", cursor->left);
    }
    *bytes = bytes_load32(cursor->at);
    unsigned type = cursor->at[4];
    if (*bytes < JOURNAL_RECORD_HEAD || *bytes > cursor->left) {
        return journal_error(info, BG_EFORMAT, "record length",
                             "at least 8 bytes, and no more than the frame contains",
                             "%zu bytes, with %zu left in the frame", *bytes,
                             cursor->left);
    }
    if (!record_is_type(type)) {
        return journal_error(info, BG_EVERSION, "record type", "1 to 12", "%u", type);
    }
    if (cursor->at[7] || (type != JOURNAL_CHANGE && (cursor->at[5] || cursor->at[6]))) {
        return journal_error(info, BG_EFORMAT, "reserved bytes", "0", "other values");
    }
    return BG_OK;
}

static bg_err record_get_fields(struct record_rest *rest, struct journal_record *record,
                                bg_errinfo *info)
{
    bg_err err = BG_OK;
    for (size_t i = 0; i < FIELD_COUNT && !err; i++) {
        const struct field *field = &fields[i];
        if (!record_has(record->type, i)) {
            continue;
        }
        err = field->form == FIELD_TEXT
                  ? record_get_text(rest, field->name, field->most,
                                    record_text(record, field), info)
                  : record_get_number(rest, field->name, record_number(record, field),
                                      info);
    }
    return err;
}

bg_err journal_record_read(struct journal_cursor *cursor, struct journal_record *record,
                           bg_errinfo *info)
{
    size_t bytes = 0;
    memset(record, 0, sizeof *record);
    bg_err err = record_check_head(cursor, &bytes, info);
    if (err) {
        return err;
    }
    struct record_rest rest = { cursor->at + JOURNAL_RECORD_HEAD,
                                bytes - JOURNAL_RECORD_HEAD };
    record->type = (enum journal_type)cursor->at[4];
    err = record_get_fields(&rest, record, info);
    if (!err && record->type == JOURNAL_CHANGE) {
        err = record_get_change(cursor, &rest, &record->change, info);
    }
    if (!err && rest.left > 0) {
        err = journal_error(info, BG_EFORMAT, "record length",
                            "the total length of its fields", "%zu extra bytes",
                            rest.left);
    }
    if (!err) {
        cursor->at += bytes;
        cursor->left -= bytes;
    }
    return err;
}
