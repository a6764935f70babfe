/*
 * ribbon_solve.c - construction of a ribbon filter: elimination within a band.
 *
 * Each key is an equation: the XOR of some of the 64 slots that start at its first slot equals its
 * fingerprint. Equations that have been added are called rows. Each row is stored at the slot of
 * its lowest bit, so there is at most one row per slot. A new equation is reduced by the row at its
 * lowest slot, if there is one. This is repeated until its lowest slot has no row. If the left-hand
 * side vanishes, the equation contradicts the existing rows, unless its right-hand side is also
 * zero.
 *
 *      slot         0 1 2 3 4 5 6 7 ...
 *      row of 0    [1 . 1 1 . 1]
 *      row of 1      [1 1 . . 1 .]             equation 0: 1 . . 1 1 .
 *      row of 3          [1 . 1 1 . .]         + row 0:        1 . 1 1  -> lowest slot 2,
 *                                                                          which is free
 *
 * The first layer has more keys than slots, so contradictions are inevitable. Buckets are processed
 * in ascending order. Within a bucket, keys are processed in descending order, because its upper
 * end has the most free slots while the next bucket is still empty. On a contradiction, the keys of
 * the current cell, and all keys of the bucket that start below this cell, are sent to the second
 * layer. The rows that were already added for the cell are removed again. This is possible because
 * they were added last, so no other row was reduced by them.
 *
 * Solving. Slots are solved from last to first. Each row determines the value of its slot, which is
 * one bit for each of the k columns, from the next 63 slots. For each column, one word holds the 64
 * most recently computed bits, and after every 64 slots, these words form a block of the filter.
 */
#include "kind/ribbon_solve.h"

#include "base/sort.h"
#include "kind/ribbon_shape.h"

#include <string.h>

/* The solver's scratch memory. */
struct ribbon_bench {
    uint64_t *rows;    /* for each slot, the row that starts at this slot, or 0 */
    uint64_t *sent_on; /* hashes of the keys sent to the second layer */
    uint64_t *spare;   /* space for sorting these hashes */
    uint32_t *values;  /* for each slot, the fingerprint of its row */
};

/* A piece that is being solved. */
struct ribbon_work {
    const struct ribbon_shape *shape;
    struct ribbon_bench bench;
    uint64_t *limits;
    uint64_t seed;
    uint32_t k;
    size_t sent_on, sent_on_most;
};

/* ---- Memory ------------------------------------------------------------------------- */

static size_t ribbon_slots(const struct ribbon_shape *shape)
{
    return (size_t)shape->limits * RIBBON_BLOCK;
}

static size_t ribbon_second_slots(const struct ribbon_shape *shape)
{
    return ribbon_slots(shape) - (size_t)shape->second;
}

static size_t ribbon_scratch_bytes(uint64_t units, uint32_t k, size_t n)
{
    struct ribbon_shape shape = ribbon_shape_of(units, k);
    (void)n;
    return ribbon_slots(&shape) * (sizeof(uint64_t) + sizeof(uint32_t))
           + ribbon_second_slots(&shape) * 2 * sizeof(uint64_t);
}

static struct ribbon_bench ribbon_carve(const struct ribbon_shape *shape, void *scratch)
{
    size_t slots = ribbon_slots(shape), second = ribbon_second_slots(shape);
    struct ribbon_bench bench;
    bench.rows = scratch;
    bench.sent_on = bench.rows + slots;
    bench.spare = bench.sent_on + second;
    bench.values = (uint32_t *)(void *)(bench.spare + second);
    return bench;
}

/* ---- Rows ---------------------------------------------------------------------------- */

enum ribbon_outcome { RIBBON_PLACED, RIBBON_IMPLIED, RIBBON_CONTRADICTS };

/* Adds an equation. If the equation becomes a row, *slot is set to the slot of that row. Rows past
 * the end of the layer are never accessed, because an equation starts at least 64 slots before the
 * end of its layer, and reducing it never adds a slot beyond its last slot. */
