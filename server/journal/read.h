/*
 * journal/read.h - reads segments from disk (in the service) or from memory (in tests). journal.h
 * declares the interface and defines the terms.
 */
#ifndef SERVER_JOURNAL_READ_H
#define SERVER_JOURNAL_READ_H

#include "journal/journal.h"
#include "journal/record.h"

/* The bytes of one segment. */
struct journal_source {
    const char *name; /* for messages */
    uint64_t number;  /* segment number that the header must contain */
    uint64_t bytes;
    void *context;
    bg_err (*read)(void *context, uint64_t offset, void *to, size_t n,
                   bg_errinfo *info);
};

/* All segments, ordered by number. At most two segments are open at a time. */
struct journal_shelf {
    void *context;
    size_t count;
    bg_err (*take)(void *context, size_t i, struct journal_source *source,
                   bg_errinfo *info);
    void (*give_back)(void *context, struct journal_source *source);
    /* Header of the newest segment ever written, or NULL if unknown. If its `run` is 0, only the
     * segment number is known. */
    const struct journal_header *newest;
    uint64_t end; /* number of the MARK written by an orderly stop; 0 if unknown */
};

/* Reads all segments, like journal_replay. */
bg_err journal_walk(const struct journal_shelf *shelf, bool beyond_damage,
                    journal_visit *visit, void *context, struct journal_report *report,
                    bg_errinfo *info);

#endif
