/*
 * quotient.c - a sorted table of hash prefixes, which supports deletes, counts, enumeration,
 * merging and growth.
 *
 * Idea. The filter stores the first q + r bits of each hash, in a sorted table of slightly more
 * than 2^q slots. The first q bits, the quotient, are not stored, because they are the index of the
 * slot where the key belongs. Only the next r bits, the remainder, are stored. All keys with the
 * same quotient form a run, a sequence of slots that starts at the slot with that index or, if that
 * slot is taken, as soon after it as the order allows (Bender et al., "Don't thrash: how to cache
 * your hash on flash", 2012). Two bits per slot describe the runs: `occupieds` has a bit set for
 * each quotient that has a run, and `runends` has a bit set for the last slot of each run. The i-th
 * run ends at the i-th runend. Rank and select operations on 64-bit words find this runend,
 * starting from an 8-bit offset that is stored for each block of slots (Pandey, Bender, Johnson,
 * Patro, "A general-purpose counting filter: making every bit count", 2017). A block, with its
 * bits, its offset and its slots, is one cache line. A slot needs r + 2.1 to r + 2.6 bits if r is
 * at least 6, and most lookups read one line.
 *
 *     quotient   0   1   2   3   4   5   6   7
 *     occupied   .   1   .   1   1   .   .   1        runs: 1: a b   3: c   4: d e   7: f
 *     slots      .   a   b   c   d   e   .   f
 *     runends    0   0   1   1   0   1   0   1
 *
 * The content is a sorted list of prefixes, so it can be enumerated in order
 * (bg_filter_for_each), and two filters merge like sorted lists. The quotient and the remainder
 * are one string of bits, so a table of twice the size, with remainders one bit shorter, holds
 * the same prefixes at the same rate (bg_filter_resize). The table depends only on the multiset of
 * keys, and not on the order of adds and removes.
 *
 * Cost. The number of quotients is a power of two, so the memory doubles as soon as one key no
 * longer fits. At a false-positive rate of 1%, a filter that is 95% full uses 9.6 bits per key. A
 * filter for one more key, which has twice as many slots, each one bit shorter, uses 17.1 bits per
 * key. At 0.1% the range is 12.8 to 24 bits per key. The planner reports the actual value.
 * Remainders of fewer than 6 bits save nothing, because a block has at most 63 slots.
 *
 * A run is scanned from its start. So if an attacker chooses hashes that agree in their first bits,
 * inserts are slow until the slots after the last quotient are used up. As with all kinds, use a
 * keyed hash profile for untrusted keys.
 *
 * Rate. The filter answers "maybe" for an absent key if the key's prefix, one of F = 2^(q + r)
 * possible prefixes, is in the table. With n different keys, the probability of this is exactly 1 -
 * (1 - 1/F)^n. There is no other source of false positives. At loads below 95%, the rate is at most
 * about 0.95 x 2^-r.
 *
 * Layout. A unit is a block of 64 bytes (see the diagram in quotient_table.h):
 *
 *     [ block ][ block ] ... [ block ]
 *      <--- 2^q slots ---><- 512 ->
 *
 * After the slot of the last quotient there are 512 more slots (rounded up to a whole block) for
 * runs that are pushed past it. The smallest filter, which has 256 quotients, has only 256 of these
 * slots. Nothing wraps around. At 95% load a run is pushed by 9 slots on average, and by 512 slots
 * with a probability of about e^-50, so good hashes never need more slots. If these slots are used
 * up, an insert is refused. An insert is also refused if 31/32 of 2^q slots are in use, because
 * above that load the number of slots to be moved grows rapidly.
 *
 * Counts. A key that is added repeatedly uses a slot for each of its first two adds; starting with
 * the third add, the key's count is stored as the digits of a number (quotient_table.h). However
 * many times one key is added, it uses at most 3 + 64 / (r - 1) slots. A count that reaches 2^64 -
 * 1 stays there.
 *
 * Invariants
 *   (I1) The remainders of a run, each with its count, are in ascending order. Runs are in the
 *        order of their quotients. A run starts at the slot of its quotient or right after the
 *        previous run, whichever is later.
 *   (I2) The number of runends equals the number of occupied quotients.
 *   (I3) The offset of a block is the number of slots, counted from the block's first slot, that
 *        belong to runs of quotients in earlier blocks. A stored value of 255 means 255 or more.
 *   (I4) Unused slots, runends and offsets are 0, so equal multisets have equal words.
 *   (I5) `used` is the number of slots in use, and never exceeds `limit`.
 *
 * Concurrency. While a writer is moving slots, a run may temporarily be impossible to find. Each
 * region of 64 blocks has a lock for writers and a sequence number that is odd while the region
 * is being changed (quotient_sync.h). A writer locks the regions that it reads or writes, in
 * ascending order. The writer makes the sequence numbers of the regions that it writes odd, makes
 * its changes, makes the numbers even again, and unlocks the regions. Two writers in different
 * regions do not interfere. A reader takes no lock:
 *
 *     n = numbers of the regions, all even       (acquire)
 *     look up                                    (every word: acquire)
 *     "no" is valid if the numbers are still n
 *
 *   (P1) The reader saw a single state. Suppose that the sequence number was n before and after the
 *        lookup, and that one of the reader's loads saw a word that a writer stored after the
 *        number became n. That word was stored with release order after the number became n + 1,
 *        and loaded with acquire order. So the later load of the number sees n + 1 or more, which
 *        is a contradiction. Also, no load sees a word older than state n: all words of that state
 *        were stored before the number became n, and the reader loaded the number with acquire
 *        order.
 *   (P2) So a "no" is the correct answer for a state between the start and the end of the lookup.
 *        If an insert returned before the lookup started, the state that it created precedes the
 *        lookup, and only a remove deletes a key. This proves (C1) of filter.h. A "maybe" needs
 *        no check, because a false "maybe" does no harm.
 *   (P3) Whatever values a reader sees during a change, all positions are compared with the end of
 *        the table before they are used, and every loop moves in one direction only. So no load is
 *        out of bounds, and every lookup terminates.
 *   (P4) After 65536 attempts that fail because of concurrent changes, a lookup returns "maybe". So
 *        a lookup never waits for a writer that makes no progress.
 *
 * A forced add (bg_filter_add_forced) that finds no free slots is counted in `lost`, and from
 * then on every answer is "maybe".
 */
