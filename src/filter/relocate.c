/*
 * relocate.c - moves a filter to different memory without changing its content.
 *
 * Idea. A filter is one block of memory, or several blocks that point to each other: a composed
 * filter has parts, which are filters themselves, and sometimes one more block. All pointers into a
 * block are stored in known members of the handle. All addresses inside a block move by the same
 * distance.
 *
 *     parts            moved first, each updating its pointer in the handle
 *     the other block  moved next, while the handle is still in place
 *     the handle       moved last: its address is returned to the caller
 *
 * Secrets. The mover (bg_mover) frees the old memory after copying it, and cannot be forced to wipe
 * it. So the hasher is removed from the handle before the move, and put back afterwards.
 */
#include "filter/handle.h"
#include "hash/hasher.h"

/* Updates the addresses in a handle after one of its blocks was moved. */
static void relocate_point(bg_filter *filter, const struct bgi_move *move)
{
    filter->core.words = bgi_moved(move, filter->core.words);
    filter->core.state = bgi_moved(move, filter->core.state);
    /* In sharded filters, the kind is part of the handle. */
    filter->kind = bgi_moved(move, filter->kind);
}

static void relocate_more(bg_filter *filter, const bg_mover *mover)
{
    struct bgi_memory *more = filter->kind->composed->more(filter);
    const struct bgi_move move = bgi_memory_move(*more, mover);
    more->base = bgi_moved(&move, more->base);
    relocate_point(filter, &move);
}

static bg_filter *relocate_handle(bg_filter *filter, const bg_mover *mover)
{
    const bool keyed = bgi_hasher_keyed(&filter->hasher);
    bg_hasher hasher = filter->hasher;
    if (keyed) {
        bgi_wipe(&filter->hasher, sizeof filter->hasher);
    }
    const struct bgi_move move = bgi_memory_move(filter->memory, mover);
    bg_filter *moved = bgi_moved(&move, filter);
    moved->memory.base = bgi_moved(&move, moved->memory.base);
    relocate_point(moved, &move);
    if (keyed) {
        moved->hasher = hasher;
        bgi_wipe(&hasher, sizeof hasher);
    }
    return moved;
}

const bg_allocator *bg_filter_allocator(const bg_filter *filter)
{
    return filter && filter->allocator.allocate ? &filter->allocator : NULL;
}

void bg_filter_relocate(bg_filter **filter, const bg_mover *mover)
{
    if (!filter || !*filter || !mover || !mover->move) {
        return;
    }
    const struct bgi_composed *composed = (*filter)->kind->composed;
    bg_filter **part = NULL;
    for (uint32_t i = 0; composed && composed->part; i++) {
        part = composed->part(*filter, i);
        if (!part) {
            break;
        }
        bg_filter_relocate(part, mover);
    }
    if (composed && composed->more) {
        relocate_more(*filter, mover);
    }
    *filter = relocate_handle(*filter, mover);
}
