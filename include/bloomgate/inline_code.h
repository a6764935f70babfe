/*
 * inline_code.h - the code behind inline.h. Private: include inline.h instead.
 *
 * This code repeats the arithmetic of the kinds' cores (line_core.h, register_core.h, fuse_core.h),
 * because it is compiled for the program's target CPU, not for the instruction sets among which the
 * library selects at run time.
 */
#include "bloomgate/inline.h"

#ifndef BLOOMGATE_INLINE_CODE_H
#define BLOOMGATE_INLINE_CODE_H

/* BG_VIEW_WORDS: whether hashes, and filters of words, are compiled inline. BG_VIEW_LINES: whether
 * filters of lines are, too. */
#define BG_VIEW_WORDS 1
#if defined(__SANITIZE_THREAD__)
#undef BG_VIEW_WORDS
#define BG_VIEW_WORDS 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#undef BG_VIEW_WORDS
#define BG_VIEW_WORDS 0
#endif
#endif
#if !defined(__SIZEOF_INT128__)
#undef BG_VIEW_WORDS
#define BG_VIEW_WORDS 0
#endif

#if BG_VIEW_WORDS && defined(__AVX2__)
#include <immintrin.h>
#define BG_VIEW_LINES 1
#elif BG_VIEW_WORDS && defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>
#define BG_VIEW_LINES 1
#else
#define BG_VIEW_LINES 0
#endif

/* Compilers would not inline such large functions, although most of their cases are removed. */
#define BG_VIEW_INLINE __attribute__((always_inline, unused))

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Hashing ------------------------------------------------------------------------- */

#if BG_VIEW_WORDS
__extension__ typedef unsigned __int128 bg_view_u128;

static inline BG_VIEW_INLINE uint64_t bg_view_high(uint64_t a, uint64_t b)
{
    return (uint64_t)(((bg_view_u128)a * b) >> 64);
}

static inline BG_VIEW_INLINE uint64_t bg_view_fast(const bg_view *view, uint64_t key)
{
    const uint64_t multiplier = UINT64_C(0x9fb21c651e98df25);
    uint64_t x = (key << 32 | key >> 32) ^ view->hash_mask;
    x ^= (x << 49 | x >> 15) ^ (x << 24 | x >> 40);
    x *= multiplier;
    x ^= (x >> 35) + 8;
    x *= multiplier;
    return x ^ x >> 28;
}

