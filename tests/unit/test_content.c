/*
 * Filters are split into their parts and reassembled, as when they are saved and loaded. Every kind
 * and variant is restored as an equal filter and keeps working. Content that no filter of its kind
 * could have produced is refused.
 */
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include "bloomgate/window.h"
#include "filter/content.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 3000 };

static uint64_t hashes[KEYS];

/* A disassembled filter. */
struct pieces {
    struct bgi_recipe recipe;
    uint64_t n, *numbers;
    uint64_t count, *words;
};

struct cursor {
    uint64_t *words;
    bool in;
};

static bool move_words(void *context, bg_filter *leaf)
{
    struct cursor *cursor = context;
    uint64_t *words = bgi_filter_words(leaf);
    memcpy(cursor->in ? words : cursor->words, cursor->in ? cursor->words : words,
           leaf->bytes);
    cursor->words += leaf->bytes / 8;
    return true;
}

static struct pieces take_apart(const bg_filter *filter)
{
    struct pieces p = { .n = bgi_content_numbers(filter, NULL),
                        .count = bg_filter_size_bytes(filter) / 8 };
    bgi_recipe_of(filter, &p.recipe);
    p.numbers = malloc((size_t)p.n * 8);
    p.words = malloc((size_t)p.count * 8);
    CHECK(p.numbers && p.words);
    CHECK_EQ(bgi_content_numbers(filter, p.numbers), p.n);
    struct cursor cursor = { p.words, false };
    CHECK(bgi_content_each(filter, move_words, &cursor));
    CHECK(cursor.words == p.words + p.count);
    return p;
}

/* Returns NULL if the content is refused. */
static bg_filter *put_together(const struct pieces *p, const bg_spec *how)
{
    bg_filter *filter = NULL;
    bg_hasher hasher;
    CHECK_OK(bg_hasher_init(&hasher, NULL, NULL));
    if (bgi_recipe_make(&p->recipe, how, &hasher, p->count * 8, &filter, NULL)) {
        CHECK(filter == NULL);
        return NULL;
    }
    struct cursor cursor = { p->words, true };
    if (bgi_content_restore_parts(filter, p->numbers, p->n, p->count * 8) == BG_OK
        && bg_filter_size_bytes(filter) == p->count * 8
        && bgi_content_each(filter, move_words, &cursor)
        && bgi_content_restore_state(filter, p->numbers, p->n)) {
        return filter;
    }
    bg_filter_free(filter);
    return NULL;
}

static void drop(struct pieces *p)
{
    free(p->numbers);
    free(p->words);
}

/* Checks that the restored filter equals the original, reports the same statistics, and finds its
 * keys. */
static void check_returns(const bg_filter *filter, const bg_spec *how)
{
    struct pieces p = take_apart(filter);
    bg_filter *back = put_together(&p, how);
    CHECK(back);
    CHECK(bg_filter_equal(filter, back));
    bg_filter_info a = info_of(filter), b = info_of(back);
    CHECK_EQ(a.ones, b.ones);
    CHECK_EQ(a.saturated, b.saturated);
    CHECK_EQ(a.overflowed, b.overflowed);
    CHECK_EQ(a.units, b.units);
    CHECK_NEAR(b.rate, a.rate, 1e-12);
    CHECK_NEAR(b.design_rate, a.design_rate, 1e-12);
    CHECK_EQ(a.design_items, b.design_items);
    CHECK_EQ(bg_filter_may_contain_many(back, bg_keys_hashes(hashes, KEYS / 2), NULL),
             KEYS / 2);
    struct pieces again = take_apart(back);
    CHECK_EQ(again.n, p.n);
    CHECK(memcmp(again.numbers, p.numbers, (size_t)p.n * 8) == 0);
    CHECK(memcmp(&again.recipe, &p.recipe, sizeof p.recipe) == 0);
    drop(&again);
    /* The restored filter accepts the other half of the keys. */
    if (!(bg_kind_traits((bg_kind)p.recipe.kind) & BG_TRAIT_STATIC)) {
        for (size_t i = KEYS / 2; i < KEYS; i++) {
            (void)added_hash(back, hashes[i]);
        }
        CHECK_EQ(bg_filter_may_contain_many(back, bg_keys_hashes(hashes, KEYS), NULL),
                 KEYS);
    }
    bg_filter_free(back);
    drop(&p);
}

