/*
 * prop_model.c - applies random sequences of operations to filters, and compares the results with
 * an exact set.
 *
 * A world consists of a few filters that share a random geometry, and the exact set of each
 * filter's keys. Operations are chosen at random: adds and lookups, singly and in batches, of byte
 * strings, fixed-width records, integers and hashes; and merges, folds, copies and clears. After
 * each operation, these properties are checked:
 *
 *   - a lookup of a member always answers "maybe";
 *   - an add reports "new" only for a key that is not a member, and if and only if the preceding
 *     lookup answered "no"; in a batch, only the first of several equal keys is new;
 *   - the bitmaps and counts from batches agree with the answers from single calls.
 *
 * Each filter has a twin, which uses the other mode (shared or exclusive) and the scalar
 * instruction set. Every key is added to the twin individually, as a hash. A filter and its twin
 * must give the same answers, including false positives, and have the same words.
 *
 * Worlds cycle through all kinds, modes, hash profiles and instruction sets. A "check" is the
 * lookup of one key; the test prints the number of checks.
 */
#include "bloomgate/all.h"
#include "filter/handle.h"
#include "prop/measure.h"
#include "support/adds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDS = 4096, SLOTS = 3, BATCH = 300, KEY_BYTES = 16, LONG_BYTES = 2000 };

/* The forms in which keys are passed. Key i always has form i % WAYS. */
enum way { BY_BYTES, BY_FIXED, BY_U64, BY_HASH, WAYS };

/* All keys, in each of their forms. */
static struct {
    bg_bytes bytes[IDS];
    unsigned char fixed[IDS][KEY_BYTES];
    uint64_t number[IDS]; /* used as an integer or as a hash */
    unsigned char pool[IDS + LONG_BYTES];
} names;

struct slot {
    bg_filter *filter;
    bg_filter *twin;
    bool has[IDS]; /* the exact set */
    void *memory;  /* memory for bg_filter_create_at, or NULL */
};

struct world {
    bg_spec spec;
    uint8_t secret[BG_SECRET_BYTES];
    bg_cpu cpu;
    unsigned ids; /* the first `ids` keys are used */
    struct slot slots[SLOTS];
    uint64_t checks;
};

static unsigned model_below(unsigned n)
{
    return (unsigned)check_random_below(n);
}

static void names_make(void)
{
    for (size_t i = 0; i < sizeof names.pool; i++) {
        names.pool[i] = (unsigned char)check_random();
    }
    for (size_t i = 0; i < IDS; i++) {
        size_t length =
            (size_t)check_random_below(check_random_below(16) ? 70 : LONG_BYTES);
        names.bytes[i] = (bg_bytes){ length ? names.pool + i : NULL, length };
        for (size_t b = 0; b < KEY_BYTES; b++) {
            names.fixed[i][b] = (unsigned char)check_random();
        }
        names.number[i] = check_random();
    }
}

static uint64_t model_custom_hash(void *context, const void *key, size_t len)
{
    const unsigned char *bytes = key;
    uint64_t state = *(const uint64_t *)context;
    for (size_t i = 0; i < len; i++) {
        state = (state ^ bytes[i]) * 0x9e3779b97f4a7c15u;
        state ^= state >> 29;
    }
    return check_random_next(&state);
}

/* ---- Single keys ---------------------------------------------------------------- */

static uint64_t model_hash(const bg_filter *filter, unsigned id)
{
    const bg_hasher *hasher = bg_filter_hasher(filter);
    switch ((enum way)(id % WAYS)) {
    case BY_BYTES:
        return bg_hash_bytes(hasher, names.bytes[id].data, names.bytes[id].len);
    case BY_FIXED: return bg_hash_bytes(hasher, names.fixed[id], KEY_BYTES);
    case BY_U64: return bg_hash_u64(hasher, names.number[id]);
    default: return names.number[id];
    }
}

