/*
 * line_core.h - the operations of the kinds that keep a key in one line: blocked, split.
 *
 * This text is compiled once per instruction set and shape. Before each inclusion are
 * defined
 *
 *   ISA           the suffix of all names: avx2
 *   ISA_TARGET    the function attribute that allows the instructions
 *   LINE_SHAPE    split, columns or words: see line_shapes.h
 *   LINE_MASKED   1: only some of the lanes are used, a rotation of a pattern
 *   ISA_EIGHTS    defined: there are line_S_locate8 for all shapes, and line_S_test8 for
 *                 split and columns
 *
 * and the instruction set's file has defined, for each shape S,
 *
 *   line_S                                 the type of a prepared pattern
 *   line_S_make(x)                         the pattern of x
 *   line_S_mask(pattern, window)           the same, restricted to a window (not split)
 *   line_S_test(line, pattern)             whether all its bits are set
 *   line_S_set(line, pattern)              sets them; whether one was missing
 *   line_S_missing(line, pattern, bits)    stores the pattern as 64-bit words and tells,
 *                                          as a mask, which of them lack bits
 *   line_S_locate8(hashes, units, at)      where the lines of eight hashes are
 *   line_S_test8(words, at, hashes, rotations)  eight look-ups at once; rotations is
 *                                          core->rotations of a masked shape, or NULL
 *
 * Concurrency. In shared mode words change only by atomic OR of 64-bit words, and only
 * where a bit is missing. Look-ups read vectors; every aligned 8-byte part of a vector
 * load is atomic on the processors concerned, so a look-up sees each 64-bit word as of
 * some moment, and bits only ever appear. If an add happened before the look-up, each of
 * its bits was either set by its OR or seen set by its own load; coherence forbids the
 * later look-up to see an older value of that word. Hence (C1) of filter.h, with relaxed
 * order throughout. "New" is what the add's own load saw: two racing adds may both miss
 * a bit, but both can see all bits set only if they were (C3).
 */

#define LINE_PASTE2_(a, b)       a##_##b
#define LINE_PASTE2(a, b)        LINE_PASTE2_(a, b)
#define LINE_PASTE4_(a, b, c, d) a##_##b##_##c##_##d
#define LINE_PASTE4(a, b, c, d)  LINE_PASTE4_(a, b, c, d)

#define LINE_TYPE       LINE_PASTE2(line, LINE_SHAPE)
#define LINE_WORD(word) LINE_PASTE2(LINE_TYPE, word) /* line_columns_test              */
#define LINE(name)      LINE_PASTE4(LINE_TYPE, LINE_MASKED, name, ISA)

#define LINE_HAS_TEST8_split   1
#define LINE_HAS_TEST8_columns 1
#define LINE_HAS_TEST8_words   0
#ifdef ISA_EIGHTS
# define LINE_IN_EIGHTS LINE_PASTE2(LINE_HAS_TEST8, LINE_SHAPE)
#else
# define LINE_IN_EIGHTS 0
#endif

#ifndef BGI_LINE_OPERATIONS
# define BGI_LINE_OPERATIONS
enum line_operation { LINE_HAS, LINE_ADD_EXCLUSIVE, LINE_ADD_SHARED };
#endif

/* Where a hash's line is: its offset in the words. */
BGI_INLINE ISA_TARGET uint64_t LINE(at)(const struct bgi_core *core, uint64_t hash)
{
    return LINE_WORD(index)(hash, core->units) * LINE_WORD(bytes);
}

BGI_INLINE ISA_TARGET LINE_TYPE LINE(pattern)(const struct bgi_core *core, uint64_t hash)
{
    LINE_TYPE pattern = LINE_WORD(make)((uint32_t)hash);
#if LINE_MASKED
    uint32_t rotation = line_rotation((uint32_t)hash, LINE_WORD(lanes));
    pattern = LINE_WORD(mask)(pattern, core->window + rotation);
#else
    (void)core;
#endif
    return pattern;
}

