/*
 * solve.c - finds the geometry (kind, k and number of units) for a spec.
 *
 * The rate of a kind falls as the number of units grows and, for a given number of bits, usually
 * has one minimum over k. So
 *   - if a size is specified, every k is tried to find the lowest rate (hill climbing would not
 *     work, because kinds whose unit grows with k, such as partitioned filters, have several minima
 *     at small sizes);
 *   - if only a rate is specified, bisection finds the fewest units that reach it for one k, and
 *     hill climbing from the textbook value of k finds the k that needs the fewest bytes.
 *
 * Everything is computed with the kind's model (kind/model.c), so measurements should match the
 * reported rate. If not every number of units is a valid size (bgi_kind.round_units), each number
 * stands for the largest valid size that does not exceed it. The rate then still falls as the
 * number of units grows, but in steps.
 */
#include "base/checked.h"
#include "base/errinfo.h"
#include "filter/handle.h"
#include "kind/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double solve_bits_max = 1024;                 /* bits per key */
static const double solve_items_max = 72057594037927936.0; /* 2^56 */
static const double solve_ln2 = 0.693147180559945309;

/* Canaries need as much space as other keys. Among more keys than SOLVE_MANY times the canaries,
 * the additional space is negligible and is not reserved, except for kinds that accept only a
 * limited number of keys. Among fewer keys than SOLVE_FEW times the canaries, canaries need more
 * space (see solve_uneven). */
enum { SOLVE_MANY = 100, SOLVE_FEW = 16 };

bool bgi_geometry_bytes(const struct bgi_geometry *g, uint64_t *bytes)
{
    size_t unused;
    return bgi_mul_u64(g->units, g->kind->unit_bytes(g->k), bytes)
           && *bytes <= UINT64_MAX - 8192 && bgi_fits_size(*bytes + 8192, &unused);
}

/* ---- Checking a spec ----------------------------------------------------------- */

static bg_err solve_check_numbers(const bg_spec *spec, double growth, bg_errinfo *info)
{
    if (spec->items > (uint64_t)solve_items_max) {
        return bgi_err(info, BG_EINVAL, "items", "1 .. 2^56", "%llu",
                       (unsigned long long)spec->items);
    }
    if (!(spec->rate >= 0 && spec->rate < 1)) {
        return bgi_err(info, BG_EINVAL, "rate", "a number above 0 and below 1", "%g",
                       spec->rate);
    }
    if (spec->bits_per_key != 0
        && !(spec->bits_per_key >= 1 && spec->bits_per_key <= solve_bits_max)) {
        return bgi_err(info, BG_EINVAL, "bits_per_key", "1 .. 1024", "%g",
                       spec->bits_per_key);
    }
    if (spec->folds > 20) {
        return bgi_err(info, BG_EINVAL, "folds", "0 .. 20", "%u", spec->folds);
    }
    if (!(growth >= 1 && growth <= 1e6)) {
        return bgi_err(info, BG_EINVAL, "growth", "1 .. 1000000", "%g", growth);
    }
    if ((double)spec->items * growth > solve_items_max) {
        return bgi_err(info, BG_EINVAL, "growth",
                       "a factor for which items x growth is at most 2^56", "%g",
                       growth);
    }
    return BG_OK;
}

