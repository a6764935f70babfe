/*
 * register.c - a filter with all bits of a key in one 64-bit word.
 *
 * Idea. The smallest possible block is one machine word. An add is one atomic OR that also
 * returns the previous value, so if two threads add the same key at the same instant, exactly
 * one of the adds reports the key as new. Use this kind to deduplicate keys from many threads.
 * (The layout is the register-blocked filter of Lang et al., "Performance-optimal filtering:
 * Bloom overtakes cuckoo at high throughput", 2019.)
 *
 * Cost. Words fill very unevenly, so this kind needs 11.9 bits per key at 1%, 23.2 at 0.1% and 80
 * at 0.001%.
 *
 * Layout. A unit is a word. A key sets k different bits in one word. Positions drawn independently
 * sometimes coincide, which would cost 2.5% more bits at 1% and 9% more at 0.001% in such a small
 * block. So if a position is already taken, the next free position above it is used instead
 * (register_core.h).
 *
 * A position that was moved up is next to another set bit, so the masks of different keys overlap
 * slightly more than random subsets would. The model adds the measured cost of this effect
 * (model.c).
 *
 * Invariants
 *   (I1) The word of a hash is floor(h' * units / 2^64), where h' is the hash with its low 12 bits
 *        cleared. So folding a filter ORs neighboring words.
 *   (I2) In shared mode, a word changes only by an atomic OR with a key's whole mask.
 */
#include "kind/kind.h"

#include "bloomgate/inline.h"

static uint32_t register_unit_bytes(uint32_t k)
{
    (void)k;
    return 8;
}

static struct bgi_model register_model(uint64_t units, uint32_t k)
{
    return (struct bgi_model){ .clustered = k > 2,
                               .units = (double)units,
                               .lanes = 64,
                               .active = k,
                               .draws = 1,
                               .lane_bits = 1 };
}

static uint32_t register_lines(uint32_t k)
{
    (void)k;
    return 1;
}

static void register_fold(struct bgi_core *to, const struct bgi_core *from)
{
    bgi_fold_units(to, from, 1);
}

static void register_view(const struct bgi_core *core, struct bg_view *view)
{
    (void)core;
    view->shape = BG_VIEW_REGISTER;
}

const struct bgi_kind bgi_kind_register = {
    .id = BG_KIND_REGISTER,
    .traits = BGI_BLOOM_TRAITS,
    .k_min = 1,
    .k_max = 10,
    .units_max = (uint64_t)1 << 55,
    .unit_bytes = register_unit_bytes,
    .model = register_model,
    .lines = register_lines,
    .fold = register_fold,
    .view = register_view,
};
