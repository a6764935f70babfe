/*
 * cuckoo.c - a hash table of fingerprints, from which keys can be removed, at 12 bits per key.
 *
 * Idea. The table consists of buckets with four slots each. A key is stored as a fingerprint, which
 * is f bits of its hash, in one of two buckets. The filter may contain a key if one of its two
 * buckets holds its fingerprint (Fan, Andersen, Kaminsky, Mitzenmacher, "Cuckoo filter: practically
 * better than Bloom", 2014). If both buckets are full, fingerprints are moved to their other
 * buckets until a slot is free. This works until 95% of all slots are in use. A table that does not
 * store keys can move fingerprints only if a fingerprint's other bucket can be computed from its
 * current bucket and the fingerprint alone. Here
 *
 *      first + second = sum(fingerprint)   (mod number of buckets)
 *
 * so that second = sum - first and first = sum - second. The same function maps each bucket to
 * the other one, for any number of buckets. The usual XOR requires the number of buckets to be a
 * power of two, which wastes up to half of the memory. `sum` mixes the bits of the fingerprint and
 * maps the result to the range of bucket numbers by multiply-high. With a probability of 1 /
 * buckets, the two buckets of a key are the same; such a key has four slots instead of eight.
 *
 * Layout. The filter is one array of 64-bit words. Bucket b starts at bit 4 f b and its slot s
 * at bit 4 f b + f s, lowest bits first. A fingerprint of 0 means an empty slot (a key whose f bits
 * are all 0 gets the fingerprint 1).
 *
 *      f =  8   [ bucket 0 | bucket 1 ]                        unit: 2 buckets, 1 word
 *      f = 12   [ bucket 0 | buc][ket 1 | buck][et 2| bucket 3 ]     4 buckets, 3 words
 *      f = 16   [       bucket 0      ]                              1 bucket,  1 word
 *      f = 32   [  slot 0  |  slot 1  ][  slot 2  |  slot 3  ]       1 bucket,  2 words
 *
 * A unit is the smallest number of buckets that fills whole words. A bucket of 12-bit
 * fingerprints is read with a 64-bit load from its first byte. The very last bucket is not used,
 * so these loads never extend past the end of the array. Both buckets are always read, and four
 * slots are compared at a time, in one word; no branch depends on the result.
 *
 * Rate. An absent key is mistaken for a member if a stored key has the same fingerprint and the
 * stored key's first bucket is one of the absent key's two buckets. This is the case for each of n
 * stored keys with a probability of 2 q / buckets, where q is the probability that two fingerprints
 * are equal. So the rate is 1 - (1 - 2 q / buckets)^n, regardless of which slots the keys occupy.
 * This is about 8 x load / 2^f.
 *
 * Copies. A key that is added twice is stored twice, because it may be removed twice. If all
 * slots of both buckets hold the same fingerprint, an insert of another copy fails immediately
 * with BG_EFULL. A forced add (bg_filter_add_forced, the operation `add`) cannot fail, so it drops
 * the copy; the filter already answers "maybe" for the key. But if the drop were not recorded,
 * later removes could delete every stored copy, and the filter would answer "no" for a key that was
 * added more times than it was removed. So the filter counts the copies that it drops
 * (bg_filter_info.saturated). After the first drop, if the slots of a key's two buckets all hold
 * its fingerprint, this set of slots is frozen like a saturated counter: removes leave it
 * unchanged. A set for which a copy was dropped was full at that time, so it stays full
 * permanently. A forced add also drops the copy if the buckets hold different fingerprints and the
 * table has no space for another copy. In this case, however, the set of slots for which the copy
 * was dropped cannot be recognized later, so from then on removes change nothing at all.
 *
 * Full table. Before an insert moves anything, it determines which fingerprints to move by a
 * breadth-first search over at most CUCKOO_NODES buckets. If the search finds no free slot, the
 * insert fails and the table is unchanged, so no fingerprint is ever without a slot. The search
 * finds a shortest path, so the path visits no bucket twice. If a forced add finds no space for a
 * key that is not stored yet, the add makes every query return "maybe" until the filter is cleared
 * (bg_filter_info.overflowed).
 *
 * Removing a key that was never added. As in counting filters, such a remove may delete the
 * fingerprint of another key that has the same fingerprint. So only keys that were added may be
 * removed; see bg_filter_remove.
 *
 * Concurrency. Writers (adds, inserts, removes) hold the filter's single lock, for one key or for a
 * group of 64 keys in a batch. Readers hold no lock and never wait. But a reader checks two
 * buckets, and would miss a fingerprint that moves from the bucket that it has not read yet to the
 * bucket that it has already read. A counter makes this detectable. A writer changes slots in this
 * order:
 *
 *      (W1) write a fingerprint to its new slot (only when moving);
 *      (W2) increment the counter;
 *      (W3) clear its old slot, or overwrite it with the next fingerprint to be moved.
 *
 * All three steps are release stores. A reader loads the counter, then both buckets, all with
 * acquire order, then the counter again. The reader trusts a "no" only if the counter did not
 * change. Removes must also perform steps (W2) and (W3), because adding copy A and then removing
 * copy B of a key looks to a reader like a move from B to A.
 *
 * Proof that a lookup never misses a key that was added before the lookup started and is not
 * removed before the lookup ends. Let the counter read c both times, and let V be the write (W2)
 * that set it to c. Everything written before V is visible to the reader. V is followed by the
 * disappearance (W3) that V announced; call this disappearance D. Every later disappearance is
 * announced by another (W2). Consider the table after D, or after the key's add if that came later.
 * Some slot holds the key's fingerprint at that point, because the key is present. The fingerprint
 * was written before V, or by the add, which happened before the lookup. So the reader can see the
 * fingerprint, and D did not touch it. If the reader does not find the fingerprint there, it has
 * read a later write to that slot, which is a disappearance. That disappearance was announced by a
 * (W2) with a value above c, which precedes it in the order of writers that the lock defines. So by
 * release and acquire, the second load of the counter must have returned more than c. But it
 * returned c.
 *
 * The proof depends only on bits that keep their value. So it does not matter that a bucket of
 * 12-bit fingerprints is not read atomically, or that its slots are not always written atomically.
 * A reader that sees one half of a fingerprint that is being written or cleared may answer "maybe"
 * for an absent key, but never "no" for a member.
 *
 * With a single counter, readers would keep retrying while a writer works in a full table. So
 * there are CUCKOO_STRIPES additional counters, and each change increments only one of them, which
 * is selected by the fingerprint. A key has the same fingerprint, and so the same counter, in both
 * of its buckets, and the proof holds for this counter alone. A lookup, or a group of 64 lookups in
 * a batch, first checks the counter that covers all changes, because this check is the cheapest. If
 * a "no" cannot be trusted, the lookup is repeated with the fingerprint's own counter. After
 * CUCKOO_TRIES attempts, the answer becomes "maybe". So readers finish after a bounded number of
 * steps. The lowest bit of every counter indicates that the filter has overflowed: counters are
 * incremented by 2, and an odd counter is never trusted.
 *
 * Invariants
 *   (I1) The number of fingerprints in slots equals the number of adds minus the number of removes,
 *        unless bg_filter_info.saturated is above 0.
 *   (I2) A fingerprint x in bucket b belongs to b and to sum(x) - b, and to no other bucket.
 *   (I3) The first bucket is computed from the high bits of the hash, and the fingerprint from
 *        the low f bits. There are at most 2^32 units, so that 32-bit fingerprints share no bits
 *        with the bucket number.
 */
