/* Moves the memory of filters, foreign filters and slots between operations. Checks that no key is
 * lost, and that the old memory is never read and contains no secrets. */
#include "support/adds.h"
#include "support/mover.h"
#include "support/samples.h"
#include "support/slots.h"

#include <stdio.h>

enum { RELOCATE_KEYS = CHECK_EMULATED ? 1500 : 6000, RELOCATE_STEP = 500 };

static const uint8_t relocate_secret[BG_SECRET_BYTES] = "sixteen of bytes";

/* ---- Filters ----------------------------------------------------------------------- */

static bg_bytes key_of(uint64_t i, char text[24])
{
    return (bg_bytes){ text,
                       (size_t)snprintf(text, 24, "key-%llu", (unsigned long long)i) };
}

static void check_keys(const bg_filter *filter, uint64_t n)
{
    char text[24];
    for (uint64_t i = 0; i < n; i++) {
        const bg_bytes key = key_of(i, text);
        CHECK(bg_filter_may_contain(filter, key.data, key.len));
    }
}

/* Moves the filter and compares it with a copy that was made before the move. */
static void move_and_compare(bg_filter **filter, struct movable *m)
{
    bg_filter *copy = NULL;
    const size_t moved = m->moved;
    CHECK_OK(bg_filter_copy(*filter, &copy, NULL));
    bg_filter_relocate(filter, &m->mover);
    CHECK(m->moved > moved || m->keep);
    CHECK(bg_filter_equal(*filter, copy));
    CHECK_EQ(bg_filter_size_bytes(*filter), bg_filter_size_bytes(copy));
    bg_filter_free(copy);
    CHECK_EQ(m->leaks, 0);
    CHECK_EQ(m->mistakes, 0);
}

static void fill_moving(unsigned sample, const bg_spec *spec, struct movable *m)
{
    char texts[RELOCATE_STEP][24];
    bg_bytes keys[RELOCATE_STEP];
    struct filling fill;
    filling_begin(&fill, sample, spec, RELOCATE_KEYS);
    for (uint64_t at = 0; at < RELOCATE_KEYS; at += RELOCATE_STEP) {
        for (uint64_t i = 0; i < RELOCATE_STEP; i++) {
            keys[i] = key_of(at + i, texts[i]);
        }
        filling_add(&fill, keys, RELOCATE_STEP);
        if (fill.filter) {
            move_and_compare(&fill.filter, m);
            check_keys(fill.filter, at + RELOCATE_STEP);
        }
    }
    bg_filter *filter = filling_end(&fill);
    move_and_compare(&filter, m);
    move_and_compare(&filter, m);
    check_keys(filter, RELOCATE_KEYS);
    if (!sample_is_static(sample)) {
        char text[24];
        const bg_bytes key = key_of(0, text);
        bg_filter_clear(filter);
        bg_filter_relocate(&filter, &m->mover);
        CHECK(!bg_filter_may_contain(filter, key.data, key.len));
        CHECK(added(filter, key.data, key.len));
        CHECK(bg_filter_may_contain(filter, key.data, key.len));
    }
    bg_filter_free(filter);
}

/* Scalable filters start small, so that they grow to far more layers than fit in their handle. */
TEST(relocate__every_kind_keeps_its_keys)
{
    for (unsigned i = 0; i < SAMPLES; i++) {
        for (unsigned keep = 0; keep < 3; keep++) {
            struct movable m;
            const bool grows = samples[i].kind == BG_KIND_SCALABLE;
            bg_spec spec = sample_spec(i, grows ? 10 : RELOCATE_KEYS, 0.001);
            movable_start(&m);
            m.keep = keep;
            spec.allocator = &m.hooks;
            if (keep != 1) {
                spec.hash.profile = keep ? BG_HASH_KEYED_INT : BG_HASH_KEYED;
                spec.hash.secret = m.secret = relocate_secret;
            }
            fill_moving(i, &spec, &m);
            CHECK_EQ(m.live, 0);
            CHECK(keep == 1 ? m.moved == 0 : m.moved > 0);
        }
    }
}

TEST(relocate__removes_after_a_move)
{
    for (unsigned i = 0; i < SAMPLES; i++) {
        struct movable m;
        bg_spec spec = sample_spec(i, 2000, 0.001);
        if (!sample_can(i, BG_TRAIT_REMOVE)) {
            continue;
        }
        movable_start(&m);
        spec.allocator = &m.hooks;
        bg_filter *filter = must_create(&spec);
        for (uint64_t key = 0; key < 1000; key++) {
            CHECK(added_u64(filter, key) || key > 0);
        }
        for (uint64_t key = 0; key < 1000; key += 50) {
            bg_filter_relocate(&filter, &m.mover);
            CHECK_OK(bg_filter_remove_u64(filter, key));
        }
        CHECK(bg_filter_may_contain_u64(filter, 1));
        bg_filter_free(filter);
        CHECK_EQ(m.live, 0);
    }
}

