/*
 * aged.c - a window that consists of age slices, with all bits of a key in one block.
 *
 * Idea. The filter is a partitioned Bloom filter whose slices form a ring. An add sets one bit in
 * each of the k youngest slices. At the start of every period, a new slice is added at the young
 * end, and the oldest slice is dropped. So the bits of a key added in period p are always in the
 * slices p .. p + k - 1. The answer to a query is "maybe" if the key's bit is set in k consecutive
 * slices (Shtul, Baquero, Almeida, "Age-partitioned Bloom filters", 2020).
 *
 *     slices, old to young      q-l ................. q .... q+k-1 | q+k: being cleared
 *     a key of this period                            [# # # # #]
 *     a key of period p                  [# # # # #]
 *                                         p ... p+k-1               l = generations - 1
 *
 * Layout. In the paper, slices are bit arrays, so a query touches several cache lines. Here, the
 * slices are the columns of small tables, called blocks. A row of a block is a word with one bit
 * for each slice. The high bits of a hash select a block, and a mix of all bits of the hash selects
 * k rows of that block.
 *
 *                     slice  0 1 2 3 4 ...          31
 *         block      row 0   . . . . . . . . . . . .        16 rows of 32 bits, one line;
 *                    row 1   . # . . . # . . . . . .        or 32 of 16 bits, one line;
 *                     ...                                   or 16 of 64 bits, two lines
 *                    row 15  . . . # . . . # . . . .
 *
 * Slice s uses the key's row s mod k. Any k consecutive slices use each of the key's rows once,
 * so their bits are independent. A query reads k words of one block, regardless of the number of
 * generations. It masks each word with the slices that use the word, and ORs the results into one
 * word, whose set bits indicate the slices that contain the key's bit. Then it looks for k
 * consecutive set bits in this word:
 *
 *     found = OR over j < k of  row[r_j] & { slices that are j modulo k }
 *     x = found;  x &= x >> 1;  x &= x >> 2; ...          (after rotating the ring)
 *
 * The number of slices in the ring is a multiple of k, so the masks stay the same when the ring
 * wraps around.
 *
 * Rate. The number of keys that one period adds to a block has a Poisson distribution. Let R be the
 * number of rows and lambda the mean number of keys per period and block. Inclusion-exclusion over
 * the sets T of slices gives the exact probability that k consecutive slices are set by chance:
 *
 *     full(k) = sum over T of (-1)^|T| prod over periods p of
 *                   exp(-lambda (1 - (1 - 1/R)^|T and slices of p|))
 *
 * A run of k set slices starts at one of g positions: at the oldest position with probability
 * full(k), and at each of the others with probability full(k) - full(k+1), because the slice before
 * the run must not be set. (If there are two separate runs, both are counted; the error is
 * negligible at rates below 10%.)
 *
 * This formula, with an equal number of keys in every period, determines the size. The rate of a
 * window in use depends on how its keys are distributed: if all keys were added in one period, the
 * rate is much higher than with the same number of keys in all periods. So the rate is not computed
 * from the number of keys, but as the mean over the blocks of the probability that the block's bits
 * contain a run.
 *
 * Fading. A key that has just expired still has all but one of its bits in live slices. The filter
 * still answers "maybe" for the key if other keys have set its bit in the slice after its last
 * slice. This happens for about half of the keys that have just expired and, one period later, for
 * a quarter of them. After k periods, no bit of the key is left. So keys do not expire as sharply
 * as with generations: the maximum age is W + P + k P, but few keys reach it.
 *
 * Cost. Clearing a slice, which happens once per period, visits all words of the filter in small
 * steps, whereas a window of generations only clears its oldest filter. Small blocks need more
 * bits: at 24 generations and a rate of 1%, this window needs 25.2 bits per key, compared with 19.5
 * for a window of generations. With fewer than about ten generations, the ring has many more slices
 * than generations, and this window needs twice as many bits as a window of generations.
 *
 * Concurrency. Bits are set by atomic OR, and the bits of a slice are cleared by atomic AND.
 * window.c explains why no key is lost.
 */
#include "base/bits.h"
#include "base/checked.h"
#include "base/errinfo.h"
#include "hash/hasher.h"
#include "live/window_body.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { AGED_ROW_CHOICE = 5, AGED_K_MIN = 2 };

