/*
 * test_slot_content.c - tests operations on a slot's whole content: clearing, merging and rotating
 * it in every possible state, and copying it as the slot's owner.
 */
#include "bloomgate/all.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"
#include "support/slots.h"

#include <string.h>

/* Returns the base, which stays valid as long as the slot is not changed. */
static const bg_filter *base_of(const bg_slot *slot)
{
    bg_pin pin;
    bg_role role = BG_ROLE_NEXT;
    const bg_filter *base = NULL;
    bg_slot_pin(slot, &pin);
    for (size_t i = 0; (base = bg_pin_filter(&pin, i, &role)) != NULL; i++) {
        if (role == BG_ROLE_BASE) {
            break;
        }
    }
    bg_slot_unpin(slot, &pin);
    return base;
}

/* ---- Clearing ----------------------------------------------------------------------- */

/* For every kind, the cleared filter has the same settings as before, is empty, and accepts keys
 * again. */
TEST(slot_clear__leaves_an_empty_filter_of_the_same_recipe)
{
    static const struct {
        bg_kind kind;
        uint32_t shards;
    } cases[] = { { BG_KIND_BLOCKED, 0 },  { BG_KIND_CLASSIC, 0 },
                  { BG_KIND_REGISTER, 0 }, { BG_KIND_COUNTING, 0 },
                  { BG_KIND_CUCKOO, 0 },   { BG_KIND_QUOTIENT, 0 },
                  { BG_KIND_SCALABLE, 0 }, { BG_KIND_BLOCKED, 4 },
                  { BG_KIND_CUCKOO, 4 },   { BG_KIND_SCALABLE, 4 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bg_spec spec = BG_SPEC_INIT;
        spec.kind = (uint32_t)cases[i].kind;
        spec.items = cases[i].kind == BG_KIND_SCALABLE ? 300 : 4000;
        spec.rate = 0.001;
        spec.shards = cases[i].shards;
        bg_filter *fresh = must_create(&spec);
        bg_slot *slot = make_slot(must_create(&spec), 0);
        add_keys(slot, 0, 3000);
        CHECK(!bg_filter_equal(base_of(slot), fresh));
        CHECK_OK(bg_slot_clear(slot, NULL));
        CHECK(bg_filter_equal(base_of(slot), fresh));
        CHECK_EQ(bg_filter_capacity(base_of(slot)), bg_filter_capacity(fresh));
        CHECK_EQ(info_of(base_of(slot)).design_items, spec.items);
        CHECK_EQ(count_keys(slot, 0, 3000), 0);
        add_keys(slot, 500, 1000);
        CHECK_EQ(count_keys(slot, 500, 1000), 1000);
        CHECK_EQ(stats_of(slot).swaps, 1);
        bg_filter_free(fresh);
        bg_slot_free(slot);
    }
}

TEST(slot_clear__keeps_sealed_what_is_sealed)
{
    bg_slot *slot = make_slot(make_with(0, 500), BG_SLOT_SEALED);
    CHECK_OK(bg_slot_clear(slot, NULL));
    CHECK_EQ(count_keys(slot, 0, 500), 0);
    CHECK_EQ(bg_slot_add_u64(slot, 1, NULL), BG_ENOTSUP);
    CHECK_OK(bg_slot_swap(slot, make_with(0, 500), 0, 0, NULL));
    CHECK_EQ(count_keys(slot, 0, 500), 500);
    bg_slot_free(slot);
}

/* The old base is sealed, and its settings allow only one thread to use it. The new base must
 * accept adds, so it is created for use by several threads. */
TEST(slot_clear__makes_one_filter_of_base_and_deltas)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_CLASSIC;
    spec.items = 2000;
    spec.rate = 0.001;
    spec.flags = BG_SPEC_EXCLUSIVE;
    bg_slot *slot = make_slot(must_create(&spec), BG_SLOT_SEALED);
    CHECK_OK(bg_slot_set_delta(slot, make(BG_KIND_BLOCKED, 1000), NULL));
    add_keys(slot, 0, 500);
    CHECK_OK(bg_slot_set_delta(slot, make(BG_KIND_BLOCKED, 1000), NULL));
    add_keys(slot, 500, 500);
    CHECK_EQ(stats_of(slot).filters, 3);
    CHECK_OK(bg_slot_clear(slot, NULL));
    CHECK_EQ(stats_of(slot).filters, 1);
    CHECK_EQ(count_keys(slot, 0, 1000), 0);
    CHECK_EQ(bg_filter_kind(base_of(slot)), BG_KIND_CLASSIC);
    CHECK_EQ(info_of(base_of(slot)).flags & BG_SPEC_EXCLUSIVE, 0);
    add_keys(slot, 0, 1000);
    CHECK_EQ(count_keys(slot, 0, 1000), 1000);
    bg_slot_free(slot);
}

