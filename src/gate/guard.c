/* guard.c - see guard.h. */
#include "gate/guard.h"

#include <string.h>

/* Returns whether a base that is complete up to drop->complete contains all keys that are owed
 * according to the guard. */
static bool guard_covers(const struct guard *guard, const struct guard_drop *drop)
{
    const bool numbered = guard->base.number > 0 && drop->added <= guard->base.advances;
    return numbered && drop->complete >= guard->base.number;
}

bool guard_loses(const struct guard *guard, const struct guard_drop *drop)
{
    return drop->back ? guard->ahead
                      : drop->takes || (guard->owes && !guard_covers(guard, drop));
}

uint64_t guard_complete(const struct guard *guard, bool has_delta, uint64_t complete,
                        uint64_t base)
{
    return has_delta && base >= guard->delta_from && complete > base ? complete : base;
}

void guard_layered(struct guard *guard, struct guard_mark now, bool base_took,
                   bool had_delta)
{
    if (base_took) {
        guard->owes = true;
        guard->base = now;
    }
    if (!had_delta) {
        guard->delta_from = now.complete;
    }
    guard->delta = now;
}

void guard_compacted(struct guard *guard, bool migrating)
{
    guard->owes = true;
    guard->base = guard->delta;
    guard->delta_from = guard->delta.number;
    guard->ahead = guard->ahead || migrating;
}

void guard_settled(struct guard *guard)
{
    guard->ahead = false;
}

void guard_swapped(struct guard *guard, bool discards)
{
    guard->ahead = false;
    guard->owes = guard->owes && !discards;
}

void guard_filed(struct guard *guard, const bg_file_info *about, uint64_t check)
{
    guard->generation = about->generation;
    memcpy(guard->key_id, about->key_id, sizeof guard->key_id);
    guard->key_check = check;
}

void guard_rebuilt(struct guard *guard, const struct guard_rebuilt *how)
{
    guard->ahead = false;
    if (how->took) {
        guard->owes = true;
        guard->base = how->began;
    }
    if (how->layered) {
        guard->delta_from = guard->delta.complete;
    }
}
