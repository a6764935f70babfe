/*
 * quotient_table.h - the memory layout of a quotient filter: the positions of blocks, slots, bits
 * and offsets, the code that moves slots by one, and the encoding of counts in slots. This file
 * does not deal with runs; quotient_core.h does.
 *
 * A block is a cache line of 8 words. It contains as many slots of r bits as fit, s in total:
 *
 *     bit  0        8          8 + s      8 + 2s                          512
 *          [ offset ][ occupieds ][ runends ][ s remainders of r bits ][ - ]
 *
 *     r      2 .. 6     7     8     9    10    12    16    24    32
 *     s          63    56    50    45    42    36    28    19    14
 *
 * As a result, most lookups read one line. The cost of this alignment is a few bits after the last
 * slot. With fewer than 6 bits per slot the cost is higher, because a block could hold more than 63
 * slots, but one bit for each of these slots would not fit in a word. Slots are numbered across all
 * blocks: slot i is in block i / s. The divisor is constant for each filter, so the division is
 * done as a multiplication.
 *
 * Every word is loaded with acquire order and stored with release order. The proof in quotient.c
 * depends on this order, which costs nothing on x86, where such loads and stores are plain
 * instructions.
 */
#ifndef BGI_QUOTIENT_TABLE_H
#define BGI_QUOTIENT_TABLE_H

#include "base/bits.h"
#include "kind/kind.h"

enum {
    QUOTIENT_WORDS = 8, /* per block */
    QUOTIENT_LINE = QUOTIENT_WORDS * 8,
    QUOTIENT_OFFSET_BITS = 8,
    QUOTIENT_OFFSET_MAX = 255, /* means 255 or more: see quotient_core.h */
    QUOTIENT_SLOTS_MAX = 63,   /* per block */
    QUOTIENT_REGION = 64 /* number of blocks that share a lock and a sequence number */
};

/* The parameters that are computed from r, the number of bits in a remainder. */
struct quotient_shape {
    uint64_t inverse; /* 2^64 / slots, rounded up */
    uint64_t all;     /* one bit per slot of a block */
    uint64_t ones;    /* the lowest bit of each slot that fits in a word */
    uint64_t tops;    /* the top bit of each slot that fits in a word */
    uint32_t width;   /* r */
    uint32_t per_word;
    uint32_t slots;         /* s */
    uint32_t slots_at;      /* offset of the slots in a block, in bits */
    uint32_t runends_at;    /* offset of the runends in a block, in bits */
    uint32_t runends_word;  /* index of the word that contains the first runend */
    uint32_t runends_shift; /* position of the first runend in that word */
    /* For an index in the last quarter of a block, index + margin is in the next line. */
    uint32_t margin;
};

/* All members except the last three are constant after setup. */
struct quotient_state {
    struct quotient_shape shape;
    uint64_t blocks; /* number of blocks, including those after the last quotient */
    uint64_t slots;
    uint64_t limit;             /* maximum number of slots in use */
    uint64_t quotient_bits;     /* q */
    uint64_t tail_bits;         /* number of hash bits after the first q + r */
    uint64_t lost;              /* number of forced adds that found no free slots */
    _Alignas(64) uint64_t used; /* slots in use */
    _Alignas(64) uint64_t regions[]; /* see quotient_sync.h */
};

enum quotient_answer { QUOTIENT_NO, QUOTIENT_MAYBE, QUOTIENT_UNSURE };

/* The quotient and the remainder of a hash. */
struct quotient_key {
    uint64_t quotient;
    uint64_t remainder;
};

/* One remainder in a run, its count, and its number of slots. */
struct quotient_entry {
    uint64_t remainder;
    uint64_t count;
    uint64_t slots; /* 0 if the remainder is not present */
};

BGI_INLINE struct quotient_state *quotient_state_of(const struct bgi_core *core)
{
    return core->state;
}

BGI_INLINE uint64_t quotient_load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

