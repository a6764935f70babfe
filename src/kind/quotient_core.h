/*
 * quotient_core.h - the operations of quotient filters, for one way to count and find ones.
 *
 * Included once for each. Before each inclusion are defined
 *
 *   QUOTIENT_ISA                  the suffix of all names
 *   QUOTIENT_TARGET               the function attribute that allows the instructions
 *   QUOTIENT_ONES(word)           how many ones
 *   QUOTIENT_SELECT(word, rank)   where one number `rank` is, from 0; 64 when there are
 *                                 not as many
 *
 * Rank and select. The runs of a block's quotients lie one after another in the order of
 * their quotients, one run for each bit of `occupieds` and one bit of `runends` for each
 * run. So the run of the i-th occupied quotient of a block ends at the i-th runend, counted
 * from where the runs of earlier blocks end: that is the block's offset.
 *
 *     occupieds   1 0 1 1 0 0 0 0        quotients 0, 2 and 3 have runs
 *     runends     0 0 1 1 0 1 0 0        which end in slots 2, 3 and 5
 *     slots       a a a b c c . .
 *     offset of the next block: 0; were this block a slot shorter than c: 1
 *
 * Offsets have 8 bits. A greater one is stored as 255 and found by walking back to a block
 * that has a smaller one, and forward again; the offset of block 0 is 0.
 *
 * "Stop" is everywhere the slot after the last one.
 */

#define QUOTIENT_PASTE_(a, b, c) a##_##b##_##c
#define QUOTIENT_PASTE(a, b, c)  QUOTIENT_PASTE_(a, b, c)
#define QUOTIENT(name)           QUOTIENT_PASTE(quotient, name, QUOTIENT_ISA)

/* ---- Where runs are -------------------------------------------------------------- */

/* Where the run of the quotient of that rank in a block ends, from 1; for rank 0, where
 * those of earlier blocks do. */
BGI_INLINE QUOTIENT_TARGET uint64_t QUOTIENT(stop_of_rank)(const struct bgi_core *core,
                                                           uint64_t block,
                                                           uint64_t offset,
                                                           uint64_t rank,
                                                           struct quotient_span *span)
{
    const struct quotient_state *state = quotient_state_of(core);
    if (rank == 0) {
        return 64 * block + offset;
    }
    uint64_t at = block + offset / 64, before = offset % 64;
    for (; at < state->blocks; at++, before = 0) {
        uint64_t ends =
            quotient_load(quotient_runends(core, at)) & UINT64_MAX << before;
        uint64_t end = QUOTIENT_SELECT(ends, rank - 1);
        if (end < 64) {
            quotient_touch(span, at);
            return 64 * at + end + 1;
        }
        rank -= QUOTIENT_ONES(ends);
    }
    quotient_touch(span, state->blocks - 1);
    return state->slots; /* only while others change what we read */
}

/* The offset of a block whose stored one is saturated. */
QUOTIENT_TARGET static uint64_t QUOTIENT(far_offset)(const struct bgi_core *core,
                                                     uint64_t block,
                                                     struct quotient_span *span)
{
    uint64_t from = block, offset;
    do {
        offset = quotient_stored_offset(core, --from);
    } while (from > 0 && offset == QUOTIENT_OFFSET_MOST);
    span->first = from < span->first ? from : span->first;
    for (; from < block; from++) {
        uint64_t runs = QUOTIENT_ONES(quotient_load(quotient_occupieds(core, from)));
        uint64_t stop = QUOTIENT(stop_of_rank)(core, from, offset, runs, span);
        offset = stop > 64 * from + 64 ? stop - (64 * from + 64) : 0;
    }
    return offset;
}

BGI_INLINE QUOTIENT_TARGET uint64_t QUOTIENT(offset)(const struct bgi_core *core,
                                                     uint64_t block,
                                                     struct quotient_span *span)
{
    uint64_t offset = quotient_stored_offset(core, block);
    return BGI_LIKELY(offset < QUOTIENT_OFFSET_MOST)
               ? offset
               : QUOTIENT(far_offset)(core, block, span);
}

