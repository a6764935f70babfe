/*
 * prop_keys.c - tests that the predicted rate holds for the real hash functions with realistic
 * keys: counters, pointers, strides, grids, UUIDs, URLs, long common prefixes, keys from 1 byte to
 * 64 KiB, keys that differ in one bit, and keys full of NULs.
 *
 * For each set of keys and each hash profile, the test creates filters of all kinds and
 * variants (samples.h) at rates of 1% and 0.1%. All of these filters use the same hash function and
 * seed. Members are added as keys, or through a builder for static kinds. Each probe is hashed
 * once, and the hash is looked up in all filters; the first probes are also looked up as keys,
 * which must give the same number of "maybe" answers. The test is repeated with different seeds or
 * secrets, because a single filter can by chance be fuller or emptier than the model predicts.
 *
 * Kinds that do more than set bits are tested with fewer filters and, except in soak tests, only
 * at 1% and with two profiles.
 */
#include "bloomgate/all.h"
#include "prop/measure.h"
#include "support/samples.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256, LONGEST = 65536, RATES = 2 };

/* `bytes` is a buffer for a chunk of keys; `pool` contains random bytes for long keys. */
struct arena {
    unsigned char *bytes;
    size_t used;
    unsigned char *pool;
    uint64_t members; /* the first `members` keys are members */
    uint64_t salt;
};

/* Writes key i and returns its length. Different indexes produce different keys. */
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

/* Addresses of 64-byte objects. */
static size_t key_pointer(const struct arena *arena, uint64_t i, unsigned char *key)
{
    (void)arena;
    return keys_put(key, 0x7f5a00000000u + 64 * i, 8);
}

/* Consecutive integers from 0, stored as doubles. They differ only in their high bits. */
static size_t key_double(const struct arena *arena, uint64_t i, unsigned char *key)
{
    (void)arena;
    double number = (double)i;
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return keys_put(key, bits, 8);
}

/* Multiples of 2^32. They differ only in their high half. */
static size_t key_stride(const struct arena *arena, uint64_t i, unsigned char *key)
{
    (void)arena;
    return keys_put(key, i << 32, 8);
}

/* Big-endian integers. */
static size_t key_reversed(const struct arena *arena, uint64_t i, unsigned char *key)
{
    (void)arena;
    return keys_put(key, __builtin_bswap64(i), 8);
}

/* Coordinates of the points of a grid. */
static size_t key_grid(const struct arena *arena, uint64_t i, unsigned char *key)
{
    (void)arena;
    return keys_put(key, (i % 200) << 32 | i / 200, 8);
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

/* A shared 300-byte prefix, followed by an integer. The prefix is longer than one stripe in any of
 * the hash functions. */
static size_t key_prefixed(const struct arena *arena, uint64_t i, unsigned char *key)
{
    memcpy(key, arena->pool, 300);
    return 300 + keys_put_decimal(key + 300, i);
}

/*
 * Keys of 1 to 65536 bytes. The set starts with all keys of one and two bytes; keys with even
 * values are members, and keys with odd values are probes. After that, 1 key in 32 has 64 bytes or
 * more, and the other keys have 8 to 63 bytes. Each of these longer keys is a prefix of the same
 * random bytes, in which 8 bytes are replaced by the index i: at the start, at the end, or at a
 * random position.
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

/* Members are 32 random bytes; probes are members with one flipped bit (or two flipped bits, after
 * every single bit has been flipped). */
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

/* A small integer followed by NULs. The keys in each group of 24 differ only in length. */
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
    { "counters", key_counter },
    { "pointers", key_pointer },
    { "doubles", key_double },
    { "strides", key_stride },
    { "byte-reversed", key_reversed },
    { "grid", key_grid },
    { "UUIDs", key_uuid },
    { "UUIDs as text", key_uuid_text },
    { "URLs", key_url },
    { "long prefix", key_prefixed },
    { "1 byte to 64 KiB", key_mixed },
    { "one bit", key_one_bit },
    { "NULs", key_nuls },
};
enum { KEY_SETS = sizeof key_sets / sizeof *key_sets };

