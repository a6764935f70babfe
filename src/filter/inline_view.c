/*
 * inline_view.c - fills in the views with which programs look up keys inline (bloomgate/inline.h).
 *
 * The inline code repeats the arithmetic of the kinds' cores, so it must change together with
 * line_core.h, register_core.h and fuse_core.h. tests/unit/test_inline.c compares both for every
 * kind and geometry.
 *
 * Invariants
 *   (I1) A view contains only values that never change while the filter exists at its address, and
 *        pointers to such values. `pass` is the exception: inline lookups read it atomically.
 *   (I2) A program may have been compiled with an older or a newer header than this library. So
 *        only `size` bytes are written, members are only appended, and a program calls the library
 *        for shapes and hashes that its header does not define.
 */
#include "bloomgate/inline.h"

#include "filter/handle.h"
#include "hash/hasher.h"

#include <string.h>

static uint32_t inline_hash(const struct bgi_hasher *hasher)
{
    switch ((bg_hash_profile)hasher->profile) {
    case BG_HASH_FAST: return BG_VIEW_FAST;
    case BG_HASH_FAST_INT: return BG_VIEW_FAST_INT;
    default: return BG_VIEW_CALL;
    }
}

void bg_filter_get_view(const bg_filter *filter, bg_view *view, size_t size)
{
    bg_view full = { .shape = BG_VIEW_CALL };
    if (filter) {
        const struct bgi_core *core = &filter->core;
        full.filter =
            (bg_filter *)(uintptr_t)filter; /* not const, because adds use it, too */
        full.hasher = &filter->hasher;
        full.words = core->words;
        full.units = core->units;
        full.hash_mask = core->fast8_mask;
        full.hash = inline_hash(bgi_hasher_in(&filter->hasher));
        full.k = core->k;
        full.exclusive = (filter->flags & BG_SPEC_EXCLUSIVE) != 0;
        if (filter->kind->view) {
            filter->kind->view(core, &full);
        }
    }
    const size_t known = size < sizeof full ? size : sizeof full;
    memset(view, 0, size);
    memcpy(view, &full, known);
}
