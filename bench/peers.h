/*
 * peers.h - other libraries' filters, behind one small interface.
 *
 * Every peer takes 8-byte integers as byte strings. The loops over keys are on the
 * peer's side of this interface, in its own language, so that no call of ours stands
 * between a key and the peer. A peer that was not found when bgbench was built has a
 * NULL table entry (see bench/CMakeLists.txt). Go's bits-and-blooms is left out: calls
 * from C into Go cost more than the filter does.
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
    /* A filter of n keys with about so many bits per key, in memory of the peer's own;
     * NULL when the peer cannot make one of that size. */
    void *(*build)(const uint64_t *keys, size_t n, double bits_per_key);
    void (*release)(void *filter);
    size_t (*bytes)(const void *filter);
    /* How many of n keys may be contained, one call per key. */
    size_t (*look)(const void *filter, const uint64_t *keys, size_t n);
    /* The same by the peer's own batches; NULL when it has none. */
    size_t (*look_many)(const void *filter, const uint64_t *keys, size_t n);
    /* The bits per key that come nearest to a rate of 1 % by the peer's own doing. */
    double bits_for_one_percent;
};

/* The peers that were built in; defined in peers_<name>.c or .cc. */
extern const struct bgb_peer bgb_peer_libbloom;
extern const struct bgb_peer bgb_peer_rocksdb;
extern const struct bgb_peer bgb_peer_leveldb;

#ifdef __cplusplus
}
#endif

#endif
