/*
 * cuckoo_core.h - the operations of cuckoo filters, for one fingerprint width.
 *
 * This file is included once for each width. Before each inclusion, this macro must be defined:
 *
 *   CUCKOO_BITS   bits per fingerprint: 8, 12, 16 or 32
 *
 * Four slots are compared at once. Let y be a word of fields, each of which is the XOR of a slot
 * and the wanted value. Then (y - 0..01 0..01) & ~y has the highest bit of the lowest zero field
 * set, and is 0 if no field is 0. Lookups use this expression, although its borrow may also affect
 * higher fields. Where all matches are needed, ((y & 01..1) + 01..1) | y is used: each sum stays
 * within its field, and the highest bit of a field is clear only if the field was 0. The results
 * are *flags*: four bits, one per slot, at the top of fields of CUCKOO_FIELD bits.
 *
 * `exclusive` is always a constant: true for filters that only one thread uses, and false for
 * shared filters, whose writers hold the lock. So writers may use plain reads in both modes.
 */

#define CUCKOO_PASTE3_(a, b, c) a##_##b##_##c
#define CUCKOO_PASTE3(a, b, c)  CUCKOO_PASTE3_(a, b, c)
#define CUCKOO(name)            CUCKOO_PASTE3(cuckoo, name, CUCKOO_BITS)

#define CUCKOO_MASK         (UINT64_MAX >> (64 - CUCKOO_BITS))
#define CUCKOO_BUCKET_BYTES ((uint64_t)CUCKOO_BITS * CUCKOO_SLOTS / 8)
#define CUCKOO_FIELD        (CUCKOO_BITS == 32 ? 16u : (unsigned)CUCKOO_BITS)
/* The lowest and the highest bit of each field of a word. */
#if CUCKOO_BITS == 32
#define CUCKOO_LOWEST (UINT64_C(1) | UINT64_C(1) << 32)
#else
#define CUCKOO_LOWEST                                                                  \
    (UINT64_C(1) | UINT64_C(1) << CUCKOO_BITS | UINT64_C(1) << (2 * CUCKOO_BITS)       \
     | UINT64_C(1) << (3 * CUCKOO_BITS))
#endif
#define CUCKOO_HIGHEST (CUCKOO_LOWEST << (CUCKOO_BITS - 1))

/* The bits of a bucket, lowest first. Bits beyond the bucket are undefined. */
struct CUCKOO(bucket) {
    uint64_t low, high; /* `high` is used only for 32-bit fingerprints */
};

/* ---- Buckets ---------------------------------------------------------------------- */

BGI_INLINE struct CUCKOO(bucket)
    CUCKOO(load)(const unsigned char *words, uint64_t at, const bool exclusive)
{
    struct CUCKOO(bucket) bucket = { 0, 0 };
#if CUCKOO_BITS == 8
    bucket.low = cuckoo_read_32(words, at, exclusive);
#elif CUCKOO_BITS == 12
    bucket.low = cuckoo_read_48(words, at, exclusive);
#else
    const uint64_t *word = (const uint64_t *)(const void *)(words + at);
    bucket.low = cuckoo_read(word, exclusive);
    if (CUCKOO_BITS == 32) {
        bucket.high = cuckoo_read(word + 1, exclusive);
    }
#endif
    return bucket;
}

/* Prefetches a bucket. With 12-bit fingerprints, 3 in 32 buckets span two cache lines. */
BGI_INLINE void CUCKOO(prefetch_bucket)(const unsigned char *words, uint64_t at)
{
    BGI_PREFETCH(words + at);
    if (CUCKOO_BITS == 12 && at % 64 > 56) {
        BGI_PREFETCH(words + at + 7);
    }
}

/* Writes a fingerprint to a slot; 0 clears the slot. */
BGI_INLINE void CUCKOO(store)(unsigned char *words, uint64_t at, unsigned slot,
                              uint64_t fingerprint, const bool exclusive)
{
#if CUCKOO_BITS == 12
    cuckoo_write_12(words, at, 12 * slot, fingerprint, exclusive);
#else
    unsigned bit = (unsigned)(at & 7) * 8 + CUCKOO_BITS * slot, shift = bit % 64;
    uint64_t *word = (uint64_t *)(void *)words + at / 8 + bit / 64;
    cuckoo_write(word, (*word & ~(CUCKOO_MASK << shift)) | fingerprint << shift,
                 exclusive);
#endif
}