/* Returns the XOR of the halves of a 128-bit product. */
static inline BG_VIEW_INLINE uint64_t bg_view_fold(uint64_t a, uint64_t b)
{
    const bg_view_u128 product = (bg_view_u128)a * b;
    return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

static inline BG_VIEW_INLINE uint64_t bg_view_fast_int(const bg_view *view,
                                                       uint64_t key)
{
    const uint64_t once =
        bg_view_fold(key ^ view->hash_mask, UINT64_C(0x9fb21c651e98df25));
    return bg_view_fold(once, UINT64_C(0x9e6c63d0876a9a47));
}
#endif

/* ---- Lines: blocked and split -------------------------------------------------------- */

#if BG_VIEW_LINES

/* The salts of split filters, and of blocked filters (line_shapes.h). */
static const uint32_t bg_view_split_salts[8] = {
    0x47b6137bu, 0x44974d91u, 0x8824ad5bu, 0xa2b7289du,
    0x705495c7u, 0x2df1424bu, 0x9efc4947u, 0x5c6bfb31u,
};
static const uint32_t bg_view_salts[16] = {
    0x243f6a89u, 0x85a308d3u, 0x13198a2fu, 0x03707345u, 0xa4093823u, 0x299f31d1u,
    0x082efa99u, 0xec4e6c89u, 0x452821e7u, 0x38d01377u, 0xbe5466cfu, 0x34e90c6du,
    0xc0ac29b7u, 0xc97c50ddu, 0x3f84d5b5u, 0xb5470917u,
};

/* Returns the lanes that a hash uses in a masked shape with `lanes` lanes. */
static inline BG_VIEW_INLINE const uint32_t *bg_view_lanes(const bg_view *view,
                                                           uint32_t x, uint32_t lanes)
{
    return view->window + (((uint64_t)(x * 0x9216d5d9u) * lanes) >> 32);
}

#if defined(__AVX2__)

/* The bits of a key in a line. `high` is unused in split filters. */
typedef struct bg_view_bits {
    __m256i low, high;
} bg_view_bits;

static inline BG_VIEW_INLINE __m256i bg_view_load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

static inline BG_VIEW_INLINE __m256i bg_view_products(uint32_t x, const uint32_t *salts)
{
    return _mm256_mullo_epi32(_mm256_set1_epi32((int)x), bg_view_load(salts));
}

static inline BG_VIEW_INLINE bg_view_bits bg_view_split(const bg_view *view, uint32_t x)
{
    (void)view;
    const __m256i place =
        _mm256_srli_epi32(bg_view_products(x, bg_view_split_salts), 27);
    const bg_view_bits bits = { _mm256_sllv_epi32(_mm256_set1_epi32(1), place),
                                _mm256_setzero_si256() };
    return bits;
}

/* bg_view_top returns the top bit of each of eight lanes; bg_view_top_of returns the top bit of the
 * lanes that are in use. */
static inline BG_VIEW_INLINE __m256i bg_view_top(void)
{
    return _mm256_set1_epi32(INT32_MIN);
}

static inline BG_VIEW_INLINE __m256i bg_view_top_of(const uint32_t *lanes)
{
    return _mm256_and_si256(bg_view_top(), bg_view_load(lanes));
}

/* In each lane, the top six bits of the product are the distance of the bit from the top of the
 * lower word. A shift by 32 or more gives 0. */
static inline BG_VIEW_INLINE bg_view_bits bg_view_columns_from(uint32_t x, __m256i top)
{
    const __m256i place = _mm256_srli_epi32(bg_view_products(x, bg_view_salts), 26);
    const __m256i other = _mm256_xor_si256(place, _mm256_set1_epi32(32));
    const bg_view_bits bits = { _mm256_srlv_epi32(top, place),
                                _mm256_srlv_epi32(top, other) };
    return bits;
}

static inline BG_VIEW_INLINE bg_view_bits bg_view_wide_from(uint32_t x, __m256i low_top,
                                                            __m256i high_top)
{
    const __m256i low = _mm256_srli_epi32(bg_view_products(x, bg_view_salts), 27);
    const __m256i high = _mm256_srli_epi32(bg_view_products(x, bg_view_salts + 8), 27);
    const bg_view_bits bits = { _mm256_srlv_epi32(low_top, low),
                                _mm256_srlv_epi32(high_top, high) };
    return bits;
}

static inline BG_VIEW_INLINE bg_view_bits bg_view_columns(const bg_view *view,
                                                          uint32_t x)
{
    (void)view;
    return bg_view_columns_from(x, bg_view_top());
}

static inline BG_VIEW_INLINE bg_view_bits bg_view_columns_masked(const bg_view *view,
                                                                 uint32_t x)
{
    return bg_view_columns_from(x, bg_view_top_of(bg_view_lanes(view, x, 8)));
}

static inline BG_VIEW_INLINE bg_view_bits bg_view_wide(const bg_view *view, uint32_t x)
{
    (void)view;
    return bg_view_wide_from(x, bg_view_top(), bg_view_top());
}

static inline BG_VIEW_INLINE bg_view_bits bg_view_wide_masked(const bg_view *view,
                                                              uint32_t x)
{
    const uint32_t *lanes = bg_view_lanes(view, x, 16);
    return bg_view_wide_from(x, bg_view_top_of(lanes), bg_view_top_of(lanes + 8));
}

/* Returns whether all bits are set in the `bytes` bytes of a line, 32 or 64. */
static inline BG_VIEW_INLINE bool bg_view_test(const unsigned char *line,
                                               bg_view_bits bits, int bytes)
{
    if (bytes == 32) {
        return _mm256_testc_si256(bg_view_load(line), bits.low);
    }
    const __m256i low = _mm256_andnot_si256(bg_view_load(line), bits.low);
#if defined(__AVX512VL__)
    enum { A_OR_B_ANDNOT_C = 0xf4 };
    const __m256i missing = _mm256_ternarylogic_epi32(
        low, bits.high, bg_view_load(line + 32), A_OR_B_ANDNOT_C);
#else
    const __m256i missing =
        _mm256_or_si256(low, _mm256_andnot_si256(bg_view_load(line + 32), bits.high));
#endif
    return _mm256_testz_si256(missing, missing);
}

/* Sets all bits, and returns whether one of them was not set before. */
static inline BG_VIEW_INLINE bool bg_view_set(unsigned char *line, bg_view_bits bits,
                                              int bytes)
{
    const bool is_new = !bg_view_test(line, bits, bytes);
    __m256i *const half = (__m256i *)(void *)line;
    _mm256_storeu_si256(half, _mm256_or_si256(bg_view_load(half), bits.low));
    if (bytes == 64) {
        _mm256_storeu_si256(half + 1,
                            _mm256_or_si256(bg_view_load(half + 1), bits.high));
    }
    return is_new;
}

#else

/* The bits of a key in a line, in parts of 16 bytes. Split filters use only two of them. */
typedef struct bg_view_bits {
    uint32x4_t part[4];
} bg_view_bits;

static inline BG_VIEW_INLINE uint32x4_t bg_view_products(uint32_t x,
                                                         const uint32_t *salts)
{
    return vmulq_n_u32(vld1q_u32(salts), x);
}

/* Returns the distances that the top five bits of each product specify. */
static inline BG_VIEW_INLINE int32x4_t bg_view_places(uint32x4_t products)
{
    return vreinterpretq_s32_u32(vshrq_n_u32(products, 27));
}

/* Returns the top bit of each lane, shifted right. */
static inline BG_VIEW_INLINE uint32x4_t bg_view_from_top(int32x4_t places)
{
    return vshlq_u32(vdupq_n_u32(0x80000000u), vnegq_s32(places));
}

static inline BG_VIEW_INLINE bg_view_bits bg_view_split(const bg_view *view, uint32_t x)
{
    bg_view_bits bits;
    (void)view;
    for (int i = 0; i < 2; i++) {
        const uint32x4_t products = bg_view_products(x, bg_view_split_salts + 4 * i);
        bits.part[i] = vshlq_u32(vdupq_n_u32(1), bg_view_places(products));
        bits.part[i + 2] = vdupq_n_u32(0);
    }
    return bits;
}

/* The top bit of a product selects the half of the line. */
static inline BG_VIEW_INLINE bg_view_bits bg_view_columns(const bg_view *view,
                                                          uint32_t x)
{
    bg_view_bits bits;
    (void)view;
    for (int i = 0; i < 2; i++) {
        const uint32x4_t products = bg_view_products(x, bg_view_salts + 4 * i);
        const uint32x4_t upper =
            vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(products), 31));
        const uint32x4_t bit =
            bg_view_from_top(bg_view_places(vshlq_n_u32(products, 1)));
        bits.part[i] = vbicq_u32(bit, upper);
        bits.part[i + 2] = vandq_u32(bit, upper);
    }
    return bits;
}