BGI_INLINE void quotient_store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* Returns a mask of the bits below bit n, which is at most 63. */
BGI_INLINE uint64_t quotient_below(uint64_t n)
{
    return ((uint64_t)1 << n) - 1;
}

BGI_INLINE uint64_t quotient_remainder(const struct bgi_core *core, uint64_t hash)
{
    return hash >> quotient_state_of(core)->tail_bits & quotient_below(core->k);
}

BGI_INLINE struct quotient_key quotient_key_of(const struct bgi_core *core,
                                               uint64_t hash)
{
    uint64_t q = quotient_state_of(core)->quotient_bits;
    return (struct quotient_key){ hash >> (64 - q), quotient_remainder(core, hash) };
}

/* Returns the stored bits of a hash, at their original positions. */
BGI_INLINE uint64_t quotient_prefix(const struct bgi_core *core,
                                    struct quotient_key key)
{
    uint64_t q = quotient_state_of(core)->quotient_bits;
    return key.quotient << (64 - q) | key.remainder << (64 - core->k) >> q;
}

/* Returns the number of slots per block for remainders of k bits. */
BGI_INLINE uint32_t quotient_block_slots(uint32_t k)
{
    uint32_t fit = (64 * QUOTIENT_WORDS - QUOTIENT_OFFSET_BITS) / (k + 2);
    return fit < QUOTIENT_SLOTS_MAX ? fit : QUOTIENT_SLOTS_MAX;
}

BGI_INLINE struct quotient_shape quotient_shape_of(uint32_t k)
{
    struct quotient_shape shape = { .width = k, .per_word = 64 / k };
    shape.slots = quotient_block_slots(k);
    shape.inverse = UINT64_MAX / shape.slots + 1;
    shape.all = quotient_below(shape.slots);
    shape.runends_at = QUOTIENT_OFFSET_BITS + shape.slots;
    shape.runends_word = shape.runends_at / 64;
    shape.runends_shift = shape.runends_at % 64;
    shape.slots_at = shape.runends_at + shape.slots;
    shape.margin = QUOTIENT_LINE - (shape.slots - shape.slots / 4);
    for (uint32_t i = 0; i < shape.per_word; i++) {
        shape.ones |= (uint64_t)1 << i * k;
    }
    shape.tops = shape.ones << (k - 1);
    return shape;
}

BGI_INLINE const struct quotient_shape *quotient_shape(const struct bgi_core *core)
{
    return &quotient_state_of(core)->shape;
}

/* Returns the number of slots in `blocks` blocks, which is also the first slot of the next
 * block. */
BGI_INLINE uint64_t quotient_slots_in(const struct bgi_core *core, uint64_t blocks)
{
    return blocks * quotient_shape(core)->slots;
}

/* The position of a slot, or of a quotient's bit. */
struct quotient_at {
    uint64_t block;
    uint64_t index;
};

BGI_INLINE struct quotient_at quotient_at(const struct bgi_core *core, uint64_t slot)
{
    const struct quotient_shape *shape = quotient_shape(core);
    uint64_t block = bgi_mulhi(slot, shape->inverse);
    return (struct quotient_at){ block, slot - block * shape->slots };
}

BGI_INLINE uint64_t quotient_block_of(const struct bgi_core *core, uint64_t slot)
{
    return bgi_mulhi(slot, quotient_shape(core)->inverse);
}

BGI_INLINE uint64_t *quotient_block(const struct bgi_core *core, uint64_t block)
{
    return (uint64_t *)(void *)core->words + block * QUOTIENT_WORDS;
}

/* ---- Single bits, slots and offsets -------------------------------------------------- */

/* Returns 64 bits of a block, starting at `bit`. Bits after the end of the block are
 * undefined. */
BGI_INLINE uint64_t quotient_bits_from(const uint64_t *block, uint64_t bit)
{
    unsigned shift = (unsigned)(bit % 64);
    uint64_t word = bit / 64, next = (word + 1) % QUOTIENT_WORDS;
    return quotient_load(block + word) >> shift
           | quotient_load(block + next) << 1 << (~shift & 63);
}

