/*
 * prop_change.c - random adds and removes against an exact multiset, for every kind that
 * can remove.
 *
 * A world is a few filters of one random geometry, each with how often every key is in it.
 * Operations are drawn at random: adds, inserts, removes of keys that are there, queries
 * and counts, singly and in batches; copies, merges where the kind can, clears. After each,
 * what must hold is checked:
 *
 *   - a key that is in is answered "maybe", and counted at least as often as it is in;
 *   - what was added can be removed as often;
 *   - an insert that is refused leaves every other key in.
 *
 * Keys are only removed when they are in: of others nothing is promised (filter.h). Keys
 * that are in often enough to saturate a counter stay for ever; the exact count goes down
 * all the same.
 */
#include "bloomgate/filter.h"
#include "support/check.h"
#include "support/filters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDS = 3000, SLOTS = 3, BATCH = 200, STEPS = 4000 };

struct slot {
    bg_filter *filter;
    uint32_t in[IDS]; /* how often each key is in */
};

struct world {
    bg_spec spec;
    unsigned ids;
    struct slot slots[SLOTS];
    uint64_t checks;
};

static unsigned below(unsigned n)
{
    return (unsigned)check_random_below(n);
}

/* Key number `id` as a number: sparse, so that strangers are easy to find. */
static uint64_t name_of(unsigned id)
{
    return (uint64_t)id * 0x9e3779b97f4a7c15u;
}

static void check_member(struct world *w, const struct slot *s, unsigned id)
{
    bool maybe = bg_filter_may_contain_u64(s->filter, name_of(id));
    if (s->in[id]) {
        CHECK(maybe);
        uint32_t limit = s->in[id] < 8 ? s->in[id] : 8; /* what every kind can count */
        uint64_t least = bg_kind_traits(w->spec.kind) & BG_CAN_COUNT ? limit : 1;
        CHECK(bg_filter_count_u64(s->filter, name_of(id)) >= least);
    }
    w->checks++;
}

/* Adds a key: how is drawn. A refused insert is one that did not happen. */
static void step_add(struct world *w, struct slot *s)
{
    unsigned id = below(w->ids);
    bool known = bg_filter_may_contain_u64(s->filter, name_of(id)), is_new = false;
    bg_err err = bg_filter_insert_u64(s->filter, name_of(id), &is_new);
    CHECK(err == BG_OK || err == BG_EFULL);
    if (err == BG_OK) {
        s->in[id]++;
        CHECK_EQ(is_new, !known);
    }
    check_member(w, s, id);
}

static void step_add_many(struct world *w, struct slot *s)
{
    uint64_t keys[BATCH];
    unsigned ids[BATCH] = { 0 }, n = 1 + below(BATCH);
    for (unsigned i = 0; i < n; i++) {
        ids[i] = below(w->ids);
        keys[i] = name_of(ids[i]);
    }
    size_t done = 0;
    bg_err err = bg_filter_insert_many_u64(s->filter, keys, n, &done, NULL);
    CHECK(err == BG_EFULL ? done < n : done == n);
    for (unsigned i = 0; i < done; i++) {
        s->in[ids[i]]++;
    }
}

static void step_remove(struct world *w, struct slot *s)
{
    unsigned id = below(w->ids);
    for (unsigned i = 0; i < w->ids && !s->in[id]; i++) {
        id = (id + 1) % w->ids;
    }
    if (s->in[id]) {
        CHECK_OK(bg_filter_remove_u64(s->filter, name_of(id)));
        s->in[id]--;
        check_member(w, s, id);
    }
}

static void step_remove_many(struct world *w, struct slot *s)
{
    uint64_t keys[BATCH];
    unsigned n = 0, start = below(w->ids);
    for (unsigned i = 0; i < w->ids && n < BATCH; i++) {
        unsigned id = (start + i) % w->ids;
        if (s->in[id]) {
            keys[n++] = name_of(id);
            s->in[id]--;
        }
    }
    CHECK_EQ(bg_filter_remove_many_u64(s->filter, keys, n, NULL), n);
}