static inline BG_VIEW_INLINE bg_view_bits bg_view_wide(const bg_view *view, uint32_t x)
{
    bg_view_bits bits;
    (void)view;
    for (int i = 0; i < 4; i++) {
        const uint32x4_t products = bg_view_products(x, bg_view_salts + 4 * i);
        bits.part[i] = bg_view_from_top(bg_view_places(products));
    }
    return bits;
}

/* Restricts the bits to the lanes in use, which repeat after `period` parts. */
static inline BG_VIEW_INLINE bg_view_bits bg_view_mask(bg_view_bits bits,
                                                       const uint32_t *lanes,
                                                       int period)
{
    for (int i = 0; i < 4; i++) {
        bits.part[i] = vandq_u32(bits.part[i], vld1q_u32(lanes + 4 * (i % period)));
    }
    return bits;
}

static inline BG_VIEW_INLINE bg_view_bits bg_view_columns_masked(const bg_view *view,
                                                                 uint32_t x)
{
    return bg_view_mask(bg_view_columns(view, x), bg_view_lanes(view, x, 8), 2);
}

static inline BG_VIEW_INLINE bg_view_bits bg_view_wide_masked(const bg_view *view,
                                                              uint32_t x)
{
    return bg_view_mask(bg_view_wide(view, x), bg_view_lanes(view, x, 16), 4);
}

static inline BG_VIEW_INLINE bool bg_view_test(const unsigned char *line,
                                               bg_view_bits bits, int bytes)
{
    uint32x4_t missing = vdupq_n_u32(0);
    for (int i = 0; i < bytes / 16; i++) {
        const uint32x4_t words = vreinterpretq_u32_u8(vld1q_u8(line + 16 * i));
        missing = vorrq_u32(missing, vbicq_u32(bits.part[i], words));
    }
    return vmaxvq_u32(missing) == 0;
}

static inline BG_VIEW_INLINE bool bg_view_set(unsigned char *line, bg_view_bits bits,
                                              int bytes)
{
    const bool is_new = !bg_view_test(line, bits, bytes);
    for (int i = 0; i < bytes / 16; i++) {
        const uint8x16_t words = vld1q_u8(line + 16 * i);
        vst1q_u8(line + 16 * i, vorrq_u8(words, vreinterpretq_u8_u32(bits.part[i])));
    }
    return is_new;
}