/* The minimum rate. Below this rate, the sums in the model lose all significant digits. */
static const double aged_rate_least = 1e-9;

static uint32_t aged_unit_bytes(uint32_t row_bits)
{
    return row_bits == 64 ? 128 : 64;
}

static uint32_t aged_rows(uint32_t row_bits)
{
    return 8 * aged_unit_bytes(row_bits) / row_bits;
}

/* ---- Rate ------------------------------------------------------------------------ */

struct aged_model {
    uint32_t k;
    uint32_t generations;
    double
        miss[AGED_K_MAX + 2]; /* probability that a period's keys set none of c bits */
};

static void aged_model_init(struct aged_model *m, const struct window_shape *shape,
                            double lambda)
{
    double stay = 1, other = 1 - 1.0 / aged_rows(shape->row_bits);
    m->k = shape->part.k;
    m->generations = shape->generations;
    for (uint32_t c = 0; c <= m->k + 1; c++) {
        m->miss[c] = exp(-lambda * (1 - stay));
        stay *= other;
    }
}

/* Returns the probability that a key's bits are set by chance in `count` consecutive slices, called
 * a run. The youngest slice of the run is `ahead` slices younger than the oldest slice of the
 * current period. */
static double aged_full(const struct aged_model *m, uint32_t count, uint32_t ahead)
{
    double sum = 0;
    assert(m->k >= AGED_K_MIN && count >= m->k && count <= AGED_K_MAX + 1);
    for (uint32_t set = 0; set < (uint32_t)1 << count; set++) {
        double product = 1;
        /* The slices of the period with index `back` start `back` - (k - 1) slices after the oldest
         * slice of the run. The loop ends with the current period, or with the period whose oldest
         * slice is the run's last slice, whichever is older. */
        for (uint32_t back = 0; back + ahead < count + m->k - 1; back++) {
            uint32_t mine = (((uint32_t)1 << m->k) - 1) << back >> (m->k - 1);
            product *= m->miss[bgi_popcount64(set & mine)];
        }
        sum += bgi_popcount64(set) % 2 ? -product : product;
    }
    return fmax(0, sum);
}

static double aged_rate_at(const struct window_shape *shape, double lambda)
{
    struct aged_model m;
    aged_model_init(&m, shape, lambda);
    uint32_t k = m.k, last = m.generations - 1;
    double rate = 0;
    /* Iterates over the runs whose oldest slice is q - i, where q is the current period. Runs with
     * i >= k - 1 have equal probabilities. */
    for (uint32_t i = 0; i <= last; i++) {
        uint32_t ahead = i < k - 1 ? k - 1 - i : 0;
        double begins = aged_full(&m, k, ahead);
        double longer = i < last ? aged_full(&m, k + 1, ahead) : 0;
        double alike = i >= k - 1 && i < last ? last - i : 1;
        rate += alike * (begins - longer);
        i += (uint32_t)alike - 1;
    }
    return fmin(1, rate);
}

static double aged_rate(const struct window_shape *shape, double n)
{
    return aged_rate_at(shape, n / (double)shape->part.units);
}

/* ---- Sizes ----------------------------------------------------------------------- */

/* Computes the size of the ring and the width of the rows for k. Returns false if the ring would
 * have more than 64 slices. */
static bool aged_try(struct window_shape *shape, uint32_t k)
{
    shape->part.k = k;
    shape->slices = (k + shape->generations + k - 1) / k * k;
    shape->places = shape->slices;
    shape->row_bits = shape->slices <= 16 ? 16 : shape->slices <= 32 ? 32 : 64;
    return shape->slices <= 64;
}

/* Computes the minimum number of blocks that achieves the rate. The result is accurate to 0.5%. */
static bool aged_fewest(struct window_shape *shape, double rate)
{
    double few = 0, many = 1; /* keys per block and period */
    while (aged_rate_at(shape, many) < rate && many < 64) {
        many *= 2;
    }
    while (many - few > 0.005 * many) {
        double middle = (few + many) / 2;
        if (aged_rate_at(shape, middle) <= rate) {
            few = middle;
        } else {
            many = middle;
        }
        if (many < 1e-6) {
            return false;
        }
    }
    double units = ceil((double)shape->period_items / few);
    return bgi_u64_from_double(fmax(1, units), &shape->part.units);
}