static bg_err solve_check_words(const bg_spec *spec, bg_errinfo *info)
{
    const uint32_t known = BG_SPEC_EXCLUSIVE | BG_SPEC_ONE_WINNER | BG_SPEC_SMALL_PAGES
                           | BG_SPEC_SCATTERED;
    if (spec->struct_size != sizeof *spec) {
        return bgi_err(info, BG_EINVAL, "struct_size",
                       "sizeof(bg_spec): use BG_SPEC_INIT", "%u", spec->struct_size);
    }
    if (spec->kind != BG_KIND_AUTO && !bgi_kind_of((bg_kind)spec->kind)) {
        return bgi_err(info, BG_EINVAL, "kind", "a kind of bloomgate/kind.h", "%u",
                       spec->kind);
    }
    if (spec->flags & ~known) {
        return bgi_err(info, BG_EINVAL, "flags",
                       "BG_SPEC_EXCLUSIVE, BG_SPEC_ONE_WINNER, "
                       "BG_SPEC_SMALL_PAGES, BG_SPEC_SCATTERED or 0",
                       "0x%x", spec->flags);
    }
    if (spec->canaries > BGI_CANARIES_MAX) {
        return bgi_err(info, BG_EINVAL, "canaries", "0 to 65536", "%u", spec->canaries);
    }
    if (spec->allocator && (!spec->allocator->allocate || !spec->allocator->release)) {
        return bgi_err(info, BG_EINVAL, "allocator",
                       "an allocator with both functions, or none", "a NULL function");
    }
    return BG_OK;
}

const struct bgi_composed *bgi_spec_composed(const bg_spec *spec)
{
    const struct bgi_kind *kind = bgi_kind_of((bg_kind)spec->kind);
    return spec->shards > 1 ? bgi_sharded() : kind ? kind->composed : NULL;
}

bg_err bgi_spec_check(const bg_spec *spec, bg_errinfo *info)
{
    bgi_err_clear(info);
    if (!spec) {
        return bgi_err(info, BG_EINVAL, "spec", "a bg_spec", "NULL");
    }
    return solve_check_words(spec, info);
}

/* Returns whether the size follows from the rate. If the size is also set, the rate is only the
 * target. */
static bool solve_by_rate(const bg_spec *spec)
{
    return spec->rate > 0 && !spec->bytes;
}

/* Exactly one of rate, bits_per_key and bytes must be set. If bytes, k and kind are all set, a rate
 * can be set as well, and the number of items need not be set. */
static bg_err solve_check_enough(const bg_spec *spec, bg_errinfo *info)
{
    const bool exact = spec->bytes && spec->k && spec->kind != BG_KIND_AUTO;
    int sizes =
        (!exact && spec->rate > 0) + (spec->bits_per_key > 0) + (spec->bytes > 0);
    if (sizes != 1) {
        return bgi_err(info, BG_EINVAL, "rate, bits_per_key, bytes", "exactly one",
                       "%d values", sizes);
    }
    if (spec->items == 0 && !exact) {
        return bgi_err(info, BG_EINVAL, "items",
                       "1 or more, unless bytes, k and kind are all set", "0");
    }
    return BG_OK;
}

/* Writes "1 .. 8 for a counting filter", or "8, 12, 16, 32 for ..." if some values in the range are
 * not valid. */
static void solve_tell_ks(const struct bgi_kind *kind, char *text, size_t room)
{
    uint32_t there = 0;
    size_t end = 0;
    for (uint32_t k = kind->k_min; k <= kind->k_max; k++) {
        there += kind->unit_bytes(k) != 0;
    }
    if (there == kind->k_max - kind->k_min + 1) {
        (void)snprintf(text, room, "%u .. %u for a %s filter", kind->k_min, kind->k_max,
                       bg_kind_name(kind->id));
        return;
    }
    for (uint32_t k = kind->k_min; k <= kind->k_max && end + 4 < room; k++) {
        if (kind->unit_bytes(k)) {
            end += (size_t)snprintf(text + end, room - end, end ? ", %u" : "%u", k);
        }
    }
    (void)snprintf(text + end, room - end, " for a %s filter", bg_kind_name(kind->id));
}

static bg_err solve_check_kind(const bg_spec *spec, const struct bgi_kind *kind,
                               bg_errinfo *info)
{
    if (spec->k
        && (spec->k < kind->k_min || spec->k > kind->k_max
            || kind->unit_bytes(spec->k) == 0)) {
        char expected[96];
        solve_tell_ks(kind, expected, sizeof expected);
        return bgi_err(info, BG_EINVAL, "k", expected, "%u", spec->k);
    }
    if (spec->folds && !(kind->traits & BG_TRAIT_FOLD)) {
        return bgi_err(info, BG_ENOTSUP, "folds",
                       "0, because this kind cannot be folded", "%u for a %s filter",
                       spec->folds, bg_kind_name(kind->id));
    }
    if ((spec->flags & BG_SPEC_ONE_WINNER) && kind->id != BG_KIND_REGISTER) {
        return bgi_err(info, BG_ENOTSUP, "kind",
                       "register, which BG_SPEC_ONE_WINNER requires", "%s",
                       bg_kind_name(kind->id));
    }
    return BG_OK;
}

