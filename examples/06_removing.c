/*
 * 06_removing.c - a filter that mirrors the contents of a cache.
 *
 * Shows how to remove keys from a filter, in step with a small cache that evicts its oldest entry.
 * It also shows the result of removing an absent key, how to find out how many times a key was
 * added, and which kinds support which operation.
 */
#include <bloomgate/bloomgate.h>

#include <stdio.h>
#include <stdlib.h>

enum { CACHE = 1000, REQUESTS = 20000 };

static bg_filter *make(uint32_t width)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_COUNTING;
    spec.items = CACHE;
    spec.rate = 0.01;
    spec.width = width; /* bits per counter; 4 are enough unless you need counts */
    bg_errinfo why;
    bg_filter *filter;
    if (bg_filter_create(&spec, &filter, &why) != BG_OK) {
        fprintf(stderr, "%s\n", why.message);
        exit(1); /* NOLINT(concurrency-mt-unsafe): there is one thread */
    }
    return filter;
}

/* Object i enters the cache when object i - CACHE leaves it. */
static bool follow_a_cache(void)
{
    bg_filter *cached = make(4);
    bool right = true;
    unsigned long passed = 0;
    for (uint64_t i = 0; i < REQUESTS; i++) {
        right &= bg_filter_add_u64(cached, i, NULL) == BG_OK;
        if (i >= CACHE) {
            right &= bg_filter_remove_u64(cached, i - CACHE) == BG_OK;
            passed += bg_filter_may_contain_u64(cached, i - CACHE);
        }
        right &=
            bg_filter_may_contain_u64(cached, i); /* a cached object is always found */
    }
    printf("%lu of %d evicted objects are false positives: %.2f%%\n", passed,
           REQUESTS - CACHE, 100.0 * (double)passed / (REQUESTS - CACHE));
    /* Removing a key that is definitely absent fails and changes nothing. */
    right &= bg_filter_remove(cached, "never added", 11) == BG_ENOTFOUND
             || bg_filter_may_contain(cached, "never added", 11);
    bg_filter_free(cached);
    return right && passed < REQUESTS / 20;
}

/* Counts visits: with wide counters, a filter can count how many times a key was added. */
static bool count_visits(void)
{
    bg_filter *visits = make(16);
    bool right = true;
    for (int i = 0; i < 1234; i++) {
        right &= bg_filter_add(visits, "home", 4, NULL) == BG_OK;
    }
    unsigned long count = (unsigned long)bg_filter_count(visits, "home", 4);
    printf("home: at most %lu visits\n", count);
    bg_filter_free(visits);
    return right && count >= 1234;
}

int main(void)
{
    bool right = follow_a_cache() && count_visits();
#define SHOW(NAME, number, name)                                                       \
    printf("%-12s %s%s%s\n", #name,                                                    \
           bg_kind_traits(BG_KIND_##NAME) & BG_TRAIT_REMOVE ? " removes" : "",         \
           bg_kind_traits(BG_KIND_##NAME) & BG_TRAIT_COUNT ? " counts" : "",           \
           bg_kind_traits(BG_KIND_##NAME) & BG_TRAIT_MERGE ? " merges" : "");
    BG_KINDS(SHOW)
    return right ? 0 : 1;
}