static bool model_add(bg_filter *filter, unsigned id)
{
    switch ((enum way)(id % WAYS)) {
    case BY_BYTES: return added(filter, names.bytes[id].data, names.bytes[id].len);
    case BY_FIXED: return added(filter, names.fixed[id], KEY_BYTES);
    case BY_U64: return added_u64(filter, names.number[id]);
    default: return added_hash(filter, names.number[id]);
    }
}

static bool model_ask(const bg_filter *filter, unsigned id)
{
    switch ((enum way)(id % WAYS)) {
    case BY_BYTES:
        return bg_filter_may_contain(filter, names.bytes[id].data, names.bytes[id].len);
    case BY_FIXED: return bg_filter_may_contain(filter, names.fixed[id], KEY_BYTES);
    case BY_U64: return bg_filter_may_contain_u64(filter, names.number[id]);
    default: return bg_filter_may_contain_hash(filter, names.number[id]);
    }
}

/* ---- Batches of keys of one form ------------------------------------------------ */

struct batch_keys {
    size_t n;
    unsigned ids[BATCH];
    bg_bytes bytes[BATCH];
    unsigned char fixed[BATCH][KEY_BYTES];
    uint64_t numbers[BATCH];
    uint64_t bitmap[BG_BITMAP_WORDS(BATCH)];
};

/* Chooses random keys of one form, some of them more than once. */
static enum way batch_draw(const struct world *world, struct batch_keys *b)
{
    enum way way = (enum way)model_below(WAYS);
    b->n = model_below(4) ? model_below(BATCH + 1) : model_below(10);
    for (size_t i = 0; i < b->n; i++) {
        unsigned id = model_below(world->ids) / WAYS * WAYS + way;
        b->ids[i] = id;
        b->bytes[i] = names.bytes[id];
        memcpy(b->fixed[i], names.fixed[id], KEY_BYTES);
        b->numbers[i] = names.number[id];
    }
    memset(b->bitmap, 0xa5, sizeof b->bitmap);
    return way;
}

static size_t batch_do(bg_filter *filter, struct batch_keys *b, enum way way, bool add)
{
    uint64_t *bits = b->bitmap;
    switch (way) {
    case BY_BYTES:
        return add ? added_many(filter, bg_keys_bytes(b->bytes, b->n), bits)
                   : bg_filter_may_contain_many(filter, bg_keys_bytes(b->bytes, b->n),
                                                bits);
    case BY_FIXED:
        return add ? added_many(filter, bg_keys_fixed(b->fixed, KEY_BYTES, b->n), bits)
                   : bg_filter_may_contain_many(
                       filter, bg_keys_fixed(b->fixed, KEY_BYTES, b->n), bits);
    case BY_U64:
        return add ? added_many(filter, bg_keys_u64(b->numbers, b->n), bits)
                   : bg_filter_may_contain_many(filter, bg_keys_u64(b->numbers, b->n),
                                                bits);
    default:
        return add ? added_many(filter, bg_keys_hashes(b->numbers, b->n), bits)
                   : bg_filter_may_contain_many(filter,
                                                bg_keys_hashes(b->numbers, b->n), bits);
    }
}

static bool batch_bit(const struct batch_keys *b, size_t i)
{
    return b->bitmap[i / 64] >> (i % 64) & 1;
}

/* Checks that `count` is the number of set bits, that no bit is set after the last key's bit, and
 * that the words after the bitmap were not changed. */
static void batch_check_bitmap(const struct batch_keys *b, size_t count)
{
    size_t ones = 0;
    for (size_t w = 0; w < BG_BITMAP_WORDS(b->n); w++) {
        ones += (size_t)__builtin_popcountll(b->bitmap[w]);
    }
    CHECK_EQ(ones, count);
    if (b->n % 64) {
        CHECK_EQ(b->bitmap[b->n / 64] >> b->n % 64, 0);
    }
    for (size_t w = BG_BITMAP_WORDS(b->n); w < BG_BITMAP_WORDS(BATCH); w++) {
        CHECK_EQ(b->bitmap[w], 0xa5a5a5a5a5a5a5a5u);
    }
}

/* ---- Operations ----------------------------------------------------------------- */

typedef void operation(struct world *world, struct slot *slot);