static bg_err aged_solve(const bg_spec *spec, struct window_shape *shape,
                         bg_errinfo *info)
{
    struct window_shape try = *shape;
    bool found = false;
    uint32_t least = spec->k ? spec->k : AGED_K_MIN;
    uint32_t most = spec->k ? spec->k : AGED_K_MAX;
    if (spec->k && (spec->k < AGED_K_MIN || spec->k > AGED_K_MAX)) {
        return bgi_err(info, BG_EINVAL, "k", "2 to 10 for an aged window", "%u",
                       spec->k);
    }
    if (spec->items > (uint64_t)1 << 56) {
        return bgi_err(info, BG_EINVAL, "items", "1 to 2^56", "%llu",
                       (unsigned long long)spec->items);
    }
    for (uint32_t k = least; k <= most; k++) {
        if (!aged_try(&try, k) || !aged_fewest(&try, spec->rate)
            || !bgi_mul_u64(try.part.units, aged_unit_bytes(try.row_bits),
                            &try.bytes)) {
            continue;
        }
        if (!found || try.bytes < shape->bytes) {
            *shape = try;
            found = true;
        }
    }
    if (!found || spec->rate < aged_rate_least) {
        return bgi_err_state(
            info, BG_ENOTSUP, "window.generations",
            "an aged window with %u generations cannot reach a rate of %g; use fewer generations or a higher rate",
            shape->generations, spec->rate);
    }
    return BG_OK;
}

static bool aged_reshape(const struct bgi_recipe *recipe, struct window_shape *shape)
{
    shape->part.units = recipe->units;
    return recipe->k >= AGED_K_MIN && recipe->k <= AGED_K_MAX && recipe->units > 0
           && recipe->window_kind == 0 && aged_try(shape, recipe->k)
           && bgi_mul_u64(recipe->units, aged_unit_bytes(shape->row_bits),
                          &shape->bytes);
}

/* ---- Life ------------------------------------------------------------------------ */

static void aged_give(struct window *w)
{
    bgi_memory_give(&w->memory);
    w->filter.core.words = NULL;
}

static bg_err aged_make(struct window *w, bg_errinfo *info)
{
    const bg_allocator *from =
        w->filter.allocator.allocate ? &w->filter.allocator : NULL;
    size_t bytes;
    bool bare = w->filter.flags & BGI_BARE;
    if (!bgi_fits_size(w->shape.bytes, &bytes)
        || (!bare
            && !bgi_memory_take(&w->memory, bytes, from,
                                w->filter.flags & BG_SPEC_SMALL_PAGES))) {
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate %llu bytes for the window",
                             (unsigned long long)w->shape.bytes);
    }
    w->filter.core.words = w->memory.base;
    for (uint32_t j = 0; j < w->shape.part.k; j++) {
        w->masks[j] = 0;
        for (uint32_t s = j; s < w->shape.slices; s += w->shape.part.k) {
            w->masks[j] |= (uint64_t)1 << s;
        }
    }
    return BG_OK;
}

/* ---- Keys ------------------------------------------------------------------------ */

/* Returns the byte offset of a hash's block. */
static uint64_t aged_at(const struct window *w, uint64_t hash)
{
    return bgi_range52(hash, w->shape.part.units) * aged_unit_bytes(w->shape.row_bits);
}

/* Returns the row indexes of a hash, with AGED_ROW_CHOICE bits for each. */
static uint64_t aged_rows_of(uint64_t hash)
{
    uint64_t x = hash * 0x9fb21c651e98df25u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return x ^ x >> 29;
}

/*
 * The values that a lookup in one period needs, copied from the window once per group, so that the
 * compiler can keep them in registers. Callers of the functions below pass row_bits as a constant.
 */
struct aged_look {
    unsigned char *words;
    const uint64_t *masks;
    uint32_t k, slices;
    unsigned oldest; /* position of the oldest live slice in the ring */
    uint64_t live;   /* one bit for each live slice, starting with the oldest */
};