TEST(slot_clear__leaves_a_static_base_its_delta)
{
    bg_slot *slot = make_slot(make_static(0, 500), 0);
    CHECK_OK(bg_slot_clear(slot, NULL)); /* without one */
    CHECK_EQ(count_keys(slot, 0, 500), 0);
    CHECK_EQ(bg_slot_add_u64(slot, 1, NULL), BG_ENOTSUP);
    CHECK_OK(bg_slot_swap(slot, make_static(0, 500), 0, 0, NULL));
    CHECK_OK(bg_slot_set_delta(slot, make(BG_KIND_BLOCKED, 1000), NULL));
    add_keys(slot, 500, 500);
    CHECK_EQ(count_keys(slot, 0, 1000), 1000);
    CHECK_OK(bg_slot_clear(slot, NULL));
    CHECK_EQ(stats_of(slot).filters, 2);
    CHECK_EQ(count_keys(slot, 0, 1000), 0);
    add_keys(slot, 0, 100);
    CHECK_EQ(count_keys(slot, 0, 100), 100);
    CHECK_EQ(info_of(base_of(slot)).kind, BG_KIND_FUSE);
    bg_slot_free(slot);
}

TEST(slot_clear__ends_a_migration)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    CHECK_OK(
        bg_slot_begin_migration(slot, make_seeded(BG_KIND_CLASSIC, 1000, 9), NULL));
    CHECK_OK(bg_slot_clear(slot, NULL));
    CHECK_EQ(stats_of(slot).filters, 1);
    CHECK_EQ(stats_of(slot).migrating, 0);
    CHECK_EQ(count_keys(slot, 0, 500), 0);
    CHECK_EQ(bg_filter_kind(base_of(slot)), BG_KIND_CLASSIC);
    add_keys(slot, 0, 500);
    CHECK_EQ(count_keys(slot, 0, 500), 500);
    bg_slot_free(slot);
}

TEST(slot_clear__knows_nothing_of_the_truth)
{
    bg_slot_options options = BG_SLOT_OPTIONS_INIT;
    bg_slot *slot = NULL;
    options.complete = 50;
    CHECK_OK(bg_slot_create(make(BG_KIND_BLOCKED, 100), &options, &slot, NULL));
    CHECK(!bg_slot_may_contain_up_to(slot, "a", 1, 50));
    CHECK_OK(bg_slot_clear(slot, NULL));
    CHECK_EQ(bg_slot_complete_to(slot), 0);
    CHECK(bg_slot_may_contain_up_to(slot, "a", 1, 1));
    bg_slot_advance(slot, 60);
    CHECK(!bg_slot_may_contain_up_to(slot, "a", 1, 60));
    bg_slot_free(slot);
}

TEST(slot_clear__readers_of_the_old_list_are_safe)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    bg_pin pin;
    bg_slot_pin(slot, &pin);
    CHECK_OK(bg_slot_clear(slot, NULL)); /* does not wait for the pin */
    const bg_filter *old = bg_pin_filter(&pin, 0, NULL);
    CHECK(old && bg_filter_may_contain_u64(old, 499));
    CHECK(!bg_slot_may_contain_u64(slot, 499));
    CHECK_EQ(stats_of(slot).retired, 1);
    bg_slot_unpin(slot, &pin);
    CHECK_EQ(stats_of(slot).retired, 0);
    bg_slot_free(slot);
}

TEST(slot_clear__refuses_what_cannot_be)
{
    bg_slot *slot = make_slot(NULL, 0);
    bg_errinfo why;
    CHECK_EQ(bg_slot_clear(slot, &why), BG_ENOTFOUND);
    CHECK(why.message[0]);
    CHECK_EQ(bg_slot_clear(NULL, &why), BG_EINVAL);
    bg_slot_free(slot);
}

/* If memory runs out at any point, the slot stays unchanged. */
TEST(slot_clear__without_memory_changes_nothing)
{
    size_t failures = 0;
    bg_err err = BG_ENOMEM;
    for (size_t at = 1; err == BG_ENOMEM; at++) {
        struct counting counting;
        counting_start(&counting);
        bg_slot_options options = BG_SLOT_OPTIONS_INIT;
        bg_slot *slot = NULL;
        bg_spec spec = BG_SPEC_INIT;
        spec.kind = BG_KIND_SCALABLE;
        spec.items = 100;
        spec.rate = 0.01;
        spec.shards = 2;
        spec.allocator = options.allocator = &counting.hooks;
        options.complete = 7;
        CHECK_OK(bg_slot_create(must_create(&spec), &options, &slot, NULL));
        add_keys(slot, 0, 100);
        counting.fail_at = counting.calls + at;
        err = bg_slot_clear(slot, NULL);
        counting.fail_at = 0;
        CHECK_EQ(bg_slot_complete_to(slot), err ? 7 : 0);
        CHECK_EQ(count_keys(slot, 0, 100) == 100, err == BG_ENOMEM);
        add_keys(slot, 100, 10);
        CHECK_EQ(count_keys(slot, 100, 10), 10);
        failures += err == BG_ENOMEM;
        bg_slot_free(slot);
        CHECK_EQ(counting.live, 0);
        CHECK_EQ(counting.mistakes, 0);
    }
    CHECK_OK(err);
    CHECK(failures >= 4);
}