static void op_add(struct world *world, struct slot *slot)
{
    unsigned id = model_below(world->ids);
    bool before = model_ask(slot->filter, id);
    bool is_new = model_add(slot->filter, id);
    CHECK(is_new != before);
    CHECK(!(is_new && slot->has[id]));
    CHECK(added_hash(slot->twin, model_hash(slot->twin, id)) == is_new);
    slot->has[id] = true;
    CHECK(model_ask(slot->filter, id));
    world->checks += 3;
}

static void op_ask(struct world *world, struct slot *slot)
{
    unsigned id = model_below(world->ids);
    bool maybe = model_ask(slot->filter, id);
    CHECK(maybe || !slot->has[id]);
    CHECK(bg_filter_may_contain_hash(slot->twin, model_hash(slot->twin, id)) == maybe);
    world->checks++;
}

static void op_add_many(struct world *world, struct slot *slot)
{
    struct batch_keys b;
    enum way way = batch_draw(world, &b);
    batch_check_bitmap(&b, batch_do(slot->filter, &b, way, true));
    for (size_t i = 0; i < b.n; i++) {
        unsigned id = b.ids[i];
        bool is_new = batch_bit(&b, i);
        CHECK(!(is_new && slot->has[id]));
        CHECK(added_hash(slot->twin, model_hash(slot->twin, id)) == is_new);
        slot->has[id] = true;
    }
    for (size_t i = 0; i < b.n; i++) {
        CHECK(model_ask(slot->filter, b.ids[i]));
    }
    world->checks += 2 * b.n;
}

static void op_ask_many(struct world *world, struct slot *slot)
{
    struct batch_keys b;
    enum way way = batch_draw(world, &b);
    batch_check_bitmap(&b, batch_do(slot->filter, &b, way, false));
    for (size_t i = 0; i < b.n; i++) {
        unsigned id = b.ids[i];
        bool maybe = batch_bit(&b, i);
        CHECK(maybe || !slot->has[id]);
        CHECK(bg_filter_may_contain_hash(slot->twin, model_hash(slot->twin, id))
              == maybe);
    }
    world->checks += b.n;
}

/* Checks that a filter answers "maybe" for every member of the slot. */
static void model_check_all(struct world *world, const struct slot *slot,
                            const bg_filter *filter)
{
    for (unsigned id = 0; id < world->ids; id++) {
        if (slot->has[id]) {
            CHECK(model_ask(filter, id));
            world->checks++;
        }
    }
}

static void op_check_all(struct world *world, struct slot *slot)
{
    model_check_all(world, slot, slot->filter);
    CHECK(bg_filter_equal(slot->filter, slot->twin));
}

static void op_merge(struct world *world, struct slot *slot)
{
    struct slot *other = &world->slots[model_below(SLOTS)];
    CHECK_OK(bg_filter_merge(slot->filter, other->filter, NULL));
    CHECK_OK(bg_filter_merge(slot->twin, other->twin, NULL));
    for (unsigned id = 0; id < world->ids; id++) {
        slot->has[id] |= other->has[id];
    }
    op_check_all(world, slot);
}

static void op_copy(struct world *world, struct slot *slot)
{
    bg_filter *copy;
    CHECK_OK(bg_filter_copy(slot->filter, &copy, NULL));
    CHECK(bg_filter_equal(copy, slot->filter));
    bg_filter_free(slot->filter);
    free(slot->memory);
    slot->memory = NULL;
    slot->filter = copy;
    op_check_all(world, slot);
}

/* Checks that the folded filter contains all members, and equals both the folded twin and a new
 * filter of that size with the same members. */