BGI_INLINE void quotient_set_bit(uint64_t *block, uint64_t bit, bool on)
{
    uint64_t one = (uint64_t)1 << bit % 64, old = quotient_load(block + bit / 64);
    quotient_store(block + bit / 64, on ? old | one : old & ~one);
}

BGI_INLINE uint64_t quotient_occupieds(const struct bgi_core *core, uint64_t block)
{
    return quotient_bits_from(quotient_block(core, block), QUOTIENT_OFFSET_BITS)
           & quotient_shape(core)->all;
}

BGI_INLINE void quotient_set_occupied(struct bgi_core *core, uint64_t quotient, bool on)
{
    struct quotient_at at = quotient_at(core, quotient);
    quotient_set_bit(quotient_block(core, at.block), QUOTIENT_OFFSET_BITS + at.index,
                     on);
}

BGI_INLINE uint64_t quotient_runends_of(const uint64_t *block,
                                        const struct quotient_shape *shape)
{
    const uint64_t *words = block + shape->runends_word;
    return (quotient_load(words) >> shape->runends_shift
            | quotient_load(words + 1) << 1 << (~shape->runends_shift & 63))
           & shape->all;
}

BGI_INLINE uint64_t quotient_runends(const struct bgi_core *core, uint64_t block)
{
    return quotient_runends_of(quotient_block(core, block), quotient_shape(core));
}

BGI_INLINE bool quotient_is_runend(const struct bgi_core *core, uint64_t slot)
{
    struct quotient_at at = quotient_at(core, slot);
    return quotient_runends(core, at.block) >> at.index & 1;
}

BGI_INLINE void quotient_set_runend(struct bgi_core *core, uint64_t slot, bool on)
{
    struct quotient_at at = quotient_at(core, slot);
    quotient_set_bit(quotient_block(core, at.block),
                     quotient_shape(core)->runends_at + at.index, on);
}

/* Returns the position of a slot's first bit in its block. */
BGI_INLINE uint64_t quotient_slot_bit(const struct bgi_core *core, uint64_t index)
{
    return quotient_shape(core)->slots_at + index * core->k;
}

BGI_INLINE uint64_t quotient_slot(const struct bgi_core *core, uint64_t slot)
{
    struct quotient_at at = quotient_at(core, slot);
    return quotient_bits_from(quotient_block(core, at.block),
                              quotient_slot_bit(core, at.index))
           & quotient_below(core->k);
}

/* Returns a mask in which the top bit of every zero slot of the word is set. If a slot is not 0,
 * its top bit is already set or is set by a carry. */
BGI_INLINE uint64_t quotient_zero_slots(const struct quotient_shape *shape,
                                        uint64_t slots)
{
    uint64_t rest = shape->tops - shape->ones;
    return ~(((slots & rest) + rest) | slots) & shape->tops;
}

BGI_INLINE void quotient_set_slot(struct bgi_core *core, uint64_t slot, uint64_t value)
{
    struct quotient_at at = quotient_at(core, slot);
    uint64_t bit = quotient_slot_bit(core, at.index), mask = quotient_below(core->k);
    uint64_t *word = quotient_block(core, at.block) + bit / 64;
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
    return quotient_load(quotient_block(core, block)) & QUOTIENT_OFFSET_MAX;
}

BGI_INLINE void quotient_store_offset(struct bgi_core *core, uint64_t block,
                                      uint64_t offset)
{
    uint64_t *word = quotient_block(core, block);
    uint64_t value = offset < QUOTIENT_OFFSET_MAX ? offset : QUOTIENT_OFFSET_MAX;
    quotient_store(word,
                   (quotient_load(word) & ~(uint64_t)QUOTIENT_OFFSET_MAX) | value);
}

/* ---- Moving slots -------------------------------------------------------------------- */

/* Returns a mask of the bits in word `w` of an array that are in the bit range [from, to). */
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