static struct aged_look aged_look(const struct window *w, uint64_t period)
{
    uint32_t k = w->shape.part.k, in = k + w->shape.generations - 1;
    uint64_t oldest = period - w->shape.generations + 1;
    return (struct aged_look){ .words = w->filter.core.words,
                               .masks = w->masks,
                               .k = k,
                               .slices = w->shape.slices,
                               .oldest = (unsigned)(oldest % w->shape.slices),
                               .live = in < 64 ? ((uint64_t)1 << in) - 1 : UINT64_MAX };
}

/* The location of row j of a block: its word, and the index of its first bit in this word. */
struct aged_row {
    uint64_t *word;
    unsigned shift;
};

BGI_INLINE struct aged_row aged_row(const struct aged_look *look, uint64_t at,
                                    uint64_t rows, uint32_t j, const uint32_t row_bits)
{
    uint32_t row =
        (uint32_t)(rows >> (AGED_ROW_CHOICE * j)) & (row_bits == 16 ? 31 : 15);
    uint32_t bit = row * row_bits;
    return (struct aged_row){ (uint64_t *)(void *)(look->words + at) + bit / 64,
                              bit % 64 };
}

typedef uint16_t __attribute__((may_alias)) aged_row_16;
typedef uint32_t __attribute__((may_alias)) aged_row_32;

/* Reads a row without the rest of its word. Like a load of the whole word, this load sees every add
 * that happened before it. */
BGI_INLINE uint64_t aged_read(const struct aged_look *look, uint64_t at, uint64_t rows,
                              uint32_t j, const uint32_t row_bits)
{
    const void *block = look->words + at;
    uint32_t row =
        (uint32_t)(rows >> (AGED_ROW_CHOICE * j)) & (row_bits == 16 ? 31 : 15);
    row ^= BGI_BIG_ENDIAN ? 64 / row_bits - 1 : 0;
    switch (row_bits) {
    case 16: return __atomic_load_n((const aged_row_16 *)block + row, __ATOMIC_RELAXED);
    case 32: return __atomic_load_n((const aged_row_32 *)block + row, __ATOMIC_RELAXED);
    default: return __atomic_load_n((const uint64_t *)block + row, __ATOMIC_RELAXED);
    }
}

/* Returns a mask of the slices in which a hash's bit is set, indexed by position in the ring. */
BGI_INLINE uint64_t aged_found(const struct aged_look *look, uint64_t at, uint64_t rows,
                               const uint32_t k, const uint32_t row_bits)
{
    uint64_t found = 0;
    for (uint32_t j = 0; j < k; j++) {
        found |= aged_read(look, at, rows, j, row_bits) & look->masks[j];
    }
    return found;
}

/* Returns whether `found` contains k consecutive live slices. */
BGI_INLINE bool aged_run(const struct aged_look *look, uint64_t found, const uint32_t k)
{
    uint64_t x = found >> look->oldest;
    x |= look->oldest ? found << (look->slices - look->oldest) : 0;
    x &= look->live;
    for (uint32_t have = 1; have < k;) {
        uint32_t step = have < k - have ? have : k - have;
        x &= x >> step;
        have += step;
    }
    return x != 0;
}

BGI_INLINE uint64_t aged_has_groups(const struct aged_look *look,
                                    const uint64_t *hashes, const uint64_t *at,
                                    unsigned n, const uint32_t k,
                                    const uint32_t row_bits)
{
    uint64_t answer = 0;
    for (unsigned i = 0; i < n; i++) {
        uint64_t found = aged_found(look, at[i], aged_rows_of(hashes[i]), k, row_bits);
        answer |= (uint64_t)aged_run(look, found, k) << i;
    }
    return answer;
}

/* Sets the bits of a hash in the k youngest slices. Returns whether the key was new in the
 * window. */
