/*
 * rebuild.h - the phases of a rebuild (see rebuild.c), for the files that supply the keys.
 *
 *     rebuild_check, rebuild_claim, rebuild_open, rebuild_put any number of times, rebuild_close
 *
 * After rebuild_claim has succeeded, rebuild_close must be called, even if another phase fails. If
 * a phase fails, pass its error to rebuild_close, which then keeps the slot's current filters.
 */
#ifndef BGI_REBUILD_H
#define BGI_REBUILD_H

#include "bloomgate/builder.h"
#include "gate/slot_inside.h"

struct bg_rebuild {
    bg_slot *slot;
    bg_rebuild_options how;
    uint64_t began;
    bg_builder *builder; /* for static kinds; one thread at a time may use it */
    pthread_mutex_t building;
    bg_filter *filter;        /* the new filter; NULL while it is being built */
    struct view_filter *next; /* the filter in the slot's list that accepts adds */
    bool sealed;              /* no filter in the slot accepts adds */
    struct guard_mark joined; /* when `next` started to accept adds */
    uint64_t making;          /* see slot_making */
    _Atomic uint64_t keys;    /* number of keys added */
    atomic_int refused;       /* the first error from rebuild_put, or BG_OK */
    struct bgi_memory memory; /* this struct's memory, unless the caller provided it */
};

/* Checks the slot and the options. */
bg_err rebuild_check(const bg_slot *slot, const bg_rebuild_options *options,
                     bg_errinfo *info);

/* Starts `r`. Returns BG_EBUSY if another rebuild is in progress. */
bg_err rebuild_claim(struct bg_rebuild *r, bg_slot *slot,
                     const bg_rebuild_options *options, bg_errinfo *info);

/* Creates the new filter, sized for `expected` keys unless the options specify a number, and makes
 * it accept adds. */
bg_err rebuild_open(struct bg_rebuild *r, uint64_t expected, bg_errinfo *info);

/* Records that keys are missing from the new filter, so that rebuild_close fails with `err`.
 * Returns `err`. */
bg_err rebuild_refuse(struct bg_rebuild *r, bg_err err);

/* Adds keys from the backing store. Any number of threads may call this function. */
bg_err rebuild_put(struct bg_rebuild *r, bg_keys keys, bg_errinfo *info);

/* Ends the rebuild. If `err` is BG_OK, installs the new base. Otherwise fails with `err`, and the
 * slot records `why` as the reason. Frees everything except r->memory. */
bg_err rebuild_close(struct bg_rebuild *r, bg_err err, bg_rebuild_report *report,
                     bg_errinfo *why);

double rebuild_seconds(const struct bg_rebuild *r);

#endif