static void check_spec(const bg_spec *spec)
{
    bg_filter *filter = NULL;
    if (bg_kind_traits((bg_kind)spec->kind) & BG_TRAIT_STATIC) {
        bg_builder *builder = NULL;
        CHECK_OK(bg_builder_create(spec, &builder, NULL));
        CHECK_OK(bg_builder_add_many(builder, bg_keys_hashes(hashes, KEYS / 2)));
        CHECK_OK(bg_builder_finish(builder, &filter, NULL));
        bg_builder_free(builder);
    } else {
        filter = must_create(spec);
        for (size_t i = 0; i < KEYS / 2; i++) {
            (void)added_hash(filter, hashes[i]);
        }
    }
    bg_spec how = BG_SPEC_INIT;
    how.window = spec->window;
    check_returns(filter, &how);
    bg_filter_free(filter);
}

static bg_spec spec_of(uint32_t kind)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = kind;
    spec.items = KEYS;
    spec.rate = 0.01;
    return spec;
}

TEST(content__every_kind_returns)
{
    random_hashes(hashes, KEYS);
#define CONTENT_CHECK(NAME, number, name)                                              \
    {                                                                                  \
        bg_spec spec = spec_of(BG_KIND_##NAME);                                        \
        check_spec(&spec);                                                             \
    }
    BG_KINDS(CONTENT_CHECK)
#undef CONTENT_CHECK
}

TEST(content__every_variant_returns)
{
    random_hashes(hashes, KEYS);
    for (uint32_t width = 4; width <= 32; width *= 2) {
        bg_spec spec = spec_of(BG_KIND_COUNTING);
        spec.width = width;
        check_spec(&spec);
        spec.flags = BG_SPEC_SCATTERED;
        check_spec(&spec);
    }
    for (uint32_t k = 8; k <= 32; k = k == 8 ? 12 : k == 12 ? 16 : 2 * k) {
        bg_spec spec = spec_of(BG_KIND_CUCKOO);
        spec.k = k;
        check_spec(&spec);
    }
    for (uint32_t width = 3; width <= 4; width++) {
        bg_spec spec = spec_of(BG_KIND_FUSE);
        spec.width = width;
        check_spec(&spec);
    }
    for (uint32_t width = 2; width <= 8; width *= 2) {
        bg_spec spec = spec_of(BG_KIND_SCALABLE);
        spec.items = 50;
        spec.width = width;
        check_spec(&spec);
        spec.flags = BG_SPEC_SCATTERED;
        check_spec(&spec);
    }
}

TEST(content__shards_return)
{
    static const bg_kind kinds[] = { BG_KIND_BLOCKED, BG_KIND_COUNTING, BG_KIND_CUCKOO,
                                     BG_KIND_QUOTIENT, BG_KIND_SCALABLE };
    random_hashes(hashes, KEYS);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bg_spec spec = spec_of(kinds[i]);
        spec.shards = 5;
        check_spec(&spec);
    }
}

static uint64_t read_clock(void *context)
{
    return *(const uint64_t *)context;
}

TEST(content__windows_return)
{
    random_hashes(hashes, KEYS);
    for (uint32_t mode = 0; mode < 2; mode++) {
        for (uint32_t how = 0; how < 3; how++) {
            uint64_t now = 1000;
            bg_window_options window = BG_WINDOW_OPTIONS_INIT;
            window.mode = mode;
            window.generations = 4;
            window.length = how == 1 ? 300 : 0;
            window.clock = how == 1 ? read_clock : NULL;
            window.context = &now;
            window.count = how == 2 ? 2 * KEYS : 0;
            bg_spec spec = spec_of(BG_KIND_WINDOW);
            spec.window = &window;
            check_spec(&spec);
        }
    }
}

