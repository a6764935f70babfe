/*
 * quotient_table.h - the words of a quotient filter: where blocks, slots, bits and offsets
 * are, how slots move by one, and how a count is written into slots. Nothing here knows
 * which run a slot belongs to: that is quotient_core.h.
 *
 *     words  [ block 0 ][ block 1 ] ... [ block n-1 ][ offsets: 8 to a word ]
 *     block  [ occupieds ][ runends ][ 64 remainders of r bits: r words ]
 *
 * A remainder is read from the word it begins in and the next one, whether it needs it or
 * not; behind the last block the offsets are that next word.
 *
 * Every word is loaded with acquire and stored with release order: plain instructions on
 * x86, and what the argument in quotient.c rests on.
 */
#ifndef BGI_QUOTIENT_TABLE_H
#define BGI_QUOTIENT_TABLE_H

#include "base/bits.h"
#include "kind/kind.h"

enum {
    QUOTIENT_BLOCK = 64,       /* slots */
    QUOTIENT_GROUP = 8,        /* blocks of a unit: their offsets fill a word */
    QUOTIENT_META = 2,         /* words of a block before its remainders */
    QUOTIENT_REGION = 64,      /* blocks that share a lock and a sequence number */
    QUOTIENT_OFFSET_MOST = 255 /* "this or more": see quotient_core.h */
};

/* As many slots as fit a word, to be compared all at once. */
struct quotient_slots {
    uint64_t ones;  /* 1 in each */
    uint64_t tops;  /* the top bit of each */
    uint32_t width; /* r */
    uint32_t per_word;
};

/* Fixed from setup on but for the last three. */
struct quotient_state {
    uint64_t *offsets;
    uint64_t blocks; /* with those behind the last quotient */
    uint64_t slots;
    uint64_t limit; /* slots in use at most */
    struct quotient_slots type;
    uint64_t quotient_bits;          /* q */
    uint64_t lost;                   /* adds that found no room */
    _Alignas(64) uint64_t used;      /* slots in use */
    _Alignas(64) uint64_t regions[]; /* see quotient_sync.h */
};

enum quotient_answer { QUOTIENT_NO, QUOTIENT_MAYBE, QUOTIENT_UNSURE };

/* What a hash is to a table. */
struct quotient_key {
    uint64_t quotient;
    uint64_t remainder;
};

/* One remainder of a run, and how it is written. */
struct quotient_entry {
    uint64_t remainder;
    uint64_t count;
    uint64_t slots; /* 0: it is not there */
};

BGI_INLINE struct quotient_state *quotient_state_of(const struct bgi_core *core)
{
    return core->state;
}

BGI_INLINE struct quotient_key quotient_key_of(const struct bgi_core *core,
                                               uint64_t hash)
{
    uint64_t q = quotient_state_of(core)->quotient_bits;
    return (struct quotient_key){ hash >> (64 - q), hash << q >> (64 - core->k) };
}

/* The bits of a hash that are kept, at their place. */
BGI_INLINE uint64_t quotient_prefix(const struct bgi_core *core,
                                    struct quotient_key key)
{
    uint64_t q = quotient_state_of(core)->quotient_bits;
    return key.quotient << (64 - q) | key.remainder << (64 - core->k) >> q;
}

BGI_INLINE uint64_t quotient_load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

BGI_INLINE void quotient_store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* Bits below bit n, which is at most 63. */
BGI_INLINE uint64_t quotient_below(uint64_t n)
{
    return ((uint64_t)1 << n) - 1;
}

BGI_INLINE uint64_t *quotient_block(const struct bgi_core *core, uint64_t block)
{
    return (uint64_t *)(void *)core->words + block * (QUOTIENT_META + core->k);
}

BGI_INLINE uint64_t *quotient_occupieds(const struct bgi_core *core, uint64_t block)
{
    return quotient_block(core, block);
}

BGI_INLINE uint64_t *quotient_runends(const struct bgi_core *core, uint64_t block)
{
    return quotient_block(core, block) + 1;
}

BGI_INLINE uint64_t *quotient_remainders(const struct bgi_core *core, uint64_t block)
{
    return quotient_block(core, block) + QUOTIENT_META;
}

/* ---- Single bits, slots and offsets -------------------------------------------------- */

BGI_INLINE void quotient_set_bit(uint64_t *word, uint64_t bit, bool on)
{
    uint64_t one = (uint64_t)1 << bit % 64, old = quotient_load(word);
    quotient_store(word, on ? old | one : old & ~one);
}

BGI_INLINE bool quotient_is_runend(const struct bgi_core *core, uint64_t slot)
{
    return quotient_load(quotient_runends(core, slot / 64)) >> slot % 64 & 1;
}

