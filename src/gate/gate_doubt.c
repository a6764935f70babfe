/*
 * gate_doubt.c - when the filter's "no" is not believed.
 *
 * A key that was written to the truth and could not be added to the filter is denied by it.
 * So every "no" is doubted, until the slot has another base that has the key. Such a base
 * comes by a rebuild whose source was read after the key had been written; or the caller
 * says so, by BG_SLOT_DISCARD. A file, a filter that was made elsewhere and a rebuild that
 * was under way may be older than the key, so they end no doubt.
 *
 * The slot numbers the makings of bases when they begin, before the source is read, and
 * keeps in `whole` the number of the last one that came. `doubt` is the number of a making
 * that ends it, or any later one; 0: there is none.
 *   (D1) It is raised after the key was written and before the write returns, to one more
 *        than the makings that have begun by then. So a making of that number, or of a
 *        later one, begins after the key was written.
 *   (D2) `whole` never falls: a base that was handed in before the making of the present one
 *        began is refused (slot_check_order).
 *   (D3) It is taken back by whoever sees that `whole` has come so far, and only if nobody
 *        has raised it meanwhile: compare-and-swap.
 */
#include "gate/gate_body.h"

void gate_doubt_begin(bg_gate *gate)
{
    const uint64_t ends = atomic_load(&gate->slot->makings) + 1;
    uint64_t doubt = atomic_load(&gate->doubt);
    while (doubt < ends && !atomic_compare_exchange_weak(&gate->doubt, &doubt, ends)) {
    }
}

bool gate_doubt_lasts(bg_gate *gate, uint64_t doubt)
{
    return atomic_load(&gate->slot->whole) < doubt
           || !atomic_compare_exchange_strong(&gate->doubt, &doubt, 0);
}
