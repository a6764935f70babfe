/*
 * reply_scan.h - replies in RESP2 as they come in: where one ends, and what is in it.
 *
 * Bytes come in pieces of any size. A scan remembers how far it is, so that each byte is looked at
 * once, and finds the end of a reply; nothing is allocated, whatever a header promises. A whole
 * reply is then walked through item by item: an array is an item that says how many follow.
 *
 *     +OK\r\n   -ERR text\r\n   :12\r\n   $3\r\nabc\r\n   $-1\r\n   *2\r\n and two replies   *-1\r\n
 *
 * Anything else is no reply (REPLY_BAD), and what follows it cannot be understood either.
 * Threads: a scan belongs to one.
 */
#ifndef CLUSTER_REPLY_SCAN_H
#define CLUSTER_REPLY_SCAN_H

#include "bloomgate/bloomgate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REPLY_DEPTH = 8,       /* arrays in arrays */
    REPLY_LINE = 64 * 1024 /* the longest line */
};

enum reply_state { REPLY_MORE, REPLY_WHOLE, REPLY_BAD };

/* All zero at first. */
struct reply_scan {
    size_t at;      /* bytes that were understood; its length when it is whole */
    unsigned depth; /* arrays that are open, */
    uint64_t left[REPLY_DEPTH]; /* and what they lack */
};

/* The first n bytes of what came; more of them at each call, and no others. */
enum reply_state reply_scan(struct reply_scan *scan, const char *bytes, size_t n);

struct reply_item {
    char type; /* one of + - : $ *, or 0 behind the end */
    bool null;
    bg_bytes text;  /* of + - $ */
    int64_t number; /* of :, and how many items follow * */
};

/* The item at *at of a whole reply, which is moved behind it. */
struct reply_item reply_next(bg_bytes reply, size_t *at);

/* Moves *at behind an item and all that is in it. */
void reply_skip(bg_bytes reply, size_t *at);

/* Whether a text begins with a word and a blank, or is that word. */
bool reply_begins(bg_bytes text, const char *word);

#endif