static void op_fold(struct world *world, struct slot *slot)
{
    bg_filter_info info = { .struct_size = sizeof info };
    CHECK_OK(bg_filter_get_info(slot->filter, &info));
    if (!info.foldable) {
        return;
    }
    uint32_t times = 1 + model_below(info.foldable);
    bg_filter *folded, *twin;
    CHECK_OK(bg_filter_fold(slot->filter, times, &folded, NULL));
    CHECK_OK(bg_filter_fold(slot->twin, times, &twin, NULL));
    CHECK(bg_filter_equal(folded, twin));
    model_check_all(world, slot, folded);

    bg_spec spec = world->spec; /* for a filter of the same size as `folded` */
    bg_filter *direct;
    spec.bytes = info.bytes >> times;
    CHECK_OK(bg_filter_create(&spec, &direct, NULL));
    for (unsigned id = 0; id < world->ids; id++) {
        if (slot->has[id]) {
            (void)model_add(direct, id);
        }
    }
    CHECK(bg_filter_equal(folded, direct));
    bg_filter_free(direct);
    bg_filter_free(twin);
    bg_filter_free(folded);
}

static void op_clear(struct world *world, struct slot *slot)
{
    bg_filter_clear(slot->filter);
    bg_filter_clear(slot->twin);
    memset(slot->has, 0, sizeof slot->has);
    CHECK(bg_filter_fill(slot->filter) <= 0);
    unsigned id = model_below(world->ids);
    CHECK(!model_ask(slot->filter, id));
    world->checks++;
}

/* Checks that bg_filter_equal returns true if and only if the two filters have the same words. */
static void op_equal(struct world *world, struct slot *slot)
{
    const struct slot *other = &world->slots[model_below(SLOTS)];
    bool same = memcmp(bgi_filter_words(slot->filter), bgi_filter_words(other->filter),
                       slot->filter->bytes)
                == 0;
    CHECK(bg_filter_equal(slot->filter, other->filter) == same);
    world->checks++;
}

static void op_info(struct world *world, struct slot *slot)
{
    bg_filter_info a = { .struct_size = sizeof a }, b = { .struct_size = sizeof b };
    CHECK_OK(bg_filter_get_info(slot->filter, &a));
    CHECK_OK(bg_filter_get_info(slot->twin, &b));
    CHECK_EQ(a.ones, b.ones);
    CHECK_EQ(a.hash_check, b.hash_check);
    CHECK_EQ(a.cpu, world->cpu);
    CHECK(a.items.low <= a.items.value && a.items.value <= a.items.high);
}

static const struct {
    operation *run;
    unsigned weight;
} operations[] = {
    { op_add, 20 },  { op_ask, 20 }, { op_add_many, 20 }, { op_ask_many, 40 },
    { op_merge, 3 }, { op_copy, 2 }, { op_fold, 1 },      { op_check_all, 4 },
    { op_clear, 1 }, { op_info, 1 }, { op_equal, 2 },
};

static void model_step(struct world *world)
{
    unsigned draw = model_below(114), i = 0;
    while (draw >= operations[i].weight) {
        draw -= operations[i++].weight;
    }
    operations[i].run(world, &world->slots[model_below(SLOTS)]);
}

/* ---- Worlds --------------------------------------------------------------------- */

/* Chooses a random geometry: tiny, small, or larger than the L2 cache. */
static void world_size(struct world *world, const struct bgi_kind *kind)
{
    bg_spec *spec = &world->spec;
    spec->k = kind->k_min + model_below(kind->k_max - kind->k_min + 1);
    uint64_t unit = kind->unit_bytes(spec->k), bytes;
    switch (model_below(8)) {
    case 0: bytes = unit * (1 + model_below(8)); break;
    case 1: bytes = bg_cpu_cache_bytes(2) + unit * model_below(1000); break;
    default: bytes = unit + model_below(16384);
    }
    uint64_t units = bytes / unit;
    if (model_below(2)) {
        units += units & 1; /* can be folded */
    }
    spec->bytes = units * unit;
    uint64_t ids = spec->bytes / 2;
    world->ids = (unsigned)(ids < IDS ? ids : IDS) / WAYS * WAYS;
}

/* Creates a filter and its twin. One filter in eight is created in memory that the caller provides
 * (bg_filter_create_at). */