BGI_INLINE bool aged_put_at(const struct aged_look *look, uint64_t hash, uint64_t at,
                            bool exclusive, const uint32_t row_bits)
{
    uint64_t rows = aged_rows_of(hash);
    uint64_t found = aged_found(look, at, rows, look->k, row_bits);
    uint32_t k = look->k, first = (uint32_t)bgi_popcount64(look->live) - k;
    for (uint32_t i = 0; i < k; i++) {
        uint32_t slice = look->oldest + first + i;
        slice -= slice >= look->slices ? look->slices : 0;
        if (found >> slice & 1) {
            continue;
        }
        struct aged_row row = aged_row(look, at, rows, slice % k, row_bits);
        uint64_t bit = (uint64_t)1 << (row.shift + slice);
        if (exclusive) {
            *row.word |= bit;
        } else {
            (void)__atomic_fetch_or(row.word, bit, __ATOMIC_RELAXED);
        }
    }
    return !aged_run(look, found, k);
}

BGI_INLINE uint64_t aged_put_words(const struct aged_look *look, const uint64_t *hashes,
                                   const uint64_t *at, unsigned n, bool exclusive,
                                   const uint32_t row_bits)
{
    uint64_t answer = 0;
    for (unsigned i = 0; i < n; i++) {
        bool is_new = aged_put_at(look, hashes[i], at[i], exclusive, row_bits);
        answer |= (uint64_t)is_new << i;
    }
    return answer;
}

/* ---- Keys and groups ------------------------------------------------------------- */

/* Calls aged_has_groups with a constant k, so that its loops unroll. */
BGI_INLINE uint64_t aged_has_rows(const struct aged_look *look, const uint64_t *hashes,
                                  const uint64_t *at, unsigned n,
                                  const uint32_t row_bits)
{
#define AGED_CASE(k)                                                                   \
    case k: return aged_has_groups(look, hashes, at, n, k, row_bits)
    switch (look->k) {
        AGED_CASE(5);
        AGED_CASE(6);
        AGED_CASE(7);
        AGED_CASE(8);
        AGED_CASE(9);
        AGED_CASE(10);
    default: return aged_has_groups(look, hashes, at, n, look->k, row_bits);
    }
#undef AGED_CASE
}

static uint64_t aged_has_n(const struct window *w, uint64_t period,
                           const uint64_t *hashes, const uint64_t *at, unsigned n)
{
    struct aged_look look = aged_look(w, period);
    switch (w->shape.row_bits) {
    case 16: return aged_has_rows(&look, hashes, at, n, 16);
    case 32: return aged_has_rows(&look, hashes, at, n, 32);
    default: return aged_has_rows(&look, hashes, at, n, 64);
    }
}

static uint64_t aged_put_n(struct window *w, uint64_t period, const uint64_t *hashes,
                           const uint64_t *at, unsigned n)
{
    struct aged_look look = aged_look(w, period);
    bool exclusive = window_exclusive(w);
    switch (w->shape.row_bits) {
    case 16: return aged_put_words(&look, hashes, at, n, exclusive, 16);
    case 32: return aged_put_words(&look, hashes, at, n, exclusive, 32);
    default: return aged_put_words(&look, hashes, at, n, exclusive, 64);
    }
}

static bool aged_has(const struct window *w, uint64_t period, uint64_t hash)
{
    uint64_t at = aged_at(w, hash);
    return aged_has_n(w, period, &hash, &at, 1) != 0;
}

static bool aged_put(struct window *w, uint64_t period, uint64_t hash)
{
    uint64_t at = aged_at(w, hash);
    return aged_put_n(w, period, &hash, &at, 1) != 0;
}

static void aged_locate(const struct window *w, struct bgi_group *group)
{
    uint64_t units = w->shape.part.units, bytes = aged_unit_bytes(w->shape.row_bits);
    for (unsigned i = 0; i < group->n; i++) {
        group->at[i] = bgi_range52(group->hashes[i], units) * bytes;
    }
}

BGI_INLINE void aged_prefetch(const struct window *w, const struct bgi_group *next)
{
    const unsigned char *words = w->filter.core.words;
    uint32_t second = aged_unit_bytes(w->shape.row_bits) - 64;
    for (unsigned i = 0; next && i < next->n; i++) {
        BGI_PREFETCH(words + next->at[i]);
        if (second) {
            BGI_PREFETCH(words + next->at[i] + second);
        }
    }
}

static uint64_t aged_has_group(const struct window *w, uint64_t period,
                               const struct bgi_group *group,
                               const struct bgi_group *next)
{
    aged_prefetch(w, next);
    return aged_has_n(w, period, group->hashes, group->at, group->n);
}