/* ---- Searching ------------------------------------------------------------------ */

/* Rounds *units up to a multiple of 2^folds, so that the units can be halved `folds` times. */
static bool solve_round(const bg_spec *spec, uint64_t *units)
{
    return bgi_round_up_u64(*units, (uint64_t)1 << spec->folds, units);
}

/* Returns the valid size that g->units stands for. */
static uint64_t solve_size(const struct bgi_geometry *g)
{
    return g->kind->round_units ? g->kind->round_units(g->units, g->k) : g->units;
}

static double solve_rate(const struct bgi_geometry *g)
{
    return bgi_kind_rate(g->kind, solve_size(g), g->k, (double)g->items);
}

/* Returns whether the keys fit, for a kind that can become full. */
static bool solve_has_room(const struct bgi_geometry *g)
{
    return !(g->kind->traits & BG_TRAIT_FILLS_UP) || g->items == 0 || solve_rate(g) < 1;
}

/* Sets *units to the number of units, at least 1, for `bits` bits per key. */
static bool solve_units(const struct bgi_geometry *g, double bits, uint64_t *units)
{
    double unit_bits = 8.0 * g->kind->unit_bytes(g->k);
    return bgi_u64_from_double(fmax(1, ceil((double)g->items * bits / unit_bits)),
                               units);
}

/* Finds the smallest number of units, to within 1 in 4096, that reaches `rate`. Returns false if a
 * filter with 1024 bits per key does not reach this rate. (Some kinds have a large minimum size, so
 * for these kinds the limit is at least 4 KiB.) */
static bool solve_fewest(struct bgi_geometry *g, double rate)
{
    uint64_t low = 0, high;
    if (!solve_units(g, solve_bits_max, &high)) {
        return false;
    }
    if (g->kind->traits & BG_TRAIT_STATIC || g->kind->round_units) {
        uint64_t few = 4096 / g->kind->unit_bytes(g->k);
        high = high > few ? high : few;
    }
    uint64_t most = high < g->kind->units_max ? high : g->kind->units_max;
    double bits = -log(rate) / solve_ln2; /* no filter needs fewer bits per key */
    do {
        bits *= 1.3;
        if (!solve_units(g, bits, &high)) {
            return false;
        }
        g->units = high < most ? high : most;
        if (solve_rate(g) <= rate) {
            break;
        }
        low = g->units;
    } while (high < most);
    high = g->units;
    if (low == high) {
        return false;
    }
    while (high - low > 1 + low / 4096) {
        g->units = low + (high - low) / 2;
        if (solve_rate(g) <= rate) {
            high = g->units;
        } else {
            low = g->units;
        }
    }
    g->units = high;
    g->units = solve_size(g);
    return true;
}

/*
 * Returns the cost of using g->k: the bytes if the spec sets a rate, the rate if it
 * sets a size, and HUGE_VAL if this k is impossible. Stores the number of units in g.
 */
static double solve_cost(const bg_spec *spec, struct bgi_geometry *g)
{
    if (g->kind->unit_bytes(g->k) == 0) {
        return HUGE_VAL; /* no such k */
    }
    if (solve_by_rate(spec)) {
        return solve_fewest(g, spec->rate)
                   ? (double)g->units * g->kind->unit_bytes(g->k)
                   : HUGE_VAL;
    }
    uint32_t unit = g->kind->unit_bytes(g->k);
    uint64_t units = spec->bytes / unit; /* exact; a double has only 53 bits */
    double bits = (double)g->items * spec->bits_per_key;
    if ((!spec->bytes && !bgi_u64_from_double(bits / 8 / unit, &units))
        || units > g->kind->units_max) {
        return HUGE_VAL;
    }
    /* A size in bytes is an upper limit. A size in bits per key that is less than one unit is
     * rounded up to one unit, unless a smaller k would make the unit smaller. */
    bool smallest = spec->k || g->k == g->kind->k_min;
    g->units = units ? units : (!spec->bytes && smallest ? 1 : 0);
    g->units = solve_size(g);
    return g->units && solve_has_room(g) ? solve_rate(g) : HUGE_VAL;
}