/* Where the runs of all quotients up to a slot's number end. */
QUOTIENT_TARGET static uint64_t QUOTIENT(stop_upto)(const struct bgi_core *core,
                                                    uint64_t slot,
                                                    struct quotient_span *span)
{
    uint64_t block = slot / 64;
    quotient_touch(span, block);
    uint64_t occupieds = quotient_load(quotient_occupieds(core, block));
    uint64_t rank = QUOTIENT_ONES(occupieds & UINT64_MAX >> (63 - slot % 64));
    return QUOTIENT(stop_of_rank)(core, block, QUOTIENT(offset)(core, block, span),
                                  rank, span);
}

/* The n-th empty slot from a slot on; the number of slots when there are not as many. A
 * slot is empty when all runs of quotients up to its number end before it. */
QUOTIENT_TARGET static uint64_t QUOTIENT(empty_slot)(const struct bgi_core *core,
                                                     uint64_t slot, uint64_t n,
                                                     struct quotient_span *span)
{
    const uint64_t slots = quotient_state_of(core)->slots;
    while (slot < slots) {
        uint64_t stop = QUOTIENT(stop_upto)(core, slot, span);
        if (stop > slot) {
            slot = stop;
        } else if (--n == 0) {
            return slot;
        } else {
            slot++;
        }
    }
    return slots;
}

/* The last slot that moves down when one before it is freed: the one up to which all
 * runs of quotients up to its number end. */
QUOTIENT_TARGET static uint64_t QUOTIENT(last_moved)(const struct bgi_core *core,
                                                     uint64_t slot,
                                                     struct quotient_span *span)
{
    for (;;) {
        uint64_t stop = QUOTIENT(stop_upto)(core, slot, span);
        if (stop <= slot + 1) {
            return slot;
        }
        slot = stop - 1;
    }
}

/* ---- Finding --------------------------------------------------------------------- */

/* A remainder's place in the run of its quotient. */
struct QUOTIENT(place) {
    bool run;                    /* the quotient has one */
    uint64_t start, stop;        /* the run, or where it would be */
    uint64_t at;                 /* where the entry is, or would be */
    struct quotient_entry entry; /* .slots = 0: not there */
};

/* Where the run of a quotient begins, or would: not before the slot of its number. */
BGI_INLINE QUOTIENT_TARGET uint64_t QUOTIENT(run_start)(const struct bgi_core *core,
                                                        uint64_t quotient,
                                                        uint64_t occupieds,
                                                        struct quotient_span *span)
{
    uint64_t block = quotient / 64;
    uint64_t rank = QUOTIENT_ONES(occupieds & quotient_below(quotient % 64));
    uint64_t stop = QUOTIENT(stop_of_rank)(
        core, block, QUOTIENT(offset)(core, block, span), rank, span);
    return stop > quotient ? stop : quotient;
}

/* Looks for an entry in a run, from `start` on. */
BGI_INLINE QUOTIENT_TARGET struct quotient_entry
QUOTIENT(walk)(const struct bgi_core *core, uint64_t *at, uint64_t remainder,
               struct quotient_span *span)
{
    const uint64_t slots = quotient_state_of(core)->slots;
    struct quotient_entry none = { .remainder = remainder };
    for (bool ended = false; !ended && *at < slots;) {
        struct quotient_entry entry = quotient_read(core, *at);
        quotient_touch(span, (*at + entry.slots - 1) / 64);
        if (entry.remainder >= remainder) {
            return entry.remainder == remainder ? entry : none;
        }
        *at += entry.slots;
        ended = quotient_is_runend(core, *at - 1);
    }
    return none;
}

QUOTIENT_TARGET static struct QUOTIENT(place)
    QUOTIENT(find)(const struct bgi_core *core, struct quotient_key key,
                   struct quotient_span *span)
{
    uint64_t occupieds = quotient_load(quotient_occupieds(core, key.quotient / 64));
    struct QUOTIENT(place) place = { .run = occupieds >> key.quotient % 64 & 1 };
    place.start = QUOTIENT(run_start)(core, key.quotient, occupieds, span);
    place.at = place.stop = place.start;
    if (place.run) {
        place.entry = QUOTIENT(walk)(core, &place.at, key.remainder, span);
        place.stop = QUOTIENT(stop_upto)(core, key.quotient, span);
    }
    return place;
}

/* The same for those who only want to know whether. */
QUOTIENT_TARGET static bool QUOTIENT(test)(const struct bgi_core *core,
                                           struct quotient_key key,
                                           struct quotient_span *span)
{
    uint64_t occupieds = quotient_load(quotient_occupieds(core, key.quotient / 64));
    if (!(occupieds >> key.quotient % 64 & 1)) {
        return false;
    }
    uint64_t at = QUOTIENT(run_start)(core, key.quotient, occupieds, span);
    return QUOTIENT(walk)(core, &at, key.remainder, span).slots != 0;
}

