/*
 * For the same hashes, filters of the kind `split` have exactly the same bits as Parquet's filters.
 * The tests compare the bits with the formula in the Parquet specification, which is reimplemented
 * here, and with filters that DuckDB wrote (golden/parquet).
 */
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include <stdio.h>

/* ---- The formula ----------------------------------------------------------------- */

/* Sets the bits of a hash in a bitset that has the byte layout of a Parquet file. */
static void reference_add(uint8_t *bitset, uint64_t blocks, uint64_t hash)
{
    static const uint32_t salt[8] = { 0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d,
                                      0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31 };
    uint64_t block = ((hash >> 32) * blocks) >> 32;
    for (int word = 0; word < 8; word++) {
        uint32_t bit = ((uint32_t)hash * salt[word]) >> 27;
        uint64_t byte = 32 * block + 4 * (uint64_t)word + bit / 8; /* little-endian */
        bitset[byte] |= (uint8_t)(1u << (bit % 8));
    }
}

/* Converts a filter in the caller's memory to Parquet's byte order: little-endian 32-bit words. */
static void as_parquet(const void *memory, size_t bytes, uint8_t *bitset)
{
    const uint32_t *word = memory;
    for (size_t i = 0; i < bytes; i++) {
        bitset[i] = (uint8_t)(word[i / 4] >> (8 * (i % 4)));
    }
}

static bg_filter *split_at(void *memory, size_t bytes, uint64_t blocks)
{
    bg_spec spec = exact_spec(BG_KIND_SPLIT, blocks, 8, 0);
    bg_filter *filter = NULL;
    spec.hash.profile = BG_HASH_XXH64;
    CHECK_OK(bg_filter_create_at(memory, bytes, &spec, &filter, NULL));
    CHECK_EQ(bg_filter_size_bytes(filter), 32 * blocks);
    return filter;
}

static size_t split_memory(uint64_t blocks)
{
    bg_spec spec = exact_spec(BG_KIND_SPLIT, blocks, 8, 0);
    size_t bytes = 0;
    spec.hash.profile = BG_HASH_XXH64;
    CHECK_OK(bg_filter_memory_needed(&spec, &bytes, NULL));
    return bytes;
}

TEST(split__has_the_bits_of_the_formula)
{
    static const uint64_t sizes[] = { 1, 2, 3, 7, 64, 1000, 4096, 4097 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = split_memory(sizes[i]), bits = (size_t)(32 * sizes[i]);
        void *memory = line_memory(bytes);
        uint8_t *expected = calloc(1, bits), *found = malloc(bits);
        CHECK(expected && found);
        bg_filter *filter = split_at(memory, bytes, sizes[i]);
        for (size_t n = 0; n < 200; n++) {
            uint64_t hash = n == 0 ? 0 : n == 1 ? UINT64_MAX : check_random();
            added_hash(filter, hash);
            reference_add(expected, sizes[i], hash);
        }
        as_parquet(memory, bits, found);
        CHECK(memcmp(found, expected, bits) == 0);
        bg_filter_free(filter);
        free(memory);
        free(expected);
        free(found);
    }
}

/* ---- Filters that DuckDB wrote --------------------------------------------------- */

static FILE *open_golden(const char *name, const char *ending)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/golden/parquet/%s.%s", CHECK_FOLDER, name,
                   ending);
    FILE *file = fopen(path, "rb");
    if (!file) {
        check_fail(__FILE__, __LINE__, "cannot open %s", path);
    }
    return file;
}

static size_t read_bitset(const char *name, uint8_t *bitset, size_t most)
{
    FILE *file = open_golden(name, "bits");
    size_t bytes = fread(bitset, 1, most, file);
    (void)fclose(file);
    CHECK(bytes > 0 && bytes < most && bytes % 32 == 0);
    return bytes;
}

/* Converts a line from a list of keys to the bytes that Parquet hashes, and returns the number of
 * bytes. Integers become `width` little-endian bytes; strings (width 0) are unchanged. */
static size_t key_bytes(char *line, size_t width, uint8_t *key)
{
    size_t len = strcspn(line, "\n");
    if (width == 0) {
        memcpy(key, line, len);
        return len;
    }
    line[len] = 0;
    uint64_t number = strtoull(line, NULL, 10);
    for (size_t i = 0; i < width; i++) {
        key[i] = (uint8_t)(number >> (8 * i));
    }
    return width;
}

static void check_golden(const char *name, size_t width, size_t keys)
{
    static uint8_t expected[20000], found[20000];
    size_t bits = read_bitset(name, expected, sizeof expected);
    size_t bytes = split_memory(bits / 32), count = 0;
    void *memory = line_memory(bytes);
    bg_filter *filter = split_at(memory, bytes, bits / 32);
    FILE *list = open_golden(name, "keys");
    char line[100];
    uint8_t key[100];
    while (fgets(line, sizeof line, list)) {
        size_t len = key_bytes(line, width, key);
        added(filter, key, len);
        CHECK(bg_filter_may_contain(filter, key, len));
        count++;
    }
    (void)fclose(list);
    CHECK_EQ(count, keys);
    as_parquet(memory, bits, found);
    CHECK(memcmp(found, expected, bits) == 0);
    bg_filter_free(filter);
    free(memory);
}

TEST(split__equals_duckdb_int32)
{
    check_golden("duckdb_int32", 4, 100);
}

TEST(split__equals_duckdb_int64)
{
    check_golden("duckdb_int64", 8, 1000);
}

TEST(split__equals_duckdb_strings)
{
    check_golden("duckdb_string", 0, 9760);
}