#endif

/* Return the line of a hash in a split filter, and in a blocked filter. */
static inline BG_VIEW_INLINE unsigned char *bg_view_split_line(const bg_view *view,
                                                               uint64_t hash)
{
    return view->words + (((hash >> 32) * view->units) >> 32) * 32;
}

static inline BG_VIEW_INLINE unsigned char *bg_view_line(const bg_view *view,
                                                         uint64_t hash)
{
    return view->words + bg_view_high(hash & ~UINT64_C(0xfff), view->units) * 64;
}

/* Each shape has a lookup and an add, which returns whether the key is new. */
#define BG_VIEW_SHAPE(shape, line, bytes)                                              \
    static inline BG_VIEW_INLINE bool bg_view_has_##shape(const bg_view *view,         \
                                                          uint64_t hash)               \
    {                                                                                  \
        const bg_view_bits bits = bg_view_##shape(view, (uint32_t)hash);               \
        return bg_view_test(line(view, hash), bits, bytes);                            \
    }                                                                                  \
    static inline BG_VIEW_INLINE bool bg_view_put_##shape(const bg_view *view,         \
                                                          uint64_t hash)               \
    {                                                                                  \
        const bg_view_bits bits = bg_view_##shape(view, (uint32_t)hash);               \
        return bg_view_set(line(view, hash), bits, bytes);                             \
    }

BG_VIEW_SHAPE(split, bg_view_split_line, 32)
BG_VIEW_SHAPE(columns, bg_view_line, 64)
BG_VIEW_SHAPE(columns_masked, bg_view_line, 64)
BG_VIEW_SHAPE(wide, bg_view_line, 64)
BG_VIEW_SHAPE(wide_masked, bg_view_line, 64)
#undef BG_VIEW_SHAPE

#endif

/* ---- Words: register and fuse -------------------------------------------------------- */

#if BG_VIEW_WORDS

/* Returns the bits of a hash in its word (register_core.h). */
static inline BG_VIEW_INLINE uint64_t bg_view_register(uint64_t hash, uint32_t k)
{
    const uint64_t product = hash * UINT64_C(0xa0761d6478bd642f);
    uint64_t bits = 0;
    for (uint32_t i = 0; i < k; i++) {
        const uint64_t bit = UINT64_C(1) << (product >> (58 - 6 * i) & 63);
        const uint64_t sum = bits + bit;
        bits |= sum + (sum < bit);
    }
    return bits;
}

static inline BG_VIEW_INLINE uint64_t *bg_view_word(const bg_view *view, uint64_t hash)
{
    return (uint64_t *)(void *)view->words
           + bg_view_high(hash & ~UINT64_C(0xfff), view->units);
}

static inline BG_VIEW_INLINE bool bg_view_has_register(const bg_view *view,
                                                       uint64_t hash)
{
    const uint64_t bits = bg_view_register(hash, view->k);
    return (~__atomic_load_n(bg_view_word(view, hash), __ATOMIC_RELAXED) & bits) == 0;
}

static inline BG_VIEW_INLINE bool bg_view_put_register(const bg_view *view,
                                                       uint64_t hash)
{
    const uint64_t bits = bg_view_register(hash, view->k);
    uint64_t *const word = bg_view_word(view, hash);
    const bool is_new = (~*word & bits) != 0;
    *word |= bits;
    return is_new;
}

/* Returns the content of slot `at` in a fuse filter, whose slots have k bits. */
static inline BG_VIEW_INLINE uint32_t bg_view_slot(const bg_view *view, uint64_t at)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    at ^= 64 / view->k - 1;
#endif
    switch (view->k) {
    case 8: return view->words[at];
    case 16: return ((const uint16_t *)(const void *)view->words)[at];
    default: return ((const uint32_t *)(const void *)view->words)[at];
    }
}

/* The XOR of a key's slots is its fingerprint: see fuse.c. */
static inline BG_VIEW_INLINE bool bg_view_has_fuse(const bg_view *view, uint64_t hash)
{
    const uint64_t piece = bg_view_high(hash, view->pieces);
    const uint64_t first =
        piece * view->slots + bg_view_high(hash * view->pieces, view->starts);
    const uint64_t x = hash ^ view->seeds[piece], mask = view->length - 1;
    const uint64_t multiplier = UINT64_C(0x9e6c63d0876a9a47);
    const uint64_t mix = bg_view_high(x, multiplier) ^ x * multiplier;
    uint32_t value =
        bg_view_slot(view, first)
        ^ bg_view_slot(view, (first + view->length) ^ (mix & mask))
        ^ bg_view_slot(view, (first + 2 * view->length) ^ (mix >> 13 & mask));
    if (view->arity == 4) {
        value ^= bg_view_slot(view, (first + 3 * view->length) ^ (mix >> 26 & mask));
    }
    return (value ^ (uint32_t)(mix >> (64 - view->k)))
           < __atomic_load_n(view->pass, __ATOMIC_RELAXED);
}

