/*
 * journal_memory.h - a journal with segments in memory, built frame by frame, for cases
 * that do not occur on disk.
 */
#ifndef TESTS_JOURNAL_MEMORY_H
#define TESTS_JOURNAL_MEMORY_H

#include "journal/read.h"
#include "journal/record.h"

#include <stdio.h>
#include <string.h>

enum { MEMORY_SEGMENTS = 6, MEMORY_BYTES = 1 << 16 };

struct memory_segment {
    struct journal_header header;
    char name[16];
    size_t n;
    unsigned char bytes[MEMORY_BYTES];
};

struct memory_journal {
    struct memory_segment segments[MEMORY_SEGMENTS];
    size_t count;
    uint64_t next; /* frame */
    size_t taken;  /* number of segments that have not been released yet */
};

static inline void memory_clear(struct memory_journal *m)
{
    m->count = 0;
    m->next = 1;
    m->taken = 0;
}

/* Starts a segment with the next number. The first segment has number 1. */
static inline struct memory_segment *memory_begin(struct memory_journal *m,
                                                  uint32_t flags, uint64_t run)
{
    struct memory_segment *s = &m->segments[m->count];
    uint64_t number = m->count ? m->segments[m->count - 1].header.number + 1 : 1;
    s->header = (struct journal_header){
        .flags = flags, .number = number, .first = m->next, .run = run
    };
    memset(s->header.id, 0x5a, sizeof s->header.id);
    (void)snprintf(s->name, sizeof s->name, "segment %u", (unsigned)(number % 1000));
    journal_header_write(&s->header, s->bytes);
    s->n = JOURNAL_HEADER;
    m->count++;
    return s;
}

/* Appends a frame with these bytes to a segment. Returns false if the frame does not fit. */
static inline bool memory_put(struct memory_segment *s, uint64_t sequence,
                              uint64_t synced, const void *payload, size_t n)
{
    uint64_t seed = journal_seed(s->header.id, s->header.run);
    struct journal_head head = { .length = (uint32_t)n,
                                 .sequence = sequence,
                                 .synced = synced,
                                 .check = journal_payload_check(payload, n, seed) };
    if (MEMORY_BYTES - s->n < JOURNAL_HEAD + n) {
        return false;
    }
    journal_head_write(&head, seed, s->bytes + s->n);
    memcpy(s->bytes + s->n + JOURNAL_HEAD, payload, n);
    s->n += JOURNAL_HEAD + n;
    return true;
}

/* Appends a frame with one record to the last segment. */
static inline bool memory_append(struct memory_journal *m, uint64_t synced,
                                 const struct journal_record *record)
{
    unsigned char payload[1024];
    size_t n;
    if (journal_record_bytes(record, &n, NULL) || n > sizeof payload) {
        return false;
    }
    (void)journal_record_write(record, payload);
    return memory_put(&m->segments[m->count - 1], m->next++, synced, payload, n);
}

static inline bg_err memory_read(void *context, uint64_t offset, void *to, size_t n,
                                 bg_errinfo *info)
{
    const struct memory_segment *s = context;
    (void)info;
    if (offset > s->n || n > s->n - offset) {
        return BG_EIO; /* the reader must not request bytes beyond the end */
    }
    memcpy(to, s->bytes + offset, n);
    return BG_OK;
}

static inline bg_err memory_take(void *context, size_t i, struct journal_source *source,
                                 bg_errinfo *info)
{
    struct memory_journal *m = context;
    struct memory_segment *s = &m->segments[i];
    (void)info;
    m->taken++;
    *source = (struct journal_source){ .name = s->name,
                                       .number = s->header.number,
                                       .bytes = s->n,
                                       .context = s,
                                       .read = memory_read };
    return BG_OK;
}

static inline void memory_give_back(void *context, struct journal_source *source)
{
    struct memory_journal *m = context;
    (void)source;
    m->taken--;
}

static inline struct journal_shelf memory_shelf(struct memory_journal *m)
{
    return (struct journal_shelf){ .context = m,
                                   .count = m->count,
                                   .take = memory_take,
                                   .give_back = memory_give_back };
}

#endif
