/*
 * peers_libbloom.c - libbloom by Jyri Virkki (Debian: libbloom-dev), a classic filter
 * in C based on Murmur hashes.
 */
#include "peers.h"

#include <bloom.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* libbloom expects a rate and allocates n * -ln(rate) / ln(2)^2 bits. Its sizes are of type
 * int, which limits a filter to less than 2^31 bits. */
static void *peers_libbloom_build(const uint64_t *keys, size_t n, double bits_per_key)
{
    const double ln2_squared = 0.4804530139182014;
    struct bloom *bloom = malloc(sizeof *bloom);
    if (!bloom || (double)n * bits_per_key > 0.99 * INT_MAX
        || bloom_init(bloom, (int)n, exp(-bits_per_key * ln2_squared)) != 0) {
        free(bloom);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        (void)bloom_add(bloom, &keys[i], 8);
    }
    return bloom;
}

static void peers_libbloom_release(void *filter)
{
    bloom_free(filter);
    free(filter);
}

static size_t peers_libbloom_bytes(const void *filter)
{
    return (size_t)((const struct bloom *)filter)->bytes;
}

static size_t peers_libbloom_look(const void *filter, const uint64_t *keys, size_t n)
{
    struct bloom *bloom =
        (struct bloom *)(uintptr_t)filter; /* bloom_check expects a non-const pointer */
    size_t positives = 0;
    for (size_t i = 0; i < n; i++) {
        positives += bloom_check(bloom, &keys[i], 8) == 1;
    }
    return positives;
}

const struct bgb_peer bgb_peer_libbloom = {
    .name = "libbloom",
    .build = peers_libbloom_build,
    .release = peers_libbloom_release,
    .bytes = peers_libbloom_bytes,
    .look = peers_libbloom_look,
    .bits_for_one_percent = 9.585,
};
