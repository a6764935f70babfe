/*
 * line_core.h - the operations of the kinds that keep all bits of a key in one line: blocked and
 * split.
 *
 * This file is compiled once per instruction set and shape. Before each inclusion, these macros
 * must be defined:
 *
 *   ISA           the suffix of all names, such as avx2
 *   ISA_TARGET    the function attribute that enables the instructions
 *   ISA_RACES     the attribute of functions whose vector loads race with atomic ORs by
 *                 design: BGI_NO_TSAN, or nothing where loads are C atomics
 *   LINE_SHAPE    split, columns or words: see line_shapes.h
 *   LINE_MASKED   1 if a key uses only some of the lanes (a rotated pattern), otherwise 0
 *   ISA_LANE_MASKS  1 if line_S_mask takes the lanes as bits, 0 if it takes their rotation
 *   ISA_EIGHTS    if defined, line_S_locate8, for up to ISA_EIGHTS_UNITS lines, and
 *                 line_S_needed8 exist
 *
 * The instruction set's file must have defined, for each shape S:
 *
 *   line_S_found(line, x)                the lanes in which the bit of x is set, as bits
 *   line_S                               the type of a pattern of bits to set
 *   line_S_make(x)                       the pattern of x
 *   line_S_mask(pattern, core, r, lanes) the pattern, restricted to the lanes of rotation r,
 *                                        or to lanes given as bits (not for split)
 *   line_S_lacks(line, pattern)          whether a bit of the pattern is not set
 *   line_S_set(line, pattern)            sets the bits; nonzero if one was not set before (16 bits)
 *   line_S_missing(line, pattern, bits)  stores the pattern as 64-bit words and returns a
 *                                        mask of the words of the line in which bits are not set
 *   line_S_all(found, needed)            for 64 keys: whether all needed lanes were found
 *   line_S_locate8(hashes, units, at)    the locations of the lines of eight hashes
 *   line_S_needed8(hashes, rotations, needed)  the lanes that eight hashes use (if masked)
 *
 * Concurrency. In shared mode, words are changed only by an atomic OR on a 64-bit word, and only if
 * a bit is not set yet. Lookups read vectors. On the CPUs that run this code, every aligned 8-byte
 * part of a vector load is atomic, so a lookup sees a snapshot of each 64-bit word. Bits are never
 * cleared. If an add happened before the lookup, the add either set each of its bits with an OR or
 * observed the bit as set in its own load; coherence then prevents the later lookup from seeing an
 * older value of that word. This proves (C1) of filter.h, and needs only relaxed memory order. An
 * add reports "new" based on its own load. Two racing adds may both find a bit unset, but they can
 * both find all bits set only if the bits were set before either add (C3).
 */

#define LINE_PASTE2_(a, b)       a##_##b
#define LINE_PASTE2(a, b)        LINE_PASTE2_(a, b)
#define LINE_PASTE4_(a, b, c, d) a##_##b##_##c##_##d
#define LINE_PASTE4(a, b, c, d)  LINE_PASTE4_(a, b, c, d)

#define LINE_TYPE       LINE_PASTE2(line, LINE_SHAPE)
#define LINE_WORD(word) LINE_PASTE2(LINE_TYPE, word) /* line_columns_make */
#define LINE(name)      LINE_PASTE4(LINE_TYPE, LINE_MASKED, name, ISA)

#ifndef BGI_LINE_OPERATIONS
#define BGI_LINE_OPERATIONS
enum line_operation { LINE_ADD_EXCLUSIVE, LINE_ADD_SHARED };

/* The number of keys that has_any prefetches ahead. With 8 layers, the speeds for 16, 32 and 64
 * keys are within 6% of each other (Zen 4, 1e7 and 1e8 keys). */
enum { LINE_AHEAD = 32 };

/* The filters that are queried together, and the location of each key's line in the first filter,
 * for the keys of a group and the keys that follow it. */
struct line_layers {
    const unsigned char *words[BGI_LAYERS_MAX];
    unsigned count;
    unsigned step;
    uint64_t at[64 + LINE_AHEAD];
};

/* If fewer than LINE_AHEAD keys follow, line 0 is prefetched in place of the missing keys. */
BGI_INLINE void line_layers_begin(struct line_layers *in,
                                  const struct bgi_core *const *cores, unsigned count,
                                  unsigned step, const struct bgi_group *group,
                                  const struct bgi_group *next)
{
    unsigned follow = next ? next->n : 0;
    follow = follow < LINE_AHEAD ? follow : LINE_AHEAD;
    for (unsigned c = 0; c < count; c++) {
        in->words[c] = cores[c]->words;
    }
    in->count = count;
    in->step = step;
    memcpy(in->at, group->at, group->n * sizeof *in->at);
    if (follow) {
        memcpy(in->at + group->n, next->at, follow * sizeof *in->at);
    }
    memset(in->at + group->n + follow, 0, (LINE_AHEAD - follow) * sizeof *in->at);
}
#endif