#endif

/* ---- Dispatch ------------------------------------------------------------------------ */

/*
 * Calls `use` for each shape that is compiled inline, with a condition and the key. The most common
 * shapes come first. Only force-inlined functions take the address of the view, so compilers can
 * keep its members in registers.
 */
#if BG_VIEW_LINES
#define BG_VIEW_LINE_SHAPES(found, hash, key, use)                                     \
    use(columns, (found) == (BG_VIEW_COLUMNS | (hash)), key)                           \
        use(columns_masked, (found) == (BG_VIEW_COLUMNS_MASKED | (hash)), key)         \
            use(split, (found) == (BG_VIEW_SPLIT | (hash)), key)                       \
                use(wide, (found) == (BG_VIEW_WIDE | (hash)), key)                     \
                    use(wide_masked, (found) == (BG_VIEW_WIDE_MASKED | (hash)), key)
#else
#define BG_VIEW_LINE_SHAPES(found, hash, key, use)
#endif
#if BG_VIEW_WORDS
#define BG_VIEW_WORD_SHAPES(found, hash, key, use)                                     \
    use(register, (found) == (BG_VIEW_REGISTER | (hash)), key)
#define BG_VIEW_STATIC_SHAPES(found, hash, key, use)                                   \
    use(fuse, (found) == (BG_VIEW_FUSE | (hash)), key)
#else
#define BG_VIEW_WORD_SHAPES(found, hash, key, use)
#define BG_VIEW_STATIC_SHAPES(found, hash, key, use)
#endif
#define BG_VIEW_HAS(name, is_shape, key)                                               \
    if (is_shape) {                                                                    \
        return bg_view_has_##name(view, key);                                          \
    }
#define BG_VIEW_HAS_ALL(found, hash, key)                                              \
    BG_VIEW_LINE_SHAPES(found, hash, key, BG_VIEW_HAS)                                 \
    BG_VIEW_WORD_SHAPES(found, hash, key, BG_VIEW_HAS)                                 \
    BG_VIEW_STATIC_SHAPES(found, hash, key, BG_VIEW_HAS)

#define BG_VIEW_PUT(name, is_shape, key)                                               \
    if (is_shape) {                                                                    \
        const bool added = bg_view_put_##name(view, key);                              \
        if (is_new) {                                                                  \
            *is_new = added;                                                           \
        }                                                                              \
        return BG_OK;                                                                  \
    }

#define BG_VIEW_PUT_ALL(found, hash, key)                                              \
    BG_VIEW_LINE_SHAPES(found, hash, key, BG_VIEW_PUT)                                 \
    BG_VIEW_WORD_SHAPES(found, hash, key, BG_VIEW_PUT)

/* Returns a view whose shape and hash are known to the compiler. */
static inline BG_VIEW_INLINE bg_view bg_view_as(const bg_view *view, uint32_t shape,
                                                uint32_t hash)
{
    bg_view known = *view;
    known.shape = shape;
    known.hash = hash;
    return known;
}

#define BG_VIEW_CASE(from, to, shape_name, hash_name, ...)                             \
    case BG_VIEW_##shape_name | BG_VIEW_##hash_name: {                                 \
        const bg_view to =                                                             \
            bg_view_as(&from, BG_VIEW_##shape_name, BG_VIEW_##hash_name);              \
        __VA_ARGS__                                                                    \
        break;                                                                         \
    }
#define BG_VIEW_CASES(from, to, hash_name, ...)                                        \
    BG_VIEW_CASE(from, to, COLUMNS, hash_name, __VA_ARGS__)                            \
    BG_VIEW_CASE(from, to, COLUMNS_MASKED, hash_name, __VA_ARGS__)                     \
    BG_VIEW_CASE(from, to, SPLIT, hash_name, __VA_ARGS__)                              \
    BG_VIEW_CASE(from, to, REGISTER, hash_name, __VA_ARGS__)                           \
    BG_VIEW_CASE(from, to, FUSE, hash_name, __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