static uint64_t aged_put_word(struct window *w, uint64_t period,
                              const struct bgi_group *group,
                              const struct bgi_group *next)
{
    aged_prefetch(w, next);
    return aged_put_n(w, period, group->hashes, group->at, group->n);
}

/* ---- Forgetting ------------------------------------------------------------------ */

static uint64_t *aged_words(const struct window *w)
{
    return (uint64_t *)(void *)w->filter.core.words;
}

static uint64_t aged_wipe_words(const struct window *w)
{
    return w->shape.bytes / 8;
}

/* Returns a mask with the bit of a slice in every row of a word. */
static uint64_t aged_every_row(const struct window *w, unsigned slice)
{
    uint64_t mask = 0;
    for (unsigned at = slice; at < 64; at += w->shape.row_bits) {
        mask |= (uint64_t)1 << at;
    }
    return mask;
}

static void aged_wipe(struct window *w, uint64_t from, uint64_t to, uint64_t first,
                      uint64_t words)
{
    uint64_t *word = aged_words(w), mask = 0;
    for (uint64_t p = from + 1; p <= to; p++) {
        uint64_t fresh = p + w->shape.part.k - 1;
        mask |= aged_every_row(w, (unsigned)(fresh % w->shape.slices));
    }
    uint64_t rest = w->shape.bytes / 8 - first;
    for (uint64_t i = first; i < first + (words < rest ? words : rest); i++) {
        if (window_exclusive(w)) {
            word[i] &= ~mask;
        } else if (__atomic_load_n(&word[i], __ATOMIC_RELAXED) & mask) {
            (void)__atomic_fetch_and(&word[i], ~mask, __ATOMIC_RELAXED);
        }
    }
}

/* ---- Two windows ----------------------------------------------------------------- */

static bg_err aged_merge(struct window *to, const struct window *from)
{
    uint64_t *into = aged_words(to);
    const uint64_t *word = aged_words(from);
    uint64_t live = 0;
    for (uint32_t i = 0; i < to->shape.part.k + to->shape.generations - 1; i++) {
        uint64_t slice = to->period + to->shape.part.k - 1 - i;
        live |= aged_every_row(to, (unsigned)(slice % to->shape.slices));
    }
    for (uint64_t i = 0; i < to->shape.bytes / 8; i++) {
        uint64_t bits = __atomic_load_n(&word[i], __ATOMIC_RELAXED) & live;
        (void)__atomic_fetch_or(&into[i], bits, __ATOMIC_RELAXED);
    }
    return BG_OK;
}

static bg_err aged_copy(struct window *to, const struct window *from, bg_errinfo *info)
{
    bg_err err = aged_make(to, info);
    for (uint64_t i = 0; !err && i < from->shape.bytes / 8; i++) {
        aged_words(to)[i] = __atomic_load_n(&aged_words(from)[i], __ATOMIC_RELAXED);
    }
    return err;
}

static bool aged_equal(const struct window *a, const struct window *b)
{
    for (uint64_t i = 0; i < a->shape.bytes / 8; i++) {
        if (__atomic_load_n(&aged_words(a)[i], __ATOMIC_RELAXED)
            != __atomic_load_n(&aged_words(b)[i], __ATOMIC_RELAXED)) {
            return false;
        }
    }
    return true;
}

/* ---- Measuring ------------------------------------------------------------------- */

/* The sums over the blocks that were read. */
struct aged_sums {
    uint64_t blocks;
    uint64_t ones[64]; /* set bits of each live slice, from old to young */
    double rate;       /* sum of the probabilities of "maybe" */
};

/* Transposes a block: sets bit r of columns[s] if slice s of the ring is set in row r. */
static void aged_columns(const struct window *w, uint64_t block, uint32_t columns[64])
{
    const uint32_t bits = w->shape.row_bits, words = aged_unit_bytes(bits) / 8;
    memset(columns, 0, 64 * sizeof *columns);
    for (uint32_t i = 0; i < words; i++) {
        uint64_t word =
            __atomic_load_n(&aged_words(w)[block * words + i], __ATOMIC_RELAXED);
        for (; word; word &= word - 1) {
            const unsigned at = (unsigned)__builtin_ctzll(word);
            columns[at % bits] |= (uint32_t)1 << (i * (64 / bits) + at / bits);
        }
    }
}