TEST(relocate__other_memory_stays)
{
    struct movable m;
    bg_spec spec = exact_spec(BG_KIND_BLOCKED, 10, 8, 0);
    bg_filter *filter = must_create(&spec);
    const bg_filter *before = filter;
    movable_start(&m);
    bg_filter_relocate(&filter, &m.mover);
    CHECK(filter == before);
    CHECK(bg_filter_allocator(filter) == NULL);
    bg_filter_relocate(&filter, NULL);
    bg_filter_relocate(NULL, &m.mover);
    bg_filter_free(filter);
    filter = NULL;
    bg_filter_relocate(&filter, &m.mover);
    CHECK(bg_filter_allocator(NULL) == NULL);

    size_t bytes = 0;
    spec.allocator = &m.hooks;
    CHECK_OK(bg_filter_memory_needed(&spec, &bytes, NULL));
    void *memory = line_memory(bytes);
    CHECK_OK(bg_filter_create_at(memory, bytes, &spec, &filter, NULL));
    before = filter;
    bg_filter_relocate(&filter, &m.mover);
    CHECK(filter == before);
    CHECK(bg_filter_allocator(filter)->context == &m);
    bg_filter_free(filter);
    free(memory);
    CHECK_EQ(m.moved, 0);
}

/* ---- Foreign filters ----------------------------------------------------------------- */

static void foreign_story(bg_foreign_format format)
{
    struct movable m;
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    bg_foreign *foreign = NULL;
    char text[24];
    movable_start(&m);
    how.allocator = &m.hooks;
    how.keys = bg_foreign_traits(format) & BG_FOREIGN_NEEDS_KEYS
                   ? BG_FOREIGN_KEYS_BYTES
                   : BG_FOREIGN_KEYS_UNSPECIFIED;
    how.secret = m.secret = relocate_secret;
    CHECK_OK(bg_foreign_create(format, format == BG_FOREIGN_BIP158 ? 1000 : 100, 0.02,
                               &how, &foreign, NULL));
    CHECK(bg_foreign_allocator(foreign)->context == &m);
    for (uint64_t i = 0; i < 1000; i++) { /* enough keys to grow a filter chain */
        const bg_bytes key = key_of(i, text);
        CHECK_OK(bg_foreign_add(foreign, key.data, key.len, NULL));
        if (i % 100 == 0) {
            bg_foreign_relocate(&foreign, &m.mover);
        }
    }
    for (uint64_t i = 0; i < 1000; i++) {
        const bg_bytes key = key_of(i, text);
        CHECK(bg_foreign_may_contain(foreign, key.data, key.len));
    }
    bg_foreign_free(foreign);
    CHECK(m.moved >= 10);
    CHECK_EQ(m.leaks, 0);
    CHECK_EQ(m.live, 0);
    CHECK_EQ(m.mistakes, 0);
}