/* The time between saving and loading does not count: keys that were present when the filter was
 * saved are kept for their full window. */
TEST(content__a_window_goes_on_where_it_was)
{
    uint64_t now = 1000;
    bg_window_options window = BG_WINDOW_OPTIONS_INIT;
    window.generations = 4;
    window.length = 300; /* periods of 100 */
    window.clock = read_clock;
    window.context = &now;
    bg_spec spec = spec_of(BG_KIND_WINDOW);
    spec.window = &window;
    bg_filter *filter = must_create(&spec);
    random_hashes(hashes, KEYS);
    (void)added_hash(filter, hashes[0]);
    struct pieces p = take_apart(filter);
    static const uint64_t starts[] = { 7, 1000, 1000000 };
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        now = starts[i];
        bg_filter *back = put_together(&p, &spec);
        CHECK(back);
        now += 299;
        CHECK_OK(bg_filter_rotate(back, now, NULL));
        CHECK(bg_filter_may_contain_hash(back, hashes[0]));
        now += 101;
        CHECK_OK(bg_filter_rotate(back, now, NULL));
        CHECK(!bg_filter_may_contain_hash(back, hashes[0]));
        bg_filter_free(back);
    }
    drop(&p);
    bg_filter_free(filter);
}

/* Restoring a filter preserves its special states: full, saturated and overflowed. */
TEST(content__states_return)
{
    random_hashes(hashes, KEYS);
    bg_spec spec = spec_of(BG_KIND_COUNTING);
    bg_filter *filter = must_create(&spec);
    for (int i = 0; i < 20 * KEYS / 2; i++) {
        (void)added_hash(filter, hashes[i % (KEYS / 2)]);
    }
    CHECK(info_of(filter).saturated > 0);
    bg_spec how = BG_SPEC_INIT;
    check_returns(filter, &how);
    bg_filter_free(filter);
    static const bg_kind kinds[] = { BG_KIND_CUCKOO, BG_KIND_QUOTIENT };
    for (size_t i = 0; i < 2; i++) {
        spec = spec_of(kinds[i]);
        spec.items = 200;
        filter = must_create(&spec);
        for (size_t j = 0; j < KEYS / 2; j++) {
            (void)added_hash(filter, hashes[j]);
        }
        CHECK(info_of(filter).overflowed);
        check_returns(filter, &how);
        bg_filter_free(filter);
    }
}

/* ---- Refused ---------------------------------------------------------------------- */

static struct pieces pieces_of(const bg_spec *spec, size_t n)
{
    bg_filter *filter = must_create(spec);
    random_hashes(hashes, KEYS);
    for (size_t i = 0; i < n; i++) {
        (void)added_hash(filter, hashes[i]);
    }
    struct pieces p = take_apart(filter);
    bg_filter_free(filter);
    return p;
}

static void check_refused(const struct pieces *p)
{
    bg_spec how = BG_SPEC_INIT;
    CHECK(put_together(p, &how) == NULL);
}

#define REFUSE(field, value)                                                           \
    do {                                                                               \
        struct pieces wrong = p;                                                       \
        wrong.recipe.field = (value);                                                  \
        check_refused(&wrong);                                                         \
    } while (0)

