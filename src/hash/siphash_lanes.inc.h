/*
 * siphash_lanes.inc.h - SipHash of LANES keys at once. siphash_x86.c includes this file, and
 * defines the number of lanes, the target and the names.
 *
 * Keys of the same width have the same number of words, so the lanes run in lockstep. Keys passed
 * as (pointer, length) pairs may have different lengths: all lanes run for as long as the longest
 * key needs, and a lane whose message has ended keeps its state. This wastes some work, but avoids
 * branches that depend on the length of a single key. With short keys of mixed lengths, the
 * mispredictions of a scalar loop cost more than the hashing itself.
 */
typedef uint64_t LANES_VECTOR __attribute__((vector_size(8 * LANES)));

struct LANES_STATE {
    LANES_VECTOR v0, v1, v2, v3;
};

LANES_TARGET BGI_INLINE void LANES_NAME(begin)(struct LANES_STATE *s,
                                               const bgi_siphash_key key)
{
    const LANES_VECTOR zero = { 0 };
    s->v0 = zero + (key[0] ^ BGI_SIPHASH_V0);
    s->v1 = zero + (key[1] ^ BGI_SIPHASH_V1);
    s->v2 = zero + (key[0] ^ BGI_SIPHASH_V2);
    s->v3 = zero + (key[1] ^ BGI_SIPHASH_V3);
}

LANES_TARGET BGI_INLINE void LANES_NAME(word)(struct LANES_STATE *s, LANES_VECTOR word,
                                              const int c)
{
    s->v3 ^= word;
    for (int i = 0; i < c; i++) {
        BGI_SIPHASH_ROUND(s->v0, s->v1, s->v2, s->v3);
    }
    s->v0 ^= word;
}

LANES_TARGET BGI_INLINE void LANES_NAME(end)(struct LANES_STATE *s, uint64_t *out,
                                             const int d)
{
    s->v2 ^= 0xff;
    for (int i = 0; i < d; i++) {
        BGI_SIPHASH_ROUND(s->v0, s->v1, s->v2, s->v3);
    }
    LANES_VECTOR hash = s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
    memcpy(out, &hash, sizeof hash);
}

/* Hashes LANES keys of the same length at independent addresses. */
LANES_TARGET BGI_INLINE void LANES_NAME(equal)(const bgi_siphash_key key,
                                               const uint8_t *const *p, size_t len,
                                               uint64_t *out, const int c, const int d)
{
    struct LANES_STATE s;
    LANES_NAME(begin)(&s, key);
    for (size_t at = 0; len - at >= 8; at += 8) {
#define LANES_WORD(lane) bgi_load_le64(p[lane] + at)
        LANES_NAME(word)(&s, (LANES_VECTOR)LANES_EACH(LANES_WORD), c);
#undef LANES_WORD
    }
    if (len % 8 == 0) {
        /* The last word contains only the length, which is the same in all lanes. */
        LANES_NAME(word)(&s, (LANES_VECTOR){ 0 } + ((uint64_t)len << 56), c);
    } else {
#define LANES_WORD(lane) bgi_siphash_last(p[lane], len)
        LANES_NAME(word)(&s, (LANES_VECTOR)LANES_EACH(LANES_WORD), c);
#undef LANES_WORD
    }
    LANES_NAME(end)(&s, out, d);
}

/* Hashes LANES 8-byte keys that are stored one after another and so already form a vector. */
LANES_TARGET BGI_INLINE void LANES_NAME(words)(const bgi_siphash_key key,
                                               const uint8_t *p, uint64_t *out,
                                               const int c, const int d)
{
    struct LANES_STATE s;
    LANES_VECTOR word;
    memcpy(&word, p, sizeof word);
    LANES_NAME(begin)(&s, key);
    LANES_NAME(word)(&s, word, c);
    LANES_NAME(word)(&s, (LANES_VECTOR){ 0 } + (UINT64_C(8) << 56), c);
    LANES_NAME(end)(&s, out, d);
}

LANES_TARGET BGI_INLINE size_t LANES_NAME(fixed)(const bgi_siphash_key key,
                                                 const uint8_t *keys, size_t width,
                                                 size_t n, uint64_t *out, const int c,
                                                 const int d)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES, keys += LANES * width) {
        if (width == 8) {
            LANES_NAME(words)(key, keys, out + i, c, d);
            continue;
        }
        const uint8_t *p[LANES];
        for (size_t lane = 0; lane < LANES; lane++) {
            p[lane] = keys + lane * width;
        }
        LANES_NAME(equal)(key, p, width, out + i, c, d);
    }
    return i;
}

LANES_TARGET BGI_INLINE size_t LANES_NAME(widths)(const bgi_siphash_key key,
                                                  const uint8_t *keys, size_t width,
                                                  size_t n, uint64_t *out, const int c,
                                                  const int d)
{
    switch (width) {
    case 8: return LANES_NAME(fixed)(key, keys, 8, n, out, c, d);
    case 16: return LANES_NAME(fixed)(key, keys, 16, n, out, c, d);
    default: return LANES_NAME(fixed)(key, keys, width, n, out, c, d);
    }
}