/* Returns the location of a hash's line, as a byte offset into the words. */
BGI_INLINE ISA_TARGET uint64_t LINE(at)(const struct bgi_core *core, uint64_t hash)
{
    return LINE_WORD(index)(hash, core->units) * LINE_WORD(bytes);
}

/* Returns the lanes that a hash uses. */
BGI_INLINE ISA_TARGET LINE_WORD(bits)
    LINE(needed)(const struct bgi_core *core, uint64_t hash)
{
#if LINE_MASKED
    uint32_t rotation = line_rotation((uint32_t)hash, LINE_WORD(lanes));
    return (LINE_WORD(bits))(core->rotations[rotation]);
#else
    (void)core, (void)hash;
    return (LINE_WORD(bits))UINT16_MAX;
#endif
}

BGI_INLINE ISA_TARGET LINE_TYPE LINE(pattern)(const struct bgi_core *core,
                                              uint64_t hash, LINE_WORD(bits) needed)
{
    LINE_TYPE pattern = LINE_WORD(make)((uint32_t)hash);
#if LINE_MASKED
    uint32_t rotation = line_rotation((uint32_t)hash, LINE_WORD(lanes));
    pattern = LINE_WORD(mask)(pattern, core, rotation, needed);
#else
    (void)core, (void)needed;
#endif
    return pattern;
}

BGI_INLINE ISA_TARGET uint32_t LINE(or_missing)(uint64_t *line, LINE_TYPE pattern)
{
    uint64_t bits[LINE_WORD(bytes) / 8];
    uint32_t missing = LINE_WORD(missing)(line, pattern, bits);
    for (uint32_t todo = missing; todo; todo &= todo - 1) {
        unsigned w = (unsigned)__builtin_ctz(todo);
        (void)__atomic_fetch_or(&line[w], bits[w], __ATOMIC_RELAXED);
    }
    return missing;
}

/* Adds one hash. `what` is a constant in every call, so that only one case is compiled. Returns
 * nonzero if the key is new. */
BGI_INLINE ISA_TARGET uint32_t LINE(put)(const struct bgi_core *core, uint64_t hash,
                                         unsigned char *line, LINE_WORD(bits) needed,
                                         const enum line_operation what)
{
    LINE_TYPE pattern = LINE(pattern)(core, hash, needed);
    return what == LINE_ADD_EXCLUSIVE
               ? LINE_WORD(set)(line, pattern)
               : LINE(or_missing)((uint64_t *)(void *)line, pattern);
}

ISA_TARGET static void LINE(locate)(const struct bgi_core *core,
                                    struct bgi_group *group)
{
    unsigned i = 0;
    group->core = core;
#ifdef ISA_EIGHTS
    for (; core->units <= ISA_EIGHTS_UNITS && i + 8 <= group->n; i += 8) {
        LINE_WORD(locate8)(group->hashes + i, core->units, group->at + i);
    }
#endif
    for (; i < group->n; i++) {
        group->at[i] = LINE(at)(core, group->hashes[i]);
    }
}

/* Prefetches the lines of keys `from` to n - 1 of the next group. */
BGI_INLINE ISA_TARGET void LINE(prefetch)(const struct bgi_group *next, unsigned from)
{
    for (unsigned i = from; next && i < next->n; i++) {
        BGI_PREFETCH(next->core->words + next->at[i]);
    }
}

/* Computes the pattern before the line arrives. Instructions that need the line occupy the CPU's
 * scheduler until then, so fewer of them let more lookups overlap. */
BGI_INLINE ISA_TARGET bool LINE(test)(const struct bgi_core *core, uint64_t hash)
{
    const unsigned char *line = core->words + LINE(at)(core, hash);
    return !LINE_WORD(lacks)(line, LINE(pattern)(core, hash, LINE(needed)(core, hash)));
}

ISA_TARGET ISA_RACES static bool LINE(has)(const struct bgi_core *core, uint64_t hash)
{
    return LINE(test)(core, hash);
}

ISA_TARGET ISA_RACES static bool LINE(has_u64)(const struct bgi_core *core,
                                               uint64_t key)
{
    return LINE(test)(core, bgi_fast8_masked(core->fast8_mask, key));
}