/*
 * The same for most keys without a branch that depends on the key: such a branch is often
 * guessed wrong, and in a large filter only when the memory has arrived, so that no other
 * look-up can begin to wait for its own meanwhile. The slots of a run are compared a word
 * at a time. QUOTIENT_UNSURE when that cannot tell: the run is not all inside of the block,
 * or it has equal neighbours, so that what was found may be a digit of a count.
 */
BGI_INLINE QUOTIENT_TARGET enum quotient_answer
QUOTIENT(test_inside)(const struct bgi_core *core, struct quotient_key key)
{
    /* Copies: behind a load with acquire order everything has to be loaded again. */
    const struct quotient_state *state = quotient_state_of(core);
    const struct quotient_slots type = state->type;
    const uint64_t block = key.quotient / 64, slot = key.quotient % 64;
    const uint64_t *words = quotient_block(core, block);
    const uint64_t *remainders = words + QUOTIENT_META;
    __builtin_prefetch(remainders + slot * type.width / 64); /* or a little behind it */
    const uint64_t offset = quotient_stored_offset(core, block);
    const uint64_t occupieds = quotient_load(words), runends = quotient_load(words + 1);
    uint64_t rank = QUOTIENT_ONES(occupieds & quotient_below(slot));
    uint64_t after = QUOTIENT_SELECT(runends & UINT64_MAX << offset % 64, rank - 1) + 1;
    uint64_t start = rank ? after : offset;
    start = start > slot ? start : slot;
    uint64_t ends = runends >> start % 64;
    uint64_t occupied = occupieds >> slot & 1;
    uint64_t outside = offset / 64 | start / 64 | (ends == 0);
    if (BGI_UNLIKELY(outside & (0 - occupied))) {
        return QUOTIENT_UNSURE;
    }
    /* All ones up to the end of the run, if it ends within a word of slots. */
    uint64_t slots = quotient_bits_from(remainders, start % 64 * type.width);
    uint64_t length = QUOTIENT_ONES(ends ^ (ends - 1));
    uint64_t run = UINT64_MAX >> (-length * type.width & 63);
    uint64_t hits = quotient_zero_slots(type, slots ^ key.remainder * type.ones) & run;
    if (BGI_UNLIKELY(length > type.per_word && occupied)) {
        return QUOTIENT_UNSURE;
    }
    if (hits == 0 || !occupied) {
        return QUOTIENT_NO;
    }
    uint64_t equal = quotient_zero_slots(type, slots ^ slots >> type.width);
    return BGI_LIKELY(!(equal & run >> type.width)) ? QUOTIENT_MAYBE : QUOTIENT_UNSURE;
}

/* ---- Changing -------------------------------------------------------------------- */

enum QUOTIENT(opening) {
    QUOTIENT(OPEN_RUN),   /* the first slot of a new run */
    QUOTIENT(OPEN_END),   /* behind the last slot of a run */
    QUOTIENT(OPEN_INSIDE) /* before a slot of the run */
};

/* Makes room for one slot at `at` in the run of a quotient; `empty` is the next empty
 * one. */
QUOTIENT_TARGET static void QUOTIENT(open)(struct bgi_core *core, uint64_t quotient,
                                           uint64_t at, uint64_t empty,
                                           enum QUOTIENT(opening) how)
{
    quotient_slots_up(core, at, empty);
    quotient_set_runend(core, at, how != QUOTIENT(OPEN_INSIDE));
    if (how == QUOTIENT(OPEN_END)) {
        quotient_set_runend(core, at - 1, false);
    } else if (how == QUOTIENT(OPEN_RUN)) {
        quotient_set_bit(quotient_occupieds(core, quotient / 64), quotient, true);
    }
    for (uint64_t block = quotient / 64 + 1; block <= empty / 64; block++) {
        quotient_store_offset(core, block, quotient_stored_offset(core, block) + 1);
    }
}

/* One slot fewer in the runs up to that of `quotient`, which moved those up to `last`. A
 * saturated offset does not say whether it still is one. */
