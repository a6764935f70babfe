/*
 * counting_avx2.h - vector operations on 4-bit counters in one cache line. Only counting.c
 * includes this file; see the comments there.
 *
 * A line is eight 64-bit words, one per lane, in two registers. One multiplication computes the
 * positions in all lanes. Shifting each lane right by four times the position of its counter moves
 * the counter to the lowest four bits. All counters are then read, compared and (in exclusive mode)
 * changed at once. Adding 1 to a counter cannot carry into its neighbor, because saturated counters
 * are skipped. In shared mode, adds and removes use the scalar code, because each word needs its
 * own atomic operation.
 */

#include <immintrin.h>

#define COUNTING_AVX2 __attribute__((target("avx2,bmi,bmi2")))

/* The counters of a key and the data needed to change them, for lanes 0..3 and 4..7. */
struct counting_quads {
    __m256i words[2];
    __m256i shifts[2];
    __m256i values[2];
};

BGI_INLINE COUNTING_AVX2 __m256i counting_load(const void *p)
{
    return _mm256_load_si256((const __m256i *)p);
}

BGI_INLINE COUNTING_AVX2 struct counting_quads counting_read8(const unsigned char *line,
                                                              uint32_t x)
{
    const __m256i salts =
        _mm256_loadu_si256((const __m256i *)(const void *)line_words_salts);
    const __m256i lowest = _mm256_set1_epi64x(15);
    __m256i product = _mm256_mullo_epi32(_mm256_set1_epi32((int)x), salts);
    /* The shift is four times the value of the top four bits. */
    __m256i shift = _mm256_and_si256(_mm256_srli_epi32(product, COUNTING_SHIFT - 2),
                                     _mm256_set1_epi32(60));
    struct counting_quads q;
    q.shifts[0] = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(shift));
    q.shifts[1] = _mm256_cvtepu32_epi64(_mm256_extracti128_si256(shift, 1));
    for (int h = 0; h < 2; h++) {
        q.words[h] = counting_load(line + 32 * h);
        q.values[h] =
            _mm256_and_si256(_mm256_srlv_epi64(q.words[h], q.shifts[h]), lowest);
    }
    return q;
}

/* Returns a bit mask of the lanes whose counters equal `value`. */
BGI_INLINE COUNTING_AVX2 uint32_t counting_are(const struct counting_quads *q,
                                               int value)
{
    const __m256i wanted = _mm256_set1_epi64x(value);
    __m256i low = _mm256_cmpeq_epi64(q->values[0], wanted);
    __m256i high = _mm256_cmpeq_epi64(q->values[1], wanted);
    return (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(low))
           | (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(high)) << 4;
}

/* Returns a vector with a 1 in the counter of each lane in `lanes`. */
BGI_INLINE COUNTING_AVX2 __m256i counting_ones(const struct counting_quads *q, int h,
                                               uint32_t lanes)
{
    const __m256i bits = _mm256_set_epi64x(8, 4, 2, 1);
    __m256i all = _mm256_set1_epi64x((long long)(lanes >> (4 * h)));
    __m256i used = _mm256_cmpeq_epi64(_mm256_and_si256(all, bits), bits);
    __m256i one = _mm256_sllv_epi64(_mm256_set1_epi64x(1), q->shifts[h]);
    return _mm256_and_si256(one, used);
}

BGI_INLINE uint32_t counting_lanes(const struct bgi_core *core, uint64_t hash)
{
    return core->rotations[line_rotation((uint32_t)hash, COUNTING_LANES)];
}

BGI_INLINE COUNTING_AVX2 bool counting_has_at(const struct bgi_core *core,
                                              uint64_t hash, uint64_t at)
{
    struct counting_quads q = counting_read8(core->words + at, (uint32_t)hash);
    return (counting_are(&q, 0) & counting_lanes(core, hash)) == 0;
}

BGI_NO_TSAN COUNTING_AVX2 static bool counting_has_avx2(const struct bgi_core *core,
                                                        uint64_t hash)
{
    return counting_has_at(core, hash, counting_at_4_0(core, hash));
}

