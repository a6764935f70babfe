/*
 * rebuild.h - the phases of a rebuild, for those who have the keys: see rebuild.c.
 *
 *     rebuild_check, rebuild_claim, rebuild_open, rebuild_put any number of times, rebuild_close
 *
 * After rebuild_claim has succeeded rebuild_close must be called, whatever comes of the others.
 * It is told the error that there was, if any, and then leaves the slot as it was.
 */
#ifndef BGI_REBUILD_H
#define BGI_REBUILD_H

#include "bloomgate/builder.h"
#include "gate/slot_inside.h"

struct bg_rebuild {
    bg_slot *slot;
    bg_rebuild_options how;
    uint64_t began;
    bg_builder *builder; /* of a static kind, for one thread at a time ... */
    pthread_mutex_t building;
    bg_filter *filter;        /* ... or the filter itself */
    struct view_filter *next; /* once it is in the slot's list */
    bool sealed;              /* nobody takes adds */
    struct guard_mark joined; /* when `next` began to take adds */
    uint64_t making;          /* see slot_making */
    _Atomic uint64_t keys;    /* keys that were put */
    atomic_int refused; /* the first error of rebuild_put, or BG_OK: it lacks keys */
    struct bgi_memory memory; /* of this; empty base: its caller's */
};

/* Whether that is a slot, and options for it. */
bg_err rebuild_check(const bg_slot *slot, const bg_rebuild_options *options,
                     bg_errinfo *info);

/* Begins `r`. BG_EBUSY: somebody else is at it. */
bg_err rebuild_claim(struct bg_rebuild *r, bg_slot *slot,
                     const bg_rebuild_options *options, bg_errinfo *info);

/* Makes the new filter, for `expected` keys unless the options say how many, and lets it
 * take adds. */
bg_err rebuild_open(struct bg_rebuild *r, uint64_t expected, bg_errinfo *info);

/* Puts keys of the truth into it. Any number of threads may. */
bg_err rebuild_put(struct bg_rebuild *r, bg_keys keys, bg_errinfo *info);

/* Ends it: with the new base in place, or with an error, `err` if that is one; `why` is
 * what the slot keeps of it. Gives back all but r->memory. */
bg_err rebuild_close(struct bg_rebuild *r, bg_err err, bg_rebuild_report *report,
                     bg_errinfo *why);

double rebuild_seconds(const struct bg_rebuild *r);

#endif