QUOTIENT_TARGET static void QUOTIENT(lower_offsets)(struct bgi_core *core,
                                                    uint64_t quotient, uint64_t last)
{
    struct quotient_span unused = quotient_span_at(quotient / 64);
    uint64_t offset = QUOTIENT(offset)(core, quotient / 64, &unused);
    for (uint64_t block = quotient / 64 + 1; block <= last / 64; block++) {
        uint64_t stored = quotient_stored_offset(core, block);
        if (stored < QUOTIENT_OFFSET_MOST) {
            offset = stored - 1;
        } else {
            uint64_t occupieds = quotient_load(quotient_occupieds(core, block - 1));
            offset = QUOTIENT(stop_of_rank)(core, block - 1, offset,
                                            QUOTIENT_ONES(occupieds), &unused)
                     - 64 * block;
        }
        quotient_store_offset(core, block, offset);
    }
}

/* Takes the slot `at` out of the run [start, stop) of a quotient. */
QUOTIENT_TARGET static void QUOTIENT(close)(struct bgi_core *core, uint64_t quotient,
                                            uint64_t at, uint64_t start, uint64_t stop)
{
    struct quotient_span unused = quotient_span_at(quotient / 64);
    uint64_t last = QUOTIENT(last_moved)(core, stop - 1, &unused);
    if (stop - start == 1) {
        quotient_set_bit(quotient_occupieds(core, quotient / 64), quotient, false);
    } else if (at == stop - 1) {
        quotient_set_runend(core, at - 1, true);
    }
    quotient_slots_down(core, at, last);
    QUOTIENT(lower_offsets)(core, quotient, last);
}

/* A change that is known to be possible. */
struct QUOTIENT(plan) {
    struct quotient_key key;
    struct QUOTIENT(place) place;
    uint64_t count; /* afterwards */
    uint64_t slots; /* afterwards */
    uint64_t last;  /* the last slot that becomes used, for an add that takes one */
};

/* Plans to add a key `more` times; BG_EFULL when it would need slots behind the end. */
QUOTIENT_TARGET static bg_err QUOTIENT(plan_add)(const struct bgi_core *core,
                                                 uint64_t more,
                                                 struct QUOTIENT(plan) * plan,
                                                 struct quotient_span *span)
{
    plan->place = QUOTIENT(find)(core, plan->key, span);
    plan->count = quotient_sum(plan->place.entry.count, more);
    plan->slots = quotient_slots_for(core, plan->count);
    uint64_t extra = plan->slots - plan->place.entry.slots;
    if (extra == 0) {
        return BG_OK;
    }
    plan->last = QUOTIENT(empty_slot)(core, plan->place.at, extra, span);
    return plan->last < quotient_state_of(core)->slots ? BG_OK : BG_EFULL;
}

/* Plans to take a key out once. A count that has reached its highest value stays. */
QUOTIENT_TARGET static bg_err QUOTIENT(plan_remove)(const struct bgi_core *core,
                                                    struct QUOTIENT(plan) * plan,
                                                    struct quotient_span *span)
{
    plan->place = QUOTIENT(find)(core, plan->key, span);
    const struct quotient_entry *entry = &plan->place.entry;
    if (entry->slots == 0) {
        return BG_ENOTFOUND;
    }
    plan->count = entry->count - (entry->count != UINT64_MAX);
    plan->slots = quotient_slots_for(core, plan->count);
    if (plan->slots != entry->slots) {
        (void)QUOTIENT(last_moved)(core, plan->place.stop - 1, span);
    }
    return BG_OK;
}

/* How the next slot of an entry of `now` slots is opened. */
BGI_INLINE QUOTIENT_TARGET enum QUOTIENT(opening)
    QUOTIENT(how_to_open)(const struct QUOTIENT(place) * place, uint64_t now)
{
    return now > 0                    ? QUOTIENT(OPEN_INSIDE)
           : !place->run              ? QUOTIENT(OPEN_RUN)
           : place->at == place->stop ? QUOTIENT(OPEN_END)
                                      : QUOTIENT(OPEN_INSIDE);
}

