/*
 * cache_trace.h - a trace of cache requests, and a cache.
 *
 * Trace. The trace has a catalog of keys whose popularity follows Zipf's law: the frequency of
 * the key with rank r is proportional to 1 / r^s. A fraction of the requests is for fresh
 * keys, which are requested only once. This fraction is chosen so that a given fraction of all
 * distinct keys in the trace (fresh keys and rare keys from the catalog together) occurs
 * exactly once. Optionally, popularity changes at regular intervals: the ranks of all keys in the
 * catalog are rotated.
 *
 * Cache. The cache evicts the least recently used object. All objects have the same size.
 */
#ifndef BGB_CACHE_TRACE_H
#define BGB_CACHE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bgb_trace {
    /* Parameters. */
    size_t requests;
    uint32_t catalogue;
    double s;
    double once; /* fraction of distinct keys that occur once; 0 disables fresh keys */
    unsigned changes; /* number of popularity changes */

    /* Results. */
    uint32_t *keys; /* the key of each request, 0 .. key_count - 1 */
    uint32_t key_count;
    double fresh;        /* fraction of requests for fresh keys */
    uint64_t different;  /* number of distinct keys */
    uint64_t asked_once; /* number of distinct keys that were requested exactly once */
};

void bgb_trace_make(struct bgb_trace *trace);
void bgb_trace_free(struct bgb_trace *trace);

struct bgb_lru {
    uint32_t room, held;
    uint32_t keys; /* number of distinct keys; also the index of the list head */
    uint32_t *younger, *older;
    bool *in;
};

void bgb_lru_make(struct bgb_lru *lru, uint32_t keys, uint32_t room);
void bgb_lru_free(struct bgb_lru *lru);

/* Returns whether the key is cached. If it is, makes it the most recently used key. */
bool bgb_lru_get(struct bgb_lru *lru, uint32_t key);

/* Inserts a key that is not cached; evicts the least recently used key if the cache is
 * full. */
void bgb_lru_put(struct bgb_lru *lru, uint32_t key);

#endif