/* Returns nonzero if a slot of the bucket holds the fingerprint. */
BGI_INLINE uint64_t CUCKOO(holds)(struct CUCKOO(bucket) bucket, uint64_t fingerprint)
{
    uint64_t pattern = fingerprint * CUCKOO_LOWEST;
    uint64_t low = bucket.low ^ pattern, found = (low - CUCKOO_LOWEST) & ~low;
    if (CUCKOO_BITS == 32) {
        uint64_t high = bucket.high ^ pattern;
        found |= (high - CUCKOO_LOWEST) & ~high;
    }
    return found & CUCKOO_HIGHEST;
}

/* Returns a mask in which the highest bit of a field is set if that field of the word is zero. */
BGI_INLINE uint64_t CUCKOO(zeros)(uint64_t word)
{
    uint64_t rest = CUCKOO_HIGHEST - CUCKOO_LOWEST;
    return ~(((word & rest) + rest) | word) & CUCKOO_HIGHEST;
}

/* Returns the flags of the slots that hold the fingerprint; a fingerprint of 0 selects the empty
 * slots. */
BGI_INLINE uint64_t CUCKOO(flags)(struct CUCKOO(bucket) bucket, uint64_t fingerprint)
{
    uint64_t pattern = fingerprint * CUCKOO_LOWEST;
    uint64_t low = CUCKOO(zeros)(bucket.low ^ pattern);
    if (CUCKOO_BITS == 32) {
        uint64_t high = CUCKOO(zeros)(bucket.high ^ pattern);
        /* Bits 31 and 63 of the first word become bits 15 and 31; those of the second become
         * bits 47 and 63. */
        low = (low >> 16 | low >> 32) & 0x80008000u;
        high = (high >> 16 | high >> 32) & 0x80008000u;
        return low | high << 32;
    }
    return low;
}

BGI_INLINE unsigned CUCKOO(how_many)(uint64_t flags)
{
    const uint64_t ones = UINT64_C(1) | UINT64_C(1) << CUCKOO_FIELD
                          | UINT64_C(1) << (2 * CUCKOO_FIELD)
                          | UINT64_C(1) << (3 * CUCKOO_FIELD);
    return (unsigned)(((flags >> (CUCKOO_FIELD - 1)) * ones) >> (3 * CUCKOO_FIELD)) & 7;
}

BGI_INLINE unsigned CUCKOO(lowest_slot)(uint64_t flags)
{
    return (unsigned)__builtin_ctzll(flags) / CUCKOO_FIELD;
}

BGI_INLINE uint64_t CUCKOO(slot)(struct CUCKOO(bucket) bucket, unsigned slot)
{
    unsigned bit = CUCKOO_BITS * slot;
    return (bit < 64 ? bucket.low : bucket.high) >> bit % 64 & CUCKOO_MASK;
}

/* ---- Places ----------------------------------------------------------------------- */

BGI_INLINE uint64_t CUCKOO(buckets)(const struct bgi_core *core)
{
    return cuckoo_buckets(core->units, CUCKOO_BITS);
}

BGI_INLINE uint64_t CUCKOO(fingerprint)(uint64_t hash)
{
    uint64_t bits = hash & CUCKOO_MASK;
    return bits + (bits == 0);
}

BGI_INLINE struct cuckoo_place CUCKOO(place)(const struct bgi_core *core, uint64_t hash)
{
    uint64_t buckets = CUCKOO(buckets)(core), first = bgi_mulhi(hash, buckets);
    uint64_t fingerprint = CUCKOO(fingerprint)(hash);
    uint64_t second = cuckoo_other(cuckoo_sum(fingerprint, buckets), first, buckets);
    return (struct cuckoo_place){ fingerprint, first * CUCKOO_BUCKET_BYTES,
                                  second * CUCKOO_BUCKET_BYTES };
}

/* Returns the location of key i in a group that `locate` has processed. */
BGI_INLINE struct cuckoo_place CUCKOO(located)(const struct bgi_group *group,
                                               unsigned i)
{
    return (struct cuckoo_place){ CUCKOO(fingerprint)(group->hashes[i]), group->at[i],
                                  group->also[i] };
}