/* Makes the run longer or shorter and writes the entry. */
QUOTIENT_TARGET static void QUOTIENT(carry_out)(struct bgi_core *core,
                                                const struct QUOTIENT(plan) * plan)
{
    const struct QUOTIENT(place) *place = &plan->place;
    struct quotient_span unused = quotient_span_at(plan->key.quotient / 64);
    uint64_t now = place->entry.slots, stop = place->stop;
    for (; now < plan->slots; now++) {
        uint64_t empty = plan->slots - now == 1
                             ? plan->last
                             : QUOTIENT(empty_slot)(core, place->at, 1, &unused);
        QUOTIENT(open)
        (core, plan->key.quotient, place->at, empty, QUOTIENT(how_to_open)(place, now));
    }
    for (; now > plan->slots; now--, stop--) {
        QUOTIENT(close)(core, plan->key.quotient, place->at, place->start, stop);
    }
    quotient_write(core, place->at, plan->key.remainder, plan->count);
}

/* Carries out a plan, unless it takes more slots than allowed. The regions of the span
 * are locked, if there are other threads. */
QUOTIENT_TARGET static bg_err QUOTIENT(commit)(struct bgi_core *core,
                                               const struct QUOTIENT(plan) * plan,
                                               struct quotient_span span,
                                               const bool exclusive)
{
    struct quotient_state *state = quotient_state_of(core);
    uint64_t more = plan->slots - plan->place.entry.slots; /* or less: below 0 */
    uint64_t used = exclusive
                        ? (state->used += more)
                        : __atomic_add_fetch(&state->used, more, __ATOMIC_RELAXED);
    if (plan->slots > plan->place.entry.slots && used > state->limit) {
        (void)__atomic_sub_fetch(&state->used, more, __ATOMIC_RELAXED);
        return BG_EFULL;
    }
    span.first = plan->key.quotient / 64; /* what is before was only read */
    if (exclusive) {
        QUOTIENT(carry_out)(core, plan);
    } else {
        quotient_next_number(core, quotient_range_of(span));
        QUOTIENT(carry_out)(core, plan);
        quotient_next_number(core, quotient_range_of(span));
    }
    return BG_OK;
}

/* Adds a key `more` times, 1 or more, or for 0 removes it once. The caller has the filter
 * for itself (`exclusive`), or holds all regions of `range`; when they are not enough the
 * range is widened and nothing done: *again. */
BGI_INLINE QUOTIENT_TARGET bg_err QUOTIENT(change_within)(struct bgi_core *core,
                                                          uint64_t hash, uint64_t more,
                                                          const bool exclusive,
                                                          struct quotient_range *range,
                                                          bool *again, bool *is_new)
{
    struct QUOTIENT(plan) plan = { .key = quotient_key_of(core, hash) };
    struct quotient_span span = quotient_span_at(plan.key.quotient / 64);
    bg_err err = more ? QUOTIENT(plan_add)(core, more, &plan, &span)
                      : QUOTIENT(plan_remove)(core, &plan, &span);
    *again = !exclusive && !quotient_covers(range, span);
    *is_new = plan.place.entry.slots == 0;
    return err || *again ? err : QUOTIENT(commit)(core, &plan, span, exclusive);
}

BGI_INLINE QUOTIENT_TARGET bg_err QUOTIENT(change)(struct bgi_core *core, uint64_t hash,
                                                   uint64_t more, const bool exclusive,
                                                   bool *is_new)
{
    uint64_t block = quotient_key_of(core, hash).quotient / 64;
    struct quotient_range range = quotient_range_of(quotient_span_at(block));
    bg_err err;
    bool again;
    do {
        struct quotient_range held = range;
        if (!exclusive) {
            quotient_lock(core, held);
        }
        err = QUOTIENT(change_within)(core, hash, more, exclusive, &range, &again,
                                      is_new);
        if (!exclusive) {
            quotient_unlock(core, held);
        }
    } while (again);
    return err;
}

/* ---- The operations -------------------------------------------------------------- */

/* When a region changes all the time: doubt is answered "maybe". */
enum { QUOTIENT(PATIENCE) = 1 << 16 };

QUOTIENT_TARGET static bool QUOTIENT(test_patiently)(const struct bgi_core *core,
                                                     struct quotient_key key)
{
    uint64_t block = key.quotient / 64, before;
    struct quotient_range range = quotient_range_of(quotient_span_at(block));
    for (unsigned tries = 0; tries < QUOTIENT(PATIENCE); tries++) {
        struct quotient_span span = quotient_span_at(block);
        if (!quotient_numbers(core, range, &before)) {
            bgi_pause();
        } else if (QUOTIENT(test)(core, key, &span)) {
            return true;
        } else if (quotient_unchanged(core, &range, span, before)) {
            return false;
        }
    }
    return true;
}

