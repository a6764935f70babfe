/*
 * reply_scan.h - an incremental parser for RESP2 replies: finds the end of a reply and reads its
 * items.
 *
 * Bytes may arrive in chunks of any size. A scan finds the end of a reply and stores its own
 * position, so each byte is examined only once. The parser allocates nothing, regardless of the
 * sizes in headers. A complete reply is then read item by item. The item for an array contains the
 * number of its elements, which follow as separate items.
 *
 *     +OK\r\n   -ERR text\r\n   :12\r\n   $3\r\nabc\r\n   $-1\r\n   *2\r\n and two replies
 *     *-1\r\n
 *
 * Anything else is invalid (REPLY_BAD), and nothing after it can be parsed. The same is true of a
 * string of 2 GiB or more (REPLY_LARGE), which is detected by its header.
 * Thread safety: one thread per scan.
 */
#ifndef CLUSTER_REPLY_SCAN_H
#define CLUSTER_REPLY_SCAN_H

#include "bloomgate/all.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REPLY_DEPTH = 8,       /* nesting of arrays */
    REPLY_LINE = 64 * 1024 /* maximum length of a line */
};

enum reply_state { REPLY_MORE, REPLY_WHOLE, REPLY_BAD, REPLY_LARGE };

/* Zero-initialize before the first call. */
struct reply_scan {
    size_t at;      /* bytes parsed; the length of the reply when it is complete */
    unsigned depth; /* number of open arrays */
    uint64_t left[REPLY_DEPTH]; /* number of items still missing in each open array */
};

/* Continues a scan. `bytes` must contain the n bytes received so far, starting with the first byte
 * of the reply. */
enum reply_state reply_scan(struct reply_scan *scan, const char *bytes, size_t n);

struct reply_item {
    char type; /* one of + - : $ *, or 0 after the end */
    bool null;
    bg_bytes text;  /* of + - $ */
    int64_t number; /* value of a number (:), or number of items in an array (*) */
};

/* Returns the item at offset *at of a complete reply, and moves *at past it. */
struct reply_item reply_next(bg_bytes reply, size_t *at);

/* Returns the first item of a complete reply. */
struct reply_item reply_first(bg_bytes reply);

/* Moves *at past an item and everything in it. */
void reply_skip(bg_bytes reply, size_t *at);

/* Returns whether a text equals a word, or starts with the word and a space. */
bool reply_begins(bg_bytes text, const char *word);

#endif
