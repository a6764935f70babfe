/*
 * prop_change.c - applies random operations to filters of every kind, and compares the results with
 * an exact multiset. Operations must not lose keys.
 *
 * A world consists of a few filters that share a random geometry. For each filter, the model
 * records every key's count and when the key was last added. Operations are chosen at random:
 * forced adds ("adds"), adds that can be refused ("inserts"), removals of keys that are present,
 * queries and counts, singly and in batches; copies and clears; and all other operations that the
 * kind supports:
 *
 *   merge     into another filter with the same spec, and into itself
 *   resize    quotient, by a factor of two or four in either direction; the filters in a world then
 *             have different sizes, but are still merged
 *   fold      Bloom kinds         compact   scalable, which also grows by adds
 *   rotate    windows: manually, by the number of adds, by a clock, or by given times
 *   build     static kinds: from keys with duplicates, with one or two threads
 *
 * Some worlds use sharded filters, and successive worlds use different instruction sets. After each
 * operation, these properties are checked:
 *
 *   - a lookup of a present key answers "maybe", and the key's reported count is at least its true
 *     count;
 *   - an add reports "new" if and only if the preceding lookup answered "no" (except for a forced
 *     add that does not fit, after which the filter answers "maybe" for all keys);
 *   - added keys can be removed as many times as they were added;
 *   - a refused insert, merge or resize loses no key, and a refused merge leaves the filter
 *     unchanged;
 *   - a key in a window is present as long as it was added in one of the most recent periods, or is
 *     younger than the length of the window (in adds or in time); a window whose periods have all
 *     expired is empty.
 *
 * Keys are removed only if they are present, because filter.h gives no guarantees for removing
 * other keys. Keys whose counters are saturated stay in the filter permanently, although the
 * model's exact count decreases.
 *
 * At the end, the test prints the number of operations of each type for every kind. Each add,
 * remove, query or count of one key is one operation, even in a batch. soak.sh adds these numbers
 * up.
 */
#include "bloomgate/all.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDS = 3000, SLOTS = 3, BATCH = 200, STEPS = 4000, BUILDS = 20, FADING = 10 };

/* ---- Counters ---------------------------------------------------------------------- */

/* What is counted: operations up to LAST_OPERATION, followed by their effects. */
#define ACTS(X)                                                                        \
    X(ADD, "adds")                                                                     \
    X(INSERT, "inserts")                                                               \
    X(REMOVE, "removes")                                                               \
    X(QUERY, "queries")                                                                \
    X(COUNT, "counts")                                                                 \
    X(COPY, "copies")                                                                  \
    X(CLEAR, "clears")                                                                 \
    X(MERGE, "merges")                                                                 \
    X(FOLD, "folds")                                                                   \
    X(RESIZE, "resizes")                                                               \
    X(COMPACT, "compactions")                                                          \
    X(ROTATE, "rotations by hand")                                                     \
    X(BUILD, "builds")                                                                 \
    X(REFUSED, "refused")                                                              \
    X(GROWTH, "layers grown")                                                          \
    X(TURN_COUNT, "turns by count")                                                    \
    X(TURN_CLOCK, "turns by clock")                                                    \
    X(SHARDED, "worlds in shards")

enum act {
#define ACT_ENUM(NAME, text) NAME,
    ACTS(ACT_ENUM) ACT_COUNT,
    LAST_OPERATION = BUILD
};

static const char *const act_names[ACT_COUNT] = {
#define ACT_NAME(NAME, text) text,
    ACTS(ACT_NAME)
};

struct tally {
    uint64_t of[ACT_COUNT];
};

static uint64_t tally_print(const struct tally *t, bg_kind kind)
{
    uint64_t operations = 0;
    for (int a = 0; a <= LAST_OPERATION; a++) {
        operations += t->of[a];
    }
    printf("= %s: %llu operations, no key was lost:", bg_kind_name(kind),
           (unsigned long long)operations);
    for (int a = 0; a < ACT_COUNT; a++) {
        if (t->of[a]) {
            printf(" %llu %s", (unsigned long long)t->of[a], act_names[a]);
        }
    }
    printf("\n");
    return operations;
}