#include "base/bits.h"
#include "bloomgate/kind.h"
#include "hash/fast.h"
#include "kind/kind.h"

#include <math.h>

/* Whether 64 bits may be loaded from any even byte offset. This is disabled under the thread
 * sanitizer, which reports such a load as a race. */
#if (defined(BGI_X86_64) || defined(BGI_AARCH64)) && !BGI_BIG_ENDIAN && !BGI_TSAN
#define CUCKOO_ONE_LOAD 1
#else
#define CUCKOO_ONE_LOAD 0
#endif

enum {
    CUCKOO_SLOTS = 4,    /* per bucket */
    CUCKOO_STRIPES = 64, /* change counters */
    CUCKOO_TRIES = 64,   /* attempts per lookup during concurrent changes */
    CUCKOO_NODES = 1024, /* maximum number of buckets that a search examines */
    CUCKOO_AHEAD = 8,    /* number of buckets that a search prefetches in advance */
    CUCKOO_NONE = -1
};

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): separate cache lines on purpose */
struct cuckoo_state {
    /* Used by writers, in a cache line that readers do not use. */
    uint64_t stored;  /* slots in use */
    uint64_t dropped; /* number of dropped copies; see Copies */
    bool keeps_all;   /* removes no longer change anything; see Copies */
    unsigned char lock;
    /* Used by readers. */
    /* Each counter is twice the number of changes, plus 1 if the filter has overflowed; see
     * Concurrency. */
    _Alignas(64) uint64_t changes[CUCKOO_STRIPES];
    uint64_t all_changes; /* counts the changes to all fingerprints */
};