/* ---- Merging ------------------------------------------------------------------------ */

TEST(slot_merge__adds_what_is_in_another_filter)
{
    bg_slot *slot = make_slot(make_with(0, 500), 0);
    bg_filter *other = make_with(500, 500);
    CHECK_OK(bg_slot_merge(slot, other, NULL));
    CHECK_EQ(count_keys(slot, 0, 1000), 1000);
    CHECK_EQ(stats_of(slot).adds, 0);
    bg_filter *wrong = make(BG_KIND_CLASSIC, 2000);
    bg_errinfo why;
    CHECK_EQ(bg_slot_merge(slot, wrong, &why), BG_EINCOMPAT);
    CHECK(strstr(why.message, "kind") != NULL);
    CHECK_EQ(bg_slot_merge(slot, NULL, &why), BG_EINVAL);
    CHECK_EQ(bg_slot_merge(NULL, other, &why), BG_EINVAL);
    bg_filter_free(wrong);
    bg_filter_free(other);
    bg_slot_free(slot);
}

/* Bits set by a merge are not attributed to adds, so they are not mistaken for pollution. */
TEST(slot_merge__is_no_pollution)
{
    bg_slot *slot = make_slot(make(BG_KIND_BLOCKED, 20000), 0);
    bg_filter *other = make(BG_KIND_BLOCKED, 20000);
    for (uint64_t key = 0; key < 10000; key++) {
        (void)added_u64(other, key);
    }
    add_keys(slot, 50000, 1000);
    CHECK_OK(bg_slot_merge(slot, other, NULL));
    add_keys(slot, 60000, 1000);
    bg_slot_health health = { .struct_size = sizeof health };
    CHECK_OK(bg_slot_get_health(slot, &health));
    CHECK_EQ(health.polluted, 0);
    CHECK_NEAR(health.bits_per_insert, health.honest_per_insert, 0.1);
    bg_filter_free(other);
    bg_slot_free(slot);
}

TEST(slot_merge__goes_where_adds_go)
{
    bg_filter *other = make_with(500, 500);
    bg_slot *slot = make_slot(make_with(0, 500), BG_SLOT_SEALED);
    CHECK_EQ(bg_slot_merge(slot, other, NULL), BG_ENOTSUP);
    CHECK(count_keys(slot, 500, 500) < 20);
    CHECK_OK(bg_slot_set_delta(slot, make(BG_KIND_BLOCKED, 2000), NULL));
    CHECK_OK(bg_slot_merge(slot, other, NULL));
    CHECK_EQ(count_keys(slot, 0, 1000), 1000);
    bg_filter *fresh = make_with(0, 500);
    CHECK(bg_filter_equal(base_of(slot), fresh)); /* only the delta contains the keys */
    bg_filter_free(fresh);
    bg_slot_free(slot);
    slot = make_slot(make_with(0, 500), 0);
    CHECK_OK(bg_slot_begin_migration(slot, make(BG_KIND_BLOCKED, 2000), NULL));
    CHECK_OK(bg_slot_merge(slot, other, NULL));
    CHECK_OK(bg_slot_end_migration(slot, false, NULL));
    CHECK_EQ(count_keys(slot, 500, 500), 500);
    CHECK_OK(bg_slot_begin_migration(slot, make(BG_KIND_BLOCKED, 9000), NULL));
    bg_filter *third = make_with(1000, 500);
    CHECK_EQ(bg_slot_merge(slot, third, NULL),
             BG_EINCOMPAT); /* only one of the two filters could accept the merge */
    CHECK(count_keys(slot, 1000, 500) < 20);
    bg_filter_free(third);
    bg_filter_free(other);
    bg_slot_free(slot);
}

TEST(slot_merge__says_when_it_is_full)
{
    bg_slot *slot = make_slot(make(BG_KIND_QUOTIENT, 100), 0);
    bg_filter *other = make(BG_KIND_QUOTIENT, 100);
    const uint64_t n = bg_filter_capacity(other) * 2 / 3;
    for (uint64_t key = 0; key < n; key++) {
        CHECK_OK(bg_filter_add_u64(other, key, NULL));
    }
    add_keys(slot, 1000, n);
    CHECK_EQ(bg_slot_merge(slot, other, NULL), BG_EFULL);
    CHECK_EQ(count_keys(slot, 1000, n), n);
    CHECK(count_keys(slot, 0, n) < 10);
    bg_filter_free(other);
    bg_slot_free(slot);
}