/* ---- Worlds ------------------------------------------------------------------------ */

/* What moves a window. */
enum motion { BY_HAND, BY_COUNT, BY_CLOCK, BY_TIMES, MOTIONS };

struct slot {
    bg_filter *filter;
    /* True if forced adds were made to a filter that can fill up, so it may have overflowed. */
    bool blind;
    uint64_t adds;       /* number of adds so far */
    uint32_t in[IDS];    /* count of each key */
    uint64_t since[IDS]; /* for windows, the period of each key's latest add */
    uint64_t stamp
        [IDS]; /* time of that add, or the value of `adds` at that time; 0 if unknown */
};

struct world {
    bg_spec spec;
    bg_window_options window;
    enum motion motion;
    uint64_t now; /* the current time */
    bool adds;    /* whether forced adds are also tested for kinds that can fill up */
    unsigned ids;
    struct slot slots[SLOTS];
    struct tally *tally;
};

static unsigned below(unsigned n)
{
    return (unsigned)check_random_below(n);
}

static void count(struct world *w, enum act act, uint64_t n)
{
    w->tally->of[act] += n;
}

static bool world_can(const struct world *w, uint32_t trait)
{
    const uint32_t whole = BG_TRAIT_FOLD | BG_TRAIT_RESIZE;
    return (bg_kind_traits((bg_kind)w->spec.kind) & trait)
           && !(w->spec.shards && (trait & whole));
}

static bool is_window(const struct world *w)
{
    return w->spec.kind == BG_KIND_WINDOW;
}

/* Returns key `id` as an integer. Keys are sparse, so that absent keys are easy to find. */
static uint64_t name_of(unsigned id)
{
    return (uint64_t)id * 0x9e3779b97f4a7c15u;
}

/* Returns true if a lookup of the key must return "maybe". */
static bool holds(const struct world *w, const struct slot *s, unsigned id)
{
    if (!s->in[id] || !is_window(w)) {
        return s->in[id];
    }
    bool young = (w->motion == BY_COUNT && s->stamp[id]
                  && s->adds - s->stamp[id] < w->window.count)
                 || (w->motion == BY_CLOCK && w->now - s->stamp[id] < w->window.length);
    return young
           || s->since[id] + w->window.generations > bg_filter_window_period(s->filter);
}

static void check_member(struct world *w, const struct slot *s, unsigned id)
{
    bool maybe = bg_filter_may_contain_u64(s->filter, name_of(id));
    count(w, QUERY, 1);
    if (holds(w, s, id)) {
        CHECK(maybe);
        /* Every kind that counts can count to at least 8. */
        uint32_t limit = s->in[id] < 8 ? s->in[id] : 8;
        bool exact = world_can(w, BG_TRAIT_COUNT) && !s->blind;
        CHECK(bg_filter_count_u64(s->filter, name_of(id)) >= (exact ? limit : 1));
        count(w, COUNT, 1);
    }
}

/* Checks that `filter`, which is the slot's filter or was derived from it, contains all of the
 * slot's keys. */
static void check_all(struct world *w, const struct slot *s, const bg_filter *filter)
{
    uint64_t keys[BATCH], maybe[BG_BITMAP_WORDS(BATCH)];
    for (unsigned first = 0; first < w->ids; first += BATCH) {
        unsigned n = w->ids - first < BATCH ? w->ids - first : BATCH;
        for (unsigned i = 0; i < n; i++) {
            keys[i] = name_of(first + i);
        }
        (void)bg_filter_may_contain_many(filter, bg_keys_u64(keys, n), maybe);
        for (unsigned i = 0; i < n; i++) {
            CHECK(!holds(w, s, first + i) || (maybe[i / 64] >> (i % 64) & 1));
        }
        count(w, QUERY, n);
    }
}