/* Tries every k. */
static double solve_scan(const bg_spec *spec, struct bgi_geometry *g)
{
    struct bgi_geometry try = *g;
    double best = HUGE_VAL;
    g->k = g->kind->k_min;
    for (try.k = g->kind->k_min; try.k <= g->kind->k_max; try.k++) {
        double cost = solve_cost(spec, &try);
        if (cost < best) {
            best = cost;
            *g = try;
        }
    }
    return best;
}

/* Moves k away from g->k in steps of one as long as the cost falls. */
static double solve_climb(const bg_spec *spec, struct bgi_geometry *g)
{
    double best = solve_cost(spec, g);
    struct bgi_geometry found = *g;
    for (int step = -1; step <= 1; step += 2) {
        struct bgi_geometry try = found;
        while ((step < 0 ? try.k > g->kind->k_min : try.k < g->kind->k_max)) {
            try.k = step < 0 ? try.k - 1 : try.k + 1;
            double cost = solve_cost(spec, &try);
            if (!(cost < best)) {
                break;
            }
            best = cost;
            found = try;
        }
    }
    *g = found;
    return best;
}

/* Returns the textbook value of k for a rate, within the limits of the kind. */
static uint32_t solve_first_k(const bg_spec *spec, const struct bgi_kind *kind)
{
    double k = rint(-log(spec->rate) / solve_ln2);
    return (uint32_t)fmin(fmax(k, kind->k_min), kind->k_max);
}

static bg_err solve_for_kind(const bg_spec *spec, struct bgi_geometry *g,
                             bg_errinfo *info)
{
    double cost;
    g->units = 0;
    if (spec->k || g->items == 0) {
        g->k = spec->k;
        cost = solve_cost(spec, g);
    } else if (solve_by_rate(spec) && g->kind->model) {
        g->k = solve_first_k(spec, g->kind);
        cost = solve_climb(spec, g);
    } else {
        cost = solve_scan(spec, g);
    }
    if (!(cost < HUGE_VAL) || g->units == 0) {
        const unsigned long long items = g->items - g->reserved;
        if (solve_by_rate(spec)) {
            char reach[96];
            (void)snprintf(
                reach, sizeof reach,
                "a rate that a %s filter can reach with 1024 bits per key and its maximum size",
                bg_kind_name(g->kind->id));
            return bgi_err(info, BG_ENOTSUP, "rate", reach, "%g for %llu items",
                           spec->rate, items);
        }
        if ((g->kind->traits & BG_TRAIT_FILLS_UP) && g->items) {
            char enough[96];
            (void)snprintf(enough, sizeof enough,
                           "enough space for %llu items in a %s filter", items,
                           bg_kind_name(g->kind->id));
            return spec->bytes ? bgi_err(info, BG_EINVAL, "bytes", enough, "%llu",
                                         (unsigned long long)spec->bytes)
                               : bgi_err(info, BG_EINVAL, "bits_per_key", enough, "%g",
                                         spec->bits_per_key);
        }
        char expected[96];
        uint64_t most;
        if (!bgi_mul_u64(g->kind->units_max, g->kind->unit_bytes(g->k), &most)) {
            most = UINT64_MAX;
        }
        (void)snprintf(expected, sizeof expected, "%u to %llu bytes for a %s filter",
                       g->kind->unit_bytes(g->k), (unsigned long long)most,
                       bg_kind_name(g->kind->id));
        return spec->bytes ? bgi_err(info, BG_EINVAL, "bytes", expected, "%llu",
                                     (unsigned long long)spec->bytes)
                           : bgi_err(info, BG_EINVAL, "bits_per_key", expected,
                                     "%g for %llu items", spec->bits_per_key, items);
    }
    if (spec->folds && spec->bytes) {
        /* Rounds down, so that the filter does not exceed the specified size. */
        g->units -= g->units % ((uint64_t)1 << spec->folds);
        if (g->units == 0) {
            return bgi_err(info, BG_EINVAL, "bytes",
                           "a size large enough to be folded `folds` times", "%llu",
                           (unsigned long long)spec->bytes);
        }
    } else if (!solve_round(spec, &g->units)) {
        return bgi_err_state(info, BG_ENOMEM, "size",
                             "the %s filter is too large for the address space",
                             bg_kind_name(g->kind->id));
    }
    g->rate = g->items ? solve_rate(g) : 0;
    g->target = spec->rate > 0 ? spec->rate : g->rate;
    return BG_OK;
}