/* ---- Lookups ----------------------------------------------------------------------- */

BGI_INLINE bool CUCKOO(look)(const struct bgi_core *core, struct cuckoo_place place,
                             const bool exclusive)
{
    const unsigned char *words = core->words;
    struct CUCKOO(bucket) first = CUCKOO(load)(words, place.first, exclusive);
    struct CUCKOO(bucket) second = CUCKOO(load)(words, place.second, exclusive);
    if (!exclusive) {
        cuckoo_reads_done();
    }
    return (CUCKOO(holds)(first, place.fingerprint)
            | CUCKOO(holds)(second, place.fingerprint))
           != 0;
}

/* Returns the number of slots in a key's buckets that hold its fingerprint. */
BGI_INLINE unsigned CUCKOO(copies)(const struct bgi_core *core,
                                   struct cuckoo_place place, const bool exclusive)
{
    struct CUCKOO(bucket) first = CUCKOO(load)(core->words, place.first, exclusive);
    struct CUCKOO(bucket) second = CUCKOO(load)(core->words, place.second, exclusive);
    cuckoo_reads_done();
    unsigned copies = CUCKOO(how_many)(CUCKOO(flags)(first, place.fingerprint));
    return place.first == place.second
               ? copies
               : copies + CUCKOO(how_many)(CUCKOO(flags)(second, place.fingerprint));
}

/* Repeats a lookup that returned "no" during a concurrent change, until no change interferes. */
__attribute__((noinline)) static bool CUCKOO(has_again)(const struct bgi_core *core,
                                                        uint64_t hash)
{
    const struct cuckoo_state *state = core->state;
    struct cuckoo_place place = CUCKOO(place)(core, hash);
    const uint64_t *changes = &state->changes[place.fingerprint % CUCKOO_STRIPES];
    for (unsigned i = 0; i < CUCKOO_TRIES; i++) {
        uint64_t before = __atomic_load_n(changes, __ATOMIC_ACQUIRE);
        if ((before & 1) || CUCKOO(look)(core, place, false)) {
            return true;
        }
        if (__atomic_load_n(changes, __ATOMIC_RELAXED) == before) {
            return false;
        }
    }
    return true;
}

BGI_INLINE bool CUCKOO(test)(const struct bgi_core *core, uint64_t hash,
                             const bool exclusive)
{
    const struct cuckoo_state *state = core->state;
    struct cuckoo_place place = CUCKOO(place)(core, hash);
    if (exclusive) {
        bool maybe = CUCKOO(look)(core, place, true);
        return BGI_UNLIKELY(cuckoo_overflowed(state)) ? true : maybe;
    }
    uint64_t before = __atomic_load_n(&state->all_changes, __ATOMIC_ACQUIRE);
    bool maybe = CUCKOO(look)(core, place, false);
    uint64_t after = __atomic_load_n(&state->all_changes, __ATOMIC_RELAXED);
    if (BGI_UNLIKELY(!cuckoo_believed(before, after))) {
        return maybe || CUCKOO(has_again)(core, hash);
    }
    return maybe;
}

static uint64_t CUCKOO(count)(const struct bgi_core *core, uint64_t hash)
{
    const struct cuckoo_state *state = core->state;
    struct cuckoo_place place = CUCKOO(place)(core, hash);
    const uint64_t *changes = &state->changes[place.fingerprint % CUCKOO_STRIPES];
    for (unsigned i = 0; i < CUCKOO_TRIES; i++) {
        uint64_t before = __atomic_load_n(changes, __ATOMIC_ACQUIRE);
        unsigned copies = CUCKOO(copies)(core, place, false);
        if (cuckoo_believed(before, __atomic_load_n(changes, __ATOMIC_RELAXED))) {
            return copies;
        }
        if (before & 1) {
            return UINT64_MAX; /* the filter has overflowed, so the count is unknown */
        }
    }
    return 2 * CUCKOO_SLOTS;
}

/* ---- Moving fingerprints ----------------------------------------------------------- */

/* For each fingerprint in the bucket of node `from`, appends its other bucket to the nodes and
 * prefetches that bucket. */