/* Moves the bits [from, to) of an array up by `by` bits (1 to 63). */
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

/* Moves the bits [from, to) of an array down by `by` bits (1 to 63). */
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

/* Move the slots [from, to) of a block, with their runends, up or down by one. */
BGI_INLINE void quotient_block_up(struct bgi_core *core, uint64_t b, uint64_t from,
                                  uint64_t to)
{
    const uint64_t ends = quotient_shape(core)->runends_at;
    uint64_t *block = quotient_block(core, b);
    quotient_bits_up(block, quotient_slot_bit(core, from), quotient_slot_bit(core, to),
                     core->k);
    quotient_bits_up(block, ends + from, ends + to, 1);
}

BGI_INLINE void quotient_block_down(struct bgi_core *core, uint64_t b, uint64_t from,
                                    uint64_t to)
{
    const uint64_t ends = quotient_shape(core)->runends_at;
    uint64_t *block = quotient_block(core, b);
    quotient_bits_down(block, quotient_slot_bit(core, from),
                       quotient_slot_bit(core, to), core->k);
    quotient_bits_down(block, ends + from, ends + to, 1);
}

/* Copies a slot and its runend. */
BGI_INLINE void quotient_slot_copy(struct bgi_core *core, uint64_t to, uint64_t from)
{
    quotient_set_slot(core, to, quotient_slot(core, from));
    quotient_set_runend(core, to, quotient_is_runend(core, from));
}

/* Moves the slots [from, to), with their runends, up by one. Slot `to` is overwritten. */
BGI_INLINE void quotient_slots_up(struct bgi_core *core, uint64_t from, uint64_t to)
{
    const struct quotient_at low = quotient_at(core, from),
                             high = quotient_at(core, to);
    const uint64_t last = quotient_shape(core)->slots - 1;
    for (uint64_t b = high.block + 1; b-- > low.block;) {
        quotient_block_up(core, b, b == low.block ? low.index : 0,
                          b == high.block ? high.index : last);
        if (b > low.block) {
            uint64_t first = quotient_slots_in(core, b);
            quotient_slot_copy(core, first, first - 1);
        }
    }
}

/* Moves the slots (to, last] down by one, overwriting slot `to`. Slot `last` becomes empty. */
BGI_INLINE void quotient_slots_down(struct bgi_core *core, uint64_t to, uint64_t last)
{
    const struct quotient_at low = quotient_at(core, to),
                             high = quotient_at(core, last);
    const uint64_t all = quotient_shape(core)->slots;
    for (uint64_t b = low.block; b <= high.block; b++) {
        quotient_block_down(core, b, b == low.block ? low.index + 1 : 1,
                            b == high.block ? high.index + 1 : all);
        if (b < high.block) {
            uint64_t next = quotient_slots_in(core, b + 1);
            quotient_slot_copy(core, next - 1, next);
        }
    }
    quotient_set_slot(core, last, 0);
    quotient_set_runend(core, last, false);
}

/* ---- Counts -------------------------------------------------------------------------- */

/*
 * The encoding of counts. A remainder x that was added once is stored in one slot, as x. If it
 * was added twice, it is stored in two slots. If it was added three or more times, it is stored
 * as x x x followed by the digits of count - 3 (r - 1 bits each, lowest first); the top bit of
 * each digit's slot is set if another digit follows. The remainders of a run are in ascending
 * order, so three equal slots have no other meaning.
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

/* Returns whether slot `at` + 1 belongs to the same run and has the same remainder. */
BGI_INLINE bool quotient_repeats(const struct bgi_core *core, uint64_t at,
                                 uint64_t remainder)
{
    return at + 1 < quotient_state_of(core)->slots && !quotient_is_runend(core, at)
           && quotient_slot(core, at + 1) == remainder;
}

/* Returns the entry that starts at a slot. During a concurrent change, the function may return
 * arbitrary numbers, but never reads outside the table. */
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
