/*
 * quotient_core.h - the operations of quotient filters, compiled for one method of counting and
 * finding set bits.
 *
 * This file is included once for each method. Before each inclusion, these macros must be
 * defined:
 *
 *   QUOTIENT_ISA                  the suffix of all names
 *   QUOTIENT_TARGET               the function attribute that enables the instructions
 *   QUOTIENT_ONES(word)           the number of set bits
 *   QUOTIENT_SELECT(word, rank)   the position of the set bit with the given rank, counted
 *                                 from 0, or 64 if there are not enough set bits; the rank
 *                                 may be a constant
 *
 * Rank and select. The runs of a block's quotients follow one another in the order of their
 * quotients. There is one run for each bit of `occupieds`, and one bit of `runends` for each
 * run. So the run of the i-th occupied quotient of a block ends at the i-th runend, counted from
 * the end of the runs of earlier blocks. The block's offset specifies where those runs end.
 *
 *     occupieds   1 0 1 1 0 0 0 0        quotients 0, 2 and 3 have runs
 *     runends     0 0 1 1 0 1 0 0        which end in slots 2, 3 and 5
 *     slots       a a a b c c . .
 *     offset of the next block: 0; if this block ended one slot before the end of c: 1
 *
 * Offsets have 8 bits. An offset of 255 or more is stored as 255. The true value is found by
 * walking back to a block with a smaller offset, and then forward again. The offset of block 0 is
 * 0.
 *
 * In this file, the "stop" of a run is the slot after its last slot.
 */

#define QUOTIENT_PASTE_(a, b, c) a##_##b##_##c
#define QUOTIENT_PASTE(a, b, c)  QUOTIENT_PASTE_(a, b, c)
#define QUOTIENT(name)           QUOTIENT_PASTE(quotient, name, QUOTIENT_ISA)

/* ---- Locations of runs ------------------------------------------------------------ */

/* Returns the stop of the run with the given rank in a block, counted from 1. For rank 0, returns
 * the stop of the last run of earlier blocks. */
BGI_INLINE QUOTIENT_TARGET uint64_t QUOTIENT(stop_of_rank)(const struct bgi_core *core,
                                                           uint64_t block,
                                                           uint64_t offset,
                                                           uint64_t rank,
                                                           struct quotient_span *span)
{
    const struct quotient_state *state = quotient_state_of(core);
    uint64_t first = quotient_slots_in(core, block) + offset;
    if (rank == 0) {
        return first;
    }
    struct quotient_at from = quotient_at(core, first);
    uint64_t at = from.block, before = from.index;
    for (; at < state->blocks; at++, before = 0) {
        uint64_t ends = quotient_runends(core, at) & UINT64_MAX << before;
        uint64_t end = QUOTIENT_SELECT(ends, rank - 1);
        if (end < 64) {
            quotient_touch(span, at);
            return quotient_slots_in(core, at) + end + 1;
        }
        rank -= QUOTIENT_ONES(ends);
    }
    quotient_touch(span, state->blocks - 1);
    return state->slots; /* possible only if another thread is changing the table */
}

/* Returns the offset of a block whose stored offset is saturated. */
QUOTIENT_TARGET static uint64_t QUOTIENT(far_offset)(const struct bgi_core *core,
                                                     uint64_t block,
                                                     struct quotient_span *span)
{
    uint64_t from = block, offset;
    do {
        offset = quotient_stored_offset(core, --from);
    } while (from > 0 && offset == QUOTIENT_OFFSET_MAX);
    span->first = from < span->first ? from : span->first;
    for (; from < block; from++) {
        uint64_t runs = QUOTIENT_ONES(quotient_occupieds(core, from));
        uint64_t stop = QUOTIENT(stop_of_rank)(core, from, offset, runs, span);
        uint64_t next = quotient_slots_in(core, from + 1);
        offset = stop > next ? stop - next : 0;
    }
    return offset;
}

