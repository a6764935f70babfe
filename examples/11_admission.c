/*
 * 11_admission.c - a cache with a bouncer, which admits an object only on its second request.
 *
 * Most objects that pass through a cache are requested only once. Storing them evicts
 * objects that would have been requested again. The example runs the same requests
 * through a small cache twice, without and with a bouncer, and counts the hits.
 */
#include <bloomgate/server.h>

#include <stdio.h>
#include <string.h>

enum { OBJECTS = 256, POPULAR = 512, REQUESTS = 60000 };

/* ---- A cache that evicts the least recently used object -------------------------- */

struct cache {
    uint64_t keys[OBJECTS];
    uint64_t used[OBJECTS]; /* time of the last use; 0 if free */
};

static bool cache_get(struct cache *cache, uint64_t key, uint64_t now)
{
    for (int i = 0; i < OBJECTS; i++) {
        if (cache->used[i] && cache->keys[i] == key) {
            cache->used[i] = now;
            return true;
        }
    }
    return false;
}

static void cache_put(struct cache *cache, uint64_t key, uint64_t now)
{
    int oldest = 0;
    for (int i = 1; i < OBJECTS; i++) {
        oldest = cache->used[i] < cache->used[oldest] ? i : oldest;
    }
    cache->keys[oldest] = key;
    cache->used[oldest] = now;
}

/* ---- Requests: every other request is for a key that is never requested again ---- */

static uint64_t request(uint64_t i)
{
    uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 32;
    uint64_t low = x % POPULAR, high = x / POPULAR % POPULAR;
    return i % 2 ? POPULAR + i
                 : low * high / POPULAR; /* low numbers are popular keys */
}

/* Runs all requests through the cache, and returns the number of hits. If `door` is NULL, every
 * object is admitted. */
static unsigned play(bg_admission *door)
{
    static struct cache cache;
    unsigned hits = 0;
    memset(&cache, 0, sizeof cache);
    for (uint64_t i = 0; i < REQUESTS; i++) {
        uint64_t key = request(i);
        if (cache_get(&cache, key, i + 1)) {
            hits++;
        } else if (bg_admission_admit(door, &key, sizeof key)) {
            cache_put(&cache, key, i + 1); /* store the object that was fetched */
        }
    }
    return hits;
}

int main(void)
{
    bg_admission_options options = BG_ADMISSION_OPTIONS_INIT;
    options.items = 2 * OBJECTS; /* remembers twice as many keys as the cache holds */
    bg_admission *door;
    bg_errinfo why;
    if (bg_admission_create(&options, &door, &why) != BG_OK) {
        fprintf(stderr, "%s\n", why.message);
        return 1;
    }
    unsigned without = play(NULL), with = play(door);
    bg_admission_info stats = { .struct_size = sizeof stats };
    bool right = bg_admission_get_info(door, &stats) == BG_OK;
    printf(
        "%d requests: %u hits without a bouncer, %u hits with a bouncer of %llu bytes,\n"
        "which admitted %llu of %llu misses\n",
        REQUESTS, without, with, (unsigned long long)stats.bytes,
        (unsigned long long)stats.admitted, (unsigned long long)stats.requests);
    bg_admission_free(door);
    /* Checks that the bouncer decided on every miss and improved the hit ratio. */
    right = right && stats.requests == REQUESTS - with && with > without + without / 10;
    return right ? 0 : 1;
}
