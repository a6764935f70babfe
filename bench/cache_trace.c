#include "cache_trace.h"

#include "harness.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* ---- Random numbers --------------------------------------------------------------- */

static double trace_unit(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* ---- Trace ------------------------------------------------------------------------- */

/* Returns the expected fraction of distinct keys that occur once, if a fraction `fresh` of all
 * requests is for fresh keys. */
static double trace_once(const struct bgb_trace *t, const double *sums, double fresh)
{
    double all = (double)t->requests, drawn = all * (1 - fresh);
    double different = fresh * all, once = fresh * all, before = 0;
    for (uint32_t i = 0; i < t->catalogue; i++) {
        double mean = drawn * (sums[i] - before) / sums[t->catalogue - 1];
        double none = exp(-mean);
        before = sums[i];
        different += 1 - none;
        once += mean * none;
    }
    return once / different;
}

static double trace_fresh_share(const struct bgb_trace *t, const double *sums)
{
    double low = 0, high = 1;
    for (int i = 0; i < 30 && t->once > 0; i++) {
        double middle = (low + high) / 2;
        *(trace_once(t, sums, middle) < t->once ? &low : &high) = middle;
    }
    return low;
}

/* Maps a uniform random value in 0 .. 1 to a rank in the catalog, following Zipf's law. */
static uint32_t trace_place(const struct bgb_trace *t, const double *sums, double x)
{
    uint32_t low = 0, high = t->catalogue - 1;
    x *= sums[high];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sums[middle] < x) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void trace_count(struct bgb_trace *t)
{
    uint32_t *counts = bgb_alloc(t->key_count, sizeof *counts);
    for (size_t i = 0; i < t->requests; i++) {
        counts[t->keys[i]]++;
    }
    for (uint32_t i = 0; i < t->key_count; i++) {
        t->different += counts[i] > 0;
        t->asked_once += counts[i] == 1;
    }
    free(counts);
}

void bgb_trace_make(struct bgb_trace *t)
{
    double *sums = bgb_alloc(t->catalogue, sizeof *sums);
    assert(t->catalogue > 0);
    uint64_t state = 1, stride = 7919; /* rank shift per popularity change */
    for (uint32_t i = 0; i < t->catalogue; i++) {
        sums[i] = (i ? sums[i - 1] : 0) + pow(i + 1, -t->s);
    }
    t->fresh = trace_fresh_share(t, sums);
    t->keys = bgb_alloc(t->requests, sizeof *t->keys);
    t->key_count = t->catalogue;
    t->different = t->asked_once = 0;
    for (size_t i = 0; i < t->requests; i++) {
        if (trace_unit(&state) < t->fresh) {
            t->keys[i] = t->key_count++;
        } else {
            uint64_t change = i / (t->requests / (t->changes + 1) + 1);
            uint64_t place = trace_place(t, sums, trace_unit(&state));
            t->keys[i] = (uint32_t)((place + change * stride) % t->catalogue);
        }
    }
    trace_count(t);
    free(sums);
}

void bgb_trace_free(struct bgb_trace *t)
{
    free(t->keys);
    t->keys = NULL;
}

/* ---- Cache ------------------------------------------------------------------------- */

void bgb_lru_make(struct bgb_lru *lru, uint32_t keys, uint32_t room)
{
    *lru = (struct bgb_lru){ .room = room, .keys = keys };
    lru->younger = bgb_alloc((size_t)keys + 1, sizeof *lru->younger);
    lru->older = bgb_alloc((size_t)keys + 1, sizeof *lru->older);
    lru->in = bgb_alloc(keys, sizeof *lru->in);
    lru->younger[keys] = lru->older[keys] = keys; /* an empty ring has only a head */
}

void bgb_lru_free(struct bgb_lru *lru)
{
    free(lru->younger);
    free(lru->older);
    free(lru->in);
}

static void lru_take_out(struct bgb_lru *lru, uint32_t key)
{
    lru->older[lru->younger[key]] = lru->older[key];
    lru->younger[lru->older[key]] = lru->younger[key];
}

static void lru_to_front(struct bgb_lru *lru, uint32_t key)
{
    uint32_t head = lru->keys, first = lru->older[head];
    lru->older[head] = lru->younger[first] = key;
    lru->younger[key] = head;
    lru->older[key] = first;
}

bool bgb_lru_get(struct bgb_lru *lru, uint32_t key)
{
    if (lru->in[key]) {
        lru_take_out(lru, key);
        lru_to_front(lru, key);
    }
    return lru->in[key];
}

void bgb_lru_put(struct bgb_lru *lru, uint32_t key)
{
    if (lru->held == lru->room) {
        uint32_t last = lru->younger[lru->keys];
        lru_take_out(lru, last);
        lru->in[last] = false;
        lru->held--;
    }
    lru_to_front(lru, key);
    lru->in[key] = true;
    lru->held++;
}
