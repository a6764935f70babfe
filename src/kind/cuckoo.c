/*
 * cuckoo.c - fingerprints in a hash table, so that keys can be removed at 12 bits each.
 *
 * Idea. A table of buckets with four slots each. A key is kept as a fingerprint, f bits of
 * its hash, in one of two buckets; it may be in while one of the two holds its
 * fingerprint (Fan, Andersen, Kaminsky, Mitzenmacher, "Cuckoo filter: practically better
 * than Bloom", 2014). When both are full, fingerprints are pushed on to their other
 * buckets until a slot is free, which works until 95 % of all slots are in use. A table
 * that keeps no keys can do that only if the other bucket follows from the bucket and the
 * fingerprint alone. Here
 *
 *      first + second = sum(fingerprint)   (mod number of buckets)
 *
 * so that second = sum - first and first = sum - second: the way there is the way back,
 * for any number of buckets, where the usual exclusive or needs a power of two and so
 * wastes up to half of the memory. `sum` is a mixed multiple of the fingerprint, mapped
 * to the number of buckets by multiply-high. Once in as many keys as there are buckets
 * the two are one and the same; such a key has four slots instead of eight.
 *
 * Layout. The filter is one run of 64-bit words. Bucket b takes the bits 4 f b and on,
 * slot s of it those from 4 f b + f s, lowest bits first; a fingerprint of 0 is an empty
 * slot (a key whose bits are 0 takes 1).
 *
 *      f =  8   [ bucket 0 | bucket 1 ]                        unit: 2 buckets, 1 word
 *      f = 12   [ bucket 0 | buc][ket 1 | buck][et 2| bucket 3 ]     4 buckets, 3 words
 *      f = 16   [       bucket 0      ]                              1 bucket,  1 word
 *      f = 32   [  slot 0  |  slot 1  ][  slot 2  |  slot 3  ]       1 bucket,  2 words
 *
 * A unit is as many buckets as fill whole words. Buckets of 12-bit fingerprints are read
 * by loads of 64 bits from where they begin; the very last one is left out, so that these
 * loads never reach beyond the end. Both buckets are always read, and four slots are
 * compared at a time, in one word: no branch depends on what is found.
 *
 * Rate. A stranger is taken for a member by a stored key that has its fingerprint and
 * one of its two buckets as first one. Each of n stored keys is that with a probability of
 * 2 q / buckets, where q is the chance that two fingerprints are equal, so the rate is
 * 1 - (1 - 2 q / buckets)^n, whatever slots they sit in: about 8 x load / 2^f.
 *
 * Copies. A key that is added twice is stored twice, since it may be removed twice. When
 * all slots of both buckets hold one fingerprint, an insert of a further copy is refused
 * with BG_EFULL, at once. An add cannot be refused, and the key is answered "maybe"
 * already; but had its copy simply been dropped, removes could take away more copies than
 * were stored, and the key would be missing while it should still be there. So the filter
 * notes that it dropped a copy (bg_filter_info.saturated says how many), and from then on a set
 * of slots that is full of one fingerprint stays as it is: like a saturated counter,
 * removes leave it alone. A set that lost a copy was full when it did, and so is for ever.
 * Where there is no room for a further copy although other fingerprints are in these
 * buckets, as in a full table, an add drops it as well, but the set that lost it can not
 * be recognised later: then removes change nothing at all any more.
 *
 * Full. What an insert would push on is found before anything is moved, by a search in
 * breadth over at most CUCKOO_NODES buckets. If there is no free slot in reach the insert
 * is refused, and the table is as it was: no fingerprint is ever without a slot. The
 * search goes over what is reached first, so its path visits no bucket twice. An add of a
 * key that is not there yet and finds no room makes every query answer "maybe" until the
 * filter is cleared (bg_filter_info.overflowed).
 *
 * What a remove can do wrong: as for counting filters. Of a key that was never added it
 * may take away the fingerprint of another that looks the same. So only what was added
 * may be removed; see bg_filter_remove.
 *
 * Concurrency. Writers (adds, inserts, removes) hold the filter's one lock, for as long as
 * a key takes, or 64 keys of a batch. Readers hold none and wait for nobody, but they
 * look at two places, and a fingerprint that goes from the place that is read last to
 * the one that was read first would be missed. Hence a counter. A writer changes slots in
 * this order:
 *
 *      (W1) a fingerprint is written to its new slot (moved ones only);
 *      (W2) the counter goes up;
 *      (W3) its old slot is cleared, or overwritten with the next one to be moved.
 *
 * All three are release stores. A reader loads the counter, then both buckets, all with
 * acquire, then the counter again, and believes a "no" only if that did not change.
 * Removes take steps (W2) and (W3): if copy A is added and copy B then removed, that is a
 * move from B to A for whoever looks for the key.
 *
 * Proof that no key is missed that was added before the look began and is not removed
 * until it ends. Let the counter read be c both times, and V the write (W2) that made it
 * c. Everything written before V is visible to the reader. After V comes the one
 * disappearance (W3) that V announced, D; every later disappearance is announced by a
 * further (W2). Consider the table after D, or after the key's add if that came later.
 * Some slot holds the key's fingerprint then, since it is in; it was written before V, or
 * by the add, which the look follows, so it is visible, and D did not touch it. If the
 * reader does not find it there, it has read a later write to that slot, a disappearance;
 * that was announced by (W2) with a value above c, before it in the order of writers, whom
 * the lock orders; so by release and acquire the second load of the counter must have
 * returned more than c, but it returned c.
 *
 * The argument is about bits that keep their value, so it does not matter that a 12-bit
 * bucket is not read, and a slot of it not always written, in one piece: a reader that
 * sees one half of a fingerprint that is coming or going may answer "maybe" for a
 * stranger, never "no" for a member.
 *
 * One counter for all would keep readers busy beside a writer at work in a full table. So
 * there are CUCKOO_STRIPES more, and of these only the one that is chosen by the
 * fingerprint goes up: the two buckets of a key and the key itself agree on it, and the
 * proof holds for it alone. A look-up, or 64 of a batch, first goes by the one counter of
 * all changes, which costs least; only a "no" that is not believed is repeated with the
 * fingerprint's own counter, and after CUCKOO_TRIES times it becomes "maybe". So readers
 * are done after a bounded number of steps. The lowest bit of every counter tells that
 * the filter has overflowed: counters go up by 2, and an odd one is never believed.
 *
 * Invariants
 *   (I1) Fingerprints in slots = adds less removes, unless bg_filter_info.saturated is above 0.
 *   (I2) A fingerprint x in bucket b belongs to b and to sum(x) - b, and to no other.
 *   (I3) The first bucket follows from the high bits of the hash, the fingerprint from the
 *        low f bits: at most 2^32 units, so that 32-bit fingerprints share no bits with
 *        it.
 */
