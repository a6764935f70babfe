/*
 * cache_trace.h - requests as a cache sees them, and the cache.
 *
 * Trace. There is a catalogue of keys, whose popularity follows Zipf's law: key number r is
 * asked for in proportion to 1 / r^s. A share of the requests is for fresh keys, which are
 * asked for once and never again. That share is chosen so that, of all different keys of the
 * trace, a given part comes exactly once, fresh ones and the rare ones of the catalogue
 * together. Optionally popularity changes: from time to time another key takes each place.
 *
 * Cache. Least recently used, objects of one size.
 */
#ifndef BGB_CACHE_TRACE_H
#define BGB_CACHE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bgb_trace {
    /* What is wanted. */
    size_t requests;
    uint32_t catalogue;
    double s;
    double once;      /* the part of different keys that comes once; 0: no fresh keys */
    unsigned changes; /* how often popularity changes */

    /* What came out. */
    uint32_t *keys; /* of each request, 0 .. key_count - 1 */
    uint32_t key_count;
    double fresh;        /* the share of requests for fresh keys */
    uint64_t different;  /* keys that were asked for */
    uint64_t asked_once; /* of them */
};

void bgb_trace_make(struct bgb_trace *trace);
void bgb_trace_free(struct bgb_trace *trace);

struct bgb_lru {
    uint32_t room, held;
    uint32_t keys; /* also the number of the list's head */
    uint32_t *younger, *older;
    bool *in;
};

void bgb_lru_make(struct bgb_lru *lru, uint32_t keys, uint32_t room);
void bgb_lru_free(struct bgb_lru *lru);

/* Whether it is there; it then is the youngest. */
bool bgb_lru_get(struct bgb_lru *lru, uint32_t key);

/* Puts in what is not there; the oldest has to go when there is no room. */
void bgb_lru_put(struct bgb_lru *lru, uint32_t key);

#endif