LANES_TARGET size_t LANES_FIXED(enum bgi_siphash variant, const bgi_siphash_key key,
                                const uint8_t *keys, size_t width, size_t n,
                                uint64_t *out)
{
    return variant == BGI_SIPHASH_13
               ? LANES_NAME(widths)(key, keys, width, n, out, 1, 3)
               : LANES_NAME(widths)(key, keys, width, n, out, 2, 4);
}

/* The messages of LANES pairs, word by word, including the last word of each message. */
struct LANES_MESSAGE {
    uint64_t words[SIPHASH_X86_WORDS][LANES];
    uint64_t last[LANES]; /* index of a lane's last word */
    size_t longest;       /* largest value in `last` */
};

/*
 * Lays out the messages; `longest` is the length of the longest message in bytes. After the end of
 * its message, a lane reads words that are not used: the last eight bytes of the key if it has 8
 * bytes or more, otherwise the bytes of `nothing`.
 */
LANES_TARGET BGI_INLINE void LANES_NAME(lay_out)(struct LANES_MESSAGE *m,
                                                 const bg_bytes *keys, size_t longest)
{
    static const uint8_t nothing[8];
    m->longest = longest / 8;
    for (size_t lane = 0; lane < LANES; lane++) {
        const size_t len = keys[lane].len;
        const uint8_t *data = len < 8 ? nothing : keys[lane].data;
        const size_t end = len < 8 ? 0 : len - 8;
        for (size_t i = 0; i <= m->longest; i++) {
            m->words[i][lane] = bgi_load_le64(data + (8 * i < end ? 8 * i : end));
        }
        m->words[len / 8][lane] = bgi_siphash_last(keys[lane].data, len);
        m->last[lane] = len / 8;
    }
}

LANES_TARGET BGI_INLINE void LANES_NAME(mixed)(const bgi_siphash_key key,
                                               const bg_bytes *keys, size_t longest,
                                               uint64_t *out, const int c, const int d)
{
    struct LANES_MESSAGE m;
    struct LANES_STATE s;
    LANES_VECTOR last, word;
    LANES_NAME(lay_out)(&m, keys, longest);
    memcpy(&last, m.last, sizeof last);
    LANES_NAME(begin)(&s, key);
    for (size_t i = 0; i <= m.longest; i++) {
        struct LANES_STATE next = s;
        memcpy(&word, m.words[i], sizeof word);
        LANES_NAME(word)(&next, word, c);
        LANES_VECTOR running = (LANES_VECTOR)(last >= i);
        s.v0 ^= (s.v0 ^ next.v0) & running;
        s.v1 ^= (s.v1 ^ next.v1) & running;
        s.v2 ^= (s.v2 ^ next.v2) & running;
        s.v3 ^= (s.v3 ^ next.v3) & running;
    }
    LANES_NAME(end)(&s, out, d);
}

/* Hashes LANES pairs, in parallel if they all have the same length or are short, otherwise one by
 * one. */
LANES_TARGET BGI_INLINE void LANES_NAME(pairs)(const bgi_siphash_key key,
                                               const bg_bytes *keys, uint64_t *out,
                                               const int c, const int d)
{
    size_t longest = 0, different = 0;
    const uint8_t *p[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        longest = keys[lane].len > longest ? keys[lane].len : longest;
        different |= keys[lane].len ^ keys[0].len;
        p[lane] = keys[lane].data;
    }
    if (different == 0) {
        LANES_NAME(equal)(key, p, longest, out, c, d);
    } else if (longest < 8 * SIPHASH_X86_WORDS) {
        LANES_NAME(mixed)(key, keys, longest, out, c, d);
    } else {
        for (int lane = 0; lane < LANES; lane++) {
            out[lane] = bgi_siphash(c == 1 ? BGI_SIPHASH_13 : BGI_SIPHASH_24, key,
                                    p[lane], keys[lane].len);
        }
    }
}

LANES_TARGET size_t LANES_PAIRS(enum bgi_siphash variant, const bgi_siphash_key key,
                                const bg_bytes *keys, size_t n, uint64_t *out)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        if (variant == BGI_SIPHASH_13) {
            LANES_NAME(pairs)(key, keys + i, out + i, 1, 3);
        } else {
            LANES_NAME(pairs)(key, keys + i, out + i, 2, 4);
        }
    }
    return i;
}

#undef LANES
#undef LANES_EACH
#undef LANES_TARGET
#undef LANES_VECTOR
#undef LANES_NAME
#undef LANES_STATE
#undef LANES_MESSAGE
#undef LANES_FIXED
#undef LANES_PAIRS
