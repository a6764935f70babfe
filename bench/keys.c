/*
 * keys.c - sets of keys, made by a one-to-one mixing function.
 */
#include "keys.h"

#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { SET_SHIFT = 56, FILL_BLOCK = 1 << 14 };

/* Stafford's 13th variant of the 64-bit finaliser: one to one, and well mixed. */
static uint64_t keys_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t bgb_key(enum bgb_set set, uint64_t i)
{
    return keys_mix(i + 1 + ((uint64_t)set << SET_SHIFT));
}

static uint64_t *keys_stream(size_t count)
{
    return bgb_alloc(count + BGB_KEYS_SLACK, sizeof(uint64_t));
}

/* The hashes of a stream, slack included, as `fast` with seed 0 makes them. */
static uint64_t *keys_hashes(const uint64_t *keys, size_t count)
{
    bg_hasher hasher;
    if (bg_hasher_init(&hasher, NULL, NULL) != BG_OK) {
        bgb_die("no hasher");
    }
    uint64_t *out = keys_stream(count);
    bg_hash_many_u64(&hasher, keys, count + BGB_KEYS_SLACK, out);
    return out;
}

static size_t keys_pool(uint64_t n)
{
    size_t pool = (size_t)1 << 17;
    while (pool < n && pool < ((size_t)1 << 21)) {
        pool *= 2;
    }
    return pool;
}

/* (pointer, length) pairs of `count` records that lie one after another. */
static bg_bytes *keys_pairs(const unsigned char *records, size_t count)
{
    bg_bytes *pairs = bgb_alloc(count, sizeof *pairs);
    for (size_t i = 0; i < count; i++) {
        pairs[i].data = records + i * BGB_RECORD_BYTES;
        pairs[i].len = BGB_RECORD_BYTES;
    }
    return pairs;
}

static void keys_make_records(struct bgb_keys *k)
{
    size_t count = k->pool + k->fresh_pool;
    k->records = bgb_alloc(count, BGB_RECORD_BYTES);
    for (size_t i = 0; i < 2 * count; i++) {
        uint64_t word = bgb_key(BGB_SET_RECORDS, i);
        memcpy(k->records + 8 * i, &word, 8);
    }
    k->absent_bytes = keys_pairs(k->records, k->pool);
    k->fresh_bytes = keys_pairs(k->records + k->pool * BGB_RECORD_BYTES, k->fresh_pool);
}

void bgb_keys_make(struct bgb_keys *k, uint64_t n)
{
    memset(k, 0, sizeof *k);
    k->n = n;
    k->pool = keys_pool(n);
    k->fresh_pool = n / 2 < k->pool ? (size_t)(n / 2) : k->pool;
    k->present = keys_stream(k->pool);
    k->absent = keys_stream(k->pool);
    k->mixed = keys_stream(k->pool);
    k->fresh = keys_stream(k->fresh_pool);
    for (size_t i = 0; i < k->pool + BGB_KEYS_SLACK; i++) {
        uint64_t random = keys_mix(i ^ UINT64_C(0x9e3779b97f4a7c15));
        k->present[i] = bgb_key(BGB_SET_PRESENT, bgb_mulhi(random, n));
        k->absent[i] = bgb_key(BGB_SET_ABSENT, i);
        k->mixed[i] = random & 1 ? k->present[i] : k->absent[i];
    }
    for (size_t i = 0; i < k->fresh_pool + BGB_KEYS_SLACK; i++) {
        k->fresh[i] = bgb_key(BGB_SET_FRESH, i);
    }
    k->present_hash = keys_hashes(k->present, k->pool);
    k->absent_hash = keys_hashes(k->absent, k->pool);
    k->mixed_hash = keys_hashes(k->mixed, k->pool);
    k->fresh_hash = keys_hashes(k->fresh, k->fresh_pool);
    keys_make_records(k);
}

void bgb_keys_free(struct bgb_keys *k)
{
    free(k->present);
    free(k->absent);
    free(k->mixed);
    free(k->fresh);
    free(k->present_hash);
    free(k->absent_hash);
    free(k->mixed_hash);
    free(k->fresh_hash);
    free(k->absent_bytes);
    free(k->fresh_bytes);
    free(k->records);
    memset(k, 0, sizeof *k);
}

void bgb_keys_fill(bg_filter *filter, uint64_t n)
{
    uint64_t block[FILL_BLOCK];
    for (uint64_t at = 0; at < n;) {
        size_t count = n - at < FILL_BLOCK ? (size_t)(n - at) : FILL_BLOCK;
        for (size_t i = 0; i < count; i++) {
            block[i] = bgb_key(BGB_SET_PRESENT, at + i);
        }
        (void)bg_filter_add_many_u64(filter, block, count, NULL);
        at += count;
    }
}

size_t bgb_keys_chunk(const struct bgb_keys *keys, uint64_t bytes)
{
    size_t chunk = (size_t)1 << 15;
    while (chunk < bytes / 32 && chunk < ((size_t)1 << 19)) {
        chunk *= 2;
    }
    return chunk < keys->pool ? chunk : keys->pool;
}