#include "base/bits.h"
#include "bloomgate/kind.h"
#include "hash/fast.h"
#include "kind/kind.h"

#include <math.h>

/* Whether 64 bits may be loaded from any even byte; not where the thread
 * sanitizer watches, to which that is a race. */
#if (defined(BGI_X86_64) || defined(BGI_AARCH64)) && !BGI_BIG_ENDIAN && !BGI_TSAN
#define CUCKOO_ONE_LOAD 1
#else
#define CUCKOO_ONE_LOAD 0
#endif

enum {
    CUCKOO_SLOTS = 4,    /* of a bucket */
    CUCKOO_STRIPES = 64, /* counters of changes */
    CUCKOO_TRIES = 64,   /* of a reader whom changes disturb */
    CUCKOO_NODES = 1024, /* buckets that a search looks at */
    CUCKOO_AHEAD = 8,    /* of which so many are asked for in advance */
    CUCKOO_NONE = -1
};

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): lines apart on purpose */
struct cuckoo_state {
    /* For writers, in a line that readers leave alone. */
    uint64_t stored;  /* slots in use */
    uint64_t dropped; /* copies: see Copies */
    bool keeps_all;   /* removes change nothing any more: see Copies */
    unsigned char lock;
    /* For readers. */
    _Alignas(64) uint64_t changes[CUCKOO_STRIPES]; /* see Concurrency: 2 x changes +
                                                      overflowed */
    uint64_t all_changes; /* of all fingerprints, in the same way */
};

/* What became of an insert. */
enum cuckoo_outcome {
    CUCKOO_STORED,
    CUCKOO_ALL_COPIES, /* every slot that it could take holds its fingerprint */
    CUCKOO_NO_ROOM
};

/* A key's fingerprint and buckets, as byte offsets. */
struct cuckoo_place {
    uint64_t fingerprint, first, second;
};

/* A bucket that a search looks at, and whose occupant would move there. */
struct cuckoo_node {
    uint64_t bucket;
    int16_t parent; /* node; CUCKOO_NONE for a key's own buckets */
    uint8_t slot;   /* of the parent's bucket */
};

