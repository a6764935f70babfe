/*
 * prop_keys.c - the predicted rate holds for the keys that people have, through the
 * real hash functions: counters, pointers, UUIDs, URLs, long common prefixes, keys of 1
 * byte to 64 KiB, keys that differ in one bit, keys full of NULs.
 *
 * For each set of keys and each hash profile: filters of all kinds at 1 % and 0.1 %,
 * that share one hasher. Members are added as keys. For the probes each key is hashed
 * once and all filters are asked for the hash; the first probes are asked for as keys
 * as well, and must give the same answers. Then again with another seed or secret,
 * since one filter of 1e5 keys is fuller or emptier than the model by chance.
 */
#include "bloomgate/filter.h"
#include "prop/measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256, LONGEST = 65536, RATES = 2 };

/* Where the bytes of a chunk of keys go; `pool` is random, for long keys. */
struct arena {
    unsigned char *bytes;
    size_t used;
    unsigned char *pool;
    uint64_t members; /* number of members: keys 0 .. members - 1 */
    uint64_t salt;
};

/* Writes key number i and returns its length. Different numbers give different keys. */
typedef size_t key_maker(const struct arena *arena, uint64_t i, unsigned char *key);

static uint64_t keys_mix(uint64_t x)
{
    return check_random_next(&x);
}

static size_t keys_put(unsigned char *key, uint64_t x, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        key[i] = (unsigned char)(x >> (8 * i));
    }
    return bytes;
}

static size_t keys_put_decimal(unsigned char *key, uint64_t x)
{
    unsigned char digits[20];
    size_t n = 0;
    do {
        digits[n++] = (unsigned char)('0' + x % 10);
        x /= 10;
    } while (x);
    for (size_t i = 0; i < n; i++) {
        key[i] = digits[n - 1 - i];
    }
    return n;
}

static size_t keys_put_text(unsigned char *key, const char *text)
{
    size_t n = 0;
    for (; text[n]; n++) {
        key[n] = (unsigned char)text[n];
    }
    return n;
}

/* ---- Sets of keys --------------------------------------------------------------- */

static size_t key_counter(const struct arena *arena, uint64_t i, unsigned char *key)
{
    (void)arena;
    return keys_put(key, i, 8);
}

/* Addresses of objects of 64 bytes. */
static size_t key_pointer(const struct arena *arena, uint64_t i, unsigned char *key)
{
    (void)arena;
    return keys_put(key, 0x7f5a00000000u + 64 * i, 8);
}

/* The numbers 0, 1, 2 ... as floating point: all variation in the high bits. */
static size_t key_double(const struct arena *arena, uint64_t i, unsigned char *key)
{
    (void)arena;
    double number = (double)i;
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return keys_put(key, bits, 8);
}

/* UUIDs, version 4. */
static size_t key_uuid(const struct arena *arena, uint64_t i, unsigned char *key)
{
    keys_put(key, keys_mix(arena->salt + 2 * i), 8);
    keys_put(key + 8, keys_mix(arena->salt + 2 * i + 1), 8);
    key[6] = (unsigned char)(0x40 | (key[6] & 0x0f));
    key[8] = (unsigned char)(0x80 | (key[8] & 0x3f));
    return 16;
}

static size_t key_uuid_text(const struct arena *arena, uint64_t i, unsigned char *key)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char uuid[16];
    size_t n = 0;
    (void)key_uuid(arena, i, uuid);
    for (unsigned b = 0; b < 16; b++) {
        if (b == 4 || b == 6 || b == 8 || b == 10) {
            key[n++] = '-';
        }
        key[n++] = (unsigned char)hex[uuid[b] >> 4];
        key[n++] = (unsigned char)hex[uuid[b] & 15];
    }
    return n;
}

static size_t key_url(const struct arena *arena, uint64_t i, unsigned char *key)
{
    static const char *const sections[] = { "garden", "kitchen", "books", "toys" };
    (void)arena;
    size_t n = keys_put_text(key, "https://www.example.com/shop/");
    n += keys_put_text(key + n, sections[i % 4]);
    n += keys_put_text(key + n, "/item?id=");
    n += keys_put_decimal(key + n, i / 4);
    return n + keys_put_text(key + n, "&ref=front&lang=en");
}

/* 300 common bytes, then a number: more than one stripe of every hash function. */
static size_t key_prefixed(const struct arena *arena, uint64_t i, unsigned char *key)
{
    memcpy(key, arena->pool, 300);
    return 300 + keys_put_decimal(key + 300, i);
}

/*
 * Lengths of 1 to 65536 bytes. First all keys of one and of two bytes, the even
 * ones as members, the others as probes; then 1 in 32 of 64 bytes and more, the rest
 * of 8 to 63. Of a long key only 8 bytes differ from the others: at its beginning, its
 * end, or anywhere.
 */
