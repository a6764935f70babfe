/*
 * ops_pick.h - compiles every core for one instruction set and selects among them. isa_scalar.c and
 * the files for the other instruction sets include this file last, with ISA and ISA_TARGET defined.
 */

#define LINE_SHAPE  split
#define LINE_MASKED 0
#include "kind/line_core.h"

#define LINE_SHAPE  columns
#define LINE_MASKED 0
#include "kind/line_core.h"

#define LINE_SHAPE  columns
#define LINE_MASKED 1
#include "kind/line_core.h"

#define LINE_SHAPE  words
#define LINE_MASKED 0
#include "kind/line_core.h"

#define LINE_SHAPE  words
#define LINE_MASKED 1
#include "kind/line_core.h"

#define SCATTER classic
#include "kind/scatter_core.h"

#define SCATTER partitioned
#include "kind/scatter_core.h"

#include "kind/count_core.h"
#include "kind/register_core.h"

#define PICK_PASTE_(a, b) a##_##b
#define PICK_PASTE(a, b)  PICK_PASTE_(a, b)
#define PICK_NAME(name)   PICK_PASTE(name, ISA)
/* Returns the table `name`_ops_`mode`_`isa` for the mode that `exclusive` selects. */
#define PICK_OPS(name)                                                                 \
    (exclusive ? &PICK_NAME(name##_ops_exclusive) : &PICK_NAME(name##_ops_shared))

const struct bgi_ops *PICK_NAME(bgi_ops)(bg_kind id, uint32_t k, bool exclusive)
{
    switch (id) {
    case BG_KIND_CLASSIC: return PICK_OPS(scatter_classic);
    case BG_KIND_PARTITIONED: return PICK_OPS(scatter_partitioned);
    case BG_KIND_SPLIT: return PICK_OPS(line_split_0);
    case BG_KIND_BLOCKED:
        if (k <= line_columns_lanes) {
            return k == line_columns_lanes ? PICK_OPS(line_columns_0)
                                           : PICK_OPS(line_columns_1);
        }
        return k == line_words_lanes ? PICK_OPS(line_words_0) : PICK_OPS(line_words_1);
    case BG_KIND_REGISTER:
        return exclusive ? &PICK_NAME(register_ops_exclusive)[k - 1]
                         : &PICK_NAME(register_ops_shared)[k - 1];
    default: break; /* other kinds define their own operations (bgi_kind.ops) */
    }
    return NULL;
}

const struct bgi_word_ops PICK_NAME(bgi_word_ops) = {
    .count = PICK_NAME(count_ones),
    .count_or = PICK_NAME(count_or),
};