/* The answer where the quick test gave none, or one that does not count. */
__attribute__((noinline)) QUOTIENT_TARGET static bool
QUOTIENT(look_again)(const struct bgi_core *core, struct quotient_key key)
{
    return QUOTIENT(test_patiently)(core, key)
           || __atomic_load_n(&quotient_state_of(core)->lost, __ATOMIC_RELAXED) != 0;
}

/* Whether a key may be in. A "no" counts only if nothing was moved meanwhile. */
BGI_INLINE QUOTIENT_TARGET bool QUOTIENT(look)(const struct bgi_core *core,
                                               uint64_t hash, const bool exclusive)
{
    const struct quotient_state *state = quotient_state_of(core);
    struct quotient_key key = quotient_key_of(core, hash);
    const uint64_t *region = &state->regions[key.quotient / 64 / QUOTIENT_REGION];
    uint64_t before = exclusive ? 0 : quotient_load(region) >> 1, doubt;
    enum quotient_answer answer = QUOTIENT(test_inside)(core, key);
    if (answer == QUOTIENT_MAYBE) {
        return true;
    }
    doubt = (uint64_t)(answer == QUOTIENT_UNSURE)
            | __atomic_load_n(&state->lost, __ATOMIC_RELAXED);
    if (!exclusive) {
        doubt |= (before & 1) | (before ^ quotient_load(region) >> 1);
    }
    return BGI_UNLIKELY(doubt) && QUOTIENT(look_again)(core, key);
}

/* Adds that were refused may have been of any key. */
QUOTIENT_TARGET static uint64_t QUOTIENT(count)(const struct bgi_core *core,
                                                uint64_t hash)
{
    const struct quotient_state *state = quotient_state_of(core);
    struct quotient_key key = quotient_key_of(core, hash);
    uint64_t block = key.quotient / 64, before, count = 0;
    struct quotient_range range = quotient_range_of(quotient_span_at(block));
    struct quotient_span span;
    bool steady;
    do {
        span = quotient_span_at(block);
        steady = quotient_numbers(core, range, &before);
        if (steady) {
            count = QUOTIENT(find)(core, key, &span).entry.count;
        } else {
            bgi_pause();
        }
    } while (!steady || !quotient_unchanged(core, &range, span, before));
    return quotient_sum(count, __atomic_load_n(&state->lost, __ATOMIC_RELAXED));
}

BGI_INLINE QUOTIENT_TARGET bool QUOTIENT(put)(struct bgi_core *core, uint64_t hash,
                                              const bool exclusive)
{
    struct quotient_state *state = quotient_state_of(core);
    bool is_new;
    if (QUOTIENT(change)(core, hash, 1, exclusive, &is_new) == BG_EFULL) {
        (void)__atomic_fetch_add(&state->lost, 1, __ATOMIC_RELAXED);
    }
    return is_new && __atomic_load_n(&state->lost, __ATOMIC_RELAXED) == 0;
}

QUOTIENT_TARGET static void QUOTIENT(locate)(const struct bgi_core *core,
                                             struct bgi_word *word)
{
    for (unsigned i = 0; i < word->n; i++) {
        uint64_t block = quotient_key_of(core, word->hashes[i]).quotient / 64;
        word->at[i] = block * (QUOTIENT_META + core->k) * 8;
    }
}

/* Asks for the head of a key's block, for the offset, and for the slot of its number,
 * behind which its run is not far. */
BGI_INLINE QUOTIENT_TARGET void QUOTIENT(ask_one)(const struct bgi_core *core,
                                                  uint64_t hash, uint64_t at)
{
    uint64_t quotient = quotient_key_of(core, hash).quotient;
    uint64_t slot = quotient % 64 * core->k / 8;
    BGI_PREFETCH(core->words + at);
    BGI_PREFETCH(core->words + at + sizeof(uint64_t) * QUOTIENT_META + slot);
    BGI_PREFETCH(quotient_state_of(core)->offsets + quotient / 512);
}

QUOTIENT_TARGET static void QUOTIENT(ask)(const struct bgi_core *core,
                                          const struct bgi_word *word)
{
    for (unsigned i = 0; i < word->n; i++) {
        QUOTIENT(ask_one)(core, word->hashes[i], word->at[i]);
    }
}

BGI_INLINE QUOTIENT_TARGET void
QUOTIENT(ask_next)(const struct bgi_core *core, const struct bgi_word *next, unsigned i)
{
    if (next && i < next->n) {
        QUOTIENT(ask_one)(core, next->hashes[i], next->at[i]);
    }
}