BGI_INLINE int CUCKOO(expand)(const struct bgi_core *core, struct cuckoo_node *nodes,
                              int from, int n)
{
    uint64_t buckets = CUCKOO(buckets)(core), bucket = nodes[from].bucket;
    uint64_t at = bucket * CUCKOO_BUCKET_BYTES;
    struct CUCKOO(bucket) content = CUCKOO(load)(core->words, at, true);
    for (unsigned slot = 0; slot < CUCKOO_SLOTS; slot++) {
        uint64_t sum = cuckoo_sum(CUCKOO(slot)(content, slot), buckets);
        uint64_t other = cuckoo_other(sum, bucket, buckets);
        /* Skip paths that return to the start of the search; they are common if one key is added
         * many times. */
        if (other != nodes[0].bucket && other != nodes[1].bucket && other != bucket) {
            CUCKOO(prefetch_bucket)(core->words, other * CUCKOO_BUCKET_BYTES);
            nodes[n++] = (struct cuckoo_node){ other, (int16_t)from, (uint8_t)slot };
        }
    }
    return n;
}

/* Returns the nearest node whose bucket has an empty slot, and sets *slot to that slot. Returns
 * CUCKOO_NONE if the search finds no such node. The buckets of the first two nodes are full. */
static int CUCKOO(search)(const struct bgi_core *core, struct cuckoo_node *nodes,
                          unsigned *slot)
{
    int n = 2, expanded = 0;
    for (int i = 2;; i++) {
        while (expanded < i && n - i < CUCKOO_AHEAD
               && n + CUCKOO_SLOTS <= CUCKOO_NODES) {
            n = CUCKOO(expand)(core, nodes, expanded++, n);
        }
        if (i == n) {
            return CUCKOO_NONE;
        }
        uint64_t at = nodes[i].bucket * CUCKOO_BUCKET_BYTES;
        uint64_t empty = CUCKOO(flags)(CUCKOO(load)(core->words, at, true), 0);
        if (empty) {
            *slot = CUCKOO(lowest_slot)(empty);
            return i;
        }
    }
}

/* Moves the fingerprints on the path from a key's bucket to node `end`, the last fingerprint
 * first, and stores the new fingerprint in the slot that becomes free. */
BGI_INLINE void CUCKOO(push)(struct bgi_core *core, const struct cuckoo_node *nodes,
                             int end, unsigned slot, uint64_t fingerprint,
                             const bool exclusive)
{
    uint64_t to = nodes[end].bucket * CUCKOO_BUCKET_BYTES;
    for (const struct cuckoo_node *node = &nodes[end]; node->parent != CUCKOO_NONE;) {
        unsigned from_slot = node->slot;
        node = &nodes[node->parent];
        uint64_t from = node->bucket * CUCKOO_BUCKET_BYTES;
        uint64_t moved = CUCKOO(slot)(CUCKOO(load)(core->words, from, true), from_slot);
        CUCKOO(store)
        (core->words, to, slot, moved,
         exclusive); /* (W1) of this move, and (W3) of the previous move */
        cuckoo_announce(core->state, moved, exclusive); /* (W2) */
        to = from;
        slot = from_slot;
    }
    CUCKOO(store)(core->words, to, slot, fingerprint, exclusive);
}

/* Stores a fingerprint whose buckets are both full. */
BGI_INLINE enum cuckoo_outcome CUCKOO(make_room)(struct bgi_core *core,
                                                 struct cuckoo_place place,
                                                 const bool exclusive)
{
    struct cuckoo_node nodes[CUCKOO_NODES];
    unsigned slot = 0, slots = place.first == place.second ? 4 : 8;
    if (CUCKOO(copies)(core, place, true) == slots) {
        return CUCKOO_ALL_COPIES;
    }
    nodes[0] =
        (struct cuckoo_node){ place.first / CUCKOO_BUCKET_BYTES, CUCKOO_NONE, 0 };
    nodes[1] =
        (struct cuckoo_node){ place.second / CUCKOO_BUCKET_BYTES, CUCKOO_NONE, 0 };
    int end = CUCKOO(search)(core, nodes, &slot);
    if (end == CUCKOO_NONE) {
        return CUCKOO_NO_ROOM;
    }
    struct cuckoo_state *state = core->state;
    CUCKOO(push)(core, nodes, end, slot, place.fingerprint, exclusive);
    cuckoo_raise(&state->stored, 1, exclusive);
    return CUCKOO_STORED;
}