static void check_all(struct world *w, const struct slot *s)
{
    uint64_t keys[BATCH], maybe[BG_BITMAP_WORDS(BATCH)];
    for (unsigned first = 0; first < w->ids; first += BATCH) {
        unsigned n = w->ids - first < BATCH ? w->ids - first : BATCH;
        for (unsigned i = 0; i < n; i++) {
            keys[i] = name_of(first + i);
        }
        (void)bg_filter_may_contain_many_u64(s->filter, keys, n, maybe);
        for (unsigned i = 0; i < n; i++) {
            CHECK(!s->in[first + i] || (maybe[i / 64] >> (i % 64) & 1));
            w->checks++;
        }
    }
}

static void step_copy(struct slot *to, const struct slot *from)
{
    bg_filter *copy = NULL;
    if (to != from) {
        CHECK_OK(bg_filter_copy(from->filter, &copy, NULL));
        bg_filter_free(to->filter);
        to->filter = copy;
        memcpy(to->in, from->in, sizeof to->in);
    }
}

static void step_merge(struct world *w, struct slot *to, const struct slot *from)
{
    if (to == from || !(bg_kind_traits(w->spec.kind) & BG_CAN_MERGE)) {
        return;
    }
    bg_err err = bg_filter_merge(to->filter, from->filter, NULL);
    CHECK(err == BG_OK || err == BG_EFULL);
    for (unsigned id = 0; err == BG_OK && id < w->ids; id++) {
        to->in[id] += from->in[id];
    }
}

static void world_step(struct world *w)
{
    struct slot *s = &w->slots[below(SLOTS)], *other = &w->slots[below(SLOTS)];
    switch (below(40)) {
    case 0: step_copy(s, other); break;
    case 1: step_merge(w, s, other); break;
    case 2:
        if (below(10) == 0) {
            bg_filter_clear(s->filter);
            memset(s->in, 0, sizeof s->in);
        }
        break;
    case 3: check_all(w, s); break;
    case 4:
    case 5: step_add_many(w, s); break;
    case 6:
    case 7: step_remove_many(w, s); break;
    default: below(2) ? step_add(w, s) : step_remove(w, s); break;
    }
}

static bg_spec world_spec(bg_kind kind)
{
    static const double rates[] = { 0.2, 0.01, 0.001 };
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = (uint32_t)kind;
    spec.items = 1 + check_random_below(check_random_below(3) ? IDS : 20);
    spec.rate = rates[below(3)];
    spec.flags = below(2) ? BG_EXCLUSIVE : 0;
    if (kind == BG_KIND_COUNTING) {
        spec.width = 4u << below(4);
        spec.flags |= below(2) ? BG_SCATTERED : 0;
    }
    return spec;
}

static void world_run(bg_kind kind, uint64_t *checks)
{
    struct world *w = calloc(1, sizeof *w);
    CHECK(w);
    w->spec = world_spec(kind);
    w->ids = 1 + below(IDS);
    for (int i = 0; i < SLOTS; i++) {
        w->slots[i].filter = must_create(&w->spec);
    }
    for (int i = 0; i < STEPS; i++) {
        world_step(w);
    }
    for (int i = 0; i < SLOTS; i++) {
        check_all(w, &w->slots[i]);
        bg_filter_free(w->slots[i].filter);
    }
    *checks += w->checks;
    free(w);
}

static void change_test(bg_kind kind)
{
    uint64_t checks = 0;
    size_t worlds = (CHECK_EMULATED || CHECK_SANITIZED ? 4 : 20) * check_scale();
    for (size_t i = 0; i < worlds; i++) {
        world_run(kind, &checks);
    }
    printf("= %s: %llu operations, %llu checks, no key was lost\n", bg_kind_name(kind),
           (unsigned long long)worlds * STEPS, (unsigned long long)checks);
}

TEST(change__never_loses_a_key)
{
    unsigned tested = 0;
    for (bg_kind kind; (kind = removing_kind(tested)) != BG_KIND_AUTO; tested++) {
        change_test(kind);
    }
    CHECK(tested >= 3); /* counting, cuckoo, quotient */
}
