/*
 * peers.h - filters from other libraries, behind one small interface.
 *
 * Every peer receives 8-byte integers as byte strings. The loops over keys are on the peer's side
 * of this interface, in the peer's own language, so the interface adds no call per key. A peer that
 * was not found at build time is missing from the table of peers (see bench/CMakeLists.txt). Go's
 * bits-and-blooms is not included: a call from C into Go costs more than a lookup in the filter.
 */
#ifndef BGB_PEERS_H
#define BGB_PEERS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bgb_peer {
    const char *name;
    /* Builds a filter with n keys and about this many bits per key, in memory allocated by the
     * peer. Returns NULL if the peer does not support this size. */
    void *(*build)(const uint64_t *keys, size_t n, double bits_per_key);
    void (*release)(void *filter);
    size_t (*bytes)(const void *filter);
    /* Looks up n keys with one call per key, and returns the number of positive answers. */
    size_t (*look)(const void *filter, const uint64_t *keys, size_t n);
    /* Does the same using the peer's batch function; NULL if the peer has none. */
    size_t (*look_many)(const void *filter, const uint64_t *keys, size_t n);
    /* The number of bits per key that comes closest to a false-positive rate of 1%. */
    double bits_for_one_percent;
};

/* The peers built into bgbench; defined in peers_<name>.c or .cc. */
extern const struct bgb_peer bgb_peer_libbloom;
extern const struct bgb_peer bgb_peer_rocksdb;
extern const struct bgb_peer bgb_peer_leveldb;

#ifdef __cplusplus
}
#endif

#endif