BGI_INLINE QUOTIENT_TARGET uint64_t QUOTIENT(offset)(const struct bgi_core *core,
                                                     uint64_t block,
                                                     struct quotient_span *span)
{
    uint64_t offset = quotient_stored_offset(core, block);
    return BGI_LIKELY(offset < QUOTIENT_OFFSET_MAX)
               ? offset
               : QUOTIENT(far_offset)(core, block, span);
}

/* Returns the stop of the last run that belongs to a quotient up to a slot's index. */
QUOTIENT_TARGET static uint64_t QUOTIENT(stop_upto)(const struct bgi_core *core,
                                                    uint64_t slot,
                                                    struct quotient_span *span)
{
    struct quotient_at at = quotient_at(core, slot);
    quotient_touch(span, at.block);
    uint64_t occupieds = quotient_occupieds(core, at.block);
    uint64_t rank = QUOTIENT_ONES(occupieds & UINT64_MAX >> (63 - at.index));
    return QUOTIENT(stop_of_rank)(core, at.block,
                                  QUOTIENT(offset)(core, at.block, span), rank, span);
}

/* Returns the n-th empty slot at or after a slot, or the number of slots if there are not enough
 * empty slots. A slot is empty if the runs of all quotients up to its index end before it. */
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

/* Returns the last slot that moves down when a slot before it is freed. The result is the first
 * slot s, at or after `slot`, such that no run of a quotient up to s extends past s. */
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

/* ---- Lookups ---------------------------------------------------------------------- */

/* The position of a remainder in the run of its quotient. */
struct QUOTIENT(place) {
    bool run; /* the quotient has a run */
    /* The start and the stop of the run; if there is no run, both are the slot where it would
     * start. */
    uint64_t start, stop;
    uint64_t at; /* position of the entry, or the position where it would be */
    struct quotient_entry entry; /* .slots is 0 if the entry is not present */
};

/* Returns the start of a quotient's run, or the slot where it would start, which is not before
 * the quotient's own slot. */
BGI_INLINE QUOTIENT_TARGET uint64_t QUOTIENT(run_start)(const struct bgi_core *core,
                                                        uint64_t quotient,
                                                        uint64_t occupieds,
                                                        struct quotient_span *span)
{
    struct quotient_at at = quotient_at(core, quotient);
    uint64_t rank = QUOTIENT_ONES(occupieds & quotient_below(at.index));
    uint64_t stop = QUOTIENT(stop_of_rank)(
        core, at.block, QUOTIENT(offset)(core, at.block, span), rank, span);
    return stop > quotient ? stop : quotient;
}

/* Searches a run for a remainder, starting at *at. Returns the remainder's entry, in which `slots`
 * is 0 if the remainder is not in the run. */