/* ---- Rotating ----------------------------------------------------------------------- */

static bg_filter *make_window(uint64_t length)
{
    bg_window_options options = BG_WINDOW_OPTIONS_INIT;
    bg_spec spec = BG_SPEC_INIT;
    options.generations = 4;
    options.length = length;
    spec.kind = BG_KIND_WINDOW;
    spec.items = 4000;
    spec.rate = 0.001;
    spec.window = &options;
    return must_create(&spec);
}

TEST(slot_rotate__moves_a_window)
{
    bg_slot *slot = make_slot(make_window(0), 0);
    add_keys(slot, 0, 100);
    const uint64_t period = bg_filter_window_period(base_of(slot));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(bg_slot_rotate(slot, 0, NULL));
        CHECK_EQ(count_keys(slot, 0, 100), 100);
    }
    CHECK_EQ(bg_filter_window_period(base_of(slot)), period + 3);
    CHECK_OK(bg_slot_rotate(slot, 0, NULL));
    CHECK_EQ(count_keys(slot, 0, 100), 0);
    add_keys(slot, 0, 100);
    CHECK_OK(bg_slot_clear(slot, NULL)); /* clearing does not change the period */
    CHECK_EQ(bg_filter_window_period(base_of(slot)), period + 4);
    CHECK_EQ(count_keys(slot, 0, 100), 0);
    add_keys(slot, 0, 100);
    CHECK_EQ(count_keys(slot, 0, 100), 100);
    bg_slot_free(slot);
}

/* Rotates by time. A cleared window continues at its current time. */
TEST(slot_rotate__by_time)
{
    bg_slot *slot = make_slot(make_window(300), 0);
    CHECK_OK(bg_slot_rotate(slot, 1000, NULL));
    CHECK_OK(bg_slot_clear(slot, NULL));
    add_keys(slot, 0, 100);
    CHECK_OK(bg_slot_rotate(slot, 1250, NULL));
    CHECK_EQ(count_keys(slot, 0, 100), 100);
    CHECK_OK(bg_slot_rotate(slot, 1500, NULL));
    CHECK_EQ(count_keys(slot, 0, 100), 0);
    bg_slot_free(slot);
}

TEST(slot_rotate__moves_what_takes_adds)
{
    bg_slot *slot = make_slot(make_window(0), 0);
    add_keys(slot, 0, 100);
    CHECK_OK(bg_slot_begin_migration(slot, make_window(0), NULL));
    add_keys(slot, 100, 100);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(bg_slot_rotate(slot, 0, NULL));
    }
    CHECK_EQ(count_keys(slot, 0, 200), 200);
    CHECK_OK(bg_slot_rotate(slot, 0, NULL));
    CHECK_EQ(count_keys(slot, 0, 200), 0); /* neither has them */
    bg_slot_free(slot);
    slot = make_slot(make_with(0, 500), 0);
    bg_errinfo why;
    CHECK_EQ(bg_slot_rotate(slot, 0, &why), BG_ENOTSUP);
    CHECK(strstr(why.message, "window") != NULL);
    CHECK_EQ(bg_slot_rotate(NULL, 0, &why), BG_EINVAL);
    CHECK_OK(bg_slot_begin_migration(slot, make_window(0), NULL));
    /* Only the new filter is a window and can be rotated. */
    CHECK_OK(bg_slot_rotate(slot, 0, NULL));
    bg_slot_free(slot);
}

/* ---- Copies ------------------------------------------------------------------------- */

/* Copies the content in the way that slot.h documents for owners. */
TEST(slot_copy__of_the_base_by_pin_and_copy)
{
    bg_slot *slot = make_slot(make(BG_KIND_SCALABLE, 200), 0);
    add_keys(slot, 0, 1000);
    bg_pin pin;
    bg_filter *copy = NULL;
    bg_slot_pin(slot, &pin);
    CHECK_OK(bg_filter_copy(bg_pin_filter(&pin, 0, NULL), &copy, NULL));
    CHECK(bg_filter_equal(copy, bg_pin_filter(&pin, 0, NULL)));
    bg_slot_unpin(slot, &pin);
    CHECK_OK(bg_slot_clear(slot, NULL));
    add_keys(slot, 5000, 100);
    for (uint64_t key = 0; key < 1000; key++) {
        CHECK(bg_filter_may_contain_u64(copy, key));
    }
    CHECK_OK(bg_slot_swap(slot, copy, 0, BG_SLOT_DISCARD, NULL));
    CHECK_EQ(count_keys(slot, 0, 1000), 1000);
    bg_slot_free(slot);
}