/* ---- Filters -------------------------------------------------------------------- */

/* A row is one filter, created from a sample at one rate. All rows use the same hash function and
 * seed. */
struct row {
    unsigned sample;
    double rate;
    double predicted;
    uint64_t probes;
    bg_spec spec;
    struct filling fill;
    bg_filter *filter;
    struct measure measure;
};

enum { ROWS = RATES * SAMPLES };
static const double rates[RATES] = { 1e-2, 1e-3 };

/* Returns true for kinds that only set bits. These kinds are the first to reveal a weak hash, so
 * they are always tested. */
static bool rows_always(unsigned sample)
{
    return samples[sample].kind <= BG_KIND_REGISTER && !samples[sample].shards;
}

/* Returns N; the kinds that are not always tested are tested only in every Nth round. */
static double rows_skip(void)
{
    return measure_soaks() ? 4 : 2;
}

static unsigned rows_list(struct row *rows, bg_hash_profile profile, uint64_t members)
{
    unsigned n = 0;
    bool all = measure_soaks() ? members <= 100000
                               : profile == BG_HASH_FAST || profile == BG_HASH_FAST_INT
                                     || profile == BG_HASH_KEYED;
    memset(rows, 0, ROWS * sizeof *rows);
    for (int always = 1; always >= 0; always--) {
        for (unsigned r = 0; r < RATES; r++) {
            for (unsigned s = 0; s < SAMPLES; s++) {
                bool wanted = always || (all && (r == 0 || measure_soaks()));
                if (rows_always(s) == always && wanted) {
                    rows[n++] = (struct row){ .sample = s, .rate = rates[r] };
                }
            }
        }
    }
    return n;
}

/* Prepares a filter for each row, or a builder if the kind is static. */
static void rows_begin(struct row *rows, unsigned n, bg_hash_profile profile,
                       uint64_t items)
{
    uint8_t secret[BG_SECRET_BYTES];
    uint64_t seed = check_random();
    for (unsigned i = 0; i < sizeof secret; i++) {
        secret[i] = (uint8_t)check_random();
    }
    for (unsigned r = 0; r < n; r++) {
        bg_spec *spec = &rows[r].spec;
        *spec = sample_spec(rows[r].sample, items, rows[r].rate);
        spec->flags |= BG_SPEC_EXCLUSIVE;
        spec->hash.profile = profile;
        spec->hash.seed = seed;
        spec->hash.secret = secret;
        filling_begin(&rows[r].fill, rows[r].sample, spec, items);
        spec->hash = (bg_hash_spec){ .profile = BG_HASH_FAST }; /* drop the secret */
    }
}

static void rows_free(struct row *rows, unsigned n)
{
    for (unsigned r = 0; r < n; r++) {
        bg_filter_free(rows[r].filter);
    }
}

/* ---- Measuring ------------------------------------------------------------------ */

/* Generates n keys, starting with key `first`. */
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

/* Adds the members, finishes the filters, and looks up all members. */
static void keys_add(struct row *rows, unsigned n, struct arena *arena,
                     const struct key_set *set)
{
    bg_bytes keys[CHUNK];
    for (int asking = 0; asking < 2; asking++) {
        for (uint64_t i = 0; i < arena->members; i += CHUNK) {
            uint64_t left = arena->members - i;
            size_t here = left < CHUNK ? (size_t)left : CHUNK;
            keys_make(arena, set, i, here, keys);
            for (unsigned r = 0; r < n; r++) {
                if (asking) {
                    CHECK_EQ(bg_filter_may_contain_many(
                                 rows[r].filter, bg_keys_bytes(keys, here), NULL),
                             here);
                } else {
                    filling_add(&rows[r].fill, keys, here);
                }
            }
        }
        for (unsigned r = 0; r < n && !asking; r++) {
            rows[r].filter = filling_end(&rows[r].fill);
            rows[r].predicted =
                sample_rate(rows[r].sample, &rows[r].spec, rows[r].filter);
        }
    }
}

/* Looks up absent keys in each row's filter, and records the hits. `probes` is the number of keys
 * for each row. */