BGI_INLINE QUOTIENT_TARGET struct quotient_entry
QUOTIENT(walk)(const struct bgi_core *core, uint64_t *at, uint64_t remainder,
               struct quotient_span *span)
{
    const uint64_t slots = quotient_state_of(core)->slots;
    struct quotient_entry none = { .remainder = remainder };
    for (bool ended = false; !ended && *at < slots;) {
        struct quotient_entry entry = quotient_read(core, *at);
        quotient_touch(span, quotient_block_of(core, *at + entry.slots - 1));
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
    struct quotient_at home = quotient_at(core, key.quotient);
    uint64_t occupieds = quotient_occupieds(core, home.block);
    struct QUOTIENT(place) place = { .run = occupieds >> home.index & 1 };
    place.start = QUOTIENT(run_start)(core, key.quotient, occupieds, span);
    place.at = place.stop = place.start;
    if (place.run) {
        place.entry = QUOTIENT(walk)(core, &place.at, key.remainder, span);
        place.stop = QUOTIENT(stop_upto)(core, key.quotient, span);
    }
    return place;
}

/* Like find, but returns only whether the key may be present. */
QUOTIENT_TARGET static bool QUOTIENT(test)(const struct bgi_core *core,
                                           struct quotient_key key,
                                           struct quotient_span *span)
{
    struct quotient_at home = quotient_at(core, key.quotient);
    uint64_t occupieds = quotient_occupieds(core, home.block);
    if (!(occupieds >> home.index & 1)) {
        return false;
    }
    uint64_t at = QUOTIENT(run_start)(core, key.quotient, occupieds, span);
    return QUOTIENT(walk)(core, &at, key.remainder, span).slots != 0;
}

/*
 * A faster test, which for most keys has no branch that depends on the key. Such a branch is
 * often mispredicted, and in a large filter the misprediction is detected only when the data has
 * arrived from memory; until then, no other lookup can request its own data. Therefore, even for
 * quotients without a run, some run is searched, and the result is then ignored.
 */

/* Returns the byte offset of a hash's block, plus the quotient's index in the block, which is less
 * than the line size. */
BGI_INLINE uint64_t QUOTIENT(place_of)(const struct bgi_core *core, uint64_t hash)
{
    struct quotient_at at = quotient_at(core, quotient_key_of(core, hash).quotient);
    return at.block * QUOTIENT_LINE + at.index;
}

/* The values in a quotient's home line from which its run is found. */
struct QUOTIENT(home) {
    const uint64_t *block;
    uint64_t offset, rank, occupied, index;
};

/* `at` is the byte offset of the block plus the quotient's index in it. */
BGI_INLINE QUOTIENT_TARGET struct QUOTIENT(home)
    QUOTIENT(home_at)(const struct bgi_core *core, uint64_t at)
{
    struct QUOTIENT(home) home = { .index = at % QUOTIENT_LINE };
    home.block = (const uint64_t *)(const void *)(core->words + (at - home.index));
    uint64_t head = quotient_load(home.block), next = quotient_load(home.block + 1);
    uint64_t occupieds =
        head >> QUOTIENT_OFFSET_BITS | next << (64 - QUOTIENT_OFFSET_BITS);
    home.offset = head & QUOTIENT_OFFSET_MAX;
    home.rank = QUOTIENT_ONES(occupieds & quotient_below(home.index));
    home.occupied = occupieds >> home.index & 1;
    return home;
}

/* A line of the table and a run that starts in it. */
struct QUOTIENT(run) {
    const uint64_t *block;
    uint64_t start; /* index in the block; past its last slot if the run is elsewhere */
    uint64_t length; /* if the length exceeds 63, the run continues in another block */
    uint64_t runends;
};

/* Finds the run that follows the first `rank` runends after `offset`. The run starts at `least`
 * or later. */
BGI_INLINE QUOTIENT_TARGET struct QUOTIENT(run)
    QUOTIENT(run_behind)(const uint64_t *block, const struct quotient_shape *shape,
                         uint64_t offset, uint64_t rank, uint64_t least)
{
    struct QUOTIENT(run) run = { .block = block };
    run.runends = quotient_runends_of(block, shape);
    /* A bit is set for each slot that follows a runend; bit 0 is set for the run before the first
     * runend. */
    uint64_t starts = run.runends >> offset % 64 << offset % 64 << 1 | 1;
    uint64_t start = QUOTIENT_SELECT(starts, rank);
    least = least > offset ? least : offset;
    run.start = start > least ? start : least;
    run.length = QUOTIENT_SELECT(run.runends >> run.start % 64, 0) + 1;
    return run;
}

/* Returns the run of a quotient, or an arbitrary run if the quotient has none. */
BGI_INLINE QUOTIENT_TARGET struct QUOTIENT(run)
    QUOTIENT(run_of)(struct QUOTIENT(home) home, const struct quotient_shape *shape)
{
    return QUOTIENT(run_behind)(home.block, shape, home.offset, home.rank, home.index);
}

/* Returns whether all slots of a run are in its block and fit in a word. */
BGI_INLINE bool QUOTIENT(is_inside)(struct QUOTIENT(run) run,
                                    const struct quotient_shape *shape)
{
    return run.start < shape->slots && run.length <= shape->per_word;
}

/* Compares all slots of a run that is in its block and fits in a word. `occupied` is 0 if the
 * quotient has no run. Returns QUOTIENT_UNSURE if two neighboring slots are equal, because a match
 * may then be a digit of a count. */
BGI_INLINE QUOTIENT_TARGET enum quotient_answer
QUOTIENT(compare)(struct QUOTIENT(run) run, const struct quotient_shape *shape,
                  uint64_t remainder, uint64_t occupied)
{
    uint64_t bit = shape->slots_at + run.start * shape->width;
    uint64_t slots = quotient_bits_from(run.block, bit % (64 * QUOTIENT_WORDS));
    uint64_t within = UINT64_MAX >> (-run.length * shape->width & 63);
    uint64_t hits = quotient_zero_slots(shape, slots ^ remainder * shape->ones);
    if (BGI_LIKELY((hits & within & (0 - occupied)) == 0)) {
        return QUOTIENT_NO;
    }
    uint64_t equal = quotient_zero_slots(shape, slots ^ slots >> shape->width);
    return BGI_LIKELY(!(equal & within >> shape->width)) ? QUOTIENT_MAYBE
                                                         : QUOTIENT_UNSURE;
}

/* Searches a run that does not start in the block of its quotient. Returns QUOTIENT_UNSURE unless
 * the run is entirely in the next block, and both blocks are in the same region (only that region's
 * sequence number is checked). */
__attribute__((noinline)) QUOTIENT_TARGET static enum quotient_answer
QUOTIENT(test_next)(const struct bgi_core *core, uint64_t at, uint64_t remainder)
{
    const struct quotient_shape *shape = quotient_shape(core);
    struct QUOTIENT(home) home = QUOTIENT(home_at)(core, at);
    struct QUOTIENT(run) run = QUOTIENT(run_of)(home, shape);
    bool divided = run.start < shape->slots; /* or too long */
    bool watched = (at / QUOTIENT_LINE + 1) % QUOTIENT_REGION != 0;
    if (home.offset >= shape->slots || divided || !watched) {
        return QUOTIENT_UNSURE;
    }
    uint64_t passed = QUOTIENT_ONES(run.runends >> home.offset);
    run = QUOTIENT(run_behind)(home.block + QUOTIENT_WORDS, shape, 0,
                               home.rank - passed, 0);
    return QUOTIENT(is_inside)(run, shape) ? QUOTIENT(compare)(run, shape, remainder, 1)
                                           : QUOTIENT_UNSURE;
}

BGI_INLINE QUOTIENT_TARGET enum quotient_answer
QUOTIENT(test_home)(const struct bgi_core *core, struct QUOTIENT(home) home,
                    uint64_t at, uint64_t remainder)
{
    const struct quotient_shape *shape = quotient_shape(core);
    struct QUOTIENT(run) run = QUOTIENT(run_of)(home, shape);
    return BGI_LIKELY(QUOTIENT(is_inside)(run, shape) || !home.occupied)
               ? QUOTIENT(compare)(run, shape, remainder, home.occupied)
               : QUOTIENT(test_next)(core, at, remainder);
}

/* ---- Changing -------------------------------------------------------------------- */

enum QUOTIENT(opening) {
    QUOTIENT(OPEN_RUN),   /* the first slot of a new run */
    QUOTIENT(OPEN_END),   /* a slot after the last slot of a run */
    QUOTIENT(OPEN_INSIDE) /* a slot before another slot of the run */
};

/* Inserts one slot at `at` in the run of a quotient. `empty` is the next empty slot. */
QUOTIENT_TARGET static void QUOTIENT(open)(struct bgi_core *core, uint64_t quotient,
                                           uint64_t at, uint64_t empty,
                                           enum QUOTIENT(opening) how)
{
    quotient_slots_up(core, at, empty);
    quotient_set_runend(core, at, how != QUOTIENT(OPEN_INSIDE));
    if (how == QUOTIENT(OPEN_END)) {
        quotient_set_runend(core, at - 1, false);
    } else if (how == QUOTIENT(OPEN_RUN)) {
        quotient_set_occupied(core, quotient, true);
    }
    uint64_t block = quotient_block_of(core, quotient) + 1;
    for (uint64_t last = quotient_block_of(core, empty); block <= last; block++) {
        quotient_store_offset(core, block, quotient_stored_offset(core, block) + 1);
    }
}

/* Updates offsets after the run of `quotient` has lost one slot, and the slots after it up to
 * `last` have moved down. A saturated offset is recomputed, because its true value is not stored
 * anywhere. */
QUOTIENT_TARGET static void QUOTIENT(lower_offsets)(struct bgi_core *core,
                                                    uint64_t quotient, uint64_t last)
{
    uint64_t block = quotient_block_of(core, quotient);
    struct quotient_span unused = quotient_span_at(block);
    uint64_t offset = QUOTIENT(offset)(core, block, &unused);
    for (uint64_t end = quotient_block_of(core, last); ++block <= end;) {
        uint64_t stored = quotient_stored_offset(core, block);
        if (stored < QUOTIENT_OFFSET_MAX) {
            offset = stored - 1;
        } else {
            uint64_t runs = QUOTIENT_ONES(quotient_occupieds(core, block - 1));
            offset = QUOTIENT(stop_of_rank)(core, block - 1, offset, runs, &unused)
                     - quotient_slots_in(core, block);
        }
        quotient_store_offset(core, block, offset);
    }
}

/* Deletes slot `at` from the run [start, stop) of a quotient. */
QUOTIENT_TARGET static void QUOTIENT(close)(struct bgi_core *core, uint64_t quotient,
                                            uint64_t at, uint64_t start, uint64_t stop)
{
    struct quotient_span unused = quotient_span_at(quotient_block_of(core, quotient));
    uint64_t last = QUOTIENT(last_moved)(core, stop - 1, &unused);
    if (stop - start == 1) {
        quotient_set_occupied(core, quotient, false);
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
    uint64_t last;  /* for an add that needs slots, the last empty slot that it uses */
};

/* Plans to add a key `more` times. Returns BG_EFULL if the add would need slots past the end of the
 * table. */
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

/* Plans to remove a key once. A count at its maximum does not change. */
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

/* Returns how to insert the next slot for an entry that currently has `now` slots. */
BGI_INLINE QUOTIENT_TARGET enum QUOTIENT(opening)
    QUOTIENT(how_to_open)(const struct QUOTIENT(place) * place, uint64_t now)
{
    return now > 0                    ? QUOTIENT(OPEN_INSIDE)
           : !place->run              ? QUOTIENT(OPEN_RUN)
           : place->at == place->stop ? QUOTIENT(OPEN_END)
                                      : QUOTIENT(OPEN_INSIDE);
}

/* Lengthens or shortens the run and writes the entry. */
QUOTIENT_TARGET static void QUOTIENT(carry_out)(struct bgi_core *core,
                                                const struct QUOTIENT(plan) * plan)
{
    const struct QUOTIENT(place) *place = &plan->place;
    struct quotient_span unused =
        quotient_span_at(quotient_block_of(core, plan->key.quotient));
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

/* Executes a plan, unless it needs more slots than the limit allows. If other threads use the
 * filter, the caller must have locked the regions of the span. */
QUOTIENT_TARGET static bg_err QUOTIENT(commit)(struct bgi_core *core,
                                               const struct QUOTIENT(plan) * plan,
                                               struct quotient_span span,
                                               const bool exclusive)
{
    struct quotient_state *state = quotient_state_of(core);
    uint64_t more =
        plan->slots - plan->place.entry.slots; /* wraps modulo 2^64 if negative */
    uint64_t used = exclusive
                        ? (state->used += more)
                        : __atomic_add_fetch(&state->used, more, __ATOMIC_RELAXED);
    if (plan->slots > plan->place.entry.slots && used > state->limit) {
        (void)__atomic_sub_fetch(&state->used, more, __ATOMIC_RELAXED);
        return BG_EFULL;
    }
    span.first =
        quotient_block_of(core, plan->key.quotient); /* earlier blocks were only read */
    if (exclusive) {
        QUOTIENT(carry_out)(core, plan);
    } else {
        quotient_next_number(core, quotient_range_of(span));
        QUOTIENT(carry_out)(core, plan);
        quotient_next_number(core, quotient_range_of(span));
    }
    return BG_OK;
}

/* Adds a key `more` times, or removes it once if `more` is 0. The caller must have exclusive access
 * to the filter (`exclusive`), or hold the locks of all regions in `range`. If these regions do not
 * cover all blocks that the operation touches, nothing is changed, the range is widened, and *again
 * is set to true. */
BGI_INLINE QUOTIENT_TARGET bg_err QUOTIENT(change_within)(struct bgi_core *core,
                                                          uint64_t hash, uint64_t more,
                                                          const bool exclusive,
                                                          struct quotient_range *range,
                                                          bool *again, bool *is_new)
{
    struct QUOTIENT(plan) plan = { .key = quotient_key_of(core, hash) };
    struct quotient_span span =
        quotient_span_at(quotient_block_of(core, plan.key.quotient));
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
    uint64_t block = quotient_block_of(core, quotient_key_of(core, hash).quotient);
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

/* The number of attempts after which a lookup answers "maybe" because its region keeps changing. */
enum { QUOTIENT(PATIENCE) = 1 << 16 };

QUOTIENT_TARGET static bool QUOTIENT(test_patiently)(const struct bgi_core *core,
                                                     struct quotient_key key)
{
    uint64_t block = quotient_block_of(core, key.quotient), before;
    struct quotient_range range = quotient_range_of(quotient_span_at(block));
    for (unsigned tries = 0; tries < QUOTIENT(PATIENCE); tries++) {
        struct quotient_span span = quotient_span_at(block);
        if (!quotient_sequence(core, range, &before)) {
            bgi_pause();
        } else if (QUOTIENT(test)(core, key, &span)) {
            return true;
        } else if (quotient_unchanged(core, &range, span, before)) {
            return false;
        }
    }
    return true;
}

/* Handles lookups for which the fast test gives no reliable answer. */
__attribute__((noinline)) QUOTIENT_TARGET static bool
QUOTIENT(look_again)(const struct bgi_core *core, uint64_t hash)
{
    return QUOTIENT(test_patiently)(core, quotient_key_of(core, hash))
           || __atomic_load_n(&quotient_state_of(core)->lost, __ATOMIC_RELAXED) != 0;
}

/* Returns whether the filter may contain a key. A "no" is trusted only if no slots moved during the
 * lookup. */
BGI_INLINE QUOTIENT_TARGET bool QUOTIENT(look)(const struct bgi_core *core,
                                               uint64_t hash, const bool exclusive)
{
    const struct quotient_state *state = quotient_state_of(core);
    const uint64_t at = QUOTIENT(place_of)(core, hash);
    const uint64_t *region = &state->regions[at / QUOTIENT_LINE / QUOTIENT_REGION];
    uint64_t before = exclusive ? 0 : quotient_load(region) >> 1, doubt;
    BGI_PREFETCH(core->words + at + quotient_shape(core)->margin);
    struct QUOTIENT(home) home = QUOTIENT(home_at)(core, at);
    enum quotient_answer answer = QUOTIENT_NO;
    /* This branch is often mispredicted, but by the time the misprediction is detected, the cache
     * lines for the next lookups have already been requested. The branch makes the lookup shorter,
     * so more lines are in flight (36 ns instead of 54 at 1e7 keys). */
    if (home.occupied) {
        answer = QUOTIENT(test_home)(core, home, at, quotient_remainder(core, hash));
    }
    if (answer == QUOTIENT_MAYBE) {
        return true;
    }
    doubt = (uint64_t)(answer == QUOTIENT_UNSURE)
            | __atomic_load_n(&state->lost, __ATOMIC_RELAXED);
    if (!exclusive) {
        doubt |= (before & 1) | (before ^ quotient_load(region) >> 1);
    }
    return BGI_UNLIKELY(doubt) && QUOTIENT(look_again)(core, hash);
}

/* Any lost add may have been an add of this key, so the count includes all lost adds. */
QUOTIENT_TARGET static uint64_t QUOTIENT(count)(const struct bgi_core *core,
                                                uint64_t hash)
{
    const struct quotient_state *state = quotient_state_of(core);
    struct quotient_key key = quotient_key_of(core, hash);
    uint64_t block = quotient_block_of(core, key.quotient), before, count = 0;
    struct quotient_range range = quotient_range_of(quotient_span_at(block));
    struct quotient_span span;
    bool steady;
    do {
        span = quotient_span_at(block);
        steady = quotient_sequence(core, range, &before);
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
                                             struct bgi_group *group)
{
    for (unsigned i = 0; i < group->n; i++) {
        group->at[i] = QUOTIENT(place_of)(core, group->hashes[i]);
    }
}

/* Prefetches a key's block, and also the next block if the run may have been pushed there. For an
 * index near the end of a block, index + margin is in the next line. */
BGI_INLINE QUOTIENT_TARGET void QUOTIENT(prefetch_one)(const struct bgi_core *core,
                                                       uint64_t at)
{
    BGI_PREFETCH(core->words + at);
    BGI_PREFETCH(core->words + at + quotient_shape(core)->margin);
}

QUOTIENT_TARGET static void QUOTIENT(prefetch)(const struct bgi_core *core,
                                               const struct bgi_group *group)
{
    for (unsigned i = 0; i < group->n; i++) {
        QUOTIENT(prefetch_one)(core, group->at[i]);
    }
}

BGI_INLINE QUOTIENT_TARGET void QUOTIENT(prefetch_next)(const struct bgi_core *core,
                                                        const struct bgi_group *next,
                                                        unsigned i)
{
    if (next && i < next->n) {
        QUOTIENT(prefetch_one)(core, next->at[i]);
    }
}

/* The result of the first pass over a group: the indexes of the keys whose quotients have runs,
 * stored contiguously, and the state of each key's region, read before the key's block. */
struct QUOTIENT(first_pass) {
    uint64_t before[64];
    uint8_t key[64], rank[64];
    unsigned occupied;
};

BGI_INLINE const uint64_t *QUOTIENT(region_of)(const struct bgi_core *core, uint64_t at)
{
    return quotient_region(core, at / QUOTIENT_LINE / QUOTIENT_REGION);
}

BGI_INLINE QUOTIENT_TARGET void
QUOTIENT(pass_first)(const struct bgi_core *core, const struct bgi_group *group,
                     const struct bgi_group *next, const bool exclusive,
                     struct QUOTIENT(first_pass) * first)
{
    unsigned i = 0, n = 0, ahead = next ? next->n : 0;
    for (; i < group->n; i++) {
        if (i < ahead) {
            QUOTIENT(prefetch_one)(core, next->at[i]);
        }
        if (!exclusive) {
            first->before[i] = quotient_load(QUOTIENT(region_of)(core, group->at[i]));
        }
        struct QUOTIENT(home) home = QUOTIENT(home_at)(core, group->at[i]);
        first->key[n] = (uint8_t)i;
        first->rank[n] = (uint8_t)home.rank;
        n += (unsigned)home.occupied;
    }
    for (; i < ahead; i++) {
        QUOTIENT(prefetch_one)(core, next->at[i]);
    }
    first->occupied = n;
}

/* Returns a mask of the keys whose regions have changed since the start of the first pass, or were
 * being changed at that time. */
QUOTIENT_TARGET static uint64_t
QUOTIENT(disturbed)(const struct bgi_core *core, const struct bgi_group *group,
                    const struct QUOTIENT(first_pass) * first)
{
    uint64_t disturbed = 0;
    for (unsigned i = 0; i < group->n; i++) {
        uint64_t before = first->before[i] >> 1;
        uint64_t now = quotient_load(QUOTIENT(region_of)(core, group->at[i])) >> 1;
        disturbed |= (uint64_t)((before & 1) | (before != now)) << i;
    }
    return disturbed;
}

/* Uses two passes, because about half of the quotients have no run, and the CPU cannot predict
 * which ones. */
BGI_INLINE QUOTIENT_TARGET uint64_t QUOTIENT(look_word)(const struct bgi_core *core,
                                                        const struct bgi_group *group,
                                                        const struct bgi_group *next,
                                                        const bool exclusive)
{
    struct QUOTIENT(first_pass) first;
    uint64_t maybe = 0, unsure = 0;
    QUOTIENT(pass_first)(core, group, next, exclusive, &first);
    for (unsigned j = 0; j < first.occupied; j++) {
        unsigned i = first.key[j];
        uint64_t at = group->at[i], index = at % QUOTIENT_LINE;
        const unsigned char *line = core->words + (at - index);
        struct QUOTIENT(home) home = { .block = (const uint64_t *)(const void *)line,
                                       .rank = first.rank[j],
                                       .occupied = 1,
                                       .index = index };
        home.offset = quotient_load(home.block) & QUOTIENT_OFFSET_MAX;
        enum quotient_answer answer = QUOTIENT(test_home)(
            core, home, at, quotient_remainder(core, group->hashes[i]));
        maybe |= (uint64_t)(answer == QUOTIENT_MAYBE) << i;
        unsure |= (uint64_t)(answer == QUOTIENT_UNSURE) << i;
    }
    if (!exclusive) {
        unsure |= QUOTIENT(disturbed)(core, group, &first) & ~maybe;
    }
    if (BGI_UNLIKELY(
            __atomic_load_n(&quotient_state_of(core)->lost, __ATOMIC_RELAXED))) {
        unsure = UINT64_MAX >> (64 - group->n) & ~maybe;
    }
    for (; unsure; unsure &= unsure - 1) {
        unsigned i = (unsigned)__builtin_ctzll(unsure);
        maybe |= (uint64_t)QUOTIENT(look_again)(core, group->hashes[i]) << i;
    }
    return maybe;
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
    QUOTIENT_TARGET static uint64_t QUOTIENT(has_group_##mode)(                        \
        const struct bgi_core *core, const struct bgi_group *group,                    \
        const struct bgi_group *next)                                                  \
    {                                                                                  \
        return QUOTIENT(look_word)(core, group, next, exclusive);                      \
    }                                                                                  \
    QUOTIENT_TARGET static uint64_t QUOTIENT(add_group_##mode)(                        \
        struct bgi_core * core, const struct bgi_group *group,                         \
        const struct bgi_group *next)                                                  \
    {                                                                                  \
        uint64_t answer = 0;                                                           \
        for (unsigned i = 0; i < 64; i++) {                                            \
            QUOTIENT(prefetch_next)(core, next, i);                                    \
            if (i < group->n) {                                                        \
                bool is_new = QUOTIENT(put)(core, group->hashes[i], exclusive);        \
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
        return err == BG_ENOTFOUND && lost ? BG_OK : err; /* its add may be lost */    \
    }                                                                                  \
    static const struct bgi_ops QUOTIENT(ops_##mode) = {                               \
        .has = QUOTIENT(has_##mode),                                                   \
        .add = QUOTIENT(add_##mode),                                                   \
        .locate = QUOTIENT(locate),                                                    \
        .has_group = QUOTIENT(has_group_##mode),                                       \
        .add_group = QUOTIENT(add_group_##mode),                                       \
        .prefetch = QUOTIENT(prefetch),                                                \
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