/* ---- Keys -------------------------------------------------------------------------- */

/* Records that a key was added. If the filter is a window, `period` is the period in which the key
 * was added. */
static void note_add(struct world *w, struct slot *s, unsigned id, uint64_t period)
{
    s->adds++;
    s->in[id]++;
    s->since[id] = period;
    s->stamp[id] = w->motion == BY_COUNT ? s->adds : w->now;
}

/* The state before an add, used to detect new layers and rotations. */
struct before {
    uint64_t bytes;
    uint64_t period;
};

static struct before look(const struct slot *s)
{
    return (struct before){ bg_filter_size_bytes(s->filter),
                            bg_filter_window_period(s->filter) };
}

static void note_changes(struct world *w, const struct slot *s, struct before was)
{
    struct before is = look(s);
    count(w, GROWTH, is.bytes != was.bytes);
    count(w, w->motion == BY_COUNT ? TURN_COUNT : TURN_CLOCK, is.period != was.period);
}

/* Decides at random whether this step is a forced add, which cannot be refused. */
static bool draws_add(const struct world *w)
{
    return (w->adds || !world_can(w, BG_TRAIT_FILLS_UP)) && below(2);
}

/* Adds a key with a randomly chosen function. If the key is refused, the model does not change. */
static void step_add(struct world *w, struct slot *s)
{
    unsigned id = below(w->ids);
    bool known = bg_filter_may_contain_u64(s->filter, name_of(id)), is_new = false;
    bool had = holds(w, s, id);
    struct before was = look(s);
    bg_err err = BG_OK;
    if (draws_add(w)) {
        is_new = added_u64(s->filter, name_of(id));
        s->blind |= world_can(w, BG_TRAIT_FILLS_UP);
        count(w, ADD, 1);
    } else {
        err = bg_filter_add_u64(s->filter, name_of(id), &is_new);
        CHECK(err == BG_OK || (err == BG_EFULL && world_can(w, BG_TRAIT_FILLS_UP)));
        count(w, err ? REFUSED : INSERT, 1);
    }
    note_changes(w, s, was);
    if (err == BG_OK) {
        bool turned = bg_filter_window_period(s->filter) != was.period;
        CHECK(!(is_new && known) || turned);
        CHECK(is_new || known || turned || s->blind);
        CHECK(!(is_new && had && holds(w, s, id)));
        note_add(w, s, id, bg_filter_window_period(s->filter));
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
    size_t done = n;
    struct before was = look(s);
    if (draws_add(w)) {
        (void)added_many(s->filter, bg_keys_u64(keys, n), NULL);
        s->blind |= world_can(w, BG_TRAIT_FILLS_UP);
        count(w, ADD, n);
    } else {
        bg_err err =
            bg_filter_add_many(s->filter, bg_keys_u64(keys, n), NULL, &done, NULL);
        CHECK(err == BG_OK || (err == BG_EFULL && world_can(w, BG_TRAIT_FILLS_UP)));
        CHECK(err == BG_EFULL ? done < n : done == n);
        count(w, INSERT, done);
        count(w, REFUSED, n - done);
    }
    note_changes(w, s, was);
    for (unsigned i = 0; i < done; i++) {
        note_add(w, s, ids[i], was.period);
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
        count(w, REMOVE, 1);
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
    CHECK_EQ(bg_filter_remove_many(s->filter, bg_keys_u64(keys, n), NULL), n);
    count(w, REMOVE, n);
}

/* ---- Whole filters ------------------------------------------------------------------ */

static void slot_forget(struct slot *s)
{
    memset(s->in, 0, sizeof s->in);
    s->blind = false;
}

static void slot_replace(struct slot *s, bg_filter *filter)
{
    bg_filter_free(s->filter);
    s->filter = filter;
}

static void step_copy(struct world *w, struct slot *to, const struct slot *from)
{
    bg_filter *copy = NULL;
    if (to != from) {
        CHECK_OK(bg_filter_copy(from->filter, &copy, NULL));
        CHECK(bg_filter_equal(copy, from->filter));
        bg_filter_free(to->filter);
        *to = *from;
        to->filter = copy;
        count(w, COPY, 1);
    }
}

static void step_clear(struct world *w, struct slot *s)
{
    bg_filter_clear(s->filter);
    slot_forget(s);
    CHECK(bg_filter_fill(s->filter) <= 0);
    CHECK(!bg_filter_may_contain_u64(s->filter, name_of(below(w->ids))));
    count(w, CLEAR, 1);
}

static void rotate(struct world *w, struct slot *s)
{
    CHECK_OK(bg_filter_rotate(s->filter, w->now, NULL));
    count(w, ROTATE, 1);
    if (w->motion == BY_COUNT) { /* keys can now expire after fewer than `count` adds */
        memset(s->stamp, 0, sizeof s->stamp);
    }
}

/* Rotates the older of two windows until both are in the same period, because only such windows can
 * be merged. A single rotation moves a window that uses time to the current period. Returns false
 * if too many rotations would be needed. */
static bool same_period(struct world *w, struct slot *a, struct slot *b)
{
    if (w->motion == BY_COUNT && below(40)) {
        return false; /* keeps merges rare, so that windows also advance by count */
    }
    for (int i = 0; i < 200; i++) {
        uint64_t pa = bg_filter_window_period(a->filter),
                 pb = bg_filter_window_period(b->filter);
        if (pa == pb) {
            return true;
        }
        rotate(w, pa < pb ? a : b);
    }
    return false;
}

static void model_merge(struct world *w, struct slot *to, const struct slot *from)
{
    to->blind |= from->blind;
    for (unsigned id = 0; id < w->ids; id++) {
        if (from->in[id] && (!to->in[id] || from->since[id] > to->since[id])) {
            to->since[id] = from->since[id];
            to->stamp[id] = w->motion == BY_COUNT ? 0 : from->stamp[id];
        }
        to->in[id] += from->in[id];
    }
}

static void step_merge(struct world *w, struct slot *to, struct slot *from)
{
    if (!world_can(w, BG_TRAIT_MERGE) || (is_window(w) && !same_period(w, to, from))) {
        return;
    }
    if (to == from) {
        bg_err err = bg_filter_merge(to->filter, to->filter, NULL);
        CHECK(err == (world_can(w, BG_TRAIT_REMOVE) ? BG_EINVAL : BG_OK));
    } else {
        struct before was = look(to);
        bg_filter *before = NULL;
        CHECK_OK(bg_filter_copy(to->filter, &before, NULL));
        bg_err err = bg_filter_merge(to->filter, from->filter, NULL);
        CHECK(err == BG_OK || (err == BG_EFULL && world_can(w, BG_TRAIT_FILLS_UP)));
        count(w, err ? REFUSED : MERGE, 1);
        note_changes(w, to, was);
        if (err == BG_OK) {
            model_merge(w, to, from);
        } else {
            CHECK(bg_filter_equal(to->filter, before));
        }
        bg_filter_free(before);
    }
    check_all(w, to, to->filter);
}

static void step_resize(struct world *w, struct slot *s)
{
    static const int steps[] = { -2, -1, 1, 2 };
    bg_filter *resized = NULL;
    bg_err err = bg_filter_resize(s->filter, steps[below(4)], &resized, NULL);
    CHECK(err == BG_OK || err == BG_EFULL || err == BG_EINVAL);
    count(w, err ? REFUSED : RESIZE, 1);
    CHECK((resized != NULL) == (err == BG_OK));
    if (resized) {
        slot_replace(s, resized);
    }
    check_all(w, s, s->filter);
}

static void step_fold(struct world *w, struct slot *s)
{
    uint32_t foldable = info_of(s->filter).foldable;
    bg_filter *folded = NULL;
    if (foldable) {
        CHECK_OK(bg_filter_fold(s->filter, 1 + below(foldable), &folded, NULL));
        check_all(w, s, folded);
        bg_filter_free(folded);
        count(w, FOLD, 1);
    }
}

static void step_compact(struct world *w, struct slot *s)
{
    bg_filter *compacted = NULL;
    bg_err err = bg_filter_compact(s->filter, &compacted, NULL);
    CHECK(err == BG_OK || err == BG_EFULL);
    count(w, err ? REFUSED : COMPACT, 1);
    if (compacted) {
        check_all(w, s, compacted);
        CHECK(info_of(compacted).rate <= w->spec.rate * 1.001);
    }
    bg_filter_free(compacted);
}

/* Lets time pass, occasionally enough for all keys to expire. */
static void step_rotate(struct world *w, struct slot *s)
{
    if (w->motion == BY_COUNT && below(40)) {
        return;
    }
    bool all = below(20) == 0;
    uint64_t length = w->window.length;
    w->now += all ? 40 * length : length ? check_random_below(1 + length / 2) : 0;
    for (uint32_t i = 0; i < (all ? w->window.generations + FADING + 1 : 1); i++) {
        rotate(w, s);
    }
    if (all) {
        CHECK(bg_filter_fill(s->filter) <= 0);
        slot_forget(s);
    }
    check_all(w, s, s->filter);
}

/* Runs the kind's special operation, if it has one: rotate, resize, compact or fold. */
static void step_special(struct world *w, struct slot *s)
{
    if (is_window(w)) {
        step_rotate(w, s);
    } else if (world_can(w, BG_TRAIT_RESIZE)) {
        step_resize(w, s);
    } else if (w->spec.kind == BG_KIND_SCALABLE && !w->spec.shards) {
        step_compact(w, s);
    } else if (world_can(w, BG_TRAIT_FOLD)) {
        step_fold(w, s);
    }
}

static void world_step(struct world *w)
{
    struct slot *s = &w->slots[below(SLOTS)], *other = &w->slots[below(SLOTS)];
    bool removes = world_can(w, BG_TRAIT_REMOVE);
    switch (below(40)) {
    case 0: step_copy(w, s, other); break;
    case 1: step_merge(w, s, other); break;
    case 2:
        if (below(10) == 0) {
            step_clear(w, s);
        }
        break;
    case 3: check_all(w, s, s->filter); break;
    case 4: step_special(w, s); break;
    case 5:
    case 6: step_add_many(w, s); break;
    case 7:
    case 8:
        if (removes) {
            step_remove_many(w, s);
        }
        break;
    default: removes &&below(2) ? step_remove(w, s) : step_add(w, s); break;
    }
}

/* ---- Creating worlds ---------------------------------------------------------------- */

static uint64_t world_clock(void *context)
{
    return ((const struct world *)context)->now;
}

static void world_window(struct world *w)
{
    w->motion = (enum motion)below(MOTIONS);
    w->window = (bg_window_options)BG_WINDOW_OPTIONS_INIT;
    w->window.mode = below(2) ? BG_WINDOW_AGED : BG_WINDOW_GENERATIONS;
    w->window.generations = below(2) ? 2 + below(4) : 2 + below(23);
    if (w->window.mode == BG_WINDOW_GENERATIONS) {
        w->window.kind = below(6); /* a Bloom kind, or the default */
    }
    if (w->motion == BY_COUNT) {
        w->window.count = 1 + below(below(2) ? 100 : IDS);
    } else if (w->motion != BY_HAND) {
        w->window.length = 1 + below(1000);
        w->window.clock = w->motion == BY_CLOCK ? world_clock : NULL;
        w->window.context = w;
    }
    w->spec.window = &w->window;
}

static void world_spec(struct world *w, bg_kind kind)
{
    static const double rates[] = { 0.2, 0.01, 0.001 };
    bg_spec *spec = &w->spec;
    *spec = (bg_spec)BG_SPEC_INIT;
    spec->kind = (uint32_t)kind;
    spec->items = 1 + check_random_below(check_random_below(3) ? IDS : 20);
    spec->rate = rates[below(3)];
    spec->flags = below(2) ? BG_SPEC_EXCLUSIVE : 0;
    spec->shards = kind != BG_KIND_WINDOW && below(3) == 0 ? 2 + below(4) : 0;
    if (kind == BG_KIND_COUNTING) {
        spec->width = 4u << below(4);
    } else if (kind == BG_KIND_SCALABLE) {
        spec->width = 2u << below(3);
        spec->items =
            1 + spec->items / 20; /* small, so that several layers are added */
    } else if (kind == BG_KIND_WINDOW) {
        world_window(w);
    } else if (kind <= BG_KIND_REGISTER) {
        spec->folds = spec->shards ? 0 : below(3);
    }
    if (kind == BG_KIND_COUNTING || kind == BG_KIND_SCALABLE) {
        spec->flags |= below(2) ? BG_SPEC_SCATTERED : 0;
    }
}

static void world_run(bg_kind kind, struct tally *tally)
{
    struct world *w = calloc(1, sizeof *w);
    CHECK(w);
    w->tally = tally;
    w->now = 1000000;
    world_spec(w, kind);
    w->ids = 1 + below(IDS);
    w->adds = below(3) == 0;
    count(w, SHARDED, w->spec.shards > 1);
    for (int i = 0; i < SLOTS; i++) {
        w->slots[i].filter = must_create(&w->spec);
        if (w->motion == BY_TIMES) {
            rotate(w, &w->slots[i]); /* sets the initial time */
        }
    }
    for (int i = 0; i < STEPS; i++) {
        world_step(w);
        w->now += w->window.length && below(20) == 0;
    }
    for (int i = 0; i < SLOTS; i++) {
        check_all(w, &w->slots[i], w->slots[i].filter);
        bg_filter_free(w->slots[i].filter);
    }
    free(w);
}

/* ---- Rebuilding static kinds -------------------------------------------------- */

/* Adds n random keys to the builder, some of them more than once, singly and in batches. */
static void build_add(struct world *w, bg_builder *builder, unsigned n)
{
    struct slot *s = &w->slots[0];
    uint64_t keys[BATCH];
    for (unsigned left = n; left;) {
        unsigned here = below(2) ? 1 : 1 + below(left < BATCH ? left : BATCH);
        for (unsigned i = 0; i < here; i++) {
            unsigned id = below(w->ids);
            keys[i] = name_of(id);
            s->in[id]++;
        }
        CHECK_OK(here == 1 ? bg_builder_add_u64(builder, keys[0])
                           : bg_builder_add_many(builder, bg_keys_u64(keys, here)));
        left -= here;
    }
    count(w, ADD, n);
}

static void build_check(struct world *w, bg_filter *filter)
{
    struct slot *s = &w->slots[0];
    bg_filter *copy = NULL;
    check_all(w, s, filter);
    CHECK_OK(bg_filter_copy(filter, &copy, NULL));
    CHECK(bg_filter_equal(copy, filter));
    check_all(w, s, copy);
    count(w, COPY, 1);
    for (unsigned id = 0; id < w->ids; id++) {
        CHECK(!s->in[id] || bg_filter_may_contain_u64(filter, name_of(id)));
    }
    count(w, QUERY, w->ids);
    CHECK_EQ(bg_filter_add_u64(filter, name_of(0), NULL), BG_ENOTSUP);
    /* After a forced add, a static filter must answer "maybe" for every key. */
    (void)added_u64(copy, name_of(IDS));
    CHECK_EQ(bg_filter_may_contain_u64(copy, check_random()), true);
    bg_filter_free(copy);
}

static void build_run(bg_kind kind, struct tally *tally)
{
    struct world *w = calloc(1, sizeof *w);
    bg_builder *builder = NULL;
    CHECK(w);
    w->tally = tally;
    world_spec(w, kind);
    w->spec.shards = 0;
    w->spec.width = kind == BG_KIND_FUSE && below(2) ? 4 : 0;
    CHECK_OK(bg_builder_create(&w->spec, &builder, NULL));
    for (int i = 0; i < BUILDS; i++) {
        bg_filter *filter = NULL;
        w->ids = 1 + below(IDS);
        slot_forget(&w->slots[0]);
        build_add(w, builder, below(2 * IDS));
        CHECK_OK(bg_builder_finish_threaded(builder, 1 + below(2), &filter, NULL));
        count(w, BUILD, 1);
        build_check(w, filter);
        bg_filter_free(filter);
    }
    bg_builder_free(builder);
    free(w);
}

/* ---- All kinds ----------------------------------------------------------------------- */

/* Returns true if the test must have counted `act` at least once for the kind. Otherwise, the test
 * would cover less than it claims. */
static bool must_happen(bg_kind kind, enum act act)
{
    uint32_t traits = bg_kind_traits(kind);
    bool is_static = traits & BG_TRAIT_STATIC;
    switch (act) {
    case ADD:
    case QUERY:
    case COPY: return true;
    case INSERT:
    case COUNT:
    case CLEAR: return !is_static;
    case BUILD: return is_static;
    case REMOVE: return traits & BG_TRAIT_REMOVE;
    case MERGE: return traits & BG_TRAIT_MERGE;
    case FOLD: return kind <= BG_KIND_REGISTER;
    case RESIZE: return traits & BG_TRAIT_RESIZE;
    case REFUSED: return traits & BG_TRAIT_FILLS_UP;
    case COMPACT:
    case GROWTH: return kind == BG_KIND_SCALABLE;
    case ROTATE:
    case TURN_COUNT:
    case TURN_CLOCK: return kind == BG_KIND_WINDOW;
    case SHARDED: return !is_static && kind != BG_KIND_WINDOW;
    default: return false;
    }
}

static void pick_cpu(size_t turn)
{
    static const bg_cpu cpus[] = {
#define CHANGE_CPU(NAME, number, text) BG_CPU_##NAME,
        BG_CPUS(CHANGE_CPU)
    };
    bg_cpu cpu = cpus[turn % (sizeof cpus / sizeof *cpus)];
    if (bg_cpu_available(cpu)) {
        CHECK_OK(bg_cpu_select(cpu));
    }
}

static void change_test(bg_kind kind)
{
    struct tally tally = { 0 };
    bool is_static = bg_kind_traits(kind) & BG_TRAIT_STATIC;
    size_t worlds = (CHECK_EMULATED || CHECK_SANITIZED ? 4 : 24) * check_scale();
    bg_cpu before = bg_cpu_current();
    for (size_t i = 0; i < worlds; i++) {
        pick_cpu(i);
        is_static ? build_run(kind, &tally) : world_run(kind, &tally);
    }
    CHECK_OK(bg_cpu_select(before));
    (void)tally_print(&tally, kind);
    for (int a = 0; a < ACT_COUNT && worlds >= 24; a++) {
        if (must_happen(kind, (enum act)a) && !tally.of[a]) {
            check_fail(__FILE__, __LINE__, "%s: no %s", bg_kind_name(kind),
                       act_names[a]);
        }
    }
}

#define CHANGE_TEST(NAME, number, name)                                                \
    TEST(change__##name)                                                               \
    {                                                                                  \
        change_test(BG_KIND_##NAME);                                                   \
    }
BG_KINDS(CHANGE_TEST)