__attribute__((noinline)) static enum cuckoo_outcome
CUCKOO(make_room_exclusive)(struct bgi_core *core, struct cuckoo_place place)
{
    return CUCKOO(make_room)(core, place, true);
}

__attribute__((noinline)) static enum cuckoo_outcome
CUCKOO(make_room_shared)(struct bgi_core *core, struct cuckoo_place place)
{
    return CUCKOO(make_room)(core, place, false);
}

/* ---- Changes, made with the lock held ---------------------------------------------- */

/* Stores a fingerprint in the emptier of its two buckets, so that few buckets become full. */
BGI_INLINE enum cuckoo_outcome CUCKOO(put)(struct bgi_core *core,
                                           struct cuckoo_place place, bool *is_new,
                                           const bool exclusive)
{
    struct cuckoo_state *state = core->state;
    struct CUCKOO(bucket) first = CUCKOO(load)(core->words, place.first, true);
    struct CUCKOO(bucket) second = CUCKOO(load)(core->words, place.second, true);
    uint64_t empty1 = CUCKOO(flags)(first, 0), empty2 = CUCKOO(flags)(second, 0);
    bool seen = (CUCKOO(holds)(first, place.fingerprint)
                 | CUCKOO(holds)(second, place.fingerprint))
                != 0;
    *is_new = !seen && !cuckoo_overflowed(state);
    if (BGI_UNLIKELY((empty1 | empty2) == 0)) {
        return exclusive ? CUCKOO(make_room_exclusive)(core, place)
                         : CUCKOO(make_room_shared)(core, place);
    }
    bool use_second = CUCKOO(how_many)(empty2) > CUCKOO(how_many)(empty1);
    uint64_t at = use_second ? place.second : place.first;
    unsigned slot = CUCKOO(lowest_slot)(use_second ? empty2 : empty1);
    CUCKOO(store)(core->words, at, slot, place.fingerprint, exclusive);
    cuckoo_raise(&state->stored, 1, exclusive);
    return CUCKOO_STORED;
}

/* Adds a fingerprint. If no slot can be found, records that the fingerprint was dropped. */
BGI_INLINE bool CUCKOO(put_anyway)(struct bgi_core *core, struct cuckoo_place place,
                                   const bool exclusive)
{
    struct cuckoo_state *state = core->state;
    bool is_new;
    enum cuckoo_outcome outcome = CUCKOO(put)(core, place, &is_new, exclusive);
    if (BGI_UNLIKELY(outcome != CUCKOO_STORED)) {
        cuckoo_drop(state, is_new, outcome);
    }
    return is_new;
}

BGI_INLINE bg_err CUCKOO(take)(struct bgi_core *core, struct cuckoo_place place,
                               const bool exclusive)
{
    struct cuckoo_state *state = core->state;
    unsigned copies = CUCKOO(copies)(core, place, true);
    unsigned slots = place.first == place.second ? 4 : 8;
    if (copies == 0 && !cuckoo_overflowed(state)) {
        return BG_ENOTFOUND;
    }
    if (state->keeps_all || cuckoo_overflowed(state)
        || (state->dropped && copies == slots)) {
        return BG_OK; /* the number of copies is no longer known, so no copy is removed */
    }
    struct CUCKOO(bucket) first = CUCKOO(load)(core->words, place.first, true);
    struct CUCKOO(bucket) second = CUCKOO(load)(core->words, place.second, true);
    uint64_t in_first = CUCKOO(flags)(first, place.fingerprint);
    uint64_t in_second = CUCKOO(flags)(second, place.fingerprint);
    cuckoo_announce(state, place.fingerprint, exclusive);
    CUCKOO(store)
    (core->words, in_first ? place.first : place.second,
     CUCKOO(lowest_slot)(in_first ? in_first : in_second), 0, exclusive);
    cuckoo_raise(&state->stored, (uint64_t)-1, exclusive);
    return BG_OK;
}

/* ---- Batches ---------------------------------------------------------------------- */

static void CUCKOO(locate)(const struct bgi_core *core, struct bgi_group *group)
{
    for (unsigned i = 0; i < group->n; i++) {
        struct cuckoo_place place = CUCKOO(place)(core, group->hashes[i]);
        group->at[i] = place.first;
        group->also[i] = place.second;
    }
}