/* The outcome of an insert. */
enum cuckoo_outcome {
    CUCKOO_STORED,
    CUCKOO_ALL_COPIES, /* every possible slot already holds the key's fingerprint */
    CUCKOO_NO_ROOM
};

/* A key's fingerprint, and the byte offsets of its two buckets. */
struct cuckoo_place {
    uint64_t fingerprint, first, second;
};

/* A bucket that a search examines, and the slot whose fingerprint would move there. */
struct cuckoo_node {
    uint64_t bucket;
    int16_t parent; /* parent node; CUCKOO_NONE for a key's own buckets */
    uint8_t slot;   /* slot in the parent's bucket */
};

/* A 32-bit word of an array that other code accesses as 64-bit words. */
typedef uint32_t __attribute__((may_alias)) cuckoo_half;
typedef uint64_t __attribute__((may_alias, aligned(2))) cuckoo_any_word;

/* ---- Shared by all widths ---------------------------------------------------------- */

/* A plain multiple of the fingerprint would not suffice, because paths through the table would
 * have a regular stride and visit few different buckets. */
BGI_INLINE uint64_t cuckoo_sum(uint64_t fingerprint, uint64_t buckets)
{
    uint64_t mixed = fingerprint * (fingerprint + 1) * 0xbf58476d1ce4e5b9u;
    return bgi_mulhi(mixed, buckets);
}

/* Returns a fingerprint's other bucket. The function is its own inverse. */
BGI_INLINE uint64_t cuckoo_other(uint64_t sum, uint64_t bucket, uint64_t buckets)
{
    uint64_t other = sum - bucket;
    return sum < bucket ? other + buckets : other;
}