static void slot_create(struct world *world, struct slot *slot)
{
    memset(slot, 0, sizeof *slot);
    CHECK_OK(bg_cpu_select(world->cpu));
    if (model_below(8)) {
        CHECK_OK(bg_filter_create(&world->spec, &slot->filter, NULL));
    } else {
        size_t bytes = 0;
        CHECK_OK(bg_filter_memory_needed(&world->spec, &bytes, NULL));
        bytes = (bytes + 63) / 64 * 64;
        slot->memory = aligned_alloc(64, bytes);
        CHECK(slot->memory != NULL);
        CHECK_OK(bg_filter_create_at(slot->memory, bytes, &world->spec, &slot->filter,
                                     NULL));
    }
    bg_spec other = world->spec;
    other.flags ^= BG_SPEC_EXCLUSIVE;
    CHECK_OK(bg_cpu_select(BG_CPU_SCALAR));
    CHECK_OK(bg_filter_create(&other, &slot->twin, NULL));
    CHECK_OK(bg_cpu_select(world->cpu));
}

static uint64_t world_run(struct world *world, uint64_t checks)
{
    for (unsigned s = 0; s < SLOTS; s++) {
        slot_create(world, &world->slots[s]);
    }
    while (world->checks < checks) {
        model_step(world);
    }
    for (unsigned s = 0; s < SLOTS; s++) {
        op_check_all(world, &world->slots[s]);
        bg_filter_free(world->slots[s].filter);
        bg_filter_free(world->slots[s].twin);
        free(world->slots[s].memory);
    }
    return world->checks;
}

static uint64_t model_world(bg_kind kind, uint32_t flags, bg_hash_profile profile,
                            bg_cpu cpu, uint64_t checks)
{
    static struct world world;
    static uint64_t context;
    memset(&world, 0, sizeof world);
    for (unsigned i = 0; i < BG_SECRET_BYTES; i++) {
        world.secret[i] = (uint8_t)check_random();
    }
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = kind;
    spec.flags = flags;
    context = check_random();
    spec.hash = (bg_hash_spec){ .profile = profile,
                                .seed = check_random(),
                                .secret = world.secret,
                                .custom = model_custom_hash,
                                .custom_context = &context,
                                .custom_name = "model" };
    world.spec = spec;
    world.cpu = cpu;
    world_size(&world, bgi_kind_of(kind));
    return world_run(&world, checks);
}

static void model_kind(bg_kind kind)
{
    static const bg_hash_profile profiles[] = {
#define MODEL_PROFILE(NAME, number, text, secret) BG_HASH_##NAME,
        BG_HASHES(MODEL_PROFILE)
    };
    static const bg_cpu cpus[] = {
#define MODEL_CPU(NAME, number, text) BG_CPU_##NAME,
        BG_CPUS(MODEL_CPU)
    };
    /* Each kind gets 2e6 checks. In soak tests, each kind gets 1.5e7 checks multiplied by the
     * scale: 7.5e8 checks for all kinds together at a scale of 10. */
    const double wanted = (measure_soaks() ? 1.5e7 * (double)check_scale() : 2e6)
                          / (MEASURE_SANITIZED ? 8 : 1);
    bg_cpu before = bg_cpu_current();
    uint64_t checks = 0, worlds = 0;
    names_make();
    while ((double)checks < wanted) {
        for (size_t c = 0; c < sizeof cpus / sizeof *cpus; c++) {
            for (size_t p = 0; p < sizeof profiles / sizeof *profiles; p++) {
                for (uint32_t flags = 0; flags <= BG_SPEC_EXCLUSIVE; flags++) {
                    if (bg_cpu_available(cpus[c])) {
                        checks += model_world(kind, flags, profiles[p], cpus[c], 20000);
                        worlds++;
                    }
                }
            }
        }
    }
    CHECK_OK(bg_cpu_select(before));
    printf("= %s: %llu checks in %llu worlds, no false negatives\n", bg_kind_name(kind),
           (unsigned long long)checks, (unsigned long long)worlds);
}

#define MODEL_TEST(NAME, number, name)                                                 \
    TEST(model__##name)                                                                \
    {                                                                                  \
        model_kind(BG_KIND_##NAME);                                                    \
    }
BG_BLOOM_KINDS(MODEL_TEST)