TEST(content__recipes_that_are_none)
{
    bg_spec spec = spec_of(BG_KIND_BLOCKED);
    struct pieces p = pieces_of(&spec, 10);
    REFUSE(kind, 0);
    REFUSE(kind, 999);
    REFUSE(flags, 1u << 31);
    REFUSE(width, 3);
    REFUSE(k, 0);
    REFUSE(k, 17);
    REFUSE(units, 0);
    REFUSE(units, p.recipe.units + 1);
    REFUSE(units, p.recipe.units - 1);
    REFUSE(units, UINT64_MAX);
    REFUSE(units, UINT64_MAX / 64 + 2);
    REFUSE(rate, -1.0);
    REFUSE(rate, (double)NAN);
    REFUSE(shards, 2);
    REFUSE(shards, UINT32_MAX);
    drop(&p);
    spec = spec_of(BG_KIND_SCALABLE);
    spec.items = 100;
    p = pieces_of(&spec, KEYS);
    REFUSE(width, 0);
    REFUSE(width, 3);
    REFUSE(rate, 0.0);
    REFUSE(rate, 1.0);
    REFUSE(rate, (double)INFINITY);
    REFUSE(k, 1);
    REFUSE(units, 0);
    REFUSE(units, p.recipe.units * 2);
    REFUSE(units, UINT64_MAX);
    drop(&p);
    for (uint32_t mode = 0; mode < 2; mode++) {
        bg_window_options window = BG_WINDOW_OPTIONS_INIT;
        window.mode = mode;
        spec = spec_of(BG_KIND_WINDOW);
        spec.window = &window;
        p = pieces_of(&spec, 10);
        REFUSE(window_mode, 2);
        REFUSE(generations, 0);
        REFUSE(generations, 1);
        REFUSE(generations, 65);
        REFUSE(window_kind, BG_KIND_CUCKOO);
        REFUSE(units, 0);
        REFUSE(units, UINT64_MAX);
        REFUSE(k, 60);
        REFUSE(k, 0);
        drop(&p);
    }
}

TEST(content__numbers_that_are_none)
{
    static const bg_kind kinds[] = { BG_KIND_CUCKOO, BG_KIND_QUOTIENT, BG_KIND_SCALABLE,
                                     BG_KIND_WINDOW, BG_KIND_BLOCKED };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bg_spec spec = spec_of(kinds[i]);
        struct pieces p = pieces_of(&spec, 10);
        for (uint64_t n = 0; n < p.n; n++) { /* cut off */
            struct pieces wrong = p;
            wrong.n = n;
            check_refused(&wrong);
        }
        uint64_t first = p.numbers[0];
        p.numbers[0] = first + 1;
        check_refused(&p);
        p.numbers[0] = UINT64_MAX;
        check_refused(&p);
        p.numbers[0] = first;
        if (kinds[i] == BG_KIND_CUCKOO) {
            p.numbers[2] = 4;
            check_refused(&p);
        } else if (kinds[i] == BG_KIND_WINDOW) {
            p.numbers[1] = 0; /* the period */
            check_refused(&p);
            p.numbers[1] = UINT64_MAX;
            check_refused(&p);
            p.numbers[1] = 128;
            p.numbers[2] = UINT64_MAX; /* cleared */
            check_refused(&p);
        }
        drop(&p);
    }
}

/* Flips each bit of a quotient filter's table in turn. Most of the resulting tables are refused;
 * those that are accepted satisfy the invariants, so inserts and removes are safe. */
TEST(content__quotient_tables_with_a_wrong_bit)
{
    bg_spec spec = spec_of(BG_KIND_QUOTIENT);
    spec.items = 200;
    struct pieces p = pieces_of(&spec, 150);
    bg_spec how = BG_SPEC_INIT;
    uint64_t refused = 0, bits = p.count * 64;
    for (uint64_t bit = 0; bit < bits; bit += CHECK_EMULATED ? 7 : 1) {
        p.words[bit / 64] ^= (uint64_t)1 << bit % 64;
        bg_filter *filter = put_together(&p, &how);
        if (filter) {
            for (size_t i = 0; i < 8; i++) {
                bg_err in = bg_filter_add_hash(filter, hashes[i], NULL);
                bg_err out = bg_filter_remove_hash(filter, hashes[i + 100]);
                CHECK(in == BG_OK || in == BG_EFULL);
                CHECK(out == BG_OK || out == BG_ENOTFOUND);
            }
            struct pieces after = take_apart(filter);
            bg_filter *sound = put_together(&after, &how);
            CHECK(sound);
            bg_filter_free(sound);
            drop(&after);
            bg_filter_free(filter);
        }
        refused += filter == NULL;
        p.words[bit / 64] ^= (uint64_t)1 << bit % 64;
    }
    CHECK(CHECK_EMULATED || refused > bits / 2);
    drop(&p);
}