BGI_INLINE void CUCKOO(prefetch_one)(const struct bgi_core *core,
                                     const struct bgi_group *group, unsigned i)
{
    CUCKOO(prefetch_bucket)(core->words, group->at[i]);
    CUCKOO(prefetch_bucket)(core->words, group->also[i]);
}

/* Always inlined, except when called through the table of operations; see batch.c. */
BGI_INLINE void CUCKOO(prefetch_from)(const struct bgi_core *core,
                                      const struct bgi_group *group, unsigned from)
{
    for (unsigned i = from; group && i < group->n; i++) {
        CUCKOO(prefetch_one)(core, group, i);
    }
}

static void CUCKOO(prefetch)(const struct bgi_core *core, const struct bgi_group *group)
{
    CUCKOO(prefetch_from)(core, group, 0);
}

BGI_INLINE uint64_t CUCKOO(look_word)(const struct bgi_core *core,
                                      const struct bgi_group *group,
                                      const struct bgi_group *next,
                                      const bool exclusive)
{
    uint64_t answer = 0;
    unsigned i = 0, both = next ? (next->n < group->n ? next->n : group->n) : 0;
    for (; i < both; i++) {
        CUCKOO(prefetch_one)(core, next, i);
        bool maybe = CUCKOO(look)(core, CUCKOO(located)(group, i), exclusive);
        answer |= (uint64_t)maybe << i;
    }
    CUCKOO(prefetch_from)(core, next, i);
    for (; i < group->n; i++) {
        bool maybe = CUCKOO(look)(core, CUCKOO(located)(group, i), exclusive);
        answer |= (uint64_t)maybe << i;
    }
    return answer;
}

/* Repeats all lookups that returned "no", one by one. */
__attribute__((noinline)) static uint64_t
CUCKOO(look_again)(const struct bgi_core *core, const struct bgi_group *group,
                   uint64_t answer)
{
    for (unsigned i = 0; i < group->n; i++) {
        if (!(answer >> i & 1)) {
            answer |= (uint64_t)CUCKOO(has_again)(core, group->hashes[i]) << i;
        }
    }
    return answer;
}

static uint64_t CUCKOO(has_group_shared)(const struct bgi_core *core,
                                         const struct bgi_group *group,
                                         const struct bgi_group *next)
{
    const struct cuckoo_state *state = core->state;
    uint64_t before = __atomic_load_n(&state->all_changes, __ATOMIC_ACQUIRE);
    uint64_t answer = CUCKOO(look_word)(core, group, next, false);
    uint64_t after = __atomic_load_n(&state->all_changes, __ATOMIC_RELAXED);
    return cuckoo_believed(before, after) ? answer
                                          : CUCKOO(look_again)(core, group, answer);
}

static uint64_t CUCKOO(has_group_exclusive)(const struct bgi_core *core,
                                            const struct bgi_group *group,
                                            const struct bgi_group *next)
{
    uint64_t answer = CUCKOO(look_word)(core, group, next, true);
    return cuckoo_overflowed(core->state) ? CUCKOO(look_again)(core, group, answer)
                                          : answer;
}

BGI_INLINE uint64_t CUCKOO(put_word)(struct bgi_core *core,
                                     const struct bgi_group *group,
                                     const struct bgi_group *next, const bool exclusive)
{
    uint64_t answer = 0;
    for (unsigned i = 0; i < group->n; i++) {
        if (next && i < next->n) {
            CUCKOO(prefetch_one)(core, next, i);
        }
        bool is_new = CUCKOO(put_anyway)(core, CUCKOO(located)(group, i), exclusive);
        answer |= (uint64_t)is_new << i;
    }
    CUCKOO(prefetch_from)(core, next, group->n);
    return answer;
}

/* ---- The operations --------------------------------------------------------------- */