BGI_INLINE enum ribbon_outcome ribbon_place(const struct ribbon_bench *bench,
                                            struct ribbon_key key, uint32_t value,
                                            size_t *slot)
{
    size_t at = (size_t)key.at;
    uint64_t band = key.band;
    while (bench->rows[at]) {
        band ^= bench->rows[at];
        value ^= bench->values[at];
        if (band == 0) {
            return value ? RIBBON_CONTRADICTS : RIBBON_IMPLIED;
        }
        unsigned zeros = (unsigned)__builtin_ctzll(band);
        band >>= zeros;
        at += zeros;
    }
    bench->rows[at] = band;
    bench->values[at] = value;
    *slot = at;
    return RIBBON_PLACED;
}

static void ribbon_take_out(const struct ribbon_bench *bench, const size_t *slots,
                            size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bench->rows[slots[i]] = 0;
        bench->values[slots[i]] = 0;
    }
}

/* ---- The first layer -------------------------------------------------------------------- */

static uint64_t ribbon_start_of(const struct ribbon_work *w, uint64_t hash)
{
    return bgi_mulhi(hash * w->shape->pieces, w->shape->starts[0]);
}

/*
 * Adds the keys of one bucket, in descending order. Returns the bucket's limit; keys in cells below
 * the limit are not added. A cell can have more rows than fit in `placed` only if the hashes are
 * not evenly distributed. The keys of such a cell are not added either.
 */
static uint64_t ribbon_fill_bucket(const struct ribbon_work *w, const uint64_t *hashes,
                                   size_t n)
{
    size_t placed[8 * RIBBON_CELL], rows = 0;
    uint64_t cell = RIBBON_LIMIT_ALL;
    for (size_t i = n; i-- > 0;) {
        uint64_t mix = sealed_mix(hashes[i], w->seed);
        struct ribbon_key key =
            ribbon_first(w->shape, hashes[i] * w->shape->pieces, mix);
        if (ribbon_cell(key.at) != cell) {
            cell = ribbon_cell(key.at);
            rows = 0;
        }
        enum ribbon_outcome outcome =
            rows == sizeof placed / sizeof *placed
                ? RIBBON_CONTRADICTS
                : ribbon_place(&w->bench, key, ribbon_fingerprint(key.band, w->k),
                               &placed[rows]);
        if (outcome == RIBBON_CONTRADICTS) {
            ribbon_take_out(&w->bench, placed, rows);
            return cell + 1;
        }
        rows += outcome == RIBBON_PLACED;
    }
    return 0;
}

/* Sends the keys of a bucket that start below its limit to the second layer. Returns false if the
 * second layer does not have enough slots for these keys. */
static bool ribbon_send_on(struct ribbon_work *w, const uint64_t *hashes, size_t n,
                           uint64_t limit)
{
    for (size_t i = 0; i < n; i++) {
        if (ribbon_cell(ribbon_start_of(w, hashes[i])) >= limit) {
            return true; /* the hashes are sorted, so no later key is below the limit */
        }
        if (w->sent_on == w->sent_on_most) {
            return false;
        }
        uint64_t mix = sealed_mix(hashes[i], w->seed);
        w->bench.sent_on[w->sent_on++] = ribbon_rehash(mix);
    }
    return true;
}

static bool ribbon_fill_first(struct ribbon_work *w, const uint64_t *hashes, size_t n)
{
    for (size_t from = 0, to; from < n; from = to) {
        uint64_t bucket = ribbon_start_of(w, hashes[from]) / RIBBON_BUCKET;
        for (to = from + 1; to < n; to++) {
            if (ribbon_start_of(w, hashes[to]) / RIBBON_BUCKET != bucket) {
                break;
            }
        }
        uint64_t limit = ribbon_fill_bucket(w, hashes + from, to - from);
        w->limits[bucket / 16] |= limit << bucket % 16 * 4;
        if (limit && !ribbon_send_on(w, hashes + from, to - from, limit)) {
            return false;
        }
    }
    return true;
}

/* ---- The second layer ------------------------------------------------------------------ */

/* Sends all keys to the second layer. Used if there is no first layer. */
static bool ribbon_send_all(struct ribbon_work *w, const uint64_t *hashes, size_t n)
{
    for (size_t i = 0; i < n && i < w->sent_on_most; i++) {
        w->bench.sent_on[i] = ribbon_rehash(sealed_mix(hashes[i], w->seed));
    }
    w->sent_on = n;
    return n <= w->sent_on_most;
}