ISA_TARGET ISA_RACES static bool LINE(has_int)(const struct bgi_core *core,
                                               uint64_t key)
{
    return LINE(test)(core, bgi_fast_int_masked(core->fast8_mask, key));
}

/* Computes the lanes that the hashes use. Each entry from n onward gets one needed lane, which is
 * never found. */
BGI_INLINE ISA_TARGET void LINE(needed_word)(const struct bgi_core *core,
                                             const uint64_t *hashes, unsigned n,
                                             LINE_WORD(bits) * needed)
{
    unsigned i = 0;
#if LINE_MASKED && defined(ISA_EIGHTS)
    for (; i + 8 <= n; i += 8) {
        LINE_WORD(needed8)(hashes + i, core->rotations, needed + i);
    }
#endif
    for (; i < n; i++) {
        needed[i] = LINE(needed)(core, hashes[i]);
    }
    for (; i < 64; i++) {
        needed[i] = 1;
    }
}

/* Collects the found lanes and the needed lanes of all hashes, and compares them in one step. */
ISA_TARGET ISA_RACES static uint64_t LINE(has_group)(const struct bgi_core *core,
                                                     const struct bgi_group *group,
                                                     const struct bgi_group *next)
{
    _Alignas(64) LINE_WORD(bits) found[64], needed[64];
    const uint64_t *hashes = group->hashes;
    const unsigned char *words = core->words;
    const unsigned char *ahead = next ? next->core->words : NULL;
    unsigned i = 0, both = next ? (next->n < group->n ? next->n : group->n) : 0;
    LINE(needed_word)(core, hashes, group->n, needed);
    for (; i < both; i++) {
        BGI_PREFETCH(ahead + next->at[i]);
        found[i] = (LINE_WORD(bits))LINE_WORD(found)(words + group->at[i],
                                                     (uint32_t)hashes[i]);
    }
    LINE(prefetch)(next, i);
    for (; i < group->n; i++) {
        found[i] = (LINE_WORD(bits))LINE_WORD(found)(words + group->at[i],
                                                     (uint32_t)hashes[i]);
    }
    for (; i < 64; i++) {
        found[i] = 0;
    }
    return LINE_WORD(all)(found, needed);
}

/* Prefetches a hash's line in every filter; `at` is the line's location in the first filter. */
BGI_INLINE ISA_TARGET void LINE(prefetch_all)(const struct line_layers *in, uint64_t at)
{
    const uint64_t whole = ~(uint64_t)(LINE_WORD(bytes) - 1);
    for (unsigned c = 0; c < in->count; c++, at >>= in->step) {
        BGI_PREFETCH(in->words[c] + (at & whole));
    }
}

/* Finds the lanes of each hash in each filter. The product for a hash is the same in all
 * filters, so compilers hoist its computation. */
BGI_INLINE ISA_TARGET void LINE(find_all)(const struct line_layers *in,
                                          const struct bgi_group *group,
                                          LINE_WORD(bits) (*found)[64], const bool asks)
{
    const uint64_t whole = ~(uint64_t)(LINE_WORD(bytes) - 1);
    for (unsigned i = 0; i < group->n; i++) {
        uint64_t here = in->at[i], ahead = in->at[i + LINE_AHEAD];
        uint32_t x = (uint32_t)group->hashes[i];
        for (unsigned c = 0; c < in->count; c++) {
            const unsigned char *words = in->words[c];
            if (asks) {
                BGI_PREFETCH(words + (ahead & whole));
            }
            found[c][i] = (LINE_WORD(bits))LINE_WORD(found)(words + (here & whole), x);
            here >>= in->step;
            ahead >>= in->step;
        }
    }
}

/*
 * Proceeds key by key, and reads one line of every filter for each key. So accesses to the large
 * filters, whose lines take a long time to arrive, alternate with accesses to the small filters.
 * This order is 10% faster than proceeding filter by filter (Zen 4, 8 layers, 1e8 keys).
 */
ISA_TARGET ISA_RACES static uint64_t LINE(has_any)(const struct bgi_core *const *cores,
                                                   unsigned count, unsigned step,
                                                   const struct bgi_group *group,
                                                   const struct bgi_group *next)
{
    _Alignas(64) LINE_WORD(bits) found[BGI_LAYERS_MAX][64], needed[64];
    struct line_layers in;
    uint64_t answer = 0;
    line_layers_begin(&in, cores, count, step, group, next);
    for (unsigned i = 0; group->n == 0 && next && i < next->n && i < LINE_AHEAD; i++) {
        LINE(prefetch_all)(&in, in.at[i]);
    }
    LINE(needed_word)(cores[0], group->hashes, group->n, needed);
    if (next) {
        LINE(find_all)(&in, group, found, true);
    } else {
        LINE(find_all)(&in, group, found, false);
    }
    for (unsigned c = 0; c < count; c++) {
        memset(found[c] + group->n, 0, (64 - group->n) * sizeof **found);
        answer |= LINE_WORD(all)(found[c], needed);
    }
    return answer;
}