#define CUCKOO_DEFINE_MODE(mode, is_exclusive)                                         \
    static bool CUCKOO(has_##mode)(const struct bgi_core *core, uint64_t hash)         \
    {                                                                                  \
        return CUCKOO(test)(core, hash, is_exclusive);                                 \
    }                                                                                  \
    static bool CUCKOO(has_u64_##mode)(const struct bgi_core *core, uint64_t key)      \
    {                                                                                  \
        return CUCKOO(test)(core, bgi_fast8_masked(core->fast8_mask, key),             \
                            is_exclusive);                                             \
    }                                                                                  \
    static bool CUCKOO(add_##mode)(struct bgi_core * core, uint64_t hash)              \
    {                                                                                  \
        struct cuckoo_place place = CUCKOO(place)(core, hash);                         \
        CUCKOO_BEGIN(core, is_exclusive);                                              \
        bool is_new = CUCKOO(put_anyway)(core, place, is_exclusive);                   \
        CUCKOO_END(core, is_exclusive);                                                \
        return is_new;                                                                 \
    }                                                                                  \
    static bool CUCKOO(add_u64_##mode)(struct bgi_core * core, uint64_t key)           \
    {                                                                                  \
        return CUCKOO(add_##mode)(core, bgi_fast8_masked(core->fast8_mask, key));      \
    }                                                                                  \
    static bg_err CUCKOO(insert_##mode)(struct bgi_core * core, uint64_t hash,         \
                                        bool *is_new)                                  \
    {                                                                                  \
        struct cuckoo_place place = CUCKOO(place)(core, hash);                         \
        CUCKOO_BEGIN(core, is_exclusive);                                              \
        enum cuckoo_outcome outcome = CUCKOO(put)(core, place, is_new, is_exclusive);  \
        CUCKOO_END(core, is_exclusive);                                                \
        return outcome == CUCKOO_STORED ? BG_OK : BG_EFULL;                            \
    }                                                                                  \
    static bg_err CUCKOO(remove_##mode)(struct bgi_core * core, uint64_t hash)         \
    {                                                                                  \
        struct cuckoo_place place = CUCKOO(place)(core, hash);                         \
        CUCKOO_BEGIN(core, is_exclusive);                                              \
        bg_err err = CUCKOO(take)(core, place, is_exclusive);                          \
        CUCKOO_END(core, is_exclusive);                                                \
        return err;                                                                    \
    }                                                                                  \
    static uint64_t CUCKOO(add_group_##mode)(struct bgi_core * core,                   \
                                             const struct bgi_group *group,            \
                                             const struct bgi_group *next)             \
    {                                                                                  \
        CUCKOO_BEGIN(core, is_exclusive);                                              \
        uint64_t answer = CUCKOO(put_word)(core, group, next, is_exclusive);           \
        CUCKOO_END(core, is_exclusive);                                                \
        return answer;                                                                 \
    }                                                                                  \
    static const struct bgi_ops CUCKOO(ops_##mode) = {                                 \
        .has = CUCKOO(has_##mode),                                                     \
        .add = CUCKOO(add_##mode),                                                     \
        .has_u64 = CUCKOO(has_u64_##mode),                                             \
        .add_u64 = CUCKOO(add_u64_##mode),                                             \
        .locate = CUCKOO(locate),                                                      \
        .has_group = CUCKOO(has_group_##mode),                                         \
        .add_group = CUCKOO(add_group_##mode),                                         \
        .prefetch = CUCKOO(prefetch),                                                  \
        .insert = CUCKOO(insert_##mode),                                               \
        .remove = CUCKOO(remove_##mode),                                               \
        .count = CUCKOO(count),                                                        \
    };

/* Every writer takes and releases the lock with these macros. */
#define CUCKOO_BEGIN(core, is_exclusive)                                               \
    ((is_exclusive) ? (void)0 : cuckoo_lock((core)->state))
#define CUCKOO_END(core, is_exclusive)                                                 \
    ((is_exclusive) ? (void)0 : cuckoo_unlock((core)->state))

CUCKOO_DEFINE_MODE(exclusive, true)
CUCKOO_DEFINE_MODE(shared, false)

#undef CUCKOO_BEGIN
#undef CUCKOO_END
#undef CUCKOO_DEFINE_MODE
#undef CUCKOO_HIGHEST
#undef CUCKOO_LOWEST
#undef CUCKOO_FIELD
#undef CUCKOO_BUCKET_BYTES
#undef CUCKOO_MASK
#undef CUCKOO
#undef CUCKOO_PASTE3
#undef CUCKOO_PASTE3_
#undef CUCKOO_BITS