static size_t key_mixed(const struct arena *arena, uint64_t i, unsigned char *key)
{
    bool probe = i >= arena->members;
    uint64_t j = probe ? i - arena->members : i;
    if (j < 128) {
        return keys_put(key, 2 * j + probe, 1);
    }
    if (j < 128 + 32768) {
        return keys_put(key, 2 * (j - 128) + probe, 2);
    }
    uint64_t r = keys_mix(arena->salt ^ i);
    size_t length = 8 + (size_t)((r >> 8) % 56);
    if (r % 32 == 0) {
        length = (size_t)exp2(6 + 10 * (double)(r >> 40) / 16777216.0);
        length = r % 8192 == 0 ? LONGEST : length;
    }
    const size_t places[] = { 0, length - 8, (size_t)((r >> 16) % (length - 7)) };
    memcpy(key, arena->pool, length);
    keys_put(key + places[(r >> 13) % 3], i, 8);
    return length;
}

/* Members are 32 random bytes, probes are members with one bit flipped (after 256
 * rounds through the members, with two). */
static size_t key_one_bit(const struct arena *arena, uint64_t i, unsigned char *key)
{
    uint64_t member = i % arena->members, flip = i / arena->members;
    for (unsigned w = 0; w < 4; w++) {
        keys_put(key + 8 * w, keys_mix(arena->salt + 4 * member + w), 8);
    }
    if (flip) {
        uint64_t bit = (flip - 1) % 256, second = (flip - 1) / 256;
        key[bit / 8] = (unsigned char)(key[bit / 8] ^ 1 << bit % 8);
        if (second) {
            bit = (bit + second) % 256;
            key[bit / 8] = (unsigned char)(key[bit / 8] ^ 1 << bit % 8);
        }
    }
    return 32;
}

/* A small number and NULs: of 24 neighbours all bytes are the same but their count. */
static size_t key_nuls(const struct arena *arena, uint64_t i, unsigned char *key)
{
    (void)arena;
    memset(key, 0, 32);
    (void)keys_put(key, i / 24, 8);
    return 8 + (size_t)(i % 24);
}

static const struct key_set {
    const char *name;
    key_maker *make;
} key_sets[] = {
    { "counters", key_counter },        { "pointers", key_pointer },
    { "doubles", key_double },          { "UUIDs", key_uuid },
    { "UUIDs as text", key_uuid_text }, { "URLs", key_url },
    { "long prefix", key_prefixed },    { "1 byte to 64 KiB", key_mixed },
    { "one bit", key_one_bit },         { "NULs", key_nuls },
};
enum { KEY_SETS = sizeof key_sets / sizeof *key_sets };

/* ---- Filters -------------------------------------------------------------------- */

/* One filter of each kind and rate, with one hasher. */
struct row {
    bg_kind kind;
    double rate;
    double predicted;
    bg_filter *filter;
    struct measure measure;
};

#define KEYS_COUNT(NAME, number, name) +1
enum { ROWS = RATES * (0 BG_BLOOM_KINDS(KEYS_COUNT)) };
static const double rates[RATES] = { 1e-2, 1e-3 };

