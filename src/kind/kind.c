#include "kind/kind.h"

#include "bloomgate/spec.h"

#include "kind/isa.h"
#include "kind/model.h"

#include <string.h>

const char *bg_kind_name(bg_kind kind)
{
    switch (kind) {
    case BG_KIND_AUTO: return "auto";
#define KIND_NAME(NAME, number, name)                                                  \
    case BG_KIND_##NAME: return #name;
        BG_KINDS(KIND_NAME)
#undef KIND_NAME
    }
    return "unknown";
}

bool bg_kind_parse(const char *name, bg_kind *kind)
{
#define KIND_MATCH(NAME, number, text)                                                 \
    if (name && strcmp(name, #text) == 0) {                                            \
        *kind = BG_KIND_##NAME;                                                        \
        return true;                                                                   \
    }
    KIND_MATCH(AUTO, 0, auto)
    BG_KINDS(KIND_MATCH)
#undef KIND_MATCH
    return false;
}

const struct bgi_kind *bgi_kind_of(bg_kind id)
{
    switch (id) {
    case BG_KIND_AUTO: break;
#define KIND_OF(NAME, number, name)                                                    \
    case BG_KIND_##NAME: return &bgi_kind_##name;
        BG_KINDS(KIND_OF)
#undef KIND_OF
    }
    return NULL;
}

uint32_t bg_kind_traits(bg_kind kind)
{
    const struct bgi_kind *found = bgi_kind_of(kind);
    return found ? found->traits : 0;
}

const struct bgi_kind *bgi_kind_variant(bg_kind id, uint32_t width, uint32_t flags)
{
    const struct bgi_kind *kind = bgi_kind_of(id);
    flags &= BG_SPEC_SCATTERED;
    if (kind && kind->pick) {
        return kind->pick(width, flags);
    }
    return width == 0 && flags == 0 ? kind : NULL;
}

double bgi_kind_rate(const struct bgi_kind *kind, uint64_t units, uint32_t k, double n)
{
    if (kind->rate) {
        return kind->rate(units, k, n);
    }
    struct bgi_model model = kind->model(units, k);
    return bgi_model_rate(&model, n);
}

const struct bgi_ops *bgi_kind_ops(const struct bgi_kind *kind, uint32_t k,
                                   bool exclusive, bg_cpu cpu)
{
    if (kind->ops) {
        return kind->ops(k, exclusive, cpu);
    }
    switch (cpu) {
#if defined(BGI_X86_64)
    case BG_CPU_AVX2: return bgi_ops_avx2(kind->id, k, exclusive);
    case BG_CPU_AVX512: return bgi_ops_avx512(kind->id, k, exclusive);
#elif defined(BGI_AARCH64)
    case BG_CPU_NEON: return bgi_ops_neon(kind->id, k, exclusive);
#endif
    default: return bgi_ops_scalar(kind->id, k, exclusive);
    }
}

const struct bgi_word_ops *bgi_kind_word_ops(bg_cpu cpu)
{
    switch (cpu) {
#if defined(BGI_X86_64)
    case BG_CPU_AVX2: return &bgi_word_ops_avx2;
    case BG_CPU_AVX512: return &bgi_word_ops_avx512;
#elif defined(BGI_AARCH64)
    case BG_CPU_NEON: return &bgi_word_ops_neon;
#endif
    default: return &bgi_word_ops_scalar;
    }
}

void bgi_fold_units(struct bgi_core *to, const struct bgi_core *from, size_t unit_words)
{
    uint64_t *out = (uint64_t *)(void *)to->words;
    const uint64_t *in = (const uint64_t *)(const void *)from->words;
    for (uint64_t u = 0; u < to->units; u++, in += 2 * unit_words, out += unit_words) {
        for (size_t w = 0; w < unit_words; w++) {
            out[w] = __atomic_load_n(&in[w], __ATOMIC_RELAXED)
                     | __atomic_load_n(&in[unit_words + w], __ATOMIC_RELAXED);
        }
    }
}

/* Returns the even bits of a word, packed into its low half. */
static uint64_t kind_pack_even(uint64_t x)
{
    x &= 0x5555555555555555u;
    x = (x | x >> 1) & 0x3333333333333333u;
    x = (x | x >> 2) & 0x0f0f0f0f0f0f0f0fu;
    x = (x | x >> 4) & 0x00ff00ff00ff00ffu;
    x = (x | x >> 8) & 0x0000ffff0000ffffu;
    return (x | x >> 16) & 0x00000000ffffffffu;
}

void bgi_fold_bits(uint64_t *to, const uint64_t *from, size_t words)
{
    for (size_t w = 0; w + 1 < words; w += 2) {
        uint64_t low = __atomic_load_n(&from[w], __ATOMIC_RELAXED);
        uint64_t high = __atomic_load_n(&from[w + 1], __ATOMIC_RELAXED);
        to[w / 2] =
            kind_pack_even(low | low >> 1) | kind_pack_even(high | high >> 1) << 32;
    }
}