static bool ribbon_fill_second(const struct ribbon_work *w)
{
    const struct ribbon_bench *bench = &w->bench;
    size_t unused;
    /* Adding keys in ascending order is faster than in random order. */
    bgi_sort(bench->sent_on, bench->spare, w->sent_on, 0);
    for (size_t i = 0; i < w->sent_on; i++) {
        struct ribbon_key key = ribbon_second(w->shape, bench->sent_on[i]);
        key.at += w->shape->second;
        if (ribbon_place(bench, key, ribbon_fingerprint(key.band, w->k), &unused)
            == RIBBON_CONTRADICTS) {
            return false;
        }
    }
    return true;
}

/* ---- Solving ---------------------------------------------------------------------------- */

/* Computes the values of the slots of one block. On entry, `columns` contains the 64 values after
 * the block for each of the k columns; on return, it contains the values of this block. */
static void ribbon_solve_block(const uint64_t *rows, const uint32_t *values, uint32_t k,
                               uint64_t *columns)
{
    for (unsigned i = RIBBON_BLOCK; i-- > 0;) {
        const uint64_t row = rows[i] & ~(uint64_t)1;
        const uint32_t value = values[i];
        for (uint32_t j = 0; j < k; j++) {
            uint64_t column = columns[j] << 1;
            uint64_t bit =
                (uint64_t)__builtin_parityll(column & row) ^ (value >> j & 1);
            columns[j] = column | bit;
        }
    }
}

static void ribbon_solve_layer(const struct ribbon_work *w, uint64_t *words,
                               uint64_t from, uint64_t to)
{
    uint64_t columns[32] = { 0 };
    for (uint64_t block = to; block-- > from;) {
        ribbon_solve_block(w->bench.rows + block * RIBBON_BLOCK,
                           w->bench.values + block * RIBBON_BLOCK, w->k, columns);
        memcpy(words + block * w->k, columns, w->k * sizeof *words);
    }
}

static bool ribbon_try(struct ribbon_work *w, const uint64_t *hashes, size_t n)
{
    size_t slots = ribbon_slots(w->shape);
    uint64_t limit_units = w->shape->units - w->shape->limits;
    memset(w->bench.rows, 0, slots * sizeof *w->bench.rows);
    memset(w->bench.values, 0, slots * sizeof *w->bench.values);
    memset(w->limits, 0, (size_t)limit_units * w->k * sizeof *w->limits);
    w->sent_on = 0;
    return (w->shape->starts[0] ? ribbon_fill_first(w, hashes, n)
                                : ribbon_send_all(w, hashes, n))
           && ribbon_fill_second(w);
}

static bool ribbon_solve(struct bgi_core *core, uint64_t piece, const uint64_t *hashes,
                         size_t n, void *scratch)
{
    struct ribbon_state *state = core->state;
    const struct ribbon_shape *shape = &state->shape;
    uint64_t *words = (uint64_t *)(void *)core->words + piece * shape->units * core->k;
    struct ribbon_work w = { .shape = shape,
                             .bench = ribbon_carve(shape, scratch),
                             .limits = words + shape->limits * core->k,
                             .k = core->k,
                             .sent_on_most = ribbon_second_slots(shape) };
    uint64_t sum = sealed_sum(hashes, n), first = shape->second / RIBBON_BLOCK;
    if (n > 0 && shape->starts[1] == 0) {
        return false;
    }
    for (unsigned attempt = 0; attempt < RIBBON_ATTEMPTS; attempt++) {
        w.seed = sealed_seed(sum, attempt);
        if (ribbon_try(&w, hashes, n)) {
            state->seeds[piece] = w.seed;
            ribbon_solve_layer(&w, words, 0, first);
            ribbon_solve_layer(&w, words, first, shape->limits);
            return true;
        }
    }
    return false;
}

static uint64_t ribbon_pieces(uint64_t units, uint32_t k)
{
    return ribbon_shape_of(units, k).pieces;
}

static void ribbon_seal(struct bgi_core *core, uint64_t keys)
{
    struct ribbon_state *state = core->state;
    sealed_close(&state->sealed, keys);
}

const struct bgi_static bgi_ribbon_static = {
    .pieces = ribbon_pieces,
    .scratch_bytes = ribbon_scratch_bytes,
    .solve = ribbon_solve,
    .seal = ribbon_seal,
    .attempts = RIBBON_ATTEMPTS,
};