TEST(relocate__foreign_filters_keep_their_keys)
{
    unsigned stories = 0;
#define FOREIGN_STORY(NAME, number, name)                                              \
    if (bg_foreign_traits(BG_FOREIGN_##NAME) & BG_FOREIGN_CAN_CREATE) {                \
        foreign_story(BG_FOREIGN_##NAME);                                              \
        stories++;                                                                     \
    }
    BG_FOREIGN_FORMATS(FOREIGN_STORY)
#undef FOREIGN_STORY
    CHECK(stories > 5);
    bg_foreign *none = NULL;
    bg_foreign_relocate(&none, NULL);
    bg_foreign_relocate(NULL, NULL);
    CHECK(bg_foreign_allocator(NULL) == NULL);
}

/* ---- Slots --------------------------------------------------------------------------- */

static bg_filter *make_in(struct movable *m, bg_kind kind)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = (uint32_t)kind;
    spec.items = 2000;
    spec.rate = 0.001;
    spec.allocator = &m->hooks;
    return must_create(&spec);
}

static bg_slot *slot_in(struct movable *m, uint32_t flags, bg_filter *filter)
{
    bg_slot_options options = BG_SLOT_OPTIONS_INIT;
    bg_slot *slot = NULL;
    options.flags = flags;
    options.allocator = &m->hooks;
    CHECK_OK(bg_slot_create(filter, &options, &slot, NULL));
    return slot;
}

TEST(relocate__slots_keep_their_keys)
{
    for (uint32_t flags = 0; flags <= BG_SLOT_SMALL; flags += BG_SLOT_SMALL) {
        struct movable m;
        movable_start(&m);
        bg_slot *slot = slot_in(&m, flags, make_in(&m, BG_KIND_SCALABLE));
        add_keys(slot, 0, 1000);
        CHECK_OK(bg_slot_relocate(&slot, &m.mover, NULL));
        CHECK_EQ(count_keys(slot, 0, 1000), 1000);
        CHECK_EQ(stats_of(slot).adds, 1000);
        CHECK_OK(bg_slot_set_delta(slot, make_in(&m, BG_KIND_BLOCKED), NULL));
        add_keys(slot, 1000, 1000);
        CHECK_OK(bg_slot_relocate(&slot, &m.mover, NULL));
        add_keys(slot, 2000, 500);
        CHECK_EQ(count_keys(slot, 0, 2500), 2500);
        CHECK_OK(bg_slot_begin_migration(slot, make_in(&m, BG_KIND_BLOCKED), NULL));
        /* The memory reserved for settling the migration is moved as well. */
        CHECK_OK(bg_slot_relocate(&slot, &m.mover, NULL));
        CHECK_OK(bg_slot_end_migration(slot, true, NULL));
        CHECK_EQ(count_keys(slot, 0, 2500), 2500);
        CHECK_OK(bg_slot_swap(slot, make_in(&m, BG_KIND_COUNTING), 0, BG_SLOT_DISCARD,
                              NULL));
        CHECK_OK(bg_slot_relocate(&slot, &m.mover, NULL));
        add_keys(slot, 5000, 100);
        CHECK_EQ(count_keys(slot, 5000, 100), 100);
        bg_slot_free(slot);
        CHECK_EQ(m.live, 0);
        CHECK_EQ(m.mistakes, 0);
        CHECK(m.moved >= 15);
    }
}

TEST(relocate__empty_slots)
{
    struct movable m;
    movable_start(&m);
    bg_slot *slot = slot_in(&m, BG_SLOT_SMALL, NULL);
    CHECK_OK(bg_slot_relocate(&slot, &m.mover, NULL));
    CHECK(bg_slot_may_contain_u64(slot, 1));
    bg_slot_free(slot);
    CHECK_EQ(m.live, 0);
    slot = make_slot(make_with(0, 10), 0);
    const bg_slot *before = slot;
    CHECK_OK(bg_slot_relocate(&slot, &m.mover, NULL));
    CHECK(slot == before);
    CHECK_EQ(count_keys(slot, 0, 10), 10);
    bg_slot_free(slot);
}

TEST(relocate__busy_slots_stay)
{
    struct movable m;
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    bg_rebuild *rebuild = NULL;
    bg_errinfo info;
    bg_pin pin;
    movable_start(&m);
    bg_slot *slot = slot_in(&m, 0, make_in(&m, BG_KIND_BLOCKED));
    add_keys(slot, 0, 100);

    bg_slot_pin(slot, &pin);
    CHECK_EQ(bg_slot_relocate(&slot, &m.mover, &info), BG_EBUSY);
    CHECK(strstr(info.message, "pin") != NULL);
    bg_slot_unpin(slot, &pin);

    how.spec.items = 1000;
    how.spec.rate = 0.01;
    CHECK_OK(bg_slot_begin_rebuild(slot, &how, &rebuild, NULL));
    CHECK_EQ(bg_slot_relocate(&slot, &m.mover, &info), BG_EBUSY);
    CHECK(strstr(info.message, "rebuild") != NULL);
    CHECK_EQ(m.moved, 0);
    bg_rebuild_abort(rebuild);

    CHECK(bg_slot_reload(slot, "/no/such/file", NULL, NULL) != BG_OK);
    CHECK_OK(bg_slot_relocate(&slot, &m.mover, &info));
    CHECK_OK(bg_slot_relocate(&slot, &m.mover, &info));
    CHECK_EQ(stats_of(slot).last_failure.code, BG_EIO);
    CHECK_EQ(count_keys(slot, 0, 100), 100);
    CHECK_EQ(bg_slot_relocate(NULL, &m.mover, NULL), BG_EINVAL);
    CHECK_EQ(bg_slot_relocate(&slot, NULL, NULL), BG_EINVAL);
    bg_slot_free(slot);
    CHECK_EQ(m.live, 0);
}