#define QUOTIENT_DEFINE_MODE(mode, exclusive)                                          \
    QUOTIENT_TARGET static bool QUOTIENT(has_##mode)(const struct bgi_core *core,      \
                                                     uint64_t hash)                    \
    {                                                                                  \
        return QUOTIENT(look)(core, hash, exclusive);                                  \
    }                                                                                  \
    QUOTIENT_TARGET static bool QUOTIENT(add_##mode)(struct bgi_core * core,           \
                                                     uint64_t hash)                    \
    {                                                                                  \
        return QUOTIENT(put)(core, hash, exclusive);                                   \
    }                                                                                  \
    QUOTIENT_TARGET static uint64_t QUOTIENT(has_word_##mode)(                         \
        const struct bgi_core *core, const struct bgi_word *word,                      \
        const struct bgi_word *next)                                                   \
    {                                                                                  \
        uint64_t answer = 0;                                                           \
        for (unsigned i = 0; i < 64; i++) {                                            \
            QUOTIENT(ask_next)(core, next, i);                                         \
            if (i < word->n) {                                                         \
                bool maybe = QUOTIENT(look)(core, word->hashes[i], exclusive);         \
                answer |= (uint64_t)maybe << i;                                        \
            }                                                                          \
        }                                                                              \
        return answer;                                                                 \
    }                                                                                  \
    QUOTIENT_TARGET static uint64_t QUOTIENT(add_word_##mode)(                         \
        struct bgi_core * core, const struct bgi_word *word,                           \
        const struct bgi_word *next)                                                   \
    {                                                                                  \
        uint64_t answer = 0;                                                           \
        for (unsigned i = 0; i < 64; i++) {                                            \
            QUOTIENT(ask_next)(core, next, i);                                         \
            if (i < word->n) {                                                         \
                bool is_new = QUOTIENT(put)(core, word->hashes[i], exclusive);         \
                answer |= (uint64_t)is_new << i;                                       \
            }                                                                          \
        }                                                                              \
        return answer;                                                                 \
    }                                                                                  \
    QUOTIENT_TARGET static bg_err QUOTIENT(insert_##mode)(struct bgi_core * core,      \
                                                          uint64_t hash, bool *is_new) \
    {                                                                                  \
        const struct quotient_state *state = quotient_state_of(core);                  \
        bg_err err = QUOTIENT(change)(core, hash, 1, exclusive, is_new);               \
        *is_new = *is_new && !__atomic_load_n(&state->lost, __ATOMIC_RELAXED);         \
        return err;                                                                    \
    }                                                                                  \
    QUOTIENT_TARGET static bg_err QUOTIENT(remove_##mode)(struct bgi_core * core,      \
                                                          uint64_t hash)               \
    {                                                                                  \
        const struct quotient_state *state = quotient_state_of(core);                  \
        bool unused;                                                                   \
        bg_err err = QUOTIENT(change)(core, hash, 0, exclusive, &unused);              \
        bool lost = __atomic_load_n(&state->lost, __ATOMIC_RELAXED) != 0;              \
        return err == BG_ENOTFOUND && lost ? BG_OK : err; /* it may be one of these */ \
    }                                                                                  \
    static const struct bgi_ops QUOTIENT(ops_##mode) = {                               \
        .has = QUOTIENT(has_##mode),                                                   \
        .add = QUOTIENT(add_##mode),                                                   \
        .locate = QUOTIENT(locate),                                                    \
        .has_word = QUOTIENT(has_word_##mode),                                         \
        .add_word = QUOTIENT(add_word_##mode),                                         \
        .ask = QUOTIENT(ask),                                                          \
        .insert = QUOTIENT(insert_##mode),                                             \
        .remove = QUOTIENT(remove_##mode),                                             \
        .count = QUOTIENT(count),                                                      \
    };

QUOTIENT_DEFINE_MODE(exclusive, true)
QUOTIENT_DEFINE_MODE(shared, false)

#undef QUOTIENT_DEFINE_MODE
#undef QUOTIENT
#undef QUOTIENT_PASTE
#undef QUOTIENT_PASTE_
#undef QUOTIENT_ISA
#undef QUOTIENT_TARGET
#undef QUOTIENT_ONES
#undef QUOTIENT_SELECT