static void keys_probe(struct row *rows, unsigned n, struct arena *arena,
                       const struct key_set *set)
{
    size_t hits[ROWS] = { 0 };
    bg_bytes keys[CHUNK];
    uint64_t hashes[CHUNK], most = 0;
    for (unsigned r = 0; r < n; r++) {
        most = rows[r].probes > most ? rows[r].probes : most;
    }
    for (uint64_t i = 0; i < most; i += CHUNK) {
        keys_make(arena, set, arena->members + i, CHUNK, keys);
        bg_hash_many(bg_filter_hasher(rows[0].filter), bg_keys_bytes(keys, CHUNK),
                     hashes);
        for (unsigned r = 0; r < n; r++) {
            if (i >= rows[r].probes) {
                continue;
            }
            const bg_filter *filter = rows[r].filter;
            size_t here =
                bg_filter_may_contain_many(filter, bg_keys_hashes(hashes, CHUNK), NULL);
            hits[r] += here;
            if (i < (uint64_t)4 * CHUNK) {
                CHECK_EQ(bg_filter_may_contain_many(filter, bg_keys_bytes(keys, CHUNK),
                                                    NULL),
                         here);
            }
        }
    }
    for (unsigned r = 0; r < n; r++) {
        measure_add(&rows[r].measure, hits[r], (size_t)rows[r].probes);
    }
}

/* Sets the number of probes for each row's filters. */
static void keys_effort(struct row *rows, unsigned n, double filters, bool slow)
{
    for (unsigned r = 0; r < n; r++) {
        bool always = rows_always(rows[r].sample);
        double rounds = always ? filters : ceil(filters / rows_skip());
        double hits = rows[r].rate < 5e-3 ? 1400 : 10500; /* sigma 2.7% and 1% */
        hits = measure_soaks() && always ? 16000 : hits;
        double share = hits / rows[r].rate / rounds / (slow ? 100 : 1);
        rows[r].probes = (uint64_t)ceil(share / CHUNK) * CHUNK;
    }
}

/* Returns how many of the n rows, counted from the first, are tested in round `turn`. Kinds that
 * are not always tested are in the last rows, which are skipped in some rounds. */
static unsigned rows_in(const struct row *rows, unsigned n, double turn)
{
    while (fmod(turn, rows_skip()) > 0 && !rows_always(rows[n - 1].sample)) {
        n--;
    }
    return n;
}

/* Tests one set of keys with one profile. */
static void keys_cells(struct arena *arena, const struct key_set *set,
                       bg_hash_profile profile, struct measure_summary *summary)
{
    bool soak = measure_soaks();
    double filters =
        ceil((soak ? 200000 * (double)check_scale() : 3.2e5) / (double)arena->members);
    static struct row rows[ROWS];
    /* Without hardware support, AES takes 50 times as long. */
    bool slow = MEASURE_SANITIZED
                || (profile == BG_HASH_KEYED_INT && bg_cpu_current() == BG_CPU_SCALAR);
    filters = slow ? 1 : fmax(4, filters);
    unsigned n = rows_list(rows, profile, arena->members);
    keys_effort(rows, n, filters, slow);
    for (double turn = 0; turn < filters; turn++) {
        unsigned here = rows_in(rows, n, turn);
        arena->salt = check_random();
        rows_begin(rows, here, profile, arena->members);
        keys_add(rows, here, arena, set);
        keys_probe(rows, here, arena, set);
        rows_free(rows, here);
    }
    for (unsigned r = 0; r < n; r++) {
        char name[96];
        (void)snprintf(name, sizeof name, "%-16s %-9s %-11s %.0e", set->name,
                       bg_hash_name(profile), samples[rows[r].sample].name,
                       rows[r].rate);
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
    uint64_t least = measure_soaks() ? 100000 : 40000;
    uint64_t most = measure_soaks() ? 1000000 : least;
    for (arena.members = least; arena.members <= most; arena.members *= 10) {
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

TEST(keys__fast_int)
{
    keys_profile(BG_HASH_FAST_INT);
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
