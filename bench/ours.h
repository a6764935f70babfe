/*
 * ours.h - Bloomgate filters as subjects of the harness.
 *
 * Adds need fresh keys; otherwise, every bit would already be set. Therefore, a filter for adds is
 * filled with n / 2 keys, and its state is saved. Every visit restores this state and then adds
 * keys that are not in the filter. The filter uses memory whose pages have already been touched
 * (bg_filter_create_at). As a result, the measured time includes no page faults and no clearing,
 * and the filter is between half full and full, as in real use. Rows measured in this way are named
 * "add". Rows named "re-add" add keys that are already present. Rows named "build" measure a
 * complete build, which clears the filter and adds all n keys. Their time includes the page faults
 * for memory that clearing returned to the kernel.
 */
#ifndef BGB_OURS_H
#define BGB_OURS_H

#include "harness.h"
#include "keys.h"
#include "region.h"

#include "bloomgate/all.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A filter in its own memory, and a saved state to restore. */
struct bgb_arena {
    struct bgb_region region;
    struct bgb_region saved;
    bg_filter *filter;
};

/* Creates the filter, fills it with `fill` present keys and saves its state; if `fill` is 0, saves
 * no state. The filter starts `skew` bytes (a multiple of 64) after the start of a page, because
 * many filters at the same page offset would compete for the same cache sets. Exits on error. */
void bgb_arena_make(struct bgb_arena *arena, const bg_spec *spec, uint64_t fill,
                    size_t skew);
void bgb_arena_save(struct bgb_arena *arena);
void bgb_arena_rewind(struct bgb_arena *arena);
void bgb_arena_free(struct bgb_arena *arena);

/* Creates a filter with n present keys, in memory allocated by the library. Exits on
 * error. */
bg_filter *bgb_filter_make(const bg_spec *spec, uint64_t n);

/* Returns a spec for n keys of the given kind at the given rate. */
bg_spec bgb_spec(uint32_t kind, uint64_t n, double rate, uint32_t flags);

/* How keys are passed. "bytes" passes records as (pointer, length) pairs; "fixed" passes the same
 * records as contiguous memory. */
enum bgb_form {
    BGB_FORM_HASH,
    BGB_FORM_U64,
    BGB_FORM_BYTES,
    BGB_FORM_FIXED,
    BGB_FORMS
};

/* The keys to use, and whether they are added or looked up. */
enum bgb_load {
    BGB_LOAD_ABSENT,
    BGB_LOAD_PRESENT,
    BGB_LOAD_MIXED,
    BGB_LOAD_ADD,
    BGB_LOAD_READD
};

/* Keys per call: one, 32 (RocksDB's batch size), or all keys of the pass. */
enum bgb_grain { BGB_GRAIN_ONE, BGB_GRAIN_32, BGB_GRAIN_ALL };

struct bgb_ours {
    bg_filter *filter;
    struct bgb_arena *arena; /* for adds only */
    const uint64_t *words;   /* hashes or integers */
    const bg_bytes *bytes;
    uint64_t *bitmap;
};

/* Description of a subject. */
struct bgb_ours_what {
    enum bgb_form form;
    enum bgb_load load;
    enum bgb_grain grain;
};

/*
 * Turns `filter` (or `arena`, for adds) into a subject. The bounds for its fraction of positives
 * are derived from the filter's rate. `state` must not move while the subject is in use. Adds are
 * checked once here: a lookup of every added key must be positive.
 */
void bgb_ours_prepare(struct bgb_ours *state, struct bgb_subject *subject,
                      const struct bgb_keys *keys, struct bgb_ours_what what,
                      bg_filter *filter, struct bgb_arena *arena);
void bgb_ours_free(struct bgb_ours *state);

/* Looks up `trials` absent keys and returns the number of false positives. */
uint64_t bgb_ours_false_positives(const bg_filter *filter, uint64_t trials);

/* Returns the bits per key of a filter with n keys. */
double bgb_ours_bits_per_key(const bg_filter *filter, uint64_t n);

#endif
