/*
 * counting_core.h - the operations of counting filters, for one width and layout.
 *
 * This file is included once for each combination of width and layout. Before each inclusion, these
 * macros must be defined:
 *
 *   COUNTING_WIDTH       bits per counter: 4, 8, 16 or 32
 *   COUNTING_SCATTERED   1 if a key's counters can be anywhere, 0 if they are in one unit
 *
 * Concurrency. A counter is changed by a compare-and-swap on the 64-bit word that contains it,
 * so adds never wait and do not affect neighboring counters. A remove must be all-or-nothing,
 * and must never lower a counter below the contribution of other keys. A remove checks all
 * counters first, and no other remove may decrement them between this check and its own
 * decrements. So a remove holds one of COUNTING_LOCKS locks, which is selected by the unit (a
 * scattered filter uses a single lock, because its keys have counters everywhere). Adds may run at
 * the same time, because they only increase the values that were checked. Lookups read each counter
 * once; all counters of a member are above 0 at all times.
 */

#define COUNTING_PASTE4_(a, b, c, d) a##_##b##_##c##_##d
#define COUNTING_PASTE4(a, b, c, d)  COUNTING_PASTE4_(a, b, c, d)
#define COUNTING(name)                                                                 \
    COUNTING_PASTE4(counting, name, COUNTING_WIDTH, COUNTING_SCATTERED)
#define COUNTING_MAX (UINT64_MAX >> (64 - COUNTING_WIDTH))

/* Returns the location of counter `index` in the array at `base`. */
BGI_INLINE struct counting_place COUNTING(place)(unsigned char *base, uint64_t index)
{
    uint64_t bit = index * COUNTING_WIDTH;
    return (struct counting_place){ (uint64_t *)(void *)base + bit / 64,
                                    (unsigned)(bit % 64) };
}

/* Iterates over a key's counters: call `start` once, then `next` k times. */
BGI_INLINE struct counting_walk COUNTING(start)(const struct bgi_core *core,
                                                uint64_t hash, uint64_t at)
{
    struct counting_walk walk = { .base = core->words + at, .x = hash };
#if !COUNTING_SCATTERED
    walk.x = (uint32_t)hash;
    walk.lanes = core->rotations[line_rotation((uint32_t)hash, COUNTING_LANES)];
#endif
    return walk;
}

BGI_INLINE struct counting_place COUNTING(next)(const struct bgi_core *core,
                                                struct counting_walk *walk)
{
#if COUNTING_SCATTERED
    uint64_t index = bgi_mulhi(walk->x, core->units * COUNTING_UNIT);
    walk->x *= counting_multiplier;
#else
    (void)core;
    unsigned lane = (unsigned)__builtin_ctz(walk->lanes);
    walk->lanes &= walk->lanes - 1;
    uint32_t product = (uint32_t)walk->x * line_words_salts[lane];
    uint64_t index = lane * COUNTING_LANE + (product >> COUNTING_SHIFT);
#endif
    return COUNTING(place)(walk->base, index);
}

BGI_INLINE uint64_t COUNTING(at)(const struct bgi_core *core, uint64_t hash)
{
#if COUNTING_SCATTERED
    (void)core, (void)hash;
    return 0;
#else
    return bgi_range52(hash, core->units) * (COUNTING_UNIT * COUNTING_WIDTH / 8);
#endif
}

BGI_INLINE uint64_t COUNTING(value)(uint64_t word, unsigned shift)
{
    return word >> shift & COUNTING_MAX;
}

BGI_INLINE uint64_t COUNTING(read)(struct counting_place place)
{
    return COUNTING(value)(__atomic_load_n(place.word, __ATOMIC_RELAXED), place.shift);
}

/* Returns the smallest of a key's counters. */
BGI_INLINE uint64_t COUNTING(least)(const struct bgi_core *core, uint64_t hash,
                                    uint64_t at)
{
    struct counting_walk walk = COUNTING(start)(core, hash, at);
    uint64_t least = COUNTING_MAX;
    for (uint32_t i = 0; i < core->k; i++) {
        uint64_t value = COUNTING(read)(COUNTING(next)(core, &walk));
        least = value < least ? value : least;
    }
    return least;
}

/* Adds `by` (1 or -1) to a counter, unless the counter is saturated or would drop below 0. Returns
 * the counter's previous value. */
