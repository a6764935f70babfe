/*
 * 02_batch.c - adds and looks up many keys in one call, which is faster than single
 * calls.
 *
 * Shows how to add and look up keys in batches, using all four key forms (pointers and
 * lengths, fixed-width records, integers, hashes), and how to read the bitmap of
 * results. Checks that batches and single calls set the same bits. Prints the time per
 * lookup, which depends on the machine and is not checked.
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include <bloomgate/bloomgate.h>
#include <bloomgate/combine.h>
#include <bloomgate/hasher.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEYS = 2000000, WORDS = 6 };

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bg_filter *make(uint64_t items)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.items = items;
    spec.rate = 0.001;
    bg_errinfo why;
    bg_filter *filter;
    if (bg_filter_create(&spec, &filter, &why) != BG_OK) {
        fprintf(stderr, "%s\n", why.message);
        exit(1); /* NOLINT(concurrency-mt-unsafe): there is one thread */
    }
    return filter;
}

/* Adds the words of a text: the first occurrence of each word is new to the filter. */
static bool new_words(void)
{
    const bg_bytes text[WORDS] = { { "to", 2 },  { "be", 2 }, { "or", 2 },
                                   { "not", 3 }, { "to", 2 }, { "be", 2 } };
    bg_filter *seen = make(1000);
    uint64_t is_new[BG_BITMAP_WORDS(WORDS)];
    size_t count = 0;
    bg_err err =
        bg_filter_add_many(seen, bg_keys_bytes(text, WORDS), is_new, NULL, &count);

    printf("%zu of %d words are new:", count, WORDS);
    for (size_t word = 0; word < BG_BITMAP_WORDS(WORDS); word++) {
        /* Bit i % 64 of word i / 64 is the result for key i. This loop visits the set
         * bits. */
        for (uint64_t bits = is_new[word]; bits; bits &= bits - 1) {
            size_t i = 64 * word + (size_t)__builtin_ctzll(bits);
            printf(" %.*s", (int)text[i].len, (const char *)text[i].data);
        }
    }
    printf("\n");
    bg_filter_free(seen);
    return err == BG_OK && count == 4
           && is_new[0] == 0xf; /* only the first four of the six words are new */
}

/* The forms are interchangeable: an integer is the same key as its 8 bytes in
 * little-endian order, and its hash is the one computed by the filter's hasher. */
static bool forms_agree(void)
{
    const unsigned char records[2][8] = { { 1 }, { 2 } };
    const uint64_t integers[2] = { 1, 2 };
    bg_filter *filter = make(1000);
    uint64_t hashes[2], maybe = 0;
    bg_hash_many(bg_filter_hasher(filter), bg_keys_u64(integers, 2), hashes);

    size_t added = 0;
    bg_err err =
        bg_filter_add_many(filter, bg_keys_fixed(records, 8, 2), NULL, NULL, &added);
    size_t by_integer =
        bg_filter_may_contain_many(filter, bg_keys_u64(integers, 2), &maybe);
    size_t by_hash =
        bg_filter_may_contain_many(filter, bg_keys_hashes(hashes, 2), NULL);
    bg_filter_free(filter);
    printf("Added two keys as records, and found them as integers and as hashes.\n");
    return err == BG_OK && added == 2 && by_integer == 2 && by_hash == 2 && maybe == 3;
}

/* Adds the same keys to two filters: with one call per key, and with one call for all keys.
 * Compares the filters. */
static bool same_bits(uint64_t *keys)
{
    bg_filter *single = make(KEYS), *batch = make(KEYS);
    bool good = true;
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = i;
        good = bg_filter_add_u64(single, i, NULL) == BG_OK && good;
    }
    good = bg_filter_add_many(batch, bg_keys_u64(keys, KEYS), NULL, NULL, NULL) == BG_OK
           && good;
    good = good && bg_filter_equal(single, batch);

    size_t found_single = 0, found_batch;
    double start = now();
    for (size_t i = 0; i < KEYS; i++) {
        found_single += bg_filter_may_contain_u64(single, keys[i]);
    }
    double middle = now();
    found_batch = bg_filter_may_contain_many(batch, bg_keys_u64(keys, KEYS), NULL);
    double end = now();
    good = good && found_single == KEYS && found_batch == KEYS;
    printf("%d lookups: %.1f ns each as single calls, %.1f ns each in one batch.\n",
           KEYS, 1e9 * (middle - start) / KEYS, 1e9 * (end - middle) / KEYS);
    bg_filter_free(single);
    bg_filter_free(batch);
    return good;
}

int main(void)
{
    uint64_t *keys = malloc(KEYS * sizeof *keys);
    bool good = keys && new_words() && forms_agree() && same_bits(keys);
    free(keys);
    printf("%s\n", good ? "All checks passed." : "A CHECK FAILED");
    return good ? 0 : 1;
}