/* 32-bit words of an array that others see as 64-bit words. */
typedef uint32_t __attribute__((may_alias)) cuckoo_half;
typedef uint64_t __attribute__((may_alias, aligned(2))) cuckoo_any_word;

/* ---- What all widths share -------------------------------------------------------- */

/* Not a multiple of the fingerprint: the ways through the table would then go in even
 * steps, over few different buckets. */
BGI_INLINE uint64_t cuckoo_sum(uint64_t fingerprint, uint64_t buckets)
{
    uint64_t mixed = fingerprint * (fingerprint + 1) * 0xbf58476d1ce4e5b9u;
    return bgi_mulhi(mixed, buckets);
}

/* The other bucket: its own inverse. */
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

/* The 32 bits that begin at a multiple of 4 bytes. */
BGI_INLINE uint64_t cuckoo_read_32(const unsigned char *words, uint64_t at,
                                   const bool exclusive)
{
    const cuckoo_half *half = (const cuckoo_half *)(const void *)words;
    half += (at / 4) ^ BGI_BIG_ENDIAN;
    return exclusive ? *half : __atomic_load_n(half, __ATOMIC_ACQUIRE);
}

/*
 * The 64 bits that begin at an even byte, lowest bits first; those above 48 are undefined.
 * Where the processor can, by one load; it need not be atomic as a whole (see
 * Concurrency), but must not be delayed beyond the second load of a counter, for which
 * there is cuckoo_reads_done.
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

/* What was read is read before anything that comes later. */
BGI_INLINE void cuckoo_reads_done(void)
{
#if CUCKOO_ONE_LOAD
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

/* Writes a 12-bit fingerprint to the bits from `shift` on of the 48 that begin at `at`. */
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

/* Adds to a number that only writers change but everybody reads. */
BGI_INLINE void cuckoo_raise(uint64_t *number, uint64_t by, const bool exclusive)
{
    cuckoo_write(number, *number + by, exclusive);
}

/* (W2): announces that a fingerprint will disappear from a slot. */
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

/* From now on every query answers "maybe". */
static void cuckoo_overflow(struct cuckoo_state *state)
{
    for (unsigned i = 0; i < CUCKOO_STRIPES; i++) {
        cuckoo_write(&state->changes[i], state->changes[i] | 1, false);
    }
    cuckoo_write(&state->all_changes, state->all_changes | 1, false);
}

/* An add found no slot: of a copy or of a key that is new, see Copies and Full. */
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

/* Whether a "no" between two loads of a counter can be believed. */
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

/* Buckets of so many units, which are whole words; of 12 bits one less than there is room
 * for, so that 8 bytes can be read wherever a bucket of 6 begins. */
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
    (void)cpu; /* four slots in a word: vectors would gain nothing */
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

/* The chance that one of n stored keys has a given fingerprint, of which a share q of
 * keys has the same, and shares a bucket. The two buckets are one for 1 in `buckets`. */
static double cuckoo_chance(double buckets, double q, double n)
{
    double two = -expm1(n * log1p(-fmin(2 / buckets, 1) * q));
    double one = -expm1(n * log1p(-q / buckets));
    return two + (one - two) / buckets;
}

/* The rate at n stored fingerprints; the fingerprint 1 occurs twice as often. */
static double cuckoo_rate_of(uint64_t units, uint32_t k, double n)
{
    double buckets = (double)cuckoo_buckets(units, k), q = ldexp(1, -(int)k);
    double common = cuckoo_chance(buckets, 2 * q, n);
    double usual = cuckoo_chance(buckets, q, n);
    return usual + 2 * q * (common - usual);
}

/*
 * How many keys fit: 95 % of the slots; fewer in small filters, whose buckets chance fills
 * less evenly. (Measured: of filters of 16 to 1024 slots fewer than 1 in 1000 refuse a
 * key before that, of larger ones none did in 10000.) Four always fit.
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
 * The words were copied one by one, and what moved meanwhile may be missing: they are
 * copied again while no writer is at work. (The lock is taken of a filter that is const to
 * its user; it is part of the state, which is not.)
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

/* Slot i of an array of k-bit slots in words, lowest bits first. */
static uint64_t cuckoo_slot(const uint64_t *words, uint64_t i, uint32_t k)
{
    uint64_t bit = i * k, shift = bit % 64;
    uint64_t value = words[bit / 64] >> shift;
    if (shift + k > 64) {
        value |= words[bit / 64 + 1] << (64 - shift);
    }
    return value & UINT64_MAX >> (64 - k);
}

/* Slots in use are counted; there is nothing behind the last bucket. */
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
