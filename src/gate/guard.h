/*
 * guard.h - the state that a slot keeps so that no change loses an acknowledged key.
 *
 * The filters of a view (view.h) do not show which of their keys exist nowhere else. A view's guard
 * records which keys are owed, that is, must not be lost. A guard never changes. The guard of the
 * next view is derived from the current guard: slot_draft_begin copies the guard, and one function
 * per kind of change computes the new value. If a change does not call that function, the old,
 * stricter guard stays in effect.
 *
 * Invariants, for a view with guard g:
 *   (G1) Consider a key whose add through the slot returned BG_OK, which was not discarded
 *        (BG_SLOT_DISCARD, bg_slot_clear), and which no delta contains. If there is such a key,
 *        then the base accepts adds, or g.owes is true, or there is no base (in which case every
 *        answer is "maybe").
 *   (G2) If g.owes is true, every such key has a sequence number of at most g.base.number, provided
 *        that the key was added before advance number g.base.advances (see Sequence numbers).
 *   (G3) During a migration, every such key that was added since the migration started is in the
 *        old filter, unless g.ahead is true.
 *   (G4) The deltas contain every key with a sequence number above g.delta_from.
 *   (G5) No file with a generation below g.generation is accepted without BG_SLOT_ANY_GENERATION.
 *
 * guard_loses is the only function that decides whether a change may lose adds.
 *
 * Sequence numbers. bg_slot_complete_to returns a sequence number, which grows with the writes to
 * the backing store. A file that is complete up to N contains all keys numbered up to N, so it may
 * replace a base whose keys are all numbered up to N. An add has no sequence number at first. It
 * gets one when the caller next advances the slot. So each filter records how many advances had
 * occurred when its last add ended (view_filter.added), and a mark records how many advances had
 * occurred when the filter stopped accepting adds. If an add was made after the last advance, its
 * sequence number is unknown, and no file replaces the filter without BG_SLOT_DISCARD. A sequence
 * number of 0 means that the caller does not use sequence numbers. A change can lower the
 * completeness, but not the sequence numbers that keys already have: the slot keeps the highest
 * sequence number (bg_slot.highest) until it is cleared.
 *
 *     change               guard afterwards
 *     create               nothing is owed
 *     add, merge           unchanged; view_filter.added of each filter that accepts it is updated
 *     advance              unchanged; the slot counts it
 *     layer                a base that accepted adds is owed up to now; deltas stop accepting adds
 *                          now; the first delta starts now
 *     compact              the base is owed up to where the merged deltas stopped, and the
 *                          remaining delta starts there; during a migration: ahead
 *     migrate              unchanged
 *     settle               unchanged; nothing is ahead. Back: refused while ahead
 *     swap, reload         refused if guard_loses. Keys that were owed are still owed; DISCARD:
 *                          nothing is owed. A file sets generation and key id
 *     rebuild starts       with a delta: layer. Without: unchanged
 *     rebuild fails        unchanged: with a delta, the slot is layered
 *     rebuild ends         if adds were accepted, the base is owed up to the start of the rebuild.
 *                          Of several deltas the last one stays, so that (G4) holds from the
 *                          start of that one
 *     clear                as created
 *     relocate             unchanged (the view moves)
 *     tenant is evicted    its file records the completeness, the generation, and whether the
 *                          base ended doubts (gate_doubt.c)
 *     tenant is reloaded   create, advance and bg_slot_require_generation from its file. Nothing
 *                          is owed: only a base without deltas is saved, and one that accepted
 *                          adds accepts adds again. Its keys have no numbers until the next
 *                          advance
 *     service restarts     the same from the journal: see object_describe in command/object.h
 */
#ifndef BGI_GUARD_H
#define BGI_GUARD_H

#include "bloomgate/file.h"

#include <stdbool.h>
#include <stdint.h>

/* A point in time, expressed as completeness. */
struct guard_mark {
    uint64_t complete; /* the value of bg_slot_complete_to */
    /* The highest value of bg_slot_complete_to so far, or 0 if sequence numbers are not used. */
    uint64_t number;
    uint64_t advances; /* number of bg_slot_advance calls */
};

struct guard {
    bool owes;               /* (G1) */
    bool ahead;              /* (G3) */
    struct guard_mark base;  /* (G2) */
    struct guard_mark delta; /* when the current delta started to accept adds */
    uint64_t delta_from;     /* (G4) */
    uint64_t generation;     /* (G5) */
    /* The key id of the last file that was loaded, and the check value of its hasher. Both are 0 if
     * there was no file. */
    uint8_t key_id[BG_KEY_ID_BYTES];
    uint64_t key_check;
};

/* A change that removes filters from the list. */
struct guard_drop {
    bool back;         /* only the base is removed; the old filter replaces it */
    bool takes;        /* a filter that accepts adds is removed */
    uint64_t added;    /* the highest view_filter.added of the removed filters */
    uint64_t complete; /* the sequence number up to which the replacement is complete */
};

/* Returns whether the change may lose an acknowledged key. */
bool guard_loses(const struct guard *guard, const struct guard_drop *drop);

/* Returns the completeness of a slot whose base is complete up to `base`. If the slot has a delta
 * that started early enough, the delta contains the keys that are missing from the base. */
uint64_t guard_complete(const struct guard *guard, bool has_delta, uint64_t complete,
                        uint64_t base);

/* ---- The next guard, for each kind of change ----------------------------------------------- */

/* All filters stop accepting adds, and a new delta starts. */
void guard_layered(struct guard *guard, struct guard_mark now, bool base_took,
                   bool had_delta);

/* The deltas that no longer accept adds have been merged into the base. */
void guard_compacted(struct guard *guard, bool migrating);

/* The migration is over. */
void guard_settled(struct guard *guard);

/* The base was replaced. */
void guard_swapped(struct guard *guard, bool discards);

/* The base was loaded from a file with this generation and key id. `check` is the check value of
 * its hasher. */
void guard_filed(struct guard *guard, const bg_file_info *about, uint64_t check);

struct guard_rebuilt {
    struct guard_mark began; /* when the new filter or delta started to accept adds */
    bool took;               /* a filter accepted adds */
    bool layered;            /* the last delta stays, and the others are removed */
};

void guard_rebuilt(struct guard *guard, const struct guard_rebuilt *how);

#endif