BGI_INLINE void quotient_set_runend(struct bgi_core *core, uint64_t slot, bool on)
{
    quotient_set_bit(quotient_runends(core, slot / 64), slot, on);
}

/* 64 bits of an array of words; one word more than they need may be read. */
BGI_INLINE uint64_t quotient_bits_from(const uint64_t *words, uint64_t bit)
{
    unsigned shift = (unsigned)(bit % 64);
    words += bit / 64;
    return quotient_load(words) >> shift
           | quotient_load(words + 1) << 1 << (63 - shift);
}

BGI_INLINE uint64_t quotient_slot(const struct bgi_core *core, uint64_t slot)
{
    const uint64_t *words = quotient_remainders(core, slot / 64);
    return quotient_bits_from(words, slot % 64 * core->k) & quotient_below(core->k);
}

/* The top bit of each slot of a word that is 0: in one that is not, the top bit is set, or
 * another that carries into it. */
BGI_INLINE uint64_t quotient_zero_slots(struct quotient_slots type, uint64_t slots)
{
    uint64_t rest = type.tops - type.ones;
    return ~(((slots & rest) + rest) | slots) & type.tops;
}

BGI_INLINE void quotient_set_slot(struct bgi_core *core, uint64_t slot, uint64_t value)
{
    uint64_t bit = slot % 64 * core->k, mask = quotient_below(core->k);
    uint64_t *word = quotient_remainders(core, slot / 64) + bit / 64;
    unsigned shift = (unsigned)(bit % 64);
    quotient_store(word, (quotient_load(word) & ~(mask << shift)) | value << shift);
    if (shift + core->k > 64) {
        unsigned low = 64 - shift;
        word++;
        quotient_store(word, (quotient_load(word) & ~(mask >> low)) | value >> low);
    }
}

BGI_INLINE uint64_t quotient_stored_offset(const struct bgi_core *core, uint64_t block)
{
    const uint64_t *word = quotient_state_of(core)->offsets + block / 8;
    return quotient_load(word) >> block % 8 * 8 & QUOTIENT_OFFSET_MOST;
}

BGI_INLINE void quotient_store_offset(struct bgi_core *core, uint64_t block,
                                      uint64_t offset)
{
    uint64_t *word = quotient_state_of(core)->offsets + block / 8;
    unsigned shift = (unsigned)(block % 8 * 8);
    uint64_t value = offset < QUOTIENT_OFFSET_MOST ? offset : QUOTIENT_OFFSET_MOST;
    uint64_t rest = quotient_load(word) & ~((uint64_t)QUOTIENT_OFFSET_MOST << shift);
    quotient_store(word, rest | value << shift);
}

/* ---- Moving slots -------------------------------------------------------------------- */

/* The bits of word `w` of an array that lie in [from, to). */
BGI_INLINE uint64_t quotient_mask(uint64_t w, uint64_t from, uint64_t to)
{
    uint64_t low = from > 64 * w ? from - 64 * w : 0;
    uint64_t high = to < 64 * w + 64 ? to - 64 * w : 64;
    return UINT64_MAX << low & UINT64_MAX >> (64 - high);
}

BGI_INLINE void quotient_replace(uint64_t *word, uint64_t mask, uint64_t bits)
{
    quotient_store(word, (quotient_load(word) & ~mask) | (bits & mask));
}

/* Moves the bits [from, to) of an array up by `by`, 1 .. 63. */
BGI_INLINE void quotient_bits_up(uint64_t *words, uint64_t from, uint64_t to,
                                 unsigned by)
{
    if (from >= to) {
        return;
    }
    uint64_t first = (from + by) / 64;
    for (uint64_t w = (to + by - 1) / 64 + 1; w-- > first;) {
        uint64_t lower = w ? quotient_load(&words[w - 1]) >> (64 - by) : 0;
        quotient_replace(&words[w], quotient_mask(w, from + by, to + by),
                         quotient_load(&words[w]) << by | lower);
    }
}

/* ... and down. */
BGI_INLINE void quotient_bits_down(uint64_t *words, uint64_t from, uint64_t to,
                                   unsigned by)
{
    if (from >= to) {
        return;
    }
    uint64_t last = (to - 1) / 64;
    for (uint64_t w = (from - by) / 64; w <= (to - by - 1) / 64; w++) {
        uint64_t upper = w < last ? quotient_load(&words[w + 1]) << (64 - by) : 0;
        quotient_replace(&words[w], quotient_mask(w, from - by, to - by),
                         quotient_load(&words[w]) >> by | upper);
    }
}

