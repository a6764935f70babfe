/*
 * occupancy.c - measures how the set bits of a filter are distributed over its words.
 *
 * The words of all leaves, one after another, are divided into n cells. With W words in total,
 * cell i covers the words from i W / n up to the start of the next cell. Each cell has at least
 * one word, even if there are more cells than words. So a cell may span several leaves, and a word
 * may be in several cells.
 */
#include "filter/content.h"

enum { OCCUPANCY_CELLS_MAX = 65536 };

struct occupancy {
    uint64_t words; /* number of words in all leaves, counted beforehand */
    uint64_t at;    /* the first word of the next leaf */
    size_t cell;    /* the first cell that overlaps that leaf */
    size_t cells;
    double *shares; /* the number of set bits per cell, later converted to a share */
};

static uint64_t occupancy_first(const struct occupancy *o, size_t cell)
{
    return cell * o->words / o->cells;
}

static uint64_t occupancy_end(const struct occupancy *o, size_t cell)
{
    const uint64_t first = occupancy_first(o, cell);
    const uint64_t end = occupancy_first(o, cell + 1);
    return end > first ? end : first + 1;
}

static bool occupancy_measure(void *context, bg_filter *leaf)
{
    struct occupancy *o = context;
    o->words += leaf->bytes / 8;
    return true;
}

/* Adds the number of set bits in a leaf to the cells that the leaf overlaps. */
static bool occupancy_count(void *context, bg_filter *leaf)
{
    struct occupancy *o = context;
    const struct bgi_word_ops *ops = bgi_kind_word_ops(leaf->cpu);
    const uint64_t *words = bgi_filter_words(leaf);
    const uint64_t leaf_end = o->at + leaf->bytes / 8;
    for (; o->cell < o->cells; o->cell++) {
        const uint64_t first = occupancy_first(o, o->cell);
        const uint64_t end = occupancy_end(o, o->cell);
        const uint64_t from = first > o->at ? first : o->at;
        const uint64_t to = end < leaf_end ? end : leaf_end;
        if (from < to) {
            o->shares[o->cell] +=
                (double)ops->count(words + (from - o->at), (size_t)(to - from));
        }
        if (end > leaf_end) { /* the rest of this cell is in the next leaf */
            break;
        }
    }
    o->at = leaf_end;
    return o->cell < o->cells;
}

bg_err bg_filter_occupancy(const bg_filter *filter, double *shares, size_t cells)
{
    struct occupancy o = { .shares = shares, .cells = cells };
    if (!filter || !shares || cells == 0 || cells > OCCUPANCY_CELLS_MAX) {
        return BG_EINVAL;
    }
    (void)bgi_content_each(filter, occupancy_measure, &o);
    for (size_t i = 0; i < cells; i++) {
        shares[i] = 0;
    }
    (void)bgi_content_each(filter, occupancy_count, &o);
    for (size_t i = 0; i < cells; i++) {
        const uint64_t words = occupancy_end(&o, i) - occupancy_first(&o, i);
        shares[i] /= 64 * (double)words;
    }
    return BG_OK;
}