/*
 * Returns the probability that a block answers "maybe" for an absent key. `live` contains the
 * columns of the live slices, from old to young. The probability that a run starts at slice i is
 * the product of the fills of its slices. The slice before the run uses the same row as the run's
 * last slice, and must not be set in that row. Runs that start up to k slices apart exclude each
 * other; none[i] is the probability that no run starts before slice i.
 */
static double aged_block_rate(const struct window_shape *shape, const uint32_t *live)
{
    const uint32_t k = shape->part.k;
    const double share = 1.0 / aged_rows(shape->row_bits);
    double none[WINDOW_GENERATIONS_MAX + 1] = { 1 };
    for (uint32_t i = 0; i < shape->generations; i++) {
        const uint32_t last = live[i + k - 1] & (i ? ~live[i - 1] : UINT32_MAX);
        double begins = share * bgi_popcount64(last);
        for (uint32_t j = i; j < i + k - 1 && begins > 0; j++) {
            begins *= share * bgi_popcount64(live[j]);
        }
        none[i + 1] = none[i] - begins * (i > k ? none[i - k] : 1);
    }
    return 1 - none[shape->generations];
}

static void aged_sum_block(const struct window *w, const struct aged_look *look,
                           uint64_t block, struct aged_sums *sums)
{
    uint32_t columns[64], live[64];
    aged_columns(w, block, columns);
    for (uint32_t i = 0; i < (uint32_t)bgi_popcount64(look->live); i++) {
        live[i] = columns[(look->oldest + i) % look->slices];
        sums->ones[i] += (uint64_t)bgi_popcount64(live[i]);
    }
    sums->rate += aged_block_rate(&w->shape, live);
    sums->blocks++;
}

/*
 * Measures a window. Slice s contains the keys of the periods s - k + 1 .. s. So every k-th slice,
 * starting with the slice that contains the k oldest live periods, together contain each live
 * period once and no expired period. The rate is computed from the bits, because it depends on how
 * the keys are distributed over the periods.
 */
static void aged_measure(const struct window *w, struct bgi_measure *m)
{
    const struct aged_look look =
        aged_look(w, __atomic_load_n(&w->period, __ATOMIC_ACQUIRE));
    const uint64_t one_in =
        m->most && w->shape.bytes > m->most ? 1 + (w->shape.bytes - 1) / m->most : 1;
    const uint64_t units = w->shape.part.units;
    const double bits = (double)units * aged_rows(w->shape.row_bits);
    double variance = 0;
    struct aged_sums sums = { .blocks = 0 };
    for (uint64_t i = 0; i < units; i += one_in) {
        aged_sum_block(w, &look, i, &sums);
    }
    const double scale = (double)units / (double)sums.blocks;
    for (uint32_t i = 0; i < (uint32_t)bgi_popcount64(look.live); i++) {
        const double set = scale * (double)sums.ones[i];
        m->ones += (uint64_t)set;
        m->of += (uint64_t)bits;
        if ((i + 1) % look.k == 0) {
            const double fill = fmin(set / bits, 1 - 0.5 / bits);
            const double load = -log1p(-fill); /* keys per bit */
            m->items += bits * load;
            variance += bits * (1 / (1 - fill) - 1 - load);
            variance += (scale - 1) * (set + scale) / (1 - fill) / (1 - fill);
        }
    }
    m->error = sqrt(variance);
    m->rate = sums.rate / (double)sums.blocks;
}

const struct window_body window_aged = {
    .solve = aged_solve,
    .reshape = aged_reshape,
    .make = aged_make,
    .give = aged_give,
    .rate = aged_rate,
    .locate = aged_locate,
    .has = aged_has,
    .has_group = aged_has_group,
    .put = aged_put,
    .put_word = aged_put_word,
    .wipe_words = aged_wipe_words,
    .wipe = aged_wipe,
    .copy = aged_copy,
    .merge = aged_merge,
    .equal = aged_equal,
    .measure = aged_measure,
};