/* Moves the slots [from, to), with their runends, up by one; what was in `to` is gone. */
BGI_INLINE void quotient_slots_up(struct bgi_core *core, uint64_t from, uint64_t to)
{
    for (uint64_t b = to / 64 + 1; b-- > from / 64;) {
        uint64_t low = b == from / 64 ? from % 64 : 0;
        uint64_t high = b == to / 64 ? to % 64 : 63;
        quotient_bits_up(quotient_remainders(core, b), low * core->k, high * core->k,
                         core->k);
        quotient_bits_up(quotient_runends(core, b), low, high, 1);
        if (b > from / 64) {
            quotient_set_slot(core, 64 * b, quotient_slot(core, 64 * b - 1));
            quotient_set_runend(core, 64 * b, quotient_is_runend(core, 64 * b - 1));
        }
    }
}

/* Moves the slots (to, last] down by one, over the one in `to`; `last` becomes empty. */
BGI_INLINE void quotient_slots_down(struct bgi_core *core, uint64_t to, uint64_t last)
{
    for (uint64_t b = to / 64; b <= last / 64; b++) {
        uint64_t low = b == to / 64 ? to % 64 + 1 : 1;
        uint64_t high = b == last / 64 ? last % 64 + 1 : 64;
        quotient_bits_down(quotient_remainders(core, b), low * core->k, high * core->k,
                           core->k);
        quotient_bits_down(quotient_runends(core, b), low, high, 1);
        if (b < last / 64) {
            quotient_set_slot(core, 64 * b + 63, quotient_slot(core, 64 * b + 64));
            quotient_set_runend(core, 64 * b + 63,
                                quotient_is_runend(core, 64 * b + 64));
        }
    }
    quotient_set_slot(core, last, 0);
    quotient_set_runend(core, last, false);
}

/* ---- Counts -------------------------------------------------------------------------- */

/*
 * A remainder x that was added once is one slot, x; twice, two; and from three times on
 * it is x x x and the digits of count - 3, lowest first, of r - 1 bits each, the top bit
 * of a slot saying that another one follows. Remainders of a run ascend, so three equal
 * slots mean nothing else.
 */
BGI_INLINE uint64_t quotient_slots_for(const struct bgi_core *core, uint64_t count)
{
    if (count < 3) {
        return count;
    }
    uint64_t slots = 4;
    for (uint64_t rest = (count - 3) >> (core->k - 1); rest; rest >>= core->k - 1) {
        slots++;
    }
    return slots;
}

BGI_INLINE void quotient_write(struct bgi_core *core, uint64_t at, uint64_t remainder,
                               uint64_t count)
{
    const unsigned bits = core->k - 1;
    for (uint64_t i = 0; i < 3 && i < count; i++) {
        quotient_set_slot(core, at++, remainder);
    }
    if (count < 3) {
        return;
    }
    uint64_t rest = count - 3;
    do {
        uint64_t digit = rest & quotient_below(bits);
        rest >>= bits;
        quotient_set_slot(core, at++, digit | (uint64_t)(rest != 0) << bits);
    } while (rest);
}

BGI_INLINE uint64_t quotient_sum(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/* Whether slot `at` + 1 is of the same run and has this remainder as well. */
BGI_INLINE bool quotient_repeats(const struct bgi_core *core, uint64_t at,
                                 uint64_t remainder)
{
    return at + 1 < quotient_state_of(core)->slots && !quotient_is_runend(core, at)
           && quotient_slot(core, at + 1) == remainder;
}

/* The entry that begins at a slot. What is being changed may be read as any numbers, but
 * not from outside of the table. */
BGI_INLINE struct quotient_entry quotient_read(const struct bgi_core *core, uint64_t at)
{
    uint64_t x = quotient_slot(core, at), value = 0;
    struct quotient_entry entry = { .remainder = x, .count = 1, .slots = 1 };
    if (BGI_LIKELY(!quotient_repeats(core, at, x))) {
        return entry;
    }
    if (!quotient_repeats(core, at + 1, x)) {
        entry.count = entry.slots = 2;
        return entry;
    }
    const unsigned bits = core->k - 1;
    uint64_t from = at + 3, end = quotient_state_of(core)->slots;
    bool more = true;
    for (unsigned shift = 0; more && shift < 64 && from < end; shift += bits) {
        uint64_t digit = quotient_slot(core, from++);
        value |= (digit & quotient_below(bits)) << shift;
        more = digit >> bits;
    }
    entry.slots = from - at;
    entry.count = quotient_sum(value, 3);
    return entry;
}

#endif
