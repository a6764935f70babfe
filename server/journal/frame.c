/* journal/frame.c - writes and validates segment headers and frame heads. */
#include "journal/frame.h"

#include "bytes.h"
#include "journal/error.h"
#include "journal/record.h"

#include <string.h>

#define XXH_INLINE_ALL
#include "xxhash.h"

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