/* Adds a group. Like has_group, collects the missing lanes of all hashes and converts them to
 * bits in one step. */
BGI_INLINE ISA_TARGET uint64_t LINE(put_word)(const struct bgi_core *core,
                                              const struct bgi_group *group,
                                              const struct bgi_group *next,
                                              const enum line_operation what)
{
    _Alignas(64) static const uint16_t none[64] = { 0 };
    _Alignas(64) uint16_t missing[64];
    _Alignas(64) LINE_WORD(bits) needed[64];
    /* These variables are local copies, because the compiler must assume that stores to the line
     * may change the structs. */
    const uint64_t *hashes = group->hashes, *at = group->at;
    unsigned char *words = core->words;
    unsigned i = 0, n = group->n, both = next ? (next->n < n ? next->n : n) : 0;
    if (ISA_LANE_MASKS) {
        LINE(needed_word)(core, hashes, n, needed);
    }
    for (; i < both; i++) {
        BGI_PREFETCH(words + next->at[i]);
        missing[i] = (uint16_t)LINE(put)(core, hashes[i], words + at[i],
                                         ISA_LANE_MASKS ? needed[i] : 0, what);
    }
    LINE(prefetch)(next, i);
    for (; i < n; i++) {
        missing[i] = (uint16_t)LINE(put)(core, hashes[i], words + at[i],
                                         ISA_LANE_MASKS ? needed[i] : 0, what);
    }
    for (; i < 64; i++) {
        missing[i] = 0;
    }
    return ~line_words_all(none, missing);
}

BGI_INLINE ISA_TARGET bool LINE(put_one)(const struct bgi_core *core, uint64_t hash,
                                         const enum line_operation what)
{
    unsigned char *line = core->words + LINE(at)(core, hash);
    return LINE(put)(core, hash, line, LINE(needed)(core, hash), what) != 0;
}

#define LINE_DEFINE_MODE(mode, what)                                                   \
    ISA_TARGET ISA_RACES static bool LINE(add_##mode)(struct bgi_core * core,          \
                                                      uint64_t hash)                   \
    {                                                                                  \
        return LINE(put_one)(core, hash, what);                                        \
    }                                                                                  \
    ISA_TARGET ISA_RACES static bool LINE(add_u64_##mode)(struct bgi_core * core,      \
                                                          uint64_t key)                \
    {                                                                                  \
        return LINE(put_one)(core, bgi_fast8_masked(core->fast8_mask, key), what);     \
    }                                                                                  \
    ISA_TARGET ISA_RACES static bool LINE(add_int_##mode)(struct bgi_core * core,      \
                                                          uint64_t key)                \
    {                                                                                  \
        return LINE(put_one)(core, bgi_fast_int_masked(core->fast8_mask, key), what);  \
    }                                                                                  \
    ISA_TARGET ISA_RACES static uint64_t LINE(add_group_##mode)(                       \
        struct bgi_core * core, const struct bgi_group *group,                         \
        const struct bgi_group *next)                                                  \
    {                                                                                  \
        return LINE(put_word)(core, group, next, what);                                \
    }                                                                                  \
    static const struct bgi_ops LINE(ops_##mode) = {                                   \
        .has = LINE(has),                                                              \
        .add = LINE(add_##mode),                                                       \
        .has_u64 = LINE(has_u64),                                                      \
        .add_u64 = LINE(add_u64_##mode),                                               \
        .has_int = LINE(has_int),                                                      \
        .add_int = LINE(add_int_##mode),                                               \
        .locate = LINE(locate),                                                        \
        .has_group = LINE(has_group),                                                  \
        .add_group = LINE(add_group_##mode),                                           \
        .has_any = LINE(has_any),                                                      \
    };

LINE_DEFINE_MODE(exclusive, LINE_ADD_EXCLUSIVE)
LINE_DEFINE_MODE(shared, LINE_ADD_SHARED)

#undef LINE_DEFINE_MODE
#undef LINE
#undef LINE_WORD
#undef LINE_TYPE
#undef LINE_PASTE4
#undef LINE_PASTE4_
#undef LINE_PASTE2
#undef LINE_PASTE2_
#undef LINE_MASKED
#undef LINE_SHAPE
