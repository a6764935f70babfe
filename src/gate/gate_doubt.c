/*
 * gate_doubt.c - decides when the filter's "no" is not trusted.
 *
 * If a key was written to the backing store but could not be added to the filter, the filter
 * answers "no" for it. The same is true for keys that bypassed the gate. If the owner of the gate
 * does not know which keys these are, it calls bg_gate_doubt. So every "no" is doubted, and the
 * negative cache is not used, until the slot has a new base that contains the key. Such a base
 * comes from a rebuild that read its source after the key was written, or from a caller that
 * vouches for the base with BG_SLOT_DISCARD. A file, a filter created elsewhere and a rebuild that
 * was already running may be older than the key, so they do not end the doubt.
 *
 * The slot assigns a number to each build of a base (a "making" in the code) when the build starts,
 * before it reads its source. `whole` is the number of the last build whose base was published.
 * `missed` is the number of the first build that ends the doubt, or 0 if there is no doubt. Any
 * later build also ends the doubt. `missed` belongs to the slot, so the doubt applies to all gates
 * of the slot.
 *   (D1) After the key was written and before the write returns, `missed` is set to one more than
 *        the number of builds that have started by then. So the build with that number, and every
 *        later build, starts after the key was written.
 *   (D2) `whole` never decreases, because slot_check_order refuses a base that was passed in before
 *        the build of the current base started.
 *   (D3) While missed <= whole there is no doubt, and the current base may be the only filter
 *        that contains the keys that could not be added. This base is replaced only by a build or
 *        with BG_SLOT_DISCARD (slot_check_swap). This remains true if a new doubt starts, because a
 *        lookup may see no doubt and then query the filter after the new doubt has started. So
 *        `first_missed` keeps the value that `missed` had in the first doubt until the slot is
 *        cleared. The file of an evicted tenant contains the line "missed: 1" if the tenant's base
 *        ended doubts.
 *   (D4) Files do not record doubts, so a slot in doubt is not saved (slot_save, evict.c).
 *   (D5) During a doubt that the owner declared, keys may bypass the gate at any time. So a
 *        lookup that saw the doubt neither uses nor fills the negative cache, and shares no
 *        query with another lookup (flight.c). bg_gate_doubt ends the era (recent.c) for lookups
 *        that did not see the doubt and for queries that are in progress. The base that ends the
 *        doubt ends the era again.
 */
#include "gate/gate_body.h"

void gate_doubt_begin(bg_gate *gate)
{
    bg_slot *slot = gate->slot;
    (void)pthread_mutex_lock(&slot->info_lock);
    const uint64_t missed = atomic_load(&slot->makings) + 1;
    if (!atomic_load(&slot->first_missed)) {
        atomic_store(&slot->first_missed, missed);
    }
    slot_raise(&slot->missed, missed);
    (void)pthread_mutex_unlock(&slot->info_lock);
}

void bg_gate_doubt(bg_gate *gate)
{
    if (gate) {
        gate_doubt_begin(gate);
        bg_gate_forget_absent(gate);
    }
}