BGI_INLINE uint64_t cuckoo_read(const uint64_t *word, const bool exclusive)
{
    return exclusive ? *word : __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

BGI_INLINE void cuckoo_write(uint64_t *word, uint64_t value, const bool exclusive)
{
    if (exclusive) {
        *word = value;
    } else {
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    }
}

/* Reads 32 bits at a byte offset that is a multiple of 4. */
BGI_INLINE uint64_t cuckoo_read_32(const unsigned char *words, uint64_t at,
                                   const bool exclusive)
{
    const cuckoo_half *half = (const cuckoo_half *)(const void *)words;
    half += (at / 4) ^ BGI_BIG_ENDIAN;
    return exclusive ? *half : __atomic_load_n(half, __ATOMIC_ACQUIRE);
}

/*
 * Reads 64 bits at an even byte offset, lowest bits first; bits 48 and above are undefined. Uses a
 * single load on CPUs that support it. The load need not be atomic as a whole (see Concurrency),
 * but must not be delayed past the second load of the counter; cuckoo_reads_done ensures this.
 */
BGI_INLINE uint64_t cuckoo_read_48(const unsigned char *words, uint64_t at,
                                   const bool exclusive)
{
#if CUCKOO_ONE_LOAD
    (void)exclusive;
    return *(const volatile cuckoo_any_word *)(const void *)(words + at);
#else
    const cuckoo_half *half = (const cuckoo_half *)(const void *)words;
    const cuckoo_half *low = &half[(at / 4) ^ BGI_BIG_ENDIAN];
    const cuckoo_half *high = &half[(at / 4 + 1) ^ BGI_BIG_ENDIAN];
    uint64_t both = exclusive
                        ? *low | (uint64_t)*high << 32
                        : __atomic_load_n(low, __ATOMIC_ACQUIRE)
                              | (uint64_t)__atomic_load_n(high, __ATOMIC_ACQUIRE) << 32;
    return both >> (at & 2) * 8;
#endif
}

/* Ensures that all previous reads happen before any later memory access. */
BGI_INLINE void cuckoo_reads_done(void)
{
#if CUCKOO_ONE_LOAD
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

/* Writes a 12-bit fingerprint to the 48 bits at `at`, starting at bit `shift`. */
BGI_INLINE void cuckoo_write_12(unsigned char *words, uint64_t at, unsigned shift,
                                uint64_t fingerprint, const bool exclusive)
{
    cuckoo_half *half = (cuckoo_half *)(void *)words;
    cuckoo_half *low = &half[(at / 4) ^ BGI_BIG_ENDIAN];
    cuckoo_half *high = &half[(at / 4 + 1) ^ BGI_BIG_ENDIAN];
    uint64_t both = *low | (uint64_t)*high << 32;
    shift += (unsigned)(at & 2) * 8;
    both = (both & ~(UINT64_C(0xfff) << shift)) | fingerprint << shift;
    if (exclusive) {
        *low = (uint32_t)both;
        *high = (uint32_t)(both >> 32);
    } else {
        __atomic_store_n(low, (uint32_t)both, __ATOMIC_RELEASE);
        __atomic_store_n(high, (uint32_t)(both >> 32), __ATOMIC_RELEASE);
    }
}

/* Adds `by` to a value that only writers change but all threads read. */
BGI_INLINE void cuckoo_raise(uint64_t *number, uint64_t by, const bool exclusive)
{
    cuckoo_write(number, *number + by, exclusive);
}

/* Announces that a fingerprint will disappear from a slot (W2). */
BGI_INLINE void cuckoo_announce(struct cuckoo_state *state, uint64_t fingerprint,
                                const bool exclusive)
{
    if (!exclusive) {
        cuckoo_raise(&state->changes[fingerprint % CUCKOO_STRIPES], 2, false);
        cuckoo_raise(&state->all_changes, 2, false);
    }
}

BGI_INLINE bool cuckoo_overflowed(const struct cuckoo_state *state)
{
    return __atomic_load_n(&state->all_changes, __ATOMIC_RELAXED) & 1;
}

/* Makes every later query return "maybe". */
static void cuckoo_overflow(struct cuckoo_state *state)
{
    for (unsigned i = 0; i < CUCKOO_STRIPES; i++) {
        cuckoo_write(&state->changes[i], state->changes[i] | 1, false);
    }
    cuckoo_write(&state->all_changes, state->all_changes | 1, false);
}

/* Records that a forced add found no slot, either for a copy or for a new key. See Copies and
 * Full table. */
static void cuckoo_drop(struct cuckoo_state *state, bool is_new,
                        enum cuckoo_outcome outcome)
{
    if (is_new) {
        cuckoo_overflow(state);
        return;
    }
    cuckoo_raise(&state->dropped, 1, false);
    state->keeps_all |= outcome == CUCKOO_NO_ROOM;
}

/* Returns whether a "no" can be trusted, given a counter's values before and after the lookup. */
BGI_INLINE bool cuckoo_believed(uint64_t before, uint64_t after)
{
    return after == (before & ~(uint64_t)1);
}

static void cuckoo_lock(struct cuckoo_state *state)
{
    while (__atomic_exchange_n(&state->lock, 1, __ATOMIC_ACQUIRE)) {
        while (__atomic_load_n(&state->lock, __ATOMIC_RELAXED)) {
            bgi_pause();
        }
    }
}

static void cuckoo_unlock(struct cuckoo_state *state)
{
    __atomic_store_n(&state->lock, 0, __ATOMIC_RELEASE);
}

/* Returns the number of buckets in a given number of units. With 12-bit fingerprints, the result is
 * one less than would fit, so that 8 bytes can be read at the start of every 6-byte bucket. */
BGI_INLINE uint64_t cuckoo_buckets(uint64_t units, uint32_t bits)
{
    return bits == 8 ? 2 * units : bits == 12 ? 4 * units - 1 : units;
}

#define CUCKOO_BITS 8
#include "kind/cuckoo_core.h"
#define CUCKOO_BITS 12
#include "kind/cuckoo_core.h"
#define CUCKOO_BITS 16
#include "kind/cuckoo_core.h"
#define CUCKOO_BITS 32
#include "kind/cuckoo_core.h"

static const struct bgi_ops *cuckoo_ops(uint32_t k, bool exclusive, bg_cpu cpu)
{
    (void)cpu; /* four slots fit in a word, so vectors would gain nothing */
    switch (k) {
    case 8: return exclusive ? &cuckoo_ops_exclusive_8 : &cuckoo_ops_shared_8;
    case 12: return exclusive ? &cuckoo_ops_exclusive_12 : &cuckoo_ops_shared_12;
    case 16: return exclusive ? &cuckoo_ops_exclusive_16 : &cuckoo_ops_shared_16;
    default: return exclusive ? &cuckoo_ops_exclusive_32 : &cuckoo_ops_shared_32;
    }
}

/* ---- Rates ------------------------------------------------------------------------ */

static uint32_t cuckoo_unit_bytes(uint32_t k)
{
    switch (k) {
    case 8:
    case 16: return 8;
    case 12: return 24;
    case 32: return 16;
    default: return 0;
    }
}

/* Returns the probability that at least one of n stored keys has the same fingerprint as a given
 * key and shares a bucket with it. q is the probability that two keys have the same fingerprint.
 * The two buckets of a key coincide with a probability of 1 / buckets. */
static double cuckoo_chance(double buckets, double q, double n)
{
    double two = -expm1(n * log1p(-fmin(2 / buckets, 1) * q));
    double one = -expm1(n * log1p(-q / buckets));
    return two + (one - two) / buckets;
}

/* Returns the false-positive rate with n stored fingerprints. The fingerprint 1 is twice as
 * frequent as the others, because it also replaces 0. */
static double cuckoo_rate_of(uint64_t units, uint32_t k, double n)
{
    double buckets = (double)cuckoo_buckets(units, k), q = ldexp(1, -(int)k);
    double common = cuckoo_chance(buckets, 2 * q, n);
    double usual = cuckoo_chance(buckets, q, n);
    return usual + 2 * q * (common - usual);
}

/*
 * Returns the number of keys that fit: 95% of the number of slots, or fewer in small filters,
 * whose buckets fill less evenly by chance. (In measurements, fewer than 1 in 1000 filters with
 * 16 to 1024 slots refused a key earlier, and none of 10000 larger filters did.) Four keys
 * always fit.
 */
static double cuckoo_room(uint64_t units, uint32_t k)
{
    double slots = CUCKOO_SLOTS * (double)cuckoo_buckets(units, k);
    return fmax(CUCKOO_SLOTS, floor(slots - fmax(0.05 * slots, 2 * sqrt(slots))));
}

static double cuckoo_rate(uint64_t units, uint32_t k, double n)
{
    return n > cuckoo_room(units, k) ? 1 : cuckoo_rate_of(units, k, n);
}

static double cuckoo_fill(uint64_t units, uint32_t k, double n)
{
    return fmin(1, n / (CUCKOO_SLOTS * (double)cuckoo_buckets(units, k)));
}

static uint32_t cuckoo_lines(uint32_t k)
{
    (void)k;
    return 2;
}

/* ---- Whole filters ---------------------------------------------------------------- */

static size_t cuckoo_state_bytes(uint64_t units, uint32_t k)
{
    (void)units, (void)k;
    return sizeof(struct cuckoo_state);
}

/*
 * The words were copied one by one, so fingerprints that moved during copying may be missing from
 * the copy. Therefore the words are copied again while no writer is active. (The filter is const
 * for the caller, but its lock is part of the state, which is not const.)
 */
static void cuckoo_copied(struct bgi_core *to, const struct bgi_core *from)
{
    struct cuckoo_state *copy = to->state, *state = from->state;
    const uint64_t *in = (const uint64_t *)(const void *)from->words;
    uint64_t *out = (uint64_t *)(void *)to->words;
    cuckoo_lock(state);
    for (size_t i = 0; i < (size_t)from->units * cuckoo_unit_bytes(from->k) / 8; i++) {
        out[i] = in[i];
    }
    copy->stored = state->stored;
    copy->dropped = state->dropped;
    copy->keeps_all = state->keeps_all;
    if (cuckoo_overflowed(state)) {
        cuckoo_overflow(copy);
    }
    cuckoo_unlock(state);
}

static void cuckoo_measure(const struct bgi_core *core, struct bgi_measure *measure)
{
    const struct cuckoo_state *state = core->state;
    measure->ones = __atomic_load_n(&state->stored, __ATOMIC_RELAXED);
    measure->of = CUCKOO_SLOTS * cuckoo_buckets(core->units, core->k);
    measure->items = (double)measure->ones;
    measure->rate = cuckoo_rate_of(core->units, core->k, measure->items);
    measure->saturated = __atomic_load_n(&state->dropped, __ATOMIC_RELAXED);
    measure->overflowed = cuckoo_overflowed(state);
}

/* ---- In files --------------------------------------------------------------------- */

enum { CUCKOO_NUMBERS = 2, CUCKOO_KEEPS_ALL = 1, CUCKOO_OVERFLOWED = 2 };

static uint64_t cuckoo_numbers(const struct bgi_core *core, uint64_t *to)
{
    const struct cuckoo_state *state = core->state;
    if (to) {
        to[0] = __atomic_load_n(&state->dropped, __ATOMIC_RELAXED);
        to[1] = (uint64_t)(state->keeps_all ? CUCKOO_KEEPS_ALL : 0)
                | (uint64_t)(cuckoo_overflowed(state) ? CUCKOO_OVERFLOWED : 0);
    }
    return CUCKOO_NUMBERS;
}

/* Returns slot i of an array of k-bit slots that are packed into words, lowest bits first. */
static uint64_t cuckoo_slot(const uint64_t *words, uint64_t i, uint32_t k)
{
    uint64_t bit = i * k, shift = bit % 64;
    uint64_t value = words[bit / 64] >> shift;
    if (shift + k > 64) {
        value |= words[bit / 64 + 1] << (64 - shift);
    }
    return value & UINT64_MAX >> (64 - k);
}

/* Counts the slots in use. The bits after the last bucket must be 0. */
static bool cuckoo_restore(struct bgi_core *core, const uint64_t *numbers)
{
    struct cuckoo_state *state = core->state;
    const uint64_t *words = (const uint64_t *)(const void *)core->words;
    uint64_t slots = CUCKOO_SLOTS * cuckoo_buckets(core->units, core->k);
    uint64_t end = core->units * cuckoo_unit_bytes(core->k) * 8 / core->k;
    for (uint64_t i = 0; i < slots; i++) {
        state->stored += cuckoo_slot(words, i, core->k) != 0;
    }
    for (uint64_t i = slots; i < end; i++) {
        if (cuckoo_slot(words, i, core->k) != 0) {
            return false;
        }
    }
    state->dropped = numbers[0];
    state->keeps_all = numbers[1] & CUCKOO_KEEPS_ALL;
    if (numbers[1] & CUCKOO_OVERFLOWED) {
        cuckoo_overflow(state);
    }
    return numbers[1] <= (CUCKOO_KEEPS_ALL | CUCKOO_OVERFLOWED);
}

static void cuckoo_doubt(struct bgi_core *core)
{
    cuckoo_overflow(core->state);
}

const struct bgi_kind bgi_kind_cuckoo = {
    .id = BG_KIND_CUCKOO,
    .traits = BG_TRAIT_REMOVE | BG_TRAIT_COUNT | BG_TRAIT_FILLS_UP,
    .k_min = 8,
    .k_max = 32,
    .units_max = (uint64_t)1 << 32,
    .unit_bytes = cuckoo_unit_bytes,
    .rate = cuckoo_rate,
    .fill = cuckoo_fill,
    .room = cuckoo_room,
    .lines = cuckoo_lines,
    .ops = cuckoo_ops,
    .state_bytes = cuckoo_state_bytes,
    .copied = cuckoo_copied,
    .measure = cuckoo_measure,
    .numbers = cuckoo_numbers,
    .restore = cuckoo_restore,
    .doubt = cuckoo_doubt,
};