BGI_INLINE ISA_TARGET bool LINE(or_missing)(uint64_t *line, LINE_TYPE pattern)
{
    uint64_t bits[LINE_WORD(bytes) / 8];
    uint32_t missing = LINE_WORD(missing)(line, pattern, bits);
    bool is_new = missing != 0;
    for (; missing; missing &= missing - 1) {
        unsigned w = (unsigned)__builtin_ctz(missing);
        (void)__atomic_fetch_or(&line[w], bits[w], __ATOMIC_RELAXED);
    }
    return is_new;
}

/* One hash; `what` is a constant wherever this is called, so that only one case is left.
 * Returns "maybe" for a look-up and "new" for an add. */
BGI_INLINE ISA_TARGET bool LINE(one)(const struct bgi_core *core, uint64_t hash,
                                     uint64_t at, const enum line_operation what)
{
    unsigned char *line = core->words + at;
    LINE_TYPE pattern = LINE(pattern)(core, hash);
    switch (what) {
    case LINE_HAS: return LINE_WORD(test)(line, pattern);
    case LINE_ADD_EXCLUSIVE: return LINE_WORD(set)(line, pattern);
    case LINE_ADD_SHARED: return LINE(or_missing)((uint64_t *)(void *)line, pattern);
    }
    return true;
}

ISA_TARGET static void LINE(locate)(const struct bgi_core *core, const uint64_t *hashes,
                                    unsigned n, uint64_t *at)
{
    unsigned i = 0;
#ifdef ISA_EIGHTS
    for (; i + 8 <= n; i += 8) {
        LINE_WORD(locate8)(hashes + i, core->units, at + i);
    }
#endif
    for (; i < n; i++) {
        at[i] = LINE(at)(core, hashes[i]);
    }
    for (i = 0; core->large && i < n; i++) {
        __builtin_prefetch(core->words + at[i]);
    }
}

BGI_INLINE ISA_TARGET uint64_t LINE(word)(const struct bgi_core *core,
                                          const uint64_t *hashes, const uint64_t *at,
                                          unsigned n, const enum line_operation what)
{
    uint64_t word = 0;
    unsigned i = 0;
#if LINE_IN_EIGHTS
    for (; what == LINE_HAS && i + 8 <= n; i += 8) {
        word |= LINE_WORD(test8)(core->words, at + i, hashes + i,
                                 LINE_MASKED ? &core->rotations : NULL)
                << i;
    }
#endif
    for (; i < n; i++) {
        word |= (uint64_t)LINE(one)(core, hashes[i], at[i], what) << i;
    }
    return word;
}

ISA_TARGET BGI_NO_TSAN static bool LINE(has)(const struct bgi_core *core, uint64_t hash)
{
    return LINE(one)(core, hash, LINE(at)(core, hash), LINE_HAS);
}

ISA_TARGET BGI_NO_TSAN static uint64_t LINE(has_word)(const struct bgi_core *core,
                                                      const uint64_t *hashes,
                                                      const uint64_t *at, unsigned n)
{
    return LINE(word)(core, hashes, at, n, LINE_HAS);
}

#define LINE_DEFINE_MODE(mode, what)                                                   \
    ISA_TARGET BGI_NO_TSAN static bool LINE(add_##mode)(struct bgi_core *core,         \
                                                        uint64_t hash)                 \
    {                                                                                  \
        return LINE(one)(core, hash, LINE(at)(core, hash), what);                      \
    }                                                                                  \
    ISA_TARGET BGI_NO_TSAN static uint64_t LINE(add_word_##mode)(                      \
        struct bgi_core *core, const uint64_t *hashes, const uint64_t *at, unsigned n) \
    {                                                                                  \
        return LINE(word)(core, hashes, at, n, what);                                  \
    }                                                                                  \
    static const struct bgi_ops LINE(ops_##mode) = {                                   \
        .has = LINE(has),                                                              \
        .add = LINE(add_##mode),                                                       \
        .locate_has = LINE(locate),                                                    \
        .locate_add = LINE(locate),                                                    \
        .has_word = LINE(has_word),                                                    \
        .add_word = LINE(add_word_##mode),                                             \
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
#undef LINE_IN_EIGHTS
#undef LINE_HAS_TEST8_words
#undef LINE_HAS_TEST8_columns
#undef LINE_HAS_TEST8_split
#undef LINE_MASKED
#undef LINE_SHAPE