/* ---- Limits and the choice of a kind -------------------------------------------- */

static bg_err solve_check_size(const bg_spec *spec, const struct bgi_geometry *g,
                               bg_errinfo *info)
{
    uint64_t bytes = 0;
    if (g->units > g->kind->units_max) {
        return bgi_err_state(info, BG_ENOMEM, "size",
                             "the filter exceeds the maximum size of a %s filter",
                             bg_kind_name(g->kind->id));
    }
    if (!bgi_geometry_bytes(g, &bytes)) {
        return bgi_err_state(info, BG_ENOMEM, "size",
                             "the %s filter is too large for the address space",
                             bg_kind_name(g->kind->id));
    }
    if (spec->max_bytes && bytes > spec->max_bytes) {
        char expected[64];
        (void)snprintf(expected, sizeof expected, "at most max_bytes = %llu",
                       (unsigned long long)spec->max_bytes);
        return bgi_err(info, BG_ENOMEM, "size in bytes", expected, "%llu",
                       (unsigned long long)bytes);
    }
    return BG_OK;
}

static bg_err solve_as(bg_kind id, const bg_spec *spec, struct bgi_geometry *g,
                       bg_errinfo *info)
{
    g->kind = bgi_kind_variant(id, spec->width, spec->flags);
    if (!g->kind) {
        return bgi_err(info, BG_EINVAL, "width, flags",
                       "a width and flags that this kind supports (bloomgate/spec.h)",
                       "%u%s for a %s filter", spec->width,
                       spec->flags & BG_SPEC_SCATTERED ? " and BG_SPEC_SCATTERED" : "",
                       bg_kind_name(id));
    }
    if (g->kind->composed || spec->shards > 1) {
        return bgi_err(info, BG_ENOTSUP, "kind", "a single-block kind, without shards",
                       "%s", bg_kind_name(id));
    }
    bg_err err = solve_check_kind(spec, g->kind, info);
    if (!err) {
        err = solve_for_kind(spec, g, info);
    }
    return err ? err : solve_check_size(spec, g, info);
}

/*
 * `auto` selects the register kind if BG_SPEC_ONE_WINNER is set, otherwise the blocked kind.
 * It selects the classic kind instead of the blocked kind if a blocked filter would exceed the
 * limits, or would need more than 1.5 times the memory of a classic filter, which is the case below
 * a rate of about 1e-7.
 */