#include "kind/quotient_sync.h"
#include "kind/sample.h"

#include <math.h>

#if defined(BGI_X86_64)
#include <immintrin.h>
#endif

enum {
    QUOTIENT_K_MIN = 2,
    QUOTIENT_K_MAX = 32,
    QUOTIENT_BITS_MIN = 8,
    QUOTIENT_BITS_MAX = 40,
    QUOTIENT_SPARE = 512, /* slots after the last quotient */
    QUOTIENT_PREFIX_MAX = 64
};

static const double quotient_load_max = 0.95; /* the maximum load that plans allow */

/* ---- Two ways to find set bits ------------------------------------------ */

/*
 * Returns the position of the set bit with the given rank in a word. Finds the byte by
 * cumulative sums of set bits, then the bit within the byte. In `sums`, byte i is the number of
 * set bits in bytes 0 .. i; `reached` marks the bytes where this number exceeds rank.
 */
BGI_INLINE uint64_t quotient_select_portable(uint64_t word, uint64_t rank)
{
    const uint64_t each = 0x0101010101010101u, high = 0x8080808080808080u;
    uint64_t s = word - (word >> 1 & 0x5555555555555555u);
    s = (s & 0x3333333333333333u) + (s >> 2 & 0x3333333333333333u);
    s = (s + (s >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    uint64_t sums = s * each;
    if (rank >= sums >> 56) {
        return 64;
    }
    uint64_t reached = ((sums | high) - (rank + 1) * each) & high;
    unsigned shift = (unsigned)__builtin_ctzll(reached) / 8 * 8;
    uint64_t left = rank - (sums << 8 >> shift & 0xff);
    uint64_t byte = word >> shift & 0xff;
    for (; left > 0; left--) {
        byte &= byte - 1;
    }
    return shift + (uint64_t)__builtin_ctzll(byte);
}

#define QUOTIENT_ISA    portable
#define QUOTIENT_TARGET /* none */
#define QUOTIENT_ONES   bgi_popcount64
#define QUOTIENT_SELECT quotient_select_portable
#include "kind/quotient_core.h"

#if defined(BGI_X86_64)
#define QUOTIENT_BMI2 __attribute__((target("bmi,bmi2,popcnt")))

/* Finds the position of the set bit with the given rank by depositing a 1 there (PDEP). */
BGI_INLINE QUOTIENT_BMI2 uint64_t quotient_select_bmi2(uint64_t word, uint64_t rank)
{
    bool first = __builtin_constant_p(rank) && rank == 0;
    return _tzcnt_u64(first ? word : _pdep_u64((uint64_t)1 << (rank & 63), word));
}

BGI_INLINE QUOTIENT_BMI2 uint64_t quotient_ones_bmi2(uint64_t word)
{
    return (uint64_t)__builtin_popcountll(word);
}

#define QUOTIENT_ISA    bmi2
#define QUOTIENT_TARGET QUOTIENT_BMI2
#define QUOTIENT_ONES   quotient_ones_bmi2
#define QUOTIENT_SELECT quotient_select_bmi2
#include "kind/quotient_core.h"
#endif

static const struct bgi_ops *quotient_ops(uint32_t k, bool exclusive, bg_cpu cpu)
{
    (void)k;
#if defined(BGI_X86_64)
    if (cpu == BG_CPU_AVX2 || cpu == BG_CPU_AVX512) { /* both have BMI2: features.h */
        return exclusive ? &quotient_ops_exclusive_bmi2 : &quotient_ops_shared_bmi2;
    }
#endif
    (void)cpu;
    return exclusive ? &quotient_ops_exclusive_portable : &quotient_ops_shared_portable;
}

/* ---- Geometry ----------------------------------------------------------------------- */

static uint32_t quotient_unit_bytes(uint32_t k)
{
    (void)k;
    return QUOTIENT_LINE;
}

/* Returns the number of slots for quotients of `bits` bits, including the slots after the last
 * quotient. */
static uint64_t quotient_slots_of_bits(uint32_t bits)
{
    uint64_t quotients = (uint64_t)1 << bits;
    return quotients + (quotients < QUOTIENT_SPARE ? quotients : QUOTIENT_SPARE);
}

static uint64_t quotient_units(uint32_t bits, uint32_t k)
{
    uint64_t block = quotient_block_slots(k);
    return (quotient_slots_of_bits(bits) + block - 1) / block;
}

/* Returns the number of quotient bits for a number of units. If the number of units is not a valid
 * size, uses the next smaller valid size. Returns 0 if there is no smaller valid size. */
static uint32_t quotient_bits(uint64_t units, uint32_t k)
{
    uint64_t slots = units * quotient_block_slots(k);
    uint32_t bits = 0;
    if (slots >= quotient_slots_of_bits(QUOTIENT_BITS_MIN)) {
        bits = slots < 2 * QUOTIENT_SPARE
                   ? QUOTIENT_BITS_MIN
                   : 63 - (uint32_t)__builtin_clzll(slots - QUOTIENT_SPARE);
    }
    return bits;
}

static uint64_t quotient_round_units(uint64_t units, uint32_t k)
{
    uint32_t bits = quotient_bits(units, k), most = QUOTIENT_PREFIX_MAX - k;
    most = most < QUOTIENT_BITS_MAX ? most : QUOTIENT_BITS_MAX;
    return bits ? quotient_units(bits < most ? bits : most, k) : 0;
}

/* Computes the geometry after moving `doublings` bits from the remainder to the quotient. Returns
 * false if that geometry is not supported. */
static bool quotient_resized(uint64_t *units, uint32_t *k, int doublings)
{
    int64_t bits = (int64_t)quotient_bits(*units, *k) + doublings;
    int64_t rest = (int64_t)*k - doublings;
    if (bits < QUOTIENT_BITS_MIN || bits > QUOTIENT_BITS_MAX || rest < QUOTIENT_K_MIN
        || rest > QUOTIENT_K_MAX) {
        return false;
    }
    *units = quotient_units((uint32_t)bits, (uint32_t)rest);
    *k = (uint32_t)rest;
    return true;
}

static uint64_t quotient_regions(uint64_t units)
{
    return (units + QUOTIENT_REGION - 1) / QUOTIENT_REGION;
}

static size_t quotient_state_bytes(uint64_t units, uint32_t k)
{
    (void)k;
    return sizeof(struct quotient_state)
           + (size_t)quotient_regions(units) * sizeof(uint64_t);
}

static void quotient_setup(struct bgi_core *core)
{
    struct quotient_state *state = quotient_state_of(core);
    state->shape = quotient_shape_of(core->k);
    state->quotient_bits = quotient_bits(core->units, core->k);
    state->tail_bits = 64 - state->quotient_bits - core->k;
    state->blocks = core->units;
    state->slots = quotient_slots_in(core, state->blocks);
    uint64_t quotients = (uint64_t)1 << state->quotient_bits;
    state->limit = quotients - quotients / 32;
}

/* ---- The rate ------------------------------------------------------------------------ */

/* Returns the number of possible prefixes. */
static double quotient_prefixes(uint64_t units, uint32_t k)
{
    return ldexp(1, (int)(quotient_bits(units, k) + k));
}

static double quotient_fill(uint64_t units, uint32_t k, double n)
{
    return n / ldexp(1, (int)quotient_bits(units, k));
}

static double quotient_room(uint64_t units, uint32_t k)
{
    return floor(quotient_load_max * ldexp(1, (int)quotient_bits(units, k)));
}

static double quotient_rate(uint64_t units, uint32_t k, double n)
{
    if (quotient_round_units(units, k) != units
        || quotient_fill(units, k, n) > quotient_load_max) {
        return 1;
    }
    return -expm1(n * log1p(-1 / quotient_prefixes(units, k)));
}

static uint32_t quotient_lines(uint32_t k)
{
    (void)k;
    return 1; /* two lines if the run was pushed into the next line */
}

/* Estimates the number of keys from the number of different prefixes, and computes the error of the
 * estimate. The number of prefixes in use grows by e^-l with each key and has the variance F e^-l
 * (1 - (1 + l) e^-l), where l = n / F is the number of keys per prefix. */
static void quotient_items(const struct bgi_core *core, uint64_t prefixes,
                           struct bgi_measure *measure)
{
    double all = quotient_prefixes(core->units, core->k),
           share = (double)prefixes / all;
    double keys = -log1p(-share); /* per prefix */
    measure->items = all * keys;
    measure->error = sqrt(fmax(0, all * exp(keys) * (1 - (1 + keys) * exp(-keys))));
    measure->rate = share;
}

/* ---- Enumeration in order ------------------------------------------------------------ */

enum { QUOTIENT_CHUNK = 32 };

/* A stream of a filter's entries from some position onward. `entry` holds a few entries that were
 * read as one snapshot, and `next` is the position of the entries after them. */
struct quotient_stream {
    const struct bgi_core *core;
    uint64_t end; /* stop before this quotient; 0 means the end of the filter */
    struct quotient_key next;
    unsigned at, n;
    struct {
        uint64_t prefix, count;
    } entry[QUOTIENT_CHUNK];
};

/* Collects the entries of one run. Returns false if there is no space for more entries. */
static bool quotient_read_run(struct quotient_stream *stream, uint64_t quotient,
                              uint64_t *at, struct quotient_span *span)
{
    const struct bgi_core *core = stream->core;
    bool ended = false;
    for (; !ended && *at < quotient_state_of(core)->slots;) {
        struct quotient_entry entry = quotient_read(core, *at);
        struct quotient_key key = { quotient, entry.remainder };
        *at += entry.slots;
        quotient_touch(span, quotient_block_of(core, *at - 1));
        ended = quotient_is_runend(core, *at - 1);
        if (quotient == stream->next.quotient
            && entry.remainder < stream->next.remainder) {
            continue;
        }
        if (stream->n == QUOTIENT_CHUNK) {
            stream->next = key;
            return false;
        }
        stream->entry[stream->n].prefix = quotient_prefix(core, key);
        stream->entry[stream->n].count = entry.count;
        stream->n++;
    }
    return true;
}

/* Collects entries from the block of `next`, up to the end of the block or until there is no space
 * for more entries. */
static void quotient_read_block(struct quotient_stream *stream,
                                struct quotient_span *span)
{
    const struct bgi_core *core = stream->core;
    struct quotient_at from = quotient_at(core, stream->next.quotient);
    uint64_t first = quotient_slots_in(core, from.block);
    uint64_t occupieds = quotient_occupieds(core, from.block);
    uint64_t todo = occupieds & UINT64_MAX << from.index;
    if (todo) {
        uint64_t quotient = first + (uint64_t)__builtin_ctzll(todo);
        uint64_t at = quotient_run_start_portable(core, quotient, occupieds, span);
        for (; todo; todo &= todo - 1) {
            quotient = first + (uint64_t)__builtin_ctzll(todo);
            at = at > quotient ? at : quotient;
            if (!quotient_read_run(stream, quotient, &at, span)) {
                return;
            }
        }
    }
    stream->next = (struct quotient_key){ quotient_slots_in(core, from.block + 1), 0 };
}

/* Collects the next entries as a snapshot. Returns false at the end of the stream. */
static bool quotient_refill(struct quotient_stream *stream)
{
    const struct bgi_core *core = stream->core;
    const uint64_t all = (uint64_t)1 << quotient_state_of(core)->quotient_bits;
    const uint64_t end = stream->end ? stream->end : all;
    stream->at = stream->n = 0;
    while (stream->n == 0 && stream->next.quotient < end) {
        const struct quotient_key from = stream->next;
        const uint64_t block = quotient_block_of(core, from.quotient);
        struct quotient_span span = quotient_span_at(block);
        struct quotient_range range = quotient_range_of(span);
        uint64_t before;
        while (!quotient_sequence(core, range, &before)
               || (quotient_read_block(stream, &span),
                   !quotient_unchanged(core, &range, span, before))) {
            bgi_pause();
            stream->next = from;
            stream->n = 0;
            span = quotient_span_at(block);
        }
    }
    return stream->n > 0;
}

/* Makes the next prefix available at index stream->at. Returns false at the end of the stream. To
 * consume the prefix, increment stream->at. */
static bool quotient_peek(struct quotient_stream *stream)
{
    return stream->at < stream->n || quotient_refill(stream);
}

static void quotient_each(const struct bgi_core *core,
                          bool (*visit)(void *context, uint64_t prefix, uint64_t count),
                          void *context)
{
    struct quotient_stream stream = { .core = core };
    for (; quotient_peek(&stream); stream.at++) {
        if (!visit(context, stream.entry[stream.at].prefix,
                   stream.entry[stream.at].count)) {
            return;
        }
    }
}

/* Consumes the smaller of the next prefixes of two streams, and sets *count to the sum of that
 * prefix's counts in both streams. Returns false at the end of both streams. */
static bool quotient_peek_either(struct quotient_stream *a, struct quotient_stream *b,
                                 uint64_t *prefix, uint64_t *count)
{
    bool in_a = quotient_peek(a), in_b = quotient_peek(b);
    if (in_a && in_b) {
        uint64_t pa = a->entry[a->at].prefix, pb = b->entry[b->at].prefix;
        in_a = pa <= pb;
        in_b = pb <= pa;
    }
    *prefix = in_a ? a->entry[a->at].prefix : in_b ? b->entry[b->at].prefix : 0;
    *count = quotient_sum(in_a ? a->entry[a->at].count : 0,
                          in_b ? b->entry[b->at].count : 0);
    a->at += in_a;
    b->at += in_b;
    return in_a || in_b;
}

struct quotient_counting {
    const struct bgi_core *core;
    uint64_t *saturated;
};

/* Returns the number of prefixes in n blocks. */
static uint64_t quotient_count_blocks(const void *context, uint64_t first, uint64_t n)
{
    const struct quotient_counting *counting = context;
    const struct bgi_core *core = counting->core;
    struct quotient_stream stream = { .core = core,
                                      .end = quotient_slots_in(core, first + n),
                                      .next = { quotient_slots_in(core, first), 0 } };
    uint64_t prefixes = 0;
    while (quotient_peek(&stream)) {
        prefixes += stream.n;
        for (; stream.at < stream.n; stream.at++) {
            *counting->saturated += stream.entry[stream.at].count == UINT64_MAX;
        }
    }
    return prefixes;
}

static void quotient_measure(const struct bgi_core *core, struct bgi_measure *measure)
{
    const struct quotient_state *state = quotient_state_of(core);
    const struct quotient_counting counting = { core, &measure->saturated };
    const uint64_t blocks =
        quotient_block_of(core, ((uint64_t)1 << state->quotient_bits) - 1) + 1;
    double missed;
    const double prefixes =
        bgi_sample_sum(blocks, core->units * quotient_unit_bytes(core->k),
                       measure->most, 1, quotient_count_blocks, &counting, &missed);
    measure->ones = __atomic_load_n(&state->used, __ATOMIC_RELAXED);
    measure->of = (uint64_t)1 << state->quotient_bits;
    measure->overflowed = __atomic_load_n(&state->lost, __ATOMIC_RELAXED) != 0;
    quotient_items(core, (uint64_t)prefixes, measure);
    measure->error = hypot(measure->error, missed);
}

static void quotient_measure_or(const struct bgi_core *a, const struct bgi_core *b,
                                struct bgi_measure *measure)
{
    struct quotient_stream in_a = { .core = a }, in_b = { .core = b };
    uint64_t prefixes = 0, prefix, count;
    while (quotient_peek_either(&in_a, &in_b, &prefix, &count)) {
        prefixes++;
    }
    measure->overflowed |=
        __atomic_load_n(&quotient_state_of(b)->lost, __ATOMIC_RELAXED) != 0;
    quotient_items(a, prefixes, measure);
}

/* ---- Whole filters ------------------------------------------------------------------- */

/* Blocks writers, or lets them continue. */
static void quotient_hold(const struct bgi_core *core, bool on)
{
    if (on) {
        quotient_lock(core, quotient_all(core));
    } else {
        quotient_unlock(core, quotient_all(core));
    }
}

static void quotient_copied(struct bgi_core *to, const struct bgi_core *from)
{
    struct quotient_state *copy = quotient_state_of(to);
    const struct quotient_state *state = quotient_state_of(from);
    copy->used = __atomic_load_n(&state->used, __ATOMIC_RELAXED);
    copy->lost = __atomic_load_n(&state->lost, __ATOMIC_RELAXED);
}

/* Filters whose prefixes have the same length have the same rate and can be merged, regardless of
 * how many bits belong to the quotient. */
static bool quotient_joins(const struct bgi_core *to, const struct bgi_core *from)
{
    return quotient_bits(to->units, to->k) + to->k
           == quotient_bits(from->units, from->k) + from->k;
}

/* Returns whether the content of both filters fits in `to`. The positions can be computed
 * without moving anything: each run follows the previous run, but does not start before its
 * quotient's slot. */
static bool quotient_fits(const struct bgi_core *to, const struct bgi_core *from)
{
    const struct quotient_state *state = quotient_state_of(to);
    struct quotient_stream in_to = { .core = to }, in_from = { .core = from };
    uint64_t prefix, count, used = 0, stop = 0;
    while (quotient_peek_either(&in_to, &in_from, &prefix, &count)) {
        uint64_t quotient = quotient_key_of(to, prefix).quotient;
        uint64_t slots = quotient_slots_for(to, count);
        stop = (stop > quotient ? stop : quotient) + slots;
        used += slots;
    }
    return stop <= state->slots && used <= state->limit;
}

/* Adds the content of `from`. Writers to both filters are blocked, so the content still fits if
 * quotient_fits returned true. */
static bg_err quotient_take_in(struct bgi_core *to, const struct bgi_core *from)
{
    if (!quotient_fits(to, from)) {
        return BG_EFULL;
    }
    struct quotient_range range = quotient_all(to);
    struct quotient_stream stream = { .core = from };
    bg_err err = BG_OK;
    for (; !err && quotient_peek(&stream); stream.at++) {
        bool again, is_new;
        err = quotient_change_within_portable(to, stream.entry[stream.at].prefix,
                                              stream.entry[stream.at].count, false,
                                              &range, &again, &is_new);
    }
    uint64_t lost = __atomic_load_n(&quotient_state_of(from)->lost, __ATOMIC_RELAXED);
    (void)__atomic_fetch_add(&quotient_state_of(to)->lost, lost, __ATOMIC_RELAXED);
    return err;
}

/* Locks both filters in the order of their addresses, so that no two merges can deadlock. */
static bg_err quotient_merge(struct bgi_core *to, const struct bgi_core *from,
                             bool exclusive)
{
    (void)exclusive;
    bool in_order = (uintptr_t)to < (uintptr_t)from;
    const struct bgi_core *first = in_order ? to : from;
    const struct bgi_core *second = in_order ? from : to;
    quotient_hold(first, true);
    quotient_hold(second, true);
    bg_err err = quotient_take_in(to, from);
    quotient_hold(second, false);
    quotient_hold(first, false);
    return err;
}

/* ---- In files ------------------------------------------------------------------------ */

static uint64_t quotient_numbers(const struct bgi_core *core, uint64_t *to)
{
    if (to) {
        *to = __atomic_load_n(&quotient_state_of(core)->lost, __ATOMIC_RELAXED);
    }
    return 1;
}

/* Returns whether the bits after the last slot are 0 in every block (I4). */
static bool quotient_tails_are_empty(const struct bgi_core *core)
{
    const struct quotient_state *state = quotient_state_of(core);
    const uint64_t end = quotient_slot_bit(core, state->shape.slots);
    for (uint64_t block = 0; block < state->blocks; block++) {
        const uint64_t *words = quotient_block(core, block);
        for (uint64_t bit = end; bit < 8 * QUOTIENT_LINE; bit++) {
            if (words[bit / 64] >> bit % 64 & 1) {
                return false;
            }
        }
    }
    return true;
}

/* Returns whether the slots [from, to) are 0, as unused slots must be (I4). */
static bool quotient_is_empty(const struct bgi_core *core, uint64_t from, uint64_t to)
{
    for (; from < to; from++) {
        if (quotient_slot(core, from) || quotient_is_runend(core, from)) {
            return false;
        }
    }
    return true;
}

/* Returns whether the run that starts at a slot is valid (I1). Sets *stop to the slot after the
 * run. */
static bool quotient_run_is_right(const struct bgi_core *core, uint64_t start,
                                  uint64_t *stop)
{
    const uint64_t slots = quotient_state_of(core)->slots;
    uint64_t end = start;
    while (end < slots && !quotient_is_runend(core, end)) {
        end++;
    }
    *stop = end + 1;
    uint64_t before = 0;
    for (uint64_t at = start; at <= end && end < slots;) {
        struct quotient_entry entry = quotient_read(core, at);
        bool ascends = at == start || entry.remainder > before;
        if (!ascends || at + entry.slots > *stop
            || quotient_slots_for(core, entry.count) != entry.slots) {
            return false;
        }
        before = entry.remainder;
        at += entry.slots;
    }
    return end < slots;
}

/* Returns whether the offset of a block is correct if the runs of earlier blocks end at `stop`
 * (I3). */
static bool quotient_offset_is_right(const struct bgi_core *core, uint64_t block,
                                     uint64_t stop)
{
    uint64_t first = quotient_slots_in(core, block);
    uint64_t offset = stop > first ? stop - first : 0;
    offset = offset < QUOTIENT_OFFSET_MAX ? offset : QUOTIENT_OFFSET_MAX;
    return quotient_stored_offset(core, block) == offset;
}

/* Changes are safe only in a table whose invariants hold. So this function checks all
 * invariants, (I1) to (I5), from the first slot to the last. */
static bool quotient_restore(struct bgi_core *core, const uint64_t *numbers)
{
    struct quotient_state *state = quotient_state_of(core);
    const uint64_t quotients = (uint64_t)1 << state->quotient_bits;
    uint64_t stop = 0, used = 0;
    for (uint64_t block = 0; block < state->blocks; block++) {
        uint64_t first = quotient_slots_in(core, block);
        uint64_t todo = quotient_occupieds(core, block);
        if (!quotient_offset_is_right(core, block, stop)) {
            return false;
        }
        for (; todo; todo &= todo - 1) {
            uint64_t quotient = first + (uint64_t)__builtin_ctzll(todo);
            uint64_t start = stop > quotient ? stop : quotient;
            if (quotient >= quotients || !quotient_is_empty(core, stop, start)
                || !quotient_run_is_right(core, start, &stop)) {
                return false;
            }
            used += stop - start;
        }
    }
    state->used = used;
    state->lost = *numbers;
    return used <= state->limit && quotient_is_empty(core, stop, state->slots)
           && quotient_tails_are_empty(core);
}

static void quotient_doubt(struct bgi_core *core)
{
    quotient_state_of(core)->lost = 1;
}

const struct bgi_kind bgi_kind_quotient = {
    .id = BG_KIND_QUOTIENT,
    .traits = BG_TRAIT_REMOVE | BG_TRAIT_COUNT | BG_TRAIT_MERGE | BG_TRAIT_OVERLAP
              | BG_TRAIT_FILLS_UP | BG_TRAIT_ENUMERATE | BG_TRAIT_RESIZE,
    .k_min = QUOTIENT_K_MIN,
    .k_max = QUOTIENT_K_MAX,
    .units_max = ((uint64_t)1 << QUOTIENT_BITS_MAX) / 14 + 64,
    .unit_bytes = quotient_unit_bytes,
    .round_units = quotient_round_units,
    .rate = quotient_rate,
    .fill = quotient_fill,
    .room = quotient_room,
    .lines = quotient_lines,
    .ops = quotient_ops,
    .state_bytes = quotient_state_bytes,
    .setup = quotient_setup,
    .hold = quotient_hold,
    .copied = quotient_copied,
    .merge = quotient_merge,
    .joins = quotient_joins,
    .measure = quotient_measure,
    .measure_or = quotient_measure_or,
    .each = quotient_each,
    .resized = quotient_resized,
    .numbers = quotient_numbers,
    .restore = quotient_restore,
    .doubt = quotient_doubt,
};