BGI_INLINE uint64_t COUNTING(step)(struct bgi_core *core, struct counting_place place,
                                   const int by, const bool exclusive)
{
    uint64_t old = __atomic_load_n(place.word, __ATOMIC_RELAXED), after, value;
    do {
        value = COUNTING(value)(old, place.shift);
        if (value == COUNTING_MAX || (by < 0 && value == 0)) {
            return value;
        }
        uint64_t one = (uint64_t)1 << place.shift;
        after = by > 0 ? old + one : old - one;
        if (exclusive) {
            *place.word = after;
            break;
        }
    } while (!__atomic_compare_exchange_n(place.word, &old, after, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    if (by > 0 && value == COUNTING_MAX - 1) {
        struct counting_state *state = core->state;
        (void)__atomic_fetch_add(&state->saturated, 1, __ATOMIC_RELAXED);
    }
    return value;
}

BGI_INLINE bool COUNTING(add_at)(struct bgi_core *core, uint64_t hash, uint64_t at,
                                 const bool exclusive)
{
    struct counting_walk walk = COUNTING(start)(core, hash, at);
    bool is_new = false;
    for (uint32_t i = 0; i < core->k; i++) {
        is_new |= COUNTING(step)(core, COUNTING(next)(core, &walk), 1, exclusive) == 0;
    }
    return is_new;
}

/* Removes a key. The caller ensures that no other remove is running. */
BGI_INLINE bg_err COUNTING(remove_alone)(struct bgi_core *core, uint64_t hash,
                                         uint64_t at, const bool exclusive)
{
    if (COUNTING(least)(core, hash, at) == 0) {
        return BG_ENOTFOUND;
    }
    struct counting_walk walk = COUNTING(start)(core, hash, at);
    for (uint32_t i = 0; i < core->k; i++) {
        (void)COUNTING(step)(core, COUNTING(next)(core, &walk), -1, exclusive);
    }
    return BG_OK;
}

/* ---- The operations --------------------------------------------------------------- */

static bool COUNTING(has)(const struct bgi_core *core, uint64_t hash)
{
    return COUNTING(least)(core, hash, COUNTING(at)(core, hash)) != 0;
}

static uint64_t COUNTING(count)(const struct bgi_core *core, uint64_t hash)
{
    return COUNTING(least)(core, hash, COUNTING(at)(core, hash));
}

static void COUNTING(locate)(const struct bgi_core *core, struct bgi_group *group)
{
    for (unsigned i = 0; i < group->n; i++) {
        group->at[i] = COUNTING(at)(core, group->hashes[i]);
    }
}

/* Prefetches the memory for one key. A unit of 4-bit counters is one cache line, so one prefetch is
 * enough. */
BGI_INLINE void COUNTING(prefetch_one)(const struct bgi_core *core, uint64_t hash,
                                       uint64_t at)
{
    if (COUNTING_WIDTH == 4 && !COUNTING_SCATTERED) {
        BGI_PREFETCH(core->words + at);
        return;
    }
    struct counting_walk walk = COUNTING(start)(core, hash, at);
    for (uint32_t i = 0; i < core->k; i++) {
        BGI_PREFETCH(COUNTING(next)(core, &walk).word);
    }
}

static void COUNTING(prefetch)(const struct bgi_core *core,
                               const struct bgi_group *group)
{
    for (unsigned i = 0; i < group->n; i++) {
        COUNTING(prefetch_one)(core, group->hashes[i], group->at[i]);
    }
}

/* Prefetches key i of the next group, if there is one. */
BGI_INLINE void COUNTING(prefetch_next)(const struct bgi_core *core,
                                        const struct bgi_group *next, unsigned i)
{
    if (next && i < next->n) {
        COUNTING(prefetch_one)(core, next->hashes[i], next->at[i]);
    }
}

static uint64_t COUNTING(has_group)(const struct bgi_core *core,
                                    const struct bgi_group *group,
                                    const struct bgi_group *next)
{
    uint64_t answer = 0;
    unsigned i = 0;
    for (; i < group->n; i++) {
        COUNTING(prefetch_next)(core, next, i);
        bool maybe = COUNTING(least)(core, group->hashes[i], group->at[i]) != 0;
        answer |= (uint64_t)maybe << i;
    }
    for (; next && i < next->n; i++) {
        COUNTING(prefetch_next)(core, next, i);
    }
    return answer;
}

BGI_INLINE uint64_t COUNTING(put_word)(struct bgi_core *core,
                                       const struct bgi_group *group,
                                       const struct bgi_group *next,
                                       const bool exclusive)
{
    uint64_t answer = 0;
    unsigned i = 0;
    for (; i < group->n; i++) {
        COUNTING(prefetch_next)(core, next, i);
        bool is_new = COUNTING(add_at)(core, group->hashes[i], group->at[i], exclusive);
        answer |= (uint64_t)is_new << i;
    }
    for (; next && i < next->n; i++) {
        COUNTING(prefetch_next)(core, next, i);
    }
    return answer;
}

static bg_err COUNTING(remove_exclusive)(struct bgi_core *core, uint64_t hash)
{
    return COUNTING(remove_alone)(core, hash, COUNTING(at)(core, hash), true);
}

static bg_err COUNTING(remove_shared)(struct bgi_core *core, uint64_t hash)
{
    uint64_t at = COUNTING(at)(core, hash);
    unsigned char *lock = counting_lock(core, at);
    bg_err err = COUNTING(remove_alone)(core, hash, at, false);
    counting_unlock(lock);
    return err;
}

#define COUNTING_DEFINE_MODE(mode, is_exclusive)                                       \
    static bool COUNTING(add_##mode)(struct bgi_core * core, uint64_t hash)            \
    {                                                                                  \
        return COUNTING(add_at)(core, hash, COUNTING(at)(core, hash), is_exclusive);   \
    }                                                                                  \
    static uint64_t COUNTING(add_group_##mode)(struct bgi_core * core,                 \
                                               const struct bgi_group *group,          \
                                               const struct bgi_group *next)           \
    {                                                                                  \
        return COUNTING(put_word)(core, group, next, is_exclusive);                    \
    }                                                                                  \
    static const struct bgi_ops COUNTING(ops_##mode) = {                               \
        .has = COUNTING(has),                                                          \
        .add = COUNTING(add_##mode),                                                   \
        .locate = COUNTING(locate),                                                    \
        .has_group = COUNTING(has_group),                                              \
        .add_group = COUNTING(add_group_##mode),                                       \
        .prefetch = COUNTING(prefetch),                                                \
        .remove = COUNTING(remove_##mode),                                             \
        .count = COUNTING(count),                                                      \
    };

COUNTING_DEFINE_MODE(exclusive, true)
COUNTING_DEFINE_MODE(shared, false)
#undef COUNTING_DEFINE_MODE

static const struct bgi_ops *COUNTING(ops)(uint32_t k, bool exclusive, bg_cpu cpu)
{
    (void)k, (void)cpu;
    return exclusive ? &COUNTING(ops_exclusive) : &COUNTING(ops_shared);
}

/* ---- Whole filters ---------------------------------------------------------------- */

/* Returns a word in which the lowest bit of each counter is set if that counter is not 0. */
BGI_INLINE uint64_t COUNTING(above_zero)(uint64_t word)
{
    for (unsigned by = COUNTING_WIDTH / 2; by > 0; by /= 2) {
        word |= word >> by;
    }
    return word & (UINT64_MAX / COUNTING_MAX);
}

/* Adds the counters of two words pairwise and returns the sums. *saturated is incremented for
 * each counter that became saturated. */
static uint64_t COUNTING(sum)(uint64_t a, uint64_t b, uint64_t *saturated)
{
    uint64_t sum = 0;
    for (unsigned shift = 0; shift < 64; shift += COUNTING_WIDTH) {
        uint64_t va = COUNTING(value)(a, shift), vb = COUNTING(value)(b, shift);
        bool over = va + vb >= COUNTING_MAX;
        *saturated += over && va != COUNTING_MAX;
        sum |= (over ? COUNTING_MAX : va + vb) << shift;
    }
    return sum;
}

static bg_err COUNTING(merge)(struct bgi_core *to, const struct bgi_core *from,
                              bool exclusive)
{
    struct counting_state *state = to->state;
    const uint64_t *in = (const uint64_t *)(const void *)from->words;
    uint64_t *out = (uint64_t *)(void *)to->words;
    (void)exclusive;
    for (size_t i = 0; i < COUNTING_UNIT * COUNTING_WIDTH / 64 * to->units; i++) {
        uint64_t more = __atomic_load_n(&in[i], __ATOMIC_RELAXED), after, saturated;
        uint64_t old = __atomic_load_n(&out[i], __ATOMIC_RELAXED);
        if (more == 0) {
            continue;
        }
        do {
            saturated = 0;
            after = COUNTING(sum)(old, more, &saturated);
        } while (!__atomic_compare_exchange_n(&out[i], &old, after, true,
                                              __ATOMIC_RELAXED, __ATOMIC_RELAXED));
        (void)__atomic_fetch_add(&state->saturated, saturated, __ATOMIC_RELAXED);
    }
    return BG_OK;
}

/* Returns the number of counters that are above 0 in at least one of the two
 * filters. */
static uint64_t COUNTING(ones_or)(const struct bgi_core *a, const struct bgi_core *b)
{
    const uint64_t *in_a = (const uint64_t *)(const void *)a->words;
    const uint64_t *in_b = (const uint64_t *)(const void *)b->words;
    uint64_t ones = 0;
    for (size_t i = 0; i < COUNTING_UNIT * COUNTING_WIDTH / 64 * a->units; i++) {
        ones += bgi_popcount64(
            COUNTING(above_zero)(__atomic_load_n(&in_a[i], __ATOMIC_RELAXED)
                                 | __atomic_load_n(&in_b[i], __ATOMIC_RELAXED)));
    }
    return ones;
}

static uint32_t COUNTING(unit_bytes)(uint32_t k)
{
    (void)k;
    return COUNTING_UNIT * COUNTING_WIDTH / 8;
}

static struct bgi_model COUNTING(model)(uint64_t units, uint32_t k)
{
#if COUNTING_SCATTERED
    return (struct bgi_model){ .scattered = true,
                               .units = 1,
                               .lanes = 1,
                               .active = 1,
                               .draws = k,
                               .lane_bits = COUNTING_UNIT * (double)units };
#else
    return (struct bgi_model){ .units = (double)units,
                               .lanes = COUNTING_LANES,
                               .active = k,
                               .draws = 1,
                               .lane_bits = COUNTING_LANE,
                               .patterns = line_patterns };
#endif
}

static uint64_t COUNTING(ones_in)(const void *context, uint64_t first, uint64_t n)
{
    struct bgi_core part = *(const struct bgi_core *)context;
    part.words += first * COUNTING(unit_bytes)(part.k);
    part.units = n;
    return COUNTING(ones_or)(&part, &part);
}

static void COUNTING(measure)(const struct bgi_core *core, struct bgi_measure *measure)
{
    const struct counting_state *state = core->state;
    struct bgi_model model = COUNTING(model)(core->units, core->k);
    measure->ones = (uint64_t)bgi_sample_sum(
        core->units, core->units * COUNTING(unit_bytes)(core->k), measure->most,
        core->k, COUNTING(ones_in), core, &measure->missed);
    measure->of = COUNTING_UNIT * core->units;
    measure->saturated = __atomic_load_n(&state->saturated, __ATOMIC_RELAXED);
    bgi_model_measure(&model, measure);
}

static bool COUNTING(restore)(struct bgi_core *core, const uint64_t *numbers)
{
    struct counting_state *state = core->state;
    (void)numbers;
    state->saturated = counting_at_most(
        core, core->units * COUNTING(unit_bytes)(core->k), COUNTING_WIDTH);
    return true;
}

static uint32_t COUNTING(lines)(uint32_t k)
{
    uint32_t lines = COUNTING_WIDTH / 4; /* per unit */
    return COUNTING_SCATTERED || lines > k ? k : lines;
}

#if COUNTING_WIDTH == 4 && !COUNTING_SCATTERED
#if defined(BGI_X86_64)
#include "kind/counting_avx2.h"
#define COUNTING_BEST_OPS counting_ops_avx2
#else
#define COUNTING_BEST_OPS COUNTING(ops)
#endif
const struct bgi_kind bgi_kind_counting = {
/* the default variant's description also serves as the description of the kind */
#else
#define COUNTING_BEST_OPS COUNTING(ops)
static const struct bgi_kind COUNTING(kind) = {
#endif
    .id = BG_KIND_COUNTING,
    .traits = BG_TRAIT_REMOVE | BG_TRAIT_COUNT | BG_TRAIT_MERGE | BG_TRAIT_OVERLAP,
    .width = COUNTING_WIDTH,
    .flags = COUNTING_SCATTERED ? BG_SPEC_SCATTERED : 0,
    .k_min = 1,
    .k_max = COUNTING_SCATTERED ? 32 : COUNTING_LANES,
    .units_max = (uint64_t)1 << 46,
    .pick = counting_pick,
    .unit_bytes = COUNTING(unit_bytes),
    .model = COUNTING(model),
    .lines = COUNTING(lines),
    .ops = COUNTING_BEST_OPS,
    .state_bytes = counting_state_bytes,
    .setup = counting_setup,
    .copied = counting_copied,
    .merge = COUNTING(merge),
    .measure = COUNTING(measure),
    .ones_or = COUNTING(ones_or),
    .restore = COUNTING(restore),
};

#undef COUNTING_BEST_OPS
#undef COUNTING_MAX
#undef COUNTING
#undef COUNTING_PASTE4
#undef COUNTING_PASTE4_
#undef COUNTING_WIDTH
#undef COUNTING_SCATTERED