static bg_err solve_auto(const bg_spec *spec, struct bgi_geometry *g, bg_errinfo *info)
{
    const double too_much = 1.5;
    if (spec->flags & BG_SPEC_ONE_WINNER) {
        (void)snprintf(
            g->reason, sizeof g->reason,
            "register: if two threads add a key, exactly one sees it as new");
        return solve_as(BG_KIND_REGISTER, spec, g, info);
    }
    struct bgi_geometry scattered = *g;
    bg_err no_classic = solve_as(BG_KIND_CLASSIC, spec, &scattered, NULL);
    bg_err err = solve_as(BG_KIND_BLOCKED, spec, g, info);
    double limit = too_much * 8 * (double)scattered.units;
    if (no_classic || (!err && 64 * (double)g->units <= limit)) {
        (void)snprintf(g->reason, sizeof g->reason,
                       "blocked: a lookup reads %u bits of one cache line", g->k);
        return err;
    }
    *g = scattered;
    bgi_err_clear(info);
    (void)snprintf(
        g->reason, sizeof g->reason,
        "classic, which reads up to %u cache lines per lookup: a blocked filter would "
        "%s",
        g->k, err ? "exceed the limits" : "need over 1.5 times the memory");
    return BG_OK;
}

/* Returns the number of canaries for which a filter of `items` keys must reserve space. */
static uint64_t solve_canaries(const bg_spec *spec, uint64_t items)
{
    const uint32_t traits = bg_kind_traits((bg_kind)spec->kind);
    const bool limited = traits & (BG_TRAIT_FILLS_UP | BG_TRAIT_STATIC);
    return items && (limited || items < SOLVE_MANY * (uint64_t)spec->canaries)
               ? spec->canaries
               : 0;
}

/*
 * Returns the number of additional keys for which a filter of `items` keys needs space, because
 * canaries are spread unevenly. All filters of a generation contain the same canaries. So if
 * several canaries share one of the few units, they do so in every filter, and the mean rate of
 * these filters is above the mean rate of the model. Space for two keys per canary keeps the rate
 * below the target in 19 of 20 generations. Kinds that scatter bits do not need it.
 */
static uint64_t solve_uneven(const bg_spec *spec, const struct bgi_kind *kind,
                             uint64_t items)
{
    const bool other = kind->flags & BG_SPEC_SCATTERED || kind->id == BG_KIND_CLASSIC
                       || kind->id == BG_KIND_PARTITIONED
                       || kind->traits & (BG_TRAIT_FILLS_UP | BG_TRAIT_STATIC);
    const uint64_t even = items / SOLVE_FEW;
    return items && !other && even < spec->canaries ? spec->canaries - even : 0;
}

/* Reserves space for unevenly spread canaries in a geometry for the items and the canaries. */
static bg_err solve_spread(const bg_spec *spec, struct bgi_geometry *g,
                           bg_errinfo *info)
{
    const uint64_t canaries = g->reserved;
    const uint64_t more = solve_uneven(spec, g->kind, g->items - canaries);
    if (more == 0) {
        return BG_OK;
    }
    g->reserved += more;
    g->items += more;
    bg_err err = solve_as(g->kind->id, spec, g, info);
    if (!err) {
        g->reserved = canaries;
        g->items -= more;
        g->rate = solve_rate(g);
        g->target = spec->rate > 0 ? spec->rate : g->rate;
    }
    return err;
}

bg_err bgi_solve(const bg_spec *spec, double growth, struct bgi_geometry *geometry,
                 bg_errinfo *info)
{
    memset(geometry, 0, sizeof *geometry);
    bg_err err = bgi_spec_check(spec, info);
    err = err ? err : solve_check_numbers(spec, growth, info);
    err = err ? err : solve_check_enough(spec, info);
    if (err) {
        return err;
    }
    geometry->items = (uint64_t)((double)spec->items * growth);
    if (growth <= 1) {
        geometry->items = spec->items; /* exact even above 2^53 */
    }
    geometry->reserved = solve_canaries(spec, geometry->items);
    geometry->items += geometry->reserved;
    err = spec->kind == BG_KIND_AUTO
              ? solve_auto(spec, geometry, info)
              : solve_as((bg_kind)spec->kind, spec, geometry, info);
    err = err ? err : solve_spread(spec, geometry, info);
    geometry->items -= geometry->reserved;
    if (!err && spec->kind != BG_KIND_AUTO) {
        (void)snprintf(geometry->reason, sizeof geometry->reason, "%s: as requested",
                       bg_kind_name(geometry->kind->id));
    }
    return err;
}