static void rows_list(struct row *rows)
{
    memset(rows, 0, ROWS * sizeof *rows);
    for (unsigned r = 0; r < RATES; r++) {
#define KEYS_ROW(NAME, number, name)                                                   \
    *rows++ = (struct row){ .kind = BG_KIND_##NAME, .rate = rates[r] };
        BG_BLOOM_KINDS(KEYS_ROW)
    }
}

static void rows_create(struct row *rows, bg_hash_profile profile, uint64_t items)
{
    uint8_t secret[BG_SECRET_BYTES];
    for (unsigned i = 0; i < sizeof secret; i++) {
        secret[i] = (uint8_t)check_random();
    }
    bg_spec spec = BG_SPEC_INIT;
    spec.items = items;
    spec.flags = BG_EXCLUSIVE;
    spec.hash.profile = profile;
    spec.hash.seed = check_random();
    spec.hash.secret = secret;
    for (unsigned r = 0; r < ROWS; r++) {
        bg_info info = { .struct_size = sizeof info };
        spec.kind = rows[r].kind;
        spec.rate = rows[r].rate;
        CHECK_OK(bg_filter_create(&spec, &rows[r].filter, NULL));
        CHECK_OK(bg_filter_info(rows[r].filter, &info));
        rows[r].predicted = info.design_rate;
    }
}

static void rows_free(struct row *rows)
{
    for (unsigned r = 0; r < ROWS; r++) {
        bg_filter_free(rows[r].filter);
    }
}

/* ---- Measuring ------------------------------------------------------------------ */

/* Makes keys first .. first + n - 1. */
static void keys_make(struct arena *arena, const struct key_set *set, uint64_t first,
                      size_t n, bg_bytes *keys)
{
    unsigned char *at = arena->bytes;
    for (size_t i = 0; i < n; i++) {
        size_t length = set->make(arena, first + i, at);
        keys[i] = (bg_bytes){ at, length };
        at += length;
    }
}

static void keys_add(struct row *rows, struct arena *arena, const struct key_set *set)
{
    bg_bytes keys[CHUNK];
    for (uint64_t i = 0; i < arena->members; i += CHUNK) {
        size_t n = arena->members - i < CHUNK ? (size_t)(arena->members - i) : CHUNK;
        keys_make(arena, set, i, n, keys);
        for (unsigned r = 0; r < ROWS; r++) {
            (void)bg_filter_add_many(rows[r].filter, keys, n, NULL);
            CHECK_EQ(bg_filter_may_contain_many(rows[r].filter, keys, n, NULL), n);
        }
    }
}

/* Asks all filters of the first rates for `probes[0]`, those of the second for
 * `probes[1]` keys that are no members. */
static void keys_probe(struct row *rows, struct arena *arena, const struct key_set *set,
                       const uint64_t *probes)
{
    size_t hits[ROWS] = { 0 };
    bg_bytes keys[CHUNK];
    uint64_t hashes[CHUNK];
    for (uint64_t i = 0; i < probes[0] || i < probes[1]; i += CHUNK) {
        keys_make(arena, set, arena->members + i, CHUNK, keys);
        bg_hash_many(bg_filter_hasher(rows[0].filter), keys, CHUNK, hashes);
        for (unsigned r = 0; r < ROWS; r++) {
            if (i < probes[r / (ROWS / RATES)]) {
                size_t here = bg_filter_may_contain_many_hash(rows[r].filter, hashes,
                                                              CHUNK, NULL);
                hits[r] += here;
                if (i < (uint64_t)4 * CHUNK) {
                    CHECK_EQ(
                        bg_filter_may_contain_many(rows[r].filter, keys, CHUNK, NULL),
                        here);
                }
            }
        }
    }
    for (unsigned r = 0; r < ROWS; r++) {
        measure_add(&rows[r].measure, hits[r], (size_t)probes[r / (ROWS / RATES)]);
    }
}

/* One set of keys and one profile. */
static void keys_cells(struct arena *arena, const struct key_set *set,
                       bg_hash_profile profile, struct measure_summary *summary)
{
    bool soak = measure_soaks();
    double hits[RATES] = { 16000, soak ? 16000 : 2000 };
    double filters =
        ceil((soak ? 200000 * (double)check_scale() : 8e5) / (double)arena->members);
    struct row rows[ROWS];
    uint64_t probes[RATES];
    /* AES without the processor's help takes 50 times as long. */
    bool slow = MEASURE_SANITIZED
                || (profile == BG_HASH_KEYED_INT && bg_cpu_current() == BG_CPU_SCALAR);
    filters = slow ? 1 : fmax(4, filters);
    for (unsigned r = 0; r < RATES; r++) {
        double share = hits[r] / rates[r] / filters / (slow ? 100 : 1);
        probes[r] = (uint64_t)ceil(share / CHUNK) * CHUNK;
    }
    rows_list(rows);
    for (; filters > 0; filters--) {
        arena->salt = check_random();
        rows_create(rows, profile, arena->members);
        keys_add(rows, arena, set);
        keys_probe(rows, arena, set, probes);
        rows_free(rows);
    }
    for (unsigned r = 0; r < ROWS; r++) {
        char name[96];
        (void)snprintf(name, sizeof name, "%-16s %-9s %-11s %.0e", set->name,
                       bg_hash_name(profile), bg_kind_name(rows[r].kind), rows[r].rate);
        measure_enter(summary, name, &rows[r].measure, rows[r].predicted);
    }
}

static void keys_profile(bg_hash_profile profile)
{
    struct arena arena = { .bytes = malloc((size_t)CHUNK * LONGEST),
                           .pool = malloc(LONGEST) };
    struct measure_summary summary = { 0 };
    CHECK(arena.bytes && arena.pool);
    for (size_t i = 0; i < LONGEST; i++) {
        arena.pool[i] = (unsigned char)check_random();
    }
    uint64_t most = measure_soaks() ? 1000000 : 100000;
    for (arena.members = 100000; arena.members <= most; arena.members *= 10) {
        for (unsigned s = 0; s < KEY_SETS; s++) {
            keys_cells(&arena, &key_sets[s], profile, &summary);
        }
    }
    free(arena.bytes);
    free(arena.pool);
    measure_close(&summary, bg_hash_name(profile));
    CHECK_EQ(summary.bad, 0);
}

TEST(keys__fast)
{
    keys_profile(BG_HASH_FAST);
}

TEST(keys__keyed)
{
    keys_profile(BG_HASH_KEYED);
}

TEST(keys__keyed_int)
{
    keys_profile(BG_HASH_KEYED_INT);
}

TEST(keys__xxh64)
{
    keys_profile(BG_HASH_XXH64);
}

TEST(keys__keyed24)
{
    if (measure_soaks()) {
        keys_profile(BG_HASH_KEYED24);
    }
}