BGI_NO_TSAN COUNTING_AVX2 static uint64_t
counting_has_group_avx2(const struct bgi_core *core, const struct bgi_group *group,
                        const struct bgi_group *next)
{
    uint64_t answer = 0;
    unsigned i = 0;
    for (; i < group->n; i++) {
        counting_prefetch_next_4_0(core, next, i);
        bool maybe = counting_has_at(core, group->hashes[i], group->at[i]);
        answer |= (uint64_t)maybe << i;
    }
    for (; next && i < next->n; i++) {
        counting_prefetch_next_4_0(core, next, i);
    }
    return answer;
}

/* Adds one key to a filter that only this thread uses. */
BGI_INLINE COUNTING_AVX2 bool counting_add_at(struct bgi_core *core, uint64_t hash,
                                              uint64_t at)
{
    unsigned char *line = core->words + at;
    struct counting_quads q = counting_read8(line, (uint32_t)hash);
    uint32_t lanes = counting_lanes(core, hash);
    uint32_t change = lanes & ~counting_are(&q, 15),
             last = lanes & counting_are(&q, 14);
    for (int h = 0; h < 2; h++) {
        __m256i sum = _mm256_add_epi64(q.words[h], counting_ones(&q, h, change));
        _mm256_store_si256((__m256i *)(void *)(line + 32 * h), sum);
    }
    if (BGI_UNLIKELY(last)) {
        struct counting_state *state = core->state;
        state->saturated += (uint64_t)__builtin_popcount(last);
    }
    return (counting_are(&q, 0) & lanes) != 0;
}

COUNTING_AVX2 static bool counting_add_exclusive_avx2(struct bgi_core *core,
                                                      uint64_t hash)
{
    return counting_add_at(core, hash, counting_at_4_0(core, hash));
}

COUNTING_AVX2 static uint64_t
counting_add_group_exclusive_avx2(struct bgi_core *core, const struct bgi_group *group,
                                  const struct bgi_group *next)
{
    uint64_t answer = 0;
    unsigned i = 0;
    for (; i < group->n; i++) {
        counting_prefetch_next_4_0(core, next, i);
        answer |= (uint64_t)counting_add_at(core, group->hashes[i], group->at[i]) << i;
    }
    for (; next && i < next->n; i++) {
        counting_prefetch_next_4_0(core, next, i);
    }
    return answer;
}

COUNTING_AVX2 static bg_err counting_remove_exclusive_avx2(struct bgi_core *core,
                                                           uint64_t hash)
{
    unsigned char *line = core->words + counting_at_4_0(core, hash);
    struct counting_quads q = counting_read8(line, (uint32_t)hash);
    uint32_t lanes = counting_lanes(core, hash);
    if (counting_are(&q, 0) & lanes) {
        return BG_ENOTFOUND;
    }
    uint32_t change = lanes & ~counting_are(&q, 15);
    for (int h = 0; h < 2; h++) {
        __m256i rest = _mm256_sub_epi64(q.words[h], counting_ones(&q, h, change));
        _mm256_store_si256((__m256i *)(void *)(line + 32 * h), rest);
    }
    return BG_OK;
}

static const struct bgi_ops counting_ops_exclusive_avx2 = {
    .has = counting_has_avx2,
    .add = counting_add_exclusive_avx2,
    .locate = counting_locate_4_0,
    .has_group = counting_has_group_avx2,
    .add_group = counting_add_group_exclusive_avx2,
    .prefetch = counting_prefetch_4_0,
    .remove = counting_remove_exclusive_avx2,
    .count = counting_count_4_0,
};

static const struct bgi_ops counting_ops_shared_avx2 = {
    .has = counting_has_avx2,
    .add = counting_add_shared_4_0,
    .locate = counting_locate_4_0,
    .has_group = counting_has_group_avx2,
    .add_group = counting_add_group_shared_4_0,
    .prefetch = counting_prefetch_4_0,
    .remove = counting_remove_shared_4_0,
    .count = counting_count_4_0,
};

static const struct bgi_ops *counting_ops_avx2(uint32_t k, bool exclusive, bg_cpu cpu)
{
    if (cpu != BG_CPU_AVX2 && cpu != BG_CPU_AVX512) {
        return counting_ops_4_0(k, exclusive, cpu);
    }
    return exclusive ? &counting_ops_exclusive_avx2 : &counting_ops_shared_avx2;
}