/* If the first shard claims all words, none are left for the second shard. The content must be
 * refused before the second shard grows to the 40 layers that it claims (64 * 2^i bytes for layer
 * i). */
TEST(content__no_room_is_not_any_room)
{
    bg_spec spec = BG_SPEC_INIT, how = BG_SPEC_INIT;
    spec.kind = BG_KIND_SCALABLE;
    spec.items = 1;
    spec.rate = 0.01;
    spec.shards = 2;
    bg_filter *filter = must_create(&spec);
    struct pieces p = take_apart(filter);
    bg_filter *one = NULL;
    bg_hasher hasher;
    CHECK_OK(bg_hasher_init(&hasher, NULL, NULL));
    uint64_t room = bg_filter_size_bytes(filter);
    CHECK_OK(bgi_recipe_make(&p.recipe, &how, &hasher, room, &one, NULL));
    /* Five nodes store a count of numbers: the whole filter, its two shards, and one layer in each
     * shard. Each shard also stores one number, for its layer. */
    CHECK_EQ(p.n, 5 + 2);
    uint64_t layer = room / 2, numbers[64] = { 0 }, n = 0;
    numbers[n++] = 0;
    numbers[n++] = 2; /* the first shard claims two layers */
    n += 2;
    numbers[n++] = 0;
    numbers[n++] = 0;
    numbers[n++] = 40; /* the second shard claims 40 layers */
    n += 40;
    CHECK_EQ(bgi_content_restore_parts(one, numbers, n, 3 * layer), BG_EFORMAT);
    CHECK(bg_filter_size_bytes(one) <= 4 * layer);
    bg_filter_free(one);
    bg_filter_free(filter);
    drop(&p);
}

/* ---- Failed allocations ------------------------------------------------------------------ */

/* An allocator that fails after a given number of allocations. */
static void *allocate_some(void *context, size_t bytes, size_t alignment, bool zeroed)
{
    unsigned *left = context;
    if (*left == 0) {
        return NULL;
    }
    --*left;
    void *p = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (p && zeroed) {
        memset(p, 0, bytes);
    }
    return p;
}

static void release_some(void *context, void *memory, size_t bytes)
{
    (void)context;
    (void)bytes;
    free(memory);
}

/* Decodes a file repeatedly, allowing one more allocation on each attempt, until an attempt
 * succeeds. Returns the number of attempts that failed. */
static unsigned open_without(const unsigned char *bytes, size_t n)
{
    unsigned pieces = 0, failed = 0;
    bg_err err;
    do {
        unsigned left = pieces++;
        bg_allocator some = { allocate_some, release_some, &left };
        bg_open_options how = BG_OPEN_OPTIONS_INIT;
        bg_filter *filter = NULL;
        how.allocator = &some;
        err = bg_decode(bytes, n, &how, &filter, NULL);
        CHECK(err == BG_OK || err == BG_ENOMEM);
        failed += err != BG_OK;
        bg_filter_free(filter);
    } while (err && pieces < 1000);
    return failed;
}

/* A file must not be reported as damaged just because there is too little memory for its layers. */
TEST(content__files_without_memory_are_not_damaged)
{
    const uint32_t kinds[] = { BG_KIND_SCALABLE, BG_KIND_WINDOW };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bg_window_options by_hand = BG_WINDOW_OPTIONS_INIT;
        bg_spec spec = BG_SPEC_INIT;
        size_t n = 0;
        spec.kind = kinds[i];
        spec.items = 1000;
        spec.rate = 0.01;
        spec.window = kinds[i] == BG_KIND_WINDOW ? &by_hand : NULL;
        bg_filter *filter = must_create(&spec);
        (void)add_range(filter, 0, 20000);
        CHECK_OK(bg_encode(filter, NULL, NULL, 0, &n, NULL));
        unsigned char *bytes = malloc(n);
        CHECK(bytes != NULL);
        CHECK_OK(bg_encode(filter, NULL, bytes, n, &n, NULL));
        CHECK(open_without(bytes, n) > 2);
        free(bytes);
        bg_filter_free(filter);
    }
}
